/* Strided boxes: every operation that only moves elements is one or a few of them. */
#include "emulate/internal.h"

#include <string.h>

struct box box_new(struct arena *a, int rank)
{
    struct box b = { .rank = rank };
    b.dims = ARENA_ARRAY(a, int64_t, rank + 1);
    b.dst = ARENA_ARRAY(a, int64_t, rank + 1);
    b.src = ARENA_ARRAY(a, int64_t, rank + 1);
    return b;
}

void box_compact(struct box *b)
{
    int n = 0;
    for (int i = 0; i < b->rank; i++) {
        if (b->dims[i] <= 0)
            b->empty = true;
        if (b->dims[i] == 1)
            continue;
        if (n && b->dst[n - 1] == b->dst[i] * b->dims[i] &&
            b->src[n - 1] == b->src[i] * b->dims[i]) {
            b->dims[n - 1] *= b->dims[i];
            b->dst[n - 1] = b->dst[i];
            b->src[n - 1] = b->src[i];
            continue;
        }
        b->dims[n] = b->dims[i];
        b->dst[n] = b->dst[i];
        b->src[n] = b->src[i];
        n++;
    }
    b->rank = n;
    INVARIANT(n <= MAX_RANK, "array of more than %d dimensions", MAX_RANK);
}

void row_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = s;
        s *= dims[i];
    }
}

#define ROW(T)                                                                       \
    do {                                                                             \
        for (int64_t i = 0; i < n; i++)                                              \
            *(T *)(void *)(dst + i * ds) = *(const T *)(const void *)(src + i * ss); \
    } while (0)

struct two64 {
    uint64_t a, b;
};

static void copy_row(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, int size)
{
    if (ds == size && ss == size) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: ROW(uint8_t); return;
    case 2: ROW(uint16_t); return;
    case 4: ROW(uint32_t); return;
    case 8: ROW(uint64_t); return;
    case 16: ROW(struct two64); return;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, (size_t)size);
    }
}

void box_rows(const struct box *b, row_fn f, void *context)
{
    if (b->empty)
        return;
    if (b->rank == 0) {
        f(context, b->dst0, 0, b->src0, 0, 1);
        return;
    }
    int last = b->rank - 1;
    int64_t index[MAX_RANK], d = b->dst0, s = b->src0;
    for (int i = 0; i < last; i++)
        index[i] = 0;
    for (;;) {
        f(context, d, b->dst[last], s, b->src[last], b->dims[last]);
        int i = last - 1;
        for (; i >= 0; i--) {
            d += b->dst[i];
            s += b->src[i];
            if (++index[i] < b->dims[i])
                break;
            d -= b->dst[i] * b->dims[i];
            s -= b->src[i] * b->dims[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

struct copying {
    char *dst;
    const char *src;
    int size;
};

static void copy_one(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    const struct copying *c = context;
    int size = c->size;
    copy_row(c->dst + d * size, ds * size, c->src + s * size, ss * size, n, size);
}

enum { TILE = 32 };

/* Rows run along the result, columns along the operand: in squares, so that what is fetched for one
 * row is there for the next ones. */
static void transpose_plane(const struct box *b, int j, char *dst, const char *src, int size)
{
    int last = b->rank - 1;
    int64_t rows = b->dims[j], cols = b->dims[last];
    for (int64_t i0 = 0; i0 < rows; i0 += TILE)
        for (int64_t k0 = 0; k0 < cols; k0 += TILE)
            for (int64_t i = i0; i < min_i64(i0 + TILE, rows); i++)
                copy_row(dst + (i * b->dst[j] + k0) * size, size,
                         src + (i + k0 * b->src[last]) * size, b->src[last] * size,
                         min_i64(TILE, cols - k0), size);
}

/* A transposition of the last dimension with another one; false: it is none. */
static bool copy_planes(const struct box *b, char *dst, const char *src, int size)
{
    int last = b->rank - 1, j = 0;
    int64_t index[MAX_RANK] = { 0 };
    if (b->empty || b->rank < 2 || b->dst[last] != 1 || b->src[last] == 1 || b->dims[last] < TILE)
        return false;
    while (j < last && b->src[j] != 1)
        j++;
    if (j == last || b->dims[j] < TILE)
        return false;
    int64_t d = b->dst0, s = b->src0;
    for (;;) {
        transpose_plane(b, j, dst + d * size, src + s * size, size);
        int i = last - 1;
        for (; i >= 0; i--) {
            if (i == j)
                continue;
            d += b->dst[i];
            s += b->src[i];
            if (++index[i] < b->dims[i])
                break;
            d -= b->dst[i] * b->dims[i];
            s -= b->src[i] * b->dims[i];
            index[i] = 0;
        }
        if (i < 0)
            return true;
    }
}

void box_copy(const struct box *b, void *dst, const void *src, int size)
{
    if (copy_planes(b, dst, src, size))
        return;
    struct copying c = { dst, src, size };
    box_rows(b, copy_one, &c);
}

void fill_elements(void *dst, const void *value, int size, int64_t n)
{
    copy_row(dst, size, value, 0, n, size);
}
