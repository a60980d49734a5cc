/* Windowed input, S-99..S-112: the piece of an array, with halos, that a shard of a windowed
 * operation's result needs, and the window to use on it. */
#include "partition/halo.h"

enum { MAX_DIMS = 16 };

/* Plan for one dimension. */
struct plan {
    bool trivial;    /* may stay sharded, nothing to do */
    bool whole;      /* not tiled in the target: used as it is */
    int64_t n;       /* shards that take part, S-101, S-103 */
    int64_t S;       /* shard size after trimming */
    int64_t base;    /* what the ring's shards cover */
    int64_t E;       /* explicit padding in front, in elements */
    int64_t per;     /* windows a shard */
    struct ofs start, limit;
    int64_t W, padded;
    bool premask;
    int64_t cut_from, cut_to; /* local slice; 0, S: none */
    int64_t gap_from, gap;
    bool output_offset;
    struct ofs offset_of_output; /* S-107 */
};

static bool is_trivial(const struct window_dim *w)
{
    return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
           w->base_dilation == 1 && w->window_dilation == 1;
}

/* S-100 */
struct counts {
    int64_t dk, full, wc;
};

static struct counts window_counts(const struct window_dim *w, int64_t D)
{
    struct counts c;
    c.dk = 1 + (w->size - 1) * w->window_dilation;
    c.full = (D == 0 ? 0 : 1 + (D - 1) * w->base_dilation) + w->pad_low + w->pad_high;
    c.wc = c.full < c.dk ? 0 : (c.full - c.dk) / w->stride + 1;
    return c;
}

/* S-106, S-107. w is the window after S-102; changed for dilated bases. */
static void plan_pieces(struct plan *p, struct window_dim *w, const struct counts *c)
{
    int64_t bd = w->base_dilation, st = w->stride, lo = w->pad_low;
    p->start = ofs_mad(st * p->per, bd - 1 - lo, bd);
    p->limit = ofs_mad(st * p->per, st * (p->per - 1) + c->dk + bd - 1 - lo, bd);
    struct ofs size = ofs_sub(p->limit, p->start);
    p->W = ofs_max(&size, 0, p->n);
    p->padded = ofs_at(&p->limit, p->n - 1);
    if (bd == 1)
        return;
    struct ofs first = ofs_sub(ofs_add(ofs_scale(p->start, bd), ofs_const(lo)),
                               ofs_mad(st * p->per, 0, 1));
    struct ofs need = ofs_sub(ofs_const(st * (p->per - 1) + c->dk - (p->W - 1) * bd - 1), first);
    w->pad_high = max_i64(0, ofs_max(&need, 0, p->n));
    if (st != 1)
        return;
    int64_t most = ofs_max(&first, 0, p->n);
    struct ofs negative = ofs_scale(first, -1);
    int64_t least = -ofs_max(&negative, 0, p->n);
    w->pad_low = most;
    if (most != least) {
        p->output_offset = true;
        p->offset_of_output =
            ofs_sub(ofs_mad(p->per, 0, 1), ofs_sub(ofs_add(ofs_scale(p->start, bd), ofs_const(lo)),
                                                   ofs_const(most)));
    }
}

/* S-101, S-103: shards that have nothing that is needed do not take part. 0 no form, 1 go on,
 * 2 no exchange on this dimension. */
static int trim(struct plan *p, struct window_dim *w, const struct counts *c, int64_t D)
{
    int64_t lo = w->pad_low, hi = w->pad_high, n0 = p->n;
    int64_t useful = D + hi <= 0 ? 0 : ceil_div(D + hi, p->S);
    if (useful < p->n) {
        p->n = max_i64(useful, c->wc);
        if (p->n == 1) {
            w->pad_high = D + hi - p->S;
            return 2;
        }
        p->base = p->S * p->n;
        if (p->base > D && hi > 0) {
            p->premask = true;
        } else if (hi < 0 && c->full - lo < p->S) {
            if (D + hi <= 0)
                return 0; /* S-105 */
            p->S = c->full - lo;
            p->cut_to = p->S;
            p->base = p->S * p->n;
        }
    }
    int64_t E = lo, gap = (-E) / p->S - c->wc;
    if (gap > 0) {
        if (p->n - gap <= 1)
            return 0;
        if (hi > 0 && p->S * n0 > D)
            p->premask = true;
        p->gap_from = c->wc;
        p->gap = gap;
        p->n -= gap;
        E += gap * p->S;
        p->base = p->S * p->n;
    }
    if (-E > p->S * (p->n - 1)) {
        if (hi > 0 && p->S * n0 > D)
            p->premask = true;
        int64_t skip = -E - p->S * (p->n - 1);
        if (skip >= p->S)
            return 0;
        p->cut_from = skip;
        p->S -= skip;
        E += skip * p->n;
        if (c->full < p->S) {
            int64_t d = p->S - c->full;
            p->cut_to -= d;
            E += d * (p->n - 1);
            p->S = c->full;
        }
        p->base = p->S * p->n;
    }
    p->E = E;
    return 1;
}

/* One dimension of a value that is tiled as the target is. false: no window form. */
static bool plan_exchange(struct plan *p, struct window_dim *w, int64_t n, int64_t D, int64_t S)
{
    struct counts c = window_counts(w, D);
    if (c.wc <= 0)
        return false;
    *p = (struct plan){ .n = n, .S = S, .base = D, .per = ceil_div(c.wc, n), .cut_to = S };
    bool plain = w->window_dilation == 1 && w->base_dilation == 1;
    if (w->pad_low < 0 && w->pad_low % w->base_dilation != 0)
        return false; /* S-105 */
    if (w->stride != 1 && (w->stride * p->per) % w->base_dilation != 0)
        return false; /* S-104 */
    p->E = w->pad_low / w->base_dilation;
    if (c.wc < n && plain) {
        int go = trim(p, w, &c, D);
        if (go != 1) {
            p->whole = go == 2;
            return go == 2;
        }
    }
    w->pad_low %= w->base_dilation;
    w->pad_high = 0;
    plan_pieces(p, w, &c);
    return p->W > 0; /* windows that fall between the elements of a dilated base */
}

/* The same for a dimension that every device has whole. */
static bool plan_whole(struct plan *p, struct window_dim *w, int64_t n, int64_t D)
{
    struct counts c = window_counts(w, D);
    if (c.wc <= 0)
        return false;
    *p = (struct plan){ .n = n, .S = D, .base = D, .per = ceil_div(c.wc, n), .cut_to = D };
    if (w->pad_low < 0 && w->pad_low % w->base_dilation != 0)
        return false;
    if (w->stride != 1 && (w->stride * p->per) % w->base_dilation != 0)
        return false;
    p->E = w->pad_low / w->base_dilation;
    w->pad_low %= w->base_dilation;
    w->pad_high = 0;
    plan_pieces(p, w, &c);
    return p->W > 0; /* windows that fall between the elements of a dilated base */
}

static void set_output_offset(struct spmd *s, struct windowed *r, const struct plan *p, int d,
                              instr_id ordinal)
{
    if (!p->output_offset)
        return;
    r->has_offset = true;
    r->offset[d] = ofs_node(s, &p->offset_of_output, ordinal);
}

/* S-109, 1: the windowed dims are whole everywhere: pad and cut, no communication. */
static struct windowed window_of_whole(struct spmd *s, struct pval v, int rank,
                                       const struct window_dim *w, sharding_id target, instr_id pad)
{
    const struct shape *x = base_of(s, v);
    struct windowed r = { .ok = true, .local = v.local };
    int64_t low[MAX_DIMS], high[MAX_DIMS], size[MAX_DIMS];
    instr_id start[MAX_DIMS], zero = emit_const_i(s, DTYPE_S32, 0);
    bool pads = false, cuts = false;
    for (int d = 0; d < rank; d++) {
        int64_t n = tiles_on(s, target, d), local = node_shape(s, v.local)->dims[d];
        r.dims[d] = w[d];
        low[d] = high[d] = 0;
        size[d] = local;
        start[d] = zero;
        if (n == 1)
            continue;
        if (is_trivial(&w[d])) {
            if (tiles_on(s, v.sharding, d) == n)
                continue;
            size[d] = ceil_div(x->dims[d], n);
            high[d] = size[d] * n - x->dims[d];
            start[d] = offset_node(s, target, d, x->dims[d]);
        } else {
            struct plan p;
            if (!plan_whole(&p, &r.dims[d], n, x->dims[d]))
                return (struct windowed){ .ok = false };
            instr_id ordinal = ordinal_node(s, target, d);
            low[d] = p.E;
            high[d] = p.padded - p.E - x->dims[d];
            size[d] = p.W;
            /* Every start and size must fit, or the slice would be moved. */
            int64_t most = ofs_max(&p.start, 0, n) + p.W;
            high[d] += max_i64(0, most - p.padded);
            start[d] = ofs_node(s, &p.start, ordinal);
            set_output_offset(s, &r, &p, d, ordinal);
        }
        pads = pads || low[d] || high[d];
        cuts = true;
    }
    if (pads)
        r.local = emit_pad(s, r.local, emit_convert(s, pad, x->dtype), low, high, NULL);
    if (cuts)
        r.local = emit_dynamic_slice(s, r.local, start, size);
    return r;
}

struct exchange {
    struct spmd *s;
    struct pval v;
    int rank;
    const struct window_dim *w;
    sharding_id target;
    instr_id pad;
    bool mask, force;
    struct plan plans[MAX_DIMS];
    struct windowed r;
};

static bool plan_all(struct exchange *e)
{
    struct spmd *s = e->s;
    const struct shape *x = base_of(s, e->v), *local = node_shape(s, e->v.local);
    for (int d = 0; d < e->rank; d++) {
        int64_t n = tiles_on(s, e->target, d);
        e->r.dims[d] = e->w[d];
        e->plans[d] = (struct plan){ .whole = n == 1, .trivial = is_trivial(&e->w[d]), .n = n };
        if (n == 1 || e->plans[d].trivial)
            continue;
        if (!plan_exchange(&e->plans[d], &e->r.dims[d], n, x->dims[d], local->dims[d]))
            return false;
    }
    return true;
}

/* Masks and cuts that come before the exchange. */
static instr_id prepare(struct exchange *e)
{
    struct spmd *s = e->s;
    uint64_t masked = 0;
    for (int d = 0; d < e->rank; d++)
        if (e->plans[d].premask)
            masked |= bit(d);
    struct pval v = e->v;
    if (masked)
        v = pval_mask(s, v, emit_convert(s, e->pad, base_of(s, v)->dtype), 0, ~masked);
    instr_id x = v.local;
    for (int d = 0; d < e->rank; d++) {
        const struct plan *p = &e->plans[d];
        if (p->whole || p->trivial)
            continue;
        if (p->cut_from != 0 || p->cut_to != node_shape(s, x)->dims[d])
            x = slice_dim(s, x, d, p->cut_from, p->cut_to);
    }
    return x;
}

static uint64_t window_key(int rank, const struct window_dim *w)
{
    uint64_t h = 1;
    for (int d = 0; d < rank; d++) {
        const int64_t v[] = { w[d].size,         w[d].stride,          w[d].pad_low, w[d].pad_high,
                              w[d].base_dilation, w[d].window_dilation };
        for (size_t k = 0; k < COUNTOF(v); k++)
            h = hash_u64(h ^ (uint64_t)v[k]);
    }
    return h;
}

static bool exchange_halos(struct exchange *e)
{
    struct spmd *s = e->s;
    uint64_t key = window_key(e->rank, e->w);
    instr_id x = prepare(e);
    const char *old = because(s, "halo of neighbouring shards (S-98)");
    for (int d = 0; x.i && d < e->rank; d++) {
        const struct plan *p = &e->plans[d];
        if (p->whole || p->trivial)
            continue;
        struct ring ring = { e->target, d, p->n, p->gap_from, p->gap, key };
        struct halo_spec h = { .dim = d, .base = p->base, .low = p->E, .padded = p->padded,
                               .want = p->W, .offset = p->start, .pad = e->pad, .mask = e->mask,
                               .force = e->force,
                               .shard = node_shape(s, e->v.local)->dims[d] };
        h.left = ofs_sub(ofs_mad(p->S, p->E, 1), p->start);
        h.right = ofs_sub(p->limit, ofs_mad(p->S, p->S + p->E, 1));
        x = halo_valid(s, x, &h, &ring);
        if (x.i)
            set_output_offset(s, &e->r, p, d, ring_ordinal(s, &ring));
    }
    s->reason = old;
    e->r.local = x;
    return x.i != 0;
}

static uint64_t windowed_dims(int rank, const struct window_dim *w)
{
    uint64_t bits = 0;
    for (int d = 0; d < rank; d++)
        if (!is_trivial(&w[d]))
            bits |= bit(d);
    return bits;
}

/* Sizes that no product here can push out of int64. */
static bool sane(const struct shape *x, int rank, const struct window_dim *w)
{
    const int64_t big = (int64_t)1 << 31;
    for (int d = 0; d < rank; d++)
        if (x->dims[d] >= big || w[d].size >= big || w[d].stride >= big || w[d].pad_low >= big ||
            w[d].pad_high >= big || w[d].pad_low <= -big || w[d].pad_high <= -big ||
            w[d].base_dilation >= big || w[d].window_dilation >= big || w[d].stride < 1 ||
            w[d].base_dilation < 1 || w[d].window_dilation < 1 || w[d].size < 1)
            return false;
    return true;
}

struct windowed window_input(struct spmd *s, struct pval v, int rank, const struct window_dim *w,
                             sharding_id target, instr_id pad, bool mask, bool force)
{
    const struct windowed none = { .ok = false };
    int dims[64], n = bits_to_dims(windowed_dims(rank, w), rank, dims);
    if (rank > MAX_DIMS || !sane(base_of(s, v), rank, w))
        return none;
    sharding_id kept = sharding_replicate_dims(s->sh, target, n, dims);
    if (sharding_is_replicated(s->sh, v.sharding) ||
        (target.i != v.sharding.i && v.sharding.i == kept.i))
        return window_of_whole(s, v, rank, w, target, pad);
    struct exchange e = { .s = s, .v = v, .rank = rank, .w = w, .target = target, .pad = pad,
                          .mask = mask, .force = force, .r = { .ok = true, .local = v.local } };
    if (target.i != v.sharding.i)
        return window_input(s, reshard(s, v, target), rank, w, target, pad, true, false);
    if (!plan_all(&e))
        return none;
    bool moves = false;
    for (int d = 0; d < rank; d++)
        moves = moves || !(e.plans[d].whole || e.plans[d].trivial);
    if (!moves || exchange_halos(&e))
        return e.r;
    if (v.sharding.i == kept.i)
        return window_of_whole(s, v, rank, w, target, pad);
    return window_input(s, reshard(s, v, kept), rank, w, target, pad, true, false);
}

/* ---- slice and pad, S-110..S-112 ---------------------------------------------------------------- */

static instr_id cut_output(struct spmd *s, const struct windowed *r, instr_id x, shape_id shard)
{
    if (!r->has_offset)
        return x;
    const struct shape *sh = shape_get(s->ir, shard);
    instr_id starts[MAX_DIMS], zero = emit_const_i(s, DTYPE_S32, 0);
    for (int d = 0; d < sh->rank; d++)
        starts[d] = r->offset[d].i ? r->offset[d] : zero;
    return emit_dynamic_slice(s, x, starts, sh->dims);
}

bool slice_as_window(struct spmd *s, struct pval v, const int64_t *start, const int64_t *limit,
                     const int64_t *stride, shape_id out, sharding_id target, struct pval *res)
{
    const struct shape *x = base_of(s, v), *to = shape_get(s->ir, out);
    struct window_dim w[MAX_DIMS];
    if (x->rank > MAX_DIMS || to->count == 0)
        return false;
    for (int d = 0; d < x->rank; d++)
        w[d] = (struct window_dim){ .size = 1, .stride = stride ? stride[d] : 1,
                                    .pad_low = -start[d], .pad_high = limit[d] - x->dims[d],
                                    .base_dilation = 1, .window_dilation = 1 };
    struct windowed r =
        window_input(s, v, x->rank, w, target, emit_zero(s, x->dtype), false, false);
    if (!r.ok)
        return false;
    const struct shape *have = node_shape(s, r.local);
    const struct shape *shard = shape_get(s->ir, shard_shape(s, out, target));
    int64_t a[MAX_DIMS], b[MAX_DIMS], st[MAX_DIMS], low[MAX_DIMS], high[MAX_DIMS];
    bool short_piece = false;
    for (int d = 0; d < x->rank; d++) {
        a[d] = -r.dims[d].pad_low;
        st[d] = r.dims[d].stride;
        b[d] = a[d] + (shard->dims[d] - 1) * st[d] + 1;
        low[d] = 0;
        high[d] = max_i64(0, b[d] - have->dims[d]);
        short_piece = short_piece || high[d];
    }
    if (short_piece) /* a shard without exchange may be shorter than the result's padding */
        r.local = emit_pad(s, r.local, emit_zero(s, x->dtype), low, high, NULL);
    *res = pval_make(s, emit_slice(s, r.local, a, b, st), out, target);
    return true;
}

bool pad_as_window(struct spmd *s, struct pval v, instr_id value, const int64_t *low,
                   const int64_t *high, const int64_t *interior, shape_id out, sharding_id target,
                   struct pval *res)
{
    const struct shape *x = base_of(s, v);
    struct window_dim w[MAX_DIMS];
    bool mask = false;
    if (x->rank > MAX_DIMS || shape_get(s->ir, out)->count == 0 || x->count == 0)
        return false;
    for (int d = 0; d < x->rank; d++) {
        int64_t inner = interior ? interior[d] : 0;
        w[d] = (struct window_dim){ .size = 1, .stride = 1, .pad_low = low[d], .pad_high = high[d],
                                    .base_dilation = inner + 1, .window_dilation = 1 };
        mask = mask || (tiles_on(s, target, d) > 1 && (low[d] > 0 || high[d] > 0 || inner > 0));
    }
    struct windowed r = window_input(s, v, x->rank, w, target, value, mask, true);
    if (!r.ok)
        return false;
    int64_t lo[MAX_DIMS], hi[MAX_DIMS], in[MAX_DIMS];
    bool pads = false;
    for (int d = 0; d < x->rank; d++) {
        lo[d] = r.dims[d].pad_low;
        hi[d] = r.dims[d].pad_high;
        in[d] = r.dims[d].base_dilation - 1;
        pads = pads || lo[d] || hi[d] || in[d];
    }
    instr_id y = r.local;
    if (pads)
        y = emit_pad(s, y, emit_convert(s, value, x->dtype), lo, hi, in);
    shape_id shard = shard_shape(s, out, target);
    y = cut_output(s, &r, y, shard);
    if (instr_at(s->out, y)->shape.i != shard.i && !shape_same(s->ir, instr_at(s->out, y)->shape, shard))
        return false;
    *res = pval_make(s, y, out, target);
    return true;
}

bool shift_padding_left(struct spmd *s, struct pval v, uint64_t dims, struct pval *res)
{
    const struct shape *x = base_of(s, v);
    *res = v;
    if (is_tile_max(s, v.sharding))
        return true;
    struct window_dim w[MAX_DIMS];
    bool moves = false;
    if (x->rank > MAX_DIMS)
        return false;
    for (int d = 0; d < x->rank; d++) {
        int64_t n = tiles_on(s, v.sharding, d);
        w[d] = (struct window_dim){ .size = 1, .stride = 1, .base_dilation = 1,
                                    .window_dilation = 1 };
        if (dims & bit(d))
            w[d].pad_low = ceil_div(x->dims[d], n) * n - x->dims[d];
        moves = moves || w[d].pad_low;
    }
    if (!moves)
        return true;
    struct windowed r = window_input(s, v, x->rank, w, v.sharding, emit_zero(s, x->dtype), false, false);
    if (!r.ok || r.has_offset)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (r.dims[d].pad_low || r.dims[d].pad_high)
            return false;
    *res = pval_make(s, r.local, v.base, v.sharding);
    return true;
}
