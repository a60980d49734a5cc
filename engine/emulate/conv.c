/* Convolution, all attributes, by plain loops over a canonical form:
 *
 *     input  [batch, spatial.., feature]   kernel [spatial.., in, out]   result [batch, spatial..,
 * out]
 *
 * Operands are packed into that order and into the accumulator's type. Feature groups split input
 * features and kernel outputs; batch groups split the batch and kernel outputs.
 */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <string.h>

#include "emulate/lower.h"

struct conv {
    int ns;                   /* spatial dimensions */
    struct box lhs, rhs, out; /* packing (out: unpacking) */
    struct elem acc;
    const struct ew *lhs_conv, *rhs_conv, *out_conv;
    struct window_dim *w;
    int64_t *in_sp, *ker_sp, *out_sp; /* spatial sizes */
    int64_t batch, out_batch, cin, kin, cout, fgroups, bgroups;
};

/* acc[j] += x[c] * k[c * row + j] for c < nc, j < n: one position of input and kernel. */
typedef void (*axpy_fn)(void *acc, const void *x, const void *k, int64_t nc, int64_t row,
                        int64_t n);
#define AXPY(name, T)                                                                             \
    static void name(void *acc, const void *x, const void *k, int64_t nc, int64_t row, int64_t n) \
    {                                                                                             \
        T *a = acc;                                                                               \
        const T *v = x, *p = k;                                                                   \
        for (int64_t c = 0; c < nc; c++, p += row)                                                \
            for (int64_t j = 0; j < n; j++)                                                       \
                a[j] += v[c] * p[j];                                                              \
    }
AXPY(axpy_f32, float)
AXPY(axpy_f64, double)
AXPY(axpy_u64, uint64_t)
#define AXPY_PAIR(name, T)                                                                        \
    static void name(void *acc, const void *x, const void *k, int64_t nc, int64_t row, int64_t n) \
    {                                                                                             \
        T *a = acc;                                                                               \
        const T *v = x, *p = k;                                                                   \
        for (int64_t c = 0; c < nc; c++, p += 2 * row, v += 2)                                    \
            for (int64_t j = 0; j < n; j++) {                                                     \
                a[2 * j] += v[0] * p[2 * j] - v[1] * p[2 * j + 1];                                \
                a[2 * j + 1] += v[0] * p[2 * j + 1] + v[1] * p[2 * j];                            \
            }                                                                                     \
    }
AXPY_PAIR(pair_f64, double)
AXPY_PAIR(pair_u64, uint64_t)

static void axpy_flag(void *acc, const void *x, const void *k, int64_t nc, int64_t row, int64_t n)
{
    uint8_t *a = acc;
    const uint8_t *v = x, *p = k;
    for (int64_t c = 0; c < nc; c++, p += row)
        for (int64_t j = 0; j < n; j++)
            a[j] |= (uint8_t)(v[c] | p[j]);
}

static axpy_fn axpy_of(enum ctype ct)
{
    switch ((int)ct) {
    case CT_F32: return axpy_f32;
    case CT_F64: return axpy_f64;
    case CT_C128: return pair_f64;
    case CT_RINGC: return pair_u64;
    default: return axpy_u64;
    }
}

/* Adds one output position's contributions. o: its spatial index; in: this batch element's input;
 * out: its features. */
static void conv_point(const struct conv *p, const int64_t *o, const char *in, const char *ker,
                       char *out, int64_t first_out, int64_t nout, int64_t first_in, axpy_fn axpy,
                       int size)
{
    int64_t at[MAX_RANK] = { 0 };
    for (;;) {
        int64_t pos = 0, kpos = 0;
        bool inside = true;
        for (int k = 0; k < p->ns && inside; k++) {
            const struct window_dim *w = &p->w[k];
            int64_t x = o[k] * w->stride + at[k] * w->window_dilation - w->pad_low;
            inside = x >= 0 && x % w->base_dilation == 0 && x / w->base_dilation < p->in_sp[k];
            pos = pos * p->in_sp[k] + x / w->base_dilation;
            kpos = kpos * p->ker_sp[k] + (w->reversal ? p->ker_sp[k] - 1 - at[k] : at[k]);
        }
        if (inside)
            axpy(out + first_out * size, in + (pos * p->cin + first_in) * size,
                 ker + (kpos * p->kin * p->cout + first_out) * size, p->kin, p->cout, nout);
        int k = p->ns - 1;
        for (; k >= 0; k--) {
            if (++at[k] < p->ker_sp[k])
                break;
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

static void conv_loops(const struct conv *p, const char *in, const char *ker, char *out,
                       axpy_fn axpy, int size)
{
    int64_t groups = p->fgroups * p->bgroups, nout = p->cout / groups, in_pos = 1, out_pos = 1;
    for (int k = 0; k < p->ns; k++) {
        in_pos *= p->in_sp[k];
        out_pos *= p->out_sp[k];
    }
    for (int64_t b = 0; b < p->out_batch; b++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t o[MAX_RANK] = { 0 };
            int64_t from = p->bgroups > 1 ? g * p->out_batch + b : b;
            int64_t first_in = p->fgroups > 1 ? g * p->kin : 0;
            for (int64_t pos = 0; pos < out_pos; pos++) {
                conv_point(p, o, in + from * in_pos * p->cin * size, ker,
                           out + (b * out_pos + pos) * p->cout * size, g * nout, nout, first_in,
                           axpy, size);
                for (int k = p->ns - 1; k >= 0; k--) {
                    if (++o[k] < p->out_sp[k])
                        break;
                    o[k] = 0;
                }
            }
        }
}

/* ---- large ones: as matrix products -------------------------------------------------------------
 */

/* Input offset (in positions) that output position o reads at kernel position `at`; -1: padding. */
static int64_t input_position(const struct conv *p, const int64_t *o, const int64_t *at)
{
    int64_t pos = 0;
    for (int k = 0; k < p->ns; k++) {
        const struct window_dim *w = &p->w[k];
        int64_t x = o[k] * w->stride + at[k] * w->window_dilation - w->pad_low;
        if (x < 0 || x % w->base_dilation != 0 || x / w->base_dilation >= p->in_sp[k])
            return -1;
        pos = pos * p->in_sp[k] + x / w->base_dilation;
    }
    return pos;
}

static bool next_position(int n, const int64_t *dims, int64_t *index)
{
    for (int k = n - 1; k >= 0; k--) {
        if (++index[k] < dims[k])
            return true;
        index[k] = 0;
    }
    return false;
}

/* One row: what one output position reads, kernel position by kernel position, padding as zeros. */
static void patch_row(const struct conv *p, const int64_t *o, const char *in, int64_t first_in,
                      char *row, int size)
{
    int64_t at[MAX_RANK] = { 0 };
    do {
        int64_t pos = input_position(p, o, at);
        if (pos < 0)
            memset(row, 0, (size_t)(p->kin * size));
        else
            memcpy(row, in + (pos * p->cin + first_in) * size, (size_t)(p->kin * size));
        row += p->kin * size;
    } while (next_position(p->ns, p->ker_sp, at));
}

/* The kernel of one group, in the order of a row, reversed dimensions turned round. */
static char *group_kernel(const struct conv *p, const char *ker, int64_t first_out, int64_t nout,
                          int size, struct arena *tmp)
{
    int64_t at[MAX_RANK] = { 0 }, n = p->kin;
    for (int k = 0; k < p->ns; k++)
        n *= p->ker_sp[k];
    char *all = arena_alloc(tmp, n * nout + 1, (size_t)size), *to = all;
    do {
        int64_t kpos = 0;
        for (int k = 0; k < p->ns; k++)
            kpos = kpos * p->ker_sp[k] + (p->w[k].reversal ? p->ker_sp[k] - 1 - at[k] : at[k]);
        for (int64_t c = 0; c < p->kin; c++, to += nout * size)
            memcpy(to, ker + ((kpos * p->kin + c) * p->cout + first_out) * size,
                   (size_t)(nout * size));
    } while (next_position(p->ns, p->ker_sp, at));
    return all;
}

static int64_t product_of(int n, const int64_t *v)
{
    int64_t r = 1;
    for (int k = 0; k < n; k++)
        r *= v[k];
    return r;
}

static void conv_products(const struct conv *p, const char *in, const char *ker, char *out,
                          int size)
{
    int64_t groups = p->fgroups * p->bgroups, nout = p->cout / groups,
            in_pos = product_of(p->ns, p->in_sp);
    int64_t out_pos = product_of(p->ns, p->out_sp), len = product_of(p->ns, p->ker_sp) * p->kin;
    int64_t rows = max_i64(1, min_i64(out_pos, ((int64_t)1 << 20) / (len * size + 1)));
    for (int64_t g = 0; g < groups; g++) {
        struct arena tmp = { 0 };
        arena_open(&tmp);
        char *kernel = group_kernel(p, ker, g * nout, nout, size, &tmp);
        char *patches = arena_alloc(&tmp, rows * len + 1, (size_t)size);
        char *sums = arena_alloc(&tmp, rows * nout + 1, (size_t)size);
        for (int64_t b = 0; b < p->out_batch; b++) {
            int64_t o[MAX_RANK] = { 0 }, from = p->bgroups > 1 ? g * p->out_batch + b : b;
            for (int64_t first = 0; first < out_pos; first += rows) {
                int64_t n = min_i64(rows, out_pos - first);
                for (int64_t r = 0; r < n; r++) {
                    patch_row(p, o, in + from * in_pos * p->cin * size,
                              p->fgroups > 1 ? g * p->kin : 0, patches + r * len * size, size);
                    (void)next_position(p->ns, p->out_sp, o);
                }
                matmul(p->acc.ct, patches, false, kernel, false, sums, n, nout, len);
                for (int64_t r = 0; r < n; r++)
                    memcpy(out + ((b * out_pos + first + r) * p->cout + g * nout) * size,
                           sums + r * nout * size, (size_t)(nout * size));
            }
        }
        arena_close(&tmp);
    }
}

/* Few terms or outputs: not worth the copies. */
static bool pays(const struct conv *p)
{
    int64_t nout = p->cout / (p->fgroups * p->bgroups), len = product_of(p->ns, p->ker_sp) * p->kin;
    double work =
        (double)p->out_batch * (double)product_of(p->ns, p->out_sp) * (double)len * (double)p->cout;
    return nout >= 4 && len >= 8 && work > 1e5;
}

static const char *packed(const struct box *b, const struct ew *conv, const struct leaf *l,
                          struct elem acc, const void *in, struct arena *tmp)
{
    char *to = arena_alloc(tmp, l->count + 1, (size_t)l->elem.size);
    box_copy(b, to, in, l->elem.size);
    if (!conv)
        return to;
    char *wide = arena_alloc(tmp, l->count + 1, (size_t)acc.size);
    convert_elements(conv, to, wide, l->count);
    return wide;
}

static void run_conv(const struct step *s, void *const *out, const void *const *in)
{
    const struct conv *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const char *lhs = packed(&p->lhs, p->lhs_conv, &s->lin[0], p->acc, in[0], &tmp);
    const char *rhs = packed(&p->rhs, p->rhs_conv, &s->lin[1], p->acc, in[1], &tmp);
    char *acc = arena_alloc(&tmp, s->lout[0].count + 1, (size_t)p->acc.size);
    if (s->lin[0].count == 0 || s->lin[1].count == 0)
        ; /* no terms: zeros */
    else if (pays(p))
        conv_products(p, lhs, rhs, acc, p->acc.size);
    else
        conv_loops(p, lhs, rhs, acc, axpy_of(p->acc.ct), p->acc.size);
    if (p->out_conv) {
        char *narrow = arena_alloc(&tmp, s->lout[0].count + 1, (size_t)s->lout[0].elem.size);
        convert_elements(p->out_conv, acc, narrow, s->lout[0].count);
        acc = narrow;
    }
    box_copy(&p->out, out[0], acc, s->lout[0].elem.size);
    arena_close(&tmp);
}

static void poison_conv(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                        const void *const *in)
{
    (void)in;
    const struct conv *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    char *side[2], *acc = arena_alloc(&tmp, s->lout[0].count + 1, 1);
    for (int k = 0; k < 2; k++) {
        side[k] = arena_alloc(&tmp, s->lin[k].count + 1, 1);
        if (pin[k])
            box_copy(k ? &p->rhs : &p->lhs, side[k], pin[k], 1);
    }
    if (s->lin[0].count && s->lin[1].count)
        conv_loops(p, side[0], side[1], acc, axpy_flag, 1);
    box_copy(&p->out, pout[0], acc, 1);
    arena_close(&tmp);
}

/* Packs dimensions in the given order; unpack: the other way round. */
static struct box pack_box(struct lowering *l, const struct shape *s, const int *order, bool unpack)
{
    struct box b = box_new(l->a, s->rank);
    int64_t *strides = ARENA_ARRAY(l->a, int64_t, s->rank + 1);
    row_strides(s->rank, s->dims, strides);
    for (int k = 0; k < s->rank; k++)
        b.dims[k] = s->dims[order[k]];
    row_strides(s->rank, b.dims, unpack ? b.src : b.dst);
    for (int k = 0; k < s->rank; k++)
        (unpack ? b.dst : b.src)[k] = strides[order[k]];
    box_compact(&b);
    return b;
}

static void set_order(int *order, int first, const int *spatial, int ns, int last1, int last2)
{
    int n = 0;
    if (first >= 0)
        order[n++] = first;
    for (int k = 0; k < ns; k++)
        order[n++] = spatial[k];
    order[n++] = last1;
    if (last2 >= 0)
        order[n] = last2;
}

bool lower_convolution(struct lowering *l)
{
    struct step *s = l->step;
    const struct attr *labels = instr_attr(l->i, ATTR_DIM_LABELS);
    if (!labels)
        return lower_missing(l, "a convolution without dim_labels");
    const struct conv_dims *d = labels->conv;
    const struct shape *lhs = operand_shape(l, 0), *rhs = operand_shape(l, 1);
    const struct window *w = window_of(l, d->nspatial);
    struct conv *p = ARENA_NEW(l->a, struct conv);
    int order[16];
    p->ns = d->nspatial;
    set_order(order, d->lhs_batch, d->lhs_spatial, p->ns, d->lhs_feature, -1);
    p->lhs = pack_box(l, lhs, order, false);
    set_order(order, -1, d->rhs_spatial, p->ns, d->rhs_in, d->rhs_out);
    p->rhs = pack_box(l, rhs, order, false);
    set_order(order, d->out_batch, d->out_spatial, p->ns, d->out_feature, -1);
    p->out = pack_box(l, l->shape, order, true);
    p->in_sp = ARENA_ARRAY(l->a, int64_t, p->ns + 1);
    p->ker_sp = ARENA_ARRAY(l->a, int64_t, p->ns + 1);
    p->out_sp = ARENA_ARRAY(l->a, int64_t, p->ns + 1);
    p->w = arena_copy(l->a, w->dims, p->ns, sizeof *p->w);
    for (int k = 0; k < p->ns; k++) {
        p->in_sp[k] = lhs->dims[d->lhs_spatial[k]];
        p->ker_sp[k] = rhs->dims[d->rhs_spatial[k]];
        p->out_sp[k] = l->shape->dims[d->out_spatial[k]];
    }
    p->batch = lhs->dims[d->lhs_batch];
    p->cin = lhs->dims[d->lhs_feature];
    p->kin = rhs->dims[d->rhs_in];
    p->cout = rhs->dims[d->rhs_out];
    p->out_batch = l->shape->dims[d->out_batch];
    p->fgroups = instr_int(l->i, ATTR_FEATURE_GROUP_COUNT, 1);
    p->bgroups = instr_int(l->i, ATTR_BATCH_GROUP_COUNT, 1);
    p->acc = accumulator_of(s->lout[0].elem);
    if (s->lin[0].elem.ct != p->acc.ct)
        p->lhs_conv = ew_make(l->a, OP_CONVERT, s->lin[0].elem, p->acc, 0, 0);
    if (s->lin[1].elem.ct != p->acc.ct)
        p->rhs_conv = ew_make(l->a, OP_CONVERT, s->lin[1].elem, p->acc, 0, 0);
    if (s->lout[0].elem.ct != p->acc.ct)
        p->out_conv = ew_make(l->a, OP_CONVERT, p->acc, s->lout[0].elem, 0, 0);
    s->fn = run_conv;
    s->poison = poison_conv;
    int64_t terms = p->kin;
    for (int k = 0; k < p->ns; k++)
        terms *= p->ker_sp[k];
    set_bound_sum(l, 3, true, terms);
    s->p = p;
    return true;
}
