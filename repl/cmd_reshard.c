/* reshard: how one sharding becomes another, and what it costs. */
#include <string.h>

#include "repl/commands.h"

/* ---- reshard T ------------------------------------------------------------------------------------- */

/* The steps that the program takes for T: nodes that reshard on its behalf, and their collectives.
 */
struct move {
    sharding_id from, to;
};

static int64_t moves_of(struct call *c, const struct program *p, instr_id loaded,
                        struct move **list)
{
    VEC(struct move) v = { 0 };
    for (uint32_t k = 1; k <= module_ninstrs(p->module); k++) {
        const struct node_note *note = &p->notes[k];
        if (!note->from.i || !note->to.i || served_by(c, p, (instr_id){ k }).i != loaded.i)
            continue;
        bool met = false;
        for (int64_t m = 0; m < v.n; m++)
            met |= v.v[m].from.i == note->from.i && v.v[m].to.i == note->to.i;
        struct move fresh = { note->from, note->to };
        if (!met)
            vec_push(&c->arena, &v, fresh);
    }
    *list = v.v;
    return v.n;
}

static int64_t collectives_of(struct call *c, const struct program *p,
                              const struct collective *list, int64_t n, instr_id loaded,
                              struct collective **mine)
{
    VEC(struct collective) v = { 0 };
    for (int64_t k = 0; k < n; k++)
        if (served_by(c, p, list[k].instr).i == loaded.i)
            vec_push(&c->arena, &v, list[k]);
    *mine = v.v;
    return v.n;
}

static const char *kinds_text(struct call *c, const struct collective *list, int64_t n)
{
    struct str s = STR_IN(&c->arena);
    for (int64_t k = 0; k < n; k++)
        str_addf(&s, "%s%s", k ? ", then " : "", op_name(list[k].kind));
    return s.n ? str_text(&s) : "no collective";
}

/* ---- two plans ------------------------------------------------------------------------------------- */

/* How an array moves: as XLA does it, or with partitioner=best. Texts outlive the program. */
struct route {
    bool best, made, whole;
    int64_t n, bytes;
    const char **steps; /* all-gather f32[8,16] over a */
    int64_t *sent;
    const char *kinds;
};

static struct route route_of(struct call *c, shape_id shape, sharding_id from, sharding_id to,
                             bool best)
{
    struct route r = { .best = best, .kinds = "" };
    const struct collective *list;
    const struct program *p =
        document_reshard_as(c->sh->doc, shape, from, to, best, &list, &r.n, &r.bytes, NULL);
    if (!p)
        return r;
    r.made = true;
    r.whole = p->nremats > 0;
    r.kinds = arena_strdup(&c->arena, kinds_text(c, list, r.n));
    r.steps = ARENA_ARRAY(&c->arena, const char *, r.n + 1);
    r.sent = ARENA_ARRAY(&c->arena, int64_t, r.n + 1);
    for (int64_t k = 0; k < r.n; k++) {
        const char *names[MESH_MAX_AXES];
        int naxes;
        const char *over = collective_axes(c, &list[k], &naxes, names);
        bool axes = over[0] != 0;
        r.steps[k] = arena_printf(&c->arena, "%s %s%s%s", op_name(list[k].kind),
                                  shape_text(c, instr_at(p->module, list[k].instr)->shape),
                                  axes ? " over " : "", axes ? over : "");
        r.sent[k] = list[k].bytes;
    }
    return r;
}

static void json_route(struct call *c, const char *key, const struct route *r)
{
    json_put_open(&c->js, key, '{');
    json_put_int(&c->js, "bytes", r->bytes);
    json_put_bool(&c->js, "whole", r->whole);
    json_put_open(&c->js, "steps", '[');
    for (int64_t k = 0; k < r->n; k++)
        json_string(&c->js, r->steps[k]);
    json_close(&c->js, ']');
    json_close(&c->js, '}');
}

/* Both plans side by side; one line when they are alike. */
static void say_both(struct call *c, shape_id shape, sharding_id from, sharding_id to)
{
    struct route x = route_of(c, shape, from, to, false), b = route_of(c, shape, from, to, true);
    if (!x.made || !b.made)
        return;
    if (c->json) {
        json_put_open(&c->js, "plans", '{');
        json_route(c, "xla", &x);
        json_route(c, "best", &b);
        json_close(&c->js, '}');
        return;
    }
    if (x.bytes == b.bytes && x.n == b.n) {
        if (x.n > 0)
            out(c, "partitioner=best knows no path of fewer bytes\n");
        return;
    }
    static const char *const heads[] = { ">step", "partitioner=xla", ">bytes", "partitioner=best",
                                         ">bytes", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < x.n || k < b.n; k++) {
        const char **row = table_row(&t);
        row[0] = arena_printf(&c->arena, "%" PRId64, k + 1);
        row[1] = k < x.n ? x.steps[k] : NULL;
        row[2] = k < x.n ? with_commas(&c->arena, x.sent[k]) : NULL;
        row[3] = k < b.n ? b.steps[k] : NULL;
        row[4] = k < b.n ? with_commas(&c->arena, b.sent[k]) : NULL;
    }
    table_print(c, &t, true);
    out(c, "best: %s, %s instead of %s\n", b.kinds, nice_bytes(&c->arena, b.bytes),
        nice_bytes(&c->arena, x.bytes));
}

/* ---- reshard A -> B -------------------------------------------------------------------------------- */

static void say_move(struct call *c, sharding_id from, sharding_id to)
{
    const char *a = spelled(c, from), *b = spelled(c, to), *ha = hlo_text(c, from),
               *hb = hlo_text(c, to);
    out(c, "%s -> %s", a, b);
    if ((ha && strcmp(a, ha)) || (hb && strcmp(b, hb)))
        out(c, "   %s -> %s", ha ? ha : "none", hb ? hb : "none");
    out(c, "\n");
}

/* Shardings that do not fit are wrong in the command; what the partitioner refuses is not. */
static int status_of_move(struct call *c)
{
    int status = call_failed(c);
    return status == STATUS_INPUT ? STATUS_USAGE : status;
}

static int plan(struct call *c, shape_id shape, sharding_id from, sharding_id to)
{
    const struct collective *list;
    int64_t n, total;
    const struct program *p =
        document_reshard(c->sh->doc, shape, from, to, &list, &n, &total, c->d);
    if (!p)
        return status_of_move(c);
    struct tensor_view a, b;
    measure_shape(document_ir(c->sh->doc), shape, from, document_devices(c->sh->doc), &a);
    measure_shape(document_ir(c->sh->doc), shape, to, document_devices(c->sh->doc), &b);
    bool whole = p->nremats > 0;
    if (c->json) {
        json_put_string(&c->js, "shape", shape_text(c, shape));
        json_put_string(&c->js, "from", hlo_text(c, from));
        json_put_string(&c->js, "to", hlo_text(c, to));
        json_put_int(&c->js, "bytes", total);
        json_put_bool(&c->js, "whole", whole);
        json_put_open(&c->js, "steps", '[');
        for (int64_t k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "kind", op_name(list[k].kind));
            json_put_string(&c->js, "shape",
                            shape_text(c, instr_at(p->module, list[k].instr)->shape));
            json_put_int(&c->js, "bytes", list[k].bytes);
            json_put_string(&c->js, "groups", groups_text(c, &list[k]));
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
    } else {
        say_move(c, from, to);
        out(c, "%s: %s on a device -> %s\n", shape_text(c, shape), shape_text(c, a.local),
            shape_text(c, b.local));
        if (n > 0)
            table_collectives(c, p->module, NULL, list, n);
        out(c, "%s: %s sent by each device%s\n", kinds_text(c, list, n),
            nice_bytes(&c->arena, total),
            whole ? "; the whole array is made on every device on the way" : "");
    }
    say_both(c, shape, from, to);
    return STATUS_OK;
}

/* f32[8,16], and not f32[8@data,16], which is a sharding. */
static bool is_shape_word(const struct word *w)
{
    const char *bracket = strchr(w->text, '[');
    return bracket && bracket > w->text &&
           dtype_find(w->text, (size_t)(bracket - w->text)) != DTYPE_NONE && !strchr(w->text, '@');
}

/* `f32[8,16]` or a tensor in front of the shardings. */
static bool leading_shape(struct call *c, shape_id *shape, sharding_id *current,
                          int *first)
{
    struct document *doc = c->sh->doc;
    *first = 0;
    *shape = (shape_id){ 0 };
    *current = (sharding_id){ 0 };
    const struct word *w = &c->args[0];
    size_t used = 0;
    if (is_shape_word(w)) {
        diag_stage(c->d, "usage");
        if (!shape_parse(document_ir(doc), c->src, w->off, w->text, w->n, &used, shape, c->d))
            return false;
        *first = 1;
        return true;
    }
    bool spec = strchr("[{P#", w->text[0]) || !strcmp(w->text, "replicated") ||
                !strcmp(w->text, "maximal") || !strcmp(w->text, "manual");
    if (spec && !(w->text[0] == 'P' && w->text[1] != '('))
        return true;
    if (!document_module(doc)) {
        call_usage(c, 0, "no module is loaded: '%s' names no tensor", w->text);
        return false;
    }
    instr_id i;
    int64_t leaf;
    struct tensor_view v;
    if (!arg_tensor(c, 0, &i, &leaf) || !document_view(doc, i, 0, &v, call_tick(c), c->d))
        return false;
    *shape = instr_at(document_module(doc), i)->shape;
    *current = v.sharding;
    if (leaf >= 0) {
        const struct sharding *s = sharding_get(document_ir(doc)->shardings, v.sharding);
        *shape = shape_leaf(document_ir(doc), *shape, leaf);
        *current = s->kind == SHARDING_TUPLE && leaf < s->nelems ? s->elems[leaf] : v.sharding;
    }
    *first = 1;
    return true;
}

/* A shape for shardings that come without one: every dimension splits over all devices. */
static shape_id default_shape(struct call *c, int rank)
{
    int64_t dims[16], n = max_i64(document_devices(c->sh->doc), 1);
    for (int d = 0; d < rank && d < 16; d++)
        dims[d] = n;
    return shape_array(document_ir(c->sh->doc), dtype_find("f32", 3), rank < 16 ? rank : 16, dims);
}

static int rank_of(struct call *c, sharding_id s)
{
    const struct sharding *v = sharding_get(document_ir(c->sh->doc)->shardings, s);
    return v->kind == SHARDING_TILED ? v->data_rank : -1;
}

/* `reshard A -> B f32[8,16]`: the shape behind, taken off the arguments. False: a message says why.
 */
static bool trailing_shape(struct call *c, int arrow, shape_id *shape)
{
    const struct word *w = &c->args[c->n - 1];
    size_t used;
    if (shape->i || c->n < arrow + 3 || !is_shape_word(w))
        return true;
    diag_stage(c->d, "usage");
    if (!shape_parse(document_ir(c->sh->doc), c->src, w->off, w->text, w->n, &used, shape, c->d))
        return false;
    c->n--;
    return true;
}

int reshard_operands(struct call *c, int arrow, shape_id *shape, sharding_id *from, sharding_id *to)
{
    int first;
    if (!leading_shape(c, shape, from, &first) || !trailing_shape(c, arrow, shape))
        return call_failed(c);
    if (arrow + 1 >= c->n)
        return call_usage(c, arrow, "a sharding is missing behind ->");
    uint64_t open;
    if (first < arrow) {
        uint32_t a = c->args[first].off, b = c->args[arrow - 1].off + c->args[arrow - 1].len;
        if (!read_spec(c, arena_strndup(&c->arena, c->src->text + a, b - a), b - a, a, *shape, from,
                       &open))
            return STATUS_USAGE;
    } else if (!from->i) {
        return call_usage(c, 0, "it has no sharding to start from: reshard T A -> B");
    }
    uint32_t off;
    const char *text = call_rest(c, arrow + 1, &off);
    if (!read_spec(c, text, strlen(text), off, *shape, to, &open))
        return STATUS_USAGE;
    if (!shape->i) {
        int rank = rank_of(c, *from) >= 0 ? rank_of(c, *from) : rank_of(c, *to);
        if (rank < 0)
            return call_usage(c, 0, "of what shape? reshard f32[8,16] A -> B");
        *shape = default_shape(c, rank);
    }
    if (shape_get(document_ir(c->sh->doc), *shape)->kind != SHAPE_ARRAY)
        return call_usage(c, 0, "one array is wanted, not %s", shape_text(c, *shape));
    return STATUS_OK;
}

int find_arrow(const struct call *c)
{
    for (int k = 0; k < c->n; k++)
        if (!c->args[k].quoted && (!strcmp(c->args[k].text, "->") || !strcmp(c->args[k].text, "to")))
            return k;
    return -1;
}

static int reshard_between(struct call *c, int arrow)
{
    shape_id shape;
    sharding_id from, to;
    int status = reshard_operands(c, arrow, &shape, &from, &to);
    return status ? status : plan(c, shape, from, to);
}

/* ---- of the program -------------------------------------------------------------------------------- */

static void json_tensor(struct call *c, const struct program *p, const struct move *moves,
                        int64_t nmoves, const struct collective *mine, int64_t n)
{
    json_put_open(&c->js, "moves", '[');
    for (int64_t k = 0; k < nmoves; k++) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "from", hlo_text(c, moves[k].from));
        json_put_string(&c->js, "to", hlo_text(c, moves[k].to));
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
    json_put_open(&c->js, "steps", '[');
    for (int64_t k = 0; k < n; k++) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "kind", op_name(mine[k].kind));
        json_put_string(&c->js, "name", collective_label(c, p->module, &mine[k]));
        json_put_string(&c->js, "shape", shape_text(c, instr_at(p->module, mine[k].instr)->shape));
        json_put_int(&c->js, "bytes", mine[k].bytes);
        json_put_string(&c->js, "reason", p->notes[mine[k].instr.i].reason);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

static void say_remats(struct call *c, const struct program *p, instr_id loaded)
{
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    if (c->json)
        json_put_open(&c->js, "whole_arrays", '[');
    int64_t n;
    const struct remat_note *remats = program_remats(p, &n);
    const char *whose = p->nxla_remats ? "XLA's program (no_rule=xla): " : "";
    for (int64_t k = 0; k < n; k++) {
        const struct remat_note *r = &remats[k];
        instr_id at = r->source.i ? prop->graph->origin[r->source.i].source : (instr_id){ 0 };
        if (at.i != loaded.i)
            continue;
        shape_id shape = instr_at(prop->graph->module, r->source)->shape;
        bool move = !r->fallback && !r->operation && r->from.i && r->to.i &&
                    shape_get(document_ir(c->sh->doc), shape)->kind == SHAPE_ARRAY;
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "from", r->from.i ? hlo_text(c, r->from) : NULL);
            json_put_string(&c->js, "to", r->to.i ? hlo_text(c, r->to) : NULL);
            json_put_bool(&c->js, "fallback", r->fallback);
        } else {
            out(c, "%s%s: %s -> %s%s%s\n", whose,
                r->fallback    ? "no rule yet: replicated, computed, sliced"
                : r->operation ? "computed whole on every device"
                            : "the whole array is made on every device",
                spelled(c, r->from), spelled(c, r->to), r->reason ? ": " : "",
                r->reason ? r->reason : "");
        }
        if (move)
            say_both(c, shape, r->from, r->to);
        if (c->json)
            json_close(&c->js, '}');
    }
    if (c->json)
        json_close(&c->js, ']');
}

static int reshard_tensor(struct call *c)
{
    struct document *doc = c->sh->doc;
    instr_id i;
    int64_t leaf, n, total;
    if (!document_module(doc))
        return call_usage(c, 0, "no module is loaded");
    if (!arg_tensor(c, 0, &i, &leaf))
        return call_failed(c);
    const struct program *p = document_program(doc, call_tick(c), c->d);
    const struct collective *list;
    if (!p || !document_collectives(doc, &list, &n, &total, call_tick(c), c->d))
        return call_failed(c);
    struct move *moves;
    struct collective *mine;
    int64_t nmoves = moves_of(c, p, i, &moves), count = collectives_of(c, p, list, n, i, &mine);
    if (c->json) {
        json_put_string(&c->js, "name", tensor_name(c, i));
        json_tensor(c, p, moves, nmoves, mine, count);
        say_remats(c, p, i);
        return STATUS_OK;
    }
    const struct propagation *prop = document_propagation(doc, NULL, NULL);
    struct tensor_view v;
    if (!document_view(doc, i, 0, &v, call_tick(c), c->d))
        return call_failed(c);
    out(c, "%s  %s  %s\n", tensor_name(c, i),
        shape_text(c, instr_at(document_module(doc), i)->shape), spelled(c, v.sharding));
    const struct instr *w = v.nsites ? instr_at(prop->graph->module, v.working) : NULL;
    for (uint32_t k = 0; w && k < w->noperands && k < 4; k++)
        out(c, "  operand %s  %s\n", working_label(c, prop->graph, w->operands[k]),
            spelled(c, prop->final[w->operands[k].i]));
    if (nmoves == 0 && count == 0)
        out(c, "nothing is resharded for it\n");
    for (int64_t k = 0; k < nmoves; k++)
        say_move(c, moves[k].from, moves[k].to);
    table_collectives(c, p->module, p, mine, count);
    say_remats(c, p, i);
    return STATUS_OK;
}

int cmd_reshard(struct call *c)
{
    int arrow = find_arrow(c);
    if (arrow >= 0)
        return arrow == 0 ? call_usage(c, 0, "from what?") : reshard_between(c, arrow);
    if (c->n > 1) {
        call_usage(c, 1, "reshard takes a tensor, or A -> B");
        return STATUS_USAGE;
    }
    return reshard_tensor(c);
}
