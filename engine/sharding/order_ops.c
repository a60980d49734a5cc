/* What is done to a (dims, order) pair. Each operation works on digits where the axes are whole runs
 * of them, and on the plain list of devices where they are not (internals.md section 1). */
#include <stdlib.h>
#include <string.h>

#include "sharding/internal.h"

int64_t *order_list(const struct shardings *t, struct arena *a, order_id o)
{
    const struct order *e = order_get(t, o);
    if (e->explicit_)
        return arena_copy(a, e->explicit_, e->ndevices, sizeof(int64_t));
    int64_t *v = ARENA_ARRAY(a, int64_t, e->ndevices);
    /* v[0 .. done) holds the cells of the digits so far, minor ones first. */
    int64_t done = 1;
    for (int i = e->ndigits - 1; i >= 0; i--) {
        const struct digit *d = &e->digits[i];
        for (int64_t c = d->radix - 1; c >= 0; c--) {
            /* downwards: block 0 is the source of all and changes last */
            int64_t add = (d->reversed ? d->radix - 1 - c : c) * d->stride;
            for (int64_t k = 0; k < done; k++)
                v[c * done + k] = v[k] + add;
        }
        done *= d->radix;
    }
    return v;
}

int64_t *order_inverse_list(const struct shardings *t, struct arena *a, order_id o)
{
    const struct order *e = order_get(t, o);
    int64_t n = e->ndevices;
    int64_t *list = order_list(t, a, o), *inv = ARENA_ARRAY(a, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        inv[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= n || inv[list[i]] >= 0)
            return NULL;
        inv[list[i]] = i;
    }
    return inv;
}

/* ---- transpose -------------------------------------------------------------------------------------- */

static bool keeps_order(int naxes, const int64_t *dims, const int *perm)
{
    int last = -1;
    for (int i = 0; i < naxes; i++) {
        if (dims[perm[i]] == 1)
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return true;
}

static order_id transpose_digits(struct shardings *t, const struct runs *r, int64_t n,
                                 const int *perm)
{
    struct digit d[DIGITS_MAX];
    int nd = 0;
    for (int i = 0; i < r->naxes; i++)
        for (int k = run_start(r, perm[i]); k < r->end[perm[i]]; k++)
            d[nd++] = r->d[k];
    return order_from_digits(t, n, nd, d);
}

static order_id transpose_list(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                               const int *perm)
{
    int64_t step[AXES_MAX], size[AXES_MAX], at[AXES_MAX] = { 0 };
    int64_t n = order_get(t, o)->ndevices, s = 1;
    for (int i = naxes - 1; i >= 0; i--) {
        step[i] = s;
        s *= dims[i];
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    const int64_t *from = order_list(t, &tmp, o);
    int64_t *to = ARENA_ARRAY(&tmp, int64_t, n);
    for (int i = 0; i < naxes; i++)
        size[i] = dims[perm[i]];
    int64_t cell = 0;
    for (int64_t k = 0; k < n; k++) {
        to[k] = from[cell];
        for (int i = naxes - 1; i >= 0; i--) {
            cell += step[perm[i]];
            if (++at[i] < size[i])
                break;
            cell -= step[perm[i]] * size[i];
            at[i] = 0;
        }
    }
    order_id r = order_intern_list(t, n, to);
    arena_close(&tmp);
    return r;
}

order_id order_transpose(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                         const int *perm)
{
    if (keeps_order(naxes, dims, perm))
        return o;
    struct runs r;
    if (runs_cut(t, naxes, dims, o, &r))
        return transpose_digits(t, &r, order_get(t, o)->ndevices, perm);
    return transpose_list(t, naxes, dims, o, perm);
}

/* ---- sorting runs ------------------------------------------------------------------------------------ */

static void sort_falling(struct digit *d, int n)
{
    for (int i = 1; i < n; i++) {
        struct digit x = d[i];
        int k = i;
        for (; k > 0 && d[k - 1].stride < x.stride; k--)
            d[k] = d[k - 1];
        d[k] = x;
    }
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static order_id sort_runs_list(struct shardings *t, order_id o, int64_t size)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t n = order_get(t, o)->ndevices;
    int64_t *v = order_list(t, &tmp, o);
    for (int64_t i = 0; i < n; i += size)
        qsort(v + i, (size_t)size, sizeof *v, compare_i64);
    order_id r = order_intern_list(t, n, v);
    arena_close(&tmp);
    return r;
}

order_id order_sort_runs(struct shardings *t, order_id o, int64_t size)
{
    int64_t n = order_get(t, o)->ndevices;
    if (size == 1 || order_is_iota(t, o))
        return o;
    int64_t dims[2] = { n / size, size };
    struct runs r;
    if (!runs_cut(t, 2, dims, o, &r))
        return sort_runs_list(t, o, size);
    int from = run_start(&r, 1);
    for (int i = from; i < r.ndigits; i++)
        r.d[i].reversed = false;
    sort_falling(r.d + from, r.ndigits - from);
    return order_from_digits(t, n, r.ndigits, r.d);
}

/* ---- reverse ------------------------------------------------------------------------------------------ */

static order_id reverse_list(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                             const bool *flip)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t n = order_get(t, o)->ndevices;
    const int64_t *from = order_list(t, &tmp, o);
    int64_t *to = ARENA_ARRAY(&tmp, int64_t, n);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, cell = 0, step = 1;
        for (int i = naxes - 1; i >= 0; i--) {
            int64_t x = rest % dims[i];
            rest /= dims[i];
            cell += (flip[i] ? dims[i] - 1 - x : x) * step;
            step *= dims[i];
        }
        to[k] = from[cell];
    }
    order_id r = order_intern_list(t, n, to);
    arena_close(&tmp);
    return r;
}

order_id order_reverse(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                       const bool *flip)
{
    struct runs r;
    if (!runs_cut(t, naxes, dims, o, &r))
        return reverse_list(t, naxes, dims, o, flip);
    for (int i = 0; i < naxes; i++)
        for (int k = run_start(&r, i); flip[i] && k < r.end[i]; k++)
            r.d[k].reversed = !r.d[k].reversed;
    return order_from_digits(t, order_get(t, o)->ndevices, r.ndigits, r.d);
}

/* ---- compose ------------------------------------------------------------------------------------------ */

static order_id compose_list(struct shardings *t, order_id o, order_id inner)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t n = order_get(t, o)->ndevices, m = order_get(t, inner)->ndevices;
    const int64_t *from = order_list(t, &tmp, o), *in = order_list(t, &tmp, inner);
    int64_t *to = ARENA_ARRAY(&tmp, int64_t, n);
    for (int64_t y = 0; y < n; y += m)
        for (int64_t x = 0; x < m; x++) {
            INVARIANT(in[x] >= 0 && in[x] < m, "inner order names member %" PRId64, in[x]);
            to[y + x] = from[y + in[x]];
        }
    order_id r = order_intern_list(t, n, to);
    arena_close(&tmp);
    return r;
}

/* The cells of o viewed by the digits of inner: [lead, radices by falling stride]; then the digits
 * are put into inner's order and flipped where inner counts down. */
order_id order_compose(struct shardings *t, order_id o, order_id inner)
{
    if (order_is_iota(t, inner))
        return o;
    const struct order *in = order_get(t, inner);
    int64_t n = order_get(t, o)->ndevices, m = in->ndevices;
    if (n == m && order_is_iota(t, o))
        return inner;
    if (in->explicit_)
        return compose_list(t, o, inner);
    struct digit sorted[DIGITS_MAX];
    memcpy(sorted, in->digits, (size_t)in->ndigits * sizeof *sorted);
    sort_falling(sorted, in->ndigits);
    int64_t dims[DIGITS_MAX + 1], moved[DIGITS_MAX + 1];
    int perm[DIGITS_MAX + 1];
    bool flip[DIGITS_MAX + 1] = { false }, any = false;
    dims[0] = moved[0] = n / m;
    perm[0] = 0;
    for (int i = 0; i < in->ndigits; i++) {
        dims[i + 1] = sorted[i].radix;
        moved[i + 1] = in->digits[i].radix;
        flip[i + 1] = in->digits[i].reversed;
        any = any || flip[i + 1];
        for (int k = 0; k < in->ndigits; k++)
            if (sorted[k].stride == in->digits[i].stride)
                perm[i + 1] = k + 1;
    }
    int naxes = in->ndigits + 1;
    struct runs r;
    if (!runs_cut(t, naxes, dims, o, &r))
        return compose_list(t, o, inner);
    order_id done = transpose_digits(t, &r, n, perm);
    return any ? order_reverse(t, naxes, moved, done, flip) : done;
}
