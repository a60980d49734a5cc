/* Index-parallel dimensions of gather and scatter, S-204: an index component that counts along a
 * dimension of the indices picks the element of that number, on every device its own. */
#include "partition/gs.h"

/* The while or conditional that calls a computation; none. The map is made at the first question. */
static instr_id caller_of(struct spmd *s, comp_id c)
{
    if (!s->callers.arena) {
        map_init(&s->callers, &s->arena);
        for (uint32_t k = 1; k <= module_ninstrs(s->src); k++) {
            enum op_kind op = (enum op_kind)instr_at(s->src, (instr_id){ k })->op;
            if (op != OP_WHILE && op != OP_CONDITIONAL)
                continue;
            comp_id called[64];
            int n = instr_called(s->src, (instr_id){ k }, called, 64);
            for (int j = 0; j < n && j < 64; j++)
                map_put(&s->callers, called[j].i, k);
        }
    }
    uint64_t caller = 0;
    return (instr_id){ map_get(&s->callers, c.i, &caller) ? (uint32_t)caller : 0 };
}

static instr_id tuple_part(const struct module *m, instr_id tuple, int64_t k)
{
    const struct instr *in = instr_at(m, tuple);
    bool there = in->op == OP_TUPLE && k >= 0 && k < (int64_t)in->noperands;
    return there ? in->operands[k] : (instr_id){ 0 };
}

/* What an element of a computation's parameter is outside: the initial value of a loop that does
 * not change it, or the element of a branch's argument. none: neither. */
static instr_id from_outside(struct spmd *s, instr_id element)
{
    const struct module *m = s->src;
    const struct instr *gte = instr_at(m, element);
    const struct instr *param = instr_at(m, gte->operands[0]);
    const instr_id none = { 0 };
    if (param->op != OP_PARAMETER || param->comp.i == m->entry.i)
        return none;
    int64_t k = instr_int(gte, ATTR_INDEX, -1);
    instr_id caller = caller_of(s, param->comp);
    if (!caller.i)
        return none;
    const struct instr *call = instr_at(m, caller);
    if (call->op == OP_WHILE) {
        const struct attr *body = instr_attr(call, ATTR_BODY);
        if (!body || body->comp.i != param->comp.i)
            return none;
        instr_id next = tuple_part(m, comp_at(m, param->comp)->root, k);
        if (!next.i)
            return none;
        const struct instr *same = instr_at(m, next);
        bool kept = same->op == OP_GET_TUPLE_ELEMENT && instr_int(same, ATTR_INDEX, -1) == k &&
                    same->operands[0].i == gte->operands[0].i;
        return kept ? tuple_part(m, call->operands[0], k) : none;
    }
    comp_id called[64];
    int n = instr_called(m, caller, called, 64);
    for (int b = 0; b < n && b < 64; b++)
        if (called[b].i == param->comp.i && b + 1 < (int)call->noperands)
            return tuple_part(m, call->operands[b + 1], k);
    return none;
}

/* The iota dimension of an array whose elements equal their coordinate along it; -1: none. */
static int iota_dim(struct spmd *s, instr_id i, int guard)
{
    const struct module *m = s->src;
    for (; guard > 0 && i.i; guard--) {
        const struct instr *in = instr_at(m, i);
        if (in->op == OP_GET_TUPLE_ELEMENT) {
            i = from_outside(s, i);
            continue;
        }
        const struct shape *x = shape_get(m->ir, in->shape);
        if (in->op == OP_IOTA)
            return (int)instr_int(in, ATTR_IOTA_DIMENSION, -1);
        if (in->op == OP_COPY || in->op == OP_CONVERT) {
            i = in->operands[0];
            continue;
        }
        if (in->op == OP_BROADCAST) {
            int n, d = iota_dim(s, in->operands[0], guard - 1);
            const int64_t *map = instr_ints(in, ATTR_DIMENSIONS, &n);
            return d >= 0 && d < n ? (int)map[d] : -1;
        }
        if (in->op != OP_CONSTANT || x->kind != SHAPE_ARRAY || x->dtype != DTYPE_S32 ||
            !in->literal || in->literal->elided || x->count > 1 << 20)
            return -1;
        for (int d = 0; d < x->rank; d++) {
            int64_t inner = 1;
            for (int k = d + 1; k < x->rank; k++)
                inner *= x->dims[k];
            bool counts = x->dims[d] > 1;
            for (int64_t e = 0; counts && e < x->count; e++)
                counts = literal_get_i(m, in->literal, e) == e / inner % x->dims[d];
            if (counts)
                return d;
        }
        return -1;
    }
    return -1;
}

static instr_id through_copies(const struct module *m, instr_id i)
{
    for (int guard = 0; guard < 16 && instr_at(m, i)->op == OP_COPY; guard++)
        i = instr_operand(m, i, 0);
    return i;
}

static bool add_component(struct gs *g, const int64_t *sizes, instr_id part, int component)
{
    const struct module *m = g->s->src;
    int d = iota_dim(g->s, part, 16);
    if (d < 0 || d == g->vector_dim)
        return true;
    int operand = g->map[component];
    for (int i = 0; i < g->parallel.n; i++)
        if (g->parallel.indices[i] == d)
            return false;
    if (sizes[operand] != 1)
        return true;
    for (int i = 0; i < g->batch.n; i++)
        if (g->batch.indices[i] == d)
            return true;
    const struct instr *in = instr_at(m, g->source);
    const struct shape *x = instr_shape(m, in->operands[0]);
    const struct shape *indices = instr_shape(m, in->operands[g->scatter ? g->n : 1]);
    if (x->dims[operand] != indices->dims[d])
        return false;
    int k = g->parallel.n++;
    g->parallel.operand[k] = operand;
    g->parallel.indices[k] = d;
    g->parallel.output[k] = -1;
    for (int i = 0; i < g->all.n; i++)
        if (g->all.indices[i] == d)
            g->parallel.output[k] = g->all.output[i];
    return true;
}

void gs_find_parallel(struct gs *g, const int64_t *sizes)
{
    const struct module *m = g->s->src;
    instr_id indices = through_copies(
        m, instr_operand(m, g->source, (uint32_t)(g->scatter ? g->n : 1)));
    const struct instr *in = instr_at(m, indices);
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    bool ok = true;
    if (in->op == OP_CONCATENATE && n == 1 && dims[0] == g->vector_dim) {
        int component = 0;
        for (uint32_t k = 0; k < in->noperands && ok; k++) {
            int64_t width = instr_shape(m, in->operands[k])->dims[g->vector_dim];
            for (int64_t c = 0; c < width && component < g->nmap && ok; c++)
                ok = add_component(g, sizes, in->operands[k], component++);
        }
    } else {
        for (int c = 0; c < g->nmap && ok; c++)
            ok = add_component(g, sizes, indices, c);
    }
    if (!ok)
        g->parallel.n = 0;
}
