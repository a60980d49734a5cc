/* Strategies of gather and scatter, S-208..S-213. */
#include "partition/gs.h"

#include <string.h>

/* Copies of the value lists of a level, to be changed for the next one. */
static struct gs_state copy_state(struct gs *g, const struct gs_state *st)
{
    struct gs_state c = *st;
    c.operand = ARENA_ARRAY(&g->s->arena, struct pval, g->n);
    memcpy(c.operand, st->operand, (size_t)g->n * sizeof *c.operand);
    if (g->scatter) {
        c.update = ARENA_ARRAY(&g->s->arena, struct pval, g->n);
        memcpy(c.update, st->update, (size_t)g->n * sizeof *c.update);
    }
    return c;
}

static sharding_id output_sharding(const struct gs *g, const struct gs_state *st)
{
    return g->scatter ? st->update[0].sharding : st->out;
}

/* sh refined by `by` where the two agree. */
static sharding_id refined(struct spmd *s, sharding_id sh, sharding_id by)
{
    sharding_id merged = sh;
    if (!sharding_is_tiled(s->sh, by) || (!sharding_is_tiled(s->sh, sh) && !is_tile_max(s, sh)))
        return sh;
    return sharding_merge_compat(s->sh, by, &merged, -1) ? merged : sh;
}

/* Runs the next level inside groups; labels the results and brings them to this level's OUT. */
static void recurse(struct gs *g, const struct gs_state *st, struct gs_state *inner,
                    const struct sharding_group *result, struct pval *res)
{
    struct spmd *s = g->s;
    inner->out = result->inner;
    if (!g->scatter)
        inner->base = per_group_base(s, st->base, result);
    groups_enter(s, result->groups);
    gs_run(g, inner, res);
    groups_leave(s);
    sharding_id label = sharding_ungroup(s->sh, result);
    for (int k = 0; k < (g->scatter ? g->n : 1); k++) {
        shape_id base = g->scatter ? st->operand[k].base : st->base;
        res[k] = reshard(s, pval_make(s, res[k].local, base, label), st->out);
    }
}

static int64_t count_on(struct spmd *s, sharding_id sh, int n, const int *dims)
{
    int64_t c = 1;
    for (int i = 0; i < n; i++)
        c *= tiles_on(s, sh, dims[i]);
    return c;
}

/* ---- batch and parallel dims, S-208 ------------------------------------------------------------- */

/* Raises the paired counts of a partial sharding to those of the other side. none: impossible. */
static sharding_id raise_counts(struct spmd *s, sharding_id sh, const int *own, sharding_id other,
                                const int *theirs, int n)
{
    int rep = sharding_rep_axis(s->sh, sh);
    if (!sharding_is_partial(s->sh, sh) || rep < 0)
        return (sharding_id){ 0 };
    int64_t counts[64];
    tile_counts(s, sh, counts);
    for (int i = 0; i < n; i++) {
        int64_t want = tiles_on(s, other, theirs[i]), have = counts[own[i]];
        if (want % have != 0 || counts[rep] % (want / have) != 0)
            return (sharding_id){ 0 };
        counts[own[i]] = want;
        counts[rep] /= want / have;
    }
    return retile(s, sh, counts);
}

/* Shardings of operand and indices that agree on the paired dims. */
static bool align_pairs(struct gs *g, const struct gs_state *st, const struct gs_pairs *p,
                        sharding_id *operand, sharding_id *indices)
{
    struct spmd *s = g->s;
    *operand = st->operand[0].sharding;
    *indices = st->indices.sharding;
    int64_t oc = count_on(s, *operand, p->n, p->operand);
    int64_t ic = count_on(s, *indices, p->n, p->indices);
    if (oc == 1 && ic == 1)
        return false;
    if (sharding_is_replicated(s->sh, *indices)) {
        *indices = sharding_along_dims(s->sh, *operand, p->n, p->operand, p->indices,
                                       g->indices_rank);
        ic = oc;
    } else if (sharding_is_replicated(s->sh, *operand)) {
        *operand = sharding_along_dims(s->sh, *indices, p->n, p->indices, p->operand,
                                       g->operand_rank);
        oc = ic;
    }
    if (!sharding_is_tiled(s->sh, *operand) || !sharding_is_tiled(s->sh, *indices))
        return false;
    if (oc < ic)
        *operand = raise_counts(s, *operand, p->operand, *indices, p->indices, p->n);
    else if (ic < oc)
        *indices = raise_counts(s, *indices, p->indices, *operand, p->operand, p->n);
    if (!operand->i || !indices->i)
        return false;
    int64_t counts[64], total = 1;
    tile_counts(s, *operand, counts);
    for (int i = 0; i < p->n; i++)
        counts[p->operand[i]] = tiles_on(s, *indices, p->indices[i]);
    for (int i = 0; i < tile_axes(s, *operand); i++)
        total *= counts[i];
    if (total != sharding_total(s->sh, *operand))
        return false;
    *operand = retile(s, *operand, counts);
    *operand = sharding_align_on_dims(s->sh, *operand, p->n, p->operand, *indices, p->indices);
    return true;
}

/* Index components count from the first element of the operand's shard. */
static struct pval shift_indices(struct gs *g, struct pval indices, struct pval operand,
                                 const struct gs_pairs *p)
{
    struct spmd *s = g->s;
    instr_id parts[OPS_MAX_RANK];
    for (int i = 0; i < g->nmap; i++) {
        parts[i] = emit_const_i(s, DTYPE_S32, 0);
        for (int k = 0; k < p->n; k++)
            if (p->operand[k] == g->map[i])
                parts[i] = offset_node(s, operand.sharding, g->map[i],
                                       base_of(s, operand)->dims[g->map[i]]);
    }
    instr_id low = gs_component_vector(g, indices.local, parts);
    indices.local = emit_arith(s, OP_SUBTRACT, indices.local, low);
    return indices;
}

static bool by_pairs(struct gs *g, const struct gs_state *st, const struct gs_pairs *p,
                     bool explicit_batch, struct pval *res)
{
    struct spmd *s = g->s;
    sharding_id osh, ish;
    if (p->n == 0 || !align_pairs(g, st, p, &osh, &ish))
        return false;
    if (g->vector_dim < g->indices_rank)
        ish = sharding_replicate_dims(s->sh, ish, 1, &g->vector_dim);
    if (!sharding_is_tiled(s->sh, ish))
        return false;
    struct gs_state in = copy_state(g, st);
    for (int k = 0; k < g->n; k++)
        in.operand[k] = reshard(s, in.operand[k], osh);
    in.indices = reshard(s, in.indices, ish);

    sharding_id outsh = gs_output_of_indices(g, ish, &g->all);
    struct gs_pairs pass = gs_pass_through(g, st);
    sharding_id from_operand = sharding_along_dims(s->sh, osh, pass.n, pass.operand, pass.output,
                                                   g->output_rank);
    outsh = refined(s, outsh, from_operand);

    struct sharding_group go, gi, gout;
    sharding_group_on(s->sh, osh, p->n, p->operand, NULL, &go);
    sharding_group_on(s->sh, ish, p->n, p->indices, NULL, &gi);
    sharding_group_on(s->sh, outsh, p->n, p->output, NULL, &gout);
    if (!sharding_group_align(s->sh, &go, &gi, false) || gs_groups(&go) != gs_groups(&gi) ||
        gs_groups(&gout) != gs_groups(&gi))
        return false;
    sharding_group_align(s->sh, &gout, &gi, false);
    for (int k = 0; k < g->n; k++)
        in.operand[k] = reshard(s, in.operand[k], sharding_ungroup(s->sh, &go));
    if (g->scatter) {
        in.indices = gs_mask_indices(g, in.indices, p->n, p->indices);
        for (int k = 0; k < g->n; k++)
            in.update[k] = gs_inside(g, reshard(s, in.update[k], sharding_ungroup(s->sh, &gout)),
                                     &gout);
    }
    if (!explicit_batch)
        in.indices = shift_indices(g, in.indices, in.operand[0], p);
    in.indices = gs_inside(g, in.indices, &gi);
    for (int k = 0; k < g->n; k++)
        in.operand[k] = gs_inside(g, in.operand[k], &go);
    recurse(g, st, &in, g->scatter ? &go : &gout, res);
    return true;
}

bool gs_by_batch(struct gs *g, const struct gs_state *st, struct pval *res)
{
    return by_pairs(g, st, &g->batch, true, res);
}

bool gs_by_parallel(struct gs *g, const struct gs_state *st, struct pval *res)
{
    return by_pairs(g, st, &g->parallel, false, res);
}

/* ---- operand pass-through, S-209 ---------------------------------------------------------------- */

bool gs_by_operand(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    struct gs_pairs p = gs_pass_through(g, st), t = { 0 };
    sharding_id osh = st->operand[0].sharding;
    if (!sharding_is_tiled(s->sh, osh))
        return false;
    for (int i = 0; i < p.n; i++) {
        if (tiles_on(s, osh, p.operand[i]) == 1)
            continue;
        t.operand[t.n] = p.operand[i];
        t.output[t.n++] = p.output[i];
    }
    if (t.n == 0)
        return false;
    sharding_id outsh =
        sharding_along_dims(s->sh, osh, t.n, t.operand, t.output, g->output_rank);
    outsh = refined(s, outsh, output_sharding(g, st));
    struct sharding_group go, gout, gi;
    sharding_group_on(s->sh, outsh, t.n, t.output, NULL, &gout);
    sharding_group_on(s->sh, osh, t.n, t.operand, NULL, &go);
    if (gs_groups(&go) != gs_groups(&gout))
        return false;
    sharding_group_align(s->sh, &go, &gout, false);

    struct gs_state in = copy_state(g, st);
    for (int k = 0; k < g->n; k++) {
        in.operand[k] = reshard(s, in.operand[k], sharding_ungroup(s->sh, &go));
        in.operand[k] = gs_inside(g, in.operand[k], &go);
    }
    for (int i = 0; i < t.n; i++)
        in.sizes[t.operand[i]] = base_of(s, in.operand[0])->dims[t.operand[i]];
    int prio[OPS_MAX_RANK], n = gs_indices_priority(g, prio);
    in.indices = gs_group_copies(g, st->indices, &gout, n, prio, &gi);
    for (int k = 0; g->scatter && k < g->n; k++) {
        in.update[k] = reshard(s, in.update[k], sharding_ungroup(s->sh, &gout));
        in.update[k] = gs_inside(g, in.update[k], &gout);
    }
    recurse(g, st, &in, g->scatter ? &go : &gout, res);
    return true;
}

/* ---- trivially sliced dims, S-210, S-211 -------------------------------------------------------- */

struct slices {
    int n;
    int dims[OPS_MAX_RANK]; /* tiled operand dims */
    struct sharding_group go, gi, gout;
};

/* Groups of indices and output: copies in every group. When only one of them is tiled inside, the
 * other one follows over the index dims that pass through. */
static void group_others(struct gs *g, const struct gs_state *st, struct slices *c,
                         struct pval *indices, sharding_id *outsh)
{
    struct spmd *s = g->s;
    int iprio[OPS_MAX_RANK], ni = gs_indices_priority(g, iprio);
    int oprio[OPS_MAX_RANK], no = gs_output_priority(g, st, oprio);
    int64_t n = gs_groups(&c->go), total = group_devices(s);
    sharding_id ish = st->indices.sharding;
    *outsh = output_sharding(g, st);
    sharding_group_on_replication(s->sh, ish, n, total, g->indices_rank, ni, iprio, &c->gi);
    sharding_group_on_replication(s->sh, *outsh, n, total, g->output_rank, no, oprio, &c->gout);
    bool iw = sharding_is_replicated(s->sh, c->gi.inner);
    bool ow = sharding_is_replicated(s->sh, c->gout.inner);
    if (iw && !ow) {
        ish = sharding_along_dims(s->sh, sharding_ungroup(s->sh, &c->gout), g->through.n,
                                  g->through.output, g->through.indices, g->indices_rank);
        sharding_group_on_replication(s->sh, ish, n, total, g->indices_rank, ni, iprio, &c->gi);
    } else if (ow && !iw) {
        *outsh = gs_output_of_indices(g, sharding_ungroup(s->sh, &c->gi), &g->through);
        sharding_group_on_replication(s->sh, *outsh, n, total, g->output_rank, no, oprio, &c->gout);
    }
    sharding_group_align(s->sh, &c->gi, &c->go, false);
    sharding_group_align(s->sh, &c->gout, &c->go, false);
    *indices = reshard(s, st->indices, sharding_ungroup(s->sh, &c->gi));
}

static bool find_slices(struct gs *g, const struct gs_state *st, struct slices *c)
{
    struct spmd *s = g->s;
    int dims[OPS_MAX_RANK], n = gs_sliced(g, st, dims);
    *c = (struct slices){ 0 };
    for (int i = 0; i < n; i++)
        if (tiles_on(s, st->operand[0].sharding, dims[i]) > 1)
            c->dims[c->n++] = dims[i];
    if (c->n == 0)
        return false;
    sharding_group_on(s->sh, st->operand[0].sharding, c->n, c->dims, NULL, &c->go);
    return true;
}

static bool is_cut(const struct slices *c, int dim)
{
    for (int i = 0; i < c->n; i++)
        if (c->dims[i] == dim)
            return true;
    return false;
}

/* First and last operand index that this device holds, a component each. */
static void index_range(struct gs *g, const struct gs_state *st, const struct slices *c,
                        instr_id *first, instr_id *last)
{
    struct spmd *s = g->s;
    const struct shape *x = base_of(s, st->operand[0]);
    for (int i = 0; i < g->nmap; i++) {
        int d = g->map[i];
        first[i] = emit_const_i(s, DTYPE_S32, 0);
        last[i] = emit_const_i(s, DTYPE_S32, x->dims[d]);
        if (!is_cut(c, d))
            continue;
        int64_t shard = ceil_div(x->dims[d], tiles_on(s, st->operand[0].sharding, d));
        first[i] = offset_node(s, st->operand[0].sharding, d, x->dims[d]);
        last[i] = emit_arith(s, OP_ADD, first[i], emit_const_i(s, DTYPE_S32, shard - 1));
    }
}

/* Every index inside the array, as the operation on the whole array clamps it. */
static instr_id clamp_indices(struct gs *g, const struct gs_state *st, instr_id indices)
{
    struct spmd *s = g->s;
    const struct shape *x = base_of(s, st->operand[0]);
    instr_id high[OPS_MAX_RANK], low[OPS_MAX_RANK];
    for (int i = 0; i < g->nmap; i++) {
        low[i] = emit_const_i(s, DTYPE_S32, 0);
        high[i] = emit_const_i(s, DTYPE_S32, x->dims[g->map[i]] - 1);
    }
    indices = emit_arith(s, OP_MAXIMUM, indices, gs_component_vector(g, indices, low));
    return emit_arith(s, OP_MINIMUM, indices, gs_component_vector(g, indices, high));
}

/* Any component outside: OR over the index vector. */
static instr_id any_component(struct gs *g, instr_id pred)
{
    struct spmd *s = g->s;
    if (g->vector_dim >= g->indices_rank)
        return pred;
    const struct shape *x = node_shape(s, pred);
    int64_t dims[OPS_MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != g->vector_dim)
            dims[n++] = x->dims[d];
    instr_id ops[2] = { pred, emit_zero(s, DTYPE_PRED) };
    int64_t over = g->vector_dim;
    struct attr attrs[2] = { attr_ints(s->out, ATTR_DIMENSIONS, 1, &over),
                             attr_comp(ATTR_TO_APPLY, binary_computation(s, OP_OR, DTYPE_PRED)) };
    return emit(s, OP_REDUCE, shape_array(s->ir, DTYPE_PRED, n, dims), 2, ops, 2, attrs);
}

/* The filter over the indices' dims, as the result inside the groups is tiled, spread over it. */
static instr_id filter_for(struct gs *g, struct pval indices, instr_id filter, struct pval result)
{
    struct spmd *s = g->s;
    const struct shape *ib = base_of(s, indices);
    int64_t dims[OPS_MAX_RANK];
    int map[OPS_MAX_RANK], identity[OPS_MAX_RANK];
    for (int i = 0; i < g->all.n; i++) {
        dims[i] = ib->dims[g->all.indices[i]];
        map[i] = g->all.output[i];
        identity[i] = i;
    }
    sharding_id have = sharding_along_dims(s->sh, indices.sharding, g->all.n, g->all.indices,
                                           identity, g->all.n);
    sharding_id want = sharding_along_dims(s->sh, result.sharding, g->all.n, map, identity,
                                           g->all.n);
    if (g->all.n == 0)
        have = want = sharding_replicated(s->sh);
    struct pval f =
        pval_make(s, filter, shape_array(s->ir, DTYPE_PRED, g->all.n, dims), have);
    f = reshard(s, f, want);
    const struct shape *x = node_shape(s, result.local);
    return emit_broadcast(s, f.local, x->rank, x->dims, map);
}

static bool gather_slices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    struct slices c;
    struct pval indices;
    sharding_id outsh;
    if (!find_slices(g, st, &c))
        return false;
    group_others(g, st, &c, &indices, &outsh);
    if (g->vector_dim < g->indices_rank && tiles_on(s, c.gi.inner, g->vector_dim) > 1)
        return false;
    instr_id first[OPS_MAX_RANK], last[OPS_MAX_RANK];
    index_range(g, st, &c, first, last);
    instr_id at = clamp_indices(g, st, indices.local);
    instr_id low = gs_component_vector(g, at, first), high = gs_component_vector(g, at, last);
    instr_id outside = emit_arith(s, OP_OR, emit_compare(s, "LT", at, low),
                                  emit_compare(s, "GT", at, high));
    instr_id local = emit_arith(s, OP_MINIMUM, emit_arith(s, OP_MAXIMUM, at, low), high);
    local = emit_arith(s, OP_SUBTRACT, local, low);

    struct gs_state in = copy_state(g, st);
    in.operand[0] = gs_inside(g, st->operand[0], &c.go);
    in.indices = (struct pval){ local, indices.base, c.gi.inner };
    in.out = c.gout.inner;
    groups_enter(s, c.go.groups);
    gs_run(g, &in, res);
    instr_id filter = filter_for(g, in.indices, any_component(g, outside), res[0]);
    const struct shape *x = node_shape(s, res[0].local);
    instr_id zero = emit_broadcast_scalar(s, emit_zero(s, x->dtype), x->rank, x->dims);
    instr_id y = emit_select(s, filter, zero, res[0].local);
    groups_leave(s);
    const char *old = because(s, "slices of a tiled operand dimension (S-210)");
    comp_id add = binary_computation(s, x->dtype == DTYPE_PRED ? OP_OR : OP_ADD, x->dtype);
    y = emit_reduce_along(s, y, add, st->operand[0].sharding, c.n, c.dims);
    s->reason = old;
    sharding_id label = sharding_ungroup(s->sh, &c.gout);
    res[0] = reshard(s, pval_make(s, y, st->base, label), st->out);
    return true;
}

static bool scatter_slices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    struct slices c;
    struct pval indices;
    sharding_id outsh;
    if (!find_slices(g, st, &c))
        return false;
    group_others(g, st, &c, &indices, &outsh);
    if (g->vector_dim < g->indices_rank && tiles_on(s, c.gi.inner, g->vector_dim) > 1)
        return false;
    struct gs_state in = copy_state(g, st);
    sharding_id updates = sharding_ungroup(s->sh, &c.gout);
    for (int k = 0; k < g->n; k++) {
        in.update[k] = reshard(s, st->update[k], updates);
        in.update[k].sharding = c.gout.inner;
        in.operand[k] = gs_inside(g, st->operand[k], &c.go);
    }
    instr_id first[OPS_MAX_RANK], last[OPS_MAX_RANK];
    index_range(g, st, &c, first, last);
    instr_id low = gs_component_vector(g, indices.local, first);
    in.indices = (struct pval){ emit_arith(s, OP_SUBTRACT, indices.local, low), indices.base,
                                c.gi.inner };
    recurse(g, st, &in, &c.go, res);
    return true;
}

bool gs_by_slices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    return g->scatter ? scatter_slices(g, st, res) : gather_slices(g, st, res);
}

/* ---- index pass-through, S-212, S-213 ----------------------------------------------------------- */

/* The groups' members stand in one order for both: that of updates or output where these are split inside
 * the groups too, which stay where they are, and the indices, the smaller ones, move: true. */
static bool indices_follow(struct spmd *s, struct sharding_group *gi, struct sharding_group *other)
{
    bool follow = sharding_is_tiled(s->sh, other->inner);
    if (follow)
        sharding_group_align(s->sh, gi, other, false);
    else
        sharding_group_align(s->sh, other, gi, false);
    return follow;
}

static bool gather_indices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    if (!sharding_is_tiled(s->sh, st->indices.sharding))
        return false;
    sharding_id wish = sharding_along_dims(s->sh, st->out, g->through.n, g->through.output,
                                           g->through.indices, g->indices_rank);
    sharding_id ish = refined(s, st->indices.sharding, wish);
    sharding_id outsh = gs_output_of_indices(g, ish, &g->through);
    if (!sharding_is_tiled(s->sh, outsh))
        return false;
    struct gs_pairs t = { 0 };
    for (int i = 0; i < g->through.n; i++) {
        if (tiles_on(s, ish, g->through.indices[i]) == 1)
            continue;
        t.indices[t.n] = g->through.indices[i];
        t.output[t.n++] = g->through.output[i];
    }
    if (t.n == 0)
        return false;
    outsh = refined(s, outsh, st->out);
    struct gs_state in = copy_state(g, st);
    struct sharding_group gi, gout, go;
    sharding_group_on(s->sh, ish, t.n, t.indices, NULL, &gi);
    sharding_group_on(s->sh, outsh, t.n, t.output, NULL, &gout);
    indices_follow(s, &gi, &gout);
    ish = sharding_ungroup(s->sh, &gi);
    in.indices = gs_inside(g, reshard(s, st->indices, ish), &gi);
    int prio[OPS_MAX_RANK], n = gs_operand_priority(g, st, prio);
    in.operand[0] = gs_group_copies(g, st->operand[0], &gi, n, prio, &go);
    recurse(g, st, &in, &gout, res);
    return true;
}

/* The first device of the groups that hold one copy of the indices keeps the operand, the others
 * start from the combiner's identity. */
static struct pval operand_or_identity(struct gs *g, struct pval v, const struct sharding_group *gi,
                                       enum op_kind op)
{
    struct spmd *s = g->s;
    instr_id identity;
    if (!emit_identity(s, op, base_of(s, v)->dtype, &identity))
        return v;
    const struct shape *x = node_shape(s, v.local);
    instr_id first = emit_compare(s, "EQ", group_index_node(s, gi), emit_const_i(s, DTYPE_S32, 0));
    instr_id none = emit_broadcast_scalar(s, identity, x->rank, x->dims);
    v.local = emit_select(s, first, v.local, none);
    return v;
}

/* Reduces the members of equal rank of all groups, grouped dim by grouped dim. A partial sharding
 * can't say which these are: it forgets in which order its copies stand. */
static instr_id reduce_ranks(struct spmd *s, instr_id x, comp_id reducer, const struct sharding_group *g)
{
    int64_t view[RANK_ROOM];
    int n = g->ndims;
    for (int j = 0; j < n; j++)
        view[j] = g->sizes[j];
    view[n] = g->groups.dims[1];
    struct tiling split = tiling_reshape(s->sh, g->groups, n + 1, view);
    for (int j = n - 1; j >= 0; j--) {
        int perm[RANK_ROOM], m = 0;
        for (int i = 0; i <= n; i++)
            if (i != j)
                perm[m++] = i;
        perm[m] = j;
        int64_t dims[2] = { g->groups.dims[0] * g->groups.dims[1] / view[j], view[j] };
        struct tiling along = tiling_transpose(s->sh, split, perm);
        x = emit_all_reduce(s, x, reducer, tiling_reshape(s->sh, along, 2, dims));
    }
    return x;
}

static bool scatter_indices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    const struct attr *body = instr_attr(instr_at(s->src, g->source), ATTR_TO_APPLY);
    enum op_kind op = body && g->n == 1 ? simple_reducer(s->src, body->comp, 0, 1) : OP_NONE;
    instr_id probe;
    if (op == OP_NONE || op == OP_XOR || !emit_identity(s, op, base_of(s, st->operand[0])->dtype, &probe))
        return false;
    sharding_id wish =
        sharding_along_dims(s->sh, st->update[0].sharding, g->through.n, g->through.output,
                            g->through.indices, g->indices_rank);
    sharding_id ish = refined(s, st->indices.sharding, wish);
    sharding_id upd = gs_output_of_indices(g, ish, &g->through);
    if (!sharding_is_tiled(s->sh, upd))
        return false;
    struct gs_pairs t = { 0 };
    for (int i = 0; i < g->through.n; i++) {
        if (tiles_on(s, ish, g->through.indices[i]) == 1)
            continue;
        t.indices[t.n] = g->through.indices[i];
        t.output[t.n++] = g->through.output[i];
    }
    if (t.n == 0)
        return false;
    upd = refined(s, upd, st->update[0].sharding);
    struct gs_state in = copy_state(g, st);
    struct sharding_group gi, gu, go;
    sharding_group_on(s->sh, ish, t.n, t.indices, NULL, &gi);
    sharding_group_on(s->sh, upd, t.n, t.output, NULL, &gu);
    bool follow = indices_follow(s, &gi, &gu);
    ish = sharding_ungroup(s->sh, &gi);
    struct pval indices = gs_mask_indices(g, reshard(s, st->indices, ish), t.n, t.indices);
    in.indices = gs_inside(g, indices, &gi);
    in.update[0] = gs_inside(g, reshard(s, st->update[0], sharding_ungroup(s->sh, &gu)), &gu);
    int prio[OPS_MAX_RANK], n = gs_operand_priority(g, st, prio);
    in.operand[0] = gs_group_copies(g, st->operand[0], &gi, n, prio, &go);
    in.operand[0] = operand_or_identity(g, in.operand[0], &gi, op);
    in.out = go.inner;
    groups_enter(s, gi.groups);
    gs_run(g, &in, res);
    groups_leave(s);
    const char *old = because(s, "updates of tiled indices (S-213)");
    comp_id reducer = binary_computation(s, op, base_of(s, res[0])->dtype);
    instr_id y = follow && sharding_is_tiled(s->sh, go.inner)
                     ? reduce_ranks(s, res[0].local, reducer, &gi)
                     : emit_reduce_along(s, res[0].local, reducer, ish, t.n, t.indices);
    s->reason = old;
    sharding_id label = sharding_ungroup(s->sh, &go);
    res[0] = reshard(s, pval_make(s, y, st->operand[0].base, label), st->out);
    return true;
}

bool gs_by_indices(struct gs *g, const struct gs_state *st, struct pval *res)
{
    return g->scatter ? scatter_indices(g, st, res) : gather_indices(g, st, res);
}
