/* partitioner=best inside the partitioner: trials, plans as nodes, what was decided. */
#ifndef GSPMD_PARTITION_BEST_EMIT_H
#define GSPMD_PARTITION_BEST_EMIT_H

#include "partition/best.h"
#include "partition/reshard.h"

struct best_range {
    uint32_t first, last;
};

/* State of a run with partitioner=best. */
struct best_run {
    VEC(struct best_range) rejected; /* nodes of trials that were not taken; sorted */
    VEC(struct best_note) notes;
    const bool *plain;               /* [working instruction] XLA's way is taken for it; NULL: none */
};

/* Nodes made from here on are a trial: kept, or rejected as a whole. Trials nest. */
struct best_trial {
    uint32_t first;
    int64_t nremats, nnotes;
};
void best_begin(struct spmd *s, struct best_trial *t);
/* What the trial's collectives send. false: not known (a loop was made). */
bool best_cost(struct spmd *s, const struct best_trial *t, int64_t *bytes, int64_t *collectives);
/* The nodes are forgotten: no cache answers with them. */
void best_reject(struct spmd *s, const struct best_trial *t);

/* Whether decisions are to be made for the instruction being served. */
bool best_wanted(const struct spmd *s);
void best_note(struct spmd *s, sharding_id from, sharding_id to, const char *plan, int64_t bytes,
               int64_t xla_bytes);

/* The plan's nodes on x, a shard of `base` by the plan's source. reducer: of what is owed. */
instr_id best_emit(struct spmd *s, const struct best_plan *p, const struct shape *base, instr_id x,
                   comp_id reducer);

#endif
