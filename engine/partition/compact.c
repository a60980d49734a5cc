/* Compact halo exchange, S-97: where halos are much larger than what is wanted of them, or differ
 * much from shard to shard, each shard's window is put together from pieces of named owners. Works
 * with lists, one entry a shard of the dimension; longer dimensions are gathered instead. */
#include "partition/halo.h"

#include <stdlib.h>

/* Part of the window of one shard: [start, end) in the coordinates of its owner. */
struct piece {
    int64_t start, end;
    int64_t owner;    /* -1: padding */
    int64_t distance; /* from the window's start */
    int64_t round;    /* the permute that brings it; -1: own data or padding */
};

typedef VEC(struct piece) piece_list;

struct round {
    int64_t start, end; /* slice of the shard that is sent */
    int64_t n;
    int64_t *pairs; /* ordinals in the ring */
    instr_id node;
};

struct compact {
    struct spmd *s;
    struct arena *a;
    instr_id x;
    const struct ring *ring;
    int dim;
    int64_t n, S, base;
    const int64_t *left, *right; /* [n] */
    piece_list *pieces;          /* [n] */
    VEC(struct round) rounds;
};

static void cut_window(struct compact *c, int64_t i)
{
    int64_t from = i * c->S - c->left[i], to = (i + 1) * c->S + c->right[i];
    for (int64_t at = from; at < to;) {
        int64_t mod = ((at % c->S) + c->S) % c->S, end;
        struct piece p = { .start = mod, .owner = -1, .distance = at - from, .round = -1 };
        if (at < 0) {
            end = min_i64(to, 0);
        } else if (at >= c->base) {
            end = to;
        } else {
            p.owner = at / c->S;
            end = min_i64(min_i64(to, c->base), (p.owner + 1) * c->S);
        }
        p.end = p.start + end - at;
        vec_push(c->a, &c->pieces[i], p);
        at = end;
    }
}

static void insert_after(struct compact *c, int64_t i, int64_t k, struct piece p)
{
    vec_push(c->a, &c->pieces[i], p);
    piece_list *l = &c->pieces[i];
    for (int64_t j = l->n - 1; j > k + 1; j--)
        l->v[j] = l->v[j - 1];
    l->v[k + 1] = p;
}

/* Step 2: the k-th pieces of all shards get ends that the next ones can be put behind. */
static bool align_pieces(struct compact *c, int64_t k)
{
    bool any = false, all_padding = true, more = false;
    for (int64_t i = 0; i < c->n; i++) {
        if (k >= c->pieces[i].n)
            continue;
        any = true;
        more = more || k + 1 < c->pieces[i].n;
        all_padding = all_padding && c->pieces[i].v[k].owner < 0;
    }
    for (int64_t i = 0; any && i < c->n; i++) {
        if (k >= c->pieces[i].n)
            continue;
        struct piece *p = &c->pieces[i].v[k];
        if (p->owner >= 0)
            continue;
        if (all_padding && more) {
            p->start -= p->end - c->S;
            p->end = c->S;
        } else if (!all_padding && p->end > c->S) {
            struct piece rest = *p;
            rest.distance += c->S - p->start;
            rest.end -= c->S;
            rest.start = 0;
            p->end = c->S;
            insert_after(c, i, k, rest);
        }
    }
    return any;
}

struct send {
    int64_t to, k, distance;
};
typedef VEC(struct send) send_list;

/* Joining [start, end) and p would send nearly the whole shard for two edges of it. */
static bool opposite_edges(const struct round *r, const struct piece *p, int64_t S)
{
    return (r->start > p->end && r->end == S && p->start == 0) ||
           (p->start > r->end && p->end == S && r->start == 0);
}

static bool one_round(struct compact *c, send_list *sends, int64_t *next)
{
    bool *received = ARENA_ARRAY(c->a, bool, c->n);
    struct round r = { .pairs = ARENA_ARRAY(&c->s->arena, int64_t, 2 * c->n) };
    for (int64_t q = 0; q < c->n; q++) {
        if (next[q] == sends[q].n)
            continue;
        struct send e = sends[q].v[next[q]];
        struct piece *p = &c->pieces[e.to].v[e.k];
        if (received[e.to] || (r.n > 0 && opposite_edges(&r, p, c->S)))
            continue;
        next[q]++;
        received[e.to] = true;
        p->round = c->rounds.n;
        r.start = r.n ? min_i64(r.start, p->start) : p->start;
        r.end = r.n ? max_i64(r.end, p->end) : p->end;
        r.pairs[2 * r.n] = q;
        r.pairs[2 * r.n + 1] = e.to;
        r.n++;
    }
    if (r.n > 0)
        vec_push(c->a, &c->rounds, r);
    return r.n > 0;
}

/* Step 3: who sends what to whom, in few permutes. */
static void plan_rounds(struct compact *c)
{
    send_list *sends = ARENA_ARRAY(c->a, send_list, c->n);
    int64_t *next = ARENA_ARRAY(c->a, int64_t, c->n);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = 0; k < c->pieces[i].n; k++) {
            const struct piece *p = &c->pieces[i].v[k];
            if (p->owner < 0 || p->owner == i)
                continue;
            send_list *l = &sends[p->owner];
            struct send e = { i, k, p->distance };
            vec_push(c->a, l, e);
            for (int64_t j = l->n - 1; j > 0 && l->v[j].distance < l->v[j - 1].distance; j--) {
                l->v[j] = l->v[j - 1];
                l->v[j - 1] = e;
            }
        }
    while (one_round(c, sends, next))
        ;
}

static bool send_rounds(struct compact *c)
{
    for (int64_t i = 0; i < c->rounds.n; i++) {
        struct round *r = &c->rounds.v[i];
        struct permute_pairs p;
        for (int64_t k = 0; k < 2 * r->n; k++)
            r->pairs[k] = ring_real(c->ring, r->pairs[k]);
        if (!ring_list_pairs(c->s, c->ring, r->n, r->pairs, &p))
            return false;
        r->node = emit_permute(c->s, slice_dim(c->s, c->x, c->dim, r->start, r->end), &p);
    }
    return true;
}

/* [a, b) of an array that covers [start, end) of the shard, with zeros where it has nothing. */
static instr_id place(struct compact *c, instr_id x, int64_t start, int64_t end, int64_t a, int64_t b)
{
    int64_t lo = max_i64(a, start), hi = min_i64(b, end);
    x = slice_dim(c->s, x, c->dim, lo - start, hi - start);
    return pad_dim(c->s, x, emit_zero(c->s, node_shape(c->s, x)->dtype), c->dim, lo - a, b - hi);
}

/* Step 4: the k-th piece of every shard, chosen by its ordinal. *start: where it begins. */
static instr_id join_pieces(struct compact *c, int64_t k, instr_id ordinal, int64_t *start)
{
    struct spmd *s = c->s;
    int64_t a = INT64_MAX, b = INT64_MIN;
    for (int64_t i = 0; i < c->n; i++) {
        if (k >= c->pieces[i].n)
            continue;
        a = min_i64(a, c->pieces[i].v[k].start);
        b = max_i64(b, c->pieces[i].v[k].end);
    }
    *start = a;
    /* Alternatives: permutes by number, then the own data. */
    int64_t nalt = c->rounds.n + 1;
    bool *used = ARENA_ARRAY(c->a, bool, nalt);
    int64_t *table = ARENA_ARRAY(c->a, int64_t, c->n);
    for (int64_t i = 0; i < c->n; i++) {
        table[i] = -1;
        if (k >= c->pieces[i].n || c->pieces[i].v[k].owner < 0)
            continue;
        const struct piece *p = &c->pieces[i].v[k];
        table[i] = p->round >= 0 ? p->round : c->rounds.n;
        used[table[i]] = true;
    }
    instr_id sum = { 0 }, which = { 0 };
    for (int64_t j = 0; j < nalt; j++) {
        if (!used[j])
            continue;
        instr_id y = j < c->rounds.n ? place(c, c->rounds.v[j].node, c->rounds.v[j].start,
                                             c->rounds.v[j].end, a, b)
                                     : place(c, c->x, 0, c->S, a, b);
        if (!sum.i) {
            sum = y;
            continue;
        }
        if (!which.i)
            which = emit_table(s, c->n, table, ordinal);
        sum = emit_select(s, emit_compare(s, "EQ", which, emit_const_i(s, DTYPE_S32, j)), y, sum);
    }
    if (sum.i)
        return sum;
    const struct shape *x = node_shape(s, c->x);
    int64_t dims[64];
    for (int d = 0; d < x->rank; d++)
        dims[d] = d == c->dim ? b - a : x->dims[d];
    return emit_broadcast_scalar(s, emit_zero(s, x->dtype), x->rank, dims);
}

/* Step 6 */
static instr_id mask_window(struct compact *c, instr_id x, instr_id pad, instr_id ordinal)
{
    struct spmd *s = c->s;
    int64_t *from = ARENA_ARRAY(c->a, int64_t, c->n), *to = ARENA_ARRAY(c->a, int64_t, c->n);
    bool leading = false;
    for (int64_t i = 0; i < c->n; i++) {
        int64_t size = c->left[i] + c->right[i] + c->S;
        int64_t lead = max_i64(0, c->left[i] - i * c->S);
        int64_t tail = max_i64(0, c->right[i] + c->S * (i + 1) - c->base);
        from[i] = max_i64(0, min_i64(lead, size));
        to[i] = max_i64(0, size - tail);
        leading = leading || from[i] > 0;
    }
    const struct shape *sx = node_shape(s, x);
    instr_id at = emit_iota(s, DTYPE_S32, sx->rank, sx->dims, c->dim);
    instr_id end = emit_broadcast_scalar(s, emit_table(s, c->n, to, ordinal), sx->rank, sx->dims);
    instr_id in = emit_compare(s, "LT", at, end);
    if (leading) {
        instr_id low =
            emit_broadcast_scalar(s, emit_table(s, c->n, from, ordinal), sx->rank, sx->dims);
        in = emit_arith(s, OP_AND, in, emit_compare(s, "GE", at, low));
    }
    pad = emit_convert(s, pad, sx->dtype);
    return emit_select(s, in, x, emit_broadcast_scalar(s, pad, sx->rank, sx->dims));
}

static instr_id build_window(struct compact *c, instr_id pad)
{
    struct spmd *s = c->s;
    int64_t want = 0, rounds = 0;
    for (int64_t i = 0; i < c->n; i++) {
        want = max_i64(want, c->left[i] + c->right[i] + c->S);
        cut_window(c, i);
    }
    while (align_pieces(c, rounds))
        rounds++;
    plan_rounds(c);
    if (!send_rounds(c))
        return (instr_id){ 0 };
    instr_id ordinal = ring_ordinal(s, c->ring);
    instr_id *parts = ARENA_ARRAY(c->a, instr_id, rounds + 1);
    int64_t first = 0, start;
    for (int64_t k = 0; k < rounds; k++) {
        parts[k] = join_pieces(c, k, ordinal, &start);
        if (k == 0)
            first = start;
    }
    if (rounds == 0)
        return (instr_id){ 0 };
    instr_id x = rounds == 1 ? parts[0] : emit_concat(s, rounds, parts, c->dim);
    int64_t *offsets = ARENA_ARRAY(c->a, int64_t, c->n), most = 0, least = INT64_MAX;
    for (int64_t i = 0; i < c->n; i++) {
        offsets[i] = c->pieces[i].n ? c->pieces[i].v[0].start - first : 0;
        most = max_i64(most, offsets[i]);
        least = min_i64(least, offsets[i]);
    }
    int64_t size = node_shape(s, x)->dims[c->dim];
    instr_id zero = emit_zero(s, node_shape(s, x)->dtype);
    x = pad_dim(s, x, zero, c->dim, 0, max_i64(0, most + want - size));
    size = max_i64(size, most + want);
    if (most == least)
        x = slice_dim(s, x, c->dim, most, most + want);
    else if (size != want)
        x = dynamic_slice_dim(s, x, c->dim, emit_table(s, c->n, offsets, ordinal), want);
    return pad.i ? mask_window(c, x, pad, ordinal) : x;
}

static instr_id compact_run(struct spmd *s, instr_id x, int dim, const struct ring *r, int64_t base,
                            const int64_t *left, const int64_t *right, instr_id pad)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct compact c = { .s = s, .a = &tmp, .x = x, .ring = r, .dim = dim, .n = r->n,
                         .S = node_shape(s, x)->dims[dim], .base = base, .left = left,
                         .right = right };
    c.pieces = ARENA_ARRAY(&tmp, piece_list, c.n);
    instr_id out = c.S > 0 ? build_window(&c, pad) : (instr_id){ 0 };
    arena_close(&tmp);
    return out;
}

static bool short_enough(struct spmd *s, const struct ring *r)
{
    return r->n <= HALO_LIST_LIMIT && sharding_total(s->sh, r->sh) <= HALO_LIST_LIMIT;
}

instr_id ring_compact(struct spmd *s, instr_id x, const struct halo_spec *h, const struct ring *r)
{
    if (!short_enough(s, r))
        return (instr_id){ 0 };
    int64_t *left = ARENA_ARRAY(&s->arena, int64_t, r->n);
    int64_t *right = ARENA_ARRAY(&s->arena, int64_t, r->n);
    for (int64_t i = 0; i < r->n; i++) {
        left[i] = ofs_at(&h->left, i);
        right[i] = ofs_at(&h->right, i);
    }
    instr_id none = { 0 };
    return compact_run(s, x, h->dim, r, h->base, left, right, h->mask || h->force ? h->pad : none);
}

/* All shards of the dimension on every device of it, then the window: the same for any number. */
static instr_id window_of_whole(struct spmd *s, instr_id x, const struct halo_fn *left,
                                const struct halo_fn *right, int dim, const struct ring *r)
{
    int64_t S = node_shape(s, x)->dims[dim], want = 0, most = 0, last = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t l = left->at(left, i), w = l + right->at(right, i) + S;
        want = max_i64(want, w);
        most = max_i64(most, l - i * S);
        last = max_i64(last, i * S - l);
    }
    instr_id whole = emit_all_gather(s, x, dim, sharding_groups_along(s->sh, r->sh, 1, &dim));
    int64_t size = S * r->n, low = max_i64(0, most), high = max_i64(0, last + want - size);
    whole = pad_dim(s, whole, emit_zero(s, node_shape(s, x)->dtype), dim, low, high);
    int64_t *starts = ARENA_ARRAY(&s->arena, int64_t, r->n);
    for (int64_t i = 0; i < r->n; i++)
        starts[i] = i * S - left->at(left, i) + low;
    return dynamic_slice_dim(s, whole, dim, emit_table(s, r->n, starts, ring_ordinal(s, r)), want);
}

instr_id halo_compact(struct spmd *s, instr_id x, const struct halo_fn *left,
                      const struct halo_fn *right, instr_id pad, int dim, sharding_id sh,
                      int64_t base_dim)
{
    struct ring r = { .sh = sh, .axis = dim, .n = tiles_on(s, sh, dim) };
    int64_t *l = ARENA_ARRAY(&s->arena, int64_t, r.n), *h = ARENA_ARRAY(&s->arena, int64_t, r.n);
    for (int64_t i = 0; i < r.n; i++) {
        l[i] = left->at(left, i);
        h[i] = right->at(right, i);
    }
    instr_id out = { 0 };
    if (short_enough(s, &r))
        out = compact_run(s, x, dim, &r, base_dim, l, h, pad);
    return out.i ? out : window_of_whole(s, x, left, right, dim, &r);
}
