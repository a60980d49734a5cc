/* An edit on a large model: what a strategy changes against one that is propagated already. */
#include <string.h>

#include "session/internal.h"

enum { MOST_EDITS = 256, MOST_BASES = 8 };

/* ---- annotations: shardings that instructions carry, and others ------------------------------------------ */

static bool is_sharding_call(const struct module *m, instr_id i)
{
    const struct instr *ins = instr_at(m, i);
    return ins->op == OP_CUSTOM_CALL && strcmp(instr_target(m, ins), "Sharding") == 0;
}

/* The array that leaf *leaf of a tuple is made from; none: it is not made here. */
static instr_id made_from(const struct module *m, instr_id i, int64_t leaf)
{
    while (instr_at(m, i)->op == OP_TUPLE) {
        const struct instr *ins = instr_at(m, i);
        uint32_t k = 0;
        for (; k + 1 < ins->noperands && leaf >= instr_shape(m, ins->operands[k])->nleaves; k++)
            leaf -= instr_shape(m, ins->operands[k])->nleaves;
        if (k >= ins->noperands)
            return (instr_id){ 0 };
        i = ins->operands[k];
    }
    return instr_shape(m, i)->kind == SHAPE_ARRAY ? i : (instr_id){ 0 };
}

/* Whether the annotation does more than give an instruction of the module its sharding: it adds or takes away
 * an instruction, or changes which dimensions are open. */
static bool is_structural(const struct module *m, const struct annotation *a, bool calls_go)
{
    if (a->kind == ANNOTATE_CONSTRAIN || a->open)
        return true;
    if (is_sharding_call(m, a->target))
        return (a->kind == ANNOTATE_UNSHARD && !calls_go) || instr_attr(instr_at(m, a->target), ATTR_BACKEND_CONFIG);
    if (a->leaf < 0 || a->kind == ANNOTATE_UNSHARD || a->target.i == comp_at(m, m->entry)->root.i)
        return false;
    return !made_from(m, a->target, a->leaf).i;
}

static bool is_same(const struct annotation *a, const struct annotation *b)
{
    return a->kind == b->kind && a->target.i == b->target.i && a->leaf == b->leaf && a->sharding.i == b->sharding.i &&
           a->open == b->open;
}

static int next_structural(const struct module *m, const struct strategy *s, int k, bool calls_go)
{
    while (k < s->nannotations && !is_structural(m, &s->annotations[k], calls_go))
        k++;
    return k;
}

/* Whether the leaf of a may be another instruction's once b has put calls behind others. */
static bool is_moved(const struct module *m, const struct annotation *a, const struct annotation *b)
{
    instr_id i = a->target;
    int64_t leaf = a->leaf;
    if (i.i == comp_at(m, m->entry)->root.i)
        return b->leaf < 0 && b->target.i == i.i;
    while (!(b->leaf < 0 && i.i == b->target.i) && instr_at(m, i)->op == OP_TUPLE) {
        const struct instr *ins = instr_at(m, i);
        uint32_t k = 0;
        for (; k + 1 < ins->noperands && leaf >= instr_shape(m, ins->operands[k])->nleaves; k++)
            leaf -= instr_shape(m, ins->operands[k])->nleaves;
        if (k >= ins->noperands)
            return true;
        i = ins->operands[k];
    }
    return b->leaf < 0 ? i.i == b->target.i : instr_at(m, i)->op == OP_GET_TUPLE_ELEMENT;
}

/* Whether a leaf means another instruction because one was put in between. */
static bool is_mixed(const struct module *m, const struct strategy *s, bool calls_go)
{
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *by = &s->annotations[k];
        if (!is_structural(m, by, calls_go))
            continue;
        for (int j = 0; j < s->nannotations; j++)
            if (s->annotations[j].leaf >= 0 && !is_structural(m, &s->annotations[j], calls_go) && is_moved(m, &s->annotations[j], by))
                return true;
    }
    return false;
}

/* Whether both stand for modules of the same instructions. */
static bool same_structure(const struct module *m, const struct strategy *a, const struct strategy *b, bool calls_go)
{
    int i = next_structural(m, a, 0, calls_go), j = next_structural(m, b, 0, calls_go);
    for (; i < a->nannotations && j < b->nannotations;
         i = next_structural(m, a, i + 1, calls_go), j = next_structural(m, b, j + 1, calls_go))
        if (!is_same(&a->annotations[i], &b->annotations[j]))
            return false;
    return i == a->nannotations && j == b->nannotations && a->unshard_module == b->unshard_module &&
           a->options.prepare == b->options.prepare && !is_mixed(m, a, calls_go) && !is_mixed(m, b, calls_go);
}

/* ---- what two strategies give differently ---------------------------------------------------------------- */

struct gift {
    const struct module *m;
    const struct strategy *s;
    struct map by_instr;
    struct id_order {
        instr_id *v;
        int n;
    } met;
};

static sharding_id given_in(const struct gift *g, instr_id i)
{
    uint64_t s;
    if (map_get(&g->by_instr, i.i, &s))
        return (sharding_id){ (uint32_t)s };
    return g->s->unshard_module ? (sharding_id){ 0 } : instr_at(g->m, i)->sharding;
}

/* As annotate() puts them: a leaf of the entry's root among unknown ones, a whole tuple from one leaf. */
static sharding_id put_leaf(const struct gift *g, instr_id root, int64_t leaf, sharding_id s, struct arena *tmp)
{
    struct shardings *t = g->m->ir->shardings;
    const struct shape *shape = instr_shape(g->m, root);
    sharding_id *leaves = ARENA_ARRAY(tmp, sharding_id, shape->nleaves + 1), old = given_in(g, root);
    const struct sharding *had = old.i ? sharding_get(t, old) : NULL;
    for (int64_t k = 0; k < shape->nleaves; k++)
        leaves[k] = had && had->kind == SHARDING_TUPLE && k < had->nelems ? had->elems[k] : sharding_unknown(t);
    leaves[leaf] = s;
    return sharding_tuple(t, shape->nleaves, leaves);
}

static bool give_one(struct gift *g, const struct annotation *a, struct arena *tmp)
{
    struct shardings *t = g->m->ir->shardings;
    instr_id i = a->target;
    sharding_id s = a->kind == ANNOTATE_SHARD ? a->sharding : (sharding_id){ 0 };
    const struct shape *shape = instr_shape(g->m, i);
    if (a->kind == ANNOTATE_SHARD && a->leaf >= 0 && i.i == comp_at(g->m, g->m->entry)->root.i) {
        if (shape->kind != SHAPE_TUPLE || a->leaf >= shape->nleaves)
            return false;
        s = put_leaf(g, i, a->leaf, s, tmp);
    } else if (a->kind == ANNOTATE_SHARD && a->leaf >= 0) {
        i = made_from(g->m, i, a->leaf);
    } else if (s.i && shape->kind == SHAPE_TUPLE && sharding_get(t, s)->kind != SHARDING_TUPLE) {
        s = sharding_tuple_of(t, shape->nleaves, s);
    }
    map_put(&g->by_instr, i.i, s.i);
    g->met.v[g->met.n++] = i;
    return true;
}

/* false: what it gives cannot be told. */
static bool give_all(struct gift *g, const struct module *m, const struct strategy *s, bool calls_go, struct arena *tmp)
{
    *g = (struct gift){ .m = m, .s = s };
    map_init(&g->by_instr, tmp);
    g->met.v = ARENA_ARRAY(tmp, instr_id, s->nannotations + 1);
    for (int k = 0; k < s->nannotations; k++)
        if (!is_structural(m, &s->annotations[k], calls_go) && !give_one(g, &s->annotations[k], tmp))
            return false;
    return true;
}

/* A call that --module made a copy of; notes that an annotation drops. */
static bool is_refused(const struct gift *g, instr_id i)
{
    const struct instr *ins = instr_at(g->m, i);
    return g->s->unshard_module ? is_sharding_call(g->m, i) : ins->note && ins->note->leaves;
}

static int add_edits(const struct id_order *met, const struct gift *was, const struct gift *is, struct map *done,
                     struct prop_edit *edits, int n)
{
    for (int k = 0; n >= 0 && k < met->n; k++) {
        instr_id i = met->v[k];
        uint64_t ignored;
        sharding_id before = given_in(was, i), after = given_in(is, i);
        if (before.i == after.i || map_get(done, i.i, &ignored))
            continue;
        if (n == MOST_EDITS || is_refused(is, i))
            return -1;
        map_put(done, i.i, 1);
        edits[n++] = (struct prop_edit){ i, before, after };
    }
    return n;
}

/* What turns strategy a into b; -1: more than edits of shardings, or too many. */
static int edits_between(const struct module *m, const struct strategy *a, const struct strategy *b, bool calls_go,
                         struct prop_edit *edits)
{
    if (!same_structure(m, a, b, calls_go))
        return -1;
    struct arena tmp = { 0 };
    struct gift was, is;
    struct map done;
    int n = -1;
    arena_open(&tmp);
    map_init(&done, &tmp);
    if (give_all(&was, m, a, calls_go, &tmp) && give_all(&is, m, b, calls_go, &tmp)) {
        n = add_edits(&was.met, &was, &is, &done, edits, 0);
        n = add_edits(&is.met, &was, &is, &done, edits, n);
    }
    arena_close(&tmp);
    return n;
}

struct propagation *increment_for(struct document *doc, const struct strategy *s,
                                  const struct propagation_options *o, struct tick *t)
{
    struct prop_edit edits[MOST_EDITS], best[MOST_EDITS];
    const struct propagation *from = NULL;
    int least = -1, looked = 0;
    if (doc->from_scratch)
        return NULL;
    if (doc->trying && doc->base.prop) {
        least = edits_between(doc->module, &doc->base.strategy, s, true, best);
        from = least < 0 ? NULL : doc->base.prop;
    }
    for (const struct derived *e = doc->derived; e && looked < MOST_BASES && (!from || least > 1); e = e->next) {
        if (!e->prop || !e->strategy)
            continue;
        looked++;
        int n = edits_between(doc->module, e->strategy, s, doc->trying, edits);
        if (n < 0 || (from && n >= least))
            continue;
        from = e->prop;
        least = n;
        memcpy(best, edits, (size_t)n * sizeof *best);
    }
    return from ? propagate_increment(from, least, best, o, t) : NULL;
}
