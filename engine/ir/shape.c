/* Shapes: interning, measures, printing. A shape is known by a key of its parts; each shape also
 * carries the ids of its simplified forms, so that comparing two shapes up to layout or element type
 * is a comparison of ids, however deep they nest. */
#include "ir/ir.h"

#include <string.h>

#include "base/fail.h"

enum { MAX_RANK = 64, SMALL = 64 };

const struct shape *shape_get(const struct ir *c, shape_id s)
{
    return paged_at(&c->shapes, s.i);
}

/* The entry of a key; *fresh says that it has to be filled in. */
static struct shape *put(struct ir *c, const void *key, size_t len, shape_id *id, bool *fresh)
{
    id->i = intern_put(&c->shape_keys, key, len);
    *fresh = id->i == c->shapes.n;
    if (*fresh) {
        uint32_t at = paged_add(&c->shapes);
        INVARIANT(at == id->i, "shape table and its keys differ");
    }
    return paged_at(&c->shapes, id->i);
}

/* ---- arrays, tokens, opaques ------------------------------------------------------------------- */

/* Key: three words, then the dims, which the shape borrows. */
static shape_id leaf(struct ir *c, enum shape_kind kind, enum dtype t, int rank,
                     const int64_t *dims, uint64_t dynamic, name_id layout)
{
    uint64_t key[3 + MAX_RANK];
    INVARIANT(rank >= 0 && rank <= MAX_RANK, "shape of rank %d", rank);
    key[0] = (uint64_t)kind | (uint64_t)t << 8 | (uint64_t)rank << 16;
    key[1] = layout.i;
    key[2] = dynamic;
    if (rank)
        memcpy(key + 3, dims, (size_t)rank * sizeof *dims);
    shape_id id;
    bool fresh;
    struct shape *s = put(c, key, (3 + (size_t)rank) * sizeof *key, &id, &fresh);
    if (!fresh)
        return id;
    s->kind = kind;
    s->dtype = t;
    s->rank = rank;
    s->dims = (const int64_t *)intern_at(&c->shape_keys, id.i)->bytes + 3;
    s->dynamic = dynamic;
    s->layout = layout;
    s->nleaves = 1;
    if (kind == SHAPE_ARRAY) {
        if (!product_ok(s->dims, rank, &s->count))
            s->count = -1;
        if (s->count < 0 || !mul_ok(s->count, dtype_bytes(t), &s->bytes))
            s->bytes = -1;
    }
    name_id none = { 0 };
    s->strip = layout.i ? leaf(c, kind, t, rank, dims, dynamic, none) : id;
    s->same = layout.i || dynamic ? leaf(c, kind, t, rank, dims, 0, none) : id;
    s->skeleton = layout.i || dynamic || t != DTYPE_NONE
                      ? leaf(c, kind, DTYPE_NONE, rank, dims, 0, none)
                      : id;
    return id;
}

shape_id shape_array_full(struct ir *c, enum dtype t, int rank, const int64_t *dims,
                          uint64_t dynamic, name_id layout)
{
    return leaf(c, SHAPE_ARRAY, t, rank, dims, dynamic, layout);
}

shape_id shape_array(struct ir *c, enum dtype t, int rank, const int64_t *dims)
{
    return leaf(c, SHAPE_ARRAY, t, rank, dims, 0, (name_id){ 0 });
}

shape_id shape_token(struct ir *c)
{
    return leaf(c, SHAPE_TOKEN, DTYPE_NONE, 0, NULL, 0, (name_id){ 0 });
}

shape_id shape_opaque(struct ir *c, name_id layout_or_none)
{
    return leaf(c, SHAPE_OPAQUE, DTYPE_NONE, 0, NULL, 0, layout_or_none);
}

/* ---- tuples ------------------------------------------------------------------------------------ */

static void measure_tuple(struct ir *c, struct shape *s)
{
    bool nested = false;
    for (int64_t i = 0; i < s->nelems; i++) {
        const struct shape *e = shape_get(c, s->elems[i]);
        nested |= e->kind == SHAPE_TUPLE;
        s->nleaves += e->nleaves;
        if (s->bytes < 0 || e->bytes < 0 || !add_ok(s->bytes, e->bytes, &s->bytes))
            s->bytes = -1;
    }
    if (!nested)
        return;
    int64_t *start = ARENA_ARRAY(&c->arena, int64_t, s->nelems + 1);
    for (int64_t i = 0; i < s->nelems; i++)
        start[i + 1] = start[i] + shape_get(c, s->elems[i])->nleaves;
    s->leaf_start = start;
}

enum form { FORM_STRIP, FORM_SAME, FORM_SKELETON };

static shape_id form_of(const struct ir *c, shape_id s, enum form f)
{
    const struct shape *p = shape_get(c, s);
    switch (f) {
    case FORM_STRIP: return p->strip;
    case FORM_SAME: return p->same;
    case FORM_SKELETON: return p->skeleton;
    }
    return s;
}

/* The same tuple of its elements' simplified forms. Those are their own simplified forms, so the
 * call of shape_tuple below does not come here again: the depth is bounded. */
static shape_id simplified(struct ir *c, shape_id tuple, enum form f)
{
    const struct shape *s = shape_get(c, tuple);
    int64_t i = 0;
    while (i < s->nelems && form_of(c, s->elems[i], f).i == s->elems[i].i)
        i++;
    if (i == s->nelems)
        return tuple;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    shape_id *elems = ARENA_ARRAY(&tmp, shape_id, s->nelems);
    for (i = 0; i < s->nelems; i++)
        elems[i] = form_of(c, s->elems[i], f);
    shape_id r = shape_tuple(c, s->nelems, elems);
    arena_close(&tmp);
    return r;
}

static shape_id tuple_of_key(struct ir *c, int64_t n, const uint32_t *key)
{
    shape_id id;
    bool fresh;
    struct shape *s = put(c, key, ((size_t)n + 1) * sizeof *key, &id, &fresh);
    if (!fresh)
        return id;
    s->kind = SHAPE_TUPLE;
    s->nelems = n;
    s->elems = (const shape_id *)intern_at(&c->shape_keys, id.i)->bytes + 1;
    s->dims = (const int64_t *)intern_at(&c->shape_keys, id.i)->bytes; /* rank 0: never read */
    measure_tuple(c, s);
    s->strip = s->same = s->skeleton = id;
    s->strip = simplified(c, id, FORM_STRIP);
    s->same = simplified(c, id, FORM_SAME);
    s->skeleton = simplified(c, id, FORM_SKELETON);
    return id;
}

shape_id shape_tuple(struct ir *c, int64_t n, const shape_id *elems)
{
    INVARIANT(n >= 0 && n < UINT32_MAX / 8, "tuple of %" PRId64 " elements", n);
    uint32_t small[1 + SMALL];
    struct arena tmp = { 0 };
    uint32_t *key = small;
    if (n > SMALL) {
        arena_open(&tmp);
        key = ARENA_ARRAY(&tmp, uint32_t, n + 1);
    }
    key[0] = SHAPE_TUPLE;
    for (int64_t i = 0; i < n; i++)
        key[i + 1] = elems[i].i;
    shape_id id = tuple_of_key(c, n, key);
    if (n > SMALL)
        arena_close(&tmp);
    return id;
}

/* ---- forms and comparison ---------------------------------------------------------------------- */

shape_id shape_strip(struct ir *c, shape_id s)
{
    return shape_get(c, s)->strip;
}

bool shape_same_dims(const struct ir *c, shape_id a, shape_id b)
{
    return shape_get(c, a)->skeleton.i == shape_get(c, b)->skeleton.i;
}

bool shape_same(const struct ir *c, shape_id a, shape_id b)
{
    return shape_get(c, a)->same.i == shape_get(c, b)->same.i;
}

/* One tuple that is being walked: the element to go on with. */
struct level {
    shape_id tuple;
    int64_t next;
};

typedef VEC(struct level) level_vec;

/* All arrays of s get the element type. Tuples are put together bottom up on an explicit stack. */
shape_id shape_with_dtype(struct ir *c, shape_id s, enum dtype t)
{
    const struct shape *p = shape_get(c, s);
    if (p->kind == SHAPE_ARRAY)
        return shape_array_full(c, t, p->rank, p->dims, p->dynamic, p->layout);
    if (p->kind != SHAPE_TUPLE)
        return s;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    level_vec stack = { 0 };
    VEC(shape_id) done = { 0 };
    vec_push(&tmp, &stack, ((struct level){ s, 0 }));
    while (stack.n) {
        struct level *top = &stack.v[stack.n - 1];
        const struct shape *u = shape_get(c, top->tuple);
        if (top->next == u->nelems) {
            done.n -= u->nelems;
            shape_id r = shape_tuple(c, u->nelems, done.v ? done.v + done.n : NULL);
            vec_push(&tmp, &done, r);
            stack.n--;
            continue;
        }
        shape_id e = u->elems[top->next++];
        if (shape_get(c, e)->kind == SHAPE_TUPLE)
            vec_push(&tmp, &stack, ((struct level){ e, 0 }));
        else
            vec_push(&tmp, &done, shape_with_dtype(c, e, t));
    }
    shape_id r = done.v[0];
    arena_close(&tmp);
    return r;
}

/* ---- leaves ------------------------------------------------------------------------------------ */

int64_t shape_leaf_offset(const struct ir *c, shape_id tuple, int64_t i)
{
    const struct shape *s = shape_get(c, tuple);
    return s->leaf_start ? s->leaf_start[i] : i;
}

/* The last element that starts at or before leaf k and is not empty. */
static int64_t elem_of_leaf(const struct shape *s, int64_t k)
{
    int64_t lo = 0, hi = s->nelems;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (s->leaf_start[mid] <= k)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

shape_id shape_leaf(const struct ir *c, shape_id s, int64_t k)
{
    for (;;) {
        const struct shape *p = shape_get(c, s);
        if (p->kind != SHAPE_TUPLE)
            return s;
        INVARIANT(k >= 0 && k < p->nleaves, "leaf %" PRId64 " of %" PRId64, k, p->nleaves);
        if (!p->leaf_start)
            return p->elems[k];
        int64_t e = elem_of_leaf(p, k);
        k -= p->leaf_start[e];
        s = p->elems[e];
    }
}

/* ---- printing ---------------------------------------------------------------------------------- */

static void print_leaf(const struct ir *c, const struct shape *s, bool with_layout, struct str *out)
{
    if (s->kind == SHAPE_TOKEN || s->kind == SHAPE_OPAQUE) {
        str_adds(out, s->kind == SHAPE_TOKEN ? "token[]" : "opaque[]");
    } else {
        str_adds(out, dtype_name(s->dtype));
        str_addc(out, '[');
        for (int d = 0; d < s->rank; d++) {
            if (d)
                str_addc(out, ',');
            if (s->dynamic >> d & 1)
                str_add(out, "<=", 2);
            str_addi(out, s->dims[d]);
        }
        str_addc(out, ']');
    }
    if (with_layout && s->layout.i) {
        str_addc(out, '{');
        str_add(out, name_text(c, s->layout), name_len(c, s->layout));
        str_addc(out, '}');
    }
}

static void print_tuple(const struct ir *c, shape_id s, bool with_layout, struct str *out)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    level_vec stack = { 0 };
    vec_push(&tmp, &stack, ((struct level){ s, 0 }));
    str_addc(out, '(');
    while (stack.n) {
        struct level *top = &stack.v[stack.n - 1];
        const struct shape *u = shape_get(c, top->tuple);
        if (top->next == u->nelems) {
            str_addc(out, ')');
            stack.n--;
            continue;
        }
        int64_t i = top->next++;
        if (i)
            str_add(out, ", ", 2);
        if (i && i % 5 == 0)
            str_addf(out, "/*index=%" PRId64 "*/", i);
        const struct shape *e = shape_get(c, u->elems[i]);
        if (e->kind != SHAPE_TUPLE) {
            print_leaf(c, e, with_layout, out);
            continue;
        }
        shape_id nested = u->elems[i];
        vec_push(&tmp, &stack, ((struct level){ nested, 0 }));
        str_addc(out, '(');
    }
    arena_close(&tmp);
}

void shape_print(const struct ir *c, shape_id s, bool with_layout, struct str *out)
{
    const struct shape *p = shape_get(c, s);
    if (p->kind == SHAPE_TUPLE)
        print_tuple(c, s, with_layout, out);
    else if (p->kind == SHAPE_NONE)
        str_adds(out, "?");
    else
        print_leaf(c, p, with_layout, out);
}

static shape_id with_layouts(struct ir *c, shape_id s, shape_id of, int depth)
{
    const struct shape *a = shape_get(c, s), *b = shape_get(c, of);
    if (a->kind == SHAPE_ARRAY && b->kind == SHAPE_ARRAY && a->rank == b->rank && b->layout.i)
        return shape_array_full(c, a->dtype, a->rank, a->dims, a->dynamic, b->layout);
    if (a->kind != SHAPE_TUPLE || b->kind != SHAPE_TUPLE || a->nelems != b->nelems || depth == 16)
        return s;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    shape_id *v = ARENA_ARRAY(&tmp, shape_id, a->nelems + 1);
    for (int64_t i = 0; i < a->nelems; i++)
        v[i] = with_layouts(c, a->elems[i], b->elems[i], depth + 1);
    s = shape_tuple(c, a->nelems, v);
    arena_close(&tmp);
    return s;
}

shape_id shape_with_layouts(struct ir *c, shape_id s, shape_id of)
{
    return s.i == of.i ? s : with_layouts(c, s, of, 0);
}
