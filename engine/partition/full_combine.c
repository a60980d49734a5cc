/* S-232: independent collectives of one kind become one over a tuple. What is on the same level, by the
 * number of collectives on the longest way to it, does not depend on each other; merged levels keep
 * depending on lower ones only. */
#include "partition/full.h"

#include <string.h>

struct combine {
    struct full *f;
    int64_t limit;  /* bytes */
    int64_t *level; /* by instruction */
};

static bool can_be_combined(const struct full *f, instr_id i)
{
    const struct instr *in = full_at(f, i);
    return (in->op == OP_ALL_REDUCE || in->op == OP_ALL_GATHER || in->op == OP_REDUCE_SCATTER) &&
           in->noperands == 1 && node_shape(f->s, i)->kind == SHAPE_ARRAY &&
           instr_attr(in, ATTR_CHANNEL_ID);
}

/* One collective for those of v that still stand alone and are like the first. */
static int64_t merge(struct combine *c, instr_id *v, int64_t n, bool *done, int64_t first)
{
    struct full *f = c->f;
    struct spmd *s = f->s;
    instr_id *ops = ARENA_ARRAY(&f->tmp, instr_id, n), *who = ARENA_ARRAY(&f->tmp, instr_id, n);
    shape_id *shapes = ARENA_ARRAY(&f->tmp, shape_id, n);
    int64_t count = 0, bytes = 0;
    enum dtype t = node_shape(s, v[first])->dtype;
    for (int64_t k = first; k < n; k++) {
        const struct shape *x = node_shape(s, v[k]);
        if (done[k] || c->level[v[k].i] != c->level[v[first].i] || x->dtype != t ||
            !full_alike(f, v[first], v[k]) || (count && bytes + x->bytes > c->limit))
            continue;
        done[k] = true;
        bytes += x->bytes;
        who[count] = v[k];
        ops[count] = full_at(f, v[k])->operands[0];
        shapes[count++] = full_at(f, v[k])->shape;
    }
    if (count < 2)
        return 0;
    instr_id all = full_add(f, (enum op_kind)full_at(f, v[first])->op,
                            shape_tuple(s->ir, (int)count, shapes), (int)count, ops,
                            full_at(f, v[first])->nattrs, full_attrs_anew(f, v[first]), v[first]);
    full_reason(f, all, arena_printf(&s->arena, "%" PRId64 " collectives in one (S-232)", count));
    for (int64_t k = 0; k < count; k++) {
        struct attr index = attr_int(ATTR_INDEX, k);
        full_become(f, who[k], OP_GET_TUPLE_ELEMENT, 1, &all, 1, &index);
    }
    return count;
}

static void combine_in(struct combine *c, comp_id id)
{
    struct full *f = c->f;
    struct spmd *s = f->s;
    uint32_t n;
    VEC(instr_id) found = { 0 };
    f->comp = id;
    f->list.n = 0;
    const instr_id *order = comp_post_order(s->out, id, f->users, &f->tmp, &n);
    for (uint32_t k = 0; k < n; k++) {
        const struct instr *in = full_at(f, order[k]);
        int64_t level = 0;
        for (uint32_t j = 0; j < in->noperands; j++)
            level = max_i64(level, c->level[in->operands[j].i]);
        bool is = can_be_combined(f, order[k]);
        c->level[order[k].i] = level + (is || op_is_collective((enum op_kind)in->op));
        if (is)
            vec_push(&f->tmp, &found, order[k]);
        vec_push(&f->tmp, &f->list, order[k]);
    }
    bool *done = ARENA_ARRAY(&f->tmp, bool, found.n);
    for (int64_t k = 0; k < found.n; k++)
        if (!done[k])
            (void)merge(c, found.v, found.n, done, k);
    comp_set_instrs(s->out, id, (uint32_t)f->list.n, f->list.v, comp_at(s->out, id)->root);
}

void full_combine(struct spmd *s, int64_t limit)
{
    struct full f = { .s = s, .known = module_ninstrs(s->out), .users = full_users(s) };
    uint32_t n;
    arena_open(&f.tmp);
    struct combine c = { .f = &f, .limit = limit * (1 << 20) };
    c.level = ARENA_ARRAY(&f.tmp, int64_t, (int64_t)f.known + 1);
    const comp_id *order = module_call_order(s->out, false, &f.tmp, &n);
    for (uint32_t k = 0; k < n; k++)
        combine_in(&c, order[k]);
    arena_close(&f.tmp);
}
