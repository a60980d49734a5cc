/* Computations that were partitioned before, kept with the working graph (store.h).
 *
 * What a computation becomes depends on its instructions (those of the working graph: the store lives and
 * dies with it), the shardings of all of them and of all that they call, its parameters' and its root's, the
 * options, and nothing else: device groups are the outermost ones inside, and glue, cuts and cached
 * reshards never cross its border. All of that is the key, byte for byte, interned: no hash decides.
 */
#include "partition/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { KEEP_BYTES = 16 << 20 };

/* What a computation of the program is. */
enum made_kind { IS_OWN, IS_KEPT, IS_COPY, IS_OP, IS_LOST /* partitioned, but not kept */ };

struct made_of {
    uint8_t kind;  /* enum made_kind */
    bool clean, effect;
    comp_id source;         /* IS_COPY: of the working graph */
    enum op_kind op;        /* IS_OP */
    enum dtype type;
    const struct stored *kept; /* IS_KEPT */
};

struct stored_node {
    struct instr instr;     /* operands: numbers of nodes; computations in attributes: numbers of refs */
    struct node_info info;
    uint64_t equal;         /* S-53 */
    uint32_t comp;          /* of its own ones */
};

struct stored_comp {
    name_id name;
    bool effect;
    uint32_t n, *list, root; /* numbers of nodes */
};

struct stored {
    uint32_t nnodes;        /* in the order in which they were made */
    struct stored_node *nodes; /* from 1 */
    uint32_t ncomps;
    struct stored_comp *comps; /* [0]: the computation; the others only it calls */
    uint32_t nrefs;
    struct made_of *refs;    /* from 1. IS_OWN: source.i is the index among comps */
    int64_t nremats;
    struct remat_note *remats; /* of what it calls too */
};

struct partition_store {
    struct arena arena;
    struct intern keys;     /* words: options, a computation's shardings, all of it */
    struct intern texts;    /* reasons */
    struct map found;       /* key -> struct stored *; NULL: it was met once */
    struct name_list {
        name_id *v;
        int64_t n;
    } names[OP_COUNT];      /* op.number */
    struct arena lasting;   /* what is never forgotten: */
    struct users users;
    struct post_order {
        const instr_id *v;
        uint32_t n;
    } *orders;              /* [ncomps + 1] */
    bool flat;              /* nothing is called: nothing to keep */
    bool made, counted;
    int64_t limit;          /* bytes; above, everything is forgotten */
};

struct store_event {
    struct store_mark from;
    comp_id out;
    int64_t end_remats;
    uint32_t end;           /* computations of out when it was done */
};

struct store_run {
    struct partition_store *st;
    uint32_t options;       /* key */
    uint32_t *below;        /* [ncomps(src) + 1] key of the shardings in a computation and in what it
                               calls; 0: it is not what it was in the working graph */
    VEC(uint32_t) words;
    VEC(struct store_event) events; /* as they were finished: what is called comes first */
    VEC(struct made_of) origins;     /* by computation of out */
    struct map loans;       /* literals of the working graph; made when a large one is met */
};

/* ---- opening ------------------------------------------------------------------------------------------ */

static void store_free(struct partition_store *st)
{
    if (!st)
        return;
    arena_free(&st->arena);
    arena_free(&st->lasting);
    free(st);
}

static void forget(struct partition_store *st)
{
    arena_free(&st->arena);
    intern_init(&st->keys, &st->arena);
    intern_init(&st->texts, &st->arena);
    map_init(&st->found, &st->arena);
    memset(st->names, 0, sizeof st->names);
    st->limit = 0;
}

static bool calls(const struct instr *in)
{
    return in->op == OP_WHILE || in->op == OP_CONDITIONAL || in->op == OP_CALL;
}

static bool is_flat(const struct module *m)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        if (calls(instr_at(m, (instr_id){ i })))
            return false;
    return true;
}

static struct partition_store *store_of(struct graph *g)
{
    if (!g->store) {
        g->store = calloc(1, sizeof *g->store);
        if (!g->store)
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "a store of computations is not to be had");
        g->store_free = store_free;
    }
    if (!g->store->made) {
        forget(g->store);
        g->store->flat = is_flat(g->module);
        g->store->made = true;
    }
    return g->store;
}

/* NULL: the source was rewritten, and what is known of the working graph does not hold. */
static struct partition_store *store_of_source(struct spmd *s)
{
    struct graph *g = s->prop->graph;
    if (s->src != g->module)
        return NULL;
    struct partition_store *st = store_of(g);
    if (!st->counted) {
        users_make(g->module, &st->lasting, &st->users);
        st->orders = ARENA_ARRAY(&st->lasting, struct post_order, (int64_t)module_ncomps(g->module) + 1);
        st->counted = true;
    }
    return st;
}

const struct users *store_users(struct spmd *s)
{
    struct partition_store *st = store_of_source(s);
    if (st)
        return &st->users;
    struct users *u = ARENA_NEW(&s->arena, struct users);
    users_make(s->src, &s->arena, u);
    return u;
}

const instr_id *store_post_order(struct spmd *s, comp_id c, uint32_t *n)
{
    struct partition_store *st = store_of_source(s);
    if (!st)
        return comp_post_order(s->src, c, s->users, &s->arena, n);
    struct post_order *o = &st->orders[c.i];
    if (!o->v)
        o->v = comp_post_order(s->src, c, &st->users, &st->lasting, &o->n);
    *n = o->n;
    return o->v;
}

name_id *store_name(struct spmd *s, enum op_kind op, int64_t number)
{
    struct partition_store *st = store_of(s->prop->graph);
    struct name_list *l = &st->names[op];
    if (number >= l->n) {
        int64_t more = max_i64(2 * number, 64);
        name_id *v = ARENA_ARRAY(&st->arena, name_id, more);
        if (l->n)
            memcpy(v, l->v, (size_t)l->n * sizeof *v);
        *l = (struct name_list){ v, more };
    }
    return &l->v[number];
}

static void word(struct spmd *s, uint32_t w)
{
    vec_push(&s->arena, &s->store->words, w);
}

static uint32_t key_of_words(struct spmd *s)
{
    struct store_run *r = s->store;
    uint32_t id = intern_put(&r->st->keys, r->words.v, (size_t)r->words.n * sizeof *r->words.v);
    r->words.n = 0;
    return id;
}

enum { KEY_OPTIONS = 1, KEY_BELOW, KEY_ALL };

static void word64(struct spmd *s, int64_t v)
{
    word(s, (uint32_t)(uint64_t)v);
    word(s, (uint32_t)((uint64_t)v >> 32));
}

/* Everything in the options that a handler looks at. */
static uint32_t options_key(struct spmd *s)
{
    const struct partition_options *o = s->opt;
    word(s, KEY_OPTIONS);
    word64(s, s->prog->num_partitions);
    word64(s, s->prog->module->replica_count);
    word64(s, s->first_channel);
    word(s, o->all_gather);
    word(s, o->halo_always_on_lhs);
    word(s, (uint32_t)o->gather_method);
    word(s, (uint32_t)o->scatter_method);
    return key_of_words(s);
}

static uint32_t below_key(struct spmd *s, comp_id c)
{
    struct store_run *r = s->store;
    const struct computation *comp = comp_at(s->src, c);
    bool same = !s->rewritten || !s->rewritten[c.i];
    word(s, KEY_BELOW);
    word(s, c.i);
    for (uint32_t k = 0; k < comp->ninstrs && same; k++) {
        const struct instr *in = instr_at(s->src, comp->instrs[k]);
        word(s, s->shardings[comp->instrs[k].i].i);
        for (int a = 0; a < in->nattrs && same; a++) {
            bool one = in->attrs[a].type == ATTR_TYPE_COMP, many = in->attrs[a].type == ATTR_TYPE_COMPS;
            for (uint32_t j = 0; j < (one ? 1 : many ? in->attrs[a].n : 0); j++) {
                uint32_t below = r->below[one ? in->attrs[a].comp.i : in->attrs[a].comps[j].i];
                same = same && below;
                word(s, below);
            }
        }
    }
    if (same)
        return key_of_words(s);
    r->words.n = 0;
    return 0;
}

/* A loop of a windowed product asks what its users would like (S-184): the history decides, too. */
static bool asks_history(const struct partition_options *o)
{
    return o->windowed_einsum_mib < 100000 || o->windowed_total_bytes > 0 ||
           o->choose_faster_windowed_einsum;
}

void store_open(struct spmd *s)
{
    if (s->best || s->opt->scratch || asks_history(s->opt))
        return;
    struct partition_store *st = store_of(s->prop->graph);
    if (st->flat)
        return;
    if (st->limit && st->arena.bytes > st->limit)
        forget(st);
    struct store_run *r = ARENA_NEW(&s->arena, struct store_run);
    r->st = st;
    r->below = ARENA_ARRAY(&s->arena, uint32_t, (int64_t)module_ncomps(s->src) + 1);
    s->store = r;
    r->options = options_key(s);
    uint32_t n;
    const comp_id *order = module_call_order(s->src, false, &s->arena, &n);
    for (uint32_t k = 0; k < n; k++)
        if (order[k].i != s->src->entry.i)
            r->below[order[k].i] = below_key(s, order[k]);
}

/* ---- what computations of the program are ---------------------------------------------------------------- */

static struct made_of *origin_of(struct spmd *s, comp_id out)
{
    struct store_run *r = s->store;
    while (r->origins.n <= (int64_t)out.i)
        vec_push(&s->arena, &r->origins, (struct made_of){ 0 });
    return &r->origins.v[out.i];
}

void store_shared(struct spmd *s, comp_id out, comp_id source, enum op_kind op, enum dtype t)
{
    if (s->store)
        *origin_of(s, out) = (struct made_of){ .kind = source.i ? IS_COPY : IS_OP, .source = source, .op = op, .type = t };
}

bool store_is_clean(const struct spmd *s, comp_id out, bool *effect)
{
    if (!s->store || (int64_t)out.i >= s->store->origins.n || !s->store->origins.v[out.i].clean)
        return false;
    *effect = s->store->origins.v[out.i].effect;
    return true;
}

/* ---- putting into a program ----------------------------------------------------------------------------- */

static struct attr attr_in_program(struct spmd *s, struct attr a, const comp_id *refs)
{
    if (a.type == ATTR_TYPE_COMP)
        a.comp = refs[a.comp.i];
    if (a.type == ATTR_TYPE_COMPS) {
        comp_id *list = ARENA_ARRAY(&s->out->arena, comp_id, a.n);
        for (uint32_t k = 0; k < a.n; k++)
            list[k] = refs[a.comps[k].i];
        a.comps = list;
    }
    if (a.key == ATTR_CHANNEL_ID && a.i >= s->first_channel) {
        s->channel = s->channel_top = max_i64(s->channel, s->channel_top) + 1;
        a.i = s->channel - 1;
    }
    return a;
}

/* base: the id before that of node 1. They follow each other; an operand may come later than its user. */
static void put_node(struct spmd *s, const struct stored_node *n, comp_id comp, const comp_id *refs, uint32_t base)
{
    struct attr attrs[256];
    const struct instr *from = &n->instr;
    instr_id few[16], *ops = from->noperands <= 16 ? few : ARENA_ARRAY(&s->arena, instr_id, from->noperands);
    for (uint32_t k = 0; k < from->noperands; k++)
        ops[k].i = base + from->operands[k].i;
    for (int k = 0; k < from->nattrs; k++)
        attrs[k] = attr_in_program(s, from->attrs[k], refs);
    instr_id id = instr_new(s->out, comp, (enum op_kind)from->op, from->shape, from->noperands, ops, from->nattrs, attrs);
    struct instr *to = instr_at(s->out, id), whole = *from;
    whole.comp = comp;
    whole.operands = to->operands;
    whole.attrs = to->attrs;
    *to = whole;
    while (s->info.n <= (int64_t)id.i)
        vec_push(&s->arena, &s->info, (struct node_info){ 0 });
    s->info.v[id.i] = n->info;
    if (n->equal)
        map_put(&s->known_equal, id.i, n->equal);
}

static comp_id put_stored(struct spmd *s, const struct stored *e);

static comp_id put_ref(struct spmd *s, const struct made_of *o)
{
    switch ((enum made_kind)o->kind) {
    case IS_KEPT:
        return put_stored(s, o->kept);
    case IS_COPY:
        return copy_computation(s, o->source);
    case IS_OP:
        return binary_computation(s, o->op, o->type);
    case IS_OWN:
    case IS_LOST:
        break;
    }
    return (comp_id){ 0 };
}

/* As deep as loops nest: partition_computation has the limit (DEPTH_LIMIT), and depth is in the key. */
static comp_id put_stored(struct spmd *s, const struct stored *e)
{
    comp_id *refs = ARENA_ARRAY(&s->arena, comp_id, (int64_t)e->nrefs + 1);
    comp_id *own = ARENA_ARRAY(&s->arena, comp_id, e->ncomps);
    for (uint32_t k = 1; k <= e->nrefs; k++)
        if (e->refs[k].kind != IS_OWN)
            refs[k] = put_ref(s, &e->refs[k]);
    for (uint32_t k = 0; k < e->ncomps; k++)
        own[k] = comp_new(s->out, e->comps[k].name);
    for (uint32_t k = 1; k <= e->nrefs; k++)
        if (e->refs[k].kind == IS_OWN)
            refs[k] = own[e->refs[k].source.i];
    uint32_t base = module_ninstrs(s->out);
    for (uint32_t k = 1; k <= e->nnodes; k++)
        put_node(s, &e->nodes[k], own[e->nodes[k].comp], refs, base);
    for (uint32_t k = 0; k < e->ncomps; k++) {
        const struct stored_comp *c = &e->comps[k];
        instr_id *list = ARENA_ARRAY(&s->arena, instr_id, c->n);
        for (uint32_t j = 0; j < c->n; j++)
            list[j].i = base + c->list[j];
        comp_set_instrs(s->out, own[k], c->n, list, (instr_id){ base + c->root });
        *origin_of(s, own[k]) = (struct made_of){ .kind = k ? IS_OWN : IS_KEPT, .clean = true, .effect = c->effect, .kept = e };
    }
    s->prog->reused++;
    s->prog->reused_nodes += e->nnodes;
    return own[0];
}

bool store_find(struct spmd *s, comp_id c, sharding_id root, comp_id *out, struct store_mark *m)
{
    struct store_run *r = s->store;
    uint64_t at;
    *m = (struct store_mark){ .first = module_ncomps(s->out), .remats = s->remats.n };
    if (!r || !r->below[c.i])
        return false;
    const struct computation *comp = comp_at(s->src, c);
    word(s, KEY_ALL);
    word(s, r->options);
    word(s, r->below[c.i]);
    word(s, root.i);
    word(s, (uint32_t)s->depth);
    for (uint32_t k = 0; k < comp->nparams; k++)
        word(s, s->shardings[comp->params[k].i].i);
    uint32_t key = key_of_words(s);
    if (!map_get(&r->st->found, key, &at)) { /* keeping costs something: what comes once may not come again */
        map_put(&r->st->found, key, 0);
        return false;
    }
    if (!at) {
        m->key = key;
        return false;
    }
    const struct stored *e = (const struct stored *)(uintptr_t)at;
    *out = put_stored(s, e);
    for (int64_t k = 0; k < e->nremats; k++)
        vec_push(&s->arena, &s->remats, e->remats[k]);
    return true;
}

/* ---- keeping ---------------------------------------------------------------------------------------------- */

void store_note(struct spmd *s, const struct store_mark *m, comp_id c, comp_id out)
{
    struct store_run *r = s->store;
    if (!r || c.i == s->src->entry.i)
        return;
    origin_of(s, out)->kind = IS_LOST;
    if (!m->key)
        return;
    vec_push(&s->arena, &r->events,
             ((struct store_event){ .from = *m, .out = out, .end_remats = s->remats.n, .end = module_ncomps(s->out) }));
}

struct keeping {
    struct spmd *s;
    struct partition_store *st;
    struct arena tmp;
    const struct store_event *of;
    const bool *effect;
    uint32_t *number;        /* [ninstrs(out) + 1] of the node, in the entry that is made */
    uint32_t *own;           /* [ncomps(out) + 1] 1 + index among its own computations */
    VEC(comp_id) comps;
    VEC(struct made_of) refs; /* [0] is not used */
    VEC(instr_id) nodes;
    bool bad;
};

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const instr_id *)a)->i, y = ((const instr_id *)b)->i;
    return x < y ? -1 : x > y;
}

/* The number of a reference to a computation of the program. */
static comp_id ref_to(struct keeping *k, comp_id out)
{
    struct made_of o = *origin_of(k->s, out);
    if (o.kind == IS_OWN) {
        k->bad = k->bad || out.i <= k->of->from.first || out.i > k->of->end;
        if (!k->own[out.i]) {
            vec_push(&k->tmp, &k->comps, out);
            k->own[out.i] = (uint32_t)k->comps.n;
        }
        o.source.i = k->own[out.i] - 1;
    }
    k->bad = k->bad || o.kind == IS_LOST;
    vec_push(&k->tmp, &k->refs, o);
    return (comp_id){ (uint32_t)k->refs.n - 1 };
}

/* Numbers the nodes of a computation and of those that only it calls. */
static void gather_nodes(struct keeping *k)
{
    const struct module *m = k->s->out;
    for (int64_t i = 0; i < k->comps.n && !k->bad; i++) {
        const struct computation *c = comp_at(m, k->comps.v[i]);
        for (uint32_t j = 0; j < c->ninstrs; j++) {
            vec_push(&k->tmp, &k->nodes, c->instrs[j]);
            comp_id called[64];
            int n = instr_called(m, c->instrs[j], called, 64);
            k->bad = k->bad || n > 64;
            for (int x = 0; x < n && x < 64; x++)
                if (origin_of(k->s, called[x])->kind == IS_OWN)
                    (void)ref_to(k, called[x]);
        }
    }
    k->refs.n = 1;
    if (k->nodes.n)
        qsort(k->nodes.v, (size_t)k->nodes.n, sizeof *k->nodes.v, by_number);
    for (int64_t i = 0; i < k->nodes.n; i++)
        k->number[k->nodes.v[i].i] = (uint32_t)i + 1;
}

static const char *kept_text(struct keeping *k, const char *text)
{
    return text ? intern_at(&k->st->texts, intern_put(&k->st->texts, text, strlen(text)))->bytes : NULL;
}

static bool is_loan(struct spmd *s, const struct literal *l)
{
    struct map *loans = &s->store->loans;
    const struct module *m = s->prop->graph->module;
    uint64_t x;
    if (!loans->arena) {
        map_init(loans, &s->arena);
        for (uint32_t i = 1; i <= module_ninstrs(m); i++)
            if (instr_at(m, (instr_id){ i })->literal)
                map_put(loans, (uint64_t)(uintptr_t)instr_at(m, (instr_id){ i })->literal, 1);
    }
    return map_get(loans, (uint64_t)(uintptr_t)l, &x);
}

/* Small ones are copied; a large one is the working graph's, which lives longer. false: it is neither. */
static bool keep_literal(struct keeping *k, const struct literal **l)
{
    const struct shape *sh = *l ? shape_get(k->s->ir, (*l)->shape) : NULL;
    if (!*l || is_loan(k->s, *l))
        return true;
    if (sh->kind != SHAPE_ARRAY || (*l)->elided || !(*l)->data || sh->count < 0)
        return false;
    struct literal *own = arena_copy(&k->st->arena, *l, 1, sizeof **l);
    own->data = arena_copy(&k->st->arena, (*l)->data, sh->count, (size_t)dtype_bytes(sh->dtype));
    own->text = NULL;
    own->len = 0;
    *l = own;
    return true;
}

static void keep_attr(struct keeping *k, struct attr *a)
{
    *a = attr_own(&k->st->arena, *a);
    if (a->type == ATTR_TYPE_COMP)
        a->comp = ref_to(k, a->comp);
    comp_id *list = a->type == ATTR_TYPE_COMPS ? (comp_id *)(uintptr_t)a->comps : NULL;
    for (uint32_t j = 0; list && j < a->n; j++)
        list[j] = ref_to(k, list[j]);
}

static void keep_node(struct keeping *k, instr_id id, struct stored_node *to)
{
    struct spmd *s = k->s;
    const struct instr *in = instr_at(s->out, id);
    instr_id *ops = arena_copy(&k->st->arena, in->operands, in->noperands, sizeof *ops);
    struct attr *attrs = arena_copy(&k->st->arena, in->attrs, in->nattrs, sizeof *attrs);
    to->instr = *in;
    to->comp = k->own[in->comp.i] - 1;
    for (uint32_t j = 0; j < in->noperands; j++) {
        ops[j].i = k->number[ops[j].i];
        k->bad = k->bad || !ops[j].i;
    }
    for (int j = 0; j < in->nattrs; j++)
        keep_attr(k, &attrs[j]);
    to->instr.operands = ops;
    to->instr.attrs = attrs;
    k->bad = !keep_literal(k, &to->instr.literal) || k->bad;
    if ((int64_t)id.i < s->info.n)
        to->info = s->info.v[id.i];
    to->info.note.reason = kept_text(k, to->info.note.reason);
    (void)map_get(&s->known_equal, id.i, &to->equal);
}

static void keep_comp(struct keeping *k, comp_id out, struct stored_comp *to)
{
    const struct computation *c = comp_at(k->s->out, out);
    to->name = c->name;
    to->effect = k->effect[out.i];
    to->n = c->ninstrs;
    to->list = ARENA_ARRAY(&k->st->arena, uint32_t, c->ninstrs);
    for (uint32_t j = 0; j < c->ninstrs; j++)
        to->list[j] = k->number[c->instrs[j].i];
    to->root = k->number[c->root.i];
    k->bad = k->bad || !to->root;
}

static void keep_remats(struct keeping *k, struct stored *e)
{
    const struct store_event *of = k->of;
    e->nremats = max_i64(of->end_remats - of->from.remats, 0);
    e->remats = e->nremats ? arena_copy(&k->st->arena, k->s->remats.v + of->from.remats, e->nremats, sizeof *e->remats) : NULL;
    for (int64_t i = 0; i < e->nremats; i++)
        e->remats[i].reason = kept_text(k, e->remats[i].reason);
}

static void keep_event(struct keeping *k, const struct store_event *of)
{
    struct arena *a = &k->st->arena;
    k->of = of;
    k->bad = false;
    k->comps.n = k->nodes.n = 0;
    k->refs.n = 0;
    vec_push(&k->tmp, &k->refs, (struct made_of){ 0 });
    vec_push(&k->tmp, &k->comps, of->out);
    k->own[of->out.i] = 1;
    gather_nodes(k);
    struct stored *e = ARENA_NEW(a, struct stored);
    e->nnodes = (uint32_t)k->nodes.n;
    e->nodes = ARENA_ARRAY(a, struct stored_node, k->nodes.n + 1);
    e->ncomps = (uint32_t)k->comps.n;
    e->comps = ARENA_ARRAY(a, struct stored_comp, k->comps.n);
    for (int64_t i = 0; i < k->nodes.n && !k->bad; i++)
        keep_node(k, k->nodes.v[i], &e->nodes[i + 1]);
    for (int64_t i = 0; i < k->comps.n && !k->bad; i++)
        keep_comp(k, k->comps.v[i], &e->comps[i]);
    for (int64_t i = 0; i < k->nodes.n; i++)
        k->number[k->nodes.v[i].i] = 0;
    if (k->bad)
        return;
    e->nrefs = (uint32_t)k->refs.n - 1;
    e->refs = arena_copy(a, k->refs.v, k->refs.n, sizeof *e->refs);
    keep_remats(k, e);
    struct made_of *o = origin_of(k->s, of->out);
    o->kind = IS_KEPT;
    o->kept = e;
    map_put(&k->st->found, of->from.key, (uint64_t)(uintptr_t)e);
}

void store_keep(struct spmd *s, const bool *effect)
{
    struct store_run *r = s->store;
    if (!r || !r->events.n)
        return;
    struct keeping k = { .s = s, .st = r->st, .effect = effect };
    arena_open(&k.tmp);
    k.number = ARENA_ARRAY(&k.tmp, uint32_t, (int64_t)module_ninstrs(s->out) + 1);
    k.own = ARENA_ARRAY(&k.tmp, uint32_t, (int64_t)module_ncomps(s->out) + 1);
    for (int64_t i = 0; i < r->events.n; i++)
        keep_event(&k, &r->events.v[i]);
    arena_close(&k.tmp);
    if (!r->st->limit)
        r->st->limit = KEEP_BYTES + 4 * r->st->arena.bytes;
}
