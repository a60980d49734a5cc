/* sparse<[[0, 0], [1, 2]], [1.0, 5.0]>: a constant that is zero but where a list of indices says. */
#include "text/mlir.h"

enum { SPARSE_MOST = 1 << 26 };

static const char *blanks(const char *p, const char *end)
{
    while (p < end && mis(*p, MC_SPACE))
        p++;
    return p;
}

/* The list, or the one number, at *pp. */
static bool piece(struct mlir *r, const char **pp, const char *end, struct mattr *out)
{
    const char *p = blanks(*pp, end), *q = p;
    if (q < end && (*q == '[' || *q == '('))
        q = mbalanced(q, end);
    else
        while (q < end && *q != ',' && !mis(*q, MC_SPACE))
            q++;
    if (!q || q == p)
        return MFAIL(r, p, 1, "expected sparse<indices, values>, like sparse<[[0, 0], [1, 2]], [1.0, 5.0]>");
    *out = (struct mattr){ .val = p, .vlen = (uint32_t)(q - p) };
    *pp = q;
    return true;
}

/* Where the k-th element of the list goes: indices lie in r->ints, rank each. */
static bool place(struct mlir *r, const struct mattr *at, const struct shape *s, int64_t k, int64_t *out)
{
    int64_t flat = 0;
    for (int d = 0; d < s->rank; d++) {
        int64_t i = r->ints.v[k * s->rank + d];
        if (i < 0 || i >= s->dims[d])
            return MFAIL(r, at->val, at->vlen, "index %" PRId64 " is outside of dimension %d, of size %" PRId64, i, d,
                         s->dims[d]);
        flat = flat * s->dims[d] + i;
    }
    *out = flat;
    return true;
}

static bool fill(struct mlir *r, const struct mattr *at, const struct mattr *values, const struct shape *s, char *data)
{
    const char *p = values->val, *end = p + values->vlen;
    int64_t n = s->rank ? r->ints.n / s->rank : r->ints.n, size = dtype_bytes(s->dtype), flat = 0;
    bool list = *p == '[';
    char one[16] = { 0 };
    p += list;
    end -= list;
    for (int64_t k = 0; k < n; k++) {
        while (p < end && (mis(*p, MC_SPACE) || *p == ','))
            p++;
        if ((list || k == 0) && p >= end)
            return MFAIL(r, values->val, values->vlen, "fewer values than indices (%" PRId64 ")", n);
        if ((list || k == 0) && !(*p == '(' ? mconst_complex(r, &p, end, s->dtype, one)
                                            : mconst_number(r, &p, end, s->dtype, one)))
            return false;
        if (!place(r, at, s, k, &flat))
            return false;
        memcpy(data + flat * size, one, (size_t)size);
    }
    p = blanks(p, end);
    return p == end || MFAIL(r, p, 1, "more values than indices (%" PRId64 ")", n);
}

bool mlir_sparse(struct mlir *r, const char *p, const char *end, shape_id shape, uint32_t *out)
{
    const struct shape *s = shape_get(r->c, shape);
    char zero[16] = { 0 };
    if (s->kind != SHAPE_ARRAY)
        return MFAIL(r, p, 1, "a constant must be an array");
    if (blanks(p, end) == end) {
        *out = mconst_value(r, shape, true, zero, false);
        return true;
    }
    struct mattr at, values;
    const char *from = p;
    if (s->count <= 0 || s->count > SPARSE_MOST)
        return MFAIL(r, p, (size_t)(end - p), "sparse<> of more than %d elements, or of none", (int)SPARSE_MOST);
    if (!piece(r, &p, end, &at))
        return false;
    p = blanks(p, end);
    if (p >= end || *p != ',')
        return MFAIL(r, p < end ? p : from, 1, "expected ',' and the values");
    p++;
    if (!piece(r, &p, end, &values))
        return false;
    if (blanks(p, end) != end)
        return MFAIL(r, p, 1, "unexpected text in a constant");
    if (!mints(r, &at, 1))
        return false;
    if (s->rank && r->ints.n % s->rank != 0)
        return MFAIL(r, at.val, at.vlen, "an index has %d numbers here", s->rank);
    char *data = ARENA_ARRAY(&r->tmp, char, s->count * dtype_bytes(s->dtype) + 16);
    if (!fill(r, &at, &values, s, data))
        return false;
    *out = mconst_value(r, shape, false, data, false);
    return true;
}
