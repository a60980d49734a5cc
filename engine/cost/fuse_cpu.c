/* What XLA's CPU compiler computes inside what: the plan's kernels under `plain_matrix`.
 *
 * Kernels are grown from the last operation of a computation to the first. A kernel takes in, of what it reads, the
 * value that comes last in the order, again and again, until nothing is left that may go in. A value with several
 * readers is computed again in each of them when that reads no more from memory than reading it would (at most
 * one operand that counts, or operands no larger than the result), or when it can go into all of its readers on
 * every way that leads there; and never when it is dear. What remains of it, if anything, is a kernel of its own.
 * An operation goes into a kernel only if it is evaluated there at most 15 times for an element: once for each
 * operation with an index of its own that asks for it (a change of shape makes a new index). */
#include <string.h>

#include "cost/internal.h"

enum {
    MOST_EVALUATIONS = 15, /* of an operation, by one kernel for one element */
    MOST_BETWEEN = 2048,   /* operations between a value and its reader that are looked at */
    MOST_READERS = 64
};

/* Which operations ask for an operation's elements with an index of their own: more than MOST_EVALUATIONS need no
 * names. */
struct askers {
    int n;
    uint32_t who[MOST_EVALUATIONS + 1];
};

struct fuser {
    struct cost_plan *p;
    struct arena *tmp;
    const instr_id *order;   /* of the computation at hand, operands first */
    uint32_t n;
    uint32_t *at;            /* [ninstrs + 1] place in order, from 1 */
    uint32_t *readers;       /* [ninstrs + 1] kernels made so far that read it from memory */
    bool *absorbed;          /* [ninstrs + 1] computed inside some kernel */
    bool *stays;             /* [ninstrs + 1] is not computed again in its readers */
    uint32_t *member, *offered, *met; /* [ninstrs + 1] kernel (or question) that met it last */
    bool *dense;             /* [ninstrs + 1] in the kernel at hand: asked for more than once by element */
    uint32_t *times;         /* [ninstrs + 1] evaluations in the kernel at hand */
    struct askers *askers;   /* [n + 1] by place */
    uint32_t question;
    instr_id *way, *between; /* [MOST_BETWEEN + 1] */
    VEC(uint32_t) heap;      /* places of what the kernel at hand reads, the last one on top */
};

/* ---- the graph without barriers ------------------------------------------------------------------------------- */

static instr_id operand_of(const struct fuser *f, const struct instr *in, uint32_t k)
{
    instr_id x = in->operands[k];
    return f->p->through[x.i].i ? f->p->through[x.i] : x;
}

/* ---- single operations ------------------------------------------------------------------------------------------ */

static bool may_go_in(const struct fuser *f, instr_id i)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, i);
    return op_is_loop(m, in) && !op_strided_reduce(m, in) && comp_at(m, in->comp)->root.i != i.i;
}

static bool takes_in(const struct fuser *f, instr_id i)
{
    const struct module *m = f->p->module;
    return op_is_loop(m, instr_at(m, i)) && !op_strided_reduce(m, instr_at(m, i));
}

static bool too_dear(const struct instr *in)
{
    return op_is_dear(in) || in->op == OP_GATHER || in->op == OP_DYNAMIC_UPDATE_SLICE;
}

/* Operations whose code is made anew for every element that is asked for. */
static bool is_made_anew(const struct instr *in)
{
    return in->op == OP_CONCATENATE || in->op == OP_PAD || in->op == OP_REDUCE || in->op == OP_DYNAMIC_UPDATE_SLICE;
}

static bool in_place(const struct fuser *f, const struct instr *user, instr_id x)
{
    return user->op == OP_DYNAMIC_UPDATE_SLICE && operand_of(f, user, 0).i == x.i;
}

/* The two of them alone: x may be computed in its reader. */
static bool pair_fits(const struct fuser *f, instr_id x, instr_id reader)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, x), *by = instr_at(m, reader);
    return may_go_in(f, x) && takes_in(f, reader) && !in_place(f, by, x) && !(too_dear(in) && op_reuses(m, by));
}

/* ---- which values are not computed again ------------------------------------------------------------------------- */

/* Reads no more than reading its result would. */
static bool free_to_repeat(const struct fuser *f, instr_id i)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, i);
    int64_t read = 0;
    int large = 0, rank = 0;
    const struct shape *s = shape_get(m->ir, in->shape);
    for (int d = 0; d < s->rank; d++)
        rank += s->dims[d] != 1;
    for (uint32_t k = 0; k < in->noperands; k++) {
        const struct shape *o = instr_shape(m, in->operands[k]);
        enum op_kind op = (enum op_kind)instr_at(m, in->operands[k])->op;
        int r = 0;
        for (int d = 0; o->kind == SHAPE_ARRAY && d < o->rank; d++)
            r += o->dims[d] != 1;
        large += r >= rank && op != OP_BROADCAST && op != OP_IOTA && !(op == OP_CONSTANT && o->count == 1);
        read += max_i64(o->bytes, 0);
    }
    return large <= 1 || read <= s->bytes;
}

/* Whether all ways from x to its reader consist of operations that go into the next. Looked at backwards, from
 * the reader, as far as x lies. */
static bool fits_on_all_ways(struct fuser *f, instr_id x, instr_id reader)
{
    const struct module *m = f->p->module;
    uint32_t q = ++f->question, nway = 1;
    instr_id *way = f->way, *between = f->between;
    /* operations between them: marked forwards, in order */
    way[0] = reader;
    between[0] = x;
    uint32_t n = 1;
    f->met[x.i] = q;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t u = 0; u < users_count(&f->p->users, between[k]); u++) {
            instr_id y = users_of(&f->p->users, between[k])[u];
            if (f->met[y.i] == q || f->at[y.i] == 0 || f->at[y.i] >= f->at[reader.i])
                continue;
            if (n == MOST_BETWEEN)
                return false;
            f->met[y.i] = q;
            between[n++] = y;
        }
    uint32_t back = ++f->question;
    for (uint32_t k = 0; k < nway; k++) {
        const struct instr *in = instr_at(m, way[k]);
        for (uint32_t o = 0; o < in->noperands; o++) {
            instr_id y = operand_of(f, in, o);
            if (f->met[y.i] != q) /* x does not lead to it, or it was seen */
                continue;
            if (!pair_fits(f, y, way[k]) || (y.i != x.i && f->stays[y.i]))
                return false;
            if (y.i == x.i)
                continue;
            f->met[y.i] = back;
            way[nway++] = y;
        }
    }
    return true;
}

/* A tuple that only goes into a barrier reads nothing: who comes after the barrier does. */
static bool only_forwards(const struct fuser *f, instr_id i)
{
    instr_id barrier;
    const struct instr *in = instr_at(f->p->module, i);
    return in->op == OP_OPT_BARRIER || f->p->through[i.i].i || barrier_of(f->p, i, &barrier);
}

static void find_what_stays(struct fuser *f)
{
    const struct module *m = f->p->module;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct instr *in = instr_at(m, f->order[k]);
        if (only_forwards(f, f->order[k]))
            continue;
        for (uint32_t o = 0; o < in->noperands; o++) {
            instr_id x = operand_of(f, in, o);
            if (f->stays[x.i] || f->at[x.i] == 0 || !op_is_loop(m, instr_at(m, x)) || free_to_repeat(f, x))
                continue;
            f->stays[x.i] = !fits_on_all_ways(f, x, f->order[k]);
        }
    }
}

/* ---- one kernel ---------------------------------------------------------------------------------------------------- */

static void heap_push(struct fuser *f, uint32_t x)
{
    vec_push(f->tmp, &f->heap, x);
    int64_t i = f->heap.n - 1;
    while (i > 0 && f->heap.v[(i - 1) / 2] < x) {
        f->heap.v[i] = f->heap.v[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    f->heap.v[i] = x;
}

static uint32_t heap_pop(struct fuser *f)
{
    uint32_t top = f->heap.v[0], last = f->heap.v[--f->heap.n];
    int64_t i = 0, n = f->heap.n;
    while (2 * i + 1 < n) {
        int64_t c = 2 * i + 1;
        if (c + 1 < n && f->heap.v[c + 1] > f->heap.v[c])
            c++;
        if (f->heap.v[c] <= last)
            break;
        f->heap.v[i] = f->heap.v[c];
        i = c;
    }
    if (n > 0)
        f->heap.v[i] = last;
    return top;
}

static void ask(struct askers *a, uint32_t who)
{
    for (int k = 0; k < a->n; k++)
        if (a->who[k] == who)
            return;
    if (a->n <= MOST_EVALUATIONS)
        a->who[a->n++] = who;
}

/* x is read by `by`, an operation of the kernel: with the index that `by` is asked with, or with one of its own. */
static void asked_by(struct fuser *f, instr_id x, instr_id by)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, by);
    struct askers *a = &f->askers[f->at[x.i]], *b = &f->askers[f->at[by.i]];
    const struct shape *s = instr_shape(m, x), *t = shape_get(m->ir, in->shape);
    bool same = in->op == OP_RESHAPE || (s->kind == SHAPE_ARRAY && t->kind == SHAPE_ARRAY && s->rank == t->rank &&
                                         memcmp(s->dims, t->dims, (size_t)s->rank * sizeof *s->dims) == 0);
    if (!same) {
        ask(a, by.i);
        return;
    }
    for (int k = 0; k < b->n; k++)
        ask(a, b->who[k]);
}

static void offer(struct fuser *f, uint32_t kernel, instr_id by)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, by);
    for (uint32_t o = 0; o < in->noperands; o++) {
        instr_id x = operand_of(f, in, o);
        if (f->at[x.i] == 0)
            continue;
        if (f->offered[x.i] != kernel) {
            f->offered[x.i] = kernel;
            f->dense[x.i] = false;
            f->askers[f->at[x.i]].n = 0;
            heap_push(f, f->at[x.i]);
        }
        f->dense[x.i] = f->dense[x.i] || f->dense[by.i] || op_reuses(m, in);
        asked_by(f, x, by);
        if (in_place(f, in, x))
            f->askers[f->at[x.i]].n = MOST_EVALUATIONS + 1; /* has to be there */
    }
}

static uint32_t evaluations(const struct fuser *f, instr_id x)
{
    const struct askers *a = &f->askers[f->at[x.i]];
    uint32_t sum = a->n > MOST_EVALUATIONS ? MOST_EVALUATIONS + 1 : 0;
    for (int k = 0; k < a->n && sum <= MOST_EVALUATIONS; k++)
        sum += f->times[a->who[k]];
    return sum;
}

/* Others than this kernel read x: kernels that are made, and operations before this one that are still to come. */
static bool has_other_readers(const struct fuser *f, uint32_t kernel, instr_id root, instr_id x)
{
    struct value_reader list[MOST_READERS];
    int n = readers_of(f->p, x, list, MOST_READERS);
    if (n < 0 || f->readers[x.i] > 0)
        return true;
    for (int k = 0; k < n; k++)
        if (f->member[list[k].user.i] != kernel && f->at[list[k].user.i] < f->at[root.i])
            return true;
    return false;
}

static bool goes_in(const struct fuser *f, uint32_t kernel, instr_id root, instr_id x, bool first)
{
    const struct module *m = f->p->module;
    const struct instr *in = instr_at(m, x);
    if (!may_go_in(f, x) || f->stays[x.i] || (too_dear(in) && f->dense[x.i]))
        return false;
    if (too_dear(in) && has_other_readers(f, kernel, root, x))
        return false;
    uint32_t times = evaluations(f, x);
    if (f->askers[f->at[x.i]].n > MOST_EVALUATIONS)
        return false;
    return first || in->op == OP_BROADCAST || (times <= MOST_EVALUATIONS && !(times > 1 && is_made_anew(in)));
}

static void grow(struct fuser *f, instr_id root)
{
    struct cost_plan *p = f->p;
    uint32_t kernel = root.i;
    f->heap.n = 0;
    f->member[root.i] = kernel;
    f->dense[root.i] = false;
    f->times[root.i] = 1;
    f->askers[f->at[root.i]] = (struct askers){ .n = 1, .who = { root.i } };
    p->inside_at[root.i] = (uint32_t)p->inside.n;
    offer(f, kernel, root);
    /* what only names its operand anew is no kernel */
    bool grows = takes_in(f, root) && !op_is_reshape(p->module, instr_at(p->module, root)), first = true;
    while (f->heap.n > 0) {
        instr_id x = f->order[heap_pop(f) - 1];
        if (!grows || !goes_in(f, kernel, root, x, first)) {
            f->readers[x.i]++;
            continue;
        }
        first = false;
        f->member[x.i] = kernel;
        f->absorbed[x.i] = true;
        f->times[x.i] = evaluations(f, x);
        vec_push(&p->arena, &p->inside, x);
        offer(f, kernel, x);
    }
    p->inside_n[root.i] = (uint32_t)p->inside.n - p->inside_at[root.i];
}

/* ---- a computation --------------------------------------------------------------------------------------------------- */

struct fuser *fuse_cpu_new(struct cost_plan *p, struct arena *tmp)
{
    int64_t n = (int64_t)module_ninstrs(p->module) + 2;
    struct fuser *f = ARENA_ARRAY(tmp, struct fuser, 1);
    f->p = p;
    f->tmp = tmp;
    f->at = ARENA_ARRAY(tmp, uint32_t, n);
    f->readers = ARENA_ARRAY(tmp, uint32_t, n);
    f->absorbed = ARENA_ARRAY(tmp, bool, n);
    f->stays = ARENA_ARRAY(tmp, bool, n);
    f->member = ARENA_ARRAY(tmp, uint32_t, n);
    f->offered = ARENA_ARRAY(tmp, uint32_t, n);
    f->met = ARENA_ARRAY(tmp, uint32_t, n);
    f->dense = ARENA_ARRAY(tmp, bool, n);
    f->times = ARENA_ARRAY(tmp, uint32_t, n);
    f->way = ARENA_ARRAY(tmp, instr_id, MOST_BETWEEN + 1);
    f->between = ARENA_ARRAY(tmp, instr_id, MOST_BETWEEN + 1);
    p->inside_at = ARENA_ARRAY(&p->arena, uint32_t, n);
    p->inside_n = ARENA_ARRAY(&p->arena, uint32_t, n);
    return f;
}

void fuse_cpu(struct fuser *f, const instr_id *order, uint32_t n)
{
    f->order = order;
    f->n = n;
    f->askers = ARENA_ARRAY(f->tmp, struct askers, (int64_t)n + 2);
    for (uint32_t k = 0; k < n; k++)
        f->at[order[k].i] = k + 1;
    find_what_stays(f);
    for (uint32_t k = n; k-- > 0;) {
        instr_id i = order[k];
        if (only_forwards(f, i))
            continue;
        if (f->absorbed[i.i] && f->readers[i.i] == 0)
            f->p->fused[i.i] = true;
        else
            grow(f, i);
    }
    for (uint32_t k = 0; k < n; k++) /* other computations' operations have no place here */
        f->at[order[k].i] = 0;
}
