/* The edits of an increment: what stands for the edited instructions is given its new sharding, and the
 * steps before the first sweep (P-69 to P-76) are made again for all that they look at. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "base/open.h"
#include "propagate/increment.h"

/* ---- tables of a graph, made by its first increment ---------------------------------------------------- */

static void find_callers(struct pass *p)
{
    VEC(instr_id) callers = { 0 };
    VEC(uint32_t) comps = { 0 };
    for (uint32_t k = 1; k <= p->n; k++) {
        comp_id list[16];
        int n = p->facts[k].gone || !calls_out(p, (instr_id){ k }) ? 0 : instr_called(p->m, (instr_id){ k }, list, (int)COUNTOF(list));
        comp_id *all = list;
        if (n > (int)COUNTOF(list)) {
            all = ARENA_ARRAY(p->tmp, comp_id, n);
            instr_called(p->m, (instr_id){ k }, all, n);
        }
        for (int j = 0; j < n; j++) {
            vec_push(p->tmp, &callers, ((instr_id){ k }));
            vec_push(p->tmp, &comps, all[j].i);
        }
    }
    uint32_t nc = module_ncomps(p->m);
    uint32_t *first = ARENA_ARRAY(p->arena, uint32_t, (int64_t)nc + 2);
    p->callers = ARENA_ARRAY(p->arena, instr_id, callers.n + 1);
    for (int64_t k = 0; k < comps.n; k++)
        first[comps.v[k] + 1]++;
    for (uint32_t k = 1; k <= nc + 1; k++)
        first[k] += first[k - 1];
    uint32_t *next = arena_copy(p->tmp, first, (int64_t)nc + 2, sizeof *next);
    for (int64_t k = 0; k < comps.n; k++)
        p->callers[next[comps.v[k]]++] = callers.v[k];
    p->callers_first = first;
}

static size_t round_table(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Pages that are touched where edits reach; the rest costs nothing. */
static bool tables_alloc(const struct pass *p, struct inc_tables *t)
{
    size_t words = round_table(((size_t)p->n + 1) * sizeof(uint32_t)), bits = ((size_t)p->nslots / 64 + 1) * sizeof(uint64_t);
    t->bytes = 4 * words + 2 * bits;
    char *at_ = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED)
        return false;
    t->now = (sharding_id *)(void *)at_;
    t->fork_of = (uint32_t *)(void *)(at_ + words);
    t->cached_of = (uint32_t *)(void *)(at_ + 2 * words);
    t->mark = (uint32_t *)(void *)(at_ + 3 * words);
    t->exam = (uint64_t *)(void *)(at_ + 4 * words);
    t->later = t->exam + bits / sizeof(uint64_t);
    return true;
}

void inc_tables_free(struct pass *p)
{
    if (p->inc)
        (void)munmap(p->inc->now, p->inc->bytes);
    p->inc = NULL;
}

void inc_tables_make(struct pass *p)
{
    map_init(&p->heirs, p->arena);
    for (int64_t k = 0; k < p->g->nheirs; k++)
        map_put(&p->heirs, p->g->heirs[k].instr.i, p->g->heirs[k].had.i);
    find_callers(p);
    struct inc_tables *t = ARENA_NEW(p->arena, struct inc_tables);
    if (fail_allocation_due() || !tables_alloc(p, t))
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for the tables of increments");
    p->inc = t;
}

/* ---- what the module gives ------------------------------------------------------------------------------ */

/* What the module's text, or the user, gave i. */
static sharding_id given_before(const struct inc *c, instr_id i)
{
    struct prop_writes s = old_list(c, i);
    if (!s.n || s.v[0].time.stage || s.v[0].time.iteration || s.v[0].time.slot != i.i)
        return none();
    return s.v[0].after;
}

/* Takes the edit for one of those that stand for the edited. */
static bool give(struct inc *c, instr_id i, const struct prop_edit *e, struct id_list *edited)
{
    struct pass *p = c->p;
    const struct instr *ins = at(p, i);
    uint64_t had = 0;
    bool heir = map_get(&p->heirs, i.i, &had);
    if ((ins->note && ins->note->leaves) || (heir && !e->is.i && had))
        return false;
    if (!heir && given_before(c, i).i != e->was.i)
        return false;
    inc_list_add(c, edited, i);
    p->now[i.i] = e->is;
    if (p->saved_cse)
        p->saved_cse[i.i] = e->is;
    return true;
}

/* All that stand for a loaded instruction; also in computations that were inlined everywhere, which stand there
 * still though no pass looks at them. */
static void find_stands(struct inc *c, instr_id loaded, struct id_list *out)
{
    const struct origin *origin = c->p->g->origin;
    for (uint32_t k = 1; k <= c->p->n; k++)
        if (origin[k].source.i == loaded.i)
            id_list_push(c->tmp, out, (instr_id){ k });
}

static bool give_all(struct inc *c, const struct prop_edit *e, struct id_list *edited)
{
    struct pass *p = c->p;
    const struct graph *g = p->g;
    struct id_list stands = { 0 };
    if (e->loaded.i > module_ninstrs(g->loaded))
        return false;
    uint32_t from = g->start[e->loaded.i], to = g->start[e->loaded.i + 1];
    const struct instr *loaded = instr_at(g->loaded, e->loaded);
    if (from == to)
        return false;
    for (uint32_t k = from; k < to; k++)
        if (g->origin[g->list[k].i].source.i != e->loaded.i)
            return false; /* something else stands for it */
    find_stands(c, e->loaded, &stands);
    bool given = false;
    for (uint32_t k = 0; k < stands.n; k++) {
        instr_id i = stands.v[k];
        const struct instr *ins = at(p, i);
        if ((ins->flags & INSTR_REMOVED) && !p->called[i.i])
            vec_push(c->tmp, &c->unseen, ((struct unseen){ i, e->is }));
        else if (ins->op == OP_COPY && loaded->op == OP_CUSTOM_CALL)
            continue; /* made from the call, as the step does again */
        else if (ins->op != loaded->op || ins->shape.i != loaded->shape.i || !give(c, i, e, edited))
            return false;
        given = true;
    }
    return given; /* not by a call that went before the pass */
}

/* ---- the steps again -------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const instr_id *)a)->i, y = ((const instr_id *)b)->i;
    return x < y ? -1 : x > y;
}

static int by_instr_of_log(const void *a, const void *b)
{
    const struct log_entry *x = a, *y = b;
    if (x->instr.i != y->instr.i)
        return x->instr.i < y->instr.i ? -1 : 1;
    return time_compare(x->write.time, y->write.time, true);
}

void inc_take_log(struct inc *c, struct id_list *l, uint64_t from_key, uint64_t to_key)
{
    struct pass *p = c->p;
    struct log_entry *all = p->log.v;
    int64_t n = p->log.n, k = 0;
    if (l->n > 1)
        qsort(l->v, l->n, sizeof *l->v, by_id);
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, by_instr_of_log);
    for (uint32_t j = 0; j < l->n; j++) {
        int64_t from = k;
        while (k < n && all[k].instr.i == l->v[j].i)
            k++;
        p->log.v = n > 0 ? all + from : NULL;
        p->log.n = k - from;
        inc_replace(c, l->v[j], from_key, to_key);
    }
    p->log.v = all;
    p->log.n = 0;
}

bool inc_edit(struct inc *c, int n, const struct prop_edit *edits)
{
    struct pass *p = c->p;
    struct id_list list = { 0 }, looked = { 0 };
    inc_list_open(c, &list);
    for (int e = 0; e < n; e++)
        if (!give_all(c, &edits[e], &list))
            return false;
    uint32_t edited = list.n;
    for (int64_t k = 0; k < p->steps.n; k++)
        setup_reads(p, &p->steps.v[k], &looked);
    id_list_push(p->tmp, &looked, comp_at(p->m, p->m->entry)->root);
    for (uint32_t k = 0; k < looked.n; k++)
        inc_list_add(c, &list, looked.v[k]);
    for (uint32_t k = edited; k < list.n; k++)
        p->now[list.v[k].i] = given_before(c, list.v[k]);
    qsort(list.v, list.n, sizeof *list.v, by_id);
    p->log.n = 0;
    bool ok = setup_again(p, &list);
    if (!ok)
        return false;
    inc_take_log(c, &list, 0, key_of((struct prop_time){ 0, 1, 0, 0 }));
    for (uint32_t k = 0; k < list.n; k++)
        if (p->provided[list.v[k].i] != c->old_provided[list.v[k].i])
            inc_fork(c, list.v[k], 0);
    return true;
}
