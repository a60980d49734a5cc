#include "propagate/edit.h"

#include <stdio.h>
#include <string.h>

void id_list_push(struct arena *a, struct id_list *l, instr_id i)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        instr_id *v = ARENA_ARRAY(a, instr_id, cap);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = i;
}

bool pass_interrupted(struct diag *d)
{
    if (!d)
        return false;
    const char *code = diag_stage(d, "interrupted");
    diag_error(d, NULL, (struct span){ 0, 0 }, "interrupted");
    diag_stage(d, code);
    return false;
}

bool instr_is_root(const struct module *m, instr_id i)
{
    return comp_at(m, instr_at(m, i)->comp)->root.i == i.i;
}

static void grow(struct edit *e, uint32_t need)
{
    uint32_t cap = need + need / 2 + 64;
    instr_id **operands = ARENA_ARRAY(e->arena, instr_id *, cap);
    struct id_list *users = ARENA_ARRAY(e->arena, struct id_list, cap);
    struct origin *origin = ARENA_ARRAY(e->arena, struct origin, cap);
    uint32_t *mark = ARENA_ARRAY(e->arena, uint32_t, cap);
    if (e->cap) {
        memcpy(mark, e->mark, e->cap * sizeof *mark);
        memcpy(operands, e->operands, e->cap * sizeof *operands);
        memcpy(users, e->users, e->cap * sizeof *users);
        memcpy(origin, e->origin, e->cap * sizeof *origin);
    }
    e->operands = operands;
    e->users = users;
    e->origin = origin;
    e->mark = mark;
    e->cap = cap;
}

/* One block for all operand lists, in the module's arena: it outlives the edit. */
static void open_operands(struct edit *e)
{
    uint32_t n = module_ninstrs(e->m);
    int64_t total = 0;
    for (uint32_t i = 1; i <= n; i++)
        total += instr_at(e->m, (instr_id){ i })->noperands;
    instr_id *block = ARENA_ARRAY(&e->m->arena, instr_id, total + 1);
    for (uint32_t i = 1; i <= n; i++) {
        struct instr *x = instr_at(e->m, (instr_id){ i });
        if (x->noperands)
            memcpy(block, x->operands, x->noperands * sizeof *block);
        e->operands[i] = block;
        x->operands = block;
        block += x->noperands;
    }
}

void edit_open(struct edit *e, struct module *m, const struct origin *origin,
               const struct users *users, struct arena *arena)
{
    uint32_t n = module_ninstrs(m), nc = module_ncomps(m);
    *e = (struct edit){ .m = m, .arena = arena };
    grow(e, n + 1);
    open_operands(e);
    struct users fresh;
    if (!users) {
        users_make(m, arena, &fresh);
        users = &fresh;
    }
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t count = users->start[i + 1] - users->start[i];
        e->users[i] = (struct id_list){ users->list + users->start[i], count, count };
        e->origin[i] = origin ? origin[i] : (struct origin){ { i }, 0 };
    }
    e->comps = ARENA_ARRAY(arena, struct id_list, nc + 1);
    e->roots = ARENA_ARRAY(arena, instr_id, nc + 1);
    for (uint32_t c = 1; c <= nc; c++) {
        const struct computation *comp = comp_at(m, (comp_id){ c });
        e->comps[c].v = arena_copy(arena, comp->instrs, comp->ninstrs, sizeof(instr_id));
        e->comps[c].n = e->comps[c].cap = comp->ninstrs;
        e->roots[c] = comp->root;
    }
}

bool edit_gone(const struct edit *e, instr_id i)
{
    return (instr_at(e->m, i)->flags & INSTR_REMOVED) != 0;
}

static bool name_free(struct edit *e, name_id n)
{
    uint64_t used;
    if (!e->names.arena) {
        map_init(&e->names, e->arena);
        for (uint32_t k = 1; k <= module_ninstrs(e->m); k++)
            map_put(&e->names, instr_at(e->m, (instr_id){ k })->name.i, 1);
        map_init(&e->numbers, e->arena);
    }
    return !map_get(&e->names, n.i, &used);
}

void edit_name(struct edit *e, instr_id i, const char *base)
{
    name_id id = name_put(e->m->ir, base, strlen(base));
    uint64_t number = 0;
    instr_at(e->m, i)->name = (name_id){ 0 };
    if (!name_free(e, id)) {
        char text[64];
        uint32_t key = id.i;
        (void)map_get(&e->numbers, key, &number);
        do {
            int n = snprintf(text, sizeof text, "%s.%" PRIu64, base, ++number);
            id = name_put(e->m->ir, text, (size_t)n);
        } while (!name_free(e, id));
        map_put(&e->numbers, key, number);
    }
    map_put(&e->names, id.i, 1);
    instr_at(e->m, i)->name = id;
}

void edit_alias(struct edit *e, instr_id x, instr_id y)
{
    for (int64_t k = 0; k < e->aliases.n; k++)
        if (e->aliases.v[k].stands.i == x.i)
            e->aliases.v[k].stands = y;
    if (e->origin[x.i].source.i)
        vec_push(e->arena, &e->aliases, ((struct alias){ e->origin[x.i].source, y }));
}

static bool has_operand(const struct edit *e, instr_id i, instr_id x, uint32_t before)
{
    for (uint32_t k = 0; k < before; k++)
        if (e->operands[i.i][k].i == x.i)
            return true;
    return false;
}

instr_id edit_add(struct edit *e, comp_id c, enum op_kind op, shape_id shape, uint32_t noperands,
                  const instr_id *operands, const struct instr *like, struct origin from)
{
    instr_id id = { paged_add(&e->m->instrs) };
    if (id.i >= e->cap)
        grow(e, id.i + 1);
    struct instr *x = instr_at(e->m, id);
    if (like) {
        *x = *like;
        x->flags = 0;
    }
    x->op = (uint16_t)op;
    x->shape = shape;
    x->comp = c;
    x->noperands = noperands;
    e->operands[id.i] = arena_copy(&e->m->arena, operands, noperands, sizeof *operands);
    x->operands = e->operands[id.i];
    e->origin[id.i] = from;
    for (uint32_t k = 0; k < noperands; k++)
        if (!has_operand(e, id, operands[k], k))
            id_list_push(e->arena, &e->users[operands[k].i], id);
    id_list_push(e->arena, &e->comps[c.i], id);
    return id;
}

static void drop_user(struct edit *e, instr_id operand, instr_id user)
{
    struct id_list *l = &e->users[operand.i];
    for (uint32_t k = 0; k < l->n; k++)
        if (l->v[k].i == user.i) {
            l->v[k] = l->v[--l->n];
            return;
        }
}

static void remove_one(struct edit *e, instr_id x)
{
    struct instr *ins = instr_at(e->m, x);
    for (uint32_t k = 0; k < ins->noperands; k++)
        drop_user(e, e->operands[x.i][k], x);
    ins->flags |= INSTR_REMOVED;
}

/* What XLA takes away with an instruction: what only it used, unless that has an effect, is a
 * parameter or has control dependencies. */
static bool removable(const struct edit *e, instr_id x)
{
    const struct instr *ins = instr_at(e->m, x);
    return !edit_gone(e, x) && e->users[x.i].n == 0 && e->roots[ins->comp.i].i != x.i &&
           ins->op != OP_PARAMETER && !instr_attr(ins, ATTR_CONTROL_PREDECESSORS) &&
           !instr_has_side_effect(e->m, x);
}

static void remove_unused(struct edit *e, instr_id x)
{
    struct id_list queue = { 0 };
    const struct instr *ins = instr_at(e->m, x);
    remove_one(e, x);
    for (uint32_t k = 0; k < ins->noperands; k++)
        id_list_push(e->arena, &queue, ins->operands[k]);
    for (uint32_t at = 0; at < queue.n; at++) {
        instr_id item = queue.v[at];
        if (!removable(e, item))
            continue;
        ins = instr_at(e->m, item);
        remove_one(e, item);
        for (uint32_t k = 0; k < ins->noperands; k++)
            id_list_push(e->arena, &queue, ins->operands[k]);
    }
}

void edit_use_instead(struct edit *e, instr_id user, instr_id x, instr_id y)
{
    instr_id *v = e->operands[user.i];
    uint32_t n = instr_at(e->m, user)->noperands;
    bool had = has_operand(e, user, y, n);
    for (uint32_t k = 0; k < n; k++)
        if (v[k].i == x.i)
            v[k] = y;
    if (!had)
        id_list_push(e->arena, &e->users[y.i], user);
}

void edit_set_operand(struct edit *e, instr_id user, uint32_t k, instr_id y)
{
    uint32_t n = instr_at(e->m, user)->noperands;
    instr_id old = e->operands[user.i][k];
    if (!has_operand(e, user, y, n))
        id_list_push(e->arena, &e->users[y.i], user);
    e->operands[user.i][k] = y;
    if (!has_operand(e, user, old, n))
        drop_user(e, old, user);
}

void edit_inherit(struct edit *e, instr_id x, instr_id y)
{
    const struct instr *old = instr_at(e->m, x);
    struct instr *new = instr_at(e->m, y);
    vec_push(e->arena, &e->heirs, ((struct heir){ y, old->sharding }));
    if (new->sharding.i)
        return;
    new->sharding = old->sharding;
    new->note = old->note;
}

void edit_replace(struct edit *e, instr_id x, instr_id y, bool unused)
{
    const struct instr *old = instr_at(e->m, x);
    struct id_list users = e->users[x.i];
    bool keeps = false;
    for (uint32_t k = 0; k < users.n; k++) {
        if (users.v[k].i == y.i)
            keeps = true;
        else
            edit_use_instead(e, users.v[k], x, y);
    }
    /* A user that is y itself goes on using x: then x stays. */
    e->users[x.i].n = 0;
    if (keeps)
        id_list_push(e->arena, &e->users[x.i], y);
    if (e->roots[old->comp.i].i == x.i)
        e->roots[old->comp.i] = y;
    if (keeps)
        return;
    if (unused)
        remove_unused(e, x);
    else
        remove_one(e, x);
}

/* ---- order ------------------------------------------------------------------------------------ */

struct walk {
    struct edit *e;
    struct arena *a;
    struct id_list stack;
    struct id_list *out;
};

static void push_new(struct walk *w, instr_id i)
{
    if (w->e->mark[i.i] != 2 * w->e->walk + 1)
        id_list_push(w->a, &w->stack, i);
}

static void walk_from(struct walk *w, instr_id start)
{
    uint32_t open = 2 * w->e->walk;
    push_new(w, start);
    while (w->stack.n) {
        instr_id top = w->stack.v[w->stack.n - 1];
        const struct instr *ins = instr_at(w->e->m, top);
        if (w->e->mark[top.i] >= open) {
            w->stack.n--;
            if (w->e->mark[top.i] == open) {
                w->e->mark[top.i] = open + 1;
                id_list_push(w->a, w->out, top);
            }
            continue;
        }
        w->e->mark[top.i] = open;
        const struct attr *control = instr_attr(ins, ATTR_CONTROL_PREDECESSORS);
        for (uint32_t k = control ? control->n : 0; k > 0; k--)
            push_new(w, control->instrs[k - 1]);
        for (uint32_t k = ins->noperands; k > 0; k--)
            push_new(w, ins->operands[k - 1]);
    }
}

void edit_order(struct edit *e, comp_id c, bool root_last, struct arena *a, struct id_list *out)
{
    struct walk w = { .e = e, .a = a, .out = out };
    const struct id_list *list = &e->comps[c.i];
    e->walk++;
    out->n = 0;
    for (uint32_t k = 0; k < list->n; k++) {
        instr_id i = list->v[k];
        if (!edit_gone(e, i) && e->users[i.i].n == 0 &&
            !(root_last && i.i == e->roots[c.i].i))
            walk_from(&w, i);
    }
    if (root_last)
        walk_from(&w, e->roots[c.i]);
}

/* ---- back into the graph ---------------------------------------------------------------------- */

static void finish_comps(struct edit *e)
{
    for (uint32_t c = 1; c <= module_ncomps(e->m); c++) {
        struct id_list *l = &e->comps[c];
        uint32_t n = 0;
        for (uint32_t k = 0; k < l->n; k++)
            if (!edit_gone(e, l->v[k]))
                l->v[n++] = l->v[k];
        l->n = n;
        const struct computation *comp = comp_at(e->m, (comp_id){ c });
        bool same = comp->ninstrs == n && comp->root.i == e->roots[c].i &&
                    (n == 0 || memcmp(comp->instrs, l->v, n * sizeof(instr_id)) == 0);
        if (!same)
            comp_set_instrs(e->m, (comp_id){ c }, n, l->v, e->roots[c]);
    }
}

static void finish_users(struct edit *e, struct graph *g)
{
    uint32_t n = module_ninstrs(e->m);
    uint32_t total = 0;
    g->users.start = ARENA_ARRAY(&g->arena, uint32_t, n + 2);
    for (uint32_t i = 1; i <= n; i++) {
        g->users.start[i] = total;
        total += e->users[i].n;
    }
    g->users.start[n + 1] = total;
    g->users.list = ARENA_ARRAY(&g->arena, instr_id, total + 1);
    for (uint32_t i = 1; i <= n; i++)
        if (e->users[i].n)
            memcpy(g->users.list + g->users.start[i], e->users[i].v,
                   e->users[i].n * sizeof(instr_id));
}

static bool alive(const struct edit *e, const struct graph *g, instr_id i)
{
    return i.i && !edit_gone(e, i) && g->comp_used[instr_at(e->m, i)->comp.i];
}

/* start / list: which instructions stand for each one of the loaded module, in module order. */
static void finish_index(struct edit *e, struct graph *g)
{
    uint32_t nl = module_ninstrs(g->loaded), nc = module_ncomps(e->m), total = 0;
    g->start = ARENA_ARRAY(&g->arena, uint32_t, nl + 2);
    for (uint32_t c = 1; c <= nc; c++)
        for (uint32_t k = 0; g->comp_used[c] && k < e->comps[c].n; k++)
            g->start[e->origin[e->comps[c].v[k].i].source.i]++;
    for (int64_t k = 0; k < e->aliases.n; k++)
        if (alive(e, g, e->aliases.v[k].stands))
            g->start[e->aliases.v[k].source.i]++;
    g->start[0] = 0; /* made by a pass: nobody's */
    for (uint32_t i = 0; i <= nl + 1; i++) {
        uint32_t mine = g->start[i];
        g->start[i] = total;
        total += mine;
    }
    g->list = ARENA_ARRAY(&g->arena, instr_id, total + 1);
    uint32_t *next = arena_copy(e->arena, g->start, nl + 2, sizeof *next);
    for (uint32_t c = 1; c <= nc; c++)
        for (uint32_t k = 0; g->comp_used[c] && k < e->comps[c].n; k++) {
            uint32_t source = e->origin[e->comps[c].v[k].i].source.i;
            if (source)
                g->list[next[source]++] = e->comps[c].v[k];
        }
    for (int64_t k = 0; k < e->aliases.n; k++)
        if (alive(e, g, e->aliases.v[k].stands))
            g->list[next[e->aliases.v[k].source.i]++] = e->aliases.v[k].stands;
    if (e->heirs.n) {
        g->nheirs = e->heirs.n;
        g->heirs = arena_copy(&g->arena, e->heirs.v, e->heirs.n, sizeof *g->heirs);
    }
    g->naliases = e->aliases.n;
    g->aliases = arena_copy(&g->arena, e->aliases.v, e->aliases.n, sizeof *g->aliases);
}

void edit_finish(struct edit *e, struct graph *g)
{
    finish_comps(e);
    finish_users(e, g);
    g->module = e->m;
    g->origin = arena_copy(&g->arena, e->origin, module_ninstrs(e->m) + 1, sizeof *e->origin);
    finish_index(e, g);
}
