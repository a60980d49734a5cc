/* triangular-solve, cholesky and fft: in double whatever the type.
 *
 * In ring mode, where there is no division and no root of unity, each result is a mixture of all
 * that it depends on: the matrix and its own right-hand side, or its own transform's input.
 */
#include "emulate/linalg.h"

#include <math.h>

#include "base/map.h"

/* ---- triangular-solve: op(a) x = b, or x op(a) = b
 * ------------------------------------------------- */

struct solve {
    int64_t batch, n, m; /* a is n x n; b n x m (left) or m x n */
    bool left, lower, unit, transpose, conjugate;
};

/* Element (r, c) of op(a), zero outside of the triangle. */
static cplx coefficient(const struct solve *p, struct elem e, const void *a, int64_t r, int64_t c)
{
    int64_t i = p->transpose ? c : r, j = p->transpose ? r : c;
    if (r == c && p->unit)
        return 1;
    if (p->lower ? j > i : j < i)
        return 0;
    cplx v = load(e, a, i * p->n + j);
    return p->conjugate ? conj(v) : v;
}

/* One right-hand side: element k of it at b[first + k * stride]. */
static void substitute(const struct solve *p, struct elem e, const void *a, const void *b, void *x,
                       int64_t first, int64_t stride)
{
    bool forward = (p->lower != p->transpose) == p->left; /* op(a) on the left is lower */
    for (int64_t step = 0; step < p->n; step++) {
        int64_t k = forward ? step : p->n - 1 - step;
        cplx sum = load(e, b, first + k * stride);
        for (int64_t q = 0; q < step; q++) {
            int64_t j = forward ? q : p->n - 1 - q;
            cplx v = p->left ? coefficient(p, e, a, k, j) : coefficient(p, e, a, j, k);
            sum -= v * load(e, x, first + j * stride);
        }
        store(e, x, first + k * stride, sum / coefficient(p, e, a, k, k));
    }
}

static void mix_solution(const struct solve *p, struct elem e, const char *a, const char *b,
                         char *x, int64_t first, int64_t stride)
{
    uint64_t h = hash_bytes(a, (size_t)(p->n * p->n * e.size), 1);
    for (int64_t k = 0; k < p->n; k++)
        h = hash_bytes(b + (first + k * stride) * e.size, (size_t)e.size, h);
    for (int64_t k = 0; k < p->n; k++)
        store_mixed(e, x, first + k * stride, h, (uint64_t)k);
}

static void run_solve(const struct step *s, void *const *out, const void *const *in)
{
    const struct solve *p = s->p;
    struct elem e = s->lout[0].elem;
    for (int64_t q = 0; q < p->batch; q++) {
        const char *a = (const char *)in[0] + q * p->n * p->n * e.size,
                   *b = (const char *)in[1] + q * p->n * p->m * e.size;
        char *x = (char *)out[0] + q * p->n * p->m * e.size;
        for (int64_t j = 0; j < p->m; j++) {
            int64_t first = p->left ? j : j * p->n, stride = p->left ? p->m : 1;
            if (is_ring(e))
                mix_solution(p, e, a, b, x, first, stride);
            else
                substitute(p, e, a, b, x, first, stride);
        }
    }
}

static void poison_solve(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                         const void *const *in)
{
    (void)in;
    const struct solve *p = s->p;
    for (int64_t q = 0; q < p->batch; q++) {
        bool bad = pin[0] && memchr(pin[0] + q * p->n * p->n, 1, (size_t)(p->n * p->n));
        for (int64_t j = 0; j < p->m; j++) {
            int64_t first = q * p->n * p->m + (p->left ? j : j * p->n), stride = p->left ? p->m : 1;
            bool side = bad;
            for (int64_t k = 0; k < p->n; k++)
                side |= pin[1] && pin[1][first + k * stride];
            for (int64_t k = 0; k < p->n && side; k++)
                pout[0][first + k * stride] = 1;
        }
    }
}

bool lower_triangular_solve(struct lowering *l)
{
    const struct shape *a = operand_shape(l, 0), *b = operand_shape(l, 1);
    struct solve *p = ARENA_NEW(l->a, struct solve);
    if (a->rank < 2 || b->rank != a->rank)
        return lower_missing(l, "this form");
    p->left = instr_bool(l->i, ATTR_LEFT_SIDE, false);
    p->lower = instr_bool(l->i, ATTR_LOWER, false);
    p->unit = instr_bool(l->i, ATTR_UNIT_DIAGONAL, false);
    p->conjugate = instr_is(l->m, l->i, ATTR_TRANSPOSE_A, "ADJOINT");
    p->transpose = p->conjugate || instr_is(l->m, l->i, ATTR_TRANSPOSE_A, "TRANSPOSE");
    p->n = a->dims[a->rank - 1];
    p->m = b->dims[b->rank - (p->left ? 1 : 2)];
    p->batch = 1;
    for (int k = 0; k < a->rank - 2; k++)
        p->batch *= a->dims[k];
    l->step->fn = run_solve;
    l->step->poison = poison_solve;
    l->step->p = p;
    return true;
}

/* ---- cholesky -------------------------------------------------------------------------------------------- */

struct cholesky {
    int64_t batch, n;
    bool lower;
};

/* A matrix that is not positive definite is all NaN, as XLA's CPU has it; a pivot of 0 divides 0 by 0. */
static void factor(const struct cholesky *p, struct elem e, const char *a, char *x)
{
    int64_t n = p->n;
    memset(x, 0, (size_t)(n * n * e.size));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            cplx sum = p->lower ? load(e, a, i * n + j) : conj(load(e, a, j * n + i));
            for (int64_t k = 0; k < j; k++) {
                cplx u = p->lower ? load(e, x, i * n + k) : conj(load(e, x, k * n + i));
                cplx v = p->lower ? load(e, x, j * n + k) : conj(load(e, x, k * n + j));
                sum -= u * conj(v);
            }
            cplx d = i == j ? 0 : p->lower ? load(e, x, j * n + j) : conj(load(e, x, j * n + j));
            if (i == j && !(creal(sum) >= 0)) {
                for (int64_t k = 0; k < n * n; k++)
                    store(e, x, k, CMPLX(NAN, 0));
                return;
            }
            cplx v = i != j ? sum / d : creal(sum) > 0 ? CMPLX(sqrt(creal(sum)), 0) : CMPLX(NAN, 0);
            if (p->lower)
                store(e, x, i * n + j, v);
            else
                store(e, x, j * n + i, conj(v));
        }
}

static void run_cholesky(const struct step *s, void *const *out, const void *const *in)
{
    const struct cholesky *p = s->p;
    struct elem e = s->lout[0].elem;
    for (int64_t q = 0; q < p->batch; q++) {
        const char *a = (const char *)in[0] + q * p->n * p->n * e.size;
        char *x = (char *)out[0] + q * p->n * p->n * e.size;
        if (!is_ring(e)) {
            factor(p, e, a, x);
            continue;
        }
        uint64_t h = hash_bytes(a, (size_t)(p->n * p->n * e.size), 2);
        memset(x, 0, (size_t)(p->n * p->n * e.size));
        for (int64_t i = 0; i < p->n; i++)
            for (int64_t j = 0; j <= i; j++)
                store_mixed(e, x, p->lower ? i * p->n + j : j * p->n + i, h,
                            (uint64_t)(i * p->n + j));
    }
}

/* One poisoned element spoils its whole block of `block` elements. */
static void poison_blocks(const struct step *s, uint8_t *pout, const uint8_t *pin, int64_t blocks)
{
    int64_t a = blocks ? s->lin[0].count / blocks : 0, b = blocks ? s->lout[0].count / blocks : 0;
    for (int64_t q = 0; pin && q < blocks; q++)
        if (memchr(pin + q * a, 1, (size_t)a))
            memset(pout + q * b, 1, (size_t)b);
}

static void poison_cholesky(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                            const void *const *in)
{
    (void)in;
    poison_blocks(s, pout[0], pin[0], ((const struct cholesky *)s->p)->batch);
}

bool lower_cholesky(struct lowering *l)
{
    struct cholesky *p = ARENA_NEW(l->a, struct cholesky);
    p->lower = instr_bool(l->i, ATTR_LOWER, false);
    if (l->shape->rank < 2)
        return lower_missing(l, "this form");
    p->n = l->shape->dims[l->shape->rank - 1];
    p->batch = 1;
    for (int k = 0; k < l->shape->rank - 2; k++)
        p->batch *= l->shape->dims[k];
    l->step->fn = run_cholesky;
    l->step->poison = poison_cholesky;
    l->step->p = p;
    return true;
}

/* ---- fft
 * -------------------------------------------------------------------------------------------- */

struct fft {
    int rank; /* transformed dimensions: the last ones */
    int64_t length[3];
    int64_t batch;
    bool inverse, real_in, real_out;
};

/* Plain transform of n elements, step apart. Powers of two by halving, other lengths by the sum. */
static void transform(cplx *x, int64_t n, int64_t step, bool inverse, cplx *tmp)
{
    const double turn = (inverse ? 2 : -2) * 3.14159265358979323846;
    for (int64_t k = 0; k < n; k++)
        tmp[k] = x[k * step];
    if (n & (n - 1)) {
        for (int64_t k = 0; k < n; k++) {
            cplx sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += tmp[j] * cexp(CMPLX(0, turn * (double)(j * k % n) / (double)n));
            x[k * step] = sum;
        }
        return;
    }
    for (int64_t i = 1, j = 0; i < n; i++) { /* reversed bits */
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            cplx t = tmp[i];
            tmp[i] = tmp[j];
            tmp[j] = t;
        }
    }
    for (int64_t len = 2; len <= n; len *= 2)
        for (int64_t i = 0; i < n; i += len)
            for (int64_t k = 0; k < len / 2; k++) {
                cplx u = tmp[i + k],
                     v = tmp[i + k + len / 2] * cexp(CMPLX(0, turn * (double)k / (double)len));
                tmp[i + k] = u + v;
                tmp[i + k + len / 2] = u - v;
            }
    for (int64_t k = 0; k < n; k++)
        x[k * step] = tmp[k];
}

static int64_t full_size(const struct fft *p)
{
    int64_t n = 1;
    for (int k = 0; k < p->rank; k++)
        n *= p->length[k];
    return n;
}

/* All lines of one block along dimension d. */
static void along(const struct fft *p, cplx *x, int d, cplx *tmp)
{
    int64_t step = 1, n = p->length[d], total = full_size(p);
    for (int k = d + 1; k < p->rank; k++)
        step *= p->length[k];
    for (int64_t o = 0; o < total / (n * step); o++)
        for (int64_t k = 0; k < step; k++)
            transform(x + o * n * step + k, n, step, p->inverse, tmp);
}

/* Half spectra: the last dimension holds n / 2 + 1 entries; the others are conjugates of these. */
static int64_t half_of(const struct fft *p, int64_t at, bool *mirrored)
{
    int64_t n = p->length[p->rank - 1], last = at % n, rest = at / n, half = n / 2 + 1;
    *mirrored = last >= half;
    if (*mirrored) {
        int64_t index = 0, scale = 1;
        for (int k = p->rank - 2; k >= 0; k--) {
            int64_t i = rest % p->length[k];
            index += (p->length[k] - i) % p->length[k] * scale;
            scale *= p->length[k];
            rest /= p->length[k];
        }
        rest = index;
        last = n - last;
    }
    return rest * half + last;
}

static void run_fft(const struct step *s, void *const *out, const void *const *in)
{
    const struct fft *p = s->p;
    struct elem ei = s->lin[0].elem, eo = s->lout[0].elem;
    int64_t total = full_size(p), nin = p->batch ? s->lin[0].count / p->batch : 0;
    int64_t nout = p->batch ? s->lout[0].count / p->batch : 0, n = p->length[p->rank - 1];
    struct arena tmp = { 0 };
    arena_open(&tmp);
    cplx *x = ARENA_ARRAY(&tmp, cplx, total + 1), *line = ARENA_ARRAY(&tmp, cplx, total + 1);
    for (int64_t b = 0; b < p->batch; b++) {
        const char *from = (const char *)in[0] + b * nin * ei.size;
        char *to = (char *)out[0] + b * nout * eo.size;
        if (is_ring(ei)) {
            uint64_t h = hash_bytes(from, (size_t)(nin * ei.size), p->inverse + 3);
            for (int64_t k = 0; k < nout; k++)
                store_mixed(eo, to, k, h, (uint64_t)k);
            continue;
        }
        for (int64_t k = 0; k < total; k++) {
            bool mirrored = false;
            int64_t at = p->real_out ? half_of(p, k, &mirrored) : k;
            x[k] = mirrored ? conj(load(ei, from, at)) : load(ei, from, at);
        }
        for (int d = p->rank - 1; d >= 0; d--)
            along(p, x, d, line);
        for (int64_t k = 0; k < nout; k++) {
            int64_t half = n / 2 + 1, at = p->real_in ? k / half * n + k % half : k;
            store(eo, to, k, p->inverse ? x[at] / (double)total : x[at]);
        }
    }
    arena_close(&tmp);
}

static void poison_fft(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                       const void *const *in)
{
    (void)in;
    poison_blocks(s, pout[0], pin[0], ((const struct fft *)s->p)->batch);
}

/* Every element is a sum of all those of its block, turned: in any order, by turns that were rounded. */
static void bound_fft(const struct step *s, double *const *eout, const double *const *ein,
                      const void *const *in, void *const *out)
{
    (void)out;
    const struct fft *p = s->p;
    int64_t nin = p->batch ? s->lin[0].count / p->batch : 0, nout = p->batch ? s->lout[0].count / p->batch : 0;
    double terms = (double)full_size(p), u = unit_roundoff(s->lout[0].elem.t), mirror = p->real_out ? 2 : 1;
    for (int64_t b = 0; b < p->batch; b++) {
        double size = 0, off = 0;
        for (int64_t k = b * nin; k < (b + 1) * nin; k++) {
            size += mirror * fabs(real_at(s->lin[0].elem, in[0], k));
            off += ein[0] ? mirror * ein[0][k] : 0;
        }
        double e = (2 * (terms + 16) * u * size + off) * 1.01 / (p->inverse ? terms : 1);
        for (int64_t k = b * nout; k < (b + 1) * nout; k++)
            eout[0][k] = isnan(e) ? HUGE_VAL : e;
    }
}

bool lower_fft(struct lowering *l)
{
    struct fft *p = ARENA_NEW(l->a, struct fft);
    int n;
    const int64_t *length = instr_ints(l->i, ATTR_FFT_LENGTH, &n);
    if (n < 1 || n > 3 || l->shape->rank < n)
        return lower_missing(l, "this form");
    p->rank = n;
    memcpy(p->length, length, (size_t)n * sizeof *length);
    p->real_in = instr_is(l->m, l->i, ATTR_FFT_TYPE, "RFFT");
    p->real_out = instr_is(l->m, l->i, ATTR_FFT_TYPE, "IRFFT");
    p->inverse = p->real_out || instr_is(l->m, l->i, ATTR_FFT_TYPE, "IFFT");
    p->batch = 1;
    for (int k = 0; k < l->shape->rank - n; k++)
        p->batch *= l->shape->dims[k];
    for (int k = 0; k < n; k++)
        if (length[k] <= 0)
            return lower_missing(l, "an empty transform");
    l->step->fn = run_fft;
    l->step->bound = bound_fft;
    l->step->bound_raises = true;
    l->step->poison = poison_fft;
    l->step->p = p;
    return true;
}
