/* Between mlir_op.c, mlir_results.c, mlir_pretty.c and mlir_func.c. */
#ifndef GSPMD_TEXT_MLIR_OP_H
#define GSPMD_TEXT_MLIR_OP_H

#include "text/mlir.h"

bool mop_raw_value(struct mlir *r, bool pretty, const char **text, uint32_t *len);
void mop_keep_attr(struct mlir *r, const char *key, uint32_t klen, const char *val, uint32_t vlen);
void mop_take_attrs(struct mlir *r, struct mop *op);
bool mop_attributes(struct mlir *r, struct mop *op); /* `attributes {..}`, where it stands */
/* One operand, into r->list; then: that list becomes the operation's. */
bool mop_use(struct mlir *r);
void mop_take_operands(struct mlir *r, struct mop *op);

/* mlir_results.c: the names of results (r->results), kept as attributes while regions are read; types. */
bool mop_read_results(struct mlir *r);
void mop_save_results(struct mlir *r, struct mop *op);
void mop_restore_results(struct mlir *r, struct mop *op);
bool mop_define_results(struct mlir *r, struct mop *op, int64_t n, const shape_id *shapes);
bool mop_read_types(struct mlir *r, struct mop *op);
bool mop_type_list(struct mlir *r, bool parens);
bool mop_take_arrow(struct mlir *r);
bool mop_result_types(struct mlir *r);

/* mlir_pretty.c; *region: the cursor is inside a region now. */
bool mop_pretty_reduce(struct mlir *r, struct mop *op, bool *region);
bool mop_pretty_while(struct mlir *r, struct mop *op);
bool mop_pretty_pieces(struct mlir *r, struct mop *op, bool *region);

/* mlir_func.c */
void mop_symbol(struct mlir *r, const char **text, uint32_t *n);
bool mop_pretty_module(struct mlir *r, struct mop *op);
bool mop_pretty_func(struct mlir *r, struct mop *op);
bool mop_pretty_mesh(struct mlir *r, struct mop *op);
bool mop_generic_func(struct mlir *r, struct mop *op);

#endif
