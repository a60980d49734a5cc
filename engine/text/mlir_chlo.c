/* CHLO operations: those with an HLO opcode are mapped, the special functions become elementwise
 * arithmetic (textbook approximations), the rest is opaque. */
#include "text/mlir.h"

#include <math.h>

/* Values of one shape under construction. */
struct expr {
    struct mlir *r;
    shape_id shape, pred;
    enum dtype t;
};

static instr_id un(const struct expr *e, enum op_kind op, instr_id a)
{
    return memit(e->r, op, e->shape, 1, &a, 0, NULL);
}

static bool is_constant(const struct expr *e, instr_id i)
{
    const struct instr *in = instr_at(e->r->m, i);
    return in->op == OP_CONSTANT || (in->op == OP_BROADCAST && instr_at(e->r->m, in->operands[0])->op == OP_CONSTANT);
}

/* A constant stands on the right where the order is free, as the importer's canonicalizer has it. */
static instr_id bin(const struct expr *e, enum op_kind op, instr_id a, instr_id b)
{
    bool swap = (op == OP_ADD || op == OP_MULTIPLY) && is_constant(e, a) && !is_constant(e, b);
    instr_id v[2] = { swap ? b : a, swap ? a : b };
    return memit(e->r, op, e->shape, 2, v, 0, NULL);
}

static instr_id num(const struct expr *e, double v)
{
    return mvalue(e->r, mconst_like(e->r, e->shape, v));
}

static instr_id cmp(const struct expr *e, const char *direction, instr_id a, instr_id b)
{
    instr_id v[2] = { a, b };
    struct attr at = attr_ident(e->r->m, ATTR_DIRECTION, direction);
    return memit(e->r, OP_COMPARE, e->pred, 2, v, 1, &at);
}

static instr_id sel(const struct expr *e, instr_id p, instr_id a, instr_id b)
{
    instr_id v[3] = { p, a, b };
    return memit(e->r, OP_SELECT, instr_at(e->r->m, a)->shape, 3, v, 0, NULL);
}

#define ADD(a, b) bin(e, OP_ADD, (a), (b))
#define SUB(a, b) bin(e, OP_SUBTRACT, (a), (b))
#define MUL(a, b) bin(e, OP_MULTIPLY, (a), (b))
#define DIV(a, b) bin(e, OP_DIVIDE, (a), (b))

/* M. Giles, Approximating the erfinv function: two polynomials in w = -log(1 - x^2). */
static instr_id erf_inv(const struct expr *e, instr_id x)
{
    static const double small[] = { 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941 };
    static const double large[] = { -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682 };
    instr_id w = un(e, OP_NEGATE, un(e, OP_LOG1P, un(e, OP_NEGATE, MUL(x, x))));
    instr_id lt = cmp(e, "LT", w, num(e, 5));
    w = sel(e, lt, SUB(w, num(e, 2.5)), SUB(un(e, OP_SQRT, w), num(e, 3)));
    instr_id p = sel(e, lt, num(e, small[0]), num(e, large[0]));
    for (size_t i = 1; i < COUNTOF(small); i++)
        p = ADD(sel(e, lt, num(e, small[i]), num(e, large[i])), MUL(p, w));
    instr_id one = cmp(e, "EQ", un(e, OP_ABS, x), num(e, 1));
    return sel(e, one, MUL(x, num(e, (double)INFINITY)), MUL(p, x));
}

/* Lanczos' approximation, g = 7, nine terms. */
static const double lanczos[] = { 676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                                  771.3234287776530788486528258894, -176.61502916214059906584551354,
                                  12.507343278686904814458936853, -0.13857109526572011689554707,
                                  9.984369578019570859563e-6, 1.50563273514931155834e-7 };
static const double LANCZOS_BASE = 0.99999999999980993227684700473478;

/* Reflected arguments below 1/2: z = x - 1 or -x. */
static instr_id lanczos_z(const struct expr *e, instr_id x, instr_id *reflect)
{
    *reflect = cmp(e, "LT", x, num(e, 0.5));
    return sel(e, *reflect, un(e, OP_NEGATE, x), SUB(x, num(e, 1)));
}

static instr_id lgamma_of(const struct expr *e, instr_id x)
{
    instr_id reflect, z = lanczos_z(e, x, &reflect);
    instr_id sum = num(e, LANCZOS_BASE);
    for (size_t i = 0; i < COUNTOF(lanczos); i++)
        sum = ADD(sum, DIV(num(e, lanczos[i]), ADD(z, num(e, (double)i + 1))));
    instr_id log_t = ADD(num(e, log(7.5)), un(e, OP_LOG1P, DIV(z, num(e, 7.5))));
    instr_id t = ADD(z, num(e, 7.5));
    instr_id log_y = ADD(ADD(num(e, 0.91893853320467274178), MUL(SUB(ADD(z, num(e, 0.5)), DIV(t, log_t)), log_t)),
                         un(e, OP_LOG, sum));
    instr_id a = un(e, OP_ABS, x), frac = SUB(a, un(e, OP_FLOOR, a));
    frac = sel(e, cmp(e, "GT", frac, num(e, 0.5)), SUB(num(e, 1), frac), frac);
    instr_id sine = un(e, OP_LOG, un(e, OP_SINE, MUL(num(e, 3.14159265358979323846), frac)));
    instr_id other = SUB(SUB(num(e, 1.14472988584940017414), sine), log_y);
    instr_id y = sel(e, reflect, other, log_y);
    return sel(e, cmp(e, "EQ", a, num(e, (double)INFINITY)), num(e, (double)INFINITY), y);
}

static instr_id digamma_of(const struct expr *e, instr_id x)
{
    instr_id reflect, z = lanczos_z(e, x, &reflect);
    instr_id numer = num(e, 0), denom = num(e, LANCZOS_BASE);
    for (size_t i = 0; i < COUNTOF(lanczos); i++) {
        instr_id zi = ADD(z, num(e, (double)i + 1));
        numer = SUB(numer, DIV(num(e, lanczos[i]), MUL(zi, zi)));
        denom = ADD(denom, DIV(num(e, lanczos[i]), zi));
    }
    instr_id t = ADD(z, num(e, 7.5));
    instr_id log_t = ADD(num(e, log(7.5)), un(e, OP_LOG1P, DIV(z, num(e, 7.5))));
    instr_id y = SUB(ADD(log_t, DIV(numer, denom)), DIV(num(e, 7), t));
    instr_id part = MUL(num(e, 3.14159265358979323846), ADD(x, un(e, OP_ABS, un(e, OP_FLOOR, ADD(x, num(e, 0.5))))));
    instr_id other = SUB(y, DIV(MUL(num(e, 3.14159265358979323846), un(e, OP_COSINE, part)), un(e, OP_SINE, part)));
    return sel(e, reflect, other, y);
}

/* One step of the bits towards y. */
static bool next_after(const struct expr *e, instr_id x, instr_id y, instr_id *out)
{
    enum dtype bits = dtype_bits(e->t) == 64 ? DTYPE_S64 : dtype_bits(e->t) == 32 ? DTYPE_S32 : DTYPE_S16;
    if (dtype_bits(e->t) < 16)
        return false;
    struct mlir *r = e->r;
    struct expr in = *e;
    in.t = bits;
    in.shape = shape_with_dtype(r->c, e->shape, bits);
    const struct expr *b = &in;
    instr_id bx = memit(r, OP_BITCAST_CONVERT, in.shape, 1, &x, 0, NULL);
    instr_id by = memit(r, OP_BITCAST_CONVERT, in.shape, 1, &y, 0, NULL);
    int64_t top = (int64_t)((uint64_t)1 << (dtype_bits(e->t) - 1)), low = top - 1;
    char raw[8];
    memcpy(raw, &top, 8);
    instr_id sign = mvalue(r, mconst_value(r, in.shape, true, raw, false));
    memcpy(raw, &low, 8);
    instr_id mask = mvalue(r, mconst_value(r, in.shape, true, raw, false));
    instr_id ax = bin(b, OP_AND, bx, mask), ay = bin(b, OP_AND, by, mask);
    instr_id sx = bin(b, OP_AND, bx, sign), sy = bin(b, OP_AND, by, sign);
    instr_id from_zero = bin(b, OP_OR, sy, num(b, 1));
    instr_id differ = cmp(e, "NE", sx, sy), beyond = cmp(e, "GT", ax, ay);
    struct expr pred = *e;
    pred.shape = e->pred;
    instr_id down = bin(&pred, OP_OR, beyond, differ);
    instr_id step = bin(b, OP_ADD, bx, sel(e, down, num(b, -1), num(b, 1)));
    instr_id zero = cmp(e, "EQ", ax, num(b, 0));
    instr_id both_zero = bin(&pred, OP_AND, zero, cmp(e, "EQ", ay, num(b, 0)));
    step = sel(e, zero, sel(e, both_zero, by, from_zero), step);
    step = sel(e, cmp(e, "EQ", x, y), by, step);
    instr_id f = memit(r, OP_BITCAST_CONVERT, e->shape, 1, &step, 0, NULL);
    instr_id nan = bin(&pred, OP_OR, cmp(e, "NE", x, x), cmp(e, "NE", y, y));
    *out = sel(e, nan, ADD(x, y), f);
    return true;
}

static bool top_k(struct mlir *r, struct mop *op, instr_id x, instr_id *out)
{
    int64_t k;
    if (op->nresults != 2 || !mint_of(r, op, "k", NULL, 0, &k))
        return MFAIL(r, op->at, op->nat, "top_k has two results and k = N");
    shape_id parts[2] = { mval(r, op->result)->shape, mval(r, op->result + 1)->shape };
    struct attr a[2] = { attr_int(ATTR_K, k), attr_int(ATTR_LARGEST, 1) };
    a[1].type = ATTR_TYPE_BOOL;
    *out = memit(r, OP_TOPK, shape_tuple(r->c, 2, parts), 1, &x, 2, a);
    return true;
}

/* Functions of one value that HLO has opcodes for. */
static enum op_kind unary(const char *name, size_t n)
{
    static const struct {
        const char *name;
        enum op_kind op;
    } rows[] = { { "erf", OP_ERF },   { "tan", OP_TAN },   { "sinh", OP_SINH },   { "cosh", OP_COSH },
                 { "asin", OP_ASIN }, { "acos", OP_ACOS }, { "asinh", OP_ASINH }, { "acosh", OP_ACOSH },
                 { "atanh", OP_ATANH } };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (mtext(name, n, rows[i].name))
            return rows[i].op;
    return OP_NONE;
}

static bool opaque(struct mlir *r, struct mop *op, const instr_id *v, instr_id *out)
{
    if (!r->told_unknown)
        diag_warn(r->d, r->src, mspan(r, op->at, op->nat), "'%.*s' has no counterpart in HLO: it becomes an opaque "
                  "custom call (as do further ones)", (int)op->nname, op->name);
    r->told_unknown = true;
    shape_id *s = ARENA_ARRAY(&r->scratch, shape_id, op->nresults + 1);
    for (uint32_t k = 0; k < op->nresults; k++)
        s[k] = mval(r, op->result + k)->shape;
    struct attr a = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, arena_strndup(&r->scratch, op->name, op->nname));
    *out = memit(r, OP_CUSTOM_CALL, op->nresults == 1 ? s[0] : shape_tuple(r->c, op->nresults, s), op->noperands, v,
                 1, &a);
    return true;
}

/* chlo.broadcast_add and the like, where the shapes are equal already. */
static bool broadcasting(struct mlir *r, struct mop *op, const char *name, size_t n, const instr_id *v,
                         instr_id *out)
{
    enum op_kind k = op_find(name, n);
    if (k == OP_NONE || op_min_operands(k) != (int)op->noperands)
        return false;
    for (uint32_t i = 0; i < op->noperands; i++)
        if (!shape_same_dims(r->c, mval(r, op->operands[i])->shape, mval(r, op->result)->shape))
            return false;
    *out = memit(r, k, mval(r, op->result)->shape, op->noperands, v, 0, NULL);
    return true;
}

bool mlir_chlo(struct mlir *r, struct mop *op, instr_id *out)
{
    const char *dot = memchr(op->name, '.', op->nname);
    const char *name = dot ? dot + 1 : op->name;
    size_t n = (size_t)(op->name + op->nname - name);
    instr_id *v = ARENA_ARRAY(&r->scratch, instr_id, op->noperands + 1);
    for (uint32_t k = 0; k < op->noperands; k++)
        v[k] = mvalue(r, op->operands[k]);
    if (op->noperands == 0 || op->nresults == 0)
        return opaque(r, op, v, out);
    if (mtext(name, n, "top_k"))
        return top_k(r, op, v[0], out);
    if (memcmp(op->name, "chlo", 4) != 0) {
        MFAIL(r, op->at, op->nat, "'%.*s': shapes that depend on values cannot be partitioned", (int)op->nname,
              op->name);
        diag_hint(r->d, "export with concrete shapes, or refine them first");
        return false;
    }
    const struct shape *s = mshape(r, op->operands[0]);
    if (s->kind != SHAPE_ARRAY || op->nresults != 1)
        return opaque(r, op, v, out);
    struct expr at = { .r = r, .shape = mval(r, op->operands[0])->shape, .t = s->dtype };
    const struct expr *e = &at;
    at.pred = shape_with_dtype(r->c, at.shape, DTYPE_PRED);
    instr_id x = v[0];
    bool is_float = dtype_kind(s->dtype) == DTYPE_KIND_FLOAT;
    double inf = (double)INFINITY;
    if (unary(name, n))
        *out = un(e, unary(name, n), x);
    else if (mtext(name, n, "square"))
        *out = MUL(x, x);
    else if (mtext(name, n, "erfc"))
        *out = SUB(num(e, 1), un(e, OP_ERF, x));
    else if (mtext(name, n, "atan"))
        *out = bin(e, OP_ATAN2, x, num(e, 1));
    else if (mtext(name, n, "erf_inv") && is_float)
        *out = erf_inv(e, x);
    else if (mtext(name, n, "lgamma") && is_float)
        *out = lgamma_of(e, x);
    else if (mtext(name, n, "digamma") && is_float)
        *out = digamma_of(e, x);
    else if (mtext(name, n, "is_inf"))
        *out = cmp(e, "EQ", un(e, OP_ABS, x), num(e, inf));
    else if (mtext(name, n, "is_pos_inf"))
        *out = cmp(e, "EQ", x, num(e, inf));
    else if (mtext(name, n, "is_neg_inf"))
        *out = cmp(e, "EQ", x, num(e, -inf));
    else if (mtext(name, n, "next_after") && op->noperands == 2 && is_float && next_after(e, x, v[1], out))
        return true;
    else if (n > 10 && memcmp(name, "broadcast_", 10) == 0 && broadcasting(r, op, name + 10, n - 10, v, out))
        return true;
    else
        return opaque(r, op, v, out);
    return true;
}
