/* What an edit changed, in three lines. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

enum { COUNT_COLLECTIVES_UP_TO = 20000 /* instructions: beyond, comms is asked for when wanted */ };

const struct strategy *change_begin(struct call *c)
{
    return document_strategy(c->sh->doc);
}

static sharding_id final_of(const struct propagation *p, instr_id i, uint32_t site)
{
    const struct graph *g = p->graph;
    uint32_t n = g->start[i.i + 1] - g->start[i.i];
    return site < n ? p->final[g->list[g->start[i.i] + site].i] : (sharding_id){ 0 };
}

/* No sharding and replicated are the same to everyone but the pass. */
static bool same_layout(struct call *c, sharding_id a, sharding_id b)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    if (a.i == b.i)
        return true;
    return (!a.i || sharding_is_replicated(t, a)) && (!b.i || sharding_is_replicated(t, b));
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* true: k's sharding differs at some call site, the first of which is in *x. */
static bool differs(struct call *c, const struct propagation *a, const struct propagation *b, uint32_t k, struct change *x)
{
    uint32_t na = a->graph->start[k + 1] - a->graph->start[k], nb = b->graph->start[k + 1] - b->graph->start[k];
    for (uint32_t site = 0; site < (na > nb ? na : nb); site++) {
        *x = (struct change){ { k }, final_of(a, (instr_id){ k }, site), final_of(b, (instr_id){ k }, site) };
        if (!same_layout(c, x->before, x->after))
            return true;
    }
    return false;
}

/* Of two results on one graph most is the same array: only what stands for an instruction that differs is asked. */
static int64_t differing_sources(struct arena *arena, const struct propagation *a, const struct propagation *b, uint32_t **list)
{
    const struct graph *g = a->graph;
    VEC(uint32_t) v = { 0 };
    for (uint32_t k = 1; k <= module_ninstrs(g->module); k++)
        if (a->final[k].i != b->final[k].i && g->origin[k].source.i)
            vec_push(arena, &v, g->origin[k].source.i);
    for (int64_t k = 0; k < g->naliases; k++)
        if (a->final[g->aliases[k].stands.i].i != b->final[g->aliases[k].stands.i].i)
            vec_push(arena, &v, g->aliases[k].source.i);
    if (v.n > 1)
        qsort(v.v, (size_t)v.n, sizeof *v.v, by_number);
    *list = v.v;
    return v.n;
}

int64_t compare_shardings(struct call *c, const struct propagation *a, const struct propagation *b,
                          struct change **list)
{
    VEC(struct change) v = { 0 };
    struct change x;
    uint32_t *some = NULL, last = 0, n = module_ninstrs(document_module(c->sh->doc));
    bool one_graph = a->graph == b->graph;
    int64_t nsome = one_graph ? differing_sources(&c->arena, a, b, &some) : n;
    for (int64_t j = 0; j < nsome; j++) {
        uint32_t k = one_graph ? some[j] : (uint32_t)j + 1;
        if (k != last && k <= n && differs(c, a, b, k, &x))
            vec_push(&c->arena, &v, x);
        last = k;
    }
    *list = v.v;
    return v.n;
}

/* Line 2: how many shardings changed, and the first of them. */
static void say_shardings(struct call *c, const struct strategy *before)
{
    struct document *doc = c->sh->doc;
    const struct propagation *old = strategy_propagation(doc, before, call_tick(c), NULL);
    const struct propagation *new = document_propagation(doc, call_tick(c), NULL);
    if (!old || !new)
        return;
    struct change *list;
    int64_t n = compare_shardings(c, old, new, &list);
    if (c->json) {
        json_put_int(&c->js, "changed", n);
        return;
    }
    if (n == 0) {
        out(c, "no sharding changed\n");
        return;
    }
    struct str s = STR_IN(&c->arena);
    int shown = 0;
    for (int64_t k = 0; k < n && s.n < 70 && shown < 4; k++, shown++)
        str_addf(&s, "%s%s %s", k ? ", " : "", tensor_name(c, list[k].instr),
                 list[k].after.i ? spelled(c, list[k].after) : "replicated");
    out(c, "%s of %u shardings changed: %s%s\n", with_commas(&c->arena, n),
        module_ninstrs(document_module(doc)), str_text(&s), shown < n ? ", ..." : "");
}

/* Line 3: collectives before and after. */
static void say_collectives(struct call *c, const struct strategy *before)
{
    struct document *doc = c->sh->doc;
    if (document_devices(doc) <= 0 || document_is_partitioned(doc) ||
        module_ninstrs(document_module(doc)) > COUNT_COLLECTIVES_UP_TO)
        return;
    const struct collective *list;
    int64_t n, total, n0, total0;
    if (!strategy_collectives(doc, document_strategy(doc), &list, &n, &total, call_tick(c), NULL))
        return;
    bool had = strategy_collectives(doc, before, &list, &n0, &total0, call_tick(c), NULL);
    if (c->json) {
        json_put_int(&c->js, "collectives", n);
        json_put_int(&c->js, "bytes", total);
        return;
    }
    struct arena *a = &c->arena;
    if (n == 0 && (!had || n0 == 0))
        return;
    if (!had || (n == n0 && total == total0))
        out(c, "collectives: %" PRId64 "%s, %s a device\n", n, had ? " as before" : "",
            nice_bytes(a, total));
    else if (n == n0)
        out(c, "collectives: %" PRId64 " as before, %s -> %s a device\n", n, nice_bytes(a, total0),
            nice_bytes(a, total));
    else
        out(c, "collectives: %" PRId64 " -> %" PRId64 ", %s -> %s a device\n", n0, n,
            nice_bytes(a, total0), nice_bytes(a, total));
}

int change_finish(struct call *c, const struct strategy *before)
{
    struct document *doc = c->sh->doc;
    const struct strategy *now = document_strategy(doc);
    c->sh->unsaved = true;
    if (!document_module(doc) || now == before)
        return STATUS_OK;
    if (now->propagation_key != before->propagation_key) {
        if (!document_propagation(doc, call_tick(c), c->d)) {
            int status = call_failed(c);
            c->out.n = 0; /* what was said of the edit is not so */
            if (c->out.s)
                c->out.s[0] = '\0';
            if (document_strategy(doc)->parent == before && !edit_undo(doc, NULL))
                return STATUS_INTERNAL;
            return status;
        }
        if (!c->sh->quiet || c->json)
            say_shardings(c, before);
    }
    if (now->key != before->key && (!c->sh->quiet || c->json))
        say_collectives(c, before);
    return STATUS_OK;
}
