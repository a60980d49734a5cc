/* The clean-up after partitioning (S-118): tuples taken apart again, equal nodes merged, dead ones
 * dropped. Collectives are never merged: each has a channel of its own.
 */
#include "partition/store.h"

#include <string.h>

struct clean {
    struct spmd *s;
    struct module *m;
    struct arena tmp;
    instr_id *rep;      /* [ninstrs + 1] what stands for an instruction */
    bool *effect;       /* [ncomps + 1] computation has a side effect */
    bool *live;         /* [ninstrs + 1] */
};

/* ---- side effects ------------------------------------------------------------------------------------- */

static bool op_has_effect(enum op_kind op)
{
    return op == OP_INFEED || op == OP_OUTFEED || op == OP_SEND || op == OP_SEND_DONE ||
           op == OP_RECV || op == OP_RECV_DONE || op == OP_RNG_GET_AND_UPDATE_STATE;
}

static bool has_effect(const struct clean *c, instr_id i)
{
    const struct instr *in = instr_at(c->m, i);
    enum op_kind op = (enum op_kind)in->op;
    if (op_has_effect(op))
        return true;
    if (op == OP_CUSTOM_CALL)
        return instr_bool(in, ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, false);
    if (op != OP_WHILE && op != OP_CONDITIONAL && op != OP_CALL && op != OP_FUSION)
        return false;
    comp_id called[64];
    int n = instr_called(c->m, i, called, 64);
    for (int k = 0; k < n && k < 64; k++)
        if (c->effect[called[k].i])
            return true;
    return n > 64;
}

/* ---- simplification ----------------------------------------------------------------------------------- */

static void replace_operands(struct clean *c, instr_id i)
{
    struct instr *in = instr_at(c->m, i);
    bool changed = false;
    for (uint32_t k = 0; k < in->noperands && !changed; k++)
        changed = c->rep[in->operands[k].i].i != in->operands[k].i;
    if (!changed)
        return;
    instr_id *ops = arena_copy(&c->m->arena, in->operands, in->noperands, sizeof *ops);
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = c->rep[ops[k].i];
    in->operands = ops;
}

/* get-tuple-element of a tuple; a tuple of all elements of one. */
static instr_id simplified(const struct clean *c, instr_id i)
{
    const struct instr *in = instr_at(c->m, i);
    if (in->op == OP_GET_TUPLE_ELEMENT) {
        const struct instr *t = instr_at(c->m, in->operands[0]);
        return t->op == OP_TUPLE ? t->operands[instr_int(in, ATTR_INDEX, 0)] : i;
    }
    if (in->op != OP_TUPLE || in->noperands == 0)
        return i;
    instr_id whole = { 0 };
    for (uint32_t k = 0; k < in->noperands; k++) {
        const struct instr *e = instr_at(c->m, in->operands[k]);
        if (e->op != OP_GET_TUPLE_ELEMENT || instr_int(e, ATTR_INDEX, -1) != k ||
            (whole.i && whole.i != e->operands[0].i))
            return i;
        whole = e->operands[0];
    }
    return instr_at(c->m, whole)->shape.i == in->shape.i ? whole : i;
}

static bool mergeable(const struct clean *c, instr_id i)
{
    enum op_kind op = (enum op_kind)instr_at(c->m, i)->op;
    return op != OP_PARAMETER && op != OP_RNG && op != OP_AFTER_ALL && op != OP_CUSTOM_CALL &&
           op != OP_WHILE && op != OP_CONDITIONAL && op != OP_CALL && !op_is_collective(op) &&
           !has_effect(c, i);
}

static size_t literal_size(const struct clean *c, const struct literal *l)
{
    const struct shape *sh = shape_get(c->m->ir, l->shape);
    if (sh->kind != SHAPE_ARRAY || !l->data || sh->count < 0)
        return 0;
    return (size_t)sh->count * (size_t)dtype_bytes(sh->dtype);
}

static uint64_t key_of(const struct clean *c, instr_id i)
{
    const struct instr *in = instr_at(c->m, i);
    uint64_t h = hash_u64((uint64_t)in->op << 32 | in->shape.i);
    for (uint32_t k = 0; k < in->noperands; k++)
        h = hash_u64(h * 31 + in->operands[k].i);
    for (int k = 0; k < in->nattrs; k++)
        h = hash_u64(h * 31 + attr_hash(&in->attrs[k]));
    if (in->literal && in->literal->data)
        h = hash_u64(h ^ hash_bytes(in->literal->data, literal_size(c, in->literal), 11));
    return h;
}

static bool same_literal(const struct clean *c, const struct literal *a, const struct literal *b)
{
    if (a == b)
        return true;
    size_t n = a && b && !a->elided && !b->elided ? literal_size(c, a) : 0;
    return n && literal_size(c, b) == n && memcmp(a->data, b->data, n) == 0;
}

static bool same(const struct clean *c, instr_id x, instr_id y)
{
    const struct instr *a = instr_at(c->m, x), *b = instr_at(c->m, y);
    if (a->op != b->op || a->shape.i != b->shape.i || a->noperands != b->noperands ||
        a->nattrs != b->nattrs)
        return false;
    for (uint32_t k = 0; k < a->noperands; k++)
        if (a->operands[k].i != b->operands[k].i)
            return false;
    for (int k = 0; k < a->nattrs; k++)
        if (!attr_same(&a->attrs[k], &b->attrs[k]))
            return false;
    return same_literal(c, a->literal, b->literal);
}

static instr_id merged(struct clean *c, struct map *seen, instr_id i)
{
    if (!mergeable(c, i))
        return i;
    uint64_t key = key_of(c, i), found;
    for (; map_get(seen, key, &found); key++)
        if (same(c, i, (instr_id){ (uint32_t)found }))
            return (instr_id){ (uint32_t)found };
    map_put(seen, key, i.i);
    return i;
}

/* ---- one computation ------------------------------------------------------------------------------------ */

static void mark(struct clean *c, instr_id root)
{
    VEC(instr_id) stack = { 0 };
    if (!c->live[root.i])
        vec_push(&c->tmp, &stack, root);
    c->live[root.i] = true;
    while (stack.n) {
        const struct instr *in = instr_at(c->m, stack.v[--stack.n]);
        for (uint32_t k = 0; k < in->noperands; k++)
            if (!c->live[in->operands[k].i]) {
                c->live[in->operands[k].i] = true;
                vec_push(&c->tmp, &stack, in->operands[k]);
            }
    }
}

static void clean_computation(struct clean *c, comp_id id, const struct users *users)
{
    const struct computation *comp = comp_at(c->m, id);
    struct map seen;
    map_init(&seen, &c->tmp);
    uint32_t n, kept = 0;
    const instr_id *order = comp_post_order(c->m, id, users, &c->tmp, &n);
    for (uint32_t k = 0; k < n; k++) {
        replace_operands(c, order[k]);
        instr_id to = simplified(c, order[k]);
        c->rep[order[k].i] = to.i == order[k].i ? merged(c, &seen, to) : to;
    }
    instr_id root = c->rep[comp->root.i];
    mark(c, root);
    for (uint32_t k = 0; k < n; k++) {
        bool effect = has_effect(c, order[k]);
        c->effect[id.i] = c->effect[id.i] || effect;
        if (effect)
            mark(c, order[k]);
    }
    instr_id *list = ARENA_ARRAY(&c->tmp, instr_id, n);
    for (uint32_t k = 0; k < n; k++)
        if (c->live[order[k].i] || instr_at(c->m, order[k])->op == OP_PARAMETER)
            list[kept++] = order[k];
    comp_set_instrs(c->m, id, kept, list, root);
}

static void run(struct spmd *s, bool first)
{
    struct clean c = { .s = s, .m = s->out };
    arena_open(&c.tmp);
    uint32_t n = module_ninstrs(c.m);
    c.rep = ARENA_ARRAY(&c.tmp, instr_id, (int64_t)n + 1);
    for (uint32_t i = 0; i <= n; i++)
        c.rep[i].i = i;
    c.live = ARENA_ARRAY(&c.tmp, bool, (int64_t)n + 1);
    c.effect = ARENA_ARRAY(&c.tmp, bool, (int64_t)module_ncomps(c.m) + 1);
    struct users users;
    users_make(c.m, &c.tmp, &users);
    uint32_t ncomps;
    const comp_id *order = module_call_order(c.m, false, &c.tmp, &ncomps);
    for (uint32_t k = 0; k < ncomps; k++)
        if (!first || !store_is_clean(s, order[k], &c.effect[order[k].i]))
            clean_computation(&c, order[k], &users);
    if (first)
        store_keep(s, c.effect);
    arena_close(&c.tmp);
}

void cleanup_run(struct spmd *s)
{
    run(s, false);
}

void cleanup_first(struct spmd *s)
{
    run(s, true);
}
