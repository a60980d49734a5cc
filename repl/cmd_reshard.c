/* reshard: how one sharding becomes another, and what it costs. */
#include <string.h>

#include "repl/commands.h"

/* ---- reshard T
 * ------------------------------------------------------------------------------------------ */

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

/* ---- a way round
 * ------------------------------------------------------------------------------------------ */

struct detour {
    sharding_id by;
    int64_t bytes;
    const char *kinds;
};

static int64_t cost_of(struct call *c, shape_id shape, sharding_id from, sharding_id to,
                       const char **kinds)
{
    const struct collective *list;
    int64_t n, total;
    const struct program *p =
        document_reshard(c->sh->doc, shape, from, to, &list, &n, &total, NULL);
    if (!p)
        return INT64_MAX / 4;
    *kinds = arena_strdup(&c->arena, kinds_text(c, list, n));
    return total;
}

/* A sharding between the two: `to`'s tiles carried by `from`'s split dimensions, or the other way
 * round, the rest of the devices holding copies. Tried, not believed. */
static sharding_id between(struct call *c, const struct shape *v, sharding_id a, sharding_id b)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    int64_t total = sharding_total(t, a), tiles = 1, dims[65];
    if (sharding_get(t, a)->kind != SHARDING_TILED || sharding_get(t, b)->kind != SHARDING_TILED ||
        v->rank > 60)
        return (sharding_id){ 0 };
    for (int d = 0; d < v->rank; d++)
        tiles *= sharding_tile(t, b, d);
    int64_t left = tiles;
    for (int d = 0; d < v->rank; d++) {
        int64_t k = sharding_tile(t, a, d);
        dims[d] = k > 1 && left % k == 0 ? k : k > 1 && k % left == 0 ? left : 1;
        left /= dims[d];
    }
    if (left != 1 || total % tiles)
        return (sharding_id){ 0 };
    dims[v->rank] = total / tiles;
    return sharding_partial(t, tiling_make(t, v->rank + 1, dims, sharding_get(t, a)->tiles.order));
}

static void try_detour(struct call *c, shape_id shape, sharding_id from, sharding_id by,
                       sharding_id to, struct detour *best)
{
    if (!by.i || by.i == from.i || by.i == to.i)
        return;
    const char *first = "", *second = "";
    int64_t bytes = cost_of(c, shape, from, by, &first);
    if (bytes >= best->bytes)
        return;
    bytes += cost_of(c, shape, by, to, &second);
    if (bytes < best->bytes)
        *best = (struct detour){ by, bytes, arena_printf(&c->arena, "%s, then %s", first, second) };
}

static bool find_detour(struct call *c, shape_id shape, sharding_id from, sharding_id to,
                        int64_t direct, struct detour *best)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    const struct shape *v = shape_get(document_ir(c->sh->doc), shape);
    *best = (struct detour){ .bytes = direct };
    try_detour(c, shape, from, between(c, v, from, to), to, best);
    try_detour(c, shape, from, between(c, v, to, from), to, best);
    /* The split of one dimension moved to another: what an all-to-all does. */
    bool tiled = sharding_get(t, from)->kind == SHARDING_TILED &&
                 sharding_get(t, to)->kind == SHARDING_TILED;
    for (int i = 0; tiled && i < v->rank && v->rank <= 8; i++)
        for (int j = 0; j < v->rank; j++) {
            if (i == j)
                continue;
            if (sharding_tile(t, from, i) > 1)
                try_detour(c, shape, from, sharding_move_tiles(t, from, i, j), to, best);
            if (sharding_tile(t, to, i) > 1)
                try_detour(c, shape, from, sharding_move_tiles(t, to, i, j), to, best);
        }
    return best->by.i != 0;
}

static void say_detour(struct call *c, shape_id shape, sharding_id from, sharding_id to,
                       int64_t direct)
{
    struct detour d;
    if (!find_detour(c, shape, from, to, direct, &d))
        return;
    if (c->json) {
        json_put_open(&c->js, "cheaper", '{');
        json_put_string(&c->js, "by", hlo_text(c, d.by));
        json_put_int(&c->js, "bytes", d.bytes);
        json_put_string(&c->js, "steps", d.kinds);
        json_close(&c->js, '}');
        return;
    }
    out(c, "cheaper by way of %s", spelled(c, d.by));
    if (strcmp(spelled(c, d.by), hlo_text(c, d.by)))
        out(c, " %s", hlo_text(c, d.by));
    out(c, ": %s, %s instead of %s\n", d.kinds, nice_bytes(&c->arena, d.bytes),
        nice_bytes(&c->arena, direct));
}

/* ---- reshard A -> B
 * ----------------------------------------------------------------------------------------- */

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
    if (whole)
        say_detour(c, shape, from, to, total);
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
static bool leading_shape(struct call *c, int arrow, shape_id *shape, sharding_id *current,
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
    (void)arrow;
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

static int reshard_between(struct call *c, int arrow)
{
    shape_id shape;
    sharding_id from, to;
    int first;
    if (!leading_shape(c, arrow, &shape, &from, &first) || !trailing_shape(c, arrow, &shape))
        return call_failed(c);
    if (arrow + 1 >= c->n)
        return call_usage(c, arrow, "a sharding is missing behind ->");
    uint64_t open;
    if (first < arrow) {
        uint32_t a = c->args[first].off, b = c->args[arrow - 1].off + c->args[arrow - 1].len;
        if (!read_spec(c, arena_strndup(&c->arena, c->src->text + a, b - a), b - a, a, shape, &from,
                       &open))
            return STATUS_USAGE;
    } else if (!from.i) {
        return call_usage(c, 0, "it has no sharding to start from: reshard T A -> B");
    }
    uint32_t off;
    const char *text = call_rest(c, arrow + 1, &off);
    if (!read_spec(c, text, strlen(text), off, shape, &to, &open))
        return STATUS_USAGE;
    if (!shape.i) {
        int rank = rank_of(c, from) >= 0 ? rank_of(c, from) : rank_of(c, to);
        if (rank < 0)
            return call_usage(c, 0, "of what shape? reshard f32[8,16] A -> B");
        shape = default_shape(c, rank);
    }
    if (shape_get(document_ir(c->sh->doc), shape)->kind != SHAPE_ARRAY)
        return call_usage(c, 0, "one array is wanted, not %s", shape_text(c, shape));
    return plan(c, shape, from, to);
}

/* ---- of the program
 * ------------------------------------------------------------------------------------------ */

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
    for (int64_t k = 0; k < p->nremats; k++) {
        const struct remat_note *r = &p->remats[k];
        instr_id at = r->source.i ? prop->graph->origin[r->source.i].source : (instr_id){ 0 };
        if (at.i != loaded.i)
            continue;
        shape_id shape = instr_at(prop->graph->module, r->source)->shape;
        if (!c->json)
            out(c, "%s: %s -> %s%s%s\n",
                r->fallback ? "no rule yet: replicated, computed, sliced"
                            : "the whole array is made on every device",
                spelled(c, r->from), spelled(c, r->to), r->reason ? ": " : "",
                r->reason ? r->reason : "");
        if (!r->fallback && r->from.i && r->to.i &&
            shape_get(document_ir(c->sh->doc), shape)->kind == SHAPE_ARRAY) {
            const char *kinds = "";
            say_detour(c, shape, r->from, r->to, cost_of(c, shape, r->from, r->to, &kinds));
        }
    }
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
    for (int k = 0; k < c->n; k++)
        if (!c->args[k].quoted &&
            (!strcmp(c->args[k].text, "->") || !strcmp(c->args[k].text, "to")))
            return k == 0 ? call_usage(c, 0, "from what?") : reshard_between(c, k);
    if (c->n > 1) {
        call_usage(c, 1, "reshard takes a tensor, or A -> B");
        return STATUS_USAGE;
    }
    return reshard_tensor(c);
}
