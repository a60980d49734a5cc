/* HLO text: what is read means what it says, and prints back byte for byte. */
#include "text_help.h"

/* ---- round trips ----------------------------------------------------------------------------- */

/* The text as XLA prints it: reads and prints back the same. */
static void same_bytes(const char *text)
{
    struct fixture f;
    start(&f);
    if (!read_hlo(&f, text, strlen(text)))
        fail_msg("%s", messages(&f));
    assert_string_equal(printed(&f, f.m, NULL), text);
    stop(&f);
}

/* Hand-written text: what is printed reads as an equal module and prints the same again. */
static void same_module(const char *text, size_t n)
{
    struct fixture f, g;
    start(&f);
    start(&g);
    if (!read_hlo(&f, text, n))
        fail_msg("%s", messages(&f));
    const char *one = printed(&f, f.m, NULL);
    if (!read_hlo(&g, one, strlen(one)))
        fail_msg("%s\nin\n%s", messages(&g), one);
    assert_true(module_equal(f.m, g.m));
    assert_string_equal(printed(&g, g.m, NULL), one);
    stop(&g);
    stop(&f);
}

static void plain_style_prints_back(void **state)
{
    (void)state;
    same_bytes("HloModule jit_f, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}, "
               "allow_spmd_sharding_propagation_to_parameters={false}, num_partitions=8\n"
               "\n"
               "region_0.1 (a.2: f32[], b.3: f32[]) -> f32[] {\n"
               "  a.2 = f32[] parameter(0)\n"
               "  b.3 = f32[] parameter(1)\n"
               "  ROOT add.4 = f32[] add(a.2, b.3)\n"
               "}\n"
               "\n"
               "ENTRY main.9 (x.5: f32[8,16]) -> f32[8] {\n"
               "  x.5 = f32[8,16]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] "
               "last_tile_dim_replicate}, metadata={op_name=\"x\"}\n"
               "  c.6 = f32[] constant(-inf)\n"
               "  ROOT r.7 = f32[8]{0} reduce(x.5, c.6), dimensions={1}, to_apply=region_0.1\n"
               "}\n"
               "\n");
}

static void percent_style_with_operand_shapes_prints_back(void **state)
{
    (void)state;
    same_bytes("HloModule m, is_scheduled=true\n"
               "\n"
               "ENTRY %main.5_spmd (p: f32[8,4]) -> (f32[8,4]) {\n"
               "  %p = f32[8,4]{1,0:T(8,128)S(1)} parameter(0)\n"
               "  %n.1 = f32[8,4]{1,0} negate(f32[8,4]{1,0:T(8,128)S(1)} %p), "
               "control-predecessors={%p}, metadata={op_name=\"a\\\"b\" source_line=3}, "
               "backend_config={\"a\":{\"b\":[1,\"}\"]}}\n"
               "  ROOT %t = (f32[8,4]{1,0}) tuple(f32[8,4]{1,0} %n.1), "
               "sharding={{devices=[2,2]0,2,1,3}}, frontend_attributes={k=\"v={}\"}\n"
               "} // main.5_spmd\n"
               "\n");
}

static void stack_frame_tables_print_back(void **state)
{
    (void)state;
    same_bytes("HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"d\"=2]>}}\n"
               "\n"
               "FileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"<module>\"\n\n"
               "FileLocations\n1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 "
               "end_column=2}\n\n"
               "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
               "\n"
               "\n"
               "%f {\n"
               "  ROOT %p = f32[] parameter(0)\n"
               "}, execution_thread=\"side\"\n"
               "\n"
               "ENTRY %e {\n"
               "  %x = f32[] parameter(0), metadata={op_name=\"x\" stack_frame_id=1}\n"
               "  ROOT %c = f32[] call(%x), to_apply=%f\n"
               "}\n"
               "\n");
}

static void every_kind_of_attribute_prints_back(void **state)
{
    (void)state;
    same_bytes(
        "HloModule m\n"
        "\n"
        "add {\n"
        "  a = f32[] parameter(0)\n"
        "  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] add(a, b)\n"
        "}\n"
        "\n"
        "ENTRY e {\n"
        "  x = f32[8,8]{1,0} parameter(0)\n"
        "  i = s32[] parameter(1)\n"
        "  pad = f32[9,11]{1,0} pad(x, i), padding=0_1_0x-1_2_1\n"
        "  pad1 = f32[9,11]{1,0} pad(x, i), padding=0_1x1_2\n"
        "  sl = f32[4,2]{1,0} slice(x), slice={[0:8:2], [1:3:1]}\n"
        "  sl1 = f32[4,2]{1,0} slice(x), slice={[0:4], [1:3]}\n"
        "  cv = f32[1,4,4,8]{3,2,1,0} convolution(x, x), window={size=3x3 stride=2x1 pad=1_1x1_-1 "
        "lhs_dilate=2x1 rhs_dilate=1x2 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, "
        "feature_group_count=2\n"
        "  cv1 = f32[2,3]{1,0} convolution(x, x), window={}, dim_labels=bf_io->bf\n"
        "  rw = f32[7,8]{1,0} reduce-window(x, i), window={size=2x1}, to_apply=add\n"
        "  ag = f32[8,16]{1,0} all-gather(x), channel_id=2, replica_groups={{0,1},{2,3}}, "
        "dimensions={1}, use_global_device_ids=true\n"
        "  ar = f32[8,8]{1,0} all-reduce(x), replica_groups={{0,1,2},{3}}, to_apply=add\n"
        "  ar2 = f32[8,8]{1,0} all-reduce(x), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=add\n"
        "  ar3 = f32[8,8]{1,0} all-reduce(x), replica_groups=mesh['a'=2,'b'=2] {'b'}, "
        "to_apply=add\n"
        "  ar4 = f32[8,8]{1,0} all-reduce(x), replica_groups={}, to_apply=add\n"
        "  cp = f32[8,8]{1,0} collective-permute(x), channel_id=3, "
        "source_target_pairs={{0,1},{1,0}}\n"
        "  srt = (f32[8,8]{1,0}, s32[8,8]{1,0}) sort(x, x), dimensions={0}, is_stable=true, "
        "to_apply=add\n"
        "  cmp = pred[8,8]{1,0} compare(x, x), direction=GE, type=TOTALORDER\n"
        "  cond = f32[] conditional(i, x, x), branch_computations={add, add}\n"
        "  rng = (u64[2]{0}, u32[8]{0}) rng-bit-generator(x), algorithm=rng_default\n"
        "  dot = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32\n"
        "  bn = f32[8,8]{1,0} batch-norm-inference(x, x, x, x, x), epsilon=0.001, feature_index=1\n"
        "  cc = f32[8,8]{1,0} custom-call(x), custom_call_target=\"a\\\"b\", "
        "output_to_operand_aliasing={{0}: (0, {})}, api_version=API_VERSION_TYPED_FFI, "
        "new_key={a=1 b}, backend_config={uplo = 76 : ui8}\n"
        "  st = ((f32[8,8]{1,0}), f32[2,8]{1,0}, s32[]) reduce-scatter-start(x), channel_id=4, "
        "replica_groups={}, dimensions={0}, to_apply=add\n"
        "  dn = f32[2,8]{1,0} reduce-scatter-done(st)\n"
        "  as = ((f32[]), f32[], s32[]) async-start(i), calls=add\n"
        "  of = token[] outfeed(x, x), outfeed_shape=(f32[8,8]{1,0})\n"
        "  six = (f32[8,8]{1,0}, f32[8,8]{1,0}, f32[8,8]{1,0}, f32[8,8]{1,0}, f32[8,8]{1,0}, "
        "/*index=5*/f32[8,8]{1,0}) tuple(x, x, x, x, x, /*index=5*/x)\n"
        "  ROOT r = f32[<=8,8]{1,0} copy(x)\n"
        "}\n"
        "\n");
}

static void constants_print_back(void **state)
{
    (void)state;
    same_bytes(
        "HloModule m\n"
        "\n"
        "ENTRY e {\n"
        "  a = f32[2,2,2]{2,1,0} constant({ { /*i0=0*/ { 1, -inf }, { nan, 0.5 } }, { { 1e-06, "
        "3 }, { 0, -0 } } })\n"
        "  b = pred[3]{0} constant({1, 0, 1})\n"
        "  c = c64[2]{0} constant({(1, -2), (0, inf)})\n"
        "  d = (s32[], f32[2]{0}) constant((5, {1, 2}))\n"
        "  g = bf16[64,64]{1,0} constant({...})\n"
        "  h = s4[3]{0:E(4)} constant({-8, 7, 0})\n"
        "  i = u64[] constant(18446744073709551615)\n"
        "  j = f32[0,3]{1,0} constant({})\n"
        "  k = f32[2,0]{1,0} constant({ {}, {} })\n"
        "  ROOT l = f8e4m3fn[2]{0} constant({448, -0.5})\n"
        "}\n"
        "\n");
}

/* ---- hand-written text ----------------------------------------------------------------------- */

#define SAME_MODULE(text) same_module(text, strlen(text))

static void odd_spacing_reads(void **state)
{
    (void)state;
    SAME_MODULE(
        "HloModule m,num_partitions=4\r\n\r\nENTRY main {\r\n\tx = f32[8,4]\tparameter( 0 )\r\n"
        "\tROOT y = f32[8,4] add ( x ,x ) /* c */ // d\r\n}");
    SAME_MODULE("// a comment\n/* another */ HloModule m\nf { p = f32[] parameter(0) }\nENTRY e { "
                "x = f32[] parameter(0) \n ROOT y = f32[] call(x), to_apply=f }");
    SAME_MODULE("main(x: f32[2]{0})->f32[2]{0} // sig\n{\nROOT x=f32[2]{0}parameter(0)\n}\n");
    SAME_MODULE(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) } ENTRY e "
        "{ x = f32[2] parameter(0) z = f32[] constant(0) ROOT %r = f32[] reduce(x, z), "
        "dimensions={0}, to_apply=add }");
    SAME_MODULE("HloModule m\nENTRY ROOT {\n ROOT ROOT = f32[] parameter(0) }");
}

static void computations_may_come_later(void **state)
{
    (void)state;
    const char *text = "HloModule m\n"
                       "ENTRY e {\n"
                       "  i = s32[] parameter(0)\n"
                       "  x = f32[] parameter(1)\n"
                       "  c = f32[] conditional(i, x, x), backend_config=\"z\", "
                       "branch_computations={f, g}\n"
                       "  ROOT y = f32[] call(c), to_apply=g\n"
                       "}\n"
                       "f {\n  ROOT p = f32[] parameter(0)\n}\n"
                       "g {\n  ROOT p = f32[] parameter(0)\n}\n";
    SAME_MODULE(text);
    struct fixture f;
    start(&f);
    assert_true(read_hlo(&f, text, strlen(text)));
    const struct attr *a = instr_attr(named(f.m, "c"), ATTR_BRANCH_COMPUTATIONS);
    assert_int_equal(a->n, 2);
    assert_string_equal(name_text(f.c, comp_at(f.m, a->comps[0])->name), "f");
    assert_string_equal(name_text(f.c, comp_at(f.m, a->comps[1])->name), "g");
    assert_string_equal(
        name_text(f.c, comp_at(f.m, instr_attr(named(f.m, "y"), ATTR_TO_APPLY)->comp)->name), "g");
    stop(&f);
}

static void attributes_in_any_order_print_in_one(void **state)
{
    (void)state;
    const char *text = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n"
                       "  ROOT y = f32[4] custom-call(x), metadata={op_name=\"n\"}, "
                       "backend_config=\"b\", sharding={replicated}, control-predecessors={x}, "
                       "custom_call_target=\"t\", frontend_attributes={a=b}\n}\n";
    struct fixture f;
    start(&f);
    assert_true(read_hlo(&f, text, strlen(text)));
    assert_non_null(strstr(printed(&f, f.m, NULL),
                           "custom-call(x), custom_call_target=\"t\", sharding={replicated}, "
                           "frontend_attributes={a=b}, control-predecessors={x}, "
                           "metadata={op_name=\"n\"}, backend_config=\"b\"\n"));
    stop(&f);
    SAME_MODULE(text);
}

static void shapes_left_out_are_inferred(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    const char *text = "ENTRY e {\n  x = f32[4] parameter(0)\n  n = negate(x)\n"
                       "  ROOT t = tuple(n, x)\n}\n";
    if (!read_hlo(&f, text, strlen(text)))
        fail_msg("%s", messages(&f));
    struct str s = STR_IN(&f.a);
    shape_print(f.c, named(f.m, "t")->shape, false, &s);
    assert_string_equal(str_text(&s), "(f32[4], f32[4])");
    stop(&f);
}

static void the_entry_is_found_without_its_word(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    const char *text = "e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=f\n}\n"
                       "f {\n  ROOT p = f32[] parameter(0)\n}\n";
    assert_true(read_hlo(&f, text, strlen(text)));
    assert_string_equal(name_text(f.c, comp_at(f.m, f.m->entry)->name), "e");
    stop(&f);
}

static void values_mean_what_they_say(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    const char *text = "HloModule m, replica_count=2, num_partitions=8, is_scheduled=true, "
                       "allow_spmd_sharding_propagation_to_output={true,false}\n"
                       "ENTRY e {\n"
                       "  t = f32[2] parameter(0)\n"
                       "  c = bf16[2,2] constant({ { 1, 2.5 }, { -0.25, inf } })\n"
                       "  h = f32[] constant(0x1.8p+1)\n"
                       "  i = s8[] constant(-128)\n"
                       "  z = c128[] constant((3.5, -1))\n"
                       "  p = pred[] constant(true)\n"
                       "  s = ((f32[], s32[2]), pred[]) parameter(1), sharding={replicated}\n"
                       "  g = f32[2] all-reduce(t), replica_groups={{0,2},{1,3}}, to_apply=a\n"
                       "  ROOT y = f32[2] negate(t)\n"
                       "}\n"
                       "a {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n"
                       "  ROOT r = f32[] add(p, q)\n}\n";
    if (!read_hlo(&f, text, strlen(text)))
        fail_msg("%s", messages(&f));
    assert_int_equal(f.m->replica_count, 2);
    assert_int_equal(f.m->num_partitions, 8);
    assert_true(f.m->is_scheduled);
    assert_int_equal(f.m->nto_output, 2);
    assert_true(f.m->to_output[0] && !f.m->to_output[1]);
    const struct literal *c = named(f.m, "c")->literal;
    assert_true(literal_get_f(f.m, c, 1) == 2.5 && literal_get_f(f.m, c, 2) == -0.25);
    assert_true(literal_get_f(f.m, c, 3) > 1e300);
    assert_true(literal_get_f(f.m, named(f.m, "h")->literal, 0) == 3.0);
    assert_int_equal(literal_get_i(f.m, named(f.m, "i")->literal, 0), -128);
    assert_int_equal(literal_get_i(f.m, named(f.m, "p")->literal, 0), 1);
    assert_true(((const double *)named(f.m, "z")->literal->data)[1] == -1.0);
    /* P-14: a leaf on a tuple is a tuple of copies */
    const struct sharding *s = sharding_get(f.c->shardings, named(f.m, "s")->sharding);
    assert_int_equal(s->kind, SHARDING_TUPLE);
    assert_int_equal(s->nelems, 3);
    const struct replica_groups *g = instr_attr(named(f.m, "g"), ATTR_REPLICA_GROUPS)->groups;
    assert_true(g->uniform);
    assert_int_equal(order_device(f.c->shardings, g->tiles.order, 1), 2);
    assert_int_equal(f.m->entry.i, 1);
    assert_string_equal(name_text(f.c, instr_at(f.m, comp_at(f.m, f.m->entry)->root)->name), "y");
    stop(&f);
}

static void mesh_groups_are_groups(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    const char *text = "ENTRY e {\n  x = f32[8] parameter(0)\n"
                       "  ROOT y = f32[8] all-gather(x), dimensions={0}, replica_groups="
                       "mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}\n}\n";
    if (!read_hlo(&f, text, strlen(text)))
        fail_msg("%s", messages(&f));
    struct hlo_print_options listed = { .expand_groups = true };
    assert_non_null(strstr(printed(&f, f.m, &listed), "replica_groups={{0,1,2,3},{4,5,6,7}}"));
    stop(&f);
}

/* ---- built modules --------------------------------------------------------------------------- */

static instr_id add_instr(struct fixture *f, comp_id c, enum op_kind op, shape_id s, int n,
                          const instr_id *operands, int na, const struct attr *attrs)
{
    return instr_new(f->m, c, op, s, n, operands, na, attrs);
}

static void built_modules_print_and_read(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    f.m = module_new(f.c, name_put(f.c, "built", 5));
    f.m->num_partitions = 8;
    struct shardings *t = f.c->shardings;
    comp_id c = comp_new(f.m, name_put(f.c, "main", 4));
    f.m->entry = c;
    comp_at(f.m, c)->entry = true;
    shape_id s = shape_array(f.c, DTYPE_F32, 2, (int64_t[]){ 8, 4 });
    struct attr zero = attr_int(ATTR_INDEX, 0);
    instr_id x = add_instr(&f, c, OP_PARAMETER, s, 0, NULL, 1, &zero);
    instr_at(f.m, x)->name = name_put(f.c, "add", 3); /* the first number for a name is taken */
    instr_at(f.m, x)->sharding =
        sharding_plain(t, tiling_make(t, 2, (int64_t[]){ 4, 2 },
                                      order_from_iota(t, 2, (int64_t[]){ 2, 4 }, (int[]){ 1, 0 })));
    instr_id two[2] = { x, x };
    instr_id sum = add_instr(&f, c, OP_ADD, s, 2, two, 0, NULL);
    struct tiling groups = tiling_make(t, 2, (int64_t[]){ 2, 4 }, order_iota(t, 8));
    struct attr ag[2] = { attr_groups(f.m, groups), attr_int(ATTR_CHANNEL_ID, 1) };
    instr_id g = add_instr(&f, c, OP_ALL_REDUCE, s, 1, &sum, 2, ag);
    struct tiling grid = tiling_make(t, 2, (int64_t[]){ 2, 4 }, order_iota(t, 8));
    struct permute_pairs shift = { .kind = PAIRS_SHIFT, .from = grid, .axis = 1, .shift = 1 };
    struct permute_pairs ring = {
        .kind = PAIRS_SHIFT, .from = grid, .axis = 0, .shift = -1, .wrap = true
    };
    struct permute_pairs part = {
        .kind = PAIRS_SHIFT, .from = grid, .axis = 1, .shift = 1, .wrap = true, .limit = 3
    };
    struct permute_pairs turn = { .kind = PAIRS_TILINGS,
                                  .from = grid,
                                  .to = tiling_make(t, 2, (int64_t[]){ 2, 4 },
                                                    order_from_iota(t, 2, (int64_t[]){ 4, 2 },
                                                                    (int[]){ 1, 0 })) };
    const struct permute_pairs *all[] = { &shift, &ring, &part, &turn };
    for (int k = 0; k < 4; k++) {
        struct attr a = attr_pairs(f.m, all[k]);
        g = add_instr(&f, c, OP_COLLECTIVE_PERMUTE, s, 1, &g, 1, &a);
    }
    struct window_dim wd[2] = {
        { .size = 2, .stride = 1, .base_dilation = 1, .window_dilation = 1 },
        { .size = 3,
          .stride = 2,
          .pad_low = 1,
          .base_dilation = 1,
          .window_dilation = 2,
          .reversal = true }
    };
    struct attr w = attr_window(f.m, 2, wd);
    g = add_instr(&f, c, OP_REDUCE_WINDOW, s, 2, (instr_id[]){ g, x }, 1, &w);
    comp_finish(f.m, c, g);
    const char *text = printed(&f, f.m, NULL);
    assert_string_equal(
        text, "HloModule built, num_partitions=8\n"
              "\n"
              "ENTRY main {\n"
              "  add = f32[8,4] parameter(0), sharding={devices=[4,2]<=[2,4]T(1,0)}\n"
              "  add.1 = f32[8,4] add(add, add)\n"
              "  all-reduce = f32[8,4] all-reduce(add.1), replica_groups=[2,4]<=[8], channel_id=1\n"
              "  collective-permute = f32[8,4] collective-permute(all-reduce), "
              "source_target_pairs={{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}}\n"
              "  collective-permute.1 = f32[8,4] collective-permute(collective-permute), "
              "source_target_pairs={{0,4},{1,5},{2,6},{3,7},{4,0},{5,1},{6,2},{7,3}}\n"
              "  collective-permute.2 = f32[8,4] collective-permute(collective-permute.1), "
              "source_target_pairs={{0,1},{1,2},{2,0},{4,5},{5,6},{6,4}}\n"
              "  collective-permute.3 = f32[8,4] collective-permute(collective-permute.2), "
              "source_target_pairs={{0,0},{1,2},{2,4},{3,6},{4,1},{5,3},{6,5},{7,7}}\n"
              "  ROOT reduce-window = f32[8,4] reduce-window(collective-permute.3, add), "
              "window={size=2x3 stride=1x2 pad=0_0x1_0 rhs_dilate=1x2 rhs_reversal=0x1}\n"
              "}\n"
              "\n");
    struct hlo_print_options o = { .expand_groups = true, .header_frontend = "b=\"x\"" };
    text = printed(&f, f.m, &o);
    assert_non_null(strstr(text, "replica_groups={{0,1,2,3},{4,5,6,7}}"));
    assert_non_null(strstr(text, "num_partitions=8, frontend_attributes={b=\"x\"}\n"));
    struct fixture r;
    start(&r);
    if (!read_hlo(&r, text, strlen(text)))
        fail_msg("%s", messages(&r));
    struct hlo_print_options small = { .max_bytes = 100 };
    struct str out = STR_IN(&f.a);
    assert_false(hlo_print(f.m, &small, &out));
    hlo_name_all(f.m);
    assert_string_equal(name_text(f.c, instr_at(f.m, sum)->name), "add.1");
    stop(&r);
    stop(&f);
}

static void options_change_what_is_printed(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    const char *text = "HloModule m, allow_spmd_sharding_propagation_to_output={true}, "
                       "num_partitions=2, frontend_attributes={a=b}\n\nENTRY e {\n"
                       "  x = f32[4]{0} parameter(0), sharding={devices=[2]0,1}, "
                       "metadata={op_name=\"x\"}\n"
                       "  ROOT y = f32[4]{0} negate(x), metadata={op_name=\"y\"}\n}\n\n";
    assert_true(read_hlo(&f, text, strlen(text)));
    struct str s = STR_IN(&f.a);
    struct hlo_print_options brief = { .short_form = true };
    hlo_print_instr(f.m, (instr_id){ 1 }, &brief, &s);
    assert_string_equal(str_text(&s), "x = f32[4] parameter(0), sharding={devices=[2]0,1}");
    sharding_id over[3] = { { 0 },
                            instr_at(f.m, (instr_id){ 1 })->sharding,
                            sharding_replicated(f.c->shardings) };
    struct hlo_print_options o = { .no_metadata = true,
                                   .shardings = over,
                                   .header_frontend = "c=d" };
    const char *out = printed(&f, f.m, &o);
    assert_non_null(strstr(out, "frontend_attributes={a=b,c=d}\n"));
    assert_non_null(strstr(out, "parameter(0), sharding={devices=[2]0,1}\n"));
    assert_non_null(strstr(out, "negate(x), sharding={replicated}\n"));
    /* The header follows the module where a pass has changed it. */
    static const bool off[1] = { false };
    f.m->to_output = off;
    f.m->num_partitions = 4;
    out = printed(&f, f.m, NULL);
    assert_non_null(strstr(out, "HloModule m, allow_spmd_sharding_propagation_to_output={false}, "
                                "num_partitions=4, frontend_attributes={a=b}\n"));
    stop(&f);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void deep_and_long_text_reads(void **state)
{
    (void)state;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    str_adds(&s, "HloModule deep\n\nENTRY e {\n  x = ");
    for (int i = 0; i < 20000; i++)
        str_addc(&s, '(');
    str_adds(&s, "f32[2]");
    for (int i = 0; i < 20000; i++)
        str_addc(&s, ')');
    str_adds(&s, " parameter(0)\n  w = (");
    for (int i = 0; i < 10000; i++)
        str_addf(&s, "%s%sf32[%d]", i ? ", " : "", i && i % 5 == 0 ? "" : "", i + 1);
    str_adds(&s, ") parameter(1)\n  ROOT y = f32[2] parameter(2), metadata={op_name=\"");
    for (int i = 0; i < 1000000; i++)
        str_addc(&s, 'z');
    str_adds(&s, "\"}\n}\n");
    struct fixture f;
    start(&f);
    if (!read_hlo(&f, s.s, s.n))
        fail_msg("%s", messages(&f));
    assert_int_equal(shape_get(f.c, named(f.m, "w")->shape)->nelems, 10000);
    const char *one = printed(&f, f.m, NULL);
    struct fixture g;
    start(&g);
    assert_true(read_hlo(&g, one, strlen(one)));
    assert_true(module_equal(f.m, g.m));
    stop(&g);
    stop(&f);
    arena_free(&a);
}

/* Reads with the n-th allocation failing: whether it succeeded all the same. */
static bool read_with_failure(const char *text, int64_t n)
{
    struct ir *c = ir_new();
    struct source *src = source_of("t.hlo", text, strlen(text));
    struct fail_frame f;
    fail_nth_allocation(n);
    if (FAIL_ENTER(&f)) {
        struct module *m = hlo_read(c, src, NULL, NULL);
        fail_leave(&f);
        fail_nth_allocation(0);
        assert_non_null(m);
        module_free(m);
        ir_free(c);
        return true;
    }
    fail_nth_allocation(0);
    assert_int_equal(f.kind, FAIL_MEMORY);
    ir_free(c);
    return false;
}

/* Fails the 1st, 2nd, 3rd... allocation until reading succeeds: no crash, and nothing leaks (the
 * address sanitizer's build sees that). */
static void failed_allocations_are_survived(void **state)
{
    (void)state;
    const char *text =
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
        "  ROOT y = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=f\n}\n"
        "f {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n"
        "  ROOT r = f32[] add(p, q)\n}\n";
    int64_t n = 1;
    while (n < 2000 && !read_with_failure(text, n))
        n++;
    assert_true(n > 3 && n < 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_style_prints_back),
        cmocka_unit_test(percent_style_with_operand_shapes_prints_back),
        cmocka_unit_test(stack_frame_tables_print_back),
        cmocka_unit_test(every_kind_of_attribute_prints_back),
        cmocka_unit_test(constants_print_back),
        cmocka_unit_test(odd_spacing_reads),
        cmocka_unit_test(computations_may_come_later),
        cmocka_unit_test(attributes_in_any_order_print_in_one),
        cmocka_unit_test(shapes_left_out_are_inferred),
        cmocka_unit_test(the_entry_is_found_without_its_word),
        cmocka_unit_test(values_mean_what_they_say),
        cmocka_unit_test(mesh_groups_are_groups),
        cmocka_unit_test(built_modules_print_and_read),
        cmocka_unit_test(options_change_what_is_printed),
        cmocka_unit_test(deep_and_long_text_reads),
        cmocka_unit_test(failed_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
