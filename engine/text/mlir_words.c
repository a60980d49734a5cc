/* Attributes of StableHLO operations as those of HLO instructions; mlir_nums.c has those with dimension
 * numbers. */
#include "text/mlir_emit.h"

#include <stdio.h>

/* ---- elementwise and shape ops ----------------------------------------------------------------- */

bool memit_broadcast(struct mlir *r, struct mop *op, instr_id x)
{
    if (!mints_of(r, op, "dims", "broadcast_dimensions", -1))
        return false;
    const struct shape *in = mshape(r, op->operands[0]), *out = mshape(r, op->result);
    int64_t n = r->ints.n;
    int64_t dims[64], seq[64], kept[64], sizes[64];
    bool stretched = false;
    if (n != in->rank)
        return MFAIL(r, op->at, op->nat, "%" PRId64 " dims for an operand of %d dimensions", n, in->rank);
    for (int64_t i = 0; i < n; i++)
        dims[i] = r->ints.v[i];
    for (int d = 0; d < out->rank; d++)
        seq[d] = out->dims[d];
    for (int64_t i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= out->rank)
            return MFAIL(r, op->at, op->nat, "dims names dimension %" PRId64 " of an array of %d", dims[i], out->rank);
        if (in->dims[i] != 1 && in->dims[i] != out->dims[dims[i]])
            return MFAIL(r, op->at, op->nat, "dimension %" PRId64 " of size %" PRId64 " cannot become %" PRId64, i,
                         in->dims[i], out->dims[dims[i]]);
        stretched |= in->dims[i] != out->dims[dims[i]];
        seq[dims[i]] = in->dims[i];
    }
    /* First to the result's rank with sizes of 1 kept; those are then dropped and made anew. */
    shape_id first = shape_array(r->c, out->dtype, out->rank, seq);
    struct attr a = mattr_ints(r, ATTR_DIMENSIONS, (int)n, dims);
    instr_id b = memit(r, OP_BROADCAST, first, 1, &x, 1, &a);
    if (stretched) {
        int nk = 0;
        for (int d = 0; d < out->rank; d++)
            if (seq[d] == out->dims[d]) {
                sizes[nk] = seq[d];
                kept[nk++] = d;
            }
        b = memit(r, OP_RESHAPE, shape_array(r->c, out->dtype, nk, sizes), 1, &b, 0, NULL);
        a = mattr_ints(r, ATTR_DIMENSIONS, nk, kept);
        b = memit(r, OP_BROADCAST, mval(r, op->result)->shape, 1, &b, 1, &a);
    }
    mspread(r, b, op);
    return true;
}

/* More than one dimension: a vector, broadcast. */
bool memit_iota(struct mlir *r, struct mop *op)
{
    int64_t d;
    const struct shape *s = mshape(r, op->result);
    if (!mint_of(r, op, "dim", "iota_dimension", 0, &d))
        return false;
    if (d < 0 || d >= s->rank)
        return MFAIL(r, op->at, op->nat, "the result has rank %d: it has no dimension %" PRId64, s->rank, d);
    if (s->rank == 1) {
        struct attr a = attr_int(ATTR_IOTA_DIMENSION, 0);
        mspread(r, memit(r, OP_IOTA, mval(r, op->result)->shape, 0, NULL, 1, &a), op);
        return true;
    }
    struct attr a = attr_int(ATTR_IOTA_DIMENSION, 0);
    instr_id i = memit(r, OP_IOTA, shape_array(r->c, s->dtype, 1, &s->dims[d]), 0, NULL, 1, &a);
    a = mattr_ints(r, ATTR_DIMENSIONS, 1, &d);
    mspread(r, memit(r, OP_BROADCAST, mval(r, op->result)->shape, 1, &i, 1, &a), op);
    return true;
}

/* The words without a key: pretty compare has direction and type so. */
bool mnum_add_compare(struct mlir *r, const struct mop *op)
{
    const char *dir = "", *type = "";
    uint32_t ndir = 0, ntype = 0;
    const struct mattr *a = mattr(op, "comparison_direction");
    if (a) {
        menum(a, &dir, &ndir);
        menum(mattr(op, "compare_type"), &type, &ntype);
        /* #stablehlo<comparison_direction LT>: the last word */
    } else {
        for (uint32_t i = 0; i < op->nattrs; i++)
            if (op->attrs[i].klen == 0) {
                if (!ndir) {
                    dir = op->attrs[i].val;
                    ndir = op->attrs[i].vlen;
                } else {
                    type = op->attrs[i].val;
                    ntype = op->attrs[i].vlen;
                }
            }
    }
    if (ndir != 2)
        return MFAIL(r, op->at, op->nat, "this comparison has no direction (EQ, NE, LT, LE, GT or GE)");
    mnum_add_word(r, ATTR_DIRECTION, dir, ndir);
    if (mtext(type, ntype, "TOTALORDER"))
        mnum_add_word(r, ATTR_COMPARE_TYPE, type, ntype);
    return true;
}

bool mnum_add_slice(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]);
    int64_t *v = ARENA_ARRAY(&r->scratch, int64_t, 3 * s->rank + 3);
    const struct mattr *a = mattr(op, "[");
    if (a) { /* [0:1, 2:8:2] */
        const char *p = a->val + 1, *end = a->val + a->vlen;
        for (int d = 0; d < s->rank; d++) {
            v[3 * d + 2] = 1;
            for (int k = 0; k < 3; k++) {
                while (p < end && mis(*p, MC_SPACE))
                    p++;
                size_t used = p < end ? parse_i64(p, (size_t)(end - p), &v[3 * d + k]) : 0;
                if (!used)
                    return MFAIL(r, p, 1, "expected start:limit or start:limit:stride");
                p += used;
                if (*p != ':')
                    break;
                p++;
            }
            while (p < end && (*p == ',' || mis(*p, MC_SPACE)))
                p++;
        }
    } else {
        static const char *const keys[] = { "start_indices", "limit_indices", "strides" };
        for (int k = 0; k < 3; k++) {
            if (!mints_of(r, op, keys[k], NULL, s->rank))
                return false;
            for (int d = 0; d < s->rank; d++)
                v[3 * d + k] = d < r->ints.n ? r->ints.v[d] : k == 2;
        }
    }
    struct attr at = mattr_ints(r, ATTR_SLICE, 3 * s->rank, v);
    at.type = ATTR_TYPE_SLICE;
    mnum_add(r, at);
    return true;
}

bool mnum_add_padding(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]);
    int64_t *v = ARENA_ARRAY(&r->scratch, int64_t, 3 * s->rank + 3);
    static const char *const keys[3][2] = { { "low", "edge_padding_low" }, { "high", "edge_padding_high" },
                                            { "interior", "interior_padding" } };
    for (int k = 0; k < 3; k++) {
        if (!mints_of(r, op, keys[k][0], keys[k][1], s->rank))
            return false;
        for (int d = 0; d < s->rank; d++)
            v[3 * d + k] = d < r->ints.n ? r->ints.v[d] : 0;
    }
    struct attr at = mattr_ints(r, ATTR_PADDING, 3 * s->rank, v);
    at.type = ATTR_TYPE_PADDING;
    mnum_add(r, at);
    return true;
}

/* ---- words and numbers -------------------------------------------------------------------------- */

bool mnum_add_enum(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other,
                     const char *prefix)
{
    const char *word;
    uint32_t n;
    menum(mattr2(op, key, other), &word, &n);
    if (!n)
        return MFAIL(r, op->at, op->nat, "expected %s = ...", key);
    char *text = arena_printf(&r->scratch, "%s%.*s", prefix, (int)n, word);
    mnum_add(r, attr_ident(r->m, k, text));
    return true;
}

/* e5m10 */
bool mnum_add_bits(struct mlir *r, const struct mop *op)
{
    int64_t e = 0, m = 0;
    const struct mattr *a = mattr(op, "format");
    if (a && a->val && *a->val == 'e') {
        size_t used = parse_i64(a->val + 1, a->vlen - 1, &e);
        const char *q = a->val + 1 + used;
        if (!used || *q != 'm' || !parse_i64(q + 1, (size_t)(a->val + a->vlen - q - 1), &m))
            return MFAIL(r, a->val, a->vlen, "expected a format, like e5m10");
    } else if (!mint_of(r, op, "exponent_bits", NULL, 8, &e) || !mint_of(r, op, "mantissa_bits", NULL, 23, &m)) {
        return false;
    }
    mnum_add(r, attr_int(ATTR_EXPONENT_BITS, e));
    mnum_add(r, attr_int(ATTR_MANTISSA_BITS, m));
    return true;
}

bool mnum_add_index(struct mlir *r, const struct mop *op)
{
    int64_t k;
    if (!mint_of(r, op, "[", "index", 0, &k))
        return false;
    mnum_add(r, attr_int(ATTR_INDEX, k));
    return true;
}

bool mnum_add_epsilon(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "epsilon");
    struct attr at = attr_int(ATTR_EPSILON, 0);
    at.type = ATTR_TYPE_FLOAT;
    at.f = 0;
    if (a && a->val) {
        char buf[64];
        snprintf(buf, sizeof buf, "%.*s", (int)(a->vlen < 60 ? a->vlen : 60), a->val);
        (void)sscanf(buf, "%lf", &at.f);
    }
    mnum_add(r, at);
    int64_t k;
    if (!mint_of(r, op, "feature_index", NULL, 0, &k))
        return false;
    mnum_add(r, attr_int(ATTR_FEATURE_INDEX, k));
    return true;
}
