/* Workers run devices. Ready devices wait in a queue; a worker takes one and runs it until it parks
 * or ends. The calling thread only ticks. When no device can run and some are parked, the run ends
 * with a report of who waits where. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "emulate/remote.h"

void run_enqueue(struct run *r, struct device *dev)
{
    dev->state = DEVICE_READY;
    r->queue[(r->qhead + r->qlen++) % r->ndevices] = dev->id;
    pthread_cond_signal(&r->work);
}

static void stop(struct run *r)
{
    atomic_store(&r->stop, true);
    pthread_cond_broadcast(&r->work);
    pthread_cond_signal(&r->idle);
}

void run_fail(struct run *r, instr_id at, const char *fmt, ...)
{
    pthread_mutex_lock(&r->lock);
    if (!r->failed) {
        const struct instr *i = at.i ? instr_at(r->plan->m, at) : NULL;
        char text[512];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        r->failed = true;
        r->fail_at = at;
        snprintf(r->fail_text, sizeof r->fail_text, "%s%s%s",
                 i ? name_text(r->plan->m->ir, i->name) : "", i ? ": " : "", text);
        stop(r);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Next device of the queue; a test's seed takes any. */
struct device *run_take(struct run *r)
{
    if (r->random) {
        r->random = hash_u64(r->random + 0x9e3779b97f4a7c15ULL) | 1;
        int64_t pick = (r->qhead + (int64_t)(r->random >> 1) % r->qlen) % r->ndevices;
        int64_t t = r->queue[pick];
        r->queue[pick] = r->queue[r->qhead];
        r->queue[r->qhead] = t;
    }
    int64_t d = r->queue[r->qhead];
    r->qhead = (r->qhead + 1) % r->ndevices;
    r->qlen--;
    return &r->devices[d];
}

/* One device until it parks; a failure of ours or of memory ends the run. */
enum device_state run_guarded(struct run *r, struct device *dev)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        enum device_state s = device_run(r, dev);
        fail_leave(&f);
        return s;
    }
    run_fail(r, (instr_id){ 0 }, "%s", f.text);
    return DEVICE_READY;
}

static void *work(void *context)
{
    struct run *r = context;
    pthread_mutex_lock(&r->lock);
    while (!atomic_load(&r->stop)) {
        if (r->qlen == 0) {
            if (r->nrunning == 0) {
                r->stuck = r->ndone < r->ndevices;
                stop(r);
                break;
            }
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        struct device *dev = run_take(r);
        dev->state = DEVICE_RUNNING;
        r->nrunning++;
        pthread_mutex_unlock(&r->lock);
        enum device_state s = run_guarded(r, dev);
        pthread_mutex_lock(&r->lock);
        r->nrunning--;
        if (s == DEVICE_DONE) {
            dev->state = DEVICE_DONE;
            r->ndone++;
        }
        if (r->qlen == 0 && r->nrunning == 0)
            pthread_cond_broadcast(&r->work); /* all done, or nobody can go on: who wakes says so */
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- deadlock -----------------------------------------------------------------------------------
 */

static const char *where(const struct run *r, const struct device *dev)
{
    if (remote_is_ghost(r, dev->id))
        return "another process's";
    if (dev->state == DEVICE_DONE)
        return dev->killed ? "was killed" : "has ended";
    const struct frame *f = &dev->stack[dev->depth - 1];
    return name_text(r->plan->m->ir, instr_at(r->plan->m, f->plan->steps[f->pc].instr)->name);
}

/* Each parked device once a meeting: who is there, who is missing and where those are. */
void report_deadlock(const struct run *r, struct diag *d)
{
    const struct module *m = r->plan->m;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t parked = 0, shown = 0;
    instr_id first = { 0 };
    for (int64_t k = 0; k < r->ndevices; k++)
        if (r->devices[k].state == DEVICE_PARKED) {
            const struct device *dev = &r->devices[k];
            const struct frame *f = &dev->stack[dev->depth - 1];
            if (!parked++)
                first = f->plan->steps[f->pc].instr;
        }
    (void)diag_error(d, m->source, first.i ? instr_at(m, first)->at : (struct span){ 0, 0 },
                     "deadlock: %" PRId64 " of %" PRId64 " devices wait for ever", parked,
                     r->ndevices);
    for (uint32_t c = 0; c < r->plan->ncolls; c++)
        for (int64_t g = 0; g < r->plan->colls[c]->ngroups; g++) {
            const struct rendezvous *z = &r->table[c][g];
            if (!z->arrived || shown++ >= 16)
                continue;
            struct str here = STR_IN(&tmp), missing = STR_IN(&tmp);
            int64_t nmissing = 0;
            for (int64_t k = 0; k < z->size; k++) {
                int64_t dev = z->coll->members[z->coll->start[g] + k];
                if (z->members[k])
                    str_addf(&here, "%s%" PRId64, here.n ? ", " : "", dev);
                else if (nmissing++ < 8)
                    str_addf(&missing, "%s%" PRId64 " (%s%s)", missing.n ? ", " : "", dev,
                             r->devices[dev].state == DEVICE_DONE ? "" : "at ",
                             where(r, &r->devices[dev]));
            }
            if (nmissing > 8)
                str_addf(&missing, " and %" PRId64 " more", nmissing - 8);
            diag_note(d, m->source, instr_at(m, z->step->instr)->at,
                      "at %s device %s waits for device %s",
                      name_text(m->ir, instr_at(m, z->step->instr)->name), str_text(&here),
                      str_text(&missing));
        }
    if (shown > 16)
        diag_note(d, NULL, (struct span){ 0, 0 }, "and %" PRId64 " more groups", shown - 16);
    arena_close(&tmp);
}

/* A device was killed and nobody waits for it: its results are missing all the same. */
static bool report_killed(const struct run *r, const struct device *dev, struct diag *d)
{
    const struct module *m = r->plan->m;
    const struct frame *f = &dev->stack[dev->depth - 1];
    const struct instr *i = instr_at(m, f->plan->steps[f->pc].instr);
    return diag_error(d, m->source, i->at, "device %" PRId64 " was killed at %s: its results are missing",
                      dev->id, name_text(m->ir, i->name));
}

/* ---- the run ------------------------------------------------------------------------------------
 */

static void wait_for_workers(struct run *r, struct tick *tick)
{
    pthread_mutex_lock(&r->lock);
    while (!atomic_load(&r->stop)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        if (pthread_cond_timedwait(&r->idle, &r->lock, &until) != ETIMEDOUT || !tick)
            continue;
        int64_t done = r->ndone;
        pthread_mutex_unlock(&r->lock);
        bool go = tick_now(tick, "run", done, r->ndevices);
        pthread_mutex_lock(&r->lock);
        if (!go) {
            r->interrupted = true;
            stop(r);
        }
    }
    pthread_mutex_unlock(&r->lock);
}

/* What became of it, when nobody runs any more. */
static bool outcome(const struct run *r, struct diag *d)
{
    if (r->interrupted)
        return diag_error(d, NULL, (struct span){ 0, 0 }, "interrupted");
    if (r->failed)
        return diag_error(d, r->plan->m->source,
                          r->fail_at.i ? instr_at(r->plan->m, r->fail_at)->at
                                       : (struct span){ 0, 0 },
                          "%s", r->fail_text);
    if (r->stuck) {
        report_deadlock(r, d);
        return false;
    }
    for (int64_t k = 0; k < r->ndevices; k++)
        if (r->devices[k].killed)
            return report_killed(r, &r->devices[k], d);
    return true;
}

bool schedule_run(struct run *r, int threads, struct tick *tick, struct diag *d)
{
    enum { MOST = 64 };
    pthread_t ids[MOST];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = threads > 0 ? threads : cores > 0 ? (int)cores : 1, made = 0;
    if (r->distributed) {
        bool all = remote_run(r, tick, d);
        return outcome(r, d) && all;
    }
    if (n > MOST)
        n = MOST;
    if (n > r->ndevices)
        n = (int)r->ndevices;
    for (int64_t k = 0; k < r->ndevices; k++)
        run_enqueue(r, &r->devices[k]);
    for (; made < n; made++)
        if (pthread_create(&ids[made], NULL, work, r) != 0)
            break;
    if (!made)
        return diag_error(d, NULL, (struct span){ 0, 0 }, "no thread can be started");
    wait_for_workers(r, tick);
    for (int k = 0; k < made; k++)
        pthread_join(ids[k], NULL);
    return outcome(r, d);
}
