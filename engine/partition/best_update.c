/* partitioner=best: slices and updates at a start that is known only when the program runs, along dimensions
 * that are split. XLA makes the array whole; here every device does its part of the window.
 *
 * The shard is put between two margins as wide as the window. The global start, clamped as the operation on
 * the whole array does, is counted from the shard's first element and clamped to the margins: a window that
 * only touches the shard lies partly in a margin, one that misses it wholly. */
#include "partition/best_ways.h"

#include "partition/halo.h"
#include "partition/ops.h"

/* Start index d, a scalar: one of several operands, or an element of one vector. */
static instr_id scalar_start(struct spmd *s, instr_id source, uint32_t first, int d)
{
    const struct instr *in = instr_at(s->src, source);
    if (source_shape(s, in->operands[first])->rank == 0)
        return operand_replicated(s, source, first + (uint32_t)d).local;
    int64_t a = d, b = d + 1;
    return emit_reshape(s, emit_slice(s, operand_replicated(s, source, first).local, &a, &b, NULL), 0, NULL);
}

/* The shard between its margins, and where the window starts in that. */
static instr_id with_margins(struct spmd *s, instr_id x, sharding_id sh, int d, int64_t whole, int64_t window,
                             instr_id *start)
{
    int64_t shard = node_shape(s, x)->dims[d];
    instr_id zero = emit_zero(s, node_shape(s, x)->dtype);
    instr_id at = emit_clamped_s32(s, *start, whole - window);
    at = emit_arith(s, OP_SUBTRACT, at, offset_node(s, sh, d, whole));
    at = emit_arith(s, OP_ADD, at, emit_const_i(s, DTYPE_S32, window));
    at = emit_arith(s, OP_MAXIMUM, at, emit_const_i(s, DTYPE_S32, 0));
    *start = emit_arith(s, OP_MINIMUM, at, emit_const_i(s, DTYPE_S32, shard + window));
    return pad_dim(s, x, zero, d, window, window);
}

/* The dims of a window that does not fill them, and those of them that sh splits. */
static void window_dims(const struct spmd *s, const struct shape *whole, const struct shape *window, sharding_id sh,
                        uint64_t *part, uint64_t *split)
{
    *part = *split = 0;
    for (int d = 0; d < whole->rank; d++) {
        if (whole->dims[d] == window->dims[d])
            continue;
        *part |= bit(d);
        if (tiles_on(s, sh, d) > 1)
            *split |= bit(d);
    }
}

static bool margins_fit(const struct shape *whole, const struct shape *window)
{
    for (int d = 0; d < whole->rank; d++)
        if (whole->dims[d] > INT32_MAX / 4 || window->dims[d] > whole->dims[d])
            return false;
    return whole->count > 0 && window->count > 0;
}

bool best_way_update(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                     struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    const struct shape *whole = source_shape(s, source), *window = source_shape(s, in->operands[1]);
    sharding_id label = source_sharding(s, source);
    uint64_t part, split;
    (void)xla;
    (void)bytes;
    if (k > 0 || !sharding_is_tiled(s->sh, label) || whole->rank > OPS_MAX_RANK || !margins_fit(whole, window))
        return false;
    *out = (struct pval){ 0 };
    window_dims(s, whole, window, label, &part, &split);
    if (!split)
        return true;
    s->best->way = "each device its part of the update";
    int dims[OPS_MAX_RANK], n = bits_to_dims(part, whole->rank, dims);
    instr_id x = operand_in(s, source, 0, label).local;
    instr_id update = operand_in(s, source, 1, sharding_replicate_dims(s->sh, label, n, dims)).local;
    instr_id starts[OPS_MAX_RANK];
    int64_t low[OPS_MAX_RANK], high[OPS_MAX_RANK];
    for (int d = 0; d < whole->rank; d++) {
        low[d] = 0;
        high[d] = node_shape(s, x)->dims[d];
        starts[d] = part & bit(d) ? scalar_start(s, source, 2, d) : emit_const_i(s, DTYPE_S32, 0);
        if (!(part & bit(d)))
            continue;
        if (!(split & bit(d))) {
            starts[d] = emit_clamped_s32(s, starts[d], whole->dims[d] - window->dims[d]);
            continue;
        }
        low[d] = window->dims[d];
        high[d] += window->dims[d];
    }
    for (int d = 0; d < whole->rank; d++)
        if (split & bit(d))
            x = with_margins(s, x, label, d, whole->dims[d], window->dims[d], &starts[d]);
    *out = pval_make(s, emit_slice(s, emit_dus(s, x, update, starts), low, high, NULL), in->shape, label);
    return true;
}

/* What a device has of the window, zeros elsewhere; the sum over the devices is the window. */
bool best_way_window(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                     struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    const struct shape *whole = source_shape(s, in->operands[0]), *window = source_shape(s, source);
    struct pval v = operand_value(s, source, 0);
    uint64_t part, split;
    (void)xla;
    (void)bytes;
    if (k > 0 || !sharding_is_tiled(s->sh, v.sharding) || whole->rank > OPS_MAX_RANK || !margins_fit(whole, window))
        return false;
    *out = (struct pval){ 0 };
    window_dims(s, whole, window, v.sharding, &part, &split);
    if (!split)
        return true;
    s->best->way = "each device its part of the window, and their sum";
    int dims[OPS_MAX_RANK], n = bits_to_dims(split, whole->rank, dims);
    instr_id x = pval_mask(s, v, emit_zero(s, whole->dtype), 0, ~split).local;
    instr_id starts[OPS_MAX_RANK];
    int64_t sizes[OPS_MAX_RANK];
    for (int d = 0; d < whole->rank; d++) {
        starts[d] = part & bit(d) ? scalar_start(s, source, 1, d) : emit_const_i(s, DTYPE_S32, 0);
        sizes[d] = part & bit(d) ? window->dims[d] : node_shape(s, x)->dims[d];
        if (split & bit(d))
            x = with_margins(s, x, v.sharding, d, whole->dims[d], window->dims[d], &starts[d]);
        else if (part & bit(d))
            starts[d] = emit_clamped_s32(s, starts[d], whole->dims[d] - window->dims[d]);
    }
    x = emit_dynamic_slice(s, x, starts, sizes);
    comp_id sum = binary_computation(s, whole->dtype == DTYPE_PRED ? OP_OR : OP_ADD, whole->dtype);
    const char *old = because(s, "the parts of a window, put together (partitioner=best)");
    x = emit_reduce_along(s, x, sum, v.sharding, n, dims);
    (void)because(s, old);
    *out = pval_make(s, x, in->shape, sharding_replicate_dims(s->sh, v.sharding, n, dims));
    return true;
}
