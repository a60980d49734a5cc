/* The atoms of two shardings, and the two as states (best.h). */
#include "partition/best_emit.h"

#include <string.h>

enum { PIECES = 64, MARKS = 80, PRIME_LIMIT = 5 };

/* A digit of the device number and the axis of the tiling that it counts on. */
struct piece {
    struct digit digit;
    int axis;
};

struct pieces {
    int n;
    struct piece v[PIECES];
};

/* Digits of a tiling, cut where an axis ends. false: an axis ends inside a digit at no divisor. */
static bool read_pieces(const struct shardings *t, struct tiling a, struct pieces *out)
{
    const struct order *o = order_get(t, a.order);
    if (o->explicit_)
        return false;
    int axis = 0;
    int64_t left = a.naxes ? a.dims[0] : 1;
    out->n = 0;
    for (int k = 0; k < o->ndigits; k++) {
        struct digit g = o->digits[k];
        while (g.radix > 1) {
            while (left == 1) {
                if (++axis >= a.naxes)
                    return false;
                left = a.dims[axis];
            }
            int64_t r = g.radix <= left ? g.radix : left;
            if (g.radix % r || left % r || out->n == PIECES)
                return false;
            struct digit major = { r, g.stride * (g.radix / r), g.reversed };
            out->v[out->n++] = (struct piece){ major, axis };
            left /= r;
            g.radix /= r;
        }
    }
    return true;
}

/* ---- marks: strides at which atoms begin ------------------------------------------------------------ */

struct marks {
    int n;
    int64_t v[MARKS];
};

static bool mark(struct marks *m, int64_t v)
{
    int i = 0;
    while (i < m->n && m->v[i] < v)
        i++;
    if (i < m->n && m->v[i] == v)
        return true;
    if (m->n == MARKS)
        return false;
    for (int k = m->n++; k > i; k--)
        m->v[k] = m->v[k - 1];
    m->v[i] = v;
    return true;
}

static bool mark_pieces(struct marks *m, const struct pieces *p)
{
    for (int i = 0; i < p->n; i++)
        if (!mark(m, p->v[i].digit.stride) ||
            !mark(m, p->v[i].digit.stride * p->v[i].digit.radix))
            return false;
    return true;
}

static bool is_chain(const struct marks *m)
{
    for (int i = 0; i + 1 < m->n; i++)
        if (m->v[i + 1] % m->v[i])
            return false;
    return true;
}

static int64_t least_factor(int64_t v)
{
    for (int64_t f = 2; f * f <= v && f < 100000; f++)
        if (v % f == 0)
            return f;
    return v;
}

static int count_primes(int64_t n)
{
    int k = 0;
    for (; n > 1; k++)
        n /= least_factor(n);
    return k;
}

static int64_t greatest_factor(int64_t v)
{
    int64_t f = 1;
    while (v > 1) {
        f = least_factor(v);
        v /= f;
    }
    return f;
}

/* Atoms by falling stride. A digit of several primes is cut with the least of them at its minor end,
 * or at its major end: *mixed says that this is a choice. */
static bool atoms_of(struct marks *m, int64_t n, bool least_minor, struct digit *atom, int *natoms,
                     bool *mixed)
{
    if (!is_chain(m))
        return false;
    for (int i = 0; count_primes(n) <= PRIME_LIMIT && i + 1 < m->n; i++) {
        int64_t q = m->v[i + 1] / m->v[i];
        int64_t f = least_minor ? least_factor(q) : greatest_factor(q);
        *mixed = *mixed || least_factor(q) != greatest_factor(q);
        if (q > 1 && f < q && !mark(m, m->v[i] * f))
            return false;
    }
    *natoms = 0;
    for (int i = m->n - 1; i > 0; i--) {
        if (*natoms == BEST_ATOMS)
            return false;
        atom[(*natoms)++] = (struct digit){ m->v[i] / m->v[i - 1], m->v[i - 1], false };
    }
    return true;
}

/* ---- states --------------------------------------------------------------------------------------------- */

static const struct tiling *tiles(const struct shardings *t, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    return x->kind == SHARDING_TILED ? &x->tiles : NULL;
}

static bool plain(const struct shardings *t, sharding_id s, int rank)
{
    const struct sharding *x = sharding_get(t, s);
    return x->kind == SHARDING_REPLICATED ||
           (x->kind == SHARDING_TILED && x->ntypes == 0 && x->data_rank == rank);
}

/* Atoms of each axis in the order of its digits. flags: of the atoms that stand on a dimension. */
static void place_atoms(const struct pieces *p, int natoms, struct digit *atom,
                        const int *taking, struct best_state *s, bool *flag, bool *placed)
{
    int len[BEST_DIMS] = { 0 };
    memset(s->at, BEST_COPIES, sizeof s->at);
    for (int i = 0; i < p->n; i++) {
        int d = taking[p->v[i].axis];
        const struct digit *g = &p->v[i].digit;
        if (d < 0)
            continue;
        for (int a = 0; a < natoms; a++) /* by falling stride: major first */
            if (atom[a].stride >= g->stride && atom[a].stride < g->stride * g->radix) {
                s->at[a] = (uint8_t)(d << 4 | len[d]++);
                flag[a] = g->reversed;
                placed[a] = true;
            }
    }
}

static void place_owed(const struct best_problem *p, const struct best_setup *u,
                       struct best_state *s)
{
    for (int k = 0; k < p->nowed; k++)
        for (int a = 0; a < u->natoms[0]; a++)
            if (u->atom[0][a].stride >= p->owed[k].stride &&
                u->atom[0][a].stride < p->owed[k].stride * p->owed[k].radix &&
                s->at[a] == BEST_COPIES)
                s->at[a] = BEST_OWED;
}

/* ---- which dimensions take part ---------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Those that are split on either side, and two more to put atoms on for a while. */
static bool choose_dims(const struct best_problem *p, struct best_setup *u)
{
    bool in[64] = { false };
    if (p->rank > 60)
        return false;
    int n = 0;
    for (int d = 0; d < p->rank; d++)
        if (sharding_tile(p->t, p->from, d) > 1 || sharding_tile(p->t, p->to, d) > 1) {
            in[d] = true;
            n++;
        }
    if (n > BEST_DIMS)
        return false;
    for (int k = 0; k < 2 && n < BEST_DIMS; k++) {
        int best = -1;
        for (int d = 0; d < p->rank; d++) {
            if (in[d] || p->dims[d] < 2)
                continue;
            if (best < 0 || gcd(p->dims[d], p->ndevices) > gcd(p->dims[best], p->ndevices))
                best = d;
        }
        if (best < 0)
            break;
        in[best] = true;
        n++;
    }
    u->ndims = 0;
    u->unit = p->bytes;
    for (int d = 0; d < p->rank; d++) {
        if (p->dims[d] <= 0)
            return false; /* nothing to send */
        if (in[d]) {
            u->whole[u->ndims] = p->dims[d];
            u->dim[u->ndims++] = d;
        } else if (!mul_ok(u->unit, p->dims[d], &u->unit)) {
            return false;
        }
    }
    /* A shard is padded at most to twice its size on each of six dimensions or so: an atom that pads
     * one dimension has left another. */
    int64_t all = u->unit;
    for (int i = 0; i < u->ndims; i++)
        if (!mul_ok(all, u->whole[i], &all))
            return false;
    return mul_ok(all, (int64_t)2 << BEST_DIMS, &all);
}

static void sizes_of(const struct best_problem *p, const struct best_setup *u, sharding_id s,
                     struct best_state *st)
{
    for (int i = 0; i < BEST_DIMS; i++)
        st->size[i] = i < u->ndims ? ceil_div(u->whole[i], sharding_tile(p->t, s, u->dim[i])) : 1;
}

/* At most two atoms that are copies on both ends may be used on the way: the largest. */
static void choose_copies(struct best_setup *u)
{
    for (int a = 0; a < u->natoms[0]; a++)
        u->use[a] = !u->common || u->from.at[a] != BEST_COPIES || u->to.at[a] != BEST_COPIES;
    if (!u->common)
        return;
    for (int k = 0; k < 2; k++) {
        int best = -1;
        for (int a = 0; a < u->natoms[0]; a++)
            if (!u->use[a] && (best < 0 || u->atom[0][a].radix > u->atom[0][best].radix))
                best = a;
        if (best >= 0)
            u->use[best] = true;
    }
}

static bool same_radixes(const struct best_setup *u)
{
    bool met[BEST_ATOMS] = { false };
    if (u->natoms[0] != u->natoms[1])
        return false;
    for (int a = 0; a < u->natoms[0]; a++) {
        int b = 0;
        while (b < u->natoms[1] && (met[b] || u->atom[1][b].radix != u->atom[0][a].radix))
            b++;
        if (b == u->natoms[1])
            return false;
        met[b] = true;
    }
    return true;
}

bool best_setup_make(const struct best_problem *p, int variant, struct best_setup *u)
{
    bool low[2] = { variant == 0 || variant == 2, variant == 0 || variant == 3 };
    struct pieces f = { 0 }, t = { 0 };
    memset(u, 0, sizeof *u);
    if (!plain(p->t, p->from, p->rank) || !plain(p->t, p->to, p->rank) || !choose_dims(p, u))
        return false;
    if ((tiles(p->t, p->from) && !read_pieces(p->t, *tiles(p->t, p->from), &f)) ||
        (tiles(p->t, p->to) && !read_pieces(p->t, *tiles(p->t, p->to), &t)))
        return false;
    struct marks both = { 0 };
    bool ok = mark(&both, 1) && mark(&both, p->ndevices) && mark_pieces(&both, &f);
    for (int k = 0; k < p->nowed && ok; k++)
        ok = mark(&both, p->owed[k].stride) && mark(&both, p->owed[k].stride * p->owed[k].radix);
    struct marks mine = both, other = { 0 };
    ok = ok && mark_pieces(&both, &t);
    u->common = ok && variant < 2 &&
                atoms_of(&both, p->ndevices, low[0], u->atom[0], &u->natoms[0], &u->mixed);
    if (u->common) {
        memcpy(u->atom[1], u->atom[0], sizeof u->atom[0]);
        u->natoms[1] = u->natoms[0];
    } else if (!ok || !atoms_of(&mine, p->ndevices, low[0], u->atom[0], &u->natoms[0], &u->mixed) ||
               !mark(&other, 1) || !mark(&other, p->ndevices) || !mark_pieces(&other, &t) ||
               !atoms_of(&other, p->ndevices, low[1], u->atom[1], &u->natoms[1], &u->mixed) || !same_radixes(u)) {
        return false;
    }
    int taking[PIECES + 1];
    for (int i = 0; i <= PIECES; i++)
        taking[i] = -1;
    for (int i = 0; i < u->ndims; i++)
        taking[u->dim[i]] = i;
    bool ff[BEST_ATOMS] = { false }, tf[BEST_ATOMS] = { false };
    bool fp[BEST_ATOMS] = { false }, tp[BEST_ATOMS] = { false };
    place_atoms(&f, u->natoms[0], u->atom[0], taking, &u->from, ff, fp);
    place_atoms(&t, u->natoms[1], u->atom[1], taking, &u->to, tf, tp);
    place_owed(p, u, &u->from);
    sizes_of(p, u, p->from, &u->from);
    sizes_of(p, u, p->to, &u->to);
    for (int a = 0; a < u->natoms[0]; a++) {
        if (u->common && fp[a] && tp[a] && ff[a] != tf[a])
            u->common = false; /* a count down is another order: only a permute leads there */
    }
    for (int a = 0; a < u->natoms[0]; a++)
        u->atom[0][a].reversed = fp[a] ? ff[a] : u->common && tf[a];
    for (int a = 0; a < u->natoms[1]; a++)
        u->atom[1][a].reversed = tp[a] ? tf[a] : u->common && ff[a];
    choose_copies(u);
    return true;
}

/* ---- several shardings --------------------------------------------------------------------------------- */

bool best_common_atoms(const struct shardings *t, int n, const sharding_id *list, int64_t ndevices,
                       struct digit *atom, int *natoms)
{
    struct marks m = { 0 };
    struct pieces p;
    if (!mark(&m, 1) || !mark(&m, ndevices))
        return false;
    for (int i = 0; i < n; i++)
        if (tiles(t, list[i]) && (!read_pieces(t, *tiles(t, list[i]), &p) || !mark_pieces(&m, &p)))
            return false;
    if (!is_chain(&m) || m.n - 1 > BEST_ATOMS)
        return false;
    *natoms = 0;
    for (int i = m.n - 1; i > 0; i--)
        atom[(*natoms)++] = (struct digit){ m.v[i] / m.v[i - 1], m.v[i - 1], false };
    return true;
}

bool best_places(const struct shardings *t, sharding_id s, int natoms, const struct digit *atom,
                 int *dim, int *pos, bool *reversed)
{
    struct pieces p = { 0 };
    int len[64] = { 0 };
    for (int a = 0; a < natoms; a++)
        dim[a] = -1;
    if (!tiles(t, s))
        return sharding_get(t, s)->kind == SHARDING_REPLICATED;
    int rank = sharding_get(t, s)->data_rank;
    if (sharding_get(t, s)->ntypes || rank > 60 || !read_pieces(t, *tiles(t, s), &p))
        return false;
    for (int i = 0; i < p.n; i++)
        for (int a = 0; a < natoms; a++) {
            const struct digit *g = &p.v[i].digit;
            if (p.v[i].axis >= rank || atom[a].stride < g->stride ||
                atom[a].stride >= g->stride * g->radix)
                continue;
            dim[a] = p.v[i].axis;
            pos[a] = len[dim[a]]++;
            reversed[a] = g->reversed;
        }
    return true;
}
