/* Where a difference begins: both runs once more, showing values on the way.
 *
 * A node of the program that serves instruction X, has X's sharding and the shape of its shard,
 * stands for X (the last such node: earlier ones are steps towards it). The one-device run keeps
 * X's values; each device's shards are compared with them as they appear. The first difference in
 * the order of the one-device run is an instruction whose operands agree.
 */
#include <stdlib.h>
#include <string.h>

#include "emulate/verify.h"

#define KEEP_BYTES ((int64_t)1 << 30) /* values of the one-device run are kept up to this */

struct event {
    instr_id instr;
    int64_t nth;
    struct buf *value;
};

struct locating {
    struct verifying *v;
    struct arena arena;
    pthread_mutex_t lock;
    instr_id *stands_for; /* [program's ninstrs + 1] */
    struct map where;     /* (instr, nth) -> event */
    VEC(struct event) events;
    struct plan *kept;
    int64_t bytes;
    /* the earliest difference so far */
    int64_t best, device, element;
    const char *expected, *got;
    /* of verify_each: 1 compared, 2 differs, by instruction */
    uint8_t *outcome;
    int64_t values;
};

/* Values of manual regions are one a device; others are the same everywhere: device 0's are kept.
 */
static bool one_a_device(const struct locating *l, instr_id i)
{
    sharding_id s = l->v->pr->final[i.i];
    return l->v->manual && s.i && sharding_has_manual(l->v->p->module->ir->shardings, s);
}

static uint64_t event_key(instr_id i, int64_t nth, int64_t device)
{
    return hash_u64((uint64_t)i.i << 32 | (uint64_t)(nth & 0xffffffff)) + (uint64_t)device;
}

static void keep(void *context, int64_t device, instr_id instr, int64_t nth, uint32_t n,
                 struct buf *const *leaves)
{
    struct locating *l = context;
    if (n != 1 || !leaves[0] || (device && !one_a_device(l, instr)))
        return;
    pthread_mutex_lock(&l->lock);
    if (l->bytes + leaves[0]->bytes <= KEEP_BYTES) {
        struct event e = { instr, nth, buf_ref(leaves[0]) };
        l->bytes += leaves[0]->bytes;
        map_put(&l->where, event_key(instr, nth, device), (uint64_t)l->events.n);
        vec_push(&l->arena, &l->events, e);
    }
    pthread_mutex_unlock(&l->lock);
}

struct differing {
    const char *want, *got;
    const uint8_t *poison;
    int size;
    int64_t at, local; /* first different element, global and local; -1: none */
};

static void differ_row(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct differing *f = context;
    for (int64_t i = 0; i < n; i++, d += ds, s += ss)
        if ((f->at < 0 || s < f->at) &&
            (memcmp(f->want + s * f->size, f->got + d * f->size, (size_t)f->size) != 0 ||
             (f->poison && f->poison[d]))) {
            f->at = s;
            f->local = d;
        }
}

static struct differing first_difference(const struct locating *l, const struct shape *s,
                                         sharding_id sh, const struct event *e, int64_t device,
                                         const struct buf *b, int size)
{
    int64_t start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
    struct differing f = { e->value->data, b->data, b->poison, size, -1, -1 };
    struct arena tmp = { 0 };
    if (!shard_window(l->v->p->module->ir->shardings, sh, s->rank, s->dims, device, start, real,
                      local))
        return f;
    arena_open(&tmp);
    struct box x = box_new(&tmp, s->rank);
    row_strides(s->rank, local, x.dst);
    row_strides(s->rank, s->dims, x.src);
    for (int k = 0; k < s->rank; k++) {
        x.dims[k] = real[k];
        x.src0 += start[k] * x.src[k];
    }
    box_compact(&x);
    box_rows(&x, differ_row, &f);
    arena_close(&tmp);
    return f;
}

static void compare(void *context, int64_t device, instr_id node, int64_t nth, uint32_t n,
                    struct buf *const *leaves)
{
    struct locating *l = context;
    uint64_t at;
    instr_id source = l->stands_for[node.i];
    if (n != 1 || !leaves[0] ||
        !map_get(&l->where, event_key(source, nth, one_a_device(l, source) ? device : 0), &at))
        return;
    const struct event *e = &l->events.v[at];
    const struct module *m = l->v->pr->graph->module;
    const struct shape *s = instr_shape(m, source);
    int size = elem_of(s->dtype, EMU_RING).size;
    struct differing f =
        first_difference(l, s, l->v->p->node_sharding[node.i], e, device, leaves[0], size);
    pthread_mutex_lock(&l->lock);
    l->values++;
    if (!l->outcome[source.i])
        l->outcome[source.i] = 1;
    if (f.at < 0) {
        pthread_mutex_unlock(&l->lock);
        return;
    }
    l->outcome[source.i] = 2;
    int64_t seq = (int64_t)at;
    if (l->best < 0 || seq < l->best || (seq == l->best && device < l->device)) {
        struct tensor t = { .dtype = s->dtype, .ring = true };
        bool padding = f.poison && f.poison[f.local];
        l->best = seq;
        l->device = device;
        l->element = f.at;
        l->expected = element_text(&l->v->out->arena, &t, f.want + f.at * size);
        l->got = padding ? "padding" : element_text(&l->v->out->arena, &t, f.got + f.local * size);
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- which node stands for what -----------------------------------------------------------------
 */

static bool stands(const struct verifying *v, instr_id node, instr_id source)
{
    const struct module *m = v->pr->graph->module, *pm = v->p->module;
    struct shardings *t = pm->ir->shardings;
    const struct shape *whole = instr_shape(m, source), *part = instr_shape(pm, node);
    sharding_id final = v->pr->final[source.i], have = v->p->node_sharding[node.i];
    int64_t local[MAX_RANK];
    if (whole->kind != SHAPE_ARRAY || part->kind != SHAPE_ARRAY || whole->rank != part->rank ||
        whole->dtype != part->dtype || whole->rank > MAX_RANK || !have.i)
        return false;
    if (!final.i)
        final = sharding_replicated(t);
    if (final.i != have.i)
        return false;
    dims_copy(local, whole->dims, whole->rank);
    if (sharding_is_tiled(t, have))
        sharding_shard_dims(t, have, whole->rank, whole->dims, local);
    return dims_equal(local, part->dims, whole->rank);
}

static void choose(struct locating *l, uint8_t *whole, uint8_t *parts)
{
    const struct module *m = l->v->pr->graph->module, *pm = l->v->p->module;
    instr_id *last = ARENA_ARRAY(&l->arena, instr_id, module_ninstrs(m) + 1);
    l->outcome = ARENA_ARRAY(&l->arena, uint8_t, module_ninstrs(m) + 1);
    l->stands_for = ARENA_ARRAY(&l->arena, instr_id, module_ninstrs(pm) + 1);
    for (uint32_t k = 1; k <= module_ninstrs(pm); k++) {
        instr_id source = l->v->p->notes[k].source;
        if (source.i && source.i <= module_ninstrs(m) && stands(l->v, (instr_id){ k }, source))
            last[source.i] = (instr_id){ k };
    }
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (last[k].i) {
            l->stands_for[last[k].i] = (instr_id){ k };
            whole[k] = 1;
            parts[last[k].i] = 1;
        }
}

/* ---- the runs -----------------------------------------------------------------------------------
 */

static bool run_kept(struct locating *l, const uint8_t *taps, struct diag *d)
{
    struct verifying *v = l->v;
    struct plan *p = verify_whole_plan(v, taps, d);
    if (!p)
        return false;
    struct observer o = { keep, l };
    struct run_more more = { .observer = &o };
    struct run_options opt = verify_options(v, p->ndevices);
    struct run_result r;
    opt.threads = 1; /* so that the order of events is always the same */
    bool ok = run_plan(p, verify_whole_inputs(v, &l->arena), v->nin, &opt, &more, &r, v->tick, d);
    run_result_free(&r);
    l->kept = p; /* constants among the values live in it */
    return ok;
}

static bool run_compared(struct locating *l, const uint8_t *taps, struct diag *d)
{
    struct verifying *v = l->v;
    struct cuts c = { 0 };
    struct plan_options po = { .mode = EMU_RING, .ndevices = v->p->num_partitions, .taps = taps };
    struct plan *p = plan_make(v->p->module, &po, v->tick, d);
    if (!p)
        return false;
    struct observer o = { compare, l };
    struct run_more more = { .observer = &o };
    struct run_options opt = verify_options(v, v->p->num_partitions);
    struct run_result r = { 0 };
    bool ok = cuts_make(v->p, v->in, v->nin, &c, d) &&
              run_plan(p, c.in, v->nin, &opt, &more, &r, v->tick, d);
    run_result_free(&r);
    cuts_free(&c);
    plan_free(p);
    return ok;
}

static void count_outcomes(const struct locating *l)
{
    struct verify_result *r = l->v->out;
    const struct module *m = l->v->pr->graph->module;
    r->values = l->values;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        r->comparable += instr_shape(m, (instr_id){ k })->kind == SHAPE_ARRAY;
        r->compared += l->outcome[k] != 0;
        r->differing += l->outcome[k] == 2;
    }
}

static void report(const struct locating *l)
{
    struct verify_result *r = l->v->out;
    const struct event *e = &l->events.v[l->best];
    const struct shape *s = instr_shape(l->v->pr->graph->module, e->instr);
    int64_t rest = l->element;
    r->first = e->instr;
    r->device = l->device;
    r->rank = s->rank;
    for (int k = s->rank - 1; k >= 0; k--) {
        r->index[k] = rest % s->dims[k];
        rest /= s->dims[k];
    }
    r->expected = l->expected;
    r->got = l->got;
}

void verify_locate(struct verifying *v)
{
    if (v->mode != RUN_RING || !v->p->notes || !v->p->node_sharding)
        return;
    struct locating l = { .v = v, .best = -1 };
    struct diag *d = diag_new(); /* a second run that fails has nothing to add */
    pthread_mutex_init(&l.lock, NULL);
    map_init(&l.where, &l.arena);
    uint8_t *whole = arena_alloc(&l.arena, module_ninstrs(v->pr->graph->module) + 1, 1);
    uint8_t *parts = arena_alloc(&l.arena, module_ninstrs(v->p->module) + 1, 1);
    choose(&l, whole, parts);
    bool ran = run_kept(&l, whole, d) && run_compared(&l, parts, d);
    if (ran && v->each)
        count_outcomes(&l);
    if (ran && l.best >= 0)
        report(&l);
    for (int64_t k = 0; k < l.events.n; k++)
        buf_drop(NULL, l.events.v[k].value);
    plan_free(l.kept);
    pthread_mutex_destroy(&l.lock);
    diag_free(d);
    arena_free(&l.arena);
}
