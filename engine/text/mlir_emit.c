/* Operations of StableHLO to HLO instructions, one by one, as XLA's builder would make them. */
#include "text/mlir_emit.h"

#include <stdio.h>

/* ---- dispatch ----------------------------------------------------------------------------------- */

bool memit_need(struct mlir *r, const struct mop *op, uint32_t lo, uint32_t regions)
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
    op->applied = comp_new(r->m, name_put(r->c, buf, (size_t)len));
    comp_at(r->m, op->applied)->at = mspan(r, op->at, op->nat);
    return true;
}

/* What it holds is made with the reduce itself: there are thousands of them, and until then the text's tree
 * is in memory. */
static void fill_applied(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "applies");
    const char *dot = memchr(a->val, '.', a->vlen), *name = dot ? dot + 1 : a->val, *frontend = r->frontend;
    enum op_kind k = op_find(name, (size_t)(a->val + a->vlen - name));
    uint32_t nfrontend = r->nfrontend;
    comp_id comp = r->comp;
    r->frontend = NULL;
    r->nfrontend = 0;
    r->comp = op->applied;
    shape_id s = shape_array(r->c, mshape(r, op->operands[0])->dtype, 0, NULL);
    instr_id p[2];
    for (int i = 0; i < 2; i++) {
        struct attr num = attr_int(ATTR_INDEX, i);
        p[i] = memit(r, OP_PARAMETER, s, 0, NULL, 1, &num);
    }
    comp_finish(r->m, r->comp, memit(r, k, s, 2, p, 0, NULL));
    r->comp = comp;
    r->frontend = frontend;
    r->nfrontend = nfrontend;
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
    case OP_BROADCAST: return memit_broadcast(r, op, v[0]);
    case OP_IOTA: return memit_iota(r, op);
    case OP_WHILE: return memit_need(r, op, 0, 2) && memit_while(r, op, v);
    case OP_CONDITIONAL: return memit_need(r, op, 1, op->nregions ? op->nregions : 1) && memit_branches(r, op, v);
    case OP_COMPARE:
        if (!mnum_add_compare(r, op))
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
        if (!mnum_add_slice(r, op))
            return false;
        break;
    case OP_PAD:
        if (!mnum_add_padding(r, op))
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
        if (!memit_need(r, op, 3, 1) || !mnum_add_scatter(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
        break;
    case OP_REDUCE:
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "dimensions", NULL))
            return false;
        c = op->applied.i && !r->probing ? op->applied : mnum_region_comp(r, op, 0);
        if (!c.i)
            return MFAIL(r, op->at, op->nat, "this reduce has no computation");
        if (c.i == op->applied.i && !r->probing)
            fill_applied(r, op);
        mnum_add(r, attr_comp(ATTR_TO_APPLY, c));
        break;
    case OP_MAP:
        if (!memit_need(r, op, 1, 1) || !mnum_add_ints(r, op, ATTR_DIMENSIONS, "dimensions", NULL))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
        break;
    case OP_REDUCE_WINDOW:
        if (!memit_need(r, op, 2, 1) || !mnum_add_reduce_window(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
        break;
    case OP_SELECT_AND_SCATTER:
        if (!memit_need(r, op, 3, 2) || !mnum_add_reduce_window(r, op))
            return false;
        mnum_add(r, attr_comp(ATTR_SELECT, mnum_region_comp(r, op, 0)));
        mnum_add(r, attr_comp(ATTR_SCATTER, mnum_region_comp(r, op, 1)));
        break;
    case OP_SORT: {
        int64_t d;
        if (!memit_need(r, op, 1, 1) || !mint_of(r, op, "dimension", NULL, -1, &d))
            return false;
        if (d < 0)
            d += mshape(r, op->operands[0])->rank;
        mnum_add(r, mattr_ints(r, ATTR_DIMENSIONS, 1, &d));
        if (mbool_of(op, "is_stable", false))
            mnum_add_bool(r, ATTR_IS_STABLE, true);
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
        break;
    }
    case OP_REDUCE_PRECISION:
        if (!mnum_add_bits(r, op))
            return false;
        break;
    case OP_FFT:
        if (!mnum_add_enum(r, op, ATTR_FFT_TYPE, "type", "fft_type", "") ||
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
        if (!mnum_add_enum(r, op, ATTR_TRANSPOSE_A, "transpose_a", NULL, ""))
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
        if (!mnum_add_epsilon(r, op))
            return false;
        break;
    case OP_GET_TUPLE_ELEMENT:
        if (!mnum_add_index(r, op))
            return false;
        break;
    case OP_OPT_BARRIER: {
        if (n == 0)
            return true;
        instr_id t = memit_tuple(r, n, v);
        mspread(r, memit(r, OP_OPT_BARRIER, instr_at(r->m, t)->shape, 1, &t, 0, NULL), op);
        return true;
    }
    case OP_ALL_REDUCE:
        if (!memit_need(r, op, 1, 1) || !mnum_add_channel(r, op) || !mnum_add_groups(r, op))
            return false;
        mnum_add_global_ids(r, op);
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
        break;
    case OP_REDUCE_SCATTER:
        if (!memit_need(r, op, 1, 1) || !mnum_add_channel(r, op) || !mnum_add_groups(r, op))
            return false;
        mnum_add_global_ids(r, op);
        if (!mnum_add_ints(r, op, ATTR_DIMENSIONS, "scatter_dimension", NULL))
            return false;
        mnum_add(r, attr_comp(ATTR_TO_APPLY, mnum_region_comp(r, op, 0)));
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
    case OP_RECV: return memit_unknown(r, op, v); /* transfers with the host: nothing to partition */
    default: break;
    }
    mspread(r, memit(r, k, memit_result_shape(r, op), n, v, (int)r->out.n, r->out.v), op);
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
    r->set_sharding.i = 0;
    r->remark = NULL;
    if (r->probing) {
        r->set_note = NULL;
        return memit_operands(r, op, &v) && emit_hlo(r, op, v);
    }
    mlir_metadata(r, op->loc ? r->base + op->loc : NULL, op->nloc, &r->metadata, &r->nmetadata);
    if (op->nresults && !mlir_op_sharding(r, op, memit_result_shape(r, op), &r->set_sharding, &note))
        return false;
    frontend_of(r, op);
    r->set_note = note;
    if (!memit_operands(r, op, &v))
        return false;
    switch ((enum mkind)op->kind) {
    case M_HLO:
    case M_IF:
        return op->kind == M_IF ? memit_need(r, op, 1, 2) && memit_branches(r, op, v) : emit_hlo(r, op, v);
    case M_CALL:
    case M_COMPOSITE: return memit_call(r, op, v);
    case M_CUSTOM: return memit_custom(r, op, v);
    case M_RAW:
        mspread(r, memit(r, (enum op_kind)op->hlo, memit_result_shape(r, op), op->noperands, v, op->raw->nattrs, op->raw->attrs), op);
        return true;
    case M_CHLO: {
        instr_id i;
        if (!mlir_chlo(r, op, &i))
            return false;
        mspread(r, i, op);
        return true;
    }
    case M_UNKNOWN: return memit_unknown(r, op, v);
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
