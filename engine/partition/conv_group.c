/* Convolutions with feature or batch groups: S-197, S-198, S-202. */
#include "partition/conv.h"

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

bool conv_by_groups(struct product *p, struct pval l, struct pval r, shape_id base, sharding_id out,
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

/* p's product with the groups as its batch dimension; without spatial dims. */
static struct product *groups_as_class(const struct product *p)
{
    const struct conv_dims *c = conv_of(p);
    struct product *q = ARENA_NEW(&p->s->arena, struct product);
    bool features = group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1;
    *q = *p;
    for (int k = 0; k < NCLASSES; k++)
        q->n[k] = 0;
    product_add_dim(q, BATCH, features ? c->lhs_feature : c->lhs_batch, c->rhs_out, c->out_feature);
    if (features) {
        product_add_dim(q, LFREE, c->lhs_batch, -1, c->out_batch);
        product_add_dim(q, RFREE, -1, c->rhs_in, -1); /* in no output */
    } else
        product_add_dim(q, CONTRACT, c->lhs_feature, c->rhs_in, -1);
    return q;
}

/* S-171 without spatial dims, where XLA infers the operands as if there were no groups: those parts
 * that the output's tiles are made of, if no tile has a part of a group. What else the output is tiled
 * on is cut off the result. */
bool conv_whole_groups(struct product *p, struct pval l, struct pval r, shape_id base,
                       sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    const struct conv_dims *c = conv_of(p);
    if (p->n[SPATIAL] > 0 || p->nsteps > 0 || !sharding_is_tiled(s->sh, out))
        return false;
    struct product *q = groups_as_class(p);
    bool features = group_count(p, ATTR_FEATURE_GROUP_COUNT) > 1;
    const struct shape *lb = base_of(s, l), *rb = base_of(s, r), *ob = shape_get(s->ir, base);
    int64_t count = features ? lb->dims[c->lhs_feature] / rb->dims[c->rhs_in]
                             : lb->dims[c->lhs_batch] / ob->dims[c->out_batch];
    int whole[OPS_MAX_RANK], n = 0;
    for (int i = 0; i < c->nspatial; i++) {
        if (product_spatial_class(p, i) == LFREE)
            product_add_dim(q, LFREE, c->lhs_spatial[i], -1, c->out_spatial[i]);
        else
            whole[n++] = c->out_spatial[i];
    }
    if (!features)
        whole[n++] = c->out_batch;
    if (count % tiles_on(s, out, c->out_feature) != 0)
        whole[n++] = c->out_feature;
    sharding_id made = sharding_replicate_dims(s->sh, out, n, whole);
    sharding_id to_l = product_infer(q, made, l.sharding, LHS, false);
    sharding_id to_r = product_infer(q, made, r.sharding, RHS, false);
    if (!sharding_is_tiled(s->sh, made) || !to_l.i || !to_r.i)
        return false;
    instr_id x = product_local(p, reshard(s, l, to_l).local, reshard(s, r, to_r).local, p->window);
    if (!shape_same(s->ir, instr_at(s->out, x)->shape, shard_shape(s, base, made)))
        return false;
    *res = reshard(s, pval_make(s, x, base, made), out);
    return true;
}

/* S-202: the groups as a batch dimension of the product. false: not this way. */
bool conv_groups_as_batch(struct product *p, struct pval l, struct pval r, shape_id base,
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
    if (have != kernels && is_tile_max(s, l.sharding))
        return false;
    /* No device may hold a part of a group: XLA lets that pass when have == kernels, and dies. */
    bool depthwise = have == kernels && count == have;
    if (!depthwise && (count % tiles != 0 || have % tiles != 0 || kernels % tiles != 0))
        return false;
    struct product *q = groups_as_class(p);
    for (int i = 0; i < c->nspatial; i++)
        product_add_dim(q, SPATIAL, c->lhs_spatial[i], c->rhs_spatial[i], c->out_spatial[i]);
    return product_group_batch(q, l, r, base, out, n, strict, res) ||
           (!strict && groups_alone(q, l, r, base, out, count, res));
}
