/* The pass from end to end, P-65. */
#include "propagate/propagate.h"

#include <string.h>

#include "base/fail.h"
#include "propagate/internal.h"

static bool any_true(const bool *v, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (v[k])
            return true;
    return false;
}

static const bool *copy_bools(struct arena *a, const bool *v, int64_t *n)
{
    if (*n <= 0) {
        *n = 1;
        return ARENA_NEW(a, bool);
    }
    return arena_copy(a, v, *n, sizeof *v);
}

void options_own(struct pass *p, struct arena *a, const struct propagation_options *o)
{
    p->o = *o;
    p->o.to_output = copy_bools(a, o->to_output, &p->o.nto_output);
    p->o.to_parameters = copy_bools(a, o->to_parameters, &p->o.nto_parameters);
    const char **threads = ARENA_ARRAY(a, const char *, o->nthreads + 1);
    for (int k = 0; k < o->nthreads; k++)
        threads[k] = arena_strdup(a, o->threads[k]);
    p->o.threads = threads;
}

/* ---- one pass for several propagations ---------------------------------------------------------- */

void mount_save(const struct pass *p, struct propagation *q)
{
    q->mount->o = p->o;
    q->mount->saved_parameter = p->saved_parameter;
    q->mount->saved_cse = p->saved_cse;
    q->mount->saved_root = p->saved_root;
}

struct pass *pass_mount(const struct propagation *q)
{
    struct pass *p = q->state;
    if (p->mounted == q)
        return p;
    p->mounted = q;
    p->now = q->final;
    p->provided = q->provided;
    p->o = q->mount->o;
    p->saved_parameter = q->mount->saved_parameter;
    p->saved_cse = q->mount->saved_cse;
    p->saved_root = q->mount->saved_root;
    return p;
}

sharding_id prop_given(const struct propagation *p, instr_id i)
{
    struct prop_writes w = prop_writes(p, i);
    if (!w.n || w.v[0].rule != RULE_ANNOTATION || w.v[0].cause.i)
        return none();
    return w.v[0].after;
}

static void pass_open(struct pass *p, struct propagation *out, const struct propagation_options *o)
{
    struct arena *a = &out->arena;
    p->g = out->graph;
    p->m = p->g->module;
    p->ir = p->m->ir;
    p->t = p->ir->shardings;
    p->users = &p->g->users;
    p->n = module_ninstrs(p->m);
    p->arena = a;
    options_own(p, a, o);
    p->any_out = any_true(p->o.to_output, p->o.nto_output);
    p->any_parameter = any_true(p->o.to_parameters, p->o.nto_parameters);
    p->memo_slots = 256;
    while (p->memo_slots < p->n && p->memo_slots < 1 << 12)
        p->memo_slots *= 2;
    p->improved = ARENA_ARRAY(a, struct improved_slot, p->memo_slots);
    p->answers = ARENA_ARRAY(a, struct rule_slot, p->memo_slots);
    intern_init(&p->classes, a);
}

/* Stages: 0..3 the levels, 4 level 3 again, 5 the end. */
static bool run(struct pass *p, level_fn *level_of)
{
    if (!pass_setup(p))
        return false;
    slots_make(p);
    for (int level = 0; level <= LEVEL_LAST; level++)
        if (!level_of(p, level, level))
            return pass_interrupted(p->d);
    p->time = (struct prop_time){ 4, 0, 0, 0 };
    align_groups(p);
    relay_barriers(p);
    if (!level_of(p, 4, LEVEL_LAST))
        return pass_interrupted(p->d);
    p->time = (struct prop_time){ 5, 0, 0, 0 };
    remove_barriers(p);
    restore_boundary(p, NULL);
    return true;
}

/* No inference: shardings as they stand; the history is what the module gives. */
static void run_none(struct pass *p)
{
    p->now = ARENA_ARRAY(p->arena, sharding_id, p->n + 1);
    p->provided = ARENA_ARRAY(p->arena, bool, p->n + 1);
    p->open = ARENA_ARRAY(p->arena, uint64_t, p->n + 1);
    p->caller = ARENA_ARRAY(p->arena, instr_id, module_ncomps(p->m) + 1);
    p->group_of = ARENA_ARRAY(p->arena, uint32_t, p->n + 1);
    p->index_facts = ARENA_ARRAY(p->arena, void *, p->n + 1); /* of prop_wish */
    p->rule = RULE_ANNOTATION;
    for (uint32_t k = 1; k <= p->n; k++) {
        sharding_id s = at(p, (instr_id){ k })->sharding;
        if (s.i)
            put_sharding(p, (instr_id){ k }, s, none_instr());
    }
    facts_make(p);
}

/* What increments start from. */
static void mount_make(struct propagation *out, const struct pass *p)
{
    struct mount *m = ARENA_NEW(&out->arena, struct mount);
    uint32_t n = 0;
    while (n < p->log.n && p->log.v[n].write.time.stage == 0 && p->log.v[n].write.time.iteration == 0)
        n++;
    for (int64_t k = n; k < p->log.n; k++) {
        struct prop_time t = p->log.v[k].write.time;
        if (t.iteration >= SWEEPS_KEPT - 1)
            m->uncounted = true;
        else if (t.stage < STAGES && t.iteration > 0)
            m->count[t.stage][t.iteration]++;
    }
    m->setup_changed = p->setup_changed;
    m->metadata_changed = p->metadata_changed;
    out->mount = m;
    mount_save(p, out);
}

/* The log was the pass's own. */
static void log_drop(struct pass *p)
{
    p->log.v = NULL;
    p->log.n = p->log.cap = 0;
    p->look.stamp = NULL;
}

static bool work(struct propagation *out, const struct propagation_options *o, struct tick *tick,
                 struct arena *tmp, struct diag *d, level_fn *level_of)
{
    struct pass *p = ARENA_NEW(&out->arena, struct pass);
    out->state = p;
    p->tmp = tmp;
    p->tick = tick;
    p->d = d;
    pass_open(p, out, o);
    p->log.cap = (int64_t)p->n + p->n / 2 + 64; /* about what there will be */
    p->log.v = ARENA_ARRAY(tmp, struct log_entry, p->log.cap);
    if (o->none)
        run_none(p);
    else if (!run(p, level_of))
        return false;
    history_make(out, p);
    mount_make(out, p);
    log_drop(p);
    out->final = p->now;
    out->provided = p->provided;
    out->open = p->open;
    out->changed = p->changed || p->metadata_changed;
    out->visits = p->visits;
    out->asked = p->asked + p->looks;
    out->iterations = p->sweeps;
    p->tmp = NULL;
    p->tick = NULL;
    p->d = NULL;
    p->mounted = out;
    return true;
}

struct propagation *propagate_by(struct graph *g, const struct propagation_options *o,
                                 struct tick *tick, struct diag *d, level_fn *level_of)
{
    struct arena own = { 0 };
    struct propagation *out = ARENA_NEW(&own, struct propagation);
    out->arena = own;
    out->graph = g;
    out->root = out;
    out->refs = 1;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        propagation_free(out);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    bool ok = work(out, o, tick, &tmp, d, level_of);
    arena_close(&tmp);
    fail_leave(&f);
    if (ok)
        return out;
    propagation_free(out);
    return NULL;
}

struct propagation *propagate(struct graph *g, const struct propagation_options *o, struct tick *tick,
                              struct diag *d)
{
    return propagate_by(g, o, tick, d, run_level);
}

/* The last one that uses them frees graph and tables. */
static void root_release(struct propagation *root)
{
    if (--root->refs > 0)
        return;
    if (root->state)
        inc_tables_free(root->state);
    graph_free(root->graph);
    struct arena own = root->arena; /* root itself lies in it */
    arena_free(&own);
}

void propagation_free(struct propagation *p)
{
    if (!p)
        return;
    struct propagation *root = p->root;
    history_release(p);
    if (p->state && p->state->mounted == p)
        p->state->mounted = NULL;
    if (root != p) {
        struct arena own = p->arena; /* p itself lies in it */
        arena_free(&own);
    }
    root_release(root);
}
