/* Sort, S-150: the sorted dimension is whole on a device. Top-k patterns first sort their shards. */
#include "partition/ops.h"

struct sorting {
    instr_id source;
    int n; /* operands */
    int dim;
    sharding_id out; /* of every result */
};

/* The sharding that all results share; none when they differ. */
static sharding_id common_result(struct spmd *s, sharding_id out)
{
    const struct sharding *x = sharding_get(s->sh, out);
    if (x->kind != SHARDING_TUPLE)
        return out;
    for (int64_t i = 1; i < x->nelems; i++)
        if (x->elems[i].i != x->elems[0].i)
            return (sharding_id){ 0 };
    return x->nelems ? x->elems[0] : (sharding_id){ 0 };
}

/* Operands in `sh`, sorted there. */
static void sort_in(struct spmd *s, const struct sorting *t, sharding_id sh)
{
    const struct instr *in = instr_at(s->src, t->source);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, t->n);
    for (int k = 0; k < t->n; k++)
        ops[k] = operand_in(s, t->source, (uint32_t)k, sh).local;
    bool tuple = source_shape(s, t->source)->kind == SHAPE_TUPLE;
    sharding_id label = tuple ? sharding_tuple_of(s->sh, t->n, sh) : sh;
    instr_id x = emit_clone(s, t->source, shard_shape(s, in->shape, label), t->n, ops);
    finish(s, t->source, x, label);
}

void partition_sort(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct sorting t = { .source = source, .n = (int)in->noperands };
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    t.dim = n ? (int)dims[0] : 0;
    if (n && sort_as_topk(s, source, t.dim))
        return;
    t.out = common_result(s, source_sharding(s, source));
    const struct shape *x = source_shape(s, in->operands[0]);
    if (!t.out.i || !sharding_is_tiled(s->sh, t.out) || x->rank >= OPS_MAX_RANK ||
        sharding_is_manual_subgroup(s->sh, t.out)) {
        partition_default(s, source, NULL);
        return;
    }
    if (tiles_on(s, t.out, t.dim) == 1) {
        sort_in(s, &t, t.out);
        return;
    }
    if (x->rank < 2) {
        partition_default(s, source, NULL);
        return;
    }
    int to = sharding_move_target(s->sh, x->rank, x->dims, t.out, t.dim);
    sort_in(s, &t,
            to >= 0 ? sharding_move_tiles(s->sh, t.out, t.dim, to)
                    : sharding_replicate_dims(s->sh, t.out, 1, &t.dim));
}
