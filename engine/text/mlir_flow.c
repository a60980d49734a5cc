/* Operations with computations of their own, calls and custom calls. */
#include "text/mlir_emit.h"

/* ---- control flow ------------------------------------------------------------------------------ */

instr_id memit_tuple(struct mlir *r, int64_t n, const instr_id *v)
{
    if (n == 1)
        return v[0];
    shape_id *s = ARENA_ARRAY(&r->scratch, shape_id, n + 1);
    for (int64_t k = 0; k < n; k++)
        s[k] = instr_at(r->m, v[k])->shape;
    return memit(r, OP_TUPLE, shape_tuple(r->c, n, s), n, v, 0, NULL);
}

bool memit_while(struct mlir *r, struct mop *op, const instr_id *v)
{
    VEC(instr_id) in = { 0 };
    VEC(uint32_t) result = { 0 };
    const struct mregion *body = op->regions[1];
    for (uint32_t k = 0; k < op->noperands; k++)
        if (!mval(r, body->arg0 + k)->is_alias) {
            vec_push(&r->scratch, &in, v[k]);
            vec_push(&r->scratch, &result, k);
        }
    for (int64_t k = 0; k < body->captured.n; k++) {
        instr_id i = mvalue(r, body->captured.v[k]);
        if (!i.i)
            return false;
        vec_push(&r->scratch, &in, i);
    }
    instr_id t = memit_tuple(r, in.n, in.v);
    mnum_add(r, attr_comp(ATTR_CONDITION, mnum_region_comp(r, op, 0)));
    mnum_add(r, attr_comp(ATTR_BODY, mnum_region_comp(r, op, 1)));
    instr_id w = memit(r, OP_WHILE, instr_at(r->m, t)->shape, 1, &t, (int)r->out.n, r->out.v);
    mnum_attach_sharding(r, w);
    if (op->nresults && mval(r, op->result)->nname)
        memit_name(r, w, OP_WHILE, mname(r, mval(r, op->result)), mval(r, op->result)->nname);
    for (int64_t k = 0; k < result.n; k++) {
        uint32_t res = op->result + result.v[k];
        instr_id e = w;
        if (in.n > 1) {
            struct attr a = attr_int(ATTR_INDEX, k);
            e = memit(r, OP_GET_TUPLE_ELEMENT, mval(r, res)->shape, 1, &w, 1, &a);
        }
        mval(r, res)->link = e.i;
    }
    return true;
}

bool memit_branches(struct mlir *r, struct mop *op, const instr_id *v)
{
    VEC(instr_id) in = { 0 };
    VEC(comp_id) comps = { 0 };
    vec_push(&r->scratch, &in, v[0]);
    for (uint32_t k = 0; k < op->nregions; k++) {
        const struct mregion *g = op->regions[k];
        VEC(instr_id) c = { 0 };
        for (int64_t i = 0; i < g->captured.n; i++) {
            instr_id x = mvalue(r, g->captured.v[i]);
            if (!x.i)
                return false;
            vec_push(&r->scratch, &c, x);
        }
        instr_id t = memit_tuple(r, c.n, c.v);
        vec_push(&r->scratch, &in, t);
        vec_push(&r->scratch, &comps, g->comp);
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
    mspread(r, memit(r, OP_CONDITIONAL, memit_result_shape(r, op), in.n, in.v, (int)r->out.n, r->out.v), op);
    return true;
}

bool memit_call(struct mlir *r, struct mop *op, const instr_id *v)
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
    mspread(r, memit(r, OP_CALL, memit_result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
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

bool memit_custom(struct mlir *r, struct mop *op, const instr_id *v)
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
        mspread(r, memit(r, OP_ERF, memit_result_shape(r, op), 1, v, 0, NULL), op);
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
        mspread(r, memit(r, OP_TOPK, memit_result_shape(r, op), 1, v, (int)r->out.n, r->out.v), op);
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
    mspread(r, memit(r, OP_CUSTOM_CALL, memit_result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
    return true;
}

/* Of a dialect that nothing is known of: opaque, with a warning for the first. */
bool memit_unknown(struct mlir *r, struct mop *op, const instr_id *v)
{
    if (op->nregions)
        return MFAIL(r, op->at, op->nat, "'%.*s' has regions and is of a dialect that has no counterpart in HLO",
                     (int)op->nname, op->name);
    if (!r->told_unknown) {
        diag_warn(r->d, r->src, mspan(r, op->at, op->nat), "'%.*s' is not known here: it becomes an opaque custom "
                  "call (as do further ones)", (int)op->nname, op->name);
        r->told_unknown = true;
    }
    mnum_add(r, attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, arena_strndup(&r->scratch, op->name, op->nname)));
    mspread(r, memit(r, OP_CUSTOM_CALL, memit_result_shape(r, op), op->noperands, v, (int)r->out.n, r->out.v), op);
    return true;
}
