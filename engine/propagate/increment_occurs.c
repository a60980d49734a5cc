/* Whether a slot is visited at a time, computed from the history alone (internals.md section 2): a bit is
 * set when a level starts, cleared by a visit (an open annotation's: by success), and set again by writes
 * (P-78) and by a conversion that is met set. */
#include "propagate/increment.h"

enum { CONVERSIONS_DEEP = 16 };

enum bits { BITS_OPERANDS /* backward slots of operands */, BITS_USERS /* forward slots of users */, BITS_GROUP };

/* Whether a write on i sets those bits. Success of an open annotation sets the operands' and the group's
 * on its own behalf, the users' on its partner's (P-77). */
static bool sets(const struct inc *c, bool new, instr_id i, const struct prop_write *w, enum bits bits)
{
    const struct pass *p = c->p;
    if (!p->special || w->time.iteration == 0)
        return true;
    instr_id v = p->slot_instr[w->time.slot];
    const bool *provided = new ? p->provided : c->old_provided;
    if (!provided[v.i] || !p->open[v.i])
        return true;
    instr_id partner = inc_partner(c, v);
    if (bits == BITS_USERS)
        return i.i == (partner.i ? partner.i : v.i);
    return i.i == v.i;
}

static bool set_between(const struct inc *c, bool new, instr_id i, enum bits bits, uint64_t from, uint64_t to)
{
    /* Most were written long before: one look at a small table. */
    if (c->last[i.i] < sweep_of((struct prop_time){ (uint8_t)(from >> 48), (uint16_t)(from >> 32), 0, 0 }))
        return false;
    struct prop_writes s = new ? new_list(c, i) : old_list(c, i);
    if (!c->p->special && s.n < 256)
        return any_within(s, from, to);
    uint32_t *hints = c->t->hints[new], a = before_again(s, from, &hints[0]), b = before_again(s, to, &hints[1]);
    if (!c->p->special)
        return a < b;
    for (uint32_t k = a; k < b; k++)
        if (sets(c, new, i, &s.v[k], bits))
            return true;
    return false;
}

bool inc_written(const struct inc *c, bool new, instr_id i, uint64_t from, uint64_t to)
{
    return any_within(new ? new_list(c, i) : old_list(c, i), from, to);
}

static bool any_set(const struct inc *c, bool new, uint32_t n, const instr_id *v, enum bits bits, uint64_t from, uint64_t to)
{
    for (uint32_t k = 0; k < n; k++)
        if (set_between(c, new, v[k], bits, from, to))
            return true;
    return false;
}

static bool forward_set(const struct inc *c, bool new, instr_id i, uint64_t from, uint64_t to)
{
    const struct pass *p = c->p;
    const struct instr *ins = at(p, i);
    if (any_set(c, new, ins->noperands, ins->operands, BITS_USERS, from, to))
        return true;
    if (ins->op != OP_PARAMETER)
        return false;
    for (uint32_t k = p->callers_first[ins->comp.i]; k < p->callers_first[ins->comp.i + 1]; k++) {
        const struct instr *caller = at(p, p->callers[k]);
        if (any_set(c, new, caller->noperands, caller->operands, BITS_USERS, from, to))
            return true;
    }
    return false;
}

static bool group_set(const struct inc *c, bool new, instr_id i, uint64_t from, uint64_t to)
{
    const struct group *g = &c->p->groups.v[c->p->group_of[i.i] - 1];
    if (!c->p->group_at[i.i])
        return false; /* asks a group that it is no member of */
    for (int64_t k = 0; k < g->members.n; k++)
        if (g->members.v[k].i != i.i && set_between(c, new, g->members.v[k], BITS_GROUP, from, to))
            return true;
    const struct group *also = g->also ? &c->p->groups.v[g->also - 1] : NULL;
    for (int64_t k = 0; also && k < also->members.n; k++)
        if (set_between(c, new, also->members.v[k], BITS_GROUP, from, to))
            return true;
    return false;
}

/* A bit that only success clears: the time behind the last one of that slot before t in its level; 0: none. */
static uint64_t last_success(const struct inc *c, bool new, instr_id a, uint32_t slot, struct prop_time t)
{
    struct prop_writes s = new ? new_list(c, a) : old_list(c, a);
    uint32_t from = before(s, key_of((struct prop_time){ t.stage, 1, 0, 0 }));
    for (uint32_t k = before(s, key_of(t)); k > from; k--)
        if (s.v[k - 1].time.slot == slot)
            return key_of(s.v[k - 1].time) + 1;
    return 0;
}

/* The bit of slot is set when its turn comes at t. depth: conversions in front of each other. */
static bool is_set(const struct inc *c, bool new, uint32_t slot, struct prop_time t, int depth)
{
    const struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    enum slot_kind kind = (enum slot_kind)p->slot_kind[slot];
    const bool *provided = new ? p->provided : c->old_provided;
    struct prop_time before_it = { t.stage, (uint16_t)(t.iteration - 1), slot, 0 };
    uint64_t from = key_of(before_it), to;
    t.slot = slot;
    to = key_of(t);
    if (t.iteration == 1)
        return true;
    if (provided[i.i]) {
        instr_id a = i;
        if (!p->open[i.i]) { /* a conversion: its operand's success clears its bit, where they are partners */
            a = at(p, i)->operands[0];
            if (inc_partner(c, a).i != i.i || !provided[a.i])
                return true;
        }
        from = last_success(c, new, a, p->open[i.i] ? slot : p->facts[a.i].backward_slot, t);
        if (!from)
            return true;
    } else if (kind == SLOT_BACKWARD && is_conversion(p, i) && at(p, i)->noperands) {
        instr_id a = at(p, i)->operands[0];
        uint64_t success = inc_partner(c, a).i == i.i && provided[a.i] ? last_success(c, new, a, p->facts[a.i].backward_slot, t) : 0;
        from = success > from ? success : from;
    }
    if (kind == SLOT_GROUP)
        return group_set(c, new, i, from, to);
    if (kind == SLOT_FORWARD)
        return forward_set(c, new, i, from, to);
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    if (any_set(c, new, n, u, BITS_OPERANDS, from, to))
        return true;
    for (uint32_t k = 0; p->special && depth < CONVERSIONS_DEEP && k < n; k++) {
        if (!is_conversion(p, u[k]) || at(p, u[k])->operands[0].i != i.i || !p->facts[u[k].i].backward_slot)
            continue;
        /* its turns since the bit was cleared */
        struct prop_time turn = { t.stage, (uint16_t)((from >> 32 & 0xffff) + 1), p->facts[u[k].i].backward_slot, 0 };
        for (; turn.iteration <= t.iteration; turn.iteration++)
            if (is_set(c, new, turn.slot, turn, depth + 1))
                return true;
    }
    return false;
}

bool inc_occurs(struct inc *c, bool new, uint32_t slot, struct prop_time t)
{
    const struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    if ((new ? p->provided : c->old_provided)[i.i] && (!p->open[i.i] || !p->may))
        return false;
    return is_set(c, new, slot, t, 0);
}

bool inc_fits(const struct pass *p)
{
    for (uint32_t k = 1; p->special && k <= p->n; k++) {
        int deep = 0;
        for (instr_id i = { k }; !p->facts[i.i].gone && is_conversion(p, i) && at(p, i)->noperands; i = at(p, i)->operands[0])
            if (++deep == CONVERSIONS_DEEP)
                return false;
    }
    return !p->barriers && p->steps.n < UINT16_MAX / 4; /* writes of steps are told apart by seq */
}
