/* Dot: the recursion, its base case, and the handler. Sections 10.1 to 10.3. Grouping is in
 * dot_group.c. */
#include "partition/conv.h"

#include <string.h>

/* ---- classes ------------------------------------------------------------------------------------ */

int product_dims(const struct product *p, enum product_class c, int side, int *dims)
{
    int n = 0;
    for (int i = 0; i < p->n[c]; i++)
        if (p->dims[c][i].side[side] >= 0)
            dims[n++] = p->dims[c][i].side[side];
    return n;
}

int64_t product_count(const struct product *p, sharding_id sh, enum product_class c, int side)
{
    int64_t n = 1;
    int dims[OPS_MAX_RANK], k = product_dims(p, c, side, dims);
    for (int i = 0; i < k; i++)
        n *= tiles_on(p->s, sh, dims[i]);
    return n;
}

sharding_id product_map(struct product *p, sharding_id sh, int from, int to)
{
    if (!sharding_is_tiled(p->s->sh, sh))
        return sh;
    int forth[OPS_MAX_RANK], back[OPS_MAX_RANK];
    for (int i = 0; i < OPS_MAX_RANK; i++)
        forth[i] = back[i] = -1;
    for (int c = 0; c < NCLASSES; c++)
        for (int i = 0; i < p->n[c]; i++) {
            int a = p->dims[c][i].side[from], b = p->dims[c][i].side[to];
            if (a >= 0 && b >= 0) {
                forth[a] = b;
                back[b] = a;
            }
        }
    for (int d = 0; d < p->rank[from]; d++)
        if (forth[d] < 0 && tiles_on(p->s, sh, d) > 1)
            return (sharding_id){ 0 };
    return sharding_map_dims(p->s->sh, sh, forth, p->rank[to], back);
}

struct pval mask_zero(struct spmd *s, struct pval v, uint64_t skip)
{
    return pval_mask(s, v, emit_zero(s, base_of(s, v)->dtype), 0, skip);
}

/* S-36. which: the operand whose sharding is wanted. */
sharding_id product_infer(struct product *p, sharding_id out, sharding_id other, int which,
                          bool use_other)
{
    struct spmd *s = p->s;
    int them = which == LHS ? RHS : LHS, dims[2 * OPS_MAX_RANK];
    int n = product_dims(p, free_class(them), OUTPUT, dims);
    n += product_dims(p, CONTRACT, OUTPUT, dims + n);
    sharding_id from_out = sharding_replicate_dims(s->sh, out, n, dims);
    from_out = product_map(p, from_out, OUTPUT, which);
    if (!use_other || !sharding_is_tiled(s->sh, other))
        return from_out;
    n = product_dims(p, free_class(them), them, dims);
    sharding_id from_other = sharding_replicate_dims(s->sh, other, n, dims);
    from_other = product_map(p, from_other, them, which);
    if (!from_other.i)
        return from_out;
    if (!from_out.i || is_tile_max(s, from_out))
        return from_other;
    sharding_id merged = from_other;
    return sharding_merge(s->sh, from_out, &merged, true) ? merged : from_out;
}

/* ---- the local product -------------------------------------------------------------------------- */

static shape_id dot_shape(struct product *p, instr_id l, instr_id r)
{
    struct spmd *s = p->s;
    int64_t dims[OPS_MAX_RANK] = { 0 };
    const struct shape *side[2] = { node_shape(s, l), node_shape(s, r) };
    static const enum product_class in_output[] = { BATCH, LFREE, RFREE };
    for (size_t k = 0; k < COUNTOF(in_output); k++)
        for (int i = 0; i < p->n[in_output[k]]; i++) {
            const struct product_dim *d = &p->dims[in_output[k]][i];
            int from = d->side[LHS] >= 0 ? LHS : RHS;
            dims[d->side[OUTPUT]] = side[from]->dims[d->side[from]];
        }
    const struct shape *full = source_shape(s, p->source);
    return shape_array(s->ir, full->dtype, p->rank[OUTPUT], dims);
}

static comp_id adder(struct spmd *s, enum dtype t)
{
    return binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t); /* S-51 */
}

/* S-181, 4: sums across the contracting groups, cut at once where the output is tiled. */
static instr_id apply_step(struct product *p, const struct product_step *step, instr_id x)
{
    struct spmd *s = p->s;
    struct group_set *inside = s->groups;
    s->groups = step->set;
    for (int i = 0; step->slice.i && i < step->n; i++)
        p->cut_twice = p->cut_twice || node_shape(s, x)->dims[step->dims[i]] != step->whole[i];
    comp_id add = adder(s, node_shape(s, x)->dtype);
    x = emit_reduce_along(s, x, add, step->along, step->nalong, step->along_dims);
    if (step->slice.i) {
        struct pval v = { x, instr_at(s->out, x)->shape, sharding_replicated(s->sh) };
        x = reshard(s, v, step->slice).local;
    }
    if (step->rep_axis >= 0)
        x = emit_all_reduce(s, x, add,
                            sharding_groups_along(s->sh, step->outer, 1, &step->rep_axis));
    s->groups = inside;
    return x;
}

instr_id product_local(struct product *p, instr_id l, instr_id r, const struct window_dim *window)
{
    struct spmd *s = p->s;
    instr_id ops[8] = { l, r };
    int nops = 2;
    const struct instr *in = instr_at(s->src, p->source);
    for (uint32_t k = 2; k < in->noperands && nops < 8; k++) /* metadata of a sparse dot, S-170 */
        ops[nops++] = operand_value(s, p->source, k).local;
    instr_id x = p->convolution ? product_convolve(p, l, r, window)
                                : emit_clone(s, p->source, dot_shape(p, l, r), nops, ops);
    const char *old = because(s, "partial sums of the contracting dimension (S-181)");
    for (int i = 0; i < p->nsteps; i++)
        x = apply_step(p, &p->steps[i], x);
    s->reason = old;
    return x;
}

/* ---- base case, S-173 --------------------------------------------------------------------------- */

/* Whether a permute (S-76) or an all-to-all plan (S-78) leads from one sharding to another. */
static bool permutable(const struct spmd *s, sharding_id from, sharding_id to)
{
    const struct sharding *a = sharding_get(s->sh, from), *b = sharding_get(s->sh, to);
    if (a->kind != SHARDING_TILED || b->kind != SHARDING_TILED || from.i == to.i ||
        a->lastrep != b->lastrep || a->tiles.naxes != b->tiles.naxes)
        return false;
    return memcmp(a->tiles.dims, b->tiles.dims, (size_t)a->tiles.naxes * sizeof(int64_t)) == 0;
}

static bool exchangeable(const struct spmd *s, sharding_id from, sharding_id to)
{
    const struct sharding *a = sharding_get(s->sh, from), *b = sharding_get(s->sh, to);
    if (a->kind != SHARDING_TILED || b->kind != SHARDING_TILED ||
        a->tiles.naxes != b->tiles.naxes ||
        sharding_num_tiles(s->sh, from) != sharding_num_tiles(s->sh, to))
        return false;
    /* Same multiset of counts over the axes that differ, and every step of the plan divides. */
    int64_t have[64], want[64];
    int n = 0;
    for (int i = 0; i < a->tiles.naxes && i < 64; i++)
        if (a->tiles.dims[i] != b->tiles.dims[i]) {
            have[n] = a->tiles.dims[i];
            want[n++] = b->tiles.dims[i];
        }
    if (n == 0)
        return false;
    int64_t x[64], y[64];
    memcpy(x, have, sizeof x);
    memcpy(y, want, sizeof y);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            if (x[j] < x[i]) {
                int64_t t = x[i];
                x[i] = x[j];
                x[j] = t;
            }
            if (y[j] < y[i]) {
                int64_t t = y[i];
                y[i] = y[j];
                y[j] = t;
            }
        }
    for (int i = 0; i < n; i++)
        if (x[i] != y[i])
            return false;
    /* The walk of S-78: the smallest count left, its last axis, what that axis must become. */
    bool open[64];
    for (int i = 0; i < n; i++)
        open[i] = true;
    for (int left = n; left > 0;) {
        int64_t c = 0;
        int at = -1;
        for (int i = 0; i < n; i++)
            if (open[i] && (at < 0 || have[i] <= c)) {
                c = have[i];
                at = i;
            }
        int64_t w = want[at];
        if (w == c) {
            open[at] = false;
            left--;
            continue;
        }
        if (c != 1 && w % c != 0)
            return false;
        int j = -1;
        for (int i = 0; i < n; i++) {
            if (!open[i] || have[i] != w)
                continue;
            j = i;
            if (c == 1 ? want[i] != 1 : want[i] == c)
                break;
        }
        if (j < 0)
            return false;
        /* axis `at` is done; axis j now has c. */
        open[at] = false;
        have[j] = c;
        left--;
    }
    return true;
}

struct base_case {
    struct product *p;
    struct pval l, r;
    shape_id base;
    sharding_id out;
    int64_t n;
    int64_t lb, rb, ob, lc, rc, ll, rr, ol, or_;
};

static struct pval base_finish(const struct base_case *b, struct pval l, struct pval r,
                               sharding_id label)
{
    struct spmd *s = b->p->s;
    instr_id x = product_local(b->p, l.local, r.local, NULL);
    return reshard(s, pval_make(s, x, b->base, label), b->out);
}

/* Lines 1, 2a, 2b, 4: one operand is tiled on the batch dims only, and the other follows. cheap:
 * only by a permute or an all-to-all. */
static bool base_batch(const struct base_case *b, bool cheap, struct pval *res)
{
    struct spmd *s = b->p->s;
    for (int side = LHS; side <= RHS; side++) {
        int other = side == LHS ? RHS : LHS;
        struct pval x = side == LHS ? b->l : b->r, y = side == LHS ? b->r : b->l;
        if ((side == LHS ? b->lb : b->rb) != b->n || b->ob != b->n)
            continue;
        sharding_id to_out = product_map(b->p, x.sharding, side, OUTPUT);
        sharding_id to_other = product_map(b->p, x.sharding, side, other);
        if (to_out.i != b->out.i || !to_other.i)
            continue;
        if (cheap && !permutable(s, y.sharding, to_other) &&
            !exchangeable(s, y.sharding, to_other))
            continue;
        y = reshard(s, y, to_other);
        *res = base_finish(b, side == LHS ? x : y, side == LHS ? y : x, to_out);
        return true;
    }
    return false;
}

static instr_id sum_along_contracting(const struct base_case *b, instr_id x, struct pval operand,
                                      int side)
{
    struct spmd *s = b->p->s;
    int dims[OPS_MAX_RANK], n = product_dims(b->p, CONTRACT, side, dims);
    const char *old = because(s, "partial sums of the contracting dimension (S-174)");
    x = emit_reduce_along(s, x, adder(s, node_shape(s, x)->dtype), operand.sharding, n, dims);
    s->reason = old;
    return x;
}

/* S-174 */
static bool base_contract(const struct base_case *b, bool match_only, struct pval *res)
{
    struct spmd *s = b->p->s;
    if (match_only && !sharding_is_replicated(s->sh, b->out) &&
        sharding_num_tiles(s->sh, b->out) != b->n)
        return false;
    struct pval l = b->l, r = b->r;
    if (base_of(s, l)->bytes < base_of(s, r)->bytes)
        l = reshard(s, l, product_map(b->p, r.sharding, RHS, LHS));
    else
        r = reshard(s, r, product_map(b->p, l.sharding, LHS, RHS));
    l = mask_zero(s, l, 0);
    r = mask_zero(s, r, 0);
    instr_id x = product_local(b->p, l.local, r.local, NULL);
    x = sum_along_contracting(b, x, l, LHS);
    *res = reshard(s, pval_make(s, x, b->base, sharding_replicated(s->sh)), b->out);
    return true;
}

/* Lines 6 and 7: an operand and the output agree on its free dims. */
static bool base_free(const struct base_case *b, int side, struct pval *res)
{
    struct spmd *s = b->p->s;
    struct pval x = side == LHS ? b->l : b->r, y = side == LHS ? b->r : b->l;
    if ((side == LHS ? b->ll : b->rr) != b->n || (side == LHS ? b->ol : b->or_) != b->n)
        return false;
    sharding_id to_out = product_map(b->p, x.sharding, side, OUTPUT);
    if (to_out.i != b->out.i)
        return false;
    y = replicate(s, y);
    *res = base_finish(b, side == LHS ? x : y, side == LHS ? y : x, to_out);
    return true;
}

/* Lines 8 to 10: what the output is tiled on decides. */
static bool base_output(const struct base_case *b, struct pval *res)
{
    struct spmd *s = b->p->s;
    bool batch = b->ob == b->n, left = b->ol == b->n, right = b->or_ == b->n;
    sharding_id to_l = product_map(b->p, b->out, OUTPUT, LHS);
    sharding_id to_r = product_map(b->p, b->out, OUTPUT, RHS);
    struct pval l, r;
    if (batch && to_l.i && to_r.i) {
        l = reshard(s, b->l, to_l);
        r = reshard(s, b->r, to_r);
    } else if (left && to_l.i) {
        l = reshard(s, b->l, to_l);
        r = replicate(s, b->r);
    } else if (right && to_r.i) {
        r = reshard(s, b->r, to_r);
        l = replicate(s, b->l);
    } else {
        return false;
    }
    *res = base_finish(b, l, r, b->out);
    return true;
}

/* Lines 11 and 12: the replicated operand is cut as the tiled one is. */
static bool base_half_contract(const struct base_case *b, struct pval *res)
{
    struct spmd *s = b->p->s;
    if (!sharding_is_replicated(s->sh, b->out))
        return false;
    int64_t out = shape_get(s->ir, b->base)->count;
    struct pval l = b->l, r = b->r;
    if (b->rc == b->n && sharding_is_replicated(s->sh, l.sharding) && base_of(s, r)->count > out)
        l = reshard(s, l, product_map(b->p, r.sharding, RHS, LHS));
    else if (b->lc == b->n && sharding_is_replicated(s->sh, r.sharding) &&
             base_of(s, l)->count > out)
        r = reshard(s, r, product_map(b->p, l.sharding, LHS, RHS));
    else
        return false;
    l = mask_zero(s, l, 0);
    r = mask_zero(s, r, 0);
    instr_id x = product_local(b->p, l.local, r.local, NULL);
    x = sum_along_contracting(b, x, l, LHS);
    *res = pval_make(s, x, b->base, b->out);
    return true;
}

static bool product_base(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n, bool match_only, struct pval *res)
{
    struct spmd *s = p->s;
    if (sharding_is_partial(s->sh, l.sharding) || sharding_is_partial(s->sh, r.sharding) ||
        sharding_is_partial(s->sh, out))
        return false;
    struct base_case b = { .p = p, .l = l, .r = r, .base = base, .out = out, .n = n };
    b.lb = product_count(p, l.sharding, BATCH, LHS);
    b.rb = product_count(p, r.sharding, BATCH, RHS);
    b.ob = product_count(p, out, BATCH, OUTPUT);
    b.lc = product_count(p, l.sharding, CONTRACT, LHS);
    b.rc = product_count(p, r.sharding, CONTRACT, RHS);
    b.ll = product_count(p, l.sharding, LFREE, LHS);
    b.rr = product_count(p, r.sharding, RFREE, RHS);
    b.ol = product_count(p, out, LFREE, OUTPUT);
    b.or_ = product_count(p, out, RFREE, OUTPUT);

    if (b.lb == n && b.rb == n && product_map(p, l.sharding, LHS, RHS).i == r.sharding.i) {
        sharding_id label = product_map(p, l.sharding, LHS, OUTPUT);
        if (label.i) {
            *res = base_finish(&b, l, r, label);
            return true;
        }
    }
    if (base_batch(&b, true, res) || product_windowed(p, l, r, base, out, n, res) ||
        base_batch(&b, false, res))
        return true;
    if (b.lc == n && b.rc == n && base_contract(&b, match_only, res))
        return true;
    if (base_free(&b, LHS, res) || base_free(&b, RHS, res))
        return true;
    if (!match_only && base_output(&b, res))
        return true;
    return base_half_contract(&b, res);
}

/* ---- recursion, S-171, S-172 -------------------------------------------------------------------- */

/* Step 6 of S-172: both operands whole, the output in copies. */
static bool group_on_output_copies(struct product *p, struct pval l, struct pval r, shape_id base,
                                   sharding_id out, struct pval *res)
{
    struct spmd *s = p->s;
    int axis = sharding_rep_axis(s->sh, out);
    if (!sharding_is_replicated(s->sh, l.sharding) || !sharding_is_replicated(s->sh, r.sharding) ||
        !sharding_is_partial(s->sh, out) || axis < 0)
        return false;
    struct sharding_group g;
    sharding_group_on(s->sh, out, 1, &axis, NULL, &g);
    int64_t inside = sharding_num_tiles(s->sh, out);
    groups_enter(s, g.groups);
    struct pval x = product_partition(p, l, r, base, g.inner, inside);
    groups_leave(s);
    *res = pval_make(s, x.local, base, out);
    return true;
}

bool product_once(struct product *p, struct pval l, struct pval r, shape_id base, sharding_id out,
                  int64_t n, bool strict, struct pval *res)
{
    int conv = p->convolution ? product_convolution(p, l, r, base, out, n, strict, res) : 0;
    if (conv != 0)
        return conv > 0;
    return product_base(p, l, r, base, out, n, true, res) ||
           product_group_batch(p, l, r, base, out, n, strict, res) ||
           product_group_free(p, l, r, base, out, n, strict, res) ||
           product_group_contract(p, l, r, base, out, n, strict, res) ||
           group_on_output_copies(p, l, r, base, out, res) ||
           product_base(p, l, r, base, out, n, false, res);
}

struct pval product_partition(struct product *p, struct pval l, struct pval r, shape_id base,
                              sharding_id out, int64_t n)
{
    struct spmd *s = p->s;
    struct pval res;
    if (product_once(p, l, r, base, out, n, true, &res) ||
        product_once(p, l, r, base, out, n, false, &res))
        return res;
    if (p->grouped && conv_whole_groups(p, l, r, base, out, &res))
        return res;
    sharding_id to_l = { 0 }, to_r = { 0 };
    if (p->n[SPATIAL] == 0 && !p->grouped) {
        to_l = product_infer(p, out, l.sharding, LHS, false);
        to_r = product_infer(p, out, r.sharding, RHS, false);
    }
    if (to_l.i && to_r.i) {
        l = reshard(s, l, to_l);
        r = reshard(s, r, to_r);
        return pval_make(s, product_local(p, l.local, r.local, NULL), base, out);
    }
    l = replicate(s, l);
    r = replicate(s, r);
    instr_id x = product_local(p, l.local, r.local, p->window);
    return reshard(s, pval_make(s, x, base, sharding_replicated(s->sh)), out);
}

/* ---- the handler -------------------------------------------------------------------------------- */

void product_add_dim(struct product *p, enum product_class c, int l, int r, int o)
{
    p->dims[c][p->n[c]++] = (struct product_dim){ { l, r, o } };
}

/* Its dims and steps are thousands of bytes, and each is written before it is read. */
static void product_open(struct product *p, struct spmd *s, instr_id source)
{
    p->s = s;
    p->source = source;
    memset(p->n, 0, sizeof p->n);
    p->convolution = p->grouped = p->cut_twice = false;
    p->window = NULL;
    p->nwindow = p->nsteps = p->loops = 0;
}

static void dot_classes(struct product *p)
{
    struct dot_dims d;
    instr_dot_dims(p->s->src, p->source, &d);
    int o = 0;
    for (int i = 0; i < d.nbatch; i++)
        product_add_dim(p, BATCH, d.lhs_batch[i], d.rhs_batch[i], o++);
    for (int i = 0; i < d.nlhs_free; i++)
        product_add_dim(p, LFREE, d.lhs_free[i], -1, o++);
    for (int i = 0; i < d.nrhs_free; i++)
        product_add_dim(p, RFREE, -1, d.rhs_free[i], o++);
    for (int i = 0; i < d.ncontract; i++)
        product_add_dim(p, CONTRACT, d.lhs_contract[i], d.rhs_contract[i], -1);
}

void partition_dot(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    struct product here, *p = &here;
    product_open(p, s, source);
    p->rank[LHS] = source_shape(s, in->operands[0])->rank;
    p->rank[RHS] = source_shape(s, in->operands[1])->rank;
    p->rank[OUTPUT] = source_shape(s, source)->rank;
    int64_t device;
    sharding_id out = source_sharding(s, source);
    if (sharding_unique_device(s->sh, out, &device) || p->rank[LHS] >= OPS_MAX_RANK ||
        p->rank[RHS] >= OPS_MAX_RANK || p->rank[OUTPUT] >= OPS_MAX_RANK) {
        partition_default(s, source, NULL);
        return;
    }
    dot_classes(p);
    struct pval l = operand_value(s, source, 0), r = operand_value(s, source, 1);
    if (l.local.i == r.local.i) /* S-170 */
        r = pval_make(s, emit_copy(s, r.local), r.base, r.sharding);
    set_value(s, source, product_partition(p, l, r, in->shape, out, group_devices(s)));
}
