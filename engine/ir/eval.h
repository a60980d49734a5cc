/* Between the files of the evaluator: values, and the operations on them. */
#ifndef GSPMD_IR_EVAL_H
#define GSPMD_IR_EVAL_H

#include "ir/ir.h"

enum { MAX_ELEMENTS = 64 };

union element {
    int64_t i; /* integers and pred, wrapped to their width and extended; u64: the bits */
    double f;
};

enum affine_test { TEST_NONE, TEST_EQ, TEST_NE, TEST_LT, TEST_LE, TEST_GT, TEST_GE };

/* A small array. v NULL: cannot be told. Even then it may be known how the value hangs on the loop's
 * counter (affine): counter + delta, or the test of that against a limit. */
struct value {
    enum dtype dtype;
    int64_t n;
    const union element *v;
    bool affine;
    enum affine_test test;
    int64_t delta, limit;
};

/* eval_ops.c. Each leaves out->v at NULL when it cannot. */
void eval_literal(struct arena *a, const struct module *m, const struct literal *l, struct value *out);
/* Instruction i of operands that are all known; shape: of the operand. */
void eval_op(struct arena *a, const struct module *m, instr_id i, const struct value *const *ops,
             struct value *out);
/* Whether eval_op knows the operation. */
bool eval_knows(enum op_kind op);
/* eval_affine.c. out: what i makes of operands of which one is affine; counter: the type of the loop's
 * counter. false: nothing that is known of. */
bool affine_op(const struct module *m, instr_id i, enum dtype counter, const struct value *a,
               const struct value *b, struct value *out);
/* Turns of a loop that starts at `start`, adds step.delta each turn and goes on while test holds.
 * -1: it does not end before the counter's type wraps. */
int64_t affine_trips(enum dtype counter, int64_t start, const struct value *step,
                     const struct value *test);

union element eval_wrap(enum dtype t, union element e);

#endif
