/* The cheapest path from one sharding to another (best.h): A* over states.
 *
 * The bound: a step that costs c brings at most c bytes to a device, and for some device nothing of
 * what it needs is there as long as two dimensions disagree; where they do not, what it holds of its
 * new shard is known. Of the atoms two sorts of identity are in use: by name (the search without a
 * permute) and by *class*, equal radixes being alike (the search with one).
 *
 * For few atoms on few dimensions the search is complete. For more, atoms are put only where the goal has them or
 * where they are in nobody's way, and a greedy search goes ahead, so that there is a plan when the
 * count of states runs out.
 */
#include "partition/best.h"

#include <string.h>

#include "base/map.h"

enum { NODES = 6000, TABLE = 1 << 14, MOVED = 5, PARKED = 3, ORDERS = 200 };
enum { FEW = 12, CHILDREN = 60000, CHILDREN_OF_MANY = 900 };

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

/* ---- states ------------------------------------------------------------------------------------------ */

static bool on_dim(uint8_t place)
{
    return place < BEST_OWED;
}

static void lists_of(const struct search *s, const struct best_state *st, struct lists *l)
{
    memset(l->len, 0, sizeof l->len);
    for (int a = 0; a < s->natoms; a++)
        if (on_dim(st->at[a])) {
            int d = st->at[a] >> 4, k = st->at[a] & 15;
            l->v[d][k] = (uint8_t)a;
            if (l->len[d] <= k)
                l->len[d] = k + 1;
        }
}

static int64_t bytes_of(const struct search *s, const struct best_state *st)
{
    int64_t n = s->u->unit;
    for (int d = 0; d < s->u->ndims; d++)
        n *= st->size[d];
    return n;
}

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* ceil(a * b / c) of numbers whose product may not fit. */
static int64_t part(int64_t a, int64_t b, int64_t c)
{
    return a / c * b + ceil_div(a % c * b, c);
}

/* Atoms of a class are named in the order of their places. */
static void canonical(const struct search *s, struct best_state *st)
{
    if (!s->permuting)
        return;
    for (int i = 1; i < s->natoms; i++)
        for (int j = i; j > 0 && s->class_of[j] == s->class_of[j - 1] && st->at[j] < st->at[j - 1];
             j--) {
            uint8_t t = st->at[j];
            st->at[j] = st->at[j - 1];
            st->at[j - 1] = t;
        }
}

static bool alike(const struct search *s, int a, int b)
{
    return s->class_of[a] == s->class_of[b];
}

/* How far the list of d is that of the goal. */
static int agreed(const struct search *s, const struct lists *l, int d)
{
    int k = 0;
    while (k < l->len[d] && k < s->want.len[d] && alike(s, l->v[d][k], s->want.v[d][k]))
        k++;
    return k;
}

/* Bytes that some device has yet to be sent, at least. */
static int64_t bound(const struct search *s, const struct node *n)
{
    struct lists l;
    int64_t have = s->u->unit;
    if (s->permuting && n->phase == 0) {
        int64_t held = bytes_of(s, &n->st);
        return held < s->goal_bytes ? s->goal_bytes - held : 0;
    }
    for (int a = 0; a < s->natoms; a++)
        if (n->st.at[a] == BEST_OWED)
            return s->goal_bytes;
    lists_of(s, &n->st, &l);
    for (int d = 0; d < s->u->ndims; d++) {
        int k = agreed(s, &l, d);
        bool even = s->u->whole[d] % s->goal.size[d] == 0;
        if (k < l.len[d] && k < s->want.len[d] && even)
            return s->goal_bytes;
        have *= min_i64(n->st.size[d], s->goal.size[d]);
    }
    return have < s->goal_bytes ? s->goal_bytes - have : 0;
}

/* Whether d is padded as the goal has it, as far as can be seen. */
static bool pads_agree(const struct search *s, const struct best_state *st, const struct lists *l,
                       int d)
{
    int64_t t = 1;
    for (int k = 0; k < l->len[d]; k++)
        t *= s->radix[l->v[d][k]];
    return l->len[d] == 0 || st->size[d] * t == s->pad[1][d];
}

/* What is likely to be left: half a shard for every atom that has to go elsewhere. No bound. */
static int64_t guess(const struct search *s, const struct node *n)
{
    struct lists l;
    int64_t wrong = s->permuting && n->phase == 0, missing = 0;
    lists_of(s, &n->st, &l);
    for (int a = 0; a < s->natoms; a++)
        wrong += 2 * (n->st.at[a] == BEST_OWED);
    for (int d = 0; d < s->u->ndims; d++) {
        int k = agreed(s, &l, d);
        wrong += pads_agree(s, &n->st, &l, d) ? l.len[d] - k : l.len[d];
        missing += s->want.len[d] - k;
    }
    return bound(s, n) + wrong * (bytes_of(s, &n->st) / 2 + 1) + missing;
}

static bool is_goal(const struct search *s, const struct node *n)
{
    if (s->permuting && n->phase == 0)
        return false;
    return memcmp(n->st.at, s->goal.at, (size_t)s->natoms) == 0 &&
           memcmp(n->st.size, s->goal.size, (size_t)s->u->ndims * sizeof(int64_t)) == 0;
}

/* ---- the open list ------------------------------------------------------------------------------------ */

static bool before(const struct search *s, int32_t a, int32_t b)
{
    int64_t x = s->nodes[a].promise, y = s->nodes[b].promise;
    if (x != y)
        return x < y;
    if (s->nodes[a].count != s->nodes[b].count)
        return s->nodes[a].count < s->nodes[b].count;
    return s->nodes[a].steps > s->nodes[b].steps || (s->nodes[a].steps == s->nodes[b].steps && a < b);
}

static void heap_push(struct search *s, int32_t i)
{
    if (s->nheap == s->heap_cap)
        s->heap = vec_grow(s->a, s->heap, s->nheap, &s->heap_cap, sizeof *s->heap);
    int k = s->nheap++;
    for (; k > 0 && before(s, i, s->heap[(k - 1) / 2]); k = (k - 1) / 2)
        s->heap[k] = s->heap[(k - 1) / 2];
    s->heap[k] = i;
}

static int32_t heap_pop(struct search *s)
{
    int32_t top = s->heap[0], last = s->heap[--s->nheap];
    int k = 0;
    for (;;) {
        int c = 2 * k + 1;
        if (c >= s->nheap)
            break;
        if (c + 1 < s->nheap && before(s, s->heap[c + 1], s->heap[c]))
            c++;
        if (!before(s, s->heap[c], last))
            break;
        s->heap[k] = s->heap[c];
        k = c;
    }
    s->heap[k] = last;
    return top;
}

static bool same_state(const struct search *s, const struct node *a, const struct node *b)
{
    return a->phase == b->phase && memcmp(a->st.at, b->st.at, (size_t)s->natoms) == 0 &&
           memcmp(a->st.size, b->st.size, (size_t)s->u->ndims * sizeof(int64_t)) == 0;
}

static uint32_t slot_of(const struct search *s, const struct node *n)
{
    uint64_t h = hash_bytes(n->st.at, (size_t)s->natoms, n->phase);
    h ^= hash_bytes(n->st.size, (size_t)s->u->ndims * sizeof(int64_t), 7);
    uint32_t i = (uint32_t)(h ^ h >> 32) & (TABLE - 1);
    while (s->table[i] && !same_state(s, &s->nodes[s->table[i] - 1], n))
        i = (i + 1) & (TABLE - 1);
    return i;
}

/* A state reached at that price: kept when it is new, or cheaper than before. */
static void offer(struct search *s, struct node *n)
{
    if (s->children++ > s->most_children)
        s->cut = true;
    canonical(s, &n->st);
    int64_t f = n->cost + bound(s, n);
    if (f > s->limit || (f == s->limit && n->count >= s->limit_count))
        return;
    uint32_t slot = slot_of(s, n);
    if (s->table[slot]) {
        const struct node *old = &s->nodes[s->table[slot] - 1];
        if (old->cost < n->cost || (old->cost == n->cost && old->count <= n->count))
            return;
    }
    if (s->n == NODES) {
        s->cut = true;
        return;
    }
    if (s->n == s->cap)
        s->nodes = vec_grow(s->a, s->nodes, s->n, &s->cap, sizeof *s->nodes);
    n->promise = s->greedy ? n->cost + 2 * guess(s, n) : f;
    s->nodes[s->n] = *n;
    s->table[slot] = s->n + 1;
    heap_push(s, s->n++);
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

/* Which padded sizes dimension d may take when atoms of product g are the first on it. */
static int pads(const struct search *s, int d, int64_t g, int64_t *out)
{
    if (s->restricted && s->pad[1][d] && s->pad[1][d] % g == 0) {
        out[0] = s->pad[1][d];
        return 1;
    }
    int64_t all[3] = { s->pad[1][d], round_up(s->u->whole[d], g), s->pad[0][d] };
    int n = 0;
    for (int i = 0; i < 3; i++) {
        bool met = all[i] == 0 || all[i] % g != 0;
        for (int k = 0; k < n; k++)
            met = met || out[k] == all[i];
        if (!met)
            out[n++] = all[i];
    }
    return n;
}

static struct node child(const struct search *s, int32_t parent, enum best_kind kind)
{
    const struct node *p = &s->nodes[parent];
    struct node n = { .st = p->st, .cost = p->cost, .count = p->count + (kind != BEST_SLICE),
                      .parent = parent, .steps = (int16_t)(p->steps + 1), .kind = (uint8_t)kind,
                      .phase = p->phase };
    return n;
}

static void add_move(const struct search *s, struct node *n, int a, uint8_t to)
{
    n->moves[n->nmoves++] = (struct move){ s->class_of[a], n->st.at[a], to };
    n->st.at[a] = to;
}

/* Which of these dimensions is cut into all atoms with the least padding. */
static unsigned roomiest(const struct search *s, unsigned set)
{
    int best = -1;
    int64_t least = 0;
    for (int d = 0; d < s->u->ndims; d++) {
        int64_t whole = s->u->whole[d], waste = (round_up(whole, s->all) - whole) * 64 / whole;
        if (!(set >> d & 1) || (best >= 0 && waste >= least))
            continue;
        best = d;
        least = waste;
    }
    return 1U << best;
}

/* Where atoms may stand for a while. With few atoms: anywhere. Else one dimension, where they are in
 * nobody's way: one that is split on neither side, or is as the goal has it. */
static unsigned parking(const struct search *s, const struct lists *l)
{
    unsigned all = (1U << s->u->ndims) - 1, idle = 0, done = 0;
    if (!s->restricted)
        return all;
    for (int d = 0; d < s->u->ndims; d++) {
        if (s->want.len[d] == 0 && s->pad[0][d] == 0 && s->u->whole[d] % s->all == 0)
            idle |= 1U << d;
        if (l->len[d] == s->want.len[d] && agreed(s, l, d) == l->len[d])
            done |= 1U << d;
    }
    return roomiest(s, idle ? idle : done ? done : all);
}

static bool is_home(const struct search *s, const struct lists *l, int d, int k, int a)
{
    return k < s->want.len[d] && alike(s, a, s->want.v[d][k]) && agreed(s, l, d) == l->len[d];
}

static int parked(const struct search *s, const struct lists *l)
{
    int n = 0;
    for (int d = 0; d < s->u->ndims; d++)
        n += l->len[d] - agreed(s, l, d);
    return n;
}

/* A copy put where the goal wants it can only help: nothing else is tried then. */
static bool slice_home(struct search *s, int32_t at, const struct lists *l)
{
    const struct best_state *st = &s->nodes[at].st;
    for (int a = 0; a < s->natoms && !s->permuting; a++) {
        uint8_t home = s->goal.at[a];
        if (st->at[a] != BEST_COPIES || !on_dim(home))
            continue;
        int d = home >> 4, k = home & 15;
        if (l->len[d] != k || agreed(s, l, d) != k)
            continue;
        int64_t t = s->radix[a];
        for (int i = 0; i < k; i++)
            t *= s->radix[l->v[d][i]];
        if (k > 0 && st->size[d] != s->pad[1][d] / (t / s->radix[a]))
            continue;
        struct node n = child(s, at, BEST_SLICE);
        add_move(s, &n, a, home);
        n.st.size[d] = s->pad[1][d] / t;
        offer(s, &n);
        return true;
    }
    return false;
}

static void slices(struct search *s, int32_t at, const struct lists *l)
{
    const struct best_state st = s->nodes[at].st;
    bool crowded = s->natoms > 4 && parked(s, l) >= PARKED;
    uint32_t met = 0;
    for (int a = 0; a < s->natoms; a++) {
        if (st.at[a] != BEST_COPIES || !s->use[a] || met >> s->class_of[a] & 1)
            continue;
        met |= 1U << s->class_of[a];
        for (int d = 0; d < s->u->ndims; d++) {
            int64_t r = s->radix[a], pad[3];
            int k = l->len[d], npad = 0;
            bool home = is_home(s, l, d, k, a);
            if ((!home && (crowded || !(s->parking >> d & 1))) || k >= 15)
                continue;
            if (k == 0)
                npad = pads(s, d, r, pad);
            else if (st.size[d] % r == 0)
                pad[npad++] = st.size[d];
            for (int i = 0; i < npad; i++) {
                struct node n = child(s, at, BEST_SLICE);
                add_move(s, &n, a, (uint8_t)(d << 4 | k));
                n.st.size[d] = pad[i] / r;
                offer(s, &n);
            }
        }
    }
}

/* The price of making all of dimension d whole, as the partitioner does it (S-68): by a sum where
 * there are more shards than elements. */
static int64_t whole_price(const struct search *s, const struct best_state *st, int d, int64_t g)
{
    int64_t n = s->u->whole[d], size = st->size[d], shard = bytes_of(s, st);
    if (size == ceil_div(n, g) && size == n)
        return part(shard, 2 * (g - 1), g);
    if (size == ceil_div(n, g) && n <= g / 2)
        return part(shard / size * n, 2 * (g - 1), g);
    return shard * (g - 1);
}

static void gathers(struct search *s, int32_t at, const struct lists *l)
{
    const struct best_state st = s->nodes[at].st;
    for (int d = 0; d < s->u->ndims; d++) {
        int64_t g = 1;
        int least = s->frozen[d];
        if (s->restricted && pads_agree(s, &st, l, d))
            least = agreed(s, l, d);
        for (int k = l->len[d] - 1; k >= least; k--) {
            g *= s->radix[l->v[d][k]];
            struct node n = child(s, at, BEST_GATHER);
            n.cost += k == 0 ? whole_price(s, &st, d, g) : bytes_of(s, &st) * (g - 1);
            n.st.size[d] = k == 0 ? s->u->whole[d] : st.size[d] * g;
            for (int i = k; i < l->len[d]; i++)
                add_move(s, &n, l->v[d][i], BEST_COPIES);
            offer(s, &n);
        }
    }
}

/* Sums that are owed: all of them at once, or one atom after the other. */
static void sums(struct search *s, int32_t at, const struct lists *l)
{
    const struct best_state st = s->nodes[at].st;
    int64_t shard = bytes_of(s, &st), all = 1;
    int owed = 0;
    for (int a = 0; a < s->natoms; a++) {
        if (st.at[a] != BEST_OWED)
            continue;
        int64_t r = s->radix[a], pad[3];
        owed++;
        all *= r;
        struct node sum = child(s, at, BEST_REDUCE);
        sum.cost += part(shard, 2 * (r - 1), r);
        add_move(s, &sum, a, BEST_COPIES);
        offer(s, &sum);
        for (int d = 0; d < s->u->ndims; d++) {
            int k = l->len[d], npad = 0;
            if (k == 0)
                npad = pads(s, d, r, pad);
            else if (st.size[d] % r == 0 && k < 15)
                pad[npad++] = st.size[d];
            for (int i = 0; i < npad; i++) {
                struct node n = child(s, at, BEST_SCATTER);
                n.cost += part(shard / st.size[d] * pad[i], r - 1, r);
                add_move(s, &n, a, (uint8_t)(d << 4 | k));
                n.st.size[d] = pad[i] / r;
                offer(s, &n);
            }
        }
    }
    if (owed < 2)
        return;
    struct node n = child(s, at, BEST_REDUCE);
    n.cost += part(shard, 2 * (all - 1), all);
    for (int a = 0; a < s->natoms; a++)
        if (st.at[a] == BEST_OWED)
            add_move(s, &n, a, BEST_COPIES);
    offer(s, &n);
}

/* ---- exchanges ------------------------------------------------------------------------------------------- */

struct exchange {
    struct search *s;
    int32_t at;
    const struct lists *l;
    struct best_state st;
    int taken[BEST_DIMS];    /* atoms off the minor end */
    int n;
    uint8_t atoms[BEST_ATOMS];
    bool placed[BEST_ATOMS];
    int nmoves, parked; /* parked: the last that is not where the goal has it */
    uint8_t moving[BEST_ATOMS], to[BEST_ATOMS];
    int added[BEST_DIMS];
    int64_t g[BEST_DIMS], all;
    int64_t pad[BEST_DIMS];
};

/* Everything has its place: sizes, price. */
static void exchange_offer(struct exchange *x)
{
    struct search *s = x->s;
    struct node n = child(s, x->at, BEST_EXCHANGE);
    int64_t payload = s->u->unit;
    for (int d = 0; d < s->u->ndims; d++) {
        int64_t size = x->added[d] && x->l->len[d] == 0 ? x->pad[d] : x->st.size[d];
        payload *= size;
        if (x->added[d])
            n.st.size[d] = size / x->g[d];
    }
    for (int d = 0; d < s->u->ndims; d++) {
        int64_t t = 1;
        for (int i = 0; i < x->taken[d]; i++)
            t *= s->radix[x->l->v[d][x->l->len[d] - 1 - i]];
        if (x->taken[d])
            n.st.size[d] = x->taken[d] == x->l->len[d] ? s->u->whole[d] : x->st.size[d] * t;
    }
    n.cost += part(payload, x->all - 1, x->all);
    for (int i = 0; i < x->nmoves; i++)
        add_move(s, &n, x->moving[i], x->to[i]);
    offer(s, &n);
}

/* Padded sizes of the dimensions from d on that were whole. */
static void exchange_pads(struct exchange *x, int d)
{
    for (; d < x->s->u->ndims; d++) {
        if (!x->added[d])
            continue;
        if (x->l->len[d] > 0) {
            if (x->st.size[d] % x->g[d])
                return;
            continue;
        }
        int64_t pad[3];
        int n = pads(x->s, d, x->g[d], pad);
        for (int i = 0; i < n; i++) {
            x->pad[d] = pad[i];
            exchange_pads(x, d + 1);
        }
        return;
    }
    exchange_offer(x);
}

/* Where the next atom goes; dimensions in rising order, so that each choice is met once. Nested at
 * most MOVED deep. */
static void exchange_place(struct exchange *x, int first)
{
    struct search *s = x->s;
    if (s->cut)
        return;
    if (x->nmoves == x->n) {
        exchange_pads(x, 0);
        return;
    }
    for (int d = first; d < s->u->ndims; d++) {
        if (x->taken[d] || x->l->len[d] + x->added[d] >= 15)
            continue;
        uint32_t met = 0;
        for (int i = 0; i < x->n; i++) {
            int a = x->atoms[i], k = x->l->len[d] + x->added[d];
            bool home = is_home(s, x->l, d, k, a);
            if (x->placed[i] || met >> s->class_of[a] & 1 || (!home && !(s->parking >> d & 1)))
                continue;
            if (s->restricted && !home && x->parked > i)
                continue; /* those that are put aside keep their order */
            met |= 1U << s->class_of[a];
            int parked_before = x->parked;
            x->parked = home ? x->parked : i;
            x->placed[i] = true;
            x->moving[x->nmoves] = (uint8_t)a;
            x->to[x->nmoves++] = (uint8_t)(d << 4 | (x->l->len[d] + x->added[d]));
            int64_t g = x->g[d];
            x->g[d] = x->added[d]++ ? g * s->radix[a] : s->radix[a];
            exchange_place(x, d);
            x->g[d] = g;
            x->added[d]--;
            x->nmoves--;
            x->placed[i] = false;
            x->parked = parked_before;
        }
    }
}

static void exchanges(struct search *s, int32_t at, const struct lists *l)
{
    struct exchange x = { .s = s, .at = at, .l = l, .st = s->nodes[at].st };
    int nd = s->u->ndims, most[BEST_DIMS];
    int64_t shard = bytes_of(s, &x.st), cost = s->nodes[at].cost;
    for (int d = 0; d < nd; d++) {
        most[d] = l->len[d] - s->frozen[d];
        if (s->restricted && pads_agree(s, &x.st, l, d))
            most[d] = l->len[d] - agreed(s, l, d);
    }
    for (;;) {
        int d = 0;
        while (d < nd && x.taken[d] == most[d])
            x.taken[d++] = 0;
        if (d == nd || s->cut)
            return;
        x.taken[d]++;
        x.n = 0;
        x.all = 1;
        for (d = 0; d < nd; d++)
            for (int i = l->len[d] - x.taken[d]; i < l->len[d]; i++) {
                if (x.n < BEST_ATOMS)
                    x.atoms[x.n] = l->v[d][i];
                x.n++;
                x.all *= s->radix[l->v[d][i]];
            }
        if (x.n <= MOVED && cost + part(shard, x.all - 1, x.all) <= s->limit)
            exchange_place(&x, 0);
    }
}

/* ---- the permute ------------------------------------------------------------------------------------------- */

/* The next order of atoms by class, in rising order; false: the first one again. */
static bool next_order(const struct search *s, int n, uint8_t *v)
{
    int i = n - 1;
    while (i > 0 && s->class_of[v[i - 1]] >= s->class_of[v[i]])
        i--;
    int low = i, high = n - 1;
    if (i > 0) {
        int j = n - 1;
        while (s->class_of[v[j]] <= s->class_of[v[i - 1]])
            j--;
        uint8_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
    for (; low < high; low++, high--) {
        uint8_t t = v[low];
        v[low] = v[high];
        v[high] = t;
    }
    return i > 0;
}

/* The atoms that the goal has at the major end come first, in its order. */
static void goal_order(const struct search *s, struct lists *l)
{
    for (int d = 0; d < s->u->ndims; d++)
        for (int k = 0; k < s->want.len[d] && k < l->len[d]; k++) {
            int j = k;
            while (j < l->len[d] && !alike(s, l->v[d][j], s->want.v[d][k]))
                j++;
            if (j == l->len[d])
                break;
            uint8_t a = l->v[d][j];
            for (; j > k; j--)
                l->v[d][j] = l->v[d][j - 1];
            l->v[d][k] = a;
        }
}

static void permute_to(struct search *s, int32_t at, const struct lists *l)
{
    struct node n = child(s, at, BEST_PERMUTE);
    n.phase = 1;
    n.cost += bytes_of(s, &s->nodes[at].st);
    for (int d = 0; d < s->u->ndims; d++)
        for (int k = 0; k < l->len[d]; k++)
            n.st.at[l->v[d][k]] = (uint8_t)(d << 4 | k);
    offer(s, &n);
}

/* Shards move as they are; behind it the atoms of a dimension may come in any order. */
static void permutes(struct search *s, int32_t at, const struct lists *l)
{
    struct lists v = *l;
    if (s->restricted) {
        goal_order(s, &v);
        permute_to(s, at, l);
        permute_to(s, at, &v);
        return;
    }
    int nd = s->u->ndims, d;
    for (d = 0; d < nd; d++)
        for (int i = 1; i < v.len[d]; i++) /* to begin with: rising */
            for (int j = i; j > 0 && s->class_of[v.v[d][j]] < s->class_of[v.v[d][j - 1]]; j--) {
                uint8_t t = v.v[d][j];
                v.v[d][j] = v.v[d][j - 1];
                v.v[d][j - 1] = t;
            }
    for (int tries = 0; tries < ORDERS; tries++) {
        permute_to(s, at, &v);
        for (d = 0; d < nd && !next_order(s, v.len[d], v.v[d]); d++)
            ;
        if (d == nd)
            return;
    }
    s->cut = true;
}

/* ---- the search ----------------------------------------------------------------------------------------- */

static void expand(struct search *s, int32_t at)
{
    struct lists l;
    lists_of(s, &s->nodes[at].st, &l);
    s->parking = parking(s, &l);
    if (slice_home(s, at, &l))
        return;
    if (s->permuting && s->nodes[at].phase == 0)
        permutes(s, at, &l);
    slices(s, at, &l);
    sums(s, at, &l);
    gathers(s, at, &l);
    if (!s->gathers_only)
        exchanges(s, at, &l);
}

/* Classes by rising radix; both systems' atoms in that order. */
static void make_classes(struct search *s)
{
    const struct best_setup *u = s->u;
    s->natoms = u->natoms[0];
    for (int k = 0; k < 2; k++) {
        for (int a = 0; a < s->natoms; a++)
            s->perm[k][a] = (uint8_t)a;
        for (int i = 1; s->permuting && i < s->natoms; i++)
            for (int j = i; j > 0 && u->atom[k][s->perm[k][j]].radix <
                                         u->atom[k][s->perm[k][j - 1]].radix; j--) {
                uint8_t t = s->perm[k][j];
                s->perm[k][j] = s->perm[k][j - 1];
                s->perm[k][j - 1] = t;
            }
    }
    for (int i = 0; i < s->natoms; i++) {
        s->radix[i] = u->atom[0][s->perm[0][i]].radix;
        s->use[i] = u->use[s->perm[0][i]];
        s->class_of[i] = (uint8_t)i;
        if (s->permuting && i > 0)
            s->class_of[i] = (uint8_t)(s->class_of[i - 1] + (s->radix[i] != s->radix[i - 1]));
    }
    for (int i = 0; s->permuting && i < s->natoms; i++)
        s->use[i] = true;
}

static void rename_state(const struct search *s, int k, const struct best_state *from,
                         struct best_state *to)
{
    *to = *from;
    for (int i = 0; i < s->natoms; i++)
        to->at[i] = from->at[s->perm[k][i]];
    canonical(s, to);
}

static void prepare(struct search *s)
{
    const struct best_setup *u = s->u;
    struct lists l;
    make_classes(s);
    rename_state(s, 0, &u->from, &s->start);
    rename_state(s, 1, &u->to, &s->goal);
    lists_of(s, &s->goal, &s->want);
    lists_of(s, &s->start, &l);
    for (int d = 0; d < u->ndims; d++) {
        int64_t t[2] = { 1, 1 };
        for (int k = 0; k < l.len[d]; k++)
            t[0] *= s->radix[l.v[d][k]];
        for (int k = 0; k < s->want.len[d]; k++)
            t[1] *= s->radix[s->want.v[d][k]];
        s->pad[0][d] = l.len[d] ? s->start.size[d] * t[0] : 0;
        s->pad[1][d] = s->want.len[d] ? s->goal.size[d] * t[1] : 0;
        s->frozen[d] = s->pad[0][d] == s->pad[1][d] ? agreed(s, &l, d) : 0;
    }
    s->all = 1;
    for (int i = 0; i < s->natoms; i++)
        if (s->start.at[i] != BEST_COPIES || s->goal.at[i] != BEST_COPIES)
            s->all *= s->radix[i];
    s->goal_bytes = bytes_of(s, &s->goal);
}

static bool search_run(struct search *s)
{
    prepare(s);
    s->table = ARENA_ARRAY(s->a, int32_t, TABLE);
    struct node first = { .st = s->start, .parent = -1 };
    offer(s, &first);
    while (s->nheap > 0) {
        int32_t at = heap_pop(s);
        struct node *n = &s->nodes[at];
        uint32_t slot = slot_of(s, n);
        if (n->closed || s->table[slot] != at + 1)
            continue; /* a cheaper way was found since */
        n->closed = true;
        if (is_goal(s, n)) {
            s->goal_node = at;
            return true;
        }
        if (!s->cut)
            expand(s, at);
    }
    return false;
}

/* ---- from nodes to steps ----------------------------------------------------------------------------------- */

/* The atoms of these moves, one after the other, taken at their places in `at`. */
static void take(const struct search *s, int system, const struct best_state *st,
                 const struct node *n, bool backwards, uint8_t *atoms)
{
    bool used[BEST_ATOMS] = { false };
    for (int m = 0; m < n->nmoves; m++)
        for (int i = 0; i < s->natoms; i++) {
            int a = s->perm[system][i];
            uint8_t place = backwards ? n->moves[m].to : n->moves[m].from;
            if (used[a] || st->at[a] != place || s->class_of[i] != n->moves[m].c)
                continue;
            used[a] = true;
            atoms[m] = (uint8_t)a;
            break;
        }
}

static void fill(struct best_plan *out, const struct search *s, int32_t at)
{
    int32_t path[BEST_STEPS + 1];
    int n = 0;
    for (int32_t i = at; s->nodes[i].parent >= 0; i = s->nodes[i].parent)
        path[n++] = i;
    out->nsteps = n;
    struct best_state now = s->u->from;
    int k = 0, system = 0;
    for (; k < n; k++) { /* forwards, up to the permute */
        const struct node *x = &s->nodes[path[n - 1 - k]];
        struct best_step *step = &out->steps[k];
        *step = (struct best_step){ .kind = (enum best_kind)x->kind, .before = now, .nmoved = x->nmoves,
                                    .bytes = x->cost - s->nodes[x->parent].cost };
        if (x->kind == BEST_PERMUTE)
            break;
        take(s, 0, &now, x, false, step->moved);
        for (int m = 0; m < x->nmoves; m++)
            now.at[step->moved[m]] = x->moves[m].to;
        memcpy(now.size, x->st.size, sizeof now.size);
        step->after = now;
    }
    if (k == n)
        return;
    system = 1;
    now = s->u->to;
    for (int j = n - 1; j > k; j--) { /* backwards, down to it */
        const struct node *x = &s->nodes[path[n - 1 - j]];
        struct best_step *step = &out->steps[j];
        *step = (struct best_step){ .kind = (enum best_kind)x->kind, .after = now, .system = system,
                                    .nmoved = x->nmoves, .bytes = x->cost - s->nodes[x->parent].cost };
        take(s, 1, &now, x, true, step->moved);
        for (int m = 0; m < x->nmoves; m++)
            now.at[step->moved[m]] = x->moves[m].from;
        memcpy(now.size, s->nodes[x->parent].st.size, sizeof now.size);
        step->before = now;
    }
    out->steps[k].after = now;
}

/* Slices in a row are one, gathers of one dimension too, and so on: what is emitted. */
static void count_collectives(struct best_plan *p)
{
    p->collectives = 0;
    for (int i = 0; i < p->nsteps; i++)
        p->collectives += p->steps[i].kind != BEST_SLICE;
}

static bool is_small(const struct best_setup *u)
{
    return u->natoms[0] * u->ndims <= FEW;
}

/* One search of a setup, for a plan better than out's. */
enum effort { GATHERS_ONLY, GREEDY, THOROUGH };

static bool improve(const struct best_setup *u, bool permuting, enum effort effort, struct arena *a,
                    int64_t *limit, int64_t *limit_count, struct best_plan *out)
{
    bool few = is_small(u);
    struct search *s = ARENA_NEW(a, struct search);
    *s = (struct search){ .u = u, .permuting = permuting, .limit = *limit,
                          .limit_count = *limit_count, .a = a, .greedy = effort != THOROUGH,
                          .gathers_only = effort == GATHERS_ONLY,
                          .restricted = !few,
                          .most_children = few ? CHILDREN : CHILDREN_OF_MANY };
    bool ok = search_run(s);
    out->tried += s->n;
    out->complete = out->complete && (effort != THOROUGH || !s->cut);
    if (!ok || s->nodes[s->goal_node].steps > BEST_STEPS)
        return false;
    fill(out, s, s->goal_node);
    out->bytes = *limit = s->nodes[s->goal_node].cost;
    *limit_count = s->nodes[s->goal_node].count;
    out->ndims = u->ndims;
    memcpy(out->dim, u->dim, sizeof u->dim);
    memcpy(out->natoms, u->natoms, sizeof u->natoms);
    memcpy(out->atom, u->atom, sizeof u->atom);
    return true;
}

bool best_plan(const struct best_problem *p, struct best_plan *out)
{
    memset(out, 0, sizeof *out);
    int64_t limit = p->limit_bytes < 0 ? INT64_MAX / 4 : p->limit_bytes;
    int64_t limit_count = p->limit_bytes < 0 ? INT64_MAX : p->limit_collectives;
    bool found = false;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    out->complete = true;
    for (int variant = 0; variant < 4; variant++) {
        struct best_setup u;
        if (!best_setup_make(p, variant, &u))
            continue;
        for (int effort = is_small(&u) ? THOROUGH : GREEDY; effort <= THOROUGH; effort++)
            for (int permuting = u.common ? 0 : 1; permuting < 2; permuting++)
                found = improve(&u, permuting, (enum effort)effort, &tmp, &limit, &limit_count,
                                out) || found;
        if (!found)
            found = improve(&u, !u.common, GATHERS_ONLY, &tmp, &limit, &limit_count, out);
        if (!u.mixed)
            break;
    }
    arena_close(&tmp);
    count_collectives(out);
    return found;
}

const char *best_kind_name(enum best_kind k)
{
    switch (k) {
    case BEST_SLICE:
        return "dynamic-slice";
    case BEST_GATHER:
        return "all-gather";
    case BEST_EXCHANGE:
        return "all-to-all";
    case BEST_PERMUTE:
        return "collective-permute";
    case BEST_SCATTER:
        return "reduce-scatter";
    case BEST_REDUCE:
        return "all-reduce";
    }
    return "";
}

void best_plan_words(const struct best_plan *p, struct str *out)
{
    for (int i = 0; i < p->nsteps; i++) {
        if (i > 0 && p->steps[i].kind == p->steps[i - 1].kind && p->steps[i].kind == BEST_SLICE)
            continue;
        str_addf(out, "%s%s", out->n ? ", then " : "", best_kind_name(p->steps[i].kind));
    }
}
