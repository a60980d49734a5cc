/* Plans after an edit: computations that an earlier plan has alike are taken from it. On random models of several
 * loops, partitioned before and after one annotation is changed: the plan is the one that is made from scratch, to
 * the last kernel, and only what changed is looked at anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cost/cost.h"
#include "text/text.h"

enum { LOOPS = 6 };

static uint32_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static const char *const shardings[] = { "{replicated}", "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{devices=[2,2]<=[4]}",
                                         "{devices=[2,1,2]<=[4] last_tile_dim_replicate}" };
enum { SHARDINGS = sizeof shardings / sizeof *shardings };

struct model {
    int of[LOOPS], depth[LOOPS]; /* sharding of each loop's weight, operations in its body */
    bool rounded[LOOPS];         /* its body rounds, or seems to: the same but for an attribute */
};

/* Each loop multiplies what the one before made by a weight of its own. */
static const char *text_of(const struct model *x)
{
    static char text[60000];
    size_t at = (size_t)snprintf(text, sizeof text, "HloModule m, num_partitions=4\n");
    for (int k = 0; k < LOOPS; k++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "more%d { p = (s32[], f32[64,64], f32[64,64]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                               " n = s32[] constant(%d)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n"
                               "step%d { p = (s32[], f32[64,64], f32[64,64]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                               " one = s32[] constant(1)\n j = s32[] add(i, one)\n u = f32[64,64] get-tuple-element(p), index=1\n"
                               " w = f32[64,64] get-tuple-element(p), index=2\n v0 = f32[64,64] reduce-precision(u), exponent_bits=8, mantissa_bits=%d\n",
                               k, 3 + k, k, x->rounded[k] ? 7 : 23);
        for (int d = 0; d < x->depth[k]; d++)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   " d%d = f32[64,64] dot(v%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                                   " v%d = f32[64,64] tanh(d%d)\n",
                                   d, d, d + 1, d);
        at += (size_t)snprintf(text + at, sizeof text - at, " ROOT t = (s32[], f32[64,64], f32[64,64]) tuple(j, v%d, w)\n}\n", x->depth[k]);
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "ENTRY e { y0 = f32[64,64] parameter(0), sharding={replicated}\n zero = s32[] constant(0)\n");
    for (int k = 0; k < LOOPS; k++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               " w%d = f32[64,64] parameter(%d), sharding=%s\n"
                               " t%d = (s32[], f32[64,64], f32[64,64]) tuple(zero, y%d, w%d)\n"
                               " l%d = (s32[], f32[64,64], f32[64,64]) while(t%d), condition=more%d, body=step%d\n"
                               " g%d = f32[64,64] get-tuple-element(l%d), index=1\n"
                               " y%d = f32[64,64] custom-call(g%d), custom_call_target=\"Sharding\", sharding={replicated}\n",
                               k, k + 1, shardings[x->of[k]], k, k, k, k, k, k, k, k, k, k + 1, k);
    snprintf(text + at, sizeof text - at, " ROOT r = f32[64,64] negate(y%d)\n}\n", LOOPS);
    return text;
}

struct made {
    struct module *m;
    struct graph *g;
    struct propagation *prop;
    struct program *p;
};

static struct made make(struct ir *ir, const struct model *x, struct diag *d)
{
    struct made r = { 0 };
    const char *text = text_of(x);
    /* modules borrow their text */
    static char kept[2][60000];
    static int turn;
    char *own = kept[turn++ % 2];
    snprintf(own, sizeof kept[0], "%s", text);
    r.m = module_load_text(ir, "test.hlo", own, strlen(own), NULL, d);
    if (!r.m)
        fail_msg("%s", d->msgs.n ? d->msgs.v[0].text : "does not load");
    r.g = graph_prepare(r.m, true, NULL, d);
    assert_non_null(r.g);
    struct propagation_options po = { .spmd = true };
    r.prop = propagate(r.g, &po, NULL, d);
    assert_non_null(r.prop);
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = 4;
    r.p = partition(r.prop, &o, NULL, d);
    assert_non_null(r.p);
    return r;
}

static void drop(struct made *r)
{
    program_free(r->p);
    propagation_free(r->prop);
    module_free(r->m);
}

static void same_plans(const struct cost_plan *a, const struct cost_plan *b)
{
    const struct module *m = a->module;
    assert_ptr_equal(m, b->module);
    assert_int_equal(a->greedy, b->greedy);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        assert_int_equal(a->norder[c], b->norder[c]);
        for (uint32_t k = 0; k < a->norder[c]; k++)
            assert_int_equal(a->order[c][k].i, b->order[c][k].i);
    }
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct kernel *x = &a->kernel[i], *y = &b->kernel[i];
        assert_int_equal(a->fused[i], b->fused[i]);
        assert_int_equal(a->position[i], b->position[i]);
        assert_int_equal(a->trips[i], b->trips[i]);
        assert_true(x->flops == y->flops && x->transcendentals == y->transcendentals && x->matrix_flops == y->matrix_flops);
        assert_int_equal(x->matrix.i, y->matrix.i);
        assert_int_equal(x->in_bytes, y->in_bytes);
        assert_int_equal(x->out_bytes, y->out_bytes);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(a->ext_start[i + 1] - a->ext_start[i], b->ext_start[i + 1] - b->ext_start[i]);
        for (uint32_t e = 0; e < a->ext_start[i + 1] - a->ext_start[i]; e++) {
            assert_int_equal(a->ext[a->ext_start[i] + e].i, b->ext[b->ext_start[i] + e].i);
            assert_int_equal(a->ext_bytes[a->ext_start[i] + e], b->ext_bytes[b->ext_start[i] + e]);
        }
    }
    struct memory *p = memory_of(a, NULL), *q = memory_of(b, NULL);
    assert_int_equal(p->peak, q->peak);
    assert_int_equal(p->temporaries, q->temporaries);
    assert_int_equal(p->nlive, q->nlive);
    memory_free(p);
    memory_free(q);
}

static int64_t operations(const struct cost_plan *p)
{
    int64_t n = 0;
    for (uint32_t c = 0; c < p->ncomps; c++)
        if (p->use[p->comps[c].i] == COMP_RUN)
            n += comp_at(p->module, p->comps[c])->ninstrs;
    return n;
}

static void an_edit_costs_what_it_changes(void **state)
{
    (void)state;
    int64_t anew = 0, whole = 0, changed = 0, all = 0;
    seed = 3;
    for (int round = 0; round < 150; round++) {
        struct model x;
        for (int k = 0; k < LOOPS; k++) {
            x.of[k] = (int)draw(SHARDINGS);
            x.depth[k] = 1 + (int)draw(3);
            x.rounded[k] = draw(2);
        }
        struct ir *ir = ir_new();
        struct diag *d = diag_new();
        struct made first = make(ir, &x, d);
        struct cost_plan *a = cost_plan_new(first.p->module, first.p, NULL, NULL, d);
        x.of[draw(LOOPS)] = (int)draw(SHARDINGS);
        struct made second = make(ir, &x, d);
        struct cost_plan *b = cost_plan_after(a, second.p->module, second.p, NULL, NULL, d);
        struct cost_plan *c = cost_plan_new(second.p->module, second.p, NULL, NULL, d);
        same_plans(b, c);
        anew += b->visits;
        whole += c->visits;
        all += operations(b);
        changed += operations(b) - b->taken;
        /* the entry is made anew (its weights have other shapes), and the body and condition of one loop; nothing else */
        int made = 0;
        for (uint32_t k = 0; k < b->ncomps; k++)
            made += b->use[b->comps[k].i] == COMP_RUN && !b->alike[b->comps[k].i].i;
        assert_true(made <= 3);
        if (b->taken == operations(b))
            assert_int_equal(b->visits, 0);
        cost_plan_free(a);
        cost_plan_free(b);
        cost_plan_free(c);
        drop(&first);
        drop(&second);
        ir_free(ir);
        diag_free(d);
    }
    printf("150 edits: %.0f %% of the operations changed their computation, %.0f %% were looked at anew\n", 100 * (double)changed / (double)all,
           100 * (double)anew / (double)whole);
    assert_true(anew * 2 < whole);
}

/* Other options, another context: nothing is taken. */
static void other_options_start_from_scratch(void **state)
{
    (void)state;
    struct model x = { { 0, 1, 2, 3, 1, 2 }, { 3, 3, 3, 3, 3, 3 }, { false } };
    struct ir *ir = ir_new();
    struct diag *d = diag_new();
    struct made one = make(ir, &x, d);
    struct cost_options o = { .no_fusion = true };
    struct cost_plan *a = cost_plan_new(one.p->module, one.p, NULL, NULL, d), *b = cost_plan_after(a, one.p->module, one.p, &o, NULL, d),
                     *c = cost_plan_new(one.p->module, one.p, &o, NULL, d), *same = cost_plan_after(a, one.p->module, one.p, NULL, NULL, d);
    assert_int_equal(b->taken, 0);
    same_plans(b, c);
    assert_int_equal(same->taken, operations(same));
    assert_int_equal(same->visits, 0);
    same_plans(same, a);
    cost_plan_free(a);
    cost_plan_free(b);
    cost_plan_free(c);
    cost_plan_free(same);
    drop(&one);
    ir_free(ir);
    diag_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_costs_what_it_changes),
        cmocka_unit_test(other_options_start_from_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
