/* sharding: reshapes (P-47..P-49) and device groups (P-50, P-51, S-37..S-47, S-61) against plain
 * arrays, on random shardings. GSPMD_CASES, GSPMD_SEED as in sharding_model.c. */
#include "tests/unit/sharding_random.h"

/* ---- P-47 in lists ------------------------------------------------------------------------------ */

struct list {
    int n;
    int64_t a[64], b[64];
};

static void push_front(struct list *l, int64_t a, int64_t b)
{
    memmove(l->a + 1, l->a, (size_t)l->n * sizeof *l->a);
    memmove(l->b + 1, l->b, (size_t)l->n * sizeof *l->b);
    l->a[0] = a;
    l->b[0] = b;
    l->n++;
}

static void drop_front(struct list *l)
{
    l->n--;
    memmove(l->a, l->a + 1, (size_t)l->n * sizeof *l->a);
    memmove(l->b, l->b + 1, (size_t)l->n * sizeof *l->b);
}

static int64_t greatest_common(int64_t a, int64_t b)
{
    return b ? greatest_common(b, a % b) : a;
}

static void put_out(struct list *out, bool *glue, int64_t v)
{
    if (*glue)
        out->a[out->n - 1] *= v;
    else
        out->a[out->n++] = v;
    *glue = false;
}

/* dropped[i]: source axis i is to be replicated. False: no answer. */
static bool p_reshape_one(int rs, const int64_t *S, int rt, const int64_t *T, const int64_t *tiles,
                          int64_t *U, bool *dropped)
{
    struct list src = { .n = 0 }, tgt = { .n = 0 }, out = { .n = 0 };
    int where = -1;
    bool glue = false;
    for (int i = rs - 1; i >= 0; i--)
        push_front(&src, S[i], tiles[i]);
    for (int i = rt - 1; i >= 0; i--)
        push_front(&tgt, T[i], 0);
    memset(dropped, 0, PAX * sizeof *dropped);
    while (src.n || tgt.n) {
        if (p_prod(src.n, src.b) == 1)
            break;
        int64_t w = 1;
        while (src.n && src.b[0] == 1) {
            w *= src.a[0];
            drop_front(&src);
            where++;
        }
        while (tgt.n && tgt.a[0] > 1 && w % tgt.a[0] == 0) {
            w /= tgt.a[0];
            drop_front(&tgt);
            put_out(&out, &glue, 1);
        }
        if (w != 1) {
            push_front(&src, w, 1);
            where--;
        }
        if (!tgt.n)
            break;
        int64_t t = tgt.a[0], z = 1, q = 1;
        drop_front(&tgt);
        if (src.n) {
            z = src.a[0];
            q = src.b[0];
            drop_front(&src);
            where++;
        }
        if (z == t) {
            put_out(&out, &glue, q);
        } else if (q > 1 && z % q == 0 && t % q == 0) {
            push_front(&src, z / q, 1);
            where--;
            push_front(&tgt, t / q, 0);
            put_out(&out, &glue, q);
            glue = true;
        } else if (t == 1) {
            put_out(&out, &glue, 1);
            push_front(&src, z, q);
            where--;
        } else if (z == 1) {
            push_front(&tgt, t, 0);
            if (q > 1)
                dropped[where] = true;
        } else if (z > t) {
            if (z % q)
                return false;
            if (z % t == 0 && t % q == 0) {
                put_out(&out, &glue, q);
                push_front(&src, z / t, 1);
                where--;
            } else if (z % t == 0 && q % t == 0) {
                put_out(&out, &glue, t);
                push_front(&src, z / t, q / t);
                where--;
            } else {
                put_out(&out, &glue, greatest_common(t, q));
                break;
            }
        } else {
            if (z % q)
                return false;
            if (t % z) {
                put_out(&out, &glue, greatest_common(t, q));
                break;
            }
            if (src.b[0] != 1 && z != q)
                break;
            src.a[0] *= z;
            src.b[0] *= q;
            push_front(&tgt, t, 0);
        }
    }
    if (p_prod(out.n, out.a) == 1)
        return false;
    for (int i = 0; i < rt; i++)
        U[i] = i < out.n ? out.a[i] : 1;
    return true;
}

/* S-34 on an array's sharding. */
static struct plain p_reshape(int rs, const int64_t *S, int rt, const int64_t *T,
                              const struct plain *s)
{
    int64_t dims[PAX];
    bool dropped[PAX];
    if (s->kind != SHARDING_TILED)
        return *s;
    if (!p_reshape_one(rs, S, rt, T, s->dims, dims, dropped))
        return p_kind(SHARDING_NONE);
    struct plain c = p_replicate(s, dropped);
    if (c.kind != SHARDING_TILED)
        return c;
    enum axis_type types[PAX];
    int n = rt, nt = 0, rep = -1;
    for (int i = c.r; i < c.na; i++) {
        types[nt] = c.lastrep ? AXIS_REPLICATED : c.types[i - c.r];
        dims[n] = types[nt] == AXIS_REPLICATED ? 1 : c.dims[i];
        if (types[nt++] == AXIS_REPLICATED)
            rep = n;
        n++;
    }
    int64_t all = p_prod(c.na, c.dims), have = p_prod(n, dims);
    if (all % have)
        return p_kind(SHARDING_NONE);
    if (rep < 0 && all > have) {
        rep = n;
        types[nt++] = AXIS_REPLICATED;
        n++;
    }
    if (rep >= 0)
        dims[rep] = all / have;
    return p_subgroup(n, dims, c.dev, nt, types);
}

/* P-48 step 3 on an array of any trailing axes. */
static struct plain p_intervals(int rs, const int64_t *S, int rt, const int64_t *T,
                                const struct plain *s)
{
    struct plain result = p_kind(SHARDING_REPLICATED);
    int64_t all = p_prod(s->na, s->dims);
    for (int start = 0; start < rs;) {
        int end = rs;
        for (; end > start; end--) {
            int64_t tiles[PAX], U[PAX], od[PAX];
            bool dropped[PAX];
            int perm[PAX], n = 0, dev[PN];
            for (int i = 0; i < rs; i++)
                tiles[i] = i >= start && i < end ? s->dims[i] : 1;
            if (!p_reshape_one(rs, S, rt, T, tiles, U, dropped))
                continue;
            for (int i = start; i < end; i++)
                perm[n++] = i;
            for (int i = 0; i < s->na; i++)
                if (i < start || i >= end)
                    perm[n++] = i;
            p_transpose_array(n, s->dims, s->dev, perm, od, dev);
            U[rt] = all / p_prod(rt, U);
            struct plain v = p_partial(rt + 1, U, dev);
            if (p_merge_compat(&v, &result, -1))
                break;
        }
        start = end > start ? end : start + 1;
    }
    return result;
}

static struct plain p_through(int rs, const int64_t *S, int rt, const int64_t *T,
                              const struct plain *s)
{
    if (s->kind != SHARDING_TILED)
        return *s;
    int man = p_type_axis(s, AXIS_MANUAL);
    if (man < 0)
        return p_intervals(rs, S, rt, T, s);
    /* position inside a slice -> result cell, then the same for every slice */
    struct plain slice = *s;
    int64_t g = s->dims[man], size = p_prod(s->na, s->dims) / g, od[PAX];
    int perm[PAX], n = 0, slices[PN], dev[PN];
    perm[n++] = man;
    for (int i = 0; i < s->na; i++)
        if (i != man)
            perm[n++] = i;
    p_transpose_array(n, s->dims, s->dev, perm, od, slices);
    slice.na = s->na - 1;
    memcpy(slice.dims, od + 1, (size_t)slice.na * sizeof *od);
    for (int i = 0; i < size; i++)
        slice.dev[i] = i;
    struct plain r = p_intervals(rs, S, rt, T, &slice);
    int64_t dims[PAX], tiles = 1;
    for (int i = 0; i < rt; i++) {
        dims[i] = r.kind == SHARDING_TILED ? r.dims[i] : 1;
        tiles *= dims[i];
    }
    dims[rt] = g;
    dims[rt + 1] = size / tiles;
    for (int64_t x = 0; x < tiles; x++)
        for (int64_t y = 0; y < g; y++)
            for (int64_t c = 0; c < dims[rt + 1]; c++) {
                int64_t cell = x * dims[rt + 1] + c;
                int64_t at = r.kind == SHARDING_TILED ? r.dev[cell] : cell;
                dev[(x * g + y) * dims[rt + 1] + c] = slices[y * size + at];
            }
    return p_subgroup(rt + 2, dims, dev, 2,
                      (const enum axis_type[]){ AXIS_MANUAL, AXIS_REPLICATED });
}

/* A pair of shapes of one size. */
static void random_shapes(int rs, int64_t *S, int *rt, int64_t *T)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 4, 6, 8, 8, 12, 16, 5, 7, 10, 32 };
    int64_t all = 1;
    for (int i = 0; i < rs; i++) {
        S[i] = sizes[below((int)COUNTOF(sizes))];
        all *= S[i];
    }
    *rt = 1 + below(4);
    factors(all, *rt, T);
    if (chance(60)) { /* neighbours only, as programs reshape */
        int n = 0;
        for (int i = 0; i < rs && n < 6; i++) {
            int64_t f[2];
            factors(S[i], 2, f);
            if (n && chance(30)) {
                T[n - 1] *= S[i];
            } else if (chance(30)) {
                T[n++] = f[0];
                T[n++] = f[1];
            } else {
                T[n++] = S[i];
            }
        }
        *rt = n;
    }
}

static void case_reshape(struct shardings *t, uint64_t at)
{
    int rs = 1 + below(4), rt;
    int64_t S[PAX], T[PAX];
    random_shapes(rs, S, &rt, T);
    struct plain s = random_sharding(random_count(), rs);
    struct plain want = p_reshape(rs, S, rt, T, &s);
    check(t, "reshape", at, &s, sharding_reshape(t, rs, S, rt, T, make(t, &s)), &want);
    want = p_through(rs, S, rt, T, &s);
    check(t, "through_reshape", at, &s, sharding_through_reshape(t, rs, S, rt, T, make(t, &s)),
          &want);
}

/* ---- groups -------------------------------------------------------------------------------------- */

struct p_groups {
    int ngroups, size;
    int dev[PN]; /* [ngroups][size] */
};

static struct p_groups read_groups(struct shardings *t, struct tiling a)
{
    struct p_groups g = { .ngroups = (int)a.dims[0], .size = (int)a.dims[1] };
    for (int i = 0; i < g.ngroups * g.size; i++)
        g.dev[i] = (int)order_device(t, a.order, i);
    return g;
}

static void complain(const char *what, uint64_t at, const struct plain *s)
{
    printf("%s, seed %" PRIu64 "\n", what, at);
    show("in", s);
    fail();
}

/* S-37: group of a cell by its group parts as listed, members by what remains. */
static struct p_groups p_group(const struct plain *s, int n, const int *dims, const int64_t *keep)
{
    struct p_groups g = { .ngroups = 1 };
    int64_t all = p_prod(s->na, s->dims), at[PAX];
    int filled[PN] = { 0 };
    for (int j = 0; j < n; j++)
        g.ngroups *= (int)(s->dims[dims[j]] / keep[j]);
    g.size = (int)all / g.ngroups;
    for (int64_t c = 0; c < all; c++) { /* cells in order visit the members of a group in order */
        int64_t group = 0;
        p_unravel(s->na, s->dims, c, at);
        for (int j = 0; j < n; j++)
            group = group * (s->dims[dims[j]] / keep[j]) + at[dims[j]] / keep[j];
        g.dev[group * g.size + filled[group]++] = s->dev[c];
    }
    return g;
}

static int random_axes(const struct plain *s, int most, int *dims, int64_t *keep)
{
    int axes[PAX], n = 0;
    shuffle(most, axes);
    for (int i = 0; i < most; i++)
        if (chance(50)) {
            dims[n] = axes[i];
            keep[n] = 1;
            for (int64_t k = 2; k <= s->dims[axes[i]]; k++)
                if (s->dims[axes[i]] % k == 0 && chance(15))
                    keep[n] = k;
            n++;
        }
    return n;
}

static void case_group(struct shardings *t, uint64_t at)
{
    struct plain s = random_sharding(random_count(), 1 + below(3));
    if (s.kind != SHARDING_TILED || s.nt)
        return;
    int dims[PAX];
    int64_t keep[PAX];
    int n = random_axes(&s, s.na, dims, keep);
    struct sharding_group g;
    sharding_id id = make(t, &s);
    sharding_group_on(t, id, n, dims, keep, &g);
    struct p_groups want = p_group(&s, n, dims, keep), got = read_groups(t, g.groups);
    if (memcmp(&want.dev, &got.dev, sizeof(int) * (size_t)(want.ngroups * want.size)) ||
        want.ngroups != got.ngroups)
        complain("group_on", at, &s);
    /* back: the same sharding, or R where only copies were left */
    sharding_id back = sharding_ungroup(t, &g);
    struct plain b = read_back(t, back);
    bool lost = sharding_is_replicated(t, g.inner) && s.kind == SHARDING_TILED;
    if (!lost && back.i != id.i)
        complain("ungroup", at, &s);
    if (lost) { /* all that was cut must still be cut the same way */
        for (int64_t c = 0; b.kind == SHARDING_TILED && c < p_prod(b.na, b.dims); c++) {
            int64_t x[PAX], y[PAX];
            tiling_index(t, sharding_get(t, id)->tiles, b.dev[c], x);
            tiling_index(t, sharding_get(t, back)->tiles, b.dev[c], y);
            for (int i = 0; i < s.r; i++)
                if (x[i] != y[i])
                    complain("ungroup of whole groups", at, &s);
        }
    }
    /* S-61 */
    int along[PAX], na = 0;
    for (int i = 0; i < s.na; i++)
        if (chance(50))
            along[na++] = i;
    struct p_groups lines = read_groups(t, sharding_groups_along(t, id, na, along));
    int filled[PN] = { 0 };
    for (int64_t c = 0; c < p_prod(s.na, s.dims); c++) {
        int64_t x[PAX], group = 0;
        p_unravel(s.na, s.dims, c, x);
        for (int i = 0; i < s.na; i++) {
            bool in = false;
            for (int k = 0; k < na; k++)
                in = in || along[k] == i;
            group = in ? group : group * s.dims[i] + x[i];
        }
        if (lines.dev[group * lines.size + filled[group]++] != s.dev[c])
            complain("groups_along", at, &s);
    }
}

static void case_manual_group(struct shardings *t, uint64_t at)
{
    struct plain s = random_sharding(random_count(), 1 + below(3));
    if (p_type_axis(&s, AXIS_MANUAL) < 0)
        return;
    struct sharding_group g;
    sharding_id id = make(t, &s);
    sharding_group_on_manual(t, id, &g);
    if (sharding_ungroup(t, &g).i != id.i)
        complain("ungroup of manual groups", at, &s);
    int man = p_type_axis(&s, AXIS_MANUAL);
    struct p_groups got = read_groups(t, g.groups);
    for (int64_t c = 0; c < p_prod(s.na, s.dims); c++) {
        int64_t x[PAX];
        p_unravel(s.na, s.dims, c, x);
        bool in = false;
        for (int k = 0; k < got.size; k++)
            in = in || got.dev[x[man] * got.size + k] == s.dev[c];
        if (!in)
            complain("group_on_manual", at, &s);
    }
}

static int find_group(const struct p_groups *g, int device, int *rank)
{
    for (int i = 0; i < g->ngroups * g->size; i++)
        if (g->dev[i] == device) {
            *rank = i % g->size;
            return i / g->size;
        }
    return -1;
}

/* S-40, S-41 by their words. */
static void case_align(struct shardings *t, uint64_t at)
{
    int n = random_count(), r = 1 + below(3), da[PAX], db[PAX];
    int64_t keep[PAX];
    struct plain a = random_sharding(n, r), b = chance(60) ? a : random_sharding(n, r);
    if (chance(40) && b.kind == SHARDING_TILED) {
        int perm[PAX];
        shuffle(r, perm);
        b = p_transpose(&b, perm);
    }
    if (chance(20)) {
        bool flip[PAX];
        for (int i = 0; i < r; i++)
            flip[i] = chance(50);
        b = p_reverse(&b, flip);
    }
    if (a.kind != SHARDING_TILED || b.kind != SHARDING_TILED || a.nt || b.nt)
        return;
    int na = random_axes(&a, a.na, da, keep);
    struct sharding_group g, ref, strict, loose;
    sharding_group_on(t, make(t, &a), na, da, NULL, &g);
    int nb = random_axes(&b, b.na, db, keep);
    if (chance(50) && a.na == b.na) {
        nb = na;
        memcpy(db, da, sizeof db);
    }
    sharding_group_on(t, make(t, &b), nb, db, NULL, &ref);
    struct p_groups pa = read_groups(t, g.groups), pb = read_groups(t, ref.groups);
    bool same_index = pa.size == pb.size, same_sets = same_index, one_map = true;
    int map[PN];
    for (int i = 0; same_sets && i < pa.ngroups * pa.size; i++) {
        int rank = 0, first = 0, k = i % pa.size, group = find_group(&pb, pa.dev[i], &rank);
        (void)find_group(&pb, pa.dev[i - k], &first);
        same_sets = group == find_group(&pb, pa.dev[i - k], &first);
        same_index = same_index && group == i / pa.size;
        if (i < pa.size)
            map[k] = rank;
        one_map = one_map && map[k] == rank;
    }
    same_index = same_index && same_sets;
    strict = loose = g;
    bool ok = sharding_group_align(t, &g, &ref, false);
    if (ok != same_index || g.groups.order.i != ref.groups.order.i)
        complain("align", at, &a);
    if (sharding_group_align(t, &loose, &ref, true) != same_sets ||
        tiling_same_groups(t, strict.groups, ref.groups) != same_sets)
        complain("align in any order", at, &a);
    bool strictly = sharding_group_align_strict(t, &strict, &ref);
    if (strictly != (same_index && one_map))
        complain("align_strict", at, &a);
    if (!same_sets)
        return;
    /* the relabelled inner tile array */
    struct sharding_group before;
    sharding_group_on(t, make(t, &a), na, da, NULL, &before);
    struct plain in = read_back(t, before.inner), want = in;
    if (in.kind == SHARDING_TILED) {
        for (int64_t c = 0; c < p_prod(in.na, in.dims); c++)
            in.dev[c] = map[in.dev[c]];
        want = p_rebuild(&in, in.na, in.dims, in.dev);
    }
    check(t, "inner of align in any order", at, &in, loose.inner, &want);
    if (ok)
        check(t, "inner of align", at, &in, g.inner, &want);
    if (strictly)
        check(t, "inner of align_strict", at, &in, strict.inner, &want);
}

/* S-46, S-47 by their words. */
static void case_matching(struct shardings *t, uint64_t at)
{
    int n = random_count(), r = 1 + below(3), db[PAX], dims[PAX];
    int64_t keep[PAX], index[PN][PAX];
    struct plain s = random_sharding(n, r), b = chance(70) ? s : random_sharding(n, r);
    if (s.kind != SHARDING_TILED || b.kind != SHARDING_TILED || s.nt || b.nt)
        return;
    struct sharding_group g, out;
    sharding_group_on(t, make(t, &b), random_axes(&b, b.na, db, keep), db, keep, &g);
    struct p_groups pg = read_groups(t, g.groups);
    sharding_id id = make(t, &s);
    for (int d = 0; d < n; d++)
        tiling_index(t, sharding_get(t, id)->tiles, d, index[d]);
    /* S-47 */
    int want[PAX], nw = 0;
    int64_t count = 1;
    bool some = pg.ngroups >= 2;
    for (int i = 0; some && i < s.na; i++) {
        if (pg.size == 1) {
            if (s.dims[i] > 1)
                want[nw++] = i;
        } else if (index[pg.dev[0]][i] == index[pg.dev[1]][i]) {
            want[nw++] = i;
            count *= s.dims[i];
        }
    }
    some = some && (pg.size == 1 || count == pg.ngroups);
    for (int i = 0; some && pg.size > 1 && i < pg.ngroups * pg.size; i++)
        for (int k = 0; k < nw; k++)
            some = some && index[pg.dev[i]][want[k]] == index[pg.dev[i - i % pg.size]][want[k]];
    int got = sharding_dims_matching(t, id, g.groups, dims);
    if (got != (some ? nw : -1) || (some && memcmp(dims, want, (size_t)nw * sizeof *want)))
        complain("dims_matching", at, &s);
    /* S-46 */
    if (!s.lastrep)
        return;
    int64_t tiles = p_nt(&s), shards = pg.size % tiles == 0 ? pg.size / tiles : 1;
    int inner[PN], first[PN];
    bool ok = shards * tiles == pg.size;
    for (int k = 0; ok && k < pg.ngroups; k++) {
        int filled[PN] = { 0 };
        for (int m = 0; ok && m < pg.size; m++) {
            int64_t tile = p_ravel(s.r, s.dims, index[pg.dev[k * pg.size + m]]);
            ok = filled[tile] < shards;
            if (ok)
                inner[tile * shards + filled[tile]++] = m;
        }
        if (k == 0)
            memcpy(first, inner, sizeof first);
        ok = ok && memcmp(first, inner, (size_t)pg.size * sizeof *inner) == 0;
    }
    if (sharding_group_replicated_as(t, id, g.groups, shards, &out) != ok)
        complain("group_replicated_as", at, &s);
    if (!ok)
        return;
    int64_t in_dims[PAX];
    memcpy(in_dims, s.dims, sizeof in_dims);
    in_dims[s.r] = shards;
    struct plain w = p_partial(s.r + 1, in_dims, first);
    check(t, "inner of group_replicated_as", at, &s, out.inner, &w);
}

static void (*const cases[])(struct shardings *, uint64_t) = {
    case_reshape, case_reshape, case_group, case_manual_group, case_align, case_align, case_matching,
};

static void groups_and_reshapes_are_the_model_s(void **state)
{
    (void)state;
    int64_t n = start_random(400000), explicit_ = 0;
    struct shardings *t = shardings_new();
    for (int64_t i = 0; i < n; i++) {
        if (i % 4096 == 0) {
            explicit_ += shardings_explicit_count(t);
            shardings_free(t);
            t = shardings_new();
        }
        uint64_t at = seed;
        cases[below((int)COUNTOF(cases))](t, at);
    }
    printf("%" PRId64 " cases, seed now %" PRIu64 ", %" PRId64 " explicit orders\n", n, seed,
           explicit_);
    shardings_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_and_reshapes_are_the_model_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
