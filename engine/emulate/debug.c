/* Devices in lock step, on the calling thread. */
#include "emulate/debug.h"

#include <stdlib.h>
#include <string.h>

#include "emulate/run.h"

struct debugger {
    struct plan *plan;
    struct run run;
    struct cuts cuts;
    uint8_t *breaks, *has_step; /* [ninstrs + 1] */
    int64_t steps;
    bool failed;
    int64_t *ready; /* [ndevices] */
};

static const struct span nowhere = { 0, 0 };

static void mark_steps(struct debugger *g)
{
    const struct module *m = g->plan->m;
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct comp_plan *p = g->plan->comps[c];
        for (uint32_t k = 0; p && k < p->nsteps; k++)
            g->has_step[p->steps[k].instr.i] = 1;
    }
}

static bool open_inside(struct debugger *g, const struct program *p, const struct tensor *global_in,
                        int64_t nin, const struct run_options *o, struct tick *tick,
                        struct diag *d)
{
    struct plan_options po = { .mode = o->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                               .ndevices = p->num_partitions,
                               .keep = true };
    struct run *r = &g->run;
    g->plan = plan_make(p->module, &po, tick, d);
    if (!g->plan || !memory_fits(g->plan, NULL, parameter_bytes(g->plan), o->max_bytes, d) ||
        !cuts_make(p, global_in, nin, &g->cuts, d))
        return false;
    r->plan = g->plan;
    r->ndevices = g->plan->ndevices;
    r->stepped = true;
    r->max_loops = o->max_steps > 0 ? o->max_steps : (int64_t)1 << 28;
    devices_make(r, g->cuts.in, nin, o);
    rendezvous_make(r);
    int64_t n = module_ninstrs(p->module) + 1;
    g->breaks = ARENA_ARRAY(&r->arena, uint8_t, n);
    g->has_step = ARENA_ARRAY(&r->arena, uint8_t, n);
    g->ready = ARENA_ARRAY(&r->arena, int64_t, r->ndevices);
    mark_steps(g);
    return true;
}

static bool open_protected(struct debugger *g, const struct program *p,
                           const struct tensor *global_in, int64_t nin,
                           const struct run_options *o, struct tick *tick, struct diag *d)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        bool ok = open_inside(g, p, global_in, nin, o, tick, d);
        fail_leave(&f);
        return ok;
    }
    return diag_error(d, NULL, nowhere, "%s", f.text);
}

struct debugger *debug_open(const struct program *p, const struct tensor *global_in, int64_t nin,
                            const struct run_options *o, struct tick *tick, struct diag *d)
{
    struct debugger *g = calloc(1, sizeof *g);
    if (!g) {
        (void)diag_error(d, NULL, nowhere, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&g->run.lock, NULL);
    pthread_cond_init(&g->run.work, NULL);
    pthread_cond_init(&g->run.idle, NULL);
    if (open_protected(g, p, global_in, nin, o, tick, d))
        return g;
    debug_close(g);
    return NULL;
}

void debug_close(struct debugger *g)
{
    if (!g)
        return;
    devices_free(&g->run);
    arena_free(&g->run.arena);
    pthread_mutex_destroy(&g->run.lock);
    pthread_cond_destroy(&g->run.work);
    pthread_cond_destroy(&g->run.idle);
    cuts_free(&g->cuts);
    plan_free(g->plan);
    free(g);
}

/* ---- breaks -------------------------------------------------------------------------------------
 */

bool debug_has_step(const struct debugger *g, instr_id i)
{
    return i.i && i.i <= module_ninstrs(g->plan->m) && g->has_step[i.i];
}

void debug_break(struct debugger *g, instr_id i, bool on)
{
    g->breaks[i.i] = on;
}

bool debug_breaks(const struct debugger *g, instr_id i)
{
    return g->breaks[i.i];
}

int64_t debug_steps(const struct debugger *g)
{
    return g->steps;
}

instr_id debug_at(const struct debugger *g, int64_t device, bool *waits)
{
    const struct device *dev = &g->run.devices[device];
    *waits = dev->state == DEVICE_PARKED;
    for (int k = dev->depth - 1; k >= 0 && dev->state != DEVICE_DONE; k--) {
        const struct frame *f = &dev->stack[k];
        if (f->pc < f->plan->nsteps)
            return f->plan->steps[f->pc].instr;
    }
    return (instr_id){ 0 };
}

/* ---- steps --------------------------------------------------------------------------------------
 */

static enum device_state one_step(struct debugger *g, struct device *dev)
{
    struct fail_frame f;
    dev->budget = 1;
    if (FAIL_ENTER(&f)) {
        enum device_state s = device_run(&g->run, dev);
        fail_leave(&f);
        return s;
    }
    run_fail(&g->run, (instr_id){ 0 }, "%s", f.text);
    return DEVICE_READY;
}

static enum debug_state failed(struct debugger *g, struct diag *d)
{
    const struct run *r = &g->run;
    g->failed = true;
    if (r->failed)
        (void)diag_error(d, r->plan->m->source,
                         r->fail_at.i ? instr_at(r->plan->m, r->fail_at)->at : nowhere, "%s",
                         r->fail_text);
    else
        report_deadlock(r, d);
    return DEBUG_FAILED;
}

enum debug_state debug_step(struct debugger *g, struct diag *d)
{
    struct run *r = &g->run;
    int64_t n = 0;
    if (g->failed)
        return failed(g, d);
    for (int64_t k = 0; k < r->ndevices; k++)
        if (r->devices[k].state == DEVICE_READY || r->devices[k].state == DEVICE_RUNNING)
            g->ready[n++] = k;
    if (n == 0)
        return r->ndone == r->ndevices ? DEBUG_ENDED : failed(g, d);
    for (int64_t k = 0; k < n && !r->failed; k++) {
        struct device *dev = &r->devices[g->ready[k]];
        enum device_state s = one_step(g, dev);
        if (s == DEVICE_DONE) {
            dev->state = DEVICE_DONE;
            r->ndone++;
        }
    }
    for (int64_t k = 0; k < r->ndevices; k++) { /* a collective was the last step of some */
        struct device *dev = &r->devices[k];
        if (dev->state != DEVICE_DONE && dev->depth == 1 && dev->stack[0].pc == dev->stack[0].plan->nsteps) {
            dev->state = DEVICE_DONE;
            r->ndone++;
        }
    }
    r->qlen = 0;
    g->steps++;
    if (r->failed)
        return failed(g, d);
    return r->ndone == r->ndevices ? DEBUG_ENDED : DEBUG_STOPPED;
}

static bool at_break(const struct debugger *g)
{
    for (int64_t k = 0; k < g->run.ndevices; k++) {
        bool waits;
        instr_id i = debug_at(g, k, &waits);
        const struct frame *f = &g->run.devices[k].stack[g->run.devices[k].depth - 1];
        bool fresh = f->pc < f->plan->nsteps && f->phase == 0;
        if (i.i && !waits && fresh && g->breaks[i.i])
            return true;
    }
    return false;
}

enum debug_state debug_continue(struct debugger *g, struct tick *tick, struct diag *d)
{
    for (;;) {
        enum debug_state s = debug_step(g, d);
        if (s != DEBUG_STOPPED || at_break(g))
            return s;
        if (!tick_poll(tick, "debug", g->steps, 0)) {
            (void)diag_error(d, NULL, nowhere, "interrupted");
            return DEBUG_FAILED;
        }
    }
}

/* ---- values -------------------------------------------------------------------------------------
 */

bool debug_value(const struct debugger *g, int64_t device, instr_id i, int64_t leaf,
                 struct tensor *out)
{
    const struct plan *p = g->plan;
    *out = (struct tensor){ 0 };
    if (!i.i || i.i > module_ninstrs(p->m) || !p->names)
        return false;
    const struct slot_names *v = &p->names[i.i];
    if (leaf < 0 || leaf >= v->n)
        return false;
    const struct buf *b = g->run.devices[device].slots[v->slots[leaf]];
    shape_id s = instr_at(p->m, i)->shape;
    if (shape_get(p->m->ir, s)->kind == SHAPE_TUPLE)
        s = shape_leaf(p->m->ir, s, leaf);
    const struct shape *shape = shape_get(p->m->ir, s);
    if (!b || shape->kind != SHAPE_ARRAY ||
        !tensor_alloc(shape->dtype, shape->rank, shape->dims, p->mode == EMU_RING, out))
        return false;
    memcpy(out->data, b->data, (size_t)out->bytes);
    return true;
}
