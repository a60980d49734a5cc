/* Patterns that are rewritten before partitioning: a slice of a pad, a rotation, padding with
 * wrap-around (S-120..S-122). Each would cost several halo exchanges, or a whole gather, where one
 * shift does.
 *
 * The source stays as it is: the first match makes a copy of its module, with the same ids.
 */
#include "partition/store.h"

#include <string.h>

#include "base/fail.h"

struct rewrite {
    struct spmd *s;
    struct module *m;      /* the copy; NULL until something matched */
    struct arena tmp;
    uint32_t *uses;        /* [ninstrs + 1 of the original] users that are left */
    uint32_t known;        /* instructions of the original */
    comp_id comp;
    VEC(instr_id) list;    /* the computation's instructions anew */
    bool changed;
};

static const struct module *now(const struct rewrite *r)
{
    return r->m ? r->m : r->s->src;
}

static const struct instr *at(const struct rewrite *r, instr_id i)
{
    return instr_at(now(r), i);
}

static sharding_id sharding_at(const struct rewrite *r, instr_id i)
{
    return r->s->shardings[i.i];
}

/* Through copies that nobody else uses; none when the end has several users and must not. */
static instr_id skip_copies(const struct rewrite *r, instr_id i, bool single)
{
    while (r->uses[i.i] == 1 && at(r, i)->op == OP_COPY)
        i = at(r, i)->operands[0];
    return single && r->uses[i.i] != 1 ? (instr_id){ 0 } : i;
}

/* The module to change. Ids and users stay what they are. */
static void need_copy(struct rewrite *r)
{
    r->changed = true;
    if (r->m)
        return;
    r->m = module_clone(r->s->src);
    r->s->src = r->m;
}

/* i is not used any more at one place: what only it used goes with it. */
static void release(struct rewrite *r, instr_id i)
{
    VEC(instr_id) stack = { 0 };
    vec_push(&r->tmp, &stack, i);
    while (stack.n) {
        instr_id x = stack.v[--stack.n];
        if (r->uses[x.i] == 0 || --r->uses[x.i] > 0 || at(r, x)->op == OP_PARAMETER)
            continue;
        instr_at(r->m, x)->flags |= INSTR_REMOVED;
        for (uint32_t k = 0; k < at(r, x)->noperands; k++)
            vec_push(&r->tmp, &stack, at(r, x)->operands[k]);
    }
}

/* Turns instruction i into another one, in its place. */
static void become(struct rewrite *r, instr_id i, enum op_kind op, int64_t nop, const instr_id *ops,
                   int nattrs, const struct attr *attrs)
{
    struct instr *in = instr_at(r->m, i);
    for (int64_t k = 0; k < nop; k++)
        if (ops[k].i <= r->known)
            r->uses[ops[k].i]++;
    const instr_id *old = in->operands;
    uint32_t nold = in->noperands;
    in->op = (uint16_t)op;
    in->operands = arena_copy(&r->m->arena, ops, nop, sizeof *ops);
    in->noperands = (uint32_t)nop;
    in->attrs = arena_copy(&r->m->arena, attrs, nattrs, sizeof *attrs);
    in->nattrs = (uint8_t)nattrs;
    for (uint32_t k = 0; k < nold; k++)
        release(r, old[k]);
}

static struct attr padding_attr(struct rewrite *r, int rank, const int64_t *spec)
{
    return (struct attr){ .key = ATTR_PADDING,
                          .type = ATTR_TYPE_PADDING,
                          .n = (uint32_t)(3 * rank),
                          .ints = arena_copy(&r->m->arena, spec, 3 * rank, sizeof *spec) };
}

/* ---- slice of pad, S-120 ---------------------------------------------------------------------------- */

static bool merge_pad(struct rewrite *r, instr_id slice)
{
    instr_id pad = skip_copies(r, at(r, slice)->operands[0], true);
    if (!pad.i || at(r, pad)->op != OP_PAD || sharding_at(r, pad).i != sharding_at(r, slice).i)
        return false;
    const struct shape *from = instr_shape(now(r), pad), *to = instr_shape(now(r), slice);
    int n, m;
    const int64_t *cut = instr_ints(at(r, slice), ATTR_SLICE, &n);
    const int64_t *p = instr_ints(at(r, pad), ATTR_PADDING, &m);
    if (n != m || n != 3 * to->rank || to->rank > RANK_ROOM)
        return false;
    int64_t spec[3 * RANK_ROOM] = { 0 };
    bool worth = false;
    for (int d = 0; d < to->rank; d++) {
        const int64_t *c = &cut[3 * d], *q = &p[3 * d];
        if (q[2] != 0 || c[2] != 1)
            return false;
        worth = worth || (sharding_tile(r->s->sh, sharding_at(r, slice), d) != 1 &&
                          (q[0] != 0 || q[1] != 0) && from->dims[d] != to->dims[d]);
        spec[3 * d] = q[0] - c[0];
        spec[3 * d + 1] = c[1] - (from->dims[d] - q[1]);
    }
    if (!worth)
        return false;
    need_copy(r);
    instr_id ops[2] = { at(r, pad)->operands[0], at(r, pad)->operands[1] };
    struct attr a = padding_attr(r, to->rank, spec);
    become(r, slice, OP_PAD, 2, ops, 1, &a);
    return true;
}

/* ---- rotation, S-121 ---------------------------------------------------------------------------------- */

static int concat_dim(const struct rewrite *r, instr_id i)
{
    int n;
    const int64_t *d = instr_ints(at(r, i), ATTR_DIMENSIONS, &n);
    return n ? (int)d[0] : 0;
}

static const int64_t *slice_of(const struct rewrite *r, instr_id i, int dim)
{
    int n;
    const int64_t *cut = instr_ints(at(r, i), ATTR_SLICE, &n);
    return n > 3 * dim + 2 ? cut + 3 * dim : NULL;
}

/* _SPMDInternalOp_RotateRight(x), with the dimension and the amount as text, as XLA writes it. */
static int rotate_attrs(struct rewrite *r, int64_t dim, int64_t amount, struct attr *out)
{
    const char *spec = arena_printf(&r->m->arena, "\"dimension=%" PRId64 ",amount=%" PRId64 "\"", dim, amount);
    out[0] = attr_string(r->m, ATTR_CUSTOM_CALL_TARGET, "_SPMDInternalOp_RotateRight");
    out[1] = (struct attr){ .key = ATTR_BACKEND_CONFIG, .type = ATTR_TYPE_RAW,
                            .n = (uint32_t)strlen(spec), .text = spec };
    return 2;
}

static bool rotation(struct rewrite *r, instr_id concat)
{
    const struct instr *in = at(r, concat);
    instr_id a = skip_copies(r, in->operands[0], true), b = skip_copies(r, in->operands[1], true);
    if (!a.i || !b.i || at(r, a)->op != OP_SLICE || at(r, b)->op != OP_SLICE)
        return false;
    instr_id x = at(r, a)->operands[0];
    if (x.i != at(r, b)->operands[0].i || !shape_same_dims(r->s->ir, at(r, x)->shape, in->shape) ||
        sharding_at(r, x).i != sharding_at(r, concat).i)
        return false;
    int dim = concat_dim(r, concat);
    const int64_t *p = slice_of(r, a, dim), *q = slice_of(r, b, dim);
    if (!p || !q || p[2] != 1 || q[2] != 1 || p[0] != q[1])
        return false;
    int64_t amount = instr_shape(now(r), a)->dims[dim];
    need_copy(r);
    struct attr attrs[2];
    int n = rotate_attrs(r, dim, amount, attrs);
    become(r, concat, OP_CUSTOM_CALL, 1, &x, n, attrs);
    return true;
}

/* ---- padding with wrap-around, S-122 --------------------------------------------------------------------- */

static instr_id add(struct rewrite *r, enum op_kind op, shape_id shape, sharding_id sh, int64_t nop,
                    const instr_id *ops, int nattrs, const struct attr *attrs, instr_id serves)
{
    instr_id i = instr_new(r->m, r->comp, op, shape, nop, ops, nattrs, attrs);
    struct spmd *s = r->s;
    uint32_t n = module_ninstrs(r->m);
    sharding_id *shardings = ARENA_ARRAY(&s->arena, sharding_id, (int64_t)n + 1);
    instr_id *origin = ARENA_ARRAY(&s->arena, instr_id, (int64_t)n + 1);
    memcpy(shardings, s->shardings, (size_t)n * sizeof *shardings);
    for (uint32_t k = 1; k < n; k++)
        origin[k].i = s->origin ? s->origin[k].i : k;
    shardings[n] = sh;
    origin[n] = serves;
    s->shardings = shardings;
    s->origin = origin;
    for (int64_t k = 0; k < nop; k++)
        if (ops[k].i <= r->known)
            r->uses[ops[k].i]++;
    vec_push(&r->tmp, &r->list, i);
    return i;
}

/* Unary elementwise operations between the concatenate and the slice, outermost first. */
struct modifiers {
    int n;
    instr_id op[16];
};

static instr_id skip_unary(const struct rewrite *r, instr_id i, struct modifiers *mods)
{
    mods->n = 0;
    while (at(r, i)->noperands == 1 && r->uses[i.i] == 1 && instr_is_elementwise(now(r), i)) {
        if (at(r, i)->op != OP_COPY) {
            if (mods->n == 16)
                return (instr_id){ 0 };
            mods->op[mods->n++] = i;
        }
        i = at(r, i)->operands[0];
    }
    return r->uses[i.i] == 1 && at(r, i)->op == OP_SLICE ? i : (instr_id){ 0 };
}

static instr_id scalar(struct rewrite *r, const struct literal *l, instr_id serves)
{
    instr_id c = add(r, OP_CONSTANT, l->shape, sharding_replicated(r->s->sh), 0, NULL, 0, NULL, serves);
    instr_at(r->m, c)->literal = l;
    return c;
}

/* Position along dim compared with a constant. */
static instr_id position(struct rewrite *r, const char *direction, instr_id iota, int64_t border,
                         sharding_id sh, instr_id serves)
{
    shape_id shape = at(r, iota)->shape;
    instr_id c = scalar(r, literal_scalar_i(r->m, DTYPE_U32, border), serves);
    struct attr none = attr_ints(r->m, ATTR_DIMENSIONS, 0, NULL);
    instr_id b = add(r, OP_BROADCAST, shape, sh, 1, &c, 1, &none, serves);
    instr_id ops[2] = { iota, b };
    struct attr dir = attr_ident(r->m, ATTR_DIRECTION, direction);
    return add(r, OP_COMPARE, shape_with_dtype(r->s->ir, shape, DTYPE_PRED), sh, 2, ops, 1, &dir,
               serves);
}

static instr_id rotated(struct rewrite *r, instr_id x, int dim, int64_t amount,
                        const struct modifiers *mods, sharding_id sh, instr_id serves)
{
    struct attr attrs[2];
    int n = rotate_attrs(r, dim, amount, attrs);
    shape_id shape = at(r, x)->shape;
    instr_id y = add(r, OP_CUSTOM_CALL, shape, sh, 1, &x, n, attrs, serves);
    for (int k = mods->n - 1; k >= 0; k--) {
        const struct instr *in = at(r, mods->op[k]);
        shape = shape_with_dtype(r->s->ir, shape, shape_get(r->s->ir, in->shape)->dtype);
        y = add(r, (enum op_kind)in->op, shape, sh, 1, &y, in->nattrs, in->attrs, serves);
    }
    return y;
}

static bool wrap_around(struct rewrite *r, instr_id concat)
{
    const struct instr *in = at(r, concat);
    instr_id x = skip_copies(r, in->operands[1], false);
    struct modifiers ma, mc;
    instr_id a = skip_unary(r, in->operands[0], &ma), c = skip_unary(r, in->operands[2], &mc);
    if (!a.i || !c.i || at(r, a)->operands[0].i != x.i || at(r, c)->operands[0].i != x.i)
        return false;
    int dim = concat_dim(r, concat);
    const int64_t *p = slice_of(r, a, dim), *q = slice_of(r, c, dim);
    const struct shape *sh = instr_shape(now(r), concat);
    if (!p || !q || p[2] != 1 || q[2] != 1 || sh->rank > RANK_ROOM)
        return false;
    int64_t low = instr_shape(now(r), a)->dims[dim], high = instr_shape(now(r), c)->dims[dim];
    int64_t size = sh->dims[dim], start_a = p[0], start_c = q[0];
    need_copy(r);
    struct spmd *s = r->s;
    sharding_id to = sharding_at(r, concat);
    instr_id serves = s->origin ? s->origin[concat.i] : concat;
    shape_id shape = shape_strip(s->ir, at(r, concat)->shape);
    int64_t spec[3 * RANK_ROOM] = { 0 };
    spec[3 * dim] = low;
    spec[3 * dim + 1] = high;
    enum dtype_kind kind = dtype_kind(sh->dtype);
    bool inexact = kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
    instr_id zero = scalar(r, inexact ? literal_scalar_f(r->m, sh->dtype, 0)
                                      : literal_scalar_i(r->m, sh->dtype, 0), serves);
    instr_id both[2] = { x, zero };
    struct attr pa = padding_attr(r, sh->rank, spec), ia = attr_int(ATTR_IOTA_DIMENSION, dim);
    instr_id pad = add(r, OP_PAD, shape, to, 2, both, 1, &pa, serves);
    instr_id ra = rotated(r, pad, dim, size - (start_a + low), &ma, to, serves);
    instr_id rc = rotated(r, pad, dim, size - (start_c + low + high), &mc, to, serves);
    instr_id iota = add(r, OP_IOTA, shape_with_dtype(s->ir, shape, DTYPE_U32), to, 0, NULL, 1, &ia,
                        serves);
    instr_id head[3] = { position(r, "LT", iota, low, to, serves), ra, pad };
    instr_id inner = add(r, OP_SELECT, shape, to, 3, head, 0, NULL, serves);
    instr_id tail[3] = { position(r, "GE", iota, size - high, to, serves), rc, inner };
    become(r, concat, OP_SELECT, 3, tail, 0, NULL);
    return true;
}

/* ---- driver ------------------------------------------------------------------------------------------------ */

static void consider(struct rewrite *r, instr_id i)
{
    const struct instr *in = at(r, i);
    sharding_id sh = sharding_at(r, i);
    if (!sharding_is_tiled(r->s->sh, sh))
        return;
    if (in->op == OP_SLICE) {
        (void)merge_pad(r, i);
    } else if (in->op == OP_CONCATENATE &&
               sharding_tile(r->s->sh, sh, concat_dim(r, i)) > 1) {
        if (in->noperands == 2)
            (void)rotation(r, i);
        else if (in->noperands == 3)
            (void)wrap_around(r, i);
    }
}

static void rewrite_computation(struct rewrite *r, comp_id c)
{
    const struct computation *comp = comp_at(now(r), c);
    uint32_t n = comp->ninstrs, root = comp->root.i;
    const instr_id *instrs = comp->instrs;
    r->comp = c;
    r->list.n = 0;
    r->changed = false;
    for (uint32_t k = 0; k < n; k++) {
        if (!(at(r, instrs[k])->flags & INSTR_REMOVED))
            consider(r, instrs[k]);
        vec_push(&r->tmp, &r->list, instrs[k]);
    }
    if (!r->changed)
        return;
    if (!r->s->rewritten)
        r->s->rewritten = ARENA_ARRAY(&r->s->arena, bool, (int64_t)module_ncomps(now(r)) + 1);
    r->s->rewritten[c.i] = true;
    int64_t kept = 0;
    for (int64_t k = 0; k < r->list.n; k++)
        if (!(at(r, r->list.v[k])->flags & INSTR_REMOVED))
            r->list.v[kept++] = r->list.v[k];
    comp_set_instrs(r->m, c, (uint32_t)kept, r->list.v, (instr_id){ root });
}

void rewrite_patterns(struct spmd *s)
{
    struct rewrite r = { .s = s, .known = module_ninstrs(s->src) };
    arena_open(&r.tmp);
    const struct users *users = store_users(s);
    r.uses = ARENA_ARRAY(&r.tmp, uint32_t, (int64_t)r.known + 1);
    for (uint32_t i = 1; i <= r.known; i++)
        r.uses[i] = users_count(users, (instr_id){ i });
    for (uint32_t c = 1; c <= module_ncomps(s->src); c++) {
        instr_id root = comp_at(s->src, (comp_id){ c })->root;
        r.uses[root.i]++; /* the caller uses it */
    }
    for (uint32_t c = 1; c <= module_ncomps(s->src); c++)
        rewrite_computation(&r, (comp_id){ c });
    arena_close(&r.tmp);
}
