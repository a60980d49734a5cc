/* Kernels against values worked out by hand: small modules as text, run on one device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/emulate_run.h"

/* ---- elementwise --------------------------------------------------------------------------------
 */

static void integers_wrap_and_divide_by_zero(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s32[5] constant({7, -7, 2147483647, -2147483648, 9})\n"
                    "b = s32[5] constant({2, 0, 1, -1, -4})\n"
                    "ROOT r = s32[5] divide(a, b)"),
                3, -1, 2147483647, INT32_MIN, -2);
    EXPECT_INTS(ONE("a = s32[4] constant({7, -7, -2147483648, -9})\n"
                    "b = s32[4] constant({0, 0, -1, 4})\n"
                    "ROOT r = s32[4] remainder(a, b)"),
                7, -7, 0, -1);
    EXPECT_INTS(ONE("a = s8[2] constant({127, -128})\n ROOT r = s8[2] add(a, a)"), -2, 0);
    EXPECT_INTS(ONE("a = u8[2] constant({200, 3})\n ROOT r = u8[2] multiply(a, a)"), 64, 9);
    EXPECT_INTS(ONE("a = s32[2] constant({-2147483648, -5})\n ROOT r = s32[2] abs(a)"), INT32_MIN,
                5);
}

static void wide_shifts_leave_zero_or_the_sign(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s32[3] constant({1, 1, -1})\n b = s32[3] constant({31, 32, -1})\n"
                    "ROOT r = s32[3] shift-left(a, b)"),
                INT32_MIN, 0, 0);
    EXPECT_INTS(ONE("a = s32[3] constant({-8, -8, 8})\n b = s32[3] constant({1, 40, 40})\n"
                    "ROOT r = s32[3] shift-right-arithmetic(a, b)"),
                -4, -1, 0);
    EXPECT_INTS(ONE("a = s8[2] constant({-1, -1})\n b = s8[2] constant({4, 8})\n"
                    "ROOT r = s8[2] shift-right-logical(a, b)"),
                15, 0);
}

static void narrow_integers_keep_their_width(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s4[3] constant({7, -8, 3})\n b = s4[3] constant({1, -1, 2})\n"
                    "ROOT r = s4[3] add(a, b)"),
                -8, 7, 5);
    EXPECT_INTS(ONE("a = u4[2] constant({15, 9})\n b = u4[2] constant({1, 9})\n"
                    "ROOT r = u4[2] multiply(a, b)"),
                15, 1);
    EXPECT_INTS(ONE("a = s32[3] constant({9, -9, 100})\n ROOT r = s4[3] convert(a)"), -7, 7, 4);
}

static void nan_and_zero_signs(void **state)
{
    (void)state;
    EXPECT_FLOATS(
        ONE("a = f32[4] constant({nan, 1, 0, -0.0})\n b = f32[4] constant({1, nan, -0.0, 0})\n"
            "ROOT r = f32[4] maximum(a, b)"),
        NAN, NAN, 0.0, -0.0);
    EXPECT_INTS(ONE("a = f32[4] constant({nan, 1, inf, -inf})\n ROOT r = pred[4] is-finite(a)"), 0,
                1, 0, 0);
    EXPECT_INTS(ONE("a = f32[3] constant({nan, 1, 2})\n b = f32[3] constant({nan, 1, 3})\n"
                    "ROOT r = pred[3] compare(a, b), direction=NE"),
                1, 0, 1);
    EXPECT_INTS(ONE("a = f32[3] constant({-0.0, nan, -inf})\n b = f32[3] constant({0, inf, nan})\n"
                    "ROOT r = pred[3] compare(a, b), direction=LT, type=TOTALORDER"),
                1, 0, 1);
    EXPECT_FLOATS(
        ONE("a = f32[4] constant({-2.5, -0.5, 0.5, 1.5})\n ROOT r = f32[4] round-nearest-even(a)"),
        -2, -0.0, 0, 2);
    EXPECT_FLOATS(
        ONE("a = f32[4] constant({-2.5, -0.5, 0.5, 1.5})\n ROOT r = f32[4] round-nearest-afz(a)"),
        -3, -1, 1, 2);
}

static void conversions_round_and_saturate(void **state)
{
    (void)state;
    EXPECT_INTS(
        ONE("a = f32[6] constant({300, -300, nan, 2.9, -2.9, inf})\n ROOT r = s8[6] convert(a)"),
        127, -128, 0, 2, -2, 127);
    EXPECT_INTS(ONE("a = f32[3] constant({-1, 5e9, 7.5})\n ROOT r = u32[3] convert(a)"), 0,
                4294967295, 7);
    EXPECT_FLOATS(ONE("a = f32[4] constant({1.00390625, 1.01171875, 3.4e38, 65520})\n"
                      "b = bf16[4] convert(a)\n ROOT r = f32[4] convert(b)"),
                  1, 1.015625, HUGE_VAL, 65536);
    EXPECT_FLOATS(ONE("a = f32[4] constant({65519, 65520, 5.9604645e-8, 2e-8})\n"
                      "b = f16[4] convert(a)\n ROOT r = f32[4] convert(b)"),
                  65504, HUGE_VAL, 0x1p-24, 0);
    EXPECT_FLOATS(ONE("a = f32[4] constant({464, 480, 0.0009, -17})\n"
                      "b = f8e4m3fn[4] convert(a)\n ROOT r = f32[4] convert(b)"),
                  448, NAN, 0, -16);
    EXPECT_FLOATS(ONE("a = f32[3] constant({1e-40, 1, 3})\n"
                      "ROOT r = f32[3] reduce-precision(a), exponent_bits=5, mantissa_bits=0"),
                  0, 1, 2);
}

static void select_and_clamp(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("p = pred[] constant(false)\n a = s32[2] constant({1, 2})\n b = s32[2] "
                    "constant({3, 4})\n"
                    "ROOT r = s32[2] select(p, a, b)"),
                3, 4);
    EXPECT_INTS(ONE("lo = s32[] constant(-1)\n hi = s32[] constant(2)\n a = s32[4] constant({-5, "
                    "0, 2, 9})\n"
                    "ROOT r = s32[4] clamp(lo, a, hi)"),
                -1, 0, 2, 2);
}

static void complex_numbers(void **state)
{
    (void)state;
    EXPECT_FLOATS(ONE("a = f32[2] constant({1, 2})\n b = f32[2] constant({3, -1})\n c = c64[2] "
                      "complex(a, b)\n"
                      "d = c64[2] multiply(c, c)\n ROOT r = f32[2] real(d)"),
                  -8, 3);
    EXPECT_FLOATS(
        ONE("a = f32[1] constant({3})\n b = f32[1] constant({4})\n c = c64[1] complex(a, b)\n"
            "ROOT r = f32[1] abs(c)"),
        5);
}

/* ---- moving elements ----------------------------------------------------------------------------
 */

#define A23 "a = s32[2,3] constant({ {1, 2, 3}, {4, 5, 6} })\n"

static void moves(void **state)
{
    (void)state;
    EXPECT_INTS(ONE(A23 "ROOT r = s32[3,2] transpose(a), dimensions={1,0}"), 1, 4, 2, 5, 3, 6);
    EXPECT_INTS(ONE(A23 "ROOT r = s32[2,3] reverse(a), dimensions={1}"), 3, 2, 1, 6, 5, 4);
    EXPECT_INTS(ONE(A23 "ROOT r = s32[3,2] reshape(a)"), 1, 2, 3, 4, 5, 6);
    EXPECT_INTS(ONE(A23 "ROOT r = s32[2,2] slice(a), slice={[0:2], [0:3:2]}"), 1, 3, 4, 6);
    EXPECT_INTS(ONE("v = s32[2] constant({8, 9})\n ROOT r = s32[2,3] broadcast(v), dimensions={0}"),
                8, 8, 8, 9, 9, 9);
    EXPECT_INTS(ONE(A23 "b = s32[2,1] constant({ {7}, {8} })\n ROOT r = s32[2,4] concatenate(a, "
                        "b), dimensions={1}"),
                1, 2, 3, 7, 4, 5, 6, 8);
    EXPECT_INTS(ONE("ROOT r = s32[2,3] iota(), iota_dimension=1"), 0, 1, 2, 0, 1, 2);
}

/* Optimised dumps: the bytes stay where they are, so a layout turns the logical order round. */
static void bitcasts_follow_layouts(void **state)
{
    (void)state;
    EXPECT_INTS(ONE(A23 "ROOT r = s32[3,2]{0,1} bitcast(a)"), 1, 4, 2, 5, 3, 6);
    EXPECT_INTS(ONE(A23 "ROOT r = s32[3,2]{1,0} bitcast(a)"), 1, 2, 3, 4, 5, 6);
    EXPECT_INTS(ONE("a = f32[2] constant({1, -2})\n ROOT r = u32[2] bitcast-convert(a)"),
                0x3f800000, 0xc0000000);
    EXPECT_INTS(ONE("a = u32[1] constant({67305985})\n ROOT r = u8[1,4] bitcast-convert(a)"), 1, 2,
                3, 4);
}

/* Values of the original papers' algorithms as XLA lays them out. */
static void random_bits(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("s = u64[2] constant({3, 10})\n q = (u64[2], u32[8,2]) rng-bit-generator(s), "
                    "algorithm=rng_three_fry\n ROOT b = u32[8,2] get-tuple-element(q), index=1"),
                167328752, 446042894, 1424749559, 2274340253, 114450230);
    EXPECT_INTS(ONE("s = u64[2] constant({1311768467463790321, 1147797409030816547})\n"
                    "q = (u64[2], u32[4]) rng-bit-generator(s), algorithm=rng_philox\n"
                    "ROOT b = u32[4] get-tuple-element(q), index=1"),
                0x454304b1, 0x58d3148c, 0xa1df87c3, 0x7c685c40);
}

static void linear_algebra(void **state)
{
    (void)state;
    EXPECT_FLOATS(ONE("a = f32[2,2] constant({ {4, 2}, {2, 5} })\n ROOT r = f32[2,2] cholesky(a), "
                      "lower=true"),
                  2, 0, 1, 2);
    /* not positive definite: all of that matrix; a last pivot of 0: that element */
    EXPECT_FLOATS(ONE("a = f32[2,2,2] constant({ { {4, 2}, {2, -5} }, { {4, 2}, {2, 1} } })\n"
                      " ROOT r = f32[2,2,2] cholesky(a), lower=true"),
                  NAN, NAN, NAN, NAN, 2, 0, 1, NAN);
    EXPECT_FLOATS(
        ONE("a = f32[2,2] constant({ {2, 0}, {1, 4} })\n b = f32[2,1] constant({ {2}, {9} })\n"
            "ROOT r = f32[2,1] triangular-solve(a, b), left_side=true, lower=true,"
            " transpose_a=NO_TRANSPOSE"),
        1, 2);
    EXPECT_FLOATS(
        ONE("a = f32[4] constant({1, 2, 3, 4})\n f = c64[3] fft(a), fft_type=RFFT, fft_length={4}\n"
            "ROOT r = f32[3] real(f)"),
        10, -2, -2);
}

/* 2 of every 4 are there, and two bits each say where: places 0, 3, then 1, 2. */
static void sparse_products_follow_their_metadata(void **state)
{
    (void)state;
#define FEW   "a = f32[1,4] constant({ {1, 10, 100, 1000} })\n m = u16[1,1] constant({ {156} })\n"
#define WHOLE "b = f32[2,8] constant({ {1, 2, 3, 4, 5, 6, 7, 8}, {1, inf, nan, 1, -inf, 1, 1, nan} })\n"
    EXPECT_FLOATS(ONE(FEW WHOLE "ROOT r = f32[1,2] dot(a, b, m), lhs_contracting_dims={1}, "
                                "rhs_contracting_dims={1}, sparsity=L.1@2:4"),
                  7641, 1111);
    EXPECT_FLOATS(ONE(FEW WHOLE "ROOT r = f32[2,1] dot(b, a, m), lhs_contracting_dims={1}, "
                                "rhs_contracting_dims={1}, sparsity=R.1@2:4"),
                  7641, 1111);
    /* only where both are: place 3 of the first four, place 1 of the others */
    EXPECT_FLOATS(ONE(FEW "c = f32[1,4] constant({ {3, 5, 7, 9} })\n n = u16[1,1] constant({ {205} })\n"
                          "ROOT r = f32[1,1] dot(a, c, m, n), lhs_contracting_dims={1}, "
                          "rhs_contracting_dims={1}, sparsity=L.1@2:4_R.1@2:4"),
                  10 * 5);
    /* a number of the metadata for eight elements; int8 products wrap in s32; dimension 0 */
    EXPECT_INTS(ONE("a = s8[10,1] constant({ {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {100} })\n"
                    "m = u16[2,1] constant({ {52428}, {12} })\n b = s8[20,1] iota(), iota_dimension=0\n"
                    "ROOT r = s32[1,1] dot(a, b, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                    "sparsity=L.0@2:4"),
                (0 + 3) + (4 + 7) + (8 + 11) + (12 + 15) + 16 + 1900);
#undef FEW
#undef WHOLE
}

static void missing_kernels_are_listed(void **state)
{
    (void)state;
    static const char text[] = ONE(
        "t = token[] after-all()\n i = (f32[2], token[]) infeed(t)\n"
        "x = f32[2] get-tuple-element(i), index=0\n"
        "y = f32[2] custom-call(x), custom_call_target=\"mystery\"\n ROOT r = f32[2] add(x, y)");
    struct ran x = run_text(text, (struct run_options){ 0 });
    struct arena a = { 0 };
    const char **names;
    assert_non_null(x.m);
    assert_false(x.ok);
    assert_int_equal(run_missing(x.m, &a, &names), 1);
    assert_string_equal(names[0], "mystery");
    arena_free(&a);
    ran_free(&x);
}

static void pad_negative_and_interior(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s32[3] constant({1, 2, 3})\n z = s32[] constant(9)\n ROOT r = s32[6] "
                    "pad(a, z), padding=1_0_1"),
                9, 1, 9, 2, 9, 3);
    EXPECT_INTS(ONE("a = s32[3] constant({1, 2, 3})\n z = s32[] constant(9)\n ROOT r = s32[3] "
                    "pad(a, z), padding=-1_-1_1"),
                9, 2, 9);
    EXPECT_INTS(ONE("a = s32[3] constant({1, 2, 3})\n z = s32[] constant(9)\n ROOT r = s32[2] "
                    "pad(a, z), padding=-2_1"),
                3, 9);
    /* What negative padding cuts off is gone for a window over it, too. */
    EXPECT_INTS(WITH("add { p = s32[] parameter(0)\n q = s32[] parameter(1)\n ROOT s = s32[] add(p, q) }\n",
                     "a = s32[1] constant({5})\n z = s32[] constant(0)\n b = s32[2] pad(a, z), padding=-1_2\n"
                     "ROOT r = s32[2] reduce-window(b, z), window={size=2 pad=1_0}, to_apply=add"),
                0, 0);
}

static void dynamic_slices_are_clamped(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s32[4] constant({1, 2, 3, 4})\n i = s32[] constant(7)\n"
                    "ROOT r = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}"),
                3, 4);
    EXPECT_INTS(ONE("a = s32[4] constant({1, 2, 3, 4})\n i = u32[] constant(4294967295)\n"
                    "ROOT r = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}"),
                3, 4);
    /* Each start is clamped where it stands: not their sum. */
    EXPECT_INTS(ONE("a = s32[3] constant({1, 2, 3})\n i = s32[] constant(-7)\n j = s32[] constant(1)\n"
                    "b = s32[3] dynamic-slice(a, i), dynamic_slice_sizes={3}\n"
                    "ROOT r = s32[2] dynamic-slice(b, j), dynamic_slice_sizes={2}"),
                2, 3);
    EXPECT_INTS(ONE("a = s32[4] constant({1, 2, 3, 4})\n u = s32[2] constant({8, 9})\n i = s64[] "
                    "constant(-3)\n"
                    "ROOT r = s32[4] dynamic-update-slice(a, u, i)"),
                8, 9, 3, 4);
}

/* The operand lives on: the update must not write through it. */
static void updates_in_place_only_when_nobody_looks(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("p = s32[3] constant({1, 2, 3})\n one = s32[] constant(1)\n ones = s32[3] "
                    "broadcast(one), dimensions={}\n"
                    "j = u32[] partition-id()\n i = s32[] convert(j)\n a = s32[3] broadcast(i), "
                    "dimensions={}\n b = s32[3] add(a, p)\n"
                    "u = s32[1] constant({50})\n c = s32[3] dynamic-update-slice(b, u, i)\n ROOT r "
                    "= s32[3] subtract(c, b)"),
                49, 0, 0);
}

/* ---- gather and scatter
 * -------------------------------------------------------------------------- */

static void gather_clamps(void **state)
{
    (void)state;
    EXPECT_INTS(ONE(A23 "i = s32[3] constant({1, 5, -2})\n"
                        "ROOT r = s32[3,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0},"
                        " start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"),
                4, 5, 6, 4, 5, 6, 1, 2, 3);
    EXPECT_INTS(ONE(A23 "i = s32[2,1] constant({ {2}, {0} })\n"
                        "ROOT r = s32[2] gather(a, i), offset_dims={}, collapsed_slice_dims={1}, "
                        "start_index_map={1},"
                        " operand_batching_dims={0}, start_indices_batching_dims={0}, "
                        "index_vector_dim=1, slice_sizes={1,1}"),
                3, 4);
}

#define ADDER "add { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }\n"

static void scatter_skips_what_is_outside(void **state)
{
    (void)state;
    EXPECT_INTS(
        WITH(ADDER,
             "a = s32[4] constant({1, 1, 1, 1})\n i = s32[4] constant({1, 4, -1, 1})\n"
             "u = s32[4] constant({10, 20, 30, 40})\n"
             "ROOT r = s32[4] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0},"
             " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
        1, 51, 1, 1);
    EXPECT_INTS(
        WITH(ADDER,
             "a = s32[4] constant({0, 0, 0, 0})\n i = s32[2] constant({3, 1})\n"
             "u = s32[2,2] constant({ {1, 2}, {3, 4} })\n"
             "ROOT r = s32[4] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={},"
             " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
        0, 3, 4, 0);
}

/* ---- reductions
 * ----------------------------------------------------------------------------------- */

static void reduces(void **state)
{
    (void)state;
    EXPECT_INTS(
        WITH(
            ADDER, A23
            "z = s32[] constant(100)\n ROOT r = s32[2] reduce(a, z), dimensions={1}, to_apply=add"),
        106, 115);
    EXPECT_INTS(
        WITH(ADDER, A23
             "z = s32[] constant(0)\n ROOT r = s32[3] reduce(a, z), dimensions={0}, to_apply=add"),
        5, 7, 9);
    EXPECT_INTS(
        WITH("f { x = s32[] parameter(0)\n y = s32[] parameter(1)\n d = s32[] multiply(x, y)\n"
             " ROOT s = s32[] subtract(d, y) }\n",
             A23
             "z = s32[] constant(2)\n ROOT r = s32[2] reduce(a, z), dimensions={1}, to_apply=f"),
        /* ((2*1-1)*2-2)*3-3 = -3; ((2*4-4)*5-5)*6-6 = 84 */ -3, 84);
}

#define ARGMAX                                                                                   \
    "f { v = s32[] parameter(0)\n i = s32[] parameter(1)\n w = s32[] parameter(2)\n j = s32[] "  \
    "parameter(3)\n"                                                                             \
    " p = pred[] compare(v, w), direction=GE\n m = s32[] select(p, v, w)\n k = s32[] select(p, " \
    "i, j)\n"                                                                                    \
    " ROOT t = (s32[], s32[]) tuple(m, k) }\n"

static void variadic_reduce_finds_the_place(void **state)
{
    (void)state;
    EXPECT_INTS(WITH(ARGMAX, "a = s32[2,3] constant({ {1, 7, 7}, {4, 2, 3} })\n i = s32[2,3] "
                             "iota(), iota_dimension=1\n"
                             "z = s32[] constant(-99)\n n = s32[] constant(0)\n"
                             "q = (s32[2], s32[2]) reduce(a, i, z, n), dimensions={1}, to_apply=f\n"
                             "ROOT r = s32[2] get-tuple-element(q), index=1"),
                1, 0);
}

static void windows(void **state)
{
    (void)state;
    EXPECT_INTS(WITH(ADDER,
                     "a = s32[5] constant({1, 2, 3, 4, 5})\n z = s32[] constant(0)\n"
                     "ROOT r = s32[5] reduce-window(a, z), window={size=3 pad=2_0}, to_apply=add"),
                1, 3, 6, 9, 12);
    EXPECT_INTS(
        WITH(ADDER,
             "a = s32[3] constant({1, 2, 3})\n z = s32[] constant(0)\n"
             "ROOT r = s32[4] reduce-window(a, z), window={size=2 lhs_dilate=2}, to_apply=add"),
        1, 2, 2, 3);
    EXPECT_INTS(WITH(ADDER "ge { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT p = pred[] "
                           "compare(x, y), direction=GE }\n",
                     "a = s32[4] constant({5, 5, 2, 9})\n u = s32[2] constant({10, 20})\n z = "
                     "s32[] constant(1)\n"
                     "ROOT r = s32[4] select-and-scatter(a, u, z), window={size=2 stride=2}, "
                     "select=ge, scatter=add"),
                11, 1, 1, 21);
}

/* ---- sorting
 * -------------------------------------------------------------------------------------- */

static void sort_is_stable(void **state)
{
    (void)state;
    EXPECT_INTS(
        WITH("lt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n d = "
             "s32[] parameter(3)\n"
             " ROOT p = pred[] compare(a, b), direction=LT }\n",
             "k = s32[6] constant({3, 1, 3, 1, 2, 3})\n v = s32[6] iota(), iota_dimension=0\n"
             "q = (s32[6], s32[6]) sort(k, v), dimensions={0}, is_stable=true, to_apply=lt\n"
             "ROOT r = s32[6] get-tuple-element(q), index=1"),
        1, 3, 4, 0, 2, 5);
    EXPECT_INTS(ONE("a = f32[5] constant({1, nan, 7, 7, -2})\n q = (f32[3], s32[3]) topk(a), k=3, "
                    "largest=true\n"
                    "ROOT r = s32[3] get-tuple-element(q), index=1"),
                1, 2, 3);
}

/* ---- products
 * ------------------------------------------------------------------------------------- */

static void products(void **state)
{
    (void)state;
    EXPECT_INTS(
        ONE(A23 "b = s32[3,2] constant({ {1, 0}, {0, 1}, {1, 1} })\n"
                "ROOT r = s32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        4, 5, 10, 11);
    EXPECT_INTS(ONE(A23 "b = s32[2,3] constant({ {1, 1, 1}, {0, 1, 0} })\n"
                        "ROOT r = s32[2] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},"
                        " lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
                6, 5);
    EXPECT_FLOATS(
        ONE("a = bf16[2] constant({1.5, 2})\n b = bf16[2] constant({3, 256})\n"
            "ROOT r = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        516.5);
}

static void convolutions(void **state)
{
    (void)state;
    EXPECT_INTS(ONE("a = s32[1,1,4] constant({ { {1, 2, 3, 4} } })\n k = s32[1,1,2] constant({ { "
                    "{10, 1} } })\n"
                    "ROOT r = s32[1,1,4] convolution(a, k), window={size=2 pad=1_0}, "
                    "dim_labels=bf0_oi0->bf0"),
                1, 12, 23, 34);
    EXPECT_INTS(ONE("a = s32[1,1,4] constant({ { {1, 2, 3, 4} } })\n k = s32[1,1,2] constant({ { "
                    "{10, 1} } })\n"
                    "ROOT r = s32[1,1,3] convolution(a, k), window={size=2 rhs_reversal=1}, "
                    "dim_labels=bf0_oi0->bf0"),
                21, 32, 43);
    EXPECT_INTS(ONE("a = s32[1,2,2] constant({ { {1, 2}, {3, 4} } })\n k = s32[2,1,1] constant({ { "
                    "{10} }, { {100} } })\n"
                    "ROOT r = s32[1,2,2] convolution(a, k), window={size=1}, "
                    "dim_labels=bf0_oi0->bf0, feature_group_count=2"),
                10, 20, 300, 400);
}

/* ---- control
 * -------------------------------------------------------------------------------------- */

#define BRANCHES                                                \
    "f { x = s32[] parameter(0)\n ROOT r = s32[] negate(x) }\n" \
    "g { x = s32[] parameter(0)\n ROOT r = s32[] add(x, x) }\n"

static void loops_and_branches(void **state)
{
    (void)state;
    EXPECT_INTS(
        WITH("body { t = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
             " s = s32[] get-tuple-element(t), index=1\n one = s32[] constant(1)\n n = s32[] "
             "add(i, one)\n"
             " u = s32[] add(s, i)\n ROOT r = (s32[], s32[]) tuple(n, u) }\n"
             "cond { t = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
             " k = s32[] constant(5)\n ROOT p = pred[] compare(i, k), direction=LT }\n",
             "z = s32[] constant(0)\n t = (s32[], s32[]) tuple(z, z)\n"
             "w = (s32[], s32[]) while(t), condition=cond, body=body\n ROOT r = s32[] "
             "get-tuple-element(w), index=1"),
        10);
    EXPECT_INTS(WITH(BRANCHES, "i = s32[] constant(1)\n x = s32[] constant(4)\n"
                               "ROOT r = s32[] conditional(i, x, x), branch_computations={f, g}"),
                8);
    EXPECT_INTS(WITH(BRANCHES, "i = s32[] constant(-1)\n x = s32[] constant(4)\n"
                               "ROOT r = s32[] conditional(i, x, x), branch_computations={f, g}"),
                8);
    EXPECT_INTS(
        WITH(BRANCHES,
             "i = pred[] constant(true)\n x = s32[] constant(4)\n"
             "ROOT r = s32[] conditional(i, x, x), true_computation=f, false_computation=g"),
        -4);
    EXPECT_INTS(
        WITH(BRANCHES,
             "x = s32[3] constant({1, 2, 3})\n ROOT r = s32[3] map(x), dimensions={0}, to_apply=f"),
        -1, -2, -3);
    EXPECT_INTS(WITH(BRANCHES, "x = s32[] constant(3)\n y = s32[] call(x), to_apply=g\n ROOT r = "
                               "s32[] fusion(y), kind=kLoop, calls=f"),
                -6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap_and_divide_by_zero),
        cmocka_unit_test(wide_shifts_leave_zero_or_the_sign),
        cmocka_unit_test(narrow_integers_keep_their_width),
        cmocka_unit_test(nan_and_zero_signs),
        cmocka_unit_test(conversions_round_and_saturate),
        cmocka_unit_test(select_and_clamp),
        cmocka_unit_test(complex_numbers),
        cmocka_unit_test(moves),
        cmocka_unit_test(bitcasts_follow_layouts),
        cmocka_unit_test(random_bits),
        cmocka_unit_test(linear_algebra),
        cmocka_unit_test(sparse_products_follow_their_metadata),
        cmocka_unit_test(missing_kernels_are_listed),
        cmocka_unit_test(pad_negative_and_interior),
        cmocka_unit_test(dynamic_slices_are_clamped),
        cmocka_unit_test(updates_in_place_only_when_nobody_looks),
        cmocka_unit_test(gather_clamps),
        cmocka_unit_test(scatter_skips_what_is_outside),
        cmocka_unit_test(reduces),
        cmocka_unit_test(variadic_reduce_finds_the_place),
        cmocka_unit_test(windows),
        cmocka_unit_test(sort_is_stable),
        cmocka_unit_test(products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(loops_and_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
