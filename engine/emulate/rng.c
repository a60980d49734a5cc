/* rng-bit-generator: the bits that XLA makes, by Threefry (2 x 32, 20 rounds) and Philox (4 x 32,
 * 10 rounds), both from "Parallel Random Numbers: As Easy as 1, 2, 3" (Salmon et al., 2011). */
#include <string.h>

#include "emulate/lower.h"

struct rng {
    bool philox;
    int bits;   /* of one element */
    int nstate; /* u64 words of the state */
    int64_t count;
    int64_t outer, split, inner; /* Threefry, 32 bits: dimension that its pairs run along */
};

static uint32_t rotl(uint32_t x, int r)
{
    return x << r | x >> (32 - r);
}

static void threefry(uint32_t k0, uint32_t k1, uint32_t *x0, uint32_t *x1)
{
    static const int turns[2][4] = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } };
    const uint32_t ks[3] = { k0, k1, 0x1bd11bdau ^ k0 ^ k1 };
    uint32_t a = *x0 + ks[0], b = *x1 + ks[1];
    for (uint32_t round = 0; round < 5; round++) {
        for (int j = 0; j < 4; j++) {
            a += b;
            b = rotl(b, turns[round & 1][j]) ^ a;
        }
        a += ks[(round + 1) % 3];
        b += ks[(round + 2) % 3] + round + 1;
    }
    *x0 = a;
    *x1 = b;
}

static void philox(uint32_t k0, uint32_t k1, uint32_t *x)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xd2511f53u * x[0], q = (uint64_t)0xcd9e8d57u * x[2];
        uint32_t y[4] = { (uint32_t)(q >> 32) ^ x[1] ^ k0, (uint32_t)q,
                          (uint32_t)(p >> 32) ^ x[3] ^ k1, (uint32_t)p };
        memcpy(x, y, sizeof y);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

static void put_bits(void *out, int64_t i, int bits, uint64_t v)
{
    switch (bits) {
    case 64: ((uint64_t *)out)[i] = v; return;
    case 32: ((uint32_t *)out)[i] = (uint32_t)v; return;
    case 16: ((uint16_t *)out)[i] = (uint16_t)v; return;
    default: ((uint8_t *)out)[i] = (uint8_t)v;
    }
}

/* Pairs of 32 bits: the two words of counter c stand at 2 h and 2 h + 1 along the split dimension,
 * h and c both running over the array with that dimension halved. */
static uint64_t threefry_bits(const struct rng *p, const uint64_t *state, void *out)
{
    uint32_t k0 = (uint32_t)state[0], k1 = (uint32_t)(state[0] >> 32);
    if (p->bits == 64) {
        for (int64_t i = 0; i < p->count; i++) {
            uint64_t c = state[1] + (uint64_t)i;
            uint32_t a = (uint32_t)c, b = (uint32_t)(c >> 32);
            threefry(k0, k1, &a, &b);
            put_bits(out, i, 64, a | (uint64_t)b << 32);
        }
        return (uint64_t)p->count;
    }
    int64_t half = ceil_div(p->split, 2);
    uint64_t used = 0;
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t h = 0; h < half; h++)
            for (int64_t k = 0; k < p->inner; k++) {
                uint64_t c = state[1] + used++;
                uint32_t x[2] = { (uint32_t)c, (uint32_t)(c >> 32) };
                threefry(k0, k1, &x[0], &x[1]);
                for (int64_t j = 0; j < 2 && 2 * h + j < p->split; j++)
                    put_bits(out, (o * p->split + 2 * h + j) * p->inner + k, p->bits, x[j]);
            }
    return used;
}

/* A 128-bit counter; four words of 32 bits a step, in order. A state of two words has its key as
 * the upper half. */
static uint64_t philox_bits(const struct rng *p, const uint64_t *state, void *out)
{
    uint32_t k0 = (uint32_t)state[0], k1 = (uint32_t)(state[0] >> 32);
    int64_t per = p->bits == 64 ? 2 : 4, steps = ceil_div(p->count, per);
    for (int64_t s = 0; s < steps; s++) {
        uint64_t lo = state[1] + (uint64_t)s, hi = state[p->nstate > 2 ? 2 : 0] + (lo < state[1]);
        uint32_t x[4] = { (uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32) };
        philox(k0, k1, x);
        for (int64_t j = 0; j < per && s * per + j < p->count; j++)
            put_bits(out, s * per + j, p->bits,
                     per == 2 ? x[2 * j] | (uint64_t)x[2 * j + 1] << 32 : x[j]);
    }
    return (uint64_t)steps;
}

static void run_rng(const struct step *s, void *const *out, const void *const *in)
{
    const struct rng *p = s->p;
    uint64_t state[3] = { 0 };
    memcpy(state, in[0], (size_t)p->nstate * 8);
    bool pair = s->nout == 2;
    uint64_t used =
        p->philox ? philox_bits(p, state, out[pair]) : threefry_bits(p, state, out[pair]);
    if (!pair)
        return;
    uint64_t before = state[1];
    state[1] += used;
    if (p->nstate > 2)
        state[2] += state[1] < before;
    memcpy(out[0], state, (size_t)p->nstate * 8);
}

bool lower_rng_bit_generator(struct lowering *l)
{
    struct step *s = l->step;
    struct rng *p = ARENA_NEW(l->a, struct rng);
    const struct shape *bits = instr_shape(l->m, l->id);
    if (bits->kind == SHAPE_TUPLE)
        bits = shape_get(l->m->ir, shape_leaf(l->m->ir, l->i->shape, s->nout - 1));
    int64_t state_bytes = s->lin[0].bytes;
    p->philox = !instr_is(l->m, l->i, ATTR_ALGORITHM, "rng_three_fry") &&
                !instr_is(l->m, l->i, ATTR_RNG_ALGORITHM, "rng_three_fry");
    p->bits = dtype_bits(bits->dtype);
    p->nstate = (int)(state_bytes / 8);
    p->count = bits->count;
    enum dtype_kind kind = dtype_kind(bits->dtype);
    if (state_bytes % 8 || p->nstate < 2 || p->nstate > 3 || s->nout > 2 || p->bits < 8 ||
        (kind != DTYPE_KIND_UNSIGNED && kind != DTYPE_KIND_SIGNED))
        return lower_missing(l, "this form of random bits");
    int dim = -1;
    for (int k = 0; k < bits->rank && dim < 0; k++)
        if (bits->dims[k] % 2 == 0)
            dim = k;
    for (int k = 0; k < bits->rank; k++)
        if (dim < 0 || (bits->dims[dim] % 2 && bits->dims[k] > bits->dims[dim]))
            dim = k;
    p->outer = p->split = p->inner = 1;
    for (int k = 0; k < bits->rank; k++)
        *(k < dim ? &p->outer : k > dim ? &p->inner : &p->split) *= bits->dims[k];
    s->fn = run_rng;
    s->poison = poison_all;
    s->p = p;
    return true;
}
