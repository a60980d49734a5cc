/* Collectives: who takes part, and what comes out.
 *
 * A device that comes to one parks until all of its group have come; the last to come computes the
 * results of all. A sum is the left fold in group order, so neither the number of workers nor the
 * order in which devices run can change it. A permute's groups are the connected parts of its
 * pairs: a device that neither sends nor receives waits for nobody.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/collective.h"
#include "emulate/lower.h"
#include "emulate/plan.h"
#include "emulate/remote.h"

/* ---- groups -------------------------------------------------------------------------------------
 */

struct grouping {
    struct planner *p;
    VEC(int64_t) start, members;
};

static void group_begin(struct grouping *g)
{
    vec_push(&g->p->plan->arena, &g->start, g->members.n);
}

static void group_add(struct grouping *g, int64_t device)
{
    vec_push(&g->p->plan->arena, &g->members, device);
}

/* How the ids of a group are meant (XLA's modes): replicas within each partition, partitions within
 * each replica, replicas with all their partitions, or devices counted replica by replica. */
enum id_mode { IDS_REPLICA, IDS_PARTITION, IDS_REPLICA_ALL, IDS_DEVICE };

static enum id_mode id_mode(const struct lowering *l)
{
    bool channel = instr_int(l->i, ATTR_CHANNEL_ID, 0) > 0;
    enum op_kind op = (enum op_kind)l->i->op;
    if (l->plan->nreplicas == 1)
        return IDS_PARTITION;
    if (!channel)
        return IDS_REPLICA;
    if (instr_bool(l->i, ATTR_USE_GLOBAL_DEVICE_IDS, false))
        return IDS_DEVICE;
    bool by_partition = op == OP_ALL_TO_ALL || op == OP_COLLECTIVE_PERMUTE ||
                        op == OP_COLLECTIVE_PERMUTE_START || op == OP_COLLECTIVE_BROADCAST;
    return by_partition ? IDS_PARTITION : IDS_REPLICA_ALL;
}

static int64_t mode_ids(const struct plan *p, enum id_mode mode)
{
    return mode == IDS_DEVICE ? p->ndevices : mode == IDS_PARTITION ? p->npartitions : p->nreplicas;
}

/* Copies of the id space: the groups of ids hold in each. */
static int64_t mode_copies(const struct plan *p, enum id_mode mode)
{
    return mode == IDS_REPLICA ? p->npartitions : mode == IDS_PARTITION ? p->nreplicas : 1;
}

static int64_t mode_device(const struct plan *p, enum id_mode mode, int64_t copy, int64_t id)
{
    return mode == IDS_REPLICA     ? id * p->npartitions + copy
           : mode == IDS_PARTITION ? copy * p->npartitions + id
                                   : id;
}

static void add_id(struct grouping *g, enum id_mode mode, int64_t copy, int64_t id)
{
    const struct plan *p = g->p->plan;
    if (mode != IDS_REPLICA_ALL) {
        group_add(g, mode_device(p, mode, copy, id));
        return;
    }
    for (int64_t k = 0; k < p->npartitions; k++)
        group_add(g, id * p->npartitions + k);
}

static bool groups_read(struct lowering *l, struct grouping *g)
{
    const struct plan *p = l->plan;
    const struct attr *a = instr_attr(l->i, ATTR_REPLICA_GROUPS);
    const struct replica_groups *rg = a ? a->groups : NULL;
    enum id_mode mode = id_mode(l);
    int64_t ids = mode_ids(p, mode);
    bool all = !rg || rg->none || (!rg->uniform && rg->nlists == 0);
    for (int64_t copy = 0; copy < mode_copies(p, mode); copy++) {
        int64_t ngroups = all ? 1 : rg->uniform ? rg->tiles.dims[0] : rg->nlists, at = 0;
        for (int64_t k = 0; k < ngroups; k++) {
            int64_t size = all ? ids : rg->uniform ? rg->tiles.dims[1] : rg->sizes[k];
            group_begin(g);
            for (int64_t j = 0; j < size; j++) {
                int64_t index[2] = { k, j }, id = j;
                if (!all)
                    id = rg->uniform ? tiling_device(l->m->ir->shardings, rg->tiles, index)
                                     : rg->ids[at++];
                if (id < 0 || id >= ids)
                    return diag_error(l->d, l->m->source, l->i->at,
                                      "%s names device %" PRId64 " but there are %" PRId64,
                                      name_text(l->m->ir, l->i->name), id, ids);
                add_id(g, mode, copy, id);
            }
        }
    }
    return true;
}

/* ---- pairs of a permute -------------------------------------------------------------------------
 */

static void pair_add(const struct plan *p, enum id_mode mode, int64_t from, int64_t to,
                     int64_t *source)
{
    int64_t ids = mode_ids(p, mode);
    if (from < 0 || to < 0 || from >= ids || to >= ids)
        return;
    for (int64_t copy = 0; copy < mode_copies(p, mode); copy++)
        source[mode_device(p, mode, copy, to)] = mode_device(p, mode, copy, from);
}

static void pairs_tilings(const struct lowering *l, const struct permute_pairs *q,
                          enum id_mode mode, int64_t *source)
{
    const struct shardings *t = l->m->ir->shardings;
    int64_t n = order_get(t, q->from.order)->ndevices, index[MAX_RANK];
    for (int64_t cell = 0; cell < n; cell++) {
        int64_t rest = cell;
        for (int k = q->from.naxes - 1; k >= 0; k--) {
            index[k] = rest % q->from.dims[k];
            rest /= q->from.dims[k];
        }
        /* A device that both tilings have at one cell keeps its own. */
        pair_add(l->plan, mode, tiling_device(t, q->from, index), tiling_device(t, q->to, index),
                 source);
    }
}

static void pairs_shift(const struct lowering *l, const struct permute_pairs *q, enum id_mode mode,
                        int64_t *source)
{
    const struct shardings *t = l->m->ir->shardings;
    int64_t n = order_get(t, q->from.order)->ndevices, index[MAX_RANK],
            size = q->from.dims[q->axis];
    for (int64_t cell = 0; cell < n; cell++) {
        int64_t rest = cell;
        for (int k = q->from.naxes - 1; k >= 0; k--) {
            index[k] = rest % q->from.dims[k];
            rest /= q->from.dims[k];
        }
        int64_t limit = q->limit ? q->limit : size, at = index[q->axis], to = at + q->shift;
        if (q->wrap)
            to = ((to % limit) + limit) % limit;
        if (at >= limit || to < 0 || to >= limit)
            continue;
        int64_t a = tiling_device(t, q->from, index);
        index[q->axis] = to;
        pair_add(l->plan, mode, a, tiling_device(t, q->from, index), source);
    }
}

static int64_t root_of(int64_t *parent, int64_t d)
{
    while (parent[d] != d)
        d = parent[d] = parent[parent[d]];
    return d;
}

static bool pairs_read(struct lowering *l, struct grouping *g, int64_t *source)
{
    const struct plan *p = l->plan;
    const struct attr *a = instr_attr(l->i, ATTR_SOURCE_TARGET_PAIRS);
    enum id_mode mode = id_mode(l);
    if (!a)
        return lower_missing(l, "a permute without pairs");
    for (int64_t d = 0; d < p->ndevices; d++)
        source[d] = -1;
    const struct permute_pairs *q = a->pairs;
    if (q->kind == PAIRS_LIST)
        for (int64_t k = 0; k < q->n; k++)
            pair_add(p, mode, q->list[2 * k], q->list[2 * k + 1], source);
    else if (q->kind == PAIRS_TILINGS)
        pairs_tilings(l, q, mode, source);
    else
        pairs_shift(l, q, mode, source);
    int64_t *parent = ARENA_ARRAY(&l->planner->tmp, int64_t, p->ndevices);
    bool *takes = ARENA_ARRAY(&l->planner->tmp, bool, p->ndevices);
    for (int64_t d = 0; d < p->ndevices; d++)
        parent[d] = d;
    for (int64_t d = 0; d < p->ndevices; d++)
        if (source[d] >= 0) {
            takes[d] = takes[source[d]] = true;
            int64_t x = root_of(parent, d), y = root_of(parent, source[d]);
            parent[x > y ? x : y] = x > y ? y : x;
        }
    /* Members of each part, by rising device: counted, then placed. */
    int64_t *size = ARENA_ARRAY(&l->planner->tmp, int64_t, p->ndevices);
    int64_t *place = ARENA_ARRAY(&l->planner->tmp, int64_t, p->ndevices), total = 0;
    for (int64_t d = 0; d < p->ndevices; d++)
        if (takes[d])
            size[root_of(parent, d)]++;
    for (int64_t d = 0; d < p->ndevices; d++)
        if (size[d]) {
            place[d] = total;
            vec_push(&g->p->plan->arena, &g->start, total);
            total += size[d];
        }
    for (int64_t k = 0; k < total; k++)
        group_add(g, 0);
    for (int64_t d = 0; d < p->ndevices; d++)
        if (takes[d])
            g->members.v[place[root_of(parent, d)]++] = d;
    return true;
}

/* ---- lowering -----------------------------------------------------------------------------------
 */

static enum op_kind plain_kind(enum op_kind op)
{
    return op == OP_ALL_GATHER_START           ? OP_ALL_GATHER
           : op == OP_ALL_REDUCE_START         ? OP_ALL_REDUCE
           : op == OP_COLLECTIVE_PERMUTE_START ? OP_COLLECTIVE_PERMUTE
                                               : op;
}

static void leaf_dims(struct coll_leaf *out, const struct shape *in, const struct shape *res,
                      int dim)
{
    out->outer = out->inner = 1;
    out->in = in->rank > dim ? in->dims[dim] : 1;
    out->out = res->rank > dim ? res->dims[dim] : 1;
    for (int k = 0; k < in->rank; k++) {
        if (k < dim)
            out->outer *= in->dims[k];
        else if (k > dim)
            out->inner *= in->dims[k];
    }
}

static void meeting_place(struct lowering *l, struct coll *c)
{
    struct planner *p = l->planner;
    int64_t channel = instr_int(l->i, ATTR_CHANNEL_ID, 0);
    uint64_t key = (uint64_t)channel << 8 | (uint64_t)c->kind, at;
    if (!p->channels.arena)
        map_init(&p->channels, &p->tmp);
    if (channel > 0 && map_get(&p->channels, key, &at)) {
        c->index = (uint32_t)at;
        return;
    }
    c->index = (uint32_t)p->colls.n;
    vec_push(&p->tmp, &p->colls, (const struct coll *)c);
    if (channel > 0)
        map_put(&p->channels, key, c->index);
}

static bool place_members(struct lowering *l, struct coll *c, struct grouping *g)
{
    const struct plan *p = l->plan;
    int64_t *group = ARENA_ARRAY(l->a, int64_t, p->ndevices),
            *rank = ARENA_ARRAY(l->a, int64_t, p->ndevices);
    c->ngroups = g->start.n;
    group_begin(g);
    c->start = g->start.v;
    c->members = g->members.v;
    c->group_of = group;
    c->rank_of = rank;
    for (int64_t d = 0; d < p->ndevices; d++)
        group[d] = -1;
    for (int64_t k = 0; k < c->ngroups; k++)
        for (int64_t j = c->start[k]; j < c->start[k + 1]; j++) {
            int64_t d = c->members[j];
            if (group[d] >= 0)
                return diag_error(l->d, l->m->source, l->i->at,
                                  "%s has device %" PRId64 " in two groups",
                                  name_text(l->m->ir, l->i->name), d);
            group[d] = k;
            rank[d] = j - c->start[k];
        }
    for (int64_t d = 0; d < p->ndevices && c->kind != OP_COLLECTIVE_PERMUTE; d++)
        if (group[d] < 0)
            return diag_error(l->d, l->m->source, l->i->at,
                              "%s has device %" PRId64 " of %" PRId64 " in no group",
                              name_text(l->m->ir, l->i->name), d, p->ndevices);
    return true;
}

static bool set_reducer(struct lowering *l, struct coll *c)
{
    comp_id r;
    if (instr_called(l->m, l->id, &r, 1) != 1)
        return lower_missing(l, "a reduction without computation");
    c->reducer = region_make(l->a, l->m, r, l->plan->mode, l->d);
    if (!c->reducer)
        return false;
    if (c->reducer->nparams != 2 || c->reducer->nroots != 1)
        return lower_missing(l, "a reduction of several values together");
    struct elem e = l->step->lin[0].elem;
    for (uint32_t k = 0; k < l->step->nin; k++)
        if (l->step->lin[k].elem.t != e.t)
            return true; /* each leaf through the region would be wrong: checked when it runs */
    if (c->reducer->simple && c->reducer->slots[c->reducer->roots[0]].t == e.t) {
        c->widen = e.ct == CT_SMALL;
        c->fold = fold_kernel(c->reducer->simple, c->widen ? CT_F32 : e.ct);
    }
    return true;
}

bool coll_lower(struct lowering *l)
{
    struct step *s = l->step;
    struct coll *c = ARENA_NEW(l->a, struct coll);
    struct grouping g = { .p = l->planner };
    enum op_kind op = (enum op_kind)l->i->op;
    int n;
    c->kind = plain_kind(op);
    c->dim = -1;
    if (c->kind == OP_ALL_GATHER || c->kind == OP_REDUCE_SCATTER || c->kind == OP_ALL_TO_ALL) {
        const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
        c->dim = n == 1 ? (int)dims[0] : (int)instr_int(l->i, ATTR_SPLIT_DIMENSION, -1);
        if (c->dim < 0 && c->kind != OP_ALL_TO_ALL)
            return lower_missing(l, "a collective without dimension");
        if (c->kind == OP_ALL_TO_ALL && instr_shape(l->m, l->id)->kind == SHAPE_TUPLE)
            c->dim = -1;
    }
    if (c->kind == OP_COLLECTIVE_PERMUTE) {
        int64_t *source = ARENA_ARRAY(l->a, int64_t, l->plan->ndevices);
        if (!pairs_read(l, &g, source))
            return false;
        c->source = source;
    } else if (!groups_read(l, &g)) {
        return false;
    }
    if (!place_members(l, c, &g))
        return false;
    bool repeats = op == OP_ALL_GATHER_START || op == OP_COLLECTIVE_PERMUTE_START;
    c->first_out = repeats ? s->nin : 0;
    c->nresults = c->kind == OP_RAGGED_ALL_TO_ALL ? 1 : s->nin;
    if (s->nout < c->first_out + c->nresults)
        return lower_missing(l, "this form of collective");
    struct coll_leaf *leaves = ARENA_ARRAY(l->a, struct coll_leaf, s->nin + 1);
    for (uint32_t k = 0; k < c->nresults; k++) {
        const struct shape *in = operand_shape(l, k), *whole = instr_shape(l->m, l->id);
        const struct shape *res = whole;
        if (whole->kind == SHAPE_TUPLE)
            res = shape_get(l->m->ir, shape_leaf(l->m->ir, l->i->shape, c->first_out + k));
        leaf_dims(&leaves[k], in, res, c->dim < 0 ? 0 : c->dim);
    }
    c->leaves = leaves;
    if ((c->kind == OP_ALL_REDUCE || c->kind == OP_REDUCE_SCATTER) && !set_reducer(l, c))
        return false;
    meeting_place(l, c);
    s->kind = STEP_COLLECTIVE;
    s->p = c;
    return true;
}

/* The end of a manual region: every device gets the whole array, put together from all shards. */
bool coll_lower_join(struct lowering *l, const struct cut *cut)
{
    struct coll *c = ARENA_NEW(l->a, struct coll);
    struct grouping g = { .p = l->planner };
    c->kind = OP_CUSTOM_CALL;
    c->dim = -1;
    c->nresults = 1;
    c->join = cut;
    group_begin(&g);
    for (int64_t d = 0; d < l->plan->ndevices; d++)
        group_add(&g, d);
    if (!place_members(l, c, &g))
        return false;
    meeting_place(l, c);
    l->step->kind = STEP_COLLECTIVE;
    l->step->p = c;
    return true;
}

#define COLLECTIVE(name)                  \
    bool lower_##name(struct lowering *l) \
    {                                     \
        return coll_lower(l);             \
    }
/* Operands: rows to send, rows that stay where nobody writes, and four lists with one entry a member:
 * first row and number of rows for it, where they go in its result, how many come from it. */
bool lower_ragged_all_to_all(struct lowering *l)
{
    const struct step *s = l->step;
    if (s->nin != 6 || s->nout != 1 || operand_shape(l, 0)->rank < 1 ||
        operand_shape(l, 1)->count != l->shape->count)
        return lower_missing(l, "this form");
    for (uint32_t k = 2; k < 6; k++)
        if (!ct_is_int(s->lin[k].elem.ct))
            return lower_missing(l, "this form");
    return coll_lower(l);
}

COLLECTIVE(all_gather)
COLLECTIVE(all_reduce)
COLLECTIVE(reduce_scatter)
COLLECTIVE(all_to_all)
COLLECTIVE(collective_permute)
COLLECTIVE(collective_broadcast)

/* ---- meeting ------------------------------------------------------------------------------------
 */

void rendezvous_make(struct run *r)
{
    const struct plan *p = r->plan;
    r->table = ARENA_ARRAY(&r->arena, struct rendezvous *, p->ncolls + 1);
    for (uint32_t k = 0; k < p->ncolls; k++) {
        const struct coll *c = p->colls[k];
        r->table[k] = ARENA_ARRAY(&r->arena, struct rendezvous, c->ngroups + 1);
        for (int64_t g = 0; g < c->ngroups; g++) {
            struct rendezvous *z = &r->table[k][g];
            z->group = g;
            z->size = c->start[g + 1] - c->start[g];
            z->members = ARENA_ARRAY(&r->arena, struct device *, z->size);
            z->steps = ARENA_ARRAY(&r->arena, const struct step *, z->size);
        }
    }
}

/* Two instructions of one channel may only meet when they would do the same. */
static bool same_meeting(const struct step *a, const struct step *b)
{
    const struct coll *x = a->p, *y = b->p;
    if (a == b)
        return true;
    bool same = x->kind == y->kind && x->ngroups == y->ngroups && a->nin == b->nin &&
                x->dim == y->dim &&
                memcmp(x->start, y->start, (size_t)(x->ngroups + 1) * sizeof(int64_t)) == 0 &&
                memcmp(x->members, y->members, (size_t)x->start[x->ngroups] * sizeof(int64_t)) == 0;
    for (uint32_t k = 0; same && k < a->nin; k++)
        same = a->lin[k].count == b->lin[k].count && a->lin[k].elem.t == b->lin[k].elem.t;
    return same;
}

struct buf *coll_operand(const struct rendezvous *z, int64_t rank, uint32_t k)
{
    return z->members[rank]->slots[z->steps[rank]->in[k]];
}

void coll_give(const struct rendezvous *z, int64_t rank, uint32_t out, struct buf *b)
{
    z->members[rank]
        ->slots[z->steps[rank]->out[((const struct coll *)z->steps[rank]->p)->first_out + out]] = b;
}

/* Shadow bits of a result, made when the first poisoned operand is met. */
static uint8_t *shadow(struct buf *b, int64_t count)
{
    if (!b->poison) {
        b->poison = calloc((size_t)count + 1, 1);
        if (!b->poison)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for shadow bits");
    }
    return b->poison;
}

static double *bounds_of(struct buf *b, int64_t count)
{
    if (!b->bound) {
        b->bound = calloc((size_t)count + 1, sizeof *b->bound);
        if (!b->bound)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for error bounds");
    }
    return b->bound;
}

/* Error bounds of a sum over devices (bound.c): what the operands bring, and the order. */
static void fold_bounds(const struct rendezvous *z, uint32_t k, struct buf *res)
{
    const struct leaf *l = &z->step->lin[k];
    enum op_kind op = z->coll->reducer->simple;
    double factor = op == OP_ADD ? 2 * (double)z->size * unit_roundoff(l->elem.t) : 0;
    bool known = op == OP_ADD || op == OP_MAXIMUM || op == OP_MINIMUM,
         real = unit_roundoff(l->elem.t) > 0;
    for (int64_t m = 0; m < z->size; m++) {
        const struct buf *x = coll_operand(z, m, k);
        for (int64_t i = 0; i < l->count && (x->bound || (real && z->size > 1)); i++) {
            double off = (x->bound ? x->bound[i] : 0) + factor * fabs(real_at(l->elem, x->data, i));
            bounds_of(res, l->count)[i] += off > 0 && (!known || !real) ? HUGE_VAL : off;
        }
    }
}

/* acc = acc op x over n elements. */
static void fold_into(const struct coll *c, struct elem e, struct region_scratch *scratch,
                      char *acc, const char *x, int64_t n)
{
    if (c->fold) {
        c->fold(acc, 1, x, 1, n);
        return;
    }
    for (int64_t at = 0; at < n; at += STRIP) {
        const void *in[2] = { acc + at * e.size, x + at * e.size };
        void *out[1] = { acc + at * e.size };
        region_eval(c->reducer, scratch, in, out, min_i64(STRIP, n - at));
    }
}

/* The sum over a group of operand leaf k, into a new buffer. */
struct buf *fold_group(const struct rendezvous *z, uint32_t k, bool bounds, struct pool *pool)
{
    const struct step *s = z->step;
    const struct coll *c = z->coll;
    const struct leaf *l = &s->lin[k];
    struct buf *res = buf_new(pool, l->bytes);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct region_scratch scratch = { NULL };
    if (!c->fold)
        region_scratch(c->reducer, &tmp, &scratch);
    if (c->widen) {
        float *acc = ARENA_ARRAY(&tmp, float, l->count + 1),
              *x = ARENA_ARRAY(&tmp, float, l->count + 1);
        small_to_f32(l->elem.t, coll_operand(z, 0, k)->data, acc, l->count);
        for (int64_t m = 1; m < z->size; m++) {
            small_to_f32(l->elem.t, coll_operand(z, m, k)->data, x, l->count);
            fold_into(c, l->elem, &scratch, (char *)acc, (const char *)x, l->count);
        }
        f32_to_small(l->elem.t, acc, res->data, l->count);
    } else {
        memcpy(res->data, coll_operand(z, 0, k)->data, (size_t)l->bytes);
        for (int64_t m = 1; m < z->size; m++)
            fold_into(c, l->elem, &scratch, res->data, coll_operand(z, m, k)->data, l->count);
    }
    for (int64_t m = 0; m < z->size; m++) {
        const uint8_t *p = coll_operand(z, m, k)->poison;
        for (int64_t i = 0; p && i < l->count; i++)
            shadow(res, l->count)[i] |= p[i];
    }
    if (bounds)
        fold_bounds(z, k, res);
    arena_close(&tmp);
    return res;
}

static void give_all(const struct rendezvous *z, uint32_t k, struct buf *b)
{
    for (int64_t m = 0; m < z->size; m++)
        coll_give(z, m, k, m ? buf_ref(b) : b);
}

/* Copies in[.., from .. from + n, ..] of one array to out[.., to .. to + n, ..] of another. */
static void copy_range(const struct coll_leaf *l, int size, const void *in, int64_t in_n,
                       int64_t from, void *out, int64_t out_n, int64_t to, int64_t n)
{
    for (int64_t o = 0; o < l->outer; o++)
        memcpy((char *)out + (o * out_n + to) * l->inner * size,
               (const char *)in + (o * in_n + from) * l->inner * size,
               (size_t)(n * l->inner * size));
}

void copy_piece(const struct coll_leaf *l, int size, const struct buf *in, int64_t in_n,
                int64_t from, struct buf *out, int64_t out_n, int64_t to, int64_t n)
{
    copy_range(l, size, in->data, in_n, from, out->data, out_n, to, n);
    if (in->poison)
        copy_range(l, 1, in->poison, in_n, from, shadow(out, l->outer * out_n * l->inner), out_n,
                   to, n);
    if (in->bound)
        copy_range(l, 8, in->bound, in_n, from, bounds_of(out, l->outer * out_n * l->inner), out_n,
                   to, n);
}

static void compute_gather(const struct rendezvous *z, uint32_t k, struct pool *pool)
{
    const struct coll_leaf *l = &z->coll->leaves[k];
    int size = z->step->lin[k].elem.size;
    int64_t total = l->in * z->size;
    struct buf *res = buf_new(pool, l->outer * total * l->inner * size);
    for (int64_t m = 0; m < z->size; m++)
        copy_piece(l, size, coll_operand(z, m, k), l->in, 0, res, total, m * l->in, l->in);
    give_all(z, k, res);
}

static void compute_scatter(const struct rendezvous *z, uint32_t k, bool bounds, struct pool *pool)
{
    const struct coll_leaf *l = &z->coll->leaves[k];
    int size = z->step->lin[k].elem.size;
    struct buf *sum = fold_group(z, k, bounds, pool);
    for (int64_t m = 0; m < z->size; m++) {
        struct buf *part = buf_new(pool, l->outer * l->out * l->inner * size);
        copy_piece(l, size, sum, l->in, m * l->out, part, l->out, 0, l->out);
        coll_give(z, m, k, part);
    }
    buf_drop(pool, sum);
}

static void compute_all_to_all(const struct rendezvous *z, uint32_t k, struct pool *pool)
{
    if (z->coll->dim < 0) { /* tuple form: operand i of member j becomes result j of member i */
        for (int64_t m = 0; m < z->size && k < z->size; m++)
            coll_give(z, m, k, buf_ref(coll_operand(z, k, (uint32_t)m)));
        return;
    }
    const struct coll_leaf *l = &z->coll->leaves[k];
    int size = z->step->lin[k].elem.size;
    int64_t piece = l->in / z->size;
    for (int64_t m = 0; m < z->size; m++) {
        struct buf *res = buf_new(pool, z->step->lin[k].bytes);
        for (int64_t j = 0; j < z->size; j++)
            copy_piece(l, size, coll_operand(z, j, k), l->in, m * piece, res, l->in, j * piece,
                       piece);
        coll_give(z, m, k, res);
    }
}

static struct buf *zeros(struct pool *pool, const struct leaf *l)
{
    struct buf *b = buf_new(pool, l->bytes);
    memset(b->data, 0, (size_t)l->bytes);
    return b;
}

static void compute_permute(const struct rendezvous *z, uint32_t k, struct pool *pool)
{
    for (int64_t m = 0; m < z->size; m++) {
        int64_t from = z->coll->source[z->members[m]->id];
        coll_give(z, m, k,
             from < 0 ? zeros(pool, &z->step->lin[k])
                      : buf_ref(coll_operand(z, z->coll->rank_of[from], k)));
    }
}

static void send_rows(const struct rendezvous *z, int64_t from, int64_t to, struct buf *res)
{
    const struct step *s = z->steps[from];
    int64_t v[3], row = s->lin[0].elem.size * z->coll->leaves[0].inner;
    for (uint32_t k = 0; k < 3; k++) { /* first row, number of rows, first row over there */
        if (to >= s->lin[2 + k].count)
            return;
        v[k] = read_index(s->lin[2 + k].elem, coll_operand(z, from, 2 + k)->data, to);
    }
    int64_t have = z->coll->leaves[0].in, room = z->coll->leaves[0].out;
    if (v[1] <= 0)
        return;
    if (v[0] < 0 || v[2] < 0 || v[1] > have || v[0] > have - v[1] || v[1] > room || v[2] > room - v[1])
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__,
                   "ragged-all-to-all: device %" PRId64 " sends rows %" PRId64 " to %" PRId64
                   " of %" PRId64 " to rows from %" PRId64 " on of %" PRId64 " on device %" PRId64,
                   z->members[from]->id, v[0], v[0] + v[1], have, v[2], room, z->members[to]->id);
    memcpy((char *)res->data + v[2] * row, (const char *)coll_operand(z, from, 0)->data + v[0] * row,
           (size_t)(v[1] * row));
}

static void compute_ragged(const struct rendezvous *z, struct pool *pool)
{
    const struct leaf *l = &z->step->lin[1];
    for (int64_t to = 0; to < z->size; to++) {
        struct buf *res = buf_new(pool, l->bytes);
        memcpy(res->data, coll_operand(z, to, 1)->data, (size_t)l->bytes);
        bool poisoned = false;
        for (int64_t from = 0; from < z->size; from++) {
            send_rows(z, from, to, res);
            for (uint32_t k = 0; k < 6; k++)
                poisoned |= coll_operand(z, from, k)->poison != NULL;
        }
        if (poisoned)
            memset(shadow(res, l->count), 1, (size_t)l->count);
        coll_give(z, to, 0, res);
    }
}

/* Where several devices hold a piece, the first one's counts. */
static void compute_join(const struct rendezvous *z, const struct plan *p, struct pool *pool)
{
    const struct leaf *l = &z->step->lout[0];
    struct buf *whole = buf_new(pool, l->bytes);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    memset(whole->data, 0, (size_t)l->bytes);
    for (int64_t m = z->size - 1; m >= 0; m--) {
        int64_t n;
        const struct buf *part = coll_operand(z, m, 0);
        struct box b = cut_box(&tmp, p->m->ir->shardings, z->coll->join, z->members[m]->partition,
                               &n),
                   back = b;
        back.src = b.dst;
        back.dst = b.src;
        back.src0 = b.dst0;
        back.dst0 = b.src0;
        box_copy(&back, whole->data, part->data, l->elem.size);
        if (part->poison)
            box_copy(&back, shadow(whole, l->count), part->poison, 1);
        if (part->bound)
            box_copy(&back, bounds_of(whole, l->count), part->bound, 8);
    }
    arena_close(&tmp);
    give_all(z, 0, whole);
}

/* Results behind or before the real ones: operands repeated by -start forms, contexts. */
static void fill_others(struct device *dev, const struct step *s)
{
    const struct coll *c = s->p;
    for (uint32_t k = 0; k < s->nout; k++) {
        if (k >= c->first_out && k < c->first_out + c->nresults)
            continue;
        dev->slots[s->out[k]] =
            k < c->first_out ? buf_ref(dev->slots[s->in[k]]) : zeros(&dev->pool, &s->lout[k]);
    }
}

static void compute_at_once(struct rendezvous *z, const struct plan *p, struct pool *pool)
{
    for (uint32_t k = 0; k < z->coll->nresults; k++)
        switch ((int)z->coll->kind) {
        case OP_ALL_GATHER: compute_gather(z, k, pool); break;
        case OP_ALL_REDUCE: give_all(z, k, fold_group(z, k, p->bounds, pool)); break;
        case OP_REDUCE_SCATTER: compute_scatter(z, k, p->bounds, pool); break;
        case OP_ALL_TO_ALL: compute_all_to_all(z, k, pool); break;
        case OP_COLLECTIVE_PERMUTE: compute_permute(z, k, pool); break;
        case OP_CUSTOM_CALL: compute_join(z, p, pool); break;
        case OP_RAGGED_ALL_TO_ALL: compute_ragged(z, pool); break;
        default: /* broadcast: the group's first sends */
            for (int64_t m = 0; m < z->size; m++)
                coll_give(z, m, k, buf_ref(coll_operand(z, 0, k)));
        }
}

/* false: a planted fault ended the run. */
static bool rendezvous_compute(struct run *r, struct rendezvous *z, struct pool *pool)
{
    if (r->watched && z->size > 1 && z->coll->kind != OP_CUSTOM_CALL &&
        z->coll->kind != OP_RAGGED_ALL_TO_ALL) {
        if (!move_chunks(r, z, pool))
            return false;
    } else {
        compute_at_once(z, r->plan, pool);
        if (r->watched)
            trace_meet_plain(r, z);
    }
    for (int64_t m = 0; m < z->size; m++) {
        struct device *dev = z->members[m];
        const struct step *s = z->steps[m];
        if (remote_is_ghost(r, dev->id)) {
            remote_forget(r, dev, s);
            continue;
        }
        fill_others(dev, s);
        step_release(dev->slots, &dev->pool, s);
        dev->steps++;
        dev->stack[dev->depth - 1].pc++;
    }
    return true;
}

/* A device outside of every pair receives zeros and goes on. */
static void alone(struct run *r, struct device *dev, const struct step *s)
{
    const struct coll *c = s->p;
    if (r->watched) {
        trace_event(r, dev, s, TRACE_COLLECTIVE, dev->clock, dev->clock + 1, NULL);
        dev->clock++;
    }
    for (uint32_t k = 0; k < c->nresults; k++)
        dev->slots[s->out[c->first_out + k]] = zeros(&dev->pool, &s->lin[k]);
    fill_others(dev, s);
    step_release(dev->slots, &dev->pool, s);
    dev->steps++;
    dev->stack[dev->depth - 1].pc++;
}

bool meeting_complete(struct run *r, struct rendezvous *z, struct device *last)
{
    if (!rendezvous_compute(r, z, last ? &last->pool : &z->members[0]->pool))
        return false;
    pthread_mutex_lock(&r->lock);
    for (int64_t m = 0; m < z->size; m++) {
        struct device *member = z->members[m];
        z->members[m] = NULL;
        member->at = NULL;
        if (member != last && !remote_is_ghost(r, member->id))
            run_enqueue(r, member);
    }
    z->arrived = 0;
    z->coll = NULL;
    pthread_mutex_unlock(&r->lock);
    return true;
}

enum device_state collective_step(struct run *r, struct device *dev, const struct step *s)
{
    const struct coll *c = s->p;
    int64_t group = c->group_of[dev->id], rank = c->rank_of[dev->id];
    if (group < 0) {
        alone(r, dev, s);
        return DEVICE_READY;
    }
    if (group >= r->plan->colls[c->index]->ngroups) {
        run_fail(r, s->instr, "collectives of one channel have different groups");
        return DEVICE_PARKED;
    }
    struct rendezvous *z = &r->table[c->index][group];
    pthread_mutex_lock(&r->lock);
    bool first = z->arrived == 0;
    bool fits =
        c->start[group + 1] - c->start[group] == z->size && (first || same_meeting(z->step, s));
    const struct step *other = first ? s : z->step;
    if (fits) {
        if (first) {
            z->step = s;
            z->coll = c;
        }
        z->members[rank] = dev;
        z->steps[rank] = s;
        dev->at = z;
        if (++z->arrived < z->size && !r->distributed) {
            dev->state = DEVICE_PARKED;
            pthread_mutex_unlock(&r->lock);
            return DEVICE_PARKED;
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (!fits) {
        run_fail(r, s->instr,
                 "mismatched collectives of one channel: device %" PRId64 " is at %s, others at %s",
                 dev->id, name_text(r->plan->m->ir, instr_at(r->plan->m, s->instr)->name),
                 name_text(r->plan->m->ir, instr_at(r->plan->m, other->instr)->name));
        return DEVICE_PARKED;
    }
    if (r->distributed) { /* one worker: nobody else looks */
        remote_tell(r, dev, s, z);
        if (z->arrived < z->size && !remote_join(r, z)) {
            dev->state = DEVICE_PARKED;
            return DEVICE_PARKED;
        }
    }
    return meeting_complete(r, z, dev) ? DEVICE_READY : DEVICE_PARKED;
}
