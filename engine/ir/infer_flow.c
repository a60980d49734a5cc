/* Shape inference of control flow and of collectives. */
#include "ir/infer.h"

/* ---- calls -------------------------------------------------------------------------------------- */

/* Parameter k of the computation must be what is passed. */
static bool check_argument(const struct rule *r, comp_id c, int64_t k, shape_id given,
                           const char *role)
{
    shape_id wants = param_shape(r, c, k);
    if (shape_same(r->ir, wants, given))
        return true;
    return bad(r, "%s '%s' takes %s as parameter %" PRId64 ", but is given %s", role,
               comp_named(r, c), shown(r, wants), k, shown(r, given));
}

bool rule_call(struct rule *r)
{
    comp_id c;
    enum attr_key key = r->op == OP_FUSION || instr_attr(r->in, ATTR_CALLS) ? ATTR_CALLS : ATTR_TO_APPLY;
    const char *role = r->op == OP_FUSION ? "the fused computation" : "the called computation";
    if (!need_comp(r, key, &c) || !need_params(r, c, r->in->noperands, role))
        return false;
    for (uint32_t k = 0; k < r->in->noperands; k++)
        if (!check_argument(r, c, k, operand_id(r, k), role))
            return false;
    return give_shape(r, root_shape(r, c));
}

bool rule_while(struct rule *r)
{
    comp_id cond, body;
    if (!need_comp(r, ATTR_CONDITION, &cond) || !need_comp(r, ATTR_BODY, &body) ||
        !need_params(r, cond, 1, "the condition") || !need_params(r, body, 1, "the body") ||
        !check_argument(r, cond, 0, operand_id(r, 0), "the condition") ||
        !check_argument(r, body, 0, operand_id(r, 0), "the body"))
        return false;
    const struct shape *test = shape_get(r->ir, root_shape(r, cond));
    if (test->kind != SHAPE_ARRAY || test->rank || test->dtype != DTYPE_PRED)
        return bad(r, "the condition '%s' must return pred[], not %s", comp_named(r, cond),
                   shown(r, root_shape(r, cond)));
    if (!shape_same(r->ir, root_shape(r, body), operand_id(r, 0)))
        return bad(r, "the body '%s' returns %s, but the loop carries %s", comp_named(r, body),
                   shown(r, root_shape(r, body)), shown(r, operand_id(r, 0)));
    return give_shape(r, operand_id(r, 0));
}

/* The branches in order: branch_computations={..}, or true_computation and false_computation. */
static int64_t branches(const struct rule *r, const comp_id **out, comp_id *two)
{
    const struct attr *a = instr_attr(r->in, ATTR_BRANCH_COMPUTATIONS);
    if (a && a->type == ATTR_TYPE_COMPS) {
        *out = a->comps;
        return a->n;
    }
    *out = two;
    return need_comp(r, ATTR_TRUE_COMPUTATION, &two[0]) &&
                   need_comp(r, ATTR_FALSE_COMPUTATION, &two[1])
               ? 2
               : -1;
}

bool rule_conditional(struct rule *r)
{
    comp_id two[2];
    const comp_id *list;
    int64_t n = branches(r, &list, two);
    if (n < 0)
        return false;
    if (n == 0)
        return bad(r, "has no branches");
    const struct shape *which = operand(r, 0);
    bool pred = which->dtype == DTYPE_PRED && n == 2;
    if (which->kind != SHAPE_ARRAY || which->rank || (!pred && which->dtype != DTYPE_S32))
        return bad(r, "operand 0 chooses the branch and must be pred[] (two branches) or s32[], not %s",
                   shown(r, operand_id(r, 0)));
    if (r->in->noperands != n + 1)
        return bad(r, "has %" PRId64 " branches, but %" PRIu32 " arguments for them", n,
                   r->in->noperands - 1);
    for (int64_t k = 0; k < n; k++) {
        if (!list[k].i || list[k].i > module_ncomps(r->m))
            return bad(r, "branch %" PRId64 " is not defined", k);
        if (!need_params(r, list[k], 1, "the branch") ||
            !check_argument(r, list[k], 0, operand_id(r, k + 1), "the branch"))
            return false;
        if (!shape_same(r->ir, root_shape(r, list[k]), root_shape(r, list[0])))
            return bad(r, "its branches must return the same, but '%s' returns %s and '%s' %s",
                       comp_named(r, list[0]), shown(r, root_shape(r, list[0])),
                       comp_named(r, list[k]), shown(r, root_shape(r, list[k])));
    }
    return give_shape(r, root_shape(r, list[0]));
}

/* ---- collectives -------------------------------------------------------------------------------- */

/* Groups name devices, partitions or replicas, depending on channel_id and use_global_device_ids. */
int64_t group_size(const struct module *m, const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_REPLICA_GROUPS);
    bool channel = instr_attr(in, ATTR_CHANNEL_ID) != NULL;
    bool global = instr_bool(in, ATTR_USE_GLOBAL_DEVICE_IDS, false);
    const struct replica_groups *g = a && a->type == ATTR_TYPE_GROUPS ? a->groups : NULL;
    int64_t all;
    if (!g || g->none || (!g->uniform && g->nlists == 0)) {
        if (!channel)
            return m->replica_count;
        return mul_ok(m->num_partitions, max_i64(m->replica_count, 1), &all) ? all : 0;
    }
    if (channel && !global && in->op != OP_ALL_TO_ALL)
        return 0; /* replicas times all partitions: nothing here depends on it */
    if (g->uniform)
        return g->tiles.naxes ? g->tiles.dims[g->tiles.naxes - 1] : 0;
    for (int64_t k = 1; k < g->nlists; k++)
        if (g->sizes[k] != g->sizes[0])
            return 0;
    return g->sizes[0];
}

/* dimensions={d} of all-gather and reduce-scatter. */
static bool need_collective_dim(const struct rule *r, int64_t *dim)
{
    int n;
    const int64_t *v = instr_ints(r->in, ATTR_DIMENSIONS, &n);
    if (n != 1)
        return bad(r, n ? "dimensions=%s must name one dimension" : "dimensions= is missing%s",
                   n ? shown_dims(r, n, v) : "");
    *dim = v[0];
    for (uint32_t k = 0; k < r->in->noperands; k++) {
        if (!need_array(r, k))
            return false;
        if (*dim < 0 || *dim >= operand(r, k)->rank)
            return bad(r, "dimensions=%s, but operand %" PRIu32 " has rank %d", shown_dims(r, n, v), k,
                       operand(r, k)->rank);
    }
    return true;
}

/* What the text says of result k. */
static const struct shape *declared_result(const struct rule *r, int64_t k)
{
    const struct shape *s = r->declared;
    if (r->in->noperands == 1)
        return s;
    return s->kind == SHAPE_TUPLE && k < s->nelems ? shape_get(r->ir, s->elems[k]) : NULL;
}

/* Sizes along the gathered or scattered dimension. Where the size of the groups is not known, the
 * declared size counts when it is a multiple (a part). */
static bool resize(const struct rule *r, int64_t k, int64_t dim, bool grow, int64_t *size)
{
    int64_t group = group_size(r->m, r->in);
    if (group == 0) {
        const struct shape *s = declared_result(r, k);
        if (!s || s->kind != SHAPE_ARRAY || s->rank <= dim)
            return true;
        int64_t big = grow ? s->dims[dim] : *size, small = grow ? *size : s->dims[dim];
        if (small ? big % small : big)
            return bad(r, "dimension %" PRId64 " cannot go from %" PRId64 " to %" PRId64, dim, *size,
                       s->dims[dim]);
        *size = s->dims[dim];
        return true;
    }
    if (grow)
        return mul_ok(*size, group, size) ||
               bad(r, "the size of the result does not fit in 64 bits");
    if (*size % group)
        return bad(r, "dimension %" PRId64 " of operand %" PRId64 " has size %" PRId64
                   ", which the %" PRId64 " members of a group cannot share", dim, k, *size, group);
    *size /= group;
    return true;
}

static bool gather_or_scatter(struct rule *r, bool grow)
{
    int64_t dim;
    if (!need_collective_dim(r, &dim))
        return false;
    shape_id *out = ARENA_ARRAY(r->tmp, shape_id, r->in->noperands);
    for (uint32_t k = 0; k < r->in->noperands; k++) {
        const struct shape *s = operand(r, k);
        struct dims d = { 0 };
        for (int i = 0; i < s->rank; i++)
            dims_add(&d, s->dims[i]);
        if (!resize(r, k, dim, grow, &d.v[dim]) || !give(r, s->dtype, &d))
            return false;
        out[k] = r->out;
    }
    return give_all(r, r->in->noperands, out);
}

static bool check_collective_reducer(const struct rule *r)
{
    comp_id c;
    return need_comp(r, ATTR_TO_APPLY, &c) && need_params(r, c, 2, "the reducer");
}

bool rule_all_gather(struct rule *r)
{
    return gather_or_scatter(r, true);
}

bool rule_reduce_scatter(struct rule *r)
{
    return check_collective_reducer(r) && gather_or_scatter(r, false);
}

static bool give_operands(struct rule *r, bool tuple)
{
    shape_id *out = ARENA_ARRAY(r->tmp, shape_id, r->in->noperands);
    for (uint32_t k = 0; k < r->in->noperands; k++)
        out[k] = operand(r, k)->strip;
    if (tuple)
        return give_shape(r, shape_tuple(r->ir, r->in->noperands, out));
    return give_all(r, r->in->noperands, out);
}

bool rule_all_reduce(struct rule *r)
{
    return all_arrays(r) && check_collective_reducer(r) && give_operands(r, false);
}

/* With dimensions={d} one array whose parts change places, else one operand for each member. */
bool rule_all_to_all(struct rule *r)
{
    int n;
    const int64_t *v = instr_ints(r->in, ATTR_DIMENSIONS, &n);
    int64_t group = group_size(r->m, r->in);
    if (!all_arrays(r))
        return false;
    if (n == 0) {
        if (group && group != r->in->noperands)
            return bad(r, "has %" PRIu32 " operands, but its groups have %" PRId64 " members",
                       r->in->noperands, group);
        return same_operands(r, 0, r->in->noperands, true) &&
               give_operands(r, r->declared->kind == SHAPE_TUPLE);
    }
    int64_t dim;
    if (r->in->noperands != 1)
        return bad(r, "with dimensions=%s takes one operand, but has %" PRIu32, shown_dims(r, n, v),
                   r->in->noperands);
    if (!need_collective_dim(r, &dim))
        return false;
    if (group && operand(r, 0)->dims[dim] % group)
        return bad(r, "dimension %" PRId64 " has size %" PRId64 ", which the %" PRId64
                   " members of a group cannot share", dim, operand(r, 0)->dims[dim], group);
    return give_operands(r, false);
}

/* Several operands: older text writes into a buffer, newer moves all; the text decides. */
bool rule_collective_permute(struct rule *r)
{
    if (!need_attr(r, ATTR_SOURCE_TARGET_PAIRS))
        return false;
    return r->in->noperands != 1 || give_operands(r, false);
}

/* The second element of what was started: (operands, results, ..). */
bool rule_done(struct rule *r)
{
    const struct shape *s = operand(r, 0);
    if (s->kind == SHAPE_TUPLE && s->nelems >= 2)
        return give_shape(r, s->elems[1]);
    return bad(r, "the operand must be what was started, a tuple of operands and results, not %s", shown(r, operand_id(r, 0)));
}

/* ---- fixed results ------------------------------------------------------------------------------ */

bool rule_token(struct rule *r)
{
    return give_shape(r, shape_token(r->ir));
}

bool rule_u32(struct rule *r)
{
    struct dims scalar = { 0 };
    return give(r, DTYPE_U32, &scalar);
}
