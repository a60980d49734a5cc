/* Floating-point types: loading, storing and rounding values of every width. */
#include "emulate/ew.h"

#include <math.h>
#include <string.h>

enum style {
    IEEE,  /* infinities and NaNs in the highest exponent */
    FN,    /* no infinity; NaN is all ones */
    FNUZ,  /* no infinity, no negative zero, whose pattern is NaN */
    PLAIN, /* neither infinity nor NaN: saturates */
    POWER  /* 2^k only, unsigned */
};

static const struct format {
    int exponent, mantissa, bias;
    enum style style;
} formats[DTYPE_COUNT] = {
    [DTYPE_F4E2M1FN] = { 2, 1, 1, PLAIN },    [DTYPE_F8E3M4] = { 3, 4, 3, IEEE },
    [DTYPE_F8E4M3] = { 4, 3, 7, IEEE },       [DTYPE_F8E4M3FN] = { 4, 3, 7, FN },
    [DTYPE_F8E4M3B11] = { 4, 3, 11, FNUZ },   [DTYPE_F8E4M3FNUZ] = { 4, 3, 8, FNUZ },
    [DTYPE_F8E5M2] = { 5, 2, 15, IEEE },      [DTYPE_F8E5M2FNUZ] = { 5, 2, 16, FNUZ },
    [DTYPE_F8E8M0FNU] = { 8, 0, 127, POWER }, [DTYPE_F16] = { 5, 10, 15, IEEE },
    [DTYPE_BF16] = { 8, 7, 127, IEEE },       [DTYPE_F32] = { 8, 23, 127, IEEE },
    [DTYPE_F64] = { 11, 52, 1023, IEEE },
};

static double decode(const struct format *f, uint32_t bits)
{
    uint32_t mmask = (1u << f->mantissa) - 1, emask = (1u << f->exponent) - 1;
    uint32_t m = bits & mmask, e = (bits >> f->mantissa) & emask;
    bool neg = (bits >> (f->mantissa + f->exponent)) & 1;
    if (f->style == POWER)
        return bits == 0xff ? (double)NAN : ldexp(1.0, (int)bits - f->bias);
    if (f->style == IEEE && e == emask)
        return m ? copysign((double)NAN, neg ? -1.0 : 1.0) : neg ? -HUGE_VAL : HUGE_VAL;
    if ((f->style == FN && e == emask && m == mmask) ||
        (f->style == FNUZ && neg && e == 0 && m == 0))
        return copysign((double)NAN, neg ? -1.0 : 1.0); /* a sign that total orders see */
    double v = e ? ldexp((double)(m + mmask + 1), (int)e - f->bias - f->mantissa)
                 : ldexp((double)m, 1 - f->bias - f->mantissa);
    return neg ? -v : v;
}

static uint32_t encode_nan(const struct format *f, bool neg)
{
    uint32_t sign = neg && f->style != FNUZ ? 1u << (f->mantissa + f->exponent) : 0;
    uint32_t ones = (1u << (f->mantissa + f->exponent)) - 1;
    switch (f->style) {
    case IEEE: return sign | (((1u << f->exponent) - 1) << f->mantissa) | 1u << (f->mantissa - 1);
    case FN: return sign | ones;
    case FNUZ: return 1u << (f->mantissa + f->exponent);
    case PLAIN: return 1u << (f->mantissa + f->exponent);
    case POWER: return 0xff;
    }
    return 0;
}

static uint32_t encode_overflow(const struct format *f, bool neg)
{
    uint32_t sign = neg ? 1u << (f->mantissa + f->exponent) : 0;
    if (f->style == IEEE)
        return sign | (((1u << f->exponent) - 1) << f->mantissa);
    if (f->style == PLAIN)
        return sign | ((1u << (f->mantissa + f->exponent)) - 1);
    return encode_nan(f, neg);
}

/* Round to nearest, ties to even, from a value that a double holds exactly. */
static uint32_t encode(const struct format *f, double v)
{
    bool neg = signbit(v) != 0;
    if (isnan(v))
        return encode_nan(f, neg);
    if (f->style == POWER) {
        if (neg || isinf(v) || v == 0) /* there is no zero */
            return 0xff;
        int e;
        double m = frexp(v, &e);
        int field = e - 1 + f->bias + (m >= 0.75);
        return field < 0 ? 0 : field > 254 ? 0xff : (uint32_t)field;
    }
    if (isinf(v))
        return encode_overflow(f, neg);
    uint32_t sign = neg ? 1u << (f->mantissa + f->exponent) : 0;
    double a = fabs(v);
    if (a == 0)
        return f->style == FNUZ ? 0 : sign;
    int e;
    frexp(a, &e);
    e -= 1;
    int quantum = (e < 1 - f->bias ? 1 - f->bias : e) - f->mantissa;
    uint32_t q = (uint32_t)rint(ldexp(a, -quantum));
    if (q == 2u << f->mantissa) {
        q >>= 1;
        quantum++;
    }
    if (q == 0)
        return f->style == FNUZ ? 0 : sign;
    if (q < 1u << f->mantissa)
        return sign | q;
    int field = quantum + f->mantissa + f->bias;
    uint32_t m = q - (1u << f->mantissa);
    int top = (1 << f->exponent) - 1 - (f->style == IEEE);
    if (field > top || (f->style == FN && field == top && m == (1u << f->mantissa) - 1))
        return encode_overflow(f, neg);
    return sign | (uint32_t)field << f->mantissa | m;
}

/* Tables of the 8-bit formats' values, and how they are made of f32, once. */
static float tables[DTYPE_COUNT][256];
static struct byte_codes codes[DTYPE_COUNT];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_codes(const struct format *f, struct byte_codes *c)
{
    int all = f->exponent + f->mantissa;
    double least = ldexp(1, 1 - f->bias);
    float tiny = (float)least;
    c->mantissa = f->mantissa;
    c->sign_at = all;
    c->rebias = (uint32_t)(127 - f->bias) << f->mantissa;
    c->units = (float)ldexp(least, 23 - f->mantissa);
    memcpy(&c->tiny, &tiny, 4);
    c->nan = encode_nan(f, false);
    c->nan_sign = encode_nan(f, true) != c->nan ? ~0u : 0;
    c->over = encode_overflow(f, false);
    c->over_sign = encode_overflow(f, true) != c->over ? ~0u : 0;
    c->most = f->style == IEEE ? c->over - 1 : (1u << all) - 1 - (f->style == FN);
    c->zero_sign = f->style == FNUZ ? 0 : ~0u;
}

static void make_tables(void)
{
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (dtype_kind((enum dtype)t) == DTYPE_KIND_FLOAT && dtype_bytes((enum dtype)t) == 1 &&
            formats[t].style != POWER)
            make_codes(&formats[t], &codes[t]);
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (dtype_kind((enum dtype)t) == DTYPE_KIND_FLOAT && dtype_bytes((enum dtype)t) == 1)
            for (uint32_t b = 0; b < 256; b++)
                tables[t][b] =
                    (float)decode(&formats[t], dtype_bits((enum dtype)t) == 4 ? b & 15 : b);
}

void small_to_f32(enum dtype t, const void *in, float *out, int64_t n)
{
    if (t == DTYPE_BF16) {
        ew_set_best()->widen_bf16(in, out, n);
    } else if (t == DTYPE_F16) {
        ew_set_best()->widen_f16(in, out, n);
    } else {
        pthread_once(&tables_once, make_tables);
        const uint8_t *p = in;
        for (int64_t i = 0; i < n; i++)
            out[i] = tables[t][p[i]];
    }
}

void f32_to_small(enum dtype t, const float *in, void *out, int64_t n)
{
    if (t == DTYPE_BF16) {
        ew_set_best()->narrow_bf16(in, out, n);
    } else if (t == DTYPE_F16) {
        ew_set_best()->narrow_f16(in, out, n);
    } else if (formats[t].style != POWER) {
        pthread_once(&tables_once, make_tables);
        ew_set_best()->narrow_byte(&codes[t], in, out, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = (uint8_t)encode(&formats[t], (double)in[i]);
    }
}

double real_load(enum dtype t, const void *p)
{
    if (t == DTYPE_F64) {
        double v;
        memcpy(&v, p, 8);
        return v;
    }
    float f;
    if (t == DTYPE_F32)
        memcpy(&f, p, 4);
    else
        small_to_f32(t, p, &f, 1);
    return (double)f;
}

void real_store(enum dtype t, double v, void *p)
{
    if (t == DTYPE_F64) {
        memcpy(p, &v, 8);
        return;
    }
    float f = (float)v;
    if (t == DTYPE_F32) {
        memcpy(p, &f, 4);
        return;
    }
    if (t == DTYPE_BF16) {
        f32_to_small(t, &f, p, 1);
        return;
    }
    uint32_t bits = encode(&formats[t], v);
    if (dtype_bytes(t) == 2)
        memcpy(p, &(uint16_t){ (uint16_t)bits }, 2);
    else
        memcpy(p, &(uint8_t){ (uint8_t)bits }, 1);
}

double real_max(enum dtype t)
{
    const struct format *f = &formats[t];
    if (t == DTYPE_F64)
        return 0x1.fffffffffffffp1023;
    int top = (1 << f->exponent) - 1 - (f->style == IEEE || f->style == POWER);
    double m = 2.0 - ldexp(f->style == FN ? 2.0 : 1.0, -f->mantissa);
    return f->style == POWER ? ldexp(1.0, top - f->bias) : ldexp(m, top - f->bias);
}

int real_digits(enum dtype t)
{
    return formats[t].mantissa + 1;
}

/* bits: a number of the given widths. Rounding to nearest even at the last kept bit, wherever the
 * leading one stands (subnormals too); exponents out of reach become zero or infinity. */
uint64_t reduce_precision(uint64_t bits, int exponent, int mantissa, int to_exponent,
                          int to_mantissa)
{
    uint64_t emask = (((uint64_t)1 << exponent) - 1) << mantissa,
             mmask = ((uint64_t)1 << mantissa) - 1;
    uint64_t sign = bits & (uint64_t)1 << (exponent + mantissa);
    if ((bits & emask) == emask && (bits & mmask))
        return bits;
    if (to_mantissa < mantissa) {
        uint64_t last = (uint64_t)1 << (mantissa - to_mantissa);
        bits += ((bits & last) != 0) + (last >> 1) - 1;
        bits &= ~(last - 1);
    }
    if (to_exponent >= exponent)
        return bits;
    uint64_t bias = ((uint64_t)1 << (exponent - 1)) - 1,
             reduced = ((uint64_t)1 << (to_exponent - 1)) - 1;
    uint64_t e = (bits & emask) >> mantissa;
    if (e > bias + reduced)
        return sign | emask;
    return e <= bias - reduced ? sign : bits;
}
