/* Error bounds beside values: the reference of verify's mode `float`.
 *
 * The reference is the unpartitioned module run in its real types, with a bound e beside each
 * element: a program that does the same operations but sums in another order has a value within e
 * of ours. Operations element by element are the same kernels on both sides, so from exact operands
 * (e = 0) comes an exact result. Sums make the first bounds: reordering n terms moves the result by
 * at most 2 (n - 1) u S, u the unit roundoff and S the sum of absolute values. From there bounds go
 * through each operation by how far its operands may move it, and two roundings more. Where a value
 * may be anything (a comparison that may fall either way, a logarithm near zero) its bound is
 * infinite: no claim is made about it. Integers and preds are exact (0) or unknown (infinite).
 */
#include <math.h>
#include <string.h>

#include "emulate/lower.h"

double unit_roundoff(enum dtype t)
{
    enum dtype_kind kind = dtype_kind(t);
    if (kind == DTYPE_KIND_COMPLEX)
        return unit_roundoff(t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64) * 4;
    return kind == DTYPE_KIND_FLOAT ? ldexp(1, -real_digits(t)) : 0;
}

static enum dtype part_of(enum dtype t)
{
    return t == DTYPE_C64 ? DTYPE_F32 : t == DTYPE_C128 ? DTYPE_F64 : t;
}

double real_at(struct elem e, const void *p, int64_t i)
{
    const char *at = (const char *)p + i * e.size;
    enum dtype_kind kind = dtype_kind(e.t);
    if (kind == DTYPE_KIND_COMPLEX) {
        enum dtype part = part_of(e.t);
        return hypot(real_load(part, at), real_load(part, at + dtype_bytes(part)));
    }
    return kind == DTYPE_KIND_FLOAT ? real_load(e.t, at) : (double)read_index(e, p, i);
}

static bool is_real(struct elem e)
{
    enum dtype_kind kind = dtype_kind(e.t);
    return kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
}

static bool is_data(const struct step *s, uint32_t k)
{
    return s->data >> (k < 63 ? k : 63) & 1;
}

/* ---- what moves: the same boxes over the bounds
 * -------------------------------------------------- */

void bound_moved(const struct step *s, double *const *eout, const double *const *ein,
                 const void *const *in, void *const *out)
{
    (void)out;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct step shadow = *s;
    struct leaf *lin = arena_copy(&tmp, s->lin, s->nin, sizeof *lin), lout = s->lout[0];
    const void **from = ARENA_ARRAY(&tmp, const void *, s->nin);
    bool lost = false;
    for (uint32_t k = 0; k < s->nin; k++) {
        bool data = is_data(s, k);
        from[k] = in[k];
        lost |= !data && ein[k];
        if (!data)
            continue;
        lin[k].elem.size = 8;
        lin[k].bytes = lin[k].count * 8;
        from[k] = ein[k] ? (const void *)ein[k] : ARENA_ARRAY(&tmp, double, lin[k].count + 1);
    }
    lout.elem.size = 8;
    lout.bytes = lout.count * 8;
    shadow.lin = lin;
    shadow.lout = &lout;
    void *to[1] = { eout[0] };
    s->fn(&shadow, to, from);
    for (int64_t i = 0; lost && i < lout.count; i++)
        eout[0][i] = HUGE_VAL;
    arena_close(&tmp);
}

/* ---- sums: the same kernel over absolute values and over bounds
 * ----------------------------------- */

/* terms are summed, in any order; small floats are summed in f32 on each device and rounded once
 * for each device that has a part. */
void set_bound_sum(struct lowering *l, uint64_t data, bool bilinear, int64_t terms)
{
    struct step *s = l->step;
    struct elem e = s->lout[0].elem;
    int64_t parts = min_i64(terms, max_i64(l->m->num_partitions, 1));
    s->bound = bound_sum;
    s->bound_raises = is_real(e) && terms > 1;
    s->bilinear = bilinear;
    s->data = data;
    if (terms > 1)
        s->reorder = e.ct == CT_SMALL
                         ? 2 * ((double)(parts + 1) * unit_roundoff(e.t) + (double)terms * 0x1p-24)
                         : 2 * (double)terms * unit_roundoff(e.t);
}

enum part { VALUE, SIZE, BOUND };

/* An operand's sizes, or its bounds, as elements of its own type (rounded up a little). */
static const void *native(struct arena *a, const struct leaf *l, const void *in, const double *e,
                          enum part part)
{
    enum dtype t = part_of(l->elem.t);
    if (part == VALUE || !is_real(l->elem))
        return in;
    char *to = arena_alloc(a, l->count + 1, (size_t)l->elem.size);
    for (int64_t i = 0; i < l->count; i++)
        real_store(t,
                   part == SIZE ? fabs(real_at(l->elem, in, i))
                   : e          ? e[i] * (l->elem.ct == CT_SMALL ? 1.1 : 1)
                                : 0,
                   to + i * l->elem.size);
    return to;
}

/* Adds the kernel's result over the given parts of its operands, times a factor. */
static void add_result(const struct step *s, double *eout, const double *const *ein,
                       const void *const *in, enum part first, enum part second, double factor)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const void **from = ARENA_ARRAY(&tmp, const void *, s->nin);
    void *to[1] = { arena_alloc(&tmp, s->lout[0].count + 1, (size_t)s->lout[0].elem.size) };
    for (uint32_t k = 0; k < s->nin; k++)
        from[k] = is_data(s, k) ? native(&tmp, &s->lin[k], in[k], ein[k],
                                         k == 0 || !s->bilinear ? first : second)
                                : in[k];
    s->fn(s, to, from);
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        double v = real_at(s->lout[0].elem, to[0], i) * factor * 1.01;
        eout[i] = isnan(v) ? HUGE_VAL : eout[i] + v;
    }
    arena_close(&tmp);
}

void bound_sum(const struct step *s, double *const *eout, const double *const *ein,
               const void *const *in, void *const *out)
{
    int64_t n = s->lout[0].count;
    bool inexact = false, lost = false;
    for (uint32_t k = 0; k < s->nin; k++) {
        bool data = is_data(s, k) && is_real(s->lin[k].elem);
        inexact |= data && ein[k];
        lost |= !data && ein[k];
    }
    if (s->reorder > 0)
        add_result(s, eout[0], ein, in, SIZE, SIZE, s->reorder);
    if (inexact && s->bilinear) {
        add_result(s, eout[0], ein, in, SIZE, BOUND, 1);
        add_result(s, eout[0], ein, in, BOUND, SIZE, 1);
        add_result(s, eout[0], ein, in, BOUND, BOUND, 1);
    } else if (inexact) {
        add_result(s, eout[0], ein, in, BOUND, BOUND, 1);
    }
    double top = is_real(s->lout[0].elem) ? real_max(part_of(s->lout[0].elem.t)) : HUGE_VAL;
    for (int64_t i = 0; i < n; i++)
        if (lost || eout[0][i] + fabs(real_at(s->lout[0].elem, out[0], i)) > top)
            eout[0][i] = HUGE_VAL;
}

bool region_sums(const struct region *r)
{
    for (uint32_t k = 0; k < r->nsteps; k++) {
        enum op_kind op = r->steps[k].ew->op;
        bool arithmetic = op != OP_COMPARE && op != OP_SELECT && op != OP_MAXIMUM &&
                          op != OP_MINIMUM && op != OP_CONVERT && op != OP_COPY && op != OP_ABS &&
                          op != OP_NEGATE;
        if (arithmetic && is_real(r->steps[k].ew->out))
            return true;
    }
    return false;
}

/* ---- elementwise
 * --------------------------------------------------------------------------------- */

/* How far f(x') may be from f(x) for x' within e of x. x, e: operands and their bounds. */
typedef double (*rule_fn)(const double *x, const double *e);

static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? HUGE_VAL : a > b ? a : b;
}

/* f rises or falls all along: its ends tell. NaN at an end: out of its domain. */
#define MONOTONE(name, f)                                             \
    static double name(const double *x, const double *e)              \
    {                                                                 \
        double y = f(x[0]), hi = f(x[0] + e[0]), lo = f(x[0] - e[0]); \
        return larger(fabs(hi - y), fabs(lo - y));                    \
    }

static double f_logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double f_rsqrt(double x)
{
    return x > 0 ? 1 / sqrt(x) : (double)NAN;
}

static double f_sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

MONOTONE(r_exp, exp)
MONOTONE(r_expm1, expm1)
MONOTONE(r_log, log)
MONOTONE(r_log1p, log1p)
MONOTONE(r_logistic, f_logistic)
MONOTONE(r_sqrt, sqrt)
MONOTONE(r_rsqrt, f_rsqrt)
MONOTONE(r_tanh, tanh)
MONOTONE(r_sinh, sinh)
MONOTONE(r_asinh, asinh)
MONOTONE(r_acosh, acosh)
MONOTONE(r_atanh, atanh)
MONOTONE(r_asin, asin)
MONOTONE(r_acos, acos)
MONOTONE(r_erf, erf)
MONOTONE(r_cbrt, cbrt)
MONOTONE(r_floor, floor)
MONOTONE(r_ceil, ceil)
MONOTONE(r_afz, round)
MONOTONE(r_even, rint)
MONOTONE(r_sign, f_sign)

static double r_same(const double *x, const double *e)
{
    (void)x;
    return e[0];
}

static double r_wave(const double *x, const double *e)
{
    (void)x;
    return e[0] < 2 ? e[0] : 2;
}

static double r_cosh(const double *x, const double *e)
{
    return e[0] * larger(fabs(sinh(x[0] + e[0])), fabs(sinh(x[0] - e[0])));
}

static double r_tan(const double *x, const double *e)
{
    const double pi = 3.14159265358979323846;
    if (floor((x[0] - e[0]) / pi + 0.5) != floor((x[0] + e[0]) / pi + 0.5))
        return HUGE_VAL;
    return larger(fabs(tan(x[0] + e[0]) - tan(x[0])), fabs(tan(x[0] - e[0]) - tan(x[0])));
}

static double r_add(const double *x, const double *e)
{
    (void)x;
    return e[0] + e[1];
}

static double r_mul(const double *x, const double *e)
{
    return fabs(x[0]) * e[1] + fabs(x[1]) * e[0] + e[0] * e[1];
}

static double r_div(const double *x, const double *e)
{
    double room = fabs(x[1]) - e[1];
    return room > 0 ? (e[0] + fabs(x[0] / x[1]) * e[1]) / room : HUGE_VAL;
}

static double r_max(const double *x, const double *e)
{
    (void)x;
    return larger(e[0], e[1]);
}

static double r_remainder(const double *x, const double *e)
{
    bool same =
        e[1] == 0 && x[1] != 0 && trunc((x[0] - e[0]) / x[1]) == trunc((x[0] + e[0]) / x[1]);
    return same ? e[0] : HUGE_VAL;
}

static double r_power(const double *x, const double *e)
{
    double y = pow(x[0], x[1]), worst = 0;
    if (x[0] - e[0] > 0) {
        for (int k = 0; k < 4; k++)
            worst = larger(
                worst, fabs(pow(x[0] + (k & 1 ? e[0] : -e[0]), x[1] + (k & 2 ? e[1] : -e[1])) - y));
        return worst;
    }
    if (e[1] != 0 || x[1] != rint(x[1]) || x[1] < 0)
        return HUGE_VAL;
    worst = larger(fabs(pow(x[0] + e[0], x[1]) - y), fabs(pow(x[0] - e[0], x[1]) - y));
    return fabs(x[0]) <= e[0] ? larger(worst, fabs(y)) : worst; /* zero lies inside */
}

static double r_atan2(const double *x, const double *e)
{
    double r = hypot(x[0], x[1]), off = e[0] + e[1];
    bool cut = x[1] - e[1] < 0 && fabs(x[0]) <= e[0]; /* the angle jumps from pi to -pi */
    return off >= r || cut ? 6.2831853071795865 : 1.6 * off / r;
}

static double r_finite(const double *x, const double *e)
{
    (void)x;
    return e[0] < HUGE_VAL ? 0 : HUGE_VAL;
}

/* The wording of precision: functions of libm err by a few units, arithmetic by half of one. */
static const struct rule {
    rule_fn fn;
    int roundings;
} rules[OP_COUNT] = {
    [OP_ABS] = { r_same, 0 },
    [OP_NEGATE] = { r_same, 0 },
    [OP_COPY] = { r_same, 0 },
    [OP_REAL] = { r_same, 0 },
    [OP_IMAG] = { r_same, 0 },
    [OP_CEIL] = { r_ceil, 0 },
    [OP_FLOOR] = { r_floor, 0 },
    [OP_ROUND_AFZ] = { r_afz, 0 },
    [OP_ROUND_EVEN] = { r_even, 0 },
    [OP_SIGN] = { r_sign, 0 },
    [OP_REDUCE_PRECISION] = { r_same, 0 },
    [OP_EXP] = { r_exp, 8 },
    [OP_EXPM1] = { r_expm1, 8 },
    [OP_LOG] = { r_log, 8 },
    [OP_LOG1P] = { r_log1p, 8 },
    [OP_LOGISTIC] = { r_logistic, 16 },
    [OP_SQRT] = { r_sqrt, 1 },
    [OP_RSQRT] = { r_rsqrt, 4 },
    [OP_TANH] = { r_tanh, 8 },
    [OP_SINH] = { r_sinh, 8 },
    [OP_COSH] = { r_cosh, 8 },
    [OP_ASINH] = { r_asinh, 8 },
    [OP_ACOSH] = { r_acosh, 8 },
    [OP_ATANH] = { r_atanh, 8 },
    [OP_ASIN] = { r_asin, 8 },
    [OP_ACOS] = { r_acos, 8 },
    [OP_ERF] = { r_erf, 8 },
    [OP_CBRT] = { r_cbrt, 8 },
    [OP_SINE] = { r_wave, 8 },
    [OP_COSINE] = { r_wave, 8 },
    [OP_TAN] = { r_tan, 8 },
    [OP_IS_FINITE] = { r_finite, 0 },
    [OP_ADD] = { r_add, 1 },
    [OP_SUBTRACT] = { r_add, 1 },
    [OP_MULTIPLY] = { r_mul, 1 },
    [OP_DIVIDE] = { r_div, 1 },
    [OP_MAXIMUM] = { r_max, 0 },
    [OP_MINIMUM] = { r_max, 0 },
    [OP_REMAINDER] = { r_remainder, 1 },
    [OP_POWER] = { r_power, 8 },
    [OP_ATAN2] = { r_atan2, 8 },
    [OP_COMPLEX] = { r_add, 0 },
};

/* Complex numbers: x holds absolute values, so only rules that need no more than those. */
static bool fits_complex(enum op_kind op)
{
    return op == OP_ABS || op == OP_NEGATE || op == OP_COPY || op == OP_REAL || op == OP_IMAG ||
           op == OP_ADD || op == OP_SUBTRACT || op == OP_MULTIPLY || op == OP_DIVIDE;
}

/* The result of any rule, with the roundings of both sides; beyond the type's range: unknown. */
static double rounded(enum dtype t, double y, double off, int roundings)
{
    if (isnan(off) || (isnan(y) && off > 0))
        return HUGE_VAL;
    if (isinf(y))
        return off < HUGE_VAL ? 0 : HUGE_VAL;
    off += 2 * roundings *
           (unit_roundoff(t) * (fabs(y) + off) + ldexp(1, t == DTYPE_F16 ? -25 : -149));
    return fabs(y) + off > real_max(part_of(t)) ? HUGE_VAL : off;
}

static double bound_compare(const double *x, const double *e)
{
    double off = e[0] + e[1];
    return off == 0 || fabs(x[0] - x[1]) > off ? 0 : HUGE_VAL;
}

static double bound_convert(const struct ew *w, double x, double e, double y)
{
    if (is_real(w->in) && is_real(w->out)) {
        bool wider = unit_roundoff(w->out.t) <= unit_roundoff(w->in.t);
        return rounded(w->out.t, y, e, wider ? 0 : 1);
    }
    if (is_real(w->in) && dtype_kind(w->in.t) == DTYPE_KIND_FLOAT)
        return trunc(x - e) == trunc(x + e) ? 0 : HUGE_VAL;
    return HUGE_VAL;
}

/* A clean false (true) decides an `and` (`or`) whatever the other side is. */
static bool decided(const struct ew *w, const double *x, const double *e)
{
    if (w->out.ct != CT_PRED || (w->op != OP_AND && w->op != OP_OR))
        return false;
    for (int k = 0; k < 2; k++)
        if (e[k] == 0 && (x[k] != 0) == (w->op == OP_OR))
            return true;
    return false;
}

static double element_bound(const struct ew *w, const double *x, const double *e, double y)
{
    bool complex_in = dtype_kind(w->in.t) == DTYPE_KIND_COMPLEX;
    double off = 0;
    for (int k = 0; k < w->nin; k++)
        off += e[k];
    if (off == 0)
        return 0;
    if (w->op == OP_COMPARE)
        return complex_in || !is_real(w->in) ? HUGE_VAL : bound_compare(x, e);
    if (w->op == OP_CONVERT)
        return bound_convert(w, x[0], e[0], y);
    const struct rule *r = &rules[w->op];
    if (!is_real(w->in) || !r->fn || (complex_in && !fits_complex(w->op)))
        return decided(w, x, e) ? 0 : HUGE_VAL;
    if (!(off < HUGE_VAL) && w->op != OP_SINE && w->op != OP_COSINE)
        return HUGE_VAL;
    off = r->fn(x, e);
    return is_real(w->out) ? rounded(w->out.t, y, off, r->roundings) : off;
}

void bound_ew(const struct step *s, double *const *eout, const double *const *ein,
              const void *const *in, void *const *out)
{
    const struct ew *w = s->p;
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        double x[3] = { 0 }, e[3] = { 0 };
        for (uint32_t k = 0; k < s->nin; k++) {
            int64_t at = s->lin[k].count == 1 ? 0 : i;
            x[k] = real_at(s->lin[k].elem, in[k], at);
            e[k] = ein[k] ? ein[k][at] : 0;
        }
        eout[0][i] = element_bound(w, x, e, real_at(s->lout[0].elem, out[0], i));
    }
}

/* A doubtful predicate leaves the larger of the branches' bounds and what lies between them. */
void bound_select(const struct step *s, double *const *eout, const double *const *ein,
                  const void *const *in, void *const *out)
{
    (void)out;
    struct elem e = s->lout[0].elem;
    bool one = s->lin[0].count == 1, real = dtype_kind(e.t) == DTYPE_KIND_FLOAT;
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        int64_t at = one ? 0 : i;
        double a = ein[1] ? ein[1][i] : 0, b = ein[2] ? ein[2][i] : 0;
        bool doubtful = ein[0] && ein[0][at] != 0;
        if (!doubtful) {
            eout[0][i] = ((const uint8_t *)in[0])[at] ? a : b;
            continue;
        }
        const char *x = (const char *)in[1] + i * e.size, *y = (const char *)in[2] + i * e.size;
        bool same = a == 0 && b == 0 && memcmp(x, y, (size_t)e.size) == 0;
        double gap = real ? fabs(real_at(e, in[1], i) - real_at(e, in[2], i)) : HUGE_VAL;
        eout[0][i] = same ? 0 : isnan(gap) ? HUGE_VAL : gap + larger(a, b);
    }
}

void bound_clamp(const struct step *s, double *const *eout, const double *const *ein,
                 const void *const *in, void *const *out)
{
    (void)in;
    (void)out;
    bool real = is_real(s->lout[0].elem);
    for (int64_t i = 0; i < s->lout[0].count; i++) {
        double worst = 0;
        for (int k = 0; k < 3; k++)
            if (ein[k])
                worst = larger(worst, ein[k][s->lin[k].count == 1 ? 0 : i]);
        eout[0][i] = real || worst == 0 ? worst : HUGE_VAL;
    }
}
