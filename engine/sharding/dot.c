/* Sharding of a dot's operand from the result and the other operand, P-126, S-36. */
#include "sharding/internal.h"

struct dim_map {
    int to_target[AXES_MAX], to_source[AXES_MAX];
};

static void map_clear(struct dim_map *m)
{
    for (int i = 0; i < AXES_MAX; i++)
        m->to_target[i] = m->to_source[i] = -1;
}

static void map_pair(struct dim_map *m, int source, int target)
{
    m->to_target[source] = target;
    m->to_source[target] = source;
}

static sharding_id from_result(struct shardings *t, const struct sharding_dot *d, int k,
                               sharding_id s)
{
    struct dim_map m;
    int gone[AXES_MAX], n = 0;
    int mine = d->nbatch + (k == 0 ? 0 : d->nfree[0]);   /* output dims of k's free dims */
    int theirs = d->nbatch + (k == 0 ? d->nfree[0] : 0); /* of the other side's */
    map_clear(&m);
    for (int i = 0; i < d->nfree[1 - k]; i++)
        gone[n++] = theirs + i;
    for (int i = 0; i < d->nbatch; i++)
        map_pair(&m, i, d->batch[k][i]);
    for (int i = 0; i < d->nfree[k]; i++)
        map_pair(&m, mine + i, d->free[k][i]);
    s = sharding_replicate_dims(t, s, n, gone);
    return sharding_map_dims(t, s, m.to_target, d->rank[k], m.to_source);
}

static sharding_id from_other(struct shardings *t, const struct sharding_dot *d, int k, sharding_id s)
{
    struct dim_map m;
    map_clear(&m);
    for (int i = 0; i < d->nbatch; i++)
        map_pair(&m, d->batch[1 - k][i], d->batch[k][i]);
    for (int i = 0; i < d->ncontract; i++)
        map_pair(&m, d->contract[1 - k][i], d->contract[k][i]);
    s = sharding_replicate_dims(t, s, d->nfree[1 - k], d->free[1 - k]);
    return sharding_map_dims(t, s, m.to_target, d->rank[k], m.to_source);
}

sharding_id sharding_infer_dot_operand(struct shardings *t, const struct sharding_dot *dot, int k,
                                       sharding_id result, sharding_id other, bool use_other,
                                       bool may)
{
    INVARIANT(dot->rank[0] <= AXES_MAX - 4 && dot->rank[1] <= AXES_MAX - 4, "rank of a dot");
    sharding_id x = result.i ? from_result(t, dot, k, result) : sharding_replicated(t);
    if (!use_other || !other.i || !sharding_is_spatial(t, other))
        return x;
    sharding_id y = from_other(t, dot, k, other);
    if (!y.i)
        return x;
    return sharding_merge(t, x, &y, may) ? y : x;
}
