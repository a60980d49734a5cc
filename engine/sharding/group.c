/* Device groups: cutting, joining, P-50, P-51, S-37..S-39, S-45, S-61. */
#include <string.h>

#include "sharding/internal.h"

/* ---- cutting, S-37 -------------------------------------------------------------------------------------- */

/* Each listed axis becomes (group part, kept part); the group parts come first, as listed. */
static struct tiling cut_groups(struct shardings *t, const struct sharding *x, int n,
                                const int *dims, const int64_t *keep)
{
    int64_t view[2 * AXES_MAX], ngroups = 1;
    int group_at[AXES_MAX], perm[2 * AXES_MAX], k = 0, m = 0;
    bool is_group[2 * AXES_MAX] = { false };
    for (int i = 0; i < x->tiles.naxes; i++) {
        for (int j = 0; j < n; j++)
            if (dims[j] == i) {
                int64_t kept = keep ? keep[j] : 1;
                INVARIANT(kept > 0 && x->tiles.dims[i] % kept == 0, "groups cut a tile axis unevenly");
                is_group[k] = true;
                group_at[j] = k;
                view[k++] = x->tiles.dims[i] / kept;
                ngroups *= x->tiles.dims[i] / kept;
                view[k++] = kept;
                goto listed;
            }
        view[k++] = x->tiles.dims[i];
    listed:;
    }
    for (int j = 0; j < n; j++)
        perm[m++] = group_at[j];
    for (int i = 0; i < k; i++)
        if (!is_group[i])
            perm[m++] = i;
    order_id o = order_transpose(t, k, view, x->tiles.order, perm);
    int64_t shape[2] = { ngroups, order_get(t, o)->ndevices / ngroups };
    return tiling_make(t, 2, shape, o);
}

/* S-38: what is left in one group, by member rank. */
static sharding_id inner_sharding(struct shardings *t, const struct sharding *x, int n,
                                  const int *dims, const int64_t *keep)
{
    int64_t left[AXES_MAX];
    int k = x->tiles.naxes;
    memcpy(left, x->tiles.dims, (size_t)k * sizeof *left);
    for (int j = 0; j < n; j++)
        left[dims[j]] = keep ? keep[j] : 1;
    int64_t all = product(k, left);
    if (all == 1 || (x->lastrep && all == left[k - 1]))
        return sharding_replicated(t);
    for (int i = x->ntypes - 1; i >= 0; i--)
        if (x->types[i] == AXIS_MANUAL) {
            int at = x->data_rank + i;
            memmove(left + at, left + at + 1, (size_t)(k - at - 1) * sizeof *left);
            k--;
        }
    if (x->lastrep && left[k - 1] == 1)
        k--;
    order_id o = order_iota(t, product(k, left));
    return x->lastrep && k == x->tiles.naxes ? partial_make(t, k, left, o)
                                             : plain_make(t, k, left, o);
}

void sharding_group_on(struct shardings *t, sharding_id s, int n, const int *dims,
                       const int64_t *keep, struct sharding_group *out)
{
    const struct sharding *x = sharding_get(t, s);
    INVARIANT(is_tiled_leaf(x), "only a tiled sharding is cut into groups");
    INVARIANT(n <= (int)COUNTOF(out->dims), "groups over %d axes", n);
    INVARIANT(x->tiles.naxes + n <= AXES_MAX, "a tile assignment of %d axes", x->tiles.naxes);
    *out = (struct sharding_group){ .ndims = n, .data_rank = x->data_rank };
    for (int j = 0; j < n; j++) {
        out->dims[j] = dims[j];
        out->sizes[j] = x->tiles.dims[dims[j]] / (keep ? keep[j] : 1);
    }
    out->groups = cut_groups(t, x, n, dims, keep);
    out->inner = inner_sharding(t, x, n, dims, keep);
}

void sharding_group_on_manual(struct shardings *t, sharding_id s, struct sharding_group *out)
{
    const struct sharding *x = sharding_get(t, s);
    int axis = sharding_manual_axis(t, s);
    INVARIANT(axis >= 0, "no manual axis to group on");
    sharding_group_on(t, s, 1, &axis, NULL, out);
    out->manual = true;
    const struct sharding *in = sharding_get(t, out->inner);
    if (is_tiled_leaf(in) && in->tiles.naxes > x->data_rank)
        out->inner = partial_make(t, in->tiles.naxes, in->tiles.dims, in->tiles.order);
}

/* ---- joining, S-39, P-51 ---------------------------------------------------------------------------------- */

/* Shape and order of the data inside one group: data axes, then copies (1 where there are none). */
static order_id inner_view(struct shardings *t, const struct sharding_group *g, int *rank,
                           int64_t *dims, bool *partial)
{
    const struct sharding *in = sharding_get(t, g->inner);
    int64_t size = g->groups.dims[1];
    *rank = g->data_rank;
    *partial = false;
    if (!is_tiled_leaf(in)) {
        for (int i = 0; i < *rank; i++)
            dims[i] = 1;
        dims[*rank] = size;
        *partial = size != 1;
        return order_iota(t, size);
    }
    memcpy(dims, in->tiles.dims, (size_t)in->tiles.naxes * sizeof *dims);
    if (in->tiles.naxes > *rank && !in->lastrep && in->ntypes == 0) {
        *partial = true; /* a plain inner tiling whose last axis was the replication axis */
        *rank = in->tiles.naxes - 1;
    } else if (in->tiles.naxes > *rank) {
        *partial = true;
        *rank = in->data_rank;
    } else {
        dims[*rank] = 1;
    }
    return in->tiles.order;
}

sharding_id sharding_ungroup(struct shardings *t, const struct sharding_group *g)
{
    int64_t inner[AXES_MAX], view[2 * AXES_MAX], dims[AXES_MAX];
    int rank, perm[2 * AXES_MAX], m = 0;
    bool partial;
    order_id in = inner_view(t, g, &rank, inner, &partial);
    int64_t ngroups = g->groups.dims[0];
    order_id o = order_compose(t, g->groups.order, in);
    if (g->manual) { /* data axes, groups as the manual axis, copies */
        view[0] = ngroups;
        memcpy(view + 1, inner, (size_t)(rank + 1) * sizeof *view);
        for (int i = 0; i < rank; i++) {
            perm[m++] = i + 1;
            dims[i] = inner[i];
        }
        perm[m++] = 0;
        perm[m++] = rank + 1;
        dims[rank] = ngroups;
        dims[rank + 1] = inner[rank];
        o = order_transpose(t, rank + 2, view, o, perm);
        return subgroup_make(t, rank + 2, dims, o, 2,
                             (const enum axis_type[]){ AXIS_MANUAL, AXIS_REPLICATED });
    }
    int n = g->ndims;
    for (int j = 0; j < n; j++) {
        view[j] = g->sizes[j];
        partial = partial || g->dims[j] == rank;
    }
    memcpy(view + n, inner, (size_t)(rank + 1) * sizeof *view);
    for (int i = 0; i <= rank; i++) {
        dims[i] = inner[i];
        for (int j = 0; j < n; j++)
            if (g->dims[j] == i) {
                perm[m++] = j;
                dims[i] *= g->sizes[j];
            }
        perm[m++] = n + i;
    }
    INVARIANT(m == n + rank + 1, "groups over an axis that is not there");
    o = order_transpose(t, m, view, o, perm);
    return partial ? partial_make(t, rank + 1, dims, o) : plain_make(t, rank, dims, o);
}

/* ---- S-61 ----------------------------------------------------------------------------------------------------- */

struct tiling sharding_groups_along(struct shardings *t, sharding_id s, int n, const int *dims)
{
    const struct sharding *x = sharding_get(t, s);
    INVARIANT(is_tiled_leaf(x), "groups along axes need a tiled sharding");
    int perm[AXES_MAX], m = 0;
    bool along[AXES_MAX] = { false };
    int64_t size = 1;
    for (int j = 0; j < n; j++)
        along[dims[j]] = true;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->tiles.naxes; i++)
            if (along[i] == (pass == 1)) {
                perm[m++] = i;
                size *= pass ? x->tiles.dims[i] : 1;
            }
    order_id o = order_transpose(t, m, x->tiles.dims, x->tiles.order, perm);
    int64_t shape[2] = { order_get(t, o)->ndevices / size, size };
    return tiling_make(t, 2, shape, o);
}

/* ---- S-45 ----------------------------------------------------------------------------------------------------- */

/* The prime factors as the original finds them: what is left above the square root is forgotten, unless
 * it is 2. */
static int quirky_factors(int64_t n, int64_t *f)
{
    int k = 0;
    while (n > 0 && n % 2 == 0) {
        f[k++] = 2;
        n /= 2;
    }
    for (int64_t d = 3; d <= n / d; d += 2)
        while (n % d == 0) {
            f[k++] = d;
            n /= d;
        }
    return k;
}

/* Moves a factor b from the priority axes to the replication axis; true when all of it was found. */
static bool borrow(int64_t b, int nprio, const int *prio, int64_t *dims, int rep)
{
    for (int i = 0; i < nprio && b > 1; i++) {
        int64_t f[DIGITS_MAX];
        int k = quirky_factors(dims[prio[i]], f);
        for (int j = 0; j < k && b > 1; j++)
            if (b % f[j] == 0) {
                b /= f[j];
                dims[prio[i]] /= f[j];
                dims[rep] *= f[j];
            }
    }
    return b == 1;
}

static bool group_by_borrowing(struct shardings *t, const struct sharding *x, int64_t ngroups,
                               int nprio, const int *prio, struct sharding_group *out)
{
    int64_t dims[AXES_MAX], k = x->lastrep ? x->tiles.dims[x->data_rank] : 1, most = k;
    int rep = x->data_rank;
    memcpy(dims, x->tiles.dims, (size_t)rep * sizeof *dims);
    dims[rep] = k;
    for (int i = 0; i < nprio; i++) {
        if (prio[i] >= rep)
            return false;
        most *= dims[prio[i]];
    }
    if (most % ngroups || ngroups % k || !borrow(ngroups / k, nprio, prio, dims, rep))
        return false;
    sharding_id s = partial_make(t, rep + 1, dims, order_iota(t, product(rep + 1, dims)));
    const struct sharding *y = sharding_get(t, s);
    if (!is_tiled_leaf(y) || !y->lastrep)
        return false;
    int64_t keep = y->tiles.dims[rep] / ngroups;
    sharding_group_on(t, s, 1, &rep, &keep, out);
    return true;
}

void sharding_group_on_replication(struct shardings *t, sharding_id s, int64_t ngroups,
                                   int64_t total, int rank, int nprio, const int *prio,
                                   struct sharding_group *out)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->lastrep && x->tiles.dims[x->data_rank] % ngroups == 0) {
        int64_t keep = x->tiles.dims[x->data_rank] / ngroups;
        sharding_group_on(t, s, 1, &x->data_rank, &keep, out);
        return;
    }
    if (is_tiled_leaf(x) && x->ntypes == 0 &&
        group_by_borrowing(t, x, ngroups, nprio, prio, out))
        return;
    int64_t shape[2] = { ngroups, total / ngroups };
    *out = (struct sharding_group){ .groups = tiling_make(t, 2, shape, order_iota(t, total)),
                                    .ndims = 1,
                                    .dims = { rank },
                                    .sizes = { ngroups },
                                    .data_rank = rank,
                                    .inner = sharding_replicated(t) };
}
