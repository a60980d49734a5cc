/* Memory and time after edits are those of the same strategy from scratch, and what did not change is taken from
 * the plan of the strategy before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/internal.h"

static uint64_t state_of_random = 11;

static uint32_t random_below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state_of_random >> 33) % n) : 0;
}

struct pair {
    struct document *doc, *plain; /* plain: the same edits, always from scratch */
    struct diag *d;
};

static bool pair_open(struct pair *b, const char *path, const char *axis, int64_t size, int64_t other)
{
    *b = (struct pair){ document_new(), document_new(), diag_new() };
    if (!document_load(b->doc, path, NULL, b->d) || !document_load(b->plain, path, NULL, b->d))
        return false;
    b->plain->from_scratch = true;
    for (int k = 0; k < 2; k++) {
        struct document *doc = k ? b->plain : b->doc;
        struct mesh m = { .name = "", .naxes = other > 1 ? 2 : 1, .axes = { { axis, size }, { "y", other } } };
        m.order = order_iota(document_ir(doc)->shardings, size * other);
        if (!edit_mesh(doc, &m, "mesh", NULL))
            return false;
    }
    return true;
}

static void pair_free(struct pair *b)
{
    document_free(b->doc);
    document_free(b->plain);
    diag_free(b->d);
}

/* A parameter split along one of its dimensions, or along none. */
static void annotate_both(struct pair *b, const char *axis)
{
    const struct module *m = document_module(b->doc);
    const struct computation *e = comp_at(m, m->entry);
    uint32_t param = random_below(e->nparams), dim = random_below(5);
    for (int k = 0; k < 2; k++) {
        struct document *doc = k ? b->plain : b->doc;
        const struct strategy *s = document_strategy(doc);
        const struct shape *shape = instr_shape(document_module(doc), e->params[param]);
        char text[256];
        size_t n = (size_t)snprintf(text, sizeof text, "[");
        if (shape->kind != SHAPE_ARRAY || shape->rank == 0 || shape->rank > 16)
            return;
        for (int d = 0; d < shape->rank; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", d ? "," : "", (uint32_t)d == dim ? axis : "_");
        (void)snprintf(text + n, sizeof text - n, "]");
        struct source src = { .name = "spec", .text = text, .len = strlen(text) };
        struct axes_spec spec;
        struct annotation a = { .kind = ANNOTATE_SHARD, .target = e->params[param], .leaf = -1 };
        size_t used;
        assert_true(sharding_spec_parse(document_ir(doc)->shardings, s->meshes, s->nmeshes, shape->rank, &src, 0, text, strlen(text),
                                        &used, &a.sharding, &spec, NULL));
        bool ok = edit_annotate(doc, 1, &a, text, "edit", NULL);
        (void)ok; /* what cannot be, both refuse */
    }
}

static int64_t operations(const struct cost_plan *p)
{
    int64_t n = 0;
    for (uint32_t c = 0; c < p->ncomps; c++)
        if (p->use[p->comps[c].i] == COMP_RUN)
            n += comp_at(p->module, p->comps[c])->ninstrs;
    return n;
}

static void edits_on(const char *path, const char *axis, int64_t size, int64_t other, int edits, int64_t *taken, int64_t *all)
{
    struct pair b;
    if (!pair_open(&b, path, axis, size, other))
        fail_msg("%s: %s", path, b.d->msgs.n ? b.d->msgs.v[0].text : "no mesh");
    const char *const *names = hardware_names();
    struct diag *d = diag_new();
    struct source src = { .name = names[0] };
    src.text = hardware_text(names[0], &src.len);
    struct hardware *h = hardware_read(&src, d);
    assert_non_null(h);
    for (int e = 0; e < edits; e++) {
        const struct cost_plan *p, *q;
        const struct memory *x, *y;
        assert_true(document_memory(b.doc, &p, &x, NULL, b.d));
        assert_true(document_memory(b.plain, &q, &y, NULL, b.d));
        assert_int_equal(q->taken, 0);
        assert_int_equal(x->peak, y->peak);
        assert_int_equal(x->temporaries, y->temporaries);
        assert_int_equal(x->nlive, y->nlive);
        assert_int_equal(p->greedy, q->greedy);
        assert_true(cost_flops(p, false) == cost_flops(q, false));
        struct cost *c = strategy_cost(b.doc, document_strategy(b.doc), h, 0, NULL, OVERLAP_NONE, NULL, d),
                    *f = strategy_cost(b.plain, document_strategy(b.plain), h, 0, NULL, OVERLAP_NONE, NULL, d);
        assert_non_null(c);
        assert_non_null(f);
        assert_true(c->step == f->step && c->comm == f->comm && c->bytes == f->bytes);
        cost_free(c);
        cost_free(f);
        if (p->taken) /* a strategy met before has its plan still */
            assert_true(p->visits < q->visits);
        *taken += p->taken;
        *all += operations(p);
        annotate_both(&b, axis);
    }
    hardware_free(h);
    diag_free(d);
    pair_free(&b);
}

static void costs_after_edits_are_those_from_scratch(void **state)
{
    (void)state;
    int64_t taken = 0, all = 0;
    edits_on("models/pipeline.hlo", "stage", 4, 1, 12, &taken, &all);
    edits_on("models/paper/t3_16x4.hlo.gz", "x", 16, 4, 12, &taken, &all);
    edits_on("models/paper/t5_6p47B_gpipe_16mb.hlo.gz", "stage", 8, 1, 8, &taken, &all);
    edits_on("models/paper/t6_10B.hlo.gz", "x", 32, 1, 8, &taken, &all);
    printf("40 strategies in a row: %.0f %% of the operations were taken from the plan before\n", 100 * (double)taken / (double)all);
    assert_true(taken * 10 > all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(costs_after_edits_are_those_from_scratch) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
