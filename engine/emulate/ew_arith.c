/* Elementwise kernels on integers, pred, f32 and f64, one set a type from the templates. */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "emulate/internal.h"

#include <math.h>
#include <string.h>

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
#define N(x)    f32_##x
#include "emulate/kernels_float.h"
#define T       double
#define I       int64_t
#define K(c)    c
#define M(name) name
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

ew_fn ew_arith(enum op_kind op, enum ctype ct)
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

fold_fn fold_kernel(enum op_kind op, enum ctype ct)
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
