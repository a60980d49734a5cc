/* StableHLO text: cursor, values and their names, blocks, functions, recovery; the rest is in the
 * files that mlir.h lists. Nesting is kept on a stack of frames of our own. */
#include "text/mlir.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/open.h"

#define W  MC_WORD
#define WD (MC_WORD | MC_DIGIT)
#define G  MC_GROUP
const uint8_t mlir_class[256] = {
    [' '] = MC_SPACE, ['\t'] = MC_SPACE, ['\r'] = MC_SPACE, ['\n'] = MC_SPACE, ['\v'] = MC_SPACE,
    ['\f'] = MC_SPACE, ['"'] = G, ['('] = G, [')'] = G, ['['] = G, [']'] = G, ['{'] = G, ['}'] = G, ['<'] = G,
    ['>'] = G, ['_'] = W, ['.'] = W, ['$'] = W,
    ['0'] = WD, ['1'] = WD, ['2'] = WD, ['3'] = WD, ['4'] = WD,
    ['5'] = WD, ['6'] = WD, ['7'] = WD, ['8'] = WD, ['9'] = WD,
    ['A'] = W, ['B'] = W, ['C'] = W, ['D'] = W, ['E'] = W, ['F'] = W, ['G'] = W, ['H'] = W,
    ['I'] = W, ['J'] = W, ['K'] = W, ['L'] = W, ['M'] = W, ['N'] = W, ['O'] = W, ['P'] = W,
    ['Q'] = W, ['R'] = W, ['S'] = W, ['T'] = W, ['U'] = W, ['V'] = W, ['W'] = W, ['X'] = W,
    ['Y'] = W, ['Z'] = W,
    ['a'] = W, ['b'] = W, ['c'] = W, ['d'] = W, ['e'] = W, ['f'] = W, ['g'] = W, ['h'] = W,
    ['i'] = W, ['j'] = W, ['k'] = W, ['l'] = W, ['m'] = W, ['n'] = W, ['o'] = W, ['p'] = W,
    ['q'] = W, ['r'] = W, ['s'] = W, ['t'] = W, ['u'] = W, ['v'] = W, ['w'] = W, ['x'] = W,
    ['y'] = W, ['z'] = W,
};
#undef W
#undef WD
#undef G

enum { MLIR_ERROR_LIMIT = 20, SERIES_FIRST = 1024, DEPTH_MAX = 100000 };

/* ---- cursor ------------------------------------------------------------------------------------ */

void mskip_slow(struct mlir *r)
{
    for (;;) {
        while (mis(*r->p, MC_SPACE))
            r->p++;
        if (r->p[0] != '/' || r->p[1] != '/')
            return;
        const char *q = memchr(r->p, '\n', (size_t)(r->end - r->p));
        r->p = q ? q : r->end;
    }
}

bool mexpected(struct mlir *r, const char *what)
{
    if (r->p >= r->end) {
        const char *at = r->end;
        while (at > r->base && mis(at[-1], MC_SPACE))
            at--;
        return MFAIL(r, at > r->base ? at - 1 : at, 1, "unexpected end of file: expected %s", what);
    }
    if (*r->p == '\0')
        return MFAIL(r, r->p, 1, "NUL byte in the text: expected %s", what);
    return MFAIL(r, r->p, mword(r->p), "expected %s", what);
}

bool mwant(struct mlir *r, char c, const char *what)
{
    const char *before = r->p;
    if (mtake(r, c))
        return true;
    if (r->p < r->end && memchr(before, '\n', (size_t)(r->p - before)))
        r->p = before;
    return mexpected(r, what);
}

const char *mbalanced(const char *p, const char *end)
{
    int64_t depth = 0;
    for (; p < end; p++) {
        if (!mis(*p, MC_GROUP))
            continue;
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                    p++;
            if (p >= end)
                return NULL;
        } else if (*p == '(' || *p == '[' || *p == '{' || *p == '<') {
            depth++;
        } else if (*p == '>' && p[-1] == '-') {
            continue;
        } else {
            depth--;
        }
        if (depth <= 0)
            return p + 1;
    }
    return NULL;
}

bool mskip_group(struct mlir *r, const char **text, uint32_t *len)
{
    const char *q = mbalanced(r->p, r->end);
    if (!q)
        return MFAIL(r, r->p, 1, *r->p == '"' ? "this quote (%c) is never closed"
                                              : "unexpected end of file: this '%c' is never closed", *r->p);
    *text = r->p;
    *len = (uint32_t)(q - r->p);
    r->p = q;
    return true;
}

/* ---- aliases ----------------------------------------------------------------------------------- */

/* `#loc3 = loc(...)` may stand before or behind the module: all are found first. Only a sign that begins its
 * line defines one. */
static void find_aliases_of(struct mlir *r, char sign)
{
    for (const char *p = r->base; (p = memchr(p, sign, (size_t)(r->end - p))) != NULL;) {
        const char *name = p++;
        if (name > r->base && name[-1] != '\n')
            continue;
        while (mis(*p, MC_WORD))
            p++;
        size_t n = (size_t)(p - name);
        while (*p == ' ')
            p++;
        if (*p != '=' || n < 2)
            continue;
        p++;
        while (*p == ' ')
            p++;
        const char *nl = memchr(p, '\n', (size_t)(r->end - p));
        const char *stop = nl ? nl : r->end;
        while (stop > p && mis(stop[-1], MC_SPACE))
            stop--;
        map_put(&r->alias_by_name, hash_bytes(name, n, 3), (uint64_t)r->aliases.n);
        struct malias a = { .name = name, .nname = (uint32_t)n, .text = p, .ntext = (uint32_t)(stop - p) };
        vec_push(&r->tmp, &r->aliases, a);
        p = nl ? nl : r->end;
    }
}

const struct malias *mlir_alias(const struct mlir *r, const char *name, size_t n)
{
    uint64_t k;
    if (!map_get(&r->alias_by_name, hash_bytes(name, n, 3), &k))
        return NULL;
    const struct malias *a = &r->aliases.v[k];
    return a->nname == n && memcmp(a->name, name, n) == 0 ? a : NULL;
}

/* ---- values ------------------------------------------------------------------------------------ */

uint32_t mlir_value_new(struct mlir *r, struct mop *def, struct mregion *region, shape_id shape)
{
    uint32_t v = mlir_page_add(r);
    struct mval *x = mval(r, v);
    mset_def(r, v, def);
    x->region = region ? region->id : 0;
    x->shape = shape;
    return v;
}

static void names_rehash(struct mlir *r)
{
    uint32_t live = 0, old = r->capnames;
    for (uint32_t i = 0; i < old; i++)
        live += r->names[i].text && r->names[i].func == r->func;
    uint32_t cap = 1024;
    while (cap < live * 4)
        cap *= 2;
    struct mname *from = r->names;
    r->names = ARENA_ARRAY(&r->tmp, struct mname, cap);
    r->capnames = cap;
    r->nnames = live;
    for (uint32_t i = 0; i < old; i++) {
        if (!from[i].text || from[i].func != r->func)
            continue;
        uint32_t k = from[i].hash & (cap - 1);
        while (r->names[k].text)
            k = (k + 1) & (cap - 1);
        r->names[k] = from[i];
    }
    arena_give_back(&r->tmp, from, old, sizeof *from);
}

static struct mname *name_slot(struct mlir *r, const char *name, size_t n)
{
    if (r->nnames * 2 >= r->capnames)
        names_rehash(r);
    uint32_t hash = (uint32_t)hash_bytes(name, n, 5), k = hash & (r->capnames - 1);
    for (; r->names[k].text; k = (k + 1) & (r->capnames - 1))
        if (r->names[k].func == r->func && r->names[k].hash == hash && r->names[k].len == n &&
            memcmp(r->names[k].text, name, n) == 0)
            return &r->names[k];
    r->names[k].hash = hash;
    return &r->names[k];
}

/* %12, %cst_3, %arg0: the usual names are some letters and a number, given out in turn; they are found in an
 * array by number, one for each beginning. */
static bool split_name(const char *name, size_t n, size_t *letters, uint32_t *number)
{
    size_t k = n;
    uint32_t v = 0, unit = 1;
    for (; k && n - k < 8; k--, unit *= 10) {
        unsigned digit = (unsigned)(name[k - 1] - '0');
        if (digit > 9)
            break;
        v += digit * unit;
    }
    *letters = k;
    *number = v;
    return k < n && (name[k] != '0' || n - k == 1) && !(k && mis(name[k - 1], MC_DIGIT));
}

static struct mseries *find_series(struct mlir *r, const char *name, size_t n)
{
    for (int i = 0; i < r->nseries; i++)
        if (r->series[i].len == n && memcmp(r->series[i].text, name, n) == 0)
            return &r->series[i];
    return NULL;
}

/* The array's place for a number; NULL: no array, or the number is far beyond what there are values. */
static uint32_t *series_slot(struct mlir *r, const char *name, size_t n, bool make)
{
    size_t letters;
    uint32_t k;
    if (!split_name(name, n, &letters, &k))
        return NULL;
    struct mseries *s = find_series(r, name, letters);
    if (s && k < s->cap)
        return &s->v[k];
    if (!make || (!s && r->nseries == NSERIES) || k >= SERIES_FIRST + 4 * (uint64_t)r->vals.n)
        return NULL;
    if (!s) {
        s = &r->series[r->nseries++];
        *s = (struct mseries){ .text = name, .len = (uint32_t)letters };
    }
    uint32_t cap = s->cap ? s->cap : SERIES_FIRST;
    while (cap <= k)
        cap *= 2;
    uint32_t *v = ARENA_ARRAY(&r->tmp, uint32_t, cap);
    if (s->cap)
        memcpy(v, s->v, s->cap * sizeof *v);
    arena_give_back(&r->tmp, s->v, s->cap, sizeof *v);
    s->v = v;
    s->cap = cap;
    return &s->v[k];
}

/* What a name means; at: its place among the numbered, NULL: it has none. */
static uint32_t named_value(struct mlir *r, const uint32_t *at, const char *name, size_t n)
{
    if (at && (*at >= r->first_value || !r->far_numbers))
        return *at >= r->first_value ? *at : 0; /* not of a function above */
    if (!r->capnames)
        return 0;
    const struct mname *e = name_slot(r, name, n);
    return e->text && e->func == r->func ? e->value : 0;
}

static uint32_t find_value(struct mlir *r, const char *name, size_t n)
{
    return named_value(r, series_slot(r, name, n, false), name, n);
}

/* From here on the name means v. */
static void bind_name(struct mlir *r, uint32_t *at, const char *name, size_t n, uint32_t v)
{
    if (at) {
        *at = v;
        return;
    }
    struct mname *e = name_slot(r, name, n);
    if (!e->text)
        r->nnames++;
    *e = (struct mname){ name, (uint32_t)n, e->hash, r->func, v };
    r->far_numbers |= n && mis(name[n - 1], MC_DIGIT);
}

uint32_t mlir_define(struct mlir *r, const char *name, size_t n, shape_id shape)
{
    uint32_t v = mlir_value_new(r, NULL, NULL, shape);
    mset_name(r, mval(r, v), name, n);
    uint32_t *at = series_slot(r, name, n, true);
    uint32_t before = named_value(r, at, name, n);
    if (before) {
        const struct mregion *g = mregion(r, mval(r, before));
        if (g && g->open) {
            int line, column;
            source_place(r->src, mval(r, before)->name, &line, &column);
            MFAIL(r, name - 1, n + 1, "'%%%.*s' is defined twice: already on line %d", (int)n, name, line);
        }
    }
    bind_name(r, at, name, n, v);
    return v;
}

bool mlir_nameless(const char *name, size_t n)
{
    if (n < 2 || name[0] != '_')
        return false;
    for (size_t i = 1; i < n; i++)
        if (!mis(name[i], MC_DIGIT))
            return false;
    return true;
}

void mlir_rename(struct mlir *r, uint32_t of, uint32_t v)
{
    const struct mval *x = mval(r, of);
    const char *name = mname(r, x);
    if (!name)
        return;
    if (!mval(r, v)->nname || !mlir_nameless(name, x->nname)) {
        mval(r, v)->name = x->name;
        mval(r, v)->nname = x->nname;
    }
    bind_name(r, series_slot(r, name, x->nname, true), name, x->nname, v);
}

static bool unknown_value(struct mlir *r, const char *name, size_t n)
{
    MFAIL(r, name - 1, n + 1, "'%%%.*s' is not defined here", (int)(n < 60 ? n : 60), name);
    char word[64];
    const char *best = NULL;
    size_t nbest = 0;
    if (n < sizeof word) {
        memcpy(word, name, n);
        word[n] = '\0';
        int least = n < 4 ? 2 : 3;
        for (uint32_t v = r->vals.n - 1, seen = 0; v && seen < 20000; v--, seen++) {
            const struct mval *x = mval(r, v);
            char other[64];
            if (!x->nname || x->nname >= sizeof other || !x->region || !mregion(r, x)->open)
                continue;
            memcpy(other, mname(r, x), x->nname);
            other[x->nname] = '\0';
            int e = edit_distance(word, other, 3);
            if (e < least) {
                least = e;
                best = mname(r, x);
                nbest = x->nname;
            }
        }
    }
    if (best)
        diag_hint(r->d, "did you mean '%%%.*s'?", (int)nbest, best);
    return false;
}

bool mlir_use(struct mlir *r, uint32_t *out)
{
    mskip(r);
    if (*r->p != '%')
        return mexpected(r, "a value, like %0");
    const char *name = ++r->p;
    size_t n = mvalue_word(name);
    if (n == 0)
        return mexpected(r, "a value's name");
    r->p += n;
    int64_t k = 0;
    if (*r->p == '#') {
        r->p++;
        size_t used = parse_i64(r->p, (size_t)(r->end - r->p), &k);
        if (!used || k < 0)
            return mexpected(r, "the number of a result");
        r->p += used;
    }
    uint32_t v = find_value(r, name, n);
    if (!v)
        return unknown_value(r, name, n);
    const struct mval *x = mval(r, v);
    if (x->region && !mregion(r, x)->open)
        return MFAIL(r, name - 1, n + 1, "'%%%.*s' is not visible here: it is defined inside a region that "
                     "ended above", (int)n, name);
    if (k) {
        const struct mop *def = mdef(r, x);
        if (!def || v - def->result + (uint64_t)k >= def->nresults)
            return MFAIL(r, name - 1, n + 1, "'%%%.*s' has no result number %" PRId64, (int)n, name, k);
        v += (uint32_t)k;
    }
    mval(r, v)->used = true;
    *out = v;
    return true;
}

/* ---- operations and regions -------------------------------------------------------------------- */

struct mop *mlir_op_new(struct mlir *r, enum mkind kind)
{
    struct mop *op = mlir_op_alloc(r, 1, sizeof *op);
    op->chunk = (uint16_t)(r->chunks.n - 1);
    r->chunks.v[op->chunk].left++;
    r->nops++;
    op->kind = (uint8_t)kind;
    op->at = r->p;
    op->nat = 1;
    return op;
}

void mlir_append(struct mlir *r, struct mop *op)
{
    struct mframe *f = &r->frames.v[r->frames.n - 1];
    struct mregion *g = f->region;
    if (!g) {
        mlir_op_done(r, op);
        return;
    }
    op->block = g;
    g->begun = true;
    op->prev = g->last;
    if (g->last)
        g->last->next = op;
    else
        g->first = op;
    g->last = op;
}

struct mregion *mlir_region_new(struct mlir *r)
{
    struct mregion *g = ARENA_NEW(&r->tmp, struct mregion);
    g->id = (uint32_t)r->regions.n;
    vec_push(&r->tmp, &r->regions, g);
    return g;
}

struct mregion *mlir_open_region(struct mlir *r, struct mop *op)
{
    struct mregion *g = mlir_region_new(r);
    g->owner = op;
    g->open = true;
    for (int64_t i = r->frames.n - 1; i >= 0 && !g->parent; i--)
        g->parent = r->frames.v[i].region;
    return g;
}

struct mframe *mlir_push(struct mlir *r, struct mop *op, int form, const char *at)
{
    struct mframe f = { .op = op, .open_at = at };
    f.form = (unsigned)form;
    if (form != FRAME_TOP && form != FRAME_MODULE)
        f.region = mlir_open_region(r, op);
    if (r->frames.n >= DEPTH_MAX) {
        MFAIL(r, at, 1, "nested deeper than %d levels", DEPTH_MAX);
        r->stop = true;
    }
    vec_push(&r->tmp, &r->frames, f);
    return &r->frames.v[r->frames.n - 1];
}

/* ^bb0(%a: tensor<f32> loc(..), %b: tensor<f32>): */
bool mlir_block_args(struct mlir *r, struct mregion *g)
{
    g->nargs = 0;
    if (mtake(r, ')'))
        return true;
    do {
        mskip(r);
        if (*r->p != '%')
            return mexpected(r, "an argument, like %arg0: tensor<8xf32>");
        const char *name = ++r->p;
        size_t n = mvalue_word(name);
        r->p += n;
        shape_id shape;
        const char *loc;
        uint32_t nloc;
        if (n == 0 || !mwant(r, ':', "':' behind the argument's name") || !mlir_type(r, &shape))
            return n != 0 ? false : mexpected(r, "an argument's name");
        uint32_t v = mlir_define(r, name, n, shape);
        mval(r, v)->region = g->id;
        if (g->nargs++ == 0)
            g->arg0 = v;
        mskip(r);
        if (*r->p == '{') {
            const char *t;
            uint32_t l;
            if (!mskip_group(r, &t, &l))
                return false;
        }
        if (!mlir_loc(r, &loc, &nloc))
            return false;
    } while (mtake(r, ','));
    return mwant(r, ')', "',' or ')' behind an argument");
}

static bool block_label(struct mlir *r, struct mframe *f)
{
    const char *at = r->p++;
    r->p += mword(r->p);
    struct mregion *g = f->region;
    if (g && g->begun)
        return MFAIL(r, at, (size_t)(r->p - at), "a second block: control flow between blocks (cf) has no "
                     "counterpart in HLO");
    mskip(r);
    if (*r->p == '(') {
        r->p++;
        if (!mlir_block_args(r, g ? g : mlir_region_new(r)))
            return false;
    }
    return mwant(r, ':', "':' behind the block's name");
}

/* The region of the top frame ends. */
static void close_region(struct mlir *r, struct mframe *f)
{
    struct mregion *g = f->region;
    if (!g)
        return;
    g->open = false;
    vec_push(&r->tmp, &r->closed, g);
    if (f->nregions == f->capregions) {
        uint32_t cap = f->capregions ? f->capregions * 2 : 2;
        struct mregion **v = ARENA_ARRAY(&r->tmp, struct mregion *, cap);
        if (f->nregions)
            memcpy(v, f->regions, f->nregions * sizeof *v);
        f->regions = v;
        f->capregions = cap;
    }
    f->regions[f->nregions++] = g;
    f->region = NULL;
}

static void next_region(struct mlir *r, struct mframe *f)
{
    struct mop *op = f->op;
    f->region = NULL;
    f->region = mlir_open_region(r, op);
}

static void drop_used(struct mlir *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->constants_read.n; i++)
        if (!mval(r, r->constants_read.v[i])->used)
            r->constants_read.v[n++] = r->constants_read.v[i];
    r->constants_read.n = n;
}

void mlir_note_constant(struct mlir *r, uint32_t v)
{
    if (r->constants_read.n && r->constants_read.n == r->constants_read.cap)
        drop_used(r);
    vec_push(&r->tmp, &r->constants_read, v);
}

static void end_function(struct mlir *r)
{
    struct mfunc *fn = r->current;
    if (!fn)
        return;
    fn->nclosed = r->closed.n;
    fn->closed = arena_copy(&r->tmp, r->closed.v, r->closed.n, sizeof *r->closed.v);
    r->closed.n = 0;
    r->current = NULL;
    drop_used(r);
    fn->nshown = r->constants_read.n;
    fn->shown = arena_copy(&r->tmp, r->constants_read.v, fn->nshown, sizeof *fn->shown);
}

static bool finish_frame(struct mlir *r)
{
    struct mframe f = r->frames.v[r->frames.n - 1];
    f.op->regions = f.regions;
    f.op->nregions = f.nregions;
    r->frames.n--;
    if (f.form == FRAME_FUNC || (f.form == FRAME_GENERIC && f.op->kind == M_FUNC)) {
        if (f.nregions && r->current)
            r->current->body = f.regions[0];
        struct mop *op = f.op;
        bool ok = mlir_op_tail(r, op, &f);
        end_function(r);
        return ok;
    }
    return mlir_op_tail(r, f.op, &f);
}

/* `}` at the cursor. */
static bool close_brace(struct mlir *r)
{
    struct mframe *f = &r->frames.v[r->frames.n - 1];
    if (f->form == FRAME_TOP)
        return MFAIL(r, r->p, 1, "this '}' closes nothing");
    r->p++;
    close_region(r, f);
    switch (f->form) {
    case FRAME_GENERIC:
        if (mtake(r, ',')) {
            if (!mwant(r, '{', "'{' of the next region"))
                return false;
            next_region(r, f);
            return true;
        }
        if (!mwant(r, ')', "',' or ')' behind a region"))
            return false;
        return finish_frame(r);
    case FRAME_WHILE_COND: {
        mskip(r);
        if (!mtext(r->p, mword(r->p), "do"))
            return mexpected(r, "'do {', the body of the loop");
        r->p += 2;
        if (!mwant(r, '{', "'{' of the loop's body"))
            return false;
        next_region(r, f);
        /* Both regions of the pretty form see the carried values under the same names. */
        const struct mregion *cond = f->regions[0];
        f->region->nargs = cond->nargs;
        for (uint32_t k = 0; k < cond->nargs; k++) {
            const struct mval *a = mval(r, cond->arg0 + k);
            uint32_t v = mlir_define(r, mname(r, a), a->nname, a->shape);
            mval(r, v)->region = f->region->id;
            if (k == 0)
                f->region->arg0 = v;
        }
        f->form = FRAME_WHILE_BODY;
        return true;
    }
    case FRAME_TOP:
    case FRAME_WHILE_BODY:
    case FRAME_REDUCE:
    case FRAME_SDY:
    case FRAME_FUNC:
    case FRAME_MODULE: break;
    }
    return finish_frame(r);
}

/* Behind an error in what began at `from`: the next line that begins an operation or closes a region. */
static void recover(struct mlir *r, const char *from)
{
    const char *line = r->p;
    while (line > from && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    if (line > from && line[-1] == '\n' && (*r->p == '%' || mis(*r->p, MC_WORD)))
        return; /* all of it was read: the cursor is at the next one */
    while (r->p < r->end) {
        const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
        if (!nl) {
            r->p = r->end;
            return;
        }
        r->p = nl + 1;
        const char *q = r->p;
        while (*q == ' ' || *q == '\t')
            q++;
        if (*q == '%' || *q == '}' || *q == '^' || *q == '"' || mis(*q, MC_WORD)) {
            r->p = q;
            return;
        }
    }
}

static bool read_text(struct mlir *r)
{
    mlir_push(r, NULL, FRAME_TOP, r->p);
    for (;;) {
        if (r->nerrors >= MLIR_ERROR_LIMIT || r->stop)
            return false;
        if (!tick_poll(r->tick, "reading", r->p - r->base, r->end - r->base)) {
            const char *former = diag_stage(r->d, "interrupted");
            diag_error(r->d, NULL, (struct span){ 0, 0 }, "interrupted");
            diag_stage(r->d, former);
            return false;
        }
        mskip(r);
        if (r->p >= r->end)
            break;
        struct mframe *f = &r->frames.v[r->frames.n - 1];
        const char *from = r->p;
        bool ok;
        if (*r->p == '}')
            ok = close_brace(r);
        else if (*r->p == '^')
            ok = block_label(r, f);
        else if ((*r->p == '#' || *r->p == '!') && (f->form == FRAME_TOP)) {
            const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
            r->p = nl ? nl : r->end;
            ok = true;
        } else if (r->p[0] == '{' && r->p[1] == '-' && r->p[2] == '#') {
            const char *q = memmem(r->p, (size_t)(r->end - r->p), "#-}", 3);
            r->p = q ? q + 3 : r->end; /* resources of the file */
            ok = true;
        } else {
            ok = mlir_op(r);
        }
        if (!ok)
            recover(r, from);
    }
    struct mframe *f = &r->frames.v[r->frames.n - 1];
    if (f->form != FRAME_TOP && r->nerrors == 0)
        return MFAIL(r, f->open_at, 1, "unexpected end of file: this '{' is never closed");
    return r->nerrors == 0;
}

/* ---- the whole --------------------------------------------------------------------------------- */

struct mfunc *mlir_find_func(const struct mlir *r, const char *name, size_t n)
{
    uint64_t k;
    if (!map_get(&r->func_by_name, hash_bytes(name, n, 9), &k))
        return NULL;
    struct mfunc *f = r->funcs.v[k - 1];
    return f->nname == n && memcmp(f->name, name, n) == 0 ? f : NULL;
}

/* What only reading needs. */
static void forget_names(struct mlir *r)
{
    for (int i = 0; i < r->nseries; i++)
        arena_give_back(&r->tmp, r->series[i].v, r->series[i].cap, sizeof *r->series[i].v);
    arena_give_back(&r->tmp, r->names, r->capnames, sizeof *r->names);
    r->nseries = 0;
    r->capnames = 0;
    r->lowering = true;
}

static bool read_into(struct module *m, struct mheld *held, struct tick *tick, struct diag *d)
{
    struct arena hold = { 0 };
    arena_open(&hold);
    struct mlir *r = ARENA_NEW(&hold, struct mlir);
    r->c = m->ir;
    r->m = m;
    r->held = held;
    r->src = m->source;
    r->tick = tick;
    r->d = d;
    r->base = r->p = r->src->text;
    r->end = r->base + r->src->len;
    arena_open(&r->tmp);
    arena_open(&r->scratch);
    arena_open(&r->val_arena);
    (void)mlir_page_add(r); /* none */
    r->share.arena = &m->arena;
    vec_push(&r->tmp, &r->regions, NULL);
    map_init(&r->func_by_name, &r->tmp);
    map_init(&r->constants, &r->tmp);
    mlir_fill_opnames(r);
    if (strncmp(r->p, "\xef\xbb\xbf", 3) == 0)
        r->p += 3;
    map_init(&r->alias_by_name, &r->tmp);
    find_aliases_of(r, '#');
    find_aliases_of(r, '!');
    bool ok = read_text(r);
    forget_names(r);
    ok = ok && mlir_lower(r);
    arena_close(&r->val_arena);
    arena_close(&r->scratch);
    arena_close(&r->tmp);
    arena_close(&hold);
    return ok;
}

struct module *mlir_read(struct ir *c, struct source *src, struct tick *tick, struct diag *d)
{
    struct module *m = module_of_source(c, src);
    const char *former = diag_stage(d, "parse");
    struct mheld held = { .probe = NULL };
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        mlir_let_go(&held);
        module_free(m);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    bool ok = read_into(m, &held, tick, d);
    fail_leave(&f);
    mlir_let_go(&held);
    diag_stage(d, former);
    if (ok)
        return m;
    module_free(m);
    return NULL;
}
