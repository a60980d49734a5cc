/* What ran, on a clock of its own: each device's steps, and every collective hop by hop.
 *
 * Ask for one with run_options.trace; run_module and run_program fill it. A traced run moves the
 * chunks of its collectives hop by hop, as run_options.collectives says; values do not depend on
 * that choice, nor on being traced. The clock counts *ticks*, never wall time: the same module,
 * inputs and options give the same trace whatever the number of workers.
 *
 *     a kernel   1 + bytes read and written / 1024 + floating-point operations / 131072
 *     a hop      1 + bytes / 64, when the sender has the chunk and both ends are free
 *
 * (quotients rounded up). A device comes to a collective when its own steps are done, may wait
 * there for the others, between its hops too, and goes on when its last hop has ended. From the
 * -start of an asynchronous pair it goes on at once, and waits at the -done for what is not there
 * yet; collectives of one device follow each other on its links.
 */
#ifndef GSPMD_EMULATE_TRACE_H
#define GSPMD_EMULATE_TRACE_H

#include "base/arena.h"
#include "ir/ir.h"

/* How chunks travel. n: devices of the group.
 *
 *     ring    all-gather: every device hands on to its right neighbour what it got, n - 1 rounds;
 *             reduce-scatter the same with sums; all-reduce: the one, then the other; all-to-all:
 *             in round d to the d-th neighbour; broadcast: n chunks down the line, one behind the
 *             other
 *     tree    binomial: gathered or summed towards the group's first device, handed down again;
 *             all-to-all: in round k all that has bit k of the distance still to go
 *     direct  every device sends to every other at once; sums: to the chunk's owner, who sends the
 *             result to all
 *
 * A permute is one hop a pair whatever is chosen. */
enum collective_algorithm { COLLECTIVES_RING, COLLECTIVES_TREE, COLLECTIVES_DIRECT };
const char *collective_algorithm_name(enum collective_algorithm a);

enum trace_kind {
    TRACE_COMPUTE,    /* a kernel */
    TRACE_COLLECTIVE, /* hops that the device has a part in, those without a gap as one */
    TRACE_WAIT,       /* at a collective, for others; or held up (inject) */
    TRACE_KILLED,     /* the device ended here (inject kill); end == start */
    TRACE_FLIGHT      /* an asynchronous collective, from its -start until the device's last hop has
                         ended; the device goes on meanwhile, its -done is a WAIT if it comes early */
};
const char *trace_kind_name(enum trace_kind k);

struct trace_event {
    int64_t device;
    instr_id instr; /* of trace.module */
    enum trace_kind kind;
    int64_t turn; /* how often the device had run this instruction before (loops) */
    int64_t start, end;
    int64_t meeting; /* COLLECTIVE and WAIT: index in meetings; else -1 */
};

/* One chunk on its way from one device to another. */
struct trace_hop {
    int64_t meeting;
    int64_t round;    /* from 0; hops of one round do not depend on each other */
    int64_t from, to; /* devices */
    int64_t chunk;    /* first of nchunks neighbours (see trace_meeting.nchunks) */
    int64_t nchunks;
    int64_t bytes;
    int64_t start, end;
    bool sums; /* added to what the receiver has of the chunk; else stored */
};

/* One collective of one group, once. */
struct trace_meeting {
    instr_id instr;    /* of the group's first device */
    enum op_kind kind; /* plain: OP_ALL_GATHER, OP_ALL_REDUCE, OP_REDUCE_SCATTER, OP_ALL_TO_ALL,
                          OP_COLLECTIVE_PERMUTE, OP_COLLECTIVE_BROADCAST; OP_CUSTOM_CALL: shards
                          put together at the end of a manual region (no hops) */
    int64_t turn;
    int64_t group; /* which of the instruction's groups */
    int64_t ndevices;
    const int64_t *devices; /* in group order: "rank" r is devices[r] */
    /* Chunks: all-gather: chunk r is rank r's operand. all-reduce, broadcast: the operand in nchunks
     * equal runs of elements. reduce-scatter: chunk r is rank r's result. all-to-all: chunk
     * from * n + to. permute: chunk r is rank r's operand. */
    int64_t nchunks;
    int64_t rounds;
    int64_t start, end; /* first arrival; last device gone on */
    int64_t bytes;      /* of all hops */
    int64_t first_hop, nhops;
};

struct trace {
    struct arena arena;          /* owns everything below */
    const struct module *module; /* what ran: a loan, it must outlive the trace */
    enum collective_algorithm algorithm;
    int64_t ndevices;
    int64_t ticks; /* when the last device ended */
    int64_t nevents;
    struct trace_event *events;  /* device by device, each by rising start */
    const int64_t *first_event;  /* [ndevices + 1] */
    const int64_t *computing;    /* [ndevices] ticks in kernels */
    const int64_t *collective;   /* [ndevices] ticks in collectives */
    const int64_t *overlapped;   /* [ndevices] ticks of flights that it did not wait for */
    const int64_t *waiting;      /* [ndevices] ticks waited for others, and from its own end to
                                    the end of the run */
    int64_t nmeetings;
    struct trace_meeting *meetings; /* by rising start, then first device */
    int64_t nhops;
    struct trace_hop *hops; /* meeting by meeting, each by rising round, then start */
    int64_t max_records;    /* set before the run; 0: a million events and four million hops */
    bool truncated;         /* more happened than that: totals are right, lists are cut */
};

void trace_free(struct trace *t); /* the insides, not t */

/* Part of all device time in which devices have nothing to do: waiting / (ndevices * ticks). */
double trace_idle_share(const struct trace *t);

/* ---- planted faults ----------------------------------------------------------------------------
 */

enum fault_kind { FAULT_DELAY, FAULT_DROP, FAULT_CORRUPT, FAULT_KILL };
const char *fault_kind_name(enum fault_kind k);

/* One fault of a run. DELAY, KILL: when `device` comes to `instr` for the turn-th time (0: first).
 * DROP, CORRUPT: the hop-th message (0: first) that `device` sends there; `instr` is a collective. */
struct fault {
    enum fault_kind kind;
    int64_t device;
    instr_id instr; /* of the module that runs */
    int64_t turn;
    int64_t hop;
    int64_t ticks; /* DELAY: how long */
    /* set by the run */
    bool hit;      /* it happened */
    int64_t when;  /* on the device's clock */
};

#endif
