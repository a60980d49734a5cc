/* The internal rotation (S-145). */
#include "partition/internal.h"

#include <string.h>

struct rotation {
    sharding_id sh;
    int dim;
    int64_t shards; /* that hold data: p */
    int64_t size;   /* of a shard: S */
};

/* x of the shard `distance` before this one, among those that hold data. */
static instr_id shifted(struct spmd *s, instr_id x, const struct rotation *r, int64_t distance)
{
    if (r->shards == 1)
        return x; /* whole along the dimension: the shard before it is itself */
    struct tiling t = sharding_get(s->sh, r->sh)->tiles;
    struct permute_pairs p = { .kind = PAIRS_SHIFT,
                               .from = t,
                               .axis = r->dim,
                               .shift = distance % r->shards,
                               .wrap = true,
                               .limit = r->shards == t.dims[r->dim] ? 0 : r->shards };
    return emit_permute(s, x, &p);
}

/* The local piece of everything moved right by `by`, in positions of p * S. */
static instr_id rotated(struct spmd *s, instr_id x, const struct rotation *r, int64_t by)
{
    const struct shape *sh = node_shape(s, x);
    VEC(instr_id) parts = { 0 };
    int64_t S = r->size;
    for (int64_t cur = 0; cur < S;) {
        int64_t distance = by > cur ? ceil_div(by - cur, S) : 0;
        int64_t off = distance * S - by + cur, h = min_i64(S - off, S - cur);
        int64_t start[RANK_ROOM] = { 0 }, limit[RANK_ROOM];
        memcpy(limit, sh->dims, (size_t)sh->rank * sizeof *limit);
        start[r->dim] = off;
        limit[r->dim] = off + h;
        instr_id piece = emit_slice(s, x, start, limit, NULL);
        vec_push(&s->arena, &parts, distance ? shifted(s, piece, r, distance) : piece);
        cur += h;
    }
    return emit_concat(s, parts.n, parts.v, r->dim);
}

/* "dimension=1,amount=3" of the backend_config. */
static bool read_spec(struct spmd *s, const struct instr *in, int rank, int64_t *dim, int64_t *amount)
{
    const struct attr *a = instr_attr(in, ATTR_BACKEND_CONFIG);
    const char *text = a ? arena_strndup(&s->arena, a->text, a->n) : "";
    const char *d = strstr(text, "dimension="), *m = strstr(text, "amount=");
    return d && m && parse_i64(d + 10, strlen(d + 10), dim) && parse_i64(m + 7, strlen(m + 7), amount) &&
           *dim >= 0 && *dim < rank;
}

void partition_rotate(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    const struct shape *base = shape_get(s->ir, in->shape);
    int64_t axis, amount;
    if (!read_spec(s, in, base->rank, &axis, &amount)) {
        partition_default(s, source, "a rotation without dimension and amount");
        return;
    }
    struct pval v = reshard(s, operand_value(s, source, 0), out);
    int dim = (int)axis;
    int64_t D = base->dims[dim];
    amount = D ? (amount % D + D) % D : 0;
    s->reason = "a rotation: elements move to the next shard (S-145)";
    if (amount == 0) {
        set_value(s, source, v);
        return;
    }
    int64_t S = node_shape(s, v.local)->dims[dim];
    struct rotation r = { out, dim, ceil_div(D, S), S };
    int64_t padding = r.shards * S - D;
    if (!sharding_is_tiled(s->sh, out) || sharding_tile(s->sh, out, dim) == 1)
        r.shards = 1;
    instr_id x = rotated(s, v.local, &r, amount);
    if (padding) {
        /* What wraps around jumps over the padding too. */
        instr_id far = rotated(s, v.local, &r, (amount + padding) % (S * r.shards));
        const struct shape *sh = node_shape(s, x);
        instr_id at = emit_iota(s, DTYPE_S32, sh->rank, sh->dims, dim);
        instr_id border = emit_arith(s, OP_SUBTRACT, emit_const_i(s, DTYPE_S32, amount),
                                     offset_node(s, out, dim, D));
        instr_id wraps = emit_compare(
            s, "LT", at, emit_broadcast_scalar(s, border, sh->rank, sh->dims));
        x = emit_select(s, wraps, far, x);
    }
    set_value(s, source, pval_make(s, x, in->shape, out));
}
