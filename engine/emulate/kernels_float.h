/* Floating-point kernels of one width: included for float and double with T, I (signed integer of
 * that width), K(constant), M(libm function), V(function that makes vectors, where there is one) and
 * N(name) defined; TURNED: for float, where vectors of four can be shuffled. */

#define UN(name, expr)                                                                   \
    static void N(name)(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                    \
        (void)e;                                                                         \
        T *r = out;                                                                      \
        const T *a = in[0];                                                              \
        SAME_PLACE                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                \
            T x = a[i];                                                                  \
            r[i] = expr;                                                                 \
        }                                                                                \
    }
#define BIN(name, expr)                                                                  \
    static void N(name)(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                    \
        (void)e;                                                                         \
        T *r = out;                                                                      \
        const T *a = in[0], *b = in[1];                                                  \
        SAME_PLACE                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                \
            T x = a[i], y = b[i];                                                        \
            r[i] = expr;                                                                 \
        }                                                                                \
    }
/* Sequential where the accumulator stays (sa = 0): the order of a sum is part of its value. */
#define FOLD(name, expr)                                                                     \
    static void N(fold_##name)(void *acc, int64_t sa, const void *xs, int64_t sx, int64_t n) \
    {                                                                                        \
        T *r = acc;                                                                          \
        const T *a = xs;                                                                     \
        if (sa == 0) {                                                                       \
            T x = *r;                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                \
                T y = a[i * sx];                                                             \
                x = expr;                                                                    \
            }                                                                                \
            *r = x;                                                                          \
        } else if (sa == 1 && sx == 1) {                                                     \
            for (int64_t i = 0; i < n; i++) {                                                \
                T x = r[i], y = a[i];                                                        \
                r[i] = expr;                                                                 \
            }                                                                                \
        } else {                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                \
                T x = r[i * sa], y = a[i * sx];                                              \
                r[i * sa] = expr;                                                            \
            }                                                                                \
        }                                                                                    \
    }

/* Rows side by side, each in its own order: a row's sum waits for itself at every term. */
#define FOLD_ROWS_PLAIN(expr, from)                                                          \
        for (int64_t j = from; j < n; j++)                                                   \
            for (int k = 0; k < FOLD_AT_ONCE; k++) {                                         \
                T x = s[k], y = a[k * stride + j];                                           \
                s[k] = expr;                                                                 \
            }
#ifdef TURNED
/* In squares of four by four, turned so that a vector holds one term of each row: interleaving the first
 * rows with the last, twice. */
#define FOLD_FOUR(sum, at, vectors)                                                          \
    do {                                                                                     \
        vec4 a0, a1, a2, a3;                                                                 \
        memcpy(&a0, at, 16);                                                                 \
        memcpy(&a1, (at) + stride, 16);                                                      \
        memcpy(&a2, (at) + 2 * stride, 16);                                                  \
        memcpy(&a3, (at) + 3 * stride, 16);                                                  \
        vec4 b0 = __builtin_shuffle(a0, a2, low), b1 = __builtin_shuffle(a0, a2, high);      \
        vec4 b2 = __builtin_shuffle(a1, a3, low), b3 = __builtin_shuffle(a1, a3, high);      \
        vec4 y = __builtin_shuffle(b0, b2, low), x = sum;                                    \
        x = vectors;                                                                         \
        y = __builtin_shuffle(b0, b2, high);                                                 \
        x = vectors;                                                                         \
        y = __builtin_shuffle(b1, b3, low);                                                  \
        x = vectors;                                                                         \
        y = __builtin_shuffle(b1, b3, high);                                                 \
        sum = vectors;                                                                       \
    } while (0)
#define FOLD_ROWS(name, expr, vectors)                                                       \
    static void N(rows_##name)(void *acc, const void *xs, int64_t stride, int64_t n)         \
    {                                                                                        \
        static const mask4 low = { 0, 4, 1, 5 }, high = { 2, 6, 3, 7 };                      \
        T *r = acc, s[FOLD_AT_ONCE];                                                         \
        const T *a = xs;                                                                     \
        vec4 s0, s1, s2, s3;                                                                 \
        memcpy(&s0, r, 16);                                                                  \
        memcpy(&s1, r + 4, 16);                                                              \
        memcpy(&s2, r + 8, 16);                                                              \
        memcpy(&s3, r + 12, 16);                                                             \
        int64_t i = 0;                                                                       \
        for (; i + 4 <= n; i += 4) {                                                         \
            FOLD_FOUR(s0, a + i, vectors);                                                   \
            FOLD_FOUR(s1, a + i + 4 * stride, vectors);                                      \
            FOLD_FOUR(s2, a + i + 8 * stride, vectors);                                      \
            FOLD_FOUR(s3, a + i + 12 * stride, vectors);                                     \
        }                                                                                    \
        memcpy(s, &s0, 16);                                                                  \
        memcpy(s + 4, &s1, 16);                                                              \
        memcpy(s + 8, &s2, 16);                                                              \
        memcpy(s + 12, &s3, 16);                                                             \
        FOLD_ROWS_PLAIN(expr, i)                                                             \
        memcpy(r, s, sizeof s);                                                              \
    }
typedef T vec4 __attribute__((vector_size(16)));
typedef I mask4 __attribute__((vector_size(16)));

static inline vec4 N(choose)(mask4 m, vec4 x, vec4 y)
{
    return (vec4)(((mask4)x & m) | ((mask4)y & ~m));
}
#else
#define FOLD_ROWS(name, expr, vectors)                                                       \
    static void N(rows_##name)(void *acc, const void *xs, int64_t stride, int64_t n)         \
    {                                                                                        \
        T *r = acc, s[FOLD_AT_ONCE];                                                         \
        const T *a = xs;                                                                     \
        memcpy(s, r, sizeof s);                                                              \
        FOLD_ROWS_PLAIN(expr, 0)                                                             \
        memcpy(r, s, sizeof s);                                                              \
    }
#endif

/* NaN on either side wins; of equal ones (0 and -0) the left. */
#define MAXV(x, y) ((x) >= (y) || (x) != (x) ? (x) : (y))
#define MINV(x, y) ((x) <= (y) || (x) != (x) ? (x) : (y))

static T N(sgn)(T x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

UN(abs, M(fabs)(x))
UN(acos, M(acos)(x))
UN(acosh, M(acosh)(x))
UN(asin, M(asin)(x))
UN(asinh, M(asinh)(x))
UN(atanh, M(atanh)(x))
UN(cosh, M(cosh)(x))
UN(sinh, M(sinh)(x))
UN(cbrt, M(cbrt)(x))
UN(ceil, M(ceil)(x))
UN(copy, x)
UN(cosine, M(cos)(x))
UN(erf, M(erf)(x))
UN(exp, V(exp)(x))
UN(expm1, M(expm1)(x))
UN(floor, M(floor)(x))
UN(log, V(log)(x))
UN(log1p, V(log1p)(x))
UN(logistic, K(1.0) / (K(1.0) + V(exp)(-x)))
UN(negate, -x)
UN(afz, M(round)(x))
UN(even, M(rint)(x))
UN(rsqrt, K(1.0) / M(sqrt)(x))
UN(sign, N(sgn)(x))
UN(sine, M(sin)(x))
UN(sqrt, M(sqrt)(x))
UN(tan, M(tan)(x))
UN(tanh, V(tanh)(x))
BIN(add, x + y)
BIN(sub, x - y)
BIN(mul, x *y)
BIN(divide, x / y)
BIN(remainder, M(fmod)(x, y))
BIN(power, M(pow)(x, y))
BIN(atan2, M(atan2)(x, y))
BIN(max, MAXV(x, y))
BIN(min, MINV(x, y))
FOLD(add, x + y)
FOLD(mul, x *y)
FOLD(max, MAXV(x, y))
FOLD(min, MINV(x, y))
FOLD_ROWS(add, x + y, x + y)
FOLD_ROWS(mul, x *y, x *y)
FOLD_ROWS(max, MAXV(x, y), N(choose)((x >= y) | (x != x), x, y))
FOLD_ROWS(min, MINV(x, y), N(choose)((x <= y) | (x != x), x, y))

/* Of a real number. */
static void N(imag)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    (void)in;
    memset(out, 0, (size_t)n * sizeof(T));
}

static void N(is_finite)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const T *a = in[0];
    uint8_t *r = out;
    SAME_PLACE
    for (int64_t i = 0; i < n; i++)
        r[i] = a[i] - a[i] == 0;
}

/* Total order: the bits as sign and magnitude, so -NaN < -inf < ... < -0 < 0 < ... < NaN. */
static I N(order)(T x)
{
    I b;
    memcpy(&b, &x, sizeof b);
    return b < 0 ? (I)(b ^ N(top)) : b;
}

static void N(compare)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const T *a = in[0], *b = in[1];
    uint8_t *r = out;
#define EACH(f, op)                 \
    SAME_PLACE                      \
    for (int64_t i = 0; i < n; i++) \
        r[i] = f(a[i]) op f(b[i]);  \
    return
    switch (e->a) {
    case DIR_EQ: EACH(, ==);
    case DIR_NE: EACH(, !=);
    case DIR_LT: EACH(, <);
    case DIR_LE: EACH(, <=);
    case DIR_GT: EACH(, >);
    case DIR_GE: EACH(, >=);
    case DIR_TOTAL | DIR_EQ: EACH(N(order), ==);
    case DIR_TOTAL | DIR_NE: EACH(N(order), !=);
    case DIR_TOTAL | DIR_LT: EACH(N(order), <);
    case DIR_TOTAL | DIR_LE: EACH(N(order), <=);
    case DIR_TOTAL | DIR_GT: EACH(N(order), >);
    case DIR_TOTAL | DIR_GE: EACH(N(order), >=);
    }
#undef EACH
}

static void N(clamp)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const T *lo = in[0], *x = in[1], *hi = in[2];
    T *r = out;
    SAME_PLACE
    for (int64_t i = 0; i < n; i++) {
        T a = x[i], l = lo[i], h = hi[i];
        T v = MAXV(l, a); /* the limit wins where zeros differ in sign */
        r[i] = MINV(h, v);
    }
}

static void N(reduce_precision)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    int wide = sizeof(T) == 8;
    for (int64_t i = 0; i < n; i++) {
        I b;
        memcpy(&b, (const T *)in[0] + i, sizeof b);
        uint64_t bits = wide ? (uint64_t)b : (uint64_t)(uint32_t)b;
        b = (I)reduce_precision(bits, wide ? 11 : 8, wide ? 52 : 23, (int)e->a, (int)e->b);
        memcpy((T *)out + i, &b, sizeof b);
    }
}

static ew_fn N(find)(enum op_kind op)
{
    static const ew_fn table[OP_COUNT] = {
        [OP_ABS] = N(abs),
        [OP_ACOS] = N(acos),
        [OP_ACOSH] = N(acosh),
        [OP_ASIN] = N(asin),
        [OP_ASINH] = N(asinh),
        [OP_ATANH] = N(atanh),
        [OP_COSH] = N(cosh),
        [OP_SINH] = N(sinh),
        [OP_CBRT] = N(cbrt),
        [OP_CEIL] = N(ceil),
        [OP_COSINE] = N(cosine),
        [OP_ERF] = N(erf),
        [OP_EXP] = N(exp),
        [OP_EXPM1] = N(expm1),
        [OP_FLOOR] = N(floor),
        [OP_IMAG] = N(imag),
        [OP_REAL] = N(copy),
        [OP_IS_FINITE] = N(is_finite),
        [OP_LOG] = N(log),
        [OP_LOG1P] = N(log1p),
        [OP_LOGISTIC] = N(logistic),
        [OP_NEGATE] = N(negate),
        [OP_ROUND_AFZ] = N(afz),
        [OP_ROUND_EVEN] = N(even),
        [OP_RSQRT] = N(rsqrt),
        [OP_SIGN] = N(sign),
        [OP_SINE] = N(sine),
        [OP_SQRT] = N(sqrt),
        [OP_TAN] = N(tan),
        [OP_TANH] = N(tanh),
        [OP_ADD] = N(add),
        [OP_SUBTRACT] = N(sub),
        [OP_MULTIPLY] = N(mul),
        [OP_DIVIDE] = N(divide),
        [OP_REMAINDER] = N(remainder),
        [OP_POWER] = N(power),
        [OP_ATAN2] = N(atan2),
        [OP_MAXIMUM] = N(max),
        [OP_MINIMUM] = N(min),
        [OP_COMPARE] = N(compare),
        [OP_CLAMP] = N(clamp),
        [OP_REDUCE_PRECISION] = N(reduce_precision),
    };
    return table[op];
}

static fold_fn N(find_fold)(enum op_kind op)
{
    static const fold_fn table[OP_COUNT] = {
        [OP_ADD] = N(fold_add),
        [OP_MULTIPLY] = N(fold_mul),
        [OP_MAXIMUM] = N(fold_max),
        [OP_MINIMUM] = N(fold_min),
    };
    return table[op];
}

static rows_fn N(find_rows)(enum op_kind op)
{
    static const rows_fn table[OP_COUNT] = {
        [OP_ADD] = N(rows_add),
        [OP_MULTIPLY] = N(rows_mul),
        [OP_MAXIMUM] = N(rows_max),
        [OP_MINIMUM] = N(rows_min),
    };
    return table[op];
}

#undef FOLD_ROWS
#undef FOLD_ROWS_PLAIN
#undef FOLD_FOUR
#undef TURNED
#undef UN
#undef BIN
#undef FOLD
#undef MAXV
#undef MINV
#undef T
#undef I
#undef K
#undef M
#undef V
#undef N
