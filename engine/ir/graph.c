/* Facts about the graph: users, the order of walks, what is elementwise, what has side effects. No
 * recursion anywhere: chains of operands and of calls are as long as the input likes. */
#include "ir/ir.h"

#include <string.h>

/* ---- users ------------------------------------------------------------------------------------- */

/* Visits every (operand, user) pair once: a user that takes an operand twice is counted once, since
 * its mentions come one right behind the other. */
static void each_use(const struct module *m, instr_id *last, uint32_t *n, instr_id *list)
{
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            instr_id user = k->instrs[j];
            const struct instr *in = instr_at(m, user);
            for (uint32_t o = 0; o < in->noperands; o++) {
                uint32_t op = in->operands[o].i;
                if (last[op].i == user.i)
                    continue;
                last[op] = user;
                if (list)
                    list[n[op]] = user;
                n[op]++;
            }
        }
    }
}

void users_make(const struct module *m, struct arena *a, struct users *out)
{
    uint32_t n = module_ninstrs(m);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    instr_id *last = ARENA_ARRAY(&tmp, instr_id, (int64_t)n + 2);
    uint32_t *at = ARENA_ARRAY(&tmp, uint32_t, (int64_t)n + 2);
    each_use(m, last, at, NULL);
    out->start = ARENA_ARRAY(a, uint32_t, (int64_t)n + 2);
    uint32_t total = 0;
    for (uint32_t i = 0; i <= n; i++) {
        out->start[i] = total;
        total += at[i];
        at[i] = out->start[i];
    }
    out->start[n + 1] = total;
    out->list = ARENA_ARRAY(a, instr_id, total);
    memset(last, 0, ((size_t)n + 2) * sizeof *last);
    each_use(m, last, at, out->list);
    arena_close(&tmp);
}

/* ---- post-order, P-55 --------------------------------------------------------------------------- */

enum mark { MARK_NEW, MARK_OPEN, MARK_DONE, MARK_OUTSIDE /* of the computation */ };

/* Members of one channel (P-56) in storage order. before[k]: a member at or before k that may not be
 * done yet, plus one (a forest with path compression), so that walking past done ones is free. */
struct channel {
    VEC(instr_id) members;
    uint32_t *before;
};

/* What lies on the walk's stack: an instruction, or the rest of a channel's members. */
struct todo {
    instr_id instr;
    uint32_t channel; /* 0: an instruction; else index + 1 of a channel */
    uint32_t left;    /* members still to look at, from the last listed down */
};

struct walk {
    const struct module *m;
    struct arena *tmp;
    uint32_t lo, hi; /* ids of the computation's instructions lie in between */
    uint8_t *marks;
    VEC(struct todo) stack;
    VEC(struct channel) channels;
    struct map by_channel; /* channel id -> index + 1 */
    uint32_t *member_at;   /* place in its channel, by id - lo; only when there are channels */
    instr_id *out;
    uint32_t n;
};

static bool has_partners(const struct instr *in)
{
    static const bool is[OP_COUNT] = {
        [OP_ALL_REDUCE] = true,          [OP_ALL_GATHER] = true,
        [OP_ALL_TO_ALL] = true,          [OP_COLLECTIVE_BROADCAST] = true,
        [OP_COLLECTIVE_PERMUTE] = true,  [OP_RAGGED_ALL_TO_ALL] = true,
        [OP_REDUCE_SCATTER] = true,
    };
    return is[in->op] && instr_attr(in, ATTR_CHANNEL_ID);
}

static uint32_t channel_of(const struct walk *w, const struct instr *in)
{
    uint64_t k = 0;
    if (w->channels.n && has_partners(in))
        (void)map_get(&w->by_channel, (uint64_t)instr_int(in, ATTR_CHANNEL_ID, 0), &k);
    return (uint32_t)k;
}

static void join_channel(struct walk *w, instr_id i)
{
    uint64_t key = (uint64_t)instr_int(instr_at(w->m, i), ATTR_CHANNEL_ID, 0), k;
    if (!map_get(&w->by_channel, key, &k)) {
        vec_push(w->tmp, &w->channels, ((struct channel){ .before = NULL }));
        k = (uint64_t)w->channels.n;
        map_put(&w->by_channel, key, k);
    }
    struct channel *ch = &w->channels.v[k - 1];
    w->member_at[i.i - w->lo] = (uint32_t)ch->members.n;
    vec_push(w->tmp, &ch->members, i);
}

static void find_channels(struct walk *w, const struct computation *k)
{
    map_init(&w->by_channel, w->tmp);
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        if (!has_partners(instr_at(w->m, k->instrs[j])))
            continue;
        if (!w->member_at)
            w->member_at = ARENA_ARRAY(w->tmp, uint32_t, (int64_t)w->hi - w->lo + 1);
        join_channel(w, k->instrs[j]);
    }
    for (int64_t c = 0; c < w->channels.n; c++) {
        struct channel *ch = &w->channels.v[c];
        ch->before = ARENA_ARRAY(w->tmp, uint32_t, ch->members.n + 1);
        for (int64_t i = 0; i <= ch->members.n; i++)
            ch->before[i] = (uint32_t)i;
    }
}

/* The number of members up to and including the last one that is not done among the first `left`. */
static uint32_t undone(struct channel *ch, uint32_t left)
{
    uint32_t r = left;
    while (ch->before[r] != r)
        r = ch->before[r];
    while (ch->before[left] != r) {
        uint32_t next = ch->before[left];
        ch->before[left] = r;
        left = next;
    }
    return r;
}

static bool is_undone(const struct walk *w, instr_id i)
{
    return i.i >= w->lo && i.i <= w->hi && w->marks[i.i - w->lo] < MARK_DONE;
}

static void emit(struct walk *w, instr_id i)
{
    w->marks[i.i - w->lo] = MARK_DONE;
    w->out[w->n++] = i;
    uint32_t c = channel_of(w, instr_at(w->m, i));
    if (c) {
        uint32_t at = w->member_at[i.i - w->lo];
        w->channels.v[c - 1].before[at + 1] = at;
    }
}

static void push(struct walk *w, instr_id i)
{
    if (is_undone(w, i))
        vec_push(w->tmp, &w->stack, ((struct todo){ .instr = i }));
}

static void open_instr(struct walk *w, instr_id i, bool start)
{
    w->marks[i.i - w->lo] = MARK_OPEN;
    const struct instr *in = instr_at(w->m, i);
    uint32_t c = start ? 0 : channel_of(w, in);
    if (c) {
        uint32_t n = (uint32_t)w->channels.v[c - 1].members.n;
        vec_push(w->tmp, &w->stack, ((struct todo){ .instr = i, .channel = c, .left = n }));
    }
    for (uint32_t o = in->noperands; o-- > 0;)
        push(w, in->operands[o]);
    const struct attr *ctl = instr_attr(in, ATTR_CONTROL_PREDECESSORS);
    for (uint32_t k = 0; ctl && ctl->type == ATTR_TYPE_INSTRS && k < ctl->n; k++)
        push(w, ctl->instrs[k]);
}

/* One instruction at the top of the stack. true: it stays there, below what it opened. */
static bool look_at(struct walk *w, instr_id i, bool start)
{
    uint8_t mark = w->marks[i.i - w->lo];
    if (mark == MARK_NEW) {
        open_instr(w, i, start);
        return true;
    }
    if (mark == MARK_OPEN)
        emit(w, i);
    return false;
}

/* The partners of an instruction, last listed first, as if each lay on the stack. */
static void next_partner(struct walk *w)
{
    struct todo *top = &w->stack.v[w->stack.n - 1];
    struct channel *ch = &w->channels.v[top->channel - 1];
    uint32_t k = undone(ch, top->left);
    if (k == 0) {
        w->stack.n--;
        return;
    }
    top->left = k - 1;
    instr_id partner = ch->members.v[k - 1];
    if (partner.i != top->instr.i)
        push(w, partner);
}

static void walk_from(struct walk *w, instr_id start)
{
    push(w, start);
    while (w->stack.n) {
        struct todo top = w->stack.v[w->stack.n - 1];
        if (top.channel)
            next_partner(w);
        else if (!look_at(w, top.instr, top.instr.i == start.i && w->stack.n == 1))
            w->stack.n--;
    }
}

static void walk_all(struct walk *w, const struct computation *k, const struct users *u)
{
    for (uint32_t j = 0; j < k->ninstrs; j++)
        w->marks[k->instrs[j].i - w->lo] = MARK_NEW;
    for (uint32_t j = 0; j < k->ninstrs; j++)
        if (users_count(u, k->instrs[j]) == 0)
            walk_from(w, k->instrs[j]);
}

/* JAX since 0.7 gives all collectives of manual computations one channel id, also where one is made from
 * another. XLA's walk takes these for partners all the same, and can then put a value behind its use. */
static bool operands_first(struct walk *w)
{
    bool *met = ARENA_ARRAY(w->tmp, bool, (int64_t)w->hi - w->lo + 1);
    for (uint32_t k = 0; k < w->n; k++) {
        const struct instr *in = instr_at(w->m, w->out[k]);
        for (uint32_t o = 0; o < in->noperands; o++) {
            uint32_t x = in->operands[o].i;
            bool here = x >= w->lo && x <= w->hi && w->marks[x - w->lo] != MARK_OUTSIDE;
            if (here && !met[x - w->lo])
                return false;
        }
        met[w->out[k].i - w->lo] = true;
    }
    return true;
}

static bool has_chains(const struct walk *w)
{
    bool several = false;
    for (int64_t c = 0; c < w->channels.n && !several; c++)
        several = w->channels.v[c].members.n > 1;
    return several;
}

const instr_id *comp_post_order(const struct module *m, comp_id c, const struct users *u,
                                struct arena *a, uint32_t *n)
{
    const struct computation *k = comp_at(m, c);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct walk w = { .m = m, .tmp = &tmp, .lo = UINT32_MAX };
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        w.lo = k->instrs[j].i < w.lo ? k->instrs[j].i : w.lo;
        w.hi = k->instrs[j].i > w.hi ? k->instrs[j].i : w.hi;
    }
    if (k->ninstrs) {
        w.marks = ARENA_ARRAY(&tmp, uint8_t, (int64_t)w.hi - w.lo + 1);
        memset(w.marks, MARK_OUTSIDE, (size_t)(w.hi - w.lo) + 1);
    }
    find_channels(&w, k);
    w.out = ARENA_ARRAY(a, instr_id, k->ninstrs);
    walk_all(&w, k, u);
    if (has_chains(&w) && !operands_first(&w)) {
        w.channels.n = 0; /* without partners */
        w.n = 0;
        walk_all(&w, k, u);
    }
    *n = w.n;
    arena_close(&tmp);
    return w.out;
}

/* ---- order of computations ---------------------------------------------------------------------- */

/* A computation that is being walked, and the place in it to go on at. */
struct call_level {
    comp_id comp;
    uint32_t instr;
    int called;
};

/* The next computation that the one on top calls; none: no more. */
static comp_id next_called(const struct module *m, struct call_level *l)
{
    const struct computation *k = comp_at(m, l->comp);
    for (; l->instr < k->ninstrs; l->instr++, l->called = 0) {
        comp_id few[8];
        int n = instr_called(m, k->instrs[l->instr], few, 8);
        if (l->called >= n)
            continue;
        int at = l->called++;
        if (at < 8)
            return few[at];
        struct arena tmp = { 0 };
        arena_open(&tmp);
        comp_id *all = ARENA_ARRAY(&tmp, comp_id, n);
        (void)instr_called(m, k->instrs[l->instr], all, n);
        comp_id r = all[at];
        arena_close(&tmp);
        return r;
    }
    return (comp_id){ 0 };
}

const comp_id *module_call_order(const struct module *m, bool all, struct arena *a, uint32_t *n)
{
    uint32_t total = module_ncomps(m);
    comp_id *out = ARENA_ARRAY(a, comp_id, total);
    *n = 0;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    bool *seen = ARENA_ARRAY(&tmp, bool, (int64_t)total + 1);
    VEC(struct call_level) stack = { 0 };
    seen[0] = true;
    /* The entry last: it is walked when all others are, as number total + 1. */
    for (uint32_t r = all ? 1 : total + 1; r <= total + 1; r++) {
        comp_id root = { r <= total ? r : m->entry.i };
        if (seen[root.i] || (r <= total && root.i == m->entry.i))
            continue;
        seen[root.i] = true;
        vec_push(&tmp, &stack, ((struct call_level){ .comp = root }));
        while (stack.n) {
            struct call_level *top = &stack.v[stack.n - 1];
            comp_id next = next_called(m, top);
            if (next.i == 0) {
                out[(*n)++] = top->comp;
                stack.n--;
            } else if (!seen[next.i]) {
                seen[next.i] = true;
                vec_push(&tmp, &stack, ((struct call_level){ .comp = next }));
            }
        }
    }
    arena_close(&tmp);
    return out;
}

/* ---- elementwise, P-60 ---------------------------------------------------------------------------*/

/* What an instruction says of itself. Fusions: what their bodies say. */
enum answer { ANSWER_NO, ANSWER_YES, ANSWER_ASK_BODY };

static bool map_is_elementwise(const struct module *m, const struct instr *in)
{
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    if (n == 0)
        return true;
    if (n != shape_get(m->ir, in->shape)->rank)
        return false;
    for (int d = 0; d < n; d++)
        if (dims[d] != d)
            return false;
    return true;
}

static enum answer elementwise_itself(const struct module *m, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    if (op == OP_FUSION)
        return ANSWER_ASK_BODY;
    if (op == OP_BITCAST_CONVERT) {
        const struct shape *from = instr_shape(m, in->operands[0]);
        return dtype_bits(from->dtype) == dtype_bits(shape_get(m->ir, in->shape)->dtype);
    }
    if (op == OP_MAP)
        return map_is_elementwise(m, in);
    return op_is_elementwise_unary(op) || op_is_elementwise_binary(op) || op == OP_SELECT ||
           op == OP_CLAMP || op == OP_CONSTANT || op == OP_RNG;
}

/* Computations to look into, each once. */
struct worklist {
    struct arena tmp;
    VEC(comp_id) todo;
    struct map seen;
};

static void add_called(struct worklist *w, const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    for (int a = 0; a < in->nattrs; a++) {
        const struct attr *at = &in->attrs[a];
        bool one = at->type == ATTR_TYPE_COMP, many = at->type == ATTR_TYPE_COMPS;
        for (uint32_t k = 0; k < (one ? 1 : many ? at->n : 0); k++) {
            comp_id c = one ? at->comp : at->comps[k];
            uint64_t dummy;
            if (!c.i || map_get(&w->seen, c.i, &dummy))
                continue;
            map_put(&w->seen, c.i, 1);
            vec_push(&w->tmp, &w->todo, c);
        }
    }
}

static bool bodies_elementwise(const struct module *m, struct worklist *w)
{
    while (w->todo.n) {
        const struct computation *k = comp_at(m, w->todo.v[--w->todo.n]);
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(m, k->instrs[j]);
            if (in->op == OP_PARAMETER)
                continue;
            enum answer a = elementwise_itself(m, in);
            if (a == ANSWER_NO)
                return false;
            if (a == ANSWER_ASK_BODY)
                add_called(w, m, k->instrs[j]);
        }
    }
    return true;
}

bool instr_is_elementwise(const struct module *m, instr_id i)
{
    enum answer a = elementwise_itself(m, instr_at(m, i));
    if (a != ANSWER_ASK_BODY)
        return a == ANSWER_YES;
    struct worklist w = { .todo = { 0 } };
    arena_open(&w.tmp);
    map_init(&w.seen, &w.tmp);
    add_called(&w, m, i);
    bool yes = bodies_elementwise(m, &w);
    arena_close(&w.tmp);
    return yes;
}

/* ---- side effects, P-61 ------------------------------------------------------------------------- */

static bool always_acts(enum op_kind op)
{
    static const bool is[OP_COUNT] = {
        [OP_SEND] = true,              [OP_SEND_DONE] = true,
        [OP_RECV] = true,              [OP_RECV_DONE] = true,
        [OP_RNG] = true,               [OP_RNG_GET_AND_UPDATE_STATE] = true,
        [OP_INFEED] = true,            [OP_OUTFEED] = true,
        [OP_ALL_REDUCE_START] = true,  [OP_ALL_REDUCE_DONE] = true,
        [OP_ALL_GATHER_START] = true,  [OP_ALL_GATHER_DONE] = true,
        [OP_COLLECTIVE_BROADCAST] = true,
        [OP_COLLECTIVE_PERMUTE_START] = true,
        [OP_COLLECTIVE_PERMUTE_DONE] = true,
    };
    return is[op];
}

/* Text that names more than one partition configures SPMD partitioning; then a channel id is only a
 * number that ties collectives together. */
static bool acts_itself(const struct module *m, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    bool four = op == OP_ALL_GATHER || op == OP_ALL_TO_ALL || op == OP_ALL_REDUCE ||
                op == OP_REDUCE_SCATTER;
    if (four && instr_bool(in, ATTR_CONSTRAIN_LAYOUT, false))
        return true;
    if ((four || op == OP_COLLECTIVE_PERMUTE) && m->num_partitions <= 1 &&
        instr_attr(in, ATTR_CHANNEL_ID))
        return true;
    if (op == OP_CUSTOM_CALL)
        return instr_bool(in, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false);
    return always_acts(op);
}

bool instr_has_side_effect(const struct module *m, instr_id i)
{
    if (acts_itself(m, instr_at(m, i)))
        return true;
    comp_id any[1];
    if (instr_called(m, i, any, 1) == 0)
        return false;
    struct worklist w = { .todo = { 0 } };
    arena_open(&w.tmp);
    map_init(&w.seen, &w.tmp);
    add_called(&w, m, i);
    bool yes = false;
    while (w.todo.n && !yes) {
        const struct computation *k = comp_at(m, w.todo.v[--w.todo.n]);
        for (uint32_t j = 0; j < k->ninstrs && !yes; j++) {
            yes = acts_itself(m, instr_at(m, k->instrs[j]));
            add_called(&w, m, k->instrs[j]);
        }
    }
    arena_close(&w.tmp);
    return yes;
}

/* ---- dot, P-105 --------------------------------------------------------------------------------- */

static int take_dims(const struct instr *in, enum attr_key k, int *out, uint64_t *taken)
{
    int n;
    const int64_t *v = instr_ints(in, k, &n);
    if (n > 32)
        n = 32;
    for (int d = 0; d < n; d++) {
        out[d] = (int)v[d];
        if (v[d] >= 0 && v[d] < 64)
            *taken |= (uint64_t)1 << v[d];
    }
    return n;
}

static int free_dims(int rank, uint64_t taken, int *out)
{
    int n = 0;
    for (int d = 0; d < rank && n < 32; d++)
        if (!(taken >> d & 1))
            out[n++] = d;
    return n;
}

void instr_dot_dims(const struct module *m, instr_id i, struct dot_dims *out)
{
    const struct instr *in = instr_at(m, i);
    uint64_t lhs = 0, rhs = 0;
    out->nbatch = take_dims(in, ATTR_LHS_BATCH, out->lhs_batch, &lhs);
    (void)take_dims(in, ATTR_RHS_BATCH, out->rhs_batch, &rhs);
    out->ncontract = take_dims(in, ATTR_LHS_CONTRACTING, out->lhs_contract, &lhs);
    (void)take_dims(in, ATTR_RHS_CONTRACTING, out->rhs_contract, &rhs);
    out->nlhs_free = free_dims(instr_shape(m, in->operands[0])->rank, lhs, out->lhs_free);
    out->nrhs_free = free_dims(instr_shape(m, in->operands[1])->rank, rhs, out->rhs_free);
}
