/* A document's results after edits, undo and redo are those of the same strategy from scratch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/internal.h"

static uint64_t state_of_random = 7;

static uint32_t random_below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state_of_random >> 33) % n) : 0;
}

struct bench {
    struct document *doc, *plain; /* plain: the same edits, always from scratch */
    struct diag *d;
};

static bool print_fail(const char *text)
{
    print_message("not read: %s\n", text);
    return false;
}

static sharding_id spec_of(struct document *doc, const struct shape *shape, char *text, size_t size)
{
    static const char *const axes[] = { "_", "_", "data", "model" };
    size_t n = 0;
    bool data = false, model = false;
    n += (size_t)snprintf(text + n, size - n, "[");
    for (int d = 0; d < shape->rank; d++) {
        uint32_t k = random_below(4);
        if ((k == 2 && data) || (k == 3 && model))
            k = 0;
        data = data || k == 2;
        model = model || k == 3;
        n += (size_t)snprintf(text + n, size - n, "%s%s", d ? "," : "", axes[k]);
    }
    (void)snprintf(text + n, size - n, "]");
    struct source src = { .name = "spec", .text = text, .len = strlen(text) };
    const struct strategy *s = document_strategy(doc);
    struct axes_spec spec;
    sharding_id out;
    size_t used;
    assert_true(sharding_spec_parse(document_ir(doc)->shardings, s->meshes, s->nmeshes, shape->rank,
                                    &src, 0, text, strlen(text), &used, &out, &spec, NULL) || print_fail(text));
    return out;
}

/* Any array, any leaf of a tuple, with `open` also open dimensions. */
static void annotate_both(struct bench *b, instr_id i, enum annotation_kind kind, bool open)
{
    char text[256];
    uint64_t before = state_of_random, after = 0;
    for (int k = 0; k < 2; k++) {
        struct document *doc = k ? b->plain : b->doc;
        shape_id id = instr_at(document_module(doc), i)->shape;
        const struct shape *shape = shape_get(document_ir(doc), id);
        struct annotation a = { .kind = kind, .target = i, .leaf = -1 };
        state_of_random = before;
        if (shape->kind == SHAPE_TUPLE && shape->nleaves && kind != ANNOTATE_UNSHARD) {
            a.leaf = random_below((uint32_t)shape->nleaves);
            shape = shape_get(document_ir(doc), shape_leaf(document_ir(doc), id, a.leaf));
        }
        if (shape->kind != SHAPE_ARRAY || shape->rank == 0 || shape->rank > 16)
            return;
        if (kind != ANNOTATE_UNSHARD)
            a.sharding = spec_of(doc, shape, text, sizeof text);
        if (open)
            a.open = 1 + random_below((1u << shape->rank) - 1);
        after = state_of_random;
        bool ok = edit_annotate(doc, 1, &a, kind == ANNOTATE_UNSHARD || open ? NULL : text, "edit", NULL);
        (void)ok; /* nothing to take away: both refuse */
    }
    state_of_random = after;
}

static void same_results(struct bench *b)
{
    const struct propagation *p = document_propagation(b->doc, NULL, b->d),
                             *q = document_propagation(b->plain, NULL, b->d);
    if (!q) { /* what the annotations ask for cannot be: for both */
        assert_null(p);
        return;
    }
    assert_non_null(p);
    uint32_t n = module_ninstrs(p->graph->module);
    assert_int_equal(n, module_ninstrs(q->graph->module));
    assert_int_equal(p->nwrites, q->nwrites);
    for (uint32_t k = 1; k <= n; k++) { /* two tables of shardings: ids differ, words do not */
        struct arena tmp = { 0 };
        struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
        if (p->final[k].i)
            sharding_print(document_ir(b->doc)->shardings, p->final[k], NULL, false, &x);
        if (q->final[k].i)
            sharding_print(document_ir(b->plain)->shardings, q->final[k], NULL, false, &y);
        assert_string_equal(str_text(&x), str_text(&y));
        arena_free(&tmp);
        struct prop_writes a = prop_writes(p, (instr_id){ k }), c = prop_writes(q, (instr_id){ k });
        assert_int_equal(a.n, c.n);
        for (uint32_t w = 0; w < a.n; w++) {
            const struct prop_time *s = &a.v[w].time, *t = &c.v[w].time;
            assert_true(s->stage == t->stage && s->iteration == t->iteration && s->slot == t->slot && s->seq == t->seq);
            assert_int_equal(a.v[w].cause.i, c.v[w].cause.i);
            assert_int_equal(a.v[w].rule, c.v[w].rule);
        }
        struct tensor_view v, u;
        if (k > module_ninstrs(document_module(b->doc)))
            continue;
        assert_true(document_view(b->doc, (instr_id){ k }, 0, &v, NULL, NULL));
        assert_true(document_view(b->plain, (instr_id){ k }, 0, &u, NULL, NULL));
        assert_int_equal(v.origin, u.origin);
    }
}

static bool bench_open(struct bench *b, const char *path)
{
    *b = (struct bench){ document_new(), document_new(), diag_new() };
    if (!document_load(b->doc, path, NULL, b->d) || !document_load(b->plain, path, NULL, b->d))
        return false;
    b->plain->from_scratch = true;
    for (int k = 0; k < 2; k++) {
        struct document *doc = k ? b->plain : b->doc;
        struct mesh m = { .name = "", .naxes = 2, .axes = { { "data", 2 }, { "model", 4 } } };
        m.order = order_iota(document_ir(doc)->shardings, 8);
        if (!edit_mesh(doc, &m, "mesh", NULL))
            return false;
    }
    return true;
}

static void bench_free(struct bench *b)
{
    document_free(b->doc);
    document_free(b->plain);
    diag_free(b->d);
}

static void set_both(struct bench *b, uint32_t what)
{
    for (int k = 0; k < 2; k++) {
        struct document *doc = k ? b->plain : b->doc;
        struct options o = document_strategy(doc)->options;
        if (what % 4)
            o.to_output = (int)(what % 3) - 1;
        else
            o.to_parameters = (int)(what % 3) - 1;
        assert_true(edit_options(doc, &o, "set", NULL));
    }
}

static void edit_at_random(struct bench *b, int edits)
{
    const struct module *m = document_module(b->doc);
    same_results(b);
    for (int e = 0; e < edits; e++) {
        uint32_t what = random_below(24);
        instr_id i = { 1 + random_below(module_ninstrs(m)) };
        if (random_below(12) == 0)
            i = comp_at(m, m->entry)->root;
        if (what < 4) {
            assert_int_equal(edit_undo(b->doc, NULL), edit_undo(b->plain, NULL));
        } else if (what < 6) {
            assert_int_equal(edit_redo(b->doc, NULL), edit_redo(b->plain, NULL));
        } else if (what == 6) {
            set_both(b, random_below(12));
        } else if (what == 7 && random_below(4) == 0) {
            assert_int_equal(edit_unshard_module(b->doc, "unshard --module", NULL), edit_unshard_module(b->plain, "unshard --module", NULL));
        } else if (document_mesh(b->doc)) {
            annotate_both(b, i, what < 9 ? ANNOTATE_UNSHARD : what == 9 ? ANNOTATE_CONSTRAIN : ANNOTATE_SHARD, what == 9 && random_below(2));
        }
        same_results(b);
    }
}

static void many_edits(const char *path, int rounds, int edits, int64_t *computed, int64_t *increments)
{
    for (int round = 0; round < rounds; round++) {
        struct bench b;
        if (!bench_open(&b, path)) {
            print_message("%s cannot be opened here: skipped\n", path);
            bench_free(&b);
            return;
        }
        edit_at_random(&b, edits);
        *computed += b.doc->computations;
        *increments += b.doc->increments;
        assert_int_equal(b.plain->increments, 0);
        bench_free(&b);
    }
}

/* Dumps with loops, calls, open dimensions, manual regions, tuples; GSPMD_EDITS: edits a dump. */
static void test_dumps(void **state)
{
    (void)state;
    static const char *const names[] = { "beam_small.hlo", "cond_switch_small.hlo", "convs_small.hlo", "einsum_zoo_small.hlo", "embed_onehot_small.hlo",
                                         "conformer_small.hlo.gz", "conformer_pipe_small.hlo.gz", "dropout_rbg_small.hlo.gz", "adafactor_small.hlo" };
    const char *shared = getenv("GSPMD_SHARED"), *edits = getenv("GSPMD_EDITS");
    int64_t computed = 0, increments = 0;
    for (size_t k = 0; k < COUNTOF(names); k++) {
        char path[2048];
        (void)snprintf(path, sizeof path, "%s/inputs/%s", shared ? shared : "../shared", names[k]);
        many_edits(path, 1, edits ? atoi(edits) : 25, &computed, &increments);
    }
    print_message("%lld propagations, %lld of them increments\n", (long long)computed, (long long)increments);
    assert_true(increments * 3 >= computed);
}

static void test_models(void **state)
{
    (void)state;
    static const char *const paths[] = { "models/mlp.json", "models/attention.json",
                                         "models/transformer_layer.hlo" };
    int64_t computed = 0, increments = 0;
    for (size_t k = 0; k < COUNTOF(paths); k++)
        many_edits(paths[k], 6, 25, &computed, &increments);
    print_message("%lld propagations, %lld of them increments\n", (long long)computed,
                  (long long)increments);
    assert_true(increments * 2 > computed);
}

/* An increment outlives the result that it started from. */
static void test_base_goes_first(void **state)
{
    (void)state;
    struct bench b;
    if (!bench_open(&b, "models/transformer_layer.hlo"))
        skip();
    same_results(&b);
    for (int k = 0; k < 200; k++) { /* more than are kept */
        instr_id i = { 1 + (uint32_t)k % 20 };
        if (instr_shape(document_module(b.doc), i)->kind == SHAPE_ARRAY && instr_shape(document_module(b.doc), i)->rank > 0)
            annotate_both(&b, i, ANNOTATE_SHARD, false);
        assert_non_null(document_propagation(b.doc, NULL, b.d));
    }
    same_results(&b);
    bench_free(&b);
}

/* ---- calls that go ------------------------------------------------------------------------------------ */

static int sharding_calls(const struct module *m, instr_id *out, int most)
{
    int n = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m) && n < most; k++)
        if (instr_at(m, (instr_id){ k })->op == OP_CUSTOM_CALL && strcmp(instr_target(m, instr_at(m, (instr_id){ k })), "Sharding") == 0)
            out[n++] = (instr_id){ k };
    return n;
}

static void same_finals(const struct bench *b, const struct propagation *p, const struct propagation *q)
{
    for (uint32_t k = 1; k <= module_ninstrs(document_module(b->doc)); k++) {
        uint32_t n = p->graph->start[k + 1] - p->graph->start[k];
        assert_int_equal(n, q->graph->start[k + 1] - q->graph->start[k]);
        for (uint32_t site = 0; site < n; site++) {
            sharding_id a = p->final[p->graph->list[p->graph->start[k] + site].i], c = q->final[q->graph->list[q->graph->start[k] + site].i];
            struct arena tmp = { 0 };
            struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
            if (a.i)
                sharding_print(document_ir(b->doc)->shardings, a, NULL, false, &x);
            if (c.i)
                sharding_print(document_ir(b->plain)->shardings, c, NULL, false, &y);
            assert_string_equal(str_text(&x), str_text(&y));
            arena_free(&tmp);
        }
    }
}

/* As coverage tries: some calls are taken away, one more each time, each trial near the one before. */
static int take_calls_away(struct bench *b, const instr_id *calls, int ncalls)
{
    struct annotation list[8];
    struct trial kept = { 0 };
    int increments = 0, n = 0;
    while (n < 8 && n < ncalls) {
        struct trial fast, slow;
        list[n++] = (struct annotation){ .kind = ANNOTATE_UNSHARD, .target = calls[random_below((uint32_t)ncalls)], .leaf = -1 };
        bool ok = document_try(b->doc, n, list, &fast, NULL, NULL);
        assert_int_equal(ok, document_try(b->plain, n, list, &slow, NULL, NULL));
        if (!ok)
            break;
        increments += fast.prop->root != fast.prop;
        same_finals(b, fast.prop, slow.prop);
        trial_free(&slow);
        document_try_base(b->doc, n, list, fast.prop);
        trial_free(&kept);
        kept = fast;
    }
    document_try_base(b->doc, 0, NULL, NULL);
    trial_free(&kept);
    return increments;
}

static void test_calls_go(void **state)
{
    (void)state;
    static const char *const names[] = { "paper_layer_final_grad_small.hlo.gz", "paper_train_scan_small.hlo.gz", "moe_model_small.hlo.gz", "reshard_chain_small.hlo.gz",
                                         "sm_mlp_megatron_small.hlo", "switch_axes_small.hlo" };
    const char *shared = getenv("GSPMD_SHARED");
    int increments = 0, opened = 0;
    for (size_t k = 0; k < COUNTOF(names); k++) {
        struct bench b;
        instr_id calls[512];
        char path[2048];
        (void)snprintf(path, sizeof path, "%s/inputs/%s", shared ? shared : "../shared", names[k]);
        if (!bench_open(&b, path))
            continue;
        opened++;
        int n = sharding_calls(document_module(b.doc), calls, 512);
        same_results(&b);
        for (int round = 0; round < 6; round++)
            increments += take_calls_away(&b, calls, n);
        bench_free(&b);
    }
    print_message("%d increments\n", increments);
    assert_true(!opened || increments > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_dumps),
        cmocka_unit_test(test_base_goes_first),
        cmocka_unit_test(test_calls_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
