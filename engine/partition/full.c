/* passes=full: what XLA's later passes make of the collectives (S-225..S-227).
 *
 * An all-reduce whose only user cuts this device's shard out of it is a reduce-scatter. Which shard
 * a dynamic-slice cuts is known from its making (struct node_info); the two meet when the digits of
 * the partition id that choose the piece are those that number the members of the all-reduce's
 * groups.
 */
#include "partition/internal.h"

#include <string.h>

/* Dimension that n cuts, or -1: not exactly one. */
static int cut_dim(const struct spmd *s, instr_id n)
{
    const struct shape *from = node_shape(s, instr_operand(s->out, n, 0)), *to = node_shape(s, n);
    int dim = -1;
    for (int d = 0; d < to->rank; d++)
        if (from->dims[d] != to->dims[d]) {
            if (dim >= 0)
                return -1;
            dim = d;
        }
    return dim;
}

static bool same_index(const struct spmd *s, struct tiling a, int axis_a, struct tiling b,
                       int axis_b)
{
    struct digit x[RANK_ROOM], y[RANK_ROOM];
    int n = axis_digits(s, a, axis_a, x), m = axis_digits(s, b, axis_b, y);
    if (n < 0 || n != m)
        return false;
    for (int i = 0; i < n; i++)
        if (x[i].radix != y[i].radix || x[i].stride != y[i].stride ||
            x[i].reversed != y[i].reversed)
            return false;
    return true;
}

/* Turns the slice into a reduce-scatter of what the all-reduce had. S-225 */
static bool scatter_instead(struct spmd *s, instr_id slice, const struct users *users)
{
    struct instr *ds = instr_at(s->out, slice);
    if (ds->op != OP_DYNAMIC_SLICE || (int64_t)slice.i >= s->info.n ||
        !s->info.v[slice.i].is_shard)
        return false;
    instr_id ar_id = ds->operands[0];
    const struct instr *ar = instr_at(s->out, ar_id);
    if (ar->op != OP_ALL_REDUCE || ar->noperands != 1 || users_count(users, ar_id) != 1 ||
        comp_at(s->out, ar->comp)->root.i == ar_id.i)
        return false;
    const struct attr *ga = instr_attr(ar, ATTR_REPLICA_GROUPS), *to = instr_attr(ar, ATTR_TO_APPLY);
    int dim = cut_dim(s, slice);
    if (dim < 0 || !to || !ga || ga->type != ATTR_TYPE_GROUPS || !ga->groups->uniform ||
        s->out->replica_count > 1)
        return false;
    struct tiling groups = ga->groups->tiles, cut = s->info.v[slice.i].cut;
    int64_t g = groups.dims[1], from = node_shape(s, ar_id)->dims[dim];
    if (g < 2 || from % g != 0 || node_shape(s, slice)->dims[dim] != from / g ||
        dim + 1 >= cut.naxes || !same_index(s, cut, dim + 1, groups, 1))
        return false;
    int64_t d = dim;
    s->channel = s->channel_top = max_i64(s->channel, s->channel_top) + 1;
    struct attr attrs[] = { attr_int(ATTR_CHANNEL_ID, s->channel - 1), *ga,
                            { .key = ATTR_USE_GLOBAL_DEVICE_IDS, .type = ATTR_TYPE_BOOL, .i = 1 },
                            attr_ints(s->out, ATTR_DIMENSIONS, 1, &d), *to };
    instr_id *ops = arena_copy(&s->out->arena, ar->operands, 1, sizeof *ops);
    ds->op = OP_REDUCE_SCATTER;
    ds->operands = ops;
    ds->noperands = 1;
    ds->attrs = arena_copy(&s->out->arena, attrs, COUNTOF(attrs), sizeof *attrs);
    ds->nattrs = COUNTOF(attrs);
    struct node_info *info = &s->info.v[slice.i];
    const struct node_note sum = s->info.v[ar_id.i].note;
    info->note.source = sum.source;
    info->note.reason = sum.reason ? sum.reason : "a sum of which each device keeps its shard (S-225)";
    info->is_shard = false;
    return true;
}

static bool same_shape(const struct spmd *s, instr_id i)
{
    return instr_at(s->out, i)->shape.i == instr_at(s->out, instr_operand(s->out, i, 0))->shape.i;
}

static bool groups_of_one(const struct instr *in)
{
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS);
    return g && g->type == ATTR_TYPE_GROUPS && g->groups->uniform && g->groups->tiles.dims[1] == 1;
}

/* S-227: a collective that changes nothing becomes a copy. */
static void drop_idle(struct spmd *s, instr_id i)
{
    struct instr *in = instr_at(s->out, i);
    if (in->noperands != 1)
        return;
    bool idle = ((in->op == OP_ALL_GATHER || in->op == OP_REDUCE_SCATTER) && same_shape(s, i)) ||
                (in->op == OP_ALL_REDUCE && groups_of_one(in));
    if (!idle)
        return;
    in->op = OP_COPY;
    in->nattrs = 0;
}

void full_passes(struct spmd *s, comp_id entry)
{
    (void)entry;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct users users;
    users_make(s->out, &tmp, &users);
    uint32_t n;
    const comp_id *order = module_call_order(s->out, false, &tmp, &n);
    for (uint32_t k = 0; k < n; k++) {
        const struct computation *c = comp_at(s->out, order[k]);
        for (uint32_t i = 0; i < c->ninstrs; i++) {
            drop_idle(s, c->instrs[i]);
            (void)scatter_instead(s, c->instrs[i], &users);
        }
    }
    arena_close(&tmp);
}
