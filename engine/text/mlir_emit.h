/* Between mlir_emit.c and mlir_nums.c. */
#ifndef GSPMD_TEXT_MLIR_EMIT_H
#define GSPMD_TEXT_MLIR_EMIT_H

#include "text/mlir.h"

void mnum_add(struct mlir *r, struct attr a);
bool mnum_add_ints(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other);
void mnum_add_word(struct mlir *r, enum attr_key k, const char *word, uint32_t n);
void mnum_add_bool(struct mlir *r, enum attr_key k, bool v);
comp_id mnum_region_comp(const struct mop *op, uint32_t k);
bool mnum_add_dot(struct mlir *r, struct mop *op);
bool mnum_add_conv(struct mlir *r, struct mop *op);
bool mnum_add_reduce_window(struct mlir *r, struct mop *op);
bool mnum_add_gather(struct mlir *r, struct mop *op);
bool mnum_add_scatter(struct mlir *r, struct mop *op);
bool mnum_add_groups(struct mlir *r, const struct mop *op);
bool mnum_add_channel(struct mlir *r, const struct mop *op);
void mnum_add_global_ids(struct mlir *r, const struct mop *op);
bool mnum_add_pairs(struct mlir *r, const struct mop *op);
bool mnum_emit_all_to_all(struct mlir *r, struct mop *op, const instr_id *v);
void mnum_attach_sharding(struct mlir *r, instr_id i);

#endif
