/* Elementwise kernels on complex numbers: computed in double, stored in the type's parts. Products
 * and quotients by the plain formulas. */
#include "emulate/internal.h"

#include <math.h>

#include "emulate/cplx.h"
#include "emulate/ew.h"

typedef double complex cplx;

static cplx make(double re, double im)
{
    return CMPLX(re, im);
}

static cplx c_mul(cplx x, cplx y)
{
    return make(creal(x) * creal(y) - cimag(x) * cimag(y),
                creal(x) * cimag(y) + cimag(x) * creal(y));
}

static cplx c_sign(cplx x)
{
    double m = cabs(x);
    return m == 0 ? make(0, 0) : make(creal(x) / m, cimag(x) / m);
}

static cplx c_expm1(cplx x)
{
    double s = sin(cimag(x) / 2);
    return make(expm1(creal(x)) * cos(cimag(x)) - 2 * s * s, exp(creal(x)) * sin(cimag(x)));
}

static cplx c_log1p(cplx x)
{
    return make(log(hypot(1 + creal(x), cimag(x))), atan2(cimag(x), 1 + creal(x)));
}

static cplx c_pow(cplx x, cplx y)
{
    if (creal(x) == 0 && cimag(x) == 0)
        return creal(y) == 0 && cimag(y) == 0 ? make(1, 0) : make(0, 0);
    return cpow(x, y);
}

static cplx c_unary(enum op_kind op, cplx x)
{
    if (op == OP_NEGATE)
        return -x;
    if (op == OP_EXP)
        return cexp(x);
    if (op == OP_EXPM1)
        return c_expm1(x);
    if (op == OP_LOG)
        return clog(x);
    if (op == OP_LOG1P)
        return c_log1p(x);
    if (op == OP_LOGISTIC)
        return 1 / (1 + cexp(-x));
    if (op == OP_SQRT)
        return csqrt(x);
    if (op == OP_RSQRT)
        return 1 / csqrt(x);
    if (op == OP_CBRT)
        return cpow(x, 1.0 / 3.0);
    if (op == OP_SIGN)
        return c_sign(x);
    if (op == OP_SINE)
        return csin(x);
    if (op == OP_COSINE)
        return ccos(x);
    if (op == OP_TAN)
        return ctan(x);
    if (op == OP_TANH)
        return ctanh(x);
    if (op == OP_SINH)
        return csinh(x);
    if (op == OP_COSH)
        return ccosh(x);
    if (op == OP_ASIN)
        return casin(x);
    if (op == OP_ACOS)
        return cacos(x);
    if (op == OP_ASINH)
        return casinh(x);
    if (op == OP_ACOSH)
        return cacosh(x);
    if (op == OP_ATANH)
        return catanh(x);
    return x;
}

static bool is_unary(enum op_kind op)
{
    static const uint8_t yes[OP_COUNT] = {
        [OP_NEGATE] = 1,   [OP_EXP] = 1,    [OP_EXPM1] = 1, [OP_LOG] = 1,   [OP_LOG1P] = 1,
        [OP_LOGISTIC] = 1, [OP_SQRT] = 1,   [OP_RSQRT] = 1, [OP_CBRT] = 1,  [OP_SIGN] = 1,
        [OP_SINE] = 1,     [OP_COSINE] = 1, [OP_TAN] = 1,   [OP_TANH] = 1,  [OP_SINH] = 1,
        [OP_COSH] = 1,     [OP_ASIN] = 1,   [OP_ACOS] = 1,  [OP_ASINH] = 1, [OP_ACOSH] = 1,
        [OP_ATANH] = 1,
    };
    return yes[op];
}

static cplx load(bool wide, const void *p, int64_t i)
{
    if (wide)
        return make(((const double *)p)[2 * i], ((const double *)p)[2 * i + 1]);
    return make((double)((const float *)p)[2 * i], (double)((const float *)p)[2 * i + 1]);
}

static void store(bool wide, void *p, int64_t i, cplx v)
{
    if (wide) {
        ((double *)p)[2 * i] = creal(v);
        ((double *)p)[2 * i + 1] = cimag(v);
    } else {
        ((float *)p)[2 * i] = (float)creal(v);
        ((float *)p)[2 * i + 1] = (float)cimag(v);
    }
}

static void run_unary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    bool wide = e->in.ct == CT_C128;
    for (int64_t i = 0; i < n; i++)
        store(wide, out, i, c_unary(e->op, load(wide, in[0], i)));
}

static void run_binary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    bool wide = e->in.ct == CT_C128;
    for (int64_t i = 0; i < n; i++) {
        cplx x = load(wide, in[0], i), y = load(wide, in[1], i), r;
        if (e->op == OP_ADD)
            r = x + y;
        else if (e->op == OP_SUBTRACT)
            r = x - y;
        else if (e->op == OP_MULTIPLY)
            r = c_mul(x, y);
        else if (e->op == OP_DIVIDE)
            r = x / y;
        else
            r = c_pow(x, y);
        store(wide, out, i, r);
    }
}

/* Parts and size: a complex operand, a real result. */
static void run_part(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    bool wide = e->in.ct == CT_C128;
    for (int64_t i = 0; i < n; i++) {
        cplx x = load(wide, in[0], i);
        double r = e->op == OP_REAL ? creal(x) : e->op == OP_IMAG ? cimag(x) : cabs(x);
        if (wide)
            ((double *)out)[i] = r;
        else
            ((float *)out)[i] = (float)r;
    }
}

static void run_compare(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    bool wide = e->in.ct == CT_C128;
    for (int64_t i = 0; i < n; i++) {
        bool same = load(wide, in[0], i) == load(wide, in[1], i);
        ((uint8_t *)out)[i] = (e->a & 7) == DIR_NE ? !same : same;
    }
}

/* complex(re, im): the operands' type is the part's. */
static void run_make(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    if (e->in.ct == CT_F64) {
        for (int64_t i = 0; i < n; i++) {
            ((double *)out)[2 * i] = ((const double *)in[0])[i];
            ((double *)out)[2 * i + 1] = ((const double *)in[1])[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        ((float *)out)[2 * i] = ((const float *)in[0])[i];
        ((float *)out)[2 * i + 1] = ((const float *)in[1])[i];
    }
}

ew_fn ew_complex(enum op_kind op, enum ctype ct)
{
    if (op == OP_COMPLEX)
        return ct == CT_F32 || ct == CT_F64 ? run_make : NULL;
    if (ct != CT_C64 && ct != CT_C128)
        return NULL;
    if (op == OP_REAL || op == OP_IMAG || op == OP_ABS)
        return run_part;
    if (op == OP_COMPARE)
        return run_compare;
    if (op == OP_ADD || op == OP_SUBTRACT || op == OP_MULTIPLY || op == OP_DIVIDE || op == OP_POWER)
        return run_binary;
    return is_unary(op) ? run_unary : NULL;
}
