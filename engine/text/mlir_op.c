/* One operation of StableHLO text: results, name, operands, attributes, regions, types, location.
 *
 * Nearly every pretty form is a mix of the same pieces (operands, words, key = value, a symbol,
 * lists in brackets, a dictionary), so one loop reads them all; only reduce and while have a form of
 * their own. */
#include "text/mlir.h"

/* ---- names of operations ----------------------------------------------------------------------- */

static void put_opname(struct mlir *r, const char *text, enum mkind kind, enum op_kind hlo)
{
    uint32_t n = (uint32_t)strlen(text), k = (uint32_t)hash_bytes(text, n, 1) & (OPNAMES - 1);
    while (r->opnames[k].text)
        k = (k + 1) & (OPNAMES - 1);
    r->opnames[k] = (struct opname){ text, n, (uint8_t)kind, (uint16_t)hlo };
}

static const struct opname *find_opname(const struct mlir *r, const char *p, size_t n)
{
    for (uint32_t k = (uint32_t)hash_bytes(p, n, 1) & (OPNAMES - 1); r->opnames[k].text;
         k = (k + 1) & (OPNAMES - 1))
        if (r->opnames[k].len == n && memcmp(r->opnames[k].text, p, n) == 0)
            return &r->opnames[k];
    return NULL;
}

void mlir_fill_opnames(struct mlir *r)
{
    static const struct {
        const char *name;
        uint16_t op;
    } ops[] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)                \
    { stablehlo, OP_##id },
#include "ir/ops.def"
    };
    for (size_t i = 0; i < COUNTOF(ops); i++) {
        enum op_kind op = (enum op_kind)ops[i].op;
        if (!ops[i].name[0] || op == OP_CONSTANT || op == OP_CUSTOM_CALL)
            continue;
        put_opname(r, arena_printf(&r->tmp, "stablehlo.%s", ops[i].name), M_HLO, op);
        put_opname(r, arena_printf(&r->tmp, "mhlo.%s", ops[i].name), M_HLO, op);
    }
    static const struct {
        const char *name;
        uint8_t kind;
        uint16_t hlo;
    } more[] = {
        { "constant", M_CONSTANT, 0 }, { "custom_call", M_CUSTOM, 0 }, { "return", M_RETURN, 0 },
        { "if", M_IF, OP_CONDITIONAL }, { "dot", M_HLO, OP_DOT }, { "tuple", M_HLO, OP_TUPLE },
        { "get_tuple_element", M_HLO, OP_GET_TUPLE_ELEMENT }, { "create_token", M_HLO, OP_AFTER_ALL },
        { "broadcast", M_CHLO, OP_BROADCAST }, { "composite", M_COMPOSITE, 0 },
        { "replica_id", M_HLO, OP_REPLICA_ID }, { "copy", M_HLO, OP_COPY }, { "erf", M_HLO, OP_ERF },
        { "topk", M_HLO, OP_TOPK }, { "torch_index_select", M_UNKNOWN, 0 },
        { "dynamic_broadcast_in_dim", M_CHLO, OP_BROADCAST }, { "dynamic_iota", M_CHLO, OP_IOTA },
        { "dynamic_conv", M_CHLO, OP_CONVOLUTION }, { "dynamic_gather", M_CHLO, OP_GATHER },
        { "dynamic_pad", M_CHLO, OP_PAD }, { "real_dynamic_slice", M_CHLO, OP_SLICE },
        { "cross-replica-sum", M_CHLO, OP_ALL_REDUCE },
    };
    for (size_t i = 0; i < COUNTOF(more); i++) {
        put_opname(r, arena_printf(&r->tmp, "stablehlo.%s", more[i].name), (enum mkind)more[i].kind,
                   (enum op_kind)more[i].hlo);
        put_opname(r, arena_printf(&r->tmp, "mhlo.%s", more[i].name), (enum mkind)more[i].kind,
                   (enum op_kind)more[i].hlo);
    }
    static const struct {
        const char *name;
        uint8_t kind;
    } rest[] = {
        { "func.call", M_CALL }, { "call", M_CALL }, { "func.return", M_RETURN }, { "return", M_RETURN },
        { "sdy.return", M_RETURN }, { "func.func", M_FUNC }, { "func", M_FUNC }, { "module", M_MODULE },
        { "builtin.module", M_MODULE }, { "sdy.mesh", M_MESH }, { "sdy.constant", M_CONSTANT },
        { "arith.constant", M_CONSTANT },
        { "sdy.sharding_constraint", M_CONSTRAINT }, { "sdy.reshard", M_CONSTRAINT },
        { "sdy.all_gather", M_CONSTRAINT }, { "sdy.all_slice", M_CONSTRAINT },
        { "sdy.all_to_all", M_CONSTRAINT }, { "sdy.collective_permute", M_CONSTRAINT },
        { "sdy.all_reduce", M_CONSTRAINT }, { "sdy.reduce_scatter", M_CONSTRAINT },
        { "sdy.replicated_to_unreduced", M_CONSTRAINT }, { "sdy.sharded_to_unreduced", M_CONSTRAINT },
        { "sdy.manual_computation", M_MANUAL }, { "sdy.named_computation", M_NAMED },
        { "sdy.sharding_group", M_GROUP }, { "sdy.data_flow_edge", M_IDENTITY },
        { "sdy.func_data_flow_edge", M_IDENTITY }, { "sdy.propagation_barrier", M_IDENTITY },
    };
    for (size_t i = 0; i < COUNTOF(rest); i++)
        put_opname(r, rest[i].name, (enum mkind)rest[i].kind, OP_NONE);
}

/* ---- types ------------------------------------------------------------------------------------- */

static enum dtype element_type(const char *p, size_t n)
{
    static const struct {
        const char *mlir;
        enum dtype t;
    } odd[] = { { "i1", DTYPE_PRED },        { "index", DTYPE_S64 },
                { "f8E4M3FN", DTYPE_F8E4M3FN }, { "f8E5M2", DTYPE_F8E5M2 },
                { "f8E4M3", DTYPE_F8E4M3 },  { "f8E3M4", DTYPE_F8E3M4 },
                { "f8E4M3B11FNUZ", DTYPE_F8E4M3B11 }, { "f8E4M3FNUZ", DTYPE_F8E4M3FNUZ },
                { "f8E5M2FNUZ", DTYPE_F8E5M2FNUZ }, { "f4E2M1FN", DTYPE_F4E2M1FN },
                { "f8E8M0FNU", DTYPE_F8E8M0FNU }, { "complex<f32>", DTYPE_C64 },
                { "complex<f64>", DTYPE_C128 } };
    for (size_t i = 0; i < COUNTOF(odd); i++)
        if (mtext(p, n, odd[i].mlir))
            return odd[i].t;
    char word[16];
    if (n + 1 >= sizeof word || n < 2)
        return DTYPE_NONE;
    if (p[0] == 'i' || (p[0] == 's' && p[1] == 'i')) {
        size_t from = p[0] == 'i' ? 1 : 2;
        word[0] = 's';
        memcpy(word + 1, p + from, n - from);
        return dtype_find(word, n - from + 1);
    }
    if (p[0] == 'u' && p[1] == 'i') {
        word[0] = 'u';
        memcpy(word + 1, p + 2, n - 2);
        return dtype_find(word, n - 1);
    }
    return p[0] == 'f' || p[0] == 'b' ? dtype_find(p, n) : DTYPE_NONE;
}

/* Bounds of dynamic dimensions: #stablehlo.bounds<?, 8> (or type_extensions<bounds = [?, 8]>). */
static void read_bounds(const char *p, const char *end, int rank, int64_t *dims, uint64_t *dynamic)
{
    const char *q = memmem(p, (size_t)(end - p), "bounds", 6);
    if (!q)
        return;
    q += 6;
    for (int d = 0; d < rank && q < end; d++) {
        while (q < end && *q != '?' && !mis(*q, MC_DIGIT))
            q++;
        int64_t v;
        size_t used = q < end && *q != '?' ? parse_i64(q, (size_t)(end - q), &v) : 0;
        if (used && dims[d] < 0) {
            dims[d] = v;
            *dynamic |= (uint64_t)1 << d;
        }
        q += used ? used : 1;
    }
}

static bool tensor_type(struct mlir *r, const char *p, const char *end, shape_id *out)
{
    int64_t dims[64];
    int rank = 0;
    const char *at = p;
    if (p >= end)
        return MFAIL(r, end, 1, "expected a type between '<' and '>', as in tensor<8x16xf32>");
    for (;;) {
        if (*p != '?' && !mis(*p, MC_DIGIT))
            break;
        if (rank == 62)
            return MFAIL(r, at, (size_t)(end - at), "more than 62 dimensions");
        int64_t v = -1;
        size_t used = *p == '?' ? 1 : parse_i64(p, (size_t)(end - p), &v);
        if (!used)
            return MFAIL(r, p, mword(p), "this size does not fit in 64 bits");
        p += used;
        dims[rank++] = v;
        if (*p != 'x')
            return MFAIL(r, p, 1, "expected 'x' behind a size");
        p++;
    }
    const char *e = p;
    while (e < end && *e != ',' && *e != ' ')
        e++;
    enum dtype t = element_type(p, (size_t)(e - p));
    if (t == DTYPE_NONE) {
        if (memmem(p, (size_t)(end - p), "quant", 5))
            return MFAIL(r, p, (size_t)(e - p), "quantised element types have no counterpart in HLO");
        return MFAIL(r, p, (size_t)(e - p), "no such element type: '%.*s'", (int)(e - p < 40 ? e - p : 40), p);
    }
    uint64_t dynamic = 0;
    read_bounds(e, end, rank, dims, &dynamic);
    for (int d = 0; d < rank; d++)
        if (dims[d] < 0) {
            MFAIL(r, at, (size_t)(end - at), "the size of dimension %d is not known ('?'): shapes must be "
                  "static to be partitioned", d);
            diag_hint(r->d, "export with concrete shapes, or refine them first (jax.export without "
                            "symbolic dimensions)");
            return false;
        }
    *out = shape_array_full(r->c, t, rank, dims, dynamic, (name_id){ 0 });
    return true;
}

static bool tuple_type(struct mlir *r, const char *end, shape_id *out)
{
    VEC(shape_id) v = { 0 };
    mskip(r);
    while (r->p < end) {
        shape_id s;
        if (!mlir_type(r, &s))
            return false;
        vec_push(&r->tmp, &v, s);
        mskip(r);
        if (*r->p == ',')
            r->p++;
        mskip(r);
    }
    *out = shape_tuple(r->c, v.n, v.v);
    return true;
}

static bool type_nested(struct mlir *r, int depth, shape_id *out);

static bool slow_type(struct mlir *r, int depth, shape_id *out)
{
    const char *at = r->p;
    size_t n = mword(r->p);
    if (*at == '!') {
        r->p++;
        n = mword(r->p);
        const char *name = r->p;
        r->p += n;
        if (mtext(name, n, "stablehlo.token") || mtext(name, n, "mhlo.token")) {
            *out = shape_token(r->c);
            return true;
        }
        const struct malias *a = mlir_alias(r, at, n + 1);
        if (a && depth < 8) {
            const char *back = r->p, *end = r->end;
            r->p = a->text;
            bool ok = type_nested(r, depth + 1, out);
            r->p = back;
            r->end = end;
            return ok;
        }
        if (*r->p == '<') {
            const char *t;
            uint32_t l;
            if (!mskip_group(r, &t, &l))
                return false;
        }
        *out = shape_opaque(r->c, (name_id){ 0 });
        return true;
    }
    if (mtext(at, n, "tensor") || mtext(at, n, "tuple") || mtext(at, n, "vector") || mtext(at, n, "memref")) {
        r->p += n;
        mskip(r);
        const char *close = *r->p == '<' ? mbalanced(r->p, r->end) : NULL;
        if (!close)
            return mexpected(r, "'<...>', as in tensor<8x16xf32>");
        r->p++;
        mskip(r);
        if (at[1] == 'u') {
            if (depth >= 8)
                return MFAIL(r, at, n, "tuples nested too deeply");
            bool ok = tuple_type(r, close - 1, out);
            r->p = close;
            return ok;
        }
        bool ok = tensor_type(r, r->p, close - 1, out);
        r->p = close;
        return ok;
    }
    if (n && *at != '(') {
        const char *e = at + n;
        if (*e == '<') {
            e = mbalanced(e, r->end);
            if (!e)
                return mexpected(r, "a type");
        }
        enum dtype t = element_type(at, (size_t)(e - at));
        if (t != DTYPE_NONE || mtext(at, n, "none")) {
            r->p = e;
            *out = t != DTYPE_NONE ? shape_array(r->c, t, 0, NULL) : shape_tuple(r->c, 0, NULL);
            return true;
        }
    }
    return mexpected(r, "a type, like tensor<8x16xf32>");
}

static bool type_nested(struct mlir *r, int depth, shape_id *out)
{
    mskip(r);
    const char *from = r->p;
    /* The text up to the '>' that ends a plain tensor: most types were read before. */
    const char *stop = from;
    while (mis(*stop, MC_WORD) || *stop == '<' || *stop == '?')
        if (*stop++ == '<' && stop - from > 7)
            break;
    if (*stop != '>' || stop - from > 200)
        return slow_type(r, depth, out);
    stop++;
    uint32_t n = (uint32_t)(stop - from), hash = (uint32_t)hash_bytes(from, n, 7);
    struct type_cache *e = &r->types[hash & (MTYPES - 1)];
    if (e->text && e->hash == hash && e->len == n && memcmp(e->text, from, n) == 0) {
        r->p = stop;
        *out = e->shape;
        return true;
    }
    if (!slow_type(r, depth, out))
        return false;
    if (r->p == stop)
        *e = (struct type_cache){ from, n, hash, *out };
    return true;
}

bool mlir_type(struct mlir *r, shape_id *out)
{
    return type_nested(r, 0, out);
}

/* ---- attributes -------------------------------------------------------------------------------- */

/* A value up to a comma or closing bracket at its own level. In a dictionary a type may follow the
 * value (`1 : i64`), in pretty forms a colon ends it, and so does a brace behind something. */
static bool raw_value(struct mlir *r, bool pretty, const char **text, uint32_t *len)
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

static void keep_attr(struct mlir *r, const char *key, uint32_t klen, const char *val, uint32_t vlen)
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
        if (mtake(r, '=') && !raw_value(r, false, &val, &vlen))
            return false;
        keep_attr(r, key, n, val, vlen);
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
        op->operands = arena_copy(&r->tmp, r->list.v, r->list.n, sizeof *r->list.v);
    r->list.n = 0;
}

static void take_attrs(struct mlir *r, struct mop *op)
{
    if (!r->attrs.n)
        return;
    struct mattr *v = ARENA_ARRAY(&r->tmp, struct mattr, op->nattrs + r->attrs.n);
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
        size_t n = *r->p == '%' ? mword(name) : 0;
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
    take_attrs(r, op);
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
            mval(r, v)->def = op;
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

static bool type_list(struct mlir *r, bool parens)
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

static bool take_arrow(struct mlir *r)
{
    mskip(r);
    if (r->p[0] != '-' || r->p[1] != '>')
        return false;
    r->p += 2;
    return true;
}

static bool check_operand_types(struct mlir *r, const struct mop *op, int64_t n, const char *at)
{
    if (n != op->noperands)
        return MFAIL(r, at, 1, "%" PRId64 " operand types for %u operands", n, op->noperands);
    for (int64_t i = 0; i < n; i++) {
        shape_id have = mval(r, op->operands[i])->shape;
        if (shape_same(r->c, have, r->shapes.v[i]))
            continue;
        struct str s = STR_IN(&r->tmp);
        shape_print(r->c, have, false, &s);
        return MFAIL(r, at, 1, "operand %" PRId64 " has another type here than where it is defined (%s)", i,
                     str_text(&s));
    }
    return true;
}

/* Behind an arrow: one type, or several in parentheses. */
static bool result_types(struct mlir *r)
{
    if (mtake(r, '('))
        return type_list(r, true);
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
    if (!type_list(r, functional))
        return false;
    int64_t nin = r->shapes.n;
    if (take_arrow(r)) {
        if (!check_operand_types(r, op, nin, at))
            return false;
        if (!result_types(r))
            return false;
        return define_results(r, op, r->shapes.n - nin, r->shapes.v + nin);
    }
    if (functional)
        return mexpected(r, "'->' and the types of the results");
    int64_t named = 0;
    for (int i = 0; i < r->nresults; i++)
        named += r->results[i].count;
    if (op->kind == M_RETURN || op->kind == M_GROUP || named == 0)
        return true;
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
            keep_attr(r, "applies", 7, body, nb);
            r->p += nb;
        } else if (mtext(w, k, "across")) {
            r->p += k;
        } else if (mtext(w, k, "dimensions")) {
            const char *v;
            uint32_t nv;
            r->p += k;
            if (!mwant(r, '=', "'='") || !raw_value(r, true, &v, &nv))
                return false;
            keep_attr(r, "dimensions", 10, v, nv);
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
    take_attrs(r, op);
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
            r->p = name + mword(name);
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
    if (mtake(r, ':') && !type_list(r, false))
        return false;
    if (r->shapes.n != names.n)
        return MFAIL(r, at, 1, "%" PRId64 " types for %" PRId64 " carried values", r->shapes.n, names.n);
    for (int64_t i = 0; i < names.n; i++)
        if (!shape_same(r->c, r->shapes.v[i], mval(r, op->operands[i])->shape))
            return MFAIL(r, names.v[i], mword(names.v[i]), "this value has another type than its initial "
                         "value");
    mskip(r);
    if (mtext(r->p, mword(r->p), "attributes")) {
        r->p += 10;
        if (!mwant(r, '{', "'{'") || !mlir_dict(r, '}'))
            return false;
        take_attrs(r, op);
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
        uint32_t v = mlir_define(r, names.v[i], mword(names.v[i]), shapes[i]);
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
    q += mword(q);
    while (*q == ' ')
        q++;
    return *q == ':';
}

static bool sdy_block(struct mlir *r, struct mop *op)
{
    take_lists(r, op);
    take_attrs(r, op);
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
            keep_attr(r, *p == '[' ? "[" : "<", 1, v, nv);
            continue;
        case '"':
            if (!mskip_group(r, &v, &nv))
                return false;
            keep_attr(r, "", 0, v, nv);
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
            if (!raw_value(r, true, &v, &nv))
                return false;
            keep_attr(r, p, n, v, nv);
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
            if (!raw_value(r, true, &v, &nv))
                return false;
            keep_attr(r, "", 0, v, nv);
            continue;
        }
        keep_attr(r, "", 0, p, n);
    }
types:
    if (inside)
        return mexpected(r, "')'");
    take_lists(r, op);
    take_attrs(r, op);
    return true;
}

/* ---- module, func, mesh ------------------------------------------------------------------------ */

static void symbol(struct mlir *r, const char **text, uint32_t *n)
{
    mskip(r);
    if (*r->p == '@') {
        r->p++;
        if (*r->p == '"') {
            const char *t;
            uint32_t l;
            if (mskip_group(r, &t, &l)) {
                *text = t + 1;
                *n = l - 2;
            }
            return;
        }
        *text = r->p;
        *n = (uint32_t)mword(r->p);
        while ((*text)[*n] == '-')
            *n += 1 + (uint32_t)mword(*text + *n + 1);
        r->p += *n;
    }
}

static bool pretty_module(struct mlir *r, struct mop *op)
{
    symbol(r, &op->sym, &op->nsym);
    mskip(r);
    if (mtext(r->p, mword(r->p), "attributes")) {
        r->p += 10;
        mskip(r);
        const char *t;
        uint32_t n;
        if (*r->p != '{')
            return mexpected(r, "'{' of the attributes");
        if (!mskip_group(r, &t, &n))
            return false;
        if (!r->module_attrs) {
            r->module_attrs = t;
            r->module_nattrs = n;
        }
    }
    if (!r->module_name) {
        r->module_name = op->sym;
        r->module_nname = op->nsym;
    }
    mskip(r);
    const char *at = r->p;
    if (!mwant(r, '{', "'{' of the module"))
        return false;
    mlir_push(r, op, FRAME_MODULE, at);
    return true;
}

static struct mfunc *new_func(struct mlir *r, struct mop *op, const char *name, uint32_t n)
{
    struct mfunc *f = ARENA_NEW(&r->tmp, struct mfunc);
    f->op = op;
    f->name = name;
    f->nname = n;
    f->is_public = true;
    r->func++;
    map_init(&r->constants, &r->tmp);
    vec_push(&r->tmp, &r->funcs, f);
    uint64_t k;
    uint64_t key = hash_bytes(name, n, 9);
    if (map_get(&r->func_by_name, key, &k))
        MFAIL(r, name, n, "two functions are called '%.*s'", (int)n, name);
    map_put(&r->func_by_name, key, (uint64_t)r->funcs.n);
    r->current = f;
    r->closed.n = 0;
    return f;
}

static bool nested_func(struct mlir *r, const struct mop *op)
{
    MFAIL(r, op->at, op->nat, "a function inside a function");
    r->stop = true;
    return false;
}

static bool func_args(struct mlir *r, struct mfunc *fn, struct mregion *g)
{
    VEC(struct mattr) attrs = { 0 };
    VEC(const char *) locs = { 0 };
    VEC(uint32_t) nlocs = { 0 };
    if (!mtake(r, ')')) {
        do {
            mskip(r);
            struct mattr a = { 0 };
            const char *loc = NULL, *name = NULL;
            uint32_t nloc = 0;
            size_t n = 0;
            if (*r->p == '%') {
                name = ++r->p;
                n = mword(name);
                r->p += n;
                if (!mwant(r, ':', "':' behind the argument's name"))
                    return false;
            }
            shape_id shape;
            if (!mlir_type(r, &shape))
                return false;
            uint32_t v = name ? mlir_define(r, name, n, shape) : mlir_value_new(r, NULL, g, shape);
            mval(r, v)->region = g;
            if (g->nargs++ == 0)
                g->arg0 = v;
            mskip(r);
            if (*r->p == '{' && !mskip_group(r, &a.val, &a.vlen))
                return false;
            if (!mlir_loc(r, &loc, &nloc))
                return false;
            vec_push(&r->tmp, &attrs, a);
            vec_push(&r->tmp, &locs, loc);
            vec_push(&r->tmp, &nlocs, nloc);
        } while (mtake(r, ','));
        if (!mwant(r, ')', "',' or ')' behind an argument"))
            return false;
    }
    fn->arg_attrs = attrs.v;
    fn->arg_locs = locs.v;
    fn->arg_nlocs = nlocs.v;
    fn->nargs = g->nargs;
    return true;
}

static bool func_results(struct mlir *r, struct mfunc *fn)
{
    VEC(struct mattr) attrs = { 0 };
    VEC(shape_id) shapes = { 0 };
    if (take_arrow(r)) {
        bool parens = mtake(r, '(');
        if (!parens || !mtake(r, ')')) {
            do {
                struct mattr a = { 0 };
                shape_id s;
                const char *loc;
                uint32_t nloc;
                if (!mlir_type(r, &s))
                    return false;
                mskip(r);
                if (parens && *r->p == '{' && !mskip_group(r, &a.val, &a.vlen))
                    return false;
                if (parens && !mlir_loc(r, &loc, &nloc))
                    return false;
                vec_push(&r->tmp, &attrs, a);
                vec_push(&r->tmp, &shapes, s);
            } while (parens && mtake(r, ','));
            if (parens && !mwant(r, ')', "',' or ')' behind a result"))
                return false;
        }
    }
    fn->res_attrs = attrs.v;
    fn->results = shapes.v;
    fn->nresults = (uint32_t)shapes.n;
    return true;
}

static bool pretty_func(struct mlir *r, struct mop *op)
{
    bool is_public = true;
    for (;;) {
        mskip(r);
        size_t n = mword(r->p);
        if (!n)
            break;
        if (mtext(r->p, n, "private") || mtext(r->p, n, "nested"))
            is_public = false;
        r->p += n;
    }
    symbol(r, &op->sym, &op->nsym);
    if (!op->nsym)
        return mexpected(r, "the function's name, like @main");
    if (r->current)
        return nested_func(r, op);
    struct mfunc *fn = new_func(r, op, op->sym, op->nsym);
    fn->is_public = is_public;
    op->at = op->sym;
    op->nat = op->nsym;
    const char *at = r->p;
    struct mframe *f = mlir_push(r, op, FRAME_FUNC, at);
    struct mregion *g = f->region;
    if (!mwant(r, '(', "'(' of the arguments"))
        return false;
    if (!func_args(r, fn, g) || !func_results(r, fn))
        return false;
    mskip(r);
    if (mtext(r->p, mword(r->p), "attributes")) {
        r->p += 10;
        if (!mwant(r, '{', "'{'") || !mlir_dict(r, '}'))
            return false;
        take_attrs(r, op);
    }
    mskip(r);
    if (*r->p == '{') {
        r->frames.v[r->frames.n - 1].open_at = r->p++;
        return true;
    }
    r->frames.n--; /* a declaration */
    r->current = NULL;
    return mlir_loc(r, &op->loc, &op->nloc);
}

/* @mesh = <["x"=2]> {..}; or = #alias */
static bool pretty_mesh(struct mlir *r, struct mop *op)
{
    const char *v;
    uint32_t n;
    if (!mwant(r, '=', "'=' behind the mesh's name"))
        return false;
    mskip(r);
    if (*r->p == '<') {
        if (!mskip_group(r, &v, &n))
            return false;
    } else if (!raw_value(r, true, &v, &n)) {
        return false;
    }
    keep_attr(r, "<", 1, v, n);
    mskip(r);
    if (*r->p == '{') {
        r->p++;
        if (!mlir_dict(r, '}'))
            return false;
    }
    take_attrs(r, op);
    return true;
}

/* The n-th element of an array attribute of dictionaries, [{..}, {}]. */
static void split_dicts(struct mlir *r, const struct mattr *a, uint32_t n, struct mattr **out)
{
    *out = ARENA_ARRAY(&r->tmp, struct mattr, n ? n : 1);
    if (!a || !a->val)
        return;
    const char *p = a->val + 1, *end = a->val + a->vlen;
    for (uint32_t k = 0; k < n && p < end; k++) {
        while (p < end && *p != '{')
            p++;
        const char *q = p < end ? mbalanced(p, end) : NULL;
        if (!q)
            return;
        (*out)[k].val = p;
        (*out)[k].vlen = (uint32_t)(q - p);
        p = q;
    }
}

/* "func.func"() <{function_type = (..) -> .., sym_name = "main", ..}> ({ */
static bool generic_func(struct mlir *r, struct mop *op)
{
    const struct mattr *name = mattr(op, "sym_name"), *type = mattr(op, "function_type");
    const struct mattr *vis = mattr(op, "sym_visibility");
    if (!name || !type || !mstring(name, &op->sym, &op->nsym))
        return MFAIL(r, op->at, op->nat, "this function has no sym_name and function_type");
    if (r->current)
        return nested_func(r, op);
    struct mfunc *fn = new_func(r, op, op->sym, op->nsym);
    const char *text;
    uint32_t n;
    fn->is_public = !vis || !mstring(vis, &text, &n) || mtext(text, n, "public");
    const char *back = r->p;
    r->p = type->val;
    r->shapes.n = 0;
    bool ok = mwant(r, '(', "'('") && type_list(r, true);
    fn->nargs = (uint32_t)r->shapes.n;
    ok = ok && take_arrow(r) && result_types(r);
    r->p = back;
    if (!ok)
        return false;
    fn->nresults = (uint32_t)r->shapes.n - fn->nargs;
    fn->results = arena_copy(&r->tmp, r->shapes.v + fn->nargs, fn->nresults, sizeof(shape_id));
    split_dicts(r, mattr(op, "arg_attrs"), fn->nargs, &fn->arg_attrs);
    split_dicts(r, mattr(op, "res_attrs"), fn->nresults, &fn->res_attrs);
    fn->arg_locs = ARENA_ARRAY(&r->tmp, const char *, fn->nargs + 1);
    fn->arg_nlocs = ARENA_ARRAY(&r->tmp, uint32_t, fn->nargs + 1);
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
        take_attrs(r, op);
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
    if (op->kind == M_FUNC && !generic_func(r, op))
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
        take_attrs(r, op);
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
    const struct opname *o = find_opname(r, op->name, op->nname);
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
    op->at = r->nresults ? r->results[0].text : start;
    op->nat = r->nresults ? r->results[0].len : (uint32_t)(quoted ? op->nname + 2 : op->nname);
    if (quoted) {
        if (!generic(r, op, &region))
            return false;
    } else if (op->kind == M_MODULE) {
        return pretty_module(r, op);
    } else if (op->kind == M_FUNC) {
        return pretty_func(r, op);
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
        symbol(r, &op->sym, &op->nsym);
        if (!pretty_mesh(r, op))
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
        take_attrs(r, op);
    }
    if (op->kind == M_UNKNOWN && !quoted) {
        mskip(r);
        if (*r->p == '{') {
            r->p++;
            if (!mlir_dict(r, '}'))
                return false;
            take_attrs(r, op);
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
