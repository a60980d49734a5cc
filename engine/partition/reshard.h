/* Shared by the files of resharding: reshard.c, reshard_a2a.c and replicate.c. */
#ifndef GSPMD_PARTITION_RESHARD_H
#define GSPMD_PARTITION_RESHARD_H

#include "partition/internal.h"

/* S-78: pairs (from j, to i): axis j gives its extra split to axis i. */
struct a2a_plan {
    int n;
    int from[RANK_ROOM], to[RANK_ROOM];
};

bool a2a_plan(struct spmd *s, sharding_id from, sharding_id to, struct a2a_plan *plan);
struct pval a2a_run(struct spmd *s, struct pval v, sharding_id target, const struct a2a_plan *plan);

bool is_partial(const struct spmd *s, sharding_id sh);
struct tiling tiles_of(const struct spmd *s, sharding_id sh);
sharding_id sharding_of_tiles(struct spmd *s, struct tiling a, int rank);
shape_id base_with(struct spmd *s, shape_id base, int dim, int64_t size);
bool can_permute(const struct spmd *s, sharding_id from, sharding_id to);
struct pval permute(struct spmd *s, struct pval v, sharding_id to);
/* S-73, whatever partitioner= says; and the cheaper of it and a plan (best.c). */
struct pval reshard_as_xla(struct spmd *s, struct pval v, sharding_id target, instr_id pad);
struct pval best_reshard(struct spmd *s, struct pval v, sharding_id target, instr_id pad);
/* The cache of the device groups in force, S-72. */
bool reshard_cache_get(struct spmd *s, struct pval v, sharding_id to, struct pval *out);
void reshard_cache_put(struct spmd *s, struct pval v, sharding_id to, struct pval r);
/* x padded at the end with fill (none: zero). */
void pads_high(struct spmd *s, instr_id *x, const int64_t *high, instr_id fill);
/* The shard of `to` out of a whole value: padded to full tiles (S-52), then cut at the offsets. */
instr_id cut_shard(struct spmd *s, instr_id x, sharding_id to, instr_id fill);
/* This dynamic-slice is the shard of a whole value: tile index on dimension d along axis 1 + d. */
void note_cut(struct spmd *s, instr_id n, struct tiling cut);
void note_minor_cut(struct spmd *s, instr_id n, struct tiling dev, int rank, const int *minor);

#endif
