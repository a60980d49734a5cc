/* HLO text: header, tables, computations; the rest is in the files that reader.h lists. */
#include "text/reader.h"
#include "text/unique.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/open.h"
#include "text/features.h"

/* clang-format off */
#define W  CH_WORD
#define WD (CH_WORD | CH_DIGIT)
const uint8_t hlo_class[256] = {
    [' '] = CH_BLANK, ['\t'] = CH_BLANK, ['\r'] = CH_BLANK, ['\n'] = CH_NL, ['\v'] = CH_BLANK,
    ['\f'] = CH_BLANK, ['_'] = W, ['.'] = W, ['-'] = W,
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
/* clang-format on */

enum { ERROR_LIMIT = 20 };

/* ---- words and blanks ------------------------------------------------------------------------ */

void hlo_skip_slow(struct hlo *r)
{
    for (;;) {
        while (hlo_class[(unsigned char)*r->p] & CH_SPACE)
            r->p++;
        if (r->p[0] != '/')
            return;
        if (r->p[1] == '*') {
            const char *q = memmem(r->p + 2, (size_t)(r->end - r->p - 2), "*/", 2);
            if (!q)
                return; /* left for "expected" to complain about */
            r->p = q + 2;
        } else if (r->p[1] == '/') {
            const char *q = memchr(r->p, '\n', (size_t)(r->end - r->p));
            r->p = q ? q : r->end;
        } else {
            return;
        }
    }
}

bool hlo_expected(struct hlo *r, const char *what)
{
    if (r->p >= r->end) {
        const char *at = r->end;
        while (at > r->base && hlo_class[(unsigned char)at[-1]] & CH_SPACE)
            at--;
        return FAIL(r, at > r->base ? at - 1 : at, 1, "unexpected end of file: expected %s", what);
    }
    if (*r->p == '\0')
        return FAIL(r, r->p, 1, "NUL byte in the text: expected %s", what);
    if (r->p[0] == '/' && r->p[1] == '*')
        return FAIL(r, r->p, 2, "this comment is never closed");
    size_t n = word_len(r->p);
    return FAIL(r, r->p, n, "expected %s", what);
}

/* What is missing at the end of a line is reported there, not where the next line begins. */
static void stay_on_line(struct hlo *r, const char *before)
{
    /* The caller may have skipped blanks already. */
    while (before > r->base && hlo_class[(unsigned char)before[-1]] & CH_SPACE)
        before--;
    if (r->p < r->end && memchr(before, '\n', (size_t)(r->p - before)))
        r->p = before;
}

bool hlo_want(struct hlo *r, char c, const char *what)
{
    const char *before = r->p;
    if (take(r, c))
        return true;
    stay_on_line(r, before);
    return hlo_expected(r, what);
}

const char *hlo_balanced(const char *p, const char *end)
{
    int64_t depth = 0;
    for (; p < end; p++) {
        switch (*p) {
        case '"':
            for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                    p++;
            if (p >= end)
                return NULL;
            break;
        case '(':
        case '[':
        case '{': depth++; break;
        case ')':
        case ']':
        case '}': depth--; break;
        default: continue;
        }
        if (depth <= 0)
            return p + 1;
    }
    return NULL;
}

bool hlo_unclosed(struct hlo *r, const char *at)
{
    if (*at == '"')
        return FAIL(r, at, 1, "this quote (\") is never closed");
    /* The culprit may be a quote inside: an odd one on this line. */
    const char *nl = memchr(at, '\n', (size_t)(r->end - at));
    const char *stop = nl ? nl : r->end, *open = NULL;
    for (const char *q = at; q < stop; q++) {
        if (*q == '\\')
            q++;
        else if (*q == '"')
            open = open ? NULL : q;
    }
    if (open)
        return FAIL(r, open, (size_t)(stop - open), "this quote (\") is never closed");
    return FAIL(r, at, 1, "unexpected end of file: this '%c' is never closed", *at);
}

/* A value whose brace is closed by that of its computation, at the start of a line, was never closed. */
bool hlo_runs_over(const char *from, const char *stop)
{
    return stop[-1] == '}' && stop - from > 2 && stop[-2] == '\n';
}

bool hlo_raw_value(struct hlo *r, const char **text, uint32_t *len)
{
    const char *from = r->p, *p = from;
    for (;;) {
        char c = *p;
        if (c == '{' || c == '"' || c == '(' || c == '[') {
            const char *q = hlo_balanced(p, r->end);
            if (!q) {
                r->p = p;
                return hlo_unclosed(r, p);
            }
            if (hlo_runs_over(p, q))
                return FAIL(r, p, 1, "this '%c' is never closed: the computation's '}' follows", c);
            p = q;
        } else if (c == ',' || c == '\n' || c == '\0' || c == '}' || c == ')' || c == ']') {
            break;
        } else if (hlo_class[(unsigned char)c] & CH_BLANK) {
            break;
        } else {
            p++;
        }
    }
    if (p == from)
        return hlo_expected(r, "a value");
    *text = from;
    *len = (uint32_t)(p - from);
    r->p = p;
    return true;
}

bool hlo_int(struct hlo *r, int64_t *out, const char *what)
{
    const char *before = r->p;
    skip(r);
    size_t n = parse_i64(r->p, (size_t)(r->end - r->p), out);
    if (n) {
        r->p += n;
        return true;
    }
    const char *q = r->p + (*r->p == '-');
    size_t digits = 0;
    while (is_digit(q[digits]))
        digits++;
    if (digits)
        return FAIL(r, r->p, (size_t)(q - r->p) + digits, "%.*s does not fit in 64 bits",
                    (int)min_i64((int64_t)((size_t)(q - r->p) + digits), 60), r->p);
    stay_on_line(r, before);
    return hlo_expected(r, what);
}

bool hlo_int_list(struct hlo *r)
{
    r->ints.n = 0;
    skip(r);
    if (*r->p != '{') {
        int64_t v;
        if (!hlo_int(r, &v, "a list of numbers, like {0,1}"))
            return false;
        vec_push(&r->tmp, &r->ints, v);
        return true;
    }
    const char *brace = r->p++;
    if (take(r, '}'))
        return true;
    for (;;) {
        int64_t v;
        if (!hlo_int(r, &v, "a number"))
            return false;
        vec_push(&r->tmp, &r->ints, v);
        if (take(r, '}'))
            return !hlo_runs_over(brace, r->p) ||
                   FAIL(r, brace, 1, "this '{' is never closed: the computation's '}' follows");
        if (!hlo_want(r, ',', "',' or '}' behind a number"))
            return false;
    }
}

bool hlo_bool(struct hlo *r, bool *out)
{
    skip(r);
    size_t n = word_len(r->p);
    if (same(r->p, n, "true") || same(r->p, n, "1"))
        *out = true;
    else if (same(r->p, n, "false") || same(r->p, n, "0"))
        *out = false;
    else
        return hlo_expected(r, "true or false");
    r->p += n;
    return true;
}

bool hlo_bools(struct hlo *r, int64_t *n, const bool **out)
{
    VEC(bool) v = { 0 };
    bool b;
    if (!take(r, '{')) {
        if (!hlo_bool(r, &b))
            return false;
        vec_push(&r->m->arena, &v, b);
    } else if (!take(r, '}')) {
        do {
            if (!hlo_bool(r, &b))
                return false;
            vec_push(&r->m->arena, &v, b);
        } while (take(r, ','));
        if (!hlo_want(r, '}', "',' or '}'"))
            return false;
    }
    *n = v.n;
    *out = v.v;
    return true;
}

/* ---- small tables ---------------------------------------------------------------------------- */

struct cached *hlo_cached(struct cached *table, size_t slots, const char *p, size_t n, bool *hit)
{
    uint32_t hash = (uint32_t)hash_bytes(p, n, 7);
    struct cached *e = &table[hash & (slots - 1)];
    *hit = e->text && e->hash == hash && e->len == n && memcmp(e->text, p, n) == 0;
    if (!*hit)
        *e = (struct cached){ .text = p, .len = (uint32_t)n, .hash = hash };
    return e;
}

uint32_t hlo_word_value(const struct word *table, uint32_t slots, const char *p, size_t n)
{
    if (n == 0)
        return 0;
    for (uint32_t i = word_hash(p, n) & (slots - 1); table[i].text; i = (i + 1) & (slots - 1))
        if (table[i].len == n && memcmp(table[i].text, p, n) == 0)
            return table[i].value;
    return 0;
}

static void word_put(struct word *table, uint32_t slots, const char *text, uint32_t value)
{
    size_t n = strlen(text);
    if (n == 0 || hlo_word_value(table, slots, text, n))
        return; /* `algorithm` is two keys; hlo_attr tells them apart by opcode */
    uint32_t i = word_hash(text, n) & (slots - 1);
    while (table[i].text)
        i = (i + 1) & (slots - 1);
    table[i] = (struct word){ text, (uint32_t)n, value };
}

static void fill_words(struct hlo *r)
{
    for (uint32_t op = 1; op < OP_COUNT; op++)
        word_put(r->ops, OP_SLOTS, op_name((enum op_kind)op), op);
    for (uint32_t k = 1; k < ATTR_COUNT; k++)
        word_put(r->keys, KEY_SLOTS, attr_name((enum attr_key)k), k);
}

/* ---- header ---------------------------------------------------------------------------------- */

static bool header_value(struct hlo *r, const char *key, size_t n)
{
    struct module *m = r->m;
    bool on;
    if (same(key, n, "num_partitions"))
        return hlo_int(r, &m->num_partitions, "the number of partitions");
    if (same(key, n, "replica_count"))
        return hlo_int(r, &m->replica_count, "the number of replicas");
    if (same(key, n, "is_scheduled")) {
        if (!hlo_bool(r, &on))
            return false;
        m->is_scheduled = on;
        return true;
    }
    if (same(key, n, "allow_spmd_sharding_propagation_to_output"))
        return hlo_bools(r, &m->nto_output, &m->to_output);
    if (same(key, n, "allow_spmd_sharding_propagation_to_parameters"))
        return hlo_bools(r, &m->nto_parameters, &m->to_parameters);
    const char *text;
    uint32_t len;
    return hlo_raw_value(r, &text, &len);
}

static bool check_counts(struct hlo *r, const char *at, size_t len)
{
    if (r->m->num_partitions < 0 || r->m->replica_count < 0)
        return FAIL(r, at, len, "the number of devices must be positive");
    if (len == 1 && *at == '0')
        return FAIL(r, at, len, "0 devices: num_partitions and replica_count are 1 or more");
    return true;
}

static bool read_header_attrs(struct hlo *r)
{
    VEC(struct header_attr) v = { 0 };
    bool ok = true;
    while (ok && take(r, ',')) {
        skip(r);
        const char *key = r->p;
        size_t n = word_len(key);
        if (n == 0)
            return hlo_expected(r, "an attribute of the module, like num_partitions=8");
        r->p += n;
        struct header_attr a = { .key = name_put(r->c, key, n) };
        for (int64_t i = 0; i < v.n; i++)
            if (v.v[i].key.i == a.key.i)
                return FAIL(r, key, n, "'%.*s' is given twice", (int)n, key);
        if (!hlo_check_header_key(r, key, n))
            return false;
        if (*r->p == '=') {
            r->p++;
            skip(r);
            const char *from = r->p;
            ok = header_value(r, key, n) && check_counts(r, from, (size_t)(r->p - from));
            a.text = from;
            a.len = (uint32_t)(r->p - from);
        } else if (same(key, n, "is_scheduled")) {
            r->m->is_scheduled = true;
        }
        vec_push(&r->m->arena, &v, a);
    }
    r->m->nheader = (int)v.n;
    r->m->header = v.v;
    return ok;
}

/* A first word that is HloModule but for a slip; reports it. */
static bool near_header(struct hlo *r, size_t n)
{
    char word[16];
    if (n < 7 || n >= sizeof word || (r->p[n] != ' ' && r->p[n] != '\t'))
        return false;
    memcpy(word, r->p, n);
    word[n] = '\0';
    if (edit_distance(word, "HloModule", 3) > 2)
        return false;
    FAIL(r, r->p, n, "expected HloModule NAME, not '%s'", word);
    diag_hint(r->d, "did you mean HloModule?");
    r->stop = true;
    return true;
}

static bool read_header(struct hlo *r)
{
    if (strncmp(r->p, "\xef\xbb\xbf", 3) == 0)
        r->p += 3; /* byte order mark */
    const char *start = r->p;
    hlo_skip_slow(r);
    size_t n = word_len(r->p);
    if (!same(r->p, n, "HloModule"))
        return !near_header(r, n); /* tests and snippets have none */
    if (r->p > start) {
        r->m->before = start;
        r->m->before_len = (uint32_t)(r->p - start);
    }
    const char *at = r->p;
    r->p += n;
    while (hlo_class[(unsigned char)*r->p] & CH_BLANK)
        r->p++;
    bool percent = *r->p == '%';
    r->p += percent;
    size_t len = word_len(r->p);
    if (len == 0 && *r->p == ',') {
        FAIL(r, at, n,
             "this module has no name: it is a fingerprint "
             "(HloPrintOptions.fingerprint()), which leaves names out");
        diag_hint(r->d, "print the module with HloPrintOptions() or short_parsable() instead");
        r->stop = true;
        return false;
    }
    if (len == 0)
        return hlo_expected(r, "the module's name");
    r->m->name = name_put(r->c, r->p, len);
    r->p += len;
    return read_header_attrs(r);
}

/* FileNames, FunctionNames, FileLocations, StackFrames: kept as they are. A computation never has
 * such a name and a line of its own without a brace. */
static bool at_table(const struct hlo *r)
{
    static const char *const words[] = { "FileNames", "FunctionNames", "FileLocations",
                                         "StackFrames" };
    size_t n = word_len(r->p);
    const char *q = r->p + n;
    while (hlo_class[(unsigned char)*q] & CH_BLANK)
        q++;
    if (*q != '\n')
        return false;
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (same(r->p, n, words[i]))
            return true;
    return false;
}

static void read_tables(struct hlo *r)
{
    skip(r);
    if (!at_table(r))
        return;
    const char *from = r->p, *behind = r->p;
    while (at_table(r)) {
        do { /* the table's rows begin with a number */
            const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
            r->p = nl ? nl + 1 : r->end;
        } while (is_digit(*r->p));
        behind = r->p;
        skip(r);
    }
    r->m->tables = from;
    r->m->tables_len = (uint32_t)(behind - from);
}

/* ---- computations ---------------------------------------------------------------------------- */

/* The signature `(a: f32[8]) -> f32[8]` is kept as text: the parameters say the same again. It ends
 * at the brace that opens the body; the brace of a layout is glued to its shape. */
static bool skip_signature(struct hlo *r, struct computation *c)
{
    const char *from = r->p;
    const char *p = from;
    skip(r);
    if (*r->p == '=')
        return FAIL(r, r->p, 1, "an instruction outside of a computation: expected '{' or a signature behind the name");
    if (r->p < r->end && *r->p != '{' && *r->p != '(')
        return hlo_expected(r, "'{' or a signature, like (a: f32[8]) -> f32[8], behind the computation's name");
    for (; p < r->end; p++) {
        if (*p == '{' && !(p > from && p[-1] == ']'))
            break;
        if (*p == '(' || *p == '[' || *p == '{' || *p == '"') {
            const char *q = hlo_balanced(p, r->end);
            if (!q) {
                r->p = p;
                return hlo_unclosed(r, p);
            }
            p = q - 1;
        } else if (*p == '=' || *p == '}' || *p == '\0') {
            break;
        }
    }
    r->p = p;
    const char *stop = p;
    while (stop > from && hlo_class[(unsigned char)stop[-1]] & CH_SPACE)
        stop--;
    skip(r);
    if (*r->p != '{')
        return hlo_expected(r, "'{', where the computation's instructions begin");
    r->p++;
    const char *first = from;
    while (first < stop && hlo_class[(unsigned char)*first] & CH_SPACE)
        first++;
    /* A comment behind it would swallow the brace when printed. */
    if (stop > first && !memmem(first, (size_t)(stop - first), "//", 2)) {
        c->signature = from;
        c->signature_len = (uint32_t)(stop - from);
    }
    return true;
}

/* Whether only blanks stand between the cursor and the start of its line. */
static bool line_start(const struct hlo *r)
{
    const char *q = r->p;
    while (q > r->base && hlo_class[(unsigned char)q[-1]] & CH_BLANK)
        q--;
    return q > r->base && q[-1] == '\n';
}

/* Behind an error: goes to the next line that begins a definition or ends the computation. The
 * cursor may be there already, when the error was found at the end of what was read. */
static void recover(struct hlo *r, const char *failed)
{
    bool here = r->p > failed && line_start(r);
    for (;; here = false) {
        if (!here) {
            const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
            if (!nl) {
                r->p = r->end;
                return;
            }
            r->p = nl + 1;
        }
        const char *q = r->p;
        while (hlo_class[(unsigned char)*q] & CH_BLANK)
            q++;
        bool margin = q == r->base || q[-1] == '\n';
        if (*q == '}' && !margin)
            continue; /* an inner brace, indented */
        if (*q == '}' || *q == '%' || is_word(*q)) {
            r->p = q;
            return;
        }
    }
}

/* Behind the last computation, the entry mostly: what is made for it next finds its place. */
static void forget_names_at_end(struct hlo *r)
{
    const char *p = r->p;
    while (p < r->end && (hlo_class[(unsigned char)*p] & CH_SPACE))
        p++;
    if (p < r->end)
        return;
    arena_give_back(&r->tmp, r->defs, r->ndefs, sizeof *r->defs);
    r->defs = NULL;
    r->ndefs = 0;
}

static void check_params(struct hlo *r, struct computation *c, const char *name, size_t len)
{
    uint32_t n = 0;
    for (uint32_t i = c->first.i; i && i <= c->last.i; i++)
        n += instr_at(r->m, (instr_id){ i })->op == OP_PARAMETER;
    if (n == 0)
        return;
    uint32_t *seen = ARENA_ARRAY(&r->tmp, uint32_t, n);
    for (uint32_t i = c->first.i; i <= c->last.i; i++) {
        struct instr *in = instr_at(r->m, (instr_id){ i });
        if (in->op != OP_PARAMETER)
            continue;
        int64_t k = instr_param_number(in);
        if (k >= 0 && k < n && seen[k]) {
            FAIL(r, r->base + in->at.off, in->at.len,
                 "parameter(%" PRId64 ") is defined twice in '%.*s'", k, (int)len, name);
            return;
        }
        if (k >= 0 && k < n)
            seen[k] = i;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (seen[k])
            continue;
        FAIL(r, name, len,
             "parameter %" PRIu32 " of '%.*s' is missing: its %" PRIu32
             " parameters must have the numbers 0 to %" PRIu32,
             k, (int)len, name, n, n - 1);
        return;
    }
}

static void read_closer(struct hlo *r, struct computation *c)
{
    const char *from = r->p;
    const char *nl = memchr(from, '\n', (size_t)(r->end - from));
    const char *stop = nl ? nl : r->end;
    while (stop > from && hlo_class[(unsigned char)stop[-1]] & CH_SPACE)
        stop--;
    const char *q = from;
    while (hlo_class[(unsigned char)*q] & CH_BLANK)
        q++;
    if (q >= stop)
        return;
    static const char key[] = "execution_thread=\"";
    if (*q == ',') {
        const char *t = memmem(q, (size_t)(stop - q), key, sizeof key - 1);
        const char *v = t ? t + sizeof key - 1 : NULL;
        const char *e = v ? memchr(v, '"', (size_t)(stop - v)) : NULL;
        if (e)
            c->thread = name_put(r->c, v, (size_t)(e - v));
    } else if (!(q[0] == '/' && (q[1] == '/' || q[1] == '*'))) {
        return; /* something else follows on this line: not ours */
    }
    c->closer = from;
    c->closer_len = (uint32_t)(stop - from);
    r->p = stop;
}

static bool read_body(struct hlo *r)
{
    r->root = (instr_id){ 0 };
    r->root_at = NULL;
    for (;;) {
        skip(r);
        if (*r->p == '}') {
            r->p++;
            return true;
        }
        if (r->p >= r->end)
            return hlo_expected(r, "'}' at the end of the computation");
        if (!tick_poll(r->tick, "reading", r->p - r->base, r->end - r->base)) {
            r->stop = true;
            return FAIL(r, r->p, 1, "interrupted");
        }
        const char *start = r->p;
        if (hlo_instr(r))
            continue;
        if (r->nerrors >= ERROR_LIMIT)
            r->stop = true;
        if (r->stop)
            return false;
        recover(r, start);
    }
}

static bool entry_again(struct hlo *r, const char *at)
{
    int line, column;
    source_place(r->src, (uint32_t)(r->entry_at - r->base), &line, &column);
    return FAIL(r, at, 5, "a second ENTRY: the module already has one, on line %d", line);
}

static bool read_computation(struct hlo *r)
{
    const char *at = r->p;
    size_t n = word_len(r->p);
    bool entry = same(r->p, n, "ENTRY");
    if (entry) {
        const char *q = r->p + n;
        while (hlo_class[(unsigned char)*q] & CH_SPACE)
            q++;
        r->p = q;
        n = word_len(*q == '%' ? q + 1 : q);
    }
    if (*r->p == '%') {
        r->p++;
        r->m->print_style |= STYLE_PERCENT;
        n = word_len(r->p);
    }
    if (n == 0 && *r->p == '{') {
        FAIL(r, at, (size_t)(r->p - at) + 1,
             "this computation has no name: the text is a fingerprint or canonical form "
             "(HloPrintOptions), which leaves names out");
        diag_hint(r->d, "print the module with HloPrintOptions() or short_parsable() instead");
        r->stop = true;
        return false;
    }
    if (n == 0)
        return hlo_expected(r, "a computation, like `ENTRY main {`");
    if (same(r->p, n, "HloModule"))
        return FAIL(r, r->p, n, "a second HloModule: one text is one module");
    const char *name = r->p;
    r->p += n;
    name_id id = name_put(r->c, name, n);
    uint64_t before;
    if (map_get(&r->comps, id.i, &before)) {
        int line, column;
        source_place(r->src, comp_at(r->m, (comp_id){ (uint32_t)before })->at.off, &line, &column);
        FAIL(r, name, n, "computation '%.*s' is defined twice: already on line %d", (int)n, name,
             line);
    }
    comp_id comp = comp_new(r->m, id);
    struct computation *c = comp_at(r->m, comp);
    c->at = span_of(r, name, n);
    map_put(&r->comps, id.i, comp.i);
    r->comp = comp;
    if (!skip_signature(r, c))
        return false;
    if (entry) {
        if (r->entry_at)
            entry_again(r, at);
        r->entry_at = r->entry_at ? r->entry_at : at;
        c->entry = true;
        r->m->entry = comp;
    }
    int errors = r->nerrors;
    if (!read_body(r))
        return false;
    forget_names_at_end(r);
    if (errors == r->nerrors && c->first.i == 0)
        FAIL(r, name, n, "computation '%.*s' is empty", (int)n, name);
    if (errors == r->nerrors)
        check_params(r, c, name, n);
    if (errors == r->nerrors)
        comp_finish(r->m, comp, r->root);
    if (errors == r->nerrors)
        (void)hlo_check_signature(r, c);
    read_closer(r, c);
    return true;
}

/* ---- at the end ------------------------------------------------------------------------------ */

static const char *nearest_computation(const struct hlo *r, const char *name, size_t n)
{
    char word[64];
    if (n >= sizeof word)
        return NULL;
    memcpy(word, name, n);
    word[n] = '\0';
    const char *best = NULL;
    int least = 3;
    for (uint32_t k = 1; k <= module_ncomps(r->m) && k < 5000; k++) {
        const char *t = name_text(r->c, comp_at(r->m, (comp_id){ k })->name);
        int e = edit_distance(word, t, 3);
        if (e < least) {
            least = e;
            best = t;
        }
    }
    return best;
}

/* Calls of computations that stand further down. */
static void resolve_pending(struct hlo *r)
{
    for (int64_t k = 0; k < r->pending.n && r->nerrors < ERROR_LIMIT; k++) {
        struct pending *p = &r->pending.v[k];
        name_id name = { intern_find(&r->c->names, p->name, p->len) };
        uint64_t comp;
        if (!name.i || !map_get(&r->comps, name.i, &comp)) {
            FAIL(r, p->name, p->len, "no computation is called '%.*s'", (int)p->len, p->name);
            const char *near = nearest_computation(r, p->name, p->len);
            if (near)
                diag_hint(r->d, "did you mean '%s'?", near);
            continue;
        }
        struct attr *a = (struct attr *)(uintptr_t)&instr_at(r->m, p->instr)->attrs[p->attr];
        if (p->element < 0)
            a->comp.i = (uint32_t)comp;
        else
            ((comp_id *)(uintptr_t)a->comps)[p->element].i = (uint32_t)comp;
    }
}

/* Without the word ENTRY: the one computation, or the one that no other calls. */
static void choose_entry(struct hlo *r)
{
    struct module *m = r->m;
    uint32_t n = module_ncomps(m);
    if (m->entry.i || n == 0)
        return;
    bool *called = ARENA_ARRAY(&r->tmp, bool, n + 1);
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        comp_id out[64];
        int k = instr_called(m, (instr_id){ i }, out, 64);
        for (int j = 0; j < k && j < 64; j++)
            called[out[j].i] = true;
    }
    uint32_t pick = 0, free_ones = 0;
    for (uint32_t c = 1; c <= n; c++)
        if (!called[c]) {
            free_ones++;
            pick = c;
        }
    if (free_ones != 1) {
        FAIL(r, r->end > r->base ? r->end - 1 : r->end, 1,
             "which computation is the entry? %" PRIu32 " are called by no other", free_ones);
        diag_hint(r->d, "write ENTRY in front of its name");
        return;
    }
    m->entry = (comp_id){ pick };
    comp_at(m, m->entry)->entry = true;
}

static void read_module(struct hlo *r)
{
    if (!read_header(r)) {
        if (r->stop)
            return;
        recover(r, r->p); /* the computations may have errors of their own */
    }
    read_tables(r);
    for (skip(r); r->p < r->end && !r->stop; skip(r)) {
        if (read_computation(r))
            continue;
        if (r->nerrors >= ERROR_LIMIT || r->stop)
            return;
        const char *q = memmem(r->p, (size_t)(r->end - r->p), "\n}", 2);
        r->p = q ? q + 2 : r->end;
    }
    if (r->stop)
        return;
    if (module_ncomps(r->m) == 0 && r->nerrors == 0)
        FAIL(r, r->end > r->base ? r->end - 1 : r->base, 1,
             "unexpected end of file: the module has no computation");
    resolve_pending(r);
    if (r->nerrors == 0)
        choose_entry(r);
    const char *nul = r->nerrors ? NULL : memchr(r->base, '\0', (size_t)(r->end - r->base));
    if (nul) /* in a comment or a quote */
        FAIL(r, nul, 1, "NUL byte in the text");
    if (r->nerrors == 0)
        (void)hlo_check_header(r);
}

struct module *module_of_source(struct ir *c, struct source *src)
{
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        struct module *m = module_new(c, (name_id){ 0 });
        fail_leave(&f);
        m->source = src;
        return m;
    }
    source_free(src);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

static bool read_into(struct module *m, struct tick *tick, struct diag *d)
{
    struct arena hold = { 0 };
    arena_open(&hold);
    struct hlo *r = ARENA_NEW(&hold, struct hlo);
    r->c = m->ir;
    r->m = m;
    r->src = m->source;
    r->tick = tick;
    r->d = d;
    r->base = r->p = r->src->text;
    r->end = r->base + r->src->len;
    arena_open(&r->tmp);
    map_init(&r->comps, &r->tmp);
    fill_words(r);
    r->share.arena = &m->arena;
    r->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    read_module(r);
    bool ok = r->nerrors == 0;
    freelocale(r->plain);
    arena_close(&r->tmp);
    arena_close(&hold);
    return ok;
}

struct module *hlo_read(struct ir *c, struct source *src, struct tick *tick, struct diag *d)
{
    struct module *m = module_of_source(c, src);
    const char *former = diag_stage(d, "parse");
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) { /* the module is in no pass arena: it is freed on the way of a failure */
        module_free(m);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    bool ok = read_into(m, tick, d);
    if (ok)
        names_make_unique(m);
    fail_leave(&f);
    diag_stage(d, former);
    if (ok)
        return m;
    module_free(m);
    return NULL;
}
