/* The steps from one state of the planner to others (best.h): slices, sums, gathers, exchanges, and the
 * one permute.
 */
#include "partition/best_search.h"

enum { MOVED = 5, PARKED = 3, ORDERS = 200 };

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
        if (l->len[d] == s->want.len[d] && best_agreed(s, l, d) == l->len[d])
            done |= 1U << d;
    }
    return roomiest(s, idle ? idle : done ? done : all);
}

static bool is_home(const struct search *s, const struct lists *l, int d, int k, int a)
{
    return k < s->want.len[d] && best_alike(s, a, s->want.v[d][k]) && best_agreed(s, l, d) == l->len[d];
}

static int parked(const struct search *s, const struct lists *l)
{
    int n = 0;
    for (int d = 0; d < s->u->ndims; d++)
        n += l->len[d] - best_agreed(s, l, d);
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
        if (l->len[d] != k || best_agreed(s, l, d) != k)
            continue;
        int64_t t = s->radix[a];
        for (int i = 0; i < k; i++)
            t *= s->radix[l->v[d][i]];
        if (k > 0 && st->size[d] != s->pad[1][d] / (t / s->radix[a]))
            continue;
        struct node n = child(s, at, BEST_SLICE);
        add_move(s, &n, a, home);
        n.st.size[d] = s->pad[1][d] / t;
        best_offer(s, &n);
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
                best_offer(s, &n);
            }
        }
    }
}

/* The price of making all of dimension d whole, as the partitioner does it (S-68): by a sum where
 * there are more shards than elements. */
static int64_t whole_price(const struct search *s, const struct best_state *st, int d, int64_t g)
{
    int64_t n = s->u->whole[d], size = st->size[d], shard = best_shard_bytes(s, st);
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
        if (s->restricted && best_pads_agree(s, &st, l, d))
            least = best_agreed(s, l, d);
        for (int k = l->len[d] - 1; k >= least; k--) {
            g *= s->radix[l->v[d][k]];
            struct node n = child(s, at, BEST_GATHER);
            n.cost += k == 0 ? whole_price(s, &st, d, g) : best_shard_bytes(s, &st) * (g - 1);
            n.st.size[d] = k == 0 ? s->u->whole[d] : st.size[d] * g;
            for (int i = k; i < l->len[d]; i++)
                add_move(s, &n, l->v[d][i], BEST_COPIES);
            best_offer(s, &n);
        }
    }
}

/* Sums that are owed: all of them at once, or one atom after the other. */
static void sums(struct search *s, int32_t at, const struct lists *l)
{
    const struct best_state st = s->nodes[at].st;
    int64_t shard = best_shard_bytes(s, &st), all = 1;
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
        best_offer(s, &sum);
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
                best_offer(s, &n);
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
    best_offer(s, &n);
}

/* ---- exchanges ------------------------------------------------------------------------------------------- */

struct exchange {
    struct search *s;
    int32_t at;
    const struct lists *l;
    struct best_state st;
    int taken[BEST_DIMS];    /* atoms off the minor end */
    bool leads_home[BEST_DIMS]; /* its list is the goal's as far as it goes */
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
    best_offer(s, &n);
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
            if (x->placed[i] || met >> s->class_of[a] & 1)
                continue;
            bool home = x->leads_home[d] && k < s->want.len[d] && best_alike(s, a, s->want.v[d][k]);
            if (!home && !(s->parking >> d & 1))
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
    int64_t shard = best_shard_bytes(s, &x.st), cost = s->nodes[at].cost;
    for (int d = 0; d < nd; d++) {
        most[d] = l->len[d] - s->frozen[d];
        x.leads_home[d] = best_agreed(s, l, d) == l->len[d];
        if (s->restricted && best_pads_agree(s, &x.st, l, d))
            most[d] = l->len[d] - best_agreed(s, l, d);
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
            while (j < l->len[d] && !best_alike(s, l->v[d][j], s->want.v[d][k]))
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
    n.cost += best_shard_bytes(s, &s->nodes[at].st);
    for (int d = 0; d < s->u->ndims; d++)
        for (int k = 0; k < l->len[d]; k++)
            n.st.at[l->v[d][k]] = (uint8_t)(d << 4 | k);
    best_offer(s, &n);
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

/* ---- all of them ----------------------------------------------------------------------------------------- */

void best_expand(struct search *s, int32_t at)
{
    struct lists l;
    best_lists(s, &s->nodes[at].st, &l);
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
