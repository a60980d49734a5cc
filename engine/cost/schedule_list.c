/* Two orders beside the depth-first one; of the three a computation takes the one with the lowest peak.
 *
 *  eager   depth first, but what frees more than it makes runs as soon as it can: the gradient of a tied
 *          embedding runs before the backward loop, not after it, and the logits are gone
 *  greedy  of the kernels whose operands are there the one that frees most bytes over what it makes runs next:
 *          good where everything shrinks, bad where all must grow first
 *
 * Values are leaves, as in live.c, without its finer rules of storage.
 *
 * O((kernels + uses) log kernels): a heap with stale entries; a value tells its last user once. */
#include <string.h>

#include "cost/internal.h"

struct use_of {
    uint32_t first, n; /* in users */
    uint32_t left;     /* users that have not run */
};

struct ready {
    int64_t gain;
    uint32_t kernel;
};

struct lister {
    const struct cost_plan *p;
    struct arena *tmp;
    const instr_id *list; /* kernels, operands before users */
    uint32_t n;
    const uint32_t *at;   /* [ninstrs + 1] place in list, of its kernels */
    const int64_t *inner; /* [ncomps + 1] peak inside */
    uint32_t *leaf;       /* [n + 1] first leaf of a kernel */
    uint32_t *value;      /* by leaf */
    uint32_t nvalues;
    uint32_t *born;       /* [n + 1] values before the kernel's own */
    int64_t *bytes;       /* by value; 0: an argument's or a constant's */
    bool *kept;           /* by value: leaves the computation */
    struct use_of *uses;  /* by value */
    uint32_t *users;
    uint32_t *reads;      /* values that a kernel reads, each once: [read_at[k], read_at[k + 1]) */
    uint32_t *read_at;
    VEC(struct ready) heap;
};

static const struct instr *kernel_at(const struct lister *l, uint32_t k)
{
    return instr_at(l->p->module, l->list[k]);
}

static int64_t leaves_of(const struct lister *l, uint32_t k)
{
    return shape_get(l->p->module->ir, kernel_at(l, k)->shape)->nleaves;
}

/* ---- values ------------------------------------------------------------------------------------------------ */

/* Whether the body of a loop hands leaf k on as it came. */
static bool handed_through(const struct module *m, const struct instr *loop, int64_t k)
{
    const struct attr *body = instr_attr(loop, ATTR_BODY);
    if (!body || body->type != ATTR_TYPE_COMP)
        return false;
    const struct computation *c = comp_at(m, body->comp);
    const struct instr *root = instr_at(m, c->root);
    if (root->op != OP_TUPLE || k >= root->noperands)
        return false;
    const struct instr *x = instr_at(m, root->operands[k]);
    return x->op == OP_GET_TUPLE_ELEMENT && x->operands[0].i == c->params[0].i && instr_int(x, ATTR_INDEX, -1) == k;
}

static void name_leaves(struct lister *l, uint32_t k)
{
    const struct module *m = l->p->module;
    const struct instr *in = kernel_at(l, k);
    uint32_t *to = l->value + l->leaf[k];
    int64_t n = leaves_of(l, k);
    if (in->op == OP_TUPLE) {
        for (uint32_t o = 0; o < in->noperands; o++) {
            if (l->p->fused[in->operands[o].i]) {
                *to++ = l->nvalues++; /* computed behind a barrier: nothing here */
                continue;
            }
            uint32_t x = l->at[in->operands[o].i];
            memcpy(to, l->value + l->leaf[x], (size_t)leaves_of(l, x) * sizeof *to);
            to += leaves_of(l, x);
        }
        return;
    }
    const uint32_t *from = in->noperands && !l->p->fused[in->operands[0].i] ? l->value + l->leaf[l->at[in->operands[0].i]] : NULL;
    if (op_forwards(m, in) && from) {
        int64_t skip = in->op == OP_GET_TUPLE_ELEMENT
                           ? shape_leaf_offset(m->ir, instr_at(m, in->operands[0])->shape, instr_int(in, ATTR_INDEX, 0))
                           : 0;
        memcpy(to, from + skip, (size_t)n * sizeof *to);
        return;
    }
    bool own = in->op != OP_PARAMETER && in->op != OP_CONSTANT;
    for (int64_t x = 0; x < n; x++) {
        if (in->op == OP_WHILE && from && n == leaves_of(l, l->at[in->operands[0].i]) && handed_through(m, in, x)) {
            to[x] = from[x];
            continue;
        }
        l->bytes[l->nvalues] = own ? leaf_bytes(m, in->shape, x, false) : 0;
        to[x] = l->nvalues++;
    }
}

static void find_values(struct lister *l)
{
    int64_t total = 0;
    l->leaf = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 1);
    for (uint32_t k = 0; k < l->n; k++) {
        l->leaf[k] = (uint32_t)total;
        total += leaves_of(l, k);
    }
    l->leaf[l->n] = (uint32_t)total;
    l->value = ARENA_ARRAY(l->tmp, uint32_t, total + 1);
    l->bytes = ARENA_ARRAY(l->tmp, int64_t, total + 1);
    l->kept = ARENA_ARRAY(l->tmp, bool, total + 1);
    l->born = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 1);
    for (uint32_t k = 0; k < l->n; k++) {
        l->born[k] = l->nvalues;
        name_leaves(l, k);
    }
}

/* Values that kernels read. What only forwards reads nothing: its users do. */
static void find_reads(struct lister *l, instr_id root)
{
    const struct cost_plan *p = l->p;
    VEC(uint32_t) reads = { 0 };
    uint32_t *met = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->nvalues + 1);
    l->uses = ARENA_ARRAY(l->tmp, struct use_of, (int64_t)l->nvalues + 1);
    l->read_at = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 1);
    for (uint32_t k = 0; k < l->n; k++) {
        l->read_at[k] = (uint32_t)reads.n;
        if (op_forwards(p->module, kernel_at(l, k)))
            continue;
        for (uint32_t e = p->ext_start[l->list[k].i]; e < p->ext_start[l->list[k].i + 1]; e++) {
            uint32_t x = l->at[p->ext[e].i];
            for (uint32_t v = l->leaf[x]; v < l->leaf[x + 1]; v++)
                if (met[l->value[v]] != k + 1) {
                    met[l->value[v]] = k + 1;
                    vec_push(l->tmp, &reads, l->value[v]);
                    l->uses[l->value[v]].n++;
                }
        }
    }
    l->read_at[l->n] = (uint32_t)reads.n;
    l->reads = reads.v;
    l->users = ARENA_ARRAY(l->tmp, uint32_t, reads.n + 1);
    uint32_t sum = 0;
    for (uint32_t v = 0; v < l->nvalues; v++) {
        l->uses[v].first = sum;
        sum += l->uses[v].n;
        l->uses[v].n = 0;
    }
    for (uint32_t k = 0; k < l->n; k++)
        for (uint32_t r = l->read_at[k]; r < l->read_at[k + 1]; r++)
            l->users[l->uses[l->reads[r]].first + l->uses[l->reads[r]].n++] = k;
    if (!p->fused[root.i])
        for (uint32_t v = l->leaf[l->at[root.i]]; v < l->leaf[l->at[root.i] + 1]; v++)
            l->kept[l->value[v]] = true;
    /* What a body returns lies in the storage that its caller has for it: a loop's carry. */
    bool entry = instr_at(p->module, root)->comp.i == p->module->entry.i;
    for (uint32_t v = 0; !entry && v < l->nvalues; v++)
        l->bytes[v] = l->kept[v] ? 0 : l->bytes[v];
}

static void reset_uses(struct lister *l)
{
    for (uint32_t v = 0; v < l->nvalues; v++)
        l->uses[v].left = l->uses[v].n;
}

/* ---- the peak of an order --------------------------------------------------------------------------------------- */

static int64_t defined(const struct lister *l, uint32_t k)
{
    int64_t sum = 0;
    if (op_forwards(l->p->module, kernel_at(l, k)))
        return 0;
    for (uint32_t v = l->leaf[k]; v < l->leaf[k + 1]; v++)
        if (l->value[v] >= l->born[k]) /* a loop's leaf that is handed through is no new value */
            sum += l->bytes[l->value[v]];
    return sum;
}

static int64_t inside(const struct lister *l, uint32_t k)
{
    const struct instr *in = kernel_at(l, k);
    comp_id called[16];
    int64_t most = 0;
    if (in->op != OP_WHILE && in->op != OP_CONDITIONAL && in->op != OP_CALL && in->op != OP_ASYNC_START)
        return 0;
    int n = instr_called(l->p->module, l->list[k], called, 16);
    for (int c = 0; c < n && c < 16; c++)
        most = max_i64(most, l->inner[called[c].i]);
    return most;
}

/* May write over an operand that dies here. */
static bool in_place(const struct lister *l, uint32_t k)
{
    int64_t into;
    const struct instr *in = kernel_at(l, k);
    return in->op == OP_WHILE || instr_is_elementwise(l->p->module, l->list[k]) || in->op == OP_SCATTER || updated_by(l->p->module, in, &into).i;
}

static int64_t freed(struct lister *l, uint32_t k)
{
    int64_t sum = 0;
    for (uint32_t r = l->read_at[k]; r < l->read_at[k + 1]; r++) {
        uint32_t v = l->reads[r];
        if (--l->uses[v].left == 0 && !l->kept[v])
            sum += l->bytes[v];
    }
    return sum;
}

static int64_t peak_of(struct lister *l, const instr_id *order)
{
    int64_t now = 0, most = 0;
    reset_uses(l);
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t k = l->at[order[i].i];
        int64_t made = defined(l, k), gone = freed(l, k);
        int64_t here = now + made - (in_place(l, k) ? min_i64(made, gone) : 0) + inside(l, k);
        most = here > most ? here : most;
        now += made - gone;
    }
    return most;
}

/* ---- the greedy order -------------------------------------------------------------------------------------------- */

static bool better(const struct ready *a, const struct ready *b)
{
    return a->gain != b->gain ? a->gain > b->gain : a->kernel < b->kernel;
}

static void heap_push(struct lister *l, struct ready x)
{
    vec_push(l->tmp, &l->heap, x);
    int64_t i = l->heap.n - 1;
    while (i > 0 && better(&x, &l->heap.v[(i - 1) / 2])) {
        l->heap.v[i] = l->heap.v[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    l->heap.v[i] = x;
}

static struct ready heap_pop(struct lister *l)
{
    struct ready top = l->heap.v[0], last = l->heap.v[--l->heap.n];
    int64_t i = 0, n = l->heap.n;
    while (2 * i + 1 < n) {
        int64_t c = 2 * i + 1;
        if (c + 1 < n && better(&l->heap.v[c + 1], &l->heap.v[c]))
            c++;
        if (!better(&l->heap.v[c], &last))
            break;
        l->heap.v[i] = l->heap.v[c];
        i = c;
    }
    if (n > 0)
        l->heap.v[i] = last;
    return top;
}

struct greedy {
    bool eager;       /* only what frees more than it makes comes from the heap */
    int64_t *gain;    /* by kernel: bytes freed by it as things stand, less what it makes */
    uint32_t *wait;   /* operands that have not run; 0: ready */
    bool *done;
    uint32_t *next_at, *next; /* kernels that read a kernel */
};

static void find_successors(struct lister *l, struct greedy *g)
{
    const struct cost_plan *p = l->p;
    g->next_at = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 2);
    for (uint32_t k = 0; k < l->n; k++)
        for (uint32_t e = p->ext_start[l->list[k].i]; e < p->ext_start[l->list[k].i + 1]; e++) {
            g->next_at[l->at[p->ext[e].i] + 1]++;
            g->wait[k]++;
        }
    for (uint32_t k = 0; k < l->n; k++)
        g->next_at[k + 1] += g->next_at[k];
    uint32_t *fill = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 1);
    g->next = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)g->next_at[l->n] + 1);
    for (uint32_t k = 0; k < l->n; k++)
        for (uint32_t e = p->ext_start[l->list[k].i]; e < p->ext_start[l->list[k].i + 1]; e++) {
            uint32_t x = l->at[p->ext[e].i];
            g->next[g->next_at[x] + fill[x]++] = k;
        }
}

static void offer(struct lister *l, const struct greedy *g, uint32_t k)
{
    if (g->wait[k] == 0 && (!g->eager || g->gain[k] > 0))
        heap_push(l, (struct ready){ g->gain[k], k });
}

/* The only user of a value that has not run frees it. */
static void tell_last(struct lister *l, struct greedy *g, uint32_t v)
{
    const struct use_of *u = &l->uses[v];
    if (u->left != 1 || l->kept[v] || l->bytes[v] == 0)
        return;
    for (uint32_t x = u->first; x < u->first + u->n; x++) {
        uint32_t k = l->users[x];
        if (g->done[k])
            continue;
        g->gain[k] += l->bytes[v];
        offer(l, g, k);
        return;
    }
}

static void run_one(struct lister *l, struct greedy *g, uint32_t k)
{
    g->done[k] = true;
    for (uint32_t x = l->read_at[k]; x < l->read_at[k + 1]; x++) {
        l->uses[l->reads[x]].left--;
        tell_last(l, g, l->reads[x]);
    }
    for (uint32_t x = g->next_at[k]; x < g->next_at[k + 1]; x++)
        if (--g->wait[g->next[x]] == 0)
            offer(l, g, g->next[x]);
}

static void other_order(struct lister *l, bool eager, instr_id *out)
{
    struct greedy g = { .eager = eager };
    uint32_t n = 0, in_turn = 0;
    g.gain = ARENA_ARRAY(l->tmp, int64_t, (int64_t)l->n + 1);
    g.wait = ARENA_ARRAY(l->tmp, uint32_t, (int64_t)l->n + 1);
    g.done = ARENA_ARRAY(l->tmp, bool, (int64_t)l->n + 1);
    find_successors(l, &g);
    reset_uses(l);
    for (uint32_t k = 0; k < l->n; k++)
        g.gain[k] = -defined(l, k);
    for (uint32_t v = 0; v < l->nvalues; v++)
        tell_last(l, &g, v);
    l->heap.n = 0; /* what tell_last put there: all that are ready follow */
    for (uint32_t k = 0; k < l->n; k++)
        offer(l, &g, k);
    while (n < l->n) {
        uint32_t k;
        if (l->heap.n > 0) {
            struct ready r = heap_pop(l);
            k = r.kernel;
            if (g.done[k] || r.gain != g.gain[k])
                continue;
        } else {
            while (g.done[in_turn])
                in_turn++;
            k = in_turn; /* its operands come before it in the list */
        }
        out[n++] = l->list[k];
        run_one(l, &g, k);
    }
}

const instr_id *better_order(struct cost_plan *p, struct arena *tmp, instr_id root, const instr_id *depth, uint32_t n,
                             uint32_t *at, int64_t *inner, int64_t *peak)
{
    struct lister l = { .p = p, .tmp = tmp, .list = depth, .n = n, .at = at, .inner = inner };
    for (uint32_t k = 0; k < n; k++)
        at[depth[k].i] = k;
    find_values(&l);
    find_reads(&l, root);
    const instr_id *best = depth;
    *peak = peak_of(&l, depth);
    for (int which = 0; which < 2 && n >= 3; which++) {
        instr_id *out = ARENA_ARRAY(&p->arena, instr_id, (int64_t)n + 1);
        other_order(&l, which == 0, out);
        int64_t now = peak_of(&l, out);
        if (now < *peak) {
            *peak = now;
            best = out;
        }
    }
    return best;
}
