/* Gather and scatter (P-112..P-118, P-129, P-130). Both are read the same way: an operand, an indices
 * array, and the side of the windows (a gather's result, a scatter's updates). */
#include <string.h>

#include "propagate/internal.h"

struct pairs {
    int n;
    int a[RANK_MAX], b[RANK_MAX];
};

/* Triples of P-114. */
struct parallel {
    int n;
    int operand[RANK_MAX], indices[RANK_MAX], window[RANK_MAX];
};

struct facts_of_index {
    bool valid;
    bool scatter;
    int noperands;          /* scatter: n operands, indices, n updates; gather 1 */
    int operand_rank, indices_rank, window_rank;
    struct pairs connected; /* indices dim, window-side dim */
    struct pairs passing;   /* operand dim, window-side dim */
    struct parallel explicit_, implicit;
};

/* ---- iota along a dimension, P-115 ---------------------------------------------------------------------- */

static int constant_iota_dim(const struct pass *p, instr_id x)
{
    const struct shape *s = shape_of(p, x);
    const struct literal *l = at(p, x)->literal;
    if (s->kind != SHAPE_ARRAY || s->dtype != DTYPE_S32 || !l || l->elided || !l->data)
        return -1;
    const int32_t *v = l->data;
    for (int d = 0; d < s->rank; d++) {
        if (s->dims[d] <= 1)
            continue;
        int64_t inner = 1;
        for (int e = d + 1; e < s->rank; e++)
            inner *= s->dims[e];
        bool same = true;
        for (int64_t k = 0; k < s->count && same; k++)
            same = v[k] == k / inner % s->dims[d];
        if (same)
            return d;
    }
    return -1;
}

static bool only_caller(const struct pass *p, comp_id c)
{
    int callers = 0;
    instr_id x = p->caller[c.i];
    if (!x.i)
        return false;
    for (uint32_t k = 1; k <= p->n && callers < 2; k++) {
        instr_id i = { k };
        if (fact_of(p, i)->gone || !instr_called(p->m, i, NULL, 0))
            continue;
        int n = instr_called(p->m, i, NULL, 0);
        comp_id *list = ARENA_ARRAY(p->tmp, comp_id, n);
        instr_called(p->m, i, list, n);
        for (int b = 0; b < n; b++)
            callers += list[b].i == c.i;
    }
    return callers == 1;
}

/* What a get-tuple-element of a called computation's parameter stands for in its caller; none. */
static instr_id through_caller(const struct pass *p, instr_id gte)
{
    instr_id parameter = at(p, gte)->operands[0];
    comp_id c = at(p, gte)->comp;
    int64_t k = instr_int(at(p, gte), ATTR_INDEX, 0);
    if (at(p, parameter)->op != OP_PARAMETER || c.i == p->m->entry.i || !only_caller(p, c))
        return none_instr();
    instr_id x = p->caller[c.i], tuple;
    if (at(p, x)->op == OP_WHILE) {
        const struct instr *root = at(p, comp_at(p->m, c)->root);
        if (root->op != OP_TUPLE || k >= root->noperands || root->operands[k].i != gte.i)
            return none_instr();
        tuple = at(p, x)->operands[0];
    } else if (at(p, x)->op == OP_CONDITIONAL) {
        tuple = caller_operand(p, parameter);
    } else {
        return none_instr();
    }
    if (!tuple.i || at(p, tuple)->op != OP_TUPLE || k >= at(p, tuple)->noperands)
        return none_instr();
    return at(p, tuple)->operands[k];
}

/* The dimension along which x counts 0, 1, 2, ..; -1. depth bounds chains that a text makes up. */
static int iota_dim(const struct pass *p, instr_id x, int depth)
{
    const struct instr *ins = at(p, x);
    if (ins->op == OP_IOTA)
        return (int)instr_int(ins, ATTR_IOTA_DIMENSION, 0);
    const struct shape *s = shape_of(p, x);
    if (s->kind != SHAPE_ARRAY || s->dtype != DTYPE_S32 || depth > 100)
        return -1;
    if (ins->op == OP_CONSTANT)
        return constant_iota_dim(p, x);
    if (ins->op == OP_BROADCAST) {
        int n, d = iota_dim(p, ins->operands[0], depth + 1);
        const int64_t *map = instr_ints(ins, ATTR_DIMENSIONS, &n);
        return d >= 0 && d < n ? (int)map[d] : -1;
    }
    if (ins->op != OP_GET_TUPLE_ELEMENT)
        return -1;
    instr_id y = through_caller(p, x);
    return y.i ? iota_dim(p, y, depth + 1) : -1;
}

/* ---- dimension numbers ------------------------------------------------------------------------------------ */

struct numbers {
    int nwindow, ndropped, nmap, noperand_batch, nindices_batch, ivd;
    const int64_t *window, *dropped, *map, *operand_batch, *indices_batch;
    const int64_t *slice; /* gather; scatter: made from the updates */
    int nslice;
};

static bool listed(const int64_t *v, int n, int64_t x)
{
    for (int k = 0; k < n; k++)
        if (v[k] == x)
            return true;
    return false;
}

static void numbers_read(const struct instr *ins, bool scatter, struct numbers *q)
{
    q->window = instr_ints(ins, scatter ? ATTR_UPDATE_WINDOW_DIMS : ATTR_OFFSET_DIMS, &q->nwindow);
    q->dropped = instr_ints(ins, scatter ? ATTR_INSERTED_WINDOW_DIMS : ATTR_COLLAPSED_SLICE_DIMS,
                            &q->ndropped);
    q->map = instr_ints(ins, scatter ? ATTR_SCATTER_DIMS_TO_OPERAND_DIMS : ATTR_START_INDEX_MAP,
                        &q->nmap);
    q->operand_batch = instr_ints(ins, scatter ? ATTR_INPUT_BATCHING_DIMS : ATTR_OPERAND_BATCHING_DIMS,
                                  &q->noperand_batch);
    q->indices_batch = instr_ints(
        ins, scatter ? ATTR_SCATTER_INDICES_BATCHING_DIMS : ATTR_START_INDICES_BATCHING_DIMS,
        &q->nindices_batch);
    q->ivd = (int)instr_int(ins, ATTR_INDEX_VECTOR_DIM, 0);
    q->slice = instr_ints(ins, ATTR_SLICE_SIZES, &q->nslice);
}

static void connect(struct facts_of_index *f, const struct numbers *q)
{
    int d = 0;
    for (int w = 0; w < f->window_rank; w++) {
        if (listed(q->window, q->nwindow, w))
            continue;
        if (d == q->ivd)
            d++;
        if (d >= f->indices_rank)
            return;
        f->connected.a[f->connected.n] = d++;
        f->connected.b[f->connected.n++] = w;
    }
}

static int64_t slice_size(const struct numbers *q, const struct shape *window, bool scatter, int o,
                          int nth)
{
    if (!scatter)
        return o < q->nslice ? q->slice[o] : 1;
    return nth >= 0 && nth < q->nwindow ? window->dims[q->window[nth]] : 1;
}

static bool is_kept(const struct numbers *q, int o)
{
    return !listed(q->dropped, q->ndropped, o) && !listed(q->operand_batch, q->noperand_batch, o);
}

static void find_passing(struct facts_of_index *f, const struct numbers *q, const struct shape *operand,
                         const struct shape *window)
{
    int nth = 0;
    for (int o = 0; o < operand->rank; o++) {
        if (!is_kept(q, o))
            continue;
        if (nth < q->nwindow && slice_size(q, window, f->scatter, o, nth) == operand->dims[o]) {
            f->passing.a[f->passing.n] = o;
            f->passing.b[f->passing.n++] = (int)q->window[nth];
        }
        nth++;
    }
}

/* The window-side dimension of each triple: indices dims and window-side dims without the index
 * vector and the windows run in step. */
static void match_window(const struct facts_of_index *f, struct parallel *t)
{
    for (int k = 0; k < t->n; k++) {
        t->window[k] = -1;
        for (int c = 0; c < f->connected.n; c++)
            if (f->connected.a[c] == t->indices[k])
                t->window[k] = f->connected.b[c];
        if (t->window[k] < 0) {
            t->n = 0;
            return;
        }
    }
}

static void find_explicit(struct facts_of_index *f, const struct numbers *q)
{
    struct parallel *t = &f->explicit_;
    for (int k = 0; k < q->noperand_batch && k < q->nindices_batch && k < RANK_MAX; k++) {
        t->operand[k] = (int)q->operand_batch[k];
        t->indices[k] = (int)q->indices_batch[k];
        t->n = k + 1;
    }
    match_window(f, t);
}

/* p_c of P-114 for every component of the index vector; -1: no iota. */
static void find_iotas(const struct pass *p, instr_id indices, const struct numbers *q, int *along)
{
    instr_id x = indices;
    for (int c = 0; c < q->nmap && c < RANK_MAX; c++)
        along[c] = -1;
    while (at(p, x)->op == OP_COPY)
        x = at(p, x)->operands[0];
    int n = 0;
    const struct instr *ins = at(p, x);
    const int64_t *dim = instr_ints(ins, ATTR_DIMENSIONS, &n);
    if (ins->op != OP_CONCATENATE || n != 1 || dim[0] != q->ivd) {
        int d = iota_dim(p, ins->op == OP_CONCATENATE ? x : indices, 0);
        for (int c = 0; d >= 0 && d != q->ivd && c < q->nmap && c < RANK_MAX; c++)
            along[c] = d;
        return;
    }
    int64_t c = 0;
    for (uint32_t k = 0; k < ins->noperands; k++) {
        const struct shape *s = shape_of(p, ins->operands[k]);
        int64_t covers = s->rank > q->ivd ? s->dims[q->ivd] : 1;
        int d = iota_dim(p, ins->operands[k], 0);
        for (int64_t j = 0; j < covers && c < q->nmap && c < RANK_MAX; j++, c++)
            along[c] = d == q->ivd ? -1 : d;
    }
}

static void find_implicit(const struct pass *p, struct facts_of_index *f, const struct numbers *q,
                          instr_id indices, const struct shape *operand, const struct shape *window)
{
    struct parallel *t = &f->implicit;
    int along[RANK_MAX];
    const struct shape *s = shape_of(p, indices);
    find_iotas(p, indices, q, along);
    for (int c = 0; c < q->nmap && c < RANK_MAX; c++) {
        int o = (int)q->map[c], d = along[c], nth = 0;
        if (d < 0)
            continue;
        for (int k = 0; k < t->n; k++)
            if (t->indices[k] == d) {
                t->n = 0;
                return;
            }
        for (int k = 0; k < o; k++)
            nth += is_kept(q, k);
        int64_t size = slice_size(q, window, f->scatter, o, is_kept(q, o) ? nth : -1);
        if (size != 1 || listed(q->indices_batch, q->nindices_batch, d))
            continue;
        if (operand->dims[o] != s->dims[d]) {
            t->n = 0;
            return;
        }
        t->operand[t->n] = o;
        t->indices[t->n++] = d;
    }
    match_window(f, t);
}

static const struct facts_of_index *facts_of_index(struct pass *p, instr_id i)
{
    if (p->index_facts[i.i])
        return p->index_facts[i.i];
    struct facts_of_index *f = ARENA_NEW(p->arena, struct facts_of_index);
    p->index_facts[i.i] = f;
    const struct instr *ins = at(p, i);
    f->scatter = ins->op == OP_SCATTER;
    f->noperands = f->scatter ? (int)(ins->noperands - 1) / 2 : 1;
    instr_id indices = ins->operands[f->noperands];
    instr_id side = f->scatter ? ins->operands[f->noperands + 1] : i;
    const struct shape *operand = shape_of(p, ins->operands[0]), *window = shape_of(p, side);
    f->operand_rank = operand->rank;
    f->indices_rank = shape_of(p, indices)->rank;
    f->window_rank = window->rank;
    f->valid = f->operand_rank <= RANK_MAX && f->indices_rank < RANK_MAX && f->window_rank <= RANK_MAX;
    if (!f->valid)
        return f;
    struct numbers q;
    numbers_read(ins, f->scatter, &q);
    connect(f, &q);
    find_passing(f, &q, operand, window);
    find_explicit(f, &q);
    find_implicit(p, f, &q, indices, operand, window);
    return f;
}

/* ---- rules ------------------------------------------------------------------------------------------------- */

static bool has_rule(const struct pass *p, instr_id x)
{
    return is_spatial(p, x) && sharding_get(p->t, seen(p, x))->kind != SHARDING_TUPLE;
}

static bool along(struct pass *p, instr_id i, instr_id x, int n, const int *from, const int *to, int rank)
{
    if (!has_rule(p, x))
        return false;
    return improve(p, i, sharding_along_dims(p->t, seen(p, x), n, from, to, rank), x, false);
}

bool forward_gather(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    const struct facts_of_index *f = facts_of_index(p, i);
    instr_id operand = ins->operands[0], indices = ins->operands[1];
    bool yes = false;
    if (!f->valid)
        return false;
    const struct parallel *t = &f->explicit_;
    if (t->n) {
        yes |= along(p, i, operand, t->n, t->operand, t->window, f->window_rank);
        yes |= along(p, i, indices, t->n, t->indices, t->window, f->window_rank);
    }
    yes |= along(p, i, indices, f->connected.n, f->connected.a, f->connected.b, f->window_rank);
    if (!p->o.spmd)
        return yes;
    t = &f->implicit;
    if (t->n) {
        yes |= along(p, i, operand, t->n, t->operand, t->window, f->window_rank);
        yes |= along(p, i, indices, t->n, t->indices, t->window, f->window_rank);
    }
    if (!has_rule(p, operand))
        return yes;
    sharding_id s = sharding_replicate_dims(p->t, seen(p, operand), t->n, t->operand);
    if (sharding_is_max(p->t, s))
        return yes;
    s = sharding_along_dims(p->t, s, f->passing.n, f->passing.a, f->passing.b, f->window_rank);
    if (!sharding_is_max(p->t, s))
        yes |= improve(p, i, s, operand, false);
    return yes;
}

static bool along_sub(struct pass *p, instr_id i, int k, instr_id x, int n, const int *from,
                      const int *to, int rank)
{
    if (!has_rule(p, x))
        return false;
    return improve_sub(p, i, sharding_along_dims(p->t, seen(p, x), n, from, to, rank), k, x, false);
}

/* P-118. */
static bool scatter_parallel(struct pass *p, instr_id i, const struct facts_of_index *f,
                             const struct parallel *t)
{
    const struct instr *ins = at(p, i);
    int n = f->noperands, rank = f->operand_rank;
    bool yes = false;
    for (int k = 0; k < n; k++)
        yes |= along_sub(p, i, k, ins->operands[k], t->n, t->operand, t->operand, rank);
    for (int k = 0; k < n; k++)
        yes |= along_sub(p, i, k, ins->operands[n], t->n, t->indices, t->operand, rank);
    for (int k = 0; k < n; k++)
        yes |= along_sub(p, i, k, ins->operands[n + 1 + k], t->n, t->window, t->operand, rank);
    return yes;
}

bool forward_scatter(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    const struct facts_of_index *f = facts_of_index(p, i);
    int n = f->noperands;
    bool yes = false, any = false;
    if (!f->valid || (int)ins->noperands != 2 * n + 1)
        return false;
    if (f->explicit_.n)
        yes |= scatter_parallel(p, i, f, &f->explicit_);
    if (!p->o.spmd) {
        for (int k = 0; k < n; k++)
            yes |= improve_sub(p, i, sharding_replicated(p->t), k, none_instr(), false);
        return yes;
    }
    for (int k = 0; k < n; k++)
        if (has_rule(p, ins->operands[k]))
            yes |= improve_sub(p, i, seen(p, ins->operands[k]), k, ins->operands[k], false);
    for (int k = n; k < 2 * n + 1; k++)
        any = any || is_spatial(p, ins->operands[k]);
    if (!any)
        return yes;
    if (f->implicit.n)
        yes |= scatter_parallel(p, i, f, &f->implicit);
    for (int k = 0; k < n; k++) {
        instr_id u = ins->operands[n + 1 + k];
        if (!has_rule(p, u))
            continue;
        sharding_id s = seen(p, u);
        if (!sharding_is_max(p->t, s)) {
            s = sharding_along_dims(p->t, s, f->passing.n, f->passing.b, f->passing.a, f->operand_rank);
            if (sharding_is_max(p->t, s))
                continue;
        }
        yes |= improve_sub(p, i, s, k, u, false);
    }
    return yes;
}

/* P-129's combination of what parallel and pass-through dimensions say. */
static sharding_id combine(struct pass *p, sharding_id par, sharding_id pas)
{
    if (!par.i || !pas.i)
        return par.i ? par : pas;
    sharding_id a = pas, b = par;
    if (sharding_merge(p->t, par, &a, true))
        return a;
    if (sharding_merge(p->t, pas, &b, true))
        return b;
    return par;
}

static sharding_id over_parallel(struct pass *p, const struct facts_of_index *f, sharding_id s,
                                 bool from_operand)
{
    int from[2 * RANK_MAX], to[2 * RANK_MAX], n = 0;
    const struct parallel *both[2] = { &f->explicit_, &f->implicit };
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < both[b]->n; k++) {
            from[n] = from_operand ? both[b]->operand[k] : both[b]->window[k];
            to[n++] = from_operand ? both[b]->window[k] : both[b]->operand[k];
        }
    if (!n)
        return none();
    return sharding_along_dims(p->t, s, n, from, to, from_operand ? f->window_rank : f->operand_rank);
}

static bool max_or_manual(const struct pass *p, sharding_id s)
{
    return sharding_is_max(p->t, s) || sharding_is_manual(p->t, s);
}

sharding_id user_gather(struct pass *p, instr_id i, instr_id u)
{
    const struct facts_of_index *f = facts_of_index(p, u);
    sharding_id s = seen(p, u);
    if (!f->valid)
        return none();
    if (at(p, u)->operands[1].i == i.i) { /* first: one array may be both */
        if (max_or_manual(p, s))
            return s;
        return sharding_along_dims(p->t, s, f->connected.n, f->connected.b, f->connected.a,
                                   f->indices_rank);
    }
    if (!p->o.spmd)
        return none();
    if (max_or_manual(p, s))
        return s;
    sharding_id pas = sharding_along_dims(p->t, s, f->passing.n, f->passing.b, f->passing.a,
                                          f->operand_rank);
    if (sharding_is_max(p->t, pas))
        pas = none();
    return combine(p, over_parallel(p, f, s, false), pas);
}

static sharding_id scatter_indices(struct pass *p, const struct facts_of_index *f, instr_id u)
{
    const struct instr *ins = at(p, u);
    sharding_id *list = ARENA_ARRAY(p->tmp, sharding_id, f->noperands);
    int n = 0;
    for (int k = 0; k < f->noperands; k++) {
        instr_id x = ins->operands[f->noperands + 1 + k];
        if (has_rule(p, x) && !(n && sharding_is_manual(p->t, seen(p, x))))
            list[n++] = sharding_along_dims(p->t, seen(p, x), f->connected.n, f->connected.b,
                                            f->connected.a, f->indices_rank);
    }
    return n ? sharding_find_common(p->t, n, list, none()) : none();
}

static sharding_id scatter_update(struct pass *p, const struct facts_of_index *f, instr_id u, int k)
{
    instr_id indices = at(p, u)->operands[f->noperands];
    sharding_id fi = sharding_replicated(p->t);
    if (has_rule(p, indices))
        fi = sharding_along_dims(p->t, seen(p, indices), f->connected.n, f->connected.a,
                                 f->connected.b, f->window_rank);
    sharding_id s = is_tuple(p, u) ? sub_sharding(p, u, seen(p, u), k) : seen(p, u);
    if (p->o.spmd && s.i) {
        sharding_id par, pas = none(), fo;
        if (max_or_manual(p, s)) {
            par = s;
        } else {
            par = over_parallel(p, f, s, true);
            pas = sharding_along_dims(p->t, s, f->passing.n, f->passing.a, f->passing.b,
                                      f->window_rank);
            if (sharding_is_max(p->t, pas))
                pas = none();
        }
        fo = combine(p, par, pas);
        if (fo.i) {
            if (!sharding_is_manual(p->t, fo) && !sharding_is_manual(p->t, fi))
                (void)sharding_merge_compat(p->t, fi, &fo, -1);
            if (!sharding_is_max(p->t, fo))
                return fo;
        }
    }
    return sharding_is_max(p->t, fi) ? none() : fi;
}

sharding_id user_scatter(struct pass *p, instr_id i, instr_id u)
{
    const struct facts_of_index *f = facts_of_index(p, u);
    int k = operand_position(p, u, i);
    if (!f->valid || (int)at(p, u)->noperands != 2 * f->noperands + 1)
        return none();
    if (k < f->noperands)
        return is_tuple(p, u) ? sub_sharding(p, u, seen(p, u), k) : seen(p, u);
    if (k == f->noperands)
        return scatter_indices(p, f, u);
    return scatter_update(p, f, u, k - f->noperands - 1);
}
