/* blame: whose a collective is, what was weighed where it was made, and which change of annotations
 * removes it -- found by trying (session/remedy.c), with what that change adds elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

enum { SHOWN_TRIALS = 5, MOST_WAYS = 4 };

static bool find_collective(struct call *c, const struct module *m, const struct program *p,
                            const struct collective *list, int64_t n, int64_t *at)
{
    const char *name = c->args[0].text;
    if (name[0] == '%')
        name++;
    for (*at = 0; *at < n; ++*at)
        if (!strcmp(name_text(m->ir, instr_at(m, list[*at].instr)->name), name) ||
            !strcmp(collective_label(c, m, &list[*at]), name))
            return true;
    for (*at = 0; *at < n; ++*at) {
        const char *full = served_label(c, p, list[*at].instr, true),
                   *brief = served_label(c, p, list[*at].instr, false);
        if ((full && !strcmp(full, name)) || (brief && !strcmp(brief, name)))
            return true;
    }
    diag_stage(c->d, "name");
    diag_error(c->d, c->src, call_span(c, 0),
               "no collective is named '%s', and none is for such an instruction", name);
    if (n == 0)
        diag_hint(c->d, "the program has no collectives");
    else
        diag_hint(c->d, "comms lists them: %s, ...", collective_label(c, m, &list[0]));
    return false;
}

static void say_value(struct call *c, const char *what, const struct program *p,
                      const struct module *m, instr_id node)
{
    const char *served = served_label(c, p, node, false);
    sharding_id s = p->node_sharding ? p->node_sharding[node.i] : (sharding_id){ 0 };
    struct str label = STR_IN(&c->arena);
    instr_label(m, node, true, &label);
    out(c, "  %-10s %s %s%s%s%s%s\n", what, str_text(&label),
        shape_text(c, instr_at(m, node)->shape), served ? ", of " : "", served ? served : "",
        s.i ? "  " : "", s.i ? spelled(c, s) : "");
}

/* ---- what was weighed ----------------------------------------------------------------------------- */

struct way {
    const char *text;
    int64_t bytes; /* that one device sends */
    bool chosen;
};

/* Bytes of making an array whole on every device, one all-gather a dimension (S-65). */
static int64_t whole_bytes(struct call *c, shape_id shape, sharding_id s)
{
    struct tensor_view v;
    measure_shape(document_ir(c->sh->doc), shape, s, document_devices(c->sh->doc), &v);
    return v.tiles > 1 ? v.bytes * (v.tiles - 1) : 0;
}

/* Bytes of all that the same move is made of: the collectives of one instruction between the same
 * two shardings. */
static int64_t move_bytes(const struct program *p, const struct collective *list, int64_t n,
                          const struct node_note *note)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const struct node_note *x = &p->notes[list[k].instr.i];
        if (x->source.i == note->source.i && x->from.i == note->from.i && x->to.i == note->to.i)
            sum += list[k].bytes;
    }
    return sum;
}

static int weigh_move(struct call *c, const struct program *p, const struct collective *list, int64_t n,
                      const struct node_note *note, shape_id shape, struct way *ways)
{
    int64_t trips = 0, chosen = move_bytes(p, list, n, note), moved = 0;
    /* An instruction may move several operands between the same two shardings. */
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    const struct instr *in = prop ? instr_at(prop->graph->module, note->source) : NULL;
    for (uint32_t o = 0; in && o < in->noperands; o++)
        moved += prop->final[in->operands[o].i].i == note->from.i;
    for (int64_t k = 0; k < n && !trips; k++)
        if (p->notes[list[k].instr.i].source.i == note->source.i)
            trips = list[k].trip_count;
    int64_t whole = whole_bytes(c, shape, note->from) * (trips ? trips : 1) * max_i64(moved, 1);
    ways[0] = (struct way){ arena_printf(&c->arena, "the move %s -> %s as it is", spelled(c, note->from), spelled(c, note->to)),
                            chosen, true };
    ways[1] = (struct way){ "the array made whole on every device, then cut", whole, false };
    return 2;
}

/* A product's partial sums: gathering an operand along the same devices instead. */
static int weigh_operands(struct call *c, const struct propagation *prop, const struct collective *k,
                          instr_id source, struct way *ways)
{
    const struct module *m = prop->graph->module;
    const struct instr *in = instr_at(m, source);
    int n = 0;
    ways[n++] = (struct way){ arena_printf(&c->arena, "%s as it is", op_name(k->kind)), k->bytes, true };
    for (uint32_t o = 0; o < in->noperands && n < MOST_WAYS && o < 2; o++) {
        struct tensor_view v;
        shape_id shape = instr_at(m, in->operands[o])->shape;
        if (shape_get(m->ir, shape)->kind != SHAPE_ARRAY || !prop->final[in->operands[o].i].i)
            continue;
        measure_shape(document_ir(c->sh->doc), shape, prop->final[in->operands[o].i], document_devices(c->sh->doc), &v);
        if (v.tiles > 1)
            ways[n++] = (struct way){ arena_printf(&c->arena, "%s gathered over the same devices", working_label(c, prop->graph, in->operands[o])),
                                      v.bytes * (k->group_size - 1) * k->trip_count, false };
    }
    return n > 1 ? n : 0;
}

static int weigh(struct call *c, const struct program *p, const struct propagation *prop, const struct collective *list,
                 int64_t n, const struct collective *k, struct way *ways)
{
    const struct node_note *note = &p->notes[k->instr.i];
    if (!note->source.i)
        return 0;
    const struct instr *in = instr_at(prop->graph->module, note->source);
    if (!note->from.i)
        return in->op == OP_DOT || in->op == OP_CONVOLUTION ? weigh_operands(c, prop, k, note->source, ways) : 0;
    shape_id shape = in->shape;
    for (uint32_t o = 0; o < in->noperands; o++)
        if (prop->final[in->operands[o].i].i == note->from.i)
            shape = instr_at(prop->graph->module, in->operands[o])->shape;
    const struct shape *v = shape_get(prop->graph->module->ir, shape);
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    bool fits = v->kind == SHAPE_ARRAY && (sharding_get(t, note->from)->kind != SHARDING_TILED || sharding_data_rank(t, note->from) == v->rank);
    return fits ? weigh_move(c, p, list, n, note, shape, ways) : 0;
}

static void say_ways(struct call *c, const struct way *ways, int n)
{
    if (c->json) {
        json_put_open(&c->js, "weighed", '[');
        for (int k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "way", ways[k].text);
            json_put_int(&c->js, "bytes", ways[k].bytes);
            json_put_bool(&c->js, "chosen", ways[k].chosen);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    for (int k = 0; k < n; k++)
        out(c, "  %-10s %s: %s\n", k ? "" : "weighed", ways[k].text, nice_bytes(&c->arena, ways[k].bytes));
}

/* ---- what removes it -------------------------------------------------------------------------------- */

static const char *change_text(struct call *c, const struct annotation *x)
{
    static const char *const verbs[] = { "shard", "constrain", "unshard" };
    const char *spec = x->kind == ANNOTATE_UNSHARD ? NULL : spelled(c, x->sharding);
    return arena_printf(&c->arena, "%s %s%s%s", verbs[x->kind], tensor_name(c, x->target), spec ? " " : "", spec ? spec : "");
}

static const char *more_or_less(struct call *c, int64_t bytes)
{
    if (bytes == 0)
        return "nothing more";
    return arena_printf(&c->arena, "%s %s", nice_bytes(&c->arena, bytes < 0 ? -bytes : bytes), bytes < 0 ? "less" : "more");
}

static void json_remedy(struct call *c, const struct remedy *x)
{
    json_put_string(&c->js, "command", change_text(c, &x->change));
    json_put_bool(&c->js, "gone", x->gone);
    json_put_int(&c->js, "bytes", x->bytes);
    json_put_int(&c->js, "collectives", x->ncollectives);
    json_put_int(&c->js, "elsewhere", x->elsewhere);
    json_put_int(&c->js, "changed", x->changed);
    json_put_int(&c->js, "argument_bytes", x->arguments);
}

/* Those that remove it first, then by bytes. */
static int by_worth(const void *a, const void *b)
{
    const struct remedy *x = a, *y = b;
    if (x->gone != y->gone)
        return x->gone ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->arguments != y->arguments)
        return x->arguments < y->arguments ? -1 : 1;
    return x->changed < y->changed ? -1 : x->changed > y->changed;
}

static void say_trials(struct call *c, const struct remedies *r)
{
    static const char *const heads[] = { "tried", "it", ">bytes in all", ">elsewhere", ">arguments", ">shardings", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = c->all || r->n < SHOWN_TRIALS ? r->n : SHOWN_TRIALS;
    for (int64_t k = 0; k < shown; k++) {
        const struct remedy *x = &r->list[k];
        const char **row = table_row(&t);
        row[0] = change_text(c, &x->change);
        row[1] = x->gone ? "goes" : "stays";
        row[2] = with_commas(&c->arena, x->bytes);
        row[3] = x->gone ? arena_printf(&c->arena, "%s%s", x->elsewhere < 0 ? "-" : "+", with_commas(&c->arena, x->elsewhere < 0 ? -x->elsewhere : x->elsewhere)) : "";
        row[4] = nice_bytes(&c->arena, x->arguments);
        row[5] = with_commas(&c->arena, x->changed);
    }
    table_print(c, &t, true);
    if (shown < r->n)
        out(c, "and %s more: blame %s --all\n", with_commas(&c->arena, r->n - shown), c->args[0].text);
    if (r->stopped)
        out(c, "there are more to try than fit here: --all tries them\n");
}

static void say_remedies(struct call *c, const struct remedies *r, int64_t total)
{
    const struct remedy *best = r->best >= 0 ? &r->list[r->best] : NULL;
    if (c->json) {
        if (best) {
            json_put_open(&c->js, "remedy", '{');
            json_remedy(c, best);
            json_close(&c->js, '}');
        } else {
            json_put_string(&c->js, "remedy", NULL);
        }
        json_put_string(&c->js, "verdict", !best ? "kept" : best->bytes < total ? "avoidable" : "necessary");
        json_put_int(&c->js, "tried", r->n);
        json_put_bool(&c->js, "stopped", r->stopped);
        json_put_int(&c->js, "argument_bytes", r->arguments);
        json_put_open(&c->js, "trials", '[');
        for (int64_t k = 0; k < r->n; k++) {
            json_open(&c->js, '{');
            json_remedy(c, &r->list[k]);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    if (!best) {
        if (r->n)
            out(c, "none of %s that were tried removes it\n", counted(&c->arena, r->n, "change"));
        return;
    }
    out(c, "%s: %s removes it; %s elsewhere, %s bytes in all instead of %s (found by trying %s)\n",
        best->bytes < total ? "avoidable" : "necessary", change_text(c, &best->change), more_or_less(c, best->elsewhere),
        with_commas(&c->arena, best->bytes), with_commas(&c->arena, total), counted(&c->arena, r->n, "change"));
}

/* ---- the answer --------------------------------------------------------------------------------------- */

static void json_facts(struct call *c, const struct program *p, const struct collective *k, const struct users *users)
{
    const struct module *m = p->module;
    const struct node_note *note = &p->notes[k->instr.i];
    const struct instr *in = instr_at(m, k->instr);
    json_put_open(&c->js, "collective", '{');
    json_put_string(&c->js, "name", name_text(m->ir, in->name));
    json_put_string(&c->js, "kind", op_name(k->kind));
    json_put_int(&c->js, "bytes", k->bytes);
    json_close(&c->js, '}');
    json_put_string(&c->js, "for", served_label(c, p, k->instr, true));
    json_put_string(&c->js, "reason", note->reason);
    json_put_string(&c->js, "from", hlo_text(c, note->from));
    json_put_string(&c->js, "to", hlo_text(c, note->to));
    json_put_string(&c->js, "producer", in->noperands ? served_label(c, p, in->operands[0], true) : NULL);
    json_put_open(&c->js, "consumers", '[');
    for (uint32_t u = 0; u < users_count(users, k->instr) && u < 16; u++)
        json_string(&c->js, served_label(c, p, users_of(users, k->instr)[u], true));
    json_close(&c->js, ']');
    json_put_string(&c->js, "source", place_of(c, served_by(c, p, k->instr)));
}

static void say_facts(struct call *c, const struct program *p, const struct propagation *prop,
                      const struct collective *k, const struct users *users)
{
    const struct module *m = p->module;
    const struct node_note *note = &p->notes[k->instr.i];
    instr_id loaded = served_by(c, p, k->instr);
    table_collectives(c, m, p, k, 1);
    if (loaded.i) {
        const struct module *lm = document_module(c->sh->doc);
        const char *place = place_of(c, loaded);
        out(c, "  %-10s %s = %s %s%s%s\n", "for", tensor_name(c, loaded), op_name((enum op_kind)instr_at(lm, loaded)->op),
            shape_text(c, instr_at(lm, loaded)->shape), place[0] ? "  " : "", place);
        const struct instr *src = instr_at(prop->graph->module, note->source);
        for (uint32_t o = 0; o < src->noperands && o < 4; o++) {
            place = place_of_working(c, prop, src->operands[o]);
            out(c, "  %-10s %s  %s%s%s\n", "operand", working_label(c, prop->graph, src->operands[o]),
                spelled(c, prop->final[src->operands[o].i]), place && place[0] ? "  " : "", place ? place : "");
        }
        out(c, "  %-10s %s\n", "result", spelled(c, prop->final[note->source.i]));
    }
    if (note->from.i || note->to.i)
        out(c, "  %-10s %s -> %s\n", "reshards", spelled(c, note->from), spelled(c, note->to));
    if (instr_at(m, k->instr)->noperands)
        say_value(c, "takes", p, m, instr_at(m, k->instr)->operands[0]);
    for (uint32_t u = 0; u < users_count(users, k->instr) && u < 3; u++)
        say_value(c, "gives to", p, m, users_of(users, k->instr)[u]);
    if (note->reason)
        out(c, "  %-10s %s\n", "because", note->reason);
}

int cmd_blame(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct program *p = document_program(doc, call_tick(c), c->d);
    const struct collective *list;
    int64_t n, total, at;
    if (!p || !document_collectives(doc, &list, &n, &total, call_tick(c), c->d) ||
        !find_collective(c, p->module, p, list, n, &at))
        return call_failed(c);
    const struct propagation *prop = document_propagation(doc, NULL, NULL);
    struct users users;
    users_make(p->module, &c->arena, &users);
    if (c->json)
        json_facts(c, p, &list[at], &users);
    else
        say_facts(c, p, prop, &list[at], &users);
    struct way ways[MOST_WAYS];
    say_ways(c, ways, weigh(c, p, prop, list, n, &list[at], ways));
    struct remedies r;
    if (!document_remedies(doc, at, c->all, &c->arena, &r, call_tick(c), c->d))
        return call_failed(c);
    say_remedies(c, &r, total);
    instr_id loaded = served_by(c, p, list[at].instr);
    if (!c->json && r.n) {
        qsort(r.list, (size_t)r.n, sizeof *r.list, by_worth);
        say_trials(c, &r);
    }
    if (!c->json && loaded.i)
        out(c, "why %s tells where its sharding comes from\n", tensor_name(c, loaded));
    return STATUS_OK;
}
