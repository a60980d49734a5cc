#ifndef GSPMD_TEXT_UNIQUE_H
#define GSPMD_TEXT_UNIQUE_H

#include "ir/ir.h"

/* Renames instructions whose name another called computation's instruction has already, as XLA does
 * when it reads a text. The span of an instruction still points at the name as written. */
void names_make_unique(struct module *m);

/* StableHLO's names hold in their region only; HLO's are unique. Whether called computations repeat
 * one, and what each instruction is called in an HLO text then (NULL: as it is), in arena a. unnamed:
 * by instruction, the names given to those that have none. */
bool names_repeat(const struct module *m);
const char **names_unique_texts(const struct module *m, const char *const *unnamed, struct arena *a);

#endif
