/* Reshape, S-137..S-140: local where the tiling survives it, inside groups where only part of it
 * does, over a halo where one dim is split or merged unevenly, else on the whole array. */
#include "partition/ops.h"

#include <string.h>

static struct pval reshape_to(struct spmd *s, struct pval v, shape_id out, sharding_id target,
                              int depth);

static int64_t product_before(const struct shape *x, int dim)
{
    int64_t p = 1;
    for (int d = 0; d < dim; d++)
        p *= x->dims[d];
    return p;
}

/* Every dim of x that its tiling does not divide is one dim of y too, tiled alike. */
static bool uneven_dims_kept(const struct spmd *s, const struct shape *x, sharding_id xs,
                             const struct shape *y, sharding_id ys)
{
    for (int d = 0; d < x->rank; d++) {
        int64_t tiles = tiles_on(s, xs, d);
        bool kept = x->dims[d] % tiles == 0;
        for (int e = 0; !kept && e < y->rank; e++)
            kept = y->dims[e] == x->dims[d] && tiles_on(s, ys, e) == tiles &&
                   product_before(y, e) == product_before(x, d);
        if (!kept)
            return false;
    }
    return true;
}

/* S-34 merges and splits dims as if tiles divided them; where they do not, its answer is no local
 * reshape ([2,7] tiled [2,2] is not [14] tiled [4]). */
static bool truly_local(const struct spmd *s, const struct shape *x, sharding_id xs,
                        const struct shape *y, sharding_id ys)
{
    return uneven_dims_kept(s, x, xs, y, ys) && uneven_dims_kept(s, y, ys, x, xs);
}

/* Every element of v is the same number (S-53): any cut of it is right. */
static bool all_equal(const struct spmd *s, struct pval v)
{
    uint64_t same = 0;
    const struct shape *x = base_of(s, v);
    if (x->rank > 63 || !map_get(&s->known_equal, v.local.i, &same))
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->dims[d] > 1 && !(same & bit(d)))
            return false;
    return true;
}

/* S-137: out under target is a local reshape of v under some tiling with as many tiles. */
static bool reshape_locally(struct spmd *s, struct pval v, shape_id out, sharding_id target,
                            struct pval *res)
{
    const struct shape *from = base_of(s, v), *to = shape_get(s->ir, out);
    sharding_id need =
        sharding_reshape(s->sh, to->rank, to->dims, from->rank, from->dims, target);
    if (!need.i || sharding_num_tiles(s->sh, need) != sharding_num_tiles(s->sh, target))
        return false;
    const struct shape *shard = shape_get(s->ir, shard_shape(s, out, target));
    const struct shape *piece = shape_get(s->ir, shard_shape(s, v.base, need));
    if (shard->count != piece->count ||
        (!truly_local(s, from, need, to, target) && !all_equal(s, v)))
        return false;
    struct pval x = reshard(s, v, need);
    instr_id local = emit_reshape(s, x.local, shard->rank, shard->dims);
    *res = pval_make(s, local, out, target);
    return true;
}

/* Whole array on every device: always right. */
static struct pval reshape_whole(struct spmd *s, struct pval v, shape_id out, sharding_id target)
{
    const struct shape *to = shape_get(s->ir, out);
    struct pval whole = replicate(s, v);
    instr_id local = emit_reshape(s, whole.local, to->rank, to->dims);
    return reshard(s, pval_make(s, local, out, whole.sharding), target);
}

static int only_tiled_dim(const struct spmd *s, sharding_id sh, int rank)
{
    int found = -1;
    for (int d = 0; d < rank; d++) {
        if (tiles_on(s, sh, d) == 1)
            continue;
        if (found >= 0)
            return -1;
        found = d;
    }
    return found;
}

static struct window_dim trivial_window(void)
{
    return (struct window_dim){ .size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1 };
}

/* v with its tiled dim shortened or lengthened at the end so that every shard has the wanted size. */
static bool resize_tail(struct spmd *s, struct pval v, int dim, int64_t high, instr_id *local)
{
    const struct shape *x = base_of(s, v);
    struct window_dim w[OPS_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        w[d] = trivial_window();
    w[dim].pad_high = high;
    struct windowed r = window_input(s, v, x->rank, w, v.sharding, emit_zero(s, x->dtype), false, false);
    if (!r.ok || r.has_offset)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (r.dims[d].pad_low || r.dims[d].pad_high)
            return false;
    *local = r.local;
    return true;
}

/* S-140 */
static bool reshape_by_halo(struct spmd *s, struct pval v, shape_id out, sharding_id target,
                            struct pval *res)
{
    const struct shape *from = base_of(s, v), *to = shape_get(s->ir, out);
    if (!sharding_is_tiled(s->sh, v.sharding) || !sharding_is_tiled(s->sh, target) ||
        sharding_num_tiles(s->sh, v.sharding) != sharding_num_tiles(s->sh, target) ||
        tile_axes(s, v.sharding) - from->rank != tile_axes(s, target) - to->rank ||
        from->rank > OPS_MAX_RANK || to->rank > OPS_MAX_RANK)
        return false;
    int a = only_tiled_dim(s, v.sharding, from->rank), b = only_tiled_dim(s, target, to->rank);
    if (a < 0 || b < 0 || product_before(from, a) != product_before(to, b))
        return false;
    int64_t A = from->dims[a], B = to->dims[b], n = tiles_on(s, target, b);
    if (A == 0 || B == 0 || (A % B != 0 && B % A != 0))
        return false;

    const struct sharding *have = sharding_get(s->sh, v.sharding);
    const struct sharding *want = sharding_get(s->sh, target);
    struct tiling order = tiling_reshape(s->sh, want->tiles, have->tiles.naxes, have->tiles.dims);
    v = reshard(s, v, sharding_rebuild(s->sh, v.sharding, order));
    const struct shape *shard = shape_get(s->ir, shard_shape(s, out, target));
    instr_id local;
    if (A % B == 0) {
        int64_t f = A / B;
        if (!resize_tail(s, v, a, shard->dims[b] * f * n - A, &local))
            return false;
        local = emit_reshape(s, local, shard->rank, shard->dims);
        *res = pval_make(s, local, out, target);
        return true;
    }
    int64_t f = B / A, dims[OPS_MAX_RANK], base[OPS_MAX_RANK];
    int64_t piece = node_shape(s, v.local)->dims[a] * f;
    for (int d = 0; d < to->rank; d++) {
        dims[d] = d == b ? piece : shard->dims[d];
        base[d] = d == b ? piece * n : to->dims[d];
    }
    local = emit_reshape(s, v.local, to->rank, dims);
    struct pval y = pval_make(s, local, shape_array(s->ir, to->dtype, to->rank, base), target);
    if (!resize_tail(s, y, b, B - piece * n, &local))
        return false;
    *res = pval_make(s, local, out, target);
    return true;
}

/* S-139: the part of the tiling that survives groups the devices; the rest is done inside. */
static bool reshape_in_groups(struct spmd *s, struct pval v, shape_id out, sharding_id target,
                              int depth, struct pval *res)
{
    const struct shape *from = base_of(s, v), *to = shape_get(s->ir, out);
    if (from->rank > OPS_MAX_RANK || to->rank > OPS_MAX_RANK)
        return false;
    sharding_id p = sharding_through_reshape(s->sh, from->rank, from->dims, to->rank, to->dims,
                                             v.sharding);
    if (!sharding_is_tiled(s->sh, p))
        return false;
    sharding_id q = sharding_reshape(s->sh, to->rank, to->dims, from->rank, from->dims, p);
    if (!q.i || !truly_local(s, from, q, to, p))
        return false;
    int in[OPS_MAX_RANK], on[OPS_MAX_RANK];
    int nin = bits_to_dims(tiled_dims(s, q, from->rank), from->rank, in);
    int non = bits_to_dims(tiled_dims(s, p, to->rank), to->rank, on);
    if (nin == 0 || non == 0)
        return false;
    for (int i = 0; i < nin; i++)
        if (tiles_on(s, q, in[i]) != tiles_on(s, v.sharding, in[i]))
            return false;
    bool finer = sharding_num_tiles(s->sh, target) > sharding_num_tiles(s->sh, p);
    for (int i = 0; i < non; i++)
        finer = finer && tiles_on(s, target, on[i]) == tiles_on(s, p, on[i]);

    struct sharding_group gi, go;
    sharding_group_on(s->sh, v.sharding, nin, in, NULL, &gi);
    sharding_group_on(s->sh, finer ? target : p, non, on, NULL, &go);
    int64_t ni = 1, no = 1;
    for (int i = 0; i < gi.ndims; i++)
        ni *= gi.sizes[i];
    for (int i = 0; i < go.ndims; i++)
        no *= go.sizes[i];
    if (ni != no)
        return false;
    bool same = sharding_group_align(s->sh, &go, &gi, false);
    if (!same && !finer)
        return false;
    sharding_id label = sharding_ungroup(s->sh, &go);

    int64_t dims[OPS_MAX_RANK];
    for (int d = 0; d < from->rank; d++)
        dims[d] = from->dims[d];
    for (int i = 0; i < nin; i++)
        dims[in[i]] = node_shape(s, v.local)->dims[in[i]];
    struct pval inner = { v.local, shape_array(s->ir, from->dtype, from->rank, dims), gi.inner };
    shape_id inner_out = per_group_base(s, out, &go);
    if (shape_get(s->ir, inner_out)->count != base_of(s, inner)->count)
        return false;
    groups_enter(s, gi.groups);
    struct pval r = reshape_to(s, inner, inner_out, go.inner, depth + 1);
    groups_leave(s);
    *res = reshard(s, pval_make(s, r.local, out, label), target);
    return true;
}

static struct pval reshape_to(struct spmd *s, struct pval v, shape_id out, sharding_id target,
                              int depth)
{
    const struct shape *from = base_of(s, v), *to = shape_get(s->ir, out);
    struct pval res;
    if (reshape_locally(s, v, out, target, &res))
        return res;
    sharding_id t =
        sharding_reshape(s->sh, from->rank, from->dims, to->rank, to->dims, v.sharding);
    if (t.i && reshape_locally(s, v, out, t, &res)) /* S-138 */
        return reshard(s, res, target);
    if (depth < OPS_MAX_RANK && reshape_in_groups(s, v, out, target, depth, &res))
        return res;
    if (reshape_by_halo(s, v, out, target, &res))
        return res;
    return reshape_whole(s, v, out, target);
}

void partition_reshape(struct spmd *s, instr_id source)
{
    sharding_id out = source_sharding(s, source);
    int64_t device;
    const struct shape *to = source_shape(s, source);
    const struct shape *from = source_shape(s, instr_operand(s->src, source, 0));
    if (sharding_unique_device(s->sh, out, &device) || from->count == 0 || to->rank > 63) {
        partition_default(s, source, NULL);
        return;
    }
    struct pval v = operand_value(s, source, 0);
    set_value(s, source, reshape_to(s, v, instr_at(s->src, source)->shape, out, 0));
}
