/* The small float types: what their bits mean, rounding into them, and printing as XLA does. */
#include "ir/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* What a type has beside its finite numbers. */
enum specials {
    IEEE,      /* the top exponent is inf and nan */
    ONE_NAN,   /* ..fn: no inf; all ones is nan */
    FINITE,    /* f4e2m1fn: neither */
    NEG_ZERO,  /* ..fnuz: no inf, no -0; the bits of -0 are nan */
    EXPONENTS  /* f8e8m0fnu: powers of two only; all ones is nan */
};

struct format {
    int exp, mant, bias;
    enum specials specials;
    int digits; /* decimal digits that tell all values apart */
};

static const struct format formats[DTYPE_COUNT] = {
    [DTYPE_F4E2M1FN] = { 2, 1, 1, FINITE, 2 },
    [DTYPE_F8E3M4] = { 3, 4, 3, IEEE, 3 },
    [DTYPE_F8E4M3] = { 4, 3, 7, IEEE, 3 },
    [DTYPE_F8E4M3FN] = { 4, 3, 7, ONE_NAN, 3 },
    [DTYPE_F8E4M3B11] = { 4, 3, 11, NEG_ZERO, 3 },
    [DTYPE_F8E4M3FNUZ] = { 4, 3, 8, NEG_ZERO, 3 },
    [DTYPE_F8E5M2] = { 5, 2, 15, IEEE, 2 },
    [DTYPE_F8E5M2FNUZ] = { 5, 2, 16, NEG_ZERO, 2 },
    [DTYPE_F8E8M0FNU] = { 8, 0, 127, EXPONENTS, 2 },
    [DTYPE_F16] = { 5, 10, 15, IEEE, 5 },
    [DTYPE_BF16] = { 8, 7, 127, IEEE, 4 },
};

/* ---- bits to value ----------------------------------------------------------------------------- */

static bool is_nan_code(const struct format *f, uint32_t sign, uint32_t code)
{
    uint32_t top = (1u << (f->exp + f->mant)) - 1;
    switch (f->specials) {
    case IEEE: return code > (((1u << f->exp) - 1) << f->mant);
    case ONE_NAN: return code == top;
    case FINITE: return false;
    case NEG_ZERO: return sign && code == 0;
    case EXPONENTS: return code == top;
    }
    return false;
}

static double decode(const struct format *f, uint32_t bits)
{
    int width = f->exp + f->mant;
    uint32_t sign = f->specials == EXPONENTS ? 0 : bits >> width & 1;
    uint32_t code = bits & ((1u << width) - 1);
    double s = sign ? -1.0 : 1.0;
    if (is_nan_code(f, sign, code))
        return copysign((double)NAN, f->specials == NEG_ZERO ? 1.0 : s);
    uint32_t e = code >> f->mant, q = code & ((1u << f->mant) - 1);
    if (f->specials == IEEE && e == (1u << f->exp) - 1)
        return s * (double)INFINITY;
    if (f->specials == EXPONENTS)
        return ldexp(1.0, (int)e - f->bias);
    if (e == 0)
        return s * ldexp((double)q, 1 - f->bias - f->mant);
    return s * ldexp((double)(q | 1u << f->mant), (int)e - f->bias - f->mant);
}

/* ---- value to bits ----------------------------------------------------------------------------- */

static uint32_t nan_code(const struct format *f)
{
    uint32_t top = (1u << (f->exp + f->mant)) - 1;
    switch (f->specials) {
    case IEEE: return (((1u << f->exp) - 1) << f->mant) | 1u << (f->mant - 1);
    case ONE_NAN:
    case EXPONENTS: return top;
    case FINITE: return top;
    case NEG_ZERO: return top + 1;
    }
    return 0;
}

static uint32_t largest_code(const struct format *f)
{
    uint32_t top = (1u << (f->exp + f->mant)) - 1;
    switch (f->specials) {
    case IEEE: return (((1u << f->exp) - 1) << f->mant) - 1;
    case ONE_NAN:
    case EXPONENTS: return top - 1;
    case FINITE:
    case NEG_ZERO: return top;
    }
    return 0;
}

/* Magnitude to code, rounded to nearest even; may come out above the largest code. */
static uint32_t round_magnitude(const struct format *f, double v)
{
    if (v == 0)
        return 0;
    int x;
    (void)frexp(v, &x);
    int e = x - 1 + f->bias;
    if (e > (1 << f->exp))
        return largest_code(f) + 1;
    if (f->specials == EXPONENTS) {
        if (e < 0)
            return 0;
        return (uint32_t)e + (ldexp(v, 1 - x) >= 1.5);
    }
    if (e < 1) /* subnormal: the carry into the first normal number comes by itself */
        return (uint32_t)rint(ldexp(v, f->bias - 1 + f->mant));
    uint32_t q = (uint32_t)rint(ldexp(v, f->mant - (x - 1)));
    return ((uint32_t)e << f->mant) + (q - (1u << f->mant));
}

static uint32_t encode(const struct format *f, double v)
{
    uint32_t sign = signbit(v) ? 1u << (f->exp + f->mant) : 0;
    if (f->specials == EXPONENTS)
        sign = 0;
    if (isnan(v) || (f->specials == EXPONENTS && v < 0))
        return f->specials == NEG_ZERO || f->specials == EXPONENTS ? nan_code(f)
                                                                   : sign | nan_code(f);
    uint32_t code = isinf(v) ? largest_code(f) + 1 : round_magnitude(f, fabs(v));
    if (code > largest_code(f)) {
        if (f->specials == FINITE)
            return sign | largest_code(f);
        if (f->specials == IEEE)
            return sign | (((1u << f->exp) - 1) << f->mant);
        return f->specials == ONE_NAN ? sign | nan_code(f) : nan_code(f);
    }
    if (code == 0 && f->specials == NEG_ZERO)
        return 0;
    return sign | code;
}

/* ---- in and out of memory ---------------------------------------------------------------------- */

double float_load(enum dtype t, const void *p)
{
    if (t == DTYPE_F32) {
        float v;
        memcpy(&v, p, sizeof v);
        return (double)v;
    }
    if (t == DTYPE_F64) {
        double v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    const struct format *f = &formats[t];
    INVARIANT(f->exp, "%s is no float type", dtype_name(t));
    uint16_t bits = 0;
    if (dtype_bytes(t) == 2)
        memcpy(&bits, p, 2);
    else
        bits = *(const uint8_t *)p;
    return decode(f, bits);
}

void float_store(enum dtype t, double v, void *p)
{
    if (t == DTYPE_F32) {
        float w = (float)v;
        memcpy(p, &w, sizeof w);
        return;
    }
    if (t == DTYPE_F64) {
        memcpy(p, &v, sizeof v);
        return;
    }
    const struct format *f = &formats[t];
    INVARIANT(f->exp, "%s is no float type", dtype_name(t));
    uint16_t bits = (uint16_t)encode(f, v);
    if (dtype_bytes(t) == 2)
        memcpy(p, &bits, 2);
    else
        *(uint8_t *)p = (uint8_t)bits;
}

/* ---- printing ---------------------------------------------------------------------------------- */

/* Fewer digits when they read back the same, else enough for every value: not always the shortest
 * text, but the one XLA writes. */
static void print_wide(enum dtype t, double v, struct str *out)
{
    bool single = t == DTYPE_F32;
    char text[40];
    (void)snprintf(text, sizeof text, "%.*g", single ? 6 : 15, v);
    bool same = single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
    if (!same)
        (void)snprintf(text, sizeof text, "%.*g", single ? 9 : 17, v);
    str_adds(out, text);
}

void float_print(enum dtype t, double v, struct str *out)
{
    if (isnan(v))
        str_adds(out, signbit(v) ? "-nan" : "nan");
    else if (isinf(v))
        str_adds(out, v < 0 ? "-inf" : "inf");
    else if (t == DTYPE_F32 || t == DTYPE_F64)
        print_wide(t, v, out);
    else
        str_addf(out, "%.*g", formats[t].digits, v);
}

/* Payload of a nan in memory when it is not the plain quiet one; 0 otherwise. */
uint64_t float_nan_payload(enum dtype t, const void *p)
{
    uint64_t bits = 0;
    int mant = t == DTYPE_F64 ? 52 : t == DTYPE_F32 ? 23 : t == DTYPE_F16 ? 10 : 7;
    if (t != DTYPE_F64 && t != DTYPE_F32 && t != DTYPE_F16 && t != DTYPE_BF16)
        return 0;
    memcpy(&bits, p, (size_t)dtype_bytes(t));
    bits &= ((uint64_t)1 << mant) - 1;
    return bits == (uint64_t)1 << (mant - 1) ? 0 : bits;
}
