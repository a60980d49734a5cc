/* The SPMD partitioner: one program that every device runs on its shard (specification S-1..).
 *
 * In: the working graph with a sharding for every instruction (propagate/). Out: a module of local
 * shapes with the collectives in it, each node tied to the instruction it serves. Nothing here costs
 * time or memory in the number of devices: offsets are arithmetic on partition-id's digits, groups
 * and permutes are symbolic (internals.md section 3).
 */
#ifndef GSPMD_PARTITION_PARTITION_H
#define GSPMD_PARTITION_PARTITION_H

#include "base/tick.h"
#include "propagate/propagate.h"

/* What passes=full does after partitioning, in this order. */
enum partition_pass {
    PASS_IDLE, PASS_REASSOCIATE, PASS_LOOPS, PASS_WEIGHT_UPDATE, PASS_SPLIT, PASS_REDUCE_SCATTER,
    PASS_FOLD, PASS_GATHERS, PASS_COMBINE, PASS_COUNT
};
const char *partition_pass_name(enum partition_pass p);
const char *partition_pass_summary(enum partition_pass p);

/* Where XLA has no rule and makes arrays whole (S-74, S-127), knows few tilings (S-167, S-202), or moves more
 * than the window along a split dimension (S-140, S-143, S-144): its way, or the cheapest plan. AUTO: the
 * cheapest plan with passes=full; XLA's with passes=spmd, the program that is compared with XLA's. */
enum no_rule { NO_RULE_AUTO, NO_RULE_XLA, NO_RULE_BEST };

struct partition_options {
    int64_t num_partitions;
    int64_t replica_count;     /* 0 = 1 */
    bool all_gather;           /* off: gather by dynamic-update-slice and all-reduce (S-68) */
    int64_t windowed_einsum_mib; /* threshold; 100000 = off */
    int64_t windowed_total_bytes; /* > 0: both operands together need as much, in place of that one */
    bool bidirectional, unroll;
    bool halo_always_on_lhs;   /* conv_halo_exchange_always_on_lhs */
    bool choose_faster_windowed_einsum;
    bool full;                 /* passes=full: also S-225..S-232 */
    bool pass[PASS_COUNT];     /* which of full run */
    int passes_left;           /* of full, so many at its end do not run: the program in between */
    bool hoist;                /* collectives leave loops that need not repeat them */
    bool weight_update;
    int64_t combine_mib;       /* 0: collectives are not combined */
    bool best;                 /* partitioner=best */
    enum no_rule no_rule;      /* that only where XLA has no rule */
    int gather_method, scatter_method;
    bool scratch;              /* nothing is taken from programs made before of the same working graph */
};
void partition_options_default(struct partition_options *o);

/* Why a node of the program exists, and for whom. */
struct node_note {
    instr_id source;       /* instruction of the working graph that it serves; none: glue */
    const char *reason;    /* "partial sums of the contracting dimension (S-...)"; static or program's */
    sharding_id from, to;  /* of a reshard; none otherwise */
};

/* A place where the whole array had to be made (S-74, or the safe fall-back S-127). */
struct remat_note {
    instr_id source;
    sharding_id from, to;
    bool fallback;         /* no rule yet: replicate, compute, slice */
    bool operation;        /* XLA has no rule either: every device computes all of it */
    const char *reason;
};

/* What partitioner=best did otherwise than XLA. */
struct best_note {
    instr_id source;       /* instruction of the working graph that it serves */
    sharding_id from, to;  /* of a reshard; none: a way to compute the instruction */
    const char *plan;      /* "all-to-all, then all-gather"; the program's */
    int64_t bytes, xla_bytes;
};

struct program {
    struct module *module;      /* owned; shapes are one device's */
    struct node_note *notes;    /* [ninstrs + 1] */
    sharding_id *node_sharding; /* [ninstrs + 1] sharding of the value that a node is a shard of */
    int64_t nremats;
    struct remat_note *remats;
    int64_t nparams;            /* boundary: entry parameters and result */
    sharding_id *param_sharding;
    shape_id *param_shape;      /* global */
    sharding_id result_sharding;
    shape_id result_shape;      /* global */
    int64_t num_partitions;
    bool split_fft;             /* a transform is put together from smaller ones (S-167): equal for numbers, not for
                                   whatever functions stand in their place */
    int64_t nodes;              /* counters for tests */
    int64_t reused, reused_nodes; /* computations that were partitioned before, and were put in as they are */
    int64_t made_nodes;         /* by the partitioner itself, clean-up and later passes aside */
    bool no_rule;               /* best only where XLA has no rule (option no_rule) */
    bool best;                  /* made with partitioner=best; then: */
    int64_t best_bytes, xla_bytes, xla_collectives; /* of this program, of XLA's */
    int64_t nbest;
    struct best_note *bests;
    int64_t nxla_remats;        /* no_rule=auto that left XLA's program: what that one makes whole */
    struct remat_note *xla_remats;
    struct arena arena;
};

/* The propagation must outlive the program. false with d filled: not partitionable (S-115, S-75). */
struct program *partition(const struct propagation *p, const struct partition_options *o,
                          struct tick *tick, struct diag *d) MUST_CHECK;
void program_free(struct program *p);

/* What XLA makes whole, *n places: this program's, or with no_rule=auto those of the program that it was
 * preferred to. Users are warned of these: their XLA does so. */
const struct remat_note *program_remats(const struct program *p, int64_t *n);

/* ---- collectives of a module (ours, or a dump's) ---------------------------------------------- */

struct collective {
    instr_id instr;           /* in the module listed; a start / done pair is one (the start) */
    enum op_kind kind;        /* OP_ALL_GATHER .. without -start */
    int64_t group_size;       /* largest; permutes: number of moving pairs */
    int64_t ngroups;
    int64_t dimension;        /* -1: none */
    int64_t trip_count;       /* product over the loops around; unknown ones count 1 */
    bool trip_known;
    int64_t bytes;            /* what one device sends, x trip_count (language.md section 8) */
    struct tiling groups;     /* when uniform */
    const struct replica_groups *raw;
    const struct permute_pairs *pairs;
    int branch;               /* -1: not in a conditional */
};

/* Every collective of m reachable from the entry, in text order of computations. Trip counts of
 * loops by while_trip_count. m's groups are read with num_partitions devices. *total: sum; a
 * conditional counts its costliest branch. */
int64_t collectives_list(const struct module *m, int64_t num_partitions, int64_t replica_count,
                         struct arena *a, struct collective **out, int64_t *total);

#endif
