/* One run over several processes (transport.h). */
#include "emulate/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct transport *current;
static int64_t run_count; /* the same in all processes: they run the same commands */

void transport_set(const struct transport *t)
{
    current = t;
}

const struct transport *transport_get(void)
{
    return current;
}

/* ---- messages -----------------------------------------------------------------------------------
 */

struct head {
    int64_t run;                /* which run; what is left of an earlier one is thrown away */
    int64_t index, group, rank; /* meeting place and member; index -1: the sender has failed */
    int64_t nleaves;
};

struct leaf_head {
    int64_t bytes, poison; /* poison: that many bytes behind the data */
};

struct waiting_message {
    struct waiting_message *next;
    struct head *head; /* malloc'ed, the whole message */
    int64_t bytes;
};

static int owner(const struct run *r, int64_t device)
{
    return (int)(device * current->nranks / r->ndevices);
}

bool remote_is_ghost(const struct run *r, int64_t device)
{
    return r->distributed && owner(r, device) != current->rank;
}

static void *pack(const struct device *dev, const struct step *s, const struct rendezvous *z,
                  int64_t rank, int64_t run, int64_t *bytes)
{
    *bytes = (int64_t)sizeof(struct head);
    for (uint32_t k = 0; k < s->nin; k++) {
        const struct buf *b = dev->slots[s->in[k]];
        *bytes += (int64_t)sizeof(struct leaf_head) + s->lin[k].bytes +
                  (b && b->poison ? s->lin[k].count : 0);
    }
    char *m = malloc((size_t)*bytes), *at = m;
    if (!m)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for a message");
    struct head h = { run, ((const struct coll *)s->p)->index, z->group, rank, s->nin };
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    for (uint32_t k = 0; k < s->nin; k++) {
        const struct buf *b = dev->slots[s->in[k]];
        struct leaf_head l = { s->lin[k].bytes, b && b->poison ? s->lin[k].count : 0 };
        memcpy(at, &l, sizeof l);
        at += sizeof l;
        if (l.bytes)
            memcpy(at, b->data, (size_t)l.bytes);
        at += l.bytes;
        if (l.poison)
            memcpy(at, b->poison, (size_t)l.poison);
        at += l.poison;
    }
    return m;
}

/* Devices of one process are neighbours, members of a group need not be: each process once. */
void remote_tell(struct run *r, const struct device *dev, const struct step *s,
                 const struct rendezvous *z)
{
    const struct coll *c = s->p;
    int64_t bytes = 0, first = c->start[z->group], end = c->start[z->group + 1];
    void *m = NULL;
    for (int64_t k = first; k < end; k++) {
        int to = owner(r, c->members[k]);
        bool told = to == current->rank;
        for (int64_t j = first; j < k && !told; j++)
            told = owner(r, c->members[j]) == to;
        if (told)
            continue;
        if (!m)
            m = pack(dev, s, z, c->rank_of[dev->id], r->run_id, &bytes);
        current->send(to, m, bytes);
    }
    free(m);
}

/* ---- ghosts -------------------------------------------------------------------------------------
 */

void remote_forget(const struct run *r, struct device *ghost, const struct step *s)
{
    const uint32_t *lists[2] = { s->in, s->out };
    const uint32_t counts[2] = { s->nin, s->nout };
    for (int j = 0; j < 2; j++)
        for (uint32_t k = 0; k < counts[j]; k++) {
            uint32_t slot = lists[j][k];
            if (r->plan->slot_const[slot])
                continue;
            buf_drop(&ghost->pool, ghost->slots[slot]);
            ghost->slots[slot] = NULL;
        }
}

static bool fill(struct run *r, struct device *ghost, const struct step *s, const struct head *h,
                 int64_t bytes)
{
    const char *at = (const char *)(h + 1), *end = (const char *)h + bytes;
    if (h->nleaves != s->nin)
        return false;
    for (uint32_t k = 0; k < s->nin; k++) {
        struct leaf_head l;
        if (end - at < (int64_t)sizeof l)
            return false;
        memcpy(&l, at, sizeof l);
        at += sizeof l;
        if (l.bytes != s->lin[k].bytes || l.poison < 0 || l.poison > s->lin[k].count ||
            end - at < l.bytes + l.poison)
            return false;
        if (!r->plan->slot_const[s->in[k]]) {
            struct buf *b = buf_new(&ghost->pool, l.bytes);
            buf_drop(&ghost->pool, ghost->slots[s->in[k]]);
            ghost->slots[s->in[k]] = b;
            memcpy(b->data, at, (size_t)l.bytes);
            if (l.poison) {
                b->poison = malloc((size_t)l.poison + 1);
                INVARIANT(b->poison, "no memory for shadow bits");
                memcpy(b->poison, at + l.bytes, (size_t)l.poison);
            }
        }
        at += l.bytes + l.poison;
    }
    return true;
}

/* Messages of one member wait in order: the next is for its next turn. */
bool remote_join(struct run *r, struct rendezvous *z)
{
    struct waiting_message **p = &r->messages;
    if (!z->coll)
        return false;
    while (*p && z->arrived < z->size) {
        struct waiting_message *m = *p;
        const struct head *h = m->head;
        if (h->index != z->coll->index || h->group != z->group || h->rank < 0 ||
            h->rank >= z->size || z->members[h->rank]) {
            p = &m->next;
            continue;
        }
        struct device *ghost = &r->devices[z->coll->members[z->coll->start[z->group] + h->rank]];
        if (!fill(r, ghost, z->step, h, m->bytes)) {
            run_fail(r, z->step->instr, "another process sends operands of other shapes");
            return false;
        }
        z->members[h->rank] = ghost;
        z->steps[h->rank] = z->step;
        z->arrived++;
        *p = m->next;
        free(m->head);
        free(m);
        p = &r->messages;
    }
    return z->arrived == z->size;
}

/* ---- the run ------------------------------------------------------------------------------------
 */

static void tell_failure(const struct run *r)
{
    struct head h = { r->run_id, -1, current->rank, 0, 0 };
    for (int k = 0; k < current->nranks; k++)
        if (k != current->rank)
            current->send(k, &h, sizeof h);
}

static void take_message(struct run *r, void *data, int64_t bytes)
{
    struct head *h = data;
    if (bytes < (int64_t)sizeof *h || h->run != r->run_id || h->index >= (int64_t)r->plan->ncolls) {
        free(data);
        return;
    }
    if (h->index < 0) {
        run_fail(r, (instr_id){ 0 }, "process %" PRId64 " has failed", h->group);
        r->told = true;
        free(data);
        return;
    }
    struct waiting_message *m = calloc(1, sizeof *m), **end = &r->messages;
    INVARIANT(m, "no memory for a message");
    m->head = h;
    m->bytes = bytes;
    while (*end)
        end = &(*end)->next;
    *end = m;
    int64_t index = h->index, group = h->group;
    if (group < 0 || group >= r->plan->colls[index]->ngroups)
        return;
    struct rendezvous *z = &r->table[index][group];
    if (remote_join(r, z))
        (void)meeting_complete(r, z, NULL);
}

enum { WAIT_MS = 20, PATIENCE_MS = 60000 };

static bool all_ended(const struct run *r)
{
    for (int64_t k = 0; k < r->ndevices; k++)
        if (!remote_is_ghost(r, k) && r->devices[k].state != DEVICE_DONE)
            return false;
    return true;
}

static void run_share(struct run *r, struct tick *tick)
{
    int waited = 0;
    while (!r->failed && !r->interrupted && !r->stuck) {
        while (r->qlen && !r->failed) {
            struct device *dev = run_take(r);
            dev->state = DEVICE_RUNNING;
            if (run_guarded(r, dev) == DEVICE_DONE)
                dev->state = DEVICE_DONE;
        }
        if (r->failed || all_ended(r))
            return;
        int64_t bytes;
        void *m = current->receive(WAIT_MS, &bytes);
        waited = m ? 0 : waited + WAIT_MS;
        if (m)
            take_message(r, m, bytes);
        r->stuck = waited >= PATIENCE_MS;
        r->interrupted = tick && !tick_now(tick, "run", 0, r->ndevices);
    }
}

static void share_leaf(struct run *r, int64_t device, const struct leaf *l, uint32_t slot)
{
    struct device *dev = &r->devices[device];
    bool ghost = remote_is_ghost(r, device);
    if (ghost) {
        struct buf *b = buf_new(&dev->pool, l->bytes);
        buf_drop(&dev->pool, dev->slots[slot]);
        dev->slots[slot] = b;
    }
    struct buf *b = dev->slots[slot];
    int64_t poison = !ghost && b->poison ? l->count : 0;
    current->broadcast(owner(r, device), &poison, sizeof poison);
    current->broadcast(owner(r, device), b->data, l->bytes);
    if (poison && ghost) {
        b->poison = calloc((size_t)poison + 1, 1);
        INVARIANT(b->poison, "no memory for shadow bits");
    }
    if (poison)
        current->broadcast(owner(r, device), b->poison, poison);
}

/* Every process gets every device's results; a slot that stands twice among them is sent once. */
static void share_results(struct run *r)
{
    const struct comp_plan *e = r->plan->entry;
    for (int64_t d = 0; d < r->ndevices; d++)
        for (uint32_t k = 0; k < e->nroots; k++) {
            uint32_t slot = e->roots[k];
            bool known = r->plan->slot_const[slot] || e->lroots[k].elem.ct == CT_TOKEN;
            for (uint32_t j = 0; j < k && !known; j++)
                known = e->roots[j] == slot;
            if (!known)
                share_leaf(r, d, &e->lroots[k], slot);
        }
}

bool remote_run(struct run *r, struct tick *tick, struct diag *d)
{
    r->run_id = ++run_count;
    for (int64_t k = 0; k < r->ndevices; k++)
        if (!remote_is_ghost(r, k))
            run_enqueue(r, &r->devices[k]);
    run_share(r, tick);
    bool mine = !r->failed && !r->stuck && !r->interrupted;
    if (!mine && !r->told)
        tell_failure(r);
    bool all = current->all(mine);
    for (struct waiting_message *m = r->messages, *next; m; m = next) {
        next = m->next;
        free(m->head);
        free(m);
    }
    r->messages = NULL;
    if (all)
        share_results(r);
    else if (mine)
        (void)diag_error(d, NULL, (struct span){ 0, 0 }, "another process has failed");
    return all;
}
