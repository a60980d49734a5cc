/* Live ranges of one computation.
 *
 * Every leaf of every kernel is a value; what only forwards (tuples, reshapes, barriers) shares its
 * operand's. A value lives from its kernel to its last user. Rules of storage:
 *  - a loop's carry, an output and an aliased argument are the caller's storage: what is written into
 *    them needs none, as long as the old content has no later reader;
 *  - a loop keeps a leaf that it does not change where it is; the start value of a changed leaf
 *    becomes the carry when nobody else reads it, else it is copied;
 *  - dynamic-update-slice, scatter, sort and elementwise kernels write over an operand of the same
 *    size that dies there.
 * What a called computation needs inside is added at the kernel that calls it. */
#include "cost/live.h"

#include <string.h>

#include "base/fail.h"

static const struct instr *at(const struct liver *l, instr_id i)
{
    return instr_at(l->p->module, i);
}

static int64_t nleaves(const struct liver *l, instr_id i)
{
    return shape_get(l->p->module->ir, at(l, i)->shape)->nleaves;
}

static int32_t new_value(struct liver *l, struct life *f, struct value v)
{
    (void)l;
    INVARIANT(f->nvalues < INT32_MAX, "too many values");
    v.heir = -1;
    f->values[f->nvalues] = v;
    return (int32_t)f->nvalues++;
}

static int32_t *leaf_values(struct liver *l, instr_id i)
{
    return l->leaves.v + l->start[i.i];
}

/* ---- values of kernels ----------------------------------------------------------------------------- */

/* What a loop carries, an argument, a constant, what only moves elements or converts keep their type, whatever the backend
 * computes in. */
static bool computed(const struct instr *in)
{
    switch ((int)in->op) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_WHILE:
    case OP_CONDITIONAL:
    case OP_CALL:
    case OP_CUSTOM_CALL:
    case OP_BROADCAST:
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_SLICE:
    case OP_PAD:
    case OP_CONCATENATE:
    case OP_GATHER:
    case OP_REVERSE:
    case OP_TRANSPOSE:
    case OP_COPY:
    case OP_CONVERT:
        return false;
    default:
        return true;
    }
}

static bool is_narrow(const struct shape *s)
{
    return s->kind == SHAPE_ARRAY && s->count > 0 && s->rank > 0 &&
           (s->dtype == DTYPE_BF16 || s->dtype == DTYPE_F16 || s->dtype == DTYPE_S8 || s->dtype == DTYPE_U8);
}

static void widened_copy(struct liver *l, struct life *f, instr_id i, uint32_t pos, const struct shape *s)
{
    int64_t bytes;
    if (!mul_ok(s->count, 4, &bytes))
        return;
    (void)new_value(l, f, (struct value){ .bytes = bytes, .instr = i, .leaf = 0, .made = pos, .last = pos,
                                          .place = PLACE_OWN });
}

/* A backend without narrow types converts what it multiplies; what a loop only reads, once before it. */
static void widened(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    const struct instr *in = at(l, i);
    const struct ir *ir = l->p->module->ir;
    if (in->op == OP_DOT || in->op == OP_CONVOLUTION) {
        for (uint32_t o = 0; o < in->noperands; o++) {
            const struct shape *s = shape_get(ir, at(l, in->operands[o])->shape);
            if (!is_narrow(s) || l->p->fused[in->operands[o].i])
                continue;
            const struct value *v = &f->values[leaf_values(l, in->operands[o])[0]];
            if (v->bytes == s->bytes || v->place == PLACE_ARGUMENT)
                widened_copy(l, f, i, pos, s);
        }
    } else if (in->op == OP_WHILE) {
        const int32_t *from = leaf_values(l, in->operands[0]), *to = leaf_values(l, i);
        for (int64_t k = 0; k < nleaves(l, i); k++) {
            const struct shape *s = shape_get(ir, shape_leaf(ir, in->shape, k));
            if (from[k] == to[k] && is_narrow(s) && s->dtype != DTYPE_S8 && s->dtype != DTYPE_U8)
                widened_copy(l, f, i, pos, s);
        }
    }
}

static void fresh(struct liver *l, struct life *f, instr_id i, uint32_t pos, enum place place)
{
    const struct instr *in = at(l, i);
    int64_t n = nleaves(l, i);
    for (int64_t k = 0; k < n; k++) {
        struct value v = { .bytes = leaf_bytes(l->p->module, in->shape, k, l->o->widen && computed(in)),
                           .instr = i, .leaf = (int32_t)k, .made = pos, .last = pos, .place = (uint8_t)place };
        leaf_values(l, i)[k] = new_value(l, f, v);
    }
}

static void parameter(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    fresh(l, f, i, pos, PLACE_ARGUMENT);
    int64_t first = f->arg_first[instr_param_number(at(l, i))], n = nleaves(l, i);
    for (int64_t k = 0; k < n; k++) {
        int32_t v = leaf_values(l, i)[k];
        f->values[v].number = (int32_t)(first + k);
        f->arg_value[first + k] = v;
    }
}

static void forward(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    const struct instr *in = at(l, i);
    int32_t *to = leaf_values(l, i);
    if (in->op == OP_TUPLE) {
        for (uint32_t o = 0; o < in->noperands; o++) {
            int64_t n = nleaves(l, in->operands[o]);
            if (l->p->fused[in->operands[o].i]) { /* computed behind the barrier that the tuple goes into */
                *to++ = new_value(l, f, (struct value){ .instr = i, .leaf = (int32_t)(to - leaf_values(l, i)), .made = pos, .last = pos });
                continue;
            }
            memcpy(to, leaf_values(l, in->operands[o]), (size_t)n * sizeof *to);
            to += n;
        }
        return;
    }
    int64_t from = 0;
    if (in->op == OP_GET_TUPLE_ELEMENT)
        from = shape_leaf_offset(l->p->module->ir, at(l, in->operands[0])->shape,
                                 instr_int(in, ATTR_INDEX, 0));
    memcpy(to, leaf_values(l, in->operands[0]) + from, (size_t)nleaves(l, i) * sizeof *to);
}

static bool is_start(enum op_kind op)
{
    return op == OP_ALL_GATHER_START || op == OP_COLLECTIVE_PERMUTE_START || op == OP_ASYNC_START ||
           op == OP_COPY_START;
}

/* The result of an asynchronous pair is the second element of what its start makes (copy-start: the
 * first); an all-reduce-start's is the result itself. */
static void done(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    const struct instr *in = at(l, i), *start = at(l, in->operands[0]);
    const struct shape *s = shape_get(l->p->module->ir, start->shape);
    int64_t n = nleaves(l, i), from = 0;
    if (s->kind == SHAPE_TUPLE && is_start((enum op_kind)start->op) && s->nelems > 1 && start->op != OP_COPY_START)
        from = shape_leaf_offset(l->p->module->ir, start->shape, 1);
    if (from + n > s->nleaves) {
        fresh(l, f, i, pos, PLACE_OWN);
        return;
    }
    memcpy(leaf_values(l, i), leaf_values(l, in->operands[0]) + from, (size_t)n * sizeof(int32_t));
}

/* Leaf k of a loop whose body hands it on untouched stays what came in. */
static void loop(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    const struct instr *in = at(l, i);
    const struct attr *body = instr_attr(in, ATTR_BODY);
    fresh(l, f, i, pos, PLACE_OWN);
    if (!body || body->type != ATTR_TYPE_COMP)
        return;
    const struct life *b = &l->lives[body->comp.i];
    int32_t *to = leaf_values(l, i);
    const int32_t *from = leaf_values(l, in->operands[0]);
    for (int64_t k = 0; k < b->nresults && k < nleaves(l, i); k++)
        if (b->passes[k] == k) {
            f->values[to[k]].bytes = 0; /* it is nobody's */
            to[k] = from[k];
        }
}

static bool is_done(enum op_kind op)
{
    return op == OP_ALL_GATHER_DONE || op == OP_ALL_REDUCE_DONE || op == OP_COLLECTIVE_PERMUTE_DONE ||
           op == OP_ASYNC_DONE || op == OP_ASYNC_UPDATE || op == OP_COPY_DONE;
}

static void make_values(struct liver *l, struct life *f)
{
    const struct cost_plan *p = l->p;
    const instr_id *order = p->order[f->comp.i];
    uint32_t n = p->norder[f->comp.i];
    int64_t total = 0;
    l->leaves.n = 0;
    for (uint32_t k = 0; k < n; k++) {
        l->start[order[k].i] = total;
        total += nleaves(l, order[k]);
    }
    if (total > l->leaves.cap) {
        l->leaves.v = ARENA_ARRAY(&l->tmp, int32_t, total);
        l->leaves.cap = total;
    }
    int64_t copies = 0;
    for (uint32_t k = 0; l->o->widen && k < n; k++)
        copies += at(l, order[k])->op == OP_WHILE ? nleaves(l, order[k]) : at(l, order[k])->noperands;
    f->values = ARENA_ARRAY(l->arena, struct value, total + copies + 1);
    for (uint32_t k = 0; k < n; k++) {
        const struct instr *in = at(l, order[k]);
        if (op_forwards(p->module, in))
            forward(l, f, order[k], k);
        else if (in->op == OP_PARAMETER)
            parameter(l, f, order[k], k);
        else if (in->op == OP_WHILE)
            loop(l, f, order[k], k);
        else if (is_done((enum op_kind)in->op))
            done(l, f, order[k], k);
        else
            fresh(l, f, order[k], k, in->op == OP_CONSTANT ? PLACE_CONSTANT : PLACE_OWN);
        if (l->o->widen)
            widened(l, f, order[k], k);
    }
}

/* ---- uses ---------------------------------------------------------------------------------------------- */

static void use(struct liver *l, struct life *f, instr_id x, uint32_t pos)
{
    const int32_t *v = leaf_values(l, x);
    for (int64_t k = nleaves(l, x); k-- > 0;)
        if (f->values[v[k]].last < pos)
            f->values[v[k]].last = pos;
}

static void find_uses(struct liver *l, struct life *f)
{
    const struct cost_plan *p = l->p;
    const instr_id *order = p->order[f->comp.i];
    uint32_t n = p->norder[f->comp.i];
    for (uint32_t k = 0; k < n; k++) {
        const struct instr *in = at(l, order[k]);
        if (op_forwards(p->module, in))
            continue;
        for (uint32_t e = p->ext_start[order[k].i]; e < p->ext_start[order[k].i + 1]; e++)
            use(l, f, p->ext[e], k);
    }
    use(l, f, comp_at(p->module, f->comp)->root, n);
}

/* ---- storage that the caller gives ------------------------------------------------------------------------ */

static bool writes_in_place(const struct module *m, const struct instr *in)
{
    int64_t into;
    return updated_by(m, in, &into).i || in->op == OP_SCATTER || in->op == OP_SORT;
}

/* Whether a kernel made at this position may write into the storage of argument leaf `arg`. */
static bool free_by(const struct liver *l, const struct life *f, int64_t arg, const struct value *v)
{
    int32_t a = f->arg_value[arg];
    if (a < 0)
        return true;
    const struct value *old = &f->values[a];
    if (old->last < v->made)
        return true;
    const struct instr *in = at(l, v->instr);
    return old->last == v->made && old->bytes == v->bytes &&
           (writes_in_place(l->p->module, in) || in->op == OP_WHILE || instr_is_elementwise(l->p->module, v->instr));
}

/* Argument leaf that lives in the storage of result leaf k; -1: none. Bodies carry leaf by leaf. */
static int64_t stored_with(const struct liver *l, const struct life *f, int64_t k)
{
    if (l->alias && f->comp.i == l->p->module->entry.i)
        return l->alias[k];
    return f->nargs == f->nresults ? k : -1;
}

static void give(const struct liver *l, struct life *f, struct value *v, int64_t k)
{
    if (v->place != PLACE_OWN)
        return;
    int64_t arg = stored_with(l, f, k);
    if (arg >= 0 && !free_by(l, f, arg, v))
        return;
    v->place = PLACE_RESULT;
    v->number = (int32_t)k;
}

static void results(struct liver *l, struct life *f)
{
    instr_id root = comp_at(l->p->module, f->comp)->root;
    const int32_t *v = leaf_values(l, root);
    f->nresults = nleaves(l, root);
    f->passes = ARENA_ARRAY(l->arena, int32_t, f->nresults + 1);
    for (int64_t k = 0; k < f->nresults; k++) {
        struct value *x = &f->values[v[k]];
        f->passes[k] = x->place == PLACE_ARGUMENT ? x->number : -1;
    }
    for (int64_t k = 0; k < f->nresults; k++)
        give(l, f, &f->values[v[k]], k);
}

/* u is what a kernel at pos writes over to make v: one storage, counted with u. */
static void hand_over(const struct liver *l, struct life *f, struct value *u, struct value *v, uint32_t pos)
{
    if (u->place != PLACE_OWN || u->last != pos || u->bytes != v->bytes || u == v || v->bytes == 0)
        return;
    if (v->place == PLACE_RESULT)
        give(l, f, u, v->number);
    if (u->place != v->place)
        return;
    u->last = v->last;
    u->heir = (int32_t)(v - f->values);
    v->bytes = 0;
}

/* Results of these have the shape of an operand, element by element. */
static bool elementwise_kernel(const struct module *m, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    return op_is_elementwise_unary(op) || op_is_elementwise_binary(op) || op == OP_SELECT ||
           op == OP_CLAMP || op == OP_COMPARE || op == OP_CONVERT ||
           (op == OP_FUSION && shape_get(m->ir, in->shape)->kind == SHAPE_ARRAY);
}

static void share(struct liver *l, struct life *f, instr_id i, uint32_t pos)
{
    const struct cost_plan *p = l->p;
    const struct instr *in = at(l, i);
    const int32_t *to = leaf_values(l, i);
    int64_t n = nleaves(l, i);
    if (in->op == OP_WHILE) {
        const int32_t *from = leaf_values(l, in->operands[0]);
        for (int64_t k = 0; k < n; k++)
            if (from[k] != to[k])
                hand_over(l, f, &f->values[from[k]], &f->values[to[k]], pos);
        return;
    }
    int64_t into;
    if (updated_by(p->module, in, &into).i) {
        if (!p->fused[in->operands[into].i] && nleaves(l, in->operands[into]) == 1)
            hand_over(l, f, &f->values[leaf_values(l, in->operands[into])[0]], &f->values[to[0]], pos);
        return;
    }
    for (int64_t k = 0; writes_in_place(p->module, in) && k < n && k < in->noperands; k++)
        if (!p->fused[in->operands[k].i] && nleaves(l, in->operands[k]) == 1)
            hand_over(l, f, &f->values[leaf_values(l, in->operands[k])[0]], &f->values[to[k]], pos);
}

/* Backwards: who writes into given storage is known before those whose place it takes. */
static void find_sharing(struct liver *l, struct life *f)
{
    const struct cost_plan *p = l->p;
    const instr_id *order = p->order[f->comp.i];
    for (uint32_t k = p->norder[f->comp.i]; k-- > 0;)
        if (!op_forwards(p->module, at(l, order[k])))
            share(l, f, order[k], k);
}

/* Operands that an elementwise kernel may write over. */
static void find_over(struct liver *l, struct life *f)
{
    const struct cost_plan *p = l->p;
    const instr_id *order = p->order[f->comp.i];
    for (uint32_t k = 0; k < p->norder[f->comp.i]; k++) {
        instr_id i = order[k];
        if (!elementwise_kernel(p->module, at(l, i)))
            continue;
        struct value *v = &f->values[leaf_values(l, i)[0]];
        for (uint32_t e = p->ext_start[i.i]; e < p->ext_start[i.i + 1] && v->nover < MOST_OVER; e++) {
            if (nleaves(l, p->ext[e]) != 1)
                continue;
            int32_t u = leaf_values(l, p->ext[e])[0];
            if (f->values[u].last == k && f->values[u].bytes == v->bytes && f->values[u].place == PLACE_OWN)
                v->over[v->nover++] = u;
        }
    }
}

static void count_arguments(struct liver *l, struct life *f)
{
    const struct computation *c = comp_at(l->p->module, f->comp);
    f->arg_first = ARENA_ARRAY(l->arena, int64_t, (int64_t)c->nparams + 1);
    for (uint32_t k = 0; k < c->nparams; k++) {
        f->arg_first[k] = f->nargs;
        f->nargs += nleaves(l, c->params[k]);
    }
    f->arg_value = ARENA_ARRAY(l->arena, int32_t, f->nargs + 1);
    for (int64_t k = 0; k < f->nargs; k++)
        f->arg_value[k] = -1;
}

void life_of(struct liver *l, comp_id c)
{
    struct life *f = &l->lives[c.i];
    f->comp = c;
    count_arguments(l, f);
    make_values(l, f);
    find_uses(l, f);
    results(l, f);
    find_sharing(l, f);
    find_over(l, f);
}
