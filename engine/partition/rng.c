/* Random numbers (S-161, S-162) and FFT. */
#include "partition/ops.h"

/* The value of the first device of every replication group, for all of it. */
static instr_id spread_in_copies(struct spmd *s, instr_id x, sharding_id out)
{
    int dims[OPS_MAX_RANK], rank = sharding_data_rank(s->sh, out);
    for (int d = 0; d < rank; d++)
        dims[d] = d;
    struct sharding_group g;
    sharding_group_on(s->sh, out, rank, dims, NULL, &g);
    groups_enter(s, g.groups);
    struct pval v = { x, instr_at(s->out, x)->shape, sharding_maximal(s->sh, 0) };
    x = replicate(s, v).local;
    groups_leave(s);
    return x;
}

void partition_rng(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    int64_t device;
    if (sharding_is_manual(s->sh, out)) {
        instr_id own[2] = { operand_value(s, source, 0).local, operand_value(s, source, 1).local };
        finish(s, source, emit_clone(s, source, in->shape, 2, own), out);
        return;
    }
    if (sharding_unique_device(s->sh, out, &device) ||
        source_shape(s, source)->rank >= OPS_MAX_RANK) {
        partition_default(s, source, NULL);
        return;
    }
    instr_id ops[2] = { operand_replicated(s, source, 0).local,
                        operand_replicated(s, source, 1).local };
    if (sharding_is_replicated(s->sh, out)) {
        instr_id x = emit_clone(s, source, in->shape, 2, ops);
        finish(s, source, x, sharding_maximal(s->sh, 0));
        return;
    }
    instr_id x = emit_clone(s, source, shard_shape(s, in->shape, out), 2, ops);
    if (sharding_is_partial(s->sh, out))
        x = spread_in_copies(s, x, out);
    finish(s, source, x, out);
}

/* Every device makes all the numbers, S-162. */
void partition_rng_bit_generator(struct spmd *s, instr_id source)
{
    partition_default(s, source, NULL);
}
