/* Between mlir_print.c and mlir_props.c. */
#ifndef GSPMD_TEXT_MLIR_PRINT_H
#define GSPMD_TEXT_MLIR_PRINT_H

#include <string.h>

#include "base/map.h"
#include "text/text.h"

/* One SSA value: %dot.4, %while.3#1; %_12 when the instruction has no name, or one that is taken or is
 * none in MLIR. The reader leaves an instruction of such a name without one, so that names survive. */
struct leaf {
    const char *name; /* NULL: by number */
    uint32_t num;
    int32_t index; /* in a pack; -1: alone */
};

struct frame {
    comp_id comp;
    uint32_t k; /* next instruction */
    instr_id op; /* whose regions are being written */
    int region, nregions;
    comp_id regions[2];
    const comp_id *list; /* more than two */
    const instr_id *order; /* in which its instructions are written */
    int64_t mark; /* names taken before it */
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
    bool *inside; /* part of one; the scalar of a splat */
    bool *ordered; /* while the order of a computation is made */
    instr_id *splat; /* of a broadcast: the scalar constant that it spreads */
    struct map taken; /* names of values in sight: hash -> 1 */
    VEC(uint64_t) scoped;
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
/* n values: results of one operation, all of one name (NULL: none), or arguments, each its own. */
struct leaf *mp_fresh(struct mprint *p, int64_t n, bool args, const char *name);
/* The name of an instruction as a value's, taken from here on; NULL: it cannot be one. */
const char *mp_name(struct mprint *p, instr_id i);
void mp_leave(struct mprint *p, int64_t mark); /* values since then are out of sight */
void mp_operand_leaves(struct mprint *p, const struct instr *in, uint32_t from);
void mp_operand_types(struct mprint *p, const struct instr *in, uint32_t n);
void mp_quoted(struct mprint *p, const char *s, size_t n);
sharding_id mp_sharding_of(const struct mprint *p, instr_id i);
void mp_sharding(struct mprint *p, instr_id i, sharding_id s, bool whole);
void mp_discardable(struct mprint *p, instr_id i);
void mp_frontend(struct mprint *p, const struct instr *in); /* mhlo.frontend_attributes = {..} */
void mp_location(struct mprint *p, instr_id i);
void mp_ints_attr(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name);
void mp_constant(struct mprint *p, instr_id i);
const char *mp_stablehlo_name(enum op_kind op);
void mp_properties(struct mprint *p, instr_id id, bool *first);

#endif
