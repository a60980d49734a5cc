/* Between the files of ir/: nothing here is for other layers. */
#ifndef GSPMD_IR_INTERNAL_H
#define GSPMD_IR_INTERNAL_H

#include "ir/ir.h"

/* floats.c: printing. v is a value of type t. */
void float_print(enum dtype t, double v, struct str *out);
uint64_t float_nan_payload(enum dtype t, const void *p);

#endif
