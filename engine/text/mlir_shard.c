/* Shardings of operations, arguments and results in StableHLO text: mhlo.sharding strings and Shardy's
 * attributes. */
#include "text/mlir_sdy.h"

/* ---- from attributes --------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What stands in an MLIR string: \22 is a quote, \0A the end of a line. */
static const char *unescaped(struct mlir *r, const char *p, uint32_t *n)
{
    if (!memchr(p, '\\', *n))
        return p;
    struct str s = STR_IN(&r->m->arena);
    for (uint32_t i = 0; i < *n; i++) {
        char c = p[i];
        if (c == '\\' && i + 2 < *n && hex_digit(p[i + 1]) >= 0 && hex_digit(p[i + 2]) >= 0) {
            c = (char)(hex_digit(p[i + 1]) * 16 + hex_digit(p[i + 2]));
            i += 2;
        } else if (c == '\\' && i + 1 < *n) {
            c = p[++i];
        }
        str_addc(&s, c);
    }
    *n = (uint32_t)s.n;
    return str_text(&s);
}

static bool parse_string(struct mlir *r, const struct mattr *a, shape_id shape, sharding_id *out,
                         const struct sharding_note **note)
{
    const char *text;
    uint32_t n;
    if (!mstring(a, &text, &n))
        return MFAIL(r, a->val ? a->val : a->key, 1, "expected a sharding in quotes");
    struct sharding_note *keep = ARENA_NEW(&r->m->arena, struct sharding_note);
    size_t used = 0;
    uint32_t off = (uint32_t)(text - r->base);
    text = unescaped(r, text, &n);
    if (!sharding_parse(r->c->shardings, &r->m->arena, r->src, off, text, n, &used,
                        out, keep, r->d)) {
        r->nerrors++;
        return false;
    }
    if (used != n)
        return MFAIL(r, r->base + off + used, 1, "unexpected text behind the sharding");
    const struct shape *s = shape_get(r->c, shape);
    const struct sharding *h = sharding_get(r->c->shardings, *out);
    if (s->kind == SHAPE_TUPLE && h->kind != SHARDING_TUPLE)
        *out = sharding_tuple_of(r->c->shardings, s->nleaves, *out);
    *note = keep;
    return true;
}

/* [<..>, <..>] (or #sdy.sharding_per_value<[..]>): element k's text; NULL: there is none. */
const char *msdy_element(const char *p, const char *end, int64_t k, const char **stop)
{
    while (p < end && *p != '[')
        p++;
    const char *close = p < end ? mbalanced(p, end) : NULL;
    if (!close)
        return NULL;
    p++;
    for (;;) {
        while (p < close && *p != '<')
            p++;
        const char *q = p < close ? mbalanced(p, close) : NULL;
        if (!q)
            return NULL;
        if (k-- == 0) {
            *stop = q;
            return p;
        }
        p = q;
    }
}

static bool resolve_alias(const struct mlir *r, const struct mattr *a, const char **p, const char **end)
{
    *p = a->val;
    *end = a->val + a->vlen;
    if (a->val[0] != '#' || memchr(a->val, '<', a->vlen))
        return true;
    const struct malias *al = mlir_alias(r, a->val, 1 + mword(a->val + 1));
    if (!al)
        return false;
    *p = al->text;
    *end = al->text + al->ntext;
    return true;
}

static int64_t count_elements(const char *p, const char *end)
{
    const char *stop;
    int64_t n = 0;
    while (msdy_element(p, end, n, &stop))
        n++;
    return n;
}

static bool per_value(struct mlir *r, const struct mattr *a, shape_id shape, sharding_id *out)
{
    const struct shape *s = shape_get(r->c, shape);
    const char *p, *end;
    if (!a->val || !resolve_alias(r, a, &p, &end))
        return MFAIL(r, a->key, a->klen, "expected a sharding");
    bool list = memmem(p, (size_t)(end - p), "per_value", 9) != NULL || *p == '[';
    int64_t n = s->kind == SHAPE_TUPLE ? s->nelems : 1, said = 0;
    sharding_id *leaves = ARENA_ARRAY(&r->scratch, sharding_id, n + 1);
    struct sdy *read = ARENA_ARRAY(&r->scratch, struct sdy, n + 1);
    for (int64_t k = 0; k < n; k++) {
        const char *stop = end;
        const char *q = list ? msdy_element(p, end, k, &stop) : p;
        const struct shape *e = s->kind == SHAPE_TUPLE ? shape_get(r->c, s->elems[k]) : s;
        if (!q)
            return MFAIL(r, p, (size_t)(end - p), "fewer shardings than results");
        if (e->kind == SHAPE_TOKEN) {
            leaves[k] = sharding_replicated(r->c->shardings);
            continue;
        }
        struct sdy *one = &read[k];
        if (!msdy_parse(r, q, stop, e->rank, one))
            return false;
        leaves[k] = one->all_open ? sharding_unknown(r->c->shardings) : msdy_sharding(r, one);
        said += !one->all_open;
    }
    const char *more;
    if (list && n > 0 && msdy_element(p, end, n, &more))
        return MFAIL(r, p, (size_t)(end - p), "%" PRId64 " shardings for %" PRId64 " result%s", count_elements(p, end), n,
                     n == 1 ? "" : "s");
    r->remark = msdy_remark(r, n, read);
    if (said == 0)
        return true;
    *out = s->kind == SHAPE_TUPLE ? sharding_tuple(r->c->shardings, n, leaves) : leaves[0];
    return true;
}

bool mlir_op_sharding(struct mlir *r, const struct mop *op, shape_id shape, sharding_id *out,
                      const struct sharding_note **note)
{
    const struct mattr *a = mattr(op, "mhlo.sharding");
    bool made = op->kind == M_RAW;
    *note = made ? op->raw->note : NULL;
    *out = made ? op->raw->sharding : (sharding_id){ 0 };
    r->remark = NULL;
    if (out->i)
        return true;
    if (a)
        return parse_string(r, a, shape, out, note);
    a = op->kind == M_CONSTANT ? NULL : mattr(op, "sdy.sharding");
    return !a || per_value(r, a, shape, out);
}

bool mlir_dict_sharding(struct mlir *r, const char *text, uint32_t len, shape_id shape, sharding_id *out,
                        const struct sharding_note **note, bool *open)
{
    struct mattr a;
    *out = (sharding_id){ 0 };
    *note = NULL;
    *open = true;
    r->remark = NULL;
    if (!text)
        return true;
    if (mdict_find(text, len, "mhlo.sharding", &a)) {
        struct mattr says;
        *open = mdict_find(text, len, "gspmd.open", &says) && says.val &&
                (mtext(says.val, says.vlen, "true") || mtext(says.val, says.vlen, "\"result\""));
        return parse_string(r, &a, shape, out, note);
    }
    if (!mdict_find(text, len, "sdy.sharding", &a))
        return true;
    const struct shape *s = shape_get(r->c, shape);
    const char *p, *end;
    struct sdy one;
    if (!a.val || s->kind != SHAPE_ARRAY)
        return true;
    if (!resolve_alias(r, &a, &p, &end))
        return MFAIL(r, a.val, a.vlen, "this is not defined");
    if (!msdy_parse(r, p, end, s->rank, &one))
        return false;
    r->remark = msdy_remark(r, 1, &one);
    if (one.all_open)
        return true;
    *out = msdy_sharding(r, &one);
    *open = one.open != 0;
    return true;
}
