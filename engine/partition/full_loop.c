/* Collectives in loops. What a loop computes from values that it does not change is the same in every
 * step: a collective among that is named, and moved in front of the loop with hoist=on. An all-reduce
 * whose result is only added to an accumulator is summed by the devices when the loop is over
 * (S-233):
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

struct sunk {
    int64_t element;
    instr_id add, sum, x; /* add(element, sum(..sum(x))) */
};

static bool find_sunk(const struct loop *l, int64_t e, struct sunk *k)
{
    const struct full *f = l->f;
    instr_id a = at(l, l->root)->operands[e];
    const struct instr *in = at(l, a);
    if (in->op != OP_ADD || in->noperands != 2 || a.i > f->known || users_count(f->users, a) != 1)
        return false;
    for (int side = 0; side < 2; side++) {
        instr_id p = in->operands[side], r = in->operands[1 - side];
        if (!is_element(l, p, e) || users_count(f->users, p) != 1)
            continue;
        instr_id x = r;
        while (full_is_sum(f, x) && x.i <= f->known && users_count(f->users, x) == 1 &&
               simple_reducer(f->s->out, instr_attr(at(l, x), ATTR_TO_APPLY)->comp, 0, 1) == OP_ADD)
            x = at(l, x)->operands[0];
        *k = (struct sunk){ e, a, r, x };
        return x.i != r.i && node_shape(f->s, a)->dtype != DTYPE_PRED;
    }
    return false;
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

/* The all-reduces of k on a value outside, innermost first, and the accumulator's start. */
static instr_id sum_behind(struct loop *l, const struct sunk *k, instr_id x, instr_id start)
{
    struct full *f = l->f;
    VEC(instr_id) sums = { 0 };
    for (instr_id r = k->sum; r.i != k->x.i; r = at(l, r)->operands[0])
        vec_push(&f->tmp, &sums, r);
    for (int64_t j = sums.n - 1; j >= 0; j--) {
        x = make(l, false, OP_ALL_REDUCE, at(l, x)->shape, 1, &x, at(l, sums.v[j])->nattrs,
                 full_attrs_anew(f, sums.v[j]), sums.v[j]);
        full_reason(f, x, "summed once, behind the loop that adds it up (S-233)");
    }
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
    for (int64_t k = 0; k < nsunk; k++) {
        init[sunk[k].element] = zeros(l, at(l, sunk[k].x)->shape);
        instr_id ops[2] = { at(l, sunk[k].add)->operands[0], at(l, sunk[k].add)->operands[1] };
        for (int j = 0; j < 2; j++)
            if (ops[j].i == sunk[k].sum.i)
                ops[j] = sunk[k].x;
        full_become(f, sunk[k].add, OP_ADD, 2, ops, 0, NULL);
    }
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
    struct full f = { .s = s, .known = module_ninstrs(s->out) };
    struct users users;
    uint32_t n;
    bool changed = false;
    arena_open(&f.tmp);
    const comp_id *order = module_call_order(s->out, false, &f.tmp, &n);
    users_make(s->out, &f.tmp, &users);
    f.users = &users;
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
        (void)full_clean(s, s->out->entry);
}
