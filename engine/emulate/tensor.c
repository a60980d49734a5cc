/* Arrays on the host: made up from a formula, cut into shards, joined again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "emulate/lower.h"

void tensor_free(struct tensor *t)
{
    if (!t)
        return;
    free(t->data);
    free(t->poison);
    free(t->dims);
    *t = (struct tensor){ 0 };
}

static int element_size(enum dtype t, bool ring)
{
    return elem_of(t, ring ? EMU_RING : EMU_FLOAT).size;
}

bool tensor_alloc(enum dtype t, int rank, const int64_t *dims, bool ring, struct tensor *out)
{
    int64_t n, bytes;
    *out = (struct tensor){ .dtype = t, .rank = rank, .ring = ring };
    if (t == DTYPE_NONE) /* a token */
        return true;
    if (!product_ok(dims, rank, &n) || n < 0 || !mul_ok(n, element_size(t, ring), &bytes))
        return false;
    out->dims = malloc((size_t)(rank + 1) * sizeof *out->dims);
    out->data = malloc((size_t)bytes + 1);
    out->bytes = bytes;
    if (!out->dims || !out->data) {
        tensor_free(out);
        return false;
    }
    dims_copy(out->dims, dims, rank);
    return true;
}

static int64_t tensor_count(const struct tensor *t)
{
    return t->dtype == DTYPE_NONE ? 0 : t->bytes / element_size(t->dtype, t->ring);
}

/* ---- generated values ---------------------------------------------------------------------------
 */

/* One element of value number v: a table of 17 of them makes any array. */
static void put_value(enum dtype t, int64_t v, char *at)
{
    enum dtype_kind kind = dtype_kind(t);
    if (kind == DTYPE_KIND_PRED) {
        *at = v % 3 == 0;
    } else if (kind == DTYPE_KIND_FLOAT) {
        real_store(t, (double)(v - 8), at);
    } else {
        int64_t x = kind == DTYPE_KIND_SIGNED ? v - 8 : v;
        int bits = dtype_bits(t);
        if (bits < 8 && kind == DTYPE_KIND_SIGNED)
            x = (int64_t)((uint64_t)x << (64 - bits)) >> (64 - bits);
        else if (bits < 8)
            x &= (1 << bits) - 1;
        memcpy(at, &x, (size_t)dtype_bytes(t)); /* little endian: the low bytes */
    }
}

/* Value number of element i of parameter k: the formula, or any number of the seed. */
static uint64_t value_number(uint64_t i, uint64_t k, uint64_t seed, uint64_t modulus, uint64_t a,
                             uint64_t b, uint64_t c)
{
    if (seed == 0)
        return (a * i + b * k + c) % modulus;
    return hash_u64(seed + hash_u64(i * 2 + 1 + hash_u64(k + modulus))) % modulus;
}

static void put_complex(enum dtype t, struct tensor *out, int64_t k, uint64_t seed)
{
    enum dtype part = t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
    int64_t size = dtype_bytes(part), n = tensor_count(out);
    for (int64_t i = 0; i < n; i++) {
        char *at = (char *)out->data + 2 * i * size;
        real_store(part, (double)value_number((uint64_t)i, (uint64_t)k, seed, 17, 7, 13, 3) - 8,
                   at);
        real_store(part, (double)value_number((uint64_t)i, (uint64_t)k, seed, 13, 5, 11, 2) - 6,
                   at + size);
    }
}

bool tensor_generate(enum dtype t, int rank, const int64_t *dims, int64_t k, uint64_t seed,
                     struct tensor *out, struct diag *d)
{
    char table[17][8];
    if (!tensor_alloc(t, rank, dims, false, out))
        return diag_error(d, NULL, (struct span){ 0, 0 }, "no memory for parameter %" PRId64, k);
    if (dtype_kind(t) == DTYPE_KIND_COMPLEX) {
        put_complex(t, out, k, seed);
        return true;
    }
    int64_t n = tensor_count(out);
    size_t size = n ? (size_t)dtype_bytes(t) : 0;
    for (int64_t v = 0; v < 17 && n; v++)
        put_value(t, v, table[v]);
    uint64_t v = value_number(0, (uint64_t)k, seed, 17, 7, 13, 3);
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)out->data + (size_t)i * size, table[v], size);
        if (seed)
            v = value_number((uint64_t)i + 1, (uint64_t)k, seed, 17, 7, 13, 3);
        else
            v = v >= 10 ? v - 10 : v + 7;
    }
    return true;
}

bool tensor_to_ring(const struct tensor *in, struct tensor *out)
{
    enum dtype_kind kind = dtype_kind(in->dtype);
    bool floats = kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX;
    if (!tensor_alloc(in->dtype, in->rank, in->dims, true, out))
        return false;
    if (floats && !in->ring)
        ring_from_floats(in->dtype, in->data, out->data, tensor_count(in));
    else
        memcpy(out->data, in->data, (size_t)in->bytes);
    if (!in->poison)
        return true;
    out->poison = malloc((size_t)tensor_count(in) + 1);
    if (!out->poison) {
        tensor_free(out);
        return false;
    }
    memcpy(out->poison, in->poison, (size_t)tensor_count(in));
    return true;
}

/* ---- shards -------------------------------------------------------------------------------------
 */

/* S-13: tile i holds [i * S, (i + 1) * S) cut at the array's end; the rest of the shard is padding.
 */
bool shard_window(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                  int64_t device, int64_t *start, int64_t *real, int64_t *local)
{
    int64_t index[MAX_RANK + 3] = { 0 }, owner;
    dims_copy(local, dims, rank);
    bool tiled = s.i && sharding_is_tiled(t, s);
    if (tiled)
        sharding_shard_dims(t, s, rank, dims, local);
    bool holds = !s.i || sharding_is_manual(t, s) || sharding_tile_index(t, s, device, index);
    if (s.i && !tiled && sharding_unique_device(t, s, &owner))
        holds = owner == device;
    for (int k = 0; k < rank; k++) {
        start[k] = tiled ? min_i64(index[k] * local[k], dims[k]) : 0;
        real[k] = holds ? min_i64(local[k], dims[k] - start[k]) : 0;
    }
    return holds;
}

/* Padding must hurt: NaN, large odd numbers, a random ring element. */
static void hurting(struct elem e, bool ring, char *out)
{
    enum dtype_kind kind = dtype_kind(e.t);
    memset(out, 0, 32);
    if (ring && (kind == DTYPE_KIND_FLOAT || kind == DTYPE_KIND_COMPLEX)) {
        int64_t v = ring_mix(0x706f69736f6e, 1, 2);
        memcpy(out, &v, 8);
        memcpy(out + 8, &v, 8);
    } else if (kind == DTYPE_KIND_FLOAT) {
        real_store(e.t, (double)NAN, out);
    } else if (kind == DTYPE_KIND_COMPLEX) {
        enum dtype part = e.t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
        real_store(part, (double)NAN, out);
        real_store(part, (double)NAN, out + dtype_bytes(part));
    } else if (kind == DTYPE_KIND_PRED) {
        out[0] = 1;
    } else {
        int bits = dtype_bits(e.t), used = kind == DTYPE_KIND_SIGNED ? bits - 1 : bits;
        uint64_t v = used >= 64 ? UINT64_MAX : ((uint64_t)1 << used) - 1;
        v -= v > 16 ? 10 : 0; /* not quite the largest: sums of it wrap */
        memcpy(out, &v, (size_t)e.size);
    }
}

static struct box shard_box(struct arena *a, int rank, const int64_t *dims, const int64_t *local,
                            const int64_t *start, const int64_t *real)
{
    struct box b = box_new(a, rank);
    row_strides(rank, local, b.dst);
    row_strides(rank, dims, b.src);
    for (int k = 0; k < rank; k++) {
        b.dims[k] = real[k];
        b.src0 += start[k] * b.src[k];
    }
    return b;
}

struct box cut_box(struct arena *a, const struct shardings *t, const struct cut *c, int64_t device,
                   int64_t *local_count)
{
    int64_t start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
    shard_window(t, c->sharding, c->rank, c->dims, device, start, real, local);
    struct box b = shard_box(a, c->rank, c->dims, local, start, real);
    box_compact(&b);
    *local_count = 1;
    for (int k = 0; k < c->rank; k++)
        *local_count *= local[k];
    return b;
}

static bool cut_poison(const struct tensor *global, struct tensor *out, const struct box *b,
                       bool all_real)
{
    int64_t n = tensor_count(out);
    if (all_real && !global->poison)
        return true;
    out->poison = malloc((size_t)n + 1);
    if (!out->poison)
        return false;
    memset(out->poison, 1, (size_t)n);
    struct box clean = *b;
    int64_t still[MAX_RANK] = { 0 };
    static const uint8_t zero[1] = { 0 };
    if (!global->poison) {
        clean.src = still;
        clean.src0 = 0;
    }
    box_copy(&clean, out->poison, global->poison ? global->poison : zero, 1);
    return true;
}

bool tensor_cut(struct shardings *t, sharding_id s, const struct tensor *global, int64_t device,
                struct tensor *out)
{
    int64_t start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
    struct arena tmp = { 0 };
    if (global->rank > MAX_RANK)
        return false;
    shard_window(t, s, global->rank, global->dims, device, start, real, local);
    if (!tensor_alloc(global->dtype, global->rank, local, global->ring, out))
        return false;
    struct elem e = elem_of(global->dtype, global->ring ? EMU_RING : EMU_FLOAT);
    char fill[32];
    hurting(e, global->ring, fill);
    int64_t n = tensor_count(out), held = 1;
    for (int k = 0; k < global->rank; k++)
        held *= real[k];
    arena_open(&tmp);
    struct box b = shard_box(&tmp, global->rank, global->dims, local, start, real);
    box_compact(&b);
    if (global->rank == 0 && n && !shard_window(t, s, 0, NULL, device, start, real, local)) {
        b.empty = true; /* a scalar that lives elsewhere */
        held = 0;
    }
    if (held != n)
        fill_elements(out->data, fill, e.size, n);
    box_copy(&b, out->data, global->data, e.size);
    bool ok = cut_poison(global, out, &b, held == n);
    arena_close(&tmp);
    if (!ok)
        tensor_free(out);
    return ok;
}

/* ---- joining ------------------------------------------------------------------------------------
 */

struct joining {
    char *data;
    const char *from;
    uint8_t *seen, *poison;
    const uint8_t *from_poison;
    int size;
    bool equal;
};

/* dst: local, src: global offsets (the box of a cut, walked the other way). */
static void join_row(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct joining *j = context;
    for (int64_t i = 0; i < n; i++, d += ds, s += ss) {
        const char *from = j->from + d * j->size;
        char *to = j->data + s * j->size;
        if (j->seen[s])
            j->equal &= memcmp(to, from, (size_t)j->size) == 0;
        else
            memcpy(to, from, (size_t)j->size);
        j->seen[s] = 1;
        if (j->from_poison && j->from_poison[d])
            j->poison[s] = 1;
    }
}

bool tensor_join(struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                 const struct tensor *shards, int64_t stride, int64_t ndevices, struct tensor *out,
                 bool *copies_equal)
{
    struct arena tmp = { 0 };
    if (rank > MAX_RANK || !tensor_alloc(shards[0].dtype, rank, dims, shards[0].ring, out))
        return false;
    int64_t n = tensor_count(out);
    *copies_equal = true;
    if (shards[0].dtype == DTYPE_NONE)
        return true;
    memset(out->data, 0, (size_t)out->bytes);
    arena_open(&tmp);
    struct joining j = { .data = out->data,
                         .size = element_size(out->dtype, out->ring),
                         .equal = true };
    j.seen = arena_alloc(&tmp, n + 1, 1);
    j.poison = arena_alloc(&tmp, n + 1, 1);
    for (int64_t d = 0; d < ndevices; d++) {
        int64_t start[MAX_RANK], real[MAX_RANK], local[MAX_RANK];
        const struct tensor *shard = &shards[d * stride];
        if (!shard_window(t, s, rank, dims, d, start, real, local))
            continue;
        struct box b = shard_box(&tmp, rank, dims, local, start, real);
        box_compact(&b);
        j.from = shard->data;
        j.from_poison = shard->poison;
        box_rows(&b, join_row, &j);
    }
    *copies_equal = j.equal;
    bool bad = memchr(j.poison, 1, (size_t)n + 1) != NULL, ok = true;
    if (bad) {
        out->poison = malloc((size_t)n + 1);
        ok = out->poison != NULL;
        if (ok)
            memcpy(out->poison, j.poison, (size_t)n);
    }
    arena_close(&tmp);
    if (!ok)
        tensor_free(out);
    return ok;
}
