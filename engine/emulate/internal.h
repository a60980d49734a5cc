/* Inside the emulator: how elements are represented, what a plan is made of, and what kernels see.
 *
 * A module is lowered once (plan.c, lower_*.c): each computation becomes a list of steps with their
 * kernels and strides chosen. Devices are resumable states that run the shared plan (exec.c),
 * parked at collectives (collective.c); workers run devices (schedule.c). run.c and verify.c are
 * the public face.
 *
 * Values are flat lists of leaves. Each leaf lives in a *slot* of its device, a pointer to a
 * counted buffer. Tuples, tuple elements, copies and reshapes are names for slots that exist: they
 * cost nothing when the program runs.
 */
#ifndef GSPMD_EMULATE_INTERNAL_H
#define GSPMD_EMULATE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/fail.h"
#include "emulate/emulate.h"

/* ---- elements ----------------------------------------------------------------------------------
 */

enum emu_mode { EMU_FLOAT, EMU_RING };

/* How one element lies in memory and which kernels compute on it. */
enum ctype {
    CT_PRED,
    CT_S2,
    CT_S4, /* one a byte, sign-extended */
    CT_S8,
    CT_S16,
    CT_S32,
    CT_S64,
    CT_U2,
    CT_U4,
    CT_U8,
    CT_U16,
    CT_U32,
    CT_U64,
    CT_SMALL, /* f16, bf16, f8, f4: computed in f32, strip by strip */
    CT_F32,
    CT_F64,
    CT_C64,
    CT_C128,
    CT_RING,  /* wrapping 64-bit integer in place of a float */
    CT_RINGC, /* a pair of them in place of a complex number */
    CT_TOKEN,
    CT_COUNT
};

struct elem {
    enum ctype ct;
    int size;
    enum dtype t;
};

struct elem elem_of(enum dtype t, enum emu_mode mode);
static inline bool ct_is_int(enum ctype c)
{
    return c >= CT_S2 && c <= CT_U64;
}

#define STRIP    256 /* lanes that strip-wise code handles at a time */
#define MAX_RANK 64

/* small.c: floats of fewer than 32 bits. */
void small_to_f32(enum dtype t, const void *in, float *out, int64_t n);
void f32_to_small(enum dtype t, const float *in, void *out, int64_t n);
/* One value of any float type, as a double. */
double real_load(enum dtype t, const void *p);
void real_store(enum dtype t, double v, void *p);
double real_max(enum dtype t); /* largest finite value */
int real_digits(enum dtype t); /* bits of precision, the hidden one included */
/* Rounds a number of exponent and mantissa bits to narrower widths (reduce-precision). */
uint64_t reduce_precision(uint64_t bits, int exponent, int mantissa, int to_exponent,
                          int to_mantissa);

/* ring.c: the fixed mixing functions. */
int64_t ring_mix(uint64_t tag, uint64_t a, uint64_t b);
int64_t ring_from_double(enum dtype t, double v);                             /* a constant */
void ring_from_floats(enum dtype t, const void *in, int64_t *out, int64_t n); /* complex: pairs */

/* ---- elementwise kernels -----------------------------------------------------------------------
 */

/* In front of a loop whose turns are independent even where out is one of in: element by element. */
#if defined(__clang__)
#define SAME_PLACE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SAME_PLACE _Pragma("GCC ivdep")
#else
#define SAME_PLACE
#endif

/* An elementwise operation over n contiguous elements. out may be one of in. */
struct ew;
typedef void (*ew_fn)(const struct ew *e, void *out, const void *const *in, int64_t n);
struct ew {
    ew_fn fn;
    enum op_kind op;
    int nin;
    struct elem in, out;    /* in: of the first data operand (select: the branches) */
    const struct ew *inner; /* what a strip-wise wrapper runs */
    int64_t a, b;           /* parameters: compare direction, reduce-precision widths */
};

/* Leaf kernels by operation and compute type; NULL: none. ew_arith.c, ew_ring.c */
ew_fn ew_arith(enum op_kind op, enum ctype ct);
ew_fn ew_ring(enum op_kind op, enum ctype ct);
/* op over elements of type in -> out; a, b as above. NULL: no kernel. */
const struct ew *ew_make(struct arena *a, enum op_kind op, struct elem in, struct elem out,
                         int64_t p, int64_t q);
/* Of an instruction of m; NULL: no kernel. Clamp and select need equal shapes. */
const struct ew *ew_of_instr(struct arena *a, const struct module *m, instr_id i,
                             enum emu_mode mode);
ew_fn convert_kernel(struct elem in, struct elem out);

enum { DIR_EQ, DIR_NE, DIR_LT, DIR_LE, DIR_GT, DIR_GE, DIR_TOTAL = 8 };

/* Folds: acc[i * sa] = op(acc[i * sa], x[i * sx]) in order, strides in elements. For reductions.
 * NULL: no direct kernel for this pair. (CT_SMALL has none: callers widen to f32.) */
typedef void (*fold_fn)(void *acc, int64_t sa, const void *x, int64_t sx, int64_t n);
fold_fn fold_kernel(enum op_kind op, enum ctype ct);
/* The same for FOLD_AT_ONCE neighbouring accumulators, whose rows of n elements begin `stride` apart:
 * acc[k] = op(acc[k], x[k * stride + i]), i in order. NULL: none. */
enum { FOLD_AT_ONCE = 16 };
typedef void (*rows_fn)(void *acc, const void *x, int64_t stride, int64_t n);
rows_fn fold_rows_kernel(enum op_kind op, enum ctype ct);

/* ---- regions: reducers, comparators, map -------------------------------------------------------
 */

struct region_step {
    const struct ew *ew;
    uint32_t in[3], out;
};

/* A computation over scalars, run over strips of lanes. */
struct region {
    int nparams, nroots;
    const uint32_t *params, *roots; /* slots */
    struct elem *slots;
    uint32_t nslots;
    uint32_t nsteps;
    const struct region_step *steps;
    uint32_t nconsts;
    const struct region_const {
        uint32_t slot;
        const void *value;
    } * consts;
    enum op_kind simple;  /* root = op(parameter 0, parameter 1), one type: direct kernels */
    enum op_kind compare; /* OP_COMPARE: root = compare(parameter cmp_a, parameter cmp_b) */
    int cmp_a, cmp_b, cmp_dir;
};

/* NULL: something in it has no kernel (reported to d). */
const struct region *region_make(struct arena *a, const struct module *m, comp_id c,
                                 enum emu_mode mode, struct diag *d);
struct region_scratch {
    char **slots; /* [nslots], STRIP lanes each */
};
void region_scratch(const struct region *r, struct arena *a, struct region_scratch *out);
/* in[k], out[k]: n <= STRIP contiguous lanes. out may be in. */
void region_eval(const struct region *r, const struct region_scratch *s, const void *const *in,
                 void *const *out, int64_t n);

/* ---- strided boxes ------------------------------------------------------------------------------
 */

/* A box of elements walked on two sides, strides in elements. Canonical after box_compact: no
 * dimension of size 1, neighbours merged where both sides allow. */
struct box {
    int rank;
    int64_t *dims, *dst, *src; /* strides */
    int64_t dst0, src0;        /* offsets */
    bool empty;
};

struct box box_new(struct arena *a, int rank);
void box_compact(struct box *b);
void box_copy(const struct box *b, void *dst, const void *src, int size);
/* Calls f for every row along the last dimension: offsets in elements. */
typedef void (*row_fn)(void *context, int64_t dst, int64_t dst_stride, int64_t src,
                       int64_t src_stride, int64_t n);
void box_rows(const struct box *b, row_fn f, void *context);
/* Dimensions of a scalar may be NULL. */
static inline void dims_copy(int64_t *to, const int64_t *from, int rank)
{
    for (int k = 0; k < rank; k++)
        to[k] = from[k];
}
static inline bool dims_equal(const int64_t *a, const int64_t *b, int rank)
{
    for (int k = 0; k < rank; k++)
        if (a[k] != b[k])
            return false;
    return true;
}
/* Row-major strides in elements. */
void row_strides(int rank, const int64_t *dims, int64_t *strides);
void fill_elements(void *dst, const void *value, int size, int64_t n);

/* ---- buffers ------------------------------------------------------------------------------------
 */

struct buf {
    _Atomic int32_t refs; /* pinned and borrowed ones start at 2, so that nobody writes in place */
    int8_t klass;         /* size class of the pool; -1: malloc; -2: data borrowed */
    int64_t bytes;
    void *data;
    uint8_t *poison; /* malloc, one byte an element; NULL: clean */
    double *bound; /* malloc, one an element: how far another program's value may be; NULL: exact */
    struct buf *next; /* in a pool's free list */
};

#define POOL_CLASSES 14 /* 64 bytes .. 512 KB */
struct pool {
    struct buf *free[POOL_CLASSES];
    int64_t bytes; /* allocated through this pool and not given back to the system */
};

struct buf *buf_new(struct pool *p, int64_t bytes);
struct buf *buf_borrow(const void *data, int64_t bytes, const uint8_t *poison, int64_t count);
void buf_drop(struct pool *p, struct buf *b); /* NULL is fine */
static inline struct buf *buf_ref(struct buf *b)
{
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}
static inline bool buf_alone(struct buf *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}
void pool_free(struct pool *p);
void buf_trim(void); /* large buffers that wait for another use go back to the system */

/* ---- plans --------------------------------------------------------------------------------------
 */

struct step;
struct fused;
typedef void (*kernel_fn)(const struct step *s, void *const *out, const void *const *in);
/* pin[k] NULL: operand k is clean. pout[k]: zeroed, one byte an element. Runs before the kernel. */
typedef void (*poison_fn)(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in);

/* Error bounds (bound.c) beside values; ein[k] NULL: operand k is exact. Runs behind the kernel. */
typedef void (*bound_fn)(const struct step *s, double *const *eout, const double *const *ein,
                         const void *const *in, void *const *out);

enum step_kind {
    STEP_KERNEL,
    STEP_PARTITION_ID,
    STEP_REPLICA_ID,
    STEP_RNG_STATE, /* a counter of the device, before its step is added */
    STEP_WHILE,
    STEP_CONDITIONAL,
    STEP_CALL,
    STEP_COLLECTIVE,
    STEP_TAP, /* shows a value to the run's observer */
    STEP_CUT, /* the shard of a whole array that this device holds (manual regions) */
    STEP_TOKEN,
    STEP_DONE /* of an asynchronous pair; in unfused plans only, it says when and makes nothing */
};

/* What a step produces or reads: count elements of one type. */
struct leaf {
    struct elem elem;
    int64_t count, bytes;
};

struct step {
    uint8_t kind;
    uint8_t
        inplace; /* bit k: operand k may become output 0 when it dies here and nobody shares it */
    bool bound_raises; /* makes error bounds out of exact operands (sums) */
    bool bilinear;     /* bound_sum: a product of operands 0 and 1, else linear in `data` */
    uint64_t data;     /* bound_moved, bound_sum: bit k: operand k is moved or summed; the others
                          say where (bit 63: all from 63 on) */
    double reorder;    /* bound_sum: times S: what another order of the sum may change */
    instr_id instr;
    uint32_t nin, nout, nrelease, nrelease_in; /* release: operands first, then own results */
    const uint32_t *in, *out, *release;        /* slots */
    const struct leaf *lin, *lout;
    kernel_fn fn;
    poison_fn poison;
    bound_fn bound; /* NULL: a result is unknown when an operand is inexact */
    const void *p;  /* the kernel's own data; control: struct control; collective: struct coll */
    const struct fused *fused; /* several elementwise steps in one (fuse.c), instead of fn; or NULL */
};

struct control {
    const struct comp_plan *
        *comps; /* while: condition, body; conditional: branches; call: callee */
    uint32_t ncomps;
    const uint32_t *arg_start; /* conditional: first operand leaf of each branch, in `in` */
    bool pred_index;           /* conditional on a pred: true first */
    bool float_ended;          /* the loop's condition compares floats */
};

struct comp_plan {
    comp_id comp;
    uint32_t nsteps;
    const struct step *steps;
    uint32_t nparams, nroots; /* leaves */
    const uint32_t *params;   /* slots */
    const bool *param_used;
    const uint32_t *roots;
    const struct leaf *lparams, *lroots;
    uint32_t slot0, nslots; /* its own slots: dropped at the end */
    int64_t peak; /* bytes of its slots and callees at the worst moment, parameters aside */
    uint32_t ncollectives;
};

/* A whole array and its shards. */
struct cut {
    sharding_id sharding;
    int rank;
    const int64_t *dims; /* whole */
};

/* One collective's meaning on a given number of devices. collective.c */
struct coll {
    enum op_kind kind; /* without -start */
    uint32_t index;    /* its meetings' place: equal for instructions of one kind and channel */
    const struct region *reducer;
    fold_fn fold;       /* direct reducer; NULL: region */
    bool widen;         /* summed in f32 */
    int dim;            /* all-gather, reduce-scatter, all-to-all: along; -1: tuple form */
    uint32_t first_out; /* -start forms repeat the operands before the results */
    uint32_t nresults;
    int64_t ngroups;
    const int64_t *start;    /* [ngroups + 1] into members */
    const int64_t *members;  /* devices in group order */
    const int64_t *group_of; /* [ndevices] -1: takes no part */
    const int64_t *rank_of;  /* [ndevices] */
    const int64_t *source;   /* permute: [ndevices] who sends to d, -1: nobody */
    const struct cut *join;  /* the end of a manual region */
    const struct coll_leaf {
        int64_t outer, in, out, inner; /* outer x size along dim x inner, of operand and result */
    } * leaves;
};

/* A value that is the same on every device and known before the program starts. */
struct const_slot {
    uint32_t slot;
    struct buf *buf;
};

struct slot_names;

struct plan {
    const struct module *m;
    enum emu_mode mode;
    bool bounds; /* error bounds are kept beside the values */
    /* Manual regions of an unpartitioned module have no meaning on one device. With final shardings
     * given (by instruction) each device runs the whole module: full arrays outside of the regions,
     * its own shard inside, cut and joined where they begin and end. */
    const sharding_id *manual;
    int64_t ndevices, nreplicas, npartitions;
    struct arena arena;
    const struct comp_plan **comps; /* [ncomps + 1] */
    const struct comp_plan *entry;
    uint32_t nslots;
    VEC(struct const_slot) consts;
    int64_t const_bytes;
    struct pool pool;       /* of the constants */
    const bool *slot_const; /* [nslots] */
    uint32_t ncolls;
    const struct coll **colls; /* [ncolls] the first of each index */
    int depth;                 /* deepest nesting of computations */
    const uint8_t *taps;       /* [ninstrs + 1] instructions to show, or NULL */
    /* For a debugger: a value stays in its slot until the same step runs again, nothing is written
     * in place, and names tells the slots of each instruction. */
    bool keep;
    bool unfused; /* each instruction is a step of its own: traced runs, planted faults */
    const struct slot_names *names; /* [ninstrs + 1]; keep only */
};

/* Slots of an instruction's leaves. */
struct slot_names {
    uint32_t n;
    const uint32_t *slots;
    const struct leaf *leaves;
};

/* taps: instructions whose values are shown to the observer; NULL. See struct plan for the rest. */
struct plan_options {
    enum emu_mode mode;
    bool bounds;
    const sharding_id *manual;
    int64_t ndevices;
    const uint8_t *taps;
    bool keep;
    bool unfused;
};
struct plan *plan_make(const struct module *m, const struct plan_options *o, struct tick *tick,
                       struct diag *d) MUST_CHECK;
void plan_free(struct plan *p);

/* ---- lowering -----------------------------------------------------------------------------------
 */

struct lowering {
    struct plan *plan;
    const struct module *m;
    struct arena *a; /* the plan's */
    struct diag *d;
    instr_id id;
    const struct instr *i;
    const struct shape *shape; /* of the instruction; arrays */
    struct step *step;         /* being made: in, out, leaves are set */
    struct planner *planner;
    bool alias; /* set by a handler: the result is operand 0's leaves, no step */
    const char *config; /* instead of the instruction's backend_config; or NULL */
};

/* A handler fills l->step (fn, p, ...) or sets alias. false: cannot, reported to l->d. */
typedef bool (*lower_fn)(struct lowering *l);
#define OP(id, hlo, shlo, lo, hi, v, p, t, e, c) bool lower_##e(struct lowering *l);
#include "ir/ops.def"
bool lower_missing(const struct lowering *l, const char *what); /* reports; false */
const struct shape *operand_shape(const struct lowering *l, uint32_t k);
/* Names a custom-call target that has a kernel. */
bool custom_call_known(const char *target);
/* A border of a manual region at which the shape changes. */
bool custom_call_changes_shape(const struct module *m, instr_id id);
bool op_has_kernel(enum op_kind op);
bool op_is_outside(enum op_kind op);

/* bound.c */
void bound_moved(const struct step *s, double *const *eout, const double *const *ein,
                 const void *const *in, void *const *out);
/* Sums and products: linear in the data operands, or bilinear. */
void bound_sum(const struct step *s, double *const *eout, const double *const *ein,
               const void *const *in, void *const *out);
void set_bound_sum(struct lowering *l, uint64_t data, bool bilinear, int64_t terms);
bool region_sums(const struct region *r); /* has arithmetic on floats: order matters */
void bound_ew(const struct step *s, double *const *eout, const double *const *ein,
              const void *const *in, void *const *out);
void bound_select(const struct step *s, double *const *eout, const double *const *ein,
                  const void *const *in, void *const *out);
void bound_clamp(const struct step *s, double *const *eout, const double *const *ein,
                 const void *const *in, void *const *out);
double unit_roundoff(enum dtype t); /* largest relative error of rounding to t; 0 for integers */
double real_at(struct elem e, const void *p, int64_t i); /* size of a complex element */

/* poison.c: shadow rules */
void poison_or(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
               const void *const *in);
void poison_all(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                const void *const *in);
void poison_select(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                   const void *const *in);
void poison_clamp(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                  const void *const *in);
void poison_logic(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                  const void *const *in);

/* ---- matrix products (dot.c) --------------------------------------------------------------------
 */

/* c[m,n] += a[m,k] b[k,n], all dense row-major; ta: a is stored [k,m]; tb: b is stored [n,k].
 * ct: F32, F64, S64 (any integer), RING, C64, C128, RINGC, PRED. c is set to zero before. */
void matmul(enum ctype ct, const void *a, bool ta, const void *b, bool tb, void *c, int64_t m,
            int64_t n, int64_t k);
/* Type in which products of elements of type t are summed. */
struct elem accumulator_of(struct elem e);

/* ---- running ------------------------------------------------------------------------------------
 */

/* Sees values as devices make them, on worker threads: own locking. nth: how often this device has
 * shown this instruction before. */
struct observer {
    void (*fn)(void *context, int64_t device, instr_id instr, int64_t nth, uint32_t nleaves,
               struct buf *const *leaves);
    void *context;
};

struct tracer;
struct waiting_message;
struct logged;
struct meeting;

struct frame {
    const struct comp_plan *plan;
    uint32_t pc;
    uint8_t phase;   /* of a while: 0 enter, 1 condition done, 2 body done; of a call: 1 done */
    uint32_t branch; /* of a conditional */
};

enum device_state { DEVICE_READY, DEVICE_RUNNING, DEVICE_PARKED, DEVICE_DONE };

/* One emulated device. Everything here is written by the worker that runs it, or, while it is
 * parked or ready, under the run's lock. */
struct device {
    int64_t id, partition, replica;
    struct buf **slots;
    struct frame *stack;
    int depth;
    enum device_state state;
    struct pool pool;
    int64_t steps, loops;
    struct rendezvous *at; /* where it is parked */
    uint32_t *tap_count;
    uint64_t rng_state[2];
    bool control_poisoned; /* a branch or a loop depended on padding */
    instr_id control_at;
    /* traced runs and planted faults (trace.c) */
    int64_t budget; /* steps until it stops; only in runs that are stepped */
    int64_t clock;
    uint32_t *turn;   /* [ninstrs + 1] how often it has come to each instruction; NULL: not watched */
    int64_t ticks[5]; /* by trace_kind */
    int64_t wire, overrun; /* links busy with flights until; ticks waited for these */
    int64_t *due;          /* [ninstrs + 1] when the flight of a -start ends */
    struct meeting **due_at;
    bool flew;
    int64_t hops_kept;
    bool killed, log_cut;
    struct arena log_arena;
    VEC(struct logged) log;
};

/* Devices that meet in one collective of one group. Written under the run's lock, but for the last
 * to come, who has it and all members alone until they are ready again. */
struct rendezvous {
    const struct coll *coll; /* NULL: nobody is here */
    const struct step *step; /* of the first to come */
    int64_t group, arrived, size;
    const struct step **steps; /* [size] by rank: where each is */
    struct device **members;   /* [size] by rank; NULL: not yet */
};

struct run {
    const struct plan *plan;
    struct device *devices;
    int64_t ndevices;
    struct arena arena;
    struct buf **inputs; /* [ndevices * nin] borrowed ones: the run holds a reference */
    int64_t ninputs;
    const struct observer *observer;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    int64_t *queue; /* ring of ready devices */
    int64_t qhead, qlen;
    int64_t nrunning, ndone;
    struct rendezvous **table; /* [ncolls][ngroups] */
    atomic_bool stop;
    atomic_llong loops;
    int64_t max_loops, max_float_loops;
    uint64_t random; /* schedule_seed's state; 0: plain order */
    bool failed, stuck, interrupted;
    instr_id fail_at;
    char fail_text[600];
    bool float_limit; /* a loop that ends on a comparison of floats did not end */
    /* Watched runs: chunks move hop by hop, turns are counted. trace.c, move.c */
    bool watched;
    bool stepped; /* a debugger: devices stop when their budget is used up */
    enum collective_algorithm how;
    struct tracer *tracer; /* NULL: no record is kept */
    struct fault *faults;  /* each is written by the worker that runs its device */
    int nfaults;
    /* Over several processes (remote.c). */
    bool distributed, told;
    int64_t run_id;
    struct waiting_message *messages; /* for turns that have not begun here */
};

/* Runs a device until it parks, ends or the run is stopped. */
enum device_state device_run(struct run *r, struct device *dev);
/* The step of a device that came to a collective: PARKED, or READY when it may go on at once (all
 * have come: the others are in the queue then, or it takes no part). */
enum device_state collective_step(struct run *r, struct device *dev, const struct step *s);
void run_enqueue(struct run *r, struct device *dev); /* under the lock */
void run_fail(struct run *r, instr_id at, const char *fmt, ...) PRINTF_LIKE(3, 4);
void rendezvous_make(struct run *r);
void step_release(struct buf **slots, struct pool *pool, const struct step *s);
bool coll_lower(struct lowering *l);
bool coll_lower_join(struct lowering *l, const struct cut *cut);
/* The box between a whole array (src) and a device's shard (dst), in a. */
struct box cut_box(struct arena *a, const struct shardings *t, const struct cut *c, int64_t device,
                   int64_t *local_count);
/* Runs one kernel step on slots; used by devices and to fold constants. */
void step_run(const struct plan *p, struct pool *pool, struct buf **slots, const struct step *s);
void fused_run(const struct plan *p, struct pool *pool, struct buf **slots, const struct step *s);
uint32_t fused_members(const struct fused *f);

/* Options of a run that the public ones do not have. */
struct run_more {
    const struct observer *observer;
    int64_t max_float_loops;
    bool *float_limit; /* set when a loop that ends on floats hit its limit */
    instr_id *control; /* set to a branch or loop that depended on padding; or NULL */
    double **
        *bounds; /* [nleaves] of device 0's outputs, NULL where exact; all malloc'ed; or NULL */
};
bool run_plan(const struct plan *p, const struct tensor *inputs, int64_t nin,
              const struct run_options *o, const struct run_more *more, struct run_result *out,
              struct tick *tick, struct diag *d) MUST_CHECK;
bool schedule_run(struct run *r, int threads, struct tick *tick, struct diag *d) MUST_CHECK;
void report_deadlock(const struct run *r, struct diag *d);
/* Parts of run_plan, for a debugger. */
void devices_make(struct run *r, const struct tensor *in, int64_t nin, const struct run_options *o);
void devices_free(struct run *r);

/* tensor.c */
bool tensor_alloc(enum dtype t, int rank, const int64_t *dims, bool ring, struct tensor *out);
bool tensor_to_ring(const struct tensor *in, struct tensor *out);
/* The part of a global array that a device holds: for each dimension the first index and the number
 * of real elements. false: the device holds nothing of it (maximal elsewhere). */
bool shard_window(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                  int64_t device, int64_t *start, int64_t *real, int64_t *local);

#endif
