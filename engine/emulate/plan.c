/* Lowering a module to a plan: the order of steps, slots, live ranges, what can be computed once.
 */
#include "emulate/lower.h"

#include <stdlib.h>
#include <string.h>

#include "emulate/plan.h"

/* ---- order --------------------------------------------------------------------------------------
 */

/* Instructions that the root needs, operands first: in text order where that is one. */
static instr_id *plan_order(struct planner *p, comp_id c, uint32_t *n)
{
    const struct module *m = p->plan->m;
    const struct computation *comp = comp_at(m, c);
    instr_id *order = ARENA_ARRAY(&p->tmp, instr_id, comp->ninstrs + 1);
    VEC(instr_id) stack = { 0 };
    uint32_t needed = 0;
    p->mark_round += 2; /* round: seen; round + 1: placed */
    vec_push(&p->tmp, &stack, comp->root);
    p->mark[comp->root.i] = p->mark_round;
    while (stack.n) {
        const struct instr *i = instr_at(m, stack.v[--stack.n]);
        needed++;
        for (uint32_t k = 0; k < i->noperands; k++)
            if (p->mark[i->operands[k].i] != p->mark_round) {
                p->mark[i->operands[k].i] = p->mark_round;
                vec_push(&p->tmp, &stack, i->operands[k]);
            }
    }
    /* Rounds over the text; one is enough unless a pass put operands behind their users. */
    for (*n = 0; *n < needed;) {
        uint32_t before = *n;
        for (uint32_t k = 0; k < comp->ninstrs; k++) {
            instr_id id = comp->instrs[k];
            const struct instr *i = instr_at(m, id);
            bool ready = p->mark[id.i] == p->mark_round;
            for (uint32_t o = 0; ready && o < i->noperands; o++)
                ready = p->mark[i->operands[o].i] == p->mark_round + 1;
            if (ready) {
                p->mark[id.i] = p->mark_round + 1;
                order[(*n)++] = id;
            }
        }
        INVARIANT(*n > before, "instructions of a computation have no order");
    }
    return order;
}

/* ---- leaves and slots ---------------------------------------------------------------------------
 */

static struct leaf leaf_of(const struct planner *p, shape_id s)
{
    const struct shape *shape = shape_get(p->plan->m->ir, s);
    if (shape->kind != SHAPE_ARRAY)
        return (struct leaf){ elem_of(DTYPE_NONE, p->plan->mode), 0, 0 };
    struct elem e = elem_of(shape->dtype, p->plan->mode);
    return (struct leaf){ e, shape->count, shape->count * e.size };
}

static const struct leaf *leaves_of(struct planner *p, shape_id s, uint32_t *n)
{
    const struct shape *shape = shape_get(p->plan->m->ir, s);
    *n = (uint32_t)shape->nleaves;
    struct leaf *v = ARENA_ARRAY(&p->plan->arena, struct leaf, shape->nleaves + 1);
    if (shape->kind != SHAPE_TUPLE) {
        v[0] = leaf_of(p, s);
        return v;
    }
    for (int64_t k = 0; k < shape->nleaves; k++)
        v[k] = leaf_of(p, shape_leaf(p->plan->m->ir, s, k));
    return v;
}

uint32_t *plan_new_slots(struct planner *p, uint32_t n)
{
    uint32_t *v = ARENA_ARRAY(&p->plan->arena, uint32_t, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        v[k] = p->plan->nslots++;
        vec_push(&p->tmp, &p->value, NULL);
        vec_push(&p->tmp, &p->spread, NULL);
    }
    return v;
}

bool lower_missing(const struct lowering *l, const char *what)
{
    return diag_error(l->d, l->m->source, l->i->at, "cannot run %s %s of %s: no kernel for %s",
                      op_name((enum op_kind)l->i->op), name_text(l->m->ir, l->i->name),
                      name_text(l->m->ir, comp_at(l->m, l->i->comp)->name), what);
}

const struct shape *operand_shape(const struct lowering *l, uint32_t k)
{
    return instr_shape(l->m, l->i->operands[k]);
}

/* ---- constants ----------------------------------------------------------------------------------
 */

static void set_const(struct planner *p, uint32_t slot, struct buf *b)
{
    atomic_fetch_add(&b->refs, 1); /* pinned: never written in place */
    p->value.v[slot] = b;
    struct const_slot c = { slot, b };
    vec_push(&p->plan->arena, &p->plan->consts, c);
    p->plan->const_bytes += b->bytes;
}

static void store_constant(const struct leaf *leaf, const void *data, struct buf *b)
{
    if (leaf->elem.ct == CT_RING || leaf->elem.ct == CT_RINGC)
        ring_from_floats(leaf->elem.t, data, b->data, leaf->count);
    else
        memcpy(b->data, data, (size_t)leaf->bytes);
}

/* Values that the text leaves out, `constant({...})`, are made up: the small integers of a parameter,
 * the same in every program that has this constant. Whoever runs it says so. */
static bool constant_leaf(struct planner *p, struct lowering *l, const struct literal *lit,
                          const struct leaf *leaf, uint32_t slot)
{
    const struct shape *shape = shape_get(l->m->ir, lit->shape);
    struct tensor made = { 0 };
    if (lit->elided && !tensor_generate(shape->dtype, shape->rank, shape->dims, 0, 0, &made, l->d))
        return false;
    struct buf *b = buf_new(&p->plan->pool, leaf->bytes);
    set_const(p, slot, b);
    store_constant(leaf, lit->elided ? made.data : lit->data, b);
    tensor_free(&made);
    return true;
}

static bool plan_constant(struct planner *p, struct lowering *l, struct step *s)
{
    const struct literal *lit = l->i->literal;
    VEC(const struct literal *) stack = { 0 };
    uint32_t at = 0;
    vec_push(&p->tmp, &stack, lit);
    while (stack.n) {
        const struct literal *x = stack.v[--stack.n];
        if (shape_get(l->m->ir, x->shape)->kind == SHAPE_TUPLE) {
            if (x->elided)
                return lower_missing(l, "a tuple whose values are left out");
            for (int64_t k = x->nelems - 1; k >= 0; k--)
                vec_push(&p->tmp, &stack, x->elems[k]);
            continue;
        }
        if (!constant_leaf(p, l, x, &s->lout[at], s->out[at]))
            return false;
        at++;
    }
    return true;
}

static bool is_const(const struct planner *p, uint32_t slot)
{
    return p->value.v[slot] != NULL;
}

/* A step whose operands are all constant runs once, now; every device sees its result. */
static bool fold_step(struct planner *p, const struct step *s)
{
    if (s->kind != STEP_KERNEL)
        return false;
    int64_t bytes = 0;
    for (uint32_t k = 0; k < s->nin; k++)
        if (!is_const(p, s->in[k]))
            return false;
    for (uint32_t k = 0; k < s->nout; k++)
        bytes += s->lout[k].bytes;
    if (bytes > (1 << 20) || p->plan->const_bytes + bytes > (64 << 20))
        return false;
    struct step copy = *s;
    copy.inplace = 0;
    step_run(p->plan, &p->plan->pool, p->value.v, &copy);
    for (uint32_t k = 0; k < s->nout; k++)
        set_const(p, s->out[k], p->value.v[s->out[k]]);
    return true;
}

/* ---- control ------------------------------------------------------------------------------------
 */

static bool plan_control(struct planner *p, struct lowering *l, struct step *s, enum step_kind kind)
{
    comp_id called[2], *list = called;
    int n = instr_called(l->m, l->id, NULL, 0);
    list = ARENA_ARRAY(&p->tmp, comp_id, n + 1);
    instr_called(l->m, l->id, list, n);
    struct control *c = ARENA_NEW(&p->plan->arena, struct control);
    c->ncomps = (uint32_t)n;
    c->comps = ARENA_ARRAY(&p->plan->arena, const struct comp_plan *, n + 1);
    for (int k = 0; k < n; k++) {
        comp_id callee = list[k];
        if (kind == STEP_WHILE) { /* condition first, however the text has them */
            const struct attr *a = instr_attr(l->i, k == 0 ? ATTR_CONDITION : ATTR_BODY);
            if (a)
                callee = a->comp;
        }
        c->comps[k] = p->plan->comps[callee.i];
        INVARIANT(c->comps[k], "callee %s is not lowered yet",
                  name_text(l->m->ir, comp_at(l->m, callee)->name));
    }
    if (kind == STEP_CONDITIONAL) {
        uint32_t *start = ARENA_ARRAY(&p->plan->arena, uint32_t, l->i->noperands + 1);
        for (uint32_t k = 0, at = 0; k < l->i->noperands; k++) {
            if (k)
                start[k - 1] = at;
            at += (uint32_t)operand_shape(l, k)->nleaves;
        }
        c->arg_start = start;
        c->pred_index = operand_shape(l, 0)->dtype == DTYPE_PRED;
    }
    if (kind == STEP_WHILE && c->ncomps == 2)
        c->float_ended = p->compares_floats[c->comps[0]->comp.i];
    s->kind = (uint8_t)kind;
    s->p = c;
    return (kind != STEP_WHILE || n == 2) && (kind != STEP_CALL || n == 1)
               ? true
               : lower_missing(l, "this form");
}

/* ---- handlers of the emulate column that need the planner
 * ---------------------------------------- */

#define NAMES_ITS_OPERAND(name)           \
    bool lower_##name(struct lowering *l) \
    {                                     \
        (void)l;                          \
        return true;                      \
    }
/* Handled in plan_instr before a handler would be called. */
NAMES_ITS_OPERAND(parameter)
NAMES_ITS_OPERAND(constant)
NAMES_ITS_OPERAND(tuple)
NAMES_ITS_OPERAND(get_tuple_element)
NAMES_ITS_OPERAND(while)
NAMES_ITS_OPERAND(conditional)
NAMES_ITS_OPERAND(call)
NAMES_ITS_OPERAND(async_start)
NAMES_ITS_OPERAND(async_done)
NAMES_ITS_OPERAND(copy_start)

bool lower_partition_id(struct lowering *l)
{
    l->step->kind = STEP_PARTITION_ID;
    return true;
}

bool lower_replica_id(struct lowering *l)
{
    l->step->kind = STEP_REPLICA_ID;
    return true;
}

bool lower_not_yet(struct lowering *l);
bool lower_not_yet(struct lowering *l) /* of rows of ops.def that say so */
{
    return lower_missing(l, "it");
}

static const lower_fn handlers[OP_COUNT] = {
#define OP(id, hlo, shlo, lo, hi, v, p, t, emulate, c) [OP_##id] = lower_##emulate,
#include "ir/ops.def"
};

bool op_has_kernel(enum op_kind op)
{
    return handlers[op] && handlers[op] != lower_not_yet;
}

/* ---- one instruction ----------------------------------------------------------------------------
 */

static void gather_operands(struct planner *p, const struct instr *i, struct step *s)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < i->noperands; k++)
        n += p->names[i->operands[k].i].n;
    uint32_t *in = ARENA_ARRAY(&p->plan->arena, uint32_t, n + 1);
    struct leaf *lin = ARENA_ARRAY(&p->plan->arena, struct leaf, n + 1);
    for (uint32_t k = 0; k < i->noperands; k++) {
        const struct slot_names *v = &p->names[i->operands[k].i];
        for (uint32_t j = 0; j < v->n; j++) {
            lin[s->nin] = v->leaves[j];
            in[s->nin++] = v->slots[j];
        }
    }
    s->in = in;
    s->lin = lin;
}

/* Results that are other values' slots: no step. */
static bool plan_name(struct planner *p, const struct lowering *l, struct slot_names *out)
{
    const struct instr *i = l->i;
    if (i->op == OP_GET_TUPLE_ELEMENT) {
        const struct slot_names *v = &p->names[i->operands[0].i];
        int64_t at = shape_leaf_offset(l->m->ir, instr_at(l->m, i->operands[0])->shape,
                                       instr_int(i, ATTR_INDEX, 0));
        uint32_t n = (uint32_t)shape_get(l->m->ir, i->shape)->nleaves;
        *out = (struct slot_names){ n, v->slots + at, v->leaves + at };
        return true;
    }
    if (i->op == OP_COPY_START) { /* (copy, operand, context) */
        const struct slot_names *v = &p->names[i->operands[0].i];
        const struct leaf *leaves = leaves_of(p, i->shape, &out->n);
        uint32_t *slots = plan_new_slots(p, out->n);
        for (uint32_t k = 0; k < 2 * v->n && k < out->n; k++)
            slots[k] = v->slots[k % v->n];
        *out = (struct slot_names){ out->n, slots, leaves };
        return true;
    }
    if (handlers[i->op] == lower_async_done) {
        const struct slot_names *v = &p->names[i->operands[0].i];
        const struct instr *start = instr_at(l->m, i->operands[0]);
        while (start->op == OP_ASYNC_UPDATE)
            start = instr_at(l->m, start->operands[0]);
        uint32_t n = (uint32_t)shape_get(l->m->ir, i->shape)->nleaves, at = 0;
        if (start->op != OP_ALL_REDUCE_START && start->op != OP_COPY_START)
            for (uint32_t k = 0; k < start->noperands; k++)
                at += p->names[start->operands[k].i].n;
        if (at + n > v->n)
            at = v->n - n;
        *out = (struct slot_names){ n, v->slots + at, v->leaves + at };
        if (p->plan->unfused && start->op != OP_COPY_START)
            vec_push(&p->tmp, &p->steps, ((struct step){ .kind = STEP_DONE, .instr = l->id }));
        return true;
    }
    return false;
}

static void plan_tap(struct planner *p, instr_id id, const struct slot_names *v)
{
    if (!p->plan->taps || !p->plan->taps[id.i])
        return;
    struct step s = {
        .kind = STEP_TAP, .instr = id, .nin = v->n, .in = v->slots, .lin = v->leaves
    };
    vec_push(&p->tmp, &p->steps, s);
}

/* (operands, results of the wrapped computation, context): a call whose results stand in the
 * middle. */
static bool plan_async(struct planner *p, struct lowering *l, struct step *s,
                       struct slot_names *out)
{
    comp_id callee;
    if (instr_called(l->m, l->id, &callee, 1) != 1 || !p->plan->comps[callee.i])
        return lower_missing(l, "this form");
    uint32_t n = p->plan->comps[callee.i]->nroots, all;
    const struct leaf *leaves = leaves_of(p, l->i->shape, &all);
    if (all < s->nin + n)
        return lower_missing(l, "this form");
    uint32_t *slots = plan_new_slots(p, all);
    memcpy(slots, s->in, s->nin * sizeof *slots);
    s->nout = n;
    s->out = slots + s->nin;
    s->lout = leaves + s->nin;
    *out = (struct slot_names){ all, slots, leaves };
    if (!plan_control(p, l, s, STEP_CALL))
        return false;
    vec_push(&p->tmp, &p->steps, *s);
    return true;
}

/* One dimension of the operand, its others merged into it, between dimensions that only repeat. */
static void note_spread(struct planner *p, const struct step *s)
{
    const struct box *b = &((const struct move *)s->p)->box;
    struct spread *sp = ARENA_NEW(&p->tmp, struct spread);
    *sp = (struct spread){ .slot = s->in[0], .leaf = s->lin[0], .inner = 1, .n = 1 };
    int steps = 0;
    for (int k = 0; k < b->rank; k++) {
        steps += b->src[k] != 0;
        if (b->src[k] == 1)
            sp->n = b->dims[k];
        else if (b->src[k])
            return;
        else if (steps)
            sp->inner *= b->dims[k];
    }
    if (steps == 0)
        sp->inner = s->lout[0].count;
    if (steps <= 1 && !b->empty)
        p->spread.v[s->out[0]] = sp;
}

static bool plan_step(struct planner *p, struct lowering *l, struct step *s, struct slot_names *out)
{
    enum op_kind op = (enum op_kind)l->i->op;
    gather_operands(p, l->i, s);
    if (op == OP_TUPLE) {
        *out = (struct slot_names){ s->nin, s->in, s->lin };
        return true;
    }
    l->step = s;
    if (op == OP_ASYNC_START)
        return plan_async(p, l, s, out);
    s->lout = leaves_of(p, l->i->shape, &s->nout);
    lower_fn handler = handlers[op];
    bool ok = true;
    s->out = plan_new_slots(p, s->nout);
    if (op == OP_CONSTANT) {
        *out = (struct slot_names){ s->nout, s->out, s->lout };
        return plan_constant(p, l, s);
    }
    if (handler == lower_while)
        ok = plan_control(p, l, s, STEP_WHILE);
    else if (handler == lower_conditional)
        ok = plan_control(p, l, s, STEP_CONDITIONAL);
    else if (handler == lower_call)
        ok = plan_control(p, l, s, STEP_CALL);
    else
        ok = handler ? handler(l) : lower_not_yet(l);
    if (!ok)
        return false;
    if (l->alias) {
        *out = (struct slot_names){ s->nout, s->in, s->lout };
        return true;
    }
    *out = (struct slot_names){ s->nout, s->out, s->lout };
    if (op == OP_BROADCAST)
        note_spread(p, s);
    if (!fold_step(p, s))
        vec_push(&p->tmp, &p->steps, *s);
    return true;
}

static bool plan_instr(struct planner *p, instr_id id)
{
    const struct module *m = p->plan->m;
    struct slot_names *out = &p->names[id.i];
    struct step s = { .instr = id };
    struct lowering l = { .plan = p->plan,
                          .m = m,
                          .a = &p->plan->arena,
                          .d = p->d,
                          .id = id,
                          .i = instr_at(m, id),
                          .shape = instr_shape(m, id),
                          .planner = p };
    if (l.i->op == OP_PARAMETER) {
        plan_tap(p, id, out); /* names were set by plan_params */
        return true;
    }
    if (!plan_name(p, &l, out) && !plan_step(p, &l, &s, out))
        return false;
    plan_tap(p, id, out);
    return true;
}

/* ---- live ranges --------------------------------------------------------------------------------
 */

bool slot_in(const uint32_t *v, uint32_t n, uint32_t slot)
{
    for (uint32_t k = 0; k < n; k++)
        if (v[k] == slot)
            return true;
    return false;
}

/* Operand k may be overwritten: it dies here, and no other operand is the same value (elementwise
 * kernels read an element before they write it, so there it does not matter). Bounds are made
 * behind the kernel, from operands as they were. */
static void settle_inplace(struct step *s, bool bounds)
{
    for (uint32_t k = 0; k < 8; k++) {
        if (!(s->inplace & 1u << k))
            continue;
        bool ok = !bounds && k < s->nin && slot_in(s->release, s->nrelease, s->in[k]);
        if (ok && s->fn != run_ew)
            for (uint32_t j = 0; j < s->nin; j++)
                ok &= j == k || s->in[j] != s->in[k];
        if (!ok)
            s->inplace &= (uint8_t) ~(1u << k);
    }
}

/* Whether the result takes an operand's memory. An entry parameter is the caller's: never written.
 */
static bool reuses(const struct planner *p, const struct comp_plan *c, const struct step *s)
{
    for (uint32_t k = 0; k < 8 && k < s->nin; k++)
        if (s->inplace & 1u << k)
            return c->comp.i != p->plan->m->entry.i || !slot_in(c->params, c->nparams, s->in[k]);
    return false;
}

/* Fills release lists and finds the most bytes that live at once. Parameters are counted where they
 * come from. */
static void plan_lives(struct planner *p, struct comp_plan *c)
{
    struct step *steps = arena_copy(&p->plan->arena, p->steps.v, p->steps.n, sizeof(struct step));
    uint32_t n = (uint32_t)p->steps.n, ns = p->plan->nslots - c->slot0;
    /* last[slot]: 0 nobody, k + 1: step k, UINT32_MAX: until the end */
    uint32_t *last = ARENA_ARRAY(&p->tmp, uint32_t, ns + 1),
             *made_by = ARENA_ARRAY(&p->tmp, uint32_t, ns + 1);
    uint32_t *count = ARENA_ARRAY(&p->tmp, uint32_t, n + 1);
    int64_t *size = ARENA_ARRAY(&p->tmp, int64_t, ns + 1);
    bool *used = ARENA_ARRAY(&p->plan->arena, bool, c->nparams + 1);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t j = 0; j < steps[k].nout; j++) {
            last[steps[k].out[j] - c->slot0] = made_by[steps[k].out[j] - c->slot0] = k + 1;
            size[steps[k].out[j] - c->slot0] = steps[k].lout[j].bytes;
        }
        for (uint32_t j = 0; j < steps[k].nin; j++)
            if (steps[k].in[j] >= c->slot0)
                last[steps[k].in[j] - c->slot0] = k + 1;
    }
    for (uint32_t k = 0; k < c->nroots; k++)
        last[c->roots[k] - c->slot0] = UINT32_MAX;
    for (uint32_t k = 0; k < c->nparams; k++)
        used[k] = last[c->params[k] - c->slot0] != 0;
    c->param_used = used;
    uint32_t **lists = ARENA_ARRAY(&p->tmp, uint32_t *, n + 1);
    for (uint32_t k = 0; k < ns && p->plan->keep; k++)
        last[k] = last[k] ? UINT32_MAX : 0; /* everything lives until the end */
    for (uint32_t k = 0; k < ns; k++)
        if (last[k] && last[k] != UINT32_MAX && !is_const(p, c->slot0 + k))
            count[last[k] - 1]++;
    for (uint32_t k = 0; k < n; k++)
        steps[k].release = lists[k] = ARENA_ARRAY(&p->plan->arena, uint32_t, count[k] + 1);
    for (int own = 0; own < 2; own++) { /* a step's own results, which nobody reads, stand last */
        for (uint32_t k = 0; k < ns; k++) {
            if (!last[k] || last[k] == UINT32_MAX || is_const(p, c->slot0 + k) ||
                (last[k] == made_by[k]) != own)
                continue;
            lists[last[k] - 1][steps[last[k] - 1].nrelease++] = c->slot0 + k;
        }
        for (uint32_t k = 0; k < n && !own; k++)
            steps[k].nrelease_in = steps[k].nrelease;
    }
    int64_t live = 0;
    for (uint32_t k = 0; k < n; k++) {
        struct step *s = &steps[k];
        settle_inplace(s, p->plan->bounds);
        int64_t made = 0, callee = 0, saved = 0;
        for (uint32_t j = 0; j < s->nout; j++)
            made += s->lout[j].bytes;
        if (s->kind == STEP_WHILE || s->kind == STEP_CALL || s->kind == STEP_CONDITIONAL)
            for (uint32_t j = 0; j < ((const struct control *)s->p)->ncomps; j++)
                callee = max_i64(callee, ((const struct control *)s->p)->comps[j]->peak);
        if (s->fused)
            saved = fused_settle(s, c->params, c->comp.i == p->plan->m->entry.i ? c->nparams : 0);
        else if (reuses(p, c, s))
            saved = made;
        c->peak = max_i64(c->peak, live + made - saved + callee);
        live += made;
        for (uint32_t j = 0; j < s->nrelease; j++)
            live -= size[s->release[j] - c->slot0];
    }
    c->steps = steps;
    c->nsteps = n;
}

/* ---- one computation ----------------------------------------------------------------------------
 */

static void plan_params(struct planner *p, comp_id id, struct comp_plan *c)
{
    const struct module *m = p->plan->m;
    const struct computation *comp = comp_at(m, id);
    for (uint32_t k = 0; k < comp->nparams; k++)
        c->nparams += (uint32_t)instr_shape(m, comp->params[k])->nleaves;
    uint32_t *slots = plan_new_slots(p, c->nparams), at = 0;
    struct leaf *leaves = ARENA_ARRAY(&p->plan->arena, struct leaf, c->nparams + 1);
    for (uint32_t k = 0; k < comp->nparams; k++) {
        uint32_t n;
        const struct leaf *l = leaves_of(p, instr_at(m, comp->params[k])->shape, &n);
        memcpy(leaves + at, l, n * sizeof *l);
        p->names[comp->params[k].i] = (struct slot_names){ n, slots + at, leaves + at };
        at += n;
    }
    c->params = slots;
    c->lparams = leaves;
}

/* Roots that are a constant or another computation's slot cannot be: every slot here is its own. */
static bool plan_comp(struct planner *p, comp_id id, struct tick *tick)
{
    const struct module *m = p->plan->m;
    struct comp_plan *c = ARENA_NEW(&p->plan->arena, struct comp_plan);
    uint32_t n;
    c->comp = id;
    c->slot0 = p->plan->nslots;
    p->steps.n = 0;
    plan_params(p, id, c);
    instr_id *order = plan_order(p, id, &n);
    for (uint32_t k = 0; k < n; k++) {
        if (!tick_poll(tick, "plan", k, n))
            return diag_error(p->d, NULL, (struct span){ 0, 0 }, "interrupted");
        if (!plan_instr(p, order[k]))
            return false;
        const struct instr *i = instr_at(m, order[k]);
        if (i->op == OP_COMPARE) {
            enum dtype_kind kind = dtype_kind(instr_shape(m, i->operands[0])->dtype);
            p->compares_floats[id.i] |= kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
        }
        comp_id callee;
        if ((i->op == OP_CALL || i->op == OP_FUSION) && instr_called(m, order[k], &callee, 1) == 1)
            p->compares_floats[id.i] |= p->compares_floats[callee.i];
    }
    const struct slot_names *root = &p->names[comp_at(m, id)->root.i];
    c->nroots = root->n;
    c->roots = root->slots;
    c->lroots = root->leaves;
    if (!p->plan->keep && !p->plan->bounds && !p->plan->unfused)
        plan_fuse(p, c->slot0, c->roots, c->nroots);
    c->nslots = p->plan->nslots - c->slot0;
    plan_lives(p, c);
    p->plan->comps[id.i] = c;
    return true;
}

/* Computations that run as steps (not as regions of a kernel), callees first. */
static void mark_needed(const struct module *m, const comp_id *order, uint32_t n, bool *needed)
{
    needed[m->entry.i] = true;
    for (uint32_t k = n; k-- > 0;) {
        if (!needed[order[k].i])
            continue;
        const struct computation *c = comp_at(m, order[k]);
        for (uint32_t j = 0; j < c->ninstrs; j++) {
            const struct instr *i = instr_at(m, c->instrs[j]);
            if (i->op != OP_WHILE && i->op != OP_CONDITIONAL && i->op != OP_CALL &&
                i->op != OP_FUSION && i->op != OP_ASYNC_START)
                continue;
            for (uint32_t a = 0; a < i->nattrs; a++) {
                if (i->attrs[a].type == ATTR_TYPE_COMP)
                    needed[i->attrs[a].comp.i] = true;
                for (uint32_t q = 0; i->attrs[a].type == ATTR_TYPE_COMPS && q < i->attrs[a].n; q++)
                    needed[i->attrs[a].comps[q].i] = true;
            }
        }
    }
}

static bool plan_all(struct planner *p, struct tick *tick)
{
    const struct module *m = p->plan->m;
    uint32_t n;
    const comp_id *order = module_call_order(m, false, &p->tmp, &n);
    bool *needed = ARENA_ARRAY(&p->tmp, bool, module_ncomps(m) + 1);
    mark_needed(m, order, n, needed);
    for (uint32_t k = 0; k < n; k++) {
        if (!needed[order[k].i])
            continue;
        p->plan->depth++;
        if (!plan_comp(p, order[k], tick))
            return false;
    }
    return true;
}

static void plan_devices(struct plan *p, int64_t ndevices)
{
    int64_t replicas = max_i64(p->m->replica_count, 1), parts = max_i64(p->m->num_partitions, 1);
    p->ndevices = ndevices;
    p->nreplicas =
        replicas * parts == ndevices || (parts == 1 && replicas == ndevices) ? replicas : 1;
    p->npartitions = ndevices / p->nreplicas;
}

static bool plan_build(struct planner *p, struct tick *tick)
{
    struct plan *plan = p->plan;
    const struct module *m = plan->m;
    arena_open(&p->tmp);
    plan->comps = ARENA_ARRAY(&plan->arena, const struct comp_plan *, module_ncomps(m) + 1);
    p->names = ARENA_ARRAY(plan->keep ? &plan->arena : &p->tmp, struct slot_names,
                           module_ninstrs(m) + 1);
    plan->names = plan->keep ? p->names : NULL;
    p->mark = ARENA_ARRAY(&p->tmp, uint32_t, module_ninstrs(m) + 1);
    p->compares_floats = ARENA_ARRAY(&p->tmp, bool, module_ncomps(m) + 1);
    bool ok = plan_all(p, tick);
    if (ok) {
        bool *consts = ARENA_ARRAY(&plan->arena, bool, plan->nslots + 1);
        for (uint32_t k = 0; k < plan->nslots; k++)
            consts[k] = is_const(p, k);
        plan->slot_const = consts;
        plan->entry = plan->comps[m->entry.i];
        plan->colls = arena_copy(&plan->arena, p->colls.v, p->colls.n, sizeof *p->colls.v);
        plan->ncolls = (uint32_t)p->colls.n;
    }
    arena_close(&p->tmp);
    return ok;
}

static bool plan_guarded(struct planner *p, struct tick *tick)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        bool ok = plan_build(p, tick);
        fail_leave(&f);
        return ok;
    }
    return diag_error(p->d, NULL, (struct span){ 0, 0 }, "%s", f.text);
}

struct plan *plan_make(const struct module *m, const struct plan_options *o, struct tick *tick,
                       struct diag *d)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct planner p = { .d = d, .plan = plan };
    if (!plan) {
        (void)diag_error(d, NULL, (struct span){ 0, 0 }, "out of memory");
        return NULL;
    }
    *plan = (struct plan){
        .m = m, .mode = o->mode, .bounds = o->bounds, .manual = o->manual, .taps = o->taps,
        .keep = o->keep, .unfused = o->unfused
    };
    plan_devices(plan, o->ndevices);
    if (plan_guarded(&p, tick))
        return plan;
    plan_free(plan);
    return NULL;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    for (int64_t k = 0; k < p->consts.n; k++) {
        buf_drop(&p->pool, p->consts.v[k].buf); /* the pin */
        buf_drop(&p->pool, p->consts.v[k].buf);
    }
    pool_free(&p->pool);
    buf_trim();
    arena_free(&p->arena);
    free(p);
}
