/* HLO text: attributes, dispatched by the type that attrs.def gives their key. */
#include "text/reader.h"

#include <stdlib.h>

#include "base/fail.h"

/* ---- numbers with separators ----------------------------------------------------------------- */

/* `3x3x1` */
static bool read_x_list(struct hlo *r)
{
    r->ints.n = 0;
    do {
        int64_t v;
        if (!hlo_int(r, &v, "a number"))
            return false;
        vec_push(&r->tmp, &r->ints, v);
    } while (*r->p == 'x' && r->p++);
    return true;
}

static bool keep_ints(struct hlo *r, struct attr *a)
{
    if (r->ints.n > UINT32_MAX)
        return FAIL(r, r->p, 1, "this list is too long");
    a->n = (uint32_t)r->ints.n;
    a->ints = share_ints(&r->share, r->ints.v, r->ints.n);
    return true;
}

/* {[0:3], [1:8:2]}: start, limit, stride. */
static bool read_slice(struct hlo *r, struct attr *a)
{
    r->ints.n = 0;
    if (!hlo_want(r, '{', "'{'"))
        return false;
    while (!take(r, '}')) {
        if (r->ints.n && !hlo_want(r, ',', "',' or '}'"))
            return false;
        int64_t start, limit, stride = 1;
        if (!hlo_want(r, '[', "'[', as in {[0:3], [1:8:2]}") || !hlo_int(r, &start, "a number") ||
            !hlo_want(r, ':', "':'") || !hlo_int(r, &limit, "a number"))
            return false;
        if (take(r, ':') && !hlo_int(r, &stride, "a number"))
            return false;
        if (!hlo_want(r, ']', "']'"))
            return false;
        vec_push(&r->tmp, &r->ints, start);
        vec_push(&r->tmp, &r->ints, limit);
        vec_push(&r->tmp, &r->ints, stride);
    }
    return keep_ints(r, a);
}

/* 0_1x0_0_2: low, high, interior. A scalar has none. */
static bool read_padding(struct hlo *r, struct attr *a)
{
    r->ints.n = 0;
    skip(r);
    if (!is_digit(*r->p) && *r->p != '-')
        return keep_ints(r, a);
    do {
        int64_t low, high, interior = 0;
        if (!hlo_int(r, &low, "a number") ||
            !hlo_want(r, '_', "'_' between low and high padding") || !hlo_int(r, &high, "a number"))
            return false;
        if (*r->p == '_') {
            r->p++;
            if (!hlo_int(r, &interior, "a number"))
                return false;
        }
        vec_push(&r->tmp, &r->ints, low);
        vec_push(&r->tmp, &r->ints, high);
        vec_push(&r->tmp, &r->ints, interior);
    } while (*r->p == 'x' && r->p++);
    return keep_ints(r, a);
}

/* ---- windows --------------------------------------------------------------------------------- */

static bool window_ranks_agree(struct hlo *r, const char *key, size_t n, int64_t got, int rank)
{
    if (got == rank)
        return true;
    return FAIL(r, key, n, "%.*s has %" PRId64 " number%s, but size has %d", (int)n, key, got,
                got == 1 ? "" : "s", rank);
}

/* What stands behind a key of a window goes into its dims; `pad` is handled apart. */
static bool window_field(struct hlo *r, const char *key, size_t n, int rank, struct window_dim *dim)
{
    if (!read_x_list(r) || !window_ranks_agree(r, key, n, r->ints.n, rank))
        return false;
    for (int d = 0; d < rank; d++) {
        int64_t v = r->ints.v[d];
        if (same(key, n, "stride"))
            dim[d].stride = v;
        else if (same(key, n, "lhs_dilate"))
            dim[d].base_dilation = v;
        else if (same(key, n, "rhs_dilate"))
            dim[d].window_dilation = v;
        else if (same(key, n, "rhs_reversal"))
            dim[d].reversal = v != 0;
        else
            return FAIL(r, key, n,
                        "no such field of a window: '%.*s' (size, stride, pad, "
                        "lhs_dilate, rhs_dilate, rhs_reversal)",
                        (int)n, key);
        if (v < 0)
            return FAIL(r, key, n, "%.*s cannot be negative", (int)n, key);
        if (v > 1 && same(key, n, "rhs_reversal"))
            return FAIL(r, key, n, "rhs_reversal is 0 or 1 for each dimension, not %" PRId64, v);
    }
    return true;
}

static bool window_pad(struct hlo *r, const char *key, size_t n, int rank, struct window_dim *dim)
{
    int64_t k = 0;
    do {
        int64_t low, high;
        if (!hlo_int(r, &low, "a number") ||
            !hlo_want(r, '_', "'_' between low and high padding") || !hlo_int(r, &high, "a number"))
            return false;
        if (k < rank) {
            dim[k].pad_low = low;
            dim[k].pad_high = high;
        }
        k++;
    } while (*r->p == 'x' && r->p++);
    return window_ranks_agree(r, key, n, k, rank);
}

static const char *find_size(const char *p)
{
    for (; *p && *p != '}' && *p != '\n'; p++)
        if (strncmp(p, "size=", 5) == 0 && !is_word(p[-1]))
            return p + 5;
    return NULL;
}

static bool window_value(struct hlo *r, struct attr *a)
{
    if (!hlo_want(r, '{', "'{'"))
        return false;
    const char *from = r->p;
    struct window *w = ARENA_NEW(&r->m->arena, struct window);
    struct window_dim *dim = NULL;
    const char *size = find_size(from);
    if (size) { /* the other fields may stand in front of it */
        r->p = size;
        if (!read_x_list(r))
            return false;
        if (r->ints.n > 64)
            return FAIL(r, size, 1, "a window of more than 64 dimensions");
        w->rank = (int)r->ints.n;
        dim = ARENA_ARRAY(&r->m->arena, struct window_dim, w->rank);
        for (int d = 0; d < w->rank; d++)
            dim[d] = (struct window_dim){
                .size = r->ints.v[d], .stride = 1, .base_dilation = 1, .window_dilation = 1
            };
        r->p = from;
    }
    while (!take(r, '}')) {
        const char *key = r->p;
        size_t n = word_len(key);
        if (n == 0)
            return hlo_expected(r, "a field of the window, like size=3x3, or '}'");
        r->p += n;
        if (!hlo_want(r, '=', "'='"))
            return false;
        bool ok = same(key, n, "size")  ? read_x_list(r)
                  : same(key, n, "pad") ? window_pad(r, key, n, w->rank, dim)
                                        : window_field(r, key, n, w->rank, dim);
        if (!ok)
            return false;
    }
    w->dims = dim;
    w->text = from;
    w->len = (uint32_t)(r->p - 1 - from);
    a->window = w;
    return true;
}

/* What many instructions say in the same words is read once. stop: behind the text; NULL: not known. */
static bool read_once(struct hlo *r, struct attr *a, const char *stop, bool (*read)(struct hlo *, struct attr *))
{
    bool hit = false;
    const char *from = r->p;
    struct cached *e = stop ? hlo_cached(r->windows, VALUE_CACHE, from, (size_t)(stop - from), &hit) : NULL;
    if (hit) {
        a->window = e->value;
        r->p = stop;
        return true;
    }
    if (e)
        e->text = NULL;
    if (!read(r, a))
        return false;
    if (e && r->p == stop) {
        e->text = from;
        e->value = a->window;
    }
    return true;
}

static bool read_window(struct hlo *r, struct attr *a)
{
    return read_once(r, a, *r->p == '{' ? hlo_balanced(r->p, r->end) : NULL, window_value);
}

/* ---- dim_labels=b01f_01io->b01f -------------------------------------------------------------- */

enum { MAX_SPATIAL = 12 };

/* One operand's labels: two letters and the digits of the spatial dimensions; ? is allowed only for
 * dimensions that nothing names. */
static bool conv_labels(struct hlo *r, const char *letters, int *first, int *second, int *spatial,
                        int *n)
{
    const char *from = r->p;
    *first = *second = -1;
    for (int d = 0; d < MAX_SPATIAL; d++)
        spatial[d] = -1;
    int k = 0, digits = 0;
    for (; (*r->p >= 'a' && *r->p <= 'z') || is_digit(*r->p) || *r->p == '?'; r->p++, k++) {
        char c = *r->p;
        int *slot = c == letters[0] ? first : c == letters[1] ? second : NULL;
        if (is_digit(c)) {
            slot = c - '0' < MAX_SPATIAL ? &spatial[c - '0'] : NULL;
            digits++;
        } else if (c == '?') {
            continue;
        }
        if (!slot || *slot >= 0)
            return FAIL(r, r->p, 1,
                        slot ? "'%c' stands twice in the labels %.*s" : "'%c' is no label here, in %.*s", c,
                        (int)word_len(from), from);
        *slot = k;
    }
    *n = digits;
    for (int d = 0; d < digits; d++)
        if (spatial[d] < 0)
            return FAIL(r, from, (size_t)(r->p - from),
                        "the spatial dimensions must be 0 to %d, each once", digits - 1);
    if (*first < 0 || *second < 0)
        return FAIL(r, from, (size_t)(r->p - from), "these labels must have '%c' and '%c'",
                    letters[0], letters[1]);
    return true;
}

static bool conv_value(struct hlo *r, struct attr *a)
{
    struct conv_dims *c = ARENA_NEW(&r->m->arena, struct conv_dims);
    const char *from = r->p;
    int lhs, rhs, out;
    if (!conv_labels(r, "bf", &c->lhs_batch, &c->lhs_feature, c->lhs_spatial, &lhs) ||
        !hlo_want(r, '_', "'_', as in b01f_01io->b01f") ||
        !conv_labels(r, "io", &c->rhs_in, &c->rhs_out, c->rhs_spatial, &rhs))
        return false;
    if (r->p[0] != '-' || r->p[1] != '>')
        return hlo_expected(r, "'->', as in b01f_01io->b01f");
    r->p += 2;
    if (!conv_labels(r, "bf", &c->out_batch, &c->out_feature, c->out_spatial, &out))
        return false;
    if (lhs != rhs || lhs != out)
        return FAIL(r, from, (size_t)(r->p - from),
                    "%d, %d and %d spatial dimensions: they must be equally many", lhs, rhs, out);
    c->nspatial = lhs;
    a->conv = c;
    return true;
}

static bool read_conv(struct hlo *r, struct attr *a)
{
    const char *q = r->p;
    while (is_word(*q) || *q == '>' || *q == '?')
        q++;
    return read_once(r, a, q > r->p ? q : NULL, conv_value);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool recursive(struct hlo *r, const char *name, size_t n)
{
    return FAIL(r, name, n, "computation '%.*s' calls itself: recursion is not possible in HLO",
                (int)n, name);
}

static bool comp_name(struct hlo *r, int64_t element, comp_id *out)
{
    skip(r);
    if (*r->p == '%')
        r->p++;
    const char *name = r->p;
    size_t n = word_len(name);
    if (n == 0)
        return hlo_expected(r, "the name of a computation");
    r->p += n;
    uint32_t id = intern_find(&r->c->names, name, n);
    uint64_t comp;
    if (id && map_get(&r->comps, id, &comp)) {
        if (comp == r->comp.i)
            return recursive(r, name, n);
        out->i = (uint32_t)comp;
        return true;
    }
    out->i = 0;
    struct pending p = {
        .attr = (uint32_t)r->attrs.n, .element = element, .name = name, .len = (uint32_t)n
    };
    vec_push(&r->tmp, &r->pending, p);
    return true;
}

static bool inline_body(struct hlo *r)
{
    FAIL(r, r->p, 1,
         "this computation is written inside its caller and has no name: the text is a "
         "canonical form (HloPrintOptions.canonical()), which leaves names out");
    diag_hint(r->d, "print the module with HloPrintOptions() or short_parsable() instead");
    r->stop = true;
    return false;
}

/* to_apply=f; async forms may have it in braces. */
static bool read_comp(struct hlo *r, struct attr *a)
{
    skip(r);
    if (*r->p != '{')
        return comp_name(r, -1, &a->comp);
    const char *brace = r->p++;
    while (hlo_class[(unsigned char)*r->p] & CH_BLANK)
        r->p++;
    if (*r->p == '\n' || *r->p == '\r') {
        r->p = brace;
        return inline_body(r);
    }
    return comp_name(r, -1, &a->comp) && hlo_want(r, '}', "'}'");
}

static bool read_comps(struct hlo *r, struct attr *a)
{
    r->called.n = 0;
    skip(r);
    bool braces = *r->p == '{';
    if (braces) {
        const char *brace = r->p++;
        while (hlo_class[(unsigned char)*r->p] & CH_BLANK)
            r->p++;
        if (*r->p == '{') {
            r->p = brace;
            return inline_body(r);
        }
    }
    if (!braces || !take(r, '}')) {
        do {
            comp_id c;
            if (!comp_name(r, r->called.n, &c))
                return false;
            vec_push(&r->tmp, &r->called, c);
        } while (braces && take(r, ','));
        if (braces && !hlo_want(r, '}', "',' or '}'"))
            return false;
    }
    a->n = (uint32_t)r->called.n;
    a->comps = arena_copy(&r->m->arena, r->called.v, r->called.n, sizeof(comp_id));
    return true;
}

static bool read_instrs(struct hlo *r, struct attr *a)
{
    VEC(instr_id) v = { 0 };
    if (!hlo_want(r, '{', "'{'"))
        return false;
    if (!take(r, '}')) {
        do {
            instr_id id;
            if (!hlo_operand_name(r, &id))
                return false;
            vec_push(&r->tmp, &v, id);
        } while (take(r, ','));
        if (!hlo_want(r, '}', "',' or '}'"))
            return false;
    }
    a->n = (uint32_t)v.n;
    a->instrs = arena_copy(&r->m->arena, v.v, v.n, sizeof(instr_id));
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool read_ident(struct hlo *r, struct attr *a)
{
    const char *from = r->p;
    size_t n = word_len(from);
    if (n == 0)
        return hlo_expected(r, "a word");
    r->p += n;
    a->name = name_put(r->c, from, n);
    return true;
}

/* What stands between a quote or brace and the one that closes it. */
static bool enclosed(struct hlo *r, const char **text, uint32_t *len)
{
    const char *stop = hlo_balanced(r->p, r->end);
    if (!stop)
        return hlo_unclosed(r, r->p);
    if (hlo_runs_over(r->p, stop))
        return FAIL(r, r->p, 1, "this '%c' is never closed: the computation's '}' follows", *r->p);
    *text = r->p + 1;
    *len = (uint32_t)(stop - r->p - 2);
    r->p = stop;
    return true;
}

static bool read_string(struct hlo *r, struct attr *a)
{
    if (*r->p != '"')
        return hlo_expected(r, "a text in quotes");
    return enclosed(r, &a->text, &a->n);
}

static bool read_float(struct hlo *r, struct attr *a)
{
    char *stop;
    const char *from = r->p;
    a->f = strtod_l(from, &stop, r->plain);
    if (stop == from || stop > r->end)
        return hlo_expected(r, "a number");
    r->p = stop;
    return true;
}

/* ---- shardings ------------------------------------------------------------------------------- */

/* P-14: on a tuple shape a leaf stands for a tuple of copies. */
static sharding_id spread(struct hlo *r, shape_id shape, sharding_id s)
{
    const struct shape *sh = shape_get(r->c, shape);
    if (sh->kind != SHAPE_TUPLE || sharding_get(r->c->shardings, s)->kind == SHARDING_TUPLE)
        return s;
    return sharding_tuple_of(r->c->shardings, max_i64(1, sh->nleaves), s);
}

void hlo_spread_sharding(struct hlo *r, struct instr *i)
{
    if (i->sharding.i)
        i->sharding = spread(r, i->shape, i->sharding);
}

bool hlo_take_sharding(struct hlo *r, struct instr *i)
{
    const char *p = r->found.sharding;
    size_t n = r->found.sharding_len, used = 0;
    bool hit;
    struct cached *e = hlo_cached(r->shardings, VALUE_CACHE, p, n, &hit);
    sharding_id s = { e->id };
    if (!hit) {
        e->text = NULL;
        struct sharding_note *note = ARENA_NEW(&r->m->arena, struct sharding_note);
        if (!sharding_parse(r->c->shardings, &r->m->arena, r->src, (uint32_t)(p - r->base), p, n,
                            &used, &s, note, r->d)) {
            r->nerrors++;
            return false;
        }
        if (used != n)
            return FAIL(r, p + used, 1, "unexpected text behind the sharding");
        e->text = p;
        e->id = s.i;
        e->value = note;
    }
    i->sharding = spread(r, i->shape, s);
    i->note = e->value;
    return true;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static bool braced(struct hlo *r, const char **text, uint32_t *len)
{
    return *r->p != '{' ? hlo_expected(r, "'{'") : enclosed(r, text, len);
}

/* Names in quotes, lines as numbers; what else stands there nobody reads. */
static bool check_metadata(struct hlo *r)
{
    const char *p = r->found.metadata, *end = p + r->found.metadata_len;
    while (p < end) {
        while (p < end && !is_word(*p))
            p++;
        const char *key = p;
        size_t n = word_len(p);
        p += n;
        if (p >= end || *p != '=')
            return true;
        p++;
        bool text = same(key, n, "op_name") || same(key, n, "op_type") || same(key, n, "source_file");
        bool line = same(key, n, "source_line") || same(key, n, "stack_frame_id");
        if ((text && *p != '"') || (line && !is_digit(*p) && *p != '-'))
            return FAIL(r, key, n, "metadata: %.*s= wants %s", (int)n, key, text ? "a text in quotes" : "a number");
        if (*p == '{')
            return true;
        if (*p == '"') {
            const char *q = p + 1;
            while (q < end && *q != '"')
                q += *q == '\\' ? 2 : 1;
            p = q + 1;
        }
        while (p < end && is_word(*p))
            p++;
    }
    return true;
}

/* The three that are fields of struct instr. */
static bool read_field(struct hlo *r, const char *key, size_t n, bool *done)
{
    *done = true;
    if (n == 8 && memcmp(key, "sharding", 8) == 0)
        return *r->p != '{' ? hlo_expected(r, "'{'")
                            : hlo_raw_value(r, &r->found.sharding, &r->found.sharding_len);
    if (n == 8 && memcmp(key, "metadata", 8) == 0)
        return braced(r, &r->found.metadata, &r->found.metadata_len) && check_metadata(r);
    if (n == 19 && memcmp(key, "frontend_attributes", 19) == 0)
        return braced(r, &r->found.frontend, &r->found.frontend_len);
    *done = false;
    return true;
}

static bool read_value(struct hlo *r, struct attr *a)
{
    const char *text;
    uint32_t len;
    bool b;
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_INT: return hlo_int(r, &a->i, "a number");
    case ATTR_TYPE_BOOL:
        if (!hlo_bool(r, &b))
            return false;
        a->i = b;
        return true;
    case ATTR_TYPE_INTS:
        if (*r->p != '{')
            return hlo_expected(r, "a list of numbers, like {0,1}");
        return hlo_int_list(r) && keep_ints(r, a);
    case ATTR_TYPE_IDENT: return read_ident(r, a);
    case ATTR_TYPE_STRING: return read_string(r, a);
    case ATTR_TYPE_COMP: return read_comp(r, a);
    case ATTR_TYPE_COMPS: return read_comps(r, a);
    case ATTR_TYPE_SLICE: return read_slice(r, a);
    case ATTR_TYPE_PADDING: return read_padding(r, a);
    case ATTR_TYPE_WINDOW: return read_window(r, a);
    case ATTR_TYPE_CONV: return read_conv(r, a);
    case ATTR_TYPE_GROUPS: return hlo_groups(r, a);
    case ATTR_TYPE_PAIRS: return hlo_pairs(r, a);
    case ATTR_TYPE_INSTRS: return read_instrs(r, a);
    case ATTR_TYPE_FLOAT: return read_float(r, a);
    case ATTR_TYPE_RAW:
        if (!hlo_raw_value(r, &text, &len))
            return false;
        a->text = text;
        a->n = len;
        return true;
    case ATTR_TYPE_NONE: break;
    }
    INVARIANT(false, "attribute of no type");
}

static bool given_twice(struct hlo *r, const char *key, size_t n)
{
    return FAIL(r, key, n, "'%.*s' is given twice", (int)n, key);
}

/* Attributes that change what an operation computes stand on these only. Operations that wrap another
 * one (async, fusion, call, custom-call) may carry any. */
static bool attr_is_of(enum op_kind op, enum attr_key k)
{
    bool dot = op == OP_DOT || op == OP_RAGGED_DOT || op == OP_SCALED_DOT, conv = op == OP_CONVOLUTION;
    bool windowed = conv || op == OP_REDUCE_WINDOW || op == OP_SELECT_AND_SCATTER;
    if (op == OP_CUSTOM_CALL || op == OP_FUSION || op == OP_CALL || op == OP_ASYNC_START ||
        op == OP_ASYNC_UPDATE || op == OP_ASYNC_DONE)
        return true;
    switch ((int)k) {
    case ATTR_LHS_BATCH:
    case ATTR_RHS_BATCH:
    case ATTR_LHS_CONTRACTING:
    case ATTR_RHS_CONTRACTING: return dot;
    case ATTR_WINDOW: return windowed;
    case ATTR_DIM_LABELS:
    case ATTR_FEATURE_GROUP_COUNT:
    case ATTR_BATCH_GROUP_COUNT: return conv;
    case ATTR_SLICE: return op == OP_SLICE;
    case ATTR_PADDING: return op == OP_PAD;
    case ATTR_DIRECTION: return op == OP_COMPARE;
    case ATTR_IOTA_DIMENSION: return op == OP_IOTA;
    case ATTR_DYNAMIC_SLICE_SIZES: return op == OP_DYNAMIC_SLICE;
    case ATTR_FFT_TYPE:
    case ATTR_FFT_LENGTH: return op == OP_FFT;
    case ATTR_EXPONENT_BITS:
    case ATTR_MANTISSA_BITS: return op == OP_REDUCE_PRECISION;
    case ATTR_CONDITION:
    case ATTR_BODY: return op == OP_WHILE;
    case ATTR_TRUE_COMPUTATION:
    case ATTR_FALSE_COMPUTATION:
    case ATTR_BRANCH_COMPUTATIONS: return op == OP_CONDITIONAL;
    case ATTR_TO_APPLY:
        return op == OP_REDUCE || op == OP_REDUCE_WINDOW || op == OP_MAP || op == OP_SCATTER || op == OP_SORT ||
               op == OP_ALL_REDUCE || op == OP_ALL_REDUCE_START || op == OP_REDUCE_SCATTER || op == OP_TOPK;
    case ATTR_SELECT:
    case ATTR_SCATTER: return op == OP_SELECT_AND_SCATTER;
    case ATTR_OFFSET_DIMS:
    case ATTR_COLLAPSED_SLICE_DIMS:
    case ATTR_START_INDEX_MAP:
    case ATTR_SLICE_SIZES: return op == OP_GATHER;
    case ATTR_UPDATE_WINDOW_DIMS:
    case ATTR_INSERTED_WINDOW_DIMS:
    case ATTR_SCATTER_DIMS_TO_OPERAND_DIMS: return op == OP_SCATTER;
    case ATTR_SOURCE_TARGET_PAIRS: return op == OP_COLLECTIVE_PERMUTE || op == OP_COLLECTIVE_PERMUTE_START;
    case ATTR_LEFT_SIDE:
    case ATTR_UNIT_DIAGONAL:
    case ATTR_TRANSPOSE_A: return op == OP_TRIANGULAR_SOLVE;
    case ATTR_INDEX: return op == OP_GET_TUPLE_ELEMENT;
    default: return true;
    }
}

/* An unknown key may be of a newer XLA and is kept; one that is nearly a known one is a slip. */
static bool misspelt(struct hlo *r, const char *key, size_t n)
{
    char word[40];
    if (n < 5 || n >= sizeof word)
        return false;
    memcpy(word, key, n);
    word[n] = '\0';
    int least = 3;
    const char *best = NULL;
    for (int k = 1; k < ATTR_UNKNOWN_KEY; k++) {
        const char *known = attr_name((enum attr_key)k);
        int e = strlen(known) >= 5 ? edit_distance(word, known, 3) : 3;
        if (e < least) {
            least = e;
            best = known;
        }
    }
    if (!best)
        return false;
    FAIL(r, key, n, "no such attribute: '%.*s'", (int)n, key);
    diag_hint(r->d, "did you mean %s=?", best);
    return true;
}

bool hlo_attr(struct hlo *r, enum op_kind op)
{
    const char *key = r->p;
    size_t n = word_len(key);
    if (n == 0)
        return hlo_expected(r, "an attribute, like dimensions={0}");
    r->p += n;
    if (!hlo_want(r, '=', "'=' behind the attribute's name"))
        return false;
    skip(r);
    if (*r->p == '}' || *r->p == ',' || *r->p == ')')
        return FAIL(r, key, n, "'%.*s=' has no value", (int)n, key);
    bool done;
    if ((same(key, n, "sharding") && r->found.sharding) ||
        (same(key, n, "metadata") && r->found.metadata) ||
        (same(key, n, "frontend_attributes") && r->found.frontend))
        return given_twice(r, key, n);
    if (!read_field(r, key, n, &done))
        return false;
    if (done)
        return true;
    uint32_t k = hlo_word_value(r->keys, KEY_SLOTS, key, n);
    if (k == ATTR_ALGORITHM && op == OP_RNG_BIT_GENERATOR)
        k = ATTR_RNG_ALGORITHM;
    if (k ? !attr_is_of(op, (enum attr_key)k) : misspelt(r, key, n))
        return k ? FAIL(r, key, n, "%s has no attribute '%.*s'", op_name(op), (int)n, key) : false;
    struct attr a = { .key = (uint8_t)(k ? k : ATTR_UNKNOWN_KEY) };
    a.type = (uint8_t)attr_type_of((enum attr_key)a.key);
    for (int64_t i = 0; k && i < r->attrs.n; i++)
        if (r->attrs.v[i].key == k)
            return given_twice(r, key, n);
    const char *from = r->p;
    if (!read_value(r, &a) || !hlo_check_words(r, k, from))
        return false;
    if (!k) {
        a.text = key;
        a.n = (uint32_t)(r->p - key);
    }
    vec_push(&r->tmp, &r->attrs, a);
    return true;
}
