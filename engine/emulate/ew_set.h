/* Elementwise kernels on integers, pred, f32 and f64, one set a type from the templates: included once
 * for each width of vectors (ew_arith.c, ew_avx2.c, ew_avx512.c) with EW_SET, the name of the whole.
 * All sets give the same bits. */
#define T      int8_t
#define U      uint8_t
#define SIGNED 1
#define N(x)   s8_##x
#include "emulate/kernels_int.h"
#define T      int16_t
#define U      uint16_t
#define SIGNED 1
#define N(x)   s16_##x
#include "emulate/kernels_int.h"
#define T      int32_t
#define U      uint32_t
#define SIGNED 1
#define N(x)   s32_##x
#include "emulate/kernels_int.h"
#define T      int64_t
#define U      uint64_t
#define SIGNED 1
#define N(x)   s64_##x
#include "emulate/kernels_int.h"
#define T      uint8_t
#define U      uint8_t
#define SIGNED 0
#define N(x)   u8_##x
#include "emulate/kernels_int.h"
#define T      uint16_t
#define U      uint16_t
#define SIGNED 0
#define N(x)   u16_##x
#include "emulate/kernels_int.h"
#define T      uint32_t
#define U      uint32_t
#define SIGNED 0
#define N(x)   u32_##x
#include "emulate/kernels_int.h"
#define T      uint64_t
#define U      uint64_t
#define SIGNED 0
#define N(x)   u64_##x
#include "emulate/kernels_int.h"

static const int32_t f32_top = INT32_MAX;
static const int64_t f64_top = INT64_MAX;
#define T       float
#define I       int32_t
#define K(c)    c##f
#define M(name) name##f
#define V(name) plain_##name
#define N(x)    f32_##x
#if defined(__GNUC__) && !defined(__clang__)
#define TURNED
#endif
#include "emulate/kernels_float.h"
#define T       double
#define I       int64_t
#define K(c)    c
#define M(name) name
#define V(name) name
#define N(x)    f64_##x
#include "emulate/kernels_float.h"

/* Functions that need no care for ends and NaN where no operand of a strip is large: the same bits. */
enum { NEAR_STRIP = 1024 };

static bool all_near(const float *a, int64_t n, float limit)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t b = (int32_t)(f32_bits(a[i]) & 0x7fffffffu);
        most = b > most ? b : most;
    }
    return most <= (int32_t)f32_bits(limit);
}

#define NEAR(name, limit, expr)                                                             \
    static void near_##name##_loop(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                       \
        const float *a = in[0];                                                             \
        float *r = out;                                                                     \
        for (int64_t at = 0; at < n; at += NEAR_STRIP) {                                    \
            int64_t m = min_i64(NEAR_STRIP, n - at);                                        \
            if (!all_near(a + at, m, limit)) {                                              \
                const void *strip = a + at;                                                 \
                f32_##name(e, r + at, &strip, m);                                           \
                continue;                                                                   \
            }                                                                               \
            SAME_PLACE                                                                      \
            for (int64_t i = at; i < at + m; i++) {                                         \
                float x = a[i];                                                             \
                r[i] = expr;                                                                \
            }                                                                               \
        }                                                                                   \
    }
NEAR(exp, NEAR_EXP, near_exp(x))
NEAR(logistic, NEAR_EXP, 1.0f / (1.0f + near_exp(-x)))
NEAR(tanh, NEAR_TANH, near_tanh(x))
#undef NEAR

/* As reduce_precision, which see. */
static void f32_round_bits(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const float *a = in[0];
    float *r = out;
    uint32_t last = e->b < 23 ? 1u << (23 - e->b) : 1, half = last > 1 ? (last >> 1) - 1 : 0, odd = last > 1;
    int32_t reduced = e->a < 8 ? (1 << (e->a - 1)) - 1 : 1000;
    SAME_PLACE
    for (int64_t i = 0; i < n; i++) {
        uint32_t b = f32_bits(a[i]), sign = b & 0x80000000u;
        uint32_t v = (b + ((b & last) != 0 ? odd : 0) + half) & ~(last - 1);
        int32_t field = (int32_t)(v >> 23 & 255) - 127;
        v = field > reduced ? sign | 0x7f800000u : v;
        v = field <= -reduced ? sign : v;
        r[i] = f32_of_bits((b & 0x7fffffffu) > 0x7f800000u ? b : v);
    }
}

static ew_fn near_find(enum op_kind op)
{
    return op == OP_REDUCE_PRECISION ? f32_round_bits
           : op == OP_EXP      ? near_exp_loop
           : op == OP_LOGISTIC ? near_logistic_loop
           : op == OP_TANH     ? near_tanh_loop
                               : f32_find(op);
}

/* pred: 0 or 1 a byte; sums are `or`, products `and`. */
static void pred_not(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)out)[i] = !((const uint8_t *)in[0])[i];
}

static enum op_kind pred_op(enum op_kind op)
{
    static const uint16_t same[OP_COUNT] = {
        [OP_ADD] = OP_OR,          [OP_MAXIMUM] = OP_OR,  [OP_OR] = OP_OR,   [OP_MULTIPLY] = OP_AND,
        [OP_MINIMUM] = OP_AND,     [OP_AND] = OP_AND,     [OP_XOR] = OP_XOR, [OP_SUBTRACT] = OP_XOR,
        [OP_COMPARE] = OP_COMPARE, [OP_CLAMP] = OP_CLAMP,
    };
    return (enum op_kind)same[op];
}

static ew_fn find_kernel(enum op_kind op, enum ctype ct)
{
    static ew_fn (*const find[CT_COUNT])(enum op_kind) = {
        [CT_S2] = s8_find,   [CT_S4] = s8_find,   [CT_S8] = s8_find,   [CT_S16] = s16_find,
        [CT_S32] = s32_find, [CT_S64] = s64_find, [CT_U2] = u8_find,   [CT_U4] = u8_find,
        [CT_U8] = u8_find,   [CT_U16] = u16_find, [CT_U32] = u32_find, [CT_U64] = u64_find,
        [CT_F32] = near_find, [CT_F64] = f64_find,
    };
    if (ct == CT_PRED)
        return op == OP_NOT ? pred_not : pred_op(op) ? u8_find(pred_op(op)) : NULL;
    return find[ct] ? find[ct](op) : NULL;
}

static fold_fn ring_fold(enum op_kind op)
{
    return op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM
               ? s64_find_fold(op)
               : NULL;
}

static fold_fn find_fold(enum op_kind op, enum ctype ct)
{
    static fold_fn (*const find[CT_COUNT])(enum op_kind) = {
        [CT_S8] = s8_find_fold,   [CT_S16] = s16_find_fold, [CT_S32] = s32_find_fold,
        [CT_S64] = s64_find_fold, [CT_U8] = u8_find_fold,   [CT_U16] = u16_find_fold,
        [CT_U32] = u32_find_fold, [CT_U64] = u64_find_fold, [CT_F32] = f32_find_fold,
        [CT_F64] = f64_find_fold, [CT_RING] = ring_fold,
    };
    if (ct == CT_PRED)
        return pred_op(op) ? u8_find_fold(pred_op(op)) : NULL;
    return find[ct] ? find[ct](op) : NULL;
}

static rows_fn find_rows(enum op_kind op, enum ctype ct)
{
    return ct == CT_F32 ? f32_find_rows(op) : ct == CT_F64 ? f64_find_rows(op) : NULL;
}

/* ---- select --------------------------------------------------------------------------------------
 */

struct wide16 {
    uint64_t a, b;
};

#define SELECT(name, T)                                                               \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const uint8_t *p = in[0];                                                     \
        const T *a = in[1], *b = in[2];                                               \
        T *r = out;                                                                   \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            T x = a[i], y = b[i];                                                     \
            r[i] = p[i] ? x : y;                                                      \
        }                                                                             \
    }
SELECT(select1, uint8_t)
SELECT(select2, uint16_t)
SELECT(select4, uint32_t)
SELECT(select8, uint64_t)
SELECT(select16, struct wide16)
#undef SELECT

static ew_fn find_select(int size)
{
    switch (size) {
    case 1: return select1;
    case 2: return select2;
    case 4: return select4;
    case 8: return select8;
    default: return select16;
    }
}

/* ---- 16-bit floats -------------------------------------------------------------------------------
 */

static inline float of_bf16(uint16_t h)
{
    return f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float v)
{
    uint32_t b = f32_bits(v), quiet = b >> 16 | 0x40;
    uint32_t near = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return (uint16_t)((int32_t)(b & 0x7fffffffu) > 0x7f800000 ? quiet : near);
}

/* A product by a power of two makes the exponent right, of subnormals too. */
static inline float of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t b = f32_bits(f32_of_bits(rest) * 0x1p112f);
    b |= rest >= 0x0f800000 ? 0x7f800000u : 0;
    return f32_of_bits(b | sign);
}

/* Below the smallest normal number a sum leaves the right bits in the last places; NaN's are dropped. */
static inline uint16_t to_f16(float v)
{
    uint32_t b = f32_bits(v), sign = b >> 16 & 0x8000;
    int32_t a = (int32_t)(b & 0x7fffffff);
    uint32_t normal = ((uint32_t)a - 0x38000000u + 0xfff + ((uint32_t)a >> 13 & 1)) >> 13;
    uint32_t tiny = f32_bits(f32_of_bits((uint32_t)a) + 0.5f) - 0x3f000000u;
    uint32_t r = a < 0x38800000 ? tiny : normal;
    r = a >= 0x477ff000 ? 0x7c00 : r;
    r = a > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(r | sign);
}

/* Of a value that is bf16 already. */
static inline uint16_t half_of(float v)
{
    return (uint16_t)(f32_bits(v) >> 16);
}

#define STRAIGHT(name, TI, TO, f)                    \
    static void name(const TI *a, TO *r, int64_t n) \
    {                                                \
        SAME_PLACE                                   \
        for (int64_t i = 0; i < n; i++)              \
            r[i] = f(a[i]);                          \
    }
STRAIGHT(widen_bf16, uint16_t, float, of_bf16)
STRAIGHT(narrow_bf16, float, uint16_t, to_bf16)
STRAIGHT(cut_bf16, float, uint16_t, half_of)
STRAIGHT(widen_f16, uint16_t, float, of_f16)
STRAIGHT(narrow_f16, float, uint16_t, to_f16)
#undef STRAIGHT

static void narrow_byte(const struct byte_codes *codes, const float *in, uint8_t *out, int64_t n)
{
    const struct byte_codes c = *codes;
    uint32_t half = (1u << (22 - c.mantissa)) - 1, units = f32_bits(c.units);
    for (int64_t i = 0; i < n; i++) {
        uint32_t b = f32_bits(in[i]), a = b & 0x7fffffffu, s = b >> 31 << c.sign_at;
        uint32_t normal = ((a + half + (a >> (23 - c.mantissa) & 1)) >> (23 - c.mantissa)) - c.rebias;
        uint32_t small = f32_bits(f32_of_bits(a) + c.units) - units;
        uint32_t r = (int32_t)a < (int32_t)c.tiny ? small : normal;
        uint32_t v = r | (r == 0 ? s & c.zero_sign : s);
        v = (int32_t)r > (int32_t)c.most ? c.over | (s & c.over_sign) : v;
        v = (int32_t)a > 0x7f800000 ? c.nan | (s & c.nan_sign) : v;
        out[i] = (uint8_t)v;
    }
}

/* Operations in one loop: widened, computed in f32, rounded once, as strip by strip. */
#define HALF_UN(name, of, to, expr)                                                   \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const uint16_t *a = in[0];                                                    \
        uint16_t *r = out;                                                            \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            float x = of(a[i]);                                                       \
            r[i] = to(expr);                                                          \
        }                                                                             \
    }
#define HALF_BIN(name, of, to, expr)                                                  \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const uint16_t *a = in[0], *b = in[1];                                        \
        uint16_t *r = out;                                                            \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            float x = of(a[i]), y = of(b[i]);                                         \
            r[i] = to(expr);                                                          \
        }                                                                             \
    }
#define HALF_SET(t)                                                                    \
    HALF_BIN(t##_add, of_##t, to_##t, x + y)                                           \
    HALF_BIN(t##_subtract, of_##t, to_##t, x - y)                                      \
    HALF_BIN(t##_multiply, of_##t, to_##t, x *y)                                       \
    HALF_BIN(t##_divide, of_##t, to_##t, x / y)                                        \
    HALF_BIN(t##_maximum, of_##t, to_##t, x >= y || x != x ? x : y)                    \
    HALF_BIN(t##_minimum, of_##t, to_##t, x <= y || x != x ? x : y)                    \
    HALF_UN(t##_negate, of_##t, to_##t, -x)                                            \
    HALF_UN(t##_abs, of_##t, to_##t, fabsf(x))                                         \
    HALF_UN(t##_sqrt, of_##t, to_##t, sqrtf(x))                                        \
    HALF_UN(t##_rsqrt, of_##t, to_##t, 1.0f / sqrtf(x))                                \
    static ew_fn t##_find(enum op_kind op)                                             \
    {                                                                                  \
        static const ew_fn table[OP_COUNT] = {                                         \
            [OP_ADD] = t##_add,           [OP_SUBTRACT] = t##_subtract,                \
            [OP_MULTIPLY] = t##_multiply, [OP_DIVIDE] = t##_divide,                    \
            [OP_MAXIMUM] = t##_maximum,   [OP_MINIMUM] = t##_minimum,                  \
            [OP_NEGATE] = t##_negate,     [OP_ABS] = t##_abs,                          \
            [OP_SQRT] = t##_sqrt,         [OP_RSQRT] = t##_rsqrt,                      \
        };                                                                             \
        return table[op];                                                              \
    }
HALF_SET(bf16)
HALF_SET(f16)
#undef HALF_UN
#undef HALF_BIN
#undef HALF_SET

/* ---- 16-bit floats kept as f32 -------------------------------------------------------------------
 */

/* Rounded to the narrower type and still f32. */
static inline float near_bf16(float v)
{
    uint32_t b = f32_bits(v), near = (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u;
    return f32_of_bits((int32_t)(b & 0x7fffffffu) > 0x7f800000 ? (b & 0xffff0000u) | 0x400000 : near);
}

/* Of an operation on such values: its NaN are quiet and have nothing in the bits that go. */
static inline float kept_bf16(float v)
{
    uint32_t b = f32_bits(v);
    return f32_of_bits((b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u);
}

static inline float near_f16(float v)
{
    uint32_t b = f32_bits(v), sign = b & 0x80000000u;
    int32_t a = (int32_t)(b & 0x7fffffff);
    uint32_t normal = ((uint32_t)a + 0xfff + ((uint32_t)a >> 13 & 1)) & ~0x1fffu;
    uint32_t tiny = f32_bits((f32_of_bits((uint32_t)a) + 0.5f) - 0.5f);
    uint32_t r = a < 0x38800000 ? tiny : normal;
    r = a >= 0x477ff000 ? 0x7f800000 : r;
    r = a > 0x7f800000 ? 0x7fc00000 : r;
    return f32_of_bits(r | sign);
}
#define kept_f16 near_f16

/* One of the operands as it is, but a NaN quiet. */
static inline float quiet_bf16(float v)
{
    uint32_t b = f32_bits(v);
    return f32_of_bits((int32_t)(b & 0x7fffffffu) > 0x7f800000 ? b | 0x400000 : b);
}
#define quiet_f16 near_f16

#define KEPT(name, expr)                                                              \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const float *a = in[0], *b = in[1];                                           \
        float *r = out;                                                               \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            float x = a[i], y = b[i];                                                 \
            r[i] = expr;                                                              \
        }                                                                             \
    }
#define KEPT_ONE(name, expr)                                                          \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const float *a = in[0];                                                       \
        float *r = out;                                                               \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            float x = a[i];                                                           \
            r[i] = expr;                                                              \
        }                                                                             \
    }
#define KEPT_SET(t)                                                                    \
    KEPT(t##_kept_add, kept_##t(x + y))                                                \
    KEPT(t##_kept_subtract, kept_##t(x - y))                                           \
    KEPT(t##_kept_multiply, kept_##t(x *y))                                            \
    KEPT(t##_kept_divide, kept_##t(x / y))                                             \
    KEPT(t##_kept_maximum, quiet_##t(x >= y || x != x ? x : y))                        \
    KEPT(t##_kept_minimum, quiet_##t(x <= y || x != x ? x : y))                        \
    KEPT_ONE(t##_kept_negate, quiet_##t(-x))                                           \
    KEPT_ONE(t##_kept_abs, quiet_##t(fabsf(x)))                                        \
    KEPT_ONE(t##_kept_sqrt, kept_##t(sqrtf(x)))                                        \
    KEPT_ONE(t##_kept_convert, near_##t(x))                                            \
    static ew_fn t##_kept(enum op_kind op)                                             \
    {                                                                                  \
        static const ew_fn table[OP_COUNT] = {                                         \
            [OP_ADD] = t##_kept_add,           [OP_SUBTRACT] = t##_kept_subtract,      \
            [OP_MULTIPLY] = t##_kept_multiply, [OP_DIVIDE] = t##_kept_divide,          \
            [OP_MAXIMUM] = t##_kept_maximum,   [OP_MINIMUM] = t##_kept_minimum,        \
            [OP_NEGATE] = t##_kept_negate,     [OP_ABS] = t##_kept_abs,                \
            [OP_SQRT] = t##_kept_sqrt,         [OP_CONVERT] = t##_kept_convert,        \
        };                                                                             \
        return table[op];                                                              \
    }
KEPT_SET(bf16)
KEPT_SET(f16)
#undef KEPT
#undef KEPT_ONE
#undef KEPT_SET
#undef kept_f16
#undef quiet_f16

static ew_fn find_kept(enum op_kind op, enum dtype t)
{
    return t == DTYPE_BF16 ? bf16_kept(op) : t == DTYPE_F16 ? f16_kept(op) : NULL;
}

static ew_fn find_half(enum op_kind op, enum dtype t)
{
    return t == DTYPE_BF16 ? bf16_find(op) : t == DTYPE_F16 ? f16_find(op) : NULL;
}

/* ---- conversions that are one loop ---------------------------------------------------------------
 */

/* Out of range: the nearest end; NaN: 0. */
static inline int32_t f32_to_s32(float x)
{
    float c = x >= 0x1p31f ? 0 : x < -0x1p31f ? -0x1p31f : x;
    c = x != x ? 0 : c;
    int32_t r = (int32_t)c;
    return x >= 0x1p31f ? INT32_MAX : r;
}

#define CONVERT(name, TI, TO, expr)                                                   \
    static void name(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                 \
        (void)e;                                                                      \
        const TI *a = in[0];                                                          \
        TO *r = out;                                                                  \
        SAME_PLACE                                                                    \
        for (int64_t i = 0; i < n; i++) {                                             \
            TI x = a[i];                                                              \
            r[i] = (TO)(expr);                                                        \
        }                                                                             \
    }
CONVERT(u8_to_f32, uint8_t, float, x)
CONVERT(s8_to_f32, int8_t, float, x)
CONVERT(s32_to_f32, int32_t, float, x)
CONVERT(u32_to_f32, uint32_t, float, x)
CONVERT(u8_to_s32, uint8_t, int32_t, x)
CONVERT(s8_to_s32, int8_t, int32_t, x)
CONVERT(s32_to_s8, int32_t, int8_t, x)
CONVERT(s32_to_s64, int32_t, int64_t, x)
CONVERT(s64_to_s32, int64_t, int32_t, x)
CONVERT(s32_to_pred, int32_t, uint8_t, x != 0)
CONVERT(f32_to_int, float, int32_t, f32_to_s32(x))
CONVERT(f32_to_f64, float, double, x)
CONVERT(f64_to_f32, double, float, x)
CONVERT(bf16_to_f32, uint16_t, float, of_bf16(x))
CONVERT(f32_to_bf16, float, uint16_t, to_bf16(x))
CONVERT(f16_to_f32, uint16_t, float, of_f16(x))
CONVERT(f32_to_f16, float, uint16_t, to_f16(x))
#undef CONVERT

/* By dtype: no ring elements. NULL: none that is one loop. */
static ew_fn find_convert(enum dtype from, enum dtype to)
{
    static const struct {
        enum dtype from, to;
        ew_fn fn;
    } table[] = {
        { DTYPE_PRED, DTYPE_F32, u8_to_f32 },   { DTYPE_U8, DTYPE_F32, u8_to_f32 },
        { DTYPE_S8, DTYPE_F32, s8_to_f32 },     { DTYPE_S32, DTYPE_F32, s32_to_f32 },
        { DTYPE_U32, DTYPE_F32, u32_to_f32 },   { DTYPE_PRED, DTYPE_S32, u8_to_s32 },
        { DTYPE_U8, DTYPE_S32, u8_to_s32 },     { DTYPE_PRED, DTYPE_U32, u8_to_s32 },
        { DTYPE_S8, DTYPE_S32, s8_to_s32 },     { DTYPE_S32, DTYPE_S8, s32_to_s8 },
        { DTYPE_S32, DTYPE_S64, s32_to_s64 },   { DTYPE_S64, DTYPE_S32, s64_to_s32 },
        { DTYPE_S32, DTYPE_PRED, s32_to_pred }, { DTYPE_F32, DTYPE_S32, f32_to_int },
        { DTYPE_F32, DTYPE_F64, f32_to_f64 },   { DTYPE_F64, DTYPE_F32, f64_to_f32 },
        { DTYPE_BF16, DTYPE_F32, bf16_to_f32 }, { DTYPE_F32, DTYPE_BF16, f32_to_bf16 },
        { DTYPE_F16, DTYPE_F32, f16_to_f32 },   { DTYPE_F32, DTYPE_F16, f32_to_f16 },
    };
    for (size_t k = 0; k < COUNTOF(table); k++)
        if (table[k].from == from && table[k].to == to)
            return table[k].fn;
    return NULL;
}

const struct ew_set EW_SET = {
    find_kernel, find_fold,   find_rows,  find_half,  find_kept, find_select, find_convert,
    widen_bf16,  narrow_bf16, cut_bf16,   widen_f16,  narrow_byte, narrow_f16,
};
