/* What a module's instructions have in common is kept once: lists of numbers and whole lists of
 * attributes that repeat (dimensions={0,1} on thousands of lines). Only the newest are remembered, in
 * tables of fixed size; what is not found there is kept again. Nothing may write to what is shared. */
#ifndef GSPMD_TEXT_SHARE_H
#define GSPMD_TEXT_SHARE_H

#include "ir/ir.h"

enum { SHARE_SLOTS = 512 };

struct shared {
    const void *at;
    int64_t n;
};

struct share {
    struct arena *arena; /* the module's */
    struct shared ints[SHARE_SLOTS], attrs[SHARE_SLOTS];
};

const int64_t *share_ints(struct share *s, const int64_t *v, int64_t n);
const struct attr *share_attrs(struct share *s, const struct attr *v, int64_t n); /* NULL: n = 0 */

#endif
