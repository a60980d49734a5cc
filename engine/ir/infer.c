/* Shape inference: the dispatcher, what rules share, and the rules of elementwise operations. */
#include "ir/infer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ----------------------------------------------------------------------------------- */

const char *named(const struct module *m, struct arena *a, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    if (in->name.i)
        return arena_printf(a, "'%s'", name_text(m->ir, in->name));
    return arena_printf(a, "%s (instruction %" PRIu32 ")", op_name((enum op_kind)in->op), i.i);
}

bool bad(const struct rule *r, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return diag_error(r->d, r->m->source, r->in->at, "%s %s: %s", op_name(r->op),
                      named(r->m, r->tmp, r->id), text);
}

/* Shapes of many leaves are cut: the beginning tells what they are. */
const char *shown(const struct rule *r, shape_id s)
{
    struct str out = STR_IN(r->tmp);
    shape_print(r->ir, s, false, &out);
    const char *t = str_text(&out);
    return out.n <= 160 ? t : arena_printf(r->tmp, "%.150s...", t);
}

const char *shown_dims(const struct rule *r, int n, const int64_t *v)
{
    struct str out = STR_IN(r->tmp);
    str_addc(&out, '{');
    for (int d = 0; d < n && out.n < 120; d++)
        str_addf(&out, d ? ",%" PRId64 : "%" PRId64, v[d]);
    str_addc(&out, '}');
    return str_text(&out);
}

/* ---- what operands must be ---------------------------------------------------------------------- */

bool is_integer(enum dtype t)
{
    enum dtype_kind k = dtype_kind(t);
    return k == DTYPE_KIND_SIGNED || k == DTYPE_KIND_UNSIGNED;
}

bool is_floating(enum dtype t)
{
    enum dtype_kind k = dtype_kind(t);
    return k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX;
}

bool need_array(const struct rule *r, int64_t k)
{
    if (operand(r, k)->kind == SHAPE_ARRAY)
        return true;
    return bad(r, "operand %" PRId64 " must be an array, not %s%s", k,
               operand(r, k)->kind == SHAPE_TUPLE ? "a tuple, " : "", shown(r, operand_id(r, k)));
}

bool all_arrays(const struct rule *r)
{
    for (uint32_t k = 0; k < r->in->noperands; k++)
        if (!need_array(r, k))
            return false;
    return true;
}

bool need_integer(const struct rule *r, int64_t k)
{
    if (!need_array(r, k))
        return false;
    if (is_integer(operand(r, k)->dtype))
        return true;
    return bad(r, "operand %" PRId64 " must have an integer type, not %s", k,
               shown(r, operand_id(r, k)));
}

bool same_operands(const struct rule *r, int64_t from, int64_t n, bool types_too)
{
    for (int64_t k = from + 1; k < from + n; k++) {
        shape_id a = operand_id(r, from), b = operand_id(r, k);
        if (!shape_same_dims(r->ir, a, b) || (types_too && !shape_same(r->ir, a, b)))
            return bad(r, "operands %" PRId64 " and %" PRId64 " must have the same shape, but are %s and %s",
                       from, k, shown(r, a), shown(r, b));
    }
    return true;
}

bool need_attr(const struct rule *r, enum attr_key k)
{
    return instr_attr(r->in, k) || bad(r, "%s= is missing", attr_name(k));
}

bool need_dims(const struct rule *r, enum attr_key k, int rank, int *n, const int64_t **v,
               uint64_t *seen)
{
    *v = instr_ints(r->in, k, n);
    *seen = 0;
    for (int i = 0; i < *n; i++) {
        int64_t d = (*v)[i];
        if (d < 0 || d >= rank)
            return bad(r, "%s=%s names dimension %" PRId64 ", but the array has rank %d",
                       attr_name(k), shown_dims(r, *n, *v), d, rank);
        if (*seen >> d & 1)
            return bad(r, "%s=%s names dimension %" PRId64 " twice", attr_name(k),
                       shown_dims(r, *n, *v), d);
        *seen |= (uint64_t)1 << d;
    }
    return true;
}

/* ---- results ------------------------------------------------------------------------------------ */

bool give(struct rule *r, enum dtype t, const struct dims *d)
{
    if (d->too_many)
        return bad(r, "the result has more than %d dimensions", MAX_DIMS);
    for (int i = 0; i < d->rank; i++)
        if (d->v[i] < 0)
            return bad(r, "dimension %d of the result would have the size %" PRId64, i, d->v[i]);
    r->out = shape_array(r->ir, t, d->rank, d->v);
    if (shape_get(r->ir, r->out)->bytes < 0)
        return bad(r, "the size of the result does not fit in 64 bits");
    return true;
}

bool give_shape(struct rule *r, shape_id s)
{
    r->out = shape_get(r->ir, s)->strip;
    return true;
}

bool give_all(struct rule *r, int64_t n, const shape_id *shapes)
{
    return give_shape(r, n == 1 ? shapes[0] : shape_tuple(r->ir, n, shapes));
}

/* ---- called computations ------------------------------------------------------------------------ */

const char *comp_named(const struct rule *r, comp_id c)
{
    return name_text(r->ir, comp_at(r->m, c)->name);
}

bool need_comp(const struct rule *r, enum attr_key k, comp_id *out)
{
    const struct attr *a = instr_attr(r->in, k);
    if (a && a->type == ATTR_TYPE_COMP && a->comp.i && a->comp.i <= module_ncomps(r->m)) {
        *out = a->comp;
        return true;
    }
    return bad(r, "%s= is missing: the computation to call", attr_name(k));
}

bool need_params(const struct rule *r, comp_id c, int64_t n, const char *role)
{
    const struct computation *k = comp_at(r->m, c);
    if (k->nparams != n)
        return bad(r, "%s '%s' must take %" PRId64 " parameters, but has %" PRIu32, role,
                   comp_named(r, c), n, k->nparams);
    for (uint32_t p = 0; p < k->nparams; p++)
        if (!k->params[p].i)
            return bad(r, "%s '%s' has no parameter %" PRIu32, role, comp_named(r, c), p);
    if (!k->root.i)
        return bad(r, "%s '%s' is empty", role, comp_named(r, c));
    return true;
}

shape_id param_shape(const struct rule *r, comp_id c, int64_t k)
{
    return instr_at(r->m, comp_at(r->m, c)->params[k])->shape;
}

shape_id root_shape(const struct rule *r, comp_id c)
{
    return instr_at(r->m, comp_at(r->m, c)->root)->shape;
}

/* ---- elementwise -------------------------------------------------------------------------------- */

bool rule_given(struct rule *r)
{
    (void)r;
    return true;
}

/* What element types a unary operation works on, in words; NULL: it works on t. */
static const char *unary_wants(enum op_kind op, enum dtype t)
{
    bool pred = t == DTYPE_PRED, integer = is_integer(t);
    bool complex = dtype_kind(t) == DTYPE_KIND_COMPLEX;
    if (op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND_AFZ || op == OP_ROUND_EVEN ||
        op == OP_REDUCE_PRECISION || op == OP_ERF)
        return is_floating(t) && !complex ? NULL : "a float type";
    if (op == OP_NOT)
        return pred || integer ? NULL : "pred or an integer type";
    if (op == OP_POPCNT || op == OP_CLZ)
        return integer ? NULL : "an integer type";
    if (op == OP_NEGATE || op == OP_SIGN || op == OP_ABS)
        return pred ? "a number type" : NULL;
    return is_floating(t) ? NULL : "a float or complex type";
}

static bool check_unary_type(const struct rule *r)
{
    const char *wants = unary_wants(r->op, operand(r, 0)->dtype);
    return !wants || bad(r, "the operand must have %s, not %s", wants, shown(r, operand_id(r, 0)));
}

bool rule_unary(struct rule *r)
{
    return need_array(r, 0) && check_unary_type(r) && give_shape(r, operand_id(r, 0));
}

bool rule_reduce_precision(struct rule *r)
{
    if (!need_attr(r, ATTR_EXPONENT_BITS) || !need_attr(r, ATTR_MANTISSA_BITS))
        return false;
    int64_t e = instr_int(r->in, ATTR_EXPONENT_BITS, 0), m = instr_int(r->in, ATTR_MANTISSA_BITS, 0);
    if (e < 1 || m < 0)
        return bad(r, "exponent_bits=%" PRId64 ", mantissa_bits=%" PRId64 ": at least 1 exponent bit and 0 "
                   "mantissa bits are needed", e, m);
    return rule_unary(r);
}

bool rule_custom_call(struct rule *r)
{
    if (!need_attr(r, ATTR_CUSTOM_CALL_TARGET))
        return false;
    if (strcmp(instr_target(r->m, r->in), "Sharding") != 0)
        return true;
    return r->in->noperands == 1 ? give_shape(r, operand_id(r, 0))
                                 : bad(r, "an annotation (custom_call_target=\"Sharding\") has one operand, not %" PRIu32,
                                       r->in->noperands);
}

static bool need_word(const struct rule *r, enum attr_key k, int n, const char *const *words, const char *list)
{
    const struct attr *a = instr_attr(r->in, k);
    for (int w = 0; a && w < n; w++)
        if (instr_is(r->m, r->in, k, words[w]))
            return true;
    return !a || bad(r, "%s=%s is none of %s", attr_name(k), name_text(r->ir, a->name), list);
}

bool rule_rng_bit_generator(struct rule *r)
{
    static const char *const known[] = { "rng_default", "rng_three_fry", "rng_philox" };
    static const char list[] = "rng_default, rng_three_fry, rng_philox";
    if (!need_word(r, ATTR_RNG_ALGORITHM, COUNTOF(known), known, list) ||
        !need_word(r, ATTR_ALGORITHM, COUNTOF(known), known, list))
        return false;
    const struct shape *s = r->declared;
    if (s->kind != SHAPE_TUPLE || s->nelems != 2 || shape_same(r->ir, s->elems[0], operand_id(r, 0)))
        return true;
    return bad(r, "it is given the state %s and returns the state %s: they must be the same", shown(r, operand_id(r, 0)),
               shown(r, s->elems[0]));
}

bool need_transpose_word(const struct rule *r)
{
    static const char *const known[] = { "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT" };
    return need_word(r, ATTR_TRANSPOSE_A, COUNTOF(known), known, "NO_TRANSPOSE, TRANSPOSE, ADJOINT");
}

static enum dtype real_part(enum dtype t)
{
    return t == DTYPE_C64 ? DTYPE_F32 : t == DTYPE_C128 ? DTYPE_F64 : t;
}

static bool give_typed(struct rule *r, shape_id s, enum dtype t)
{
    return give_shape(r, shape_with_dtype(r->ir, shape_get(r->ir, s)->strip, t));
}

bool rule_abs(struct rule *r)
{
    return need_array(r, 0) && check_unary_type(r) &&
           give_typed(r, operand_id(r, 0), real_part(operand(r, 0)->dtype));
}

bool rule_real(struct rule *r)
{
    return rule_abs(r);
}

bool rule_is_finite(struct rule *r)
{
    return need_array(r, 0) && check_unary_type(r) && give_typed(r, operand_id(r, 0), DTYPE_PRED);
}

static bool need_declared_array(const struct rule *r)
{
    return r->declared->kind == SHAPE_ARRAY ||
           bad(r, "the result must be an array, not %s", shown(r, r->in->shape));
}

bool rule_convert(struct rule *r)
{
    if (!all_arrays(r) || !need_declared_array(r))
        return false;
    if (r->in->noperands == 2 && !same_operands(r, 0, 2, false))
        return false;
    return give_typed(r, operand_id(r, 0), r->declared->dtype);
}

/* Equal widths keep the dims; a wider type takes the last dimension in, a narrower one adds one. */
bool rule_bitcast_convert(struct rule *r)
{
    if (!need_array(r, 0) || !need_declared_array(r))
        return false;
    const struct shape *from = operand(r, 0);
    enum dtype t = r->declared->dtype;
    int a = dtype_bits(from->dtype), b = dtype_bits(t);
    bool complex = dtype_kind(t) == DTYPE_KIND_COMPLEX;
    if (complex != (dtype_kind(from->dtype) == DTYPE_KIND_COMPLEX))
        return bad(r, "cannot reinterpret %s as %s", shown(r, operand_id(r, 0)), dtype_name(t));
    struct dims d = { 0 };
    for (int i = 0; i < from->rank; i++)
        dims_add(&d, from->dims[i]);
    if (a < b) {
        if (d.rank == 0 || d.v[d.rank - 1] != b / a)
            return bad(r, "to become %s, the last dimension of %s must be %d", dtype_name(t),
                       shown(r, operand_id(r, 0)), b / a);
        d.rank--;
    } else if (a > b) {
        dims_add(&d, a / b);
    }
    return give(r, t, &d);
}

bool rule_copy(struct rule *r)
{
    return give_shape(r, operand_id(r, 0));
}

bool rule_copy0(struct rule *r)
{
    return give_shape(r, operand_id(r, 0));
}

static const char *binary_wants(enum op_kind op, enum dtype t)
{
    bool complex = dtype_kind(t) == DTYPE_KIND_COMPLEX;
    if (op == OP_AND || op == OP_OR || op == OP_XOR)
        return t == DTYPE_PRED || is_integer(t) ? NULL : "pred or an integer type";
    if (op == OP_SHIFT_LEFT || op == OP_SHIFT_RIGHT_A || op == OP_SHIFT_RIGHT_L)
        return is_integer(t) ? NULL : "an integer type";
    if (op == OP_MAXIMUM || op == OP_MINIMUM)
        return complex ? "a type with an order" : NULL;
    if (op == OP_ATAN2)
        return is_floating(t) ? NULL : "a float or complex type";
    return NULL;
}

static bool check_binary(const struct rule *r)
{
    if (!all_arrays(r) || !same_operands(r, 0, 2, true))
        return false;
    const char *wants = binary_wants(r->op, operand(r, 0)->dtype);
    return !wants || bad(r, "the operands must have %s, not %s", wants, shown(r, operand_id(r, 0)));
}

bool rule_binary(struct rule *r)
{
    return check_binary(r) && give_shape(r, operand_id(r, 0));
}

bool rule_complex(struct rule *r)
{
    if (!check_binary(r))
        return false;
    enum dtype t = operand(r, 0)->dtype;
    if (t != DTYPE_F32 && t != DTYPE_F64)
        return bad(r, "the parts must be f32 or f64, not %s", shown(r, operand_id(r, 0)));
    return give_typed(r, operand_id(r, 0), t == DTYPE_F32 ? DTYPE_C64 : DTYPE_C128);
}

bool rule_compare(struct rule *r)
{
    static const char *const ways[] = { "EQ", "NE", "LT", "LE", "GT", "GE" };
    if (!check_binary(r) || !need_attr(r, ATTR_DIRECTION))
        return false;
    size_t w = 0;
    while (w < COUNTOF(ways) && !instr_is(r->m, r->in, ATTR_DIRECTION, ways[w]))
        w++;
    if (w == COUNTOF(ways))
        return bad(r, "direction= must be EQ, NE, LT, LE, GT or GE");
    if (w > 1 && dtype_kind(operand(r, 0)->dtype) == DTYPE_KIND_COMPLEX)
        return bad(r, "complex numbers have no order: direction= must be EQ or NE");
    return give_typed(r, operand_id(r, 0), DTYPE_PRED);
}

/* A bound of clamp, the predicate of select: one value for all elements, or one for each. */
static bool fits_elements(const struct rule *r, int64_t k, int64_t of)
{
    if (operand(r, k)->rank == 0 || shape_same_dims(r->ir, operand_id(r, k), operand_id(r, of)))
        return true;
    return bad(r, "operand %" PRId64 " must be a scalar or have the dimensions of operand %" PRId64
               ", but they are %s and %s", k, of, shown(r, operand_id(r, k)),
               shown(r, operand_id(r, of)));
}

bool rule_select(struct rule *r)
{
    if (!all_arrays(r) || !same_operands(r, 1, 2, true))
        return false;
    if (operand(r, 0)->dtype != DTYPE_PRED)
        return bad(r, "operand 0 must be pred, not %s", shown(r, operand_id(r, 0)));
    return fits_elements(r, 0, 1) && give_shape(r, operand_id(r, 1));
}

bool rule_clamp(struct rule *r)
{
    if (!all_arrays(r) || !fits_elements(r, 0, 1) || !fits_elements(r, 2, 1))
        return false;
    enum dtype t = operand(r, 1)->dtype;
    for (int k = 0; k < 3; k += 2)
        if (operand(r, k)->dtype != t)
            return bad(r, "operand %d is %s, operand 1 is %s: the element types must be equal", k,
                       shown(r, operand_id(r, k)), shown(r, operand_id(r, 1)));
    return give_shape(r, operand_id(r, 1));
}

bool rule_map(struct rule *r)
{
    comp_id c;
    if (r->in->noperands == 0)
        return bad(r, "needs at least one operand");
    if (!all_arrays(r) || !same_operands(r, 0, r->in->noperands, false) ||
        !need_comp(r, ATTR_TO_APPLY, &c) ||
        !need_params(r, c, r->in->noperands, "the mapped function"))
        return false;
    for (uint32_t k = 0; k < r->in->noperands; k++) {
        const struct shape *p = shape_get(r->ir, param_shape(r, c, k));
        if (p->kind != SHAPE_ARRAY || p->rank || p->dtype != operand(r, k)->dtype)
            return bad(r, "parameter %" PRIu32 " of '%s' must be a scalar of operand %" PRIu32
                       "'s type (%s), not %s", k, comp_named(r, c), k,
                       shown(r, operand_id(r, k)), shown(r, param_shape(r, c, k)));
    }
    const struct shape *root = shape_get(r->ir, root_shape(r, c));
    if (root->kind != SHAPE_ARRAY || root->rank)
        return bad(r, "'%s' must return a scalar, not %s", comp_named(r, c),
                   shown(r, root_shape(r, c)));
    return give_typed(r, operand_id(r, 0), root->dtype);
}

bool rule_iota(struct rule *r)
{
    if (!need_declared_array(r))
        return false;
    if (r->declared->rank == 0)
        return bad(r, "the result must have at least one dimension");
    if (r->declared->dtype == DTYPE_PRED)
        return bad(r, "the result cannot be pred");
    if (!need_attr(r, ATTR_IOTA_DIMENSION))
        return false;
    int64_t d = instr_int(r->in, ATTR_IOTA_DIMENSION, 0);
    if (d < 0 || d >= r->declared->rank)
        return bad(r, "iota_dimension=%" PRId64 ", but the result has rank %d", d,
                   r->declared->rank);
    return true;
}

/* ---- tuples ------------------------------------------------------------------------------------- */

bool rule_tuple(struct rule *r)
{
    /* The usual case first: a tuple of thousands of elements is compared, not built again. */
    const struct shape *s = shape_get(r->ir, r->declared->strip);
    if (s->kind == SHAPE_TUPLE && s->nelems == r->in->noperands) {
        int64_t k = 0;
        while (k < s->nelems && operand(r, k)->strip.i == s->elems[k].i)
            k++;
        if (k == s->nelems)
            return give_shape(r, r->declared->strip);
    }
    shape_id *elems = ARENA_ARRAY(r->tmp, shape_id, r->in->noperands);
    for (uint32_t k = 0; k < r->in->noperands; k++)
        elems[k] = operand(r, k)->strip;
    return give_shape(r, shape_tuple(r->ir, r->in->noperands, elems));
}

bool rule_get_tuple_element(struct rule *r)
{
    const struct shape *s = operand(r, 0);
    if (s->kind != SHAPE_TUPLE)
        return bad(r, "the operand must be a tuple, not %s", shown(r, operand_id(r, 0)));
    if (!need_attr(r, ATTR_INDEX))
        return false;
    int64_t k = instr_int(r->in, ATTR_INDEX, -1);
    if (k < 0 || k >= s->nelems)
        return bad(r, "index=%" PRId64 ", but the tuple has %" PRId64 " elements", k, s->nelems);
    return give_shape(r, s->elems[k]);
}

/* ---- dispatch ----------------------------------------------------------------------------------- */

static rule_fn *const rules[OP_COUNT] = {
    [OP_NONE] = rule_given,
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)                \
    [OP_##id] = rule_##verify,
#include "ir/ops.def"
};

static bool need_operands(const struct rule *r)
{
    int64_t n = r->in->noperands, lo = op_min_operands(r->op), hi = op_max_operands(r->op);
    if (n < lo || (hi >= 0 && n > hi)) {
        if (lo == hi)
            return bad(r, "takes %" PRId64 " operand%s, but has %" PRId64, lo, lo == 1 ? "" : "s", n);
        return bad(r, hi < 0 ? "takes at least %" PRId64 " operands, but has %" PRId64
                             : "takes %" PRId64 " to %" PRId64 " operands, but has %" PRId64,
                   lo, hi < 0 ? n : hi, n);
    }
    for (int64_t k = 0; k < n; k++) {
        uint32_t o = r->in->operands[k].i;
        if (o == 0 || o > module_ninstrs(r->m))
            return bad(r, "operand %" PRId64 " is not defined", k);
    }
    return true;
}

bool infer_shape(const struct module *m, instr_id i, shape_id *out, struct diag *d)
{
    const struct instr *in = instr_at(m, i);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct rule r = { .m = m, .ir = m->ir, .id = i, .in = in, .op = (enum op_kind)in->op, .d = d,
                      .declared = shape_get(m->ir, in->shape), .tmp = &tmp };
    bool ok = need_operands(&r) && rules[r.op](&r);
    *out = r.out;
    arena_close(&tmp);
    return ok;
}
