/* A dynamic-slice of a dynamic-slice. XLA's compilers fold the two into one by adding the starts, and a
 * gather of one slice is a dynamic-slice to them; where the inner start is out of range it is
 * clamped after the addition then, which is another element. A shard is cut with its own start out
 * of what the program's instruction yields, so starts that the program computes are clamped first. */
#include "partition/ops.h"

static bool is_ours(const struct spmd *s, instr_id n)
{
    return (int64_t)n.i < s->info.n && s->info.v[n.i].glue;
}

/* A clone of node x with other operands. */
static instr_id with_operands(struct spmd *s, instr_id x, int64_t nop, const instr_id *ops)
{
    const struct instr *in = instr_at(s->out, x);
    return emit(s, (enum op_kind)in->op, in->shape, nop, ops, in->nattrs, in->attrs);
}

static instr_id bounded_dynamic_slice(struct spmd *s, instr_id x)
{
    const struct instr *in = instr_at(s->out, x);
    const struct shape *from = node_shape(s, in->operands[0]), *to = node_shape(s, x);
    if (in->noperands != (uint32_t)from->rank + 1 || from->rank > OPS_MAX_RANK)
        return x;
    instr_id ops[OPS_MAX_RANK + 1] = { in->operands[0] };
    bool open = false;
    for (int d = 0; d < from->rank; d++) {
        ops[d + 1] = in->operands[d + 1];
        open = open || !is_ours(s, ops[d + 1]);
    }
    if (!open)
        return x;
    for (int d = 0; d < from->rank; d++)
        ops[d + 1] = emit_clamped_s32(s, ops[d + 1], from->dims[d] - to->dims[d]);
    return with_operands(s, x, from->rank + 1, ops);
}

/* Highest start a component, along the index vector. */
static instr_id highest_starts(struct spmd *s, instr_id x, enum dtype t)
{
    const struct instr *in = instr_at(s->out, x);
    const struct shape *from = node_shape(s, in->operands[0]), *at = node_shape(s, in->operands[1]);
    int n, nsizes, vector = (int)instr_int(in, ATTR_INDEX_VECTOR_DIM, at->rank);
    const int64_t *map = instr_ints(in, ATTR_START_INDEX_MAP, &n);
    const int64_t *sizes = instr_ints(in, ATTR_SLICE_SIZES, &nsizes);
    instr_id parts[OPS_MAX_RANK];
    int64_t one = 1;
    for (int i = 0; i < n; i++) {
        int64_t high = from->dims[map[i]] - sizes[map[i]];
        parts[i] = emit_reshape(s, emit_const_i(s, t, high), 1, &one);
    }
    if (vector >= at->rank)
        return emit_broadcast_scalar(s, emit_reshape(s, parts[0], 0, NULL), at->rank, at->dims);
    return emit_broadcast(s, emit_concat(s, n, parts, 0), at->rank, at->dims, &vector);
}

static instr_id bounded_gather(struct spmd *s, instr_id x)
{
    const struct instr *in = instr_at(s->out, x);
    const struct shape *at = node_shape(s, in->operands[1]);
    int n, nbatch;
    (void)instr_ints(in, ATTR_START_INDEX_MAP, &n);
    (void)instr_ints(in, ATTR_OPERAND_BATCHING_DIMS, &nbatch);
    int64_t vector = instr_int(in, ATTR_INDEX_VECTOR_DIM, at->rank);
    bool one = at->count == (vector < at->rank ? n : 1);
    if (!one || n == 0 || n > OPS_MAX_RANK || nbatch > 0 || is_ours(s, in->operands[1]))
        return x;
    instr_id start = in->operands[1];
    if (dtype_bits(at->dtype) < 32)
        start = emit_convert(s, start, DTYPE_S32);
    enum dtype t = node_shape(s, start)->dtype;
    start = emit_arith(s, OP_MINIMUM, start, highest_starts(s, x, t));
    if (dtype_kind(t) == DTYPE_KIND_SIGNED) {
        const struct shape *sh = node_shape(s, start);
        instr_id zero = emit_broadcast_scalar(s, emit_zero(s, t), sh->rank, sh->dims);
        start = emit_arith(s, OP_MAXIMUM, start, zero);
    }
    instr_id ops[2] = { instr_at(s->out, x)->operands[0], start };
    return with_operands(s, x, 2, ops);
}

instr_id bounded_piece(struct spmd *s, instr_id x)
{
    switch (instr_at(s->out, x)->op) {
    case OP_DYNAMIC_SLICE:
        return bounded_dynamic_slice(s, x);
    case OP_GATHER:
        return bounded_gather(s, x);
    default:
        return x;
    }
}
