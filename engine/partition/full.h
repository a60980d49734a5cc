/* passes=full among its own files: full.c (the list of passes, reduce-scatter, folding), full_rewrite.c
 * (reassociation, gathers), full_loop.c (collectives in loops), full_combine.c, full_update.c (the
 * update of weights). A pass changes instructions in place and adds new ones; what is dead goes by the
 * clean-up behind it, which also puts operands first. */
#ifndef GSPMD_PARTITION_FULL_H
#define GSPMD_PARTITION_FULL_H

#include "partition/internal.h"

struct full {
    struct spmd *s;
    struct arena tmp;
    const struct users *users;
    uint32_t known; /* instructions up to here are in users */
    comp_id comp;
    VEC(instr_id) list; /* the computation's instructions anew */
    comp_id grouped;    /* whose sums' groups these are */
    VEC(struct tiling) groups;
};

static inline struct instr *full_at(const struct full *f, instr_id i)
{
    return instr_at(f->s->out, i);
}

/* Used once, and not the root. false for what is newer than the counts. */
bool full_one_user(const struct full *f, instr_id i);
/* An array all-reduce in uniform groups, with a channel. */
bool full_is_sum(const struct full *f, instr_id i);
struct tiling full_groups(const struct full *f, instr_id i);
bool full_same_reducer(const struct full *f, instr_id a, instr_id b);
/* Two collectives that differ in operand and channel only. */
bool full_alike(const struct full *f, instr_id a, instr_id b);
int64_t full_new_channel(struct spmd *s);
/* A new instruction of the computation at hand; its note is that of `like`. */
instr_id full_add(struct full *f, enum op_kind op, shape_id shape, int n, const instr_id *operands,
                  int nattrs, const struct attr *attrs, instr_id like);
/* Turns i into something else of the same shape. */
void full_become(struct full *f, instr_id i, enum op_kind op, int n, const instr_id *operands,
                 int nattrs, const struct attr *attrs);
/* The attributes of a collective, with a channel of its own. */
struct attr *full_attrs_anew(struct full *f, instr_id like);
void full_reason(struct full *f, instr_id i, const char *reason);
/* The devices of a group each have the piece of the value that their place in the group says: the
 * digits of the index along `axis` of cut are those of the groups, in the same order. */
bool full_same_order(const struct spmd *s, struct tiling cut, int axis, struct tiling groups);

/* Cleans up behind a pass that changed something; false: none did. */
bool full_clean(struct spmd *s);
/* Users of the program as it stands, counted once for all passes that find nothing to do. */
const struct users *full_users(struct spmd *s);
/* Lists all that a computation's nodes are made of: glue made now may have been left out before. */
void full_relist(struct full *f, comp_id id);
/* Calls fn for every instruction of every computation, callees first. */
void full_each(struct spmd *s, void (*fn)(struct full *, instr_id));

void full_fold(struct full *f, instr_id outer);       /* S-228 */
void full_reassociate(struct full *f, instr_id i);   /* S-230 */
void full_gather_later(struct full *f, instr_id i);  /* S-231 */
void full_loops(struct spmd *s, bool hoist);         /* S-233, and collectives of unchanged values */
void full_combine(struct spmd *s, int64_t limit);    /* S-232 */
void full_weight_update(struct spmd *s, comp_id entry);

#endif
