/* What operations of StableHLO text are called, and types: tensors mostly, each text read once. */
#include "text/mlir.h"

/* ---- names of operations ----------------------------------------------------------------------- */

/* Names end differently: of long ones the last eight letters and the length count. */
static uint32_t opname_slot(const char *p, size_t n)
{
    uint64_t w = 0;
    memcpy(&w, n > 8 ? p + n - 8 : p, n > 8 ? 8 : n);
    w = (w ^ n) * 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(w >> 40) & (OPNAMES - 1);
}

static void put_opname(struct mlir *r, const char *text, enum mkind kind, enum op_kind hlo)
{
    uint32_t n = (uint32_t)strlen(text), k = opname_slot(text, n);
    while (r->opnames[k].text)
        k = (k + 1) & (OPNAMES - 1);
    r->opnames[k] = (struct opname){ text, n, (uint8_t)kind, (uint16_t)hlo };
}

const struct opname *mlir_find_opname(const struct mlir *r, const char *p, size_t n)
{
    for (uint32_t k = opname_slot(p, n); r->opnames[k].text; k = (k + 1) & (OPNAMES - 1))
        if (r->opnames[k].len == n && memcmp(r->opnames[k].text, p, n) == 0)
            return &r->opnames[k];
    return NULL;
}

/* stablehlo.NAME and mhlo.NAME */
static void put_both(struct mlir *r, const char *name, enum mkind kind, enum op_kind hlo)
{
    static const char *const dialects[] = { "stablehlo.", "mhlo." };
    size_t n = strlen(name);
    for (size_t i = 0; i < COUNTOF(dialects); i++) {
        size_t k = strlen(dialects[i]);
        char *text = arena_piece(&r->tmp, k + n + 1, 1);
        memcpy(text, dialects[i], k);
        memcpy(text + k, name, n);
        put_opname(r, text, kind, hlo);
    }
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
        put_both(r, ops[i].name, M_HLO, op);
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
    for (size_t i = 0; i < COUNTOF(more); i++)
        put_both(r, more[i].name, (enum mkind)more[i].kind, (enum op_kind)more[i].hlo);
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
        while (p < end && mis(*p, MC_SPACE))
            p++;
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
        while (p < end && mis(*p, MC_SPACE))
            p++;
        if (*p != 'x')
            return MFAIL(r, p, 1, "expected 'x' behind a size");
        p++;
    }
    const char *e = p;
    while (e < end && *e != ',' && *e != ' ')
        e++;
    if (rank == 0 && *p == '*')
        return MFAIL(r, at, (size_t)(end - at), "an array of unknown rank ('*'): shapes must be static to be partitioned");
    enum dtype t = element_type(p, (size_t)(e - p));
    if (t == DTYPE_NONE) {
        size_t n = *p == '-' ? 1 : 0;
        while (n && p + n < e && mis(p[n], MC_DIGIT))
            n++;
        if (n > 1)
            return MFAIL(r, p, n, "a size cannot be negative: %.*s", (int)n, p);
        if (e - p == 3 && memcmp(p + 1, "i1", 2) == 0)
            return MFAIL(r, p, 3, "integers of one bit with a sign or without (%.3s) are not supported: i1 is the one "
                         "type of one bit here", p);
        if (memmem(p, (size_t)(end - p), "quant", 5))
            return MFAIL(r, p, (size_t)(e - p), "quantised element types have no counterpart in HLO");
        while (e > p && (e[-1] == '\n' || e[-1] == '\r'))
            e--;
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
        if (!close && *r->p == '<')
            return MFAIL(r, r->p, 1, "unexpected end of file: this '<' is never closed");
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

/* Types come again at once: whether one of the newest stands here. It ends itself, with its '>'. */
static bool recent_type(struct mlir *r, const char *from, shape_id *out)
{
    for (int i = 0; i < NTYPES_RECENT; i++) {
        const struct type_cache *e = r->recent[i];
        if (!e || e->len < 8 || e->len > (size_t)(r->end - from))
            continue;
        uint64_t have, tail;
        memcpy(&have, from + e->len - 8, 8);
        memcpy(&tail, e->text + e->len - 8, 8);
        if (have != tail || memcmp(from, e->text, e->len) != 0)
            continue;
        if (i) { /* one step forward */
            r->recent[i] = r->recent[i - 1];
            r->recent[i - 1] = e;
        }
        r->p = from + e->len;
        *out = e->shape;
        return true;
    }
    return false;
}

static void keep_recent(struct mlir *r, const struct type_cache *e)
{
    r->recent[NTYPES_RECENT - 1] = e;
}

static bool type_nested(struct mlir *r, int depth, shape_id *out)
{
    mskip(r);
    const char *from = r->p;
    if (recent_type(r, from, out))
        return true;
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
        keep_recent(r, e);
        return true;
    }
    if (!slow_type(r, depth, out))
        return false;
    if (r->p == stop) {
        *e = (struct type_cache){ from, n, hash, *out };
        keep_recent(r, e);
    }
    return true;
}

bool mlir_type(struct mlir *r, shape_id *out)
{
    return type_nested(r, 0, out);
}
