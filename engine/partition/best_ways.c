/* partitioner=best: other ways to compute single instructions than XLA's.
 *
 * Each is tried behind XLA's, and taken when it sends less (best.c). None computes more on a device:
 * it is not flops that are traded for bytes.
 */
#include "partition/best_ways.h"

#include <string.h>

#include "base/fail.h"
#include "partition/halo.h"
#include "partition/ops.h"

/* ---- independent rows ---------------------------------------------------------------------------------- */

/* Dimensions of the result along which the operation works; the others are a batch. 0: no such. */
static uint64_t worked_dims(const struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    int rank = source_shape(s, source)->rank, n = 2;
    if (in->op == OP_FFT)
        (void)instr_ints(in, ATTR_FFT_LENGTH, &n);
    if (n < 1 || n > rank || rank > OPS_MAX_RANK)
        return 0;
    return (bit(rank) - 1) & ~(bit(rank - n) - 1);
}

/* The tiles of a dimension along which the operation works, moved to one that is whole and long enough. */
static bool beside_work(struct spmd *s, instr_id source, uint64_t work, sharding_id *sh)
{
    const struct shape *full = source_shape(s, source);
    int perm[OPS_MAX_RANK];
    bool moved = false;
    for (int d = 0; d < full->rank; d++)
        perm[d] = d;
    for (int d = 0; d < full->rank; d++) {
        int64_t tiles = tiles_on(s, *sh, d);
        for (int b = 0; (work & bit(d)) && tiles > 1 && b < full->rank; b++) {
            if ((work & bit(b)) || perm[b] != b || tiles_on(s, *sh, b) > 1 || full->dims[b] % tiles)
                continue;
            perm[b] = d;
            perm[d] = b;
            moved = true;
            break;
        }
    }
    if (moved)
        *sh = sharding_transpose(s->sh, *sh, perm);
    return moved;
}

/* Whole rows on every device, the batch split as the result is, as the operand is, or by the devices among
 * which the rows are split. */
static bool by_rows(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                    struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    uint64_t work = worked_dims(s, source);
    (void)xla;
    (void)bytes;
    if (k > 2 || !work || in->noperands > 2)
        return false;
    *out = (struct pval){ 0 };
    sharding_id like = k == 1 ? operand_value(s, source, in->noperands - 1).sharding : source_sharding(s, source);
    if (!sharding_is_tiled(s->sh, like) || (k == 2 && !beside_work(s, source, work, &like)))
        return true;
    int dims[64], n = bits_to_dims(work, source_shape(s, source)->rank, dims);
    sharding_id rows = sharding_replicate_dims(s->sh, like, n, dims);
    if (!sharding_is_tiled(s->sh, rows))
        return true;
    s->best->way = "whole rows on every device, the others split";
    instr_id ops[2];
    for (uint32_t i = 0; i < in->noperands; i++)
        ops[i] = operand_in(s, source, i, rows).local;
    shape_id shape = shard_shape(s, in->shape, rows);
    *out = pval_make(s, emit_clone(s, source, shape, in->noperands, ops), in->shape, rows);
    return true;
}

/* One matrix, whole on every device, and right-hand sides that are split. */
static bool solve_sides(struct spmd *s, instr_id source, struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    int rank = source_shape(s, source)->rank;
    sharding_id label = source_sharding(s, source);
    *out = (struct pval){ 0 };
    if (rank < 2 || rank > OPS_MAX_RANK || !sharding_is_tiled(s->sh, label))
        return true;
    int square[2] = { rank - 2, rank - 1 }, *solved = &square[instr_bool(in, ATTR_LEFT_SIDE, false) ? 0 : 1];
    sharding_id sides = sharding_replicate_dims(s->sh, label, 1, solved);
    if (!sharding_is_tiled(s->sh, sides))
        return true;
    s->best->way = "each device its right-hand sides, with the whole matrix";
    instr_id ops[2] = { operand_in(s, source, 0, sharding_replicate_dims(s->sh, sides, 2, square)).local,
                        operand_in(s, source, 1, sides).local };
    *out = pval_make(s, emit_clone(s, source, shard_shape(s, in->shape, sides), 2, ops), in->shape, sides);
    return true;
}

static bool solve(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes, struct pval *out)
{
    return k < 3 ? by_rows(s, source, k, xla, bytes, out) : k == 3 && solve_sides(s, source, out);
}

/* The largest of every row: rows whole, split as the values are wanted or as the operand is. */
static bool topk_by_rows(struct spmd *s, instr_id source, int k, const struct best_trial *xla, int64_t bytes,
                         struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    const struct shape *full = source_shape(s, in->operands[0]), *result = source_shape(s, source);
    (void)xla;
    (void)bytes;
    if (k > 1 || result->kind != SHAPE_TUPLE || full->rank < 2 || full->rank > OPS_MAX_RANK)
        return false;
    *out = (struct pval){ 0 };
    int last = full->rank - 1;
    sharding_id like = operand_value(s, source, 0).sharding;
    if (k == 0)
        like = element_sharding(s, in->shape, source_sharding(s, source), 0);
    sharding_id rows = sharding_is_tiled(s->sh, like) ? sharding_replicate_dims(s->sh, like, 1, &last) : like;
    if (!sharding_is_tiled(s->sh, rows))
        return true;
    s->best->way = "whole rows on every device, the others split";
    instr_id x = operand_in(s, source, 0, rows).local;
    sharding_id both = sharding_tuple_of(s->sh, result->nelems, rows);
    *out = pval_make(s, emit_clone(s, source, shard_shape(s, in->shape, both), 1, &x), in->shape, both);
    return true;
}

/* ---- convolutions: the batch alone ------------------------------------------------------------------- */

/* Every device convolves its part of the batch with the whole kernel, in feature groups or not. */
static bool conv_by_batch(struct spmd *s, instr_id source, int k, const struct best_trial *xla,
                          int64_t bytes, struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    const struct attr *a = instr_attr(in, ATTR_DIM_LABELS);
    (void)xla;
    (void)bytes;
    if (k > 0 || !a || a->type != ATTR_TYPE_CONV || instr_int(in, ATTR_BATCH_GROUP_COUNT, 1) != 1)
        return false;
    *out = (struct pval){ 0 };
    const struct shape *full = source_shape(s, source);
    sharding_id label = source_sharding(s, source);
    int keep = a->conv->out_batch;
    if (!sharding_is_tiled(s->sh, label) || full->rank > OPS_MAX_RANK ||
        sharding_replicate_except(s->sh, label, 1, &keep).i != label.i)
        return true;
    s->best->way = "each device its part of the batch, with the whole kernel";
    /* The operand's dims in the order in which the result has them. */
    int perm[OPS_MAX_RANK], next = 0;
    for (int d = 0; d < full->rank; d++) {
        if (next == keep)
            next++;
        perm[d] = d == a->conv->lhs_batch ? keep : next++;
    }
    instr_id ops[2] = { operand_in(s, source, 0, sharding_transpose(s->sh, label, perm)).local,
                        operand_replicated(s, source, 1).local };
    shape_id shape = shard_shape(s, in->shape, label);
    *out = pval_make(s, emit_clone(s, source, shape, 2, ops), in->shape, label);
    return true;
}

/* ---- slices: pieces by permutes ------------------------------------------------------------------------ */

/* [at, at + n) of the window of shard `to` comes from `from` on in the shard `owner`. */
struct piece {
    int64_t owner, to, from, at, n;
    int round; /* -1: not sent yet; the own ones never are */
};

struct exchange {
    struct spmd *s;
    struct ring ring;
    int dim;
    int64_t size, want; /* of a shard before and after */
    int64_t n;
    struct piece *v;
};

static int64_t *table_of(struct exchange *x)
{
    return ARENA_ARRAY(&x->s->arena, int64_t, x->ring.n);
}

/* A message, or the own shard, where it belongs in the window: element j goes to j + shift, and only
 * [begin, end) of the window is taken. All three by ordinal. */
static instr_id put(struct exchange *x, instr_id acc, instr_id message, const int64_t *shift,
                    const int64_t *begin, const int64_t *end, instr_id ordinal)
{
    struct spmd *s = x->s;
    int64_t n = x->ring.n;
    int64_t *start = table_of(x);
    for (int64_t i = 0; i < n; i++)
        start[i] = x->want - shift[i] < 0 ? 0 : x->want - shift[i];
    instr_id zero = emit_zero(s, node_shape(s, message)->dtype);
    instr_id wide = pad_dim(s, message, zero, x->dim, x->want, x->want);
    instr_id here = dynamic_slice_dim(s, wide, x->dim, emit_table(s, n, start, ordinal), x->want);
    const struct shape *sh = node_shape(s, here);
    instr_id at = emit_iota(s, DTYPE_S32, sh->rank, sh->dims, x->dim);
    instr_id low = emit_broadcast_scalar(s, emit_table(s, n, begin, ordinal), sh->rank, sh->dims);
    instr_id high = emit_broadcast_scalar(s, emit_table(s, n, end, ordinal), sh->rank, sh->dims);
    instr_id in = emit_arith(s, OP_AND, emit_compare(s, "GE", at, low), emit_compare(s, "LT", at, high));
    return emit_select(s, in, here, acc.i ? acc : emit_broadcast_scalar(s, zero, sh->rank, sh->dims));
}

/* One permute: each shard sends one piece at most, and receives one at most. Longest first. */
static int64_t one_round(struct exchange *x, int round)
{
    bool *sends = ARENA_ARRAY(&x->s->arena, bool, x->ring.n);
    bool *takes = ARENA_ARRAY(&x->s->arena, bool, x->ring.n);
    int64_t longest = 0;
    for (int64_t i = 0; i < x->n; i++) { /* pieces come by falling length */
        struct piece *p = &x->v[i];
        if (p->round >= 0 || p->owner == p->to || sends[p->owner] || takes[p->to])
            continue;
        sends[p->owner] = takes[p->to] = true;
        p->round = round;
        longest = max_i64(longest, p->n);
    }
    return longest;
}

static bool send_round(struct exchange *x, instr_id shard, int round, int64_t len, instr_id ordinal,
                       instr_id *acc)
{
    struct spmd *s = x->s;
    int64_t *start = table_of(x), *shift = table_of(x), *begin = table_of(x), *end = table_of(x);
    int64_t *pairs = ARENA_ARRAY(&s->arena, int64_t, 2 * x->ring.n), n = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const struct piece *p = &x->v[i];
        if (p->round != round)
            continue;
        start[p->owner] = min_i64(p->from, x->size - len);
        shift[p->to] = p->at - (p->from - start[p->owner]);
        begin[p->to] = p->at;
        end[p->to] = p->at + p->n;
        pairs[2 * n] = p->owner;
        pairs[2 * n++ + 1] = p->to;
    }
    struct permute_pairs pp;
    if (!ring_list_pairs(s, &x->ring, n, pairs, &pp))
        return false;
    instr_id m = dynamic_slice_dim(s, shard, x->dim, emit_table(s, x->ring.n, start, ordinal), len);
    *acc = put(x, *acc, emit_permute(s, m, &pp), shift, begin, end, ordinal);
    return true;
}

static void cut_pieces(struct exchange *x, int64_t from, int64_t total)
{
    int64_t n = x->ring.n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = i * x->want, end = min_i64(at + x->want, total); at < end;) {
            struct piece p = { .to = i, .owner = (from + at) / x->size, .round = -1 };
            p.from = (from + at) % x->size;
            p.at = at - i * x->want;
            p.n = min_i64(end - at, x->size - p.from);
            int64_t k = x->n++;
            for (; k > 0 && x->v[k - 1].n < p.n; k--)
                x->v[k] = x->v[k - 1];
            x->v[k] = p;
            at += p.n;
        }
}

/* [from, from + total) of dimension d, in shards of its own. none: too many devices. */
static instr_id slice_shards(struct spmd *s, struct pval v, int d, int64_t from, int64_t total)
{
    struct exchange x = { .s = s, .dim = d, .size = node_shape(s, v.local)->dims[d] };
    x.ring = (struct ring){ .sh = v.sharding, .axis = d, .n = tiles_on(s, v.sharding, d) };
    x.want = ceil_div(total, x.ring.n);
    if (sharding_total(s->sh, v.sharding) > HALO_LIST_LIMIT || x.want > x.size)
        return (instr_id){ 0 };
    x.v = ARENA_ARRAY(&s->arena, struct piece, x.ring.n * (x.want / x.size + 3));
    cut_pieces(&x, from, total);
    instr_id ordinal = ring_ordinal(s, &x.ring), acc = { 0 };
    int64_t *shift = table_of(&x), *begin = table_of(&x), *end = table_of(&x), len;
    for (int64_t i = 0; i < x.n; i++)
        if (x.v[i].owner == x.v[i].to) {
            shift[x.v[i].to] = x.v[i].at - x.v[i].from;
            begin[x.v[i].to] = x.v[i].at;
            end[x.v[i].to] = x.v[i].at + x.v[i].n;
        }
    acc = put(&x, acc, v.local, shift, begin, end, ordinal);
    for (int round = 0; (len = one_round(&x, round)) > 0; round++)
        if (!send_round(&x, v.local, round, len, ordinal, &acc))
            return (instr_id){ 0 };
    return acc;
}

/* Contiguous parts of split dimensions: as few permutes as shards have neighbours in need. */
static bool slice_by_pieces(struct spmd *s, instr_id source, int k, const struct best_trial *xla,
                            int64_t bytes, struct pval *out)
{
    const struct instr *in = instr_at(s->src, source);
    const struct attr *a = instr_attr(in, ATTR_SLICE);
    sharding_id label = source_sharding(s, source);
    (void)xla;
    (void)bytes;
    if (k > 0 || !a || !sharding_is_tiled(s->sh, label))
        return false;
    *out = (struct pval){ 0 };
    const struct shape *full = source_shape(s, source);
    int rank = full->rank;
    if (rank > OPS_MAX_RANK)
        return true;
    s->best->way = "pieces sent to where they are wanted";
    s->reason = "pieces of a slice sent to where they are wanted (partitioner=best)";
    struct pval v = operand_in(s, source, 0, label);
    int64_t base[OPS_MAX_RANK], start[OPS_MAX_RANK], limit[OPS_MAX_RANK];
    memcpy(base, base_of(s, v)->dims, (size_t)rank * sizeof *base);
    for (int d = 0; d < rank; d++) {
        int64_t from = a->ints[3 * d], to = a->ints[3 * d + 1], step = a->ints[3 * d + 2];
        if (step != 1 && (tiles_on(s, label, d) > 1))
            return true;
        if (tiles_on(s, label, d) == 1) {
            int64_t strides[OPS_MAX_RANK];
            for (int e = 0; e < rank; e++) {
                start[e] = e == d ? from : 0;
                limit[e] = e == d ? to : node_shape(s, v.local)->dims[e];
                strides[e] = e == d ? step : 1;
            }
            v.local = emit_slice(s, v.local, start, limit, strides);
        } else if (from != 0 || to != base[d]) {
            v.local = slice_shards(s, v, d, from, to - from);
            if (!v.local.i) {
                *out = (struct pval){ 0 };
                return true;
            }
        }
        base[d] = full->dims[d];
        v.base = shape_array(s->ir, full->dtype, rank, base);
    }
    *out = pval_make(s, v.local, in->shape, label);
    return true;
}

best_way best_way_of(enum op_kind op)
{
    switch ((int)op) {
    case OP_FFT:
    case OP_CHOLESKY:
        return by_rows;
    case OP_TRIANGULAR_SOLVE:
        return solve;
    case OP_TOPK:
        return topk_by_rows;
    case OP_CONVOLUTION:
        return conv_by_batch;
    case OP_SLICE:
        return slice_by_pieces;
    case OP_DYNAMIC_SLICE:
        return best_way_window;
    case OP_DYNAMIC_UPDATE_SLICE:
        return best_way_update;
    case OP_DOT:
        return best_way_dot;
    default:
        return NULL;
    }
}
