/* Between mlir_op.c and mlir_func.c. */
#ifndef GSPMD_TEXT_MLIR_OP_H
#define GSPMD_TEXT_MLIR_OP_H

#include "text/mlir.h"

bool mop_raw_value(struct mlir *r, bool pretty, const char **text, uint32_t *len);
void mop_keep_attr(struct mlir *r, const char *key, uint32_t klen, const char *val, uint32_t vlen);
void mop_take_attrs(struct mlir *r, struct mop *op);
bool mop_type_list(struct mlir *r, bool parens);
bool mop_take_arrow(struct mlir *r);
bool mop_result_types(struct mlir *r);
void mop_symbol(struct mlir *r, const char **text, uint32_t *n);
bool mop_pretty_module(struct mlir *r, struct mop *op);
bool mop_pretty_func(struct mlir *r, struct mop *op);
bool mop_pretty_mesh(struct mlir *r, struct mop *op);
bool mop_generic_func(struct mlir *r, struct mop *op);

#endif
