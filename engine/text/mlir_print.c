/* A module as StableHLO text: functions in pretty form, operations in MLIR's generic form, which is the
 * same for all of them and what every version of the parser reads. Tuples do not exist there: a value of
 * a tuple shape is the list of its leaves. Computations that HLO calls by name are written where they are
 * used, or as private functions. Nesting is kept on a stack of our own. */
#include "text/features.h"
#include "text/mlir_print.h"

#include <stdlib.h>

/* ---- regions and calls ------------------------------------------------------------------------- */

/* Computations that are written as regions of the instruction; 0: it has none. */
static int regions_of(const struct instr *in, struct frame *f)
{
    static const enum attr_key one[] = { ATTR_TO_APPLY };
    f->list = NULL;
    switch ((int)in->op) {
    case OP_WHILE:
    case OP_SELECT_AND_SCATTER: {
        const struct attr *a = instr_attr(in, in->op == OP_WHILE ? ATTR_CONDITION : ATTR_SELECT);
        const struct attr *b = instr_attr(in, in->op == OP_WHILE ? ATTR_BODY : ATTR_SCATTER);
        if (!a || !b)
            return 0;
        f->regions[0] = a->comp;
        f->regions[1] = b->comp;
        return 2;
    }
    case OP_CONDITIONAL: {
        const struct attr *l = instr_attr(in, ATTR_BRANCH_COMPUTATIONS);
        const struct attr *a = instr_attr(in, ATTR_TRUE_COMPUTATION), *b = instr_attr(in, ATTR_FALSE_COMPUTATION);
        if (l) {
            f->list = l->comps;
            return (int)l->n;
        }
        if (!a || !b)
            return 0;
        f->regions[0] = a->comp;
        f->regions[1] = b->comp;
        return 2;
    }
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SCATTER:
    case OP_MAP:
    case OP_SORT:
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER: {
        const struct attr *a = instr_attr(in, one[0]);
        if (!a)
            return 0;
        f->regions[0] = a->comp;
        return 1;
    }
    default: break;
    }
    return 0;
}

static void indent(struct mprint *p)
{
    int64_t n = 2 + 2 * p->stack.n;
    for (int64_t i = 0; i < n && i < 60; i++)
        str_addc(p->out, ' ');
}

/* Arguments for a parameter: of a tuple one a leaf, called as what takes it out of the tuple is. */
static struct leaf *arguments(struct mprint *p, comp_id c, instr_id param)
{
    shape_id s = instr_at(p->m, param)->shape;
    const struct shape *v = shape_get(p->m->ir, s);
    int64_t n = mp_leaves(p, s);
    if (v->kind != SHAPE_TUPLE)
        return mp_fresh(p, n, true, mp_name(p, param));
    struct leaf *list = mp_fresh(p, n, true, NULL);
    const struct computation *k = comp_at(p->m, c);
    for (uint32_t j = 0; n == v->nelems && j < k->ninstrs; j++) {
        const struct instr *in = instr_at(p->m, k->instrs[j]);
        if (in->op != OP_GET_TUPLE_ELEMENT || in->operands[0].i != param.i)
            continue;
        int64_t at = instr_int(in, ATTR_INDEX, 0);
        if (at >= 0 && at < n && !list[at].name)
            list[at].name = mp_name(p, k->instrs[j]);
    }
    return list;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const instr_id *)a)->i, y = ((const instr_id *)b)->i;
    return x < y ? -1 : x > y;
}

/* Constants, and the scalar and broadcast of a splat: the reader makes them where they are first used. */
static bool is_lazy(const struct mprint *p, instr_id i)
{
    return instr_at(p->m, i)->op == OP_CONSTANT || p->splat[i.i].i;
}

struct order_list {
    instr_id *v;
    uint32_t n;
    bool *done; /* by instruction, all of them */
};

static void order_push(struct order_list *l, instr_id i)
{
    if (l->done[i.i])
        return;
    l->done[i.i] = true;
    l->v[l->n++] = i;
}

/* The order in which reading the text makes them again: as they were made, constants before their first
 * use. Where a text named a value before it was made, the computation's order. */
static const instr_id *written_order(struct mprint *p, comp_id c)
{
    const struct computation *k = comp_at(p->m, c);
    instr_id *made = arena_copy(&p->tmp, k->instrs, k->ninstrs, sizeof *made);
    struct order_list l = { ARENA_ARRAY(&p->tmp, instr_id, (int64_t)k->ninstrs + 1), 0, p->ordered };
    bool sorted = true;
    for (uint32_t j = 0; j < k->ninstrs; j++) {
        const struct instr *in = instr_at(p->m, k->instrs[j]);
        l.done[k->instrs[j].i] = false;
        for (uint32_t o = 0; o < in->noperands; o++)
            if (in->operands[o].i >= k->instrs[j].i)
                return k->instrs;
        sorted &= j == 0 || k->instrs[j - 1].i < k->instrs[j].i;
    }
    if (!sorted)
        qsort(made, k->ninstrs, sizeof *made, by_id);
    for (int lazy = 0; lazy < 2; lazy++)
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(p->m, made[j]);
            if (!lazy && is_lazy(p, made[j]))
                continue;
            for (uint32_t o = 0; o < in->noperands && !lazy; o++)
                if (is_lazy(p, in->operands[o]))
                    order_push(&l, in->operands[o]);
            order_push(&l, made[j]);
        }
    return l.v;
}

/* Begins region f->region of f->op: block arguments, or the operands themselves for branches. */
static void open_region(struct mprint *p, int64_t at)
{
    struct frame *f = &p->stack.v[at];
    comp_id c = f->list ? f->list[f->region] : f->regions[f->region];
    const struct instr *in = instr_at(p->m, f->op);
    const struct computation *k = comp_at(p->m, c);
    struct frame sub = { .comp = c, .mark = p->scoped.n, .order = written_order(p, c) };
    vec_push(&p->tmp, &p->stack, sub);
    if (in->op == OP_CONDITIONAL) {
        if (k->nparams == 1)
            p->vals[k->params[0].i] = p->vals[in->operands[p->stack.v[at].region + 1].i];
        return;
    }
    bool first = true;
    for (uint32_t i = 0; i < k->nparams; i++) {
        shape_id s = instr_at(p->m, k->params[i])->shape;
        struct leaf *v = arguments(p, c, k->params[i]);
        p->vals[k->params[i].i] = v;
        for (int64_t j = 0; j < mp_leaves(p, s); j++) {
            if (first)
                indent(p), mp_say(p, "^bb0(");
            else
                mp_say(p, ", ");
            first = false;
            mp_leaf(p, v[j]);
            mp_say(p, ": ");
            mp_type(p, shape_leaf(p->m->ir, s, j));
        }
    }
    if (!first)
        mp_say(p, "):\n");
}

static void put_results(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    int64_t n = mp_leaves(p, in->shape);
    instr_id called = in->name.i || !p->splat[i.i].i ? i : p->splat[i.i];
    struct leaf *v = mp_fresh(p, n, false, n ? mp_name(p, called) : NULL);
    p->vals[i.i] = v;
    indent(p);
    if (n == 0)
        return;
    mp_leaf(p, (struct leaf){ v[0].name, v[0].num, -1 });
    if (n > 1)
        mp_sayf(p, ":", n, "");
    mp_say(p, " = ");
}

static uint32_t written_operands(const struct instr *in)
{
    return in->op == OP_CONDITIONAL ? 1 : in->noperands;
}

/* Behind the regions, or at once: attributes, types, place. */
static void end_op(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    mp_discardable(p, i);
    mp_say(p, " : (");
    mp_operand_types(p, in, written_operands(in));
    mp_say(p, ") -> ");
    mp_result_types(p, in->shape);
    mp_location(p, i);
    mp_say(p, "\n");
}

static const char *comp_name(const struct mprint *p, comp_id c)
{
    bool is_main = c.i == p->m->entry.i && !(p->m->text_features & TEXT_ENTRY_NAME);
    return is_main ? "main" : name_text(p->m->ir, comp_at(p->m, c)->name);
}

static void put_symbol(struct mprint *p, const char *name)
{
    bool plain = name[0] && (name[0] < '0' || name[0] > '9');
    for (const char *s = name; *s; s++)
        plain &= (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
                 *s == '.' || *s == '$';
    mp_say(p, "@");
    if (plain)
        mp_say(p, name);
    else
        mp_quoted(p, name, strlen(name));
}

static void put_call(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    const struct attr *a = instr_attr(in, ATTR_TO_APPLY);
    a = a ? a : instr_attr(in, ATTR_CALLS);
    if (!a) {
        mp_refuse(p, i, "what it calls is not known");
        return;
    }
    put_results(p, i);
    mp_say(p, "func.call ");
    put_symbol(p, comp_name(p, a->comp));
    mp_say(p, "(");
    mp_operand_leaves(p, in, 0);
    mp_say(p, ")");
    end_op(p, i);
}

/* ---- broadcasts that stretch ------------------------------------------------------------------- */

static instr_id only_use_of(const struct mprint *p, instr_id i, enum op_kind op)
{
    const struct instr *in = instr_at(p->m, i);
    instr_id x = in->operands[0];
    const struct instr *d = instr_at(p->m, x);
    bool plain = d->op == op && p->uses[x.i] == 1 && !mp_sharding_of(p, x).i;
    return plain ? x : (instr_id){ 0 };
}

/* HLO takes a size 1 apart in three steps (rank, without the size, again with it) where StableHLO has one
 * broadcast_in_dim: written as that one, which is read as the three. */
static void find_stretch(struct mprint *p, instr_id i)
{
    instr_id r = only_use_of(p, i, OP_RESHAPE);
    instr_id b = r.i ? only_use_of(p, r, OP_BROADCAST) : r;
    if (!b.i)
        return;
    const struct shape *out = instr_shape(p->m, i), *seq = instr_shape(p->m, b), *mid = instr_shape(p->m, r);
    int n;
    const int64_t *kept = instr_ints(instr_at(p->m, i), ATTR_DIMENSIONS, &n);
    if (out->rank != seq->rank || n != mid->rank)
        return;
    int at = 0;
    for (int d = 0; d < out->rank; d++) {
        if (seq->dims[d] != out->dims[d]) {
            if (seq->dims[d] != 1)
                return;
        } else if (at >= n || kept[at] != d || mid->dims[at++] != out->dims[d]) {
            return;
        }
    }
    if (at != n || at == out->rank)
        return;
    const struct shape *x = instr_shape(p->m, instr_at(p->m, b)->operands[0]);
    int nd;
    const int64_t *dims = instr_ints(instr_at(p->m, b), ATTR_DIMENSIONS, &nd);
    for (int k = 0; k < nd; k++)
        if (x->dims[k] != seq->dims[dims[k]])
            return;
    p->from[i.i] = b;
    p->inside[r.i] = p->inside[b.i] = true;
}

/* A scalar constant and the nameless broadcast of it are one splat, as they were read. */
static void find_splat(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    instr_id x = only_use_of(p, i, OP_CONSTANT);
    if (!x.i || in->name.i || mp_sharding_of(p, i).i || in->frontend_len || instr_shape(p->m, i)->count < 2 ||
        instr_shape(p->m, x)->rank || instr_at(p->m, x)->literal->elided)
        return;
    p->splat[i.i] = x;
    p->inside[x.i] = true;
}

static void find_stretches(struct mprint *p)
{
    int64_t n = (int64_t)module_ninstrs(p->m) + 1;
    p->uses = ARENA_ARRAY(&p->tmp, uint8_t, n);
    p->from = ARENA_ARRAY(&p->tmp, instr_id, n);
    p->inside = ARENA_ARRAY(&p->tmp, bool, n);
    p->splat = ARENA_ARRAY(&p->tmp, instr_id, n);
    p->ordered = ARENA_ARRAY(&p->tmp, bool, n);
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *k = comp_at(p->m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(p->m, k->instrs[j]);
            for (uint32_t o = 0; o < in->noperands; o++)
                if (p->uses[in->operands[o].i] < 2)
                    p->uses[in->operands[o].i]++;
        }
        p->uses[k->root.i] = 2;
    }
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *k = comp_at(p->m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++)
            if (instr_at(p->m, k->instrs[j])->op == OP_BROADCAST) {
                find_stretch(p, k->instrs[j]);
                find_splat(p, k->instrs[j]);
            }
    }
}

static bool same_shape_reshape(const struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    return (in->op == OP_RESHAPE || in->op == OP_COPY) &&
           shape_same(p->m->ir, in->shape, instr_at(p->m, in->operands[0])->shape);
}

/* An output's sharding is a reshape in front of the root in HLO, an attribute of the result here. */
static void find_result(struct mprint *p, instr_id i, bool root)
{
    if (same_shape_reshape(p, i) && mp_sharding_of(p, i).i && (root || p->uses[i.i] == 1))
        p->result[i.i] = true;
}

static void find_results(struct mprint *p)
{
    p->result = ARENA_ARRAY(&p->tmp, bool, (int64_t)module_ninstrs(p->m) + 1);
    instr_id root = comp_at(p->m, p->m->entry)->root;
    const struct instr *in = instr_at(p->m, root);
    find_result(p, root, true);
    for (uint32_t k = 0; in->op == OP_TUPLE && k < in->noperands; k++)
        find_result(p, in->operands[k], false);
}

/* The sharding that leaf j of the entry's result is given; none: it says it itself, or there is none. */
static sharding_id result_sharding(const struct mprint *p, int64_t j)
{
    instr_id root = comp_at(p->m, p->m->entry)->root;
    const struct instr *in = instr_at(p->m, root);
    struct shardings *t = p->m->ir->shardings;
    if (p->result[root.i])
        return mp_sharding_of(p, root);
    if (in->op == OP_TUPLE && (int64_t)in->noperands == mp_leaves(p, in->shape) && p->result[in->operands[j].i])
        return mp_sharding_of(p, in->operands[j]);
    sharding_id s = mp_sharding_of(p, root);
    const struct sharding *h = sharding_get(t, s);
    bool leaf = in->op == OP_TUPLE && h->kind == SHARDING_TUPLE && !sharding_is_unknown(t, h->elems[j]);
    return leaf ? h->elems[j] : (sharding_id){ 0 };
}

/* What only arranges values: no operation. */
static bool plumbing(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    int64_t n = mp_leaves(p, in->shape);
    if (in->op == OP_GET_TUPLE_ELEMENT) {
        shape_id t = instr_at(p->m, in->operands[0])->shape;
        p->vals[i.i] = p->vals[in->operands[0].i] +
                       shape_leaf_offset(p->m->ir, t, instr_int(in, ATTR_INDEX, 0));
        return true;
    }
    if (in->op == OP_TUPLE) {
        struct leaf *v = ARENA_ARRAY(&p->tmp, struct leaf, n + 1);
        int64_t at = 0;
        for (uint32_t k = 0; k < in->noperands; k++)
            for (int64_t j = 0; j < mp_leaves(p, instr_at(p->m, in->operands[k])->shape); j++)
                v[at++] = p->vals[in->operands[k].i][j];
        p->vals[i.i] = v;
        return true;
    }
    if (in->op == OP_PARAMETER || p->inside[i.i])
        return true;
    if (p->result[i.i]) {
        p->vals[i.i] = p->vals[in->operands[0].i];
        return true;
    }
    if ((in->op == OP_COPY || in->op == OP_BITCAST) && !mp_sharding_of(p, i).i &&
        shape_same(p->m->ir, in->shape, instr_at(p->m, in->operands[0])->shape)) {
        p->vals[i.i] = p->vals[in->operands[0].i];
        return true;
    }
    return false;
}

/* The operation of two scalars that a reducer consists of, when `applies` can say it: one value, and
 * nothing in it has a name of its own that would be lost. */
static const char *applied_name(const struct mprint *p, const struct instr *in)
{
    const struct attr *a = in->op == OP_REDUCE && in->noperands == 2 ? instr_attr(in, ATTR_TO_APPLY) : NULL;
    if (!a)
        return NULL;
    const struct computation *k = comp_at(p->m, a->comp);
    const struct instr *root = instr_at(p->m, k->root);
    if (k->ninstrs != 3 || k->nparams != 2 || !op_is_elementwise_binary((enum op_kind)root->op) || root->noperands != 2)
        return NULL;
    for (uint32_t j = 0; j < 3; j++)
        if (instr_at(p->m, k->instrs[j])->name.i || instr_at(p->m, k->instrs[j])->sharding.i)
            return NULL;
    if (root->operands[0].i != k->params[0].i || root->operands[1].i != k->params[1].i)
        return NULL;
    const char *name = mp_stablehlo_name((enum op_kind)root->op);
    return name && name[0] && !strchr(name, '.') && root->op != OP_COMPARE ? name : NULL;
}

/* %r = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : .. */
static void put_applied(struct mprint *p, instr_id i, const char *name)
{
    const struct instr *in = instr_at(p->m, i);
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    put_results(p, i);
    mp_say(p, "stablehlo.reduce(");
    mp_leaf(p, p->vals[in->operands[0].i][0]);
    mp_say(p, " init: ");
    mp_leaf(p, p->vals[in->operands[1].i][0]);
    mp_say(p, ") applies stablehlo.");
    mp_say(p, name);
    mp_say(p, " across dimensions = [");
    for (int k = 0; k < n; k++)
        mp_sayf(p, k ? ", " : "", dims[k], "");
    mp_say(p, "]");
    end_op(p, i);
}

static void put_instr(struct mprint *p, instr_id i, int64_t at)
{
    const struct instr *in = instr_at(p->m, i);
    if (plumbing(p, i))
        return;
    if (in->op == OP_CALL || in->op == OP_FUSION) {
        put_call(p, i);
        return;
    }
    if (p->from[i.i].i) {
        const struct instr *b = instr_at(p->m, p->from[i.i]);
        bool one = true;
        put_results(p, i);
        mp_say(p, "\"stablehlo.broadcast_in_dim\"(");
        mp_operand_leaves(p, b, 0);
        mp_say(p, ") <{");
        mp_ints_attr(p, &one, b, ATTR_DIMENSIONS, "broadcast_dimensions");
        mp_say(p, "}>");
        mp_discardable(p, i);
        mp_say(p, " : (");
        mp_operand_types(p, b, 1);
        mp_say(p, ") -> ");
        mp_result_types(p, in->shape);
        mp_location(p, i);
        mp_say(p, "\n");
        return;
    }
    if (in->op == OP_CONSTANT || p->splat[i.i].i) {
        put_results(p, i);
        mp_constant(p, i);
        mp_location(p, i);
        mp_say(p, "\n");
        return;
    }
    const char *applied = applied_name(p, in);
    if (applied) {
        put_applied(p, i, applied);
        return;
    }
    /* A sharding on what changes nothing: the parser would drop it with the operation. */
    if (same_shape_reshape(p, i) && mp_sharding_of(p, i).i) {
        put_results(p, i);
        mp_say(p, "\"stablehlo.custom_call\"(");
        mp_operand_leaves(p, in, 0);
        mp_say(p, ") <{call_target_name = \"Sharding\", has_side_effect = false, api_version = 1 : i32}>");
        end_op(p, i);
        return;
    }
    const char *name = in->op == OP_COPY ? "reshape" : mp_stablehlo_name((enum op_kind)in->op);
    if (in->op == OP_CONDITIONAL && instr_attr(in, ATTR_TRUE_COMPUTATION))
        name = "if";
    if (!name || !name[0]) {
        mp_refuse(p, i, "there is no such operation");
        return;
    }
    put_results(p, i);
    mp_say(p, strchr(name, '.') ? "\"" : "\"stablehlo.");
    mp_say(p, name);
    mp_say(p, "\"(");
    if (in->op == OP_CONDITIONAL)
        mp_leaf(p, p->vals[in->operands[0].i][0]);
    else
        mp_operand_leaves(p, in, 0);
    mp_say(p, ")");
    struct str *out = p->out, props = STR_IN(&p->tmp);
    bool first = true;
    p->out = &props;
    mp_properties(p, i, &first);
    p->out = out;
    if (props.n) {
        mp_say(p, " <{");
        str_add(p->out, props.s, props.n);
        mp_say(p, "}>");
    }
    struct frame *f = &p->stack.v[at];
    f->nregions = regions_of(in, f);
    f->region = 0;
    f->op = i;
    if (f->nregions == 0) {
        end_op(p, i);
        return;
    }
    mp_say(p, " ({\n");
    open_region(p, at);
}

static void put_return(struct mprint *p, comp_id c, bool func)
{
    const struct computation *k = comp_at(p->m, c);
    shape_id s = instr_at(p->m, k->root)->shape;
    int64_t n = mp_leaves(p, s);
    indent(p);
    mp_say(p, func ? "return" : "\"stablehlo.return\"(");
    for (int64_t j = 0; j < n; j++) {
        mp_say(p, j ? ", " : func ? " " : "");
        mp_leaf(p, p->vals[k->root.i][j]);
    }
    bool first = true;
    mp_say(p, func ? n ? " : " : "" : ") : (");
    mp_shape_types(p, s, &first);
    mp_say(p, func ? "\n" : ") -> ()\n");
}

static void put_body(struct mprint *p, comp_id c)
{
    struct frame f = { .comp = c, .mark = p->scoped.n, .order = written_order(p, c) };
    p->stack.n = 0;
    vec_push(&p->tmp, &p->stack, f);
    while (p->stack.n && !p->failed) {
        int64_t at = p->stack.n - 1;
        struct frame *t = &p->stack.v[at];
        const struct computation *k = comp_at(p->m, t->comp);
        if (t->k < k->ninstrs) {
            put_instr(p, t->order[t->k++], at);
            continue;
        }
        put_return(p, t->comp, at == 0);
        mp_leave(p, t->mark);
        p->stack.n--;
        if (at == 0)
            return;
        struct frame *up = &p->stack.v[at - 1];
        indent(p);
        if (++up->region < up->nregions) {
            mp_say(p, "}, {\n");
            open_region(p, at - 1);
        } else {
            mp_say(p, "})");
            end_op(p, up->op);
        }
    }
}

/* ---- functions --------------------------------------------------------------------------------- */

/* Text of an entry of the header, or NULL. */
static const char *header_value(const struct module *m, const char *key, size_t *n)
{
    for (int64_t k = 0; k < m->nheader; k++)
        if (!strcmp(name_text(m->ir, m->header[k].key), key) && m->header[k].text) {
            *n = m->header[k].len;
            return m->header[k].text;
        }
    return NULL;
}

/* Which memory an argument may give away: { {0}: (2, {}, may-alias) } is output 0 in argument 2's,
 * { (1, {}) } argument 1's for any. out: -1 none, -2 any, else the output. */
static void read_donations(const struct module *m, const char *key, int64_t nparams, int64_t *out)
{
    size_t n;
    const char *s = header_value(m, key, &n);
    bool donor = !strcmp(key, "buffer_donor");
    int64_t output = 0, param;
    for (size_t k = 0; s && k < n; k++) {
        size_t used = s[k] == '{' ? parse_i64(s + k + 1, n - k - 1, &output) : 0;
        if (s[k] == '{' && k + 2 < n && s[k + 1] == '}' && s[k + 2] == ':')
            output = 0; /* the only output */
        k += used;
        if (s[k] != '(' || !(used = parse_i64(s + k + 1, n - k - 1, &param)) || param < 0 || param >= nparams)
            continue;
        k += used;
        bool whole = n - k > 4 && !memcmp(s + k + 1, ", {}", 4); /* a leaf of a tuple has no words here */
        if (whole && out[param] == -1)
            out[param] = donor ? -2 : output;
        while (k < n && s[k] != ')')
            k++;
    }
}

/* Whether propagation may change a sharding that the text gives: StableHLO itself has no words for it. */
static void put_open(struct mprint *p, const bool *to, int64_t n, int64_t k)
{
    if (n > 0 && to[n == 1 ? 0 : k < n ? k : n - 1])
        mp_say(p, ", gspmd.open = true");
}

/* The same of a result. "result": the tuple alone says the sharding, no reshape in front of it does, so that
 * the value is free to take another one. */
static void put_open_result(struct mprint *p, int64_t j)
{
    const struct module *m = p->m;
    const struct instr *root = instr_at(m, comp_at(m, m->entry)->root);
    bool open = m->nto_output > 0 && m->to_output[min_i64(j, m->nto_output - 1)];
    if (open && root->op == OP_TUPLE && j < root->noperands && !p->result[root->operands[j].i])
        mp_say(p, ", gspmd.open = \"result\"");
    else
        put_open(p, m->to_output, m->nto_output, j);
}

/* What the reshape that gives result j its sharding says besides. */
static void put_result_frontend(struct mprint *p, int64_t j)
{
    instr_id i = comp_at(p->m, p->m->entry)->root;
    const struct instr *root = instr_at(p->m, i);
    if (!p->result[i.i] && root->op == OP_TUPLE && j < root->noperands)
        i = root->operands[j];
    if (p->result[i.i] && instr_at(p->m, i)->frontend_len) {
        mp_say(p, ", ");
        mp_frontend(p, instr_at(p->m, i));
    }
}

static void arg_attrs(struct mprint *p, instr_id i, int64_t leaf, bool tuple, int64_t donated)
{
    sharding_id s = mp_sharding_of(p, i);
    const struct instr *in = instr_at(p->m, i);
    if (!s.i && donated == -1 && !in->frontend_len)
        return;
    const struct sharding *h = sharding_get(p->m->ir->shardings, s);
    if (tuple && h->kind == SHARDING_TUPLE)
        s = h->elems[leaf];
    mp_say(p, " {");
    if (donated == -2)
        mp_say(p, "jax.buffer_donor = true");
    else if (donated >= 0)
        mp_sayf(p, "tf.aliasing_output = ", donated, " : i32");
    if (s.i) {
        mp_say(p, donated == -1 ? "" : ", ");
        mp_sharding(p, i, s, !tuple);
        if (in->comp.i == p->m->entry.i)
            put_open(p, p->m->to_parameters, p->m->nto_parameters, instr_param_number(in));
    }
    if (in->frontend_len) {
        mp_say(p, donated == -1 && !s.i ? "" : ", ");
        mp_frontend(p, in);
    }
    mp_say(p, "}");
}

static void put_func(struct mprint *p, comp_id c)
{
    const struct computation *k = comp_at(p->m, c);
    bool entry = c.i == p->m->entry.i, first = true;
    mp_say(p, entry ? "  func.func public " : "  func.func private ");
    put_symbol(p, comp_name(p, c));
    mp_say(p, "(");
    int64_t *donated = ARENA_ARRAY(&p->tmp, int64_t, (int64_t)k->nparams + 1);
    for (uint32_t i = 0; i < k->nparams; i++)
        donated[i] = -1;
    if (entry) {
        read_donations(p->m, "input_output_alias", k->nparams, donated);
        read_donations(p->m, "buffer_donor", k->nparams, donated);
    }
    for (uint32_t i = 0; i < k->nparams; i++) {
        shape_id s = instr_at(p->m, k->params[i])->shape;
        struct leaf *v = arguments(p, c, k->params[i]);
        p->vals[k->params[i].i] = v;
        for (int64_t j = 0; j < mp_leaves(p, s); j++) {
            mp_say(p, first ? "" : ", ");
            first = false;
            mp_leaf(p, v[j]);
            mp_say(p, ": ");
            mp_type(p, shape_leaf(p->m->ir, s, j));
            bool tuple = shape_get(p->m->ir, s)->kind == SHAPE_TUPLE;
            arg_attrs(p, k->params[i], j, tuple, tuple ? -1 : donated[i]);
            mp_location(p, k->params[i]);
        }
    }
    mp_say(p, ") -> (");
    shape_id s = instr_at(p->m, k->root)->shape;
    for (int64_t j = 0; j < mp_leaves(p, s); j++) {
        mp_say(p, j ? ", " : "");
        mp_type(p, shape_leaf(p->m->ir, s, j));
        sharding_id h = entry ? result_sharding(p, j) : (sharding_id){ 0 };
        if (h.i) {
            mp_say(p, " {");
            mp_sharding(p, k->root, h, false);
            put_open_result(p, j);
            put_result_frontend(p, j);
            mp_say(p, "}");
        }
    }
    mp_say(p, ") {\n");
    put_body(p, c);
    mp_leave(p, 0);
    mp_say(p, "  }\n");
}

static bool print_module(struct mprint *p)
{
    const struct module *m = p->m;
    mp_say(p, "module ");
    put_symbol(p, m->name.i ? name_text(m->ir, m->name) : "module");
    if (m->num_partitions > 0) {
        mp_sayf(p, " attributes {mhlo.num_partitions = ", m->num_partitions, " : i32, ");
        mp_sayf(p, "mhlo.num_replicas = ", max_i64(1, m->replica_count), " : i32}");
    }
    mp_say(p, " {\n");
    p->vals = ARENA_ARRAY(&p->tmp, struct leaf *, (int64_t)module_ninstrs(m) + 1);
    p->is_func = ARENA_ARRAY(&p->tmp, bool, (int64_t)module_ncomps(m) + 1);
    find_stretches(p);
    find_results(p);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(m, k->instrs[j]);
            const struct attr *a = in->op == OP_CALL || in->op == OP_FUSION ? instr_attr(in, ATTR_TO_APPLY) : NULL;
            a = a || (in->op != OP_CALL && in->op != OP_FUSION) ? a : instr_attr(in, ATTR_CALLS);
            if (a)
                p->is_func[a->comp.i] = true;
        }
    }
    put_func(p, m->entry);
    for (uint32_t c = 1; c <= module_ncomps(m) && !p->failed; c++)
        if (p->is_func[c] && c != m->entry.i)
            put_func(p, (comp_id){ c });
    mp_say(p, "}\n");
    return !p->failed;
}

bool mlir_print(const struct module *m, const struct mlir_print_options *o, struct str *out, struct diag *d)
{
    struct mprint p = { .m = m, .o = o, .out = out, .d = d };
    arena_open(&p.tmp);
    map_init(&p.taken, &p.tmp);
    bool ok = print_module(&p);
    arena_close(&p.tmp);
    return ok;
}
