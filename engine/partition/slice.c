/* Slice, pad, dynamic-slice, dynamic-update-slice: S-141..S-144. */
#include "partition/ops.h"

static void unzip3(const int64_t *list, int rank, int64_t *a, int64_t *b, int64_t *c)
{
    for (int d = 0; d < rank; d++) {
        a[d] = list[3 * d];
        b[d] = list[3 * d + 1];
        c[d] = list[3 * d + 2];
    }
}

void partition_slice(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct attr *a = instr_attr(in, ATTR_SLICE);
    const struct shape *full = source_shape(s, source);
    if (is_tile_max(s, out) || full->rank > OPS_MAX_RANK || !a) {
        partition_default(s, source, NULL);
        return;
    }
    int64_t start[OPS_MAX_RANK], limit[OPS_MAX_RANK], stride[OPS_MAX_RANK];
    unzip3(a->ints, full->rank, start, limit, stride);
    struct pval res, v = operand_in(s, source, 0, out);
    if (!slice_as_window(s, v, start, limit, stride, in->shape, out, &res)) {
        partition_default(s, source, "no window form of the slice");
        return;
    }
    /* Two slices that are one piece of a halo stay two values, each with what is made of it. */
    bool fresh = res.local.i == module_ninstrs(s->out) && instr_at(s->out, res.local)->op == OP_SLICE;
    if (!fresh)
        res.local = emit_copy(s, res.local);
    set_value(s, source, res);
}

/* Whether negative padding, or none of the operand, leaves nothing but padding along some dim. */
static bool is_all_padding(const struct shape *from, const struct shape *to, const int64_t *low,
                           const int64_t *interior)
{
    for (int d = 0; d < to->rank; d++) {
        int64_t step = min_i64(interior[d], INT64_MAX - 1) + 1, first = 0, at = low[d];
        if (low[d] < 0) { /* the first element that is not cut off, and where it comes to stand */
            int64_t before = -(low[d] + 1);
            first = before / step + 1;
            at = step - 1 - before % step;
        }
        if (first >= from->dims[d] || at >= to->dims[d])
            return true;
    }
    return false;
}

void partition_pad(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct attr *a = instr_attr(in, ATTR_PADDING);
    const struct shape *full = source_shape(s, source);
    if (full->rank > OPS_MAX_RANK || !a) {
        partition_default(s, source, NULL);
        return;
    }
    int64_t low[OPS_MAX_RANK], high[OPS_MAX_RANK], interior[OPS_MAX_RANK];
    unzip3(a->ints, full->rank, low, high, interior);
    if (is_all_padding(source_shape(s, in->operands[0]), full, low, interior)) {
        const struct shape *part = shape_get(s->ir, shard_shape(s, in->shape, out));
        instr_id value = operand_replicated(s, source, 1).local;
        set_value(s, source, pval_make(s, emit_broadcast_scalar(s, value, part->rank, part->dims), in->shape, out));
        return;
    }
    if (is_tile_max(s, out)) {
        partition_default(s, source, NULL);
        return;
    }
    struct pval res, v = operand_value(s, source, 0);
    instr_id value = operand_replicated(s, source, 1).local;
    if (!pad_as_window(s, v, value, low, high, interior, in->shape, out, &res)) {
        partition_default(s, source, "no window form of the padding");
        return;
    }
    set_value(s, source, res);
}

/* Start indices of a dynamic-slice or -update: one scalar an operand from `first` on, or (old form)
 * one vector. Fills starts with replicated scalars; constant 0 for the dims in `full`. */
static void start_indices(struct spmd *s, instr_id source, uint32_t first, int rank, uint64_t full,
                          instr_id *starts)
{
    const struct instr *in = instr_at(s->src, source);
    bool vector = in->noperands == first + 1 &&
                  source_shape(s, in->operands[first])->rank == 1;
    instr_id all = { 0 };
    enum dtype t = rank > 0 ? source_shape(s, in->operands[first])->dtype : DTYPE_S32;
    if (vector)
        all = operand_replicated(s, source, first).local;
    for (int d = 0; d < rank; d++) {
        if (full & bit(d)) {
            starts[d] = emit_const_i(s, t, 0);
        } else if (vector) {
            int64_t a = d, b = d + 1;
            starts[d] = emit_reshape(s, emit_slice(s, all, &a, &b, NULL), 0, NULL);
        } else {
            starts[d] = operand_replicated(s, source, first + (uint32_t)d).local;
        }
    }
}

/* Whether start index d of the source is a constant, and which. */
static bool constant_start(struct spmd *s, instr_id source, uint32_t first, int rank, int d,
                           int64_t *v)
{
    const struct instr *in = instr_at(s->src, source);
    if (in->noperands != first + (uint32_t)rank)
        return false;
    return constant_index(s->src, in->operands[first + (uint32_t)d], v);
}

/* S-143. A clone with scalar starts: the sizes are the shard's. */
void partition_dynamic_slice(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct shape *to = source_shape(s, source), *from = source_shape(s, in->operands[0]);
    bool cut = false;
    uint64_t full = 0;
    for (int d = 0; d < to->rank; d++) {
        bool same = to->dims[d] == from->dims[d];
        cut = cut || (!same && tiles_on(s, out, d) > 1);
        full |= same ? bit(d) : 0;
    }
    if (is_tile_max(s, out) || to->rank > OPS_MAX_RANK || cut) {
        partition_default(s, source, NULL);
        return;
    }
    instr_id starts[OPS_MAX_RANK];
    instr_id x = operand_in(s, source, 0, out).local;
    start_indices(s, source, 1, to->rank, full, starts);
    const struct shape *shard = shape_get(s->ir, shard_shape(s, in->shape, out));
    finish(s, source, emit_dynamic_slice(s, x, starts, shard->dims), out);
}

/* ---- dynamic-update-slice, S-144 ---------------------------------------------------------------- */

struct dus {
    instr_id source;
    sharding_id out;
    const struct shape *base, *update;
    uint64_t sliced;   /* dims that the update does not fill */
    uint64_t narrow;   /* C: tiled, sliced, with a constant index or one element */
    uint64_t wide;     /* V: tiled, sliced, any index */
    uint64_t whole;    /* N: tiled and not sliced */
};

static struct dus dus_classify(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct dus u = { .source = source, .out = source_sharding(s, source) };
    u.base = source_shape(s, source);
    u.update = source_shape(s, in->operands[1]);
    for (int d = 0; d < u.base->rank; d++) {
        bool sliced = u.update->dims[d] != u.base->dims[d];
        int64_t at;
        if (sliced)
            u.sliced |= bit(d);
        if (tiles_on(s, u.out, d) == 1)
            continue;
        if (!sliced)
            u.whole |= bit(d);
        else if (u.update->dims[d] == 1 || constant_start(s, source, 2, u.base->rank, d, &at))
            u.narrow |= bit(d);
        else
            u.wide |= bit(d);
    }
    return u;
}

/* Base and update with the sliced dims whole, as the base is tiled elsewhere. */
static void dus_whole_dims(struct spmd *s, const struct dus *u)
{
    int keep[OPS_MAX_RANK], n = bits_to_dims(u->whole, u->base->rank, keep);
    instr_id starts[OPS_MAX_RANK];
    struct pval x = operand_value(s, u->source, 0);
    sharding_id sh = sharding_replicate_except(s->sh, x.sharding, n, keep);
    x = reshard(s, x, sh);
    instr_id update = operand_in(s, u->source, 1, sh).local;
    start_indices(s, u->source, 2, u->base->rank, ~u->sliced, starts);
    finish(s, u->source, emit_dus(s, x.local, update, starts), sh);
}

/* Every constant range of more than one element lies in one shard. */
static bool dus_in_one_shard(struct spmd *s, const struct dus *u)
{
    for (int d = 0; d < u->base->rank; d++) {
        int64_t at, n = u->update->dims[d];
        if (!(u->narrow & bit(d)) || n == 1)
            continue;
        if (!constant_start(s, u->source, 2, u->base->rank, d, &at))
            return false;
        at = max_i64(0, min_i64(at, u->base->dims[d] - n));
        int64_t shard = ceil_div(u->base->dims[d], tiles_on(s, u->out, d));
        if (at / shard != (at + n - 1) / shard)
            return false;
    }
    return true;
}

/* The start on this device, and whether it is here: the global start is clamped first, as the
 * operation on the whole array does. */
static instr_id local_start(struct spmd *s, const struct dus *u, int d, instr_id start, instr_id *in)
{
    int64_t tiles = tiles_on(s, u->out, d), shard = ceil_div(u->base->dims[d], tiles);
    instr_id zero = emit_const_i(s, DTYPE_S32, 0);
    start = emit_clamped_s32(s, start, u->base->dims[d] - u->update->dims[d]);
    instr_id first = offset_node(s, u->out, d, u->base->dims[d]);
    instr_id local = emit_arith(s, OP_SUBTRACT, start, first);
    instr_id here = emit_arith(s, OP_AND, emit_compare(s, "GE", local, zero),
                               emit_compare(s, "LT", local, emit_const_i(s, DTYPE_S32, shard)));
    *in = in->i ? emit_arith(s, OP_AND, *in, here) : here;
    return emit_select(s, here, local, zero);
}

static void dus_where_it_lies(struct spmd *s, const struct dus *u)
{
    instr_id starts[OPS_MAX_RANK], in = { 0 };
    int dims[OPS_MAX_RANK], n = bits_to_dims(u->sliced, u->base->rank, dims);
    instr_id x = operand_in(s, u->source, 0, u->out).local;
    sharding_id sh = u->whole ? sharding_replicate_dims(s->sh, u->out, n, dims)
                              : sharding_replicated(s->sh);
    instr_id update = operand_in(s, u->source, 1, sh).local;
    start_indices(s, u->source, 2, u->base->rank, ~u->sliced, starts);
    for (int d = 0; d < u->base->rank; d++) {
        if (u->narrow & bit(d))
            starts[d] = local_start(s, u, d, starts[d], &in);
        else
            starts[d] = emit_clamped_s32(s, starts[d], u->base->dims[d] - u->update->dims[d]);
    }
    instr_id y = emit_dus(s, x, update, starts);
    finish(s, u->source, emit_select(s, in, y, x), u->out);
}

void partition_dynamic_update_slice(struct spmd *s, instr_id source)
{
    struct dus u = dus_classify(s, source);
    if (is_tile_max(s, u.out) || u.base->rank > OPS_MAX_RANK || (u.wide && !u.whole)) {
        partition_default(s, source, NULL);
        return;
    }
    if (u.wide || (u.narrow && !dus_in_one_shard(s, &u))) {
        if (!u.whole)
            partition_default(s, source, NULL);
        else
            dus_whole_dims(s, &u);
        return;
    }
    if (u.narrow) {
        dus_where_it_lies(s, &u);
        return;
    }
    instr_id starts[OPS_MAX_RANK];
    instr_id x = operand_in(s, source, 0, u.out).local;
    instr_id update = operand_in(s, source, 1, u.out).local;
    start_indices(s, source, 2, u.base->rank, ~u.sliced, starts);
    finish(s, source, emit_dus(s, x, update, starts), u.out);
}
