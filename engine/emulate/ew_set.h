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
#include "emulate/kernels_float.h"
#define T       double
#define I       int64_t
#define K(c)    c
#define M(name) name
#define V(name) name
#define N(x)    f64_##x
#include "emulate/kernels_float.h"

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
        [CT_F32] = f32_find, [CT_F64] = f64_find,
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

#define STRAIGHT(name, TI, TO, f)                    \
    static void name(const TI *a, TO *r, int64_t n) \
    {                                                \
        SAME_PLACE                                   \
        for (int64_t i = 0; i < n; i++)              \
            r[i] = f(a[i]);                          \
    }
STRAIGHT(widen_bf16, uint16_t, float, of_bf16)
STRAIGHT(narrow_bf16, float, uint16_t, to_bf16)
STRAIGHT(widen_f16, uint16_t, float, of_f16)
STRAIGHT(narrow_f16, float, uint16_t, to_f16)
#undef STRAIGHT

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
    HALF_UN(t##_exp, of_##t, to_##t, plain_exp(x))                                     \
    HALF_UN(t##_log, of_##t, to_##t, plain_log(x))                                     \
    HALF_UN(t##_tanh, of_##t, to_##t, plain_tanh(x))                                   \
    HALF_UN(t##_logistic, of_##t, to_##t, 1.0f / (1.0f + plain_exp(-x)))               \
    static ew_fn t##_find(enum op_kind op)                                             \
    {                                                                                  \
        static const ew_fn table[OP_COUNT] = {                                         \
            [OP_ADD] = t##_add,           [OP_SUBTRACT] = t##_subtract,                \
            [OP_MULTIPLY] = t##_multiply, [OP_DIVIDE] = t##_divide,                    \
            [OP_MAXIMUM] = t##_maximum,   [OP_MINIMUM] = t##_minimum,                  \
            [OP_NEGATE] = t##_negate,     [OP_ABS] = t##_abs,                          \
            [OP_SQRT] = t##_sqrt,         [OP_RSQRT] = t##_rsqrt,                      \
            [OP_EXP] = t##_exp,           [OP_LOG] = t##_log,                          \
            [OP_TANH] = t##_tanh,         [OP_LOGISTIC] = t##_logistic,                \
        };                                                                             \
        return table[op];                                                              \
    }
HALF_SET(bf16)
HALF_SET(f16)
#undef HALF_UN
#undef HALF_BIN
#undef HALF_SET

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
    find_kernel, find_fold,   find_rows,  find_half, find_select, find_convert,
    widen_bf16,  narrow_bf16, widen_f16,   narrow_f16,
};
