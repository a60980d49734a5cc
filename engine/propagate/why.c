/* Explaining: the chain of causes from a sharding back to an annotation, and what else was offered.
 * Both only read the write history; candidates are found by running the one visit again. */
#include <string.h>

#include "base/fail.h"
#include "propagate/internal.h"

int time_compare(struct prop_time a, struct prop_time b, bool with_seq)
{
    if (a.stage != b.stage)
        return a.stage < b.stage ? -1 : 1;
    if (a.iteration != b.iteration)
        return a.iteration < b.iteration ? -1 : 1;
    if (a.slot != b.slot)
        return a.slot < b.slot ? -1 : 1;
    if (with_seq && a.seq != b.seq)
        return a.seq < b.seq ? -1 : 1;
    return 0;
}

/* ---- words ------------------------------------------------------------------------------------------- */

static const char *forward_text(enum family f)
{
    switch (f) {
    case FAMILY_elementwise:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
        return "an elementwise result is laid out as its operand (P-98)";
    case FAMILY_rng:
        return "random numbers take their operand's devices, replicated (P-98)";
    case FAMILY_operand0:
    case FAMILY_select_and_scatter:
    case FAMILY_reduce_window:
        return "the result is laid out as the operand that it is cut from (P-98)";
    case FAMILY_broadcast:
        return "a broadcast keeps its operand's split on the dimensions that it has (P-103)";
    case FAMILY_reshape:
        return "the split goes through the reshape where the sizes allow it (P-48)";
    case FAMILY_transpose:
        return "the split moves with the transposed dimensions (P-36)";
    case FAMILY_reverse:
        return "the same tiles, in reversed order (P-43)";
    case FAMILY_concatenate:
        return "a concatenation is laid out as its most specific operand (P-104)";
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
        return "the split stays on the dimensions that are not cut (P-111)";
    case FAMILY_gather:
        return "a gather takes the split of its indices, and of the operand's whole dimensions (P-116)";
    case FAMILY_scatter:
        return "a scatter is laid out as its operand, else by its updates (P-117)";
    case FAMILY_dot:
        return "the result takes the split of the operand's batch and free dimensions (P-106)";
    case FAMILY_convolution:
        return "the result takes the split of the operand's dimensions that it keeps (P-108, P-109)";
    case FAMILY_reduce:
        return "the split stays on the dimensions that are not reduced (P-102)";
    case FAMILY_sort:
        return "a sort is laid out as its most specific operand (P-110)";
    case FAMILY_tuple:
        return "a tuple's element is laid out as the operand (P-101)";
    case FAMILY_get_tuple_element:
        return "an element is laid out as the tuple has it (P-100)";
    case FAMILY_while:
        return "a loop is laid out as what it starts from (P-119)";
    case FAMILY_parameter:
        return "a parameter is laid out as what the caller passes (P-120)";
    case FAMILY_custom_call:
        return "the call hands its operand's layout on (P-121)";
    case FAMILY_all_reduce:
        return "a collective's result is laid out as its operand (P-98)";
    case FAMILY_none:
    case FAMILY_call:
    case FAMILY_async:
    case FAMILY_source:
    case FAMILY_rng_bit_generator:
    case FAMILY_conditional:
        return "an operation without a rule is replicated next to a replicated operand (P-97)";
    }
    return "from an operand";
}

static const char *backward_text(enum family user)
{
    switch (user) {
    case FAMILY_broadcast:
        return "an operand takes the split of the broadcast's dimensions that come from it (P-124)";
    case FAMILY_concatenate:
        return "an operand is laid out as the concatenation that uses it (P-125)";
    case FAMILY_dot:
    case FAMILY_convolution:
        return "an operand takes the result's split, and the other operand's on what they share (P-126)";
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
        return "an operand takes the split of the dimensions that are not cut (P-123)";
    case FAMILY_reshape:
        return "the result's split goes back through the reshape where the sizes allow it (P-48)";
    case FAMILY_transpose:
        return "the result's split moves back with the transposed dimensions (P-36)";
    case FAMILY_reverse:
        return "the same tiles, in reversed order (P-43)";
    case FAMILY_tuple:
        return "an operand is laid out as the tuple's element (P-123)";
    case FAMILY_get_tuple_element:
        return "the tuple's element is laid out as what takes it out (P-127)";
    case FAMILY_reduce:
        return "the operand takes the reduction's split on the dimensions that stay (P-128)";
    case FAMILY_gather:
        return "an operand takes the gather's split on the dimensions that it gives (P-129)";
    case FAMILY_scatter:
        return "an operand takes the scatter's split on the dimensions that they share (P-130)";
    case FAMILY_rng_bit_generator:
        return "the state of a random generator is replicated (P-122)";
    case FAMILY_operand0:
    case FAMILY_reduce_window:
    case FAMILY_sort:
        return "the operand is laid out as the result (P-123)";
    case FAMILY_none:
    case FAMILY_source:
    case FAMILY_parameter:
    case FAMILY_elementwise:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_rng:
    case FAMILY_select_and_scatter:
    case FAMILY_while:
    case FAMILY_conditional:
    case FAMILY_call:
    case FAMILY_custom_call:
    case FAMILY_all_reduce:
    case FAMILY_async:
        return "an operand of the user's shape is laid out as the user (P-123)";
    }
    return "from a user";
}

static const char *rule_text(const struct pass *p, instr_id i, const struct prop_write *w)
{
    switch ((enum prop_rule)w->rule) {
    case RULE_NONE:
        return "";
    case RULE_ANNOTATION:
        return "given by an annotation";
    case RULE_FORWARD:
        return forward_text((enum family)fact_of(p, i)->family);
    case RULE_BACKWARD:
        return backward_text(w->cause.i ? (enum family)fact_of(p, w->cause)->family : FAMILY_none);
    case RULE_GROUP:
        return "members of a shard group are laid out alike (P-83)";
    case RULE_RELATED:
        return "a loop, its body and its condition (a conditional and its branches, a call and its callee) agree (P-81)";
    case RULE_OPEN_FORWARD:
        return "an open dimension takes the operand's split (P-134)";
    case RULE_OPEN_BACKWARD:
        return "an open dimension takes the user's split (P-135)";
    case RULE_MANUAL:
        return "a neighbour of manual values is manual (P-96, P-122)";
    case RULE_UNKNOWN:
        return "an unknown sharding counts as replicated (P-76)";
    case RULE_ALIGN:
        return "members of a shard_as group end up with one sharding (P-82, P-84)";
    case RULE_RESTORE:
        return "propagation may not change it, so it has what it had before (P-87, P-88)";
    case RULE_EVEN:
        return "the tiles would not be even, so it is replicated (P-89)";
    case RULE_ANNOTATION_OPERAND:
        return "the operand of an annotation is laid out as the annotation (P-69)";
    }
    return "";
}

/* ---- which dimension, which leaf ------------------------------------------------------------------------ */

static sharding_id leaf_sharding(const struct pass *p, sharding_id s, int64_t leaf)
{
    const struct sharding *g = sharding_get(p->t, s);
    if (!s.i || g->kind != SHARDING_TUPLE)
        return s;
    return leaf >= 0 && leaf < g->nelems ? g->elems[leaf] : none();
}

static int64_t tile_at(const struct pass *p, sharding_id s, int dim)
{
    return s.i && dim >= 0 ? sharding_tile(p->t, s, dim) : 1;
}

/* Did this write bring what is asked for: the leaf, and the split of the dimension? */
static bool concerns(const struct pass *p, const struct prop_write *w, struct spot at_)
{
    if (at_.leaf >= 0 && w->leaf >= 0 && w->leaf != at_.leaf)
        return false;
    sharding_id before = leaf_sharding(p, w->before, at_.leaf);
    sharding_id after = leaf_sharding(p, w->after, at_.leaf);
    if (w->leaf < 0 && at_.leaf >= 0 && before.i == after.i && before.i)
        return false;
    return at_.dim < 0 || tile_at(p, before, at_.dim) != tile_at(p, after, at_.dim);
}

/* The last write before t that concerns the spot. */
static const struct prop_write *last_write(const struct propagation *q, struct spot s,
                                           struct prop_time t)
{
    struct prop_writes list = prop_writes(q, s.i);
    for (uint32_t k = list.n; k > 0; k--) {
        const struct prop_write *w = &list.v[k - 1];
        if (time_compare(w->time, t, true) < 0 && concerns(q->state, w, s))
            return w;
    }
    return NULL;
}

/* Dimension d of a reshape's one side on its other: the one with as many elements in front. */
static int through_sizes(const struct shape *from, const struct shape *to, int d)
{
    int64_t front = 1, f = 1;
    for (int k = 0; k < d; k++)
        front *= from->dims[k];
    for (int k = 0; k < to->rank; k++) {
        if (f >= front && to->dims[k] > 1)
            return f == front ? k : -1;
        f *= to->dims[k];
    }
    return -1;
}

/* The dimension of `whole` (a broadcast's result, a reduction's operand) that position d of `part`
 * is, or back; -1: none. */
static int skip_listed(const struct pass *p, instr_id i, bool listed_map, int d, bool to_whole)
{
    int n, seen_ = 0;
    const int64_t *v = instr_ints(at(p, i), ATTR_DIMENSIONS, &n);
    if (listed_map) {
        if (to_whole)
            return d < n ? (int)v[d] : -1;
        for (int k = 0; k < n; k++)
            if (v[k] == d)
                return k;
        return -1;
    }
    for (int whole = 0; whole < RANK_MAX; whole++) {
        bool reduced = false;
        for (int k = 0; k < n; k++)
            reduced = reduced || v[k] == whole;
        if (to_whole && !reduced && seen_++ == d)
            return whole;
        if (!to_whole && whole == d)
            return reduced ? -1 : seen_;
        if (!to_whole && !reduced)
            seen_++;
    }
    return -1;
}

static int dot_dim(const struct pass *p, instr_id dot, instr_id from, instr_id to, int d)
{
    struct dot_dims r;
    instr_dot_dims(p->m, dot, &r);
    int rank = shape_of(p, dot)->rank, out = -1, k = operand_position(p, dot, from.i == dot.i ? to : from);
    if (k < 0 || k > 1)
        return -1;
    const int *batch = k ? r.rhs_batch : r.lhs_batch, *free = k ? r.rhs_free : r.lhs_free;
    int nfree = k ? r.nrhs_free : r.nlhs_free, base = r.nbatch + (k ? r.nlhs_free : 0);
    for (int o = 0; o < rank; o++) {
        int mine = o < r.nbatch ? batch[o] : o >= base && o < base + nfree ? free[o - base] : -1;
        if (from.i == dot.i && o == d)
            return mine;
        if (from.i != dot.i && mine == d)
            out = o;
    }
    return out;
}

/* Dimension d of `from` on the neighbour `to`; op: the one of the two that computes from the other. */
static int across(const struct pass *p, instr_id op, instr_id from, instr_id to, int d)
{
    int n;
    bool down = from.i == op.i; /* from the result to an operand */
    const struct instr *ins = at(p, op);
    if (d < 0)
        return -1;
    switch ((enum family)fact_of(p, op)->family) {
    case FAMILY_transpose: {
        const int64_t *v = instr_ints(ins, ATTR_DIMENSIONS, &n);
        if (down)
            return d < n ? (int)v[d] : -1;
        for (int k = 0; k < n; k++)
            if (v[k] == d)
                return k;
        return -1;
    }
    case FAMILY_broadcast:
        return skip_listed(p, op, true, d, !down);
    case FAMILY_reduce:
        return skip_listed(p, op, false, d, down);
    case FAMILY_dot:
        return dot_dim(p, op, from, to, d);
    case FAMILY_reshape:
        return through_sizes(shape_of(p, from), shape_of(p, to), d);
    case FAMILY_gather:
    case FAMILY_scatter:
    case FAMILY_convolution:
    case FAMILY_none:
        return -1;
    case FAMILY_source:
    case FAMILY_parameter:
    case FAMILY_elementwise:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_rng:
    case FAMILY_rng_bit_generator:
    case FAMILY_operand0:
    case FAMILY_reverse:
    case FAMILY_concatenate:
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
    case FAMILY_reduce_window:
    case FAMILY_select_and_scatter:
    case FAMILY_sort:
    case FAMILY_tuple:
    case FAMILY_get_tuple_element:
    case FAMILY_while:
    case FAMILY_conditional:
    case FAMILY_call:
    case FAMILY_custom_call:
    case FAMILY_all_reduce:
    case FAMILY_async:
        return d;
    }
    return d;
}

/* The leaf of `to` that leaf of `from` is; op as in across. */
static int64_t leaf_across(struct pass *p, instr_id op, instr_id from, instr_id to, int64_t leaf)
{
    bool down = from.i == op.i;
    uint8_t f = fact_of(p, op)->family;
    int64_t inner = leaf < 0 ? 0 : leaf, base;
    int position = down ? operand_position(p, op, to) : operand_position(p, op, from);
    if (!is_tuple(p, to) && f != FAMILY_tuple)
        return -1;
    if (f == FAMILY_get_tuple_element) {
        base = leaf_offset(p, at(p, op)->operands[0], instr_int(at(p, op), ATTR_INDEX, 0));
        return down ? base + inner : is_tuple(p, to) ? max_i64(0, inner - base) : -1;
    }
    if (f == FAMILY_tuple) {
        if (down) { /* several positions may hold it: the one with this leaf */
            for (uint32_t k = 0; k < at(p, op)->noperands; k++) {
                base = leaf_offset(p, op, k);
                int64_t n = shape_of(p, at(p, op)->operands[k])->nleaves;
                if (at(p, op)->operands[k].i == to.i && inner >= base && inner < base + n)
                    return is_tuple(p, to) ? inner - base : -1;
            }
            return -1;
        }
        return position < 0 ? -1 : leaf_offset(p, op, position) + inner;
    }
    if (leaf >= 0)
        return leaf < shape_of(p, to)->nleaves ? leaf : 0;
    return position < 0 ? 0 : position; /* a variadic result's element of this operand */
}

/* Which of two neighbours computes from the other; none: related through a called computation. */
static instr_id computing(const struct pass *p, instr_id a, instr_id b)
{
    if (operand_position(p, a, b) >= 0)
        return a;
    return operand_position(p, b, a) >= 0 ? b : none_instr();
}

static struct spot follow(struct pass *p, struct spot s, const struct prop_write *w)
{
    struct spot next = { w->cause, s.leaf, s.dim };
    instr_id op = computing(p, s.i, w->cause);
    if (w->rule == RULE_RELATED || !op.i) {
        if (!is_tuple(p, w->cause))
            next.leaf = -1;
        return next;
    }
    next.dim = across(p, op, s.i, w->cause, s.dim);
    next.leaf = leaf_across(p, op, s.i, w->cause, s.leaf);
    return next;
}

const struct prop_write *why_step_back(const struct propagation *q, struct spot *s, struct prop_time *t)
{
    struct pass *p = pass_mount(q);
    if (!s->i.i || s->i.i > p->n)
        return NULL;
    const struct prop_write *w = last_write(q, *s, *t);
    if (!w && s->dim >= 0) { /* the dimension's way is lost: go on with the whole */
        s->dim = -1;
        w = last_write(q, *s, *t);
    }
    if (!w)
        return NULL;
    *t = w->time;
    *s = w->cause.i ? follow(p, *s, w) : (struct spot){ none_instr(), -1, -1 };
    return w;
}

int why_chain(const struct propagation *q, instr_id instr, int dim, struct arena *a,
              struct why_step **out)
{
    VEC(struct why_step) steps = { 0 };
    struct spot s = { instr, -1, dim };
    struct prop_time t = PROP_TIME_END;
    for (instr_id i = s.i;; i = s.i) {
        const struct prop_write *w = why_step_back(q, &s, &t);
        if (!w)
            break;
        struct why_step step = { i, *w, rule_text(pass_mount(q), i, w) };
        vec_push(a, &steps, step);
    }
    *out = steps.v;
    return (int)steps.n;
}

const char *prop_rule_text(const struct propagation *q, instr_id instr, const struct prop_write *w)
{
    return rule_text(pass_mount(q), instr, w);
}

/* ---- candidates ------------------------------------------------------------------------------------------ */

/* x's sharding as a visit at time t sees it. */
static sharding_id value_at(struct pass *p, const struct propagation *q, uint32_t x, struct prop_time t,
                            struct arena *tmp)
{
    sharding_id s = none(), *leaves = NULL;
    int64_t n = 0;
    struct prop_writes list = prop_writes(q, (instr_id){ x });
    for (uint32_t k = 0; k < list.n; k++) {
        const struct prop_write *w = &list.v[k];
        if (time_compare(w->time, t, false) >= 0)
            break;
        if (w->leaf < 0) {
            s = w->after;
            leaves = NULL;
            continue;
        }
        if (!leaves) {
            const struct sharding *g = sharding_get(p->t, s);
            if (g->kind != SHARDING_TUPLE)
                continue;
            leaves = arena_copy(tmp, g->elems, g->nelems, sizeof *leaves);
            n = g->nelems;
        }
        if (w->leaf < n)
            leaves[w->leaf] = w->after;
    }
    return leaves ? sharding_tuple(p->t, n, leaves) : s;
}

static void replay(struct pass *p, uint32_t slot, struct prop_time t)
{
    p->level = t.stage > LEVEL_LAST ? LEVEL_LAST : t.stage;
    p->may = p->o.spmd && p->level > 0;
    p->time = t;
    (void)visit_once(p, slot);
}

/* The table as it was before the replay. */
static void take_back(struct pass *p)
{
    for (int64_t k = p->undo.n; k > 0; k--)
        p->now[p->undo.v[k - 1].instr.i] = p->undo.v[k - 1].write.before;
    p->undo.n = 0;
}

static void end_replay(struct pass *p, sharding_id *live)
{
    take_back(p);
    p->undo.v = NULL;
    p->undo.cap = 0;
    p->now = live;
    p->sink = NULL;
    p->replay = false;
    p->tmp = NULL;
    p->trial = 0;
    p->draft = none_instr();
}

sharding_id prop_wish(const struct propagation *q, instr_id instr, instr_id user)
{
    struct pass *p = pass_mount(q);
    struct arena tmp = { 0 };
    struct fail_frame f;
    if (!instr.i || instr.i > p->n || !user.i || user.i > p->n)
        return none();
    if (!FAIL_ENTER(&f)) {
        end_replay(p, p->now);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    arena_open(&tmp);
    p->tmp = &tmp;
    p->level = LEVEL_LAST;
    p->may = p->o.spmd;
    sharding_id wish = from_user(p, instr, user);
    p->tmp = NULL;
    arena_close(&tmp);
    fail_leave(&f);
    return wish;
}

int why_candidates(const struct propagation *q, instr_id instr, const struct prop_write *write,
                   struct arena *a, struct why_candidate **out)
{
    struct pass *p = pass_mount(q);
    struct sink sink = { .arena = a };
    *out = NULL;
    if (!p->slot_instr || !instr.i || instr.i > p->n)
        return 0;
    bool visited = write && write->time.iteration > 0 && write->time.stage <= 4;
    if (write && (!visited || p->slot_instr[write->time.slot].i != instr.i))
        return 0; /* not written by a visit of its own */
    sharding_id *live = p->now;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        end_replay(p, live);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    if (write)
        p->now = ARENA_ARRAY(&tmp, sharding_id, (int64_t)p->n + 1);
    p->tmp = &tmp;
    p->sink = &sink;
    p->replay = true;
    if (write) {
        for (uint32_t x = 1; x <= p->n; x++)
            p->now[x] = value_at(p, q, x, write->time, &tmp);
        replay(p, write->time.slot, write->time);
    } else { /* what its neighbours would offer at the end */
        struct prop_time end = { 4, UINT16_MAX, 0, 0 };
        if (p->facts[instr.i].forward_slot)
            replay(p, p->facts[instr.i].forward_slot, end);
        take_back(p);
        if (p->facts[instr.i].backward_slot)
            replay(p, p->facts[instr.i].backward_slot, end);
    }
    end_replay(p, live);
    arena_close(&tmp);
    fail_leave(&f);
    *out = sink.list.v;
    return (int)sink.list.n;
}
