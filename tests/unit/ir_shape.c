/* Shapes: reading, printing, interning, measures, leaves. */
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

static bool read(struct world *w, const char *text, shape_id *s, size_t *used)
{
    diag_clear(w->d);
    return shape_parse(w->c, NULL, 0, text, strlen(text), used, s, w->d);
}

static void test_round_trip(void **state)
{
    static const char *const same[] = {
        "f32[]", "f32[8,4]", "bf16[16,128]{1,0:T(8,128)(2,1)S(1)}", "s4[4,2]{1,0:E(4)}", "pred[0,3]",
        "f32[<=20,2]", "f32[3,<=20,2]{2,0,1}", "token[]", "opaque[]", "()", "(f32[2], s32[])",
        "((f32[4], s32[]), token[])", "((), ((), ()))", "f32[]{:T(128)}", "u8[2]{0:T(256)}", "c128[7]{0}",
        "f8e4m3b11fnuz[1]", "f4e2m1fn[8]{0}", "f8e8m0fnu[2]",
        "(f32[1], f32[2], f32[3], f32[4], f32[5], /*index=5*/f32[6], (f32[1]))",
    };
    struct world *w = *state;
    for (size_t k = 0; k < COUNTOF(same); k++) {
        shape_id s;
        size_t used;
        assert_true(read(w, same[k], &s, &used));
        assert_int_equal(used, strlen(same[k]));
        assert_string_equal(shape_text(w, s), same[k]);
    }
}

static void test_spellings(void **state)
{
    static const struct {
        const char *text, *means;
        size_t used;
    } cases[] = {
        { "f32[ 8 , 4 ] x", "f32[8,4]", 12 },
        { "f32[8,4] {", "f32[8,4]", 8 },          /* a body, not a layout */
        { "f32[]{\n", "f32[]", 5 },
        { "f32[2]{0} parameter", "f32[2]{0}", 9 },
        { "( f32[2] ,s32[] )", "(f32[2], s32[])", 17 },
        { "(f32[2],\n/*index=1*/s32[])", "(f32[2], s32[])", 26 },
        { "/* shape */ f32[2]", "f32[2]", 18 },
        { "f32[<= 3]", "f32[<=3]", 9 },
    };
    struct world *w = *state;
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        shape_id s;
        size_t used;
        assert_true(read(w, cases[k].text, &s, &used));
        assert_int_equal(used, cases[k].used);
        assert_string_equal(shape_text(w, s), cases[k].means);
    }
}

/* Refusals: the message, the hint, and the bytes that the caret marks. */
static void test_errors(void **state)
{
    static const struct {
        const char *text, *says, *hint;
        int column, len;
    } cases[] = {
        { "f32[8,-4]", "-4 is negative", NULL, 7, 2 },
        { "f32[9223372036854775808]", "9223372036854775808 does not fit", NULL, 5, 19 },
        { "f32[4294967296,4294967296]", "does not fit in 64 bits", NULL, 1, 26 },
        { "(s8[4611686018427387904], s8[4611686018427387904])", "tuple in bytes does not fit", NULL, 1, 50 },
        { "fp32[8]", "no such element type: 'fp32'", "'f32'", 1, 4 },
        { "float[8]", "'float'", NULL, 1, 5 },
        { "f32[8", "unexpected end", NULL, 6, 1 },
        { "f32", "unexpected end", NULL, 4, 1 },
        { "f32(8)", "expected '['", NULL, 4, 1 },
        { "f32[8;4]", "expected ',' or ']'", NULL, 6, 1 },
        { "f32[,4]", "expected a dimension size", NULL, 5, 1 },
        { "f32[?,4]", "needs a bound", NULL, 5, 1 },
        { "f32[8,4]{0}", "orders 1 dimensions of a shape of rank 2", NULL, 10, 1 },
        { "f32[8,4]{1,2}", "dimension 2 of a shape of rank 2", NULL, 12, 1 },
        { "f32[8,4]{1,1}", "dimension 1 twice", NULL, 12, 1 },
        { "f32[8]{0:T(8", "never closed", NULL, 7, 1 },
        { "(f32[2], s32[]", "unexpected end", NULL, 15, 1 },
        { "(f32[2] s32[])", "expected ',' or ')'", NULL, 9, 1 },
        { "(f32[2], )", "between ',' and ')'", NULL, 10, 1 },
        { "(,)", "expected a shape", NULL, 2, 1 },
        { "token[3]", "a token has no dimensions", NULL, 1, 8 },
        { "", "unexpected end", NULL, 1, 1 },
        { "/* open", "unexpected end", NULL, 8, 1 },
    };
    struct world *w = *state;
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct source src = { "<t>", cases[k].text, strlen(cases[k].text) };
        shape_id s;
        size_t used;
        diag_clear(w->d);
        assert_false(shape_parse(w->c, &src, 0, src.text, src.len, &used, &s, w->d));
        assert_int_equal(w->d->msgs.n, 1);
        const struct diag_msg *m = &w->d->msgs.v[0];
        if (!strstr(m->text, cases[k].says))
            fail_msg("%s: %s", cases[k].text, m->text);
        if (m->column != cases[k].column)
            fail_msg("%s: column %d", cases[k].text, m->column);
        if (cases[k].hint) {
            assert_non_null(m->hint);
            assert_non_null(strstr(m->hint, cases[k].hint));
        }
        if (src.len && (size_t)cases[k].column <= src.len)
            assert_int_equal(m->caret_len, cases[k].len);
    }
}

static void test_too_many_dims(void **state)
{
    struct world *w = *state;
    struct str s = STR_IN(&w->a);
    for (int n = 64; n <= 65; n++) {
        s.n = 0;
        str_adds(&s, "f32[");
        for (int d = 0; d < n; d++)
            str_adds(&s, d ? ",1" : "1");
        str_addc(&s, ']');
        shape_id id;
        size_t used;
        assert_int_equal(read(w, str_text(&s), &id, &used), n == 64);
    }
    assert_says(w, "more than 64 dimensions");
}

static void test_interned(void **state)
{
    struct world *w = *state;
    assert_int_equal(shape(w, "f32[8,4]").i, shape(w, "f32[8, 4]").i);
    assert_int_not_equal(shape(w, "f32[8,4]").i, shape(w, "f32[8,4]{1,0}").i);
    assert_int_equal(shape_strip(w->c, shape(w, "f32[8,4]{1,0}")).i, shape(w, "f32[8,4]").i);
    assert_int_equal(shape_strip(w->c, shape(w, "((f32[8]{0}), s32[])")).i,
                     shape(w, "((f32[8]), s32[])").i);
    assert_true(shape_same(w->c, shape(w, "(f32[<=8]{0})"), shape(w, "(f32[8])")));
    assert_false(shape_same(w->c, shape(w, "(f32[8])"), shape(w, "(f16[8])")));
    assert_true(shape_same_dims(w->c, shape(w, "(f32[<=8]{0}, s8[])"), shape(w, "(u8[8], f64[])")));
    assert_false(shape_same_dims(w->c, shape(w, "(f32[8])"), shape(w, "f32[8]")));
    assert_false(shape_same_dims(w->c, shape(w, "f32[8]"), shape(w, "f32[8,1]")));
    assert_string_equal(shape_text(w, shape_with_dtype(w->c, shape(w, "(f32[2]{0}, (s8[], token[]))"),
                                                       DTYPE_BF16)),
                        "(bf16[2]{0}, (bf16[], token[]))");
    assert_int_equal(shape_token(w->c).i, shape(w, "token[]").i);
    assert_int_equal(shape_opaque(w->c, (name_id){ 0 }).i, shape(w, "opaque[]").i);
}

static void test_measures(void **state)
{
    struct world *w = *state;
    const struct shape *s = shape_get(w->c, shape(w, "f32[8,<=4]"));
    assert_int_equal(s->count, 32);
    assert_int_equal(s->bytes, 128);
    assert_int_equal(s->dynamic, 2);
    assert_int_equal(shape_get(w->c, shape(w, "s4[3]"))->bytes, 3);
    assert_int_equal(shape_get(w->c, shape(w, "c64[3]"))->bytes, 24);
    assert_int_equal(shape_get(w->c, shape(w, "f32[0,9000000000000000000]"))->bytes, 0);
    assert_int_equal(shape_get(w->c, shape(w, "(f32[2], (s8[3], token[]))"))->bytes, 11);
    int64_t large[2] = { INT64_MAX, 2 };
    assert_int_equal(shape_get(w->c, shape_array(w->c, DTYPE_F32, 2, large))->count, -1);
}

static void test_leaves(void **state)
{
    struct world *w = *state;
    shape_id t = shape(w, "((), f32[1], ((), (f32[2], f32[3]), ()), f32[4])");
    const struct shape *s = shape_get(w->c, t);
    assert_int_equal(s->nleaves, 4);
    static const int64_t offsets[] = { 0, 0, 1, 3 };
    for (int k = 0; k < 4; k++) {
        assert_int_equal(shape_leaf_offset(w->c, t, k), offsets[k]);
        assert_int_equal(shape_get(w->c, shape_leaf(w->c, t, k))->dims[0], k + 1);
    }
    assert_int_equal(shape_leaf(w->c, shape(w, "f32[5]"), 0).i, shape(w, "f32[5]").i);
    assert_int_equal(shape_get(w->c, shape(w, "((), ())"))->nleaves, 0);
}

/* 300,000 parentheses, and 20,000 elements: no recursion, no quadratic time. */
static void test_large(void **state)
{
    struct world *w = *state;
    enum { DEPTH = 300000, WIDTH = 20000 };
    char *deep = malloc(2 * DEPTH + 8);
    assert_non_null(deep);
    memset(deep, '(', DEPTH);
    memcpy(deep + DEPTH, "f32[2]", 6);
    memset(deep + DEPTH + 6, ')', DEPTH);
    shape_id s;
    size_t used;
    assert_true(shape_parse(w->c, NULL, 0, deep, 2 * DEPTH + 6, &used, &s, w->d));
    assert_int_equal(shape_get(w->c, s)->nleaves, 1);
    assert_int_equal(shape_leaf(w->c, s, 0).i, shape(w, "f32[2]").i);
    struct str out = STR_IN(&w->a);
    shape_print(w->c, s, true, &out);
    assert_int_equal(out.n, 2 * DEPTH + 6);
    assert_memory_equal(out.s, deep, out.n);
    assert_int_equal(shape_with_dtype(w->c, s, DTYPE_F32).i, s.i);
    free(deep);
    shape_id *elems = calloc(WIDTH, sizeof *elems);
    assert_non_null(elems);
    for (int k = 0; k < WIDTH; k++)
        elems[k] = shape(w, k % 2 ? "f32[2]{0}" : "s32[]");
    s = shape_tuple(w->c, WIDTH, elems);
    free(elems);
    out.n = 0;
    shape_print(w->c, s, true, &out);
    shape_id again;
    assert_true(shape_parse(w->c, NULL, 0, out.s, out.n, &used, &again, w->d));
    assert_int_equal(again.i, s.i);
    assert_int_equal(shape_leaf(w->c, s, WIDTH - 1).i, shape(w, "f32[2]{0}").i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spellings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_dims, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_measures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
