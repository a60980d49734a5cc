/* What an operation of StableHLO text makes: the names in front of it, the types behind it. */
#include "text/mlir_op.h"

/* ---- results ----------------------------------------------------------------------------------- */

bool mop_read_results(struct mlir *r)
{
    r->nresults = 0;
    if (*r->p != '%')
        return true;
    do {
        mskip(r);
        const char *name = r->p + 1;
        size_t n = *r->p == '%' ? mvalue_word(name) : 0;
        if (n == 0)
            return mexpected(r, "the name of a result");
        r->p = name + n;
        int64_t count = 1;
        if (*r->p == ':') {
            r->p++;
            size_t used = parse_i64(r->p, (size_t)(r->end - r->p), &count);
            if (!used || count < 0 || count > (r->end - r->base))
                return mexpected(r, "a number of results");
            r->p += used;
        }
        if (r->nresults == (int)COUNTOF(r->results))
            return MFAIL(r, name - 1, n + 1, "more than %d named results", (int)COUNTOF(r->results));
        r->results[r->nresults].text = name;
        r->results[r->nresults].len = (uint32_t)n;
        r->results[r->nresults++].count = (uint32_t)count;
    } while (mtake(r, ','));
    return mwant(r, '=', "'=' behind the results");
}

/* The result names of an operation with regions, kept until its types are read. */
void mop_save_results(struct mlir *r, struct mop *op)
{
    if (r->nresults == 0)
        return;
    op->at = r->results[0].text;
    op->nat = r->results[0].len;
    /* Kept as attributes with an impossible key, one a name. */
    for (int i = 0; i < r->nresults; i++) {
        struct mattr a = { "%", r->results[i].text, r->results[i].count, r->results[i].len };
        vec_push(&r->tmp, &r->attrs, a);
    }
    r->nresults = 0;
    mop_take_attrs(r, op);
}

void mop_restore_results(struct mlir *r, struct mop *op)
{
    uint32_t kept = 0;
    r->nresults = 0;
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const struct mattr *a = &op->attrs[i];
        if (a->key[0] == '%' && r->nresults < (int)COUNTOF(r->results)) {
            r->results[r->nresults].text = a->val;
            r->results[r->nresults].len = a->vlen;
            r->results[r->nresults++].count = a->klen;
        } else {
            op->attrs[kept++] = *a;
        }
    }
    op->nattrs = kept;
}

bool mop_define_results(struct mlir *r, struct mop *op, int64_t n, const shape_id *shapes)
{
    int64_t named = 0;
    for (int i = 0; i < r->nresults; i++)
        named += r->results[i].count;
    if (r->nresults && named != n)
        return MFAIL(r, op->at, op->nat, "%" PRId64 " results are named, but the operation has %" PRId64,
                     named, n);
    struct mregion *g = r->frames.v[r->frames.n - 1].region;
    op->nresults = (uint32_t)n;
    int64_t k = 0;
    for (int i = 0; i < r->nresults; i++)
        for (uint32_t j = 0; j < r->results[i].count; j++, k++) {
            /* Only the first of a pack has the name itself. */
            uint32_t v = j == 0 ? mlir_define(r, r->results[i].text, r->results[i].len, shapes[k])
                                : mlir_value_new(r, op, g, shapes[k]);
            mset_def(r, v, op);
            mval(r, v)->region = g ? g->id : 0;
            if (k == 0)
                op->result = v;
        }
    for (; k < n; k++) {
        uint32_t v = mlir_value_new(r, op, g, shapes[k]);
        if (k == 0)
            op->result = v;
    }
    r->nresults = 0;
    return true;
}

/* ---- types of an operation --------------------------------------------------------------------- */

bool mop_type_list(struct mlir *r, bool parens)
{
    if (parens && mtake(r, ')'))
        return true;
    do {
        shape_id s;
        if (!mlir_type(r, &s))
            return false;
        vec_push(&r->tmp, &r->shapes, s);
        if (parens) {
            mskip(r);
            const char *t;
            uint32_t l;
            if (*r->p == '{' && !mskip_group(r, &t, &l))
                return false;
        }
    } while (mtake(r, ','));
    return !parens || mwant(r, ')', "',' or ')' behind a type");
}

bool mop_take_arrow(struct mlir *r)
{
    mskip(r);
    if (r->p[0] != '-' || r->p[1] != '>')
        return false;
    r->p += 2;
    return true;
}

/* A type as MLIR writes it, for messages. */
const char *mtype_text(struct mlir *r, shape_id id)
{
    const struct shape *s = shape_get(r->c, id);
    struct str t = STR_IN(&r->tmp);
    if (s->kind == SHAPE_ARRAY) {
        str_adds(&t, "tensor<");
        for (int d = 0; d < s->rank; d++)
            str_addf(&t, "%" PRId64 "x", s->dims[d]);
        const char *n = dtype_name(s->dtype);
        enum dtype_kind k = dtype_kind(s->dtype);
        if (s->dtype == DTYPE_PRED)
            str_adds(&t, "i1");
        else if (s->dtype == DTYPE_C64 || s->dtype == DTYPE_C128)
            str_adds(&t, s->dtype == DTYPE_C64 ? "complex<f32>" : "complex<f64>");
        else
            str_addf(&t, "%s%s", k == DTYPE_KIND_SIGNED ? "i" : k == DTYPE_KIND_UNSIGNED ? "ui" : "",
                     n + (k == DTYPE_KIND_SIGNED || k == DTYPE_KIND_UNSIGNED));
        str_addc(&t, '>');
    } else {
        shape_print(r->c, id, false, &t);
    }
    return str_text(&t);
}

/* `op %a, %b : T`: T is the type of the result and of every operand; only these differ. */
static bool one_type_for_all(const struct mlir *r, const struct mop *op, shape_id t)
{
    return op->kind == M_HLO && op->hlo != OP_COMPLEX && op->hlo != OP_TUPLE && op->hlo != OP_SELECT &&
           op->hlo != OP_CLAMP && op->hlo != OP_AFTER_ALL && shape_get(r->c, t)->kind == SHAPE_ARRAY &&
           op_min_operands((enum op_kind)op->hlo) >= 1 && op_max_operands((enum op_kind)op->hlo) <= 2 &&
           op_max_operands((enum op_kind)op->hlo) == op_min_operands((enum op_kind)op->hlo);
}

static bool check_operand_types(struct mlir *r, const struct mop *op, int64_t n, const char *at)
{
    if (n != op->noperands)
        return MFAIL(r, at, 1, "%" PRId64 " operand types for %u operands", n, op->noperands);
    for (int64_t i = 0; i < n; i++) {
        shape_id have = mval(r, op->operands[i])->shape;
        if (shape_same(r->c, have, r->shapes.v[i]))
            continue;
        return MFAIL(r, at, 1, "operand %" PRId64 " has another type here, %s, than where it is defined (%s)", i,
                     mtype_text(r, r->shapes.v[i]), mtype_text(r, have));
    }
    return true;
}

/* Behind an arrow: one type, or several in parentheses. */
bool mop_result_types(struct mlir *r)
{
    if (mtake(r, '('))
        return mop_type_list(r, true);
    shape_id s;
    if (!mlir_type(r, &s))
        return false;
    vec_push(&r->tmp, &r->shapes, s);
    return true;
}

/* `: (a, b) -> c`, `: (a) -> (b, c)`, `: a, b -> c`, `: a`. */
bool mop_read_types(struct mlir *r, struct mop *op)
{
    r->shapes.n = 0;
    mskip(r);
    const char *at = r->p;
    bool functional = *r->p == '(';
    r->p += functional;
    if (!mop_type_list(r, functional))
        return false;
    int64_t nin = r->shapes.n;
    if (mop_take_arrow(r)) {
        if (!check_operand_types(r, op, nin, at))
            return false;
        if (!mop_result_types(r))
            return false;
        return mop_define_results(r, op, r->shapes.n - nin, r->shapes.n > nin ? r->shapes.v + nin : NULL);
    }
    if (functional)
        return mexpected(r, "'->' and the types of the results");
    int64_t named = 0;
    for (int i = 0; i < r->nresults; i++)
        named += r->results[i].count;
    if (op->kind == M_RETURN && nin && nin == op->noperands && !check_operand_types(r, op, nin, at))
        return false;
    if (op->kind == M_RETURN || op->kind == M_GROUP || named == 0)
        return true;
    if (nin == 1 && named == 1 && op->noperands && one_type_for_all(r, op, r->shapes.v[0])) {
        while (r->shapes.n < op->noperands)
            vec_push(&r->tmp, &r->shapes, r->shapes.v[0]);
        if (!check_operand_types(r, op, op->noperands, at))
            return false;
        return mop_define_results(r, op, 1, r->shapes.v);
    }
    if (op->noperands && nin > 1 && nin == op->noperands && !check_operand_types(r, op, nin, at))
        return false;
    if (named == nin)
        return mop_define_results(r, op, nin, r->shapes.v);
    if (named == 1 && nin >= 1)
        return mop_define_results(r, op, 1, r->shapes.v + nin - 1);
    return MFAIL(r, at, 1, "%" PRId64 " types for %" PRId64 " results", nin, named);
}
