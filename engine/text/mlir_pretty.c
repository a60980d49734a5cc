/* Pretty forms of StableHLO text. Nearly every one is a mix of the same pieces (operands, words, key = value,
 * a symbol, lists in brackets, a dictionary), so one loop reads them all; only reduce and while have a form of
 * their own. */
#include "text/mlir_op.h"

/* ---- the pretty forms -------------------------------------------------------------------------- */

/* reduce(%x init: %c), (%y init: %d) applies stablehlo.add across dimensions = [1] : types
 * reduce(%x init: %c) across dimensions = [1] : types reducer(%a: t, %b: t) (%c: t, %d: t) { */
bool mop_pretty_reduce(struct mlir *r, struct mop *op, bool *region)
{
    uint32_t inits[256];
    uint32_t n = 0;
    do {
        if (n == COUNTOF(inits))
            return MFAIL(r, r->p, 1, "more than %d arrays in one reduce", (int)COUNTOF(inits));
        if (!mwant(r, '(', "'(' of an array and its initial value") || !mop_use(r))
            return false;
        mskip(r);
        if (strncmp(r->p, "init:", 5) != 0)
            return mexpected(r, "'init:' and the initial value");
        r->p += 5;
        if (!mlir_use(r, &inits[n++]) || !mwant(r, ')', "')'"))
            return false;
    } while (mtake(r, ','));
    for (uint32_t i = 0; i < n; i++)
        vec_push(&r->tmp, &r->list, inits[i]);
    mop_take_operands(r, op);
    for (;;) {
        mskip(r);
        const char *w = r->p;
        size_t k = mword(w);
        if (mtext(w, k, "applies")) {
            r->p += k;
            mskip(r);
            const char *body = r->p;
            uint32_t nb = (uint32_t)mword(body);
            mop_keep_attr(r, "applies", 7, body, nb);
            r->p += nb;
        } else if (mtext(w, k, "across")) {
            r->p += k;
        } else if (mtext(w, k, "dimensions")) {
            const char *v;
            uint32_t nv;
            r->p += k;
            if (!mwant(r, '=', "'='") || !mop_raw_value(r, true, &v, &nv))
                return false;
            mop_keep_attr(r, "dimensions", 10, v, nv);
        } else if (*w == '{') {
            r->p++;
            if (!mlir_dict(r, '}'))
                return false;
        } else if (*w == ':') {
            break;
        } else {
            return mexpected(r, "'applies', 'across dimensions = [..]' or ':'");
        }
    }
    r->p++;
    mop_take_attrs(r, op);
    mlir_append(r, op);
    if (!mop_read_types(r, op))
        return false;
    mskip(r);
    *region = strncmp(r->p, "reducer", 7) == 0;
    if (!*region)
        return true;
    const char *at = r->p;
    r->p += 7;
    struct mframe *f = mlir_push(r, op, FRAME_REDUCE, at);
    /* Pairs (old, new), one a group of parentheses; the region has all old ones first. */
    struct mregion *g = f->region;
    VEC(uint32_t) first = { 0 };
    VEC(uint32_t) second = { 0 };
    while (mtake(r, '(')) {
        struct mregion *pair = mlir_region_new(r); /* values keep it, after errors too */
        pair->open = true;
        if (!mlir_block_args(r, pair))
            return false;
        if (pair->nargs != 2)
            return MFAIL(r, at, 7, "each group of a reducer has two arguments");
        vec_push(&r->tmp, &first, pair->arg0);
        vec_push(&r->tmp, &second, pair->arg0 + 1);
        mskip(r);
    }
    for (int64_t i = 0; i < first.n + second.n; i++) {
        uint32_t named = i < first.n ? first.v[i] : second.v[i - first.n];
        uint32_t v = mlir_value_new(r, NULL, g, mval(r, named)->shape);
        mset_alias(r, named, v);
        mval(r, named)->region = g->id;
        if (i == 0)
            g->arg0 = v;
        g->nargs++;
    }
    if (!mlir_op_loc(r, op))
        return false;
    return mwant(r, '{', "'{' of the reducer");
}

/* while(%iterArg = %x, ...) : types [attributes {..}] cond { .. } do { .. } */
bool mop_pretty_while(struct mlir *r, struct mop *op)
{
    const char *at = r->p;
    VEC(const char *) names = { 0 };
    if (!mwant(r, '(', "'(' of the carried values"))
        return false;
    if (!mtake(r, ')')) {
        do {
            mskip(r);
            const char *name = r->p + 1;
            if (*r->p != '%' || mword(name) == 0)
                return mexpected(r, "a carried value, like %iterArg = %0");
            r->p = name + mvalue_word(name);
            vec_push(&r->tmp, &names, name);
            if (!mwant(r, '=', "'='") || !mop_use(r))
                return false;
        } while (mtake(r, ','));
        if (!mwant(r, ')', "',' or ')'"))
            return false;
    }
    mop_take_operands(r, op);
    mop_save_results(r, op);
    r->shapes.n = 0;
    if (mtake(r, ':') && !mop_type_list(r, false))
        return false;
    if (r->shapes.n != names.n)
        return MFAIL(r, at, 1, "%" PRId64 " types for %" PRId64 " carried values", r->shapes.n, names.n);
    for (int64_t i = 0; i < names.n; i++)
        if (!shape_same(r->c, r->shapes.v[i], mval(r, op->operands[i])->shape))
            return MFAIL(r, names.v[i], mvalue_word(names.v[i]), "this value has another type than its initial "
                         "value");
    if (!mop_attributes(r, op))
        return false;
    mskip(r);
    if (!mtext(r->p, mword(r->p), "cond"))
        return mexpected(r, "'cond {', the loop's condition");
    r->p += 4;
    if (!mwant(r, '{', "'{' of the loop's condition"))
        return false;
    mlir_append(r, op);
    shape_id *shapes = arena_copy(&r->tmp, r->shapes.v, r->shapes.n, sizeof *r->shapes.v);
    struct mframe *f = mlir_push(r, op, FRAME_WHILE_COND, at);
    for (int64_t i = 0; i < names.n; i++) {
        uint32_t v = mlir_define(r, names.v[i], mvalue_word(names.v[i]), shapes[i]);
        mval(r, v)->region = f->region->id;
        if (i == 0)
            f->region->arg0 = v;
        f->region->nargs++;
    }
    return true;
}

/* Whether `(` at the cursor opens block arguments: (%arg3: tensor<..>. */
static bool opens_block(const struct mlir *r)
{
    const char *q = r->p + 1;
    while (mis(*q, MC_SPACE))
        q++;
    if (*q == ')') { /* no arguments: a region follows */
        q++;
        while (mis(*q, MC_SPACE))
            q++;
        return *q == '{';
    }
    if (*q != '%')
        return false;
    q++;
    q += mvalue_word(q);
    while (*q == ' ')
        q++;
    return *q == ':';
}

static bool sdy_block(struct mlir *r, struct mop *op)
{
    mop_take_operands(r, op);
    mop_take_attrs(r, op);
    mop_save_results(r, op);
    mlir_append(r, op);
    const char *at = r->p++;
    struct mframe *f = mlir_push(r, op, FRAME_SDY, at);
    struct mregion *g = f->region;
    if (!mlir_block_args(r, g))
        return false;
    return mwant(r, '{', "'{' of the computation");
}

/* Everything else. */
bool mop_pretty_pieces(struct mlir *r, struct mop *op, bool *region)
{
    *region = false;
    int64_t inside = 0; /* parentheses: custom_call @f(%0), top_k(%0, k = 4) */
    for (;;) {
        mskip(r);
        const char *p = r->p;
        const char *v;
        uint32_t nv;
        switch (*p) {
        case '%':
            if (!mop_use(r))
                return false;
            continue;
        case ',': r->p++; continue;
        case '@':
            r->p++;
            if (*r->p == '"') {
                if (!mskip_group(r, &op->sym, &op->nsym))
                    return false;
                op->sym++;
                op->nsym -= 2;
            } else {
                op->sym = r->p;
                op->nsym = (uint32_t)mword(r->p);
                r->p += op->nsym;
            }
            continue;
        case '(':
            if ((op->kind == M_MANUAL || op->kind == M_NAMED) && opens_block(r)) {
                *region = true;
                return sdy_block(r, op);
            }
            r->p++;
            inside++;
            continue;
        case ')':
            if (inside == 0)
                return mexpected(r, "an operand, an attribute or ':'");
            inside--;
            r->p++;
            continue;
        case '[':
        case '<':
            if (!mskip_group(r, &v, &nv))
                return false;
            mop_keep_attr(r, *p == '[' ? "[" : "<", 1, v, nv);
            continue;
        case '"':
            if (!mskip_group(r, &v, &nv))
                return false;
            mop_keep_attr(r, "", 0, v, nv);
            continue;
        case '{':
            r->p++;
            if (!mlir_dict(r, '}'))
                return false;
            continue;
        case ':': goto types;
        case '}':
        case '\0': goto types;
        default: break;
        }
        uint32_t n = (uint32_t)mword(p);
        if (n == 0 && *p != '#' && *p != '-')
            return mexpected(r, "an operand, an attribute or ':'");
        if (n == 3 && memcmp(p, "loc", 3) == 0 && p[3] == '(')
            goto types;
        r->p += n;
        const char *behind = r->p;
        if (n && mtake(r, '=')) {
            if (!mop_raw_value(r, true, &v, &nv))
                return false;
            mop_keep_attr(r, p, n, v, nv);
            continue;
        }
        r->p = behind;
        if (n && mtext(p, n, "attributes"))
            continue;
        /* A return without operands ends at its line. */
        if (op->kind == M_RETURN)
            goto types;
        if (n == 0 || *r->p == '<') { /* dense<..>, #stablehlo<..>, -> never */
            r->p = p;
            if (!mop_raw_value(r, true, &v, &nv))
                return false;
            mop_keep_attr(r, "", 0, v, nv);
            continue;
        }
        mop_keep_attr(r, "", 0, p, n);
    }
types:
    if (inside)
        return mexpected(r, "')'");
    mop_take_operands(r, op);
    mop_take_attrs(r, op);
    return true;
}
