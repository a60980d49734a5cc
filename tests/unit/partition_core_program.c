/* Whole programs: counters that do not know the number of devices, control flow, manual regions,
 * refusals, reduce-scatters, rotations, the list of collectives. */
#include "partition_core.h"

#include <inttypes.h>

static void accepted(struct setup *t, const char *text, int64_t devices)
{
    setup_partition(t, text, devices, NULL);
    if (!t->program)
        fail_msg("%s", setup_said(t));
    struct diag *d = diag_new();
    if (!module_verify(t->program->module, d))
        fail_msg("not a valid program: %s", d->msgs.v[0].text);
    diag_free(d);
}

static const char *printed(struct setup *t)
{
    struct str s = STR_IN(&t->arena);
    if (!hlo_print(t->program->module, NULL, &s))
        fail_msg("the program cannot be printed");
    return str_text(&s);
}

/* ---- counters ------------------------------------------------------------------------------------------- */

/* Two products, a reduction and reshards of every kind on a mesh of a x b devices. */
static void mesh_program(struct setup *t, int64_t a, int64_t b, bool transposed)
{
    char text[4000], rows[160], order[64];
    int64_t n = a * b;
    (void)snprintf(order, sizeof order, transposed ? "<=[%" PRId64 ",%" PRId64 "]T(1,0)"
                                                   : "<=[%" PRId64 "]",
                   transposed ? b : n, a);
    (void)snprintf(rows, sizeof rows, "devices=[%" PRId64 ",1,%" PRId64 "]%s", a, b, order);
    (void)snprintf(
        text, sizeof text,
        "HloModule m\n"
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        "ENTRY e {\n"
        "  x = f32[4194304,4194304] parameter(0), sharding={%s last_tile_dim_replicate}\n"
        "  w = f32[4194304,4194304] parameter(1), sharding={devices=[%" PRId64 ",%" PRId64 "]%s}\n"
        "  h = f32[4194304,4194304] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[%" PRId64 ",%" PRId64 "]%s}\n"
        "  g = f32[4194304,4194304] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "sharding={%s last_tile_dim_replicate}\n"
        "  c = f32[] constant(0), sharding={replicated}\n"
        "  r = f32[4194304] reduce(g, c), dimensions={1}, to_apply=add, sharding={replicated}\n"
        "  t = f32[4194304,4194304] transpose(g), dimensions={1,0}, sharding={devices=[1,%" PRId64
        "]<=[%" PRId64 "]}\n"
        "  p = f32[4194304,4194304] copy(w), sharding={devices=[%" PRId64 ",%" PRId64 "]<=[%" PRId64
        ",%" PRId64 "]T(1,0)}\n"
        "  ROOT o = (f32[4194304], f32[4194304,4194304], f32[4194304,4194304]) tuple(r, t, p), "
        "sharding={{replicated}, {devices=[1,%" PRId64 "]<=[%" PRId64 "]}, {devices=[%" PRId64
        ",%" PRId64 "]<=[%" PRId64 ",%" PRId64 "]T(1,0)}}\n}\n",
        rows, a, b, order, a, b, order, rows, n, n, a, b, b, a, n, n, a, b, b, a);
    accepted(t, text, n);
}

static void test_counters(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        struct setup small, large;
        mesh_program(&small, 2, 4, transposed);
        mesh_program(&large, 512, 2048, transposed);
        assert_int_equal(small.program->nodes, large.program->nodes);
        assert_int_equal(module_bytes(small.program->module), module_bytes(large.program->module));
        assert_int_equal(small.program->arena.bytes, large.program->arena.bytes);
        assert_int_equal(shardings_explicit_count(large.ir->shardings), 0);
        struct collective *a, *b;
        int64_t total, n = collectives_list(small.program->module, 8, 1, &small.arena, &a, &total);
        assert_int_equal(n, collectives_list(large.program->module, 1 << 20, 1, &large.arena, &b,
                                             &total));
        assert_true(n >= 4);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(a[i].kind, b[i].kind);
        assert_int_equal(small.arena.bytes, large.arena.bytes);
        setup_free(&small);
        setup_free(&large);
    }
}

/* 1,000,000 devices and rows that they do not divide. */
static void test_uneven_million(void **state)
{
    (void)state;
    int64_t bytes[2];
    for (int k = 0; k < 2; k++) {
        char text[1000];
        int64_t n = k ? 1000000 : 6;
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n"
                       "  p = s32[3000001,7] parameter(0), sharding={devices=[%" PRId64 ",1]<=[%" PRId64
                       "]}\n  q = s32[3000001,7] negate(p), sharding={devices=[%" PRId64
                       ",1]<=[%" PRId64 "]}\n"
                       "  ROOT r = s32[3000001,7] copy(q), sharding={replicated}\n}\n",
                       n, n, n, n);
        struct setup t;
        accepted(&t, text, n);
        assert_int_equal(count_op(t.program, OP_ALL_GATHER), 1);
        bytes[k] = module_bytes(t.program->module);
        setup_free(&t);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* ---- names and notes -------------------------------------------------------------------------------------- */

static void test_program_text(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\nENTRY main {\n"
             "  x = f32[16,32] parameter(0), sharding={devices=[1,4]<=[4]}\n"
             "  w = f32[32,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
             "  ROOT y = f32[16,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
             "sharding={replicated}\n}\n",
             4);
    const struct module *m = t.program->module;
    assert_int_equal(m->num_partitions, 4);
    assert_string_equal(name_text(t.ir, comp_at(m, m->entry)->name), "main_spmd");
    const char *text = printed(&t);
    assert_non_null(strstr(text, "x = f32[16,8] parameter(0), sharding={devices=[1,4]<=[4]}"));
    assert_non_null(strstr(text, "all-reduce(dot.1), channel_id=1, replica_groups=[1,4]<=[4], "
                                 "use_global_device_ids=true"));
    instr_id sum = comp_at(m, m->entry)->root;
    const struct node_note *note = &t.program->notes[sum.i];
    assert_string_equal(name_text(t.ir, instr_at(t.shardings->graph->module, note->source)->name), "y");
    assert_non_null(note->reason);
    assert_int_equal(t.program->nremats, 0);
    setup_free(&t);
}

static void test_remat_note(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\nENTRY e {\n  p = s32[12,12] parameter(0), sharding={devices=[3,2]<=[6]}\n"
             "  ROOT c = s32[12,12] copy(p), sharding={devices=[2,3]<=[6]}\n}\n",
             6);
    assert_int_equal(t.program->nremats, 1);
    assert_false(t.program->remats[0].fallback);
    struct str from = STR_IN(&t.arena);
    sharding_print(t.ir->shardings, t.program->remats[0].from, NULL, false, &from);
    assert_string_equal(str_text(&from), "{devices=[3,2]<=[6]}");
    setup_free(&t);
}

/* Two replicas of two partitions: sums and gathers get a group a replica, exchanges keep
 * theirs. */
static void test_replicas(void **state)
{
    (void)state;
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    o.replica_count = 2;
    struct setup t;
    setup_partition(&t,
                    "HloModule m\n"
                    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
                    "ENTRY e {\n  x = f32[4,4] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                    "  c = f32[] constant(0), sharding={replicated}\n"
                    "  s = f32[4] reduce(x, c), dimensions={0}, to_apply=add, sharding={replicated}\n"
                    "  g = f32[4,4] copy(x), sharding={replicated}\n"
                    "  a = f32[4,4] copy(x), sharding={devices=[1,2]<=[2]}\n"
                    "  p = f32[4,4] copy(x), sharding={devices=[2,1]1,0}\n"
                    "  ROOT t = (f32[4], f32[4,4], f32[4,4], f32[4,4]) tuple(s, g, a, p), "
                    "sharding={{replicated}, {replicated}, {devices=[1,2]<=[2]}, {devices=[2,1]1,0}}\n}\n",
                    2, &o);
    assert_non_null(t.program);
    assert_int_equal(t.program->module->replica_count, 2);
    struct collective *list;
    int64_t total, n = collectives_list(t.program->module, 2, 2, &t.arena, &list, &total);
    assert_int_equal(n, 4);
    for (int64_t i = 0; i < n; i++) {
        bool both = list[i].kind == OP_ALL_REDUCE || list[i].kind == OP_ALL_GATHER;
        if (list[i].kind == OP_COLLECTIVE_PERMUTE) {
            assert_int_equal(list[i].group_size, 2);
            continue;
        }
        assert_int_equal(list[i].ngroups, both ? 2 : 1);
        assert_int_equal(list[i].group_size, 2);
        for (int64_t c = 0; c < (both ? 4 : 2); c++)
            assert_int_equal(order_device(t.ir->shardings, list[i].groups.order, c), c);
    }
    setup_free(&t);
}

/* ---- control flow ------------------------------------------------------------------------------------------- */

static const char *const loop =
    "HloModule m\n"
    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
    "cond {\n  p = (s32[], f32[8,8]) parameter(0), sharding={{replicated}, {devices=[4,1]<=[4]}}\n"
    "  i = s32[] get-tuple-element(p), index=0, sharding={replicated}\n"
    "  n = s32[] constant(5), sharding={replicated}\n"
    "  ROOT lt = pred[] compare(i, n), direction=LT, sharding={replicated}\n}\n"
    "body {\n  p = (s32[], f32[8,8]) parameter(0), sharding={{replicated}, {devices=[4,1]<=[4]}}\n"
    "  i = s32[] get-tuple-element(p), index=0, sharding={replicated}\n"
    "  x = f32[8,8] get-tuple-element(p), index=1, sharding={devices=[4,1]<=[4]}\n"
    "  one = s32[] constant(1), sharding={replicated}\n"
    "  j = s32[] add(i, one), sharding={replicated}\n"
    "  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  ROOT t = (s32[], f32[8,8]) tuple(j, y), sharding={{replicated}, {devices=[4,1]<=[4]}}\n}\n"
    "ENTRY e {\n  x = f32[8,8] parameter(0), sharding={replicated}\n"
    "  z = s32[] constant(0), sharding={replicated}\n"
    "  t = (s32[], f32[8,8]) tuple(z, x), sharding={{replicated}, {replicated}}\n"
    "  w = (s32[], f32[8,8]) while(t), condition=cond, body=body, "
    "sharding={{replicated}, {devices=[4,1]<=[4]}}\n"
    "  ROOT r = f32[8,8] get-tuple-element(w), index=1, sharding={replicated}\n}\n";

static void test_while(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t, loop, 4);
    struct collective *list;
    int64_t total, n = collectives_list(t.program->module, 4, 1, &t.arena, &list, &total);
    assert_int_equal(n, 2);
    /* In the loop: the right operand, 5 times 3/4 of 256 bytes; behind it once. */
    assert_int_equal(list[0].kind, OP_ALL_GATHER);
    assert_int_equal(list[0].trip_count, 5);
    assert_true(list[0].trip_known);
    assert_int_equal(list[0].bytes, 5 * 192);
    assert_int_equal(list[1].trip_count, 1);
    assert_int_equal(list[1].bytes, 192);
    assert_int_equal(total, 6 * 192);
    const struct instr *w = NULL;
    for (uint32_t i = 1; i <= module_ninstrs(t.program->module); i++)
        if (instr_at(t.program->module, (instr_id){ i })->op == OP_WHILE)
            w = instr_at(t.program->module, (instr_id){ i });
    assert_non_null(w);
    struct str s = STR_IN(&t.arena);
    shape_print(t.ir, w->shape, false, &s);
    assert_string_equal(str_text(&s), "(s32[], f32[2,8])");
    setup_free(&t);
}

static void test_conditional(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\n"
             "yes {\n  p = s32[4] parameter(0), sharding={replicated}\n"
             "  ROOT n = s32[4] negate(p), sharding={devices=[2]<=[2]}\n}\n"
             "no {\n  p = s32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
             "  ROOT c = s32[4] copy(p), sharding={replicated}\n}\n"
             "ENTRY e {\n  q = pred[] parameter(0), sharding={replicated}\n"
             "  x = s32[4] parameter(1), sharding={replicated}\n"
             "  y = s32[4] parameter(2), sharding={devices=[2]<=[2]}\n"
             "  ROOT r = s32[4] conditional(q, x, y), true_computation=yes, false_computation=no, "
             "sharding={devices=[2]<=[2]}\n}\n",
             2);
    struct collective *list;
    int64_t total, n = collectives_list(t.program->module, 2, 1, &t.arena, &list, &total);
    /* What the copy gathers is cut again behind it. */
    assert_int_equal(n, 1);
    assert_int_equal(list[0].kind, OP_ALL_GATHER);
    assert_int_equal(list[0].branch, 1);
    struct str s = STR_IN(&t.arena);
    shape_print(t.ir, instr_at(t.program->module, comp_at(t.program->module,
                                                          t.program->module->entry)->root)->shape,
                false, &s);
    assert_string_equal(str_text(&s), "s32[2]");
    setup_free(&t);
}

/* ---- manual regions --------------------------------------------------------------------------------------------- */

static void test_manual_region(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\n"
             "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
             "ENTRY e {\n  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"
             "  s = f32[2,4] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
             "  a = f32[2,4] all-reduce(s), channel_id=7, replica_groups={{0,1},{2,3}}, "
             "use_global_device_ids=true, to_apply=add, sharding={manual}\n"
             "  i = u32[] partition-id(), sharding={manual}\n"
             "  f = f32[] convert(i), sharding={manual}\n"
             "  b = f32[2,4] broadcast(f), dimensions={}, sharding={manual}\n"
             "  m = f32[2,4] multiply(a, b), sharding={manual}\n"
             "  ROOT r = f32[8,4] custom-call(m), custom_call_target=\"SPMDShardToFullShape\", "
             "sharding={devices=[4,1]<=[4]}\n}\n",
             4);
    assert_string_equal(setup_collectives(&t), "all-reduce f32[2,4] 2");
    assert_non_null(strstr(printed(&t), "channel_id=7, replica_groups=[2,2]<=[4]"));
    assert_int_equal(count_op(t.program, OP_PARTITION_ID), 1);
    setup_free(&t);
}

/* A reduction inside a region that is manual over one axis runs in the groups of the other: X-107. */
static void test_manual_subgroup(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\n"
             "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
             "ENTRY e {\n"
             "  x = f32[8,4] parameter(0), sharding={devices=[2,1,2]0,2,1,3 last_tile_dims={manual}}\n"
             "  c = f32[] constant(0), sharding={devices=[2,2]<=[4] last_tile_dims={manual,replicated}}\n"
             "  ROOT r = f32[4] reduce(x, c), dimensions={0}, to_apply=add, "
             "sharding={devices=[1,2,2]<=[4] last_tile_dims={manual,replicated}}\n}\n",
             4);
    struct collective *list;
    int64_t total, n = collectives_list(t.program->module, 4, 1, &t.arena, &list, &total);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].kind, OP_ALL_REDUCE);
    assert_int_equal(list[0].ngroups, 2);
    assert_int_equal(order_device(t.ir->shardings, list[0].groups.order, 0), 0);
    assert_int_equal(order_device(t.ir->shardings, list[0].groups.order, 1), 1);
    setup_free(&t);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void refused(const char *text, const char *with)
{
    struct setup t;
    setup_partition(&t, text, 4, NULL);
    assert_null(t.program);
    if (!strstr(setup_said(&t), with))
        fail_msg("said \"%s\", expected \"%s\"", setup_said(&t), with);
    assert_string_equal(t.diag->msgs.v[0].code, "partition");
    assert_true(t.diag->msgs.v[0].line > 0);
    setup_free(&t);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("HloModule m\nENTRY e {\n  ROOT p = u32[] partition-id(), sharding={replicated}\n}\n",
            "partition-id means one device, but this value is not manual");
    refused("HloModule m\nENTRY e {\n  x = f32[4] parameter(0), sharding={replicated}\n"
            "  ROOT c = f32[4] custom-call(x), custom_call_target=\"f\", "
            "custom_call_has_side_effect=true\n}\n",
            "has a side effect and needs a sharding");
    refused("HloModule m\nENTRY e {\n  x = f32[4] parameter(0), sharding={replicated}\n"
            "  ROOT c = f32[4] custom-call(x), custom_call_target=\"f\", "
            "custom_call_has_side_effect=true, sharding={replicated}\n}\n",
            "has a side effect and cannot be replicated");
    refused("HloModule m\n"
            "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
            "ENTRY e {\n  x = f32[8] parameter(0), "
            "sharding={devices=[1,2,2]0,2,1,3 last_tile_dims={manual,replicated}}\n"
            "  ROOT a = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,3},{1,2}}, "
            "use_global_device_ids=true, to_apply=add, "
            "sharding={devices=[2,2]0,2,1,3 last_tile_dims={manual}}\n}\n",
            "Manual all-reduce across devices that belong to different manual subgroups");
}

/* The program's result is the product of its parameters, as far as its devices hold it. */
static void check_product(struct setup *t)
{
    struct machine k;
    run_program(&k, t->program);
    const struct program *p = t->program;
    const struct shape *xs = shape_get(t->ir, p->param_shape[0]), *ws = shape_get(t->ir, p->param_shape[1]);
    const struct shape *ys = shape_get(t->ir, p->result_shape);
    for (int64_t d = 0; d < k.devices; d++) {
        const struct tensor *r = value_of(&k, comp_at(k.m, k.m->entry)->root, d);
        for (int64_t i = 0; i < r->n; i++) {
            int64_t local[MAX_DIMS] = { 0 }, at[MAX_DIMS] = { 0 }, sum = 0;
            unravel(r, i, local);
            if (!global_index(t->ir->shardings, p->result_sharding, ys, d, local, at))
                continue;
            for (int64_t a = 0; a < xs->dims[1]; a++)
                for (int64_t b = 0; b < xs->dims[2]; b++) {
                    int64_t xi[3] = { at[0], a, b }, wi[3] = { a, b, at[1] };
                    sum += element(xs, xi, 0) * element(ws, wi, 1);
                }
            assert_int_equal(r->v[i], sum);
        }
    }
    arena_free(&k.arena);
}

/* ---- passes=full --------------------------------------------------------------------------------------------------- */

/* A product over two dimensions, each split over one axis of a 2 x 2 mesh, or over one of both: what
 * is cut again is scattered, what is left in a row is one sum. */
static void test_reduce_scatter(void **state)
{
    (void)state;
    static const struct {
        const char *x, *w, *y, *collectives;
    } rows[] = {
        { "devices=[1,4,1]<=[4]", "devices=[4,1,1]<=[4]", "devices=[4,1]<=[4]", "reduce-scatter s32[4,8] 4" },
        { "devices=[1,4,1]<=[4]", "devices=[4,1,1]<=[4]", "devices=[1,4]<=[4]", "reduce-scatter s32[16,2] 4" },
        { "devices=[1,4,1]<=[4]", "devices=[4,1,1]<=[4]", "devices=[4,1]0,1,3,2",
          "all-reduce s32[16,8] 4" },
        { "devices=[1,4,1]<=[4]", "devices=[4,1,1]<=[4]", "devices=[4,1]<=[2,2]T(1,0)",
          "reduce-scatter s32[4,8] 4" },
        { "devices=[1,4,1]<=[4]", "devices=[4,1,1]<=[4]", "replicated", "all-reduce s32[16,8] 4" },
        { "devices=[1,2,2]<=[4]", "devices=[2,2,1]<=[4]", "replicated", "all-reduce s32[16,8] 4" },
        { "devices=[1,2,2]<=[4]", "devices=[2,2,1]<=[4]", "devices=[4,1]<=[4]", "reduce-scatter s32[4,8] 4" },
        { "devices=[1,2,2]<=[4]", "devices=[2,2,1]<=[4]",
          "devices=[2,1,2]<=[4] last_tile_dim_replicate",
          "reduce-scatter s32[8,8] 2; all-reduce s32[8,8] 2" },
        { "devices=[1,2,2]<=[4]", "devices=[2,2,1]<=[4]",
          "devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate",
          "reduce-scatter s32[16,4] 2; all-reduce s32[16,4] 2" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        char text[1000];
        struct setup t;
        struct partition_options o;
        partition_options_default(&o);
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n  x = s32[16,4,4] parameter(0), sharding={%s}\n"
                       "  w = s32[4,4,8] parameter(1), sharding={%s}\n"
                       "  ROOT y = s32[16,8] dot(x, w), lhs_contracting_dims={1,2}, "
                       "rhs_contracting_dims={0,1}, sharding={%s}\n}\n",
                       rows[i].x, rows[i].w, rows[i].y);
        setup_partition(&t, text, 4, &o);
        assert_non_null(t.program);
        const char *got = setup_collectives(&t);
        if (strcmp(got, rows[i].collectives) != 0)
            fail_msg("%s x %s -> %s: %s, expected %s", rows[i].x, rows[i].w, rows[i].y, got,
                     rows[i].collectives);
        check_product(&t);
        setup_free(&t);
    }
}

/* A sum over one axis of a mesh that is cut along the same axis, along the other, along both. */
static void test_sum_then_cut(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "devices=[2,2]<=[4] last_tile_dim_replicate", "reduce-scatter f32[4] 2" },
        { "devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate", "all-reduce f32[8] 2" },
        { "devices=[4]<=[4]", "all-reduce f32[8] 2" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        char text[1000];
        struct setup t;
        struct partition_options o;
        partition_options_default(&o);
        (void)snprintf(
            text, sizeof text,
            "HloModule m\n"
            "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
            "ENTRY e {\n"
            "  x = f32[16,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
            "  c = f32[] constant(0), sharding={replicated}\n"
            "  ROOT r = f32[8] reduce(x, c), dimensions={0}, to_apply=add, sharding={%s}\n}\n",
            rows[i][0]);
        setup_partition(&t, text, 4, &o);
        assert_non_null(t.program);
        assert_string_equal(setup_collectives(&t), rows[i][1]);
        setup_free(&t);
    }
}

/* A custom call with a side effect stays though nobody uses it. */
static void test_side_effect_stays(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\nENTRY e {\n  x = f32[4] parameter(0), sharding={replicated}\n"
             "  c = f32[4] custom-call(x), custom_call_target=\"f\", "
             "custom_call_has_side_effect=true, sharding={maximal device=1}\n"
             "  ROOT y = f32[4] negate(x), sharding={replicated}\n}\n",
             4);
    assert_int_equal(count_op(t.program, OP_CONDITIONAL), 1); /* S-160: on its device only */
    assert_int_equal(count_op(t.program, OP_CUSTOM_CALL), 1);
    setup_free(&t);
}

/* ---- patterns ---------------------------------------------------------------------------------------------------------- */

static void test_rotation(void **state)
{
    (void)state;
    static const struct {
        int64_t size, amount, permutes;
    } rows[] = { { 12, 2, 1 }, { 12, 3, 1 }, { 12, 5, 2 }, { 10, 6, 3 }, { 6, 2, 1 }, { 7, 1, 2 } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        char text[1000];
        struct setup t;
        int n = (int)rows[i].size, a = (int)rows[i].amount;
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n  x = s32[%d] parameter(0), sharding={devices=[4]<=[4]}\n"
                       "  b = s32[%d] slice(x), slice={[%d:%d]}, sharding={devices=[4]<=[4]}\n"
                       "  c = s32[%d] slice(x), slice={[0:%d]}, sharding={devices=[4]<=[4]}\n"
                       "  ROOT r = s32[%d] concatenate(b, c), dimensions={0}, "
                       "sharding={devices=[4]<=[4]}\n}\n",
                       n, a, n - a, n, n - a, n - a, n);
        accepted(&t, text, 4);
        assert_int_equal(count_op(t.program, OP_ALL_GATHER), 0);
        assert_int_equal(count_op(t.program, OP_COLLECTIVE_PERMUTE), rows[i].permutes);
        struct machine k;
        run_program(&k, t.program);
        instr_id root = comp_at(t.program->module, t.program->module->entry)->root;
        const struct shape *base = shape_get(t.ir, t.program->result_shape);
        int64_t shard = ceil_div(n, 4);
        for (int64_t g = 0; g < n; g++) {
            int64_t from = (g - a + n) % n;
            assert_int_equal(value_of(&k, root, g / shard)->v[g % shard], element(base, &from, 0));
        }
        arena_free(&k.arena);
        setup_free(&t);
    }
}

/* A custom call's result lies as the text says, in tuples too; other values have no layout. */
static void layouts_of_custom_calls(void **state)
{
    (void)state;
    struct setup t;
    accepted(&t,
             "HloModule m\nENTRY e {\n"
             "  p = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}\n"
             "  d = f32[4,8]{0,1} custom-call(p), custom_call_target=\"f\", sharding={replicated}\n"
             "  g = (f32[4,8]{0,1}, f32[8]{0}) custom-call(d), custom_call_target=\"g\", sharding={{replicated},{replicated}}\n"
             "  h = f32[4,8]{0,1} get-tuple-element(g), index=0, sharding={replicated}\n"
             "  ROOT n = f32[4,8]{0,1} negate(h), sharding={replicated}\n}\n", 2);
    const char *text = printed(&t);
    assert_non_null(strstr(text, " = f32[4,8]{0,1} custom-call("));
    assert_non_null(strstr(text, " = (f32[4,8]{0,1}, f32[8]{0}) custom-call("));
    assert_non_null(strstr(text, " = f32[4,8] negate("));
    setup_free(&t);
}

int main(void)
{
    fail_abort_on_invariant(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),        cmocka_unit_test(test_uneven_million),
        cmocka_unit_test(test_program_text),    cmocka_unit_test(test_remat_note),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_while),           cmocka_unit_test(test_conditional),
        cmocka_unit_test(test_manual_region),   cmocka_unit_test(test_manual_subgroup),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_sum_then_cut),    cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_side_effect_stays),
        cmocka_unit_test(layouts_of_custom_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
