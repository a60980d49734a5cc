/* Where the text's operations lie, their operands and attributes: pieces as large as an arena's blocks, so that
 * what has become instructions makes room for the instructions that follow. */
#include "text/mlir.h"

#include <stdlib.h>

#include "base/fail.h"

struct mchunk_head {
    struct mchunk_head *next; /* the next younger */
    size_t size; /* with the head */
};

static struct mchunk_head *new_chunk(size_t size)
{
    struct mchunk_head *h = fail_allocation_due() ? NULL : malloc(size);
    if (!h)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "%zu bytes are not to be had", size);
    *h = (struct mchunk_head){ .size = size }; /* the rest is zeroed as it is given out */
    return h;
}

static void free_oldest(struct mheld *held)
{
    struct mchunk_head *h = held->chunks;
    held->chunks = h->next;
    free(h);
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
    INVARIANT(r->chunks.n < UINT16_MAX, "too many operations");
    vec_push(&r->tmp, &r->chunks, c);
    struct mchunk_head *h = new_chunk(c.size);
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
    return memset(p, 0, bytes);
}

void mlir_op_forget(struct mlir *r, const struct mop *op)
{
    size_t place = (size_t)((const char *)op - r->chunks.v[op->chunk].mem);
    mlir_op_done(r, op);
    if (op->chunk != r->chunks.n - 1)
        return;
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
