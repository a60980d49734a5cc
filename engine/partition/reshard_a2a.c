/* Resharding by all-to-all (S-78..S-84).
 *
 * One pair (source dim s, target dim d, group size g) on a shard x:
 *
 *     [.., n, .., m, ..]  reshape d -> (g, n/g)   all-to-all over g   g moved in front of s   merged
 *
 * so that d is split g times finer and s is g times longer.
 */
#include "partition/reshard.h"

#include <string.h>

#include "base/fail.h"

/* ---- the plan, S-78 -------------------------------------------------------------------------------- */

/* Axes by tile count, ascending; lists in the order of the specification. */
struct counts {
    int n;
    struct {
        int64_t count;
        int n, axes[RANK_ROOM];
    } e[RANK_ROOM];
};

static int find_count(const struct counts *m, int64_t c)
{
    for (int i = 0; i < m->n; i++)
        if (m->e[i].count == c)
            return i;
    return -1;
}

static void add_count(struct counts *m, int64_t c, int axis)
{
    int i = find_count(m, c);
    if (i < 0) {
        for (i = m->n++; i > 0 && m->e[i - 1].count > c; i--)
            m->e[i] = m->e[i - 1];
        m->e[i].count = c;
        m->e[i].n = 0;
    }
    m->e[i].axes[m->e[i].n++] = axis;
}

static void drop_count(struct counts *m, int64_t c, int axis)
{
    int i = find_count(m, c), k = 0;
    if (i < 0)
        return;
    for (int j = 0; j < m->e[i].n; j++)
        if (m->e[i].axes[j] != axis)
            m->e[i].axes[k++] = m->e[i].axes[j];
    m->e[i].n = k;
    if (k)
        return;
    m->n--;
    for (; i < m->n; i++)
        m->e[i] = m->e[i + 1];
}

static bool same_counts(const struct counts *a, const struct counts *b)
{
    if (a->n == 0 || a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->e[i].count != b->e[i].count || a->e[i].n != b->e[i].n)
            return false;
    return true;
}

bool a2a_plan(struct spmd *s, sharding_id from, sharding_id to, struct a2a_plan *plan)
{
    plan->n = 0;
    if (!sharding_is_tiled(s->sh, from) || !sharding_is_tiled(s->sh, to))
        return false;
    struct tiling f = tiles_of(s, from), t = tiles_of(s, to);
    if (f.naxes != t.naxes || f.naxes > RANK_ROOM ||
        sharding_num_tiles(s->sh, from) != sharding_num_tiles(s->sh, to) ||
        is_partial(s, from) != is_partial(s, to))
        return false;
    struct counts src = { 0 }, tgt = { 0 };
    for (int i = 0; i < f.naxes; i++)
        if (f.dims[i] != t.dims[i]) {
            add_count(&src, f.dims[i], i);
            add_count(&tgt, t.dims[i], i);
        }
    if (!same_counts(&src, &tgt))
        return false;
    while (src.n) {
        int64_t c = src.e[0].count;
        int *last = &src.e[0].axes[src.e[0].n - 1];
        int i = *last;
        int64_t w = t.dims[i];
        if (w == c) {
            drop_count(&src, c, i);
            drop_count(&tgt, c, i);
            continue;
        }
        int at = find_count(&src, w);
        if (at < 0)
            return false;
        int k = 0, n = src.e[at].n;
        if (c == 1)
            while (k + 1 < n && t.dims[src.e[at].axes[k]] == 1)
                k++;
        else if (w % c == 0)
            while (k + 1 < n && t.dims[src.e[at].axes[k]] != c)
                k++;
        else
            return false;
        int j = src.e[at].axes[k];
        plan->from[plan->n] = j;
        plan->to[plan->n++] = i;
        drop_count(&tgt, w, i);
        *last = j;
        drop_count(&src, w, j);
        if (plan->n == RANK_ROOM)
            return false;
    }
    return true;
}

/* ---- one pair, S-80..S-82 ---------------------------------------------------------------------------- */

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* Axis j gives the factor g to axis i. S-80 */
static struct tiling give(struct spmd *s, struct tiling a, int j, int i, int64_t g)
{
    int64_t cut[RANK_ROOM], dims[RANK_ROOM];
    int perm[RANK_ROOM], n = 0, minor_j = 0, minor_i = 0;
    INVARIANT(a.naxes + 2 <= RANK_ROOM, "%d axes", a.naxes);
    for (int k = 0; k < a.naxes; k++) {
        perm[n] = n;
        cut[n++] = k == j ? a.dims[k] / g : a.dims[k];
        if (k != j && k != i)
            continue;
        perm[n] = n;
        *(k == j ? &minor_j : &minor_i) = n;
        cut[n++] = k == j ? g : 1;
    }
    perm[minor_j] = minor_i;
    perm[minor_i] = minor_j;
    memcpy(dims, a.dims, (size_t)a.naxes * sizeof *dims);
    dims[j] /= g;
    dims[i] *= g;
    struct tiling t = tiling_transpose(s->sh, tiling_reshape(s->sh, a, n, cut), perm);
    return tiling_reshape(s->sh, t, a.naxes, dims);
}

/* Devices that differ only in the minor parts (g[k] of axis d[k]); [rest, product of g]. S-81 */
static struct tiling minor_groups(struct spmd *s, struct tiling a, int n, const int *d,
                                  const int64_t *g)
{
    int64_t cut[RANK_ROOM] = { 0 }, size = 1, dims[2];
    int perm[RANK_ROOM], minor[RANK_ROOM], naxes = 0, k = 0, nminor = 0;
    bool is_minor[RANK_ROOM] = { false };
    for (int i = 0; i < a.naxes; i++) {
        int64_t f = 1;
        for (int p = 0; p < n; p++)
            if (d[p] == i)
                f = g[p];
        cut[naxes++] = a.dims[i] / f;
        if (f > 1) {
            is_minor[naxes] = true;
            minor[nminor++] = naxes;
            cut[naxes++] = f;
            size *= f;
        }
    }
    for (int i = 0; i < naxes; i++)
        if (!is_minor[i])
            perm[k++] = i;
    for (int i = 0; i < nminor; i++)
        perm[k++] = minor[i];
    struct tiling t = tiling_transpose(s->sh, tiling_reshape(s->sh, a, naxes, cut), perm);
    dims[1] = size;
    dims[0] = 1;
    for (int i = 0; i < a.naxes; i++)
        dims[0] *= a.dims[i];
    dims[0] /= size;
    return tiling_reshape(s->sh, t, 2, dims);
}

static sharding_id like(struct spmd *s, sharding_id model, struct tiling t)
{
    return is_partial(s, model) ? sharding_partial(s->sh, t) : sharding_plain(s->sh, t);
}

/* S-82 1: room for finer tiles of dim d. */
static struct pval pad_target(struct spmd *s, struct pval v, int d, int64_t tiles)
{
    const struct shape *base = shape_get(s->ir, v.base), *local = node_shape(s, v.local);
    int64_t now = local->dims[d] * sharding_tile(s->sh, v.sharding, d);
    int64_t want = round_up(base->dims[d], tiles);
    v.base = base_with(s, v.base, d, now);
    if (want <= now)
        return v;
    int64_t low[RANK_ROOM] = { 0 }, high[RANK_ROOM] = { 0 };
    high[d] = want - now;
    struct pval r;
    shape_id out = base_with(s, v.base, d, want);
    bool ok = pad_as_window(s, v, emit_zero(s, base->dtype), low, high, low, out, v.sharding, &r);
    INVARIANT(ok, "no window form of padding dimension %d by %" PRId64, d, high[d]);
    r.base = out;
    return r;
}

/* S-82 6: what is too much on dim s goes. */
static struct pval cut_source(struct spmd *s, struct pval v, int d, int64_t size)
{
    const struct shape *base = shape_get(s->ir, v.base);
    int64_t start[RANK_ROOM] = { 0 }, limit[RANK_ROOM], stride[RANK_ROOM];
    if (base->dims[d] == size)
        return v;
    for (int i = 0; i < base->rank; i++) {
        limit[i] = i == d ? size : base->dims[i];
        stride[i] = 1;
    }
    struct pval r;
    shape_id out = base_with(s, v.base, d, size);
    bool ok = slice_as_window(s, v, start, limit, stride, out, v.sharding, &r);
    INVARIANT(ok, "no window form of cutting dimension %d to %" PRId64, d, size);
    r.base = out;
    return r;
}

static struct pval one_pair(struct spmd *s, struct pval v, int j, int i)
{
    const struct shape *base = shape_get(s->ir, v.base);
    shape_id whole = v.base;
    struct tiling f = tiles_of(s, v.sharding);
    int64_t g = f.dims[j] / f.dims[i];
    sharding_id x = like(s, v.sharding, give(s, f, j, i, g));
    struct tiling xt = tiles_of(s, x);
    if (sharding_get(s->sh, x)->kind != SHARDING_TILED || xt.naxes != f.naxes)
        INVARIANT(false, "all-to-all to a sharding of other rank");
    int64_t tx_s = f.dims[j] / g, tx_d = f.dims[i] * g;
    v = pad_target(s, v, i, tx_d);
    const struct shape *local = node_shape(s, v.local);
    int rank = local->rank;
    int64_t dims[RANK_ROOM];
    int perm[RANK_ROOM], n = 0;
    for (int d = 0; d < rank; d++) {
        if (d == i)
            dims[n++] = g;
        dims[n++] = d == i ? local->dims[d] / g : local->dims[d];
    }
    int64_t source_size = local->dims[j];
    instr_id y = emit_reshape(s, v.local, n, dims);
    y = emit_all_to_all(s, y, i, minor_groups(s, xt, 1, &i, &g));
    /* The g axis stands at i; bring it in front of j (which is at j + 1 when behind it). */
    n = 0;
    for (int d = 0; d <= rank; d++) {
        int at_j = j > i ? j + 1 : j;
        if (d == at_j)
            perm[n++] = i;
        if (d != i)
            perm[n++] = d;
    }
    y = emit_transpose(s, y, perm);
    int64_t out[RANK_ROOM];
    for (int d = 0; d < rank; d++)
        out[d] = d == i ? node_shape(s, v.local)->dims[d] / g
                        : d == j ? source_size * g : node_shape(s, v.local)->dims[d];
    y = emit_reshape(s, y, rank, out);
    struct pval r = { y, base_with(s, v.base, j, source_size * f.dims[j]), x };
    r = cut_source(s, r, j, round_up(base->dims[j], tx_s));
    r.base = whole;
    return r;
}

/* ---- several pairs in one, S-83, S-84 ------------------------------------------------------------------ */

static int eligible_pairs(struct spmd *s, struct pval v, sharding_id target,
                          const struct a2a_plan *plan, bool *eligible)
{
    const struct shape *base = shape_get(s->ir, v.base);
    struct tiling f = tiles_of(s, v.sharding), t = tiles_of(s, target);
    int n = 0;
    for (int p = 0; p < plan->n; p++) {
        int j = plan->from[p], i = plan->to[p];
        eligible[p] = j < base->rank && i < base->rank && base->dims[j] % f.dims[j] == 0 &&
                      base->dims[i] % t.dims[i] == 0;
        /* In a chain a pair's group size may only come about by an earlier pair. */
        eligible[p] = eligible[p] && f.dims[j] > f.dims[i] && f.dims[j] % f.dims[i] == 0 &&
                      node_shape(s, v.local)->dims[i] % (f.dims[j] / f.dims[i]) == 0;
        for (int q = 0; q < p && eligible[p]; q++)
            /* A pair that shares a dim with an earlier one finds other counts then (S-84). */
            if (plan->from[q] == j || plan->from[q] == i || plan->to[q] == j || plan->to[q] == i)
                eligible[p] = false;
        n += eligible[p];
    }
    return n;
}

static struct pval many_pairs(struct spmd *s, struct pval v, const struct a2a_plan *plan,
                              const bool *eligible)
{
    struct tiling f = tiles_of(s, v.sharding), x = f;
    int to[RANK_ROOM], from[RANK_ROOM], m = 0;
    int64_t g[RANK_ROOM], all = 1;
    for (int p = 0; p < plan->n; p++) { /* by target dim */
        if (!eligible[p])
            continue;
        int k = m++;
        for (; k > 0 && to[k - 1] > plan->to[p]; k--) {
            to[k] = to[k - 1];
            from[k] = from[k - 1];
        }
        to[k] = plan->to[p];
        from[k] = plan->from[p];
    }
    for (int k = 0; k < m; k++) {
        g[k] = f.dims[from[k]] / f.dims[to[k]];
        all *= g[k];
        x = give(s, x, from[k], to[k], g[k]);
    }
    const struct shape *local = node_shape(s, v.local);
    int rank = local->rank, n = 0, perm[RANK_ROOM], at[RANK_ROOM];
    int64_t dims[RANK_ROOM], lead[RANK_ROOM], size[RANK_ROOM];
    memcpy(size, local->dims, (size_t)rank * sizeof *size);
    for (int d = 0; d < rank; d++) {
        for (int k = 0; k < m; k++)
            if (to[k] == d) {
                at[k] = n;
                dims[n++] = g[k];
                size[d] /= g[k];
            }
        dims[n++] = size[d];
    }
    instr_id y = emit_reshape(s, v.local, n, dims);
    int c = 0;
    for (int k = 0; k < m; k++)
        perm[c++] = at[k];
    for (int d = 0; d < n; d++) {
        bool is_g = false;
        for (int k = 0; k < m; k++)
            is_g = is_g || at[k] == d;
        if (!is_g)
            perm[c++] = d;
    }
    y = emit_transpose(s, y, perm);
    lead[0] = all;
    memcpy(lead + 1, size, (size_t)rank * sizeof *size);
    y = emit_reshape(s, y, rank + 1, lead);
    y = emit_all_to_all(s, y, 0, minor_groups(s, x, m, to, g));
    memcpy(dims, g, (size_t)m * sizeof *g);
    memcpy(dims + m, size, (size_t)rank * sizeof *size);
    y = emit_reshape(s, y, m + rank, dims);
    c = 0;
    for (int d = 0; d < rank; d++) {
        for (int k = 0; k < m; k++)
            if (from[k] == d) {
                perm[c++] = k;
                size[d] *= g[k];
            }
        perm[c++] = m + d;
    }
    y = emit_reshape(s, emit_transpose(s, y, perm), rank, size);
    return pval_make(s, y, v.base, like(s, v.sharding, x));
}

struct pval a2a_run(struct spmd *s, struct pval v, sharding_id target, const struct a2a_plan *plan)
{
    struct a2a_plan rest = *plan;
    bool eligible[RANK_ROOM] = { false };
    if (plan->n >= 2 && eligible_pairs(s, v, target, plan, eligible) >= 2) {
        v = many_pairs(s, v, plan, eligible);
        rest.n = 0;
        for (int p = 0; p < plan->n; p++)
            if (!eligible[p]) {
                rest.from[rest.n] = plan->from[p];
                rest.to[rest.n++] = plan->to[p];
            }
        for (int p = 0; p < rest.n; p++)
            v = one_pair(s, v, rest.from[p], rest.to[p]);
    } else if (plan->n) {
        v = one_pair(s, v, plan->from[0], plan->to[0]);
        rest.n = plan->n - 1;
        memmove(rest.from, rest.from + 1, (size_t)rest.n * sizeof *rest.from);
        memmove(rest.to, rest.to + 1, (size_t)rest.n * sizeof *rest.to);
        if (rest.n)
            return a2a_run(s, v, target, &rest);
    }
    if (v.sharding.i == target.i)
        return v;
    INVARIANT(can_permute(s, v.sharding, target), "an all-to-all did not lead to its target");
    return permute(s, v, target);
}
