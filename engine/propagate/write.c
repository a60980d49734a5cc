/* Reading, offering and writing shardings: the only way in which rules meet the state. */
#include <string.h>

#include "propagate/internal.h"

bool is_spatial(const struct pass *p, instr_id i)
{
    return p->now[i.i].i && sharding_is_spatial(p->t, p->now[i.i]);
}

static bool records(const struct pass *p)
{
    return !p->replay && !p->trial && !p->o.unrecorded;
}

static void record(struct pass *p, instr_id i, int64_t leaf, sharding_id before, sharding_id after,
                   instr_id cause)
{
    if (!records(p))
        return;
    struct log_entry e = { .instr = i };
    e.write = (struct prop_write){ .time = p->time,
                                   .rule = (uint8_t)p->rule,
                                   .leaf = (int32_t)leaf,
                                   .cause = cause,
                                   .before = before,
                                   .after = after };
    vec_push(p->tmp, &p->log, e);
    if (p->time.seq < UINT16_MAX)
        p->time.seq++;
}

static void set_now(struct pass *p, instr_id i, sharding_id s)
{
    if (p->replay)
        vec_push(p->tmp, &p->undo, ((struct log_entry){ .instr = i, .write.before = p->now[i.i] }));
    p->now[i.i] = s;
}

void put_sharding(struct pass *p, instr_id i, sharding_id s, instr_id cause)
{
    if (p->draft.i == i.i)
        put_leaves(p);
    p->offered = true;
    p->settled = false;
    record(p, i, -1, p->now[i.i], s, cause);
    if (!p->trial && !p->replay)
        look_forget(p, i);
    if (p->group_at && p->group_at[i.i])
        group_written(p, i, p->now[i.i], s);
    set_now(p, i, s);
}

static void open_draft(struct pass *p, instr_id i)
{
    if (p->draft.i == i.i)
        return;
    put_leaves(p);
    const struct sharding *s = sharding_get(p->t, p->now[i.i]);
    if (s->nelems > p->capleaves) {
        p->capleaves = s->nelems * 2;
        p->leaves = ARENA_ARRAY(p->arena, sharding_id, p->capleaves);
    }
    memcpy(p->leaves, s->elems, (size_t)s->nelems * sizeof *p->leaves);
    p->nleaves = s->nelems;
    p->draft = i;
    p->draft_dirty = false;
}

sharding_id leaf_seen(struct pass *p, instr_id i, int64_t leaf)
{
    if (p->draft.i == i.i)
        return p->leaves[leaf];
    return sharding_get(p->t, p->now[i.i])->elems[leaf];
}

void put_leaf_sharding(struct pass *p, instr_id i, int64_t leaf, sharding_id s, instr_id cause)
{
    open_draft(p, i);
    p->offered = true;
    p->settled = false;
    record(p, i, leaf, p->leaves[leaf], s, cause);
    p->leaves[leaf] = s;
    p->draft_dirty = true;
}

void put_leaves(struct pass *p)
{
    if (p->draft.i && p->draft_dirty) {
        sharding_id s = sharding_tuple(p->t, p->nleaves, p->leaves);
        if (p->group_at && p->group_at[p->draft.i])
            group_written(p, p->draft, p->now[p->draft.i], s);
        set_now(p, p->draft, s);
        if (!p->replay)
            look_forget(p, p->draft);
    }
    p->draft = none_instr();
    p->draft_dirty = false;
}

/* ---- candidates ---------------------------------------------------------------------------------- */

void offer_note(struct pass *p, instr_id from, sharding_id cand, bool taken, const char *why)
{
    if (!p->sink || p->trial)
        return;
    struct why_candidate c = { .from = from, .offered = cand, .taken = taken, .reason = why };
    vec_push(p->sink->arena, &p->sink->list, c);
}

/* A candidate of another structure than the instruction's (P-151) is no candidate. */
static bool fits(const struct pass *p, instr_id i, sharding_id cand)
{
    const struct sharding *s = sharding_get(p->t, cand);
    if (!is_tuple(p, i))
        return s->kind != SHARDING_TUPLE;
    const struct shape *shape = shape_of(p, i);
    return s->kind == SHARDING_TUPLE &&
           (s->nelems == shape->nleaves || (s->nelems == 1 && shape->nleaves == 0)); /* P-2 */
}

static sharding_id improved_shape(struct pass *p, shape_id shape, sharding_id cand, sharding_id old,
                                  bool aggressive)
{
    uint8_t flags = (uint8_t)(1 + (p->may ? 2 : 0) + (aggressive ? 4 : 0));
    uint64_t h = hash_u64(((uint64_t)cand.i << 32 | old.i) + hash_u64((uint64_t)shape.i << 8 | flags));
    struct improved_slot *slot = &p->improved[h & (p->memo_slots - 1)];
    if (slot->flags == flags && slot->cand.i == cand.i && slot->old.i == old.i &&
        slot->shape == shape.i)
        return slot->answer;
    const struct shape *s = shape_get(p->ir, shape);
    sharding_id answer = sharding_improved(p->t, cand, old, s->kind == SHAPE_ARRAY, s->rank, s->dims,
                                           p->may, aggressive);
    *slot = (struct improved_slot){ cand, old, answer, shape.i, flags };
    return answer;
}

/* ---- questions asked before ----------------------------------------------------------------------- */

/* What rules ask of an instruction besides shardings: opcode, ranks, and which dimensions play which part. */
static uint32_t make_class(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    uint8_t key[5 + 4 * (2 + RANK_MAX)] = { 0 };
    size_t n = 0;
    key[n++] = (uint8_t)(ins->op & 0xff);
    key[n++] = (uint8_t)(ins->op >> 8);
    for (uint32_t k = 0; k < 3; k++) {
        int rank = k == 2 ? shape_of(p, i)->rank : k < ins->noperands ? shape_of(p, ins->operands[k])->rank : 0;
        if (rank > RANK_MAX)
            return intern_put(&p->classes, &i, sizeof i); /* nobody's like */
        key[n++] = (uint8_t)rank;
    }
    for (int a = 0; a < ins->nattrs; a++) {
        const struct attr *attr = &ins->attrs[a];
        if (attr->type != ATTR_TYPE_INTS)
            continue;
        if (attr->n > RANK_MAX || n + 2 + attr->n > sizeof key)
            return intern_put(&p->classes, &i, sizeof i);
        key[n++] = attr->key;
        key[n++] = (uint8_t)attr->n;
        for (uint32_t k = 0; k < attr->n; k++)
            key[n++] = (uint8_t)attr->ints[k];
    }
    if (n > sizeof p->short_classes->key)
        return intern_put(&p->classes, key, n);
    uint64_t a, b;
    memcpy(&a, key, 8);
    memcpy(&b, key + 8, 8);
    struct short_class *slot = &p->short_classes[hash_u64(a ^ b * 0x9e3779b97f4a7c15ULL) % SHORT_CLASSES];
    if (!slot->class || memcmp(slot->key, key, sizeof slot->key) != 0) {
        memcpy(slot->key, key, sizeof slot->key);
        slot->class = intern_put(&p->classes, key, n);
    }
    return slot->class;
}

uint32_t rule_class(struct pass *p, instr_id i)
{
    if (!p->facts[i.i].class)
        p->facts[i.i].class = make_class(p, i);
    return p->facts[i.i].class;
}

bool rule_asked(struct pass *p, uint32_t class, uint32_t what, sharding_id a, sharding_id b, struct rule_slot **slot)
{
    uint64_t h = hash_u64(((uint64_t)a.i << 32 | b.i) + hash_u64((uint64_t)class << 8 | what));
    struct rule_slot *s = &p->answers[h & (p->memo_slots - 1)];
    *slot = s;
    if (s->class == class && s->what == what && s->a.i == a.i && s->b.i == b.i)
        return true;
    *s = (struct rule_slot){ 0, what, a, b, none() };
    return false;
}

/* Inside a tuple no refinement is asked for: P-32 6 is for array shapes. */
sharding_id improved_leaf(struct pass *p, shape_id shape, sharding_id cand, sharding_id old)
{
    const struct shape *s = shape_get(p->ir, shape);
    return sharding_improved(p->t, cand, old, false, s->rank, s->dims, p->may, false);
}

sharding_id improved(struct pass *p, instr_id i, sharding_id cand, sharding_id old, bool aggressive)
{
    if (!cand.i || cand.i == old.i || !fits(p, i, cand))
        return none();
    return improved_shape(p, p->facts[i.i].shape, cand, old, aggressive);
}

/* Why a candidate was turned down, P-32 step by step. */
static const char *why_not(struct pass *p, instr_id i, sharding_id cand, sharding_id old)
{
    if (!cand.i)
        return "nothing to offer";
    if (!fits(p, i, cand))
        return "of another structure than the result (P-151)";
    if (cand.i == old.i)
        return "what it has already";
    if (!sharding_is_spatial(p->t, cand))
        return "lies on one device, which does not spread (P-32 2)";
    if (sharding_is_manual(p->t, cand))
        return "manual does not replace a sharding (P-32 4)";
    sharding_id copy = cand;
    if (!sharding_merge(p->t, old, &copy, p->may))
        return "no more specific than what it has, and they do not merge (P-32 5)";
    return "more tiles, but no refinement of what it has (P-32 6)";
}

static const char *why_taken(struct pass *p, sharding_id cand, sharding_id old, sharding_id answer)
{
    if (!old.i)
        return "it had no sharding (P-32 3)";
    if (answer.i != cand.i)
        return "merged with what it had (P-28)";
    return sharding_strictly_better(p->t, cand, old) ? "manual goes first (P-32 1)"
                                                     : "more specific than what it had (P-26)";
}

bool improve(struct pass *p, instr_id i, sharding_id cand, instr_id from, bool aggressive)
{
    sharding_id old = seen(p, i);
    sharding_id answer = improved(p, i, cand, old, aggressive);
    bool settled = !p->offered && answer.i == cand.i;
    p->offered = p->offered || cand.i;
    if (p->sink)
        offer_note(p, from, cand, answer.i != 0,
              answer.i ? why_taken(p, cand, old, answer) : why_not(p, i, cand, old));
    if (!answer.i)
        return false;
    put_sharding(p, i, answer, from);
    p->settled = settled;
    if (records(p))
        p->log.v[p->log.n - 1].write.merged = old.i && answer.i != cand.i;
    return true;
}

sharding_id single_sharding(struct pass *p, instr_id i, sharding_id leaf)
{
    const struct shape *s = shape_of(p, i);
    return s->kind == SHAPE_TUPLE ? sharding_tuple_of(p->t, s->nleaves, leaf) : leaf;
}

sharding_id sub_sharding(struct pass *p, instr_id tuple, sharding_id s, int64_t k)
{
    const struct sharding *g = sharding_get(p->t, s);
    const struct shape *shape = shape_of(p, tuple);
    if (g->kind != SHARDING_TUPLE || shape->kind != SHAPE_TUPLE || k >= shape->nelems)
        return g->kind == SHARDING_TUPLE ? none() : s;
    const struct shape *elem = shape_get(p->ir, shape->elems[k]);
    int64_t from = leaf_offset(p, tuple, k);
    if (from + elem->nleaves > g->nelems)
        return none();
    if (elem->kind != SHAPE_TUPLE)
        return g->elems[from];
    return sharding_tuple(p->t, elem->nleaves, g->elems + from);
}

sharding_id first_leaf(const struct pass *p, sharding_id s)
{
    const struct sharding *g = sharding_get(p->t, s);
    if (g->kind != SHARDING_TUPLE)
        return s;
    return g->nelems ? g->elems[0] : none();
}

bool improve_sub(struct pass *p, instr_id i, sharding_id cand, int64_t k, instr_id from,
                 bool aggressive)
{
    if (!is_tuple(p, i))
        return improve(p, i, cand, from, aggressive);
    const struct shape *shape = shape_of(p, i);
    if (!cand.i || k >= shape->nelems)
        return false;
    const struct shape *elem = shape_get(p->ir, shape->elems[k]);
    if (elem->kind == SHAPE_TUPLE || sharding_get(p->t, cand)->kind == SHARDING_TUPLE)
        return false;
    int64_t leaf = leaf_offset(p, i, k);
    sharding_id old = seen(p, i).i ? leaf_seen(p, i, leaf) : none();
    sharding_id answer =
        cand.i == old.i ? none() : improved_shape(p, shape->elems[k], cand, old, aggressive);
    if (p->sink)
        offer_note(p, from, cand, answer.i != 0,
              answer.i ? why_taken(p, cand, old, answer) : "no better than this element's (P-35)");
    if (!answer.i)
        return false;
    if (!seen(p, i).i)
        put_sharding(p, i, single_sharding(p, i, sharding_replicated(p->t)), from);
    put_leaf_sharding(p, i, leaf, answer, from);
    put_leaves(p);
    return true;
}
