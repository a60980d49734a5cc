/* Functions of f32 in plain arithmetic without branches, so that loops over them become vectors. The
 * same bits with every vector width: no contraction, no estimate instructions.
 *
 * Largest error found, in units in the last place, and libm's own: exp 0.80 (0.51), log 0.79 (0.81),
 * log1p 0.83 (0.83), tanh 1.30 (2.14); the bounds that tests hold them to are 1, 1, 1 and 1.5.
 */
#ifndef GSPMD_EMULATE_MATH_F32_H
#define GSPMD_EMULATE_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static inline float f32_of_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}

/* ln 2 in two parts: few bits, so that times a small integer it is exact, and the rest. */
#define LN2_HI 0x1.63p-1f
#define LN2_LO (-0x1.bd0106p-13f)

/* e^x = 2^k y: y = e^(a - b), where a is exact and b small. e^r - 1 - r by a polynomial of r = a - b; the
 * sum with what 1 + a loses. k stands in the last bits of `t`. */
static inline float plain_exp_core(float x, float *t)
{
    const float round = 0x1.8p23f; /* pushes the fraction out of the last place */
    *t = x * 0x1.715476p0f + round;
    float k = *t - round, a = x - k * LN2_HI, b = k * LN2_LO, r = a - b;
    float p = 0x1.6db6c6p-10f;
    p = p * r + 0x1.123d38p-7f;
    p = p * r + 0x1.55545ap-5f;
    p = p * r + 0x1.55548cp-3f;
    p = p * r + 0.5f;
    float h = 1.0f + a, lost = (1.0f - h) + a;
    return h + (lost + (p * (r * r) - b));
}

/* What is far outside of a float's range is replaced at the end. */
static inline float plain_exp(float x)
{
    float t, y = plain_exp_core(x, &t);
    /* In two steps: 2^k itself may be no float. */
    uint32_t n = f32_bits(t) - f32_bits(0x1.8p23f), half = (uint32_t)((int32_t)n >> 1);
    y = y * f32_of_bits((half + 127) << 23) * f32_of_bits((n - half + 127) << 23);
    y = x > 89.0f ? HUGE_VALF : y;
    return x < -104.0f ? 0.0f : y;
}

/* The same bits where the result is a normal number: |x| up to NEAR_EXP. */
#define NEAR_EXP 87.0f
static inline float near_exp(float x)
{
    float t, y = plain_exp_core(x, &t);
    return f32_of_bits(f32_bits(y) + (f32_bits(t) << 23));
}

/* log of x, and `more` beside it, which is small: x = 2^k m, m near 1. Normal positive x. */
static inline float plain_log_core(float x, float shift, float more)
{
    const uint32_t root = 0x3f3504f3; /* of 1/2: below it m would be too far from 1 */
    uint32_t b = f32_bits(x) - root;
    float f = f32_of_bits((b & 0x7fffff) + root) - 1.0f;
    float k = (float)((int32_t)b >> 23) - shift, high = k * LN2_HI;
    float p = 0x1.145880p-4f;
    p = p * f + -0x1.de3d72p-4f;
    p = p * f + 0x1.e6f0cap-4f;
    p = p * f + -0x1.fc21d8p-4f;
    p = p * f + 0x1.233760p-3f;
    p = p * f + -0x1.555c4ep-3f;
    p = p * f + 0x1.99a4b6p-3f;
    p = p * f + -0x1.000006p-2f;
    p = p * f + 0x1.555548p-2f;
    float z = f * f, y = f * z * p + (k * LN2_LO + more) - 0.5f * z;
    /* high + f + y with what the two sums lose. */
    float s = f + y, lost = (f - s) + y;
    float w = high + s;
    lost += (high - w) + s;
    return w + lost;
}

static inline float plain_log(float x)
{
    int tiny = x < 0x1p-126f;
    float r = plain_log_core(tiny ? x * 0x1p23f : x, tiny ? 23.0f : 0.0f, 0.0f);
    r = x == 0 ? -HUGE_VALF : r;
    r = x < 0 ? NAN : r;
    return x < HUGE_VALF ? r : x; /* infinity and NaN stay */
}

/* log(1 + x) is log(u) and what the sum u lost, over u. */
static inline float plain_log1p(float x)
{
    float u = 1.0f + x, lost = x >= 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    float r = plain_log_core(u, 0.0f, lost / u);
    r = x == -1.0f ? -HUGE_VALF : r;
    r = x < -1.0f ? NAN : r;
    r = x == 0 ? x : r;
    return x < HUGE_VALF ? r : x;
}

/* e: e^(2 |x|), to which the quotient is little sensitive. */
static inline float tanh_of(float x, float e)
{
    float z = x * x, p = -0x1.76ac18p-8f;
    p = p * z + 0x1.5256d6p-6f;
    p = p * z + -0x1.b84448p-5f;
    p = p * z + 0x1.110768p-3f;
    p = p * z + -0x1.555534p-2f;
    float small = x + x * (z * p), large = 1.0f - 2.0f / (e + 1.0f);
    return copysignf(fabsf(x) >= 0.625f ? large : small, x); /* of zero and NaN too */
}

/* e^x for 0 <= x <= 87, to 1.02 units. */
static inline float rough_exp(float x)
{
    const float round = 0x1.8p23f;
    float t = x * 0x1.715476p0f + round, k = t - round, r = (x - k * LN2_HI) - k * LN2_LO;
    float p = 0x1.6db6c6p-10f;
    p = p * r + 0x1.123d38p-7f;
    p = p * r + 0x1.55545ap-5f;
    p = p * r + 0x1.55548cp-3f;
    p = p * r + 0.5f;
    return f32_of_bits(f32_bits(1.0f + (r + p * (r * r))) + (f32_bits(t) << 23));
}

static inline float plain_tanh(float x)
{
    float a = 2.0f * fabsf(x);
    return tanh_of(x, a > 86.0f ? 0x1p64f : rough_exp(a));
}

/* |x| up to NEAR_TANH */
#define NEAR_TANH 43.0f
static inline float near_tanh(float x)
{
    return tanh_of(x, rough_exp(2.0f * fabsf(x)));
}

#endif
