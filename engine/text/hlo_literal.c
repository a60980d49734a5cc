/* HLO text: the value of a constant.
 *
 *     5   -inf   (1, -2)   {1, 2}   { { 1, 2 }, { 3, 4 } }   {...}   ( {1, 2}, 3 )
 *
 * The braces are followed with a counter for each dimension, tuples with a stack; the values go
 * row-major into one array. An array is made only when the text is long enough to fill it: the size
 * in the shape alone allocates nothing. */
#include "text/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_RANK = 64 };

/* ---- one element ----------------------------------------------------------------------------- */

static bool out_of_range(struct hlo *r, const char *at, size_t n, enum dtype t)
{
    return FAIL(r, at, n, "%.*s does not fit in %s", (int)min_i64((int64_t)n, 60), at,
                dtype_name(t));
}

static void put_int(enum dtype t, uint64_t v, void *out)
{
    switch (dtype_bytes(t)) {
    case 1: *(uint8_t *)out = (uint8_t)v; break;
    case 2: *(uint16_t *)out = (uint16_t)v; break;
    case 4: *(uint32_t *)out = (uint32_t)v; break;
    default: *(uint64_t *)out = v; break;
    }
}

static bool int_element(struct hlo *r, enum dtype t, void *out)
{
    const char *from = r->p;
    bool minus = *from == '-';
    const char *p = from + minus;
    uint64_t v = 0;
    bool fits = true;
    while (is_digit(*p)) {
        fits = fits && !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
        p++;
    }
    size_t n = (size_t)(p - from);
    if (n == (size_t)minus || is_word(*p))
        return hlo_expected(r, "a whole number");
    int bits = dtype_bits(t);
    uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (dtype_kind(t) == DTYPE_KIND_SIGNED)
        top = (top >> 1) + minus;
    else if (minus && v)
        fits = false;
    if (!fits || v > top)
        return out_of_range(r, from, n, t);
    put_int(t, minus ? 0 - v : v, out);
    r->p = p;
    return true;
}

static bool pred_element(struct hlo *r, void *out)
{
    bool b;
    const char *p = r->p + (*r->p == '-');
    size_t n = word_len(p), digits = 0;
    while (digits < n && is_digit(p[digits]))
        digits++;
    if (n && digits == n) { /* any number but 0 is true */
        *(uint8_t *)out = strspn(p, "0") < n;
        r->p = p + n;
        return true;
    }
    if (!hlo_bool(r, &b))
        return false;
    *(uint8_t *)out = b;
    return true;
}

/* nan, -nan, nan(0x7fc00001), inf, 1e-45, 0x1.8p+1 */
static bool number(struct hlo *r, enum dtype t, double *v)
{
    char *stop;
    const char *from = r->p;
    if (!is_digit(*from) && *from != '-' && *from != '+' && *from != '.' && *from != 'n' &&
        *from != 'i' && *from != 'N' && *from != 'I')
        return hlo_expected(r, "a number");
    /* Each type is rounded once from the text where the C library can. */
    *v = t == DTYPE_F32 || t == DTYPE_C64 ? (double)strtof_l(from, &stop, r->plain)
                                          : strtod_l(from, &stop, r->plain);
    if (stop == from || stop > r->end || is_word(*stop))
        return hlo_expected(r, "a number");
    r->p = stop;
    if (isinf(*v) && !memchr(from, 'i', (size_t)(stop - from)) && !memchr(from, 'I', (size_t)(stop - from)))
        return out_of_range(r, from, (size_t)(stop - from), t);
    return true;
}

static bool complex_element(struct hlo *r, enum dtype t, void *out)
{
    enum dtype part = t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
    double re, im = 0;
    if (*r->p == '(') {
        r->p++;
        skip(r);
        if (!number(r, t, &re) || !hlo_want(r, ',', "',' between real and imaginary part"))
            return false;
        skip(r);
        if (!number(r, t, &im) || !hlo_want(r, ')', "')' behind the imaginary part"))
            return false;
    } else if (!number(r, t, &re)) {
        return false;
    }
    float_store(part, re, out);
    float_store(part, im, (char *)out + dtype_bytes(part));
    return true;
}

static bool element(struct hlo *r, enum dtype t, void *out)
{
    double v;
    const char *from = r->p;
    switch (dtype_kind(t)) {
    case DTYPE_KIND_PRED: return pred_element(r, out);
    case DTYPE_KIND_SIGNED:
    case DTYPE_KIND_UNSIGNED: return int_element(r, t, out);
    case DTYPE_KIND_COMPLEX: return complex_element(r, t, out);
    case DTYPE_KIND_FLOAT:
        if (!number(r, t, &v))
            return false;
        float_store(t, v, out);
        if (isfinite(v) && !isfinite(float_load(t, out)))
            return out_of_range(r, from, (size_t)(r->p - from), t);
        return true;
    case DTYPE_KIND_NONE: break;
    }
    return FAIL(r, r->p, 1, "a constant cannot have this type");
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static bool elided(struct hlo *r)
{
    const char *p = r->p;
    if (*p == '{') {
        p++;
        while (*p == ' ')
            p++;
    }
    if (p[0] != '.' || p[1] != '.' || p[2] != '.')
        return false;
    p += 3;
    if (*r->p == '{') {
        while (*p == ' ')
            p++;
        if (*p != '}')
            return false;
        p++;
    }
    r->p = p;
    return true;
}

static bool wrong_count(struct hlo *r, const struct shape *s, int d, int64_t got)
{
    return FAIL(r, r->p, 1,
                "dimension %d of this constant has %" PRId64 " element%s here, "
                "its shape says %" PRId64,
                d, got, got == 1 ? "" : "s", s->dims[d]);
}

/* Walks the braces: at[d] counts what was read at depth d. Text is at least as long as the elements
 * are many, so `room` elements were allocated when count <= room. */
static bool array_values(struct hlo *r, const struct shape *s, char *data, int64_t room)
{
    int64_t at[MAX_RANK];
    int depth = 0;
    int64_t n = 0;
    int size = dtype_bytes(s->dtype);
    bool comma = false; /* one value of this depth was read, and a comma must come first */
    do {
        skip(r);
        if (depth > 0 && *r->p == '}') {
            if (at[depth - 1] != s->dims[depth - 1])
                return wrong_count(r, s, depth - 1, at[depth - 1]);
            r->p++;
            depth--;
            comma = true;
            if (depth > 0)
                at[depth - 1]++;
            continue;
        }
        if (comma) {
            if (depth == 0)
                break;
            if (!hlo_want(r, ',', "',' or '}' in the constant"))
                return false;
            skip(r);
            comma = false;
        }
        if (depth > 0 && at[depth - 1] >= s->dims[depth - 1])
            return wrong_count(r, s, depth - 1, at[depth - 1] + 1);
        if (depth < s->rank) {
            if (*r->p != '{')
                return hlo_expected(r, "'{': the constant has fewer braces than dimensions");
            r->p++;
            at[depth++] = 0;
            continue;
        }
        if (n >= room)
            return FAIL(r, r->p, 1, "the constant has more elements than its shape");
        if (!element(r, s->dtype, data + n * size))
            return false;
        n++;
        comma = true;
        if (depth > 0)
            at[depth - 1]++;
    } while (depth > 0);
    return true;
}

static struct literal *new_literal(struct hlo *r, shape_id shape)
{
    struct literal *l = ARENA_NEW(&r->m->arena, struct literal);
    l->shape = shape_strip(r->c, shape);
    return l;
}

static bool read_array(struct hlo *r, shape_id shape, struct literal *l)
{
    const struct shape *s = shape_get(r->c, shape);
    if (elided(r)) {
        l->elided = true;
        return true;
    }
    if (s->count < 0)
        return FAIL(r, r->p, 1, "the constant is too large");
    /* An element takes at least one byte of text and its comma another. */
    int64_t most = (r->end - r->p + 1) / 2 + 1;
    int64_t room = min_i64(s->count, most);
    char *data = arena_alloc(&r->m->arena, room, (size_t)dtype_bytes(s->dtype));
    if (!array_values(r, s, data, room))
        return false;
    l->data = data;
    return true;
}

/* ---- tuples ---------------------------------------------------------------------------------- */

struct level {
    struct literal *l;
    const struct literal **elems;
    const struct shape *shape;
    int64_t n;
};

/* A shape in front of a value, as older printers wrote it: it must be the one that is expected. */
static bool skip_shape_prefix(struct hlo *r)
{
    size_t n = word_len(r->p);
    shape_id ignored;
    if (n == 0 || r->p[n] != '[')
        return true;
    if (!hlo_shape(r, &ignored))
        return false;
    skip(r);
    return true;
}

static struct level open_tuple(struct hlo *r, shape_id shape)
{
    struct level v = { .l = new_literal(r, shape), .shape = shape_get(r->c, shape) };
    v.l->nelems = v.shape->nelems;
    v.elems = arena_alloc(&r->m->arena, v.shape->nelems, sizeof *v.elems);
    v.l->elems = v.elems;
    return v;
}

static bool read_tuple(struct hlo *r, shape_id shape, struct literal **out)
{
    VEC(struct level) stack = { 0 };
    if (!hlo_want(r, '(', "'(', where a tuple's elements begin"))
        return false;
    vec_push(&r->tmp, &stack, open_tuple(r, shape));
    *out = stack.v[0].l;
    for (;;) {
        struct level *top = &stack.v[stack.n - 1];
        skip(r);
        if (top->n == top->shape->nelems) {
            if (!hlo_want(r, ')', "')' behind the tuple's last element"))
                return false;
            if (--stack.n == 0)
                return true;
            continue;
        }
        if (top->n > 0 && !hlo_want(r, ',', "',' between the tuple's elements"))
            return false;
        skip(r);
        shape_id es = top->shape->elems[top->n];
        const struct shape *s = shape_get(r->c, es);
        if (s->kind == SHAPE_TUPLE) {
            if (!hlo_want(r, '(', "'(', where a tuple's elements begin"))
                return false;
            struct level inner = open_tuple(r, es);
            top->elems[top->n++] = inner.l;
            vec_push(&r->tmp, &stack, inner);
            continue;
        }
        if (s->kind != SHAPE_ARRAY)
            return FAIL(r, r->p, 1, "a constant cannot have this type");
        struct literal *l = new_literal(r, es);
        top->elems[top->n++] = l;
        if (!skip_shape_prefix(r) || !read_array(r, es, l))
            return false;
    }
}

/* Short constants repeat: `f32[] constant(0)`. The end of one at p; NULL: it is long, or not plain. */
static const char *short_end(const char *p)
{
    const char *q = p;
    while ((is_word(*q) || *q == '+') && q - p < 24)
        q++;
    return *q == ')' && q > p ? q : NULL;
}

bool hlo_literal(struct hlo *r, shape_id shape, const struct literal **out)
{
    const char *from = r->p, *stop = short_end(from);
    struct cached *e = NULL;
    bool hit = false;
    if (stop) {
        e = hlo_cached(r->literals, VALUE_CACHE, from, (size_t)(stop - from), &hit);
        hit = hit && e->id == shape.i;
        if (hit) {
            *out = e->value;
            r->p = stop;
            return true;
        }
        e->text = NULL;
    }
    const struct shape *s = shape_get(r->c, shape);
    struct literal *l;
    if (s->kind == SHAPE_TUPLE) {
        if (elided(r)) {
            l = new_literal(r, shape);
            l->elided = true;
        } else if (!read_tuple(r, shape, &l)) {
            return false;
        }
    } else if (s->kind == SHAPE_ARRAY) {
        l = new_literal(r, shape);
        if (!skip_shape_prefix(r) || !read_array(r, shape, l))
            return false;
    } else {
        return FAIL(r, from, 1, "a constant cannot be a token or opaque");
    }
    l->text = from;
    l->len = (uint32_t)(r->p - from);
    *out = l;
    if (e && r->p == stop) {
        e->text = from;
        e->id = shape.i;
        e->value = l;
    }
    return true;
}
