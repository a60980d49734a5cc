/* Index-parallel dimensions of gather and scatter, S-204: an index component that counts along a
 * dimension of the indices picks the element of that number, on every device its own. */
#include "partition/gs.h"

/* The iota dimension of an array whose elements equal their coordinate along it; -1: none. Array and
 * dims as the instruction has them. */
static int iota_dim(const struct module *m, instr_id i, int guard)
{
    for (; guard > 0; guard--) {
        const struct instr *in = instr_at(m, i);
        const struct shape *x = shape_get(m->ir, in->shape);
        if (in->op == OP_IOTA)
            return (int)instr_int(in, ATTR_IOTA_DIMENSION, -1);
        if (in->op == OP_COPY || in->op == OP_CONVERT) {
            i = in->operands[0];
            continue;
        }
        if (in->op == OP_BROADCAST) {
            int n, d = iota_dim(m, in->operands[0], guard - 1);
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
    int d = iota_dim(m, part, 8);
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
