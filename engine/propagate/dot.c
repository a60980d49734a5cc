/* Dot and convolution, P-105..P-109 and P-126: every dimension has a role, and roles say where tiles
 * go. The look-ahead (P-107) that decides between two operands is here too. */
#include <string.h>

#include "propagate/internal.h"

/* One role: its dimension on both operands and on the result, -1 where it has none. */
struct role {
    int dim[2]; /* lhs, rhs */
    int out;
};

struct roles {
    int nbatch, ncontract, nfree[2], nspatial;
    struct role batch[RANK_MAX], contract[RANK_MAX], free[2][RANK_MAX], spatial[RANK_MAX];
};

static bool roles_of_dot(const struct pass *p, instr_id i, struct roles *r)
{
    const struct instr *ins = at(p, i);
    struct dot_dims d;
    if (shape_of(p, ins->operands[0])->rank > 32 || shape_of(p, ins->operands[1])->rank > 32)
        return false;
    instr_dot_dims(p->m, i, &d);
    *r = (struct roles){ .nbatch = d.nbatch,
                         .ncontract = d.ncontract,
                         .nfree = { d.nlhs_free, d.nrhs_free } };
    int out = 0;
    for (int k = 0; k < d.nbatch; k++)
        r->batch[k] = (struct role){ { d.lhs_batch[k], d.rhs_batch[k] }, out++ };
    for (int k = 0; k < d.ncontract; k++)
        r->contract[k] = (struct role){ { d.lhs_contract[k], d.rhs_contract[k] }, -1 };
    for (int k = 0; k < d.nlhs_free; k++)
        r->free[0][k] = (struct role){ { d.lhs_free[k], -1 }, out++ };
    for (int k = 0; k < d.nrhs_free; k++)
        r->free[1][k] = (struct role){ { -1, d.rhs_free[k] }, out++ };
    return true;
}

/* ---- convolution, P-108 ----------------------------------------------------------------------------- */

static bool is_batch_window(const struct window_dim *w, int64_t n)
{
    bool unpadded = w->size == n && w->base_dilation == n && w->pad_low == 0 && w->pad_high == 0 &&
                    !w->reversal;
    int64_t step = max_i64(1, n - 1);
    if (unpadded && ((w->stride == step && w->window_dilation == 1) ||
                     (w->window_dilation == step && w->stride == 1)))
        return true;
    return w->size == n && w->pad_low == n - 1 && w->pad_high == n - 1 && w->reversal &&
           w->window_dilation == 1 && w->stride == n && w->base_dilation == n - 1;
}

static void add_spatial_role(struct roles *r, const struct window_dim *w, struct role role, int64_t n,
                             int64_t m)
{
    bool flat = w->pad_low == 0 && w->pad_high == 0 && !w->reversal;
    bool unit = w->stride == 1 && w->window_dilation == 1 && w->base_dilation == 1;
    if (is_batch_window(w, n))
        r->batch[r->nbatch++] = role;
    else if (w->size == n && w->base_dilation == 1 && w->window_dilation == 1 && flat)
        r->contract[r->ncontract++] = role;
    else if (unit && m == 1 && w->size == 1 && flat)
        r->free[0][r->nfree[0]++] = role;
    else if (unit && n == 1 && w->size == m && w->pad_low == m - 1 && w->pad_high == m - 1 &&
             w->reversal)
        r->free[1][r->nfree[1]++] = role;
    else
        r->spatial[r->nspatial++] = role;
}

static const struct conv_dims *labels_of(const struct pass *p, instr_id i)
{
    const struct attr *a = instr_attr(at(p, i), ATTR_DIM_LABELS);
    return a ? a->conv : NULL;
}

static bool roles_of_convolution(const struct pass *p, instr_id i, struct roles *r)
{
    const struct instr *ins = at(p, i);
    const struct conv_dims *c = labels_of(p, i);
    const struct attr *w = instr_attr(ins, ATTR_WINDOW);
    const struct shape *lhs = shape_of(p, ins->operands[0]), *rhs = shape_of(p, ins->operands[1]);
    if (!c || (c->nspatial > 0 && (!w || w->window->rank != c->nspatial)))
        return false;
    *r = (struct roles){ .ncontract = 1, .nfree = { 1, 1 } };
    r->free[0][0] = (struct role){ { c->lhs_batch, -1 }, c->out_batch };
    r->free[1][0] = (struct role){ { -1, c->rhs_out }, c->out_feature };
    r->contract[0] = (struct role){ { c->lhs_feature, c->rhs_in }, -1 };
    for (int j = 0; j < c->nspatial; j++)
        add_spatial_role(r, &w->window->dims[j],
                         (struct role){ { c->lhs_spatial[j], c->rhs_spatial[j] }, c->out_spatial[j] },
                         lhs->dims[c->lhs_spatial[j]], rhs->dims[c->rhs_spatial[j]]);
    return true;
}

/* ---- shared: mapping by roles ------------------------------------------------------------------------ */

struct dim_map {
    int to_target[RANK_MAX], to_source[RANK_MAX];
};

static void map_clear(struct dim_map *m)
{
    for (int d = 0; d < RANK_MAX; d++)
        m->to_target[d] = m->to_source[d] = -1;
}

static void map_add(struct dim_map *m, int source, int target)
{
    if (source < 0 || target < 0)
        return;
    m->to_target[source] = target;
    m->to_source[target] = source;
}

/* P-125 without spmd may have left one with more dimensions than its array: those go along at the end. Returns the
 * rank of what comes out. */
static int map_rest(const struct pass *p, struct dim_map *m, sharding_id s, int source, int target)
{
    int more = sharding_data_rank(p->t, s) - source;
    if (!sharding_is_tiled(p->t, s) || source + more > RANK_MAX || target + more > RANK_MAX)
        return target;
    for (int d = 0; d < more; d++)
        map_add(m, source + d, target + d);
    return more > 0 ? target + more : target;
}

/* P-106: operand k's sharding as the result would have it. */
static sharding_id out_from_operand(struct pass *p, const struct roles *r, int k, instr_id i, sharding_id s)
{
    int rank = shape_of(p, i)->rank;
    int dims[2 * RANK_MAX], n = 0;
    struct dim_map m;
    if (sharding_is_max(p->t, s))
        return s;
    map_clear(&m);
    for (int j = 0; j < r->ncontract; j++)
        dims[n++] = r->contract[j].dim[k];
    for (int j = 0; j < r->nfree[1 - k]; j++)
        if (r->free[1 - k][j].dim[k] >= 0)
            dims[n++] = r->free[1 - k][j].dim[k];
    for (int j = 0; j < r->nbatch; j++)
        map_add(&m, r->batch[j].dim[k], r->batch[j].out);
    for (int j = 0; j < r->nfree[k]; j++)
        map_add(&m, r->free[k][j].dim[k], r->free[k][j].out);
    rank = map_rest(p, &m, s, shape_of(p, at(p, i)->operands[k])->rank, rank);
    return sharding_map_dims(p->t, sharding_replicate_dims(p->t, s, n, dims), m.to_target, rank,
                             m.to_source);
}

/* P-126. s: the result's sharding, o: the other operand's where it has a say. */
static sharding_id operand_from_out(struct pass *p, const struct roles *r, int k, instr_id u, sharding_id s, sharding_id o)
{
    int rank = shape_of(p, at(p, u)->operands[k])->rank, dims[2 * RANK_MAX], n = 0;
    struct dim_map m;
    map_clear(&m);
    for (int j = 0; j < r->nfree[1 - k]; j++)
        dims[n++] = r->free[1 - k][j].out;
    for (int j = 0; j < r->ncontract; j++)
        if (r->contract[j].out >= 0)
            dims[n++] = r->contract[j].out;
    for (int j = 0; j < r->nbatch; j++)
        map_add(&m, r->batch[j].out, r->batch[j].dim[k]);
    for (int j = 0; j < r->nfree[k]; j++)
        map_add(&m, r->free[k][j].out, r->free[k][j].dim[k]);
    int more = map_rest(p, &m, s, shape_of(p, u)->rank, rank);
    sharding_id x = sharding_map_dims(p->t, sharding_replicate_dims(p->t, s, n, dims),
                                      m.to_target, more, m.to_source);
    if (!o.i)
        return x;
    n = 0;
    map_clear(&m);
    for (int j = 0; j < r->nfree[1 - k]; j++)
        dims[n++] = r->free[1 - k][j].dim[1 - k];
    for (int j = 0; j < r->nfree[k]; j++)
        if (r->free[k][j].dim[1 - k] >= 0)
            dims[n++] = r->free[k][j].dim[1 - k];
    for (int j = 0; j < r->nbatch; j++)
        map_add(&m, r->batch[j].dim[1 - k], r->batch[j].dim[k]);
    for (int j = 0; j < r->ncontract; j++)
        map_add(&m, r->contract[j].dim[1 - k], r->contract[j].dim[k]);
    more = map_rest(p, &m, o, shape_of(p, at(p, u)->operands[1 - k])->rank, rank);
    sharding_id y = sharding_map_dims(p->t, sharding_replicate_dims(p->t, o, n, dims),
                                      m.to_target, more, m.to_source);
    if (x.i && y.i && sharding_merge(p->t, x, &y, p->may))
        return y;
    return x;
}

/* ---- look-ahead, P-107 ------------------------------------------------------------------------------- */

/* The chain of only users from i to the first that has a sharding; false: there is none. */
static bool chain_from(const struct pass *p, instr_id i, struct id_list *chain)
{
    for (instr_id x = i;; x = users_of(p->users, x)[0]) {
        if (users_count(p->users, x) != 1)
            return false;
        id_list_push(p->tmp, chain, x);
        instr_id u = users_of(p->users, x)[0];
        if (!seen(p, u).i)
            continue;
        id_list_push(p->tmp, chain, u);
        return true;
    }
}

/* What the users would ask of chain.v[0], each on trial: y[k] for chain.v[k], none from where an answer
 * is missing. */
static void ask_chain(struct pass *p, const struct id_list *chain, sharding_id *y)
{
    int level = p->level;
    bool may = p->may;
    sharding_id own = seen(p, chain->v[0]);
    p->level = LEVEL_ANY;
    p->may = p->o.spmd;
    p->trial++;
    for (uint32_t k = chain->n - 1; k > 0; k--) {
        y[k - 1] = from_user(p, chain->v[k - 1], chain->v[k]);
        if (!y[k - 1].i)
            break;
        if (k > 1)
            put_sharding(p, chain->v[k - 1], y[k - 1], chain->v[k]);
    }
    for (uint32_t k = 1; k + 1 < chain->n; k++)
        put_sharding(p, chain->v[k], none(), none_instr());
    put_sharding(p, chain->v[0], own, none_instr());
    p->trial--;
    p->level = level;
    p->may = may;
}

static void note_read(struct pass *p, instr_id x, uint32_t position)
{
    struct look *l = &p->look;
    if (l->stamp[x.i] == l->current && l->position[x.i] >= position)
        return;
    l->stamp[x.i] = l->current;
    l->position[x.i] = position;
}

/* The answer for position k reads what stands at k and behind: a write there makes all up to it old. */
static void keep_chain(struct pass *p, const struct id_list *chain, sharding_id *y)
{
    struct look *l = &p->look;
    if (!l->stamp) {
        l->stamp = ARENA_ARRAY(p->arena, uint32_t, p->n + 1);
        l->position = ARENA_ARRAY(p->arena, uint32_t, p->n + 1);
    }
    l->current++;
    l->chain = *chain;
    l->answers = y;
    l->valid_from = 0;
    for (uint32_t k = 0; k < chain->n; k++) {
        const struct instr *ins = at(p, chain->v[k]);
        for (uint32_t j = 0; k > 0 && j < ins->noperands; j++)
            note_read(p, ins->operands[j], k - 1);
    }
    for (uint32_t k = 0; k < chain->n; k++)
        note_read(p, chain->v[k], k);
}

void look_forget(struct pass *p, instr_id written)
{
    struct look *l = &p->look;
    if (l->stamp && l->stamp[written.i] == l->current && l->valid_from <= l->position[written.i])
        l->valid_from = l->position[written.i] + 1;
}

bool dot_look_ahead(struct pass *p, instr_id i, sharding_id *out)
{
    const struct look *l = &p->look;
    if (!p->replay && !p->increment && l->stamp && l->stamp[i.i] == l->current) {
        uint32_t k = l->position[i.i];
        if (k >= l->valid_from && k + 1 < l->chain.n && l->chain.v[k].i == i.i) {
            *out = l->answers[k];
            return out->i != 0;
        }
    }
    struct id_list chain = { 0 };
    if (!chain_from(p, i, &chain))
        return false;
    sharding_id *y = ARENA_ARRAY(p->tmp, sharding_id, chain.n);
    ask_chain(p, &chain, y);
    if (!p->replay && !p->increment)
        keep_chain(p, &chain, y);
    p->looks += chain.n;
    *out = y[0];
    return out->i != 0;
}

static bool is_subtiling(struct pass *p, instr_id i, sharding_id a, sharding_id b)
{
    struct rule_slot *slot;
    const struct shape *s = shape_of(p, i);
    if (!rule_asked(p, p->facts[i.i].shape.i, ASK_SUBTILING, a, b, &slot))
        rule_keep(slot, p->facts[i.i].shape.i, (sharding_id){ sharding_is_subtiling(p->t, s->rank, s->dims, a, b) });
    return slot->answer.i != 0;
}

/* Which of two good candidates goes first, P-106. */
static int primary(struct pass *p, instr_id i, const sharding_id *better)
{
    const struct instr *ins = at(p, i);
    sharding_id ahead;
    if (dot_look_ahead(p, i, &ahead)) {
        bool a = is_subtiling(p, i, ahead, better[0]);
        bool b = is_subtiling(p, i, ahead, better[1]);
        if (a != b)
            return a ? 0 : 1;
    }
    return shape_of(p, ins->operands[0])->bytes < shape_of(p, ins->operands[1])->bytes ? 1 : 0;
}

/* What operand k asks of a dot's result. */
static sharding_id ask_operand(struct pass *p, instr_id i, int k, sharding_id s)
{
    struct rule_slot *slot;
    struct roles r;
    uint32_t class = rule_class(p, i);
    if (rule_asked(p, class, (uint32_t)(ASK_DOT_OPERAND + k), s, none(), &slot))
        return slot->answer;
    if (!roles_of_dot(p, i, &r))
        return none();
    return rule_keep(slot, class, out_from_operand(p, &r, k, i, s));
}

/* r: NULL for a dot. */
static bool forward_by_roles(struct pass *p, instr_id i, const struct roles *r)
{
    const struct instr *ins = at(p, i);
    sharding_id cand[2] = { { 0 }, { 0 } }, better[2] = { { 0 }, { 0 } };
    for (int k = 0; k < 2; k++) {
        sharding_id s = seen(p, ins->operands[k]);
        if (!is_spatial(p, ins->operands[k]) || sharding_is_manual(p->t, s))
            continue;
        cand[k] = r ? out_from_operand(p, r, k, i, s) : ask_operand(p, i, k, s);
        better[k] = cand[k].i ? improved(p, i, cand[k], seen(p, i), false) : none();
        if (!better[k].i)
            offer_note(p, ins->operands[k], cand[k], false, "no better than what the result has (P-106)");
    }
    if (!better[0].i && !better[1].i)
        return false;
    int first = better[0].i ? 0 : 1;
    if (better[0].i && better[1].i)
        first = primary(p, i, better);
    offer_note(p, ins->operands[first], cand[first], true,
          better[1 - first].i ? "preferred of the two operands (P-106)" : "better than what the result had");
    put_sharding(p, i, better[first], ins->operands[first]);
    if (better[1 - first].i)
        (void)improve(p, i, cand[1 - first], ins->operands[1 - first], false);
    p->settled = p->skips && !improved(p, i, cand[0], seen(p, i), false).i && !improved(p, i, cand[1], seen(p, i), false).i;
    return true;
}

bool forward_dot(struct pass *p, instr_id i)
{
    return at(p, i)->noperands >= 2 && forward_by_roles(p, i, NULL);
}

/* The other operand's sharding where P-126 asks for it. */
static sharding_id other_of(const struct pass *p, instr_id u, int k)
{
    instr_id other = at(p, u)->operands[1 - k];
    return is_spatial(p, other) ? seen(p, other) : none();
}

sharding_id user_dot(struct pass *p, instr_id i, instr_id u)
{
    struct rule_slot *slot;
    struct roles r;
    int k = operand_position(p, u, i);
    if (k > 1 || at(p, u)->noperands < 2)
        return none();
    sharding_id o = other_of(p, u, k);
    uint32_t class = rule_class(p, u);
    if (rule_asked(p, class, (uint32_t)(ASK_DOT_USER + k + (p->may ? 2 : 0)), seen(p, u), o, &slot))
        return slot->answer;
    if (!roles_of_dot(p, u, &r))
        return none();
    return rule_keep(slot, class, operand_from_out(p, &r, k, u, seen(p, u), o));
}

sharding_id user_convolution(struct pass *p, instr_id i, instr_id u)
{
    struct roles r;
    int k = operand_position(p, u, i);
    if (k > 1 || !roles_of_convolution(p, u, &r) || r.nspatial)
        return none();
    return operand_from_out(p, &r, k, u, seen(p, u), other_of(p, u, k));
}

/* ---- convolution with windows, P-109 ------------------------------------------------------------------ */

static int64_t spatial_tiles(const struct pass *p, const struct roles *r, instr_id x, int k)
{
    int64_t n = 1;
    if (!seen(p, x).i)
        return 1;
    for (int j = 0; j < r->nspatial; j++)
        n *= sharding_tile(p->t, seen(p, x), r->spatial[j].dim[k]);
    return n;
}

static bool is_small_kernel(const struct pass *p, instr_id i)
{
    const struct conv_dims *c = labels_of(p, i);
    const struct shape *kernel = shape_of(p, at(p, i)->operands[1]), *out = shape_of(p, i);
    int64_t kernel_product = 1, out_product = 1;
    for (int j = 0; j < c->nspatial; j++) {
        int64_t k = kernel->dims[c->rhs_spatial[j]], o = out->dims[c->out_spatial[j]];
        if (!mul_ok(kernel_product, k, &kernel_product) || !mul_ok(out_product, o, &out_product))
            return false;
        if (k >= o && (j < 2 || k > 3 || kernel_product >= out_product))
            return false;
    }
    return true;
}

bool forward_convolution(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    const struct conv_dims *c = labels_of(p, i);
    struct roles r;
    if (!roles_of_convolution(p, i, &r))
        return false;
    instr_id x = ins->operands[0];
    if (r.nspatial == 0 || (spatial_tiles(p, &r, x, 0) == 1 &&
                            spatial_tiles(p, &r, ins->operands[1], 1) == 1 &&
                            instr_int(ins, ATTR_FEATURE_GROUP_COUNT, 1) == 1 &&
                            instr_int(ins, ATTR_BATCH_GROUP_COUNT, 1) == 1))
        return forward_by_roles(p, i, &r);
    if (!is_spatial(p, x))
        return false;
    sharding_id s = seen(p, x);
    if (sharding_is_max(p->t, s))
        return improve(p, i, s, x, false);
    if (!is_small_kernel(p, i))
        return improve(p, i, sharding_replicate_except(p->t, s, 1, &c->lhs_batch), x, false);
    if (sharding_tile(p->t, s, c->lhs_feature) > 1)
        return false;
    int perm[RANK_MAX];
    perm[c->out_batch] = c->lhs_batch;
    perm[c->out_feature] = c->lhs_feature;
    for (int j = 0; j < c->nspatial; j++)
        perm[c->out_spatial[j]] = c->lhs_spatial[j];
    return improve(p, i, sharding_transpose(p->t, s, perm), x, false);
}
