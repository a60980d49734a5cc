/* Between the files that lower instructions to steps. */
#ifndef GSPMD_EMULATE_LOWER_H
#define GSPMD_EMULATE_LOWER_H

#include "emulate/internal.h"

/* The integer that an index operand holds; unsigned ones beyond int64 come out as its largest. */
int64_t read_index(struct elem e, const void *p, int64_t i);
/* Elements of one type as another's, n at once; no more than a copy for equal types. */
void convert_elements(const struct ew *e, const void *in, void *out, int64_t n);
/* Whether a step is an elementwise kernel, p its struct ew; operands of one element may stand beside. */
bool lower_is_ew(const struct step *s);
void run_ew(const struct step *s, void *const *out, const void *const *in);

/* sparse.c: a dot with sparsity= and its metadata */
bool lower_sparse_dot(struct lowering *l);
/* lapack.c */
bool lapack_known(const char *target);
bool lower_lapack(struct lowering *l, const char *target);

/* One box per operand. */
struct move {
    struct box box;
};

/* window attribute of the instruction; NULL reported. */
const struct window *window_of(struct lowering *l, int rank);

/* Where output position o along one dimension meets window position w: o = first, first + step ...
 * (count of them) read input first_in, first_in + in_step ... */
struct meet {
    int64_t first, step, count, first_in, in_step;
};
struct meet window_meet(const struct window_dim *w, int64_t at, int64_t in_size, int64_t out_size);

/* Folds row by row with a direct kernel or a region. */
struct folding {
    fold_fn fold; /* direct; NULL: region */
    const struct region *region;
    struct region_scratch scratch;
    int n; /* values folded together (region only) */
    char *acc[16];
    const char *x[16];
    int size[16];
};
void fold_row(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n);
#define MAX_VARIADIC 16

#endif
