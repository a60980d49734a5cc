/* Windowed products, section 10.7: in place of gathering a large operand (or of reducing a large
 * result), a loop that passes shards on to the neighbour while it multiplies.
 *
 * Device p of N, step i: the shard that started on device (i + p) mod N is here (gather), or the
 * partial result for device (i + 1 + p) mod N is (scatter). */
#include "partition/dot.h"

enum variant { GATHER_CONTRACT, GATHER_FREE, GATHER_BATCH, SCATTER };

struct loop {
    struct product *p;
    struct spmd *s;
    int side; /* the operand that travels; of a scatter: the one that does not match the output */
    enum variant variant;
    struct pval v[2]; /* operands */
    shape_id base;
    sharding_id out;
    int64_t n;
    int seam;             /* two-way gathers: a dim of 1 is put in front of this one while it travels;
                             -1: none */
    sharding_id cut;      /* how the other operand is cut, or where a piece lies in the result */
    shape_id accumulator; /* shape of the result under way */
};

enum { STATE_L, STATE_R, STATE_O, STATE_E, STATE_I, NSTATE };

/* ---- when, S-183 -------------------------------------------------------------------------------- */

/* The size of the array that is gathered or reduced, or, where that option is set, of both operands
 * as the program has them. */
static bool large(const struct loop *w, shape_id shape)
{
    struct spmd *s = w->s;
    int64_t total = s->opt->windowed_total_bytes;
    if (total > 0) {
        const struct instr *in = instr_at(s->src, w->p->source);
        return source_shape(s, in->operands[0])->bytes + source_shape(s, in->operands[1])->bytes >=
               total;
    }
    int64_t bytes = shape_get(s->ir, shape)->bytes;
    return bytes >= 0 && bytes / (1 << 20) >= s->opt->windowed_einsum_mib;
}

static bool forbidden(const struct loop *w)
{
    const struct instr *in = instr_at(w->s->src, w->p->source);
    static const char key[] = "_xla_collective_matmul=\"none\"";
    for (uint32_t i = 0; in->frontend && i + sizeof key - 1 <= in->frontend_len; i++) {
        uint32_t k = 0;
        while (k < sizeof key - 1 && in->frontend[i + k] == key[k])
            k++;
        if (k == sizeof key - 1)
            return true;
    }
    return w->n > 32 || w->n < 2 || w->p->grouped || w->p->n[SPATIAL] > 0;
}

/* What a user of x asks of it (by the rules of propagation); none: nothing, or it is not of the module. */
static sharding_id wish_of(const struct spmd *s, instr_id x, instr_id user)
{
    instr_id a = s->origin ? s->origin[x.i] : x, b = s->origin ? s->origin[user.i] : user;
    return prop_wish(s->prop, a, b);
}

/* S-184: an operand that other users want in the same way, and not as it is, is better gathered once
 * for all of them. */
static bool wanted_alone(const struct loop *w, int side)
{
    struct spmd *s = w->s;
    instr_id x = instr_at(s->src, w->p->source)->operands[side];
    uint32_t n = users_count(s->users, x);
    if (n <= 1)
        return true;
    sharding_id own = wish_of(s, x, w->p->source);
    for (uint32_t k = 0; own.i && k < n; k++) {
        instr_id u = users_of(s->users, x)[k];
        if (u.i != w->p->source.i && own.i != source_sharding(s, x).i && wish_of(s, x, u).i == own.i)
            return false;
    }
    return true;
}

static bool choose_gather(struct loop *w, int side)
{
    struct product *p = w->p;
    int other = side == LHS ? RHS : LHS;
    sharding_id sh = w->v[side].sharding, osh = w->v[other].sharding;
    if (product_count(p, w->out, free_class(other), OUTPUT) != w->n ||
        product_map(p, w->out, OUTPUT, other).i != osh.i || !large(w, w->v[side].base) ||
        !wanted_alone(w, side))
        return false;
    static const struct {
        enum product_class c;
        enum variant v;
    } order[] = { { CONTRACT, GATHER_CONTRACT }, { NCLASSES, GATHER_FREE }, { BATCH, GATHER_BATCH } };
    for (size_t k = 0; k < COUNTOF(order); k++) {
        enum product_class c = order[k].v == GATHER_FREE ? free_class(side) : order[k].c;
        if (product_count(p, sh, c, side) != w->n)
            continue;
        w->side = side;
        w->variant = order[k].v;
        w->cut = product_map(p, sh, side, order[k].v == GATHER_CONTRACT ? other : OUTPUT);
        if (order[k].v == GATHER_BATCH && !product_map(p, sh, side, other).i)
            return false;
        return w->cut.i != 0;
    }
    return false;
}

static bool choose_scatter(struct loop *w)
{
    struct product *p = w->p;
    bool left = product_count(p, w->out, LFREE, OUTPUT) == w->n;
    bool right = product_count(p, w->out, RFREE, OUTPUT) == w->n;
    if (product_count(p, w->v[LHS].sharding, CONTRACT, LHS) != w->n ||
        product_count(p, w->v[RHS].sharding, CONTRACT, RHS) != w->n || (!left && !right) ||
        !large(w, w->base))
        return false;
    w->side = left ? RHS : LHS;
    w->variant = SCATTER;
    w->cut = product_map(p, w->out, OUTPUT, left ? LHS : RHS);
    return w->cut.i != 0;
}

/* ---- pieces ------------------------------------------------------------------------------------- */

/* Where the tile of device `d` (u32 scalar) begins along an axis of sh, tiles of `size`. */
static instr_id tile_start(struct spmd *s, sharding_id sh, int axis, int64_t size, instr_id d)
{
    if (tiles_on(s, sh, axis) == 1)
        return emit_const_i(s, DTYPE_S32, 0);
    int64_t n = sharding_total(s->sh, sh), starts[64], index[64];
    for (int64_t k = 0; k < n && k < 64; k++) {
        starts[k] = 0;
        if (sharding_tile_index(s->sh, sh, k, index))
            starts[k] = index[axis] * size;
    }
    return emit_table(s, n, starts, d);
}

/* The piece of a whole local array that device d has of it under sh (S-73, line 16). */
static instr_id cut_piece(struct spmd *s, instr_id x, sharding_id sh, instr_id d)
{
    const struct shape *sx = node_shape(s, x);
    int64_t low[OPS_MAX_RANK] = { 0 }, high[OPS_MAX_RANK] = { 0 }, size[OPS_MAX_RANK];
    instr_id start[OPS_MAX_RANK];
    bool pads = false;
    for (int k = 0; k < sx->rank; k++) {
        int64_t tiles = tiles_on(s, sh, k);
        size[k] = ceil_div(sx->dims[k], tiles);
        high[k] = size[k] * tiles - sx->dims[k];
        pads = pads || high[k];
        start[k] = tile_start(s, sh, k, size[k], d);
    }
    if (pads)
        x = emit_pad(s, x, emit_zero(s, sx->dtype), low, high, NULL);
    return emit_dynamic_slice(s, x, start, size);
}

static instr_id put_piece(struct spmd *s, instr_id x, instr_id piece, sharding_id sh, instr_id d)
{
    const struct shape *sp = node_shape(s, piece);
    instr_id start[OPS_MAX_RANK];
    for (int k = 0; k < sp->rank; k++)
        start[k] = tile_start(s, sh, k, sp->dims[k], d);
    return emit_dus(s, x, piece, start);
}

/* Device `(index + p + shift) mod N`; index NULL-able by .i == 0. */
static instr_id device_at(struct loop *w, instr_id index, int64_t shift)
{
    struct spmd *s = w->s;
    instr_id d = emit_arith(s, OP_ADD, index, rank_node(s));
    if (shift)
        d = emit_arith(s, OP_ADD, d, emit_const_i(s, DTYPE_U32, shift));
    return emit_arith(s, OP_REMAINDER, d, emit_const_i(s, DTYPE_U32, w->n));
}

/* `(p + shift - index) mod N`, shift >= N. */
static instr_id device_against(struct loop *w, instr_id index, int64_t shift)
{
    struct spmd *s = w->s;
    instr_id d = emit_arith(s, OP_ADD, rank_node(s), emit_const_i(s, DTYPE_U32, shift));
    d = emit_arith(s, OP_SUBTRACT, d, index);
    return emit_arith(s, OP_REMAINDER, d, emit_const_i(s, DTYPE_U32, w->n));
}

static instr_id pass_on(struct loop *w, instr_id x, int64_t by)
{
    struct spmd *s = w->s;
    if (by % w->n == 0) /* two on of two */
        return x;
    struct tiling all = tiling_make(s->sh, 1, &w->n, order_iota(s->sh, w->n));
    struct permute_pairs p = { .kind = PAIRS_SHIFT, .from = all, .to = all, .axis = 0, .shift = by,
                               .wrap = true };
    return emit_permute(s, x, &p);
}

static instr_id add_to(struct spmd *s, instr_id a, instr_id b)
{
    return emit_arith(s, node_shape(s, a)->dtype == DTYPE_PRED ? OP_OR : OP_ADD, a, b);
}

/* A travelling operand of a two-way loop has a dim of 1 in front of its tiled one. */
static instr_id with_seam(struct loop *w, instr_id x)
{
    const struct shape *sx = node_shape(w->s, x);
    int64_t dims[OPS_MAX_RANK + 1];
    for (int d = 0; d <= sx->rank; d++)
        dims[d] = d == w->seam ? 1 : sx->dims[d < w->seam ? d : d - 1];
    return emit_reshape(w->s, x, sx->rank + 1, dims);
}

static instr_id without_seam(struct loop *w, instr_id x)
{
    if (w->seam < 0)
        return x;
    const struct shape *sx = node_shape(w->s, x);
    int64_t dims[OPS_MAX_RANK + 1];
    for (int d = 0; d + 1 < sx->rank; d++)
        dims[d] = sx->dims[d < w->seam ? d : d + 1];
    return emit_reshape(w->s, x, sx->rank - 1, dims);
}

/* One partial product, for the shard (or the result) of device d, joined to o. */
static instr_id join_product(struct loop *w, const instr_id *operands, instr_id o, instr_id d)
{
    struct spmd *s = w->s;
    int other = w->side == LHS ? RHS : LHS;
    instr_id x[2] = { operands[LHS], operands[RHS] };
    x[w->side] = without_seam(w, x[w->side]);
    if (w->variant == GATHER_CONTRACT || w->variant == SCATTER)
        x[other] = cut_piece(s, x[other], w->cut, d);
    if (w->variant == GATHER_BATCH)
        x[other] = cut_piece(s, x[other],
                             product_map(w->p, w->v[w->side].sharding, w->side, other), d);
    instr_id y = product_local(w->p, x[LHS], x[RHS], NULL);
    if (w->variant == GATHER_CONTRACT || w->variant == SCATTER)
        return add_to(s, o, y);
    return put_piece(s, o, y, w->cut, d);
}

/* ---- the loop, S-189 ---------------------------------------------------------------------------- */

static instr_id next_index(struct spmd *s, instr_id i)
{
    return emit_arith(s, OP_ADD, i, emit_const_i(s, DTYPE_U32, 1));
}

/* x passed on, unless this was the last step. */
static instr_id pass_unless_last(struct loop *w, instr_id x, instr_id next)
{
    struct spmd *s = w->s;
    comp_id body = s->comp, branches[2];
    shape_id shape = instr_at(s->out, x)->shape;
    for (int k = 0; k < 2; k++) {
        s->comp = branches[k] =
            comp_new(s->out, name_put(s->ir, k ? "windowed_keep" : "windowed_pass", 13));
        instr_id p = emit_parameter(s, 0, shape);
        comp_finish(s->out, s->comp, k ? p : pass_on(w, p, -1));
    }
    s->comp = body;
    instr_id more = emit_compare(s, "LT", next, emit_const_i(s, DTYPE_U32, w->n));
    instr_id args[2] = { x, x };
    return emit_conditional(s, more, 2, branches, args);
}

static void plain_step(struct loop *w, instr_id *st)
{
    struct spmd *s = w->s;
    bool scatter = w->variant == SCATTER;
    instr_id d = device_at(w, st[STATE_I], scatter ? 1 : 0);
    st[STATE_O] = join_product(w, st, st[STATE_O], d);
    st[STATE_I] = next_index(s, st[STATE_I]);
    instr_id *moves = scatter ? &st[STATE_O] : &st[w->side];
    *moves = pass_unless_last(w, *moves, st[STATE_I]);
}

static void unrolled_steps(struct loop *w, instr_id *st)
{
    struct spmd *s = w->s;
    if (w->variant == SCATTER) {
        instr_id e = join_product(w, st, st[STATE_E], device_at(w, st[STATE_I], 0));
        st[STATE_O] = pass_on(w, st[STATE_O], -2);
        st[STATE_E] = pass_on(w, e, -2);
        st[STATE_I] = emit_arith(s, OP_ADD, st[STATE_I], emit_const_i(s, DTYPE_U32, 2));
        st[STATE_O] = join_product(w, st, st[STATE_O], device_at(w, st[STATE_I], 1));
        return;
    }
    for (int k = 0; k < 2; k++) {
        instr_id next = pass_on(w, st[w->side], -1);
        st[STATE_O] = join_product(w, st, st[STATE_O], device_at(w, st[STATE_I], 0));
        st[w->side] = next;
        st[STATE_I] = next_index(s, st[STATE_I]);
    }
}

/* Both ways round: e is the second copy of the travelling operand, or the second result. */
static void two_way_step(struct loop *w, instr_id *st)
{
    struct spmd *s = w->s;
    int64_t n = w->n;
    if (w->variant == SCATTER) {
        st[STATE_O] = pass_on(w, st[STATE_O], -1);
        st[STATE_E] = pass_on(w, st[STATE_E], 1);
        st[STATE_O] = join_product(w, st, st[STATE_O], device_at(w, st[STATE_I], n / 2 + 1));
        st[STATE_E] = join_product(w, st, st[STATE_E], device_against(w, st[STATE_I], 2 * n - n / 2));
    } else {
        instr_id there = pass_on(w, st[w->side], -1), back = pass_on(w, st[STATE_E], 1);
        instr_id second[2] = { st[STATE_L], st[STATE_R] };
        second[w->side] = st[STATE_E];
        st[STATE_O] = join_product(w, st, st[STATE_O], device_at(w, st[STATE_I], 0));
        st[STATE_O] = join_product(w, second, st[STATE_O], device_against(w, st[STATE_I], 2 * n - 1));
        st[w->side] = there;
        st[STATE_E] = back;
    }
    st[STATE_I] = next_index(s, st[STATE_I]);
}

enum form { PLAIN, UNROLLED, TWO_WAY };

static enum form form_of(const struct loop *w)
{
    if (w->s->opt->bidirectional && w->n % 4 == 0)
        return TWO_WAY;
    return w->s->opt->unroll && w->n % 2 == 0 ? UNROLLED : PLAIN;
}

static comp_id loop_body(struct loop *w, shape_id state, enum form form)
{
    struct spmd *s = w->s;
    comp_id outer = s->comp, body = comp_new(s->out, name_put(s->ir, "windowed_body", 13));
    s->comp = body;
    instr_id in = emit_parameter(s, 0, state), st[NSTATE];
    for (int k = 0; k < NSTATE; k++)
        st[k] = emit_gte(s, in, k);
    switch (form) {
    case PLAIN:
        plain_step(w, st);
        break;
    case UNROLLED:
        unrolled_steps(w, st);
        break;
    case TWO_WAY:
        two_way_step(w, st);
        two_way_step(w, st);
        break;
    }
    comp_finish(s->out, body, emit_tuple(s, NSTATE, st));
    s->comp = outer;
    return body;
}

static comp_id loop_condition(struct loop *w, shape_id state, int64_t limit)
{
    struct spmd *s = w->s;
    comp_id outer = s->comp, cond = comp_new(s->out, name_put(s->ir, "windowed_condition", 18));
    s->comp = cond;
    instr_id in = emit_parameter(s, 0, state);
    instr_id more = emit_compare(s, "LT", emit_gte(s, in, STATE_I), emit_const_i(s, DTYPE_U32, limit));
    comp_finish(s->out, cond, more);
    s->comp = outer;
    return cond;
}

/* The result's shard, with room for whole pieces of the travelling operand. */
static shape_id accumulator_shape(struct loop *w)
{
    struct spmd *s = w->s;
    const struct shape *shard = shape_get(s->ir, shard_shape(s, w->base, w->out));
    int64_t dims[OPS_MAX_RANK];
    for (int d = 0; d < shard->rank; d++) {
        int64_t tiles = w->variant == GATHER_FREE || w->variant == GATHER_BATCH
                            ? tiles_on(s, w->cut, d)
                            : 1;
        dims[d] = ceil_div(shard->dims[d], tiles) * tiles;
    }
    return shape_array(s->ir, shard->dtype, shard->rank, dims);
}

static instr_id zeros_of(struct spmd *s, shape_id shape)
{
    const struct shape *x = shape_get(s->ir, shape);
    return emit_broadcast_scalar(s, emit_zero(s, x->dtype), x->rank, x->dims);
}

/* S-188: the contracting dims tiled in another way: the smaller operand follows the larger. */
static bool align_contracting(struct loop *w)
{
    struct spmd *s = w->s;
    int follows = local_bytes(s, w->v[LHS]) < local_bytes(s, w->v[RHS]) ? LHS : RHS;
    int leads = follows == LHS ? RHS : LHS;
    sharding_id to = product_map(w->p, w->v[leads].sharding, leads, follows);
    if (!to.i)
        return false;
    w->v[follows] = reshard(s, w->v[follows], to);
    return true;
}

static int first_tiled(const struct spmd *s, sharding_id sh, int rank)
{
    for (int d = 0; d < rank; d++)
        if (tiles_on(s, sh, d) > 1)
            return d;
    return 0;
}

static instr_id run_loop(struct loop *w)
{
    struct spmd *s = w->s;
    enum form form = form_of(w);
    bool scatter = w->variant == SCATTER;
    if (scatter || w->variant == GATHER_CONTRACT)
        w->v[w->side] = mask_zero(s, w->v[w->side], 0);
    if (scatter)
        w->v[w->side == LHS ? RHS : LHS] = mask_zero(s, w->v[w->side == LHS ? RHS : LHS], 0);
    instr_id st[NSTATE] = { w->v[LHS].local, w->v[RHS].local };
    if (form == TWO_WAY && !scatter) {
        w->seam = first_tiled(s, w->v[w->side].sharding, w->p->rank[w->side]);
        st[w->side] = with_seam(w, st[w->side]);
    }
    st[STATE_O] = zeros_of(s, w->accumulator);
    st[STATE_E] = emit_const_i(s, DTYPE_U32, 0); /* not needed */
    if (scatter && form != PLAIN)
        st[STATE_E] = zeros_of(s, w->accumulator);
    else if (form == TWO_WAY)
        st[STATE_E] = pass_on(w, st[w->side], 1);
    st[STATE_I] = emit_const_i(s, DTYPE_U32, 0);
    instr_id init = emit_tuple(s, NSTATE, st);
    shape_id state = instr_at(s->out, init)->shape;
    comp_id body = loop_body(w, state, form);
    comp_id cond = loop_condition(w, state, form == TWO_WAY ? w->n / 2 : w->n);
    instr_id end = emit_while(s, init, cond, body);
    bool free = w->variant == GATHER_FREE, pieces = free || w->variant == GATHER_BATCH;
    struct windowed_loop made = { end, free ? -1 : w->side == LHS ? STATE_R : STATE_L, pieces };
    vec_push(&s->arena, &s->windowed, made);
    instr_id o = emit_gte(s, end, STATE_O);
    if (scatter && form == UNROLLED)
        return add_to(s, pass_on(w, o, 1), emit_gte(s, end, STATE_E));
    if (scatter && form == TWO_WAY)
        return add_to(s, o, pass_on(w, emit_gte(s, end, STATE_E), 1));
    return o;
}

static bool accepted(struct loop *w)
{
    return !forbidden(w) &&
           (choose_gather(w, RHS) || choose_gather(w, LHS) || choose_scatter(w));
}

bool product_is_windowed(struct product *p, struct pval l, struct pval r, shape_id base,
                         sharding_id out, int64_t n)
{
    struct spmd *s = p->s;
    struct loop w = { .p = p, .s = s, .v = { l, r }, .base = base, .out = out, .n = n, .seam = -1 };
    return !sharding_is_partial(s->sh, l.sharding) && !sharding_is_partial(s->sh, r.sharding) &&
           !sharding_is_partial(s->sh, out) && accepted(&w);
}

/* ---- which way becomes a loop, S-186, S-187 -------------------------------------------------------- */

/* Steps of the loop that is left when an operand is matched; 0: none is. What is made to find out is
 * dead, and so are the notes. */
static int64_t steps_when_matched(struct product *p, struct pval l, struct pval r, shape_id base,
                                  sharding_id out, int64_t n, bool strict, int side)
{
    struct spmd *s = p->s;
    int64_t remats = s->remats.n;
    struct choice c = product_choice(p, free_class(side), side, OUTPUT);
    struct inner_product in;
    bool ok = product_free_inside(p, l, r, base, out, n, strict, side, &c, &in);
    s->remats.n = remats;
    if (!ok)
        return 0;
    groups_enter(s, in.groups.groups);
    bool loop = product_is_windowed(p, in.l, in.r, in.base, in.out, in.n);
    groups_leave(s);
    return loop ? in.n : 0;
}

static int64_t steps_when_contracted(struct product *p, struct pval l, struct pval r, shape_id base,
                                     sharding_id out, int64_t n, bool strict)
{
    struct spmd *s = p->s;
    struct choice c = product_choice(p, CONTRACT, LHS, RHS);
    for (int i = 0; i < c.n; i++)
        if (tiles_on(s, l.sharding, c.own[i]) != tiles_on(s, r.sharding, c.other[i]))
            return 0;
    int64_t remats = s->remats.n;
    struct inner_product in;
    bool ok = product_contract_inside(p, l, r, base, out, n, strict, &c, &in);
    s->remats.n = remats;
    if (!ok)
        return 0;
    groups_enter(s, in.groups.groups);
    bool loop = product_is_windowed(p, in.l, in.r, in.base, in.out, in.n);
    groups_leave(s);
    return loop ? in.n : 0;
}

/* Times are not estimated here (S-185's defaults): fewer steps win. */
int product_faster_side(struct product *p, struct pval l, struct pval r, shape_id base,
                        sharding_id out, int64_t n, bool strict, bool left, bool right)
{
    if (!p->s->opt->choose_faster_windowed_einsum)
        return -1;
    int64_t by_left = left ? steps_when_matched(p, l, r, base, out, n, strict, LHS) : 0;
    int64_t by_right = right ? steps_when_matched(p, l, r, base, out, n, strict, RHS) : 0;
    if (!by_left && !by_right)
        return -1;
    int64_t fewest = by_left && (!by_right || by_left < by_right) ? by_left : by_right;
    int64_t lc = product_count(p, l.sharding, CONTRACT, LHS);
    if (lc > 1 && lc == product_count(p, r.sharding, CONTRACT, RHS)) {
        int64_t first = steps_when_contracted(p, l, r, base, out, n, strict);
        if (first && fewest > first)
            return -2;
    }
    if (!left || !right)
        return -1;
    return fewest == by_left && by_left != by_right ? LHS : RHS;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

bool product_windowed(struct product *p, struct pval l, struct pval r, shape_id base,
                      sharding_id out, int64_t n, struct pval *res)
{
    struct loop w = { .p = p, .s = p->s, .v = { l, r }, .base = base, .out = out, .n = n, .seam = -1 };
    if (!accepted(&w))
        return false;
    struct spmd *s = p->s;
    if (w.variant == SCATTER && !align_contracting(&w))
        return false;
    p->loops++;
    w.accumulator = accumulator_shape(&w);
    const char *old = because(s, "a loop in place of a gathered operand or a reduced result (S-183)");
    instr_id x = run_loop(&w);
    s->reason = old;
    const struct shape *shard = shape_get(s->ir, shard_shape(s, base, out));
    int64_t start[OPS_MAX_RANK] = { 0 };
    x = emit_slice(s, x, start, shard->dims, NULL);
    *res = pval_make(s, x, base, out);
    return true;
}
