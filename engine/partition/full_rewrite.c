/* Reassociation (S-230) and gathers of less (S-231). */
#include "partition/full.h"

#include "partition/ops.h"

#include <string.h>

/* ---- op(AR(x), AR(y)) = AR(op(x, y)), S-230 --------------------------------------------------------- */

static bool is_scatter(const struct full *f, instr_id i)
{
    const struct instr *in = full_at(f, i);
    return in->op == OP_REDUCE_SCATTER && in->noperands == 1 && instr_attr(in, ATTR_TO_APPLY) &&
           node_shape(f->s, i)->kind == SHAPE_ARRAY;
}

void full_reassociate(struct full *f, instr_id i)
{
    struct spmd *s = f->s;
    const struct instr *in = full_at(f, i);
    if (in->noperands != 2)
        return;
    instr_id a = in->operands[0], b = in->operands[1];
    bool sums = (full_is_sum(f, a) && full_is_sum(f, b)) || (is_scatter(f, a) && is_scatter(f, b));
    if (a.i == b.i || !sums || !full_one_user(f, a) || !full_one_user(f, b) || !full_alike(f, a, b))
        return;
    comp_id reducer = instr_attr(full_at(f, a), ATTR_TO_APPLY)->comp;
    instr_id ops[2] = { full_at(f, a)->operands[0], full_at(f, b)->operands[0] };
    shape_id shape = full_at(f, ops[0])->shape;
    if (simple_reducer(s->out, reducer, 0, 1) != (enum op_kind)in->op ||
        shape.i != full_at(f, ops[1])->shape.i || full_at(f, a)->shape.i != in->shape.i)
        return;
    instr_id x = full_add(f, (enum op_kind)in->op, shape, 2, ops, in->nattrs, in->attrs, i);
    s->info.v[i.i].note = s->info.v[a.i].note;
    full_become(f, i, (enum op_kind)full_at(f, a)->op, 1, &x, full_at(f, a)->nattrs,
                full_attrs_anew(f, a));
    full_reason(f, i, "two sums are summed first (S-230)");
}

/* ---- gathers, S-231 ---------------------------------------------------------------------------------- */

static bool is_gather(const struct full *f, instr_id i)
{
    const struct instr *in = full_at(f, i);
    const struct attr *g = instr_attr(in, ATTR_REPLICA_GROUPS), *d = instr_attr(in, ATTR_DIMENSIONS);
    return in->op == OP_ALL_GATHER && in->noperands == 1 && g && g->type == ATTR_TYPE_GROUPS &&
           g->groups->uniform && d && d->n == 1 && node_shape(f->s, i)->kind == SHAPE_ARRAY;
}

static int gather_dim(const struct full *f, instr_id i)
{
    return (int)instr_attr(full_at(f, i), ATTR_DIMENSIONS)->ints[0];
}

/* An elementwise operation on gathered values is done before they are gathered, where that is less
 * to send. */
static bool gather_result(struct full *f, instr_id i)
{
    struct spmd *s = f->s;
    const struct instr *in = full_at(f, i);
    if (in->noperands < 1 || in->noperands > 4 || !instr_is_elementwise(s->out, i) ||
        node_shape(s, i)->kind != SHAPE_ARRAY)
        return false;
    instr_id first = in->operands[0], ops[4];
    int64_t sent = 0;
    for (uint32_t k = 0; k < in->noperands; k++) {
        instr_id g = in->operands[k];
        for (uint32_t j = 0; j < k; j++)
            if (in->operands[j].i == g.i)
                return false;
        if (!is_gather(f, g) || !full_one_user(f, g) || !full_alike(f, first, g) ||
            !shape_same_dims(s->ir, full_at(f, g)->shape, full_at(f, first)->shape))
            return false;
        ops[k] = full_at(f, g)->operands[0];
        sent += node_shape(s, g)->bytes;
    }
    const struct shape *local = node_shape(s, ops[0]);
    if (node_shape(s, i)->bytes >= sent || local->rank != node_shape(s, i)->rank)
        return false;
    shape_id shape = shape_array(s->ir, node_shape(s, i)->dtype, local->rank, local->dims);
    instr_id x = full_add(f, (enum op_kind)in->op, shape, (int)in->noperands, ops, in->nattrs,
                          in->attrs, i);
    s->info.v[i.i].note = s->info.v[first.i].note;
    full_become(f, i, OP_ALL_GATHER, 1, &x, full_at(f, first)->nattrs, full_attrs_anew(f, first));
    full_reason(f, i, "computed before it is gathered (S-231)");
    return true;
}

/* A slice that takes from a gathered value what was this device's before. */
static bool gather_undone(struct full *f, instr_id i)
{
    struct spmd *s = f->s;
    const struct instr *in = full_at(f, i);
    if (in->op != OP_DYNAMIC_SLICE || (int64_t)i.i >= s->info.n || !s->info.v[i.i].is_shard)
        return false;
    instr_id g = in->operands[0];
    while (full_at(f, g)->op == OP_COPY)
        g = full_at(f, g)->operands[0];
    if (!is_gather(f, g))
        return false;
    instr_id x = full_at(f, g)->operands[0];
    int d = gather_dim(f, g);
    struct tiling cut = s->info.v[i.i].cut;
    if (full_at(f, x)->shape.i != in->shape.i || d + 1 >= cut.naxes ||
        !full_same_order(s, cut, d + 1, full_groups(f, g)))
        return false;
    full_become(f, i, OP_COPY, 1, &x, 0, NULL);
    return true;
}

/* What is broadcast is gathered before, along the dimension of its own. */
static bool gather_before_broadcast(struct full *f, instr_id i)
{
    struct spmd *s = f->s;
    if (!is_gather(f, i))
        return false;
    instr_id b = full_at(f, i)->operands[0];
    const struct attr *map = instr_attr(full_at(f, b), ATTR_DIMENSIONS);
    if (full_at(f, b)->op != OP_BROADCAST || !full_one_user(f, b) || !map)
        return false;
    instr_id x = full_at(f, b)->operands[0];
    const struct shape *sx = node_shape(s, x);
    int64_t own = -1, dims[RANK_ROOM];
    int d = gather_dim(f, i);
    for (int64_t k = 0; k < (int64_t)map->n; k++)
        if (map->ints[k] == d)
            own = k;
    if (own < 0 || sx->rank == 0 || sx->rank > RANK_ROOM || sx->bytes >= node_shape(s, b)->bytes)
        return false;
    memcpy(dims, sx->dims, (size_t)sx->rank * sizeof *dims);
    dims[own] = node_shape(s, i)->dims[d];
    struct attr *attrs = full_attrs_anew(f, i);
    for (int k = 0; k < full_at(f, i)->nattrs; k++)
        if (attrs[k].key == ATTR_DIMENSIONS)
            attrs[k] = attr_ints(s->out, ATTR_DIMENSIONS, 1, &own);
    instr_id g = full_add(f, OP_ALL_GATHER, shape_array(s->ir, sx->dtype, sx->rank, dims), 1, &x,
                          full_at(f, i)->nattrs, attrs, i);
    full_reason(f, g, "gathered before it is broadcast (S-231)");
    full_become(f, i, OP_BROADCAST, 1, &g, 1, map);
    return true;
}

void full_gather_later(struct full *f, instr_id i)
{
    if (gather_undone(f, i) || gather_before_broadcast(f, i))
        return;
    (void)gather_result(f, i);
}
