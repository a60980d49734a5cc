/* HLO text: what the header says against the entry, and words that an attribute may have. */
#include "text/reader.h"

#include <stdio.h>
#include <strings.h>

/* ---- words ----------------------------------------------------------------------------------- */

struct vocabulary {
    enum attr_key key;
    bool open; /* newer versions of XLA add words: only what is nearly a known one is a slip */
    const char *words[8];
};

static const struct vocabulary vocabularies[] = {
    { ATTR_OPERAND_PRECISION, false, { "default", "high", "highest", "packed_nibble" } },
    { ATTR_KIND, false, { "kLoop", "kInput", "kOutput", "kCustom" } },
    { ATTR_COMPARE_TYPE, false, { "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED" } },
    { ATTR_DISTRIBUTION, false, { "rng_uniform", "rng_normal" } },
    { ATTR_SCHEDULE, false, { "SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST" } },
    { ATTR_API_VERSION, true,
      { "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI" } },
};

/* Precisions may be in capitals. */
static bool same_word(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(p, word, n) == 0;
}

static bool unknown_word(struct hlo *r, const struct vocabulary *v, const char *p, size_t n)
{
    char word[64];
    const char *best = NULL;
    int least = 3;
    if (n < sizeof word) {
        memcpy(word, p, n);
        word[n] = '\0';
        for (size_t i = 0; i < COUNTOF(v->words) && v->words[i]; i++) {
            int e = edit_distance(word, v->words[i], 3);
            if (e < least) {
                least = e;
                best = v->words[i];
            }
        }
    }
    if (v->open && !best)
        return true;
    FAIL(r, p, n, "no such %s: '%.*s'", attr_name(v->key), (int)min_i64((int64_t)n, 60), p);
    if (best) {
        diag_hint(r->d, "did you mean %s?", best);
        return false;
    }
    struct str all = STR_IN(&r->tmp);
    for (size_t i = 0; i < COUNTOF(v->words) && v->words[i]; i++)
        str_addf(&all, "%s%s", i ? ", " : "", v->words[i]);
    diag_hint(r->d, "one of %s", str_text(&all));
    return false;
}

bool hlo_check_words(struct hlo *r, uint32_t key, const char *from)
{
    for (size_t i = 0; i < COUNTOF(vocabularies); i++) {
        const struct vocabulary *v = &vocabularies[i];
        if (v->key != key)
            continue;
        for (const char *p = from; p < r->p;) {
            size_t n = word_len(p), k = 0;
            while (n && k < COUNTOF(v->words) && v->words[k] && !same_word(p, n, v->words[k]))
                k++;
            if (n && (k == COUNTOF(v->words) || !v->words[k]) && !unknown_word(r, v, p, n))
                return false;
            p += n ? n : 1;
        }
    }
    return true;
}

/* ---- aliases of buffers ---------------------------------------------------------------------- */

static bool shape_index(struct hlo *r, int64_t *index, int *n)
{
    *n = 0;
    if (!hlo_want(r, '{', "'{' of an index"))
        return false;
    if (take(r, '}'))
        return true;
    do {
        if (*n == 16)
            return FAIL(r, r->p, 1, "this index is too deep");
        if (!hlo_int(r, &index[(*n)++], "a number"))
            return false;
    } while (take(r, ','));
    return hlo_want(r, '}', "',' or '}' of an index");
}

/* The shape at an index; none: it has none there. */
static shape_id shape_at(const struct hlo *r, shape_id s, const int64_t *index, int n)
{
    for (int i = 0; i < n; i++) {
        const struct shape *t = shape_get(r->c, s);
        if (t->kind != SHAPE_TUPLE || index[i] < 0 || index[i] >= t->nelems)
            return (shape_id){ 0 };
        s = t->elems[index[i]];
    }
    return s;
}

static const char *shown(struct hlo *r, shape_id s)
{
    struct str t = STR_IN(&r->tmp);
    shape_print(r->c, s, false, &t);
    return str_text(&t);
}

/* (param, {index}, may-alias) */
static bool parameter_buffer(struct hlo *r, const struct computation *e, shape_id *out)
{
    int64_t k, index[16];
    int n;
    if (!hlo_want(r, '(', "'(' of a parameter and its index"))
        return false;
    skip(r);
    const char *at = r->p;
    if (!hlo_int(r, &k, "a parameter's number"))
        return false;
    size_t len = (size_t)(r->p - at);
    if (k < 0 || k >= e->nparams)
        return FAIL(r, at, len, "the entry '%s' has no parameter %" PRId64 ": it has %" PRIu32,
                    name_text(r->c, e->name), k, e->nparams);
    *out = instr_at(r->m, e->params[k])->shape;
    if (take(r, ',')) {
        skip(r);
        at = r->p;
        if (!shape_index(r, index, &n))
            return false;
        shape_id s = shape_at(r, *out, index, n);
        if (!s.i)
            return FAIL(r, at, (size_t)(r->p - at), "parameter %" PRId64 " is a %s: it has no element %.*s", k,
                        shown(r, *out), (int)(r->p - at), at);
        *out = s;
    }
    if (take(r, ',')) {
        skip(r);
        size_t w = word_len(r->p);
        if (!same(r->p, w, "may-alias") && !same(r->p, w, "must-alias"))
            return FAIL(r, r->p, w, "expected may-alias or must-alias");
        r->p += w;
    }
    return hlo_want(r, ')', "')' behind a parameter's buffer");
}

/* { {out}: (param, {index}, may-alias), ... } */
static bool check_aliases(struct hlo *r, const struct computation *e)
{
    shape_id root = instr_at(r->m, e->root)->shape, param;
    if (!hlo_want(r, '{', "'{'"))
        return false;
    if (take(r, '}'))
        return true;
    do {
        int64_t index[16];
        int n;
        skip(r);
        const char *at = r->p;
        if (!shape_index(r, index, &n))
            return false;
        size_t len = (size_t)(r->p - at);
        shape_id out = shape_at(r, root, index, n);
        if (!out.i)
            return FAIL(r, at, len, "the output of '%s' is a %s: it has no element %.*s", name_text(r->c, e->name),
                        shown(r, root), (int)len, at);
        if (!hlo_want(r, ':', "':' behind the output's index"))
            return false;
        if (!parameter_buffer(r, e, &param))
            return false;
        if (!shape_same(r->c, out, param) && shape_get(r->c, out)->bytes != shape_get(r->c, param)->bytes)
            diag_warn(r->d, r->src, span_of(r, at, len),
                      "output %.*s, a %s, cannot live in a parameter's %s: their sizes differ", (int)len, at,
                      shown(r, out), shown(r, param));
    } while (take(r, ','));
    return hlo_want(r, '}', "',' or '}' behind an alias");
}

/* { (param, {index}), ... } */
static bool check_donors(struct hlo *r, const struct computation *e)
{
    shape_id param;
    if (!hlo_want(r, '{', "'{'"))
        return false;
    if (take(r, '}'))
        return true;
    do
        if (!parameter_buffer(r, e, &param))
            return false;
    while (take(r, ','));
    return hlo_want(r, '}', "',' or '}' behind a donated parameter");
}

/* ---- entry_computation_layout ------------------------------------------------------------------ */

static void differs(struct hlo *r, const char *at, size_t n, const char *what, int64_t k, shape_id says, shape_id is)
{
    char which[32] = "";
    if (k >= 0)
        snprintf(which, sizeof which, " %" PRId64, k);
    diag_warn(r->d, r->src, span_of(r, at, n), "the header says that %s%s is a %s, but it is a %s; the header is not used",
              what, which, shown(r, says), shown(r, is));
}

/* {(f32[8]{0}, ...)->f32[8]{0}}: the instructions say the same again, and they count. */
static bool check_layout(struct hlo *r, const struct computation *e)
{
    int64_t k = 0;
    shape_id s;
    if (!hlo_want(r, '{', "'{'"))
        return false;
    const char *at = r->p;
    if (!hlo_want(r, '(', "'(' of the parameters' shapes"))
        return false;
    if (!take(r, ')')) {
        do {
            skip(r);
            const char *from = r->p;
            if (!hlo_shape(r, &s))
                return false;
            if (k < e->nparams && !shape_same(r->c, s, instr_at(r->m, e->params[k])->shape))
                differs(r, from, (size_t)(r->p - from), "parameter", k, s, instr_at(r->m, e->params[k])->shape);
            k++;
        } while (take(r, ','));
        if (!hlo_want(r, ')', "',' or ')' in the parameters' shapes"))
            return false;
    }
    if (k != e->nparams)
        diag_warn(r->d, r->src, span_of(r, at, 1),
                  "the header has shapes of %" PRId64 " parameters, the entry '%s' has %" PRIu32, k,
                  name_text(r->c, e->name), e->nparams);
    skip(r);
    if (r->p[0] != '-' || r->p[1] != '>')
        return hlo_expected(r, "'->' and the result's shape");
    r->p += 2;
    skip(r);
    const char *from = r->p;
    shape_id root = instr_at(r->m, e->root)->shape;
    if (!hlo_shape(r, &s))
        return false;
    if (!shape_same(r->c, s, root))
        differs(r, from, (size_t)(r->p - from), "the result", -1, s, root);
    return hlo_want(r, '}', "'}'");
}

/* `(a: f32[8]) -> f32[8]`: the result's shape. What it says of parameters nobody reads (nor does XLA). */
bool hlo_check_signature(struct hlo *r, const struct computation *c)
{
    const char *p = c->signature, *end = p ? p + c->signature_len : NULL;
    const char *behind = r->p;
    while (p && p < end && *p != '-') /* the arrow; no bracket holds one */
        p = *p == '(' ? hlo_balanced(p, end) : p + 1;
    if (!p || end - p < 2 || p[1] != '>')
        return true;
    r->p = p + 2;
    skip(r);
    const char *from = r->p;
    shape_id s, root = instr_at(r->m, c->root)->shape;
    bool ok = hlo_shape(r, &s);
    if (ok && !shape_same(r->c, s, root))
        ok = FAIL(r, from, (size_t)(r->p - from), "'%s' is said to return a %s, but its root is a %s",
                  name_text(r->c, c->name), shown(r, s), shown(r, root));
    r->p = behind;
    return ok;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void check_flags(struct hlo *r, const struct header_attr *a, int64_t n, int64_t want, const char *of)
{
    if (n <= 1 || n == want)
        return; /* one flag stands for all */
    diag_warn(r->d, r->src, span_of(r, a->text, a->len), "%" PRId64 " flags for %" PRId64 " %s", n, want, of);
}

static bool is_key(const struct hlo *r, const struct header_attr *a, const char *word)
{
    return strcmp(name_text(r->c, a->key), word) == 0;
}

bool hlo_check_header(struct hlo *r)
{
    const struct computation *e = comp_at(r->m, r->m->entry);
    const char *behind = r->p;
    bool ok = true;
    for (int i = 0; i < r->m->nheader; i++) {
        const struct header_attr *a = &r->m->header[i];
        if (!a->text)
            continue;
        r->p = a->text;
        if (is_key(r, a, "input_output_alias"))
            ok = check_aliases(r, e) && ok;
        else if (is_key(r, a, "buffer_donor"))
            ok = check_donors(r, e) && ok;
        else if (is_key(r, a, "entry_computation_layout"))
            ok = check_layout(r, e) && ok;
        else if (is_key(r, a, "allow_spmd_sharding_propagation_to_parameters"))
            check_flags(r, a, r->m->nto_parameters, e->nparams, "parameters");
        else if (is_key(r, a, "allow_spmd_sharding_propagation_to_output"))
            check_flags(r, a, r->m->nto_output, instr_shape(r->m, e->root)->nleaves, "outputs");
    }
    r->p = behind;
    return ok;
}

/* Those of newer XLAs are kept; what is nearly a known one is a slip. */
bool hlo_check_header_key(struct hlo *r, const char *key, size_t n)
{
    static const char *const known[] = { "num_partitions", "replica_count", "is_scheduled", "entry_computation_layout",
                                         "input_output_alias", "buffer_donor", "frontend_attributes",
                                         "alias_passthrough_params",
                                         "allow_spmd_sharding_propagation_to_output",
                                         "allow_spmd_sharding_propagation_to_parameters" };
    char word[64];
    if (n >= sizeof word)
        return true;
    memcpy(word, key, n);
    word[n] = '\0';
    for (size_t i = 0; i < COUNTOF(known); i++)
        if (strcmp(word, known[i]) == 0)
            return true;
    for (size_t i = 0; i < COUNTOF(known); i++)
        if (edit_distance(word, known[i], 3) < 3) {
            FAIL(r, key, n, "no such attribute of a module: '%s'", word);
            diag_hint(r->d, "did you mean %s?", known[i]);
            return false;
        }
    return true;
}
