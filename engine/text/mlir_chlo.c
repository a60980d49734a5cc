#include "text/mlir.h"

bool mlir_chlo(struct mlir *r, struct mop *op, instr_id *out)
{
    (void)out;
    return MFAIL(r, op->at, op->nat, "'%.*s' is not read yet", (int)op->nname, op->name);
}
