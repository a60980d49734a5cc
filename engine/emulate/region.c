/* Small computations over scalars (reducers, comparators, map), run over strips of lanes at once.
 */
#include "base/fail.h"
#include "emulate/ew.h"

#include <string.h>

struct building {
    struct arena *a;
    const struct module *m;
    enum emu_mode mode;
    struct diag *d;
    VEC(struct elem) slots;
    VEC(struct region_step) steps;
    VEC(struct region_const) consts;
    int depth;
};

/* Slots of an instruction's leaves. */
struct names {
    uint32_t n;
    uint32_t *slot;
};

static uint32_t new_slot(struct building *b, enum dtype t)
{
    vec_push(b->a, &b->slots, elem_of(t, b->mode));
    return (uint32_t)(b->slots.n - 1);
}

static bool cannot(struct building *b, instr_id id)
{
    const struct instr *i = instr_at(b->m, id);
    return diag_error(b->d, b->m->source, i->at, "no kernel for %s inside a called computation",
                      op_name((enum op_kind)i->op));
}

static void add_constant(struct building *b, const struct instr *i, uint32_t slot)
{
    struct elem e = b->slots.v[slot];
    const struct literal *l = i->literal;
    char *value = arena_alloc(b->a, 1, 32);
    if (e.ct == CT_RING || e.ct == CT_RINGC) {
        ring_from_floats(e.t, l->data, (int64_t *)(void *)value, 1);
    } else {
        memcpy(value, l->data, (size_t)e.size);
    }
    struct region_const c = { slot, value };
    vec_push(b->a, &b->consts, c);
}

static bool build(struct building *b, comp_id c, struct names args, struct names *out);

/* An elementwise instruction over scalars; a select of tuples is none. */
static bool build_ew(struct building *b, instr_id id, const struct names *of, struct names *res)
{
    const struct instr *i = instr_at(b->m, id);
    const struct ew *ew = ew_of_instr(b->a, b->m, id, b->mode);
    if (!ew || i->noperands > 3)
        return cannot(b, id);
    struct region_step s = { .ew = ew };
    for (uint32_t k = 0; k < i->noperands; k++)
        s.in[k] = of[k].slot[0];
    s.out = new_slot(b, instr_shape(b->m, id)->dtype);
    vec_push(b->a, &b->steps, s);
    res->n = 1;
    res->slot = ARENA_NEW(b->a, uint32_t);
    res->slot[0] = s.out;
    return true;
}

static bool build_instr(struct building *b, instr_id id, struct names args, const struct names *of,
                        struct names *res)
{
    const struct instr *i = instr_at(b->m, id);
    const struct shape *s = instr_shape(b->m, id);
    switch ((int)i->op) {
    case OP_PARAMETER: {
        const struct computation *c = comp_at(b->m, i->comp);
        uint32_t at = 0;
        for (uint32_t k = 0; k < c->nparams && c->params[k].i != id.i; k++)
            at += (uint32_t)instr_shape(b->m, c->params[k])->nleaves;
        *res = (struct names){ (uint32_t)s->nleaves, args.slot + at };
        return true;
    }
    case OP_CONSTANT:
        if (s->kind != SHAPE_ARRAY || s->count != 1 || i->literal->elided)
            return cannot(b, id);
        res->n = 1;
        res->slot = ARENA_NEW(b->a, uint32_t);
        res->slot[0] = new_slot(b, s->dtype);
        add_constant(b, i, res->slot[0]);
        return true;
    case OP_TUPLE:
        res->n = (uint32_t)s->nleaves;
        res->slot = ARENA_ARRAY(b->a, uint32_t, s->nleaves);
        for (uint32_t k = 0, at = 0; k < i->noperands; k++) {
            memcpy(res->slot + at, of[k].slot, of[k].n * sizeof(uint32_t));
            at += of[k].n;
        }
        return true;
    case OP_GET_TUPLE_ELEMENT: {
        int64_t at = shape_leaf_offset(b->m->ir, instr_at(b->m, i->operands[0])->shape,
                                       instr_int(i, ATTR_INDEX, 0));
        *res = (struct names){ (uint32_t)s->nleaves, of[0].slot + at };
        return true;
    }
    case OP_COPY:
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_TRANSPOSE:
    case OP_OPT_BARRIER:
    case OP_BITCAST:
        if (s->kind == SHAPE_ARRAY && s->count != 1)
            return cannot(b, id);
        *res = of[0];
        return true;
    case OP_CALL:
    case OP_FUSION: {
        struct names inner = { 0, NULL };
        uint32_t n = 0;
        for (uint32_t k = 0; k < i->noperands; k++)
            n += of[k].n;
        inner.slot = ARENA_ARRAY(b->a, uint32_t, n);
        for (uint32_t k = 0; k < i->noperands; k++) {
            memcpy(inner.slot + inner.n, of[k].slot, of[k].n * sizeof(uint32_t));
            inner.n += of[k].n;
        }
        comp_id callee;
        if (instr_called(b->m, id, &callee, 1) != 1 || ++b->depth > 16)
            return cannot(b, id);
        bool ok = build(b, callee, inner, res);
        b->depth--;
        return ok;
    }
    default:
        if (s->kind != SHAPE_ARRAY || s->count != 1)
            return cannot(b, id);
        return build_ew(b, id, of, res);
    }
}

/* Its operands' names into of; false: one is not built yet. */
static bool operands_built(const struct instr *i, const struct map *where, const struct names *all, struct names *of)
{
    for (uint32_t o = 0; o < i->noperands; o++) {
        uint64_t at;
        if (!map_get(where, i->operands[o].i, &at))
            return false;
        of[o] = all[at];
    }
    return true;
}

/* A pass over the list is enough where operands stand first. Inlining puts a callee's instructions
 * behind the root: then further passes take what was not ready. */
static bool build(struct building *b, comp_id c, struct names args, struct names *out)
{
    const struct computation *comp = comp_at(b->m, c);
    struct map where;
    map_init(&where, b->a);
    struct names *all = ARENA_ARRAY(b->a, struct names, comp->ninstrs);
    uint32_t left = comp->ninstrs;
    while (left) {
        uint32_t before = left;
        instr_id stuck = { 0 };
        for (uint32_t k = 0; k < comp->ninstrs; k++) {
            instr_id id = comp->instrs[k];
            const struct instr *i = instr_at(b->m, id);
            uint64_t done;
            if (map_get(&where, id.i, &done))
                continue;
            struct names *of = ARENA_ARRAY(b->a, struct names, i->noperands + 1);
            if (!operands_built(i, &where, all, of)) {
                stuck = id;
                continue;
            }
            if (!build_instr(b, id, args, of, &all[k]))
                return false;
            map_put(&where, id.i, k);
            left--;
        }
        if (left == before)
            return cannot(b, stuck);
    }
    uint64_t root;
    INVARIANT(map_get(&where, comp->root.i, &root), "a computation without its root");
    *out = all[root];
    return true;
}

/* root = op(p0, p1) in either order for a commutative op: a fold kernel does it directly. */
static void recognise(struct region *r)
{
    if (r->nsteps != 1 || r->nroots != 1 || r->steps[0].out != r->roots[0])
        return;
    const struct region_step *s = &r->steps[0];
    if (s->ew->op == OP_COMPARE) {
        r->compare = OP_COMPARE;
        r->cmp_a = r->cmp_b = -1;
        for (int k = 0; k < r->nparams; k++) {
            if (r->params[k] == s->in[0])
                r->cmp_a = k;
            if (r->params[k] == s->in[1])
                r->cmp_b = k;
        }
        r->cmp_dir = (int)s->ew->a;
        if (r->cmp_a < 0 || r->cmp_b < 0)
            r->compare = OP_NONE;
        return;
    }
    enum op_kind op = s->ew->op;
    bool commutes = op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM ||
                    op == OP_AND || op == OP_OR || op == OP_XOR;
    if (r->nparams != 2 || !commutes || s->ew->in.t != s->ew->out.t)
        return;
    if ((s->in[0] == r->params[0] && s->in[1] == r->params[1]) ||
        (s->in[1] == r->params[0] && s->in[0] == r->params[1]))
        r->simple = op;
}

const struct region *region_make(struct arena *a, const struct module *m, comp_id c,
                                 enum emu_mode mode, struct diag *d)
{
    const struct computation *comp = comp_at(m, c);
    struct building b = { .a = a, .m = m, .mode = mode, .d = d };
    struct names args = { 0, NULL };
    for (uint32_t k = 0; k < comp->nparams; k++)
        args.n += (uint32_t)instr_shape(m, comp->params[k])->nleaves;
    args.slot = ARENA_ARRAY(a, uint32_t, args.n);
    uint32_t at = 0;
    for (uint32_t k = 0; k < comp->nparams; k++) {
        const struct instr *p = instr_at(m, comp->params[k]);
        for (int64_t leaf = 0; leaf < shape_get(m->ir, p->shape)->nleaves; leaf++)
            args.slot[at++] =
                new_slot(&b, shape_get(m->ir, shape_leaf(m->ir, p->shape, leaf))->dtype);
    }
    struct names out = { 0, NULL };
    if (!build(&b, c, args, &out))
        return NULL;
    struct region *r = ARENA_NEW(a, struct region);
    r->nparams = (int)args.n;
    r->params = args.slot;
    r->nroots = (int)out.n;
    r->roots = out.slot;
    r->slots = b.slots.v;
    r->nslots = (uint32_t)b.slots.n;
    r->nsteps = (uint32_t)b.steps.n;
    r->steps = b.steps.v;
    r->nconsts = (uint32_t)b.consts.n;
    r->consts = b.consts.v;
    recognise(r);
    return r;
}

void region_scratch(const struct region *r, struct arena *a, struct region_scratch *out)
{
    out->slots = ARENA_ARRAY(a, char *, r->nslots + 1);
    for (uint32_t k = 0; k < r->nslots; k++)
        out->slots[k] = arena_alloc(a, STRIP, (size_t)r->slots[k].size);
    for (uint32_t k = 0; k < r->nconsts; k++)
        fill_elements(out->slots[r->consts[k].slot], r->consts[k].value,
                      r->slots[r->consts[k].slot].size, STRIP);
}

void region_eval(const struct region *r, const struct region_scratch *s, const void *const *in,
                 void *const *out, int64_t n)
{
    for (int k = 0; k < r->nparams; k++)
        if (in[k])
            memcpy(s->slots[r->params[k]], in[k], (size_t)(n * r->slots[r->params[k]].size));
    for (uint32_t k = 0; k < r->nsteps; k++) {
        const struct region_step *st = &r->steps[k];
        const void *ops[3];
        for (int o = 0; o < st->ew->nin; o++)
            ops[o] = s->slots[st->in[o]];
        st->ew->fn(st->ew, s->slots[st->out], ops, n);
    }
    for (int k = 0; k < r->nroots; k++)
        memcpy(out[k], s->slots[r->roots[k]], (size_t)(n * r->slots[r->roots[k]].size));
}
