/* The record of a run (trace.h): each device logs its own events, meetings are put in order when
 * the run is over, so that nothing depends on which worker came first. */
#include "emulate/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/collective.h"

const char *collective_algorithm_name(enum collective_algorithm a)
{
    switch (a) {
    case COLLECTIVES_RING: return "ring";
    case COLLECTIVES_TREE: return "tree";
    case COLLECTIVES_DIRECT: return "direct";
    }
    return "?";
}

const char *trace_kind_name(enum trace_kind k)
{
    switch (k) {
    case TRACE_COMPUTE: return "compute";
    case TRACE_COLLECTIVE: return "collective";
    case TRACE_WAIT: return "wait";
    case TRACE_KILLED: return "killed";
    case TRACE_FLIGHT: return "in flight";
    }
    return "?";
}

const char *fault_kind_name(enum fault_kind k)
{
    switch (k) {
    case FAULT_DELAY: return "delay";
    case FAULT_DROP: return "drop";
    case FAULT_CORRUPT: return "corrupt";
    case FAULT_KILL: return "kill";
    }
    return "?";
}

/* ---- what a step costs --------------------------------------------------------------------------
 */

enum { MEMORY_BYTES = 1024 };
static const double tick_flops = 131072;

/* Multiplications and additions of a product: twice the result's size times the summed length. */
static double step_flops(const struct plan *p, const struct step *s)
{
    const struct instr *i = instr_at(p->m, s->instr);
    double sum = 1;
    if (i->op == OP_DOT) {
        int n;
        const struct shape *lhs = instr_shape(p->m, i->operands[0]);
        const int64_t *dims = instr_ints(i, ATTR_LHS_CONTRACTING, &n);
        for (int k = 0; k < n; k++)
            sum *= (double)lhs->dims[dims[k]];
    } else if (i->op == OP_CONVOLUTION && s->nin == 2) {
        const struct shape *rhs = instr_shape(p->m, i->operands[1]);
        const struct attr *a = instr_attr(i, ATTR_DIM_LABELS);
        int64_t features = a ? rhs->dims[a->conv->rhs_out] : 1;
        sum = (double)rhs->count / (double)max_i64(features, 1);
    } else {
        return s->nout ? (double)s->lout[0].count : 0;
    }
    return 2 * sum * (double)s->lout[0].count;
}

int64_t trace_cost(const struct plan *p, const struct step *s)
{
    int64_t bytes = 0;
    for (uint32_t k = 0; k < s->nin; k++)
        bytes += s->lin[k].bytes;
    for (uint32_t k = 0; k < s->nout; k++)
        bytes += s->lout[k].bytes;
    return 1 + ceil_div(bytes, MEMORY_BYTES) + (int64_t)ceil(step_flops(p, s) / tick_flops);
}

/* ---- while it runs ------------------------------------------------------------------------------
 */

int64_t turn_of(const struct device *dev, const struct step *s)
{
    return dev->turn && dev->turn[s->instr.i] ? (int64_t)dev->turn[s->instr.i] - 1 : 0;
}

void trace_event(struct run *r, struct device *dev, const struct step *s, enum trace_kind kind,
                 int64_t start, int64_t end, struct meeting *at)
{
    if (!r->tracer)
        return;
    dev->ticks[kind] += end - start;
    if (dev->log.n >= r->tracer->max_events) {
        dev->log_cut = true;
        return;
    }
    struct logged x = { { .device = dev->id,
                          .instr = s->instr,
                          .kind = kind,
                          .turn = turn_of(dev, s),
                          .start = start,
                          .end = end,
                          .meeting = -1 },
                        at };
    vec_push(&dev->log_arena, &dev->log, x);
}

struct meeting *trace_meet(struct run *r, const struct rendezvous *z)
{
    if (!r->tracer)
        return NULL;
    struct meeting *m = calloc(1, sizeof *m);
    if (!m)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for a trace");
    const struct device *dev = z->members[0];
    int64_t *devices = ARENA_ARRAY(&m->arena, int64_t, z->size);
    m->m = (struct trace_meeting){ .instr = z->steps[0]->instr,
                                   .kind = z->coll->kind,
                                   .turn = turn_of(dev, z->steps[0]),
                                   .group = z->group,
                                   .ndevices = z->size,
                                   .devices = devices,
                                   .start = INT64_MAX };
    /* Kept or not is decided by what each member has kept before: the same on every run. */
    bool room = true;
    for (int64_t k = 0; k < z->size; k++) {
        devices[k] = z->members[k]->id;
        m->m.start = min_i64(m->m.start, z->members[k]->clock);
        room &= z->members[k]->hops_kept < r->tracer->max_hops;
    }
    m->m.first_hop = room ? 0 : -1;
    for (int64_t k = 0; k < z->size; k++)
        z->members[k]->hops_kept += room ? 2 * (z->size - 1) : 0;
    pthread_mutex_lock(&r->lock);
    m->next = r->tracer->meetings;
    r->tracer->meetings = m;
    r->tracer->truncated |= !room;
    pthread_mutex_unlock(&r->lock);
    return m;
}

/* ---- asynchronous pairs -------------------------------------------------------------------------
 */

static bool is_start(enum op_kind op)
{
    return op == OP_ALL_GATHER_START || op == OP_ALL_REDUCE_START || op == OP_COLLECTIVE_PERMUTE_START ||
           op == OP_ASYNC_START;
}

/* The -start that the step belongs to: its own, or the one that runs the computation it stands in. */
static instr_id start_of(const struct run *r, const struct device *dev, const struct step *s)
{
    const struct module *m = r->plan->m;
    if (is_start((enum op_kind)instr_at(m, s->instr)->op))
        return s->instr;
    if (dev->depth < 2)
        return (instr_id){ 0 };
    const struct frame *caller = &dev->stack[dev->depth - 2];
    instr_id at = caller->plan->steps[caller->pc].instr;
    return at.i && instr_at(m, at)->op == OP_ASYNC_START ? at : (instr_id){ 0 };
}

bool trace_flies(struct run *r, struct device *dev, const struct step *s, int64_t end, struct meeting *at)
{
    instr_id start = start_of(r, dev, s);
    if (!start.i)
        return false;
    trace_event(r, dev, s, TRACE_FLIGHT, dev->clock, end, at);
    dev->flew = true;
    dev->wire = max_i64(dev->wire, end);
    dev->due[start.i] = end;
    dev->due_at[start.i] = at;
    return true;
}

void trace_done(struct run *r, struct device *dev, const struct step *s)
{
    const struct module *m = r->plan->m;
    instr_id start = instr_at(m, s->instr)->operands[0];
    while (instr_at(m, start)->op == OP_ASYNC_UPDATE)
        start = instr_at(m, start)->operands[0];
    int64_t due = r->tracer ? dev->due[start.i] : 0;
    if (due <= dev->clock)
        return;
    trace_event(r, dev, s, TRACE_WAIT, dev->clock, due, dev->due_at[start.i]);
    dev->overrun += due - dev->clock;
    dev->clock = due;
}

void trace_meet_plain(struct run *r, const struct rendezvous *z)
{
    struct meeting *m = trace_meet(r, z);
    int64_t last = 0;
    for (int64_t k = 0; k < z->size; k++)
        last = max_i64(last, z->members[k]->clock);
    for (int64_t k = 0; k < z->size; k++) {
        struct device *dev = z->members[k];
        if (m && trace_flies(r, dev, z->steps[k], last + 1, m))
            continue;
        if (last > dev->clock)
            trace_event(r, dev, z->steps[k], TRACE_WAIT, dev->clock, last, m);
        trace_event(r, dev, z->steps[k], TRACE_COLLECTIVE, last, last + 1, m);
        dev->clock = last + 1;
    }
    if (m) {
        m->m.end = last + 1;
        m->m.nchunks = z->size;
    }
}

bool watch_step(struct run *r, struct device *dev, const struct step *s)
{
    dev->turn[s->instr.i]++;
    for (int k = 0; k < r->nfaults; k++) {
        struct fault *f = &r->faults[k];
        if (f->device != dev->id || f->instr.i != s->instr.i || f->turn != turn_of(dev, s) ||
            (f->kind != FAULT_DELAY && f->kind != FAULT_KILL))
            continue;
        f->hit = true;
        f->when = dev->clock;
        if (f->kind == FAULT_KILL) {
            trace_event(r, dev, s, TRACE_KILLED, dev->clock, dev->clock, NULL);
            dev->killed = true;
            return false;
        }
        trace_event(r, dev, s, TRACE_WAIT, dev->clock, dev->clock + f->ticks, NULL);
        dev->clock += f->ticks;
    }
    return true;
}

/* ---- begin and end ------------------------------------------------------------------------------
 */

enum { EVENTS = 1 << 20, HOPS = 1 << 20 };

void trace_begin(struct run *r, struct trace *t)
{
    int64_t events = t && t->max_records > 0 ? t->max_records : EVENTS,
            hops = t && t->max_records > 0 ? t->max_records : HOPS;
    if (t) {
        int64_t max = t->max_records;
        trace_free(t);
        t->max_records = max;
        r->tracer = ARENA_NEW(&r->arena, struct tracer);
        r->tracer->max_events = max_i64(events / r->ndevices, 1);
        r->tracer->max_hops = 2 * max_i64(hops / r->ndevices, 1); /* each has two ends */
    }
    for (int64_t d = 0; d < r->ndevices; d++) {
        struct device *dev = &r->devices[d];
        dev->turn = ARENA_ARRAY(&r->arena, uint32_t, module_ninstrs(r->plan->m) + 1);
        if (!r->tracer)
            continue;
        dev->due = ARENA_ARRAY(&r->arena, int64_t, module_ninstrs(r->plan->m) + 1);
        dev->due_at = ARENA_ARRAY(&r->arena, struct meeting *, module_ninstrs(r->plan->m) + 1);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct trace_meeting *x = &(*(struct meeting *const *)a)->m,
                               *y = &(*(struct meeting *const *)b)->m;
    const int64_t p[] = { x->start, x->devices[0], x->end, x->instr.i, x->turn },
                  q[] = { y->start, y->devices[0], y->end, y->instr.i, y->turn };
    for (size_t k = 0; k < COUNTOF(p); k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

static int by_round(const void *a, const void *b)
{
    const struct trace_hop *x = a, *y = b;
    const int64_t p[] = { x->round, x->start, x->from, x->to, x->chunk },
                  q[] = { y->round, y->start, y->from, y->to, y->chunk };
    for (size_t k = 0; k < COUNTOF(p); k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

static void take_meetings(struct run *r, struct trace *t)
{
    int64_t n = 0, nhops = 0;
    for (struct meeting *m = r->tracer->meetings; m; m = m->next, n++)
        nhops += m->hops.n;
    struct meeting **list = ARENA_ARRAY(&t->arena, struct meeting *, n + 1);
    n = 0;
    for (struct meeting *m = r->tracer->meetings; m; m = m->next)
        list[n++] = m;
    qsort(list, (size_t)n, sizeof *list, by_time);
    t->meetings = ARENA_ARRAY(&t->arena, struct trace_meeting, n + 1);
    t->hops = ARENA_ARRAY(&t->arena, struct trace_hop, nhops + 1);
    for (int64_t k = 0; k < n; k++) {
        struct meeting *m = list[k];
        struct trace_meeting *to = &t->meetings[k];
        m->index = k;
        *to = m->m;
        to->devices = arena_copy(&t->arena, m->m.devices, m->m.ndevices, sizeof(int64_t));
        to->first_hop = t->nhops;
        to->nhops = m->hops.n;
        if (m->hops.n)
            memcpy(t->hops + t->nhops, m->hops.v, (size_t)m->hops.n * sizeof *t->hops);
        qsort(t->hops + t->nhops, (size_t)m->hops.n, sizeof *t->hops, by_round);
        for (int64_t h = 0; h < m->hops.n; h++)
            t->hops[t->nhops + h].meeting = k;
        t->nhops += m->hops.n;
    }
    t->nmeetings = n;
}

/* A flight is logged when its meeting is over, which may be behind what the device did meanwhile. */
static int by_start(const void *a, const void *b)
{
    const struct trace_event *x = a, *y = b;
    const int64_t p[] = { x->start, x->kind != TRACE_FLIGHT, x->end, x->instr.i, x->turn },
                  q[] = { y->start, y->kind != TRACE_FLIGHT, y->end, y->instr.i, y->turn };
    for (size_t k = 0; k < COUNTOF(p); k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

static void take_events(struct run *r, struct trace *t)
{
    int64_t *first = ARENA_ARRAY(&t->arena, int64_t, r->ndevices + 1);
    int64_t *ticks[4];
    for (int k = 0; k < 4; k++)
        ticks[k] = ARENA_ARRAY(&t->arena, int64_t, r->ndevices + 1);
    for (int64_t d = 0; d < r->ndevices; d++) {
        t->nevents += r->devices[d].log.n;
        t->ticks = max_i64(t->ticks, max_i64(r->devices[d].clock, r->devices[d].wire));
    }
    t->events = ARENA_ARRAY(&t->arena, struct trace_event, t->nevents + 1);
    int64_t at = 0;
    for (int64_t d = 0; d < r->ndevices; d++) {
        struct device *dev = &r->devices[d];
        first[d] = at;
        for (int64_t k = 0; k < dev->log.n; k++, at++) {
            t->events[at] = dev->log.v[k].e;
            if (dev->log.v[k].at)
                t->events[at].meeting = dev->log.v[k].at->index;
        }
        if (dev->flew)
            qsort(t->events + first[d], (size_t)(at - first[d]), sizeof *t->events, by_start);
        ticks[0][d] = dev->ticks[TRACE_COMPUTE];
        ticks[1][d] = dev->ticks[TRACE_COLLECTIVE];
        ticks[2][d] = dev->ticks[TRACE_WAIT] + t->ticks - dev->clock;
        ticks[3][d] = dev->ticks[TRACE_FLIGHT] - dev->overrun;
        t->truncated |= dev->log_cut;
    }
    first[r->ndevices] = at;
    t->first_event = first;
    t->computing = ticks[0];
    t->collective = ticks[1];
    t->waiting = ticks[2];
    t->overlapped = ticks[3];
}

void trace_end(struct run *r, struct trace *t)
{
    if (!r->tracer)
        return;
    t->module = r->plan->m;
    t->algorithm = r->how;
    t->ndevices = r->ndevices;
    t->truncated = r->tracer->truncated;
    take_meetings(r, t);
    take_events(r, t);
    for (struct meeting *m = r->tracer->meetings, *next; m; m = next) {
        next = m->next;
        arena_free(&m->arena);
        free(m);
    }
    r->tracer->meetings = NULL;
    for (int64_t d = 0; d < r->ndevices; d++)
        arena_free(&r->devices[d].log_arena);
}

void trace_free(struct trace *t)
{
    arena_free(&t->arena);
    *t = (struct trace){ 0 };
}

double trace_idle_share(const struct trace *t)
{
    double waiting = 0;
    for (int64_t d = 0; d < t->ndevices; d++)
        waiting += (double)t->waiting[d];
    return t->ticks && t->ndevices ? waiting / ((double)t->ticks * (double)t->ndevices) : 0;
}
