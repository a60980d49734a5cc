/* From users: what a user's sharding asks of its operand (P-122..P-131). Dot and convolution:
 * dot.c; gather and scatter: index.c. */
#include <string.h>

#include "propagate/internal.h"

typedef sharding_id (*user_fn)(struct pass *p, instr_id i, instr_id u);

static sharding_id user_same_shape(struct pass *p, instr_id i, instr_id u)
{
    return same_dims(p, i, u) ? seen(p, u) : none();
}

static bool int_dims(const struct pass *p, instr_id u, int *out, int *n)
{
    const int64_t *v = instr_ints(at(p, u), ATTR_DIMENSIONS, n);
    if (*n > RANK_MAX)
        return false;
    for (int k = 0; k < *n; k++)
        out[k] = (int)v[k];
    return true;
}

static sharding_id user_broadcast(struct pass *p, instr_id i, instr_id u)
{
    (void)i;
    sharding_id s = seen(p, u);
    int map[RANK_MAX], n, added[RANK_MAX], m = 0;
    bool tiled = false;
    struct rule_slot *slot;
    if (sharding_is_replicated(p->t, s) || sharding_is_manual(p->t, s))
        return s;
    uint32_t class = rule_class(p, u);
    if (rule_asked(p, class, ASK_BROADCAST_USER, s, none(), &slot))
        return slot->answer;
    if (!int_dims(p, u, map, &n))
        return none();
    for (int d = 0; d < shape_of(p, u)->rank && d < RANK_MAX; d++) {
        bool mapped = false;
        for (int k = 0; k < n; k++)
            mapped = mapped || map[k] == d;
        if (mapped)
            continue;
        added[m++] = d;
        tiled = tiled || sharding_tile(p->t, s, d) > 1;
    }
    if (!p->o.spmd && tiled)
        return rule_keep(slot, class, none());
    s = sharding_replicate_dims(p->t, s, m, added);
    return rule_keep(slot, class, sharding_remove_dims(p->t, s, m, added));
}

/* P-125, not spmd: the rows of devices that hold operand k. */
static sharding_id concatenate_rows(struct pass *p, instr_id i, instr_id u, int dim)
{
    const struct sharding *s = sharding_get(p->t, seen(p, u));
    if (s->kind != SHARDING_TILED)
        return seen(p, u);
    int64_t off = 0, tile = s->tiles.dims[dim];
    int k = operand_position(p, u, i);
    for (int j = 0; j < k; j++)
        off += shape_of(p, at(p, u)->operands[j])->dims[dim];
    int64_t row = max_i64(1, ceil_div(shape_of(p, u)->dims[dim], tile));
    int64_t from = off / row, to = ceil_div(off + shape_of(p, i)->dims[dim], row);
    int64_t dims[RANK_MAX], index[RANK_MAX], total = 1;
    if (s->tiles.naxes > RANK_MAX || to > tile || from >= to)
        return none();
    for (int a = 0; a < s->tiles.naxes; a++) {
        dims[a] = a == dim ? to - from : s->tiles.dims[a];
        if (!mul_ok(total, dims[a], &total))
            return none();
    }
    int64_t *list = ARENA_ARRAY(p->tmp, int64_t, total);
    for (int64_t cell = 0; cell < total; cell++) {
        int64_t left = cell;
        for (int a = s->tiles.naxes - 1; a >= 0; a--) {
            index[a] = left % dims[a] + (a == dim ? from : 0);
            left /= dims[a];
        }
        list[cell] = tiling_device(p->t, s->tiles, index);
    }
    if (total == 1)
        return sharding_maximal(p->t, list[0]);
    return sharding_plain(p->t, tiling_make(p->t, s->tiles.naxes, dims,
                                            order_from_list(p->t, total, list)));
}

static sharding_id user_concatenate(struct pass *p, instr_id i, instr_id u)
{
    sharding_id s = seen(p, u);
    int dims[RANK_MAX], n;
    if (p->level == 0 || !int_dims(p, u, dims, &n) || n != 1)
        return none();
    if (sharding_is_replicated(p->t, s) || sharding_tile(p->t, s, dims[0]) == 1 || p->o.spmd)
        return s;
    return concatenate_rows(p, i, u, dims[0]);
}

static sharding_id replicate_differing(struct pass *p, sharding_id s, const struct shape *a,
                                       const struct shape *b)
{
    int dims[RANK_MAX], n = 0;
    for (int d = 0; d < a->rank && d < b->rank && d < RANK_MAX; d++)
        if (a->dims[d] != b->dims[d])
            dims[n++] = d;
    return sharding_replicate_dims(p->t, s, n, dims);
}

static sharding_id user_dynamic_slice(struct pass *p, instr_id i, instr_id u)
{
    sharding_id s = seen(p, u);
    if (p->level == 0)
        return none();
    if (sharding_is_replicated(p->t, s))
        return s;
    if (at(p, u)->operands[0].i != i.i)
        return none();
    return replicate_differing(p, s, shape_of(p, i), shape_of(p, u));
}

static sharding_id user_dynamic_update_slice(struct pass *p, instr_id i, instr_id u)
{
    sharding_id s = seen(p, u);
    if (p->level == 0)
        return none();
    if (sharding_is_replicated(p->t, s) || at(p, u)->operands[0].i == i.i)
        return s;
    if (at(p, u)->operands[1].i != i.i)
        return none();
    return replicate_differing(p, s, shape_of(p, i), shape_of(p, u));
}

static sharding_id element(struct pass *p, instr_id u, int k)
{
    if (!is_tuple(p, u))
        return seen(p, u);
    return sub_sharding(p, u, seen(p, u), k);
}

static sharding_id user_reduce_window(struct pass *p, instr_id i, instr_id u)
{
    int k = operand_position(p, u, i);
    return k < (int)at(p, u)->noperands / 2 ? element(p, u, k) : none();
}

static sharding_id user_select_and_scatter(struct pass *p, instr_id i, instr_id u)
{
    return user_same_shape(p, i, u);
}

static sharding_id user_reshape(struct pass *p, instr_id i, instr_id u)
{
    const struct shape *from = shape_of(p, u), *to = shape_of(p, i);
    sharding_id s = rest_as_copies(p, seen(p, u), from->rank);
    return sharding_through_reshape(p->t, from->rank, from->dims, to->rank, to->dims, s);
}

static sharding_id user_operand0(struct pass *p, instr_id i, instr_id u)
{
    uint16_t op = at(p, u)->op;
    if (op == OP_OPT_BARRIER)
        return user_same_shape(p, i, u);
    return op == OP_SLICE || at(p, u)->operands[0].i == i.i ? seen(p, u) : none();
}

static sharding_id user_transpose(struct pass *p, instr_id i, instr_id u)
{
    (void)i;
    int perm[RANK_MAX], inverse[RANK_MAX], n;
    struct rule_slot *slot;
    uint32_t class = rule_class(p, u);
    if (rule_asked(p, class, ASK_TRANSPOSE_USER, seen(p, u), none(), &slot))
        return slot->answer;
    if (!int_dims(p, u, perm, &n) || n != shape_of(p, u)->rank || !has_rank(p, seen(p, u), n))
        return none();
    for (int k = 0; k < n; k++)
        inverse[perm[k]] = k;
    return rule_keep(slot, class, sharding_transpose(p->t, seen(p, u), inverse));
}

static sharding_id user_reverse(struct pass *p, instr_id i, instr_id u)
{
    (void)i;
    int dims[RANK_MAX], n;
    return int_dims(p, u, dims, &n) ? sharding_reverse(p->t, seen(p, u), n, dims) : none();
}

/* Positions at which a tuple holds an operand, for tuples of thousands: the first by (tuple, operand),
 * each further one behind the one before. next[k] == 0: no more. */
static const uint32_t *tuple_positions(struct pass *p, instr_id u)
{
    if (p->index_facts[u.i])
        return p->index_facts[u.i];
    const struct instr *ins = at(p, u);
    uint32_t *next = ARENA_ARRAY(p->arena, uint32_t, ins->noperands);
    if (!p->first_position.arena)
        map_init(&p->first_position, p->arena);
    for (uint32_t k = ins->noperands; k > 0; k--) {
        uint64_t key = (uint64_t)u.i << 32 | ins->operands[k - 1].i, first = 0;
        if (map_get(&p->first_position, key, &first))
            next[k - 1] = (uint32_t)first;
        map_put(&p->first_position, key, k - 1);
    }
    p->index_facts[u.i] = next;
    return next;
}

int64_t tuple_position(struct pass *p, instr_id tuple, instr_id operand)
{
    const uint32_t *next = tuple_positions(p, tuple);
    uint64_t k = 0;
    if (!map_get(&p->first_position, (uint64_t)tuple.i << 32 | operand.i, &k) || next[k])
        return -1;
    return (int64_t)k;
}

static sharding_id user_tuple(struct pass *p, instr_id i, instr_id u)
{
    const uint32_t *next = tuple_positions(p, u);
    sharding_id best = none();
    uint64_t k = 0;
    bool more = map_get(&p->first_position, (uint64_t)u.i << 32 | i.i, &k);
    while (more) {
        sharding_id s = sub_sharding(p, u, seen(p, u), (int64_t)k);
        if (!best.i || (s.i && s.i != best.i && sharding_more_specific(p->t, s, best)))
            best = s;
        k = next[k];
        more = k != 0;
    }
    return best;
}

/* The tuple to put a get-tuple-element's sharding into, P-127: i's own, or fillers of its kind. */
static sharding_id tuple_base(struct pass *p, instr_id i, instr_id u)
{
    if (seen(p, i).i)
        return seen(p, i);
    const struct shape *shape = shape_of(p, i);
    sharding_id e = first_leaf(p, seen(p, u));
    if (!e.i)
        return none();
    sharding_id *leaves = ARENA_ARRAY(p->tmp, sharding_id, max_i64(1, shape->nleaves));
    leaves[0] = sharding_replicated(p->t);
    for (int64_t k = 0; k < shape->nleaves; k++) {
        const struct shape *leaf = shape_get(p->ir, shape_leaf(p->ir, at(p, i)->shape, k));
        leaves[k] = sharding_replicate_all_data(p->t, e, leaf->rank);
    }
    return sharding_tuple(p->t, max_i64(1, shape->nleaves), leaves);
}

/* Leaves of i that u takes: [*from, *from + *n); false: u asks nothing. */
static bool taken_leaves(struct pass *p, instr_id i, instr_id u, int64_t *from, int64_t *n)
{
    const struct shape *shape = shape_of(p, i), *leaf = shape_of(p, u);
    int64_t k = instr_int(at(p, u), ATTR_INDEX, 0);
    if (leaf->kind == SHAPE_TOKEN || shape->kind != SHAPE_TUPLE || k >= shape->nelems)
        return false;
    const struct sharding *s = sharding_get(p->t, seen(p, u));
    *from = leaf_offset(p, i, k);
    *n = leaf->kind == SHAPE_TUPLE ? leaf->nleaves : 1;
    if (leaf->kind == SHAPE_TUPLE && (s->nelems == 0 || s->nelems < *n))
        return false;
    return *from + *n <= shape->nleaves;
}

static sharding_id user_leaf(const struct pass *p, instr_id u, int64_t k)
{
    const struct sharding *s = sharding_get(p->t, seen(p, u));
    return s->kind == SHARDING_TUPLE ? s->elems[k] : seen(p, u);
}

static sharding_id user_get_tuple_element(struct pass *p, instr_id i, instr_id u)
{
    int64_t from, n;
    if (!taken_leaves(p, i, u, &from, &n))
        return none();
    sharding_id base = tuple_base(p, i, u);
    if (!base.i)
        return none();
    const struct sharding *b = sharding_get(p->t, base);
    if (from + n > b->nelems)
        return none();
    sharding_id *leaves = ARENA_ARRAY(p->tmp, sharding_id, b->nelems);
    memcpy(leaves, b->elems, (size_t)b->nelems * sizeof *leaves);
    for (int64_t k = 0; k < n; k++)
        leaves[from + k] = user_leaf(p, u, k);
    return sharding_tuple(p->t, b->nelems, leaves);
}

/* A result's tiled sharding t over the dimensions that were reduced. */
static sharding_id unreduced(struct pass *p, instr_id i, instr_id u, sharding_id t)
{
    const struct shape *shape = shape_of(p, i);
    int dims[RANK_MAX], n, map[RANK_MAX], kept = 0;
    struct rule_slot *slot;
    uint32_t class = rule_class(p, u);
    if (rule_asked(p, class, ASK_REDUCE_USER, t, none(), &slot))
        return slot->answer;
    if (!int_dims(p, u, dims, &n))
        return none();
    for (int d = 0; d < shape->rank; d++) {
        bool is_reduced = false;
        for (int k = 0; k < n; k++)
            is_reduced = is_reduced || dims[k] == d;
        if (!is_reduced)
            map[kept++] = d;
    }
    return rule_keep(slot, class, sharding_broadcast(p->t, t, kept, map, shape->rank));
}

/* P-128. */
static sharding_id user_reduce(struct pass *p, instr_id i, instr_id u)
{
    const struct instr *ins = at(p, u);
    const struct shape *shape = shape_of(p, i);
    if (shape->rank == 0 || shape->rank > RANK_MAX)
        return none();
    int position = operand_position(p, u, i);
    sharding_id t = element(p, u, position);
    if (!t.i)
        return none();
    if (sharding_is_tiled(p->t, t))
        t = unreduced(p, i, u, t);
    if (!t.i)
        return none();
    for (uint32_t k = 0; k < ins->noperands / 2; k++) {
        instr_id other = ins->operands[k];
        if (other.i != i.i && seen(p, other).i && !sharding_is_manual(p->t, seen(p, other)) &&
            !sharding_is_manual(p->t, t))
            (void)sharding_merge_compat(p->t, seen(p, other), &t, -1);
    }
    return t;
}

static sharding_id user_sort(struct pass *p, instr_id i, instr_id u)
{
    return element(p, u, operand_position(p, u, i));
}

static sharding_id user_custom_call(struct pass *p, instr_id i, instr_id u)
{
    return user_same_shape(p, i, u);
}

/* Outfeed: its sharding is that of all its operands as a tuple. */
static sharding_id user_none(struct pass *p, instr_id i, instr_id u)
{
    if (at(p, u)->op != OP_OUTFEED)
        return user_same_shape(p, i, u);
    if (at(p, u)->operands[0].i != i.i)
        return none();
    const struct sharding *s = sharding_get(p->t, seen(p, u));
    int64_t n = shape_of(p, i)->nleaves;
    if (s->kind != SHARDING_TUPLE)
        return is_tuple(p, i) ? none() : seen(p, u);
    if (n > s->nelems)
        return none();
    return is_tuple(p, i) ? sharding_tuple(p->t, n, s->elems) : s->elems[0];
}

#define user_source            user_same_shape
#define user_parameter         user_same_shape
#define user_elementwise       user_same_shape
#define user_bitcast_convert   user_same_shape
#define user_map               user_same_shape
#define user_fusion            user_same_shape
#define user_rng               user_same_shape
#define user_rng_bit_generator user_same_shape
#define user_while             user_same_shape
#define user_conditional       user_same_shape
#define user_call              user_same_shape
#define user_all_reduce        user_same_shape
#define user_async             user_same_shape

static const user_fn rules[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)               \
    [OP_##id] = user_##propagate,
#include "ir/ops.def"
};

/* ---- entry ----------------------------------------------------------------------------------------- */

sharding_id from_user(struct pass *p, instr_id i, instr_id u)
{
    if (!can_propagate(p, u) || !is_spatial(p, u))
        return none();
    return rules[p->facts[u.i].op](p, i, u);
}

static bool manual(const struct pass *p, sharding_id s)
{
    return s.i && sharding_is_manual(p->t, s);
}

/* P-122 3. */
static bool backward_manual(struct pass *p, instr_id i)
{
    if (!p->any_manual || (seen(p, i).i && !sharding_is_max(p->t, seen(p, i))))
        return false;
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    for (uint32_t k = 0; k < n; k++) {
        if (!seen(p, u[k]).i || fact_of(p, u[k])->target == TARGET_FULL_TO_SHARD)
            continue;
        sharding_id y = none();
        if (is_array(p, i) && manual(p, seen(p, u[k])))
            y = sharding_manual(p->t);
        else
            y = from_user(p, i, u[k]);
        if (!manual(p, y))
            continue;
        p->rule = RULE_MANUAL;
        offer_note(p, u[k], y, true, "manual user (P-122 3)");
        put_sharding(p, i, y, u[k]);
        p->rule = RULE_BACKWARD;
        return true;
    }
    return false;
}

/* A get-tuple-element asks for its leaves only, so a tuple that has a sharding is changed leaf by
 * leaf: the rest of its candidate is what the tuple has. */
static bool backward_leaf(struct pass *p, instr_id i, instr_id u)
{
    int64_t from, n;
    if (!can_propagate(p, u) || !is_spatial(p, u) || !taken_leaves(p, i, u, &from, &n) || n != 1 ||
        from >= sharding_get(p->t, seen(p, i))->nelems)
        return false;
    sharding_id old = leaf_seen(p, i, from), cand = user_leaf(p, u, 0), answer = none();
    if (cand.i != old.i)
        answer = improved_leaf(p, at(p, u)->shape, cand, old);
    if (p->sink)
        offer_note(p, u, cand, answer.i != 0, answer.i ? "better than what this element had (P-32)"
                                                  : "no better than what this element has (P-32)");
    if (!answer.i)
        return false;
    put_leaf_sharding(p, i, from, answer, u);
    return true;
}

static bool backward_user(struct pass *p, instr_id i, instr_id u)
{
    if (fact_of(p, u)->family == FAMILY_get_tuple_element && seen(p, i).i &&
        sharding_get(p->t, seen(p, i))->kind == SHARDING_TUPLE &&
        shape_of(p, u)->kind != SHAPE_TUPLE && seen(p, u).i &&
        sharding_get(p->t, seen(p, u))->kind != SHARDING_MAXIMAL)
        return backward_leaf(p, i, u);
    put_leaves(p);
    sharding_id y = from_user(p, i, u);
    if (!y.i)
        return false;
    if (fact_of(p, i)->target == TARGET_BARRIER_TO)
        y = sharding_replicated(p->t);
    return improve(p, i, y, u, false);
}

bool visit_backward(struct pass *p, instr_id i)
{
    const struct fact *f = fact_of(p, i);
    bool yes = false;
    if ((f->family == FAMILY_broadcast && p->level < 2) || manual(p, seen(p, i)))
        return false;
    if (backward_manual(p, i))
        return true;
    if (!f->backward_ok)
        return false;
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    p->asked += n;
    for (uint32_t k = 0; k < n; k++) {
        if (fact_of(p, u[k])->family == FAMILY_rng_bit_generator) {
            sharding_id r = single_sharding(p, i, sharding_replicated(p->t));
            offer_note(p, u[k], r, true, "the state of a random generator is replicated (P-122 5)");
            put_sharding(p, i, r, u[k]);
            return true;
        }
        if (backward_user(p, i, u[k]))
            yes = true;
    }
    put_leaves(p);
    return yes;
}
