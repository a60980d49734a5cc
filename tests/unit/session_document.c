/* The document: loading, strategies, undo, devices, what is kept and what is made anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "session/session.h"

static const char MLP[] =
    "HloModule mlp\n"
    "ENTRY main {\n"
    "  x = f32[8,16] parameter(0)\n"
    "  w1 = f32[16,32] parameter(1), metadata={op_name=\"params[\\'w1\\']\"}\n"
    "  h = f32[8,32] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  n = f32[8,32] negate(h)\n"
    "  w2 = f32[32,16] parameter(2)\n"
    "  ROOT y = f32[8,16] dot(n, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "}\n";

static const char EIGHT[] = "HloModule eight, num_partitions=8\n"
                            "ENTRY main {\n"
                            "  a = f32[17,4] parameter(0), sharding={devices=[8,1]<=[8]}\n"
                            "  ROOT r = f32[17,4] negate(a)\n"
                            "}\n";

static struct document *loaded(const char *text)
{
    struct document *doc = document_new();
    struct diag *d = diag_new();
    assert_true(document_load_text(doc, "test", text, strlen(text), NULL, d));
    diag_free(d);
    return doc;
}

static instr_id find(struct document *doc, const char *name)
{
    instr_id i;
    int64_t leaf;
    struct diag *d = diag_new();
    assert_true(select_tensor(doc, name, strlen(name), NULL, 0, &i, &leaf, d));
    diag_free(d);
    return i;
}

static void make_mesh(struct document *doc, const char *words)
{
    struct arena a = { 0 };
    struct mesh m = { .name = "" };
    assert_true(
        mesh_parse(document_ir(doc)->shardings, &a, NULL, 0, words, strlen(words), &m, NULL));
    m.name = "";
    assert_true(edit_mesh(doc, &m, words, NULL));
    arena_free(&a);
}

static sharding_id spec(struct document *doc, const char *text, int rank)
{
    const struct strategy *s = document_strategy(doc);
    struct axes_spec open = { 0 };
    size_t used;
    sharding_id out = { 0 };
    bool ok = sharding_spec_parse(document_ir(doc)->shardings, s->meshes, s->nmeshes, rank, NULL, 0,
                                  text, strlen(text), &used, &out, &open, NULL);
    return ok ? out : (sharding_id){ 0 };
}

static bool shard(struct document *doc, const char *name, const char *text)
{
    struct annotation a = { .kind = ANNOTATE_SHARD,
                            .target = find(doc, name),
                            .leaf = -1,
                            .sharding = spec(doc, text, 2) };
    assert_int_not_equal(a.sharding.i, 0);
    struct diag *d = diag_new();
    bool ok = edit_annotate(doc, 1, &a, text, "shard", d);
    diag_free(d);
    return ok;
}

static const char *hlo(struct document *doc, const char *name, char *buffer, size_t size)
{
    struct tensor_view v;
    struct arena a = { 0 };
    assert_true(document_view(doc, find(doc, name), 0, &v, NULL, NULL));
    struct str s = STR_IN(&a);
    if (v.sharding.i)
        sharding_print(document_ir(doc)->shardings, v.sharding, NULL, false, &s);
    snprintf(buffer, size, "%s", str_text(&s));
    arena_free(&a);
    return buffer;
}

static void a_strategy_is_a_value(void **state)
{
    (void)state;
    char text[200];
    struct document *doc = loaded(MLP);
    assert_int_equal(document_devices(doc), 0);
    make_mesh(doc, "data=2 model=4");
    assert_int_equal(document_devices(doc), 8);
    assert_true(shard(doc, "w1", "[_,model]"));
    assert_string_equal(hlo(doc, "h", text, sizeof text),
                        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    uint64_t key = document_strategy(doc)->key;
    assert_true(shard(doc, "x", "[data,_]"));
    assert_string_equal(hlo(doc, "h", text, sizeof text), "{devices=[2,4]<=[8]}");
    assert_true(edit_undo(doc, NULL));
    assert_int_equal(document_strategy(doc)->key, key);
    assert_string_equal(hlo(doc, "h", text, sizeof text),
                        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    assert_true(edit_redo(doc, NULL));
    assert_string_equal(hlo(doc, "h", text, sizeof text), "{devices=[2,4]<=[8]}");
    assert_false(edit_redo(doc, NULL));
    document_free(doc);
}

static void undo_has_no_limit_and_recomputes_little(void **state)
{
    (void)state;
    enum { EDITS = 500 };
    struct document *doc = loaded(MLP);
    make_mesh(doc, "data=2 model=4");
    uint64_t keys[EDITS + 1];
    keys[0] = document_strategy(doc)->key;
    static const char *const specs[] = { "[_,model]", "[data,_]", "[data,model]", "[model,data]" };
    for (int k = 0; k < EDITS; k++) {
        assert_true(shard(doc, k % 3 ? "w1" : "x", specs[k % 4]));
        assert_non_null(document_propagation(doc, NULL, NULL));
        keys[k + 1] = document_strategy(doc)->key;
    }
    /* Few different strategies were met: each was computed once. */
    assert_true(document_computations(doc) < 20);
    int64_t before = document_computations(doc);
    for (int k = EDITS; k > 0; k--) {
        assert_int_equal(document_strategy(doc)->key, keys[k]);
        assert_true(edit_undo(doc, NULL));
        assert_non_null(document_propagation(doc, NULL, NULL));
    }
    assert_true(document_computations(doc) <= before + 1);
    assert_true(edit_undo(doc, NULL)); /* the mesh */
    struct diag *d = diag_new();
    assert_false(edit_undo(doc, d));
    assert_string_equal(d->msgs.v[0].text, "nothing to undo");
    diag_free(d);
    document_free(doc);
}

static void options_of_the_partitioner_leave_shardings_alone(void **state)
{
    (void)state;
    struct document *doc = loaded(EIGHT);
    const struct propagation *p = document_propagation(doc, NULL, NULL);
    struct options o = document_strategy(doc)->options;
    o.partition.full = !o.partition.full;
    uint64_t key = document_strategy(doc)->key;
    assert_true(edit_options(doc, &o, "set passes", NULL));
    assert_int_not_equal(document_strategy(doc)->key, key);
    assert_ptr_equal(document_propagation(doc, NULL, NULL), p);
    o.prepare = !o.prepare;
    assert_true(edit_options(doc, &o, "set prepare", NULL));
    assert_ptr_not_equal(document_propagation(doc, NULL, NULL), p);
    document_free(doc);
}

static void a_failed_load_leaves_the_document(void **state)
{
    (void)state;
    struct document *doc = loaded(MLP);
    make_mesh(doc, "data=2 model=4");
    assert_true(shard(doc, "w1", "[_,model]"));
    const struct module *m = document_module(doc);
    const struct strategy *s = document_strategy(doc);
    struct diag *d = diag_new();
    static const char bad[] = "HloModule bad\nENTRY main {\n  ROOT x = f32[2] nonsense(y)\n}\n";
    assert_false(document_load_text(doc, "bad", bad, strlen(bad), NULL, d));
    assert_true(d->nerrors > 0);
    assert_int_equal(d->msgs.v[0].line, 3);
    diag_free(d);
    assert_ptr_equal(document_module(doc), m);
    assert_ptr_equal(document_strategy(doc), s);
    /* A good one takes the mesh over, not the annotations. */
    assert_true(document_load_text(doc, "eight", EIGHT, strlen(EIGHT), NULL, NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 0);
    assert_non_null(document_mesh(doc));
    assert_string_equal(document_mesh(doc)->axes[1].name, "model");
    assert_int_equal(document_mesh(doc)->axes[1].size, 4);
    document_free(doc);
}

static void the_number_of_devices(void **state)
{
    (void)state;
    struct document *doc = loaded(EIGHT);
    assert_int_equal(document_devices(doc), 8);
    struct arena a = { 0 };
    struct mesh m = { .name = "" };
    struct diag *d = diag_new();
    assert_true(mesh_parse(document_ir(doc)->shardings, &a, NULL, 0, "x=4", 3, &m, NULL));
    m.name = "";
    assert_false(edit_mesh(doc, &m, "mesh x=4", d));
    assert_non_null(strstr(d->msgs.v[0].text, "4 devices"));
    assert_non_null(strstr(d->msgs.v[0].text, "for 8"));
    assert_non_null(strstr(d->msgs.v[0].hint, "unshard --module"));
    assert_int_equal(document_devices(doc), 8);
    assert_true(edit_unshard_module(doc, "unshard --module", NULL));
    assert_true(edit_mesh(doc, &m, "mesh x=4", NULL));
    assert_int_equal(document_devices(doc), 4);
    diag_free(d);
    arena_free(&a);
    document_free(doc);
}

static void a_new_mesh_reads_annotations_again(void **state)
{
    (void)state;
    char text[200];
    struct document *doc = loaded(MLP);
    make_mesh(doc, "data=2 model=4");
    assert_true(shard(doc, "w1", "[_,model]"));
    make_mesh(doc, "data=4 model=2");
    assert_string_equal(hlo(doc, "w1", text, sizeof text),
                        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    /* A mesh without that axis is refused, and the document stays. */
    struct arena a = { 0 };
    struct mesh m = { .name = "" };
    struct diag *d = diag_new();
    assert_true(mesh_parse(document_ir(doc)->shardings, &a, NULL, 0, "batch=8", 7, &m, NULL));
    m.name = "";
    assert_false(edit_mesh(doc, &m, "mesh batch=8", d));
    assert_true(d->nerrors > 0);
    assert_string_equal(hlo(doc, "w1", text, sizeof text),
                        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    diag_free(d);
    arena_free(&a);
    document_free(doc);
}

static void annotations_replace_each_other(void **state)
{
    (void)state;
    struct document *doc = loaded(EIGHT);
    struct annotation a = { .kind = ANNOTATE_SHARD,
                            .target = find(doc, "r"),
                            .leaf = -1,
                            .sharding = spec(doc, "{devices=[1,8]<=[8]}", 2) };
    assert_true(edit_annotate(doc, 1, &a, "{devices=[1,8]<=[8]}", "shard r", NULL));
    a.sharding = sharding_replicated(document_ir(doc)->shardings);
    assert_true(edit_annotate(doc, 1, &a, "replicated", "shard r", NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 1);
    a.kind = ANNOTATE_UNSHARD;
    assert_true(edit_annotate(doc, 1, &a, NULL, "unshard r", NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 0);
    /* What the module says can be taken away; what nobody said cannot. */
    assert_false(edit_annotate(doc, 1, &a, NULL, "unshard r", NULL));
    a.target = find(doc, "a");
    assert_true(edit_annotate(doc, 1, &a, NULL, "unshard a", NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 1);
    /* Devices that are not there are refused. */
    a = (struct annotation){ .kind = ANNOTATE_SHARD,
                             .target = find(doc, "r"),
                             .leaf = -1,
                             .sharding = spec(doc, "{devices=[4,1]<=[4]}", 2) };
    struct diag *d = diag_new();
    assert_false(edit_annotate(doc, 1, &a, "{devices=[4,1]<=[4]}", "shard r", d));
    assert_true(d->nerrors == 1);
    assert_int_equal(document_strategy(doc)->nannotations, 1);
    diag_free(d);
    document_free(doc);
}

static void saved_strategies(void **state)
{
    (void)state;
    char text[200];
    struct document *doc = loaded(MLP);
    make_mesh(doc, "data=2 model=4");
    assert_true(edit_save(doc, "empty", NULL));
    assert_true(shard(doc, "w1", "[_,model]"));
    assert_true(edit_save(doc, "tensor", NULL));
    assert_true(edit_restore(doc, "empty", NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 0);
    assert_true(edit_restore(doc, "tensor", NULL));
    assert_string_equal(hlo(doc, "h", text, sizeof text),
                        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    assert_true(edit_undo(doc, NULL));
    assert_int_equal(document_strategy(doc)->nannotations, 0);
    struct diag *d = diag_new();
    assert_false(edit_restore(doc, "tenser", d));
    assert_non_null(strstr(d->msgs.v[0].hint, "tensor"));
    diag_free(d);
    const char *const *names;
    assert_int_equal(document_saved(doc, &names), 2);
    assert_string_equal(names[1], "tensor");
    document_free(doc);
}

static void measures(void **state)
{
    (void)state;
    struct document *doc = loaded(EIGHT);
    struct tensor_view v;
    assert_true(document_view(doc, find(doc, "a"), 0, &v, NULL, NULL));
    assert_int_equal(v.origin, ORIGIN_MODULE);
    view_measure(doc, &v);
    const struct shape *local = shape_get(document_ir(doc), v.local);
    assert_int_equal(local->dims[0], 3);
    assert_int_equal(local->dims[1], 4);
    assert_int_equal(v.tiles, 8);
    assert_int_equal(v.copies, 1);
    assert_int_equal(v.bytes, 48);
    assert_int_equal(v.padding, (24 - 17) * 4);
    assert_true(document_view(doc, find(doc, "r"), 0, &v, NULL, NULL));
    assert_int_equal(v.origin, v.sharding.i ? ORIGIN_PROPAGATED : ORIGIN_NONE);
    document_free(doc);
}

static void what_a_reshard_costs(void **state)
{
    (void)state;
    struct document *doc = loaded(EIGHT);
    const int64_t dims[] = { 16, 16 };
    const struct collective *list;
    int64_t n, total;
    shape_id shape = shape_array(document_ir(doc), dtype_find("f32", 3), 2, dims);
    const struct program *p = document_reshard(doc, shape, spec(doc, "{devices=[8,1]<=[8]}", 2),
                                               spec(doc, "replicated", 2), &list, &n, &total, NULL);
    assert_non_null(p);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].kind, OP_ALL_GATHER);
    assert_int_equal(total, 16 * 16 * 4 * 7 / 8);
    p = document_reshard(doc, shape, spec(doc, "replicated", 2),
                         spec(doc, "{devices=[8,1]<=[8]}", 2), &list, &n, &total, NULL);
    assert_non_null(p);
    assert_int_equal(n, 0);
    assert_int_equal(total, 0);
    document_free(doc);
}

static void no_devices_is_said(void **state)
{
    (void)state;
    struct document *doc = loaded(MLP);
    struct diag *d = diag_new();
    assert_null(document_program(doc, NULL, d));
    assert_string_equal(d->msgs.v[0].text, "no devices");
    assert_non_null(strstr(d->msgs.v[0].hint, "mesh"));
    diag_free(d);
    document_free(doc);
}

static void a_partitioned_dump_is_known(void **state)
{
    (void)state;
    static const char text[] = "HloModule p, num_partitions=4\n"
                               "ENTRY main_spmd {\n"
                               "  a = f32[2,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                               "  ROOT g = f32[8,4] all-gather(a), channel_id=1, "
                               "replica_groups=[1,4]<=[4], dimensions={0}, "
                               "use_global_device_ids=true\n"
                               "}\n";
    struct document *doc = loaded(text);
    assert_true(document_is_partitioned(doc));
    const struct collective *list;
    int64_t n, total;
    assert_true(document_collectives(doc, &list, &n, &total, NULL, NULL));
    assert_int_equal(n, 1);
    assert_int_equal(total, 8 * 4 * 4 * 3 / 4);
    struct diag *d = diag_new();
    assert_null(document_program(doc, NULL, d));
    assert_non_null(strstr(d->msgs.v[0].text, "already"));
    diag_free(d);
    document_free(doc);
}

/* A layer that runs out of memory half-way through a module leaves that module behind: what these
 * two tests are about is the document, so the leak checker looks away. */
#if defined(__SANITIZE_ADDRESS__)
void __lsan_disable(void);
void __lsan_enable(void);
#else
static void __lsan_disable(void)
{
}
static void __lsan_enable(void)
{
}
#endif

/* Whatever allocation fails, the call says so and the document is as it was. */
static void memory_that_is_not_there(void **state)
{
    (void)state;
    __lsan_disable();
    int failures = 0;
    for (int64_t n = 1; n < 4000; n += n < 200 ? 1 : 37) {
        struct document *doc = loaded(MLP);
        make_mesh(doc, "data=2 model=4");
        instr_id w1 = find(doc, "w1");
        struct annotation a = {
            .kind = ANNOTATE_SHARD, .target = w1, .leaf = -1, .sharding = spec(doc, "[_,model]", 2)
        };
        const struct strategy *before = document_strategy(doc);
        const struct collective *list;
        int64_t count, total;
        fail_nth_allocation(n);
        bool annotated = edit_annotate(doc, 1, &a, "[_,model]", "shard", NULL);
        bool listed = document_collectives(doc, &list, &count, &total, NULL, NULL);
        fail_nth_allocation(0);
        failures += !annotated || !listed;
        if (!annotated)
            assert_ptr_equal(document_strategy(doc), before);
        assert_true(document_collectives(doc, &list, &count, &total, NULL, NULL));
        document_free(doc);
        if (annotated && listed)
            break;
    }
    assert_true(failures > 10);
    __lsan_enable();
}

static void memory_that_is_not_there_while_loading(void **state)
{
    (void)state;
    __lsan_disable();
    struct document *doc = loaded(EIGHT);
    const struct module *m = document_module(doc);
    bool ok = false;
    int failures = 0;
    for (int64_t n = 1; n < 3000 && !ok; n++) {
        fail_nth_allocation(n);
        ok = document_load_text(doc, "mlp", MLP, strlen(MLP), NULL, NULL);
        fail_nth_allocation(0);
        failures += !ok;
        if (!ok)
            assert_ptr_equal(document_module(doc), m);
    }
    assert_true(ok);
    assert_true(failures > 10);
    document_free(doc);
    __lsan_enable();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strategy_is_a_value),
        cmocka_unit_test(undo_has_no_limit_and_recomputes_little),
        cmocka_unit_test(options_of_the_partitioner_leave_shardings_alone),
        cmocka_unit_test(a_failed_load_leaves_the_document),
        cmocka_unit_test(the_number_of_devices),
        cmocka_unit_test(a_new_mesh_reads_annotations_again),
        cmocka_unit_test(annotations_replace_each_other),
        cmocka_unit_test(saved_strategies),
        cmocka_unit_test(measures),
        cmocka_unit_test(what_a_reshard_costs),
        cmocka_unit_test(no_devices_is_said),
        cmocka_unit_test(a_partitioned_dump_is_known),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(memory_that_is_not_there_while_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
