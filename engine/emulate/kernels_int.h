/* Integer kernels of one width: included once a type with T, U (unsigned of that width), SIGNED and
 * N(name) defined. Arithmetic is done unsigned, so that it wraps. Widths below 8 bits share the
 * 8-bit kernels; their results are cut afterwards (ew.c). */

static inline U N(mask)(const struct ew *e)
{
    int w = dtype_bits(e->in.t);
    return (U)(w >= (int)(8 * sizeof(U)) ? (U)-1 : (U)((U)1 << w) - 1);
}

#define UN(name, expr)                                                                   \
    static void N(name)(const struct ew *e, void *out, const void *const *in, int64_t n) \
    {                                                                                    \
        (void)e;                                                                         \
        T *r = out;                                                                      \
        const T *a = in[0];                                                              \
        SAME_PLACE                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                \
            T x = a[i];                                                                  \
            r[i] = (T)(expr);                                                            \
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
            r[i] = (T)(expr);                                                            \
        }                                                                                \
    }
#define FOLD(name, expr)                                                                     \
    static void N(fold_##name)(void *acc, int64_t sa, const void *xs, int64_t sx, int64_t n) \
    {                                                                                        \
        T *r = acc;                                                                          \
        const T *a = xs;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                    \
            T x = r[i * sa], y = a[i * sx];                                                  \
            r[i * sa] = (T)(expr);                                                           \
        }                                                                                    \
    }

/* Products of 16-bit types would be computed in int and overflow: widen to 64 bits, unsigned. */
#define W(x) ((uint64_t)(x))

static T N(div)(T x, T y)
{
    if (y == 0)
        return (T)-1;
#if SIGNED
    if (y == (T)-1)
        return (T)(0 - W(x));
#endif
    return (T)(x / y);
}

static T N(rem)(T x, T y)
{
    if (y == 0)
        return x;
#if SIGNED
    if (y == (T)-1)
        return 0;
#endif
    return (T)(x % y);
}

/* As XLA's CPU has it: a negative exponent (an unsigned one with its top bit set counts as such)
 * gives 0 for any base but 1, and only 6 bits of the exponent count. */
static T N(pow)(T x, T y)
{
    if (W(y) >> (8 * sizeof(T) - 1) & 1)
        return x == 1;
    uint64_t r = 1, b = W(x), k = W(y) & 63;
    for (; k; k >>= 1, b *= b)
        if (k & 1)
            r *= b;
    return (T)r;
}

#if SIGNED
UN(abs, x < 0 ? 0 - W(x) : W(x))
UN(sign, (x > 0) - (x < 0))
#else
UN(abs, x)
UN(sign, x > 0)
#endif
UN(negate, 0 - W(x))
UN(not, ~W(x))
BIN(add, W(x) + W(y))
BIN(sub, W(x) - W(y))
BIN(mul, W(x) * W(y))
BIN(divide, N(div)(x, y))
BIN(remainder, N(rem)(x, y))
BIN(power, N(pow)(x, y))
BIN(max, x >= y ? x : y)
BIN(min, x <= y ? x : y)
BIN(and, W(x) & W(y))
BIN(or, W(x) | W(y))
BIN(xor, W(x) ^ W(y))
FOLD(add, W(x) + W(y))
FOLD(mul, W(x) * W(y))
FOLD(max, x >= y ? x : y)
FOLD(min, x <= y ? x : y)
FOLD(and, W(x) & W(y))
FOLD(or, W(x) | W(y))
FOLD(xor, W(x) ^ W(y))

static void N(popcnt)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    U mask = N(mask)(e);
    for (int64_t i = 0; i < n; i++)
        ((T *)out)[i] = (T)__builtin_popcountll(W(((const U *)in[0])[i] & mask));
}

static void N(clz)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    U mask = N(mask)(e);
    int w = dtype_bits(e->in.t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = W(((const U *)in[0])[i] & mask);
        ((T *)out)[i] = (T)(v ? w - 64 + __builtin_clzll(v) : w);
    }
}

/* A shift by the width or more (a negative amount is a large one) leaves zeros, or the sign. */
static void N(shl)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    U mask = N(mask)(e), w = (U)dtype_bits(e->in.t);
    const U *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++) {
        U s = (U)(b[i] & mask);
        ((U *)out)[i] = (U)(s >= w ? 0 : W(a[i]) << s);
    }
}

static void N(shrl)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    U mask = N(mask)(e), w = (U)dtype_bits(e->in.t);
    const U *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++) {
        U s = (U)(b[i] & mask);
        ((U *)out)[i] = (U)(s >= w ? 0 : W(a[i] & mask) >> s);
    }
}

static void N(shra)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    U mask = N(mask)(e);
    int w = dtype_bits(e->in.t), up = 64 - w;
    const U *a = in[0], *b = in[1];
    for (int64_t i = 0; i < n; i++) {
        U s = (U)(b[i] & mask);
        int64_t wide = (int64_t)(W(a[i]) << up) >> up; /* the sign bit of the real width */
        ((T *)out)[i] = (T)(wide >> (s >= (U)w ? w - 1 : (int)s));
    }
}

static void N(compare)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const T *a = in[0], *b = in[1];
    uint8_t *r = out;
#define EACH(op)                    \
    for (int64_t i = 0; i < n; i++) \
        r[i] = a[i] op b[i];        \
    return
    switch (e->a & 7) {
    case DIR_EQ: EACH(==);
    case DIR_NE: EACH(!=);
    case DIR_LT: EACH(<);
    case DIR_LE: EACH(<=);
    case DIR_GT: EACH(>);
    case DIR_GE: EACH(>=);
    }
#undef EACH
}

static void N(clamp)(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    (void)e;
    const T *lo = in[0], *x = in[1], *hi = in[2];
    T *r = out;
    for (int64_t i = 0; i < n; i++) {
        T v = x[i] >= lo[i] ? x[i] : lo[i];
        r[i] = v <= hi[i] ? v : hi[i];
    }
}

static ew_fn N(find)(enum op_kind op)
{
    static const ew_fn table[OP_COUNT] = {
        [OP_ABS] = N(abs),
        [OP_SIGN] = N(sign),
        [OP_NEGATE] = N(negate),
        [OP_NOT] = N(not ),
        [OP_POPCNT] = N(popcnt),
        [OP_CLZ] = N(clz),
        [OP_ADD] = N(add),
        [OP_SUBTRACT] = N(sub),
        [OP_MULTIPLY] = N(mul),
        [OP_DIVIDE] = N(divide),
        [OP_REMAINDER] = N(remainder),
        [OP_POWER] = N(power),
        [OP_MAXIMUM] = N(max),
        [OP_MINIMUM] = N(min),
        [OP_AND] = N(and),
        [OP_OR] = N(or),
        [OP_XOR] = N(xor),
        [OP_SHIFT_LEFT] = N(shl),
        [OP_SHIFT_RIGHT_L] = N(shrl),
        [OP_SHIFT_RIGHT_A] = N(shra),
        [OP_COMPARE] = N(compare),
        [OP_CLAMP] = N(clamp),
    };
    return table[op];
}

static fold_fn N(find_fold)(enum op_kind op)
{
    static const fold_fn table[OP_COUNT] = {
        [OP_ADD] = N(fold_add),     [OP_MULTIPLY] = N(fold_mul), [OP_MAXIMUM] = N(fold_max),
        [OP_MINIMUM] = N(fold_min), [OP_AND] = N(fold_and),      [OP_OR] = N(fold_or),
        [OP_XOR] = N(fold_xor),
    };
    return table[op];
}

#undef UN
#undef BIN
#undef FOLD
#undef W
#undef T
#undef U
#undef SIGNED
#undef N
