/* partitioner=best: products by total bytes.
 *
 * A product is a nest of loops: batch, free and contracting dimensions. Every atom of the device
 * number (best.h) may split one loop, or none; the operands' and the result's shardings follow, and a
 * sum is owed over the atoms on contracting loops. What an atom may do is what it does in one of the
 * three shardings that are given: so "gather the lhs", "gather the rhs", "partial sums, then
 * reduce-scatter or all-reduce", and every mixture by mesh axis, are among the candidates. The price
 * of one is that of three plans: both operands to their shardings, the result to its own.
 */
#include "partition/best_emit.h"

#include <string.h>

#include "base/fail.h"
#include "partition/dot.h"

enum { LOOPS = 32, ROLES = 4, CANDIDATES = 320, MEMO = 64 };

struct loop {
    int side[3]; /* its dimension in lhs, rhs and result; -1: not there */
    int64_t size;
};

/* An atom on a loop; loop -1: on none. */
struct role {
    int loop, pos, from; /* from: which sharding says so */
};

struct search {
    struct spmd *s;
    struct pval v[2];
    sharding_id out;
    const struct shape *shape[3];
    int nloops, natoms;
    struct loop loops[LOOPS];
    struct digit atom[BEST_ATOMS];
    int nroles[BEST_ATOMS];
    struct role roles[BEST_ATOMS][ROLES];
    int pick[BEST_ATOMS]; /* under way */
    int64_t limit, flops;
    /* the cheapest so far */
    bool found;
    sharding_id best[3];
    int nowed;
    struct digit owed[BEST_ATOMS];
    struct best_plan settle;
    /* prices known */
    int nmemo;
    struct {
        int side;
        sharding_id to;
        int64_t bytes;
    } memo[MEMO];
};

static void add_loop(struct search *x, int l, int r, int o)
{
    int64_t size = l >= 0 ? x->shape[0]->dims[l] : x->shape[1]->dims[r];
    x->loops[x->nloops++] = (struct loop){ { l, r, o }, size };
}

static bool make_loops(struct search *x, instr_id source)
{
    struct dot_dims d;
    instr_dot_dims(x->s->src, source, &d);
    int o = 0;
    if (d.nbatch + d.nlhs_free + d.nrhs_free + d.ncontract > LOOPS)
        return false;
    for (int i = 0; i < d.nbatch; i++)
        add_loop(x, d.lhs_batch[i], d.rhs_batch[i], o++);
    for (int i = 0; i < d.nlhs_free; i++)
        add_loop(x, d.lhs_free[i], -1, o++);
    for (int i = 0; i < d.nrhs_free; i++)
        add_loop(x, -1, d.rhs_free[i], o++);
    for (int i = 0; i < d.ncontract; i++)
        add_loop(x, d.lhs_contract[i], d.rhs_contract[i], -1);
    return true;
}

static int loop_of(const struct search *x, int side, int dim)
{
    for (int i = 0; i < x->nloops; i++)
        if (x->loops[i].side[side] == dim)
            return i;
    return -1;
}

/* What each atom does in the three shardings. */
static bool make_roles(struct search *x)
{
    sharding_id list[3] = { x->v[0].sharding, x->v[1].sharding, x->out };
    if (!best_common_atoms(x->s->sh, 3, list, x->s->groups->size, x->atom, &x->natoms))
        return false;
    for (int a = 0; a < x->natoms; a++)
        x->roles[a][x->nroles[a]++] = (struct role){ .loop = -1 };
    bool flag[BEST_ATOMS] = { false }, placed[BEST_ATOMS] = { false };
    static const int sides[3] = { OUTPUT, LHS, RHS };
    for (int k = 0; k < 3; k++) {
        int dim[BEST_ATOMS], pos[BEST_ATOMS];
        bool reversed[BEST_ATOMS] = { false };
        if (!best_places(x->s->sh, list[sides[k]], x->natoms, x->atom, dim, pos, reversed))
            return false;
        for (int a = 0; a < x->natoms; a++) {
            if (dim[a] < 0)
                continue;
            if (placed[a] && flag[a] != reversed[a])
                return false;
            placed[a] = true;
            flag[a] = reversed[a];
            struct role r = { loop_of(x, sides[k], dim[a]), pos[a], k };
            bool met = r.loop < 0;
            for (int i = 0; i < x->nroles[a]; i++)
                met = met || (x->roles[a][i].loop == r.loop && x->roles[a][i].pos == r.pos);
            if (!met)
                x->roles[a][x->nroles[a]++] = r;
        }
    }
    for (int a = 0; a < x->natoms; a++)
        x->atom[a].reversed = flag[a];
    return true;
}

/* ---- candidates ------------------------------------------------------------------------------------------ */

static struct role role(const struct search *x, int a)
{
    return x->roles[a][x->pick[a]];
}

/* Atoms on loop l, major first. */
static int on_loop(const struct search *x, int l, int *atoms)
{
    int n = 0;
    for (int a = 0; a < x->natoms; a++) {
        struct role r = role(x, a);
        if (r.loop != l)
            continue;
        int k = n++;
        for (; k > 0; k--) {
            struct role q = role(x, atoms[k - 1]);
            if (q.pos < r.pos || (q.pos == r.pos && q.from <= r.from))
                break;
            atoms[k] = atoms[k - 1];
        }
        atoms[k] = a;
    }
    return n;
}

static int64_t tiles_of_loop(const struct search *x, int l)
{
    int atoms[BEST_ATOMS], n = on_loop(x, l, atoms);
    int64_t t = 1;
    for (int i = 0; i < n; i++)
        t *= x->atom[atoms[i]].radix;
    return t;
}

static int64_t local_flops(const struct search *x)
{
    int64_t n = 2;
    for (int l = 0; l < x->nloops; l++)
        if (!mul_ok(n, ceil_div(x->loops[l].size, tiles_of_loop(x, l)), &n))
            return INT64_MAX;
    return n;
}

static sharding_id sharding_of_side(const struct search *x, int side)
{
    struct spmd *s = x->s;
    int rank = x->shape[side]->rank, k = 0;
    int64_t dims[RANK_ROOM];
    struct digit digits[BEST_ATOMS];
    bool used[BEST_ATOMS] = { false };
    for (int d = 0; d < rank; d++) {
        int atoms[BEST_ATOMS], n = on_loop(x, loop_of(x, side, d), atoms);
        dims[d] = 1;
        for (int i = 0; i < n; i++) {
            digits[k++] = x->atom[atoms[i]];
            dims[d] *= x->atom[atoms[i]].radix;
            used[atoms[i]] = true;
        }
    }
    if (k == 0)
        return sharding_replicated(s->sh);
    dims[rank] = 1;
    for (int a = 0; a < x->natoms; a++)
        if (!used[a]) {
            digits[k] = x->atom[a];
            digits[k++].reversed = false;
            dims[rank] *= x->atom[a].radix;
        }
    bool copies = dims[rank] > 1;
    struct tiling t = tiling_make(s->sh, rank + copies, dims, order_of_digits(s, k, digits));
    return copies ? sharding_partial(s->sh, t) : sharding_plain(s->sh, t);
}

static struct best_problem problem(const struct search *x, int side, sharding_id from, sharding_id to,
                                   int64_t limit)
{
    return (struct best_problem){ .t = x->s->sh, .rank = x->shape[side]->rank,
                                  .dims = x->shape[side]->dims,
                                  .bytes = dtype_bytes(x->shape[side]->dtype),
                                  .ndevices = x->s->groups->size, .from = from, .to = to,
                                  .limit_bytes = limit, .limit_collectives = 1000 };
}

/* Bytes to bring an operand to a sharding; more than x->limit: not to be had. */
static int64_t price(struct search *x, int side, sharding_id to)
{
    if (to.i == x->v[side].sharding.i)
        return 0;
    for (int i = 0; i < x->nmemo; i++)
        if (x->memo[i].side == side && x->memo[i].to.i == to.i)
            return x->memo[i].bytes;
    struct best_plan plan;
    struct best_problem p = problem(x, side, x->v[side].sharding, to, x->limit);
    int64_t bytes = best_plan(&p, &plan) ? plan.bytes : INT64_MAX / 4;
    if (x->nmemo < MEMO) {
        x->memo[x->nmemo].side = side;
        x->memo[x->nmemo].to = to;
        x->memo[x->nmemo++].bytes = bytes;
    }
    return bytes;
}

static void consider(struct search *x)
{
    if (local_flops(x) > x->flops)
        return;
    sharding_id l = sharding_of_side(x, LHS), r = sharding_of_side(x, RHS);
    sharding_id o = sharding_of_side(x, OUTPUT);
    int64_t bytes = price(x, LHS, l);
    if (bytes >= x->limit)
        return;
    bytes += price(x, RHS, r);
    if (bytes >= x->limit)
        return;
    struct digit owed[BEST_ATOMS];
    int nowed = 0;
    for (int a = 0; a < x->natoms; a++)
        if (role(x, a).loop >= 0 && x->loops[role(x, a).loop].side[OUTPUT] < 0)
            owed[nowed++] = x->atom[a];
    struct best_plan plan = { 0 };
    if (nowed > 0 || o.i != x->out.i) {
        struct best_problem p = problem(x, OUTPUT, o, x->out, x->limit - bytes);
        p.nowed = nowed;
        p.owed = owed;
        if (!best_plan(&p, &plan))
            return;
        bytes += plan.bytes;
    }
    if (bytes >= x->limit)
        return;
    x->limit = bytes;
    x->found = true;
    x->best[LHS] = l;
    x->best[RHS] = r;
    x->best[OUTPUT] = o;
    x->nowed = nowed;
    memcpy(x->owed, owed, sizeof owed);
    x->settle = plan;
}

static void consider_all(struct search *x)
{
    for (int tried = 0; tried < CANDIDATES && x->limit > 0; tried++) {
        consider(x);
        int a = 0;
        while (a < x->natoms && x->pick[a] + 1 == x->nroles[a])
            x->pick[a++] = 0;
        if (a == x->natoms)
            return;
        x->pick[a]++;
    }
}

/* ---- the way --------------------------------------------------------------------------------------------- */

/* What the products of a trial compute on a device. -1: there is none. */
static int64_t flops_of(const struct spmd *s, const struct best_trial *t)
{
    int64_t sum = -1;
    for (uint32_t i = t->first; i <= t->last; i++) {
        instr_id n = { i };
        if (instr_at(s->out, n)->op != OP_DOT || best_rejected(s, n))
            continue;
        struct dot_dims d;
        instr_dot_dims(s->out, n, &d);
        int64_t f = 2 * node_shape(s, n)->count;
        const struct shape *l = node_shape(s, instr_operand(s->out, n, 0));
        for (int k = 0; k < d.ncontract; k++)
            if (!mul_ok(f, l->dims[d.lhs_contract[k]], &f))
                return -1;
        if (!add_ok(sum < 0 ? 0 : sum, f, &sum))
            return -1;
    }
    return sum;
}

static uint64_t contracting(const struct search *x, int side)
{
    uint64_t b = 0;
    for (int l = 0; l < x->nloops; l++)
        if (x->loops[l].side[OUTPUT] < 0)
            b |= bit(x->loops[l].side[side]);
    return b;
}

static struct pval emit_product(struct search *x, instr_id source)
{
    struct spmd *s = x->s;
    const struct instr *in = instr_at(s->src, source);
    instr_id ops[2];
    for (int side = 0; side < 2; side++) {
        struct pval v = reshard(s, x->v[side], x->best[side]);
        ops[side] = mask_zero(s, v, ~contracting(x, side)).local;
    }
    if (ops[0].i == ops[1].i)
        ops[1] = emit_copy(s, ops[1]);
    shape_id shape = shard_shape(s, in->shape, x->best[OUTPUT]);
    struct pval y = { emit_clone(s, source, shape, 2, ops), in->shape, x->best[OUTPUT] };
    struct str way = STR_IN(&s->arena), words = STR_IN(&s->arena);
    best_plan_words(&x->settle, &words);
    for (int side = 0; side < 2; side++)
        if (x->best[side].i != x->v[side].sharding.i)
            str_addf(&way, "%s resharded, ", side ? "rhs" : "lhs");
    if (x->nowed > 0)
        str_addf(&way, "partial sums: %s", str_text(&words));
    else
        str_addf(&way, "%s", x->best[OUTPUT].i == x->out.i ? "the product as it is wanted"
                                                          : "the product resharded");
    s->best->way = arena_strdup(&s->prog->arena, str_text(&way));
    if (x->nowed == 0)
        return y;
    s->reason = arena_printf(&s->prog->arena, "partial sums of the contracting dimension: %s (partitioner=best)",
                             str_text(&words));
    enum dtype t = x->shape[OUTPUT]->dtype;
    comp_id add = binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t);
    y.local = best_emit(s, &x->settle, x->shape[OUTPUT], y.local, add);
    y.sharding = x->out;
    return y;
}

static void try_product(struct search *x, instr_id source, const struct best_trial *xla, int64_t bytes,
                        struct pval *out)
{
    struct spmd *s = x->s;
    x->limit = bytes;
    x->flops = flops_of(s, xla);
    x->out = source_sharding(s, source);
    for (int side = 0; side < 2; side++) {
        x->v[side] = operand_value(s, source, (uint32_t)side);
        x->shape[side] = base_of(s, x->v[side]);
    }
    x->shape[OUTPUT] = source_shape(s, source);
    for (int side = 0; side < 3; side++)
        if (x->shape[side]->kind != SHAPE_ARRAY || x->shape[side]->rank > OPS_MAX_RANK ||
            x->shape[side]->count <= 0)
            return;
    if (x->flops < 0 || !make_loops(x, source) || !make_roles(x))
        return;
    consider_all(x);
    if (x->found)
        *out = emit_product(x, source);
}

bool best_way_dot(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                  struct pval *out)
{
    if (k > 0 || instr_at(s->src, source)->noperands != 2)
        return false;
    *out = (struct pval){ 0 };
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct search *x = ARENA_NEW(&tmp, struct search);
    x->s = s;
    try_product(x, source, xla, bytes, out);
    arena_close(&tmp);
    return true;
}
