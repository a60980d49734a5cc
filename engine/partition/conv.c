/* Convolution, section 11: classes of its dimensions, the local convolution, halo strategies. What
 * is left is the recursion of dot.c. */
#include "partition/dot.h"
#include "partition/halo.h"

static const struct window_dim *source_window(const struct instr *in, int *n)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    *n = a && a->window ? a->window->rank : 0;
    return *n ? a->window->dims : NULL;
}

static const struct conv_dims *conv_of(const struct product *p)
{
    const struct attr *a = instr_attr(instr_at(p->s->src, p->source), ATTR_DIM_LABELS);
    return a->conv;
}

static int64_t group_count(const struct product *p, enum attr_key k)
{
    return instr_int(instr_at(p->s->src, p->source), k, 1);
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

static void add_dim(struct product *p, enum product_class c, int l, int r, int o)
{
    p->dims[c][p->n[c]++] = (struct product_dim){ { l, r, o } };
}

static enum product_class class_of_spatial(const struct product *p, int i)
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
    add_dim(p, LFREE, c->lhs_batch, -1, c->out_batch);
    add_dim(p, RFREE, -1, c->rhs_out, c->out_feature);
    add_dim(p, CONTRACT, c->lhs_feature, c->rhs_in, -1);
    for (int i = 0; i < c->nspatial; i++) {
        enum product_class k = class_of_spatial(p, i);
        int l = c->lhs_spatial[i], r = c->rhs_spatial[i], o = c->out_spatial[i];
        add_dim(p, k, k == RFREE ? -1 : l, k == LFREE ? -1 : r, k == CONTRACT ? -1 : o);
    }
}

/* ---- the local convolution, S-194 --------------------------------------------------------------- */

static int64_t windows_over(const struct window_dim *w, int64_t size)
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
        switch (class_of_spatial(p, i)) {
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
    struct window_dim w[12];
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
        dims[c->out_spatial[i]] = windows_over(&w[i], ls->dims[c->lhs_spatial[i]]);
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

/* ---- halo strategies, S-199, S-201 -------------------------------------------------------------- */

static bool groups_forbid(const struct product *p, sharding_id l, sharding_id r)
{
    const struct conv_dims *c = conv_of(p);
    bool features = group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1 &&
                    (tiles_on(p->s, l, c->lhs_feature) > 1 || tiles_on(p->s, r, c->rhs_out) > 1);
    bool batches = group_count(p, ATTR_BATCH_GROUP_COUNT) > 1 &&
                   (tiles_on(p->s, l, c->lhs_batch) > 1 || tiles_on(p->s, r, c->rhs_out) > 1);
    return features || batches;
}

static struct window_dim unit_window(void)
{
    return (struct window_dim){ .size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1 };
}

/* S-201: the lhs takes the output's tiling, the kernel is whole. */
static bool halo_for_output(struct product *p, struct pval l, struct pval r, shape_id base,
                            sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    if (is_tile_max(s, out) || tiles_on(s, out, c->out_feature) > 1)
        return false;
    int forth[OPS_MAX_RANK], back[OPS_MAX_RANK];
    forth[c->out_batch] = c->lhs_batch;
    back[c->lhs_batch] = c->out_batch;
    forth[c->out_feature] = c->lhs_feature;
    back[c->lhs_feature] = c->out_feature;
    for (int i = 0; i < c->nspatial; i++) {
        forth[c->out_spatial[i]] = c->lhs_spatial[i];
        back[c->lhs_spatial[i]] = c->out_spatial[i];
    }
    sharding_id target = sharding_map_dims(s->sh, out, forth, p->rank[LHS], back);
    if (!target.i || groups_forbid(p, target, sharding_replicated(s->sh)))
        return false;
    struct window_dim w[OPS_MAX_RANK];
    for (int d = 0; d < p->rank[LHS]; d++)
        w[d] = unit_window();
    for (int i = 0; i < c->nspatial; i++) {
        w[c->lhs_spatial[i]] = p->window[i];
        if (p->window[i].reversal)
            w[c->lhs_spatial[i]].reversal = true;
    }
    enum dtype t = base_of(s, l)->dtype;
    struct windowed x =
        window_input(s, l, p->rank[LHS], w, target, emit_zero(s, t), true, false);
    if (!x.ok)
        return false;
    r = replicate(s, r);
    struct window_dim spatial[12];
    for (int i = 0; i < c->nspatial; i++)
        spatial[i] = x.dims[c->lhs_spatial[i]];
    instr_id y = product_local(p, x.local, r.local, spatial);
    shape_id shard = shard_shape(s, base, out);
    if (x.has_offset) {
        instr_id starts[OPS_MAX_RANK], zero = emit_const_i(s, DTYPE_S32, 0);
        for (int d = 0; d < p->rank[OUTPUT]; d++)
            starts[d] = zero;
        for (int i = 0; i < c->nspatial; i++)
            if (x.offset[c->lhs_spatial[i]].i)
                starts[c->out_spatial[i]] = x.offset[c->lhs_spatial[i]];
        y = emit_dynamic_slice(s, y, starts, shape_get(s->ir, shard)->dims);
    }
    if (!shape_same(s->ir, instr_at(s->out, y)->shape, shard))
        return false;
    *res = pval_make(s, y, base, out);
    return true;
}

struct alignment {
    int l_to_r[OPS_MAX_RANK], r_to_l[OPS_MAX_RANK];
    int nreversed_l, nreversed_r, reversed_l[12], reversed_r[12];
};

static void align_operands(const struct product *p, struct alignment *a)
{
    const struct conv_dims *c = conv_of(p);
    *a = (struct alignment){ 0 };
    a->l_to_r[c->lhs_batch] = c->rhs_out;
    a->r_to_l[c->rhs_out] = c->lhs_batch;
    a->l_to_r[c->lhs_feature] = c->rhs_in;
    a->r_to_l[c->rhs_in] = c->lhs_feature;
    for (int i = 0; i < c->nspatial; i++) {
        a->l_to_r[c->lhs_spatial[i]] = c->rhs_spatial[i];
        a->r_to_l[c->rhs_spatial[i]] = c->lhs_spatial[i];
        if (!p->window[i].reversal)
            continue;
        a->reversed_l[a->nreversed_l++] = c->lhs_spatial[i];
        a->reversed_r[a->nreversed_r++] = c->rhs_spatial[i];
    }
}

/* One spatial dimension of S-199: the lhs gets what the kernel's shard meets. */
static instr_id lhs_halo(struct product *p, instr_id x, int i, int64_t D, int64_t Rh, sharding_id sh,
                         int64_t windows, struct window_dim *w)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    int dim = c->lhs_spatial[i];
    int64_t n = tiles_on(s, sh, dim), Lh = node_shape(s, x)->dims[dim];
    int64_t dl = w->window_dilation, lo = w->pad_low, st = w->stride;
    struct ring ring = { .sh = sh, .axis = dim, .n = n };
    struct halo_spec h = { .dim = dim, .base = D, .low = lo, .pad = emit_zero(s, node_shape(s, x)->dtype) };
    h.left = ofs_mad(Lh - Rh * dl, lo, 1);
    h.right = ofs_mad(Rh * dl - Lh, Rh * dl - Lh + 1 - dl + st * (windows - 1) - lo, 1);
    h.want = st * (windows - 1) + (Rh - 1) * dl + 1;
    h.padded = D + lo + w->pad_high;
    h.offset = ofs_mad(Rh * dl, 0, 1);
    h.mask = true;
    w->size = Rh;
    w->pad_low = w->pad_high = 0;
    return halo_valid(s, x, &h, &ring);
}

/* S-199: both operands are tiled alike; partial sums meet in one all-reduce. */
static bool halo_on_lhs(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    struct alignment a;
    align_operands(p, &a);
    for (int i = 0; i < c->nspatial; i++)
        if (p->window[i].base_dilation != 1)
            return false;
    sharding_id to_r = sharding_reverse(
        s->sh, sharding_map_dims(s->sh, l.sharding, a.l_to_r, p->rank[RHS], a.r_to_l),
        a.nreversed_r, a.reversed_r);
    sharding_id to_l = sharding_reverse(
        s->sh, sharding_map_dims(s->sh, r.sharding, a.r_to_l, p->rank[LHS], a.l_to_r),
        a.nreversed_l, a.reversed_l);
    bool left_moves = base_of(s, l)->bytes < base_of(s, r)->bytes;
    sharding_id ls = left_moves ? to_l : l.sharding, rs = left_moves ? r.sharding : to_r;
    if (!ls.i || !rs.i || tiles_on(s, ls, c->lhs_batch) > 1 || tiles_on(s, rs, c->rhs_out) > 1 ||
        groups_forbid(p, ls, rs))
        return false;
    l = reshard(s, l, ls);
    r = reshard(s, r, rs);
    uint64_t reversed = 0;
    for (int i = 0; i < a.nreversed_r; i++)
        reversed |= bit(a.reversed_r[i]);
    if (reversed && !shift_padding_left(s, r, reversed, &r))
        return false;
    l = mask_zero(s, l, 0);
    r = pval_mask(s, r, emit_zero(s, base_of(s, r)->dtype), reversed, 0);

    struct window_dim w[12];
    instr_id x = l.local;
    for (int i = 0; i < c->nspatial; i++) {
        w[i] = p->window[i];
        int dim = c->lhs_spatial[i];
        if (tiles_on(s, ls, dim) == 1)
            continue;
        int64_t windows = shape_get(s->ir, base)->dims[c->out_spatial[i]];
        x = lhs_halo(p, x, i, base_of(s, l)->dims[dim],
                     node_shape(s, r.local)->dims[c->rhs_spatial[i]], ls, windows, &w[i]);
        if (!x.i)
            return false;
    }
    instr_id y = product_local(p, x, r.local, w);
    enum dtype t = node_shape(s, y)->dtype;
    comp_id add = binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t);
    /* One sum over all tiles; copies of a tile must not be counted (the reference does). */
    int dims[OPS_MAX_RANK], n = bits_to_dims(tiled_dims(s, ls, p->rank[LHS]), p->rank[LHS], dims);
    const char *old = because(s, "partial sums of the spatial dimension (S-199)");
    y = emit_all_reduce(s, y, add, sharding_groups_along(s->sh, ls, n, dims));
    s->reason = old;
    *res = reshard(s, pval_make(s, y, base, sharding_replicated(s->sh)), out);
    return true;
}

/* ---- grouped convolutions, S-197, S-198 --------------------------------------------------------- */

/* Operands that are tiled on the groups: the other one follows, nothing is summed. l and r: the
 * tiled dims; forth maps lhs dims to rhs dims; lo: lhs dims to output dims. */
static bool by_groups(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, int64_t n, const int *l_to_r, const int *r_to_l,
                      const int *l_to_o, const int *o_to_l, int ldim, int rdim, struct pval *res)
{
    struct spmd *s = p->s;
    if (tiles_on(s, l.sharding, ldim) == n && n > 1) {
        sharding_id to = sharding_map_dims(s->sh, l.sharding, l_to_r, p->rank[RHS], r_to_l);
        if (!to.i)
            return false;
        r = reshard(s, r, to);
    } else if (tiles_on(s, r.sharding, rdim) == n && n > 1) {
        sharding_id to = sharding_map_dims(s->sh, r.sharding, r_to_l, p->rank[LHS], l_to_r);
        if (!to.i)
            return false;
        l = reshard(s, l, to);
    } else {
        return false;
    }
    sharding_id label = sharding_map_dims(s->sh, l.sharding, l_to_o, p->rank[OUTPUT], o_to_l);
    if (!label.i)
        return false;
    instr_id x = product_local(p, l.local, r.local, p->window);
    if (!shape_same(s->ir, instr_at(s->out, x)->shape, shard_shape(s, base, label)))
        return false;
    *res = reshard(s, pval_make(s, x, base, label), out);
    return true;
}

static bool grouped(struct product *p, struct pval l, struct pval r, shape_id base, sharding_id out,
                    int64_t n, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    int64_t features = group_count(p, ATTR_FEATURE_GROUP_COUNT);
    int64_t batches = group_count(p, ATTR_BATCH_GROUP_COUNT);
    int l_to_r[OPS_MAX_RANK], r_to_l[OPS_MAX_RANK], l_to_o[OPS_MAX_RANK], o_to_l[OPS_MAX_RANK];
    for (int i = 0; i < c->nspatial; i++) {
        l_to_r[c->lhs_spatial[i]] = c->rhs_spatial[i];
        r_to_l[c->rhs_spatial[i]] = c->lhs_spatial[i];
        l_to_o[c->lhs_spatial[i]] = c->out_spatial[i];
        o_to_l[c->out_spatial[i]] = c->lhs_spatial[i];
    }
    const struct shape *lb = base_of(s, l), *rb = base_of(s, r);
    if (batches > 1) { /* S-197 */
        if (batches % n != 0 || batches != lb->dims[c->lhs_batch] ||
            batches != rb->dims[c->rhs_out])
            return false;
        l_to_r[c->lhs_batch] = c->rhs_out;
        r_to_l[c->rhs_out] = c->lhs_batch;
        l_to_r[c->lhs_feature] = c->rhs_in;
        r_to_l[c->rhs_in] = c->lhs_feature;
        l_to_o[c->lhs_batch] = c->out_feature;
        o_to_l[c->out_feature] = c->lhs_batch;
        l_to_o[c->lhs_feature] = c->out_batch;
        o_to_l[c->out_batch] = c->lhs_feature;
        return by_groups(p, l, r, base, out, n, l_to_r, r_to_l, l_to_o, o_to_l, c->lhs_batch,
                         c->rhs_out, res);
    }
    if (features > 1) { /* S-198 */
        if (features % n != 0 || rb->dims[c->rhs_out] % features != 0 ||
            lb->dims[c->lhs_feature] % features != 0)
            return false;
        l_to_r[c->lhs_feature] = c->rhs_out;
        r_to_l[c->rhs_out] = c->lhs_feature;
        l_to_r[c->lhs_batch] = c->rhs_in;
        r_to_l[c->rhs_in] = c->lhs_batch;
        l_to_o[c->lhs_feature] = c->out_feature;
        o_to_l[c->out_feature] = c->lhs_feature;
        l_to_o[c->lhs_batch] = c->out_batch;
        o_to_l[c->out_batch] = c->lhs_batch;
        return by_groups(p, l, r, base, out, n, l_to_r, r_to_l, l_to_o, o_to_l, c->lhs_feature,
                         c->rhs_out, res);
    }
    return false;
}

/* The last resort of S-202: only the tiling of the groups stays, that of whoever has most of it. */
static bool groups_alone(struct product *q, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t count, struct pval *res)
{
    struct spmd *s = q->s;
    const struct product_dim *g = &q->dims[BATCH][0];
    sharding_id sh[3] = { l.sharding, r.sharding, out }, to[3];
    int most = LHS;
    for (int i = RHS; i <= OUTPUT; i++)
        if (tiles_on(s, sh[i], g->side[i]) > tiles_on(s, sh[most], g->side[most]))
            most = i;
    int64_t tiles = tiles_on(s, sh[most], g->side[most]);
    if (tiles <= 1 || count % tiles != 0)
        return false;
    for (int i = LHS; i <= OUTPUT; i++)
        to[i] = i == most ? sharding_replicate_except(s->sh, sh[i], 1, &g->side[i])
                          : sharding_along_dims(s->sh, sh[most], 1, &g->side[most], &g->side[i],
                                                q->rank[i]);
    instr_id x = product_local(q, reshard(s, l, to[LHS]).local, reshard(s, r, to[RHS]).local,
                               q->window);
    if (!shape_same(s->ir, instr_at(s->out, x)->shape, shard_shape(s, base, to[OUTPUT])))
        return false;
    *res = reshard(s, pval_make(s, x, base, to[OUTPUT]), out);
    return true;
}

/* S-202: the groups as a batch dimension of the product. false: not this way. */
static bool groups_as_batch(struct product *p, struct pval l, struct pval r, shape_id base,
                            sharding_id out, int64_t n, bool strict, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    bool features = group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1;
    int64_t count = features ? group_count(p, ATTR_FEATURE_GROUP_COUNT)
                             : group_count(p, ATTR_BATCH_GROUP_COUNT);
    int ldim = features ? c->lhs_feature : c->lhs_batch;
    int64_t have = base_of(s, l)->dims[ldim], kernels = base_of(s, r)->dims[c->rhs_out];
    int64_t tiles = max_i64(tiles_on(s, l.sharding, ldim), tiles_on(s, r.sharding, c->rhs_out));
    tiles = max_i64(tiles, tiles_on(s, out, c->out_feature));
    /* No device may hold a part of a group: XLA lets that pass when have == kernels, and dies. */
    bool depthwise = have == kernels && count == have;
    if (!depthwise && (count % tiles != 0 || have % tiles != 0 || kernels % tiles != 0))
        return false;
    struct product *q = ARENA_NEW(&s->arena, struct product);
    *q = *p;
    for (int k = 0; k < NCLASSES; k++)
        q->n[k] = 0;
    add_dim(q, BATCH, ldim, c->rhs_out, c->out_feature);
    if (features)
        add_dim(q, LFREE, c->lhs_batch, -1, c->out_batch);
    else
        add_dim(q, CONTRACT, c->lhs_feature, c->rhs_in, -1);
    for (int i = 0; i < c->nspatial; i++)
        add_dim(q, SPATIAL, c->lhs_spatial[i], c->rhs_spatial[i], c->out_spatial[i]);
    return product_group_batch(q, l, r, base, out, n, strict, res) ||
           (!strict && groups_alone(q, l, r, base, out, count, res));
}

/* S-195 */
int product_convolution(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    (void)strict;
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
    if (grouped(p, l, r, base, out, n, res))
        return 1;
    bool both = !is_tile_max(s, l.sharding) && !is_tile_max(s, r.sharding);
    if ((both && halo_on_lhs(p, l, r, base, out, res)) || halo_for_output(p, l, r, base, out, res))
        return 1;
    if (!groups)
        return 0;
    return groups_as_batch(p, l, r, base, out, n, strict, res) ? 1 : -1;
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
