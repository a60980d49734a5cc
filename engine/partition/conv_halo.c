/* Convolutions tiled on spatial dims: S-199 to S-201. */
#include "partition/conv.h"

bool conv_groups_forbid(const struct product *p, sharding_id l, sharding_id r)
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
bool conv_halo_for_output(struct product *p, struct pval l, struct pval r, shape_id base,
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
    if (!target.i || conv_groups_forbid(p, target, r.sharding) ||
        conv_groups_forbid(p, l.sharding, r.sharding))
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
    struct window_dim spatial[CONV_MAX_SPATIAL];
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
    int nreversed_l, nreversed_r, reversed_l[CONV_MAX_SPATIAL], reversed_r[CONV_MAX_SPATIAL];
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

/* The padding of reversed kernel dims goes to the front before the kernel moves, as in XLA. Shards that
 * are made whole on the way would be cut where padding is not: false then, or where these dims change. */
static bool shift_then_move(struct spmd *s, uint64_t reversed, sharding_id to, struct pval *r)
{
    struct pval x;
    for (int d = 0; d < base_of(s, *r)->rank; d++)
        if ((reversed & bit(d)) && tiles_on(s, r->sharding, d) != tiles_on(s, to, d))
            return false;
    if (!shift_padding_left(s, *r, reversed, &x))
        return false;
    uint32_t first = module_ninstrs(s->out) + 1;
    int64_t remats = s->remats.n;
    x = reshard(s, x, to);
    for (uint32_t i = first; i <= module_ninstrs(s->out); i++) {
        enum op_kind op = (enum op_kind)instr_at(s->out, (instr_id){ i })->op;
        if (op == OP_ALL_GATHER || op == OP_ALL_REDUCE) {
            s->remats.n = remats;
            return false;
        }
    }
    *r = x;
    return true;
}

/* Both operands tiled alike, the smaller one moved; padding is zero. reversals: whether reversed
 * kernel dims have a form here (their padding is moved to the front first, S-112). */
static bool align(struct product *p, struct pval *l, struct pval *r, bool reversals)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    struct alignment a;
    align_operands(p, &a);
    for (int i = 0; i < c->nspatial; i++)
        if (p->window[i].base_dilation != 1 || (p->window[i].reversal && !reversals))
            return false;
    sharding_id to_r = sharding_reverse(
        s->sh, sharding_map_dims(s->sh, l->sharding, a.l_to_r, p->rank[RHS], a.r_to_l),
        a.nreversed_r, a.reversed_r);
    sharding_id to_l = sharding_reverse(
        s->sh, sharding_map_dims(s->sh, r->sharding, a.r_to_l, p->rank[LHS], a.l_to_r),
        a.nreversed_l, a.reversed_l);
    bool left_moves = base_of(s, *l)->bytes < base_of(s, *r)->bytes;
    sharding_id ls = left_moves ? to_l : l->sharding, rs = left_moves ? r->sharding : to_r;
    if (!ls.i || !rs.i || tiles_on(s, ls, c->lhs_batch) > 1 || tiles_on(s, rs, c->rhs_out) > 1 ||
        conv_groups_forbid(p, ls, rs))
        return false;
    *l = reshard(s, *l, ls);
    uint64_t reversed = 0;
    for (int i = 0; i < a.nreversed_r; i++)
        reversed |= bit(a.reversed_r[i]);
    if (!reversed)
        *r = reshard(s, *r, rs);
    else if (!shift_then_move(s, reversed, rs, r)) {
        *r = reshard(s, *r, rs);
        if (!shift_padding_left(s, *r, reversed, r))
            return false;
    }
    *l = mask_zero(s, *l, 0);
    *r = pval_mask(s, *r, emit_zero(s, base_of(s, *r)->dtype), reversed, 0);
    return true;
}

/* The local convolutions are partial sums, one for each tile of the operands. */
static struct pval sum_of_tiles(struct product *p, instr_id l, instr_id r, sharding_id tiled,
                                const struct window_dim *w, shape_id base, sharding_id out)
{
    struct spmd *s = p->s;
    instr_id y = product_local(p, l, r, w);
    enum dtype t = node_shape(s, y)->dtype;
    comp_id add = binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t);
    /* One sum over all tiles; copies of a tile must not be counted (the reference does). */
    int dims[OPS_MAX_RANK], n = bits_to_dims(tiled_dims(s, tiled, p->rank[LHS]), p->rank[LHS], dims);
    const char *old = because(s, "partial sums of the spatial dimension (S-199)");
    y = emit_all_reduce(s, y, add, sharding_groups_along(s->sh, tiled, n, dims));
    s->reason = old;
    return reshard(s, pval_make(s, y, base, sharding_replicated(s->sh)), out);
}

/* S-199: the lhs shards grow by what their kernel shard meets. */
bool conv_halo_on_lhs(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    if (!align(p, &l, &r, true))
        return false;
    struct window_dim w[CONV_MAX_SPATIAL];
    instr_id x = l.local;
    for (int i = 0; i < c->nspatial; i++) {
        w[i] = p->window[i];
        int dim = c->lhs_spatial[i];
        if (tiles_on(s, l.sharding, dim) == 1)
            continue;
        /* not base's: that may be cut there already (S-181) */
        int64_t windows = conv_windows(&w[i], base_of(s, l)->dims[c->lhs_spatial[i]]);
        x = lhs_halo(p, x, i, base_of(s, l)->dims[dim],
                     node_shape(s, r.local)->dims[c->rhs_spatial[i]], l.sharding, windows, &w[i]);
        if (!x.i)
            return false;
    }
    *res = sum_of_tiles(p, x, r.local, l.sharding, w, base, out);
    return true;
}

/* One spatial dimension of S-200: the kernel shard grows by all elements that meet this lhs shard.
 * They begin left(i) before the shard's own, so the local window's low padding depends on i. */
static bool rhs_halo(struct product *p, instr_id *l, instr_id *r, int i, int64_t K, sharding_id sh,
                     int64_t windows, struct window_dim *w)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    int ldim = c->lhs_spatial[i], rdim = c->rhs_spatial[i];
    int64_t n = tiles_on(s, sh, rdim);
    int64_t Lh = node_shape(s, *l)->dims[ldim], Rh = node_shape(s, *r)->dims[rdim];
    int64_t dl = w->window_dilation, lo = w->pad_low, st = w->stride;
    struct ring ring = { .sh = sh, .axis = rdim, .n = n };
    struct halo_spec h = { .dim = rdim, .base = K, .pad = emit_zero(s, node_shape(s, *r)->dtype) };
    h.left = ofs_mad(Rh * dl - Lh, (windows - 1) * st - lo + dl - 1, dl);
    h.right = ofs_mad(Lh - Rh * dl, Lh - Rh * dl + lo + dl - 1, dl);
    h.low = ofs_at(&h.left, 0);
    struct ofs both = ofs_add(h.left, h.right);
    h.want = Rh + ofs_max(&both, 0, n);
    struct ofs first = ofs_sub(ofs_mad(Rh, h.low, 1), h.left);
    h.offset = first;
    h.padded = h.low + K + max_i64(0, ofs_at(&h.right, n - 1) + n * Rh - K);
    h.mask = true;
    if (h.want <= 0)
        return false;
    *r = halo_valid(s, *r, &h, &ring);
    if (!r->i)
        return false;
    struct ofs low = ofs_sub(ofs_scale(h.left, dl), ofs_mad(Rh * dl - Lh, -lo, 1));
    int64_t p_low = ofs_max(&low, 0, n);
    if (!ofs_is_const(&low)) {
        instr_id zero = emit_zero(s, node_shape(s, *l)->dtype);
        struct ofs start = ofs_sub(ofs_const(p_low), low);
        instr_id x = pad_dim(s, *l, zero, ldim, p_low, p_low);
        *l = dynamic_slice_dim(s, x, ldim, ofs_node(s, &start, ring_ordinal(s, &ring)), Lh + p_low);
        Lh += p_low;
        p_low = 0;
    }
    w->size = h.want;
    w->pad_low = p_low;
    w->pad_high = (windows - 1) * st + (h.want - 1) * dl + 1 - p_low - Lh;
    return true;
}

/* S-200: the mirror image, the kernel gets the halos. */
bool conv_halo_on_rhs(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    if (!align(p, &l, &r, false))
        return false;
    struct window_dim w[CONV_MAX_SPATIAL];
    for (int i = 0; i < c->nspatial; i++) {
        w[i] = p->window[i];
        if (tiles_on(s, l.sharding, c->lhs_spatial[i]) == 1)
            continue;
        int64_t windows = conv_windows(&w[i], base_of(s, l)->dims[c->lhs_spatial[i]]);
        if (!rhs_halo(p, &l.local, &r.local, i, base_of(s, r)->dims[c->rhs_spatial[i]], r.sharding,
                      windows, &w[i]))
            return false;
    }
    *res = sum_of_tiles(p, l.local, r.local, l.sharding, w, base, out);
    return true;
}
