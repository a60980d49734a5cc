/* Arenas: memory by lifetime. Everything in one is freed together, nothing alone.
 *
 * Allocations are zeroed, aligned to 16 and never NULL: what cannot be had raises FAIL_MEMORY.
 * An arena starts as {0}. A *pass* arena (one that dies when a function returns) is opened and
 * closed, so that a failure in between frees it too:
 *
 *     struct arena tmp = { 0 };
 *     arena_open(&tmp);
 *     ...
 *     arena_close(&tmp);
 */
#ifndef GSPMD_BASE_ARENA_H
#define GSPMD_BASE_ARENA_H

#include "base/base.h"

struct arena_block;

struct arena {
    struct arena_block *blocks;
    char *at, *end;
    char *piece, *piece_end; /* arena_piece: where small pieces lie side by side */
    int64_t bytes; /* asked for so far: a counter that tests assert on */
    struct arena *prev, *next; /* the thread's open pass arenas */
    bool open;
};

void *arena_alloc(struct arena *a, int64_t n, size_t size);
void *arena_copy(struct arena *a, const void *from, int64_t n, size_t size);
/* Zeroed bytes aligned to 1, 2, 4 or 8 only: for small things that there are many of. */
void *arena_piece(struct arena *a, size_t bytes, size_t align);
/* arena_copy into such a place, aligned as an array of this element size needs. */
void *arena_pack(struct arena *a, const void *from, int64_t n, size_t size);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arena_free(struct arena *a); /* back to {0}; accepts an empty one */

/* Once, by a main(): freed blocks stay with the process, up to 128 MiB, and the next pass finds its memory
 * there. What every edit makes and drops would else cost more in page faults than in work. */
void arena_keep_memory(void);

void arena_open(struct arena *a);
void arena_close(struct arena *a);

#define ARENA_NEW(a, T)      ((T *)arena_alloc((a), 1, sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), (n), sizeof(T)))

/* Growing arrays in an arena: VEC(int64_t) v = {0}; vec_push(&tmp, &v, 7); v.v[i], v.n.
 * Elements move when the array grows: keep no pointer into one that is still pushed to. */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        int64_t n, cap;                                                                            \
    }

#define vec_push(a, vec, value)                                                                    \
    do {                                                                                           \
        if ((vec)->n == (vec)->cap)                                                                \
            (vec)->v = vec_grow((a), (vec)->v, (vec)->n, &(vec)->cap, sizeof *(vec)->v);           \
        (vec)->v[(vec)->n++] = (value);                                                            \
    } while (0)

void *vec_grow(struct arena *a, void *v, int64_t n, int64_t *cap, size_t size);

/* A table that only grows and never moves an entry: pages of 1024. Entry 0 exists from the start
 * and stands for "none". */
struct paged {
    struct arena *arena;
    void **pages;
    int64_t npages, cappages;
    uint32_t n;
    size_t size;
};

void paged_init(struct paged *t, struct arena *a, size_t size);
uint32_t paged_add(struct paged *t); /* a zeroed new entry's index */
static inline void *paged_at(const struct paged *t, uint32_t i)
{
    return (char *)t->pages[i >> 10] + (size_t)(i & 1023) * t->size;
}

#endif
