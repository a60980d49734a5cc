/* Reading shapes: f32[8,<=16]{1,0:T(8,128)}, (f32[2], /\*index=1*\/s32[]), token[], opaque[].
 * Nesting is kept on an explicit stack: its depth is the input's choice. */
#include "ir/ir.h"

#include <string.h>
#include <strings.h>

struct reader {
    struct ir *ir;
    const struct source *src;
    uint32_t off; /* of p in src */
    const char *p;
    size_t n, at;
    struct diag *d;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char look(const struct reader *r)
{
    return r->at < r->n ? r->p[r->at] : '\0';
}

static struct span here(const struct reader *r, size_t from, size_t len)
{
    return (struct span){ r->off + (uint32_t)from, (uint32_t)(len ? len : 1) };
}

static bool fail_end(const struct reader *r)
{
    return diag_error(r->d, r->src, here(r, r->n, 1), "unexpected end of input inside a shape");
}

/* Blanks and comments. An unclosed comment runs to the end, where the caller complains. */
static void skip(struct reader *r)
{
    while (r->at < r->n) {
        char c = r->p[r->at];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            r->at++;
        } else if (c == '/' && r->at + 1 < r->n && r->p[r->at + 1] == '*') {
            size_t i = r->at + 2;
            while (i + 1 < r->n && !(r->p[i] == '*' && r->p[i + 1] == '/'))
                i++;
            r->at = i + 1 < r->n ? i + 2 : r->n;
        } else {
            return;
        }
    }
}

/* ---- element type ------------------------------------------------------------------------------ */

/* What other texts call the types. */
static const char *other_name(const char *word)
{
    static const char *const same[][2] = {
        { "float", "f32" },      { "float32", "f32" },     { "fp32", "f32" },        { "float64", "f64" },
        { "double", "f64" },     { "fp64", "f64" },        { "float16", "f16" },     { "half", "f16" },
        { "fp16", "f16" },       { "bfloat16", "bf16" },   { "bfloat", "bf16" },     { "bool", "pred" },
        { "i1", "pred" },        { "i4", "s4" },           { "i8", "s8" },           { "i16", "s16" },
        { "i32", "s32" },        { "i64", "s64" },         { "int4", "s4" },         { "int8", "s8" },
        { "int16", "s16" },      { "int", "s32" },         { "int32", "s32" },       { "int64", "s64" },
        { "ui4", "u4" },         { "ui8", "u8" },          { "ui16", "u16" },        { "ui32", "u32" },
        { "ui64", "u64" },       { "uint8", "u8" },        { "uint16", "u16" },      { "uint32", "u32" },
        { "uint64", "u64" },     { "complex64", "c64" },   { "complex", "c64" },     { "complex128", "c128" },
        { "float8_e4m3fn", "f8e4m3fn" }, { "float8_e5m2", "f8e5m2" },
    };
    for (size_t i = 0; i < COUNTOF(same); i++)
        if (strcasecmp(word, same[i][0]) == 0)
            return same[i][1];
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (strcasecmp(word, dtype_name((enum dtype)t)) == 0)
            return dtype_name((enum dtype)t);
    return NULL;
}

static const char *nearest_dtype(const char *word)
{
    const char *best = other_name(word);
    if (best)
        return best;
    int least = 3;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        int e = edit_distance(word, dtype_name((enum dtype)t), 3);
        if (e < least) {
            least = e;
            best = dtype_name((enum dtype)t);
        }
    }
    return best;
}

static bool fail_dtype(const struct reader *r, size_t from, size_t len)
{
    char word[32];
    size_t k = len < sizeof word - 1 ? len : sizeof word - 1;
    memcpy(word, r->p + from, k);
    word[k] = '\0';
    if (len == 0)
        return diag_error(r->d, r->src, here(r, from, 1), "expected a shape, like f32[8,4]");
    diag_error(r->d, r->src, here(r, from, len), "no such element type: '%s'", word);
    const char *near = nearest_dtype(word);
    if (near)
        diag_hint(r->d, "did you mean '%s'?", near);
    return false;
}

/* ---- dimensions -------------------------------------------------------------------------------- */

/* One size, `8`, `<=16`. The text of a wrong one is quoted whole. */
static bool read_dim(struct reader *r, int64_t *size, bool *dynamic)
{
    *dynamic = false;
    if (look(r) == '<' && r->at + 1 < r->n && r->p[r->at + 1] == '=') {
        *dynamic = true;
        r->at += 2;
        skip(r);
    }
    size_t from = r->at;
    int64_t v = 0;
    bool fits = true;
    while (r->at < r->n && is_digit(r->p[r->at])) {
        fits = fits && mul_ok(v, 10, &v) && add_ok(v, r->p[r->at] - '0', &v);
        r->at++;
    }
    if (r->at > from) {
        *size = v;
        if (fits)
            return true;
        return diag_error(r->d, r->src, here(r, from, r->at - from),
                          "dimension size %.*s does not fit in 64 bits",
                          (int)min_i64((int64_t)(r->at - from), 60), r->p + from);
    }
    if (r->at >= r->n)
        return fail_end(r);
    size_t end = from;
    if (r->p[end] == '-')
        for (end++; end < r->n && is_digit(r->p[end]); end++)
            ;
    if (end > from + 1)
        return diag_error(r->d, r->src, here(r, from, end - from),
                          "dimension size %.*s is negative", (int)min_i64((int64_t)(end - from), 60),
                          r->p + from);
    if (r->p[from] == '?')
        return diag_error(r->d, r->src, here(r, from, 1),
                          "dimension size '?': a dynamic dimension needs a bound, like <=8");
    return diag_error(r->d, r->src, here(r, from, 1), "expected a dimension size");
}

enum { MAX_RANK = 64 };

static bool read_dims(struct reader *r, int *rank, int64_t *dims, uint64_t *dynamic)
{
    *rank = 0;
    *dynamic = 0;
    r->at++; /* [ */
    skip(r);
    if (look(r) == ']') {
        r->at++;
        return true;
    }
    for (;;) {
        if (*rank == MAX_RANK)
            return diag_error(r->d, r->src, here(r, r->at, 1), "more than %d dimensions", MAX_RANK);
        bool dyn;
        skip(r);
        if (!read_dim(r, &dims[*rank], &dyn))
            return false;
        *dynamic |= (uint64_t)dyn << *rank;
        (*rank)++;
        skip(r);
        char c = look(r);
        r->at++;
        if (c == ']')
            return true;
        if (c == ',')
            continue;
        r->at--;
        if (r->at >= r->n)
            return fail_end(r);
        return diag_error(r->d, r->src, here(r, r->at, 1),
                          "expected ',' or ']' after a dimension size");
    }
}

/* ---- layout ------------------------------------------------------------------------------------ */

/* The dimension order in front of the tiles must name each dimension once. */
static bool check_order(const struct reader *r, size_t from, size_t to, int rank)
{
    uint64_t seen = 0;
    int n = 0;
    size_t i = from;
    while (i < to && r->p[i] != ':') {
        if (r->p[i] == ' ' || r->p[i] == ',') {
            i++;
            continue;
        }
        size_t start = i;
        int64_t v = 0;
        while (i < to && is_digit(r->p[i]) && v < MAX_RANK)
            v = v * 10 + (r->p[i++] - '0');
        if (i == start)
            return diag_error(r->d, r->src, here(r, i, 1), "unexpected character in a layout");
        if (v >= rank || seen >> v & 1)
            return diag_error(r->d, r->src, here(r, start, i - start),
                              v >= rank ? "the layout names dimension %" PRId64 " of a shape of rank %d"
                                        : "the layout names dimension %" PRId64
                                          " twice (rank %d)",
                              v, rank);
        seen |= (uint64_t)1 << v;
        n++;
    }
    if (n && n != rank)
        return diag_error(r->d, r->src, here(r, from, to - from),
                          "the layout orders %d dimensions of a shape of rank %d", n, rank);
    return true;
}

/* A `{` right behind the brackets is a layout when it begins like one; `f32[] {` opens a body. */
static bool layout_follows(const struct reader *r)
{
    if (look(r) != '{')
        return false;
    size_t i = r->at + 1;
    while (i < r->n && r->p[i] == ' ')
        i++;
    return i < r->n && (is_digit(r->p[i]) || r->p[i] == ':' || r->p[i] == '}');
}

static bool read_layout(struct reader *r, int rank, name_id *layout)
{
    size_t from = r->at + 1, i = from;
    int depth = 1;
    for (; i < r->n; i++) {
        depth += r->p[i] == '{' ? 1 : r->p[i] == '}' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (i >= r->n)
        return diag_error(r->d, r->src, here(r, r->at, 1), "this layout's '{' is never closed");
    if (!check_order(r, from, i, rank))
        return false;
    *layout = name_put(r->ir, r->p + from, i - from);
    r->at = i + 1;
    return true;
}

/* ---- leaves and tuples ------------------------------------------------------------------------- */

static bool word_is(const struct reader *r, size_t from, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(r->p + from, word, len) == 0;
}

static bool read_leaf(struct reader *r, shape_id *out)
{
    size_t from = r->at;
    while (r->at < r->n && is_word(r->p[r->at]))
        r->at++;
    size_t len = r->at - from;
    if (len == 0 && r->at >= r->n)
        return fail_end(r);
    bool token = word_is(r, from, len, "token"), opaque = word_is(r, from, len, "opaque");
    enum dtype t = token || opaque ? DTYPE_NONE : dtype_find(r->p + from, len);
    if (t == DTYPE_NONE && !token && !opaque)
        return fail_dtype(r, from, len);
    if (look(r) != '[')
        return r->at >= r->n ? fail_end(r)
                             : diag_error(r->d, r->src, here(r, r->at, 1),
                                          "expected '[' after the element type");
    int rank;
    int64_t dims[MAX_RANK];
    uint64_t dynamic;
    if (!read_dims(r, &rank, dims, &dynamic))
        return false;
    if (rank && t == DTYPE_NONE)
        return diag_error(r->d, r->src, here(r, from, r->at - from), "%s has no dimensions",
                          token ? "a token" : "an opaque value");
    name_id layout = { 0 };
    if (layout_follows(r) && !read_layout(r, rank, &layout))
        return false;
    if (opaque)
        *out = shape_opaque(r->ir, layout);
    else if (token)
        *out = shape_token(r->ir);
    else
        *out = shape_array_full(r->ir, t, rank, dims, dynamic, layout);
    if (shape_get(r->ir, *out)->bytes < 0)
        return diag_error(r->d, r->src, here(r, from, r->at - from),
                          "the size of this array in bytes does not fit in 64 bits");
    return true;
}

typedef VEC(shape_id) shape_vec;
/* A tuple that is still open: its first element in the list of finished ones, its place. */
struct open_tuple {
    int64_t first;
    size_t at;
};
typedef VEC(struct open_tuple) open_vec;

static bool close_tuple(struct reader *r, struct arena *tmp, shape_vec *done, open_vec *open)
{
    int64_t first = open->v[open->n - 1].first;
    shape_id t = shape_tuple(r->ir, done->n - first, done->v ? done->v + first : NULL);
    if (shape_get(r->ir, t)->bytes < 0) {
        size_t from = open->v[open->n - 1].at;
        return diag_error(r->d, r->src, here(r, from, r->at - from + 1),
                          "the size of this tuple in bytes does not fit in 64 bits");
    }
    done->n = first;
    open->n--;
    vec_push(tmp, done, t);
    r->at++;
    return true;
}

static bool read_tuple(struct reader *r, struct arena *tmp, shape_id *out)
{
    shape_vec done = { 0 };
    open_vec open = { 0 };
    bool want_element = true; /* false: `,` or `)` comes next */
    do {
        skip(r);
        char c = look(r);
        if (r->at >= r->n)
            return fail_end(r);
        if (want_element && c == '(') {
            vec_push(tmp, &open, ((struct open_tuple){ done.n, r->at }));
            r->at++;
        } else if (c == ')' && (!want_element || open.v[open.n - 1].first == done.n)) {
            if (!close_tuple(r, tmp, &done, &open))
                return false;
            want_element = false;
        } else if (!want_element && c == ',') {
            r->at++;
            want_element = true;
            skip(r);
            if (look(r) == ')')
                return diag_error(r->d, r->src, here(r, r->at, 1),
                                  "expected a shape between ',' and ')'");
        } else if (!want_element) {
            return diag_error(r->d, r->src, here(r, r->at, 1),
                              "expected ',' or ')' in a tuple of shapes");
        } else {
            shape_id s;
            if (!read_leaf(r, &s))
                return false;
            vec_push(tmp, &done, s);
            want_element = false;
        }
    } while (open.n);
    *out = done.v[0];
    return true;
}

bool shape_parse(struct ir *c, const struct source *src, uint32_t off, const char *p, size_t n,
                 size_t *used, shape_id *out, struct diag *d)
{
    struct reader r = { .ir = c, .src = src, .off = off, .p = p, .n = n, .d = d };
    *out = (shape_id){ 0 };
    skip(&r);
    bool ok;
    if (look(&r) == '(') {
        struct arena tmp = { 0 };
        arena_open(&tmp);
        ok = read_tuple(&r, &tmp, out);
        arena_close(&tmp);
    } else {
        ok = read_leaf(&r, out);
    }
    *used = r.at;
    return ok;
}
