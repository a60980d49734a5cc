/* Operations over windows: reduce-window (S-148), select-and-scatter (S-149). */
#include "partition/ops.h"

static const struct window *window_of(const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    return a ? a->window : NULL;
}

static sharding_id result_leaf(struct spmd *s, sharding_id out, int k)
{
    const struct sharding *x = sharding_get(s->sh, out);
    return x->kind == SHARDING_TUPLE ? x->elems[k] : out;
}

static instr_id tuple_element(struct spmd *s, instr_id tuple, int k, bool is_tuple)
{
    return is_tuple ? emit_gte(s, tuple, k) : tuple;
}

/* All inputs as windows of the same kind. false: one of them has none. */
static bool window_inputs(struct spmd *s, instr_id source, int n, sharding_id out,
                          struct windowed *w)
{
    const struct instr *in = instr_at(s->src, source);
    const struct window *win = window_of(in);
    for (int k = 0; k < n; k++) {
        struct pval v = operand_value(s, source, (uint32_t)k);
        instr_id init = operand_replicated(s, source, (uint32_t)(n + k)).local;
        w[k] = window_input(s, v, win->rank, win->dims, out, init, true, false);
        if (!w[k].ok)
            return false;
    }
    return true;
}

static int64_t windows_in(const struct window_dim *w, int64_t size)
{
    int64_t full = 1 + (size - 1) * w->base_dilation + w->pad_low + w->pad_high;
    int64_t dk = 1 + (w->size - 1) * w->window_dilation;
    return size == 0 || full < dk ? 0 : (full - dk) / w->stride + 1;
}

/* The local reduce-window over windows w[0..n). */
static instr_id local_windows(struct spmd *s, instr_id source, int n, const struct windowed *w,
                              bool tuple)
{
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, 2 * n);
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, n);
    int rank = window_of(instr_at(s->src, source))->rank;
    for (int k = 0; k < n; k++) {
        const struct shape *x = node_shape(s, w[k].local);
        int64_t dims[OPS_MAX_RANK];
        for (int d = 0; d < rank; d++)
            dims[d] = windows_in(&w[0].dims[d], x->dims[d]);
        ops[k] = w[k].local;
        ops[n + k] = operand_replicated(s, source, (uint32_t)(n + k)).local;
        shapes[k] = shape_array(s->ir, x->dtype, rank, dims);
    }
    shape_id shape = tuple ? shape_tuple(s->ir, n, shapes) : shapes[0];
    instr_id y = emit_clone(s, source, shape, 2 * n, ops);
    set_attr(s, y, attr_window(s->out, rank, w[0].dims));
    return y;
}

void partition_reduce_window(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    int n = (int)in->noperands / 2;
    const struct window *win = window_of(in);
    bool tuple = source_shape(s, source)->kind == SHAPE_TUPLE;
    sharding_id out = result_leaf(s, source_sharding(s, source), 0);
    struct windowed *w = ARENA_ARRAY(&s->arena, struct windowed, n);
    if (!sharding_is_tiled(s->sh, out) || !win || win->rank >= OPS_MAX_RANK || win->rank == 0) {
        partition_default(s, source, NULL);
        return;
    }
    if (!window_inputs(s, source, n, out, w)) {
        partition_default(s, source, "no window form of the reduce-window");
        return;
    }
    instr_id all = local_windows(s, source, n, w, tuple);
    instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, n), zero = emit_const_i(s, DTYPE_S32, 0);
    shape_id full0 = shape_leaf(s->ir, in->shape, 0);
    shape_id shard = shard_shape(s, full0, out);
    bool cut = w[0].has_offset || !shape_same_dims(s->ir, instr_at(s->out, tuple_element(s, all, 0, tuple))->shape, shard);
    if (!cut) {
        finish(s, source, all, tuple ? sharding_tuple_of(s->sh, n, out) : out);
        return;
    }
    for (int k = 0; k < n; k++) {
        instr_id starts[OPS_MAX_RANK];
        for (int d = 0; d < win->rank; d++)
            starts[d] = w[k].has_offset && w[k].offset[d].i ? w[k].offset[d] : zero;
        parts[k] = emit_dynamic_slice(s, tuple_element(s, all, k, tuple), starts,
                                      shape_get(s->ir, shard)->dims);
    }
    if (tuple)
        finish(s, source, emit_tuple(s, n, parts), sharding_tuple_of(s->sh, n, out));
    else
        finish(s, source, parts[0], out);
}

/* The windowed dimensions are made whole; the others stay as the result has them. */
void partition_select_and_scatter(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct window *win = window_of(in);
    if (!sharding_is_tiled(s->sh, out) || !win || win->rank >= OPS_MAX_RANK) {
        partition_default(s, source, NULL);
        return;
    }
    int dims[OPS_MAX_RANK], n = 0;
    for (int d = 0; d < win->rank; d++) {
        const struct window_dim *w = &win->dims[d];
        if (w->size != 1 || w->stride != 1 || w->pad_low != 0 || w->pad_high != 0)
            dims[n++] = d;
    }
    sharding_id sh = sharding_replicate_dims(s->sh, out, n, dims);
    if (sh.i != out.i)
        note_remat(s, out, sh, true, "select-and-scatter along a tiled window dimension");
    instr_id ops[3] = { operand_in(s, source, 0, sh).local, operand_in(s, source, 1, sh).local,
                        operand_replicated(s, source, 2).local };
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, sh), 3, ops), sh);
}
