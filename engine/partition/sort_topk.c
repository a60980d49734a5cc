/* A sort of which only the first k are used (S-151, and S-150 2): every shard sorts its own and keeps
 * k; those are gathered and sorted again. Top-k as front ends write it: values in their total order,
 * larger first, beside an iota of the positions. */
#include "partition/ops.h"

/* ---- the comparator -------------------------------------------------------------------------------- */

static const struct instr *at(const struct spmd *s, instr_id i)
{
    return instr_at(s->src, i);
}

static bool is_constant(const struct spmd *s, instr_id i, int64_t v)
{
    const struct instr *in = at(s, i);
    return in->op == OP_CONSTANT && in->literal && !in->literal->elided &&
           shape_get(s->ir, in->shape)->count == 1 && (literal_get_i(s->src, in->literal, 0) & 0xffffffff) == v;
}

/* The parameter below bitcasts and a convert to f32; none: something else is. */
static instr_id below_bits(const struct spmd *s, instr_id i)
{
    if (at(s, i)->op == OP_BITCAST_CONVERT)
        i = at(s, i)->operands[0];
    else
        return (instr_id){ 0 };
    if (at(s, i)->op == OP_CONVERT)
        i = at(s, i)->operands[0];
    return at(s, i)->op == OP_PARAMETER ? i : (instr_id){ 0 };
}

static bool is_compare(const struct spmd *s, instr_id i, const char *direction)
{
    return at(s, i)->op == OP_COMPARE && instr_is(s->src, at(s, i), ATTR_DIRECTION, direction);
}

/* select(bits < 0, bitcast(0x7fffffff - bits), bits): integers in the order of the float's values,
 * NaNs at both ends. The parameter it is made of; none: it is something else. */
static instr_id key_of(const struct spmd *s, instr_id i)
{
    const instr_id none = { 0 };
    if (at(s, i)->op != OP_SELECT)
        return none;
    const instr_id *o = at(s, i)->operands;
    if (!is_compare(s, o[0], "LT") || !is_constant(s, at(s, o[0])->operands[1], 0) || at(s, o[1])->op != OP_BITCAST_CONVERT)
        return none;
    instr_id p = below_bits(s, o[2]), sub = at(s, o[1])->operands[0];
    if (!p.i || at(s, sub)->op != OP_SUBTRACT || !is_constant(s, at(s, sub)->operands[0], 0x7fffffff))
        return none;
    bool same = below_bits(s, at(s, o[0])->operands[0]).i == p.i &&
                below_bits(s, at(s, sub)->operands[1]).i == p.i;
    return same ? p : none;
}

static bool is_parameter(const struct computation *c, instr_id i, uint32_t number)
{
    return number < c->nparams && c->params[number].i == i.i;
}

/* key(first) > key(second) of the values. */
static bool is_greater(const struct spmd *s, const struct computation *c, instr_id i, uint32_t first, uint32_t second)
{
    if (!is_compare(s, i, "GT"))
        return false;
    return is_parameter(c, key_of(s, at(s, i)->operands[0]), first) &&
           is_parameter(c, key_of(s, at(s, i)->operands[1]), second);
}

/* Greater values first; of equal ones any, or the lower index. */
static bool is_larger_first(const struct spmd *s, comp_id id)
{
    const struct computation *c = comp_at(s->src, id);
    instr_id r = c->root;
    if (c->nparams != 4)
        return false;
    if (is_greater(s, c, r, 0, 1))
        return true;
    if (at(s, r)->op != OP_SELECT)
        return false;
    const instr_id *o = at(s, r)->operands;
    return is_compare(s, o[0], "EQ") && is_greater(s, c, at(s, o[0])->operands[0], 0, 1) &&
           is_greater(s, c, at(s, o[0])->operands[1], 1, 0) && is_compare(s, o[1], "LT") &&
           is_parameter(c, at(s, o[1])->operands[0], 2) && is_parameter(c, at(s, o[1])->operands[1], 3) &&
           is_greater(s, c, o[2], 0, 1);
}

/* ---- the use --------------------------------------------------------------------------------------- */

/* How many along dim all uses of the sort's result `i` (a get-tuple-element) take from its front; 0:
 * not only that. */
static int64_t front_of(const struct spmd *s, instr_id i, int dim)
{
    int64_t k = 0;
    for (uint32_t u = 0; u < users_count(s->users, i); u++) {
        const struct instr *in = at(s, users_of(s->users, i)[u]);
        const struct attr *a = in->op == OP_SLICE ? instr_attr(in, ATTR_SLICE) : NULL;
        const struct shape *from = source_shape(s, i);
        for (int d = 0; a && d < from->rank; d++) {
            bool plain = a->ints[3 * d] == 0 && a->ints[3 * d + 2] == 1;
            if (!plain || (d != dim && a->ints[3 * d + 1] != from->dims[d]))
                return 0;
        }
        if (!a || (k && a->ints[3 * dim + 1] != k))
            return 0;
        k = a->ints[3 * dim + 1];
    }
    return k;
}

static int64_t front_of_all(const struct spmd *s, instr_id sort, int dim)
{
    int64_t k = 0;
    for (uint32_t u = 0; u < users_count(s->users, sort); u++) {
        instr_id g = users_of(s->users, sort)[u];
        int64_t n = at(s, g)->op == OP_GET_TUPLE_ELEMENT ? front_of(s, g, dim) : 0;
        if (n == 0 || (k && n != k))
            return 0;
        k = n;
    }
    return k;
}

/* S-151. k; 0: it is not the pattern. */
static int64_t topk_of(struct spmd *s, instr_id source, int dim)
{
    const struct instr *in = at(s, source);
    const struct attr *body = instr_attr(in, ATTR_TO_APPLY);
    if (in->noperands != 2 || !body || source_shape(s, source)->kind != SHAPE_TUPLE)
        return 0;
    const struct instr *iota = at(s, in->operands[1]);
    const struct shape *x = source_shape(s, in->operands[0]), *y = source_shape(s, in->operands[1]);
    if (iota->op != OP_IOTA || instr_int(iota, ATTR_IOTA_DIMENSION, -1) != dim || y->dtype != DTYPE_S32 ||
        (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16) || x->rank >= OPS_MAX_RANK)
        return 0;
    sharding_id sh = operand_value(s, source, 0).sharding;
    int64_t n = tiles_on(s, sh, dim);
    if (!sharding_is_tiled(s->sh, sh) || n == 1 || tiled_dims(s, sh, x->rank) != bit(dim) || sharding_is_manual_subgroup(s->sh, sh))
        return 0;
    int64_t k = front_of_all(s, source, dim);
    return k > 0 && k < ceil_div(x->dims[dim], n) && is_larger_first(s, body->comp) ? k : 0;
}

/* ---- the two sorts ------------------------------------------------------------------------------------ */

/* The value that sorts last: all bits set is the lowest NaN. */
static instr_id last_value(struct spmd *s, enum dtype t)
{
    instr_id bits = emit_const_i(s, t == DTYPE_BF16 ? DTYPE_S16 : DTYPE_S32, -1);
    return emit1(s, OP_BITCAST_CONVERT, shape_array(s->ir, t, 0, NULL), bits);
}

static instr_id sorted(struct spmd *s, instr_id source, const instr_id *ops)
{
    shape_id both[2] = { instr_at(s->out, ops[0])->shape, instr_at(s->out, ops[1])->shape };
    return emit_clone(s, source, shape_tuple(s->ir, 2, both), 2, ops);
}

bool sort_as_topk(struct spmd *s, instr_id source, int dim)
{
    int64_t k = topk_of(s, source, dim);
    if (k == 0)
        return false;
    const char *old = because(s, "each shard's candidates of a top-k (S-150)");
    struct pval v[2];
    instr_id ops[2], fill[2];
    v[0] = operand_value(s, source, 0);
    sharding_id sh = v[0].sharding;
    v[1] = operand_in(s, source, 1, sh);
    fill[0] = last_value(s, base_of(s, v[0])->dtype);
    fill[1] = emit_const_i(s, DTYPE_S32, INT32_MAX);
    for (int i = 0; i < 2; i++)
        ops[i] = pval_mask(s, v[i], fill[i], 0, ~bit(dim)).local;
    instr_id mine = sorted(s, source, ops);
    shape_id bases[2];
    for (int i = 0; i < 2; i++) {
        int64_t start[OPS_MAX_RANK] = { 0 }, limit[OPS_MAX_RANK], full[OPS_MAX_RANK];
        const struct shape *b = base_of(s, v[i]);
        instr_id part = emit_gte(s, mine, i);
        for (int d = 0; d < b->rank; d++) {
            limit[d] = d == dim ? k : b->dims[d];
            full[d] = d == dim ? k * tiles_on(s, sh, dim) : b->dims[d];
        }
        bases[i] = shape_array(s->ir, b->dtype, b->rank, full);
        ops[i] = replicate(s, pval_make(s, emit_slice(s, part, start, limit, NULL), bases[i], sh)).local;
    }
    struct pval r = { sorted(s, source, ops), shape_tuple(s->ir, 2, bases),
                      sharding_tuple_of(s->sh, 2, sharding_replicated(s->sh)) };
    set_value(s, source, reshard(s, r, source_sharding(s, source)));
    s->reason = old;
    return true;
}
