/* Between mlir_emit.c (an operation becomes instructions), mlir_value.c, mlir_words.c, mlir_nums.c,
 * mlir_flow.c and mlir_check.c. */
#ifndef GSPMD_TEXT_MLIR_EMIT_H
#define GSPMD_TEXT_MLIR_EMIT_H

#include "text/mlir.h"

void mnum_add(struct mlir *r, struct attr a);
bool mnum_add_ints(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other);
void mnum_add_word(struct mlir *r, enum attr_key k, const char *word, uint32_t n);
void mnum_add_bool(struct mlir *r, enum attr_key k, bool v);
comp_id mnum_region_comp(struct mlir *r, const struct mop *op, uint32_t k);
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

bool memit_operands(struct mlir *r, const struct mop *op, instr_id **out);
shape_id memit_result_shape(struct mlir *r, const struct mop *op);
void memit_name(struct mlir *r, instr_id i, enum op_kind op, const char *name, uint32_t n);
bool memit_broadcast(struct mlir *r, struct mop *op, instr_id x);
bool memit_iota(struct mlir *r, struct mop *op);
bool mnum_add_compare(struct mlir *r, const struct mop *op);
bool mnum_add_slice(struct mlir *r, struct mop *op);
bool mnum_add_padding(struct mlir *r, struct mop *op);
bool mnum_add_enum(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other, const char *prefix);
bool mnum_add_bits(struct mlir *r, const struct mop *op);
bool mnum_add_index(struct mlir *r, const struct mop *op);
bool mnum_add_epsilon(struct mlir *r, const struct mop *op);
bool memit_while(struct mlir *r, struct mop *op, const instr_id *v);
bool memit_branches(struct mlir *r, struct mop *op, const instr_id *v);
bool memit_call(struct mlir *r, struct mop *op, const instr_id *v);
bool memit_custom(struct mlir *r, struct mop *op, const instr_id *v);
bool memit_unknown(struct mlir *r, struct mop *op, const instr_id *v);
instr_id memit_tuple(struct mlir *r, int64_t n, const instr_id *v);
bool memit_need(struct mlir *r, const struct mop *op, uint32_t lo, uint32_t regions);

#endif
