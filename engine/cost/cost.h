/* What a program costs on one device: work (FLOPs, bytes), live memory, time on given hardware.
 *
 * Everything here works on a module of local shapes: a partitioned program, or a dump that is one.
 * Nothing takes time or memory that grows with the number of devices: groups are looked at by the
 * digits of their order (internals.md section 1).
 *
 * The program is looked at as *kernels*. Rule: an operation that only moves or maps elements
 * (elementwise, broadcast, iota, reshape, slice, pad, concatenate, transpose, reduce, gather, ...) is
 * computed inside its users when all of them can take it in; its value then has no buffer and no
 * traffic. Operations that are dear to repeat (exp, divide, ...; a reduce) are not computed twice.
 * A dot or convolution takes in what converts, slices or moves its operands, and is itself part of the
 * kernel of its only user when all up to there map its result element by element, turn it or write it
 * into a larger array, as accelerators' compilers do it (not with plain_matrix). Optimization barriers
 * hold no copies: what comes out of one is computed inside its users as what went in would be.
 */
#ifndef GSPMD_COST_COST_H
#define GSPMD_COST_COST_H

#include "base/tick.h"
#include "ir/ir.h"
#include "partition/partition.h"

/* ---- work of one operation -------------------------------------------------------------------- */

/* Counted as XLA's cost analysis does: a multiply and an add are two; an elementwise operation one an
 * element; exp, log, tanh and the like are transcendentals, not FLOPs; loops and calls: 0 (their
 * computations are counted by themselves). Convolutions count the positions inside the padding. */
struct work {
    double flops, transcendentals;
    bool matrix; /* dot or convolution: runs on the matrix unit */
};
void cost_work(const struct module *m, instr_id i, struct work *out);

/* ---- the plan: order, kernels, how often everything runs --------------------------------------- */

enum comp_use {
    COMP_UNUSED,  /* not reached from the entry */
    COMP_APPLIED, /* of a reduce, sort, map, fusion: part of the instruction that applies it */
    COMP_RUN      /* the entry, bodies, conditions, branches, called functions: runs by itself */
};

/* AUTO: the text's order of a scheduled dump, else LIST: by computation the one of three
 * orders whose peak is lowest. DEPTH: always the first, as XLA's CPU compiler has it. */
enum schedule { SCHEDULE_AUTO, SCHEDULE_TEXT, SCHEDULE_LIST, SCHEDULE_DEPTH };

struct cost_options {
    enum schedule schedule;
    bool no_fusion;         /* every operation is a kernel */
    /* As XLA's CPU compiler has it, for comparisons with its figures: matrix operations are kernels of their own, others
     * are repeated where it repeats them (fuse_cpu.c) and counted as it leaves them to be counted (count_cpu.c). */
    bool plain_matrix;
    bool widen;             /* 16-bit floats computed are kept in 32 bits, with their conversions, as XLA's CPU backend does */
};

struct cost_plan {
    const struct module *module; /* a loan */
    const struct program *program; /* whose module it is; NULL: a dump */
    struct arena arena;
    struct users users;
    bool plain_matrix;
    bool *fused;       /* [ninstrs + 1] computed inside its users */
    instr_id *through; /* [ninstrs + 1] what comes out of a barrier: what went in; none for others */
    /* plain_matrix: what each kernel computes, inside[inside_at, + inside_n); an operation can be in several. */
    VEC(instr_id) inside;
    uint32_t *inside_at, *inside_n; /* [ninstrs + 1]; NULL: fused tells */
    uint32_t *position;/* [ninstrs + 1] in the schedule of its computation; fused ones: 0 */
    /* By computation [ncomps + 1]. */
    uint8_t *use;      /* enum comp_use */
    double *runs;      /* times it runs in a step; unknown loops count once */
    bool *runs_known;
    int64_t *trips;    /* [ninstrs + 1] of while loops; -1: not known; 0 for others */
    const instr_id **order; /* kernels in the order of the schedule */
    uint32_t *norder;
    uint32_t ncomps;       /* reached computations, callees first */
    const comp_id *comps;
    /* What a kernel reads from outside: external operands, each once. */
    uint32_t *ext_start;   /* [ninstrs + 2] */
    instr_id *ext;
    int64_t *ext_bytes;    /* bytes read of it */
    struct kernel {
        double flops, transcendentals; /* of all that is computed in it */
        double matrix_flops;
        instr_id matrix;         /* its dot or convolution; none */
        int64_t in_bytes, out_bytes;
        enum dtype dtype; /* of the matrix operands; NONE: no matrix operation */
    } *kernel;             /* [ninstrs + 1] */
    int64_t visits;        /* counter for tests: operations looked at */
    int64_t greedy;        /* computations that run in another order than depth first */
    struct cost_options options;
    /* What cost_plan_after looks for; made when it is first asked for. */
    uint64_t *print;       /* [ncomps + 1] of what a computation is made of */
    uint32_t *local;       /* [ninstrs + 1] place in its computation */
    comp_id *alike;        /* [ncomps + 1] computation of the earlier plan that it was taken from; none: made anew */
    bool *other;           /* [ncomps + 1] runs in another order than depth first */
    int64_t *inner;        /* [ncomps + 1] peak of its own while it runs, as the orders are compared by */
    int64_t taken;         /* counter: operations of computations that were taken */
};

/* The module (and program) must outlive the plan. */
struct cost_plan *cost_plan_new(const struct module *m, const struct program *p,
                                const struct cost_options *o, struct tick *tick,
                                struct diag *d) MUST_CHECK;
/* The same plan, after an edit: computations that `before` (of another module of the same context; NULL: none)
 * has alike are taken from it. An unrolled model is one computation: it is taken whole or made anew. */
struct cost_plan *cost_plan_after(struct cost_plan *before, const struct module *m, const struct program *p,
                                  const struct cost_options *o, struct tick *tick, struct diag *d) MUST_CHECK;
void cost_plan_free(struct cost_plan *p);
/* FLOPs of one step (loops by their trip counts); once: every loop counts once, as XLA's count. */
double cost_flops(const struct cost_plan *p, bool once);
double cost_matrix_flops(const struct cost_plan *p, bool once);

/* ---- memory ----------------------------------------------------------------------------------- */

enum memory_kind {
    MEMORY_PARAMETERS,  /* entry parameters that are weights */
    MEMORY_OPTIMIZER,   /* other state that comes in and goes out changed */
    MEMORY_INPUTS,      /* the rest of the entry's parameters */
    MEMORY_GRADIENTS,   /* local shape of a weight, made in the backward pass */
    MEMORY_ACTIVATIONS, /* made in the forward pass, needed in the backward one */
    MEMORY_TEMPORARIES,
    MEMORY_COLLECTIVES, /* results of collectives */
    MEMORY_OUTPUTS,     /* results that take no donated buffer */
    MEMORY_KINDS
};
const char *memory_kind_name(enum memory_kind k);

/* A buffer: the value of one leaf of one instruction, and when it is there. */
struct buffer {
    instr_id instr;
    int64_t leaf;
    int64_t bytes;
    uint8_t kind;   /* enum memory_kind */
    bool collective_or_matrix;
    uint32_t from, to; /* positions in the schedule of its computation */
    comp_id comp;
};

struct memory {
    struct arena arena;
    int64_t arguments, outputs, aliased; /* as XLA reports them: outputs with the table of a tuple */
    int64_t constants;
    int64_t temporaries;   /* most that is live at once and neither argument nor output */
    int64_t peak;          /* arguments and everything else live at the worst point */
    instr_id at;           /* the kernel at the peak, innermost */
    comp_id at_comp;
    uint32_t at_position;
    int64_t by_kind[MEMORY_KINDS]; /* at the peak; sums to peak */
    int64_t nlive;         /* buffers at the peak, largest first; parameters included */
    struct buffer *live;
    int64_t nbuffers;      /* all buffers that were looked at: a counter */
    /* For pictures: memory after each kernel of the entry, loops and calls at their own peak. */
    uint32_t ncurve;
    int64_t *curve;
};
struct memory *memory_of(const struct cost_plan *p, const struct cost_options *o) MUST_CHECK;
void memory_free(struct memory *m);

/* What a value of a loop's body takes when all its turns are kept (a residual for the backward pass). */
int64_t memory_kept(const struct cost_plan *p, instr_id i);

/* How far what grows with the batch could grow until `capacity` is full: factor over today's. Inputs,
 * activations, temporaries and collective buffers grow; weights, their state and gradients stay. */
double memory_batch_room(const struct memory *m, int64_t capacity);

/* ---- hardware: data, one file a device type (assets/hardware/README.md) ------------------------- */

/* A number with its unit and where it comes from. */
struct figure {
    double value;
    const char *unit, *source; /* NULL: not given */
};

enum network_kind { NETWORK_TORUS, NETWORK_SWITCH };

struct network_level {
    const char *name;
    enum network_kind kind;
    struct figure bandwidth; /* torus: a link, one way; switch: a device, one way */
    struct figure latency;   /* of a hop; of a message */
    struct figure axes, largest, wrap; /* torus */
    struct figure size;      /* switch: devices behind it; 0: any number */
};

enum { NETWORK_LEVELS = 3, MACHINE_AXES = 8 };

/* What share of the data sheet is reached: constants fitted on measured steps (assets/calibration.json
 * tells on which, and how well they do on others). */
struct calibration {
    double matrix;   /* of the matrix unit's peak, on whole tiles */
    double vector;   /* of the operations outside the matrix unit */
    double memory;   /* of the memory's bandwidth */
    double link;     /* of a link's bandwidth */
    double all_to_all; /* of a link's bandwidth when all talk to all */
    double kernel;   /* seconds to start a kernel */
};

struct hardware {
    const char *name, *title;
    struct calibration calibration;   /* the shipped one, unless its owner puts another */
    struct figure per_chip;           /* devices that share a chip and its links */
    struct figure bf16, f32, int8, fp8; /* peak FLOP/s of one device; 0: as bf16 */
    struct figure vector;
    struct figure memory, bandwidth;
    struct figure tile;
    int nlevels;
    struct network_level level[NETWORK_LEVELS];
    struct arena arena;
};

/* The shipped ones, by name in order; NULL behind the last. */
const char *const *hardware_names(void);
/* The text of a shipped file; NULL: no such name. */
const char *hardware_text(const char *name, size_t *n);
/* src: JSON. Refused with a place where a number or its source is missing. */
struct hardware *hardware_read(const struct source *src, struct diag *d) MUST_CHECK;
void hardware_free(struct hardware *h);

bool calibration_read(const struct source *src, struct calibration *out, struct diag *d) MUST_CHECK;
void calibration_default(struct calibration *out); /* the shipped file */

/* The devices of a program on the hardware: device ids run through the axes, the first axis slowest;
 * the devices of a chip come last. */
struct machine {
    const struct hardware *hardware; /* a loan */
    struct calibration calibration;
    int64_t ndevices;
    int naxes;
    struct machine_axis {
        int64_t size, stride; /* devices along it; ids between neighbours */
        int level;            /* of the hardware's network; -1: devices of one chip */
        bool wrap;
    } axes[MACHINE_AXES];
    int64_t sharers; /* devices of a chip */
    order_id places; /* devices to places, which run through the axes as ids do otherwise; none: place d is device d */
};
/* shape: chips along each torus axis, [nshape], or NULL: near square, rows not shorter than
 * columns, as slices are cut. */
bool machine_make(const struct hardware *h, int64_t ndevices, int nshape, const int64_t *shape,
                  struct machine *out, struct diag *d) MUST_CHECK;
void machine_print(const struct machine *m, struct str *out); /* "8x8 chips x 2, no rings" */

/* ---- time ------------------------------------------------------------------------------------- */

/* One collective on the network. */
struct link_use {
    int naxes;
    struct {
        int axis;         /* of the machine */
        int64_t extent;   /* members along it */
        int64_t sharing;  /* groups that use the same links at once */
        bool ring;
        double bandwidth; /* of one group's ring along it, both ways together */
    } axes[MACHINE_AXES];
    double bytes;         /* V: the whole buffer of a group, or what a device sends */
    double transfer, latency, seconds;
};
/* Time of one run of a collective; c as collectives_list gives it (bytes with its trip counts), once:
 * the bytes of one run of what is gathered or reduced. */
double collective_seconds(const struct machine *m, const struct module *mod, const struct collective *c,
                          struct link_use *use);

enum overlap {
    OVERLAP_NONE,  /* as written: start / done pairs overlap what is between, others nothing */
    OVERLAP_FULL   /* a collective hides behind the compute of its computation, as far as that lasts */
};

struct op_time {
    float flops_time, memory_time; /* seconds of one run; the larger one counts */
    float comm;                    /* of a collective */
    float exposed;                 /* of comm: not hidden behind compute */
    float total;                   /* seconds of one run, without what is called */
};

struct cost {
    struct arena arena;
    const struct cost_plan *plan; /* a loan */
    struct machine machine;
    double step;                  /* seconds */
    double compute, comm, exposed;
    double flops, matrix_flops, bytes; /* of one device in one step */
    double utilisation;           /* matrix FLOPs over peak and step */
    bool trips_known;
    struct op_time *of;           /* [ninstrs + 1] kernels; others 0 */
    double *once;                 /* [ncomps + 1] seconds of one run, with what it calls */
    double *weight;               /* [ncomps + 1] runs a step; 0: a branch that is not the costliest */
    int64_t ncollectives;
    struct collective *collectives;
    int32_t *collective_of;       /* [ninstrs + 1] index, -1 */
};
struct cost *cost_of(const struct cost_plan *p, const struct machine *m, enum overlap overlap,
                     int64_t replica_count) MUST_CHECK;
void cost_free(struct cost *c);
/* FLOP/s of one device for a matrix operation on this type. */
double hardware_peak(const struct hardware *h, enum dtype t);
/* Share of the matrix unit's tiles that a dot or convolution fills: 1 = all. */
double matrix_fill(const struct module *m, instr_id i, double tile);

#endif
