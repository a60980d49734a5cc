/* What XLA's compiler does to a module before completion: inline every call, make constants of
 * zero-sized arrays, give every conditional a tuple result. In this order, as its CPU compiler. */
#include <string.h>

#include "base/fail.h"
#include "propagate/edit.h"

/* Calls nest, so a short text can ask for any number of copies. */
enum { PREPARED_MAX = 10000000 };

struct inliner {
    struct edit *e;
    struct graph *g;
    struct tick *tick;
    struct diag *d;
    VEC(struct call_site) sites; /* [0] unused */
    instr_id *copy_of;           /* of the callee being copied */
    uint32_t ncopy_of;
    struct id_list *orders;      /* by computation, once it was asked for */
    bool changed;
};

static bool inlinable(const struct inliner *in, instr_id i)
{
    const struct instr *ins = instr_at(in->e->m, i);
    return ins->op == OP_CALL && instr_attr(ins, ATTR_TO_APPLY) &&
           !instr_attr(ins, ATTR_BACKEND_CONFIG);
}

static bool has_calls(const struct module *m)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        if (instr_at(m, (instr_id){ i })->op == OP_CALL)
            return true;
    return false;
}

/* The site that `site` of the callee becomes when the callee is copied to where call stands: the new
 * call is put in front of the chain. Chains are as deep as calls nest, so no recursion. */
static uint32_t outer_site(struct inliner *in, struct map *memo, instr_id call, uint32_t site)
{
    VEC(uint32_t) chain = { 0 };
    uint64_t known = 0;
    for (;;) {
        if (map_get(memo, site, &known))
            break;
        vec_push(in->e->arena, &chain, site);
        if (!site)
            break;
        site = in->sites.v[site].outer;
    }
    for (int64_t k = chain.n; k > 0; k--) {
        uint32_t old = chain.v[k - 1];
        struct call_site s = { 0, in->e->origin[call.i].source };
        if (old)
            s = (struct call_site){ (uint32_t)known, in->sites.v[old].call };
        vec_push(&in->g->arena, &in->sites, s);
        known = (uint64_t)in->sites.n - 1;
        map_put(memo, old, known);
    }
    return (uint32_t)known;
}

/* Control edges lead to the copies; an edge from outside the callee does not exist. */
static void copy_control(struct inliner *in, instr_id copy)
{
    struct module *m = in->e->m;
    struct instr *ins = instr_at(m, copy);
    if (!instr_attr(ins, ATTR_CONTROL_PREDECESSORS))
        return;
    struct attr *attrs = arena_copy(&m->arena, ins->attrs, ins->nattrs, sizeof *attrs);
    for (int k = 0; k < ins->nattrs; k++) {
        if (attrs[k].key != ATTR_CONTROL_PREDECESSORS)
            continue;
        instr_id *v = ARENA_ARRAY(&m->arena, instr_id, attrs[k].n);
        for (uint32_t j = 0; j < attrs[k].n; j++)
            v[j] = in->copy_of[attrs[k].instrs[j].i];
        attrs[k].instrs = v;
    }
    ins->attrs = attrs;
}

static const struct id_list *callee_order(struct inliner *in, comp_id callee)
{
    struct id_list *l = &in->orders[callee.i];
    if (!l->v)
        edit_order(in->e, callee, true, in->e->arena, l);
    return l;
}

static void inline_call(struct inliner *in, instr_id call)
{
    struct edit *e = in->e;
    struct module *m = e->m;
    comp_id callee = instr_attr(instr_at(m, call), ATTR_TO_APPLY)->comp;
    comp_id into = instr_at(m, call)->comp;
    const struct id_list *order = callee_order(in, callee);
    struct map memo;
    map_init(&memo, e->arena);
    instr_id operands_inline[16];
    for (uint32_t k = 0; k < order->n; k++) {
        instr_id old = order->v[k];
        const struct instr *ins = instr_at(m, old);
        if (ins->op == OP_PARAMETER) {
            const struct computation *c = comp_at(m, callee);
            for (uint32_t p = 0; p < c->nparams; p++)
                if (c->params[p].i == old.i)
                    in->copy_of[old.i] = instr_operand(m, call, p);
            continue;
        }
        instr_id *operands = operands_inline;
        if (ins->noperands > COUNTOF(operands_inline))
            operands = ARENA_ARRAY(e->arena, instr_id, ins->noperands);
        for (uint32_t j = 0; j < ins->noperands; j++)
            operands[j] = in->copy_of[ins->operands[j].i];
        struct origin from = e->origin[old.i];
        from.site = outer_site(in, &memo, call, from.site);
        instr_id copy = edit_add(e, into, (enum op_kind)ins->op, ins->shape, ins->noperands, operands,
                                 ins, from);
        in->copy_of[old.i] = copy;
        copy_control(in, copy);
    }
    instr_id root = in->copy_of[e->roots[callee.i].i];
    edit_inherit(e, call, root);
    edit_replace(e, call, root, true);
    in->changed = true;
}

/* How many instructions there will be, before any is made. */
static bool count_copies(struct inliner *in, const comp_id *order, uint32_t n)
{
    struct module *m = in->e->m;
    int64_t *size = ARENA_ARRAY(in->e->arena, int64_t, module_ncomps(m) + 1), total = 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct id_list *l = &in->e->comps[order[k].i];
        int64_t mine = l->n;
        for (uint32_t j = 0; j < l->n; j++) {
            if (!inlinable(in, l->v[j]))
                continue;
            mine += size[instr_attr(instr_at(m, l->v[j]), ATTR_TO_APPLY)->comp.i];
            total += size[instr_attr(instr_at(m, l->v[j]), ATTR_TO_APPLY)->comp.i];
            if (total > PREPARED_MAX)
                return diag_error(in->d, m->source, instr_at(m, l->v[j])->at,
                                  "inlining the calls would make more than %d instructions",
                                  PREPARED_MAX);
        }
        size[order[k].i] = mine;
    }
    return true;
}

/* Callees first, so that what is copied holds no more calls. */
static bool inline_calls(struct inliner *in)
{
    struct edit *e = in->e;
    if (!has_calls(e->m))
        return true;
    uint32_t n;
    const comp_id *order = module_call_order(e->m, true, e->arena, &n);
    if (!count_copies(in, order, n))
        return false;
    in->ncopy_of = module_ninstrs(e->m) + 1;
    for (uint32_t k = 0; k < n; k++) {
        /* The callee's ids can be ids of copies, so the table grows with the module. */
        struct id_list *l = &e->comps[order[k].i];
        uint32_t count = l->n;
        for (uint32_t j = 0; j < count; j++) {
            instr_id i = l->v[j];
            if (edit_gone(e, i) || !inlinable(in, i))
                continue;
            if (in->ncopy_of <= module_ninstrs(e->m)) {
                in->ncopy_of = module_ninstrs(e->m) * 2;
                in->copy_of = NULL;
            }
            if (!in->copy_of)
                in->copy_of = ARENA_ARRAY(e->arena, instr_id, in->ncopy_of);
            inline_call(in, i);
            if (!tick_poll(in->tick, "prepare", k, n))
                return pass_interrupted(in->d);
        }
    }
    return true;
}

/* A computation that only inlined calls reached is no longer part of the program. */
static void find_used(struct inliner *in)
{
    struct module *m = in->e->m;
    struct graph *g = in->g;
    if (!in->changed)
        return;
    memset(g->comp_used, 0, module_ncomps(m) + 1);
    VEC(comp_id) todo = { 0 };
    vec_push(in->e->arena, &todo, m->entry);
    g->comp_used[m->entry.i] = true;
    for (int64_t at = 0; at < todo.n; at++) {
        const struct id_list *l = &in->e->comps[todo.v[at].i];
        for (uint32_t k = 0; k < l->n; k++) {
            if (edit_gone(in->e, l->v[k]))
                continue;
            int called = instr_called(m, l->v[k], NULL, 0);
            if (!called)
                continue;
            comp_id *list = ARENA_ARRAY(in->e->arena, comp_id, called);
            instr_called(m, l->v[k], list, called);
            for (int j = 0; j < called; j++)
                if (!g->comp_used[list[j].i]) {
                    g->comp_used[list[j].i] = true;
                    vec_push(in->e->arena, &todo, list[j]);
                }
        }
    }
}

static bool is_zero_sized(const struct module *m, instr_id i)
{
    const struct shape *s = instr_shape(m, i);
    if (s->kind != SHAPE_ARRAY || s->dynamic)
        return false;
    for (int d = 0; d < s->rank; d++)
        if (s->dims[d] == 0)
            return true;
    return false;
}

/* An array without elements is a constant, and what made it is not needed. */
static void drop_zero_sized(struct edit *e, const struct graph *g)
{
    struct module *m = e->m;
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        bool any = false;
        for (uint32_t k = 0; k < e->comps[c].n; k++)
            any = any || is_zero_sized(m, e->comps[c].v[k]);
        if (!any || !g->comp_used[c])
            continue;
        struct id_list order = { 0 };
        edit_order(e, (comp_id){ c }, false, e->arena, &order);
        for (uint32_t k = 0; k < order.n; k++) {
            instr_id i = order.v[k];
            const struct instr *ins = instr_at(m, i);
            if (edit_gone(e, i) || !is_zero_sized(m, i) || ins->op == OP_CONSTANT ||
                ins->op == OP_PARAMETER || instr_has_side_effect(m, i) ||
                instr_attr(ins, ATTR_CONTROL_PREDECESSORS))
                continue;
            instr_id constant = edit_add(e, (comp_id){ c }, OP_CONSTANT, ins->shape, 0, NULL, NULL,
                                         e->origin[i.i]);
            struct instr *new = instr_at(m, constant);
            new->literal = literal_new(m, shape_strip(m->ir, ins->shape), "");
            new->metadata = ins->metadata;
            new->metadata_len = ins->metadata_len;
            new->name = ins->name;
            edit_inherit(e, i, constant);
            edit_replace(e, i, constant, true);
        }
    }
}

static instr_id add_element(struct edit *e, comp_id c, shape_id shape, instr_id tuple,
                            struct origin from)
{
    struct attr index = attr_int(ATTR_INDEX, 0);
    instr_id gte = edit_add(e, c, OP_GET_TUPLE_ELEMENT, shape, 1, &tuple, NULL, from);
    struct instr *ins = instr_at(e->m, gte);
    ins->attrs = arena_copy(&e->m->arena, &index, 1, sizeof index);
    ins->nattrs = 1;
    edit_name(e, gte, "get-tuple-element");
    return gte;
}

/* Branch b takes a tuple: its parameter's place is taken by the tuple's element. What the text said
 * of the parameter's sharding is lost, in XLA too. */
static void wrap_parameter(struct edit *e, comp_id branch)
{
    struct module *m = e->m;
    const struct id_list *l = &e->comps[branch.i];
    instr_id old = { 0 };
    for (uint32_t k = 0; k < l->n && !old.i; k++)
        if (instr_at(m, l->v[k])->op == OP_PARAMETER && !edit_gone(e, l->v[k]))
            old = l->v[k];
    if (!old.i || instr_shape(m, old)->kind == SHAPE_TUPLE)
        return;
    shape_id shape = instr_at(m, old)->shape;
    instr_id new = edit_add(e, branch, OP_PARAMETER, shape_tuple(m->ir, 1, &shape), 0, NULL,
                            instr_at(m, old), (struct origin){ { 0 }, 0 });
    instr_at(m, new)->sharding = (sharding_id){ 0 };
    instr_at(m, new)->note = NULL;
    instr_id gte = add_element(e, branch, shape, new, e->origin[old.i]);
    edit_replace(e, old, gte, false);
}

/* Branches get tuples, XLA 2.19's canonical form. */
static void wrap_operands(struct edit *e, instr_id cond, const comp_id *branches, int n)
{
    struct module *m = e->m;
    for (int b = 0; b < n; b++) {
        wrap_parameter(e, branches[b]);
        uint32_t k = (uint32_t)b + 1;
        if (k >= instr_at(m, cond)->noperands)
            return;
        instr_id x = e->operands[cond.i][k];
        if (instr_shape(m, x)->kind == SHAPE_TUPLE)
            continue;
        shape_id shape = instr_at(m, x)->shape;
        instr_id tuple = edit_add(e, instr_at(m, cond)->comp, OP_TUPLE, shape_tuple(m->ir, 1, &shape),
                                  1, &x, NULL, (struct origin){ { 0 }, 0 });
        edit_name(e, tuple, "tuple");
        edit_set_operand(e, cond, k, tuple);
    }
}

/* A conditional takes and gives tuples. */
static void wrap_conditional(struct edit *e, instr_id cond)
{
    struct module *m = e->m;
    int n = instr_called(m, cond, NULL, 0);
    comp_id *branches = ARENA_ARRAY(e->arena, comp_id, n);
    instr_called(m, cond, branches, n);
    shape_id shape = instr_at(m, cond)->shape;
    bool gives_array = instr_shape(m, cond)->kind != SHAPE_TUPLE;
    for (int b = 0; gives_array && b < n; b++) {
        instr_id root = e->roots[branches[b].i];
        if (instr_shape(m, root)->kind == SHAPE_TUPLE)
            continue; /* shared with another conditional, which did it */
        shape_id inner = instr_at(m, root)->shape;
        instr_id tuple = edit_add(e, branches[b], OP_TUPLE, shape_tuple(m->ir, 1, &inner), 1, &root,
                                  NULL, (struct origin){ { 0 }, 0 });
        edit_name(e, tuple, "tuple");
        e->roots[branches[b].i] = tuple;
    }
    wrap_operands(e, cond, branches, n);
    if (!gives_array)
        return;
    const struct instr *old = instr_at(m, cond);
    comp_id c = old->comp;
    instr_id new = edit_add(e, c, OP_CONDITIONAL, shape_tuple(m->ir, 1, &shape), old->noperands,
                            old->operands, old, e->origin[cond.i]);
    instr_at(m, new)->sharding = (sharding_id){ 0 };
    instr_at(m, new)->note = NULL;
    instr_id gte = add_element(e, c, shape, new, (struct origin){ { 0 }, 0 });
    edit_inherit(e, cond, gte);
    edit_replace(e, cond, gte, true);
}

static void wrap_conditionals(struct edit *e, const struct graph *g)
{
    struct module *m = e->m;
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        if (!g->comp_used[c])
            continue;
        struct id_list order = { 0 };
        bool any = false;
        for (uint32_t k = 0; k < e->comps[c].n; k++)
            any = any || instr_at(m, e->comps[c].v[k])->op == OP_CONDITIONAL;
        if (!any)
            continue;
        edit_order(e, (comp_id){ c }, false, e->arena, &order);
        for (uint32_t k = 0; k < order.n; k++)
            if (instr_at(m, order.v[k])->op == OP_CONDITIONAL && !edit_gone(e, order.v[k]))
                wrap_conditional(e, order.v[k]);
    }
}

static bool calls_it_inlined(const struct module *m, instr_id i)
{
    const struct instr *ins = instr_at(m, i);
    return ins->op == OP_CALL && !instr_attr(ins, ATTR_BACKEND_CONFIG);
}

/* Why a loaded instruction has nothing that stands for it. */
static void note_removed(struct graph *g)
{
    const struct module *l = g->loaded;
    uint32_t n = module_ninstrs(l);
    bool *called = ARENA_ARRAY(&g->arena, bool, module_ncomps(l) + 1);
    g->removed = ARENA_ARRAY(&g->arena, uint8_t, n + 1);
    for (uint32_t i = 1; i <= n; i++)
        if (calls_it_inlined(l, (instr_id){ i }) &&
            instr_attr(instr_at(l, (instr_id){ i }), ATTR_TO_APPLY))
            called[instr_attr(instr_at(l, (instr_id){ i }), ATTR_TO_APPLY)->comp.i] = true;
    for (uint32_t i = 1; i <= n; i++) {
        if (g->start[i + 1] > g->start[i])
            continue;
        const struct instr *ins = instr_at(l, (instr_id){ i });
        bool inlined = calls_it_inlined(l, (instr_id){ i }) ||
                       (ins->op == OP_PARAMETER && called[ins->comp.i]);
        g->removed[i] = inlined ? REMOVED_INLINED : REMOVED_DEAD;
        if (!inlined && is_zero_sized(l, (instr_id){ i }))
            g->removed[i] = REMOVED_ZERO_SIZED;
    }
}

static bool build(struct graph *g, bool on, struct tick *tick, struct arena *tmp, struct diag *d)
{
    struct edit e;
    edit_open(&e, g->module, NULL, NULL, tmp);
    uint32_t nc = module_ncomps(g->module);
    g->comp_used = ARENA_ARRAY(&g->arena, bool, nc + 1);
    memset(g->comp_used, true, nc + 1);
    struct inliner in = { .e = &e, .g = g, .tick = tick, .d = d };
    in.orders = ARENA_ARRAY(tmp, struct id_list, nc + 1);
    vec_push(&g->arena, &in.sites, ((struct call_site){ 0 }));
    if (on) {
        if (!inline_calls(&in))
            return false;
        find_used(&in);
        drop_zero_sized(&e, g);
        wrap_conditionals(&e, g);
    }
    g->sites = in.sites.v;
    g->nsites = (uint32_t)in.sites.n - 1;
    edit_finish(&e, g);
    note_removed(g);
    return true;
}

struct graph *graph_prepare(const struct module *loaded, bool on, struct tick *tick, struct diag *d)
{
    struct arena own = { 0 };
    struct graph *g = ARENA_NEW(&own, struct graph);
    g->arena = own;
    g->loaded = loaded;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        graph_free(g);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    g->module = module_clone(loaded);
    bool ok = build(g, on, tick, &tmp, d);
    arena_close(&tmp);
    fail_leave(&f);
    if (ok)
        return g;
    graph_free(g);
    return NULL;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    if (g->store_free)
        g->store_free(g->store);
    module_free(g->module);
    struct arena own = g->arena; /* g itself lies in it */
    arena_free(&own);
}
