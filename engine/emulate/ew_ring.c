/* Elementwise kernels of ring mode: exact where the operation is one of the ring or of the order of
 * integers, a fixed mixture of the operands' bits otherwise. */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "emulate/internal.h"

static void ring_unary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0];
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)out)[i] = ring_mix((uint64_t)e->op, (uint64_t)a[i], 0);
}

static void ring_binary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)out)[i] = ring_mix((uint64_t)e->op, (uint64_t)a[i], (uint64_t)b[i]);
}

static void ring_copy(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const int64_t *a = in[0];
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)out)[i] = a[i];
}

static void ring_zero(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    (void)in;
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)out)[i] = 0;
}

/* Mostly true, as real values mostly are, but a function of the bits. */
static void ring_is_finite(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0];
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)out)[i] = (ring_mix((uint64_t)e->op, (uint64_t)a[i], 0) & 1023) != 0;
}

/* ---- complex numbers: pairs --------------------------------------------------------------------
 */

static void pair_unary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0];
    int64_t *r = out;
    for (int64_t i = 0; i < n; i++) {
        uint64_t re = (uint64_t)a[2 * i], im = (uint64_t)a[2 * i + 1];
        r[2 * i] = ring_mix((uint64_t)e->op, re, im);
        r[2 * i + 1] = ring_mix((uint64_t)e->op + 1000, re, im);
    }
}

static void pair_binary(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0], *b = in[1];
    int64_t *r = out;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)ring_mix(1, (uint64_t)a[2 * i], (uint64_t)a[2 * i + 1]);
        uint64_t y = (uint64_t)ring_mix(2, (uint64_t)b[2 * i], (uint64_t)b[2 * i + 1]);
        r[2 * i] = ring_mix((uint64_t)e->op, x, y);
        r[2 * i + 1] = ring_mix((uint64_t)e->op + 1000, x, y);
    }
}

static void pair_linear(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const uint64_t *a = in[0], *b = e->op == OP_NEGATE ? in[0] : in[1];
    uint64_t *r = out;
    for (int64_t i = 0; i < 2 * n; i++)
        r[i] = e->op == OP_ADD ? a[i] + b[i] : e->op == OP_SUBTRACT ? a[i] - b[i] : 0 - a[i];
}

static void pair_multiply(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const uint64_t *a = in[0], *b = in[1];
    uint64_t *r = out;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = a[2 * i], xi = a[2 * i + 1], y = b[2 * i], yi = b[2 * i + 1];
        r[2 * i] = x * y - xi * yi;
        r[2 * i + 1] = x * yi + xi * y;
    }
}

static void pair_part(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t re = a[2 * i], im = a[2 * i + 1];
        ((int64_t *)out)[i] = e->op == OP_REAL   ? re
                              : e->op == OP_IMAG ? im
                                                 : ring_mix(OP_ABS, (uint64_t)re, (uint64_t)im);
    }
}

static void pair_make(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const int64_t *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t re = a[i], im = b[i];
        ((int64_t *)out)[2 * i] = re;
        ((int64_t *)out)[2 * i + 1] = im;
    }
}

static void pair_compare(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const int64_t *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++) {
        bool same = a[2 * i] == b[2 * i] && a[2 * i + 1] == b[2 * i + 1];
        ((uint8_t *)out)[i] = (e->a & 7) == DIR_NE ? !same : same;
    }
}

static ew_fn pair_kernel(enum op_kind op)
{
    if (op == OP_ADD || op == OP_SUBTRACT || op == OP_NEGATE)
        return pair_linear;
    if (op == OP_MULTIPLY)
        return pair_multiply;
    if (op == OP_REAL || op == OP_IMAG || op == OP_ABS)
        return pair_part;
    if (op == OP_COMPARE)
        return pair_compare;
    if (op == OP_IS_FINITE)
        return NULL;
    return op_is_elementwise_binary(op) ? pair_binary : pair_unary;
}

/* ct: of the first operand. */
ew_fn ew_ring(enum op_kind op, enum ctype ct)
{
    if (ct == CT_RINGC)
        return pair_kernel(op);
    if (op == OP_COMPLEX)
        return pair_make;
    if (op == OP_ADD || op == OP_SUBTRACT || op == OP_MULTIPLY || op == OP_MAXIMUM ||
        op == OP_MINIMUM || op == OP_NEGATE || op == OP_COMPARE || op == OP_CLAMP)
        return ew_arith(op, CT_S64);
    if (op == OP_REAL || op == OP_REDUCE_PRECISION)
        return ring_copy;
    if (op == OP_IMAG)
        return ring_zero;
    if (op == OP_IS_FINITE)
        return ring_is_finite;
    if (op_min_operands(op) == 2)
        return ring_binary;
    return op_min_operands(op) == 1 ? ring_unary : NULL;
}
