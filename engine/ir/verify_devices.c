/* The verifier's part on devices: replica groups, pairs of permutes, shardings against shapes. */
#include "ir/verify.h"

#include <string.h>

/* ---- collectives -------------------------------------------------------------------------------- */

/* How many devices ids may name: all partitions of all replicas. 0: the header does not say. */
static int64_t device_limit(const struct module *m)
{
    int64_t n;
    if (m->num_partitions == 0)
        return 0;
    return mul_ok(m->num_partitions, max_i64(m->replica_count, 1), &n) ? n : 0;
}

static bool complain(struct check *v, instr_id i, const char *what, int64_t id, const char *how)
{
    v->ok = false;
    return diag_error(v->d, v->m->source, instr_at(v->m, i)->at, "%s %s: %s device %" PRId64 " %s",
                      op_name((enum op_kind)instr_at(v->m, i)->op), named(v->m, &v->tmp, i), what, id,
                      how);
}

/* Ids in range, none twice. step: distance between the ids to look at. */
static bool check_ids(struct check *v, instr_id i, const char *what, int64_t n, const int64_t *ids,
                      int step)
{
    int64_t limit = device_limit(v->m);
    struct map seen;
    map_init(&seen, &v->tmp);
    for (int64_t k = 0; k < n; k++) {
        int64_t id = ids[k * step];
        uint64_t dummy;
        if (id < 0 || (limit && id >= limit))
            return complain(v, i, what, id,
                            arena_printf(&v->tmp, "does not exist: the module runs on %" PRId64 " devices",
                                         limit));
        if (map_get(&seen, (uint64_t)id, &dummy))
            return complain(v, i, what, id, "occurs twice");
        map_put(&seen, (uint64_t)id, 1);
    }
    return true;
}

/* Where the ids are devices, each one is in a group, unless a single one says that nothing is sent. */
static void check_covered(struct check *v, instr_id i, const struct replica_groups *g, int64_t n)
{
    const struct instr *in = instr_at(v->m, i);
    int64_t all = device_limit(v->m);
    if (!v->ok || n <= 1 || n == all || all == 0 || !instr_attr(in, ATTR_CHANNEL_ID) ||
        !instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false))
        return;
    if (g->uniform) {
        v->ok = diag_error(v->d, v->m->source, in->at,
                           "%s %s: its replica_groups hold %" PRId64 " devices, but the module runs on %" PRId64,
                           op_name((enum op_kind)in->op), named(v->m, &v->tmp, i), n, all);
        return;
    }
    bool *found = ARENA_ARRAY(&v->tmp, bool, all);
    for (int64_t k = 0; k < n; k++)
        if (g->ids[k] >= 0 && g->ids[k] < all)
            found[g->ids[k]] = true;
    int64_t missing = 0;
    while (missing < all && found[missing])
        missing++;
    (void)complain(v, i, "replica_groups:", missing, "is missing: every device of the module must be in one group");
}

static void check_groups(struct check *v, instr_id i, const struct replica_groups *g)
{
    const struct instr *in = instr_at(v->m, i);
    bool reduces = in->op == OP_ALL_REDUCE || in->op == OP_ALL_GATHER || in->op == OP_REDUCE_SCATTER ||
                   in->op == OP_ALL_REDUCE_START || in->op == OP_ALL_GATHER_START;
    if (reduces && instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false) && !instr_attr(in, ATTR_CHANNEL_ID))
        v->ok = diag_error(v->d, v->m->source, in->at, "%s %s: use_global_device_ids=true needs a channel_id",
                           op_name((enum op_kind)in->op), named(v->m, &v->tmp, i));
    if (g->none)
        return;
    if (!g->uniform) {
        int64_t n = 0;
        for (int64_t k = 0; k < g->nlists; k++)
            n += g->sizes[k];
        if (check_ids(v, i, "replica_groups:", n, g->ids, 1))
            check_covered(v, i, g, n);
        return;
    }
    const struct order *o = order_get(v->m->ir->shardings, g->tiles.order);
    int64_t limit = device_limit(v->m);
    uint64_t known;
    if (o->explicit_) {
        if (map_get(&v->orders, g->tiles.order.i, &known))
            return;
        if (check_ids(v, i, "replica_groups:", o->ndevices, o->explicit_, 1))
            map_put(&v->orders, g->tiles.order.i, 1);
    } else if (limit && o->ndevices > limit) {
        (void)complain(v, i, "replica_groups:", o->ndevices - 1,
                       arena_printf(&v->tmp, "does not exist: the module runs on %" PRId64 " devices",
                                    limit));
    } else {
        check_covered(v, i, g, o->ndevices);
    }
}

static void check_collective(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    if (g && g->type == ATTR_TYPE_GROUPS)
        check_groups(v, i, g->groups);
    const struct attr *p = instr_attr(in, ATTR_SOURCE_TARGET_PAIRS);
    if (!p || p->type != ATTR_TYPE_PAIRS || p->pairs->kind != PAIRS_LIST)
        return;
    if (check_ids(v, i, "source_target_pairs: source", p->pairs->n, p->pairs->list, 2))
        (void)check_ids(v, i, "source_target_pairs: target", p->pairs->n, p->pairs->list + 1, 2);
}

/* ---- shardings ---------------------------------------------------------------------------------- */

/* One leaf. The reason comes from the sharding layer; the instruction's name is put in front. */
static bool leaf_fits(struct check *v, instr_id i, shape_id leaf, sharding_id s, int64_t k,
                      int64_t nleaves)
{
    uint64_t key = (uint64_t)leaf.i << 32 | s.i, known;
    if (map_get(&v->fits, key, &known))
        return true;
    const struct shape *shape = shape_get(v->m->ir, leaf);
    struct shardings *t = v->m->ir->shardings;
    const struct instr *in = instr_at(v->m, i);
    struct diag why = { .limit = 1 };
    arena_open(&why.arena);
    bool ok;
    if (shape->kind == SHAPE_ARRAY)
        ok = sharding_fits(t, s, shape->rank, shape->dims, v->m->num_partitions, NULL,
                           (struct span){ 0, 0 }, &why);
    else
        ok = !sharding_is_tiled(t, s) ||
             diag_error(&why, NULL, (struct span){ 0, 0 },
                        "a sharding with tiles, but the value has no dimensions (rank 0)");
    if (ok) {
        map_put(&v->fits, key, 1);
        arena_close(&why.arena);
        return true;
    }
    struct str text = STR_IN(&v->tmp);
    shape_print(v->m->ir, leaf, false, &text);
    const char *of = nleaves < 0 ? ""
                                 : arena_printf(&v->tmp, "leaf %" PRId64 " of its tuple, ", k);
    (void)diag_error(v->d, v->m->source, in->at, "%s %s: sharding of %s%s: %s",
                     op_name((enum op_kind)in->op), named(v->m, &v->tmp, i), of, str_text(&text),
                     why.msgs.n ? why.msgs.v[0].text : "it does not fit");
    if (v->d && why.msgs.n && why.msgs.v[0].hint)
        diag_hint(v->d, "%s", why.msgs.v[0].hint);
    arena_close(&why.arena);
    return false;
}

static bool tuple_fits(struct check *v, instr_id i, const struct sharding *s)
{
    const struct instr *in = instr_at(v->m, i);
    const struct shape *shape = shape_get(v->m->ir, in->shape);
    bool tuple = s->kind == SHARDING_TUPLE;
    if (tuple && s->nelems != max_i64(shape->nleaves, 1) && s->nelems != shape->nleaves)
        return diag_error(v->d, v->m->source, in->at,
                          "%s %s: %" PRId64 " shardings for the %" PRId64 " leaves of its tuple",
                          op_name((enum op_kind)in->op), named(v->m, &v->tmp, i), s->nelems,
                          shape->nleaves);
    for (int64_t k = 0; k < shape->nleaves; k++) {
        sharding_id leaf = tuple ? s->elems[k] : in->sharding;
        if (!leaf_fits(v, i, shape_leaf(v->m->ir, in->shape, k), leaf, k, shape->nleaves))
            return false;
    }
    return true;
}

/* An outfeed is a token, its sharding that of the data that leave and of the token. */
static bool outfeed_fits(struct check *v, instr_id i, const struct sharding *s)
{
    const struct instr *in = instr_at(v->m, i);
    shape_id data = instr_at(v->m, in->operands[0])->shape;
    int64_t n = shape_get(v->m->ir, data)->nleaves;
    bool tuple = s->kind == SHARDING_TUPLE;
    if (tuple && s->nelems != n && s->nelems != n + 1 && s->nelems != 1)
        return diag_error(v->d, v->m->source, in->at,
                          "outfeed %s: %" PRId64 " shardings for %" PRId64 " leaves and the token",
                          named(v->m, &v->tmp, i), s->nelems, n);
    for (int64_t k = 0; k < n && (!tuple || k < s->nelems); k++)
        if (!leaf_fits(v, i, shape_leaf(v->m->ir, data, k), tuple ? s->elems[k] : in->sharding, k, n))
            return false;
    return true;
}

static bool sharding_fits_instr(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    const struct shape *shape = shape_get(v->m->ir, in->shape);
    const struct sharding *s = sharding_get(v->m->ir->shardings, in->sharding);
    uint64_t known;
    if (map_get(&v->fits, (uint64_t)in->shape.i << 32 | in->sharding.i, &known))
        return true;
    if (shape->kind == SHAPE_TUPLE) {
        if (!tuple_fits(v, i, s))
            return false;
        map_put(&v->fits, (uint64_t)in->shape.i << 32 | in->sharding.i, 1);
        return true;
    }
    if (in->op == OP_OUTFEED)
        return outfeed_fits(v, i, s);
    if (s->kind == SHARDING_TUPLE)
        return diag_error(v->d, v->m->source, in->at,
                          "%s %s: %" PRId64 " shardings for a value that is no tuple",
                          op_name((enum op_kind)in->op), named(v->m, &v->tmp, i), s->nelems);
    return leaf_fits(v, i, in->shape, in->sharding, 0, -1);
}

void verify_devices(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    if (op_is_collective((enum op_kind)in->op))
        check_collective(v, i);
    const char *stage = v->d ? diag_stage(v->d, "shard") : NULL;
    if (in->sharding.i)
        v->ok &= sharding_fits_instr(v, i);
    else if (in->op == OP_CUSTOM_CALL && strcmp(instr_target(v->m, in), "Sharding") == 0)
        v->ok = diag_error(v->d, v->m->source, in->at,
                           "custom-call %s: an annotation (custom_call_target=\"Sharding\") needs sharding=",
                           named(v->m, &v->tmp, i));
    if (in->frontend)
        verify_shardy(v, i);
    if (v->d)
        (void)diag_stage(v->d, stage);
}
