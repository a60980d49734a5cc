/* FFT (S-167): along a dimension that all devices split, as one of each residue, turned and summed in a
 * ring. Any other needs its array whole.
 *
 * With P devices and X[k] the sum over g of x[g] w(gk/n), w(a) = exp(-2 pi i a): device q gets the elements
 * g = q mod P, transforms them (length m = n / P), and turns element t of that by w(qt/n). Device d then
 * needs the sum over q of w(dq/P) times what q has: in P steps round the ring.
 */
#include <string.h>

#include "partition/best_emit.h"
#include "partition/halo.h"

enum { SUM, TURNED, MINE, FROM, STEP, NSTATE };

struct fft {
    struct spmd *s;
    instr_id source;
    sharding_id sh;
    enum dtype type;
    int last;
    int64_t parts, m; /* P, elements of a shard along the dimension */
};

static const double two_pi = 6.283185307179586476925;

static instr_id imaginary(struct spmd *s, enum dtype t, double v)
{
    float narrow[2] = { 0, (float)v };
    double wide[2] = { 0, v };
    shape_id scalar = shape_array(s->ir, t, 0, NULL);
    return emit_literal(s, literal_new(s->out, scalar, t == DTYPE_C64 ? (const void *)narrow : wide));
}

static instr_id spread(const struct fft *f, instr_id scalar, instr_id like)
{
    const struct shape *x = node_shape(f->s, like);
    return emit_broadcast_scalar(f->s, scalar, x->rank, x->dims);
}

static instr_id exponential(struct spmd *s, instr_id x)
{
    return emit1(s, OP_EXP, instr_at(s->out, x)->shape, x);
}

/* ---- one residue a device --------------------------------------------------------------------------- */

/* Shards that begin at multiples of P; none: too long a halo. */
static instr_id recut(const struct fft *f, instr_id x, int64_t size)
{
    struct spmd *s = f->s;
    int64_t more = size - f->m;
    if (more == 0)
        return x;
    struct ofs left = ofs_const(0), right = ofs_mad(more, 2 * more, 1);
    struct ring ring = { .sh = f->sh, .axis = f->last, .n = f->parts };
    x = halo_concat(s, x, &left, &right, f->last, &ring);
    if (!x.i || node_shape(s, x)->dims[f->last] < size)
        return (instr_id){ 0 };
    instr_id at = emit_arith(s, OP_MULTIPLY, ordinal_node(s, f->sh, f->last), emit_const_i(s, DTYPE_S32, more));
    return dynamic_slice_dim(s, x, f->last, at, size);
}

/* Element j goes to place (j mod P) * (size / P) + j / P. */
static instr_id sort_residues(const struct fft *f, instr_id x, int64_t size)
{
    struct spmd *s = f->s;
    int64_t dims[OPS_MAX_RANK + 1];
    int perm[OPS_MAX_RANK + 1], rank = f->last + 1;
    memcpy(dims, node_shape(s, x)->dims, (size_t)rank * sizeof *dims);
    dims[f->last] = size / f->parts;
    dims[f->last + 1] = f->parts;
    for (int d = 0; d <= rank; d++)
        perm[d] = d;
    perm[f->last] = f->last + 1;
    perm[f->last + 1] = f->last;
    x = emit_transpose(s, emit_reshape(s, x, rank + 1, dims), perm);
    dims[f->last] = size;
    return emit_reshape(s, x, rank, dims);
}

static instr_id transform(const struct fft *f, instr_id x)
{
    struct spmd *s = f->s;
    instr_id y = emit_clone(s, f->source, instr_at(s->out, x)->shape, 1, &x);
    struct instr *in = instr_at(s->out, y);
    struct attr *attrs = arena_copy(&s->out->arena, in->attrs, in->nattrs, sizeof *attrs);
    for (int k = 0; k < in->nattrs; k++)
        if (attrs[k].key == ATTR_FFT_LENGTH && attrs[k].n) {
            int64_t *length = arena_copy(&s->out->arena, attrs[k].ints, attrs[k].n, sizeof *length);
            length[attrs[k].n - 1] = f->m;
            attrs[k].ints = length;
        }
    in->attrs = attrs;
    return y;
}

/* Times w(qt/n). */
static instr_id turn(const struct fft *f, instr_id x, instr_id mine)
{
    struct spmd *s = f->s;
    const struct shape *sh = node_shape(s, x);
    instr_id unit = imaginary(s, f->type, -two_pi / ((double)f->parts * (double)f->m));
    instr_id angle = emit_arith(s, OP_MULTIPLY, spread(f, unit, x), spread(f, mine, x));
    angle = emit_arith(s, OP_MULTIPLY, angle, emit_iota(s, f->type, sh->rank, sh->dims, f->last));
    return emit_arith(s, OP_MULTIPLY, x, exponential(s, angle));
}

/* ---- the ring ------------------------------------------------------------------------------------------ */

static instr_id pass_on(const struct fft *f, instr_id x)
{
    struct permute_pairs p = { .kind = PAIRS_SHIFT, .from = sharding_get(f->s->sh, f->sh)->tiles,
                               .axis = f->last, .shift = 1, .wrap = true };
    return emit_permute(f->s, x, &p);
}

/* d q mod P: small angles are exact ones. */
static instr_id turns(const struct fft *f, instr_id d, instr_id q)
{
    struct spmd *s = f->s;
    enum dtype part = f->type == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
    shape_id real = shape_array(s->ir, part, 0, NULL);
    d = emit_convert(s, emit1(s, OP_REAL, real, d), DTYPE_S64);
    q = emit_convert(s, emit1(s, OP_REAL, real, q), DTYPE_S64);
    instr_id n = emit_arith(s, OP_REMAINDER, emit_arith(s, OP_MULTIPLY, d, q), emit_const_i(s, DTYPE_S64, f->parts));
    return emit_convert(s, n, f->type);
}

static comp_id ring_body(const struct fft *f, shape_id state)
{
    struct spmd *s = f->s;
    comp_id outer = s->comp, body = comp_new(s->out, name_put(s->ir, "fft_ring", 8));
    s->comp = body;
    instr_id in = emit_parameter(s, 0, state), st[NSTATE];
    for (int k = 0; k < NSTATE; k++)
        st[k] = emit_gte(s, in, k);
    instr_id unit = imaginary(s, f->type, -two_pi / (double)f->parts);
    instr_id angle = emit_arith(s, OP_MULTIPLY, unit, turns(f, st[MINE], st[FROM]));
    instr_id share = emit_arith(s, OP_MULTIPLY, spread(f, exponential(s, angle), st[TURNED]), st[TURNED]);
    st[SUM] = emit_arith(s, OP_ADD, share, st[SUM]);
    st[FROM] = pass_on(f, st[FROM]);
    st[TURNED] = pass_on(f, st[TURNED]);
    st[STEP] = emit_arith(s, OP_ADD, st[STEP], emit_const_i(s, DTYPE_U32, 1));
    comp_finish(s->out, body, emit_tuple(s, NSTATE, st));
    s->comp = outer;
    return body;
}

static comp_id ring_condition(const struct fft *f, shape_id state)
{
    struct spmd *s = f->s;
    comp_id outer = s->comp, cond = comp_new(s->out, name_put(s->ir, "fft_ring_condition", 18));
    s->comp = cond;
    instr_id in = emit_parameter(s, 0, state);
    instr_id more = emit_compare(s, "LT", emit_gte(s, in, STEP), emit_const_i(s, DTYPE_U32, f->parts));
    comp_finish(s->out, cond, more);
    s->comp = outer;
    return cond;
}

static instr_id sum_in_ring(const struct fft *f, instr_id turned, instr_id mine)
{
    struct spmd *s = f->s;
    instr_id st[NSTATE] = { spread(f, emit_zero(s, f->type), turned), turned, mine, mine, emit_const_i(s, DTYPE_U32, 0) };
    instr_id init = emit_tuple(s, NSTATE, st);
    shape_id state = instr_at(s->out, init)->shape;
    comp_id condition = ring_condition(f, state);
    return emit_gte(s, emit_while(s, init, condition, ring_body(f, state)), SUM);
}

/* ---- the handler ------------------------------------------------------------------------------------------ */

/* The reference asks less: it takes an operand that is split otherwise, and devices in any order, and its
 * numbers are wrong then. */
static bool splits(struct fft *f)
{
    struct spmd *s = f->s;
    const struct instr *in = instr_at(s->src, f->source);
    const struct shape *x = source_shape(s, in->operands[0]);
    if (x->rank < 3 || x->rank >= OPS_MAX_RANK || !instr_is(s->src, in, ATTR_FFT_TYPE, "FFT"))
        return false;
    f->last = x->rank - 1;
    f->sh = source_sharding(s, f->source);
    f->parts = tiles_on(s, f->sh, f->last);
    f->type = x->dtype;
    f->m = x->dims[f->last] / f->parts;
    return f->parts > 1 && f->parts == group_partitions(s) && x->dims[f->last] % f->parts == 0 &&
           !sharding_is_manual_subgroup(s->sh, f->sh) && operand_value(s, f->source, 0).sharding.i == f->sh.i;
}

/* What partitioner=best does: the gathered array is less than what goes round the ring. */
static void note_gather(const struct fft *f)
{
    struct spmd *s = f->s;
    int64_t shard = local_bytes(s, operand_value(s, f->source, 0)), n = f->parts;
    best_note(s, (sharding_id){ 0 }, (sharding_id){ 0 }, "all-gather, the transform whole", shard * (n - 1),
              shard / n * (n - 1) + n * (shard + dtype_bytes(f->type)));
}

static bool split_fft(struct fft *f)
{
    struct spmd *s = f->s;
    int64_t size = ceil_div(f->m, f->parts) * f->parts;
    instr_id x = recut(f, operand_value(s, f->source, 0).local, size);
    if (!x.i)
        return false;
    x = emit_all_to_all(s, sort_residues(f, x, size), f->last, sharding_groups_along(s->sh, f->sh, 1, &f->last));
    x = transform(f, slice_dim(s, x, f->last, 0, f->m));
    instr_id mine = emit_convert(s, ordinal_node(s, f->sh, f->last), f->type);
    finish(s, f->source, sum_in_ring(f, turn(f, x, mine), mine), f->sh);
    return true;
}

void partition_fft(struct spmd *s, instr_id source)
{
    struct fft f = { .s = s, .source = source };
    int last = source_shape(s, source)->rank - 1;
    bool tiled = last >= 0 && tiles_on(s, source_sharding(s, source), last) > 1;
    const char *old = because(s, "an FFT along a dimension that all devices split (S-167)");
    bool may = splits(&f), gather = may && best_wanted(s), done = may && !gather && split_fft(&f);
    s->reason = old;
    if (gather)
        note_gather(&f);
    if (!done)
        partition_whole(s, source, tiled ? "an FFT needs its dimension whole (S-127)" : NULL);
}
