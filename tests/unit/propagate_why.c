/* Chains of causes and what else was offered. */
#include "propagate_support.h"

static const char mlp[] =
    "HloModule m\n" COMMON_COMPUTATIONS "ENTRY e {\n x = f32[8,16] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
    " w = f32[16,32] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
    " d = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " t = f32[32,8] transpose(d), dimensions={1,0}\n n = f32[32,8] tanh(t)\n z = f32[] constant(0)\n"
    " r = f32[8] reduce(n, z), dimensions={0}, to_apply=sum\n v = f32[8] parameter(2)\n c = f32[8] negate(v)\n"
    " a = f32[8] add(r, c)\n ROOT o = f32[8] abs(a)\n}\n";

static void chain_is(struct bed *b, const char *of, int dim, const char *expect)
{
    struct str got = STR_IN(&b->arena);
    struct why_step *steps;
    int n = why_chain(b->result, bed_working(b, of, strlen(of)), dim, &b->arena, &steps);
    for (int k = 0; k < n; k++) {
        str_addf(&got, "%s%s", k ? " " : "", name_text(b->ir, instr_at(b->result->graph->module, steps[k].instr)->name));
        assert_non_null(steps[k].rule_text);
        assert_true(strlen(steps[k].rule_text) > 5);
    }
    assert_string_equal(str_text(&got), expect);
    assert_int_equal(steps[n - 1].write.rule, RULE_ANNOTATION);
}

static void test_chain(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, mlp);
    bed_run(&b, "");
    assert_int_equal(bed_check(&b, "mlp", "d {devices=[2,2]<=[4]}; r {devices=[2,2]<=[4] last_tile_dim_replicate}"), 0);
    chain_is(&b, "c", -1, "c a r n t d x"); /* w, the larger operand, first; then x was merged in */
    chain_is(&b, "n", 1, "n t d x");        /* each dimension to the annotation that split it */
    chain_is(&b, "n", 0, "n t d w");
    chain_is(&b, "x", -1, "x");
    bed_free(&b);
}

static void test_chain_through_a_loop(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, "HloModule m\ncond {\n s = (s32[], f32[8,8]) parameter(0)\n ROOT c = pred[] constant(true)\n}\n"
                 "body {\n v = (s32[], f32[8,8]) parameter(0)\n j = s32[] get-tuple-element(v), index=0\n"
                 " a = f32[8,8] get-tuple-element(v), index=1\n m = f32[8,8] negate(a)\n"
                 " ROOT w2 = (s32[], f32[8,8]) tuple(j, m)\n}\n"
                 "ENTRY e {\n p = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}\n k = s32[] constant(0)\n"
                 " t = (s32[], f32[8,8]) tuple(k, p)\n w = (s32[], f32[8,8]) while(t), condition=cond, body=body\n"
                 " g = f32[8,8] get-tuple-element(w), index=1\n ROOT o = f32[8,8] abs(g)\n}\n");
    bed_run(&b, "");
    chain_is(&b, "m", 0, "m a v w2 w t p");
    chain_is(&b, "g", 0, "g w t p");
    bed_free(&b);
}

static const struct prop_write *write_of(const struct bed *b, const char *name, sharding_id after)
{
    instr_id i = bed_working(b, name, strlen(name));
    struct prop_writes list = prop_writes(b->result, i);
    for (uint32_t k = 0; k < list.n; k++)
        if (list.v[k].after.i == after.i)
            return &list.v[k];
    return NULL;
}

/* A conflict: one operand won, the other's candidate is shown with the reason. */
static void test_candidates(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, "HloModule m\nENTRY e {\n l = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                 " r = f32[16,32] parameter(1), sharding={devices=[1,4]<=[4]}\n"
                 " d = f32[8,32] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT o = f32[8,32] abs(d)\n}\n");
    bed_run(&b, "");
    sharding_id cols = bed_sharding(&b, "{devices=[1,4]<=[4]}", 20), rows = bed_sharding(&b, "{devices=[4,1]<=[4]}", 20);
    const struct prop_write *w = write_of(&b, "d", cols);
    struct why_candidate *list;
    assert_non_null(w);
    instr_id d = bed_working(&b, "d", 1);
    int n = why_candidates(b.result, d, w, &b.arena, &list);
    bool won = false, lost = false;
    for (int k = 0; k < n; k++) {
        assert_non_null(list[k].reason);
        won = won || (list[k].taken && list[k].offered.i == cols.i && list[k].from.i == bed_working(&b, "r", 1).i);
        lost = lost || (!list[k].taken && list[k].offered.i == rows.i && list[k].from.i == bed_working(&b, "l", 1).i);
    }
    assert_true(won);
    assert_true(lost);
    assert_int_equal(b.result->final[d.i].i, cols.i); /* looking changes nothing */
    n = why_candidates(b.result, d, NULL, &b.arena, &list);
    assert_true(n >= 2);
    for (int k = 0; k < n; k++)
        assert_false(list[k].taken);
    bed_free(&b);
}

static void test_annotations_have_no_candidates(void **state)
{
    (void)state;
    struct bed b;
    struct why_candidate *list;
    bed_load(&b, mlp);
    bed_run(&b, "");
    instr_id x = bed_working(&b, "x", 1);
    assert_int_equal(why_candidates(b.result, x, &prop_writes(b.result, x).v[0], &b.arena, &list), 0);
    bed_free(&b);
}

/* Restored at the end, and `why` says so. */
static void test_restored(void **state)
{
    (void)state;
    struct bed b;
    struct why_step *steps;
    bed_load(&b, "HloModule m\nENTRY e {\n p = f32[8] parameter(0), sharding={replicated}\n q = f32[8] parameter(1)\n"
                 " c = f32[8] add(p, q)\n ROOT o = f32[8] abs(c), sharding={devices=[4]<=[4]}\n}\n");
    bed_run(&b, "par=0,1");
    assert_int_equal(bed_check(&b, "restored", "p {replicated}; q {devices=[4]<=[4]}"), 0);
    int n = why_chain(b.result, bed_working(&b, "p", 1), -1, &b.arena, &steps);
    assert_int_equal(n, 1);
    assert_int_equal(steps[0].write.rule, RULE_RESTORE);
    /* what it would take at the end is tried, and taken back */
    struct why_candidate *list;
    instr_id p = bed_working(&b, "p", 1);
    n = why_candidates(b.result, p, NULL, &b.arena, &list);
    assert_true(n > 0 && list[0].taken);
    assert_int_equal(bed_check(&b, "tried", "p {replicated}"), 0);
    bed_free(&b);
}

/* `set propagation=none`: what the module says, and nothing else. */
static void test_none(void **state)
{
    (void)state;
    struct bed b;
    struct why_candidate *list;
    bed_load(&b, mlp);
    struct propagation_options o = { .spmd = true, .none = true };
    struct graph *g = graph_prepare(b.module, true, NULL, b.diag);
    b.result = propagate(g, &o, NULL, b.diag);
    assert_non_null(b.result);
    assert_int_equal(bed_check(&b, "none", "x {devices=[2,1,2]<=[4] last_tile_dim_replicate}; d none; o none"), 0);
    chain_is(&b, "x", -1, "x");
    assert_int_equal(why_candidates(b.result, bed_working(&b, "d", 1), NULL, &b.arena, &list), 0);
    bed_free(&b);
}

/* ---- links of a chain ------------------------------------------------------------------------------ */

struct tally {
    int chains, links, replayed, changed, kept;
};

/* The module without the shardings that `seed` was given: the same instruction of a copy. */
static struct propagation *without(const struct bed *b, const struct propagation_options *o, instr_id source)
{
    struct module *m = module_clone(b->module);
    struct instr *ins = instr_at(m, source);
    if (ins->op == OP_CUSTOM_CALL) {
        ins->op = OP_COPY;
        ins->nattrs = 0;
        ins->attrs = NULL;
    }
    ins->sharding = (sharding_id){ 0 };
    ins->note = NULL;
    struct graph *g = graph_prepare(m, b->prepare, NULL, b->diag);
    struct propagation *p = g ? propagate(g, o, NULL, b->diag) : NULL;
    module_free(m);
    return p;
}

static sharding_id final_of(const struct propagation *p, instr_id source)
{
    const struct graph *g = p->graph;
    return g->start[source.i] < g->start[source.i + 1] ? p->final[g->list[g->start[source.i]].i] : (sharding_id){ 0 };
}

/* The visit that made a link, run again at its time, offers the same and takes it. */
static bool replays(struct bed *b, const struct why_step *s)
{
    struct why_candidate *list;
    int n = why_candidates(b->result, s->instr, &s->write, &b->arena, &list);
    if (s->write.rule != RULE_FORWARD && s->write.rule != RULE_BACKWARD)
        return true; /* not written by a visit of its own */
    for (int k = 0; k < n; k++)
        if (list[k].taken && list[k].from.i == s->write.cause.i)
            return true;
    return false;
}

static void check_links(struct bed *b, const struct propagation_options *o, instr_id i, int dim, struct tally *t)
{
    struct why_step *steps;
    int n = why_chain(b->result, i, dim, &b->arena, &steps);
    if (n < 2 || steps[n - 1].write.rule != RULE_ANNOTATION)
        return;
    t->chains++;
    for (int k = 0; k < n; k++) {
        t->links++;
        assert_true(k + 1 == n || steps[k].write.cause.i == steps[k + 1].instr.i);
        if (!replays(b, &steps[k]))
            print_message("%s: the visit does not bring it again\n", name_text(b->ir, instr_at(b->result->graph->module, steps[k].instr)->name));
        else
            t->replayed++;
    }
    instr_id seed = b->result->graph->origin[steps[n - 1].instr.i].source, source = b->result->graph->origin[i.i].source;
    if (!seed.i || !source.i)
        return;
    struct propagation *p = without(b, o, seed);
    if (!p)
        return;
    /* Another annotation may say the same: then the chain ends there. */
    if (final_of(p, source).i != b->result->final[i.i].i) {
        t->changed++;
    } else {
        struct why_step *other;
        instr_id again = p->graph->list[p->graph->start[source.i]];
        int m = why_chain(p, again, dim, &b->arena, &other);
        assert_true(m > 0);
        assert_true(p->graph->origin[other[m - 1].instr.i].source.i != seed.i);
        t->kept++;
    }
    propagation_free(p);
}

static void check_all_links(struct bed *b, const struct propagation_options *o, uint32_t every, struct tally *t)
{
    const struct module *m = b->result->graph->module;
    for (uint32_t k = 1; k <= module_ninstrs(m); k += every) {
        sharding_id s = b->result->final[k];
        const struct shape *shape = instr_shape(m, (instr_id){ k });
        if (!s.i || sharding_get(b->ir->shardings, s)->kind != SHARDING_TILED || shape->kind != SHAPE_ARRAY)
            continue;
        for (int d = 0; d < shape->rank; d++)
            if (sharding_tile(b->ir->shardings, s, d) > 1)
                check_links(b, o, (instr_id){ k }, d, t);
    }
}

static void test_links_are_real(void **state)
{
    (void)state;
    struct bed b;
    struct tally t = { 0 };
    bed_load(&b, mlp);
    struct propagation_options o = bed_options(&b, "");
    bed_run(&b, "");
    check_all_links(&b, &o, 1, &t);
    bed_free(&b);
    print_message("%d chains, %d links, %d replayed; annotation gone: %d changed, %d had another\n", t.chains, t.links, t.replayed, t.changed, t.kept);
    assert_true(t.chains >= 8);
    assert_int_equal(t.links, t.replayed);
    assert_int_equal(t.kept, 0);
}

/* The same on real dumps, a sample of instructions of each. */
static void test_links_on_dumps(void **state)
{
    (void)state;
    static const char *const names[] = { "mlp_dptp_train_small", "gpt_train_scan_small", "llama_gqa2_small", "moe_2d_small", "resnet_dp_small", "conflict_small" };
    const char *shared = getenv("GSPMD_SHARED");
    struct tally t = { 0 };
    int files = 0;
    for (size_t k = 0; k < COUNTOF(names); k++)
        for (int zipped = 0; zipped < 2; zipped++) {
            char path[4096];
            (void)snprintf(path, sizeof path, "%s/inputs/%s.hlo%s", shared ? shared : "../shared", names[k], zipped ? ".gz" : "");
            FILE *f = fopen(path, "r");
            if (!f)
                continue;
            (void)fclose(f);
            struct bed b = { .ir = ir_new(), .diag = diag_new(), .prepare = true };
            b.module = module_load(b.ir, path, NULL, b.diag);
            assert_non_null(b.module);
            struct propagation_options o = { .spmd = true,
                                             .nto_output = b.module->nto_output,
                                             .to_output = b.module->to_output,
                                             .nto_parameters = b.module->nto_parameters,
                                             .to_parameters = b.module->to_parameters };
            b.result = propagate(graph_prepare(b.module, true, NULL, b.diag), &o, NULL, b.diag);
            assert_non_null(b.result);
            check_all_links(&b, &o, 1 + module_ninstrs(b.result->graph->module) / 60, &t);
            bed_free(&b);
            files++;
        }
    if (!files) {
        print_message("no dumps: skipped\n");
        skip();
    }
    print_message("%d files: %d chains, %d links, %d replayed; annotation gone: %d changed, %d had another\n", files, t.chains, t.links, t.replayed, t.changed, t.kept);
    assert_int_equal(t.links, t.replayed);
    assert_true(t.changed > 0);
}

/* ---- the history as a whole -------------------------------------------------------------------------- */

static void test_changes_by_time(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, mlp);
    bed_run(&b, "");
    const struct prop_change *list = prop_changes(b.result, &b.arena);
    sharding_id *now = ARENA_ARRAY(&b.arena, sharding_id, module_ninstrs(b.result->graph->module) + 1);
    for (uint32_t k = 0; k < b.result->nwrites; k++) {
        const struct prop_write *w = list[k].write;
        assert_int_equal(now[list[k].instr.i].i, w->before.i); /* forwards and backwards */
        now[list[k].instr.i] = w->after;
        assert_true(!w->cause.i || now[w->cause.i].i);
    }
    for (uint32_t k = 1; k <= module_ninstrs(b.result->graph->module); k++)
        assert_int_equal(now[k].i, b.result->final[k].i);
    bed_free(&b);
}

static void test_coverage(void **state)
{
    (void)state;
    struct bed b;
    struct prop_reach *list;
    bed_load(&b, mlp);
    bed_run(&b, "");
    int64_t n = prop_coverage(b.result, &b.arena, &list);
    instr_id x = bed_working(&b, "x", 1), w = bed_working(&b, "w", 1);
    assert_int_equal(n, 2);
    assert_int_equal(list[0].seed.i, x.i);
    assert_int_equal(list[1].seed.i, w.i);
    /* d, t, n are split by both; r, a, c by x alone */
    assert_int_equal(list[0].reached, 6);
    assert_int_equal(list[0].split_by, 6);
    assert_int_equal(list[1].reached, 3);
    bed_free(&b);
}

static bool stop(void *context, const char *what, int64_t done, int64_t total)
{
    (void)context;
    (void)what;
    return done < 0 && total < 0;
}

static void test_interrupted(void **state)
{
    (void)state;
    struct bed b;
    struct str text = { 0 };
    struct tick t = { .fn = stop };
    struct arena a = { 0 };
    text.arena = &a;
    str_adds(&text, "HloModule m\nENTRY e {\n x0 = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n");
    for (int k = 0; k < 500; k++)
        str_addf(&text, " x%d = f32[8] negate(x%d)\n", k + 1, k);
    str_adds(&text, " ROOT o = f32[8] abs(x500)\n}\n");
    bed_load(&b, str_text(&text));
    struct propagation_options o = { .spmd = true };
    struct graph *g = graph_prepare(b.module, true, NULL, b.diag);
    assert_null(propagate(g, &o, &t, b.diag));
    assert_int_equal(b.diag->nerrors, 1);
    assert_string_equal(b.diag->msgs.v[0].code, "interrupted");
    arena_free(&a);
    bed_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_chain_through_a_loop),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_annotations_have_no_candidates),
        cmocka_unit_test(test_restored),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_links_are_real),
        cmocka_unit_test(test_links_on_dumps),
        cmocka_unit_test(test_changes_by_time),
        cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
