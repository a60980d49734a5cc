/* All values of a program on one clock: a kernel takes a tick, a loop or a call those of what it runs
 * besides. A computation that several call stands where the first of them is.
 *
 * Two figures come from the same clock: the peak, where an output is there from when it is made; and
 * XLA's "temporaries", where outputs have allocations of their own for the whole run, in which other
 * values may lie as long as nothing else is there. */
#include <stdlib.h>
#include <string.h>

#include "cost/live.h"

enum { MOST_CALLED = 256, MOST_HOSTS = 128 };

/* ---- the clock -------------------------------------------------------------------------------------- */

static bool is_run(const struct instr *in)
{
    return in->op == OP_WHILE || in->op == OP_CONDITIONAL || in->op == OP_CALL || in->op == OP_ASYNC_START;
}

struct visit {
    comp_id comp;
    uint32_t next;   /* kernel */
    int called_next, ncalled; /* computations of kernel next - 1 */

    const comp_id *many;
};

static void open_visit(struct liver *l, struct visit *v, comp_id c)
{
    *v = (struct visit){ .comp = c };
    l->lives[c.i].time = ARENA_ARRAY(&l->tmp, int64_t, (int64_t)l->p->norder[c.i] + 1);
    if (l->p->norder[c.i] == 0)
        l->lives[c.i].time[0] = l->clock;
}

/* The computations that kernel i runs and that have no place yet. */
static void find_called(struct liver *l, struct visit *v, instr_id i)
{
    comp_id *called = ARENA_ARRAY(&l->tmp, comp_id, MOST_CALLED);
    int n = instr_called(l->p->module, i, called, MOST_CALLED);
    v->many = called;
    v->ncalled = n < MOST_CALLED ? n : MOST_CALLED;
    v->called_next = 0;
}

static void set_clock(struct liver *l)
{
    const struct cost_plan *p = l->p;
    VEC(struct visit) stack = { 0 };
    struct visit first;
    open_visit(l, &first, p->module->entry);
    vec_push(&l->tmp, &stack, first);
    while (stack.n > 0) {
        struct visit *v = &stack.v[stack.n - 1];
        struct life *f = &l->lives[v->comp.i];
        if (v->called_next < v->ncalled) {
            comp_id c = v->many[v->called_next++];
            if (p->use[c.i] == COMP_RUN && !l->lives[c.i].time) {
                struct visit inner;
                open_visit(l, &inner, c);
                vec_push(&l->tmp, &stack, inner);
            }
            continue;
        }
        if (v->next == p->norder[v->comp.i]) {
            f->time[v->next] = l->clock;
            stack.n--;
            continue;
        }
        instr_id i = p->order[v->comp.i][v->next];
        f->time[v->next++] = l->clock++;
        if (is_run(instr_at(p->module, i)))
            find_called(l, v, i);
    }
}

static bool has_storage(const struct liver *l, const struct life *f, const struct value *v)
{
    if (v->bytes <= 0)
        return false;
    return v->place == PLACE_OWN ||
           (v->place == PLACE_RESULT && f->comp.i == l->p->module->entry.i && l->alias[v->number] < 0);
}

static void place_one(struct liver *l, struct life *f, int64_t k, int64_t *number)
{
    struct value *v = &f->values[k];
    number[k] = -1;
    if (!has_storage(l, f, v))
        return;
    uint32_t n = l->p->norder[f->comp.i];
    struct placed *x = &l->placed[l->nplaced];
    *x = (struct placed){ .v = v, .comp = f->comp, .from = f->time[v->made], .host = -1,
                          .to = v->last < n ? f->time[v->last + 1] - 1 : f->time[n], .output = v->place == PLACE_RESULT };
    if (x->to >= l->clock)
        x->to = l->clock - 1;
    for (uint8_t o = 0; o < v->nover; o++)
        if (number[v->over[o]] >= 0)
            x->over[x->nover++] = number[v->over[o]];
    number[k] = l->nplaced++;
}

void place_values(struct liver *l)
{
    const struct cost_plan *p = l->p;
    int64_t all = 0, most = 0;
    set_clock(l);
    for (uint32_t c = 0; c < p->ncomps; c++) {
        all += l->lives[p->comps[c].i].nvalues;
        most = max_i64(most, l->lives[p->comps[c].i].nvalues);
    }
    l->placed = ARENA_ARRAY(&l->tmp, struct placed, all + 1);
    int64_t *number = ARENA_ARRAY(&l->tmp, int64_t, most + 1);
    for (uint32_t c = 0; c < p->ncomps; c++) {
        struct life *f = &l->lives[p->comps[c].i];
        for (int64_t k = 0; f->time && k < f->nvalues; k++)
            place_one(l, f, k, number);
    }
}

/* ---- walking it ------------------------------------------------------------------------------------------ */

/* Values chained by a tick: from (starts) or to (ends). */
static int64_t *chain(struct liver *l, bool ends, int64_t *next)
{
    int64_t *first = ARENA_ARRAY(&l->tmp, int64_t, l->clock + 1);
    for (int64_t k = 0; k <= l->clock; k++)
        first[k] = -1;
    for (int64_t k = l->nplaced; k-- > 0;) {
        int64_t t = ends ? l->placed[k].to : l->placed[k].from;
        next[k] = first[t];
        first[t] = k;
    }
    return first;
}

static bool counts(const struct placed *x, bool outputs, bool hosted)
{
    return x->output ? outputs : !(hosted && x->host >= 0);
}

/* XLA lays values out at multiples of 64 bytes. */
static int64_t size_of(const struct placed *x, bool hosted)
{
    return hosted ? ceil_div(x->v->bytes, 64) * 64 : x->v->bytes;
}

/* What x takes over gives its bytes up before x is there. */
static int64_t taken_over(struct liver *l, const struct placed *x, bool outputs, bool hosted)
{
    for (uint8_t o = 0; o < x->nover; o++) {
        struct placed *u = &l->placed[x->over[o]];
        if (u->gave || u->to != x->from || !counts(u, outputs, hosted) || u->output || (hosted && x->output))
            continue;
        u->gave = true;
        return size_of(u, hosted);
    }
    return 0;
}

int64_t place_sweep(struct liver *l, bool outputs, bool hosted, int64_t *at, int64_t *curve)
{
    int64_t *next_start = ARENA_ARRAY(&l->tmp, int64_t, l->nplaced + 1);
    int64_t *next_end = ARENA_ARRAY(&l->tmp, int64_t, l->nplaced + 1);
    int64_t *starts = chain(l, false, next_start), *ends = chain(l, true, next_end);
    const struct life *entry = &l->lives[l->p->module->entry.i];
    uint32_t kernel = 0, nkernels = l->p->norder[l->p->module->entry.i];
    int64_t now = 0, most = 0;
    *at = 0;
    for (int64_t k = 0; k < l->nplaced; k++)
        l->placed[k].gave = false;
    for (int64_t t = 0; t < l->clock; t++) {
        for (int64_t k = starts[t]; k >= 0; k = next_start[k])
            if (counts(&l->placed[k], outputs, hosted))
                now += size_of(&l->placed[k], hosted) - taken_over(l, &l->placed[k], outputs, hosted);
        if (now > most) {
            most = now;
            *at = t;
        }
        while (curve && kernel + 1 < nkernels && entry->time[kernel + 1] <= t)
            kernel++;
        if (curve && nkernels && now > curve[kernel])
            curve[kernel] = now;
        for (int64_t k = ends[t]; k >= 0; k = next_end[k])
            if (counts(&l->placed[k], outputs, hosted) && !l->placed[k].gave)
                now -= size_of(&l->placed[k], hosted);
    }
    return most;
}

/* ---- output allocations as hosts ------------------------------------------------------------------------------ */

struct host {
    int64_t bytes;
    VEC(int64_t) guests; /* by from */
};

struct ranked {
    int64_t bytes, from, number;
    bool output;
};

/* Largest first; of equal ones outputs first, then in the order of the clock. */
static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->output != y->output)
        return x->output ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool may_take_over(const struct liver *l, int64_t later, int64_t earlier)
{
    const struct placed *x = &l->placed[later];
    for (uint8_t o = 0; o < x->nover; o++)
        if (x->over[o] == earlier)
            return true;
    return false;
}

/* Where k would stand among the guests; -1: it would meet one of them. */
static int64_t room_in(const struct liver *l, const struct host *h, int64_t k)
{
    const struct placed *x = &l->placed[k];
    int64_t lo = 0, hi = h->guests.n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (l->placed[h->guests.v[mid]].from <= x->from)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo > 0) {
        int64_t before = h->guests.v[lo - 1];
        const struct placed *b = &l->placed[before];
        if (b->to > x->from || b->from == x->from || (b->to == x->from && !may_take_over(l, k, before)))
            return -1;
    }
    if (lo < h->guests.n) {
        int64_t after = h->guests.v[lo];
        const struct placed *a = &l->placed[after];
        if (x->to > a->from || (x->to == a->from && !may_take_over(l, after, k)))
            return -1;
    }
    return lo;
}

static void be_guest(struct liver *l, struct host *h, int64_t k, int64_t where)
{
    vec_push(&l->tmp, &h->guests, k);
    memmove(h->guests.v + where + 1, h->guests.v + where, (size_t)(h->guests.n - 1 - where) * sizeof(int64_t));
    h->guests.v[where] = k;
}

void place_hosts(struct liver *l)
{
    struct ranked *r = ARENA_ARRAY(&l->tmp, struct ranked, l->nplaced + 1);
    VEC(struct host) hosts = { 0 };
    bool any = false;
    for (int64_t k = 0; k < l->nplaced; k++) {
        r[k] = (struct ranked){ l->placed[k].v->bytes, l->placed[k].from, k, l->placed[k].output };
        any = any || l->placed[k].output;
    }
    if (!any)
        return;
    qsort(r, (size_t)l->nplaced, sizeof *r, by_rank);
    for (int64_t i = 0; i < l->nplaced; i++) {
        struct placed *x = &l->placed[r[i].number];
        if (x->output) {
            struct host h = { .bytes = x->v->bytes };
            be_guest(l, &h, r[i].number, 0);
            x->host = (int32_t)hosts.n;
            vec_push(&l->tmp, &hosts, h);
            continue;
        }
        int64_t least = hosts.n > MOST_HOSTS ? hosts.n - MOST_HOSTS : 0;
        for (int64_t h = hosts.n; h-- > least && x->host < 0;) {
            int64_t where = room_in(l, &hosts.v[h], r[i].number);
            if (where < 0)
                continue;
            be_guest(l, &hosts.v[h], r[i].number, where);
            x->host = (int32_t)h;
        }
    }
}
