/* Constants: text as XLA prints it, element access, and the small float types. */
#include <math.h>

#include "ir_build.h"

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    world_open(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

/* An array of floats or integers from doubles. */
static const struct literal *array(struct world *w, const char *sh, const double *v)
{
    const struct shape *s = shape_get(w->c, shape(w, sh));
    char *data = arena_alloc(&w->a, s->count + 1, 16);
    int size = dtype_bytes(s->dtype);
    bool complex = dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX;
    for (int64_t k = 0; k < s->count; k++) {
        if (complex) {
            enum dtype part = s->dtype == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
            float_store(part, v[2 * k], data + k * size);
            float_store(part, v[2 * k + 1], data + k * size + size / 2);
            continue;
        }
        const struct literal *one = literal_scalar_f(w->m, s->dtype, v[k]);
        memcpy(data + k * size, one->data, (size_t)size);
    }
    return literal_new(w->m, shape(w, sh), data);
}

static const char *text(struct world *w, const struct literal *l)
{
    struct str out = STR_IN(&w->a);
    literal_print(w->m, l, &out);
    return str_text(&out);
}

#define V(...) ((const double[]){ __VA_ARGS__ })

/* Texts taken from XLA's printer. */
static void test_print(void **state)
{
    struct world *w = *state;
    const struct {
        const char *shape;
        const double *v;
        const char *text;
    } cases[] = {
        { "pred[]", V(1), "true" },
        { "pred[]", V(0), "false" },
        { "pred[3]", V(1, 0, 1), "{1, 0, 1}" },
        { "pred[1]", V(1), "{1}" },
        { "pred[2,3]", V(1, 0, 1, 0, 1, 0), "{ { 1, 0, 1 }, { 0, 1, 0 } }" },
        { "pred[1,1]", V(1), "{ {1} }" },
        { "pred[2,1]", V(1, 0), "{ {1}, {0} }" },
        { "pred[1,2]", V(1, 0), "{ { 1, 0 } }" },
        { "f32[2,2,2]", V(1, 2, 3, 4, 5, 6, 7, 1e-6),
          "{ { { 1, 2 }, { 3, 4 } }, { { 5, 6 }, { 7, 1e-06 } } }" },
        { "f32[1,1,1]", V(5), "{ { {5} } }" },
        { "f32[2,1]{1,0}", V(5, 3), "{ {5}, {3} }" },
        { "f32[0,2]", V(0), "{  }" },
        { "f32[2,0]", V(0), "{ {}, {} }" },
        { "f32[0]", V(0), "{}" },
        { "bf16[4]", V(0.1, 1.5, 3.14159, 1e-30), "{0.1001, 1.5, 3.141, 9.984e-31}" },
        { "f16[4]", V(0.1, 1.5, 3.14159, 65504), "{0.099976, 1.5, 3.1406, 65504}" },
        { "f8e4m3fn[4]", V(0.1, 1.5, 3.14159, 448), "{0.102, 1.5, 3.25, 448}" },
        { "f8e5m2[4]", V(0.1, 1.5, 3.14159, 57344), "{0.094, 1.5, 3, 5.7e+04}" },
        { "f8e4m3fnuz[3]", V(0.1, 240, 3), "{0.102, 240, 3}" },
        { "f8e4m3b11fnuz[3]", V(0.1, 30, 3), "{0.102, 30, 3}" },
        { "f8e3m4[3]", V(0.1, 15.5, 3), "{0.0938, 15.5, 3}" },
        { "c64[2]", V(1, -2, 0, INFINITY), "{(1, -2), (0, inf)}" },
        { "c64[2,1]", V(1, 2, 3, 4), "{ {(1, 2)}, {(3, 4)} }" },
        { "c128[]", V(3.5, -0.0), "(3.5, -0)" },
        { "f32[5]", V(NAN, INFINITY, -INFINITY, -0.0, 1e-45), "{nan, inf, -inf, -0, 1.4013e-45}" },
        { "f32[]", V(123456789), "123456792" },
        { "f32[]", V(0.797884583), "0.797884583" },
        { "f32[]", V(0.5), "0.5" },
        { "f64[4]", V(0.1, 1e300, 3.141592653589793, 0.30000000000000004),
          "{0.1, 1e+300, 3.1415926535897931, 0.30000000000000004}" },
        { "s4[4]", V(1, 2, 3, -8), "{1, 2, 3, -8}" },
        { "u2[4]", V(0, 1, 2, 3), "{0, 1, 2, 3}" },
        { "s8[2]", V(-3, 4), "{-3, 4}" },
        { "u8[2]", V(3, 255), "{3, 255}" },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++)
        assert_string_equal(text(w, array(w, cases[k].shape, cases[k].v)), cases[k].text);
}

static void test_print_wide(void **state)
{
    struct world *w = *state;
    assert_string_equal(text(w, literal_scalar_i(w->m, DTYPE_U64, -1)), "18446744073709551615");
    assert_string_equal(text(w, literal_scalar_i(w->m, DTYPE_S64, INT64_MIN)),
                        "-9223372036854775808");
    uint32_t nan = 0xffc00000u, signalling = 0x7fc00001u;
    assert_string_equal(text(w, literal_new(w->m, shape(w, "f32[]"), &nan)), "-nan");
    assert_string_equal(text(w, literal_new(w->m, shape(w, "f32[]"), &signalling)), "nan(0x400001)");
    const struct literal *inner[2] = { literal_scalar_i(w->m, DTYPE_S32, 3),
                                       array(w, "pred[2]", V(1, 0)) };
    const struct literal *outer[2] = { array(w, "f32[2]", V(1, 2)), literal_tuple(w->m, 2, inner) };
    const struct literal *t = literal_tuple(w->m, 2, outer);
    assert_string_equal(text(w, t), "( {1, 2}, ( 3, {1, 0} ) )");
    assert_string_equal(shape_text(w, t->shape), "(f32[2], (s32[], pred[2]))");
    assert_string_equal(text(w, literal_copy(w->m, t)), "( {1, 2}, ( 3, {1, 0} ) )");
    struct literal elided = { .shape = shape(w, "f32[1000]"), .elided = true };
    assert_string_equal(text(w, &elided), "{...}");
    struct literal rows = { .shape = shape(w, "f32[1000000000,0]") };
    assert_string_equal(text(w, &rows), "{...}"); /* not a billion braces */
}

/* Tuples of a single element, 100,000 deep. */
static void test_deep(void **state)
{
    struct world *w = *state;
    enum { DEPTH = 100000 };
    const struct literal *l = literal_scalar_i(w->m, DTYPE_S32, 7);
    for (int k = 0; k < DEPTH; k++)
        l = literal_tuple(w->m, 1, &l);
    assert_int_equal(strlen(text(w, literal_copy(w->m, l))), 4 * DEPTH + 1);
}

static void test_elements(void **state)
{
    struct world *w = *state;
    const struct literal *l = array(w, "s16[3]", V(-5, 0, 300));
    assert_int_equal(literal_get_i(w->m, l, 0), -5);
    assert_int_equal(literal_get_i(w->m, l, 2), 300);
    assert_true(literal_get_f(w->m, l, 0) == -5.0);
    const struct literal *u = literal_scalar_i(w->m, DTYPE_U64, -1);
    assert_true(literal_get_f(w->m, u, 0) == 18446744073709551616.0);
    assert_int_equal(literal_get_i(w->m, literal_scalar_f(w->m, DTYPE_BF16, -2.5), 0), -2);
    assert_int_equal(literal_get_i(w->m, literal_scalar_i(w->m, DTYPE_S4, 9), 0), -7);
    assert_int_equal(literal_get_i(w->m, literal_scalar_i(w->m, DTYPE_PRED, 9), 0), 1);
    assert_true(literal_is_all(w->m, array(w, "f16[2,2]", V(1, 1, 1, 1)), 1));
    assert_false(literal_is_all(w->m, array(w, "f16[2,2]", V(1, 1, 2, 1)), 1));
    assert_false(literal_is_all(w->m, array(w, "c64[1]", V(1, 1)), 1));
    assert_true(literal_is_all(w->m, array(w, "c64[1]", V(1, 0)), 1));
    struct literal elided = { .shape = shape(w, "f32[8]"), .elided = true };
    assert_false(literal_is_all(w->m, &elided, 0));
}

/* Every bit pattern of the narrow types comes back; values between two go to the nearer one, and
 * halfway to the even one. */
static void test_narrow_floats(void **state)
{
    (void)state;
    int types = 0;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        enum dtype type = (enum dtype)t;
        if (dtype_kind(type) != DTYPE_KIND_FLOAT || dtype_bits(type) > 16)
            continue;
        types++;
        uint32_t n = 1u << dtype_bits(type);
        double last = NAN;
        for (uint32_t bits = 0; bits < n; bits++) {
            uint16_t in = (uint16_t)bits, out = 0;
            double v = float_load(type, &in);
            float_store(type, v, &out);
            if (isnan(v)) {
                assert_true(isnan(float_load(type, &out)));
            } else if (in != out) {
                fail_msg("%s %x: %g became %x", dtype_name(type), in, v, out);
            }
            if (bits < n / 2 && isfinite(v) && isfinite(last)) {
                double mid = last + (v - last) / 2;
                float_store(type, mid, &out);
                if (type != DTYPE_F8E8M0FNU)
                    assert_int_equal(out, bits & 1 ? bits - 1 : bits);
                float_store(type, mid + (v - mid) / 4, &out);
                assert_int_equal(out, bits);
            }
            last = v;
        }
    }
    assert_int_equal(types, 11);
}

static void test_float_limits(void **state)
{
    static const struct {
        enum dtype t;
        double in, out;
    } cases[] = {
        { DTYPE_F16, 65520, INFINITY },     { DTYPE_F16, 65519, 65504 },
        { DTYPE_F8E5M2, 61440, INFINITY },  { DTYPE_F8E5M2, 61439, 57344 },
        { DTYPE_F8E4M3FN, 464, 448 },       { DTYPE_F8E4M3FN, 465, NAN },
        { DTYPE_F8E4M3FN, INFINITY, NAN },  { DTYPE_F8E4M3, 248, INFINITY },
        { DTYPE_F8E4M3FNUZ, -INFINITY, NAN }, { DTYPE_F8E4M3FNUZ, -0.0, 0.0 },
        { DTYPE_F4E2M1FN, 100, 6 },         { DTYPE_F4E2M1FN, -INFINITY, -6 },
        { DTYPE_F8E8M0FNU, 3, 4 },          { DTYPE_F8E8M0FNU, -1, NAN },
        { DTYPE_BF16, 3.3961776e38, INFINITY }, { DTYPE_F32, 1e300, INFINITY },
        { DTYPE_BF16, 3.3961775e38, 3.3895313892515355e38 },
    };
    (void)state;
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        char raw[8];
        float_store(cases[k].t, cases[k].in, raw);
        double v = float_load(cases[k].t, raw);
        if (isnan(cases[k].out) ? !isnan(v) : v != cases[k].out || signbit(v) != signbit(cases[k].out))
            fail_msg("%s: %g became %g", dtype_name(cases[k].t), cases[k].in, v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_print, setup, teardown),
        cmocka_unit_test_setup_teardown(test_print_wide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_elements, setup, teardown),
        cmocka_unit_test(test_narrow_floats),
        cmocka_unit_test(test_float_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
