/* Strided boxes: every operation that only moves elements is one or a few of them. */
/* The vectorizer pays here, whatever the build's own level is. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

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

/* Rows run along the result, columns along the operand: in blocks of some lines by some lines, so that each
 * line is read once and written once, and neighbours of a line are used before its page is left. */
enum { LINE = 64, FEW = 8, BLOCK = 16 << 10 };

#if defined(__GNUC__) && !defined(__clang__)
/* A square of N x N elements that fills N vectors. Interleaving the lower half of the rows with the
 * upper half moves each index bit of a row into the column: as often as there are bits, it transposes. */
#define SQUARE(name, T, N, LOW, HIGH)                                            \
    typedef T name##_v __attribute__((vector_size(16)));                         \
    static inline void name(char *dst, int64_t ds, const char *src, int64_t ss)  \
    {                                                                            \
        static const name##_v low = LOW, high = HIGH;                            \
        name##_v x[N], y[N];                                                     \
        for (int i = 0; i < N; i++)                                              \
            memcpy(&x[i], src + i * ss, 16);                                     \
        for (int bits = N; bits > 1; bits /= 2) {                                \
            for (int i = 0; i < N / 2; i++) {                                    \
                y[2 * i] = __builtin_shuffle(x[i], x[i + N / 2], low);           \
                y[2 * i + 1] = __builtin_shuffle(x[i], x[i + N / 2], high);      \
            }                                                                    \
            memcpy(x, y, sizeof x);                                              \
        }                                                                        \
        for (int i = 0; i < N; i++)                                              \
            memcpy(dst + i * ds, &x[i], 16);                                     \
    }                                                                            \
    static void name##_all(char *dst, int64_t ds, const char *src, int64_t ss, int64_t rows, int64_t cols, \
                           int64_t ahead)                                        \
    {                                                                            \
        for (int64_t k = 0; k < cols; k += N) {                                  \
            for (int64_t i = 0; i < N; i++)                                      \
                for (int64_t b = 0; b < rows * (int64_t)sizeof(T); b += LINE)    \
                    __builtin_prefetch(src + (k + i) * ss + ahead + b, 0, 2);          \
            for (int64_t i = 0; i < rows; i += N)                                \
                name(dst + i * ds + k * (int64_t)sizeof(T), ds, src + i * (int64_t)sizeof(T) + k * ss, ss); \
        }                                                                        \
    }
#define LIST(...) { __VA_ARGS__ }
SQUARE(square1, uint8_t, 16, LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
       LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
SQUARE(square2, uint16_t, 8, LIST(0, 8, 1, 9, 2, 10, 3, 11), LIST(4, 12, 5, 13, 6, 14, 7, 15))
SQUARE(square4, uint32_t, 4, LIST(0, 4, 1, 5), LIST(2, 6, 3, 7))
SQUARE(square8, uint64_t, 2, LIST(0, 2), LIST(1, 3))

/* rows, cols: multiples of the squares' side. `ahead`: bytes from here to where the next block is read. */
static void transpose_squares(char *dst, int64_t ds, const char *src, int64_t ss, int64_t rows, int64_t cols, int size,
                              int64_t ahead)
{
    switch (size) {
    case 1: square1_all(dst, ds, src, ss, rows, cols, ahead); return;
    case 2: square2_all(dst, ds, src, ss, rows, cols, ahead); return;
    case 4: square4_all(dst, ds, src, ss, rows, cols, ahead); return;
    case 8: square8_all(dst, ds, src, ss, rows, cols, ahead); return;
    }
}
#endif

/* Through a block that is written out by whole lines: rows of the result that lie a power of two apart
 * would push one another out of the cache. */
static void transpose_block(char *dst, int64_t ds, const char *src, int64_t ss, int64_t rows, int64_t cols, int size,
                            int64_t ahead)
{
    _Alignas(LINE) char block[BLOCK];
    int64_t pitch = cols * size, i0 = 0, k0 = 0;
#if defined(__GNUC__)
    for (int64_t i = 0; size >= 4 && i < rows; i++) /* narrower ones do not gain */
        for (int64_t b = 0; b < pitch; b += LINE)
            __builtin_prefetch(dst + i * ds + b, 1, 2);
#endif
#if defined(__GNUC__) && !defined(__clang__)
    if (size <= 8) {
        int side = 16 / size;
        i0 = rows / side * side;
        k0 = cols / side * side;
        transpose_squares(block, pitch, src, ss, i0, k0, size, ahead);
    }
#else
    (void)ahead;
#endif
    for (int64_t i = 0; i < i0; i++)
        copy_row(block + i * pitch + k0 * size, size, src + i * size + k0 * ss, ss, cols - k0, size);
    for (int64_t i = i0; i < rows; i++)
        copy_row(block + i * pitch, size, src + i * size, ss, cols, size);
    for (int64_t i = 0; i < rows; i++)
        memcpy(dst + i * ds, block + i * pitch, (size_t)pitch);
}

static int64_t block_side(int size)
{
    return size == 1 ? 128 : size <= 4 ? 64 : size <= 16 ? 32 : 16;
}

static void transpose_plane(const struct box *b, int j, char *dst, const char *src, int size)
{
    int last = b->rank - 1;
    int64_t rows = b->dims[j], cols = b->dims[last], n = block_side(size);
    int64_t ds = b->dst[j] * size, ss = b->src[last] * size;
    for (int64_t i = 0; i < rows; i += n)
        for (int64_t k = 0; k < cols; k += n) {
            int64_t ahead = k + n < cols ? n * ss : i + n < rows ? n * size - k * ss : 0;
            transpose_block(dst + i * ds + k * size, ds, src + i * size + k * ss, ss, min_i64(n, rows - i),
                            min_i64(n, cols - k), size, ahead);
        }
}

/* A transposition of the last dimension with another one; false: it is none. */
static bool copy_planes(const struct box *b, char *dst, const char *src, int size)
{
    int last = b->rank - 1, j = 0;
    int64_t index[MAX_RANK] = { 0 };
    if (b->empty || b->rank < 2 || size > 16 || b->dst[last] != 1 || b->src[last] == 1 || b->dims[last] < FEW)
        return false;
    while (j < last && b->src[j] != 1)
        j++;
    if (j == last || b->dims[j] < FEW)
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
