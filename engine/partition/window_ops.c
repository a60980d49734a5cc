/* Operations over windows: reduce-window (S-148), select-and-scatter (S-149). */
#include "partition/halo.h"
#include "partition/list.h"

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

/* What fills input k around a shard: the start value, or where that is more than the reducer's identity, the
 * identity: on one device padding counts for nothing, and the start value once. */
static instr_id padding_value(struct spmd *s, instr_id source, int k, int n)
{
    const struct instr *in = instr_at(s->src, source);
    const struct attr *body = instr_attr(in, ATTR_TO_APPLY);
    const struct instr *init = instr_at(s->src, in->operands[n + k]);
    enum op_kind op = body && body->type == ATTR_TYPE_COMP ? simple_reducer(s->src, body->comp, k, n) : OP_NONE;
    bool identity = init->op == OP_CONSTANT && literal_is_identity(s->src, init->literal, op);
    instr_id fill;
    if (op != OP_NONE && !identity && emit_identity(s, op, source_shape(s, in->operands[k])->dtype, &fill))
        return fill;
    return operand_replicated(s, source, (uint32_t)(n + k)).local;
}

/* All inputs as windows of the same kind. false: one of them has none. */
static bool window_inputs(struct spmd *s, instr_id source, int n, sharding_id out,
                          struct windowed *w)
{
    const struct instr *in = instr_at(s->src, source);
    const struct window *win = window_of(in);
    for (int k = 0; k < n; k++) {
        struct pval v = operand_value(s, source, (uint32_t)k);
        w[k] = window_input(s, v, win->rank, win->dims, out, padding_value(s, source, k, n), true, false);
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
    shape_id first = instr_at(s->out, tuple_element(s, all, 0, tuple))->shape;
    bool cut = w[0].has_offset || !shape_same_dims(s->ir, first, shard);
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

/* ---- select-and-scatter, S-149 ------------------------------------------------------------------- */

struct scattering {
    struct spmd *s;
    instr_id source;
    sharding_id out;
    const struct window *win;
    instr_id data_pad, source_pad; /* scalars */
    struct window_dim dims[OPS_MAX_RANK];
    instr_id offset[OPS_MAX_RANK]; /* of the shard in the local result */
    bool cut;
};

/* The select computation compares its two parameters: what never wins as padding. */
static bool losing_value(struct spmd *s, comp_id select, enum dtype t, instr_id *pad)
{
    const struct computation *c = comp_at(s->src, select);
    const struct instr *root = instr_at(s->src, c->root);
    if (root->op != OP_COMPARE || c->nparams != 2)
        return false;
    bool straight = root->operands[0].i == c->params[0].i && root->operands[1].i == c->params[1].i;
    bool swapped = root->operands[0].i == c->params[1].i && root->operands[1].i == c->params[0].i;
    bool greater = instr_is(s->src, root, ATTR_DIRECTION, "GE") ||
                   instr_is(s->src, root, ATTR_DIRECTION, "GT");
    bool less = instr_is(s->src, root, ATTR_DIRECTION, "LE") ||
                instr_is(s->src, root, ATTR_DIRECTION, "LT");
    if ((!straight && !swapped) || (!greater && !less))
        return false;
    bool lowest = (greater && straight) || (less && swapped);
    return emit_identity(s, lowest ? OP_MAXIMUM : OP_MINIMUM, t, pad);
}

/* Halos of data and source along one tiled dimension. */
static bool scatter_halo(struct scattering *c, int d, struct pval data, struct pval src, instr_id *x,
                         instr_id *y)
{
    struct spmd *s = c->s;
    struct window_dim *w = &c->dims[d];
    int64_t n = tiles_on(s, c->out, d), st = w->stride, k = max_i64(w->size, w->stride);
    int64_t sd = node_shape(s, data.local)->dims[d], ss = node_shape(s, src.local)->dims[d];
    int64_t lo = w->pad_low;
    if (lo < 0 || lo >= k || w->pad_high < 0 || w->base_dilation != 1 || w->window_dilation != 1)
        return false;
    struct ofs first = ofs_mad(sd, lo - k + st, st), limit = ofs_mad(sd, sd + lo + st - 1, st);
    struct ofs size = ofs_sub(limit, first);
    struct ring ring = { .sh = c->out, .axis = d, .n = n };
    struct halo_spec h = { .dim = d, .base = base_of(s, src)->dims[d], .pad = c->source_pad,
                           .mask = true, .offset = first };
    h.left = ofs_sub(ofs_mad(ss, 0, 1), first);
    h.right = ofs_sub(limit, ofs_mad(ss, ss, 1));
    h.want = ofs_max(&size, 0, n);
    h.padded = ofs_at(&first, n - 1) + h.want;
    int64_t windows = h.want;
    *y = halo_valid(s, *y, &h, &ring);
    if (!y->i)
        return false;
    struct halo_spec g = { .dim = d, .base = base_of(s, data)->dims[d], .low = lo,
                           .pad = c->data_pad, .mask = true, .offset = ofs_scale(first, st) };
    g.left = ofs_sub(ofs_mad(sd, lo, 1), g.offset);
    g.right = ofs_sub(ofs_scale(limit, st), ofs_mad(sd, sd + st + lo - k, 1));
    g.want = (windows - 1) * st + k;
    g.padded = ofs_at(&g.offset, n - 1) + g.want;
    *x = halo_valid(s, *x, &g, &ring);
    if (!x->i)
        return false;
    w->pad_low = w->pad_high = 0;
    c->offset[d] = ofs_node(s, &g.left, ring_ordinal(s, &ring));
    c->cut = true;
    return true;
}

static bool scatter_with_halos(struct scattering *c)
{
    struct spmd *s = c->s;
    const struct instr *in = instr_at(s->src, c->source);
    const struct attr *select = instr_attr(in, ATTR_SELECT), *body = instr_attr(in, ATTR_SCATTER);
    enum dtype t = source_shape(s, c->source)->dtype;
    enum op_kind op = body ? simple_reducer(s->src, body->comp, 0, 1) : OP_NONE;
    if (!select || op == OP_NONE || !emit_identity(s, op, t, &c->source_pad) ||
        !losing_value(s, select->comp, t, &c->data_pad))
        return false;
    struct pval data = operand_in(s, c->source, 0, c->out);
    struct pval src = operand_in(s, c->source, 1, c->out);
    instr_id x = data.local, y = src.local, zero = emit_const_i(s, DTYPE_S32, 0);
    int64_t dims[OPS_MAX_RANK];
    for (int d = 0; d < c->win->rank; d++) {
        c->dims[d] = c->win->dims[d];
        c->offset[d] = zero;
        bool windowed = c->dims[d].size != 1 || c->dims[d].stride != 1 || c->dims[d].pad_low ||
                        c->dims[d].pad_high;
        if (windowed && tiles_on(s, c->out, d) > 1 && !scatter_halo(c, d, data, src, &x, &y))
            return false;
    }
    for (int d = 0; d < c->win->rank; d++)
        dims[d] = node_shape(s, x)->dims[d];
    instr_id ops[3] = { x, y, operand_replicated(s, c->source, 2).local };
    instr_id z = emit_clone(s, c->source, shape_array(s->ir, t, c->win->rank, dims), 3, ops);
    set_attr(s, z, attr_window(s->out, c->win->rank, c->dims));
    const struct shape *shard = shape_get(s->ir, shard_shape(s, in->shape, c->out));
    if (c->cut)
        z = emit_dynamic_slice(s, z, c->offset, shard->dims);
    finish(s, c->source, z, c->out);
    return true;
}

/* ---- without a window form: all whole (S-127), or the windowed dimensions only ------------------- */

static int64_t bytes_since(const struct spmd *s, uint32_t first)
{
    int64_t sum = 0;
    for (uint32_t i = first + 1; i <= module_ninstrs(s->out); i++)
        if (instr_at(s->out, (instr_id){ i })->comp.i == s->comp.i)
            sum += collective_bytes(s->out, s->prog->num_partitions, (instr_id){ i });
    return sum;
}

/* Someone else needs x whole as well: making it so costs nothing here. */
static bool whole_for_others(struct spmd *s, instr_id x, instr_id besides)
{
    for (uint32_t k = 0; k < users_count(s->users, x); k++) {
        instr_id u = users_of(s->users, x)[k];
        const struct instr *in = instr_at(s->src, u);
        sharding_id sh = source_sharding(s, u);
        if (u.i == besides.i)
            continue;
        if (!sh.i || sharding_is_replicated(s->sh, sh))
            return true;
        for (uint32_t j = 0; in->op == OP_TUPLE && j < in->noperands; j++)
            if (in->operands[j].i == x.i &&
                sharding_is_replicated(s->sh, element_sharding(s, in->shape, sh, j)))
                return true;
    }
    return false;
}

/* What the way through `sh` sends: for the operands, and for a result that is wanted whole. */
static int64_t cost_of(struct spmd *s, instr_id source, sharding_id sh)
{
    const struct instr *in = instr_at(s->src, source);
    bool whole = sharding_is_replicated(s->sh, sh);
    uint32_t first = module_ninstrs(s->out);
    for (uint32_t k = 0; k < 2; k++)
        if (!whole || !whole_for_others(s, in->operands[k], source))
            (void)operand_in(s, source, k, sh);
    int64_t sent = bytes_since(s, first);
    sharding_id out = source_sharding(s, source);
    if (!whole && whole_for_others(s, source, source)) /* a gather of all shards */
        sent += (sharding_num_tiles(s->sh, out) - 1) *
                shape_get(s->ir, shard_shape(s, in->shape, out))->bytes;
    return sent;
}

static void scatter_whole(struct spmd *s, instr_id source, const struct window *win, sharding_id out)
{
    static const char why[] = "select-and-scatter without a window form";
    const struct instr *in = instr_at(s->src, source);
    int dims[OPS_MAX_RANK], n = 0;
    for (int d = 0; d < win->rank; d++) {
        const struct window_dim *w = &win->dims[d];
        if (w->size != 1 || w->stride != 1 || w->pad_low != 0 || w->pad_high != 0)
            dims[n++] = d;
    }
    sharding_id sh = sharding_replicate_dims(s->sh, out, n, dims);
    /* Both are made, the losing one is dead. */
    if (sh.i != out.i &&
        cost_of(s, source, sharding_replicated(s->sh)) <= cost_of(s, source, sh)) {
        partition_default(s, source, why);
        return;
    }
    if (sh.i != out.i)
        note_remat(s, out, sh, true, why);
    instr_id ops[3] = { operand_in(s, source, 0, sh).local, operand_in(s, source, 1, sh).local,
                        operand_replicated(s, source, 2).local };
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, sh), 3, ops), sh);
}

void partition_select_and_scatter(struct spmd *s, instr_id source)
{
    sharding_id out = source_sharding(s, source);
    const struct window *win = window_of(instr_at(s->src, source));
    if (!sharding_is_tiled(s->sh, out) || !win || win->rank >= OPS_MAX_RANK) {
        partition_default(s, source, NULL);
        return;
    }
    struct scattering c = { .s = s, .source = source, .out = out, .win = win };
    if (!scatter_with_halos(&c))
        scatter_whole(s, source, win, out);
}
