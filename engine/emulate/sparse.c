/* Products with structured sparsity: `sparsity=L.2@2:4` says that along dimension 2 the lhs holds 2 of every
 * 4 elements, and a third operand says which. (XLA's CPU runs such a product as a dense one that ignores
 * the metadata; this is what the attribute means.)
 *
 * The metadata has the operand's shape, but along the sparse dimension each number holds the places of as
 * many elements as its bits have room for, lowest bits first: element j is number
 * j / n * m + place(j) of the whole dimension. Pairs of elements of which one is left out are no terms: an
 * infinity opposite of a gap does not count. Terms are added in the order of the whole dimension.
 */
#include <stdlib.h>
#include <string.h>

#include "emulate/lower.h"

enum { MOST_DIMS = 32 };

struct sparse_side {
    int nfree, ncontract, sparse; /* sparse: which contracted dimension; -1: dense */
    int64_t free[MOST_DIMS], contract[MOST_DIMS]; /* sizes as they are held */
    int64_t free_stride[MOST_DIMS], contract_stride[MOST_DIMS], batch_stride[MOST_DIMS];
    int64_t meta_free[MOST_DIMS], meta_contract[MOST_DIMS], meta_batch[MOST_DIMS];
    int64_t kept, of; /* kept elements of every `of` */
    int bits, room;   /* of a place; places in a number */
    uint32_t meta;    /* operand */
    const struct ew *convert;
};

struct sparse {
    int nbatch;
    int64_t batch[MOST_DIMS], whole[MOST_DIMS]; /* whole: sizes of the contracted dimensions */
    int64_t nbatches, m, n, k;
    struct elem acc;
    struct sparse_side side[2];
    const struct ew *out;
};

/* ---- running ------------------------------------------------------------------------------------
 */

/* The offsets, by two sets of strides, of position i in row-major order over dims. */
static void place_of(int rank, const int64_t *dims, const int64_t *a, const int64_t *b, int64_t i, int64_t *x,
                     int64_t *y)
{
    for (int k = rank - 1; k >= 0; k--) {
        *x += i % dims[k] * a[k];
        *y += i % dims[k] * b[k];
        i /= dims[k];
    }
}

/* One row of an operand over the whole contracted dimensions: values and which of them there are. */
static void spread_row(const struct step *s, const struct sparse *p, const struct sparse_side *v, int64_t at,
                       int64_t meta_at, const char *from, const void *meta, char *values, uint8_t *there)
{
    int64_t index[MOST_DIMS] = { 0 }, count = 1;
    int size = p->acc.size;
    memset(values, 0, (size_t)(p->k * size));
    memset(there, 0, (size_t)p->k);
    for (int k = 0; k < v->ncontract; k++)
        count *= v->contract[k];
    for (int64_t i = 0; i < count; i++) {
        int64_t x = at, y = meta_at, to = 0;
        for (int k = 0; k < v->ncontract; k++) {
            x += index[k] * v->contract_stride[k];
            y += (k == v->sparse ? index[k] / v->room : index[k]) * v->meta_contract[k];
        }
        for (int k = 0; k < v->ncontract; k++) {
            int64_t j = index[k];
            if (k == v->sparse) {
                uint64_t number = (uint64_t)read_index(s->lin[v->meta].elem, meta, y);
                uint64_t place = number >> (v->bits * (int)(j % v->room)) & (((uint64_t)1 << v->bits) - 1);
                j = j / v->kept * v->of + min_i64((int64_t)place, v->of - 1);
            }
            to = to * p->whole[k] + j;
        }
        memcpy(values + to * size, from + x * size, (size_t)size);
        there[to] = 1;
        for (int k = v->ncontract - 1; k >= 0; k--) {
            if (++index[k] < v->contract[k])
                break;
            index[k] = 0;
        }
    }
}

#define SUM(T)                                                      \
    do {                                                            \
        const T *x = (const void *)a, *y = (const void *)b;         \
        T sum = 0;                                                  \
        for (int64_t i = 0; i < n; i++)                             \
            if (in_a[i] && in_b[i])                                 \
                sum += x[i] * y[i];                                 \
        memcpy(out, &sum, sizeof sum);                              \
    } while (0)

static void sum_terms(enum ctype ct, const char *a, const uint8_t *in_a, const char *b, const uint8_t *in_b, int64_t n,
                      char *out)
{
    if (ct == CT_F32)
        SUM(float);
    else if (ct == CT_F64)
        SUM(double);
    else
        SUM(uint64_t);
}

struct rows {
    char *values;
    uint8_t *there;
};

static const char *converted(const struct sparse_side *v, const struct leaf *leaf, struct elem acc, const void *in,
                             struct arena *tmp)
{
    if (!v->convert)
        return in;
    void *to = arena_alloc(tmp, leaf->count + 1, (size_t)acc.size);
    convert_elements(v->convert, in, to, leaf->count);
    return to;
}

static struct rows spread_side(const struct step *s, const struct sparse *p, int which, int64_t batch, int64_t rows,
                               const char *from, const void *const *in, struct arena *tmp)
{
    const struct sparse_side *v = &p->side[which];
    struct rows r = { arena_alloc(tmp, rows * p->k + 1, (size_t)p->acc.size), arena_alloc(tmp, rows * p->k + 1, 1) };
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = 0, meta_at = 0;
        place_of(p->nbatch, p->batch, v->batch_stride, v->meta_batch, batch, &at, &meta_at);
        place_of(v->nfree, v->free, v->free_stride, v->meta_free, i, &at, &meta_at);
        spread_row(s, p, v, at, meta_at, from, v->sparse < 0 ? NULL : in[v->meta], r.values + i * p->k * p->acc.size,
                   r.there + i * p->k);
    }
    return r;
}

static void run_sparse(const struct step *s, void *const *out, const void *const *in)
{
    const struct sparse *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int size = p->acc.size;
    const char *a = converted(&p->side[0], &s->lin[0], p->acc, in[0], &tmp);
    const char *b = converted(&p->side[1], &s->lin[1], p->acc, in[1], &tmp);
    char *c = p->out ? arena_alloc(&tmp, s->lout[0].count + 1, (size_t)size) : out[0], *to = c;
    for (int64_t k = 0; k < p->nbatches; k++) {
        struct arena rows = { 0 };
        arena_open(&rows);
        struct rows x = spread_side(s, p, 0, k, p->m, a, in, &rows), y = spread_side(s, p, 1, k, p->n, b, in, &rows);
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++, to += size)
                sum_terms(p->acc.ct, x.values + i * p->k * size, x.there + i * p->k, y.values + j * p->k * size,
                          y.there + j * p->k, p->k, to);
        arena_close(&rows);
    }
    if (p->out)
        convert_elements(p->out, c, out[0], s->lout[0].count);
    arena_close(&tmp);
}

/* ---- lowering -----------------------------------------------------------------------------------
 */

static bool read_number(const char **at, char after, int64_t *out)
{
    size_t used = parse_i64(*at, strlen(*at), out);
    *at += used;
    if (!used || (after && **at != after))
        return false;
    *at += after != 0;
    return true;
}

/* L.2@2:4, or two of them with _ between. */
static bool read_sparsity(const char *text, int64_t dim[2], struct sparse *p)
{
    uint32_t meta = 2;
    for (const char *at = text; *at; meta++) {
        int which = *at == 'R';
        if ((*at != 'L' && *at != 'R') || at[1] != '.' || dim[which] >= 0)
            return false;
        struct sparse_side *v = &p->side[which];
        at += 2;
        if (!read_number(&at, '@', &dim[which]) || !read_number(&at, ':', &v->kept) || !read_number(&at, 0, &v->of))
            return false;
        if (dim[which] < 0 || v->kept < 1 || v->of < v->kept || v->of > 256)
            return false;
        v->meta = meta;
        while ((int64_t)1 << v->bits < v->of)
            v->bits++;
        if (*at == '_')
            at++;
        else if (*at)
            return false;
    }
    return meta > 2;
}

static void strides_along(const struct shape *s, int n, const int *dims, int64_t *out)
{
    int64_t strides[MOST_DIMS + 1];
    row_strides(s->rank, s->dims, strides);
    for (int k = 0; k < n; k++)
        out[k] = strides[dims[k]];
}

/* False: the metadata does not fit the operand. */
static bool fill_side(struct lowering *l, struct sparse *p, int which, int64_t dim, const struct dot_dims *dd)
{
    struct sparse_side *v = &p->side[which];
    const struct shape *s = operand_shape(l, (uint32_t)which);
    const int *batch = which ? dd->rhs_batch : dd->lhs_batch, *free = which ? dd->rhs_free : dd->lhs_free;
    const int *contract = which ? dd->rhs_contract : dd->lhs_contract;
    v->nfree = which ? dd->nrhs_free : dd->nlhs_free;
    v->ncontract = dd->ncontract;
    v->sparse = -1;
    v->room = 1;
    strides_along(s, dd->nbatch, batch, v->batch_stride);
    strides_along(s, v->nfree, free, v->free_stride);
    strides_along(s, v->ncontract, contract, v->contract_stride);
    for (int k = 0; k < v->nfree; k++)
        v->free[k] = s->dims[free[k]];
    for (int k = 0; k < v->ncontract; k++) {
        v->contract[k] = s->dims[contract[k]];
        if (contract[k] == dim)
            v->sparse = k;
    }
    if (dim < 0)
        return true;
    if (v->sparse < 0 || v->meta >= l->step->nin || operand_shape(l, v->meta)->rank != s->rank)
        return false;
    const struct shape *m = operand_shape(l, v->meta);
    v->room = v->bits ? dtype_bits(m->dtype) / v->bits : 1;
    for (int k = 0; k < s->rank; k++)
        if (m->dims[k] != (k == dim ? (s->dims[k] + v->room - 1) / max_i64(v->room, 1) : s->dims[k]))
            return false;
    strides_along(m, dd->nbatch, batch, v->meta_batch);
    strides_along(m, v->nfree, free, v->meta_free);
    strides_along(m, v->ncontract, contract, v->meta_contract);
    return v->room > 0 && dtype_kind(m->dtype) == DTYPE_KIND_UNSIGNED && s->dims[dim] % v->kept == 0;
}

/* Sizes of the whole contracted dimensions, which both sides must give. */
static bool whole_sizes(struct sparse *p, int n)
{
    p->k = 1;
    for (int k = 0; k < n; k++) {
        int64_t size[2];
        for (int w = 0; w < 2; w++) {
            const struct sparse_side *v = &p->side[w];
            size[w] = v->sparse == k ? v->contract[k] / v->kept * v->of : v->contract[k];
        }
        if (size[0] != size[1])
            return false;
        p->whole[k] = size[0];
        p->k *= size[0];
    }
    return true;
}

bool lower_sparse_dot(struct lowering *l)
{
    struct step *s = l->step;
    const struct attr *attr = instr_attr(l->i, ATTR_SPARSITY);
    struct sparse *p = ARENA_NEW(l->a, struct sparse);
    struct dot_dims dd;
    int64_t dim[2] = { -1, -1 };
    const struct shape *a = operand_shape(l, 0), *b = operand_shape(l, 1);
    if (!attr || a->rank > MOST_DIMS || b->rank > MOST_DIMS || !read_sparsity(arena_printf(l->a, "%.*s", (int)attr->n, attr->text), dim, p))
        return lower_missing(l, "this sparsity");
    instr_dot_dims(l->m, l->id, &dd);
    if (!fill_side(l, p, 0, dim[0], &dd) || !fill_side(l, p, 1, dim[1], &dd) || !whole_sizes(p, dd.ncontract))
        return lower_missing(l, "metadata of this shape");
    p->nbatch = dd.nbatch;
    p->nbatches = p->m = p->n = 1;
    for (int k = 0; k < dd.nbatch; k++)
        p->nbatches *= p->batch[k] = a->dims[dd.lhs_batch[k]];
    for (int k = 0; k < p->side[0].nfree; k++)
        p->m *= p->side[0].free[k];
    for (int k = 0; k < p->side[1].nfree; k++)
        p->n *= p->side[1].free[k];
    if (p->nbatches * p->m * p->n != s->lout[0].count)
        return lower_missing(l, "this shape");
    p->acc = accumulator_of(s->lout[0].elem);
    if (p->acc.ct == CT_C128 || p->acc.ct == CT_RINGC)
        return lower_missing(l, "a sparse product of complex numbers");
    for (uint32_t k = 0; k < 2; k++)
        if (s->lin[k].elem.ct != p->acc.ct)
            p->side[k].convert = ew_make(l->a, OP_CONVERT, s->lin[k].elem, p->acc, 0, 0);
    if (p->acc.ct != s->lout[0].elem.ct)
        p->out = ew_make(l->a, OP_CONVERT, p->acc, s->lout[0].elem, 0, 0);
    s->fn = run_sparse;
    s->poison = poison_all;
    set_bound_sum(l, 3, true, p->k);
    s->p = p;
    return true;
}
