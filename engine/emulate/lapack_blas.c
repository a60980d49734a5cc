/* LAPACK routines that JAX calls on CPU and that are not worked out from their definitions in lapack.c:
 * singular values (gesdd), eigenvalues and vectors of any square matrix (geev) and of symmetric or
 * Hermitian ones (syevd, heevd), Schur form (gees), Hessenberg and tridiagonal forms (gehrd, sytrd, hetrd),
 * QR with exchanged columns (geqp3), tridiagonal systems (gtsv). OpenBLAS brings LAPACK; XLA's CPU calls the
 * same routines, so signs and order of vectors agree too.
 *
 * Matrices are turned to column-major order, which LAPACK wants, and back.
 */
#include <string.h>

#include "emulate/linalg.h"

enum routine { GESDD, GEEV, SYEVD, GEES, GEHRD, SYTRD, GEQP3, GTSV };

static const struct {
    const char *name;
    enum routine what;
    uint32_t operands, results[2]; /* of real and of complex matrices */
    bool square;
} routines[] = {
    { "gesdd", GESDD, 1, { 5, 5 }, false }, { "geev", GEEV, 1, { 5, 4 }, true },
    { "syevd", SYEVD, 1, { 3, 3 }, true },  { "heevd", SYEVD, 1, { 3, 3 }, true },
    { "gees", GEES, 1, { 6, 5 }, true },    { "gehrd", GEHRD, 1, { 3, 3 }, true },
    { "sytrd", SYTRD, 1, { 5, 5 }, true },  { "hetrd", SYTRD, 1, { 5, 5 }, true },
    { "geqp3", GEQP3, 2, { 3, 3 }, false }, { "gtsv", GTSV, 4, { 5, 5 }, false },
};

struct lapack_call {
    enum routine what;
    uint64_t tag;  /* what ring mode mixes in */
    int64_t batch;
    int m, n;      /* of the matrix; gtsv: order, right sides */
    bool pairs;     /* complex numbers */
    char job[2], uplo; /* 'N': those vectors are not wanted */
    int low, high;
    void (*fn)(void);
};

/* Index of "lapack_<type><name>_ffi" in routines; -1: not one of these. */
static int index_of(const char *target)
{
    if (strncmp(target, "lapack_", 7) != 0 || !target[7] || !strchr("sdcz", target[7]))
        return -1;
    const char *name = target + 8, *end = strstr(name, "_ffi");
    for (size_t k = 0; end && !end[4] && k < COUNTOF(routines); k++)
        if (strlen(routines[k].name) == (size_t)(end - name) &&
            memcmp(routines[k].name, name, (size_t)(end - name)) == 0)
            return (int)k;
    return -1;
}

static void *routine_address(const char *target)
{
    char name[32];
    const char *end = strstr(target, "_ffi");
    size_t n = end ? (size_t)(end - target) - 7 : 0;
    if (n == 0 || n + 2 > sizeof name)
        return NULL;
    memcpy(name, target + 7, n);
    name[n] = '_';
    name[n + 1] = 0;
    return blas_symbol(name);
}

bool lapack_call_known(const char *target)
{
    return index_of(target) >= 0 && routine_address(target);
}

/* ---- order of elements --------------------------------------------------------------------------
 */

static void to_columns(char *to, const char *from, int64_t rows, int64_t cols, int size)
{
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + (c * rows + r) * size, from + (r * cols + c) * size, (size_t)size);
}

static void to_rows(char *to, const char *from, int64_t rows, int64_t cols, int size)
{
    to_columns(to, from, cols, rows, size);
}

/* ---- calling ------------------------------------------------------------------------------------
 *
 * Everything by reference; the lengths of letters stand last, as Fortran compilers pass them.
 */

struct call {
    const struct lapack_call *p;
    struct arena *tmp;
    int size, part; /* bytes of an element, of a real number */
    char *a;        /* the matrix, in columns */
    void *work;
    int lwork, info;
    const void *const *in; /* of this batch entry */
    void *const *out;
};

static void *room(const struct call *c, int64_t n, int size)
{
    return arena_alloc(c->tmp, max_i64(n, 1), (size_t)size);
}

/* After a query: what the routine asked for stands in the first element. */
static void make_work(struct call *c)
{
    double want;
    float narrow;
    memcpy(&narrow, c->work, 4);
    memcpy(&want, c->work, 8);
    c->lwork = (int)(c->part == 4 ? (double)narrow : want);
    c->lwork = c->lwork < 1 ? 1 : c->lwork;
    c->work = room(c, c->lwork, c->size);
}

static void query(struct call *c)
{
    c->work = room(c, 1, 16);
    c->lwork = -1;
}

static void call_gesdd(struct call *c)
{
    typedef void (*real_fn)(const char *, const int *, const int *, void *, const int *, void *, void *,
                            const int *, void *, const int *, void *, const int *, int *, int *, size_t);
    typedef void (*complex_fn)(const char *, const int *, const int *, void *, const int *, void *, void *,
                               const int *, void *, const int *, void *, const int *, void *, int *, int *, size_t);
    const struct lapack_call *p = c->p;
    int k = p->m < p->n ? p->m : p->n, most = p->m < p->n ? p->n : p->m;
    int ucols = p->job[0] == 'A' ? p->m : k, vrows = p->job[0] == 'A' ? p->n : k;
    int lda = p->m > 1 ? p->m : 1, ldv = vrows > 1 ? vrows : 1;
    char *u = room(c, (int64_t)p->m * ucols, c->size), *v = room(c, (int64_t)vrows * p->n, c->size);
    int *iwork = room(c, 8 * (int64_t)k, 4);
    int64_t r = max_i64(5 * (int64_t)k + 7, 2 * (int64_t)most + 2 * (int64_t)k + 1);
    void *rwork = room(c, k * r, c->part);
    query(c);
    for (int round = 0; round < 2; round++) {
        if (p->pairs)
            ((complex_fn)p->fn)(&p->job[0], &p->m, &p->n, c->a, &lda, c->out[1], u, &lda, v, &ldv, c->work,
                                   &c->lwork, rwork, iwork, &c->info, 1);
        else
            ((real_fn)p->fn)(&p->job[0], &p->m, &p->n, c->a, &lda, c->out[1], u, &lda, v, &ldv, c->work,
                                &c->lwork, iwork, &c->info, 1);
        if (round == 0)
            make_work(c);
    }
    if (p->job[0] == 'N')
        return;
    to_rows(c->out[2], u, p->m, ucols, c->size);
    to_rows(c->out[3], v, vrows, p->n, c->size);
}

/* Real matrices: a pair of conjugate eigenvectors stands as its real and its imaginary part. */
static void unpack_vectors(const struct call *c, char *to, const char *from, const char *wi)
{
    int64_t n = c->p->n;
    int part = c->part;
    char zero[8] = { 0 };
    for (int64_t j = 0; j < n; j++) {
        bool pair = memcmp(wi + j * part, zero, (size_t)part) != 0 && j + 1 < n;
        for (int64_t i = 0; i < n; i++) {
            const char *re = from + (j * n + i) * part, *im = from + ((j + 1) * n + i) * part;
            for (int64_t k = 0; k < 1 + pair; k++) {
                char *at = to + (i * n + j + k) * 2 * part;
                enum dtype t = part == 4 ? DTYPE_F32 : DTYPE_F64;
                memcpy(at, re, (size_t)part);
                real_store(t, pair ? (k ? -1 : 1) * real_load(t, im) : 0, at + part);
            }
        }
        j += pair;
    }
}

static void call_geev(struct call *c)
{
    typedef void (*real_fn)(const char *, const char *, const int *, void *, const int *, void *, void *, void *,
                            const int *, void *, const int *, void *, const int *, int *, size_t, size_t);
    typedef void (*complex_fn)(const char *, const char *, const int *, void *, const int *, void *, void *,
                               const int *, void *, const int *, void *, const int *, void *, int *, size_t, size_t);
    const struct lapack_call *p = c->p;
    int ld = p->n > 1 ? p->n : 1, first = p->pairs ? 1 : 2;
    int64_t nn = (int64_t)p->n * p->n;
    char *v[2] = { room(c, nn, c->size), room(c, nn, c->size) };
    void *rwork = room(c, 2 * (int64_t)p->n, c->part);
    query(c);
    for (int round = 0; round < 2; round++) {
        if (p->pairs)
            ((complex_fn)p->fn)(&p->job[0], &p->job[1], &p->n, c->a, &ld, c->out[0], v[0], &ld, v[1], &ld, c->work,
                                &c->lwork, rwork, &c->info, 1, 1);
        else
            ((real_fn)p->fn)(&p->job[0], &p->job[1], &p->n, c->a, &ld, c->out[0], c->out[1], v[0], &ld, v[1], &ld,
                             c->work, &c->lwork, &c->info, 1, 1);
        if (round == 0)
            make_work(c);
    }
    for (int k = 0; k < 2; k++)
        if (p->job[k] == 'V' && p->pairs)
            to_rows(c->out[first + k], v[k], p->n, p->n, c->size);
        else if (p->job[k] == 'V')
            unpack_vectors(c, c->out[first + k], v[k], c->out[1]);
}

static void call_syevd(struct call *c)
{
    typedef void (*real_fn)(const char *, const char *, const int *, void *, const int *, void *, void *,
                            const int *, int *, const int *, int *, size_t, size_t);
    typedef void (*complex_fn)(const char *, const char *, const int *, void *, const int *, void *, void *,
                               const int *, void *, const int *, int *, const int *, int *, size_t, size_t);
    const struct lapack_call *p = c->p;
    int ld = p->n > 1 ? p->n : 1, n = ld;
    int liwork = 3 + 5 * n, lrwork = 1 + 5 * n + 2 * n * n;
    int *iwork = room(c, liwork, 4);
    void *rwork = room(c, lrwork, c->part);
    c->lwork = p->pairs ? 2 * n + n * n : 1 + 6 * n + 2 * n * n;
    c->work = room(c, c->lwork, c->size);
    if (p->pairs)
        ((complex_fn)p->fn)(&p->job[0], &p->uplo, &p->n, c->a, &ld, c->out[1], c->work, &c->lwork, rwork, &lrwork,
                            iwork, &liwork, &c->info, 1, 1);
    else
        ((real_fn)p->fn)(&p->job[0], &p->uplo, &p->n, c->a, &ld, c->out[1], c->work, &c->lwork, iwork, &liwork,
                         &c->info, 1, 1);
}

static void call_gees(struct call *c)
{
    typedef void (*real_fn)(const char *, const char *, void *, const int *, void *, const int *, int *, void *,
                            void *, void *, const int *, void *, const int *, int *, int *, size_t, size_t);
    typedef void (*complex_fn)(const char *, const char *, void *, const int *, void *, const int *, int *, void *,
                               void *, const int *, void *, const int *, void *, int *, int *, size_t, size_t);
    const struct lapack_call *p = c->p;
    int ld = p->n > 1 ? p->n : 1, chosen = 0;
    char *v = room(c, (int64_t)p->n * p->n, c->size);
    void *rwork = room(c, p->n, c->part);
    int *bwork = room(c, p->n, 4);
    query(c);
    for (int round = 0; round < 2; round++) {
        if (p->pairs)
            ((complex_fn)p->fn)(&p->job[0], "N", NULL, &p->n, c->a, &ld, &chosen, c->out[2], v, &ld, c->work,
                                &c->lwork, rwork, bwork, &c->info, 1, 1);
        else
            ((real_fn)p->fn)(&p->job[0], "N", NULL, &p->n, c->a, &ld, &chosen, c->out[2], c->out[3], v, &ld,
                             c->work, &c->lwork, bwork, &c->info, 1, 1);
        if (round == 0)
            make_work(c);
    }
    if (p->job[0] == 'V')
        to_rows(c->out[1], v, p->n, p->n, c->size);
    memcpy(c->out[p->pairs ? 3 : 4], &chosen, 4);
}

static void call_gehrd(struct call *c)
{
    typedef void (*fn)(const int *, const int *, const int *, void *, const int *, void *, void *, const int *, int *);
    const struct lapack_call *p = c->p;
    int ld = p->n > 1 ? p->n : 1;
    query(c);
    for (int round = 0; round < 2; round++) {
        ((fn)p->fn)(&p->n, &p->low, &p->high, c->a, &ld, c->out[1], c->work, &c->lwork, &c->info);
        if (round == 0)
            make_work(c);
    }
}

static void call_sytrd(struct call *c)
{
    typedef void (*fn)(const char *, const int *, void *, const int *, void *, void *, void *, void *, const int *,
                       int *, size_t);
    const struct lapack_call *p = c->p;
    int ld = p->n > 1 ? p->n : 1;
    query(c);
    for (int round = 0; round < 2; round++) {
        ((fn)p->fn)(&p->uplo, &p->n, c->a, &ld, c->out[1], c->out[2], c->out[3], c->work, &c->lwork, &c->info, 1);
        if (round == 0)
            make_work(c);
    }
}

static void call_geqp3(struct call *c)
{
    typedef void (*real_fn)(const int *, const int *, void *, const int *, int *, void *, void *, const int *, int *);
    typedef void (*complex_fn)(const int *, const int *, void *, const int *, int *, void *, void *, const int *,
                               void *, int *);
    const struct lapack_call *p = c->p;
    int ld = p->m > 1 ? p->m : 1;
    void *rwork = room(c, 2 * (int64_t)p->n, c->part);
    memcpy(c->out[1], c->in[1], (size_t)p->n * 4); /* which columns are to stand first */
    query(c);
    for (int round = 0; round < 2; round++) {
        if (p->pairs)
            ((complex_fn)p->fn)(&p->m, &p->n, c->a, &ld, c->out[1], c->out[2], c->work, &c->lwork, rwork, &c->info);
        else
            ((real_fn)p->fn)(&p->m, &p->n, c->a, &ld, c->out[1], c->out[2], c->work, &c->lwork, &c->info);
        if (round == 0)
            make_work(c);
    }
}

/* Three diagonals of m numbers, the first of the lower one and the last of the upper one unused. */
static void call_gtsv(struct call *c)
{
    typedef void (*fn)(const int *, const int *, void *, void *, void *, void *, const int *, int *);
    const struct lapack_call *p = c->p;
    int ld = p->m > 1 ? p->m : 1;
    int64_t nb = (int64_t)p->m * p->n;
    char *b = room(c, nb, c->size);
    for (int k = 0; k < 3; k++)
        memcpy(c->out[k], c->in[k], (size_t)(p->m * c->size));
    to_columns(b, c->in[3], p->m, p->n, c->size);
    ((fn)p->fn)(&p->m, &p->n, (char *)c->out[0] + (p->m > 1 ? c->size : 0), c->out[1], c->out[2], b, &ld, &c->info);
    to_rows(c->out[3], b, p->m, p->n, c->size);
}

/* ---- a step -------------------------------------------------------------------------------------
 */

static void run_matrix(const struct step *s, int64_t q, void *const *out, const void *const *in)
{
    const struct lapack_call *p = s->p;
    struct arena tmp = { 0 };
    void *at[8];
    const void *from[4];
    arena_open(&tmp);
    for (uint32_t k = 0; k < s->nout; k++) {
        int64_t bytes = s->lout[k].bytes / p->batch;
        at[k] = (char *)out[k] + q * bytes;
        memset(at[k], 0, (size_t)bytes); /* what is not wanted */
    }
    for (uint32_t k = 0; k < s->nin; k++)
        from[k] = (const char *)in[k] + q * (s->lin[k].bytes / p->batch);
    struct call c = { .p = p, .tmp = &tmp, .size = s->lin[0].elem.size, .in = from, .out = at };
    c.part = p->pairs ? c.size / 2 : c.size;
    if (p->what != GTSV) {
        c.a = room(&c, (int64_t)p->m * p->n, c.size);
        to_columns(c.a, from[0], p->m, p->n, c.size);
    }
    static void (*const calls[])(struct call *) = {
        [GESDD] = call_gesdd, [GEEV] = call_geev,   [SYEVD] = call_syevd, [GEES] = call_gees,
        [GEHRD] = call_gehrd, [SYTRD] = call_sytrd, [GEQP3] = call_geqp3, [GTSV] = call_gtsv,
    };
    blas_enter();
    calls[p->what](&c);
    blas_leave();
    if (p->what != GTSV && p->what != GEEV)
        to_rows(at[0], c.a, p->m, p->n, c.size);
    if (p->what != GEQP3)
        memcpy(at[s->nout - 1], &c.info, 4);
    arena_close(&tmp);
}

static struct lapack_batch batch_of(const struct lapack_call *p)
{
    return (struct lapack_batch){ p->batch, UINT32_MAX, p->what == GEQP3 ? 1 : UINT32_MAX };
}

static void run_call(const struct step *s, void *const *out, const void *const *in)
{
    const struct lapack_call *p = s->p;
    struct lapack_batch b = batch_of(p);
    for (int64_t q = 0; q < p->batch; q++)
        if (is_ring(s->lin[0].elem))
            lapack_mix(s, &b, q, p->tag, out, in);
        else
            run_matrix(s, q, out, in);
}

static void poison_call(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                        const void *const *in)
{
    (void)in;
    struct lapack_batch b = batch_of(s->p);
    lapack_poison(s, &b, pout, pin);
}

/* Elements of each result of one batch entry, as the routine fills them. False: other shapes. */
static bool results_fit(const struct lowering *l, const struct lapack_call *p)
{
    const struct step *s = l->step;
    int64_t m = p->m, n = p->n, k = min_i64(m, n), mn = m * n, nn = n * n, few = max_i64(n - 1, 0);
    bool all = p->job[0] == 'A';
    int64_t u = p->job[0] == 'N' ? -1 : m * (all ? m : k), v = p->job[0] == 'N' ? -1 : (all ? n : k) * n;
    int64_t real_v[2] = { p->job[0] == 'V' ? nn : -1, p->job[1] == 'V' ? nn : -1 };
    const int64_t want[][6] = {
        [GESDD] = { mn, k, u, v, 1 },
        [GEEV] = { n, p->pairs ? real_v[0] : n, p->pairs ? real_v[1] : real_v[0], p->pairs ? 1 : real_v[1], 1 },
        [SYEVD] = { nn, n, 1 },
        [GEES] = { nn, p->job[0] == 'V' ? nn : -1, n, p->pairs ? 1 : n, 1, 1 },
        [GEHRD] = { nn, few, 1 },
        [SYTRD] = { nn, n, few, few, 1 },
        [GEQP3] = { mn, n, k },
        [GTSV] = { m, m, m, mn, 1 },
    };
    for (uint32_t r = 0; r < s->nout; r++) {
        int64_t w = want[p->what][r];
        if (w >= 0 && s->lout[r].count != w * p->batch)
            return false;
    }
    return true;
}

bool lower_lapack_call(struct lowering *l, const char *target)
{
    int at = index_of(target);
    struct step *s = l->step;
    struct lapack_call *p = ARENA_NEW(l->a, struct lapack_call);
    const struct shape *a = operand_shape(l, at >= 0 && routines[at].what == GTSV ? 3 % l->i->noperands : 0);
    *p = (struct lapack_call){ .what = routines[at].what, .tag = (uint64_t)routines[at].what + 77, .batch = 1 };
    p->pairs = strchr("cz", target[7]) != NULL;
    bool form = a->kind == SHAPE_ARRAY && a->rank >= 2 && s->nin == routines[at].operands &&
                s->nout == routines[at].results[p->pairs];
    if (!form || a->dims[a->rank - 2] > 30000 || a->dims[a->rank - 1] > 30000)
        return lower_missing(l, "this form");
    p->m = (int)a->dims[a->rank - 2];
    p->n = (int)a->dims[a->rank - 1];
    for (int k = 0; k < a->rank - 2; k++)
        p->batch *= a->dims[k];
    static const char letters[] = "sdcz";
    static const enum dtype types[] = { DTYPE_F32, DTYPE_F64, DTYPE_C64, DTYPE_C128 };
    bool fits = s->lin[0].elem.t == types[strchr(letters, target[7]) - letters];
    int64_t mode = lapack_letter(l, p->what == GEEV ? "compute_left" : "mode"), right = lapack_letter(l, "compute_right");
    bool whole = s->nout > 3 && s->lout[2].count == p->batch * p->m * p->m && s->lout[3].count == p->batch * p->n * p->n;
    p->job[0] = mode > 0 && mode < 128 ? (char)mode : p->what != GESDD ? 'V' : whole ? 'A' : 'S';
    p->job[1] = right > 0 && right < 128 ? (char)right : 'V';
    p->uplo = lapack_letter(l, "uplo") == 'U' ? 'U' : 'L';
    p->low = (int)max_i64(lapack_letter(l, "low"), 1);
    int64_t high = lapack_letter(l, "high");
    p->high = (int)(high > 0 && high <= p->n ? high : p->n);
    *(void **)(void *)&p->fn = is_ring(s->lin[0].elem) ? NULL : routine_address(target); /* ISO C's detour */
    if (p->batch == 0)
        p->batch = 1; /* nothing to do, once */
    if (!fits || (routines[at].square && p->m != p->n) || p->low > max_i64(p->high, 1) || !results_fit(l, p))
        return lower_missing(l, "these shapes");
    if (!p->fn && !is_ring(s->lin[0].elem))
        return lower_missing(l, "it: LAPACK of OpenBLAS is not installed");
    s->fn = run_call;
    s->poison = poison_call;
    s->p = p;
    return true;
}
