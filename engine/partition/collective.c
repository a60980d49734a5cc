/* Device groups (S-37..S-48, S-60) and the collectives that run in them (S-54..S-70).
 *
 * Groups are tilings [ngroups, size] of ranks: symbolic, whatever the number of devices. A nested
 * set is composed with the sets around it, digit by digit.
 */
#include "partition/internal.h"

#include <string.h>

#include "base/fail.h"

/* ---- composing tilings ---------------------------------------------------------------------------- */

/* The order that runs through these digits. */
order_id order_of_digits(struct spmd *s, int n, const struct digit *digits)
{
    int64_t sizes[RANK_ROOM] = { 0 }, dims[RANK_ROOM] = { 0 };
    int perm[RANK_ROOM] = { 0 }, by[RANK_ROOM], back[RANK_ROOM], nback = 0;
    INVARIANT(n < RANK_ROOM, "%d digits", n);
    for (int i = 0; i < n; i++)
        by[i] = i;
    for (int i = 1; i < n; i++) /* by falling stride */
        for (int j = i; j > 0 && digits[by[j]].stride > digits[by[j - 1]].stride; j--) {
            int t = by[j];
            by[j] = by[j - 1];
            by[j - 1] = t;
        }
    for (int i = 0; i < n; i++) {
        sizes[i] = digits[by[i]].radix;
        perm[by[i]] = i;
        dims[i] = digits[i].radix;
        if (digits[i].reversed)
            back[nback++] = i;
    }
    order_id o = order_from_iota(s->sh, n, sizes, perm);
    if (!nback)
        return o;
    sharding_id sh = sharding_plain(s->sh, tiling_make(s->sh, n, dims, o));
    return sharding_get(s->sh, sharding_reverse(s->sh, sh, nback, back))->tiles.order;
}

static struct tiling compose_listed(struct spmd *s, struct tiling outer, struct tiling inner,
                                    int naxes, const int64_t *dims)
{
    int64_t groups = outer.dims[0], size = outer.dims[1];
    int64_t *list = ARENA_ARRAY(&s->arena, int64_t, groups * size);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t c = 0; c < size; c++)
            list[g * size + c] =
                order_device(s->sh, outer.order, g * size + order_device(s->sh, inner.order, c));
    return tiling_make(s->sh, naxes, dims, order_from_list(s->sh, groups * size, list));
}

/* outer: [groups, size]; inner: a tiling of the ranks 0..size-1. The result has one axis more: the
 * groups, then inner's. S-60 */
static struct tiling compose(struct spmd *s, struct tiling outer, struct tiling inner)
{
    int64_t dims[RANK_ROOM];
    dims[0] = outer.dims[0];
    for (int i = 0; i < inner.naxes; i++)
        dims[i + 1] = inner.dims[i];
    int naxes = inner.naxes + 1;
    const struct order *in = order_get(s->sh, inner.order);
    if (in->ndigits == 0 && !in->explicit_) /* one device a group */
        return tiling_reshape(s->sh, outer, naxes, dims);
    if (in->explicit_)
        return compose_listed(s, outer, inner, naxes, dims);
    /* The second axis of outer, cut at the borders of inner's digits by falling stride. */
    int64_t cut[RANK_ROOM];
    int by[RANK_ROOM], perm[RANK_ROOM], n = in->ndigits, back[RANK_ROOM], nback = 0;
    for (int i = 0; i < n; i++)
        by[i] = i;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && in->digits[by[j]].stride > in->digits[by[j - 1]].stride; j--) {
            int t = by[j];
            by[j] = by[j - 1];
            by[j - 1] = t;
        }
    cut[0] = outer.dims[0];
    perm[0] = 0;
    for (int i = 0; i < n; i++) {
        cut[i + 1] = in->digits[by[i]].radix;
        perm[by[i] + 1] = i + 1;
        if (in->digits[i].reversed)
            back[nback++] = i + 1;
    }
    struct tiling t = tiling_reshape(s->sh, outer, n + 1, cut);
    t = tiling_transpose(s->sh, t, perm);
    if (nback) {
        sharding_id sh = sharding_plain(s->sh, t);
        t = sharding_get(s->sh, sharding_reverse(s->sh, sh, nback, back))->tiles;
    }
    return tiling_reshape(s->sh, t, naxes, dims);
}

struct tiling tiling_in_devices(struct spmd *s, struct tiling a)
{
    return compose(s, s->groups->devices, a);
}

/* [ngroups, size] of ranks as [all groups, size] of devices. */
static struct tiling groups_in_devices(struct spmd *s, struct tiling groups)
{
    struct tiling t = compose(s, s->groups->devices, groups);
    int64_t dims[2] = { t.dims[0] * t.dims[1], t.dims[2] };
    return tiling_reshape(s->sh, t, 2, dims);
}

/* ---- sets of groups -------------------------------------------------------------------------------- */

void groups_enter(struct spmd *s, struct tiling groups)
{
    for (struct group_set *g = s->sets; g; g = g->next)
        if (g->outer == s->groups && tiling_equal(g->groups, groups)) {
            s->groups = g;
            return;
        }
    struct group_set *g = ARENA_NEW(&s->arena, struct group_set);
    g->outer = s->groups;
    g->groups = groups;
    g->size = groups.dims[1];
    if (s->groups) {
        g->devices = groups_in_devices(s, groups);
        g->trivial = s->groups->trivial && groups.dims[0] == 1 && order_is_iota(s->sh, groups.order);
    } else {
        g->devices = groups;
        g->trivial = true;
    }
    g->number = ++s->nsets;
    g->next = s->sets;
    s->sets = g;
    s->groups = g;
}

void groups_leave(struct spmd *s)
{
    INVARIANT(s->groups->outer, "leaving the outermost device groups");
    s->groups = s->groups->outer;
}

/* ---- collectives ------------------------------------------------------------------------------------- */

/* Replicas of the program in front: id = replica * P + partition. S-55, S-56 */
static struct tiling with_replicas(struct spmd *s, struct tiling groups)
{
    int64_t nr = s->prog->module->replica_count;
    if (nr <= 1)
        return groups;
    int64_t p = s->prog->num_partitions;
    int64_t dims[2] = { nr * groups.dims[0], groups.dims[1] };
    const struct order *o = order_get(s->sh, groups.order);
    if (o->explicit_) {
        int64_t *list = ARENA_ARRAY(&s->arena, int64_t, nr * o->ndevices);
        for (int64_t r = 0; r < nr; r++)
            for (int64_t i = 0; i < o->ndevices; i++)
                list[r * o->ndevices + i] = r * p + o->explicit_[i];
        return tiling_make(s->sh, 2, dims, order_from_list(s->sh, nr * o->ndevices, list));
    }
    struct digit digits[RANK_ROOM];
    INVARIANT(o->ndigits < RANK_ROOM - 1, "%d digits", o->ndigits);
    digits[0] = (struct digit){ .radix = nr, .stride = p };
    memcpy(digits + 1, o->digits, (size_t)o->ndigits * sizeof *digits);
    return tiling_make(s->sh, 2, dims, order_of_digits(s, o->ndigits + 1, digits));
}

/* Collectives are never shared: each has a channel of its own. S-54 */
static instr_id collective(struct spmd *s, enum op_kind op, shape_id shape, instr_id x, int nattrs,
                           const struct attr *attrs)
{
    s->channel = s->channel_top = max_i64(s->channel, s->channel_top) + 1;
    struct attr all[6] = { attr_int(ATTR_CHANNEL_ID, s->channel - 1) };
    for (int i = 0; i < nattrs; i++)
        all[i + 1] = attrs[i];
    return emit(s, op, shape, 1, &x, nattrs + 1, all);
}

static struct attr global_ids(void)
{
    return (struct attr){ .key = ATTR_USE_GLOBAL_DEVICE_IDS, .type = ATTR_TYPE_BOOL, .i = 1 };
}

instr_id emit_all_reduce(struct spmd *s, instr_id x, comp_id reducer, struct tiling groups)
{
    struct tiling g = groups_in_devices(s, groups);
    if (g.dims[0] <= 1) { /* a single list stands for all partitions, S-55 */
        int64_t dims[2] = { 1, s->prog->num_partitions };
        g = tiling_make(s->sh, 2, dims, order_iota(s->sh, dims[1]));
    }
    struct attr a[] = { attr_groups(s->out, with_replicas(s, g)), global_ids(),
                        attr_comp(ATTR_TO_APPLY, reducer) };
    return collective(s, OP_ALL_REDUCE, instr_at(s->out, x)->shape, x, 3, a);
}

static shape_id with_dim(struct spmd *s, instr_id x, int dim, int64_t size)
{
    const struct shape *sh = node_shape(s, x);
    int64_t dims[RANK_ROOM];
    INVARIANT(sh->rank <= RANK_ROOM, "rank %d", sh->rank);
    memcpy(dims, sh->dims, (size_t)sh->rank * sizeof *dims);
    dims[dim] = size;
    return shape_array(s->ir, sh->dtype, sh->rank, dims);
}

instr_id emit_all_gather(struct spmd *s, instr_id x, int dim, struct tiling groups)
{
    struct tiling g = groups_in_devices(s, groups);
    int64_t d = dim, n = g.dims[1];
    struct attr a[] = { attr_groups(s->out, with_replicas(s, g)),
                        attr_ints(s->out, ATTR_DIMENSIONS, 1, &d), global_ids() };
    return collective(s, OP_ALL_GATHER, with_dim(s, x, dim, node_shape(s, x)->dims[dim] * n), x, 3,
                      a);
}

instr_id emit_all_to_all(struct spmd *s, instr_id x, int split_dim, struct tiling groups)
{
    int64_t d = split_dim;
    struct attr a[] = { attr_groups(s->out, groups_in_devices(s, groups)),
                        attr_ints(s->out, ATTR_DIMENSIONS, 1, &d) };
    return collective(s, OP_ALL_TO_ALL, instr_at(s->out, x)->shape, x, 2, a);
}

instr_id emit_reduce_scatter(struct spmd *s, instr_id x, comp_id reducer, int dim,
                             struct tiling groups)
{
    struct tiling g = groups_in_devices(s, groups);
    int64_t d = dim, n = g.dims[1];
    struct attr a[] = { attr_groups(s->out, with_replicas(s, g)), global_ids(),
                        attr_ints(s->out, ATTR_DIMENSIONS, 1, &d),
                        attr_comp(ATTR_TO_APPLY, reducer) };
    return collective(s, OP_REDUCE_SCATTER, with_dim(s, x, dim, node_shape(s, x)->dims[dim] / n), x,
                      4, a);
}

/* S-67 */
instr_id emit_reduce_along(struct spmd *s, instr_id x, comp_id reducer, sharding_id sh, int n,
                           const int *dims)
{
    for (int i = n - 1; i >= 0; i--)
        if (sharding_tile(s->sh, sh, dims[i]) > 1)
            x = emit_all_reduce(s, x, reducer, sharding_groups_along(s->sh, sh, 1, &dims[i]));
    return x;
}

static instr_id zeros_like(struct spmd *s, instr_id x)
{
    const struct shape *sh = node_shape(s, x);
    return emit_broadcast_scalar(s, emit_zero(s, sh->dtype), sh->rank, sh->dims);
}

enum pairs_are { PAIRS_MOVE, PAIRS_NONE, PAIRS_STAY };

/* Nothing to send, or everything stays where it is: S-59. */
static enum pairs_are pairs_judge(const struct spmd *s, const struct permute_pairs *p)
{
    if (p->kind == PAIRS_TILINGS)
        return tiling_equal(p->from, p->to) ? PAIRS_STAY : PAIRS_MOVE;
    if (p->kind == PAIRS_SHIFT) {
        int64_t n = p->from.dims[p->axis];
        if (p->shift == 0 && p->limit == 0)
            return PAIRS_STAY;
        return !p->wrap && (p->shift >= n || p->shift <= -n) ? PAIRS_NONE : PAIRS_MOVE;
    }
    if (p->n == 0)
        return PAIRS_NONE;
    for (int64_t i = 0; i < p->n; i++)
        if (p->list[2 * i] != p->list[2 * i + 1])
            return PAIRS_MOVE;
    return p->n == s->groups->size ? PAIRS_STAY : PAIRS_MOVE;
}

/* The same pairs in every group, in devices. */
static struct permute_pairs pairs_in_devices(struct spmd *s, const struct permute_pairs *p)
{
    struct permute_pairs q = *p;
    q.text = NULL;
    if (p->kind == PAIRS_TILINGS) {
        q.from = tiling_in_devices(s, p->from);
        q.to = tiling_in_devices(s, p->to);
        return q;
    }
    if (p->kind == PAIRS_SHIFT) {
        q.from = tiling_in_devices(s, p->from);
        q.axis = p->axis + 1;
        return q;
    }
    struct tiling g = s->groups->devices;
    int64_t ng = g.dims[0], size = g.dims[1];
    int64_t *list = ARENA_ARRAY(&s->out->arena, int64_t, 2 * ng * p->n);
    int64_t k = 0;
    for (int64_t a = 0; a < ng; a++)
        for (int64_t i = 0; i < 2 * p->n; i++)
            list[k++] = order_device(s->sh, g.order, a * size + p->list[i]);
    q.n = ng * p->n;
    q.list = list;
    return q;
}

instr_id emit_permute(struct spmd *s, instr_id x, const struct permute_pairs *pairs)
{
    enum pairs_are what = pairs_judge(s, pairs);
    if (what != PAIRS_MOVE) {
        s->channel++; /* a channel is spent all the same, S-54 */
        return what == PAIRS_STAY ? x : zeros_like(s, x);
    }
    struct permute_pairs q = pairs_in_devices(s, pairs);
    struct attr a = attr_pairs(s->out, &q);
    return collective(s, OP_COLLECTIVE_PERMUTE, instr_at(s->out, x)->shape, x, 1, &a);
}
