/* FLOPs as XLA counts them, and kernels as its CPU compiler makes them (fuse_cpu.c, count_cpu.c): small programs
 * whose answers are worked out by hand in the comments. Against XLA's own figures: cost_xla.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cost_fixture.h"

static double flops(const char *text, bool widen)
{
    struct cost_options o = { .schedule = SCHEDULE_DEPTH, .plain_matrix = true, .widen = widen };
    struct fixture f = open_text(text, &o);
    double x = cost_flops(f.plan, true);
    close_text(&f);
    return x;
}

static void rare_operations_are_counted_as_xla_does(void **state)
{
    (void)state;
    struct fixture f = open_text(
        "HloModule m\n"
        "most { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)\n"
        " g = pred[] compare(a, b), direction=GE\n v = f32[] select(g, a, b)\n k = s32[] select(g, i, j)\n ROOT t = (f32[], s32[]) tuple(v, k) }\n"
        "ENTRY e { x = f32[16] parameter(0)\n n = s32[16] iota(), iota_dimension=0\n z = f32[] constant(0)\n zi = s32[] constant(0)\n"
        " w = (f32[13], s32[13]) reduce-window(x, n, z, zi), window={size=4}, to_apply=most\n"
        " bits = s32[16] bitcast-convert(x)\n s = f32[8,16] parameter(1)\n c = c64[8,9] fft(s), fft_type=RFFT, fft_length={16}\n"
        " ROOT o = ((f32[13], s32[13]), s32[16], c64[8,9]) tuple(w, bits, c) }\n",
        NULL);
    struct work w;
    cost_work(f.m, named(f.m, "w"), &w);
    assert_true(w.flops == 13.0 * 3 * 3); /* 13 windows of 3 steps: a comparison, two selections */
    cost_work(f.m, named(f.m, "bits"), &w);
    assert_true(w.flops == 16);
    cost_work(f.m, named(f.m, "c"), &w);
    assert_true(w.flops == 8.0 * 4 * 8 * 16); /* the elements that come in, by the logarithm of 16 */
    close_text(&f);
}

/* A step takes one branch: the one with most. */
static void one_branch_counts(void **state)
{
    (void)state;
    static const char text[] = "HloModule m\none { p = f32[8] parameter(0)\n ROOT a = f32[8] add(p, p) }\n"
                               "two { p = f32[8] parameter(0)\n a = f32[8] multiply(p, p)\n ROOT b = f32[8] subtract(a, p) }\n"
                               "ENTRY e { c = pred[] parameter(0)\n x = f32[8] parameter(1)\n"
                               " ROOT r = f32[8] conditional(c, x, x), true_computation=one, false_computation=two }\n";
    assert_true(flops(text, false) == 16);
}

/* h has one operand that counts: both products' operands compute it again. With two it is made once, as dear ones are. */
static void cheap_values_are_repeated(void **state)
{
    (void)state;
    static const char form[] = "HloModule m\nENTRY e { x = f32[16,16] parameter(0)\n y = f32[16,16] parameter(1)\n h = f32[16,16] %s\n"
                               " a = f32[16,16] subtract(h, y)\n b = f32[16,16] maximum(h, y)\n"
                               " d = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               " ROOT t = (f32[16,16]%s) tuple(d%s) }\n";
    char text[1024];
    double dot = 2 * 16 * 16 * 16, each = 16 * 16;
    snprintf(text, sizeof text, form, "negate(x)", "", "");
    assert_true(flops(text, false) == dot + 4 * each);
    snprintf(text, sizeof text, form, "divide(x, y)", "", "");
    assert_true(flops(text, false) == dot + 3 * each);
    snprintf(text, sizeof text, form, "add(x, y)", "", ""); /* fits into all that read it */
    assert_true(flops(text, false) == dot + 4 * each);
    snprintf(text, sizeof text, form, "add(x, y)", ", f32[16,16]", ", h"); /* the result reads it too: it has to be there */
    assert_true(flops(text, false) == dot + 3 * each);
    snprintf(text, sizeof text, form, "negate(x)", ", f32[16,16]", ", h"); /* once more for the result */
    assert_true(flops(text, false) == dot + 5 * each);
}

static void what_is_the_same_for_all_is_computed_once(void **state)
{
    (void)state;
    assert_true(flops("HloModule m\nENTRY e { x = f32[] parameter(0)\n y = f32[64] parameter(1)\n b = f32[64] broadcast(x), dimensions={}\n"
                      " c = f32[64] multiply(b, b)\n ROOT d = f32[64] add(c, y) }\n",
                      false) == 1 + 64);
    /* a clamp is one operation; the largest k and scattering are none */
    assert_true(flops("HloModule m\nENTRY e { y = f32[64] parameter(0)\n l = f32[] constant(0)\n h = f32[] constant(6)\n"
                      " bl = f32[64] broadcast(l), dimensions={}\n bh = f32[64] broadcast(h), dimensions={}\n"
                      " m = f32[64] minimum(y, bh)\n ROOT r = f32[64] maximum(m, bl) }\n",
                      false) == 64);
    assert_true(flops("HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
                      "ENTRY e { y = f32[64] parameter(0)\n i = s32[4,1] parameter(1)\n u = f32[4] parameter(2)\n"
                      " ROOT r = f32[64] scatter(y, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                      "index_vector_dim=1, to_apply=add }\n",
                      false) == 0);
}

/* Each value that is computed on is converted once a kernel, each result back. */
static void narrow_values_are_converted(void **state)
{
    (void)state;
    static const char text[] = "HloModule m\nENTRY e { x = bf16[64] parameter(0)\n y = bf16[64] parameter(1)\n a = bf16[64] multiply(x, y)\n"
                               " ROOT b = bf16[64] add(a, x) }\n";
    assert_true(flops(text, false) == 2 * 64);
    /* x, y and a are widened; a and b are narrowed */
    assert_true(flops(text, true) == 2 * 64 + 5 * 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rare_operations_are_counted_as_xla_does),
        cmocka_unit_test(one_branch_counts),
        cmocka_unit_test(cheap_values_are_repeated),
        cmocka_unit_test(what_is_the_same_for_all_is_computed_once),
        cmocka_unit_test(narrow_values_are_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
