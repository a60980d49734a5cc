/* Which instructions a visit reads, and which visits read an instruction: the static read sets of
 * internals.md section 2, and the look-ahead's chain. Too much is right, too little is not. */
#include "propagate/increment.h"

/* ---- who reads whom ------------------------------------------------------------------------------------ */

void inc_list_open(struct inc *c, struct id_list *l)
{
    l->n = 0;
    c->t->stamp++;
}

void inc_list_add(struct inc *c, struct id_list *l, instr_id i)
{
    if (!i.i || c->t->mark[i.i] == c->t->stamp)
        return;
    c->t->mark[i.i] = c->t->stamp;
    id_list_push(c->tmp, l, i);
}

static bool is_controlled(const struct pass *p, instr_id i)
{
    uint16_t op = at(p, i)->op;
    return op == OP_WHILE || op == OP_CONDITIONAL || op == OP_CALL;
}

/* P-81 goes through it. */
bool inc_is_edge(const struct pass *p, instr_id i)
{
    return is_controlled(p, i) ||
           ((at(p, i)->op == OP_PARAMETER || fact_of(p, i)->root) && p->caller[at(p, i)->comp.i].i);
}

static void add_passed(struct inc *c, struct id_list *l, instr_id i)
{
    const struct pass *p = c->p;
    const instr_id *u = users_of(p->users, i);
    for (uint32_t k = 0; k < users_count(p->users, i); k++) {
        if (at(p, u[k])->op != OP_CONDITIONAL && at(p, u[k])->op != OP_CALL)
            continue;
        int n = instr_called(p->m, u[k], NULL, 0);
        comp_id *list = ARENA_ARRAY(c->tmp, comp_id, n);
        instr_called(p->m, u[k], list, n);
        for (int b = 0; b < n; b++)
            for (uint32_t j = 0; j < comp_at(p->m, list[b])->nparams; j++)
                if (caller_operand(p, comp_at(p->m, list[b])->params[j]).i == i.i)
                    inc_list_add(c, l, comp_at(p->m, list[b])->params[j]);
    }
}

/* Adds all that P-81 can lead to from the members from position `from` on, in both directions. */
static void add_component(struct inc *c, struct id_list *l, uint32_t from)
{
    const struct pass *p = c->p;
    struct id_list related = { 0 };
    for (uint32_t k = from; k < l->n; k++) {
        instr_id i = l->v[k];
        related.n = 0;
        if (is_controlled(p, i) || at(p, i)->op == OP_PARAMETER)
            related_instrs(p, i, &related);
        for (uint32_t j = 0; j < related.n; j++)
            inc_list_add(c, l, related.v[j]);
        /* P-74 knows one caller of a computation; its other loops lead here, too. */
        uint32_t comp = at(p, i)->comp.i;
        for (uint32_t b = p->callers_first[comp]; inc_is_edge(p, i) && b < p->callers_first[comp + 1]; b++) {
            if (!is_controlled(p, p->callers[b]))
                continue;
            inc_list_add(c, l, p->callers[b]);
            related.n = 0;
            related_instrs(p, p->callers[b], &related);
            for (uint32_t j = 0; j < related.n; j++)
                inc_list_add(c, l, related.v[j]);
        }
        add_passed(c, l, i);
    }
}

/* i and what P-81 writes and reads at a visit of i. */
void inc_list_component(struct inc *c, struct id_list *l, instr_id i)
{
    inc_list_open(c, l);
    inc_list_add(c, l, i);
    add_component(c, l, 0);
}

static bool looks_ahead(const struct pass *p, instr_id i)
{
    return fact_of(p, i)->family == FAMILY_dot || fact_of(p, i)->family == FAMILY_convolution;
}

static void add_operands(struct inc *c, struct id_list *l, instr_id i)
{
    const struct instr *ins = at(c->p, i);
    for (uint32_t k = 0; k < ins->noperands; k++)
        inc_list_add(c, l, ins->operands[k]);
}

/* The chain of only users that P-107 follows, in the old history or in the new one. */
static void add_chain(struct inc *c, struct id_list *l, instr_id i, uint64_t key)
{
    for (instr_id x = i; users_count(c->p->users, x) == 1;) {
        instr_id u = users_of(c->p->users, x)[0];
        inc_list_add(c, l, u);
        if (fact_of(c->p, u)->asks)
            add_operands(c, l, u);
        if (before(old_list(c, u), key) && before(new_list(c, u), key))
            return;
        x = u;
    }
}

instr_id inc_partner(const struct inc *c, instr_id i)
{
    instr_id partner = none_instr();
    if (c->p->open[i.i])
        (void)partner_of(c->p, i, &partner);
    return partner;
}

static void add_users(struct inc *c, struct id_list *l, instr_id i)
{
    const instr_id *u = users_of(c->p->users, i);
    for (uint32_t k = 0; k < users_count(c->p->users, i); k++) {
        inc_list_add(c, l, u[k]);
        if (fact_of(c->p, u[k])->asks)
            add_operands(c, l, u[k]);
    }
}

static void add_members(struct inc *c, struct id_list *l, instr_id i)
{
    const struct group *g = &c->p->groups.v[c->p->group_of[i.i] - 1];
    for (int64_t k = 0; k < g->members.n; k++)
        inc_list_add(c, l, g->members.v[k]);
}

void inc_list_reads(struct inc *c, uint32_t slot, uint64_t key)
{
    struct id_list *l = &c->reads;
    instr_id i = c->p->slot_instr[slot], partner = inc_partner(c, i);
    inc_list_open(c, l);
    inc_list_add(c, l, i);
    inc_list_add(c, l, partner);
    if (inc_is_edge(c->p, i))
        add_component(c, l, 0);
    switch ((enum slot_kind)c->p->slot_kind[slot]) {
    case SLOT_GROUP:
        add_members(c, l, i);
        break;
    case SLOT_FORWARD:
        add_operands(c, l, i);
        if (at(c->p, i)->op == OP_PARAMETER)
            inc_list_add(c, l, caller_operand(c->p, i));
        if (looks_ahead(c->p, i))
            add_chain(c, l, i, key);
        break;
    case SLOT_BACKWARD:
        add_users(c, l, i);
        if (partner.i)
            add_users(c, l, partner);
        break;
    }
}

static void examine_slot(struct inc *c, uint32_t slot)
{
    if (slot)
        c->t->exam[slot >> 6] |= UINT64_C(1) << (slot & 63);
}

static bool never_written(const struct inc *c, instr_id i, uint64_t key)
{
    return !before(old_list(c, i), key) || !before(new_list(c, i), key);
}

/* Dots whose look-ahead may come by i from time key on: back over only users without a sharding. */
static void examine_looks(struct inc *c, instr_id i, uint64_t key, const bool *leaves)
{
    struct id_list todo = { 0 };
    const struct pass *p = c->p;
    inc_list_open(c, &todo);
    inc_list_add(c, &todo, i);
    for (uint32_t k = 0; k < users_count(p->users, i); k++)
        if (fact_of(p, users_of(p->users, i)[k])->asks) /* i is another operand of it */
            inc_list_add(c, &todo, users_of(p->users, i)[k]);
    for (uint32_t k = 0; k < todo.n; k++) {
        const struct instr *ins = at(p, todo.v[k]);
        for (uint32_t j = 0; j < ins->noperands; j++) {
            instr_id o = ins->operands[j];
            if ((k == 0 && leaves && !leaves[j]) || users_count(p->users, o) != 1)
                continue;
            if (looks_ahead(p, o))
                examine_slot(c, p->facts[o.i].forward_slot);
            if (never_written(c, o, key))
                inc_list_add(c, &todo, o);
        }
    }
}

/* A conversion's bit, when met, sets that of its operand. */
static void examine_backward(struct inc *c, instr_id i)
{
    const struct pass *p = c->p;
    examine_slot(c, p->facts[i.i].backward_slot);
    for (; p->special && is_conversion(p, i) && at(p, i)->noperands; i = at(p, i)->operands[0])
        examine_slot(c, p->facts[at(p, i)->operands[0].i].backward_slot);
}

static void examine_both(struct inc *c, instr_id i)
{
    examine_slot(c, c->p->facts[i.i].forward_slot);
    examine_backward(c, i);
}

/* Of i's partner, or of the annotation whose partner it is: their rules read each other and their users. */
static void examine_pairs(struct inc *c, instr_id i)
{
    const struct pass *p = c->p;
    const struct instr *ins = at(p, i);
    if (p->group_of[i.i]) {
        const struct group *g = &p->groups.v[p->group_of[i.i] - 1];
        const struct group *also = g->also ? &p->groups.v[g->also - 1] : NULL;
        for (int64_t k = 0; k < g->members.n; k++)
            examine_slot(c, p->group_slot[g->members.v[k].i]);
        for (int64_t k = 0; also && k < also->members.n; k++)
            examine_slot(c, p->group_slot[also->members.v[k].i]);
    }
    if (!p->special)
        return;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        instr_id o = ins->operands[k];
        examine_both(c, o);
        for (uint32_t j = 0; is_conversion(p, o) && j < at(p, o)->noperands; j++)
            examine_both(c, at(p, o)->operands[j]);
    }
    instr_id partner = inc_partner(c, i);
    if (partner.i)
        examine_both(c, partner);
}

/* All slots that read i, or whose bits its writes set, from time key on. */
void inc_examine_readers(struct inc *c, instr_id i, uint64_t key, const bool *leaves)
{
    const struct pass *p = c->p;
    const struct instr *ins = at(p, i);
    examine_both(c, i);
    examine_pairs(c, i);
    for (uint32_t k = 0; k < ins->noperands; k++)
        if (!leaves || leaves[k])
            examine_backward(c, ins->operands[k]);
    const instr_id *u = users_of(p->users, i);
    for (uint32_t k = 0; k < users_count(p->users, i); k++) {
        const struct instr *user = at(p, u[k]);
        examine_slot(c, p->facts[u[k].i].forward_slot);
        for (uint32_t j = 0; fact_of(p, u[k])->asks && j < user->noperands; j++)
            examine_backward(c, user->operands[j]);
        int n = calls_out(p, u[k]) ? instr_called(p->m, u[k], NULL, 0) : 0;
        comp_id *list = n ? ARENA_ARRAY(c->tmp, comp_id, n) : NULL;
        if (n)
            instr_called(p->m, u[k], list, n);
        for (int b = 0; b < n; b++)
            for (uint32_t j = 0; j < comp_at(p->m, list[b])->nparams; j++)
                examine_slot(c, p->facts[comp_at(p->m, list[b])->params[j].i].forward_slot);
    }
    struct id_list part = { 0 };
    inc_list_component(c, &part, i);
    for (uint32_t k = 1; k < part.n; k++)
        examine_both(c, part.v[k]);
    examine_looks(c, i, key, leaves);
}
