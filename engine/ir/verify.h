/* Between the two files of the verifier. */
#ifndef GSPMD_IR_VERIFY_H
#define GSPMD_IR_VERIFY_H

#include "ir/infer.h"

struct check {
    const struct module *m;
    struct diag *d;
    struct arena tmp;
    bool ok, bad_shapes;
    uint32_t *owner; /* by instruction: the computation that lists it, 0: none */
    uint8_t *mark;   /* by instruction: of the walk for cycles */
    struct map orders; /* explicit device orders that were checked */
    struct map meshes; /* names of Shardy meshes that were looked up */
    struct map fits;   /* (shape, sharding) that were checked */
};

/* verify_devices.c: replica groups, source-target pairs and shardings of one instruction. */
void verify_devices(struct check *v, instr_id i);
/* verify_shardy.c: the xla.sdy.sharding among its frontend attributes. */
void verify_shardy(struct check *v, instr_id i);

#endif
