/* cost: step time of the program on the chosen hardware, and where it goes. roofline: kernel by kernel.
 * why-cost: the formula of one operation with its numbers. */
#include <stdlib.h>
#include <string.h>

#include "repl/costs.h"

/* ---- sums under a name ---------------------------------------------------------------------------------- */

struct sum {
    const char *name;
    double compute, exposed, comm;
    int64_t kernels;
};

struct sums {
    struct arena *arena;
    struct intern names;
    VEC(struct sum) v;
};

static struct sum *sum_of(struct sums *s, const char *name)
{
    uint32_t id = intern_put(&s->names, name, strlen(name));
    while (s->v.n < id) {
        struct sum fresh = { .name = intern_at(&s->names, (uint32_t)s->v.n + 1)->bytes };
        vec_push(s->arena, &s->v, fresh);
    }
    return &s->v.v[id - 1];
}

static void sums_init(struct sums *s, struct arena *a)
{
    *s = (struct sums){ .arena = a };
    intern_init(&s->names, a);
}

static double total_of(const struct sum *s)
{
    return s->compute + s->exposed;
}

static int by_total(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    if (total_of(x) != total_of(y))
        return total_of(x) < total_of(y) ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* ---- layers ------------------------------------------------------------------------------------------------ */

/* The scope of an op_name: without the functions in front (jit(..)) and the operation at its end, at
 * most two steps deep. */
static const char *layer_name(struct call *c, const char *op_name)
{
    const char *p = op_name, *last = strrchr(op_name, '/');
    while ((strncmp(p, "jit(", 4) == 0 || strncmp(p, "pjit", 4) == 0) && strchr(p, '/'))
        p = strchr(p, '/') + 1;
    if (!last || last <= p)
        return "(no scope)";
    const char *cut = memchr(p, '/', (size_t)(last - p));
    if (cut)
        cut = memchr(cut + 1, '/', (size_t)(last - cut - 1));
    struct str s = STR_IN(&c->arena);
    str_add_safe(&s, p, (size_t)((cut ? cut : last) - p));
    return str_text(&s);
}

static const char *layer_of(struct call *c, const struct program *p, const struct module *m, instr_id i)
{
    const char *name = instr_op_name(m, i);
    if (!name[0] && p) {
        instr_id loaded = served_by(c, p, i);
        name = loaded.i ? instr_op_name(document_module(c->sh->doc), loaded) : "";
    }
    return layer_name(c, name);
}

static const char *axes_of(struct call *c, const struct collective *k)
{
    const char *names[MESH_MAX_AXES];
    int n;
    const char *axes = collective_axes(c, k, &n, names);
    if (axes[0])
        return axes;
    return k->kind == OP_COLLECTIVE_PERMUTE ? "(permutes)" : "(other groups)";
}

/* ---- all kernels ---------------------------------------------------------------------------------------------- */

struct line {
    instr_id i;
    double total, runs; /* of the step; how often */
};

struct book {
    struct call *c;
    const struct program *p;
    const struct module *m;
    const struct cost *cost;
    struct sums ops, layers, axes;
    VEC(struct line) lines;
};

static int by_time(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return x->i.i < y->i.i ? -1 : x->i.i > y->i.i;
}

static void add(struct sum *s, const struct op_time *t, double w)
{
    s->kernels++;
    if (t->comm > 0) {
        s->comm += w * (double)t->comm;
        s->exposed += w * (double)t->exposed;
    } else {
        s->compute += w * (double)t->total;
    }
}

static void keep_book(struct book *b)
{
    struct call *c = b->c;
    const struct cost_plan *plan = b->cost->plan;
    sums_init(&b->ops, &c->arena);
    sums_init(&b->layers, &c->arena);
    sums_init(&b->axes, &c->arena);
    for (uint32_t k = 0; k < plan->ncomps; k++) {
        comp_id id = plan->comps[k];
        double w = b->cost->weight[id.i];
        for (uint32_t j = 0; w > 0 && j < plan->norder[id.i]; j++) {
            instr_id i = plan->order[id.i][j];
            const struct op_time *t = &b->cost->of[i.i];
            if (t->total <= 0 && t->comm <= 0)
                continue;
            add(sum_of(&b->ops, op_name((enum op_kind)instr_at(b->m, i)->op)), t, w);
            add(sum_of(&b->layers, layer_of(c, b->p, b->m, i)), t, w);
            if (t->comm > 0)
                add(sum_of(&b->axes, axes_of(c, &b->cost->collectives[b->cost->collective_of[i.i]])), t, w);
            struct line l = { i, w * (double)(t->comm > 0 ? t->exposed : t->total), w };
            vec_push(&c->arena, &b->lines, l);
        }
    }
    struct sums *all[] = { &b->ops, &b->layers, &b->axes };
    for (size_t k = 0; k < COUNTOF(all); k++)
        if (all[k]->v.n)
            qsort(all[k]->v.v, (size_t)all[k]->v.n, sizeof(struct sum), by_total);
    if (b->lines.n)
        qsort(b->lines.v, (size_t)b->lines.n, sizeof *b->lines.v, by_time);
}

/* ---- output -------------------------------------------------------------------------------------------------- */

static const char *limit_of(const struct op_time *t)
{
    return t->comm > 0 ? "links" : t->flops_time >= t->memory_time ? "arithmetic" : "memory";
}

static void json_sums(struct call *c, const char *key, const struct sums *s)
{
    json_put_open(&c->js, key, '[');
    for (int64_t k = 0; k < s->v.n; k++) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "name", s->v.v[k].name);
        json_put_int(&c->js, "kernels", s->v.v[k].kernels);
        json_put_real(&c->js, "compute", s->v.v[k].compute);
        json_put_real(&c->js, "communication", s->v.v[k].comm);
        json_put_real(&c->js, "exposed", s->v.v[k].exposed);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

static void say_sums(struct call *c, const char *head, const struct sums *s, double step)
{
    const char *const heads[] = { head, ">kernels", ">compute", ">links", ">exposed", ">of the step", NULL };
    if (s->v.n == 0)
        return;
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = c->all ? s->v.n : min_i64(s->v.n, 8);
    for (int64_t k = 0; k < shown; k++) {
        const struct sum *x = &s->v.v[k];
        const char **row = table_row(&t);
        row[0] = x->name;
        row[1] = with_commas(&c->arena, x->kernels);
        row[2] = x->compute > 0 ? nice_seconds(&c->arena, x->compute) : "";
        row[3] = x->comm > 0 ? nice_seconds(&c->arena, x->comm) : "";
        row[4] = x->comm > 0 ? nice_seconds(&c->arena, x->exposed) : "";
        row[5] = nice_percent(&c->arena, total_of(x), step);
    }
    table_print(c, &t, true);
    call_more(c, shown, s->v.n, "");
}

static void say_lines(struct book *b, int64_t most)
{
    struct call *c = b->c;
    static const char *const heads[] = { "kernel", "op", "shape", ">one run", ">runs", ">of the step", "bound by", "for", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = c->all ? b->lines.n : min_i64(b->lines.n, most);
    for (int64_t k = 0; k < shown; k++) {
        const struct line *l = &b->lines.v[k];
        const struct op_time *x = &b->cost->of[l->i.i];
        const char **row = table_row(&t);
        row[0] = node_name(c, b->m, l->i);
        row[1] = op_name((enum op_kind)instr_at(b->m, l->i)->op);
        row[2] = shape_text(c, instr_at(b->m, l->i)->shape);
        row[3] = nice_seconds(&c->arena, (double)(x->comm > 0 ? x->comm : x->total));
        row[4] = nice_number(&c->arena, l->runs);
        row[5] = nice_percent(&c->arena, l->total, b->cost->step);
        row[6] = limit_of(x);
        row[7] = node_for(c, b->p, l->i);
    }
    table_print(c, &t, true);
    call_more(c, shown, b->lines.n, "");
}

static void say(struct book *b)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    struct str place = STR_IN(&c->arena);
    machine_print(&x->machine, &place);
    out(c, "step         %s on %s%s\n", nice_seconds(&c->arena, x->step), str_text(&place),
        x->trips_known ? "" : "; a loop of unknown length counts once");
    out(c, "compute      %s, communication %s, of which %s exposed (%s of the step)\n",
        nice_seconds(&c->arena, x->compute), nice_seconds(&c->arena, x->comm), nice_seconds(&c->arena, x->exposed),
        nice_percent(&c->arena, x->exposed, x->step));
    out(c, "utilisation  %s of the bf16 peak by matrix FLOPs: %s a device and step (all: %s), %s of memory traffic\n",
        nice_percent(&c->arena, x->utilisation, 1), nice_number(&c->arena, x->matrix_flops),
        nice_number(&c->arena, x->flops), nice_bytes(&c->arena, (int64_t)x->bytes));
    say_sums(c, "operation", &b->ops, x->step);
    say_sums(c, "axis", &b->axes, x->step);
    say_sums(c, "scope", &b->layers, x->step);
    say_lines(b, 8);
}

static void json_lines(struct book *b, int64_t most)
{
    struct call *c = b->c;
    json_put_open(&c->js, "slowest", '[');
    for (int64_t k = 0; k < b->lines.n && k < most; k++) {
        const struct line *l = &b->lines.v[k];
        const struct op_time *x = &b->cost->of[l->i.i];
        const struct kernel *kernel = &b->cost->plan->kernel[l->i.i];
        const struct instr *in = instr_at(b->m, l->i);
        json_open(&c->js, '{');
        json_put_string(&c->js, "computation", name_text(b->m->ir, comp_at(b->m, in->comp)->name));
        json_put_string(&c->js, "name", name_text(b->m->ir, in->name));
        json_put_string(&c->js, "opcode", op_name((enum op_kind)in->op));
        json_put_string(&c->js, "shape", shape_text(c, in->shape));
        json_put_real(&c->js, "seconds", (double)(x->comm > 0 ? x->comm : x->total));
        json_put_real(&c->js, "exposed", (double)x->exposed);
        json_put_real(&c->js, "runs", l->runs);
        json_put_string(&c->js, "bound", limit_of(x));
        json_put_real(&c->js, "flops", kernel->flops);
        json_put_int(&c->js, "bytes", kernel->in_bytes + kernel->out_bytes);
        const char *whose = node_for(c, b->p, l->i);
        json_put_string(&c->js, "for", whose[0] ? whose : NULL);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

/* Loops by the time they take, all turns and runs together. */
static void json_loops(struct book *b)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    json_put_open(&c->js, "loops", '[');
    for (uint32_t k = 1; k <= module_ninstrs(b->m); k++) {
        const struct instr *in = instr_at(b->m, (instr_id){ k });
        const struct attr *body = in->op == OP_WHILE ? instr_attr(in, ATTR_BODY) : NULL;
        if (!body || body->type != ATTR_TYPE_COMP || x->weight[in->comp.i] <= 0)
            continue;
        double turns = x->plan->trips[k] < 0 ? 1 : (double)x->plan->trips[k];
        json_open(&c->js, '{');
        json_put_string(&c->js, "name", name_text(b->m->ir, in->name));
        json_put_int(&c->js, "trips", x->plan->trips[k]);
        json_put_real(&c->js, "runs", x->weight[in->comp.i]);
        json_put_real(&c->js, "seconds", turns * x->weight[in->comp.i] * x->once[body->comp.i]);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

static void json_all(struct book *b)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    struct str place = STR_IN(&c->arena);
    machine_print(&x->machine, &place);
    json_put_string(&c->js, "hardware", x->machine.hardware->name);
    json_put_string(&c->js, "placement", str_text(&place));
    json_put_real(&c->js, "step", x->step);
    json_put_real(&c->js, "compute", x->compute);
    json_put_real(&c->js, "communication", x->comm);
    json_put_real(&c->js, "exposed", x->exposed);
    json_put_real(&c->js, "utilisation", x->utilisation);
    json_put_real(&c->js, "flops", x->flops);
    json_put_real(&c->js, "matrix_flops", x->matrix_flops);
    json_put_real(&c->js, "bytes", x->bytes);
    json_put_bool(&c->js, "trips_known", x->trips_known);
    json_sums(c, "operations", &b->ops);
    json_sums(c, "axes", &b->axes);
    json_sums(c, "scopes", &b->layers);
    json_loops(b);
    json_lines(b, c->all ? INT64_MAX : 20);
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

static struct cost *cost_now(struct call *c, struct book *b)
{
    const char *o = call_option(c, "overlap");
    if (o && strcmp(o, "none") != 0 && strcmp(o, "full") != 0) {
        call_usage(c, -1, "overlap=none or overlap=full");
        return NULL;
    }
    *b = (struct book){ .c = c };
    const struct hardware *h = costs_hardware(c);
    if (!h || !costs_program(c, &b->p, &b->m))
        return NULL;
    struct cost *x = strategy_cost(c->sh->doc, document_strategy(c->sh->doc), h, c->sh->nshape,
                                   c->sh->nshape ? c->sh->shape : NULL,
                                   o && strcmp(o, "full") == 0 ? OVERLAP_FULL : OVERLAP_NONE, call_tick(c), c->d);
    b->cost = x;
    return x;
}

int cmd_cost(struct call *c)
{
    struct book b;
    struct cost *x = cost_now(c, &b);
    if (!x)
        return call_failed(c);
    keep_book(&b);
    if (c->json)
        json_all(&b);
    else
        say(&b);
    cost_free(x);
    return STATUS_OK;
}

int cmd_roofline(struct call *c)
{
    struct book b;
    struct cost *x = cost_now(c, &b);
    if (!x)
        return call_failed(c);
    keep_book(&b);
    const struct hardware *h = x->machine.hardware;
    double ridge = h->bf16.value / h->bandwidth.value;
    if (c->json) {
        json_put_string(&c->js, "hardware", h->name);
        json_put_real(&c->js, "ridge", ridge);
        json_lines(&b, c->all ? INT64_MAX : 100);
        cost_free(x);
        return STATUS_OK;
    }
    out(c, "%s: below %.4g FLOPs a byte memory is the bound\n", h->name, ridge);
    static const char *const heads[] = { "kernel", "op", ">FLOPs", ">bytes", ">FLOPs a byte", ">of peak", ">of the step", "bound by", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = call_rows(c, b.lines.n);
    for (int64_t k = 0; k < shown; k++) {
        const struct line *l = &b.lines.v[k];
        const struct kernel *kernel = &x->plan->kernel[l->i.i];
        const struct op_time *ot = &x->of[l->i.i];
        double bytes = (double)(kernel->in_bytes + kernel->out_bytes);
        const char **row = table_row(&t);
        row[0] = node_name(c, b.m, l->i);
        row[1] = op_name((enum op_kind)instr_at(b.m, l->i)->op);
        row[2] = nice_number(&c->arena, kernel->flops);
        row[3] = nice_number(&c->arena, bytes);
        row[4] = bytes > 0 ? arena_printf(&c->arena, "%.3g", kernel->flops / bytes) : "";
        row[5] = ot->comm > 0 ? "" : nice_percent(&c->arena, kernel->flops / hardware_peak(h, kernel->dtype), (double)ot->total);
        row[6] = nice_percent(&c->arena, l->total, x->step);
        row[7] = limit_of(ot);
    }
    table_print(c, &t, true);
    call_more(c, shown, b.lines.n, "");
    cost_free(x);
    return STATUS_OK;
}

/* ---- why-cost ----------------------------------------------------------------------------------------------------- */

static void why_links(struct book *b, instr_id i)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    const struct collective *k = &x->collectives[x->collective_of[i.i]];
    const struct op_time *t = &x->of[i.i];
    struct link_use use;
    double s = collective_seconds(&x->machine, b->m, k, &use);
    out(c, "  V = %s bytes in groups of %s%s%s\n", with_commas(&c->arena, (int64_t)use.bytes),
        with_commas(&c->arena, k->group_size), axes_of(c, k)[0] == '(' ? " " : " over ", axes_of(c, k));
    for (int a = 0; a < use.naxes; a++) {
        const struct machine_axis *ax = &x->machine.axes[use.axes[a].axis];
        const struct network_level *l = &x->machine.hardware->level[ax->level];
        out(c, "  along %s (%s %s): %" PRId64 " members%s, %s GB/s of %.4g GB/s (%s; x %.3g reached%s)\n", l->name,
            with_commas(&c->arena, ax->size), l->kind == NETWORK_TORUS ? "chips" : "devices", use.axes[a].extent,
            use.axes[a].ring ? " in a ring, both ways" : "", arena_printf(&c->arena, "%.4g", use.axes[a].bandwidth / 1e9),
            l->bandwidth.value / 1e9, l->bandwidth.source,
            k->kind == OP_ALL_TO_ALL ? x->machine.calibration.all_to_all : x->machine.calibration.link,
            use.axes[a].sharing > 1 ? arena_printf(&c->arena, ", shared by %" PRId64 " groups", use.axes[a].sharing) : "");
    }
    const char *formula = k->kind == OP_ALL_REDUCE           ? "2 V (n-1)/n / bandwidth"
                          : k->kind == OP_COLLECTIVE_PERMUTE ? "V x flows on a link / bandwidth"
                          : k->kind == OP_ALL_TO_ALL         ? "half of V crosses the middle of each axis: members x V / 4 / bandwidth"
                                                             : "V (n-1)/n / bandwidth";
    out(c, "  %s = %s, latency %s: %s\n", formula, nice_seconds(&c->arena, use.transfer),
        nice_seconds(&c->arena, use.latency), nice_seconds(&c->arena, s));
    if ((double)t->exposed < 0.999 * s)
        out(c, "  %s of it exposed\n", nice_seconds(&c->arena, (double)t->exposed));
}

static void why_kernel(struct book *b, instr_id i)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    const struct kernel *k = &x->plan->kernel[i.i];
    const struct hardware *h = x->machine.hardware;
    const struct calibration *cal = &x->machine.calibration;
    const struct op_time *t = &x->of[i.i];
    if (k->matrix_flops > 0) {
        double peak = hardware_peak(h, k->dtype), fill = matrix_fill(b->m, k->matrix, h->tile.value);
        out(c, "  arithmetic: %s matrix FLOPs / (%.4g FLOP/s x %.3g reached x %.3g of whole %g-tiles)", nice_number(&c->arena, k->matrix_flops),
            peak, cal->matrix, fill, h->tile.value);
        if (k->flops > k->matrix_flops)
            out(c, ", beside it %s others / (%.4g x %.3g)", nice_number(&c->arena, k->flops - k->matrix_flops), h->vector.value, cal->vector);
        out(c, " = %s  (%s)\n", nice_seconds(&c->arena, (double)t->flops_time), h->bf16.source);
    } else {
        out(c, "  arithmetic: (%s FLOPs + 4 x %s transcendentals) / (%.4g FLOP/s x %.3g reached) = %s\n", nice_number(&c->arena, k->flops),
            nice_number(&c->arena, k->transcendentals), h->vector.value, cal->vector, nice_seconds(&c->arena, (double)t->flops_time));
    }
    out(c, "  memory: (%s bytes read + %s written) / (%.4g GB/s x %.3g reached) = %s  (%s)\n", nice_number(&c->arena, (double)k->in_bytes),
        nice_number(&c->arena, (double)k->out_bytes), h->bandwidth.value / 1e9, cal->memory, nice_seconds(&c->arena, (double)t->memory_time), h->bandwidth.source);
    for (uint32_t e = x->plan->ext_start[i.i]; e < x->plan->ext_start[i.i + 1] && e < x->plan->ext_start[i.i] + 6; e++)
        out(c, "    reads %s of %s\n", nice_bytes(&c->arena, x->plan->ext_bytes[e]), node_name(c, b->m, x->plan->ext[e]));
    out(c, "  the longer one and %s to start: %s, bound by %s\n", nice_seconds(&c->arena, cal->kernel),
        nice_seconds(&c->arena, (double)t->total), limit_of(t));
}

static void json_why(struct book *b, instr_id i, double runs)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    const struct kernel *k = &x->plan->kernel[i.i];
    const struct op_time *t = &x->of[i.i];
    json_open(&c->js, '{');
    json_put_string(&c->js, "name", name_text(b->m->ir, instr_at(b->m, i)->name));
    json_put_string(&c->js, "opcode", op_name((enum op_kind)instr_at(b->m, i)->op));
    json_put_real(&c->js, "runs", runs);
    json_put_string(&c->js, "bound", limit_of(t));
    json_put_real(&c->js, "arithmetic", (double)t->flops_time);
    json_put_real(&c->js, "memory", (double)t->memory_time);
    json_put_real(&c->js, "communication", (double)t->comm);
    json_put_real(&c->js, "exposed", (double)t->exposed);
    json_put_real(&c->js, "seconds", (double)(t->comm > 0 ? t->comm : t->total));
    json_put_real(&c->js, "matrix_flops", k->matrix_flops);
    json_put_real(&c->js, "flops", k->flops);
    json_put_int(&c->js, "bytes_read", k->in_bytes);
    json_put_int(&c->js, "bytes_written", k->out_bytes);
    json_close(&c->js, '}');
}

static void why_one(struct book *b, instr_id i)
{
    struct call *c = b->c;
    const struct cost *x = b->cost;
    const struct op_time *t = &x->of[i.i];
    double w = x->weight[instr_at(b->m, i)->comp.i];
    if (c->json) {
        json_why(b, i, w);
        return;
    }
    double once = (double)(t->comm > 0 ? t->exposed : t->total);
    out(c, "%s  %s %s  %s x %s runs = %s, %s of the step\n", node_name(c, b->m, i), op_name((enum op_kind)instr_at(b->m, i)->op),
        shape_text(c, instr_at(b->m, i)->shape), nice_seconds(&c->arena, once), nice_number(&c->arena, w),
        nice_seconds(&c->arena, once * w), nice_percent(&c->arena, once * w, x->step));
    if (t->comm > 0)
        why_links(b, i);
    else
        why_kernel(b, i);
}

/* Kernels of the program that stand for what the user named: a node of it, or a loaded instruction. */
static int64_t find_nodes(struct book *b, const char *name, instr_id loaded, instr_id *out_list, int64_t most, instr_id *inside)
{
    int64_t n = 0;
    const struct cost_plan *plan = b->cost->plan;
    for (uint32_t k = 1; k <= module_ninstrs(b->m); k++) {
        const struct instr *in = instr_at(b->m, (instr_id){ k });
        const char *own = name_text(b->m->ir, in->name);
        bool same = loaded.i ? b->p && served_by(b->c, b->p, (instr_id){ k }).i == loaded.i : strcmp(own, name) == 0;
        if (!same || plan->use[in->comp.i] != COMP_RUN)
            continue;
        if (plan->fused[k])
            *inside = (instr_id){ k };
        const struct op_time *t = &b->cost->of[k];
        if ((t->total > 0 || t->comm > 0) && n < most)
            out_list[n++] = (instr_id){ k };
    }
    return n;
}

static instr_id kernel_around(const struct cost_plan *plan, instr_id i)
{
    for (int steps = 0; plan->fused[i.i] && steps < 100000; steps++) {
        if (users_count(&plan->users, i) == 0)
            break;
        i = users_of(&plan->users, i)[0];
    }
    return i;
}

enum { MOST_NODES = 64 };

int cmd_why_cost(struct call *c)
{
    struct book b;
    struct cost *x = cost_now(c, &b);
    if (!x)
        return call_failed(c);
    instr_id nodes[MOST_NODES], inside = { 0 }, loaded = { 0 };
    const char *name = c->args[0].text[0] == '%' ? c->args[0].text + 1 : c->args[0].text;
    int64_t n = b.p ? find_nodes(&b, name, loaded, nodes, MOST_NODES, &inside) : 0, leaf;
    if (n == 0 || !b.p) {
        inside = (instr_id){ 0 };
        if (!arg_tensor(c, 0, &loaded, &leaf)) {
            cost_free(x);
            return call_failed(c);
        }
        if (b.p) {
            n = find_nodes(&b, name, loaded, nodes, MOST_NODES, &inside);
        } else {
            nodes[0] = loaded;
            n = 1;
        }
    }
    if (c->json)
        json_put_open(&c->js, "kernels", '[');
    for (int64_t k = 0; k < n; k++)
        why_one(&b, nodes[k]);
    if (c->json)
        json_close(&c->js, ']');
    if (n == 0 && inside.i) {
        instr_id around = kernel_around(x->plan, inside);
        if (c->json)
            json_put_string(&c->js, "inside", name_text(b.m->ir, instr_at(b.m, around)->name));
        else {
            out(c, "%s takes no time of its own: it is computed inside %s\n", node_name(c, b.m, inside), node_name(c, b.m, around));
            why_one(&b, around);
        }
    } else if (n == 0 && !c->json) {
        out(c, "nothing in the program takes time for it\n");
    }
    cost_free(x);
    return STATUS_OK;
}
