/* Comparing and accepting shardings, P-26, P-27, P-29, P-30, P-32. */
#include <string.h>

#include "sharding/internal.h"

/* ---- specificity ---------------------------------------------------------------------------------- */

static bool leaf_more_specific(const struct shardings *t, sharding_id a, sharding_id b)
{
    bool bmax = sharding_is_max(t, b);
    if (sharding_is_manual(t, a) && bmax)
        return true;
    if (sharding_is_manual(t, a) || sharding_is_manual(t, b))
        return false;
    if (!bmax)
        return sharding_num_tiles(t, a) > sharding_num_tiles(t, b);
    if (sharding_is_replicated(t, b))
        return !sharding_is_replicated(t, a);
    return sharding_get(t, a)->kind == SHARDING_TILED;
}

typedef bool better_fn(const struct shardings *t, sharding_id a, sharding_id b);

/* Some element better and none worse. */
static bool tuple_better(const struct shardings *t, const struct sharding *a,
                         const struct sharding *b, better_fn *better)
{
    if (a->kind != b->kind || a->nelems != b->nelems)
        return false;
    bool some = false;
    for (int64_t i = 0; i < a->nelems; i++) {
        if (a->elems[i].i == b->elems[i].i)
            continue;
        if (better(t, b->elems[i], a->elems[i]))
            return false;
        some = some || better(t, a->elems[i], b->elems[i]);
    }
    return some;
}

static bool better_by(const struct shardings *t, sharding_id a, sharding_id b, better_fn *better)
{
    if (a.i == b.i || !a.i || !b.i)
        return false;
    const struct sharding *x = sharding_get(t, a), *y = sharding_get(t, b);
    if (x->kind == SHARDING_TUPLE || y->kind == SHARDING_TUPLE)
        return tuple_better(t, x, y, better);
    return better(t, a, b);
}

bool sharding_more_specific(const struct shardings *t, sharding_id a, sharding_id b)
{
    return better_by(t, a, b, leaf_more_specific);
}

static bool leaf_strictly_better(const struct shardings *t, sharding_id a, sharding_id b)
{
    return sharding_is_manual(t, a) && sharding_is_max(t, b);
}

bool sharding_strictly_better(const struct shardings *t, sharding_id a, sharding_id b)
{
    return better_by(t, a, b, leaf_strictly_better);
}

/* ---- merging, P-29 ---------------------------------------------------------------------------------- */

static bool leaf_merge(struct shardings *t, sharding_id old, sharding_id *cand, bool may)
{
    if (may && sharding_is_partial(t, old) && sharding_is_partial(t, *cand) &&
        sharding_total(t, old) == sharding_total(t, *cand)) {
        int64_t min = max_i64(sharding_num_tiles(t, old), sharding_num_tiles(t, *cand)) + 1;
        if (sharding_merge_compat(t, old, cand, min))
            return true;
    }
    return sharding_more_specific(t, *cand, old);
}

static bool tuple_merge(struct shardings *t, const struct sharding *old, sharding_id *cand, bool may)
{
    const struct sharding *c = sharding_get(t, *cand);
    if (old->kind != c->kind || old->nelems != c->nelems)
        return false; /* a leaf for a tuple: P-151 */
    struct arena tmp = { 0 };
    arena_open(&tmp);
    sharding_id *elems = arena_copy(&tmp, c->elems, c->nelems, sizeof *elems);
    bool some = false, changed = false;
    for (int64_t i = 0; i < c->nelems; i++) {
        if (old->elems[i].i == elems[i].i)
            continue; /* neither merges nor is more specific */
        some = leaf_merge(t, old->elems[i], &elems[i], may) || some;
        changed = changed || elems[i].i != c->elems[i].i;
    }
    if (changed)
        *cand = sharding_tuple(t, c->nelems, elems);
    arena_close(&tmp);
    return some;
}

bool sharding_merge(struct shardings *t, sharding_id old, sharding_id *cand, bool may)
{
    if (old.i == cand->i)
        return false;
    const struct sharding *x = sharding_get(t, old);
    if (x->kind == SHARDING_TUPLE || sharding_get(t, *cand)->kind == SHARDING_TUPLE)
        return tuple_merge(t, x, cand, may);
    return leaf_merge(t, old, cand, may);
}

sharding_id sharding_find_common(struct shardings *t, int64_t n, const sharding_id *list,
                                 sharding_id dflt)
{
    if (n == 0)
        return dflt;
    sharding_id acc = list[0];
    for (int64_t i = 1; i < n; i++) {
        if (list[i].i == acc.i)
            continue;
        if (!sharding_merge_compat(t, list[i], &acc, sharding_num_tiles(t, acc)))
            return dflt.i ? dflt : list[0];
    }
    return acc;
}

/* ---- acceptance, P-32 -------------------------------------------------------------------------------- */

sharding_id sharding_improved(struct shardings *t, sharding_id cand, sharding_id old, bool is_array,
                              int rank, const int64_t *dims, bool may, bool aggressive)
{
    const sharding_id none = { 0 };
    if (old.i && sharding_strictly_better(t, cand, old))
        return cand;
    if (!sharding_is_spatial(t, cand))
        return none;
    if (!old.i)
        return cand;
    if (old.i == cand.i || sharding_is_manual(t, cand))
        return none;
    int64_t k = sharding_num_tiles(t, cand);
    if (!sharding_merge(t, old, &cand, may))
        return none;
    if (!aggressive && is_array && !sharding_is_max(t, old) && sharding_num_tiles(t, cand) == k &&
        !sharding_is_subtiling(t, rank, dims, cand, old))
        return none;
    return cand;
}
