/* Between mlir_print.c and mlir_props.c. */
#ifndef GSPMD_TEXT_MLIR_PRINT_H
#define GSPMD_TEXT_MLIR_PRINT_H

#include <string.h>

#include "text/text.h"

/* One SSA value: %v12, %v12#1, %a3. */
struct leaf {
    uint32_t num;
    int32_t index; /* in a pack; -1: alone */
    bool arg;
};

struct frame {
    comp_id comp;
    uint32_t k; /* next instruction */
    instr_id op; /* whose regions are being written */
    int region, nregions;
    comp_id regions[2];
    const comp_id *list; /* more than two */
};

struct mprint {
    const struct module *m;
    const struct mlir_print_options *o;
    struct str *out;
    struct diag *d;
    struct arena tmp;
    struct leaf **vals; /* by instruction */
    uint32_t next;
    VEC(struct frame) stack;
    bool *is_func; /* by computation: something calls it */
    uint8_t *uses; /* of an instruction, up to 2 */
    instr_id *from; /* of a stretching broadcast: what it stretches */
    bool *inside; /* part of one */
    bool *result; /* a reshape that only says the sharding of an output */
    bool failed;
};

void mp_say(struct mprint *p, const char *text);
void mp_sayf(struct mprint *p, const char *key, int64_t v, const char *behind);
void mp_refuse(struct mprint *p, instr_id i, const char *why);
void mp_type(struct mprint *p, shape_id id);
int64_t mp_leaves(const struct mprint *p, shape_id s);
void mp_shape_types(struct mprint *p, shape_id s, bool *first);
void mp_result_types(struct mprint *p, shape_id s);
void mp_leaf(struct mprint *p, struct leaf v);
struct leaf *mp_fresh(struct mprint *p, int64_t n, bool args);
void mp_operand_leaves(struct mprint *p, const struct instr *in, uint32_t from);
void mp_operand_types(struct mprint *p, const struct instr *in, uint32_t n);
void mp_quoted(struct mprint *p, const char *s, size_t n);
sharding_id mp_sharding_of(const struct mprint *p, instr_id i);
void mp_sharding(struct mprint *p, instr_id i, sharding_id s, bool whole);
void mp_discardable(struct mprint *p, instr_id i);
void mp_location(struct mprint *p, instr_id i);
void mp_ints_attr(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name);
void mp_constant(struct mprint *p, instr_id i);
const char *mp_stablehlo_name(enum op_kind op);
void mp_properties(struct mprint *p, instr_id id, bool *first);

#endif
