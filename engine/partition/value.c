/* Partitioned values, and where a device stands: offsets and ordinals as arithmetic on the partition
 * id (S-16, S-17, internals.md section 3), masks of the padding (S-50).
 */
#include "partition/internal.h"

#include <string.h>

#include "base/fail.h"

/* ---- which tile am I ------------------------------------------------------------------------------ */

int axis_digits(const struct spmd *s, struct tiling devices, int axis, struct digit *out)
{
    const struct order *o = order_get(s->sh, devices.order);
    if (o->explicit_)
        return -1;
    int64_t after = 1;
    for (int i = devices.naxes - 1; i > axis; i--)
        after *= devices.dims[i];
    int64_t top = after * devices.dims[axis], weight = o->ndevices;
    int n = 0;
    for (int k = 0; k < o->ndigits; k++) {
        struct digit g = o->digits[k];
        int64_t high = weight; /* the digit covers cell weights [weight / radix, weight) */
        weight /= g.radix;
        if (weight >= top || high <= after)
            continue;
        if (high > top) { /* its minor part only */
            if (high % top != 0 || top % weight != 0)
                return -1;
            g.radix = top / weight;
        }
        if (weight < after) { /* its major part only */
            if (after % weight != 0 || g.radix % (after / weight) != 0)
                return -1;
            g.stride *= after / weight;
            g.radix /= after / weight;
        }
        if (g.radix > 1)
            out[n++] = g;
    }
    return n;
}

static instr_id s32(struct spmd *s, int64_t v)
{
    return emit_const_i(s, DTYPE_S32, v);
}

static instr_id times(struct spmd *s, instr_id x, int64_t k)
{
    return k == 1 ? x : emit_arith(s, OP_MULTIPLY, x, s32(s, k));
}

static instr_id partition_id(struct spmd *s)
{
    return emit(s, OP_PARTITION_ID, shape_array(s->ir, DTYPE_U32, 0, NULL), 0, NULL, 0, NULL);
}

/* floor(pid / stride) mod radix, counted down when reversed. */
static instr_id digit_node(struct spmd *s, struct digit g, int64_t ndevices)
{
    instr_id x = emit_convert(s, partition_id(s), DTYPE_S32);
    if (g.stride > 1)
        x = emit_arith(s, OP_DIVIDE, x, s32(s, g.stride));
    if (g.stride * g.radix < ndevices)
        x = emit_arith(s, OP_REMAINDER, x, s32(s, g.radix));
    return g.reversed ? emit_arith(s, OP_SUBTRACT, s32(s, g.radix - 1), x) : x;
}

static instr_id number_node(struct spmd *s, int n, const struct digit *digits, int64_t ndevices)
{
    instr_id sum = { 0 };
    int64_t weight = 1;
    for (int k = n - 1; k >= 0; k--) {
        instr_id x = times(s, digit_node(s, digits[k], ndevices), weight);
        sum = sum.i ? emit_arith(s, OP_ADD, x, sum) : x;
        weight *= digits[k].radix;
    }
    return sum.i ? sum : s32(s, 0);
}

/* The axis ends inside a digit: the whole cell number, then its part. */
static instr_id cell_part_node(struct spmd *s, struct tiling t, int axis, const struct order *o)
{
    int64_t after = 1;
    for (int i = t.naxes - 1; i > axis; i--)
        after *= t.dims[i];
    instr_id x = number_node(s, o->ndigits, o->digits, o->ndevices);
    if (after > 1)
        x = emit_arith(s, OP_DIVIDE, x, s32(s, after));
    if (after * t.dims[axis] < o->ndevices)
        x = emit_arith(s, OP_REMAINDER, x, s32(s, t.dims[axis]));
    return x;
}

static instr_id listed_index_node(struct spmd *s, struct tiling t, int axis, const struct order *o)
{
    int64_t top = 0, after = 1;
    for (int i = t.naxes - 1; i > axis; i--)
        after *= t.dims[i];
    for (int64_t c = 0; c < o->ndevices; c++)
        top = max_i64(top, o->explicit_[c]);
    int64_t *table = ARENA_ARRAY(&s->arena, int64_t, top + 1);
    for (int64_t c = 0; c < o->ndevices; c++)
        table[o->explicit_[c]] = c / after % t.dims[axis];
    return emit_table(s, top + 1, table, partition_id(s));
}

instr_id axis_index_node(struct spmd *s, struct tiling t, int axis)
{
    if (t.dims[axis] == 1)
        return s32(s, 0);
    const struct order *o = order_get(s->sh, t.order);
    if (o->explicit_)
        return listed_index_node(s, t, axis, o);
    struct digit digits[RANK_ROOM];
    INVARIANT(o->ndigits < RANK_ROOM, "%d digits", o->ndigits);
    int n = axis_digits(s, t, axis, digits);
    return n < 0 ? cell_part_node(s, t, axis, o) : number_node(s, n, digits, o->ndevices);
}

instr_id rank_node(struct spmd *s)
{
    if (s->groups->trivial)
        return partition_id(s);
    return emit_convert(s, axis_index_node(s, s->groups->devices, 1), DTYPE_U32);
}

instr_id ordinal_node(struct spmd *s, sharding_id sh, int axis)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TILED || axis >= x->tiles.naxes || x->tiles.dims[axis] == 1)
        return s32(s, 0);
    return axis_index_node(s, tiling_in_devices(s, x->tiles), axis + 1);
}

instr_id offset_node(struct spmd *s, sharding_id sh, int axis, int64_t dim)
{
    int64_t t = sharding_tile(s->sh, sh, axis);
    if (t == 1 || dim == 0)
        return s32(s, 0);
    return times(s, ordinal_node(s, sh, axis), ceil_div(dim, t));
}

void offset_nodes(struct spmd *s, sharding_id sh, int rank, const int64_t *dims, instr_id *out)
{
    for (int d = 0; d < rank; d++)
        out[d] = offset_node(s, sh, d, dims[d]);
}

instr_id group_index_node(struct spmd *s, const struct sharding_group *g)
{
    return axis_index_node(s, tiling_in_devices(s, g->groups), 1);
}

/* ---- values ---------------------------------------------------------------------------------------- */

struct pval pval_make(struct spmd *s, instr_id local, shape_id base, sharding_id sh)
{
    (void)s;
    return (struct pval){ .local = local, .base = base, .sharding = sh };
}

struct pval pval_relabel(struct pval v, sharding_id sh)
{
    v.sharding = sh;
    return v;
}

static shape_id shard_array(struct spmd *s, shape_id base, sharding_id sh)
{
    const struct shape *b = shape_get(s->ir, base);
    if (b->kind != SHAPE_ARRAY || !sharding_is_tiled(s->sh, sh))
        return shape_strip(s->ir, base);
    int64_t *dims = ARENA_ARRAY(&s->arena, int64_t, b->rank + 1);
    sharding_shard_dims(s->sh, sh, b->rank, b->dims, dims);
    return shape_array_full(s->ir, b->dtype, b->rank, dims, b->dynamic, (name_id){ 0 });
}

/* Leaves first..: nested tuples as deep as the type is. */
static shape_id shard_tuple(struct spmd *s, shape_id base, const struct sharding *sh, int64_t first)
{
    const struct shape *b = shape_get(s->ir, base);
    if (b->kind != SHAPE_TUPLE)
        return shard_array(s, base, sh->elems[first]);
    shape_id *elems = ARENA_ARRAY(&s->arena, shape_id, b->nelems);
    for (int64_t i = 0; i < b->nelems; i++)
        elems[i] = shard_tuple(s, b->elems[i], sh, first + shape_leaf_offset(s->ir, base, i));
    return shape_tuple(s->ir, b->nelems, elems);
}

shape_id shard_shape(struct spmd *s, shape_id base, sharding_id sh)
{
    const struct shape *b = shape_get(s->ir, base);
    const struct sharding *x = sharding_get(s->sh, sh);
    if (b->kind != SHAPE_TUPLE)
        return shard_array(s, base, x->kind == SHARDING_TUPLE && x->nelems ? x->elems[0] : sh);
    if (x->kind != SHARDING_TUPLE)
        sh = sharding_tuple_of(s->sh, b->nleaves, sh);
    return shard_tuple(s, base, sharding_get(s->sh, sh), 0);
}

/* S-50 */
struct pval pval_mask(struct spmd *s, struct pval v, instr_id fill, uint64_t left, uint64_t skip)
{
    const struct shape *base = shape_get(s->ir, v.base), *local = node_shape(s, v.local);
    if (base->kind != SHAPE_ARRAY || !sharding_is_tiled(s->sh, v.sharding))
        return v;
    instr_id mask = { 0 };
    for (int d = 0; d < base->rank; d++) {
        int64_t t = sharding_tile(s->sh, v.sharding, d);
        if (t == 1 || base->dims[d] % t == 0 || (skip >> d & 1))
            continue;
        int64_t size = local->dims[d];
        instr_id at = emit_arith(
            s, OP_ADD, emit_iota(s, DTYPE_S32, local->rank, local->dims, d),
            emit_broadcast_scalar(s, offset_node(s, v.sharding, d, base->dims[d]), local->rank,
                                  local->dims));
        bool from_left = left >> d & 1;
        int64_t border = from_left ? size * t - base->dims[d] : base->dims[d];
        instr_id ok = emit_compare(s, from_left ? "GE" : "LT", at,
                                   emit_broadcast_scalar(s, s32(s, border), local->rank, local->dims));
        mask = mask.i ? emit_arith(s, OP_AND, mask, ok) : ok;
    }
    if (!mask.i)
        return v;
    instr_id other = emit_broadcast_scalar(s, fill, local->rank, local->dims);
    v.local = emit_select(s, mask, v.local, other);
    return v;
}
