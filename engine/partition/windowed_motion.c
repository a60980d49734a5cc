/* What moves into the loop of a windowed product when all around it is there.
 *
 * An operand that is computed from little is computed in the loop, which then carries only what it is
 * computed from (S-191):
 *
 *     y = broadcast(a);  loop(x, y)      becomes      loop(x, a), with y = broadcast(a) in each step
 *
 * A result of which only reductions are wanted is reduced piece by piece, and never there as a whole
 * (S-192):
 *
 *     o = loop: o[piece] = x . y;  r = reduce(f(o))     becomes     r = loop: r += reduce(f(x . y))
 */
#include "partition/full.h"

#include "partition/ops.h"

#include <string.h>

#include "base/fail.h"

enum { RESULT = 2 }; /* element of the state with the result under way */

typedef VEC(instr_id) instr_list;

struct motion {
    struct full f;
    instr_id loop, init, param, root;
    comp_id outside, body, condition;
    const instr_id *order; /* of the computation around */
    uint32_t norder;
    bool *moved;      /* [known + 1] made anew inside */
    bool *grown;      /* [known + 1] moved, and made of the loop's result */
    instr_list small; /* what is carried in for them */
    instr_list reduces;
    instr_id *inside;                   /* [known + 1] what stands for it in the body */
    const struct shape *padded, *whole; /* the result, with the room for whole pieces, and as it is used */
};

static struct instr *at(const struct motion *m, instr_id i)
{
    return full_at(&m->f, i);
}

static const struct shape *shape_of(const struct motion *m, instr_id i)
{
    return node_shape(m->f.s, i);
}

/* ---- what is computed from little ---------------------------------------------------------------- */

static void carry(struct motion *m, instr_id x)
{
    if (at(m, x)->op == OP_CONSTANT) {
        m->moved[x.i] = true;
        return;
    }
    for (int64_t k = 0; k < m->small.n; k++)
        if (m->small.v[k].i == x.i)
            return;
    vec_push(&m->f.tmp, &m->small, x);
}

static bool plain_elementwise(const struct motion *m, instr_id i)
{
    comp_id called[1];
    const struct instr *in = at(m, i);
    if (!instr_is_elementwise(m->f.s->out, i) || in->noperands == 0 ||
        instr_called(m->f.s->out, i, called, 1) > 0 || instr_has_side_effect(m->f.s->out, i))
        return false;
    for (uint32_t k = 0; k < in->noperands; k++)
        if (!shape_same_dims(m->f.s->ir, at(m, in->operands[k])->shape, in->shape))
            return false;
    return true;
}

/* The nodes that make x of broadcasts, constants, iotas and elementwise operations on them, and what
 * they take in. false: something else is among them. */
static bool from_little(struct motion *m, instr_id x)
{
    instr_list stack = { 0 };
    vec_push(&m->f.tmp, &stack, x);
    while (stack.n) {
        instr_id i = stack.v[--stack.n];
        const struct instr *in = at(m, i);
        if (m->moved[i.i])
            continue;
        bool source = in->op == OP_BROADCAST || in->op == OP_CONSTANT || in->op == OP_IOTA;
        if (!source && !plain_elementwise(m, i))
            return false;
        m->moved[i.i] = true;
        for (uint32_t k = 0; k < in->noperands; k++) {
            if (source)
                carry(m, in->operands[k]);
            else
                vec_push(&m->f.tmp, &stack, in->operands[k]);
        }
    }
    return true;
}

/* ---- the loop with another element ---------------------------------------------------------------- */

/* A copy of node i in the body, with its operands' stand-ins. */
static instr_id copied(struct motion *m, instr_id i, shape_id shape)
{
    struct full *f = &m->f;
    const struct instr *in = at(m, i);
    instr_id *ops = ARENA_ARRAY(&f->tmp, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = m->inside[in->operands[k].i];
    f->comp = m->body;
    instr_id y = full_add(f, (enum op_kind)in->op, shape, (int)in->noperands, ops, in->nattrs, in->attrs, i);
    at(m, y)->literal = at(m, i)->literal;
    return y;
}

/* Element e of the state becomes a tuple of `n` values, `start` outside; the tuple inside. */
static instr_id replace_element(struct motion *m, int e, int64_t n, const instr_id *start)
{
    struct spmd *s = m->f.s;
    int64_t all = at(m, m->init)->noperands;
    instr_id *ops = arena_copy(&m->f.tmp, at(m, m->init)->operands, all, sizeof *ops);
    s->comp = m->outside;
    ops[e] = emit_tuple(s, n, start);
    shape_id element = at(m, ops[e])->shape;
    instr_id init = emit_tuple(s, all, ops);
    shape_id state = at(m, init)->shape;
    struct attr *attrs =
        arena_copy(&s->out->arena, at(m, m->loop)->attrs, at(m, m->loop)->nattrs, sizeof *attrs);
    full_become(&m->f, m->loop, OP_WHILE, 1, &init, at(m, m->loop)->nattrs, attrs);
    at(m, m->loop)->shape = state;
    at(m, m->param)->shape = state;
    at(m, comp_at(s->out, m->condition)->params[0])->shape = state;
    s->comp = m->body;
    instr_id inside = emit_gte(s, m->param, e);
    INVARIANT(at(m, inside)->shape.i == element.i, "element %d of a loop's state", e);
    return inside;
}

static void set_next(struct motion *m, int e, instr_id next)
{
    int64_t all = at(m, m->root)->noperands;
    instr_id *ops = arena_copy(&m->f.tmp, at(m, m->root)->operands, all, sizeof *ops);
    ops[e] = next;
    full_become(&m->f, m->root, OP_TUPLE, (int)all, ops, 0, NULL);
    at(m, m->root)->shape = at(m, m->param)->shape;
}

/* What is carried in, at its place inside. */
static void take_in(struct motion *m, instr_id tuple)
{
    m->f.s->comp = m->body;
    for (int64_t k = 0; k < m->small.n; k++)
        m->inside[m->small.v[k].i] = emit_gte(m->f.s, tuple, k);
}

/* The node of the body that takes element e; none: nothing does. */
static instr_id taken(const struct motion *m, int e)
{
    const struct computation *b = comp_at(m->f.s->out, m->body);
    for (uint32_t k = 0; k < b->ninstrs; k++) {
        const struct instr *in = at(m, b->instrs[k]);
        if (in->op == OP_GET_TUPLE_ELEMENT && in->operands[0].i == m->param.i &&
            instr_int(in, ATTR_INDEX, -1) == e)
            return b->instrs[k];
    }
    return (instr_id){ 0 };
}

/* ---- an operand, S-191 ------------------------------------------------------------------------------ */

static bool move_operand(struct motion *m, int e)
{
    struct spmd *s = m->f.s;
    instr_id x = at(m, m->init)->operands[e], old = taken(m, e);
    if (!old.i || at(m, m->root)->operands[e].i != old.i || shape_of(m, x)->rank == 0 || !from_little(m, x))
        return false;
    s->comp = m->outside;
    if (!m->small.n) /* no tuple is empty */
        vec_push(&m->f.tmp, &m->small, emit_const_i(s, DTYPE_U32, 0));
    m->inside = ARENA_ARRAY(&m->f.tmp, instr_id, (int64_t)module_ninstrs(s->out) + 1);
    instr_id tuple = replace_element(m, e, m->small.n, m->small.v);
    take_in(m, tuple);
    for (uint32_t k = 0; k < m->norder; k++)
        if (m->moved[m->order[k].i])
            m->inside[m->order[k].i] = copied(m, m->order[k], at(m, m->order[k])->shape);
    full_become(&m->f, old, OP_COPY, 1, &m->inside[x.i], 0, NULL);
    set_next(m, e, tuple);
    return true;
}

/* ---- users of the result, S-192 ---------------------------------------------------------------------- */

static bool chunked(const struct motion *m, const struct shape *piece, int d)
{
    return piece->dims[d] != m->padded->dims[d];
}

static bool is_reduced(const struct instr *reduce, int d)
{
    int n;
    const int64_t *dims = instr_ints(reduce, ATTR_DIMENSIONS, &n);
    for (int k = 0; k < n; k++)
        if (dims[k] == d)
            return true;
    return false;
}

static enum op_kind reducer_of(const struct motion *m, instr_id i)
{
    const struct instr *in = at(m, i);
    if (in->op != OP_REDUCE || in->noperands != 2)
        return OP_NONE;
    return simple_reducer(m->f.s->out, instr_attr(in, ATTR_TO_APPLY)->comp, 0, 1);
}

/* Sums of few bits in another order are other sums. */
static bool few_bits(const struct motion *m, instr_id i)
{
    enum dtype t = shape_of(m, i)->dtype;
    return dtype_kind(t) == DTYPE_KIND_FLOAT && dtype_bits(t) < 32;
}

/* Takes i, which uses what grew of the result, along. */
static bool take_user(struct motion *m, instr_id i)
{
    const struct instr *in = at(m, i);
    enum op_kind op = reducer_of(m, i);
    instr_id identity;
    m->f.s->comp = m->body;
    if (op != OP_NONE) {
        if (m->grown[in->operands[1].i] || (op == OP_ADD && few_bits(m, i)) ||
            !emit_identity(m->f.s, op, shape_of(m, i)->dtype, &identity))
            return false;
        carry(m, in->operands[1]);
        vec_push(&m->f.tmp, &m->reduces, i);
        return true;
    }
    if (!plain_elementwise(m, i) || comp_at(m->f.s->out, m->outside)->root.i == i.i)
        return false;
    m->grown[i.i] = m->moved[i.i] = true;
    for (uint32_t k = 0; k < in->noperands; k++)
        if (!m->grown[in->operands[k].i] && !from_little(m, in->operands[k]))
            return false;
    return true;
}

/* What is carried in must not itself be made of the loop's result. */
static bool independent(const struct motion *m)
{
    bool *late = ARENA_ARRAY((struct arena *)(uintptr_t)&m->f.tmp, bool, (int64_t)m->f.known + 1);
    late[m->loop.i] = true;
    for (uint32_t k = 0; k < m->norder; k++) {
        const struct instr *in = at(m, m->order[k]);
        for (uint32_t j = 0; j < in->noperands && m->order[k].i <= m->f.known; j++)
            late[m->order[k].i] = late[m->order[k].i] || late[in->operands[j].i];
    }
    for (int64_t k = 0; k < m->small.n; k++)
        if (late[m->small.v[k].i])
            return false;
    return true;
}

/* The result as its users see it: out of the state, and cut where pieces hang over. */
static instr_id result_used(const struct motion *m)
{
    const struct users *u = m->f.users;
    instr_id none = { 0 };
    if (users_count(u, m->loop) != 1 || comp_at(m->f.s->out, m->outside)->root.i == m->loop.i)
        return none;
    instr_id x = users_of(u, m->loop)[0];
    if (at(m, x)->op != OP_GET_TUPLE_ELEMENT || instr_int(at(m, x), ATTR_INDEX, -1) != RESULT)
        return none;
    while (users_count(u, x) == 1 &&
           (at(m, users_of(u, x)[0])->op == OP_SLICE || at(m, users_of(u, x)[0])->op == OP_COPY) &&
           comp_at(m->f.s->out, m->outside)->root.i != x.i) {
        instr_id y = users_of(u, x)[0];
        if (at(m, y)->op == OP_SLICE && at(m, x)->op == OP_SLICE)
            return none;
        int n;
        const int64_t *cut = instr_ints(at(m, y), ATTR_SLICE, &n);
        for (int k = 0; at(m, y)->op == OP_SLICE && k < n; k += 3)
            if (cut[k] != 0 || cut[k + 2] != 1)
                return x;
        x = y;
    }
    return comp_at(m->f.s->out, m->outside)->root.i == x.i ? none : x;
}

static bool find_users(struct motion *m)
{
    instr_id x = result_used(m);
    if (!x.i)
        return false;
    m->padded = shape_get(m->f.s->ir, shape_of(m, m->loop)->elems[RESULT]);
    m->whole = shape_of(m, x);
    m->grown[x.i] = true;
    for (uint32_t k = 0; k < m->norder; k++) {
        bool uses = false;
        for (uint32_t j = 0; j < at(m, m->order[k])->noperands; j++)
            uses = uses || m->grown[at(m, m->order[k])->operands[j].i];
        if (uses && !take_user(m, m->order[k]))
            return false;
    }
    return m->reduces.n > 0 && independent(m);
}

/* The chain of updates from the state's result to the next one, first to last. false: it is another. */
static bool find_updates(const struct motion *m, struct arena *a, instr_list *updates)
{
    instr_id x = at(m, m->root)->operands[RESULT], base = taken(m, RESULT);
    while (at(m, x)->op == OP_DYNAMIC_UPDATE_SLICE) {
        vec_push(a, updates, x);
        x = at(m, x)->operands[0];
    }
    for (int64_t i = 0, j = updates->n - 1; i < j; i++, j--) {
        instr_id t = updates->v[i];
        updates->v[i] = updates->v[j];
        updates->v[j] = t;
    }
    return updates->n > 0 && x.i == base.i && base.i;
}

/* ---- one piece ---- */

struct chunk {
    struct motion *m;
    const struct shape *piece;
    const instr_id *start; /* where it lies, one a dimension */
};

static shape_id chunk_shape(const struct chunk *c, enum dtype t)
{
    int64_t dims[RANK_ROOM];
    for (int d = 0; d < c->piece->rank; d++)
        dims[d] = chunked(c->m, c->piece, d) ? c->piece->dims[d] : c->m->whole->dims[d];
    return shape_array(c->m->f.s->ir, t, c->piece->rank, dims);
}

/* x, whose dimension k is dimension map[k] of the result, as the piece needs it. */
static instr_id cut_to_chunk(const struct chunk *c, instr_id x, const int64_t *map)
{
    struct spmd *s = c->m->f.s;
    const struct shape *sx = node_shape(s, x);
    int64_t low[RANK_ROOM] = { 0 }, high[RANK_ROOM] = { 0 }, size[RANK_ROOM];
    instr_id start[RANK_ROOM], zero = emit_const_i(s, DTYPE_S32, 0);
    bool pads = false, cuts = false;
    for (int k = 0; k < sx->rank; k++) {
        int d = map ? (int)map[k] : k;
        bool own = chunked(c->m, c->piece, d);
        size[k] = own ? c->piece->dims[d] : sx->dims[k];
        start[k] = own ? c->start[d] : zero;
        high[k] = own ? c->m->padded->dims[d] - sx->dims[k] : 0;
        pads = pads || high[k];
        cuts = cuts || own;
    }
    if (pads)
        x = emit_pad(s, x, emit_zero(s, sx->dtype), low, high, NULL);
    return cuts ? emit_dynamic_slice(s, x, start, size) : x;
}

/* Positions along d in the whole result. */
static instr_id positions(const struct chunk *c, enum dtype t, int d)
{
    struct spmd *s = c->m->f.s;
    const struct shape *sh = shape_get(s->ir, chunk_shape(c, t));
    instr_id at_d = emit_iota(s, t, sh->rank, sh->dims, d);
    if (!chunked(c->m, c->piece, d))
        return at_d;
    instr_id start = emit_broadcast_scalar(s, emit_convert(s, c->start[d], t), sh->rank, sh->dims);
    return emit_arith(s, OP_ADD, at_d, start);
}

static instr_id node_of_chunk(const struct chunk *c, instr_id i)
{
    struct motion *m = c->m;
    struct spmd *s = m->f.s;
    const struct instr *in = at(m, i);
    int n;
    s->comp = m->body;
    if (shape_of(m, i)->rank == 0)
        return copied(m, i, in->shape);
    if (in->op == OP_CONSTANT)
        return cut_to_chunk(c, copied(m, i, in->shape), NULL);
    if (in->op == OP_IOTA)
        return positions(c, shape_of(m, i)->dtype, (int)instr_int(in, ATTR_IOTA_DIMENSION, 0));
    shape_id shape = chunk_shape(c, shape_of(m, i)->dtype);
    if (in->op != OP_BROADCAST)
        return copied(m, i, shape);
    const int64_t *map = instr_ints(in, ATTR_DIMENSIONS, &n);
    instr_id x = cut_to_chunk(c, m->inside[in->operands[0].i], map);
    return emit(s, OP_BROADCAST, shape, 1, &x, in->nattrs, in->attrs);
}

static bool reduces_chunks(const struct motion *m, instr_id reduce, const struct shape *piece)
{
    for (int d = 0; d < piece->rank; d++)
        if (chunked(m, piece, d) && is_reduced(at(m, reduce), d))
            return true;
    return false;
}

/* What hangs over the result's end counts for nothing. */
static instr_id masked(const struct chunk *c, instr_id reduce, instr_id x, instr_id identity)
{
    struct spmd *s = c->m->f.s;
    const struct shape *sh = node_shape(s, x);
    for (int d = 0; d < c->piece->rank; d++) {
        if (!is_reduced(at(c->m, reduce), d) || c->m->padded->dims[d] == c->m->whole->dims[d])
            continue;
        instr_id end = emit_const_i(s, DTYPE_S32, c->m->whole->dims[d]);
        end = emit_broadcast_scalar(s, end, sh->rank, sh->dims);
        instr_id in = emit_compare(s, "LT", positions(c, DTYPE_S32, d), end);
        x = emit_select(s, in, x, emit_broadcast_scalar(s, identity, sh->rank, sh->dims));
    }
    return x;
}

/* The reduction of a piece, joined to what there is of it. */
static instr_id reduce_chunk(const struct chunk *c, instr_id reduce, instr_id sum)
{
    struct motion *m = c->m;
    struct spmd *s = m->f.s;
    const struct instr *in = at(m, reduce);
    enum op_kind op = reducer_of(m, reduce);
    bool joins = reduces_chunks(m, reduce, c->piece), placed = false;
    int64_t size[RANK_ROOM];
    instr_id start[RANK_ROOM], ops[2] = { m->inside[in->operands[0].i], m->inside[in->operands[1].i] };
    int rank = 0;
    for (int d = 0; d < c->piece->rank; d++) {
        if (is_reduced(in, d))
            continue;
        bool own = chunked(m, c->piece, d);
        start[rank] = own ? c->start[d] : emit_const_i(s, DTYPE_S32, 0);
        size[rank++] = own ? c->piece->dims[d] : m->whole->dims[d];
        placed = placed || own;
    }
    if (joins && emit_identity(s, op, shape_of(m, reduce)->dtype, &ops[1]))
        ops[0] = masked(c, reduce, ops[0], ops[1]);
    shape_id shape = shape_array(s->ir, shape_of(m, reduce)->dtype, rank, size);
    instr_id y = emit(s, OP_REDUCE, shape, 2, ops, in->nattrs, in->attrs);
    if (joins)
        y = emit_arith(s, op, placed ? emit_dynamic_slice(s, sum, start, size) : sum, y);
    return placed ? emit_dus(s, sum, y, start) : y;
}

static void chunk_of(struct motion *m, instr_id update, instr_id x, instr_id *sums)
{
    struct spmd *s = m->f.s;
    const struct instr *in = at(m, update);
    struct chunk c = { m, shape_of(m, in->operands[1]), in->operands + 2 };
    s->comp = m->body;
    m->inside[x.i] = in->operands[1];
    for (uint32_t k = 0; k < m->norder; k++)
        if (m->moved[m->order[k].i])
            m->inside[m->order[k].i] = node_of_chunk(&c, m->order[k]);
    for (int64_t k = 0; k < m->reduces.n; k++)
        sums[k] = reduce_chunk(&c, m->reduces.v[k], sums[k]);
}

/* Where a reduction begins, outside: with room for whole pieces. */
static instr_id first_sum(struct motion *m, instr_id reduce, const struct shape *piece)
{
    struct spmd *s = m->f.s;
    int64_t dims[RANK_ROOM];
    int rank = 0;
    for (int d = 0; d < m->padded->rank; d++)
        if (!is_reduced(at(m, reduce), d))
            dims[rank++] = m->padded->dims[d];
    enum dtype t = shape_of(m, reduce)->dtype;
    s->comp = m->outside;
    instr_id start = reduces_chunks(m, reduce, piece) ? at(m, reduce)->operands[1] : emit_zero(s, t);
    return emit_broadcast_scalar(s, start, rank, dims);
}

static bool move_users(struct motion *m)
{
    struct spmd *s = m->f.s;
    instr_list updates = { 0 };
    if (!find_users(m) || !find_updates(m, &m->f.tmp, &updates))
        return false;
    instr_id x = result_used(m);
    const struct shape *piece = shape_of(m, at(m, updates.v[0])->operands[1]);
    int64_t nsmall = m->small.n, all = nsmall + m->reduces.n;
    instr_id *start = ARENA_ARRAY(&m->f.tmp, instr_id, all), *next = ARENA_ARRAY(&m->f.tmp, instr_id, all);
    for (int64_t k = 0; k < nsmall; k++)
        start[k] = m->small.v[k];
    for (int64_t k = 0; k < m->reduces.n; k++)
        start[nsmall + k] = first_sum(m, m->reduces.v[k], piece);
    m->inside = ARENA_ARRAY(&m->f.tmp, instr_id, (int64_t)module_ninstrs(s->out) + 1);
    instr_id tuple = replace_element(m, RESULT, all, start);
    take_in(m, tuple);
    for (int64_t k = 0; k < all; k++)
        next[k] = k < nsmall ? m->inside[m->small.v[k].i] : emit_gte(s, tuple, k);
    for (int64_t k = 0; k < updates.n; k++)
        chunk_of(m, updates.v[k], x, next + nsmall);
    s->comp = m->body;
    set_next(m, RESULT, emit_tuple(s, all, next));
    s->comp = m->outside;
    instr_id end = emit_gte(s, m->loop, RESULT);
    for (int64_t k = 0; k < m->reduces.n; k++) {
        instr_id r = m->reduces.v[k], y = emit_gte(s, end, nsmall + k);
        int64_t from[RANK_ROOM] = { 0 };
        y = emit_slice(s, y, from, shape_of(m, r)->dims, NULL);
        full_become(&m->f, r, OP_COPY, 1, &y, 0, NULL);
    }
    return true;
}

/* ---- driver ------------------------------------------------------------------------------------------ */

static bool open_motion(struct motion *m, instr_id loop)
{
    struct spmd *s = m->f.s;
    const struct instr *in = at(m, loop);
    m->loop = loop;
    m->outside = in->comp;
    m->init = in->operands[0];
    m->body = instr_attr(in, ATTR_BODY)->comp;
    m->condition = instr_attr(in, ATTR_CONDITION)->comp;
    m->param = comp_at(s->out, m->body)->params[0];
    m->root = comp_at(s->out, m->body)->root;
    m->order = comp_post_order(s->out, m->outside, m->f.users, &m->f.tmp, &m->norder);
    m->moved = ARENA_ARRAY(&m->f.tmp, bool, (int64_t)m->f.known + 1);
    m->grown = ARENA_ARRAY(&m->f.tmp, bool, (int64_t)m->f.known + 1);
    m->small.n = m->reduces.n = 0;
    return at(m, m->init)->op == OP_TUPLE && at(m, m->root)->op == OP_TUPLE;
}

static bool move_into(struct spmd *s, const struct windowed_loop *w, const struct users *users, bool operand)
{
    struct motion m = { .f = { .s = s, .known = module_ninstrs(s->out), .users = users } };
    if (!(operand ? w->cut >= 0 : w->in_pieces) || w->loop.i > m.f.known || users_count(users, w->loop) == 0)
        return false;
    comp_id old = s->comp;
    const char *reason = s->reason;
    arena_open(&m.f.tmp);
    s->serving = s->info.v[w->loop.i].note.source;
    s->reason =
        operand ? "made in the loop that needs it (S-191)" : "reduced in the loop that makes it (S-192)";
    bool moved = open_motion(&m, w->loop) && (operand ? move_operand(&m, w->cut) : move_users(&m));
    if (moved) {
        full_relist(&m.f, m.outside);
        full_relist(&m.f, m.body);
    }
    arena_close(&m.f.tmp);
    s->comp = old;
    s->reason = reason;
    return moved;
}

void windowed_motion(struct spmd *s)
{
    struct users *users = NULL;
    struct arena tmp = { 0 };
    for (int64_t k = 0; k < 2 * s->windowed.n; k++) {
        if (!users) {
            arena_open(&tmp);
            users = ARENA_NEW(&tmp, struct users);
            users_make(s->out, &tmp, users);
        }
        if (!move_into(s, &s->windowed.v[k / 2], users, k % 2 == 0))
            continue;
        arena_close(&tmp);
        users = NULL;
        cleanup_run(s);
    }
    if (users)
        arena_close(&tmp);
}
