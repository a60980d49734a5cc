/* Counted buffers and the pools that they come from. */
#include "emulate/internal.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define HEADER   64 /* keeps data aligned for vectors */
#define SMALLEST 6

_Static_assert(sizeof(struct buf) <= HEADER, "a buffer's header fits in front of its data");

static int class_of(int64_t bytes)
{
    int c = 0;
    while (c < POOL_CLASSES && ((int64_t)1 << (c + SMALLEST)) < bytes)
        c++;
    return c;
}

/* Large buffers wait in one list for another use: fresh pages cost more than the kernels that fill
 * them. The device that drops one is often not the one that made it, so the list is nobody's. */
#define KEEP_LARGE ((int64_t)256 << 20)
static pthread_mutex_t large_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf *large;
static int64_t large_bytes;

static int64_t room_of(int64_t bytes)
{
    return (bytes + HEADER - 1) / HEADER * HEADER;
}

static struct buf *take_large(int64_t bytes)
{
    struct buf *b = NULL;
    pthread_mutex_lock(&large_lock);
    for (struct buf **at = &large; *at && !b; at = b ? at : &(*at)->next)
        if (room_of((*at)->bytes) == room_of(bytes)) {
            b = *at;
            *at = b->next;
            large_bytes -= room_of(b->bytes);
            break;
        }
    pthread_mutex_unlock(&large_lock);
    return b;
}

static bool keep_large(struct buf *b)
{
    int64_t room = room_of(b->bytes);
    pthread_mutex_lock(&large_lock);
    bool fits = large_bytes + room <= KEEP_LARGE;
    if (fits) {
        large_bytes += room;
        b->next = large;
        large = b;
    }
    pthread_mutex_unlock(&large_lock);
    return fits;
}

void buf_trim(void)
{
    pthread_mutex_lock(&large_lock);
    struct buf *list = large;
    large = NULL;
    large_bytes = 0;
    pthread_mutex_unlock(&large_lock);
    for (struct buf *next; list; list = next) {
        next = list->next;
        free(list);
    }
}

/* Where the system has large pages a large buffer asks for them: fewer faults when it is first written,
 * fewer misses of addresses where columns are walked. */
#define LARGE_PAGE ((size_t)2 << 20)

static void *new_room(size_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= 2 * LARGE_PAGE) {
        void *p = aligned_alloc(LARGE_PAGE, (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
        if (p)
            (void)madvise(p, bytes, MADV_HUGEPAGE);
        return p;
    }
#endif
    return aligned_alloc(HEADER, bytes);
}

struct buf *buf_new(struct pool *p, int64_t bytes)
{
    int c = class_of(bytes);
    struct buf *b = c < POOL_CLASSES ? NULL : take_large(bytes);
    if (b) {
        /* as it was */
    } else if (c < POOL_CLASSES && p->free[c]) {
        b = p->free[c];
        p->free[c] = b->next;
    } else {
        size_t room = c < POOL_CLASSES ? (size_t)1 << (c + SMALLEST)
                                       : (size_t)room_of(bytes);
        b = fail_allocation_due() ? NULL : new_room(HEADER + room);
        if (!b)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__,
                       "no memory for an array of %" PRId64 " bytes", bytes);
        b->data = (char *)b + HEADER;
    }
    atomic_init(&b->refs, 1);
    b->klass = (int8_t)(c < POOL_CLASSES ? c : -1);
    b->bytes = bytes;
    b->poison = NULL;
    b->bound = NULL;
    b->next = NULL;
    return b;
}

struct buf *buf_borrow(const void *data, int64_t bytes, const uint8_t *poison, int64_t count)
{
    struct buf *b = aligned_alloc(HEADER, HEADER);
    if (!b)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for a buffer");
    memset(b, 0, sizeof *b);
    atomic_init(&b->refs, 2);
    b->klass = -2;
    b->bytes = bytes;
    memcpy(&b->data, &data, sizeof data); /* never written: nobody is ever alone with it */
    if (poison && memchr(poison, 1, (size_t)count)) {
        b->poison = malloc((size_t)count + 1);
        if (!b->poison) {
            free(b);
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for shadow bits");
        }
        memcpy(b->poison, poison, (size_t)count);
    }
    return b;
}

void buf_drop(struct pool *p, struct buf *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(b->poison);
    free(b->bound);
    b->poison = NULL;
    b->bound = NULL;
    if (b->klass >= 0 && p) {
        b->next = p->free[b->klass];
        p->free[b->klass] = b;
    } else if (b->klass != -1 || !keep_large(b)) {
        free(b);
    }
}

void pool_free(struct pool *p)
{
    for (int c = 0; c < POOL_CLASSES; c++)
        while (p->free[c]) {
            struct buf *b = p->free[c];
            p->free[c] = b->next;
            free(b);
        }
}
