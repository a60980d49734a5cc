/* Convolution among its own files: conv.c (classes, the local convolution, the order of strategies),
 * conv_halo.c (operands or output tiled on spatial dims), conv_group.c (feature and batch groups). */
#ifndef GSPMD_PARTITION_CONV_H
#define GSPMD_PARTITION_CONV_H

#include "partition/dot.h"
#include "partition/halo.h"

enum { CONV_MAX_SPATIAL = 12 };

static inline const struct conv_dims *conv_of(const struct product *p)
{
    return instr_attr(instr_at(p->s->src, p->source), ATTR_DIM_LABELS)->conv;
}

static inline int64_t group_count(const struct product *p, enum attr_key k)
{
    return instr_int(instr_at(p->s->src, p->source), k, 1);
}

/* Whether operands tiled like this would split groups between devices. */
bool conv_groups_forbid(const struct product *p, sharding_id l, sharding_id r);

/* S-199: halos on the lhs; S-200: on the kernel; S-201: the output's tiling. false: not this way. */
bool conv_halo_on_lhs(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, struct pval *res);
bool conv_halo_on_rhs(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, struct pval *res);
bool conv_halo_for_output(struct product *p, struct pval l, struct pval r, shape_id base,
                          sharding_id out, struct pval *res);

/* S-197, S-198: groups that no device shares. */
bool conv_by_groups(struct product *p, struct pval l, struct pval r, shape_id base, sharding_id out,
                    int64_t n, struct pval *res);
/* S-202: the groups as a batch dimension. */
bool conv_groups_as_batch(struct product *p, struct pval l, struct pval r, shape_id base,
                          sharding_id out, int64_t n, bool strict, struct pval *res);

/* How many windows there are over a dim of that size. */
int64_t conv_windows(const struct window_dim *w, int64_t size);
/* S-193 of the i-th spatial dim. */
enum product_class product_spatial_class(const struct product *p, int i);
/* The fallback of a convolution with groups that leaves them whole; false: it needs whole operands. */
bool conv_whole_groups(struct product *p, struct pval l, struct pval r, shape_id base,
                       sharding_id out, struct pval *res);

#endif
