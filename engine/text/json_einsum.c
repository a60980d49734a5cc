/* JSON models: einsum, "bqhk,bthk->bhqt", one letter a dimension.
 *
 * Two operands: letters of both that the result keeps are batch dimensions, letters of both that it
 * drops are contracted, and a letter of one side that it drops is summed there first. HLO's dot
 * puts batch dimensions first, then what is left of each operand; a transpose follows where the
 * result wants another order. One operand: a sum over what is dropped, then a transpose. */
#include <string.h>

#include "text/json.h"

struct side {
    char letters[JSON_MAX_RANK + 1];
    int n;
    instr_id instr;
};

static bool spec_error(struct model *j, const char *what)
{
    return OP_FAIL(j, "einsum", "%s, as in \"bd,df->bf\"", what);
}

static bool read_letters(struct model *j, const char **p, struct side *s)
{
    s->n = 0;
    for (; (**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z'); (*p)++) {
        if (s->n == JSON_MAX_RANK)
            return spec_error(j, "too many letters");
        if (memchr(s->letters, **p, (size_t)s->n))
            return OP_FAIL(j, "einsum",
                           "the letter '%c' stands twice in one operand: a diagonal "
                           "cannot be said here",
                           **p);
        s->letters[s->n++] = **p;
    }
    s->letters[s->n] = '\0';
    return true;
}

static int find(const struct side *s, char c)
{
    const char *p = memchr(s->letters, c, (size_t)s->n);
    return p ? (int)(p - s->letters) : -1;
}

static const struct shape *shape_of(const struct model *j, instr_id i)
{
    return instr_shape(j->m, i);
}

/* Sums over the letters that neither the other operand nor the result has. */
static bool drop_lonely(struct model *j, struct side *s, const struct side *other,
                        const struct side *out, const char *part)
{
    int64_t gone[JSON_MAX_RANK], dims[JSON_MAX_RANK];
    int ngone = 0, n = 0;
    const struct shape *sh = shape_of(j, s->instr);
    char kept[JSON_MAX_RANK + 1];
    for (int d = 0; d < s->n; d++) {
        if ((other && find(other, s->letters[d]) >= 0) || find(out, s->letters[d]) >= 0) {
            kept[n] = s->letters[d];
            dims[n++] = sh->dims[d];
        } else {
            gone[ngone++] = d;
        }
    }
    if (!ngone)
        return true;
    if (sh->dtype != j->sh->dtype || dtype_kind(sh->dtype) == DTYPE_KIND_COMPLEX)
        return OP_FAIL(j, "einsum",
                       "a letter that only one operand has is summed first, and that "
                       "needs operand and result of one type: %s and %s",
                       dtype_name(sh->dtype), dtype_name(j->sh->dtype));
    if (!other && n == out->n && memcmp(kept, out->letters, (size_t)n) == 0)
        part = NULL; /* this sum is the tensor itself */
    s->instr =
        json_reduce(j, part, OP_ADD, s->instr, ngone, gone, shape_array(j->c, sh->dtype, n, dims));
    memcpy(s->letters, kept, (size_t)n);
    s->letters[n] = '\0';
    s->n = n;
    return true;
}

static int pick(const struct side *a, const struct side *b, const struct side *out, bool kept,
                int64_t *da, int64_t *db)
{
    int n = 0;
    for (int d = 0; d < a->n; d++) {
        int e = find(b, a->letters[d]);
        if (e < 0 || (find(out, a->letters[d]) >= 0) != kept)
            continue;
        da[n] = d;
        db[n++] = e;
    }
    return n;
}

static bool sizes_agree(struct model *j, const struct side *a, const struct side *b)
{
    const struct shape *sa = shape_of(j, a->instr), *sb = shape_of(j, b->instr);
    for (int d = 0; d < a->n; d++) {
        int e = find(b, a->letters[d]);
        if (e >= 0 && sa->dims[d] != sb->dims[e])
            return OP_FAIL(j, "einsum",
                           "the letter '%c' is %" PRId64 " in the first operand and %" PRId64
                           " in the second",
                           a->letters[d], sa->dims[d], sb->dims[e]);
    }
    return true;
}

/* The dot, with what its dimensions are called. */
static struct side dot(struct model *j, const struct side *a, const struct side *b,
                       const struct side *out)
{
    int64_t ba[JSON_MAX_RANK], bb[JSON_MAX_RANK], ca[JSON_MAX_RANK], cb[JSON_MAX_RANK];
    int nb = pick(a, b, out, true, ba, bb), nc = pick(a, b, out, false, ca, cb);
    struct side r = { .n = 0 };
    int64_t dims[2 * JSON_MAX_RANK];
    char letters[2 * JSON_MAX_RANK + 1];
    int n = 0;
    const struct shape *sa = shape_of(j, a->instr), *sb = shape_of(j, b->instr);
    for (int k = 0; k < nb; k++) {
        letters[n] = a->letters[ba[k]];
        dims[n++] = sa->dims[ba[k]];
    }
    for (int d = 0; d < a->n; d++)
        if (find(b, a->letters[d]) < 0) {
            letters[n] = a->letters[d];
            dims[n++] = sa->dims[d];
        }
    for (int d = 0; d < b->n; d++)
        if (find(a, b->letters[d]) < 0) {
            letters[n] = b->letters[d];
            dims[n++] = sb->dims[d];
        }
    struct attr attrs[4];
    int na = 0;
    if (nb) {
        attrs[na++] = attr_ints(j->m, ATTR_LHS_BATCH, nb, ba);
        attrs[na++] = attr_ints(j->m, ATTR_RHS_BATCH, nb, bb);
    }
    attrs[na++] = attr_ints(j->m, ATTR_LHS_CONTRACTING, nc, ca);
    attrs[na++] = attr_ints(j->m, ATTR_RHS_CONTRACTING, nc, cb);
    instr_id operands[2] = { a->instr, b->instr };
    /* Every letter of the dot is one of the result, so there are at most JSON_MAX_RANK. */
    memcpy(r.letters, letters, (size_t)n);
    r.n = n;
    bool order = n == out->n && memcmp(letters, out->letters, (size_t)n) == 0;
    r.instr = json_emit(j, order ? NULL : "dot", OP_DOT, shape_array(j->c, j->sh->dtype, n, dims),
                        2, operands, na, attrs);
    return r;
}

static bool finish(struct model *j, struct side *s, const struct side *out)
{
    int64_t perm[JSON_MAX_RANK], dims[JSON_MAX_RANK];
    bool identity = true;
    const struct shape *sh = shape_of(j, s->instr);
    for (int d = 0; d < out->n; d++) {
        perm[d] = find(s, out->letters[d]);
        dims[d] = sh->dims[perm[d]];
        identity = identity && perm[d] == d;
    }
    shape_id got = shape_array(j->c, sh->dtype, out->n, dims);
    if (!shape_same(j->c, got, j->shape)) {
        struct str t = STR_IN(&j->tmp);
        shape_print(j->c, got, false, &t);
        return OP_FAIL(j, "shape", "this einsum gives %s", str_text(&t));
    }
    if (identity && instr_at(j->m, s->instr)->name.i == 0)
        return true;
    struct attr a = attr_ints(j->m, ATTR_DIMENSIONS, out->n, perm);
    json_emit(j, NULL, identity ? OP_COPY : OP_TRANSPOSE, got, 1, &s->instr, identity ? 0 : 1, &a);
    return true;
}

static bool check_letters(struct model *j, const struct side *in, int nin, const struct side *out)
{
    for (int d = 0; d < out->n; d++) {
        bool known = false;
        for (int k = 0; k < nin; k++)
            known = known || find(&in[k], out->letters[d]) >= 0;
        if (!known)
            return OP_FAIL(j, "einsum", "the result's letter '%c' is in no operand",
                           out->letters[d]);
    }
    for (int k = 0; k < nin; k++) {
        const struct shape *s = shape_of(j, in[k].instr);
        if (s->rank != in[k].n)
            return OP_FAIL(j, "einsum", "operand %d has %d dimensions, but %d letters ('%s')", k,
                           s->rank, in[k].n, in[k].letters);
        if (s->dtype != j->sh->dtype && nin == 1)
            return OP_FAIL(j, "shape", "the operand is %s, the result %s: use \"convert\"",
                           dtype_name(s->dtype), dtype_name(j->sh->dtype));
    }
    return true;
}

bool json_einsum(struct model *j, const char *spec)
{
    struct side in[2], out;
    const char *p = spec;
    int nin = 0;
    do {
        if (nin == 2)
            return spec_error(j, "an einsum has one or two operands");
        if (!read_letters(j, &p, &in[nin++]))
            return false;
    } while (*p == ',' && p++);
    if (p[0] != '-' || p[1] != '>')
        return spec_error(j, "expected \"->\"");
    p += 2;
    if (!read_letters(j, &p, &out))
        return false;
    if (*p)
        return OP_FAIL(j, "einsum", "unexpected '%c' behind the result's letters", *p);
    if (json_nargs(j) != nin)
        return OP_FAIL(j, "args", "this einsum has %d operand%s, not %d", nin, nin == 1 ? "" : "s",
                       json_nargs(j));
    for (int k = 0; k < nin; k++)
        if (!json_arg(j, k, &in[k].instr))
            return false;
    if (!check_letters(j, in, nin, &out) || (nin == 2 && !sizes_agree(j, &in[0], &in[1])))
        return false;
    if (!drop_lonely(j, &in[0], nin == 2 ? &in[1] : NULL, &out, "sum0"))
        return false;
    if (nin == 1)
        return finish(j, &in[0], &out);
    if (!drop_lonely(j, &in[1], &in[0], &out, "sum1"))
        return false;
    struct side r = dot(j, &in[0], &in[1], &out);
    return finish(j, &r, &out);
}
