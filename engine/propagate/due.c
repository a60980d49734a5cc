/* Which slots have to be visited when a level starts.
 *
 * XLA visits all of them (P-148). What would only say no is left out here, which no history can tell: a
 * slot that said no when it was last visited, reads the same since then, and whose rule does not wait
 * for this level; at levels 0 and 1, one without a sharded neighbour. P-78 makes those due that get one. */
#include <string.h>

#include "propagate/internal.h"

/* What must not change and has no open dimensions is visited only for the sake of operand 0 of a
 * conversion. */
static bool never_due(const struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot];
    if (!p->provided[i.i] || p->open[i.i])
        return false;
    return p->slot_kind[slot] != SLOT_BACKWARD || !is_conversion(p, i);
}

void due_make(struct pass *p)
{
    int64_t words = p->nslots / 64 + 1;
    p->due = ARENA_ARRAY(p->arena, uint64_t, words);
    p->calm = ARENA_ARRAY(p->arena, uint64_t, words);
    p->live = ARENA_ARRAY(p->arena, uint64_t, words);
    for (uint32_t s = 1; s < p->nslots; s++)
        p->live[s >> 6] |= (uint64_t)!(never_due(p, s) || is_mute(p, s)) << (s & 63);
    p->skips = !p->special && !p->groups.n && !p->any_manual;
    for (uint32_t k = 1; p->skips && k <= p->n; k++)
        if (!p->facts[k].gone && p->facts[k].level > 1)
            vec_push(p->arena, &p->broadcasts, ((instr_id){ k }));
}

/* Without a sharding that its rule could take. */
static bool forward_idle(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (!can_propagate(p, i))
        return true;
    if (!p->o.spmd && ins->op == OP_SCATTER)
        return false; /* replicated whatever stands around it (P-117) */
    if (ins->op == OP_PARAMETER)
        return !p->caller[ins->comp.i].i;
    for (uint32_t k = 0; k < ins->noperands; k++)
        if (seen(p, ins->operands[k]).i)
            return false;
    return true;
}

static bool backward_idle(const struct pass *p, instr_id i)
{
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    if (fact_of(p, i)->level > p->level && fact_of(p, i)->family == FAMILY_broadcast)
        return true;
    for (uint32_t k = 0; k < n; k++)
        if ((seen(p, u[k]).i && can_propagate(p, u[k])) || fact_of(p, u[k])->family == FAMILY_rng_bit_generator)
            return false;
    return true;
}

static void all_due(struct pass *p)
{
    for (uint32_t s = 1; s < p->nslots; s++) {
        if (!(p->live[s >> 6] >> (s & 63) & 1))
            continue;
        instr_id i = p->slot_instr[s];
        bool idle = p->skips && (p->slot_kind[s] == SLOT_FORWARD ? forward_idle(p, i) : backward_idle(p, i));
        if (idle)
            set_calm(p, s, true);
        else
            set_due(p, s);
    }
}

/* In a level's first sweep all have their turn, so one that lies ahead is due after all. */
static void disturb(struct pass *p, uint32_t slot)
{
    if (!slot)
        return;
    set_calm(p, slot, false);
    if (p->time.iteration == 1 && slot > p->time.slot)
        set_due(p, slot);
}

void due_disturb(struct pass *p, instr_id h)
{
    disturb(p, p->facts[h.i].forward_slot);
    disturb(p, p->facts[h.i].backward_slot);
    const instr_id *u = users_of(p->users, h);
    for (uint32_t k = users_count(p->users, h); k > 0; k--) {
        if (!fact_of(p, u[k - 1])->asks)
            continue;
        const struct instr *user = at(p, u[k - 1]);
        for (uint32_t j = 0; j < user->noperands; j++)
            disturb(p, p->facts[user->operands[j].i].backward_slot);
    }
}

void due_start(struct pass *p, int stage)
{
    size_t words = (size_t)p->nslots / 64 + 1;
    memset(p->due, 0, words * sizeof *p->due);
    if (!p->skips || stage < 2) {
        memset(p->calm, 0, words * sizeof *p->calm);
        all_due(p);
        return;
    }
    for (size_t w = 0; w < words; w++) {
        uint64_t bits = ~p->calm[w] & p->live[w];
        for (; bits; bits &= bits - 1) {
            uint32_t s = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
            set_due(p, s);
        }
    }
    /* Rules of broadcasts and for their operands begin at level 2, forward at level 3. */
    for (int64_t k = 0; k < p->broadcasts.n && stage < 4; k++) {
        instr_id b = p->broadcasts.v[k];
        set_due(p, stage == 3 ? p->facts[b.i].forward_slot : p->facts[b.i].backward_slot);
        for (uint32_t j = 0; stage == 2 && j < at(p, b)->noperands; j++)
            set_due(p, p->facts[at(p, b)->operands[j].i].backward_slot);
    }
}

bool slot_waits(const struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot];
    if (fact_of(p, i)->level > 1)
        return true;
    const instr_id *u = users_of(p->users, i);
    for (uint32_t k = users_count(p->users, i); p->slot_kind[slot] == SLOT_BACKWARD && k > 0; k--)
        if (fact_of(p, u[k - 1])->level > 1)
            return true;
    return false;
}
