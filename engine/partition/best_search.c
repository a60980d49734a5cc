/* The cheapest path from one sharding to another (best.h): A* over states.
 *
 * The bound: a step that costs c brings at most c bytes to a device, and for some device nothing of
 * what it needs is there as long as two dimensions disagree; where they do not, what it holds of its
 * new shard is known. Of the atoms two sorts of identity are in use: by name (the search without a
 * permute) and by *class*, equal radixes being alike (the search with one).
 *
 * For few atoms on few dimensions the search is complete. For more, atoms are put only where the goal
 * has them or where they are in nobody's way, and a greedy search goes ahead, so that there is a plan
 * when the count of states runs out.
 */
#include "partition/best_search.h"

#include <string.h>

#include "base/map.h"

enum { NODES = 6000, TABLE = 1 << 14 };

void best_lists(const struct search *s, const struct best_state *st, struct lists *l)
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

int64_t best_shard_bytes(const struct search *s, const struct best_state *st)
{
    int64_t n = s->u->unit;
    for (int d = 0; d < s->u->ndims; d++)
        n *= st->size[d];
    return n;
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

bool best_alike(const struct search *s, int a, int b)
{
    return s->class_of[a] == s->class_of[b];
}

/* How far the list of d is that of the goal. */
int best_agreed(const struct search *s, const struct lists *l, int d)
{
    int k = 0;
    while (k < l->len[d] && k < s->want.len[d] && best_alike(s, l->v[d][k], s->want.v[d][k]))
        k++;
    return k;
}

/* Bytes that some device has yet to be sent, at least. */
static int64_t bound(const struct search *s, const struct node *n)
{
    struct lists l;
    int64_t have = s->u->unit;
    if (s->permuting && n->phase == 0) {
        int64_t held = best_shard_bytes(s, &n->st);
        return held < s->goal_bytes ? s->goal_bytes - held : 0;
    }
    for (int a = 0; a < s->natoms; a++)
        if (n->st.at[a] == BEST_OWED)
            return s->goal_bytes;
    best_lists(s, &n->st, &l);
    for (int d = 0; d < s->u->ndims; d++) {
        int k = best_agreed(s, &l, d);
        bool even = s->u->whole[d] % s->goal.size[d] == 0;
        if (k < l.len[d] && k < s->want.len[d] && even)
            return s->goal_bytes;
        have *= min_i64(n->st.size[d], s->goal.size[d]);
    }
    return have < s->goal_bytes ? s->goal_bytes - have : 0;
}

/* Whether d is padded as the goal has it, as far as can be seen. */
bool best_pads_agree(const struct search *s, const struct best_state *st, const struct lists *l,
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
    best_lists(s, &n->st, &l);
    for (int a = 0; a < s->natoms; a++)
        wrong += 2 * (n->st.at[a] == BEST_OWED);
    for (int d = 0; d < s->u->ndims; d++) {
        int k = best_agreed(s, &l, d);
        wrong += best_pads_agree(s, &n->st, &l, d) ? l.len[d] - k : l.len[d];
        missing += s->want.len[d] - k;
    }
    return bound(s, n) + wrong * (best_shard_bytes(s, &n->st) / 2 + 1) + missing;
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
void best_offer(struct search *s, struct node *n)
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

/* ---- the search ----------------------------------------------------------------------------------------- */

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
    best_lists(s, &s->goal, &s->want);
    best_lists(s, &s->start, &l);
    for (int d = 0; d < u->ndims; d++) {
        int64_t t[2] = { 1, 1 };
        for (int k = 0; k < l.len[d]; k++)
            t[0] *= s->radix[l.v[d][k]];
        for (int k = 0; k < s->want.len[d]; k++)
            t[1] *= s->radix[s->want.v[d][k]];
        s->pad[0][d] = l.len[d] ? s->start.size[d] * t[0] : 0;
        s->pad[1][d] = s->want.len[d] ? s->goal.size[d] * t[1] : 0;
        s->frozen[d] = s->pad[0][d] == s->pad[1][d] ? best_agreed(s, &l, d) : 0;
    }
    s->all = 1;
    for (int i = 0; i < s->natoms; i++)
        if (s->start.at[i] != BEST_COPIES || s->goal.at[i] != BEST_COPIES)
            s->all *= s->radix[i];
    s->goal_bytes = best_shard_bytes(s, &s->goal);
}

static bool search_run(struct search *s)
{
    prepare(s);
    struct node first = { .st = s->start, .parent = -1 };
    best_offer(s, &first);
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
            best_expand(s, at);
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
    return u->natoms[0] * u->ndims <= BEST_FEW;
}

/* One search of a setup, for a plan better than out's. */
enum effort { GATHERS_ONLY, GREEDY, THOROUGH };

static bool improve(const struct best_setup *u, bool permuting, enum effort effort, struct search *s,
                    int64_t *limit, int64_t *limit_count, struct best_plan *out)
{
    bool few = is_small(u);
    /* the memory of the search before serves again: its pages are there already */
    memset(s->table, 0, TABLE * sizeof *s->table);
    *s = (struct search){ .u = u, .permuting = permuting, .limit = *limit,
                          .limit_count = *limit_count, .greedy = effort != THOROUGH,
                          .gathers_only = effort == GATHERS_ONLY,
                          .restricted = !few,
                          .most_children = few ? BEST_CHILDREN : BEST_CHILDREN_OF_MANY,
                          .a = s->a, .table = s->table, .nodes = s->nodes, .cap = s->cap,
                          .heap = s->heap, .heap_cap = s->heap_cap };
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
    struct search s = { .a = &tmp, .table = ARENA_ARRAY(&tmp, int32_t, TABLE) };
    out->complete = true;
    for (int variant = 0; variant < 4; variant++) {
        struct best_setup u;
        if (!best_setup_make(p, variant, &u))
            continue;
        for (int effort = is_small(&u) ? THOROUGH : GREEDY; effort <= THOROUGH; effort++)
            for (int permuting = u.common ? 0 : 1; permuting < 2; permuting++)
                found = improve(&u, permuting, (enum effort)effort, &s, &limit, &limit_count,
                                out) || found;
        if (!found)
            found = improve(&u, !u.common, GATHERS_ONLY, &s, &limit, &limit_count, out);
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
