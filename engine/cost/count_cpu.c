/* FLOPs of an operation as XLA's CPU compiler leaves it to be counted: `plain_matrix` and `widen`. What it rewrites
 * before the count, by rules that hold for every program:
 *  - what is the same for every element is computed once, before it is broadcast; a selection by a constant is no operation
 *  - a maximum of a minimum with bounds that are the same for all is one clamp
 *  - the largest k are a library's routine, scattering is a loop over the updates (loops count once): neither counts
 *  - a selection of window elements that scatters is a window over the values and all their coordinates
 *  - random bits are Philox's rounds, written out
 *  - what computes on 16 bits converts what it reads to 32 and its result back; each value once a kernel */
#include <string.h>

#include "cost/internal.h"

struct cpu_counter {
    const struct cost_plan *p;
    bool *uniform;      /* [ninstrs + 1] one value for all elements */
    uint32_t *widened;  /* [ninstrs + 1] kernel that converted it last */
};

static bool is_uniform(const struct cpu_counter *c, const struct instr *in, instr_id i)
{
    const struct module *m = c->p->module;
    const struct shape *s = shape_get(m->ir, in->shape);
    if (s->kind != SHAPE_ARRAY)
        return false;
    if (s->count == 1)
        return true;
    if (in->op == OP_IOTA) {
        int64_t d = instr_int(in, ATTR_IOTA_DIMENSION, -1);
        return d >= 0 && d < s->rank && s->dims[d] == 1;
    }
    if (!instr_is_elementwise(m, i) && in->op != OP_BROADCAST && in->op != OP_RESHAPE && in->op != OP_COPY)
        return false;
    for (uint32_t o = 0; o < in->noperands; o++)
        if (!c->uniform[in->operands[o].i])
            return false;
    return in->noperands > 0;
}

struct cpu_counter *cpu_counter_new(const struct cost_plan *p, struct arena *tmp)
{
    int64_t n = (int64_t)module_ninstrs(p->module) + 2;
    struct cpu_counter *c = ARENA_ARRAY(tmp, struct cpu_counter, 1);
    c->p = p;
    c->uniform = ARENA_ARRAY(tmp, bool, n);
    c->widened = ARENA_ARRAY(tmp, uint32_t, n);
    for (uint32_t i = 1; i <= module_ninstrs(p->module); i++)
        c->uniform[i] = is_uniform(c, instr_at(p->module, (instr_id){ i }), (instr_id){ i });
    return c;
}

/* ---- rewritten operations ---------------------------------------------------------------------------------------- */

/* Ten rounds for four words of 32 bits: two products of 32 by 32 bits (operands converted, high words shifted), four
 * exclusive ors each; then the words of both kinds are joined. */
enum { PHILOX_BLOCK = 4, PHILOX_WORK = 146 };

/* For each coordinate of the winner, and its value: the selection, and what decides between a place not yet taken
 * and one that is. */
enum { WINNER_WORK = 7 };

static double window_size(const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    double n = 1;
    for (int d = 0; a && a->type == ATTR_TYPE_WINDOW && d < a->window->rank; d++)
        n *= (double)a->window->dims[d].size;
    return n;
}

static double random_words(const struct module *m, const struct instr *in)
{
    const struct shape *s = shape_get(m->ir, in->shape);
    const struct shape *last = s->nleaves > 0 ? shape_get(m->ir, shape_leaf(m->ir, in->shape, s->nleaves - 1)) : s;
    return last->kind == SHAPE_ARRAY && last->bytes > 0 ? (double)last->bytes / 4 : 0;
}

static bool constant_below(const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    while ((in->op == OP_BROADCAST || in->op == OP_RESHAPE || in->op == OP_COPY) && in->noperands == 1)
        in = instr_at(m, in->operands[0]);
    return in->op == OP_CONSTANT;
}

/* i is the minimum inside a clamp. */
static bool inside_clamp(const struct cpu_counter *c, instr_id i)
{
    const struct module *m = c->p->module;
    const struct instr *in = instr_at(m, i);
    if (in->op != OP_MINIMUM || users_count(&c->p->users, i) != 1)
        return false;
    const struct instr *by = instr_at(m, users_of(&c->p->users, i)[0]);
    return by->op == OP_MAXIMUM && (c->uniform[in->operands[0].i] || c->uniform[in->operands[1].i]) &&
           c->uniform[by->operands[by->operands[0].i == i.i].i];
}

static void rewritten(const struct cpu_counter *c, instr_id i, struct work *w)
{
    const struct module *m = c->p->module;
    const struct instr *in = instr_at(m, i);
    switch ((int)in->op) {
    case OP_TOPK:
    case OP_SCATTER:
        w->flops = 0;
        return;
    case OP_SELECT:
        if (c->uniform[in->operands[0].i] && constant_below(m, in->operands[0]))
            w->flops = 0;
        return;
    case OP_SELECT_AND_SCATTER: {
        const struct shape *s = instr_shape(m, in->operands[1]);
        w->flops = WINNER_WORK * (double)(s->rank + 1) * (window_size(in) - 1) * (double)max_i64(s->count, 0);
        return;
    }
    case OP_RNG_BIT_GENERATOR:
        w->flops = random_words(m, in) / PHILOX_BLOCK * PHILOX_WORK;
        return;
    default:
        if (inside_clamp(c, i))
            w->flops = 0;
        return;
    }
}

/* ---- 16 bits ---------------------------------------------------------------------------------------------------------- */

static const struct shape *narrow(const struct module *m, shape_id id)
{
    const struct shape *s = shape_get(m->ir, id);
    return s->kind == SHAPE_ARRAY && (s->dtype == DTYPE_BF16 || s->dtype == DTYPE_F16) ? s : NULL;
}

/* Moves elements, or hands them on: in any type. */
static bool any_type(const struct module *m, const struct instr *in)
{
    switch ((int)in->op) {
    case OP_BROADCAST:
    case OP_CONVERT:
    case OP_CONCATENATE:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_GATHER:
    case OP_PAD:
    case OP_REVERSE:
    case OP_TRANSPOSE:
    case OP_IOTA:
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_WHILE:
    case OP_CONDITIONAL:
    case OP_CALL:
    case OP_CUSTOM_CALL:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
    case OP_COLLECTIVE_PERMUTE:
    case OP_BITCAST_CONVERT:
        return true;
    default:
        return op_forwards(m, in);
    }
}

/* What a loop only reads is converted once before it. */
static double before_loop(const struct module *m, const struct instr *in)
{
    const struct attr *body = instr_attr(in, ATTR_BODY);
    double sum = 0;
    if (!body || body->type != ATTR_TYPE_COMP)
        return 0;
    const struct computation *c = comp_at(m, body->comp);
    const struct instr *root = instr_at(m, c->root);
    for (uint32_t k = 0; root->op == OP_TUPLE && k < root->noperands; k++) {
        const struct instr *x = instr_at(m, root->operands[k]);
        const struct shape *s = narrow(m, x->shape);
        if (s && x->op == OP_GET_TUPLE_ELEMENT && x->operands[0].i == c->params[0].i && instr_int(x, ATTR_INDEX, -1) == k)
            sum += (double)max_i64(s->count, 0);
    }
    return sum;
}

static double conversions(struct cpu_counter *c, instr_id i, instr_id kernel)
{
    const struct module *m = c->p->module;
    const struct instr *in = instr_at(m, i);
    double sum = 0;
    if (in->op == OP_WHILE)
        return before_loop(m, in);
    if (any_type(m, in))
        return 0;
    const struct shape *s = narrow(m, in->shape);
    sum += s && s->count > 0 ? (double)s->count : 0;
    for (uint32_t o = 0; o < in->noperands; o++) {
        instr_id x = in->operands[o];
        if (!narrow(m, instr_at(m, x)->shape) || c->widened[x.i] == kernel.i)
            continue;
        c->widened[x.i] = kernel.i;
        if (instr_at(m, x)->op == OP_BROADCAST) /* what is broadcast is converted */
            x = instr_at(m, x)->operands[0];
        s = instr_shape(m, x);
        sum += s->count > 0 && instr_at(m, x)->op != OP_CONSTANT ? (double)s->count : 0;
    }
    return sum;
}

void cpu_work(struct cpu_counter *c, instr_id i, instr_id kernel, struct work *w)
{
    rewritten(c, i, w);
    if (c->uniform[i.i] && instr_is_elementwise(c->p->module, i) && w->flops > 1)
        w->flops = 1;
    if (c->p->options.widen)
        w->flops += conversions(c, i, kernel);
}
