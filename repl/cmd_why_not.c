/* why-not: what stands against a sharding, and what would bring it, found by trying annotations on
 * copies of the strategy. */
#include <string.h>

#include "repl/commands.h"

enum { MOST_REASONS = 8, MOST_TRIALS = 64 };

/* The strategy's annotations with one more (NULL: none) and without one (-1: none). */
static int with_annotation(struct call *c, const struct annotation *add, int without, struct annotation **list)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    int n = 0;
    *list = ARENA_ARRAY(&c->arena, struct annotation, s->nannotations + 1);
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        if (k != without && !(add && a->target.i == add->target.i && (a->leaf == add->leaf || add->leaf < 0)))
            (*list)[n++] = *a;
    }
    if (add)
        (*list)[n++] = *add;
    return n;
}

static sharding_id final_in(const struct propagation *p, instr_id loaded)
{
    const struct graph *g = p->graph;
    return g->start[loaded.i + 1] > g->start[loaded.i] ? p->final[g->list[g->start[loaded.i]].i] : (sharding_id){ 0 };
}

struct question {
    const struct propagation *p;
    instr_id loaded, working;
    const struct shape *shape;
    sharding_id want, have;
    int reasons;
};

static void reason(struct call *c, struct question *q, const char *kind, const char *from, const char *text)
{
    if (c->json) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "kind", kind);
        if (from)
            json_put_string(&c->js, "from", from);
        json_put_string(&c->js, "text", text);
        json_close(&c->js, '}');
    } else {
        out(c, "  %-10s  %s\n", kind, text);
    }
    q->reasons++;
}

/* Names of the axes that split dimension d: " (axis model)"; "" when they are none of the mesh's. */
static const char *axes_along(struct call *c, sharding_id s, int d)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    const struct mesh *mesh = document_mesh(c->sh->doc);
    const char *names[MESH_MAX_AXES];
    int n;
    if (!mesh || !mesh_axes_of_groups(t, mesh, sharding_groups_along(t, s, 1, &d), &c->arena, &n, names) || !n)
        return "";
    struct str text = STR_IN(&c->arena);
    for (int k = 0; k < n; k++)
        str_addf(&text, "%s%s", k ? "," : n > 1 ? " (axes " : " (axis ", names[k]);
    str_addc(&text, ')');
    return str_text(&text);
}

static bool is_tiled_array(const struct shardings *t, const struct shape *shape, sharding_id s)
{
    return s.i && shape->kind == SHAPE_ARRAY && sharding_get(t, s)->kind == SHARDING_TILED &&
           sharding_data_rank(t, s) == shape->rank;
}

/* Devices that are to split one dimension split another one already. */
static void axis_reasons(struct call *c, struct question *q)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    if (!is_tiled_array(t, q->shape, q->want) || !is_tiled_array(t, q->shape, q->have))
        return;
    for (int d = 0; d < q->shape->rank; d++)
        for (int e = 0; e < q->shape->rank; e++)
            if (d != e && sharding_tile(t, q->want, d) > 1 && sharding_tile(t, q->have, e) > 1 &&
                tiling_same_groups(t, sharding_groups_along(t, q->want, 1, &d), sharding_groups_along(t, q->have, 1, &e)))
                reason(c, q, "axis", NULL,
                       arena_printf(&c->arena, "what should split dimension %d splits dimension %d%s", d, e, axes_along(c, q->have, e)));
}

static void size_reasons(struct call *c, struct question *q)
{
    const struct shardings *t = document_ir(c->sh->doc)->shardings;
    if (!is_tiled_array(t, q->shape, q->want))
        return;
    for (int d = 0; d < q->shape->rank; d++) {
        int64_t tiles = sharding_tile(t, q->want, d), size = q->shape->dims[d];
        if (tiles > size)
            reason(c, q, "size", NULL, arena_printf(&c->arena, "dimension %d has %" PRId64 " elements, fewer than the %" PRId64 " tiles: some devices would hold padding alone", d, size, tiles));
        else if (size % tiles && !document_may_change(c->sh->doc, q->loaded, -1))
            reason(c, q, "size", NULL, arena_printf(&c->arena, "dimension %d has %" PRId64 " elements, which %" PRId64 " tiles do not divide", d, size, tiles));
    }
}

static void given_reasons(struct call *c, struct question *q)
{
    const struct module *m = document_module(c->sh->doc);
    struct prop_writes list = q->working.i ? prop_writes(q->p, q->working) : (struct prop_writes){ NULL, 0 };
    const char *by = list.n && list.v[0].rule == RULE_ANNOTATION ? annotated_by(c, q->p, q->working) : NULL;
    bool root = q->loaded.i == comp_at(m, m->entry)->root.i;
    if (by)
        reason(c, q, "annotated", NULL, arena_printf(&c->arena, "it is annotated by %s; propagation keeps that (P-75, P-87)", by));
    else if (!document_may_change(c->sh->doc, q->loaded, -1))
        reason(c, q, "boundary", NULL,
               arena_printf(&c->arena, "%s get no sharding from propagation here; set to_%s=true lets it",
                            root ? "outputs" : "parameters", root ? "output" : "parameters"));
}

/* Neighbours that offered it, or more, and lost; whether any did. */
static bool candidate_reasons(struct call *c, struct question *q, const struct prop_write *at)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    struct why_candidate *list;
    int n = why_candidates(q->p, q->working, at, &c->arena, &list);
    bool any = false;
    for (int k = 0; k < n && q->reasons < MOST_REASONS; k++) {
        if (!list[k].offered.i || list[k].taken || !split_as(t, q->shape, q->want, list[k].offered))
            continue;
        const char *from = working_label(c, q->p->graph, list[k].from);
        reason(c, q, "conflict", from, arena_printf(&c->arena, "%s offers it and loses: %s", from, list[k].reason ? list[k].reason : "no better"));
        any = true;
    }
    return any;
}

static void say_reasons(struct call *c, struct question *q)
{
    if (c->json)
        json_put_open(&c->js, "reasons", '[');
    given_reasons(c, q);
    axis_reasons(c, q);
    size_reasons(c, q);
    if (q->working.i && q->shape->kind == SHAPE_ARRAY && !candidate_reasons(c, q, NULL))
        for (uint32_t k = 0; k < prop_writes(q->p, q->working).n; k++)
            if (candidate_reasons(c, q, &prop_writes(q->p, q->working).v[k]))
                break;
    if (!q->reasons)
        reason(c, q, "no path", NULL, "no neighbour offers it: no annotation's split leads here");
    if (c->json)
        json_close(&c->js, ']');
}

/* ---- the nearest annotation that brings it ------------------------------------------------------------ */

struct search {
    struct question *q;
    struct propagation *with; /* the strategy with T annotated: what others get then */
    int64_t work, tried;
};

static bool brings(struct call *c, const struct question *q, const struct propagation *p)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    sharding_id got = final_in(p, q->loaded);
    return got.i == q->want.i || (got.i && is_tiled_array(t, q->shape, q->want) && split_as(t, q->shape, q->want, got));
}

static bool try_one(struct call *c, struct search *s, int n, const struct annotation *list, int64_t *changes)
{
    struct trial t;
    struct change *changed;
    s->tried++;
    if (!document_try(c->sh->doc, n, list, &t, call_tick(c), NULL))
        return false;
    bool yes = brings(c, s->q, t.prop);
    s->work += t.prop->visits;
    *changes = yes ? compare_shardings(c, s->q->p, t.prop, &changed) : 0;
    trial_free(&t);
    return yes;
}

/* Takes each annotation of the chain that brought the present sharding away. */
static const char *try_removing(struct call *c, struct search *s, int64_t *changes)
{
    struct why_step *steps;
    int n = why_chain(s->q->p, s->q->working, -1, &c->arena, &steps);
    if (n < 2 || steps[n - 1].write.rule != RULE_ANNOTATION)
        return NULL;
    struct annotation *list;
    int own = document_annotation_of(c->sh->doc, steps[n - 1].instr, NULL);
    instr_id loaded = loaded_of(c, s->q->p, steps[n - 1].instr);
    struct annotation off = { .kind = ANNOTATE_UNSHARD, .target = loaded, .leaf = -1 };
    if (own < 0 && !loaded.i)
        return NULL;
    int count = own >= 0 ? with_annotation(c, NULL, own, &list) : with_annotation(c, &off, -1, &list);
    if (!try_one(c, s, count, list, changes))
        return NULL;
    return arena_printf(&c->arena, "unshard %s", tensor_name(c, own >= 0 ? document_strategy(c->sh->doc)->annotations[own].target : loaded));
}

/* Outwards from T: what gets another sharding once T has the one wanted would, annotated so itself,
 * mostly lead back to T. */
static const char *try_neighbours(struct call *c, struct search *s, int64_t *changes)
{
    const struct module *m = s->q->p->graph->module;
    struct shardings *t = m->ir->shardings;
    struct users users;
    users_make(m, &c->arena, &users);
    uint8_t *seen = ARENA_ARRAY(&c->arena, uint8_t, (int64_t)module_ninstrs(m) + 1);
    VEC(instr_id) queue = { 0 };
    vec_push(&c->arena, &queue, s->q->working);
    seen[s->q->working.i] = 1;
    for (int64_t k = 0; k < queue.n && (c->all || s->work < TRY_VISITS) && s->tried < MOST_TRIALS; k++) {
        instr_id x = queue.v[k], loaded = loaded_of(c, s->q->p, x);
        const struct instr *in = instr_at(m, x);
        sharding_id now = s->q->p->final[x.i], then = loaded.i ? final_in(s->with, loaded) : now;
        bool differs = then.i != now.i && then.i && sharding_get(t, then)->kind == SHARDING_TILED;
        if (k > 0 && loaded.i && differs && loaded.i != s->q->loaded.i && in->op != OP_CONSTANT) {
            struct annotation a = { .kind = ANNOTATE_SHARD, .target = loaded, .leaf = -1, .sharding = then }, *list;
            int n = with_annotation(c, &a, -1, &list);
            if (try_one(c, s, n, list, changes))
                return arena_printf(&c->arena, "shard %s %s", tensor_name(c, loaded), spelled(c, then));
        }
        if (k > 0 && !differs)
            continue; /* beyond, nothing of it would come back */
        for (uint32_t j = 0; j < in->noperands + users_count(&users, x); j++) {
            instr_id y = j < in->noperands ? in->operands[j] : users_of(&users, x)[j - in->noperands];
            if (seen[y.i])
                continue;
            seen[y.i] = 1;
            vec_push(&c->arena, &queue, y);
        }
    }
    return NULL;
}

static void say_remedy(struct call *c, struct question *q)
{
    struct annotation a = { .kind = ANNOTATE_SHARD, .target = q->loaded, .leaf = -1, .sharding = q->want }, *list;
    struct trial with;
    int64_t changes = 0;
    int n = with_annotation(c, &a, -1, &list);
    const char *found = NULL, *direct = NULL;
    struct search s = { .q = q };
    if (document_try(c->sh->doc, n, list, &with, call_tick(c), NULL)) {
        if (brings(c, q, with.prop))
            direct = arena_printf(&c->arena, "shard %s %s", tensor_name(c, q->loaded), spelled(c, q->want));
        s.with = with.prop;
        found = try_removing(c, &s, &changes);
        if (!found && direct)
            found = try_neighbours(c, &s, &changes);
        trial_free(&with);
    }
    if (c->json) {
        json_put_string(&c->js, "nearest", found);
        if (found)
            json_put_int(&c->js, "changes", changes);
        json_put_string(&c->js, "direct", direct);
        json_put_int(&c->js, "tried", s.tried);
        return;
    }
    if (found)
        out(c, "would bring it: %s (%s changed; found by trying)\n", found, counted(&c->arena, changes, "sharding"));
    else if (s.tried)
        out(c, "none of %s elsewhere that were tried brings it\n", counted(&c->arena, s.tried, "annotation"));
    if (direct)
        out(c, "always:         %s\n", direct);
    else
        out(c, "not even an annotation of its own brings it\n");
}

int cmd_why_not(struct call *c)
{
    struct question q = { 0 };
    int64_t leaf;
    uint32_t off;
    uint64_t open;
    if (!arg_tensor(c, 0, &q.loaded, &leaf))
        return call_failed(c);
    const struct module *m = document_module(c->sh->doc);
    q.shape = shape_get(m->ir, instr_at(m, q.loaded)->shape);
    if (q.shape->kind != SHAPE_ARRAY)
        return call_usage(c, 0, "%s is no array; ask for what goes in or is taken out", tensor_name(c, q.loaded));
    const char *spec = call_rest(c, 1, &off);
    if (!read_spec(c, spec, strlen(spec), off, instr_at(m, q.loaded)->shape, &q.want, &open))
        return STATUS_USAGE;
    q.p = document_propagation(c->sh->doc, call_tick(c), c->d);
    struct tensor_view v;
    if (!q.p || !document_view(c->sh->doc, q.loaded, 0, &v, call_tick(c), c->d))
        return call_failed(c);
    if (v.nsites == 0)
        return call_usage(c, 0, "%s was removed before propagation (why tells)", tensor_name(c, q.loaded));
    q.working = v.working;
    q.have = v.sharding;
    bool holds = brings(c, &q, q.p);
    const char *name = tensor_name(c, q.loaded), *has = q.have.i ? spelled(c, q.have) : "no sharding";
    if (c->json) {
        json_put_string(&c->js, "instruction", working_label(c, q.p->graph, q.working));
        json_put_string(&c->js, "sharding", hlo_text(c, q.have));
        json_put_string(&c->js, "wanted", hlo_text(c, q.want));
        json_put_bool(&c->js, "holds", holds);
    } else if (holds) {
        out(c, "%s is split so: it has %s (why %s tells the way)\n", name, has, name);
    } else {
        out(c, "%s  %s  has %s, not %s\n", name, shape_text(c, instr_at(m, q.loaded)->shape), has, spelled(c, q.want));
    }
    if (holds)
        return STATUS_OK;
    say_reasons(c, &q);
    say_remedy(c, &q);
    return STATUS_OK;
}
