/* Hash maps in an arena: 64-bit keys to 64-bit values, and byte strings to dense ids.
 * Iteration order is not offered: it would leak into output. */
#ifndef GSPMD_BASE_MAP_H
#define GSPMD_BASE_MAP_H

#include <string.h>

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
    uint32_t *slots; /* ids; load at most 1/2, of large ones 3/4 */
    int64_t cap;
};

struct intern_entry {
    const void *bytes;
    uint32_t len;
    uint32_t hash;
};

/* Where a probe starts. One multiplication for eight bytes: keys of ids and small numbers are most. */
static inline uint32_t intern_hash(const void *p, size_t n)
{
    const unsigned char *s = (const unsigned char *)p;
    uint64_t h = (n + 1) * 0x9e3779b97f4a7c15ULL, w = 0;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdULL;
        h ^= h >> 31;
    }
    w = 0;
    if (n)
        memcpy(&w, s, n);
    return (uint32_t)hash_u64(h ^ w);
}

void intern_init(struct intern *t, struct arena *a);
uint32_t intern_put(struct intern *t, const void *bytes, size_t len);
uint32_t intern_find(const struct intern *t, const void *bytes, size_t len); /* 0: not there */
static inline const struct intern_entry *intern_at(const struct intern *t, uint32_t id)
{
    return (const struct intern_entry *)paged_at(&t->entries, id);
}

#endif
