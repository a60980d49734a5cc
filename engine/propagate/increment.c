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
 * Not incremental (NULL, the caller propagates from scratch): barriers of shard groups, a Sharding call that
 * would turn from or to unknown, devices of loops (P-72), edits of what inlining or a conditional's canonical
 * form took away; metadata, cse_only. */
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

struct fork *inc_fork(struct inc *c, instr_id i, uint64_t key)
{
    if (!c->fork_of[i.i]) {
        struct span_of s = old_list(c, i);
        struct fork f = { .i = i };
        f.list.n = s.n;
        f.list.cap = (int64_t)s.n + 2;
        f.list.v = ARENA_ARRAY(c->tmp, struct prop_write, f.list.cap);
        if (s.n)
            memcpy(f.list.v, s.v, s.n * sizeof *s.v);
        vec_push(c->tmp, &c->forks, f);
        c->fork_of[i.i] = (uint32_t)c->forks.n;
        inc_examine_readers(c, i, key);
    }
    return &c->forks.v[c->fork_of[i.i] - 1];
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

void inc_replace(struct inc *c, instr_id i, uint64_t from_key, uint64_t to_key)
{
    const struct pass *p = c->p;
    struct span_of now = new_list(c, i);
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
    struct fork *f = inc_fork(c, i, from_key);
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
static bool same_part(struct inc *c, uint32_t slot, instr_id tuple, uint64_t key)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    bool forward = p->slot_kind[slot] == SLOT_FORWARD;
    if (p->slot_kind[slot] == SLOT_GROUP || p->open[i.i])
        return false;
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

static bool inputs_differ(struct inc *c, uint32_t slot, uint64_t key)
{
    for (uint32_t k = 0; k < c->reads.n; k++) {
        instr_id r = c->reads.v[k];
        if (c->p->provided[r.i] != c->old_provided[r.i])
            return true;
        if (!same_before(c, r, key) && !(is_tuple(c->p, r) && same_part(c, slot, r, key)))
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

static void run_visit(struct inc *c, uint32_t slot, struct prop_time t)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    c->run++;
    load(c, &c->reads, key_of(t));
    p->time = t;
    bool yes = visit_once(p, slot);
    if (yes && !is_open(p, i))
        computation_propagation(p, i);
    unload(c, &c->reads);
}

static void examine(struct inc *c, uint32_t slot, struct prop_time t)
{
    struct pass *p = c->p;
    instr_id i = p->slot_instr[slot];
    if (is_nothing(c, slot, t))
        return;
    uint64_t key = key_of(t);
    bool in_new = inc_occurs(c, true, slot, t), in_old = inc_occurs(c, false, slot, t);
    if (!in_new && !in_old)
        return;
    p->log.n = 0;
    if (in_new) {
        inc_list_reads(c, slot, key);
        bool differ = inputs_differ(c, slot, key);
        if (in_old && !differ)
            return;
        c->differing += differ || !in_old;
        run_visit(c, slot, t);
    }
    if (!p->log.n && !inc_written(c, true, i, key, key + 1))
        return;
    inc_list_component(c, &c->touched, i);
    inc_list_add(c, &c->touched, inc_partner(c, i));
    for (uint32_t k = 0; k < c->touched.n; k++)
        inc_replace(c, c->touched.v[k], key, key + 1);
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
            forked = forked || c->fork_of[p->groups.v[g].members.v[k].i];
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
    struct id_list all = { arena_copy(c->tmp, c->reads.v, c->reads.n, sizeof(instr_id)), c->reads.n, c->reads.n };
    inc_take_log(c, &all, key_of(t), UINT64_MAX); /* forks make lists of their own */
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

static bool same_frame(const struct pass *p, const struct propagation *old, const struct propagation_options *o)
{
    bool out = false, par = false;
    for (int64_t k = 0; k < o->nto_output; k++)
        out = out || o->to_output[k];
    for (int64_t k = 0; k < o->nto_parameters; k++)
        par = par || o->to_parameters[k];
    return !o->none && !p->o.none && !o->cse_only && !p->o.cse_only && !o->propagate_metadata && !p->o.propagate_metadata &&
           o->spmd == p->o.spmd && !o->nthreads && !p->o.nthreads && out == p->any_out && par == p->any_parameter &&
           !old->mount->uncounted;
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
        leave(&c);
        propagation_free(out);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    c.tmp = p->tmp = &tmp;
    inc_tables(p);
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
