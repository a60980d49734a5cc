/* Products: dot and convolution by recursion over device groups, sections 10 and 11. */
#ifndef GSPMD_PARTITION_DOT_H
#define GSPMD_PARTITION_DOT_H

#include "partition/ops.h"

/* One dimension of a product as the left operand, the right one and the output number it; -1 where
 * it does not occur. S-168 */
struct product_dim {
    int side[3];
};

enum product_class { BATCH, CONTRACT, LFREE, RFREE, SPATIAL, NCLASSES };
enum { LHS, RHS, OUTPUT };

/* What happens to a local product inside contracting groups before it counts as the result (S-181,
 * 4). Steps of outer recursion levels come first. */
struct product_step {
    struct group_set *set; /* the groups outside */
    sharding_id outer;     /* Z; none when nothing is sliced */
    sharding_id slice;     /* what the sum is cut to; none */
    int n, dims[OPS_MAX_RANK];
    sharding_id along; /* the sum is along these dims of it */
    int nalong, along_dims[OPS_MAX_RANK];
    int64_t whole[OPS_MAX_RANK]; /* of the dims that are cut: their size before */
    int rep_axis; /* axis of Z to sum along afterwards; -1: none */
};

struct product {
    struct spmd *s;
    instr_id source;
    int rank[3];
    int n[NCLASSES];
    struct product_dim dims[NCLASSES][OPS_MAX_RANK];
    bool convolution;
    bool grouped; /* with feature or batch groups: its classes are no plain contraction */
    const struct window_dim *window; /* convolution: one a spatial dimension, in its order */
    int nwindow;
    int nsteps;
    bool cut_twice; /* a step met a local product that has only a part of what it cuts */
    struct product_step steps[OPS_MAX_RANK];
    int loops; /* windowed loops made so far (S-189) */
};

/* Dims of a class that two sides share, in the order of the class. */
struct choice {
    int n;
    int own[OPS_MAX_RANK], other[OPS_MAX_RANK];
};

/* The product that is left inside groups. */
struct inner_product {
    struct sharding_group groups; /* the output's; of a contracting grouping: the lhs's */
    struct pval l, r;
    shape_id base;
    sharding_id out;
    int64_t n;
};

/* The product on local operands. window: the spatial windows in force (convolution); NULL. */
instr_id product_local(struct product *p, instr_id l, instr_id r, const struct window_dim *window);

/* S-171: always answers; the result has the wanted sharding. */
struct pval product_partition(struct product *p, struct pval l, struct pval r, shape_id base,
                              sharding_id out, int64_t n);
/* S-172; false: no result. */
bool product_once(struct product *p, struct pval l, struct pval r, shape_id base, sharding_id out,
                  int64_t n, bool strict, struct pval *res);
bool product_group_batch(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n, bool strict, struct pval *res); /* S-176 */
bool product_group_free(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, struct pval *res); /* S-177 */
bool product_group_contract(struct product *p, struct pval l, struct pval r, shape_id base,
                            sharding_id out, int64_t n, bool strict, struct pval *res); /* S-180 */
/* S-178, S-181 up to the groups: what is left inside. false: not this way. */
struct choice product_choice(const struct product *p, enum product_class c, int own, int other);
bool product_free_inside(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n, bool strict, int side, const struct choice *c,
                         struct inner_product *in);
/* As if nothing of the output were cut. */
bool product_contract_inside(struct product *p, struct pval l, struct pval r, shape_id base,
                             sharding_id out, int64_t n, bool strict, const struct choice *c,
                             struct inner_product *in);

/* Whether S-183 takes the product for a loop. */
bool product_is_windowed(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n);
/* S-186: with choose_faster, which operand to match of two that could be (LHS, RHS), -1: no
 * preference; S-187: -2: contracting dims are grouped first. */
int product_faster_side(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, bool left, bool right);
/* S-183: a loop; false: not accepted. */
bool product_windowed(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, int64_t n, struct pval *res);
/* S-195: -1 abort, 0 go on, 1 done. */
int product_convolution(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, struct pval *res);

/* S-194: the convolution on local operands. */
instr_id product_convolve(struct product *p, instr_id l, instr_id r,
                          const struct window_dim *window);

/* Product of the tile counts of sh's dims of one class (S-169). side: whose dims they are. */
int64_t product_count(const struct product *p, sharding_id sh, enum product_class c, int side);
/* Own free dims of an operand. */
static inline enum product_class free_class(int side)
{
    return side == LHS ? LFREE : RFREE;
}
/* xfer(a -> b) of S-169; none when a tiled dim has no partner. */
sharding_id product_map(struct product *p, sharding_id sh, int from, int to);
/* S-36 */
sharding_id product_infer(struct product *p, sharding_id out, sharding_id other, int which,
                          bool use_other);
void product_add_dim(struct product *p, enum product_class c, int l, int r, int o);
/* The dims of a class on one side; how many. */
int product_dims(const struct product *p, enum product_class c, int side, int *dims);
struct pval mask_zero(struct spmd *s, struct pval v, uint64_t skip);

#endif
