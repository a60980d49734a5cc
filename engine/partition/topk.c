/* The custom call TopK (S-152): every shard's k largest, gathered, and of those the k largest. */
#include "partition/internal.h"

#include <math.h>
#include <string.h>

enum { BATCH, SORT };

static instr_id lowest(struct spmd *s, enum dtype t)
{
    instr_id x;
    if (!emit_identity(s, OP_MAXIMUM, t, &x))
        x = emit_zero(s, t);
    return x;
}

static instr_id compared(struct spmd *s, const char *direction, instr_id a, instr_id b)
{
    bool real = dtype_kind(node_shape(s, a)->dtype) == DTYPE_KIND_FLOAT;
    struct attr at[2] = { attr_ident(s->out, ATTR_DIRECTION, direction),
                          attr_ident(s->out, ATTR_COMPARE_TYPE, "TOTALORDER") };
    instr_id ops[2] = { a, b };
    return emit(s, OP_COMPARE, shape_array(s->ir, DTYPE_PRED, 0, NULL), 2, ops, real ? 2 : 1, at);
}

/* Larger values first; of equal ones the lower index. */
static comp_id comparator(struct spmd *s, enum dtype value, enum dtype index)
{
    static const char name[] = "larger_first";
    comp_id outer = s->comp, c = comp_new(s->out, name_put(s->ir, name, sizeof name - 1));
    s->comp = c;
    shape_id v = shape_array(s->ir, value, 0, NULL), i = shape_array(s->ir, index, 0, NULL);
    instr_id a = emit_parameter(s, 0, v), b = emit_parameter(s, 1, v);
    instr_id x = emit_parameter(s, 2, i), y = emit_parameter(s, 3, i);
    instr_id tie = emit_arith(s, OP_AND, compared(s, "EQ", a, b), compared(s, "LT", x, y));
    comp_finish(s->out, c, emit_arith(s, OP_OR, compared(s, "GT", a, b), tie));
    s->comp = outer;
    return c;
}

/* Sorts values and indices along the last dimension and keeps the first k of each. */
static instr_id best_of(struct spmd *s, instr_id values, instr_id indices, int64_t k)
{
    const struct shape *sh = node_shape(s, values);
    int64_t dim = SORT, start[2] = { 0, 0 }, limit[2] = { sh->dims[BATCH], k };
    struct attr a[3] = { attr_ints(s->out, ATTR_DIMENSIONS, 1, &dim),
                         { .key = ATTR_IS_STABLE, .type = ATTR_TYPE_BOOL, .i = 1 },
                         attr_comp(ATTR_TO_APPLY, comparator(s, sh->dtype,
                                                             node_shape(s, indices)->dtype)) };
    instr_id ops[2] = { values, indices };
    shape_id both[2] = { instr_at(s->out, values)->shape, instr_at(s->out, indices)->shape };
    instr_id sorted = emit(s, OP_SORT, shape_tuple(s->ir, 2, both), 2, ops, 3, a);
    instr_id parts[2];
    for (int i = 0; i < 2; i++)
        parts[i] = emit_slice(s, emit_gte(s, sorted, i), start, limit, NULL);
    return emit_tuple(s, 2, parts);
}

static bool splits(struct spmd *s, instr_id source, struct pval v, int64_t k)
{
    const struct shape *out = instr_shape(s->src, source), *base = shape_get(s->ir, v.base);
    if (out->kind != SHAPE_TUPLE || out->nelems != 2 || base->kind != SHAPE_ARRAY ||
        base->rank != 2 || !sharding_is_tiled(s->sh, v.sharding) ||
        sharding_get(s->sh, v.sharding)->tiles.naxes != 2)
        return false;
    return k < ceil_div(base->dims[SORT], sharding_tile(s->sh, v.sharding, SORT));
}

void partition_topk(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct pval v = operand_value(s, source, 0);
    const struct shape *out = shape_get(s->ir, in->shape);
    int64_t k = out->kind == SHAPE_TUPLE && out->nelems
                    ? shape_get(s->ir, out->elems[0])->dims[SORT] : 0;
    if (!splits(s, source, v, k)) {
        partition_default(s, source, NULL);
        return;
    }
    const struct shape *base = shape_get(s->ir, v.base);
    int64_t n = sharding_tile(s->sh, v.sharding, SORT), per = ceil_div(base->dims[SORT], n);
    enum dtype value = base->dtype, index = shape_get(s->ir, out->elems[1])->dtype;
    s->reason = "each shard's candidates of a top-k (S-152)";
    v = pval_mask(s, v, lowest(s, value), 0, (uint64_t)1 << BATCH);
    int64_t local[2] = { node_shape(s, v.local)->dims[BATCH], k };
    int64_t all[2] = { base->dims[BATCH], k * n };
    shape_id parts[2] = { shape_array(s->ir, value, 2, local), shape_array(s->ir, index, 2, local) };
    instr_id mine = emit_clone(s, source, shape_tuple(s->ir, 2, parts), 1, &v.local);
    instr_id offset = emit_arith(s, OP_MULTIPLY, ordinal_node(s, v.sharding, SORT),
                                 emit_const_i(s, DTYPE_S32, per));
    instr_id at = emit_arith(
        s, OP_ADD, emit_gte(s, mine, 1),
        emit_broadcast_scalar(s, emit_convert(s, offset, index), 2, local));
    int sort = SORT;
    sharding_id whole = sharding_replicate_dims(s->sh, v.sharding, 1, &sort);
    struct pval pv = { emit_gte(s, mine, 0), shape_array(s->ir, value, 2, all), v.sharding };
    struct pval pi = { at, shape_array(s->ir, index, 2, all), v.sharding };
    instr_id best = best_of(s, reshard(s, pv, whole).local, reshard(s, pi, whole).local, k);
    struct pval r = { best, in->shape, sharding_tuple_of(s->sh, 2, whole) };
    set_value(s, source, reshard(s, r, source_sharding(s, source)));
}
