/* sharding: the same operations over 2^20 devices, checked on sampled devices by what each operation
 * does to a device's tile index; and what they cost, in counters, is what 8 devices cost. */
#include "tests/unit/sharding_random.h"

enum { BIG = 1 << 20, SAMPLES = 8, RANK_MOST = 4 };

/* T over BIG devices from random digits, all strides powers of two, sometimes reversed. */
static sharding_id big_sharding(struct shardings *t, int rank)
{
    int64_t dims[PAX];
    int perm[6], k = 1 + below(6), form = below(10);
    int64_t radix[6];
    factors(BIG, k, radix);
    shuffle(k, perm);
    order_id o = order_from_iota(t, k, radix, perm);
    if (form < 3) {
        factors(BIG, rank, dims);
        sharding_id s = sharding_plain(t, tiling_make(t, rank, dims, o));
        int flip = below(rank);
        return chance(20) ? sharding_reverse(t, s, 1, &flip) : s;
    }
    if (form < 7) {
        factors(BIG, rank + 1, dims);
        return sharding_partial(t, tiling_make(t, rank + 1, dims, o));
    }
    factors(BIG, rank + 2, dims);
    return sharding_subgroup(t, tiling_make(t, rank + 2, dims, o), 2,
                             (const enum axis_type[]){ AXIS_MANUAL, AXIS_REPLICATED });
}

static bool is_t(const struct shardings *t, sharding_id s)
{
    return sharding_get(t, s)->kind == SHARDING_TILED;
}

/* Index of device d on data axis i; 0 where s does not cut. */
static int64_t index_of(const struct shardings *t, sharding_id s, int64_t d, int i)
{
    int64_t index[PAX] = { 0 };
    assert_true(sharding_tile_index(t, s, d, index));
    return index[i];
}

static void one_index(const char *what, uint64_t at, int64_t got, int64_t want)
{
    if (got != want)
        fail_msg("%s, seed %" PRIu64 ": index %" PRId64 ", not %" PRId64, what, at, got, want);
}

static void check_moves(struct shardings *t, sharding_id s, int rank, uint64_t at)
{
    int perm[PAX], from = below(rank), to = below(rank), flip = below(rank);
    shuffle(rank, perm);
    sharding_id moved = sharding_transpose(t, s, perm);
    sharding_id merged = sharding_move_tiles(t, s, from, to);
    sharding_id back = sharding_reverse(t, s, 1, &flip);
    sharding_id gone = sharding_replicate_dims(t, s, 1, &flip);
    if (is_t(t, gone)) {
        int man = sharding_manual_axis(t, gone);
        int64_t g = man < 0 ? 1 : sharding_get(t, gone)->tiles.dims[man];
        assert_int_equal(sharding_num_tiles(t, gone) * sharding_copies(t, gone) * g, BIG);
    }
    for (int k = 0; k < SAMPLES; k++) {
        int64_t d = (int64_t)(next_random() % BIG);
        for (int i = 0; i < rank; i++) {
            int64_t x = index_of(t, s, d, i);
            one_index("transpose", at, index_of(t, moved, d, i), index_of(t, s, d, perm[i]));
            one_index("reverse", at, index_of(t, back, d, i),
                      i == flip ? sharding_tile(t, s, i) - 1 - x : x);
            one_index("replicate_dims", at, index_of(t, gone, d, i), i == flip ? 0 : x);
            if (from == to)
                continue;
            int64_t both = index_of(t, s, d, to) * sharding_tile(t, s, from) +
                           index_of(t, s, d, from);
            one_index("move_tiles", at, index_of(t, merged, d, i),
                      i == to ? both : i == from ? 0 : x);
        }
    }
}

/* What is taken from one sharding twice merges back, and each device keeps both tiles. */
static void check_merge(struct shardings *t, sharding_id s, int rank, uint64_t at)
{
    int left[PAX] = { 0 }, right[PAX] = { 0 }, nl = 0, nr = 0;
    for (int i = 0; i < rank; i++) {
        if (chance(50))
            left[nl++] = i;
        else
            right[nr++] = i;
    }
    sharding_id a = sharding_replicate_dims(t, s, nl, left);
    sharding_id b = sharding_replicate_dims(t, s, nr, right), dst = b;
    int64_t dims[PAX];
    for (int i = 0; i < rank; i++)
        dims[i] = BIG << below(2); /* even: what is finer lies inside */
    if (!sharding_is_subtiling(t, rank, dims, s, a) || !sharding_is_subtiling(t, rank, dims, s, b))
        fail_msg("subtiling, seed %" PRIu64, at);
    if (is_t(t, a) && sharding_num_tiles(t, a) < sharding_num_tiles(t, s))
        assert_false(sharding_is_subtiling(t, rank, dims, a, s));
    if (!sharding_is_partial(t, b) || !is_t(t, a))
        return;
    if (!sharding_merge_compat(t, a, &dst, 1))
        fail_msg("merge, seed %" PRIu64, at);
    for (int k = 0; k < SAMPLES; k++) {
        int64_t d = (int64_t)(next_random() % BIG);
        for (int i = 0; i < rank; i++)
            one_index("merge", at, index_of(t, dst, d, i), index_of(t, s, d, i));
    }
}

/* Every device's elements before the reshape are among its elements after it (all sizes divide). */
static void check_reshape(struct shardings *t, sharding_id s, int rank, uint64_t at)
{
    int64_t S[PAX], T[PAX], all = 1;
    for (int i = 0; i < rank; i++) {
        S[i] = sharding_tile(t, s, i) << below(3);
        all *= S[i];
    }
    int trank = 1 + below(4);
    factors(all, trank, T);
    sharding_id r = sharding_through_reshape(t, rank, S, trank, T, s);
    for (int k = 0; k < SAMPLES && is_t(t, r); k++) {
        int64_t d = (int64_t)(next_random() % BIG), first = 0, last = 0, f[PAX], l[PAX];
        for (int i = 0; i < rank; i++) {
            int64_t size = S[i] / sharding_tile(t, s, i), x = index_of(t, s, d, i) * size;
            first = first * S[i] + x;
            last = last * S[i] + x + size - 1;
        }
        p_unravel(trank, T, first, f);
        p_unravel(trank, T, last, l);
        for (int i = 0; i < trank; i++) {
            int64_t size = p_ceil(T[i], sharding_tile(t, r, i)), x = index_of(t, r, d, i);
            one_index("reshape, first element", at, f[i] / size, x);
            one_index("reshape, last element", at, l[i] / size, x);
        }
    }
}

static void check_groups(struct shardings *t, sharding_id s, uint64_t at)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->ntypes)
        return;
    int dims[PAX], n = 0;
    for (int i = 0; i < x->tiles.naxes; i++)
        if (chance(40))
            dims[n++] = i;
    struct sharding_group g;
    sharding_group_on(t, s, n, dims, NULL, &g);
    if (!sharding_is_replicated(t, g.inner))
        assert_int_equal(sharding_ungroup(t, &g).i, s.i);
    struct tiling lines = sharding_groups_along(t, s, n, dims);
    for (int k = 0; k < SAMPLES; k++) {
        int64_t group = (int64_t)(next_random() % (uint64_t)lines.dims[0]), a[PAX], b[PAX];
        int64_t p[2] = { group, 0 }, q[2] = { group, lines.dims[1] - 1 };
        tiling_index(t, x->tiles, tiling_device(t, lines, p), a);
        tiling_index(t, x->tiles, tiling_device(t, lines, q), b);
        for (int i = 0; i < x->tiles.naxes; i++) {
            bool along = false;
            for (int j = 0; j < n; j++)
                along = along || dims[j] == i;
            one_index("groups_along", at, b[i], along ? x->tiles.dims[i] - 1 : a[i]);
        }
    }
}

static void a_million_devices_are_as_good_as_eight(void **state)
{
    (void)state;
    int64_t n = start_random(40000);
    struct shardings *t = shardings_new();
    for (int64_t i = 0; i < n; i++) {
        if (i % 1024 == 0) {
            assert_int_equal(shardings_explicit_count(t), 0);
            shardings_free(t);
            t = shardings_new();
        }
        uint64_t at = seed;
        int rank = 1 + below(RANK_MOST);
        sharding_id s = big_sharding(t, rank);
        if (!is_t(t, s))
            continue;
        check_moves(t, s, rank, at);
        check_merge(t, s, rank, at);
        check_reshape(t, s, rank, at);
        check_groups(t, s, at);
    }
    assert_int_equal(shardings_explicit_count(t), 0);
    shardings_free(t);
}

/* One session's worth of operations in terms of a 2 x n/2 mesh; bytes of the table at its end. */
static int64_t session_bytes(int64_t devices)
{
    struct shardings *t = shardings_new();
    int64_t dims[3] = { 2, devices / 2, 1 }, sizes[2] = { 1 << 22, 1 << 22 };
    order_id o = order_iota(t, devices);
    sharding_id s = sharding_plain(t, tiling_make(t, 2, dims, o));
    static const int swap[] = { 1, 0 }, zero[] = { 0 }, one[] = { 1 };
    sharding_id a = sharding_replicate_dims(t, s, 1, zero);
    sharding_id b = sharding_replicate_dims(t, s, 1, one), dst = b;
    sharding_id back = sharding_transpose(t, s, swap);
    assert_true(sharding_merge_compat(t, a, &dst, -1));
    assert_true(sharding_is_subtiling(t, 2, sizes, s, a));
    assert_int_equal(dst.i, s.i);
    sharding_id r = sharding_through_reshape(t, 2, sizes, 2, sizes, back);
    assert_int_equal(r.i, back.i);
    struct sharding_group g, h;
    sharding_group_on(t, s, 1, zero, NULL, &g);
    sharding_group_on(t, back, 1, one, NULL, &h);
    assert_true(sharding_group_align(t, &g, &h, false));
    (void)sharding_ungroup(t, &g);
    (void)sharding_groups_along(t, s, 1, one);
    assert_int_equal(shardings_explicit_count(t), 0);
    int64_t bytes = shardings_bytes(t);
    shardings_free(t);
    return bytes;
}

static void bytes_do_not_depend_on_devices(void **state)
{
    (void)state;
    assert_int_equal(session_bytes(8), session_bytes(BIG));
    assert_int_equal(session_bytes(8), session_bytes((int64_t)1 << 40));
    assert_true(session_bytes(BIG) < 2 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_devices_are_as_good_as_eight),
        cmocka_unit_test(bytes_do_not_depend_on_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
