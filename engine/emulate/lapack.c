/* The LAPACK routines that JAX calls on CPU, as custom calls "lapack_<type><routine>_ffi": Cholesky
 * (potrf), triangular solve (trsm), LU (getrf), QR (geqrf, orgqr / ungqr), eigenvalues of symmetric
 * and Hermitian matrices (syevd, heevd; lapack_blas.c has them, and more, where OpenBLAS is installed).
 * Computed in double from the definitions, with LAPACK's
 * conventions for what is stored where: factors in place of the operand, reflectors below the
 * diagonal, pivots counted from 1, eigenvalues rising.
 *
 * An eigenvector is determined up to a factor of size 1: here its largest component is real and
 * positive, LAPACK's choice depends on its blocking.
 *
 * In ring mode, where there is no division, each result is a mixture of its whole matrix; pivots say
 * "no exchange", and info 0.
 */
#include <math.h>

#include "base/map.h"
#include "emulate/linalg.h"

enum routine { POTRF, TRSM, GETRF, GEQRF, ORGQR, SYEVD, ROUTINES };

struct lapack {
    enum routine what;
    int64_t batch, m, n;      /* of operand 0's matrices */
    int64_t b_rows, b_cols;   /* trsm */
    int64_t reflectors;       /* orgqr */
    bool lower, left, unit, transpose, conjugate;
};

static const struct {
    const char *name;
    enum routine what;
} routines[] = {
    { "potrf", POTRF }, { "trsm", TRSM },   { "getrf", GETRF }, { "geqrf", GEQRF },
    { "orgqr", ORGQR }, { "ungqr", ORGQR }, { "syevd", SYEVD }, { "heevd", SYEVD },
};

static bool routine_of(const char *target, enum routine *out)
{
    if (strncmp(target, "lapack_", 7) != 0 || !target[7] || !strchr("sdcz", target[7]))
        return false;
    const char *name = target + 8, *end = strstr(name, "_ffi");
    for (size_t k = 0; end && !end[4] && k < COUNTOF(routines); k++)
        if (strlen(routines[k].name) == (size_t)(end - name) &&
            memcmp(routines[k].name, name, (size_t)(end - name)) == 0) {
            *out = routines[k].what;
            return true;
        }
    return false;
}

bool lapack_known(const char *target)
{
    enum routine r;
    return lapack_call_known(target) || routine_of(target, &r) || lapack_older_known(target);
}

/* ---- one matrix each: a is m x n, row-major -----------------------------------------------------
 */

/* Only the named triangle is read; the other one stays as it was. */
static int factor_cholesky(const struct lapack *p, cplx *a)
{
    int64_t n = p->n;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            cplx *at = p->lower ? &a[i * n + j] : &a[j * n + i], sum = p->lower ? *at : conj(*at);
            for (int64_t k = 0; k < j; k++) {
                cplx u = p->lower ? a[i * n + k] : conj(a[k * n + i]),
                     v = p->lower ? a[j * n + k] : conj(a[k * n + j]);
                sum -= u * conj(v);
            }
            if (i == j) {
                if (!(creal(sum) > 0))
                    return (int)j + 1;
                *at = sqrt(creal(sum));
            } else {
                sum /= creal(a[j * n + j]);
                *at = p->lower ? sum : conj(sum);
            }
        }
    return 0;
}

static double size1(cplx v)
{
    return fabs(creal(v)) + fabs(cimag(v));
}

static int factor_lu(const struct lapack *p, cplx *a, int32_t *pivots)
{
    int64_t m = p->m, n = p->n, k = min_i64(m, n);
    int info = 0;
    for (int64_t j = 0; j < k; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < m; i++)
            if (size1(a[i * n + j]) > size1(a[best * n + j]))
                best = i;
        pivots[j] = (int32_t)best + 1;
        for (int64_t c = 0; c < n && best != j; c++) {
            cplx t = a[j * n + c];
            a[j * n + c] = a[best * n + c];
            a[best * n + c] = t;
        }
        if (a[j * n + j] == 0) {
            info = info ? info : (int)j + 1;
            continue;
        }
        for (int64_t i = j + 1; i < m; i++) {
            cplx f = a[i * n + j] /= a[j * n + j];
            for (int64_t c = j + 1; c < n; c++)
                a[i * n + c] -= f * a[j * n + c];
        }
    }
    return info;
}

/* Householder reflectors I - tau v v^H with v[0] = 1, stored below the diagonal; R on and above. */
static void factor_qr(const struct lapack *p, cplx *a, cplx *tau)
{
    int64_t m = p->m, n = p->n;
    for (int64_t j = 0; j < min_i64(m, n); j++) {
        double rest = 0;
        cplx alpha = a[j * n + j];
        for (int64_t i = j + 1; i < m; i++)
            rest += creal(a[i * n + j] * conj(a[i * n + j]));
        tau[j] = 0;
        if (rest == 0 && cimag(alpha) == 0)
            continue;
        double beta = -copysign(sqrt(creal(alpha * conj(alpha)) + rest), creal(alpha));
        tau[j] = (beta - alpha) / beta;
        for (int64_t i = j + 1; i < m; i++)
            a[i * n + j] /= alpha - beta;
        a[j * n + j] = beta;
        for (int64_t c = j + 1; c < n; c++) { /* (I - conj(tau) v v^H) from the left */
            cplx dot = a[j * n + c];
            for (int64_t i = j + 1; i < m; i++)
                dot += conj(a[i * n + j]) * a[i * n + c];
            dot *= conj(tau[j]);
            a[j * n + c] -= dot;
            for (int64_t i = j + 1; i < m; i++)
                a[i * n + c] -= dot * a[i * n + j];
        }
    }
}

/* The first n columns of the product of the reflectors, from the last one on. */
static void build_q(const struct lapack *p, cplx *a, const cplx *tau, cplx *q)
{
    int64_t m = p->m, n = p->n;
    for (int64_t i = 0; i < m; i++)
        for (int64_t c = 0; c < n; c++)
            q[i * n + c] = i == c;
    for (int64_t j = min_i64(p->reflectors, min_i64(m, n)) - 1; j >= 0; j--)
        for (int64_t c = 0; c < n; c++) {
            cplx dot = q[j * n + c];
            for (int64_t i = j + 1; i < m; i++)
                dot += conj(a[i * n + j]) * q[i * n + c];
            dot *= tau[j];
            q[j * n + c] -= dot;
            for (int64_t i = j + 1; i < m; i++)
                q[i * n + c] -= dot * a[i * n + j];
        }
    memcpy(a, q, (size_t)(m * n) * sizeof *a);
}

/* Turns rows and columns i and j of a Hermitian matrix so that a[i,j] becomes 0 (Jacobi). */
static void turn(cplx *a, cplx *v, int64_t n, int64_t i, int64_t j)
{
    cplx b = a[i * n + j];
    double size = cabs(b), d = creal(a[j * n + j]) - creal(a[i * n + i]);
    if (size == 0)
        return;
    double theta = d / (2 * size), t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1));
    double c = 1 / hypot(t, 1), s = t * c;
    cplx e = b / size; /* phase */
    for (int64_t k = 0; k < n; k++) {
        cplx x = a[k * n + i], y = a[k * n + j];
        a[k * n + i] = c * x - s * conj(e) * y;
        a[k * n + j] = s * e * x + c * y;
        x = v[k * n + i], y = v[k * n + j];
        v[k * n + i] = c * x - s * conj(e) * y;
        v[k * n + j] = s * e * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) {
        cplx x = a[i * n + k], y = a[j * n + k];
        a[i * n + k] = c * x - s * e * y;
        a[j * n + k] = s * conj(e) * x + c * y;
    }
    a[i * n + j] = a[j * n + i] = 0;
}

static double off_diagonal(const cplx *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            sum += i == j ? 0 : creal(a[i * n + j] * conj(a[i * n + j]));
    return sum;
}

static void order_vectors(cplx *a, cplx *v, int64_t n, double *w)
{
    for (int64_t k = 0; k < n; k++)
        w[k] = creal(a[k * n + k]);
    for (int64_t k = 0; k < n; k++) { /* selection: n is small */
        int64_t best = k;
        for (int64_t j = k + 1; j < n; j++)
            best = w[j] < w[best] ? j : best;
        double t = w[k];
        w[k] = w[best];
        w[best] = t;
        int64_t largest = 0;
        for (int64_t i = 0; i < n; i++) {
            cplx x = v[i * n + k];
            v[i * n + k] = v[i * n + best];
            v[i * n + best] = x;
            if (cabs(v[i * n + k]) > cabs(v[largest * n + k]) * (1 + 1e-9))
                largest = i;
        }
        cplx phase = v[largest * n + k] / cabs(v[largest * n + k]);
        for (int64_t i = 0; i < n; i++)
            v[i * n + k] *= conj(phase);
    }
}

static void eigen(const struct lapack *p, cplx *a, cplx *v, double *w)
{
    int64_t n = p->n;
    double scale = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            bool given = p->lower ? j <= i : j >= i;
            if (!given)
                continue;
            a[j * n + i] = i == j ? creal(a[i * n + j]) : conj(a[i * n + j]);
            scale += creal(a[i * n + j] * conj(a[i * n + j]));
        }
    for (int64_t k = 0; k < n * n; k++)
        v[k] = k / n == k % n;
    for (int sweep = 0; sweep < 60 && off_diagonal(a, n) > 1e-32 * scale; sweep++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++)
                turn(a, v, n, i, j);
    order_vectors(a, v, n, w);
    memcpy(a, v, (size_t)(n * n) * sizeof *a);
}

/* op(a) x = b or x op(a) = b, in place of b. */
static void solve(const struct lapack *p, const cplx *a, cplx *b)
{
    int64_t n = p->n, sides = p->left ? p->b_cols : p->b_rows, step = p->left ? p->b_cols : 1;
    bool forward = (p->lower != p->transpose) == p->left;
    for (int64_t side = 0; side < sides; side++) {
        cplx *x = b + (p->left ? side : side * p->b_cols);
        for (int64_t s = 0; s < n; s++) {
            int64_t k = forward ? s : n - 1 - s;
            cplx sum = x[k * step], d = a[k * n + k];
            for (int64_t q = 0; q < s; q++) {
                int64_t j = forward ? q : n - 1 - q;
                bool row = p->left != p->transpose; /* which entry of a is op(a)[k,j] or [j,k] */
                cplx v = row ? a[k * n + j] : a[j * n + k];
                sum -= (p->conjugate ? conj(v) : v) * x[j * step];
            }
            x[k * step] = p->unit ? sum : sum / (p->conjugate ? conj(d) : d);
        }
    }
}

/* ---- a step -------------------------------------------------------------------------------------
 */

static void load_all(struct elem e, const void *p, int64_t first, cplx *to, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = load(e, p, first + k);
}

static void store_all(struct elem e, void *p, int64_t first, const cplx *from, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        store(e, p, first + k, from[k]);
}

struct work {
    cplx *a, *v, *tau;
    double *w;
    int32_t *pivots;
};

/* Results of batch entry q: info is the last output where there is one. */
static void run_matrix(const struct step *s, struct work *t, int64_t q, void *const *out,
                       const void *const *in)
{
    const struct lapack *p = s->p;
    struct elem e = s->lin[0].elem;
    int64_t mn = p->m * p->n, k = min_i64(p->m, p->n);
    int info = 0;
    load_all(e, in[0], q * mn, t->a, mn);
    switch (p->what) {
    case POTRF: info = factor_cholesky(p, t->a); break;
    case GETRF:
        info = factor_lu(p, t->a, t->pivots);
        memcpy((int32_t *)out[1] + q * k, t->pivots, (size_t)k * sizeof(int32_t));
        break;
    case GEQRF:
        factor_qr(p, t->a, t->tau);
        store_all(s->lout[1].elem, out[1], q * k, t->tau, k);
        break;
    case ORGQR:
        load_all(e, in[1], q * p->reflectors, t->tau, p->reflectors);
        build_q(p, t->a, t->tau, t->v);
        break;
    case SYEVD:
        eigen(p, t->a, t->v, t->w);
        for (int64_t j = 0; j < p->n; j++)
            store(s->lout[1].elem, out[1], q * p->n + j, t->w[j]);
        break;
    case TRSM:
        load_all(e, in[1], q * p->b_rows * p->b_cols, t->v, p->b_rows * p->b_cols);
        for (int64_t j = 0; s->nin == 3 && j < p->b_rows * p->b_cols; j++)
            t->v[j] *= load(e, in[2], 0); /* alpha */
        solve(p, t->a, t->v);
        store_all(e, out[0], q * p->b_rows * p->b_cols, t->v, p->b_rows * p->b_cols);
        return;
    case ROUTINES: break;
    }
    store_all(e, out[0], q * mn, t->a, mn);
    if (p->what == POTRF || p->what == GETRF || p->what == SYEVD)
        ((int32_t *)out[s->nout - 1])[q] = info;
}

void lapack_mix(const struct step *s, const struct lapack_batch *b, int64_t q, uint64_t h, void *const *out,
                const void *const *in)
{
    for (uint32_t k = 0; k < s->nin; k++) {
        int64_t n = s->lin[k].bytes / (k == b->shared ? 1 : b->n);
        h = hash_bytes((const char *)in[k] + (k == b->shared ? 0 : q * n), (size_t)n, h);
    }
    for (uint32_t k = 0; k < s->nout; k++) {
        int64_t n = s->lout[k].count / b->n;
        for (int64_t i = 0; i < n; i++)
            if (is_ring(s->lout[k].elem))
                store_mixed(s->lout[k].elem, out[k], q * n + i, h + k, (uint64_t)i);
            else
                ((int32_t *)out[k])[q * n + i] = k == b->pivots ? (int32_t)i + 1 : 0;
    }
}

void lapack_poison(const struct step *s, const struct lapack_batch *b, uint8_t *const *pout, const uint8_t *const *pin)
{
    for (int64_t q = 0; q < b->n; q++) {
        bool bad = false;
        for (uint32_t k = 0; k < s->nin && !bad; k++) {
            int64_t n = s->lin[k].count / (k == b->shared ? 1 : b->n);
            bad = pin[k] && memchr(pin[k] + (k == b->shared ? 0 : q * n), 1, (size_t)n);
        }
        for (uint32_t k = 0; k < s->nout && bad; k++) {
            int64_t n = s->lout[k].count / b->n;
            memset(pout[k] + q * n, 1, (size_t)n);
        }
    }
}

/* trsm's alpha belongs to every matrix. */
static struct lapack_batch batch_of(const struct lapack *p)
{
    return (struct lapack_batch){ p->batch, 2, p->what == GETRF ? 1 : UINT32_MAX };
}

static void run_lapack(const struct step *s, void *const *out, const void *const *in)
{
    const struct lapack *p = s->p;
    struct lapack_batch b = batch_of(p);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t most = max_i64(max_i64(p->m, p->n), 1);
    struct work t = { .a = ARENA_ARRAY(&tmp, cplx, p->m * p->n + 1),
                      .v = ARENA_ARRAY(&tmp, cplx, max_i64(most * most, p->b_rows * p->b_cols) + 1),
                      .tau = ARENA_ARRAY(&tmp, cplx, most + p->reflectors),
                      .w = ARENA_ARRAY(&tmp, double, most),
                      .pivots = ARENA_ARRAY(&tmp, int32_t, most) };
    for (int64_t q = 0; q < p->batch; q++)
        if (is_ring(s->lin[0].elem))
            lapack_mix(s, &b, q, (uint64_t)p->what + 5, out, in);
        else
            run_matrix(s, &t, q, out, in);
    arena_close(&tmp);
}

static void poison_lapack(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    (void)in;
    struct lapack_batch b = batch_of(s->p);
    lapack_poison(s, &b, pout, pin);
}

/* "uplo = 76 : ui8": the letter; 0: not there. */
int64_t lapack_letter(const struct lowering *l, const char *key)
{
    const struct attr *a = instr_attr(l->i, ATTR_BACKEND_CONFIG);
    if (!a && !l->config)
        return 0;
    struct arena tmp = { 0 };
    int64_t v = 0;
    const char *text = l->config ? l->config : arena_strndup(&tmp, a->text, a->n), *at = strstr(text, key);
    if (at) {
        at += strlen(key);
        at += strspn(at, " =\\\":");
        (void)parse_i64(at, strlen(at), &v);
    }
    arena_free(&tmp);
    return v;
}

bool lower_lapack(struct lowering *l, const char *target)
{
    static const uint32_t results[ROUTINES] = { 2, 1, 3, 2, 1, 3 }, operands[ROUTINES] = { 1, 2, 1, 1, 2, 1 };
    if (lapack_call_known(target))
        return lower_lapack_call(l, target);
    if (lapack_older_known(target))
        return lower_lapack_older(l, target);
    struct step *s = l->step;
    struct lapack *p = ARENA_NEW(l->a, struct lapack);
    const struct shape *a = operand_shape(l, 0);
    if (!routine_of(target, &p->what) || a->kind != SHAPE_ARRAY || a->rank < 2 ||
        s->nout != results[p->what] || (s->nin != operands[p->what] && !(p->what == TRSM && s->nin == 3)))
        return lower_missing(l, "this form");
    if (p->what == TRSM && !is_ring(s->lin[0].elem) && !lapack_letter(l, "side"))
        return lower_missing(l, "this form without side, uplo, trans_x and diag in its backend_config");
    p->m = a->dims[a->rank - 2];
    p->n = a->dims[a->rank - 1];
    p->batch = 1;
    for (int k = 0; k < a->rank - 2; k++)
        p->batch *= a->dims[k];
    p->lower = lapack_letter(l, "uplo") != 'U';
    p->left = lapack_letter(l, "side") != 'R';
    p->unit = lapack_letter(l, "diag") == 'U';
    p->conjugate = lapack_letter(l, "trans_x") == 'C';
    p->transpose = p->conjugate || lapack_letter(l, "trans_x") == 'T';
    if (p->what == TRSM || p->what == ORGQR) {
        const struct shape *b = operand_shape(l, 1);
        p->b_rows = b->rank > 1 ? b->dims[b->rank - 2] : 1;
        p->b_cols = b->rank > 0 ? b->dims[b->rank - 1] : 1;
        p->reflectors = p->what == ORGQR ? p->b_cols : 0;
    }
    bool square = p->m == p->n || p->what == GETRF || p->what == GEQRF || p->what == ORGQR;
    bool fits = p->what != TRSM || (p->left ? p->b_rows : p->b_cols) == p->n;
    for (uint32_t k = 0; k < s->nout && p->batch; k++)
        fits &= s->lout[k].count % p->batch == 0;
    if (!square || !fits)
        return lower_missing(l, "these shapes");
    s->fn = run_lapack;
    s->poison = poison_lapack;
    s->p = p;
    return true;
}
