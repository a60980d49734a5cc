/* sort (stable, any comparator, any number of operands) and topk. */
#include <stdlib.h>
#include <string.h>

#include "emulate/lower.h"

struct sort {
    int64_t outer, n, inner; /* lanes: outer x inner, elements inner apart */
    const struct region *less;
};

/* One lane being sorted: the order of its elements, found by merging runs. */
struct lane {
    const struct sort *p;
    struct region_scratch scratch;
    uint32_t nop;
    const char **base;       /* [nop] first element of the lane */
    const int *size;         /* [nop] */
    const struct ew *direct; /* the comparator as one compare */
    const uint8_t **poison;  /* [nop] or NULL */
    bool poisoned;           /* a comparison looked at padding */
};

static bool comes_before(struct lane *c, int64_t a, int64_t b)
{
    uint8_t yes;
    const void *in[2 * MAX_VARIADIC];
    void *out[1] = { &yes };
    int64_t step = c->p->inner;
    if (c->direct) {
        const struct region *r = c->p->less;
        const void *ops[2];
        int x = r->cmp_a, y = r->cmp_b; /* parameter 2k: operand k at a, 2k + 1: at b */
        ops[0] = c->base[x / 2] + (x % 2 ? b : a) * step * c->size[x / 2];
        ops[1] = c->base[y / 2] + (y % 2 ? b : a) * step * c->size[y / 2];
        c->direct->fn(c->direct, &yes, ops, 1);
        return yes;
    }
    for (uint32_t k = 0; k < c->nop; k++) {
        in[2 * k] = c->base[k] + a * step * c->size[k];
        in[2 * k + 1] = c->base[k] + b * step * c->size[k];
    }
    region_eval(c->p->less, &c->scratch, in, out, 1);
    return yes;
}

static void merge_runs(struct lane *c, const int64_t *from, int64_t *to, int64_t lo, int64_t mid,
                       int64_t hi)
{
    int64_t a = lo, b = mid;
    for (int64_t k = lo; k < hi; k++)
        to[k] = a < mid && (b >= hi || !comes_before(c, from[b], from[a])) ? from[a++] : from[b++];
}

/* The sorted order in order[0..n); tmp has room for n more. */
static int64_t *sort_lane(struct lane *c, int64_t *order, int64_t *tmp, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        order[k] = k;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width)
            merge_runs(c, order, tmp, lo, min_i64(lo + width, n), min_i64(lo + 2 * width, n));
        int64_t *swap = order;
        order = tmp;
        tmp = swap;
    }
    return order;
}

/* Operands that the comparator reads: their padding makes an order doubtful. */
static void operands_read(const struct region *r, bool *reads)
{
    for (uint32_t s = 0; s < r->nsteps; s++)
        for (int o = 0; o < r->steps[s].ew->nin; o++)
            for (int k = 0; k < r->nparams; k++)
                if (r->params[k] == r->steps[s].in[o])
                    reads[k / 2] = true;
}

static void sort_walk(const struct step *s, void *const *out, const void *const *in,
                      uint8_t *const *pout, const uint8_t *const *pin)
{
    const struct sort *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct lane c = { .p = p, .nop = s->nin };
    bool *reads = ARENA_ARRAY(&tmp, bool, s->nin + 1);
    int *size = ARENA_ARRAY(&tmp, int, s->nin + 1);
    int64_t *order = ARENA_ARRAY(&tmp, int64_t, 2 * p->n + 1);
    region_scratch(p->less, &tmp, &c.scratch);
    operands_read(p->less, reads);
    c.base = ARENA_ARRAY(&tmp, const char *, s->nin + 1);
    c.size = size;
    if (p->less->compare)
        c.direct = p->less->steps[0].ew;
    for (uint32_t k = 0; k < s->nin; k++)
        size[k] = s->lin[k].elem.size;
    for (int64_t lane = 0; lane < p->outer * p->inner; lane++) {
        int64_t first = lane / p->inner * p->n * p->inner + lane % p->inner;
        for (uint32_t k = 0; k < s->nin; k++)
            c.base[k] = (const char *)in[k] + first * size[k];
        const int64_t *sorted = sort_lane(&c, order, order + p->n, p->n);
        bool doubtful = false;
        for (uint32_t k = 0; pin && k < s->nin; k++)
            for (int64_t i = 0; pin[k] && reads[k] && i < p->n; i++)
                doubtful |= pin[k][first + i * p->inner] != 0;
        for (uint32_t k = 0; k < s->nin; k++)
            for (int64_t i = 0; i < p->n; i++) {
                int64_t to = first + i * p->inner, from = first + sorted[i] * p->inner;
                if (pout)
                    pout[k][to] = doubtful || (pin[k] && pin[k][from]);
                else
                    memcpy((char *)out[k] + to * size[k], (const char *)in[k] + from * size[k],
                           (size_t)size[k]);
            }
    }
    arena_close(&tmp);
}

static void run_sort(const struct step *s, void *const *out, const void *const *in)
{
    sort_walk(s, out, in, NULL, NULL);
}

static void poison_sort(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                        const void *const *in)
{
    sort_walk(s, NULL, in, pout, pin);
}

static void set_lanes(struct sort *p, const struct shape *shape, int dim)
{
    p->outer = p->n = p->inner = 1;
    for (int k = 0; k < shape->rank; k++)
        *(k < dim ? &p->outer : k > dim ? &p->inner : &p->n) *= shape->dims[k];
}

bool lower_sort(struct lowering *l)
{
    int n;
    comp_id c;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    if (l->step->nin > MAX_VARIADIC || l->step->nin != l->step->nout ||
        instr_called(l->m, l->id, &c, 1) != 1)
        return lower_missing(l, "this form");
    struct sort *p = ARENA_NEW(l->a, struct sort);
    set_lanes(p, operand_shape(l, 0), n ? (int)dims[0] : 0);
    p->less = region_make(l->a, l->m, c, l->plan->mode, l->d);
    if (!p->less)
        return false;
    l->step->fn = run_sort;
    l->step->poison = poison_sort;
    l->step->p = p;
    return true;
}

/* ---- topk: the k largest (or smallest) along the last dimension, equal ones by rising index
 * ------ */

struct topk {
    int64_t lanes, n, k;
    const struct ew *before; /* compare */
    const struct ew *index;  /* s64 to the index type */
};

static void topk_lane(const struct topk *p, const char *x, int size, int64_t *order, int64_t *tmp)
{
    for (int64_t k = 0; k < p->n; k++)
        order[k] = k;
    for (int64_t width = 1; width < p->n; width *= 2) {
        for (int64_t lo = 0; lo < p->n; lo += 2 * width) {
            int64_t mid = min_i64(lo + width, p->n), hi = min_i64(lo + 2 * width, p->n), a = lo,
                    b = mid;
            for (int64_t k = lo; k < hi; k++) {
                uint8_t later = 0;
                if (a < mid && b < hi) {
                    const void *ops[2] = { x + order[b] * size, x + order[a] * size };
                    p->before->fn(p->before, &later, ops, 1);
                }
                tmp[k] = a < mid && (b >= hi || !later) ? order[a++] : order[b++];
            }
        }
        memcpy(order, tmp, (size_t)p->n * sizeof *order);
    }
}

static void run_topk(const struct step *s, void *const *out, const void *const *in)
{
    const struct topk *p = s->p;
    int size = s->lin[0].elem.size;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t *order = ARENA_ARRAY(&tmp, int64_t, 2 * p->n + 1);
    for (int64_t lane = 0; lane < p->lanes; lane++) {
        const char *x = (const char *)in[0] + lane * p->n * size;
        topk_lane(p, x, size, order, order + p->n);
        for (int64_t k = 0; k < p->k; k++)
            memcpy((char *)out[0] + (lane * p->k + k) * size, x + order[k] * size, (size_t)size);
        convert_elements(p->index, order, (char *)out[1] + lane * p->k * s->lout[1].elem.size,
                         p->k);
    }
    arena_close(&tmp);
}

static void poison_topk(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                        const void *const *in)
{
    (void)in;
    const struct topk *p = s->p;
    for (int64_t lane = 0; lane < p->lanes; lane++)
        if (memchr(pin[0] + lane * p->n, 1, (size_t)p->n)) {
            memset(pout[0] + lane * p->k, 1, (size_t)p->k);
            memset(pout[1] + lane * p->k, 1, (size_t)p->k);
        }
}

bool lower_topk(struct lowering *l)
{
    struct topk *p = ARENA_NEW(l->a, struct topk);
    const struct shape *in = operand_shape(l, 0);
    struct step *s = l->step;
    if (s->nout != 2 || in->rank < 1)
        return lower_missing(l, "this form");
    p->n = in->dims[in->rank - 1];
    p->k = shape_get(l->m->ir, shape_leaf(l->m->ir, l->i->shape, 0))->dims[in->rank - 1];
    p->lanes = p->n ? in->count / p->n : 0;
    bool largest = instr_bool(l->i, ATTR_LARGEST, true), ordered = s->lin[0].elem.ct == CT_SMALL ||
                                                                   s->lin[0].elem.ct == CT_F32 ||
                                                                   s->lin[0].elem.ct == CT_F64;
    p->before = ew_make(l->a, OP_COMPARE, s->lin[0].elem, elem_of(DTYPE_PRED, l->plan->mode),
                        (largest ? DIR_GT : DIR_LT) | (ordered ? DIR_TOTAL : 0), 0);
    p->index = ew_make(l->a, OP_CONVERT, elem_of(DTYPE_S64, EMU_FLOAT), s->lout[1].elem, 0, 0);
    if (!p->before || !p->index || p->k > p->n)
        return lower_missing(l, "this form");
    s->fn = run_topk;
    s->poison = poison_topk;
    s->p = p;
    return true;
}
