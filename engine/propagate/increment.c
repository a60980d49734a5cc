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
 * Not incremental (NULL, the caller propagates from scratch): annotations with open dimensions, shard
 * groups, conversions between manual and automatic; edits of what the steps before the first sweep look
 * at (operands of Sharding calls, loops and what they call); metadata, cse_only. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "propagate/increment.h"

uint32_t increment_poison; /* tests: what a value holds that was not loaded */

/* ---- values ------------------------------------------------------------------------------------------- */

/* What the first n writes of a list leave. */
static sharding_id fold(const struct inc *c, struct span_of s, uint32_t n)
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

/* i's sharding as a visit at time key sees it, in the old history or in the new one. Time only moves on,
 * so what is before key stays as it is. */
static sharding_id value_before(struct inc *c, instr_id i, bool new, uint64_t key)
{
    struct span_of s = new ? new_list(c, i) : old_list(c, i);
    uint32_t n = before(s, key);
    if (!n || s.v[n - 1].leaf < 0)
        return n ? s.v[n - 1].after : none();
    new = new && c->fork_of[i.i];
    if (!c->cached_of[i.i]) {
        vec_push(c->tmp, &c->cached, (struct cached){ 0 });
        c->cached_of[i.i] = (uint32_t)c->cached.n;
    }
    struct cached *known = &c->cached.v[c->cached_of[i.i] - 1];
    if (known->n[new] != n) {
        known->value[new] = fold(c, s, n);
        known->n[new] = n;
    }
    return known->value[new];
}

static bool same_before(const struct inc *c, instr_id i, uint64_t key)
{
    if (!c->fork_of[i.i])
        return true;
    struct span_of a = old_list(c, i), b = new_list(c, i);
    uint32_t na = before(a, key), nb = before(b, key);
    if (!na || !nb)
        return na == nb;
    const struct prop_write *x = &a.v[na - 1], *y = &b.v[nb - 1];
    if (x->leaf < 0 && y->leaf < 0)
        return x->after.i == y->after.i;
    if (na != nb)
        return false;
    for (uint32_t k = na; k > 0; k--) { /* leaf by leaf, back to the last write of the whole */
        x = &a.v[k - 1];
        y = &b.v[k - 1];
        if (x->leaf != y->leaf || x->after.i != y->after.i)
            return false;
        if (x->leaf < 0)
            break;
    }
    return true;
}

/* ---- forks -------------------------------------------------------------------------------------------- */

static struct fork *fork_at(struct inc *c, instr_id i, uint64_t key)
{
    if (!c->fork_of[i.i]) {
        struct span_of s = old_list(c, i);
        struct fork f = { .i = i };
        for (uint32_t k = 0; k < s.n; k++)
            vec_push(c->tmp, &f.list, s.v[k]);
        vec_push(c->tmp, &c->forks, f);
        c->fork_of[i.i] = (uint32_t)c->forks.n;
        inc_examine_readers(c, i, key);
    }
    return &c->forks.v[c->fork_of[i.i] - 1];
}

/* ---- occurrence ---------------------------------------------------------------------------------------- */

/* Something was written on i at or after `from`, before `to`. */
static bool written_between(struct span_of s, uint64_t from, uint64_t to)
{
    return before(s, from) < before(s, to);
}

static bool any_written(const struct inc *c, bool new, uint32_t n, const instr_id *v, uint64_t from, uint64_t to)
{
    for (uint32_t k = 0; k < n; k++)
        if (written_between(new ? new_list(c, v[k]) : old_list(c, v[k]), from, to))
            return true;
    return false;
}

/* Whether slot s of i is visited at time t: its bit was set since its turn in the sweep before. */
static bool occurs(const struct inc *c, bool new, instr_id i, bool forward, struct prop_time t)
{
    const struct pass *p = c->p;
    if (new ? p->provided[i.i] : c->old_provided[i.i])
        return false;
    if (t.iteration == 1)
        return true;
    uint64_t to = key_of(t);
    t.iteration--;
    uint64_t from = key_of(t);
    if (!forward)
        return any_written(c, new, users_count(p->users, i), users_of(p->users, i), from, to);
    const struct instr *ins = at(p, i);
    if (any_written(c, new, ins->noperands, ins->operands, from, to))
        return true;
    if (ins->op != OP_PARAMETER)
        return false;
    for (uint32_t k = p->callers_first[ins->comp.i]; k < p->callers_first[ins->comp.i + 1]; k++) {
        const struct instr *caller = at(p, p->callers[k]);
        if (any_written(c, new, caller->noperands, caller->operands, from, to))
            return true;
    }
    return false;
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
    return time_compare(a->time, b->time, true) == 0 && a->rule == b->rule && a->leaf == b->leaf &&
           a->cause.i == b->cause.i && a->before.i == b->before.i && a->after.i == b->after.i;
}

/* Puts those of the log that are i's in place of what the new history has for i at time key. */
static void replace_writes(struct inc *c, instr_id i, uint64_t key, struct prop_time t)
{
    const struct pass *p = c->p;
    struct span_of now = new_list(c, i);
    uint32_t from = before(now, key), to = before(now, key + 1), k = from;
    bool same = true;
    int64_t n = 0;
    for (int64_t j = 0; j < p->log.n; j++) {
        if (p->log.v[j].instr.i != i.i)
            continue;
        same = same && k < to && same_write(&now.v[k], &p->log.v[j].write);
        k++;
        n++;
    }
    if (same && k == to)
        return;
    struct fork *f = fork_at(c, i, key);
    count_writes(c, t, n - (int64_t)(to - from));
    VEC(struct prop_write) list = { 0 };
    for (k = 0; k < from; k++)
        vec_push(c->tmp, &list, f->list.v[k]);
    for (int64_t j = 0; j < p->log.n; j++)
        if (p->log.v[j].instr.i == i.i)
            vec_push(c->tmp, &list, p->log.v[j].write);
    for (k = to; k < (uint32_t)f->list.n; k++)
        vec_push(c->tmp, &list, f->list.v[k]);
    f->list.v = list.v;
    f->list.n = list.n;
    f->list.cap = list.cap;
}

static void load(struct inc *c, const struct id_list *l, uint64_t key)
{
    for (uint32_t k = 0; k < l->n; k++)
        c->p->now[l->v[k].i] = value_before(c, l->v[k], true, key);
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
static bool same_part(struct inc *c, instr_id i, bool forward, instr_id tuple, uint64_t key)
{
    struct pass *p = c->p;
    if (inc_is_edge(p, i) || tuple.i == i.i || p->any_manual)
        return false;
    sharding_id a = value_before(c, tuple, false, key), b = value_before(c, tuple, true, key);
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

static bool inputs_differ(struct inc *c, instr_id i, bool forward, uint64_t key)
{
    for (uint32_t k = 0; k < c->reads.n; k++) {
        instr_id r = c->reads.v[k];
        if (c->p->provided[r.i] != c->old_provided[r.i])
            return true;
        if (!same_before(c, r, key) && !(is_tuple(c->p, r) && same_part(c, i, forward, r, key)))
            return true;
    }
    return false;
}

static void examine(struct inc *c, uint32_t slot, struct prop_time t)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    bool forward = p->slot_kind[slot] == SLOT_FORWARD;
    uint64_t key = key_of(t);
    bool in_new = occurs(c, true, i, forward, t), in_old = occurs(c, false, i, forward, t);
    if (!in_new && !in_old)
        return;
    p->log.n = 0;
    if (in_new) {
        inc_list_reads(c, i, forward, key);
        bool differ = inputs_differ(c, i, forward, key);
        if (in_old && !differ)
            return;
        c->differing += differ || !in_old;
        c->run++;
        load(c, &c->reads, key);
        p->time = t;
        p->rule = forward ? RULE_FORWARD : RULE_BACKWARD;
        bool yes = forward ? visit_forward(p, i) : visit_backward(p, i);
        put_leaves(p);
        if (yes)
            computation_propagation(p, i);
        unload(c, &c->reads);
    }
    if (!p->log.n && !written_between(new_list(c, i), key, key + 1))
        return;
    inc_list_component(c, &c->touched, i);
    for (uint32_t k = 0; k < c->touched.n; k++)
        replace_writes(c, c->touched.v[k], key, t);
}

/* ---- sweeps ---------------------------------------------------------------------------------------------- */

static uint32_t next_slot(const struct inc *c, uint32_t from)
{
    uint32_t w = from >> 6, words = (c->p->nslots + 63) >> 6;
    if (w >= words)
        return c->p->nslots;
    uint64_t bits = c->exam[w] & (~UINT64_C(0) << (from & 63));
    while (!bits && ++w < words)
        bits = c->exam[w];
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

/* P-86 to P-89, on root and parameters as the sweeps left them. */
static void run_end(struct inc *c)
{
    struct pass *p = c->p;
    const struct computation *entry = comp_at(p->m, p->m->entry);
    struct prop_time t = { 5, 0, 0, 0 };
    inc_list_open(c, &c->reads);
    inc_list_add(c, &c->reads, entry->root);
    for (uint32_t k = 0; k < entry->nparams; k++)
        inc_list_add(c, &c->reads, entry->params[k]);
    load(c, &c->reads, key_of(t));
    p->log.n = 0;
    p->time = t;
    restore_boundary(p);
    unload(c, &c->reads);
    struct id_list all = c->reads; /* forks make lists of their own */
    for (uint32_t k = 0; k < all.n; k++)
        replace_writes(c, all.v[k], key_of(t), t);
}

/* ---- the edit ---------------------------------------------------------------------------------------------- */

/* What the steps before the first sweep wrote on i. */
static uint32_t setup_writes(const struct inc *c, instr_id i)
{
    return before(old_list(c, i), key_of((struct prop_time){ 0, 1, 0, 0 }));
}

static bool is_given(const struct prop_write *w)
{
    return w->rule == RULE_ANNOTATION && !w->cause.i && w->leaf < 0 && !w->before.i;
}

static bool plain(const struct pass *p, sharding_id s)
{
    return !s.i || (!sharding_has_manual(p->t, s) && sharding_is_spatial(p->t, s) &&
                    (sharding_get(p->t, s)->kind == SHARDING_TILED || sharding_is_replicated(p->t, s)));
}

/* Whether the steps before the first sweep do nothing with i but take its sharding down. */
static bool editable(const struct inc *c, instr_id i, sharding_id was, sharding_id is)
{
    const struct pass *p = c->p;
    const struct instr *ins = at(p, i);
    uint32_t n = setup_writes(c, i);
    if (shape_of(p, i)->kind != SHAPE_ARRAY || p->bound[i.i] || inc_is_edge(p, i) || ins->op == OP_CUSTOM_CALL ||
        ins->op == OP_SEND || ins->op == OP_RECV || !plain(p, was) || !plain(p, is) || n > 1)
        return false;
    if ((ins->op == OP_PARAMETER || fact_of(p, i)->root) && ins->comp.i != p->m->entry.i)
        return false;
    if (n == 0)
        return !was.i;
    return is_given(&old_list(c, i).v[0]) && old_list(c, i).v[0].after.i == was.i;
}

static bool provided_by(const struct pass *p, instr_id i, bool has)
{
    if (fact_of(p, i)->gone)
        return false;
    if (fact_of(p, i)->root && at(p, i)->comp.i == p->m->entry.i)
        return !p->any_out;
    if (at(p, i)->op == OP_PARAMETER)
        return !p->any_parameter && has;
    return has;
}

static void set_given(struct inc *c, instr_id i, sharding_id s)
{
    struct pass *p = c->p;
    struct fork *f = fork_at(c, i, 0);
    uint32_t had = setup_writes(c, i);
    struct prop_write w = { .rule = RULE_ANNOTATION, .leaf = -1, .after = s };
    VEC(struct prop_write) list = { 0 };
    if (s.i && had)
        w.time = f->list.v[0].time;
    if (s.i)
        vec_push(c->tmp, &list, w);
    for (uint32_t k = had; k < (uint32_t)f->list.n; k++)
        vec_push(c->tmp, &list, f->list.v[k]);
    f->list.v = list.v;
    f->list.n = list.n;
    f->list.cap = list.cap;
    p->provided[i.i] = provided_by(p, i, s.i != 0);
    const struct computation *entry = comp_at(p->m, p->m->entry);
    for (uint32_t k = 0; p->saved_parameter && k < entry->nparams; k++)
        if (entry->params[k].i == i.i)
            p->saved_parameter[k] = s;
}

/* The order of the writes before the first sweep: those given by instruction, then the others. */
static void edit_setup(struct arena *a, struct setup_list *l, const struct setup_list *old, instr_id i, bool has)
{
    struct setup_entry *v = ARENA_ARRAY(a, struct setup_entry, (int64_t)old->n + 1);
    uint32_t n = 0;
    bool placed = !has;
    for (uint32_t k = 0; k < old->n; k++) {
        struct setup_entry e = old->v[k];
        if (!placed && (!e.given || e.instr.i >= i.i)) {
            v[n++] = (struct setup_entry){ i, true };
            placed = true;
        }
        if (!e.given || e.instr.i != i.i)
            v[n++] = e;
    }
    if (!placed)
        v[n++] = (struct setup_entry){ i, true };
    *l = (struct setup_list){ v, n };
}

/* false: it cannot be made on this graph. */
static bool make_edit(struct inc *c, instr_id i, const struct prop_edit *e, struct setup_list *setup, struct arena *a)
{
    if (c->p->g->origin[i.i].source.i != e->loaded.i || c->fork_of[i.i] || !editable(c, i, e->was, e->is) ||
        c->old_provided[i.i] != provided_by(c->p, i, e->was.i != 0))
        return false;
    struct setup_list now = *setup;
    set_given(c, i, e->is);
    edit_setup(a, setup, &now, i, e->is.i != 0);
    return true;
}

/* All that stand for the edited ones: also in computations that were inlined everywhere, which stand
 * there still though no pass looks at them. */
static bool make_edits(struct inc *c, int n, const struct prop_edit *edits, struct setup_list *setup, struct arena *a)
{
    const struct graph *g = c->p->g;
    struct map edit_of;
    map_init(&edit_of, c->tmp);
    for (int e = 0; e < n; e++) {
        uint32_t from = g->start[edits[e].loaded.i], to = g->start[edits[e].loaded.i + 1];
        if (from == to)
            return false;
        for (uint32_t k = from; k < to; k++)
            if (g->origin[g->list[k].i].source.i != edits[e].loaded.i)
                return false; /* something else stands for it */
        map_put(&edit_of, edits[e].loaded.i, (uint64_t)e);
    }
    for (uint32_t k = 1; k <= c->p->n; k++) {
        uint64_t e = 0;
        uint32_t source = g->origin[k].source.i;
        bool near = n == 1 ? source == edits[0].loaded.i : source && map_get(&edit_of, source, &e);
        if (!near)
            continue;
        const struct prop_edit *edit = &edits[n == 1 ? 0 : e];
        if (at(c->p, (instr_id){ k })->flags & INSTR_REMOVED)
            vec_push(c->tmp, &c->unseen, ((struct unseen){ { k }, edit->is }));
        else if (!make_edit(c, (instr_id){ k }, edit, setup, a))
            return false;
    }
    return setup->n < UINT16_MAX;
}

/* ---- the result ------------------------------------------------------------------------------------------- */

static int by_instr(const void *a, const void *b)
{
    const struct fork *x = a, *y = b;
    return x->i.i < y->i.i ? -1 : x->i.i > y->i.i;
}

/* Old lists, and in their places the forked ones. */
static void assemble(struct inc *c, struct propagation *out)
{
    const struct propagation *old = c->old;
    uint32_t n = c->p->n, total = old->nwrites, from = 1, at_ = 0;
    struct arena *a = &out->arena;
    for (int64_t k = 0; k < c->forks.n; k++)
        total = total - old_list(c, c->forks.v[k].i).n + (uint32_t)c->forks.v[k].list.n;
    if (c->forks.n > 1)
        qsort(c->forks.v, (size_t)c->forks.n, sizeof *c->forks.v, by_instr);
    out->first = ARENA_ARRAY(a, uint32_t, (int64_t)n + 2);
    out->writes = ARENA_ARRAY(a, struct prop_write, (int64_t)total + 1);
    out->nwrites = total;
    for (int64_t k = 0; k <= c->forks.n; k++) {
        uint32_t to = k < c->forks.n ? c->forks.v[k].i.i : n + 1, base = old->first[from];
        uint32_t count = old->first[to] - base;
        for (uint32_t i = from; i < to; i++)
            out->first[i] = old->first[i] - base + at_;
        memcpy(out->writes + at_, old->writes + base, count * sizeof *out->writes);
        at_ += count;
        if (k == c->forks.n)
            break;
        const struct fork *f = &c->forks.v[k];
        out->first[to] = at_;
        if (f->list.n)
            memcpy(out->writes + at_, f->list.v, (size_t)f->list.n * sizeof *out->writes);
        at_ += (uint32_t)f->list.n;
        from = to + 1;
    }
    out->first[n + 1] = at_;
}

/* Numbers of the writes before the first sweep. */
static void renumber(struct inc *c, struct propagation *out, const struct setup_list *setup)
{
    struct map met;
    map_init(&met, c->tmp);
    for (uint32_t k = 0; k < setup->n; k++) {
        instr_id i = setup->v[k].instr;
        uint64_t nth = 0;
        (void)map_get(&met, i.i, &nth);
        out->writes[out->first[i.i] + nth].time.seq = (uint16_t)k;
        map_put(&met, i.i, nth + 1);
    }
}

static void finals(struct inc *c, struct propagation *out)
{
    out->final = arena_copy(&out->arena, c->old->final, (int64_t)c->p->n + 1, sizeof *out->final);
    for (int64_t k = 0; k < c->forks.n; k++) {
        const struct fork *f = &c->forks.v[k];
        struct span_of s = { f->list.v, (uint32_t)f->list.n };
        out->final[f->i.i] = fold(c, s, s.n);
    }
    for (int64_t k = 0; k < c->unseen.n; k++)
        out->final[c->unseen.v[k].i.i] = c->unseen.v[k].s;
}

static void find_callers(struct pass *p)
{
    if (p->callers_first)
        return;
    VEC(instr_id) callers = { 0 };
    VEC(uint32_t) comps = { 0 };
    for (uint32_t k = 1; k <= p->n; k++) {
        comp_id list[16];
        int n = p->facts[k].gone ? 0 : instr_called(p->m, (instr_id){ k }, list, (int)COUNTOF(list));
        comp_id *all = list;
        if (n > (int)COUNTOF(list)) {
            all = ARENA_ARRAY(p->tmp, comp_id, n);
            instr_called(p->m, (instr_id){ k }, all, n);
        }
        for (int j = 0; j < n; j++) {
            vec_push(p->tmp, &callers, ((instr_id){ k }));
            vec_push(p->tmp, &comps, all[j].i);
        }
    }
    uint32_t nc = module_ncomps(p->m);
    uint32_t *first = ARENA_ARRAY(p->arena, uint32_t, (int64_t)nc + 2);
    p->callers = ARENA_ARRAY(p->arena, instr_id, callers.n + 1);
    for (int64_t k = 0; k < comps.n; k++)
        first[comps.v[k] + 1]++;
    for (uint32_t k = 1; k <= nc + 1; k++)
        first[k] += first[k - 1];
    uint32_t *next = arena_copy(p->tmp, first, (int64_t)nc + 2, sizeof *next);
    for (int64_t k = 0; k < comps.n; k++)
        p->callers[next[comps.v[k]]++] = callers.v[k];
    p->callers_first = first;
}

static bool same_frame(const struct pass *p, const struct propagation *old, const struct propagation_options *o)
{
    bool out = false, par = false;
    for (int64_t k = 0; k < o->nto_output; k++)
        out = out || o->to_output[k];
    for (int64_t k = 0; k < o->nto_parameters; k++)
        par = par || o->to_parameters[k];
    return !o->none && !p->o.none && !o->cse_only && !p->o.cse_only && !o->propagate_metadata && !p->o.propagate_metadata &&
           o->spmd == p->o.spmd && !o->nthreads && !p->o.nthreads && out == p->any_out && par == p->any_parameter &&
           !p->groups.n && !p->special && !old->mount->uncounted;
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
    options_own(p, a, o);
    p->now = ARENA_ARRAY(c->tmp, sharding_id, size);
    for (uint32_t k = 0; increment_poison && k < size; k++)
        p->now[k].i = increment_poison;
    find_callers(p);
    m->setup = c->old->mount->setup;
    memcpy(c->count, c->old->mount->count, sizeof c->count);
    if (!make_edits(c, n, edits, &m->setup, a))
        return false;
    struct id_list root = { 0 };
    inc_list_open(c, &root);
    inc_list_add(c, &root, comp_at(p->m, p->m->entry)->root);
    load(c, &root, key_of((struct prop_time){ 0, 1, 0, 0 }));
    if ((o->nto_output != c->old->mount->o.nto_output || o->nto_parameters != c->old->mount->o.nto_parameters) &&
        (inc_is_edge(p, root.v[0]) || !options_fit(p)))
        return false;
    unload(c, &root);
    for (int stage = 0; stage < STAGES; stage++)
        if (!run_stage(c, stage, tick))
            return false;
    run_end(c);
    if (c->overflow)
        return false;
    assemble(c, out);
    renumber(c, out, &m->setup);
    finals(c, out);
    memcpy(m->count, c->count, sizeof c->count);
    m->setup_changed = c->old->mount->setup_changed;
    out->changed = m->setup_changed;
    for (int stage = 0; stage < STAGES; stage++) {
        out->iterations += last_sweep(c->count[stage]) + 1;
        out->changed = out->changed || last_sweep(c->count[stage]) > 0;
    }
    out->visits = c->run;
    out->differing = c->differing;
    mount_save(p, out);
    return true;
}

static void leave(struct inc *c)
{
    struct pass *p = c->p;
    p->increment = false;
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
    if (!p->slot_instr || !same_frame(p, old, o))
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
        leave(&c);
        propagation_free(out);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    c.tmp = p->tmp = &tmp;
    p->increment = true;
    p->look.stamp = NULL;
    p->log.v = NULL;
    p->log.n = p->log.cap = 0;
    c.fork_of = ARENA_ARRAY(&tmp, uint32_t, (int64_t)p->n + 1);
    c.cached_of = ARENA_ARRAY(&tmp, uint32_t, (int64_t)p->n + 1);
    c.mark = ARENA_ARRAY(&tmp, uint32_t, (int64_t)p->n + 1);
    c.exam = ARENA_ARRAY(&tmp, uint64_t, p->nslots / 64 + 1);
    bool ok = work(&c, out, n, edits, o, tick);
    leave(&c);
    arena_close(&tmp);
    fail_leave(&f);
    if (ok)
        return out;
    propagation_free(out);
    return NULL;
}
