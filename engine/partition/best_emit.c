/* The nodes of a plan (best.h, best_search.c).
 *
 * A state of a plan is no sharding: its tiles may be of other sizes than the partitioner's rule makes
 * them (S-12), so steps work on the local arrays, and only the last one's is a shard of the target.
 */
#include "partition/best_emit.h"

#include <string.h>

#include "base/fail.h"

struct emitter {
    struct spmd *s;
    const struct best_plan *plan;
    const struct shape *base;
    comp_id reducer; /* of what is owed */
};

static int real_dim(const struct emitter *e, int d)
{
    return e->plan->dim[d];
}

/* ---- tilings of states ------------------------------------------------------------------------------ */

/* Axes of the given atoms, one each, behind one axis of all others. */
static struct tiling minor_atoms(const struct emitter *e, int system, int n, const uint8_t *atoms,
                                 int naxes, const int64_t *sizes)
{
    struct digit digits[BEST_ATOMS];
    int64_t dims[BEST_DIMS + 2], rest = 1;
    const struct digit *atom = e->plan->atom[system];
    bool minor[BEST_ATOMS] = { false };
    int k = 0;
    for (int i = 0; i < n; i++)
        minor[atoms[i]] = true;
    for (int a = 0; a < e->plan->natoms[system]; a++)
        if (!minor[a]) {
            digits[k++] = atom[a];
            digits[k - 1].reversed = false;
            rest *= atom[a].radix;
        }
    for (int i = 0; i < n; i++)
        digits[k++] = atom[atoms[i]];
    dims[0] = rest;
    memcpy(dims + 1, sizes, (size_t)naxes * sizeof *dims);
    return tiling_make(e->s->sh, naxes + 1, dims, order_of_digits(e->s, k, digits));
}

static int64_t radixes(const struct emitter *e, const struct best_step *p)
{
    int64_t g = 1;
    for (int i = 0; i < p->nmoved; i++)
        g *= e->plan->atom[p->system][p->moved[i]].radix;
    return g;
}

/* [groups, members in the order of the moved atoms] */
static struct tiling groups_of_step(const struct emitter *e, const struct best_step *p)
{
    int64_t g = radixes(e, p);
    return minor_atoms(e, p->system, p->nmoved, p->moved, 1, &g);
}

/* The devices of a state: a tiling of the dimensions that take part, then the copies. */
static struct tiling state_tiling(const struct emitter *e, int system, const struct best_state *st)
{
    const struct best_plan *p = e->plan;
    struct digit digits[BEST_ATOMS];
    int64_t dims[BEST_DIMS + 1];
    int k = 0;
    for (int d = 0; d < p->ndims; d++) {
        dims[d] = 1;
        for (int pos = 0; pos < 16; pos++)
            for (int a = 0; a < p->natoms[system]; a++)
                if (st->at[a] == (d << 4 | pos)) {
                    digits[k++] = p->atom[system][a];
                    dims[d] *= p->atom[system][a].radix;
                }
    }
    dims[p->ndims] = 1;
    for (int a = 0; a < p->natoms[system]; a++)
        if (st->at[a] >= BEST_OWED) {
            digits[k++] = p->atom[system][a];
            dims[p->ndims] *= p->atom[system][a].radix;
        }
    return tiling_make(e->s->sh, p->ndims + 1, dims, order_of_digits(e->s, k, digits));
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Dimension d grows to `size` with zeros at its end. */
static instr_id pad_to(const struct emitter *e, instr_id x, int d, int64_t size)
{
    int64_t high[RANK_ROOM] = { 0 };
    high[d] = size - node_shape(e->s, x)->dims[d];
    if (high[d] > 0)
        pads_high(e->s, &x, high, (instr_id){ 0 });
    return x;
}

static instr_id cut_to(const struct emitter *e, instr_id x, int d, int64_t size)
{
    const struct shape *sh = node_shape(e->s, x);
    int64_t start[RANK_ROOM] = { 0 }, limit[RANK_ROOM];
    if (sh->dims[d] <= size)
        return x;
    memcpy(limit, sh->dims, (size_t)sh->rank * sizeof *limit);
    limit[d] = size;
    return emit_slice(e->s, x, start, limit, NULL);
}

static int dim_of(uint8_t place)
{
    return place >> 4;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

/* Slices in a row: steps first .. last - 1. One dynamic-slice at offsets that the moved atoms give. */
static instr_id slice_steps(const struct emitter *e, instr_id x, int first, int last)
{
    struct spmd *s = e->s;
    const struct best_plan *p = e->plan;
    const struct best_state *after = &p->steps[last - 1].after;
    int system = p->steps[first].system, n = 0, rank = node_shape(s, x)->rank;
    uint8_t atoms[BEST_ATOMS];
    int64_t sizes[RANK_ROOM], g[BEST_DIMS], axes[RANK_ROOM];
    instr_id at[RANK_ROOM] = { { 0 } };
    bool even = true;
    for (int d = 0; d < p->ndims; d++) {
        g[d] = 1;
        for (int i = first; i < last; i++)
            if (dim_of(p->steps[i].after.at[p->steps[i].moved[0]]) == d) {
                atoms[n++] = p->steps[i].moved[0];
                g[d] *= p->atom[system][atoms[n - 1]].radix;
            }
        if (g[d] > 1) {
            even = even && after->size[d] * g[d] == node_shape(s, x)->dims[real_dim(e, d)];
            x = pad_to(e, x, real_dim(e, d), after->size[d] * g[d]);
        }
    }
    memcpy(sizes, node_shape(s, x)->dims, (size_t)rank * sizeof *sizes);
    for (int d = 0; d < rank; d++)
        axes[d] = 1;
    for (int d = 0; d < p->ndims; d++)
        axes[real_dim(e, d)] = g[d];
    struct tiling t = tiling_in_devices(s, minor_atoms(e, system, n, atoms, p->ndims, g));
    for (int d = 0; d < p->ndims; d++) {
        int r = real_dim(e, d);
        if (g[d] == 1)
            continue;
        sizes[r] = after->size[d];
        at[r] = axis_index_node(s, t, d + 2);
        if (sizes[r] != 1)
            at[r] = emit_arith(s, OP_MULTIPLY, at[r], emit_const_i(s, DTYPE_S32, sizes[r]));
    }
    instr_id y = emit_dynamic_slice(s, x, at, sizes);
    if (even && y.i != x.i) { /* axes of the cut: one a dimension of the array, others merged in front */
        int64_t dims[RANK_ROOM];
        dims[0] = t.dims[0] * t.dims[1];
        memcpy(dims + 1, axes, (size_t)rank * sizeof *dims);
        note_cut(s, y, tiling_reshape(s->sh, t, rank + 1, dims));
    }
    return y;
}

/* All of a dimension, of more shards than elements: a sum (S-68). */
static bool summed_whole(const struct emitter *e, const struct best_step *p, int d, instr_id *x)
{
    struct spmd *s = e->s;
    int r = real_dim(e, d);
    int64_t n = e->base->dims[r], g = radixes(e, p);
    if (p->before.size[d] != ceil_div(n, g) || (p->before.size[d] != n && n > g / 2))
        return false;
    /* As the partitioner does it; the other dimensions are not looked at. */
    int rank = e->base->rank;
    int64_t axes[RANK_ROOM], base[RANK_ROOM];
    for (int i = 0; i < rank; i++) {
        axes[i] = i == r ? g : 1;
        base[i] = i == r ? n : node_shape(s, *x)->dims[i];
    }
    struct tiling groups = groups_of_step(e, p);
    /* minor: the atoms; major: the rest, which are copies here. */
    int64_t flip[2] = { groups.dims[0], groups.dims[1] };
    int perm[2] = { 1, 0 };
    struct tiling t = tiling_transpose(s->sh, tiling_reshape(s->sh, groups, 2, flip), perm);
    axes[rank] = groups.dims[0];
    sharding_id sh = groups.dims[0] > 1
                         ? sharding_partial(s->sh, tiling_reshape(s->sh, t, rank + 1, axes))
                         : sharding_plain(s->sh, tiling_reshape(s->sh, t, rank, axes));
    struct pval v = { *x, shape_array(s->ir, e->base->dtype, rank, base), sh };
    *x = unshard_dims(s, v, 1, &r).local;
    return true;
}

static instr_id gather_step(const struct emitter *e, const struct best_step *p, instr_id x)
{
    int d = dim_of(p->before.at[p->moved[0]]), r = real_dim(e, d);
    bool whole = (p->before.at[p->moved[0]] & 15) == 0;
    if (whole && summed_whole(e, p, d, &x))
        return x;
    x = emit_all_gather(e->s, x, r, groups_of_step(e, p));
    return cut_to(e, x, r, p->after.size[d]);
}

/* The minor ends of some dimensions leave, those of others grow. Chunks are numbered by the receiver's
 * digits of the moved atoms, and what comes is numbered by the sender's. */
static instr_id exchange_step(const struct emitter *e, const struct best_step *p, instr_id x)
{
    struct spmd *s = e->s;
    const struct digit *atom = e->plan->atom[p->system];
    int rank = node_shape(s, x)->rank, n = 0, m = p->nmoved, at[BEST_ATOMS] = { 0 };
    int64_t dims[RANK_ROOM], size[RANK_ROOM], g = radixes(e, p);
    int perm[RANK_ROOM], slot[RANK_ROOM];
    for (int d = 0; d < e->plan->ndims; d++) {
        int64_t grown = 1;
        for (int i = 0; i < m; i++)
            if (dim_of(p->after.at[p->moved[i]]) == d)
                grown *= atom[p->moved[i]].radix;
        if (grown > 1)
            x = pad_to(e, x, real_dim(e, d), p->after.size[d] * grown);
    }
    memcpy(size, node_shape(s, x)->dims, (size_t)rank * sizeof *size);
    for (int r = 0; r < rank; r++) { /* (digits of the receiver, size) for each that grows */
        for (int i = 0; i < m; i++)
            if (real_dim(e, dim_of(p->after.at[p->moved[i]])) == r) {
                at[i] = n;
                dims[n++] = atom[p->moved[i]].radix;
                size[r] /= atom[p->moved[i]].radix;
            }
        slot[r] = n;
        dims[n++] = size[r];
    }
    INVARIANT(n + 1 < RANK_ROOM, "rank %d", n);
    int k = 0;
    for (int i = 0; i < m; i++)
        perm[k++] = at[i];
    for (int r = 0; r < rank; r++)
        perm[k++] = slot[r];
    x = emit_transpose(s, emit_reshape(s, x, n, dims), perm);
    dims[0] = g;
    memcpy(dims + 1, size, (size_t)rank * sizeof *size);
    x = emit_reshape(s, x, rank + 1, dims);
    x = emit_all_to_all(s, x, 0, groups_of_step(e, p));
    for (int i = 0; i < m; i++)
        dims[i] = atom[p->moved[i]].radix;
    memcpy(dims + m, size, (size_t)rank * sizeof *size);
    x = emit_reshape(s, x, m + rank, dims);
    k = 0;
    for (int r = 0; r < rank; r++) { /* (digits of the sender by place, size) for each that shrinks */
        for (int pos = 0; pos < 16; pos++)
            for (int i = 0; i < m; i++) {
                uint8_t from = p->before.at[p->moved[i]];
                if (real_dim(e, dim_of(from)) != r || (from & 15) != pos)
                    continue;
                perm[k++] = i;
                size[r] *= atom[p->moved[i]].radix;
            }
        perm[k++] = m + r;
    }
    x = emit_reshape(s, emit_transpose(s, x, perm), rank, size);
    for (int d = 0; d < e->plan->ndims; d++)
        x = cut_to(e, x, real_dim(e, d), p->after.size[d]);
    return x;
}

static instr_id permute_step(const struct emitter *e, const struct best_step *p, instr_id x)
{
    struct permute_pairs pairs = { .kind = PAIRS_TILINGS,
                                   .from = state_tiling(e, 0, &p->before),
                                   .to = state_tiling(e, 1, &p->after) };
    return emit_permute(e->s, x, &pairs);
}

static instr_id scatter_step(const struct emitter *e, const struct best_step *p, instr_id x)
{
    int d = dim_of(p->after.at[p->moved[0]]), r = real_dim(e, d);
    x = pad_to(e, x, r, p->after.size[d] * radixes(e, p));
    return emit_reduce_scatter(e->s, x, e->reducer, r, groups_of_step(e, p));
}

static instr_id step(const struct emitter *e, const struct best_step *p, instr_id x)
{
    switch (p->kind) {
    case BEST_GATHER:
        return gather_step(e, p, x);
    case BEST_EXCHANGE:
        return exchange_step(e, p, x);
    case BEST_PERMUTE:
        return permute_step(e, p, x);
    case BEST_SCATTER:
        return scatter_step(e, p, x);
    case BEST_REDUCE:
        return emit_all_reduce(e->s, x, e->reducer, groups_of_step(e, p));
    case BEST_SLICE:
        break;
    }
    return x;
}

instr_id best_emit(struct spmd *s, const struct best_plan *p, const struct shape *base, instr_id x,
                   comp_id reducer)
{
    struct emitter e = { .s = s, .plan = p, .base = base, .reducer = reducer };
    for (int i = 0; i < p->nsteps; i++) {
        int last = i;
        while (last < p->nsteps && p->steps[last].kind == BEST_SLICE)
            last++;
        if (last > i) {
            x = slice_steps(&e, x, i, last);
            i = last - 1;
        } else {
            x = step(&e, &p->steps[i], x);
        }
    }
    return x;
}
