/* Shard groups and annotations with open dimensions: P-83, P-132..P-139. */
#include <string.h>

#include "propagate/internal.h"

static uint8_t target_of(const struct pass *p, instr_id i)
{
    return fact_of(p, i)->target;
}

static bool is_manual(const struct pass *p, instr_id i)
{
    return seen(p, i).i && sharding_is_manual(p->t, seen(p, i));
}

/* Whether what is known of groups is about p->now: not while visits run out of order or on trial. */
static bool knows_groups(const struct pass *p)
{
    return p->group_at && !p->replay && !p->increment && !p->trial;
}

/* Takes down whether the members are alike: one of them can then speak for all, and a group of n costs n a
 * sweep, not n^2. */
static void group_look(struct pass *p, struct group *g)
{
    g->alike = true;
    g->value = none();
    g->first = g->second = 0;
    g->replicated = 0;
    p->asked += g->members.n;
    for (int64_t k = 0; k < g->members.n; k++) {
        sharding_id s = seen(p, g->members.v[k]);
        if (!s.i || target_of(p, g->members.v[k]) == TARGET_BARRIER_FROM)
            continue;
        if (sharding_is_replicated(p->t, s)) {
            g->replicated++;
            continue;
        }
        if (g->value.i && s.i != g->value.i)
            g->alike = false;
        g->value = s;
        if (!g->first)
            g->first = (uint32_t)k + 1;
        else if (!g->second)
            g->second = (uint32_t)k + 1;
    }
}

void group_written(struct pass *p, instr_id i, sharding_id before, sharding_id after)
{
    struct group *g = &p->groups.v[p->group_of[i.i] - 1];
    uint32_t k = p->group_at[i.i];
    if (!knows_groups(p) || !g->alike)
        return;
    bool was_replicated = before.i && sharding_is_replicated(p->t, before);
    if (target_of(p, i) == TARGET_BARRIER_FROM)
        return;
    if (!before.i && after.i && sharding_is_replicated(p->t, after)) {
        g->replicated++;
        return;
    }
    if ((before.i && !was_replicated) || !after.i || sharding_is_replicated(p->t, after) || (g->value.i && after.i != g->value.i)) {
        g->alike = false;
        return;
    }
    g->replicated -= was_replicated;
    g->value = after;
    if (!g->first || k < g->first) {
        g->second = g->first;
        g->first = k;
    } else if (!g->second || k < g->second) {
        g->second = k;
    }
}

bool from_group(struct pass *p, instr_id i, struct group *g)
{
    bool yes = false;
    if (!can_propagate(p, i) || is_manual(p, i) || target_of(p, i) == TARGET_BARRIER_TO)
        return false;
    if (knows_groups(p) && !g->alike)
        group_look(p, g);
    if (knows_groups(p) && g->alike && (seen(p, i).i || !g->replicated) && !(g->value.i && sharding_is_manual(p->t, g->value))) {
        /* The same again and again: after the first it is no better than what i has; nor is replicated. */
        uint32_t k = g->first == p->group_at[i.i] ? g->second : g->first;
        p->asked++;
        return k && improve(p, i, g->value, g->members.v[k - 1], false);
    }
    p->asked += g->members.n;
    if (!seen(p, i).i || sharding_is_max(p->t, seen(p, i)))
        for (int64_t k = 0; k < g->members.n; k++) {
            instr_id x = g->members.v[k];
            if (x.i == i.i || !is_manual(p, x))
                continue;
            offer_note(p, x, seen(p, x), true, "manual member of its shard group (P-83)");
            put_sharding(p, i, seen(p, x), x);
            return true;
        }
    for (int64_t k = 0; k < g->members.n; k++) {
        instr_id x = g->members.v[k];
        if (x.i == i.i || target_of(p, x) == TARGET_BARRIER_FROM || !seen(p, x).i)
            continue;
        if (improve(p, i, seen(p, x), x, false))
            yes = true;
    }
    return yes;
}

/* ---- open dimensions ---------------------------------------------------------------------------------- */

static sharding_id keep_open(struct pass *p, sharding_id s, uint64_t open)
{
    int keep[RANK_MAX], n = 0;
    int rank = sharding_data_rank(p->t, s);
    for (int d = 0; d < RANK_MAX && d < rank; d++)
        if (open >> d & 1)
            keep[n++] = d;
    return sharding_replicate_except(p->t, s, n, keep);
}

/* P-134 without partner: what s has on the open dimensions, merged in. */
static bool refine(struct pass *p, instr_id a, sharding_id s, instr_id from)
{
    sharding_id mine = seen(p, a), offered = keep_open(p, s, p->open[a.i]);
    bool yes = mine.i && sharding_merge_compat(p->t, offered, &mine, -1);
    offer_note(p, from, offered, yes, yes ? "refines the open dimensions (P-134)"
                                     : "does not merge into the open dimensions (P-134)");
    if (yes)
        put_sharding(p, a, mine, from);
    return yes;
}

static bool is_conversion_target(uint8_t t)
{
    return t == TARGET_FULL_TO_SHARD || t == TARGET_SHARD_TO_FULL;
}

bool partner_of(const struct pass *p, instr_id a, instr_id *partner)
{
    bool bad;
    *partner = none_instr();
    if (users_count(p->users, a) != 1)
        return true;
    instr_id u = users_of(p->users, a)[0];
    if (!is_conversion_target(target_of(p, u)))
        return true;
    *partner = u;
    return open_dims_of(p, u, &bad) == p->open[a.i] && !bad;
}

/* P-137: shapes of sharding for which a pair can be refined. */
static bool pair_refinable(const struct pass *p, sharding_id automatic, sharding_id man)
{
    const struct sharding *m = sharding_get(p->t, man);
    if (m->kind != SHARDING_TILED || m->ntypes != 2 || !sharding_is_manual_subgroup(p->t, man) ||
        sharding_rep_axis(p->t, man) < 0)
        return false;
    return !sharding_is_manual(p->t, automatic) && !sharding_is_manual_subgroup(p->t, automatic);
}

/* P-138: s is automatic; the manual axis counts as one more data axis behind the others. */
static bool refine_from_automatic(struct pass *p, sharding_id s, uint64_t open, sharding_id *automatic,
                                  sharding_id *man)
{
    sharding_id q = keep_open(p, s, open);
    if (sharding_is_max(p->t, q) || !pair_refinable(p, *automatic, *man))
        return false;
    sharding_id new_auto = *automatic;
    if (!sharding_merge_compat(p->t, q, &new_auto, -1))
        return false;
    const struct sharding *m = sharding_get(p->t, *man);
    int axis = sharding_manual_axis(p->t, *man), rep = sharding_rep_axis(p->t, *man), perm[RANK_MAX];
    int n = m->tiles.naxes;
    if (n > RANK_MAX || axis != m->data_rank || rep < 0)
        return false;
    for (int k = 0; k < n; k++)
        perm[k] = k; /* manual axis in front of the replication axis, which is last */
    sharding_id plain = sharding_partial(p->t, tiling_transpose(p->t, m->tiles, perm));
    sharding_id wide = sharding_insert_dims(p->t, q, sharding_data_rank(p->t, q), 1);
    if (!sharding_merge_compat(p->t, wide, &plain, -1))
        return false;
    const struct sharding *w = sharding_get(p->t, plain);
    if (w->kind != SHARDING_TILED)
        return false;
    enum axis_type types[2] = { AXIS_MANUAL, AXIS_REPLICATED };
    *man = sharding_subgroup(p->t, w->tiles, w->lastrep ? 2 : 1, types);
    *automatic = new_auto;
    return true;
}

/* P-139: s lives behind the conversion, in manual subgroups. */
static bool refine_from_manual(struct pass *p, sharding_id s, uint64_t open, sharding_id *automatic,
                               sharding_id *man)
{
    if (!sharding_is_manual_subgroup(p->t, s))
        return false;
    sharding_id q = keep_open(p, s, open);
    if (sharding_is_max(p->t, q) || !pair_refinable(p, *automatic, *man))
        return false;
    sharding_id new_man = *man;
    if (!sharding_merge_compat(p->t, q, &new_man, -1))
        return false;
    const struct sharding *g = sharding_get(p->t, q);
    enum axis_type types[3] = { AXIS_REPLICATED, AXIS_REPLICATED, AXIS_REPLICATED };
    sharding_id retyped = sharding_subgroup(p->t, g->tiles, g->ntypes, types);
    sharding_id new_auto = *automatic;
    if (!sharding_merge_compat(p->t, retyped, &new_auto, -1))
        return false;
    *man = new_man;
    *automatic = new_auto;
    return true;
}

/* from_automatic: s stands on the side of the full arrays. */
static bool refine_pair(struct pass *p, instr_id a, instr_id partner, sharding_id s, instr_id from,
                        bool from_automatic)
{
    bool to_shard = target_of(p, partner) == TARGET_FULL_TO_SHARD;
    instr_id automatic_at = to_shard ? a : partner, man_at = to_shard ? partner : a;
    sharding_id automatic = seen(p, automatic_at), man = seen(p, man_at);
    if (!automatic.i || !man.i)
        return false;
    bool yes = from_automatic ? refine_from_automatic(p, s, p->open[a.i], &automatic, &man)
                              : refine_from_manual(p, s, p->open[a.i], &automatic, &man);
    offer_note(p, from, s, yes, yes ? "refines both sides of the conversion (P-137)"
                               : "does not refine both sides of the conversion (P-137)");
    if (!yes)
        return false;
    put_sharding(p, automatic_at, automatic, from);
    put_sharding(p, man_at, man, from);
    return true;
}

bool open_from_operand(struct pass *p, instr_id a, instr_id *partner)
{
    instr_id x = at(p, a)->operands[0];
    *partner = none_instr();
    if (!is_spatial(p, x) || !sharding_is_tiled(p->t, seen(p, x)) || !partner_of(p, a, partner))
        return false;
    if (!partner->i)
        return refine(p, a, seen(p, x), x);
    return refine_pair(p, a, *partner, seen(p, x), x,
                       target_of(p, *partner) == TARGET_FULL_TO_SHARD);
}

bool open_from_users(struct pass *p, instr_id a, instr_id *partner)
{
    bool yes = false;
    if (!partner_of(p, a, partner))
        return false;
    instr_id x = partner->i ? *partner : a;
    const instr_id *u = users_of(p->users, x);
    uint32_t n = users_count(p->users, x);
    for (uint32_t k = 0; k < n; k++) {
        if (!seen(p, u[k]).i || !sharding_is_tiled(p->t, seen(p, u[k])))
            continue;
        sharding_id y = from_user(p, x, u[k]);
        if (!y.i || sharding_is_max(p->t, y) || !sharding_is_tiled(p->t, y))
            continue;
        bool one = partner->i ? refine_pair(p, a, *partner, y, u[k],
                                            target_of(p, *partner) == TARGET_SHARD_TO_FULL)
                              : refine(p, a, y, u[k]);
        yes = yes || one;
    }
    return yes;
}

bool open_from_group(struct pass *p, instr_id a, const struct group *g)
{
    bool yes = false;
    if (target_of(p, a) == TARGET_BARRIER_TO)
        return false;
    for (int64_t k = 0; k < g->members.n; k++) {
        instr_id x = g->members.v[k];
        if (x.i == a.i || target_of(p, x) == TARGET_BARRIER_FROM || !is_spatial(p, x) ||
            !sharding_is_tiled(p->t, seen(p, x)))
            continue;
        if (refine(p, a, seen(p, x), x))
            yes = true;
    }
    return yes;
}
