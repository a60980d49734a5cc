/* Operations on small arrays of numbers, as the evaluator of loop bounds needs them. Integers wrap at
 * their width; floats are computed in double and rounded to their type. */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

static bool is_float(enum dtype t)
{
    return dtype_kind(t) == DTYPE_KIND_FLOAT;
}

static bool is_unsigned(enum dtype t)
{
    return dtype_kind(t) == DTYPE_KIND_UNSIGNED;
}

union element eval_wrap(enum dtype t, union element e)
{
    if (is_float(t)) {
        double d[1];
        char raw[8];
        float_store(t, e.f, raw);
        d[0] = float_load(t, raw);
        return (union element){ .f = d[0] };
    }
    if (t == DTYPE_PRED)
        return (union element){ .i = e.i != 0 };
    int bits = dtype_bits(t);
    if (bits >= 64)
        return e;
    uint64_t u = (uint64_t)e.i << (64 - bits);
    if (is_unsigned(t))
        return (union element){ .i = (int64_t)(u >> (64 - bits)) };
    return (union element){ .i = (int64_t)u >> (64 - bits) };
}

static union element *make(struct arena *a, enum dtype t, int64_t n, struct value *out)
{
    union element *e = ARENA_ARRAY(a, union element, n);
    *out = (struct value){ .dtype = t, .n = n, .v = e };
    return e;
}

void eval_literal(struct arena *a, const struct module *m, const struct literal *l, struct value *out)
{
    *out = (struct value){ .v = NULL };
    const struct shape *s = shape_get(m->ir, l->shape);
    if (!l->data || s->kind != SHAPE_ARRAY || s->count > MAX_ELEMENTS ||
        dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX)
        return;
    union element *e = make(a, s->dtype, s->count, out);
    for (int64_t k = 0; k < s->count; k++) {
        if (is_float(s->dtype))
            e[k].f = literal_get_f(m, l, k);
        else
            e[k].i = literal_get_i(m, l, k);
    }
}

/* ---- one element -------------------------------------------------------------------------------- */

static bool float_unary(enum op_kind op, double x, double *r)
{
    if (op == OP_NEGATE) *r = -x;
    else if (op == OP_ABS) *r = fabs(x);
    else if (op == OP_SIGN) *r = x > 0 ? 1 : x < 0 ? -1 : x;
    else if (op == OP_FLOOR) *r = floor(x);
    else if (op == OP_CEIL) *r = ceil(x);
    else if (op == OP_ROUND_AFZ) *r = round(x);
    else if (op == OP_ROUND_EVEN) *r = rint(x);
    else if (op == OP_SQRT) *r = sqrt(x);
    else return false;
    return true;
}

static bool int_unary(enum op_kind op, enum dtype t, int64_t x, int64_t *r)
{
    if (op == OP_NEGATE) *r = (int64_t)(0 - (uint64_t)x);
    else if (op == OP_ABS) *r = x < 0 && !is_unsigned(t) ? (int64_t)(0 - (uint64_t)x) : x;
    else if (op == OP_SIGN) *r = is_unsigned(t) ? x != 0 : (x > 0) - (x < 0);
    else if (op == OP_NOT) *r = t == DTYPE_PRED ? !x : ~x;
    else return false;
    return true;
}

static bool float_binary(enum op_kind op, double x, double y, double *r)
{
    if (op == OP_ADD) *r = x + y;
    else if (op == OP_SUBTRACT) *r = x - y;
    else if (op == OP_MULTIPLY) *r = x * y;
    else if (op == OP_DIVIDE) *r = x / y;
    else if (op == OP_REMAINDER) *r = fmod(x, y);
    else if (op == OP_MAXIMUM) *r = isnan(x) || x > y ? x : y;
    else if (op == OP_MINIMUM) *r = isnan(x) || x < y ? x : y;
    else return false;
    return true;
}

/* XLA's answers where mathematics has none: x / 0 is -1 (all ones), x rem 0 is x; the smallest number
 * divided by -1 stays itself. */
static int64_t divide(enum dtype t, int64_t x, int64_t y)
{
    if (y == 0)
        return -1;
    if (is_unsigned(t))
        return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t remainder_of(enum dtype t, int64_t x, int64_t y)
{
    if (y == 0)
        return x;
    if (is_unsigned(t))
        return (int64_t)((uint64_t)x % (uint64_t)y);
    return y == -1 ? 0 : x % y;
}

static bool less(enum dtype t, int64_t x, int64_t y)
{
    return is_unsigned(t) || t == DTYPE_PRED ? (uint64_t)x < (uint64_t)y : x < y;
}

static int64_t power(int64_t x, int64_t y)
{
    uint64_t r = 1, b = (uint64_t)x;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (; y; y >>= 1, b *= b)
        if (y & 1)
            r *= b;
    return (int64_t)r;
}

static int64_t shift(enum op_kind op, enum dtype t, int64_t x, int64_t y)
{
    int bits = dtype_bits(t);
    bool over = y < 0 || y >= bits;
    uint64_t u = (uint64_t)x;
    if (op == OP_SHIFT_LEFT)
        return over ? 0 : (int64_t)(u << y);
    if (op == OP_SHIFT_RIGHT_A)
        return x >> (over ? 63 : y);
    if (bits < 64)
        u &= ((uint64_t)1 << bits) - 1;
    return over ? 0 : (int64_t)(u >> y);
}

static bool int_binary(enum op_kind op, enum dtype t, int64_t x, int64_t y, int64_t *r)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    if (op == OP_ADD) *r = t == DTYPE_PRED ? x | y : (int64_t)(a + b);
    else if (op == OP_SUBTRACT) *r = (int64_t)(a - b);
    else if (op == OP_MULTIPLY) *r = (int64_t)(a * b);
    else if (op == OP_DIVIDE) *r = divide(t, x, y);
    else if (op == OP_REMAINDER) *r = remainder_of(t, x, y);
    else if (op == OP_MAXIMUM) *r = less(t, x, y) ? y : x;
    else if (op == OP_MINIMUM) *r = less(t, x, y) ? x : y;
    else if (op == OP_POWER && !is_unsigned(t)) *r = power(x, y);
    else if (op == OP_AND) *r = x & y;
    else if (op == OP_OR) *r = x | y;
    else if (op == OP_XOR) *r = x ^ y;
    else if (op == OP_SHIFT_LEFT || op == OP_SHIFT_RIGHT_A || op == OP_SHIFT_RIGHT_L)
        *r = shift(op, t, x, y);
    else return false;
    return true;
}

static bool one_binary(enum op_kind op, enum dtype t, union element x, union element y,
                       union element *r)
{
    bool ok = is_float(t) ? float_binary(op, x.f, y.f, &r->f) : int_binary(op, t, x.i, y.i, &r->i);
    if (ok)
        *r = eval_wrap(t, *r);
    return ok;
}

/* ---- elementwise -------------------------------------------------------------------------------- */

static bool unary(enum op_kind op, const struct value *x, union element *r)
{
    for (int64_t k = 0; k < x->n; k++) {
        bool ok = is_float(x->dtype) ? float_unary(op, x->v[k].f, &r[k].f)
                                     : int_unary(op, x->dtype, x->v[k].i, &r[k].i);
        if (!ok)
            return false;
        r[k] = eval_wrap(x->dtype, r[k]);
    }
    return true;
}

static union element at(const struct value *x, int64_t k)
{
    return x->v[x->n == 1 ? 0 : k];
}

static bool binary(enum op_kind op, const struct value *x, const struct value *y, union element *r)
{
    for (int64_t k = 0; k < x->n; k++)
        if (!one_binary(op, x->dtype, x->v[k], at(y, k), &r[k]))
            return false;
    return true;
}

static int64_t compared(const struct module *m, const struct instr *in, int less_, int equal, bool nan)
{
    if (instr_is(m, in, ATTR_DIRECTION, "EQ")) return equal;
    if (instr_is(m, in, ATTR_DIRECTION, "NE")) return !equal;
    if (nan) return 0;
    if (instr_is(m, in, ATTR_DIRECTION, "LT")) return less_;
    if (instr_is(m, in, ATTR_DIRECTION, "LE")) return less_ || equal;
    if (instr_is(m, in, ATTR_DIRECTION, "GT")) return !less_ && !equal;
    return !less_;
}

/* Float comparisons by TOTALORDER differ for nan and -0 only; those are left alone. */
static bool compare(const struct module *m, const struct instr *in, const struct value *x,
                    const struct value *y, union element *r)
{
    bool total = instr_is(m, in, ATTR_COMPARE_TYPE, "TOTALORDER");
    for (int64_t k = 0; k < x->n; k++) {
        union element a = x->v[k], b = at(y, k);
        if (!is_float(x->dtype)) {
            r[k].i = compared(m, in, less(x->dtype, a.i, b.i), a.i == b.i, false);
            continue;
        }
        bool nan = isnan(a.f) || isnan(b.f);
        if (total && (nan || (a.f == 0 && b.f == 0)))
            return false;
        r[k].i = compared(m, in, a.f < b.f, a.f == b.f, nan);
    }
    return true;
}

/* Floats to integers: towards zero, the nearest end when out of range, 0 for nan. */
static int64_t float_to_int(enum dtype t, double v)
{
    int bits = dtype_bits(t);
    if (isnan(v))
        return 0;
    double top = ldexp(1.0, is_unsigned(t) ? bits : bits - 1), bottom = is_unsigned(t) ? 0 : -top;
    if (v >= top)
        return is_unsigned(t) ? (bits == 64 ? -1 : ((int64_t)1 << bits) - 1)
                              : (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    if (v <= bottom)
        return is_unsigned(t) ? 0 : (int64_t)((uint64_t)-1 << (bits - 1));
    return is_unsigned(t) ? (int64_t)(uint64_t)v : (int64_t)v;
}

static union element convert(enum dtype from, enum dtype to, union element x)
{
    union element r;
    if (is_float(to))
        r.f = is_float(from)                            ? x.f
              : from == DTYPE_U64                       ? (double)(uint64_t)x.i
                                                        : (double)x.i;
    else if (to == DTYPE_PRED)
        r.i = is_float(from) ? x.f != 0 : x.i != 0;
    else
        r.i = is_float(from) ? float_to_int(to, x.f) : x.i;
    return eval_wrap(to, r);
}

/* ---- moving elements ---------------------------------------------------------------------------- */

/* Row-major index -> index along each dimension, and back. */
static void unravel(const struct shape *s, int64_t k, int64_t *idx)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        idx[d] = k % s->dims[d];
        k /= s->dims[d];
    }
}

static int64_t ravel(const struct shape *s, const int64_t *idx)
{
    int64_t k = 0;
    for (int d = 0; d < s->rank; d++)
        k = k * s->dims[d] + idx[d];
    return k;
}

static void broadcast(const struct instr *in, const struct shape *from, const struct shape *to,
                      const struct value *x, union element *r)
{
    int n;
    const int64_t *map = instr_ints(in, ATTR_DIMENSIONS, &n);
    int64_t out[64], idx[64];
    for (int64_t k = 0; k < to->count; k++) {
        unravel(to, k, out);
        for (int d = 0; d < from->rank; d++)
            idx[d] = out[map[d]];
        r[k] = x->v[ravel(from, idx)];
    }
}

static void slice(const struct instr *in, const struct shape *from, const struct shape *to,
                  const struct value *x, union element *r)
{
    int n;
    const int64_t *v = instr_ints(in, ATTR_SLICE, &n);
    int64_t idx[64];
    for (int64_t k = 0; k < to->count; k++) {
        unravel(to, k, idx);
        for (int d = 0; d < to->rank; d++)
            idx[d] = v[3 * d] + idx[d] * v[3 * d + 2];
        r[k] = x->v[ravel(from, idx)];
    }
}

static void dynamic_slice(const struct shape *from, const struct shape *to,
                          const struct value *const *ops, uint32_t nops, union element *r)
{
    int64_t start[64], idx[64];
    for (int d = 0; d < from->rank; d++) {
        int64_t s = nops == 2 && from->rank != 1 ? ops[1]->v[d].i : ops[1 + d]->v[0].i;
        start[d] = max_i64(0, min_i64(s, from->dims[d] - to->dims[d]));
    }
    for (int64_t k = 0; k < to->count; k++) {
        unravel(to, k, idx);
        for (int d = 0; d < from->rank; d++)
            idx[d] += start[d];
        r[k] = ops[0]->v[ravel(from, idx)];
    }
}

static void iota(const struct instr *in, const struct shape *s, union element *r)
{
    int64_t dim = instr_int(in, ATTR_IOTA_DIMENSION, 0), idx[64];
    for (int64_t k = 0; k < s->count; k++) {
        unravel(s, k, idx);
        if (is_float(s->dtype))
            r[k].f = (double)idx[dim];
        else
            r[k].i = idx[dim];
        r[k] = eval_wrap(s->dtype, r[k]);
    }
}

/* A reducer of one operation on its two parameters. */
static enum op_kind reducer_op(const struct module *m, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_TO_APPLY);
    if (!a || a->type != ATTR_TYPE_COMP)
        return OP_NONE;
    const struct computation *c = comp_at(m, a->comp);
    const struct instr *root = instr_at(m, c->root);
    if (c->ninstrs != 3 || c->nparams != 2 || root->noperands != 2 ||
        root->operands[0].i == root->operands[1].i)
        return OP_NONE;
    return (enum op_kind)root->op;
}

static bool reduce(const struct module *m, const struct instr *in, const struct shape *from,
                   const struct shape *to, const struct value *const *ops, union element *r)
{
    int n;
    const int64_t *gone = instr_ints(in, ATTR_DIMENSIONS, &n);
    enum op_kind op = reducer_op(m, in);
    if (in->noperands != 2 || op == OP_NONE)
        return false;
    uint64_t reduced = 0;
    for (int d = 0; d < n; d++)
        reduced |= (uint64_t)1 << gone[d];
    for (int64_t k = 0; k < to->count; k++)
        r[k] = ops[1]->v[0];
    int64_t idx[64], out[64];
    for (int64_t k = 0; k < from->count; k++) {
        unravel(from, k, idx);
        int o = 0;
        for (int d = 0; d < from->rank; d++)
            if (!(reduced >> d & 1))
                out[o++] = idx[d];
        int64_t at_ = ravel(to, out);
        if (!one_binary(op, to->dtype, r[at_], ops[0]->v[k], &r[at_]))
            return false;
    }
    return true;
}

/* ---- one instruction ---------------------------------------------------------------------------- */

bool eval_knows(enum op_kind op)
{
    static const bool more[OP_COUNT] = {
        [OP_SELECT] = true,    [OP_CLAMP] = true, [OP_CONVERT] = true, [OP_BROADCAST] = true,
        [OP_RESHAPE] = true,   [OP_SLICE] = true, [OP_DYNAMIC_SLICE] = true, [OP_IOTA] = true,
        [OP_REDUCE] = true,    [OP_COMPARE] = true, [OP_BITCAST] = true,
    };
    return more[op] || op_is_elementwise_unary(op) || op_is_elementwise_binary(op);
}

static bool apply(const struct module *m, const struct instr *in, const struct shape *s,
                  const struct shape *from, const struct value *const *ops, union element *r)
{
    enum op_kind op = (enum op_kind)in->op;
    if (op == OP_IOTA)
        iota(in, s, r);
    else if (op == OP_CONVERT)
        for (int64_t k = 0; k < s->count; k++)
            r[k] = convert(ops[0]->dtype, s->dtype, ops[0]->v[k]);
    else if (op == OP_SELECT)
        for (int64_t k = 0; k < s->count; k++)
            r[k] = at(ops[0], k).i ? ops[1]->v[k] : ops[2]->v[k];
    else if (op == OP_CLAMP)
        return binary(OP_MAXIMUM, ops[1], ops[0], r) &&
               binary(OP_MINIMUM, &(struct value){ .dtype = s->dtype, .n = s->count, .v = r }, ops[2],
                      r);
    else if (op == OP_COMPARE)
        return compare(m, in, ops[0], ops[1], r);
    else if (op == OP_BROADCAST)
        broadcast(in, from, s, ops[0], r);
    else if (op == OP_SLICE)
        slice(in, from, s, ops[0], r);
    else if (op == OP_DYNAMIC_SLICE)
        dynamic_slice(from, s, ops, in->noperands, r);
    else if (op == OP_REDUCE)
        return reduce(m, in, from, s, ops, r);
    else if (op == OP_RESHAPE || op == OP_COPY ||
             (op == OP_BITCAST && from->dtype == s->dtype && from->rank <= 1))
        memcpy(r, ops[0]->v, (size_t)s->count * sizeof *r);
    else if (in->noperands == 1)
        return unary(op, ops[0], r);
    else if (in->noperands == 2)
        return binary(op, ops[0], ops[1], r);
    else
        return false;
    return true;
}

void eval_op(struct arena *a, const struct module *m, instr_id i, const struct value *const *ops,
             struct value *out)
{
    const struct instr *in = instr_at(m, i);
    const struct shape *s = shape_get(m->ir, in->shape);
    *out = (struct value){ .v = NULL };
    if (s->kind != SHAPE_ARRAY || s->count > MAX_ELEMENTS ||
        dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX)
        return;
    const struct shape *from = in->noperands ? instr_shape(m, in->operands[0]) : s;
    union element *r = make(a, s->dtype, s->count, out);
    if (!apply(m, in, s, from, ops, r))
        out->v = NULL;
}
