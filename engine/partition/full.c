/* passes=full: what XLA's later passes make of the collectives (S-225..S-228).
 *
 * An all-reduce whose only user cuts this device's shard out of it is a reduce-scatter. Which shard
 * a dynamic-slice cuts is known from its making (struct node_info); the two meet when the digits of
 * the partition id that choose the piece are those in which the members of the all-reduce's groups
 * differ. Of several all-reduces in a row each may be the one that is cut: they commute with each
 * other, and the others then run on the piece:
 *
 *     x -> AR(a) -> AR(b) -> slice(a)     becomes     x -> RS(a) -> AR(b)
 *
 * What is left in a row over disjoint digits is one all-reduce over all of them (S-228).
 */
#include "partition/full.h"

#include <string.h>

enum { CHAIN = 8 };

bool full_is_sum(const struct full *f, instr_id i)
{
    const struct instr *in = full_at(f, i);
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    return in->op == OP_ALL_REDUCE && in->noperands == 1 && instr_attr(in, ATTR_TO_APPLY) && g &&
           instr_attr(in, ATTR_CHANNEL_ID) && g->type == ATTR_TYPE_GROUPS && g->groups->uniform &&
           node_shape(f->s, i)->kind == SHAPE_ARRAY;
}

struct tiling full_groups(const struct full *f, instr_id i)
{
    return instr_attr(full_at(f, i), ATTR_REPLICA_GROUPS)->groups->tiles;
}

bool full_one_user(const struct full *f, instr_id i)
{
    return i.i <= f->known && users_count(f->users, i) == 1 &&
           comp_at(f->s->out, f->comp)->root.i != i.i;
}

bool full_same_reducer(const struct full *f, instr_id a, instr_id b)
{
    return instr_attr(full_at(f, a), ATTR_TO_APPLY)->comp.i ==
           instr_attr(full_at(f, b), ATTR_TO_APPLY)->comp.i;
}

static bool same_but_channel(const struct attr *a, const struct attr *b)
{
    if (a->key != b->key || a->key == ATTR_CHANNEL_ID)
        return a->key == b->key;
    if (a->key != ATTR_REPLICA_GROUPS || a->type != ATTR_TYPE_GROUPS || b->type != ATTR_TYPE_GROUPS)
        return attr_same(a, b);
    struct tiling x = a->groups->tiles, y = b->groups->tiles;
    return a->groups->uniform && b->groups->uniform && x.order.i == y.order.i &&
           x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1];
}

bool full_alike(const struct full *f, instr_id a, instr_id b)
{
    const struct instr *x = full_at(f, a), *y = full_at(f, b);
    if (x->op != y->op || x->nattrs != y->nattrs || x->noperands != 1 || y->noperands != 1)
        return false;
    for (int k = 0; k < x->nattrs; k++)
        if (!same_but_channel(&x->attrs[k], &y->attrs[k]))
            return false;
    return true;
}

int64_t full_new_channel(struct spmd *s)
{
    s->channel = s->channel_top = max_i64(s->channel, s->channel_top) + 1;
    return s->channel - 1;
}

instr_id full_add(struct full *f, enum op_kind op, shape_id shape, int n, const instr_id *operands,
                  int nattrs, const struct attr *attrs, instr_id like)
{
    struct spmd *s = f->s;
    instr_id i = instr_new(s->out, f->comp, op, shape, n, operands, nattrs, attrs);
    s->changed = true;
    while (s->info.n <= (int64_t)i.i)
        vec_push(&s->arena, &s->info, (struct node_info){ 0 });
    s->info.v[i.i].note = s->info.v[like.i].note;
    vec_push(&f->tmp, &f->list, i);
    return i;
}

void full_become(struct full *f, instr_id i, enum op_kind op, int n, const instr_id *operands,
                 int nattrs, const struct attr *attrs)
{
    struct arena *a = &f->s->out->arena;
    struct instr *in = full_at(f, i);
    f->s->changed = true;
    in->op = (uint16_t)op;
    in->operands = arena_copy(a, operands, n, sizeof *operands);
    in->noperands = (uint32_t)n;
    in->attrs = nattrs ? arena_copy(a, attrs, nattrs, sizeof *attrs) : NULL;
    in->nattrs = (uint8_t)nattrs;
    if ((int64_t)i.i < f->s->info.n)
        f->s->info.v[i.i].is_shard = false;
}

struct attr *full_attrs_anew(struct full *f, instr_id like)
{
    const struct instr *in = full_at(f, like);
    struct attr *attrs = arena_copy(&f->s->out->arena, in->attrs, in->nattrs, sizeof *attrs);
    for (int k = 0; k < in->nattrs; k++)
        if (attrs[k].key == ATTR_CHANNEL_ID)
            attrs[k] = attr_int(ATTR_CHANNEL_ID, full_new_channel(f->s));
    return attrs;
}

void full_reason(struct full *f, instr_id i, const char *reason)
{
    f->s->info.v[i.i].note.reason = reason;
}

void full_relist(struct full *f, comp_id id)
{
    struct spmd *s = f->s;
    const struct computation *c = comp_at(s->out, id);
    bool *seen = ARENA_ARRAY(&f->tmp, bool, (int64_t)module_ninstrs(s->out) + 1);
    VEC(instr_id) all = { 0 };
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        seen[c->instrs[k].i] = true;
        vec_push(&f->tmp, &all, c->instrs[k]);
    }
    for (int64_t k = 0; k < all.n; k++)
        for (uint32_t j = 0; j < full_at(f, all.v[k])->noperands; j++) {
            instr_id x = full_at(f, all.v[k])->operands[j];
            if (!seen[x.i]) {
                seen[x.i] = true;
                vec_push(&f->tmp, &all, x);
            }
        }
    comp_set_instrs(s->out, id, (uint32_t)all.n, all.v, c->root);
}

/* ---- reduce-scatter, S-225 --------------------------------------------------------------------------- */

/* Dimension that n cuts, or -1: not exactly one. */
static int cut_dim(const struct full *f, instr_id n)
{
    const struct shape *from = node_shape(f->s, full_at(f, n)->operands[0]), *to = node_shape(f->s, n);
    int dim = -1;
    for (int d = 0; d < to->rank; d++)
        if (from->dims[d] != to->dims[d]) {
            if (dim >= 0)
                return -1;
            dim = d;
        }
    return dim;
}

/* By falling stride, neighbours fused: equal for equal sets of digits, reversed or not. */
static int normal_digits(struct digit *d, int n)
{
    int m = 0;
    for (int i = 0; i < n; i++)
        d[i].reversed = false;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && d[j].stride > d[j - 1].stride; j--) {
            struct digit t = d[j];
            d[j] = d[j - 1];
            d[j - 1] = t;
        }
    for (int i = 0; i < n; i++) {
        if (m && d[m - 1].stride == d[i].stride * d[i].radix) {
            d[m - 1].stride = d[i].stride;
            d[m - 1].radix *= d[i].radix;
        } else {
            d[m++] = d[i];
        }
    }
    return m;
}

/* The digits between those of set, which are by falling stride; their number, -1: set's overlap. */
static int digits_between(int m, const struct digit *set, int64_t total, struct digit *out)
{
    int r = 0;
    int64_t top = total;
    for (int i = 0; i <= m; i++) {
        int64_t end = i < m ? set[i].stride * set[i].radix : 1;
        if (end > top || top % end != 0)
            return -1;
        if (top > end)
            out[r++] = (struct digit){ .radix = top / end, .stride = end };
        if (i < m)
            top = set[i].stride;
    }
    return r;
}

/* Groups of the devices that differ in these digits only, members in their order. false: the digits
 * overlap. */
static bool groups_over(struct full *f, int n, const struct digit *digits, int64_t total,
                        struct tiling *out)
{
    struct digit set[RANK_ROOM], all[2 * RANK_ROOM + 1];
    int64_t size = 1;
    memcpy(set, digits, (size_t)n * sizeof *set);
    int m = normal_digits(set, n), r = digits_between(m, set, total, all);
    if (r < 0 || n + r >= RANK_ROOM)
        return false;
    for (int i = 0; i < m; i++)
        size *= set[i].radix;
    memcpy(all + r, digits, (size_t)n * sizeof *digits);
    int64_t dims[2] = { total / size, size };
    struct spmd *s = f->s;
    *out = tiling_make(s->sh, 2, dims, order_of_digits(s, n + r, all));
    return true;
}

/* Whether the devices of a group each take another piece: the same digits. */
static bool same_digits(const struct spmd *s, struct tiling cut, int axis, struct tiling groups)
{
    struct digit x[RANK_ROOM], y[RANK_ROOM];
    int n = axis_digits(s, cut, axis, x), m = axis_digits(s, groups, 1, y);
    if (n <= 0 || m <= 0)
        return false;
    n = normal_digits(x, n);
    m = normal_digits(y, m);
    for (int i = 0; i < n && n == m; i++)
        if (x[i].radix != y[i].radix || x[i].stride != y[i].stride)
            return false;
    return n == m;
}

/* Major to minor, neighbours that continue each other fused; what a digit of radix 1 adds is nothing. */
static int fused_digits(struct digit *d, int n)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (d[i].radix == 1)
            continue;
        if (m && !d[i].reversed && !d[m - 1].reversed && d[m - 1].stride == d[i].stride * d[i].radix) {
            d[m - 1].stride = d[i].stride;
            d[m - 1].radix *= d[i].radix;
        } else {
            d[m++] = d[i];
        }
    }
    return m;
}

bool full_same_order(const struct spmd *s, struct tiling cut, int axis, struct tiling groups)
{
    struct digit x[RANK_ROOM], y[RANK_ROOM];
    int n = axis_digits(s, cut, axis, x), m = axis_digits(s, groups, 1, y);
    if (n <= 0 || m <= 0)
        return false;
    n = fused_digits(x, n);
    m = fused_digits(y, m);
    for (int i = 0; i < n && n == m; i++)
        if (x[i].radix != y[i].radix || x[i].stride != y[i].stride || x[i].reversed != y[i].reversed)
            return false;
    return n == m;
}

/* The dimension of `from` that dimension d of `to` is, unchanged by a reshape; -1: none. */
static int before_reshape(const struct shape *from, const struct shape *to, int d)
{
    int64_t major = 1, m = 1;
    for (int i = 0; i < d; i++)
        major *= to->dims[i];
    for (int i = 0; i < from->rank; i++) {
        if (m == major && from->dims[i] == to->dims[d])
            return i;
        m *= from->dims[i];
    }
    return -1;
}

/* What lies between the slice and the first operand: all-reduces in a row, and at most one reshape
 * directly before the slice. */
struct chain {
    instr_id slice, reshape; /* reshape: none */
    instr_id sum[CHAIN];     /* last one first */
    int n, dim;              /* dim: of the all-reduces' shape */
};

static bool find_chain(const struct full *f, instr_id slice, struct chain *c)
{
    const struct instr *ds = full_at(f, slice);
    *c = (struct chain){ .slice = slice, .dim = -1 };
    if (ds->op != OP_DYNAMIC_SLICE || (int64_t)slice.i >= f->s->info.n ||
        !f->s->info.v[slice.i].is_shard)
        return false;
    instr_id x = ds->operands[0];
    int dim = cut_dim(f, slice);
    if (dim >= 0 && full_at(f, x)->op == OP_RESHAPE && full_one_user(f, x)) {
        c->reshape = x;
        const struct shape *after = node_shape(f->s, x);
        x = full_at(f, x)->operands[0];
        dim = before_reshape(node_shape(f->s, x), after, dim);
    }
    while (c->n < CHAIN && full_is_sum(f, x) && full_one_user(f, x) &&
           (c->n == 0 || full_same_reducer(f, x, c->sum[0]))) {
        c->sum[c->n++] = x;
        x = full_at(f, x)->operands[0];
    }
    c->dim = dim;
    return dim >= 0 && c->n > 0;
}

/* Which all-reduce of the chain the slice cuts; -1: none. */
static int cut_sum(const struct full *f, const struct chain *c)
{
    struct spmd *s = f->s;
    struct tiling cut = s->info.v[c->slice.i].cut;
    int dim = cut_dim(f, c->slice);
    int64_t whole = node_shape(s, full_at(f, c->slice)->operands[0])->dims[dim];
    for (int k = 0; k < c->n; k++) {
        struct tiling groups = full_groups(f, c->sum[k]);
        int64_t g = groups.dims[1];
        if (g >= 2 && whole % g == 0 && node_shape(s, c->slice)->dims[dim] == whole / g &&
            dim + 1 < cut.naxes && same_digits(s, cut, dim + 1, groups))
            return k;
    }
    return -1;
}

static struct attr global_ids(void)
{
    return (struct attr){ .key = ATTR_USE_GLOBAL_DEVICE_IDS, .type = ATTR_TYPE_BOOL, .i = 1 };
}

static void scatter_instead(struct full *f, instr_id slice)
{
    struct spmd *s = f->s;
    struct chain c;
    if (s->out->replica_count > 1 || !find_chain(f, slice, &c))
        return;
    int k = cut_sum(f, &c);
    if (k < 0)
        return;
    const struct shape *from = node_shape(s, c.sum[0]);
    int64_t dims[RANK_ROOM], d = c.dim;
    memcpy(dims, from->dims, (size_t)from->rank * sizeof *dims);
    dims[c.dim] /= full_groups(f, c.sum[k]).dims[1];
    shape_id piece = shape_array(s->ir, from->dtype, from->rank, dims);
    instr_id x = full_at(f, c.sum[c.n - 1])->operands[0];
    const struct attr *reducer = instr_attr(full_at(f, c.sum[k]), ATTR_TO_APPLY);
    struct digit piece_digits[RANK_ROOM];
    struct tiling cut = s->info.v[slice.i].cut, groups;
    int n = axis_digits(s, cut, cut_dim(f, slice) + 1, piece_digits);
    /* Members in the order of the pieces. */
    if (!groups_over(f, n, piece_digits, s->prog->num_partitions, &groups))
        return;
    struct attr attrs[] = { attr_int(ATTR_CHANNEL_ID, full_new_channel(s)),
                            attr_groups(s->out, groups), global_ids(),
                            attr_ints(s->out, ATTR_DIMENSIONS, 1, &d), *reducer };
    x = full_add(f, OP_REDUCE_SCATTER, piece, 1, &x, COUNTOF(attrs), attrs, c.sum[k]);
    if (!s->info.v[x.i].note.reason)
        s->info.v[x.i].note.reason = "a sum of which each device keeps its shard (S-225)";
    for (int i = c.n - 1; i >= 0; i--)
        if (i != k) {
            const struct instr *sum = full_at(f, c.sum[i]);
            x = full_add(f, OP_ALL_REDUCE, piece, 1, &x, sum->nattrs, sum->attrs, c.sum[i]);
        }
    /* The slice takes the place of the last one. */
    struct instr *ds = full_at(f, slice);
    ds->op = c.reshape.i ? OP_RESHAPE : OP_COPY;
    ds->operands = arena_copy(&s->out->arena, &x, 1, sizeof x);
    ds->noperands = 1;
    ds->nattrs = 0;
    s->info.v[slice.i].is_shard = false;
}

/* ---- two sums for one, S-229 ---------------------------------------------------------------------------- */

/* The groups of the computation's sums, each once. */
static void known_groups(struct full *f)
{
    const struct computation *c = comp_at(f->s->out, f->comp);
    if (f->grouped.i == f->comp.i)
        return;
    f->grouped = f->comp;
    f->groups.n = 0;
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        if (!full_is_sum(f, c->instrs[k]))
            continue;
        struct tiling g = full_groups(f, c->instrs[k]);
        bool known = false;
        for (int64_t j = 0; j < f->groups.n && !known; j++)
            known = f->groups.v[j].order.i == g.order.i && f->groups.v[j].dims[1] == g.dims[1];
        if (!known)
            vec_push(&f->tmp, &f->groups, g);
    }
}

/* XLA takes this for a gain when other sums have such groups, which these may then join, and pieces lie
 * on neighbouring devices; partitioner=best, always: it is less to send. */
static bool worth_splitting(struct full *f, int n, const struct digit *piece, struct tiling in, struct tiling out)
{
    if (f->s->opt->best)
        return true;
    if (n != 1 || piece[0].stride != 1 || piece[0].reversed)
        return false;
    known_groups(f);
    for (int64_t k = 0; k < f->groups.n; k++)
        if (same_digits(f->s, in, 1, f->groups.v[k]) || same_digits(f->s, out, 1, f->groups.v[k]))
            return true;
    return false;
}

/* AR(x, all) -> slice     becomes     AR(x, groups of those with different pieces) -> slice -> AR(the rest) */
static void split_sum(struct full *f, instr_id slice)
{
    struct spmd *s = f->s;
    const struct instr *ds = full_at(f, slice);
    if (s->out->replica_count > 1 || ds->op != OP_DYNAMIC_SLICE || (int64_t)slice.i >= s->info.n ||
        !s->info.v[slice.i].is_shard)
        return;
    instr_id sum = ds->operands[0];
    int dim = cut_dim(f, slice);
    int64_t all = s->prog->num_partitions;
    if (dim < 0 || !full_is_sum(f, sum) || !full_one_user(f, sum) || full_groups(f, sum).dims[1] != all)
        return;
    int64_t size = node_shape(s, sum)->dims[dim], g = size / max_i64(1, node_shape(s, slice)->dims[dim]);
    struct tiling cut = s->info.v[slice.i].cut, in, out;
    struct digit piece[RANK_ROOM], set[RANK_ROOM], rest[RANK_ROOM + 1];
    int n = dim + 1 < cut.naxes ? axis_digits(s, cut, dim + 1, piece) : -1;
    if (n <= 0 || g < 2 || g >= all || size % g != 0 || node_shape(s, slice)->dims[dim] != size / g ||
        cut.dims[dim + 1] != g)
        return;
    memcpy(set, piece, (size_t)n * sizeof *set);
    int m = normal_digits(set, n), r = digits_between(m, set, all, rest);
    if (r <= 0 || !groups_over(f, n, piece, all, &in) || !groups_over(f, r, rest, all, &out) ||
        !worth_splitting(f, n, piece, in, out))
        return;
    struct attr *first = full_attrs_anew(f, sum), *second = full_attrs_anew(f, sum);
    int nattrs = full_at(f, sum)->nattrs;
    for (int k = 0; k < nattrs; k++)
        if (first[k].key == ATTR_REPLICA_GROUPS) {
            first[k] = attr_groups(s->out, in);
            second[k] = attr_groups(s->out, out);
        }
    instr_id x = full_add(f, OP_ALL_REDUCE, full_at(f, sum)->shape, 1, &full_at(f, sum)->operands[0], nattrs, first, sum);
    instr_id *ops = arena_copy(&f->tmp, ds->operands, ds->noperands, sizeof *ops);
    ops[0] = x;
    x = full_add(f, OP_DYNAMIC_SLICE, ds->shape, (int)ds->noperands, ops, ds->nattrs, ds->attrs, slice);
    s->info.v[x.i].is_shard = true;
    s->info.v[x.i].cut = cut;
    full_become(f, slice, OP_ALL_REDUCE, 1, &x, nattrs, second);
    s->info.v[slice.i].note = s->info.v[sum.i].note;
    full_reason(f, slice, "summed in groups, the rest of it on each device's shard (S-229)");
}

/* ---- one all-reduce for several, S-228 ------------------------------------------------------------------ */

/* Groups over the digits of both; false: they overlap, or cannot be said in digits. */
static bool united(struct full *f, struct tiling a, struct tiling b, struct tiling *out)
{
    struct digit d[2 * RANK_ROOM];
    int n = axis_digits(f->s, a, 1, d), m = n < 0 ? -1 : axis_digits(f->s, b, 1, d + n);
    int64_t total = a.dims[0] * a.dims[1];
    if (n < 0 || m < 0 || total != b.dims[0] * b.dims[1] || n + m >= RANK_ROOM)
        return false;
    n = normal_digits(d, n + m);
    return groups_over(f, n, d, total, out);
}

void full_fold(struct full *f, instr_id outer)
{
    struct spmd *s = f->s;
    if (!full_is_sum(f, outer) || s->out->replica_count > 1)
        return;
    instr_id inner = full_at(f, outer)->operands[0];
    struct tiling both;
    if (!full_is_sum(f, inner) || !full_one_user(f, inner) || !full_same_reducer(f, outer, inner) ||
        !united(f, full_groups(f, inner), full_groups(f, outer), &both))
        return;
    struct instr *in = full_at(f, outer);
    struct attr *attrs = arena_copy(&s->out->arena, in->attrs, in->nattrs, sizeof *attrs);
    for (int k = 0; k < in->nattrs; k++)
        if (attrs[k].key == ATTR_REPLICA_GROUPS)
            attrs[k] = attr_groups(s->out, both);
    in->attrs = attrs;
    in->operands = full_at(f, inner)->operands;
    s->changed = true;
}

/* ---- nothing to do, S-227 ---------------------------------------------------------------------------------- */

static bool groups_of_one(const struct instr *in)
{
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    return g && g->type == ATTR_TYPE_GROUPS && g->groups->uniform && g->groups->tiles.dims[1] == 1;
}

static void drop_idle(struct full *f, instr_id i)
{
    struct instr *in = full_at(f, i);
    if (in->noperands != 1)
        return;
    bool same = in->shape.i == full_at(f, in->operands[0])->shape.i;
    if (!(((in->op == OP_ALL_GATHER || in->op == OP_REDUCE_SCATTER) && same) ||
          (in->op == OP_ALL_REDUCE && groups_of_one(in))))
        return;
    in->op = OP_COPY;
    in->nattrs = 0;
    f->s->changed = true;
}

/* ---- driver --------------------------------------------------------------------------------------------------- */

static void each(struct full *f, comp_id c, void (*fn)(struct full *, instr_id))
{
    const struct computation *k = comp_at(f->s->out, c);
    uint32_t n = k->ninstrs, root = k->root.i;
    const instr_id *instrs = k->instrs;
    f->comp = c;
    f->list.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        fn(f, instrs[i]);
        vec_push(&f->tmp, &f->list, instrs[i]);
    }
    if (f->list.n > n)
        comp_set_instrs(f->s->out, c, (uint32_t)f->list.n, f->list.v, (instr_id){ root });
}

const struct users *full_users(struct spmd *s)
{
    if (!s->out_users) {
        struct users *u = ARENA_ARRAY(&s->arena, struct users, 1);
        users_make(s->out, &s->arena, u);
        s->out_users = u;
    }
    return s->out_users;
}

void full_each(struct spmd *s, void (*fn)(struct full *, instr_id))
{
    struct full f = { .s = s, .known = module_ninstrs(s->out), .users = full_users(s) };
    uint32_t n;
    arena_open(&f.tmp);
    const comp_id *order = module_call_order(s->out, false, &f.tmp, &n);
    for (uint32_t k = 0; k < n; k++)
        each(&f, order[k], fn);
    arena_close(&f.tmp);
}

static const struct {
    const char *name, *summary;
} passes[PASS_COUNT] = {
    [PASS_IDLE] = { "idle", "collectives that do nothing go (S-227)" },
    [PASS_REASSOCIATE] = { "reassociate", "a sum of all-reduces is an all-reduce of the sum (S-230)" },
    [PASS_LOOPS] = { "loops", "collectives that a loop need not repeat are named; hoist=on moves them (S-233)" },
    [PASS_WEIGHT_UPDATE] = { "weight_update", "each device updates its part of the weights (weight_update=on)" },
    [PASS_SPLIT] = { "split", "a sum over all of which each keeps a piece is two sums, in groups (S-229)" },
    [PASS_REDUCE_SCATTER] = { "reduce_scatter", "an all-reduce and a slice of it are a reduce-scatter (S-225)" },
    [PASS_FOLD] = { "fold", "all-reduces in a row are one (S-228)" },
    [PASS_GATHERS] = { "gathers", "gathers of less, or none (S-231)" },
    [PASS_COMBINE] = { "combine", "independent collectives are one (combine_mib=N, S-232)" },
};

const char *partition_pass_name(enum partition_pass p)
{
    return passes[p].name;
}

const char *partition_pass_summary(enum partition_pass p)
{
    return passes[p].summary;
}

bool full_clean(struct spmd *s)
{
    if (!s->changed)
        return false;
    cleanup_run(s);
    s->changed = false;
    s->out_users = NULL;
    return true;
}

static void run_pass(struct spmd *s, comp_id entry, enum partition_pass p)
{
    switch (p) {
    case PASS_IDLE:
        full_each(s, drop_idle);
        break;
    case PASS_REASSOCIATE:
        for (int k = 0; k < 3; k++) { /* sums of sums */
            full_each(s, full_reassociate);
            if (!full_clean(s))
                break;
        }
        break;
    case PASS_LOOPS:
        full_loops(s, s->opt->hoist);
        break;
    case PASS_WEIGHT_UPDATE:
        if (s->opt->weight_update)
            full_weight_update(s, entry);
        break;
    case PASS_SPLIT:
        full_each(s, split_sum);
        break;
    case PASS_REDUCE_SCATTER:
        full_each(s, scatter_instead);
        break;
    case PASS_FOLD:
        full_each(s, full_fold);
        (void)full_clean(s); /* users are counted anew, without what is dead */
        if (!s->opt->pass[PASS_REDUCE_SCATTER])
            break;
        full_each(s, scatter_instead); /* a slice over all digits of what was folded */
        break;
    case PASS_GATHERS:
        full_each(s, full_gather_later);
        break;
    case PASS_COMBINE:
        if (s->opt->combine_mib > 0)
            full_combine(s, s->opt->combine_mib);
        break;
    case PASS_COUNT:
        break;
    }
}

void full_passes(struct spmd *s, comp_id entry)
{
    for (int p = 0; p < PASS_COUNT - s->opt->passes_left; p++) {
        if (!s->opt->pass[p])
            continue;
        run_pass(s, entry, (enum partition_pass)p);
        (void)full_clean(s);
    }
}
