/* Between the files of elementwise kernels. */
#ifndef GSPMD_EMULATE_EW_H
#define GSPMD_EMULATE_EW_H

#include "emulate/internal.h"

ew_fn ew_complex(enum op_kind op, enum ctype ct);
int compare_direction(const struct module *m, const struct instr *i); /* -1: unknown word */

#endif
