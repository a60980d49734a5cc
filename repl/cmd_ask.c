/* Questions about how shardings came to be: step, back and run-to through the history of changes,
 * conflicts, coverage. */
#include <stdlib.h>
#include <string.h>

#include "repl/run.h"

/* ---- change by change ------------------------------------------------------------------------------- */

struct history {
    const struct propagation *p;
    const struct prop_change *list;
    int64_t n;
    bool fresh; /* no step was made in it yet */
};

/* The history of the current strategy; the cursor of another one is forgotten. */
static bool history_open(struct call *c, struct history *h)
{
    h->p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!h->p)
        return false;
    h->list = prop_changes(h->p, &c->arena);
    h->n = h->p->nwrites;
    uint64_t key = document_strategy(c->sh->doc)->propagation_key ^ hash_u64(h->p->nwrites + ((uint64_t)module_ninstrs(document_module(c->sh->doc)) << 32));
    h->fresh = c->sh->step_key != key || c->sh->step_at > h->n;
    if (h->fresh)
        c->sh->step_at = 0;
    c->sh->step_key = key;
    return true;
}

static const char *when_text(struct call *c, struct prop_time t)
{
    if (t.stage == 0 && t.iteration == 0)
        return "given";
    if (t.stage > 4 || t.iteration == 0)
        return "end";
    return arena_printf(&c->arena, "level %d%s, sweep %d", t.stage > 3 ? 3 : t.stage, t.stage > 3 ? " again" : "", t.iteration);
}

static const char *change_label(struct call *c, const struct history *h, const struct prop_change *x)
{
    const char *name = working_label(c, h->p->graph, x->instr);
    return x->write->leaf < 0 ? name : arena_printf(&c->arena, "%s{%d}", name, x->write->leaf);
}

static void json_change(struct call *c, const struct history *h, int64_t k)
{
    const struct prop_change *x = &h->list[k];
    json_open(&c->js, '{');
    json_put_int(&c->js, "number", k + 1);
    json_write(c, h->p, x->instr, x->write, prop_rule_text(h->p, x->instr, x->write));
    if (x->write->leaf >= 0)
        json_put_int(&c->js, "leaf", x->write->leaf);
    json_close(&c->js, '}');
}

static void change_row(struct call *c, const struct history *h, struct table *t, int64_t k, bool back)
{
    const struct prop_change *x = &h->list[k];
    const char **row = table_row(t);
    row[0] = arena_printf(&c->arena, "%" PRId64, k + 1);
    row[1] = when_text(c, x->write->time);
    row[2] = change_label(c, h, x);
    row[3] = arena_printf(&c->arena, "%s -> %s", x->write->before.i ? spelled(c, x->write->before) : "-",
                          x->write->after.i ? spelled(c, x->write->after) : "-");
    row[4] = back ? "taken back" : cause_words(c, h->p, x->instr, x->write, prop_rule_text(h->p, x->instr, x->write));
}

/* Shows changes [from, to) in the order in which they were passed, and puts the cursor behind them. */
static int show_changes(struct call *c, const struct history *h, int64_t from, int64_t to, bool back)
{
    static const char *const heads[] = { ">", "", "", "", "", NULL };
    int64_t n = to - from, shown = call_rows(c, n), skipped = n - shown;
    struct table t;
    c->sh->step_at = back ? from : to;
    table_init(&t, &c->arena, heads);
    if (c->json)
        json_put_open(&c->js, "changes", '[');
    for (int64_t j = c->json ? 0 : skipped; j < n; j++) {
        int64_t k = back ? to - 1 - j : from + j;
        if (c->json)
            json_change(c, h, k);
        else
            change_row(c, h, &t, k, back);
    }
    if (c->json) {
        json_close(&c->js, ']');
        json_put_int(&c->js, "step", c->sh->step_at);
        json_put_int(&c->js, "steps", h->n);
        return STATUS_OK;
    }
    if (skipped)
        out(c, "(%s before these; --all shows them)\n", counted(&c->arena, skipped, "change"));
    table_print(c, &t, false);
    out(c, "after change %s of %s%s\n", with_commas(&c->arena, c->sh->step_at), with_commas(&c->arena, h->n),
        c->sh->step_at == h->n ? ": the end" : c->sh->step_at == 0 ? ": the start" : "");
    return STATUS_OK;
}

/* How many steps: 1, or what the argument says. */
static bool step_count(struct call *c, int64_t *n)
{
    *n = 1;
    if (c->n == 0)
        return true;
    return parse_i64(c->args[0].text, c->args[0].n, n) == c->args[0].n && *n > 0;
}

int cmd_step(struct call *c)
{
    struct history h;
    int64_t n;
    if (!step_count(c, &n))
        return call_usage(c, 0, "not a number of steps");
    if (debug_is_open(c))
        return debug_step_command(c, n);
    if (!history_open(c, &h))
        return call_failed(c);
    int64_t from = c->sh->step_at;
    return show_changes(c, &h, from, n < h.n - from ? from + n : h.n, false);
}

int cmd_back(struct call *c)
{
    struct history h;
    int64_t n;
    if (!step_count(c, &n))
        return call_usage(c, 0, "not a number of steps");
    if (!history_open(c, &h))
        return call_failed(c);
    int64_t to = h.fresh ? h.n : c->sh->step_at;
    return show_changes(c, &h, n < to ? to - n : 0, to, true);
}

/* start, end, a number: the place; else -1. */
static int64_t named_place(const struct call *c, const struct history *h)
{
    const struct word *w = &c->args[0];
    int64_t k;
    if (!w->quoted && !strcmp(w->text, "start"))
        return 0;
    if (!w->quoted && !strcmp(w->text, "end"))
        return h->n;
    if (!w->quoted && parse_i64(w->text, w->n, &k) == w->n && k >= 0)
        return k < h->n ? k : h->n;
    return -1;
}

/* The place behind the next change of the instruction, or in front of the one before; -1: none. */
static int64_t change_of(struct call *c, const struct history *h, instr_id loaded, int64_t leaf, int64_t at, bool back)
{
    for (int64_t k = back ? at - 1 : at; back ? k >= 0 : k < h->n; k += back ? -1 : 1)
        if (loaded_of(c, h->p, h->list[k].instr).i == loaded.i &&
            (leaf < 0 || h->list[k].write->leaf < 0 || h->list[k].write->leaf == leaf))
            return back ? k : k + 1;
    return -1;
}

int cmd_run_to(struct call *c)
{
    struct history h;
    bool back = call_option(c, "--back") != NULL;
    if (!history_open(c, &h))
        return call_failed(c);
    int64_t at = h.fresh && back ? h.n : c->sh->step_at, place = named_place(c, &h);
    if (place < 0) {
        instr_id i;
        int64_t leaf;
        if (!arg_tensor(c, 0, &i, &leaf))
            return call_failed(c);
        place = change_of(c, &h, i, leaf, at, back);
        if (place < 0)
            return call_usage(c, 0, "%s does not change %s change %" PRId64 "%s", tensor_name(c, i), back ? "before" : "after",
                              at, back ? "" : change_of(c, &h, i, leaf, at, true) >= 0 ? " (run-to --back goes the other way)" : "");
    }
    return place >= at ? show_changes(c, &h, at, place, false) : show_changes(c, &h, place, at, true);
}

/* ---- conflicts ---------------------------------------------------------------------------------------- */

struct conflict {
    instr_id instr; /* working graph */
    struct why_candidate winner, loser;
    struct why_candidate second; /* another loser, where nobody won */
    int64_t bytes, count; /* what the partitioner moves there; -1: not asked (no devices) */
};

/* Whether w's neighbours are laid out in more than one way: the others need no look. */
static bool may_conflict(const struct propagation *p, instr_id w, const struct users *users)
{
    const struct module *m = p->graph->module;
    const struct instr *in = instr_at(m, w);
    sharding_id first = { 0 };
    if (shape_get(m->ir, in->shape)->kind != SHAPE_ARRAY)
        return false;
    for (uint32_t k = 0; k < in->noperands + users_count(users, w); k++) {
        instr_id next = k < in->noperands ? in->operands[k] : users_of(users, w)[k - in->noperands];
        sharding_id s = p->final[next.i];
        if (!s.i || !sharding_is_tiled(m->ir->shardings, s) || s.i == first.i)
            continue;
        if (first.i)
            return true;
        first = s;
    }
    return first.i && first.i != p->final[w.i].i;
}

bool split_as(struct shardings *t, const struct shape *shape, sharding_id offered, sharding_id final)
{
    return offered.i == final.i ||
           (final.i && sharding_get(t, final)->kind == SHARDING_TILED && sharding_data_rank(t, offered) == shape->rank &&
            sharding_data_rank(t, final) == shape->rank && sharding_is_subtiling(t, shape->rank, shape->dims, final, offered));
}

/* What w's neighbours would offer at the end, and did not get. */
static bool find_conflict(struct call *c, const struct propagation *p, instr_id w, struct arena *tmp, struct conflict *out_c)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    sharding_id final = p->final[w.i];
    const struct shape *shape = instr_shape(p->graph->module, w);
    struct why_candidate win = { 0 }, lose = { 0 }, second = { 0 }, *list;
    int n = why_candidates(p, w, NULL, tmp, &list);
    for (int v = 0; v < n; v++) {
        if (!list[v].offered.i || sharding_get(t, list[v].offered)->kind != SHARDING_TILED ||
            sharding_num_tiles(t, list[v].offered) <= 1)
            continue;
        if (split_as(t, shape, list[v].offered, final)) {
            if (!win.from.i)
                win = list[v];
        } else if (!lose.from.i) {
            lose = list[v];
        } else if (!second.from.i && list[v].offered.i != lose.offered.i && list[v].from.i != lose.from.i) {
            second = list[v];
        }
    }
    if (!lose.from.i)
        return false;
    /* The one that came first is who brought the result. */
    struct prop_writes writes = prop_writes(p, w);
    for (uint32_t k = 0; k < writes.n && !win.from.i; k++)
        if (writes.v[k].cause.i && writes.v[k].cause.i != lose.from.i)
            win = (struct why_candidate){ .from = writes.v[k].cause, .offered = writes.v[k].after };
    *out_c = (struct conflict){ .instr = w, .winner = win, .loser = lose, .bytes = -1 };
    if (!win.from.i && !instr_at(p->graph->module, w)->sharding.i)
        out_c->second = second;
    return true;
}

/* Collectives that reshard the conflict's values: in the program, those that serve the instruction, and
 * those that move the loser to where the winner is. */
static void price_conflict(struct conflict *x, const struct program *g, const struct collective *list, int64_t n)
{
    x->bytes = x->count = 0;
    for (int64_t k = 0; k < n; k++) {
        const struct node_note *note = &g->notes[list[k].instr.i];
        if (!note->from.i || !note->to.i || note->from.i == note->to.i)
            continue;
        if (note->source.i != x->instr.i && note->source.i != x->loser.from.i)
            continue;
        x->bytes += list[k].bytes;
        x->count++;
    }
}

static void say_conflict(struct call *c, const struct propagation *p, const struct conflict *x)
{
    const char *at = working_label(c, p->graph, x->instr), *place = place_of_working(c, p, x->instr);
    const char *winner = x->winner.from.i ? working_label(c, p->graph, x->winner.from) : "its annotation";
    const char *loser = working_label(c, p->graph, x->loser.from);
    sharding_id won = x->winner.offered.i ? x->winner.offered : p->final[x->instr.i];
    bool nobody = x->second.from.i;
    if (nobody)
        winner = "";
    if (c->json) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "instruction", at);
        json_put_string(&c->js, "sharding", hlo_text(c, p->final[x->instr.i]));
        json_put_string(&c->js, "winner", winner);
        json_put_string(&c->js, "won", hlo_text(c, won));
        json_put_string(&c->js, "loser", loser);
        json_put_string(&c->js, "offered", hlo_text(c, x->loser.offered));
        json_put_string(&c->js, "reason", x->loser.reason);
        if (nobody) {
            json_put_string(&c->js, "second", working_label(c, p->graph, x->second.from));
            json_put_string(&c->js, "second_offered", hlo_text(c, x->second.offered));
        }
        if (x->bytes >= 0) {
            json_put_int(&c->js, "reshards", x->count);
            json_put_int(&c->js, "bytes", x->bytes);
        }
        json_close(&c->js, '}');
        return;
    }
    out(c, "%s  %s%s%s\n", at, spelled(c, p->final[x->instr.i]), place[0] ? "  " : "", place);
    if (nobody)
        out(c, "  nobody won; %s offered %s, %s offered %s\n", loser, spelled(c, x->loser.offered),
            working_label(c, p->graph, x->second.from), spelled(c, x->second.offered));
    else
        out(c, "  %s won%s%s; %s offered %s%s%s\n", winner, x->winner.offered.i ? " with " : "",
        x->winner.offered.i ? spelled(c, x->winner.offered) : "", loser, spelled(c, x->loser.offered),
        x->loser.reason ? ": " : "", x->loser.reason ? x->loser.reason : "");
    if (x->count > 0)
        out(c, "  it costs %s, %s a device\n", counted(&c->arena, x->count, "collective"), nice_bytes(&c->arena, x->bytes));
    else if (x->bytes == 0)
        out(c, "  nothing is sent for it\n");
}

/* What they cost, where the program can be had. */
static void price_conflicts(struct call *c, struct conflict *list, int64_t n)
{
    struct document *doc = c->sh->doc;
    const struct collective *found;
    int64_t count, total;
    if (n == 0 || document_devices(doc) <= 0 || document_is_partitioned(doc) ||
        !strategy_collectives(doc, document_strategy(doc), &found, &count, &total, call_tick(c), NULL))
        return;
    const struct program *g = document_program(doc, call_tick(c), NULL);
    for (int64_t k = 0; g && k < n; k++)
        price_conflict(&list[k], g, found, count);
}

int cmd_conflicts(struct call *c)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    VEC(struct conflict) found = { 0 };
    struct users users;
    users_make(p->graph->module, &c->arena, &users);
    for (uint32_t k = 1; k <= module_ninstrs(p->graph->module); k++) {
        if (!may_conflict(p, (instr_id){ k }, &users))
            continue;
        if (!tick_now(call_tick(c), "conflicts", k, module_ninstrs(p->graph->module)))
            return call_error(c, STATUS_INTERRUPTED, "interrupted", "interrupted");
        struct arena tmp = { 0 };
        arena_open(&tmp);
        struct conflict x;
        if (find_conflict(c, p, (instr_id){ k }, &tmp, &x))
            vec_push(&c->arena, &found, x);
        arena_close(&tmp);
    }
    int64_t shown = call_rows(c, found.n);
    price_conflicts(c, found.v, found.n);
    if (c->json)
        json_put_open(&c->js, "conflicts", '[');
    for (int64_t k = 0; k < shown; k++)
        say_conflict(c, p, &found.v[k]);
    if (c->json)
        json_close(&c->js, ']');
    else if (found.n == 0)
        out(c, "no conflicts: no two candidates disagreed\n");
    call_more(c, shown, found.n, "conflicts");
    return STATUS_OK;
}

/* ---- coverage --------------------------------------------------------------------------------------- */

struct covered {
    struct prop_reach reach;
    instr_id loaded;
    int annotation;  /* of the strategy; -1: the module's */
    int64_t changes; /* instructions that change when it is taken away; -1: not tried */
    bool spare;      /* could go, with the spare ones before it gone as well */
};

/* The strategy without an annotation: the user's is left out, the module's is unsharded. */
static int without_seed(struct call *c, const struct covered *x, const struct annotation *from, int n, struct annotation **list)
{
    *list = ARENA_ARRAY(&c->arena, struct annotation, n + 1);
    int count = 0;
    for (int k = 0; k < n; k++)
        if (from[k].number != x->annotation || x->annotation < 0)
            (*list)[count++] = from[k];
    if (x->annotation < 0)
        (*list)[count++] = (struct annotation){ .kind = ANNOTATE_UNSHARD, .target = x->loaded, .leaf = -1, .number = -1 };
    return count;
}

/* keep: the trial, in place of what it had, where nothing changes; NULL: not wanted. */
static int64_t changes_without(struct call *c, const struct propagation *p, int n, const struct annotation *list, struct trial *keep,
                               int64_t *work)
{
    struct trial t;
    struct change *changed;
    if (!document_try(c->sh->doc, n, list, &t, call_tick(c), NULL))
        return -1;
    int64_t changes = compare_shardings(c, p, t.prop, &changed);
    *work += t.prop->visits + module_ninstrs(t.prop->graph->module) / 32; /* what every trial costs */
    if (!keep || changes) {
        trial_free(&t);
        return changes;
    }
    document_try_base(c->sh->doc, n, list, t.prop);
    trial_free(keep);
    *keep = t;
    return changes;
}

/* By trying: what changes without each; and, one after the other, which could all go. */
static void try_without(struct call *c, const struct propagation *p, struct covered *list, int64_t n)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    int64_t work = 0;
    struct annotation *left = ARENA_ARRAY(&c->arena, struct annotation, s->nannotations + 1), *less;
    int nleft = s->nannotations, nless;
    bool any = false;
    struct trial kept = { 0 };
    for (int k = 0; k < nleft; k++) {
        left[k] = s->annotations[k];
        left[k].number = k;
    }
    for (int64_t k = 0; k < n; k++) {
        if (!list[k].loaded.i || (!c->all && work > TRY_VISITS) || !tick_now(call_tick(c), "coverage", k, n))
            continue;
        nless = without_seed(c, &list[k], left, nleft, &less);
        if (any) {
            struct annotation *alone;
            int nalone = without_seed(c, &list[k], s->annotations, s->nannotations, &alone);
            list[k].changes = changes_without(c, p, nalone, alone, NULL, &work);
        } else {
            list[k].changes = changes_without(c, p, nless, less, &kept, &work);
        }
        list[k].spare = list[k].changes == 0 && (!any || changes_without(c, p, nless, less, &kept, &work) == 0);
        if (!list[k].spare)
            continue;
        any = true;
        left = less;
        nleft = nless;
    }
    document_try_base(c->sh->doc, 0, NULL, NULL);
    trial_free(&kept);
}

static int by_reach(const void *x, const void *y)
{
    const struct covered *a = x, *b = y;
    if (a->reach.reached != b->reach.reached)
        return a->reach.reached < b->reach.reached ? 1 : -1;
    return a->reach.seed.i < b->reach.seed.i ? -1 : a->reach.seed.i > b->reach.seed.i;
}

/* Annotations of the strategy and of the module, those that reached most first. */
static int64_t list_covered(struct call *c, const struct propagation *p, struct covered **list)
{
    struct prop_reach *reach;
    int64_t n = prop_coverage(p, &c->arena, &reach), count = 0;
    *list = ARENA_ARRAY(&c->arena, struct covered, n + 1);
    for (int64_t k = 0; k < n; k++) {
        instr_id loaded = loaded_of(c, p, reach[k].seed);
        int own = document_annotation_of(c->sh->doc, reach[k].seed, NULL);
        struct covered x = { .reach = reach[k], .loaded = loaded, .annotation = own, .changes = -1 };
        if (own >= 0)
            x.loaded = document_strategy(c->sh->doc)->annotations[own].target;
        (*list)[count++] = x;
    }
    qsort(*list, (size_t)count, sizeof **list, by_reach);
    return count;
}

static void json_covered(struct call *c, const struct propagation *p, const struct covered *x)
{
    json_open(&c->js, '{');
    json_put_string(&c->js, "instruction", working_label(c, p->graph, x->reach.seed));
    json_put_string(&c->js, "annotated_by", annotated_by(c, p, x->reach.seed));
    json_put_string(&c->js, "sharding", hlo_text(c, p->final[x->reach.seed.i]));
    json_put_int(&c->js, "reached", x->reach.reached);
    json_put_int(&c->js, "split_dimensions", x->reach.split_by);
    if (x->changes >= 0)
        json_put_int(&c->js, "changes_without", x->changes);
    else
        json_put_null(&c->js, "changes_without");
    json_put_bool(&c->js, "could_go", x->spare);
    json_close(&c->js, '}');
}

static const char *verdict_of(struct call *c, const struct covered *x)
{
    if (x->changes < 0)
        return "not tried";
    if (x->changes > 0)
        return arena_printf(&c->arena, "without it %s", x->changes == 1 ? "1 changes" : arena_printf(&c->arena, "%s change", with_commas(&c->arena, x->changes)));
    return x->spare ? "could go: nothing changes" : "could go, but not with those above";
}

int cmd_coverage(struct call *c)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct covered *list;
    int64_t n = list_covered(c, p, &list), spare = 0, untried = 0;
    try_without(c, p, list, n);
    for (int64_t k = 0; k < n; k++) {
        spare += list[k].spare;
        untried += list[k].changes < 0;
    }
    if (c->json) {
        json_put_open(&c->js, "annotations", '[');
        for (int64_t k = 0; k < n; k++)
            json_covered(c, p, &list[k]);
        json_close(&c->js, ']');
        json_put_int(&c->js, "instructions", module_ninstrs(p->graph->module));
        json_put_int(&c->js, "could_go", spare);
        return STATUS_OK;
    }
    if (n == 0) {
        out(c, "no annotations: nothing to reach from\n");
        return STATUS_OK;
    }
    static const char *const heads[] = { "annotation", "sharding", ">reached", "by trying", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = call_rows(c, n);
    for (int64_t k = 0; k < shown; k++) {
        const char **row = table_row(&t);
        row[0] = working_label(c, p->graph, list[k].reach.seed);
        row[1] = spelled(c, p->final[list[k].reach.seed.i]);
        row[2] = with_commas(&c->arena, list[k].reach.reached);
        row[3] = verdict_of(c, &list[k]);
        row[4] = annotated_by(c, p, list[k].reach.seed);
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "annotations");
    if (untried)
        out(c, "%s not tried (--all tries)\n", counted(&c->arena, untried, "annotation"));
    out(c, "%s of %s could go together\n", with_commas(&c->arena, spare), counted(&c->arena, n, "annotation"));
    return STATUS_OK;
}
