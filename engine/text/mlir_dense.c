/* Constants of StableHLO text: dense<..> with lists, splats, hexadecimal bits, blobs; elided ones.
 * Every constant of a function exists once, as after XLA's importer. */
#include "text/mlir.h"

#include <stdlib.h>

/* ---- numbers to bytes -------------------------------------------------------------------------- */

void mstore(enum dtype t, double f, int64_t n, void *out)
{
    switch (dtype_kind(t)) {
    case DTYPE_KIND_FLOAT: float_store(t, f, out); return;
    case DTYPE_KIND_COMPLEX:
        if (t == DTYPE_C64) {
            float v[2] = { (float)f, 0 };
            memcpy(out, v, sizeof v);
        } else {
            double v[2] = { f, 0 };
            memcpy(out, v, sizeof v);
        }
        return;
    case DTYPE_KIND_PRED: *(uint8_t *)out = n != 0; return;
    case DTYPE_KIND_SIGNED:
    case DTYPE_KIND_UNSIGNED: {
        /* Narrower than a byte: sign-extended in a byte of its own. */
        int bits = dtype_bits(t);
        if (bits < 8) {
            uint64_t low = (uint64_t)n & ((1u << bits) - 1);
            if (dtype_kind(t) == DTYPE_KIND_SIGNED && low >> (bits - 1))
                low |= ~(uint64_t)0 << bits;
            n = (int64_t)low;
        }
        memcpy(out, &n, (size_t)dtype_bytes(t)); /* little-endian hosts */
        return;
    }
    case DTYPE_KIND_NONE: return;
    }
}

bool mconst_get(const struct mlir *r, const struct mconst *k, int64_t i, double *f, int64_t *n)
{
    const struct shape *s = shape_get(r->c, k->shape);
    if (k->elided || s->kind != SHAPE_ARRAY || !k->data)
        return false;
    const char *p = (const char *)k->data + (k->splat ? 0 : i * dtype_bytes(s->dtype));
    uint64_t u = 0;
    memcpy(&u, p, (size_t)dtype_bytes(s->dtype) < 8 ? (size_t)dtype_bytes(s->dtype) : 8);
    int bits = dtype_bytes(s->dtype) * 8;
    switch (dtype_kind(s->dtype)) {
    case DTYPE_KIND_FLOAT:
        *f = float_load(s->dtype, p);
        *n = *f >= -9e18 && *f <= 9e18 ? (int64_t)*f : 0;
        return true;
    case DTYPE_KIND_SIGNED:
        if (bits < 64 && u >> (bits - 1) & 1)
            u |= ~(uint64_t)0 << bits;
        *n = (int64_t)u;
        *f = (double)*n;
        return true;
    case DTYPE_KIND_PRED:
    case DTYPE_KIND_UNSIGNED:
        *n = (int64_t)u;
        *f = (double)u;
        return true;
    case DTYPE_KIND_COMPLEX:
    case DTYPE_KIND_NONE: break;
    }
    return false;
}

/* ---- the table --------------------------------------------------------------------------------- */

uint32_t mconst_value(struct mlir *r, shape_id shape, bool splat, const void *data, bool elided)
{
    const struct shape *s = shape_get(r->c, shape);
    size_t size = elided ? 0 : (size_t)dtype_bytes(s->dtype) * (size_t)(splat ? 1 : s->count);
    uint64_t key = hash_bytes(data ? data : "", size, hash_u64(shape.i * 2u + splat)), at;
    uint32_t v = 0;
    if (!elided && map_get(&r->constants, key, &at)) {
        const struct mconst *k = mcst(r, mval(r, (uint32_t)at));
        if (k->shape.i == shape.i && k->splat == splat && !k->elided && memcmp(k->data, data, size) == 0)
            return (uint32_t)at;
    }
    struct mconst *k = ARENA_NEW(&r->tmp, struct mconst);
    k->shape = shape;
    k->splat = splat;
    k->elided = elided;
    k->data = size ? arena_copy(&r->tmp, data, (int64_t)size, 1) : NULL;
    v = mlir_value_new(r, NULL, NULL, shape);
    k->value = v;
    mval(r, v)->by = (uint32_t)r->consts.n;
    vec_push(&r->tmp, &r->consts, k);
    mval(r, v)->is_cst = true;
    if (!elided)
        map_put(&r->constants, key, v);
    return v;
}

uint32_t mconst_like(struct mlir *r, shape_id shape, double v)
{
    char buf[16] = { 0 };
    mstore(shape_get(r->c, shape)->dtype, v, (int64_t)v, buf);
    return mconst_value(r, shape, true, buf, false);
}

uint32_t mconst_scalar(struct mlir *r, enum dtype t, double v)
{
    return mconst_like(r, shape_array(r->c, t, 0, NULL), v);
}

/* ---- text -------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One number at *pp: 1.5e-3, -4, true, 0x7FC00000 (the bits of a float). */
bool mconst_number(struct mlir *r, const char **pp, const char *end, enum dtype t, void *out)
{
    const char *p = *pp;
    size_t w = mword(p);
    if (mtext(p, w, "true") || mtext(p, w, "false")) {
        mstore(t, w == 4, w == 4, out);
        *pp = p + w;
        return true;
    }
    bool minus = *p == '-';
    const char *q = p + minus;
    if (q[0] == '0' && (q[1] == 'x' || q[1] == 'X')) {
        uint64_t bits = 0;
        int digits = 0;
        for (q += 2; hex_digit(*q) >= 0; q++, digits++)
            bits = bits << 4 | (uint64_t)hex_digit(*q);
        if (digits == 0 || digits > 16)
            return MFAIL(r, p, (size_t)(q - p), "this is no hexadecimal number");
        if (minus)
            bits = 0 - bits;
        memcpy(out, &bits, (size_t)dtype_bytes(t) < 8 ? (size_t)dtype_bytes(t) : 8);
        *pp = q;
        return true;
    }
    int64_t n = 0;
    size_t used = parse_i64(p, (size_t)(end - p), &n);
    char next = used ? p[used] : '\0';
    if (used && next != '.' && next != 'e' && next != 'E' && dtype_kind(t) != DTYPE_KIND_FLOAT) {
        int bits = dtype_kind(t) == DTYPE_KIND_COMPLEX ? 64 : dtype_bits(t);
        int64_t low = dtype_kind(t) == DTYPE_KIND_SIGNED && bits < 64 ? -((int64_t)1 << (bits - 1)) : 0;
        /* i8 has no sign: 255 is as good as -1 */
        if (bits < 64 ? n < low || n >= (int64_t)1 << bits : dtype_kind(t) == DTYPE_KIND_UNSIGNED && n < 0)
            return MFAIL(r, p, used, "%.*s does not fit in %s", (int)used, p, dtype_name(t));
        mstore(t, (double)n, n, out);
        *pp = p + used;
        return true;
    }
    if (!used && mis(*q, MC_DIGIT) && dtype_bytes(t) == 8 && !minus) { /* above 2^63 */
        uint64_t u = 0;
        const char *k = q;
        for (; mis(*k, MC_DIGIT); k++)
            if (__builtin_mul_overflow(u, (uint64_t)10, &u) ||
                __builtin_add_overflow(u, (uint64_t)(*k - '0'), &u))
                return MFAIL(r, p, mword(p), "this number does not fit its type");
        memcpy(out, &u, 8);
        *pp = k;
        return true;
    }
    /* Copied: strtod must not run on, and the text may be huge. */
    char buf[128];
    size_t k = 0;
    const char *s = p;
    while (s < end && k + 1 < sizeof buf &&
           (mis(*s, MC_DIGIT) || *s == '-' || *s == '+' || *s == '.' || *s == 'e' || *s == 'E'))
        buf[k++] = *s++;
    buf[k] = '\0';
    char *stop = buf;
    /* The shell never sets LC_NUMERIC, so the decimal point is a point. */
    double f = t == DTYPE_F32 ? (double)strtof(buf, &stop) : strtod(buf, &stop);
    if (stop == buf)
        return MFAIL(r, p, w, "expected a number");
    if (dtype_kind(t) != DTYPE_KIND_FLOAT && dtype_kind(t) != DTYPE_KIND_COMPLEX)
        return MFAIL(r, p, k, "a fraction in a constant of whole numbers");
    mstore(t, f, (int64_t)0, out);
    *pp = p + (stop - buf);
    return true;
}

bool mconst_complex(struct mlir *r, const char **pp, const char *end, enum dtype t, void *out)
{
    enum dtype part = t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
    const char *p = *pp + 1;
    for (int k = 0; k < 2; k++) {
        while (p < end && (mis(*p, MC_SPACE) || *p == ','))
            p++;
        if (!mconst_number(r, &p, end, part, (char *)out + k * dtype_bytes(part)))
            return false;
    }
    while (p < end && mis(*p, MC_SPACE))
        p++;
    if (p >= end || *p != ')')
        return MFAIL(r, p, 1, "expected ')' behind a complex number");
    *pp = p + 1;
    return true;
}

/* [[1, 2], [3, 4]]: the brackets must follow the shape. */
static bool element_list(struct mlir *r, const char *p, const char *end, const struct shape *s, char *out)
{
    int64_t n = 0, size = dtype_bytes(s->dtype);
    int depth = 0;
    int64_t counts[64] = { 0 };
    while (p < end) {
        char c = *p;
        if (mis(c, MC_SPACE) || c == ',') {
            p++;
        } else if (c == '[') {
            if (depth >= s->rank)
                return MFAIL(r, p, 1, "this constant is nested deeper than its shape");
            counts[depth++] = 0;
            p++;
        } else if (c == ']') {
            if (depth == 0)
                return MFAIL(r, p, 1, "unexpected ']'");
            depth--;
            if (counts[depth] != s->dims[depth])
                return MFAIL(r, p, 1, "%" PRId64 " elements here, %" PRId64 " expected", counts[depth],
                             s->dims[depth]);
            if (depth)
                counts[depth - 1]++;
            p++;
        } else {
            if (depth != s->rank || n >= s->count)
                return MFAIL(r, p, 1, "this constant does not have the elements of its shape");
            bool ok = c == '(' ? mconst_complex(r, &p, end, s->dtype, out + n * size)
                               : mconst_number(r, &p, end, s->dtype, out + n * size);
            if (!ok)
                return false;
            n++;
            counts[depth - 1]++;
        }
    }
    if (n != s->count)
        return MFAIL(r, end - 1, 1, "%" PRId64 " elements, %" PRId64 " expected", n, s->count);
    return true;
}

/* "0x0000C03F": bytes in little-endian order; one element's worth is a splat. */
static bool blob(struct mlir *r, const char *p, const char *end, shape_id shape, uint32_t *out)
{
    const struct shape *s = shape_get(r->c, shape);
    const char *at = p;
    p++;
    end--;
    if (end - p < 2 || p[0] != '0' || p[1] != 'x' || (end - p) % 2)
        return MFAIL(r, at, (size_t)(end - at), "expected hexadecimal bytes, like \"0x0000C03F\"");
    p += 2;
    int64_t n = (end - p) / 2, size = dtype_bytes(s->dtype);
    uint8_t *bytes = ARENA_ARRAY(&r->tmp, uint8_t, n + 16);
    for (int64_t i = 0; i < n; i++) {
        int hi = hex_digit(p[2 * i]), lo = hex_digit(p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return MFAIL(r, p + 2 * i, 2, "this is no hexadecimal byte");
        bytes[i] = (uint8_t)(hi << 4 | lo);
    }
    if (s->dtype == DTYPE_PRED && n == 1) { /* all true, all false, or up to eight packed */
        uint8_t one = bytes[0] != 0;
        if (bytes[0] == 0 || bytes[0] == 0xff || s->count == 1) {
            *out = mconst_value(r, shape, true, &one, false);
            return true;
        }
    }
    if (s->dtype == DTYPE_PRED && n != s->count && n == (s->count + 7) / 8) {
        uint8_t *wide = ARENA_ARRAY(&r->tmp, uint8_t, s->count + 1);
        for (int64_t i = 0; i < s->count; i++)
            wide[i] = bytes[i / 8] >> (i % 8) & 1;
        *out = mconst_value(r, shape, false, wide, false);
        return true;
    }
    if (n == size) {
        *out = mconst_value(r, shape, true, bytes, false);
        return true;
    }
    int64_t want;
    if (!mul_ok(size, s->count, &want) || want != n)
        return MFAIL(r, at, (size_t)(end - at + 1), "%" PRId64 " bytes for %s: %" PRId64 " elements of %" PRId64 " bytes each",
                     n, mtype_text(r, shape), s->count, size);
    *out = mconst_value(r, shape, false, bytes, false);
    return true;
}

static bool same_elements(const char *data, int64_t n, int64_t size)
{
    for (int64_t i = 1; i < n; i++)
        if (memcmp(data, data + i * size, (size_t)size) != 0)
            return false;
    return true;
}

static bool read_dense(struct mlir *r, const char *p, const char *end, shape_id shape, uint32_t *out)
{
    const struct shape *s = shape_get(r->c, shape);
    if (s->kind != SHAPE_ARRAY)
        return MFAIL(r, p, 1, "a constant must be an array");
    if (s->count < 0 || s->bytes < 0)
        return MFAIL(r, p, 1, "this constant's shape is too large");
    while (p < end && mis(*p, MC_SPACE))
        p++;
    while (end > p && mis(end[-1], MC_SPACE))
        end--;
    if (p == end) {
        if (s->count != 0)
            return MFAIL(r, p, 1, "a constant without elements");
        *out = mconst_value(r, shape, false, "", false);
        return true;
    }
    if ((!mis(*p, MC_DIGIT) && *p != '-' && *p != '[' && memmem(p, (size_t)(end - p), "__elided__", 10)) || (end - p == 3 && memcmp(p, "...", 3) == 0)) {
        *out = mconst_value(r, shape, false, NULL, true);
        return true;
    }
    if (*p == '"')
        return blob(r, p, end, shape, out);
    char one[16] = { 0 };
    if (*p != '[') {
        const char *q = p;
        bool ok = *p == '(' ? mconst_complex(r, &q, end, s->dtype, one) : mconst_number(r, &q, end, s->dtype, one);
        if (!ok)
            return false;
        if (q != end)
            return MFAIL(r, q, 1, "unexpected text in a constant");
        *out = mconst_value(r, shape, true, one, false);
        return true;
    }
    /* An element takes at least two bytes of text: no shape larger than the text is believed. */
    if (s->count > end - p)
        return MFAIL(r, p, (size_t)(end - p), "this constant has fewer elements than its shape, %s (%" PRId64 ")",
                     mtype_text(r, shape), s->count);
    int64_t size = dtype_bytes(s->dtype);
    char *data = ARENA_ARRAY(&r->tmp, char, s->count * size + 16);
    if (!element_list(r, p, end, s, data))
        return false;
    bool splat = s->count > 0 && same_elements(data, s->count, size);
    *out = mconst_value(r, shape, splat, data, false);
    return true;
}

/* Short constants come again and again: each is read once in a function. */
static struct constant_text *text_slot(struct mlir *r, const struct mattr *a, shape_id shape)
{
    return &r->constant_texts[hash_bytes(a->val, a->vlen, shape.i) & (NCONSTANT_TEXTS - 1)];
}

static bool read_before(const struct mlir *r, const struct constant_text *t, const struct mattr *a, shape_id shape)
{
    return t->text && t->func == r->func && t->shape.i == shape.i && t->len == a->vlen &&
           memcmp(t->text, a->val, a->vlen) == 0;
}

static bool constant_value(struct mlir *r, const struct mattr *a, shape_id shape, uint32_t *v);

bool mlir_constant(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr2(op, "value", "");
    if (op->nresults != 1)
        return MFAIL(r, op->at, op->nat, "a constant has one result");
    if (!a || !a->val)
        return MFAIL(r, op->at, op->nat, "this constant has no value");
    shape_id shape = mval(r, op->result)->shape;
    uint32_t v;
    struct constant_text *t = a->vlen <= 64 ? text_slot(r, a, shape) : NULL;
    if (t && read_before(r, t, a, shape))
        v = t->value;
    else if (!constant_value(r, a, shape, &v))
        return false;
    if (t && !mcst(r, mval(r, v))->elided) /* of those each is one of its own */
        *t = (struct constant_text){ a->val, a->vlen, r->func, v, shape };
    mset_alias(r, op->result, v);
    struct mval *k = mval(r, v);
    if (!k->nname) { /* `%cst_0`: what the instruction is called */
        k->name = mval(r, op->result)->name;
        k->nname = mval(r, op->result)->nname;
    }
    return true;
}

static bool constant_value(struct mlir *r, const struct mattr *a, shape_id shape, uint32_t *v)
{
    const char *p = a->val, *end = p + a->vlen;
    if (*p == '#') {
        const struct malias *al = mlir_alias(r, p, 1 + mword(p + 1));
        if (al) {
            p = al->text;
            end = p + al->ntext;
        }
    }
    size_t w = mword(p);
    if (mtext(p, w, "dense_resource")) {
        *v = mconst_value(r, shape, false, NULL, true);
    } else if (mtext(p, w, "dense") && p[w] == '<') {
        const char *close = mbalanced(p + w, end);
        if (!close)
            return MFAIL(r, p, w, "this constant is never closed");
        return read_dense(r, p + w + 1, close - 1, shape, v);
    } else if (mtext(p, w, "sparse") && p[w] == '<') {
        const char *close = mbalanced(p + w, end);
        if (!close)
            return MFAIL(r, p, w, "this constant is never closed");
        return mlir_sparse(r, p + w + 1, close - 1, shape, v);
    } else if (mis(*p, MC_DIGIT) || *p == '-' || mtext(p, w, "true") || mtext(p, w, "false")) {
        const char *q = p;
        while (q < end && !mis(*q, MC_SPACE) && *q != ':')
            q++;
        return read_dense(r, p, q, shape, v);
    } else {
        return MFAIL(r, p, w, "expected dense<...> or sparse<...>");
    }
    return true;
}
