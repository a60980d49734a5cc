/* Hash maps in an arena: 64-bit keys to 64-bit values, and byte strings to dense ids.
 * Iteration order is not offered: it would leak into output. */
#ifndef GSPMD_BASE_MAP_H
#define GSPMD_BASE_MAP_H

#include "base/arena.h"

struct map {
    struct arena *arena;
    uint64_t *keys;
    uint64_t *vals;
    uint8_t *used;
    int64_t n, cap;
};

void map_init(struct map *m, struct arena *a);
bool map_get(const struct map *m, uint64_t key, uint64_t *val);
void map_put(struct map *m, uint64_t key, uint64_t val); /* inserts or overwrites */

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

/* Interning: equal bytes, equal id (from 1 up). The bytes are copied once and stay where they are;
 * a NUL follows them. */
struct intern {
    struct arena *arena;
    struct paged entries; /* struct intern_entry */
    uint64_t *slots; /* hash << 32 | id: probes compare hashes without a look at the entry */
    int64_t cap;
};

struct intern_entry {
    const void *bytes;
    uint32_t len;
    uint32_t hash;
};

void intern_init(struct intern *t, struct arena *a);
uint32_t intern_put(struct intern *t, const void *bytes, size_t len);
uint32_t intern_find(const struct intern *t, const void *bytes, size_t len); /* 0: not there */
static inline const struct intern_entry *intern_at(const struct intern *t, uint32_t id)
{
    return (const struct intern_entry *)paged_at(&t->entries, id);
}

#endif
