/* From operands: the entry of the forward rule and the rules of most opcodes (P-95..P-104, P-110,
 * P-111, P-119..P-121). Dot and convolution: dot.c; gather and scatter: index.c. */
#include <string.h>

#include "propagate/internal.h"

typedef bool (*forward_fn)(struct pass *p, instr_id i);

bool can_propagate(const struct pass *p, instr_id i)
{
    return p->facts[i.i].level <= p->level;
}

static bool sole(const struct pass *p, instr_id i)
{
    return fact_of(p, i)->sole_user;
}

static bool leaf_manual(const struct pass *p, sharding_id s)
{
    return s.i && sharding_is_manual(p->t, s);
}

static bool is_max_or_none(const struct pass *p, sharding_id s)
{
    return !s.i || sharding_is_max(p->t, s);
}

/* "Array to tuple spread": one leaf for every top-level element. */
static sharding_id spread(struct pass *p, instr_id i, sharding_id s)
{
    if (!s.i || sharding_get(p->t, s)->kind == SHARDING_TUPLE)
        return s;
    return single_sharding(p, i, s);
}

static sharding_id leaf_of(const struct pass *p, instr_id i)
{
    sharding_id s = seen(p, i);
    return s.i && sharding_get(p->t, s)->kind == SHARDING_TUPLE ? none() : s;
}

/* ---- representative operand, P-99 ------------------------------------------------------------------- */

static instr_id most_specific(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    instr_id best = none_instr();
    for (uint32_t k = 0; k < ins->noperands; k++) {
        instr_id x = ins->operands[k];
        if (!seen(p, x).i)
            continue;
        if (!best.i || (sharding_get(p->t, seen(p, x))->nelems == sharding_get(p->t, seen(p, best))->nelems &&
                        sharding_more_specific(p->t, seen(p, x), seen(p, best))))
            best = x;
    }
    return best;
}

static bool by_operand0(enum op_kind op)
{
    return op == OP_MAP || op == OP_PAD || op == OP_POWER || op == OP_OPT_BARRIER ||
           op == OP_RAGGED_ALL_TO_ALL || op == OP_REVERSE || op == OP_SLICE || op == OP_SHIFT_LEFT ||
           op == OP_SHIFT_RIGHT_A || op == OP_SHIFT_RIGHT_L;
}

static bool by_best(const struct pass *p, instr_id i)
{
    enum op_kind op = (enum op_kind)at(p, i)->op;
    if (op == OP_FUSION || op == OP_RNG)
        return false;
    return fact_of(p, i)->family == FAMILY_elementwise || op == OP_CONCATENATE || op == OP_SORT ||
           op == OP_WHILE || op == OP_TOPK || op == OP_ALL_GATHER || op == OP_ALL_REDUCE ||
           op == OP_REDUCE_SCATTER || op == OP_ALL_TO_ALL || op == OP_COLLECTIVE_BROADCAST ||
           op == OP_COLLECTIVE_PERMUTE;
}

instr_id representative_operand(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (!ins->noperands)
        return none_instr();
    if (by_operand0((enum op_kind)ins->op))
        return seen(p, ins->operands[0]).i ? ins->operands[0] : none_instr();
    return by_best(p, i) ? most_specific(p, i) : none_instr();
}

/* ---- rules by family -------------------------------------------------------------------------------- */

static bool forward_elementwise(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool yes = false;
    if (!p->may) {
        instr_id x = representative_operand(p, i);
        return x.i && is_spatial(p, x) && improve(p, i, seen(p, x), x, sole(p, i));
    }
    bool aggressive = ins->noperands == 1 && sole(p, i);
    for (uint32_t k = 0; k < ins->noperands; k++)
        if (is_spatial(p, ins->operands[k]) &&
            improve(p, i, seen(p, ins->operands[k]), ins->operands[k], aggressive))
            yes = true;
    return yes;
}

static bool forward_rng(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool yes = false;
    for (uint32_t k = 0; p->may && k < ins->noperands; k++) {
        instr_id x = ins->operands[k];
        if (is_spatial(p, x) && leaf_of(p, x).i &&
            improve(p, i, sharding_replicate_all_data(p->t, seen(p, x), shape_of(p, i)->rank), x,
                    sole(p, i)))
            yes = true;
    }
    return yes;
}

static bool forward_operand0(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    return is_spatial(p, x) && improve(p, i, seen(p, x), x, sole(p, i));
}

static bool forward_all_reduce(struct pass *p, instr_id i)
{
    instr_id x = representative_operand(p, i);
    return x.i && is_spatial(p, x) && improve(p, i, seen(p, x), x, sole(p, i));
}

/* dimensions={..} of an instruction as ints; false: not as many as wanted (-1: any) or too many. */
static bool dims_of(const struct pass *p, instr_id i, int want, int *out, int *n)
{
    const int64_t *v = instr_ints(at(p, i), ATTR_DIMENSIONS, n);
    if (*n > RANK_MAX || (want >= 0 && *n != want))
        return false;
    for (int k = 0; k < *n; k++)
        out[k] = (int)v[k];
    return true;
}

/* P-125 may have left one of another rank: no candidate where XLA aborts (P-151). */
bool has_rank(const struct pass *p, sharding_id s, int rank)
{
    const struct sharding *g = sharding_get(p->t, s);
    return g->kind != SHARDING_TILED || g->data_rank == rank;
}

sharding_id rest_as_copies(struct pass *p, sharding_id s, int rank)
{
    const struct sharding *g = sharding_get(p->t, s);
    if (g->kind != SHARDING_TILED || g->ntypes || g->lastrep || g->data_rank != rank + 1)
        return s;
    return sharding_partial(p->t, g->tiles);
}

static bool forward_transpose(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    int perm[RANK_MAX], n;
    struct rule_slot *slot;
    if (!is_spatial(p, x))
        return false;
    uint32_t class = rule_class(p, i);
    if (rule_asked(p, class, ASK_TRANSPOSE, seen(p, x), none(), &slot))
        return improve(p, i, slot->answer, x, sole(p, i));
    if (!dims_of(p, i, shape_of(p, i)->rank, perm, &n) || !has_rank(p, seen(p, x), n))
        return false;
    return improve(p, i, rule_keep(slot, class, sharding_transpose(p->t, seen(p, x), perm)), x, sole(p, i));
}

static bool forward_reverse(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    int dims[RANK_MAX], n;
    if (!is_spatial(p, x) || !dims_of(p, i, -1, dims, &n))
        return false;
    return improve(p, i, sharding_reverse(p->t, seen(p, x), n, dims), x, sole(p, i));
}

static bool forward_reshape(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    if (!is_spatial(p, x))
        return false;
    const struct shape *from = shape_of(p, x), *to = shape_of(p, i);
    sharding_id s = rest_as_copies(p, seen(p, x), from->rank);
    sharding_id c = sharding_through_reshape(p->t, from->rank, from->dims, to->rank, to->dims, s);
    return improve(p, i, c, x, sole(p, i));
}

static bool dilated(const struct instr *ins, bool window_too)
{
    const struct attr *a = instr_attr(ins, ATTR_WINDOW);
    for (int d = 0; a && d < a->window->rank; d++)
        if (a->window->dims[d].base_dilation > 1 ||
            (window_too && a->window->dims[d].window_dilation > 1))
            return true;
    return false;
}

static bool forward_select_and_scatter(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    return is_spatial(p, x) && !dilated(at(p, i), false) && improve(p, i, seen(p, x), x, sole(p, i));
}

static bool forward_reduce_window(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool yes = false;
    if (dilated(ins, true))
        return false;
    for (uint32_t k = 0; k < ins->noperands / 2; k++) {
        instr_id x = ins->operands[k];
        if (is_spatial(p, x) && improve(p, i, spread(p, i, seen(p, x)), x, sole(p, i)))
            yes = true;
    }
    return yes;
}

static bool forward_get_tuple_element(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    instr_id x = ins->operands[0];
    if (!is_spatial(p, x))
        return false;
    sharding_id s = sub_sharding(p, x, seen(p, x), instr_int(ins, ATTR_INDEX, 0));
    if (!s.i)
        return false;
    if (sharding_is_manual(p->t, s)) { /* so is the zero-element tuple of (), P-5 */
        put_sharding(p, i, s, x);
        return true;
    }
    return improve(p, i, s, x, sole(p, i));
}

/* P-101: leaf by leaf the most specific; no merging. */
static bool forward_tuple(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    const struct shape *shape = shape_of(p, i);
    bool any = false, yes = false, had = seen(p, i).i != 0;
    instr_id first = none_instr();
    for (uint32_t k = 0; k < ins->noperands && !any; k++)
        any = is_spatial(p, ins->operands[k]);
    if (!any)
        return false;
    for (uint32_t k = 0; k < ins->noperands && !first.i; k++)
        if (seen(p, ins->operands[k]).i)
            first = ins->operands[k];
    if (!had) {
        put_sharding(p, i, single_sharding(p, i, sharding_replicated(p->t)), first);
        yes = true;
    }
    if (sharding_get(p->t, seen(p, i))->nelems < shape->nleaves)
        return yes;
    int64_t leaf = 0;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        instr_id x = ins->operands[k];
        int64_t leaves = shape_of(p, x)->nleaves;
        if (seen(p, x).i) {
            const struct sharding *s = sharding_get(p->t, seen(p, x));
            bool tuple = s->kind == SHARDING_TUPLE;
            for (int64_t j = 0; j < leaves; j++) {
                if (tuple && j >= s->nelems)
                    break;
                sharding_id mine = leaf_seen(p, i, leaf + j);
                sharding_id theirs = tuple ? s->elems[j] : seen(p, x);
                bool take = theirs.i != mine.i &&
                            (!had || sharding_more_specific(p->t, theirs, mine));
                if (p->sink)
                    offer_note(p, x, theirs, take, take ? "more specific leaf (P-101)" : "leaf no more specific (P-101)");
                if (take) {
                    put_leaf_sharding(p, i, leaf + j, theirs, x);
                    yes = true;
                }
            }
        }
        leaf += leaves;
    }
    put_leaves(p);
    return yes;
}

static bool tiled_on(const struct pass *p, sharding_id s, int n, const int *dims)
{
    for (int k = 0; k < n; k++)
        if (sharding_tile(p->t, s, dims[k]) > 1)
            return true;
    return false;
}

/* What an operand's sharding s makes of each result. */
static sharding_id reduced(struct pass *p, instr_id i, sharding_id s)
{
    struct rule_slot *slot;
    uint32_t class = rule_class(p, i);
    int dims[RANK_MAX], n;
    if (rule_asked(p, class, ASK_REDUCE, s, none(), &slot))
        return slot->answer;
    if (!dims_of(p, i, -1, dims, &n))
        return none();
    if (sharding_is_replicated(p->t, s) || (!p->o.spmd && tiled_on(p, s, n, dims)))
        return rule_keep(slot, class, sharding_replicate_all_data(p->t, s, -1));
    sharding_id c = sharding_replicate_dims(p->t, s, n, dims);
    if (!sharding_is_replicated(p->t, c))
        c = sharding_remove_dims(p->t, c, n, dims);
    return rule_keep(slot, class, c);
}

static bool forward_reduce(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool yes = false;
    for (uint32_t k = 0; k < ins->noperands / 2; k++) {
        instr_id x = ins->operands[k];
        sharding_id s = leaf_of(p, x);
        if (!s.i || !is_spatial(p, x))
            continue;
        if (sharding_is_manual(p->t, s)) {
            if (improve_sub(p, i, s, k, x, sole(p, i)))
                yes = true;
            continue;
        }
        if (improve(p, i, spread(p, i, reduced(p, i, s)), x, sole(p, i)))
            yes = true;
    }
    return yes;
}

static bool forward_broadcast(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    int map[RANK_MAX], n;
    struct rule_slot *slot;
    if (p->level < 3 || !is_spatial(p, x) || sharding_is_replicated(p->t, seen(p, x)))
        return false;
    uint32_t class = rule_class(p, i);
    if (rule_asked(p, class, ASK_BROADCAST, seen(p, x), none(), &slot))
        return improve(p, i, slot->answer, x, sole(p, i));
    if (!dims_of(p, i, shape_of(p, x)->rank, map, &n))
        return false;
    sharding_id c = sharding_broadcast(p->t, seen(p, x), n, map, shape_of(p, i)->rank);
    return improve(p, i, rule_keep(slot, class, c), x, sole(p, i));
}

/* The one pattern in which a concatenation passes at level 0: stacked parameters. */
static bool stacks_parameters(const struct pass *p, instr_id i, int dim)
{
    const struct instr *ins = at(p, i);
    for (uint32_t k = 0; k < ins->noperands; k++) {
        instr_id x = ins->operands[k];
        if (!is_spatial(p, x) || at(p, x)->op != OP_RESHAPE ||
            sharding_num_tiles(p->t, seen(p, x)) <= 1 || sharding_tile(p->t, seen(p, x), dim) != 1)
            return false;
        uint16_t from = at(p, at(p, x)->operands[0])->op;
        if (from != OP_PARAMETER && from != OP_GET_TUPLE_ELEMENT)
            return false;
    }
    return true;
}

static bool forward_concatenate(struct pass *p, instr_id i)
{
    instr_id x = representative_operand(p, i);
    int dims[RANK_MAX], n;
    if (!x.i || !is_spatial(p, x) || !dims_of(p, i, 1, dims, &n))
        return false;
    if (p->level == 0 && !stacks_parameters(p, i, dims[0]))
        return false;
    return improve(p, i, seen(p, x), x, sole(p, i));
}

static bool forward_sort(struct pass *p, instr_id i)
{
    instr_id x = representative_operand(p, i);
    int dims[RANK_MAX], n;
    if (!x.i || !is_spatial(p, x) || !leaf_of(p, x).i || !dims_of(p, i, 1, dims, &n))
        return false;
    sharding_id s = seen(p, x);
    const struct shape *shape = shape_of(p, x);
    if (sharding_tile(p->t, s, dims[0]) != 1 &&
        sharding_move_target(p->t, shape->rank, shape->dims, s, dims[0]) < 0)
        return false;
    return improve(p, i, spread(p, i, s), x, sole(p, i));
}

/* Dimensions in which a and b differ. */
static int differing_dims(const struct shape *a, const struct shape *b, int *out)
{
    int n = 0;
    for (int d = 0; d < a->rank && d < b->rank && d < RANK_MAX; d++)
        if (a->dims[d] != b->dims[d])
            out[n++] = d;
    return n;
}

static bool forward_slice_operand(struct pass *p, instr_id i, instr_id x)
{
    int dims[RANK_MAX];
    if (!is_spatial(p, x))
        return false;
    int n = differing_dims(shape_of(p, x), shape_of(p, i), dims);
    return improve(p, i, sharding_replicate_dims(p->t, seen(p, x), n, dims), x, sole(p, i));
}

static bool forward_dynamic_slice(struct pass *p, instr_id i)
{
    return forward_slice_operand(p, i, at(p, i)->operands[0]);
}

static bool forward_dynamic_update_slice(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool yes = forward_slice_operand(p, i, ins->operands[1]);
    instr_id x = ins->operands[0];
    if (is_spatial(p, x) && improve(p, i, seen(p, x), x, false))
        yes = true;
    return yes;
}

static bool forward_while(struct pass *p, instr_id i)
{
    instr_id x = at(p, i)->operands[0];
    sharding_id cand = seen(p, x), old = seen(p, i);
    if (!cand.i)
        return false;
    if (old.i && cand.i != old.i &&
        sharding_get(p->t, cand)->nelems == sharding_get(p->t, old)->nelems)
        (void)sharding_merge(p->t, old, &cand, p->may);
    return improve(p, i, cand, x, false);
}

static bool forward_parameter(struct pass *p, instr_id i)
{
    instr_id x = caller_operand(p, i);
    return x.i && seen(p, x).i && improve(p, i, seen(p, x), x, false);
}

static bool forward_custom_call(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (!ins->noperands)
        return false;
    instr_id x = ins->operands[0];
    switch ((enum target)fact_of(p, i)->target) {
    case TARGET_BARRIER_FROM:
    case TARGET_OTHER:
    case TARGET_FULL_TO_SHARD:
    case TARGET_SHARD_TO_FULL:
        return false;
    case TARGET_BARRIER_TO:
        return seen(p, x).i && improve(p, i, seen(p, x), x, sole(p, i));
    case TARGET_SHARDING:
    case TARGET_PASS_THROUGH:
        return is_spatial(p, x) && improve(p, i, seen(p, x), x, sole(p, i));
    }
    return false;
}

static bool forward_never(struct pass *p, instr_id i)
{
    (void)p;
    (void)i;
    return false;
}

#define forward_none              forward_never
#define forward_source            forward_never
#define forward_bitcast_convert   forward_elementwise
#define forward_map               forward_elementwise
#define forward_fusion            forward_elementwise
#define forward_rng_bit_generator forward_never
#define forward_conditional       forward_never
#define forward_call              forward_never
#define forward_async             forward_never

static const forward_fn rules[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)               \
    [OP_##id] = forward_##propagate,
#include "ir/ops.def"
};

/* ---- entry ------------------------------------------------------------------------------------------- */

/* P-97: next to one replicated operand an op without a rule becomes replicated. */
static bool forward_unsupported(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (is_tuple(p, i) || !ins->noperands || fact_of(p, i)->root)
        return false;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        sharding_id s = leaf_of(p, ins->operands[k]);
        int64_t device;
        if (!s.i || !sharding_is_max(p->t, s) || sharding_unique_device(p->t, s, &device))
            continue;
        return !instr_has_side_effect(p->m, i) && improve(p, i, s, ins->operands[k], false);
    }
    return false;
}

enum verdict { GO_ON, STOP_NO, STOP_YES };

/* P-96. */
static enum verdict forward_manual(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (!p->any_manual || !fact_of(p, i)->manual_ok || !is_max_or_none(p, seen(p, i)))
        return GO_ON;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        if (!leaf_manual(p, seen(p, ins->operands[k])))
            continue;
        if (fact_of(p, i)->target == TARGET_SHARD_TO_FULL)
            return STOP_NO;
        if (p->level == 0 && (ins->op == OP_CONCATENATE || ins->op == OP_DYNAMIC_SLICE))
            return STOP_NO;
        p->rule = RULE_MANUAL;
        sharding_id m = single_sharding(p, i, sharding_manual(p->t));
        offer_note(p, ins->operands[k], m, true, "manual operand (P-96)");
        put_sharding(p, i, m, ins->operands[k]);
        p->rule = RULE_FORWARD;
        return STOP_YES;
    }
    return GO_ON;
}

bool visit_forward(struct pass *p, instr_id i)
{
    if (!can_propagate(p, i) || leaf_manual(p, seen(p, i)))
        return false;
    p->asked += at(p, i)->noperands;
    enum verdict v = forward_manual(p, i);
    if (v != GO_ON)
        return v == STOP_YES;
    if (!fact_of(p, i)->forward_ok)
        return forward_unsupported(p, i);
    return rules[p->facts[i.i].op](p, i);
}
