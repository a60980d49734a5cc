/* Which rules fired in a propagation, and which were decisive: read from the history, so that counting costs
 * a run nothing. One row a rule and family of operations; what decides between candidates (P-26..P-35, P-101,
 * P-106) leaves no write of its own and is found by running the visits again. */
#include <string.h>

#include "base/fail.h"
#include "propagate/internal.h"

static const char *const family_names[] = {
    [FAMILY_none] = "no rule",
    [FAMILY_source] = "source",
    [FAMILY_parameter] = "parameter",
    [FAMILY_elementwise] = "elementwise",
    [FAMILY_bitcast_convert] = "bitcast-convert",
    [FAMILY_map] = "map",
    [FAMILY_fusion] = "fusion",
    [FAMILY_rng] = "rng",
    [FAMILY_rng_bit_generator] = "rng-bit-generator",
    [FAMILY_operand0] = "pad, slice, opt-barrier",
    [FAMILY_broadcast] = "broadcast",
    [FAMILY_reshape] = "reshape",
    [FAMILY_transpose] = "transpose",
    [FAMILY_reverse] = "reverse",
    [FAMILY_concatenate] = "concatenate",
    [FAMILY_dynamic_slice] = "dynamic-slice",
    [FAMILY_dynamic_update_slice] = "dynamic-update-slice",
    [FAMILY_gather] = "gather",
    [FAMILY_scatter] = "scatter",
    [FAMILY_dot] = "dot",
    [FAMILY_convolution] = "convolution",
    [FAMILY_reduce] = "reduce",
    [FAMILY_reduce_window] = "reduce-window",
    [FAMILY_select_and_scatter] = "select-and-scatter",
    [FAMILY_sort] = "sort",
    [FAMILY_tuple] = "tuple",
    [FAMILY_get_tuple_element] = "get-tuple-element",
    [FAMILY_while] = "while",
    [FAMILY_conditional] = "conditional",
    [FAMILY_call] = "call",
    [FAMILY_custom_call] = "custom-call",
    [FAMILY_all_reduce] = "collective",
    [FAMILY_async] = "async",
};

/* The rule of a forward write, by the result's family. */
static const char *const forward_rules[COUNTOF(family_names)] = {
    [FAMILY_parameter] = "P-120",   [FAMILY_elementwise] = "P-98",   [FAMILY_rng] = "P-98",
    [FAMILY_operand0] = "P-98",     [FAMILY_broadcast] = "P-103",    [FAMILY_reshape] = "P-98",
    [FAMILY_transpose] = "P-98",    [FAMILY_reverse] = "P-98",       [FAMILY_concatenate] = "P-104",
    [FAMILY_dynamic_slice] = "P-111", [FAMILY_dynamic_update_slice] = "P-111", [FAMILY_gather] = "P-116",
    [FAMILY_scatter] = "P-117",     [FAMILY_dot] = "P-106",          [FAMILY_convolution] = "P-109",
    [FAMILY_reduce] = "P-102",      [FAMILY_reduce_window] = "P-98", [FAMILY_select_and_scatter] = "P-98",
    [FAMILY_sort] = "P-110",        [FAMILY_tuple] = "P-101",        [FAMILY_get_tuple_element] = "P-100",
    [FAMILY_while] = "P-119",       [FAMILY_custom_call] = "P-121",  [FAMILY_all_reduce] = "P-98",
};

/* The rule of a backward write, by the user's family; those left out: P-123, an operand of the user's shape. */
static const char *const backward_rules[COUNTOF(family_names)] = {
    [FAMILY_broadcast] = "P-124", [FAMILY_concatenate] = "P-125", [FAMILY_dot] = "P-126",
    [FAMILY_convolution] = "P-126", [FAMILY_get_tuple_element] = "P-127", [FAMILY_reduce] = "P-128",
    [FAMILY_gather] = "P-129", [FAMILY_scatter] = "P-130", [FAMILY_rng_bit_generator] = "P-122",
};

struct tally {
    struct arena *arena;
    struct map by_name; /* interned name: row + 1 */
    struct intern names;
    VEC(struct prop_rule_count) rows;
};

static struct prop_rule_count *row_of(struct tally *t, const char *name)
{
    uint32_t id = intern_put(&t->names, name, strlen(name));
    uint64_t k = 0;
    if (!map_get(&t->by_name, id, &k)) {
        vec_push(t->arena, &t->rows, ((struct prop_rule_count){ .name = intern_at(&t->names, id)->bytes }));
        k = (uint64_t)t->rows.n;
        map_put(&t->by_name, id, k);
    }
    return &t->rows.v[k - 1];
}

static struct prop_rule_count *family_row(struct tally *t, const char *rule, const char *way, enum family f)
{
    return row_of(t, arena_printf(t->arena, "%s %s %s", rule, way, family_names[f]));
}

/* Rows that are there though nothing fired. */
static void add_rows(struct tally *t)
{
    static const char *const others[] = { "P-69 annotation", "P-69 operand of an annotation", "P-74 related, at the start", "P-76 unknown",
                                          "P-81 related", "P-82 shard_as, at the end", "P-83 shard group", "P-84 barrier",
                                          "P-86 cse only", "P-87 output given back", "P-88 parameter given back", "P-89 not even",
                                          "P-96 manual operand", "P-97 no rule, replicated operand", "P-122 manual user",
                                          "P-134 open, from the operand", "P-135 open, from a user", "P-136 open, from the group",
                                          "P-137 open, both sides of a conversion" };
    for (size_t k = 0; k < COUNTOF(others); k++)
        (void)row_of(t, others[k]);
    for (int f = 0; f < (int)COUNTOF(family_names); f++) {
        if (forward_rules[f])
            (void)family_row(t, forward_rules[f], "forward", (enum family)f);
        if (backward_rules[f] || (f != FAMILY_none && f != FAMILY_source && f != FAMILY_parameter && f != FAMILY_bitcast_convert &&
                                  f != FAMILY_map && f != FAMILY_fusion && f != FAMILY_async))
            (void)family_row(t, backward_rules[f] ? backward_rules[f] : "P-123", "backward", (enum family)f);
    }
}

static struct prop_rule_count *open_row(struct tally *t, const struct pass *p, instr_id i, const struct prop_write *w)
{
    instr_id v = p->slot_instr[w->time.slot], partner = none_instr();
    if (p->open[v.i])
        (void)partner_of(p, v, &partner);
    if (partner.i || v.i != i.i)
        return row_of(t, "P-137 open, both sides of a conversion");
    return row_of(t, w->rule == RULE_OPEN_FORWARD ? "P-134 open, from the operand" : "P-135 open, from a user");
}

static struct prop_rule_count *write_row(struct tally *t, const struct pass *p, instr_id i, const struct prop_write *w)
{
    enum family mine = (enum family)fact_of(p, i)->family;
    bool down = w->cause.i && operand_position(p, w->cause, i) >= 0; /* from a user */
    switch ((enum prop_rule)w->rule) {
    case RULE_NONE:
    case RULE_ANNOTATION:
        return row_of(t, "P-69 annotation");
    case RULE_ANNOTATION_OPERAND:
        return row_of(t, "P-69 operand of an annotation");
    case RULE_FORWARD:
        if (!fact_of(p, i)->forward_ok || !forward_rules[mine])
            return row_of(t, "P-97 no rule, replicated operand");
        return family_row(t, forward_rules[mine], "forward", mine);
    case RULE_BACKWARD:
        mine = w->cause.i ? (enum family)fact_of(p, w->cause)->family : FAMILY_none;
        return family_row(t, backward_rules[mine] ? backward_rules[mine] : "P-123", "backward", mine);
    case RULE_GROUP:
        return row_of(t, is_open(p, i) ? "P-136 open, from the group" : "P-83 shard group");
    case RULE_RELATED:
        return row_of(t, w->time.iteration ? "P-81 related" : "P-74 related, at the start");
    case RULE_OPEN_FORWARD:
    case RULE_OPEN_BACKWARD:
        return open_row(t, p, i, w);
    case RULE_MANUAL:
        return row_of(t, down ? "P-122 manual user" : "P-96 manual operand");
    case RULE_UNKNOWN:
        return row_of(t, "P-76 unknown");
    case RULE_ALIGN:
        return row_of(t, w->time.stage == 4 && fact_of(p, i)->target != TARGET_BARRIER_FROM && p->group_of[i.i] ? "P-82 shard_as, at the end" : "P-84 barrier");
    case RULE_RESTORE:
        return row_of(t, p->o.cse_only ? "P-86 cse only" : at(p, i)->op == OP_PARAMETER ? "P-88 parameter given back" : "P-87 output given back");
    case RULE_EVEN:
        return row_of(t, "P-89 not even");
    }
    return row_of(t, "P-69 annotation");
}

/* Whether what a write left is there at the end: no later one of the whole, or of its leaf. */
static bool survives(struct prop_writes s, uint32_t k)
{
    for (uint32_t j = k + 1; j < s.n; j++)
        if (s.v[j].leaf < 0 || s.v[j].leaf == s.v[k].leaf)
            return false;
    return true;
}

/* What decided between the candidates of a write's visit. */
static void tally_candidates(struct tally *t, const struct propagation *q, instr_id i, const struct prop_write *w, bool last)
{
    struct arena tmp = { 0 };
    struct why_candidate *list;
    arena_open(&tmp);
    int n = why_candidates(q, i, w, &tmp, &list);
    for (int k = 0; k < n; k++) {
        if (!list[k].reason || !strstr(list[k].reason, "P-"))
            continue;
        struct prop_rule_count *row = row_of(t, list[k].reason);
        row->fired++;
        row->decisive += list[k].taken ? last : list[k].offered.i && list[k].offered.i != q->final[i.i].i;
    }
    arena_close(&tmp);
}

int64_t prop_rules(const struct propagation *q, bool candidates, struct arena *a, struct prop_rule_count **out)
{
    struct pass *p = pass_mount(q);
    struct tally t = { .arena = a };
    map_init(&t.by_name, a);
    intern_init(&t.names, a);
    add_rows(&t);
    for (uint32_t i = 1; p->slot_instr && i <= p->n; i++)
        for (uint32_t k = 0; k < prop_writes(q, (instr_id){ i }).n; k++) {
            const struct prop_write *w = &prop_writes(q, (instr_id){ i }).v[k];
            bool last = survives(prop_writes(q, (instr_id){ i }), k);
            struct prop_rule_count *row = write_row(&t, p, (instr_id){ i }, w);
            row->fired++;
            row->decisive += last;
            if (candidates && w->time.iteration > 0 && w->leaf < 0)
                tally_candidates(&t, q, (instr_id){ i }, w, last);
        }
    *out = t.rows.v;
    return t.rows.n;
}
