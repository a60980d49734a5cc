/* The driver over slots and due bits against the definition: a naive transcription of the fixed point
 * with three sets of instructions that are done. Every write must be the same, at the same time. */
#include <dirent.h>

#include "propagate/internal.h"
#include "propagate_maker.h"

struct sets {
    bool *group, *forward, *backward; /* done */
};

static void forget(struct pass *p, struct sets *s, instr_id h, instr_id h2)
{
    const struct instr *ins = instr_at(p->m, h);
    for (uint32_t k = 0; k < ins->noperands; k++)
        s->backward[ins->operands[k].i] = false;
    for (uint32_t k = 0; k < users_count(p->users, h2); k++) {
        instr_id u = users_of(p->users, h2)[k];
        comp_id called[64];
        s->forward[u.i] = false;
        int n = instr_called(p->m, u, called, 64);
        assert_true(n <= 64);
        for (int c = 0; c < n; c++)
            for (uint32_t j = 0; j < comp_at(p->m, called[c])->nparams; j++)
                s->forward[comp_at(p->m, called[c])->params[j].i] = false;
    }
    for (int64_t g = 0; p->group_of[h.i] && g < p->groups.v[p->group_of[h.i] - 1].members.n; g++) {
        instr_id x = p->groups.v[p->group_of[h.i] - 1].members.v[g];
        if (x.i != h.i)
            s->group[x.i] = false;
    }
}

static void changed(struct pass *p, struct sets *s, instr_id i)
{
    put_leaves(p);
    p->changed = true;
    computation_propagation(p, i);
    forget(p, s, i, i);
    for (int64_t k = 0; k < p->touched.n; k++)
        forget(p, s, p->touched.v[k], p->touched.v[k]);
}

static void now(struct pass *p, int stage, int sweep, uint32_t slot)
{
    p->time = (struct prop_time){ (uint8_t)stage, (uint16_t)sweep, slot, 0 };
}

static bool sweep_groups(struct pass *p, struct sets *s, const instr_id *order, uint32_t n, int stage, int sweep)
{
    bool progress = false;
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        if (s->group[i.i] || !p->group_of[i.i])
            continue;
        struct group *g = &p->groups.v[p->group_of[i.i] - 1];
        now(p, stage, sweep, p->group_slot[i.i]);
        p->rule = RULE_GROUP;
        if (p->provided[i.i]) {
            if (p->may && p->open[i.i] && open_from_group(p, i, g)) {
                forget(p, s, i, i);
                s->group[i.i] = true;
                progress = true;
            }
            continue;
        }
        s->group[i.i] = true;
        if (from_group(p, i, g)) {
            progress = true;
            changed(p, s, i);
        }
    }
    return progress;
}

static bool sweep_forward(struct pass *p, struct sets *s, const instr_id *order, uint32_t n, int stage, int sweep)
{
    bool progress = false;
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k], partner = { 0 };
        if (s->forward[i.i])
            continue;
        now(p, stage, sweep, p->facts[i.i].forward_slot);
        if (p->provided[i.i]) {
            p->rule = RULE_OPEN_FORWARD;
            if (p->may && p->open[i.i] && open_from_operand(p, i, &partner)) {
                forget(p, s, i, partner.i ? partner : i);
                s->forward[i.i] = true;
                progress = true;
            }
            continue;
        }
        s->forward[i.i] = true;
        p->rule = RULE_FORWARD;
        if (visit_forward(p, i)) {
            progress = true;
            changed(p, s, i);
        }
        put_leaves(p);
    }
    return progress;
}

static bool sweep_backward(struct pass *p, struct sets *s, const instr_id *order, uint32_t n, int stage, int sweep)
{
    bool progress = false;
    for (uint32_t k = n; k > 0; k--) {
        instr_id i = order[k - 1], partner = { 0 };
        uint8_t target = p->facts[i.i].target;
        bool conversion = target == TARGET_FULL_TO_SHARD || target == TARGET_SHARD_TO_FULL;
        if (conversion && !s->backward[i.i])
            s->backward[instr_at(p->m, i)->operands[0].i] = false;
        if (s->backward[i.i])
            continue;
        now(p, stage, sweep, p->facts[i.i].backward_slot);
        if (p->provided[i.i]) {
            p->rule = RULE_OPEN_BACKWARD;
            if (p->may && p->open[i.i] && open_from_users(p, i, &partner)) {
                forget(p, s, i, partner.i ? partner : i);
                s->backward[i.i] = true;
                if (partner.i)
                    s->backward[partner.i] = true;
                progress = true;
            }
            continue;
        }
        s->backward[i.i] = true;
        p->rule = RULE_BACKWARD;
        if (visit_backward(p, i)) {
            progress = true;
            changed(p, s, i);
        }
        put_leaves(p);
    }
    return progress;
}

static bool naive_level(struct pass *p, int stage, int level)
{
    struct sets s = { ARENA_ARRAY(p->tmp, bool, p->n + 1), ARENA_ARRAY(p->tmp, bool, p->n + 1),
                      ARENA_ARRAY(p->tmp, bool, p->n + 1) };
    p->level = level;
    p->may = p->o.spmd && level > 0;
    for (int sweep = 1; sweep < 1000; sweep++) {
        bool progress = false;
        p->sweeps++;
        for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
            uint32_t n;
            if (!comp_included(p, (comp_id){ c }))
                continue;
            const instr_id *order = comp_post_order(p->m, (comp_id){ c }, p->users, p->tmp, &n);
            progress |= sweep_groups(p, &s, order, n, stage, sweep);
            progress |= sweep_forward(p, &s, order, n, stage, sweep);
            progress |= sweep_backward(p, &s, order, n, stage, sweep);
        }
        if (!progress)
            return true;
    }
    fail_msg("no end");
    return false;
}

/* ---- comparing ---------------------------------------------------------------------------------------- */

static struct propagation *run_by(struct module *m, const struct propagation_options *o, bool prepare,
                                  struct diag *d, level_fn *level_of)
{
    struct graph *g = graph_prepare(m, prepare, NULL, d);
    assert_non_null(g);
    return propagate_by(g, o, NULL, d, level_of);
}

/* What the writes say in the end. */
static sharding_id folded(const struct propagation *p, struct shardings *t, uint32_t i, struct arena *a)
{
    sharding_id s = { 0 }, *leaves = NULL;
    int64_t n = 0;
    for (uint32_t k = 0; k < prop_writes(p, (instr_id){ i }).n; k++) {
        const struct prop_write *w = &prop_writes(p, (instr_id){ i }).v[k];
        if (w->leaf < 0) {
            s = w->after;
            leaves = NULL;
            continue;
        }
        if (!leaves) {
            const struct sharding *g = sharding_get(t, s);
            leaves = arena_copy(a, g->elems, g->nelems, sizeof *leaves);
            n = g->nelems;
        }
        assert_true(w->leaf < n);
        assert_int_equal(leaves[w->leaf].i, w->before.i);
        leaves[w->leaf] = w->after;
    }
    return leaves ? sharding_tuple(t, n, leaves) : s;
}

static void compare_runs(struct module *m, const struct propagation_options *o, bool prepare)
{
    struct diag *d = diag_new();
    struct propagation *a = run_by(m, o, prepare, d, run_level), *b = run_by(m, o, prepare, d, naive_level);
    assert_int_equal(a == NULL, b == NULL);
    if (a) {
        uint32_t n = module_ninstrs(a->graph->module);
        struct arena tmp = { 0 };
        assert_int_equal(n, module_ninstrs(b->graph->module));
        assert_int_equal(a->iterations, b->iterations);
        assert_int_equal(a->changed, b->changed);
        assert_int_equal(a->nwrites, b->nwrites);
        for (uint32_t i = 1; i <= n; i++) { /* field by field: padding is anything */
            struct prop_writes s = prop_writes(a, (instr_id){ i }), t = prop_writes(b, (instr_id){ i });
            assert_int_equal(s.n, t.n);
            for (uint32_t w = 0; w < s.n; w++) {
                const struct prop_write *x = &s.v[w], *y = &t.v[w];
                assert_true(x->time.stage == y->time.stage && x->time.iteration == y->time.iteration &&
                            x->time.slot == y->time.slot && x->time.seq == y->time.seq);
                assert_true(x->rule == y->rule && x->leaf == y->leaf && x->cause.i == y->cause.i &&
                            x->before.i == y->before.i && x->after.i == y->after.i);
            }
        }
        for (uint32_t i = 1; i <= n; i++) /* what was removed keeps what its text says */
            if (!(instr_at(a->graph->module, (instr_id){ i })->flags & INSTR_REMOVED))
                assert_int_equal(folded(a, m->ir->shardings, i, &tmp).i, a->final[i].i);
        arena_free(&tmp);
    }
    propagation_free(a);
    propagation_free(b);
    diag_free(d);
}

static void compare_text(const char *text, const char *words)
{
    struct bed b;
    bed_load(&b, text);
    struct propagation_options o = bed_options(&b, words);
    compare_runs(b.module, &o, b.prepare);
    bed_free(&b);
}

#define OPEN(d) ", backend_config=\"unspecified_dims=[" d "]\"\n"
#define P8(x)   "{devices=[" x "]<=[8] last_tile_dim_replicate}"

/* An open annotation keeps its bit until it succeeds; a conversion behind it makes its operand due. */
static void test_open_and_conversions(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\nENTRY e {\n"
        " p = f32[8,8] parameter(0), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        " q = f32[8,8] parameter(1)\n c = f32[8,8] add(p, q)\n"
        " s = f32[8,8] custom-call(c), custom_call_target=\"Sharding\", sharding=" P8("2,1,4") OPEN("1")
        " m = f32[4,8] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", "
        "sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}" OPEN("1")
        " n = f32[4,8] negate(m)\n z = f32[] constant(0)\n"
        " n2 = f32[4,8] exponential(n)\n"
        " s2 = f32[4,8] custom-call(n2), custom_call_target=\"Sharding\", "
        "sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}" OPEN("0,1")
        " b = f32[8,8] custom-call(s2), custom_call_target=\"SPMDShardToFullShape\", sharding=" P8("2,1,4") OPEN("0,1")
        " k = f32[8,8] abs(b)\n"
        " s3 = f32[8,8] custom-call(k), custom_call_target=\"Sharding\", sharding=" P8("2,1,4") OPEN("0,1")
        " w = f32[8,8] dot(s3, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " o1 = f32[4,8] custom-call(w), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " o2 = f32[8,8] custom-call(o1), custom_call_target=\"SPMDShardToFullShape\", sharding={replicated}\n"
        " ROOT o = (f32[8,8], f32[8,8]) tuple(o2, k)\n}\n";
    compare_text(text, "");
    compare_text(text, "out=1 par=1,1");
    compare_text(text, "nospmd");
}

static void test_groups_and_loops(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\n"
        "icond {\n ic = (f32[8,8], f32[8,8]) parameter(0)\n ROOT ir = pred[] constant(false)\n}\n"
        "ibody {\n iv = (f32[8,8], f32[8,8]) parameter(0)\n i0 = f32[8,8] get-tuple-element(iv), index=0\n"
        " i1 = f32[8,8] get-tuple-element(iv), index=1\n in = f32[8,8] negate(i1)\n"
        " ROOT it = (f32[8,8], f32[8,8]) tuple(in, i0)\n}\n"
        "cond {\n cc = (f32[8,8], f32[8,8]) parameter(0)\n ROOT cr = pred[] constant(false)\n}\n"
        "body {\n v = (f32[8,8], f32[8,8]) parameter(0)\n"
        " iw = (f32[8,8], f32[8,8]) while(v), condition=icond, body=ibody\n"
        " g0 = f32[8,8] get-tuple-element(iw), index=0\n g1 = f32[8,8] get-tuple-element(iw), index=1\n"
        " d = f32[8,8] dot(g0, g1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " da = f32[8,8] custom-call(d), custom_call_target=\"Sharding\", sharding={unknown shard_as 1}\n"
        " ROOT t = (f32[8,8], f32[8,8]) tuple(da, g1)\n}\n"
        "f {\n fa = f32[8,8] parameter(0)\n ROOT fr = f32[8,8] reverse(fa), dimensions={0}\n}\n"
        "ENTRY e {\n p = f32[8,8] parameter(0), sharding=" P8("2,1,4") "\n"
        " q = f32[8,8] parameter(1), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        " pa = f32[8,8] abs(p)\n pb = f32[8,8] custom-call(pa), custom_call_target=\"Sharding\", sharding={unknown shard_as 1}\n"
        " x = (f32[8,8], f32[8,8]) tuple(pb, q)\n w = (f32[8,8], f32[8,8]) while(x), condition=cond, body=body\n"
        " h0 = f32[8,8] get-tuple-element(w), index=0\n h1 = f32[8,8] get-tuple-element(w), index=1\n"
        " k = f32[8,8] call(h0), to_apply=f\n"
        " l = f32[8,8] custom-call(k), custom_call_target=\"Sharding\", sharding={unknown shard_like 2}\n"
        " m = f32[8,8] abs(h1)\n m2 = f32[8,8] custom-call(m), custom_call_target=\"Sharding\", sharding={unknown shard_like 2}\n"
        " ROOT o = (f32[8,8], f32[8,8]) tuple(l, m2)\n}\n";
    compare_text(text, "");
    compare_text(text, "out=1 par=1,1");
    compare_text(text, "prepare out=1,0");
    compare_text(text, "nospmd out=1");
}

/* Shardings here and there on modules made up. */
static void test_made_up(void **state)
{
    (void)state;
    const char *times = getenv("GSPMD_MODULES");
    for (int k = 0; k < (times ? atoi(times) : 1500); k++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        struct bed b;
        make_module(&s, k % 4 == 3);
        bed_load(&b, str_text(&s));
        for (uint32_t j = 1 + random_below(5); j > 0; j--) {
            instr_id i = { 1 + random_below(module_ninstrs(b.module)) };
            if (may_edit(b.module, i) && strcmp(instr_target(b.module, instr_at(b.module, i)), "Sharding") != 0)
                instr_at(b.module, i)->sharding = any_sharding(&b, instr_at(b.module, i), 8);
        }
        struct propagation_options o = { .spmd = k % 7 != 6,
                                         .nto_output = b.module->nto_output,
                                         .to_output = b.module->to_output,
                                         .nto_parameters = b.module->nto_parameters,
                                         .to_parameters = b.module->to_parameters };
        compare_runs(b.module, &o, k / 2 % 2);
        bed_free(&b);
        arena_free(&a);
    }
}

/* Real dumps, where they are at hand. */
static void test_dumps(void **state)
{
    (void)state;
    const char *shared = getenv("GSPMD_SHARED");
    char folder[2048], path[4096];
    int n = 0;
    (void)snprintf(folder, sizeof folder, "%s/inputs", shared ? shared : "../shared");
    DIR *dir = opendir(folder);
    if (!dir) {
        print_message("no dumps in %s: skipped\n", folder);
        skip();
        return;
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t len = strlen(e->d_name);
        if (len < 10 || strcmp(e->d_name + len - 10, "_small.hlo") != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        struct bed b = { .ir = ir_new(), .diag = diag_new() };
        b.module = module_load(b.ir, path, NULL, b.diag);
        assert_non_null(b.module);
        struct propagation_options o = { .spmd = true,
                                         .nto_output = b.module->nto_output,
                                         .to_output = b.module->to_output,
                                         .nto_parameters = b.module->nto_parameters,
                                         .to_parameters = b.module->to_parameters };
        compare_runs(b.module, &o, true);
        bed_free(&b);
        n++;
    }
    (void)closedir(dir);
    print_message("%d dumps\n", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_conversions),
        cmocka_unit_test(test_groups_and_loops),
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_dumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
