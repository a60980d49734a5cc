/* Chunks of a collective on their way, hop by hop: traced runs, and runs with planted faults.
 *
 * What a device ends with has been carried there by copies from device to device. Sums are the one
 * exception: a partial sum on its way is a count of contributions, and when all have come to the
 * chunk's owner its value is the left fold in group order, so that no choice of hops changes a bit
 * of it (collective.c does the same at once).
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "emulate/collective.h"

enum { HOP_TICKS = 1, LINK_BYTES = 64 };

struct span_of_time {
    int64_t start, end;
};

struct spans {
    VEC(struct span_of_time) list;
};

struct mover {
    struct run *r;
    struct rendezvous *z;
    struct pool *pool;
    struct arena tmp;
    enum op_kind kind;
    int64_t n;
    uint32_t nres;
    struct hops hops;
    struct buf **res; /* [n * nres] */
    struct buf **sum; /* [nres] */
    bool sums, moves; /* moves: a chunk is at one place only (all-to-all) */
    uint8_t *have;    /* [n * nchunks] */
    int32_t *count;   /* [n * nchunks] contributions */
    int64_t *place;   /* [nchunks] moves: rank */
    int64_t *avail;   /* [n * nchunks], moves: [nchunks]: tick at which it is there */
    int64_t *sender_free, *receiver_free; /* [n] ticks */
    struct spans *spans;                  /* [n] when each rank has a part in a hop */
    int64_t *sent;                                       /* [n] messages */
    uint8_t *lost;                                       /* [n * nchunks], moves: [nchunks] */
    int64_t nlost;
    struct meeting *record;
};

static int64_t cell(const struct mover *v, int64_t rank, int64_t chunk)
{
    return v->moves ? chunk : rank * v->hops.nchunks + chunk;
}

/* ---- chunks -------------------------------------------------------------------------------------
 */

/* A piece of one array, and where it stands in the result. */
struct piece {
    struct coll_leaf l;
    int64_t in_n, from, out_n, to, n;
};

static struct piece run_of(int64_t count, int64_t chunk, int64_t nchunks)
{
    int64_t q = count / nchunks, rest = count % nchunks;
    int64_t lo = chunk * q + min_i64(chunk, rest), n = q + (chunk < rest);
    return (struct piece){ { 1, count, count, 1 }, count, lo, count, lo, n };
}

/* Piece `chunk` of operand leaf k: from a rank's result to another's (carried), or from an operand
 * or the sum to a result (put). */
static struct piece carried(const struct mover *v, uint32_t k, int64_t chunk)
{
    const struct coll_leaf *l = &v->z->coll->leaves[k];
    if (v->kind == OP_ALL_GATHER)
        return (struct piece){ *l, l->in * v->n, chunk * l->in, l->in * v->n, chunk * l->in, l->in };
    return run_of(v->z->step->lin[k].count, chunk, v->hops.nchunks);
}

static void copy(const struct piece *p, int size, const struct buf *in, struct buf *out)
{
    if (p->n > 0 && p->l.outer > 0 && p->l.inner > 0)
        copy_piece(&p->l, size, in, p->in_n, p->from, out, p->out_n, p->to, p->n);
}

static struct buf **result(const struct mover *v, int64_t rank, uint32_t k)
{
    return &v->res[rank * v->nres + k];
}

/* Bytes of a chunk, all leaves together. */
static int64_t chunk_bytes(const struct mover *v, int64_t chunk)
{
    int64_t bytes = 0;
    for (uint32_t k = 0; k < v->nres; k++) {
        const struct leaf *l = &v->z->step->lin[k];
        switch ((int)v->kind) {
        case OP_ALL_GATHER:
        case OP_COLLECTIVE_PERMUTE: bytes += l->bytes; break;
        case OP_REDUCE_SCATTER: bytes += l->bytes / v->n; break;
        case OP_ALL_TO_ALL:
            if (v->z->coll->dim >= 0)
                bytes += l->bytes / v->n;
            else if ((int64_t)k == chunk % v->n)
                bytes += l->bytes;
            break;
        default: bytes += run_of(l->count, chunk, v->hops.nchunks).n * l->elem.size;
        }
    }
    return bytes;
}

/* ---- what is where at the start -----------------------------------------------------------------
 */

static struct buf *clean(struct mover *v, int64_t bytes)
{
    struct buf *b = buf_new(v->pool, bytes);
    memset(b->data, 0, (size_t)bytes);
    return b;
}

/* All-to-all: block chunk = from * n + to has come. */
static void deliver_block(struct mover *v, int64_t chunk)
{
    int64_t from = chunk / v->n, to = chunk % v->n;
    for (uint32_t k = 0; k < v->nres; k++) {
        if (v->z->coll->dim < 0) { /* tuple form: operand `to` becomes result `from` */
            if ((int64_t)k == from)
                *result(v, to, k) = buf_ref(coll_operand(v->z, from, (uint32_t)to));
            continue;
        }
        const struct coll_leaf *l = &v->z->coll->leaves[k];
        int64_t n = l->in / v->n;
        struct piece p = { *l, l->in, to * n, l->in, from * n, n };
        copy(&p, v->z->step->lin[k].elem.size, coll_operand(v->z, from, k), *result(v, to, k));
    }
}

static void deliver_whole(struct mover *v, int64_t from, int64_t to)
{
    for (uint32_t k = 0; k < v->nres; k++) {
        const struct leaf *l = &v->z->step->lin[k];
        struct piece p = run_of(l->count, 0, 1);
        copy(&p, l->elem.size, coll_operand(v->z, from, k), *result(v, to, k));
    }
}

/* A chunk of a sum is complete on a rank. */
static void deliver_sum(struct mover *v, int64_t rank, int64_t chunk)
{
    for (uint32_t k = 0; k < v->nres; k++) {
        struct piece p = carried(v, k, chunk);
        if (v->kind == OP_REDUCE_SCATTER) {
            const struct coll_leaf *l = &v->z->coll->leaves[k];
            if (rank != chunk) /* on its way down a tree */
                continue;
            p = (struct piece){ *l, l->in, chunk * l->out, l->out, 0, l->out };
        }
        copy(&p, v->z->step->lin[k].elem.size, v->sum[k], *result(v, rank, k));
    }
}

static void start_gather(struct mover *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        v->have[cell(v, i, i)] = 1;
        for (uint32_t k = 0; k < v->nres; k++) {
            const struct coll_leaf *l = &v->z->coll->leaves[k];
            struct piece p = { *l, l->in, 0, l->in * v->n, i * l->in, l->in };
            copy(&p, v->z->step->lin[k].elem.size, coll_operand(v->z, i, k), *result(v, i, k));
        }
    }
}

static void start_sum(struct mover *v)
{
    v->sum = ARENA_ARRAY(&v->tmp, struct buf *, v->nres + 1);
    v->count = ARENA_ARRAY(&v->tmp, int32_t, v->n * v->hops.nchunks + 1);
    for (int64_t k = 0; k < v->n * v->hops.nchunks; k++)
        v->count[k] = 1;
    for (uint32_t k = 0; k < v->nres; k++)
        v->sum[k] = fold_group(v->z, k, v->r->plan->bounds, v->pool);
}

static void start_exchange(struct mover *v)
{
    v->place = ARENA_ARRAY(&v->tmp, int64_t, v->hops.nchunks + 1);
    for (int64_t c = 0; c < v->hops.nchunks; c++) {
        v->place[c] = c / v->n;
        if (c / v->n == c % v->n)
            deliver_block(v, c);
    }
}

static void start_permute(struct mover *v, const int64_t *source)
{
    for (int64_t i = 0; i < v->n; i++) {
        v->have[cell(v, i, i)] = 1;
        if (source[i] == i)
            deliver_whole(v, i, i);
    }
}

static void start_broadcast(struct mover *v)
{
    deliver_whole(v, 0, 0);
    for (int64_t c = 0; c < v->hops.nchunks; c++)
        v->have[cell(v, 0, c)] = 1;
}

static const int64_t *permute_source(struct mover *v)
{
    int64_t *s = ARENA_ARRAY(&v->tmp, int64_t, v->n + 1);
    for (int64_t i = 0; i < v->n; i++) {
        int64_t from = v->z->coll->source[v->z->members[i]->id];
        s[i] = from < 0 ? -1 : v->z->coll->rank_of[from];
    }
    return s;
}

static void start(struct mover *v)
{
    const int64_t *source = v->kind == OP_COLLECTIVE_PERMUTE ? permute_source(v) : NULL;
    hops_plan(&v->tmp, v->kind, v->r->how, v->n, source, &v->hops);
    int64_t cells = v->moves ? v->hops.nchunks : v->n * v->hops.nchunks;
    v->res = ARENA_ARRAY(&v->tmp, struct buf *, v->n * v->nres + 1);
    v->have = ARENA_ARRAY(&v->tmp, uint8_t, cells + 1);
    v->lost = ARENA_ARRAY(&v->tmp, uint8_t, cells + 1);
    v->avail = ARENA_ARRAY(&v->tmp, int64_t, cells + 1);
    bool tuple = v->kind == OP_ALL_TO_ALL && v->z->coll->dim < 0;
    for (int64_t i = 0; i < v->n && !tuple; i++)
        for (uint32_t k = 0; k < v->nres; k++)
            *result(v, i, k) =
                clean(v, v->z->steps[i]->lout[v->z->coll->first_out + k].bytes);
    switch ((int)v->kind) {
    case OP_ALL_GATHER: start_gather(v); break;
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER: start_sum(v); break;
    case OP_ALL_TO_ALL: start_exchange(v); break;
    case OP_COLLECTIVE_PERMUTE: start_permute(v, source); break;
    default: start_broadcast(v);
    }
    int64_t **ticks[] = { &v->sender_free, &v->receiver_free, &v->sent };
    for (size_t k = 0; k < COUNTOF(ticks); k++)
        *ticks[k] = ARENA_ARRAY(&v->tmp, int64_t, v->n + 1);
    v->spans = ARENA_ARRAY(&v->tmp, struct spans, v->n + 1);
    for (int64_t i = 0; i < v->n; i++) {
        v->sender_free[i] = v->receiver_free[i] = max_i64(v->z->members[i]->clock, v->z->members[i]->wire);
        for (int64_t c = 0; c < v->hops.nchunks && !v->moves; c++)
            v->avail[cell(v, i, c)] = v->z->members[i]->clock;
    }
    for (int64_t c = 0; c < v->hops.nchunks && v->moves; c++)
        v->avail[c] = v->z->members[c / v->n]->clock;
}

/* ---- one hop ------------------------------------------------------------------------------------
 */

static bool is_lost(const struct mover *v, const struct hop *h)
{
    for (int64_t c = h->chunk; c < h->chunk + h->nchunks; c++)
        if (v->lost[cell(v, h->from, c)])
            return true;
    return false;
}

static void lose(struct mover *v, const struct hop *h)
{
    for (int64_t c = h->chunk; c < h->chunk + h->nchunks; c++)
        v->lost[cell(v, h->to, c)] = 1;
    v->nlost++;
}

static void arrive(struct mover *v, const struct hop *h, int64_t c)
{
    int64_t from = cell(v, h->from, c), to = cell(v, h->to, c);
    if (v->moves) {
        INVARIANT(v->place[c] == h->from, "a block is sent from where it is not");
        v->place[c] = h->to;
        if (c % v->n == h->to)
            deliver_block(v, c);
        return;
    }
    if (h->sums) {
        v->count[to] += v->count[from];
        v->have[to] = v->count[to] == v->n;
        if (v->have[to])
            deliver_sum(v, h->to, c);
        return;
    }
    INVARIANT(v->have[from] || v->kind == OP_REDUCE_SCATTER, "a chunk is sent from where it is not");
    v->have[to] = 1;
    if (v->kind == OP_REDUCE_SCATTER) {
        deliver_sum(v, h->to, c);
    } else if (v->kind == OP_COLLECTIVE_PERMUTE) {
        deliver_whole(v, h->from, h->to);
    } else {
        for (uint32_t k = 0; k < v->nres; k++) {
            struct piece p = carried(v, k, c);
            copy(&p, v->z->step->lin[k].elem.size, *result(v, h->from, k), *result(v, h->to, k));
        }
    }
}

static void time_hop(struct mover *v, const struct hop *h, int64_t bytes, int64_t *begin,
                     int64_t *end)
{
    int64_t t = max_i64(v->sender_free[h->from], v->receiver_free[h->to]);
    for (int64_t c = h->chunk; c < h->chunk + h->nchunks; c++)
        t = max_i64(t, v->avail[cell(v, h->from, c)]);
    *begin = t;
    *end = t + HOP_TICKS + ceil_div(bytes, LINK_BYTES);
    v->sender_free[h->from] = v->receiver_free[h->to] = *end;
    for (int64_t c = h->chunk; c < h->chunk + h->nchunks; c++) {
        int64_t *there = &v->avail[cell(v, h->to, c)];
        *there = h->sums ? max_i64(*there, *end) : *end;
    }
    if (!v->record) /* nobody asks when */
        return;
    struct span_of_time span = { *begin, *end };
    vec_push(&v->tmp, &v->spans[h->from].list, span);
    vec_push(&v->tmp, &v->spans[h->to].list, span);
}

static void record(struct mover *v, const struct hop *h, int64_t bytes, int64_t begin, int64_t end)
{
    struct meeting *m = v->record;
    if (!m)
        return;
    m->m.bytes += bytes;
    m->m.nhops++;
    if (m->m.first_hop < 0) /* not kept */
        return;
    struct trace_hop x = { .round = h->round,
                           .from = v->z->members[h->from]->id,
                           .to = v->z->members[h->to]->id,
                           .chunk = h->chunk,
                           .nchunks = h->nchunks,
                           .bytes = bytes,
                           .start = begin,
                           .end = end,
                           .sums = h->sums };
    vec_push(&m->arena, &m->hops, x);
}

/* ---- faults -------------------------------------------------------------------------------------
 */

static struct fault *fault_of(const struct mover *v, const struct hop *h)
{
    const struct device *dev = v->z->members[h->from];
    const struct step *s = v->z->steps[h->from];
    for (int k = 0; k < v->r->nfaults; k++) {
        struct fault *f = &v->r->faults[k];
        if ((f->kind == FAULT_DROP || f->kind == FAULT_CORRUPT) && f->device == dev->id &&
            f->instr.i == s->instr.i && f->turn == turn_of(dev, s) && f->hop == v->sent[h->from])
            return f;
    }
    return NULL;
}

/* What goes over the wire for a chunk: its hash as sent, or with one bit of it turned on the way. */
static uint64_t wire_hash(const struct mover *v, const struct hop *h, bool damaged)
{
    uint64_t hash = (uint64_t)h->chunk;
    for (uint32_t k = 0; k < v->nres; k++) {
        const struct buf *b = v->sums || v->moves || v->kind == OP_COLLECTIVE_PERMUTE
                                  ? coll_operand(v->z, h->from, k)
                                  : *result(v, h->from, k);
        if (b->bytes == 0)
            continue;
        uint8_t *copy_of = malloc((size_t)b->bytes);
        if (!copy_of)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for a message");
        memcpy(copy_of, b->data, (size_t)b->bytes);
        if (damaged) {
            copy_of[b->bytes / 2] ^= 1;
            damaged = false;
        }
        hash = hash_bytes(copy_of, (size_t)b->bytes, hash);
        free(copy_of);
    }
    return hash;
}

/* Turns a bit, and lets the receiver find out by the message's checksum. */
static bool corrupt(struct mover *v, const struct hop *h, struct fault *f)
{
    if (chunk_bytes(v, h->chunk) == 0 || wire_hash(v, h, true) == wire_hash(v, h, false))
        return true;
    f->hit = true;
    f->when = v->sender_free[h->from];
    run_fail(v->r, v->z->steps[h->from]->instr,
             "device %" PRId64 " got a damaged message from device %" PRId64
             ": chunk %" PRId64 " of %" PRId64 " in round %" PRId64 " of %" PRId64
             " (its checksum is wrong)",
             v->z->members[h->to]->id, v->z->members[h->from]->id, h->chunk, v->hops.nchunks,
             h->round + 1, v->hops.rounds);
    return false;
}

/* A message was lost: who waits for whom, along all hops that hang on it. */
static void report_lost(struct mover *v, const struct hop *first)
{
    struct str who = STR_IN(&v->tmp);
    uint8_t *seen = ARENA_ARRAY(&v->tmp, uint8_t, v->n + 1);
    int64_t n = 0;
    for (int64_t k = 0; k < v->hops.list.n; k++) {
        const struct hop *h = &v->hops.list.v[k];
        bool waits = h == first || (h > first && is_lost(v, h));
        if (!waits || seen[h->to])
            continue;
        seen[h->to] = 1;
        if (n++ < 8)
            str_addf(&who, "%sdevice %" PRId64 " for device %" PRId64, n > 1 ? ", " : "",
                     v->z->members[h->to]->id, v->z->members[h->from]->id);
    }
    if (n > 8)
        str_addf(&who, " and %" PRId64 " more", n - 8);
    run_fail(v->r, v->z->steps[first->from]->instr,
             "the message of device %" PRId64 " to device %" PRId64 " is lost (chunk %" PRId64
             " of %" PRId64 ", round %" PRId64 " of %" PRId64 "): these wait for ever: %s",
             v->z->members[first->from]->id, v->z->members[first->to]->id, first->chunk,
             v->hops.nchunks, first->round + 1, v->hops.rounds, str_text(&who));
}

/* ---- the meeting --------------------------------------------------------------------------------
 */

static bool send_all(struct mover *v)
{
    const struct hop *first_lost = NULL;
    for (int64_t k = 0; k < v->hops.list.n; k++) {
        const struct hop *h = &v->hops.list.v[k];
        struct fault *f = v->r->nfaults ? fault_of(v, h) : NULL;
        v->sent[h->from]++;
        if (f && f->kind == FAULT_CORRUPT && !corrupt(v, h, f))
            return false;
        if (f && f->kind == FAULT_DROP) {
            f->hit = true;
            f->when = v->sender_free[h->from];
            first_lost = first_lost ? first_lost : h;
            lose(v, h);
            continue;
        }
        if (v->nlost && is_lost(v, h)) {
            lose(v, h);
            continue;
        }
        int64_t bytes = 0, begin, end;
        for (int64_t c = h->chunk; c < h->chunk + h->nchunks; c++) {
            bytes += chunk_bytes(v, c);
            arrive(v, h, c);
        }
        time_hop(v, h, bytes, &begin, &end);
        record(v, h, bytes, begin, end);
    }
    if (first_lost)
        report_lost(v, first_lost);
    return !first_lost;
}

/* Every device has all that it should: a schedule that forgets one is a bug of ours. */
static void check(const struct mover *v)
{
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t c = 0; c < v->hops.nchunks; c++)
            switch ((int)v->kind) {
            case OP_ALL_TO_ALL:
                INVARIANT(v->place[c] == c % v->n, "a block did not come to its device");
                break;
            case OP_COLLECTIVE_PERMUTE: break;
            case OP_REDUCE_SCATTER:
                INVARIANT(c != i || v->have[cell(v, i, c)], "a sum did not come to its device");
                break;
            default: INVARIANT(v->have[cell(v, i, c)], "a chunk did not come to a device");
            }
}

static int by_start(const void *a, const void *b)
{
    const struct span_of_time *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* A device's time in the meeting: what lies between its hops is waiting. */
static void log_spans(struct mover *v, int64_t rank)
{
    struct device *dev = v->z->members[rank];
    const struct step *s = v->z->steps[rank];
    struct spans *x = &v->spans[rank];
    struct span_of_time none = { dev->clock, dev->clock + 1 };
    if (!x->list.n)
        vec_push(&v->tmp, &x->list, none);
    qsort(x->list.v, (size_t)x->list.n, sizeof *x->list.v, by_start);
    int64_t end = 0;
    for (int64_t k = 0; k < x->list.n; k++)
        end = max_i64(end, x->list.v[k].end);
    v->record->m.end = max_i64(v->record->m.end, end);
    if (trace_flies(v->r, dev, s, end, v->record))
        return;
    for (int64_t k = 0; k < x->list.n;) {
        struct span_of_time t = x->list.v[k];
        for (k++; k < x->list.n && x->list.v[k].start <= t.end; k++)
            t.end = max_i64(t.end, x->list.v[k].end);
        if (t.start > dev->clock)
            trace_event(v->r, dev, s, TRACE_WAIT, dev->clock, t.start, v->record);
        trace_event(v->r, dev, s, TRACE_COLLECTIVE, t.start, t.end, v->record);
        dev->clock = t.end;
    }
}

static void finish(struct mover *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        for (uint32_t k = 0; k < v->nres; k++)
            coll_give(v->z, i, k, *result(v, i, k));
        if (v->record)
            log_spans(v, i);
    }
}

static void drop_all(struct mover *v)
{
    for (int64_t k = 0; k < v->n * v->nres; k++)
        buf_drop(v->pool, v->res[k]);
}

bool move_chunks(struct run *r, struct rendezvous *z, struct pool *pool)
{
    struct mover v = { .r = r, .z = z, .pool = pool, .kind = z->coll->kind, .n = z->size };
    v.nres = z->coll->nresults;
    v.sums = v.kind == OP_ALL_REDUCE || v.kind == OP_REDUCE_SCATTER;
    v.moves = v.kind == OP_ALL_TO_ALL;
    arena_open(&v.tmp);
    start(&v);
    v.record = trace_meet(r, z);
    if (v.record) {
        v.record->m.nchunks = v.hops.nchunks;
        v.record->m.rounds = v.hops.rounds;
    }
    bool ok = send_all(&v);
    if (ok) {
        check(&v);
        finish(&v);
    } else {
        drop_all(&v);
    }
    for (uint32_t k = 0; v.sum && k < v.nres; k++)
        buf_drop(pool, v.sum[k]);
    arena_close(&v.tmp);
    return ok;
}
