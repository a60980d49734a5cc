/* Operations of StableHLO to HLO instructions, one by one, as XLA's builder would make them. */
#include "text/mlir_emit.h"

#include <stdio.h>

/* ---- instructions ------------------------------------------------------------------------------ */

instr_id memit(struct mlir *r, enum op_kind op, shape_id shape, int64_t n, const instr_id *operands,
               int nattrs, const struct attr *attrs)
{
    instr_id i = instr_new(r->m, r->comp, op, shape, n, operands, nattrs, attrs);
    struct instr *in = instr_at(r->m, i);
    in->metadata = r->metadata;
    in->metadata_len = r->nmetadata;
    if (r->emitting) {
        in->at = mspan(r, r->emitting->at, r->emitting->nat);
        in->frontend = r->frontend;
        in->frontend_len = r->nfrontend;
    }
    return i;
}

/* What `%5` of a dot is called: dot.5; `%arg0`, `%cst_1` keep their names. Two of one name in a
 * computation (of inlined regions): the later is named when printed. */
static void give_name(struct mlir *r, struct instr *in, enum op_kind op, const char *name, uint32_t n)
{
    char s[320]; /* an opcode's name, a dot, 200 letters */
    if (in->name.i || n == 0 || n > 200 || mlir_nameless(name, n))
        return;
    size_t len = mis(name[0], MC_DIGIT) ? (size_t)snprintf(s, 100, "%s.", op_name(op)) : 0;
    len = len < 100 ? len : 99;
    for (uint32_t i = 0; i < n; i++)
        s[len++] = (mis(name[i], MC_WORD) && name[i] != '$') || name[i] == '-' ? name[i] : '_';
    name_id id = name_put(r->c, s, len);
    uint64_t key = (uint64_t)r->comp.i << 32 | id.i, there;
    if (!r->used_names.arena)
        map_init(&r->used_names, &r->tmp);
    if (map_get(&r->used_names, key, &there))
        return;
    map_put(&r->used_names, key, 1);
    in->name = id;
}

void mset(struct mlir *r, uint32_t v, instr_id i)
{
    v = mresolve(r, v);
    struct mval *x = mval(r, v);
    x->instr = i;
    x->comp = r->comp.i;
    if (!x->name)
        return;
    /* What a region captures is called there as outside of it. */
    const struct mop *def = x->def;
    enum op_kind op = (enum op_kind)instr_at(r->m, i)->op;
    if (def && (op == OP_PARAMETER || op == OP_GET_TUPLE_ELEMENT)) {
        if (def->kind == M_HLO)
            op = (enum op_kind)def->hlo;
        else if (def->kind == M_IF)
            op = OP_CONDITIONAL;
        else if (def->kind == M_CALL)
            op = OP_CALL;
        else if (def->kind == M_CUSTOM || def->kind == M_CONSTRAINT)
            op = OP_CUSTOM_CALL;
    }
    give_name(r, instr_at(r->m, i), op, x->name, x->nname);
}

static size_t constant_size(const struct mlir *r, const struct mconst *k)
{
    const struct shape *s = shape_get(r->c, k->shape);
    return k->elided ? 0 : (size_t)dtype_bytes(s->dtype) * (size_t)(k->splat ? s->count > 0 : s->count);
}

/* The same constant in the same computation, as an instruction; none: it is the first. */
static instr_id emitted_before(struct mlir *r, uint32_t v)
{
    const struct mconst *k = mval(r, v)->cst;
    size_t size = constant_size(r, k);
    uint64_t key = hash_bytes(k->data ? k->data : "", size, (uint64_t)r->comp.i << 32 | (k->shape.i * 2u + k->splat)), at;
    if (!r->emitted.arena)
        map_init(&r->emitted, &r->tmp);
    if (map_get(&r->emitted, key, &at)) {
        const struct mval *x = mval(r, (uint32_t)at);
        bool same = x->comp == r->comp.i && x->cst->shape.i == k->shape.i && x->cst->splat == k->splat &&
                    !x->cst->elided && !k->elided && (size == 0 || memcmp(x->cst->data, k->data, size) == 0);
        return same ? x->instr : (instr_id){ 0 };
    }
    map_put(&r->emitted, key, v);
    return (instr_id){ 0 };
}

/* A value that turns out to be a constant that is there already. A splat's name is its scalar's. */
static instr_id share_constant(struct mlir *r, uint32_t v, instr_id i)
{
    struct mval *x = mval(r, v);
    struct instr *in = instr_at(r->m, i);
    x->instr = i;
    x->comp = r->comp.i;
    if (in->op == OP_BROADCAST)
        in = instr_at(r->m, in->operands[0]);
    if (x->name)
        give_name(r, in, (enum op_kind)in->op, x->name, x->nname);
    return i;
}

static instr_id constant_instr(struct mlir *r, uint32_t v)
{
    const struct mconst *k = mval(r, v)->cst;
    const struct shape *s = shape_get(r->c, k->shape);
    instr_id before = emitted_before(r, v);
    if (before.i)
        return share_constant(r, v, before);
    const char *meta = r->metadata;
    uint32_t nmeta = r->nmetadata;
    struct mop *op = r->emitting;
    r->metadata = NULL;
    r->nmetadata = 0;
    r->emitting = NULL;
    bool spread = k->splat && s->rank > 0 && s->count > 1;
    shape_id shape = spread ? shape_array(r->c, s->dtype, 0, NULL) : k->shape;
    instr_id i = memit(r, OP_CONSTANT, shape, 0, NULL, 0, NULL);
    if (k->elided) {
        struct literal *l = ARENA_NEW(&r->m->arena, struct literal);
        l->shape = k->shape;
        l->elided = true;
        instr_at(r->m, i)->literal = l;
    } else {
        const void *data = k->data;
        if (k->splat && s->count == 0)
            data = "";
        instr_at(r->m, i)->literal = literal_new(r->m, shape, data);
    }
    if (mval(r, v)->name)
        instr_at(r->m, i)->at = mspan(r, mval(r, v)->name, mval(r, v)->nname);
    if (spread) {
        struct attr a = attr_ints(r->m, ATTR_DIMENSIONS, 0, NULL);
        if (mval(r, v)->name)
            give_name(r, instr_at(r->m, i), OP_CONSTANT, mval(r, v)->name, mval(r, v)->nname);
        i = memit(r, OP_BROADCAST, k->shape, 1, &i, 1, &a);
    }
    r->metadata = meta;
    r->nmetadata = nmeta;
    r->emitting = op;
    struct mval *x = mval(r, v);
    if (spread && x->name && mis(x->name[0], MC_DIGIT)) { /* its name is its scalar's: so it prints as one */
        x->instr = i;
        x->comp = r->comp.i;
    } else {
        mset(r, v, i);
    }
    return i;
}

instr_id mvalue(struct mlir *r, uint32_t v)
{
    v = mresolve(r, v);
    const struct mval *x = mval(r, v);
    if (x->comp == r->comp.i && x->instr.i)
        return x->instr;
    if (x->cst)
        return constant_instr(r, v);
    const char *at = r->emitting ? r->emitting->at : r->base;
    MFAIL(r, at, r->emitting ? r->emitting->nat : 1, "'%%%.*s' is not available here", (int)x->nname,
          x->name ? x->name : "");
    return (instr_id){ 0 };
}

static bool operands(struct mlir *r, const struct mop *op, instr_id **out)
{
    if (op->noperands >= r->capoperands) { /* one list for all: an instruction copies its operands */
        r->capoperands = op->noperands * 2 + 64;
        r->operand_list = ARENA_ARRAY(&r->tmp, instr_id, r->capoperands);
    }
    *out = r->operand_list;
    memset(*out, 0, (op->noperands + 1) * sizeof **out);
    bool loop = op->kind == M_HLO && op->hlo == OP_WHILE && op->nregions == 2;
    for (uint32_t k = 0; k < op->noperands; k++) {
        if (loop && mval(r, op->regions[1]->arg0 + k)->alias)
            continue; /* not carried: its regions use the value itself */
        (*out)[k] = mvalue(r, op->operands[k]);
        if (!(*out)[k].i)
            return false;
    }
    return true;
}

static shape_id result_shape(struct mlir *r, const struct mop *op)
{
    if (op->nresults == 1)
        return mval(r, op->result)->shape;
    shape_id *v = ARENA_ARRAY(&r->tmp, shape_id, op->nresults + 1);
    for (uint32_t k = 0; k < op->nresults; k++)
        v[k] = mval(r, op->result + k)->shape;
    return shape_tuple(r->c, op->nresults, v);
}

void mnum_attach_sharding(struct mlir *r, instr_id i)
{
    struct instr *in = instr_at(r->m, i);
    if (r->set_sharding.i && !in->sharding.i) {
        in->sharding = r->set_sharding;
        in->note = r->set_note;
    }
}

void mspread(struct mlir *r, instr_id tuple, const struct mop *op)
{
    mnum_attach_sharding(r, tuple);
    if (op->nresults == 1) {
        mset(r, op->result, tuple);
        return;
    }
    for (uint32_t k = 0; k < op->nresults; k++) {
        struct attr a = attr_int(ATTR_INDEX, k);
        instr_id e = memit(r, OP_GET_TUPLE_ELEMENT, mval(r, op->result + k)->shape, 1, &tuple, 1, &a);
        mval(r, op->result + k)->instr = e;
        mval(r, op->result + k)->comp = r->comp.i;
    }
    if (op->nresults && mval(r, op->result)->name)
        give_name(r, instr_at(r->m, tuple), (enum op_kind)instr_at(r->m, tuple)->op, mval(r, op->result)->name,
                  mval(r, op->result)->nname);
}

/* ---- elementwise and shape ops ----------------------------------------------------------------- */

static bool emit_broadcast(struct mlir *r, struct mop *op, instr_id x)
{
    if (!mints_of(r, op, "dims", "broadcast_dimensions", -1))
        return false;
    const struct shape *in = mshape(r, op->operands[0]), *out = mshape(r, op->result);
    int64_t n = r->ints.n;
    int64_t dims[64], seq[64], kept[64], sizes[64];
    bool stretched = false;
    if (n != in->rank)
        return MFAIL(r, op->at, op->nat, "%" PRId64 " dims for an operand of %d dimensions", n, in->rank);
    for (int64_t i = 0; i < n; i++)
        dims[i] = r->ints.v[i];
    for (int d = 0; d < out->rank; d++)
        seq[d] = out->dims[d];
    for (int64_t i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= out->rank)
            return MFAIL(r, op->at, op->nat, "dims names dimension %" PRId64 " of an array of %d", dims[i], out->rank);
        if (in->dims[i] != 1 && in->dims[i] != out->dims[dims[i]])
            return MFAIL(r, op->at, op->nat, "dimension %" PRId64 " of size %" PRId64 " cannot become %" PRId64, i,
                         in->dims[i], out->dims[dims[i]]);
        stretched |= in->dims[i] != out->dims[dims[i]];
        seq[dims[i]] = in->dims[i];
    }
    /* First to the result's rank with sizes of 1 kept; those are then dropped and made anew. */
    shape_id first = shape_array(r->c, out->dtype, out->rank, seq);
    struct attr a = attr_ints(r->m, ATTR_DIMENSIONS, (int)n, dims);
    instr_id b = memit(r, OP_BROADCAST, first, 1, &x, 1, &a);
    if (stretched) {
        int nk = 0;
        for (int d = 0; d < out->rank; d++)
            if (seq[d] == out->dims[d]) {
                sizes[nk] = seq[d];
                kept[nk++] = d;
            }
        b = memit(r, OP_RESHAPE, shape_array(r->c, out->dtype, nk, sizes), 1, &b, 0, NULL);
        a = attr_ints(r->m, ATTR_DIMENSIONS, nk, kept);
        b = memit(r, OP_BROADCAST, mval(r, op->result)->shape, 1, &b, 1, &a);
    }
    mspread(r, b, op);
    return true;
}

/* More than one dimension: a vector, broadcast. */
static bool emit_iota(struct mlir *r, struct mop *op)
{
    int64_t d;
    const struct shape *s = mshape(r, op->result);
    if (!mint_of(r, op, "dim", "iota_dimension", 0, &d))
        return false;
    if (d < 0 || d >= s->rank)
        return MFAIL(r, op->at, op->nat, "the result has no dimension %" PRId64, d);
    if (s->rank == 1) {
        struct attr a = attr_int(ATTR_IOTA_DIMENSION, 0);
        mspread(r, memit(r, OP_IOTA, mval(r, op->result)->shape, 0, NULL, 1, &a), op);
        return true;
    }
    struct attr a = attr_int(ATTR_IOTA_DIMENSION, 0);
    instr_id i = memit(r, OP_IOTA, shape_array(r->c, s->dtype, 1, &s->dims[d]), 0, NULL, 1, &a);
    a = attr_ints(r->m, ATTR_DIMENSIONS, 1, &d);
    mspread(r, memit(r, OP_BROADCAST, mval(r, op->result)->shape, 1, &i, 1, &a), op);
    return true;
}

/* The words without a key: pretty compare has direction and type so. */
static bool add_compare(struct mlir *r, const struct mop *op)
{
    const char *dir = "", *type = "";
    uint32_t ndir = 0, ntype = 0;
    const struct mattr *a = mattr(op, "comparison_direction");
    if (a) {
        menum(a, &dir, &ndir);
        menum(mattr(op, "compare_type"), &type, &ntype);
        /* #stablehlo<comparison_direction LT>: the last word */
    } else {
        for (uint32_t i = 0; i < op->nattrs; i++)
            if (op->attrs[i].klen == 0) {
                if (!ndir) {
                    dir = op->attrs[i].val;
                    ndir = op->attrs[i].vlen;
                } else {
                    type = op->attrs[i].val;
                    ntype = op->attrs[i].vlen;
                }
            }
    }
    if (ndir != 2)
        return MFAIL(r, op->at, op->nat, "this comparison has no direction (EQ, NE, LT, LE, GT or GE)");
    mnum_add_word(r, ATTR_DIRECTION, dir, ndir);
    if (mtext(type, ntype, "TOTALORDER"))
        mnum_add_word(r, ATTR_COMPARE_TYPE, type, ntype);
    return true;
}

static bool add_slice(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]);
    int64_t *v = ARENA_ARRAY(&r->m->arena, int64_t, 3 * s->rank + 3);
    const struct mattr *a = mattr(op, "[");
    if (a) { /* [0:1, 2:8:2] */
        const char *p = a->val + 1, *end = a->val + a->vlen;
        for (int d = 0; d < s->rank; d++) {
            v[3 * d + 2] = 1;
            for (int k = 0; k < 3; k++) {
                while (p < end && mis(*p, MC_SPACE))
                    p++;
                size_t used = p < end ? parse_i64(p, (size_t)(end - p), &v[3 * d + k]) : 0;
                if (!used)
                    return MFAIL(r, p, 1, "expected start:limit or start:limit:stride");
                p += used;
                if (*p != ':')
                    break;
                p++;
            }
            while (p < end && (*p == ',' || mis(*p, MC_SPACE)))
                p++;
        }
    } else {
        static const char *const keys[] = { "start_indices", "limit_indices", "strides" };
        for (int k = 0; k < 3; k++) {
            if (!mints_of(r, op, keys[k], NULL, s->rank))
                return false;
            for (int d = 0; d < s->rank; d++)
                v[3 * d + k] = d < r->ints.n ? r->ints.v[d] : k == 2;
        }
    }
    struct attr at = attr_ints(r->m, ATTR_SLICE, 3 * s->rank, v);
    at.type = ATTR_TYPE_SLICE;
    mnum_add(r, at);
    return true;
}

static bool add_padding(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]);
    int64_t *v = ARENA_ARRAY(&r->m->arena, int64_t, 3 * s->rank + 3);
    static const char *const keys[3][2] = { { "low", "edge_padding_low" }, { "high", "edge_padding_high" },
                                            { "interior", "interior_padding" } };
    for (int k = 0; k < 3; k++) {
        if (!mints_of(r, op, keys[k][0], keys[k][1], s->rank))
            return false;
        for (int d = 0; d < s->rank; d++)
            v[3 * d + k] = d < r->ints.n ? r->ints.v[d] : 0;
    }
    struct attr at = attr_ints(r->m, ATTR_PADDING, 3 * s->rank, v);
    at.type = ATTR_TYPE_PADDING;
    mnum_add(r, at);
    return true;
}

/* ---- control flow ------------------------------------------------------------------------------ */

static instr_id tuple_of(struct mlir *r, int64_t n, const instr_id *v)
{
    if (n == 1)
        return v[0];
    shape_id *s = ARENA_ARRAY(&r->tmp, shape_id, n + 1);
    for (int64_t k = 0; k < n; k++)
        s[k] = instr_at(r->m, v[k])->shape;
    return memit(r, OP_TUPLE, shape_tuple(r->c, n, s), n, v, 0, NULL);
}

static bool emit_while(struct mlir *r, struct mop *op, const instr_id *v)
{
    VEC(instr_id) in = { 0 };
    VEC(uint32_t) result = { 0 };
    const struct mregion *body = op->regions[1];
    for (uint32_t k = 0; k < op->noperands; k++)
        if (!mval(r, body->arg0 + k)->alias) {
            vec_push(&r->tmp, &in, v[k]);
            vec_push(&r->tmp, &result, k);
        }
    for (int64_t k = 0; k < body->captured.n; k++) {
        instr_id i = mvalue(r, body->captured.v[k]);
        if (!i.i)
            return false;
        vec_push(&r->tmp, &in, i);
    }
    instr_id t = tuple_of(r, in.n, in.v);
    mnum_add(r, attr_comp(ATTR_CONDITION, mnum_region_comp(op, 0)));
    mnum_add(r, attr_comp(ATTR_BODY, mnum_region_comp(op, 1)));
    instr_id w = memit(r, OP_WHILE, instr_at(r->m, t)->shape, 1, &t, (int)r->out.n, r->out.v);
    mnum_attach_sharding(r, w);
    if (op->nresults && mval(r, op->result)->name)
        give_name(r, instr_at(r->m, w), OP_WHILE, mval(r, op->result)->name, mval(r, op->result)->nname);
    for (int64_t k = 0; k < result.n; k++) {
        uint32_t res = op->result + result.v[k];
        instr_id e = w;
        if (in.n > 1) {
            struct attr a = attr_int(ATTR_INDEX, k);
            e = memit(r, OP_GET_TUPLE_ELEMENT, mval(r, res)->shape, 1, &w, 1, &a);
        }
        mval(r, res)->instr = e;
        mval(r, res)->comp = r->comp.i;
    }
    return true;
}

static bool emit_branches(struct mlir *r, struct mop *op, const instr_id *v)
{
    VEC(instr_id) in = { 0 };
    VEC(comp_id) comps = { 0 };
    vec_push(&r->tmp, &in, v[0]);
    for (uint32_t k = 0; k < op->nregions; k++) {
        const struct mregion *g = op->regions[k];
        VEC(instr_id) c = { 0 };
        for (int64_t i = 0; i < g->captured.n; i++) {
            instr_id x = mvalue(r, g->captured.v[i]);
            if (!x.i)
                return false;
            vec_push(&r->tmp, &c, x);
        }
        instr_id t = tuple_of(r, c.n, c.v);
        vec_push(&r->tmp, &in, t);
        vec_push(&r->tmp, &comps, g->comp);
    }
    if (op->kind == M_IF) {
        if (comps.n != 2)
            return MFAIL(r, op->at, op->nat, "an if has two regions");
        mnum_add(r, attr_comp(ATTR_TRUE_COMPUTATION, comps.v[0]));
        mnum_add(r, attr_comp(ATTR_FALSE_COMPUTATION, comps.v[1]));
    } else {
        struct attr a = { .key = ATTR_BRANCH_COMPUTATIONS, .type = ATTR_TYPE_COMPS, .n = (uint32_t)comps.n };
        a.comps = arena_copy(&r->m->arena, comps.v, comps.n, sizeof *comps.v);
        mnum_add(r, a);
    }
    mspread(r, memit(r, OP_CONDITIONAL, result_shape(r, op), in.n, in.v, (int)r->out.n, r->out.v), op);
    return true;
}

static bool emit_call(struct mlir *r, struct mop *op, const instr_id *v)
{
    const char *name = op->sym;
    uint32_t n = op->nsym;
    const struct mattr *a = mattr2(op, "callee", "decomposition");
    if (a && !mstring(a, &name, &n))
        return false;
    const struct mfunc *f = mlir_find_func(r, name, n);
    if (!f || !f->comp.i)
        return MFAIL(r, op->at, op->nat, "there is no function '@%.*s'", (int)n, name);
    if (f->nargs != op->noperands || f->nresults != op->nresults)
        return MFAIL(r, op->at, op->nat, "'@%.*s' takes %u and gives %u values, not %u and %u", (int)n, name, f->nargs,
                     f->nresults, op->noperands, op->nresults);
    for (uint32_t k = 0; k < f->nargs; k++)
        if (!shape_same(r->c, mval(r, f->body->arg0 + k)->shape, mval(r, op->operands[k])->shape))
            return MFAIL(r, op->at, op->nat, "argument %u of '@%.*s' is a %s, but the function takes a %s", k, (int)n,
                         name, mtype_text(r, mval(r, op->operands[k])->shape),
                         mtype_text(r, mval(r, f->body->arg0 + k)->shape));
    mnum_add(r, attr_comp(ATTR_TO_APPLY, f->comp));
    mspread(r, memit(r, OP_CALL, result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
    return true;
}

/* ---- custom calls ------------------------------------------------------------------------------ */

static void raw_text(struct mlir *r, enum attr_key k, const char *text, uint32_t n)
{
    struct attr a = attr_int(k, 0);
    a.type = ATTR_TYPE_RAW;
    a.text = arena_strndup(&r->m->arena, text, n);
    a.n = n;
    mnum_add(r, a);
}

static bool emit_custom(struct mlir *r, struct mop *op, const instr_id *v)
{
    const char *target = op->sym;
    uint32_t n = op->nsym;
    const struct mattr *a = mattr(op, "call_target_name");
    if (a && !mstring(a, &target, &n))
        return MFAIL(r, op->at, op->nat, "expected call_target_name = \"...\"");
    if (!target)
        return MFAIL(r, op->at, op->nat, "this custom call has no target");
    char *name = arena_strndup(&r->m->arena, target, n);
    if (mtext(target, n, "mhlo.erf") && op->noperands == 1) {
        mspread(r, memit(r, OP_ERF, result_shape(r, op), 1, v, 0, NULL), op);
        return true;
    }
    if (mtext(target, n, "mhlo.topk") && op->noperands == 1 && op->nresults == 2) {
        const struct shape *s = mshape(r, op->result);
        mnum_add(r, attr_int(ATTR_K, s->rank ? s->dims[s->rank - 1] : 1));
        const struct mattr *m = mattr(op, "mhlo.attributes");
        struct mattr in;
        bool largest = !m || !m->val || !mdict_find(m->val, m->vlen, "largest", &in) ||
                       (in.val && mtext(in.val, mword(in.val), "true"));
        mnum_add_bool(r, ATTR_LARGEST, largest);
        mspread(r, memit(r, OP_TOPK, result_shape(r, op), 1, v, (int)r->out.n, r->out.v), op);
        return true;
    }
    mnum_add(r, attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, name));
    if (mbool_of(op, "has_side_effect", false))
        mnum_add_bool(r, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, true);
    int64_t api;
    const struct mattr *typed = mattr(op, "mhlo.backend_config");
    if (!mint_of(r, op, "api_version", NULL, typed ? 4 : 1, &api))
        return false;
    static const char *const versions[] = { "", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
                                            "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI" };
    if (api >= 2 && api <= 4)
        mnum_add(r, attr_ident(r->m, ATTR_API_VERSION, versions[api]));
    a = mattr(op, "backend_config");
    if (a && a->val && *a->val == '"' && a->vlen > 2)
        raw_text(r, ATTR_BACKEND_CONFIG, a->val, a->vlen);
    else if (a && a->val && *a->val == '{' && a->vlen > 2)
        raw_text(r, ATTR_BACKEND_CONFIG, a->val, a->vlen);
    else if (typed && typed->val && typed->vlen > 2)
        raw_text(r, ATTR_BACKEND_CONFIG, typed->val, typed->vlen);
    mspread(r, memit(r, OP_CUSTOM_CALL, result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
    return true;
}

/* Of a dialect that nothing is known of: opaque, with a warning for the first. */
static bool emit_unknown(struct mlir *r, struct mop *op, const instr_id *v)
{
    if (op->nregions)
        return MFAIL(r, op->at, op->nat, "'%.*s' has regions and is of a dialect that has no counterpart in HLO",
                     (int)op->nname, op->name);
    if (!r->told_unknown) {
        diag_warn(r->d, r->src, mspan(r, op->at, op->nat), "'%.*s' is not known here: it becomes an opaque custom "
                  "call (as do further ones)", (int)op->nname, op->name);
        r->told_unknown = true;
    }
    mnum_add(r, attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, arena_strndup(&r->tmp, op->name, op->nname)));
    mspread(r, memit(r, OP_CUSTOM_CALL, result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
    return true;
}

/* ---- dispatch ---------------------------------------------------------------------------------- */

static bool add_enum(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other,
                     const char *prefix)
{
    const char *word;
    uint32_t n;
    menum(mattr2(op, key, other), &word, &n);
    if (!n)
        return MFAIL(r, op->at, op->nat, "expected %s = ...", key);
    char *text = arena_printf(&r->tmp, "%s%.*s", prefix, (int)n, word);
    mnum_add(r, attr_ident(r->m, k, text));
    return true;
}

/* e5m10 */
static bool add_precision_format(struct mlir *r, const struct mop *op)
{
    int64_t e = 0, m = 0;
    const struct mattr *a = mattr(op, "format");
    if (a && a->val && *a->val == 'e') {
        size_t used = parse_i64(a->val + 1, a->vlen - 1, &e);
        const char *q = a->val + 1 + used;
        if (!used || *q != 'm' || !parse_i64(q + 1, (size_t)(a->val + a->vlen - q - 1), &m))
            return MFAIL(r, a->val, a->vlen, "expected a format, like e5m10");
    } else if (!mint_of(r, op, "exponent_bits", NULL, 8, &e) || !mint_of(r, op, "mantissa_bits", NULL, 23, &m)) {
        return false;
    }
    mnum_add(r, attr_int(ATTR_EXPONENT_BITS, e));
    mnum_add(r, attr_int(ATTR_MANTISSA_BITS, m));
    return true;
}

static bool add_index(struct mlir *r, const struct mop *op)
{
    int64_t k;
    if (!mint_of(r, op, "[", "index", 0, &k))
        return false;
    mnum_add(r, attr_int(ATTR_INDEX, k));
    return true;
}

static bool add_float(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "epsilon");
    struct attr at = attr_int(ATTR_EPSILON, 0);
    at.type = ATTR_TYPE_FLOAT;
    at.f = 0;
    if (a && a->val) {
        char buf[64];
        snprintf(buf, sizeof buf, "%.*s", (int)(a->vlen < 60 ? a->vlen : 60), a->val);
        (void)sscanf(buf, "%lf", &at.f);
    }
    mnum_add(r, at);
    int64_t k;
    if (!mint_of(r, op, "feature_index", NULL, 0, &k))
        return false;
    mnum_add(r, attr_int(ATTR_FEATURE_INDEX, k));
    return true;
}

static bool need(struct mlir *r, const struct mop *op, uint32_t lo, uint32_t regions)
{
    if (op->noperands < lo)
        return MFAIL(r, op->at, op->nat, "%.*s takes at least %u operands, not %u", (int)op->nname, op->name, lo,
                     op->noperands);
    if (op->nregions != regions)
        return MFAIL(r, op->at, op->nat, "%.*s has %u regions, not %u", (int)op->nname, op->name, regions,
                     op->nregions);
    return true;
}

static bool applied_comp(struct mlir *r, struct mop *op, const struct mattr *a)
{
    const char *dot = memchr(a->val, '.', a->vlen);
    const char *name = dot ? dot + 1 : a->val;
    uint32_t n = (uint32_t)(a->val + a->vlen - name);
    enum op_kind k = op_find(name, n);
    if (k == OP_NONE || op_min_operands(k) != 2 || !op_is_elementwise_binary(k) || op->noperands == 0)
        return MFAIL(r, a->val, a->vlen, "'%.*s' is no operation of two scalars", (int)a->vlen, a->val);
    char buf[64];
    int len = snprintf(buf, sizeof buf, "reducer_%u", module_ncomps(r->m));
    r->emitting = op;
    mlir_metadata(r, op->loc, op->nloc, &r->metadata, &r->nmetadata);
    r->frontend = NULL;
    r->nfrontend = 0;
    r->comp = op->applied = comp_new(r->m, name_put(r->c, buf, (size_t)len));
    comp_at(r->m, r->comp)->at = mspan(r, op->at, op->nat);
    shape_id s = shape_array(r->c, mshape(r, op->operands[0])->dtype, 0, NULL);
    instr_id p[2];
    for (int i = 0; i < 2; i++) {
        struct attr num = attr_int(ATTR_INDEX, i);
        p[i] = memit(r, OP_PARAMETER, s, 0, NULL, 1, &num);
    }
    comp_finish(r->m, r->comp, memit(r, k, s, 2, p, 0, NULL));
    r->emitting = NULL;
    r->metadata = NULL;
    r->nmetadata = 0;
    return true;
}

bool mlir_applied(struct mlir *r, struct mregion *g)
{
    for (struct mop *op = g->first; op; op = op->next) {
        const struct mattr *a = op->live && op->kind == M_HLO && op->hlo == OP_REDUCE ? mattr(op, "applies") : NULL;
        if (a && a->val && !applied_comp(r, op, a))
            return false;
    }
    return true;
}

static bool emit_hlo(struct mlir *r, struct mop *op, const instr_id *v)
{
    enum op_kind k = (enum op_kind)op->hlo;
    int64_t n = op->noperands;
    int lo = op_min_operands(k), hi = op_max_operands(k);
    comp_id c = { 0 };
    bool special = k == OP_WHILE || k == OP_CONDITIONAL || k == OP_OPT_BARRIER || k == OP_RNG;
    if (!special && (n < lo || (hi >= 0 && n > hi)))
        return MFAIL(r, op->at, op->nat, "%.*s takes %s%d operand%s, not %" PRId64, (int)op->nname, op->name,
                     hi < 0 ? "at least " : "", n < lo ? lo : hi, (n < lo ? lo : hi) == 1 ? "" : "s", n);
    if (op->nresults == 0 && k != OP_OUTFEED)
        return MFAIL(r, op->at, op->nat, "this operation has no result");
    switch ((int)k) {
    case OP_BROADCAST: return emit_broadcast(r, op, v[0]);
    case OP_IOTA: return emit_iota(r, op);
    case OP_WHILE: return need(r, op, 0, 2) && emit_while(r, op, v);
    case OP_CONDITIONAL: return need(r, op, 1, op->nregions ? op->nregions : 1) && emit_branches(r, op, v);
    case OP_COMPARE:
        if (!add_compare(r, op))
            return false;
        break;
    case OP_TRANSPOSE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dims", "permutation"))
            return false;
        break;
    case OP_REVERSE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dims", "dimensions"))
            return false;
        break;
    case OP_CONCATENATE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dim", "dimension"))
            return false;
        break;
    case OP_GET_DIMENSION_SIZE:
    case OP_SET_DIMENSION_SIZE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dim", "dimension"))
            return false;
        break;
    case OP_SLICE:
        if (!add_slice(r, op))
            return false;
        break;
    case OP_PAD:
        if (!add_padding(r, op))
            return false;
        break;
    case OP_DYNAMIC_SLICE:
        if (!mnum_add_ints(r, op, ATTR_DYNAMIC_SLICE_SIZES, "sizes", "slice_sizes"))
            return false;
        break;
    case OP_DOT:
        if (!mnum_add_dot(r, op))
            return false;
        break;
    case OP_CONVOLUTION:
        if (!mnum_add_conv(r, op))
            return false;
        break;
    case OP_GATHER:
        if (!mnum_add_gather(r, op))
            return false;
        break;
    case OP_SCATTER:
        if (!need(r, op, 3, 1) || !mnum_add_scatter(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    case OP_REDUCE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dimensions", NULL))
            return false;
        c = op->applied.i ? op->applied : mnum_region_comp(op, 0);
        if (!c.i)
            return MFAIL(r, op->at, op->nat, "this reduce has no computation");
        mnum_add(r, attr_comp(ATTR_TO_APPLY, c));
        break;
    case OP_MAP:
        if (!need(r, op, 1, 1) || !mnum_add_ints(r, op, ATTR_DIMENSIONS, "dimensions", NULL))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    case OP_REDUCE_WINDOW:
        if (!need(r, op, 2, 1) || !mnum_add_reduce_window(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    case OP_SELECT_AND_SCATTER:
        if (!need(r, op, 3, 2) || !mnum_add_reduce_window(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_SELECT, mnum_region_comp(op, 0)));
        mnum_add(r, attr_comp(ATTR_SCATTER, mnum_region_comp(op, 1)));
        break;
    case OP_SORT: {
        int64_t d;
        if (!need(r, op, 1, 1) || !mint_of(r, op, "dimension", NULL, -1, &d))
            return false;
        if (d < 0)
            d += mshape(r, op->operands[0])->rank;
        mnum_add(r, attr_ints(r->m, ATTR_DIMENSIONS, 1, &d));
        if (mbool_of(op, "is_stable", false))
            mnum_add_bool(r, ATTR_IS_STABLE, true);
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    }
    case OP_REDUCE_PRECISION:
        if (!add_precision_format(r, op))
            return false;
        break;
    case OP_FFT:
        if (!add_enum(r, op, ATTR_FFT_TYPE, "type", "fft_type", "") ||
            !mnum_add_ints(r, op, ATTR_FFT_LENGTH, "length", "fft_length"))
            return false;
        break;
    case OP_CHOLESKY:
        if (mbool_of(op, "lower", false))
            mnum_add_bool(r, ATTR_LOWER, true);
        break;
    case OP_TRIANGULAR_SOLVE:
        mnum_add_bool(r, ATTR_LEFT_SIDE, mbool_of(op, "left_side", false));
        mnum_add_bool(r, ATTR_LOWER, mbool_of(op, "lower", false));
        if (mbool_of(op, "unit_diagonal", false))
            mnum_add_bool(r, ATTR_UNIT_DIAGONAL, true);
        if (!add_enum(r, op, ATTR_TRANSPOSE_A, "transpose_a", NULL, ""))
            return false;
        break;
    case OP_RNG_BIT_GENERATOR: {
        const char *word;
        uint32_t len;
        menum(mattr2(op, "algorithm", "rng_algorithm"), &word, &len);
        const char *text = mtext(word, len, "THREE_FRY") ? "rng_three_fry"
                         : mtext(word, len, "PHILOX") ? "rng_philox" : "rng_default";
        struct attr a = attr_ident(r->m, ATTR_RNG_ALGORITHM, text);
        mnum_add(r, a);
        break;
    }
    case OP_RNG: {
        const char *word;
        uint32_t len;
        menum(mattr2(op, "distribution", "rng_distribution"), &word, &len);
        if (!len)
            menum(mattr(op, ""), &word, &len);
        mnum_add(r, attr_ident(r->m, ATTR_DISTRIBUTION, mtext(word, len, "NORMAL") ? "rng_normal" : "rng_uniform"));
        n = min_i64(n, 2);
        break;
    }
    case OP_BATCH_NORM_TRAINING:
    case OP_BATCH_NORM_INFERENCE:
    case OP_BATCH_NORM_GRAD:
        if (!add_float(r, op))
            return false;
        break;
    case OP_GET_TUPLE_ELEMENT:
        if (!add_index(r, op))
            return false;
        break;
    case OP_OPT_BARRIER: {
        if (n == 0)
            return true;
        instr_id t = tuple_of(r, n, v);
        mspread(r, memit(r, OP_OPT_BARRIER, instr_at(r->m, t)->shape, 1, &t, 0, NULL), op);
        return true;
    }
    case OP_ALL_REDUCE:
        if (!need(r, op, 1, 1) || !mnum_add_channel(r, op) || !mnum_add_groups(r, op))
            return false;
        mnum_add_global_ids(r, op);
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    case OP_REDUCE_SCATTER:
        if (!need(r, op, 1, 1) || !mnum_add_channel(r, op) || !mnum_add_groups(r, op))
            return false;
        mnum_add_global_ids(r, op);
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "scatter_dimension", NULL))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(op, 0)));
        break;
    case OP_ALL_GATHER:
        if (!mnum_add_channel(r, op) || !mnum_add_groups(r, op) || !mnum_add_ints(r, op, ATTR_DIMENSIONS, "all_gather_dim", NULL))
            return false;
        mnum_add_global_ids(r, op);
        break;
    case OP_ALL_TO_ALL: return mnum_emit_all_to_all(r, op, v);
    case OP_COLLECTIVE_PERMUTE:
        if (!mnum_add_channel(r, op) || !mnum_add_pairs(r, op))
            return false;
        break;
    case OP_COLLECTIVE_BROADCAST:
        if (!mnum_add_channel(r, op) || !mnum_add_groups(r, op))
            return false;
        break;
    case OP_INFEED:
    case OP_OUTFEED:
    case OP_SEND:
    case OP_RECV: return emit_unknown(r, op, v); /* transfers with the host: nothing to partition */
    default: break;
    }
    mspread(r, memit(r, k, result_shape(r, op), n, v, (int)r->out.n, r->out.v), op);
    return true;
}

/* ---- what an instruction carries along --------------------------------------------------------- */

static bool known_key(const struct mattr *a)
{
    static const char *const known[] = { "mhlo.sharding", "sdy.sharding", "mhlo.frontend_attributes",
        "mhlo.backend_config", "mhlo.attributes", "mhlo.version", "xla_shape", "result_layout", "result_layouts",
        "operand_layouts" };
    for (size_t i = 0; i < COUNTOF(known); i++)
        if (mtext(a->key, a->klen, known[i]))
            return true;
    return false;
}

static void frontend_pair(struct str *s, const struct mattr *a)
{
    str_adds(s, s->n ? "," : "");
    str_add(s, a->key, a->klen);
    str_adds(s, "=\"");
    const char *p = a->val ? a->val : "true";
    uint32_t n = a->val ? a->vlen : 4;
    if (n >= 2 && *p == '"' && p[n - 1] == '"') {
        p++;
        n -= 2;
        mlir_add_escaped(s, p, n, false);
    } else {
        for (uint32_t i = 0; i < n; i++) {
            if (p[i] == '"' || p[i] == '\\')
                str_addc(s, '\\');
            str_addc(s, p[i] == '\n' ? ' ' : p[i]);
        }
    }
    str_addc(s, '"');
}

static void frontend_pairs(struct str *s, const struct mattr *dict)
{
    const char *p = dict->val, *end = dict->val + dict->vlen;
    struct mattr in;
    while (mdict_next(&p, end, &in))
        frontend_pair(s, &in);
}

void mlir_dict_frontend(struct mlir *r, const char *text, uint32_t len, struct instr *in)
{
    struct mattr a;
    struct str s = STR_IN(&r->m->arena);
    if (text && mdict_find(text, len, "mhlo.frontend_attributes", &a) && a.val)
        frontend_pairs(&s, &a);
    if (r->remark)
        frontend_pair(&s, r->remark);
    in->frontend = s.n ? str_text(&s) : NULL;
    in->frontend_len = (uint32_t)s.n;
}

/* mhlo.frontend_attributes, and attributes of dialects that mean nothing here (they have a dot). */
static void frontend_of(struct mlir *r, const struct mop *op)
{
    r->frontend = NULL;
    r->nfrontend = 0;
    struct str s = STR_IN(&r->m->arena);
    if (r->remark)
        frontend_pair(&s, r->remark);
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const struct mattr *a = &op->attrs[i];
        if (mtext(a->key, a->klen, "mhlo.frontend_attributes") && a->val) {
            frontend_pairs(&s, a);
        } else if (a->klen && memchr(a->key, '.', a->klen) && !known_key(a)) {
            frontend_pair(&s, a);
        }
    }
    if (s.n) {
        r->frontend = str_text(&s);
        r->nfrontend = (uint32_t)s.n;
    }
}

bool mlir_emit(struct mlir *r, struct mop *op)
{
    instr_id *v;
    const struct sharding_note *note = NULL;
    r->emitting = op;
    r->out.n = 0;
    mlir_metadata(r, op->loc, op->nloc, &r->metadata, &r->nmetadata);
    r->set_sharding.i = 0;
    r->remark = NULL;
    if (op->nresults && !mlir_op_sharding(r, op, result_shape(r, op), &r->set_sharding, &note))
        return false;
    frontend_of(r, op);
    r->set_note = note;
    if (!operands(r, op, &v))
        return false;
    switch ((enum mkind)op->kind) {
    case M_HLO:
    case M_IF:
        return op->kind == M_IF ? need(r, op, 1, 2) && emit_branches(r, op, v) : emit_hlo(r, op, v);
    case M_CALL:
    case M_COMPOSITE: return emit_call(r, op, v);
    case M_CUSTOM: return emit_custom(r, op, v);
    case M_RAW:
        mspread(r, memit(r, (enum op_kind)op->hlo, result_shape(r, op), op->noperands, v, op->nraw, op->raw), op);
        return true;
    case M_CHLO: {
        instr_id i;
        if (!mlir_chlo(r, op, &i))
            return false;
        mspread(r, i, op);
        return true;
    }
    case M_UNKNOWN: return emit_unknown(r, op, v);
    case M_NONE:
    case M_CONSTANT:
    case M_RETURN:
    case M_MODULE:
    case M_FUNC:
    case M_MESH:
    case M_CONSTRAINT:
    case M_MANUAL:
    case M_NAMED:
    case M_GROUP:
    case M_IDENTITY: break;
    }
    return true;
}
