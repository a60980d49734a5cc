/* Custom calls that have a meaning here: annotations are copies; shard and full forms of one value
 * are where the two shapes agree (on one device a manual region's body has no meaning otherwise).
 */
#include <string.h>

#include "emulate/lower.h"

static const char *const copies[] = {
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
};

static bool is_copy(const char *target)
{
    for (size_t k = 0; k < COUNTOF(copies); k++)
        if (strcmp(target, copies[k]) == 0)
            return true;
    return false;
}

/* "dimension=1,amount=3": element j moves to (j + amount) mod n. */
static bool config_int(const char *text, const char *key, int64_t *out)
{
    const char *at = strstr(text, key);
    return at && parse_i64(at + strlen(key), strlen(at + strlen(key)), out) > 0;
}

static void run_rotate(const struct step *s, void *const *out, const void *const *in)
{
    const struct move *p = s->p;
    for (int k = 0; k < 2; k++)
        box_copy(&p[k].box, out[0], in[0], s->lout[0].elem.size);
}

static void poison_rotate(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    (void)in;
    const struct move *p = s->p;
    for (int k = 0; k < 2; k++)
        box_copy(&p[k].box, pout[0], pin[0], 1);
}

static bool lower_rotate(struct lowering *l)
{
    const struct attr *config = instr_attr(l->i, ATTR_BACKEND_CONFIG);
    struct arena tmp = { 0 };
    int64_t dim = 0, amount = 0;
    const char *text = config ? arena_strndup(&tmp, config->text, config->n) : "";
    bool ok = config_int(text, "dimension=", &dim) && config_int(text, "amount=", &amount);
    arena_free(&tmp);
    if (!ok || dim < 0 || dim >= l->shape->rank || l->step->nin != 1)
        return lower_missing(l, "a rotation without dimension and amount");
    int64_t n = l->shape->dims[dim], by = n ? ((amount % n) + n) % n : 0;
    struct move *p = ARENA_ARRAY(l->a, struct move, 2);
    for (int k = 0; k < 2; k++) {
        struct box *b = &p[k].box;
        *b = box_new(l->a, l->shape->rank);
        dims_copy(b->dims, l->shape->dims, l->shape->rank);
        row_strides(l->shape->rank, l->shape->dims, b->dst);
        row_strides(l->shape->rank, l->shape->dims, b->src);
        b->dims[dim] = k ? by : n - by;
        b->dst0 = k ? 0 : by * b->dst[dim];
        b->src0 = k ? (n - by) * b->src[dim] : 0;
        box_compact(b);
    }
    l->step->fn = run_rotate;
    l->step->poison = poison_rotate;
    l->step->bound = bound_moved;
    l->step->data = 1;
    l->step->p = p;
    return true;
}

bool custom_call_known(const char *target)
{
    return is_copy(target) || strcmp(target, "TopK") == 0 ||
           strcmp(target, "_SPMDInternalOp_RotateRight") == 0 || lapack_known(target);
}

static bool is_boundary(const char *target)
{
    return strcmp(target, "SPMDFullToShardShape") == 0 ||
           strcmp(target, "SPMDShardToFullShape") == 0 ||
           strcmp(target, "xla.sdy.GlobalToLocalShape") == 0 ||
           strcmp(target, "xla.sdy.LocalToGlobalShape") == 0;
}

bool custom_call_changes_shape(const struct module *m, instr_id id)
{
    const struct instr *i = instr_at(m, id);
    return i->op == OP_CUSTOM_CALL && i->noperands == 1 && is_boundary(instr_target(m, i)) &&
           !shape_same_dims(m->ir, i->shape, instr_at(m, i->operands[0])->shape);
}

/* The sharding that makes one shape the shard of the other: as annotated, else as propagated. */
static sharding_id boundary_sharding(const struct lowering *l, instr_id whole,
                                     const struct shape *full, const struct shape *shard)
{
    struct shardings *t = l->m->ir->shardings;
    sharding_id tries[2] = { instr_at(l->m, whole)->sharding, l->plan->manual[whole.i] };
    int64_t local[MAX_RANK];
    for (int k = 0; k < 2; k++) {
        if (!tries[k].i || !sharding_is_tiled(t, tries[k]) || full->rank > MAX_RANK)
            continue;
        sharding_shard_dims(t, tries[k], full->rank, full->dims, local);
        if (full->rank == shard->rank && dims_equal(local, shard->dims, full->rank))
            return tries[k];
    }
    return (sharding_id){ 0 };
}

static bool lower_boundary(struct lowering *l, const char *target)
{
    const struct shape *in = operand_shape(l, 0);
    bool begins = strcmp(target, "SPMDFullToShardShape") == 0 ||
                  strcmp(target, "xla.sdy.GlobalToLocalShape") == 0;
    if (l->step->nin != 1 || l->shape->kind != SHAPE_ARRAY)
        return lower_missing(l, "a tuple at the border of a manual region");
    if (l->step->lin[0].count == l->step->lout[0].count) {
        l->alias = true;
        return true;
    }
    struct cut *c = ARENA_NEW(l->a, struct cut);
    const struct shape *full = begins ? in : l->shape, *shard = begins ? l->shape : in;
    c->sharding = boundary_sharding(l, begins ? l->i->operands[0] : l->id, full, shard);
    c->rank = full->rank;
    c->dims = full->dims;
    if (!c->sharding.i)
        return diag_error(l->d, l->m->source, l->i->at,
                          "%s: no sharding makes the one shape the shard of the other", target);
    if (!begins)
        return coll_lower_join(l, c);
    l->step->kind = STEP_CUT;
    l->step->p = c;
    return true;
}

bool lower_custom_call(struct lowering *l)
{
    const char *target = instr_target(l->m, l->i);
    if (strcmp(target, "TopK") == 0)
        return lower_topk(l);
    if (strcmp(target, "_SPMDInternalOp_RotateRight") == 0)
        return lower_rotate(l);
    if (lapack_known(target))
        return lower_lapack(l, target);
    if (!is_copy(target))
        return diag_error(l->d, l->m->source, l->i->at,
                          "cannot run custom call \"%s\": no kernel for it", target);
    if (l->plan->manual && is_boundary(target))
        return lower_boundary(l, target);
    for (uint32_t k = 0; k < l->step->nout; k++)
        if (k >= l->step->nin || l->step->lin[k].count != l->step->lout[k].count)
            return diag_error(l->d, l->m->source, l->i->at,
                              "%s changes the shape: a manual region has no meaning on one device",
                              target);
    l->alias = true;
    return true;
}
