/* Convolution, section 11: classes of its dimensions, the local convolution, halo strategies. What
 * is left is the recursion of dot.c. */
#include "partition/conv.h"

static const struct window_dim *source_window(const struct instr *in, int *n)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    *n = a && a->window ? a->window->rank : 0;
    return *n ? a->window->dims : NULL;
}

/* ---- classes, S-193 ----------------------------------------------------------------------------- */

static bool spatial_batch(const struct window_dim *w, int64_t a)
{
    int64_t step = max_i64(1, a - 1);
    bool plain = a == w->size && a == w->base_dilation && !w->pad_low && !w->pad_high &&
                 !w->reversal && ((w->stride == step && w->window_dilation == 1) ||
                                  (w->window_dilation == step && w->stride == 1));
    bool mirrored = a == w->size && w->pad_low == a - 1 && w->pad_high == a - 1 && w->reversal &&
                    w->window_dilation == 1 && w->stride == a && w->base_dilation == a - 1;
    return plain || mirrored;
}

static bool spatial_contract(const struct window_dim *w, int64_t a)
{
    return a == w->size && w->window_dilation == 1 && w->base_dilation == 1 && !w->pad_low &&
           !w->pad_high && !w->reversal;
}

static enum product_class spatial_class(const struct window_dim *w, int64_t a, int64_t b)
{
    if (spatial_batch(w, a))
        return BATCH;
    if (spatial_contract(w, a))
        return CONTRACT;
    if (w->stride == 1 && w->base_dilation == 1 && w->window_dilation == 1) {
        if (b == 1 && w->size == 1 && !w->pad_low && !w->pad_high && !w->reversal)
            return LFREE;
        if (a == 1 && w->size == b && w->pad_low == b - 1 && w->pad_high == b - 1 && w->reversal)
            return RFREE;
    }
    return SPATIAL;
}

enum product_class product_spatial_class(const struct product *p, int i)
{
    const struct conv_dims *c = conv_of(p);
    const struct instr *in = instr_at(p->s->src, p->source);
    int64_t a = source_shape(p->s, in->operands[0])->dims[c->lhs_spatial[i]];
    int64_t b = source_shape(p->s, in->operands[1])->dims[c->rhs_spatial[i]];
    return spatial_class(&p->window[i], a, b);
}

static void conv_classes(struct product *p)
{
    const struct conv_dims *c = conv_of(p);
    product_add_dim(p, LFREE, c->lhs_batch, -1, c->out_batch);
    product_add_dim(p, RFREE, -1, c->rhs_out, c->out_feature);
    product_add_dim(p, CONTRACT, c->lhs_feature, c->rhs_in, -1);
    for (int i = 0; i < c->nspatial; i++) {
        enum product_class k = product_spatial_class(p, i);
        int l = c->lhs_spatial[i], r = c->rhs_spatial[i], o = c->out_spatial[i];
        product_add_dim(p, k, k == RFREE ? -1 : l, k == LFREE ? -1 : r, k == CONTRACT ? -1 : o);
    }
}

/* ---- the local convolution, S-194 --------------------------------------------------------------- */

int64_t conv_windows(const struct window_dim *w, int64_t size)
{
    int64_t full = 1 + (size - 1) * w->base_dilation + w->pad_low + w->pad_high;
    int64_t dk = 1 + (w->size - 1) * w->window_dilation;
    return full < dk ? 0 : (full - dk) / w->stride + 1;
}

static void local_window(const struct product *p, const struct shape *l, const struct shape *r,
                         const struct window_dim *given, struct window_dim *w)
{
    const struct conv_dims *c = conv_of(p);
    for (int i = 0; i < c->nspatial; i++) {
        w[i] = given ? given[i] : p->window[i];
        int64_t a = l->dims[c->lhs_spatial[i]], b = r->dims[c->rhs_spatial[i]];
        switch (product_spatial_class(p, i)) {
        case BATCH:
            w[i] = (struct window_dim){ .size = a, .stride = max_i64(1, a - 1), .base_dilation = a,
                                        .window_dilation = 1 };
            break;
        case CONTRACT:
            w[i].size = a;
            break;
        case RFREE:
            w[i].size = b;
            w[i].pad_low = w[i].pad_high = b - 1;
            break;
        case LFREE:
        case SPATIAL:
        case NCLASSES:
            break;
        }
    }
}

instr_id product_convolve(struct product *p, instr_id l, instr_id r, const struct window_dim *window)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    const struct shape *ls = node_shape(s, l), *rs = node_shape(s, r);
    const struct shape *full = source_shape(s, p->source);
    struct window_dim w[CONV_MAX_SPATIAL];
    local_window(p, ls, rs, window, w);
    int64_t dims[OPS_MAX_RANK];
    int64_t features = group_count(p, ATTR_FEATURE_GROUP_COUNT);
    int64_t batches = group_count(p, ATTR_BATCH_GROUP_COUNT);
    if (features > 1)
        features = ls->dims[c->lhs_feature] / rs->dims[c->rhs_in];
    if (batches > 1)
        batches = max_i64(1, ls->dims[c->lhs_batch] / full->dims[c->out_batch]); /* part of a group: one */
    dims[c->out_batch] = ls->dims[c->lhs_batch] / max_i64(1, batches);
    dims[c->out_feature] = rs->dims[c->rhs_out];
    for (int i = 0; i < c->nspatial; i++)
        dims[c->out_spatial[i]] = conv_windows(&w[i], ls->dims[c->lhs_spatial[i]]);
    shape_id shape = shape_array(s->ir, full->dtype, full->rank, dims);
    instr_id ops[2] = { l, r };
    instr_id x = emit_clone(s, p->source, shape, 2, ops);
    set_attr(s, x, attr_window(s->out, c->nspatial, w));
    if (group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1)
        set_attr(s, x, attr_int(ATTR_FEATURE_GROUP_COUNT, features));
    if (group_count(p, ATTR_BATCH_GROUP_COUNT) > 1)
        set_attr(s, x, attr_int(ATTR_BATCH_GROUP_COUNT, batches));
    return x;
}

/* ---- the order of strategies ------------------------------------------------------------------- */

/* S-195 */
int product_convolution(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    bool spatial = product_count(p, l.sharding, SPATIAL, LHS) > 1 ||
                   product_count(p, r.sharding, SPATIAL, RHS) > 1 ||
                   product_count(p, out, SPATIAL, OUTPUT) > 1;
    bool batch = product_count(p, l.sharding, BATCH, LHS) > 1 ||
                 product_count(p, r.sharding, BATCH, RHS) > 1 ||
                 product_count(p, out, BATCH, OUTPUT) > 1;
    bool contract = product_count(p, l.sharding, CONTRACT, LHS) > 1 &&
                    product_count(p, r.sharding, CONTRACT, RHS) > 1;
    int64_t features = group_count(p, ATTR_FEATURE_GROUP_COUNT);
    int64_t batches = group_count(p, ATTR_BATCH_GROUP_COUNT);
    bool groups = features > 1 || batches > 1;
    if (!groups && (!spatial || batch || contract))
        return 0;
    if (features > 1 && node_shape(s, r.local)->dims[c->rhs_in] > 1)
        return -1;
    if (conv_by_groups(p, l, r, base, out, n, res))
        return 1;
    bool both = !is_tile_max(s, l.sharding) && !is_tile_max(s, r.sharding);
    bool on_lhs = s->opt->halo_always_on_lhs;
    if (both && (on_lhs ? conv_halo_on_lhs(p, l, r, base, out, res)
                        : conv_halo_on_rhs(p, l, r, base, out, res)))
        return 1;
    if (conv_halo_for_output(p, l, r, base, out, res))
        return 1;
    if (!groups)
        return 0;
    return conv_groups_as_batch(p, l, r, base, out, n, strict, res) ? 1 : -1;
}

void partition_convolution(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct product *p = ARENA_NEW(&s->arena, struct product);
    p->s = s;
    p->source = source;
    p->convolution = true;
    p->window = source_window(in, &p->nwindow);
    p->rank[LHS] = source_shape(s, in->operands[0])->rank;
    p->rank[RHS] = source_shape(s, in->operands[1])->rank;
    p->rank[OUTPUT] = source_shape(s, source)->rank;
    sharding_id out = source_sharding(s, source);
    int64_t device;
    const struct attr *labels = instr_attr(in, ATTR_DIM_LABELS);
    if (sharding_unique_device(s->sh, out, &device) || p->rank[LHS] >= OPS_MAX_RANK || !labels ||
        p->nwindow != labels->conv->nspatial) {
        partition_default(s, source, NULL);
        return;
    }
    conv_classes(p);
    p->grouped = group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1 ||
                 group_count(p, ATTR_BATCH_GROUP_COUNT) > 1;
    struct pval l = operand_value(s, source, 0), r = operand_value(s, source, 1);
    set_value(s, source, product_partition(p, l, r, in->shape, out, group_devices(s)));
}
