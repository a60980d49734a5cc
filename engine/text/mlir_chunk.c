/* Where the text's operations lie, their operands and attributes: pages of the system's, not of the heap,
 * so that what has become instructions makes room for the instructions that follow. */
#include "text/mlir.h"

#include <sys/mman.h>

#include "base/fail.h"

struct mchunk_head {
    struct mchunk_head *next; /* the next younger */
    size_t size; /* with the head */
};

/* Large ones are filled to their end, the last apart: their pages come at once. */
static struct mchunk_head *new_pages(size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_POPULATE
    if (size >= MCHUNK_LARGEST / 4)
        flags |= MAP_POPULATE;
#endif
    void *p = fail_allocation_due() ? MAP_FAILED
                                    : mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "%zu bytes are not to be had", size);
    struct mchunk_head *h = p;
    h->size = size;
    return h;
}

static void free_oldest(struct mheld *held)
{
    struct mchunk_head *h = held->chunks;
    held->chunks = h->next;
    (void)munmap(h, h->size);
}

void mlir_let_go(struct mheld *h)
{
    if (h->probe)
        h->probe->source = NULL; /* a loan */
    module_free(h->probe);
    h->probe = NULL;
    while (h->chunks)
        free_oldest(h);
}

static void add_chunk(struct mlir *r, size_t last)
{
    struct mchunk c = { .size = last == 0 ? MCHUNK_FIRST : last < MCHUNK_LARGEST ? last * 2 : last };
    INVARIANT(r->chunks.n < 1 << (32 - (MCHUNK_BITS - 3)), "too many operations");
    vec_push(&r->tmp, &r->chunks, c);
    struct mchunk_head *h = new_pages(c.size);
    if (r->youngest)
        r->youngest->next = h;
    else
        r->held->chunks = h;
    r->youngest = h;
    r->chunks.v[r->chunks.n - 1].mem = (char *)h;
    r->chunk_used = sizeof *h;
}

void *mlir_op_alloc(struct mlir *r, int64_t n, size_t size)
{
    if (n > (int64_t)(MCHUNK_FIRST / 4 / size))
        return arena_alloc(&r->tmp, n, size);
    size_t bytes = ((size_t)n * size + 7) & ~(size_t)7;
    size_t last = r->chunks.n ? r->chunks.v[r->chunks.n - 1].size : 0;
    if (r->chunk_used + bytes > last)
        add_chunk(r, last);
    void *p = r->chunks.v[r->chunks.n - 1].mem + r->chunk_used;
    r->chunk_used += bytes;
    return p;
}

void mlir_op_forget(struct mlir *r, const struct mop *op)
{
    struct mchunk *c = &r->chunks.v[op->chunk];
    size_t place = (size_t)((const char *)op - c->mem);
    mlir_op_done(r, op);
    if (op->chunk != r->chunks.n - 1)
        return;
    memset(c->mem + place, 0, r->chunk_used - place);
    r->chunk_used = place;
}

void mlir_op_done(struct mlir *r, const struct mop *op)
{
    r->chunks.v[op->chunk].left--;
    while (r->lowering && r->released < r->chunks.n - 1 && r->chunks.v[r->released].left == 0) {
        free_oldest(r->held);
        r->released++;
    }
}
