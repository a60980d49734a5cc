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

/* Single operations, for kernels: plan.c. */
bool op_is_loop(const struct module *m, const struct instr *in);      /* maps or moves elements: can be computed where they are used */
bool op_is_dear(const struct instr *in);                              /* too dear to compute twice */
bool op_strided_reduce(const struct module *m, const struct instr *in);
bool op_is_reshape(const struct module *m, const struct instr *in);     /* same elements in the same place */
bool op_reuses(const struct module *m, const struct instr *user);     /* reads elements more than once each */

/* A user, and by which operand it knows the value: itself or what comes out of a barrier. */
struct value_reader {
    instr_id user, as;
};
/* All that read i, also behind barriers; -1: more than `room`, or not all are known. */
int readers_of(const struct cost_plan *p, instr_id i, struct value_reader *list, int room);
/* The barrier that a tuple goes into and nothing else. */
bool barrier_of(const struct cost_plan *p, instr_id tuple, instr_id *out);

/* Kernels as XLA's CPU compiler makes them: fuse_cpu.c. One computation after the other. */
struct fuser;
struct fuser *fuse_cpu_new(struct cost_plan *p, struct arena *tmp);
void fuse_cpu(struct fuser *f, const instr_id *order, uint32_t n);

/* FLOPs as XLA counts them behind its CPU compiler's rewrites: count_cpu.c. w: cost_work's. */
struct cpu_counter;
struct cpu_counter *cpu_counter_new(const struct cost_plan *p, struct arena *tmp);
void cpu_work(struct cpu_counter *c, instr_id i, instr_id kernel, struct work *w);

const char *calibration_text(size_t *n);

/* Of a depth-first order and two others the one with the lowest peak: schedule_list.c. at: [ninstrs + 1] to
 * write in; inner: peaks of the computations that are scheduled already. */
const instr_id *better_order(struct cost_plan *p, struct arena *tmp, instr_id root, const instr_id *depth, uint32_t n,
                             uint32_t *at, int64_t *inner, int64_t *peak);

/* The order of kernels for every computation of the plan: schedule.c. */
void plan_schedule(struct cost_plan *p, const struct cost_plan *before, const struct cost_options *o);

/* Computations of an earlier plan that are alike, and what is taken of them: reuse.c. */
void plan_find_alike(struct cost_plan *p, struct cost_plan *before);
void plan_take_flags(struct cost_plan *p, const struct cost_plan *before, comp_id c);
const instr_id *plan_take_order(struct cost_plan *p, const struct cost_plan *before, comp_id c);
/* Of computation c the instruction that `old` was. */
instr_id plan_taken(const struct cost_plan *p, const struct cost_plan *before, comp_id c, instr_id old);

#endif
