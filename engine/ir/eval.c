/* Evaluating scalars, and with them trip counts of loops.
 *
 * A value is wanted as (frame, instruction, leaf); a frame is one call of a computation. Nothing is
 * computed that nobody asked for, so the cone of a loop's condition is found by evaluating it. There
 * is no recursion along operands or calls: what is missing is put on a stack and the asker is tried
 * again. Only loops inside loops nest, to a fixed depth. */
#include "ir/eval.h"

#include <string.h>

enum frame_kind {
    FRAME_ENV,    /* parameters' leaves are given */
    FRAME_CALL,   /* parameters are the operands of a call, from `first` on */
    FRAME_OUTER   /* parameters are those of the only caller, if there is only one */
};

struct frame {
    enum frame_kind kind;
    comp_id comp;
    uint32_t parent;
    instr_id site;
    uint32_t first;
};

/* Queued: somebody asked, and may have given up asking since. Open: others are computed for it. */
enum memo_state { MEMO_QUEUED, MEMO_OPEN, MEMO_DONE };

struct memo {
    struct value value;
    enum memo_state state;
};

struct want {
    uint32_t frame;
    instr_id instr;
    int64_t leaf;
};

/* A carried leaf that the condition needs. */
struct tracked {
    int64_t leaf;
    struct value now;
    union element *store;
};

typedef VEC(struct tracked) tracked_vec;

struct ev {
    const struct module *m;
    struct arena *a;
    struct map nodes;  /* frame, instruction -> node number */
    struct map memos;  /* node, leaf -> index of its memo */
    struct map frames_by; /* (parent frame, site, branch) or computation -> frame */
    VEC(struct memo) memo;
    VEC(struct frame) frames;
    VEC(struct want) stack;
    uint32_t *callers; /* by computation: its only caller, MANY, or 0; NULL: not looked up yet */
    int64_t *steps;
    int depth;
    const struct scalar_env *env;   /* FRAME_ENV from outside, */
    const tracked_vec *tracked;     /* or of a loop's iteration */
    int64_t missing;                /* leaf of the loop that turned out to be needed; -1 */
    int64_t counter;                /* leaf that is left open: values hang on it; -1 */
    enum dtype counter_type;
};

enum { MAX_DEPTH = 16, MAX_FRAMES = 1 << 16 };
static const uint32_t MANY = UINT32_MAX; /* callers */

static void ev_init(struct ev *e, const struct module *m, struct arena *a, int64_t *steps, int depth)
{
    *e = (struct ev){ .m = m, .a = a, .steps = steps, .depth = depth, .missing = -1,
                      .counter = -1 };
    map_init(&e->nodes, a);
    map_init(&e->memos, a);
    map_init(&e->frames_by, a);
}

static uint32_t add_frame(struct ev *e, struct frame f)
{
    vec_push(e->a, &e->frames, f);
    return (uint32_t)e->frames.n - 1;
}

/* ---- wanting values ----------------------------------------------------------------------------- */

static const struct value unknown;

static struct memo *memo_of(struct ev *e, struct want w)
{
    uint64_t node, at, key = (uint64_t)w.frame << 32 | w.instr.i;
    if (!map_get(&e->nodes, key, &node)) {
        node = (uint64_t)e->nodes.n;
        map_put(&e->nodes, key, node);
    }
    key = node << 32 | (uint32_t)w.leaf;
    if (!map_get(&e->memos, key, &at)) {
        at = (uint64_t)e->memo.n;
        map_put(&e->memos, key, at);
        vec_push(e->a, &e->memo, ((struct memo){ .state = MEMO_QUEUED }));
    }
    return &e->memo.v[at];
}

static bool too_large(const struct ev *e, instr_id i, int64_t leaf)
{
    const struct shape *s = instr_shape(e->m, i);
    if (leaf >= s->nleaves)
        return true;
    if (s->kind == SHAPE_TUPLE)
        s = shape_get(e->m->ir, shape_leaf(e->m->ir, instr_at(e->m, i)->shape, leaf));
    return s->kind != SHAPE_ARRAY || s->count > MAX_ELEMENTS;
}

/* The value, or NULL: it was put on the stack, try again. What is open already depends on itself and
 * cannot be told. */
static const struct value *get(struct ev *e, uint32_t frame, instr_id i, int64_t leaf)
{
    if (too_large(e, i, leaf) || leaf > UINT32_MAX)
        return &unknown;
    struct want w = { frame, i, leaf };
    const struct memo *m = memo_of(e, w);
    if (m->state != MEMO_QUEUED)
        return m->state == MEMO_DONE ? &m->value : &unknown;
    vec_push(e->a, &e->stack, w);
    return NULL;
}

/* out = that value; false: pending. */
static bool take(struct ev *e, uint32_t frame, instr_id i, int64_t leaf, struct value *out)
{
    const struct value *v = get(e, frame, i, leaf);
    if (v)
        *out = *v;
    return v != NULL;
}

/* ---- calls -------------------------------------------------------------------------------------- */

static bool called_frame(struct ev *e, uint32_t parent, instr_id site, comp_id c, uint32_t first,
                         uint32_t *out)
{
    uint64_t key = hash_u64(((uint64_t)parent << 32 | site.i) + first) ^ c.i, at;
    for (;; key++) { /* the key is a hash: look at what it names */
        if (!map_get(&e->frames_by, key, &at))
            break;
        const struct frame *f = &e->frames.v[at];
        if (f->kind == FRAME_CALL && f->parent == parent && f->site.i == site.i &&
            f->comp.i == c.i && f->first == first) {
            *out = (uint32_t)at;
            return true;
        }
    }
    if (e->frames.n >= MAX_FRAMES)
        return false;
    *out = add_frame(e, (struct frame){ FRAME_CALL, c, parent, site, first });
    map_put(&e->frames_by, key, *out);
    return true;
}

static bool root_of_call(struct ev *e, const struct want *w, comp_id c, uint32_t first,
                         struct value *out)
{
    uint32_t f;
    *out = unknown;
    if (!c.i || !comp_at(e->m, c)->root.i || !called_frame(e, w->frame, w->instr, c, first, &f))
        return true;
    return take(e, f, comp_at(e->m, c)->root, w->leaf, out);
}

static comp_id comp_attr(const struct instr *in, enum attr_key k)
{
    const struct attr *a = instr_attr(in, k);
    return a && a->type == ATTR_TYPE_COMP ? a->comp : (comp_id){ 0 };
}

static comp_id branch_of(const struct instr *in, int64_t k)
{
    const struct attr *a = instr_attr(in, ATTR_BRANCH_COMPUTATIONS);
    if (a && a->type == ATTR_TYPE_COMPS)
        return k >= 0 && k < a->n ? a->comps[k] : (comp_id){ 0 };
    return comp_attr(in, k == 0 ? ATTR_TRUE_COMPUTATION : ATTR_FALSE_COMPUTATION);
}

/* A branch number out of range means the last branch; of a pred, true comes first. */
static bool conditional(struct ev *e, const struct want *w, const struct instr *in,
                        struct value *out)
{
    struct value which;
    if (!take(e, w->frame, in->operands[0], 0, &which))
        return false;
    *out = unknown;
    if (!which.v)
        return true;
    int64_t n = (int64_t)in->noperands - 1, k = which.v[0].i;
    bool list = instr_attr(in, ATTR_BRANCH_COMPUTATIONS) != NULL;
    if (which.dtype == DTYPE_PRED && !list)
        k = !k;
    if (k < 0 || k >= n)
        k = n - 1;
    return root_of_call(e, w, branch_of(in, k), (uint32_t)k + 1, out);
}

/* ---- parameters --------------------------------------------------------------------------------- */

static bool env_leaf(struct ev *e, const struct frame *f, const struct want *w, int64_t number,
                     struct value *out)
{
    const struct computation *c = comp_at(e->m, f->comp);
    int64_t leaf = w->leaf;
    *out = unknown;
    for (int64_t p = 0; p < number; p++)
        leaf += instr_shape(e->m, c->params[p])->nleaves;
    if (e->env) {
        if (leaf >= e->env->nleaves || e->env->leaves[leaf].dtype == DTYPE_NONE)
            return true;
        const struct scalar *s = &e->env->leaves[leaf];
        union element *v = ARENA_NEW(e->a, union element);
        if (dtype_kind(s->dtype) == DTYPE_KIND_FLOAT)
            v->f = s->f;
        else
            v->i = s->i;
        *out = (struct value){ .dtype = s->dtype, .n = 1, .v = v };
        return true;
    }
    for (int64_t k = 0; e->tracked && k < e->tracked->n; k++) {
        if (e->tracked->v[k].leaf != leaf)
            continue;
        *out = e->tracked->v[k].now;
        if (leaf == e->counter)
            *out = (struct value){ .dtype = out->dtype, .n = 1, .affine = true };
        return true;
    }
    e->missing = leaf;
    return true;
}

static void find_callers(struct ev *e)
{
    const struct module *m = e->m;
    e->callers = ARENA_ARRAY(e->a, uint32_t, (int64_t)module_ncomps(m) + 1);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            comp_id called[64];
            int n = instr_called(m, k->instrs[j], called, 64);
            for (int x = 0; x < n && x < 64; x++) {
                uint32_t *at = &e->callers[called[x].i];
                *at = *at ? MANY : k->instrs[j].i;
            }
        }
    }
}

/* Whether the body hands leaf on as it came: traced through tuples and copies only. */
static bool is_carried_through(const struct module *m, comp_id body, int64_t leaf)
{
    instr_id i = comp_at(m, body)->root;
    int64_t k = leaf;
    for (int step = 0; step < 1000 && i.i; step++) {
        const struct instr *in = instr_at(m, i);
        if (in->op == OP_PARAMETER)
            return k == leaf;
        if (in->op == OP_TUPLE) {
            const struct shape *s = shape_get(m->ir, in->shape);
            int64_t at = s->nelems - 1;
            while (at > 0 && shape_leaf_offset(m->ir, in->shape, at) > k)
                at--;
            k -= shape_leaf_offset(m->ir, in->shape, at);
            i = in->operands[at];
        } else if (in->op == OP_GET_TUPLE_ELEMENT) {
            k += shape_leaf_offset(m->ir, instr_at(m, in->operands[0])->shape,
                                   instr_int(in, ATTR_INDEX, 0));
            i = in->operands[0];
        } else if (in->op == OP_COPY || in->op == OP_OPT_BARRIER) {
            i = in->operands[0];
        } else {
            return false;
        }
    }
    return false;
}

static uint32_t outer_frame(struct ev *e, comp_id c)
{
    uint64_t at, key = UINT64_MAX - c.i;
    if (map_get(&e->frames_by, key, &at) && e->frames.v[at].kind == FRAME_OUTER)
        return (uint32_t)at;
    at = add_frame(e, (struct frame){ .kind = FRAME_OUTER, .comp = c });
    map_put(&e->frames_by, key, at);
    return (uint32_t)at;
}

/* A parameter of a computation of which only the place is known: what its one caller passes. */
static bool outer_param(struct ev *e, comp_id c, const struct want *w, int64_t number,
                        struct value *out)
{
    if (!e->callers)
        find_callers(e);
    uint32_t site = e->callers[c.i];
    *out = unknown;
    if (site == 0 || site == MANY)
        return true;
    const struct instr *in = instr_at(e->m, (instr_id){ site });
    int64_t operand = -1;
    if (in->op == OP_CALL || in->op == OP_FUSION)
        operand = number;
    else if (in->op == OP_WHILE && is_carried_through(e->m, comp_attr(in, ATTR_BODY), w->leaf))
        operand = 0;
    for (int64_t k = 0; in->op == OP_CONDITIONAL && k + 1 < in->noperands; k++)
        if (branch_of(in, k).i == c.i)
            operand = k + 1;
    if (operand < 0 || operand >= in->noperands)
        return true;
    return take(e, outer_frame(e, in->comp), in->operands[operand], w->leaf, out);
}

static bool parameter(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    const struct frame f = e->frames.v[w->frame];
    int64_t n = instr_param_number(in);
    *out = unknown;
    if (n < 0)
        return true;
    if (f.kind == FRAME_ENV)
        return env_leaf(e, &f, w, n, out);
    if (f.kind == FRAME_OUTER)
        return outer_param(e, f.comp, w, n, out);
    const struct instr *site = instr_at(e->m, f.site);
    if (f.first + n >= site->noperands)
        return true;
    return take(e, f.parent, site->operands[f.first + n], w->leaf, out);
}

/* ---- loops -------------------------------------------------------------------------------------- */

static void run(struct ev *e);
enum { COUNT = -1 }; /* in place of a leaf: how often the body runs */

/* One value of an iteration. false: a leaf is missing from the tracked ones (e->missing). */
static bool of_iteration(struct ev *in, comp_id c, uint32_t frame, int64_t leaf, struct value *out)
{
    while (!take(in, frame, comp_at(in->m, c)->root, leaf, out)) {
        run(in);
        if (in->missing >= 0)
            return false;
    }
    return in->missing < 0;
}

/* Condition and, when it holds, next values, written to next[]. */
static bool iterate(struct ev *in, comp_id cond, comp_id body, const tracked_vec *tracked,
                    struct value *test, struct value *next)
{
    uint32_t fc = add_frame(in, (struct frame){ .kind = FRAME_ENV, .comp = cond });
    uint32_t fb = add_frame(in, (struct frame){ .kind = FRAME_ENV, .comp = body });
    if (!of_iteration(in, cond, fc, 0, test))
        return false;
    if (!test->v || !test->v[0].i)
        return true;
    for (int64_t k = 0; k < tracked->n; k++)
        if (!of_iteration(in, body, fb, tracked->v[k].leaf, &next[k]))
            return false;
    return true;
}

static void set_now(struct arena *a, struct tracked *t, const struct value *v)
{
    t->now = v->v ? *v : unknown; /* what hangs on an outer loop's counter is unknown in here */
    if (!v->v)
        return;
    if (!t->store)
        t->store = ARENA_ARRAY(a, union element, MAX_ELEMENTS);
    memcpy(t->store, v->v, (size_t)v->n * sizeof *v->v);
    t->now.v = t->store;
}

static bool start_values(struct ev *e, const struct want *w, tracked_vec *tracked)
{
    bool all = true;
    instr_id init = instr_at(e->m, w->instr)->operands[0];
    for (int64_t k = 0; k < tracked->n; k++) {
        struct value v;
        if (take(e, w->frame, init, tracked->v[k].leaf, &v))
            set_now(e->a, &tracked->v[k], &v);
        else
            all = false;
    }
    return all;
}

/* The one leaf that changes from turn to turn, when it is an integer; -1. */
static int64_t changing_leaf(const struct module *m, comp_id body, const tracked_vec *tracked)
{
    int64_t found = -1;
    for (int64_t k = 0; k < tracked->n; k++) {
        if (is_carried_through(m, body, tracked->v[k].leaf))
            continue;
        const struct value *v = &tracked->v[k].now;
        enum dtype_kind kind = v->v ? dtype_kind(v->dtype) : DTYPE_KIND_NONE;
        if (found >= 0 || v->n != 1 || (kind != DTYPE_KIND_SIGNED && kind != DTYPE_KIND_UNSIGNED))
            return -1;
        found = k;
    }
    return found;
}

/* A long loop that only counts: its end is computed from one turn with the counter left open. *turns:
 * from here on. */
static bool jump_to_end(struct ev *e, comp_id cond, comp_id body, tracked_vec *tracked,
                        int64_t *turns)
{
    int64_t at = changing_leaf(e->m, body, tracked);
    if (at < 0)
        return false;
    struct tracked *t = &tracked->v[at];
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct ev in;
    ev_init(&in, e->m, &tmp, e->steps, e->depth + 1);
    in.tracked = tracked;
    in.counter = t->leaf;
    in.counter_type = t->now.dtype;
    uint32_t fc = add_frame(&in, (struct frame){ .kind = FRAME_ENV, .comp = cond });
    uint32_t fb = add_frame(&in, (struct frame){ .kind = FRAME_ENV, .comp = body });
    struct value test, step;
    *turns = -1;
    if (of_iteration(&in, cond, fc, 0, &test) && of_iteration(&in, body, fb, t->leaf, &step))
        *turns = affine_trips(t->now.dtype, t->store[0].i, &step, &test);
    if (*turns >= 0)
        t->store[0].i += *turns * step.delta; /* in range: affine_trips saw to it */
    arena_close(&tmp);
    return *turns >= 0;
}

enum { PATIENCE = 100 }; /* turns before the end is looked for in another way */

enum outcome { LOOP_ENDED, LOOP_UNKNOWN, LOOP_MISSES_LEAF };

static enum outcome run_loop(struct ev *e, comp_id cond, comp_id body, tracked_vec *tracked,
                             int64_t *count)
{
    struct value next[64];
    for (*count = 0;; (*count)++) {
        struct arena tmp = { 0 };
        arena_open(&tmp);
        struct ev in;
        ev_init(&in, e->m, &tmp, e->steps, e->depth + 1);
        in.tracked = tracked;
        struct value test;
        bool complete = iterate(&in, cond, body, tracked, &test, next);
        int64_t leaf = in.missing;
        bool ends = complete && test.v && !test.v[0].i, stuck = complete && !test.v;
        for (int64_t k = 0; complete && !ends && !stuck && k < tracked->n; k++)
            set_now(e->a, &tracked->v[k], &next[k]);
        arena_close(&tmp);
        if (!complete) {
            if (tracked->n == (int64_t)COUNTOF(next))
                return LOOP_UNKNOWN;
            vec_push(e->a, tracked, ((struct tracked){ .leaf = leaf }));
            return LOOP_MISSES_LEAF;
        }
        if (ends || stuck || *e->steps <= 0)
            return ends ? LOOP_ENDED : LOOP_UNKNOWN;
        int64_t rest;
        if (*count == PATIENCE && jump_to_end(e, cond, body, tracked, &rest)) {
            *count += 1 + rest;
            return LOOP_ENDED;
        }
    }
}

/* Runs a loop for one carried leaf, or for the number of turns. The leaves that matter are found by
 * trying: each time one more is tracked from the start. */
static bool loop(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    comp_id cond = comp_attr(in, ATTR_CONDITION), body = comp_attr(in, ATTR_BODY);
    *out = unknown;
    if (!cond.i || !body.i || e->depth >= MAX_DEPTH)
        return true;
    if (w->leaf != COUNT && is_carried_through(e->m, body, w->leaf))
        return take(e, w->frame, in->operands[0], w->leaf, out);
    tracked_vec tracked = { 0 };
    if (w->leaf != COUNT)
        vec_push(e->a, &tracked, ((struct tracked){ .leaf = w->leaf }));
    int64_t count;
    enum outcome o;
    do {
        if (!start_values(e, w, &tracked))
            return false;
        o = run_loop(e, cond, body, &tracked, &count);
    } while (o == LOOP_MISSES_LEAF);
    if (o != LOOP_ENDED)
        return true;
    if (w->leaf == COUNT) {
        union element *v = ARENA_NEW(e->a, union element);
        v->i = count;
        *out = (struct value){ .dtype = DTYPE_S64, .n = 1, .v = v };
    } else {
        *out = tracked.v[0].now;
    }
    return true;
}

/* ---- one instruction ---------------------------------------------------------------------------- */

static bool constant(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    const struct literal *l = in->literal;
    int64_t leaf = w->leaf;
    while (l && l->elems) {
        int64_t k = l->nelems - 1;
        while (k > 0 && shape_leaf_offset(e->m->ir, l->shape, k) > leaf)
            k--;
        leaf -= shape_leaf_offset(e->m->ir, l->shape, k);
        l = l->elems[k];
    }
    *out = unknown;
    if (l)
        eval_literal(e->a, e->m, l, out);
    return true;
}

static bool tuple(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    int64_t lo = 0, hi = in->noperands; /* the last element that begins at or before the leaf */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (shape_leaf_offset(e->m->ir, in->shape, mid) <= w->leaf)
            lo = mid;
        else
            hi = mid;
    }
    return take(e, w->frame, in->operands[lo],
                w->leaf - shape_leaf_offset(e->m->ir, in->shape, lo), out);
}

static bool passes_through(const struct module *m, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    return op == OP_COPY || op == OP_OPT_BARRIER || op == OP_DOMAIN || op == OP_ADD_DEPENDENCY ||
           (op == OP_CUSTOM_CALL && in->noperands == 1 && strcmp(instr_target(m, in), "Sharding") == 0);
}

/* and, or: one operand can decide alone. select: only the chosen one is needed. */
static bool decided(struct ev *e, const struct want *w, const struct instr *in, struct value *out,
                    bool *pending)
{
    *pending = false;
    if (in->op == OP_SELECT) {
        struct value p;
        if (!take(e, w->frame, in->operands[0], 0, &p)) {
            *pending = true;
            return false;
        }
        if (!p.v || p.n != 1)
            return false;
        *pending = !take(e, w->frame, in->operands[p.v[0].i ? 1 : 2], 0, out);
        return !*pending;
    }
    if ((in->op != OP_AND && in->op != OP_OR) || in->noperands != 2)
        return false;
    for (int k = 0; k < 2; k++) {
        struct value x;
        if (!take(e, w->frame, in->operands[k], 0, &x)) {
            *pending = true;
            continue;
        }
        if (x.v && x.dtype == DTYPE_PRED && x.n == 1 && (x.v[0].i != 0) == (in->op == OP_OR)) {
            *out = x;
            return true;
        }
    }
    return false;
}

static bool arithmetic(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    struct value args[8];
    const struct value *ops[8];
    bool pending;
    *out = unknown;
    if (!eval_knows((enum op_kind)in->op) || in->noperands > COUNTOF(args))
        return true;
    if (decided(e, w, in, out, &pending))
        return true;
    bool known = true;
    for (uint32_t k = 0; k < in->noperands && !pending; k++) {
        if (!take(e, w->frame, in->operands[k], 0, &args[k])) {
            pending = true;
            break;
        }
        ops[k] = &args[k];
        known = known && args[k].v;
    }
    if (pending)
        return false;
    if (known)
        eval_op(e->a, e->m, w->instr, ops, out);
    return true;
}

/* With the counter left open. */
static bool hanging(struct ev *e, const struct want *w, const struct instr *in, struct value *out)
{
    struct value a = unknown, b = unknown;
    if (in->noperands < 1 || in->noperands > 2)
        return arithmetic(e, w, in, out);
    if (!take(e, w->frame, in->operands[0], 0, &a) ||
        (in->noperands == 2 && !take(e, w->frame, in->operands[1], 0, &b)))
        return false;
    if (!a.affine && !b.affine)
        return arithmetic(e, w, in, out);
    *out = unknown;
    (void)affine_op(e->m, w->instr, e->counter_type, &a, &b, out);
    return true;
}

/* false: something is missing and was put on the stack. */
static bool compute(struct ev *e, const struct want *w, struct value *out)
{
    const struct instr *in = instr_at(e->m, w->instr);
    enum op_kind op = (enum op_kind)in->op;
    if (op == OP_CONSTANT)
        return constant(e, w, in, out);
    if (op == OP_PARAMETER)
        return parameter(e, w, in, out);
    if (op == OP_TUPLE)
        return tuple(e, w, in, out);
    if (op == OP_GET_TUPLE_ELEMENT)
        return take(e, w->frame, in->operands[0],
                    w->leaf + shape_leaf_offset(e->m->ir, instr_at(e->m, in->operands[0])->shape,
                                                instr_int(in, ATTR_INDEX, 0)),
                    out);
    if (op == OP_CALL || op == OP_FUSION)
        return root_of_call(e, w, comp_attr(in, op == OP_FUSION || instr_attr(in, ATTR_CALLS)
                                                    ? ATTR_CALLS : ATTR_TO_APPLY), 0, out);
    if (op == OP_CONDITIONAL)
        return conditional(e, w, in, out);
    if (op == OP_WHILE)
        return loop(e, w, in, out);
    if (passes_through(e->m, in))
        return take(e, w->frame, in->operands[0], w->leaf, out);
    return e->counter >= 0 ? hanging(e, w, in, out) : arithmetic(e, w, in, out);
}

/* Empties the stack. Out of steps nothing more can be told; short of a leaf the rest stays. */
static void run(struct ev *e)
{
    while (e->stack.n && e->missing < 0) {
        int64_t height = e->stack.n;
        struct want w = e->stack.v[height - 1];
        struct memo *m = memo_of(e, w);
        struct value v = unknown;
        if (m->state != MEMO_DONE) {
            m->state = MEMO_OPEN;
            if ((*e->steps)-- > 0 && !compute(e, &w, &v))
                continue;
            m = memo_of(e, w);
            m->value = v;
            m->state = MEMO_DONE;
        }
        e->stack.n = height - 1; /* also what turned out not to be needed */
    }
}

/* ---- from outside ------------------------------------------------------------------------------- */

bool scalar_eval(const struct module *m, comp_id c, instr_id i, struct scalar_env *env,
                 struct scalar *out)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct ev e;
    ev_init(&e, m, &tmp, &env->steps, 0);
    e.env = env;
    uint32_t f = add_frame(&e, (struct frame){ .kind = FRAME_ENV, .comp = c });
    struct value v;
    while (!take(&e, f, i, 0, &v))
        run(&e);
    bool known = v.v && v.n == 1;
    if (known) {
        *out = (struct scalar){ .dtype = v.dtype };
        if (dtype_kind(v.dtype) == DTYPE_KIND_FLOAT)
            out->f = v.v[0].f;
        else
            out->i = v.v[0].i;
    }
    arena_close(&tmp);
    return known;
}

int64_t while_trip_count(const struct module *m, instr_id loop_, int64_t steps)
{
    const struct instr *in = instr_at(m, loop_);
    if (in->op != OP_WHILE || in->noperands != 1)
        return -1;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct ev e;
    ev_init(&e, m, &tmp, &steps, 0);
    struct want w = { outer_frame(&e, in->comp), loop_, COUNT };
    struct value v;
    while (!loop(&e, &w, in, &v))
        run(&e);
    int64_t n = v.v ? v.v[0].i : -1;
    arena_close(&tmp);
    return n;
}
