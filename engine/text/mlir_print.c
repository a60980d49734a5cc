/* A module as StableHLO text: functions in pretty form, operations in MLIR's generic form, which is the
 * same for all of them and what every version of the parser reads. Tuples do not exist there: a value of
 * a tuple shape is the list of its leaves. Computations that HLO calls by name are written where they are
 * used, or as private functions. Nesting is kept on a stack of our own. */
#include "text/text.h"

#include <math.h>
#include <string.h>

/* One SSA value: %v12, %v12#1, %a3. */
struct leaf {
    uint32_t num;
    int32_t index; /* in a pack; -1: alone */
    bool arg;
};

struct frame {
    comp_id comp;
    uint32_t k; /* next instruction */
    instr_id op; /* whose regions are being written */
    int region, nregions;
    comp_id regions[2];
    const comp_id *list; /* more than two */
};

struct mprint {
    const struct module *m;
    const struct mlir_print_options *o;
    struct str *out;
    struct diag *d;
    struct arena tmp;
    struct leaf **vals; /* by instruction */
    uint32_t next;
    VEC(struct frame) stack;
    bool *is_func; /* by computation: something calls it */
    uint8_t *uses; /* of an instruction, up to 2 */
    instr_id *from; /* of a stretching broadcast: what it stretches */
    bool *inside; /* part of one */
    bool *result; /* a reshape that only says the sharding of an output */
    bool failed;
};

static void say(struct mprint *p, const char *text)
{
    str_adds(p->out, text);
}

static void sayf(struct mprint *p, const char *key, int64_t v, const char *behind)
{
    say(p, key);
    str_addi(p->out, v);
    say(p, behind);
}

static void refuse(struct mprint *p, instr_id i, const char *why)
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
            say(p, odd[i].name);
            return;
        }
    const char *n = dtype_name(t);
    if (dtype_kind(t) == DTYPE_KIND_SIGNED)
        say(p, "i"), say(p, n + 1);
    else if (dtype_kind(t) == DTYPE_KIND_UNSIGNED)
        say(p, "ui"), say(p, n + 1);
    else
        say(p, n);
}

static void type(struct mprint *p, shape_id id)
{
    const struct shape *s = shape_get(p->m->ir, id);
    if (s->kind == SHAPE_TOKEN) {
        say(p, "!stablehlo.token");
        return;
    }
    say(p, "tensor<");
    for (int d = 0; d < s->rank; d++)
        sayf(p, "", s->dims[d], "x");
    element(p, s->dtype);
    say(p, ">");
}

static int64_t leaves(const struct mprint *p, shape_id s)
{
    return shape_get(p->m->ir, s)->nleaves;
}

/* The leaves' types of a list of instructions (or of one shape), separated by commas. */
static void shape_types(struct mprint *p, shape_id s, bool *first)
{
    for (int64_t k = 0; k < leaves(p, s); k++) {
        say(p, *first ? "" : ", ");
        *first = false;
        type(p, shape_leaf(p->m->ir, s, k));
    }
}

static void result_types(struct mprint *p, shape_id s)
{
    bool first = true, parens = leaves(p, s) != 1;
    say(p, parens ? "(" : "");
    shape_types(p, s, &first);
    say(p, parens ? ")" : "");
}

/* ---- values ------------------------------------------------------------------------------------ */

static void put_leaf(struct mprint *p, struct leaf v)
{
    sayf(p, v.arg ? "%a" : "%v", v.num, "");
    if (v.index >= 0)
        sayf(p, "#", v.index, "");
}

static struct leaf *fresh(struct mprint *p, int64_t n, bool args)
{
    struct leaf *v = ARENA_ARRAY(&p->tmp, struct leaf, n + 1);
    for (int64_t k = 0; k < n; k++)
        v[k] = (struct leaf){ args ? p->next++ : p->next, args || n == 1 ? -1 : (int32_t)k, args };
    p->next += !args;
    return v;
}

static void operand_leaves(struct mprint *p, const struct instr *in, uint32_t from)
{
    bool first = true;
    for (uint32_t k = from; k < in->noperands; k++)
        for (int64_t j = 0; j < leaves(p, instr_at(p->m, in->operands[k])->shape); j++) {
            say(p, first ? "" : ", ");
            first = false;
            put_leaf(p, p->vals[in->operands[k].i][j]);
        }
}

static void operand_types(struct mprint *p, const struct instr *in, uint32_t n)
{
    bool first = true;
    for (uint32_t k = 0; k < n; k++)
        shape_types(p, instr_at(p->m, in->operands[k])->shape, &first);
}

/* ---- attributes -------------------------------------------------------------------------------- */

static void quoted(struct mprint *p, const char *s, size_t n)
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

static sharding_id sharding_of(const struct mprint *p, instr_id i)
{
    return p->o && p->o->shardings ? p->o->shardings[i.i] : instr_at(p->m, i)->sharding;
}

static void put_sharding(struct mprint *p, instr_id i, sharding_id s, bool whole)
{
    say(p, "mhlo.sharding = ");
    struct str t = STR_IN(&p->tmp);
    sharding_print(p->m->ir->shardings, s, whole ? instr_at(p->m, i)->note : NULL, true, &t);
    quoted(p, str_text(&t), t.n);
}

/* key="value",... between the braces of frontend_attributes, as a dictionary. */
static void put_frontend(struct mprint *p, const struct instr *in)
{
    const char *s = in->frontend, *end = s + in->frontend_len;
    bool first = true;
    say(p, "mhlo.frontend_attributes = {");
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
        say(p, first ? "" : ", ");
        first = false;
        quoted(p, s, (size_t)(eq - s));
        say(p, " = ");
        if (*v == '"') {
            struct str t = STR_IN(&p->tmp);
            for (const char *q = v + 1; q < stop && q < end; q++) {
                q += *q == '\\' && q + 1 < stop;
                str_addc(&t, *q);
            }
            quoted(p, str_text(&t), t.n);
            stop++;
        } else {
            quoted(p, v, (size_t)(stop - v));
        }
        s = stop < end && *stop == ',' ? stop + 1 : stop;
        while (s < end && *s == ' ')
            s++;
    }
    say(p, "}");
}

/* {mhlo.sharding = .., ..} behind an operation. */
static void discardable(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    sharding_id s = sharding_of(p, i);
    if (!s.i && !in->frontend_len)
        return;
    say(p, " {");
    if (in->frontend_len)
        put_frontend(p, in);
    if (s.i) {
        say(p, in->frontend_len ? ", " : "");
        put_sharding(p, i, s, true);
    }
    say(p, "}");
}

static void location(struct mprint *p, instr_id i)
{
    const char *name = instr_op_name(p->m, i), *file;
    int line;
    if (!name[0])
        return;
    say(p, " loc(");
    quoted(p, name, strlen(name));
    if (instr_source(p->m, i, &file, &line)) {
        say(p, "(");
        quoted(p, file, strlen(file));
        sayf(p, ":", line, ":1)");
    }
    say(p, ")");
}

static void key(struct mprint *p, bool *first, const char *name)
{
    say(p, *first ? "" : ", ");
    *first = false;
    say(p, name);
    say(p, " = ");
}

static void array(struct mprint *p, bool *first, const char *name, int64_t n, const int64_t *v)
{
    key(p, first, name);
    say(p, n ? "array<i64: " : "array<i64");
    for (int64_t i = 0; i < n; i++)
        sayf(p, i ? ", " : "", v[i], "");
    say(p, ">");
}

static void ints_attr(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name)
{
    int n;
    const int64_t *v = instr_ints(in, k, &n);
    array(p, first, name, n, v);
}

static void int_attr(struct mprint *p, bool *first, const char *name, int64_t v)
{
    key(p, first, name);
    sayf(p, "", v, " : i64");
}

static void bool_attr(struct mprint *p, bool *first, const char *name, bool v)
{
    key(p, first, name);
    say(p, v ? "true" : "false");
}

/* name = [0, 1] inside #stablehlo.gather<..>: left out when empty. */
static void nested(struct mprint *p, bool *first, const struct instr *in, enum attr_key k, const char *name)
{
    int n;
    const int64_t *v = instr_ints(in, k, &n);
    if (n == 0)
        return;
    key(p, first, name);
    say(p, "[");
    for (int i = 0; i < n; i++)
        sayf(p, i ? ", " : "", v[i], "");
    say(p, "]");
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
        say(p, "dense<> : tensor<0x2xi64>");
        return;
    }
    say(p, "dense<[");
    for (int64_t i = 0; i < n; i++) {
        sayf(p, i ? ", [" : "[", v[2 * i], ", ");
        sayf(p, "", v[2 * i + 1], "]");
    }
    sayf(p, "]> : tensor<", n, "x2xi64>");
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
        say(p, rank ? "array<i1: " : "array<i1");
        for (int d = 0; d < rank; d++) {
            say(p, d ? ", " : "");
            say(p, rev && a && a->window->dims[d].reversal ? "true" : "false");
        }
        say(p, ">");
    }
    dense_pairs(p, first, "padding", rank, pad);
}

static void conv_side(struct mprint *p, char a, int at_a, char b, int at_b, int n, const int *spatial)
{
    say(p, "[");
    for (int d = 0; d < n + 2; d++) {
        say(p, d ? ", " : "");
        if (d == at_a)
            str_addc(p->out, a);
        else if (d == at_b)
            str_addc(p->out, b);
        for (int k = 0; k < n; k++)
            if (spatial[k] == d && d != at_a && d != at_b)
                str_addi(p->out, k);
    }
    say(p, "]");
}

static void convolution(struct mprint *p, bool *first, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_DIM_LABELS);
    if (!a)
        return;
    const struct conv_dims *c = a->conv;
    window(p, first, in, c->nspatial, true, false);
    key(p, first, "dimension_numbers");
    say(p, "#stablehlo.conv<");
    conv_side(p, 'b', c->lhs_batch, 'f', c->lhs_feature, c->nspatial, c->lhs_spatial);
    say(p, "x");
    conv_side(p, 'i', c->rhs_in, 'o', c->rhs_out, c->nspatial, c->rhs_spatial);
    say(p, "->");
    conv_side(p, 'b', c->out_batch, 'f', c->out_feature, c->nspatial, c->out_spatial);
    say(p, ">");
    int_attr(p, first, "feature_group_count", instr_int(in, ATTR_FEATURE_GROUP_COUNT, 1));
    int_attr(p, first, "batch_group_count", instr_int(in, ATTR_BATCH_GROUP_COUNT, 1));
}

static void precision(struct mprint *p, bool *first, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_OPERAND_PRECISION);
    if (!a || !a->text)
        return;
    key(p, first, "precision_config");
    say(p, "[");
    const char *s = a->text, *end = s + a->n;
    bool one = true;
    while (s < end) {
        size_t n = 0;
        while (s + n < end && s[n] >= 'a' && s[n] <= 'z')
            n++;
        if (n) {
            say(p, one ? "#stablehlo<precision " : ", #stablehlo<precision ");
            say(p, n == 4 ? "HIGH" : n == 7 && s[0] == 'h' ? "HIGHEST" : "DEFAULT");
            say(p, ">");
            one = false;
        }
        s += n ? n : 1;
    }
    say(p, "]");
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
        refuse(p, id, "too many devices to list");
        return;
    }
    key(p, first, "replica_groups");
    if (cells == 0) {
        say(p, "dense<> : tensor<0x0xi64>");
        return;
    }
    say(p, "dense<[");
    const int64_t *at = g->uniform ? NULL : g->ids;
    for (int64_t i = 0; i < rows; i++) {
        say(p, i ? ", [" : "[");
        for (int64_t j = 0; j < columns; j++) {
            int64_t v = g->uniform ? order_device(p->m->ir->shardings, g->tiles.order, i * columns + j)
                        : j < g->sizes[i] ? *at++ : -1;
            sayf(p, j ? ", " : "", v, "");
        }
        say(p, "]");
    }
    sayf(p, "]> : tensor<", rows, "x");
    sayf(p, "", columns, "xi64>");
}

static void channel(struct mprint *p, bool *first, const struct instr *in)
{
    int64_t id = instr_int(in, ATTR_CHANNEL_ID, 0);
    if (id > 0) {
        key(p, first, "channel_handle");
        sayf(p, "#stablehlo.channel_handle<handle = ", id, ", type = 1>");
    }
}

static void global_ids(struct mprint *p, bool *first, const struct instr *in)
{
    if (instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false)) {
        say(p, *first ? "" : ", ");
        *first = false;
        say(p, "use_global_device_ids");
    }
}

/* ---- constants --------------------------------------------------------------------------------- */

static void one_value(struct mprint *p, const struct literal *l, int64_t i)
{
    enum dtype t = shape_get(p->m->ir, l->shape)->dtype;
    if (dtype_kind(t) == DTYPE_KIND_PRED) {
        say(p, literal_get_i(p->m, l, i) ? "true" : "false");
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
        say(p, k ? ", " : "");
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

static void constant(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    const struct shape *s = shape_get(p->m->ir, in->shape);
    const struct literal *l = in->literal;
    if (!l || s->kind != SHAPE_ARRAY) {
        refuse(p, i, "it is no array");
        return;
    }
    say(p, "stablehlo.constant");
    discardable(p, i);
    if (l->elided) {
        say(p, " dense_resource<__elided__> : ");
        type(p, in->shape);
        return;
    }
    say(p, " dense<");
    int64_t at[64] = { 0 };
    bool complex = dtype_kind(s->dtype) == DTYPE_KIND_COMPLEX;
    for (int64_t k = 0; k < s->count; k++) {
        int open = 0;
        for (int d = s->rank - 1; d >= 0 && at[d] == 0; d--)
            open++;
        say(p, k ? ", " : "");
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
    say(p, "> : ");
    type(p, in->shape);
}

/* ---- operations -------------------------------------------------------------------------------- */

static const char *stablehlo_name(enum op_kind op)
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
    say(p, "#stablehlo<comparison_direction ");
    say(p, ident(p, in, ATTR_DIRECTION, "EQ"));
    say(p, ">");
    key(p, first, "compare_type");
    say(p, "#stablehlo<comparison_type ");
    say(p, strcmp(ident(p, in, ATTR_COMPARE_TYPE, ""), "TOTALORDER") == 0 ? "TOTALORDER"
           : k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX             ? "FLOAT"
           : k == DTYPE_KIND_SIGNED                                       ? "SIGNED"
                                                                          : "UNSIGNED");
    say(p, ">");
}

static void permute_attrs(struct mprint *p, bool *first, const struct instr *in, instr_id id)
{
    const struct attr *a = instr_attr(in, ATTR_SOURCE_TARGET_PAIRS);
    if (!a || a->pairs->kind != PAIRS_LIST) {
        refuse(p, id, "its pairs are not listed");
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
    quoted(p, target, strlen(target));
    key(p, first, "has_side_effect");
    say(p, instr_bool(in, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false) ? "true" : "false");
    key(p, first, "api_version");
    say(p, typed ? "4 : i32" : strcmp(version, "API_VERSION_STATUS_RETURNING") == 0 ? "2 : i32"
           : strcmp(version, "API_VERSION_STATUS_RETURNING_UNIFIED") == 0           ? "3 : i32" : "1 : i32");
    if (typed) {
        key(p, first, "backend_config");
        if (c && c->text && c->n && *c->text == '{')
            str_add(p->out, c->text, c->n);
        else
            say(p, "{}");
    } else if (c && c->text && c->n >= 2) {
        key(p, first, "backend_config");
        if (*c->text == '"')
            str_add(p->out, c->text, c->n);
        else
            quoted(p, c->text, c->n);
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
    say(p, scatter ? "#stablehlo.scatter<" : "#stablehlo.gather<");
    bool in_first = true;
    for (size_t i = 0; i < COUNTOF(g); i++)
        nested(p, &in_first, in, scatter ? s[i].k : g[i].k, scatter ? s[i].name : g[i].name);
    key(p, &in_first, "index_vector_dim");
    sayf(p, "", instr_int(in, ATTR_INDEX_VECTOR_DIM, 0), ">");
    if (!scatter)
        ints_attr(p, first, in, ATTR_SLICE_SIZES, "slice_sizes");
    sorted_unique(p, first, in, scatter);
}

static void dot_attrs(struct mprint *p, bool *first, const struct instr *in)
{
    bool in_first = true;
    key(p, first, "dot_dimension_numbers");
    say(p, "#stablehlo.dot<");
    nested(p, &in_first, in, ATTR_LHS_BATCH, "lhs_batching_dimensions");
    nested(p, &in_first, in, ATTR_RHS_BATCH, "rhs_batching_dimensions");
    nested(p, &in_first, in, ATTR_LHS_CONTRACTING, "lhs_contracting_dimensions");
    nested(p, &in_first, in, ATTR_RHS_CONTRACTING, "rhs_contracting_dimensions");
    say(p, ">");
    precision(p, first, in);
}

static int64_t first_dim(const struct instr *in)
{
    int n;
    const int64_t *v = instr_ints(in, ATTR_DIMENSIONS, &n);
    return n ? v[0] : 0;
}

/* The properties of an operation, without their braces. */
static void properties(struct mprint *p, instr_id id, bool *first)
{
    const struct instr *in = instr_at(p->m, id);
    const struct shape *s = shape_get(p->m->ir, in->shape);
    int n;
    const int64_t *v;
    switch ((int)in->op) {
    case OP_IOTA: int_attr(p, first, "iota_dimension", instr_int(in, ATTR_IOTA_DIMENSION, 0)); break;
    case OP_BROADCAST: ints_attr(p, first, in, ATTR_DIMENSIONS, "broadcast_dimensions"); break;
    case OP_TRANSPOSE: ints_attr(p, first, in, ATTR_DIMENSIONS, "permutation"); break;
    case OP_REVERSE:
    case OP_REDUCE:
    case OP_MAP: ints_attr(p, first, in, ATTR_DIMENSIONS, "dimensions"); break;
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
    case OP_DYNAMIC_SLICE: ints_attr(p, first, in, ATTR_DYNAMIC_SLICE_SIZES, "slice_sizes"); break;
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
        sayf(p, "", instr_int(in, ATTR_EXPONENT_BITS, 0), " : i32");
        key(p, first, "mantissa_bits");
        sayf(p, "", instr_int(in, ATTR_MANTISSA_BITS, 0), " : i32");
        break;
    case OP_FFT:
        key(p, first, "fft_type");
        say(p, "#stablehlo<fft_type ");
        say(p, ident(p, in, ATTR_FFT_TYPE, "FFT"));
        say(p, ">");
        ints_attr(p, first, in, ATTR_FFT_LENGTH, "fft_length");
        break;
    case OP_CHOLESKY: bool_attr(p, first, "lower", instr_bool(in, ATTR_LOWER, false)); break;
    case OP_TRIANGULAR_SOLVE:
        bool_attr(p, first, "left_side", instr_bool(in, ATTR_LEFT_SIDE, false));
        bool_attr(p, first, "lower", instr_bool(in, ATTR_LOWER, false));
        bool_attr(p, first, "unit_diagonal", instr_bool(in, ATTR_UNIT_DIAGONAL, false));
        key(p, first, "transpose_a");
        say(p, "#stablehlo<transpose ");
        say(p, ident(p, in, ATTR_TRANSPOSE_A, "NO_TRANSPOSE"));
        say(p, ">");
        break;
    case OP_RNG_BIT_GENERATOR: {
        const char *a = ident(p, in, ATTR_RNG_ALGORITHM, ident(p, in, ATTR_ALGORITHM, ""));
        key(p, first, "rng_algorithm");
        say(p, "#stablehlo<rng_algorithm ");
        say(p, strcmp(a, "rng_three_fry") == 0 ? "THREE_FRY" : strcmp(a, "rng_philox") == 0 ? "PHILOX" : "DEFAULT");
        say(p, ">");
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
                refuse(p, id, "its groups are not given, or it is of a tuple");
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

/* ---- regions and calls ------------------------------------------------------------------------- */

/* Computations that are written as regions of the instruction; 0: it has none. */
static int regions_of(const struct instr *in, struct frame *f)
{
    static const enum attr_key one[] = { ATTR_TO_APPLY };
    f->list = NULL;
    switch ((int)in->op) {
    case OP_WHILE:
    case OP_SELECT_AND_SCATTER: {
        const struct attr *a = instr_attr(in, in->op == OP_WHILE ? ATTR_CONDITION : ATTR_SELECT);
        const struct attr *b = instr_attr(in, in->op == OP_WHILE ? ATTR_BODY : ATTR_SCATTER);
        if (!a || !b)
            return 0;
        f->regions[0] = a->comp;
        f->regions[1] = b->comp;
        return 2;
    }
    case OP_CONDITIONAL: {
        const struct attr *l = instr_attr(in, ATTR_BRANCH_COMPUTATIONS);
        const struct attr *a = instr_attr(in, ATTR_TRUE_COMPUTATION), *b = instr_attr(in, ATTR_FALSE_COMPUTATION);
        if (l) {
            f->list = l->comps;
            return (int)l->n;
        }
        if (!a || !b)
            return 0;
        f->regions[0] = a->comp;
        f->regions[1] = b->comp;
        return 2;
    }
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SCATTER:
    case OP_MAP:
    case OP_SORT:
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER: {
        const struct attr *a = instr_attr(in, one[0]);
        if (!a)
            return 0;
        f->regions[0] = a->comp;
        return 1;
    }
    default: break;
    }
    return 0;
}

static void indent(struct mprint *p)
{
    int64_t n = 2 + 2 * p->stack.n;
    for (int64_t i = 0; i < n && i < 60; i++)
        str_addc(p->out, ' ');
}

/* Begins region f->region of f->op: block arguments, or the operands themselves for branches. */
static void open_region(struct mprint *p, int64_t at)
{
    struct frame *f = &p->stack.v[at];
    comp_id c = f->list ? f->list[f->region] : f->regions[f->region];
    const struct instr *in = instr_at(p->m, f->op);
    const struct computation *k = comp_at(p->m, c);
    struct frame sub = { .comp = c };
    vec_push(&p->tmp, &p->stack, sub);
    if (in->op == OP_CONDITIONAL) {
        if (k->nparams == 1)
            p->vals[k->params[0].i] = p->vals[in->operands[p->stack.v[at].region + 1].i];
        return;
    }
    bool first = true;
    for (uint32_t i = 0; i < k->nparams; i++) {
        shape_id s = instr_at(p->m, k->params[i])->shape;
        struct leaf *v = fresh(p, leaves(p, s), true);
        p->vals[k->params[i].i] = v;
        for (int64_t j = 0; j < leaves(p, s); j++) {
            if (first)
                indent(p), say(p, "^bb0(");
            else
                say(p, ", ");
            first = false;
            put_leaf(p, v[j]);
            say(p, ": ");
            type(p, shape_leaf(p->m->ir, s, j));
        }
    }
    if (!first)
        say(p, "):\n");
}

static void put_results(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    int64_t n = leaves(p, in->shape);
    struct leaf *v = fresh(p, n, false);
    p->vals[i.i] = v;
    indent(p);
    if (n == 0)
        return;
    sayf(p, "%v", v[0].num, "");
    if (n > 1)
        sayf(p, ":", n, "");
    say(p, " = ");
}

static uint32_t written_operands(const struct instr *in)
{
    return in->op == OP_CONDITIONAL ? 1 : in->noperands;
}

/* Behind the regions, or at once: attributes, types, place. */
static void end_op(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    discardable(p, i);
    say(p, " : (");
    operand_types(p, in, written_operands(in));
    say(p, ") -> ");
    result_types(p, in->shape);
    location(p, i);
    say(p, "\n");
}

static const char *comp_name(const struct mprint *p, comp_id c)
{
    return c.i == p->m->entry.i ? "main" : name_text(p->m->ir, comp_at(p->m, c)->name);
}

static void put_symbol(struct mprint *p, const char *name)
{
    bool plain = name[0] && (name[0] < '0' || name[0] > '9');
    for (const char *s = name; *s; s++)
        plain &= (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
                 *s == '.' || *s == '$';
    say(p, "@");
    if (plain)
        say(p, name);
    else
        quoted(p, name, strlen(name));
}

static void put_call(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    const struct attr *a = instr_attr(in, ATTR_TO_APPLY);
    a = a ? a : instr_attr(in, ATTR_CALLS);
    if (!a) {
        refuse(p, i, "what it calls is not known");
        return;
    }
    put_results(p, i);
    say(p, "func.call ");
    put_symbol(p, comp_name(p, a->comp));
    say(p, "(");
    operand_leaves(p, in, 0);
    say(p, ")");
    end_op(p, i);
}

/* ---- broadcasts that stretch ------------------------------------------------------------------- */

static instr_id only_use_of(const struct mprint *p, instr_id i, enum op_kind op)
{
    const struct instr *in = instr_at(p->m, i);
    instr_id x = in->operands[0];
    const struct instr *d = instr_at(p->m, x);
    bool plain = d->op == op && p->uses[x.i] == 1 && !sharding_of(p, x).i;
    return plain ? x : (instr_id){ 0 };
}

/* HLO takes a size 1 apart in three steps (rank, without the size, again with it) where StableHLO has one
 * broadcast_in_dim: written as that one, which is read as the three. */
static void find_stretch(struct mprint *p, instr_id i)
{
    instr_id r = only_use_of(p, i, OP_RESHAPE);
    instr_id b = r.i ? only_use_of(p, r, OP_BROADCAST) : r;
    if (!b.i)
        return;
    const struct shape *out = instr_shape(p->m, i), *seq = instr_shape(p->m, b), *mid = instr_shape(p->m, r);
    int n;
    const int64_t *kept = instr_ints(instr_at(p->m, i), ATTR_DIMENSIONS, &n);
    if (out->rank != seq->rank || n != mid->rank)
        return;
    int at = 0;
    for (int d = 0; d < out->rank; d++) {
        if (seq->dims[d] != out->dims[d]) {
            if (seq->dims[d] != 1)
                return;
        } else if (at >= n || kept[at] != d || mid->dims[at++] != out->dims[d]) {
            return;
        }
    }
    if (at != n || at == out->rank)
        return;
    const struct shape *x = instr_shape(p->m, instr_at(p->m, b)->operands[0]);
    int nd;
    const int64_t *dims = instr_ints(instr_at(p->m, b), ATTR_DIMENSIONS, &nd);
    for (int k = 0; k < nd; k++)
        if (x->dims[k] != seq->dims[dims[k]])
            return;
    p->from[i.i] = b;
    p->inside[r.i] = p->inside[b.i] = true;
}

static void find_stretches(struct mprint *p)
{
    int64_t n = (int64_t)module_ninstrs(p->m) + 1;
    p->uses = ARENA_ARRAY(&p->tmp, uint8_t, n);
    p->from = ARENA_ARRAY(&p->tmp, instr_id, n);
    p->inside = ARENA_ARRAY(&p->tmp, bool, n);
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *k = comp_at(p->m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(p->m, k->instrs[j]);
            for (uint32_t o = 0; o < in->noperands; o++)
                if (p->uses[in->operands[o].i] < 2)
                    p->uses[in->operands[o].i]++;
        }
        p->uses[k->root.i] = 2;
    }
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *k = comp_at(p->m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++)
            if (instr_at(p->m, k->instrs[j])->op == OP_BROADCAST)
                find_stretch(p, k->instrs[j]);
    }
}

static bool same_shape_reshape(const struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    return (in->op == OP_RESHAPE || in->op == OP_COPY) &&
           shape_same(p->m->ir, in->shape, instr_at(p->m, in->operands[0])->shape);
}

/* An output's sharding is a reshape in front of the root in HLO, an attribute of the result here. */
static void find_result(struct mprint *p, instr_id i, bool root)
{
    if (same_shape_reshape(p, i) && sharding_of(p, i).i && (root || p->uses[i.i] == 1))
        p->result[i.i] = true;
}

static void find_results(struct mprint *p)
{
    p->result = ARENA_ARRAY(&p->tmp, bool, (int64_t)module_ninstrs(p->m) + 1);
    instr_id root = comp_at(p->m, p->m->entry)->root;
    const struct instr *in = instr_at(p->m, root);
    find_result(p, root, true);
    for (uint32_t k = 0; in->op == OP_TUPLE && k < in->noperands; k++)
        find_result(p, in->operands[k], false);
}

/* The sharding that leaf j of the entry's result is given; none: it says it itself, or there is none. */
static sharding_id result_sharding(const struct mprint *p, int64_t j)
{
    instr_id root = comp_at(p->m, p->m->entry)->root;
    const struct instr *in = instr_at(p->m, root);
    struct shardings *t = p->m->ir->shardings;
    if (p->result[root.i])
        return sharding_of(p, root);
    if (in->op == OP_TUPLE && (int64_t)in->noperands == leaves(p, in->shape) && p->result[in->operands[j].i])
        return sharding_of(p, in->operands[j]);
    sharding_id s = sharding_of(p, root);
    const struct sharding *h = sharding_get(t, s);
    bool leaf = in->op == OP_TUPLE && h->kind == SHARDING_TUPLE && !sharding_is_unknown(t, h->elems[j]);
    return leaf ? h->elems[j] : (sharding_id){ 0 };
}

/* What only arranges values: no operation. */
static bool plumbing(struct mprint *p, instr_id i)
{
    const struct instr *in = instr_at(p->m, i);
    int64_t n = leaves(p, in->shape);
    if (in->op == OP_GET_TUPLE_ELEMENT) {
        shape_id t = instr_at(p->m, in->operands[0])->shape;
        p->vals[i.i] = p->vals[in->operands[0].i] +
                       shape_leaf_offset(p->m->ir, t, instr_int(in, ATTR_INDEX, 0));
        return true;
    }
    if (in->op == OP_TUPLE) {
        struct leaf *v = ARENA_ARRAY(&p->tmp, struct leaf, n + 1);
        int64_t at = 0;
        for (uint32_t k = 0; k < in->noperands; k++)
            for (int64_t j = 0; j < leaves(p, instr_at(p->m, in->operands[k])->shape); j++)
                v[at++] = p->vals[in->operands[k].i][j];
        p->vals[i.i] = v;
        return true;
    }
    if (in->op == OP_PARAMETER || p->inside[i.i])
        return true;
    if (p->result[i.i]) {
        p->vals[i.i] = p->vals[in->operands[0].i];
        return true;
    }
    if ((in->op == OP_COPY || in->op == OP_BITCAST) && !sharding_of(p, i).i &&
        shape_same(p->m->ir, in->shape, instr_at(p->m, in->operands[0])->shape)) {
        p->vals[i.i] = p->vals[in->operands[0].i];
        return true;
    }
    return false;
}

static void put_instr(struct mprint *p, instr_id i, int64_t at)
{
    const struct instr *in = instr_at(p->m, i);
    if (plumbing(p, i))
        return;
    if (in->op == OP_CALL || in->op == OP_FUSION) {
        put_call(p, i);
        return;
    }
    if (p->from[i.i].i) {
        const struct instr *b = instr_at(p->m, p->from[i.i]);
        bool one = true;
        put_results(p, i);
        say(p, "\"stablehlo.broadcast_in_dim\"(");
        operand_leaves(p, b, 0);
        say(p, ") <{");
        ints_attr(p, &one, b, ATTR_DIMENSIONS, "broadcast_dimensions");
        say(p, "}>");
        discardable(p, i);
        say(p, " : (");
        operand_types(p, b, 1);
        say(p, ") -> ");
        result_types(p, in->shape);
        location(p, i);
        say(p, "\n");
        return;
    }
    if (in->op == OP_CONSTANT) {
        put_results(p, i);
        constant(p, i);
        location(p, i);
        say(p, "\n");
        return;
    }
    /* A sharding on what changes nothing: the parser would drop it with the operation. */
    if (same_shape_reshape(p, i) && sharding_of(p, i).i) {
        put_results(p, i);
        say(p, "\"stablehlo.custom_call\"(");
        operand_leaves(p, in, 0);
        say(p, ") <{call_target_name = \"Sharding\", has_side_effect = false, api_version = 1 : i32}>");
        end_op(p, i);
        return;
    }
    const char *name = in->op == OP_COPY ? "reshape" : stablehlo_name((enum op_kind)in->op);
    if (in->op == OP_CONDITIONAL && instr_attr(in, ATTR_TRUE_COMPUTATION))
        name = "if";
    if (!name || !name[0]) {
        refuse(p, i, "there is no such operation");
        return;
    }
    put_results(p, i);
    say(p, strchr(name, '.') ? "\"" : "\"stablehlo.");
    say(p, name);
    say(p, "\"(");
    if (in->op == OP_CONDITIONAL)
        put_leaf(p, p->vals[in->operands[0].i][0]);
    else
        operand_leaves(p, in, 0);
    say(p, ")");
    struct str *out = p->out, props = STR_IN(&p->tmp);
    bool first = true;
    p->out = &props;
    properties(p, i, &first);
    p->out = out;
    if (props.n) {
        say(p, " <{");
        str_add(p->out, props.s, props.n);
        say(p, "}>");
    }
    struct frame *f = &p->stack.v[at];
    f->nregions = regions_of(in, f);
    f->region = 0;
    f->op = i;
    if (f->nregions == 0) {
        end_op(p, i);
        return;
    }
    say(p, " ({\n");
    open_region(p, at);
}

static void put_return(struct mprint *p, comp_id c, bool func)
{
    const struct computation *k = comp_at(p->m, c);
    shape_id s = instr_at(p->m, k->root)->shape;
    int64_t n = leaves(p, s);
    indent(p);
    say(p, func ? "return" : "\"stablehlo.return\"(");
    for (int64_t j = 0; j < n; j++) {
        say(p, j ? ", " : func ? " " : "");
        put_leaf(p, p->vals[k->root.i][j]);
    }
    bool first = true;
    say(p, func ? n ? " : " : "" : ") : (");
    shape_types(p, s, &first);
    say(p, func ? "\n" : ") -> ()\n");
}

static void put_body(struct mprint *p, comp_id c)
{
    struct frame f = { .comp = c };
    p->stack.n = 0;
    vec_push(&p->tmp, &p->stack, f);
    while (p->stack.n && !p->failed) {
        int64_t at = p->stack.n - 1;
        struct frame *t = &p->stack.v[at];
        const struct computation *k = comp_at(p->m, t->comp);
        if (t->k < k->ninstrs) {
            put_instr(p, k->instrs[t->k++], at);
            continue;
        }
        put_return(p, t->comp, at == 0);
        p->stack.n--;
        if (at == 0)
            return;
        struct frame *up = &p->stack.v[at - 1];
        indent(p);
        if (++up->region < up->nregions) {
            say(p, "}, {\n");
            open_region(p, at - 1);
        } else {
            say(p, "})");
            end_op(p, up->op);
        }
    }
}

/* ---- functions --------------------------------------------------------------------------------- */

static void arg_attrs(struct mprint *p, instr_id i, int64_t leaf, bool tuple)
{
    sharding_id s = sharding_of(p, i);
    if (!s.i)
        return;
    const struct sharding *h = sharding_get(p->m->ir->shardings, s);
    if (tuple && h->kind == SHARDING_TUPLE)
        s = h->elems[leaf];
    say(p, " {");
    put_sharding(p, i, s, !tuple);
    say(p, "}");
}

static void put_func(struct mprint *p, comp_id c)
{
    const struct computation *k = comp_at(p->m, c);
    bool entry = c.i == p->m->entry.i, first = true;
    say(p, entry ? "  func.func public " : "  func.func private ");
    put_symbol(p, comp_name(p, c));
    say(p, "(");
    for (uint32_t i = 0; i < k->nparams; i++) {
        shape_id s = instr_at(p->m, k->params[i])->shape;
        struct leaf *v = fresh(p, leaves(p, s), true);
        p->vals[k->params[i].i] = v;
        for (int64_t j = 0; j < leaves(p, s); j++) {
            say(p, first ? "" : ", ");
            first = false;
            put_leaf(p, v[j]);
            say(p, ": ");
            type(p, shape_leaf(p->m->ir, s, j));
            arg_attrs(p, k->params[i], j, shape_get(p->m->ir, s)->kind == SHAPE_TUPLE);
            location(p, k->params[i]);
        }
    }
    say(p, ") -> (");
    shape_id s = instr_at(p->m, k->root)->shape;
    for (int64_t j = 0; j < leaves(p, s); j++) {
        say(p, j ? ", " : "");
        type(p, shape_leaf(p->m->ir, s, j));
        sharding_id h = entry ? result_sharding(p, j) : (sharding_id){ 0 };
        if (h.i) {
            say(p, " {");
            put_sharding(p, k->root, h, false);
            say(p, "}");
        }
    }
    say(p, ") {\n");
    put_body(p, c);
    say(p, "  }\n");
}

static bool print_module(struct mprint *p)
{
    const struct module *m = p->m;
    say(p, "module ");
    put_symbol(p, m->name.i ? name_text(m->ir, m->name) : "module");
    say(p, " attributes {");
    sayf(p, "mhlo.num_partitions = ", max_i64(1, m->num_partitions), " : i32, ");
    sayf(p, "mhlo.num_replicas = ", max_i64(1, m->replica_count), " : i32} {\n");
    p->vals = ARENA_ARRAY(&p->tmp, struct leaf *, (int64_t)module_ninstrs(m) + 1);
    p->is_func = ARENA_ARRAY(&p->tmp, bool, (int64_t)module_ncomps(m) + 1);
    find_stretches(p);
    find_results(p);
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            const struct instr *in = instr_at(m, k->instrs[j]);
            const struct attr *a = in->op == OP_CALL || in->op == OP_FUSION ? instr_attr(in, ATTR_TO_APPLY) : NULL;
            a = a || (in->op != OP_CALL && in->op != OP_FUSION) ? a : instr_attr(in, ATTR_CALLS);
            if (a)
                p->is_func[a->comp.i] = true;
        }
    }
    put_func(p, m->entry);
    for (uint32_t c = 1; c <= module_ncomps(m) && !p->failed; c++)
        if (p->is_func[c] && c != m->entry.i)
            put_func(p, (comp_id){ c });
    say(p, "}\n");
    return !p->failed;
}

bool mlir_print(const struct module *m, const struct mlir_print_options *o, struct str *out, struct diag *d)
{
    struct mprint p = { .m = m, .o = o, .out = out, .d = d };
    arena_open(&p.tmp);
    bool ok = print_module(&p);
    arena_close(&p.tmp);
    return ok;
}
