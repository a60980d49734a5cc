/* The state of lowering one module: between plan.c and collective.c. */
#ifndef GSPMD_EMULATE_PLAN_H
#define GSPMD_EMULATE_PLAN_H

#include "emulate/internal.h"

/* A broadcast that repeats its operand in one pattern: element i is the operand's (i / inner) % n. */
struct spread {
    uint32_t slot; /* of the operand */
    struct leaf leaf;
    int64_t inner, n;
};

struct planner {
    struct plan *plan;
    struct arena tmp;
    struct diag *d;
    struct slot_names *names;       /* [ninstrs + 1] */
    uint32_t *mark, mark_round;     /* plan_order's */
    bool *compares_floats;          /* [ncomps + 1] */
    VEC(struct step) steps;         /* of the computation at hand */
    VEC(struct buf *) value;        /* by slot: known now, the same on every device; else NULL */
    VEC(const struct spread *) spread; /* by slot: what broadcast it holds; NULL: another value */
    VEC(const struct coll *) colls; /* in the plan's arena */
    struct map channels;            /* (channel, kind) -> index of a meeting place */
};

uint32_t *plan_new_slots(struct planner *p, uint32_t n);
bool slot_in(const uint32_t *v, uint32_t n, uint32_t slot);

/* fuse.c: replaces steps of the computation at hand by groups; roots: slots of its results. */
void plan_fuse(struct planner *p, uint32_t slot0, const uint32_t *roots, uint32_t nroots);
/* Once release lists are known: which results take an operand's memory. Bytes that this saves, entry
 * parameters aside, which are the caller's. */
int64_t fused_settle(struct step *s, const uint32_t *entry_params, uint32_t nparams);

#endif
