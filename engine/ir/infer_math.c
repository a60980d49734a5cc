/* Shape inference of operations that compute over dimensions: dot, convolution, reductions, windows,
 * and the linear algebra that comes as one operation. */
#include "ir/infer.h"

#include <string.h>

/* ---- dot ---------------------------------------------------------------------------------------- */

/* lhs_x and rhs_x name as many dimensions of equal sizes. */
static bool pair_dims(const struct rule *r, enum attr_key lk, enum attr_key rk, uint64_t *lhs,
                      uint64_t *rhs)
{
    const struct shape *a = operand(r, 0), *b = operand(r, 1);
    int n, m;
    const int64_t *v, *w;
    if (!need_dims(r, lk, a->rank, &n, &v, lhs) || !need_dims(r, rk, b->rank, &m, &w, rhs))
        return false;
    if (n != m)
        return bad(r, "%s=%s and %s=%s must name as many dimensions", attr_name(lk),
                   shown_dims(r, n, v), attr_name(rk), shown_dims(r, m, w));
    for (int i = 0; i < n; i++)
        if (a->dims[v[i]] != b->dims[w[i]])
            return bad(r, "%s=%s and %s=%s pair dimension %" PRId64 " of %s with dimension %" PRId64
                       " of %s: %" PRId64 " and %" PRId64, attr_name(lk), shown_dims(r, n, v),
                       attr_name(rk), shown_dims(r, m, w), v[i], shown(r, operand_id(r, 0)), w[i],
                       shown(r, operand_id(r, 1)), a->dims[v[i]], b->dims[w[i]]);
    return true;
}

/* Products of two types: what the sum may be kept in is the text's choice, within a kind. */
static bool check_product_types(const struct rule *r)
{
    enum dtype a = operand(r, 0)->dtype, b = operand(r, 1)->dtype;
    bool fits = a == b || (is_integer(a) && is_integer(b)) ||
                (dtype_kind(a) == DTYPE_KIND_FLOAT && dtype_kind(b) == DTYPE_KIND_FLOAT);
    if (!fits)
        return bad(r, "cannot multiply %s by %s", shown(r, operand_id(r, 0)),
                   shown(r, operand_id(r, 1)));
    if (r->declared->kind != SHAPE_ARRAY)
        return bad(r, "the result must be an array, not %s", shown(r, r->in->shape));
    enum dtype t = r->declared->dtype;
    if (dtype_kind(t) != dtype_kind(a) && !(is_integer(t) && (is_integer(a) || a == DTYPE_PRED)))
        return bad(r, "products of %s cannot be %s", dtype_name(a), dtype_name(t));
    return true;
}

enum { DOT_RANK = 32 };

bool rule_dot(struct rule *r)
{
    if (instr_attr(r->in, ATTR_SPARSITY))
        return true; /* sparse: sizes follow from metadata that is not read */
    if (r->in->noperands > 2)
        return bad(r, "takes 2 operands, not %" PRIu32 ": more are for sparse ones (sparsity=)", r->in->noperands);
    if (!all_arrays(r))
        return false;
    const struct shape *a = operand(r, 0), *b = operand(r, 1);
    if (a->rank > DOT_RANK || b->rank > DOT_RANK)
        return bad(r, "operands may have at most %d dimensions", DOT_RANK);
    uint64_t lb, rb, lc, rc;
    if (!pair_dims(r, ATTR_LHS_BATCH, ATTR_RHS_BATCH, &lb, &rb) ||
        !pair_dims(r, ATTR_LHS_CONTRACTING, ATTR_RHS_CONTRACTING, &lc, &rc))
        return false;
    if (lb & lc || rb & rc)
        return bad(r, "a dimension of operand %d is both a batch and a contracting one", lb & lc ? 0 : 1);
    if (!check_product_types(r))
        return false;
    struct dot_dims dd;
    instr_dot_dims(r->m, r->id, &dd);
    struct dims d = { 0 };
    for (int i = 0; i < dd.nbatch; i++)
        dims_add(&d, a->dims[dd.lhs_batch[i]]);
    for (int i = 0; i < dd.nlhs_free; i++)
        dims_add(&d, a->dims[dd.lhs_free[i]]);
    for (int i = 0; i < dd.nrhs_free; i++)
        dims_add(&d, b->dims[dd.rhs_free[i]]);
    return give(r, r->declared->dtype, &d);
}

/* ---- windows ------------------------------------------------------------------------------------ */

/* (n - 1) * step + 1, 0 for n = 0; false on overflow. */
static bool dilated(int64_t n, int64_t step, int64_t *out)
{
    *out = 0;
    return n == 0 || (mul_ok(n - 1, step, out) && add_ok(*out, 1, out));
}

int64_t window_output(const struct window_dim *w, int64_t size)
{
    int64_t in, win;
    if (!dilated(size, w->base_dilation, &in) || !dilated(w->size, w->window_dilation, &win) ||
        !add_ok(in, w->pad_low, &in) || !add_ok(in, w->pad_high, &in))
        return -1;
    return in < win || in <= 0 ? 0 : (in - win) / w->stride + 1;
}

bool check_window(const struct rule *r, const struct window *w, int rank)
{
    if (w->rank != rank)
        return bad(r, "window={%.*s} has %d dimensions, but must have %d",
                   w->text ? (int)min_i64(w->len, 80) : 3, w->text ? w->text : "...", w->rank, rank);
    for (int i = 0; i < rank; i++) {
        const struct window_dim *d = &w->dims[i];
        if (d->size <= 0 || d->stride <= 0 || d->base_dilation <= 0 || d->window_dilation <= 0)
            return bad(r, "dimension %d of the window: size %" PRId64 ", stride %" PRId64
                       " and dilations %" PRId64 ", %" PRId64 " must be positive", i, d->size,
                       d->stride, d->base_dilation, d->window_dilation);
    }
    return true;
}

static const struct window *window_of(const struct rule *r)
{
    static const struct window nothing;
    const struct attr *a = instr_attr(r->in, ATTR_WINDOW);
    return a && a->type == ATTR_TYPE_WINDOW ? a->window : &nothing;
}

static bool windowed_dim(const struct rule *r, const struct window_dim *w, int64_t size, int i,
                         struct dims *d)
{
    int64_t n = window_output(w, size);
    dims_add(d, n);
    return n >= 0 || bad(r, "the padded size of window dimension %d does not fit in 64 bits", i);
}

/* ---- convolution -------------------------------------------------------------------------------- */

static bool each_dim_once(const struct rule *r, const char *side, int a, int b, const int *spatial,
                          int n)
{
    uint64_t seen = 0;
    for (int i = -2; i < n; i++) {
        int d = i == -2 ? a : i == -1 ? b : spatial[i];
        if (d < 0 || d >= n + 2 || seen >> d & 1)
            return bad(r, "dim_labels= names dimension %d of the %s twice or not at all", d, side);
        seen |= (uint64_t)1 << d;
    }
    return true;
}

static bool check_conv_dims(const struct rule *r, const struct conv_dims *c)
{
    int n = c->nspatial;
    if (operand(r, 0)->rank != n + 2 || operand(r, 1)->rank != n + 2)
        return bad(r, "dim_labels= describes arrays of rank %d, but the operands are %s and %s", n + 2,
                   shown(r, operand_id(r, 0)), shown(r, operand_id(r, 1)));
    return each_dim_once(r, "input", c->lhs_batch, c->lhs_feature, c->lhs_spatial, n) &&
           each_dim_once(r, "kernel", c->rhs_in, c->rhs_out, c->rhs_spatial, n) &&
           each_dim_once(r, "result", c->out_batch, c->out_feature, c->out_spatial, n);
}

static bool check_features(const struct rule *r, const struct conv_dims *c, int64_t fgroups,
                           int64_t bgroups)
{
    int64_t batch = operand(r, 0)->dims[c->lhs_batch], in = operand(r, 0)->dims[c->lhs_feature];
    int64_t kin = operand(r, 1)->dims[c->rhs_in], kout = operand(r, 1)->dims[c->rhs_out];
    if (fgroups <= 0 || bgroups <= 0 || (fgroups > 1 && bgroups > 1))
        return bad(r, "feature_group_count=%" PRId64 " and batch_group_count=%" PRId64
                   " must be positive, and one of them 1", fgroups, bgroups);
    if (in % fgroups || kin != in / fgroups)
        return bad(r, "the input has %" PRId64 " features in %" PRId64
                   " group(s), so the kernel must take %" PRId64 ", but it takes %" PRId64, in,
                   fgroups, in / fgroups, kin);
    if (kout % fgroups || kout % bgroups)
        return bad(r, "the kernel's %" PRId64 " output features do not fall into %" PRId64 " groups",
                   kout, max_i64(fgroups, bgroups));
    if (batch % bgroups)
        return bad(r, "a batch of %" PRId64 " does not fall into %" PRId64 " groups", batch, bgroups);
    return true;
}

bool rule_convolution(struct rule *r)
{
    const struct attr *l = instr_attr(r->in, ATTR_DIM_LABELS);
    if (!l || l->type != ATTR_TYPE_CONV)
        return bad(r, "dim_labels= is missing");
    const struct conv_dims *c = l->conv;
    int64_t fgroups = instr_int(r->in, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t bgroups = instr_int(r->in, ATTR_BATCH_GROUP_COUNT, 1);
    const struct window *w = window_of(r);
    if (!all_arrays(r) || !check_conv_dims(r, c) || !check_window(r, w, c->nspatial) ||
        !check_features(r, c, fgroups, bgroups) || !check_product_types(r))
        return false;
    const struct shape *x = operand(r, 0), *k = operand(r, 1);
    struct dims found = { 0 }, d = { .rank = c->nspatial + 2 };
    for (int i = 0; i < c->nspatial; i++) {
        if (w->dims[i].size != k->dims[c->rhs_spatial[i]])
            return bad(r, "window dimension %d has size %" PRId64 ", but the kernel %s has %" PRId64
                       " there", i, w->dims[i].size, shown(r, operand_id(r, 1)),
                       k->dims[c->rhs_spatial[i]]);
        if (!windowed_dim(r, &w->dims[i], x->dims[c->lhs_spatial[i]], i, &found))
            return false;
        d.v[c->out_spatial[i]] = found.v[i];
    }
    d.v[c->out_batch] = x->dims[c->lhs_batch] / bgroups;
    d.v[c->out_feature] = k->dims[c->rhs_out];
    return give(r, r->declared->dtype, &d);
}

/* ---- reductions --------------------------------------------------------------------------------- */

static bool like_types(enum dtype a, enum dtype b)
{
    return a == b || (dtype_kind(a) == DTYPE_KIND_FLOAT && dtype_kind(b) == DTYPE_KIND_FLOAT);
}

/* The function of a reduction over n arrays: 2n scalars in, n out. types[k]: of result k. */
static bool check_reducer(const struct rule *r, enum attr_key key, int64_t n, enum dtype *types)
{
    comp_id c;
    if (!need_comp(r, key, &c) || !need_params(r, c, 2 * n, "the reducer"))
        return false;
    const struct shape *root = shape_get(r->ir, root_shape(r, c));
    bool tuple = root->kind == SHAPE_TUPLE;
    if (tuple ? root->nelems != n : n != 1)
        return bad(r, "the reducer '%s' must return %" PRId64 " scalar(s), not %s", comp_named(r, c), n,
                   shown(r, root_shape(r, c)));
    for (int64_t k = 0; k < n; k++) {
        const struct shape *e = tuple ? shape_get(r->ir, root->elems[k]) : root;
        if (e->kind != SHAPE_ARRAY || e->rank)
            return bad(r, "the reducer '%s' must return scalars, not %s", comp_named(r, c),
                       shown(r, root_shape(r, c)));
        types[k] = e->dtype;
    }
    for (int64_t k = 0; k < 2 * n; k++) {
        const struct shape *p = shape_get(r->ir, param_shape(r, c, k));
        if (p->kind != SHAPE_ARRAY || p->rank || !like_types(p->dtype, types[k % n]))
            return bad(r, "parameter %" PRId64 " of the reducer '%s' must be %s[], not %s", k,
                       comp_named(r, c), dtype_name(types[k % n]), shown(r, param_shape(r, c, k)));
    }
    return true;
}

/* n arrays of equal dimensions, n scalars to start from, a reducer. */
static bool check_reduction(const struct rule *r, int64_t *n, enum dtype **types)
{
    if (r->in->noperands % 2 || r->in->noperands == 0)
        return bad(r, "takes as many start values as arrays, but has %" PRIu32 " operands",
                   r->in->noperands);
    *n = r->in->noperands / 2;
    *types = ARENA_ARRAY(r->tmp, enum dtype, *n);
    if (!all_arrays(r) || !same_operands(r, 0, *n, false) ||
        !check_reducer(r, ATTR_TO_APPLY, *n, *types))
        return false;
    for (int64_t k = 0; k < *n; k++) {
        const struct shape *init = operand(r, *n + k);
        if (init->rank || !like_types(init->dtype, operand(r, k)->dtype))
            return bad(r, "start value %" PRId64 " must be a scalar of type %s, not %s", k,
                       dtype_name(operand(r, k)->dtype), shown(r, operand_id(r, *n + k)));
        if (!like_types((*types)[k], operand(r, k)->dtype))
            return bad(r, "the reducer returns %s for the elements of %s", dtype_name((*types)[k]),
                       shown(r, operand_id(r, k)));
    }
    return true;
}

static bool give_each(struct rule *r, int64_t n, const enum dtype *types, const struct dims *d)
{
    shape_id *out = ARENA_ARRAY(r->tmp, shape_id, n);
    for (int64_t k = 0; k < n; k++) {
        if (!give(r, types[k], d))
            return false;
        out[k] = r->out;
    }
    return give_all(r, n, out);
}

bool rule_reduce(struct rule *r)
{
    int64_t n;
    enum dtype *types;
    int nd;
    const int64_t *v;
    uint64_t gone;
    if (!check_reduction(r, &n, &types) || !need_attr(r, ATTR_DIMENSIONS) ||
        !need_dims(r, ATTR_DIMENSIONS, operand(r, 0)->rank, &nd, &v, &gone))
        return false;
    const struct shape *x = operand(r, 0);
    struct dims d = { 0 };
    for (int i = 0; i < x->rank; i++)
        if (!(gone >> i & 1))
            dims_add(&d, x->dims[i]);
    return give_each(r, n, types, &d);
}

static bool window_dims(const struct rule *r, const struct shape *x, struct dims *d)
{
    const struct window *w = window_of(r);
    if (!check_window(r, w, x->rank))
        return false;
    for (int i = 0; i < x->rank; i++)
        if (!windowed_dim(r, &w->dims[i], x->dims[i], i, d))
            return false;
    return true;
}

bool rule_reduce_window(struct rule *r)
{
    int64_t n;
    enum dtype *types;
    struct dims d = { 0 };
    return check_reduction(r, &n, &types) && window_dims(r, operand(r, 0), &d) &&
           give_each(r, n, types, &d);
}

bool rule_select_and_scatter(struct rule *r)
{
    comp_id select;
    enum dtype sum;
    struct dims d = { 0 };
    if (!all_arrays(r) || !need_comp(r, ATTR_SELECT, &select) ||
        !need_params(r, select, 2, "the selecting function") ||
        !check_reducer(r, ATTR_SCATTER, 1, &sum) || !window_dims(r, operand(r, 0), &d))
        return false;
    const struct shape *pick = shape_get(r->ir, root_shape(r, select));
    if (pick->kind != SHAPE_ARRAY || pick->rank || pick->dtype != DTYPE_PRED)
        return bad(r, "the selecting function '%s' must return pred[], not %s",
                   comp_named(r, select), shown(r, root_shape(r, select)));
    const struct shape *source = operand(r, 1), *init = operand(r, 2);
    if (source->rank != d.rank || memcmp(source->dims, d.v, (size_t)d.rank * sizeof *d.v) != 0)
        return bad(r, "the source %s must have the dimensions of the windowed operand, %s",
                   shown(r, operand_id(r, 1)), shown_dims(r, d.rank, d.v));
    if (init->rank || !like_types(init->dtype, source->dtype) ||
        !like_types(source->dtype, operand(r, 0)->dtype))
        return bad(r, "operand %s, source %s and start value %s must have one element type",
                   shown(r, operand_id(r, 0)), shown(r, operand_id(r, 1)),
                   shown(r, operand_id(r, 2)));
    return give_shape(r, operand_id(r, 0));
}

/* ---- linear algebra ----------------------------------------------------------------------------- */

static bool need_square(const struct rule *r, int64_t k)
{
    if (!need_array(r, k))
        return false;
    const struct shape *a = operand(r, k);
    if (a->rank < 2 || a->dims[a->rank - 1] != a->dims[a->rank - 2] || !is_floating(a->dtype))
        return bad(r, "operand %" PRId64 " must be square matrices of floats, not %s", k,
                   shown(r, operand_id(r, k)));
    return true;
}

bool rule_cholesky(struct rule *r)
{
    return need_square(r, 0) && give_shape(r, operand_id(r, 0));
}

bool rule_triangular_solve(struct rule *r)
{
    if (!need_square(r, 0) || !need_array(r, 1) || !need_transpose_word(r))
        return false;
    const struct shape *a = operand(r, 0), *b = operand(r, 1);
    bool left = instr_bool(r->in, ATTR_LEFT_SIDE, false);
    bool fits = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->dims[i] == b->dims[i];
    if (!fits || b->dims[b->rank - (left ? 2 : 1)] != a->dims[a->rank - 1])
        return bad(r, "%s cannot be solved for %s with left_side=%s", shown(r, operand_id(r, 0)),
                   shown(r, operand_id(r, 1)), left ? "true" : "false");
    return give_shape(r, operand_id(r, 1));
}

/* Real transforms halve the last dimension: n/2 + 1 complex numbers for n real ones. */
bool rule_fft(struct rule *r)
{
    int n;
    if (!need_array(r, 0))
        return false;
    const int64_t *len = instr_ints(r->in, ATTR_FFT_LENGTH, &n);
    const struct shape *x = operand(r, 0);
    bool real_in = instr_is(r->m, r->in, ATTR_FFT_TYPE, "RFFT");
    bool real_out = instr_is(r->m, r->in, ATTR_FFT_TYPE, "IRFFT");
    if (!real_in && !real_out && !instr_is(r->m, r->in, ATTR_FFT_TYPE, "FFT") &&
        !instr_is(r->m, r->in, ATTR_FFT_TYPE, "IFFT"))
        return bad(r, "fft_type= must be FFT, IFFT, RFFT or IRFFT");
    if (n < 1 || n > 3 || n > x->rank)
        return bad(r, "fft_length=%s must have one to three sizes, not more than the operand's rank %d",
                   shown_dims(r, n, len), x->rank);
    bool single = x->dtype == DTYPE_F32 || x->dtype == DTYPE_C64;
    if (!is_floating(x->dtype) || (dtype_kind(x->dtype) == DTYPE_KIND_COMPLEX) == real_in)
        return bad(r, "the operand must be %s, not %s", real_in ? "real" : "complex",
                   shown(r, operand_id(r, 0)));
    struct dims d = { 0 };
    for (int i = 0; i < x->rank; i++)
        dims_add(&d, x->dims[i]);
    for (int i = 0; i < n; i++) {
        int at = x->rank - n + i;
        bool last = i == n - 1;
        int64_t want = real_out && last ? len[i] / 2 + 1 : len[i];
        if (len[i] < 0 || (x->dims[at] != want && x->count != 0))
            return bad(r, "fft_length=%s does not fit the operand %s", shown_dims(r, n, len),
                       shown(r, operand_id(r, 0)));
        if (last && real_in)
            d.v[at] = len[i] / 2 + 1;
        else if (last && real_out)
            d.v[at] = len[i];
    }
    enum dtype complex = single ? DTYPE_C64 : DTYPE_C128, real = single ? DTYPE_F32 : DTYPE_F64;
    return give(r, real_out ? real : complex, &d);
}

/* ---- normalisation, sizes ----------------------------------------------------------------------- */

/* Vectors of one number a feature from operand 1 on. */
static bool check_features_of(const struct rule *r, int64_t from, int64_t to, int64_t *features)
{
    if (!all_arrays(r) || !need_attr(r, ATTR_FEATURE_INDEX))
        return false;
    int64_t f = instr_int(r->in, ATTR_FEATURE_INDEX, -1);
    if (f < 0 || f >= operand(r, 0)->rank)
        return bad(r, "feature_index=%" PRId64 ", but the operand has rank %d", f,
                   operand(r, 0)->rank);
    *features = operand(r, 0)->dims[f];
    for (int64_t k = from; k < to; k++)
        if (operand(r, k)->rank != 1 || operand(r, k)->dims[0] != *features)
            return bad(r, "operand %" PRId64 " must hold a number for each of %" PRId64
                       " features, but is %s", k, *features, shown(r, operand_id(r, k)));
    return true;
}

static bool give_with_features(struct rule *r)
{
    const struct shape *v = operand(r, 1);
    shape_id vector = shape_array(r->ir, v->dtype, 1, v->dims);
    shape_id all[3] = { operand(r, 0)->strip, vector, vector };
    return give_shape(r, shape_tuple(r->ir, 3, all));
}

bool rule_batch_norm_training(struct rule *r)
{
    int64_t f;
    return check_features_of(r, 1, 3, &f) && give_with_features(r);
}

bool rule_batch_norm_inference(struct rule *r)
{
    int64_t f;
    return check_features_of(r, 1, 5, &f) && give_shape(r, operand_id(r, 0));
}

bool rule_batch_norm_grad(struct rule *r)
{
    int64_t f;
    if (!check_features_of(r, 1, 4, &f))
        return false;
    if (!shape_same_dims(r->ir, operand_id(r, 0), operand_id(r, 4)))
        return bad(r, "the gradient %s must have the operand's dimensions, %s",
                   shown(r, operand_id(r, 4)), shown(r, operand_id(r, 0)));
    return give_with_features(r);
}

static bool need_size_dim(const struct rule *r)
{
    int n;
    const int64_t *v;
    uint64_t seen;
    if (!need_array(r, 0) || !need_dims(r, ATTR_DIMENSIONS, operand(r, 0)->rank, &n, &v, &seen))
        return false;
    return n == 1 || bad(r, "dimensions=%s must name one dimension", shown_dims(r, n, v));
}

bool rule_get_dimension_size(struct rule *r)
{
    struct dims scalar = { 0 };
    return need_size_dim(r) && give(r, DTYPE_S32, &scalar);
}

bool rule_set_dimension_size(struct rule *r)
{
    if (!need_size_dim(r) || !need_integer(r, 1))
        return false;
    if (operand(r, 1)->rank)
        return bad(r, "the size must be a scalar, not %s", shown(r, operand_id(r, 1)));
    return give_shape(r, operand_id(r, 0));
}

bool rule_topk(struct rule *r)
{
    if (!need_array(r, 0) || !need_attr(r, ATTR_K))
        return false;
    const struct shape *x = operand(r, 0);
    int64_t k = instr_int(r->in, ATTR_K, -1);
    if (x->rank == 0 || k < 0 || k > x->dims[x->rank - 1])
        return bad(r, "cannot take k=%" PRId64 " of the last dimension of %s", k,
                   shown(r, operand_id(r, 0)));
    struct dims d = { 0 };
    for (int i = 0; i < x->rank; i++)
        dims_add(&d, i == x->rank - 1 ? k : x->dims[i]);
    shape_id both[2] = { shape_array(r->ir, x->dtype, d.rank, d.v),
                         shape_array(r->ir, DTYPE_S32, d.rank, d.v) };
    return give_shape(r, shape_tuple(r->ir, 2, both));
}
