/* Data-parallel operations, S-128..S-136: the operands take the result's tiling, the operation is
 * done on the shard. */
#include "partition/ops.h"

#include <string.h>

/* The sharding an operand of an elementwise operation takes: the result's, except for scalars that
 * stand for a whole array (clamp's bounds, select's predicate). */
static sharding_id elementwise_target(struct spmd *s, instr_id source, uint32_t k, sharding_id out)
{
    instr_id op = instr_operand(s->src, source, k);
    const struct shape *full = source_shape(s, source), *own = source_shape(s, op);
    bool scalar = own->kind == SHAPE_ARRAY && own->rank == 0;
    if (scalar && full->kind == SHAPE_ARRAY && full->rank > 0 && sharding_is_tiled(s->sh, out))
        return sharding_replicated(s->sh);
    return out;
}

/* Scalar bounds of a clamp become arrays: XLA's simplifier dies on a clamp with scalar bounds whose
 * operand is reshaped, and exported programs are there to be run. */
static void spread_bounds(struct spmd *s, instr_id *ops)
{
    const struct shape *x = node_shape(s, ops[1]);
    for (int k = 0; k <= 2 && x->rank > 0; k += 2)
        if (node_shape(s, ops[k])->rank == 0)
            ops[k] = emit_broadcast_scalar(s, ops[k], x->rank, x->dims);
}

void partition_elementwise(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = operand_in(s, source, k, elementwise_target(s, source, k, out)).local;
    if (in->op == OP_CLAMP)
        spread_bounds(s, ops);
    instr_id local = emit_clone(s, source, shard_shape(s, in->shape, out), in->noperands, ops);
    set_value(s, source, pval_make(s, local, in->shape, out));
}

void partition_map(struct spmd *s, instr_id source)
{
    partition_elementwise(s, source);
}

/* S-130 */
void partition_broadcast(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    int n;
    const int64_t *map = instr_ints(in, ATTR_DIMENSIONS, &n);
    uint64_t kept = 0;
    bool sorted = true;
    for (int i = 0; i < n; i++) {
        kept |= bit((int)map[i]);
        sorted = sorted && (i == 0 || map[i] > map[i - 1]);
    }
    if (is_tile_max(s, out) || source_shape(s, source)->rank > 63) {
        partition_default(s, source, NULL);
        return;
    }
    int fresh[64];
    int nfresh = bits_to_dims(~kept, source_shape(s, source)->rank, fresh);
    sharding_id target = sharding_remove_dims(
        s->sh, sharding_replicate_dims(s->sh, out, nfresh, fresh), nfresh, fresh);
    if (!sorted) {
        /* dimensions={1,0}: operand dim i lies at map[i]; the kept dims stand in output order. */
        int perm[64];
        for (int i = 0; i < n; i++) {
            perm[i] = 0;
            for (int j = 0; j < n; j++)
                perm[i] += map[j] < map[i];
        }
        target = sharding_transpose(s->sh, target, perm);
    }
    instr_id local = operand_in(s, source, 0, target).local;
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, out), 1, &local), out);
}

/* A scalar spread over the dims of x. */
static instr_id spread(struct spmd *s, instr_id scalar, const struct shape *x)
{
    return emit_broadcast_scalar(s, scalar, x->rank, x->dims);
}

/* S-131. Types with few exact integers count in s32 and convert, so that a shard's numbers are the
 * whole array's. */
void partition_iota(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct shape *full = source_shape(s, source);
    if (is_tile_max(s, out)) {
        finish(s, source, emit_clone(s, source, in->shape, 0, NULL), out);
        return;
    }
    int dim = (int)instr_int(in, ATTR_IOTA_DIMENSION, 0);
    shape_id local_id = shard_shape(s, in->shape, out);
    const struct shape *local = shape_get(s->ir, local_id);
    if (tiles_on(s, out, dim) == 1) {
        finish(s, source, emit_clone(s, source, local_id, 0, NULL), out);
        return;
    }
    bool small = dtype_kind(full->dtype) == DTYPE_KIND_FLOAT && dtype_bits(full->dtype) < 64;
    enum dtype t = small ? DTYPE_S32 : full->dtype;
    instr_id offset = emit_convert(s, offset_node(s, out, dim, full->dims[dim]), t);
    instr_id x = emit_iota(s, t, local->rank, local->dims, dim);
    x = emit_arith(s, OP_ADD, x, spread(s, offset, local));
    finish(s, source, emit_convert(s, x, full->dtype), out);
}

static bool all_equal(const struct literal *l, const struct shape *sh)
{
    if (!l || l->elided || !l->data || sh->count <= 0)
        return false;
    size_t size = (size_t)dtype_bytes(sh->dtype);
    const char *p = l->data;
    return memcmp(p, p + size, (size_t)(sh->count - 1) * size) == 0;
}

/* S-132: what is not even and all equal is made whole and cut (and known to be whole, S-71). */
void partition_constant(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct shape *full = source_shape(s, source);
    if (full->kind != SHAPE_ARRAY) {
        partition_default(s, source, NULL);
        return;
    }
    if (is_tile_max(s, out) || sharding_is_manual(s->sh, out)) {
        finish(s, source, emit_literal(s, in->literal), out);
        return;
    }
    if (!all_equal(in->literal, full) ||
        !sharding_evenly(s->sh, out, full->rank, full->dims)) {
        instr_id local = emit_literal(s, in->literal);
        finish(s, source, local, sharding_replicated(s->sh));
        return;
    }
    shape_id scalar = shape_array(s->ir, full->dtype, 0, NULL);
    const struct literal *one = literal_new(s->out, scalar, in->literal->data);
    const struct shape *local = shape_get(s->ir, shard_shape(s, in->shape, out));
    finish(s, source, spread(s, emit_literal(s, one), local), out);
}

/* S-133 */
void partition_transpose(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    int n;
    const int64_t *perm = instr_ints(in, ATTR_DIMENSIONS, &n);
    if (is_tile_max(s, out) || n > 64) {
        partition_default(s, source, NULL);
        return;
    }
    int inverse[64] = { 0 };
    for (int i = 0; i < n; i++)
        inverse[perm[i]] = i;
    instr_id x = operand_in(s, source, 0, sharding_transpose(s->sh, out, inverse)).local;
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, out), 1, &x), out);
}

/* S-134. The reversed tiling holds the same elements in mirrored places; padding must be in front
 * before the shard is reversed, so that it ends up behind. */
void partition_reverse(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    int n, dims[64];
    const int64_t *list = instr_ints(in, ATTR_DIMENSIONS, &n);
    uint64_t bits = 0;
    for (int i = 0; i < n; i++) {
        dims[i] = (int)list[i];
        bits |= bit(dims[i]);
    }
    if (is_tile_max(s, out)) {
        partition_default(s, source, NULL);
        return;
    }
    struct pval x = operand_in(s, source, 0, sharding_reverse(s->sh, out, n, dims));
    if (!shift_padding_left(s, x, bits, &x)) {
        partition_default(s, source, "no window form of the uneven reversed dimension");
        return;
    }
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, out), 1, &x.local), out);
}

/* Ops of which some dimensions must be whole on a device: operands and result take `out` with those
 * dims replicated (S-136). */
static void with_whole_dims(struct spmd *s, instr_id source, int n, const int *dims)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    if (is_tile_max(s, out)) {
        partition_default(s, source, NULL);
        return;
    }
    sharding_id tmp = sharding_replicate_dims(s->sh, out, n, dims);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = operand_in(s, source, k, tmp).local;
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, tmp), in->noperands, ops), tmp);
}

void partition_concatenate(struct spmd *s, instr_id source)
{
    int n;
    const int64_t *dims = instr_ints(instr_at(s->src, source), ATTR_DIMENSIONS, &n);
    int dim = n > 0 ? (int)dims[0] : 0;
    with_whole_dims(s, source, 1, &dim);
}

static void with_whole_matrices(struct spmd *s, instr_id source)
{
    int rank = source_shape(s, source)->rank;
    int dims[2] = { rank - 2, rank - 1 };
    with_whole_dims(s, source, 2, dims);
}

void partition_cholesky(struct spmd *s, instr_id source)
{
    with_whole_matrices(s, source);
}

void partition_triangular_solve(struct spmd *s, instr_id source)
{
    with_whole_matrices(s, source);
}

/* S-135 */
void partition_bitcast_convert(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct shape *full = source_shape(s, source);
    const struct shape *from = source_shape(s, in->operands[0]);
    if (from->rank == full->rank) {
        partition_elementwise(s, source);
        return;
    }
    if (is_tile_max(s, out)) {
        partition_default(s, source, NULL);
        return;
    }
    sharding_id label = out, target;
    if (full->rank > from->rank) {
        int minor = full->rank - 1;
        label = sharding_replicate_dims(s->sh, out, 1, &minor);
        target = sharding_remove_dims(s->sh, label, 1, &minor);
    } else {
        target = sharding_insert_dims(s->sh, out, full->rank, 1);
    }
    instr_id x = operand_in(s, source, 0, target).local;
    finish(s, source, emit_clone(s, source, shard_shape(s, in->shape, label), 1, &x), label);
}
