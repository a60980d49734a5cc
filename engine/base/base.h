/* The few definitions that every file of gspmd starts from. Knows nothing of shardings or IR. */
#ifndef GSPMD_BASE_BASE_H
#define GSPMD_BASE_BASE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define COUNTOF(a)        (sizeof(a) / sizeof((a)[0]))

/* A struct around the number stops one kind of id being passed as another. 0 is "none" in every
 * table. Compare with .i. */
#define DEFINE_ID(name)                                                                            \
    typedef struct name {                                                                          \
        uint32_t i;                                                                                \
    } name

/* Ceiling of a / b for a >= 0, b > 0. The caller owns the padding that rounding up makes. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Checked arithmetic: false when the result does not fit; *out is then untouched. */
MUST_CHECK static inline bool mul_ok(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

MUST_CHECK static inline bool add_ok(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Product of v[0..n), 1 for n = 0; false on overflow. */
MUST_CHECK bool product_ok(const int64_t *v, int64_t n, int64_t *out);

#endif
