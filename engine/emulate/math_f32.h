/* Functions of f32 in plain arithmetic without branches, so that loops over them become vectors. The
 * same bits with every vector width: no contraction, no estimate instructions.
 *
 * Largest error found, in units in the last place, and libm's own: exp 0.77 (0.51), log 0.79 (0.81),
 * log1p 0.83 (0.83), tanh 1.32 (2.14); the bounds that tests hold them to are 1, 1, 1 and 1.5.
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

/* e^x = 2^k e^r, |r| <= ln 2 / 2: r as a sum of two floats, e^r - 1 - r by a polynomial. */
static inline float plain_exp(float x)
{
    const float round = 0x1.8p23f; /* pushes the fraction out of the last place */
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
    float t = c * 0x1.715476p0f + round, k = t - round;
    uint32_t n = f32_bits(t) - f32_bits(round);
    float a = c - k * LN2_HI, b = k * LN2_LO, r = a - b, rest = (a - r) - b;
    float p = 0x1.6db6c6p-10f;
    p = p * r + 0x1.123d38p-7f;
    p = p * r + 0x1.55545ap-5f;
    p = p * r + 0x1.55548cp-3f;
    p = p * r + 0.5f;
    float tail = p * (r * r) + rest, s = r + tail, one = 1.0f + s;
    float y = one + (((1.0f - one) + s) + ((r - s) + tail)); /* with what the two sums lose */
    /* In two steps: 2^k itself may be no float. */
    uint32_t half = (uint32_t)((int32_t)n >> 1);
    return y * f32_of_bits((half + 127) << 23) * f32_of_bits((n - half + 127) << 23);
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

static inline float plain_tanh(float x)
{
    float a = fabsf(x), z = x * x, p = -0x1.76ac18p-8f;
    p = p * z + 0x1.5256d6p-6f;
    p = p * z + -0x1.b84448p-5f;
    p = p * z + 0x1.110768p-3f;
    p = p * z + -0x1.555534p-2f;
    float small = x + x * (z * p), large = 1.0f - 2.0f / (plain_exp(2.0f * a) + 1.0f);
    return copysignf(a < 0.625f ? small : large, x); /* of zero too */
}

#endif
