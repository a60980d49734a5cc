/* memory: what is alive at the worst point of one device's program, and whether it fits. */
#include <stdlib.h>
#include <string.h>

#include "repl/costs.h"

/* ---- names of nodes ------------------------------------------------------------------------------------- */

bool costs_program(struct call *c, const struct program **p, const struct module **m)
{
    *p = NULL;
    if (document_is_partitioned(c->sh->doc)) {
        *m = document_module(c->sh->doc);
        return true;
    }
    *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!*p)
        return false;
    *m = (*p)->module;
    return true;
}

const char *node_name(struct call *c, const struct module *m, instr_id node)
{
    const struct instr *in = instr_at(m, node);
    struct str s = STR_IN(&c->arena);
    if (in->op == OP_PARAMETER && in->comp.i == m->entry.i) {
        const struct module *loaded = document_module(c->sh->doc);
        const struct computation *e = comp_at(loaded, loaded->entry);
        int64_t k = instr_param_number(in);
        if (k >= 0 && k < e->nparams)
            return tensor_name(c, e->params[k]);
    }
    instr_label(m, node, true, &s);
    return str_text(&s);
}

const char *node_for(struct call *c, const struct program *p, instr_id node)
{
    if (!p)
        return "";
    instr_id i = served_by(c, p, node);
    return i.i ? label_of(c, i) : "";
}

/* ---- replicas ---------------------------------------------------------------------------------------------- */

struct replica {
    instr_id node;
    int64_t bytes, copies, wasted;
};

static int64_t copies_of(struct call *c, const struct program *p, instr_id node)
{
    const struct module *m = p->module;
    const struct instr *in = instr_at(m, node);
    const struct shape *s = shape_get(m->ir, in->shape);
    sharding_id sh = p->node_sharding[node.i];
    if (in->op == OP_PARAMETER && in->comp.i == m->entry.i) {
        int64_t k = instr_param_number(in);
        sh = k >= 0 && k < p->nparams ? p->param_sharding[k] : sh;
    }
    if (s->kind != SHAPE_ARRAY || !sh.i)
        return 1;
    struct tensor_view v = { 0 };
    measure_shape(document_ir(c->sh->doc), in->shape, sh, p->num_partitions, &v);
    return max_i64(v.copies, 1);
}

static int by_waste(const void *a, const void *b)
{
    const struct replica *x = a, *y = b;
    if (x->wasted != y->wasted)
        return x->wasted < y->wasted ? 1 : -1;
    return x->node.i < y->node.i ? -1 : x->node.i > y->node.i;
}

/* Of what is alive at the peak: arrays that several devices hold alike. wasted: what one device would
 * save if they were split over those that hold them. */
static int64_t find_replicas(struct call *c, const struct program *p, const struct memory *r, struct replica **out_list,
                             int64_t *wasted)
{
    VEC(struct replica) v = { 0 };
    *wasted = 0;
    for (int64_t k = 0; p && k < r->nlive; k++) {
        const struct buffer *b = &r->live[k];
        int64_t copies = copies_of(c, p, b->instr);
        if (copies <= 1 || b->bytes == 0)
            continue;
        struct replica x = { b->instr, b->bytes, copies, b->bytes - b->bytes / copies };
        *wasted += x.wasted;
        vec_push(&c->arena, &v, x);
    }
    if (v.n)
        qsort(v.v, (size_t)v.n, sizeof *v.v, by_waste);
    *out_list = v.v;
    return v.n;
}

/* ---- output -------------------------------------------------------------------------------------------------- */

static shape_id leaf_shape(const struct module *m, const struct buffer *b)
{
    shape_id s = instr_at(m, b->instr)->shape;
    return b->leaf >= 0 ? shape_leaf(m->ir, s, b->leaf) : s;
}

static const char *where(struct call *c, const struct module *m, const struct memory *r)
{
    return r->at.i ? node_name(c, m, r->at) : "the start";
}

static void say_live(struct call *c, const struct program *p, const struct module *m, const struct memory *r)
{
    static const char *const heads[] = { "alive at the peak", "kind", "shape", ">bytes", ">share", "for", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = call_rows(c, r->nlive);
    if (!c->all && shown > 12)
        shown = 12;
    for (int64_t k = 0; k < shown; k++) {
        const struct buffer *b = &r->live[k];
        const char **row = table_row(&t);
        row[0] = b->leaf > 0 ? arena_printf(&c->arena, "%s{%" PRId64 "}", node_name(c, m, b->instr), b->leaf)
                             : node_name(c, m, b->instr);
        row[1] = memory_kind_name((enum memory_kind)b->kind);
        row[2] = shape_text(c, leaf_shape(m, b));
        row[3] = with_commas(&c->arena, b->bytes);
        row[4] = nice_percent(&c->arena, (double)b->bytes, (double)r->peak);
        row[5] = instr_at(m, b->instr)->op == OP_PARAMETER ? "" : node_for(c, p, b->instr);
    }
    table_print(c, &t, true);
    call_more(c, shown, r->nlive, "");
}

static void say_replicas(struct call *c, const struct module *m, const struct replica *list, int64_t n, int64_t wasted)
{
    static const char *const heads[] = { "held alike", ">copies", ">bytes", ">too many", NULL };
    if (n == 0)
        return;
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = c->all ? n : min_i64(n, 6);
    for (int64_t k = 0; k < shown; k++) {
        const char **row = table_row(&t);
        row[0] = node_name(c, m, list[k].node);
        row[1] = with_commas(&c->arena, list[k].copies);
        row[2] = with_commas(&c->arena, list[k].bytes);
        row[3] = with_commas(&c->arena, list[k].wasted);
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "");
    out(c, "%s a device would go if nothing were held twice\n", nice_bytes(&c->arena, wasted));
}

static void say_room(struct call *c, const struct hardware *h, const struct memory *r)
{
    int64_t capacity = (int64_t)h->memory.value;
    double room = memory_batch_room(r, capacity);
    if (r->peak <= capacity)
        out(c, "fits         %s of %s on %s, %s free", nice_bytes(&c->arena, r->peak), nice_bytes(&c->arena, capacity),
            h->name, nice_bytes(&c->arena, capacity - r->peak));
    else
        out(c, "does not fit %s of %s on %s, %s too many", nice_bytes(&c->arena, r->peak), nice_bytes(&c->arena, capacity),
            h->name, nice_bytes(&c->arena, r->peak - capacity));
    if (room >= 1e6)
        out(c, "\n");
    else if (room >= 1)
        out(c, "; what grows with the batch could be %s times as much\n",
            room < 100 ? arena_printf(&c->arena, "%.2f", room) : with_commas(&c->arena, (int64_t)room));
    else if (room > 0)
        out(c, "; it would with %.2f of what grows with the batch\n", room);
    else
        out(c, "; what does not grow with the batch is too much alone\n");
}

static void say(struct call *c, const struct program *p, const struct module *m, const struct cost_plan *plan,
                const struct memory *r)
{
    const struct hardware *h = c->sh->hardware;
    out(c, "peak         %s a device, at %s\n", nice_bytes(&c->arena, r->peak), where(c, m, r));
    if (h)
        say_room(c, h, r);
    for (int k = 0; k < MEMORY_KINDS; k++)
        if (r->by_kind[k])
            out(c, "  %-11s %14s bytes  %7s\n", memory_kind_name((enum memory_kind)k), with_commas(&c->arena, r->by_kind[k]),
                nice_percent(&c->arena, (double)r->by_kind[k], (double)r->peak));
    out(c, "arguments    %s bytes, outputs %s bytes (%s of them in donated arguments), temporaries %s bytes\n",
        with_commas(&c->arena, r->arguments), with_commas(&c->arena, r->outputs), with_commas(&c->arena, r->aliased),
        with_commas(&c->arena, r->temporaries));
    out(c, "schedule     %s\n", m->is_scheduled    ? "the dump's own"
                                     : plan->greedy == 0 ? "depth first, the largest cone of an operand first"
                                                         : "for each computation the best of three orders: depth first; the same, but what frees more than it makes at once; what frees most first");
    say_live(c, p, m, r);
    struct replica *list;
    int64_t wasted, n = find_replicas(c, p, r, &list, &wasted);
    say_replicas(c, m, list, n, wasted);
}

static void json_live(struct call *c, const struct program *p, const struct module *m, const struct memory *r)
{
    json_put_open(&c->js, "live", '[');
    for (int64_t k = 0; k < r->nlive; k++) {
        const struct buffer *b = &r->live[k];
        const struct instr *in = instr_at(m, b->instr);
        json_open(&c->js, '{');
        json_put_string(&c->js, "computation", name_text(m->ir, comp_at(m, in->comp)->name));
        json_put_string(&c->js, "name", name_text(m->ir, in->name));
        json_put_int(&c->js, "leaf", max_i64(b->leaf, 0));
        json_put_string(&c->js, "kind", memory_kind_name((enum memory_kind)b->kind));
        json_put_string(&c->js, "shape", shape_text(c, leaf_shape(m, b)));
        json_put_int(&c->js, "bytes", b->bytes);
        const char *whose = node_for(c, p, b->instr);
        json_put_string(&c->js, "for", whose[0] ? whose : NULL);
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

static void json_all(struct call *c, const struct program *p, const struct module *m, const struct cost_plan *plan,
                     const struct memory *r)
{
    const struct hardware *h = c->sh->hardware;
    struct json *j = &c->js;
    json_put_int(j, "peak", r->peak);
    json_put_string(j, "at", r->at.i ? name_text(m->ir, instr_at(m, r->at)->name) : NULL);
    json_put_int(j, "arguments", r->arguments);
    json_put_int(j, "outputs", r->outputs);
    json_put_int(j, "aliased", r->aliased);
    json_put_int(j, "temporaries", r->temporaries);
    json_put_int(j, "constants", r->constants);
    json_put_open(j, "kinds", '{');
    for (int k = 0; k < MEMORY_KINDS; k++)
        json_put_int(j, memory_kind_name((enum memory_kind)k), r->by_kind[k]);
    json_close(j, '}');
    json_put_string(j, "hardware", h ? h->name : NULL);
    if (h) {
        json_put_int(j, "capacity", (int64_t)h->memory.value);
        json_put_bool(j, "fits", r->peak <= (int64_t)h->memory.value);
        json_put_real(j, "batch_room", memory_batch_room(r, (int64_t)h->memory.value));
    }
    json_put_real(j, "flops", cost_flops(plan, false));
    json_put_real(j, "matrix_flops", cost_matrix_flops(plan, false));
    json_put_real(j, "flops_loops_once", cost_flops(plan, true));
    json_live(c, p, m, r);
    struct replica *list;
    int64_t wasted, n = find_replicas(c, p, r, &list, &wasted);
    json_put_int(j, "replicated_bytes", wasted);
    json_put_open(j, "replicated", '[');
    for (int64_t k = 0; k < n; k++) {
        json_open(j, '{');
        json_put_string(j, "name", name_text(m->ir, instr_at(m, list[k].node)->name));
        json_put_int(j, "copies", list[k].copies);
        json_put_int(j, "bytes", list[k].bytes);
        json_put_int(j, "wasted", list[k].wasted);
        json_close(j, '}');
    }
    json_close(j, ']');
}

int cmd_memory(struct call *c)
{
    const struct cost_plan *plan;
    const struct memory *r;
    const struct program *p;
    const struct module *m;
    if (!costs_program(c, &p, &m) || !document_memory(c->sh->doc, &plan, &r, call_tick(c), c->d) || !costs_hardware(c))
        return call_failed(c);
    if (!memory_ifs(c, p, plan, r, true))
        return call_failed(c);
    if (c->json)
        json_all(c, p, m, plan, r);
    else
        say(c, p, m, plan, r);
    return memory_ifs(c, p, plan, r, false) ? STATUS_OK : call_failed(c);
}
