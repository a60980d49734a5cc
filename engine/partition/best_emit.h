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
    const char *way;                 /* the way being tried, in words */
    const bool *plain;               /* [working instruction] XLA's way is taken for it; NULL: none */
};

/* Nodes made between begin and end are a trial: kept, or rejected as a whole, then or later. Trials
 * nest. */
struct best_trial {
    uint32_t first, last;
    int64_t remats[2], notes[2]; /* what was noted meanwhile: from, to */
};
void best_begin(struct spmd *s, struct best_trial *t);
void best_end(struct spmd *s, struct best_trial *t);
/* What the trial's collectives send. false: not known (a loop was made). */
bool best_cost(struct spmd *s, const struct best_trial *t, int64_t *bytes, int64_t *collectives);
/* The nodes are forgotten: no cache answers with them. Of several trials the last is rejected first. */
void best_reject(struct spmd *s, const struct best_trial *t);

/* Whether decisions are to be made for the instruction being served. */
bool best_wanted(const struct spmd *s);
void best_note(struct spmd *s, sharding_id from, sharding_id to, const char *plan, int64_t bytes,
               int64_t xla_bytes);

/* The plan's nodes on x, a shard of `base` by the plan's source. reducer: of what is owed. */
instr_id best_emit(struct spmd *s, const struct best_plan *p, const struct shape *base, instr_id x,
                   comp_id reducer);

/* Other ways to compute an instruction than XLA's, best_ways.c and best_dot.c. Way k = 0, 1, ...:
 * false when there is none such, else *out is its value, of any sharding, or none (.i == 0) when this
 * one does not apply. xla: the trial of XLA's way; bytes: what is to be beaten. */
typedef bool (*best_way)(struct spmd *s, instr_id source, int k, const struct best_trial *xla,
                         int64_t bytes, struct pval *out);
bool best_way_dot(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                  struct pval *out);

/* best_update.c: dynamic-update-slice, dynamic-slice. */
bool best_way_update(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                     struct pval *out);
bool best_way_window(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                     struct pval *out);

/* ---- atoms of several shardings (best_atoms.c) ------------------------------------------------------ */

/* Digits in which each of n shardings is a list; false: there are none. Not cut into primes. */
bool best_common_atoms(const struct shardings *t, int n, const sharding_id *list, int64_t ndevices,
                       struct digit *atom, int *natoms);
/* Dimension and position of each atom in s, -1: copies. flags: of the atoms on dimensions. */
bool best_places(const struct shardings *t, sharding_id s, int natoms, const struct digit *atom,
                 int *dim, int *pos, bool *reversed);

#endif
