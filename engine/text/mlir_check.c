/* Operations that become no instruction, since nothing uses their results or a simplification took their
 * place, must be right all the same. Each is built alone in a module of its own, the probe, with parameters
 * in place of its operands, and checked there by the rules that check every HLO instruction. */
#include "text/mlir_emit.h"

enum { PROBE_MOST = 4096 };

static void new_probe(struct mlir *r)
{
    if (r->held->probe) {
        r->held->probe->source = NULL; /* a loan */
        module_free(r->held->probe);
        r->held->probe = NULL;
    }
    r->held->probe = module_new(r->c, r->m->name);
    r->held->probe->source = r->src;
    r->probe_params = (struct map){ 0 };
}

instr_id mprobe_value(struct mlir *r, shape_id shape)
{
    uint64_t i;
    if (!r->probe_params.arena)
        map_init(&r->probe_params, &r->m->arena);
    if (map_get(&r->probe_params, shape.i, &i))
        return (instr_id){ (uint32_t)i };
    instr_id p = instr_new(r->m, (comp_id){ 1 }, OP_PARAMETER, shape, 0, NULL, 0, NULL);
    map_put(&r->probe_params, shape.i, p.i);
    return p;
}

static instr_id stand_in(struct mlir *r, comp_id c, enum op_kind op, shape_id shape)
{
    return instr_new(r->m, c, op, shape, 0, NULL, 0, NULL);
}

/* `applies stablehlo.add`: two scalars for each array, old values first. */
static comp_id applied_comp(struct mlir *r, const struct mop *op)
{
    comp_id c = comp_new(r->m, (name_id){ 0 });
    uint32_t n = op->noperands / 2;
    shape_id *types = ARENA_ARRAY(&r->m->arena, shape_id, (int64_t)n + 1);
    for (uint32_t k = 0; k < 2 * n; k++) {
        types[k % n] = shape_array(r->c, mshape(r, op->operands[n + k % n])->dtype, 0, NULL);
        struct attr number = attr_int(ATTR_INDEX, k);
        instr_new(r->m, c, OP_PARAMETER, types[k % n], 0, NULL, 1, &number);
    }
    comp_finish(r->m, c, stand_in(r, c, OP_CUSTOM_CALL, n == 1 ? types[0] : shape_tuple(r->c, n, types)));
    return c;
}

comp_id mprobe_comp(struct mlir *r, const struct mop *op, uint32_t k)
{
    if (k >= op->nregions)
        return op->kind == M_HLO && op->hlo == OP_REDUCE && op->noperands >= 2 && mattr(op, "applies")
                   ? applied_comp(r, op) : (comp_id){ 0 };
    const struct mregion *g = op->regions[k];
    const struct mop *ret = g->last;
    comp_id c = comp_new(r->m, (name_id){ 0 });
    for (uint32_t a = 0; a < g->nargs; a++) {
        struct attr number = attr_int(ATTR_INDEX, a);
        instr_new(r->m, c, OP_PARAMETER, mval(r, g->arg0 + a)->shape, 0, NULL, 1, &number);
    }
    shape_id *types = ARENA_ARRAY(&r->m->arena, shape_id, (int64_t)ret->noperands + 1);
    for (uint32_t a = 0; a < ret->noperands; a++)
        types[a] = mval(r, ret->operands[a])->shape;
    shape_id whole = ret->noperands == 1 ? types[0] : shape_tuple(r->c, ret->noperands, types);
    comp_finish(r->m, c, stand_in(r, c, OP_CUSTOM_CALL, whole));
    return c;
}

/* ---- loops and branches ------------------------------------------------------------------------- */

static bool wrong_type(struct mlir *r, const struct mop *op, const char *what, uint32_t k, shape_id is, shape_id want)
{
    return MFAIL(r, op->at, op->nat, "%s %u is a %s, expected a %s", what, k, mtype_text(r, is), mtype_text(r, want));
}

static bool check_loop(struct mlir *r, const struct mop *op)
{
    const struct mregion *cond = op->regions[0], *body = op->regions[1];
    const struct mop *test = cond->last, *next = body->last;
    if (cond->nargs != op->noperands || body->nargs != op->noperands || next->noperands != op->noperands)
        return MFAIL(r, op->at, op->nat, "this loop carries %u values, but its regions take %u and %u and give %u back",
                     op->noperands, cond->nargs, body->nargs, next->noperands);
    for (uint32_t k = 0; k < op->noperands; k++) {
        shape_id s = mval(r, op->operands[k])->shape;
        if (!shape_same(r->c, mval(r, body->arg0 + k)->shape, s))
            return wrong_type(r, op, "the loop's argument", k, mval(r, body->arg0 + k)->shape, s);
        if (!shape_same(r->c, mval(r, next->operands[k])->shape, s))
            return wrong_type(r, next, "the value given back as number", k, mval(r, next->operands[k])->shape, s);
    }
    const struct shape *s = test->noperands == 1 ? mshape(r, test->operands[0]) : NULL;
    if (!s || s->kind != SHAPE_ARRAY || s->rank || s->dtype != DTYPE_PRED)
        return MFAIL(r, test->at, test->nat, "the condition of a loop gives one tensor<i1> back");
    return true;
}

static bool check_branches(struct mlir *r, const struct mop *op)
{
    for (uint32_t k = 0; k < op->nregions; k++) {
        const struct mop *ret = op->regions[k]->last;
        if (ret->noperands != op->nresults)
            return MFAIL(r, ret->at, ret->nat, "this branch gives %u values back, the operation has %u results",
                         ret->noperands, op->nresults);
        for (uint32_t j = 0; j < op->nresults; j++)
            if (!shape_same(r->c, mval(r, ret->operands[j])->shape, mval(r, op->result + j)->shape))
                return wrong_type(r, ret, "the value given back as number", j, mval(r, ret->operands[j])->shape,
                                  mval(r, op->result + j)->shape);
    }
    return true;
}

/* ---- one operation ------------------------------------------------------------------------------ */

static bool has_regions(const struct mop *op)
{
    for (uint32_t k = 0; k < op->nregions; k++)
        if (op->regions[k]->into || !op->regions[k]->last || op->regions[k]->last->kind != M_RETURN)
            return false;
    return true;
}

static void give_names(struct mlir *r, const struct mop *op, uint32_t from)
{
    const struct mval *x = op->nresults ? mval(r, op->result) : NULL;
    for (uint32_t i = from; x && x->nname && i <= module_ninstrs(r->m); i++) {
        struct instr *in = instr_at(r->m, (instr_id){ i });
        struct str s = STR_IN(&r->m->arena); /* as memit_name has it */
        if (mis(*mname(r, x), MC_DIGIT))
            str_addf(&s, "%s.", op_name((enum op_kind)in->op));
        str_addf(&s, "%.*s", (int)min_i64(x->nname, 64), mname(r, x));
        in->name = name_put(r->c, str_text(&s), s.n);
    }
}

static bool check_instrs(struct mlir *r, const struct mop *op, uint32_t from)
{
    bool named = false;
    for (uint32_t i = from; i <= module_ninstrs(r->m); i++) {
        const struct instr *in = instr_at(r->m, (instr_id){ i });
        if (in->comp.i != 1 || in->op == OP_PARAMETER)
            continue;
        if (!named)
            give_names(r, op, from);
        named = true;
        if (instr_verify(r->m, (instr_id){ i }, r->d))
            continue;
        r->nerrors++;
        return false;
    }
    return true;
}

/* All that the check of an operation without regions depends on. */
static uint64_t signature(const struct mlir *r, const struct mop *op)
{
    uint64_t h = (uint64_t)op->hlo << 32 | (uint64_t)op->noperands << 16 | op->nresults;
    for (uint32_t k = 0; k < op->noperands; k++)
        h = hash_u64(h ^ mval(r, op->operands[k])->shape.i);
    for (uint32_t k = 0; k < op->nresults; k++)
        h = hash_u64(h ^ mval(r, op->result + k)->shape.i);
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const struct mattr *a = &op->attrs[i];
        h = hash_bytes(a->key, a->klen, h);
        h = hash_bytes(a->val ? a->val : "", a->vlen, h);
    }
    return h | 1;
}

bool mlir_passes(struct mlir *r, struct mop *op)
{
    int nerrors = r->nerrors;
    struct diag *d = r->d;
    r->d = NULL;
    bool ok = mlir_check(r, op);
    r->d = d;
    r->nerrors = nerrors;
    return ok;
}

bool mlir_check(struct mlir *r, struct mop *op)
{
    if (op->kind == M_IF)
        return !has_regions(op) || check_branches(r, op);
    if (op->kind != M_HLO || !has_regions(op) || op->hlo == OP_TUPLE || op->hlo == OP_OPT_BARRIER ||
        op->hlo == OP_RNG || op->hlo == OP_ALL_TO_ALL || op->hlo == OP_INFEED || op->hlo == OP_OUTFEED ||
        op->hlo == OP_SEND || op->hlo == OP_RECV)
        return true;
    if (op->hlo == OP_WHILE)
        return op->nregions != 2 || check_loop(r, op);
    if (op->hlo == OP_CONDITIONAL)
        return check_branches(r, op);
    uint64_t what = op->nregions ? 0 : signature(r, op), *known = &r->checked[what >> 1 & (CHECKED - 1)];
    if (what && *known == what)
        return true;
    struct module *m = r->m;
    comp_id comp = r->comp;
    if (!r->held->probe || module_ninstrs(r->held->probe) > PROBE_MOST)
        new_probe(r);
    r->m = r->held->probe;
    r->comp = module_ncomps(r->m) ? (comp_id){ 1 } : comp_new(r->m, (name_id){ 0 });
    r->probing = true;
    uint32_t from = module_ninstrs(r->m) + 1;
    r->metadata = r->frontend = NULL;
    r->nmetadata = r->nfrontend = 0;
    bool ok = mlir_emit(r, op) && check_instrs(r, op, from);
    r->probing = false;
    r->m = m;
    r->comp = comp;
    r->emitting = NULL;
    if (ok && what)
        *known = what;
    return ok;
}
