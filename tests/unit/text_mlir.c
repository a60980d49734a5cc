/* StableHLO text: what each construct becomes in HLO, and where refusals point. */
#include "text_help.h"

static struct module *read_mlir(struct fixture *f, const char *text)
{
    f->m = mlir_read(f->c, source_of("t.mlir", text, strlen(text)), NULL, f->d);
    if (f->m && !module_verify(f->m, f->d)) {
        module_free(f->m);
        f->m = NULL;
    }
    return f->m;
}

/* The text read, printed as HLO, contains each of the lines. */
static void becomes_(const char *file, int line, const char *text, const char *const *want)
{
    struct fixture f;
    start(&f);
    if (!read_mlir(&f, text)) {
        print_error("%s", messages(&f));
        _fail(file, line);
    }
    const char *out = printed(&f, f.m, NULL);
    for (; *want; want++)
        if (!strstr(out, *want)) {
            print_error("not found: %s\nin:\n%s", *want, out);
            _fail(file, line);
        }
    stop(&f);
}
#define BECOMES(text, ...) becomes_(__FILE__, __LINE__, text, (const char *const[]){ __VA_ARGS__, NULL })

static void refused_(const char *file, int line, const char *text, int at_line, int at_column, const char *say)
{
    struct fixture f;
    start(&f);
    if (read_mlir(&f, text)) {
        print_error("accepted: %s\n", text);
        _fail(file, line);
    }
    const struct diag_msg *m = NULL;
    for (int64_t i = 0; i < f.d->msgs.n && !m; i++)
        if (f.d->msgs.v[i].severity == DIAG_ERROR)
            m = &f.d->msgs.v[i];
    if (!m || !strstr(m->text, say) || m->line != at_line || m->column != at_column) {
        print_error("expected %d:%d: %s, got %s", at_line, at_column, say, messages(&f));
        _fail(file, line);
    }
    stop(&f);
}
#define REFUSED(text, l, c, say) refused_(__FILE__, __LINE__, text, l, c, say)

static void elementwise_and_shapes(void **state)
{
    (void)state;
    BECOMES("func.func @main(%x: tensor<4x1xf32>, %y: tensor<4x8xf32>) -> tensor<8x4xf32> {\n"
            "  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>\n"
            "  %1 = stablehlo.add %0, %y : tensor<4x8xf32>\n"
            "  %2 = stablehlo.compare  GT, %1, %y,  TOTALORDER : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>\n"
            "  %3 = stablehlo.select %2, %1, %y : tensor<4x8xi1>, tensor<4x8xf32>\n"
            "  %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>\n"
            "  %5 = stablehlo.slice %4 [2:8:2, 0:4] : (tensor<8x4xf32>) -> tensor<3x4xf32>\n"
            "  %c = stablehlo.constant dense<0.5> : tensor<f32>\n"
            "  %6 = stablehlo.pad %5, %c, low = [1, 0], high = [2, 0], interior = [1, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<8x4xf32>\n"
            "  return %6 : tensor<8x4xf32>\n}\n",
            "f32[4,1] broadcast(x), dimensions={0,1}", "f32[4] reshape(", "f32[4,8] broadcast(reshape), dimensions={0}",
            "compare.2 = pred[4,8] compare(add.1, y), direction=GT, type=TOTALORDER",
            "slice={[2:8:2], [0:4:1]}", "padding=1_2_1x0_0_0", "c = f32[] constant(0.5)");
}

static void generic_form(void **state)
{
    (void)state;
    BECOMES("\"builtin.module\"() <{sym_name = \"g\"}> ({\n"
            "  \"func.func\"() <{function_type = (tensor<2x3xi32>) -> tensor<3x2xi32>, sym_name = \"main\"}> ({\n"
            "  ^bb0(%arg0: tensor<2x3xi32>):\n"
            "    %0 = \"stablehlo.transpose\"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xi32>) -> tensor<3x2xi32>\n"
            "    \"func.return\"(%0) : (tensor<3x2xi32>) -> ()\n"
            "  }) : () -> ()\n}) {mhlo.num_partitions = 4 : i32} : () -> ()\n",
            "HloModule g", "num_partitions=4", "ROOT transpose.0 = s32[3,2] transpose(arg0), dimensions={1,0}");
}

static void regions(void **state)
{
    (void)state;
    /* w is carried unchanged: captured, so it stands behind what the loop carries itself. */
    BECOMES("func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %c = stablehlo.constant dense<0> : tensor<i32>\n"
            "  %0:3 = stablehlo.while(%a = %w, %b = %x, %i = %c) : tensor<4xf32>, tensor<4xf32>, tensor<i32>\n"
            "   cond {\n"
            "    %n = stablehlo.constant dense<5> : tensor<i32>\n"
            "    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "    stablehlo.return %1 : tensor<i1>\n"
            "  } do {\n"
            "    %1 = stablehlo.multiply %b, %a : tensor<4xf32>\n"
            "    %n = stablehlo.constant dense<1> : tensor<i32>\n"
            "    %2 = stablehlo.add %i, %n : tensor<i32>\n"
            "    stablehlo.return %a, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<i32>\n"
            "  }\n"
            "  return %0#1 : tensor<4xf32>\n}\n",
            "tuple(x, c, w)", "condition=cond_", "body=body_", "ROOT get-tuple-element");
    BECOMES("func.func @main(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %0 = \"stablehlo.if\"(%p) ({\n    %1 = stablehlo.add %x, %y : tensor<4xf32>\n"
            "    stablehlo.return %1 : tensor<4xf32>\n  }, {\n    stablehlo.return %y : tensor<4xf32>\n"
            "  }) : (tensor<i1>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n",
            "conditional(p, tuple, y), true_computation=branch_0, false_computation=branch_1");
    BECOMES("func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {\n"
            "  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
            "  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n",
            "constant(-inf)", "reduce(x, c), dimensions={1}, to_apply=reducer_0", "ROOT maximum");
}

static void constants(void **state)
{
    (void)state;
    BECOMES("func.func @main() -> (tensor<2xf32>, tensor<2x2xi8>, tensor<3xi1>, tensor<2xcomplex<f32>>, tensor<2xf32>) {\n"
            "  %a = stablehlo.constant dense<\"0x0000C03F000080FF\"> : tensor<2xf32>\n"
            "  %b = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>\n"
            "  %c = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>\n"
            "  %d = stablehlo.constant dense<[(1.0, -2.0), (0.5, 0.0)]> : tensor<2xcomplex<f32>>\n"
            "  %e = stablehlo.constant dense_resource<__elided__> : tensor<2xf32>\n"
            "  return %a, %b, %c, %d, %e : tensor<2xf32>, tensor<2x2xi8>, tensor<3xi1>, tensor<2xcomplex<f32>>, tensor<2xf32>\n}\n",
            "a = f32[2] constant({1.5, -inf})", "b = s8[2,2] constant({ { 1, -2 }, { 3, 4 } })",
            "c = pred[3] constant({1, 0, 1})", "d = c64[2] constant({(1, -2), (0.5, 0)})", "e = f32[2] constant({...})");
}

static void shardings(void **state)
{
    (void)state;
    BECOMES("module @m attributes {mhlo.num_partitions = 4 : i32} {\n"
            "func.func @main(%x: tensor<8x4xf32> {mhlo.sharding = \"{devices=[2,2]<=[4]}\"}, %y: tensor<4xf32>) -> (tensor<8x4xf32> {mhlo.sharding = \"{replicated}\"}) {\n"
            "  %0 = stablehlo.custom_call @Sharding(%x) {backend_config = \"unspecified_dims=[1]\", mhlo.sharding = \"{devices=[4,1]<=[4]}\"} : (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
            "  return %0 : tensor<8x4xf32>\n}\n}\n",
            "allow_spmd_sharding_propagation_to_parameters={false,true}", "allow_spmd_sharding_propagation_to_output={false}",
            "x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]}",
            "custom_call_target=\"Sharding\", sharding={devices=[4,1]<=[4]}, backend_config=\"unspecified_dims=[1]\"",
            "ROOT reshape = f32[8,4] reshape(custom-call.0), sharding={replicated}");
    BECOMES("sdy.mesh @m = <[\"a\"=2, \"b\"=4]>\n"
            "func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{\"b\"}, {\"a\", ?}]>}, %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {?}]>}) -> tensor<8x16xf32> {\n"
            "  %0 = sdy.sharding_constraint %x <@m, [{\"b\":(1)2}, {?}], replicated={\"a\"}> : tensor<8x16xf32>\n"
            "  return %0 : tensor<8x16xf32>\n}\n",
            "num_partitions=8", "allow_spmd_sharding_propagation_to_parameters={true,true}",
            "x = f32[8,16] parameter(0), sharding={devices=[4,2]<=[2,4]T(1,0)}", "y = f32[8,16] parameter(1)\n",
            "custom_call_target=\"Sharding\", sharding={devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}, "
            "backend_config=\"unspecified_dims=[1]\"");
    BECOMES("sdy.mesh @m = <[\"a\"=2, \"b\"=4]>\n"
            "func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {\n"
            "  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{\"a\"}, {}]>] out_shardings=[<@m, [{\"a\"}, {}]>] manual_axes={\"a\"} (%l: tensor<4x16xf32>) {\n"
            "    %1 = stablehlo.sine %l : tensor<4x16xf32>\n"
            "    sdy.return %1 : tensor<4x16xf32>\n"
            "  } : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
            "  return %0 : tensor<8x16xf32>\n}\n",
            "custom_call_target=\"SPMDFullToShardShape\", sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
            "sine.1 = f32[4,16] sine(",
            "f32[8,16] custom-call(custom-call.2), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}");
}

static void locations(void **state)
{
    (void)state;
    BECOMES("#loc1 = loc(\"ps['w']\")\n"
            "func.func @main(%x: tensor<4xf32> loc(\"ps['w']\")) -> tensor<4xf32> {\n"
            "  %0 = stablehlo.sine %x : tensor<4xf32> loc(#loc4)\n"
            "  return %0 : tensor<4xf32>\n}\n"
            "#loc2 = loc(\"f.py\":7:3 to :9)\n#loc3 = loc(\"fn\"(#loc2))\n#loc4 = loc(\"jit(f)/sin\"(callsite(#loc3 at #loc2)))\n",
            "metadata={op_name=\"ps[\\'w\\']\"}", "metadata={op_name=\"jit(f)/sin\" source_file=\"f.py\" source_line=7}");
}

static void unknown_operations(void **state)
{
    (void)state;
    BECOMES("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %0 = \"my.op\"(%x) {my.note = \"hello\"} : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  %1 = chlo.erf %0 : tensor<4xf32> -> tensor<4xf32>\n"
            "  return %1 : tensor<4xf32>\n}\n",
            "custom_call_target=\"my.op\"", "my.note=\"hello\"", "erf.1 = f32[4] erf(");
}

static void refusals(void **state)
{
    (void)state;
    REFUSED("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.sine %z : tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n", 2, 23, "'%z' is not defined");
    REFUSED("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.sinus %x : tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n", 2, 8, "no such operation");
    REFUSED("func.func @main(%x: tensor<?x4xf32>) -> tensor<4xf32> {\n}\n", 1, 28, "not known");
    REFUSED("func.func @main(%x: tensor<4xf33>) -> tensor<4xf32> {\n}\n", 1, 30, "no such element type");
    REFUSED("sdy.mesh @m = <[\"a\"=2]>\nfunc.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"a\"}, {\"a\"}]>}) "
            "-> tensor<4x4xf32> {\n  return %x : tensor<4x4xf32>\n}\n", 2, 80, "used twice");
    REFUSED("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n", 2, 4, "no function");
    REFUSED("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.sine %x : tensor<4xf32>\n", 1, 53,
            "never closed");
    REFUSED("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : "
            "tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n", 2, 44, "elements");
    REFUSED("func.func @f(%x: tensor<f32>) -> tensor<f32> {\n  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>\n"
            "  return %0 : tensor<f32>\n}\n", 2, 4, "calls itself");
}

/* Regions nested 30,000 deep must end in a module or a message. */
static void deep_nesting(void **state)
{
    (void)state;
    enum { DEPTH = 30000 };
    struct fixture f;
    start(&f);
    struct str s = STR_IN(&f.a);
    str_adds(&s, "func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {\n");
    for (int i = 0; i < DEPTH; i++)
        str_addf(&s, "%%a%d = \"stablehlo.if\"(%%p) ({\n", i);
    str_adds(&s, "stablehlo.return %x : tensor<f32>\n");
    for (int i = DEPTH - 1; i >= 0; i--)
        str_addf(&s, "}, {\nstablehlo.return %%x : tensor<f32>\n}) : (tensor<i1>) -> tensor<f32>\n%s %%a%d : tensor<f32>\n",
                 i ? "stablehlo.return" : "return", i);
    str_adds(&s, "}\n");
    f.m = mlir_read(f.c, source_of("deep.mlir", str_text(&s), s.n), NULL, f.d);
    if (!f.m)
        fail_msg("%s", messages(&f));
    assert_int_equal(module_ncomps(f.m), 2 * DEPTH + 1);
    stop(&f);
}

/* What was read prints as StableHLO that reads back as the same instructions. */
static void prints_back(void **state)
{
    (void)state;
    static const char text[] =
        "module @m attributes {mhlo.num_partitions = 4 : i32} {\n"
        "func.func @main(%p: tensor<i32>, %x: tensor<8x1xf32> {mhlo.sharding = \"{devices=[4,1]<=[4]}\"} loc(\"x\"), %y: tensor<8x4xf32>) -> "
        "(tensor<8x4xf32> {mhlo.sharding = \"{replicated}\"}, tensor<8x2xf32>) {\n"
        "  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x4xf32>\n"
        "  %1 = \"stablehlo.case\"(%p) ({\n    %3 = stablehlo.add %0, %y : tensor<8x4xf32>\n"
        "    stablehlo.return %3 : tensor<8x4xf32>\n  }, {\n    %3 = func.call @f(%y) : (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
        "    stablehlo.return %3 : tensor<8x4xf32>\n  }) : (tensor<i32>) -> tensor<8x4xf32>\n"
        "  %values, %indices = chlo.top_k(%1, k = 2) : tensor<8x4xf32> -> (tensor<8x2xf32>, tensor<8x2xi32>)\n"
        "  return %1, %values : tensor<8x4xf32>, tensor<8x2xf32>\n}\n"
        "func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {\n"
        "  %c = stablehlo.constant dense<0.1> : tensor<f32>\n"
        "  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8x4xf32>\n"
        "  %1 = stablehlo.multiply %x, %0 : tensor<8x4xf32>\n  return %1 : tensor<8x4xf32>\n}\n}\n";
    struct fixture f, g;
    start(&f);
    start(&g);
    if (!read_mlir(&f, text))
        fail_msg("%s", messages(&f));
    struct str out = STR_IN(&f.a);
    assert_true(mlir_print(f.m, NULL, &out, f.d));
    assert_non_null(strstr(str_text(&out), "mhlo.sharding = \"{devices=[4,1]<=[4]}\"} loc(\"x\")"));
    assert_non_null(strstr(str_text(&out), "\"stablehlo.case\"("));
    if (!read_mlir(&g, str_text(&out)))
        fail_msg("%s\n%s", messages(&g), str_text(&out));
    assert_int_equal(module_ncomps(f.m), module_ncomps(g.m));
    int64_t count[OP_COUNT] = { 0 };
    for (uint32_t i = 1; i <= module_ninstrs(f.m); i++)
        count[instr_at(f.m, (instr_id){ i })->op]++;
    for (uint32_t i = 1; i <= module_ninstrs(g.m); i++)
        count[instr_at(g.m, (instr_id){ i })->op]--;
    for (int op = 0; op < OP_COUNT; op++)
        assert_int_equal(count[op], 0);
    stop(&f);
    stop(&g);
}

/* What GSPMD has no words for stays with the value, and comes back from both texts; so do open dimensions
 * of the boundary, and the name of an entry that is no @main. */
static void keeps_shardys_words(void **state)
{
    (void)state;
    static const char text[] =
        "sdy.mesh @m = <[\"a\"=2, \"b\"=2], device_ids=[1, 0, 2, 3]>\n"
        "func.func @f(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"a\", ?}p1, {}]>}, %y: tensor<8x4xf32>) -> "
        "(tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"b\"}p2, {}]>}) {\n"
        "  %1 = stablehlo.add %x, %y {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}], unreduced={\"b\"}>]>} : tensor<8x4xf32>\n"
        "  %2 = sdy.sharding_constraint %1 <@m, [{}, {\"a\"}p0]> : tensor<8x4xf32>\n"
        "  return %2 : tensor<8x4xf32>\n}\n";
    static const char *const said[] = {
        "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding_per_value<[<mesh<[\\\"a\\\"=2, \\\"b\\\"=2], "
        "device_ids=[1, 0, 2, 3]>, [{\\\"a\\\", ?}p1, {}]>]>\"}",
        "[{?}, {?}], unreduced={\\\"b\\\"}>]>\"}", "[{}, {\\\"a\\\"}p0]>]>\"}", "[{\\\"b\\\"}p2, {}]>]>\"}", "ENTRY f {",
        "allow_spmd_sharding_propagation_to_parameters={true,true}"
    };
    struct fixture f, g, h;
    start(&f);
    start(&g);
    start(&h);
    if (!read_mlir(&f, text))
        fail_msg("%s", messages(&f));
    struct str hlo = STR_IN(&f.a), mlir = STR_IN(&f.a);
    const struct hlo_print_options o = { .max_bytes = 0 };
    assert_true(hlo_print(f.m, &o, &hlo) && mlir_print(f.m, NULL, &mlir, f.d));
    for (size_t k = 0; k < COUNTOF(said); k++)
        if (!strstr(str_text(&hlo), said[k]))
            fail_msg("no %s in\n%s", said[k], str_text(&hlo));
    if (!read_mlir(&g, str_text(&mlir)))
        fail_msg("%s\n%s", messages(&g), str_text(&mlir));
    assert_true(module_equal(f.m, g.m));
    h.m = module_load_text(h.c, "h.hlo", str_text(&hlo), hlo.n, NULL, h.d);
    if (!h.m)
        fail_msg("%s", messages(&h));
    hlo_name_all(f.m);
    assert_true(module_equal(f.m, h.m));
    stop(&h);
    stop(&g);
    stop(&f);
}

/* Names hold in a region only; an HLO text of the module has each once and is stable when read again. */
static void regions_repeat_names(void **state)
{
    (void)state;
    static const char text[] =
        "module @m {\n"
        "  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n"
        "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
        "    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<8xf32>\n"
        "    cond {\n"
        "      %c_1 = stablehlo.constant dense<3> : tensor<i32>\n"
        "      %1 = stablehlo.compare LT, %iterArg, %c_1 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "      stablehlo.return %1 : tensor<i1>\n"
        "    } do {\n"
        "      %c_1 = stablehlo.constant dense<1> : tensor<i32>\n"
        "      %1 = stablehlo.add %iterArg, %c_1 : tensor<i32>\n"
        "      %2 = stablehlo.negate %iterArg_0 : tensor<8xf32>\n"
        "      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>\n"
        "    }\n"
        "    return %0#1 : tensor<8xf32>\n"
        "  }\n"
        "}\n";
    struct fixture f, g;
    start(&f);
    start(&g);
    struct module *m = read_mlir(&f, text);
    assert_non_null(m);
    struct str once = STR_IN(&f.a), again = STR_IN(&g.a);
    assert_true(hlo_print(m, NULL, &once));
    assert_non_null(strstr(str_text(&once), "iterArg.1 = "));
    assert_true(read_hlo(&g, str_text(&once), once.n));
    assert_true(hlo_print(g.m, NULL, &again));
    assert_string_equal(str_text(&once), str_text(&again));
    stop(&f);
    stop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_and_shapes), cmocka_unit_test(generic_form),
        cmocka_unit_test(regions),                cmocka_unit_test(constants),
        cmocka_unit_test(shardings),              cmocka_unit_test(locations),
        cmocka_unit_test(unknown_operations),     cmocka_unit_test(refusals),
        cmocka_unit_test(deep_nesting),           cmocka_unit_test(prints_back),
        cmocka_unit_test(keeps_shardys_words), cmocka_unit_test(regions_repeat_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
