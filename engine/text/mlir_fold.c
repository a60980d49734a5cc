/* What XLA's importer simplifies before it makes HLO: constants, identities, chains of reshapes and
 * broadcasts, values that a loop carries unchanged. Only what it is seen to do: shardings are
 * propagated over what is left, so doing more would change them as well as doing less. */
#include "text/mlir.h"

#include <math.h>

enum { FOLD_MAX = 65536 };

void mreplace(struct mlir *r, struct mop *op, uint32_t k, uint32_t by)
{
    by = mresolve(r, by);
    if (by != op->result + k)
        mset_alias(r, op->result + k, by);
}

/* ---- looking at operands ----------------------------------------------------------------------- */

static const struct mconst *constant(const struct mlir *r, const struct mop *op, uint32_t k)
{
    const struct mconst *c = mcst(r, mval(r, mresolve(r, op->operands[k])));
    return c && !c->elided ? c : NULL;
}

static const struct mop *made_by(const struct mlir *r, const struct mop *op, uint32_t k, enum op_kind kind)
{
    uint32_t v = mresolve(r, op->operands[k]);
    const struct mop *d = mdef(r, mval(r, v));
    return d && d->kind == M_HLO && d->hlo == kind && d->nresults == 1 ? d : NULL;
}

static bool is_splat(const struct mlir *r, const struct mop *op, uint32_t k, double value)
{
    const struct mconst *c = constant(r, op, k);
    double f;
    int64_t n;
    return c && c->splat && mconst_get(r, c, 0, &f, &n) && f == value;
}

static bool same_value(const struct mlir *r, const struct mop *op, uint32_t a, uint32_t b)
{
    return mresolve(r, op->operands[a]) == mresolve(r, op->operands[b]);
}

static bool same_type(const struct mlir *r, uint32_t a, uint32_t b)
{
    return mval(r, a)->shape.i == mval(r, b)->shape.i;
}

static void become(struct mlir *r, struct mop *op, enum op_kind kind, const char *key, int64_t n,
                   const int64_t *v)
{
    op->hlo = (uint16_t)kind;
    uint32_t kept = 0;
    struct mattr *attrs = mlir_op_alloc(r, op->nattrs + 1, sizeof *attrs);
    for (uint32_t i = 0; i < op->nattrs; i++)
        if (memchr(op->attrs[i].key, '.', op->attrs[i].klen)) /* shardings and the like */
            attrs[kept++] = op->attrs[i];
    if (key) {
        struct str s = STR_IN(&r->tmp);
        str_addc(&s, '[');
        for (int64_t i = 0; i < n; i++)
            str_addf(&s, i ? ", %" PRId64 : "%" PRId64, v[i]);
        str_addc(&s, ']');
        attrs[kept++] = (struct mattr){ key, str_text(&s), (uint32_t)strlen(key), (uint32_t)s.n };
    }
    op->attrs = attrs;
    op->nattrs = kept;
}

static void set_operand(struct mlir *r, struct mop *op, uint32_t v)
{
    if (!op->noperands) /* an iota */
        op->operands = mlir_op_alloc(r, 1, sizeof *op->operands);
    op->operands[0] = v;
    op->noperands = 1;
}

/* A quiet read: what is wrong is reported when the operation is emitted. */
static int64_t read_ints(struct mlir *r, const struct mop *op, const char *key, const char *other, int64_t n,
                         int64_t *out, int64_t max)
{
    const struct mattr *a = mattr2(op, key, other);
    if (!a || !a->val || (*a->val != '[' && *a->val != 'a' && *a->val != 'd' && !mis(*a->val, MC_DIGIT)))
        return -1;
    int before = r->nerrors;
    if (!mints(r, a, n) || r->nerrors != before || r->ints.n > max)
        return -1;
    for (int64_t i = 0; i < r->ints.n; i++)
        out[i] = r->ints.v[i];
    return r->ints.n;
}

/* ---- constants --------------------------------------------------------------------------------- */

static bool unary_value(enum op_kind op, double f, int64_t n, bool is_float, double *fo, int64_t *no)
{
    *fo = f;
    *no = n;
    switch ((int)op) {
    case OP_NEGATE: *fo = -f; *no = (int64_t)(0 - (uint64_t)n); return true;
    case OP_SIGN: *fo = f > 0 ? 1 : f < 0 ? -1 : f; *no = (n > 0) - (n < 0); return true;
    case OP_NOT: *no = ~n; return !is_float;
    case OP_FLOOR: *fo = floor(f); return is_float;
    case OP_CEIL: *fo = ceil(f); return is_float;
    case OP_SQRT: *fo = sqrt(f); return is_float;
    case OP_RSQRT: *fo = 1 / sqrt(f); return is_float;
    case OP_EXP: *fo = exp(f); return is_float;
    case OP_LOG: *fo = log(f); return is_float;
    case OP_COSINE: *fo = cos(f); return is_float;
    case OP_SINE: *fo = sin(f); return is_float;
    case OP_TANH: *fo = tanh(f); return is_float;
    default: return false;
    }
}

static bool binary_value(enum op_kind op, double a, double b, int64_t m, int64_t n, enum dtype_kind kind,
                         double *fo, int64_t *no)
{
    bool is_float = kind == DTYPE_KIND_FLOAT, is_unsigned = kind != DTYPE_KIND_SIGNED;
    uint64_t um = (uint64_t)m, un = (uint64_t)n;
    switch ((int)op) {
    case OP_ADD: *fo = a + b; *no = (int64_t)(um + un); return kind != DTYPE_KIND_PRED;
    case OP_SUBTRACT: *fo = a - b; *no = (int64_t)(um - un); return kind != DTYPE_KIND_PRED;
    case OP_MULTIPLY: *fo = a * b; *no = (int64_t)(um * un); return kind != DTYPE_KIND_PRED;
    case OP_DIVIDE:
        if (is_float) {
            *fo = a / b;
            return true;
        }
        if (n == 0 || (n == -1 && m == INT64_MIN))
            return false;
        *no = is_unsigned ? (int64_t)(um / un) : m / n;
        return true;
    case OP_REMAINDER:
        if (is_float) {
            *fo = fmod(a, b);
            return true;
        }
        if (n == 0 || n == -1)
            return false;
        *no = is_unsigned ? (int64_t)(um % un) : m % n;
        return true;
    case OP_MAXIMUM:
        *fo = a > b || a != a ? a : b;
        *no = is_unsigned ? (um > un ? m : n) : (m > n ? m : n);
        return true;
    case OP_MINIMUM:
        *fo = a < b || a != a ? a : b;
        *no = is_unsigned ? (um < un ? m : n) : (m < n ? m : n);
        return true;
    case OP_AND: *no = m & n; return !is_float;
    case OP_OR: *no = m | n; return !is_float;
    case OP_XOR: *no = m ^ n; return !is_float;
    default: return false;
    }
}

static bool compare_value(const char *dir, double a, double b, int64_t m, int64_t n, enum dtype_kind kind, bool *out)
{
    int c;
    if (kind == DTYPE_KIND_FLOAT) {
        if (a != a || b != b) {
            *out = memcmp(dir, "NE", 2) == 0;
            return true;
        }
        c = (a > b) - (a < b);
    } else if (kind == DTYPE_KIND_SIGNED) {
        c = (m > n) - (m < n);
    } else {
        c = ((uint64_t)m > (uint64_t)n) - ((uint64_t)m < (uint64_t)n);
    }
    *out = memcmp(dir, "EQ", 2) == 0   ? c == 0
           : memcmp(dir, "NE", 2) == 0 ? c != 0
           : memcmp(dir, "LT", 2) == 0 ? c < 0
           : memcmp(dir, "LE", 2) == 0 ? c <= 0
           : memcmp(dir, "GT", 2) == 0 ? c > 0
                                       : c >= 0;
    return true;
}

/* Element by element over one or two constants. kind of the loop: what op says. */
static bool fold_elements(struct mlir *r, struct mop *op, const char *direction)
{
    const struct mconst *a = constant(r, op, 0), *b = op->noperands > 1 ? constant(r, op, 1) : a;
    if (!a || !b)
        return false;
    const struct shape *in = shape_get(r->c, a->shape), *out = mshape(r, op->result);
    bool splat = a->splat && b->splat;
    if (in->count > FOLD_MAX || in->count <= 0)
        return false;
    enum dtype_kind kind = dtype_kind(in->dtype);
    if (kind == DTYPE_KIND_COMPLEX || dtype_kind(out->dtype) == DTYPE_KIND_COMPLEX)
        return false;
    int64_t n = splat ? 1 : in->count, size = dtype_bytes(out->dtype);
    char *data = ARENA_ARRAY(&r->tmp, char, n * size + 8);
    for (int64_t i = 0; i < n; i++) {
        double f, g, fo = 0;
        int64_t k, l, no = 0;
        bool p;
        if (!mconst_get(r, a, i, &f, &k) || !mconst_get(r, b, i, &g, &l))
            return false;
        if (direction) {
            if (!compare_value(direction, f, g, k, l, kind, &p))
                return false;
            no = p;
        } else if (op->hlo == OP_CONVERT) {
            fo = f;
            no = k;
            if (kind == DTYPE_KIND_FLOAT && dtype_kind(out->dtype) == DTYPE_KIND_PRED)
                no = f != 0;
        } else if (op->noperands == 1) {
            if (!unary_value((enum op_kind)op->hlo, f, k, kind == DTYPE_KIND_FLOAT, &fo, &no))
                return false;
        } else if (!binary_value((enum op_kind)op->hlo, f, g, k, l, kind, &fo, &no)) {
            return false;
        }
        mstore(out->dtype, fo, no, data + i * size);
    }
    mreplace(r, op, 0, mconst_value(r, mval(r, op->result)->shape, splat, data, false));
    return true;
}

static bool splat_to(struct mlir *r, struct mop *op)
{
    const struct mconst *c = constant(r, op, 0);
    if (!c || !c->splat)
        return false;
    mreplace(r, op, 0, mconst_value(r, mval(r, op->result)->shape, true, c->data, false));
    return true;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

static void fold_reshape(struct mlir *r, struct mop *op)
{
    const struct mop *d = made_by(r, op, 0, OP_RESHAPE);
    if (d)
        set_operand(r, op, d->operands[0]);
    if (same_type(r, mresolve(r, op->operands[0]), op->result)) {
        mreplace(r, op, 0, op->operands[0]);
        return;
    }
    const struct mconst *c = constant(r, op, 0);
    if (!c || shape_get(r->c, c->shape)->count != mshape(r, op->result)->count)
        return;
    mreplace(r, op, 0, mconst_value(r, mval(r, op->result)->shape, c->splat, c->data, false));
}

static void fold_broadcast(struct mlir *r, struct mop *op)
{
    int64_t dims[64], inner[64];
    int64_t n = read_ints(r, op, "dims", "broadcast_dimensions", -1, dims, 62);
    const struct shape *out = mshape(r, op->result);
    if (n < 0 || n != mshape(r, op->operands[0])->rank)
        return;
    bool sorted = true;
    for (int64_t i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= out->rank)
            return;
        sorted &= i == 0 || dims[i - 1] < dims[i];
    }
    if (sorted && same_type(r, mresolve(r, op->operands[0]), op->result)) {
        mreplace(r, op, 0, op->operands[0]);
        return;
    }
    if (splat_to(r, op))
        return;
    const struct shape *in = mshape(r, op->operands[0]);
    if (in->count == out->count && in->count >= 0) {
        if (sorted) {
            become(r, op, OP_RESHAPE, NULL, 0, NULL);
            fold_reshape(r, op);
            return;
        }
        if (in->rank == out->rank) {
            int64_t perm[64];
            for (int64_t i = 0; i < n; i++)
                perm[dims[i]] = i;
            become(r, op, OP_TRANSPOSE, "dims", n, perm);
            return;
        }
    }
    const struct mop *d = made_by(r, op, 0, OP_BROADCAST);
    int64_t m = d ? read_ints(r, d, "dims", "broadcast_dimensions", -1, inner, 62) : -1;
    if (m < 0 || m != mshape(r, d->operands[0])->rank)
        return;
    for (int64_t i = 0; i < m; i++) {
        if (inner[i] < 0 || inner[i] >= n)
            return;
        inner[i] = dims[inner[i]];
    }
    set_operand(r, op, d->operands[0]);
    become(r, op, OP_BROADCAST, "dims", m, inner);
    fold_broadcast(r, op); /* one fewer broadcast below: this ends */
}

static void fold_transpose(struct mlir *r, struct mop *op)
{
    int64_t perm[64], inner[64];
    const struct shape *out = mshape(r, op->result);
    int64_t n = read_ints(r, op, "dims", "permutation", -1, perm, 62);
    if (n != out->rank)
        return;
    bool identity = true;
    for (int64_t i = 0; i < n; i++) {
        if (perm[i] < 0 || perm[i] >= n)
            return;
        identity &= perm[i] == i;
    }
    if (identity) {
        mreplace(r, op, 0, op->operands[0]);
        return;
    }
    if (splat_to(r, op))
        return;
    /* Only sizes of 1 move: a reshape. */
    const struct shape *in = mshape(r, op->operands[0]);
    int64_t last = -1;
    bool ordered = in->rank == n;
    for (int64_t i = 0; ordered && i < n; i++)
        if (in->dims[perm[i]] != 1) {
            ordered = perm[i] > last;
            last = perm[i];
        }
    if (ordered) {
        become(r, op, OP_RESHAPE, NULL, 0, NULL);
        fold_reshape(r, op);
        return;
    }
    const struct mop *d = made_by(r, op, 0, OP_TRANSPOSE);
    if (d && read_ints(r, d, "dims", "permutation", -1, inner, 62) == n) {
        for (int64_t i = 0; i < n; i++)
            perm[i] = inner[perm[i]];
        set_operand(r, op, d->operands[0]);
        become(r, op, OP_TRANSPOSE, "dims", n, perm);
        fold_transpose(r, op);
        return;
    }
    d = made_by(r, op, 0, OP_BROADCAST);
    int64_t m = d ? read_ints(r, d, "dims", "broadcast_dimensions", -1, inner, 62) : -1;
    if (m >= 0) {
        for (int64_t i = 0; i < m; i++) {
            int64_t at = 0;
            while (at < n && perm[at] != inner[i])
                at++;
            inner[i] = at;
        }
        set_operand(r, op, d->operands[0]);
        become(r, op, OP_BROADCAST, "dims", m, inner);
        fold_broadcast(r, op);
    }
}

static bool whole_slice(struct mlir *r, const struct mop *op)
{
    return same_type(r, mresolve(r, op->operands[0]), op->result);
}

/* Constant starts: a plain slice, clamped as the dynamic one would be. */
static void fold_dynamic_slice(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]), *out = mshape(r, op->result);
    if (op->noperands != (uint32_t)s->rank + 1 || out->rank != s->rank)
        return;
    struct str t = STR_IN(&r->tmp);
    str_addc(&t, '[');
    for (int d = 0; d < s->rank; d++) {
        const struct mconst *c = constant(r, op, (uint32_t)d + 1);
        double f;
        int64_t at;
        if (!c || !mconst_get(r, c, 0, &f, &at))
            return;
        at = max_i64(0, min_i64(at, s->dims[d] - out->dims[d]));
        str_addf(&t, d ? ", %" PRId64 ":%" PRId64 : "%" PRId64 ":%" PRId64, at, at + out->dims[d]);
    }
    str_addc(&t, ']');
    set_operand(r, op, op->operands[0]);
    become(r, op, OP_SLICE, "[", 0, NULL);
    op->attrs[op->nattrs - 1].val = str_text(&t);
    op->attrs[op->nattrs - 1].vlen = (uint32_t)t.n;
    if (whole_slice(r, op))
        mreplace(r, op, 0, op->operands[0]);
}

static void fold_pad(struct mlir *r, struct mop *op)
{
    int64_t v[64];
    static const char *const keys[3][2] = { { "low", "edge_padding_low" }, { "high", "edge_padding_high" },
                                            { "interior", "interior_padding" } };
    if (!whole_slice(r, op))
        return;
    for (int k = 0; k < 3; k++) {
        int64_t n = read_ints(r, op, keys[k][0], keys[k][1], mshape(r, op->result)->rank, v, 62);
        for (int64_t i = 0; i < n; i++)
            if (v[i] != 0)
                return;
        if (n < 0)
            return;
    }
    mreplace(r, op, 0, op->operands[0]);
}

/* Operands without elements do not matter. */
static void fold_concatenate(struct mlir *r, struct mop *op)
{
    if (mshape(r, op->result)->count == 0) {
        mreplace(r, op, 0, mconst_value(r, mval(r, op->result)->shape, false, "", false));
        return;
    }
    uint32_t *v = ARENA_ARRAY(&r->tmp, uint32_t, op->noperands), n = 0;
    for (uint32_t k = 0; k < op->noperands; k++)
        if (mshape(r, op->operands[k])->count != 0)
            v[n++] = op->operands[k];
    op->operands = v;
    op->noperands = n;
    if (n == 1 && same_type(r, v[0], op->result))
        mreplace(r, op, 0, v[0]);
}

static void fold_reverse(struct mlir *r, struct mop *op)
{
    int64_t dims[64];
    const struct shape *s = mshape(r, op->result);
    int64_t n = read_ints(r, op, "dims", "dimensions", -1, dims, 62);
    if (splat_to(r, op))
        return;
    for (int64_t i = 0; i < n; i++)
        if (dims[i] < 0 || dims[i] >= s->rank || s->dims[dims[i]] != 1)
            return;
    if (n >= 0)
        mreplace(r, op, 0, op->operands[0]);
}

/* A vector, and that broadcast: what becomes of it then is the broadcast's business. */
static void fold_iota(struct mlir *r, struct mop *op)
{
    int64_t d;
    const struct shape *s = mshape(r, op->result);
    if (read_ints(r, op, "dim", "iota_dimension", -1, &d, 1) != 1 || d < 0 || d >= s->rank)
        return;
    if (s->dims[d] == 1) {
        mreplace(r, op, 0, mconst_like(r, mval(r, op->result)->shape, 0));
        return;
    }
    if (s->rank == 1 || !op->block)
        return;
    struct mop *line = mlir_op_new(r, M_NONE);
    uint16_t chunk = line->chunk;
    *line = *op;
    line->chunk = chunk;
    int64_t zero = 0;
    line->attrs = NULL;
    line->nattrs = 0;
    become(r, line, OP_IOTA, "dim", 1, &zero);
    line->result = mlir_value_new(r, line, mregion(r, mval(r, op->result)), shape_array(r->c, s->dtype, 1, &s->dims[d]));
    line->next = op;
    line->prev = op->prev;
    if (op->prev)
        op->prev->next = line;
    else
        op->block->first = line;
    op->prev = line;
    set_operand(r, op, line->result);
    become(r, op, OP_BROADCAST, "dims", 1, &d);
    fold_broadcast(r, op);
}

/* Nothing to reduce: no dimensions, or no elements. */
static void fold_reduce(struct mlir *r, struct mop *op)
{
    int64_t dims[64];
    if (op->noperands != 2)
        return;
    int64_t n = read_ints(r, op, "dimensions", NULL, -1, dims, 62);
    if (n == 0) {
        mreplace(r, op, 0, op->operands[0]);
    } else if (n > 0 && mshape(r, op->operands[0])->count == 0) {
        op->operands[0] = op->operands[1];
        op->noperands = 1;
        op->nregions = 0;
        become(r, op, OP_BROADCAST, "dims", 0, NULL);
        fold_broadcast(r, op);
    }
}

/* ---- arithmetic -------------------------------------------------------------------------------- */

static bool commutes(enum op_kind op)
{
    return op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM || op == OP_AND ||
           op == OP_OR || op == OP_XOR;
}

static bool all_ones(const struct mlir *r, const struct mop *op, uint32_t k)
{
    const struct mconst *c = constant(r, op, k);
    double f;
    int64_t n;
    if (!c || !c->splat || !mconst_get(r, c, 0, &f, &n))
        return false;
    enum dtype t = shape_get(r->c, c->shape)->dtype;
    return t == DTYPE_PRED ? n == 1 : n == -1 || (dtype_bits(t) < 64 && n == ((int64_t)1 << dtype_bits(t)) - 1);
}

static void fold_binary(struct mlir *r, struct mop *op)
{
    enum op_kind k = (enum op_kind)op->hlo;
    if (commutes(k) && constant(r, op, 0) && !constant(r, op, 1)) {
        uint32_t t = op->operands[0];
        op->operands[0] = op->operands[1];
        op->operands[1] = t;
    }
    if (fold_elements(r, op, NULL))
        return;
    bool is_pred = mshape(r, op->result)->dtype == DTYPE_PRED;
    switch ((int)k) {
    case OP_ADD:
        if (!is_pred && is_splat(r, op, 1, 0))
            mreplace(r, op, 0, op->operands[0]);
        break;
    case OP_MULTIPLY:
        if (!is_pred && is_splat(r, op, 1, 1))
            mreplace(r, op, 0, op->operands[0]);
        break;
    case OP_AND:
        if (same_value(r, op, 0, 1) || all_ones(r, op, 1))
            mreplace(r, op, 0, op->operands[0]);
        else if (is_splat(r, op, 1, 0))
            mreplace(r, op, 0, op->operands[1]);
        break;
    case OP_OR:
        if (same_value(r, op, 0, 1) || is_splat(r, op, 1, 0))
            mreplace(r, op, 0, op->operands[0]);
        else if (all_ones(r, op, 1))
            mreplace(r, op, 0, op->operands[1]);
        break;
    case OP_MAXIMUM:
    case OP_MINIMUM:
        if (same_value(r, op, 0, 1))
            mreplace(r, op, 0, op->operands[0]);
        break;
    default: break;
    }
}

static void fold_compare(struct mlir *r, struct mop *op)
{
    const char *dir = "";
    uint32_t n = 0;
    const struct mattr *a = mattr(op, "comparison_direction");
    if (a) {
        menum(a, &dir, &n);
    } else {
        for (uint32_t i = 0; i < op->nattrs && !n; i++)
            if (op->attrs[i].klen == 0) {
                dir = op->attrs[i].val;
                n = op->attrs[i].vlen;
            }
    }
    if (n != 2 || fold_elements(r, op, dir))
        return;
    bool equal = memcmp(dir, "EQ", 2) == 0, differ = memcmp(dir, "NE", 2) == 0;
    if (mshape(r, op->operands[0])->dtype == DTYPE_PRED &&
        ((equal && is_splat(r, op, 1, 1)) || (differ && is_splat(r, op, 1, 0))))
        mreplace(r, op, 0, op->operands[0]);
}

static void fold_select(struct mlir *r, struct mop *op)
{
    if (same_value(r, op, 1, 2)) {
        mreplace(r, op, 0, op->operands[1]);
        return;
    }
    const struct mconst *c = constant(r, op, 0);
    double f;
    int64_t n;
    if (c && c->splat && mconst_get(r, c, 0, &f, &n))
        mreplace(r, op, 0, op->operands[n ? 1 : 2]);
}

/* ---- loops ------------------------------------------------------------------------------------- */

/* What the body gives back as it got it is not carried but captured. */
static void fold_while(struct mlir *r, struct mop *op)
{
    if (op->nregions != 2 || !op->regions[1]->last || op->regions[1]->last->kind != M_RETURN)
        return;
    struct mregion *cond = op->regions[0], *body = op->regions[1];
    const struct mop *ret = body->last;
    if (ret->noperands != op->noperands || body->nargs != op->noperands || cond->nargs != op->noperands ||
        op->nresults != op->noperands)
        return;
    for (uint32_t k = 0; k < op->noperands; k++) {
        uint32_t back = mresolve(r, ret->operands[k]), in = mresolve(r, op->operands[k]);
        if (back != body->arg0 + k && back != in)
            continue;
        mset_alias(r, body->arg0 + k, in);
        mset_alias(r, cond->arg0 + k, in);
        mreplace(r, op, k, in);
    }
}

/* ---- dispatch ---------------------------------------------------------------------------------- */

void mlir_fold(struct mlir *r, struct mop *op)
{
    if (op->kind != M_HLO || op->nresults == 0)
        return;
    enum op_kind k = (enum op_kind)op->hlo;
    if (k == OP_WHILE) {
        fold_while(r, op);
        return;
    }
    if (op->nresults != 1 || mshape(r, op->result)->kind != SHAPE_ARRAY)
        return;
    if (k == OP_IOTA) {
        fold_iota(r, op);
        return;
    }
    if (op->noperands == 0 || mshape(r, op->operands[0])->kind != SHAPE_ARRAY)
        return;
    if (op->noperands == 2 && op_is_elementwise_binary(k) && k != OP_COMPARE && k != OP_COMPLEX) {
        fold_binary(r, op);
        return;
    }
    switch ((int)k) {
    case OP_BROADCAST: fold_broadcast(r, op); break;
    case OP_RESHAPE: fold_reshape(r, op); break;
    case OP_TRANSPOSE: fold_transpose(r, op); break;
    case OP_CONVERT:
        if (same_type(r, mresolve(r, op->operands[0]), op->result))
            mreplace(r, op, 0, op->operands[0]);
        else
            (void)fold_elements(r, op, NULL);
        break;
    case OP_SLICE:
        if (whole_slice(r, op))
            mreplace(r, op, 0, op->operands[0]);
        else
            (void)splat_to(r, op);
        break;
    case OP_DYNAMIC_SLICE: fold_dynamic_slice(r, op); break;
    case OP_CONCATENATE: fold_concatenate(r, op); break;
    case OP_REDUCE: fold_reduce(r, op); break;
    case OP_PAD: fold_pad(r, op); break;
    case OP_REVERSE: fold_reverse(r, op); break;
    case OP_COMPARE:
        if (op->noperands == 2)
            fold_compare(r, op);
        break;
    case OP_SELECT:
        if (op->noperands == 3)
            fold_select(r, op);
        break;
    case OP_REAL:
    case OP_IMAG: {
        const struct mop *d = made_by(r, op, 0, OP_COMPLEX);
        if (d && d->noperands == 2)
            mreplace(r, op, 0, d->operands[k == OP_IMAG]);
        break;
    }
    case OP_NEGATE:
    case OP_SIGN:
    case OP_NOT:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_EXP:
    case OP_LOG:
    case OP_COSINE:
    case OP_SINE:
    case OP_TANH:
        if (op->noperands == 1)
            (void)fold_elements(r, op, NULL);
        break;
    default: break;
    }
}
