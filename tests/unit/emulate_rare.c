/* Kernels of operations that are seldom met: batch norms, ragged and scaled products, stochastic
 * rounding, LAPACK's routines as custom calls, values from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/emulate_run.h"

static void batch_norms(void **state)
{
    (void)state;
    /* feature 0: 1 3, feature 1: 2 6: means 2 and 4, variances 1 and 4; epsilon 0 */
    EXPECT_FLOATS(ONE("x = f32[2,2] constant({{1,2},{3,6}})\n s = f32[2] constant({2,3})\n o = f32[2] constant({10,20})\n"
                      "t = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1\n"
                      "ROOT y = f32[2,2] get-tuple-element(t), index=0"),
                  8, 17, 12, 23);
    EXPECT_FLOATS(ONE("x = f32[2,2] constant({{1,2},{3,6}})\n s = f32[2] constant({2,3})\n o = f32[2] constant({10,20})\n"
                      "t = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1\n"
                      "ROOT y = f32[2] get-tuple-element(t), index=2"),
                  1, 4);
    EXPECT_FLOATS(ONE("x = f32[2,2] constant({{1,2},{3,6}})\n s = f32[2] constant({2,3})\n o = f32[2] constant({10,20})\n"
                      "m = f32[2] constant({1,2})\n v = f32[2] constant({4,9})\n"
                      "ROOT y = f32[2,2] batch-norm-inference(x, s, o, m, v), epsilon=0, feature_index=0"),
                  10, 11, 21, 24);
    /* One feature of two elements, -1 and 1 around the mean: the gradient along it vanishes. */
    EXPECT_FLOATS(ONE("x = f32[2,1] constant({{1},{3}})\n s = f32[1] constant({2})\n m = f32[1] constant({2})\n"
                      "v = f32[1] constant({1})\n g = f32[2,1] constant({{5},{7}})\n"
                      "t = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, g), epsilon=0, feature_index=1\n"
                      "a = f32[2,1] get-tuple-element(t), index=0\n b = f32[1] get-tuple-element(t), index=1\n"
                      "c = f32[1] get-tuple-element(t), index=2\n d = f32[2] reshape(a)\n"
                      "ROOT y = f32[4] concatenate(d, b, c), dimensions={0}"),
                  0, 0, 2, 12);
}

static void ragged_products(void **state)
{
    (void)state;
    EXPECT_FLOATS(ONE("a = f32[4,2] constant({{1,2},{3,4},{5,6},{7,8}})\n b = f32[2,2,1] constant({{{1},{1}},{{10},{20}}})\n"
                      "g = s32[2] constant({1,2})\n ROOT r = f32[4,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
                  3, 110, 170, 0);
    EXPECT_INTS(ONE("a = s32[2,3] constant({{1,2,3},{4,5,6}})\n b = s32[3,1] constant({{1},{10},{100}})\n"
                    "g = s64[2] constant({1,2})\n ROOT r = s32[2,2,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}, lhs_ragged_dims={1}"),
                1, 4, 320, 650);
    EXPECT_FLOATS(ONE("a = f32[1,4] constant({{1,2,3,4}})\n b = f32[4,1] constant({{1},{1},{1},{1}})\n"
                      "s = f32[1,2] constant({{10,100}})\n t = f32[2,1] constant({{1},{2}})\n"
                      "ROOT r = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
                  1430);
}

static void stochastic_rounding(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("x = f32[6] constant({1.25, 1.25, -1.25, -1.25, nan, 1e20})\n"
                    "u = u32[6] constant({1073741823, 1073741824, 1073741823, 1073741824, 0, 0})\n"
                    "ROOT r = s16[6] stochastic-convert(x, u)"),
                2, 1, -2, -1, 0, 32767);
}

/* (q r) gives the matrix back, q is what numpy has: columns with LAPACK's signs. */
static void lapack(void **state)
{
    (void)state;
    EXPECT_FLOATS(ONE("a = f64[2,2] constant({{4,99},{6,10}})\n c = (f64[2,2], s32[]) custom-call(a), "
                      "custom_call_target=\"lapack_dpotrf_ffi\", backend_config={uplo = 76 : ui8}\n"
                      "ROOT r = f64[2,2] get-tuple-element(c), index=0"),
                  2, 99, 3, 1);
    EXPECT_FLOATS(ONE("a = f32[2,2] constant({{3,1},{4,2}})\n c = (f32[2,2], s32[2], s32[]) custom-call(a), "
                      "custom_call_target=\"lapack_sgetrf_ffi\"\n ROOT r = f32[2,2] get-tuple-element(c), index=0"),
                  4, 2, 0.75, -0.5);
    EXPECT_INTS(ONE("a = f32[2,2] constant({{3,1},{4,2}})\n c = (f32[2,2], s32[2], s32[]) custom-call(a), "
                    "custom_call_target=\"lapack_sgetrf_ffi\"\n ROOT r = s32[2] get-tuple-element(c), index=1"),
                2, 2);
    EXPECT_FLOATS(ONE("a = f32[2,1] constant({{3},{4}})\n c = (f32[2,1], f32[1]) custom-call(a), "
                      "custom_call_target=\"lapack_sgeqrf_ffi\"\n q = f32[2,1] get-tuple-element(c), index=0\n"
                      "t = f32[1] get-tuple-element(c), index=1\n"
                      "m = f32[2,1] custom-call(q, t), custom_call_target=\"lapack_sorgqr_ffi\"\n"
                      "v = f32[2] reshape(q)\n w = f32[2] reshape(m)\n"
                      "ROOT r = f32[5] concatenate(v, t, w), dimensions={0}"),
                  -5, 0.5, (double)1.6f, (double)-0.6f, (double)-0.8f);
    EXPECT_FLOATS(ONE("a = f32[2,2] constant({{2,0},{-1,2}})\n c = (f32[2,2], f32[2], s32[]) custom-call(a), "
                      "custom_call_target=\"lapack_ssyevd_ffi\", backend_config={mode = 86 : ui8, uplo = 76 : ui8}\n"
                      "ROOT r = f32[2] get-tuple-element(c), index=1"),
                  1, 3);
    EXPECT_FLOATS(ONE("a = f32[2,2] constant({{2,7},{1,4}})\n b = f32[2,1] constant({{6},{5}})\n"
                      "ROOT r = f32[2,1] custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
                      "backend_config={diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}"),
                  3, 0.5);
    EXPECT_FLOATS(ONE("a = f32[2,2] constant({{2,1},{7,4}})\n b = f32[1,2] constant({{6,5}})\n"
                      "ROOT r = f32[1,2] custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
                      "backend_config={diag = 78 : ui8, side = 82 : ui8, trans_x = 84 : ui8, uplo = 85 : ui8}"),
                  2.375, 1.25);
}

static void from_outside(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("t = token[] after-all()\n i = (s32[3], token[]) infeed(t)\n x = s32[3] get-tuple-element(i), index=0\n"
                    "k = token[] get-tuple-element(i), index=1\n o = token[] outfeed(x, k)\n"
                    "r = (s32[3], u32[], token[]) recv(o), channel_id=3, is_host_transfer=true\n"
                    "d = (s32[3], token[]) recv-done(r), channel_id=3, is_host_transfer=true\n"
                    "y = s32[3] get-tuple-element(d), index=0\n"
                    "s = (s32[3], u32[], token[]) send(y, k), channel_id=4, is_host_transfer=true\n"
                    "e = token[] send-done(s), channel_id=4, is_host_transfer=true\n"
                    "z = s32[3] get-tuple-element(s), index=0\n ROOT w = s32[3] subtract(z, x)"),
                0, 0, 0);
    EXPECT_INTS(ONE("a = u64[2] rng-get-and-update-state(), delta=5\n b = u64[2] rng-get-and-update-state(), delta=5\n"
                    "ROOT r = u64[4] concatenate(a, b), dimensions={0}"),
                0x7012395, 0, 0x7012395 + 5, 0);
    struct ran x = run_text(ONE("a = f32[] constant(2)\n b = f32[] constant(3)\n ROOT r = f32[1000] rng(a, b), "
                                "distribution=rng_uniform"),
                            (struct run_options){ 0 });
    assert_true(x.ok);
    double sum = 0;
    for (int k = 0; k < 1000; k++) {
        double v = float_at(&x.r.out[0], k);
        assert_true(v >= 2 && v <= 3);
        sum += v;
    }
    assert_true(fabs(sum / 1000 - 2.5) < 0.05);
    assert_true(module_outside(x.m).i != 0);
    ran_free(&x);
}

static void sizes_that_change_are_refused(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("p = s32[4] parameter(0)\n n = s32[] constant(4)\n r = s32[4] set-dimension-size(p, n), dimensions={0}\n"
                    "ROOT q = s32[4] subtract(r, p)"),
                0, 0, 0, 0);
    struct ran x = run_text(ONE("p = s32[4] parameter(0)\n n = s32[] constant(3)\n"
                                "ROOT r = s32[<=4] set-dimension-size(p, n), dimensions={0}"),
                            (struct run_options){ 0 });
    assert_false(x.ok);
    ran_free(&x);
}

/* Device d sends d + 1 rows to each: they stand where the sender says. */
static void ragged_all_to_all(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=2\nENTRY e {\n"
        "u = u32[] partition-id()\n i = s32[] convert(u)\n ten = s32[] constant(10)\n t = s32[] multiply(i, ten)\n"
        "b = s32[4] broadcast(t), dimensions={}\n k = s32[4] iota(), iota_dimension=0\n v = s32[4] add(b, k)\n"
        "m = s32[] constant(-1)\n o = s32[3] broadcast(m), dimensions={}\n one = s32[] constant(1)\n"
        "n = s32[] add(i, one)\n two = s32[] constant(2)\n z = s32[1] constant({0})\n n1 = s32[1] reshape(n)\n"
        "from = s32[2] concatenate(z, n1), dimensions={0}\n size = s32[2] broadcast(n), dimensions={}\n"
        "to = s32[2] broadcast(i), dimensions={}\n got = s32[2] constant({1,2})\n"
        "ROOT r = s32[3] ragged-all-to-all(v, o, from, size, to, got), channel_id=1, replica_groups={{0,1}}\n}\n";
    static const int64_t want[2][3] = { { 0, 10, 11 }, { 1, 12, 13 } };
    struct trace t = { 0 };
    struct ran x = run_text(text, (struct run_options){ .ndevices = 2, .trace = &t });
    if (!x.ok)
        fail_msg("%s", first_error(x.d));
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(int_at(&x.r.out[d], k), want[d][k]);
    trace_free(&t);
    ran_free(&x);
}

#define ADD32 "add { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }\n"

/* Products of short integers go through floats while those are exact: short sums through f32, long
 * ones through f64. */
static void integer_products_are_exact(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1000, 1024, 1025, 3001 };
    for (size_t k = 0; k < COUNTOF(sizes); k++) {
        struct arena a = { 0 };
        int64_t n = sizes[k];
        const char *text = arena_printf(
            &a,
            ONE("c = s8[] constant(127)\n x = s8[8,%d] broadcast(c), dimensions={}\n y = s8[%d,8] broadcast(c), dimensions={}\n"
                "ROOT r = s32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            (int)n, (int)n);
        EXPECT_INTS(text, n * 16129, n * 16129);
        text = arena_printf(
            &a,
            ONE("c = u8[] constant(255)\n d = s16[] constant(-32768)\n x = u8[8,%d] broadcast(c), dimensions={}\n"
                "y = s16[%d,8] broadcast(d), dimensions={}\n"
                "ROOT r = s64[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            (int)n, (int)n);
        EXPECT_INTS(text, -n * 255 * 32768, -n * 255 * 32768);
        arena_free(&a);
    }
}

/* Larger than a tile, and not a multiple of one. */
static void large_transpositions(void **state)
{
    (void)state;
    EXPECT_INTS(WITH(ADD32, "x = s32[3,70,50] iota(), iota_dimension=1\n y = s32[3,70,50] iota(), iota_dimension=2\n"
                            "k = s32[] constant(1000)\n kb = s32[3,70,50] broadcast(k), dimensions={}\n"
                            "m = s32[3,70,50] multiply(x, kb)\n v = s32[3,70,50] add(m, y)\n"
                            "t = s32[50,3,70] transpose(v), dimensions={2,0,1}\n"
                            "a = s32[50,3,70] iota(), iota_dimension=2\n b = s32[50,3,70] iota(), iota_dimension=0\n"
                            "kc = s32[50,3,70] broadcast(k), dimensions={}\n n = s32[50,3,70] multiply(a, kc)\n"
                            "w = s32[50,3,70] add(n, b)\n d = s32[50,3,70] subtract(t, w)\n e = s32[50,3,70] abs(d)\n"
                            "z = s32[] constant(0)\n ROOT r = s32[] reduce(e, z), dimensions={0,1,2}, to_apply=add"),
                0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norms),         cmocka_unit_test(ragged_products),
        cmocka_unit_test(stochastic_rounding), cmocka_unit_test(lapack),
        cmocka_unit_test(from_outside),        cmocka_unit_test(sizes_that_change_are_refused),
        cmocka_unit_test(ragged_all_to_all),
        cmocka_unit_test(integer_products_are_exact),
        cmocka_unit_test(large_transpositions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
