/* One operation of StableHLO text: results, name, operands, attributes, regions, types, location.
 *
 * Nearly every pretty form is a mix of the same pieces (operands, words, key = value, a symbol,
 * lists in brackets, a dictionary), so one loop reads them all; only reduce and while have a form of
 * their own. */
#include "text/mlir_op.h"

/* ---- attributes -------------------------------------------------------------------------------- */

/* A value up to a comma or closing bracket at its own level. In a dictionary a type may follow the
 * value (`1 : i64`), in pretty forms a colon ends it, and so does a brace behind something. */
bool mop_raw_value(struct mlir *r, bool pretty, const char **text, uint32_t *len)
{
    mskip(r);
    const char *from = r->p, *stop = r->p;
    for (;;) {
        char c = *r->p;
        if (c == '"' || c == '[' || c == '<' || c == '(' || (c == '{' && (!pretty || stop == from))) {
            if (pretty && c == '(' && stop > from)
                break; /* the block arguments of sdy's computations */
            const char *t;
            uint32_t l;
            if (!mskip_group(r, &t, &l))
                return false;
            stop = r->p;
        } else if (mis(c, MC_SPACE)) {
            r->p++;
            if (pretty && stop > from && !mis(*r->p, MC_SPACE) && *r->p != 'x' && *r->p != '<')
                break; /* `[0] x [1]` goes on; anything else is the next piece */
        } else if (c == ',' || c == '}' || c == ']' || c == ')' || c == '\0' || (c == ':' && pretty)) {
            break;
        } else if (c == '>' && r->p[-1] != '-') {
            break;
        } else {
            r->p++;
            stop = r->p;
            if (pretty && c == 'x' && stop - from > 1 && mis(from[stop - from - 2], MC_SPACE))
                mskip(r);
        }
    }
    if (stop == from)
        return mexpected(r, "a value");
    r->p = stop;
    *text = from;
    *len = (uint32_t)(stop - from);
    return true;
}

void mop_keep_attr(struct mlir *r, const char *key, uint32_t klen, const char *val, uint32_t vlen)
{
    struct mattr a = { key, val, klen, vlen };
    vec_push(&r->tmp, &r->attrs, a);
}

bool mlir_dict(struct mlir *r, char close)
{
    if (mtake(r, close))
        return true;
    do {
        mskip(r);
        const char *key = r->p;
        uint32_t n;
        if (*key == '"') {
            if (!mskip_group(r, &key, &n))
                return false;
            key++;
            n -= 2;
        } else {
            n = (uint32_t)mword(key);
            if (n == 0)
                return mexpected(r, "an attribute's name");
            r->p += n;
        }
        const char *val = NULL;
        uint32_t vlen = 0;
        if (mtake(r, '=') && !mop_raw_value(r, false, &val, &vlen))
            return false;
        mop_keep_attr(r, key, n, val, vlen);
    } while (mtake(r, ','));
    return mwant(r, close, "',' or the end of the attributes");
}

bool mlir_loc(struct mlir *r, const char **text, uint32_t *len)
{
    *text = NULL;
    *len = 0;
    mskip(r);
    if (r->p[0] != 'l' || r->p[1] != 'o' || r->p[2] != 'c' || r->p[3] != '(')
        return true;
    r->p += 3;
    return mskip_group(r, text, len);
}

/* ---- operands ---------------------------------------------------------------------------------- */

static bool use(struct mlir *r)
{
    uint32_t v;
    if (!mlir_use(r, &v))
        return false;
    vec_push(&r->tmp, &r->list, v);
    return true;
}

static bool use_list(struct mlir *r, char close)
{
    if (mtake(r, close))
        return true;
    do
        if (!use(r))
            return false;
    while (mtake(r, ','));
    return mwant(r, close, "',' or ')' behind an operand");
}

static void take_lists(struct mlir *r, struct mop *op)
{
    op->noperands = (uint32_t)r->list.n;
    if (r->list.n)
        op->operands = memcpy(mlir_op_alloc(r, r->list.n, sizeof *r->list.v), r->list.v,
                              (size_t)r->list.n * sizeof *r->list.v);
    r->list.n = 0;
}

void mop_take_attrs(struct mlir *r, struct mop *op)
{
    if (!r->attrs.n)
        return;
    struct mattr *v = mlir_op_alloc(r, op->nattrs + r->attrs.n, sizeof *v);
    if (op->nattrs)
        memcpy(v, op->attrs, op->nattrs * sizeof *v);
    memcpy(v + op->nattrs, r->attrs.v, (size_t)r->attrs.n * sizeof *v);
    op->attrs = v;
    op->nattrs += (uint32_t)r->attrs.n;
    r->attrs.n = 0;
}

/* ---- results ----------------------------------------------------------------------------------- */

static bool read_results(struct mlir *r)
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
static void save_results(struct mlir *r, struct mop *op)
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

static void restore_results(struct mlir *r, struct mop *op)
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

static bool define_results(struct mlir *r, struct mop *op, int64_t n, const shape_id *shapes)
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
            mval(r, v)->by.op = op;
            mval(r, v)->region = g;
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
static bool read_types(struct mlir *r, struct mop *op)
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
        return define_results(r, op, r->shapes.n - nin, r->shapes.n > nin ? r->shapes.v + nin : NULL);
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
        return define_results(r, op, 1, r->shapes.v);
    }
    if (op->noperands && nin > 1 && nin == op->noperands && !check_operand_types(r, op, nin, at))
        return false;
    if (named == nin)
        return define_results(r, op, nin, r->shapes.v);
    if (named == 1 && nin >= 1)
        return define_results(r, op, 1, r->shapes.v + nin - 1);
    return MFAIL(r, at, 1, "%" PRId64 " types for %" PRId64 " results", nin, named);
}

/* ---- the pretty forms -------------------------------------------------------------------------- */

/* reduce(%x init: %c), (%y init: %d) applies stablehlo.add across dimensions = [1] : types
 * reduce(%x init: %c) across dimensions = [1] : types reducer(%a: t, %b: t) (%c: t, %d: t) { */
static bool pretty_reduce(struct mlir *r, struct mop *op, bool *region)
{
    uint32_t inits[256];
    uint32_t n = 0;
    do {
        if (n == COUNTOF(inits))
            return MFAIL(r, r->p, 1, "more than %d arrays in one reduce", (int)COUNTOF(inits));
        if (!mwant(r, '(', "'(' of an array and its initial value") || !use(r))
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
    take_lists(r, op);
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
    if (!read_types(r, op))
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
        struct mregion *pair = ARENA_NEW(&r->tmp, struct mregion); /* values keep it, after errors too */
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
        mval(r, named)->alias = v;
        mval(r, named)->region = g;
        if (i == 0)
            g->arg0 = v;
        g->nargs++;
    }
    if (!mlir_loc(r, &op->loc, &op->nloc))
        return false;
    return mwant(r, '{', "'{' of the reducer");
}

/* while(%iterArg = %x, ...) : types [attributes {..}] cond { .. } do { .. } */
static bool pretty_while(struct mlir *r, struct mop *op)
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
            if (!mwant(r, '=', "'='") || !use(r))
                return false;
        } while (mtake(r, ','));
        if (!mwant(r, ')', "',' or ')'"))
            return false;
    }
    take_lists(r, op);
    save_results(r, op);
    r->shapes.n = 0;
    if (mtake(r, ':') && !mop_type_list(r, false))
        return false;
    if (r->shapes.n != names.n)
        return MFAIL(r, at, 1, "%" PRId64 " types for %" PRId64 " carried values", r->shapes.n, names.n);
    for (int64_t i = 0; i < names.n; i++)
        if (!shape_same(r->c, r->shapes.v[i], mval(r, op->operands[i])->shape))
            return MFAIL(r, names.v[i], mvalue_word(names.v[i]), "this value has another type than its initial "
                         "value");
    mskip(r);
    if (mtext(r->p, mword(r->p), "attributes")) {
        r->p += 10;
        if (!mwant(r, '{', "'{'") || !mlir_dict(r, '}'))
            return false;
        mop_take_attrs(r, op);
    }
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
        mval(r, v)->region = f->region;
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
    take_lists(r, op);
    mop_take_attrs(r, op);
    save_results(r, op);
    mlir_append(r, op);
    const char *at = r->p++;
    struct mframe *f = mlir_push(r, op, FRAME_SDY, at);
    struct mregion *g = f->region;
    if (!mlir_block_args(r, g))
        return false;
    return mwant(r, '{', "'{' of the computation");
}

/* Everything else. */
static bool pretty_pieces(struct mlir *r, struct mop *op, bool *region)
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
            if (!use(r))
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
    take_lists(r, op);
    mop_take_attrs(r, op);
    return true;
}

/* ---- generic form ------------------------------------------------------------------------------ */

static bool generic(struct mlir *r, struct mop *op, bool *region)
{
    op->generic = true;
    *region = false;
    if (!mwant(r, '(', "'(' of the operands") || !use_list(r, ')'))
        return false;
    take_lists(r, op);
    const char *t;
    uint32_t n;
    mskip(r);
    if (*r->p == '[' && !mskip_group(r, &t, &n))
        return false;
    mskip(r);
    if (r->p[0] == '<' && r->p[1] == '{') {
        r->p += 2;
        if (!mlir_dict(r, '}') || !mwant(r, '>', "'>' behind the properties"))
            return false;
        mop_take_attrs(r, op);
    }
    mskip(r);
    const char *at = r->p;
    if (*r->p != '(')
        return true;
    r->p++;
    if (!mwant(r, '{', "'{' of a region"))
        return false;
    *region = true;
    if (op->kind == M_MODULE) {
        const struct mattr *a = mattr(op, "sym_name");
        if (!r->module_name && a)
            (void)mstring(a, &r->module_name, &r->module_nname);
        mlir_push(r, op, FRAME_GENERIC, at);
        r->frames.v[r->frames.n - 1].region = NULL;
        return true;
    }
    if (op->kind == M_FUNC && !mop_generic_func(r, op))
        return false;
    save_results(r, op);
    if (op->kind != M_FUNC)
        mlir_append(r, op);
    mlir_push(r, op, FRAME_GENERIC, at);
    return true;
}

/* ---- an operation ------------------------------------------------------------------------------ */

/* The value's text and the type behind it, for attributes like `value = dense<0> : tensor<f32>`. */
static bool finish(struct mlir *r, struct mop *op)
{
    switch ((enum mkind)op->kind) {
    case M_CONSTANT: return mlir_constant(r, op);
    case M_CONSTRAINT: return mlir_constraint(r, op);
    case M_MANUAL:
    case M_NAMED: return mlir_sdy_region(r, op);
    case M_GROUP: return mlir_group(r, op);
    case M_MESH: return mlir_mesh(r, op);
    case M_IDENTITY:
        if (op->noperands == 1 && op->nresults == 1)
            mreplace(r, op, 0, op->operands[0]);
        return true;
    case M_NONE:
    case M_HLO:
    case M_RETURN:
    case M_CALL:
    case M_CUSTOM:
    case M_MODULE:
    case M_FUNC:
    case M_CHLO:
    case M_COMPOSITE:
    case M_IF:
    case M_RAW:
    case M_UNKNOWN: break;
    }
    mlir_fold(r, op);
    return true;
}

/* Behind the last region: attributes, types, location. */
bool mlir_op_tail(struct mlir *r, struct mop *op, const struct mframe *f)
{
    if (!op)
        return true;
    mskip(r);
    if (*r->p == '{' && f->form == FRAME_GENERIC) {
        const char *from = r->p++;
        if (!mlir_dict(r, '}'))
            return false;
        if (op->kind == M_MODULE && !r->module_attrs) {
            r->module_attrs = from;
            r->module_nattrs = (uint32_t)(r->p - from);
        }
        mop_take_attrs(r, op);
    }
    if (f->form == FRAME_GENERIC || f->form == FRAME_SDY) {
        restore_results(r, op);
        if (op->kind == M_FUNC) {
            const struct mregion *g = r->current ? r->current->body : NULL;
            if (g && r->current->nargs != g->nargs)
                return MFAIL(r, op->at, op->nat, "the function's type has %u arguments, its body %u",
                             r->current->nargs, g->nargs);
        }
        if (mtake(r, ':') && !read_types(r, op))
            return false;
    } else if (f->form == FRAME_WHILE_BODY) {
        restore_results(r, op);
        r->shapes.n = 0;
        for (uint32_t i = 0; i < op->noperands; i++)
            vec_push(&r->tmp, &r->shapes, mval(r, op->operands[i])->shape);
        if (!define_results(r, op, r->shapes.n, r->shapes.v))
            return false;
    }
    const char *loc;
    uint32_t nloc;
    if (!mlir_loc(r, &loc, &nloc))
        return false;
    if (loc) {
        op->loc = loc;
        op->nloc = nloc;
    }
    if (f->form == FRAME_FUNC || f->form == FRAME_MODULE || op->kind == M_FUNC || op->kind == M_MODULE)
        return true;
    return finish(r, op);
}

static bool read_name(struct mlir *r, struct mop *op, bool *quoted)
{
    *quoted = *r->p == '"';
    if (*quoted) {
        if (!mskip_group(r, &op->name, &op->nname))
            return false;
        op->name++;
        op->nname -= 2;
    } else {
        op->name = r->p;
        op->nname = (uint32_t)mword(r->p);
        if (op->nname == 0)
            return mexpected(r, "an operation, like %0 = stablehlo.add %a, %b : tensor<8xf32>, or '}'");
        r->p += op->nname;
    }
    const struct opname *o = mlir_find_opname(r, op->name, op->nname);
    if (o) {
        op->kind = o->kind;
        op->hlo = o->hlo;
        return true;
    }
    if (op->nname > 5 && memcmp(op->name, "chlo.", 5) == 0) {
        op->kind = M_CHLO;
        return true;
    }
    op->kind = M_UNKNOWN;
    if (memchr(op->name, '.', op->nname) == NULL && !*quoted)
        return MFAIL(r, op->name, op->nname, "no such operation: '%.*s'", (int)op->nname, op->name);
    if (op->nname > 10 && memcmp(op->name, "stablehlo.", 10) == 0) {
        MFAIL(r, op->name, op->nname, "no such operation: '%.*s'", (int)op->nname, op->name);
        const char *best = NULL;
        int least = 4;
        char word[64];
        if (op->nname >= sizeof word)
            return false;
        memcpy(word, op->name, op->nname);
        word[op->nname] = '\0';
        for (uint32_t i = 0; i < OPNAMES; i++) {
            int e = r->opnames[i].text ? edit_distance(word, r->opnames[i].text, 3) : 4;
            if (e < least) {
                least = e;
                best = r->opnames[i].text;
            }
        }
        if (best)
            diag_hint(r->d, "did you mean '%s'?", best);
        return false;
    }
    return true;
}

bool mlir_op(struct mlir *r)
{
    r->list.n = r->attrs.n = 0;
    struct mop *op = mlir_op_new(r, M_NONE);
    const char *start = r->p;
    if (!read_results(r))
        return false;
    mskip(r);
    bool quoted, region = false;
    if (!read_name(r, op, &quoted))
        return false;
    if (op->nname > 3 && memcmp(op->name, "cf.", 3) == 0)
        return MFAIL(r, op->name, op->nname, "control flow between blocks (cf) has no counterpart in HLO");
    if (op->kind == M_MODULE || op->kind == M_FUNC || op->kind == M_MESH)
        mlir_op_done(r, op); /* they stand in no block */
    op->at = r->nresults ? r->results[0].text : start;
    op->nat = r->nresults ? r->results[0].len : (uint32_t)(quoted ? op->nname + 2 : op->nname);
    if (quoted) {
        if (!generic(r, op, &region))
            return false;
    } else if (op->kind == M_MODULE) {
        return mop_pretty_module(r, op);
    } else if (op->kind == M_FUNC) {
        return mop_pretty_func(r, op);
    } else if (op->kind == M_HLO && op->hlo == OP_WHILE) {
        return pretty_while(r, op);
    } else if (op->kind == M_HLO && op->hlo == OP_REDUCE) {
        if (!pretty_reduce(r, op, &region))
            return false;
        if (region)
            return true;
        if (!mlir_loc(r, &op->loc, &op->nloc))
            return false;
        return finish(r, op);
    } else if (op->kind == M_MESH) {
        mop_symbol(r, &op->sym, &op->nsym);
        if (!mop_pretty_mesh(r, op))
            return false;
    } else if (!pretty_pieces(r, op, &region)) {
        return false;
    }
    if (region)
        return true;
    mskip(r);
    if (quoted && *r->p == '{') {
        r->p++;
        if (!mlir_dict(r, '}'))
            return false;
        mop_take_attrs(r, op);
    }
    if (op->kind == M_UNKNOWN && !quoted) {
        mskip(r);
        if (*r->p == '{') {
            r->p++;
            if (!mlir_dict(r, '}'))
                return false;
            mop_take_attrs(r, op);
        }
    }
    if (op->kind != M_MESH)
        mlir_append(r, op);
    if (mtake(r, ':')) {
        if (!read_types(r, op))
            return false;
    } else if (r->nresults) {
        return mexpected(r, "':' and the types");
    }
    if (!mlir_loc(r, &op->loc, &op->nloc))
        return false;
    return finish(r, op);
}
