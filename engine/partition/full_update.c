/* Weight-update sharding (arXiv:2004.13336), with weight_update=on. Where a gradient is summed over
 * devices that all hold the weight, each of them makes the same update. Instead each keeps its part of
 * the sum, updates that part of the weight, and the parts are gathered:
 *
 *     g = AR(x); m' = a m + g; w' = w - m'
 *     g = RS(x); m' = a m + g; w' = AG(piece(w) - m')     on pieces of m, which stays in pieces
 *
 * What is only read and written by the update (m) becomes sharded at the program's entry and exit.
 *
 * The cluster of a sum: elementwise operations on its shape made of it, of other sums over the same
 * devices, and of values that are equal on all devices of a group. */
#include "partition/full.h"

#include "partition/ops.h"

#include <string.h>

struct update {
    struct full *f;
    comp_id entry;
    struct tiling groups;
    int64_t g;
    shape_id whole;
    int rank, dim;
    bool *uniform;   /* by instruction: equal on all devices of a group */
    bool *in;        /* of the cluster */
    bool *sum;       /* its sums */
    bool *state;     /* parameters that only it reads */
    instr_id *piece; /* what stands for an instruction */
    int64_t nsums, nops, ngathered;
    instr_id offset;
};

static struct instr *at(const struct update *u, instr_id i)
{
    return full_at(u->f, i);
}

/* ---- what is equal on the devices of a group ------------------------------------------------------------ */

/* Every digit of b lies in a digit of the list a. */
static bool digits_cover(const struct digit *a, int n, const struct digit *b, int m)
{
    for (int i = 0; i < m; i++) {
        bool inside = b[i].radix == 1;
        for (int k = 0; k < n; k++)
            inside = inside || (b[i].stride >= a[k].stride && b[i].stride % a[k].stride == 0 &&
                                a[k].stride * a[k].radix % (b[i].stride * b[i].radix) == 0);
        if (!inside)
            return false;
    }
    return true;
}

static bool axis_covers(const struct update *u, struct tiling t, int axis)
{
    struct digit a[RANK_ROOM], b[RANK_ROOM];
    int n = axis_digits(u->f->s, t, axis, a), m = axis_digits(u->f->s, u->groups, 1, b);
    return n > 0 && m > 0 && digits_cover(a, n, b, m);
}

static bool sharding_is_uniform(const struct update *u, sharding_id sh)
{
    struct spmd *s = u->f->s;
    int rep = sh.i ? sharding_rep_axis(s->sh, sh) : -1;
    if (!sh.i || sharding_is_replicated(s->sh, sh))
        return sh.i != 0;
    return sharding_is_partial(s->sh, sh) && rep >= 0 &&
           axis_covers(u, sharding_get(s->sh, sh)->tiles, rep);
}

static sharding_id parameter_sharding(const struct update *u, instr_id p)
{
    const struct spmd *s = u->f->s;
    const struct computation *c = comp_at(s->out, u->entry);
    for (uint32_t k = 0; k < c->nparams; k++)
        if (c->params[k].i == p.i)
            return s->prog->param_sharding[k];
    return (sharding_id){ 0 };
}

static bool is_uniform(const struct update *u, instr_id i)
{
    struct spmd *s = u->f->s;
    const struct instr *in = at(u, i);
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    if (node_shape(s, i)->kind != SHAPE_ARRAY)
        return false;
    if (in->op == OP_PARAMETER)
        return sharding_is_uniform(u, parameter_sharding(u, i));
    if (in->op == OP_ALL_REDUCE || in->op == OP_ALL_GATHER)
        if (g && g->type == ATTR_TYPE_GROUPS && g->groups->uniform &&
            axis_covers(u, g->groups->tiles, 1))
            return true;
    if ((op_is_collective((enum op_kind)in->op) && in->op != OP_ALL_REDUCE &&
         in->op != OP_ALL_GATHER) || in->op == OP_PARTITION_ID || in->op == OP_REPLICA_ID ||
        in->op == OP_WHILE || in->op == OP_CONDITIONAL || in->op == OP_CALL || in->op == OP_FUSION ||
        in->op == OP_CUSTOM_CALL || in->op == OP_RNG || instr_has_side_effect(s->out, i))
        return false;
    for (uint32_t k = 0; k < in->noperands; k++)
        if (!u->uniform[in->operands[k].i])
            return false;
    return true;
}

/* ---- the cluster ------------------------------------------------------------------------------------------ */

static bool same_groups(const struct update *u, instr_id sum)
{
    struct tiling t = full_groups(u->f, sum);
    return t.order.i == u->groups.order.i && t.dims[1] == u->groups.dims[1];
}

static bool has_shape(const struct update *u, instr_id i)
{
    return shape_same_dims(u->f->s->ir, at(u, i)->shape, u->whole);
}

/* Scalars and values broadcast from them, alike everywhere, need no slice. */
static bool is_spread_scalar(const struct update *u, instr_id i)
{
    const struct instr *in = at(u, i);
    return in->op == OP_BROADCAST && node_shape(u->f->s, in->operands[0])->rank == 0;
}

/* What only the cluster reads and every device of a group makes alike, state times a constant, say. */
static bool feeds_cluster(const struct update *u, instr_id i)
{
    const struct full *f = u->f;
    const struct instr *in = at(u, i);
    bool feeds = !u->in[i.i] && u->uniform[i.i] && in->noperands > 0 && has_shape(u, i) &&
                 in->op != OP_ALL_REDUCE && instr_is_elementwise(f->s->out, i) &&
                 users_count(f->users, i) > 0;
    for (uint32_t k = 0; feeds && k < in->noperands; k++)
        feeds = has_shape(u, in->operands[k]);
    for (uint32_t k = 0; feeds && k < users_count(f->users, i); k++)
        feeds = u->in[users_of(f->users, i)[k].i];
    return feeds;
}

static void find_cluster(struct update *u, const instr_id *order, uint32_t n)
{
    struct full *f = u->f;
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        const struct instr *in = at(u, i);
        u->uniform[i.i] = is_uniform(u, i);
        if (full_is_sum(f, i) && has_shape(u, i) && same_groups(u, i)) {
            u->sum[i.i] = true;
            continue;
        }
        bool member = in->noperands > 0 && instr_is_elementwise(f->s->out, i) && has_shape(u, i);
        bool made = false;
        for (uint32_t j = 0; member && j < in->noperands; j++) {
            instr_id x = in->operands[j];
            bool own = u->in[x.i] || u->sum[x.i];
            made = made || own;
            member = has_shape(u, x) && (own || u->uniform[x.i]);
        }
        u->in[i.i] = member && made;
    }
    /* a sum that feeds nothing of the cluster stays as it is; nor does one that is needed whole besides */
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        if (!u->sum[i.i])
            continue;
        bool only = users_count(f->users, i) > 0;
        for (uint32_t j = 0; j < users_count(f->users, i); j++)
            only = only && u->in[users_of(f->users, i)[j].i];
        u->sum[i.i] = only;
    }
    for (uint32_t k = 0; k < n; k++) { /* members lose what is no longer theirs, in order */
        instr_id i = order[k];
        bool made = false;
        for (uint32_t j = 0; u->in[i.i] && j < at(u, i)->noperands; j++) {
            instr_id x = at(u, i)->operands[j];
            made = made || u->in[x.i] || u->sum[x.i];
        }
        u->in[i.i] = u->in[i.i] && made;
        u->nops += u->in[i.i];
        u->nsums += u->sum[i.i];
    }
    for (uint32_t k = n; k-- > 0;)
        u->in[order[k].i] = u->in[order[k].i] || feeds_cluster(u, order[k]);
}

/* ---- what stays in pieces --------------------------------------------------------------------------------- */

static int complement(const struct digit *set, int n, int64_t total, struct digit *rest)
{
    struct digit d[RANK_ROOM];
    memcpy(d, set, (size_t)n * sizeof *d);
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && d[j].stride > d[j - 1].stride; j--) {
            struct digit t = d[j];
            d[j] = d[j - 1];
            d[j - 1] = t;
        }
    int r = 0;
    int64_t top = total;
    for (int i = 0; i <= n; i++) {
        int64_t end = i < n ? d[i].stride * d[i].radix : 1;
        if (end > top || top % end != 0)
            return -1;
        if (top > end)
            rest[r++] = (struct digit){ .radix = top / end, .stride = end };
        if (i < n)
            top = d[i].stride;
    }
    return r;
}

/* The sharding with the dimension split over the group's devices as well. none: it cannot be said. */
static sharding_id split_further(const struct update *u, sharding_id sh, shape_id base)
{
    struct spmd *s = u->f->s;
    const sharding_id none = { 0 };
    struct digit all[2 * RANK_ROOM];
    int64_t tiles[RANK_ROOM], total = s->prog->num_partitions, used = 1;
    int n = 0;
    for (int d = 0; d < u->rank; d++) {
        tiles[d] = tiles_on(s, sh, d);
        if (tiles[d] > 1) {
            int k = axis_digits(s, sharding_get(s->sh, sh)->tiles, d, all + n);
            if (k < 0)
                return none;
            n += k;
        }
        if (d == u->dim) {
            int k = axis_digits(s, u->groups, 1, all + n);
            if (k < 0)
                return none;
            n += k;
            tiles[d] *= u->g;
        }
        if (shape_get(s->ir, base)->dims[d] % tiles[d] != 0 || n > RANK_ROOM / 2)
            return none;
        used *= tiles[d];
    }
    int r = complement(all, n, total, all + n);
    if (r < 0 || total % used != 0)
        return none;
    tiles[u->rank] = total / used;
    bool copies = total > used;
    struct tiling t = tiling_make(s->sh, u->rank + copies, tiles, order_of_digits(s, n + r, all));
    return copies ? sharding_partial(s->sh, t) : sharding_plain(s->sh, t);
}

static void find_state(struct update *u)
{
    struct full *f = u->f;
    const struct computation *c = comp_at(f->s->out, u->entry);
    for (uint32_t k = 0; k < c->nparams; k++) {
        instr_id p = c->params[k];
        if (node_shape(f->s, p)->kind != SHAPE_ARRAY || !has_shape(u, p) || !u->uniform[p.i])
            continue;
        bool only = users_count(f->users, p) > 0;
        for (uint32_t j = 0; j < users_count(f->users, p); j++)
            only = only && u->in[users_of(f->users, p)[j].i];
        struct program *g = f->s->prog;
        u->state[p.i] = only && split_further(u, g->param_sharding[k], g->param_shape[k]).i;
    }
}

/* A result that is made of sums and of state alone, and leaves the program only. */
static void find_kept(struct update *u, const instr_id *order, uint32_t n, bool *kept)
{
    struct full *f = u->f;
    struct spmd *s = f->s;
    instr_id root = comp_at(s->out, u->entry)->root;
    bool *pure = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    bool *stateful = ARENA_ARRAY(&f->tmp, bool, (int64_t)f->known + 1);
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        if (!u->in[i.i])
            continue;
        pure[i.i] = true;
        for (uint32_t j = 0; j < at(u, i)->noperands; j++) {
            instr_id x = at(u, i)->operands[j];
            bool fine = pure[x.i] || u->sum[x.i] || u->state[x.i] || is_spread_scalar(u, x);
            pure[i.i] = pure[i.i] && fine;
            stateful[i.i] = stateful[i.i] || stateful[x.i] || u->state[x.i];
        }
        int64_t outside = 0, by_root = 0;
        for (uint32_t j = 0; j < users_count(f->users, i); j++) {
            instr_id x = users_of(f->users, i)[j];
            outside += !u->in[x.i];
            by_root += x.i == root.i && at(u, root)->op == OP_TUPLE;
        }
        int64_t times = 0;
        for (uint32_t j = 0; j < at(u, root)->noperands; j++)
            times += at(u, root)->op == OP_TUPLE && at(u, root)->operands[j].i == i.i;
        kept[i.i] = outside > 0 && outside == by_root && times == 1 && pure[i.i] && stateful[i.i];
        u->ngathered += outside > 0 && !kept[i.i];
    }
}

/* ---- the update on pieces ----------------------------------------------------------------------------------- */

static shape_id piece_shape(const struct update *u, shape_id whole)
{
    const struct shape *x = shape_get(u->f->s->ir, whole);
    int64_t dims[RANK_ROOM];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[u->dim] /= u->g;
    return shape_array(u->f->s->ir, x->dtype, x->rank, dims);
}

static instr_id slice_of(struct update *u, instr_id x)
{
    struct spmd *s = u->f->s;
    shape_id shape = piece_shape(u, at(u, x)->shape);
    if (is_spread_scalar(u, x)) {
        instr_id scalar = at(u, x)->operands[0];
        return full_add(u->f, OP_BROADCAST, shape, 1, &scalar, at(u, x)->nattrs, at(u, x)->attrs, x);
    }
    instr_id starts[RANK_ROOM], zero = emit_const_i(s, DTYPE_S32, 0);
    for (int d = 0; d < u->rank; d++)
        starts[d] = d == u->dim ? u->offset : zero;
    return emit_dynamic_slice(s, x, starts, shape_get(s->ir, shape)->dims);
}

static instr_id scatter_of(struct update *u, instr_id sum)
{
    struct full *f = u->f;
    struct spmd *s = f->s;
    const struct instr *in = at(u, sum);
    struct attr attrs[16];
    int64_t d = u->dim;
    int n = 0;
    const struct attr *copy = full_attrs_anew(f, sum);
    for (int k = 0; k < in->nattrs && n < 14; k++)
        attrs[n++] = copy[k];
    attrs[n++] = attr_ints(s->out, ATTR_DIMENSIONS, 1, &d);
    instr_id x = full_add(f, OP_REDUCE_SCATTER, piece_shape(u, in->shape), 1, &in->operands[0], n, attrs,
                          sum);
    full_reason(f, x, "each device updates its part of the weights");
    return x;
}

static void gather_again(struct update *u, instr_id i, instr_id piece)
{
    struct full *f = u->f;
    struct spmd *s = f->s;
    int64_t d = u->dim;
    struct attr attrs[] = { attr_int(ATTR_CHANNEL_ID, full_new_channel(s)),
                            attr_groups(s->out, u->groups),
                            { .key = ATTR_USE_GLOBAL_DEVICE_IDS, .type = ATTR_TYPE_BOOL, .i = 1 },
                            attr_ints(s->out, ATTR_DIMENSIONS, 1, &d) };
    full_become(f, i, OP_ALL_GATHER, 1, &piece, COUNTOF(attrs), attrs);
    full_reason(f, i, "the updated parts are put together");
}

/* The tuple of results, with the pieces that stay. */
static void keep_pieces(struct update *u, const bool *kept)
{
    struct spmd *s = u->f->s;
    instr_id root = comp_at(s->out, u->entry)->root;
    const struct instr *in = at(u, root);
    if (in->op != OP_TUPLE)
        return;
    uint32_t n = in->noperands;
    instr_id *ops = arena_copy(&s->out->arena, in->operands, n, sizeof *ops);
    shape_id *shapes = ARENA_ARRAY(&u->f->tmp, shape_id, n);
    sharding_id *parts = ARENA_ARRAY(&u->f->tmp, sharding_id, n);
    bool any = false;
    for (uint32_t k = 0; k < n; k++) {
        parts[k] = element_sharding(s, s->prog->result_shape, s->prog->result_sharding, k);
        if (kept[ops[k].i]) {
            shape_id base = shape_leaf(s->ir, s->prog->result_shape, k);
            parts[k] = split_further(u, parts[k], base);
            ops[k] = u->piece[ops[k].i];
            any = true;
        }
        shapes[k] = at(u, ops[k])->shape;
    }
    if (!any)
        return;
    full_become(u->f, root, OP_TUPLE, (int)n, ops, 0, NULL);
    at(u, root)->shape = shape_tuple(s->ir, n, shapes);
    s->prog->result_sharding = sharding_tuple(s->sh, n, parts);
}

/* Results of which a piece cannot be said as a sharding are gathered. */
static void check_kept(struct update *u, bool *kept)
{
    struct spmd *s = u->f->s;
    const struct instr *in = at(u, comp_at(s->out, u->entry)->root);
    for (uint32_t k = 0; in->op == OP_TUPLE && k < in->noperands; k++) {
        if (!kept[in->operands[k].i])
            continue;
        sharding_id sh = element_sharding(s, s->prog->result_shape, s->prog->result_sharding, k);
        if (!sharding_is_uniform(u, sh) ||
            !split_further(u, sh, shape_leaf(s->ir, s->prog->result_shape, k)).i) {
            kept[in->operands[k].i] = false;
            u->ngathered++;
        }
    }
}

static void rewrite(struct update *u, const instr_id *order, uint32_t n, const bool *kept)
{
    struct full *f = u->f;
    struct spmd *s = f->s;
    int64_t size = shape_get(s->ir, u->whole)->dims[u->dim] / u->g;
    comp_id old = s->comp;
    s->comp = u->entry;
    instr_id width = emit_const_i(s, DTYPE_S32, size);
    u->offset = emit_arith(s, OP_MULTIPLY, axis_index_node(s, u->groups, 1), width);
    const struct computation *c = comp_at(s->out, u->entry);
    for (uint32_t k = 0; k < c->nparams; k++)
        if (u->state[c->params[k].i]) {
            instr_id p = c->params[k];
            at(u, p)->shape = piece_shape(u, at(u, p)->shape);
            s->prog->param_sharding[k] =
                split_further(u, s->prog->param_sharding[k], s->prog->param_shape[k]);
            u->piece[p.i] = p;
        }
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        if (u->sum[i.i])
            u->piece[i.i] = scatter_of(u, i);
        if (!u->in[i.i])
            continue;
        const struct instr *in = at(u, i);
        instr_id *ops = ARENA_ARRAY(&f->tmp, instr_id, in->noperands);
        for (uint32_t j = 0; j < in->noperands; j++) {
            instr_id x = in->operands[j];
            if (!u->piece[x.i].i)
                u->piece[x.i] = slice_of(u, x);
            ops[j] = u->piece[x.i];
        }
        u->piece[i.i] = full_add(f, (enum op_kind)in->op, piece_shape(u, in->shape), (int)in->noperands,
                                 ops, in->nattrs, in->attrs, i);
    }
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = order[k];
        bool outside = false;
        for (uint32_t j = 0; u->in[i.i] && j < users_count(f->users, i); j++)
            outside = outside || !u->in[users_of(f->users, i)[j].i];
        if (outside && !kept[i.i])
            gather_again(u, i, u->piece[i.i]);
    }
    keep_pieces(u, kept);
    s->comp = old;
}

/* The cluster of one sum. true: rewritten. */
static bool update_of(struct full *f, comp_id entry, instr_id sum, const instr_id *order, uint32_t n)
{
    struct spmd *s = f->s;
    const struct shape *x = node_shape(s, sum);
    struct update u = { .f = f, .entry = entry, .groups = full_groups(f, sum),
                        .whole = full_at(f, sum)->shape, .rank = x->rank, .dim = -1 };
    u.g = u.groups.dims[1];
    for (int d = 0; d < x->rank && u.dim < 0; d++)
        if (x->dims[d] % u.g == 0 && x->dims[d] >= u.g)
            u.dim = d;
    comp_id reducer = instr_attr(full_at(f, sum), ATTR_TO_APPLY)->comp;
    if (u.g < 2 || u.dim < 0 || full_is_sum(f, full_at(f, sum)->operands[0]) || x->rank > RANK_LIMIT ||
        simple_reducer(s->out, reducer, 0, 1) != OP_ADD)
        return false;
    int64_t size = (int64_t)f->known + 1;
    u.uniform = ARENA_ARRAY(&f->tmp, bool, size);
    u.in = ARENA_ARRAY(&f->tmp, bool, size);
    u.sum = ARENA_ARRAY(&f->tmp, bool, size);
    u.state = ARENA_ARRAY(&f->tmp, bool, size);
    u.piece = ARENA_ARRAY(&f->tmp, instr_id, size);
    bool *kept = ARENA_ARRAY(&f->tmp, bool, size);
    find_cluster(&u, order, n);
    if (!u.sum[sum.i] || u.nops == 0)
        return false;
    find_state(&u);
    find_kept(&u, order, n, kept);
    check_kept(&u, kept);
    /* A gather costs what a reduce-scatter saves. */
    if (u.ngathered > u.nsums)
        return false;
    rewrite(&u, order, n, kept);
    full_relist(f, entry);
    return true;
}

/* A sum of a sum that an update reads becomes one first: two would each be a part of the whole. true:
 * it did. */
static bool in_a_row(struct full *f, instr_id sum)
{
    instr_id inner = full_at(f, sum)->operands[0];
    bool read = false;
    for (uint32_t k = 0; k < users_count(f->users, sum); k++)
        read = read || instr_is_elementwise(f->s->out, users_of(f->users, sum)[k]);
    if (!read || !full_is_sum(f, inner))
        return false;
    full_fold(f, sum);
    return full_at(f, sum)->operands[0].i != inner.i;
}

static bool one_update(struct spmd *s, comp_id entry)
{
    struct full f = { .s = s, .known = module_ninstrs(s->out), .comp = entry, .users = full_users(s) };
    uint32_t n;
    bool changed = false;
    arena_open(&f.tmp);
    const instr_id *order = comp_post_order(s->out, entry, f.users, &f.tmp, &n);
    for (uint32_t k = 0; !changed && k < n; k++)
        if (full_is_sum(&f, order[k]))
            changed = in_a_row(&f, order[k]) || update_of(&f, entry, order[k], order, n);
    arena_close(&f.tmp);
    return changed;
}

void full_weight_update(struct spmd *s, comp_id entry)
{
    if (s->out->replica_count > 1)
        return;
    while (one_update(s, entry))
        (void)full_clean(s);
}
