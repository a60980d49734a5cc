/* P-31: does every device's tile under p lie inside its tile under s? */
#include <string.h>

#include "sharding/internal.h"

/* What each axis needs: sizes, tiles and block sizes of both sides. */
struct axis_pair {
    int64_t size, pt, st, pb, sb;
};

static bool regular(int rank, const struct axis_pair *a)
{
    for (int i = 0; i < rank; i++) {
        if (a[i].st == 1)
            continue;
        if (a[i].pt % a[i].st || a[i].sb % a[i].pb || a[i].size <= (a[i].pt - 1) * a[i].pb ||
            a[i].size <= (a[i].st - 1) * a[i].sb)
            return false;
    }
    return true;
}

/* Step 6: the finer part of each axis goes to the end, into the replication axis. */
static bool coarsened_equals(struct shardings *t, const struct sharding *p, const struct sharding *s)
{
    int64_t dims[2 * AXES_MAX];
    int perm[2 * AXES_MAX], second[AXES_MAX], n = 0, nperm = 0, nsecond = 0;
    if (p->tiles.naxes + p->data_rank > AXES_MAX || order_get(t, p->tiles.order)->ndevices !=
                                                        order_get(t, s->tiles.order)->ndevices)
        return false;
    for (int i = 0; i < p->tiles.naxes; i++) {
        int64_t k = p->tiles.dims[i];
        perm[nperm++] = n;
        if (i < p->data_rank && k != s->tiles.dims[i]) {
            dims[n++] = s->tiles.dims[i];
            second[nsecond++] = n;
            dims[n++] = k / s->tiles.dims[i];
        } else {
            dims[n++] = k;
        }
    }
    for (int i = 0; i < nsecond; i++)
        perm[nperm++] = second[i];
    order_id o = order_transpose(t, n, dims, p->tiles.order, perm);
    o = order_sort_runs(t, o, s->tiles.dims[s->tiles.naxes - 1]);
    return o.i == s->tiles.order.i;
}

/* ---- offsets over digits, step 7 -------------------------------------------------------------------------- */

/* o - off of one axis as a sum over elementary digits of the device: term j is linear in the digit's
 * value c: base[j] + slope[j] * c. In p's axis, the digit counts as position pos = c or radix-1-c. */
struct terms {
    int64_t base[DIGITS_MAX], slope[DIGITS_MAX];
};

static void add_side(struct terms *f, const struct borders *b, int n, const uint8_t *e,
                     int64_t block)
{
    int64_t weight = block;
    for (int i = n - 1; i >= 0; i--) {
        int j = e[i] >> 1;
        int64_t radix = b->b[j + 1] / b->b[j];
        if (e[i] & 1) {
            f->base[j] += (radix - 1) * weight;
            f->slope[j] -= weight;
        } else {
            f->slope[j] += weight;
        }
        weight *= radix;
    }
}

static int64_t term_at(const struct terms *f, const struct borders *b, int j, bool high)
{
    int64_t top = f->slope[j] * (b->b[j + 1] / b->b[j] - 1);
    return f->base[j] + ((top > 0) == high ? top : 0);
}

/* Value of digit e of p's axis at position v. */
static int64_t term_of_position(const struct terms *f, const struct borders *b, uint8_t e, int64_t v)
{
    int j = e >> 1;
    int64_t c = e & 1 ? b->b[j + 1] / b->b[j] - 1 - v : v;
    return f->base[j] + f->slope[j] * c;
}

/* Largest o - off over the cells whose index on p's axis is <= x: x's digits are followed from the
 * major end; at each, the position goes below x's once and the rest is free. */
static int64_t max_below(const struct terms *f, const struct borders *b, int n, const uint8_t *e,
                         int64_t x)
{
    uint64_t in_axis = 0;
    int64_t free_rest = 0, others = 0, prefix = 0, weight = 1, best = INT64_MIN;
    for (int i = 0; i < n; i++) {
        int j = e[i] >> 1;
        in_axis |= (uint64_t)1 << j;
        free_rest += term_at(f, b, j, true);
        weight *= b->b[j + 1] / b->b[j];
    }
    for (int j = 0; j < b->nb; j++)
        if (!(in_axis >> j & 1))
            others += term_at(f, b, j, true);
    if (x >= weight - 1)
        return free_rest + others;
    for (int i = 0; i < n; i++) {
        int j = e[i] >> 1;
        int64_t radix = b->b[j + 1] / b->b[j];
        weight /= radix;
        int64_t v = x / weight % radix;
        free_rest -= term_at(f, b, j, true);
        if (v > 0) { /* linear: the best position below v is at an end */
            int64_t below = max_i64(term_of_position(f, b, e[i], 0),
                                    term_of_position(f, b, e[i], v - 1));
            best = max_i64(best, prefix + below + free_rest);
        }
        prefix += term_of_position(f, b, e[i], v);
    }
    return max_i64(best, prefix) + others;
}

static bool axis_inside(const struct borders *b, const struct axis_pair *a, int np,
                        const uint8_t *ep, int ns, const uint8_t *es)
{
    struct terms f = { { 0 }, { 0 } };
    add_side(&f, b, np, ep, a->pb);
    add_side(&f, b, ns, es, -a->sb);
    int64_t min = 0;
    for (int j = 0; j < b->nb; j++)
        min += term_at(&f, b, j, false);
    if (min < 0)
        return false;
    int64_t x = a->pb ? a->size / a->pb - 1 : -1;
    return x < 0 || max_below(&f, b, np, ep, x) <= a->sb - a->pb;
}

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

static enum answer inside_by_digits(struct shardings *t, int rank, const struct axis_pair *a,
                                    const struct sharding *p, const struct sharding *s)
{
    struct runs rp, rs;
    struct borders b;
    int64_t n = order_get(t, p->tiles.order)->ndevices;
    if (n != order_get(t, s->tiles.order)->ndevices ||
        !runs_cut(t, p->tiles.naxes, p->tiles.dims, p->tiles.order, &rp) ||
        !runs_cut(t, s->tiles.naxes, s->tiles.dims, s->tiles.order, &rs) ||
        !borders_unite(2, (const struct runs *const[]){ &rp, &rs }, n, &b))
        return ANSWER_UNKNOWN;
    for (int i = 0; i < rank; i++) {
        uint8_t ep[DIGITS_MAX], es[DIGITS_MAX];
        int np = elementary(&b, &rp, run_start(&rp, i), rp.end[i], ep);
        int ns = elementary(&b, &rs, run_start(&rs, i), rs.end[i], es);
        if (!axis_inside(&b, &a[i], np, ep, ns, es))
            return ANSWER_NO;
    }
    return ANSWER_YES;
}

/* ---- offsets over arrays ------------------------------------------------------------------------------------ */

static bool inside_by_arrays(struct shardings *t, int rank, const struct axis_pair *a,
                             const struct sharding *p, const struct sharding *s)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const int64_t *list = order_list(t, &tmp, p->tiles.order);
    int64_t n = order_get(t, p->tiles.order)->ndevices, at[AXES_MAX], index[AXES_MAX];
    bool ok = true;
    memset(at, 0, sizeof at);
    for (int64_t k = 0; ok && k < n; k++) {
        tiling_index(t, s->tiles, list[k], index);
        for (int i = 0; ok && i < rank; i++) {
            int64_t o = a[i].pb * at[i], off = index[i] < 0 ? 0 : a[i].sb * index[i];
            ok = o >= off && !(o + a[i].pb <= a[i].size && o + a[i].pb > off + a[i].sb);
        }
        for (int i = p->tiles.naxes - 1; i >= 0 && ++at[i] == p->tiles.dims[i]; i--)
            at[i] = 0;
    }
    arena_close(&tmp);
    return ok;
}

/* ---- P-31 ------------------------------------------------------------------------------------------------------ */

static bool subtiling(struct shardings *t, int rank, const int64_t *dims, sharding_id pid,
                      sharding_id sid)
{
    const struct sharding *p = sharding_get(t, pid), *s = sharding_get(t, sid);
    struct axis_pair a[AXES_MAX];
    for (int i = 0; i < rank; i++) {
        a[i].size = dims[i];
        a[i].pt = p->tiles.dims[i];
        a[i].st = s->tiles.dims[i];
        if (a[i].pt < a[i].st || (dims[i] == 0 && a[i].st != 1))
            return false; /* size 0: P-151 */
        a[i].pb = ceil_div(dims[i], a[i].pt);
        a[i].sb = ceil_div(dims[i], a[i].st);
    }
    if (regular(rank, a)) {
        if (!sharding_is_partial(t, sid))
            return pid.i == sid.i;
        return coarsened_equals(t, p, s);
    }
    enum answer answer = inside_by_digits(t, rank, a, p, s);
    return answer == ANSWER_UNKNOWN ? inside_by_arrays(t, rank, a, p, s) : answer == ANSWER_YES;
}

bool sharding_is_subtiling(const struct shardings *table, int rank, const int64_t *dims,
                           sharding_id p, sharding_id s)
{
    if (sharding_is_manual(table, p) || sharding_is_manual(table, s))
        return false;
    if (sharding_is_max(table, s))
        return true;
    const struct sharding *x = sharding_get(table, p), *y = sharding_get(table, s);
    if (x->kind != SHARDING_TILED || y->kind != SHARDING_TILED || x->data_rank != rank ||
        y->data_rank != rank)
        return false;
    /* The answer does not depend on it, but working it out interns orders. */
    struct shardings *t = (struct shardings *)(uintptr_t)table;
    struct memo_key key;
    memo_start(&key, MEMO_SUBTILING);
    memo_add(&key, p.i);
    memo_add(&key, s.i);
    memo_add_list(&key, rank, dims);
    int64_t r;
    if (!memo_get(t, &key, &r)) {
        r = subtiling(t, rank, dims, p, s);
        memo_put(t, &key, r);
    }
    return r != 0;
}
