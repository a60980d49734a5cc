/* Step time: each kernel by its roofline, each collective by its links, loops by their trip counts.
 *
 * A kernel takes the longest of its matrix arithmetic, its other arithmetic (the units work side by side) and
 * its traffic, and a constant to start. Arithmetic of a matrix operation fills whole tiles of the matrix unit
 * (matrix_fill). */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cost/internal.h"

enum { MOST_CALLED = 256 };

/* ---- how well a matrix operation fills the unit ------------------------------------------------------ */

static double up_to(double n, double tile)
{
    double k = n / tile;
    double whole = (double)(int64_t)k;
    return (whole < k ? whole + 1 : whole) * tile;
}

static double fill_of(double m, double n, double k, double tile)
{
    if (m <= 0 || n <= 0 || k <= 0)
        return 1;
    double rows = tile / 16 < 1 ? 1 : tile / 16; /* rows stream through: their grain is finer */
    double a = m / up_to(m, rows) * (n / up_to(n, tile)), b = n / up_to(n, rows) * (m / up_to(m, tile));
    return (a > b ? a : b) * (k / up_to(k, tile));
}

double matrix_fill(const struct module *m, instr_id i, double tile)
{
    if (!i.i)
        return 1;
    const struct instr *in = instr_at(m, i);
    if (in->op == OP_DOT) {
        struct dot_dims d;
        instr_dot_dims(m, i, &d);
        const struct shape *l = instr_shape(m, in->operands[0]), *r = instr_shape(m, in->operands[1]);
        double rows = 1, columns = 1, depth = 1;
        for (int k = 0; k < d.nlhs_free; k++)
            rows *= (double)l->dims[d.lhs_free[k]];
        for (int k = 0; k < d.nrhs_free; k++)
            columns *= (double)r->dims[d.rhs_free[k]];
        for (int k = 0; k < d.ncontract; k++)
            depth *= (double)l->dims[d.lhs_contract[k]];
        return fill_of(rows, columns, depth, tile);
    }
    const struct attr *a = in->op == OP_CONVOLUTION ? instr_attr(in, ATTR_DIM_LABELS) : NULL;
    if (!a || a->type != ATTR_TYPE_CONV)
        return 1;
    const struct conv_dims *c = a->conv;
    const struct shape *rhs = instr_shape(m, in->operands[1]), *out = instr_shape(m, i);
    double depth = (double)rhs->dims[c->rhs_in], rows = (double)out->dims[c->out_batch];
    for (int s = 0; s < c->nspatial; s++) {
        depth *= (double)rhs->dims[c->rhs_spatial[s]];
        rows *= (double)out->dims[c->out_spatial[s]];
    }
    return fill_of(rows, (double)rhs->dims[c->rhs_out], depth, tile);
}

/* ---- kernels ---------------------------------------------------------------------------------------------- */

static bool is_start(enum op_kind op)
{
    return op == OP_ALL_GATHER_START || op == OP_ALL_REDUCE_START || op == OP_COLLECTIVE_PERMUTE_START;
}

static bool is_done(enum op_kind op)
{
    return op == OP_ALL_GATHER_DONE || op == OP_ALL_REDUCE_DONE || op == OP_COLLECTIVE_PERMUTE_DONE;
}

/* A running sum as a window over a whole dimension (jnp.cumsum of the gating): compilers do it in blocks of this
 * many and once more over the blocks' sums, not with a window's work for each element. */
enum { SCAN_BLOCK = 128 };

/* Arithmetic that blocks save. */
static double saved_by_blocks(const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    const struct attr *a = in->op == OP_REDUCE_WINDOW ? instr_attr(in, ATTR_WINDOW) : NULL;
    int64_t most = 1, others = 1;
    if (!a || a->type != ATTR_TYPE_WINDOW)
        return 0;
    for (int d = 0; d < a->window->rank; d++) {
        others = a->window->dims[d].size > 1 && most > 1 ? 2 : others;
        most = max_i64(most, a->window->dims[d].size);
    }
    if (others > 1 || most <= SCAN_BLOCK)
        return 0;
    struct work w;
    cost_work(m, i, &w);
    return w.flops * (1 - (SCAN_BLOCK + (double)most / SCAN_BLOCK) / (double)most);
}

static void kernel_time(struct cost *c, instr_id i)
{
    const struct cost_plan *p = c->plan;
    const struct machine *m = &c->machine;
    const struct hardware *h = m->hardware;
    const struct kernel *k = &p->kernel[i.i];
    struct op_time *t = &c->of[i.i];
    if (c->collective_of[i.i] >= 0) {
        struct link_use use;
        t->comm = (float)collective_seconds(m, p->module, &c->collectives[c->collective_of[i.i]], &use);
        return;
    }
    double other = k->flops + 4 * k->transcendentals - k->matrix_flops - saved_by_blocks(p->module, i), flops = 0;
    double vector = (other > 0 ? other : 0) / (h->vector.value * m->calibration.vector);
    if (k->matrix_flops > 0) {
        double fill = matrix_fill(p->module, k->matrix, h->tile.value);
        flops = k->matrix_flops / (hardware_peak(h, k->dtype) * m->calibration.matrix * (fill > 0.01 ? fill : 0.01));
    }
    t->flops_time = (float)(flops > vector ? flops : vector);
    t->memory_time = (float)((double)(k->in_bytes + k->out_bytes) / (h->bandwidth.value * m->calibration.memory));
    if (k->in_bytes + k->out_bytes > 0)
        t->total = (t->flops_time > t->memory_time ? t->flops_time : t->memory_time) + (float)m->calibration.kernel;
}

/* ---- computations ------------------------------------------------------------------------------------------- */

struct timer {
    struct cost *c;
    enum overlap overlap;
    double *own;    /* [ncomps + 1] one run, with what it calls */
    uint32_t *pick; /* [ninstrs + 1] of a conditional: the costliest branch */
};

static double called_time(struct timer *t, instr_id i)
{
    const struct cost_plan *p = t->c->plan;
    const struct instr *in = instr_at(p->module, i);
    if (in->op != OP_WHILE && in->op != OP_CONDITIONAL && in->op != OP_CALL && in->op != OP_ASYNC_START)
        return 0;
    comp_id called[MOST_CALLED];
    int n = instr_called(p->module, i, called, MOST_CALLED);
    double sum = 0, most = -1;
    for (int k = 0; k < n && k < MOST_CALLED; k++) {
        double x = t->own[called[k].i];
        sum += x;
        if (x > most) {
            most = x;
            t->pick[i.i] = called[k].i;
        }
    }
    if (in->op == OP_CONDITIONAL)
        return most > 0 ? most : 0;
    if (in->op == OP_WHILE)
        return sum * (p->trips[i.i] < 0 ? 1 : (double)p->trips[i.i]);
    return sum;
}

static void one_computation(struct timer *t, comp_id id)
{
    struct cost *c = t->c;
    const struct cost_plan *p = c->plan;
    double compute = 0, comm = 0, wait = 0, called = 0, network_free = 0;
    for (uint32_t k = 0; k < p->norder[id.i]; k++) {
        instr_id i = p->order[id.i][k];
        enum op_kind op = (enum op_kind)instr_at(p->module, i)->op;
        struct op_time *x = &c->of[i.i];
        kernel_time(c, i);
        double now = compute + wait + called;
        if (is_start(op)) { /* runs while what follows computes; one at a time */
            network_free = (network_free > now ? network_free : now) + (double)x->comm;
            x->exposed = (float)network_free; /* when it is through; settled at its done */
        } else if (is_done(op)) {
            struct op_time *s = &c->of[instr_at(p->module, i)->operands[0].i];
            double late = (double)s->exposed - now;
            s->exposed = late > 0 ? (float)late : 0;
            s->total = s->exposed;
            wait += (double)s->exposed;
        } else if (x->comm > 0) {
            comm += (double)x->comm;
        } else {
            compute += (double)x->total;
            called += called_time(t, i);
        }
    }
    /* What runs at once hides behind the compute of the same computation. */
    double hidden = t->overlap == OVERLAP_FULL ? (comm < compute ? comm : compute) : 0;
    for (uint32_t k = 0; comm > 0 && k < p->norder[id.i]; k++) {
        struct op_time *x = &c->of[p->order[id.i][k].i];
        if (x->comm > 0 && !is_start((enum op_kind)instr_at(p->module, p->order[id.i][k])->op)) {
            x->exposed = (float)((double)x->comm * (1 - hidden / comm));
            x->total = x->exposed;
        }
    }
    t->own[id.i] = compute + wait + called + comm - hidden;
}

/* Runs a step, with branches that are not taken at 0. Callers first. */
static void weigh(struct timer *t)
{
    const struct cost_plan *p = t->c->plan;
    double *w = t->c->weight;
    w[p->module->entry.i] = 1;
    for (uint32_t k = p->ncomps; k-- > 0;) {
        comp_id id = p->comps[k];
        for (uint32_t j = 0; p->use[id.i] == COMP_RUN && j < p->norder[id.i]; j++) {
            instr_id i = p->order[id.i][j];
            const struct instr *in = instr_at(p->module, i);
            if (in->op != OP_WHILE && in->op != OP_CONDITIONAL && in->op != OP_CALL && in->op != OP_ASYNC_START)
                continue;
            comp_id called[MOST_CALLED];
            int n = instr_called(p->module, i, called, MOST_CALLED);
            double runs = in->op == OP_WHILE && p->trips[i.i] >= 0 ? (double)p->trips[i.i] : 1;
            for (int c = 0; c < n && c < MOST_CALLED; c++)
                if (in->op != OP_CONDITIONAL || called[c].i == t->pick[i.i])
                    w[called[c].i] += w[id.i] * runs;
        }
    }
}

static void add_up(struct cost *c)
{
    const struct cost_plan *p = c->plan;
    c->trips_known = true;
    for (uint32_t k = 0; k < p->ncomps; k++) {
        comp_id id = p->comps[k];
        double w = c->weight[id.i];
        if (p->use[id.i] != COMP_RUN)
            continue;
        c->trips_known = c->trips_known && p->runs_known[id.i];
        for (uint32_t j = 0; j < p->norder[id.i]; j++) {
            instr_id i = p->order[id.i][j];
            const struct op_time *t = &c->of[i.i];
            const struct kernel *x = &p->kernel[i.i];
            c->comm += w * (double)t->comm;
            c->exposed += w * (t->comm > 0 ? (double)t->exposed : 0);
            c->compute += w * (t->comm > 0 ? 0 : (double)t->total);
            c->flops += w * x->flops;
            c->matrix_flops += w * x->matrix_flops;
            c->bytes += w * (double)(x->in_bytes + x->out_bytes);
        }
    }
}

static void fill(struct cost *c, enum overlap overlap, int64_t replica_count)
{
    const struct cost_plan *p = c->plan;
    const struct module *m = p->module;
    int64_t n = (int64_t)module_ninstrs(m) + 2, nc = (int64_t)module_ncomps(m) + 2;
    struct timer t = { .c = c, .overlap = overlap };
    c->of = ARENA_ARRAY(&c->arena, struct op_time, n);
    c->weight = ARENA_ARRAY(&c->arena, double, nc);
    c->collective_of = ARENA_ARRAY(&c->arena, int32_t, n);
    t.own = c->once = ARENA_ARRAY(&c->arena, double, nc);
    t.pick = ARENA_ARRAY(&c->arena, uint32_t, n);
    memset(c->collective_of, 0xff, (size_t)n * sizeof *c->collective_of);
    c->ncollectives = collectives_list(m, c->machine.ndevices, replica_count, &c->arena, &c->collectives, NULL);
    for (int64_t k = 0; k < c->ncollectives; k++)
        c->collective_of[c->collectives[k].instr.i] = (int32_t)k;
    for (uint32_t k = 0; k < p->ncomps; k++)
        if (p->use[p->comps[k].i] == COMP_RUN)
            one_computation(&t, p->comps[k]);
    c->step = t.own[m->entry.i];
    weigh(&t);
    add_up(c);
    double peak = c->machine.hardware->bf16.value * c->step;
    c->utilisation = peak > 0 ? c->matrix_flops / peak : 0;
}

static bool guarded(struct cost *c, enum overlap overlap, int64_t replica_count, struct fail_frame *f)
{
    if (!FAIL_ENTER(f))
        return false;
    fill(c, overlap, replica_count);
    fail_leave(f);
    return true;
}

struct cost *cost_of(const struct cost_plan *p, const struct machine *m, enum overlap overlap, int64_t replica_count)
{
    struct cost *c = calloc(1, sizeof *c);
    struct fail_frame f = { .kind = FAIL_MEMORY, .text = "no memory for costs" };
    if (c) {
        c->plan = p;
        c->machine = *m;
        if (guarded(c, overlap, replica_count, &f))
            return c;
    }
    cost_free(c);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void cost_free(struct cost *c)
{
    if (!c)
        return;
    arena_free(&c->arena);
    free(c);
}
