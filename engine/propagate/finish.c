/* What the pass does around its last sweeps: shard groups and barriers (P-82..P-85), then root and
 * parameters as the options allow (P-86..P-89). */
#include <string.h>

#include "propagate/internal.h"

static bool is_target(const struct pass *p, instr_id i, enum target t)
{
    return fact_of(p, i)->target == t;
}

/* P-82. */
static void align_group(struct pass *p, const struct group *g)
{
    sharding_id dflt = sharding_replicated(p->t), common;
    sharding_id *list = ARENA_ARRAY(p->tmp, sharding_id, g->members.n);
    int64_t n = 0;
    for (int64_t k = 0; k < g->members.n; k++) {
        sharding_id s = seen(p, g->members.v[k]);
        if (!s.i)
            continue;
        list[n++] = s;
        if (sharding_is_manual(p->t, s))
            return; /* P-151 */
        if (!is_target(p, g->members.v[k], TARGET_BARRIER_FROM) &&
            sharding_is_replicated(p->t, dflt))
            dflt = s;
    }
    common = n ? sharding_find_common(p->t, n, list, dflt) : dflt;
    for (int64_t k = 0; k < g->members.n; k++) {
        instr_id i = g->members.v[k];
        if (!is_target(p, i, TARGET_BARRIER_TO) && seen(p, i).i != common.i)
            put_sharding(p, i, common, n ? g->members.v[0] : none_instr());
    }
}

void align_groups(struct pass *p)
{
    p->rule = RULE_ALIGN;
    for (int64_t k = 0; k < p->groups.n; k++)
        if (p->groups.v[k].as)
            align_group(p, &p->groups.v[k]);
}

/* P-84. Whether the number is that of an `as` group is all that is asked: a call of the `like` group of the same
 * number relays, too. */
static void relay(struct pass *p, instr_id i)
{
    sharding_id s = seen(p, i);
    if (!is_target(p, i, TARGET_BARRIER_FROM) || !p->group_of[i.i] || !p->groups.v[p->group_of[i.i] - 1].as || !s.i ||
        !at(p, i)->noperands)
        return;
    instr_id x = at(p, i)->operands[0];
    if (seen(p, x).i && !sharding_is_manual(p->t, s) && !sharding_is_manual(p->t, seen(p, x)))
        (void)sharding_merge_compat(p->t, seen(p, x), &s, sharding_num_tiles(p->t, s));
    if (seen(p, x).i != s.i)
        put_sharding(p, x, s, i);
}

void relay_barriers(struct pass *p)
{
    p->rule = RULE_ALIGN;
    for (uint32_t k = 1; p->barriers && p->groups.n && k <= p->n; k++)
        if (!p->facts[k].gone)
            relay(p, (instr_id){ k });
}

/* P-85. Each in turn, so that one that relays meets what its operand, a barrier too, made way for. */
void remove_barriers(struct pass *p)
{
    bool any = false;
    for (uint32_t k = 1; k <= p->n && !any; k++)
        any = !p->facts[k].gone && (is_target(p, (instr_id){ k }, TARGET_BARRIER_FROM) ||
                                    is_target(p, (instr_id){ k }, TARGET_BARRIER_TO));
    if (!any)
        return;
    p->rule = RULE_ALIGN;
    struct edit e;
    edit_open(&e, p->m, p->g->origin, &p->g->users, p->tmp);
    for (int64_t k = 0; k < p->g->naliases; k++)
        vec_push(p->tmp, &e.aliases, p->g->aliases[k]);
    for (uint32_t k = 1; k <= p->n; k++) {
        instr_id i = { k };
        if (p->facts[k].gone || !at(p, i)->noperands ||
            !(is_target(p, i, TARGET_BARRIER_FROM) || is_target(p, i, TARGET_BARRIER_TO)))
            continue;
        relay(p, i);
        instr_id x = at(p, i)->operands[0];
        if (!seen(p, x).i && seen(p, i).i)
            put_sharding(p, x, seen(p, i), i);
        edit_alias(&e, i, x);
        edit_replace(&e, i, x, false);
    }
    edit_finish(&e, p->g);
}

/* ---- P-86..P-89 --------------------------------------------------------------------------------------- */

/* What is not tiled is even; so is one device's. */
static bool even_leaf(const struct pass *p, sharding_id s, const struct shape *shape)
{
    return shape->kind != SHAPE_ARRAY || sharding_get(p->t, s)->kind != SHARDING_TILED ||
           sharding_evenly(p->t, s, shape->rank, shape->dims);
}

static bool is_even(const struct pass *p, shape_id shape, sharding_id s)
{
    const struct shape *sh = shape_get(p->ir, shape);
    const struct sharding *g = sharding_get(p->t, s);
    if (g->kind == SHARDING_TUPLE) {
        for (int64_t k = 0; k < g->nelems && k < sh->nleaves; k++) {
            shape_id leaf = sh->kind == SHAPE_TUPLE ? shape_leaf(p->ir, shape, k) : shape;
            if (!even_leaf(p, g->elems[k], shape_get(p->ir, leaf)))
                return false;
        }
        return true;
    }
    return even_leaf(p, s, sh);
}

/* Each at a time of its own, so that an increment need not tell again those that it left alone. */
static void restore_cse_of(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (p->facts[i.i].gone || !p->now[i.i].i)
        return;
    if (ins->op == OP_BROADCAST && shape_of(p, ins->operands[0])->rank == 0)
        return;
    p->time = (struct prop_time){ 5, 0, i.i, 0 };
    if (p->now[i.i].i != p->saved_cse[i.i].i)
        put_sharding(p, i, p->saved_cse[i.i], none_instr());
}

static void restore_cse(struct pass *p, const struct id_list *only)
{
    p->rule = RULE_RESTORE;
    for (uint32_t k = 0; only && k < only->n; k++)
        restore_cse_of(p, only->v[k]);
    for (uint32_t k = 1; !only && k <= p->n; k++)
        restore_cse_of(p, (instr_id){ k });
    p->time = (struct prop_time){ 5, 1, 0, 0 };
}

static bool allowed(const bool *list, int64_t n, int64_t k)
{
    return k < n && list[k];
}

/* An increment tells again what it changed only. */
static bool is_told(const struct pass *p, instr_id i)
{
    return !p->told || p->told[i.i];
}

/* P-87: elements that may not change get back what they had. */
static void restore_root(struct pass *p, instr_id root)
{
    if (!p->saved_root.i || !is_told(p, root) || !seen(p, root).i)
        return;
    const struct sharding *saved = sharding_get(p->t, p->saved_root);
    const struct sharding *now = sharding_get(p->t, seen(p, root));
    if (saved->kind != SHARDING_TUPLE || saved->nelems != p->o.nto_output ||
        now->kind != SHARDING_TUPLE)
        return;
    for (int64_t k = 0; k < saved->nelems && k < now->nelems; k++)
        if (!p->o.to_output[k] && !sharding_is_unknown(p->t, saved->elems[k]) &&
            leaf_seen(p, root, k).i != saved->elems[k].i)
            put_leaf_sharding(p, root, k, saved->elems[k], none_instr());
    put_leaves(p);
}

/* P-88. Each parameter at a time of its own, as the others here. */
static void restore_parameters(struct pass *p, const struct computation *entry)
{
    if (p->o.nto_parameters == entry->nparams) {
        for (uint32_t k = 0; k < entry->nparams; k++) {
            sharding_id saved = p->saved_parameter[k];
            if (p->o.to_parameters[k] || !is_told(p, entry->params[k]))
                continue;
            if (saved.i && sharding_is_unknown(p->t, saved))
                saved = none();
            p->time = (struct prop_time){ 5, 1, entry->params[k].i, 0 };
            if (seen(p, entry->params[k]).i != saved.i)
                put_sharding(p, entry->params[k], saved, none_instr());
        }
        return;
    }
    if (entry->nparams != 1 || !p->saved_parameter[0].i || !seen(p, entry->params[0]).i)
        return;
    instr_id x = entry->params[0];
    if (!is_told(p, x))
        return;
    const struct shape *shape = shape_of(p, x);
    const struct sharding *saved = sharding_get(p->t, p->saved_parameter[0]);
    if (shape->kind != SHAPE_TUPLE || shape->nelems != p->o.nto_parameters ||
        saved->kind != SHARDING_TUPLE)
        return;
    for (int64_t k = 0; k < shape->nelems; k++) {
        int64_t from = leaf_offset(p, x, k), n = shape_get(p->ir, shape->elems[k])->nleaves;
        for (int64_t j = from; !p->o.to_parameters[k] && j < from + n && j < saved->nelems; j++)
            if (!sharding_is_unknown(p->t, saved->elems[j]) && leaf_seen(p, x, j).i != saved->elems[j].i)
                put_leaf_sharding(p, x, j, saved->elems[j], none_instr());
    }
    put_leaves(p);
}

/* P-89 element by element: list says which may change. */
static void even_elements(struct pass *p, instr_id i, const bool *list, int64_t n)
{
    const struct shape *shape = shape_of(p, i);
    if (sharding_get(p->t, seen(p, i))->kind != SHARDING_TUPLE)
        return;
    for (int64_t k = 0; k < n && k < shape->nelems; k++) {
        const struct shape *elem = shape_get(p->ir, shape->elems[k]);
        if (!list[k] || elem->kind == SHAPE_TUPLE ||
            k >= sharding_get(p->t, seen(p, i))->nelems)
            continue;
        if (!is_even(p, shape->elems[k], leaf_seen(p, i, k)))
            put_leaf_sharding(p, i, k, sharding_replicated(p->t), none_instr());
    }
    put_leaves(p);
}

static void even(struct pass *p, const struct computation *entry)
{
    p->rule = RULE_EVEN;
    p->time = (struct prop_time){ 5, 2, 0, 0 };
    instr_id root = entry->root;
    if (p->any_out && is_told(p, root) && seen(p, root).i) {
        const struct shape *s = shape_of(p, root);
        if (s->kind == SHAPE_TUPLE && p->o.nto_output == s->nelems)
            even_elements(p, root, p->o.to_output, p->o.nto_output);
        else if (s->kind != SHAPE_TUPLE && !is_even(p, at(p, root)->shape, seen(p, root)))
            put_sharding(p, root, sharding_replicated(p->t), none_instr());
    }
    if (!p->any_parameter)
        return;
    if (p->o.nto_parameters == entry->nparams) {
        for (uint32_t k = 0; k < entry->nparams; k++) {
            instr_id x = entry->params[k];
            p->time = (struct prop_time){ 5, 2, x.i, 0 };
            if (allowed(p->o.to_parameters, p->o.nto_parameters, k) && is_told(p, x) && seen(p, x).i &&
                !is_even(p, at(p, x)->shape, seen(p, x)))
                put_sharding(p, x, single_sharding(p, x, sharding_replicated(p->t)), none_instr());
        }
    } else if (entry->nparams == 1 && is_tuple(p, entry->params[0]) && is_told(p, entry->params[0]) && seen(p, entry->params[0]).i &&
               shape_of(p, entry->params[0])->nelems == p->o.nto_parameters) {
        even_elements(p, entry->params[0], p->o.to_parameters, p->o.nto_parameters);
    }
}

void restore_boundary(struct pass *p, const struct id_list *only)
{
    const struct computation *entry = comp_at(p->m, p->m->entry);
    if (p->o.cse_only)
        restore_cse(p, only);
    p->rule = RULE_RESTORE;
    restore_root(p, entry->root);
    if (p->any_parameter)
        restore_parameters(p, entry);
    even(p, entry);
}
