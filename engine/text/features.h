/* What reader and printer agree on: module.text_features (how a text was printed), and the order of
 * attributes. */
#ifndef GSPMD_TEXT_FEATURES_H
#define GSPMD_TEXT_FEATURES_H

#include "ir/ir.h"

enum {
    TEXT_OPERAND_LAYOUTS = 1 << 0, /* operand shapes carry layouts */
    TEXT_NO_OPERAND_INDEX = 1 << 1, /* operand lists of more than five without index comments */
    TEXT_ENTRY_NAME = 1 << 2        /* StableHLO without a @main: the entry is printed under its own name */
};

/* Where XLA's printer has an attribute: among the operation's own, behind the sharding, or last.
 * The reader keeps attributes in this order, so that printing and reading again changes nothing. */
enum place { WITH_OP, BEHIND_SHARDING, LAST };

static inline enum place place_of(enum attr_key k)
{
    if (k == ATTR_CONTROL_PREDECESSORS || k == ATTR_STATISTICS || k == ATTR_ORIGIN)
        return BEHIND_SHARDING;
    return k == ATTR_BACKEND_CONFIG ? LAST : WITH_OP;
}

#endif
