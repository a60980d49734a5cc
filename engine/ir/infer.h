/* Between the files of shape inference and the verifier.
 *
 * A rule computes the shape that an instruction must have, checking operands and attributes on the
 * way; it leaves r->out at "none" where the text decides. The column `verify` of ops.def names the
 * rule of each operation. Rules reach elements of operands only after need_operands() said that
 * their number is right (the dispatcher does that). */
#ifndef GSPMD_IR_INFER_H
#define GSPMD_IR_INFER_H

#include "ir/ir.h"

enum { MAX_DIMS = 64 };

struct rule {
    const struct module *m;
    struct ir *ir;
    instr_id id;
    const struct instr *in;
    enum op_kind op;
    const struct shape *declared; /* of the instruction itself */
    struct diag *d;
    struct arena *tmp; /* for texts of messages */
    shape_id out;
};

/* A list of sizes under construction. */
struct dims {
    int rank;
    bool too_many;
    int64_t v[MAX_DIMS];
};

static inline void dims_add(struct dims *d, int64_t size)
{
    if (d->rank < MAX_DIMS)
        d->v[d->rank++] = size;
    else
        d->too_many = true;
}

/* Reports "add 'y': ..." at the instruction; false. */
bool bad(const struct rule *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *shown(const struct rule *r, shape_id s);     /* f32[8,4], for messages */
const char *shown_dims(const struct rule *r, int n, const int64_t *v); /* {0,1} */
/* "'y'", or "instruction 12" where it has no name. */
const char *named(const struct module *m, struct arena *a, instr_id i);

static inline shape_id operand_id(const struct rule *r, int64_t k)
{
    return instr_at(r->m, r->in->operands[k])->shape;
}
static inline const struct shape *operand(const struct rule *r, int64_t k)
{
    return shape_get(r->ir, operand_id(r, k));
}

bool need_array(const struct rule *r, int64_t k);
bool all_arrays(const struct rule *r);
bool need_integer(const struct rule *r, int64_t k); /* an array of integers */
bool is_integer(enum dtype t);
bool is_floating(enum dtype t); /* float or complex */
/* An attribute that must be there. */
bool need_attr(const struct rule *r, enum attr_key k);
/* The ints of a list attribute; each in [0, rank), none twice. seen: bit set of them. */
bool need_dims(const struct rule *r, enum attr_key k, int rank, int *n, const int64_t **v,
               uint64_t *seen);
/* Sets r->out to an array; false with a message when it has too many dimensions or is too large. */
bool give(struct rule *r, enum dtype t, const struct dims *d);
bool give_shape(struct rule *r, shape_id s);
/* For n results: the array itself when n is 1, a tuple otherwise. */
bool give_all(struct rule *r, int64_t n, const shape_id *shapes);
/* Operands from..from+n have equal shapes (all but layout). */
bool same_operands(const struct rule *r, int64_t from, int64_t n, bool types_too);

/* A called computation: it must have n parameters (each: anything). */
bool need_params(const struct rule *r, comp_id c, int64_t n, const char *role);
shape_id param_shape(const struct rule *r, comp_id c, int64_t k);
shape_id root_shape(const struct rule *r, comp_id c);
const char *comp_named(const struct rule *r, comp_id c);
/* The attribute's computation, which must be there. */
bool need_comp(const struct rule *r, enum attr_key k, comp_id *out);

/* Window arithmetic: size of one output dimension; -1 when a value is out of range. */
int64_t window_output(const struct window_dim *w, int64_t size);
bool check_window(const struct rule *r, const struct window *w, int rank);

/* Members of one group of the instruction's replica groups; 0: not known. */
int64_t group_size(const struct module *m, const struct instr *in);

/* ---- the rules, one a word of the column ------------------------------------------------------- */

typedef bool rule_fn(struct rule *r);

/* infer.c */
rule_fn rule_reduce_precision, rule_custom_call, rule_rng_bit_generator;
bool need_transpose_word(const struct rule *r);
rule_fn rule_done;
rule_fn rule_given, rule_iota, rule_abs, rule_unary, rule_convert, rule_bitcast_convert, rule_copy,
    rule_copy0, rule_real, rule_is_finite, rule_binary, rule_compare, rule_complex, rule_select,
    rule_clamp, rule_map, rule_tuple, rule_get_tuple_element;
/* infer_data.c */
rule_fn rule_broadcast, rule_reshape, rule_transpose, rule_reverse, rule_concatenate, rule_pad,
    rule_slice, rule_dynamic_slice, rule_dynamic_update_slice, rule_gather, rule_scatter, rule_sort;
/* infer_math.c */
rule_fn rule_dot, rule_convolution, rule_reduce, rule_reduce_window, rule_select_and_scatter,
    rule_fft, rule_triangular_solve, rule_batch_norm_training, rule_batch_norm_inference,
    rule_batch_norm_grad, rule_get_dimension_size, rule_set_dimension_size, rule_cholesky,
    rule_topk;
/* infer_flow.c */
rule_fn rule_while, rule_conditional, rule_call, rule_all_gather, rule_all_reduce,
    rule_reduce_scatter, rule_all_to_all, rule_collective_permute, rule_token, rule_u32;

#endif
