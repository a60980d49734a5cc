#include "text/mlir.h"

void mreplace(struct mlir *r, struct mop *op, uint32_t k, uint32_t by)
{
    by = mresolve(r, by);
    if (by != op->result + k)
        mval(r, op->result + k)->alias = by;
}

void mlir_fold(struct mlir *r, struct mop *op)
{
    (void)r;
    (void)op;
}
