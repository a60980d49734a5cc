/* blame: the change that it names, made in earnest, removes the collective; the bytes elsewhere are
 * those that it said, and the program is still proved right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"

enum { MOST_COLLECTIVES = 6 };

struct bench {
    struct document *doc;
    struct diag *d;
    struct arena arena;
    int64_t found, tried;
};

static void bench_open(struct bench *b, const char *path)
{
    *b = (struct bench){ .doc = document_new(), .d = diag_new() };
    if (!document_load(b->doc, path, NULL, b->d))
        fail_msg("%s: %s", path, b->d->msgs.n ? b->d->msgs.v[0].text : "?");
}

static void bench_close(struct bench *b)
{
    document_free(b->doc);
    diag_free(b->d);
    arena_free(&b->arena);
}

static void edit_to_mesh(struct bench *b, const char *words)
{
    struct mesh m = { .name = "" };
    assert_true(mesh_parse(document_ir(b->doc)->shardings, &b->arena, NULL, 0, words, strlen(words), &m, b->d));
    m.name = "";
    assert_true(edit_mesh(b->doc, &m, words, b->d));
}

static void edit_sharding(struct bench *b, const char *name, const char *text)
{
    instr_id *list;
    int64_t n;
    struct source at = { .name = "name", .text = name, .len = strlen(name) };
    assert_true(select_instrs(b->doc, name, strlen(name), &at, 0, true, &b->arena, &list, &n, b->d));
    const struct strategy *s = document_strategy(b->doc);
    struct ir *ir = document_ir(b->doc);
    const struct shape *shape = shape_get(ir, instr_at(document_module(b->doc), list[0])->shape);
    struct source src = { .name = "spec", .text = text, .len = strlen(text) };
    struct annotation a = { .kind = ANNOTATE_SHARD, .target = list[0], .leaf = -1 };
    struct axes_spec spec;
    size_t used;
    assert_true(sharding_spec_parse(ir->shardings, s->meshes, s->nmeshes, shape->rank, &src, 0, text, strlen(text), &used,
                                    &a.sharding, &spec, b->d));
    assert_true(edit_annotate(b->doc, 1, &a, text, "edit", b->d));
}

static instr_id loaded_for(struct bench *b, instr_id node)
{
    const struct program *p = document_program(b->doc, NULL, b->d);
    const struct propagation *prop = document_propagation(b->doc, NULL, b->d);
    instr_id source = p->notes[node.i].source;
    return source.i ? prop->graph->origin[source.i].source : source;
}

static int64_t count_for(struct bench *b, enum op_kind kind, instr_id loaded, int64_t *total)
{
    const struct collective *list;
    int64_t n, count = 0;
    assert_true(document_collectives(b->doc, &list, &n, total, NULL, b->d));
    for (int64_t k = 0; k < n; k++)
        count += list[k].kind == kind && loaded_for(b, list[k].instr).i == loaded.i;
    return count;
}

static void assert_proved(struct bench *b)
{
    struct verify_result r;
    const struct propagation *prop = document_propagation(b->doc, NULL, b->d);
    const struct program *p = document_program(b->doc, NULL, b->d);
    assert_true(verify_program(prop, p, RUN_RING, 3, 1, &r, NULL, b->d));
    assert_true(r.equal);
    verify_result_free(&r);
}

/* Makes the named change, looks, takes it back. */
static void assert_holds(struct bench *b, const struct remedy *r, enum op_kind kind, instr_id loaded, int64_t own, bool proof)
{
    int64_t before, after, count = count_for(b, kind, loaded, &before);
    assert_true(edit_annotate(b->doc, 1, &r->change, NULL, "remedy", b->d));
    assert_true(count_for(b, kind, loaded, &after) < count);
    assert_int_equal(after, r->bytes);
    assert_int_equal(after - (before - own), r->elsewhere);
    if (proof)
        assert_proved(b);
    assert_true(edit_undo(b->doc, b->d));
}

static void blame_all(struct bench *b, bool proof)
{
    const struct collective *list;
    int64_t n, total;
    assert_true(document_collectives(b->doc, &list, &n, &total, NULL, b->d));
    for (int64_t k = 0; k < n && k < MOST_COLLECTIVES; k++) {
        int64_t at = n <= MOST_COLLECTIVES ? k : k * n / MOST_COLLECTIVES;
        struct remedies r;
        assert_true(document_collectives(b->doc, &list, &n, &total, NULL, b->d));
        enum op_kind kind = list[at].kind;
        int64_t own = list[at].bytes;
        instr_id loaded = loaded_for(b, list[at].instr);
        assert_true(document_remedies(b->doc, at, false, &b->arena, &r, NULL, b->d));
        b->tried += r.n;
        if (r.best < 0)
            continue;
        b->found++;
        assert_holds(b, &r.list[r.best], kind, loaded, own, proof);
    }
}

static void test_models(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "models/mlp.json");
    edit_to_mesh(&b, "data=2 model=4");
    edit_sharding(&b, "w1", "[_,model]");
    blame_all(&b, true);
    assert_int_equal(b.found, 1); /* the sum over the hidden dimension */
    edit_sharding(&b, "x", "[data,_]");
    edit_sharding(&b, "y", "[_,model]");
    blame_all(&b, true);
    assert_true(b.found >= 2);
    bench_close(&b);

    bench_open(&b, "models/attention.json");
    edit_to_mesh(&b, "data=2 model=4");
    const struct module *m = document_module(b.doc);
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const struct shape *shape = instr_shape(m, entry->params[k]);
        const char *spec = shape->rank == 2 ? "[_,model]" : shape->rank == 3 ? "[data,_,_]" : NULL;
        if (spec)
            edit_sharding(&b, name_text(m->ir, instr_at(m, entry->params[k])->name), spec);
    }
    blame_all(&b, true);
    bench_close(&b);
}

/* The move that a constraint against the grain causes goes with the constraint: nothing else does it. */
static void test_only_one_change_helps(void **state)
{
    (void)state;
    static const char text[] = "HloModule m, num_partitions=4\n"
                               "ENTRY main {\n"
                               "  a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                               "  ROOT b = f32[8,8] custom-call(a), custom_call_target=\"Sharding\", "
                               "sharding={devices=[1,4]<=[4]}\n"
                               "}\n";
    struct bench b = { .doc = document_new(), .d = diag_new() };
    assert_true(document_load_text(b.doc, "m.hlo", text, sizeof text - 1, NULL, b.d));
    const struct collective *list;
    int64_t n, total;
    assert_true(document_collectives(b.doc, &list, &n, &total, NULL, b.d));
    assert_int_equal(n, 1);
    struct remedies r;
    assert_true(document_remedies(b.doc, 0, false, &b.arena, &r, NULL, b.d));
    assert_true(r.best >= 0);
    assert_int_equal(r.list[r.best].bytes, 0);
    assert_int_equal(r.list[r.best].elsewhere, 0);
    assert_false(r.stopped);
    for (int64_t k = 0; k < r.n; k++) /* what stays is not called gone */
        if (r.list[k].gone)
            assert_true(r.list[k].bytes < total || r.list[k].ncollectives > 0);
    blame_all(&b, true);
    bench_close(&b);
}

static void test_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool proof;
    } inputs[] = { { "conflict_small.hlo", true },       { "lora_train_small.hlo", true },
                   { "switch_axes_small.hlo", true },    { "reduce_ops_small.hlo.gz", true },
                   { "gather_scatter_small.hlo.gz", true }, { "gpt_fsdp_train_small.hlo.gz", false },
                   { "moe_model_small.hlo.gz", false },  { "llama70b_train_real.hlo.gz", false } };
    const char *shared = getenv("GSPMD_SHARED");
    int64_t met = 0, found = 0, tried = 0;
    for (size_t k = 0; k < COUNTOF(inputs); k++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/inputs/%s", shared ? shared : "../shared", inputs[k].name);
        FILE *f = fopen(path, "rb");
        if (!f)
            continue;
        (void)fclose(f);
        struct bench b;
        bench_open(&b, path);
        blame_all(&b, inputs[k].proof);
        met++;
        found += b.found;
        tried += b.tried;
        bench_close(&b);
    }
    print_message("%lld inputs: %lld collectives removed as named, %lld changes tried\n", (long long)met,
                  (long long)found, (long long)tried);
    if (!met)
        skip();
    assert_true(found > met);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_only_one_change_helps),
        cmocka_unit_test(test_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
