/* The fixed point of one level (P-77..P-81) over slots and due bits (internals.md section 2).
 *
 * A sweep is a fixed list of slots: for each computation its group visits and forward visits in
 * post-order, then its backward visits in reverse post-order. A set bit has to be visited; "done"
 * of P-77 is a clear bit. A sweep is find-next-set from slot 0: a bit that a visit sets ahead is met
 * in this sweep, one behind in the next (P-80). */
#include <string.h>

#include "base/fail.h"
#include "propagate/internal.h"

static uint32_t next_due(const struct pass *p, uint32_t from)
{
    uint32_t w = from >> 6, words = (p->nslots + 63) >> 6;
    if (w >= words)
        return p->nslots;
    uint64_t bits = p->due[w] & p->live[w] & (~UINT64_C(0) << (from & 63));
    while (!bits && ++w < words)
        bits = p->due[w] & p->live[w];
    return bits ? (w << 6) + (uint32_t)__builtin_ctzll(bits) : p->nslots;
}

static void add_slot(struct pass *p, instr_id i, enum slot_kind kind, uint32_t *slot)
{
    *slot = p->nslots;
    p->slot_instr[p->nslots] = i;
    p->slot_kind[p->nslots++] = (uint8_t)kind;
}

/* Slot 0 is none. */
bool slots_make(struct pass *p)
{
    p->group_slot = ARENA_ARRAY(p->arena, uint32_t, p->n + 1);
    int64_t total = 3 * (int64_t)p->n + 1;
    p->slot_instr = ARENA_ARRAY(p->arena, instr_id, total);
    p->slot_kind = ARENA_ARRAY(p->arena, uint8_t, total);
    p->nslots = 1;
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        if (!comp_included(p, (comp_id){ c }))
            continue;
        uint32_t n;
        const instr_id *order = comp_post_order(p->m, (comp_id){ c }, p->users, p->tmp, &n);
        for (uint32_t k = 0; k < n; k++)
            if (p->group_of[order[k].i])
                add_slot(p, order[k], SLOT_GROUP, &p->group_slot[order[k].i]);
        for (uint32_t k = 0; k < n; k++)
            add_slot(p, order[k], SLOT_FORWARD, &p->facts[order[k].i].forward_slot);
        for (uint32_t k = n; k > 0; k--)
            add_slot(p, order[k - 1], SLOT_BACKWARD, &p->facts[order[k - 1].i].backward_slot);
    }
    due_make(p);
    return true;
}

/* ---- P-78 ---------------------------------------------------------------------------------------- */

static void parameters_due(struct pass *p, instr_id caller)
{
    comp_id list[16];
    int n = instr_called(p->m, caller, list, (int)COUNTOF(list));
    comp_id *all = list;
    if (n > (int)COUNTOF(list)) {
        all = ARENA_ARRAY(p->tmp, comp_id, n);
        instr_called(p->m, caller, all, n);
    }
    for (int k = 0; k < n; k++) {
        const struct computation *c = comp_at(p->m, all[k]);
        for (uint32_t j = 0; j < c->nparams; j++)
            set_due(p, p->facts[c->params[j].i].forward_slot);
    }
}

bool calls_out(const struct pass *p, instr_id i)
{
    switch ((enum family)fact_of(p, i)->family) {
    case FAMILY_while:
    case FAMILY_conditional:
    case FAMILY_call:
    case FAMILY_async:
    case FAMILY_custom_call:
    case FAMILY_none:
        return true;
    case FAMILY_source:
    case FAMILY_parameter:
    case FAMILY_elementwise:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_rng:
    case FAMILY_rng_bit_generator:
    case FAMILY_operand0:
    case FAMILY_broadcast:
    case FAMILY_reshape:
    case FAMILY_transpose:
    case FAMILY_reverse:
    case FAMILY_concatenate:
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
    case FAMILY_gather:
    case FAMILY_scatter:
    case FAMILY_dot:
    case FAMILY_convolution:
    case FAMILY_reduce:
    case FAMILY_reduce_window:
    case FAMILY_select_and_scatter:
    case FAMILY_sort:
    case FAMILY_tuple:
    case FAMILY_get_tuple_element:
    case FAMILY_all_reduce:
        return false;
    }
    return false;
}

static void clear_caches(struct pass *p, instr_id h, instr_id h2)
{
    const struct instr *ins = at(p, h);
    for (uint32_t k = 0; k < ins->noperands; k++)
        set_due(p, p->facts[ins->operands[k].i].backward_slot);
    const instr_id *u = users_of(p->users, h2);
    for (uint32_t k = users_count(p->users, h2); k > 0; k--) {
        set_due(p, p->facts[u[k - 1].i].forward_slot);
        if (calls_out(p, u[k - 1]))
            parameters_due(p, u[k - 1]);
    }
    if (p->skips)
        due_disturb(p, h);
    if (!p->group_of[h.i])
        return;
    const struct group *g = &p->groups.v[p->group_of[h.i] - 1];
    for (int64_t k = 0; k < g->members.n; k++)
        if (g->members.v[k].i != h.i)
            set_due(p, p->group_slot[g->members.v[k].i]);
}

/* ---- P-73, P-81 ------------------------------------------------------------------------------------ */

static instr_id comp_root(const struct pass *p, comp_id c)
{
    return comp_at(p->m, c)->root;
}

static void push_parameter0(const struct pass *p, comp_id c, struct id_list *out)
{
    const struct computation *comp = comp_at(p->m, c);
    if (comp->nparams)
        id_list_push(p->tmp, out, comp->params[0]);
}

static int parameter_number(const struct pass *p, instr_id i)
{
    const struct computation *c = comp_at(p->m, at(p, i)->comp);
    for (uint32_t k = 0; k < c->nparams; k++)
        if (c->params[k].i == i.i)
            return (int)k;
    return -1;
}

instr_id caller_operand(const struct pass *p, instr_id parameter)
{
    comp_id c = at(p, parameter)->comp;
    instr_id x = p->caller[c.i];
    if (!x.i)
        return none_instr();
    const struct instr *ins = at(p, x);
    if (ins->op == OP_CONDITIONAL) {
        int n = instr_called(p->m, x, NULL, 0);
        comp_id *list = ARENA_ARRAY(p->tmp, comp_id, n);
        instr_called(p->m, x, list, n);
        for (int b = 0; b < n; b++)
            if (list[b].i == c.i && (uint32_t)b + 1 < ins->noperands)
                return ins->operands[b + 1];
        return none_instr();
    }
    int number = parameter_number(p, parameter);
    if (ins->op != OP_CALL || number < 0 || (uint32_t)number >= ins->noperands)
        return none_instr();
    return ins->operands[number];
}

void related_instrs(const struct pass *p, instr_id i, struct id_list *out)
{
    const struct instr *ins = at(p, i);
    out->n = 0;
    if (ins->op == OP_PARAMETER) {
        instr_id operand = caller_operand(p, i);
        if (!operand.i)
            return;
        id_list_push(p->tmp, out, i);
        id_list_push(p->tmp, out, operand);
        return;
    }
    if (ins->op != OP_WHILE && ins->op != OP_CONDITIONAL && ins->op != OP_CALL)
        return; /* nothing is known of custom calls */
    id_list_push(p->tmp, out, i);
    if (ins->op == OP_WHILE) {
        const struct attr *body = instr_attr(ins, ATTR_BODY), *cond = instr_attr(ins, ATTR_CONDITION);
        if (!body || !cond)
            return;
        id_list_push(p->tmp, out, comp_root(p, body->comp));
        push_parameter0(p, body->comp, out);
        push_parameter0(p, cond->comp, out);
        return;
    }
    int n = instr_called(p->m, i, NULL, 0);
    comp_id *list = ARENA_ARRAY(p->tmp, comp_id, n);
    instr_called(p->m, i, list, n);
    for (int b = 0; b < n; b++)
        id_list_push(p->tmp, out, comp_root(p, list[b]));
}

struct pending {
    instr_id i, x; /* share(x) on behalf of i, from position at; x none: start cprop(i) */
    struct id_list list;
    uint32_t at;
    uint8_t step;
};

/* P-81 is recursive; what it nests by is the text's nesting, so the stack is a list. */
struct shares {
    VEC(struct pending) stack;
};

static void start_share(struct pass *p, struct pending *f, instr_id x)
{
    f->list = (struct id_list){ 0 };
    related_instrs(p, x, &f->list);
    bool inside = false;
    for (uint32_t k = 0; k < f->list.n; k++)
        inside = inside || f->list.v[k].i == f->i.i;
    if (!inside)
        f->list.n = 0;
    f->at = 0;
}

/* Next share that cprop(f->i) makes; false: none left. */
static bool next_share(struct pass *p, struct pending *f)
{
    const struct instr *ins = at(p, f->i);
    instr_id x = p->caller[ins->comp.i];
    bool edge = (ins->op == OP_PARAMETER || fact_of(p, f->i)->root) && x.i;
    while (f->step < 3) {
        switch (f->step++) {
        case 0:
            if (ins->op == OP_WHILE || ins->op == OP_CONDITIONAL || ins->op == OP_CALL) {
                start_share(p, f, f->i);
                return true;
            }
            break;
        case 1:
            if (edge) {
                start_share(p, f, x);
                return true;
            }
            break;
        default:
            if (edge && ins->op == OP_PARAMETER &&
                (at(p, x)->op == OP_CONDITIONAL || at(p, x)->op == OP_CALL)) {
                start_share(p, f, f->i);
                return true;
            }
            break;
        }
    }
    return false;
}

void computation_propagation(struct pass *p, instr_id i)
{
    uint16_t op = fact_of(p, i)->op;
    p->touched.n = 0;
    if (op != OP_WHILE && op != OP_CONDITIONAL && op != OP_CALL &&
        !((op == OP_PARAMETER || fact_of(p, i)->root) && p->caller[at(p, i)->comp.i].i))
        return;
    enum prop_rule rule = p->rule;
    p->rule = RULE_RELATED;
    struct shares s = { 0 };
    vec_push(p->tmp, &s.stack, ((struct pending){ .i = i }));
    int64_t steps = 0;
    while (s.stack.n) {
        struct pending *f = &s.stack.v[s.stack.n - 1];
        if (f->at >= f->list.n) {
            if (!next_share(p, f))
                s.stack.n--;
            continue;
        }
        instr_id y = f->list.v[f->at++], from = f->i;
        if (p->provided[y.i] || p->now[y.i].i == p->now[from.i].i)
            continue;
        INVARIANT(++steps < 10000000, "related instructions never agree");
        put_sharding(p, y, p->now[from.i], from);
        vec_push(p->arena, &p->touched, y);
        vec_push(p->tmp, &s.stack, ((struct pending){ .i = y }));
    }
    p->rule = rule;
}

/* ---- visits ---------------------------------------------------------------------------------------- */

static void after(struct pass *p, instr_id i)
{
    put_leaves(p);
    computation_propagation(p, i);
    clear_caches(p, i, i);
    for (int64_t k = 0; k < p->touched.n; k++)
        clear_caches(p, p->touched.v[k], p->touched.v[k]);
}

/* *partner: of an annotation with open dimensions that succeeded. */
static bool rule_yes(struct pass *p, instr_id i, enum slot_kind kind, instr_id *partner)
{
    bool open = is_open(p, i);
    p->offered = p->settled = false;
    *partner = none_instr();
    if (open && !p->may)
        return false;
    switch (kind) {
    case SLOT_GROUP:
        p->rule = RULE_GROUP;
        return open ? open_from_group(p, i, &p->groups.v[p->group_of[i.i] - 1])
                    : from_group(p, i, &p->groups.v[p->group_of[i.i] - 1]);
    case SLOT_FORWARD:
        p->rule = open ? RULE_OPEN_FORWARD : RULE_FORWARD;
        return open ? open_from_operand(p, i, partner) : visit_forward(p, i);
    case SLOT_BACKWARD:
        p->rule = open ? RULE_OPEN_BACKWARD : RULE_BACKWARD;
        return open ? open_from_users(p, i, partner) : visit_backward(p, i);
    }
    return false;
}

/* A provided annotation with open dimensions keeps its bit until it succeeds (P-77). */
static bool visit_open(struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot], partner;
    enum slot_kind kind = (enum slot_kind)p->slot_kind[slot];
    if (!rule_yes(p, i, kind, &partner))
        return false;
    clear_caches(p, i, partner.i ? partner : i);
    clear_due(p, slot);
    if (kind == SLOT_BACKWARD && partner.i)
        clear_due(p, p->facts[partner.i].backward_slot);
    return true;
}

/* What users ask of i depends on what i has: one that asks for its other operands holds it twice, or puts a leaf
 * into its tuple (P-127). */
static bool asks_itself(const struct pass *p, instr_id i)
{
    const instr_id *u = users_of(p->users, i);
    for (uint32_t k = users_count(p->users, i); k > 0; k--) {
        const struct fact *f = fact_of(p, u[k - 1]);
        const struct instr *user = at(p, u[k - 1]);
        uint32_t times = 0;
        if (f->family == FAMILY_get_tuple_element)
            return true;
        for (uint32_t j = 0; f->asks && j < user->noperands; j++)
            times += user->operands[j].i == i.i;
        if (times > 1)
            return true;
    }
    return false;
}

/* Its first candidate was taken as it is and no other was, or dot.c found out; the next level can leave it out
 * then. Not where it depends on what it wrote, or P-81 goes on from there. */
bool is_settled(const struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot];
    if (!p->settled || !p->skips || fact_of(p, i)->op == OP_WHILE)
        return false;
    return p->slot_kind[slot] == SLOT_FORWARD || (p->slot_kind[slot] == SLOT_BACKWARD && !asks_itself(p, i));
}

static bool visit(struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot], ignored;
    enum slot_kind kind = (enum slot_kind)p->slot_kind[slot];
    if (kind == SLOT_BACKWARD && is_conversion(p, i) && at(p, i)->noperands)
        set_due(p, p->facts[at(p, i)->operands[0].i].backward_slot);
    p->visits++;
    if (p->provided[i.i])
        return p->open[i.i] && visit_open(p, slot);
    clear_due(p, slot);
    bool yes = rule_yes(p, i, kind, &ignored);
    if (!yes) {
        set_calm(p, slot, true);
        put_leaves(p);
        return false;
    }
    p->changed = true;
    bool settled = is_settled(p, slot);
    after(p, i);
    set_calm(p, slot, settled && !p->touched.n);
    return true;
}

bool visit_once(struct pass *p, uint32_t slot)
{
    instr_id i = p->slot_instr[slot], ignored;
    bool yes = (!p->provided[i.i] || p->open[i.i]) && rule_yes(p, i, (enum slot_kind)p->slot_kind[slot], &ignored);
    put_leaves(p);
    return yes;
}

bool run_level(struct pass *p, int stage, int level)
{
    p->level = level;
    p->may = p->o.spmd && level > 0;
    due_start(p, stage);
    for (int sweep = 1;; sweep++) {
        INVARIANT(sweep <= SWEEPS_MAX, "propagation finds no end at level %d", level);
        bool progress = false;
        p->sweeps++;
        for (uint32_t s = next_due(p, 1); s < p->nslots; s = next_due(p, s + 1)) {
            p->time = (struct prop_time){ (uint8_t)stage, (uint16_t)sweep, s, 0 };
            if (visit(p, s))
                progress = true;
            if (!tick_poll(p->tick, "propagate", s, p->nslots))
                return false;
        }
        if (!progress)
            return true;
    }
}
