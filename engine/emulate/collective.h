/* Between collective.c (who meets, results made at once), hops.c (who sends what to whom), move.c
 * (chunks on their way) and trace.c (the record). */
#ifndef GSPMD_EMULATE_COLLECTIVE_H
#define GSPMD_EMULATE_COLLECTIVE_H

#include "emulate/internal.h"

/* Ranks, not devices. */
struct hop {
    int64_t round, from, to, chunk, nchunks;
    bool sums;
};

/* All messages of one collective in an order in which they can be sent. */
struct hops {
    VEC(struct hop) list;
    int64_t nchunks, rounds;
};

/* source: of a permute, the rank that sends to each rank, -1: nobody. */
void hops_plan(struct arena *a, enum op_kind kind, enum collective_algorithm how, int64_t n,
               const int64_t *source, struct hops *out);

struct buf *coll_operand(const struct rendezvous *z, int64_t rank, uint32_t k);
void coll_give(const struct rendezvous *z, int64_t rank, uint32_t out, struct buf *b);
/* The sum over a group of operand leaf k, in group order, into a new buffer. */
struct buf *fold_group(const struct rendezvous *z, uint32_t k, bool bounds, struct pool *pool);
/* Copies in[.., from .. from + n, ..] of one array to out[.., to .. to + n, ..] of another, shadow
 * bits and error bounds too. */
void copy_piece(const struct coll_leaf *l, int size, const struct buf *in, int64_t in_n,
                int64_t from, struct buf *out, int64_t out_n, int64_t to, int64_t n);

/* Moves the chunks of one meeting hop by hop: results, clocks of the members, records, faults.
 * false: the run has failed. For groups of two or more, not for joins. */
bool move_chunks(struct run *r, struct rendezvous *z, struct pool *pool);

/* ---- records (trace.c) --------------------------------------------------------------------------
 */

/* A meeting while the run goes on; in a list of the run's tracer. */
struct meeting {
    struct meeting *next;
    struct trace_meeting m;
    VEC(struct trace_hop) hops;
    struct arena arena;
    int64_t index; /* when sorted */
};

struct logged {
    struct trace_event e;
    struct meeting *at;
};

struct tracer {
    struct meeting *meetings; /* under the run's lock */
    int64_t max_events, max_hops; /* of each device */
    bool truncated;               /* under the run's lock */
};

/* A step's ticks on the clock. */
int64_t trace_cost(const struct plan *p, const struct step *s);
void trace_event(struct run *r, struct device *dev, const struct step *s, enum trace_kind kind,
                 int64_t start, int64_t end, struct meeting *at);
struct meeting *trace_meet(struct run *r, const struct rendezvous *z);
/* A meeting without hops: everybody goes on a tick after the last has come. */
void trace_meet_plain(struct run *r, const struct rendezvous *z);
/* A collective of an asynchronous pair whose device is done with it at `end`: noted, and the device goes
 * on. false: it is none. */
bool trace_flies(struct run *r, struct device *dev, const struct step *s, int64_t end, struct meeting *at);
void trace_done(struct run *r, struct device *dev, const struct step *s); /* the -done of a pair */
void trace_begin(struct run *r, struct trace *t);
void trace_end(struct run *r, struct trace *t);

/* What happens to a device that comes to a step: counts its turn, and planted faults.
 * false: it was killed. */
bool watch_step(struct run *r, struct device *dev, const struct step *s);
int64_t turn_of(const struct device *dev, const struct step *s); /* since watch_step */

#endif
