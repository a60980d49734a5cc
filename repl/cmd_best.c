/* What partitioner=best did otherwise than XLA: said by comms and program. */
#include "repl/commands.h"

static void json_bests(struct call *c, const struct program *p)
{
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    json_put_int(&c->js, "xla_bytes", p->xla_bytes);
    json_put_int(&c->js, "xla_collectives", p->xla_collectives);
    json_put_open(&c->js, "best", '[');
    for (int64_t k = 0; k < p->nbest; k++) {
        const struct best_note *b = &p->bests[k];
        json_open(&c->js, '{');
        json_put_string(&c->js, "for", b->source.i ? working_label(c, prop->graph, b->source) : NULL);
        json_put_string(&c->js, "from", b->from.i ? hlo_text(c, b->from) : NULL);
        json_put_string(&c->js, "to", b->to.i ? hlo_text(c, b->to) : NULL);
        json_put_string(&c->js, "plan", b->plan);
        json_put_int(&c->js, "bytes", b->bytes);
        json_put_int(&c->js, "xla_bytes", b->xla_bytes);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

static void table_bests(struct call *c, const struct program *p)
{
    static const char *const heads[] = { "for", "from", "to", "plan", ">bytes", ">XLA", NULL };
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    struct table t;
    int64_t shown = call_rows(c, p->nbest);
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++) {
        const struct best_note *b = &p->bests[k];
        const char **row = table_row(&t);
        row[0] = b->source.i ? working_label(c, prop->graph, b->source) : NULL;
        row[1] = b->from.i ? spelled(c, b->from) : NULL;
        row[2] = b->to.i ? spelled(c, b->to) : NULL;
        row[3] = b->plan;
        row[4] = with_commas(&c->arena, b->bytes);
        row[5] = with_commas(&c->arena, b->xla_bytes);
    }
    table_print(c, &t, true);
    call_more(c, shown, p->nbest, "plans");
}

static const char *option_of(const struct program *p)
{
    return p->no_rule ? "no_rule=best" : "partitioner=best";
}

void say_best_line(struct call *c, const struct program *p)
{
    if (p->best && p->nbest > 0)
        out(c, "// %s: %s where XLA's program sends %s; comms lists what differs\n", option_of(p),
            nice_bytes(&c->arena, p->best_bytes), nice_bytes(&c->arena, p->xla_bytes));
}

void say_best(struct call *c, const struct program *p)
{
    if (!p || !p->best)
        return;
    if (c->json) {
        json_bests(c, p);
        return;
    }
    if (p->nbest == 0) {
        out(c, "%s knows nothing cheaper than XLA's program\n", option_of(p));
        return;
    }
    out(c, "%s: %s where XLA's program sends %s; decided otherwise:\n", option_of(p),
        nice_bytes(&c->arena, p->best_bytes), nice_bytes(&c->arena, p->xla_bytes));
    table_bests(c, p);
}
