/* An edit on a large model: what a strategy changes against one that is propagated already. */
#include <string.h>

#include "session/internal.h"

enum { MOST_EDITS = 256, MOST_BASES = 8 };

/* Whether the strategy is no more than shardings on whole arrays. */
static bool is_plain(const struct strategy *s)
{
    for (int k = 0; k < s->nannotations; k++)
        if (s->annotations[k].kind == ANNOTATE_CONSTRAIN || s->annotations[k].leaf >= 0 ||
            s->annotations[k].open)
            return false;
    return !s->unshard_module;
}

/* Whether an annotation of i is its sharding and nothing else; what stands for calls and what they
 * call takes more from it. */
static bool is_plain_target(const struct module *m, instr_id i)
{
    const struct instr *ins = instr_at(m, i);
    if (instr_shape(m, i)->kind != SHAPE_ARRAY || (ins->note && ins->note->leaves))
        return false;
    if (ins->op == OP_CUSTOM_CALL || ins->op == OP_CALL || ins->op == OP_CONDITIONAL ||
        ins->op == OP_WHILE)
        return false;
    return ins->comp.i == m->entry.i ||
           (ins->op != OP_PARAMETER && comp_at(m, ins->comp)->root.i != i.i);
}

static void note_given(struct map *given, const struct strategy *s)
{
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        map_put(given, a->target.i, a->kind == ANNOTATE_SHARD ? a->sharding.i : 0);
    }
}

static sharding_id given_in(const struct module *m, const struct map *given, instr_id i)
{
    uint64_t s;
    return map_get(given, i.i, &s) ? (sharding_id){ (uint32_t)s } : instr_at(m, i)->sharding;
}

static int add_edits(const struct module *m, const struct strategy *list, const struct map *was,
                     const struct map *is, struct map *met, struct prop_edit *edits, int n)
{
    for (int k = 0; n >= 0 && k < list->nannotations; k++) {
        instr_id i = list->annotations[k].target;
        uint64_t ignored;
        sharding_id before = given_in(m, was, i), after = given_in(m, is, i);
        if (before.i == after.i || map_get(met, i.i, &ignored))
            continue;
        if (n == MOST_EDITS || !is_plain_target(m, i))
            return -1;
        map_put(met, i.i, 1);
        edits[n++] = (struct prop_edit){ i, before, after };
    }
    return n;
}

/* What turns strategy a into b; -1: more than edits of shardings, or too many. */
static int edits_between(const struct module *m, const struct strategy *a, const struct strategy *b,
                         struct prop_edit *edits)
{
    if (!is_plain(a) || !is_plain(b) || a->options.prepare != b->options.prepare)
        return -1;
    struct arena tmp = { 0 };
    struct map was, is, met;
    arena_open(&tmp);
    map_init(&was, &tmp);
    map_init(&is, &tmp);
    map_init(&met, &tmp);
    note_given(&was, a);
    note_given(&is, b);
    int n = add_edits(m, a, &was, &is, &met, edits, 0);
    if (n >= 0)
        n = add_edits(m, b, &was, &is, &met, edits, n);
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
    for (const struct derived *e = doc->derived; e && looked < MOST_BASES; e = e->next) {
        if (!e->prop || !e->strategy)
            continue;
        looked++;
        int n = edits_between(doc->module, e->strategy, s, edits);
        if (n < 0 || (from && n >= least))
            continue;
        from = e->prop;
        least = n;
        memcpy(best, edits, (size_t)n * sizeof *best);
    }
    return from ? propagate_increment(from, least, best, o, t) : NULL;
}
