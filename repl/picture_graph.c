/* graph: which instructions a picture of the program has, and where data moves between them. Never a
 * whole large program: neighbourhoods, cones, paths, or one box a layer. */
#include "viz/graph.h"

#include <string.h>

#include "repl/pictures.h"

enum { HOPS = 2, NODES = 48, MOST_GROUPS = 40, CHAIN = 24 };

/* Data that moves between devices: at an instruction, or on its way from one to another. */
struct moved {
    instr_id from, to; /* of the loaded module; to none: at from */
    enum op_kind kind;
    const char *label;
    int64_t bytes, which; /* collective */
    bool asked, avoidable;
};

struct pick {
    struct picture *p;
    struct call *c;
    struct arena *a;
    const struct module *m;
    const struct propagation *prop;
    struct users users;
    VEC(struct moved) moves;
    int32_t *place; /* [ninstrs + 1] node of an instruction + 1; 0: none */
    VEC(instr_id) list;
    int64_t most, left_out;
    const struct collective *collectives; /* of the program */
    int64_t total;                        /* bytes that it sends */
    int asked;                            /* collectives whose blame was tried */
    uint32_t least;         /* size of a computation that has a box of its own */
    const char **box;       /* [ncomps + 1] its name; computations that are alike share one */
    VEC(struct graph_node) nodes;
    VEC(struct graph_edge) edges;
    VEC(struct graph_cluster) clusters;
};

/* ---- what moves ---------------------------------------------------------------------------------- */

static instr_id served(struct pick *k, const struct program *prog, instr_id node)
{
    return node.i ? served_by(k->c, prog, node) : (instr_id){ 0 };
}

/* The loaded instruction whose value comes in: up through nodes that serve the same one, or nobody. */
static instr_id producer(struct pick *k, const struct program *prog, instr_id node, instr_id mine)
{
    for (int step = 0; step < CHAIN; step++) {
        const struct instr *in = instr_at(prog->module, node);
        if (in->noperands == 0)
            return (instr_id){ 0 };
        node = in->operands[0];
        instr_id s = served(k, prog, node);
        if (s.i && s.i != mine.i)
            return s;
    }
    return (instr_id){ 0 };
}

static void add_move(struct pick *k, instr_id from, instr_id to, const struct collective *c)
{
    struct moved v = { .from = from, .to = to, .kind = c->kind, .bytes = c->bytes, .which = c - k->collectives };
    v.label = arena_printf(k->a, "%s %s", op_name(c->kind), nice_bytes(k->a, c->bytes));
    vec_push(k->a, &k->moves, v);
}

/* Those who use what a collective of `mine` gives: down through nodes of mine. */
static int add_consumers(struct pick *k, const struct program *prog, const struct users *users,
                         const struct collective *c, instr_id mine)
{
    enum { FRONT = 64 };
    instr_id front[FRONT];
    int n = 0, made = 0;
    front[n++] = c->instr;
    for (int at = 0; at < n && at < FRONT; at++)
        for (uint32_t u = 0; u < users_count(users, front[at]); u++) {
            instr_id user = users_of(users, front[at])[u], s = served(k, prog, user);
            if (s.i && s.i != mine.i) {
                bool known = false;
                for (int64_t v = k->moves.n - made; v < k->moves.n; v++)
                    known |= k->moves.v[v].to.i == s.i;
                if (!known && made < 8) {
                    add_move(k, mine, s, c);
                    made++;
                }
            } else if (n < FRONT) {
                front[n++] = user;
            }
        }
    return made;
}

static bool is_operand(const struct module *m, instr_id of, instr_id maybe)
{
    const struct instr *in = instr_at(m, of);
    for (uint32_t o = 0; o < in->noperands; o++)
        if (in->operands[o].i == maybe.i)
            return true;
    return false;
}

/* Without devices, or where the program cannot be made, nothing moves: the graph is drawn all the same. */
static void find_moves(struct pick *k)
{
    const struct collective *list;
    int64_t n, total;
    struct document *doc = k->c->sh->doc;
    if (document_devices(doc) < 2 || document_is_partitioned(doc))
        return;
    const struct program *prog = document_program(doc, call_tick(k->c), NULL);
    if (!prog || !prog->notes || !document_collectives(doc, &list, &n, &total, call_tick(k->c), NULL))
        return;
    struct users users;
    k->collectives = list;
    k->total = total;
    users_make(prog->module, k->a, &users);
    for (int64_t i = 0; i < n; i++) {
        instr_id mine = served(k, prog, list[i].instr);
        bool sum = list[i].kind == OP_ALL_REDUCE || list[i].kind == OP_REDUCE_SCATTER;
        if (!mine.i)
            continue;
        instr_id from = sum ? (instr_id){ 0 } : producer(k, prog, list[i].instr, mine);
        if (from.i && is_operand(k->m, mine, from))
            add_move(k, from, mine, &list[i]);
        else if (sum || add_consumers(k, prog, &users, &list[i], mine) == 0)
            add_move(k, mine, (instr_id){ 0 }, &list[i]);
    }
}

/* ---- choosing ------------------------------------------------------------------------------------ */

static bool choose(struct pick *k, instr_id i)
{
    if (k->place[i.i])
        return true;
    if (k->list.n >= k->most) {
        k->left_out++;
        return false;
    }
    vec_push(k->a, &k->list, i);
    k->place[i.i] = (int32_t)k->list.n;
    return true;
}

/* Breadth first from what is chosen, so many steps: up through operands, down through users. */
static void grow(struct pick *k, int64_t hops, bool up, bool down)
{
    int64_t from = 0;
    for (int64_t hop = 0; hop < hops; hop++) {
        int64_t to = k->list.n;
        for (; from < to; from++) {
            instr_id i = k->list.v[from];
            const struct instr *in = instr_at(k->m, i);
            if (hop > 0 && in->op == OP_TUPLE) /* what else is in a tuple has nothing to do with it */
                continue;
            for (uint32_t o = 0; up && o < in->noperands; o++)
                choose(k, in->operands[o]);
            for (uint32_t u = 0; down && u < users_count(&k->users, i); u++)
                choose(k, users_of(&k->users, i)[u]);
        }
    }
}

/* mark[i] |= bit for everything that is reached from i. */
static void reach(struct pick *k, instr_id i, uint8_t *mark, uint8_t bit, bool down)
{
    VEC(instr_id) front = { 0 };
    vec_push(k->a, &front, i);
    mark[i.i] |= bit;
    for (int64_t at = 0; at < front.n; at++) {
        const struct instr *in = instr_at(k->m, front.v[at]);
        uint32_t n = down ? users_count(&k->users, front.v[at]) : in->noperands;
        for (uint32_t o = 0; o < n; o++) {
            instr_id next = down ? users_of(&k->users, front.v[at])[o] : in->operands[o];
            if (mark[next.i] & bit)
                continue;
            mark[next.i] |= bit;
            vec_push(k->a, &front, next);
        }
    }
}

static bool choose_between(struct pick *k, instr_id a, instr_id b)
{
    uint32_t n = module_ninstrs(k->m);
    uint8_t *mark = ARENA_ARRAY(k->a, uint8_t, (int64_t)n + 1);
    reach(k, a, mark, 1, true);
    reach(k, b, mark, 2, false);
    if (!(mark[b.i] & 1)) { /* the other way round */
        memset(mark, 0, (size_t)n + 1);
        reach(k, b, mark, 1, true);
        reach(k, a, mark, 2, false);
        if (!(mark[a.i] & 1))
            return false;
    }
    choose(k, a);
    choose(k, b);
    for (uint32_t i = 1; i <= n; i++)
        if (mark[i] == 3)
            choose(k, (instr_id){ i });
    return true;
}

/* ---- nodes and edges of instructions ------------------------------------------------------------- */

/* "bi,io->bo" of a product; "" where letters do not suffice. */
static const char *einsum_of(struct pick *k, instr_id i)
{
    const struct instr *in = instr_at(k->m, i);
    struct dot_dims d;
    char lhs[33] = "", rhs[33] = "", out_[65] = "";
    int n = 0, at = 0;
    if (in->op != OP_DOT || in->noperands < 2)
        return "";
    int nl = instr_shape(k->m, in->operands[0])->rank, nr = instr_shape(k->m, in->operands[1])->rank;
    if (nl + nr > 26)
        return "";
    instr_dot_dims(k->m, i, &d);
    memset(rhs, ' ', (size_t)nr);
    for (int x = 0; x < nl; x++)
        lhs[x] = (char)('a' + n++);
    for (int b = 0; b < d.nbatch; b++)
        out_[at++] = rhs[d.rhs_batch[b]] = lhs[d.lhs_batch[b]];
    for (int b = 0; b < d.ncontract; b++)
        rhs[d.rhs_contract[b]] = lhs[d.lhs_contract[b]];
    for (int x = 0; x < d.nlhs_free; x++)
        out_[at++] = lhs[d.lhs_free[x]];
    for (int x = 0; x < nr; x++)
        if (rhs[x] == ' ')
            out_[at++] = rhs[x] = (char)('a' + n++);
    return arena_printf(k->a, " %s,%s->%s", lhs, rhs, out_);
}

static const char *op_line(struct pick *k, instr_id i)
{
    const struct instr *in = instr_at(k->m, i);
    const char *shape = shape_text(k->c, in->shape);
    return arena_printf(k->a, "%s%s %s", op_name((enum op_kind)in->op), einsum_of(k, i),
                        strlen(shape) > 40 ? "(tuple)" : shape);
}

static const char *sharding_line(struct pick *k, instr_id i)
{
    if (!k->prop || shape_get(k->m->ir, instr_at(k->m, i)->shape)->kind != SHAPE_ARRAY)
        return NULL;
    sharding_id s = picture_sharding(k->c, k->prop, i, -1);
    const char *text = arena_strdup(k->a, spelled(k->c, s));
    return strlen(text) > 60 ? arena_printf(k->a, "%.57s...", text) : text;
}

static int64_t hidden_around(struct pick *k, instr_id i)
{
    const struct instr *in = instr_at(k->m, i);
    int64_t n = 0;
    for (uint32_t o = 0; o < in->noperands; o++)
        n += !k->place[in->operands[o].i];
    for (uint32_t u = 0; u < users_count(&k->users, i); u++)
        n += !k->place[users_of(&k->users, i)[u].i];
    return n;
}

static int cluster_of(struct pick *k, comp_id comp)
{
    const char *label = name_text(k->m->ir, comp_at(k->m, comp)->name);
    for (int64_t c = 0; c < k->clusters.n; c++)
        if (!strcmp(k->clusters.v[c].label, label))
            return (int)c;
    struct graph_cluster fresh = { arena_strdup(k->a, label) };
    vec_push(k->a, &k->clusters, fresh);
    return (int)k->clusters.n - 1;
}

/* Whether some other annotation sends less in all, found by trying (--blame); the first few only: it takes time. */
static bool is_avoidable(struct pick *k, struct moved *v)
{
    enum { MOST_ASKED = 24 };
    struct remedies r;
    if (!call_option(k->c, "--blame") || v->asked)
        return v->avoidable;
    v->asked = true;
    if (k->asked++ >= MOST_ASKED ||
        !document_remedies(k->c->sh->doc, v->which, false, &k->c->arena, &r, call_tick(k->c), NULL))
        return false;
    v->avoidable = r.best >= 0 && r.list[r.best].bytes < k->total;
    return v->avoidable;
}

/* "all-gather 96 bytes", "2 all-gather, 128 bytes", "2 moves, 160 bytes"; NULL: nothing moves. */
static const char *move_label(struct pick *k, instr_id from, instr_id to, int64_t *bytes, bool *avoidable)
{
    const struct moved *first = NULL;
    bool alike = true;
    int64_t n = 0;
    *bytes = 0;
    *avoidable = false;
    for (int64_t v = 0; v < k->moves.n; v++) {
        struct moved *x = &k->moves.v[v];
        if (x->from.i != from.i || x->to.i != to.i)
            continue;
        *avoidable |= is_avoidable(k, x);
        first = first ? first : x;
        alike &= x->kind == first->kind;
        *bytes += x->bytes;
        n++;
    }
    if (n == 0)
        return NULL;
    const char *mark = *avoidable ? ", avoidable" : "";
    if (n == 1)
        return arena_printf(k->a, "%s%s", first->label, mark);
    return arena_printf(k->a, "%" PRId64 " %s, %s%s", n, alike ? op_name(first->kind) : "moves", nice_bytes(k->a, *bytes), mark);
}

static void add_instr_nodes(struct pick *k, int64_t chosen)
{
    bool many = false;
    for (int64_t n = 0; n < k->list.n; n++)
        many |= instr_at(k->m, k->list.v[n])->comp.i != k->m->entry.i;
    for (int64_t n = 0; n < k->list.n; n++) {
        instr_id i = k->list.v[n];
        struct graph_node node = { .name = arena_strdup(k->a, tensor_name(k->c, i)), .cluster = -1 };
        node.op = op_line(k, i);
        node.sharding = sharding_line(k, i);
        node.word = node.name;
        node.chosen = n < chosen;
        node.more = hidden_around(k, i);
        if (many)
            node.cluster = cluster_of(k, instr_at(k->m, i)->comp);
        int64_t bytes;
        node.note = move_label(k, i, (instr_id){ 0 }, &bytes, &node.avoidable);
        node.hint = arena_printf(k->a, "%s: %s %s", node.name, node.op, node.sharding ? node.sharding : "");
        vec_push(k->a, &k->nodes, node);
    }
}

static void add_instr_edges(struct pick *k)
{
    for (int64_t n = 0; n < k->list.n; n++) {
        const struct instr *in = instr_at(k->m, k->list.v[n]);
        for (uint32_t o = 0; o < in->noperands; o++) {
            int32_t from = k->place[in->operands[o].i];
            bool again = false;
            for (uint32_t q = 0; q < o; q++)
                again |= in->operands[q].i == in->operands[o].i;
            if (!from || again)
                continue;
            struct graph_edge e = { .from = from - 1, .to = (int)n };
            e.label = move_label(k, in->operands[o], k->list.v[n], &e.bytes, &e.avoidable);
            vec_push(k->a, &k->edges, e);
        }
    }
}

/* Bodies, branches, callees of what is shown: one box each. */
static void add_callees(struct pick *k)
{
    for (int64_t n = 0; n < k->list.n && k->nodes.n < GRAPH_MOST_NODES; n++) {
        comp_id called[16];
        int count = instr_called(k->m, k->list.v[n], called, 16);
        for (int q = 0; q < count && q < 16 && k->nodes.n < GRAPH_MOST_NODES; q++) {
            const struct computation *comp = comp_at(k->m, called[q]);
            if (comp->ninstrs <= 4) /* the sum of a reduction: everybody knows it */
                continue;
            struct graph_node node = { .name = arena_strdup(k->a, name_text(k->m->ir, comp->name)), .cluster = -1 };
            node.op = counted(k->a, comp->ninstrs, "instruction");
            node.collapsed = true;
            node.word = arena_strdup(k->a, arena_printf(k->a, "graph %s", tensor_name(k->c, comp->root)));
            struct graph_edge e = { .from = (int)n, .to = (int)k->nodes.n, .dashed = true };
            vec_push(k->a, &k->nodes, node);
            vec_push(k->a, &k->edges, e);
        }
    }
}

/* Operands first, so that the list reads downwards: by the module's order. */
static void sort_list(struct pick *k)
{
    for (int64_t n = 1; n < k->list.n; n++) {
        instr_id x = k->list.v[n];
        int64_t at = n;
        for (; at > 0 && k->list.v[at - 1].i > x.i; at--)
            k->list.v[at] = k->list.v[at - 1];
        k->list.v[at] = x;
    }
    for (int64_t n = 0; n < k->list.n; n++)
        k->place[k->list.v[n].i] = (int32_t)n + 1;
}

static void mark_chosen(struct pick *k, const instr_id *list, int n)
{
    for (int q = 0; q < n; q++)
        if (k->place[list[q].i])
            k->nodes.v[k->place[list[q].i] - 1].chosen = true;
}

/* ---- one box a layer ----------------------------------------------------------------------------- */

/* The first `depth` parts of a scope, jit(..) wrappers and the operation's own name left out. */
static size_t scope_of(const char *op_name_text, int depth, const char **start)
{
    const char *p = op_name_text;
    while (!strncmp(p, "jit(", 4) && strchr(p, '/'))
        p = strchr(p, '/') + 1;
    *start = p;
    size_t n = 0;
    for (int part = 0; part < depth; part++) {
        size_t len = strcspn(p + n, "/");
        if (!p[n + len] || memmem(p + n, len, "->", 2)) /* the operation, an einsum: no scopes */
            break;
        n += len + 1;
    }
    return n > 0 ? n - 1 : 0;
}

struct groups {
    struct intern names;
    uint32_t *of;    /* [ninstrs + 1] */
    int64_t *counts; /* [most + 2] */
    uint32_t n;
};

static const char *scope_name(struct pick *k, instr_id i, int depth, size_t *n)
{
    const char *start;
    const struct instr *in = instr_at(k->m, i);
    if (depth == 0 && in->comp.i != k->m->entry.i && comp_at(k->m, in->comp)->ninstrs < k->least) {
        *n = strlen("other computations");
        return "other computations";
    }
    if (depth == 0) {
        *n = strlen(k->box[in->comp.i]);
        return k->box[in->comp.i];
    }
    *n = scope_of(instr_op_name(k->m, i), depth, &start);
    return start;
}

/* The sum of a reduction and the like: nobody wants a box of it. */
static bool is_tiny(const struct module *m, comp_id c)
{
    return c.i != m->entry.i && comp_at(m, c)->ninstrs <= 4;
}

/* A name without the number that made it unique: silu_12, silu.12. */
static size_t base_length(const char *name)
{
    size_t n = strlen(name), end = n;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    return end > 1 && end < n && strchr("_.", name[end - 1]) ? end - 1 : n;
}

/* Computations of one name and one size (JAX numbers the copies of a function) share a box: "silu x2". */
static void name_boxes(struct pick *k)
{
    uint32_t n = module_ncomps(k->m);
    struct intern kinds;
    intern_init(&kinds, k->a);
    uint32_t *kind = ARENA_ARRAY(k->a, uint32_t, (int64_t)n + 1), *count = ARENA_ARRAY(k->a, uint32_t, (int64_t)n + 2);
    k->box = ARENA_ARRAY(k->a, const char *, (int64_t)n + 1);
    for (uint32_t c = 1; c <= n; c++) {
        const struct computation *comp = comp_at(k->m, (comp_id){ c });
        const char *name = name_text(k->m->ir, comp->name);
        const char *key = arena_printf(k->a, "%.*s %u", (int)base_length(name), name, comp->ninstrs);
        kind[c] = intern_put(&kinds, key, strlen(key));
        count[kind[c]]++;
    }
    for (uint32_t c = 1; c <= n; c++) {
        const char *name = name_text(k->m->ir, comp_at(k->m, (comp_id){ c })->name);
        k->box[c] = count[kind[c]] == 1
                        ? name
                        : arena_printf(k->a, "%.*s x%u", (int)base_length(name), name, count[kind[c]]);
    }
}

/* How large a computation must be to have a box of its own, so that there are not too many. */
static uint32_t least_size(struct pick *k)
{
    const struct module *m = k->m;
    for (uint32_t least = 5;; least *= 2) {
        struct intern boxes;
        int64_t n = 0;
        intern_init(&boxes, k->a);
        for (uint32_t c = 1; c <= module_ncomps(m) && n <= MOST_GROUPS; c++)
            if (comp_at(m, (comp_id){ c })->ninstrs >= least)
                n = max_i64(n, intern_put(&boxes, k->box[c], strlen(k->box[c])));
        if (n <= MOST_GROUPS - 4)
            return least;
    }
}

/* Groups by scope of a depth (0: by computation); false: there are too many. What has no scope goes where
 * its first operand, or the user before it, went. */
static bool make_groups(struct pick *k, int depth, struct groups *g)
{
    uint32_t n = module_ninstrs(k->m);
    *g = (struct groups){ .of = ARENA_ARRAY(k->a, uint32_t, (int64_t)n + 1) };
    intern_init(&g->names, k->a);
    g->counts = ARENA_ARRAY(k->a, int64_t, MOST_GROUPS + 3);
    uint32_t parameters = intern_put(&g->names, "parameters", 10);
    for (uint32_t i = 1; i <= n; i++) {
        const struct instr *in = instr_at(k->m, (instr_id){ i });
        size_t len;
        if (is_tiny(k->m, in->comp))
            continue;
        const char *name = scope_name(k, (instr_id){ i }, depth, &len);
        if (in->op == OP_PARAMETER && in->comp.i == k->m->entry.i)
            g->of[i] = parameters;
        else if (len > 0)
            g->of[i] = intern_put(&g->names, name, len);
        else
            for (uint32_t o = 0; o < in->noperands && (!g->of[i] || g->of[i] == parameters); o++)
                g->of[i] = g->of[in->operands[o].i];
        g->n = g->of[i] > g->n ? g->of[i] : g->n;
        if (g->n > MOST_GROUPS)
            return false;
    }
    for (uint32_t i = n; i > 0; i--) { /* constants: with the first who uses them */
        if (is_tiny(k->m, instr_at(k->m, (instr_id){ i })->comp))
            continue;
        if (!g->of[i] && users_count(&k->users, (instr_id){ i }) > 0)
            g->of[i] = g->of[users_of(&k->users, (instr_id){ i })[0].i];
        if (!g->of[i])
            g->of[i] = intern_put(&g->names, "(no scope)", 10);
        g->n = g->of[i] > g->n ? g->of[i] : g->n;
        g->counts[g->of[i] > MOST_GROUPS + 2 ? MOST_GROUPS + 2 : g->of[i]]++;
    }
    return true;
}

static bool best_groups(struct pick *k, struct groups *g)
{
    struct groups best = { 0 };
    name_boxes(k);
    k->least = least_size(k);
    for (int depth = 0; depth <= 6; depth++) {
        struct groups one;
        if (!make_groups(k, depth, &one))
            break;
        if (one.n >= best.n)
            best = one;
    }
    *g = best;
    return best.n > 0;
}

static void add_group_edges(struct pick *k, const struct groups *g, const int *node_of)
{
    uint32_t n = module_ninstrs(k->m);
    int wide = MOST_GROUPS + 3;
    int64_t *count = ARENA_ARRAY(k->a, int64_t, (int64_t)wide * wide), *bytes = ARENA_ARRAY(k->a, int64_t, (int64_t)wide * wide),
            *moved = ARENA_ARRAY(k->a, int64_t, (int64_t)wide * wide), *calls = ARENA_ARRAY(k->a, int64_t, (int64_t)wide * wide);
    for (uint32_t i = 1; i <= n; i++) {
        const struct instr *in = instr_at(k->m, (instr_id){ i });
        for (uint32_t o = 0; o < in->noperands; o++)
            count[(int64_t)g->of[in->operands[o].i] * wide + g->of[i]]++;
        comp_id called[16];
        int nc = g->of[i] ? instr_called(k->m, (instr_id){ i }, called, 16) : 0;
        for (int q = 0; q < nc && q < 16; q++)
            calls[(int64_t)g->of[i] * wide + g->of[comp_at(k->m, called[q])->root.i]] = 1;
    }
    for (int64_t v = 0; v < k->moves.n; v++)
        if (k->moves.v[v].to.i) {
            int64_t at = (int64_t)g->of[k->moves.v[v].from.i] * wide + g->of[k->moves.v[v].to.i];
            bytes[at] += k->moves.v[v].bytes;
            moved[at]++;
        }
    for (uint32_t a = 1; a <= g->n; a++)
        for (uint32_t b = 1; b <= g->n; b++) {
            int64_t at = (int64_t)a * wide + b;
            if (a == b || (count[at] == 0 && calls[at] == 0))
                continue;
            struct graph_edge e = { .from = node_of[a], .to = node_of[b], .count = count[at], .bytes = bytes[at] };
            e.dashed = count[at] == 0;
            if (moved[at])
                e.label = arena_printf(k->a, "%s, %s", counted(k->a, moved[at], "move"), nice_bytes(k->a, bytes[at]));
            vec_push(k->a, &k->edges, e);
        }
}

static bool overview(struct pick *k)
{
    struct groups g;
    if (!best_groups(k, &g))
        return false;
    int node_of[MOST_GROUPS + 3] = { 0 };
    int64_t bytes[MOST_GROUPS + 3] = { 0 }, inside[MOST_GROUPS + 3] = { 0 };
    for (int64_t v = 0; v < k->moves.n; v++) {
        const struct moved *x = &k->moves.v[v];
        uint32_t at = g.of[x->from.i];
        if (x->to.i && g.of[x->to.i] != at)
            continue;
        bytes[at] += x->bytes;
        inside[at]++;
    }
    for (uint32_t q = 1; q <= g.n; q++) {
        if (g.counts[q] == 0)
            continue;
        const struct intern_entry *name = intern_at(&g.names, q);
        struct graph_node node = { .name = arena_strndup(k->a, name->bytes, name->len), .cluster = -1 };
        node.op = arena_printf(k->a, "%s", counted(k->a, g.counts[q], q == 1 ? "parameter" : "instruction"));
        node.collapsed = true;
        if (inside[q])
            node.note = arena_printf(k->a, "%s, %s", counted(k->a, inside[q], "collective"), nice_bytes(k->a, bytes[q]));
        node_of[q] = (int)k->nodes.n;
        vec_push(k->a, &k->nodes, node);
    }
    add_group_edges(k, &g, node_of);
    return true;
}

/* ---- the picture --------------------------------------------------------------------------------- */

static bool read_count(struct call *c, const char *option, int64_t most, int64_t *v)
{
    const char *text = call_option(c, option);
    size_t n = text ? strlen(text) : 0;
    if (!text || (n > 0 && parse_i64(text, n, v) == n && *v >= 0 && *v <= most))
        return true;
    call_usage(c, -1, "%s=%s: a number up to %" PRId64 " is wanted", option, text, most);
    return false;
}

/* T, or A B; in args[0..n). Returns the title. NULL: reported. */
static const char *pick_instrs(struct pick *k)
{
    struct call *c = k->c;
    instr_id ends[2];
    int64_t leaf, hops = HOPS;
    if (!read_count(c, "hops", 1000, &hops))
        return NULL;
    for (int e = 0; e < c->n; e++)
        if (!arg_tensor(c, e, &ends[e], &leaf))
            return NULL;
    bool in = call_option(c, "--in") != NULL, out_ = call_option(c, "--out") != NULL;
    if ((in || out_) && !call_option(c, "hops"))
        hops = 1000;
    const char *what;
    if (c->n == 2) {
        if (!choose_between(k, ends[0], ends[1])) {
            call_usage(c, 1, "no path leads from %s to %s, nor back", c->args[0].text, c->args[1].text);
            return NULL;
        }
        what = arena_printf(k->a, "between %s and %s", c->args[0].text, c->args[1].text);
    } else {
        choose(k, ends[0]);
        grow(k, hops, in || !out_, out_ || !in);
        what = in && !out_   ? arena_printf(k->a, "what %s is made from", c->args[0].text)
               : out_ && !in ? arena_printf(k->a, "what is made from %s", c->args[0].text)
                             : arena_printf(k->a, "%s and %s around it", c->args[0].text, counted(k->a, hops, "step"));
    }
    sort_list(k);
    add_instr_nodes(k, 0);
    mark_chosen(k, ends, c->n);
    add_instr_edges(k);
    add_callees(k);
    struct str title = STR_IN(k->a);
    str_addf(&title, "%s: %" PRId64 " of %s", what, k->list.n, counted(k->a, module_ninstrs(k->m), "instruction"));
    if (k->left_out > 0)
        str_adds(&title, " (nodes= shows more)");
    return str_text(&title);
}

static const char *pick_all(struct pick *k)
{
    uint32_t n = module_ninstrs(k->m);
    if (n <= NODES) {
        for (uint32_t i = 1; i <= n; i++)
            if (!is_tiny(k->m, instr_at(k->m, (instr_id){ i })->comp))
                choose(k, (instr_id){ i });
        add_instr_nodes(k, 0);
        add_instr_edges(k);
        return arena_printf(k->a, "the module: %s", counted(k->a, n, "instruction"));
    }
    overview(k);
    return arena_printf(k->a, "the module: %s, a box a layer or computation", counted(k->a, n, "instruction"));
}

struct scene *picture_of_graph(struct picture *p, const struct graph_view *g)
{
    if (p->dot) {
        graph_dot(g, p->dot);
        return scene_new(p->a);
    }
    return p->text ? view_graph_list(g, p->a) : view_graph(g, call_tick(p->c), p->a, p->c->d);
}

struct scene *picture_graph(struct picture *p)
{
    struct call *c = p->c;
    struct document *doc = c->sh->doc;
    struct pick k = { .p = p, .c = c, .a = p->a, .m = document_module(doc), .most = NODES };
    if (!k.m) {
        call_usage(c, -1, "no module is loaded");
        return NULL;
    }
    if (c->n > 2) {
        call_usage(c, 2, "graph T, or graph A B for what lies between");
        return NULL;
    }
    if (!p->text && !p->dot && (c->sh->safe || c->sh->sealed)) {
        call_usage(c, -1, "--safe: dot, which lays graphs out, is not started");
        return NULL;
    }
    if (!read_count(c, "nodes", GRAPH_MOST_NODES, &k.most))
        return NULL;
    bool devices = false;
    struct scene *s = c->n == 1 ? picture_devices_graph(p, c->args[0].text, &devices) : NULL;
    if (devices)
        return s;
    k.prop = document_propagation(doc, call_tick(c), NULL);
    users_make(k.m, k.a, &k.users);
    k.place = ARENA_ARRAY(k.a, int32_t, (int64_t)module_ninstrs(k.m) + 1);
    find_moves(&k);
    const char *title = c->n > 0 ? pick_instrs(&k) : pick_all(&k);
    if (!title)
        return NULL;
    struct str safe = STR_IN(k.a);
    str_add_safe(&safe, title, strlen(title));
    struct graph_view g = { .title = str_text(&safe), .mesh = document_mesh(doc) };
    g.nodes = k.nodes.v;
    g.nnodes = (int)k.nodes.n;
    g.edges = k.edges.v;
    g.nedges = (int)k.edges.n;
    g.clusters = k.clusters.v;
    g.nclusters = (int)k.clusters.n;
    return picture_of_graph(p, &g);
}
