/* StableHLO text: types, values, attributes and constants of what mlir_print.c writes. */
#include "text/mlir_print.h"

#include <math.h>

void mp_say(struct mprint *p, const char *text)
{
    str_adds(p->out, text);
}

void mp_sayf(struct mprint *p, const char *key, int64_t v, const char *behind)
{
    mp_say(p, key);
    str_addi(p->out, v);
    mp_say(p, behind);
}

void mp_refuse(struct mprint *p, instr_id i, const char *why)
{
    const struct instr *in = instr_at(p->m, i);
    if (!p->failed)
        diag_error(p->d, NULL, (struct span){ 0, 0 }, "%s '%s' cannot be said in StableHLO: %s",
                   op_name((enum op_kind)in->op), name_text(p->m->ir, in->name), why);
    p->failed = true;
}

/* ---- types ------------------------------------------------------------------------------------- */

static void element(struct mprint *p, enum dtype t)
{
    static const struct {
        enum dtype t;
        const char *name;
    } odd[] = { { DTYPE_PRED, "i1" }, { DTYPE_C64, "complex<f32>" }, { DTYPE_C128, "complex<f64>" },
                { DTYPE_F8E4M3FN, "f8E4M3FN" }, { DTYPE_F8E5M2, "f8E5M2" }, { DTYPE_F8E4M3, "f8E4M3" },
                { DTYPE_F8E3M4, "f8E3M4" }, { DTYPE_F8E4M3B11, "f8E4M3B11FNUZ" },
                { DTYPE_F8E4M3FNUZ, "f8E4M3FNUZ" }, { DTYPE_F8E5M2FNUZ, "f8E5M2FNUZ" },
                { DTYPE_F4E2M1FN, "f4E2M1FN" }, { DTYPE_F8E8M0FNU, "f8E8M0FNU" } };
    for (size_t i = 0; i < COUNTOF(odd); i++)
        if (odd[i].t == t) {
            mp_say(p, odd[i].name);
            return;
        }
    const char *n = dtype_name(t);
    if (dtype_kind(t) == DTYPE_KIND_SIGNED)
        mp_say(p, "i"), mp_say(p, n + 1);
    else if (dtype_kind(t) == DTYPE_KIND_UNSIGNED)
        mp_say(p, "ui"), mp_say(p, n + 1);
    else
        mp_say(p, n);
}

void mp_type(struct mprint *p, shape_id id)
{
    const struct shape *s = shape_get(p->m->ir, id);
    if (s->kind == SHAPE_TOKEN) {
        mp_say(p, "!stablehlo.token");
        return;
    }
    mp_say(p, "tensor<");
    for (int d = 0; d < s->rank; d++)
        mp_sayf(p, "", s->dims[d], "x");
    element(p, s->dtype);
    mp_say(p, ">");
}

int64_t mp_leaves(const struct mprint *p, shape_id s)
{
    return shape_get(p->m->ir, s)->nleaves;
}

/* The leaves' types of a list of instructions (or of one shape), separated by commas. */
void mp_shape_types(struct mprint *p, shape_id s, bool *first)
{
    for (int64_t k = 0; k < mp_leaves(p, s); k++) {
        mp_say(p, *first ? "" : ", ");
        *first = false;
        mp_type(p, shape_leaf(p->m->ir, s, k));
    }
}

void mp_result_types(struct mprint *p, shape_id s)
{
    bool first = true, parens = mp_leaves(p, s) != 1;
    mp_say(p, parens ? "(" : "");
    mp_shape_types(p, s, &first);
    mp_say(p, parens ? ")" : "");
}

/* ---- values ------------------------------------------------------------------------------------ */

void mp_leaf(struct mprint *p, struct leaf v)
{
    if (v.name) {
        str_addc(p->out, '%');
        str_adds(p->out, v.name);
    } else {
        mp_sayf(p, "%_", v.num, "");
    }
    if (v.index >= 0)
        mp_sayf(p, "#", v.index, "");
}

struct leaf *mp_fresh(struct mprint *p, int64_t n, bool args, const char *name)
{
    struct leaf *v = ARENA_ARRAY(&p->tmp, struct leaf, n + 1);
    for (int64_t k = 0; k < n; k++)
        v[k] = (struct leaf){ name, args ? p->next++ : p->next, args || n == 1 ? -1 : (int32_t)k };
    p->next += !args;
    return v;
}

static bool is_value_name(const char *s, size_t n)
{
    if (n == 0 || n > 200 || (s[0] >= '0' && s[0] <= '9') || s[n - 1] == '-')
        return false;
    bool digits = s[0] == '_' && n > 1; /* %_12 has a meaning of its own */
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool digit = c >= '0' && c <= '9';
        digits &= i == 0 || digit;
        if (!digit && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '_' && c != '.' && c != '-')
            return false;
        if (c == '-' && i + 1 < n && s[i + 1] == '-')
            return false;
    }
    return !digits;
}

const char *mp_name(struct mprint *p, instr_id i)
{
    name_id id = instr_at(p->m, i)->name;
    if (!id.i)
        return NULL;
    const char *s = name_text(p->m->ir, id);
    size_t n = name_len(p->m->ir, id);
    uint64_t key = hash_bytes(s, n, 3), there;
    if (!is_value_name(s, n) || (map_get(&p->taken, key, &there) && there))
        return NULL;
    map_put(&p->taken, key, 1);
    vec_push(&p->tmp, &p->scoped, key);
    return s;
}

void mp_leave(struct mprint *p, int64_t mark)
{
    while (p->scoped.n > mark)
        map_put(&p->taken, p->scoped.v[--p->scoped.n], 0);
}

void mp_operand_leaves(struct mprint *p, const struct instr *in, uint32_t from)
{
    bool first = true;
    for (uint32_t k = from; k < in->noperands; k++)
        for (int64_t j = 0; j < mp_leaves(p, instr_at(p->m, in->operands[k])->shape); j++) {
            mp_say(p, first ? "" : ", ");
            first = false;
            mp_leaf(p, p->vals[in->operands[k].i][j]);
        }
}

void mp_operand_types(struct mprint *p, const struct instr *in, uint32_t n)
{
    bool first = true;
    for (uint32_t k = 0; k < n; k++)
        mp_shape_types(p, instr_at(p->m, in->operands[k])->shape, &first);
}

/* ---- attributes -------------------------------------------------------------------------------- */

void mp_quoted(struct mprint *p, const char *s, size_t n)
{
    str_addc(p->out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\' || c < 32 || c == 127)
            str_addf(p->out, "\\%02X", (unsigned)c);
        else
            str_addc(p->out, (char)c);
    }
    str_addc(p->out, '"');
}

sharding_id mp_sharding_of(const struct mprint *p, instr_id i)
{
    return p->o && p->o->shardings ? p->o->shardings[i.i] : instr_at(p->m, i)->sharding;
}

void mp_sharding(struct mprint *p, instr_id i, sharding_id s, bool whole)
{
    mp_say(p, "mhlo.sharding = ");
    struct str t = STR_IN(&p->tmp);
    sharding_print(p->m->ir->shardings, s, whole ? instr_at(p->m, i)->note : NULL, true, &t);
    mp_quoted(p, str_text(&t), t.n);
}

/* key="value",... between the braces of frontend_attributes, as a dictionary. */
void mp_frontend(struct mprint *p, const struct instr *in)
{
    const char *s = in->frontend, *end = s + in->frontend_len;
    bool first = true;
    mp_say(p, "mhlo.frontend_attributes = {");
    while (s < end) {
        const char *eq = memchr(s, '=', (size_t)(end - s));
        if (!eq || eq + 1 >= end)
            break;
        const char *v = eq + 1, *stop = v;
        if (*v == '"') {
            for (stop++; stop < end && *stop != '"'; stop++)
                stop += *stop == '\\';
        } else {
            int depth = 0;
            for (; stop < end && (depth || *stop != ','); stop++)
                depth += *stop == '{' ? 1 : *stop == '}' ? -1 : 0;
        }
        mp_say(p, first ? "" : ", ");
        first = false;
        mp_quoted(p, s, (size_t)(eq - s));
        mp_say(p, " = ");
        if (*v == '"') {
            struct str t = STR_IN(&p->tmp);
            for (const char *q = v + 1; q < stop && q < end; q++) {
                q += *q == '\\' && q + 1 < stop;
                str_addc(&t, *q);
            }
            mp_quoted(p, str_text(&t), t.n);
            stop++;
        } else {
            mp_quoted(p, v, (size_t)(stop - v));
        }
        s = stop < end && *stop == ',' ? stop + 1 : stop;
        while (s < end && *s == ' ')
            s++;
    }
    mp_say(p, "}");
}

/* {mhlo.sharding = .., ..} behind an operation. */
void mp_discardable(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    sharding_id s = mp_sharding_of(p, i);
    if (!s.i && !in->frontend_len)
        return;
    mp_say(p, " {");
    if (in->frontend_len)
        mp_frontend(p, in);
    if (s.i) {
        mp_say(p, in->frontend_len ? ", " : "");
        mp_sharding(p, i, s, true);
    }
    mp_say(p, "}");
}

void mp_location(struct mprint *p, instr_id i)
{
    const char *name = instr_op_name(p->m, i), *file;
    int line;
    if (!name[0])
        return;
    mp_say(p, " loc(");
    mp_quoted(p, name, strlen(name));
    if (instr_source(p->m, i, &file, &line)) {
        mp_say(p, "(");
        mp_quoted(p, file, strlen(file));
        mp_sayf(p, ":", line, ":1)");
    }
    mp_say(p, ")");
}

static void key(struct mprint *p, bool *first, const char *name)
{
    mp_say(p, *first ? "" : ", ");
    *first = false;
    mp_say(p, name);
    mp_say(p, " = ");
}

static void array(struct mprint *p, bool *first, const char *name, int64_t n, const int64_t *v)
{
    key(p, first, name);
    mp_say(p, n ? "array<i64: " : "array<i64");
    for (int64_t i = 0; i < n; i++)
        mp_sayf(p, i ? ", " : "", v[i], "");
    mp_say(p, ">");
}

void mp_ints_attr(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name)
{
    int n;
    const int64_t *v = instr_ints(in, k, &n);
    array(p, first, name, n, v);
}

static void int_attr(struct mprint *p, bool *first, const char *name, int64_t v)
{
    key(p, first, name);
    mp_sayf(p, "", v, " : i64");
}

static void bool_attr(struct mprint *p, bool *first, const char *name, bool v)
{
    key(p, first, name);
    mp_say(p, v ? "true" : "false");
}

/* name = [0, 1] inside #stablehlo.gather<..>: left out when empty. */
static void nested(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name)
{
    int n;
    const int64_t *v = instr_ints(in, k, &n);
    if (n == 0)
        return;
    key(p, first, name);
    mp_say(p, "[");
    for (int i = 0; i < n; i++)
        mp_sayf(p, i ? ", " : "", v[i], "");
    mp_say(p, "]");
}

static const char *ident(const struct mprint *p, const struct instr *in, enum attr_key k, const char *dflt)
{
    const struct attr *a = instr_attr(in, k);
    return a && a->type == ATTR_TYPE_IDENT ? name_text(p->m->ir, a->name) : dflt;
}

/* Every stride-th of a list of triples from `from`. */
static void every(struct mprint *p, bool *first, const char *name, const int64_t *v, int64_t n, int from)
{
    int64_t out[64];
    for (int64_t i = 0; i < n && i < 64; i++)
        out[i] = v[3 * i + from];
    array(p, first, name, n, out);
}

static void dense_pairs(struct mprint *p, bool *first, const char *name, int64_t n, const int64_t *v)
{
    key(p, first, name);
    if (n == 0) {
        mp_say(p, "dense<> : tensor<0x2xi64>");
        return;
    }
    mp_say(p, "dense<[");
    for (int64_t i = 0; i < n; i++) {
        mp_sayf(p, i ? ", [" : "[", v[2 * i], ", ");
        mp_sayf(p, "", v[2 * i + 1], "]");
    }
    mp_sayf(p, "]> : tensor<", n, "x2xi64>");
}

static void window(struct mprint *p, bool *first, const struct instr *in, int rank, bool conv, bool scatter)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    int64_t size[64], stride[64], base[64], dil[64], pad[128];
    bool rev = false;
    for (int d = 0; d < rank && d < 64; d++) {
        struct window_dim w = { 1, 1, 0, 0, 1, 1, false };
        if (a && d < a->window->rank)
            w = a->window->dims[d];
        size[d] = w.size;
        stride[d] = w.stride;
        base[d] = w.base_dilation;
        dil[d] = w.window_dilation;
        pad[2 * d] = w.pad_low;
        pad[2 * d + 1] = w.pad_high;
        rev |= w.reversal;
    }
    if (!conv)
        array(p, first, "window_dimensions", rank, size);
    array(p, first, "window_strides", rank, stride);
    if (!scatter) {
        array(p, first, conv ? "lhs_dilation" : "base_dilations", rank, base);
        array(p, first, conv ? "rhs_dilation" : "window_dilations", rank, dil);
    }
    if (conv) {
        key(p, first, "window_reversal");
        mp_say(p, rank ? "array<i1: " : "array<i1");
        for (int d = 0; d < rank; d++) {
            mp_say(p, d ? ", " : "");
            mp_say(p, rev && a && a->window->dims[d].reversal ? "true" : "false");
        }
        mp_say(p, ">");
    }
    dense_pairs(p, first, "padding", rank, pad);
}

static void conv_side(struct mprint *p, char a, int at_a, char b, int at_b, int n, const int *spatial)
{
    mp_say(p, "[");
    for (int d = 0; d < n + 2; d++) {
        mp_say(p, d ? ", " : "");
        if (d == at_a)
            str_addc(p->out, a);
        else if (d == at_b)
            str_addc(p->out, b);
        for (int k = 0; k < n; k++)
            if (spatial[k] == d && d != at_a && d != at_b)
                str_addi(p->out, k);
    }
    mp_say(p, "]");
}

static void convolution(struct mprint *p, bool *first, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_DIM_LABELS);
    if (!a)
        return;
    const struct conv_dims *c = a->conv;
    window(p, first, in, c->nspatial, true, false);
    key(p, first, "dimension_numbers");
    mp_say(p, "#stablehlo.conv<");
    conv_side(p, 'b', c->lhs_batch, 'f', c->lhs_feature, c->nspatial, c->lhs_spatial);
    mp_say(p, "x");
    conv_side(p, 'i', c->rhs_in, 'o', c->rhs_out, c->nspatial, c->rhs_spatial);
    mp_say(p, "->");
    conv_side(p, 'b', c->out_batch, 'f', c->out_feature, c->nspatial, c->out_spatial);
    mp_say(p, ">");
    int_attr(p, first, "feature_group_count", instr_int(in, ATTR_FEATURE_GROUP_COUNT, 1));
    int_attr(p, first, "batch_group_count", instr_int(in, ATTR_BATCH_GROUP_COUNT, 1));
}

static void precision(struct mprint *p, bool *first, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_OPERAND_PRECISION);
    if (!a || !a->text)
        return;
    key(p, first, "precision_config");
    mp_say(p, "[");
    const char *s = a->text, *end = s + a->n;
    bool one = true;
    while (s < end) {
        size_t n = 0;
        while (s + n < end && s[n] >= 'a' && s[n] <= 'z')
            n++;
        if (n) {
            mp_say(p, one ? "#stablehlo<precision " : ", #stablehlo<precision ");
            mp_say(p, n == 4 ? "HIGH" : n == 7 && s[0] == 'h' ? "HIGHEST" : "DEFAULT");
            mp_say(p, ">");
            one = false;
        }
        s += n ? n : 1;
    }
    mp_say(p, "]");
}

static void groups(struct mprint *p, bool *first, const struct instr *in, instr_id id)
{
    const struct attr *a = instr_attr(in, ATTR_REPLICA_GROUPS);
    const struct replica_groups *g = a ? a->groups : NULL;
    int64_t rows = 0, columns = 0;
    if (g && !g->none && g->uniform) {
        rows = g->tiles.dims[0];
        columns = g->tiles.dims[1];
    } else if (g && !g->none) {
        rows = g->nlists;
        for (int64_t i = 0; i < rows; i++)
            columns = max_i64(columns, g->sizes[i]);
    }
    int64_t cells;
    if (!mul_ok(rows, columns, &cells) || cells > (1 << 24)) {
        mp_refuse(p, id, "too many devices to list");
        return;
    }
    key(p, first, "replica_groups");
    if (cells == 0) {
        mp_say(p, "dense<> : tensor<0x0xi64>");
        return;
    }
    mp_say(p, "dense<[");
    const int64_t *at = g->uniform ? NULL : g->ids;
    for (int64_t i = 0; i < rows; i++) {
        mp_say(p, i ? ", [" : "[");
        for (int64_t j = 0; j < columns; j++) {
            int64_t v = g->uniform ? order_device(p->m->ir->shardings, g->tiles.order, i * columns + j)
                        : j < g->sizes[i] ? *at++ : -1;
            mp_sayf(p, j ? ", " : "", v, "");
        }
        mp_say(p, "]");
    }
    mp_sayf(p, "]> : tensor<", rows, "x");
    mp_sayf(p, "", columns, "xi64>");
}

static void channel(struct mprint *p, bool *first, const struct instr *in)
{
    int64_t id = instr_int(in, ATTR_CHANNEL_ID, 0);
    if (id > 0) {
        key(p, first, "channel_handle");
        mp_sayf(p, "#stablehlo.channel_handle<handle = ", id, ", type = 1>");
    }
}

static void global_ids(struct mprint *p, bool *first, const struct instr *in)
{
    if (instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false)) {
        mp_say(p, *first ? "" : ", ");
        *first = false;
        mp_say(p, "use_global_device_ids");
    }
}

/* ---- constants --------------------------------------------------------------------------------- */

static void one_value(struct mprint *p, const struct literal *l, int64_t i)
{
    enum dtype t = shape_get(p->m->ir, l->shape)->dtype;
    if (dtype_kind(t) == DTYPE_KIND_PRED) {
        mp_say(p, literal_get_i(p->m, l, i) ? "true" : "false");
    } else if (dtype_kind(t) == DTYPE_KIND_FLOAT) {
        double f = literal_get_f(p->m, l, i);
        if (isfinite(f) && dtype_bits(t) >= 16) {
            str_addf(p->out, "%.*e", t == DTYPE_F64 ? 17 : 9, f);
        } else {
            uint64_t bits = 0;
            size_t n = (size_t)dtype_bytes(t);
            memcpy(&bits, (const char *)l->data + (size_t)i * n, n);
            str_addf(p->out, "0x%0*" PRIX64, dtype_bits(t) / 4, bits);
        }
    } else if (t == DTYPE_U64 && literal_get_i(p->m, l, i) < 0) {
        str_addf(p->out, "%" PRIu64, (uint64_t)literal_get_i(p->m, l, i));
    } else {
        str_addi(p->out, literal_get_i(p->m, l, i));
    }
}

static void complex_value(struct mprint *p, const struct literal *l, int64_t i, enum dtype t)
{
    double v[2];
    if (t == DTYPE_C64) {
        float f[2];
        memcpy(f, (const char *)l->data + (size_t)i * 8, 8);
        v[0] = (double)f[0];
        v[1] = (double)f[1];
    } else {
        memcpy(v, (const char *)l->data + (size_t)i * 16, 16);
    }
    str_addc(p->out, '(');
    for (int k = 0; k < 2; k++) {
        mp_say(p, k ? ", " : "");
        if (isfinite(v[k])) {
            str_addf(p->out, "%.17e", v[k]);
        } else {
            uint64_t bits = 0;
            size_t n = t == DTYPE_C64 ? 4 : 8;
            memcpy(&bits, (const char *)l->data + (size_t)i * 2 * n + (size_t)k * n, n);
            str_addf(p->out, "0x%0*" PRIX64, (int)n * 2, bits);
        }
    }
    str_addc(p->out, ')');
}

void mp_constant(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    const struct shape *s = shape_get(p->m->ir, in->shape);
    bool splat = p->splat[i.i].i;
    const struct literal *l = splat ? instr_at(p->m, p->splat[i.i])->literal : in->literal;
    if (!l || s->kind != SHAPE_ARRAY) {
        mp_refuse(p, i, "it is no array");
        return;
    }
    mp_say(p, "stablehlo.constant");
    mp_discardable(p, i);
    if (l->elided) {
        mp_say(p, " dense_resource<__elided__> : ");
        mp_type(p, in->shape);
        return;
    }
    mp_say(p, " dense<");
    int64_t at[64] = { 0 };
    bool complex = dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX;
    for (int64_t k = 0; k < (splat ? 1 : s->count); k++) {
        int open = 0;
        if (splat) {
            complex ? complex_value(p, l, 0, s->dtype) : one_value(p, l, 0);
            break;
        }
        for (int d = s->rank - 1; d >= 0 && at[d] == 0; d--)
            open++;
        mp_say(p, k ? ", " : "");
        for (int j = 0; j < open; j++)
            str_addc(p->out, '[');
        if (complex)
            complex_value(p, l, k, s->dtype);
        else
            one_value(p, l, k);
        for (int d = s->rank - 1; d >= 0; d--) {
            if (++at[d] < s->dims[d])
                break;
            at[d] = 0;
            str_addc(p->out, ']');
        }
    }
    mp_say(p, "> : ");
    mp_type(p, in->shape);
}

/* ---- operations -------------------------------------------------------------------------------- */

const char *mp_stablehlo_name(enum op_kind op)
{
    static const char *const names[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost) [OP_##id] = stablehlo,
#include "ir/ops.def"
    };
    static const struct {
        enum op_kind op;
        const char *name;
    } chlo[] = { { OP_ERF, "chlo.erf" },     { OP_ACOS, "chlo.acos" },   { OP_ACOSH, "chlo.acosh" },
                 { OP_ASIN, "chlo.asin" },   { OP_ASINH, "chlo.asinh" }, { OP_ATANH, "chlo.atanh" },
                 { OP_COSH, "chlo.cosh" },   { OP_SINH, "chlo.sinh" },   { OP_TOPK, "chlo.top_k" },
                 { OP_TAN, "chlo.tan" } };
    for (size_t i = 0; i < COUNTOF(chlo); i++)
        if (chlo[i].op == op)
            return chlo[i].name;
    if (op == OP_REPLICA_ID)
        return "replica_id";
    return names[op];
}

static void compare_attrs(struct mprint *p, bool *first, const struct instr *in)
{
    enum dtype_kind k = dtype_kind(shape_get(p->m->ir, instr_at(p->m, in->operands[0])->shape)->dtype);
    key(p, first, "comparison_direction");
    mp_say(p, "#stablehlo<comparison_direction ");
    mp_say(p, ident(p, in, ATTR_DIRECTION, "EQ"));
    mp_say(p, ">");
    key(p, first, "compare_type");
    mp_say(p, "#stablehlo<comparison_type ");
    mp_say(p, strcmp(ident(p, in, ATTR_COMPARE_TYPE, ""), "TOTALORDER") == 0 ? "TOTALORDER"
           : k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX             ? "FLOAT"
           : k == DTYPE_KIND_SIGNED                                       ? "SIGNED"
                                                                          : "UNSIGNED");
    mp_say(p, ">");
}

static void permute_attrs(struct mprint *p, bool *first, const struct instr *in, instr_id id)
{
    const struct attr *a = instr_attr(in, ATTR_SOURCE_TARGET_PAIRS);
    if (!a || a->pairs->kind != PAIRS_LIST) {
        mp_refuse(p, id, "its pairs are not listed");
        return;
    }
    dense_pairs(p, first, "source_target_pairs", a->pairs->n, a->pairs->list);
}

static void custom_attrs(struct mprint *p, bool *first, const struct instr *in)
{
    const struct attr *c = instr_attr(in, ATTR_BACKEND_CONFIG), *v = instr_attr(in, ATTR_API_VERSION);
    const char *version = v ? name_text(p->m->ir, v->name) : "";
    bool typed = strcmp(version, "API_VERSION_TYPED_FFI") == 0;
    key(p, first, "call_target_name");
    const char *target = instr_target(p->m, in);
    mp_quoted(p, target, strlen(target));
    key(p, first, "has_side_effect");
    mp_say(p, instr_bool(in, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false) ? "true" : "false");
    key(p, first, "api_version");
    mp_say(p, typed ? "4 : i32" : strcmp(version, "API_VERSION_STATUS_RETURNING") == 0 ? "2 : i32"
           : strcmp(version, "API_VERSION_STATUS_RETURNING_UNIFIED") == 0           ? "3 : i32" : "1 : i32");
    if (typed) {
        key(p, first, "backend_config");
        if (c && c->text && c->n && *c->text == '{')
            str_add(p->out, c->text, c->n);
        else
            mp_say(p, "{}");
    } else if (c && c->text && c->n >= 2) {
        key(p, first, "backend_config");
        if (*c->text == '"')
            str_add(p->out, c->text, c->n);
        else
            mp_quoted(p, c->text, c->n);
    }
}

static void sorted_unique(struct mprint *p, bool *first, const struct instr *in, bool unique)
{
    bool_attr(p, first, "indices_are_sorted", instr_bool(in, ATTR_INDICES_ARE_SORTED, false));
    if (unique)
        bool_attr(p, first, "unique_indices", instr_bool(in, ATTR_UNIQUE_INDICES, false));
}

static void index_numbers(struct mprint *p, bool *first, const struct instr *in, bool scatter)
{
    static const struct {
        enum attr_key k;
        const char *name;
    } g[] = { { ATTR_OFFSET_DIMS, "offset_dims" },
              { ATTR_COLLAPSED_SLICE_DIMS, "collapsed_slice_dims" },
              { ATTR_OPERAND_BATCHING_DIMS, "operand_batching_dims" },
              { ATTR_START_INDICES_BATCHING_DIMS, "start_indices_batching_dims" },
              { ATTR_START_INDEX_MAP, "start_index_map" } },
      s[] = { { ATTR_UPDATE_WINDOW_DIMS, "update_window_dims" },
              { ATTR_INSERTED_WINDOW_DIMS, "inserted_window_dims" },
              { ATTR_INPUT_BATCHING_DIMS, "input_batching_dims" },
              { ATTR_SCATTER_INDICES_BATCHING_DIMS, "scatter_indices_batching_dims" },
              { ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, "scatter_dims_to_operand_dims" } };
    key(p, first, scatter ? "scatter_dimension_numbers" : "dimension_numbers");
    mp_say(p, scatter ? "#stablehlo.scatter<" : "#stablehlo.gather<");
    bool in_first = true;
    for (size_t i = 0; i < COUNTOF(g); i++)
        nested(p, &in_first, in, scatter ? s[i].k : g[i].k, scatter ? s[i].name : g[i].name);
    key(p, &in_first, "index_vector_dim");
    mp_sayf(p, "", instr_int(in, ATTR_INDEX_VECTOR_DIM, 0), ">");
    if (!scatter)
        mp_ints_attr(p, first, in, ATTR_SLICE_SIZES, "slice_sizes");
    sorted_unique(p, first, in, scatter);
}

static void dot_attrs(struct mprint *p, bool *first, const struct instr *in)
{
    bool in_first = true;
    key(p, first, "dot_dimension_numbers");
    mp_say(p, "#stablehlo.dot<");
    nested(p, &in_first, in, ATTR_LHS_BATCH, "lhs_batching_dimensions");
    nested(p, &in_first, in, ATTR_RHS_BATCH, "rhs_batching_dimensions");
    nested(p, &in_first, in, ATTR_LHS_CONTRACTING, "lhs_contracting_dimensions");
    nested(p, &in_first, in, ATTR_RHS_CONTRACTING, "rhs_contracting_dimensions");
    mp_say(p, ">");
    precision(p, first, in);
}

static int64_t first_dim(const struct instr *in)
{
    int n;
    const int64_t *v = instr_ints(in, ATTR_DIMENSIONS, &n);
    return n ? v[0] : 0;
}

/* The properties of an operation, without their braces. */
void mp_properties(struct mprint *p, instr_id id, bool *first)
{
    const struct instr *in = instr_at(p->m, id);
    const struct shape *s = shape_get(p->m->ir, in->shape);
    int n;
    const int64_t *v;
    switch ((int)in->op) {
    case OP_IOTA: int_attr(p, first, "iota_dimension", instr_int(in, ATTR_IOTA_DIMENSION, 0)); break;
    case OP_BROADCAST: mp_ints_attr(p, first, in, ATTR_DIMENSIONS, "broadcast_dimensions"); break;
    case OP_TRANSPOSE: mp_ints_attr(p, first, in, ATTR_DIMENSIONS, "permutation"); break;
    case OP_REVERSE:
    case OP_REDUCE:
    case OP_MAP: mp_ints_attr(p, first, in, ATTR_DIMENSIONS, "dimensions"); break;
    case OP_CONCATENATE:
    case OP_GET_DIMENSION_SIZE:
    case OP_SET_DIMENSION_SIZE: int_attr(p, first, "dimension", first_dim(in)); break;
    case OP_COMPARE: compare_attrs(p, first, in); break;
    case OP_SLICE:
        v = instr_ints(in, ATTR_SLICE, &n);
        every(p, first, "start_indices", v, n / 3, 0);
        every(p, first, "limit_indices", v, n / 3, 1);
        every(p, first, "strides", v, n / 3, 2);
        break;
    case OP_PAD:
        v = instr_ints(in, ATTR_PADDING, &n);
        every(p, first, "edge_padding_low", v, n / 3, 0);
        every(p, first, "edge_padding_high", v, n / 3, 1);
        every(p, first, "interior_padding", v, n / 3, 2);
        break;
    case OP_DYNAMIC_SLICE: mp_ints_attr(p, first, in, ATTR_DYNAMIC_SLICE_SIZES, "slice_sizes"); break;
    case OP_DOT: dot_attrs(p, first, in); break;
    case OP_CONVOLUTION:
        convolution(p, first, in);
        precision(p, first, in);
        break;
    case OP_GATHER: index_numbers(p, first, in, false); break;
    case OP_SCATTER: index_numbers(p, first, in, true); break;
    case OP_REDUCE_WINDOW:
        window(p, first, in, shape_get(p->m->ir, instr_at(p->m, in->operands[0])->shape)->rank, false, false);
        break;
    case OP_SELECT_AND_SCATTER: window(p, first, in, s->rank, false, true); break;
    case OP_SORT:
        int_attr(p, first, "dimension", first_dim(in));
        bool_attr(p, first, "is_stable", instr_bool(in, ATTR_IS_STABLE, false));
        break;
    case OP_TOPK: int_attr(p, first, "k", instr_int(in, ATTR_K, 0)); break;
    case OP_REDUCE_PRECISION:
        key(p, first, "exponent_bits");
        mp_sayf(p, "", instr_int(in, ATTR_EXPONENT_BITS, 0), " : i32");
        key(p, first, "mantissa_bits");
        mp_sayf(p, "", instr_int(in, ATTR_MANTISSA_BITS, 0), " : i32");
        break;
    case OP_FFT:
        key(p, first, "fft_type");
        mp_say(p, "#stablehlo<fft_type ");
        mp_say(p, ident(p, in, ATTR_FFT_TYPE, "FFT"));
        mp_say(p, ">");
        mp_ints_attr(p, first, in, ATTR_FFT_LENGTH, "fft_length");
        break;
    case OP_CHOLESKY: bool_attr(p, first, "lower", instr_bool(in, ATTR_LOWER, false)); break;
    case OP_TRIANGULAR_SOLVE:
        bool_attr(p, first, "left_side", instr_bool(in, ATTR_LEFT_SIDE, false));
        bool_attr(p, first, "lower", instr_bool(in, ATTR_LOWER, false));
        bool_attr(p, first, "unit_diagonal", instr_bool(in, ATTR_UNIT_DIAGONAL, false));
        key(p, first, "transpose_a");
        mp_say(p, "#stablehlo<transpose ");
        mp_say(p, ident(p, in, ATTR_TRANSPOSE_A, "NO_TRANSPOSE"));
        mp_say(p, ">");
        break;
    case OP_RNG_BIT_GENERATOR: {
        const char *a = ident(p, in, ATTR_RNG_ALGORITHM, ident(p, in, ATTR_ALGORITHM, ""));
        key(p, first, "rng_algorithm");
        mp_say(p, "#stablehlo<rng_algorithm ");
        mp_say(p, strcmp(a, "rng_three_fry") == 0 ? "THREE_FRY" : strcmp(a, "rng_philox") == 0 ? "PHILOX" : "DEFAULT");
        mp_say(p, ">");
        break;
    }
    case OP_CUSTOM_CALL: custom_attrs(p, first, in); break;
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER:
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
    case OP_COLLECTIVE_BROADCAST:
        channel(p, first, in);
        groups(p, first, in, id);
        if (in->op == OP_REDUCE_SCATTER)
            int_attr(p, first, "scatter_dimension", first_dim(in));
        if (in->op == OP_ALL_GATHER)
            int_attr(p, first, "all_gather_dim", first_dim(in));
        if (in->op == OP_ALL_TO_ALL) {
            const struct attr *a = instr_attr(in, ATTR_REPLICA_GROUPS);
            const struct replica_groups *g = a ? a->groups : NULL;
            if (!g || g->none || s->kind != SHAPE_ARRAY)
                mp_refuse(p, id, "its groups are not given, or it is of a tuple");
            else
                int_attr(p, first, "split_count", g->uniform ? g->tiles.dims[1] : g->sizes[0]);
            int_attr(p, first, "split_dimension", first_dim(in));
            int_attr(p, first, "concat_dimension", first_dim(in));
        } else if (in->op != OP_COLLECTIVE_BROADCAST) {
            global_ids(p, first, in);
        }
        break;
    case OP_COLLECTIVE_PERMUTE:
        channel(p, first, in);
        permute_attrs(p, first, in, id);
        break;
    default: break;
    }
}
