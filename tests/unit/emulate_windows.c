/* Halo exchange: random windows, strides, paddings, dilations, reversals and groups over even, uneven
 * and empty shards, windows wider than several shards, verified in ring mode; and the paper's figures
 * (its section 6: C4, C5, C8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

static uint64_t state_of_random;

static int64_t pick(int64_t from, int64_t to) /* both ends included */
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return from + (int64_t)((state_of_random >> 33) % (uint64_t)(to - from + 1));
}

struct axis {
    int64_t size, k, stride, lo, hi, bd, wd, out;
    bool reversed;
};

/* A window over `size` elements that gives at least one result. */
static struct axis random_axis(bool base_dilation)
{
    for (;;) {
        struct axis a = { .size = pick(1, 23), .k = pick(1, 7), .stride = pick(1, 3),
                          .lo = pick(-3, 6), .hi = pick(-3, 6), .wd = pick(1, 3),
                          .bd = base_dilation && pick(0, 2) == 0 ? pick(2, 3) : 1,
                          .reversed = pick(0, 4) == 0 };
        if (pick(0, 4) == 0)
            a.k = pick(8, 16);
        int64_t full = 1 + (a.size - 1) * a.bd + a.lo + a.hi, dk = 1 + (a.k - 1) * a.wd;
        if (full < dk || 1 + (a.size - 1) * a.bd + a.lo <= 0 || 1 + (a.size - 1) * a.bd + a.hi <= 0)
            continue;
        a.out = (full - dk) / a.stride + 1;
        if (a.out > 0 && a.out < 60)
            return a;
    }
}

static void put_window(struct str *s, int n, const struct axis *a, bool reversal)
{
    static const char *const words[] = { "size=", " stride=", " pad=", " lhs_dilate=", " rhs_dilate=",
                                         " rhs_reversal=" };
    str_adds(s, "window={");
    for (int w = 0; w < 5 + reversal; w++) {
        str_adds(s, words[w]);
        for (int d = 0; d < n; d++) {
            const struct axis *x = &a[d];
            str_adds(s, d ? "x" : "");
            if (w == 2)
                str_addf(s, "%" PRId64 "_%" PRId64, x->lo, x->hi);
            else
                str_addf(s, "%" PRId64, w == 0   ? x->k
                                        : w == 1 ? x->stride
                                        : w == 3 ? x->bd
                                        : w == 4 ? x->wd
                                                 : (int64_t)x->reversed);
        }
    }
    str_adds(s, "}");
}

/* "{devices=[..]<=[n]}" with n devices spread over the allowed dims; the rest are copies. */
static void put_sharding(struct str *s, int rank, const bool *allowed, int64_t n)
{
    int64_t tiles[4] = { 1, 1, 1, 1 }, left = n;
    for (int64_t f = 2; left > 1;) {
        if (left % f) {
            f++;
            continue;
        }
        left /= f;
        int64_t d = pick(0, rank);
        if (d < rank && allowed[d])
            tiles[d] *= f;
    }
    int64_t used = 1;
    str_adds(s, ", sharding={devices=[");
    for (int d = 0; d < rank; d++) {
        str_addf(s, "%s%" PRId64, d ? "," : "", tiles[d]);
        used *= tiles[d];
    }
    if (used < n)
        str_addf(s, ",%" PRId64 "]<=[%" PRId64 "] last_tile_dim_replicate}", n / used, n);
    else
        str_addf(s, "]<=[%" PRId64 "]}", n);
}

static void put_convolution(struct str *s, int64_t n, bool both)
{
    struct axis a[2] = { random_axis(!both), random_axis(!both) };
    static const bool all[4] = { true, true, true, true }, spatial[4] = { true, true, false, false };
    int64_t features = pick(1, 4), filters = pick(1, 4), batch = pick(1, 4), groups = 1;
    if (pick(0, 3) == 0 && !both) { /* depthwise and the like */
        groups = pick(1, 3);
        features = groups * pick(1, 2);
        filters = groups * pick(1, 2);
    }
    if (both && pick(0, 1))
        for (int d = 0; d < 2; d++) /* a weight gradient: a kernel as wide as the data */
            if (a[d].wd == 1) {
                a[d].k = max_i64(1, a[d].size + a[d].lo + a[d].hi - pick(0, 3) * a[d].stride);
                a[d].out = (a[d].size + a[d].lo + a[d].hi - a[d].k) / a[d].stride + 1;
            }
    str_addf(s, "  x = f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] parameter(0)", a[0].size,
             a[1].size, batch, features);
    put_sharding(s, 4, both ? spatial : all, n);
    str_addf(s, "\n  w = f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] parameter(1)", a[0].k,
             a[1].k, features / groups, filters);
    put_sharding(s, 4, both ? spatial : all, n);
    str_addf(s, "\n  ROOT y = f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] convolution(x, w), ",
             a[0].out, a[1].out, batch, filters);
    put_window(s, 2, a, true);
    str_addf(s, ", dim_labels=01bf_01io->01bf, feature_group_count=%" PRId64, groups);
    put_sharding(s, 4, all, n);
}

static void put_reduce_window(struct str *s, int64_t n)
{
    struct axis a[2] = { random_axis(true), random_axis(true) };
    static const bool all[2] = { true, true };
    bool maximum = pick(0, 1) == 0;
    str_addf(s, "  x = s32[%" PRId64 ",%" PRId64 "] parameter(0)", a[0].size, a[1].size);
    put_sharding(s, 2, all, n);
    str_addf(s, "\n  i = s32[] constant(%s)\n", maximum ? "-2147483648" : "0");
    str_addf(s, "  ROOT y = s32[%" PRId64 ",%" PRId64 "] reduce-window(x, i), ", a[0].out, a[1].out);
    put_window(s, 2, a, false);
    str_addf(s, ", to_apply=%s", maximum ? "max" : "sum");
    put_sharding(s, 2, all, n);
}

static const char *random_text(int64_t seed, int kind, struct str *s)
{
    state_of_random = (uint64_t)seed * 977 + (uint64_t)kind;
    static const int64_t counts[] = { 2, 3, 4, 5, 6, 8 };
    int64_t n = counts[pick(0, 5)];
    str_addf(s, "HloModule m, num_partitions=%" PRId64 "\n", n);
    str_adds(s, "max { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] maximum(a, b)\n}\n"
                "sum { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b)\n}\n"
                "ENTRY e {\n");
    if (kind == 2)
        put_reduce_window(s, n);
    else
        put_convolution(s, n, kind == 1);
    str_adds(s, "\n}\n");
    return str_text(s);
}

static void sweep(int kind, int64_t count, const struct partition_options *o)
{
    for (int64_t seed = 1; seed <= count; seed++) {
        struct arena a;
        memset(&a, 0, sizeof a);
        arena_open(&a);
        struct str s = STR_IN(&a);
        const char *text = random_text(seed, kind, &s);
        struct whole w = whole_of(text, o);
        const char *why = whole_differs(&w, RUN_RING);
        if (why) {
            print_error("seed %d: %s\n%s", (int)seed, why, text);
            fail();
        }
        whole_free(&w);
        arena_close(&a);
    }
}

static void convolutions(void **state)
{
    (void)state;
    sweep(0, 700, NULL);
}

static void convolutions_of_two_tiled_operands(void **state)
{
    (void)state;
    sweep(1, 500, NULL);
}

static void halos_on_the_kernel(void **state)
{
    (void)state;
    struct partition_options o;
    partition_options_default(&o);
    o.halo_always_on_lhs = false;
    sweep(1, 500, &o);
}

static void reduce_windows(void **state)
{
    (void)state;
    sweep(2, 700, NULL);
}

/* ---- the paper's figures --------------------------------------------------------------------------- */

/* Fig. 9: 12 elements over four, window 3, padding 1 and 1, stride 2: left halo 1 - i, right halo 1 + i. */
static const char figure9[] =
    "HloModule m, num_partitions=4\n"
    "ENTRY e {\n"
    "  x = f32[1,1,12] parameter(0), sharding={devices=[1,1,4]<=[4]}\n"
    "  w = f32[1,1,3] parameter(1), sharding={replicated}\n"
    "  ROOT y = f32[1,1,6] convolution(x, w), window={size=3 stride=2 pad=1_1}, dim_labels=bf0_oi0->bf0, "
    "sharding={devices=[1,1,4]<=[4]}\n"
    "}\n";

static void c4_figure_9(void **state)
{
    (void)state;
    struct whole w = whole_of(figure9, NULL);
    assert_null(whole_differs(&w, RUN_RING));
    assert_null(whole_differs(&w, RUN_FLOAT));
    /* The most to the left is 1, on shard 0, which has no neighbour there: only the three to the right
     * are sent (shard 3 would need four, and has no neighbour). */
    assert_int_equal(w.n, 1);
    assert_true(whole_has(&w, OP_COLLECTIVE_PERMUTE, "f32[1,1,3]"));
    /* padding, own and right; of them each takes the five that its two windows cover, masked */
    assert_true(whole_has(&w, OP_CONCATENATE, "f32[1,1,6]"));
    assert_true(whole_has(&w, OP_PAD, "f32[1,1,8]"));
    assert_true(whole_has(&w, OP_DYNAMIC_SLICE, "f32[1,1,5]"));
    assert_true(whole_has(&w, OP_SELECT, "f32[1,1,5]"));
    assert_true(whole_has(&w, OP_CONVOLUTION, "f32[1,1,2]"));
    whole_free(&w);
}

static const char *dilated(char *text, size_t size, int64_t n, int64_t elements, const char *window,
                           int64_t k, int64_t out)
{
    snprintf(text, size,
             "HloModule m, num_partitions=%" PRId64 "\n"
             "ENTRY e {\n"
             "  x = f32[1,1,%" PRId64 "] parameter(0), sharding={devices=[1,1,%" PRId64 "]<=[%" PRId64 "]}\n"
             "  w = f32[1,1,%" PRId64 "] parameter(1), sharding={replicated}\n"
             "  ROOT y = f32[1,1,%" PRId64 "] convolution(x, w), window={%s}, dim_labels=bf0_oi0->bf0, "
             "sharding={devices=[1,1,%" PRId64 "]<=[%" PRId64 "]}\n"
             "}\n",
             n, elements, n, n, k, out, window, n, n);
    return text;
}

/* Fig. 10: 1: stride 3, window 5, dilation 3: all phases equal. 2: stride 1, window 3: the output is
 * cut at an offset. 3: stride 2, window 3: no common padding; XLA makes the operand whole, and so do
 * we. */
static void c5_figure_10(void **state)
{
    (void)state;
    char text[1024];
    /* (4-1)*3+1 = 10, padded by 1 and 1: 12, windows of 5 every 3: 3; over three devices one each */
    struct whole w =
        whole_of(dilated(text, sizeof text, 3, 4, "size=5 stride=3 pad=1_1 lhs_dilate=3", 5, 3), NULL);
    assert_null(whole_differs(&w, RUN_RING));
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    assert_false(whole_has(&w, OP_DYNAMIC_SLICE, "f32[1,1,1]"));
    whole_free(&w);
    /* (4-1)*3+1 = 10, padded by 2 and 2: 14, windows of 3: 12; four each, of which the phase differs */
    w = whole_of(dilated(text, sizeof text, 3, 4, "size=3 stride=1 pad=2_2 lhs_dilate=3", 3, 12), NULL);
    assert_null(whole_differs(&w, RUN_RING));
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    assert_true(whole_has(&w, OP_DYNAMIC_SLICE, "f32[1,1,4]"));
    whole_free(&w);
    /* (4-1)*3+1 = 10, padded by 2 and 3: 15, windows of 3 every 2: 7, three each on three devices */
    w = whole_of(dilated(text, sizeof text, 3, 4, "size=3 stride=2 pad=2_3 lhs_dilate=3", 3, 7), NULL);
    assert_null(whole_differs(&w, RUN_RING));
    whole_free(&w);
}

/* Rows and features at once: groups by feature, halos inside them. */
static void c8_spatial_and_features(void **state)
{
    (void)state;
    struct whole w = whole_of(
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  x = f32[2,12,10,6] parameter(0), sharding={devices=[1,2,1,2]<=[4]}\n"
        "  w = f32[3,3,6,8] parameter(1), sharding={devices=[1,1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
        "  ROOT y = f32[2,12,10,8] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, sharding={devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate}\n"
        "}\n",
        NULL);
    assert_null(whole_differs(&w, RUN_RING));
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    assert_int_equal(whole_count(&w, OP_COLLECTIVE_PERMUTE), 2);
    assert_int_equal(whole_count(&w, OP_ALL_REDUCE), 1);
    assert_true(whole_has(&w, OP_CONVOLUTION, "f32[2,6,10,8]"));
    whole_free(&w);
}

/* Compact exchange needs lists of shards; it is had for as many devices as XLA would list. */
static void compact_on_many_devices(void **state)
{
    (void)state;
    struct whole w = whole_of(
        "HloModule m, num_partitions=16384\n"
        "ENTRY e {\n"
        "  x = f32[65536] parameter(0), sharding={devices=[16384]<=[16384]}\n"
        "  ROOT y = f32[16384] slice(x), slice={[3:65536:4]}, sharding={devices=[16384]<=[16384]}\n"
        "}\n",
        NULL);
    assert_non_null(w.p);
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    whole_free(&w);
    w = whole_of("HloModule m, num_partitions=16384\n"
                 "ENTRY e {\n"
                 "  x = f32[65536] parameter(0), sharding={devices=[16384]<=[16384]}\n"
                 "  ROOT y = f32[21845] slice(x), slice={[1:65536:3]}, sharding={devices=[16384]<=[16384]}\n"
                 "}\n",
                 NULL);
    assert_non_null(w.p);
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    whole_free(&w);
}

/* Bytes that XLA of January 2025 sends for them. */
static void as_many_bytes_as_xla(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        /* groups of features: inside the groups of devices that share one, kernel and lhs are gathered */
        { 88, "HloModule m, num_partitions=4\n\nENTRY e {\n"
              "  l = f32[2,4,4] parameter(0), sharding={devices=[1,2,2]<=[4]}\n"
              "  k = f32[4,2,3] parameter(1), sharding={devices=[1,2,2]<=[4]}\n"
              "  c = f32[1,4,2] convolution(l, k), window={size=3 stride=2 pad=0_0}, "
              "dim_labels=bf0_oi0->0fb, feature_group_count=2\n"
              "  z = f32[1,4,1] parameter(2), sharding={replicated}\n"
              "  ROOT y = f32[1,4,3] concatenate(c, z), dimensions={2}, sharding={devices=[1,2,2]<=[4]}\n}\n" },
        /* a reversed kernel: its padding goes to the front before it moves, while its shards are small */
        { 296, "HloModule m, num_partitions=4\n\nENTRY e {\n"
               "  l = f32[5,1,4] parameter(0), sharding={devices=[2,2,1]2,0,3,1}\n"
               "  k = f32[4,3,1] parameter(1), sharding={devices=[2,2,1]<=[4]}\n"
               "  ROOT y = f32[2,4,4] convolution(l, k), window={size=3 stride=3 pad=1_1 rhs_reversal=1}, "
               "dim_labels=0fb_o0i->0fb\n}\n" },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct whole w = whole_of(cases[k].text, NULL);
        const char *why = whole_differs(&w, RUN_RING);
        if (why)
            fail_msg("%s\n%s", why, cases[k].text);
        assert_int_equal(w.bytes, cases[k].bytes);
        whole_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c4_figure_9),
        cmocka_unit_test(c5_figure_10),
        cmocka_unit_test(c8_spatial_and_features),
        cmocka_unit_test(compact_on_many_devices),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolutions_of_two_tiled_operands),
        cmocka_unit_test(halos_on_the_kernel),
        cmocka_unit_test(reduce_windows),
        cmocka_unit_test(as_many_bytes_as_xla),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
