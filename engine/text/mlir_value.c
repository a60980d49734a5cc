/* Values of StableHLO text as instructions: their names, constants where they are used, results. */
#include "text/mlir_emit.h"

#include "base/open.h"

/* ---- instructions ------------------------------------------------------------------------------ */

instr_id memit(struct mlir *r, enum op_kind op, shape_id shape, int64_t n, const instr_id *operands,
               int nattrs, const struct attr *attrs)
{
    instr_id i = instr_new(r->m, r->comp, op, shape, n, operands, 0, NULL);
    struct instr *in = instr_at(r->m, i);
    in->nattrs = (uint8_t)nattrs;
    in->attrs = share_attrs(&r->share, attrs, nattrs);
    in->metadata = r->metadata;
    in->metadata_len = r->metadata ? r->nmetadata : 0;
    if (r->emitting) {
        in->at = mspan(r, r->emitting->at, r->emitting->nat);
        in->frontend = r->frontend;
        in->frontend_len = r->frontend ? r->nfrontend : 0;
    }
    return i;
}

struct attr mattr_ints(struct mlir *r, enum attr_key k, int n, const int64_t *v)
{
    struct attr a = { .key = (uint8_t)k, .type = (uint8_t)attr_type_of(k), .n = (uint32_t)n };
    a.ints = share_ints(&r->share, v, n);
    return a;
}

static void mark_names(struct mlir *r, comp_id c, bool taken)
{
    const struct computation *k = c.i ? comp_at(r->m, c) : NULL;
    for (uint32_t i = k ? k->first.i : 0; i && i <= k->last.i; i++) {
        const struct instr *in = instr_at(r->m, (instr_id){ i });
        if (in->comp.i != c.i || in->name.i / 8 >= r->nnamed)
            continue;
        uint8_t bit = (uint8_t)(1u << in->name.i % 8);
        r->named[in->name.i / 8] = (uint8_t)(taken ? r->named[in->name.i / 8] | bit : r->named[in->name.i / 8] & ~bit);
    }
}

/* Whether an instruction of this computation has the name; from now on one has. */
static bool name_taken(struct mlir *r, name_id id)
{
    if (id.i / 8 >= r->nnamed) {
        uint32_t n = r->nnamed ? r->nnamed : 1024;
        while (n <= id.i / 8)
            n *= 2;
        uint8_t *v = ARENA_ARRAY(&r->tmp, uint8_t, n);
        if (r->nnamed)
            memcpy(v, r->named, r->nnamed);
        r->named = v;
        r->nnamed = n;
    }
    if (r->named_comp.i != r->comp.i) {
        mark_names(r, r->named_comp, false);
        mark_names(r, r->comp, true);
        r->named_comp = r->comp;
    }
    uint8_t *at = &r->named[id.i / 8], bit = (uint8_t)(1u << id.i % 8);
    bool taken = *at & bit;
    *at |= bit;
    return taken;
}

/* What `%5` of a dot is called: dot.5; `%arg0`, `%cst_1` keep their names. Two of one name in a
 * computation (of inlined regions): the later is named when printed. */
void memit_name(struct mlir *r, instr_id i, enum op_kind op, const char *name, uint32_t n)
{
    struct instr *in = instr_at(r->m, i);
    char s[320]; /* an opcode's name, a dot, 200 letters */
    if (in->name.i || n == 0 || n > 200 || mlir_nameless(name, n))
        return;
    size_t len = 0;
    if (mis(name[0], MC_DIGIT)) {
        for (const char *o = op_name(op); *o && len < 99; o++)
            s[len++] = *o;
        s[len++] = '.';
    }
    for (uint32_t k = 0; k < n; k++)
        s[len++] = (mis(name[k], MC_WORD) && name[k] != '$') || name[k] == '-' ? name[k] : '_';
    name_id id = name_put(r->c, s, len);
    if (!name_taken(r, id))
        in->name = id;
}

void mset(struct mlir *r, uint32_t v, instr_id i)
{
    if (r->probing)
        return;
    v = mresolve(r, v);
    struct mval *x = mval(r, v);
    x->link = i.i;
    if (!x->nname)
        return;
    /* What a region captures is called there as outside of it. */
    const struct mop *def = mdef(r, x);
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
    memit_name(r, i, op, mname(r, x), x->nname);
}

static size_t constant_size(const struct mlir *r, const struct mconst *k)
{
    const struct shape *s = shape_get(r->c, k->shape);
    return k->elided ? 0 : (size_t)dtype_bytes(s->dtype) * (size_t)(k->splat ? s->count > 0 : s->count);
}

static bool built_here(const struct mlir *r, const struct mval *x)
{
    instr_id i = minstr(x);
    return i.i && instr_at(r->m, i)->comp.i == r->comp.i;
}

/* The same constant in the same computation, as an instruction; none: it is the first. */
static instr_id emitted_before(struct mlir *r, uint32_t v)
{
    const struct mconst *k = mcst(r, mval(r, v));
    size_t size = constant_size(r, k);
    uint64_t key = hash_bytes(k->data ? k->data : "", size,
                              hash_u64((uint64_t)r->comp.i << 32 | (k->shape.i * 2u + k->splat))), at;
    if (!r->emitted.arena)
        map_init(&r->emitted, &r->tmp);
    if (map_get(&r->emitted, key, &at)) {
        const struct mval *x = mval(r, (uint32_t)at);
        const struct mconst *o = mcst(r, x);
        bool same = built_here(r, x) && o->shape.i == k->shape.i && o->splat == k->splat && !o->elided &&
                    !k->elided && (size == 0 || memcmp(o->data, k->data, size) == 0);
        return same ? minstr(x) : (instr_id){ 0 };
    }
    map_put(&r->emitted, key, v);
    return (instr_id){ 0 };
}

/* A value that turns out to be a constant that is there already. A splat's name is its scalar's. */
static instr_id share_constant(struct mlir *r, uint32_t v, instr_id i)
{
    struct mval *x = mval(r, v);
    x->link = i.i;
    instr_id named = instr_at(r->m, i)->op == OP_BROADCAST ? instr_at(r->m, i)->operands[0] : i;
    if (x->nname)
        memit_name(r, named, (enum op_kind)instr_at(r->m, named)->op, mname(r, x), x->nname);
    return i;
}

static instr_id constant_instr(struct mlir *r, uint32_t v)
{
    const struct mconst *k = mcst(r, mval(r, v));
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
    if (mval(r, v)->nname)
        instr_at(r->m, i)->at = mspan(r, mname(r, mval(r, v)), mval(r, v)->nname);
    if (spread) {
        struct attr a = mattr_ints(r, ATTR_DIMENSIONS, 0, NULL);
        if (mval(r, v)->nname)
            memit_name(r, i, OP_CONSTANT, mname(r, mval(r, v)), mval(r, v)->nname);
        i = memit(r, OP_BROADCAST, k->shape, 1, &i, 1, &a);
    }
    r->metadata = meta;
    r->nmetadata = nmeta;
    r->emitting = op;
    struct mval *x = mval(r, v);
    if (spread && x->nname && mis(*mname(r, x), MC_DIGIT)) { /* its name is its scalar's: so it prints as one */
        x->link = i.i;
    } else {
        mset(r, v, i);
    }
    return i;
}

instr_id mvalue(struct mlir *r, uint32_t v)
{
    if (r->probing)
        return mprobe_value(r, mval(r, v)->shape);
    v = mresolve(r, v);
    const struct mval *x = mval(r, v);
    if (built_here(r, x))
        return minstr(x);
    if (x->is_cst)
        return constant_instr(r, v);
    const char *at = r->emitting ? r->emitting->at : r->base;
    MFAIL(r, at, r->emitting ? r->emitting->nat : 1, "'%%%.*s' is not available here", (int)x->nname,
          x->nname ? mname(r, x) : "");
    return (instr_id){ 0 };
}

bool memit_operands(struct mlir *r, const struct mop *op, instr_id **out)
{
    if (op->noperands >= r->capoperands) { /* one list for all: an instruction copies its operands */
        r->capoperands = op->noperands * 2 + 64;
        r->operand_list = ARENA_ARRAY(&r->tmp, instr_id, r->capoperands);
    }
    *out = r->operand_list;
    memset(*out, 0, (op->noperands + 1) * sizeof **out);
    bool loop = op->kind == M_HLO && op->hlo == OP_WHILE && op->nregions == 2;
    for (uint32_t k = 0; k < op->noperands; k++) {
        if (loop && mval(r, op->regions[1]->arg0 + k)->is_alias)
            continue; /* not carried: its regions use the value itself */
        (*out)[k] = mvalue(r, op->operands[k]);
        if (!(*out)[k].i)
            return false;
    }
    return true;
}

shape_id memit_result_shape(struct mlir *r, const struct mop *op)
{
    if (op->nresults == 1)
        return mval(r, op->result)->shape;
    shape_id *v = ARENA_ARRAY(&r->scratch, shape_id, op->nresults + 1);
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
    if (r->probing)
        return;
    mnum_attach_sharding(r, tuple);
    if (op->nresults == 1) {
        mset(r, op->result, tuple);
        return;
    }
    for (uint32_t k = 0; k < op->nresults; k++) {
        struct attr a = attr_int(ATTR_INDEX, k);
        instr_id e = memit(r, OP_GET_TUPLE_ELEMENT, mval(r, op->result + k)->shape, 1, &tuple, 1, &a);
        if (!mval(r, op->result + k)->is_alias)
            mval(r, op->result + k)->link = e.i;
    }
    if (op->nresults && mval(r, op->result)->nname)
        memit_name(r, tuple, (enum op_kind)instr_at(r->m, tuple)->op, mname(r, mval(r, op->result)),
                  mval(r, op->result)->nname);
}
