/* One device running its plan: kernels, calls, loops and branches on an explicit stack. */
#include "emulate/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one kernel step ----------------------------------------------------------------------------
 */

enum { FEW = 24 };

struct operands {
    const void *in_few[FEW];
    void *out_few[FEW];
    const uint8_t *pin_few[FEW];
    uint8_t *pout_few[FEW];
    const void **in;
    void **out;
    const uint8_t **pin;
    uint8_t **pout;
    bool poisoned;
};

static void operands_get(struct operands *o, struct arena *tmp, struct buf **slots,
                         const struct step *s)
{
    bool few = s->nin <= FEW && s->nout <= FEW;
    o->in = few ? o->in_few : ARENA_ARRAY(tmp, const void *, s->nin);
    o->pin = few ? o->pin_few : ARENA_ARRAY(tmp, const uint8_t *, s->nin);
    o->out = few ? o->out_few : ARENA_ARRAY(tmp, void *, s->nout);
    o->pout = few ? o->pout_few : ARENA_ARRAY(tmp, uint8_t *, s->nout);
    o->poisoned = false;
    for (uint32_t k = 0; k < s->nin; k++) {
        const struct buf *b = slots[s->in[k]];
        o->in[k] = b ? b->data : NULL;
        o->pin[k] = b ? b->poison : NULL;
        o->poisoned |= o->pin[k] != NULL;
    }
}

/* Runs before the kernel, which may overwrite an operand that the rule needs. */
static void poison_before(struct operands *o, const struct step *s)
{
    for (uint32_t k = 0; k < s->nout; k++) {
        o->pout[k] = calloc((size_t)s->lout[k].count + 1, 1);
        if (!o->pout[k])
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for shadow bits");
    }
    if (s->poison)
        s->poison(s, o->pout, o->pin, o->in);
    else
        poison_all(s, o->pout, o->pin, o->in);
}

static void poison_after(struct operands *o, struct buf **slots, const struct step *s)
{
    for (uint32_t k = 0; k < s->nout; k++) {
        struct buf *b = slots[s->out[k]];
        free(b->poison); /* of an operand that was overwritten */
        b->poison = NULL;
        if (memchr(o->pout[k], 1, (size_t)s->lout[k].count))
            b->poison = o->pout[k];
        else
            free(o->pout[k]);
    }
}

/* An array that is all zero says nothing: the value is exact. */
static bool says_something(const double *e, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (e[i] != 0)
            return true;
    return false;
}

static void bound_unknown(const struct step *s, double *const *eout)
{
    for (uint32_t k = 0; k < s->nout; k++)
        for (int64_t i = 0; i < s->lout[k].count; i++)
            eout[k][i] = HUGE_VAL;
}

/* Only in the one run that is the reference of mode float: plain allocation. */
static void bounds_make(const struct operands *o, struct buf **slots, const struct step *s)
{
    struct arena tmp = { 0 };
    bool inexact = s->bound_raises;
    arena_open(&tmp);
    const double **ein = ARENA_ARRAY(&tmp, const double *, s->nin);
    double **eout = ARENA_ARRAY(&tmp, double *, s->nout);
    for (uint32_t k = 0; k < s->nin; k++) {
        ein[k] = slots[s->in[k]] ? slots[s->in[k]]->bound : NULL;
        inexact |= ein[k] != NULL;
    }
    for (uint32_t k = 0; inexact && k < s->nout; k++)
        eout[k] = ARENA_ARRAY(&tmp, double, s->lout[k].count + 1);
    if (inexact && s->bound)
        s->bound(s, eout, ein, o->in, o->out);
    else if (inexact)
        bound_unknown(s, eout);
    for (uint32_t k = 0; inexact && k < s->nout; k++) {
        size_t bytes = (size_t)s->lout[k].count * sizeof(double);
        if (!says_something(eout[k], s->lout[k].count))
            continue;
        double *keep = malloc(bytes + 1);
        if (!keep)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for error bounds");
        memcpy(keep, eout[k], bytes);
        slots[s->out[k]]->bound = keep;
    }
    arena_close(&tmp);
}

/* An operand that dies here and belongs to nobody else becomes the result. */
static struct buf *take_operand(struct buf **slots, const struct step *s)
{
    for (uint32_t k = 0; k < s->nin; k++) {
        struct buf *b = slots[s->in[k]];
        if (!(s->inplace & 1u << k) || !buf_alone(b))
            continue;
        slots[s->in[k]] = NULL;
        return b;
    }
    return NULL;
}

void step_run(const struct plan *p, struct pool *pool, struct buf **slots, const struct step *s)
{
    if (s->fused) {
        fused_run(p, pool, slots, s);
        return;
    }
    struct operands o;
    struct arena tmp = { 0 };
    bool many = s->nin > FEW || s->nout > FEW;
    if (many)
        arena_open(&tmp);
    operands_get(&o, &tmp, slots, s);
    if (o.poisoned)
        poison_before(&o, s);
    struct buf *reuse = s->inplace ? take_operand(slots, s) : NULL;
    for (uint32_t k = 0; k < s->nout; k++) {
        struct buf *b = k == 0 && reuse ? reuse : buf_new(pool, s->lout[k].bytes);
        slots[s->out[k]] = b;
        o.out[k] = b->data;
    }
    s->fn(s, o.out, o.in);
    if (o.poisoned)
        poison_after(&o, slots, s);
    if (p->bounds)
        bounds_make(&o, slots, s);
    if (many)
        arena_close(&tmp);
}

void step_release(struct buf **slots, struct pool *pool, const struct step *s)
{
    for (uint32_t k = 0; k < s->nrelease; k++) {
        buf_drop(pool, slots[s->release[k]]);
        slots[s->release[k]] = NULL;
    }
}

/* Steps that run a computation let go of their operands before, of results nobody reads after. */
static void release_some(struct device *dev, const struct step *s, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++) {
        buf_drop(&dev->pool, dev->slots[s->release[k]]);
        dev->slots[s->release[k]] = NULL;
    }
}

/* ---- control ------------------------------------------------------------------------------------
 */

static void push(struct device *dev, const struct comp_plan *c)
{
    dev->stack[dev->depth++] = (struct frame){ .plan = c };
}

/* Hands values to a computation's parameters; those it never reads are not passed. */
static void pass(const struct run *r, struct device *dev, const struct comp_plan *c,
                 const uint32_t *from)
{
    for (uint32_t k = 0; k < c->nparams; k++) {
        if (!c->param_used[k])
            continue;
        if (r->plan->keep)
            buf_drop(&dev->pool, dev->slots[c->params[k]]);
        dev->slots[c->params[k]] = buf_ref(dev->slots[from[k]]);
    }
}

/* A computation has ended: its results go to `out`, and nothing of it stays. */
static void collect(struct run *r, struct device *dev, const struct comp_plan *c,
                    const uint32_t *out)
{
    for (uint32_t k = 0; k < c->nroots; k++) {
        buf_drop(&dev->pool, dev->slots[out[k]]);
        dev->slots[out[k]] = buf_ref(dev->slots[c->roots[k]]);
    }
    for (uint32_t k = 0; k < c->nroots && !r->plan->keep; k++) {
        uint32_t slot = c->roots[k];
        if (r->plan->slot_const[slot])
            continue;
        buf_drop(&dev->pool, dev->slots[slot]);
        dev->slots[slot] = NULL;
    }
}

static void note_control(struct device *dev, const struct step *s, const struct buf *b)
{
    bool doubtful = (b->poison && b->poison[0]) || (b->bound && b->bound[0] != 0);
    if (doubtful && !dev->control_poisoned) {
        dev->control_poisoned = true;
        dev->control_at = s->instr;
    }
}

static bool loop_limit(struct run *r, struct device *dev, const struct step *s)
{
    const struct control *c = s->p;
    dev->loops++;
    if (c->float_ended && r->max_float_loops && dev->loops > r->max_float_loops) {
        r->float_limit = true;
        run_fail(r, s->instr, "loop that ends on a comparison of floats does not end");
        return true;
    }
    if (atomic_fetch_add_explicit(&r->loops, 1, memory_order_relaxed) + 1 <= r->max_loops)
        return false;
    run_fail(r, s->instr,
             "loop of device %" PRId64 " still runs after %" PRId64
             " turns of all loops and devices together",
             dev->id, r->max_loops);
    return true;
}

static void run_while(struct run *r, struct device *dev, struct frame *f, const struct step *s)
{
    const struct control *c = s->p;
    const struct comp_plan *cond = c->comps[0], *body = c->comps[1];
    if (f->phase == 0) {
        for (uint32_t k = 0; k < s->nout; k++)
            dev->slots[s->out[k]] = buf_ref(dev->slots[s->in[k]]);
        release_some(dev, s, 0, s->nrelease_in);
    } else if (f->phase == 2) {
        collect(r, dev, body, s->out);
    } else {
        struct buf *b = dev->slots[cond->roots[0]];
        bool go = *(const uint8_t *)b->data != 0;
        note_control(dev, s, b);
        if (!r->plan->slot_const[cond->roots[0]] && !r->plan->keep) {
            buf_drop(&dev->pool, b);
            dev->slots[cond->roots[0]] = NULL;
        }
        if (!go) {
            release_some(dev, s, s->nrelease_in, s->nrelease);
            f->phase = 0;
            f->pc++;
            return;
        }
        if (loop_limit(r, dev, s))
            return;
        pass(r, dev, body, s->out);
        for (uint32_t k = 0; k < s->nout; k++) { /* so that the body may write in place */
            buf_drop(&dev->pool, dev->slots[s->out[k]]);
            dev->slots[s->out[k]] = NULL;
        }
        f->phase = 2;
        push(dev, body);
        return;
    }
    pass(r, dev, cond, s->out);
    f->phase = 1;
    push(dev, cond);
}

static void run_call(struct run *r, struct device *dev, struct frame *f, const struct step *s)
{
    const struct control *c = s->p;
    if (f->phase == 0) {
        const uint32_t *args = s->in;
        uint32_t branch = 0;
        if (s->kind == STEP_CONDITIONAL) {
            const struct buf *b = dev->slots[s->in[0]];
            int64_t v = c->pred_index ? *(const uint8_t *)b->data == 0 : *(const int32_t *)b->data;
            note_control(dev, s, b);
            branch = v < 0 || v >= (int64_t)c->ncomps ? c->ncomps - 1 : (uint32_t)v;
            args = s->in + c->arg_start[branch];
        }
        pass(r, dev, c->comps[branch], args);
        release_some(dev, s, 0, s->nrelease_in);
        f->phase = 1;
        f->branch = branch;
        push(dev, c->comps[branch]);
        return;
    }
    collect(r, dev, c->comps[f->branch], s->out);
    release_some(dev, s, s->nrelease_in, s->nrelease);
    f->phase = 0;
    f->pc++;
}

/* ---- small steps --------------------------------------------------------------------------------
 */

static void run_id(struct device *dev, const struct step *s)
{
    struct buf *b = buf_new(&dev->pool, s->lout[0].bytes);
    int64_t v = s->kind == STEP_PARTITION_ID ? dev->partition : dev->replica;
    memcpy(b->data, &v, (size_t)min_i64(s->lout[0].bytes, 8));
    dev->slots[s->out[0]] = b;
}

static void run_rng_state(struct device *dev, const struct step *s)
{
    struct buf *b = buf_new(&dev->pool, s->lout[0].bytes);
    uint64_t delta = (uint64_t) * (const int64_t *)s->p;
    memcpy(b->data, dev->rng_state, sizeof dev->rng_state);
    dev->rng_state[0] += delta;
    dev->rng_state[1] += dev->rng_state[0] < delta;
    dev->slots[s->out[0]] = b;
}

static void run_cut(struct run *r, struct device *dev, const struct step *s)
{
    struct arena tmp = { 0 };
    int64_t n;
    arena_open(&tmp);
    const struct buf *whole = dev->slots[s->in[0]];
    struct box box = cut_box(&tmp, r->plan->m->ir->shardings, s->p, dev->partition, &n);
    struct buf *b = buf_new(&dev->pool, s->lout[0].bytes);
    dev->slots[s->out[0]] = b;
    memset(b->data, 0, (size_t)b->bytes);
    box_copy(&box, b->data, whole->data, s->lout[0].elem.size);
    if (whole->poison) {
        b->poison = calloc((size_t)n + 1, 1);
        INVARIANT(b->poison, "no memory for shadow bits");
        box_copy(&box, b->poison, whole->poison, 1);
    }
    if (whole->bound) {
        b->bound = calloc((size_t)n + 1, sizeof *b->bound);
        INVARIANT(b->bound, "no memory for error bounds");
        box_copy(&box, b->bound, whole->bound, 8);
    }
    arena_close(&tmp);
}

static void run_tap(struct run *r, struct device *dev, const struct step *s)
{
    if (!r->observer)
        return;
    struct buf *few[FEW], **leaves = few;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    if (s->nin > FEW)
        leaves = ARENA_ARRAY(&tmp, struct buf *, s->nin);
    for (uint32_t k = 0; k < s->nin; k++)
        leaves[k] = dev->slots[s->in[k]];
    r->observer->fn(r->observer->context, dev->id, s->instr, dev->tap_count[s->instr.i]++, s->nin,
                    leaves);
    arena_close(&tmp);
}

/* Tokens and taps take no time. */
static void clock_step(struct run *r, struct device *dev, const struct step *s)
{
    if (s->kind == STEP_TAP || s->kind == STEP_TOKEN || s->kind == STEP_DONE)
        return;
    int64_t cost = trace_cost(r->plan, s);
    trace_event(r, dev, s, TRACE_COMPUTE, dev->clock, dev->clock + cost, NULL);
    dev->clock += cost;
}

/* ---- the device ---------------------------------------------------------------------------------
 */

/* In kept runs a step's former results go when it runs again. */
static void forget(struct device *dev, const struct step *s)
{
    for (uint32_t k = 0; k < s->nout; k++) {
        buf_drop(&dev->pool, dev->slots[s->out[k]]);
        dev->slots[s->out[k]] = NULL;
    }
}

enum device_state device_run(struct run *r, struct device *dev)
{
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        struct frame *f = &dev->stack[dev->depth - 1];
        if (f->pc == f->plan->nsteps) {
            if (dev->depth == 1)
                return DEVICE_DONE;
            dev->depth--; /* the caller's step goes on */
            continue;
        }
        const struct step *s = &f->plan->steps[f->pc];
        if (r->stepped && dev->budget-- <= 0)
            return DEVICE_READY;
        if (r->plan->keep && f->phase == 0)
            forget(dev, s);
        if (r->watched && f->phase == 0 && !watch_step(r, dev, s))
            return DEVICE_DONE;
        switch ((enum step_kind)s->kind) {
        case STEP_KERNEL: step_run(r->plan, &dev->pool, dev->slots, s); break;
        case STEP_PARTITION_ID:
        case STEP_REPLICA_ID: run_id(dev, s); break;
        case STEP_RNG_STATE: run_rng_state(dev, s); break;
        case STEP_WHILE: run_while(r, dev, f, s); continue;
        case STEP_CONDITIONAL:
        case STEP_CALL: run_call(r, dev, f, s); continue;
        case STEP_COLLECTIVE:
            if (collective_step(r, dev, s) == DEVICE_PARKED)
                return DEVICE_PARKED;
            continue;
        case STEP_CUT: run_cut(r, dev, s); break;
        case STEP_TAP: run_tap(r, dev, s); break;
        case STEP_TOKEN: break;
        case STEP_DONE:
            if (r->watched)
                trace_done(r, dev, s);
            break;
        }
        if (r->watched)
            clock_step(r, dev, s);
        step_release(dev->slots, &dev->pool, s);
        dev->steps += s->fused ? fused_members(s->fused) : 1;
        f->pc++;
    }
    return DEVICE_READY;
}
