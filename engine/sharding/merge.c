/* Merging two partial shardings, P-28.
 *
 * Over digits the merge is an intersection (internals.md section 1): an axis that both sides tile, or
 * the manual one, needs the same digits; an axis of one side takes that side's; the chosen lists must
 * be disjoint; what is left, falling, is the replication axis. Orders without common digits are
 * merged as the specification has it, on arrays (methods A and B). */
#include <stdlib.h>
#include <string.h>

#include "sharding/internal.h"

/* Steps 4 to 8. */
struct plan {
    int r;                   /* data rank */
    int64_t c[AXES_MAX];     /* merged tiles; then g and rep where they are */
    bool new_dst[AXES_MAX];  /* dst does not tile this axis, m does */
    bool new_m[AXES_MAX];
    bool manual;
    int64_t g, rep, n;
    int naxes;
};

static bool has_maximal(const struct sharding *x)
{
    return x->ntypes > 0 && x->types[0] == AXIS_MAXIMAL; /* P-20: maximal comes first */
}

static bool plan_make(const struct shardings *t, sharding_id m, sharding_id dst, int64_t min,
                      struct plan *p)
{
    const struct sharding *x = sharding_get(t, m), *y = sharding_get(t, dst);
    int gm = sharding_manual_axis(t, m), gd = sharding_manual_axis(t, dst);
    if (x->data_rank != y->data_rank || (gm < 0) != (gd < 0) || has_maximal(x) || has_maximal(y))
        return false;
    p->r = x->data_rank;
    int64_t tiles = 1;
    for (int i = 0; i < p->r; i++) {
        int64_t a = x->tiles.dims[i], b = y->tiles.dims[i];
        if (a != b && a != 1 && b != 1)
            return false;
        p->c[i] = max_i64(a, b);
        p->new_dst[i] = a != b && b == 1;
        p->new_m[i] = a != b && a == 1;
        if (!mul_ok(tiles, p->c[i], &tiles))
            return false;
    }
    p->n = sharding_total(t, m);
    if (sharding_total(t, dst) != p->n || p->n % tiles || tiles < min)
        return false;
    p->manual = gm >= 0;
    p->g = p->manual ? x->tiles.dims[gm] : 1;
    if (p->manual && (y->tiles.dims[gd] != p->g || p->n / tiles % p->g))
        return false;
    p->rep = p->n / tiles / p->g;
    p->naxes = p->r;
    if (p->manual)
        p->c[p->naxes++] = p->g;
    if (p->rep > 1)
        p->c[p->naxes++] = p->rep;
    return true;
}

static sharding_id plan_finish(struct shardings *t, const struct plan *p, order_id o)
{
    enum axis_type types[2];
    int n = 0;
    if (p->manual)
        types[n++] = AXIS_MANUAL;
    if (p->rep > 1)
        types[n++] = AXIS_REPLICATED;
    return subgroup_make(t, p->naxes, p->c, o, n, types);
}

/* ---- digits -------------------------------------------------------------------------------------------- */

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

/* Position of the manual axis in x's array, or -1. Types are maximal, manual, replicated: P-20. */
static int manual_position(const struct sharding *x)
{
    for (int i = 0; i < x->ntypes; i++)
        if (x->types[i] == AXIS_MANUAL)
            return x->data_rank + i;
    return -1;
}

static enum answer merge_digits(struct shardings *t, const struct sharding *x,
                                const struct sharding *y, const struct plan *p, order_id *out)
{
    struct runs rx, ry;
    if (!runs_cut(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, &rx) ||
        !runs_cut(t, y->tiles.naxes, y->tiles.dims, y->tiles.order, &ry))
        return ANSWER_UNKNOWN;
    struct borders b;
    if (!borders_unite(2, (const struct runs *const[]){ &rx, &ry }, p->n, &b))
        return ANSWER_UNKNOWN;
    uint8_t chosen[DIGITS_MAX];
    uint64_t used = 0;
    int n = 0;
    int gx = manual_position(x), gy = manual_position(y);
    for (int i = 0; i < p->r + p->manual; i++) {
        int ax = i < p->r ? i : gx, ay = i < p->r ? i : gy;
        uint8_t ex[DIGITS_MAX], ey[DIGITS_MAX];
        int nx = elementary(&b, &rx, run_start(&rx, ax), rx.end[ax], ex);
        int ny = elementary(&b, &ry, run_start(&ry, ay), ry.end[ay], ey);
        if (nx && ny && (nx != ny || memcmp(ex, ey, (size_t)nx) != 0))
            return ANSWER_NO;
        const uint8_t *e = nx ? ex : ey;
        for (int k = 0; k < (nx ? nx : ny); k++) {
            uint64_t bit = (uint64_t)1 << (e[k] >> 1);
            if (used & bit)
                return ANSWER_NO;
            used |= bit;
            chosen[n++] = e[k];
        }
    }
    for (int j = b.nb - 1; j >= 0; j--)
        if (!(used >> j & 1))
            chosen[n++] = (uint8_t)(2 * j);
    struct digit d[DIGITS_MAX];
    int nd = digits_from_elementary(&b, n, chosen, d, 0);
    *out = order_from_digits(t, p->n, nd, d);
    return ANSWER_YES;
}

/* ---- arrays, method A ------------------------------------------------------------------------------------ */

enum { FACTORS_MAX = 7 }; /* 7! orders of splitting; beyond, only method B is tried */

static bool next_permutation(int n, int *q)
{
    int i = n - 2;
    while (i >= 0 && q[i] > q[i + 1])
        i--;
    if (i < 0)
        return false;
    int k = n - 1;
    while (q[k] < q[i])
        k--;
    int x = q[i];
    q[i] = q[k];
    q[k] = x;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        x = q[a];
        q[a] = q[b];
        q[b] = x;
    }
    return true;
}

typedef VEC(order_id) order_vec;

/* One candidate: x's array with its replication axis split into F[q0], F[q1], ..., and each factor
 * brought to the axis that it makes. to[f]: axis of factor f (naxes - 1 for rep). */
static order_id split_candidate(struct shardings *t, const struct sharding *x,
                                const struct plan *p, const bool *fresh, int nf, const int64_t *f,
                                const int *to, const int *q)
{
    int64_t view[AXES_MAX];
    int where[AXES_MAX], perm[AXES_MAX], k = 0;
    for (int i = 0; i < p->r; i++)
        if (!fresh[i]) {
            where[i] = k;
            view[k++] = x->tiles.dims[i];
        }
    if (p->manual) {
        where[p->r] = k;
        view[k++] = p->g;
    }
    for (int i = 0; i < nf; i++) {
        where[to[q[i]]] = k;
        view[k++] = f[q[i]];
    }
    for (int i = 0; i < p->naxes; i++)
        perm[i] = where[i];
    return order_transpose(t, k, view, x->tiles.order, perm);
}

static bool candidates(struct shardings *t, struct arena *a, const struct sharding *x,
                       const struct plan *p, const bool *fresh, order_vec *out)
{
    int64_t f[AXES_MAX];
    int to[AXES_MAX], q[AXES_MAX], nf = 0;
    int64_t rep = 1;
    for (int i = x->data_rank; i < x->tiles.naxes; i++)
        if (x->lastrep || x->types[i - x->data_rank] == AXIS_REPLICATED)
            rep = x->tiles.dims[i];
    if (rep == 1 || rep == p->rep) {
        vec_push(a, out, x->tiles.order);
        return true;
    }
    for (int i = 0; i < p->r; i++)
        if (fresh[i]) {
            to[nf] = i;
            f[nf++] = p->c[i];
        }
    if (p->rep > 1) {
        to[nf] = p->naxes - 1;
        f[nf++] = p->rep;
    }
    if (nf > FACTORS_MAX || product(nf, f) != rep)
        return false;
    for (int i = 0; i < nf; i++)
        q[i] = i;
    do
        vec_push(a, out, split_candidate(t, x, p, fresh, nf, f, to, q));
    while (next_permutation(nf, q));
    return true;
}

/* The last matching pair wins, P-28: outer loop over dst's candidates. */
static bool method_a(struct shardings *t, struct arena *a, const struct sharding *m,
                     const struct sharding *dst, const struct plan *p, order_id *out)
{
    order_vec cd = { 0 }, cm = { 0 };
    if (!candidates(t, a, dst, p, p->new_dst, &cd) || !candidates(t, a, m, p, p->new_m, &cm))
        return false;
    for (int64_t i = cd.n - 1; i >= 0; i--)
        for (int64_t k = cm.n - 1; k >= 0; k--)
            if (cd.v[i].i == cm.v[k].i) {
                *out = cd.v[i];
                return true;
            }
    return false;
}

/* ---- arrays, method B -------------------------------------------------------------------------------------- */

/* Group of each device: the run of cells it is in. */
static int64_t *group_of_device(const struct shardings *t, struct arena *a, const struct sharding *x,
                                int64_t ngroups)
{
    int64_t n = order_get(t, x->tiles.order)->ndevices;
    int64_t *inverse = order_inverse_list(t, a, x->tiles.order);
    for (int64_t i = 0; inverse && i < n; i++)
        inverse[i] /= n / ngroups;
    return inverse;
}

/* Cell x of the merged array belongs to this group of a side. */
static int64_t group_of_cell(const struct plan *p, const struct sharding *x, const int64_t *at)
{
    int64_t k = 0;
    for (int i = 0; i < p->r; i++)
        k = k * x->tiles.dims[i] + (x->tiles.dims[i] > 1 ? at[i] : 0);
    return p->manual ? k * p->g + at[p->r] : k;
}

struct pair_entry {
    int64_t pair, device;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair_entry *x = a, *y = b;
    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

/* Devices sorted by (group of m, group of dst, number): each cell takes the next of its pair. */
static bool method_b(struct shardings *t, struct arena *a, const struct sharding *m,
                     const struct sharding *dst, const struct plan *p, order_id *out)
{
    int64_t gm = product(m->data_rank, m->tiles.dims) * p->g;
    int64_t gd = product(dst->data_rank, dst->tiles.dims) * p->g, pairs;
    int64_t *of_m = group_of_device(t, a, m, gm), *of_d = group_of_device(t, a, dst, gd);
    if (!of_m || !of_d || !mul_ok(gm, gd, &pairs))
        return false;
    struct pair_entry *e = ARENA_ARRAY(a, struct pair_entry, p->n);
    for (int64_t i = 0; i < p->n; i++)
        e[i] = (struct pair_entry){ of_m[i] * gd + of_d[i], i };
    qsort(e, (size_t)p->n, sizeof *e, compare_pairs);
    struct map next;
    map_init(&next, a);
    for (int64_t i = p->n - 1; i >= 0; i--)
        map_put(&next, (uint64_t)e[i].pair, (uint64_t)i);
    int64_t *list = ARENA_ARRAY(a, int64_t, p->n), at[AXES_MAX] = { 0 };
    for (int64_t cell = 0; cell < p->n; cell++) {
        int64_t pair = group_of_cell(p, m, at) * gd + group_of_cell(p, dst, at);
        uint64_t k;
        if (!map_get(&next, (uint64_t)pair, &k) || (int64_t)k >= p->n ||
            e[k].pair != pair)
            return false;
        list[cell] = e[k].device;
        map_put(&next, (uint64_t)pair, k + 1);
        for (int i = p->naxes - 1; i >= 0 && ++at[i] == p->c[i]; i--)
            at[i] = 0;
    }
    *out = order_from_list(t, p->n, list);
    return true;
}

static bool merge_arrays(struct shardings *t, const struct sharding *m, const struct sharding *dst,
                         const struct plan *p, order_id *out)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    bool ok = method_a(t, &tmp, m, dst, p, out) || method_b(t, &tmp, m, dst, p, out);
    arena_close(&tmp);
    return ok;
}

/* ---- P-28 ---------------------------------------------------------------------------------------------------- */

static sharding_id merge_tiled(struct shardings *t, sharding_id m, sharding_id dst, int64_t min)
{
    struct plan p;
    if (!plan_make(t, m, dst, min, &p))
        return (sharding_id){ 0 };
    const struct sharding *x = sharding_get(t, m), *y = sharding_get(t, dst);
    order_id o;
    enum answer a = merge_digits(t, x, y, &p, &o);
    if (a == ANSWER_NO || (a == ANSWER_UNKNOWN && !merge_arrays(t, x, y, &p, &o)))
        return (sharding_id){ 0 };
    return plan_finish(t, &p, o);
}

bool sharding_merge_compat(struct shardings *t, sharding_id m, sharding_id *dst, int64_t min)
{
    if (sharding_is_max(t, m))
        return false;
    if (sharding_is_max(t, *dst)) {
        *dst = m;
        return true;
    }
    if (sharding_get(t, m)->kind != SHARDING_TILED || !sharding_is_partial(t, *dst))
        return false; /* manual and unknown included: P-151 */
    if (min < 0)
        min = sharding_num_tiles(t, *dst) + 1;
    struct memo_key key;
    memo_start(&key, MEMO_MERGE);
    memo_add(&key, m.i);
    memo_add(&key, dst->i);
    memo_add(&key, min);
    int64_t r;
    if (!memo_get(t, &key, &r)) {
        r = merge_tiled(t, m, *dst, min).i;
        memo_put(t, &key, r);
    }
    if (r)
        dst->i = (uint32_t)r;
    return r != 0;
}
