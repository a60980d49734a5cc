/* Shape inference of operations that move data: broadcast to gather, scatter and sort. */
#include "ir/infer.h"

static struct dims dims_of(const struct shape *s)
{
    struct dims d = { 0 };
    for (int i = 0; i < s->rank; i++)
        dims_add(&d, s->dims[i]);
    return d;
}

bool rule_broadcast(struct rule *r)
{
    const struct shape *in = operand(r, 0), *out = r->declared;
    int n;
    const int64_t *v;
    uint64_t seen;
    if (!need_array(r, 0))
        return false;
    if (out->kind != SHAPE_ARRAY)
        return bad(r, "the result must be an array, not %s", shown(r, r->in->shape));
    if (!need_dims(r, ATTR_DIMENSIONS, out->rank, &n, &v, &seen))
        return false;
    if (n != in->rank)
        return bad(r, "dimensions=%s places %d dimensions, but the operand %s has %d",
                   shown_dims(r, n, v), n, shown(r, operand_id(r, 0)), in->rank);
    for (int i = 0; i < n; i++)
        if (in->dims[i] != out->dims[v[i]])
            return bad(r, "dimension %d of the operand %s becomes dimension %" PRId64
                       " of the result %s, but the sizes are %" PRId64 " and %" PRId64,
                       i, shown(r, operand_id(r, 0)), v[i], shown(r, r->in->shape), in->dims[i],
                       out->dims[v[i]]);
    struct dims d = dims_of(out);
    return give(r, in->dtype, &d);
}

bool rule_reshape(struct rule *r)
{
    if (!need_array(r, 0))
        return false;
    const struct shape *in = operand(r, 0), *out = r->declared;
    if (out->kind != SHAPE_ARRAY)
        return bad(r, "the result must be an array, not %s", shown(r, r->in->shape));
    if (in->count != out->count)
        return bad(r, "the %" PRId64 " elements of %s cannot become the %" PRId64 " elements of %s",
                   in->count, shown(r, operand_id(r, 0)), out->count, shown(r, r->in->shape));
    struct dims d = dims_of(out);
    return give(r, in->dtype, &d);
}

bool rule_transpose(struct rule *r)
{
    if (!need_array(r, 0))
        return false;
    const struct shape *in = operand(r, 0);
    int n;
    const int64_t *v;
    uint64_t seen;
    if (!need_dims(r, ATTR_DIMENSIONS, in->rank, &n, &v, &seen))
        return false;
    if (n != in->rank)
        return bad(r, "dimensions=%s must be a permutation of the operand's %d dimensions",
                   shown_dims(r, n, v), in->rank);
    struct dims d = { 0 };
    for (int i = 0; i < n; i++)
        dims_add(&d, in->dims[v[i]]);
    return give(r, in->dtype, &d);
}

bool rule_reverse(struct rule *r)
{
    int n;
    const int64_t *v;
    uint64_t seen;
    return need_array(r, 0) && need_dims(r, ATTR_DIMENSIONS, operand(r, 0)->rank, &n, &v, &seen) &&
           give_shape(r, operand_id(r, 0));
}

/* The one dimension of concatenate, sort, all-gather. */
static bool need_one_dim(const struct rule *r, int rank, int64_t *dim)
{
    int n;
    const int64_t *v;
    uint64_t seen;
    if (!need_attr(r, ATTR_DIMENSIONS) || !need_dims(r, ATTR_DIMENSIONS, rank, &n, &v, &seen))
        return false;
    if (n != 1)
        return bad(r, "dimensions=%s must name one dimension", shown_dims(r, n, v));
    *dim = v[0];
    return true;
}

bool rule_concatenate(struct rule *r)
{
    int64_t dim;
    if (!all_arrays(r) || !need_one_dim(r, operand(r, 0)->rank, &dim))
        return false;
    const struct shape *first = operand(r, 0);
    struct dims d = dims_of(first);
    for (uint32_t k = 1; k < r->in->noperands; k++) {
        const struct shape *s = operand(r, k);
        bool fits = s->rank == first->rank && s->dtype == first->dtype;
        for (int i = 0; fits && i < s->rank; i++)
            fits = i == dim || s->dims[i] == first->dims[i];
        if (!fits)
            return bad(r, "operand %" PRIu32 " is %s, which does not fit behind operand 0, %s, along "
                       "dimension %" PRId64, k, shown(r, operand_id(r, k)),
                       shown(r, operand_id(r, 0)), dim);
        if (!add_ok(d.v[dim], s->dims[dim], &d.v[dim]))
            return bad(r, "the size of the result does not fit in 64 bits");
    }
    return give(r, first->dtype, &d);
}

/* ---- pad and slices ----------------------------------------------------------------------------- */

/* size + low + high + (size - 1) * interior, checked. */
static bool padded_size(int64_t size, const int64_t *p, int64_t *out)
{
    int64_t between;
    return mul_ok(max_i64(size - 1, 0), p[2], &between) && add_ok(size, between, out) &&
           add_ok(*out, p[0], out) && add_ok(*out, p[1], out);
}

bool rule_pad(struct rule *r)
{
    if (!all_arrays(r))
        return false;
    const struct shape *in = operand(r, 0), *fill = operand(r, 1);
    if (fill->rank || fill->dtype != in->dtype)
        return bad(r, "the padding value must be a scalar of type %s, not %s",
                   dtype_name(in->dtype), shown(r, operand_id(r, 1)));
    int n;
    const int64_t *v = instr_ints(r->in, ATTR_PADDING, &n);
    if (n != 3 * in->rank)
        return bad(r, "padding= describes %d dimensions, but the operand %s has %d", n / 3,
                   shown(r, operand_id(r, 0)), in->rank);
    struct dims d = { 0 };
    for (int i = 0; i < in->rank; i++) {
        const int64_t *p = v + 3 * i;
        int64_t size;
        if (p[2] < 0)
            return bad(r, "the interior padding of dimension %d is negative: %" PRId64, i, p[2]);
        if (!padded_size(in->dims[i], p, &size))
            return bad(r, "the padded size of dimension %d does not fit in 64 bits", i);
        if (size < 0)
            return bad(r, "dimension %d of size %" PRId64 " cannot lose %" PRId64 " elements", i,
                       in->dims[i], in->dims[i] - size);
        dims_add(&d, size);
    }
    return give(r, in->dtype, &d);
}

bool rule_slice(struct rule *r)
{
    if (!need_array(r, 0))
        return false;
    const struct shape *in = operand(r, 0);
    int n;
    const int64_t *v = instr_ints(r->in, ATTR_SLICE, &n);
    if (n != 3 * in->rank)
        return bad(r, "slice= describes %d dimensions, but the operand %s has %d", n / 3,
                   shown(r, operand_id(r, 0)), in->rank);
    struct dims d = { 0 };
    for (int i = 0; i < in->rank; i++) {
        int64_t from = v[3 * i], to = v[3 * i + 1], step = v[3 * i + 2];
        if (from < 0 || from > to || to > in->dims[i])
            return bad(r, "[%" PRId64 ":%" PRId64 "] is no part of dimension %d, whose size is %" PRId64,
                       from, to, i, in->dims[i]);
        if (step <= 0)
            return bad(r, "the stride of dimension %d must be positive, not %" PRId64, i, step);
        dims_add(&d, ceil_div(to - from, step));
    }
    return give(r, in->dtype, &d);
}

/* Start indices of dynamic-slice and dynamic-update-slice: one integer scalar a dimension, or (older
 * text) one vector of them. */
static bool check_starts(const struct rule *r, int64_t from, int rank)
{
    int64_t n = r->in->noperands - from;
    if (n == 1 && operand(r, from)->kind == SHAPE_ARRAY && operand(r, from)->rank == 1) {
        if (!need_integer(r, from))
            return false;
        return operand(r, from)->dims[0] == rank ||
               bad(r, "operand %" PRId64 " must hold %d start indices, but is %s", from, rank,
                   shown(r, operand_id(r, from)));
    }
    if (n != rank)
        return bad(r, "has %" PRId64 " start indices for an operand of rank %d", n, rank);
    for (int64_t k = from; k < from + n; k++) {
        if (!need_integer(r, k))
            return false;
        if (operand(r, k)->rank)
            return bad(r, "start index %" PRId64 " must be a scalar, not %s", k - from,
                       shown(r, operand_id(r, k)));
    }
    return true;
}

bool rule_dynamic_slice(struct rule *r)
{
    if (!need_array(r, 0))
        return false;
    const struct shape *in = operand(r, 0);
    int n;
    const int64_t *v = instr_ints(r->in, ATTR_DYNAMIC_SLICE_SIZES, &n);
    if (n != in->rank)
        return bad(r, "dynamic_slice_sizes=%s has %d sizes, but the operand %s has rank %d",
                   shown_dims(r, n, v), n, shown(r, operand_id(r, 0)), in->rank);
    struct dims d = { 0 };
    for (int i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] > in->dims[i])
            return bad(r, "cannot take %" PRId64 " of the %" PRId64 " elements of dimension %d", v[i],
                       in->dims[i], i);
        dims_add(&d, v[i]);
    }
    return check_starts(r, 1, in->rank) && give(r, in->dtype, &d);
}

bool rule_dynamic_update_slice(struct rule *r)
{
    if (!need_array(r, 0) || !need_array(r, 1))
        return false;
    const struct shape *in = operand(r, 0), *up = operand(r, 1);
    bool fits = in->rank == up->rank && in->dtype == up->dtype;
    for (int i = 0; fits && i < in->rank; i++)
        fits = up->dims[i] <= in->dims[i];
    if (!fits)
        return bad(r, "the update %s does not fit into the operand %s", shown(r, operand_id(r, 1)),
                   shown(r, operand_id(r, 0)));
    return check_starts(r, 2, in->rank) && give_shape(r, operand_id(r, 0));
}

/* ---- gather and scatter ------------------------------------------------------------------------- */

/* The attributes of both, under the names they have in common. */
struct gather_dims {
    int nwindow, ninserted, nmap, nbatch, nindex_batch;
    const int64_t *window, *inserted, *map, *batch, *index_batch;
    uint64_t in_window, in_inserted, in_map, in_batch, in_index_batch; /* bit sets */
    int64_t vector;        /* dimension of the index vectors */
    int64_t vector_length;
};

static bool sorted(const struct rule *r, enum attr_key k, int n, const int64_t *v)
{
    for (int i = 1; i < n; i++)
        if (v[i - 1] >= v[i])
            return bad(r, "%s=%s must be ascending", attr_name(k), shown_dims(r, n, v));
    return true;
}

struct gather_keys {
    enum attr_key window, inserted, map, batch, index_batch;
};

static const struct gather_keys gather_keys = { ATTR_OFFSET_DIMS, ATTR_COLLAPSED_SLICE_DIMS,
                                                ATTR_START_INDEX_MAP, ATTR_OPERAND_BATCHING_DIMS,
                                                ATTR_START_INDICES_BATCHING_DIMS };
static const struct gather_keys scatter_keys = { ATTR_UPDATE_WINDOW_DIMS, ATTR_INSERTED_WINDOW_DIMS,
                                                 ATTR_SCATTER_DIMS_TO_OPERAND_DIMS,
                                                 ATTR_INPUT_BATCHING_DIMS,
                                                 ATTR_SCATTER_INDICES_BATCHING_DIMS };

/* x: the operand; ids: the indices; rank: of the windowed side (gather's result, scatter's update). */
static bool read_gather(const struct rule *r, const struct gather_keys *k, const struct shape *x,
                        const struct shape *ids, int rank, struct gather_dims *g)
{
    g->vector = instr_int(r->in, ATTR_INDEX_VECTOR_DIM, ids->rank);
    if (g->vector < 0 || g->vector > ids->rank)
        return bad(r, "index_vector_dim=%" PRId64 ", but the indices have rank %d", g->vector,
                   ids->rank);
    g->vector_length = g->vector == ids->rank ? 1 : ids->dims[g->vector];
    if (!need_dims(r, k->window, rank, &g->nwindow, &g->window, &g->in_window) ||
        !sorted(r, k->window, g->nwindow, g->window) ||
        !need_dims(r, k->inserted, x->rank, &g->ninserted, &g->inserted, &g->in_inserted) ||
        !sorted(r, k->inserted, g->ninserted, g->inserted) ||
        !need_dims(r, k->map, x->rank, &g->nmap, &g->map, &g->in_map) ||
        !need_dims(r, k->batch, x->rank, &g->nbatch, &g->batch, &g->in_batch) ||
        !sorted(r, k->batch, g->nbatch, g->batch) ||
        !need_dims(r, k->index_batch, ids->rank, &g->nindex_batch, &g->index_batch,
                   &g->in_index_batch))
        return false;
    if (g->nmap != g->vector_length)
        return bad(r, "%s=%s has %d entries, but an index vector has %" PRId64, attr_name(k->map),
                   shown_dims(r, g->nmap, g->map), g->nmap, g->vector_length);
    if (g->in_inserted & g->in_batch || g->in_map & g->in_batch)
        return bad(r, "%s=%s also occurs in %s or %s", attr_name(k->batch),
                   shown_dims(r, g->nbatch, g->batch), attr_name(k->inserted), attr_name(k->map));
    if (g->nbatch != g->nindex_batch)
        return bad(r, "%s= and %s= must be of one length", attr_name(k->batch),
                   attr_name(k->index_batch));
    for (int i = 0; i < g->nbatch; i++) {
        if (g->index_batch[i] == g->vector)
            return bad(r, "%s= names the dimension of the index vectors", attr_name(k->index_batch));
        if (x->dims[g->batch[i]] != ids->dims[g->index_batch[i]])
            return bad(r, "batch dimension %" PRId64 " of the operand has size %" PRId64
                       ", its partner in the indices %" PRId64, g->batch[i], x->dims[g->batch[i]],
                       ids->dims[g->index_batch[i]]);
    }
    if (g->nwindow + g->ninserted + g->nbatch != x->rank)
        return bad(r, "%s, %s and %s name %d dimensions together, but the operand has rank %d",
                   attr_name(k->window), attr_name(k->inserted), attr_name(k->batch),
                   g->nwindow + g->ninserted + g->nbatch, x->rank);
    return true;
}

/* Batch dimension number *at of the indices, the vectors' dimension left out. */
static int64_t next_index_dim(const struct shape *ids, const struct gather_dims *g, int *at)
{
    if (*at == g->vector)
        (*at)++;
    return ids->dims[(*at)++];
}

bool rule_gather(struct rule *r)
{
    if (!need_array(r, 0) || !need_integer(r, 1))
        return false;
    const struct shape *x = operand(r, 0), *ids = operand(r, 1);
    int noffset;
    (void)instr_ints(r->in, ATTR_OFFSET_DIMS, &noffset);
    int rank = noffset + ids->rank - (instr_int(r->in, ATTR_INDEX_VECTOR_DIM, ids->rank) < ids->rank);
    struct gather_dims g;
    if (rank > MAX_DIMS)
        return bad(r, "the result has more than %d dimensions", MAX_DIMS);
    if (!read_gather(r, &gather_keys, x, ids, rank, &g))
        return false;
    int n;
    const int64_t *sizes = instr_ints(r->in, ATTR_SLICE_SIZES, &n);
    if (n != x->rank)
        return bad(r, "slice_sizes=%s has %d sizes, but the operand has rank %d",
                   shown_dims(r, n, sizes), n, x->rank);
    for (int i = 0; i < n; i++) {
        bool single = (g.in_inserted | g.in_batch) >> i & 1;
        if (sizes[i] < 0 || sizes[i] > x->dims[i] || (single && sizes[i] > 1))
            return bad(r, "slice_sizes=%s: size %" PRId64 " of dimension %d does not fit %s%s",
                       shown_dims(r, n, sizes), sizes[i], i, shown(r, operand_id(r, 0)),
                       single && sizes[i] > 1 ? ": a collapsed or batch dimension is 1 long" : "");
    }
    struct dims d = { 0 };
    int next_window = 0, next_index = 0;
    for (int i = 0; i < rank; i++) {
        if (g.in_window >> i & 1) {
            while ((g.in_inserted | g.in_batch) >> next_window & 1)
                next_window++;
            dims_add(&d, sizes[next_window++]);
        } else {
            dims_add(&d, next_index_dim(ids, &g, &next_index));
        }
    }
    return give(r, x->dtype, &d);
}

/* The update's window must fit the operand, its other dimensions are those of the indices. */
static bool check_update(const struct rule *r, int64_t k, const struct shape *x,
                         const struct shape *ids, const struct gather_dims *g)
{
    const struct shape *up = operand(r, k);
    int next_window = 0, next_index = 0;
    for (int i = 0; i < up->rank; i++) {
        if (g->in_window >> i & 1) {
            while ((g->in_inserted | g->in_batch) >> next_window & 1)
                next_window++;
            if (up->dims[i] > x->dims[next_window])
                return bad(r, "window dimension %d of the update %s is larger than dimension %d of the "
                           "operand, %" PRId64, i, shown(r, operand_id(r, k)), next_window,
                           x->dims[next_window]);
            next_window++;
            continue;
        }
        int64_t want = next_index_dim(ids, g, &next_index);
        if (up->dims[i] != want)
            return bad(r, "dimension %d of the update %s must have the size %" PRId64
                       " of the indices", i, shown(r, operand_id(r, k)), want);
    }
    return true;
}

static bool check_scatter_function(const struct rule *r, int64_t n)
{
    comp_id c;
    return need_comp(r, ATTR_TO_APPLY, &c) && need_params(r, c, 2 * n, "the update function");
}

bool rule_scatter(struct rule *r)
{
    int64_t n = r->in->noperands / 2; /* operands, indices, updates */
    if (r->in->noperands % 2 == 0)
        return bad(r, "takes n operands, indices and n updates, but has %" PRIu32 " operands",
                   r->in->noperands);
    if (!all_arrays(r) || !need_integer(r, n) || !same_operands(r, 0, n, false) ||
        !same_operands(r, n + 1, n, false))
        return false;
    const struct shape *x = operand(r, 0), *ids = operand(r, n), *up = operand(r, n + 1);
    struct gather_dims g;
    if (!read_gather(r, &scatter_keys, x, ids, up->rank, &g))
        return false;
    int rank = g.nwindow + ids->rank - (g.vector < ids->rank);
    if (up->rank != rank)
        return bad(r, "the update %s must have rank %d: %d of the window, %d of the indices",
                   shown(r, operand_id(r, n + 1)), rank, g.nwindow, rank - g.nwindow);
    if (!check_update(r, n + 1, x, ids, &g) || !check_scatter_function(r, n))
        return false;
    shape_id *out = ARENA_ARRAY(r->tmp, shape_id, n);
    for (int64_t k = 0; k < n; k++) {
        if (operand(r, k)->dtype != operand(r, n + 1 + k)->dtype)
            return bad(r, "operand %" PRId64 " is %s, its update is %s: the element types must be equal",
                       k, shown(r, operand_id(r, k)), shown(r, operand_id(r, n + 1 + k)));
        out[k] = operand(r, k)->strip;
    }
    return give_all(r, n, out);
}

/* ---- sort --------------------------------------------------------------------------------------- */

bool rule_sort(struct rule *r)
{
    int64_t n = r->in->noperands, dim;
    if (!all_arrays(r) || !same_operands(r, 0, n, false))
        return false;
    if (!(operand(r, 0)->rank == 1 && !instr_attr(r->in, ATTR_DIMENSIONS)) &&
        !need_one_dim(r, operand(r, 0)->rank, &dim))
        return false;
    comp_id c;
    if (!need_comp(r, ATTR_TO_APPLY, &c) || !need_params(r, c, 2 * n, "the comparator"))
        return false;
    for (int64_t k = 0; k < 2 * n; k++) {
        const struct shape *p = shape_get(r->ir, param_shape(r, c, k));
        if (p->kind != SHAPE_ARRAY || p->rank || p->dtype != operand(r, k / 2)->dtype)
            return bad(r, "parameter %" PRId64 " of the comparator '%s' must be %s[], not %s", k,
                       comp_named(r, c), dtype_name(operand(r, k / 2)->dtype),
                       shown(r, param_shape(r, c, k)));
    }
    const struct shape *root = shape_get(r->ir, root_shape(r, c));
    if (root->kind != SHAPE_ARRAY || root->rank || root->dtype != DTYPE_PRED)
        return bad(r, "the comparator '%s' must return pred[], not %s", comp_named(r, c),
                   shown(r, root_shape(r, c)));
    shape_id *out = ARENA_ARRAY(r->tmp, shape_id, n);
    for (int64_t k = 0; k < n; k++)
        out[k] = operand(r, k)->strip;
    return give_all(r, n, out);
}
