/* Exact increments: random sequences of edits, each compared with the edited module propagated from
 * scratch. Writes, times, causes, sweeps must all be the same. */
#include <dirent.h>

#include "propagate/internal.h"
#include "propagate_maker.h"

struct tally {
    int files, edits, failed, increments, changed, writes_differ;
    int64_t visits, differing, scratch, records, rules[RULE_ANNOTATION_OPERAND + 1];
};

/* ---- comparing --------------------------------------------------------------------------------------- */

static void same_propagation(const struct ir *ir, const struct propagation *a, const struct propagation *b)
{
    const struct module *m = b->graph->module;
    uint32_t n = module_ninstrs(m);
    assert_int_equal(n, module_ninstrs(a->graph->module));
    for (uint32_t k = 1; k <= n; k++) {
        struct prop_writes ours = prop_writes(a, (instr_id){ k }), theirs = prop_writes(b, (instr_id){ k });
        uint32_t na = ours.n, nb = theirs.n;
        for (uint32_t j = 0; j < na && j < nb; j++) {
            const struct prop_write *x = &ours.v[j], *y = &theirs.v[j];
            if (time_compare(x->time, y->time, true) || x->rule != y->rule || x->leaf != y->leaf || x->cause.i != y->cause.i ||
                x->before.i != y->before.i || x->after.i != y->after.i || x->merged != y->merged)
                fail_msg("%s: write %u: (%d %d %u %d) rule %d leaf %d cause %u %u->%u, from scratch (%d %d %u %d) rule %d leaf %d cause %u %u->%u",
                         name_text(ir, instr_at(m, (instr_id){ k })->name), j, x->time.stage, x->time.iteration, x->time.slot, x->time.seq,
                         x->rule, x->leaf, x->cause.i, x->before.i, x->after.i, y->time.stage, y->time.iteration, y->time.slot,
                         y->time.seq, y->rule, y->leaf, y->cause.i, y->before.i, y->after.i);
        }
        if (na != nb) {
            const struct prop_write *w = na > nb ? &ours.v[nb] : &theirs.v[na];
            fail_msg("%s: %u writes, from scratch %u: (%d %d %u %d) rule %d leaf %d cause %s %u->%u", name_text(ir, instr_at(m, (instr_id){ k })->name), na, nb,
                     w->time.stage, w->time.iteration, w->time.slot, w->time.seq, w->rule, w->leaf,
                     w->cause.i ? name_text(ir, instr_at(m, w->cause)->name) : "-", w->before.i, w->after.i);
        }
        if (a->final[k].i != b->final[k].i)
            fail_msg("%s (%u): final %u, from scratch %u", name_text(ir, instr_at(m, (instr_id){ k })->name), k, a->final[k].i, b->final[k].i);
        if (a->provided[k] != b->provided[k])
            fail_msg("%s (%u): provided %d, from scratch %d; gone %d", name_text(ir, instr_at(m, (instr_id){ k })->name), k, a->provided[k], b->provided[k], b->state->facts[k].gone);
    }
    assert_int_equal(a->nwrites, b->nwrites); /* each of them: above, field by field (padding is anything) */
    assert_int_equal(a->iterations, b->iterations);
    assert_int_equal(a->changed, b->changed);
    assert_memory_equal(a->mount->count, b->mount->count, sizeof a->mount->count);
}

/* P-67, record by record. */
static void same_metadata(const struct propagation *a, const struct propagation *b, int64_t *records)
{
    struct arena tmp = { 0 };
    struct sharding_note *const *x = prop_notes(a, &tmp), *const *y = prop_notes(b, &tmp);
    assert_int_equal(x != NULL, y != NULL);
    for (uint32_t k = 1; x && k <= module_ninstrs(b->graph->module); k++) {
        int n = x[k] ? x[k]->leaves[0].nmeta : 0;
        assert_int_equal(n, y[k] ? y[k]->leaves[0].nmeta : 0);
        for (int j = 0; j < n; j++)
            assert_string_equal(x[k]->leaves[0].meta[j], y[k]->leaves[0].meta[j]);
        *records += n;
    }
    arena_free(&tmp);
}

static bool no_spmd, cse_only, with_metadata;

static struct propagation_options options_of(const struct module *m)
{
    return (struct propagation_options){ .spmd = !no_spmd,
                                         .cse_only = cse_only,
                                         .propagate_metadata = with_metadata,
                                         .nto_output = m->nto_output,
                                         .to_output = m->to_output,
                                         .nto_parameters = m->nto_parameters,
                                         .to_parameters = m->to_parameters };
}

static struct propagation *from_scratch(const struct module *m, bool prepare, struct diag *d)
{
    struct propagation_options o = options_of(m);
    struct graph *g = graph_prepare(m, prepare, NULL, d);
    return g ? propagate(g, &o, NULL, d) : NULL;
}

/* ---- edits -------------------------------------------------------------------------------------------- */

/* As annotate() does for shard and unshard. */
static void hold_parameter(struct module *m, instr_id i)
{
    const struct computation *entry = comp_at(m, m->entry);
    bool any = false;
    for (int64_t k = 0; k < m->nto_parameters; k++)
        any = any || m->to_parameters[k];
    for (uint32_t k = 0; any && k < entry->nparams; k++) {
        if (entry->params[k].i != i.i)
            continue;
        bool *v = ARENA_ARRAY(&m->arena, bool, entry->nparams);
        for (uint32_t j = 0; j < entry->nparams; j++)
            v[j] = m->nto_parameters == 1 ? m->to_parameters[0] : j < m->nto_parameters && m->to_parameters[j];
        v[k] = false;
        m->to_parameters = v;
        m->nto_parameters = entry->nparams;
    }
}

static void run_edits(struct bed *b, int n, struct tally *t)
{
    struct module *m = module_clone(b->module);
    int64_t devices = m->num_partitions > 1 ? m->num_partitions : 8;
    struct propagation *now = from_scratch(m, b->prepare, b->diag);
    assert_non_null(now);
    VEC(struct prop_edit) made = { 0 }; /* what can be taken back */
    for (int e = 0; e < n; e++) {
        struct prop_edit edits[3];
        int count = 1 + (int)(random_below(5) == 0) + (int)(random_below(9) == 0), chosen = 0;
        for (int k = 0; k < count; k++) {
            struct prop_edit x = { 0 };
            if (made.n && random_below(3) == 0)
                x.loaded = made.v[random_below((uint32_t)made.n)].loaded;
            else
                x.loaded.i = 1 + random_below(module_ninstrs(m));
            struct instr *ins = instr_at(m, x.loaded);
            bool twice = false;
            for (int j = 0; j < chosen; j++)
                twice = twice || edits[j].loaded.i == x.loaded.i;
            if (twice || !may_edit(m, x.loaded))
                continue;
            x.was = ins->sharding;
            x.is = x.was.i && random_below(2) ? (sharding_id){ 0 } : any_sharding(b, ins, devices);
            if (!x.is.i && strcmp(instr_target(m, ins), "Sharding") == 0)
                continue;
            ins->sharding = x.is;
            if (x.is.i && random_below(2))
                hold_parameter(m, x.loaded);
            edits[chosen++] = x;
            vec_push(&b->arena, &made, x);
        }
        if (!chosen)
            continue;
        struct propagation_options o = options_of(m);
        struct propagation *scratch = from_scratch(m, b->prepare, b->diag);
        struct propagation *step = propagate_increment(now, chosen, edits, &o, NULL);
        t->edits++;
        if (!scratch) { /* P-72, or flags that do not fit */
            assert_null(step);
            for (int k = 0; k < chosen; k++)
                instr_at(m, edits[k].loaded)->sharding = edits[k].was;
            t->failed++;
            continue;
        }
        if (step) {
            t->increments++;
            for (uint32_t k = 1; k <= module_ninstrs(scratch->graph->module); k++)
                for (uint32_t j = 0; j < prop_writes(scratch, (instr_id){ k }).n; j++)
                    t->rules[prop_writes(scratch, (instr_id){ k }).v[j].rule]++;
            t->changed += step->nwrites != now->nwrites || memcmp(step->final, now->final, (module_ninstrs(now->graph->module) + 1) * sizeof *now->final);
            t->visits += step->visits;
            t->differing += step->differing;
            t->scratch += scratch->visits;
            assert_true(step->visits <= 3 * step->differing);
            same_propagation(b->ir, step, scratch);
            same_metadata(step, scratch, &t->records);
        }
        propagation_free(now);
        if (step)
            propagation_free(scratch);
        now = step ? step : scratch;
    }
    propagation_free(now);
    module_free(m);
}

static void say(const char *what, const struct tally *t)
{
    print_message("%s: %d modules, %d edits, %d of them refused by the pass, %d incremental, %d changed something; visits %lld (differing %lld) instead of %lld\n", what,
                  t->files, t->edits, t->failed, t->increments, t->changed, (long long)t->visits, (long long)t->differing, (long long)t->scratch);
    print_message("writes by rule:");
    for (int r = RULE_ANNOTATION; r <= RULE_ANNOTATION_OPERAND; r++)
        print_message(" %lld", (long long)t->rules[r]);
    print_message("\n");
}

static void test_dumps(void **state)
{
    (void)state;
    const char *shared = getenv("GSPMD_SHARED"), *only = getenv("GSPMD_ONLY"), *times = getenv("GSPMD_EDITS");
    char folder[2048], path[4096];
    struct tally t = { 0 };
    (void)snprintf(folder, sizeof folder, "%s/inputs", shared ? shared : "../shared");
    DIR *dir = opendir(folder);
    if (!dir) {
        print_message("no dumps in %s: skipped\n", folder);
        skip();
        return;
    }
    increment_poison = UINT32_MAX - 1;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!(strstr(e->d_name, "_small.hlo") || (only && strstr(e->d_name, ".hlo"))) || strstr(e->d_name, "after_spmd") || (only && strncmp(e->d_name, only, strlen(only))))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        struct bed b = { .ir = ir_new(), .diag = diag_new(), .prepare = true };
        b.module = module_load(b.ir, path, NULL, b.diag);
        if (!b.module) { /* a dump that lacks something by design */
            bed_free(&b);
            continue;
        }
        if (only)
            print_message("%s\n", e->d_name);
        with_metadata = t.files % 2;
        run_edits(&b, times ? atoi(times) : 12, &t);
        bed_free(&b);
        t.files++;
    }
    (void)closedir(dir);
    increment_poison = 0;
    with_metadata = false;
    say("dumps", &t);
    print_message("%lld records of metadata\n", (long long)t.records);
    assert_true(t.records > 1000);
    assert_true(t.increments * 3 > t.edits);
}

/* ---- modules made up ------------------------------------------------------------------------------------ */

static void test_made_up(void **state)
{
    (void)state;
    const char *times = getenv("GSPMD_MODULES");
    struct tally t = { 0 };
    increment_poison = UINT32_MAX - 1;
    for (int k = 0; k < (times ? atoi(times) : 1000); k++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        struct bed b;
        make_module(&s, k % 2);
        bed_load(&b, str_text(&s));
        no_spmd = k % 7 == 6;
        cse_only = k % 11 == 10;
        b.prepare = k / 2 % 2;
        run_edits(&b, 20, &t);
        bed_free(&b);
        arena_free(&a);
        t.files++;
    }
    no_spmd = cse_only = false;
    increment_poison = 0;
    say("made up", &t);
    assert_true(t.increments * 2 > t.edits);
    assert_true(t.changed * 3 > t.increments);
}

/* Results of many leaves, which go leaf by leaf; parameters that end replicated where they are not even. */
static void wide_module(struct str *s, int n)
{
    str_addf(s, "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output={true}, "
                  "allow_spmd_sharding_propagation_to_parameters={true}\nENTRY e {\n");
    for (int k = 0; k < n; k++)
        str_addf(s, " p%d = f32[%d,8] parameter(%d)\n", k, k % 3 ? 8 : 6, k);
    for (int k = 0; k < n; k++) {
        bool square = k % 3 != 0;
        int other = k + 3 * (int)random_below(3), rows = square ? 8 : 6;
        switch (random_below(square ? 4 : 2)) {
        case 0:
            str_addf(s, " y%d = f32[%d,8] negate(p%d)\n", k, rows, k);
            break;
        case 1:
            str_addf(s, " y%d = f32[%d,8] add(p%d, p%d)\n", k, rows, k, other < n ? other : k);
            break;
        case 2:
            str_addf(s, " y%d = f32[8,8] transpose(p%d), dimensions={1,0}\n", k, k);
            break;
        default:
            str_addf(s, " y%d = f32[8,8] dot(p%d, p%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", k, k, k);
            break;
        }
    }
    str_addf(s, " ROOT t = (");
    for (int k = 0; k < n; k++)
        str_addf(s, "%sf32[%d,8]", k ? ", " : "", k % 3 ? 8 : 6);
    str_addf(s, ") tuple(");
    for (int k = 0; k < n; k++) /* some twice */
        str_addf(s, "%sy%d", k ? ", " : "", k >= 3 && random_below(8) == 0 ? k - 3 : k);
    str_addf(s, ")\n}\n");
}

static void test_wide(void **state)
{
    (void)state;
    struct tally t = { 0 };
    increment_poison = UINT32_MAX - 1;
    for (int k = 0; k < 120; k++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        struct bed b;
        wide_module(&s, 64 + (int)random_below(20));
        bed_load(&b, str_text(&s));
        run_edits(&b, 30, &t);
        bed_free(&b);
        arena_free(&a);
        t.files++;
    }
    increment_poison = 0;
    say("wide", &t);
    assert_true(t.increments * 2 > t.edits);
}

/* What is not incremental says so, and leaves what it started from as it was. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *edited, *is, *text;
    } cases[] = {
        /* a barrier of a shard group goes at the end */
        { "x", "{replicated}",
          "HloModule m\nENTRY e {\n p = f32[8] parameter(0)\n x = f32[8] copy(p)\n y = f32[8] custom-call(x), custom_call_target=\"ShardBarrierFrom\", sharding={unknown shard_as 0}\n ROOT z = f32[8] abs(y)\n}\n" },
        /* a Sharding call that says nothing is no copy */
        { "y", "{unknown}",
          "HloModule m\nENTRY e {\n p = f32[8] parameter(0)\n x = f32[8] copy(p)\n y = f32[8] custom-call(x), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]}\n ROOT z = f32[8] abs(y)\n}\n" },
        /* what carries a shard group would lose it */
        { "x", "{replicated}",
          "HloModule m\nENTRY e {\n p = f32[8] parameter(0)\n x = f32[8] copy(p), sharding={unknown shard_as 0}\n y = f32[8] abs(p), sharding={unknown shard_as 0}\n ROOT z = f32[8] add(x, y)\n}\n" },
        /* not what the graph was made of */
        { "x", "none",
          "HloModule m\nENTRY e {\n p = f32[8] parameter(0)\n x = f32[8] copy(p)\n ROOT z = f32[8] abs(x)\n}\n" },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct bed b;
        bed_load(&b, cases[k].text);
        bed_run(&b, "");
        assert_non_null(b.result);
        instr_id i = bed_named(b.module, cases[k].edited, strlen(cases[k].edited));
        sharding_id is = bed_sharding(&b, cases[k].is, strlen(cases[k].is));
        struct prop_edit e = { i, is.i ? instr_at(b.module, i)->sharding : sharding_replicated(b.ir->shardings), is };
        struct propagation_options o = options_of(b.module);
        assert_null(propagate_increment(b.result, 1, &e, &o, NULL));
        assert_int_equal(b.result->final[bed_working(&b, "p", 1).i].i, b.result->state->now[bed_working(&b, "p", 1).i].i);
        bed_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
