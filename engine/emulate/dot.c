/* Matrix products, and dot by them.
 *
 * A dot is a batch of products [m,k] x [k,n] in row-major order of (batch, lhs free, rhs free),
 * which is its result's own order. Operands whose dimensions stand otherwise are packed first. f32
 * and f64 go to OpenBLAS where it pays, opened at the first product and kept to one thread; the
 * rest are plain loops. Integers are summed in 64 bits, which wraps to the same low bits.
 */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "emulate/linalg.h"
#include "emulate/lower.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- OpenBLAS -----------------------------------------------------------------------------------
 */

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *,
                         int, float, float *, int);
typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *,
                         int, double, double *, int);
static void *blas_library;
static sgemm_fn sgemm;
static dgemm_fn dgemm;
static sem_t blas_callers;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

static void blas_open(void)
{
    static const char *const names[] = { "libopenblas.so.0", "libopenblas.so" };
    void *lib = NULL;
    for (size_t k = 0; k < COUNTOF(names) && !lib; k++)
        lib = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
    blas_library = lib;
    void (*threads)(int) = NULL;
    /* The detour keeps ISO C content: object to function pointers. */
    *(void **)(void *)&threads = dlsym(lib, "openblas_set_num_threads");
    *(void **)(void *)&sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)(void *)&dgemm = dlsym(lib, "cblas_dgemm");
    if (threads)
        threads(1);
    /* OpenBLAS ends the process when more threads call than it has buffers for. */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    sem_init(&blas_callers, 0, cores < 1 ? 1 : cores > 32 ? 32 : (unsigned)cores);
}

void *blas_symbol(const char *name)
{
    pthread_once(&blas_once, blas_open);
    return blas_library ? dlsym(blas_library, name) : NULL;
}

void blas_enter(void)
{
    sem_wait(&blas_callers);
}

void blas_leave(void)
{
    sem_post(&blas_callers);
}

static bool blas(enum ctype ct, const void *a, bool ta, const void *b, bool tb, void *c, int64_t m,
                 int64_t n, int64_t k)
{
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX)
        return false;
    pthread_once(&blas_once, blas_open);
    if (ct == CT_F32 ? !sgemm : !dgemm)
        return false;
    int lda = (int)(ta ? m : k), ldb = (int)(tb ? k : n);
    sem_wait(&blas_callers);
    if (ct == CT_F32)
        sgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, 1, a,
              lda, b, ldb, 0, c, (int)n);
    else
        dgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, 1, a,
              lda, b, ldb, 0, c, (int)n);
    sem_post(&blas_callers);
    return true;
}

/* ---- plain loops --------------------------------------------------------------------------------
 */

#define LOOPS(name, T)                                                                     \
    static void name(const T *a, bool ta, const T *b, bool tb, T *c, int64_t m, int64_t n, \
                     int64_t k)                                                            \
    {                                                                                      \
        memset(c, 0, (size_t)(m * n) * sizeof(T));                                         \
        for (int64_t i = 0; i < m; i++) {                                                  \
            T *row = c + i * n;                                                            \
            if (tb) {                                                                      \
                for (int64_t j = 0; j < n; j++) {                                          \
                    T sum = 0;                                                             \
                    for (int64_t q = 0; q < k; q++)                                        \
                        sum += a[ta ? q * m + i : i * k + q] * b[j * k + q];               \
                    row[j] = sum;                                                          \
                }                                                                          \
                continue;                                                                  \
            }                                                                              \
            for (int64_t q = 0; q < k; q++) {                                              \
                T x = a[ta ? q * m + i : i * k + q];                                       \
                const T *from = b + q * n;                                                 \
                for (int64_t j = 0; j < n; j++)                                            \
                    row[j] += x * from[j];                                                 \
            }                                                                              \
        }                                                                                  \
    }

LOOPS(loops_f32, float)
LOOPS(loops_f64, double)
LOOPS(loops_u64, uint64_t)

/* Complex numbers as pairs: T double (c128) or uint64_t (ring). */
#define PAIRS(name, T)                                                                     \
    static void name(const T *a, bool ta, const T *b, bool tb, T *c, int64_t m, int64_t n, \
                     int64_t k)                                                            \
    {                                                                                      \
        memset(c, 0, (size_t)(m * n) * 2 * sizeof(T));                                     \
        for (int64_t i = 0; i < m; i++)                                                    \
            for (int64_t q = 0; q < k; q++) {                                              \
                const T *x = a + 2 * (ta ? q * m + i : i * k + q);                         \
                for (int64_t j = 0; j < n; j++) {                                          \
                    const T *y = b + 2 * (tb ? j * k + q : q * n + j);                     \
                    T *r = c + 2 * (i * n + j);                                            \
                    r[0] += x[0] * y[0] - x[1] * y[1];                                     \
                    r[1] += x[0] * y[1] + x[1] * y[0];                                     \
                }                                                                          \
            }                                                                              \
    }

PAIRS(pairs_f64, double)
PAIRS(pairs_u64, uint64_t)

void matmul(enum ctype ct, const void *a, bool ta, const void *b, bool tb, void *c, int64_t m,
            int64_t n, int64_t k)
{
    if (m == 0 || n == 0)
        return;
    if ((ct == CT_F32 || ct == CT_F64) && k && m * n * k > 4096 &&
        blas(ct, a, ta, b, tb, c, m, n, k))
        return;
    if (ct == CT_F32)
        loops_f32(a, ta, b, tb, c, m, n, k);
    else if (ct == CT_F64)
        loops_f64(a, ta, b, tb, c, m, n, k);
    else if (ct == CT_C128)
        pairs_f64(a, ta, b, tb, c, m, n, k);
    else if (ct == CT_RINGC)
        pairs_u64(a, ta, b, tb, c, m, n, k);
    else
        loops_u64(a, ta, b, tb, c, m, n, k);
}

struct elem accumulator_of(struct elem e)
{
    switch ((int)e.ct) {
    case CT_SMALL: return elem_of(DTYPE_F32, EMU_FLOAT);
    case CT_C64: return elem_of(DTYPE_C128, EMU_FLOAT);
    case CT_F32:
    case CT_F64:
    case CT_C128:
    case CT_RING:
    case CT_RINGC: return e;
    default: return elem_of(DTYPE_S64, EMU_FLOAT);
    }
}

/* ---- dot ----------------------------------------------------------------------------------------
 */

struct side {
    bool pack, trans;
    struct box box;
    const struct ew *convert; /* NULL: already of the accumulator's type */
};

struct dot {
    int64_t batch, m, n, k;
    struct elem acc;
    struct side lhs, rhs;
    const struct ew *out;
};

/* Dimensions in the order batch, x, y. True when that is how they stand. */
static bool in_order(int nb, const int *b, int nx, const int *x, int ny, const int *y)
{
    int at = 0;
    for (int k = 0; k < nb; k++)
        if (b[k] != at++)
            return false;
    for (int k = 0; k < nx; k++)
        if (x[k] != at++)
            return false;
    for (int k = 0; k < ny; k++)
        if (y[k] != at++)
            return false;
    return true;
}

/* rows: the free dimensions of the lhs, the contracted ones of the rhs; cols the others. */
static void prepare_side(struct lowering *l, struct side *s, const struct shape *shape,
                         struct elem e, struct elem acc, int nb, const int *b, int nr,
                         const int *rows, int nc, const int *cols)
{
    if (e.ct != acc.ct)
        s->convert = ew_make(l->a, OP_CONVERT, e, acc, 0, 0);
    if (in_order(nb, b, nr, rows, nc, cols))
        return;
    s->trans = in_order(nb, b, nc, cols, nr, rows);
    if (s->trans)
        return;
    s->pack = true;
    s->box = box_new(l->a, shape->rank);
    int64_t *strides = ARENA_ARRAY(l->a, int64_t, shape->rank + 1);
    row_strides(shape->rank, shape->dims, strides);
    int at = 0;
    for (int k = 0; k < nb + nr + nc; k++) {
        int d = k < nb ? b[k] : k < nb + nr ? rows[k - nb] : cols[k - nb - nr];
        s->box.dims[at] = shape->dims[d];
        s->box.src[at++] = strides[d];
    }
    row_strides(at, s->box.dims, s->box.dst);
    box_compact(&s->box);
}

static const char *side_data(const struct side *s, const struct leaf *leaf, struct elem acc,
                             const void *in, struct arena *tmp)
{
    if (s->pack) {
        void *to = arena_alloc(tmp, leaf->count + 1, (size_t)leaf->elem.size);
        box_copy(&s->box, to, in, leaf->elem.size);
        in = to;
    }
    if (!s->convert)
        return in;
    void *to = arena_alloc(tmp, leaf->count + 1, (size_t)acc.size);
    convert_elements(s->convert, in, to, leaf->count);
    return to;
}

static void run_dot(const struct step *s, void *const *out, const void *const *in)
{
    const struct dot *p = s->p;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const char *a = side_data(&p->lhs, &s->lin[0], p->acc, in[0], &tmp);
    const char *b = side_data(&p->rhs, &s->lin[1], p->acc, in[1], &tmp);
    char *c = p->out ? arena_alloc(&tmp, s->lout[0].count + 1, (size_t)p->acc.size) : out[0];
    for (int64_t k = 0; k < p->batch; k++)
        matmul(p->acc.ct, a + k * p->m * p->k * p->acc.size, p->lhs.trans,
               b + k * p->k * p->n * p->acc.size, p->rhs.trans, c + k * p->m * p->n * p->acc.size,
               p->m, p->n, p->k);
    if (p->out)
        convert_elements(p->out, c, out[0], s->lout[0].count);
    arena_close(&tmp);
}

/* Result (b, i, j) is poisoned when anything in row (b, i) of the lhs or column (b, j) of the rhs
 * is. */
static void poison_side(const struct side *s, const struct leaf *leaf, const uint8_t *pin,
                        bool rows, const struct dot *p, uint8_t *pout)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const uint8_t *from = pin;
    if (s->pack) {
        uint8_t *to = arena_alloc(&tmp, leaf->count + 1, 1);
        box_copy(&s->box, to, pin, 1);
        from = to;
    }
    int64_t free = rows ? p->m : p->n;
    for (int64_t b = 0; b < p->batch; b++, from += free * p->k)
        for (int64_t i = 0; i < free; i++) {
            bool bad = false;
            bool by_k = rows != s->trans; /* contracted dimension inside */
            for (int64_t q = 0; q < p->k && !bad; q++)
                bad = from[by_k ? i * p->k + q : q * free + i] != 0;
            if (!bad)
                continue;
            uint8_t *c = pout + b * p->m * p->n;
            if (rows)
                memset(c + i * p->n, 1, (size_t)p->n);
            else
                for (int64_t j = 0; j < p->m; j++)
                    c[j * p->n + i] = 1;
        }
    arena_close(&tmp);
}

static void poison_dot(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                       const void *const *in)
{
    (void)in;
    const struct dot *p = s->p;
    if (pin[0])
        poison_side(&p->lhs, &s->lin[0], pin[0], true, p, pout[0]);
    if (pin[1])
        poison_side(&p->rhs, &s->lin[1], pin[1], false, p, pout[0]);
}

/* Products of short integers are exact in floats while their sum is below 2^24 (f32) or 2^53: then
 * BLAS multiplies them. None: they are not. */
static struct elem exact_float(struct elem a, struct elem b, struct elem out, int64_t k)
{
    struct elem none = { 0 };
    int bits = dtype_bits(a.t) - (dtype_kind(a.t) == DTYPE_KIND_SIGNED) + dtype_bits(b.t) -
               (dtype_kind(b.t) == DTYPE_KIND_SIGNED);
    if (!ct_is_int(a.ct) || !ct_is_int(b.ct) || (out.ct != CT_S32 && out.ct != CT_S64) || bits > 32 ||
        k <= 0 || k > (int64_t)1 << 20)
        return none;
    double most = ldexp((double)k, bits);
    return elem_of(most <= 0x1p24 ? DTYPE_F32 : DTYPE_F64, EMU_FLOAT);
}

bool lower_dot(struct lowering *l)
{
    struct step *s = l->step;
    if (s->nin != 2 || instr_attr(l->i, ATTR_SPARSITY))
        return lower_sparse_dot(l);
    struct dot_dims dd;
    instr_dot_dims(l->m, l->id, &dd);
    struct dot *p = ARENA_NEW(l->a, struct dot);
    const struct shape *a = operand_shape(l, 0), *b = operand_shape(l, 1);
    p->batch = p->m = p->n = p->k = 1;
    for (int k = 0; k < dd.nbatch; k++)
        p->batch *= a->dims[dd.lhs_batch[k]];
    for (int k = 0; k < dd.ncontract; k++)
        p->k *= a->dims[dd.lhs_contract[k]];
    for (int k = 0; k < dd.nlhs_free; k++)
        p->m *= a->dims[dd.lhs_free[k]];
    for (int k = 0; k < dd.nrhs_free; k++)
        p->n *= b->dims[dd.rhs_free[k]];
    p->acc = accumulator_of(s->lout[0].elem);
    struct elem exact = exact_float(s->lin[0].elem, s->lin[1].elem, s->lout[0].elem, p->k);
    if (exact.size)
        p->acc = exact;
    prepare_side(l, &p->lhs, a, s->lin[0].elem, p->acc, dd.nbatch, dd.lhs_batch, dd.nlhs_free,
                 dd.lhs_free, dd.ncontract, dd.lhs_contract);
    prepare_side(l, &p->rhs, b, s->lin[1].elem, p->acc, dd.nbatch, dd.rhs_batch, dd.ncontract,
                 dd.rhs_contract, dd.nrhs_free, dd.rhs_free);
    if (p->acc.ct != s->lout[0].elem.ct)
        p->out = ew_make(l->a, OP_CONVERT, p->acc, s->lout[0].elem, 0, 0);
    s->fn = run_dot;
    s->poison = poison_dot;
    set_bound_sum(l, 3, true, p->k);
    s->p = p;
    return true;
}
