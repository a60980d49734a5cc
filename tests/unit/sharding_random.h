/* Random shardings and the way between the model and the engine; for the property tests. */
#ifndef GSPMD_TESTS_SHARDING_RANDOM_H
#define GSPMD_TESTS_SHARDING_RANDOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/sharding_plain.h"

/* ---- randomness ----------------------------------------------------------------------------------- */

static uint64_t seed;

/* Number of cases: GSPMD_CASES or the given one. The start: GSPMD_SEED. */
static inline int64_t start_random(int64_t usual)
{
    const char *count = getenv("GSPMD_CASES"), *start = getenv("GSPMD_SEED");
    seed = start ? strtoull(start, NULL, 10) : 0x9e3779b97f4a7c15ULL;
    return count ? atoll(count) : usual;
}

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static inline int below(int n)
{
    return n <= 1 ? 0 : (int)((next_random() >> 11) % (uint64_t)n);
}

static inline bool chance(int percent)
{
    return below(100) < percent;
}

/* n as a product of k factors, each drawn from what is left. */
static inline void factors(int64_t n, int k, int64_t *f)
{
    for (int i = 0; i < k; i++)
        f[i] = 1;
    for (int64_t p = 2; n > 1; p++)
        while (n % p == 0) {
            f[below(k)] *= p;
            n /= p;
        }
}

static inline void shuffle(int n, int *v)
{
    for (int i = 0; i < n; i++)
        v[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = below(i + 1), x = v[i];
        v[i] = v[k];
        v[k] = x;
    }
}

/* A device order: digits in any order, some of them reversed; now and then any permutation. */
static inline void random_order(int n, int *dev)
{
    if (chance(4)) {
        shuffle(n, dev);
        return;
    }
    int64_t radix[6], at[6], stride[6];
    int k = 1 + below(5), perm[6];
    bool flip[6];
    factors(n, k, radix);
    int64_t s = 1;
    for (int i = k - 1; i >= 0; i--) {
        stride[i] = s;
        s *= radix[i];
    }
    shuffle(k, perm);
    int64_t view[6];
    for (int i = 0; i < k; i++) {
        view[i] = radix[perm[i]];
        flip[i] = chance(8);
    }
    for (int c = 0; c < n; c++) {
        p_unravel(k, view, c, at);
        dev[c] = 0;
        for (int i = 0; i < k; i++)
            dev[c] += (int)((flip[i] ? view[i] - 1 - at[i] : at[i]) * stride[perm[i]]);
    }
}

static inline int random_count(void)
{
    static const int usual[] = { 2, 4, 6, 8, 8, 8, 12, 16, 16, 16, 24, 32, 32, 64 };
    return chance(80) ? usual[below((int)COUNTOF(usual))] : 2 + below(63);
}

/* T of data rank r over n devices, with trailing axes of any kind; rarely another kind. */
static inline struct plain random_sharding(int n, int r)
{
    if (chance(3)) {
        struct plain s = p_kind(chance(60) ? SHARDING_REPLICATED : SHARDING_MAXIMAL);
        s.device = s.kind == SHARDING_MAXIMAL ? below(4) : 0;
        return s;
    }
    int64_t dims[PAX];
    int dev[PN], form = below(10);
    enum axis_type types[3];
    random_order(n, dev);
    if (form < 3) {
        factors(n, r ? r : 1, dims);
        return r ? p_plain(r, dims, dev) : p_partial(1, dims, dev);
    }
    if (form < 7) {
        factors(n, r + 1, dims);
        return p_partial(r + 1, dims, dev);
    }
    int nt = 1 + below(3);
    for (int i = 0; i < nt; i++)
        types[i] = chance(60) ? AXIS_MANUAL : AXIS_REPLICATED;
    factors(n, r + nt, dims);
    return p_subgroup(r + nt, dims, dev, nt, types);
}

/* ---- between the two -------------------------------------------------------------------------------- */

static sharding_id make(struct shardings *t, const struct plain *s)
{
    if (s->kind == SHARDING_REPLICATED)
        return sharding_replicated(t);
    if (s->kind == SHARDING_MAXIMAL)
        return sharding_maximal(t, s->device);
    if (s->kind == SHARDING_MANUAL)
        return sharding_manual(t);
    int64_t n = p_prod(s->na, s->dims), list[PN];
    for (int64_t i = 0; i < n; i++)
        list[i] = s->dev[i];
    struct tiling a = tiling_make(t, s->na, s->dims, order_from_list(t, n, list));
    if (s->lastrep)
        return sharding_partial(t, a);
    return sharding_subgroup(t, a, s->nt, s->types);
}

static inline struct plain read_back(const struct shardings *t, sharding_id id)
{
    const struct sharding *x = sharding_get(t, id);
    struct plain s = p_kind(x->kind);
    if (x->kind == SHARDING_MAXIMAL)
        s.device = (int)x->device;
    if (x->kind != SHARDING_TILED)
        return s;
    s.na = x->tiles.naxes;
    s.r = x->data_rank;
    s.lastrep = x->lastrep;
    s.nt = x->ntypes;
    memcpy(s.types, x->types, (size_t)x->ntypes * sizeof *x->types);
    memcpy(s.dims, x->tiles.dims, (size_t)s.na * sizeof *s.dims);
    for (int64_t i = 0; i < order_get(t, x->tiles.order)->ndevices; i++)
        s.dev[i] = (int)order_device(t, x->tiles.order, i);
    return s;
}

static inline void show(const char *what, const struct plain *s)
{
    printf("%s kind %d lastrep %d [", what, (int)s->kind, s->lastrep);
    for (int i = 0; i < s->na; i++)
        printf("%s%d", i ? "," : "", (int)s->dims[i]);
    printf("]");
    for (int64_t i = 0; s->kind == SHARDING_TILED && i < p_prod(s->na, s->dims); i++)
        printf("%s%d", i ? "," : "", s->dev[i]);
    for (int i = 0; i < s->nt; i++)
        printf(" type %d", (int)s->types[i]);
    printf("\n");
}

/* Compares, and says all that is needed to do it again by hand. */
static inline void check(struct shardings *t, const char *op, uint64_t started, const struct plain *in,
                  sharding_id got, const struct plain *want)
{
    struct plain g = got.i ? read_back(t, got) : p_kind(SHARDING_NONE);
    if (p_equal(&g, want)) {
        /* one value, one id */
        if (got.i && make(t, want).i == got.i)
            return;
        if (!got.i)
            return;
    }
    printf("%s, seed %" PRIu64 "\n", op, started);
    show("in  ", in);
    show("got ", &g);
    show("want", want);
    fail();
}

#endif
