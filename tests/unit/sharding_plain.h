/* The plain-array model of the specification: shardings as lists of device numbers, every operation
 * written down as its rule says it, without digits and without interning. Rules P-n, S-n. */
#ifndef GSPMD_TESTS_SHARDING_PLAIN_H
#define GSPMD_TESTS_SHARDING_PLAIN_H

#include <string.h>

#include "sharding/sharding.h"

enum { PN = 64, PAX = 20 };

struct plain {
    enum sharding_kind kind;
    int na, r, nt, device;
    bool lastrep;
    int64_t dims[PAX];
    int dev[PN];
    enum axis_type types[PAX];
};

static inline int64_t p_prod(int n, const int64_t *v)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= v[i];
    return p;
}

static inline bool p_equal(const struct plain *a, const struct plain *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == SHARDING_MAXIMAL)
        return a->device == b->device;
    if (a->kind != SHARDING_TILED)
        return true;
    return a->na == b->na && a->r == b->r && a->nt == b->nt && a->lastrep == b->lastrep &&
           memcmp(a->dims, b->dims, (size_t)a->na * sizeof *a->dims) == 0 &&
           memcmp(a->types, b->types, (size_t)a->nt * sizeof *a->types) == 0 &&
           memcmp(a->dev, b->dev, (size_t)p_prod(a->na, a->dims) * sizeof *a->dev) == 0;
}

static inline struct plain p_kind(enum sharding_kind k)
{
    struct plain s = { .kind = k };
    return s;
}

static inline bool p_max(const struct plain *s)
{
    return s->kind == SHARDING_REPLICATED || s->kind == SHARDING_MAXIMAL;
}

static inline bool p_is_partial(const struct plain *s)
{
    bool rep = s->lastrep;
    for (int i = 0; i < s->nt; i++)
        rep = rep || s->types[i] == AXIS_REPLICATED;
    return s->kind == SHARDING_TILED && rep;
}

static inline int p_type_axis(const struct plain *s, enum axis_type type)
{
    for (int i = 0; i < s->nt; i++)
        if (s->types[i] == type)
            return s->r + i;
    return type == AXIS_REPLICATED && s->lastrep ? s->na - 1 : -1;
}

static inline int64_t p_nt(const struct plain *s)
{
    return s->kind == SHARDING_TILED ? p_prod(s->r, s->dims) : 1;
}

/* ---- arrays -------------------------------------------------------------------------------------- */

static inline void p_unravel(int na, const int64_t *dims, int64_t cell, int64_t *at)
{
    for (int i = na - 1; i >= 0; i--) {
        at[i] = cell % dims[i];
        cell /= dims[i];
    }
}

static inline int64_t p_ravel(int na, const int64_t *dims, const int64_t *at)
{
    int64_t cell = 0;
    for (int i = 0; i < na; i++)
        cell = cell * dims[i] + at[i];
    return cell;
}

/* Result axis i is source axis perm[i]; to must not be from. */
static inline void p_transpose_array(int na, const int64_t *dims, const int *from, const int *perm,
                              int64_t *out_dims, int *to)
{
    int64_t od[PAX], at[PAX], src[PAX];
    for (int i = 0; i < na; i++)
        od[i] = dims[perm[i]];
    for (int64_t c = 0; c < p_prod(na, dims); c++) {
        p_unravel(na, od, c, at);
        for (int i = 0; i < na; i++)
            src[perm[i]] = at[i];
        to[c] = from[p_ravel(na, dims, src)];
    }
    memcpy(out_dims, od, (size_t)na * sizeof *od);
}

static inline void p_sort(int *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = i; k > 0 && v[k - 1] > v[k]; k--) {
            int x = v[k];
            v[k] = v[k - 1];
            v[k - 1] = x;
        }
}

/* ---- constructors, P-18..P-21 --------------------------------------------------------------------- */

static inline struct plain p_plain(int na, const int64_t *dims, const int *dev)
{
    struct plain s = { .kind = SHARDING_TILED, .na = na, .r = na };
    if (na <= 0)
        return s;
    memcpy(s.dims, dims, (size_t)na * sizeof *dims);
    memcpy(s.dev, dev, (size_t)p_prod(na, dims) * sizeof *dev);
    return s;
}

static inline struct plain p_partial(int na, const int64_t *dims, const int *dev)
{
    int64_t n = p_prod(na, dims), rep = dims[na - 1];
    if (na == 1 || rep == n)
        return p_kind(SHARDING_REPLICATED);
    if (rep == 1)
        return p_plain(na - 1, dims, dev);
    struct plain s = p_plain(na, dims, dev);
    s.r = na - 1;
    s.lastrep = true;
    for (int64_t i = 0; i < n; i += rep)
        p_sort(s.dev + i, rep);
    return s;
}

static inline struct plain p_subgroup(int na, const int64_t *dims, const int *dev, int nt,
                               const enum axis_type *types)
{
    if (nt == 0)
        return p_plain(na, dims, dev);
    int r = na - nt;
    bool same = true;
    for (int i = 0; i < nt; i++)
        same = same && types[i] == types[0];
    if (same && p_prod(r, dims) == 1 && types[0] == AXIS_MANUAL)
        return p_kind(SHARDING_MANUAL);
    if (same && p_prod(r, dims) == 1 && types[0] == AXIS_REPLICATED)
        return p_kind(SHARDING_REPLICATED);
    static const enum axis_type sequence[] = { AXIS_MAXIMAL, AXIS_MANUAL, AXIS_REPLICATED };
    int perm[PAX], k = 0, kept = 0, moved[PN];
    int64_t od[PAX], size[3];
    enum axis_type left[3];
    for (; k < r; k++)
        perm[k] = k;
    for (int q = 0; q < 3; q++) {
        int64_t all = 1;
        for (int i = 0; i < nt; i++)
            if (types[i] == sequence[q]) {
                perm[k++] = r + i;
                all *= dims[r + i];
            }
        if (all > 1) {
            size[kept] = all;
            left[kept++] = sequence[q];
        }
    }
    p_transpose_array(na, dims, dev, perm, od, moved);
    memcpy(od + r, size, (size_t)kept * sizeof *size);
    na = r + kept;
    if (kept == 0)
        return p_plain(na, od, moved);
    if (kept == 1 && left[0] == AXIS_REPLICATED)
        return p_partial(na, od, moved);
    if (kept == 1 && left[0] == AXIS_MANUAL && od[na - 1] == p_prod(na, od))
        return p_kind(SHARDING_MANUAL);
    struct plain s = p_plain(na, od, moved);
    s.r = r;
    s.nt = kept;
    memcpy(s.types, left, (size_t)kept * sizeof *left);
    if (left[kept - 1] == AXIS_REPLICATED)
        for (int64_t i = 0; i < p_prod(na, od); i += od[na - 1])
            p_sort(s.dev + i, od[na - 1]);
    return s;
}

static inline struct plain p_rebuild(const struct plain *s, int na, const int64_t *dims, const int *dev)
{
    return s->lastrep ? p_partial(na, dims, dev) : p_subgroup(na, dims, dev, s->nt, s->types);
}

/* ---- structural operations ------------------------------------------------------------------------- */

static inline int p_trailing(const struct plain *s, int *perm, int n)
{
    for (int i = s->r; i < s->na; i++)
        perm[n++] = i;
    return n;
}

static inline struct plain p_transpose(const struct plain *s, const int *perm)
{
    if (s->kind != SHARDING_TILED)
        return *s;
    int full[PAX], dev[PN];
    int64_t dims[PAX];
    memcpy(full, perm, (size_t)s->r * sizeof *perm);
    p_trailing(s, full, s->r);
    p_transpose_array(s->na, s->dims, s->dev, full, dims, dev);
    return p_rebuild(s, s->na, dims, dev);
}

static inline struct plain p_replicate(const struct plain *s, const bool *listed)
{
    if (s->kind != SHARDING_TILED)
        return *s;
    int64_t g = 1, dims[PAX], out[PAX];
    for (int i = 0; i < s->r; i++)
        g *= listed[i] ? s->dims[i] : 1;
    if (g == 1)
        return *s;
    if (g == p_nt(s) && s->nt == 0)
        return p_kind(SHARDING_REPLICATED);
    int perm[PAX], n = 0, dev[PN];
    for (int i = 0; i < s->r; i++)
        if (!listed[i])
            perm[n++] = i;
    for (int i = 0; i < s->r; i++)
        if (listed[i])
            perm[n++] = i;
    n = p_trailing(s, perm, n);
    p_transpose_array(s->na, s->dims, s->dev, perm, out, dev);
    for (int i = 0; i < s->r; i++)
        dims[i] = listed[i] ? 1 : s->dims[i];
    if (s->lastrep) {
        dims[s->r] = s->dims[s->r] * g;
        return p_partial(s->na, dims, dev);
    }
    enum axis_type types[PAX] = { AXIS_REPLICATED };
    dims[s->r] = g;
    for (int i = 0; i < s->nt; i++) {
        dims[s->r + 1 + i] = s->dims[s->r + i];
        types[i + 1] = s->types[i];
    }
    return p_subgroup(s->na + 1, dims, dev, s->nt + 1, types);
}

/* Data axes placed by from[j] (source of target axis j, -1: none); the rest of them have tile 1. */
static inline struct plain p_place(const struct plain *s, int rank, const int *from)
{
    int perm[PAX], n = 0, dev[PN];
    int64_t dims[PAX], out[PAX];
    for (int j = 0; j < rank; j++) {
        dims[j] = from[j] < 0 ? 1 : s->dims[from[j]];
        if (from[j] >= 0)
            perm[n++] = from[j];
    }
    for (int i = 0; i < s->r; i++) {
        bool used = false;
        for (int j = 0; j < rank; j++)
            used = used || from[j] == i;
        if (!used)
            perm[n++] = i;
    }
    p_trailing(s, perm, n);
    p_transpose_array(s->na, s->dims, s->dev, perm, out, dev);
    for (int i = s->r; i < s->na; i++)
        dims[rank + i - s->r] = s->dims[i];
    return p_rebuild(s, rank + s->na - s->r, dims, dev);
}

static inline struct plain p_reverse(const struct plain *s, const bool *flip)
{
    if (s->kind != SHARDING_TILED)
        return *s;
    int dev[PN];
    int64_t at[PAX];
    for (int64_t c = 0; c < p_prod(s->na, s->dims); c++) {
        p_unravel(s->na, s->dims, c, at);
        for (int i = 0; i < s->r; i++)
            if (flip[i])
                at[i] = s->dims[i] - 1 - at[i];
        dev[c] = s->dev[p_ravel(s->na, s->dims, at)];
    }
    return p_rebuild(s, s->na, s->dims, dev);
}

static inline struct plain p_move_tiles(const struct plain *s, int from, int to)
{
    if (s->kind != SHARDING_TILED || from == to)
        return *s;
    /* index on `to` becomes old * tile(from) + index on `from` */
    int64_t dims[PAX], at[PAX], src[PAX];
    int dev[PN];
    memcpy(dims, s->dims, sizeof dims);
    dims[to] *= dims[from];
    dims[from] = 1;
    for (int64_t c = 0; c < p_prod(s->na, s->dims); c++) {
        p_unravel(s->na, dims, c, at);
        memcpy(src, at, sizeof src);
        src[to] = at[to] / s->dims[from];
        src[from] = at[to] % s->dims[from];
        dev[c] = s->dev[p_ravel(s->na, s->dims, src)];
    }
    return p_rebuild(s, s->na, dims, dev);
}

/* ---- P-28 ------------------------------------------------------------------------------------------- */

struct p_merge {
    int r, naxes;
    int64_t c[PAX], g, rep, n;
    bool manual, new_m[PAX], new_dst[PAX];
};

static inline int p_factorial_next(int n, int *q)
{
    int i = n - 2, k = n - 1;
    while (i >= 0 && q[i] > q[i + 1])
        i--;
    if (i < 0)
        return 0;
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
    return 1;
}

enum { PCAND = 800 };

/* Candidates of one side, each of shape C; their number. */
static inline int p_candidates(const struct plain *x, const struct p_merge *m, const bool *fresh,
                        int (*out)[PN])
{
    int axis = p_type_axis(x, AXIS_REPLICATED);
    if (axis < 0 || x->dims[axis] == m->rep) {
        memcpy(out[0], x->dev, sizeof x->dev);
        return 1;
    }
    int64_t f[PAX];
    int to[PAX], q[PAX], nf = 0, count = 0;
    for (int i = 0; i < m->r; i++)
        if (fresh[i]) {
            to[nf] = i;
            f[nf++] = m->c[i];
        }
    if (m->rep > 1) {
        to[nf] = m->naxes - 1;
        f[nf++] = m->rep;
    }
    for (int i = 0; i < nf; i++)
        q[i] = i;
    do {
        int64_t view[PAX], od[PAX];
        int where[PAX], k = 0;
        for (int i = 0; i < m->r; i++)
            if (!fresh[i]) {
                where[i] = k;
                view[k++] = x->dims[i];
            }
        if (m->manual) {
            where[m->r] = k;
            view[k++] = m->g;
        }
        for (int i = 0; i < nf; i++) {
            where[to[q[i]]] = k;
            view[k++] = f[q[i]];
        }
        p_transpose_array(k, view, x->dev, where, od, out[count++]);
    } while (p_factorial_next(nf, q) && count < PCAND);
    return count;
}

static inline bool p_method_b(const struct plain *m, const struct plain *dst, const struct p_merge *p,
                       int *out)
{
    bool in_m[PN], in_d[PN];
    for (int i = 0; i < PN; i++)
        in_m[i] = in_d[i] = true;
    for (int64_t cell = 0; cell < p->n; cell++) {
        int64_t at[PAX], gm = 0, gd = 0;
        p_unravel(p->naxes, p->c, cell, at);
        for (int i = 0; i < p->r; i++) {
            gm = gm * m->dims[i] + (m->dims[i] > 1 ? at[i] : 0);
            gd = gd * dst->dims[i] + (dst->dims[i] > 1 ? at[i] : 0);
        }
        if (p->manual) {
            gm = gm * p->g + at[p->r];
            gd = gd * p->g + at[p->r];
        }
        int64_t sm = p->n / (p_nt(m) * p->g), sd = p->n / (p_nt(dst) * p->g);
        int best = -1;
        for (int64_t a = 0; a < sm; a++)
            for (int64_t b = 0; b < sd; b++) {
                int v = m->dev[gm * sm + a];
                if (v == dst->dev[gd * sd + b] && in_m[v] && in_d[v] && (best < 0 || v < best))
                    best = v;
            }
        if (best < 0)
            return false;
        in_m[best] = in_d[best] = false;
        out[cell] = best;
    }
    return true;
}

static inline bool p_merge_compat(const struct plain *m, struct plain *dst, int64_t min)
{
    static int cd[PCAND][PN], cm[PCAND][PN];
    if (p_max(m))
        return false;
    if (p_max(dst)) {
        *dst = *m;
        return true;
    }
    if (!p_is_partial(dst) || m->kind != SHARDING_TILED || m->r != dst->r)
        return false;
    if (min < 0)
        min = p_nt(dst) + 1;
    struct p_merge p = { .r = m->r, .n = p_prod(m->na, m->dims), .g = 1 };
    int gm = p_type_axis(m, AXIS_MANUAL), gd = p_type_axis(dst, AXIS_MANUAL);
    if ((gm < 0) != (gd < 0) || p_prod(dst->na, dst->dims) != p.n)
        return false;
    int64_t tiles = 1;
    for (int i = 0; i < p.r; i++) {
        int64_t a = m->dims[i], b = dst->dims[i];
        if (a != b && a != 1 && b != 1)
            return false;
        p.c[i] = a > b ? a : b;
        p.new_dst[i] = a != b && b == 1;
        p.new_m[i] = a != b && a == 1;
        tiles *= p.c[i];
    }
    if (p.n % tiles || tiles < min)
        return false;
    p.manual = gm >= 0;
    if (p.manual) {
        p.g = m->dims[gm];
        if (p.g != dst->dims[gd] || p.n % (tiles * p.g))
            return false;
    }
    p.rep = p.n / tiles / p.g;
    p.naxes = p.r;
    if (p.manual)
        p.c[p.naxes++] = p.g;
    if (p.rep > 1)
        p.c[p.naxes++] = p.rep;
    int nd = p_candidates(dst, &p, p.new_dst, cd), nm = p_candidates(m, &p, p.new_m, cm);
    int *found = NULL, other[PN];
    for (int i = 0; i < nd; i++)
        for (int k = 0; k < nm; k++)
            if (memcmp(cd[i], cm[k], (size_t)p.n * sizeof(int)) == 0)
                found = cd[i];
    if (!found) {
        if (!p_method_b(m, dst, &p, other))
            return false;
        found = other;
    }
    enum axis_type types[2];
    int nt = 0;
    if (p.manual)
        types[nt++] = AXIS_MANUAL;
    if (p.rep > 1)
        types[nt++] = AXIS_REPLICATED;
    *dst = p_subgroup(p.naxes, p.c, found, nt, types);
    return true;
}

/* ---- P-31, by offsets of every device; the regular case by its own rule ----------------------------- */

static inline int64_t p_ceil(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline bool p_subtiling(int rank, const int64_t *dims, const struct plain *p, const struct plain *s)
{
    if (p->kind == SHARDING_MANUAL || s->kind == SHARDING_MANUAL)
        return false;
    if (p_max(s))
        return true;
    if (p_max(p) || p->r != rank || s->r != rank)
        return false;
    bool regular = true;
    for (int i = 0; i < rank; i++) {
        if (p->dims[i] < s->dims[i])
            return false;
        int64_t pb = p_ceil(dims[i], p->dims[i]), sb = p_ceil(dims[i], s->dims[i]);
        if (s->dims[i] != 1 &&
            (p->dims[i] % s->dims[i] || sb % pb || dims[i] <= (p->dims[i] - 1) * pb ||
             dims[i] <= (s->dims[i] - 1) * sb))
            regular = false;
    }
    if (regular && !p_is_partial(s))
        return p_equal(p, s);
    if (regular) {
        int64_t view[PAX] = { 0 }, od[PAX];
        int perm[PAX] = { 0 }, second[PAX], dev[PN], n = 0, np = 0, ns = 0;
        for (int i = 0; i < p->na; i++) {
            perm[np++] = n;
            if (i < rank && p->dims[i] != s->dims[i]) {
                view[n++] = s->dims[i];
                second[ns++] = n;
                view[n++] = p->dims[i] / s->dims[i];
            } else {
                view[n++] = p->dims[i];
            }
        }
        for (int i = 0; i < ns; i++)
            perm[np++] = second[i];
        if (p_prod(p->na, p->dims) != p_prod(s->na, s->dims))
            return false;
        p_transpose_array(n, view, p->dev, perm, od, dev);
        int64_t run = s->dims[s->na - 1], all = p_prod(s->na, s->dims);
        for (int64_t i = 0; i < all; i += run)
            p_sort(dev + i, run);
        return memcmp(dev, s->dev, (size_t)all * sizeof *dev) == 0;
    }
    for (int64_t c = 0; c < p_prod(p->na, p->dims); c++) {
        int64_t at[PAX], in[PAX], cell = -1;
        p_unravel(p->na, p->dims, c, at);
        for (int64_t k = 0; k < p_prod(s->na, s->dims); k++)
            if (s->dev[k] == p->dev[c])
                cell = k;
        if (cell >= 0)
            p_unravel(s->na, s->dims, cell, in);
        for (int i = 0; i < rank; i++) {
            int64_t pb = p_ceil(dims[i], p->dims[i]), sb = p_ceil(dims[i], s->dims[i]);
            int64_t o = pb * at[i], off = cell < 0 ? 0 : sb * in[i];
            if (o < off || (o + pb <= dims[i] && o + pb > off + sb))
                return false;
        }
    }
    return true;
}

#endif
