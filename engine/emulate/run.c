/* Running plans and programs: inputs in, outputs out, limits checked before anything is allocated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "emulate/collective.h"
#include "emulate/transport.h"
#include "emulate/run.h"

static const struct span nowhere = { 0, 0 };

/* ---- what cannot run yet ------------------------------------------------------------------------
 */

static const char *missing_name(const struct module *m, const struct instr *i)
{
    enum op_kind op = (enum op_kind)i->op;
    if (op == OP_CUSTOM_CALL)
        return custom_call_known(instr_target(m, i)) ? NULL : instr_target(m, i);
    return op_has_kernel(op) ? NULL : op_name(op);
}

int run_missing(const struct module *m, struct arena *a, const char ***out)
{
    uint32_t n;
    VEC(const char *) names = { 0 };
    const comp_id *order = module_call_order(m, false, a, &n);
    for (uint32_t k = 0; k < n; k++) {
        const struct computation *c = comp_at(m, order[k]);
        for (uint32_t j = 0; j < c->ninstrs; j++) {
            const char *name = missing_name(m, instr_at(m, c->instrs[j]));
            bool known = name == NULL;
            for (int64_t q = 0; q < names.n && !known; q++)
                known = strcmp(names.v[q], name) == 0;
            if (!known)
                vec_push(a, &names, name);
        }
    }
    *out = names.v;
    return (int)names.n;
}

/* ---- one run ------------------------------------------------------------------------------------
 */

static int64_t memory_limit(const struct run_options *o)
{
    if (o->max_bytes > 0)
        return o->max_bytes;
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages * size / 4 * 3 : INT64_MAX;
}

/* Bytes of all devices at the worst moment; -1: beyond int64. */
static int64_t planned_bytes(const struct plan *p)
{
    int64_t device = 0, all = 0;
    if (!mul_ok(p->nslots, (int64_t)sizeof(struct buf *), &device) ||
        !add_ok(device, p->entry->peak, &device) || !mul_ok(device, p->ndevices, &all) ||
        !add_ok(all, p->const_bytes, &all))
        return -1;
    return all;
}

int64_t parameter_bytes(const struct plan *p)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < p->entry->nparams; k++)
        if (!add_ok(n, p->entry->lparams[k].bytes, &n))
            return -1;
    return mul_ok(n, p->ndevices, &n) ? n : -1;
}

bool memory_fits(const struct plan *a, const struct plan *b, int64_t more, int64_t limit,
                 struct diag *d)
{
    int64_t need = planned_bytes(a), other = b ? planned_bytes(b) : 0;
    bool known = need >= 0 && other >= 0 && more >= 0 && add_ok(max_i64(need, other), more, &need);
    if (limit <= 0)
        limit = memory_limit(&(struct run_options){ 0 });
    if (known && need <= limit)
        return true;
    char text[64] = "more than can be counted";
    if (known)
        snprintf(text, sizeof text, "%.1f GB of memory", (double)need / 1e9);
    const char *former = diag_stage(d, "memory");
    (void)diag_error(d, NULL, nowhere,
                     "running this on %" PRId64 " devices needs %s, the limit is %.1f GB",
                     b ? b->ndevices : a->ndevices, text, (double)limit / 1e9);
    diag_hint(d, "a smaller dump of the same model on fewer devices proves the same strategy; `memory` and `cost` "
                 "tell of this one without running it");
    diag_stage(d, former);
    return false;
}

static bool check_inputs(const struct plan *p, const struct tensor *in, int64_t nin, struct diag *d)
{
    const struct comp_plan *e = p->entry;
    if (nin != (int64_t)e->nparams)
        return diag_error(d, NULL, nowhere,
                          "the program has %u parameters, %" PRId64 " values are given", e->nparams,
                          nin);
    for (int64_t k = 0; k < nin * p->ndevices; k++) {
        const struct leaf *l = &e->lparams[k % nin];
        if (l->elem.ct == CT_TOKEN)
            continue;
        int64_t size = in[k].ring ? elem_of(in[k].dtype, EMU_RING).size : dtype_bytes(in[k].dtype);
        if (in[k].dtype != l->elem.t || in[k].bytes != l->count * size)
            return diag_error(d, NULL, nowhere,
                              "value of parameter %" PRId64 " on device %" PRId64 " has %" PRId64
                              " bytes of %s, the program wants %" PRId64 " elements of %s",
                              k % nin, k / nin, in[k].bytes, dtype_name(in[k].dtype), l->count,
                              dtype_name(l->elem.t));
    }
    return true;
}

/* Inputs as the mode has them: floats become ring elements. */
static struct buf *input_buf(const struct plan *p, const struct tensor *t, const struct leaf *l,
                             bool poison, struct pool *pool)
{
    struct elem from = elem_of(t->dtype, t->ring ? EMU_RING : EMU_FLOAT);
    const uint8_t *shadow = poison ? t->poison : NULL;
    if (l->elem.ct == CT_TOKEN)
        return NULL;
    if (from.ct == l->elem.ct)
        return buf_borrow(t->data, t->bytes, shadow, l->count);
    struct buf *b = buf_new(pool, l->bytes);
    INVARIANT(p->mode == EMU_RING, "inputs of another representation");
    ring_from_floats(t->dtype, t->data, b->data, l->count);
    if (shadow) {
        b->poison = malloc((size_t)l->count + 1);
        INVARIANT(b->poison, "no memory for shadow bits");
        memcpy(b->poison, shadow, (size_t)l->count);
    }
    return b;
}

void devices_make(struct run *r, const struct tensor *in, int64_t nin, const struct run_options *o)
{
    const struct plan *p = r->plan;
    r->devices = ARENA_ARRAY(&r->arena, struct device, r->ndevices);
    r->queue = ARENA_ARRAY(&r->arena, int64_t, r->ndevices);
    r->inputs = ARENA_ARRAY(&r->arena, struct buf *, r->ndevices * nin + 1);
    r->ninputs = r->ndevices * nin;
    for (int64_t d = 0; d < r->ndevices; d++) {
        struct device *dev = &r->devices[d];
        dev->id = d;
        dev->partition = d % p->npartitions;
        dev->replica = d / p->npartitions;
        dev->slots = ARENA_ARRAY(&r->arena, struct buf *, p->nslots + 1);
        dev->stack = ARENA_ARRAY(&r->arena, struct frame, p->depth + 1);
        if (r->observer)
            dev->tap_count = ARENA_ARRAY(&r->arena, uint32_t, module_ninstrs(p->m) + 1);
        dev->stack[0].plan = p->entry;
        dev->depth = 1;
        dev->rng_state[0] = 0x7012395; /* what XLA starts with */
        for (int64_t k = 0; k < p->consts.n; k++)
            dev->slots[p->consts.v[k].slot] = p->consts.v[k].buf;
        for (int64_t k = 0; k < nin; k++) {
            struct buf *b =
                input_buf(p, &in[d * nin + k], &p->entry->lparams[k], o->poison, &dev->pool);
            dev->slots[p->entry->params[k]] = b;
            if (b && b->klass == -2)
                r->inputs[d * nin + k] = b;
        }
    }
}

void devices_free(struct run *r)
{
    for (int64_t d = 0; r->devices && d < r->ndevices; d++) {
        struct device *dev = &r->devices[d];
        for (uint32_t k = 0; dev->slots && k < r->plan->nslots; k++)
            if (!r->plan->slot_const[k])
                buf_drop(NULL, dev->slots[k]);
    }
    for (int64_t k = 0; r->inputs && k < r->ninputs; k++)
        buf_drop(NULL, r->inputs[k]);
    for (int64_t d = 0; r->devices && d < r->ndevices; d++)
        pool_free(&r->devices[d].pool);
}

static bool leaf_out(const struct plan *p, const struct buf *b, const struct leaf *l, shape_id s,
                     struct tensor *t)
{
    const struct shape *shape = shape_get(p->m->ir, s);
    if (l->elem.ct == CT_TOKEN || shape->kind != SHAPE_ARRAY) {
        *t = (struct tensor){ 0 };
        return true;
    }
    if (!tensor_alloc(shape->dtype, shape->rank, shape->dims, p->mode == EMU_RING, t))
        return false;
    memcpy(t->data, b->data, (size_t)l->bytes);
    if (!b->poison)
        return true;
    t->poison = malloc((size_t)l->count + 1);
    if (!t->poison)
        return false;
    memcpy(t->poison, b->poison, (size_t)l->count);
    return true;
}

static bool outputs_take(struct run *r, struct run_result *out, struct diag *d)
{
    const struct plan *p = r->plan;
    const struct comp_plan *e = p->entry;
    shape_id root = instr_at(p->m, comp_at(p->m, e->comp)->root)->shape;
    out->nleaves = e->nroots;
    out->out = calloc((size_t)(r->ndevices * e->nroots) + 1, sizeof *out->out);
    if (!out->out)
        return diag_error(d, NULL, nowhere, "no memory for outputs");
    bool tuple = shape_get(p->m->ir, root)->kind == SHAPE_TUPLE;
    for (int64_t dev = 0; dev < r->ndevices; dev++)
        for (uint32_t k = 0; k < e->nroots; k++) {
            struct tensor *t = &out->out[dev * e->nroots + k];
            shape_id s = tuple ? shape_leaf(p->m->ir, root, k) : root;
            if (!leaf_out(p, r->devices[dev].slots[e->roots[k]], &e->lroots[k], s, t))
                return diag_error(d, NULL, nowhere, "no memory for outputs");
            out->hash = hash_bytes(t->data, (size_t)t->bytes, out->hash);
        }
    return true;
}

static bool bounds_take(struct run *r, double ***out, struct diag *d)
{
    const struct comp_plan *e = r->plan->entry;
    double **v = *out = calloc((size_t)e->nroots + 1, sizeof *v);
    for (uint32_t k = 0; v && k < e->nroots; k++) {
        const struct buf *b = r->devices[0].slots[e->roots[k]];
        size_t bytes = (size_t)e->lroots[k].count * sizeof(double);
        if (!b || !b->bound)
            continue;
        v[k] = malloc(bytes + 1);
        if (!v[k])
            return diag_error(d, NULL, nowhere, "no memory for error bounds");
        memcpy(v[k], b->bound, bytes);
    }
    return v || diag_error(d, NULL, nowhere, "no memory for error bounds");
}

static bool run_inside(struct run *r, const struct tensor *in, int64_t nin,
                       const struct run_options *o, const struct run_more *more,
                       struct run_result *out, struct tick *tick, struct diag *d)
{
    devices_make(r, in, nin, o);
    rendezvous_make(r);
    if (r->watched)
        trace_begin(r, o->trace);
    bool ok = schedule_run(r, o->threads, tick, d) && outputs_take(r, out, d) &&
              (!more || !more->bounds || bounds_take(r, more->bounds, d));
    for (int64_t k = 0; k < r->ndevices; k++)
        out->steps += r->devices[k].steps;
    return ok;
}

static bool run_protected(struct run *r, const struct tensor *in, int64_t nin,
                          const struct run_options *o, const struct run_more *more,
                          struct run_result *out, struct tick *tick, struct diag *d)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        bool ok = run_inside(r, in, nin, o, more, out, tick, d);
        fail_leave(&f);
        return ok;
    }
    return diag_error(d, NULL, nowhere, "%s", f.text);
}

#define DEFAULT_LOOPS ((int64_t)1 << 28)

bool run_plan(const struct plan *p, const struct tensor *inputs, int64_t nin,
              const struct run_options *o, const struct run_more *more, struct run_result *out,
              struct tick *tick, struct diag *d)
{
    *out = (struct run_result){ .ndevices = p->ndevices };
    if (!check_inputs(p, inputs, nin, d) || !memory_fits(p, NULL, 0, o->max_bytes, d))
        return false;
    out->peak_bytes = planned_bytes(p);
    struct run r = { .plan = p, .ndevices = p->ndevices, .random = o->schedule_seed };
    r.observer = more ? more->observer : NULL;
    r.max_float_loops = more ? more->max_float_loops : 0;
    r.how = o->collectives;
    r.faults = o->faults;
    r.nfaults = o->nfaults;
    r.watched = o->trace || o->nfaults;
    r.distributed = transport_get() && transport_get()->nranks > 1 && p->ndevices > 1 &&
                    !r.watched && !r.observer && !p->bounds;
    r.max_loops = o->max_steps > 0 ? o->max_steps : DEFAULT_LOOPS;
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.work, NULL);
    pthread_cond_init(&r.idle, NULL);
    bool ok = run_protected(&r, inputs, nin, o, more, out, tick, d);
    if (r.watched && r.devices && o->trace)
        trace_end(&r, o->trace);
    if (more && more->float_limit)
        *more->float_limit = r.float_limit;
    for (int64_t k = 0; more && more->control && k < p->ndevices && r.devices; k++)
        if (r.devices[k].control_poisoned && !more->control->i)
            *more->control = r.devices[k].control_at;
    devices_free(&r);
    arena_free(&r.arena);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.work);
    pthread_cond_destroy(&r.idle);
    if (!ok)
        run_result_free(out);
    return ok;
}

void run_result_free(struct run_result *r)
{
    for (int64_t k = 0; r->out && k < r->ndevices * r->nleaves; k++)
        tensor_free(&r->out[k]);
    free(r->out);
    *r = (struct run_result){ 0 };
}

bool run_module(const struct module *m, const struct tensor *inputs, int64_t nin,
                const struct run_options *o, struct run_result *out, struct tick *tick,
                struct diag *d)
{
    *out = (struct run_result){ 0 };
    struct plan_options po = { .mode = o->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                               .ndevices = o->ndevices,
                               .unfused = o->trace || o->nfaults };
    struct plan *p = plan_make(m, &po, tick, d);
    if (!p)
        return false;
    bool ok = run_plan(p, inputs, nin, o, NULL, out, tick, d);
    plan_free(p);
    return ok;
}

bool run_fits(const struct module *m, const struct run_options *o, int64_t more, struct tick *tick,
              struct diag *d)
{
    struct plan_options po = { .mode = o->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                               .ndevices = o->ndevices };
    struct plan *p = plan_make(m, &po, tick, d);
    if (!p)
        return false;
    int64_t in = parameter_bytes(p), out = 0, all = -1;
    for (uint32_t k = 0; k < p->entry->nroots && out >= 0; k++)
        out = add_ok(out, p->entry->lroots[k].bytes, &out) ? out : -1;
    bool counted = in >= 0 && out >= 0 && mul_ok(out, p->ndevices, &out) && add_ok(in, out, &all) &&
                   add_ok(all, more, &all);
    bool ok = memory_fits(p, NULL, counted ? all : -1, o->max_bytes, d);
    plan_free(p);
    return ok;
}

/* ---- a program on global arrays -----------------------------------------------------------------
 */

sharding_id leaf_sharding(const struct shardings *t, sharding_id s, int64_t leaf)
{
    const struct sharding *sh = sharding_get(t, s);
    if (!s.i || sh->kind != SHARDING_TUPLE)
        return s;
    return leaf < sh->nelems ? sh->elems[leaf] : (sharding_id){ 0 };
}

/* Devices with the same tile share one cut. */
static bool cut_leaf(struct shardings *t, sharding_id s, const struct tensor *global,
                     struct cuts *c, int64_t leaf)
{
    struct map seen;
    map_init(&seen, &c->arena);
    for (int64_t d = 0; d < c->ndevices; d++) {
        int64_t start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
        bool holds = shard_window(t, s, global->rank, global->dims, d, start, real, local);
        uint64_t key = hash_bytes(start, (size_t)global->rank * sizeof *start, holds), at;
        struct tensor *to = &c->in[d * c->nin + leaf];
        /* Tiles that lie wholly in the padding start at the same place: their sizes tell them
         * apart. */
        key = hash_bytes(real, (size_t)global->rank * sizeof *real, key);
        if (map_get(&seen, key, &at)) {
            *to = c->in[(int64_t)at * c->nin + leaf];
            continue;
        }
        if (!tensor_cut(t, s, global, d, to))
            return false;
        c->owned[d * c->nin + leaf] = true;
        map_put(&seen, key, (uint64_t)d);
    }
    return true;
}

bool cuts_make(const struct program *p, const struct tensor *global, int64_t nin, struct cuts *c,
               struct diag *d)
{
    struct shardings *t = p->module->ir->shardings;
    struct ir *ir = p->module->ir;
    c->ndevices = p->num_partitions;
    c->nin = nin;
    c->in = ARENA_ARRAY(&c->arena, struct tensor, c->ndevices * nin + 1);
    c->owned = ARENA_ARRAY(&c->arena, bool, c->ndevices *nin + 1);
    int64_t at = 0;
    for (int64_t k = 0; k < p->nparams; k++) {
        const struct shape *s = shape_get(ir, p->param_shape[k]);
        for (int64_t leaf = 0; leaf < s->nleaves; leaf++, at++) {
            sharding_id sh = leaf_sharding(t, p->param_sharding[k], leaf);
            if (at >= nin)
                return diag_error(d, NULL, nowhere,
                                  "the program has more than %" PRId64 " parameters", nin);
            if (global[at].dtype != DTYPE_NONE && !cut_leaf(t, sh, &global[at], c, at))
                return diag_error(d, NULL, nowhere,
                                  "parameter %" PRId64 " cannot be cut into shards", k);
        }
    }
    return at == nin ||
           diag_error(d, NULL, nowhere,
                      "the program has %" PRId64 " parameters, %" PRId64 " values are given", at,
                      nin);
}

void cuts_free(struct cuts *c)
{
    for (int64_t k = 0; c->in && k < c->ndevices * c->nin; k++)
        if (c->owned[k])
            tensor_free(&c->in[k]);
    arena_free(&c->arena);
    *c = (struct cuts){ 0 };
}

static bool join_all(const struct program *p, const struct run_result *r, struct tensor *out,
                     bool *equal, struct diag *d)
{
    struct ir *ir = p->module->ir;
    const struct shape *whole = shape_get(ir, p->result_shape);
    *equal = true;
    for (int64_t k = 0; k < r->nleaves; k++) {
        shape_id id =
            whole->kind == SHAPE_TUPLE ? shape_leaf(ir, p->result_shape, k) : p->result_shape;
        const struct shape *s = shape_get(ir, id);
        bool same = true;
        if (s->kind == SHAPE_ARRAY &&
            !tensor_join(ir->shardings, leaf_sharding(ir->shardings, p->result_sharding, k),
                         s->rank, s->dims, r->out + k, r->nleaves, r->ndevices, &out[k], &same))
            return diag_error(d, NULL, nowhere, "no memory for output %" PRId64, k);
        *equal &= same;
    }
    return true;
}

bool run_program(const struct program *p, const struct tensor *global_in, int64_t nin,
                 const struct run_options *o, struct tensor **global_out, int64_t *nout,
                 bool *copies_equal, struct tick *tick, struct diag *d)
{
    struct cuts c = { 0 };
    struct run_options opt = *o;
    struct run_result r = { 0 };
    struct plan_options po = { .mode = o->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                               .ndevices = p->num_partitions,
                               .unfused = o->trace || o->nfaults };
    opt.ndevices = p->num_partitions;
    *global_out = NULL;
    *nout = 0;
    struct plan *plan = plan_make(p->module, &po, tick, d);
    if (!plan)
        return false;
    bool ok = memory_fits(plan, NULL, parameter_bytes(plan), o->max_bytes, d) &&
              cuts_make(p, global_in, nin, &c, d) &&
              run_plan(plan, c.in, nin, &opt, NULL, &r, tick, d);
    cuts_free(&c);
    plan_free(plan);
    if (ok) {
        struct tensor *out = calloc((size_t)r.nleaves + 1, sizeof *out);
        ok = out ? join_all(p, &r, out, copies_equal, d)
                 : diag_error(d, NULL, nowhere, "no memory for outputs");
        *nout = r.nleaves;
        *global_out = out;
        if (!ok) {
            for (int64_t k = 0; out && k < r.nleaves; k++)
                tensor_free(&out[k]);
            free(out);
            *global_out = NULL;
        }
    }
    run_result_free(&r);
    return ok;
}
