/* Inside the cost layer. */
#ifndef GSPMD_COST_INTERNAL_H
#define GSPMD_COST_INTERNAL_H

#include "cost/cost.h"

/* Bytes of one leaf of a value as it is kept in memory. */
int64_t leaf_bytes(const struct module *m, shape_id shape, int64_t leaf, bool widen);
/* Bytes of all leaves. */
int64_t value_bytes(const struct module *m, shape_id shape, bool widen);

/* The update of a dynamic-update-slice, or of one that ends a fusion: operand `*into` is written in place.
 * none: no such thing. */
instr_id updated_by(const struct module *m, const struct instr *in, int64_t *into);

/* Operations that make no value of their own: their leaves are those of operands. */
bool op_forwards(const struct module *m, const struct instr *in);
const char *calibration_text(size_t *n);

/* The order of kernels for every computation of the plan: schedule.c. */
void plan_schedule(struct cost_plan *p, const struct cost_options *o);

#endif
