/* Structural operations on one sharding, P-36..P-45, S-20..S-30. */
#include <string.h>

#include "sharding/internal.h"

/* T leaves are worked on; everything else comes back as it is. */
static const struct sharding *tiled_or_null(const struct shardings *t, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    return is_tiled_leaf(x) ? x : NULL;
}

/* Ranks beyond AXES_MAX are kept whole on every device: no real array has them. */
static bool too_wide(int naxes)
{
    return naxes > AXES_MAX - 4;
}

static void add_trailing(const struct sharding *x, int *perm, int *n)
{
    for (int i = x->data_rank; i < x->tiles.naxes; i++)
        perm[(*n)++] = i;
}

static sharding_id permuted(struct shardings *t, const struct sharding *x, const int *perm,
                            int naxes, const int64_t *dims)
{
    order_id o = order_transpose(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, perm);
    return rebuild_make(t, x, naxes, dims, o);
}

sharding_id sharding_transpose(struct shardings *t, sharding_id s, const int *perm)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    int full[AXES_MAX], n = 0;
    int64_t dims[AXES_MAX];
    for (; n < x->data_rank; n++)
        full[n] = perm[n];
    add_trailing(x, full, &n);
    for (int i = 0; i < n; i++)
        dims[i] = x->tiles.dims[full[i]];
    return permuted(t, x, full, n, dims);
}

/* ---- replication, P-37..P-39 -------------------------------------------------------------------------- */

static sharding_id replicate_marked(struct shardings *t, sharding_id s, const bool *listed)
{
    const struct sharding *x = sharding_get(t, s);
    int64_t g = 1, dims[AXES_MAX];
    int perm[AXES_MAX], n = 0;
    for (int i = 0; i < x->data_rank; i++) {
        dims[i] = listed[i] ? 1 : x->tiles.dims[i];
        g *= listed[i] ? x->tiles.dims[i] : 1;
    }
    if (g == 1)
        return s;
    if (g == sharding_num_tiles(t, s) && x->ntypes == 0)
        return sharding_replicated(t);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->data_rank; i++)
            if (listed[i] == (pass == 1))
                perm[n++] = i;
    add_trailing(x, perm, &n);
    order_id o = order_transpose(t, n, x->tiles.dims, x->tiles.order, perm);
    int k = x->data_rank;
    if (x->lastrep) {
        dims[k] = x->tiles.dims[k] * g;
        return partial_make(t, k + 1, dims, o);
    }
    enum axis_type types[4] = { AXIS_REPLICATED };
    dims[k++] = g;
    for (int i = 0; i < x->ntypes; i++) {
        types[i + 1] = x->types[i];
        dims[k++] = x->tiles.dims[x->data_rank + i];
    }
    return subgroup_make(t, k, dims, o, x->ntypes + 1, types);
}

sharding_id sharding_replicate_dims(struct shardings *t, sharding_id s, int n, const int *dims)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    bool listed[AXES_MAX] = { false };
    for (int i = 0; i < n; i++)
        if (dims[i] >= 0 && dims[i] < x->data_rank)
            listed[dims[i]] = true;
    return replicate_marked(t, s, listed);
}

sharding_id sharding_replicate_except(struct shardings *t, sharding_id s, int n, const int *keep)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    bool listed[AXES_MAX];
    for (int i = 0; i < x->data_rank; i++)
        listed[i] = true;
    for (int i = 0; i < n; i++)
        if (keep[i] >= 0 && keep[i] < x->data_rank)
            listed[keep[i]] = false;
    return replicate_marked(t, s, listed);
}

sharding_id sharding_replicate_all_data(struct shardings *t, sharding_id s, int rank)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->kind == SHARDING_MANUAL)
        return s;
    if (x->ntypes == 0 || too_wide(rank))
        return sharding_replicated(t);
    sharding_id r = sharding_replicate_except(t, s, 0, NULL);
    const struct sharding *y = sharding_get(t, r);
    if (rank < 0 || !is_tiled_leaf(y) || y->data_rank == rank)
        return r;
    int64_t dims[AXES_MAX];
    int n = 0;
    while (n < rank)
        dims[n++] = 1;
    for (int i = y->data_rank; i < y->tiles.naxes; i++)
        dims[n++] = y->tiles.dims[i];
    return rebuild_make(t, y, n, dims, y->tiles.order);
}

/* ---- axes come and go, P-40..P-42 ------------------------------------------------------------------------ */

sharding_id sharding_remove_dims(struct shardings *t, sharding_id s, int n, const int *dims)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x || n == 0)
        return s;
    bool gone[AXES_MAX] = { false };
    for (int i = 0; i < n; i++) {
        INVARIANT(sharding_tile(t, s, dims[i]) == 1, "a removed dimension is tiled");
        if (dims[i] >= 0 && dims[i] < x->data_rank)
            gone[dims[i]] = true;
    }
    int64_t left[AXES_MAX];
    int k = 0;
    for (int i = 0; i < x->tiles.naxes; i++)
        if (!gone[i])
            left[k++] = x->tiles.dims[i];
    return rebuild_make(t, x, k, left, x->tiles.order);
}

/* Puts data axes of x on target axes: from[j] is the source axis of target axis j, -1: none. Source
 * axes that are not named must have tile 1. */
static sharding_id placed(struct shardings *t, const struct sharding *x, int rank, const int *from)
{
    int perm[AXES_MAX], n = 0, k = 0;
    int64_t dims[AXES_MAX];
    bool used[AXES_MAX] = { false };
    for (int j = 0; j < rank; j++) {
        dims[k++] = from[j] < 0 ? 1 : x->tiles.dims[from[j]];
        if (from[j] >= 0) {
            perm[n++] = from[j];
            used[from[j]] = true;
        }
    }
    for (int i = 0; i < x->data_rank; i++)
        if (!used[i])
            perm[n++] = i;
    add_trailing(x, perm, &n);
    for (int i = x->data_rank; i < x->tiles.naxes; i++)
        dims[k++] = x->tiles.dims[i];
    return permuted(t, x, perm, k, dims);
}

sharding_id sharding_map_dims(struct shardings *t, sharding_id s, const int *to_target,
                              int target_rank, const int *to_source)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    for (int i = 0; i < x->data_rank; i++)
        if (to_target[i] < 0 && x->tiles.dims[i] != 1)
            return (sharding_id){ 0 };
    if (too_wide(target_rank))
        return sharding_replicated(t);
    return placed(t, x, target_rank, to_source);
}

sharding_id sharding_along_dims(struct shardings *t, sharding_id s, int n, const int *src,
                                const int *tgt, int rank)
{
    sharding_id kept = sharding_replicate_except(t, s, n, src);
    const struct sharding *x = tiled_or_null(t, kept);
    if (!x)
        return kept;
    if (too_wide(rank))
        return sharding_replicated(t);
    int from[AXES_MAX];
    for (int j = 0; j < rank; j++)
        from[j] = -1;
    for (int k = 0; k < n; k++)
        from[tgt[k]] = src[k];
    return placed(t, x, rank, from);
}

sharding_id sharding_broadcast(struct shardings *t, sharding_id s, int nmap, const int *map,
                               int rank)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    if (too_wide(rank))
        return sharding_replicated(t);
    int from[AXES_MAX];
    for (int j = 0; j < rank; j++)
        from[j] = -1;
    for (int i = 0; i < nmap && i < x->data_rank; i++)
        from[map[i]] = i;
    return placed(t, x, rank, from);
}

sharding_id sharding_insert_dims(struct shardings *t, sharding_id s, int at, int n)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    if (too_wide(x->data_rank + n))
        return sharding_replicated(t);
    int64_t dims[AXES_MAX];
    int k = 0;
    for (int i = 0; i <= x->tiles.naxes; i++) {
        for (int j = 0; i == at && j < n; j++)
            dims[k++] = 1;
        if (i < x->tiles.naxes)
            dims[k++] = x->tiles.dims[i];
    }
    return rebuild_make(t, x, k, dims, x->tiles.order);
}

/* ---- reversing and moving, P-43..P-45 ----------------------------------------------------------------------- */

sharding_id sharding_reverse(struct shardings *t, sharding_id s, int n, const int *dims)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x || n == 0)
        return s;
    bool flip[AXES_MAX] = { false };
    for (int i = 0; i < n; i++)
        if (dims[i] >= 0 && dims[i] < x->data_rank)
            flip[dims[i]] = true;
    order_id o = order_reverse(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, flip);
    return rebuild_make(t, x, x->tiles.naxes, x->tiles.dims, o);
}

int sharding_move_target(const struct shardings *t, int rank, const int64_t *dims, sharding_id s,
                         int axis)
{
    int64_t k = sharding_tile(t, s, axis);
    if (rank < 2 || dims[axis] == 1 || k == 1)
        return -1;
    for (int e = 0; e < rank; e++) {
        int64_t parts;
        if (e != axis && mul_ok(k, sharding_tile(t, s, e), &parts) && dims[e] % parts == 0)
            return e;
    }
    return -1;
}

sharding_id sharding_move_tiles(struct shardings *t, sharding_id s, int from, int to)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x || from == to || sharding_tile(t, s, from) == 1)
        return s;
    int perm[AXES_MAX], n = 0;
    int64_t dims[AXES_MAX];
    for (int i = 0; i < x->tiles.naxes; i++) {
        dims[i] = x->tiles.dims[i];
        if (i != from)
            perm[n++] = i;
        if (i == to)
            perm[n++] = from;
    }
    dims[to] *= dims[from];
    dims[from] = 1;
    return permuted(t, x, perm, n, dims);
}

/* ---- S-29 ------------------------------------------------------------------------------------------------------- */

sharding_id sharding_split_axis(struct shardings *t, sharding_id s, int axis, int64_t k)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    if (too_wide(x->data_rank + 1))
        return sharding_replicated(t);
    int64_t dims[AXES_MAX];
    int n = 0;
    for (int i = 0; i < x->tiles.naxes; i++) {
        if (i == axis) {
            INVARIANT(k > 0 && x->tiles.dims[i] % k == 0, "an axis cannot be split so");
            dims[n++] = k;
            dims[n++] = x->tiles.dims[i] / k;
        } else {
            dims[n++] = x->tiles.dims[i];
        }
    }
    return rebuild_make(t, x, n, dims, x->tiles.order);
}

sharding_id sharding_merge_axis(struct shardings *t, sharding_id s, int axis)
{
    const struct sharding *x = tiled_or_null(t, s);
    if (!x)
        return s;
    int64_t dims[AXES_MAX];
    int n = 0;
    for (int i = 0; i < x->tiles.naxes; i++) {
        if (i == axis + 1)
            dims[n - 1] *= x->tiles.dims[i];
        else
            dims[n++] = x->tiles.dims[i];
    }
    return rebuild_make(t, x, n, dims, x->tiles.order);
}

/* ---- P-52 ---------------------------------------------------------------------------------------------------- */

struct tiling sharding_retile(struct shardings *t, sharding_id s, int d, int n, const int *dims)
{
    const struct sharding *x = sharding_get(t, s);
    bool listed[AXES_MAX] = { false };
    int perm[AXES_MAX], k = 0;
    int64_t out[AXES_MAX];
    for (int i = 0; i < n; i++)
        listed[dims[i]] = true;
    for (int i = 0; i < x->tiles.naxes; i++) {
        out[i] = listed[i] ? 1 : x->tiles.dims[i];
        if (!listed[i])
            perm[k++] = i;
    }
    perm[k++] = d;
    for (int i = 0; i < x->tiles.naxes; i++)
        if (listed[i]) {
            out[d] *= x->tiles.dims[i];
            if (i != d)
                perm[k++] = i;
        }
    return tiling_make(t, x->tiles.naxes, out,
                       order_transpose(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, perm));
}
