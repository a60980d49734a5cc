/* Functions of the shard ordinal and halo exchange by concatenation, S-92..S-96, S-98. */
#include "partition/halo.h"

/* ---- functions of the ordinal ------------------------------------------------------------------- */

struct ofs ofs_const(int64_t o)
{
    return (struct ofs){ .o = o };
}

struct ofs ofs_mad(int64_t m, int64_t o, int64_t d)
{
    if (d != 1 && m % d == 0 && (o % d == 0 || (o > 0) == (m > 0)) && m != 0) {
        m /= d;
        o /= d;
        d = 1;
    }
    if (m == 0)
        return ofs_const(o / d);
    if (d == 1)
        return (struct ofs){ .m = m, .o = o };
    return (struct ofs){ .n = 1, .t = { { 1, m, o, d } } };
}

static void add_term(struct ofs *f, struct ofs_term t)
{
    for (int i = 0; i < f->n; i++) {
        if (f->t[i].m != t.m || f->t[i].o != t.o || f->t[i].d != t.d)
            continue;
        f->t[i].c += t.c;
        if (f->t[i].c == 0)
            f->t[i] = f->t[--f->n];
        return;
    }
    f->t[f->n++] = t; /* rules make at most four terms */
}

struct ofs ofs_add(struct ofs a, struct ofs b)
{
    a.m += b.m;
    a.o += b.o;
    for (int i = 0; i < b.n; i++)
        add_term(&a, b.t[i]);
    return a;
}

struct ofs ofs_scale(struct ofs a, int64_t c)
{
    if (c == 0)
        return ofs_const(0);
    a.m *= c;
    a.o *= c;
    for (int i = 0; i < a.n; i++)
        a.t[i].c *= c;
    return a;
}

struct ofs ofs_sub(struct ofs a, struct ofs b)
{
    return ofs_add(a, ofs_scale(b, -1));
}

int64_t ofs_at(const struct ofs *f, int64_t i)
{
    int64_t v = f->m * i + f->o;
    for (int k = 0; k < f->n; k++)
        v += f->t[k].c * ((f->t[k].m * i + f->t[k].o) / f->t[k].d);
    return v;
}

bool ofs_is_const(const struct ofs *f)
{
    return f->m == 0 && f->n == 0;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

static int64_t max_plain(const struct ofs *f, int64_t from, int64_t to, int64_t best)
{
    for (int64_t i = from; i < to; i++)
        best = max_i64(best, ofs_at(f, i));
    return best;
}

/* A term divides numbers of one sign on either side of its zero, where it repeats with its divisor
 * but for a line: the maximum lies in the first or last period of each such stretch. */
int64_t ofs_max(const struct ofs *f, int64_t from, int64_t to)
{
    if (f->n == 0)
        return max_i64(ofs_at(f, from), ofs_at(f, to - 1));
    int64_t period = 1, cuts[16];
    int ncuts = 0;
    cuts[ncuts++] = from;
    for (int k = 0; k < f->n; k++) {
        period = period / gcd(period, f->t[k].d) * f->t[k].d;
        int64_t zero = f->t[k].m ? -f->t[k].o / f->t[k].m : from;
        for (int64_t z = zero; z <= zero + 1 && ncuts < 15; z++)
            if (z > from && z < to)
                cuts[ncuts++] = z;
    }
    cuts[ncuts++] = to;
    for (int i = 1; i < ncuts; i++)
        for (int j = i; j > 0 && cuts[j] < cuts[j - 1]; j--) {
            int64_t t = cuts[j];
            cuts[j] = cuts[j - 1];
            cuts[j - 1] = t;
        }
    int64_t best = ofs_at(f, from);
    for (int i = 0; i + 1 < ncuts; i++) {
        int64_t a = cuts[i], b = cuts[i + 1];
        if (b - a <= 2 * period) {
            best = max_plain(f, a, b, best);
            continue;
        }
        best = max_plain(f, a, a + period, best);
        best = max_plain(f, b - period, b, best);
    }
    return best;
}

static instr_id times(struct spmd *s, instr_id x, int64_t c)
{
    return c == 1 ? x : emit_arith(s, OP_MULTIPLY, x, emit_const_i(s, DTYPE_S32, c));
}

static instr_id plus(struct spmd *s, instr_id x, int64_t c)
{
    return c == 0 ? x : emit_arith(s, OP_ADD, x, emit_const_i(s, DTYPE_S32, c));
}

instr_id ofs_node(struct spmd *s, const struct ofs *f, instr_id ordinal)
{
    if (ofs_is_const(f))
        return emit_const_i(s, DTYPE_S32, f->o);
    instr_id sum = { 0 };
    for (int k = 0; k < f->n; k++) {
        instr_id q = plus(s, times(s, ordinal, f->t[k].m), f->t[k].o);
        q = emit_arith(s, OP_DIVIDE, q, emit_const_i(s, DTYPE_S32, f->t[k].d));
        q = times(s, q, f->t[k].c);
        sum = sum.i ? emit_arith(s, OP_ADD, sum, q) : q;
    }
    if (f->m != 0) {
        instr_id q = times(s, ordinal, f->m);
        sum = sum.i ? emit_arith(s, OP_ADD, sum, q) : q;
    }
    return plus(s, sum, f->o);
}

/* ---- rings -------------------------------------------------------------------------------------- */

int64_t ring_real(const struct ring *r, int64_t i)
{
    return r->gap > 0 && i >= r->from ? i + r->gap : i;
}

bool ring_list_pairs(struct spmd *s, const struct ring *r, int64_t n, const int64_t *list,
                     struct permute_pairs *out)
{
    const struct sharding *sh = sharding_get(s->sh, r->sh);
    int64_t axis_size = sh->tiles.dims[r->axis], others = sharding_total(s->sh, r->sh) / axis_size;
    if (n * others > HALO_LIST_LIMIT)
        return false;
    int64_t *pairs = ARENA_ARRAY(&s->arena, int64_t, 2 * n * others + 1);
    int64_t count = 0, inner = 1;
    for (int d = r->axis + 1; d < sh->tiles.naxes; d++)
        inner *= sh->tiles.dims[d];
    for (int64_t o = 0; o < others; o++)
        for (int64_t i = 0; i < 2 * n; i++) {
            int64_t cell = (o / inner * axis_size + list[i]) * inner + o % inner;
            pairs[count++] = order_device(s->sh, sh->tiles.order, cell);
        }
    *out = (struct permute_pairs){ .kind = PAIRS_LIST, .n = count / 2, .list = pairs };
    return true;
}

/* A ring with a gap is no shift: one by one. */
static bool ring_pairs(struct spmd *s, const struct ring *r, int64_t distance,
                       struct permute_pairs *out)
{
    if (r->n > HALO_LIST_LIMIT)
        return false;
    int64_t *list = ARENA_ARRAY(&s->arena, int64_t, 2 * r->n), n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (i + distance < 0 || i + distance >= r->n)
            continue;
        list[2 * n] = ring_real(r, i);
        list[2 * n + 1] = ring_real(r, i + distance);
        n++;
    }
    return ring_list_pairs(s, r, n, list, out);
}

instr_id ring_shift(struct spmd *s, instr_id x, const struct ring *r, int64_t distance)
{
    const struct sharding *sh = sharding_get(s->sh, r->sh);
    struct permute_pairs p = { .kind = PAIRS_SHIFT, .from = sh->tiles, .to = sh->tiles,
                               .axis = r->axis, .shift = distance };
    if (r->gap > 0) {
        if (!ring_pairs(s, r, distance, &p))
            return (instr_id){ 0 };
    } else if (distance >= r->n || distance <= -r->n) {
        const struct shape *sx = node_shape(s, x);
        return emit_broadcast_scalar(s, emit_zero(s, sx->dtype), sx->rank, sx->dims);
    } else if (r->n < sh->tiles.dims[r->axis]) {
        p.limit = r->n;
    }
    return emit_permute(s, x, &p);
}

instr_id ring_ordinal(struct spmd *s, const struct ring *r)
{
    instr_id o = ordinal_node(s, r->sh, r->axis);
    if (r->gap == 0)
        return o;
    instr_id low = emit_compare(s, "LT", o, emit_const_i(s, DTYPE_S32, r->from));
    return emit_select(s, low, o, plus(s, o, -r->gap));
}

/* ---- exchange by concatenation ------------------------------------------------------------------ */

instr_id slice_dim(struct spmd *s, instr_id x, int dim, int64_t a, int64_t b)
{
    const struct shape *sx = node_shape(s, x);
    int64_t start[64], limit[64];
    for (int d = 0; d < sx->rank; d++) {
        start[d] = d == dim ? a : 0;
        limit[d] = d == dim ? b : sx->dims[d];
    }
    return emit_slice(s, x, start, limit, NULL);
}

struct pieces {
    instr_id *v;
    int64_t n;
};

/* What a permute of a halo is known by: one serves all windows over a value (inputs of windows are
 * cached, S-99). */
static uint64_t piece_key(const struct spmd *s, instr_id x, int dim, int64_t a, int64_t b,
                          const struct ring *r, int64_t distance)
{
    uint64_t h = hash_u64(((uint64_t)x.i << 32 | s->groups->number) ^ r->key);
    h = hash_u64(h ^ ((uint64_t)r->sh.i << 32 | (uint64_t)dim));
    const int64_t v[] = { a, b, distance, r->n, r->from, r->gap };
    for (size_t k = 0; k < COUNTOF(v); k++)
        h = hash_u64(h ^ (uint64_t)v[k]);
    return h;
}

static bool known_piece(struct spmd *s, instr_id x, uint64_t key, instr_id *piece)
{
    uint64_t found;
    if (!s->shifts.arena)
        map_init(&s->shifts, &s->arena);
    if (!map_get(&s->shifts, key, &found))
        return false;
    *piece = (instr_id){ (uint32_t)found };
    const struct instr *in = instr_at(s->out, *piece);
    if (in->comp.i != s->comp.i || in->op != OP_COLLECTIVE_PERMUTE || best_rejected(s, *piece))
        return false;
    instr_id sent = in->operands[0]; /* x, or a slice of it */
    return sent.i == x.i || (instr_at(s->out, sent)->op == OP_SLICE &&
                             instr_operand(s->out, sent, 0).i == x.i);
}

/* [a, b) of the local array, from the shard `distance` places before. false: it cannot be had. */
static bool add_piece(struct spmd *s, instr_id x, int dim, int64_t a, int64_t b,
                      const struct ring *r, int64_t distance, struct pieces *p)
{
    if (a >= b)
        return true;
    if (distance == 0) {
        p->v[p->n++] = slice_dim(s, x, dim, a, b);
        return true;
    }
    uint64_t key = piece_key(s, x, dim, a, b, r, distance);
    instr_id piece;
    if (!known_piece(s, x, key, &piece)) {
        piece = ring_shift(s, slice_dim(s, x, dim, a, b), r, distance);
        map_put(&s->shifts, key, piece.i);
    }
    p->v[p->n++] = piece;
    return piece.i != 0;
}

/* S-96 */
instr_id halo_concat(struct spmd *s, instr_id x, const struct ofs *left, const struct ofs *right,
                     int dim, const struct ring *r)
{
    int64_t S = node_shape(s, x)->dims[dim], n = r->n;
    int64_t L = ofs_max(left, 1, n), R = ofs_max(right, 0, n - 1);
    const instr_id none = { 0 };
    if (S == 0 || (L + R + S >= S * n && (L > S || R > S)))
        return none;
    int64_t lo = -ofs_max(left, 0, n), hi = S + ofs_max(right, 0, n);
    if (lo >= hi)
        return none;
    int64_t nl = L > 0 ? ceil_div(L, S) : 0, nr = R > 0 ? ceil_div(R, S) : 0;
    struct pieces p = { ARENA_ARRAY(&s->arena, instr_id, nl + nr + 1), 0 };
    for (int64_t k = nl - 1; k >= 0 && (-k - 1) * S < hi; k--) {
        int64_t a = S - min_i64(L - S * k, S), b = S - max_i64(-k * S - hi, 0);
        if (!add_piece(s, x, dim, a, b, r, k + 1, &p))
            return none;
    }
    if (lo < S && hi > 0 && !add_piece(s, x, dim, max_i64(0, lo), min_i64(S, hi), r, 0, &p))
        return none;
    for (int64_t k = min_i64(max_i64(lo - S, 0), max_i64(R, 0)) / S; k < nr; k++) {
        int64_t a = max_i64(lo - (k + 1) * S, 0), b = min_i64(R - S * k, S);
        if (!add_piece(s, x, dim, a, b, r, -(k + 1), &p))
            return none;
    }
    if (p.n == 0)
        return none;
    return p.n == 1 ? p.v[0] : emit_concat(s, p.n, p.v, dim);
}

/* ---- halo and valid data, S-98 ------------------------------------------------------------------ */

instr_id pad_dim(struct spmd *s, instr_id x, instr_id value, int dim, int64_t low,
                        int64_t high)
{
    if (low == 0 && high == 0)
        return x;
    int64_t lows[64] = { 0 }, highs[64] = { 0 };
    lows[dim] = low;
    highs[dim] = high;
    return emit_pad(s, x, value, lows, highs, NULL);
}

instr_id dynamic_slice_dim(struct spmd *s, instr_id x, int dim, instr_id start, int64_t size)
{
    const struct shape *sx = node_shape(s, x);
    instr_id starts[64];
    int64_t sizes[64];
    instr_id zero = emit_const_i(s, DTYPE_S32, 0);
    for (int d = 0; d < sx->rank; d++) {
        starts[d] = d == dim ? start : zero;
        sizes[d] = d == dim ? size : sx->dims[d];
    }
    return emit_dynamic_slice(s, x, starts, sizes);
}

/* Selects pad outside [low, low + base) of the padded dimension. */
static instr_id mask_padding(struct spmd *s, instr_id x, const struct halo_spec *h, instr_id ordinal)
{
    bool below = h->low > 0 || ofs_at(&h->offset, 0) < h->low;
    bool above = h->padded - h->base - h->low > 0;
    if (!below && !above)
        return x;
    const struct shape *sx = node_shape(s, x);
    instr_id at = emit_iota(s, DTYPE_S32, sx->rank, sx->dims, h->dim);
    instr_id offset = ofs_node(s, &h->offset, ordinal);
    at = emit_arith(s, OP_ADD, at, emit_broadcast_scalar(s, offset, sx->rank, sx->dims));
    instr_id in = { 0 };
    if (below) {
        instr_id low = emit_const_i(s, DTYPE_S32, h->low);
        in = emit_compare(s, "GE", at, emit_broadcast_scalar(s, low, sx->rank, sx->dims));
    }
    if (above) {
        instr_id end = emit_const_i(s, DTYPE_S32, h->low + h->base);
        instr_id lt = emit_compare(s, "LT", at, emit_broadcast_scalar(s, end, sx->rank, sx->dims));
        in = in.i ? emit_arith(s, OP_AND, in, lt) : lt;
    }
    instr_id pad = emit_convert(s, h->pad, sx->dtype);
    return emit_select(s, in, x, emit_broadcast_scalar(s, pad, sx->rank, sx->dims));
}

instr_id halo_valid(struct spmd *s, instr_id x, const struct halo_spec *h, const struct ring *r)
{
    const instr_id none = { 0 };
    int64_t S = node_shape(s, x)->dims[h->dim], left0 = ofs_at(&h->left, 0);
    struct ofs both = ofs_add(h->left, h->right);
    int64_t most = max_i64(ofs_max(&h->left, 0, r->n), ofs_max(&h->right, 0, r->n));
    int64_t span = S + ofs_max(&both, 0, r->n);
    if (h->low == left0 && span == h->want && most > 2 * h->want) {
        if (2 * span >= r->n * max_i64(S, h->shard))
            return none;
        return ring_compact(s, x, h, r);
    }
    instr_id c = halo_concat(s, x, &h->left, &h->right, h->dim, r);
    if (!c.i)
        return none;
    int64_t L = ofs_max(&h->left, 1, r->n), A = max_i64(max_i64(L, h->low), left0);
    struct ofs start = ofs_sub(ofs_const(A), h->left);
    int64_t size = node_shape(s, c)->dims[h->dim];
    int64_t extra_left = max_i64(0, A - max_i64(0, L));
    int64_t extra_right = max_i64(0, ofs_max(&start, 0, r->n) + h->want - size - extra_left);
    instr_id pad = emit_convert(s, h->pad, node_shape(s, x)->dtype);
    c = pad_dim(s, c, pad, h->dim, extra_left, extra_right);
    size += extra_left + extra_right;
    instr_id ordinal = ring_ordinal(s, r);
    if (size != h->want) {
        if (ofs_is_const(&h->left) && left0 == h->low)
            c = slice_dim(s, c, h->dim, 0, h->want);
        else
            c = dynamic_slice_dim(s, c, h->dim, ofs_node(s, &start, ordinal), h->want);
    }
    return h->mask ? mask_padding(s, c, h, ordinal) : c;
}
