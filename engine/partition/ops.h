/* What the op handlers of the partitioner share among themselves (the contract with its core is
 * internal.h). */
#ifndef GSPMD_PARTITION_OPS_H
#define GSPMD_PARTITION_OPS_H

#include "partition/internal.h"

/* Ranks above this take the default action (S-127): struct sharding_group has room for so many. */
#define OPS_MAX_RANK 16

static inline const struct shape *base_of(const struct spmd *s, struct pval v)
{
    return shape_get(s->ir, v.base);
}
static inline const struct shape *source_shape(const struct spmd *s, instr_id source)
{
    return instr_shape(s->src, source);
}
static inline int64_t local_bytes(const struct spmd *s, struct pval v)
{
    return node_shape(s, v.local)->bytes;
}
static inline bool is_tile_max(const struct spmd *s, sharding_id sh)
{
    return sharding_is_max(s->sh, sh);
}
static inline int64_t tiles_on(const struct spmd *s, sharding_id sh, int axis)
{
    return sharding_tile(s->sh, sh, axis);
}
static inline uint64_t bit(int d)
{
    return (uint64_t)1 << d;
}

/* Labels the result, brings it to the sharding that the instruction has, and stores it. */
void finish(struct spmd *s, instr_id source, instr_id local, sharding_id label);
void finish_value(struct spmd *s, instr_id source, struct pval v);
/* Operand k in a given sharding, replicated, or as far as a scalar can have it. */
struct pval operand_in(struct spmd *s, instr_id source, uint32_t k, sharding_id sh);
struct pval operand_replicated(struct spmd *s, instr_id source, uint32_t k);
/* dims with tile count 1, everything else as it is; the tile assignment's order is kept. counts has
 * an entry for every axis of s, trailing ones included. */
sharding_id retile(struct spmd *s, sharding_id sh, const int64_t *counts);
/* Axes of the tile assignment of a tiled sharding, trailing ones included. */
int tile_axes(const struct spmd *s, sharding_id sh);
void tile_counts(const struct spmd *s, sharding_id sh, int64_t *counts);
/* The tiled dims of sh as a bit set; 0 unless tiled. */
uint64_t tiled_dims(const struct spmd *s, sharding_id sh, int rank);
int bits_to_dims(uint64_t bits, int rank, int *dims);
/* The sharding of a's dims inside groups and S-43: base with the grouped dims cut. */
shape_id per_group_base(struct spmd *s, shape_id base, const struct sharding_group *g);
/* Devices of the group set in force. */
static inline int64_t group_devices(const struct spmd *s)
{
    return s->groups->size;
}

/* S-151, sort_topk.c; false: the sort is no top-k. */
bool sort_as_topk(struct spmd *s, instr_id source, int dim);

/* Replaces or adds an attribute of a node just made by emit_clone. */
void set_attr(struct spmd *s, instr_id node, struct attr a);

/* Sets the reason of nodes made from here on; returns the former one, to be put back. */
const char *because(struct spmd *s, const char *reason);

/* The computation is `op(p0, p1)` over scalars. OP_NONE: it is not. */
enum op_kind simple_reducer(const struct module *m, comp_id c, int component, int ncomponents);
/* Only picks among its parameters (compare, select, min, max, and, or): folding an init in twice
 * does no harm. */
bool picking_reducer(const struct module *m, comp_id c);
bool literal_is_identity(const struct module *m, const struct literal *l, enum op_kind op);

/* An integer scalar node of any type, clamped to [0, high], as s32. */
instr_id emit_clamped_s32(struct spmd *s, instr_id x, int64_t high);

/* An integer constant, through converts, copies, reshapes, broadcasts of scalars. */
bool constant_index(const struct module *m, instr_id i, int64_t *v);

#endif
