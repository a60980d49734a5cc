/* Forms of Shardy's dialect, pretty and generic: each is read, printed, and read back as the same module. And what the
 * reader leaves out while it reads (constants, simplified operations) is missed nowhere. */
#include "text_help.h"

#define X    "tensor<8x16xf32>"
#define MESH "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4, \"z\"=4]>\n"
#define ON   "sdy.sharding = #sdy.sharding"
#define XY   X " {" ON "<@mesh, [{\"x\"}, {\"y\"}]>}"

struct form {
    const char *mesh; /* in front of the function */
    const char *argument, *body; /* of @main(%a, %b: X) -> X */
};

static const struct form forms[] = {
    { MESH, X, "%0 = sdy.sharding_constraint %a <@mesh, [{\"x\", ?}, {\"y\":(1)2}]> : " X },
    { MESH, X, "%0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"y\":(1)2, \"x\"}, {\"y\":(2)2, ?}]>]>} : " X },
    { MESH, X " {" ON "<@mesh, [{\"x\"}p0, {\"y\", ?}p2]>}", "%0 = stablehlo.negate %a : " X },
    { MESH, X " {" ON "<@mesh, [{\"x\"}, {}], replicated={\"y\":(1)2, \"z\"}>}", "%0 = stablehlo.negate %a : " X },
    { MESH, X " {" ON "<@mesh, [{\"x\"}, {}], unreduced={\"y\"}>}", "%0 = stablehlo.negate %a : " X },
    { MESH, X " {" ON "<@mesh, [{\"x\"}, {}], replicated={\"z\"}, unreduced={\"y\":(2)2}>}", "%0 = stablehlo.negate %a : " X },
    { MESH, X, "%0 = sdy.reshard %a <@mesh, [{\"y\"}, {}]> : " X },
    { MESH, X, "sdy.sharding_group %a group_id=21 : " X "\n  sdy.sharding_group %b group_id=21 : " X "\n  %0 = stablehlo.negate %a : " X },
    { MESH, X, "%0 = sdy.propagation_barrier %a allowed_direction=NONE : " X },
    { MESH, X, "%0 = sdy.propagation_barrier %a allowed_direction=BACKWARD : " X },
    { MESH, X, "%0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>, <@mesh, [{\"x\"}, {}], replicated={\"y\"}>] "
               "out_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>] manual_axes={\"x\", \"y\"} (%c: tensor<4x4xf32>, %d: tensor<4x16xf32>) {\n"
               "    %1 = stablehlo.slice %d [0:4, 0:4] : (tensor<4x16xf32>) -> tensor<4x4xf32>\n"
               "    %2 = stablehlo.add %c, %1 : tensor<4x4xf32>\n    sdy.return %2 : tensor<4x4xf32>\n  } : (" X ", " X ") -> " X },
    { MESH, X, "%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\", ?}, {?}]>] out_shardings=[<@mesh, [{\"x\", ?}, {?}]>] "
               "manual_axes={\"x\"} (%c: tensor<4x16xf32>) {\n"
               "    %1 = sdy.manual_computation(%c) in_shardings=[<@mesh, [{}, {\"y\"}]>] out_shardings=[<@mesh, [{}, {\"y\"}]>] "
               "manual_axes={\"y\"} (%d: tensor<4x4xf32>) {\n      %2 = stablehlo.add %d, %d : tensor<4x4xf32>\n"
               "      sdy.return %2 : tensor<4x4xf32>\n    } : (tensor<4x16xf32>) -> tensor<4x16xf32>\n"
               "    sdy.return %1 : tensor<4x16xf32>\n  } : (" X ") -> " X },
    { MESH, X, "sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {\n    sdy.return\n  } : () -> ()\n"
               "  %0 = stablehlo.negate %a : " X },
    { MESH, X, "%0 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{\"x\"}, {}]>] manual_axes={\"x\"} () {\n"
               "    %1 = stablehlo.constant dense<1.0> : tensor<4x16xf32>\n    sdy.return %1 : tensor<4x16xf32>\n  } : () -> " X },
    { MESH, X, "%0 = sdy.named_computation<\"foo\">(%a, %b) in_shardings=[<@mesh, [{\"x\"}, {}]>, <@mesh, [{?}, {?}]>] "
               "out_shardings=[<@mesh, [{\"x\", ?}, {?}]>] (%c: " X ", %d: " X ") {\n    %1 = stablehlo.add %c, %d : " X "\n"
               "    sdy.return %1 : " X "\n  } : (" X ", " X ") -> " X },
    { MESH, X, "%0:2 = sdy.named_computation<\"bar\">(%a) (%c: " X ") {\n    %1 = stablehlo.add %c, %c : " X "\n"
               "    sdy.return %1, %c : " X ", " X "\n  } : (" X ") -> (" X ", " X ")" },
    { MESH, X, "%0 = stablehlo.custom_call @foo(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j],[i, j])->([i, j]) "
               "{i=8, j=16}, custom>} : (" X ", " X ") -> " X },
    { MESH, X, "%0 = stablehlo.custom_call @foo(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k])->([i, jk]) "
               "{i=2, j=4, k=16} reduction={k} need_replication={j}>} : (" X ") -> " X },
    { "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]>\n", XY, "%0 = stablehlo.negate %a : " X },
    { "sdy.mesh @one = <[], device_ids=[1]>\nsdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n", XY, "%0 = sdy.sharding_constraint %a <@one, []> : " X },
    { "sdy.mesh @empty = <[]>\n", X " {" ON "<@empty, [{}, {}]>}", "%0 = stablehlo.negate %a : " X },
    { "", X " {" ON "<mesh<[\"a\"=2, \"b\"=4]>, [{\"a\"}, {\"b\"}]>}", "%0 = stablehlo.negate %a : " X },
    { "", X " {" ON "<mesh<[\"a\"=2, \"b\"=2], device_ids=[0, 2, 1, 3]>, [{\"a\"}, {\"b\"}]>}", "%0 = stablehlo.negate %a : " X },
    { "#m = #sdy.mesh<[\"x\"=2]>\n#s = #sdy.sharding<@mesh, [{\"x\"}, {}]>\nsdy.mesh @mesh = #m\n", X " {sdy.sharding = #s}",
      "%0 = stablehlo.negate %a : " X },
    { "\"sdy.mesh\"() <{mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>, sym_name = \"mesh\"}> : () -> ()\n", XY, "%0 = stablehlo.negate %a : " X },
    { MESH, XY, "%0 = sdy.all_gather [{\"x\"}, {\"y\"}] %a out_sharding=<@mesh, [{}, {}]> : " X },
    { MESH, XY, "%0 = sdy.all_slice [{\"z\"}, {}] %a out_sharding=<@mesh, [{\"x\", \"z\"}, {\"y\"}]> : " X },
    { MESH, XY, "%0 = sdy.all_to_all [{\"y\"}: 1->0] %a out_sharding=<@mesh, [{\"x\", \"y\"}, {}]> : " X },
    { MESH, XY, "%0 = sdy.collective_permute %a out_sharding=<@mesh, [{\"z\"}, {\"x\"}]> : " X },
    { MESH, XY, "%0 = sdy.all_reduce {\"z\"} %a out_sharding=<@mesh, [{\"x\"}, {\"y\"}]> : " X },
    { MESH, XY, "%0 = sdy.reduce_scatter [{}, {\"z\"}] %a out_sharding=<@mesh, [{\"x\"}, {\"y\", \"z\"}]> : " X },
    { MESH, XY, "%0 = sdy.sharded_to_unreduced [{}, {\"y\"}] %a out_sharding=<@mesh, [{\"x\"}, {}], unreduced={\"y\"}> : " X },
    { MESH, XY, "%0 = sdy.replicated_to_unreduced {\"z\"} %a out_sharding=<@mesh, [{\"x\"}, {\"y\"}], unreduced={\"z\"}> : " X },
    { MESH, XY, "%0 = \"sdy.all_gather\"(%a) <{gathering_axes = #sdy<list_of_axis_ref_lists[{\"x\"}, {}]>, out_sharding = "
                "#sdy.sharding<@mesh, [{}, {\"y\"}]>}> : (" X ") -> " X },
    { MESH, X, "%2:2 = stablehlo.optimization_barrier %a, %b : " X ", " X "\n"
               "  %1 = sdy.data_flow_edge %2#0 sharding=<@mesh, [{\"x\"}, {?}]> : " X "\n  %3 = sdy.data_flow_edge %2#1 : " X "\n"
               "  %0 = stablehlo.add %1, %3 : " X },
    { MESH, X, "%0 = sdy.func_data_flow_edge %a sharding=<@mesh, [{\"x\"}, {?}]> : " X },
    { MESH, X, "%0 = stablehlo.add %a, %b {sdy.propagation_edges = #sdy.propagation_edges<[{step-0 = [{\"x\" = [operand-0 -> [result-0]]}]}]>, "
               "sdy.sharding_origins = {x = \"input: 0\"}} : " X },
    { MESH, X, "%1 = sdy.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>} dense<1.000000e+00> : " X "\n"
               "  %0 = stablehlo.add %1, %a : " X },
    { MESH, X, "%1 = stablehlo.constant sparse<[[0, 0], [1, 2]], [1.0, 5.0]> : " X "\n  %0 = stablehlo.add %1, %a : " X },
    { MESH, X, "%c = stablehlo.constant dense<0> : tensor<i32>\n  %n = stablehlo.constant dense<3> : tensor<i32>\n"
               "  %2:2 = stablehlo.while(%i = %c, %w = %a) : tensor<i32>, " X " attributes {sdy.sharding = "
               "#sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{\"x\"}, {?}]>]>}\n  cond {\n"
               "    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    stablehlo.return %1 : tensor<i1>\n"
               "  } do {\n    %one = stablehlo.constant dense<1> : tensor<i32>\n    %1 = stablehlo.add %i, %one : tensor<i32>\n"
               "    %4 = sdy.sharding_constraint %w <@mesh, [{?}, {\"y\", ?}]> : " X "\n    %3 = stablehlo.add %4, %4 : " X "\n"
               "    stablehlo.return %1, %3 : tensor<i32>, " X "\n  }\n  %0 = stablehlo.negate %2#1 : " X },
};

static const char *program(struct arena *a, const struct form *t)
{
    bool pack = strncmp(t->body, "%0:2", 4) == 0;
    return arena_printf(a, "%sfunc.func @main(%%a: %s, %%b: " X ") -> " X " {\n  %s\n  return %%0%s : " X "\n}\n", t->mesh,
                        t->argument, t->body, pack ? "#0" : "");
}

static struct module *read_text(struct fixture *f, const char *text)
{
    struct module *m = module_load_text(f->c, "t.mlir", text, strlen(text), NULL, f->d);
    if (!m)
        fail_msg("%s\nis refused:\n%s", text, messages(f));
    return m;
}

static void forms_are_read_and_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(forms); i++) {
        struct fixture f;
        struct arena a = { 0 };
        struct str out = STR_IN(&a), again = STR_IN(&a);
        start(&f);
        f.m = read_text(&f, program(&a, &forms[i]));
        struct mlir_print_options none = { NULL };
        assert_true(mlir_print(f.m, &none, &out, f.d));
        struct module *back = read_text(&f, str_text(&out));
        if (!module_equal(f.m, back))
            fail_msg("%s\ncomes back as another module", str_text(&out));
        assert_true(mlir_print(back, &none, &again, f.d));
        assert_string_equal(str_text(&out), str_text(&again));
        module_free(back);
        arena_free(&a);
        stop(&f);
    }
}

/* ---- what is left out while reading ------------------------------------------------------------ */

static double element(const struct module *m, uint32_t k)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (in->op == OP_CONSTANT)
            return (double)((const float *)in->literal->data)[k];
    }
    return -1;
}

static void sparse_constants_are_zero_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value[6];
    } cases[] = {
        { "sparse<[[0, 0], [1, 2]], [1.0, 5.0]>", { 1, 0, 0, 0, 0, 5 } },
        { "sparse<[[0, 1], [1, 0]], 7.0>", { 0, 7, 0, 7, 0, 0 } },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        struct arena a = { 0 };
        start(&f);
        f.m = read_text(&f, arena_printf(&a, "func.func @main() -> tensor<2x3xf32> {\n  %%0 = stablehlo.constant %s : tensor<2x3xf32>\n"
                                             "  return %%0 : tensor<2x3xf32>\n}\n", cases[i].text));
        for (uint32_t k = 0; k < 6; k++)
            assert_float_equal(element(f.m, k), cases[i].value[k], 0);
        arena_free(&a);
        stop(&f);
    }
}

struct wrong {
    const char *lines; /* of @main(%x: X) -> X */
    int line;
    const char *words;
};

#define RETURN "\n  return %x : " X
static const struct wrong wrongs[] = {
    { "return %x : " X "\n  %c = stablehlo.constant dense<1.0> : tensor<f32>", 1, "does not end with a return" },
    { "%c = stablehlo.constant dense<1.0> : tensor<f32>\n^bb1:\n  return %x : " X, 3, "a second block" },
    { "%c = stablehlo.constant dense<1.0> : tensor<f32>\n  %c = stablehlo.constant dense<1.0> : tensor<f32>" RETURN, 3, "defined twice" },
    { "%c = stablehlo.constant dense<1.0> : tensor<f32>\n  %0 = stablehlo.add %c#1, %c : tensor<f32>" RETURN, 3, "no result number 1" },
    { "%c = stablehlo.constant dense<1.0> : tensor<f32>\n  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> " X "\n"
      "  %1 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<f32>) -> " X RETURN, 4, "1 dims for an operand of 0 dimensions" },
    { "%0 = stablehlo.slice %x [0:9, 0:16] : (" X ") -> " X RETURN, 2, "no part of dimension 0" },
    { "%0 = stablehlo.slice %x [0:4, 0:16] : (" X ") -> tensor<4x16xf32>\n"
      "  %1 = stablehlo.slice %x [6:10, 0:16] : (" X ") -> tensor<4x16xf32>" RETURN, 3, "no part of dimension 0" },
    { "%c = stablehlo.constant sparse<[[0, 3]], 1.0> : tensor<2x3xf32>" RETURN, 2, "index 3 is outside of dimension 1" },
    { "%c = stablehlo.constant sparse<[[0, 1]], [1.0, 2.0]> : tensor<2x3xf32>" RETURN, 2, "more values than indices" },
    { "%c = stablehlo.constant sparse<[[0, 1], [1, 1]], [1.0]> : tensor<2x3xf32>" RETURN, 2, "fewer values than indices" },
    { "%c = stablehlo.constant dense<1> : tensor<2xsi1>" RETURN, 2, "i1 is the one type of one bit" },
    { "vhlo.func_v1 @f() {\n  }" RETURN, 2, "this is VHLO" },
    { "%arg7 = stablehlo.negate %x : " X "\n  %0 = stablehlo.negate %arg99999999 : " X RETURN, 3, "is not defined here" },
};

static void nothing_slips_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(wrongs); i++) {
        struct fixture f;
        struct arena a = { 0 };
        start(&f);
        const char *text = arena_printf(&a, "func.func @main(%%x: " X ") -> " X " {\n  %s\n}\n", wrongs[i].lines);
        f.m = module_load_text(f.c, "t.mlir", text, strlen(text), NULL, f.d);
        const struct diag_msg *m = f.d->msgs.n ? &f.d->msgs.v[0] : NULL;
        if (f.m || !m || !strstr(m->text, wrongs[i].words) || m->line != wrongs[i].line)
            fail_msg("%s: expected '%s' on line %d, got\n%s", text, wrongs[i].words, wrongs[i].line, messages(&f));
        arena_free(&a);
        stop(&f);
    }
}

/* Names that are numbers, far apart and out of order, in two functions. */
static void names_are_found_wherever_they_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    f.m = read_text(&f, "func.func private @f(%9: tensor<f32>) -> tensor<f32> {\n  %50000 = stablehlo.negate %9 : tensor<f32>\n"
                        "  return %50000 : tensor<f32>\n}\n"
                        "func.func @main(%x1: tensor<f32>) -> tensor<f32> {\n  %50000 = stablehlo.sine %x1 : tensor<f32>\n"
                        "  %x70000000 = stablehlo.cosine %50000 : tensor<f32>\n  %0 = func.call @f(%x70000000) : (tensor<f32>) -> tensor<f32>\n"
                        "  %01 = stablehlo.add %0, %50000 : tensor<f32>\n  return %01 : tensor<f32>\n}\n");
    assert_int_equal(module_ncomps(f.m), 2);
    stop(&f);
}

/* A number far beyond the others, that they come to afterwards. */
static void names_stay_when_their_numbers_are_reached(void **state)
{
    (void)state;
    struct fixture f;
    struct arena a = { 0 };
    struct str t = STR_IN(&a);
    start(&f);
    str_adds(&t, "func.func @main(%y: tensor<f32>) -> tensor<f32> {\n  %y3000 = stablehlo.sine %y : tensor<f32>\n"
                 "  %y0 = stablehlo.cosine %y : tensor<f32>\n");
    for (int k = 1; k < 600; k++)
        str_addf(&t, "  %%y%d = stablehlo.negate %%y%d : tensor<f32>\n", k, k - 1);
    str_adds(&t, "  %y2100 = stablehlo.add %y599, %y3000 : tensor<f32>\n  %y2101 = stablehlo.add %y2100, %y3000 : tensor<f32>\n"
                 "  return %y2101 : tensor<f32>\n}\n");
    f.m = read_text(&f, str_text(&t));
    arena_free(&a);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_read_and_come_back),
        cmocka_unit_test(sparse_constants_are_zero_elsewhere),
        cmocka_unit_test(nothing_slips_through),
        cmocka_unit_test(names_are_found_wherever_they_are_kept),
        cmocka_unit_test(names_stay_when_their_numbers_are_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
