/* Who sends what to whom, in which round: ring, tree, direct (trace.h says what they are). */
#include "emulate/collective.h"

static void add(struct arena *a, struct hops *h, int64_t round, int64_t from, int64_t to,
                int64_t chunk, int64_t nchunks, bool sums)
{
    struct hop x = { round, from, to, chunk, nchunks, sums };
    vec_push(a, &h->list, x);
    h->rounds = max_i64(h->rounds, round + 1);
}

static int64_t mod(int64_t x, int64_t n)
{
    return (x % n + n) % n;
}

/* ---- ring ---------------------------------------------------------------------------------------
 */

/* In round r rank i hands on the chunk that came to it in the round before; first its own. */
static void ring_gather(struct arena *a, struct hops *h, int64_t n)
{
    int64_t r0 = h->rounds;
    for (int64_t r = 0; r < n - 1; r++)
        for (int64_t i = 0; i < n; i++)
            add(a, h, r0 + r, i, (i + 1) % n, mod(i - r, n), 1, false);
}

/* Chunk c starts at its owner's right neighbour and is complete when it comes to its owner. */
static void ring_scatter(struct arena *a, struct hops *h, int64_t n)
{
    for (int64_t r = 0; r < n - 1; r++)
        for (int64_t i = 0; i < n; i++)
            add(a, h, r, i, (i + 1) % n, mod(i - 1 - r, n), 1, true);
}

static void ring_broadcast(struct arena *a, struct hops *h, int64_t n)
{
    for (int64_t r = 0; r < n + n - 2; r++)
        for (int64_t i = 0; i < n - 1; i++)
            if (r - i >= 0 && r - i < n)
                add(a, h, r, i, i + 1, r - i, 1, false);
}

/* ---- tree ---------------------------------------------------------------------------------------
 */

/* Every subtree is a run of ranks [i, i + 2^k). Up: gathering that run's chunks, or summing all. */
static void tree_up(struct arena *a, struct hops *h, int64_t n, bool sums)
{
    int64_t r0 = h->rounds;
    for (int64_t k = 0; (int64_t)1 << k < n; k++) {
        int64_t half = (int64_t)1 << k;
        for (int64_t i = half; i < n; i += 2 * half) {
            int64_t first = sums ? 0 : i, count = sums ? h->nchunks : min_i64(half, n - i);
            add(a, h, r0 + k, i, i - half, first, count, sums);
        }
    }
}

/* Down: the subtree's own chunks (scatter), or all of them. */
static void tree_down(struct arena *a, struct hops *h, int64_t n, bool own)
{
    int64_t r = h->rounds, half = 1;
    while (half < n)
        half *= 2;
    for (half /= 2; half >= 1; half /= 2, r++)
        for (int64_t i = 0; i + half < n; i += 2 * half) {
            int64_t first = own ? i + half : 0,
                    count = own ? min_i64(half, n - i - half) : h->nchunks;
            add(a, h, r, i, i + half, first, count, false);
        }
}

/* A block with distance d to go has come (d mod 2^k) far by round k. */
static void tree_exchange(struct arena *a, struct hops *h, int64_t n)
{
    for (int64_t k = 0, bit = 1; bit < n; k++, bit *= 2)
        for (int64_t d = 1; d < n; d++)
            for (int64_t o = 0; o < n && d & bit; o++) {
                int64_t from = (o + (d & (bit - 1))) % n;
                add(a, h, k, from, (from + bit) % n, o * n + (o + d) % n, 1, false);
            }
}

/* ---- direct -------------------------------------------------------------------------------------
 */

/* Rank i sends to all others: its own chunk, or to each the part of a sum that is theirs. */
static void direct_all(struct arena *a, struct hops *h, int64_t n, bool sums)
{
    int64_t r = h->rounds;
    for (int64_t d = 1; d < n; d++)
        for (int64_t i = 0; i < n; i++)
            add(a, h, r, i, (i + d) % n, sums ? (i + d) % n : i, 1, sums);
}

static void pairwise(struct arena *a, struct hops *h, int64_t n, bool at_once)
{
    for (int64_t d = 1; d < n; d++)
        for (int64_t i = 0; i < n; i++)
            add(a, h, at_once ? 0 : d - 1, i, (i + d) % n, i * n + (i + d) % n, 1, false);
}

/* ---- one collective -----------------------------------------------------------------------------
 */

static void plan_broadcast(struct arena *a, struct hops *h, enum collective_algorithm how,
                           int64_t n)
{
    h->nchunks = how == COLLECTIVES_RING ? n : 1;
    switch (how) {
    case COLLECTIVES_RING: ring_broadcast(a, h, n); break;
    case COLLECTIVES_TREE: tree_down(a, h, n, false); break;
    case COLLECTIVES_DIRECT:
        for (int64_t i = 1; i < n; i++)
            add(a, h, 0, 0, i, 0, 1, false);
        break;
    }
}

static void plan_sum(struct arena *a, struct hops *h, enum collective_algorithm how, int64_t n,
                     bool everywhere)
{
    h->nchunks = how == COLLECTIVES_TREE && everywhere ? 1 : n;
    switch (how) {
    case COLLECTIVES_RING:
        ring_scatter(a, h, n);
        if (everywhere)
            ring_gather(a, h, n);
        break;
    case COLLECTIVES_TREE:
        tree_up(a, h, n, true);
        tree_down(a, h, n, !everywhere);
        break;
    case COLLECTIVES_DIRECT:
        direct_all(a, h, n, true);
        if (everywhere)
            direct_all(a, h, n, false);
        break;
    }
}

static void plan_gather(struct arena *a, struct hops *h, enum collective_algorithm how, int64_t n)
{
    h->nchunks = n;
    switch (how) {
    case COLLECTIVES_RING: ring_gather(a, h, n); break;
    case COLLECTIVES_TREE:
        tree_up(a, h, n, false);
        tree_down(a, h, n, false);
        break;
    case COLLECTIVES_DIRECT: direct_all(a, h, n, false); break;
    }
}

void hops_plan(struct arena *a, enum op_kind kind, enum collective_algorithm how, int64_t n,
               const int64_t *source, struct hops *out)
{
    *out = (struct hops){ .nchunks = n };
    if (kind == OP_ALL_GATHER) {
        plan_gather(a, out, how, n);
    } else if (kind == OP_ALL_REDUCE || kind == OP_REDUCE_SCATTER) {
        plan_sum(a, out, how, n, kind == OP_ALL_REDUCE);
    } else if (kind == OP_ALL_TO_ALL) {
        out->nchunks = n * n;
        if (how == COLLECTIVES_TREE)
            tree_exchange(a, out, n);
        else
            pairwise(a, out, n, how == COLLECTIVES_DIRECT);
    } else if (kind == OP_COLLECTIVE_PERMUTE) {
        for (int64_t i = 0; i < n; i++)
            if (source[i] >= 0 && source[i] != i)
                add(a, out, 0, source[i], i, source[i], 1, false);
    } else {
        plan_broadcast(a, out, how, n);
    }
}
