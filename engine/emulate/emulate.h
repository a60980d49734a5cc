/* Emulated devices: runs a module on N devices (or an unpartitioned one on one), and proves that
 * the two agree (DESIGN.md section 5, internals.md section 4).
 */
#ifndef GSPMD_EMULATE_EMULATE_H
#define GSPMD_EMULATE_EMULATE_H

#include "base/tick.h"
#include "emulate/trace.h"
#include "ir/ir.h"
#include "partition/partition.h"

/* One dense array on the host, row-major, dtype_bytes() an element. In ring mode every float
 * element is a 64-bit wrapping integer (8 bytes; complex 16). */
struct tensor {
    enum dtype dtype;
    int rank;
    int64_t *dims;
    void *data; /* malloc; one owner */
    int64_t bytes;
    bool ring;
    uint8_t
        *poison; /* one byte an element when padding is tracked: 1 = must not be seen; or NULL */
};

void tensor_free(struct tensor *t); /* frees the insides, not t */
/* Deterministic small values for parameter number k: the conformance formula
 * v = (7 i + 13 k + 3) mod 17 when seed == 0, else small integers from the seed. Same on every
 * machine. */
bool tensor_generate(enum dtype t, int rank, const int64_t *dims, int64_t k, uint64_t seed,
                     struct tensor *out, struct diag *d) MUST_CHECK;

enum run_mode { RUN_FLOAT, RUN_RING };

struct run_options {
    enum run_mode mode;
    int64_t ndevices;
    int threads;            /* workers; 0: number of cores */
    int64_t max_steps;      /* loop limit over all devices; 0: default */
    int64_t max_bytes;      /* memory limit; 0: three quarters of physical memory */
    bool poison;            /* track that padding never reaches a result */
    uint64_t schedule_seed; /* tests: random order of runnable devices; 0: plain */
    enum collective_algorithm collectives; /* hops of a traced run; never values */
    struct trace *trace;                   /* filled, also when the run fails; NULL: no trace */
    struct fault *faults;                  /* planted (trace.h); hit and when are set */
    int nfaults;
};

/* Ops (and custom-call targets) of m reachable from its entry that have no kernel yet: names into
 * out, in a. 0: all can run. */
int run_missing(const struct module *m, struct arena *a, const char ***out);

/* An instruction whose values come from outside of the program (infeed, recv, rng): they are made up
 * here, and nothing can be compared. None: there is none. */
instr_id module_outside(const struct module *m);

/* Per-device inputs and outputs: [ndevices][nleaves]. Leaves: of entry parameters in order, of the
 * result. */
struct run_result {
    int64_t ndevices, nleaves;
    struct tensor *out; /* out[d * nleaves + leaf] */
    int64_t steps, peak_bytes;
    uint64_t hash; /* of all outputs; same for every thread count and schedule */
};
void run_result_free(struct run_result *r);

/* Runs m on ndevices emulated devices (partition ids 0..n-1). inputs[d * nin + leaf], loans.
 * Reports to d: missing kernels, deadlock (device, instruction, who waits for whom), mismatched
 * collectives, memory and step limits, interruption. */
bool run_module(const struct module *m, const struct tensor *inputs, int64_t nin,
                const struct run_options *o, struct run_result *out, struct tick *tick,
                struct diag *d) MUST_CHECK;

/* Whether a run of m with its inputs and outputs, and more bytes of the caller's, fits the memory
 * limit of o; reported to d when not. To be asked before inputs are made. */
bool run_fits(const struct module *m, const struct run_options *o, int64_t more, struct tick *tick,
              struct diag *d) MUST_CHECK;

/* Cuts a global array into a device's shard (padding: poison, NaN or odd large numbers), and joins
 * shards into the global array; join checks that copies agree (false: first difference reported).
 */
bool tensor_cut(struct shardings *t, sharding_id s, const struct tensor *global, int64_t device,
                struct tensor *out) MUST_CHECK;
bool tensor_join(struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                 const struct tensor *shards /* [ndevices], stride apart */, int64_t stride,
                 int64_t ndevices, struct tensor *out, bool *copies_equal) MUST_CHECK;

/* The partitioned program on global inputs (one a leaf of the entry's parameters) -> global outputs
 * (one a leaf of the result). copies_equal: all devices that hold a piece agree. */
bool run_program(const struct program *p, const struct tensor *global_in, int64_t nin,
                 const struct run_options *o, struct tensor **global_out, int64_t *nout,
                 bool *copies_equal, struct tick *tick, struct diag *d) MUST_CHECK;

/* ---- verify ------------------------------------------------------------------------------------
 */

struct verify_output {
    int64_t index, differ;   /* elements that differ */
    double max_error, bound; /* 0 in ring mode */
};

struct verify_result {
    bool equal;
    enum run_mode mode;      /* the mode that was used in the end */
    const char *mode_reason; /* why float instead of ring, or NULL */
    int64_t devices;
    uint64_t seed;
    int64_t noutputs;
    struct verify_output *outputs;
    bool poisoned; /* padding reached a result */
    /* first difference, when found: an instruction of the *unpartitioned* working graph whose value
     * differs while its operands agree; none when only outputs could be compared */
    instr_id first;
    int64_t device, rank, index[64];
    const char *expected, *got;
    /* verify_each: arrays of the working graph that some node of the program stands for, all arrays,
     * values compared (once a device and turn of a loop), instructions that differ */
    int64_t compared, comparable, values, differing;
    struct arena arena;
};
void verify_result_free(struct verify_result *r);

/* Runs the working graph's module on one device and the program on all, compares. p and its
 * propagation belong together. */
bool verify_program(const struct propagation *pr, const struct program *p, enum run_mode mode,
                    uint64_t seed, int threads, struct verify_result *out, struct tick *tick,
                    struct diag *d) MUST_CHECK;

/* verify_program in ring mode, and every intermediate value that the program has in the final sharding
 * of its instruction compared too: `equal` means all of them. */
bool verify_each(const struct propagation *pr, const struct program *p, uint64_t seed, int threads,
                 struct verify_result *out, struct tick *tick, struct diag *d) MUST_CHECK;

/* Element i as text, short: floats with 6 digits. */
const char *tensor_element_text(struct arena *a, const struct tensor *t, int64_t i);

/* ---- .npy files --------------------------------------------------------------------------------
 */

/* NumPy's format; bf16, f8, f4 as raw bytes V2 / V1 (dtype from the wanted type), s4/u4 one a byte,
 * pred |b1. want: the type and shape that the program needs. */
bool npy_read(const char *path, enum dtype want, int rank, const int64_t *dims, struct tensor *out,
              struct diag *d) MUST_CHECK;
bool npy_write(const char *path, const struct tensor *t, struct diag *d) MUST_CHECK;

#endif
