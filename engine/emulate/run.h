/* Between run.c and verify.c. */
#ifndef GSPMD_EMULATE_RUN_H
#define GSPMD_EMULATE_RUN_H

#include "emulate/lower.h"

/* Each device's inputs, cut from global arrays; equal pieces are one tensor. */
struct cuts {
    struct arena arena;
    int64_t ndevices, nin;
    struct tensor *in; /* [ndevices * nin] */
    bool *owned;
};
/* Before anything is allocated: whether plans, and global arrays of this many bytes, fit the limit.
 */
bool memory_fits(const struct plan *a, const struct plan *b, int64_t more, int64_t limit,
                 struct diag *d) MUST_CHECK;
/* Bytes of one device's parameters, times devices. */
int64_t parameter_bytes(const struct plan *p);
bool cuts_make(const struct program *p, const struct tensor *global, int64_t nin, struct cuts *c,
               struct diag *d) MUST_CHECK;
void cuts_free(struct cuts *c);
/* Sharding of leaf k of a value with sharding s. */
sharding_id leaf_sharding(const struct shardings *t, sharding_id s, int64_t leaf);

#endif
