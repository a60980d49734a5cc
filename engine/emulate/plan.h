/* The state of lowering one module: between plan.c and collective.c. */
#ifndef GSPMD_EMULATE_PLAN_H
#define GSPMD_EMULATE_PLAN_H

#include "emulate/internal.h"

struct planner {
    struct plan *plan;
    struct arena tmp;
    struct diag *d;
    struct slot_names *names;       /* [ninstrs + 1] */
    uint32_t *mark, mark_round;     /* plan_order's */
    bool *compares_floats;          /* [ncomps + 1] */
    VEC(struct step) steps;         /* of the computation at hand */
    VEC(struct buf *) value;        /* by slot: known now, the same on every device; else NULL */
    VEC(const struct coll *) colls; /* in the plan's arena */
    struct map channels;            /* (channel, kind) -> index of a meeting place */
};

#endif
