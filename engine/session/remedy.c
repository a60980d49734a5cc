/* What would remove a collective, found by trying: annotations near it, one at a time, on copies of
 * the strategy. Candidates come from what met there -- the shardings that a reshard goes between, the
 * causes of both as the history of propagation has them -- and are judged by propagating and
 * partitioning again, never by a guess. */
#include <string.h>

#include "session/internal.h"

/* Bounds: trials, and instructions propagated and partitioned in all of them. */
enum { MOST_TRIALS = 48, ALL_TRIALS = 512, MOST_WORK = 1000 * 1000, NEAR = 6, CHAIN = 12, RANKS = 32 };

struct search {
    struct document *doc;
    struct arena *a;
    struct tick *tick;
    const struct propagation *p;
    const struct program *program;
    const struct collective *k;
    struct shardings *t;
    int64_t total;      /* bytes now */
    instr_id source;    /* working instruction that the collective serves */
    instr_id loaded;    /* and as loaded; none: a pass made it */
    int64_t count;      /* collectives of its kind for that instruction now */
    int64_t work;
    bool all, stopped;
    struct intern seen;
    VEC(struct remedy) list;
};

static instr_id loaded_of(const struct search *s, const struct propagation *p, instr_id w)
{
    instr_id i = p->graph->origin[w.i].source;
    return i.i <= module_ninstrs(s->doc->module) ? i : (instr_id){ 0 };
}

static sharding_id final_of(const struct propagation *p, instr_id loaded)
{
    const struct graph *g = p->graph;
    bool there = g->start[loaded.i + 1] > g->start[loaded.i];
    return there ? p->final[g->list[g->start[loaded.i]].i] : (sharding_id){ 0 };
}

static int64_t count_like(const struct search *s, const struct propagation *p, const struct program *program,
                          const struct collective *list, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        instr_id source = program->notes[list[i].instr.i].source;
        count += list[i].kind == s->k->kind && source.i && loaded_of(s, p, source).i == s->loaded.i;
    }
    return count;
}

/* No sharding and replicated are the same to everyone but the pass. */
static bool same_layout(const struct search *s, sharding_id a, sharding_id b)
{
    return a.i == b.i || ((!a.i || sharding_is_replicated(s->t, a)) && (!b.i || sharding_is_replicated(s->t, b)));
}

static int64_t count_changed(const struct search *s, const struct propagation *p)
{
    int64_t n = 0;
    for (uint32_t i = 1; i <= module_ninstrs(s->doc->module); i++)
        n += !same_layout(s, final_of(s->p, (instr_id){ i }), final_of(p, (instr_id){ i }));
    return n;
}

static int64_t argument_bytes(const struct program *p)
{
    const struct computation *entry = comp_at(p->module, p->module->entry);
    int64_t sum = 0;
    for (uint32_t k = 0; k < entry->nparams; k++)
        if (!add_ok(sum, shape_get(p->module->ir, instr_at(p->module, entry->params[k])->shape)->bytes, &sum))
            return INT64_MAX;
    return sum;
}

/* ---- one trial ----------------------------------------------------------------------------------- */

struct try_key {
    uint32_t target, kind, sharding;
};

static bool is_new(struct search *s, const struct annotation *x)
{
    struct try_key key = { x->target.i, (uint32_t)x->kind, x->sharding.i };
    if (intern_find(&s->seen, &key, sizeof key))
        return false;
    (void)intern_put(&s->seen, &key, sizeof key);
    return true;
}

static bool within_bounds(struct search *s)
{
    bool room = s->list.n < (s->all ? ALL_TRIALS : MOST_TRIALS) && (s->all || s->work < MOST_WORK);
    s->stopped = s->stopped || !room;
    return room && !s->stopped;
}

static void try_change(struct search *s, struct annotation x)
{
    struct trial t;
    if (!x.target.i || !is_new(s, &x) || !within_bounds(s))
        return;
    if (!document_try_edit(s->doc, &x, &t, s->tick, NULL)) {
        s->work += 1000;
        s->stopped = s->stopped || (s->tick && !tick_poll(s->tick, "trying", 0, 0));
        return;
    }
    s->work += t.prop->visits + module_ninstrs(t.program->module) + module_ninstrs(t.prop->graph->module);
    vec_push(s->a, &s->list,
             ((struct remedy){ .change = x,
                               .gone = count_like(s, t.prop, t.program, t.list, t.n) < s->count,
                               .bytes = t.total,
                               .ncollectives = t.n,
                               .elsewhere = t.total - (s->total - s->k->bytes),
                               .changed = count_changed(s, t.prop),
                               .arguments = argument_bytes(t.program) }));
    trial_free(&t);
}

static void try_sharding(struct search *s, instr_id loaded, sharding_id sh)
{
    if (!loaded.i || !sh.i || same_layout(s, final_of(s->p, loaded), sh))
        return;
    const struct instr *in = instr_at(s->doc->module, loaded);
    const struct shape *shape = shape_get(s->doc->ir, in->shape);
    if (shape->kind != SHAPE_ARRAY || in->op == OP_CONSTANT)
        return;
    if (sharding_get(s->t, sh)->kind == SHARDING_TILED && sharding_data_rank(s->t, sh) != shape->rank)
        return;
    try_change(s, (struct annotation){ .kind = ANNOTATE_SHARD, .target = loaded, .leaf = -1, .sharding = sh });
}

/* The value alone, between its producer and all its users. */
static void try_constraint(struct search *s, instr_id loaded, sharding_id sh)
{
    if (!loaded.i || !sh.i || same_layout(s, final_of(s->p, loaded), sh) ||
        shape_get(s->doc->ir, instr_at(s->doc->module, loaded)->shape)->kind != SHAPE_ARRAY ||
        instr_at(s->doc->module, loaded)->comp.i != s->doc->module->entry.i)
        return;
    try_change(s, (struct annotation){ .kind = ANNOTATE_CONSTRAIN, .target = loaded, .leaf = -1, .sharding = sh });
}

/* ---- candidates ---------------------------------------------------------------------------------- */

/* Instructions of the working graph near the collective: what it serves, operands, users. */
struct near {
    int n;
    instr_id list[1 + 2 * NEAR];
};

static void add_near(struct near *v, instr_id i)
{
    for (int k = 0; k < v->n; k++)
        if (v->list[k].i == i.i)
            return;
    if (i.i && v->n < (int)COUNTOF(v->list))
        v->list[v->n++] = i;
}

static struct near find_near(const struct search *s, const struct users *users)
{
    struct near v = { 0 };
    const struct instr *in = instr_at(s->p->graph->module, s->source);
    add_near(&v, s->source);
    for (uint32_t k = 0; k < in->noperands && k < NEAR; k++)
        add_near(&v, in->operands[k]);
    for (uint32_t k = 0; k < users_count(users, s->source) && k < NEAR; k++)
        add_near(&v, users_of(users, s->source)[k]);
    return v;
}

/* Other ways to place an array that is placed as sh: whole; one dimension whole; one dimension's
 * tiles on another one. */
static void try_others(struct search *s, instr_id loaded, sharding_id sh)
{
    const struct shape *shape = shape_get(s->doc->ir, instr_at(s->doc->module, loaded)->shape);
    try_sharding(s, loaded, sharding_replicated(s->t));
    if (!sh.i || sharding_get(s->t, sh)->kind != SHARDING_TILED || shape->kind != SHAPE_ARRAY || shape->rank > RANKS ||
        sharding_data_rank(s->t, sh) != shape->rank)
        return;
    for (int d = 0; d < shape->rank; d++)
        if (sharding_tile(s->t, sh, d) > 1)
            try_sharding(s, loaded, sharding_replicate_dims(s->t, sh, 1, &d));
    for (int d = 0; d < shape->rank; d++)
        for (int e = 0; e < shape->rank; e++) {
            int64_t tiles = sharding_tile(s->t, sh, d);
            if (d != e && tiles > 1 && shape->dims[e] % (tiles * sharding_tile(s->t, sh, e)) == 0)
                try_sharding(s, loaded, sharding_move_tiles(s->t, sh, d, e));
        }
}

/* The annotations that brought what instruction w has, a dimension each: without it, or otherwise. */
static void try_causes(struct search *s, instr_id w)
{
    const struct shape *shape = shape_get(s->doc->ir, instr_at(s->p->graph->module, w)->shape);
    int rank = shape->kind == SHAPE_ARRAY ? shape->rank : 0;
    for (int d = -1; d < rank; d++) {
        struct why_step *steps;
        int n = why_chain(s->p, w, d, s->a, &steps);
        if (n == 0 || steps[n - 1].write.rule != RULE_ANNOTATION)
            continue;
        instr_id root = loaded_of(s, s->p, steps[n - 1].instr);
        if (!root.i)
            continue;
        try_change(s, (struct annotation){ .kind = ANNOTATE_UNSHARD, .target = root, .leaf = -1 });
        try_others(s, root, final_of(s->p, root));
    }
}

/* Once `at` has sh, what do the instructions on the way to it get? One of them, annotated so itself,
 * is a change nearer to the arguments of the program. */
static void try_upstream(struct search *s, instr_id at, sharding_id sh)
{
    struct trial t;
    struct annotation x = { .kind = ANNOTATE_SHARD, .target = at, .leaf = -1, .sharding = sh };
    const struct module *m = s->doc->module;
    if (!at.i || !sh.i || !within_bounds(s) || !document_try_edit(s->doc, &x, &t, s->tick, NULL))
        return;
    s->work += t.prop->visits;
    instr_id queue[CHAIN] = { at };
    sharding_id then[CHAIN];
    int n = 1;
    for (int k = 0; k < n; k++) {
        const struct instr *in = instr_at(m, queue[k]);
        for (uint32_t o = 0; o < in->noperands && n < CHAIN; o++) {
            sharding_id now = final_of(s->p, in->operands[o]), next = final_of(t.prop, in->operands[o]);
            if (same_layout(s, now, next))
                continue;
            queue[n] = in->operands[o];
            then[n++] = next;
        }
    }
    trial_free(&t);
    for (int k = n - 1; k > 0; k--)
        try_sharding(s, queue[k], then[k]);
}

/* What met here: the side that is moved takes the other's sharding, or the other way round. */
static void try_sides(struct search *s, const struct users *users)
{
    const struct node_note *note = &s->program->notes[s->k->instr.i];
    const struct instr *in = instr_at(s->p->graph->module, s->source);
    for (uint32_t k = 0; k < in->noperands && k < NEAR; k++) {
        instr_id operand = loaded_of(s, s->p, in->operands[k]);
        if (note->from.i && s->p->final[in->operands[k].i].i != note->from.i)
            continue;
        try_sharding(s, operand, note->to);
        try_constraint(s, operand, note->to);
        try_upstream(s, operand, note->to);
    }
    try_sharding(s, s->loaded, note->from);
    try_sharding(s, s->loaded, note->to);
    for (uint32_t k = 0; k < users_count(users, s->source) && k < NEAR; k++)
        try_sharding(s, loaded_of(s, s->p, users_of(users, s->source)[k]), note->from);
}

static void try_all(struct search *s)
{
    struct users users;
    users_make(s->p->graph->module, s->a, &users);
    struct near near = find_near(s, &users);
    try_sides(s, &users);
    for (int k = 0; k < near.n; k++)
        try_causes(s, near.list[k]);
    for (int k = 0; k < near.n; k++) {
        instr_id loaded = loaded_of(s, s->p, near.list[k]);
        if (loaded.i)
            try_others(s, loaded, s->p->final[near.list[k].i]);
    }
}

static bool better(const struct remedy *x, const struct remedy *y)
{
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes;
    return x->arguments != y->arguments ? x->arguments < y->arguments : x->changed < y->changed;
}

static int64_t best_of(const struct search *s)
{
    int64_t best = -1;
    for (int64_t k = 0; k < s->list.n; k++)
        if (s->list.v[k].gone && (best < 0 || better(&s->list.v[k], &s->list.v[best])))
            best = k;
    return best;
}

bool document_remedies(struct document *doc, int64_t collective, bool all, struct arena *a,
                       struct remedies *out, struct tick *t, struct diag *d)
{
    const struct collective *list;
    int64_t n, total;
    *out = (struct remedies){ .best = -1 };
    const struct program *program = document_program(doc, t, d);
    if (!program || !document_collectives(doc, &list, &n, &total, t, d))
        return false;
    struct search s = { .doc = doc, .a = a, .tick = t, .program = program, .k = &list[collective],
                        .t = doc->ir->shardings, .total = total, .all = all };
    s.p = document_propagation(doc, t, d);
    s.source = program->notes[s.k->instr.i].source;
    if (!s.p || !s.source.i)
        return s.p != NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    s.loaded = loaded_of(&s, s.p, s.source);
    s.count = count_like(&s, s.p, program, list, n);
    intern_init(&s.seen, a);
    try_all(&s);
    *out = (struct remedies){ .n = s.list.n, .list = s.list.v, .best = best_of(&s), .stopped = s.stopped,
                              .arguments = argument_bytes(program) };
    fail_leave(&f);
    return true;
}
