/* Inside the increments: the two histories, and which slots read what. */
#ifndef GSPMD_PROPAGATE_INCREMENT_H
#define GSPMD_PROPAGATE_INCREMENT_H

#include "propagate/internal.h"

struct fork {
    instr_id i;
    VEC(struct prop_write) list;
};

/* Tables by instruction or slot that every increment of a graph uses: empty in between, so that a small edit does
 * not pay for the size of the model. */
struct inc_tables {
    sharding_id *now;
    uint32_t *fork_of;   /* by instruction: fork + 1 */
    uint32_t *cached_of; /* by instruction: entry + 1 */
    uint32_t *mark, stamp; /* members of the list in the making */
    uint64_t *exam;      /* by slot: reads what was forked */
    uint32_t hints[2][2]; /* by history: where the last searches in a long list ended */
    uint64_t *later;     /* by slot: to be looked at when the next stage starts */
    size_t bytes;        /* of all of them: one block */
};

/* Values of tuples are put together from leaves: the last one of each history. */
struct cached {
    instr_id i;
    uint32_t n[2]; /* writes that it is made of */
    sharding_id value[2];
};

/* What was removed before the pass keeps what its text says. */
struct unseen {
    instr_id i;
    sharding_id s;
};

struct inc {
    struct pass *p;
    const struct propagation *old;
    const bool *old_provided;
    struct arena *tmp;
    struct inc_tables *t;
    VEC(struct fork) forks;
    VEC(struct cached) cached;
    VEC(struct unseen) unseen;
    uint16_t *last; /* by instruction: sweep of its last write in either history, or later */
    uint32_t count[STAGES][SWEEPS_KEPT];
    struct id_list reads, touched;
    int64_t run, differing;
    bool overflow; /* more sweeps than are kept count of */
};

static inline uint64_t key_of(struct prop_time t)
{
    return (uint64_t)t.stage << 48 | (uint64_t)t.iteration << 32 | t.slot;
}

static inline struct prop_writes old_list(const struct inc *c, instr_id i)
{
    return prop_writes(c->old, i);
}

static inline struct prop_writes new_list(const struct inc *c, instr_id i)
{
    uint32_t k = c->t->fork_of[i.i];
    if (!k)
        return old_list(c, i);
    return (struct prop_writes){ c->forks.v[k - 1].list.v, (uint32_t)c->forks.v[k - 1].list.n };
}

/* Writes before time key. */
static inline uint32_t before(struct prop_writes s, uint64_t key)
{
    uint32_t lo = 0, hi = s.n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (key_of(s.v[mid].time) < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The same in a list of thousands (a wide tuple's), which is asked about the same few times over and over. */
static inline uint32_t before_again(struct prop_writes s, uint64_t key, uint32_t *hint)
{
    uint32_t k = *hint;
    if (s.n < 256)
        return before(s, key);
    if (k > s.n || (k > 0 && key_of(s.v[k - 1].time) >= key) || (k < s.n && key_of(s.v[k].time) < key))
        *hint = k = before(s, key);
    return k;
}

static inline uint64_t last_key(struct prop_writes s)
{
    return s.n ? key_of(s.v[s.n - 1].time) : 0;
}

/* Whether one of them is at times [from, to). The last one tells, mostly. */
static inline bool any_within(struct prop_writes s, uint64_t from, uint64_t to)
{
    uint64_t last = last_key(s);
    if (!s.n || last < from || last < to)
        return s.n && last >= from;
    uint32_t k = before(s, to);
    return k > 0 && key_of(s.v[k - 1].time) >= from;
}

/* Lists without duplicates; one is in the making at a time. */
void inc_list_open(struct inc *c, struct id_list *l);
void inc_list_add(struct inc *c, struct id_list *l, instr_id i);
/* P-81 goes through it. */
bool inc_is_edge(const struct pass *p, instr_id i);
/* i and what P-81 writes and reads at a visit of i. */
void inc_list_component(struct inc *c, struct id_list *l, instr_id i);
/* All that the visit of a slot at time key reads, in either history: c->reads. */
void inc_list_reads(struct inc *c, uint32_t slot, uint64_t key);
/* What a visit of i writes that P-137 pairs it with; none. */
instr_id inc_partner(const struct inc *c, instr_id i);

/* Whether a slot is visited at time t. occurs.c */
bool inc_occurs(struct inc *c, bool new, uint32_t slot, struct prop_time t);
/* Something was written on i from time `from` on, before `to`. */
bool inc_written(const struct inc *c, bool new, instr_id i, uint64_t from, uint64_t to);

/* The edits, and the steps before the first sweep; false: not on this graph. */
bool inc_edit(struct inc *c, int n, const struct prop_edit *edits);
void inc_tables_make(struct pass *p);
/* Whether the graph's conversions are in the reach of inc_occurs. */
bool inc_fits(const struct pass *p);

/* i's list becomes one of the new history's own, and its readers are looked at. */
void inc_fork(struct inc *c, instr_id i, uint64_t key);
/* i's sharding as a visit at time key sees it, in the old history or in the new one. */
sharding_id inc_value_before(struct inc *c, instr_id i, bool new, uint64_t key);
bool inc_same_before(struct inc *c, instr_id i, uint64_t key);
/* Puts those of the log that are i's in place of what the new history has for i at times [from, to). */
void inc_replace(struct inc *c, instr_id i, uint64_t from_key, uint64_t to_key);
/* The same for all of a list, of which the log has all writes in [from, to). Sorts both. */
void inc_take_log(struct inc *c, struct id_list *l, uint64_t from_key, uint64_t to_key);
/* Marks all slots that read i, or whose bits its writes set, from time key on. leaves: of a tuple of many, those
 * that differ where nothing else does; NULL: all. */
void inc_examine_readers(struct inc *c, instr_id i, uint64_t key, const bool *leaves);

/* Tuples of thousands of operands, of which an edit reaches a few (increment_tuple.c): the leaves in which the log differs from
 * i's writes [from, to) of the new history; NULL: any. */
const bool *inc_changed_leaves(struct inc *c, instr_id i, uint32_t from, uint32_t to);
/* The forward visit of such a tuple, which occurs in both histories: true: the log has what it writes now. */
bool inc_tuple_visit(struct inc *c, uint32_t slot, struct prop_time t);

#endif
