/* Gather and scatter: reading, choosing a strategy, the local operation. Sections 12.1, 12.2. */
#include "partition/gs.h"

#include <string.h>

/* ---- roles, S-203 ------------------------------------------------------------------------------- */

static uint64_t bits_of(const int64_t *v, int n)
{
    uint64_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= bit((int)v[i]);
    return bits;
}

static void pair_up(struct gs_pairs *p, int operand, int indices, int output)
{
    p->operand[p->n] = operand;
    p->indices[p->n] = indices;
    p->output[p->n++] = output;
}

static int output_of_indices_dim(const struct gs *g, int dim)
{
    for (int i = 0; i < g->all.n; i++)
        if (g->all.indices[i] == dim)
            return g->all.output[i];
    return -1;
}

/* Slice sizes of a scatter: what an update's window covers. */
static void scatter_sizes(struct gs *g, const struct shape *update, int64_t *sizes)
{
    int w = 0;
    for (int d = 0; d < g->operand_rank; d++) {
        sizes[d] = 1;
        if (g->dropped & bit(d))
            continue;
        while (w < update->rank && !(g->offset & bit(w)))
            w++;
        if (w < update->rank)
            sizes[d] = update->dims[w++];
    }
}

bool gs_read(struct gs *g, struct spmd *s, instr_id source, bool scatter, struct gs_state *st)
{
    const struct instr *in = instr_at(s->src, source);
    *g = (struct gs){ .s = s, .source = source, .scatter = scatter };
    g->n = scatter ? ((int)in->noperands - 1) / 2 : 1;
    const struct shape *operand = source_shape(s, in->operands[0]);
    const struct shape *indices = source_shape(s, in->operands[g->n]);
    const struct shape *output =
        scatter ? source_shape(s, in->operands[g->n + 1]) : source_shape(s, source);
    g->operand_rank = operand->rank;
    g->indices_rank = indices->rank;
    g->output_rank = output->rank;
    if (operand->rank >= OPS_MAX_RANK || indices->rank >= OPS_MAX_RANK ||
        output->rank >= OPS_MAX_RANK)
        return false;
    g->vector_dim = (int)instr_int(in, ATTR_INDEX_VECTOR_DIM, indices->rank);
    int n, nbatch, nibatch;
    const int64_t *v = instr_ints(
        in, scatter ? ATTR_SCATTER_DIMS_TO_OPERAND_DIMS : ATTR_START_INDEX_MAP, &g->nmap);
    for (int i = 0; i < g->nmap; i++)
        g->map[i] = (int)v[i];
    v = instr_ints(in, scatter ? ATTR_UPDATE_WINDOW_DIMS : ATTR_OFFSET_DIMS, &n);
    g->offset = bits_of(v, n);
    const int64_t *ob =
        instr_ints(in, scatter ? ATTR_INPUT_BATCHING_DIMS : ATTR_OPERAND_BATCHING_DIMS, &nbatch);
    g->batching = bits_of(ob, nbatch);
    v = instr_ints(in, scatter ? ATTR_INSERTED_WINDOW_DIMS : ATTR_COLLAPSED_SLICE_DIMS, &n);
    g->dropped = bits_of(v, n) | g->batching;
    const int64_t *ib = instr_ints(
        in, scatter ? ATTR_SCATTER_INDICES_BATCHING_DIMS : ATTR_START_INDICES_BATCHING_DIMS,
        &nibatch);

    for (int d = 0, o = 0; d < g->indices_rank; d++) {
        if (d == g->vector_dim)
            continue;
        while (o < g->output_rank && (g->offset & bit(o)))
            o++;
        pair_up(&g->all, -1, d, o++);
    }
    for (int i = 0; i < nbatch && i < nibatch; i++)
        pair_up(&g->batch, (int)ob[i], (int)ib[i], output_of_indices_dim(g, (int)ib[i]));
    if (scatter) {
        scatter_sizes(g, output, st->sizes);
    } else {
        v = instr_ints(in, ATTR_SLICE_SIZES, &n);
        for (int i = 0; i < n; i++)
            st->sizes[i] = v[i];
    }
    gs_find_parallel(g, st->sizes);
    uint64_t taken = 0;
    for (int i = 0; i < g->batch.n; i++)
        taken |= bit(g->batch.indices[i]);
    for (int i = 0; i < g->parallel.n; i++)
        taken |= bit(g->parallel.indices[i]);
    for (int i = 0; i < g->all.n; i++)
        if (!(taken & bit(g->all.indices[i])))
            pair_up(&g->through, -1, g->all.indices[i], g->all.output[i]);
    return true;
}

struct gs_pairs gs_pass_through(const struct gs *g, const struct gs_state *st)
{
    struct gs_pairs p = { 0 };
    const struct shape *x = base_of(g->s, st->operand[0]);
    for (int d = 0, o = 0; d < g->operand_rank; d++) {
        if (g->dropped & bit(d))
            continue;
        while (o < g->output_rank && !(g->offset & bit(o)))
            o++;
        if (st->sizes[d] == x->dims[d])
            pair_up(&p, d, -1, o);
        o++;
    }
    return p;
}

int gs_sliced(const struct gs *g, const struct gs_state *st, int *dims)
{
    int n = 0;
    for (int i = 0; i < g->nmap; i++)
        if (st->sizes[g->map[i]] == 1)
            dims[n++] = g->map[i];
    return n;
}

/* ---- priorities, S-214 -------------------------------------------------------------------------- */

int gs_operand_priority(const struct gs *g, const struct gs_state *st, int *dims)
{
    struct gs_pairs pass = gs_pass_through(g, st);
    int sliced[OPS_MAX_RANK], k = gs_sliced(g, st, sliced), n = 0;
    bool tiled = false;
    for (int i = 0; i < k; i++)
        tiled = tiled || tiles_on(g->s, st->operand[0].sharding, sliced[i]) > 1;
    for (int i = 0; tiled && i < k; i++)
        dims[n++] = sliced[i];
    for (int i = 0; i < pass.n; i++)
        dims[n++] = pass.operand[i];
    return n;
}

int gs_indices_priority(const struct gs *g, int *dims)
{
    int n = 0;
    uint64_t batch = 0;
    for (int i = 0; i < g->batch.n; i++)
        batch |= bit(g->batch.indices[i]);
    if (g->vector_dim < g->indices_rank)
        dims[n++] = g->vector_dim;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < g->indices_rank; d++)
            if (d != g->vector_dim && ((batch & bit(d)) != 0) == (pass == 1))
                dims[n++] = d;
    return n;
}

int gs_output_priority(const struct gs *g, const struct gs_state *st, int *dims)
{
    struct gs_pairs pass = gs_pass_through(g, st);
    uint64_t through = 0;
    int n = 0;
    for (int i = 0; i < pass.n; i++)
        through |= bit(pass.output[i]);
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < g->output_rank; d++)
            if (((through & bit(d)) != 0) == (k == 1))
                dims[n++] = d;
    return n;
}

/* ---- groups ------------------------------------------------------------------------------------- */

int64_t gs_groups(const struct sharding_group *g)
{
    int64_t n = 1;
    for (int i = 0; i < g->ndims; i++)
        n *= g->sizes[i];
    return n;
}

struct pval gs_inside(struct gs *g, struct pval v, const struct sharding_group *grp)
{
    return (struct pval){ v.local, per_group_base(g->s, v.base, grp), grp->inner };
}

struct pval gs_group_copies(struct gs *g, struct pval v, const struct sharding_group *ref,
                            int nprio, const int *prio, struct sharding_group *out)
{
    struct spmd *s = g->s;
    sharding_group_on_replication(s->sh, v.sharding, gs_groups(ref), group_devices(s),
                                  base_of(s, v)->rank, nprio, prio, out);
    sharding_group_align(s->sh, out, ref, false);
    v = reshard(s, v, sharding_ungroup(s->sh, out));
    return (struct pval){ v.local, v.base, out->inner };
}

shape_id gs_output_base(const struct gs *g, const struct gs_state *st)
{
    return g->scatter ? st->update[0].base : st->base;
}

sharding_id gs_output_of_indices(struct gs *g, sharding_id sh, const struct gs_pairs *pairs)
{
    return sharding_along_dims(g->s->sh, sh, pairs->n, pairs->indices, pairs->output,
                               g->output_rank);
}

instr_id gs_component_vector(struct gs *g, instr_id like, const instr_id *components)
{
    struct spmd *s = g->s;
    const struct shape *x = node_shape(s, like);
    if (g->vector_dim >= g->indices_rank)
        return emit_broadcast_scalar(s, emit_convert(s, components[0], x->dtype), x->rank, x->dims);
    instr_id parts[OPS_MAX_RANK];
    int64_t one = 1;
    for (int i = 0; i < g->nmap; i++)
        parts[i] = emit_reshape(s, emit_convert(s, components[i], x->dtype), 1, &one);
    instr_id v = g->nmap == 1 ? parts[0] : emit_concat(s, g->nmap, parts, 0);
    int map[1] = { g->vector_dim };
    return emit_broadcast(s, v, x->rank, x->dims, map);
}

struct pval gs_mask_indices(struct gs *g, struct pval v, int n, const int *dims)
{
    struct spmd *s = g->s;
    enum dtype t = base_of(s, v)->dtype;
    uint64_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= bit(dims[i]);
    instr_id nowhere;
    if (dtype_kind(t) == DTYPE_KIND_SIGNED)
        nowhere = emit_const_i(s, t, -1);
    else if (!emit_identity(s, OP_MINIMUM, t, &nowhere))
        return v;
    return pval_mask(s, v, nowhere, 0, ~bits);
}

/* ---- the local operation ------------------------------------------------------------------------ */

static int64_t starts_of(const struct gs *g, const struct shape *indices)
{
    int64_t n = 1;
    for (int d = 0; d < indices->rank; d++)
        n *= d == g->vector_dim ? 1 : indices->dims[d];
    return n;
}

/* A gather of several slices of which a device takes one: XLA's compilers make a dynamic-slice of
 * it, which bounded.c is about. */
static bool one_slice_here(const struct gs *g, const struct shape *local)
{
    const struct instr *in = instr_at(g->s->src, g->source);
    return starts_of(g, local) == 1 && starts_of(g, source_shape(g->s, in->operands[1])) > 1;
}

static bool is_piece(const struct spmd *s, instr_id x)
{
    enum op_kind op = (enum op_kind)instr_at(s->out, x)->op;
    return op == OP_DYNAMIC_SLICE || op == OP_GATHER;
}

static instr_id local_gather(struct gs *g, const struct gs_state *st, instr_id operand,
                             instr_id indices)
{
    struct spmd *s = g->s;
    const struct shape *x = node_shape(s, operand), *i = node_shape(s, indices);
    int64_t dims[OPS_MAX_RANK];
    for (int k = 0; k < g->all.n; k++)
        dims[g->all.output[k]] = i->dims[g->all.indices[k]];
    for (int d = 0, o = 0; d < g->operand_rank; d++) {
        if (g->dropped & bit(d))
            continue;
        while (!(g->offset & bit(o)))
            o++;
        dims[o++] = st->sizes[d];
    }
    bool piece_of_piece = one_slice_here(g, i) && is_piece(s, operand);
    instr_id ops[2] = { piece_of_piece ? bounded_piece(s, operand) : operand, indices };
    instr_id y =
        emit_clone(s, g->source, shape_array(s->ir, x->dtype, g->output_rank, dims), 2, ops);
    set_attr(s, y, attr_ints(s->out, ATTR_SLICE_SIZES, g->operand_rank, st->sizes));
    return piece_of_piece ? bounded_piece(s, y) : y;
}

/* Everything whole: always right. */
static void gs_whole(struct gs *g, const struct gs_state *st, struct pval *res)
{
    struct spmd *s = g->s;
    sharding_id whole = sharding_replicated(s->sh);
    instr_id indices = replicate(s, st->indices).local;
    if (!g->scatter) {
        instr_id y = local_gather(g, st, replicate(s, st->operand[0]).local, indices);
        res[0] = reshard(s, pval_make(s, y, st->base, whole), st->out);
        return;
    }
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, 2 * g->n + 1);
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, g->n);
    ops[g->n] = indices;
    for (int k = 0; k < g->n; k++) {
        ops[k] = replicate(s, st->operand[k]).local;
        ops[g->n + 1 + k] = replicate(s, st->update[k]).local;
        shapes[k] = instr_at(s->out, ops[k])->shape;
    }
    int vector = g->dry ? -1 : bounded_scatter(g, ops); /* what is weighed is XLA's (S-206) */
    bool tuple = source_shape(s, g->source)->kind == SHAPE_TUPLE;
    shape_id shape = tuple ? shape_tuple(s->ir, g->n, shapes) : shapes[0];
    instr_id y = emit_clone(s, g->source, shape, 2 * g->n + 1, ops);
    if (vector >= 0)
        set_attr(s, y, attr_int(ATTR_INDEX_VECTOR_DIM, vector));
    for (int k = 0; k < g->n; k++) {
        instr_id z = tuple ? emit_gte(s, y, k) : y;
        res[k] = reshard(s, pval_make(s, z, st->operand[k].base, whole), st->out);
    }
}

/* ---- choice, S-205, S-206 ----------------------------------------------------------------------- */

struct cost {
    int64_t memory, moved;
};

static int64_t group_size_of(const struct instr *in, int64_t all)
{
    const struct attr *a = instr_attr(in, ATTR_REPLICA_GROUPS);
    if (!a || a->groups->none)
        return all;
    return a->groups->uniform ? a->groups->tiles.dims[1] : a->groups->sizes[0];
}

static void add_cost(struct gs *g, instr_id n, struct cost *c)
{
    struct spmd *s = g->s;
    const struct instr *in = instr_at(s->out, n);
    enum op_kind op = (enum op_kind)in->op;
    if (op != OP_GATHER && op != OP_SCATTER && !op_is_collective(op))
        return;
    int64_t out = shape_get(s->ir, in->shape)->bytes, memory = 0;
    for (uint32_t k = 0; k < in->noperands; k++)
        memory += node_shape(s, in->operands[k])->bytes;
    if (op != OP_ALL_REDUCE && op != OP_SCATTER)
        memory += out;
    c->memory = max_i64(c->memory, memory);
    int64_t size = op_is_collective(op) ? group_size_of(in, group_devices(s)) : 1;
    if (op == OP_ALL_REDUCE)
        c->moved += 2 * out;
    else if (op == OP_COLLECTIVE_PERMUTE)
        c->moved += out;
    else if (op == OP_ALL_GATHER || op == OP_ALL_TO_ALL)
        c->moved += out / size * (size - 1);
}

/* Cost of what the results need among the nodes made since `first`. */
static struct cost cone_cost(struct gs *g, const struct pval *res, uint32_t first)
{
    struct spmd *s = g->s;
    struct cost c = { 0, 0 };
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t span = (int64_t)module_ninstrs(s->out) - first + 1;
    bool *seen = ARENA_ARRAY(&tmp, bool, span + 1);
    VEC(instr_id) stack = { 0 };
    for (int k = 0; k < (g->scatter ? g->n : 1); k++)
        vec_push(&tmp, &stack, res[k].local);
    while (stack.n) {
        instr_id n = stack.v[--stack.n];
        if (n.i <= first || seen[n.i - first])
            continue;
        seen[n.i - first] = true;
        add_cost(g, n, &c);
        const struct instr *in = instr_at(s->out, n);
        for (uint32_t k = 0; k < in->noperands; k++)
            vec_push(&tmp, &stack, in->operands[k]);
    }
    arena_close(&tmp);
    return c;
}

static struct cost try_strategy(struct gs *g, const struct gs_state *st, gs_strategy f)
{
    const struct cost worst = { INT64_MAX, INT64_MAX };
    struct pval *res = ARENA_ARRAY(&g->s->arena, struct pval, g->n);
    uint32_t first = module_ninstrs(g->s->out);
    int64_t remats = g->s->remats.n;
    /* Nothing that is there already may make a strategy look cheaper than it is. */
    g->s->epoch = ++g->s->epochs;
    g->dry = true;
    bool ok = f(g, st, res);
    g->dry = false;
    g->s->epoch = 0;
    g->s->remats.n = remats;
    if (!ok)
        return worst;
    struct cost c = cone_cost(g, res, first);
    return c.memory == 0 ? worst : c;
}

static const gs_strategy strategies[] = { gs_by_batch, gs_by_parallel, gs_by_operand, gs_by_slices,
                                          gs_by_indices };

void gs_run(struct gs *g, const struct gs_state *st, struct pval *res)
{
    if (g->dry) {
        gs_whole(g, st, res);
        return;
    }
    enum { N = COUNTOF(strategies) };
    struct cost cost[N];
    /* The option counts as strategies does; 0, explicit batch, is the default. */
    int order[N], preferred = g->scatter ? g->s->opt->scatter_method : g->s->opt->gather_method;
    for (int i = 0; i < N; i++) {
        cost[i] = i == preferred ? (struct cost){ 0, 0 } : try_strategy(g, st, strategies[i]);
        order[i] = i;
        for (int j = i; j > 0; j--) {
            const struct cost *a = &cost[order[j]], *b = &cost[order[j - 1]];
            if (a->memory > b->memory || (a->memory == b->memory && a->moved >= b->moved))
                break;
            int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    }
    for (int i = 0; i < N; i++)
        if (cost[order[i]].memory != INT64_MAX && strategies[order[i]](g, st, res))
            return;
    gs_whole(g, st, res);
}

/* ---- handlers ----------------------------------------------------------------------------------- */

void partition_gather(struct spmd *s, instr_id source)
{
    struct gs *g = ARENA_NEW(&s->arena, struct gs);
    struct gs_state st = { 0 };
    int64_t device;
    sharding_id out = source_sharding(s, source);
    if (sharding_unique_device(s->sh, out, &device) || source_shape(s, source)->count == 0 ||
        !gs_read(g, s, source, false, &st)) {
        partition_default(s, source, NULL);
        return;
    }
    struct pval operand = operand_value(s, source, 0), res;
    st.operand = &operand;
    st.indices = operand_value(s, source, 1);
    st.base = instr_at(s->src, source)->shape;
    st.out = out;
    gs_run(g, &st, &res);
    set_value(s, source, res);
}

/* All of vs in one sharding, S-207. */
static void common_values(struct spmd *s, int n, struct pval *vs)
{
    sharding_id *list = ARENA_ARRAY(&s->arena, sharding_id, n);
    for (int k = 0; k < n; k++)
        list[k] = vs[k].sharding;
    sharding_id common = sharding_find_common(s->sh, n, list, (sharding_id){ 0 });
    for (int k = 0; k < n; k++)
        vs[k] = reshard(s, vs[k], common);
}

void partition_scatter(struct spmd *s, instr_id source)
{
    struct gs *g = ARENA_NEW(&s->arena, struct gs);
    struct gs_state st = { 0 };
    int64_t device;
    sharding_id out = source_sharding(s, source);
    bool tuple = source_shape(s, source)->kind == SHAPE_TUPLE;
    if (tuple) {
        const struct sharding *x = sharding_get(s->sh, out); /* others are moved there at the end */
        out = x->kind == SHARDING_TUPLE ? x->elems[0] : out;
    }
    if (sharding_unique_device(s->sh, out, &device) || !gs_read(g, s, source, true, &st) ||
        source_shape(s, instr_operand(s->src, source, (uint32_t)g->n))->count == 0) {
        partition_default(s, source, NULL);
        return;
    }
    st.operand = ARENA_ARRAY(&s->arena, struct pval, g->n);
    st.update = ARENA_ARRAY(&s->arena, struct pval, g->n);
    struct pval *res = ARENA_ARRAY(&s->arena, struct pval, g->n);
    for (int k = 0; k < g->n; k++) {
        st.operand[k] = operand_value(s, source, (uint32_t)k);
        st.update[k] = operand_value(s, source, (uint32_t)(g->n + 1 + k));
    }
    common_values(s, g->n, st.operand);
    common_values(s, g->n, st.update);
    st.indices = operand_value(s, source, (uint32_t)g->n);
    st.out = out;
    gs_run(g, &st, res);
    if (!tuple) {
        set_value(s, source, res[0]);
        return;
    }
    instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, g->n);
    for (int k = 0; k < g->n; k++)
        parts[k] = res[k].local;
    finish(s, source, emit_tuple(s, g->n, parts), sharding_tuple_of(s->sh, g->n, out));
}
