/* From one sharding to another (S-71..S-91). The order of decisions is that of S-73; all-to-alls are
 * in reshard_a2a.c, cutting and making whole in replicate.c.
 */
#include "partition/reshard.h"

#include <string.h>

#include "base/fail.h"

/* ---- small words ------------------------------------------------------------------------------------ */

bool is_partial(const struct spmd *s, sharding_id sh)
{
    return sharding_get(s->sh, sh)->lastrep;
}

struct tiling tiles_of(const struct spmd *s, sharding_id sh)
{
    return sharding_get(s->sh, sh)->tiles;
}

/* Data axes and a replication axis when a is one longer than rank. */
sharding_id sharding_of_tiles(struct spmd *s, struct tiling a, int rank)
{
    return a.naxes > rank ? sharding_partial(s->sh, a) : sharding_plain(s->sh, a);
}

static const struct shape *base_shape(const struct spmd *s, struct pval v)
{
    return shape_get(s->ir, v.base);
}

shape_id base_with(struct spmd *s, shape_id base, int dim, int64_t size)
{
    const struct shape *b = shape_get(s->ir, base);
    int64_t dims[RANK_ROOM];
    INVARIANT(b->rank <= RANK_ROOM, "rank %d", b->rank);
    memcpy(dims, b->dims, (size_t)b->rank * sizeof *dims);
    dims[dim] = size;
    return shape_array(s->ir, b->dtype, b->rank, dims);
}

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* ---- the cache, S-72 ---------------------------------------------------------------------------------- */

struct reshard_key {
    uint32_t groups, local, from, base, to, epoch;
};

bool reshard_cache_get(struct spmd *s, struct pval v, sharding_id to, struct pval *out)
{
    struct reshard_key k = { s->groups->number, v.local.i, v.sharding.i, v.base.i, to.i, s->epoch };
    uint32_t id = intern_find(&s->reshard_keys, &k, sizeof k);
    if (!id)
        return false;
    *out = s->reshards.v[id];
    return !best_rejected(s, out->local);
}

void reshard_cache_put(struct spmd *s, struct pval v, sharding_id to, struct pval r)
{
    struct reshard_key k = { s->groups->number, v.local.i, v.sharding.i, v.base.i, to.i, s->epoch };
    uint32_t id = intern_put(&s->reshard_keys, &k, sizeof k);
    while (s->reshards.n <= (int64_t)id)
        vec_push(&s->arena, &s->reshards, (struct pval){ 0 });
    s->reshards.v[id] = r;
}

/* ---- permuting -------------------------------------------------------------------------------------------- */

bool can_permute(const struct spmd *s, sharding_id from, sharding_id to)
{
    const struct sharding *a = sharding_get(s->sh, from), *b = sharding_get(s->sh, to);
    return a->kind == SHARDING_TILED && b->kind == SHARDING_TILED &&
           a->tiles.naxes == b->tiles.naxes && a->lastrep == b->lastrep &&
           memcmp(a->tiles.dims, b->tiles.dims, (size_t)a->tiles.naxes * sizeof *a->tiles.dims) ==
               0 &&
           a->tiles.order.i != b->tiles.order.i;
}

/* S-76, S-77 */
struct pval permute(struct spmd *s, struct pval v, sharding_id to)
{
    uint64_t same = 0;
    int dims[64], n = 0;
    if (map_get(&s->known_equal, v.local.i, &same))
        for (int d = 0; d < 64; d++)
            if (same >> d & 1)
                dims[n++] = d;
    if (n && sharding_replicate_dims(s->sh, v.sharding, n, dims).i ==
                 sharding_replicate_dims(s->sh, to, n, dims).i) {
        v.local = emit_copy(s, v.local);
        return pval_relabel(v, to);
    }
    struct permute_pairs p = { .kind = PAIRS_TILINGS,
                               .from = tiles_of(s, v.sharding),
                               .to = tiles_of(s, to) };
    v.local = emit_permute(s, v.local, &p);
    return pval_relabel(v, to);
}

/* ---- partial replication, S-85..S-88 ------------------------------------------------------------------------ */

/* `other`'s counts over `partial`'s device order; none when one does not refine the other. S-85 */
static sharding_id compatible(struct spmd *s, sharding_id partial, sharding_id other)
{
    sharding_id none = { 0 };
    const struct sharding *p = sharding_get(s->sh, partial), *o = sharding_get(s->sh, other);
    if (!p->lastrep || o->kind != SHARDING_TILED ||
        sharding_total(s->sh, partial) != sharding_total(s->sh, other) ||
        p->data_rank != o->data_rank)
        return none;
    int rank = p->data_rank;
    for (int d = 0; d < rank; d++)
        if (o->tiles.dims[d] % p->tiles.dims[d] != 0)
            return none;
    if (sharding_is_subtiling(s->sh, rank, o->tiles.dims, other, partial))
        return other;
    /* Split the replication axis into the factors that dims grow by, and what is left. */
    int64_t cut[RANK_ROOM], left = p->tiles.dims[rank], dims[RANK_ROOM];
    int at[RANK_ROOM], n = rank, perm[RANK_ROOM], k = 0, ndims = rank;
    for (int d = 0; d < rank; d++) {
        cut[d] = p->tiles.dims[d];
        dims[d] = o->tiles.dims[d];
        at[d] = -1;
        int64_t f = o->tiles.dims[d] / p->tiles.dims[d];
        if (f == 1)
            continue;
        if (left % f != 0)
            return none;
        left /= f;
        at[d] = n;
        cut[n++] = f;
    }
    cut[n++] = left;
    for (int d = 0; d < rank; d++) {
        perm[k++] = d;
        if (at[d] >= 0)
            perm[k++] = at[d];
    }
    perm[k++] = n - 1;
    if (left > 1)
        dims[ndims++] = left;
    struct tiling t = tiling_reshape(s->sh, p->tiles, n, cut);
    t = tiling_transpose(s->sh, t, perm);
    return sharding_of_tiles(s, tiling_reshape(s->sh, t, ndims, dims), rank);
}

static int64_t linear_at(const struct halo_fn *f, int64_t i)
{
    return f->a * (i / f->c) + f->b;
}

/* Padded size of dim under sh. */
static int64_t padded(const struct spmd *s, const struct shape *base, sharding_id sh, int d)
{
    return round_up(base->dims[d], sharding_tile(s->sh, sh, d));
}

/* S-86 1: the source's shards must hold what the finer tiles inside them cover. */
static instr_id room_for_finer(struct spmd *s, struct pval v, sharding_id to)
{
    const struct shape *base = base_shape(s, v);
    instr_id x = v.local;
    int64_t high[RANK_ROOM] = { 0 };
    for (int d = 0; d < base->rank; d++) {
        int64_t t = sharding_tile(s->sh, v.sharding, d);
        if (sharding_tile(s->sh, to, d) == t)
            continue;
        int64_t own = ceil_div(base->dims[d], t), want = padded(s, base, to, d) / t;
        if (own >= want)
            continue;
        if (t == 1) {
            high[d] = want - own;
            continue;
        }
        struct halo_fn left = { linear_at, own - want, 0, 1 };
        struct halo_fn right = { linear_at, want - own, want - own, 1 };
        x = halo_compact(s, x, &left, &right, (instr_id){ 0 }, d, v.sharding, base->dims[d]);
    }
    pads_high(s, &x, high, (instr_id){ 0 });
    return x;
}

/* S-86. false: not applicable. */
static bool finer_by_slice(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    sharding_id x = compatible(s, v.sharding, target);
    if (!x.i)
        return false;
    const struct shape *base = base_shape(s, v);
    int rank = base->rank;
    int64_t cut[RANK_ROOM], sizes[RANK_ROOM];
    instr_id at[RANK_ROOM] = { { 0 } };
    int minor[RANK_ROOM], naxes = 0;
    bool even = true;
    struct tiling t = tiles_of(s, x);
    for (int d = 0; d < rank; d++) {
        int64_t coarse = sharding_tile(s->sh, v.sharding, d), fine = sharding_tile(s->sh, x, d);
        cut[naxes++] = coarse;
        minor[d] = naxes;
        cut[naxes++] = fine / coarse;
        sizes[d] = ceil_div(base->dims[d], fine);
        even = even && base->dims[d] % fine == 0;
    }
    for (int i = rank; i < t.naxes; i++)
        cut[naxes++] = t.dims[i];
    instr_id local = room_for_finer(s, v, x);
    struct tiling dev = tiling_in_devices(s, tiling_reshape(s->sh, t, naxes, cut));
    for (int d = 0; d < rank; d++)
        if (cut[minor[d]] > 1) {
            at[d] = axis_index_node(s, dev, minor[d] + 1);
            if (sizes[d] != 1)
                at[d] = emit_arith(s, OP_MULTIPLY, at[d], emit_const_i(s, DTYPE_S32, sizes[d]));
        }
    /* Uneven coarse tiles may be longer than their finer ones together: cut what is needed. */
    instr_id y = emit_dynamic_slice(s, local, at, sizes);
    if (even && y.i != local.i)
        note_minor_cut(s, y, dev, rank, minor);
    struct pval r = { y, v.base, x };
    *out = can_permute(s, x, target) ? permute(s, r, target) : pval_relabel(r, target);
    return true;
}

/* dev has axes (groups, major 0, minor 0, major 1, ...): note the minor ones as the cut. */
void note_minor_cut(struct spmd *s, instr_id n, struct tiling dev, int rank, const int *minor)
{
    int perm[RANK_ROOM], k = 0;
    bool used[RANK_ROOM] = { false };
    int64_t dims[RANK_ROOM], rest = 1;
    for (int d = 0; d < rank; d++)
        used[minor[d] + 1] = true;
    for (int i = 0; i < dev.naxes; i++)
        if (!used[i]) {
            perm[k++] = i;
            rest *= dev.dims[i];
        }
    dims[0] = rest;
    for (int d = 0; d < rank; d++) {
        perm[k++] = minor[d] + 1;
        dims[d + 1] = dev.dims[minor[d] + 1];
    }
    struct tiling t = tiling_transpose(s->sh, dev, perm);
    note_cut(s, n, tiling_reshape(s->sh, t, rank + 1, dims));
}

/* S-87: uneven shards shift so that what is gathered is the coarser shard. */
static instr_id shift_for_coarser(struct spmd *s, struct pval v, sharding_id target)
{
    const struct shape *base = base_shape(s, v);
    const struct shape *local = node_shape(s, v.local);
    bool same = true;
    for (int d = 0; d < base->rank; d++)
        same = same && padded(s, base, target, d) == local->dims[d];
    instr_id x = v.local;
    for (int d = 0; d < base->rank && !same; d++) {
        int64_t tx = sharding_tile(s->sh, v.sharding, d), tt = sharding_tile(s->sh, target, d);
        if (tx == tt || tt == 1)
            continue;
        int64_t more = padded(s, base, v.sharding, d) / tt - padded(s, base, target, d) / tt;
        if (more <= 0)
            continue;
        struct halo_fn left = { linear_at, more, 0, tx / tt };
        struct halo_fn right = { linear_at, -more, 0, tx / tt };
        x = halo_compact(s, x, &left, &right, (instr_id){ 0 }, d, v.sharding, base->dims[d]);
    }
    return x;
}

/* S-87 */
static bool coarser_by_gather(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    sharding_id x = compatible(s, target, v.sharding);
    if (!x.i)
        return false;
    if (can_permute(s, v.sharding, x))
        v = permute(s, v, x);
    else
        v.sharding = x;
    const struct shape *base = base_shape(s, v);
    int dims[RANK_ROOM], n = 0;
    int64_t keep[RANK_ROOM];
    for (int d = 0; d < base->rank; d++) {
        int64_t f = sharding_tile(s->sh, x, d) / sharding_tile(s->sh, target, d);
        if (f > 1) {
            dims[n] = d;
            keep[n++] = f;
        }
    }
    struct pval in = { shift_for_coarser(s, v, target), shard_shape(s, v.base, target), x };
    if (n) {
        struct sharding_group g;
        sharding_group_on(s->sh, x, n, dims, keep, &g);
        in.sharding = g.inner;
        groups_enter(s, g.groups);
        in = unshard_dims(s, in, n, dims);
        groups_leave(s);
    }
    *out = pval_make(s, in.local, v.base, target);
    return true;
}

/* S-88. `L` has one axis less than `Q`, and Q's data axes after the first are L's, shifted. */
static bool special_pair(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    bool to_partial = is_partial(s, target);
    if (to_partial == is_partial(s, v.sharding))
        return false;
    sharding_id lid = to_partial ? v.sharding : target, qid = to_partial ? target : v.sharding;
    struct tiling l = tiles_of(s, lid), q = tiles_of(s, qid);
    if (l.naxes + 1 != q.naxes || q.dims[0] != 1 || l.order.i != q.order.i)
        return false;
    int z = -1;
    for (int i = 0; i < l.naxes; i++) {
        if (l.dims[i] > 1)
            z = i;
        if (l.dims[i] != q.dims[i + 1])
            return false;
    }
    if (z < 0 || l.dims[z] != q.dims[q.naxes - 1])
        return false;
    sharding_id mid = sharding_replicate_dims(s->sh, lid, 1, &z);
    struct a2a_plan plan;
    if (!a2a_plan(s, to_partial ? mid : qid, to_partial ? qid : mid, &plan))
        return false;
    if (to_partial)
        *out = a2a_run(s, reshard(s, v, mid), target, &plan);
    else
        *out = reshard(s, a2a_run(s, v, mid, &plan), target);
    return true;
}

/* ---- complex pairs, S-89..S-91 ------------------------------------------------------------------------------- */

/* S-90: the dims i, j and the size k of the major part of i. */
static bool split_move(struct spmd *s, struct pval v, sharding_id target, int *pi, int *pj,
                       int64_t *pk)
{
    const struct shape *base = base_shape(s, v), *local = node_shape(s, v.local);
    sharding_id f = v.sharding;
    if (sharding_copies(s->sh, f) != sharding_copies(s->sh, target))
        return false;
    int diff[RANK_ROOM], n = 0;
    for (int d = 0; d < base->rank; d++)
        if (sharding_tile(s->sh, f, d) != sharding_tile(s->sh, target, d))
            diff[n++] = d;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            int i = diff[a], j = diff[b];
            int64_t si = sharding_tile(s->sh, f, i), sj = sharding_tile(s->sh, f, j);
            int64_t ti = sharding_tile(s->sh, target, i), tj = sharding_tile(s->sh, target, j);
            int ones = (si == 1) + (sj == 1) + (ti == 1) + (tj == 1);
            bool swap = ones == 1 ? si == 1 || ti == 1 : si < ti;
            if (ones > 1)
                continue;
            if (swap) {
                int d = i;
                i = j, j = d;
                int64_t x = si;
                si = sj, sj = x;
                x = ti, ti = tj, tj = x;
            }
            int64_t k;
            if (ones == 1) {
                if (si * sj != ti * tj)
                    continue;
                if (tj == 1 ? local->dims[i] % sj != 0 : base->dims[i] % si != 0)
                    continue;
                k = tj == 1 ? si : ti;
            } else {
                if (si != ti * tj || base->dims[i] % si != 0)
                    continue;
                k = ti;
            }
            *pi = i, *pj = j, *pk = k;
            return true;
        }
    return false;
}

/* S-89 1 */
static bool merge_split_move(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    int i, j;
    int64_t k;
    if (!split_move(s, v, target, &i, &j, &k))
        return false;
    struct tiling f = tiles_of(s, v.sharding), t = tiles_of(s, target);
    const struct shape *base = base_shape(s, v), *local = node_shape(s, v.local);
    int rank = base->rank, shifted = j > i ? j + 1 : j;
    int64_t dims[RANK_ROOM], axes[RANK_ROOM];
    int n = 0;
    bool divides = f.dims[i] % k == 0;
    if (!divides || f.naxes + 1 > RANK_ROOM)
        return false;
    for (int a = 0; a < f.naxes; a++) {
        if (a == i) {
            axes[n++] = k;
            axes[n++] = f.dims[a] / k;
        } else {
            axes[n++] = f.dims[a];
        }
    }
    sharding_id before = sharding_of_tiles(s, tiling_reshape(s->sh, f, n, axes), rank + 1);
    int64_t swapped[RANK_ROOM];
    memcpy(swapped, axes, sizeof swapped);
    swapped[i + 1] = axes[shifted];
    swapped[shifted] = axes[i + 1];
    /* after: the target's device array with these counts, in the order of the new dims. */
    sharding_id after = sharding_of_tiles(s, tiling_reshape(s->sh, t, n, swapped), rank + 1);
    for (int d = 0, m = 0; d < rank; d++) {
        if (d == i)
            dims[m++] = 1;
        dims[m++] = local->dims[d];
    }
    int64_t b[RANK_ROOM];
    for (int d = 0, m = 0; d < rank; d++) {
        if (d == i) {
            b[m++] = k;
            b[m++] = local->dims[i] * (f.dims[i] / k);
        } else {
            b[m++] = base->dims[d];
        }
    }
    struct pval r = { emit_reshape(s, v.local, rank + 1, dims),
                      shape_array(s->ir, base->dtype, rank + 1, b), before };
    r = reshard_no_full(s, r, after);
    if (r.sharding.i != after.i)
        return false;
    const struct shape *y = node_shape(s, r.local);
    for (int d = 0, m = 0; d < rank; d++, m++) {
        dims[d] = y->dims[m];
        if (d == i)
            dims[d] *= y->dims[++m];
    }
    sharding_id merged = sharding_merge_axis(s->sh, after, i);
    struct pval m = { emit_reshape(s, r.local, rank, dims), v.base, merged };
    shape_id want = shard_shape(s, v.base, merged);
    if (shape_strip(s->ir, instr_at(s->out, m.local)->shape).i != shape_strip(s->ir, want).i)
        return false;
    *out = reshard_no_full(s, m, target);
    return out->sharding.i == target.i;
}

/* A step on the way to a target. It may be known already: the value was cut out of a less split one,
 * or another target went the same way first (S-71). */
static struct pval cached_step(struct spmd *s, struct pval v, sharding_id mid)
{
    struct pval r;
    if (reshard_cache_get(s, v, mid, &r))
        return r;
    r = reshard_no_full(s, v, mid);
    if (r.sharding.i != mid.i)
        return r;
    reshard_cache_put(s, r, v.sharding, v);
    reshard_cache_put(s, v, mid, r);
    return r;
}

/* S-89 2 */
static bool replicate_one_first(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    if (!is_partial(s, target))
        return false;
    int64_t k = sharding_copies(s->sh, target), copies = sharding_copies(s->sh, v.sharding);
    const struct shape *base = base_shape(s, v);
    for (int d = 0; d < base->rank; d++) {
        int64_t t = sharding_tile(s->sh, v.sharding, d);
        if (t == 1 || t * copies != k)
            continue;
        sharding_id mid = sharding_replicate_dims(s->sh, v.sharding, 1, &d);
        struct pval r = cached_step(s, v, mid);
        if (r.sharding.i != mid.i)
            return false;
        r = reshard_no_full(s, r, target);
        if (r.sharding.i != target.i)
            return false;
        *out = r;
        return true;
    }
    return false;
}

/* S-89 3 */
static bool move_replication(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    if (!is_partial(s, v.sharding) || is_partial(s, target))
        return false;
    struct tiling f = tiles_of(s, v.sharding), t = tiles_of(s, target);
    int last = f.naxes - 1;
    int64_t k = f.dims[last];
    for (int i = 0; i < t.naxes && i < last; i++) {
        if (t.dims[i] == f.dims[i] || f.dims[i] != 1 || t.dims[i] % k != 0)
            continue;
        int perm[RANK_ROOM];
        for (int a = 0; a < f.naxes; a++)
            perm[a] = a;
        perm[i] = last;
        perm[last] = i;
        sharding_id mid = sharding_partial(s->sh, tiling_transpose(s->sh, f, perm));
        struct pval r = reshard_no_full(s, v, mid);
        if (r.sharding.i != mid.i)
            return false;
        r = reshard_no_full(s, r, target);
        if (r.sharding.i != target.i)
            return false;
        *out = r;
        return true;
    }
    return false;
}

/* S-91 */
static bool inside_equal_dims(struct spmd *s, struct pval v, sharding_id target, struct pval *out)
{
    const struct shape *base = base_shape(s, v), *local = node_shape(s, v.local);
    int dims[RANK_ROOM], n = 0;
    int64_t inner[RANK_ROOM];
    memcpy(inner, base->dims, (size_t)base->rank * sizeof *inner);
    for (int d = 0; d < base->rank; d++) {
        int64_t t = sharding_tile(s->sh, v.sharding, d);
        if (t > 1 && t == sharding_tile(s->sh, target, d)) {
            dims[n++] = d;
            inner[d] = local->dims[d];
        }
    }
    if (!n)
        return false;
    struct sharding_group from, to;
    sharding_group_on(s->sh, v.sharding, n, dims, NULL, &from);
    sharding_group_on(s->sh, target, n, dims, NULL, &to);
    (void)sharding_group_align(s->sh, &to, &from, false);
    struct pval in = { emit_copy(s, v.local), shape_array(s->ir, base->dtype, base->rank, inner),
                       from.inner };
    groups_enter(s, from.groups);
    in = reshard(s, in, to.inner);
    groups_leave(s);
    struct pval r = { in.local, v.base, sharding_ungroup(s->sh, &to) };
    *out = reshard(s, r, target);
    return true;
}

/* ---- the decision, S-73 -------------------------------------------------------------------------------------- */

static struct pval uncached(struct spmd *s, struct pval v, sharding_id target, instr_id pad,
                            bool allow_full);

static struct pval reshard_tuple(struct spmd *s, struct pval v, sharding_id target)
{
    const struct shape *b = base_shape(s, v);
    sharding_id from = v.sharding;
    if (sharding_get(s->sh, target)->kind != SHARDING_TUPLE)
        target = sharding_tuple_of(s->sh, b->nleaves, target);
    if (sharding_get(s->sh, from)->kind != SHARDING_TUPLE)
        from = sharding_tuple_of(s->sh, b->nleaves, from);
    if (from.i == target.i)
        return pval_relabel(v, target);
    instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, b->nelems);
    for (int64_t i = 0; i < b->nelems; i++) {
        struct pval x = { emit_gte(s, v.local, i), b->elems[i],
                          element_sharding(s, v.base, from, i) };
        parts[i] = reshard(s, x, element_sharding(s, v.base, target, i)).local;
    }
    return pval_make(s, emit_tuple(s, b->nelems, parts), v.base, target);
}

sharding_id element_sharding(struct spmd *s, shape_id tuple, sharding_id sh, int64_t i)
{
    const struct shape *t = shape_get(s->ir, tuple);
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return shape_get(s->ir, t->elems[i])->kind == SHAPE_TUPLE
                   ? sharding_tuple_of(s->sh, shape_get(s->ir, t->elems[i])->nleaves, sh)
                   : sh;
    int64_t at = shape_leaf_offset(s->ir, tuple, i);
    const struct shape *e = shape_get(s->ir, t->elems[i]);
    if (e->kind != SHAPE_TUPLE)
        return x->elems[at];
    if (e->nleaves == 0)
        return sharding_tuple_of(s->sh, 0, sharding_replicated(s->sh));
    return sharding_tuple(s->sh, e->nleaves, x->elems + at);
}

/* S-75 */
static struct pval manual_subgroups(struct spmd *s, struct pval v, sharding_id target)
{
    struct sharding_group from, to;
    bool both = sharding_is_manual_subgroup(s->sh, v.sharding) &&
                sharding_is_manual_subgroup(s->sh, target);
    if (both) {
        sharding_group_on_manual(s->sh, v.sharding, &from);
        sharding_group_on_manual(s->sh, target, &to);
        both = sharding_group_align_strict(s->sh, &to, &from);
    }
    if (!both) {
        (void)spmd_error(s, s->serving,
                         "its sharding and that of its user have incompatible manual subgroups");
        return pval_relabel(v, target);
    }
    struct pval in = pval_relabel(v, from.inner);
    groups_enter(s, from.groups);
    in = reshard(s, in, to.inner);
    groups_leave(s);
    return pval_relabel(in, target);
}

static struct pval to_whole_target(struct spmd *s, struct pval v, sharding_id target, instr_id pad)
{
    if (sharding_is_manual(s->sh, target) || sharding_is_max(s->sh, target)) {
        v.local = emit_copy(s, v.local);
        return pval_relabel(v, target);
    }
    return pval_make(s, cut_shard(s, v.local, target, pad), v.base, target);
}

static struct pval uncached(struct spmd *s, struct pval v, sharding_id target, instr_id pad,
                            bool allow_full)
{
    const struct shape *base = base_shape(s, v);
    sharding_id from = v.sharding;
    struct pval r;
    struct a2a_plan plan;
    if (s->failed || (base->kind != SHAPE_ARRAY && base->kind != SHAPE_TUPLE))
        return pval_relabel(v, target);
    if (base->kind == SHAPE_TUPLE)
        return reshard_tuple(s, v, target);
    if (from.i == target.i)
        return v;
    if (sharding_is_manual_subgroup(s->sh, from) || sharding_is_manual_subgroup(s->sh, target))
        return manual_subgroups(s, v, target);
    if (can_permute(s, from, target))
        return permute(s, v, target);
    if (a2a_plan(s, from, target, &plan))
        return a2a_run(s, v, target, &plan);
    if (sharding_is_tiled(s->sh, target) && is_partial(s, from) &&
        (finer_by_slice(s, v, target, &r) || special_pair(s, v, target, &r)))
        return r;
    if (sharding_is_tiled(s->sh, from) && is_partial(s, target) &&
        (coarser_by_gather(s, v, target, &r) || special_pair(s, v, target, &r)))
        return r;
    if (sharding_is_replicated(s->sh, from))
        return to_whole_target(s, v, target, pad);
    if (sharding_is_replicated(s->sh, target))
        return replicate(s, v);
    if (sharding_is_tiled(s->sh, from) && sharding_is_tiled(s->sh, target) &&
        (merge_split_move(s, v, target, &r) || replicate_one_first(s, v, target, &r) ||
         move_replication(s, v, target, &r) || inside_equal_dims(s, v, target, &r)))
        return r;
    if (!allow_full)
        return v;
    note_remat(s, from, target, false, "no cheaper way between the two shardings is known (S-74)");
    return reshard(s, replicate(s, v), target);
}

struct pval reshard_as_xla(struct spmd *s, struct pval v, sharding_id target, instr_id pad)
{
    return uncached(s, v, target, pad, true);
}

static bool cacheable(const struct spmd *s, struct pval v)
{
    return base_shape(s, v)->kind == SHAPE_ARRAY;
}

struct pval reshard_padded(struct spmd *s, struct pval v, sharding_id target, instr_id pad)
{
    struct pval r;
    if (v.sharding.i == target.i || s->failed)
        return v;
    if (instr_at(s->out, v.local)->op == OP_CONSTANT && !sharding_is_manual(s->sh, v.sharding) &&
        sharding_is_manual(s->sh, target))
        return pval_relabel(replicate(s, v), target);
    if (!pad.i && cacheable(s, v) && reshard_cache_get(s, v, target, &r))
        return r;
    const char *old = s->reason;
    sharding_id from0 = s->note_from, to0 = s->note_to;
    if (!s->reason)
        s->reason = "resharding (S-73)";
    s->note_from = v.sharding;
    s->note_to = target;
    r = s->best ? best_reshard(s, v, target, pad) : uncached(s, v, target, pad, true);
    s->reason = old;
    s->note_from = from0;
    s->note_to = to0;
    if (cacheable(s, v)) {
        reshard_cache_put(s, r, v.sharding, v);
        reshard_cache_put(s, v, target, r);
    }
    return r;
}

struct pval reshard(struct spmd *s, struct pval v, sharding_id target)
{
    return reshard_padded(s, v, target, (instr_id){ 0 });
}

struct pval reshard_no_full(struct spmd *s, struct pval v, sharding_id target)
{
    if (v.sharding.i == target.i)
        return v;
    return uncached(s, v, target, (instr_id){ 0 }, false);
}
