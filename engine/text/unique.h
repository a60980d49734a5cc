#ifndef GSPMD_TEXT_UNIQUE_H
#define GSPMD_TEXT_UNIQUE_H

#include "ir/ir.h"

/* Renames instructions whose name another called computation's instruction has already, as XLA does
 * when it reads a text. The span of an instruction still points at the name as written. */
void names_make_unique(struct module *m);

#endif
