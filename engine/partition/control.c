/* Parameters, tuples, control flow, custom calls with manual regions, collectives of the input
 * (S-153..S-166, S-215..S-219).
 */
#include "partition/internal.h"

#include <string.h>

#include "base/fail.h"

static const struct instr *source_instr(const struct spmd *s, instr_id i)
{
    return instr_at(s->src, i);
}

static void store(struct spmd *s, instr_id source, instr_id local, sharding_id label)
{
    struct pval v = pval_make(s, local, source_instr(s, source)->shape, label);
    set_value(s, source, reshard(s, v, source_sharding(s, source)));
}

/* ---- parameters and tuples, S-153, S-154 -------------------------------------------------------------- */

void partition_parameter(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    instr_id p = emit_parameter(s, instr_param_number(in), shard_shape(s, in->shape, sh));
    struct instr *n = instr_at(s->out, p);
    n->name = in->name;
    n->metadata = in->metadata;
    n->metadata_len = in->metadata_len;
    for (int i = 0; i < in->nattrs; i++)
        if (in->attrs[i].key == ATTR_PARAMETER_REPLICATION) {
            struct attr a[2] = { n->attrs[0], in->attrs[i] };
            n->attrs = arena_copy(&s->out->arena, a, 2, sizeof *a);
            n->nattrs = 2;
        }
    set_value(s, source, pval_make(s, p, in->shape, sh));
}

void partition_tuple(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        parts[k] = reshard(s, operand_value(s, source, k),
                           element_sharding(s, in->shape, sh, k)).local;
    set_value(s, source, pval_make(s, emit_tuple(s, in->noperands, parts), in->shape, sh));
}

void partition_get_tuple_element(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    if (sharding_is_manual(s->sh, source_sharding(s, source))) {
        partition_default(s, source, NULL);
        return;
    }
    struct pval tuple = operand_value(s, source, 0);
    int64_t i = instr_int(in, ATTR_INDEX, 0);
    /* The front of a sort may be all that there is of it (sort_topk.c): the value's base, not ours. */
    struct pval v = pval_make(s, emit_gte(s, tuple.local, i), shape_get(s->ir, tuple.base)->elems[i],
                              element_sharding(s, tuple.base, tuple.sharding, i));
    set_value(s, source, reshard(s, v, source_sharding(s, source)));
}

/* ---- control flow, S-155..S-157 --------------------------------------------------------------------------- */

static void keep_extras(struct spmd *s, instr_id node, const struct instr *from)
{
    struct instr *n = instr_at(s->out, node);
    n->metadata = from->metadata;
    n->metadata_len = from->metadata_len;
    n->frontend = from->frontend;
    n->frontend_len = from->frontend_len;
}

/* All data replicated; manual axes stay. */
static sharding_id without_data(struct spmd *s, sharding_id sh, const struct shape *shape)
{
    return sharding_is_manual(s->sh, sh)
               ? sh
               : sharding_replicate_all_data(s->sh, sh, shape->kind == SHAPE_ARRAY ? shape->rank : -1);
}

static void parameter_takes(struct spmd *s, comp_id c, uint32_t k, sharding_id sh)
{
    const struct computation *comp = comp_at(s->src, c);
    if (k < comp->nparams)
        s->shardings[comp->params[k].i] = sh;
}

void partition_while(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    const struct attr *c = instr_attr(in, ATTR_CONDITION), *b = instr_attr(in, ATTR_BODY);
    INVARIANT(c && b, "a loop without body");
    parameter_takes(s, c->comp, 0, sh);
    parameter_takes(s, b->comp, 0, sh);
    instr_id test = comp_at(s->src, c->comp)->root;
    comp_id condition = partition_computation(
        s, c->comp, without_data(s, s->shardings[test.i], instr_shape(s->src, test)));
    comp_id body = s->failed ? condition : partition_computation(s, b->comp, sh);
    if (s->failed)
        return;
    instr_id init = reshard(s, operand_value(s, source, 0), sh).local;
    instr_id n = emit_while(s, init, condition, body);
    keep_extras(s, n, in);
    const struct attr *config = instr_attr(in, ATTR_BACKEND_CONFIG);
    if (config) {
        struct instr *w = instr_at(s->out, n);
        struct attr a[3] = { w->attrs[0], w->attrs[1], *config };
        w->attrs = arena_copy(&s->out->arena, a, 3, sizeof *a);
        w->nattrs = 3;
    }
    set_value(s, source, pval_make(s, n, in->shape, sh));
}

void partition_conditional(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    int64_t n = (int64_t)in->noperands - 1;
    comp_id *called = ARENA_ARRAY(&s->arena, comp_id, n + 1);
    comp_id *branches = ARENA_ARRAY(&s->arena, comp_id, n + 1);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, n + 1);
    (void)instr_called(s->src, source, called, (int)n);
    for (int64_t i = 0; i < n && !s->failed; i++) {
        struct pval arg = operand_value(s, source, (uint32_t)i + 1);
        parameter_takes(s, called[i], 0, arg.sharding);
        ops[i + 1] = arg.local;
        branches[i] = partition_computation(s, called[i], sh);
    }
    if (s->failed)
        return;
    struct pval which = operand_value(s, source, 0);
    if (!sharding_is_manual(s->sh, which.sharding))
        which = reshard(s, which, without_data(s, which.sharding, shape_get(s->ir, which.base)));
    ops[0] = which.local;
    struct attr attrs[256];
    int nattrs = 0, k = 0;
    for (int i = 0; i < in->nattrs; i++) {
        struct attr a = in->attrs[i];
        if (a.type == ATTR_TYPE_INSTRS)
            continue;
        if (a.type == ATTR_TYPE_COMP)
            a.comp = branches[k++];
        if (a.type == ATTR_TYPE_COMPS) {
            a.comps = arena_copy(&s->out->arena, branches, a.n, sizeof *branches);
            k += (int)a.n;
        }
        attrs[nattrs++] = a;
    }
    instr_id node = emit(s, OP_CONDITIONAL, shard_shape(s, in->shape, sh), n + 1, ops, nattrs, attrs);
    keep_extras(s, node, in);
    set_value(s, source, pval_make(s, node, in->shape, sh));
}

void partition_call(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    const struct attr *callee = instr_attr(in, ATTR_TO_APPLY);
    INVARIANT(callee, "a call of nothing");
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++) {
        struct pval arg = operand_value(s, source, k);
        parameter_takes(s, callee->comp, k, arg.sharding);
        ops[k] = arg.local;
    }
    comp_id body = partition_computation(s, callee->comp, sh);
    if (s->failed)
        return;
    struct attr attrs[256];
    int nattrs = 0;
    for (int i = 0; i < in->nattrs; i++) {
        if (in->attrs[i].type == ATTR_TYPE_INSTRS)
            continue;
        attrs[nattrs] = in->attrs[i];
        if (attrs[nattrs].key == ATTR_TO_APPLY)
            attrs[nattrs].comp = body;
        nattrs++;
    }
    instr_id n = emit(s, OP_CALL, shard_shape(s, in->shape, sh), in->noperands, ops, nattrs, attrs);
    keep_extras(s, n, in);
    set_value(s, source, pval_make(s, n, in->shape, sh));
}

/* ---- element by element, also of tuples: S-128, S-129 ---------------------------------------------------- */

static void like_elementwise(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = reshard(s, operand_value(s, source, k), sh).local;
    instr_id n = emit_clone(s, source, shard_shape(s, in->shape, sh), in->noperands, ops);
    set_value(s, source, pval_make(s, n, in->shape, sh));
}

void partition_opt_barrier(struct spmd *s, instr_id source)
{
    like_elementwise(s, source);
}

/* ---- ids and collectives of the input, S-163..S-165 --------------------------------------------------------- */

void partition_partition_id(struct spmd *s, instr_id source)
{
    sharding_id sh = source_sharding(s, source);
    if (!sharding_is_manual(s->sh, sh)) {
        (void)spmd_error(s, source,
                         "partition-id means one device, but this value is not manual: outside a manual "
                         "region the program is about whole arrays, and no device has a number there");
        return;
    }
    const struct instr *in = source_instr(s, source);
    set_value(s, source, pval_make(s, emit_clone(s, source, in->shape, 0, NULL), in->shape, sh));
}

/* Whether all members of each group hold the same tile on all axes but the manual one. */
static bool groups_within_manual(struct spmd *s, const struct replica_groups *g, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    int manual = sharding_manual_axis(s->sh, sh);
    int64_t n = sharding_total(s->sh, sh), at[RANK_ROOM], first[RANK_ROOM];
    int64_t total = g->uniform ? g->tiles.dims[0] * g->tiles.dims[1] : 0;
    int64_t size = g->uniform ? g->tiles.dims[1] : 0, list = 0, left = 0;
    if (g->none)
        total = size = n;
    if (!g->none && !g->uniform)
        for (int64_t i = 0; i < g->nlists; i++)
            total += g->sizes[i];
    for (int64_t i = 0; i < total; i++) {
        int64_t dev = g->none ? i : g->uniform ? order_device(s->sh, g->tiles.order, i) : g->ids[i];
        bool starts;
        if (g->none || g->uniform) {
            starts = i % size == 0;
        } else {
            starts = left == 0;
            if (starts)
                left = g->sizes[list++];
            left--;
        }
        if (dev < 0 || dev >= n * max_i64(s->out->replica_count, 1))
            return false;
        tiling_index(s->sh, x->tiles, dev % n, starts ? first : at);
        for (int a = 0; a < x->tiles.naxes && !starts; a++)
            if (a != manual && at[a] != first[a])
                return false;
    }
    return true;
}

void partition_all_reduce(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    bool channel = instr_attr(in, ATTR_CHANNEL_ID) != NULL;
    if (!channel) {
        if (in->noperands == 1)
            like_elementwise(s, source);
        else
            partition_default(s, source, NULL);
        return;
    }
    if (in->noperands != 1) {
        (void)spmd_error(s, source, "an all-reduce across partitions sums one array here, not several");
        return;
    }
    if (sharding_is_manual(s->sh, sh) || sharding_is_replicated(s->sh, sh)) {
        like_elementwise(s, source);
        return;
    }
    if (!sharding_is_manual_subgroup(s->sh, sh) ||
        !instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false)) {
        (void)spmd_error(s, source,
                         "an all-reduce with a channel_id sums over devices: its sharding must be manual, in whole or in part");
        return;
    }
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    if (g && g->type == ATTR_TYPE_GROUPS && !groups_within_manual(s, g->groups, sh)) {
        (void)spmd_error(s, source,
                         "Manual all-reduce across devices that belong to different manual subgroups: its replica_groups join them");
        return;
    }
    like_elementwise(s, source);
}

void partition_collective(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    if (in->op == OP_COLLECTIVE_PERMUTE && instr_attr(in, ATTR_CHANNEL_ID))
        like_elementwise(s, source);
    else
        partition_default(s, source, NULL);
}

/* ---- single device, S-160 ---------------------------------------------------------------------------------------- */

static instr_id zeros_of(struct spmd *s, shape_id shape)
{
    const struct shape *sh = shape_get(s->ir, shape);
    if (sh->kind == SHAPE_ARRAY)
        return emit_broadcast_scalar(s, emit_zero(s, sh->dtype), sh->rank, sh->dims);
    if (sh->kind == SHAPE_TOKEN)
        return emit(s, OP_AFTER_ALL, shape, 0, NULL, 0, NULL);
    instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, sh->nelems);
    for (int64_t i = 0; i < sh->nelems; i++)
        parts[i] = zeros_of(s, sh->elems[i]);
    return emit_tuple(s, sh->nelems, parts);
}

static comp_id branch_begin(struct spmd *s, const char *name, comp_id *outer)
{
    *outer = s->comp;
    s->comp = comp_new(s->out, name_put(s->ir, name, strlen(name)));
    return s->comp;
}

static comp_id branch_end(struct spmd *s, comp_id outer, instr_id root)
{
    comp_id c = s->comp;
    comp_finish(s->out, c, root);
    s->comp = outer;
    return c;
}

static void on_single_device(struct spmd *s, instr_id source, int64_t device)
{
    const struct instr *in = source_instr(s, source);
    sharding_id one = sharding_maximal(s->sh, device);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands + 1);
    for (uint32_t k = 0; k < in->noperands; k++) {
        const struct shape *b = instr_shape(s->src, in->operands[k]);
        sharding_id to = b->kind == SHAPE_TUPLE ? sharding_tuple_of(s->sh, b->nleaves, one) : one;
        ops[k] = reshard(s, operand_value(s, source, k), to).local;
    }
    instr_id mine = emit_compare(s, "EQ", emit_convert(s, rank_node(s), DTYPE_S32),
                                 emit_const_i(s, DTYPE_S32, device));
    instr_id args = emit_tuple(s, in->noperands, ops);
    shape_id args_shape = instr_at(s->out, args)->shape;
    comp_id outer, branches[2];
    (void)branch_begin(s, "on_device", &outer);
    instr_id p = emit_parameter(s, 0, args_shape);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = emit_gte(s, p, k);
    branches[0] = branch_end(s, outer, emit_clone(s, source, in->shape, in->noperands, ops));
    (void)branch_begin(s, "elsewhere", &outer);
    (void)emit_parameter(s, 0, args_shape);
    branches[1] = branch_end(s, outer, zeros_of(s, in->shape));
    instr_id both[2] = { args, args };
    instr_id n = emit_conditional(s, mine, 2, branches, both);
    set_value(s, source, pval_make(s, n, in->shape, source_sharding(s, source)));
}

/* ---- custom calls, S-166, S-215, S-216 ------------------------------------------------------------------------------- */

/* S-215. Reads the operand's tiling as the shards: no communication. */
static void full_to_shard(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    struct pval v = operand_value(s, source, 0);
    const struct shape *shard = shape_get(s->ir, in->shape);
    if (!sharding_has_manual(s->sh, sh)) {
        (void)spmd_error(s, source, "SPMDFullToShardShape must have a manual sharding");
        return;
    }
    shape_id piece = shard_shape(s, in->shape, sh); /* axes that are not manual split it further */
    if (!shape_same(s->ir, instr_at(s->out, v.local)->shape, piece)) {
        struct str want = STR_IN(&s->arena), have = STR_IN(&s->arena);
        shape_print(s->ir, piece, false, &want);
        shape_print(s->ir, instr_at(s->out, v.local)->shape, false, &have);
        (void)spmd_error(s, source, "the operand's shard is %s, but the manual region takes %s",
                         str_text(&have), str_text(&want));
        return;
    }
    /* Quirk: evenness is asked of the shard's shape. */
    if (shard->kind == SHAPE_ARRAY &&
        !sharding_evenly(s->sh, v.sharding, shard->rank, shard->dims) &&
        sharding_is_tiled(s->sh, v.sharding))
        v = pval_mask(s, v, emit_zero(s, shard->dtype), 0, 0);
    set_value(s, source, pval_make(s, emit_copy(s, v.local), in->shape, sh));
}

/* S-216 */
static void shard_to_full(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    struct pval v = operand_value(s, source, 0);
    if (!sharding_has_manual(s->sh, v.sharding)) {
        (void)spmd_error(s, source, "the operand of SPMDShardToFullShape must have a manual sharding");
        return;
    }
    shape_id want = shard_shape(s, in->shape, sh);
    if (!shape_same(s->ir, instr_at(s->out, v.local)->shape, want)) {
        struct str w = STR_IN(&s->arena), have = STR_IN(&s->arena);
        shape_print(s->ir, want, false, &w);
        shape_print(s->ir, instr_at(s->out, v.local)->shape, false, &have);
        (void)spmd_error(s, source, "the manual region gives %s, but a shard of the result is %s",
                         str_text(&have), str_text(&w));
        return;
    }
    set_value(s, source, pval_make(s, emit_copy(s, v.local), in->shape, sh));
}

static bool target_is(const struct spmd *s, const struct instr *in, const char *t)
{
    return strcmp(instr_target(s->src, in), t) == 0;
}

/* Elementwise copies with a fixed sharding on one side (S-246), and annotations that nobody read. */
static bool is_annotation(const struct spmd *s, const struct instr *in)
{
    return target_is(s, in, "Sharding") || target_is(s, in, "MoveToHost") ||
           target_is(s, in, "annotate_device_placement") ||
           target_is(s, in, "sharding_barrier_from") || target_is(s, in, "sharding_barrier_to");
}

static void annotation(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    struct pval v = reshard(s, operand_value(s, source, 0), sh);
    if (target_is(s, in, "Sharding")) {
        set_value(s, source, pval_make(s, emit_copy(s, v.local), in->shape, sh));
        return;
    }
    instr_id n = emit_clone(s, source, shard_shape(s, in->shape, sh), 1, &v.local);
    set_value(s, source, pval_make(s, n, in->shape, sh));
}

static void cloned_in_manual(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = operand_value(s, source, k).local;
    instr_id n = emit_clone(s, source, in->shape, in->noperands, ops);
    set_value(s, source, pval_make(s, n, in->shape, source_sharding(s, source)));
}

static bool all_manual(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return x->kind == SHARDING_MANUAL;
    for (int64_t i = 0; i < x->nelems; i++)
        if (sharding_get(s->sh, x->elems[i])->kind != SHARDING_MANUAL)
            return false;
    return x->nelems > 0;
}

void partition_custom_call(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    int64_t device;
    if (target_is(s, in, "SPMDFullToShardShape")) {
        full_to_shard(s, source);
    } else if (target_is(s, in, "SPMDShardToFullShape")) {
        shard_to_full(s, source);
    } else if (in->noperands == 1 && is_annotation(s, in)) {
        annotation(s, source);
    } else if (target_is(s, in, "_SPMDInternalOp_RotateRight")) {
        partition_rotate(s, source);
    } else if (sharding_unique_device(s->sh, sh, &device)) {
        on_single_device(s, source, device);
    } else if (all_manual(s, sh)) {
        cloned_in_manual(s, source);
    } else if (target_is(s, in, "TopK")) {
        partition_topk(s, source);
    } else if (target_is(s, in, "MoveToDevice") && in->noperands == 1) {
        struct pval v = operand_value(s, source, 0);
        instr_id n = emit_clone(s, source, shard_shape(s, in->shape, v.sharding), 1, &v.local);
        store(s, source, n, v.sharding);
    } else {
        partition_whole(s, source, "what a custom call computes is not known: every device computes all of it (S-166)");
    }
}

/* ---- infeed and outfeed, S-158, S-159 ------------------------------------------------------------------------------------ */

static bool even_leaves(struct spmd *s, shape_id shape, sharding_id sh)
{
    const struct shape *t = shape_get(s->ir, shape);
    for (int64_t i = 0; i < t->nleaves; i++) {
        const struct shape *leaf = shape_get(s->ir, shape_leaf(s->ir, shape, i));
        const struct sharding *x = sharding_get(s->sh, sh);
        sharding_id one = x->kind == SHARDING_TUPLE ? x->elems[i] : sh;
        if (leaf->kind == SHAPE_ARRAY && sharding_is_tiled(s->sh, one) &&
            !sharding_evenly(s->sh, one, leaf->rank, leaf->dims))
            return false;
    }
    return true;
}

/* The valid shape of one device's shard, S-19. */
static shape_id valid_shape(struct spmd *s, shape_id base, sharding_id sh, int64_t device)
{
    const struct shape *b = shape_get(s->ir, base);
    int64_t dims[RANK_ROOM], at[RANK_ROOM];
    if (b->kind != SHAPE_ARRAY || !sharding_is_tiled(s->sh, sh))
        return shape_strip(s->ir, base);
    if (!sharding_tile_index(s->sh, sh, device, at))
        memset(at, 0, sizeof at);
    for (int d = 0; d < b->rank; d++) {
        int64_t size = ceil_div(b->dims[d], sharding_tile(s->sh, sh, d));
        int64_t from = min_i64(at[d] * size, b->dims[d]);
        dims[d] = min_i64(from + size, b->dims[d]) - from;
    }
    return shape_array(s->ir, b->dtype, b->rank, dims);
}

static shape_id valid_tuple(struct spmd *s, shape_id base, sharding_id sh, int64_t device)
{
    const struct shape *b = shape_get(s->ir, base);
    if (b->kind != SHAPE_TUPLE)
        return valid_shape(s, base, sh, device);
    shape_id *elems = ARENA_ARRAY(&s->arena, shape_id, b->nelems);
    for (int64_t i = 0; i < b->nelems; i++)
        elems[i] = valid_tuple(s, b->elems[i], element_sharding(s, base, sh, i), device);
    return shape_tuple(s->ir, b->nelems, elems);
}

/* Distinct valid shapes and which device has which; the devices are listed: this is for uneven host
 * transfers only. */
static int64_t distinct_shapes(struct spmd *s, shape_id base, sharding_id sh, shape_id *shapes,
                               int64_t *of)
{
    int64_t n = 0;
    for (int64_t d = 0; d < s->groups->size; d++) {
        shape_id v = valid_tuple(s, base, sh, d);
        int64_t k = 0;
        while (k < n && shapes[k].i != v.i)
            k++;
        if (k == n)
            shapes[n++] = v;
        of[d] = k;
    }
    return n;
}

static instr_id branch_index(struct spmd *s, int64_t n, const int64_t *of)
{
    if (n == s->groups->size)
        return emit_convert(s, rank_node(s), DTYPE_S32);
    return emit_table(s, s->groups->size, of, rank_node(s));
}

/* x in the shape `to`: cut or padded with zeros, leaf by leaf. */
static instr_id fit(struct spmd *s, instr_id x, shape_id to)
{
    const struct shape *want = shape_get(s->ir, to), *have = node_shape(s, x);
    if (want->kind == SHAPE_TUPLE) {
        instr_id *parts = ARENA_ARRAY(&s->arena, instr_id, want->nelems);
        for (int64_t i = 0; i < want->nelems; i++)
            parts[i] = fit(s, emit_gte(s, x, i), want->elems[i]);
        return emit_tuple(s, want->nelems, parts);
    }
    if (want->kind != SHAPE_ARRAY)
        return x;
    int64_t zero[RANK_ROOM] = { 0 }, high[RANK_ROOM], limit[RANK_ROOM];
    for (int d = 0; d < want->rank; d++) {
        limit[d] = min_i64(have->dims[d], want->dims[d]);
        high[d] = want->dims[d] - limit[d];
    }
    x = emit_slice(s, x, zero, limit, NULL);
    return emit_pad(s, x, emit_zero(s, want->dtype), zero, high, NULL);
}

void partition_infeed(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    int64_t device;
    if (sharding_unique_device(s->sh, sh, &device)) {
        on_single_device(s, source, device);
        return;
    }
    shape_id shape = shard_shape(s, in->shape, sh);
    instr_id token = operand_value(s, source, 0).local;
    if (even_leaves(s, in->shape, sh)) {
        instr_id n = emit_clone(s, source, shape, 1, &token);
        set_value(s, source, pval_make(s, n, in->shape, sh));
        return;
    }
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, s->groups->size);
    int64_t *of = ARENA_ARRAY(&s->arena, int64_t, s->groups->size);
    int64_t n = distinct_shapes(s, in->shape, sh, shapes, of);
    comp_id *branches = ARENA_ARRAY(&s->arena, comp_id, n), outer;
    instr_id *args = ARENA_ARRAY(&s->arena, instr_id, n);
    for (int64_t k = 0; k < n; k++) {
        (void)branch_begin(s, "infeed_branch", &outer);
        instr_id p = emit_parameter(s, 0, shape_token(s->ir));
        branches[k] = branch_end(s, outer, fit(s, emit_clone(s, source, shapes[k], 1, &p), shape));
        args[k] = token;
    }
    instr_id node = n == 1 ? fit(s, emit_clone(s, source, shapes[0], 1, &token), shape)
                           : emit_conditional(s, branch_index(s, n, of), n, branches, args);
    set_value(s, source, pval_make(s, node, in->shape, sh));
}

/* The sharding of what is sent: a last leaf more than the data stands for the token. */
static sharding_id outfeed_data(struct spmd *s, sharding_id sh, const struct shape *data)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return data->kind == SHAPE_TUPLE ? sharding_tuple_of(s->sh, data->nleaves, sh) : sh;
    if (data->kind != SHAPE_TUPLE)
        return x->nelems ? x->elems[0] : sharding_replicated(s->sh);
    return x->nelems > data->nleaves ? sharding_tuple(s->sh, data->nleaves, x->elems) : sh;
}

/* Its attribute outfeed_shape would still say the whole shape: the operand's own counts. */
static instr_id clone_outfeed(struct spmd *s, instr_id source, const instr_id *ops)
{
    const struct instr *in = source_instr(s, source);
    instr_id id = emit_clone(s, source, in->shape, in->noperands, ops);
    struct instr *n = instr_at(s->out, id);
    struct attr *attrs = arena_copy(&s->out->arena, n->attrs, n->nattrs, sizeof *attrs);
    uint8_t kept = 0;
    for (int k = 0; k < n->nattrs; k++)
        if (attrs[k].key != ATTR_OUTFEED_SHAPE)
            attrs[kept++] = attrs[k];
    n->attrs = attrs;
    n->nattrs = kept;
    return id;
}

void partition_outfeed(struct spmd *s, instr_id source)
{
    const struct instr *in = source_instr(s, source);
    sharding_id sh = source_sharding(s, source);
    int64_t device;
    if (sharding_unique_device(s->sh, sh, &device)) {
        on_single_device(s, source, device);
        return;
    }
    if (all_manual(s, sh)) {
        cloned_in_manual(s, source);
        return;
    }
    struct pval v = operand_value(s, source, 0);
    sharding_id data = outfeed_data(s, sh, shape_get(s->ir, v.base));
    v = reshard(s, v, data);
    instr_id ops[2] = { v.local, in->noperands > 1 ? operand_value(s, source, 1).local : v.local };
    if (even_leaves(s, v.base, data)) {
        instr_id n = clone_outfeed(s, source, ops);
        set_value(s, source, pval_make(s, n, in->shape, sh));
        return;
    }
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, s->groups->size);
    int64_t *of = ARENA_ARRAY(&s->arena, int64_t, s->groups->size);
    int64_t n = distinct_shapes(s, v.base, data, shapes, of);
    comp_id *branches = ARENA_ARRAY(&s->arena, comp_id, n), outer;
    instr_id *args = ARENA_ARRAY(&s->arena, instr_id, n);
    instr_id all = emit_tuple(s, in->noperands, ops);
    for (int64_t k = 0; k < n; k++) {
        (void)branch_begin(s, "outfeed_branch", &outer);
        instr_id p = emit_parameter(s, 0, instr_at(s->out, all)->shape);
        instr_id inner[2] = { fit(s, emit_gte(s, p, 0), shapes[k]), { 0 } };
        if (in->noperands > 1)
            inner[1] = emit_gte(s, p, 1);
        branches[k] = branch_end(s, outer, clone_outfeed(s, source, inner));
        args[k] = all;
    }
    instr_id node;
    if (n == 1) {
        ops[0] = fit(s, v.local, shapes[0]);
        node = clone_outfeed(s, source, ops);
    } else {
        node = emit_conditional(s, branch_index(s, n, of), n, branches, args);
    }
    set_value(s, source, pval_make(s, node, in->shape, sh));
}
