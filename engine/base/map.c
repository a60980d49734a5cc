#include "base/map.h"

#include <string.h>

#include "base/fail.h"
#include "base/open.h"

void map_init(struct map *m, struct arena *a)
{
    *m = (struct map){ .arena = a };
}

static int64_t map_slot(const struct map *m, uint64_t key)
{
    int64_t mask = m->cap - 1;
    int64_t i = (int64_t)(hash_u64(key) & (uint64_t)mask);
    while (m->used[i] && m->keys[i] != key)
        i = (i + 1) & mask;
    return i;
}

bool map_get(const struct map *m, uint64_t key, uint64_t *val)
{
    if (m->n == 0)
        return false;
    int64_t i = map_slot(m, key);
    if (!m->used[i])
        return false;
    *val = m->vals[i];
    return true;
}

static void map_resize(struct map *m, int64_t cap)
{
    struct map old = *m;
    uint64_t *keys = ARENA_ARRAY(m->arena, uint64_t, cap), *vals = ARENA_ARRAY(m->arena, uint64_t, cap);
    m->used = ARENA_ARRAY(m->arena, uint8_t, cap);
    m->keys = keys;
    m->vals = vals;
    m->cap = cap;
    for (int64_t i = 0; i < old.cap; i++) {
        if (!old.used[i])
            continue;
        int64_t k = map_slot(m, old.keys[i]);
        m->used[k] = 1;
        m->keys[k] = old.keys[i];
        m->vals[k] = old.vals[i];
    }
    arena_give_back(m->arena, old.keys, old.cap, sizeof *old.keys);
    arena_give_back(m->arena, old.vals, old.cap, sizeof *old.vals);
    arena_give_back(m->arena, old.used, old.cap, sizeof *old.used);
}

void map_put(struct map *m, uint64_t key, uint64_t val)
{
    if (m->n * 4 >= m->cap * 3)
        map_resize(m, m->cap ? m->cap * 2 : 16);
    int64_t i = map_slot(m, key);
    if (!m->used[i]) {
        m->used[i] = 1;
        m->keys[i] = key;
        m->n++;
    }
    m->vals[i] = val;
}

/* Eight bytes a step; good enough for hash tables, not for adversaries: probes stay short because
 * slots are compared by hash first. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
    const unsigned char *s = p;
    uint64_t h = seed ^ (n * 0x9e3779b97f4a7c15ULL);
    while (n >= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = hash_u64(h ^ w) * 0x9e3779b97f4a7c15ULL;
        s += 8;
        n -= 8;
    }
    uint64_t w = 0;
    if (n)
        memcpy(&w, s, n);
    return hash_u64(h ^ w ^ ((uint64_t)n << 56));
}

enum { INTERN_LARGE = 1 << 16 };

void intern_init(struct intern *t, struct arena *a)
{
    t->arena = a;
    t->slots = NULL;
    t->cap = 0;
    paged_init(&t->entries, a, sizeof(struct intern_entry));
}

static int64_t intern_slot(const struct intern *t, const void *bytes, size_t len, uint32_t hash)
{
    int64_t mask = t->cap - 1;
    int64_t i = (int64_t)hash & mask;
    for (; t->slots[i]; i = (i + 1) & mask) {
        const struct intern_entry *e = intern_at(t, t->slots[i]);
        if (e->hash == hash && e->len == len && memcmp(e->bytes, bytes, len) == 0)
            break;
    }
    return i;
}

static void intern_resize(struct intern *t, int64_t cap)
{
    uint32_t *slots = ARENA_ARRAY(t->arena, uint32_t, cap);
    arena_give_back(t->arena, t->slots, t->cap, sizeof *t->slots);
    t->cap = cap;
    t->slots = slots;
    for (uint32_t id = 1; id < t->entries.n; id++) {
        int64_t i = (int64_t)intern_at(t, id)->hash & (cap - 1);
        while (t->slots[i])
            i = (i + 1) & (cap - 1);
        t->slots[i] = id;
    }
}

uint32_t intern_find(const struct intern *t, const void *bytes, size_t len)
{
    if (t->cap == 0)
        return 0;
    return t->slots[intern_slot(t, len ? bytes : "", len, intern_hash(bytes, len))];
}

/* Large tables are filled to 3/4: they hold names, mostly, that are put once and then asked for by id. */
static bool too_full(const struct intern *t)
{
    int64_t n = (int64_t)t->entries.n + 1;
    return t->cap < INTERN_LARGE ? n * 2 >= t->cap : n * 4 >= t->cap * 3;
}

uint32_t intern_put(struct intern *t, const void *bytes, size_t len)
{
    INVARIANT(len < UINT32_MAX, "interned bytes are too many");
    uint32_t hash = intern_hash(bytes, len);
    if (too_full(t))
        intern_resize(t, t->cap ? t->cap * 2 : 64);
    int64_t i = intern_slot(t, len ? bytes : "", len, hash);
    if (t->slots[i])
        return t->slots[i];
    uint32_t id = paged_add(&t->entries);
    struct intern_entry *e = paged_at(&t->entries, id);
    /* Keys that are arrays of numbers are read as such; names need no alignment. */
    char *copy = arena_piece(t->arena, len + 1, len % 8 == 0 ? 8 : len % 4 == 0 ? 4 : 1);
    if (len)
        memcpy(copy, bytes, len);
    e->bytes = copy;
    e->len = (uint32_t)len;
    e->hash = hash;
    t->slots[i] = id;
    return id;
}
