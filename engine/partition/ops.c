/* Helpers of the op handlers. */
#include "partition/ops.h"

#include <math.h>

void finish_value(struct spmd *s, instr_id source, struct pval v)
{
    set_value(s, source, reshard(s, v, source_sharding(s, source)));
}

void finish(struct spmd *s, instr_id source, instr_id local, sharding_id label)
{
    finish_value(s, source, pval_make(s, local, instr_at(s->src, source)->shape, label));
}

struct pval operand_in(struct spmd *s, instr_id source, uint32_t k, sharding_id sh)
{
    return reshard(s, operand_value(s, source, k), sh);
}

struct pval operand_replicated(struct spmd *s, instr_id source, uint32_t k)
{
    return replicate(s, operand_value(s, source, k));
}

int tile_axes(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    return x->kind == SHARDING_TILED ? x->tiles.naxes : 0;
}

void tile_counts(const struct spmd *s, sharding_id sh, int64_t *counts)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    for (int i = 0; x->kind == SHARDING_TILED && i < x->tiles.naxes; i++)
        counts[i] = x->tiles.dims[i];
}

sharding_id retile(struct spmd *s, sharding_id sh, const int64_t *counts)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TILED)
        return sh;
    struct tiling t = tiling_reshape(s->sh, x->tiles, x->tiles.naxes, counts);
    return sharding_rebuild(s->sh, sh, t);
}

uint64_t tiled_dims(const struct spmd *s, sharding_id sh, int rank)
{
    uint64_t bits = 0;
    for (int d = 0; d < rank && d < 64; d++)
        if (tiles_on(s, sh, d) > 1)
            bits |= bit(d);
    return bits;
}

int bits_to_dims(uint64_t bits, int rank, int *dims)
{
    int n = 0;
    for (int d = 0; d < rank; d++)
        if (bits & bit(d))
            dims[n++] = d;
    return n;
}

shape_id per_group_base(struct spmd *s, shape_id base, const struct sharding_group *g)
{
    const struct shape *b = shape_get(s->ir, base);
    int64_t dims[64];
    for (int d = 0; d < b->rank; d++)
        dims[d] = b->dims[d];
    for (int k = 0; k < g->ndims; k++)
        if (g->dims[k] < b->rank)
            dims[g->dims[k]] = ceil_div(dims[g->dims[k]], g->sizes[k]);
    return shape_array(s->ir, b->dtype, b->rank, dims);
}

const char *because(struct spmd *s, const char *reason)
{
    const char *old = s->reason;
    s->reason = reason;
    return old;
}

/* ---- reducers ----------------------------------------------------------------------------------- */

static bool is_param(const struct module *m, instr_id i, int64_t number)
{
    const struct instr *in = instr_at(m, i);
    if (in->op != OP_PARAMETER)
        return false;
    const struct computation *c = comp_at(m, in->comp);
    return number < (int64_t)c->nparams && c->params[number].i == i.i;
}

enum op_kind simple_reducer(const struct module *m, comp_id c, int component, int ncomponents)
{
    const struct computation *comp = comp_at(m, c);
    instr_id root = comp->root;
    if (ncomponents > 1) {
        const struct instr *tuple = instr_at(m, root);
        if (tuple->op != OP_TUPLE || (int)tuple->noperands != ncomponents)
            return OP_NONE;
        root = tuple->operands[component];
    }
    const struct instr *in = instr_at(m, root);
    if (in->noperands != 2)
        return OP_NONE;
    bool straight = is_param(m, in->operands[0], component) &&
                    is_param(m, in->operands[1], component + ncomponents);
    bool swapped = is_param(m, in->operands[1], component) &&
                   is_param(m, in->operands[0], component + ncomponents);
    return straight || swapped ? (enum op_kind)in->op : OP_NONE;
}

static bool picks(enum op_kind op)
{
    return op == OP_PARAMETER || op == OP_COMPARE || op == OP_SELECT || op == OP_MAXIMUM ||
           op == OP_MINIMUM || op == OP_AND || op == OP_OR || op == OP_TUPLE || op == OP_CONSTANT ||
           op == OP_COPY;
}

bool picking_reducer(const struct module *m, comp_id c)
{
    const struct computation *comp = comp_at(m, c);
    for (uint32_t i = 0; i < comp->ninstrs; i++)
        if (!picks((enum op_kind)instr_at(m, comp->instrs[i])->op))
            return false;
    return true;
}

/* Bit width of an integer type that its extremes need. */
static int64_t int_extreme(enum dtype t, bool highest)
{
    int bits = dtype_bits(t);
    if (dtype_kind(t) == DTYPE_KIND_PRED)
        return highest ? 1 : 0;
    if (dtype_kind(t) == DTYPE_KIND_UNSIGNED)
        return !highest ? 0 : bits >= 64 ? -1 : ((int64_t)1 << bits) - 1;
    if (bits >= 64)
        return highest ? INT64_MAX : INT64_MIN;
    return highest ? ((int64_t)1 << (bits - 1)) - 1 : -((int64_t)1 << (bits - 1));
}

static int64_t all_ones(enum dtype t)
{
    return dtype_kind(t) == DTYPE_KIND_SIGNED ? -1 : int_extreme(t, true);
}

bool literal_is_identity(const struct module *m, const struct literal *l, enum op_kind op)
{
    if (!l || l->elided)
        return false;
    enum dtype t = shape_get(m->ir, l->shape)->dtype;
    bool real = dtype_kind(t) == DTYPE_KIND_FLOAT;
    if (op == OP_ADD)
        return literal_is_all(m, l, 0);
    if (op == OP_MULTIPLY)
        return literal_is_all(m, l, 1);
    if (dtype_kind(t) == DTYPE_KIND_COMPLEX || shape_get(m->ir, l->shape)->count != 1)
        return false;
    if (op == OP_MAXIMUM || op == OP_MINIMUM) {
        if (real)
            return literal_get_f(m, l, 0) == (op == OP_MAXIMUM ? -HUGE_VAL : HUGE_VAL);
        return literal_get_i(m, l, 0) == int_extreme(t, op == OP_MINIMUM);
    }
    if (real)
        return false;
    if (op == OP_OR || op == OP_XOR)
        return literal_get_i(m, l, 0) == 0;
    if (op == OP_AND)
        return literal_get_i(m, l, 0) == all_ones(t);
    return false;
}

bool constant_index(const struct module *m, instr_id i, int64_t *v)
{
    for (int guard = 0; guard < 16; guard++) {
        const struct instr *in = instr_at(m, i);
        const struct shape *sh = shape_get(m->ir, in->shape);
        if (in->op == OP_CONSTANT) {
            if (!in->literal || in->literal->elided || sh->kind != SHAPE_ARRAY || sh->count != 1 ||
                dtype_kind(sh->dtype) == DTYPE_KIND_FLOAT ||
                dtype_kind(sh->dtype) == DTYPE_KIND_COMPLEX)
                return false;
            *v = literal_get_i(m, in->literal, 0);
            return true;
        }
        if (in->op != OP_COPY && in->op != OP_RESHAPE && in->op != OP_BROADCAST)
            return false;
        i = in->operands[0];
    }
    return false;
}

void set_attr(struct spmd *s, instr_id node, struct attr a)
{
    struct instr *n = instr_at(s->out, node);
    struct attr *attrs = ARENA_ARRAY(&s->out->arena, struct attr, n->nattrs + 1);
    int count = 0;
    bool found = false;
    for (int i = 0; i < n->nattrs; i++) {
        bool same = n->attrs[i].key == a.key;
        attrs[count++] = same ? a : n->attrs[i];
        found = found || same;
    }
    if (!found)
        attrs[count++] = a;
    n->attrs = attrs;
    n->nattrs = (uint8_t)count;
}

instr_id emit_clamped_s32(struct spmd *s, instr_id x, int64_t high)
{
    enum dtype t = node_shape(s, x)->dtype;
    if (dtype_bits(t) < 32) { /* s8: `high` may not fit in it */
        x = emit_convert(s, x, DTYPE_S32);
        t = DTYPE_S32;
    }
    x = emit_arith(s, OP_MINIMUM, x, emit_const_i(s, t, high));
    if (dtype_kind(t) == DTYPE_KIND_SIGNED)
        x = emit_arith(s, OP_MAXIMUM, x, emit_const_i(s, t, 0));
    return emit_convert(s, x, DTYPE_S32);
}
