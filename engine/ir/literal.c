/* Constants: values in memory, one element at a time, and their text. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "ir/internal.h"

static const struct shape *shape_of(const struct module *m, const struct literal *l)
{
    return shape_get(m->ir, l->shape);
}

/* ---- making ------------------------------------------------------------------------------------ */

const struct literal *literal_new(struct module *m, shape_id shape, const void *data)
{
    const struct shape *s = shape_get(m->ir, shape);
    INVARIANT(s->kind == SHAPE_ARRAY && s->bytes >= 0, "a literal needs an array that fits");
    struct literal *l = ARENA_NEW(&m->arena, struct literal);
    l->shape = s->strip;
    l->data = arena_copy(&m->arena, data, s->bytes, 1);
    return l;
}

static void store_int(enum dtype t, int64_t v, void *p)
{
    if (dtype_kind(t) == DTYPE_KIND_PRED)
        v = v != 0;
    int bits = dtype_bits(t);
    if (bits < 8) { /* one a byte, sign-extended */
        int shift = 64 - bits;
        v = dtype_kind(t) == DTYPE_KIND_SIGNED ? (int64_t)((uint64_t)v << shift) >> shift
                                               : v & ((1 << bits) - 1);
    }
    uint64_t u = (uint64_t)v;
    uint8_t one = (uint8_t)u;
    uint16_t two = (uint16_t)u;
    uint32_t four = (uint32_t)u;
    switch (dtype_bytes(t)) {
    case 1: memcpy(p, &one, 1); break;
    case 2: memcpy(p, &two, 2); break;
    case 4: memcpy(p, &four, 4); break;
    case 8: memcpy(p, &u, 8); break;
    default: INVARIANT(false, "%s is no integer type", dtype_name(t));
    }
}

static enum dtype part_type(enum dtype complex)
{
    return complex == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
}

const struct literal *literal_scalar_f(struct module *m, enum dtype t, double v)
{
    char data[16] = { 0 };
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT)
        float_store(t, v, data);
    else if (k == DTYPE_KIND_COMPLEX)
        float_store(part_type(t), v, data);
    else
        store_int(t, (int64_t)v, data);
    return literal_new(m, shape_array(m->ir, t, 0, NULL), data);
}

const struct literal *literal_scalar_i(struct module *m, enum dtype t, int64_t v)
{
    char data[16] = { 0 };
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX)
        return literal_scalar_f(m, t, (double)v);
    store_int(t, v, data);
    return literal_new(m, shape_array(m->ir, t, 0, NULL), data);
}

const struct literal *literal_tuple(struct module *m, int64_t n, const struct literal *const *elems)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    shape_id *shapes = ARENA_ARRAY(&tmp, shape_id, n);
    for (int64_t i = 0; i < n; i++)
        shapes[i] = elems[i]->shape;
    struct literal *l = ARENA_NEW(&m->arena, struct literal);
    l->shape = shape_tuple(m->ir, n, shapes);
    l->nelems = n;
    l->elems = arena_copy(&m->arena, elems, n, sizeof *elems);
    arena_close(&tmp);
    return l;
}

/* ---- copying and comparing: explicit stacks, tuples may nest deeply ----------------------------- */

/* An element is a loan until its own turn comes, then it is replaced by its copy. */
typedef VEC(struct literal *) literal_vec;

static struct literal *copy_flat(struct module *m, const struct literal *l)
{
    struct literal *r = arena_copy(&m->arena, l, 1, sizeof *l);
    if (l->data)
        r->data = arena_copy(&m->arena, l->data, shape_of(m, l)->bytes, 1);
    return r;
}

const struct literal *literal_copy(struct module *m, const struct literal *l)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    literal_vec todo = { 0 };
    struct literal *top = copy_flat(m, l);
    vec_push(&tmp, &todo, top);
    while (todo.n) {
        struct literal *t = todo.v[--todo.n];
        if (!t->elems)
            continue;
        const struct literal **elems = ARENA_ARRAY(&m->arena, const struct literal *, t->nelems);
        for (int64_t i = 0; i < t->nelems; i++) {
            struct literal *e = copy_flat(m, t->elems[i]);
            elems[i] = e;
            vec_push(&tmp, &todo, e);
        }
        t->elems = elems;
    }
    arena_close(&tmp);
    return top;
}

/* ---- elements ---------------------------------------------------------------------------------- */

static const char *element(const struct module *m, const struct literal *l, int64_t i,
                           enum dtype *t)
{
    const struct shape *s = shape_of(m, l);
    INVARIANT(l->data && s->kind == SHAPE_ARRAY, "a literal without values");
    INVARIANT(i >= 0 && i < s->count, "element %" PRId64 " of %" PRId64, i, s->count);
    *t = s->dtype;
    return (const char *)l->data + i * dtype_bytes(s->dtype);
}

static int64_t load_int(enum dtype t, const char *p)
{
    bool sign = dtype_kind(t) == DTYPE_KIND_SIGNED;
    uint8_t one;
    uint16_t two;
    uint32_t four;
    int64_t eight;
    switch (dtype_bytes(t)) {
    case 1: memcpy(&one, p, 1); return sign ? (int8_t)one : one;
    case 2: memcpy(&two, p, 2); return sign ? (int16_t)two : two;
    case 4: memcpy(&four, p, 4); return sign ? (int32_t)four : (int64_t)four;
    default: memcpy(&eight, p, 8); return eight;
    }
}

static int64_t int_of_double(double v)
{
    if (isnan(v))
        return 0;
    if (v >= 9223372036854775808.0)
        return INT64_MAX;
    return v <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

int64_t literal_get_i(const struct module *m, const struct literal *l, int64_t i)
{
    enum dtype t;
    const char *p = element(m, l, i, &t);
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT)
        return int_of_double(float_load(t, p));
    if (k == DTYPE_KIND_COMPLEX)
        return int_of_double(float_load(part_type(t), p));
    return load_int(t, p);
}

double literal_get_f(const struct module *m, const struct literal *l, int64_t i)
{
    enum dtype t;
    const char *p = element(m, l, i, &t);
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT)
        return float_load(t, p);
    if (k == DTYPE_KIND_COMPLEX)
        return float_load(part_type(t), p);
    int64_t v = load_int(t, p);
    return t == DTYPE_U64 ? (double)(uint64_t)v : (double)v;
}

bool literal_is_all(const struct module *m, const struct literal *l, double v)
{
    const struct shape *s = shape_of(m, l);
    if (s->kind != SHAPE_ARRAY || !l->data)
        return false;
    bool complex = dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX;
    enum dtype part = complex ? part_type(s->dtype) : DTYPE_NONE;
    for (int64_t i = 0; i < s->count; i++) {
        if (literal_get_f(m, l, i) != v)
            return false;
        const char *p = (const char *)l->data + i * dtype_bytes(s->dtype);
        if (complex && float_load(part, p + dtype_bytes(part)) != 0)
            return false;
    }
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------- */

static void print_float(enum dtype t, const char *p, struct str *out)
{
    double v = float_load(t, p);
    float_print(t, v, out);
    uint64_t payload = isnan(v) ? float_nan_payload(t, p) : 0;
    if (payload)
        str_addf(out, "(0x%" PRIx64 ")", payload);
}

static void print_element(const struct shape *s, const char *p, struct str *out)
{
    switch (dtype_kind(s->dtype)) {
    case DTYPE_KIND_PRED:
        if (s->rank)
            str_addc(out, *p ? '1' : '0');
        else
            str_adds(out, *p ? "true" : "false");
        break;
    case DTYPE_KIND_SIGNED: str_addi(out, load_int(s->dtype, p)); break;
    case DTYPE_KIND_UNSIGNED:
        str_addf(out, "%" PRIu64, (uint64_t)load_int(s->dtype, p));
        break;
    case DTYPE_KIND_FLOAT: print_float(s->dtype, p, out); break;
    case DTYPE_KIND_COMPLEX:
        str_addc(out, '(');
        print_float(part_type(s->dtype), p, out);
        str_add(out, ", ", 2);
        print_float(part_type(s->dtype), p + dtype_bytes(s->dtype) / 2, out);
        str_addc(out, ')');
        break;
    case DTYPE_KIND_NONE: break;
    }
}

/* A dimension's braces: `{1, 2}` in a vector, `{ {1}, {2} }` and `{ { 1, 2 } }` in a matrix. The
 * depth is the rank's, at most 64. */
static const char *print_dim(const struct shape *s, int dim, const char *p, struct str *out)
{
    if (dim == s->rank) {
        print_element(s, p, out);
        return p + dtype_bytes(s->dtype);
    }
    bool last = dim == s->rank - 1;
    const char *space = last && (s->rank == 1 || s->dims[dim] <= 1) ? "" : " ";
    str_addc(out, '{');
    str_adds(out, space);
    for (int64_t i = 0; i < s->dims[dim]; i++) {
        if (i)
            str_add(out, ", ", 2);
        p = print_dim(s, dim + 1, p, out);
    }
    str_adds(out, space);
    str_addc(out, '}');
    return p;
}

/* An array without elements prints a brace pair for each row that it has not: not millions. */
static bool printable(const struct shape *s)
{
    int64_t rows = 1;
    for (int d = 0; d < s->rank && s->dims[d]; d++)
        if (!mul_ok(rows, s->dims[d], &rows) || (s->count == 0 && rows > 1000000))
            return false;
    return true;
}

static void print_array(const struct module *m, const struct literal *l, struct str *out)
{
    const struct shape *s = shape_of(m, l);
    if (l->elided || (!l->data && s->count != 0) || !printable(s))
        str_adds(out, "{...}");
    else
        (void)print_dim(s, 0, l->data, out);
}

struct print_level {
    const struct literal *tuple;
    int64_t next;
};

void literal_print(const struct module *m, const struct literal *l, struct str *out)
{
    if (shape_of(m, l)->kind != SHAPE_TUPLE) {
        print_array(m, l, out);
        return;
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    VEC(struct print_level) stack = { 0 };
    vec_push(&tmp, &stack, ((struct print_level){ l, 0 }));
    str_add(out, "( ", 2);
    while (stack.n) {
        struct print_level *top = &stack.v[stack.n - 1];
        if (top->next == top->tuple->nelems) {
            str_add(out, " )", 2);
            stack.n--;
            continue;
        }
        if (top->next)
            str_add(out, ", ", 2);
        const struct literal *e = top->tuple->elems[top->next++];
        if (shape_of(m, e)->kind != SHAPE_TUPLE) {
            print_array(m, e, out);
            continue;
        }
        str_add(out, "( ", 2);
        vec_push(&tmp, &stack, ((struct print_level){ e, 0 }));
    }
    arena_close(&tmp);
}
