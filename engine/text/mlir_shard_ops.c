/* Operations of Shardy's dialect in GSPMD's terms: a constraint is a Sharding call (open dimensions are its
 * unspecified_dims), a manual computation stands between SPMDFullToShardShape and SPMDShardToFullShape
 * with its axes manual. */
#include "text/mlir_sdy.h"

/* A custom call on one value, put in front of `before` (NULL: at the end of block). */
static struct mop *call_op(struct mlir *r, struct mregion *block, struct mop *before, const struct mop *from,
                           const char *target, uint32_t operand, shape_id shape, sharding_id s,
                           const char *config, struct mattr *said)
{
    struct mop *op = mlir_op_new(r, M_RAW);
    op->hlo = OP_CUSTOM_CALL;
    op->name = "sdy";
    op->nname = 3;
    op->at = from->at;
    op->nat = from->nat;
    op->loc = from->loc;
    op->nloc = from->nloc;
    op->operands = mlir_op_alloc(r, 1, sizeof *op->operands);
    op->operands[0] = operand;
    op->noperands = 1;
    struct mraw *made = mlir_op_alloc(r, 1, sizeof *made);
    made->sharding = s;
    op->attrs = said;
    op->nattrs = said ? 1 : 0;
    struct attr *raw = ARENA_ARRAY(&r->m->arena, struct attr, 2);
    raw[0] = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, target);
    made->nattrs = 1;
    if (config) {
        raw[1] = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, config);
        raw[1].key = ATTR_BACKEND_CONFIG;
        raw[1].type = ATTR_TYPE_RAW;
        made->nattrs = 2;
    }
    made->attrs = raw;
    op->raw = made;
    op->nresults = 1;
    op->result = mlir_value_new(r, op, block, shape);
    op->block = block;
    op->next = before;
    op->prev = before ? before->prev : block->last;
    if (op->prev)
        op->prev->next = op;
    else
        block->first = op;
    if (before)
        before->prev = op;
    else
        block->last = op;
    return op;
}

static const char *unspecified(struct mlir *r, uint64_t open, int rank)
{
    if (!open || rank == 0)
        return NULL;
    struct str s = STR_IN(&r->m->arena);
    str_adds(&s, "\"unspecified_dims=[");
    bool first = true;
    for (int d = 0; d < rank && d < 64; d++)
        if (open >> d & 1) {
            str_addf(&s, first ? "%d" : ",%d", d);
            first = false;
        }
    str_adds(&s, "]\"");
    return str_text(&s);
}

/* v constrained; v itself where the sharding says nothing. */
static bool constrain(struct mlir *r, struct mop *before, const char *p, const char *end, uint32_t v,
                      uint32_t *out)
{
    const struct shape *s = mshape(r, v);
    struct sdy one;
    *out = v;
    if (s->kind != SHAPE_ARRAY)
        return true;
    if (!msdy_parse(r, p, end, s->rank, &one))
        return false;
    if (one.all_open || (s->rank == 0 && !one.maximal))
        return true;
    *out = call_op(r, before->block, before, before, "Sharding", v, mval(r, v)->shape, msdy_sharding(r, &one),
                   unspecified(r, one.open, s->rank), msdy_remark(r, 1, &one))->result;
    return true;
}

/* The explicit collectives of Shardy change the sharding of their operand, not its value. */
bool mlir_constraint(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr2(op, "<", "sharding");
    if (!a)
        a = mattr(op, "out_sharding");
    if (op->noperands != 1 || op->nresults != 1 || !a || !a->val)
        return MFAIL(r, op->at, op->nat, "expected one operand and a sharding");
    uint32_t v;
    if (!op->block) {
        mreplace(r, op, 0, op->operands[0]);
        return true;
    }
    if (!constrain(r, op, a->val, a->val + a->vlen, op->operands[0], &v))
        return false;
    const struct mval *x = mval(r, op->result);
    if (v != op->operands[0]) {
        mval(r, v)->name = x->name;
        mval(r, v)->nname = x->nname;
    }
    mreplace(r, op, 0, v);
    return true;
}

static void unlink_op(struct mlir *r, struct mop *op)
{
    mlir_op_done(r, op);
    struct mregion *g = op->block;
    if (op->prev)
        op->prev->next = op->next;
    else
        g->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        g->last = op->prev;
}

/* The operations of region g take the place of op, which owns it. */
static void inline_region(struct mregion *g, struct mop *op)
{
    struct mregion *block = op->block;
    for (struct mop *o = g->first; o; o = o->next)
        o->block = block;
    g->into = block;
    if (!g->first)
        return;
    g->first->prev = op->prev;
    if (op->prev)
        op->prev->next = g->first;
    else
        block->first = g->first;
    g->last->next = op;
    op->prev = g->last;
}

static bool manual_axis(const struct mop *op, const char *name)
{
    const struct mattr *m = mattr(op, "manual_axes");
    const char *p = m && m->val ? m->val : NULL, *end = p ? p + m->vlen : NULL;
    while (p && (p = memchr(p, '"', (size_t)(end - p)))) {
        const char *q = mbalanced(p, end);
        if (!q)
            return false;
        if (mtext(p + 1, (size_t)(q - p - 2), name))
            return true;
        p = q;
    }
    return false;
}

/* The parts that manual axes make of dimension d. */
static int64_t manual_parts(const struct mop *op, const struct sdy *one, int d)
{
    int64_t parts = 1;
    for (int i = 0; i < one->axes.n; i++)
        if (one->axes.dim[i] == d && manual_axis(op, one->mesh->axes[one->axes.refs[i].axis].name) &&
            one->axes.refs[i].size > 0 && parts <= INT32_MAX)
            parts *= one->axes.refs[i].size;
    return parts;
}

/* Inside, a value has the size of one part along the manual axes. */
static bool local_fits(struct mlir *r, const struct mop *op, const struct sdy *one, shape_id full, shape_id local)
{
    const struct shape *f = shape_get(r->c, full), *l = shape_get(r->c, local);
    bool ok = f->rank == l->rank && f->dtype == l->dtype;
    for (int d = 0; ok && d < f->rank; d++)
        ok = ceil_div(f->dims[d], manual_parts(op, one, d)) == l->dims[d];
    return ok || MFAIL(r, op->at, op->nat, "a %s split over the manual axes is no %s", mtype_text(r, full),
                       mtype_text(r, local));
}

/* What a value of a manual computation is outside (full) and inside (local). */
static bool border(struct mlir *r, const struct mop *op, const struct mattr *list, int64_t k, shape_id whole,
                   shape_id part, sharding_id *full, sharding_id *local, const char **config, struct mattr **said)
{
    const char *stop;
    const char *p = list && list->val ? msdy_element(list->val, list->val + list->vlen, k, &stop) : NULL;
    struct sdy one;
    if (!p)
        return MFAIL(r, op->at, op->nat, "this manual computation has too few shardings");
    int rank = shape_get(r->c, whole)->rank;
    if (!msdy_parse(r, p, stop, rank, &one) || !local_fits(r, op, &one, whole, part))
        return false;
    *full = msdy_sharding(r, &one);
    *said = msdy_remark(r, 1, &one);
    struct layout in = { .rank = rank };
    bool free_axes = false;
    for (int i = 0; i < one.axes.n; i++)
        if (!manual_axis(op, one.mesh->axes[one.axes.refs[i].axis].name)) {
            in.refs[in.n] = one.axes.refs[i];
            in.dim[in.n++] = one.axes.dim[i];
        }
    for (int i = 0; i < one.mesh->naxes; i++) {
        if (!manual_axis(op, one.mesh->axes[i].name)) {
            free_axes |= one.mesh->axes[i].size > 1;
        } else if (in.n < REFS_MAX) {
            in.refs[in.n] = (struct axis_ref){ i, 1, one.mesh->axes[i].size };
            in.dim[in.n++] = rank;
        }
    }
    msdy_add_manual(r, &one, &in);
    *local = msdy_make(r, &one, &in);
    *config = free_axes ? unspecified(r, one.open, rank) : NULL;
    return true;
}

/* Value v goes across border k of a manual computation and is of this shape behind it: put in front of
 * `before` in block. */
static bool cross(struct mlir *r, struct mop *op, bool enters, uint32_t k, struct mregion *block, struct mop *before,
                  uint32_t v, shape_id shape, uint32_t *out)
{
    sharding_id full, local;
    const char *config;
    struct mattr *said;
    shape_id is = mval(r, v)->shape;
    *out = v;
    if (shape_get(r->c, shape)->kind != SHAPE_ARRAY)
        return true;
    if (!border(r, op, mattr(op, enters ? "in_shardings" : "out_shardings"), k, enters ? is : shape, enters ? shape : is,
                &full, &local, &config, &said))
        return false;
    v = call_op(r, block, before, op, "Sharding", v, is, enters ? full : local, config, enters ? said : NULL)->result;
    *out = call_op(r, block, before, op, enters ? "SPMDFullToShardShape" : "SPMDShardToFullShape", v, shape,
                   enters ? local : full, config, enters ? NULL : said)->result;
    return true;
}

static bool manual_borders(struct mlir *r, struct mop *op, struct mregion *g, const struct mop *ret)
{
    uint32_t v;
    for (uint32_t k = 0; k < op->noperands; k++) { /* in front of the body, which is inlined afterwards */
        if (!cross(r, op, true, k, g, g->first, op->operands[k], mval(r, g->arg0 + k)->shape, &v))
            return false;
        mset_alias(r, g->arg0 + k, v);
    }
    inline_region(g, op);
    for (uint32_t k = 0; k < op->nresults; k++) {
        if (!cross(r, op, false, k, op->block, op, ret->operands[k], mval(r, op->result + k)->shape, &v))
            return false;
        mreplace(r, op, k, v);
    }
    return true;
}

/* Named computations constrain what goes in and comes out. */
static bool constrain_nth(struct mlir *r, struct mop *op, const char *key, uint32_t k, uint32_t v, uint32_t *out)
{
    const struct mattr *a = op->kind == M_NAMED ? mattr(op, key) : NULL;
    const char *stop;
    const char *p = a && a->val ? msdy_element(a->val, a->val + a->vlen, k, &stop) : NULL;
    *out = v;
    return !p || constrain(r, op, p, stop, v, out);
}

static bool plain_borders(struct mlir *r, struct mop *op, struct mregion *g, const struct mop *ret)
{
    uint32_t v;
    for (uint32_t k = 0; k < op->noperands; k++) {
        if (!constrain_nth(r, op, "in_shardings", k, op->operands[k], &v))
            return false;
        mset_alias(r, g->arg0 + k, v);
    }
    inline_region(g, op);
    for (uint32_t k = 0; k < op->nresults; k++) {
        if (!constrain_nth(r, op, "out_shardings", k, ret->operands[k], &v))
            return false;
        mreplace(r, op, k, v);
    }
    return true;
}

/* As many shardings as values, where there are any. */
static bool shardings_count(struct mlir *r, struct mop *op, const char *key, uint32_t n)
{
    const struct mattr *a = mattr(op, key);
    const char *stop;
    int64_t have = 0;
    while (a && a->val && msdy_element(a->val, a->val + a->vlen, have, &stop))
        have++;
    return have == 0 || have == n ||
           MFAIL(r, op->at, op->nat, "%s: %" PRId64 " shardings for %u value%s", key, have, n, n == 1 ? "" : "s");
}

/* manual_axes={"x"}: each an axis of some mesh. */
static bool manual_axes_known(struct mlir *r, const struct mattr *m)
{
    const char *p = m->val, *end = p + m->vlen;
    while (p && (p = memchr(p, '"', (size_t)(end - p)))) {
        const char *q = mbalanced(p, end);
        if (!q)
            return true;
        size_t n = (size_t)(q - p - 2);
        bool known = false;
        for (int i = 0; i < r->nmeshes; i++)
            known |= mesh_find_axis(&r->meshes[i], p + 1, n) >= 0;
        if (!known)
            return MFAIL(r, p + 1, n, "manual_axes: no mesh has the axis '%.*s'", (int)n, p + 1);
        p = q;
    }
    return true;
}

bool mlir_sdy_region(struct mlir *r, struct mop *op)
{
    struct mregion *g = op->nregions == 1 ? op->regions[0] : NULL;
    struct mop *ret = g ? g->last : NULL;
    if (!g || !ret || ret->kind != M_RETURN || !op->block)
        return MFAIL(r, op->at, op->nat, "expected one region that ends with sdy.return");
    if (g->nargs != op->noperands || ret->noperands != op->nresults)
        return MFAIL(r, op->at, op->nat, "the region has %u arguments and returns %u values, the operation has "
                     "%u operands and %u results", g->nargs, ret->noperands, op->noperands, op->nresults);
    unlink_op(r, ret);
    const struct mattr *axes = mattr(op, "manual_axes");
    bool manual = op->kind == M_MANUAL && axes && axes->val && memchr(axes->val, '"', axes->vlen);
    if (op->kind == M_MANUAL && (!shardings_count(r, op, "in_shardings", op->noperands) ||
                                 !shardings_count(r, op, "out_shardings", op->nresults) ||
                                 (manual && !manual_axes_known(r, axes))))
        return false;
    bool ok = manual ? manual_borders(r, op, g, ret) : plain_borders(r, op, g, ret);
    unlink_op(r, op);
    return ok;
}

/* Members of a group get equal shardings: shard_as, as jax.experimental.shard_alike says it. */
bool mlir_group(struct mlir *r, struct mop *op)
{
    const struct mattr *a = mattr(op, "group_id");
    int64_t id = 0;
    if (op->noperands != 1 || !a || !mints(r, a, 1) || r->ints.n != 1)
        return MFAIL(r, op->at, op->nat, "expected one operand and group_id=N");
    id = r->ints.v[0];
    uint32_t v = op->operands[0];
    if (!op->block || mshape(r, v)->kind != SHAPE_ARRAY)
        return true;
    const char *text = arena_printf(&r->m->arena, "{unknown shard_as %" PRId64 "}", id);
    struct sharding_note *note = ARENA_NEW(&r->m->arena, struct sharding_note);
    sharding_id s;
    size_t used;
    if (!sharding_parse(r->c->shardings, &r->m->arena, r->src, (uint32_t)(op->at - r->base), text,
                        strlen(text), &used, &s, note, r->d)) {
        r->nerrors++;
        return false;
    }
    struct mop *c = call_op(r, op->block, op, op, "Sharding", v, mval(r, v)->shape, s, NULL, NULL);
    c->raw->note = note;
    c->keep = true;
    mlir_rename(r, v, c->result);
    unlink_op(r, op);
    r->saw_sdy = true;
    return true;
}
