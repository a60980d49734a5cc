/* JSON models: operations other than einsum. Each builds what XLA would see of the same line in a
 * program: explicit broadcasts, reductions with a computation, a softmax in its pieces. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"

/* ---- fields of an operation ------------------------------------------------------------------ */

static const cJSON *field(const struct model *j, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(j->op, key);
}

static bool whole(const cJSON *v, int64_t *out)
{
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) ||
        fabs(v->valuedouble) > 9007199254740992.0)
        return false;
    *out = (int64_t)v->valuedouble;
    return true;
}

static bool int_field(struct model *j, const char *key, int64_t *out)
{
    const cJSON *v = field(j, key);
    if (!v)
        return OP_FAIL(j, NULL, "%s needs \"%s\"", j->kind, key);
    return whole(v, out) || OP_FAIL(j, key, "\"%s\" is a whole number", key);
}

/* A list of whole numbers. want < 0: any length. */
static bool ints_field(struct model *j, const char *key, int want, int *n, int64_t *out)
{
    const cJSON *v = field(j, key);
    *n = cJSON_GetArraySize(v);
    if (!v)
        return OP_FAIL(j, NULL, "%s needs \"%s\"", j->kind, key);
    if (!cJSON_IsArray(v) || *n > JSON_MAX_RANK)
        return OP_FAIL(j, key, "\"%s\" is a list of whole numbers, like [0, 1]", key);
    if (want >= 0 && *n != want)
        return OP_FAIL(j, key, "\"%s\" has %d numbers, not %d", key, *n, want);
    for (int k = 0; k < *n; k++)
        if (!whole(cJSON_GetArrayItem(v, k), &out[k]))
            return OP_FAIL(j, key, "\"%s\" is a list of whole numbers, like [0, 1]", key);
    return true;
}

/* Negative dimensions count from the end. */
static bool dim_field(struct model *j, const char *key, int rank, int64_t *out)
{
    if (!int_field(j, key, out))
        return false;
    if (*out < 0)
        *out += rank;
    if (*out >= 0 && *out < rank)
        return true;
    return OP_FAIL(j, key, "there is no such dimension: the operand has %d", rank);
}

static bool dims_field(struct model *j, const char *key, int rank, int *n, int64_t *out)
{
    if (!ints_field(j, key, -1, n, out))
        return false;
    uint64_t seen = 0;
    for (int k = 0; k < *n; k++) {
        if (out[k] < 0)
            out[k] += rank;
        if (out[k] < 0 || out[k] >= rank)
            return OP_FAIL(j, key, "there is no such dimension: the operand has %d", rank);
        if (seen >> out[k] & 1)
            return OP_FAIL(j, key, "dimension %" PRId64 " stands twice", out[k]);
        seen |= (uint64_t)1 << out[k];
    }
    return true;
}

static bool word_field(struct model *j, const char *key, const char **out)
{
    const cJSON *v = field(j, key);
    if (!cJSON_IsString(v))
        return OP_FAIL(j, v ? key : NULL, "%s needs \"%s\", a word", j->kind, key);
    *out = v->valuestring;
    return true;
}

static bool want_args(struct model *j, int n)
{
    return json_nargs(j) == n ||
           OP_FAIL(j, field(j, "args") ? "args" : NULL, "%s takes %d argument%s, not %d", j->kind,
                   n, n == 1 ? "" : "s", json_nargs(j));
}

/* The result must have the shape that the file gives. */
static bool gives(struct model *j, shape_id got)
{
    if (shape_same(j->c, got, j->shape))
        return true;
    struct str t = STR_IN(&j->tmp);
    shape_print(j->c, got, false, &t);
    return OP_FAIL(j, "shape", "this %s gives %s", j->kind, str_text(&t));
}

static const struct shape *shape_of(const struct model *j, instr_id i)
{
    return instr_shape(j->m, i);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

instr_id json_broadcast(struct model *j, const char *part, instr_id x, int n, const int64_t *dims,
                        shape_id out)
{
    struct attr a = attr_ints(j->m, ATTR_DIMENSIONS, n, dims);
    return json_emit(j, part, OP_BROADCAST, out, 1, &x, 1, &a);
}

/* Reductions call a computation of two scalars. */
static const struct {
    const char *word;
    enum op_kind op;
    const char *comp;
} reducers[] = {
    { "sum", OP_ADD, "sum" },        { "max", OP_MAXIMUM, "max" }, { "min", OP_MINIMUM, "min" },
    { "prod", OP_MULTIPLY, "prod" }, { "and", OP_AND, "all" },     { "or", OP_OR, "any" },
};

comp_id json_reducer(struct model *j, enum op_kind op, enum dtype t)
{
    uint64_t key = (uint64_t)op << 8 | (uint64_t)t, made;
    if (map_get(&j->reducers, key, &made))
        return (comp_id){ (uint32_t)made };
    const char *word = "reduce";
    for (size_t k = 0; k < COUNTOF(reducers); k++)
        if (reducers[k].op == op)
            word = reducers[k].comp;
    const char *name = arena_printf(&j->tmp, "%s_%s", word, dtype_name(t));
    comp_id c = comp_new(j->m, name_put(j->c, name, strlen(name)));
    map_put(&j->reducers, key, c.i);
    shape_id s = shape_array(j->c, t, 0, NULL);
    static const char *const names[] = { "a", "b", "c" };
    instr_id ab[3];
    for (int k = 0; k < 3; k++) {
        struct attr number = attr_int(ATTR_INDEX, k);
        ab[k] = k < 2 ? instr_new(j->m, c, OP_PARAMETER, s, 0, NULL, 1, &number)
                      : instr_new(j->m, c, op, s, 2, ab, 0, NULL);
        instr_at(j->m, ab[k])->name = name_put(j->c, names[k], 1);
    }
    comp_finish(j->m, c, ab[2]);
    return c;
}

static enum op_kind reducer_op(const char *word)
{
    for (size_t k = 0; k < COUNTOF(reducers); k++)
        if (strcmp(reducers[k].word, word) == 0)
            return reducers[k].op;
    return OP_NONE;
}

void json_reducers(struct model *j, const char *kind, const cJSON *op, enum dtype t)
{
    const cJSON *with = cJSON_GetObjectItemCaseSensitive(op, "with");
    enum op_kind r = cJSON_IsString(with) ? reducer_op(with->valuestring) : OP_NONE;
    if (strcmp(kind, "reduce") == 0 && r != OP_NONE)
        (void)json_reducer(j, r, t);
    if (strcmp(kind, "softmax") == 0)
        (void)json_reducer(j, OP_MAXIMUM, t);
    /* an einsum may have to sum; one too many is no harm, but none is made without need */
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(op, "einsum");
    bool lonely = false;
    if (cJSON_IsString(spec))
        for (const char *p = spec->valuestring; *p; p++)
            lonely = lonely || (*p != ',' && *p != '-' && *p != '>' &&
                                strchr(spec->valuestring, *p) == strrchr(spec->valuestring, *p));
    if (strcmp(kind, "softmax") == 0 || strcmp(kind, "mean") == 0 || lonely)
        (void)json_reducer(j, OP_ADD, t);
}

/* What a reduction starts from. */
static const struct literal *start_value(struct model *j, enum op_kind op, enum dtype t)
{
    bool is_float = dtype_kind(t) == DTYPE_KIND_FLOAT;
    int bits = dtype_bits(t);
    int64_t low = dtype_kind(t) == DTYPE_KIND_SIGNED ? -((int64_t)1 << (bits - 1)) : 0;
    int64_t high = dtype_kind(t) == DTYPE_KIND_PRED     ? 1
                   : dtype_kind(t) == DTYPE_KIND_SIGNED ? -(low + 1)
                   : bits == 64                         ? -1
                                                        : ((int64_t)1 << bits) - 1;
    if (op == OP_MAXIMUM)
        return is_float ? literal_scalar_f(j->m, t, -(double)INFINITY)
                        : literal_scalar_i(j->m, t, low);
    if (op == OP_MINIMUM)
        return is_float ? literal_scalar_f(j->m, t, (double)INFINITY)
                        : literal_scalar_i(j->m, t, high);
    int64_t v = op == OP_MULTIPLY || op == OP_AND;
    return is_float ? literal_scalar_f(j->m, t, (double)v) : literal_scalar_i(j->m, t, v);
}

instr_id json_reduce(struct model *j, const char *part, enum op_kind op, instr_id x, int n,
                     const int64_t *dims, shape_id out)
{
    enum dtype t = shape_of(j, x)->dtype;
    const char *zero = part ? arena_printf(&j->tmp, "%s.start", part) : "start";
    instr_id operands[2] = { x, json_emit(j, zero, OP_CONSTANT, shape_array(j->c, t, 0, NULL), 0,
                                          NULL, 0, NULL) };
    instr_at(j->m, operands[1])->literal = start_value(j, op, t);
    struct attr attrs[2] = { attr_ints(j->m, ATTR_DIMENSIONS, n, dims),
                             attr_comp(ATTR_TO_APPLY, json_reducer(j, op, t)) };
    return json_emit(j, part, OP_REDUCE, out, 2, operands, 2, attrs);
}

/* The shape of s without some dimensions; keep gets the others. */
static shape_id without(struct model *j, const struct shape *s, int n, const int64_t *gone,
                        int *nkeep, int64_t *keep)
{
    int64_t dims[JSON_MAX_RANK];
    *nkeep = 0;
    for (int d = 0; d < s->rank; d++) {
        bool drop = false;
        for (int k = 0; k < n; k++)
            drop = drop || gone[k] == d;
        if (drop)
            continue;
        dims[*nkeep] = s->dims[d];
        keep[(*nkeep)++] = d;
    }
    return shape_array(j->c, s->dtype, *nkeep, dims);
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool op_constant(struct model *j)
{
    const cJSON *v = field(j, "value");
    const char *word = cJSON_IsString(v) ? v->valuestring : "";
    bool special =
        strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0 || strcmp(word, "nan") == 0;
    if (!cJSON_IsNumber(v) && !special)
        return OP_FAIL(j, v ? "value" : NULL,
                       "a constant needs \"value\", a number, \"inf\", \"-inf\" or \"nan\"");
    enum dtype t = j->sh->dtype;
    bool is_float = dtype_kind(t) == DTYPE_KIND_FLOAT;
    if (!is_float && dtype_kind(t) == DTYPE_KIND_COMPLEX)
        return OP_FAIL(j, "shape", "a complex constant cannot be said here");
    double x = cJSON_IsNumber(v) ? v->valuedouble : strtod(word, NULL);
    if (!is_float && (special || x != floor(x) || fabs(x) > 9007199254740992.0))
        return OP_FAIL(j, "value", "a constant of type %s is a whole number", dtype_name(t));
    bool scalar = j->sh->rank == 0;
    instr_id c = json_emit(j, scalar ? NULL : "value", OP_CONSTANT, shape_array(j->c, t, 0, NULL),
                           0, NULL, 0, NULL);
    instr_at(j->m, c)->literal =
        is_float ? literal_scalar_f(j->m, t, x) : literal_scalar_i(j->m, t, (int64_t)x);
    if (!scalar)
        json_broadcast(j, NULL, c, 0, NULL, j->shape);
    return true;
}

static bool op_iota(struct model *j)
{
    int64_t d;
    if (!dim_field(j, "dim", j->sh->rank, &d))
        return false;
    struct attr a = attr_int(ATTR_IOTA_DIMENSION, d);
    json_emit(j, NULL, OP_IOTA, j->shape, 0, NULL, 1, &a);
    return true;
}

/* An argument of an elementwise operation: of the result's dims, or of its last ones, which are
 * then broadcast, as in NumPy. */
static bool elementwise_arg(struct model *j, int k, instr_id *x)
{
    if (!json_arg(j, k, x))
        return false;
    const struct shape *s = shape_of(j, *x);
    if (s->rank == j->sh->rank && shape_same_dims(j->c, instr_at(j->m, *x)->shape, j->shape))
        return true;
    int64_t dims[JSON_MAX_RANK];
    bool fits = s->rank < j->sh->rank;
    for (int d = 0; fits && d < s->rank; d++) {
        dims[d] = j->sh->rank - s->rank + d;
        fits = s->dims[d] == j->sh->dims[dims[d]];
    }
    if (!fits) {
        struct str t = STR_IN(&j->tmp);
        shape_print(j->c, instr_at(j->m, *x)->shape, false, &t);
        return OP_FAIL(j, "args",
                       "argument %d is %s: its dimensions are neither the result's nor its "
                       "last ones",
                       k, str_text(&t));
    }
    *x = json_broadcast(j, arena_printf(&j->tmp, "wide%d", k), *x, s->rank, dims,
                        shape_with_dtype(j->c, j->shape, s->dtype));
    return true;
}

static bool same_type(struct model *j, int k, instr_id x, enum dtype t)
{
    if (shape_of(j, x)->dtype == t)
        return true;
    return OP_FAIL(j, "args", "argument %d is of type %s, not %s: use \"convert\"", k,
                   dtype_name(shape_of(j, x)->dtype), dtype_name(t));
}

static bool op_elementwise(struct model *j, enum op_kind op, int n)
{
    instr_id x[3];
    if (!want_args(j, n))
        return false;
    for (int k = 0; k < n; k++)
        if (!elementwise_arg(j, k, &x[k]))
            return false;
    struct attr a;
    int na = 0;
    if (op == OP_COMPARE) {
        const char *word;
        static const char *const words[] = { "EQ", "NE", "LT", "LE", "GT", "GE" };
        bool known = false;
        if (!word_field(j, "direction", &word))
            return false;
        for (size_t k = 0; k < COUNTOF(words); k++)
            known = known || strcmp(words[k], word) == 0;
        if (!known)
            return OP_FAIL(j, "direction", "\"direction\" is EQ, NE, LT, LE, GT or GE");
        a = attr_ident(j->m, ATTR_DIRECTION, word);
        na = 1;
        if (j->sh->dtype != DTYPE_PRED)
            return OP_FAIL(j, "shape", "a compare gives pred");
        if (!same_type(j, 1, x[1], shape_of(j, x[0])->dtype))
            return false;
    } else if (op == OP_SELECT) {
        if (!same_type(j, 0, x[0], DTYPE_PRED) || !same_type(j, 1, x[1], j->sh->dtype) ||
            !same_type(j, 2, x[2], j->sh->dtype))
            return false;
    } else if (op != OP_CONVERT) {
        for (int k = 0; k < n; k++)
            if (!same_type(j, k, x[k], j->sh->dtype))
                return false;
    }
    json_emit(j, NULL, op, j->shape, n, x, na, &a);
    return true;
}

static bool op_relu(struct model *j)
{
    instr_id x[2];
    if (!want_args(j, 1) || !elementwise_arg(j, 0, &x[0]) || !same_type(j, 0, x[0], j->sh->dtype))
        return false;
    enum dtype t = j->sh->dtype;
    x[1] = json_emit(j, "zero", OP_CONSTANT, shape_array(j->c, t, 0, NULL), 0, NULL, 0, NULL);
    instr_at(j->m, x[1])->literal = dtype_kind(t) == DTYPE_KIND_FLOAT
                                        ? literal_scalar_f(j->m, t, 0)
                                        : literal_scalar_i(j->m, t, 0);
    if (j->sh->rank)
        x[1] = json_broadcast(j, "zeros", x[1], 0, NULL, j->shape);
    json_emit(j, NULL, OP_MAXIMUM, j->shape, 2, x, 0, NULL);
    return true;
}

static bool op_broadcast(struct model *j)
{
    instr_id x;
    int64_t dims[JSON_MAX_RANK];
    int n;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) ||
        !ints_field(j, "dims", shape_of(j, x)->rank, &n, dims))
        return false;
    const struct shape *s = shape_of(j, x);
    for (int d = 0; d < n; d++)
        if (dims[d] < 0 || dims[d] >= j->sh->rank || (d && dims[d] <= dims[d - 1]) ||
            s->dims[d] != j->sh->dims[dims[d]])
            return OP_FAIL(j, "dims",
                           "dimension %d of the operand cannot be dimension %" PRId64
                           " of the result",
                           d, dims[d]);
    if (!same_type(j, 0, x, j->sh->dtype))
        return false;
    json_broadcast(j, NULL, x, n, dims, j->shape);
    return true;
}

static bool op_reshape(struct model *j)
{
    instr_id x;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) || !same_type(j, 0, x, j->sh->dtype))
        return false;
    if (shape_of(j, x)->count != j->sh->count)
        return OP_FAIL(j, "shape", "a reshape of %" PRId64 " elements to %" PRId64,
                       shape_of(j, x)->count, j->sh->count);
    json_emit(j, NULL, OP_RESHAPE, j->shape, 1, &x, 0, NULL);
    return true;
}

static bool op_transpose(struct model *j)
{
    instr_id x;
    int64_t perm[JSON_MAX_RANK], dims[JSON_MAX_RANK];
    int n;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) ||
        !dims_field(j, "dims", shape_of(j, x)->rank, &n, perm))
        return false;
    const struct shape *s = shape_of(j, x);
    if (n != s->rank)
        return OP_FAIL(j, "dims", "\"dims\" has %d numbers, the operand %d dimensions", n, s->rank);
    for (int d = 0; d < n; d++)
        dims[d] = s->dims[perm[d]];
    if (!gives(j, shape_array(j->c, s->dtype, n, dims)))
        return false;
    struct attr a = attr_ints(j->m, ATTR_DIMENSIONS, n, perm);
    json_emit(j, NULL, OP_TRANSPOSE, j->shape, 1, &x, 1, &a);
    return true;
}

static bool op_reduce(struct model *j)
{
    instr_id x;
    int64_t dims[JSON_MAX_RANK], keep[JSON_MAX_RANK];
    int n, nkeep;
    const char *word;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) || !word_field(j, "with", &word) ||
        !dims_field(j, "dims", shape_of(j, x)->rank, &n, dims))
        return false;
    enum op_kind op = reducer_op(word);
    bool logical = op == OP_AND || op == OP_OR;
    if (op == OP_NONE || (logical && shape_of(j, x)->dtype != DTYPE_PRED))
        return OP_FAIL(j, "with", "\"with\" is sum, max, min, prod, or of pred: and, or");
    if (dtype_kind(j->sh->dtype) == DTYPE_KIND_COMPLEX)
        return OP_FAIL(j, "shape", "a reduction of complex numbers cannot be said here");
    if (!gives(j, without(j, shape_of(j, x), n, dims, &nkeep, keep)))
        return false;
    json_reduce(j, NULL, op, x, n, dims, j->shape);
    return true;
}

/* exp(x - max) / sum(exp(x - max)) along one dimension, as jax.nn.softmax writes it. */
static bool op_softmax(struct model *j)
{
    instr_id x, pair[2];
    int64_t dim, keep[JSON_MAX_RANK];
    int nkeep;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) ||
        !dim_field(j, "dim", shape_of(j, x)->rank, &dim) ||
        !gives(j, shape_strip(j->c, instr_at(j->m, x)->shape)))
        return false;
    if (dtype_kind(j->sh->dtype) != DTYPE_KIND_FLOAT)
        return OP_FAIL(j, "shape", "a softmax is of floats");
    shape_id less = without(j, j->sh, 1, &dim, &nkeep, keep);
    instr_id most = json_reduce(j, "max", OP_MAXIMUM, x, 1, &dim, less);
    pair[0] = x;
    pair[1] = json_broadcast(j, "max.wide", most, nkeep, keep, j->shape);
    instr_id shifted = json_emit(j, "shifted", OP_SUBTRACT, j->shape, 2, pair, 0, NULL);
    pair[0] = json_emit(j, "exp", OP_EXP, j->shape, 1, &shifted, 0, NULL);
    instr_id sum = json_reduce(j, "sum", OP_ADD, pair[0], 1, &dim, less);
    pair[1] = json_broadcast(j, "sum.wide", sum, nkeep, keep, j->shape);
    json_emit(j, NULL, OP_DIVIDE, j->shape, 2, pair, 0, NULL);
    return true;
}

static bool op_mean(struct model *j)
{
    instr_id x, pair[2];
    int64_t dims[JSON_MAX_RANK], keep[JSON_MAX_RANK], count = 1;
    int n, nkeep;
    if (!want_args(j, 1) || !json_arg(j, 0, &x) ||
        !dims_field(j, "dims", shape_of(j, x)->rank, &n, dims) ||
        !gives(j, without(j, shape_of(j, x), n, dims, &nkeep, keep)))
        return false;
    if (dtype_kind(j->sh->dtype) != DTYPE_KIND_FLOAT)
        return OP_FAIL(j, "shape", "a mean is of floats");
    for (int k = 0; k < n; k++)
        count *= shape_of(j, x)->dims[dims[k]];
    pair[0] = json_reduce(j, "sum", OP_ADD, x, n, dims, j->shape);
    pair[1] = json_emit(j, "count", OP_CONSTANT, shape_array(j->c, j->sh->dtype, 0, NULL), 0, NULL,
                        0, NULL);
    instr_at(j->m, pair[1])->literal = literal_scalar_f(j->m, j->sh->dtype, (double)count);
    if (j->sh->rank)
        pair[1] = json_broadcast(j, "counts", pair[1], 0, NULL, j->shape);
    json_emit(j, NULL, OP_DIVIDE, j->shape, 2, pair, 0, NULL);
    return true;
}

static bool op_concatenate(struct model *j)
{
    int n = json_nargs(j);
    int64_t dim, sum = 0, dims[JSON_MAX_RANK];
    if (n < 1)
        return OP_FAIL(j, "args", "concatenate needs arguments");
    instr_id *x = ARENA_ARRAY(&j->tmp, instr_id, n);
    if (!dim_field(j, "dim", j->sh->rank, &dim))
        return false;
    for (int k = 0; k < n; k++) {
        if (!json_arg(j, k, &x[k]) || !same_type(j, k, x[k], j->sh->dtype))
            return false;
        const struct shape *s = shape_of(j, x[k]);
        if (s->rank != j->sh->rank || !add_ok(sum, s->dims[dim], &sum))
            return OP_FAIL(j, "args", "argument %d has %d dimensions, the result %d", k, s->rank,
                           j->sh->rank);
        for (int d = 0; d < s->rank; d++)
            if (d != dim && s->dims[d] != j->sh->dims[d])
                return OP_FAIL(j, "args",
                               "argument %d has size %" PRId64 " in dimension %d, the "
                               "result %" PRId64,
                               k, s->dims[d], d, j->sh->dims[d]);
    }
    if (j->sh->rank)
        memcpy(dims, j->sh->dims, (size_t)j->sh->rank * sizeof *dims);
    dims[dim] = sum;
    if (!gives(j, shape_array(j->c, j->sh->dtype, j->sh->rank, dims)))
        return false;
    struct attr a = attr_ints(j->m, ATTR_DIMENSIONS, 1, &dim);
    json_emit(j, NULL, OP_CONCATENATE, j->shape, n, x, 1, &a);
    return true;
}

static bool op_slice(struct model *j)
{
    instr_id x;
    int64_t start[JSON_MAX_RANK], limit[JSON_MAX_RANK], stride[JSON_MAX_RANK], dims[JSON_MAX_RANK];
    int64_t all[3 * JSON_MAX_RANK];
    int n;
    if (!want_args(j, 1) || !json_arg(j, 0, &x))
        return false;
    const struct shape *s = shape_of(j, x);
    if (!ints_field(j, "start", s->rank, &n, start) || !ints_field(j, "limit", s->rank, &n, limit))
        return false;
    for (int d = 0; d < n; d++)
        stride[d] = 1;
    if (field(j, "stride") && !ints_field(j, "stride", s->rank, &n, stride))
        return false;
    for (int d = 0; d < n; d++) {
        if (start[d] < 0 || limit[d] < start[d] || limit[d] > s->dims[d] || stride[d] < 1)
            return OP_FAIL(j, "limit",
                           "dimension %d: [%" PRId64 ":%" PRId64 ":%" PRId64 "] of %" PRId64, d,
                           start[d], limit[d], stride[d], s->dims[d]);
        dims[d] = ceil_div(limit[d] - start[d], stride[d]);
        all[3 * d] = start[d];
        all[3 * d + 1] = limit[d];
        all[3 * d + 2] = stride[d];
    }
    if (!gives(j, shape_array(j->c, s->dtype, n, dims)))
        return false;
    struct attr a = attr_ints(j->m, ATTR_SLICE, 3 * n, all);
    json_emit(j, NULL, OP_SLICE, j->shape, 1, &x, 1, &a);
    return true;
}

static bool op_einsum(struct model *j)
{
    const char *spec;
    return word_field(j, "einsum", &spec) && json_einsum(j, spec);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    bool (*build)(struct model *j);
} builders[] = {
    { "einsum", op_einsum },       { "constant", op_constant },   { "iota", op_iota },
    { "relu", op_relu },           { "broadcast", op_broadcast }, { "reshape", op_reshape },
    { "transpose", op_transpose }, { "reduce", op_reduce },       { "softmax", op_softmax },
    { "mean", op_mean },           { "slice", op_slice },         { "concatenate", op_concatenate },
};

static bool unknown_op(struct model *j)
{
    OP_FAIL(j, "op", "no such operation: '%.60s'", j->kind);
    const char *best = op_nearest(j->kind, strlen(j->kind));
    int least = best ? edit_distance(j->kind, best, 3) : 4;
    for (size_t k = 0; k < COUNTOF(builders); k++) {
        int e = edit_distance(j->kind, builders[k].word, 3);
        if (e < least) {
            least = e;
            best = builders[k].word;
        }
    }
    if (best && least <= 3)
        diag_hint(j->d, "did you mean '%s'?", best);
    return false;
}

bool json_op(struct model *j)
{
    for (size_t k = 0; k < COUNTOF(builders); k++)
        if (strcmp(j->kind, builders[k].word) == 0)
            return builders[k].build(j);
    enum op_kind op = op_find(j->kind, strlen(j->kind));
    if (op == OP_COMPARE || op_is_elementwise_binary(op))
        return op_elementwise(j, op, 2);
    if (op == OP_SELECT)
        return op_elementwise(j, op, 3);
    if (op == OP_CONVERT ||
        (op_is_elementwise_unary(op) && op != OP_REAL && op != OP_IMAG &&
         op != OP_BITCAST_CONVERT && op != OP_IS_FINITE && op != OP_REDUCE_PRECISION))
        return op_elementwise(j, op, 1);
    return unknown_op(j);
}
