/* The verifier: what every pass may rely on. Structure first (lists, operands, parameters, cycles);
 * only when that is sound, shapes against inference, collectives and shardings against device counts. */
#include "ir/verify.h"

#include <string.h>

/* ---- structure ---------------------------------------------------------------------------------- */

static const char *comp_text(const struct check *v, comp_id c)
{
    return name_text(v->m->ir, comp_at(v->m, c)->name);
}

enum { NEW, OPEN, DONE, PASSED };

/* Enters the owner of each listed instruction. */
static void check_lists(struct check *v)
{
    for (uint32_t c = 1; c <= module_ncomps(v->m); c++) {
        const struct computation *k = comp_at(v->m, (comp_id){ c });
        if (k->ninstrs == 0) {
            v->ok = diag_error(v->d, v->m->source, k->at, "computation '%s' is empty",
                               comp_text(v, (comp_id){ c }));
            continue;
        }
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            uint32_t i = k->instrs[j].i;
            if (i == 0 || i > module_ninstrs(v->m) || v->owner[i]) {
                v->ok = diag_error(v->d, v->m->source, k->at,
                                   "instruction %" PRIu32 " of computation '%s' %s", i,
                                   comp_text(v, (comp_id){ c }),
                                   i && i <= module_ninstrs(v->m) ? "is listed twice"
                                                                  : "does not exist");
                continue;
            }
            v->owner[i] = c;
        }
        if (k->root.i == 0 || k->root.i > module_ninstrs(v->m) || v->owner[k->root.i] != c)
            v->ok = diag_error(v->d, v->m->source, k->at, "computation '%s' has no root",
                               comp_text(v, (comp_id){ c }));
    }
    uint32_t e = v->m->entry.i;
    if (e == 0 || e > module_ncomps(v->m))
        v->ok = diag_error(v->d, v->m->source, (struct span){ 0, 0 }, "the module has no entry computation");
}

static bool check_ref(struct check *v, instr_id user, instr_id ref, const char *what, uint32_t k)
{
    bool defined = ref.i && ref.i <= module_ninstrs(v->m) && v->owner[ref.i];
    if (defined && v->owner[ref.i] == v->owner[user.i])
        return true;
    const struct instr *in = instr_at(v->m, user);
    const char *who = named(v->m, &v->tmp, user);
    if (!defined)
        return diag_error(v->d, v->m->source, in->at, "%s %s: %s %" PRIu32 " is not defined",
                          op_name((enum op_kind)in->op), who, what, k);
    return diag_error(v->d, v->m->source, in->at,
                      "%s %s: %s %" PRIu32 ", %s, belongs to another computation, '%s'",
                      op_name((enum op_kind)in->op), who, what, k, named(v->m, &v->tmp, ref),
                      comp_text(v, (comp_id){ v->owner[ref.i] }));
}

static const struct attr *control_of(const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_CONTROL_PREDECESSORS);
    return a && a->type == ATTR_TYPE_INSTRS ? a : NULL;
}

static void check_called(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    for (int a = 0; a < in->nattrs; a++) {
        const struct attr *at = &in->attrs[a];
        bool one = at->type == ATTR_TYPE_COMP, many = at->type == ATTR_TYPE_COMPS;
        for (uint32_t k = 0; k < (one ? 1 : many ? at->n : 0); k++) {
            uint32_t c = one ? at->comp.i : at->comps[k].i;
            if (c == 0 || c > module_ncomps(v->m))
                v->ok = diag_error(v->d, v->m->source, in->at,
                                   "%s %s: the computation of %s= is not defined",
                                   op_name((enum op_kind)in->op), named(v->m, &v->tmp, i),
                                   attr_name((enum attr_key)at->key));
        }
    }
}

/* References of one computation; *ordered: nothing refers to what stands behind it. */
static void check_refs(struct check *v, const struct computation *k, bool *ordered)
{
    *ordered = true;
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        instr_id i = k->instrs[j];
        const struct instr *in = instr_at(v->m, i);
        for (uint32_t o = 0; o < in->noperands; o++) {
            if (check_ref(v, i, in->operands[o], "operand", o))
                *ordered &= v->mark[in->operands[o].i] == PASSED;
            else
                v->ok = false;
        }
        const struct attr *ctl = control_of(in);
        for (uint32_t o = 0; ctl && o < ctl->n; o++) {
            if (check_ref(v, i, ctl->instrs[o], "control predecessor", o))
                *ordered &= v->mark[ctl->instrs[o].i] == PASSED;
            else
                v->ok = false;
        }
        check_called(v, i);
        v->mark[i.i] = PASSED;
    }
    for (uint32_t j = 0; j < k->ninstrs; j++)
        v->mark[k->instrs[j].i] = NEW;
}

static void check_params(struct check *v, comp_id c)
{
    const struct computation *k = comp_at(v->m, c);
    uint32_t n = 0;
    for (uint32_t j = 0; j < k->ninstrs; j++)
        n += instr_at(v->m, k->instrs[j])->op == OP_PARAMETER;
    if (n == 0)
        return;
    uint32_t *found = ARENA_ARRAY(&v->tmp, uint32_t, n);
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        const struct instr *in = instr_at(v->m, k->instrs[j]);
        if (in->op != OP_PARAMETER)
            continue;
        int64_t p = instr_param_number(in);
        if (p < 0 || p >= n)
            v->ok = diag_error(v->d, v->m->source, in->at,
                               "parameter %s: has number %" PRId64 ", but computation '%s' has %" PRIu32
                               " parameters, so numbers run from 0 to %" PRIu32,
                               named(v->m, &v->tmp, k->instrs[j]), p, comp_text(v, c), n, n - 1);
        else if (found[p])
            v->ok = diag_error(v->d, v->m->source, in->at,
                               "parameter %s: number %" PRId64 " is already that of %s",
                               named(v->m, &v->tmp, k->instrs[j]), p,
                               named(v->m, &v->tmp, (instr_id){ found[p] }));
        else
            found[p] = k->instrs[j].i;
    }
    for (uint32_t p = 0; p < n; p++)
        if (!found[p])
            v->ok = diag_error(v->d, v->m->source, k->at, "computation '%s' has no parameter %" PRIu32,
                               comp_text(v, c), p);
}

/* ---- cycles ------------------------------------------------------------------------------------- */

/* A node on the walk's path, and its next edge to follow. */
struct step {
    uint32_t node, next;
};

struct path {
    VEC(struct step) steps;
};

/* "a -> b -> c -> a": the part of the path that is the cycle; long ones are cut in the middle. */
static const char *path_text(struct check *v, const struct path *p, uint32_t back_to, bool comps)
{
    struct str s = STR_IN(&v->tmp);
    int64_t from = p->steps.n - 1;
    while (p->steps.v[from].node != back_to)
        from--;
    int64_t n = p->steps.n - from;
    for (int64_t k = 0; k <= n; k++) {
        if (k == 6 && n > 9) {
            str_adds(&s, " -> ...");
            k = n - 2;
        }
        uint32_t node = p->steps.v[from + k % n].node;
        if (k)
            str_adds(&s, " -> ");
        str_adds(&s, comps ? comp_text(v, (comp_id){ node })
                           : name_text(v->m->ir, instr_at(v->m, (instr_id){ node })->name));
    }
    return str_text(&s);
}

static instr_id edge(const struct instr *in, uint32_t k)
{
    if (k < in->noperands)
        return in->operands[k];
    const struct attr *ctl = control_of(in);
    k -= in->noperands;
    return ctl && k < ctl->n ? ctl->instrs[k] : (instr_id){ 0 };
}

static void check_operand_cycles(struct check *v, const struct computation *k)
{
    struct path p = { .steps = { 0 } };
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        if (v->mark[k->instrs[j].i] != NEW)
            continue;
        v->mark[k->instrs[j].i] = OPEN;
        vec_push(&v->tmp, &p.steps, ((struct step){ k->instrs[j].i, 0 }));
        while (p.steps.n) {
            struct step *top = &p.steps.v[p.steps.n - 1];
            const struct instr *in = instr_at(v->m, (instr_id){ top->node });
            instr_id next = edge(in, top->next++);
            if (next.i == 0) {
                v->mark[top->node] = DONE;
                p.steps.n--;
            } else if (v->mark[next.i] == OPEN) {
                bool itself = next.i == top->node;
                v->ok = diag_error(v->d, v->m->source, in->at, "%s %s needs itself: %s",
                                   op_name((enum op_kind)in->op),
                                   named(v->m, &v->tmp, (instr_id){ top->node }),
                                   itself ? "it is its own operand" : path_text(v, &p, next.i, false));
                return; /* one is enough: there may be as many as operands */
            } else if (v->mark[next.i] == NEW) {
                v->mark[next.i] = OPEN;
                vec_push(&v->tmp, &p.steps, ((struct step){ next.i, 0 }));
            }
        }
    }
}

/* Calls of every computation, in order, as one list per computation (each callee once a caller). */
struct calls {
    uint32_t *start; /* [ncomps + 2] */
    VEC(uint32_t) callee, site;
};

static void list_calls(struct check *v, struct calls *out)
{
    uint32_t n = module_ncomps(v->m);
    out->start = ARENA_ARRAY(&v->tmp, uint32_t, (int64_t)n + 2);
    uint32_t *last = ARENA_ARRAY(&v->tmp, uint32_t, (int64_t)n + 1);
    for (uint32_t c = 1; c <= n; c++) {
        const struct computation *k = comp_at(v->m, (comp_id){ c });
        out->start[c] = (uint32_t)out->callee.n;
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(v->m, k->instrs[j]);
            for (int a = 0; a < in->nattrs; a++) {
                const struct attr *at = &in->attrs[a];
                bool one = at->type == ATTR_TYPE_COMP, many = at->type == ATTR_TYPE_COMPS;
                for (uint32_t x = 0; x < (one ? 1 : many ? at->n : 0); x++) {
                    uint32_t to = one ? at->comp.i : at->comps[x].i;
                    if (last[to] == c)
                        continue;
                    last[to] = c;
                    vec_push(&v->tmp, &out->callee, to);
                    vec_push(&v->tmp, &out->site, k->instrs[j].i);
                }
            }
        }
    }
    out->start[n + 1] = (uint32_t)out->callee.n;
}

static void check_call_cycles(struct check *v)
{
    struct calls calls = { .callee = { 0 } };
    list_calls(v, &calls);
    uint8_t *mark = ARENA_ARRAY(&v->tmp, uint8_t, (int64_t)module_ncomps(v->m) + 1);
    struct path p = { .steps = { 0 } };
    for (uint32_t c = 1; c <= module_ncomps(v->m); c++) {
        if (mark[c] != NEW)
            continue;
        mark[c] = OPEN;
        vec_push(&v->tmp, &p.steps, ((struct step){ c, calls.start[c] }));
        while (p.steps.n) {
            struct step *top = &p.steps.v[p.steps.n - 1];
            if (top->next == calls.start[top->node + 1]) {
                mark[top->node] = DONE;
                p.steps.n--;
                continue;
            }
            uint32_t at = top->next++, to = calls.callee.v[at];
            if (mark[to] == OPEN) {
                instr_id site = { calls.site.v[at] };
                v->ok = diag_error(v->d, v->m->source, instr_at(v->m, site)->at,
                                   "%s %s: computation '%s' calls itself: %s",
                                   op_name((enum op_kind)instr_at(v->m, site)->op),
                                   named(v->m, &v->tmp, site), comp_text(v, (comp_id){ to }),
                                   path_text(v, &p, to, true));
                return;
            } else if (mark[to] == NEW) {
                mark[to] = OPEN;
                vec_push(&v->tmp, &p.steps, ((struct step){ to, calls.start[to] }));
            }
        }
    }
}

static void check_structure(struct check *v)
{
    check_lists(v);
    for (uint32_t c = 1; v->ok && c <= module_ncomps(v->m); c++) {
        const struct computation *k = comp_at(v->m, (comp_id){ c });
        bool ordered;
        check_refs(v, k, &ordered);
        check_params(v, (comp_id){ c });
        if (v->ok && !ordered)
            check_operand_cycles(v, k);
    }
    if (v->ok)
        check_call_cycles(v);
}

/* ---- shapes ------------------------------------------------------------------------------------- */

static const char *shape_text(struct check *v, shape_id s)
{
    struct str out = STR_IN(&v->tmp);
    shape_print(v->m->ir, s, false, &out);
    const char *t = str_text(&out);
    return out.n <= 160 ? t : arena_printf(&v->tmp, "%.150s...", t);
}

/* " from f32[8,4] and f32[4]"; nothing for no operands. */
static const char *operands_text(struct check *v, const struct instr *in)
{
    struct str s = STR_IN(&v->tmp);
    for (uint32_t k = 0; k < in->noperands && k < 3; k++) {
        str_adds(&s, k == 0 ? " from " : k + 1 == in->noperands ? " and " : ", ");
        str_adds(&s, shape_text(v, instr_at(v->m, in->operands[k])->shape));
    }
    if (in->noperands > 3)
        str_adds(&s, ", ...");
    return str_text(&s);
}

/* Leaves of many-leaved tuples: the first that differs is named instead of the whole. */
static void report_shape(struct check *v, instr_id i, shape_id want)
{
    const struct instr *in = instr_at(v->m, i);
    const struct shape *a = shape_get(v->m->ir, in->shape), *b = shape_get(v->m->ir, want);
    int64_t k = 0;
    if (a->kind == SHAPE_TUPLE && b->kind == SHAPE_TUPLE && a->nelems == b->nelems && a->nelems > 3) {
        while (k < a->nelems && shape_same(v->m->ir, a->elems[k], b->elems[k]))
            k++;
        v->ok = diag_error(v->d, v->m->source, in->at,
                           "%s %s: element %" PRId64 " of its shape is given as %s, but it makes %s",
                           op_name((enum op_kind)in->op), named(v->m, &v->tmp, i), k,
                           shape_text(v, a->elems[k]), shape_text(v, b->elems[k]));
        return;
    }
    v->ok = diag_error(v->d, v->m->source, in->at, "%s %s: its shape is given as %s, but it makes %s%s",
                       op_name((enum op_kind)in->op), named(v->m, &v->tmp, i),
                       shape_text(v, in->shape), shape_text(v, want), operands_text(v, in));
}

static void check_literal(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    if (!in->literal)
        v->ok = diag_error(v->d, v->m->source, in->at, "constant %s has no value",
                           named(v->m, &v->tmp, i));
    else if (!shape_same(v->m->ir, in->literal->shape, in->shape))
        v->ok = diag_error(v->d, v->m->source, in->at,
                           "constant %s: its shape is given as %s, but its value is %s",
                           named(v->m, &v->tmp, i), shape_text(v, in->shape),
                           shape_text(v, in->literal->shape));
}

/* The place for what decides in's shape; *is: that. NULL: not worth keeping. */
static struct checked_shape *right_slot(const struct check *v, const struct instr *in, struct checked_shape *is)
{
    if (!v->right || in->noperands == 0 || in->noperands > CHECKED_OPERANDS)
        return NULL;
    *is = (struct checked_shape){ .attrs = in->attrs, .op = in->op, .nattrs = in->nattrs,
                                  .noperands = (uint8_t)in->noperands, .shape = in->shape };
    uint64_t h = (uint64_t)(uintptr_t)in->attrs ^ (uint64_t)in->op << 48 ^ (uint64_t)in->shape.i << 20;
    for (uint32_t k = 0; k < in->noperands; k++) {
        is->operands[k] = instr_at(v->m, in->operands[k])->shape;
        h = h * 0x9e3779b97f4a7c15ULL ^ is->operands[k].i;
    }
    return &v->right[(h * 0x9e3779b97f4a7c15ULL) >> 32 & (CHECKED_SHAPES - 1)];
}

static bool same_checked(const struct checked_shape *a, const struct checked_shape *b)
{
    if (a->op != b->op || a->attrs != b->attrs || a->nattrs != b->nattrs || a->noperands != b->noperands ||
        a->shape.i != b->shape.i)
        return false;
    for (int k = 0; k < CHECKED_OPERANDS; k++)
        if (a->operands[k].i != b->operands[k].i)
            return false;
    return true;
}

static void check_shape(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    if (in->op == OP_NONE || in->op >= OP_COUNT || in->shape.i == 0) {
        v->ok = diag_error(v->d, v->m->source, in->at, "instruction %s has no %s",
                           named(v->m, &v->tmp, i), in->shape.i ? "operation" : "shape");
        return;
    }
    struct checked_shape is, *right = right_slot(v, in, &is);
    if (right && same_checked(right, &is))
        return;
    shape_id want;
    if (!infer_shape(v->m, i, &want, v->d)) {
        v->ok = false;
        return;
    }
    if (want.i && !shape_same(v->m->ir, want, in->shape))
        report_shape(v, i, want);
    else if (in->op == OP_CONSTANT)
        check_literal(v, i);
    else if (right)
        *right = is;
}

/* ---- all of it ---------------------------------------------------------------------------------- */

bool module_verify(const struct module *m, struct diag *d)
{
    struct check v = { .m = m, .d = d, .ok = true };
    arena_open(&v.tmp);
    const char *stage = d ? diag_stage(d, "verify") : NULL;
    int64_t n = (int64_t)module_ninstrs(m) + 1;
    v.owner = ARENA_ARRAY(&v.tmp, uint32_t, n);
    v.mark = ARENA_ARRAY(&v.tmp, uint8_t, n);
    v.right = ARENA_ARRAY(&v.tmp, struct checked_shape, CHECKED_SHAPES);
    map_init(&v.orders, &v.tmp);
    map_init(&v.fits, &v.tmp);
    map_init(&v.meshes, &v.tmp);
    check_structure(&v);
    for (uint32_t c = 1; v.ok && c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            check_shape(&v, k->instrs[j]);
            verify_devices(&v, k->instrs[j]);
        }
        v.bad_shapes |= !v.ok;
        v.ok = true;
    }
    v.ok = v.ok && !v.bad_shapes;
    if (d)
        (void)diag_stage(d, stage);
    arena_close(&v.tmp);
    return v.ok;
}

bool instr_verify(const struct module *m, instr_id i, struct diag *d)
{
    struct check v = { .m = m, .d = d, .ok = true };
    arena_open(&v.tmp);
    const char *stage = d ? diag_stage(d, "verify") : NULL;
    check_shape(&v, i);
    if (d)
        (void)diag_stage(d, stage);
    arena_close(&v.tmp);
    return v.ok;
}
