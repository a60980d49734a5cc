/* Loops that only count: the value of their counter's sums and tests as functions of the counter, and
 * the number of turns in closed form. A loop of a billion turns costs no more than one of a hundred. */
#include "ir/eval.h"

__extension__ typedef __int128 wide;

static bool is_signed(enum dtype t)
{
    return dtype_kind(t) == DTYPE_KIND_SIGNED;
}

static bool known_integer(const struct value *v)
{
    return v->v && v->n == 1 && (is_signed(v->dtype) || dtype_kind(v->dtype) == DTYPE_KIND_UNSIGNED);
}

static enum affine_test test_of(const struct module *m, const struct instr *in, bool flipped)
{
    static const struct {
        const char *word;
        enum affine_test test, other_way;
    } ways[] = { { "EQ", TEST_EQ, TEST_EQ }, { "NE", TEST_NE, TEST_NE }, { "LT", TEST_LT, TEST_GT },
                 { "LE", TEST_LE, TEST_GE }, { "GT", TEST_GT, TEST_LT }, { "GE", TEST_GE, TEST_LE } };
    for (size_t k = 0; k < COUNTOF(ways); k++)
        if (instr_is(m, in, ATTR_DIRECTION, ways[k].word))
            return flipped ? ways[k].other_way : ways[k].test;
    return TEST_NONE;
}

bool affine_op(const struct module *m, instr_id i, enum dtype counter, const struct value *a,
               const struct value *b, struct value *out)
{
    const struct instr *in = instr_at(m, i);
    enum dtype t = shape_get(m->ir, in->shape)->dtype;
    if (a->test || b->test || instr_shape(m, i)->rank)
        return false;
    if (in->op == OP_CONVERT && a->affine) {
        /* Into a type that holds every value of the counter the same way. */
        if (is_signed(t) != is_signed(counter) || dtype_bits(t) < dtype_bits(counter) ||
            dtype_kind(t) == DTYPE_KIND_FLOAT)
            return false;
        *out = *a;
        out->dtype = t;
        return true;
    }
    bool flipped = b->affine;
    const struct value *x = flipped ? b : a, *k = flipped ? a : b;
    if (x->affine && known_integer(k) && in->op == OP_COMPARE) {
        *out = *x;
        out->dtype = DTYPE_PRED;
        out->test = test_of(m, in, flipped);
        out->limit = k->v[0].i;
        return out->test != TEST_NONE;
    }
    if (!x->affine || !known_integer(k) ||
        (in->op != OP_ADD && (in->op != OP_SUBTRACT || flipped)))
        return false;
    *out = *x;
    return in->op == OP_ADD ? add_ok(x->delta, k->v[0].i, &out->delta)
                            : !__builtin_sub_overflow(x->delta, k->v[0].i, &out->delta);
}

/* Smallest t >= 0 with x + t * d >= limit, for d > 0. */
static wide turns_up(wide x, wide d, wide limit)
{
    return x >= limit ? 0 : (limit - x + d - 1) / d;
}

static wide turns_of(wide x, wide d, enum affine_test test, wide limit)
{
    switch (test) {
    case TEST_LE: limit += 1; /* fallthrough */
    case TEST_LT: return x >= limit ? 0 : d > 0 ? turns_up(x, d, limit) : -1;
    case TEST_GE: limit -= 1; /* fallthrough */
    case TEST_GT: return x <= limit ? 0 : d < 0 ? turns_up(-x, -d, -limit) : -1;
    case TEST_NE:
        if (x == limit)
            return 0;
        return d && (limit - x) % d == 0 && (limit - x) / d > 0 ? (limit - x) / d : -1;
    case TEST_EQ: return x != limit ? 0 : d ? 1 : -1;
    case TEST_NONE: break;
    }
    return -1;
}

static bool in_range(enum dtype t, wide v)
{
    int bits = dtype_bits(t) - is_signed(t);
    wide top = ((wide)1 << bits) - 1, bottom = is_signed(t) ? -top - 1 : 0;
    return v >= bottom && v <= top && v <= INT64_MAX;
}

int64_t affine_trips(enum dtype counter, int64_t start, const struct value *step,
                     const struct value *test)
{
    if (!step->affine || step->test || !test->affine || !test->test)
        return -1;
    if (!is_signed(counter) && (start < 0 || test->limit < 0))
        return -1; /* beyond 2^63: not worth it */
    wide d = step->delta, t = turns_of((wide)start + test->delta, d, test->test, test->limit);
    if (t < 0 || t > INT64_MAX)
        return -1;
    /* Nothing on the way may wrap: the way is straight, so its ends tell. */
    wide end = start + t * d;
    if (!in_range(counter, end) || !in_range(counter, end + test->delta) ||
        !in_range(counter, (wide)start + test->delta))
        return -1;
    return (int64_t)t;
}
