/* Computations that were partitioned before (internals.md section 3): loops' bodies, branches and what is
 * called, kept with the working graph as nodes when they come a second time. One whose key comes again -
 * the same instructions with the same shardings inside and at its boundary, under the same options - is not
 * partitioned again but put into the program under construction, cleaned up already. The result equals
 * that from scratch, byte for byte.
 */
#ifndef GSPMD_PARTITION_STORE_H
#define GSPMD_PARTITION_STORE_H

#include "partition/internal.h"

struct stored;

/* A computation of the source on its way through the partitioner: what it will be kept as. */
struct store_mark {
    uint32_t key;         /* 0: it is not kept */
    uint32_t first;       /* computations of out so far */
    int64_t remats;
};

/* Ready to answer for s: after the rewriting of patterns, before the first computation. */
void store_open(struct spmd *s);
/* The computation c with these shardings in out, if it was partitioned before; false: *m tells
 * store_note what comes. */
bool store_find(struct spmd *s, comp_id c, sharding_id root, comp_id *out, struct store_mark *m);
/* c is done: it may be kept. */
void store_note(struct spmd *s, const struct store_mark *m, comp_id c, comp_id out);
/* out is shared by all that call it: a copy of a computation of the source, or op over t. */
void store_shared(struct spmd *s, comp_id out, comp_id source, enum op_kind op, enum dtype t);
/* Whether a computation of out comes from here, and so needs no cleaning; *effect: it has a side effect. */
bool store_is_clean(const struct spmd *s, comp_id out, bool *effect);
/* Users and post-orders of s->src. The working graph's are found once for all its programs. */
const struct users *store_users(struct spmd *s);
const instr_id *store_post_order(struct spmd *s, comp_id c, uint32_t *n);
/* Where the id of the name `op.number` is kept from one program to the next; none: it is not known yet. */
name_id *store_name(struct spmd *s, enum op_kind op, int64_t number);
/* Keeps what was noted: after the first clean-up, before anything else changes out. effect: [ncomps + 1] */
void store_keep(struct spmd *s, const bool *effect);

#endif
