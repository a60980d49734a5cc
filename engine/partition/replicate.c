/* Cutting shards out of whole values (S-48, S-52), and making values whole (S-65..S-70). */
#include "partition/reshard.h"

#include <string.h>

#include "base/fail.h"

static const struct shape *base_shape(const struct spmd *s, struct pval v)
{
    return shape_get(s->ir, v.base);
}

/* ---- cutting ------------------------------------------------------------------------------------------- */

void pads_high(struct spmd *s, instr_id *x, const int64_t *high, instr_id fill)
{
    const struct shape *sh = node_shape(s, *x);
    int64_t low[RANK_ROOM] = { 0 };
    INVARIANT(sh->rank <= RANK_ROOM, "rank %d", sh->rank);
    for (int d = 0; d < sh->rank; d++)
        if (high[d]) {
            if (!fill.i)
                fill = emit_zero(s, sh->dtype);
            *x = emit_pad(s, *x, fill, low, high, NULL);
            return;
        }
}

/* The shard of `to` out of a whole value: pad to full tiles (S-52), then cut at the offsets. */
instr_id cut_shard(struct spmd *s, instr_id x, sharding_id to, instr_id fill)
{
    const struct shape *sh = node_shape(s, x);
    int64_t high[RANK_ROOM], sizes[RANK_ROOM], dims[RANK_ROOM];
    instr_id at[RANK_ROOM];
    int rank = sh->rank;
    INVARIANT(rank <= RANK_ROOM, "rank %d", rank);
    memcpy(dims, sh->dims, (size_t)rank * sizeof *dims);
    bool even = true;
    for (int d = 0; d < rank; d++) {
        int64_t t = sharding_tile(s->sh, to, d);
        sizes[d] = ceil_div(dims[d], t);
        high[d] = sizes[d] * t - dims[d];
        even = even && high[d] == 0;
        at[d] = offset_node(s, to, d, dims[d]);
    }
    pads_high(s, &x, high, fill);
    instr_id y = emit_dynamic_slice(s, x, at, sizes);
    if (even && y.i != x.i)
        note_cut(s, y, tiling_in_devices(s, tiles_of(s, to)));
    return y;
}

void note_cut(struct spmd *s, instr_id n, struct tiling cut)
{
    if ((int64_t)n.i < s->info.n) {
        s->info.v[n.i].is_shard = true;
        s->info.v[n.i].cut = cut;
    }
}

/* S-48 */
struct pval slice_per_group(struct spmd *s, struct pval v, int n, const int *dims,
                            const int64_t *parts, const struct sharding_group *g)
{
    const struct shape *sh = node_shape(s, v.local);
    int64_t axes[RANK_ROOM], high[RANK_ROOM] = { 0 }, sizes[RANK_ROOM], base[RANK_ROOM];
    instr_id at[RANK_ROOM] = { { 0 } };
    INVARIANT(sh->rank <= RANK_ROOM && n < RANK_ROOM, "rank %d", sh->rank);
    memcpy(sizes, sh->dims, (size_t)sh->rank * sizeof *sizes);
    for (int i = 0; i < n; i++)
        axes[i] = parts[i];
    axes[n] = g->groups.dims[1];
    struct tiling t = tiling_reshape(s->sh, g->groups, n + 1, axes);
    struct tiling in_devices = tiling_in_devices(s, t);
    for (int i = 0; i < n; i++) {
        int d = dims[i];
        if (d >= sh->rank || parts[i] == 1)
            continue;
        sizes[d] = ceil_div(sh->dims[d], parts[i]);
        high[d] = sizes[d] * parts[i] - sh->dims[d];
        at[d] = axis_index_node(s, in_devices, i + 1);
        if (sizes[d] != 1)
            at[d] = emit_arith(s, OP_MULTIPLY, at[d], emit_const_i(s, DTYPE_S32, sizes[d]));
    }
    const struct shape *b = base_shape(s, v);
    memcpy(base, b->dims, (size_t)b->rank * sizeof *base);
    for (int i = 0; i < n; i++)
        if (dims[i] < b->rank)
            base[dims[i]] = ceil_div(b->dims[dims[i]], parts[i]);
    pads_high(s, &v.local, high, (instr_id){ 0 });
    v.local = emit_dynamic_slice(s, v.local, at, sizes);
    v.base = shape_array(s->ir, b->dtype, b->rank, base);
    return v;
}

/* ---- replication, S-68..S-70 ---------------------------------------------------------------------------- */

static comp_id adder(struct spmd *s, enum dtype t) /* S-51 */
{
    return binary_computation(s, t == DTYPE_PRED ? OP_OR : OP_ADD, t);
}

static instr_id zeros(struct spmd *s, enum dtype t, int rank, const int64_t *dims)
{
    return emit_broadcast_scalar(s, emit_zero(s, t), rank, dims);
}

/* Only tile 0 along dims holds data: it is kept, the others add zero. S-68 1 */
static instr_id spread(struct spmd *s, instr_id x, sharding_id sh, int n, const int *dims)
{
    const struct shape *shape = node_shape(s, x);
    instr_id first = { 0 };
    for (int i = 0; i < n; i++) {
        instr_id is0 = emit_compare(s, "EQ", ordinal_node(s, sh, dims[i]),
                                    emit_const_i(s, DTYPE_S32, 0));
        first = first.i ? emit_arith(s, OP_AND, first, is0) : is0;
    }
    instr_id kept = emit_select(s, first, x, zeros(s, shape->dtype, shape->rank, shape->dims));
    return emit_all_reduce(s, kept, adder(s, shape->dtype),
                           sharding_groups_along(s->sh, sh, n, dims));
}

/* S-68 2, S-65 */
static instr_id gather(struct spmd *s, instr_id x, sharding_id sh, const struct shape *base, int n,
                       const int *dims)
{
    for (int i = n - 1; i >= 0; i--)
        x = emit_all_gather(s, x, dims[i], sharding_groups_along(s->sh, sh, 1, &dims[i]));
    const struct shape *shape = node_shape(s, x);
    int64_t start[RANK_ROOM] = { 0 }, limit[RANK_ROOM];
    memcpy(limit, shape->dims, (size_t)shape->rank * sizeof *limit);
    for (int i = 0; i < n; i++)
        limit[dims[i]] = min_i64(limit[dims[i]], base->dims[dims[i]]);
    return emit_slice(s, x, start, limit, NULL);
}

/* S-68 3: everybody writes its piece into zeros, and the sum is the whole. There is room for whole
 * tiles, so that none is clamped onto another's data; what lies behind the end is cut before the sum,
 * and with it the padding: no mask is needed. */
static instr_id accumulate(struct spmd *s, instr_id x, sharding_id sh, const struct shape *base,
                           int n, const int *dims)
{
    const struct shape *local = node_shape(s, x);
    int64_t whole[RANK_ROOM], room[RANK_ROOM], start[RANK_ROOM] = { 0 };
    instr_id at[RANK_ROOM] = { { 0 } };
    memcpy(whole, local->dims, (size_t)base->rank * sizeof *whole);
    memcpy(room, local->dims, (size_t)base->rank * sizeof *room);
    for (int i = 0; i < n; i++) {
        int d = dims[i];
        at[d] = offset_node(s, sh, d, base->dims[d]);
        whole[d] = base->dims[d];
        room[d] *= sharding_tile(s->sh, sh, d);
    }
    x = emit_dus(s, zeros(s, base->dtype, base->rank, room), x, at);
    x = emit_slice(s, x, start, whole, NULL);
    return emit_reduce_along(s, x, adder(s, base->dtype), sh, n, dims);
}

struct pval unshard_dims(struct spmd *s, struct pval v, int n, const int *dims)
{
    const struct shape *base = base_shape(s, v), *local = node_shape(s, v.local);
    int once[RANK_ROOM], whole[RANK_ROOM], sum[RANK_ROOM], all[RANK_ROOM];
    int nonce = 0, nwhole = 0, nsum = 0, nall = 0;
    for (int i = 0; i < n; i++) {
        int d = dims[i];
        int64_t t = sharding_tile(s->sh, v.sharding, d);
        if (d >= base->rank || t == 1)
            continue;
        all[nall++] = d;
        if (base->dims[d] == local->dims[d])
            once[nonce++] = d;
        else if (base->dims[d] <= t / 2)
            sum[nsum++] = d;
        else
            whole[nwhole++] = d;
    }
    if (!nall)
        return v;
    if (!s->opt->all_gather) { /* no such collective: they join those that are summed */
        for (int i = 0; i < nwhole; i++)
            sum[nsum++] = whole[i];
        nwhole = 0;
    }
    sharding_id to = sharding_replicate_dims(s->sh, v.sharding, nall, all);
    if (nonce)
        v.local = spread(s, v.local, v.sharding, nonce, once);
    if (nwhole)
        v.local = gather(s, v.local, v.sharding, base, nwhole, whole);
    if (nsum)
        v.local = accumulate(s, v.local, v.sharding, base, nsum, sum);
    v.sharding = to;
    return v;
}

/* S-70 */
static instr_id from_one_device(struct spmd *s, struct pval v, int64_t device)
{
    const struct shape *sh = node_shape(s, v.local);
    instr_id mine = emit_compare(s, "EQ", emit_convert(s, rank_node(s), DTYPE_S32),
                                 emit_const_i(s, DTYPE_S32, device));
    instr_id kept = emit_select(s, mine, v.local, zeros(s, sh->dtype, sh->rank, sh->dims));
    int64_t n[2] = { 1, s->groups->size };
    return emit_all_reduce(s, kept, adder(s, sh->dtype),
                           tiling_make(s->sh, 2, n, order_iota(s->sh, n[1])));
}

static struct pval replicate_tuple(struct spmd *s, struct pval v)
{
    const struct shape *b = base_shape(s, v);
    return reshard(s, v, sharding_tuple_of(s->sh, b->nleaves, sharding_replicated(s->sh)));
}

struct pval replicate(struct spmd *s, struct pval v)
{
    sharding_id whole = sharding_replicated(s->sh);
    const struct shape *base = base_shape(s, v);
    struct pval r;
    if (base->kind == SHAPE_TUPLE)
        return replicate_tuple(s, v);
    if (v.sharding.i == whole.i || base->kind != SHAPE_ARRAY)
        return pval_relabel(v, whole);
    if (reshard_cache_get(s, v, whole, &r))
        return r;
    const char *old = s->reason;
    if (!old)
        s->reason = "the whole value is wanted (S-69)";
    int64_t device;
    if (sharding_is_manual(s->sh, v.sharding)) {
        r = pval_relabel(v, whole);
    } else if (sharding_unique_device(s->sh, v.sharding, &device)) {
        r = pval_make(s, from_one_device(s, v, device), v.base, whole);
    } else {
        int dims[RANK_ROOM];
        for (int d = 0; d < base->rank; d++)
            dims[d] = d;
        r = pval_relabel(unshard_dims(s, v, base->rank, dims), whole);
    }
    s->reason = old;
    reshard_cache_put(s, r, v.sharding, v);
    reshard_cache_put(s, v, whole, r);
    return r;
}

