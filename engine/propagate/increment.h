/* Inside the increments: the two histories, and which slots read what. */
#ifndef GSPMD_PROPAGATE_INCREMENT_H
#define GSPMD_PROPAGATE_INCREMENT_H

#include "propagate/internal.h"

struct fork {
    instr_id i;
    VEC(struct prop_write) list;
};

struct span_of {
    const struct prop_write *v;
    uint32_t n;
};

/* Values of tuples are put together from leaves: the last one of each history. */
struct cached {
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
    uint32_t *fork_of; /* by instruction: fork + 1 */
    VEC(struct fork) forks;
    uint32_t *cached_of; /* by instruction: entry + 1 */
    VEC(struct cached) cached;
    VEC(struct unseen) unseen;
    uint16_t *last; /* by instruction: sweep of its last write in either history, or later */
    uint64_t *exam; /* by slot: reads what was forked */
    uint32_t count[STAGES][SWEEPS_KEPT];
    struct id_list reads, touched;
    uint32_t *mark, stamp; /* members of the list in the making */
    int64_t run, differing;
    bool overflow; /* more sweeps than are kept count of */
};

static inline uint64_t key_of(struct prop_time t)
{
    return (uint64_t)t.stage << 48 | (uint64_t)t.iteration << 32 | t.slot;
}

static inline struct span_of old_list(const struct inc *c, instr_id i)
{
    uint32_t from = c->old->first[i.i];
    return (struct span_of){ c->old->writes + from, c->old->first[i.i + 1] - from };
}

static inline struct span_of new_list(const struct inc *c, instr_id i)
{
    uint32_t k = c->fork_of[i.i];
    if (!k)
        return old_list(c, i);
    return (struct span_of){ c->forks.v[k - 1].list.v, (uint32_t)c->forks.v[k - 1].list.n };
}

/* Writes before time key. */
static inline uint32_t before(struct span_of s, uint64_t key)
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
void inc_tables(struct pass *p);
/* Whether the graph's conversions are in the reach of inc_occurs. */
bool inc_fits(const struct pass *p);

struct fork *inc_fork(struct inc *c, instr_id i, uint64_t key);
/* Puts those of the log that are i's in place of what the new history has for i at times [from, to). */
void inc_replace(struct inc *c, instr_id i, uint64_t from_key, uint64_t to_key);
/* The same for all of a list, of which the log has all writes in [from, to). Sorts both. */
void inc_take_log(struct inc *c, struct id_list *l, uint64_t from_key, uint64_t to_key);
/* Marks all slots that read i, or whose bits its writes set, from time key on. */
void inc_examine_readers(struct inc *c, instr_id i, uint64_t key);

#endif
