/* verify: the partitioned program against the unpartitioned module (DESIGN.md section 5).
 *
 * Mode ring runs both over wrapping integers and wants equal bits, and that no result element
 * depends on padding. Mode float runs both in their real types; the one-device run has beside each
 * value a bound of what another order of the same sums may be off by, made from the same operations
 * over absolute values (bound.c). So |got - want| <= bound is the test, element by element.
 */
#include "emulate/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct span nowhere = { 0, 0 };

#define RING_FLOAT_LOOPS 10000
#define RING_LOOPS       ((int64_t)20 << 20)

void verify_result_free(struct verify_result *r)
{
    arena_free(&r->arena);
    *r = (struct verify_result){ 0 };
}

struct run_options verify_options(const struct verifying *v, int64_t ndevices)
{
    return (struct run_options){ .mode = v->mode,
                                 .ndevices = ndevices,
                                 .threads = v->threads,
                                 .max_steps = RING_LOOPS,
                                 .poison = true };
}

const char *element_text(struct arena *a, const struct tensor *t, const void *at)
{
    int64_t v = 0;
    enum dtype_kind kind = dtype_kind(t->dtype);
    bool real = kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
    if (real && !t->ring) {
        enum dtype part = kind == DTYPE_KIND_FLOAT ? t->dtype
                          : t->dtype == DTYPE_C64  ? DTYPE_F32
                                                   : DTYPE_F64;
        double re = real_load(part, at);
        if (kind == DTYPE_KIND_FLOAT)
            return arena_printf(a, "%.17g", re);
        return arena_printf(a, "(%.17g, %.17g)", re,
                            real_load(part, (const char *)at + dtype_bytes(part)));
    }
    if (real && kind == DTYPE_KIND_COMPLEX) {
        int64_t pair[2];
        memcpy(pair, at, sizeof pair);
        return arena_printf(a, "(%" PRId64 ", %" PRId64 ")", pair[0], pair[1]);
    }
    if (real) {
        memcpy(&v, at, 8);
        return arena_printf(a, "%" PRId64, v);
    }
    v = read_index(elem_of(t->dtype, EMU_FLOAT), at, 0);
    if (kind == DTYPE_KIND_PRED)
        return v ? "true" : "false";
    if (t->dtype == DTYPE_U64)
        memcpy(&v, at, 8);
    return t->dtype == DTYPE_U64 ? arena_printf(a, "%" PRIu64, (uint64_t)v)
                                 : arena_printf(a, "%" PRId64, v);
}

const char *tensor_element_text(struct arena *a, const struct tensor *t, int64_t i)
{
    int size = elem_of(t->dtype, t->ring ? EMU_RING : EMU_FLOAT).size;
    const char *at = (const char *)t->data + i * size;
    enum dtype_kind kind = dtype_kind(t->dtype);
    if (t->ring || (kind != DTYPE_KIND_FLOAT && kind != DTYPE_KIND_COMPLEX))
        return element_text(a, t, at);
    if (kind == DTYPE_KIND_FLOAT)
        return arena_printf(a, "%.6g", real_load(t->dtype, at));
    enum dtype part = t->dtype == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
    return arena_printf(a, "(%.6g, %.6g)", real_load(part, at),
                        real_load(part, at + dtype_bytes(part)));
}

/* ---- inputs -------------------------------------------------------------------------------------
 */

/* Ring elements of all 64 bits for floats: a proof over as many values as there are. */
static bool ring_input(const struct shape *s, int64_t k, uint64_t seed, struct tensor *out,
                       struct diag *d)
{
    struct tensor plain;
    if (!tensor_generate(s->dtype, s->rank, s->dims, k, seed, &plain, d))
        return false;
    bool ok = tensor_to_ring(&plain, out);
    tensor_free(&plain);
    if (!ok)
        return diag_error(d, NULL, nowhere, "no memory for parameter %" PRId64, k);
    if (elem_of(s->dtype, EMU_RING).ct != CT_RING && elem_of(s->dtype, EMU_RING).ct != CT_RINGC)
        return true;
    int64_t *v = out->data;
    for (int64_t i = 0; i < out->bytes / 8; i++)
        v[i] = ring_mix(seed + 17, (uint64_t)k, (uint64_t)i);
    return true;
}

/* Small integers over 8: exact in every type, and functions of them stay in range. */
static bool float_input(const struct shape *s, int64_t k, uint64_t seed, struct tensor *out,
                        struct diag *d)
{
    if (!tensor_generate(s->dtype, s->rank, s->dims, k, seed, out, d))
        return false;
    enum dtype_kind kind = dtype_kind(s->dtype);
    enum dtype part = kind == DTYPE_KIND_FLOAT ? s->dtype
                      : s->dtype == DTYPE_C64  ? DTYPE_F32
                                               : DTYPE_F64;
    if (kind != DTYPE_KIND_FLOAT && kind != DTYPE_KIND_COMPLEX)
        return true;
    for (char *at = out->data; at < (char *)out->data + out->bytes; at += dtype_bytes(part))
        real_store(part, real_load(part, at) / 8, at);
    return true;
}

static bool inputs_make(struct verifying *v)
{
    const struct module *m = v->pr->graph->module;
    const struct computation *e = comp_at(m, m->entry);
    int64_t n = 0;
    for (uint32_t k = 0; k < e->nparams; k++)
        n += instr_shape(m, e->params[k])->nleaves;
    v->in = calloc((size_t)n + 1, sizeof *v->in);
    if (!v->in)
        return diag_error(v->d, NULL, nowhere, "no memory for inputs");
    v->nin = n;
    n = 0;
    for (uint32_t k = 0; k < e->nparams; k++) {
        const struct shape *s = instr_shape(m, e->params[k]);
        for (int64_t leaf = 0; leaf < s->nleaves; leaf++, n++) {
            const struct shape *l =
                s->kind == SHAPE_TUPLE
                    ? shape_get(m->ir, shape_leaf(m->ir, instr_at(m, e->params[k])->shape, leaf))
                    : s;
            if (l->kind != SHAPE_ARRAY)
                continue;
            bool ok = v->mode == RUN_RING ? ring_input(l, n, v->out->seed, &v->in[n], v->d)
                                          : float_input(l, n, v->out->seed, &v->in[n], v->d);
            if (!ok)
                return false;
        }
    }
    return true;
}

static void inputs_free(struct verifying *v)
{
    for (int64_t k = 0; v->in && k < v->nin; k++)
        tensor_free(&v->in[k]);
    free(v->in);
    v->in = NULL;
}

/* ---- the two runs -------------------------------------------------------------------------------
 */

static bool has_manual_regions(const struct module *m)
{
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (custom_call_changes_shape(m, (instr_id){ k }))
            return true;
    return false;
}

struct plan *verify_whole_plan(const struct verifying *v, const uint8_t *taps, struct diag *d)
{
    struct plan_options o = { .mode = v->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                              .bounds = v->bounds,
                              .ndevices = 1,
                              .taps = taps };
    if (v->manual) {
        o.manual = v->pr->final;
        o.ndevices = v->p->num_partitions;
    }
    return plan_make(v->pr->graph->module, &o, v->tick, d);
}

const struct tensor *verify_whole_inputs(struct verifying *v, struct arena *a)
{
    if (!v->manual)
        return v->in;
    struct tensor *all = ARENA_ARRAY(a, struct tensor, v->p->num_partitions * v->nin + 1);
    for (int64_t d = 0; d < v->p->num_partitions; d++)
        memcpy(all + d * v->nin, v->in, (size_t)v->nin * sizeof *all);
    return all;
}

/* Both plans, and whether all fits into memory, before a byte of data is made. */
static bool plans_make(struct verifying *v)
{
    struct plan_options po = { .mode = v->mode == RUN_RING ? EMU_RING : EMU_FLOAT,
                               .ndevices = v->p->num_partitions };
    v->bounds = v->mode == RUN_FLOAT;
    v->manual = has_manual_regions(v->pr->graph->module);
    v->whole = verify_whole_plan(v, NULL, v->d);
    v->parts = v->whole ? plan_make(v->p->module, &po, v->tick, v->d) : NULL;
    if (!v->parts)
        return false;
    int64_t a = parameter_bytes(v->whole), b = parameter_bytes(v->parts), more = -1;
    if (a < 0 || b < 0 || !add_ok(a, b, &more))
        more = -1;
    return memory_fits(v->whole, v->parts, more, 0, v->d);
}

static bool run_whole(struct verifying *v, bool *endless)
{
    const struct plan *p = v->whole;
    struct arena a = { 0 };
    instr_id control = { 0 };
    struct run_options o = verify_options(v, p->ndevices);
    struct run_more more = { .float_limit = endless, .control = &control };
    if (v->bounds)
        more.bounds = &v->want_bounds;
    more.max_float_loops = v->mode == RUN_RING ? RING_FLOAT_LOOPS : 0;
    bool ok = run_plan(p, verify_whole_inputs(v, &a), v->nin, &o, &more, &v->want, v->tick, v->d);
    arena_free(&a);
    v->control_doubtful = v->bounds && control.i;
    return ok;
}

static bool run_parts(struct verifying *v)
{
    struct cuts c = { 0 };
    const struct plan *p = v->parts;
    instr_id control = { 0 };
    struct run_options o = verify_options(v, v->p->num_partitions);
    struct run_more more = { .control = &control };
    bool ok = cuts_make(v->p, v->in, v->nin, &c, v->d) &&
              run_plan(p, c.in, v->nin, &o, &more, &v->got, v->tick, v->d);
    v->out->poisoned |= control.i != 0;
    cuts_free(&c);
    return ok;
}

/* ---- comparison ---------------------------------------------------------------------------------
 */

struct comparing {
    struct verifying *v;
    const struct tensor *want, *got;
    int size;
    const double *bound; /* NULL: exact */
    uint8_t *seen;       /* global elements found different so far */
    struct verify_output *o;
    bool poisoned;
};

/* How far got is from want. */
static double distance(enum dtype t, const char *want, const char *got)
{
    bool complex = dtype_kind(t) == DTYPE_KIND_COMPLEX;
    enum dtype part = t == DTYPE_C64 ? DTYPE_F32 : t == DTYPE_C128 ? DTYPE_F64 : t;
    double worst = 0;
    for (int k = 0; k <= complex; k++) {
        double x = real_load(part, got + k * dtype_bytes(part)),
               y = real_load(part, want + k * dtype_bytes(part));
        double off = (isnan(x) && isnan(y)) || x == y ? 0 : fabs(x - y);
        worst = isnan(off) || off > worst ? off : worst;
    }
    return worst;
}

/* bound: 0 where the value is exact. */
static bool element_differs(struct comparing *c, const char *want, const char *got, double bound)
{
    enum dtype_kind kind = dtype_kind(c->got->dtype);
    bool real = kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
    if (!c->v->bounds || !real)
        return bound == 0 && memcmp(want, got, (size_t)c->size) != 0;
    double error = distance(c->got->dtype, want, got);
    bool bad = bound < HUGE_VAL && !(error <= bound);
    if (bad || error > c->o->max_error) {
        c->o->max_error = error;
        c->o->bound = bound;
    }
    return bad;
}

static void compare_row(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct comparing *c = context;
    for (int64_t i = 0; i < n; i++, d += ds, s += ss) {
        const char *got = (const char *)c->got->data + d * c->size;
        const char *want = (const char *)c->want->data + s * c->size;
        double bound = c->v->control_doubtful ? HUGE_VAL : c->bound ? c->bound[s] : 0;
        bool poisoned = c->got->poison && c->got->poison[d];
        c->poisoned |= poisoned;
        if ((poisoned || element_differs(c, want, got, bound)) && !c->seen[s]) {
            c->seen[s] = 1;
            c->o->differ++;
        }
    }
}

/* Every device's shard of output k against the whole. */
static void compare_output(struct verifying *v, int64_t k)
{
    const struct shardings *t = v->p->module->ir->shardings;
    struct tensor *want = &v->want.out[k];
    struct arena tmp = { 0 };
    if (want->dtype == DTYPE_NONE)
        return;
    arena_open(&tmp);
    struct comparing c = { .v = v, .want = want, .o = &v->out->outputs[k] };
    c.bound = v->want_bounds ? v->want_bounds[k] : NULL;
    int64_t count = 1, start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
    for (int i = 0; i < want->rank; i++)
        count *= want->dims[i];
    c.seen = arena_alloc(&tmp, count + 1, 1);
    c.size = elem_of(want->dtype, v->mode == RUN_RING ? EMU_RING : EMU_FLOAT).size;
    sharding_id s = leaf_sharding(t, v->p->result_sharding, k);
    for (int64_t d = 0; d < v->got.ndevices; d++) {
        if (!shard_window(t, s, want->rank, want->dims, d, start, real, local))
            continue;
        c.got = &v->got.out[d * v->got.nleaves + k];
        struct box b = box_new(&tmp, want->rank);
        row_strides(want->rank, local, b.dst);
        row_strides(want->rank, want->dims, b.src);
        for (int i = 0; i < want->rank; i++) {
            b.dims[i] = real[i];
            b.src0 += start[i] * b.src[i];
        }
        box_compact(&b);
        box_rows(&b, compare_row, &c);
    }
    v->out->poisoned |= c.poisoned;
    arena_close(&tmp);
}

static bool compare_all(struct verifying *v)
{
    struct verify_result *r = v->out;
    if (v->want.nleaves != v->got.nleaves)
        return diag_error(v->d, NULL, nowhere,
                          "the program has %" PRId64 " outputs, the module %" PRId64,
                          v->got.nleaves, v->want.nleaves);
    r->noutputs = v->want.nleaves;
    r->outputs = ARENA_ARRAY(&r->arena, struct verify_output, r->noutputs + 1);
    r->equal = true;
    for (int64_t k = 0; k < r->noutputs; k++) {
        r->outputs[k].index = k;
        compare_output(v, k);
        r->equal &= r->outputs[k].differ == 0;
    }
    r->equal &= !r->poisoned;
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------------
 */

static void runs_free(struct verifying *v)
{
    for (int64_t k = 0; v->want_bounds && k < v->want.nleaves; k++)
        free(v->want_bounds[k]);
    free(v->want_bounds);
    v->want_bounds = NULL;
    run_result_free(&v->want);
    run_result_free(&v->got);
    inputs_free(v);
    plan_free(v->whole);
    plan_free(v->parts);
    v->whole = v->parts = NULL;
}

/* endless: set when ring mode cannot be used because a loop ends on a comparison of floats. */
static bool verify_mode(struct verifying *v, bool *endless)
{
    *endless = false;
    v->out->mode = v->mode;
    v->out->poisoned = false;
    bool ok =
        plans_make(v) && inputs_make(v) && run_whole(v, endless) && run_parts(v) && compare_all(v);
    if (ok && (!v->out->equal || v->each))
        verify_locate(v);
    v->out->equal &= v->out->differing == 0;
    runs_free(v);
    return ok;
}

/* What ring mode computes as the ring has it; every other function of floats is a mixture there. */
static bool ring_exact(const struct module *m, instr_id id)
{
    const struct instr *i = instr_at(m, id);
    const struct shape *s = instr_shape(m, id);
    if (s->kind != SHAPE_ARRAY ||
        (dtype_kind(s->dtype) != DTYPE_KIND_FLOAT && dtype_kind(s->dtype) != DTYPE_KIND_COMPLEX))
        return true;
    switch ((int)i->op) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_GET_TUPLE_ELEMENT:
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_NEGATE:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_SELECT:
    case OP_CONVERT:
    case OP_COPY:
    case OP_BITCAST:
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_TRANSPOSE:
    case OP_CALL:
    case OP_FUSION: return true;
    default: return false;
    }
}

/* A fold whose function is a mixture in ring mode: log(exp a + exp b) is associative, and -inf its
 * identity, for floats only. NONE where there is none. */
static instr_id float_fold(const struct module *m)
{
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *comp = comp_at(m, (comp_id){ c });
        for (uint32_t k = 0; k < comp->ninstrs; k++) {
            enum op_kind op = (enum op_kind)instr_at(m, comp->instrs[k])->op;
            comp_id of[2];
            bool folds = op == OP_REDUCE || op == OP_REDUCE_WINDOW || op == OP_ALL_REDUCE ||
                         op == OP_REDUCE_SCATTER || op == OP_SCATTER;
            if (!folds || instr_called(m, comp->instrs[k], of, 2) != 1)
                continue;
            const struct computation *f = comp_at(m, of[0]);
            for (uint32_t j = 0; j < f->ninstrs; j++)
                if (!ring_exact(m, f->instrs[j]))
                    return comp->instrs[k];
        }
    }
    return (instr_id){ 0 };
}

/* Ring mode differs, and a fold that only floats make sense of may be why: float mode decides. */
static bool decide_by_floats(struct verifying *v)
{
    const struct module *m = v->p->module;
    bool asked = !v->out->equal && !v->each, pieces = asked && v->p->split_fft;
    instr_id fold = asked && !pieces ? float_fold(m) : (instr_id){ 0 };
    if (!fold.i && !pieces)
        return true;
    struct verify_result again = { .arena = v->out->arena, .devices = v->out->devices, .seed = v->out->seed };
    *v->out = again;
    const struct instr *i = instr_at(m, fold);
    v->out->mode_reason = pieces ? "a transform is put together from smaller ones: for floats only (S-167)"
                                 : arena_printf(&v->out->arena, "the function of %s %s can be regrouped for floats only",
                                                op_name((enum op_kind)i->op), name_text(m->ir, i->name));
    v->mode = RUN_FLOAT;
    bool endless;
    return verify_mode(v, &endless);
}

static void say_again(struct diag *d, const struct source *src, const struct diag_msg *m)
{
    const char *former = diag_stage(d, m->code);
    if (!m->code)
        diag_stage(d, former);
    if (m->severity == DIAG_ERROR)
        (void)diag_error(d, src, nowhere, "%s", m->text);
    else
        diag_note(d, src, nowhere, "%s", m->text);
    if (m->hint)
        diag_hint(d, "%s", m->hint);
    diag_stage(d, former);
}

static bool verify_both(struct verifying *v)
{
    bool endless;
    /* What the first mode says is kept back: it is no error when the other mode answers. */
    struct diag *listening = v->d, *first = diag_new();
    v->d = first;
    bool ok = verify_mode(v, &endless);
    v->d = listening;
    if (ok || !endless) {
        for (int64_t k = 0; k < first->msgs.n; k++)
            say_again(listening, v->p->module->source, &first->msgs.v[k]);
        diag_free(first);
        return ok && (v->mode != RUN_RING || decide_by_floats(v));
    }
    v->out->mode_reason = arena_strdup(&v->out->arena, first->msgs.n ? first->msgs.v[0].text
                                                                     : "a loop ends on floats");
    diag_free(first);
    v->mode = RUN_FLOAT;
    return verify_mode(v, &endless);
}

static bool verify_protected(struct verifying *v)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        bool ok = verify_both(v);
        fail_leave(&f);
        return ok;
    }
    runs_free(v);
    return diag_error(v->d, NULL, nowhere, "%s", f.text);
}

static bool verify_with(struct verifying *v)
{
    const struct module *m = v->pr->graph->module;
    instr_id outside = module_outside(m);
    *v->out = (struct verify_result){ .devices = v->p->num_partitions, .seed = v->out->seed };
    if (outside.i) {
        const struct instr *i = instr_at(m, outside);
        return diag_error(v->d, m->source, i->at,
                          "%s takes values from outside of the program (%s): no two runs can be compared",
                          name_text(m->ir, i->name), op_name((enum op_kind)i->op));
    }
    v->out->mode = v->mode;
    if (verify_protected(v))
        return true;
    verify_result_free(v->out);
    return false;
}

bool verify_program(const struct propagation *pr, const struct program *p, enum run_mode mode,
                    uint64_t seed, int threads, struct verify_result *out, struct tick *tick,
                    struct diag *d)
{
    struct verifying v = {
        .pr = pr, .p = p, .mode = mode, .threads = threads, .out = out, .tick = tick, .d = d
    };
    out->seed = seed;
    return verify_with(&v);
}

bool verify_each(const struct propagation *pr, const struct program *p, uint64_t seed, int threads,
                 struct verify_result *out, struct tick *tick, struct diag *d)
{
    struct verifying v = { .pr = pr,
                           .p = p,
                           .mode = RUN_RING,
                           .threads = threads,
                           .each = true,
                           .out = out,
                           .tick = tick,
                           .d = d };
    out->seed = seed;
    if (p->split_fft)
        return diag_error(d, NULL, nowhere,
                          "a transform is put together from smaller ones, which only floats make sense of (S-167): "
                          "verify compares the outputs");
    return verify_with(&v);
}
