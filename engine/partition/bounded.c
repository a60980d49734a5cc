/* A dynamic-slice of a dynamic-slice. XLA's compilers fold the two into one by adding the starts, and a
 * gather of one slice is a dynamic-slice to them; where the inner start is out of range it is
 * clamped after the addition then, which is another element. A shard is cut with its own start out
 * of what the program's instruction yields, so starts that the program computes are clamped first.
 * A scatter of one update is to them a dynamic-slice, the combination, and a dynamic-update-slice whose
 * starts are clamped alike, which that folding breaks for an update that falls outside. */
#include "partition/gs.h"

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

/* x with one more element on dim, `fill`. */
static instr_id one_more(struct spmd *s, instr_id x, int dim, instr_id fill, bool before)
{
    int64_t low[OPS_MAX_RANK] = { 0 }, high[OPS_MAX_RANK] = { 0 };
    *(before ? &low[dim] : &high[dim]) = 1;
    return emit_pad(s, x, fill, low, high, NULL);
}

/* x with a last dim of size 1. */
static instr_id one_dim_more(struct spmd *s, instr_id x)
{
    const struct shape *sh = node_shape(s, x);
    int64_t dims[OPS_MAX_RANK];
    for (int d = 0; d < sh->rank; d++)
        dims[d] = sh->dims[d];
    dims[sh->rank] = 1;
    return emit_reshape(s, x, sh->rank + 1, dims);
}

static bool is_cut(const struct spmd *s, instr_id x)
{
    const struct instr *in = instr_at(s->out, x);
    while (in->op == OP_RESHAPE || in->op == OP_TRANSPOSE || in->op == OP_COPY)
        in = instr_at(s->out, in->operands[0]);
    return in->op == OP_DYNAMIC_SLICE;
}

int bounded_scatter(struct gs *g, instr_id *ops)
{
    struct spmd *s = g->s;
    instr_id at = ops[g->n];
    const struct shape *i = node_shape(s, at);
    bool cut = false;
    for (int k = 0; k < g->n; k++)
        cut = cut || is_cut(s, ops[k]);
    int pair = 0; /* a dim that isn't one of the operand's batch */
    for (int b = 0; b < g->batch.n && pair < g->all.n; b++)
        if (g->batch.indices[b] == g->all.indices[pair]) {
            pair++;
            b = -1;
        }
    bool vector = g->vector_dim < i->rank, dimless = pair == g->all.n;
    if (!cut || g->nmap == 0 || i->count != (vector ? i->dims[g->vector_dim] : 1) ||
        (dimless && (i->rank == OPS_MAX_RANK || g->output_rank == OPS_MAX_RANK)))
        return -1;
    enum dtype t = i->dtype;
    instr_id nowhere;
    bool before = dtype_kind(t) == DTYPE_KIND_SIGNED; /* sorted indices stay sorted */
    if (before)
        nowhere = emit_const_i(s, t, -1);
    else if (!emit_identity(s, OP_MINIMUM, t, &nowhere))
        return -1;
    int idim = dimless ? i->rank : g->all.indices[pair];
    int udim = dimless ? g->output_rank : g->all.output[pair];
    ops[g->n] = one_more(s, dimless ? one_dim_more(s, at) : at, idim, nowhere, before);
    for (int k = 0; k < g->n; k++) {
        instr_id u = ops[g->n + 1 + k];
        instr_id none = emit_zero(s, node_shape(s, u)->dtype);
        ops[g->n + 1 + k] = one_more(s, dimless ? one_dim_more(s, u) : u, udim, none, before);
    }
    return vector ? g->vector_dim : node_shape(s, ops[g->n])->rank;
}
