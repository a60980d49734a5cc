/* Elementwise operations: choosing a kernel, conversions between types, select, and the wrappers
 * that run f32 and 8-bit kernels on narrower types strip by strip. */
#include "emulate/ew.h"

#include <math.h>
#include <string.h>

/* ---- conversions -------------------------------------------------------------------------------
 */

static void load_ints(enum ctype ct, const void *in, int64_t *out, int64_t n)
{
#define EACH(T)                               \
    for (int64_t i = 0; i < n; i++)           \
        out[i] = (int64_t)((const T *)in)[i]; \
    return
    if (ct == CT_PRED || ct == CT_U8 || ct == CT_U4 || ct == CT_U2) {
        EACH(uint8_t);
    }
    if (ct == CT_S8 || ct == CT_S4 || ct == CT_S2) {
        EACH(int8_t);
    }
    if (ct == CT_S16) {
        EACH(int16_t);
    }
    if (ct == CT_U16) {
        EACH(uint16_t);
    }
    if (ct == CT_S32) {
        EACH(int32_t);
    }
    if (ct == CT_U32) {
        EACH(uint32_t);
    }
    EACH(int64_t);
#undef EACH
}

static int64_t cut_narrow(enum ctype ct, int64_t v)
{
    switch ((int)ct) {
    case CT_S2: return (int64_t)((uint64_t)v << 62) >> 62;
    case CT_S4: return (int64_t)((uint64_t)v << 60) >> 60;
    case CT_U2: return v & 3;
    case CT_U4: return v & 15;
    default: return v;
    }
}

static void store_ints(enum ctype ct, const int64_t *in, void *out, int64_t n)
{
#define EACH(T, expr)               \
    for (int64_t i = 0; i < n; i++) \
        ((T *)out)[i] = (T)(expr);  \
    return
    if (ct == CT_PRED) {
        EACH(uint8_t, in[i] != 0);
    }
    if (ct == CT_S2 || ct == CT_S4) {
        EACH(int8_t, cut_narrow(ct, in[i]));
    }
    if (ct == CT_U2 || ct == CT_U4) {
        EACH(uint8_t, cut_narrow(ct, in[i]));
    }
    if (ct == CT_S8 || ct == CT_U8) {
        EACH(uint8_t, in[i]);
    }
    if (ct == CT_S16 || ct == CT_U16) {
        EACH(uint16_t, in[i]);
    }
    if (ct == CT_S32 || ct == CT_U32) {
        EACH(uint32_t, in[i]);
    }
    EACH(int64_t, in[i]);
#undef EACH
}

static void load_doubles(struct elem e, const void *in, double *out, int64_t n)
{
    if (e.ct == CT_F64) {
        memcpy(out, in, (size_t)n * 8);
        return;
    }
    float f[STRIP];
    const float *p = in;
    if (e.ct == CT_SMALL) {
        small_to_f32(e.t, in, f, n);
        p = f;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)p[i];
}

static void store_doubles(struct elem e, const double *in, void *out, int64_t n)
{
    if (e.ct == CT_F64) {
        memcpy(out, in, (size_t)n * 8);
        return;
    }
    if (e.ct == CT_SMALL && e.t != DTYPE_BF16) {
        for (int64_t i = 0; i < n; i++)
            real_store(e.t, in[i], (char *)out + i * e.size);
        return;
    }
    float f[STRIP], *p = e.ct == CT_F32 ? out : f;
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)in[i];
    if (e.ct == CT_SMALL)
        f32_to_small(e.t, f, out, n);
}

static void ints_to_floats(struct elem from, struct elem to, const int64_t *in, void *out,
                           int64_t n)
{
    bool big = from.ct == CT_U64;
    if (to.ct == CT_F64) {
        for (int64_t i = 0; i < n; i++)
            ((double *)out)[i] = big ? (double)(uint64_t)in[i] : (double)in[i];
        return;
    }
    float f[STRIP], *p = to.ct == CT_F32 ? out : f;
    for (int64_t i = 0; i < n; i++)
        p[i] = big ? (float)(uint64_t)in[i] : (float)in[i];
    if (to.ct == CT_SMALL)
        f32_to_small(to.t, f, out, n);
}

/* Out of range: the nearest end of the type; NaN: 0. */
static int64_t saturate(struct elem to, double v)
{
    int bits = dtype_bits(to.t);
    bool is_signed = dtype_kind(to.t) == DTYPE_KIND_SIGNED;
    if (isnan(v))
        return 0;
    if (to.ct == CT_PRED)
        return v != 0;
    double lo = is_signed ? -ldexp(1, bits - 1) : 0, hi = ldexp(1, is_signed ? bits - 1 : bits);
    if (v <= lo)
        return is_signed ? (int64_t)((uint64_t)-1 << (bits - 1)) : 0;
    if (v >= hi)
        return bits == 64 ? (is_signed ? INT64_MAX : -1)
                          : (int64_t)(((uint64_t)1 << (is_signed ? bits - 1 : bits)) - 1);
    return is_signed ? (int64_t)v : (int64_t)(uint64_t)v;
}

static bool ct_is_float(enum ctype c)
{
    return c == CT_SMALL || c == CT_F32 || c == CT_F64;
}

static void convert_strip(struct elem from, struct elem to, const void *in, void *out, int64_t n)
{
    int64_t v[STRIP];
    double f[STRIP];
    if (ct_is_float(from.ct)) {
        if (from.ct == CT_SMALL && to.ct == CT_F32) {
            small_to_f32(from.t, in, out, n);
            return;
        }
        if (from.ct == CT_F32 && to.ct == CT_SMALL) {
            f32_to_small(to.t, in, out, n);
            return;
        }
        load_doubles(from, in, f, n);
        if (ct_is_float(to.ct)) {
            store_doubles(to, f, out, n);
            return;
        }
        for (int64_t i = 0; i < n; i++)
            v[i] = to.ct == CT_PRED ? (f[i] != 0) : saturate(to, f[i]);
        store_ints(to.ct, v, out, n);
        return;
    }
    load_ints(from.ct, in, v, n);
    if (ct_is_float(to.ct))
        ints_to_floats(from, to, v, out, n);
    else
        store_ints(to.ct, v, out, n);
}

static void convert_any(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    for (int64_t at = 0; at < n; at += STRIP)
        convert_strip(e->in, e->out, (const char *)in[0] + at * e->in.size,
                      (char *)out + at * e->out.size, min_i64(STRIP, n - at));
}

/* Real part, or any real type to a complex one. */
static void convert_complex(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    struct elem from = e->in, to = e->out;
    bool cin = from.ct == CT_C64 || from.ct == CT_C128, cout = to.ct == CT_C64 || to.ct == CT_C128;
    struct elem f64 = elem_of(DTYPE_F64, EMU_FLOAT);
    struct elem part_in = elem_of(from.ct == CT_C64 ? DTYPE_F32 : DTYPE_F64, EMU_FLOAT);
    struct elem part_out = elem_of(to.ct == CT_C64 ? DTYPE_F32 : DTYPE_F64, EMU_FLOAT);
    for (int64_t i = 0; i < n; i++) {
        const char *p = (const char *)in[0] + i * from.size;
        char *q = (char *)out + i * to.size;
        double re, im = 0;
        convert_strip(cin ? part_in : from, f64, p, &re, 1);
        if (cin)
            convert_strip(part_in, f64, p + part_in.size, &im, 1);
        convert_strip(f64, cout ? part_out : to, &re, q, 1);
        if (cout)
            convert_strip(f64, part_out, &im, q + part_out.size, 1);
    }
}

/* Ring mode: integers map to themselves, floats to floats likewise; back to integers the low bits.
 */
static void convert_ring(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    struct elem from = e->in, to = e->out;
    bool cin = from.ct == CT_RINGC, cout = to.ct == CT_RINGC;
    for (int64_t i = 0; i < n; i++) {
        const char *p = (const char *)in[0] + i * from.size;
        char *q = (char *)out + i * to.size;
        int64_t v[2] = { 0, 0 };
        if (cin)
            memcpy(v, p, 16);
        else if (from.ct == CT_RING)
            memcpy(v, p, 8);
        else
            load_ints(from.ct, p, v, 1);
        if (cout)
            memcpy(q, v, 16);
        else if (to.ct == CT_RING)
            memcpy(q, v, 8);
        else
            store_ints(to.ct, v, q, 1);
    }
}

static void copy_any(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    if (out != in[0])
        memcpy(out, in[0], (size_t)(n * e->out.size));
}

ew_fn convert_kernel(struct elem in, struct elem out)
{
    if (in.ct == out.ct && in.t == out.t)
        return copy_any;
    if (in.ct == CT_RING && out.ct == CT_RING)
        return copy_any;
    if (in.ct == CT_RING || out.ct == CT_RING || in.ct == CT_RINGC || out.ct == CT_RINGC)
        return convert_ring;
    if (in.ct == CT_C64 || in.ct == CT_C128 || out.ct == CT_C64 || out.ct == CT_C128)
        return convert_complex;
    ew_fn one = ew_set_best()->convert(in.t, out.t);
    return one ? one : convert_any;
}

/* ---- wrappers ----------------------------------------------------------------------------------
 */

/* Small floats: operands widened to f32, the f32 kernel, the result rounded once. */
static void run_small(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    float buf[3][STRIP], res[STRIP];
    const void *ptr[3] = { buf[0], buf[1], buf[2] };
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t m = min_i64(STRIP, n - at);
        for (int k = 0; k < e->nin; k++)
            small_to_f32(e->in.t, (const char *)in[k] + at * e->in.size, buf[k], m);
        if (e->out.ct == CT_SMALL) {
            e->inner->fn(e->inner, res, ptr, m);
            f32_to_small(e->out.t, res, (char *)out + at * e->out.size, m);
        } else {
            e->inner->fn(e->inner, (char *)out + at * e->out.size, ptr, m);
        }
    }
}

/* s2, s4, u2, u4: the 8-bit kernel, then cut to the width. */
static void run_narrow(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    e->inner->fn(e->inner, out, in, n);
    if (e->out.ct == CT_PRED)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (e->out.ct == CT_S2 || e->out.ct == CT_S4)
            ((int8_t *)out)[i] = (int8_t)cut_narrow(e->out.ct, ((int8_t *)out)[i]);
        else
            ((uint8_t *)out)[i] = (uint8_t)cut_narrow(e->out.ct, ((uint8_t *)out)[i]);
    }
}

static bool ct_is_narrow(enum ctype c)
{
    return c == CT_S2 || c == CT_S4 || c == CT_U2 || c == CT_U4;
}

static int operands_of(enum op_kind op)
{
    return op_max_operands(op);
}

static ew_fn direct(enum op_kind op, struct elem in, struct elem out)
{
    if (op == OP_CONVERT)
        return convert_kernel(in, out);
    if (op == OP_COPY)
        return copy_any;
    if (op == OP_SELECT)
        return ew_set_best()->select(out.size);
    if (op == OP_BITCAST_CONVERT) { /* of equal widths; others are no matter of single elements */
        bool ring =
            in.ct == CT_RING || out.ct == CT_RING || in.ct == CT_RINGC || out.ct == CT_RINGC;
        return ring                                    ? convert_kernel(in, out)
               : dtype_bits(in.t) == dtype_bits(out.t) ? copy_any
                                                       : NULL;
    }
    if (in.ct == CT_RING || in.ct == CT_RINGC)
        return ew_ring(op, in.ct);
    if (in.ct == CT_C64 || in.ct == CT_C128 || op == OP_COMPLEX)
        return ew_complex(op, in.ct);
    return ew_arith(op, in.ct);
}

const struct ew *ew_make(struct arena *a, enum op_kind op, struct elem in, struct elem out,
                         int64_t p, int64_t q)
{
    struct ew *e = ARENA_NEW(a, struct ew);
    *e = (struct ew){ .op = op, .nin = operands_of(op), .in = in, .out = out, .a = p, .b = q };
    bool wrap = op != OP_SELECT && op != OP_CONVERT && op != OP_COPY && op != OP_BITCAST_CONVERT &&
                (in.ct == CT_SMALL || ct_is_narrow(in.ct));
    if (!wrap) {
        e->fn = direct(op, in, out);
        return e->fn ? e : NULL;
    }
    ew_fn half = in.t == out.t ? ew_set_best()->half(op, in.t) : NULL;
    if (half) {
        e->fn = half;
        return e;
    }
    struct ew *inner = ARENA_NEW(a, struct ew);
    *inner = *e;
    if (in.ct == CT_SMALL) {
        inner->in = elem_of(DTYPE_F32, EMU_FLOAT);
        inner->out = out.ct == CT_SMALL ? inner->in : out;
    }
    inner->fn = in.ct == CT_SMALL ? ew_arith(op, CT_F32) : ew_arith(op, in.ct);
    e->inner = inner;
    e->fn = in.ct == CT_SMALL ? run_small : run_narrow;
    return inner->fn ? e : NULL;
}

/* ---- chains of 16-bit floats ----------------------------------------------------------------------
 */

bool elem_is_half(struct elem e)
{
    return e.ct == CT_SMALL && (e.t == DTYPE_BF16 || e.t == DTYPE_F16);
}

/* The f32 kernel, then rounding where it lies. */
static void run_kept(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    const void *at = out;
    e->inner->fn(e->inner, out, in, n);
    ew_set_best()->kept(OP_CONVERT, e->out.t)(e, out, &at, n);
}

const struct ew *ew_kept(struct arena *a, const struct ew *e)
{
    struct elem f32 = elem_of(DTYPE_F32, EMU_FLOAT);
    bool in = elem_is_half(e->in), out = elem_is_half(e->out);
    enum op_kind op = e->op;
    if ((!in && !out) || op == OP_COPY || op == OP_BITCAST_CONVERT || op == OP_REDUCE_PRECISION ||
        (in && out && op != OP_CONVERT && e->in.t != e->out.t))
        return NULL;
    if (op == OP_SELECT && e->out.t == DTYPE_F16)
        return NULL; /* keeps what a NaN carries */
    if (op == OP_CONVERT && !in && e->in.ct != CT_F32 && !ct_is_int(e->in.ct) && e->in.ct != CT_PRED)
        return NULL; /* f64 is rounded once */
    struct ew *k = ARENA_NEW(a, struct ew), *inner = ARENA_NEW(a, struct ew);
    *k = *e;
    k->inner = NULL;
    if (op == OP_SELECT) {
        k->fn = ew_set_best()->select(4);
        return k;
    }
    ew_fn one = out ? ew_set_best()->kept(op, e->out.t) : NULL;
    if (one && (op != OP_CONVERT || in || e->in.ct == CT_F32)) {
        k->fn = one;
        return k;
    }
    *inner = *e;
    inner->inner = NULL;
    inner->in = in ? f32 : e->in;
    inner->out = out ? f32 : e->out;
    inner->fn = op == OP_CONVERT ? convert_kernel(inner->in, inner->out) : ew_arith(op, CT_F32);
    k->inner = inner;
    k->fn = run_kept;
    return !inner->fn ? NULL : out ? k : inner;
}

static void run_keep(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    small_to_f32(e->in.t, in[0], out, n);
}

static void run_unkeep(const struct ew *e, void *out, const void *const *in, int64_t n)
{
    if (e->out.t == DTYPE_BF16)
        ew_set_best()->cut_bf16(in[0], out, n);
    else
        f32_to_small(e->out.t, in[0], out, n);
}

const struct ew *ew_keep(struct arena *a, struct elem half)
{
    struct ew *e = ARENA_NEW(a, struct ew);
    *e = (struct ew){ .op = OP_CONVERT, .nin = 1, .in = half, .out = elem_of(DTYPE_F32, EMU_FLOAT), .fn = run_keep };
    return e;
}

const struct ew *ew_unkeep(struct arena *a, struct elem half)
{
    struct ew *e = ARENA_NEW(a, struct ew);
    *e = (struct ew){ .op = OP_CONVERT, .nin = 1, .in = elem_of(DTYPE_F32, EMU_FLOAT), .out = half, .fn = run_unkeep };
    return e;
}

int compare_direction(const struct module *m, const struct instr *i)
{
    static const char *const words[] = { "EQ", "NE", "LT", "LE", "GT", "GE" };
    for (int k = 0; k < 6; k++)
        if (instr_is(m, i, ATTR_DIRECTION, words[k]))
            return k | (instr_is(m, i, ATTR_COMPARE_TYPE, "TOTALORDER") ? DIR_TOTAL : 0);
    return -1;
}

const struct ew *ew_of_instr(struct arena *a, const struct module *m, instr_id id,
                             enum emu_mode mode)
{
    const struct instr *i = instr_at(m, id);
    enum op_kind op = (enum op_kind)i->op;
    const struct shape *s = instr_shape(m, id);
    if (i->noperands == 0 || s->kind != SHAPE_ARRAY)
        return NULL;
    const struct shape *first = instr_shape(m, i->operands[op == OP_SELECT && i->noperands == 3]);
    if (first->kind != SHAPE_ARRAY)
        return NULL;
    struct elem in = elem_of(first->dtype, mode), out = elem_of(s->dtype, mode);
    int64_t p = 0, q = 0;
    if (op == OP_COMPARE) {
        p = compare_direction(m, i);
        if (p < 0)
            return NULL;
        if (ct_is_int(in.ct) || in.ct == CT_PRED || in.ct == CT_RING)
            p &= 7;
    } else if (op == OP_REDUCE_PRECISION) {
        p = instr_int(i, ATTR_EXPONENT_BITS, 8);
        q = instr_int(i, ATTR_MANTISSA_BITS, 23);
    }
    return ew_make(a, op, in, out, p, q);
}
