/* Values of attributes of StableHLO text: an attribute is kept as text and read when its operation
 * is made. Lists of numbers have four spellings. */
#include "text/mlir.h"

const struct mattr *mattr_n(const struct mop *op, const char *key, size_t n)
{
    for (uint32_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].klen == n && op->attrs[i].key[0] != '%' && memcmp(op->attrs[i].key, key, n) == 0)
            return &op->attrs[i];
    return NULL;
}

static const char *blanks(const char *p, const char *end)
{
    while (p < end && mis(*p, MC_SPACE))
        p++;
    return p;
}

/* One `key = value` of a dictionary, with or without its braces. */
bool mdict_next(const char **pp, const char *end, struct mattr *out)
{
    const char *p = *pp;
    while (p < end && (mis(*p, MC_SPACE) || *p == ',' || *p == '{' || *p == '}'))
        p++;
    if (p >= end)
        return false;
    *out = (struct mattr){ 0 };
    if (*p == '"') {
        const char *q = mbalanced(p, end);
        if (!q)
            return false;
        out->key = p + 1;
        out->klen = (uint32_t)(q - p - 2);
        p = q;
    } else {
        out->key = p;
        while (p < end && mis(*p, MC_WORD))
            p++;
        out->klen = (uint32_t)(p - out->key);
        if (!out->klen)
            return false;
    }
    p = blanks(p, end);
    if (p < end && *p == '=') {
        p = blanks(p + 1, end);
        const char *from = p, *stop = p;
        while (p < end && *p != ',' && *p != '}') {
            if (*p == '"' || *p == '[' || *p == '{' || *p == '(' || *p == '<') {
                const char *q = mbalanced(p, end);
                if (!q)
                    return false;
                p = stop = q;
            } else {
                bool space = mis(*p, MC_SPACE);
                p++;
                if (!space)
                    stop = p;
            }
        }
        out->val = from;
        out->vlen = (uint32_t)(stop - from);
    }
    *pp = p;
    return true;
}

bool mdict_find(const char *text, uint32_t len, const char *key, struct mattr *out)
{
    const char *p = text, *end = text + len;
    while (text && mdict_next(&p, end, out))
        if (mtext(out->key, out->klen, key))
            return true;
    return false;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

/* [1, 0], array<i64: 1, 0>, dense<[[1, 0]]> : tensor<1x2xi64>, dense<0> : tensor<2xi64>, 3 : i64 */
/* dense<"0x0100..."> : tensor<4x2xi64>: little-endian, as wide as the type says. */
static bool blob_ints(struct mlir *r, const struct mattr *a, const char *p, const char *end)
{
    const char *stop = a->val + a->vlen, *type = memmem(end, (size_t)(stop - end), "xi", 2);
    int64_t width = 64, digits = 0;
    if (type && !parse_i64(type + 2, (size_t)(stop - type - 2), &width))
        width = 64;
    if (width != 8 && width != 16 && width != 32 && width != 64)
        return MFAIL(r, a->val, a->vlen, "expected a list of whole numbers");
    uint64_t v = 0;
    for (p += 3; p < end && *p != '"'; p++) {
        int h = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
              : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
        if (h < 0)
            return MFAIL(r, p, 1, "this is no hexadecimal digit");
        int64_t nibble = digits ^ 1; /* the high one of a byte comes first */
        v |= (uint64_t)h << (4 * nibble);
        if (++digits == width / 4) {
            int64_t one = width == 64 ? (int64_t)v : width == 32 ? (int32_t)v : width == 16 ? (int16_t)v : (int8_t)v;
            vec_push(&r->tmp, &r->ints, one);
            v = 0;
            digits = 0;
        }
    }
    return true;
}

bool mints(struct mlir *r, const struct mattr *a, int64_t n)
{
    r->ints.n = 0;
    if (!a || !a->val)
        return true;
    const char *p = a->val, *end = p + a->vlen;
    bool dense = strncmp(p, "dense<", 6) == 0;
    if (strncmp(p, "array<", 6) == 0) {
        const char *close = memchr(p, '>', (size_t)(end - p));
        end = close ? close : end;
        while (p < end && *p != ':')
            p++;
    } else if (dense) {
        const char *close = mbalanced(p + 5, end);
        end = close ? close - 1 : end;
        p += 6;
        if (end - p > 4 && memcmp(p, "\"0x", 3) == 0)
            return blob_ints(r, a, p, end);
    }
    bool list = false;
    int depth = 0;
    while (p < end) {
        if (mis(*p, MC_DIGIT) || (*p == '-' && p + 1 < end && mis(p[1], MC_DIGIT))) {
            int64_t v;
            size_t used = parse_i64(p, (size_t)(end - p), &v);
            if (!used)
                return MFAIL(r, p, 1, "this number does not fit in 64 bits");
            vec_push(&r->tmp, &r->ints, v);
            p += used;
            if (!dense && !list && *a->val != 'a')
                break; /* a single number, its type follows */
            continue;
        }
        if (*p == 't' || *p == 'f') {
            size_t w = mword(p);
            if (mtext(p, w, "true") || mtext(p, w, "false")) {
                int64_t v = w == 4;
                vec_push(&r->tmp, &r->ints, v);
            }
            p += w ? w : 1;
            continue;
        }
        if (*p == '"' || mis(*p, MC_WORD))
            return MFAIL(r, a->val, a->vlen, "expected a list of whole numbers");
        list |= *p == '[';
        depth += *p == '[' ? 1 : *p == ']' ? -1 : 0;
        if (*p == ']' && !dense && depth <= 0)
            break;
        p++;
    }
    if (dense && r->ints.n == 1 && n > 1) {
        int64_t v = r->ints.v[0];
        while (r->ints.n < n)
            vec_push(&r->tmp, &r->ints, v);
    }
    return true;
}

bool mints_of(struct mlir *r, const struct mop *op, const char *key, const char *other, int64_t n)
{
    return mints(r, mattr2(op, key, other), n);
}

bool mint_of(struct mlir *r, const struct mop *op, const char *key, const char *other, int64_t dflt,
             int64_t *out)
{
    const struct mattr *a = mattr2(op, key, other);
    if (!mints(r, a, 1))
        return false;
    *out = r->ints.n ? r->ints.v[0] : dflt;
    return true;
}

bool mbool_of(const struct mop *op, const char *key, bool dflt)
{
    const struct mattr *a = mattr(op, key);
    if (!a)
        return dflt;
    return !a->val || mtext(a->val, mword(a->val), "true") || *a->val == '1';
}

void menum(const struct mattr *a, const char **word, uint32_t *len)
{
    *word = "";
    *len = 0;
    if (!a || !a->val)
        return;
    const char *p = a->val, *end = p + a->vlen;
    if (*p == '"' && a->vlen >= 2) {
        *word = p + 1;
        *len = a->vlen - 2;
        return;
    }
    while (p < end) {
        uint32_t n = 0;
        while (p + n < end && mis(p[n], MC_WORD))
            n++;
        if (n) {
            *word = p;
            *len = n;
            p += n;
        } else {
            p++;
        }
        if (*p == ':' && *a->val != '#')
            break;
    }
}

bool mstring(const struct mattr *a, const char **text, uint32_t *len)
{
    if (!a || !a->val || a->vlen < 2)
        return false;
    const char *p = a->val;
    if (*p == '@') {
        *text = p + 1;
        *len = a->vlen - 1;
        if (p[1] == '"' && a->vlen > 3) {
            (*text)++;
            *len -= 2;
        }
        return true;
    }
    if (*p != '"')
        return false;
    const char *q = mbalanced(p, p + a->vlen);
    if (!q)
        return false;
    *text = p + 1;
    *len = (uint32_t)(q - p - 2);
    return true;
}
