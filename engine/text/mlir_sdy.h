/* Between the files that read shardings of StableHLO text: mlir_sdy.c, mlir_shard.c, mlir_shard_ops.c. */
#ifndef GSPMD_TEXT_MLIR_SDY_H
#define GSPMD_TEXT_MLIR_SDY_H

#include "sharding/axes.h"
#include "text/mlir.h"

/* One sharding of Shardy: axes by dimension, and which dimensions are open. */
struct sdy {
    struct mesh *mesh;
    struct layout axes; /* data axes only */
    uint64_t open;
    bool all_open; /* says nothing: every dimension open, no axes */
    bool maximal;
    int64_t device;
    bool extra;       /* has what GSPMD cannot say: priorities, a sum that is still owed */
    const char *list; /* [..], .. as read, up to the closing > */
    uint32_t nlist;
};

static inline const char *msdy_blanks(const char *p, const char *end)
{
    while (p < end && mis(*p, MC_SPACE))
        p++;
    return p;
}

/* <@mesh, [{"x"}, {?}], replicated={}> without the sign in front, for an array of this rank. */
bool msdy_parse(struct mlir *r, const char *p, const char *end, int rank, struct sdy *out);
/* What GSPMD can say of it; inside manual computations their axes are manual. */
sharding_id msdy_sharding(struct mlir *r, const struct sdy *s);
sharding_id msdy_make(struct mlir *r, const struct sdy *s, const struct layout *a);
void msdy_add_manual(struct mlir *r, const struct sdy *s, struct layout *a);
/* The words of n shardings that GSPMD has none for, as an attribute to keep; NULL: there are none. */
struct mattr *msdy_remark(struct mlir *r, int64_t n, const struct sdy *v);
/* Element k of a list of shardings, or of the one that stands alone; NULL: there is none. */
const char *msdy_element(const char *p, const char *end, int64_t k, const char **stop);

#endif
