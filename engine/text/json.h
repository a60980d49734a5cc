/* Between the files of the JSON model reader. The format is described in models/README.md. */
#ifndef GSPMD_TEXT_JSON_H
#define GSPMD_TEXT_JSON_H

#include <cjson/cJSON.h>

#include "text/text.h"

enum { JSON_MAX_RANK = 16 };

/* One tensor of the model. */
struct value {
    const char *name;
    instr_id instr;
};

struct model {
    struct ir *c;
    struct module *m;
    struct source *src;
    struct diag *d;
    struct arena tmp;
    const cJSON *root, *sizes;
    comp_id entry;
    struct map values;   /* name_id -> instr */
    struct map reducers; /* (opcode, dtype) -> comp */
    int nerrors;

    /* the operation being read */
    const cJSON *op;
    const char *place; /* its text in the source */
    const char *name;
    const char *kind;
    shape_id shape;
    const struct shape *sh;
    struct span at;
};

/* ---- places in the text (json_place.c): cJSON keeps none ------------------------------------- */

/* The member of the object at p, the k-th element of the array at p; NULL: not there. */
const char *json_member(const char *p, const char *end, const char *key);
const char *json_element(const char *p, const char *end, int k);
const char *json_next(const char *p, const char *end); /* the element behind the one at p */
/* The span of the value at p. */
struct span json_span(const struct source *s, const char *p);

/* ---- messages: at a key of the operation, or at the operation itself (key NULL) -------------- */

struct span json_at(const struct model *j, const char *key);
#define OP_FAIL(j, key, ...) \
    ((j)->nerrors++, diag_error((j)->d, (j)->src, json_at((j), (key)), __VA_ARGS__))

/* ---- operations (json_ops.c, json_einsum.c) -------------------------------------------------- */

bool json_op(struct model *j);
bool json_einsum(struct model *j, const char *spec);
/* The computations that reductions call have to stand in front of the entry: makes those that this
 * operation needs. */
void json_reducers(struct model *j, const char *kind, const cJSON *op, enum dtype t);
comp_id json_reducer(struct model *j, enum op_kind op, enum dtype t);
bool json_arg(struct model *j, int k, instr_id *out);
int json_nargs(const struct model *j);
/* An instruction of the entry, called after the operation: NAME, or NAME.part for a step towards
 * it. */
instr_id json_emit(struct model *j, const char *part, enum op_kind op, shape_id shape, int n,
                   const instr_id *operands, int nattrs, const struct attr *attrs);
bool json_shape(struct model *j, const cJSON *text, struct span at, shape_id *out);
instr_id json_reduce(struct model *j, const char *part, enum op_kind op, instr_id x, int n,
                     const int64_t *dims, shape_id out);
instr_id json_broadcast(struct model *j, const char *part, instr_id x, int n, const int64_t *dims,
                        shape_id out);

#endif
