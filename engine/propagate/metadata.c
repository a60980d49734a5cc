/* Metadata of shardings (P-67): each carries the op-metadata of where it comes from. It takes part in
 * no decision. Tuples carry one list for all their leaves. */
#include <string.h>

#include "propagate/internal.h"

static bool has_records(const struct sharding_note *n)
{
    for (int64_t k = 0; n && n->leaves && k < n->nleaves; k++)
        if (n->leaves[k].nmeta)
            return true;
    return false;
}

static struct meta one_record(struct pass *p, const char *text)
{
    const char **list = ARENA_ARRAY(p->arena, const char *, 1);
    list[0] = text;
    return (struct meta){ 1, list };
}

void metadata_open(struct pass *p)
{
    if (p->o.propagate_metadata)
        p->meta = ARENA_ARRAY(p->arena, struct meta, p->capacity);
    for (uint32_t k = 1; k <= p->n; k++) {
        const struct instr *ins = at(p, (instr_id){ k });
        if (!ins->sharding.i || !p->now[k].i)
            continue;
        bool has = has_records(ins->note);
        if (!p->meta) {
            p->changed = p->changed || has;
        } else if (has) {
            p->meta[k] = (struct meta){ ins->note->leaves[0].nmeta, ins->note->leaves[0].meta };
        } else if (ins->metadata) {
            p->meta[k] = one_record(p, arena_strndup(p->arena, ins->metadata, ins->metadata_len));
            p->changed = true;
        }
    }
}

void metadata_copy(struct pass *p, instr_id to, instr_id from)
{
    if (p->meta && from.i && !p->trial && !p->replay)
        p->meta[to.i] = p->meta[from.i];
}

void metadata_merge(struct pass *p, instr_id to, instr_id from)
{
    if (!p->meta || !from.i || p->trial || p->replay)
        return;
    struct meta a = p->meta[from.i], b = p->meta[to.i];
    const char **list = ARENA_ARRAY(p->arena, const char *, a.n + b.n + 1);
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
    p->meta[to.i] = (struct meta){ n, list };
}

void metadata_mark_cse(struct pass *p, instr_id i)
{
    if (p->meta)
        p->meta[i.i] = one_record(p, "op_name=\"_sharding_propagation_cse_prevention\"");
}

struct sharding_note *const *metadata_notes(struct pass *p)
{
    if (!p->meta)
        return NULL;
    struct sharding_note **out = ARENA_ARRAY(p->arena, struct sharding_note *, p->n + 1);
    for (uint32_t k = 1; k <= p->n; k++) {
        if (!p->now[k].i || !p->meta[k].n)
            continue;
        const struct sharding *s = sharding_get(p->t, p->now[k]);
        int64_t n = s->kind == SHARDING_TUPLE ? max_i64(1, s->nelems) : 1;
        struct sharding_leaf_note *leaves = ARENA_ARRAY(p->arena, struct sharding_leaf_note, n);
        for (int64_t j = 0; j < n; j++) {
            leaves[j].nmeta = p->meta[k].n;
            leaves[j].meta = p->meta[k].records;
        }
        out[k] = ARENA_NEW(p->arena, struct sharding_note);
        out[k]->nleaves = n;
        out[k]->leaves = leaves;
    }
    return out;
}
