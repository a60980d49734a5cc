/* Tuples of thousands of leaves in increments: a training step's results, of which an edit reaches a few. Their
 * forward visit and their readers go leaf by leaf (P-101, P-123), not all of them each time. */
#include <string.h>

#include "propagate/increment.h"

enum { WIDE = 64 };

/* A tuple of arrays only, so that leaf k is operand k. */
static bool is_wide(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    return fact_of(p, i)->family == FAMILY_tuple && ins->noperands >= WIDE && shape_of(p, i)->nleaves == shape_of(p, i)->nelems &&
           !p->special && !p->groups.n && !p->any_manual;
}

/* Whether a tuple is spatial asks for all leaves. */
static bool all_spatial(const struct pass *p, const struct prop_write *w)
{
    return sharding_is_spatial(p->t, w->before) && sharding_is_spatial(p->t, w->after);
}

static bool same_whole(const struct prop_write *a, const struct prop_write *b)
{
    return a->leaf < 0 && b->leaf < 0 && a->before.i == b->before.i && a->after.i == b->after.i;
}

static int64_t first_of(const struct pass *p, instr_id i)
{
    int64_t k = 0;
    while (k < p->log.n && p->log.v[k].instr.i != i.i)
        k++;
    return k;
}

/* ---- operands that a write of other leaves makes due ---------------------------------------------------- */

static bool written_since(const struct inc *c, instr_id i, uint64_t turn)
{
    uint16_t first = sweep_of((struct prop_time){ (uint8_t)(turn >> 48), 1, 0, 0 });
    return c->last[i.i] >= first && (last_key(old_list(c, i)) >= turn || last_key(new_list(c, i)) >= turn);
}

/* The backward visit of x in this level's first sweep saw all that a later one would see, in either history, and
 * wrote nothing: then one more is nothing, too. leaf: the last write of x's leaf of the tuple. */
static bool is_restless(const struct inc *c, instr_id tuple, instr_id x, uint64_t leaf, int stage)
{
    const struct pass *p = c->p;
    uint32_t slot = p->facts[x.i].backward_slot;
    uint64_t turn = key_of((struct prop_time){ (uint8_t)stage, 1, slot, 0 });
    if (!slot)
        return false;
    if (leaf >= turn || inc_is_edge(p, x) || written_since(c, x, turn))
        return true;
    const instr_id *u = users_of(p->users, x);
    for (uint32_t k = users_count(p->users, x); k > 0; k--) {
        const struct instr *user = at(p, u[k - 1]);
        if (u[k - 1].i == tuple.i)
            continue;
        if (written_since(c, u[k - 1], turn))
            return true;
        for (uint32_t j = 0; fact_of(p, u[k - 1])->asks && j < user->noperands; j++)
            if (written_since(c, user->operands[j], turn))
                return true;
    }
    return false;
}

static void last_of_leaves(struct prop_writes s, int64_t n, uint64_t *last)
{
    for (uint32_t k = 0; k < s.n; k++) {
        uint64_t key = key_of(s.v[k].time);
        int64_t from = s.v[k].leaf < 0 ? 0 : s.v[k].leaf, to = s.v[k].leaf < 0 ? n : from + 1;
        for (int64_t j = from; j < to && j < n; j++)
            last[j] = key > last[j] ? key : last[j];
    }
}

/* Bits of all operands are set in one history only. */
static void add_restless(struct inc *c, instr_id i, int stage, bool *leaves)
{
    int64_t n = shape_of(c->p, i)->nleaves;
    const struct instr *ins = at(c->p, i);
    uint64_t *last = ARENA_ARRAY(c->tmp, uint64_t, n);
    last_of_leaves(old_list(c, i), n, last);
    last_of_leaves(new_list(c, i), n, last);
    for (int64_t k = 0; k < n; k++)
        leaves[k] = leaves[k] || is_restless(c, i, ins->operands[k], last[k], stage);
}

/* ---- what is written to a tuple --------------------------------------------------------------------------- */

/* The whole was left alone or given the same by both. */
const bool *inc_changed_leaves(struct inc *c, instr_id i, uint32_t from, uint32_t to)
{
    struct pass *p = c->p;
    struct prop_writes s = new_list(c, i);
    if (!is_wide(p, i))
        return NULL;
    int64_t n = shape_of(p, i)->nleaves, start = first_of(p, i), mine = 0;
    bool had = to > from;
    if (!had && start == p->log.n)
        return NULL;
    uint64_t key = key_of(had ? s.v[to - 1].time : p->log.v[start].write.time);
    if (had && start < p->log.n && same_whole(&s.v[from], &p->log.v[start].write)) {
        from++;
        start++;
        mine++;
    }
    sharding_id *was = ARENA_ARRAY(c->tmp, sharding_id, n), *is = ARENA_ARRAY(c->tmp, sharding_id, n);
    for (uint32_t k = from; k < to; k++) {
        if (s.v[k].leaf < 0 || s.v[k].leaf >= n || key_of(s.v[k].time) != key || !all_spatial(p, &s.v[k]))
            return NULL;
        was[s.v[k].leaf] = s.v[k].after;
    }
    for (int64_t k = start; k < p->log.n; k++) {
        const struct prop_write *w = &p->log.v[k].write;
        if (p->log.v[k].instr.i != i.i)
            continue;
        if (w->leaf < 0 || w->leaf >= n || key_of(w->time) != key || !all_spatial(p, w))
            return NULL;
        is[w->leaf] = w->after;
        mine++;
    }
    bool *differ = ARENA_ARRAY(c->tmp, bool, n);
    for (int64_t k = 0; k < n; k++)
        differ[k] = was[k].i != is[k].i;
    int stage = (int)(key >> 48);
    if (had != (mine > 0)) {
        if ((key >> 32 & 0xffff) == 0 || stage >= STAGES)
            return NULL;
        add_restless(c, i, stage, differ);
    }
    return differ;
}

struct tuple_visit {
    instr_id i;
    struct prop_time time;
    const sharding_id *was, *is; /* its leaves before the visit */
    struct prop_writes old;      /* what the visit wrote, by leaf */
};

static bool leaves_before(struct inc *c, instr_id i, bool new, uint64_t key, const sharding_id **out)
{
    sharding_id s = inc_value_before(c, i, new, key);
    if (!s.i)
        return false;
    const struct sharding *g = sharding_get(c->p->t, s);
    *out = g->elems;
    return g->kind == SHARDING_TUPLE && g->nelems == shape_of(c->p, i)->nleaves;
}

static bool by_leaf(struct prop_writes s)
{
    for (uint32_t k = 0; k < s.n; k++)
        if (s.v[k].rule != RULE_FORWARD || s.v[k].leaf < 0 || (k && s.v[k].leaf <= s.v[k - 1].leaf))
            return false;
    return true;
}

static void add_write(struct inc *c, struct tuple_visit *v, struct prop_write w)
{
    w.time = v->time;
    vec_push(c->tmp, &c->p->log, ((struct log_entry){ v->i, w }));
    if (v->time.seq < UINT16_MAX)
        v->time.seq++;
}

/* One leaf by P-101, as forward_tuple does. */
static bool write_leaf(struct inc *c, struct tuple_visit *v, uint32_t k, instr_id x, uint64_t key)
{
    const struct shardings *t = c->p->t;
    sharding_id theirs = inc_value_before(c, x, true, key), mine = v->is[k];
    if (!theirs.i)
        return true;
    if (sharding_get(t, theirs)->kind == SHARDING_TUPLE)
        return false;
    if (theirs.i != mine.i && sharding_more_specific(t, theirs, mine))
        add_write(c, v, (struct prop_write){ .rule = RULE_FORWARD, .leaf = (int32_t)k, .cause = x, .before = mine, .after = theirs });
    return true;
}

/* Some operand without a difference counts for the rule as a whole. */
static bool any_spatial(struct inc *c, instr_id i, uint64_t key)
{
    const struct instr *ins = at(c->p, i);
    for (uint32_t k = 0; k < ins->noperands; k++) {
        sharding_id s = c->t->fork_of[ins->operands[k].i] ? none() : inc_value_before(c, ins->operands[k], false, key);
        if (s.i && sharding_is_spatial(c->p->t, s))
            return true;
    }
    return false;
}

static bool visit_leaves(struct inc *c, struct tuple_visit *v, uint64_t key)
{
    const struct instr *ins = at(c->p, v->i);
    uint32_t at_ = 0;
    bool differ = false;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        instr_id x = ins->operands[k];
        const struct prop_write *old = at_ < v->old.n && v->old.v[at_].leaf == (int32_t)k ? &v->old.v[at_++] : NULL;
        bool same = v->was[k].i == v->is[k].i && inc_same_before(c, x, key);
        differ = differ || !same;
        if (same && old)
            add_write(c, v, *old);
        else if (!same && !write_leaf(c, v, k, x, key))
            return false;
    }
    c->run += differ;
    c->differing += differ;
    return true;
}

bool inc_tuple_visit(struct inc *c, uint32_t slot, struct prop_time t)
{
    const struct pass *p = c->p;
    struct tuple_visit v = { .i = p->slot_instr[slot], .time = t };
    uint64_t key = key_of(t);
    if (p->slot_kind[slot] != SLOT_FORWARD || !is_wide(p, v.i) || inc_is_edge(p, v.i) || !fact_of(p, v.i)->forward_ok ||
        p->provided[v.i.i] || c->old_provided[v.i.i])
        return false;
    struct prop_writes s = old_list(c, v.i);
    uint32_t from = before(s, key);
    v.old = (struct prop_writes){ s.v + from, before(s, key + 1) - from };
    if (!leaves_before(c, v.i, false, key, &v.was) || !leaves_before(c, v.i, true, key, &v.is) || !by_leaf(v.old) ||
        !any_spatial(c, v.i, key))
        return false;
    if (visit_leaves(c, &v, key))
        return true;
    c->p->log.n = 0;
    return false;
}
