/* What a buffer is for: by the names and scopes that JAX leaves in the metadata, else by its role. */
#include <string.h>

#include "cost/live.h"

/* ---- parameters of the entry --------------------------------------------------------------------------- */

static bool has_word(const char *name, const char *const *words)
{
    for (; *words; words++) {
        size_t n = strlen(*words);
        for (const char *p = strstr(name, *words); p; p = strstr(p + 1, *words)) {
            bool left = p == name || !((p[-1] >= 'a' && p[-1] <= 'z') || (p[-1] >= 'A' && p[-1] <= 'Z'));
            bool right = !((p[n] >= 'a' && p[n] <= 'z') || (p[n] >= 'A' && p[n] <= 'Z'));
            if (left && right)
                return true;
        }
    }
    return false;
}

static bool is_float(enum dtype t)
{
    enum dtype_kind k = dtype_kind(t);
    return k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX;
}

/* Whether a result leaf has this shape: the sign of state that a step updates. */
static bool comes_out(const struct module *m, const struct map *results, const struct shape *s)
{
    uint64_t v;
    (void)m;
    return map_get(results, s->same.i, &v);
}

enum { MOST_STEPS = 256 };

struct step {
    instr_id i;
    int64_t leaf;
};

struct walk {
    struct step queue[MOST_STEPS];
    int n, at;
};

static void walk_to(struct walk *w, instr_id i, int64_t leaf)
{
    if (w->n < MOST_STEPS)
        w->queue[w->n++] = (struct step){ i, leaf };
}

/* Follows a leaf into what only hands it on: elements of tuples, tuples, the body of a loop. */
static bool handed_on(const struct module *m, struct walk *w, struct step s, instr_id user)
{
    const struct instr *by = instr_at(m, user);
    if (by->op == OP_GET_TUPLE_ELEMENT) {
        int64_t off = shape_leaf_offset(m->ir, instr_at(m, s.i)->shape, instr_int(by, ATTR_INDEX, 0));
        if (s.leaf >= off && s.leaf < off + shape_get(m->ir, by->shape)->nleaves)
            walk_to(w, user, s.leaf - off);
        return true;
    }
    if (by->op == OP_TUPLE) {
        for (uint32_t o = 0; o < by->noperands; o++)
            if (by->operands[o].i == s.i.i)
                walk_to(w, user, s.leaf + shape_leaf_offset(m->ir, by->shape, o));
        return true;
    }
    return false;
}

/* An operand of a matrix operation, straight or through what only converts, moves or gathers it, also
 * inside a loop. */
static bool is_multiplied(const struct cost_plan *p, instr_id i)
{
    const struct module *m = p->module;
    struct walk w = { .n = 0 };
    walk_to(&w, i, 0);
    while (w.at < w.n) {
        struct step s = w.queue[w.at++];
        for (uint32_t k = 0; k < users_count(&p->users, s.i); k++) {
            instr_id u = users_of(&p->users, s.i)[k];
            const struct instr *by = instr_at(m, u);
            const struct attr *body = by->op == OP_WHILE ? instr_attr(by, ATTR_BODY) : NULL;
            if (by->op == OP_DOT || by->op == OP_CONVOLUTION)
                return true;
            if (handed_on(m, &w, s, u))
                continue;
            if (body && body->type == ATTR_TYPE_COMP)
                walk_to(&w, comp_at(m, body->comp)->params[0], s.leaf);
            else if (op_forwards(m, by) || by->op == OP_CONVERT || by->op == OP_TRANSPOSE || by->op == OP_ALL_GATHER ||
                     by->op == OP_SLICE || by->op == OP_DYNAMIC_SLICE)
                walk_to(&w, u, s.leaf);
        }
    }
    return false;
}

void parameter_kinds(const struct cost_plan *p, struct arena *a, uint8_t *kinds, struct map *weights)
{
    static const char *const weight[] = { "params", "param", "weights", "weight", "kernel", "W", NULL };
    static const char *const state[] = { "opt", "opt_state", "optimizer", "state", "mu", "nu", "vr", "vc", "v", "m",
                                         "moment", "momentum", "moments", "adam", "count", "step", NULL };
    static const char *const input[] = { "x", "batch", "tokens", "labels", "inputs", "input", "targets", "ids", "cache",
                                         "mask", "images", "image", "y", NULL };
    const struct module *m = p->module;
    const struct computation *entry = comp_at(m, m->entry);
    struct map results;
    map_init(&results, a);
    shape_id root = instr_at(m, entry->root)->shape;
    int64_t nresults = shape_get(m->ir, root)->nleaves;
    for (int64_t k = 0; k < nresults; k++)
        map_put(&results, shape_get(m->ir, shape_leaf(m->ir, root, k))->same.i, 1);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        instr_id i = entry->params[k];
        const struct shape *s = shape_get(m->ir, instr_at(m, i)->shape);
        const char *name = instr_arg_name(m, i);
        if (!name[0])
            name = name_text(m->ir, instr_at(m, i)->name);
        bool updated = comes_out(m, &results, s);
        if (has_word(name, weight) && (s->kind != SHAPE_ARRAY || is_float(s->dtype)))
            kinds[k] = MEMORY_PARAMETERS;
        else if (has_word(name, state) && updated)
            kinds[k] = MEMORY_OPTIMIZER;
        else if (has_word(name, input))
            kinds[k] = MEMORY_INPUTS;
        else if (s->kind == SHAPE_ARRAY && is_float(s->dtype))
            kinds[k] = is_multiplied(p, i) ? MEMORY_PARAMETERS : updated ? MEMORY_OPTIMIZER : MEMORY_INPUTS;
        else
            kinds[k] = MEMORY_INPUTS;
        if (kinds[k] == MEMORY_PARAMETERS && s->kind == SHAPE_ARRAY && s->rank > 0)
            map_put(weights, s->skeleton.i, 1);
    }
}

/* ---- values --------------------------------------------------------------------------------------------- */

/* The backward pass is what JAX's scope calls transpose(..). */
static bool is_backward(const struct instr *in)
{
    return in->metadata && memmem(in->metadata, in->metadata_len, "transpose(", 10) != NULL;
}

/* A loop is backward when its body is: the loop itself is called `while` in both passes. */
static bool runs_backward(const struct module *m, const struct instr *in)
{
    const struct attr *body = in->op == OP_WHILE ? instr_attr(in, ATTR_BODY) : NULL;
    if (is_backward(in) || !body || body->type != ATTR_TYPE_COMP)
        return is_backward(in);
    const struct computation *c = comp_at(m, body->comp);
    for (uint32_t k = 0; k < c->ninstrs; k++)
        if (is_backward(instr_at(m, c->instrs[k])))
            return true;
    return false;
}

static bool is_forward(const struct instr *in)
{
    return in->metadata && !is_backward(in) && memmem(in->metadata, in->metadata_len, "jvp(", 4) != NULL;
}

/* A user in the backward pass, also through tuples and elements of the leaf. */
static bool needed_backward(const struct cost_plan *p, instr_id i, int64_t leaf)
{
    const struct module *m = p->module;
    struct walk w = { .n = 0 };
    walk_to(&w, i, leaf);
    while (w.at < w.n) {
        struct step s = w.queue[w.at++];
        for (uint32_t k = 0; k < users_count(&p->users, s.i); k++) {
            instr_id u = users_of(&p->users, s.i)[k];
            const struct instr *by = instr_at(m, u);
            if (by->op != OP_GET_TUPLE_ELEMENT && runs_backward(m, by))
                return true;
            if (handed_on(m, &w, s, u))
                continue;
            if (op_forwards(m, by) || p->fused[u.i] || by->op == OP_ALL_GATHER)
                walk_to(&w, u, s.leaf);
        }
    }
    return false;
}

enum memory_kind buffer_kind(const struct cost_plan *p, const struct buffer *b, const struct map *weights)
{
    const struct module *m = p->module;
    const struct instr *in = instr_at(m, b->instr);
    const struct shape *s = shape_get(m->ir, shape_leaf(m->ir, in->shape, b->leaf));
    uint64_t v;
    if (op_is_collective((enum op_kind)in->op))
        return MEMORY_COLLECTIVES;
    if (s->kind == SHAPE_ARRAY && is_float(s->dtype) && s->rank > 0 && !is_forward(in) &&
        (is_backward(in) || in->op == OP_WHILE) && map_get(weights, s->skeleton.i, &v))
        return MEMORY_GRADIENTS;
    if (!runs_backward(m, in) && needed_backward(p, b->instr, b->leaf))
        return MEMORY_ACTIVATIONS;
    return MEMORY_TEMPORARIES;
}
