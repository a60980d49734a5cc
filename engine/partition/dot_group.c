/* Products inside device groups: on batch, free and contracting dims. Sections 10.4 to 10.6. */
#include "partition/dot.h"

#include "base/fail.h"

#include <string.h>

static int64_t groups_of(const struct sharding_group *g)
{
    int64_t n = 1;
    for (int i = 0; i < g->ndims; i++)
        n *= g->sizes[i];
    return n;
}

static struct choice choose(const struct product *p, enum product_class c, int own, int other)
{
    struct choice x = { 0 };
    for (int i = 0; i < p->n[c]; i++) {
        const struct product_dim *d = &p->dims[c][i];
        if (d->side[own] < 0 || d->side[other] < 0)
            continue;
        x.own[x.n] = d->side[own];
        x.other[x.n++] = d->side[other];
    }
    return x;
}

struct choice product_choice(const struct product *p, enum product_class c, int own, int other)
{
    return choose(p, c, own, other);
}

/* sh's device order over its counts with the chosen dims' replaced by those of ref. none: the number
 * of devices would change. */
static sharding_id with_counts_of(struct product *p, sharding_id sh, const int *dims,
                                  sharding_id ref, const int *ref_dims, int n)
{
    struct spmd *s = p->s;
    int64_t counts[64], total = 1;
    int axes = tile_axes(s, sh);
    if (axes == 0 || axes > 64)
        return (sharding_id){ 0 };
    tile_counts(s, sh, counts);
    for (int i = 0; i < n; i++)
        counts[dims[i]] = tiles_on(s, ref, ref_dims[i]);
    for (int i = 0; i < axes; i++)
        total *= counts[i];
    if (total != sharding_total(s->sh, sh))
        return (sharding_id){ 0 };
    return retile(s, sh, counts);
}

/* v as the groups see it. */
static struct pval inside(struct spmd *s, struct pval v, const struct sharding_group *g)
{
    return (struct pval){ v.local, per_group_base(s, v.base, g), g->inner };
}

/* ---- batch, S-176 ------------------------------------------------------------------------------- */

/* An operand whose batch counts are not the output's: what it has to become. 0 no result, 1 done,
 * with the value as the groups see it in *res. */
static bool regroup_operand(struct product *p, struct pval v, int side, int64_t other_contract,
                            sharding_id out, const struct sharding_group *go, bool strict,
                            struct pval *res)
{
    struct spmd *s = p->s;
    struct choice c = choose(p, BATCH, side, OUTPUT);
    struct sharding_group g;
    if (is_tile_max(s, v.sharding)) {
        int64_t parts[OPS_MAX_RANK];
        for (int i = 0; i < c.n; i++)
            parts[i] = tiles_on(s, out, c.other[i]);
        struct pval cut = slice_per_group(s, replicate(s, v), c.n, c.own, parts, go);
        g = *go;
        g.ndims = c.n;
        for (int i = 0; i < c.n; i++) {
            g.dims[i] = c.own[i];
            g.sizes[i] = parts[i];
        }
        *res = (struct pval){ cut.local, per_group_base(s, v.base, &g),
                              sharding_replicated(s->sh) };
        return true;
    }
    int64_t counts[64], total = 1, devices = sharding_total(s->sh, v.sharding);
    int axes = tile_axes(s, v.sharding);
    tile_counts(s, v.sharding, counts);
    for (int i = 0; i < c.n; i++)
        counts[c.own[i]] = tiles_on(s, out, c.other[i]);
    for (int i = 0; i < axes; i++)
        total *= counts[i];
    if (total < devices || total % devices != 0)
        return false;
    int64_t q = total / devices;
    if (q > 1) {
        int rep = sharding_rep_axis(s->sh, v.sharding), dims[OPS_MAX_RANK], n = 0;
        int64_t free = product_count(p, v.sharding, free_class(side), side);
        int64_t contract = product_count(p, v.sharding, CONTRACT, side);
        if (rep >= 0 && counts[rep] % q == 0)
            counts[rep] /= q;
        else if (q == free && (q != contract || contract == other_contract))
            n = product_dims(p, free_class(side), side, dims);
        else if (q == contract)
            n = product_dims(p, CONTRACT, side, dims);
        else
            return false;
        for (int i = 0; i < n; i++)
            counts[dims[i]] = 1;
    }
    sharding_group_on(s->sh, retile(s, v.sharding, counts), c.n, c.own, NULL, &g);
    sharding_group_align(s->sh, &g, go, false);
    sharding_id target = sharding_ungroup(s->sh, &g);
    if (strict && target.i != v.sharding.i)
        return false;
    v = reshard(s, v, target);
    *res = inside(s, v, &g);
    return true;
}

bool product_group_batch(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n, bool strict, struct pval *res)
{
    struct spmd *s = p->s;
    int64_t lb = product_count(p, l.sharding, BATCH, LHS);
    int64_t rb = product_count(p, r.sharding, BATCH, RHS);
    int64_t ob = product_count(p, out, BATCH, OUTPUT);
    if ((lb != ob && rb != ob) || ob <= 1)
        return false;
    struct choice lo = choose(p, BATCH, LHS, OUTPUT), ro = choose(p, BATCH, RHS, OUTPUT);
    bool same = true;
    for (int i = 0; i < lo.n; i++)
        same = same && tiles_on(s, l.sharding, lo.own[i]) == tiles_on(s, r.sharding, ro.own[i]);

    struct sharding_group go, gl, gr;
    struct pval li, ri;
    if (same) {
        sharding_group_on(s->sh, l.sharding, lo.n, lo.own, NULL, &gl);
        sharding_group_on(s->sh, r.sharding, ro.n, ro.own, NULL, &gr);
        struct sharding_group trial = gr;
        sharding_group_align(s->sh, &trial, &gl, false);
        if (strict && sharding_ungroup(s->sh, &trial).i != r.sharding.i)
            return false;
        if (local_bytes(s, l) > local_bytes(s, r)) {
            gr = trial;
            r = reshard(s, r, sharding_ungroup(s->sh, &gr));
        } else {
            sharding_group_align(s->sh, &gl, &gr, false);
            l = reshard(s, l, sharding_ungroup(s->sh, &gl));
        }
        sharding_id tiled = with_counts_of(p, out, lo.other, l.sharding, lo.own, lo.n);
        if (!tiled.i)
            return false;
        sharding_group_on(s->sh, tiled, lo.n, lo.other, NULL, &go);
        sharding_group_align(s->sh, &go, &gl, false);
        li = inside(s, l, &gl);
        ri = inside(s, r, &gr);
    } else {
        int64_t lc = product_count(p, l.sharding, CONTRACT, LHS);
        int64_t rc = product_count(p, r.sharding, CONTRACT, RHS);
        sharding_group_on(s->sh, out, lo.n, lo.other, NULL, &go);
        if (!regroup_operand(p, l, LHS, rc, out, &go, strict, &li) ||
            !regroup_operand(p, r, RHS, lc, out, &go, strict, &ri))
            return false;
    }
    groups_enter(s, go.groups);
    struct pval x = product_partition(p, li, ri, per_group_base(s, base, &go), go.inner,
                                      n / groups_of(&go));
    groups_leave(s);
    *res = reshard(s, pval_make(s, x.local, base, sharding_ungroup(s->sh, &go)), out);
    return true;
}

/* ---- free dims, S-177..S-179 -------------------------------------------------------------------- */

/* S-179. false: replicate X. *on_copies: grouped on the replication axis only. Counts of X are those of
 * `given`, its sharding before S-178, 2 made it another: XLA takes them once. */
static bool group_other(struct product *p, struct pval x, sharding_id given, int xside, struct pval m,
                        sharding_id out, shape_id base, const struct sharding_group *go,
                        struct sharding_group *g, bool *on_copies)
{
    struct spmd *s = p->s;
    int64_t n = groups_of(go);
    *on_copies = false;
    if (!sharding_is_tiled(s->sh, x.sharding))
        return false;
    int rep = sharding_rep_axis(s->sh, x.sharding);
    const struct sharding *xs = sharding_get(s->sh, x.sharding);
    if (rep >= 0 && xs->lastrep && sharding_copies(s->sh, x.sharding) % n == 0) {
        for (int i = rep; i >= 0; i--) {
            if (xs->tiles.dims[i] % n != 0)
                continue;
            int perm[64];
            for (int d = 0; d < xs->tiles.naxes; d++)
                perm[d] = d;
            perm[i] = rep;
            perm[rep] = i;
            sharding_id swapped = x.sharding;
            if (i != rep)
                swapped = sharding_partial(s->sh, tiling_transpose(s->sh, xs->tiles, perm));
            if (!sharding_is_partial(s->sh, swapped))
                continue;
            int64_t copies = sharding_copies(s->sh, swapped);
            if (copies % n == 0 &&
                sharding_group_replicated_as(s->sh, swapped, go->groups, copies / n, g)) {
                *on_copies = true;
                return true;
            }
        }
        int64_t keep = sharding_copies(s->sh, x.sharding) / n;
        sharding_group_on(s->sh, x.sharding, 1, &rep, &keep, g);
        sharding_group_align(s->sh, g, go, true);
        *on_copies = true;
        return true;
    }
    enum product_class own = free_class(xside);
    int mside = xside == LHS ? RHS : LHS;
    int dims[64], k = sharding_dims_matching(s->sh, x.sharding, go->groups, dims);
    if (k <= 0) {
        int64_t xc = product_count(p, given, CONTRACT, xside);
        int64_t mc = product_count(p, m.sharding, CONTRACT, mside);
        int64_t xfree = product_count(p, given, own, xside);
        int64_t oxfree = product_count(p, out, own, OUTPUT);
        bool by_free = n == xfree && xc == mc;
        int64_t shard = shape_get(s->ir, shard_shape(s, base, out))->bytes;
        if (xc == n && xfree == oxfree && (!by_free || local_bytes(s, x) <= shard))
            k = product_dims(p, CONTRACT, xside, dims);
        else if (by_free)
            k = product_dims(p, own, xside, dims);
        else
            return false;
    }
    sharding_group_on(s->sh, x.sharding, k, dims, NULL, g);
    sharding_group_align(s->sh, g, go, true);
    *on_copies = k == 1 && dims[0] == rep;
    return true;
}

static bool has_group_dims_on_data(const struct sharding_group *g, int rank)
{
    for (int i = 0; i < g->ndims; i++)
        if (g->dims[i] < rank)
            return true;
    return false;
}

/* S-178, 4: X as every group needs it. */
static struct pval other_inside(struct product *p, struct pval x, int xside,
                                const struct sharding_group *g, bool on_copies)
{
    struct spmd *s = p->s;
    sharding_id whole = sharding_ungroup(s->sh, g);
    if (on_copies || !has_group_dims_on_data(g, p->rank[xside])) {
        x = reshard(s, x, whole);
        return (struct pval){ x.local, x.base, g->inner };
    }
    struct sharding_group own;
    sharding_group_on(s->sh, x.sharding, g->ndims, g->dims, NULL, &own);
    /* What is whole afterwards has no order. */
    bool matches = sharding_is_partial(s->sh, x.sharding) &&
                   (tiling_same_groups(s->sh, own.groups, g->groups) ||
                    sharding_is_replicated(s->sh, sharding_replicate_dims(s->sh, x.sharding, g->ndims, g->dims)));
    if (!matches)
        x = reshard(s, x, whole);
    x = reshard(s, x, sharding_replicate_dims(s->sh, x.sharding, g->ndims, g->dims));
    /* Inside a group the data is cut as before on the other dims, in the order of the members. */
    return (struct pval){ x.local, x.base, g->inner };
}

bool product_free_inside(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n, bool strict, int side, const struct choice *c,
                         struct inner_product *in)
{
    struct spmd *s = p->s;
    int xside = side == LHS ? RHS : LHS;
    struct pval m = side == LHS ? l : r, x = side == LHS ? r : l;
    struct sharding_group go, gm, gx;
    sharding_group_on(s->sh, out, c->n, c->other, NULL, &go);
    sharding_id tiled = with_counts_of(p, m.sharding, c->own, out, c->other, c->n);
    if (!tiled.i)
        return false;
    sharding_group_on(s->sh, tiled, c->n, c->own, NULL, &gm);
    sharding_group_align(s->sh, &gm, &go, false);
    sharding_id aligned = sharding_ungroup(s->sh, &gm);
    if (strict && aligned.i != m.sharding.i)
        return false;

    bool on_copies;
    bool grouped = group_other(p, x, x.sharding, xside, m, out, base, &go, &gx, &on_copies);
    if (!grouped && !sharding_is_replicated(s->sh, x.sharding) && p->n[SPATIAL] == 0) {
        sharding_id wish = product_infer(p, out, m.sharding, xside, true);
        if (wish.i) {
            struct pval moved = reshard(s, x, wish);
            if (group_other(p, moved, x.sharding, xside, m, out, base, &go, &gx, &on_copies)) {
                x = moved;
                grouped = true;
            }
        }
    }
    struct pval xi;
    if (grouped) {
        xi = other_inside(p, x, xside, &gx, on_copies);
    } else {
        xi = replicate(s, x);
        xi = (struct pval){ xi.local, xi.base, sharding_replicated(s->sh) };
    }
    m = reshard(s, m, aligned);
    struct pval mi = inside(s, m, &gm);
    *in = (struct inner_product){ go, side == LHS ? mi : xi, side == LHS ? xi : mi,
                                  per_group_base(s, base, &go), go.inner, n / groups_of(&go) };
    return true;
}

static bool group_free(struct product *p, struct pval l, struct pval r, shape_id base,
                       sharding_id out, int64_t n, bool strict, int side, const struct choice *c,
                       struct pval *res)
{
    struct spmd *s = p->s;
    struct inner_product in;
    if (!product_free_inside(p, l, r, base, out, n, strict, side, c, &in))
        return false;
    groups_enter(s, in.groups.groups);
    struct pval y = product_partition(p, in.l, in.r, in.base, in.out, in.n);
    groups_leave(s);
    *res = reshard(s, pval_make(s, y.local, base, sharding_ungroup(s->sh, &in.groups)), out);
    return true;
}

static struct choice agreeing(const struct product *p, sharding_id sh, int side, sharding_id out)
{
    struct choice all = choose(p, free_class(side), side, OUTPUT), some = { 0 };
    for (int i = 0; i < all.n; i++) {
        int64_t t = tiles_on(p->s, sh, all.own[i]);
        if (t > 1 && t == tiles_on(p->s, out, all.other[i])) {
            some.own[some.n] = all.own[i];
            some.other[some.n++] = all.other[i];
        }
    }
    return some;
}

bool product_group_free(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, struct pval *res)
{
    struct spmd *s = p->s;
    int64_t ll = product_count(p, l.sharding, LFREE, LHS);
    int64_t rr = product_count(p, r.sharding, RFREE, RHS);
    int64_t ol = product_count(p, out, LFREE, OUTPUT);
    int64_t or_ = product_count(p, out, RFREE, OUTPUT);
    bool fl = ll == ol && ll > 1, fr = rr == or_ && rr > 1;
    struct choice c;
    int side;
    if (fl || fr) {
        int faster = product_faster_side(p, l, r, base, out, n, strict, fl, fr);
        if (faster == -2)
            return false;
        bool left = fl && (!fr || ll * local_bytes(s, r) < rr * local_bytes(s, l));
        if (faster >= 0)
            left = faster == LHS;
        side = left ? LHS : RHS;
        c = choose(p, free_class(side), side, OUTPUT);
    } else if (ll > 1 && ol > 1) {
        side = LHS;
        c = agreeing(p, l.sharding, LHS, out);
    } else if (rr > 1 && or_ > 1) {
        side = RHS;
        c = agreeing(p, r.sharding, RHS, out);
    } else {
        return false;
    }
    return c.n > 0 && group_free(p, l, r, base, out, n, strict, side, &c, res);
}

/* ---- contracting dims, S-180..S-182 ------------------------------------------------------------- */

struct contract_output {
    sharding_id inner; /* inside the groups */
    sharding_id outer; /* Z */
    int n, dims[OPS_MAX_RANK]; /* Q */
    bool rep;
};

/* What the product of an operand's shards is, summed: its sharding without the contracting dims. */
static sharding_id natural_output(struct product *p, const struct sharding_group *g, int side)
{
    int dims[OPS_MAX_RANK], k = product_dims(p, CONTRACT, side, dims);
    sharding_id sh = sharding_ungroup(p->s->sh, g);
    return product_map(p, sharding_replicate_dims(p->s->sh, sh, k, dims), side, OUTPUT);
}

/* S-182, 1: cut later rather than move an operand. */
static sharding_id output_of_operand(struct product *p, const struct sharding_group *gl,
                                     const struct sharding_group *gr, shape_id base,
                                     sharding_id out, int64_t n)
{
    struct spmd *s = p->s;
    if (!sharding_is_tiled(s->sh, out) ||
        (sharding_is_partial(s->sh, out) && sharding_copies(s->sh, out) % n == 0))
        return out;
    bool lw = sharding_is_replicated(s->sh, gl->inner), rw = sharding_is_replicated(s->sh, gr->inner);
    if (lw == rw)
        return out;
    /* An operand that is tiled on contracting dims only says nothing about the output. */
    sharding_id sh = natural_output(p, lw ? gr : gl, lw ? RHS : LHS);
    if (!sh.i || sharding_is_replicated(s->sh, sh))
        return out;
    const struct shape *b = shape_get(s->ir, base);
    return sharding_is_subtiling(s->sh, b->rank, b->dims, out, sh) ? sh : out;
}

static void contract_output(struct product *p, sharding_id out, const struct sharding_group *gl,
                            int64_t n, struct contract_output *o)
{
    struct spmd *s = p->s;
    struct sharding_group g;
    *o = (struct contract_output){ sharding_replicated(s->sh), sharding_replicated(s->sh), 0, { 0 },
                                   false };
    int rep = sharding_rep_axis(s->sh, out);
    if (sharding_is_partial(s->sh, out) && sharding_copies(s->sh, out) % n == 0) {
        int64_t keep = sharding_copies(s->sh, out) / n;
        sharding_group_on(s->sh, out, 1, &rep, &keep, &g);
        sharding_group_align(s->sh, &g, gl, true);
        o->inner = g.inner;
        o->outer = sharding_ungroup(s->sh, &g);
        return;
    }
    if (!sharding_is_tiled(s->sh, out))
        return;
    int dims[64], k = sharding_dims_matching(s->sh, out, gl->groups, dims);
    if (k > 0 && k <= OPS_MAX_RANK)
        sharding_group_on(s->sh, out, k, dims, NULL, &g);
    /* The reference keeps the members in the output's order, which need not be the groups'. */
    if (k > 0 && k <= OPS_MAX_RANK && sharding_group_align_members(s->sh, &g, gl)) {
        o->inner = g.inner;
        o->outer = out;
        for (int i = 0; i < k; i++) {
            if (dims[i] == rep)
                o->rep = true;
            else
                o->dims[o->n++] = dims[i];
        }
        return;
    }
    static const enum product_class order[] = { LFREE, RFREE, BATCH };
    for (size_t i = 0; i < COUNTOF(order); i++) {
        if (product_count(p, out, order[i], OUTPUT) != n)
            continue;
        o->n = product_dims(p, order[i], OUTPUT, o->dims);
        sharding_group_on(s->sh, out, o->n, o->dims, NULL, &g);
        sharding_group_align(s->sh, &g, gl, false);
        o->inner = g.inner;
        o->outer = sharding_ungroup(s->sh, &g);
        return;
    }
}

/* Whether a dim that the sum is to be cut on is tiled by an operand inside the groups too: the two
 * tilings would lie in each other the wrong way round (the reference computes wrong numbers then). */
static bool cut_twice(struct product *p, const struct contract_output *o, sharding_id linner,
                      sharding_id rinner)
{
    for (int i = 0; i < o->n; i++)
        for (int c = 0; c < NCLASSES; c++)
            for (int k = 0; k < p->n[c]; k++) {
                const struct product_dim *d = &p->dims[c][k];
                if (d->side[OUTPUT] != o->dims[i] || tiles_on(p->s, o->outer, o->dims[i]) == 1)
                    continue;
                if ((d->side[LHS] >= 0 && tiles_on(p->s, linner, d->side[LHS]) > 1) ||
                    (d->side[RHS] >= 0 && tiles_on(p->s, rinner, d->side[RHS]) > 1))
                    return true;
            }
    return false;
}

/* Whether the members of a group hold different parts of the product. */
static bool members_differ(struct product *p, const struct sharding_group *g, int side)
{
    int dims[OPS_MAX_RANK], k = product_dims(p, CONTRACT, side, dims);
    struct shardings *t = p->s->sh;
    return !sharding_is_replicated(t, g->inner) &&
           !sharding_is_replicated(t, sharding_replicate_dims(t, g->inner, k, dims));
}

/* S-181, 4 sums along dims of sh, whose copies are in the order of their numbers. Where the groups have
 * their members in another, devices with different parts would be added up (the reference does so): then
 * the sum is along the groups themselves. true: sh and dims say so now. */
static bool sum_along_groups(struct product *p, const struct sharding_group *gl,
                             const struct sharding_group *gr, const struct contract_output *o,
                             sharding_id *sh, int *n, int *dims)
{
    struct shardings *t = p->s->sh;
    static const int across[] = { 0 };
    if (sharding_is_replicated(t, o->inner) && !members_differ(p, gl, LHS) && !members_differ(p, gr, RHS))
        return false;
    sharding_id ranked = sharding_plain(t, gl->groups);
    if (tiling_same_groups(t, sharding_groups_along(t, *sh, *n, dims), sharding_groups_along(t, ranked, 1, across)))
        return false;
    *sh = ranked;
    *n = 1;
    dims[0] = 0;
    return true;
}

/* The step that sums across the groups, S-181, 4. */
static void push_step(struct product *p, const struct contract_output *o, sharding_id lhs,
                      shape_id base, const struct sharding_group *gl, const struct sharding_group *gr,
                      const struct choice *c)
{
    struct spmd *s = p->s;
    INVARIANT(p->nsteps < OPS_MAX_RANK, "contracting groups nested too deep");
    struct product_step *st = &p->steps[p->nsteps++];
    *st = (struct product_step){ .set = s->groups, .rep_axis = -1 };
    if (o->n == 0 && !o->rep) {
        st->along = lhs;
        st->nalong = c->n;
        memcpy(st->along_dims, c->own, sizeof st->along_dims);
        (void)sum_along_groups(p, gl, gr, o, &st->along, &st->nalong, st->along_dims);
        return;
    }
    st->outer = o->outer;
    st->n = o->n;
    memcpy(st->dims, o->dims, sizeof st->dims);
    if (o->n > 0)
        st->slice = sharding_replicate_except(s->sh, o->outer, o->n, o->dims);
    for (int i = 0; i < o->n; i++)
        st->whole[i] = shape_get(s->ir, base)->dims[o->dims[i]];
    st->along = o->outer;
    st->nalong = o->n;
    memcpy(st->along_dims, o->dims, sizeof st->along_dims);
    if (o->rep)
        st->along_dims[st->nalong++] = sharding_rep_axis(s->sh, o->outer);
    if (sum_along_groups(p, gl, gr, o, &st->along, &st->nalong, st->along_dims) || !o->rep)
        return;
    st->nalong--;
    st->rep_axis = sharding_rep_axis(s->sh, o->outer);
}

/* The product inside the groups, summed across them. */
static struct pval inside_contract(struct product *p, struct pval l, struct pval r, shape_id base,
                                   const struct sharding_group *gl, const struct sharding_group *gr,
                                   sharding_id out, int64_t n, const struct contract_output *o,
                                   const struct choice *c)
{
    struct spmd *s = p->s;
    shape_id inner_base = base;
    if (o->n > 0)
        inner_base = shard_shape(s, base, sharding_replicate_except(s->sh, out, o->n, o->dims));
    push_step(p, o, l.sharding, base, gl, gr, c);
    groups_enter(s, gl->groups);
    struct pval x = product_partition(p, inside(s, l, gl), inside(s, r, gr), inner_base, o->inner,
                                      n / groups_of(gl));
    groups_leave(s);
    p->nsteps--;
    return pval_make(s, x.local, base, o->outer);
}

/* The same where an operand is tiled on a dim that the sum is cut on: right when the product inside
 * has that dim whole all the same, and only then. */
static bool try_contract(struct product *p, struct pval l, struct pval r, shape_id base,
                         const struct sharding_group *gl, const struct sharding_group *gr,
                         sharding_id out, int64_t n, const struct contract_output *o,
                         const struct choice *c, struct pval *res)
{
    bool outer = p->cut_twice;
    int64_t remats = p->s->remats.n;
    p->cut_twice = false;
    *res = inside_contract(p, l, r, base, gl, gr, out, n, o, c);
    bool right = !p->cut_twice;
    p->cut_twice = outer;
    if (!right)
        p->s->remats.n = remats;
    return right;
}

/* S-181, 1 and 2: the operands tiled alike on the chosen dims, zero in their padding. */
static bool contract_operands(struct product *p, bool strict, const struct choice *c,
                              struct pval *lhs, struct pval *rhs, struct sharding_group *groups_l,
                              struct sharding_group *groups_r)
{
    struct spmd *s = p->s;
    struct sharding_group gl, gr;
    struct pval l = *lhs, r = *rhs;
    bool right_moves = local_bytes(s, l) > local_bytes(s, r);
    if (right_moves) {
        sharding_id t = with_counts_of(p, r.sharding, c->other, l.sharding, c->own, c->n);
        if (!t.i)
            return false;
        sharding_group_on(s->sh, l.sharding, c->n, c->own, NULL, &gl);
        sharding_group_on(s->sh, t, c->n, c->other, NULL, &gr);
        sharding_group_align(s->sh, &gr, &gl, false);
        t = sharding_ungroup(s->sh, &gr);
        if (strict && t.i != r.sharding.i)
            return false;
        r = reshard(s, r, t);
    } else {
        sharding_id t = with_counts_of(p, l.sharding, c->own, r.sharding, c->other, c->n);
        if (!t.i)
            return false;
        sharding_group_on(s->sh, t, c->n, c->own, NULL, &gl);
        sharding_group_on(s->sh, r.sharding, c->n, c->other, NULL, &gr);
        sharding_group_align(s->sh, &gl, &gr, false);
        t = sharding_ungroup(s->sh, &gl);
        if (strict && t.i != l.sharding.i)
            return false;
        l = reshard(s, l, t);
    }
    uint64_t lbits = 0, rbits = 0;
    for (int i = 0; i < c->n; i++) {
        lbits |= bit(c->own[i]);
        rbits |= bit(c->other[i]);
    }
    *lhs = mask_zero(s, l, ~lbits);
    *rhs = mask_zero(s, r, ~rbits);
    *groups_l = gl;
    *groups_r = gr;
    return true;
}

bool product_contract_inside(struct product *p, struct pval l, struct pval r, shape_id base,
                             sharding_id out, int64_t n, bool strict, const struct choice *c,
                             struct inner_product *in)
{
    struct sharding_group gr;
    if (!contract_operands(p, strict, c, &l, &r, &in->groups, &gr))
        return false;
    struct spmd *s = p->s;
    int64_t count = groups_of(&in->groups);
    struct contract_output o;
    contract_output(p, output_of_operand(p, &in->groups, &gr, base, out, count), &in->groups, count,
                    &o);
    in->l = inside(s, l, &in->groups);
    in->r = inside(s, r, &gr);
    in->base = base;
    in->out = o.inner;
    in->n = n / count;
    return true;
}

/* With choose_faster: a loop inside the groups that makes the whole result, summed afterwards. */
static bool sum_after_loop(struct product *p, struct pval l, struct pval r, shape_id base,
                           const struct sharding_group *gl, const struct sharding_group *gr,
                           int64_t n, const struct contract_output *o, const struct choice *c,
                           struct pval *res)
{
    struct spmd *s = p->s;
    if (!s->opt->choose_faster_windowed_einsum || o->n == 0)
        return false;
    int before = p->loops;
    int64_t remats = s->remats.n;
    groups_enter(s, gl->groups);
    struct pval x = product_partition(p, inside(s, l, gl), inside(s, r, gr), base, o->inner,
                                      n / groups_of(gl));
    groups_leave(s);
    if (p->loops == before) { /* dead */
        s->remats.n = remats;
        return false;
    }
    const char *old = because(s, "partial sums of the contracting dimension (S-181)");
    enum dtype t = node_shape(s, x.local)->dtype;
    comp_id add = binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t);
    struct choice along = *c;
    sharding_id summed = l.sharding;
    (void)sum_along_groups(p, gl, gr, o, &summed, &along.n, along.own);
    instr_id y = emit_reduce_along(s, x.local, add, summed, along.n, along.own);
    s->reason = old;
    *res = pval_make(s, y, base, sharding_replicate_dims(s->sh, o->outer, o->n, o->dims));
    return true;
}

static bool group_contract(struct product *p, struct pval l, struct pval r, shape_id base,
                           sharding_id final, int64_t n, bool strict, const struct choice *c,
                           struct pval *res)
{
    struct spmd *s = p->s;
    struct sharding_group gl, gr;
    if (!contract_operands(p, strict, c, &l, &r, &gl, &gr))
        return false;
    int64_t count = groups_of(&gl);
    sharding_id out = output_of_operand(p, &gl, &gr, base, final, count);
    struct contract_output o;
    contract_output(p, out, &gl, count, &o);
    if (sum_after_loop(p, l, r, base, &gl, &gr, n, &o, c, res)) {
        *res = reshard(s, *res, final);
        return true;
    }
    if (!cut_twice(p, &o, gl.inner, gr.inner)) {
        *res = inside_contract(p, l, r, base, &gl, &gr, out, n, &o, c);
    } else if (!try_contract(p, l, r, base, &gl, &gr, out, n, &o, c, res)) {
        bool by_left = !sharding_is_replicated(s->sh, gl.inner);
        out = natural_output(p, by_left ? &gl : &gr, by_left ? LHS : RHS);
        contract_output(p, out.i ? out : sharding_replicated(s->sh), &gl, count, &o);
        if (cut_twice(p, &o, gl.inner, gr.inner))
            contract_output(p, sharding_replicated(s->sh), &gl, count, &o);
        *res = inside_contract(p, l, r, base, &gl, &gr, out, n, &o, c);
    }
    *res = reshard(s, *res, final);
    return true;
}

bool product_group_contract(struct product *p, struct pval l, struct pval r, shape_id base,
                            sharding_id out, int64_t n, bool strict, struct pval *res)
{
    int64_t lc = product_count(p, l.sharding, CONTRACT, LHS);
    int64_t rc = product_count(p, r.sharding, CONTRACT, RHS);
    struct choice all = choose(p, CONTRACT, LHS, RHS), some = { 0 };
    if (lc == rc && lc > 1 && group_contract(p, l, r, base, out, n, strict, &all, res))
        return true;
    if (lc <= 1 || rc <= 1)
        return false;
    for (int i = 0; i < all.n; i++) {
        int64_t t = tiles_on(p->s, l.sharding, all.own[i]);
        if (t > 1 && t == tiles_on(p->s, r.sharding, all.other[i])) {
            some.own[some.n] = all.own[i];
            some.other[some.n++] = all.other[i];
        }
    }
    return some.n > 0 && group_contract(p, l, r, base, out, n, strict, &some, res);
}
