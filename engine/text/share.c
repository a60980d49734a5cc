/* Lists that many instructions have in common. */
#include "text/share.h"

#include <string.h>

const int64_t *share_ints(struct share *s, const int64_t *v, int64_t n)
{
    size_t bytes = (size_t)n * sizeof *v;
    struct shared *e = &s->ints[hash_bytes(v, bytes, 11) & (SHARE_SLOTS - 1)];
    if (!e->at || e->n != n || (n && memcmp(e->at, v, bytes) != 0))
        *e = (struct shared){ arena_pack(s->arena, v, n, sizeof *v), n };
    return e->at;
}

static bool same_attrs(const struct attr *a, const struct attr *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i].key != b[i].key || a[i].type != b[i].type || a[i].n != b[i].n || a[i].i != b[i].i)
            return false;
    return true;
}

const struct attr *share_attrs(struct share *s, const struct attr *v, int64_t n)
{
    if (n == 0)
        return NULL;
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) /* not the bytes: there is padding */
        h = hash_u64(h ^ (uint64_t)v[i].i) + v[i].key;
    struct shared *e = &s->attrs[h & (SHARE_SLOTS - 1)];
    if (!e->at || e->n != n || !same_attrs(e->at, v, n))
        *e = (struct shared){ arena_pack(s->arena, v, n, sizeof *v), n };
    return e->at;
}
