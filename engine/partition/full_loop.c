/* Collectives in loops. What a loop computes from values that it does not change is the same in every
 * step: a collective among that is named, and moved in front of the loop with hoist=on. An all-reduce
 * whose result is only added to an accumulator is summed by the devices when the loop is over, and so
 * is a reduce-scatter, for an accumulator of the size before it (S-233):
 *
 *     loop: a += AR(x)        becomes        loop: a' += x, from zero;     a + AR(a')
 *
 * Inner loops first, so that what leaves one may leave the next. */
#include "partition/full.h"

#include "partition/ops.h"

#include <string.h>

struct loop {
    struct full *f;
    instr_id whole;        /* the while */
    comp_id outside, body, condition;
    instr_id init, param, root;
    bool *same;            /* [known + 1] instructions of the body with one value in all steps */
    bool *equal;           /* [known + 1] with one value on all devices, in each step */
    VEC(instr_id) leaving; /* collectives that move in front */
    VEC(instr_id) inside, out; /* new instructions of the body, of the computation around */
};

static struct instr *at(const struct loop *l, instr_id i)
{
    return full_at(l->f, i);
}

static instr_id make(struct loop *l, bool inside, enum op_kind op, shape_id shape, int n,
                     const instr_id *ops, int nattrs, const struct attr *attrs, instr_id like)
{
    l->f->comp = inside ? l->body : l->outside;
    instr_id i = full_add(l->f, op, shape, n, ops, nattrs, attrs, like);
    if (inside)
        vec_push(&l->f->tmp, &l->inside, i);
    else
        vec_push(&l->f->tmp, &l->out, i);
    return i;
}

static instr_id element(struct loop *l, bool inside, instr_id tuple, int64_t k)
{
    struct attr index = attr_int(ATTR_INDEX, k);
    shape_id shape = shape_leaf(l->f->s->ir, at(l, tuple)->shape, k);
    return make(l, inside, OP_GET_TUPLE_ELEMENT, shape, 1, &tuple, 1, &index, tuple);
}

/* ---- what does not change ---------------------------------------------------------------------------- */

static bool is_element(const struct loop *l, instr_id i, int64_t k)
{
    const struct instr *in = at(l, i);
    return in->op == OP_GET_TUPLE_ELEMENT && in->operands[0].i == l->param.i &&
           (k < 0 || instr_int(in, ATTR_INDEX, -1) == k);
}

static bool can_move(const struct loop *l, instr_id i)
{
    const struct instr *in = at(l, i);
    return in->op != OP_PARAMETER && in->op != OP_WHILE && in->op != OP_CONDITIONAL &&
           in->op != OP_CALL && in->op != OP_FUSION && in->op != OP_CUSTOM_CALL &&
           in->op != OP_AFTER_ALL && in->op != OP_RNG && in->op != OP_TUPLE &&
           !instr_has_side_effect(l->f->s->out, i) && node_shape(l->f->s, i)->kind == SHAPE_ARRAY;
}

static void find_same(struct loop *l, const instr_id *order, uint32_t n)
{
    const struct instr *root = at(l, l->root);
    for (uint32_t k = 0; k < n; k++) {
        const struct instr *in = at(l, order[k]);
        bool same = can_move(l, order[k]);
        if (is_element(l, order[k], -1)) {
            int64_t e = instr_int(in, ATTR_INDEX, 0);
            same = e < (int64_t)root->noperands && is_element(l, root->operands[e], e);
        } else {
            for (uint32_t j = 0; j < in->noperands; j++)
                same = same && l->same[in->operands[j].i];
        }
        l->same[order[k].i] = same;
    }
}

/* ---- what is the same on all devices ------------------------------------------------------------------ */

/* Made of constants alone, outside: looked at to a depth that starts of counters have. */
static bool plain_start(const struct loop *l, instr_id i)
{
    for (int depth = 0; depth < 4; depth++) {
        const struct instr *in = at(l, i);
        if (in->op == OP_CONSTANT)
            return true;
        if (in->noperands != 1 || (in->op != OP_COPY && in->op != OP_CONVERT &&
                                   in->op != OP_BROADCAST && in->op != OP_RESHAPE))
            return false;
        i = in->operands[0];
    }
    return false;
}

static bool equal_node(const struct loop *l, instr_id i, const bool *element)
{
    const struct instr *in = at(l, i);
    if (is_element(l, i, -1))
        return element[instr_int(in, ATTR_INDEX, 0)];
    bool plain = in->op == OP_CONSTANT || in->op == OP_IOTA ||
                 (in->noperands > 0 && (instr_is_elementwise(l->f->s->out, i) ||
                                        in->op == OP_BROADCAST || in->op == OP_RESHAPE));
    for (uint32_t j = 0; plain && j < in->noperands; j++)
        plain = l->equal[in->operands[j].i];
    return plain;
}

/* Counters and what is computed from them: elements of the state that begin as constants and go on as
 * such, found by taking all for that and dropping what is not. */
static void find_equal(struct loop *l, const instr_id *order, uint32_t n)
{
    int64_t size = at(l, l->root)->noperands;
    bool *element = ARENA_ARRAY(&l->f->tmp, bool, size + 1);
    const struct instr *init = at(l, l->init);
    for (int64_t e = 0; e < size; e++)
        element[e] = init->op == OP_TUPLE && plain_start(l, init->operands[e]);
    for (bool dropped = true; dropped;) {
        dropped = false;
        for (uint32_t k = 0; k < n; k++)
            l->equal[order[k].i] = equal_node(l, order[k], element);
        for (int64_t e = 0; e < size; e++)
            if (element[e] && !l->equal[at(l, l->root)->operands[e].i])
                element[e] = !(dropped = true);
    }
}

/* Whether a collective that does not change either is made of i. */
static bool feeds_another(const struct loop *l, instr_id i, const bool *feeds)
{
    const struct users *u = l->f->users;
    for (uint32_t k = 0; k < users_count(u, i); k++) {
        instr_id x = users_of(u, i)[k];
        if (l->same[x.i] && (feeds[x.i] || op_is_collective((enum op_kind)at(l, x)->op)))
            return true;
    }
    return false;
}

static void find_leaving(struct loop *l, const instr_id *order, uint32_t n)
{
    struct full *f = l->f;
    bool *feeds = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    for (uint32_t k = n; k-- > 0;) {
        instr_id i = order[k];
        if (!l->same[i.i])
            continue;
        feeds[i.i] = feeds_another(l, i, feeds);
        if (!op_is_collective((enum op_kind)at(l, i)->op))
            continue;
        if (!feeds[i.i])
            vec_push(&f->tmp, &l->leaving, i);
        const char *why = f->s->info.v[i.i].note.reason;
        if (why && strstr(why, "hoist"))
            continue;
        full_reason(f, i, arena_printf(&f->s->arena, "%s; the same in every step of the loop (hoist=on)",
                                       why ? why : "in the module"));
    }
}

/* ---- in front of the loop ---------------------------------------------------------------------------- */

/* The value of an unchanged instruction of the body, made outside, operands first. */
static instr_id outside(struct loop *l, const instr_id *order, uint32_t n, instr_id *map, instr_id want)
{
    struct full *f = l->f;
    bool *needed = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    needed[want.i] = true;
    for (uint32_t k = n; k-- > 0;)
        for (uint32_t j = 0; needed[order[k].i] && !is_element(l, order[k], -1) &&
                             j < at(l, order[k])->noperands; j++)
            needed[at(l, order[k])->operands[j].i] = true;
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        if (!needed[i.i] || map[i.i].i)
            continue;
        const struct instr *in = at(l, i);
        if (is_element(l, i, -1)) {
            int64_t e = instr_int(in, ATTR_INDEX, 0);
            map[i.i] = at(l, l->init)->op == OP_TUPLE ? at(l, l->init)->operands[e]
                                                      : element(l, false, l->init, e);
            continue;
        }
        instr_id *ops = ARENA_ARRAY(&f->tmp, instr_id, in->noperands);
        for (uint32_t j = 0; j < in->noperands; j++)
            ops[j] = map[in->operands[j].i];
        bool collective = op_is_collective((enum op_kind)in->op);
        map[i.i] = make(l, false, (enum op_kind)in->op, in->shape, (int)in->noperands, ops, in->nattrs,
                        collective ? full_attrs_anew(f, i) : in->attrs, i);
        full_at(f, map[i.i])->literal = in->literal;
        if (collective)
            full_reason(f, map[i.i], "once, in front of the loop that needs it in every step");
    }
    return map[want.i];
}

/* ---- behind the loop, S-233 --------------------------------------------------------------------------- */

enum { SUNK_PATH = 12 };

/* element = add(element, f(sum(..x))), f: formatting; or the same on a piece of the element. */
struct sunk {
    int64_t element;
    instr_id add, own; /* the sum under way, and what of the element is read for it */
    instr_id x;        /* what the last collective of the path takes */
    int n;
    struct passed {
        instr_id i;
        enum op_kind op;   /* as it was */
        enum dtype type;
        int nattrs;
        const struct attr *attrs;
    } path[SUNK_PATH]; /* collectives and formatting, from the addition on */
    bool scatter;      /* a reduce-scatter is among them: the element grows */
};

static bool is_scatter_sum(const struct loop *l, instr_id i)
{
    const struct instr *in = at(l, i);
    const struct attr *reducer = instr_attr(in, ATTR_TO_APPLY);
    return in->op == OP_REDUCE_SCATTER && in->noperands == 1 && reducer &&
           node_shape(l->f->s, i)->kind == SHAPE_ARRAY &&
           simple_reducer(l->f->s->out, reducer->comp, 0, 1) == OP_ADD;
}

static bool is_sum(const struct loop *l, instr_id i)
{
    return full_is_sum(l->f, i) &&
           simple_reducer(l->f->s->out, instr_attr(at(l, i), ATTR_TO_APPLY)->comp, 0, 1) == OP_ADD;
}

static bool is_zero(const struct loop *l, instr_id i)
{
    while (at(l, i)->op == OP_BROADCAST || at(l, i)->op == OP_COPY || at(l, i)->op == OP_RESHAPE)
        i = at(l, i)->operands[0];
    const struct literal *v = at(l, i)->literal;
    if (at(l, i)->op != OP_CONSTANT || !v || !v->data || node_shape(l->f->s, i)->kind != SHAPE_ARRAY)
        return false;
    const struct shape *x = node_shape(l->f->s, i);
    const uint8_t *byte = v->data;
    for (int64_t k = 0; k < x->count * dtype_bytes(x->dtype); k++)
        if (byte[k])
            return false;
    return true;
}

/* What formats a sum, so that sums of formatted values are formatted sums: the operand that matters;
 * none: it is something else. */
static instr_id formatted(const struct loop *l, instr_id i)
{
    const struct instr *in = at(l, i);
    struct spmd *s = l->f->s;
    instr_id none = { 0 };
    if (in->op == OP_COPY || in->op == OP_RESHAPE || in->op == OP_TRANSPOSE)
        return in->operands[0];
    if (in->op == OP_CONVERT) { /* into no fewer bits */
        enum dtype from = node_shape(s, in->operands[0])->dtype, to = node_shape(s, i)->dtype;
        bool floats = dtype_kind(from) == DTYPE_KIND_FLOAT && dtype_kind(to) == DTYPE_KIND_FLOAT;
        return floats && dtype_bits(to) >= dtype_bits(from) ? in->operands[0] : none;
    }
    if (in->op != OP_SELECT || !l->equal[in->operands[0].i])
        return none;
    return is_zero(l, in->operands[2]) ? in->operands[1] : is_zero(l, in->operands[1]) ? in->operands[2] : none;
}

/* From what is added down to the last collective that only it needs. */
static bool walk_sum(const struct loop *l, instr_id r, bool piece, struct sunk *k)
{
    const struct full *f = l->f;
    int last = 0;
    bool moved = piece; /* a reduce-scatter's dimension would no longer be its own */
    for (k->n = 0; k->n < SUNK_PATH && r.i <= f->known && users_count(f->users, r) == 1; k->n++) {
        bool scatter = is_scatter_sum(l, r), sum = scatter || is_sum(l, r);
        if (scatter && (moved || k->scatter))
            break;
        instr_id next = sum ? at(l, r)->operands[0] : formatted(l, r);
        if (!next.i)
            break;
        moved = moved || (!sum && at(l, r)->op != OP_COPY && at(l, r)->op != OP_CONVERT);
        const struct instr *in = at(l, r);
        k->path[k->n] = (struct passed){ r, sum ? (enum op_kind)in->op : OP_NONE, node_shape(f->s, r)->dtype,
                                         in->nattrs, in->attrs };
        k->scatter = k->scatter || scatter;
        if (sum) {
            last = k->n + 1;
            k->x = next;
        }
        r = next;
    }
    k->n = last;
    return last > 0;
}

static bool condition_reads(const struct loop *l, int64_t e)
{
    const struct computation *c = comp_at(l->f->s->out, l->condition);
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        const struct instr *in = at(l, c->instrs[k]);
        if (in->op == OP_GET_TUPLE_ELEMENT && in->operands[0].i == c->params[0].i &&
            instr_int(in, ATTR_INDEX, -1) == e)
            return true;
    }
    return false;
}

/* Reads and writes of the same piece at a place that is the same on all devices; the loop goes on long
 * enough for one sum of the whole to be less than all of the pieces'. */
static bool same_piece(const struct loop *l, instr_id read, instr_id write)
{
    const struct instr *r = at(l, read), *w = at(l, write);
    struct spmd *s = l->f->s;
    if (r->op != OP_DYNAMIC_SLICE || r->operands[0].i != w->operands[0].i || r->noperands + 1 != w->noperands)
        return false;
    for (uint32_t k = 1; k < r->noperands; k++)
        if (r->operands[k].i != w->operands[k + 1].i || !l->equal[r->operands[k].i])
            return false;
    int64_t trips = while_trip_count(s->out, l->whole, 100000), all;
    return trips > 0 && mul_ok(trips, node_shape(s, read)->bytes, &all) &&
           all >= node_shape(s, write)->bytes;
}

static bool find_sunk(const struct loop *l, int64_t e, struct sunk *k)
{
    const struct full *f = l->f;
    instr_id write = at(l, l->root)->operands[e], a = write;
    bool piece = at(l, write)->op == OP_DYNAMIC_UPDATE_SLICE;
    if (piece)
        a = at(l, write)->operands[1];
    const struct instr *in = at(l, a);
    if (in->op != OP_ADD || in->noperands != 2 || a.i > f->known || users_count(f->users, a) != 1 ||
        write.i > f->known || users_count(f->users, write) != 1 || condition_reads(l, e) ||
        node_shape(f->s, a)->dtype == DTYPE_PRED)
        return false;
    for (int side = 0; side < 2; side++) {
        instr_id own = in->operands[side], p = piece ? at(l, write)->operands[0] : own;
        *k = (struct sunk){ .element = e, .add = a, .own = own };
        if (!is_element(l, p, e) || users_count(f->users, p) != (piece ? 2 : 1) ||
            (piece && (users_count(f->users, own) != 1 || !same_piece(l, own, write))))
            continue;
        if (walk_sum(l, in->operands[1 - side], piece, k))
            return true;
    }
    return false;
}

/* The body without the collectives of k. */
static void sum_later(struct loop *l, const struct sunk *k)
{
    struct spmd *s = l->f->s;
    const struct shape *big = node_shape(s, k->x);
    bool grows = k->scatter;
    for (int j = 0; j < k->n; j++) {
        instr_id i = k->path[j].i, from = at(l, i)->operands[0];
        shape_id shape = shape_array(s->ir, node_shape(s, i)->dtype, big->rank, big->dims);
        bool scatter = k->path[j].op == OP_REDUCE_SCATTER;
        if (k->path[j].op != OP_NONE)
            full_become(l->f, i, OP_COPY, 1, &from, 0, NULL);
        if (grows)
            at(l, i)->shape = shape;
        grows = grows && !scatter; /* behind it all is as it was */
    }
    if (!k->scatter)
        return;
    shape_id shape = shape_array(s->ir, node_shape(s, k->add)->dtype, big->rank, big->dims);
    at(l, k->add)->shape = at(l, k->own)->shape = shape;
}

static instr_id zeros(struct loop *l, shape_id shape)
{
    struct spmd *s = l->f->s;
    const struct shape *x = shape_get(s->ir, shape);
    comp_id old = s->comp;
    s->comp = l->outside;
    instr_id z = emit_zero(s, x->dtype);
    s->comp = old;
    vec_push(&l->f->tmp, &l->out, z);
    if (x->rank == 0)
        return z;
    struct attr none = attr_ints(s->out, ATTR_DIMENSIONS, 0, NULL);
    return make(l, false, OP_BROADCAST, shape, 1, &z, 1, &none, l->whole);
}

/* A collective of the body on x, outside; its sum is one of x's type. */
static instr_id behind(struct loop *l, const struct passed *p, instr_id x)
{
    struct full *f = l->f;
    struct spmd *s = f->s;
    const struct shape *sx = node_shape(s, x);
    struct attr *attrs = arena_copy(&s->out->arena, p->attrs, p->nattrs, sizeof *attrs);
    int64_t dims[RANK_ROOM], groups = 1, dim = -1;
    memcpy(dims, sx->dims, (size_t)sx->rank * sizeof *dims);
    for (int k = 0; k < p->nattrs; k++) {
        if (attrs[k].key == ATTR_CHANNEL_ID)
            attrs[k] = attr_int(ATTR_CHANNEL_ID, full_new_channel(s));
        if (attrs[k].key == ATTR_TO_APPLY && p->type != sx->dtype)
            attrs[k].comp = binary_computation(s, OP_ADD, sx->dtype);
        if (attrs[k].key == ATTR_DIMENSIONS)
            dim = attrs[k].ints[0];
        if (attrs[k].key == ATTR_REPLICA_GROUPS)
            groups = attrs[k].groups->tiles.dims[1];
    }
    if (p->op == OP_REDUCE_SCATTER && dim >= 0)
        dims[dim] /= groups;
    shape_id shape = shape_array(s->ir, sx->dtype, sx->rank, dims);
    instr_id y = make(l, false, p->op, shape, 1, &x, p->nattrs, attrs, p->i);
    full_reason(f, y, "summed once, behind the loop that adds it up (S-233)");
    return y;
}

/* The collectives of k behind the loop, innermost first, and the accumulator's start. */
static instr_id sum_behind(struct loop *l, const struct sunk *k, instr_id x, instr_id start)
{
    for (int j = k->n - 1; j >= 0; j--)
        if (k->path[j].op != OP_NONE)
            x = behind(l, &k->path[j], x);
    instr_id ops[2] = { x, start };
    return make(l, false, OP_ADD, at(l, x)->shape, 2, ops, 0, NULL, k->add);
}

/* ---- the loop made anew ---------------------------------------------------------------------------------- */

static void set_tuple(struct loop *l, instr_id i, shape_id shape, int64_t n, const instr_id *ops)
{
    full_become(l->f, i, OP_TUPLE, (int)n, ops, 0, NULL);
    at(l, i)->shape = shape;
}

static void rebuild(struct loop *l, const instr_id *order, uint32_t n, int64_t nsunk,
                    const struct sunk *sunk)
{
    struct full *f = l->f;
    struct spmd *s = f->s;
    int64_t old = at(l, l->root)->noperands, all = old + l->leaving.n;
    instr_id *init = ARENA_ARRAY(&f->tmp, instr_id, all), *next = ARENA_ARRAY(&f->tmp, instr_id, all);
    instr_id *end = ARENA_ARRAY(&f->tmp, instr_id, all), *start = ARENA_ARRAY(&f->tmp, instr_id, all);
    instr_id *map = ARENA_ARRAY(&f->tmp, instr_id, (int64_t)f->known + 1);
    shape_id *shapes = ARENA_ARRAY(&f->tmp, shape_id, all);
    for (int64_t k = 0; k < nsunk; k++)
        sum_later(l, &sunk[k]);
    for (int64_t k = 0; k < old; k++) {
        start[k] = init[k] = at(l, l->init)->op == OP_TUPLE ? at(l, l->init)->operands[k]
                                                            : element(l, false, l->init, k);
        next[k] = at(l, l->root)->operands[k];
        shapes[k] = at(l, next[k])->shape;
    }
    for (int64_t k = 0; k < l->leaving.n; k++) {
        init[old + k] = outside(l, order, n, map, l->leaving.v[k]);
        shapes[old + k] = at(l, l->leaving.v[k])->shape;
    }
    for (int64_t k = 0; k < nsunk; k++)
        init[sunk[k].element] = zeros(l, shapes[sunk[k].element]);
    shape_id state = shape_tuple(s->ir, all, shapes);
    at(l, l->param)->shape = state;
    at(l, comp_at(s->out, l->condition)->params[0])->shape = state;
    for (int64_t k = 0; k < l->leaving.n; k++) {
        instr_id i = l->leaving.v[k];
        struct attr index = attr_int(ATTR_INDEX, old + k);
        full_become(f, i, OP_GET_TUPLE_ELEMENT, 1, &l->param, 1, &index);
        next[old + k] = i;
    }
    instr_id begin = make(l, false, OP_TUPLE, state, (int)all, init, 0, NULL, l->whole);
    instr_id loop = make(l, false, OP_WHILE, state, 1, &begin, at(l, l->whole)->nattrs,
                         at(l, l->whole)->attrs, l->whole);
    set_tuple(l, l->root, state, all, next);
    for (int64_t k = 0; k < old; k++)
        end[k] = element(l, false, loop, k);
    for (int64_t k = 0; k < nsunk; k++)
        end[sunk[k].element] = sum_behind(l, &sunk[k], end[sunk[k].element], start[sunk[k].element]);
    set_tuple(l, l->whole, at(l, l->whole)->shape, old, end);
}

static void append(struct loop *l, comp_id c, const instr_id *more, int64_t nmore)
{
    struct full *f = l->f;
    const struct computation *k = comp_at(f->s->out, c);
    int64_t n = k->ninstrs;
    instr_id *list = ARENA_ARRAY(&f->tmp, instr_id, n + nmore);
    memcpy(list, k->instrs, (size_t)n * sizeof *list);
    if (nmore)
        memcpy(list + n, more, (size_t)nmore * sizeof *list);
    comp_set_instrs(f->s->out, c, (uint32_t)(n + nmore), list, k->root);
}

/* true: the loop is another one now. */
static bool one_loop(struct full *f, comp_id around, instr_id whole, bool hoist)
{
    struct spmd *s = f->s;
    const struct instr *in = full_at(f, whole);
    struct loop l = { .f = f, .whole = whole, .outside = around };
    l.body = instr_attr(in, ATTR_BODY)->comp;
    l.condition = instr_attr(in, ATTR_CONDITION)->comp;
    const struct computation *b = comp_at(s->out, l.body);
    l.init = in->operands[0];
    l.param = b->params[0];
    l.root = b->root;
    if (full_at(f, l.root)->op != OP_TUPLE || node_shape(s, l.param)->kind != SHAPE_TUPLE ||
        node_shape(s, l.param)->nleaves != full_at(f, l.root)->noperands)
        return false;
    uint32_t n;
    const instr_id *order = comp_post_order(s->out, l.body, f->users, &f->tmp, &n);
    l.same = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    find_same(&l, order, n);
    find_leaving(&l, order, n);
    if (!hoist)
        return false;
    l.equal = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    find_equal(&l, order, n);
    int64_t nsunk = 0, size = full_at(f, l.root)->noperands;
    struct sunk *sunk = ARENA_ARRAY(&f->tmp, struct sunk, size);
    for (int64_t e = 0; e < size; e++)
        nsunk += find_sunk(&l, e, &sunk[nsunk]);
    if (!l.leaving.n && !nsunk)
        return false;
    rebuild(&l, order, n, nsunk, sunk);
    append(&l, l.body, l.inside.v, l.inside.n);
    append(&l, l.outside, l.out.v, l.out.n);
    return true;
}

/* Loops that share a body or a condition stay as they are. */
static int64_t callers_of(const struct spmd *s, comp_id c, const comp_id *order, uint32_t n)
{
    int64_t count = 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct computation *x = comp_at(s->out, order[k]);
        for (uint32_t j = 0; j < x->ninstrs; j++) {
            const struct instr *in = instr_at(s->out, x->instrs[j]);
            if (in->op == OP_WHILE)
                count += instr_attr(in, ATTR_BODY)->comp.i == c.i ||
                         instr_attr(in, ATTR_CONDITION)->comp.i == c.i;
        }
    }
    return count;
}

static bool changes_one(struct spmd *s, bool hoist, struct map *seen)
{
    struct full f = { .s = s, .known = module_ninstrs(s->out), .users = full_users(s) };
    uint32_t n;
    bool changed = false;
    arena_open(&f.tmp);
    const comp_id *order = module_call_order(s->out, false, &f.tmp, &n);
    for (uint32_t k = 0; !changed && k < n; k++) {
        const struct computation *c = comp_at(s->out, order[k]);
        for (uint32_t j = 0; !changed && j < c->ninstrs; j++) {
            instr_id i = c->instrs[j];
            const struct instr *in = full_at(&f, i);
            uint64_t old;
            if (in->op != OP_WHILE || map_get(seen, i.i, &old))
                continue;
            map_put(seen, i.i, 1);
            if (callers_of(s, instr_attr(in, ATTR_BODY)->comp, order, n) != 1 ||
                callers_of(s, instr_attr(in, ATTR_CONDITION)->comp, order, n) != 1)
                continue;
            changed = one_loop(&f, order[k], i, hoist);
        }
    }
    arena_close(&f.tmp);
    return changed;
}

void full_loops(struct spmd *s, bool hoist)
{
    struct map seen;
    map_init(&seen, &s->arena);
    while (changes_one(s, hoist, &seen))
        (void)full_clean(s);
}
