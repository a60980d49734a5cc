/* ragged-dot, scaled-dot, stochastic-convert, set-dimension-size, dynamic-reshape. */
#include <math.h>

#include "emulate/linalg.h"

/* ---- products by their definition ---------------------------------------------------------------
 */

/* Elements as 64-bit integers (integers, ring) or doubles. */
struct numbers {
    bool whole;
    int64_t *i;
    double *f;
};

static struct numbers numbers_of(struct arena *tmp, struct elem e, const void *p, int64_t n)
{
    struct numbers x = { .whole = dtype_kind(e.t) != DTYPE_KIND_FLOAT || is_ring(e) };
    if (x.whole)
        x.i = ARENA_ARRAY(tmp, int64_t, n + 1);
    else
        x.f = ARENA_ARRAY(tmp, double, n + 1);
    for (int64_t k = 0; k < n; k++)
        if (is_ring(e))
            memcpy(&x.i[k], (const char *)p + 8 * k, 8);
        else if (x.whole)
            x.i[k] = read_index(e, p, k);
        else
            x.f[k] = creal(load(e, p, k));
    return x;
}

static void put_number(struct elem e, void *p, int64_t k, int64_t i, double f)
{
    char *to = (char *)p + k * e.size;
    if (dtype_kind(e.t) == DTYPE_KIND_FLOAT && !is_ring(e))
        store(e, p, k, f);
    else
        memcpy(to, &i, (size_t)e.size);
}

/* out[o..] = sum over k.. of lhs[..] rhs[..], each loop with its strides; one of the loops may run
 * over rows that are divided into groups. */
struct product {
    int nout, nk;
    int64_t dims[MAX_RANK], lstep[MAX_RANK], rstep[MAX_RANK];    /* of the result */
    int64_t kdims[MAX_RANK], klstep[MAX_RANK], krstep[MAX_RANK]; /* summed */
    int ragged_out, ragged_k, group_out; /* loop of the ragged rows; result loop of groups; -1 */
    int64_t group_step, ngroups;         /* rhs stride of a group */
    /* scaled-dot: each element times the scale of its block */
    const struct shape *shapes[4];
};

static int64_t group_of_row(const int64_t *sizes, int64_t n, int64_t row)
{
    for (int64_t g = 0; g < n; g++) {
        if (row < sizes[g])
            return g;
        row -= sizes[g];
    }
    return -1;
}

static void sum_up(const struct product *p, const struct numbers *a, const struct numbers *b,
                   const int64_t *sizes, const int64_t *index, int64_t l, int64_t r, int64_t *whole,
                   double *real)
{
    int64_t total = 1, k[MAX_RANK] = { 0 };
    for (int d = 0; d < p->nk; d++)
        total *= p->kdims[d];
    *whole = 0;
    *real = 0;
    for (int64_t n = 0; n < total; n++) {
        int64_t x = l, y = r;
        for (int d = 0; d < p->nk; d++) {
            x += k[d] * p->klstep[d];
            y += k[d] * p->krstep[d];
        }
        bool counts = p->ragged_k < 0 || group_of_row(sizes, p->ngroups, k[p->ragged_k]) ==
                                             index[p->group_out];
        if (counts && a->whole)
            *whole = (int64_t)((uint64_t)*whole + (uint64_t)a->i[x] * (uint64_t)b->i[y]);
        else if (counts)
            *real += a->f[x] * b->f[y];
        for (int d = p->nk - 1; d >= 0 && ++k[d] == p->kdims[d]; d--)
            k[d] = 0;
    }
}

static void multiply(const struct product *p, const struct step *s, const struct numbers *a,
                     const struct numbers *b, const int64_t *sizes, void *out)
{
    int64_t index[MAX_RANK] = { 0 };
    for (int64_t n = 0; n < s->lout[0].count; n++) {
        int64_t l = 0, r = 0, whole = 0;
        double real = 0;
        for (int d = 0; d < p->nout; d++) {
            l += index[d] * p->lstep[d];
            r += index[d] * p->rstep[d];
        }
        int64_t g = p->ragged_out < 0 ? 0 : group_of_row(sizes, p->ngroups, index[p->ragged_out]);
        if (g >= 0)
            sum_up(p, a, b, sizes, index, l, r + g * p->group_step, &whole, &real);
        put_number(s->lout[0].elem, out, n, whole, real);
        for (int d = p->nout - 1; d >= 0 && ++index[d] == p->dims[d]; d--)
            index[d] = 0;
    }
}

static void run_ragged(const struct step *s, void *const *out, const void *const *in)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const struct numbers a = numbers_of(&tmp, s->lin[0].elem, in[0], s->lin[0].count),
                         b = numbers_of(&tmp, s->lin[1].elem, in[1], s->lin[1].count);
    int64_t *sizes = ARENA_ARRAY(&tmp, int64_t, s->lin[2].count + 1);
    for (int64_t g = 0; g < s->lin[2].count; g++)
        sizes[g] = read_index(s->lin[2].elem, in[2], g);
    multiply(s->p, s, &a, &b, sizes, out[0]);
    arena_close(&tmp);
}

static bool listed(const int64_t *v, int n, int d)
{
    for (int k = 0; k < n; k++)
        if (v[k] == d)
            return true;
    return false;
}

/* Batch dimensions, lhs's free ones, rhs's free ones (without groups) as the result's loops from
 * `first` on; contracting ones as the summed loops. */
static void product_loops(const struct lowering *l, struct product *p, const struct shape *a,
                          const struct shape *b, const int64_t *group, int ngroup)
{
    int nlb, nrb, nlc, nrc;
    const int64_t *lb = instr_ints(l->i, ATTR_LHS_BATCH, &nlb), *rb = instr_ints(l->i, ATTR_RHS_BATCH, &nrb),
                  *lc = instr_ints(l->i, ATTR_LHS_CONTRACTING, &nlc),
                  *rc = instr_ints(l->i, ATTR_RHS_CONTRACTING, &nrc);
    int64_t as[MAX_RANK], bs[MAX_RANK];
    row_strides(a->rank, a->dims, as);
    row_strides(b->rank, b->dims, bs);
    for (int k = 0; k < nlb && k < nrb; k++, p->nout++) {
        p->dims[p->nout] = a->dims[lb[k]];
        p->lstep[p->nout] = as[lb[k]];
        p->rstep[p->nout] = bs[rb[k]];
    }
    for (int d = 0; d < a->rank; d++)
        if (!listed(lb, nlb, d) && !listed(lc, nlc, d)) {
            p->dims[p->nout] = a->dims[d];
            p->lstep[p->nout++] = as[d];
        }
    for (int d = 0; d < b->rank; d++)
        if (!listed(rb, nrb, d) && !listed(rc, nrc, d) && !listed(group, ngroup, d)) {
            p->dims[p->nout] = b->dims[d];
            p->rstep[p->nout++] = bs[d];
        }
    for (int k = 0; k < nlc && k < nrc; k++, p->nk++) {
        p->kdims[k] = a->dims[lc[k]];
        p->klstep[k] = as[lc[k]];
        p->krstep[k] = bs[rc[k]];
    }
    if (ngroup == 1)
        p->group_step = bs[group[0]];
}

static bool shape_is(const struct product *p, const struct shape *s)
{
    if (s->rank != p->nout)
        return false;
    for (int d = 0; d < s->rank; d++)
        if (s->dims[d] != p->dims[d])
            return false;
    return true;
}

/* Ragged rows among lhs's free dimensions: each row meets its group's slice of rhs, rows behind the
 * last group give zeros. Among the contracting ones: one product a group, the result's dimension 0. */
bool lower_ragged_dot(struct lowering *l)
{
    struct product *p = ARENA_NEW(l->a, struct product);
    const struct shape *a = operand_shape(l, 0), *b = operand_shape(l, 1), *g = operand_shape(l, 2);
    int nragged, ngroup, nlc, nlb;
    const int64_t *ragged = instr_ints(l->i, ATTR_LHS_RAGGED, &nragged),
                  *group = instr_ints(l->i, ATTR_RHS_GROUP, &ngroup),
                  *lc = instr_ints(l->i, ATTR_LHS_CONTRACTING, &nlc),
                  *lb = instr_ints(l->i, ATTR_LHS_BATCH, &nlb);
    p->ragged_out = p->ragged_k = p->group_out = -1;
    if (nragged != 1 || g->rank != 1 || a->rank + b->rank > MAX_RANK || listed(lb, nlb, (int)ragged[0]) ||
        dtype_kind(l->shape->dtype) == DTYPE_KIND_COMPLEX)
        return lower_missing(l, "this form");
    p->ngroups = g->dims[0];
    bool summed = listed(lc, nlc, (int)ragged[0]);
    if (summed) {
        p->group_out = p->nout;
        p->dims[p->nout++] = p->ngroups;
    } else if (ngroup != 1) {
        return lower_missing(l, "this form");
    }
    product_loops(l, p, a, b, group, ngroup);
    for (int k = 0; k < nlc && summed; k++)
        if (lc[k] == ragged[0])
            p->ragged_k = k;
    for (int d = 0, at = nlb; d < a->rank && !summed; d++)
        if (!listed(lb, nlb, d) && !listed(lc, nlc, d)) {
            if (d == ragged[0])
                p->ragged_out = at;
            at++;
        }
    if (!shape_is(p, l->shape))
        return lower_missing(l, "this form");
    l->step->fn = run_ragged;
    l->step->p = p;
    return true;
}

/* Every element times the scale of the block that it lies in. */
static void scale_up(struct numbers *x, const struct shape *shape, const struct numbers *scale,
                     const struct shape *blocks)
{
    int64_t index[MAX_RANK] = { 0 };
    for (int64_t n = 0; n < shape->count; n++) {
        int64_t at = 0;
        for (int d = 0; d < blocks->rank; d++)
            at = at * blocks->dims[d] + index[d] * blocks->dims[d] / shape->dims[d];
        if (x->whole)
            x->i[n] = (int64_t)((uint64_t)x->i[n] * (uint64_t)scale->i[at]);
        else
            x->f[n] *= scale->f[at];
        for (int d = shape->rank - 1; d >= 0 && ++index[d] == shape->dims[d]; d--)
            index[d] = 0;
    }
}

static void run_scaled(const struct step *s, void *const *out, const void *const *in)
{
    const struct product *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct numbers x[4];
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = numbers_of(&tmp, s->lin[k].elem, in[k], s->lin[k].count);
    for (uint32_t k = 2; k < s->nin; k++)
        scale_up(&x[k - 2], p->shapes[k - 2], &x[k], p->shapes[k]);
    multiply(p, s, &x[0], &x[1], NULL, out[0]);
    arena_close(&tmp);
}

bool lower_scaled_dot(struct lowering *l)
{
    struct product *p = ARENA_NEW(l->a, struct product);
    p->ragged_out = p->ragged_k = p->group_out = -1;
    if (l->step->nin < 2 || l->step->nin > 4 || dtype_kind(l->shape->dtype) != DTYPE_KIND_FLOAT)
        return lower_missing(l, "this form");
    for (uint32_t k = 0; k < l->step->nin; k++) {
        p->shapes[k] = operand_shape(l, k);
        const struct shape *whole = p->shapes[k & 1];
        if (dtype_kind(p->shapes[k]->dtype) != DTYPE_KIND_FLOAT ||
            (p->shapes[k]->rank != 0 && p->shapes[k]->rank != whole->rank))
            return lower_missing(l, "these scales");
        for (int d = 0; d < p->shapes[k]->rank; d++)
            if (p->shapes[k]->dims[d] <= 0 || whole->dims[d] % p->shapes[k]->dims[d])
                return lower_missing(l, "these scales");
    }
    product_loops(l, p, p->shapes[0], p->shapes[1], NULL, 0);
    if (!shape_is(p, l->shape))
        return lower_missing(l, "this form");
    l->step->fn = run_scaled;
    l->step->p = p;
    return true;
}

/* ---- stochastic-convert -------------------------------------------------------------------------
 */

/* A float to an integer: up when the fraction exceeds the random bits read as one. */
static int64_t round_by(double x, uint64_t random, int bits, enum dtype to)
{
    int w = dtype_bits(to);
    bool is_signed = dtype_kind(to) == DTYPE_KIND_SIGNED;
    int64_t most = w >= 64 ? INT64_MAX : (int64_t)((uint64_t)1 << (w - is_signed)) - 1,
            least = is_signed ? -most - 1 : 0;
    if (isnan(x))
        return 0;
    if (x >= (double)most)
        return most;
    if (x <= (double)least)
        return least;
    double size = fabs(x), down = floor(size), limit = ldexp(size - down, bits);
    int64_t v = (int64_t)down + ((double)random < limit);
    return x < 0 ? -v : v;
}

static void run_stochastic(const struct step *s, void *const *out, const void *const *in)
{
    const struct leaf *l = &s->lout[0];
    int bits = dtype_bits(s->lin[1].elem.t);
    for (int64_t k = 0; k < l->count; k++) {
        uint64_t random = 0;
        memcpy(&random, (const char *)in[1] + k * s->lin[1].elem.size, (size_t)s->lin[1].elem.size);
        int64_t v;
        if (is_ring(s->lin[0].elem)) {
            memcpy(&v, (const char *)in[0] + 8 * k, 8);
            v = ring_mix(0x7374, (uint64_t)v, random);
        } else {
            v = round_by(creal(load(s->lin[0].elem, in[0], k)), random, bits, l->elem.t);
        }
        memcpy((char *)out[0] + k * l->elem.size, &v, (size_t)l->elem.size);
    }
}

bool lower_stochastic_convert(struct lowering *l)
{
    enum dtype_kind kind = dtype_kind(l->shape->dtype);
    if (dtype_kind(operand_shape(l, 0)->dtype) != DTYPE_KIND_FLOAT || dtype_bits(l->shape->dtype) < 8 ||
        (kind != DTYPE_KIND_SIGNED && kind != DTYPE_KIND_UNSIGNED))
        return lower_missing(l, "this form");
    l->step->fn = run_stochastic;
    l->step->poison = poison_or;
    return true;
}

/* ---- sizes that are known only when the program runs --------------------------------------------
 */

/* Arrays here have their full size always. A size that says less is more than this can do. */
static void check_size(const struct step *s, const void *const *in, uint32_t k, int64_t want)
{
    int64_t got = read_index(s->lin[k].elem, in[k], 0);
    if (got != want)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__,
                   "an array's size is set to %" PRId64 " of %" PRId64
                   " when the program runs: arrays of changing size are not run",
                   got, want);
}

static void run_set_size(const struct step *s, void *const *out, const void *const *in)
{
    check_size(s, in, 1, *(const int64_t *)s->p);
    memcpy(out[0], in[0], (size_t)s->lout[0].bytes);
}

bool lower_set_dimension_size(struct lowering *l)
{
    int n;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    if (n != 1 || dims[0] < 0 || dims[0] >= l->shape->rank || l->step->nin != 2)
        return lower_missing(l, "this form");
    l->step->fn = run_set_size;
    l->step->p = &l->shape->dims[dims[0]];
    return true;
}

static void run_reshape_to(const struct step *s, void *const *out, const void *const *in)
{
    const int64_t *dims = s->p;
    for (uint32_t k = 1; k < s->nin; k++)
        check_size(s, in, k, dims[k - 1]);
    memcpy(out[0], in[0], (size_t)s->lout[0].bytes);
}

bool lower_dynamic_reshape(struct lowering *l)
{
    if (l->step->nin != (uint32_t)l->shape->rank + 1 || l->step->lin[0].count != l->step->lout[0].count)
        return lower_missing(l, "this form");
    l->step->fn = run_reshape_to;
    l->step->poison = poison_all;
    l->step->p = l->shape->dims;
    return true;
}
