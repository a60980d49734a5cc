/* Reduce, S-146, S-147: every device reduces its shard, the partial results meet in an all-reduce
 * (one result) or are gathered and reduced once more (several).
 *
 * The specification's reference folds the init value in once a device. Here partial results start
 * from the reduction's identity where it is known, and the init is folded in once, at the end. */
#include "partition/ops.h"

struct reduction {
    instr_id source;
    comp_id body;
    int n;                 /* inputs */
    int ndims;
    int dims[64];
    uint64_t bits;         /* the reduced dims */
    sharding_id sharding;  /* of the inputs */
    const instr_id *inits; /* scalar nodes for the partial results */
    bool fold_late;        /* inits of the program still have to be folded in */
};

static comp_id reduce_body(const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_TO_APPLY);
    return a ? a->comp : (comp_id){ 0 };
}

/* Shape of one result of a local reduce of x. */
static shape_id reduced_shape(struct spmd *s, const struct shape *x, uint64_t bits)
{
    int64_t dims[64];
    int rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (!(bits & bit(d)))
            dims[rank++] = x->dims[d];
    return shape_array(s->ir, x->dtype, rank, dims);
}

/* The reduce of the source on local inputs; results one by one in out[]. */
static void local_reduce(struct spmd *s, const struct reduction *r, const instr_id *inputs,
                         const instr_id *inits, instr_id *out)
{
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, 2 * r->n);
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, r->n);
    for (int k = 0; k < r->n; k++) {
        ops[k] = inputs[k];
        ops[r->n + k] = inits[k];
        shapes[k] = reduced_shape(s, node_shape(s, inputs[k]), r->bits);
    }
    bool tuple = source_shape(s, r->source)->kind == SHAPE_TUPLE;
    shape_id shape = tuple ? shape_tuple(s->ir, r->n, shapes) : shapes[0];
    instr_id all = emit_clone(s, r->source, shape, 2 * r->n, ops);
    for (int k = 0; k < r->n; k++) {
        if (!tuple) {
            out[k] = all;
            continue;
        }
        struct attr index = attr_int(ATTR_INDEX, k);
        out[k] = emit(s, OP_GET_TUPLE_ELEMENT, shapes[k], 1, &all, 1, &index);
    }
}

/* Partial results of several: gathered along the reduced dims, and reduced again. */
static void gather_and_reduce(struct spmd *s, const struct reduction *r, int rank, instr_id *part)
{
    int keep[64], nkeep = bits_to_dims(~r->bits, rank, keep);
    int rep = sharding_rep_axis(s->sh, r->sharding);
    if (rep >= 0)
        keep[nkeep++] = rep;
    if (nkeep > OPS_MAX_RANK)
        nkeep = OPS_MAX_RANK; /* callers keep the rank below */
    struct sharding_group g;
    sharding_group_on(s->sh, r->sharding, nkeep, keep, NULL, &g);
    groups_enter(s, g.groups);
    instr_id *whole = ARENA_ARRAY(&s->arena, instr_id, r->n);
    for (int k = 0; k < r->n; k++) {
        const struct shape *x = node_shape(s, part[k]);
        int64_t local[64], base[64];
        for (int d = 0, j = 0; d < rank; d++) {
            bool gone = r->bits & bit(d);
            local[d] = gone ? 1 : x->dims[j++];
            base[d] = gone ? tiles_on(s, r->sharding, d) : local[d];
        }
        instr_id y = emit_reshape(s, part[k], rank, local);
        struct pval v = pval_make(s, y, shape_array(s->ir, x->dtype, rank, base), g.inner);
        whole[k] = replicate(s, v).local;
    }
    groups_leave(s);
    local_reduce(s, r, whole, r->inits, part);
}

/* Whether partial results may start from something that is not the program's init: the identity of
 * each component's operation. Fills inits. */
static bool identities(struct spmd *s, struct reduction *r, instr_id *inits)
{
    for (int k = 0; k < r->n; k++) {
        enum op_kind op = simple_reducer(s->src, r->body, k, r->n);
        enum dtype t = source_shape(s, instr_operand(s->src, r->source, (uint32_t)k))->dtype;
        if (op == OP_NONE || !emit_identity(s, op, t, &inits[k]))
            return false;
    }
    return true;
}

static bool inits_are_identities(struct spmd *s, const struct reduction *r)
{
    for (int k = 0; k < r->n; k++) {
        enum op_kind op = simple_reducer(s->src, r->body, k, r->n);
        const struct instr *init =
            instr_at(s->src, instr_operand(s->src, r->source, (uint32_t)(r->n + k)));
        if (op == OP_NONE || init->op != OP_CONSTANT ||
            !literal_is_identity(s->src, init->literal, op))
            return false;
    }
    return true;
}

static instr_id tuple_of(struct spmd *s, int n, const instr_id *xs)
{
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, n);
    for (int k = 0; k < n; k++)
        shapes[k] = instr_at(s->out, xs[k])->shape;
    return emit(s, OP_TUPLE, shape_tuple(s->ir, n, shapes), n, xs, 0, NULL);
}

/* Joins the devices' partial results. */
static void join_partials(struct spmd *s, const struct reduction *r, int rank,
                          const instr_id *program_inits, instr_id *part)
{
    const char *old = because(s, "partial results of the reduced dimension (S-146)");
    if (r->n > 1) {
        gather_and_reduce(s, r, rank, part);
    } else {
        part[0] = emit_reduce_along(s, part[0], copy_computation(s, r->body), r->sharding, r->ndims,
                                    r->dims);
    }
    s->reason = old;
    for (int k = 0; k < r->n && r->fold_late; k++) {
        const struct shape *x = node_shape(s, part[k]);
        instr_id init = emit_broadcast_scalar(s, program_inits[k], x->rank, x->dims);
        part[k] = emit_arith(s, simple_reducer(s->src, r->body, k, r->n), part[k], init);
    }
}

static sharding_id result_label(struct spmd *s, const struct reduction *r)
{
    sharding_id x = sharding_replicate_dims(s->sh, r->sharding, r->ndims, r->dims);
    return sharding_remove_dims(s->sh, x, r->ndims, r->dims);
}

void partition_reduce(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct reduction r = { .source = source, .body = reduce_body(in), .n = (int)in->noperands / 2 };
    int64_t device;
    const struct shape *input = source_shape(s, in->operands[0]);
    if (sharding_unique_device(s->sh, source_sharding(s, source), &device) ||
        input->rank >= OPS_MAX_RANK) {
        partition_default(s, source, NULL);
        return;
    }
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &r.ndims);
    for (int i = 0; i < r.ndims; i++) {
        r.dims[i] = (int)dims[i];
        r.bits |= bit(r.dims[i]);
    }
    struct pval first = operand_value(s, source, 0);
    r.sharding = first.sharding;

    bool joins = false;
    for (int i = 0; i < r.ndims; i++)
        joins = joins || tiles_on(s, r.sharding, r.dims[i]) > 1;
    instr_id *own = ARENA_ARRAY(&s->arena, instr_id, r.n);
    instr_id *inits = ARENA_ARRAY(&s->arena, instr_id, r.n);
    for (int k = 0; k < r.n; k++)
        own[k] = operand_replicated(s, source, (uint32_t)(r.n + k)).local;
    r.inits = own;
    if (joins && !inits_are_identities(s, &r)) {
        if (identities(s, &r, inits)) {
            r.inits = inits;
            r.fold_late = true;
        } else if (!picking_reducer(s->src, r.body)) {
            /* An init of unknown effect may be folded in once only: no partial results. */
            note_remat(s, r.sharding, result_label(s, &r), true,
                       "the reduction's identity is not known: its dimension is gathered first");
            r.sharding = sharding_replicate_dims(s->sh, r.sharding, r.ndims, r.dims);
            joins = false;
        }
    }

    instr_id *part = ARENA_ARRAY(&s->arena, instr_id, r.n);
    for (int k = 0; k < r.n; k++) {
        struct pval v = operand_in(s, source, (uint32_t)k, r.sharding);
        if (!is_tile_max(s, r.sharding))
            v = pval_mask(s, v, r.inits[k], 0, ~r.bits);
        part[k] = v.local;
    }
    local_reduce(s, &r, part, r.inits, part);
    if (joins)
        join_partials(s, &r, input->rank, own, part);

    sharding_id label = result_label(s, &r);
    if (source_shape(s, source)->kind != SHAPE_TUPLE) {
        finish(s, source, part[0], label);
        return;
    }
    finish(s, source, tuple_of(s, r.n, part), sharding_tuple_of(s->sh, r.n, label));
}
