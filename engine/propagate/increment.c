/* Exact increments (internals.md section 2): after an edit that leaves the working graph as it is, only
 * visits whose inputs differ, or that come or go, run again; the rest of the history is the old one's.
 *
 * Both histories are lists of writes by instruction. The new one forks an instruction's list where it
 * first differs; from then on the slots that read the instruction are examined in every sweep. Whether a
 * slot is visited in a sweep is computed for both histories: in sweep 1 always, later when something that
 * sets its bit (P-78) was written since its turn in the sweep before. A visit that occurs in both and
 * reads the same keeps its writes; else it runs, and its writes take the place of the old ones at that
 * time. Running a visit whose inputs are the same would give the same: what is examined may be too much,
 * never too little.
 *
 * A slot that is visited in both or in none and reads the same goes on as it did, since lists are the old ones
 * from there on: it sleeps until one that it reads is changed later, and so does one that says no to what will
 * not change. What an edit costs are the visits that it reaches, not the model: tables by instruction stay from
 * one increment to the next, pages of the history that nothing was written in are the old propagation's.
 *
 * Not incremental (NULL, the caller propagates from scratch): barriers of shard groups, a Sharding call that
 * would turn from or to unknown, devices of loops (P-72), edits of what inlining or a conditional's canonical
 * form took away. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "propagate/increment.h"

uint32_t increment_poison; /* tests: what a value holds that was not loaded */

/* ---- values ------------------------------------------------------------------------------------------- */

/* What the first n writes of a list leave. */
static sharding_id fold(const struct inc *c, struct prop_writes s, uint32_t n)
{
    uint32_t k = n;
    while (k > 0 && s.v[k - 1].leaf >= 0)
        k--;
    sharding_id whole = k ? s.v[k - 1].after : none();
    if (k == n || !whole.i)
        return whole;
    const struct sharding *g = sharding_get(c->p->t, whole);
    if (g->kind != SHARDING_TUPLE)
        return whole;
    sharding_id *leaves = arena_copy(c->tmp, g->elems, g->nelems, sizeof *leaves);
    for (; k < n; k++)
        if (s.v[k].leaf < g->nelems)
            leaves[s.v[k].leaf] = s.v[k].after;
    return sharding_tuple(c->p->t, g->nelems, leaves);
}

/* Time only moves on, so what is before key stays as it is. */
sharding_id inc_value_before(struct inc *c, instr_id i, bool new, uint64_t key)
{
    struct prop_writes s = new ? new_list(c, i) : old_list(c, i);
    uint32_t n = before_again(s, key, &c->t->hints[new][1]);
    if (!n || s.v[n - 1].leaf < 0)
        return n ? s.v[n - 1].after : none();
    new = new && c->t->fork_of[i.i];
    if (!c->t->cached_of[i.i]) {
        vec_push(c->tmp, &c->cached, (struct cached){ .i = i });
        c->t->cached_of[i.i] = (uint32_t)c->cached.n;
    }
    struct cached *known = &c->cached.v[c->t->cached_of[i.i] - 1];
    if (known->n[new] != n) {
        known->value[new] = fold(c, s, n);
        known->n[new] = n;
    }
    return known->value[new];
}

bool inc_same_before(struct inc *c, instr_id i, uint64_t key)
{
    if (!c->t->fork_of[i.i])
        return true;
    struct prop_writes a = old_list(c, i), b = new_list(c, i);
    uint32_t na = before_again(a, key, &c->t->hints[0][1]), nb = before_again(b, key, &c->t->hints[1][1]);
    if (!na || !nb)
        return na == nb;
    const struct prop_write *x = &a.v[na - 1], *y = &b.v[nb - 1];
    if (x->leaf < 0 && y->leaf < 0)
        return x->after.i == y->after.i;
    return inc_value_before(c, i, false, key).i == inc_value_before(c, i, true, key).i;
}

/* ---- forks -------------------------------------------------------------------------------------------- */

static struct fork *fork_list(struct inc *c, instr_id i)
{
    if (!c->t->fork_of[i.i]) {
        struct prop_writes s = old_list(c, i);
        struct fork f = { .i = i };
        f.list.n = s.n;
        f.list.cap = (int64_t)s.n + 2;
        f.list.v = ARENA_ARRAY(c->tmp, struct prop_write, f.list.cap);
        if (s.n)
            memcpy(f.list.v, s.v, s.n * sizeof *s.v);
        vec_push(c->tmp, &c->forks, f);
        c->t->fork_of[i.i] = (uint32_t)c->forks.n;
    }
    return &c->forks.v[c->t->fork_of[i.i] - 1];
}

void inc_fork(struct inc *c, instr_id i, uint64_t key)
{
    if (c->t->fork_of[i.i])
        return;
    (void)fork_list(c, i);
    inc_examine_readers(c, i, key, NULL);
}

/* ---- one slot ------------------------------------------------------------------------------------------- */

static void count_writes(struct inc *c, struct prop_time t, int64_t n)
{
    if (t.stage >= STAGES || t.iteration == 0)
        return; /* before the first sweep, and the end: no sweeps of a level */
    if (t.iteration >= SWEEPS_KEPT)
        c->overflow = true;
    else
        c->count[t.stage][t.iteration] = (uint32_t)((int64_t)c->count[t.stage][t.iteration] + n);
}

static bool same_write(const struct prop_write *a, const struct prop_write *b)
{
    return time_compare(a->time, b->time, true) == 0 && a->rule == b->rule && a->merged == b->merged && a->leaf == b->leaf &&
           a->cause.i == b->cause.i && a->before.i == b->before.i && a->after.i == b->after.i;
}

void inc_replace(struct inc *c, instr_id i, uint64_t from_key, uint64_t to_key)
{
    const struct pass *p = c->p;
    struct prop_writes now = new_list(c, i);
    uint32_t from = before(now, from_key), to = before(now, to_key), k = from, n = 0;
    bool same = true;
    for (int64_t j = 0; j < p->log.n; j++) {
        if (p->log.v[j].instr.i != i.i)
            continue;
        same = same && k < to && same_write(&now.v[k], &p->log.v[j].write);
        k++;
        n++;
    }
    if (same && k == to)
        return;
    inc_examine_readers(c, i, from_key, inc_changed_leaves(c, i, from, to)); /* again: some may sleep */
    struct fork *f = fork_list(c, i);
    uint32_t tail = (uint32_t)f->list.n - to, total = from + n + tail;
    if (total > f->list.cap) {
        struct prop_write *v = ARENA_ARRAY(c->tmp, struct prop_write, (int64_t)total * 2);
        memcpy(v, f->list.v, (size_t)f->list.n * sizeof *v);
        f->list.v = v;
        f->list.cap = (int64_t)total * 2;
    }
    if (tail)
        memmove(f->list.v + from + n, f->list.v + to, tail * sizeof *f->list.v);
    f->list.n = total;
    k = from;
    for (int64_t j = 0; j < p->log.n; j++) {
        if (p->log.v[j].instr.i != i.i)
            continue;
        f->list.v[k++] = p->log.v[j].write;
        if (sweep_of(p->log.v[j].write.time) > c->last[i.i])
            c->last[i.i] = sweep_of(p->log.v[j].write.time);
    }
    struct prop_time t = { (uint8_t)(from_key >> 48), (uint16_t)(from_key >> 32), 0, 0 };
    count_writes(c, t, (int64_t)n - (int64_t)(to - from));
}

static void load(struct inc *c, const struct id_list *l, uint64_t key)
{
    for (uint32_t k = 0; k < l->n; k++)
        c->p->now[l->v[k].i] = inc_value_before(c, l->v[k], true, key);
}

static void unload(struct inc *c, const struct id_list *l)
{
    for (uint32_t k = 0; increment_poison && k < l->n; k++)
        c->p->now[l->v[k].i].i = increment_poison;
}

/* Of a tuple's value, leaves [from, from + n), and whether it is spatial, which asks all of them. */
static bool same_leaves(const struct inc *c, sharding_id a, sharding_id b, int64_t from, int64_t n)
{
    const struct shardings *t = c->p->t;
    if (a.i == b.i)
        return true;
    if (!a.i || !b.i || sharding_is_spatial(t, a) != sharding_is_spatial(t, b))
        return false;
    const struct sharding *x = sharding_get(t, a), *y = sharding_get(t, b);
    if (x->kind != SHARDING_TUPLE || y->kind != SHARDING_TUPLE || x->nelems != y->nelems || from + n > x->nelems)
        return false;
    return memcmp(x->elems + from, y->elems + from, (size_t)n * sizeof *x->elems) == 0;
}

/* A tuple of thousands differs somewhere; what i reads of it is its own leaves (P-100, P-123). */
static bool same_part(struct inc *c, uint32_t slot, instr_id tuple, uint64_t key)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    bool forward = p->slot_kind[slot] == SLOT_FORWARD;
    if (p->slot_kind[slot] == SLOT_GROUP || p->open[i.i])
        return false;
    if (inc_is_edge(p, i) || tuple.i == i.i || p->any_manual)
        return false;
    sharding_id a = inc_value_before(c, tuple, false, key), b = inc_value_before(c, tuple, true, key);
    if (forward) {
        if (fact_of(p, i)->family != FAMILY_get_tuple_element)
            return false;
        int64_t k = instr_int(at(p, i), ATTR_INDEX, 0);
        return same_leaves(c, a, b, leaf_offset(p, tuple, k), shape_of(p, i)->nleaves);
    }
    if (fact_of(p, tuple)->family != FAMILY_tuple)
        return false;
    const struct instr *ins = at(p, tuple);
    if (ins->noperands > 64) { /* the usual one: held once */
        int64_t k = tuple_position(p, tuple, i);
        if (k >= 0)
            return same_leaves(c, a, b, leaf_offset(p, tuple, k), shape_of(p, i)->nleaves);
    }
    for (uint32_t k = 0; k < ins->noperands; k++)
        if (ins->operands[k].i == i.i && !same_leaves(c, a, b, leaf_offset(p, tuple, k), shape_of(p, i)->nleaves))
            return false;
    return true;
}

static bool inputs_differ(struct inc *c, uint32_t slot, uint64_t key)
{
    for (uint32_t k = 0; k < c->reads.n; k++) {
        instr_id r = c->reads.v[k];
        if (c->p->provided[r.i] != c->old_provided[r.i])
            return true;
        if (!inc_same_before(c, r, key) && !(is_tuple(c->p, r) && same_part(c, slot, r, key)))
            return true;
    }
    return false;
}

static bool any_since(const struct inc *c, uint32_t n, const instr_id *v, uint16_t sweep)
{
    for (uint32_t k = 0; k < n; k++)
        if (c->last[v[k].i] >= sweep)
            return true;
    return false;
}

/* Whether nothing that decides a no of that slot was written, in either history, since a sweep. */
static bool is_quiet(const struct inc *c, uint32_t slot, uint16_t sweep)
{
    const struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    const struct instr *ins = at(p, i);
    if (c->last[i.i] >= sweep || ins->op == OP_PARAMETER)
        return false;
    if (p->slot_kind[slot] == SLOT_FORWARD)
        return !any_since(c, ins->noperands, ins->operands, sweep);
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    if (any_since(c, n, u, sweep))
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (fact_of(p, u[k])->asks && any_since(c, at(p, u[k])->noperands, at(p, u[k])->operands, sweep))
            return false;
    return true;
}

/* A visit of which it is plain that it writes nothing in both histories: in a later sweep nothing set its bit
 * again; at a level after level 1 most rules say what they said at the one before (those of broadcasts wait
 * for a level), so that a visit that reads what its first visit there read, and wrote nothing, says no again. */
static bool is_nothing(const struct inc *c, uint32_t slot, struct prop_time t)
{
    const struct pass *p = c->p;
    if (p->special || p->groups.n)
        return false;
    if (t.iteration > 1) {
        t.iteration--;
        return is_quiet(c, slot, sweep_of(t));
    }
    if (t.stage < 2 || (t.stage < 4 && slot_waits(p, slot)))
        return false;
    t.stage--;
    return is_quiet(c, slot, sweep_of(t));
}

/* true: visited again right away, it would say no. */
static bool run_visit(struct inc *c, uint32_t slot, struct prop_time t)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    c->run++;
    load(c, &c->reads, key_of(t));
    p->time = t;
    bool yes = visit_once(p, slot), rests = !yes || is_settled(p, slot);
    if (yes && !is_open(p, i))
        computation_propagation(p, i);
    unload(c, &c->reads);
    return rests;
}

static void put_to_sleep(struct inc *c, uint32_t slot, bool till_next_stage)
{
    uint64_t bit = UINT64_C(1) << (slot & 63);
    c->t->exam[slot >> 6] &= ~bit;
    if (till_next_stage)
        c->t->later[slot >> 6] |= bit;
}

static void wake_all(struct inc *c)
{
    for (size_t w = 0; w < c->p->nslots / 64 + 1; w++) {
        c->t->exam[w] |= c->t->later[w];
        c->t->later[w] = 0;
    }
}

/* A slot that says no at key, and that reads nothing that is written later (what the old history still has to say
 * about its instruction included), need not be looked at before something that it reads changes; c->reads. */
static void sleep_until_changed(struct inc *c, uint32_t slot, uint64_t key)
{
    const struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    if (p->special || p->groups.n || inc_is_edge(p, i))
        return;
    for (uint32_t k = 0; k < c->reads.n; k++)
        if (last_key(new_list(c, c->reads.v[k])) > key)
            return;
    /* Merging begins with stage 1, and some rules with 2 or 3. */
    put_to_sleep(c, slot, key >> 48 < 1 || (key >> 48 < 3 && slot_waits(p, slot)));
}

/* Visited in both histories or in none, reading the same: from here on lists are the old ones, so that it goes on
 * as it did until one that it reads is changed. */
static void go_on_as_before(struct inc *c, uint32_t slot)
{
    const struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    if (!p->special && p->slot_kind[slot] != SLOT_GROUP && at(p, i)->op != OP_PARAMETER && !inc_is_edge(p, i))
        put_to_sleep(c, slot, false);
}

/* The log of a visit of i takes the place of what was written there at that time. */
static void write_visit(struct inc *c, instr_id i, uint64_t key)
{
    if (!c->p->log.n && !inc_written(c, true, i, key, key + 1))
        return;
    inc_list_component(c, &c->touched, i);
    inc_list_add(c, &c->touched, inc_partner(c, i));
    for (uint32_t k = 0; k < c->touched.n; k++)
        inc_replace(c, c->touched.v[k], key, key + 1);
}

static void examine(struct inc *c, uint32_t slot, struct prop_time t)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    if (is_mute(p, slot) || is_nothing(c, slot, t)) {
        if (t.stage >= 3 && t.iteration == 1 && !inc_is_edge(p, i))
            put_to_sleep(c, slot, false);
        return;
    }
    uint64_t key = key_of(t);
    bool in_new = inc_occurs(c, true, slot, t), in_old = inc_occurs(c, false, slot, t);
    if (!in_new && !in_old) {
        inc_list_reads(c, slot, key);
        if (!inputs_differ(c, slot, key))
            go_on_as_before(c, slot);
        return;
    }
    p->log.n = 0;
    bool rests = false;
    if (in_new && in_old && inc_tuple_visit(c, slot, t)) {
        if (p->log.n || inc_written(c, true, i, key, key + 1))
            inc_replace(c, i, key, key + 1);
        return;
    }
    if (in_new) {
        inc_list_reads(c, slot, key);
        bool differ = inputs_differ(c, slot, key);
        if (in_old && !differ) {
            go_on_as_before(c, slot);
            return;
        }
        c->differing += differ || !in_old;
        rests = run_visit(c, slot, t);
    }
    write_visit(c, i, key);
    if (rests)
        sleep_until_changed(c, slot, key);
}

/* ---- sweeps ---------------------------------------------------------------------------------------------- */

static uint32_t next_slot(const struct inc *c, uint32_t from)
{
    uint32_t w = from >> 6, words = (c->p->nslots + 63) >> 6;
    if (w >= words)
        return c->p->nslots;
    uint64_t bits = c->t->exam[w] & (~UINT64_C(0) << (from & 63));
    while (!bits && ++w < words)
        bits = c->t->exam[w];
    return bits ? (w << 6) + (uint32_t)__builtin_ctzll(bits) : c->p->nslots;
}

/* The last sweep of a stage with a write; 0: none. */
static int last_sweep(const uint32_t *count)
{
    int k = SWEEPS_KEPT - 1;
    while (k > 0 && !count[k])
        k--;
    return k;
}

static bool run_stage(struct inc *c, int stage, struct tick *tick)
{
    struct pass *p = c->p;
    const uint32_t *old = c->old->mount->count[stage];
    p->level = stage > LEVEL_LAST ? LEVEL_LAST : stage;
    p->may = p->o.spmd && p->level > 0;
    wake_all(c);
    for (int sweep = 1; sweep <= last_sweep(old) + 1 || sweep <= last_sweep(c->count[stage]) + 1; sweep++) {
        if (sweep >= SWEEPS_KEPT - 1 || c->overflow)
            return false;
        for (uint32_t s = next_slot(c, 1); s < p->nslots; s = next_slot(c, s + 1)) {
            examine(c, s, (struct prop_time){ (uint8_t)stage, (uint16_t)sweep, s, 0 });
            if (!tick_poll(tick, "propagate", s, p->nslots))
                return false;
        }
    }
    return true;
}

/* P-82, before the last fixed point. */
static void run_align(struct inc *c)
{
    struct pass *p = c->p;
    uint64_t key = key_of((struct prop_time){ 4, 0, 0, 0 });
    bool forked = false;
    inc_list_open(c, &c->reads);
    for (int64_t g = 0; g < p->groups.n; g++)
        for (int64_t k = 0; p->groups.v[g].as && k < p->groups.v[g].members.n; k++) {
            inc_list_add(c, &c->reads, p->groups.v[g].members.v[k]);
            forked = forked || c->t->fork_of[p->groups.v[g].members.v[k].i];
        }
    if (!forked)
        return;
    load(c, &c->reads, key);
    p->log.n = 0;
    p->time = (struct prop_time){ 4, 0, 0, 0 };
    align_groups(p);
    unload(c, &c->reads);
    struct id_list all = { arena_copy(c->tmp, c->reads.v, c->reads.n, sizeof(instr_id)), c->reads.n, c->reads.n };
    inc_take_log(c, &all, key, key + 1); /* forks make lists of their own */
}

static bool same_flags(const struct propagation_options *a, const struct propagation_options *b)
{
    return a->nto_output == b->nto_output && a->nto_parameters == b->nto_parameters &&
           memcmp(a->to_output, b->to_output, (size_t)a->nto_output * sizeof *a->to_output) == 0 &&
           memcmp(a->to_parameters, b->to_parameters, (size_t)a->nto_parameters * sizeof *a->to_parameters) == 0;
}

/* P-86 to P-89, on those of root and parameters that the sweeps left otherwise than in the old history; on all where
 * other ones may change. */
static void run_end(struct inc *c)
{
    struct pass *p = c->p;
    const struct computation *entry = comp_at(p->m, p->m->entry);
    struct prop_time t = { 5, 0, 0, 0 };
    bool all = !same_flags(&p->o, &c->old->mount->o);
    inc_list_open(c, &c->reads);
    if (all || c->t->fork_of[entry->root.i])
        inc_list_add(c, &c->reads, entry->root);
    for (uint32_t k = 0; p->any_parameter && k < entry->nparams; k++)
        if (all || c->t->fork_of[entry->params[k].i])
            inc_list_add(c, &c->reads, entry->params[k]);
    for (int64_t k = 0; p->o.cse_only && k < c->forks.n; k++)
        inc_list_add(c, &c->reads, c->forks.v[k].i);
    load(c, &c->reads, key_of(t));
    p->log.n = 0;
    p->time = t;
    p->told = all ? NULL : c->t->fork_of;
    restore_boundary(p, &c->reads);
    p->told = NULL;
    unload(c, &c->reads);
    struct id_list list = { arena_copy(c->tmp, c->reads.v, c->reads.n, sizeof(instr_id)), c->reads.n, c->reads.n };
    inc_take_log(c, &list, key_of(t), UINT64_MAX); /* forks make lists of their own */
}

/* ---- the result ------------------------------------------------------------------------------------------- */

static int by_instr(const void *a, const void *b)
{
    const struct fork *x = a, *y = b;
    return x->i.i < y->i.i ? -1 : x->i.i > y->i.i;
}

/* Old pages, and those in which something was forked anew. */
static void assemble(struct inc *c, struct propagation *out)
{
    struct history_list lists[HISTORY_PAGE];
    if (c->forks.n > 1)
        qsort(c->forks.v, (size_t)c->forks.n, sizeof *c->forks.v, by_instr);
    history_share(out, c->old);
    for (int64_t k = 0; k < c->forks.n;) {
        uint32_t page = c->forks.v[k].i.i / HISTORY_PAGE, n = 0;
        for (; k < c->forks.n && c->forks.v[k].i.i / HISTORY_PAGE == page; k++) {
            const struct fork *f = &c->forks.v[k];
            lists[n++] = (struct history_list){ f->i, f->list.v, (uint32_t)f->list.n };
        }
        history_replace(out, n, lists);
    }
}

static void finals(struct inc *c, struct propagation *out)
{
    out->final = arena_copy(&out->arena, c->old->final, (int64_t)c->p->n + 1, sizeof *out->final);
    for (int64_t k = 0; k < c->forks.n; k++) {
        const struct fork *f = &c->forks.v[k];
        struct prop_writes s = { f->list.v, (uint32_t)f->list.n };
        out->final[f->i.i] = fold(c, s, s.n);
    }
    for (int64_t k = 0; k < c->unseen.n; k++)
        out->final[c->unseen.v[k].i.i] = c->unseen.v[k].s;
}

static bool same_frame(const struct pass *p, const struct propagation *old, const struct propagation_options *o)
{
    bool out = false, par = false;
    for (int64_t k = 0; k < o->nto_output; k++)
        out = out || o->to_output[k];
    for (int64_t k = 0; k < o->nto_parameters; k++)
        par = par || o->to_parameters[k];
    return !o->none && !p->o.none && o->cse_only == p->o.cse_only && o->propagate_metadata == p->o.propagate_metadata &&
           o->spmd == p->o.spmd && !o->nthreads && !p->o.nthreads && out == p->any_out && par == p->any_parameter &&
           !old->mount->uncounted;
}

static bool any_metadata(const struct inc *c, const struct propagation *out)
{
    for (uint32_t k = 1; k <= c->p->n; k++)
        if (prop_given(out, (instr_id){ k }).i && metadata_changes(c->p, (instr_id){ k }))
            return true;
    return false;
}

static bool work(struct inc *c, struct propagation *out, int n, const struct prop_edit *edits,
                 const struct propagation_options *o, struct tick *tick)
{
    struct pass *p = c->p;
    struct arena *a = &out->arena;
    struct mount *m = ARENA_NEW(a, struct mount);
    uint32_t size = p->n + 1;
    out->mount = m;
    out->provided = p->provided = arena_copy(a, c->old_provided, size, sizeof *p->provided);
    if (p->saved_parameter)
        p->saved_parameter = arena_copy(a, p->saved_parameter, comp_at(p->m, p->m->entry)->nparams, sizeof *p->saved_parameter);
    if (p->saved_cse)
        p->saved_cse = arena_copy(a, p->saved_cse, size, sizeof *p->saved_cse);
    options_own(p, a, o);
    p->now = c->t->now;
    for (uint32_t k = 0; increment_poison && k < size; k++)
        p->now[k].i = increment_poison;
    memcpy(c->count, c->old->mount->count, sizeof c->count);
    out->last = c->last = arena_copy(a, c->old->last, size, sizeof *c->last);
    if (!inc_edit(c, n, edits))
        return false;
    for (uint32_t k = 0; increment_poison && k < size; k++)
        p->now[k].i = increment_poison;
    for (int stage = 0; stage < STAGES; stage++) {
        if (stage == 4)
            run_align(c);
        if (!run_stage(c, stage, tick))
            return false;
    }
    run_end(c);
    if (c->overflow)
        return false;
    assemble(c, out);
    finals(c, out);
    memcpy(m->count, c->count, sizeof c->count);
    m->setup_changed = c->old->mount->setup_changed;
    m->metadata_changed = p->o.propagate_metadata ? any_metadata(c, out) : c->old->mount->metadata_changed;
    out->changed = m->setup_changed || m->metadata_changed;
    for (int stage = 0; stage < STAGES; stage++) {
        out->iterations += last_sweep(c->count[stage]) + 1;
        out->changed = out->changed || last_sweep(c->count[stage]) > 0;
    }
    out->visits = c->run;
    out->differing = c->differing;
    mount_save(p, out);
    return true;
}

static void empty_tables(struct inc *c)
{
    for (int64_t k = 0; k < c->forks.n; k++)
        c->t->fork_of[c->forks.v[k].i.i] = 0;
    for (int64_t k = 0; k < c->cached.n; k++)
        c->t->cached_of[c->cached.v[k].i.i] = 0;
    memset(c->t->exam, 0, (c->p->nslots / 64 + 1) * sizeof *c->t->exam);
    memset(c->t->later, 0, (c->p->nslots / 64 + 1) * sizeof *c->t->later);
}

static void leave(struct inc *c)
{
    struct pass *p = c->p;
    p->increment = false;
    p->told = NULL;
    p->tmp = NULL;
    p->tick = NULL;
    p->draft = none_instr();
    p->log.v = NULL;
    p->log.n = p->log.cap = 0;
    p->trial = 0;
    p->mounted = NULL;
    (void)pass_mount(c->old);
}

struct propagation *propagate_increment(const struct propagation *old, int n, const struct prop_edit *edits,
                                        const struct propagation_options *o, struct tick *tick)
{
    struct pass *p = pass_mount(old);
    if (!p->slot_instr || !same_frame(p, old, o) || !inc_fits(p))
        return NULL;
    struct arena own = { 0 };
    struct propagation *out = ARENA_NEW(&own, struct propagation);
    out->arena = own;
    out->root = old->root;
    out->root->refs++;
    out->graph = old->graph;
    out->state = p;
    out->open = old->open;
    struct inc c = { .p = p, .old = old, .old_provided = old->provided };
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        inc_tables_free(p); /* what they point to went with the arena */
        leave(&c);
        propagation_free(out);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    c.tmp = p->tmp = &tmp;
    if (!p->inc)
        inc_tables_make(p);
    c.t = p->inc;
    if (c.t->stamp > UINT32_MAX / 2) {
        memset(c.t->mark, 0, ((size_t)p->n + 1) * sizeof *c.t->mark);
        c.t->stamp = 0;
    }
    p->increment = true;
    p->look.stamp = NULL;
    p->log.v = NULL;
    p->log.n = p->log.cap = 0;
    bool ok = work(&c, out, n, edits, o, tick);
    empty_tables(&c);
    leave(&c);
    arena_close(&tmp);
    fail_leave(&f);
    if (ok)
        return out;
    propagation_free(out);
    return NULL;
}
