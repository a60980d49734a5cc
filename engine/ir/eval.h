/* Between the files of the evaluator: values, and the operations on them. */
#ifndef GSPMD_IR_EVAL_H
#define GSPMD_IR_EVAL_H

#include "ir/ir.h"

enum { MAX_ELEMENTS = 64 };

union element {
    int64_t i; /* integers and pred, wrapped to their width and extended; u64: the bits */
    double f;
};

/* A small array. v NULL: cannot be told. */
struct value {
    enum dtype dtype;
    int64_t n;
    const union element *v;
};

/* eval_ops.c. Each leaves out->v at NULL when it cannot. */
void eval_literal(struct arena *a, const struct module *m, const struct literal *l, struct value *out);
/* Instruction i of operands that are all known; shape: of the operand. */
void eval_op(struct arena *a, const struct module *m, instr_id i, const struct value *const *ops,
             struct value *out);
/* Whether eval_op knows the operation. */
bool eval_knows(enum op_kind op);
union element eval_wrap(enum dtype t, union element e);

#endif
