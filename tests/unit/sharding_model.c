/* sharding: every operation against the plain-array model (sharding_plain.h), on random shardings over
 * 2 to 64 devices. GSPMD_CASES=N sets the number of cases (default 1,000,000), GSPMD_SEED the start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/sharding_plain.h"

/* ---- randomness ----------------------------------------------------------------------------------- */

static uint64_t seed;

/* What the cases were like: a generator that makes only dull ones proves nothing. */
static struct {
    int64_t merges, merged, subtilings, inside, explicit_;
} seen;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int below(int n)
{
    return n <= 1 ? 0 : (int)((next_random() >> 11) % (uint64_t)n);
}

static bool chance(int percent)
{
    return below(100) < percent;
}

/* n as a product of k factors, each drawn from what is left. */
static void factors(int64_t n, int k, int64_t *f)
{
    for (int i = 0; i < k; i++)
        f[i] = 1;
    for (int64_t p = 2; n > 1; p++)
        while (n % p == 0) {
            f[below(k)] *= p;
            n /= p;
        }
}

static void shuffle(int n, int *v)
{
    for (int i = 0; i < n; i++)
        v[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = below(i + 1), x = v[i];
        v[i] = v[k];
        v[k] = x;
    }
}

/* A device order: digits in any order, some of them reversed; now and then any permutation. */
static void random_order(int n, int *dev)
{
    if (chance(4)) {
        shuffle(n, dev);
        return;
    }
    int64_t radix[6], at[6], stride[6];
    int k = 1 + below(5), perm[6];
    bool flip[6];
    factors(n, k, radix);
    int64_t s = 1;
    for (int i = k - 1; i >= 0; i--) {
        stride[i] = s;
        s *= radix[i];
    }
    shuffle(k, perm);
    int64_t view[6];
    for (int i = 0; i < k; i++) {
        view[i] = radix[perm[i]];
        flip[i] = chance(8);
    }
    for (int c = 0; c < n; c++) {
        p_unravel(k, view, c, at);
        dev[c] = 0;
        for (int i = 0; i < k; i++)
            dev[c] += (int)((flip[i] ? view[i] - 1 - at[i] : at[i]) * stride[perm[i]]);
    }
}

static int random_count(void)
{
    static const int usual[] = { 2, 4, 6, 8, 8, 8, 12, 16, 16, 16, 24, 32, 32, 64 };
    return chance(80) ? usual[below((int)COUNTOF(usual))] : 2 + below(63);
}

/* T of data rank r over n devices, with trailing axes of any kind; rarely another kind. */
static struct plain random_sharding(int n, int r)
{
    if (chance(3)) {
        struct plain s = p_kind(chance(60) ? SHARDING_REPLICATED : SHARDING_MAXIMAL);
        s.device = s.kind == SHARDING_MAXIMAL ? below(4) : 0;
        return s;
    }
    int64_t dims[PAX];
    int dev[PN], form = below(10);
    enum axis_type types[3];
    random_order(n, dev);
    if (form < 3) {
        factors(n, r ? r : 1, dims);
        return r ? p_plain(r, dims, dev) : p_partial(1, dims, dev);
    }
    if (form < 7) {
        factors(n, r + 1, dims);
        return p_partial(r + 1, dims, dev);
    }
    int nt = 1 + below(3);
    for (int i = 0; i < nt; i++)
        types[i] = chance(60) ? AXIS_MANUAL : AXIS_REPLICATED;
    factors(n, r + nt, dims);
    return p_subgroup(r + nt, dims, dev, nt, types);
}

/* ---- between the two -------------------------------------------------------------------------------- */

static sharding_id make(struct shardings *t, const struct plain *s)
{
    if (s->kind == SHARDING_REPLICATED)
        return sharding_replicated(t);
    if (s->kind == SHARDING_MAXIMAL)
        return sharding_maximal(t, s->device);
    if (s->kind == SHARDING_MANUAL)
        return sharding_manual(t);
    int64_t n = p_prod(s->na, s->dims), list[PN];
    for (int64_t i = 0; i < n; i++)
        list[i] = s->dev[i];
    struct tiling a = tiling_make(t, s->na, s->dims, order_from_list(t, n, list));
    if (s->lastrep)
        return sharding_partial(t, a);
    return sharding_subgroup(t, a, s->nt, s->types);
}

static struct plain read_back(const struct shardings *t, sharding_id id)
{
    const struct sharding *x = sharding_get(t, id);
    struct plain s = p_kind(x->kind);
    if (x->kind == SHARDING_MAXIMAL)
        s.device = (int)x->device;
    if (x->kind != SHARDING_TILED)
        return s;
    s.na = x->tiles.naxes;
    s.r = x->data_rank;
    s.lastrep = x->lastrep;
    s.nt = x->ntypes;
    memcpy(s.types, x->types, (size_t)x->ntypes * sizeof *x->types);
    memcpy(s.dims, x->tiles.dims, (size_t)s.na * sizeof *s.dims);
    for (int64_t i = 0; i < order_get(t, x->tiles.order)->ndevices; i++)
        s.dev[i] = (int)order_device(t, x->tiles.order, i);
    return s;
}

static void show(const char *what, const struct plain *s)
{
    printf("%s kind %d lastrep %d [", what, (int)s->kind, s->lastrep);
    for (int i = 0; i < s->na; i++)
        printf("%s%d", i ? "," : "", (int)s->dims[i]);
    printf("]");
    for (int64_t i = 0; s->kind == SHARDING_TILED && i < p_prod(s->na, s->dims); i++)
        printf("%s%d", i ? "," : "", s->dev[i]);
    for (int i = 0; i < s->nt; i++)
        printf(" type %d", (int)s->types[i]);
    printf("\n");
}

/* Compares, and says all that is needed to do it again by hand. */
static void check(struct shardings *t, const char *op, uint64_t started, const struct plain *in,
                  sharding_id got, const struct plain *want)
{
    struct plain g = got.i ? read_back(t, got) : p_kind(SHARDING_NONE);
    if (p_equal(&g, want)) {
        /* one value, one id */
        if (got.i && make(t, want).i == got.i)
            return;
        if (!got.i)
            return;
    }
    printf("%s, seed %" PRIu64 "\n", op, started);
    show("in  ", in);
    show("got ", &g);
    show("want", want);
    fail();
}

/* ---- one case of each operation ------------------------------------------------------------------------ */

static void case_transpose(struct shardings *t, uint64_t at)
{
    int r = 1 + below(4), perm[PAX];
    struct plain s = random_sharding(random_count(), r), want;
    shuffle(r, perm);
    want = p_transpose(&s, perm);
    check(t, "transpose", at, &s, sharding_transpose(t, make(t, &s), perm), &want);
}

static void case_replicate(struct shardings *t, uint64_t at)
{
    int r = 1 + below(4), dims[PAX], n = 0;
    bool listed[PAX];
    struct plain s = random_sharding(random_count(), r), want;
    for (int i = 0; i < r; i++) {
        listed[i] = chance(50);
        if (listed[i])
            dims[n++] = i;
    }
    want = p_replicate(&s, listed);
    check(t, "replicate_dims", at, &s, sharding_replicate_dims(t, make(t, &s), n, dims), &want);
}

static void case_reverse(struct shardings *t, uint64_t at)
{
    int r = 1 + below(4), dims[PAX], n = 0;
    bool flip[PAX];
    struct plain s = random_sharding(random_count(), r), want;
    for (int i = 0; i < r; i++) {
        flip[i] = chance(50);
        if (flip[i])
            dims[n++] = i;
    }
    want = p_reverse(&s, flip);
    check(t, "reverse", at, &s, sharding_reverse(t, make(t, &s), n, dims), &want);
}

static void case_move_tiles(struct shardings *t, uint64_t at)
{
    int r = 2 + below(3), from = below(r), to = below(r);
    struct plain s = random_sharding(random_count(), r), want = p_move_tiles(&s, from, to);
    check(t, "move_tiles", at, &s, sharding_move_tiles(t, make(t, &s), from, to), &want);
}

/* alongDims, mapDims, broadcast and removeDims are all placements of some axes on others. */
static void case_place(struct shardings *t, uint64_t at)
{
    int r = 1 + below(4), rank = 1 + below(5), from[PAX], src[PAX], tgt[PAX], n = 0, order[PAX];
    struct plain s = random_sharding(random_count(), r), kept, want;
    bool listed[PAX];
    for (int j = 0; j < rank; j++)
        from[j] = -1;
    for (int i = 0; i < r; i++)
        listed[i] = true;
    shuffle(rank, order);
    int axes[PAX];
    shuffle(r, axes);
    for (int k = 0; k < r && k < rank; k++)
        if (chance(70)) {
            src[n] = axes[k];
            tgt[n++] = order[k];
            from[order[k]] = axes[k];
            listed[axes[k]] = false;
        }
    kept = p_replicate(&s, listed);
    want = kept.kind == SHARDING_TILED ? p_place(&kept, rank, from) : kept;
    check(t, "along_dims", at, &s, sharding_along_dims(t, make(t, &s), n, src, tgt, rank), &want);
    int back[PAX];
    for (int i = 0; i < r; i++)
        back[i] = -1;
    for (int k = 0; k < n; k++)
        back[src[k]] = tgt[k];
    check(t, "map_dims", at, &kept,
          sharding_map_dims(t, make(t, &kept), back, rank, from), &want);
}

static void case_remove(struct shardings *t, uint64_t at)
{
    int r = 2 + below(3), gone = below(r), n = 0, from[PAX];
    struct plain s = random_sharding(random_count(), r), want;
    bool listed[PAX] = { false };
    listed[gone] = true;
    s = p_replicate(&s, listed);
    for (int i = 0; i < r; i++)
        if (i != gone)
            from[n++] = i;
    want = s.kind == SHARDING_TILED ? p_place(&s, n, from) : s;
    check(t, "remove_dims", at, &s, sharding_remove_dims(t, make(t, &s), 1, &gone), &want);
    /* and back in */
    struct plain again = s;
    if (want.kind == SHARDING_TILED)
        check(t, "insert_dims", at, &want, sharding_insert_dims(t, make(t, &want), gone, 1), &again);
}

static void case_split_merge(struct shardings *t, uint64_t at)
{
    int r = 1 + below(3), axis = below(r);
    struct plain s = random_sharding(random_count(), r);
    if (s.kind != SHARDING_TILED)
        return;
    int64_t k = 1, size = s.dims[axis], dims[PAX];
    for (int64_t c = 1; c <= size; c++)
        if (size % c == 0 && chance(50))
            k = c;
    memcpy(dims, s.dims, sizeof dims);
    memmove(dims + axis + 2, dims + axis + 1, (size_t)(s.na - axis - 1) * sizeof *dims);
    dims[axis] = k;
    dims[axis + 1] = size / k;
    struct plain want = p_rebuild(&s, s.na + 1, dims, s.dev);
    sharding_id split = sharding_split_axis(t, make(t, &s), axis, k);
    check(t, "split_axis", at, &s, split, &want);
    check(t, "merge_axis", at, &want, sharding_merge_axis(t, split, axis), &s);
}

/* Two shardings with a common refinement, as merging meets them; sometimes strangers. */
static void related_pair(int n, int r, struct plain *a, struct plain *b)
{
    bool la[PAX], lb[PAX];
    struct plain s = random_sharding(n, r);
    *a = s;
    *b = chance(15) ? random_sharding(n, r) : s;
    for (int i = 0; i < r; i++) {
        la[i] = chance(50);
        lb[i] = chance(50);
    }
    *a = p_replicate(a, la);
    *b = p_replicate(b, lb);
    if (b->kind == SHARDING_TILED && chance(10)) {
        bool flip[PAX];
        for (int i = 0; i < r; i++)
            flip[i] = chance(30);
        *b = p_reverse(b, flip);
    }
}

static void case_merge(struct shardings *t, uint64_t at)
{
    struct plain m, dst;
    related_pair(random_count(), 1 + below(4), &m, &dst);
    int64_t min = chance(60) ? -1 : p_nt(&dst);
    sharding_id got = make(t, &dst), before = got;
    bool ok = sharding_merge_compat(t, make(t, &m), &got, min);
    struct plain want = dst;
    bool expected = p_merge_compat(&m, &want, min);
    seen.merges++;
    seen.merged += expected && !p_max(&dst);
    if (ok != expected || (!ok && got.i != before.i)) {
        printf("merge_compat says %d, seed %" PRIu64 ", min %d\n", ok, at, (int)min);
        show("m   ", &m);
        show("dst ", &dst);
        show("want", &want);
        fail();
    }
    if (ok)
        check(t, "merge_compat", at, &m, got, &want);
}

static void case_subtiling(struct shardings *t, uint64_t at)
{
    int n = random_count(), r = 1 + below(3);
    int64_t dims[PAX];
    struct plain p, s;
    related_pair(n, r, &p, &s);
    if (chance(50) && p.kind == SHARDING_TILED) { /* only s is coarser */
        bool none[PAX] = { false };
        s = p_replicate(&p, none);
        bool listed[PAX];
        for (int i = 0; i < r; i++)
            listed[i] = chance(40);
        s = p_replicate(&s, listed);
        int axis = below(r);
        if (s.kind == SHARDING_TILED && s.dims[axis] % 2 == 0 && s.nt == 0) {
            /* half the tiles of an axis, the other half become copies */
            int64_t view[PAX] = { 0 };
            int perm[PAX], k = 0, np = 0, dev[PN];
            int64_t od[PAX];
            for (int i = 0; i < s.na; i++) {
                if (i == axis) {
                    view[k++] = s.dims[i] / 2;
                    view[k++] = 2;
                } else {
                    view[k++] = s.dims[i];
                }
            }
            for (int i = 0; i < k; i++)
                if (i != axis + 1)
                    perm[np++] = i;
            perm[np++] = axis + 1;
            p_transpose_array(k, view, s.dev, perm, od, dev);
            od[r] = p_prod(k - r, od + r);
            s = p_partial(r + 1, od, dev);
        }
    }
    for (int i = 0; i < r; i++)
        dims[i] = 1 + below(chance(50) ? 12 : 80);
    bool got = sharding_is_subtiling(t, r, dims, make(t, &p), make(t, &s));
    seen.subtilings++;
    seen.inside += got && !p_max(&s);
    if (got == p_subtiling(r, dims, &p, &s))
        return;
    printf("is_subtiling says %d, seed %" PRIu64 ", sizes", got, at);
    for (int i = 0; i < r; i++)
        printf(" %d", (int)dims[i]);
    printf("\n");
    show("p", &p);
    show("s", &s);
    fail();
}

/* Text out and in again is the same sharding, whatever the order is. */
static void case_print(struct shardings *t, uint64_t at)
{
    struct plain s = random_sharding(random_count(), 1 + below(4));
    sharding_id id = make(t, &s), again;
    struct arena a = { 0 };
    struct str text = STR_IN(&a);
    sharding_print(t, id, NULL, false, &text);
    size_t used;
    bool ok = sharding_parse(t, NULL, NULL, 0, str_text(&text), text.n, &used, &again, NULL, NULL);
    if (!ok || used != text.n || again.i != id.i) {
        printf("print, seed %" PRIu64 ": %s\n", at, str_text(&text));
        fail();
    }
    arena_free(&a);
}

/* Tile of each device, device of each cell. */
static void case_questions(struct shardings *t, uint64_t at)
{
    struct plain s = random_sharding(random_count(), 1 + below(3));
    if (s.kind != SHARDING_TILED)
        return;
    sharding_id id = make(t, &s);
    struct tiling a = sharding_get(t, id)->tiles;
    for (int64_t c = 0; c < p_prod(s.na, s.dims); c++) {
        int64_t want[PAX], got[PAX];
        p_unravel(s.na, s.dims, c, want);
        tiling_index(t, a, s.dev[c], got);
        bool ok = memcmp(want, got, (size_t)s.na * sizeof *got) == 0 &&
                  tiling_device(t, a, want) == s.dev[c] &&
                  sharding_tile_index(t, id, s.dev[c], got) &&
                  memcmp(want, got, (size_t)s.r * sizeof *got) == 0;
        if (!ok) {
            printf("index of device %d, seed %" PRIu64 "\n", s.dev[c], at);
            show("in", &s);
            fail();
        }
    }
    assert_int_equal(sharding_num_tiles(t, id), p_nt(&s));
    assert_int_equal(sharding_rep_axis(t, id), p_type_axis(&s, AXIS_REPLICATED));
    assert_int_equal(sharding_manual_axis(t, id), p_type_axis(&s, AXIS_MANUAL));
    assert_int_equal(sharding_is_partial(t, id), p_is_partial(&s));
}

/* ---- driver ---------------------------------------------------------------------------------------------- */

static void (*const cases[])(struct shardings *, uint64_t) = {
    case_transpose, case_replicate, case_reverse,   case_move_tiles, case_place,     case_remove,
    case_merge,     case_merge,     case_merge,     case_subtiling,  case_subtiling, case_subtiling,
    case_print,     case_questions, case_split_merge,
};

static void every_operation_is_the_model_s(void **state)
{
    (void)state;
    const char *count = getenv("GSPMD_CASES"), *start = getenv("GSPMD_SEED");
    int64_t n = count ? atoll(count) : 1000000;
    seed = start ? strtoull(start, NULL, 10) : 0x9e3779b97f4a7c15ULL;
    struct shardings *t = shardings_new();
    for (int64_t i = 0; i < n; i++) {
        if (i % 4096 == 0) {
            seen.explicit_ += shardings_explicit_count(t);
            shardings_free(t);
            t = shardings_new();
        }
        uint64_t at = seed;
        cases[below((int)COUNTOF(cases))](t, at);
    }
    printf("%" PRId64 " cases, seed now %" PRIu64 "; of %" PRId64 " merges %" PRId64
           " merged, of %" PRId64 " subtilings %" PRId64 " inside; %" PRId64 " explicit orders\n",
           n, seed, seen.merges, seen.merged, seen.subtilings, seen.inside, seen.explicit_);
    assert_true(n < 1000 || (seen.merged * 50 > seen.merges && seen.inside * 50 > seen.subtilings &&
                             seen.explicit_ > 0));
    shardings_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_the_model_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
