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
#include "partition/internal.h"

#include <string.h>

enum { CHAIN = 8 };

struct full {
    struct spmd *s;
    struct arena tmp;
    const struct users *users;
    comp_id comp;
    VEC(instr_id) list; /* the computation's instructions anew */
};

static struct instr *at(const struct full *f, instr_id i)
{
    return instr_at(f->s->out, i);
}

/* An array all-reduce in uniform groups. */
static bool is_sum(const struct full *f, instr_id i)
{
    const struct instr *in = at(f, i);
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    return in->op == OP_ALL_REDUCE && in->noperands == 1 && instr_attr(in, ATTR_TO_APPLY) && g &&
           instr_attr(in, ATTR_CHANNEL_ID) && g->type == ATTR_TYPE_GROUPS && g->groups->uniform &&
           node_shape(f->s, i)->kind == SHAPE_ARRAY;
}

static struct tiling groups_of(const struct full *f, instr_id i)
{
    return instr_attr(at(f, i), ATTR_REPLICA_GROUPS)->groups->tiles;
}

static bool one_user(const struct full *f, instr_id i)
{
    return users_count(f->users, i) == 1 && comp_at(f->s->out, f->comp)->root.i != i.i;
}

static bool same_reducer(const struct full *f, instr_id a, instr_id b)
{
    return instr_attr(at(f, a), ATTR_TO_APPLY)->comp.i == instr_attr(at(f, b), ATTR_TO_APPLY)->comp.i;
}

static int64_t new_channel(struct spmd *s)
{
    s->channel = s->channel_top = max_i64(s->channel, s->channel_top) + 1;
    return s->channel - 1;
}

/* ---- reduce-scatter, S-225 --------------------------------------------------------------------------- */

/* Dimension that n cuts, or -1: not exactly one. */
static int cut_dim(const struct full *f, instr_id n)
{
    const struct shape *from = node_shape(f->s, at(f, n)->operands[0]), *to = node_shape(f->s, n);
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

/* Groups of the devices that differ in these digits only, members in their order. false: the digits
 * overlap. */
static bool groups_over(struct full *f, int n, const struct digit *digits, int64_t total,
                        struct tiling *out)
{
    struct digit set[RANK_ROOM], all[2 * RANK_ROOM + 1];
    memcpy(set, digits, (size_t)n * sizeof *set);
    int m = normal_digits(set, n), r = 0;
    int64_t top = total, size = 1;
    for (int i = 0; i <= m; i++) { /* the gaps between are the other digits */
        int64_t end = i < m ? set[i].stride * set[i].radix : 1;
        if (end > top || top % end != 0)
            return false;
        if (top > end)
            all[r++] = (struct digit){ .radix = top / end, .stride = end };
        if (i < m) {
            top = set[i].stride;
            size *= set[i].radix;
        }
    }
    if (n + r >= RANK_ROOM)
        return false;
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
    const struct instr *ds = at(f, slice);
    *c = (struct chain){ .slice = slice, .dim = -1 };
    if (ds->op != OP_DYNAMIC_SLICE || (int64_t)slice.i >= f->s->info.n ||
        !f->s->info.v[slice.i].is_shard)
        return false;
    instr_id x = ds->operands[0];
    int dim = cut_dim(f, slice);
    if (dim >= 0 && at(f, x)->op == OP_RESHAPE && one_user(f, x)) {
        c->reshape = x;
        const struct shape *after = node_shape(f->s, x);
        x = at(f, x)->operands[0];
        dim = before_reshape(node_shape(f->s, x), after, dim);
    }
    while (c->n < CHAIN && is_sum(f, x) && one_user(f, x) &&
           (c->n == 0 || same_reducer(f, x, c->sum[0]))) {
        c->sum[c->n++] = x;
        x = at(f, x)->operands[0];
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
    int64_t whole = node_shape(s, at(f, c->slice)->operands[0])->dims[dim];
    for (int k = 0; k < c->n; k++) {
        struct tiling groups = groups_of(f, c->sum[k]);
        int64_t g = groups.dims[1];
        if (g >= 2 && whole % g == 0 && node_shape(s, c->slice)->dims[dim] == whole / g &&
            dim + 1 < cut.naxes && same_digits(s, cut, dim + 1, groups))
            return k;
    }
    return -1;
}

static instr_id add(struct full *f, enum op_kind op, shape_id shape, instr_id operand, int nattrs,
                    const struct attr *attrs, instr_id like)
{
    struct spmd *s = f->s;
    instr_id i = instr_new(s->out, f->comp, op, shape, 1, &operand, nattrs, attrs);
    while (s->info.n <= (int64_t)i.i)
        vec_push(&s->arena, &s->info, (struct node_info){ 0 });
    s->info.v[i.i].note = s->info.v[like.i].note;
    vec_push(&f->tmp, &f->list, i);
    return i;
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
    dims[c.dim] /= groups_of(f, c.sum[k]).dims[1];
    shape_id piece = shape_array(s->ir, from->dtype, from->rank, dims);
    instr_id x = at(f, c.sum[c.n - 1])->operands[0];
    const struct attr *reducer = instr_attr(at(f, c.sum[k]), ATTR_TO_APPLY);
    struct digit piece_digits[RANK_ROOM];
    struct tiling cut = s->info.v[slice.i].cut, groups;
    int n = axis_digits(s, cut, cut_dim(f, slice) + 1, piece_digits);
    /* Members in the order of the pieces. */
    if (!groups_over(f, n, piece_digits, s->prog->num_partitions, &groups))
        return;
    struct attr attrs[] = { attr_int(ATTR_CHANNEL_ID, new_channel(s)),
                            attr_groups(s->out, groups), global_ids(),
                            attr_ints(s->out, ATTR_DIMENSIONS, 1, &d), *reducer };
    x = add(f, OP_REDUCE_SCATTER, piece, x, COUNTOF(attrs), attrs, c.sum[k]);
    if (!s->info.v[x.i].note.reason)
        s->info.v[x.i].note.reason = "a sum of which each device keeps its shard (S-225)";
    for (int i = c.n - 1; i >= 0; i--)
        if (i != k) {
            const struct instr *sum = at(f, c.sum[i]);
            x = add(f, OP_ALL_REDUCE, piece, x, sum->nattrs, sum->attrs, c.sum[i]);
        }
    /* The slice takes the place of the last one. */
    struct instr *ds = at(f, slice);
    ds->op = c.reshape.i ? OP_RESHAPE : OP_COPY;
    ds->operands = arena_copy(&s->out->arena, &x, 1, sizeof x);
    ds->noperands = 1;
    ds->nattrs = 0;
    s->info.v[slice.i].is_shard = false;
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

static void fold(struct full *f, instr_id outer)
{
    struct spmd *s = f->s;
    if (!is_sum(f, outer) || s->out->replica_count > 1)
        return;
    instr_id inner = at(f, outer)->operands[0];
    struct tiling both;
    if (!is_sum(f, inner) || !one_user(f, inner) || !same_reducer(f, outer, inner) ||
        !united(f, groups_of(f, inner), groups_of(f, outer), &both))
        return;
    struct instr *in = at(f, outer);
    struct attr *attrs = arena_copy(&s->out->arena, in->attrs, in->nattrs, sizeof *attrs);
    for (int k = 0; k < in->nattrs; k++)
        if (attrs[k].key == ATTR_REPLICA_GROUPS)
            attrs[k] = attr_groups(s->out, both);
    in->attrs = attrs;
    in->operands = at(f, inner)->operands;
}

/* ---- nothing to do, S-227 ---------------------------------------------------------------------------------- */

static bool groups_of_one(const struct instr *in)
{
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    return g && g->type == ATTR_TYPE_GROUPS && g->groups->uniform && g->groups->tiles.dims[1] == 1;
}

static void drop_idle(struct full *f, instr_id i)
{
    struct instr *in = at(f, i);
    if (in->noperands != 1)
        return;
    bool same = in->shape.i == at(f, in->operands[0])->shape.i;
    if (!(((in->op == OP_ALL_GATHER || in->op == OP_REDUCE_SCATTER) && same) ||
          (in->op == OP_ALL_REDUCE && groups_of_one(in))))
        return;
    in->op = OP_COPY;
    in->nattrs = 0;
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

static void each_computation(struct spmd *s, void (*fn)(struct full *, instr_id))
{
    struct full f = { .s = s };
    struct users users;
    uint32_t n;
    arena_open(&f.tmp);
    users_make(s->out, &f.tmp, &users);
    f.users = &users;
    const comp_id *order = module_call_order(s->out, false, &f.tmp, &n);
    for (uint32_t k = 0; k < n; k++)
        each(&f, order[k], fn);
    arena_close(&f.tmp);
}

void full_passes(struct spmd *s, comp_id entry)
{
    each_computation(s, drop_idle);
    each_computation(s, scatter_instead);
    cleanup_run(s, entry); /* users are counted anew, without what is dead */
    each_computation(s, fold);
    cleanup_run(s, entry);
    each_computation(s, scatter_instead); /* a slice over all digits of what was folded */
}
