/* Metadata of shardings (P-67): each carries the op-metadata of where it comes from. It takes part in
 * no decision, so that it is told from the history, when it is asked for. Tuples carry one list for all their
 * leaves. */
#include <string.h>

#include "propagate/internal.h"

/* Records that a sharding carries along, P-3. */
struct meta {
    int n;
    const char *const *records;
};

struct told {
    const struct pass *p;
    struct arena *a;
    struct meta *of;      /* by instruction */
    instr_id *copied;     /* by copy: the Sharding call that it stands for */
};

static bool has_records(const struct sharding_note *n)
{
    for (int64_t k = 0; n && n->leaves && k < n->nleaves; k++)
        if (n->leaves[k].nmeta)
            return true;
    return false;
}

/* Whether a given sharding comes to have its instruction's metadata, or has to lose its own. */
bool metadata_changes(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    bool has = has_records(ins->note);
    return p->o.propagate_metadata ? !has && ins->metadata : has;
}

static struct meta one_record(struct arena *a, const char *text)
{
    const char **list = ARENA_ARRAY(a, const char *, 1);
    list[0] = text;
    return (struct meta){ 1, list };
}

static struct meta given(const struct told *t, instr_id i)
{
    const struct instr *ins = at(t->p, i);
    if (has_records(ins->note))
        return (struct meta){ ins->note->leaves[0].nmeta, ins->note->leaves[0].meta };
    return ins->metadata ? one_record(t->a, arena_strndup(t->a, ins->metadata, ins->metadata_len)) : (struct meta){ 0 };
}

/* The new one's first, P-28. */
static struct meta merged(const struct told *t, struct meta a, struct meta b)
{
    const char **list = ARENA_ARRAY(t->a, const char *, a.n + b.n + 1);
    int n = 0;
    for (int k = 0; k < a.n; k++)
        list[n++] = a.records[k];
    for (int k = 0; k < b.n; k++) {
        bool known = false;
        for (int j = 0; j < a.n; j++)
            known = known || strcmp(a.records[j], b.records[k]) == 0;
        if (!known)
            list[n++] = b.records[k];
    }
    return (struct meta){ n, list };
}

static void tell(struct told *t, instr_id i, const struct prop_write *w)
{
    bool first = w->time.stage == 0 && w->time.iteration == 0;
    if (w->leaf >= 0)
        return;
    if (first && w->time.slot == i.i)
        t->of[i.i] = given(t, i);
    else if (first && !w->cause.i && t->copied[i.i].i && w->rule == RULE_ANNOTATION)
        t->of[i.i] = t->of[t->copied[i.i].i];
    else if (w->cause.i)
        t->of[i.i] = w->merged ? merged(t, t->of[w->cause.i], t->of[i.i]) : t->of[w->cause.i];
}

/* P-86: what only prevents common subexpressions from becoming one. */
static void mark_cse(struct told *t, const struct propagation *q)
{
    const struct pass *p = t->p;
    for (uint32_t k = 1; p->o.cse_only && k <= p->n; k++) {
        const struct instr *ins = at(p, (instr_id){ k });
        if (!p->facts[k].gone && q->final[k].i && ins->op == OP_BROADCAST && shape_of(p, ins->operands[0])->rank == 0 && !p->saved_cse[k].i)
            t->of[k] = one_record(t->a, "op_name=\"_sharding_propagation_cse_prevention\"");
    }
}

static struct sharding_note *note_of(struct arena *a, const struct sharding *s, struct meta m)
{
    int64_t n = s->kind == SHARDING_TUPLE ? max_i64(1, s->nelems) : 1;
    struct sharding_leaf_note *leaves = ARENA_ARRAY(a, struct sharding_leaf_note, n);
    for (int64_t j = 0; j < n; j++) {
        leaves[j].nmeta = m.n;
        leaves[j].meta = m.records;
    }
    struct sharding_note *out = ARENA_NEW(a, struct sharding_note);
    out->nleaves = n;
    out->leaves = leaves;
    return out;
}

struct sharding_note *const *prop_notes(const struct propagation *q, struct arena *a)
{
    struct pass *p = pass_mount(q);
    if (!p->o.propagate_metadata || p->o.none || p->o.unrecorded)
        return NULL;
    struct told t = { p, a, ARENA_ARRAY(a, struct meta, p->n + 1), ARENA_ARRAY(a, instr_id, p->n + 1) };
    for (int64_t k = 0; k < p->steps.n; k++)
        if (p->steps.v[k].kind == STEP_CALL && p->steps.v[k].copy.i)
            t.copied[p->steps.v[k].copy.i] = p->steps.v[k].i;
    const struct prop_change *all = prop_changes(q, a);
    for (uint32_t k = 0; k < q->nwrites; k++)
        tell(&t, all[k].instr, all[k].write);
    mark_cse(&t, q);
    struct sharding_note **out = ARENA_ARRAY(a, struct sharding_note *, p->n + 1);
    for (uint32_t k = 1; k <= p->n; k++)
        if (q->final[k].i && t.of[k].n)
            out[k] = note_of(a, sharding_get(p->t, q->final[k]), t.of[k]);
    return out;
}
