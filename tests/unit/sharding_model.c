/* sharding: every operation against the plain-array model (sharding_plain.h), on random shardings over
 * 2 to 64 devices. GSPMD_CASES=N sets the number of cases (default 1,000,000), GSPMD_SEED the start. */
#include "tests/unit/sharding_random.h"

/* What the cases were like: a generator that makes only dull ones proves nothing. */
static struct {
    int64_t merges, merged, subtilings, inside, explicit_;
} seen;

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
    int64_t n = start_random(1000000);
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
