/* Inside the partitioner: the state of one run, partitioned values, and what op handlers use.
 *
 * Files: partition.c (driver, S-114..S-127), rewrite.c (S-120..S-122), value.c (pval, masks, offsets,
 * S-49..S-53, S-16..S-19), emit.c (nodes), collective.c (collectives, device groups, S-37..S-63),
 * reshard.c, reshard_a2a.c and replicate.c (S-65..S-91), best*.c (partitioner=best), control.c (S-153..S-166, manual regions),
 * rotate.c, topk.c, fft.c (S-167), cleanup.c (S-118), full.c (S-225..S-228), finish.c (the module handed over),
 * store.c (computations shared between programs),
 * list.c (collectives_list), moving.c, bounded.c -- and the op families: elementwise.c (S-128..S-136),
 * reshape.c, slice.c, window.c, halo.c (S-92..S-113), reduce.c, sort.c, dot.c, conv.c, gs.c (gather,
 * scatter), ...
 */
#ifndef GSPMD_PARTITION_INTERNAL_H
#define GSPMD_PARTITION_INTERNAL_H

#include "partition/partition.h"

/* Highest rank that is partitioned; arrays inside have room for what reshapes in between add. */
enum { RANK_LIMIT = 14, RANK_ROOM = 48 };

/* A partitioned value (S-49): a node of the program, the full shape that it is a shard of, and its
 * sharding (in member ranks of the current device group set). Passed by value. */
struct pval {
    instr_id local;
    shape_id base;
    sharding_id sharding;
};

/* A set of device groups that is in force (S-44). The outermost has one group of all devices. */
struct group_set {
    struct group_set *outer;
    struct tiling groups;      /* [ngroups, size]: rank in outer of (group, rank) */
    struct tiling devices;     /* the same in devices, all outer sets applied; axis 0: all groups */
    int64_t size;              /* devices of one group = partitions inside */
    bool trivial;              /* one group 0..n-1 */
    uint32_t number;           /* part of the keys of the reshard cache: equal sets are one, S-72 */
    struct group_set *next;    /* all sets of the run */
};

/* A loop of a windowed product (windowed.c), as what moves into it afterwards needs to know it. */
struct windowed_loop {
    instr_id loop;
    int cut;               /* element of the state: the operand that every step cuts; -1: none is cut */
    bool in_pieces;        /* the result is put together of pieces */
};

struct spmd {
    const struct propagation *prop;
    const struct module *src;      /* working graph's module (or its copy with S-120..S-122 done) */
    struct program *prog;
    struct module *out;            /* under construction; cleaned up and renumbered at the end */
    struct ir *ir;
    struct shardings *sh;
    const struct partition_options *opt;
    struct tick *tick;
    struct diag *diag;
    bool failed;                   /* an error is in diag: handlers return quickly */
    struct arena arena;            /* the run's own */
    struct group_set *groups;      /* current */
    comp_id comp;                  /* computation under construction in out */
    instr_id serving;              /* source instruction being handled: notes of new nodes */
    const char *reason;            /* why the nodes being made exist; NULL: plain */
    int64_t channel;               /* next channel id, S-54 */
    int64_t first_channel;         /* those from here on are ours */
    int64_t channel_top;           /* above all given so far, whoever sets `channel` back */

    /* the rest: internal to partition.c, emit.c, value.c and reshard.c */
    sharding_id *shardings;        /* [ninstrs(src) + 1] of the source, S-115; replaced for a while by
                                      S-125, S-126 */
    instr_id *origin;              /* [ninstrs(src) + 1] working-graph instruction; NULL: the same */
    struct group_set *sets;        /* all of them */
    uint32_t nsets;
    struct map nodes;              /* hash-consing of glue: key -> node */
    uint32_t *values;              /* [ninstrs(src) + 1] 1 + index of an instruction's pval; 0: none yet */
    VEC(struct pval) pvals;
    struct intern reshard_keys;    /* (groups, local, from, base, to, epoch) -> id */
    VEC(struct pval) reshards;     /* by id */
    uint32_t epoch, epochs;        /* of reshards: a dry run has its own, 0 otherwise; given so far */
    struct map known_equal;        /* node -> bit set of dims along which all elements are equal, S-53 */
    struct map copied;             /* source computation -> copy in out */
    struct map reducers;           /* (op, dtype) -> computation */
    VEC(struct node_info) info;    /* by node id */
    VEC(struct remat_note) remats;
    const struct users *users;     /* of src */
    sharding_id note_from, note_to; /* of the reshard under way, for notes */
    int depth;                     /* nesting of partition_computation */
    struct map callers;            /* gs_parallel.c: computation -> its while or conditional, in src */
    struct best_run *best;         /* partitioner=best: best_emit.h; NULL: as XLA */
    struct store_run *store;       /* computations done before: store.h; NULL: nothing is taken or kept */
    bool *rewritten;               /* [ncomps(src) + 1] by rewrite_patterns; NULL: none was */
    struct map shifts;             /* halo.c: permutes made, (operand, ring, distance) -> node */
    VEC(struct windowed_loop) windowed; /* loops of windowed products, for windowed_motion */
    bool changed;                  /* a pass of passes=full changed out since its clean-up */
    const struct users *out_users; /* of out, while no pass changes it; NULL: to be counted */
};

/* What is known of a node besides its instruction. */
struct node_info {
    struct node_note note;
    sharding_id sharding;
    bool glue;                     /* computed from constants of ours and the partition id only */
    bool is_shard;                 /* dynamic-slice that cuts the shard of `cut` from a whole value */
    struct tiling cut;             /* axis 1 + d: tile index on dimension d, in devices */
};

/* ---- nodes (emit.c) ---------------------------------------------------------------------------- */

/* Makes (or finds an equal) node in the current computation. Collectives and side effects are never
 * shared by this. Operands, attrs are copied. The shape is the node's own. */
instr_id emit(struct spmd *s, enum op_kind op, shape_id shape, int64_t nop, const instr_id *ops,
              int nattrs, const struct attr *attrs);
instr_id emit1(struct spmd *s, enum op_kind op, shape_id shape, instr_id a);
instr_id emit2(struct spmd *s, enum op_kind op, shape_id shape, instr_id a, instr_id b);
instr_id emit3(struct spmd *s, enum op_kind op, shape_id shape, instr_id a, instr_id b, instr_id c);
/* A copy of a source instruction with other operands and shape; attributes as they are (called
 * computations are copied into out once: simple ones, e.g. reducers and comparators). */
instr_id emit_clone(struct spmd *s, instr_id source, shape_id shape, int64_t nop, const instr_id *ops);
const struct shape *node_shape(const struct spmd *s, instr_id n); /* of a node of out */
/* A source computation copied verbatim into out (reducers, comparators); once each. */
comp_id copy_computation(struct spmd *s, comp_id source);
/* The two-parameter computation `op(x, y)` over scalars of type t. */
comp_id binary_computation(struct spmd *s, enum op_kind op, enum dtype t);

instr_id emit_const_i(struct spmd *s, enum dtype t, int64_t v);
instr_id emit_const_f(struct spmd *s, enum dtype t, double v);
instr_id emit_zero(struct spmd *s, enum dtype t);          /* scalar */
instr_id emit_literal(struct spmd *s, const struct literal *l); /* of src's ir; copied */
instr_id emit_broadcast_scalar(struct spmd *s, instr_id scalar, int rank, const int64_t *dims);
instr_id emit_broadcast(struct spmd *s, instr_id x, int rank, const int64_t *dims, const int *map);
instr_id emit_reshape(struct spmd *s, instr_id x, int rank, const int64_t *dims); /* none if equal */
instr_id emit_transpose(struct spmd *s, instr_id x, const int *perm);
instr_id emit_slice(struct spmd *s, instr_id x, const int64_t *start, const int64_t *limit,
                    const int64_t *stride /* NULL: 1 */);                  /* x when nothing is cut */
instr_id emit_pad(struct spmd *s, instr_id x, instr_id value, const int64_t *low,
                  const int64_t *high, const int64_t *interior /* NULL: 0 */);
instr_id emit_dynamic_slice(struct spmd *s, instr_id x, const instr_id *starts /* s32 scalars */,
                            const int64_t *sizes);
/* x, or where it is one slice whose start the program computes, that with its start clamped. */
instr_id bounded_piece(struct spmd *s, instr_id x);
instr_id emit_concat(struct spmd *s, int64_t n, const instr_id *xs, int dim);
instr_id emit_iota(struct spmd *s, enum dtype t, int rank, const int64_t *dims, int dim);
instr_id emit_select(struct spmd *s, instr_id pred, instr_id a, instr_id b); /* scalar pred is broadcast */
instr_id emit_compare(struct spmd *s, const char *direction, instr_id a, instr_id b);
instr_id emit_arith(struct spmd *s, enum op_kind op, instr_id a, instr_id b); /* equal shapes */
instr_id emit_convert(struct spmd *s, instr_id x, enum dtype t);

/* ---- where am I: arithmetic on the partition id (value.c) -------------------------------------- */

/* Rank of this device inside the current groups: partition-id at top level. u32 scalar. */
instr_id rank_node(struct spmd *s);
/* Tile index of this device on a data axis (or the replication axis) of sh, s32 scalar; a constant 0
 * when the axis has one tile. Divide and remainder on the rank's digits; a table only for explicit
 * orders. S-17 */
instr_id ordinal_node(struct spmd *s, sharding_id sh, int axis);
/* ordinal * ceil(dim, tiles), s32 scalar. S-16 */
instr_id offset_node(struct spmd *s, sharding_id sh, int axis, int64_t dim);
void offset_nodes(struct spmd *s, sharding_id sh, int rank, const int64_t *dims, instr_id *out);
/* Index of this device along an axis of a tiling of all devices: s32 scalar. */
instr_id axis_index_node(struct spmd *s, struct tiling devices, int axis);
/* The digits that such an index is made of, major to minor, as arithmetic on the device number.
 * -1: the order is explicit, or the axis ends inside a digit. */
int axis_digits(const struct spmd *s, struct tiling devices, int axis, struct digit *out);
order_id order_of_digits(struct spmd *s, int n, const struct digit *digits); /* collective.c */
/* Row-major index over the groups part of g of this device's group (s32 scalar). */
instr_id group_index_node(struct spmd *s, const struct sharding_group *g);

/* ---- values (value.c) -------------------------------------------------------------------------- */

struct pval pval_make(struct spmd *s, instr_id local, shape_id base, sharding_id sh);
shape_id shard_shape(struct spmd *s, shape_id base, sharding_id sh); /* per leaf for tuples, S-12 */
/* S-50: the value with `fill` (a scalar node) in the padding of uneven dims; skip, left: bit sets. */
struct pval pval_mask(struct spmd *s, struct pval v, instr_id fill, uint64_t left, uint64_t skip);
struct pval pval_relabel(struct pval v, sharding_id sh);

/* ---- collectives (emit.c). groups: [ngroups, size] in ranks of the current group set; expanded to
 * devices here (S-60). S-54..S-63 ------------------------------------------------------------------ */

instr_id emit_all_reduce(struct spmd *s, instr_id x, comp_id reducer, struct tiling groups);
instr_id emit_all_gather(struct spmd *s, instr_id x, int dim, struct tiling groups);
instr_id emit_all_to_all(struct spmd *s, instr_id x, int split_dim, struct tiling groups);
instr_id emit_permute(struct spmd *s, instr_id x, const struct permute_pairs *pairs);
instr_id emit_reduce_scatter(struct spmd *s, instr_id x, comp_id reducer, int dim, struct tiling groups);
/* AR along dims of sh, last to first, S-67. */
instr_id emit_reduce_along(struct spmd *s, instr_id x, comp_id reducer, sharding_id sh, int n,
                           const int *dims);

/* Enters / leaves a set of device groups (S-44). Nested sets compose. */
void groups_enter(struct spmd *s, struct tiling groups);
void groups_leave(struct spmd *s);

/* ---- resharding (reshard.c) --------------------------------------------------------------------- */

struct pval reshard(struct spmd *s, struct pval v, sharding_id target);            /* S-71 */
struct pval reshard_padded(struct spmd *s, struct pval v, sharding_id target, instr_id pad);
/* S-73 with allow_full = false: v unchanged when it would need a full rematerialisation. */
struct pval reshard_no_full(struct spmd *s, struct pval v, sharding_id target);
struct pval replicate(struct spmd *s, struct pval v);                              /* S-69 */
struct pval unshard_dims(struct spmd *s, struct pval v, int n, const int *dims);   /* S-68 */
/* S-48: cut a replicated value per group. */
struct pval slice_per_group(struct spmd *s, struct pval v, int n, const int *dims,
                            const int64_t *parts, const struct sharding_group *g);

/* ---- computations under construction (emit.c) ----------------------------------------------------
 * To build a loop body or a branch: c = s->comp; s->comp = comp_new(s->out, name); parameters by
 * emit_parameter, nodes by emit*, then comp_finish(s->out, s->comp, root); s->comp = c. Device groups
 * stay in force; partition-id and other glue is made anew inside. */
instr_id emit_parameter(struct spmd *s, int64_t number, shape_id shape);
instr_id emit_tuple(struct spmd *s, int64_t n, const instr_id *xs);
instr_id emit_gte(struct spmd *s, instr_id tuple, int64_t index);
instr_id emit_while(struct spmd *s, instr_id init, comp_id condition, comp_id body);
instr_id emit_conditional(struct spmd *s, instr_id index, int64_t n, const comp_id *branches,
                          const instr_id *args); /* index: pred (branch 0 = true) or s32 */
instr_id emit_dus(struct spmd *s, instr_id x, instr_id update, const instr_id *starts);
instr_id emit_copy(struct spmd *s, instr_id x); /* always a new node: caches do not see through it */
/* The identity of op on elements of type t, a scalar node. false: it has none. */
bool emit_identity(struct spmd *s, enum op_kind op, enum dtype t, instr_id *out);
/* 1-D table of int64 values by a scalar index node: s32 scalar. For explicit orders and compact
 * halos only: grows with n. */
instr_id emit_table(struct spmd *s, int64_t n, const int64_t *values, instr_id index);

/* ---- windows (window.c): sections 7.1 to 7.5 ---------------------------------------------------- */

struct windowed {
    bool ok;
    instr_id local;
    struct window_dim dims[16];     /* window to use on it */
    bool has_offset;                /* the output needs a dynamic slice at offset */
    instr_id offset[16];            /* s32 scalars; none: 0 */
};
/* S-99..S-109. pad: a scalar node. */
struct windowed window_input(struct spmd *s, struct pval v, int rank, const struct window_dim *w,
                             sharding_id target, instr_id pad, bool mask, bool force);
/* What shard i wants beyond its own elements (negative: it needs fewer), i = 0 .. tiles - 1. */
struct halo_fn {
    int64_t (*at)(const struct halo_fn *f, int64_t i);
    int64_t a, b, c; /* the function's own */
};
/* S-97, also for reshard.c (S-86, S-87). x: local value of a base of `base_dim` elements along dim,
 * tiled by sh there. pad none (.i == 0): no masking. The result has max(left + right) + shard size
 * elements along dim. Never fails. */
instr_id halo_compact(struct spmd *s, instr_id x, const struct halo_fn *left,
                      const struct halo_fn *right, instr_id pad, int dim, sharding_id sh,
                      int64_t base_dim);
/* S-110, S-111, S-112: ok = false when there is no window form. */
bool slice_as_window(struct spmd *s, struct pval v, const int64_t *start, const int64_t *limit,
                     const int64_t *stride, shape_id out, sharding_id target, struct pval *res);
bool pad_as_window(struct spmd *s, struct pval v, instr_id value, const int64_t *low,
                   const int64_t *high, const int64_t *interior, shape_id out, sharding_id target,
                   struct pval *res);
bool shift_padding_left(struct spmd *s, struct pval v, uint64_t dims, struct pval *res);

/* ---- op handlers --------------------------------------------------------------------------------- */

/* The value of a source operand. */
struct pval operand_value(struct spmd *s, instr_id source, uint32_t k);
sharding_id source_sharding(const struct spmd *s, instr_id source); /* after preprocessing, S-115 */
void set_value(struct spmd *s, instr_id source, struct pval v);
/* A handler sets the value of its instruction, with the instruction's sharding. */
typedef void (*partition_fn)(struct spmd *s, instr_id source);
/* Declared here by the partition column of ops.def: partition_elementwise, partition_dot, ... */
#define OP(id, hlo, shlo, lo, hi, v, p, part, e, c) void partition_##part(struct spmd *s, instr_id source);
#include "ir/ops.def"
/* S-127: replicate, compute, slice. `why` is shown to the user (remat_note.fallback). */
void partition_default(struct spmd *s, instr_id source, const char *why);
/* The same where XLA does so too: noted with its reason, but no fall-back of ours. */
void partition_whole(struct spmd *s, instr_id source, const char *why);
void note_remat(struct spmd *s, sharding_id from, sharding_id to, bool fallback, const char *reason);

/* Tiling of ranks of the current group set as a tiling of devices: one axis in front, the groups. */
struct tiling tiling_in_devices(struct spmd *s, struct tiling a);
/* Sharding of element i of a tuple value. */
sharding_id element_sharding(struct spmd *s, shape_id tuple, sharding_id sh, int64_t i);
/* Number of partitions inside the current groups (N of S-169, P of S-162). */
static inline int64_t group_partitions(const struct spmd *s)
{
    return s->groups->size;
}
/* Dispatches a source instruction to its handler. */
void partition_instr(struct spmd *s, instr_id source);
void partition_rotate(struct spmd *s, instr_id source); /* S-145, rotate.c */
void partition_topk(struct spmd *s, instr_id source);   /* S-152, rotate.c */
/* Where the source stands, for messages. */
struct span source_span(const struct spmd *s, instr_id source);
bool spmd_error(struct spmd *s, instr_id source, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool attr_same(const struct attr *a, const struct attr *b);
struct attr attr_own(struct arena *m, struct attr a); /* with all that it points to; computations' ids stay */
uint64_t attr_hash(const struct attr *a);
void cleanup_run(struct spmd *s);                            /* S-118, cleanup.c */
void cleanup_first(struct spmd *s);                          /* the same, of a module as partitioned: store.h */
void rewrite_patterns(struct spmd *s);                       /* S-120..S-122, rewrite.c */
void windowed_motion(struct spmd *s);                        /* S-191, S-192, windowed_motion.c */
bool program_finish(struct spmd *s, comp_id entry);          /* renumber into the final module */
void full_passes(struct spmd *s, comp_id entry);             /* full.c: S-225.. */

/* partitioner=best, best.c. best_rejected: a node of a trial that was not taken. */
bool best_rejected(const struct spmd *s, instr_id n);
struct program *best_program(const struct propagation *p, const struct partition_options *o,
                             struct tick *tick, struct diag *d);
/* One run; plain: instructions of the working graph for which best decides nothing. */
struct program *partition_as(const struct propagation *p, const struct partition_options *o,
                             const bool *plain, struct tick *tick, struct diag *d);

/* Partitions computation c of the source with the given root sharding; parameters' shardings are
 * those of its parameter instructions. A fresh computation of out. */
comp_id partition_computation(struct spmd *s, comp_id c, sharding_id root);

#endif
