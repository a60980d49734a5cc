/* Questions to the write history as a whole: changes in the order of time, and how far each annotation
 * reached. Neither runs a rule. */
#include <stdlib.h>
#include <string.h>

#include "propagate/internal.h"

/* ---- change by change ----------------------------------------------------------------------------- */

static int by_time(const void *x, const void *y)
{
    const struct prop_change *a = x, *b = y;
    int c = time_compare(a->write->time, b->write->time, true);
    if (c)
        return c;
    if (a->instr.i != b->instr.i)
        return a->instr.i < b->instr.i ? -1 : 1;
    return a->write < b->write ? -1 : a->write > b->write;
}

const struct prop_change *prop_changes(const struct propagation *p, struct arena *a)
{
    struct prop_change *list = ARENA_ARRAY(a, struct prop_change, (int64_t)p->nwrites + 1);
    uint32_t n = 0;
    for (uint32_t i = 1; i <= module_ninstrs(p->graph->module); i++)
        for (uint32_t k = 0; k < prop_writes(p, (instr_id){ i }).n; k++)
            list[n++] = (struct prop_change){ { i }, &prop_writes(p, (instr_id){ i }).v[k] };
    qsort(list, n, sizeof *list, by_time);
    return list;
}

/* ---- how far annotations reached -------------------------------------------------------------------- */

struct origins {
    const struct propagation *p;
    struct arena *tmp;
    uint32_t *before; /* by instruction: writes of those in front of it */
    struct map known; /* by write, leaf and dimension: the seed that the chain from there ends at */
    VEC(uint64_t) trail;
};

/* What the chain does behind a write depends on these alone. */
static uint64_t trail_key(const struct origins *o, const struct prop_write *w, struct spot s)
{
    uint64_t leaf = (uint64_t)(s.leaf + 1), dim = (uint64_t)(s.dim + 1);
    uint32_t rank = o->before[s.i.i] + (uint32_t)(w - prop_writes(o->p, s.i).v);
    return (uint64_t)rank << 32 | (leaf & 0xffffff) << 8 | (dim & 0xff);
}

/* The annotated instruction that why_chain would end at; none. */
static instr_id origin_of(struct origins *o, struct spot s)
{
    struct prop_time t = PROP_TIME_END;
    uint64_t seed = 0;
    o->trail.n = 0;
    for (;;) {
        struct spot from = s;
        const struct prop_write *w = why_step_back(o->p, &s, &t);
        if (!w)
            break;
        uint64_t key = trail_key(o, w, from);
        if (map_get(&o->known, key, &seed))
            break;
        vec_push(o->tmp, &o->trail, key);
        if (w->cause.i)
            continue;
        seed = w->rule == RULE_ANNOTATION ? from.i.i : 0;
        break;
    }
    for (int64_t k = 0; k < o->trail.n; k++)
        map_put(&o->known, o->trail.v[k], seed);
    return (instr_id){ (uint32_t)seed };
}

struct reach_table {
    struct prop_reach *list;
    uint32_t *index; /* by instruction: entry + 1 */
    instr_id *last;  /* by entry: the instruction that was counted last */
};

static void count_reached(struct reach_table *t, instr_id seed, instr_id i, bool split)
{
    if (!seed.i || seed.i == i.i || !t->index[seed.i])
        return;
    uint32_t k = t->index[seed.i] - 1;
    t->list[k].split_by += split;
    if (t->last[k].i != i.i)
        t->list[k].reached++;
    t->last[k] = i;
}

/* One value: its split dimensions, or it as a whole. */
static void reach_leaf(struct origins *o, struct reach_table *t, instr_id i, int64_t leaf, sharding_id s)
{
    const struct pass *p = o->p->state;
    const struct sharding *g = sharding_get(p->t, s);
    bool any = false;
    for (int d = 0; g->kind == SHARDING_TILED && d < g->data_rank && d < RANK_MAX; d++) {
        if (sharding_tile(p->t, s, d) <= 1)
            continue;
        any = true;
        count_reached(t, origin_of(o, (struct spot){ i, leaf, d }), i, true);
    }
    if (!any)
        count_reached(t, origin_of(o, (struct spot){ i, leaf, -1 }), i, false);
}

static void reach_instr(struct origins *o, struct reach_table *t, instr_id i)
{
    sharding_id s = o->p->final[i.i];
    const struct pass *p = o->p->state;
    if (!s.i || !prop_writes(o->p, i).n)
        return;
    const struct sharding *g = sharding_get(p->t, s);
    if (g->kind != SHARDING_TUPLE) {
        reach_leaf(o, t, i, -1, s);
        return;
    }
    for (int64_t k = 0; k < g->nelems; k++)
        if (!sharding_is_replicated(p->t, g->elems[k]))
            reach_leaf(o, t, i, k, g->elems[k]);
}

/* Whether the module or the user gave i its sharding: its history begins so. */
static bool is_seed(const struct propagation *p, uint32_t i)
{
    struct prop_writes w = prop_writes(p, (instr_id){ i });
    if (p->state->facts[i].gone) /* a Sharding call that a copy stands for */
        return false;
    return w.n && w.v[0].rule == RULE_ANNOTATION && !w.v[0].cause.i;
}

int64_t prop_coverage(const struct propagation *p, struct arena *a, struct prop_reach **out)
{
    uint32_t n = module_ninstrs(p->graph->module), seeds = 0;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct origins o = { .p = p, .tmp = &tmp };
    struct reach_table t = { .index = ARENA_ARRAY(&tmp, uint32_t, n + 1) };
    map_init(&o.known, &tmp);
    o.before = ARENA_ARRAY(&tmp, uint32_t, (int64_t)n + 2);
    for (uint32_t i = 1; i <= n; i++)
        o.before[i + 1] = o.before[i] + prop_writes(p, (instr_id){ i }).n;
    for (uint32_t i = 1; i <= n; i++)
        if (is_seed(p, i))
            t.index[i] = ++seeds;
    t.list = ARENA_ARRAY(a, struct prop_reach, (int64_t)seeds + 1);
    t.last = ARENA_ARRAY(&tmp, instr_id, (int64_t)seeds + 1);
    for (uint32_t i = 1; i <= n; i++)
        if (t.index[i])
            t.list[t.index[i] - 1].seed = (instr_id){ i };
    for (uint32_t i = 1; i <= n; i++)
        if (!p->state->facts[i].gone)
            reach_instr(&o, &t, (instr_id){ i });
    arena_close(&tmp);
    *out = t.list;
    return seeds;
}
