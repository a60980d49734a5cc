/* Attributes of StableHLO operations to those of HLO: dimension numbers, windows, groups. */
#include "text/mlir_emit.h"

/* ---- attributes -------------------------------------------------------------------------------- */

void mnum_add(struct mlir *r, struct attr a)
{
    vec_push(&r->tmp, &r->out, a);
}

bool mnum_add_ints(struct mlir *r, const struct mop *op, enum attr_key k, const char *key, const char *other)
{
    if (!mints_of(r, op, key, other, -1))
        return false;
    mnum_add(r, mattr_ints(r, k, (int)r->ints.n, r->ints.v));
    return true;
}

void mnum_add_word(struct mlir *r, enum attr_key k, const char *word, uint32_t n)
{
    mnum_add(r, attr_ident(r->m, k, arena_strndup(&r->scratch, word, n)));
}

void mnum_add_bool(struct mlir *r, enum attr_key k, bool v)
{
    struct attr a = attr_int(k, v);
    a.type = ATTR_TYPE_BOOL;
    mnum_add(r, a);
}

/* A dictionary inside <..>: #stablehlo.gather<offset_dims = [1], ..>. */
static bool mnum_nested_ints(struct mlir *r, const struct mattr *a, enum attr_key k, const char *key, bool always)
{
    struct mattr in = { 0 };
    const char *p = a && a->val ? memchr(a->val, '<', a->vlen) : NULL;
    r->ints.n = 0;
    if (p) {
        const char *end = mbalanced(p, a->val + a->vlen);
        if (end && mdict_find(p + 1, (uint32_t)(end - p - 2), key, &in) && !mints(r, &in, -1))
            return false;
    }
    if (k && (always || r->ints.n))
        mnum_add(r, mattr_ints(r, k, (int)r->ints.n, r->ints.v));
    return true;
}

static bool mnum_nested_int(struct mlir *r, const struct mattr *a, enum attr_key k, const char *key, int64_t dflt)
{
    if (!mnum_nested_ints(r, a, ATTR_NONE, key, false))
        return false;
    mnum_add(r, attr_int(k, r->ints.n ? r->ints.v[0] : dflt));
    return true;
}

comp_id mnum_region_comp(struct mlir *r, const struct mop *op, uint32_t k)
{
    if (r->probing)
        return mprobe_comp(r, op, k);
    return k < op->nregions ? op->regions[k]->comp : (comp_id){ 0 };
}

/* ---- dot, convolution, windows ----------------------------------------------------------------- */

/* batching_dims = [0] x [1]: the list before or behind the x. */
static bool half(struct mlir *r, const struct mattr *a, int side)
{
    r->ints.n = 0;
    if (!a || !a->val)
        return true;
    const char *p = a->val, *end = p + a->vlen;
    const char *close = mbalanced(p, end);
    if (!close)
        return MFAIL(r, p, 1, "expected [..] x [..]");
    struct mattr part = { .val = p, .vlen = (uint32_t)(close - p) };
    if (side == 1) {
        while (close < end && *close != '[')
            close++;
        part.val = close;
        part.vlen = (uint32_t)(end - close);
        if (close >= end)
            return MFAIL(r, p, 1, "expected [..] x [..]");
    }
    return mints(r, &part, -1);
}

static bool mnum_add_precision(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr2(op, "precision", "precision_config");
    if (!a || !a->val)
        return true;
    const char *p = a->val, *end = p + a->vlen;
    struct str s = STR_IN(&r->scratch);
    bool odd = false;
    str_addc(&s, '{');
    while (p < end) {
        size_t w = mword(p);
        bool high = mtext(p, w, "HIGH") || mtext(p, w, "HIGHEST"), dflt = mtext(p, w, "DEFAULT");
        if (high || dflt) {
            str_adds(&s, s.n > 1 ? "," : "");
            str_adds(&s, dflt ? "default" : w == 4 ? "high" : "highest");
            odd |= high;
        }
        p += w ? w : 1;
    }
    str_addc(&s, '}');
    if (odd) {
        struct attr at = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, str_text(&s));
        at.key = ATTR_OPERAND_PRECISION;
        at.type = ATTR_TYPE_RAW;
        mnum_add(r, at);
    }
    return true;
}

bool mnum_add_dot(struct mlir *r, struct mop *op)
{
    const struct mattr *nums = mattr(op, "dot_dimension_numbers");
    static const struct {
        enum attr_key k;
        const char *nested, *pretty;
        int side;
    } rows[] = { { ATTR_LHS_BATCH, "lhs_batching_dimensions", "batching_dims", 0 },
                 { ATTR_LHS_CONTRACTING, "lhs_contracting_dimensions", "contracting_dims", 0 },
                 { ATTR_RHS_BATCH, "rhs_batching_dimensions", "batching_dims", 1 },
                 { ATTR_RHS_CONTRACTING, "rhs_contracting_dimensions", "contracting_dims", 1 } };
    if (!nums && mtext(op->name + (op->nname > 4 ? op->nname - 4 : 0), op->nname > 4 ? 4 : 0, ".dot")) {
        int64_t d = mshape(r, op->operands[0])->rank - 1, zero = 0;
        mnum_add(r, mattr_ints(r, ATTR_LHS_CONTRACTING, 1, &d));
        mnum_add(r, mattr_ints(r, ATTR_RHS_CONTRACTING, 1, &zero));
        return mnum_add_precision(r, op);
    }
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (nums) {
            if (!mnum_nested_ints(r, nums, rows[i].k, rows[i].nested, false))
                return false;
        } else {
            if (!half(r, mattr(op, rows[i].pretty), rows[i].side))
                return false;
            if (r->ints.n)
                mnum_add(r, mattr_ints(r, rows[i].k, (int)r->ints.n, r->ints.v));
        }
    }
    return mnum_add_precision(r, op);
}

/* A key of the pretty convolution's window = {stride = [..], ..}, or the operation's own. */
static bool window_ints(struct mlir *r, const struct mop *op, const char *pretty, const char *generic, int64_t n)
{
    const struct mattr *w = mattr(op, "window");
    struct mattr in;
    r->ints.n = 0;
    if (w && w->val && mdict_find(w->val, w->vlen, pretty, &in))
        return mints(r, &in, n);
    return mints_of(r, op, generic, NULL, n);
}

static bool add_window(struct mlir *r, const struct mop *op, int rank, const int64_t *size, bool conv)
{
    struct window_dim *d = ARENA_ARRAY(&r->m->arena, struct window_dim, rank + 1);
    for (int i = 0; i < rank; i++)
        d[i] = (struct window_dim){ .size = size[i], .stride = 1, .base_dilation = 1, .window_dilation = 1 };
    if (!window_ints(r, op, "stride", "window_strides", rank))
        return false;
    for (int i = 0; i < rank && i < r->ints.n; i++)
        d[i].stride = r->ints.v[i];
    if (!window_ints(r, op, "pad", "padding", 2 * rank))
        return false;
    for (int i = 0; i < rank && 2 * i + 1 < r->ints.n; i++) {
        d[i].pad_low = r->ints.v[2 * i];
        d[i].pad_high = r->ints.v[2 * i + 1];
    }
    if (!window_ints(r, op, "lhs_dilate", conv ? "lhs_dilation" : "base_dilations", rank))
        return false;
    for (int i = 0; i < rank && i < r->ints.n; i++)
        d[i].base_dilation = r->ints.v[i];
    if (!window_ints(r, op, "rhs_dilate", conv ? "rhs_dilation" : "window_dilations", rank))
        return false;
    for (int i = 0; i < rank && i < r->ints.n; i++)
        d[i].window_dilation = r->ints.v[i];
    if (!window_ints(r, op, "reverse", "window_reversal", rank))
        return false;
    for (int i = 0; i < rank && i < r->ints.n; i++)
        d[i].reversal = r->ints.v[i] != 0;
    mnum_add(r, attr_window(r->m, rank, d));
    return true;
}

/* [b, 0, 1, f] at *pp. */
static bool labels(const char **pp, const char *end, char first, char second, int *a, int *b, int *spatial,
                   int *nspatial)
{
    const char *p = *pp;
    int n = 0, ns = 0;
    *a = *b = -1;
    while (p < end && *p != '[')
        p++;
    if (p >= end)
        return false;
    for (p++; p < end && *p != ']'; p++) {
        if (mis(*p, MC_SPACE) || *p == ',')
            continue;
        if (*p == first) {
            *a = n++;
        } else if (*p == second) {
            *b = n++;
        } else if (mis(*p, MC_DIGIT)) {
            int64_t k;
            size_t used = parse_i64(p, (size_t)(end - p), &k);
            if (!used || k > 11)
                return false;
            spatial[k] = n++;
            ns++;
            p += used - 1;
        } else {
            return false;
        }
    }
    *nspatial = ns;
    *pp = p;
    return *a >= 0 && *b >= 0;
}

static bool raw_ints(struct mlir *r, const struct mattr *a, const char *key, int *out, int max, int *n)
{
    if (!mnum_nested_ints(r, a, ATTR_NONE, key, false))
        return false;
    *n = (int)min_i64(r->ints.n, max);
    for (int i = 0; i < *n; i++)
        out[i] = (int)r->ints.v[i];
    return true;
}

static bool raw_one(struct mlir *r, const struct mattr *a, const char *key, int *out)
{
    int n;
    if (!raw_ints(r, a, key, out, 1, &n))
        return false;
    if (n == 0)
        *out = 0;
    return true;
}

static bool conv_numbers(struct mlir *r, const struct mop *op, struct conv_dims *c)
{
    const struct mattr *a = mattr2(op, "dim_numbers", "dimension_numbers");
    if (!a || !a->val)
        return MFAIL(r, op->at, op->nat, "this convolution has no dimension numbers");
    int n1, n2, n3;
    if (memmem(a->val, a->vlen, "raw", 3)) { /* #stablehlo.conv<raw input_batch_dimension = 0, ..> */
        const char *p = memchr(a->val, '<', a->vlen);
        struct mattr in = *a;
        if (p) {
            const char *q = memmem(p, (size_t)(a->val + a->vlen - p), "raw", 3);
            char *copy = arena_strndup(&r->scratch, q + 2, (size_t)(a->val + a->vlen - q - 2));
            copy[0] = '<';
            in.val = copy;
            in.vlen = (uint32_t)strlen(copy);
        }
        bool ok = raw_one(r, &in, "input_batch_dimension", &c->lhs_batch) &&
                  raw_one(r, &in, "input_feature_dimension", &c->lhs_feature) &&
                  raw_ints(r, &in, "input_spatial_dimensions", c->lhs_spatial, 12, &n1) &&
                  raw_one(r, &in, "kernel_input_feature_dimension", &c->rhs_in) &&
                  raw_one(r, &in, "kernel_output_feature_dimension", &c->rhs_out) &&
                  raw_ints(r, &in, "kernel_spatial_dimensions", c->rhs_spatial, 12, &n2) &&
                  raw_one(r, &in, "output_batch_dimension", &c->out_batch) &&
                  raw_one(r, &in, "output_feature_dimension", &c->out_feature) &&
                  raw_ints(r, &in, "output_spatial_dimensions", c->out_spatial, 12, &n3);
        c->nspatial = ok ? n1 : 0;
        return ok;
    }
    const char *p = a->val, *end = p + a->vlen;
    if (!labels(&p, end, 'b', 'f', &c->lhs_batch, &c->lhs_feature, c->lhs_spatial, &n1) ||
        !labels(&p, end, 'i', 'o', &c->rhs_in, &c->rhs_out, c->rhs_spatial, &n2) ||
        !labels(&p, end, 'b', 'f', &c->out_batch, &c->out_feature, c->out_spatial, &n3) || n1 != n2 || n1 != n3)
        return MFAIL(r, a->val, a->vlen, "expected dimension numbers, like [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]");
    c->nspatial = n1;
    return true;
}

bool mnum_add_conv(struct mlir *r, struct mop *op)
{
    struct conv_dims *c = ARENA_NEW(&r->m->arena, struct conv_dims);
    const struct shape *k = mshape(r, op->operands[1]);
    if (!conv_numbers(r, op, c))
        return false;
    int64_t size[12], groups;
    if (c->nspatial > 12 || c->nspatial + 2 != k->rank)
        return MFAIL(r, op->at, op->nat, "the dimension numbers do not fit the kernel's rank");
    for (int i = 0; i < c->nspatial; i++) {
        if (c->rhs_spatial[i] < 0 || c->rhs_spatial[i] >= k->rank)
            return MFAIL(r, op->at, op->nat, "the dimension numbers do not fit the kernel's rank");
        size[i] = k->dims[c->rhs_spatial[i]];
    }
    if (c->nspatial && !add_window(r, op, c->nspatial, size, true))
        return false;
    struct attr a = { .key = ATTR_DIM_LABELS, .type = ATTR_TYPE_CONV };
    a.conv = c;
    mnum_add(r, a);
    if (!mint_of(r, op, "feature_group_count", NULL, 1, &groups))
        return false;
    if (groups != 1)
        mnum_add(r, attr_int(ATTR_FEATURE_GROUP_COUNT, groups));
    if (!mint_of(r, op, "batch_group_count", NULL, 1, &groups))
        return false;
    if (groups != 1)
        mnum_add(r, attr_int(ATTR_BATCH_GROUP_COUNT, groups));
    return mnum_add_precision(r, op);
}

bool mnum_add_reduce_window(struct mlir *r, struct mop *op)
{
    const struct shape *s = mshape(r, op->operands[0]);
    int64_t size[64];
    if (!mints_of(r, op, "window_dimensions", NULL, s->rank))
        return false;
    for (int d = 0; d < s->rank; d++)
        size[d] = d < r->ints.n ? r->ints.v[d] : 1;
    return add_window(r, op, s->rank, size, false);
}

bool mnum_add_gather(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr(op, "dimension_numbers");
    if (!mnum_nested_ints(r, a, ATTR_OFFSET_DIMS, "offset_dims", true) ||
        !mnum_nested_ints(r, a, ATTR_COLLAPSED_SLICE_DIMS, "collapsed_slice_dims", true) ||
        !mnum_nested_ints(r, a, ATTR_START_INDEX_MAP, "start_index_map", true) ||
        !mnum_nested_ints(r, a, ATTR_OPERAND_BATCHING_DIMS, "operand_batching_dims", false) ||
        !mnum_nested_ints(r, a, ATTR_START_INDICES_BATCHING_DIMS, "start_indices_batching_dims", false) ||
        !mnum_nested_int(r, a, ATTR_INDEX_VECTOR_DIM, "index_vector_dim", 0) ||
        !mnum_add_ints(r, op, ATTR_SLICE_SIZES, "slice_sizes", NULL))
        return false;
    if (mbool_of(op, "indices_are_sorted", false))
        mnum_add_bool(r, ATTR_INDICES_ARE_SORTED, true);
    return true;
}

bool mnum_add_scatter(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr(op, "scatter_dimension_numbers");
    if (!mnum_nested_ints(r, a, ATTR_UPDATE_WINDOW_DIMS, "update_window_dims", true) ||
        !mnum_nested_ints(r, a, ATTR_INSERTED_WINDOW_DIMS, "inserted_window_dims", true) ||
        !mnum_nested_ints(r, a, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, "scatter_dims_to_operand_dims", true) ||
        !mnum_nested_ints(r, a, ATTR_INPUT_BATCHING_DIMS, "input_batching_dims", false) ||
        !mnum_nested_ints(r, a, ATTR_SCATTER_INDICES_BATCHING_DIMS, "scatter_indices_batching_dims", false) ||
        !mnum_nested_int(r, a, ATTR_INDEX_VECTOR_DIM, "index_vector_dim", 0))
        return false;
    if (mbool_of(op, "indices_are_sorted", false))
        mnum_add_bool(r, ATTR_INDICES_ARE_SORTED, true);
    if (mbool_of(op, "unique_indices", false))
        mnum_add_bool(r, ATTR_UNIQUE_INDICES, true);
    return true;
}

/* ---- collectives ------------------------------------------------------------------------------- */

/* dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>; -1 fills ragged groups. */
bool mnum_add_groups(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "replica_groups");
    struct replica_groups *g = ARENA_NEW(&r->m->arena, struct replica_groups);
    struct attr at = { .key = ATTR_REPLICA_GROUPS, .type = ATTR_TYPE_GROUPS };
    at.groups = g;
    if (!a || !a->val) {
        g->none = true;
        mnum_add(r, at);
        return true;
    }
    const char *type = memmem(a->val, a->vlen, "tensor<", 7);
    int64_t rows = 0, columns = 0, count;
    if (type) {
        size_t used = parse_i64(type + 7, 24, &rows);
        if (used && type[7 + used] == 'x')
            (void)parse_i64(type + 8 + used, 24, &columns);
    }
    if (!mul_ok(rows, columns, &count) || count < 0 || count > INT32_MAX || !mints(r, a, count))
        return MFAIL(r, a->val, a->vlen, "expected dense<[[..], ..]> : tensor<GROUPSxSIZExi64>");
    if (r->ints.n == 0) {
        g->none = true;
        mnum_add(r, at);
        return true;
    }
    if (r->ints.n != count || rows <= 0)
        return MFAIL(r, a->val, a->vlen, "these groups do not have the numbers of their type");
    bool full = true;
    for (int64_t i = 0; i < count; i++) {
        full &= r->ints.v[i] >= 0 && r->ints.v[i] < count;
        if (r->ints.v[i] < -1 || r->ints.v[i] > INT32_MAX)
            return MFAIL(r, a->val, a->vlen, "no such device: %" PRId64, r->ints.v[i]);
    }
    bool *seen = full ? ARENA_ARRAY(&r->scratch, bool, count + 1) : NULL;
    for (int64_t i = 0; full && i < count; i++) {
        full = !seen[r->ints.v[i]];
        seen[r->ints.v[i]] = true;
    }
    if (full) {
        int64_t dims[2] = { rows, columns };
        g->uniform = true;
        g->tiles = tiling_make(r->c->shardings, 2, dims, order_from_list(r->c->shardings, count, r->ints.v));
    } else {
        int64_t *sizes = ARENA_ARRAY(&r->m->arena, int64_t, rows), *ids = ARENA_ARRAY(&r->m->arena, int64_t, count);
        int64_t n = 0;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                if (r->ints.v[i * columns + j] >= 0) {
                    ids[n++] = r->ints.v[i * columns + j];
                    sizes[i]++;
                }
        g->nlists = rows;
        g->sizes = sizes;
        g->ids = ids;
    }
    mnum_add(r, at);
    return true;
}

bool mnum_add_channel(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "channel_handle");
    if (a && a->val) {
        if (!mnum_nested_ints(r, a, ATTR_NONE, "handle", false))
            return false;
        if (r->ints.n && r->ints.v[0] > 0)
            mnum_add(r, attr_int(ATTR_CHANNEL_ID, r->ints.v[0]));
    }
    int64_t id;
    if (!mint_of(r, op, "channel_id", NULL, 0, &id))
        return false;
    if (id > 0 && !(a && a->val))
        mnum_add(r, attr_int(ATTR_CHANNEL_ID, id));
    return true;
}

void mnum_add_global_ids(struct mlir *r, const struct mop *op)
{
    if (mbool_of(op, "use_global_device_ids", false))
        mnum_add_bool(r, ATTR_USE_GLOBAL_DEVICE_IDS, true);
}

bool mnum_add_pairs(struct mlir *r, const struct mop *op)
{
    const struct mattr *a = mattr(op, "source_target_pairs");
    if (!mints(r, a, -1))
        return false;
    if (r->ints.n % 2)
        return MFAIL(r, a->val, a->vlen, "these are no pairs");
    struct permute_pairs p = { .kind = PAIRS_LIST, .n = r->ints.n / 2 };
    p.list = arena_copy(&r->m->arena, r->ints.v, r->ints.n, sizeof *r->ints.v);
    mnum_add(r, attr_pairs(r->m, &p));
    return true;
}

static void all_to_all_result(struct mlir *r, const struct mop *op, uint32_t k, instr_id i)
{
    mnum_attach_sharding(r, i);
    mset(r, op->result + k, i);
}

/* The builder's all-to-all of an array: exchange along one dimension, then move the pieces. */
static bool one_all_to_all(struct mlir *r, const struct mop *op, uint32_t k, instr_id x, int64_t split,
                           int64_t concat, int64_t count)
{
    const struct shape *s = mshape(r, op->operands[k]);
    if (split < 0 || split >= s->rank || concat < 0 || concat >= s->rank || count <= 0 || s->dims[split] % count)
        return MFAIL(r, op->at, op->nat, "the dimensions of this all_to_all do not fit its operand");
    mnum_add(r, mattr_ints(r, ATTR_DIMENSIONS, 1, &split));
    instr_id i = memit(r, OP_ALL_TO_ALL, mval(r, op->operands[k])->shape, 1, &x, (int)r->out.n, r->out.v);
    if (split == concat) {
        all_to_all_result(r, op, k, i);
        return true;
    }
    int64_t sizes[66], perm[66], moved[66];
    int n = 0;
    for (int d = 0; d < s->rank; d++) {
        if (d != split) {
            sizes[n++] = s->dims[d];
        } else {
            sizes[n++] = count;
            sizes[n++] = s->dims[d] / count;
        }
    }
    i = memit(r, OP_RESHAPE, shape_array(r->c, s->dtype, n, sizes), 1, &i, 0, NULL);
    n = 0;
    for (int d = 0; d < s->rank; d++) {
        int64_t behind = d >= split ? d + 1 : d;
        if (d == concat)
            perm[n++] = split;
        perm[n++] = behind;
    }
    for (int j = 0; j < n; j++)
        moved[j] = sizes[perm[j]];
    struct attr a = mattr_ints(r, ATTR_DIMENSIONS, n, perm);
    i = memit(r, OP_TRANSPOSE, shape_array(r->c, s->dtype, n, moved), 1, &i, 1, &a);
    all_to_all_result(r, op, k, memit(r, OP_RESHAPE, mval(r, op->result + k)->shape, 1, &i, 0, NULL));
    return true;
}

bool mnum_emit_all_to_all(struct mlir *r, struct mop *op, const instr_id *v)
{
    int64_t split, concat, count;
    if (!mnum_add_channel(r, op) || !mnum_add_groups(r, op) || !mint_of(r, op, "split_dimension", NULL, 0, &split) ||
        !mint_of(r, op, "concat_dimension", NULL, 0, &concat) || !mint_of(r, op, "split_count", NULL, 1, &count))
        return false;
    int64_t nattrs = r->out.n;
    for (uint32_t k = 0; k < op->noperands && k < op->nresults; k++) {
        r->out.n = nattrs;
        if (!one_all_to_all(r, op, k, v[k], split, concat, count))
            return false;
    }
    return true;
}
