/* Odd input of both text forms: what is taken, and what is refused with its line and reason. Each text was
 * put to XLA's and MLIR's own parsers, too; where they differ from us a comment says so. */
#include "text_help.h"

struct wrong {
    const char *line;  /* stands on line 4 of the text */
    const char *words; /* of the first message */
    const char *hint;  /* NULL: any */
};

static void load(struct fixture *f, const char *name, const char *text)
{
    start(f);
    f->m = module_load_text(f->c, name, text, strlen(text), NULL, f->d);
}

static void expect_error(struct fixture *f, const char *what, int line, const char *words, const char *hint)
{
    if (f->m || f->d->msgs.n < 1)
        fail_msg("'%s' is taken, expected '%s'", what, words);
    const struct diag_msg *m = NULL;
    for (int64_t i = 0; i < f->d->msgs.n && !m; i++)
        if (f->d->msgs.v[i].severity == DIAG_ERROR)
            m = &f->d->msgs.v[i];
    if (!m || !strstr(m->text, words) || m->line != line || (hint && (!m->hint || !strstr(m->hint, hint))))
        fail_msg("%s: expected '%s' on line %d, got\n%s", what, words, line, messages(f));
}

/* ---- HLO ------------------------------------------------------------------------------------- */

static const char *hlo(struct arena *a, const char *header, const char *line)
{
    return arena_printf(a, "HloModule m%s\nENTRY e {\n  x = f32[4,8] parameter(0)\n  %s\n}\n", header, line);
}

static void hlo_refused(const struct wrong *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.hlo", hlo(&a, ", num_partitions=2", w[i].line));
        expect_error(&f, w[i].line, 4, w[i].words, w[i].hint);
        arena_free(&a);
        stop(&f);
    }
}

static void hlo_taken(const char *const *lines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.hlo", hlo(&a, ", num_partitions=2", lines[i]));
        if (!f.m)
            fail_msg("'%s' is refused:\n%s", lines[i], messages(&f));
        struct str out = STR_IN(&a);
        assert_true(hlo_print(f.m, NULL, &out));
        struct module *again = module_load_text(f.c, "again.hlo", out.s, out.n, NULL, f.d);
        assert_non_null(again);
        assert_true(module_equal(f.m, again));
        module_free(again);
        arena_free(&a);
        stop(&f);
    }
}

static void numbers_must_fit(void **state)
{
    (void)state;
    static const struct wrong w[] = {
        { "ROOT c = f32[] constant(1e39)", "1e39 does not fit in f32", NULL },
        { "ROOT c = f32[] constant(-3.5e38)", "does not fit in f32", NULL },
        { "ROOT c = f64[] constant(1e309)", "does not fit in f64", NULL },
        { "ROOT c = bf16[] constant(3.5e38)", "does not fit in bf16", NULL },
        { "ROOT c = f16[] constant(70000)", "70000 does not fit in f16", NULL },
        { "ROOT c = f8e5m2[] constant(100000)", "does not fit in f8e5m2", NULL },
        { "ROOT c = f8e4m3fn[] constant(1000)", "does not fit in f8e4m3fn", NULL },
        { "ROOT c = c64[] constant((1, 1e39))", "does not fit in c64", NULL },
        { "ROOT c = s4[2] constant({7, 8})", "8 does not fit in s4", NULL },
        { "ROOT c = u64[] constant(18446744073709551616)", "does not fit in u64", NULL },
        { "ROOT c = pred[] constant(0.5)", "expected true or false", NULL },
    };
    hlo_refused(w, COUNTOF(w));
    static const char *const taken[] = {
        "ROOT c = f32[] constant(-inf)", "ROOT c = f32[4] constant({nan, -nan, inf, 1e-400})",
        "ROOT c = f32[] constant(nan(0x7f0001))", "ROOT c = f8e4m3fn[2] constant({448, nan})",
        "ROOT c = pred[3] constant({2, -1, 0})", "ROOT c = u64[] constant(18446744073709551615)",
        "ROOT c = c64[2,2] constant({ {(1,2),(3,4)}, {(-0,nan),(inf,-inf)} })",
        "ROOT c = f32[2,0] constant({ {}, {} })", "ROOT c = (f32[2], s32[]) constant(({1,2}, 3))",
    };
    hlo_taken(taken, COUNTOF(taken));
}

static void any_number_but_nought_is_true(void **state)
{
    (void)state;
    struct fixture f;
    load(&f, "t.hlo", "HloModule m\nENTRY e {\n  ROOT c = pred[4] constant({2, -1, 00, 1})\n}\n");
    assert_non_null(f.m);
    const struct literal *l = instr_at(f.m, comp_at(f.m, f.m->entry)->root)->literal;
    for (int i = 0; i < 4; i++)
        assert_int_equal(literal_get_i(f.m, l, i), i != 2);
    stop(&f);
}

static void words_are_known(void **state)
{
    (void)state;
    static const struct wrong w[] = {
        { "ROOT d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
          "operand_precision={higest,default}", "no such operand_precision: 'higest'", "highest" },
        { "ROOT d = pred[4,8] compare(x, x), direction=LT, type=BLAH", "no such type: 'BLAH'", NULL },
        { "ROOT d = f32[4,8] custom-call(x), custom_call_target=\"f\", schedule=SCHEDULE_LAST",
          "no such schedule", NULL },
        { "ROOT d = f32[4,8] custom-call(x), custom_call_target=\"f\", api_version=API_VERSION_TYPED_FII",
          "no such api_version", "API_VERSION_TYPED_FFI" },
        { "ROOT d = f32[4,8] negate(x), sharding={unreducd}", "no such item in a sharding", NULL },
    };
    hlo_refused(w, COUNTOF(w));
    static const char *const taken[] = {
        "ROOT d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={HIGH,default}",
        "ROOT d = f32[4,8] custom-call(x), custom_call_target=\"f\", api_version=API_VERSION_OF_2030",
        "ROOT d = f32[4,8] negate(x), new_attribute={1,2}, other=\"}\", flag=true",
        "ROOT d = f32[4,8] negate(x), frontend_attributes={a=\"1\",b={c=\"}\"}}, origin={{\"x\"}}",
        "ROOT d = f32[4,8] custom-call(x), custom_call_target=\"f\", backend_config={\"a\":{\"b\":[1,2]},\"c\":\"x}y\"}",
    };
    hlo_taken(taken, COUNTOF(taken));
}

static void types_of_operands_are_those_of_their_definition(void **state)
{
    (void)state;
    static const struct wrong w[] = {
        { "ROOT d = f32[4,8] negate(f32[8,4]{1,0} x)", "'x' is a f32[4,8] where it is defined, not a f32[8,4]", NULL },
        { "ROOT d = f32[4,8] add(f32[4,8] x, f16[4,8] x)", "not a f16[4,8]", NULL },
    };
    hlo_refused(w, COUNTOF(w));
    static const char *const taken[] = { "ROOT d = f32[4,8]{0,1} negate(f32[4,8]{0,1} %x)" };
    hlo_taken(taken, COUNTOF(taken));
}

static void an_open_brace_is_found_where_it_opens(void **state)
{
    (void)state;
    static const struct wrong w[] = {
        { "ROOT d = f32[4,8] negate(x), sharding={devices=[2,1]0,1", "this '{' is never closed", NULL },
        { "ROOT d = f32[4,8] negate(x), backend_config={\"a\":{\"b\":1}", "this '{' is never closed", NULL },
        { "ROOT d = f32[4,8] negate(x), metadata={op_name=\"a\"", "this '{' is never closed", NULL },
    };
    hlo_refused(w, COUNTOF(w));
}

static void sums_still_owed_count_as_copies(void **state)
{
    (void)state;
    static const char *const taken[] = {
        "ROOT d = f32[4,8] negate(x), sharding={unreduced}",
        "ROOT d = f32[4,8] negate(x), sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}",
        "ROOT d = f32[4,8] negate(x), sharding={mesh['a'=2], [{}, {}], unreduced={'a'}}",
        "ROOT d = f32[4,8] negate(x), sharding={mesh['a'=2], [{}, {}], unreduced=max{'a'}}",
    };
    hlo_taken(taken, COUNTOF(taken));
    for (size_t i = 0; i < COUNTOF(taken); i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.hlo", hlo(&a, ", num_partitions=2", taken[i]));
        sharding_id s = instr_at(f.m, comp_at(f.m, f.m->entry)->root)->sharding;
        assert_true(sharding_get(f.c->shardings, s)->kind == SHARDING_REPLICATED ||
                    s.i == sharding_replicated(f.c->shardings).i);
        assert_non_null(strstr(messages(&f), "still owed"));
        arena_free(&a);
        stop(&f);
    }
    static const struct wrong w[] = { { "ROOT d = f32[4,8] negate(x), sharding={mesh['a'=2], [{'a'}, {}], unreduced={'a'}}",
                                        "used twice", NULL } };
    hlo_refused(w, COUNTOF(w));
}

static void the_header_fits_the_entry(void **state)
{
    (void)state;
    static const struct {
        const char *header, *words;
        bool error;
    } cases[] = {
        { "input_output_alias={ {}: (0, {}, may-alias) }", NULL, false },
        { "input_output_alias={ {2}: (0, {}, may-alias) }", "it has no element {2}", true },
        { "input_output_alias={ {}: (3, {}, may-alias) }", "has no parameter 3", true },
        { "input_output_alias={ {}: (0, {1}, may-alias) }", "parameter 0 is a f32[4,8]: it has no element {1}", true },
        { "input_output_alias={ {}: (zero, {}, may-alias) }", "expected a parameter's number", true },
        { "input_output_alias={ {}: (0, {}, could-alias) }", "expected may-alias or must-alias", true },
        { "buffer_donor={ (0, {}) }", NULL, false },
        { "buffer_donor={ (5, {}) }", "has no parameter 5", true },
        { "entry_computation_layout={(f32[4,8]{1,0})->f32[4,8]{1,0}}", NULL, false },
        { "entry_computation_layout={(f32[4,9]{1,0})->f32[4,8]{1,0}}", "parameter 0 is a f32[4,9], but it is a f32[4,8]", false },
        { "entry_computation_layout={(f32[4,8]{1,0})->f32[8]{0}}", "the result is a f32[8]", false },
        { "entry_computation_layout={()->f32[4,8]{1,0}}", "shapes of 0 parameters", false },
        { "entry_computation_layout={hello}", "expected '('", true },
        { "num_partitions=2, num_partitions=4", "given twice", true },
        { "num_partition=2", "no such attribute of a module", true },
        { "num_partitions=2, wholly_new=1", NULL, false },
        { "allow_spmd_sharding_propagation_to_parameters={true,false}", "2 flags for 1 parameters", false },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.hlo", hlo(&a, arena_printf(&a, ", %s", cases[i].header), "ROOT y = f32[4,8] negate(x)"));
        if (cases[i].error)
            expect_error(&f, cases[i].header, 1, cases[i].words, NULL);
        else if (!f.m || (f.d->msgs.n != 0) != (cases[i].words != NULL) ||
                 (cases[i].words && !strstr(messages(&f), cases[i].words)))
            fail_msg("%s: expected %s, got\n%s", cases[i].header, cases[i].words ? cases[i].words : "nothing", messages(&f));
        arena_free(&a);
        stop(&f);
    }
}

static void aliases_of_a_tuple(void **state)
{
    (void)state;
    static const char body[] = "\nENTRY e {\n  x = f32[4,8] parameter(0)\n  ROOT t = (f32[4,8], f32[4,8]) tuple(x, x)\n}\n";
    for (int k = 0; k < 4; k++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.hlo", arena_printf(&a, "HloModule m, input_output_alias={ {%d}: (0, {}, must-alias) }%s", k, body));
        assert_true((f.m != NULL) == (k < 2));
        arena_free(&a);
        stop(&f);
    }
}

/* What instructions have in common is kept once; nothing is mixed up. */
static void what_is_shared_is_the_same(void **state)
{
    (void)state;
    static const char *const taken[] = {
        "c = s32[] constant(1)\n  d = f32[] constant(1)\n  ROOT t = (s32[], f32[]) tuple(c, d)",
        "c = s32[2] constant({...})\n  d = f32[] constant(1)\n  ROOT t = (s32[2], f32[]) tuple(c, d)",
    };
    hlo_taken(taken, COUNTOF(taken));
    struct fixture f;
    start(&f);
    struct str s = STR_IN(&f.a);
    str_adds(&s, "HloModule m\n\nENTRY e {\n  x = f32[3000] parameter(0)\n");
    for (int k = 0; k < 2500; k++)
        str_addf(&s, "  %ss%d = f32[1] slice(x), slice={[%d:%d]}\n", k == 2499 ? "ROOT " : "", k, k, k + 1);
    str_adds(&s, "}\n\n");
    f.m = module_load_text(f.c, "t.hlo", s.s, s.n, NULL, f.d);
    if (!f.m)
        fail_msg("%s", messages(&f));
    assert_string_equal(printed(&f, f.m, NULL), str_text(&s));
    stop(&f);
}

static void what_stands_between_computations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *words;
    } cases[] = {
        { "HloModule m\nENTRY e {\n  ROOT p = f32[4] parameter(0)\n}\nxyz\n", 5, "expected '{', where" },
        { "HloModule m\nENTRY e {\n  ROOT p = f32[4] parameter(0)\n}\nHloModule n\n", 5, "a second HloModule" },
        { "ROOT p = f32[4] parameter(0)\n", 1, "expected '{' or a signature" },
        { "p = f32[4] parameter(0)\n", 1, "an instruction outside of a computation" },
        { "HloModule m\n/* a /* b */ c */\nENTRY e {\n  ROOT p = f32[4] parameter(0)\n}\n", 2, "expected '{' or a signature" },
        { "HloModule m\nENTRY e (p: f32[4]) -> f32[5] {\n  ROOT p = f32[4] parameter(0)\n}\n", 2, "said to return a f32[5], but its root is a f32[4]" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        load(&f, "t.hlo", cases[i].text);
        expect_error(&f, cases[i].text, cases[i].line, cases[i].words, NULL);
        stop(&f);
    }
    static const char nul[] = "HloModule m\nENTRY e {\n  // a \0 b\n  ROOT p = f32[4] parameter(0)\n}\n";
    struct fixture f;
    start(&f);
    f.m = module_load_text(f.c, "t.hlo", nul, sizeof nul - 1, NULL, f.d);
    expect_error(&f, "NUL in a comment", 3, "NUL byte", NULL);
    stop(&f);
}

/* ---- StableHLO ---------------------------------------------------------------------------------- */

static const char *stablehlo(struct arena *a, const char *line)
{
    return arena_printf(a, "module @m {\n  func.func public @main(%%x: tensor<4x8xf32>, %%c: tensor<f32>, %%i: tensor<i32>) -> "
                           "tensor<4x8xf32> {\n    %%n = stablehlo.negate %%x : tensor<4x8xf32>\n    %s\n    return %%n : "
                           "tensor<4x8xf32>\n  }\n}\n", line);
}

static void operations_that_nothing_uses_are_checked(void **state)
{
    (void)state;
#define X "tensor<4x8xf32>"
    static const struct wrong w[] = {
        { "%0 = \"stablehlo.add\"(%x, %x) : (" X ", " X ") -> tensor<4x9xf32>", "given as f32[4,9], but it makes f32[4,8]", NULL },
        { "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (" X ", " X ") -> " X, "8 and 4", NULL },
        { "%0 = stablehlo.reshape %x : (" X ") -> tensor<31xf32>", "the 32 elements", NULL },
        { "%0 = stablehlo.transpose %x, dims = [0, 0] : (" X ") -> tensor<8x4xf32>", "names dimension 0 twice", NULL },
        { "%0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (" X ") -> " X, "names dimension 2", NULL },
        { "%0 = stablehlo.slice %x [0:5, 0:8] : (" X ") -> tensor<5x8xf32>", "no part of dimension 0", NULL },
        { "%0 = stablehlo.concatenate %x, %x, dim = 0 : (" X ", " X ") -> tensor<9x8xf32>", "makes f32[8,8]", NULL },
        { "%0 = stablehlo.compare LT, %x, %x, FLOAT : (" X ", " X ") -> " X, "makes pred[4,8]", NULL },
        { "%0 = stablehlo.select %x, %x, %x : " X ", " X, "operand 0 must be pred", NULL },
        { "%0 = stablehlo.iota dim = 2 : tensor<4x8xi32>", "no dimension 2", NULL },
        { "%0 = stablehlo.pad %x, %c, low = [0, 0], high = [1, 1], interior = [0, 0] : (" X ", tensor<f32>) -> " X, "makes f32[5,9]", NULL },
        { "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1] : (" X ", tensor<f32>) -> tensor<8xf32>", "makes f32[4]", NULL },
        { "%0 = stablehlo.dynamic_slice %x, %i, sizes = [2, 2] : (" X ", tensor<i32>) -> tensor<2x2xf32>", "1 start indices", NULL },
        { "%0 = stablehlo.and %x, %x : " X, "must have pred or an integer type", NULL },
        { "%0 = stablehlo.cholesky %x, lower = true : " X, "square matrices", NULL },
        { "%0 = stablehlo.get_tuple_element %x[0] : (" X ") -> tensor<f32>", "must be a tuple", NULL },
        { "%0 = stablehlo.reverse %x, dims = [3] : " X, "names dimension 3", NULL },
        { "%0 = stablehlo.constant dense<300> : tensor<2xi8>", "300 does not fit in s8", NULL },
        { "%0 = stablehlo.constant dense<-1> : tensor<2xui8>", "-1 does not fit in u8", NULL },
        { "%0 = stablehlo.addd %x, %x : " X, "no such operation", NULL },
        { "cf.br ^bb1", "control flow between blocks", NULL },
    };
    for (size_t i = 0; i < COUNTOF(w); i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.mlir", stablehlo(&a, w[i].line));
        expect_error(&f, w[i].line, 4, w[i].words, w[i].hint);
        arena_free(&a);
        stop(&f);
    }
}

static void regions_that_nothing_uses_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *words;
    } cases[] = {
        { "%0 = stablehlo.while(%a = %i) : tensor<i32> cond {\n      stablehlo.return %a : tensor<i32>\n    } do {\n"
          "      stablehlo.return %a : tensor<i32>\n    }", 5, "one tensor<i1>" },
        { "%0 = \"stablehlo.sort\"(%x) <{dimension = 2 : i64}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
          "      %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
          "      stablehlo.return %l : tensor<i1>\n    }) : (" X ") -> " X, 4, "names dimension 2" },
        { "%0 = \"stablehlo.sort\"(%x) <{dimension = 1 : i64}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
          "      %l = \"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<4xf32>\n"
          "      %m = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
          "      stablehlo.return %m : tensor<i1>\n    }) : (" X ") -> " X, 6, "makes f32[]" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        struct arena a = { 0 };
        load(&f, "t.mlir", stablehlo(&a, cases[i].text));
        expect_error(&f, cases[i].text, cases[i].line, cases[i].words, NULL);
        arena_free(&a);
        stop(&f);
    }
}

static void shardy_is_checked(void **state)
{
    (void)state;
#define MESH "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>"
#define MANUAL(axes, type)                                                                                       \
    "module {\n  " MESH "\n  func.func @main(%x: " X ") -> " X " {\n    %0 = sdy.manual_computation(%x) "         \
    "in_shardings=[<@mesh, [{\"x\"}, {}]>] out_shardings=[<@mesh, [{\"x\"}, {}]>] manual_axes={\"" axes "\"} (%a: " type \
    ") {\n      sdy.return %a : " type "\n    } : (" X ") -> " X "\n    return %0 : " X "\n  }\n}\n"
    static const struct {
        const char *text;
        int line;
        const char *words;
    } cases[] = {
        { MANUAL("x", "tensor<2x8xf32>"), 0, NULL },
        { MANUAL("x", "tensor<3x8xf32>"), 4, "split over the manual axes is no tensor<3x8xf32>" },
        { MANUAL("y", "tensor<2x8xf32>"), 4, "split over the manual axes is no tensor<2x8xf32>" },
        { "module {\n  " MESH "\n  " MESH "\n  func.func @main(%x: " X ") -> " X " {\n    return %x : " X "\n  }\n}\n", 3, "defined twice" },
        { "module {\n  " MESH "\n  func.func @main(%x: " X ") -> " X " {\n    %0 = stablehlo.add %x, %x {sdy.sharding = "
          "#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>, <@mesh, [{}, {}]>]>} : " X "\n    return %0 : " X "\n  }\n}\n",
          4, "2 shardings for 1 result" },
        { "module {\n  func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {\n    return %x : tensor<*xf32>\n  }\n}\n", 2, "unknown rank" },
        { "module {\n  func.func @main(%x: tensor< 4 x 8 x f32 >) -> " X " {\n    return %x : " X "\n  }\n}\n", 0, NULL },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        load(&f, "t.mlir", cases[i].text);
        if (cases[i].words)
            expect_error(&f, cases[i].text, cases[i].line, cases[i].words, NULL);
        else if (!f.m)
            fail_msg("%s is refused:\n%s", cases[i].text, messages(&f));
        stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_must_fit),
        cmocka_unit_test(any_number_but_nought_is_true),
        cmocka_unit_test(words_are_known),
        cmocka_unit_test(types_of_operands_are_those_of_their_definition),
        cmocka_unit_test(an_open_brace_is_found_where_it_opens),
        cmocka_unit_test(sums_still_owed_count_as_copies),
        cmocka_unit_test(the_header_fits_the_entry),
        cmocka_unit_test(aliases_of_a_tuple),
        cmocka_unit_test(what_is_shared_is_the_same),
        cmocka_unit_test(what_stands_between_computations),
        cmocka_unit_test(operations_that_nothing_uses_are_checked),
        cmocka_unit_test(regions_that_nothing_uses_are_checked),
        cmocka_unit_test(shardy_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
