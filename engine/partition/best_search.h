/* The states and steps of the planner's search, between best_search.c and best_steps.c. */
#ifndef GSPMD_PARTITION_BEST_SEARCH_H
#define GSPMD_PARTITION_BEST_SEARCH_H

#include "partition/best.h"

enum { BEST_FEW = 12, BEST_CHILDREN = 60000, BEST_CHILDREN_OF_MANY = 600 };

/* One atom of class c moves between two places. */
struct move {
    uint8_t c, from, to;
};

struct node {
    struct best_state st;
    int64_t cost, promise; /* promise: cost and the bound of what is left */
    int32_t count, parent;
    int16_t steps;
    uint8_t kind, phase, nmoves; /* phase 1: behind the permute */
    bool closed;
    struct move moves[BEST_ATOMS];
};

/* Lists of a state: the atoms of each dimension, major first. */
struct lists {
    int len[BEST_DIMS];
    uint8_t v[BEST_DIMS][BEST_ATOMS];
};

struct search {
    const struct best_setup *u;
    bool permuting;
    int natoms;
    int64_t radix[BEST_ATOMS];   /* of an atom of the states here */
    uint8_t class_of[BEST_ATOMS];
    uint8_t perm[2][BEST_ATOMS]; /* state's atom -> setup's atom */
    struct best_state start, goal;
    struct lists want;
    int64_t pad[2][BEST_DIMS];   /* padded sizes of start and goal; 0: not split there */
    int frozen[BEST_DIMS];       /* atoms at the major end that both agree on: they stay */
    int64_t goal_bytes;
    bool use[BEST_ATOMS];
    int64_t all;                 /* product of the radixes of the atoms that may move */
    int64_t limit, limit_count;
    struct arena *a;
    struct node *nodes;
    int32_t n, *heap, *table, goal_node;
    int64_t cap, heap_cap;
    int nheap;
    int64_t children, most_children;
    bool greedy;       /* a plan soon, not the cheapest */
    bool restricted, gathers_only;
    unsigned parking;  /* dimensions on which atoms may stand for a while */
    bool cut;
};

static inline bool on_dim(uint8_t place)
{
    return place < BEST_OWED;
}
static inline int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}
/* ceil(a * b / c) of numbers whose product may not fit. */
static inline int64_t part(int64_t a, int64_t b, int64_t c)
{
    return a / c * b + ceil_div(a % c * b, c);
}

void best_lists(const struct search *s, const struct best_state *st, struct lists *l);
int64_t best_shard_bytes(const struct search *s, const struct best_state *st);
bool best_alike(const struct search *s, int a, int b); /* of one class */
/* How far the list of d is that of the goal. */
int best_agreed(const struct search *s, const struct lists *l, int d);
/* Whether d is padded as the goal has it, as far as can be seen. */
bool best_pads_agree(const struct search *s, const struct best_state *st, const struct lists *l, int d);
/* A state reached at that price: kept when it is new, or cheaper than before. */
void best_offer(struct search *s, struct node *n);
/* Offers all that one step leads to from node `at`, best_steps.c. */
void best_expand(struct search *s, int32_t at);

#endif
