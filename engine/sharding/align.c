/* Comparing and relabelling groups, S-40..S-42, S-46, S-47. */
#include <stdlib.h>
#include <string.h>

#include "sharding/internal.h"

/* Both cut into (groups, members) over common elementary digits. */
struct group_pair {
    struct borders b;
    int na, nb, ma, mb; /* digits of groups and of members of a and b */
    uint8_t ga[DIGITS_MAX], gb[DIGITS_MAX], va[DIGITS_MAX], vb[DIGITS_MAX];
};

static bool pair_digits(struct shardings *t, struct tiling a, struct tiling b, struct group_pair *p)
{
    struct runs ra, rb;
    int64_t n = order_get(t, a.order)->ndevices;
    if (n != order_get(t, b.order)->ndevices || !runs_cut(t, 2, a.dims, a.order, &ra) ||
        !runs_cut(t, 2, b.dims, b.order, &rb) ||
        !borders_unite(2, (const struct runs *const[]){ &ra, &rb }, n, &p->b))
        return false;
    p->na = elementary(&p->b, &ra, 0, ra.end[0], p->ga);
    p->ma = elementary(&p->b, &ra, ra.end[0], ra.end[1], p->va);
    p->nb = elementary(&p->b, &rb, 0, rb.end[0], p->gb);
    p->mb = elementary(&p->b, &rb, rb.end[0], rb.end[1], p->vb);
    return true;
}

static uint64_t digit_set(int n, const uint8_t *e)
{
    uint64_t set = 0;
    for (int i = 0; i < n; i++)
        set |= (uint64_t)1 << (e[i] >> 1);
    return set;
}

/* q(r): rank in b's group of the member of rank r in a's. The same in every group. */
static order_id relabel_digits(struct shardings *t, const struct group_pair *p, int64_t size)
{
    struct digit d[DIGITS_MAX];
    for (int i = 0; i < p->ma; i++) {
        int j = p->va[i] >> 1;
        int64_t weight = 1;
        int k = p->mb - 1;
        for (; p->vb[k] >> 1 != j; k--)
            weight *= p->b.b[(p->vb[k] >> 1) + 1] / p->b.b[p->vb[k] >> 1];
        d[i] = (struct digit){ p->b.b[j + 1] / p->b.b[j], weight, (p->va[i] ^ p->vb[k]) & 1 };
    }
    return order_from_digits(t, size, p->ma, d);
}

/* ---- arrays --------------------------------------------------------------------------------------------- */

/* Group and rank of every device of b; NULL when b is no permutation of 0..n-1. */
struct placed_devices {
    const int64_t *a;       /* list of a */
    const int64_t *inverse; /* cell in b of each device */
    int64_t n, ngroups, size;
};

static bool place_devices(struct shardings *t, struct arena *tmp, struct tiling a, struct tiling b,
                          struct placed_devices *p)
{
    p->n = order_get(t, a.order)->ndevices;
    if (p->n != order_get(t, b.order)->ndevices)
        return false;
    p->a = order_list(t, tmp, a.order);
    p->inverse = order_inverse_list(t, tmp, b.order);
    p->ngroups = a.dims[0];
    p->size = a.dims[1];
    for (int64_t i = 0; p->inverse && i < p->n; i++)
        if (p->a[i] < 0 || p->a[i] >= p->n)
            return false;
    return p->inverse != NULL;
}

/* Every group of a is a group of b: the one of the same index unless ignore_order. */
static bool sets_match(const struct placed_devices *p, bool ignore_order)
{
    for (int64_t g = 0; g < p->ngroups; g++) {
        int64_t in = p->inverse[p->a[g * p->size]] / p->size;
        if (!ignore_order && in != g)
            return false;
        for (int64_t r = 1; r < p->size; r++)
            if (p->inverse[p->a[g * p->size + r]] / p->size != in)
                return false;
    }
    return true;
}

static bool permutations_agree(const struct placed_devices *p)
{
    for (int64_t g = 1; g < p->ngroups; g++)
        for (int64_t r = 0; r < p->size; r++)
            if (p->inverse[p->a[g * p->size + r]] % p->size != p->inverse[p->a[r]] % p->size)
                return false;
    return true;
}

static order_id relabel_list(struct shardings *t, struct arena *tmp, const struct placed_devices *p)
{
    int64_t *q = ARENA_ARRAY(tmp, int64_t, p->size);
    for (int64_t r = 0; r < p->size; r++)
        q[r] = p->inverse[p->a[r]] % p->size;
    return order_from_list(t, p->size, q);
}

static bool relabel_by_arrays(struct shardings *t, struct tiling a, struct tiling b,
                              bool ignore_order, bool strict, order_id *q)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct placed_devices p;
    bool ok = place_devices(t, &tmp, a, b, &p) && sets_match(&p, ignore_order) &&
              (!strict || permutations_agree(&p));
    if (ok)
        *q = relabel_list(t, &tmp, &p);
    arena_close(&tmp);
    return ok;
}

/* ---- S-40, S-41 -------------------------------------------------------------------------------------------- */

static bool relabelling(struct shardings *t, struct tiling a, struct tiling b, bool ignore_order,
                        bool strict, order_id *q)
{
    if (a.dims[0] != b.dims[0] || a.dims[1] != b.dims[1])
        return false;
    struct group_pair p;
    if (!pair_digits(t, a, b, &p))
        return relabel_by_arrays(t, a, b, ignore_order, strict, q);
    if (digit_set(p.ma, p.va) != digit_set(p.mb, p.vb))
        return false;
    if (!ignore_order && (p.na != p.nb || memcmp(p.ga, p.gb, (size_t)p.na) != 0))
        return false;
    *q = relabel_digits(t, &p, a.dims[1]);
    return true;
}

static void relabel_inner(struct shardings *t, struct sharding_group *g, order_id q)
{
    const struct sharding *in = sharding_get(t, g->inner);
    if (!is_tiled_leaf(in) || order_get(t, in->tiles.order)->ndevices != order_get(t, q)->ndevices)
        return;
    order_id o = order_compose(t, q, in->tiles.order);
    g->inner = rebuild_make(t, in, in->tiles.naxes, in->tiles.dims, o);
}

bool sharding_group_align(struct shardings *t, struct sharding_group *g,
                          const struct sharding_group *ref, bool ignore_order)
{
    order_id q;
    bool ok = relabelling(t, g->groups, ref->groups, ignore_order, false, &q);
    if (ok)
        relabel_inner(t, g, q);
    g->groups = ref->groups;
    return ok;
}

bool sharding_group_align_strict(struct shardings *t, struct sharding_group *g,
                                 const struct sharding_group *ref)
{
    order_id q;
    if (!relabelling(t, g->groups, ref->groups, false, true, &q))
        return false;
    relabel_inner(t, g, q);
    g->groups = ref->groups;
    return true;
}

bool sharding_group_align_members(struct shardings *t, struct sharding_group *g,
                                  const struct sharding_group *ref)
{
    order_id q;
    if (!relabelling(t, g->groups, ref->groups, true, true, &q))
        return false;
    relabel_inner(t, g, q);
    g->groups = ref->groups;
    return true;
}

sharding_id sharding_align_on_dims(struct shardings *t, sharding_id s, int n, const int *dims,
                                   sharding_id ref, const int *ref_dims)
{
    struct sharding_group g, r;
    sharding_group_on(t, s, n, dims, NULL, &g);
    sharding_group_on(t, ref, n, ref_dims, NULL, &r);
    sharding_group_align(t, &g, &r, false);
    return sharding_ungroup(t, &g);
}

bool tiling_same_groups(struct shardings *t, struct tiling a, struct tiling b)
{
    if (tiling_equal(a, b))
        return true;
    order_id q;
    return relabelling(t, a, b, true, false, &q);
}

/* ---- S-46 ------------------------------------------------------------------------------------------------------ */

/* The inner array in member ranks: data digits in s's order, then the copies. */
static bool members_by_digits(struct shardings *t, const struct sharding *x, struct tiling groups,
                              int64_t shards, order_id *out, bool *ok)
{
    struct runs rs, rg;
    struct borders b;
    int64_t n = order_get(t, x->tiles.order)->ndevices;
    if (!runs_cut(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, &rs) ||
        !runs_cut(t, 2, groups.dims, groups.order, &rg) ||
        !borders_unite(2, (const struct runs *const[]){ &rs, &rg }, n, &b))
        return false;
    uint8_t data[DIGITS_MAX], v[DIGITS_MAX];
    int nd = elementary(&b, &rs, 0, x->data_rank ? rs.end[x->data_rank - 1] : 0, data);
    int m = elementary(&b, &rg, rg.end[0], rg.end[1], v);
    uint64_t in_data = digit_set(nd, data), in_group = digit_set(m, v);
    *ok = (in_data & ~in_group) == 0 && groups.dims[1] / shards == product(x->data_rank, x->tiles.dims);
    if (!*ok)
        return true;
    int64_t weight = groups.dims[1], weights[DIGITS_MAX];
    struct digit d[DIGITS_MAX];
    int k = 0;
    uint8_t flag[DIGITS_MAX];
    for (int i = 0; i < m; i++) {
        int j = v[i] >> 1;
        weight /= b.b[j + 1] / b.b[j];
        weights[j] = weight;
        flag[j] = v[i] & 1;
    }
    for (int i = 0; i < nd; i++) {
        int j = data[i] >> 1;
        d[k++] = (struct digit){ b.b[j + 1] / b.b[j], weights[j], (data[i] & 1) != flag[j] };
    }
    for (int i = 0; i < m; i++) { /* members of one tile stand in member order */
        int j = v[i] >> 1;
        if (!(in_data >> j & 1))
            d[k++] = (struct digit){ b.b[j + 1] / b.b[j], weights[j], false };
    }
    *out = order_from_digits(t, groups.dims[1], k, d);
    return true;
}

/* One group's members put into its tiles, `shards` a tile, in member order. */
static bool fill_group(struct shardings *t, const struct sharding *x, struct tiling groups,
                       int64_t group, int64_t shards, int64_t *count, int64_t *inner)
{
    int64_t copies = x->tiles.dims[x->data_rank], size = groups.dims[1];
    memset(count, 0, (size_t)(size / shards) * sizeof *count);
    for (int64_t r = 0; r < size; r++) {
        int64_t device = order_device(t, groups.order, group * size + r);
        int64_t cell = order_cell(t, x->tiles.order, device);
        if (cell < 0 || cell / copies >= size / shards || count[cell / copies] == shards)
            return false;
        int64_t tile = cell / copies;
        inner[tile * shards + count[tile]++] = r;
    }
    return true;
}

static bool members_by_arrays(struct shardings *t, const struct sharding *x, struct tiling groups,
                              int64_t shards, order_id *out)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t size = groups.dims[1];
    int64_t *count = ARENA_ARRAY(&tmp, int64_t, size), *first = ARENA_ARRAY(&tmp, int64_t, size);
    int64_t *other = ARENA_ARRAY(&tmp, int64_t, size);
    bool ok = fill_group(t, x, groups, 0, shards, count, first);
    for (int64_t g = 1; ok && g < groups.dims[0]; g++)
        ok = fill_group(t, x, groups, g, shards, count, other) &&
             memcmp(first, other, (size_t)size * sizeof *first) == 0;
    if (ok)
        *out = order_from_list(t, size, first);
    arena_close(&tmp);
    return ok;
}

bool sharding_group_replicated_as(struct shardings *t, sharding_id s, struct tiling groups,
                                  int64_t shards, struct sharding_group *out)
{
    const struct sharding *x = sharding_get(t, s);
    int64_t tiles = sharding_num_tiles(t, s), size = groups.dims[1];
    if (!is_tiled_leaf(x) || !x->lastrep || shards < 1 || size % shards ||
        order_get(t, groups.order)->ndevices != order_get(t, x->tiles.order)->ndevices ||
        size / shards != tiles)
        return false;
    order_id o;
    bool ok;
    if (!members_by_digits(t, x, groups, shards, &o, &ok))
        ok = members_by_arrays(t, x, groups, shards, &o);
    if (!ok)
        return false;
    int64_t dims[AXES_MAX];
    memcpy(dims, x->tiles.dims, (size_t)x->data_rank * sizeof *dims);
    dims[x->data_rank] = shards;
    *out = (struct sharding_group){ .groups = groups,
                                    .ndims = 1,
                                    .dims = { x->data_rank },
                                    .sizes = { groups.dims[0] },
                                    .data_rank = x->data_rank,
                                    .inner = partial_make(t, x->data_rank + 1, dims, o) };
    return true;
}

/* ---- S-47 ------------------------------------------------------------------------------------------------------ */

/* The index on `axis` is the same for all members of each group. */
static bool constant_in_groups(struct shardings *t, const struct sharding *x, struct tiling groups,
                               int axis)
{
    struct runs rs, rg;
    struct borders b;
    int64_t n = order_get(t, x->tiles.order)->ndevices;
    if (runs_cut(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, &rs) &&
        runs_cut(t, 2, groups.dims, groups.order, &rg) &&
        borders_unite(2, (const struct runs *const[]){ &rs, &rg }, n, &b)) {
        uint8_t e[DIGITS_MAX], v[DIGITS_MAX];
        int ne = elementary(&b, &rs, run_start(&rs, axis), rs.end[axis], e);
        int nv = elementary(&b, &rg, rg.end[0], rg.end[1], v);
        return (digit_set(ne, e) & digit_set(nv, v)) == 0;
    }
    int64_t first[AXES_MAX], index[AXES_MAX];
    for (int64_t k = 0; k < n; k++) {
        bool starts = k % groups.dims[1] == 0;
        tiling_index(t, x->tiles, order_device(t, groups.order, k), starts ? first : index);
        if (!starts && index[axis] != first[axis])
            return false;
    }
    return true;
}

int sharding_dims_matching(struct shardings *t, sharding_id s, struct tiling groups, int *dims)
{
    const struct sharding *x = sharding_get(t, s);
    int64_t ngroups = groups.dims[0], size = groups.dims[1], count = 1;
    if (!is_tiled_leaf(x) || ngroups < 2 ||
        order_get(t, groups.order)->ndevices != order_get(t, x->tiles.order)->ndevices)
        return -1;
    int n = 0;
    if (size == 1) {
        for (int i = 0; i < x->tiles.naxes; i++)
            if (x->tiles.dims[i] > 1)
                dims[n++] = i;
        return n;
    }
    int64_t a[AXES_MAX], b[AXES_MAX];
    tiling_index(t, x->tiles, order_device(t, groups.order, 0), a);
    tiling_index(t, x->tiles, order_device(t, groups.order, 1), b);
    for (int i = 0; i < x->tiles.naxes; i++)
        if (a[i] == b[i]) {
            dims[n++] = i;
            count *= x->tiles.dims[i];
        }
    if (count != ngroups)
        return -1;
    for (int i = 0; i < n; i++)
        if (!constant_in_groups(t, x, groups, dims[i]))
            return -1;
    return n;
}
