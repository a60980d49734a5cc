/* Between the two files of the verifier. */
#ifndef GSPMD_IR_VERIFY_H
#define GSPMD_IR_VERIFY_H

#include "ir/infer.h"

/* An instruction that was found right: what its shape follows from. Readers share lists of attributes. */
enum { CHECKED_OPERANDS = 3, CHECKED_SHAPES = 512 };
struct checked_shape {
    const struct attr *attrs;
    uint16_t op;
    uint8_t nattrs, noperands;
    shape_id shape, operands[CHECKED_OPERANDS];
};

struct check {
    const struct module *m;
    struct diag *d;
    struct arena tmp;
    bool ok, bad_shapes;
    uint32_t *owner; /* by instruction: the computation that lists it, 0: none */
    uint8_t *mark;   /* by instruction: of the walk for cycles */
    struct map orders; /* explicit device orders that were checked */
    struct map meshes; /* names of Shardy meshes that were looked up */
    struct checked_shape *right; /* [CHECKED_SHAPES], the newest; NULL: none are kept */
    struct map fits;   /* (shape, sharding) that were checked */
};

/* verify_devices.c: replica groups, source-target pairs and shardings of one instruction. */
void verify_devices(struct check *v, instr_id i);
/* verify_shardy.c: the xla.sdy.sharding among its frontend attributes. */
void verify_shardy(struct check *v, instr_id i);

#endif
