#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/fail.h"
#include "base/open.h"

struct arena_block {
    struct arena_block *next;
    size_t size;
};

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 18 };

static _Thread_local struct arena *newest;

static size_t round_up(size_t n)
{
    return (n + (ALIGN - 1)) & ~(size_t)(ALIGN - 1);
}

static char *add_block(struct arena *a, size_t size)
{
    struct arena_block *b =
        fail_allocation_due() ? NULL : malloc(round_up(sizeof *b) + size);
    if (!b)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "%zu bytes are not to be had", size);
    b->next = a->blocks;
    b->size = size;
    a->blocks = b;
    return (char *)b + round_up(sizeof *b);
}

/* Small requests share blocks that double up to 256 KiB; a large one gets a block of its own, and the
 * current block stays in use. */
static char *take(struct arena *a, size_t n)
{
    if ((size_t)(a->end - a->at) >= n) {
        char *p = a->at;
        a->at += n;
        return p;
    }
    size_t size = a->bytes < FIRST_BLOCK ? FIRST_BLOCK : round_up((size_t)a->bytes);
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    if (n > size / 4)
        return add_block(a, n);
    char *p = add_block(a, size);
    a->at = p + n;
    a->end = p + size;
    return p;
}

/* Not zeroed. */
static char *alloc_bytes(struct arena *a, int64_t n, size_t size, size_t *bytes)
{
    size_t total;
    if (n < 0 || __builtin_mul_overflow((size_t)n, size, &total) || total > SIZE_MAX / 4)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "%" PRId64 " x %zu bytes are not to be had", n,
                   size);
    *bytes = round_up(total ? total : 1);
    char *p = take(a, *bytes);
    a->bytes += (int64_t)*bytes;
    return p;
}

void *arena_alloc(struct arena *a, int64_t n, size_t size)
{
    size_t bytes;
    char *p = alloc_bytes(a, n, size, &bytes);
    return memset(p, 0, bytes);
}

enum { PIECES = 4096, LARGEST_PIECE = 256 };

void *arena_piece(struct arena *a, size_t bytes, size_t align)
{
    if (bytes > LARGEST_PIECE)
        return arena_alloc(a, 1, bytes);
    size_t gap = (size_t)(-(uintptr_t)a->piece & (align - 1));
    if (!a->piece || (size_t)(a->piece_end - a->piece) < gap + bytes) {
        a->piece = arena_alloc(a, PIECES, 1);
        a->piece_end = a->piece + PIECES;
        gap = 0;
    }
    char *p = a->piece + gap; /* zeroed with its page */
    a->piece = p + bytes;
    return p;
}

void *arena_pack(struct arena *a, const void *from, int64_t n, size_t size)
{
    if (n < 0 || size == 0 || size > LARGEST_PIECE || n > (int64_t)(LARGEST_PIECE / size))
        return arena_copy(a, from, n, size);
    size_t align = size & (~size + 1);
    void *p = arena_piece(a, (size_t)n * size, align > 8 ? 8 : align);
    if (n)
        memcpy(p, from, (size_t)n * size);
    return p;
}

void arena_give_back(struct arena *a, const void *p, int64_t n, size_t size)
{
    size_t bytes = round_up((size_t)n * size);
    /* A shared block is never as small as what lies in it (take), so that equal sizes mean a block of its own. */
    for (struct arena_block **at = &a->blocks; bytes && *at; at = &(*at)->next) {
        struct arena_block *b = *at;
        if ((const char *)b + round_up(sizeof *b) != (const char *)p)
            continue;
        if (b->size == bytes) {
            *at = b->next; /* a->bytes stays: it counts what was asked for */
            free(b);
        }
        return;
    }
}

void *arena_copy(struct arena *a, const void *from, int64_t n, size_t size)
{
    void *p = arena_alloc(a, n, size);
    if (n > 0 && size > 0)
        memcpy(p, from, (size_t)n * size);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, (int64_t)n + 1, 1);
    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = arena_alloc(a, (n < 0 ? 0 : n) + 1, 1);
    if (n > 0)
        (void)vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

void arena_free(struct arena *a)
{
    for (struct arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->blocks = NULL;
    a->at = a->end = NULL;
    a->piece = a->piece_end = NULL;
    a->bytes = 0;
}

void arena_keep_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* blocks come from the heap: the most that glibc takes */
    (void)mallopt(M_TRIM_THRESHOLD, 128 << 20);
    (void)mallopt(M_TOP_PAD, 1 << 20);
#endif
}

void arena_open(struct arena *a)
{
    INVARIANT(!a->open, "arena opened twice");
    a->open = true;
    a->next = NULL;
    a->prev = newest;
    if (newest)
        newest->next = a;
    newest = a;
}

void arena_close(struct arena *a)
{
    INVARIANT(a->open, "arena closed that is not open");
    if (a->prev)
        a->prev->next = a->next;
    if (a->next)
        a->next->prev = a->prev;
    else
        newest = a->prev;
    a->open = false;
    a->prev = a->next = NULL;
    arena_free(a);
}

struct arena *arena_open_list(void)
{
    return newest;
}

void arena_close_down_to(const struct arena *mark)
{
    while (newest && newest != mark)
        arena_close(newest);
}

void *vec_grow(struct arena *a, void *v, int64_t n, int64_t *cap, size_t size)
{
    int64_t more = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(a, more, size);
    if (n)
        memcpy(p, v, (size_t)n * size);
    *cap = more;
    return p;
}

enum { PAGE = 1024 };

void paged_init(struct paged *t, struct arena *a, size_t size)
{
    *t = (struct paged){ .arena = a, .size = size };
    (void)paged_add(t); /* entry 0: none */
}

uint32_t paged_add(struct paged *t)
{
    uint32_t i = t->n;
    INVARIANT(i < UINT32_MAX - 1, "table is full");
    if ((i & (PAGE - 1)) == 0) {
        if (t->npages == t->cappages)
            t->pages = vec_grow(t->arena, t->pages, t->npages, &t->cappages, sizeof *t->pages);
        size_t bytes;
        t->pages[t->npages] = alloc_bytes(t->arena, PAGE, t->size, &bytes);
        t->npages++;
    }
    t->n = i + 1;
    memset(paged_at(t, i), 0, t->size); /* not the whole page: a small document touches little of it */
    return i;
}
