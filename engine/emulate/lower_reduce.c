/* Lowering of reductions: reduce, reduce-window, select-and-scatter, map. */
#include "emulate/lower.h"

#include <string.h>

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* One row of a fold: directly, or lane by lane through the region in strips. */
void fold_row(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct folding *f = context;
    if (f->fold) {
        f->fold(f->acc[0] + d * f->size[0], ds, f->x[0] + s * f->size[0], ss, n);
        return;
    }
    char lanes[MAX_VARIADIC][32];
    /* Where all lanes land on one accumulator they must go one after the other. */
    int64_t step = ds == 0 ? 1 : STRIP;
    for (int64_t at = 0; at < n; at += step) {
        int64_t m = min_i64(step, n - at);
        const void *in[2 * MAX_VARIADIC];
        void *out[MAX_VARIADIC];
        for (int k = 0; k < f->n; k++) {
            int size = f->size[k];
            char *acc = f->acc[k] + (d + at * ds) * size;
            const char *x = f->x[k] + (s + at * ss) * size;
            char *to = f->scratch.slots[f->region->params[k]];
            char *from = f->scratch.slots[f->region->params[f->n + k]];
            for (int64_t i = 0; i < m; i++) {
                memcpy(to + i * size, acc + i * ds * size, (size_t)size);
                memcpy(from + i * size, x + i * ss * size, (size_t)size);
            }
            in[k] = in[f->n + k] = NULL;
            out[k] = m == 1 ? lanes[k] : f->scratch.slots[f->region->nslots + (uint32_t)k];
        }
        region_eval(f->region, &f->scratch, in, out, m);
        for (int k = 0; k < f->n; k++)
            for (int64_t i = 0; i < m; i++)
                memcpy(f->acc[k] + (d + (at + i) * ds) * f->size[k],
                       (char *)out[k] + i * f->size[k], (size_t)f->size[k]);
    }
}

/* ---- reduce ------------------------------------------------------------------------------------
 */

struct reduce {
    struct box
        box;    /* dst: output (0 along reduced dimensions), src: input; row-major over the input */
    uint32_t n; /* operands; as many initial values */
    fold_fn fold;
    rows_fn rows; /* for a box of rows that are each summed; NULL: none, or another box */
    const struct ew *widen, *narrow; /* small floats are summed in f32 */
    const struct region *region;
    int nkept, nreduced;
    const int64_t *kept, *kept_strides, *reduced, *reduced_strides;
    int64_t reduced_count;
};

static void init_accumulators(const struct step *s, const struct reduce *p, void *const *out,
                              const void *const *in)
{
    for (uint32_t k = 0; k < p->n; k++)
        fill_elements(out[k], in[p->n + k], s->lout[k].elem.size, s->lout[k].count);
}

static void fold_box(const struct reduce *p, struct folding *f)
{
    if (!p->rows) {
        box_rows(&p->box, fold_row, f);
        return;
    }
    int64_t rows = p->box.dims[0], n = p->box.dims[1], stride = p->box.src[0], at = 0, size = f->size[0];
    for (; at + FOLD_AT_ONCE <= rows; at += FOLD_AT_ONCE)
        p->rows(f->acc[0] + at * size, f->x[0] + at * stride * size, stride, n);
    for (; at < rows; at++)
        fold_row(f, at, 0, at * stride, 1, n);
}

static void run_reduce_fold(const struct step *s, void *const *out, const void *const *in)
{
    const struct reduce *p = s->p;
    struct folding f = { .fold = p->fold, .n = 1 };
    if (!p->widen) {
        init_accumulators(s, p, out, in);
        f.acc[0] = out[0];
        f.x[0] = in[0];
        f.size[0] = s->lout[0].elem.size;
        fold_box(p, &f);
        return;
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    float *x = ARENA_ARRAY(&tmp, float, s->lin[0].count + 1), first;
    float *acc = ARENA_ARRAY(&tmp, float, s->lout[0].count + 1);
    convert_elements(p->widen, in[0], x, s->lin[0].count);
    convert_elements(p->widen, in[1], &first, 1);
    fill_elements(acc, &first, 4, s->lout[0].count);
    f.acc[0] = (char *)acc;
    f.x[0] = (const char *)x;
    f.size[0] = 4;
    fold_box(p, &f);
    convert_elements(p->narrow, acc, out[0], s->lout[0].count);
    arena_close(&tmp);
}

/* Offsets of n positions from the start-th on, row-major over dims, by strides. */
static void offsets_of(int rank, const int64_t *dims, const int64_t *strides, int64_t start,
                       int64_t n, int64_t *out)
{
    int64_t index[MAX_RANK], at = 0, rest = start;
    for (int k = rank - 1; k >= 0; k--) {
        index[k] = rest % dims[k];
        rest /= dims[k];
        at += index[k] * strides[k];
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = at;
        for (int k = rank - 1; k >= 0; k--) {
            at += strides[k];
            if (++index[k] < dims[k])
                break;
            at -= strides[k] * dims[k];
            index[k] = 0;
        }
    }
}

static void gather_lanes(char *to, const char *from, const int64_t *offset, int64_t base, int64_t n,
                         int size)
{
    if (size == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * 4, from + (offset[i] + base) * 4, 4);
    else if (size == 8)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * 8, from + (offset[i] + base) * 8, 8);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + (offset[i] + base) * size, (size_t)size);
}

/* Any reducer: the lanes of a strip are outputs; the reduced positions come one after the other. */
static void run_reduce_region(const struct step *s, void *const *out, const void *const *in)
{
    const struct reduce *p = s->p;
    init_accumulators(s, p, out, in);
    if (s->lout[0].count == 0 || p->reduced_count == 0)
        return;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct region_scratch scratch;
    region_scratch(p->region, &tmp, &scratch);
    int64_t *reduced = ARENA_ARRAY(&tmp, int64_t, p->reduced_count), kept[STRIP];
    offsets_of(p->nreduced, p->reduced, p->reduced_strides, 0, p->reduced_count, reduced);
    for (int64_t at = 0; at < s->lout[0].count; at += STRIP) {
        int64_t n = min_i64(STRIP, s->lout[0].count - at);
        offsets_of(p->nkept, p->kept, p->kept_strides, at, n, kept);
        for (int64_t r = 0; r < p->reduced_count; r++) {
            const void *args[2 * MAX_VARIADIC];
            void *res[MAX_VARIADIC];
            for (uint32_t k = 0; k < p->n; k++) {
                int size = s->lout[k].elem.size;
                gather_lanes(scratch.slots[p->region->params[p->n + k]], in[k], kept, reduced[r], n,
                             size);
                args[k] = res[k] = (char *)out[k] + at * size;
                args[p->n + k] = NULL;
            }
            region_eval(p->region, &scratch, args, res, n);
        }
    }
    arena_close(&tmp);
}

static void poison_reduce(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    (void)in;
    const struct reduce *p = s->p;
    struct folding f = { .fold = fold_kernel(OP_OR, CT_U8), .n = 1, .size = { 1 } };
    for (uint32_t k = 0; k < p->n; k++) {
        if (pin[p->n + k] && pin[p->n + k][0])
            memset(pout[0], 1, (size_t)s->lout[0].count);
        if (!pin[k])
            continue;
        f.acc[0] = (char *)pout[0];
        f.x[0] = (const char *)pin[k];
        box_rows(&p->box, fold_row, &f);
    }
    for (uint32_t k = 1; k < s->nout; k++)
        memcpy(pout[k], pout[0], (size_t)s->lout[0].count);
}

/* The extreme of values that may each be off: off by no more than the worst of them. */
static void bound_extreme(const struct step *s, double *const *eout, const double *const *ein,
                          const void *const *in, void *const *out)
{
    (void)in;
    (void)out;
    const struct reduce *p = s->p;
    struct folding f = { .fold = fold_kernel(OP_MAXIMUM, CT_F64), .n = 1, .size = { 8 } };
    f.acc[0] = (char *)eout[0];
    f.x[0] = (const char *)ein[0];
    if (ein[1])
        fill_elements(eout[0], ein[1], 8, s->lout[0].count);
    if (ein[0])
        box_rows(&p->box, fold_row, &f);
}

static void reduce_box(struct lowering *l, struct reduce *p, const struct shape *in,
                       const int64_t *dims, int n)
{
    int64_t *kept = ARENA_ARRAY(l->a, int64_t, 4 * (in->rank + 1)), *ks = kept + in->rank + 1;
    int64_t *red = ks + in->rank + 1, *rs = red + in->rank + 1;
    p->box = box_new(l->a, in->rank);
    row_strides(in->rank, in->dims, p->box.src);
    p->reduced_count = 1;
    for (int k = 0; k < in->rank; k++) {
        bool reduced = false;
        for (int j = 0; j < n; j++)
            reduced |= dims[j] == k;
        p->box.dims[k] = in->dims[k];
        if (reduced) {
            red[p->nreduced] = in->dims[k];
            rs[p->nreduced++] = p->box.src[k];
            p->reduced_count *= in->dims[k];
        } else {
            kept[p->nkept] = in->dims[k];
            ks[p->nkept++] = p->box.src[k];
        }
    }
    p->kept = kept;
    p->kept_strides = ks;
    p->reduced = red;
    p->reduced_strides = rs;
    int64_t stride = 1;
    for (int k = in->rank - 1; k >= 0; k--) {
        bool reduced = false;
        for (int j = 0; j < n; j++)
            reduced |= dims[j] == k;
        p->box.dst[k] = reduced ? 0 : stride;
        stride *= reduced ? 1 : in->dims[k];
    }
    box_compact(&p->box);
}

/* A direct fold for one operand: the type's own, or through f32. */
static fold_fn direct_fold(struct lowering *l, const struct region *r, struct elem e,
                           const struct ew **widen, const struct ew **narrow)
{
    *widen = *narrow = NULL;
    if (!r->simple || r->slots[r->roots[0]].t != e.t)
        return NULL;
    if (e.ct != CT_SMALL)
        return fold_kernel(r->simple, e.ct);
    struct elem f32 = elem_of(DTYPE_F32, EMU_FLOAT);
    *widen = ew_make(l->a, OP_CONVERT, e, f32, 0, 0);
    *narrow = ew_make(l->a, OP_CONVERT, f32, e, 0, 0);
    return fold_kernel(r->simple, CT_F32);
}

bool lower_reduce(struct lowering *l)
{
    struct step *s = l->step;
    comp_id c;
    int n;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    if (s->nin % 2 || s->nin / 2 > MAX_VARIADIC || s->nout != s->nin / 2 ||
        instr_called(l->m, l->id, &c, 1) != 1)
        return lower_missing(l, "this form");
    struct reduce *p = ARENA_NEW(l->a, struct reduce);
    p->n = s->nin / 2;
    p->region = region_make(l->a, l->m, c, l->plan->mode, l->d);
    if (!p->region)
        return false;
    reduce_box(l, p, operand_shape(l, 0), dims, n);
    if (p->n == 1)
        p->fold = direct_fold(l, p->region, s->lout[0].elem, &p->widen, &p->narrow);
    const struct box *b = &p->box;
    if (p->fold && b->rank == 2 && !b->empty && b->dst[0] == 1 && b->dst[1] == 0 && b->src[1] == 1)
        p->rows = fold_rows_kernel(p->region->simple, p->widen ? CT_F32 : s->lout[0].elem.ct);
    s->fn = p->fold ? run_reduce_fold : run_reduce_region;
    s->poison = poison_reduce;
    if (p->n == 1 && p->region->simple == OP_ADD)
        set_bound_sum(l, 3, false, p->reduced_count + 1);
    else if (p->n == 1 && (p->region->simple == OP_MAXIMUM || p->region->simple == OP_MINIMUM))
        s->bound = bound_extreme;
    else
        s->bound_raises = region_sums(p->region);
    s->p = p;
    return true;
}

/* ---- windows ------------------------------------------------------------------------------------
 */

const struct window *window_of(struct lowering *l, int rank)
{
    const struct attr *a = instr_attr(l->i, ATTR_WINDOW);
    if (a && a->window->rank == rank)
        return a->window;
    struct window_dim *dims = ARENA_ARRAY(l->a, struct window_dim, rank + 1);
    for (int k = 0; k < rank; k++)
        dims[k] =
            (struct window_dim){ .size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1 };
    struct window *w = ARENA_NEW(l->a, struct window);
    w->rank = rank;
    w->dims = dims;
    return w;
}

/* Output o at window position w reads (o * stride + w * wd - low) / base dilation, where that is a
 * whole number inside the input: an arithmetic progression in o. */
struct meet window_meet(const struct window_dim *w, int64_t at, int64_t in_size, int64_t out_size)
{
    struct meet r = { 0, 1, 0, 0, 1 };
    int64_t bd = w->base_dilation, st = w->stride;
    int64_t shift = (w->reversal ? w->size - 1 - at : at) * w->window_dilation - w->pad_low;
    int64_t limit = (in_size - 1) * bd; /* largest dilated position that is real */
    if (in_size <= 0)
        return r;
    r.step = bd / gcd(st, bd);
    r.in_step = r.step * st / bd;
    int64_t o = shift >= 0 ? 0 : ceil_div(-shift, st);
    for (int64_t tries = 0; tries < bd && o < out_size; tries++, o++)
        if ((o * st + shift) % bd == 0)
            break;
    if (o >= out_size || (o * st + shift) % bd != 0 || o * st + shift > limit)
        return r;
    int64_t last = min_i64(out_size - 1, (limit - shift) / st);
    r.first = o;
    r.count = (last - o) / r.step + 1;
    r.first_in = (o * st + shift) / bd;
    return r;
}

struct window_step {
    int rank;
    struct window_dim *w;
    const int64_t *in_dims, *out_dims;
    int64_t *in_strides, *out_strides;
    uint32_t n;
    fold_fn fold;
    const struct ew *widen, *narrow;
    const struct region *region, *select;
};

static void window_walk(const struct window_step *p, struct folding *f)
{
    int64_t dims[MAX_RANK], dst[MAX_RANK], src[MAX_RANK], at[MAX_RANK] = { 0 };
    for (;;) {
        struct box b = { .rank = p->rank, .dims = dims, .dst = dst, .src = src };
        for (int k = 0; k < p->rank; k++) {
            struct meet m = window_meet(&p->w[k], at[k], p->in_dims[k], p->out_dims[k]);
            dims[k] = m.count;
            dst[k] = m.step * p->out_strides[k];
            src[k] = m.in_step * p->in_strides[k];
            b.dst0 += m.first * p->out_strides[k];
            b.src0 += m.first_in * p->in_strides[k];
        }
        box_compact(&b);
        box_rows(&b, fold_row, f);
        int k = p->rank - 1;
        for (; k >= 0; k--) {
            if (++at[k] < p->w[k].size)
                break;
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

static void folding_region(struct folding *f, const struct region *r, struct arena *tmp)
{
    f->region = r;
    region_scratch(r, tmp, &f->scratch);
    /* Result strips behind the region's own slots. */
    char **more = ARENA_ARRAY(tmp, char *, r->nslots + MAX_VARIADIC + 1);
    memcpy(more, f->scratch.slots, r->nslots * sizeof(char *));
    for (int k = 0; k < r->nroots && k < MAX_VARIADIC; k++)
        more[r->nslots + (uint32_t)k] = arena_alloc(tmp, STRIP, 32);
    f->scratch.slots = more;
}

static void run_reduce_window(const struct step *s, void *const *out, const void *const *in)
{
    const struct window_step *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct folding f = { .fold = p->fold, .n = (int)p->n };
    for (uint32_t k = 0; k < p->n; k++) {
        f.size[k] = p->widen ? 4 : s->lout[k].elem.size;
        f.acc[k] = p->widen ? arena_alloc(&tmp, s->lout[k].count + 1, 4) : out[k];
        f.x[k] = in[k];
        char first[32];
        if (p->widen) {
            char *x = arena_alloc(&tmp, s->lin[k].count + 1, 4);
            convert_elements(p->widen, in[k], x, s->lin[k].count);
            convert_elements(p->widen, in[p->n + k], first, 1);
            f.x[k] = x;
        } else {
            memcpy(first, in[p->n + k], (size_t)f.size[k]);
        }
        fill_elements(f.acc[k], first, f.size[k], s->lout[k].count);
    }
    if (!f.fold)
        folding_region(&f, p->region, &tmp);
    window_walk(p, &f);
    if (p->widen)
        convert_elements(p->narrow, f.acc[0], out[0], s->lout[0].count);
    arena_close(&tmp);
}

static void poison_window(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    (void)in;
    const struct window_step *p = s->p;
    struct folding f = { .fold = fold_kernel(OP_OR, CT_U8), .n = 1, .size = { 1 } };
    for (uint32_t k = 0; k < p->n; k++) {
        if (pin[p->n + k] && pin[p->n + k][0])
            memset(pout[0], 1, (size_t)s->lout[0].count);
        if (!pin[k])
            continue;
        f.acc[0] = (char *)pout[0];
        f.x[0] = (const char *)pin[k];
        window_walk(p, &f);
    }
    for (uint32_t k = 1; k < s->nout; k++)
        memcpy(pout[k], pout[0], (size_t)s->lout[0].count);
}

static void bound_window_extreme(const struct step *s, double *const *eout,
                                 const double *const *ein, const void *const *in, void *const *out)
{
    (void)in;
    (void)out;
    struct folding f = { .fold = fold_kernel(OP_MAXIMUM, CT_F64), .n = 1, .size = { 8 } };
    f.acc[0] = (char *)eout[0];
    f.x[0] = (const char *)ein[0];
    if (ein[1])
        fill_elements(eout[0], ein[1], 8, s->lout[0].count);
    if (ein[0])
        window_walk(s->p, &f);
}

/* base: the array that windows slide over; out: one element a window. */
static struct window_step *window_new(struct lowering *l, const struct shape *base,
                                      const struct shape *out)
{
    struct window_step *p = ARENA_NEW(l->a, struct window_step);
    const struct window *w = window_of(l, base->rank);
    p->rank = base->rank;
    p->w = ARENA_ARRAY(l->a, struct window_dim, base->rank + 1);
    for (int k = 0; k < base->rank; k++) {
        p->w[k] = w->dims[k];
        p->w[k].reversal = false; /* the order inside a window is that of memory */
    }
    p->in_dims = base->dims;
    p->out_dims = out->dims;
    p->in_strides = ARENA_ARRAY(l->a, int64_t, base->rank + 1);
    p->out_strides = ARENA_ARRAY(l->a, int64_t, base->rank + 1);
    row_strides(base->rank, base->dims, p->in_strides);
    row_strides(base->rank, out->dims, p->out_strides);
    return p;
}

bool lower_reduce_window(struct lowering *l)
{
    struct step *s = l->step;
    comp_id c;
    if (s->nin % 2 || s->nin / 2 > MAX_VARIADIC || instr_called(l->m, l->id, &c, 1) != 1)
        return lower_missing(l, "this form");
    const struct shape *out = shape_get(l->m->ir, shape_leaf(l->m->ir, l->i->shape, 0));
    struct window_step *p = window_new(l, operand_shape(l, 0), out);
    p->n = s->nin / 2;
    p->region = region_make(l->a, l->m, c, l->plan->mode, l->d);
    if (!p->region)
        return false;
    if (p->n == 1)
        p->fold = direct_fold(l, p->region, s->lout[0].elem, &p->widen, &p->narrow);
    s->fn = run_reduce_window;
    s->poison = poison_window;
    int64_t terms = 1;
    for (int k = 0; k < p->rank; k++)
        terms *= p->w[k].size;
    if (p->n == 1 && p->region->simple == OP_ADD)
        set_bound_sum(l, 3, false, terms + 1);
    else if (p->n == 1 && (p->region->simple == OP_MAXIMUM || p->region->simple == OP_MINIMUM))
        s->bound = bound_window_extreme;
    else
        s->bound_raises = region_sums(p->region);
    s->p = p;
    return true;
}

/* ---- select-and-scatter -------------------------------------------------------------------------
 */

struct scan {
    const struct region *select, *scatter;
    struct region_scratch sel, scat;
    int size;
};

static bool keeps(const struct scan *c, const char *a, const char *b)
{
    uint8_t yes;
    const void *in[2] = { a, b };
    void *out[1] = { &yes };
    region_eval(c->select, &c->sel, in, out, 1);
    return yes;
}

/* Offset of the element that a window selects; -1: the window lies in the padding. */
static int64_t selected(const struct window_step *p, const struct scan *c, const int64_t *o,
                        const char *base)
{
    int64_t at[MAX_RANK] = { 0 }, best = -1;
    for (;;) {
        int64_t off = 0;
        bool inside = true;
        for (int k = 0; k < p->rank; k++) {
            int64_t x = o[k] * p->w[k].stride + at[k] * p->w[k].window_dilation - p->w[k].pad_low;
            inside &= x >= 0 && x < p->in_dims[k];
            off += x * p->in_strides[k];
        }
        if (inside && (best < 0 || !keeps(c, base + best * c->size, base + off * c->size)))
            best = off;
        int k = p->rank - 1;
        for (; k >= 0; k--) {
            if (++at[k] < p->w[k].size)
                break;
            at[k] = 0;
        }
        if (k < 0)
            return best;
    }
}

static bool next_index(int rank, const int64_t *dims, int64_t *index)
{
    for (int k = rank - 1; k >= 0; k--) {
        if (++index[k] < dims[k])
            return true;
        index[k] = 0;
    }
    return false;
}

/* pout NULL: values; else their poison. */
static void scatter_walk(const struct step *s, void *const *out, const void *const *in,
                         uint8_t *const *pout, const uint8_t *const *pin)
{
    const struct window_step *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct scan c = { .select = p->select, .scatter = p->region, .size = s->lin[0].elem.size };
    region_scratch(p->select, &tmp, &c.sel);
    region_scratch(p->region, &tmp, &c.scat);
    int64_t o[MAX_RANK] = { 0 }, nth = 0;
    if (s->lin[1].count > 0)
        do {
            int64_t at = selected(p, &c, o, in[0]);
            if (at >= 0 && out) {
                char *to = (char *)out[0] + at * c.size;
                const void *ops[2] = { to, (const char *)in[1] + nth * c.size };
                void *res[1] = { to };
                region_eval(c.scatter, &c.scat, ops, res, 1);
            } else if (at >= 0 && pin[1]) {
                pout[0][at] |= pin[1][nth];
            }
            nth++;
        } while (next_index(p->rank, p->out_dims, o));
    arena_close(&tmp);
}

static void run_select_and_scatter(const struct step *s, void *const *out, const void *const *in)
{
    fill_elements(out[0], in[2], s->lout[0].elem.size, s->lout[0].count);
    scatter_walk(s, out, in, NULL, NULL);
}

/* A poisoned operand inside a window that was chosen from makes the whole window doubtful. */
static void poison_select_and_scatter(const struct step *s, uint8_t *const *pout,
                                      const uint8_t *const *pin, const void *const *in)
{
    const struct window_step *p = s->p;
    if (pin[2] && pin[2][0])
        memset(pout[0], 1, (size_t)s->lout[0].count);
    scatter_walk(s, NULL, in, pout, pin);
    if (!pin[0])
        return;
    int64_t o[MAX_RANK] = { 0 };
    if (s->lin[1].count > 0)
        do {
            bool bad = false;
            for (int pass = 0; pass < 2; pass++) {
                int64_t at[MAX_RANK] = { 0 };
                bool more = true;
                while (more) {
                    int64_t off = 0;
                    bool inside = true;
                    for (int k = 0; k < p->rank; k++) {
                        int64_t x = o[k] * p->w[k].stride + at[k] - p->w[k].pad_low;
                        inside &= x >= 0 && x < p->in_dims[k];
                        off += x * p->in_strides[k];
                    }
                    if (inside && pass == 0)
                        bad |= pin[0][off];
                    else if (inside && bad)
                        pout[0][off] = 1;
                    int k = p->rank - 1;
                    for (; k >= 0; k--) {
                        if (++at[k] < p->w[k].size)
                            break;
                        at[k] = 0;
                    }
                    more = k >= 0;
                }
            }
        } while (next_index(p->rank, p->out_dims, o));
}

bool lower_select_and_scatter(struct lowering *l)
{
    const struct attr *sel = instr_attr(l->i, ATTR_SELECT), *scat = instr_attr(l->i, ATTR_SCATTER);
    if (!sel || !scat)
        return lower_missing(l, "this form");
    struct window_step *p = window_new(l, operand_shape(l, 0), operand_shape(l, 1));
    p->select = region_make(l->a, l->m, sel->comp, l->plan->mode, l->d);
    p->region = region_make(l->a, l->m, scat->comp, l->plan->mode, l->d);
    if (!p->select || !p->region)
        return false;
    l->step->fn = run_select_and_scatter;
    if (p->region->simple == OP_ADD)
        set_bound_sum(l, 6, false, operand_shape(l, 1)->count + 1);
    else
        l->step->bound_raises = region_sums(p->region);
    l->step->poison = poison_select_and_scatter;
    l->step->p = p;
    return true;
}

/* ---- map ----------------------------------------------------------------------------------------
 */

static void run_map(const struct step *s, void *const *out, const void *const *in)
{
    const struct region *r = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct region_scratch scratch;
    region_scratch(r, &tmp, &scratch);
    for (int64_t at = 0; at < s->lout[0].count; at += STRIP) {
        const void *args[MAX_VARIADIC];
        for (uint32_t k = 0; k < s->nin; k++)
            args[k] = (const char *)in[k] + at * s->lin[k].elem.size;
        void *res[1] = { (char *)out[0] + at * s->lout[0].elem.size };
        region_eval(r, &scratch, args, res, min_i64(STRIP, s->lout[0].count - at));
    }
    arena_close(&tmp);
}

bool lower_map(struct lowering *l)
{
    comp_id c;
    if (instr_called(l->m, l->id, &c, 1) != 1 || l->step->nin > MAX_VARIADIC || l->step->nout != 1)
        return lower_missing(l, "this form");
    const struct region *r = region_make(l->a, l->m, c, l->plan->mode, l->d);
    if (!r)
        return false;
    l->step->fn = run_map;
    l->step->poison = poison_or;
    l->step->p = r;
    return true;
}
