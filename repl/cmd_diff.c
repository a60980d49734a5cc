/* diff: what two strategies do differently. */
#include <string.h>

#include "repl/commands.h"

static const struct strategy *find_strategy(struct call *c, int k)
{
    struct document *doc = c->sh->doc;
    const char *name = k < c->n ? c->args[k].text : "current";
    if (!strcmp(name, "current"))
        return document_strategy(doc);
    if (!strcmp(name, "previous") && document_strategy(doc)->parent)
        return document_strategy(doc)->parent;
    const struct strategy *s = document_saved_strategy(doc, name);
    if (s)
        return s;
    call_usage(c, k, "no strategy is named '%s'", name);
    const char *const *names;
    int n = document_saved(doc, &names);
    struct str list = STR_IN(&c->arena);
    for (int v = 0; v < n && v < 8; v++)
        str_addf(&list, ", %s", names[v]);
    diag_hint(c->d, "current, previous%s", str_text(&list));
    return NULL;
}

struct side {
    const struct propagation *prop;
    const struct collective *list;
    int64_t n, total;
    bool has_comms;
};

static bool derive(struct call *c, const struct strategy *s, struct side *out_side)
{
    memset(out_side, 0, sizeof *out_side);
    out_side->prop = strategy_propagation(c->sh->doc, s, call_tick(c), c->d);
    if (!out_side->prop)
        return false;
    out_side->has_comms = strategy_collectives(c->sh->doc, s, &out_side->list, &out_side->n,
                                               &out_side->total, call_tick(c), NULL);
    return true;
}

static void count_kinds(const struct side *s, int64_t *counts)
{
    for (int64_t k = 0; k < s->n; k++)
        counts[s->list[k].kind]++;
}

static void diff_comms(struct call *c, const struct side *a, const struct side *b)
{
    int64_t x[OP_COUNT] = { 0 }, y[OP_COUNT] = { 0 };
    count_kinds(a, x);
    count_kinds(b, y);
    if (c->json) {
        json_put_open(&c->js, "collectives", '[');
        for (int op = 0; op < OP_COUNT; op++) {
            if (x[op] == y[op])
                continue;
            json_open(&c->js, '{');
            json_put_string(&c->js, "kind", op_name((enum op_kind)op));
            json_put_int(&c->js, "before", x[op]);
            json_put_int(&c->js, "after", y[op]);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        json_put_int(&c->js, "bytes_before", a->total);
        json_put_int(&c->js, "bytes_after", b->total);
        return;
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (x[op] != y[op])
            out(c, "%s: %" PRId64 " -> %" PRId64 "\n", op_name((enum op_kind)op), x[op], y[op]);
    out(c, "bytes a device: %s -> %s\n", nice_bytes(&c->arena, a->total),
        nice_bytes(&c->arena, b->total));
}

int cmd_diff(struct call *c)
{
    const struct strategy *first = find_strategy(c, 0),
                          *second = first ? find_strategy(c, 1) : NULL;
    struct side a, b;
    if (!first || !second)
        return STATUS_USAGE;
    if (!derive(c, first, &a) || !derive(c, second, &b))
        return call_failed(c);
    struct change *list;
    int64_t n = compare_shardings(c, a.prop, b.prop, &list), shown = call_rows(c, n);
    static const char *const heads[] = { "tensor", "shape", "before", "", "after", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    if (c->json)
        json_put_open(&c->js, "shardings", '[');
    for (int64_t k = 0; k < shown; k++) {
        shape_id shape = instr_at(document_module(c->sh->doc), list[k].instr)->shape;
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", label_of(c, list[k].instr));
            json_put_string(&c->js, "before", hlo_text(c, list[k].before));
            json_put_string(&c->js, "after", hlo_text(c, list[k].after));
            json_close(&c->js, '}');
            continue;
        }
        const char **row = table_row(&t);
        row[0] = tensor_name(c, list[k].instr);
        row[1] = shape_text(c, shape);
        row[2] = spelled(c, list[k].before);
        row[3] = "->";
        row[4] = spelled(c, list[k].after);
    }
    if (c->json)
        json_close(&c->js, ']');
    table_print(c, &t, true);
    call_more(c, shown, n, "shardings");
    if (!c->json && n == 0)
        out(c, "the same shardings\n");
    if (a.has_comms && b.has_comms)
        diff_comms(c, &a, &b);
    return STATUS_OK;
}
