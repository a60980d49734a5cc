/* Peak memory of a program on one device, and what is alive at the peak. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cost/live.h"

const char *memory_kind_name(enum memory_kind k)
{
    static const char *const names[MEMORY_KINDS] = {
        [MEMORY_PARAMETERS] = "parameters",   [MEMORY_OPTIMIZER] = "optimizer",
        [MEMORY_INPUTS] = "inputs",           [MEMORY_GRADIENTS] = "gradients",
        [MEMORY_ACTIVATIONS] = "activations", [MEMORY_TEMPORARIES] = "temporaries",
        [MEMORY_COLLECTIVES] = "collectives", [MEMORY_OUTPUTS] = "outputs",
    };
    return names[k];
}

/* ---- aliases of the header ------------------------------------------------------------------------- */

static const char *header_text(const struct module *m, const char *key, size_t *n)
{
    for (int k = 0; k < m->nheader; k++)
        if (strcmp(name_text(m->ir, m->header[k].key), key) == 0 && m->header[k].text) {
            *n = m->header[k].len;
            return m->header[k].text;
        }
    return NULL;
}

struct cursor {
    const char *p, *end;
};

static bool next_number(struct cursor *c, int64_t *out)
{
    while (c->p < c->end && (*c->p < '0' || *c->p > '9') && *c->p != ')')
        c->p++;
    if (c->p >= c->end || *c->p == ')')
        return false;
    size_t n = parse_i64(c->p, (size_t)(c->end - c->p), out);
    c->p += n;
    return n > 0;
}

/* A braced list of numbers, {} or {1,2}: the first one, -1 when empty. */
static int64_t braced(struct cursor *c)
{
    int64_t first = -1;
    while (c->p < c->end && *c->p != '{')
        c->p++;
    c->p++;
    while (c->p < c->end && *c->p != '}') {
        int64_t v;
        size_t n = parse_i64(c->p, (size_t)(c->end - c->p), &v);
        if (n && first < 0)
            first = v;
        c->p += n ? n : 1;
    }
    if (c->p < c->end)
        c->p++;
    return first;
}

/* input_output_alias={ {0}: (0, {}, may-alias), ... }: result leaf and argument leaf of each. Indices
 * deeper than one level are not written by JAX; the first index is taken. */
static void read_aliases(const struct liver *l, const struct life *f, int64_t nresults, int32_t *alias)
{
    const struct module *m = l->p->module;
    size_t n;
    const char *text = header_text(m, "input_output_alias", &n);
    const struct computation *entry = comp_at(m, m->entry);
    shape_id root = instr_at(m, entry->root)->shape;
    if (!text || n < 2)
        return;
    struct cursor c = { text + 1, text + n - 1 };
    while (c.p < c.end) {
        while (c.p < c.end && *c.p != '{')
            c.p++;
        if (c.p >= c.end)
            return;
        int64_t out = braced(&c), param;
        while (c.p < c.end && *c.p != '(')
            c.p++;
        if (!next_number(&c, &param))
            return;
        int64_t in = braced(&c);
        while (c.p < c.end && *c.p != ')')
            c.p++;
        c.p++;
        const struct shape *s = shape_get(m->ir, root);
        int64_t leaf = out < 0 ? 0 : s->kind == SHAPE_TUPLE && out < s->nelems ? shape_leaf_offset(m->ir, root, out) : -1;
        if (leaf < 0 || leaf >= nresults || param < 0 || param >= entry->nparams)
            continue;
        shape_id ps = instr_at(m, entry->params[param])->shape;
        const struct shape *pshape = shape_get(m->ir, ps);
        int64_t first = f->arg_first[param] +
                        (in > 0 && pshape->kind == SHAPE_TUPLE && in < pshape->nelems ? shape_leaf_offset(m->ir, ps, in) : 0);
        if (leaf_bytes(m, root, leaf, false) == leaf_bytes(m, ps, first - f->arg_first[param], false))
            alias[leaf] = (int32_t)first;
    }
}

/* buffer_donor={ (0, {}), ... }: a donated argument gives its storage to the first result leaf of the
 * same shape that has none, in the order of the list. */
static void read_donors(const struct liver *l, const struct life *f, int64_t nresults, int32_t *alias)
{
    const struct module *m = l->p->module;
    size_t n;
    const char *text = header_text(m, "buffer_donor", &n);
    const struct computation *entry = comp_at(m, m->entry);
    shape_id root = instr_at(m, entry->root)->shape;
    if (!text || n < 2)
        return;
    struct cursor c = { text + 1, text + n - 1 };
    /* Result leaves by shape, the first free one: a queue for each. */
    struct map queue;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    map_init(&queue, &tmp);
    int64_t *next = ARENA_ARRAY(&tmp, int64_t, nresults + 1);
    for (int64_t k = nresults; k-- > 0;) {
        uint64_t head = 0, key = shape_get(m->ir, shape_leaf(m->ir, root, k))->same.i;
        if (alias[k] >= 0)
            continue;
        (void)map_get(&queue, key, &head);
        next[k] = (int64_t)head;
        map_put(&queue, key, (uint64_t)k + 1);
    }
    while (c.p < c.end) {
        int64_t param;
        while (c.p < c.end && *c.p != '(')
            c.p++;
        if (!next_number(&c, &param))
            break;
        (void)braced(&c);
        while (c.p < c.end && *c.p != ')')
            c.p++;
        c.p++;
        if (param < 0 || param >= entry->nparams)
            continue;
        uint64_t head = 0, key = shape_get(m->ir, instr_at(m, entry->params[param])->shape)->same.i;
        if (!map_get(&queue, key, &head) || head == 0)
            continue;
        alias[head - 1] = (int32_t)f->arg_first[param];
        map_put(&queue, key, (uint64_t)next[head - 1]);
    }
    arena_close(&tmp);
}

/* ---- the sizes at the border -------------------------------------------------------------------------- */

/* Bytes of a result as XLA reports them: a tuple has a table of pointers, and so has each tuple in it. */
static int64_t with_tables(const struct module *m, shape_id id)
{
    int64_t sum = 0;
    struct arena tmp = { 0 };
    VEC(shape_id) stack = { 0 };
    arena_open(&tmp);
    vec_push(&tmp, &stack, id);
    while (stack.n > 0) {
        const struct shape *s = shape_get(m->ir, stack.v[--stack.n]);
        if (s->kind != SHAPE_TUPLE) {
            sum += s->kind == SHAPE_ARRAY ? max_i64(s->bytes, 0) : 0;
            continue;
        }
        sum += 8 * s->nelems;
        for (int64_t k = 0; k < s->nelems; k++)
            vec_push(&tmp, &stack, s->elems[k]);
    }
    arena_close(&tmp);
    return sum;
}

static void border(const struct liver *l, struct memory *r, const int32_t *alias, int64_t nresults)
{
    const struct module *m = l->p->module;
    const struct computation *entry = comp_at(m, m->entry);
    shape_id root = instr_at(m, entry->root)->shape;
    for (uint32_t k = 0; k < entry->nparams; k++)
        r->arguments += with_tables(m, instr_at(m, entry->params[k])->shape);
    r->outputs = with_tables(m, root);
    for (int64_t k = 0; k < nresults; k++)
        if (alias[k] >= 0)
            r->aliased += leaf_bytes(m, root, k, false);
}

/* ---- what is alive at the peak -------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct buffer *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->instr.i != y->instr.i)
        return x->instr.i < y->instr.i ? -1 : 1;
    return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

static void gather_live(const struct liver *l, struct memory *r, int64_t tick)
{
    const struct module *m = l->p->module;
    VEC(struct buffer) list = { 0 };
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        struct buffer b = { .instr = entry->params[k], .leaf = -1, .comp = m->entry, .to = l->p->norder[m->entry.i],
                            .bytes = value_bytes(m, instr_at(m, entry->params[k])->shape, false) };
        vec_push(&r->arena, &list, b);
    }
    for (int64_t k = 0; k < l->nplaced; k++) {
        const struct placed *x = &l->placed[k];
        if (x->from > tick || x->to < tick || (x->to == tick && x->gave))
            continue;
        /* What a start value has become by now: a loop's carry. */
        const struct life *f = &l->lives[x->comp.i];
        const struct value *now = x->v;
        while (now->heir >= 0 && f->values[now->heir].made < x->v->last && f->time[f->values[now->heir].made] <= tick)
            now = &f->values[now->heir];
        struct buffer b = { .instr = now->instr, .leaf = now->leaf, .bytes = x->v->bytes, .from = x->v->made,
                            .to = x->v->last, .comp = x->comp,
                            .kind = x->output ? MEMORY_OUTPUTS : MEMORY_TEMPORARIES };
        vec_push(&r->arena, &list, b);
    }
    r->live = list.v;
    r->nlive = list.n;
    if (r->nlive)
        qsort(r->live, (size_t)r->nlive, sizeof *r->live, by_size);
}

/* The kernel that runs at a tick: the innermost. */
static void find_kernel(const struct liver *l, struct memory *r, int64_t tick)
{
    const struct cost_plan *p = l->p;
    int64_t start = -1;
    for (uint32_t c = 0; c < p->ncomps; c++) {
        const struct life *f = &l->lives[p->comps[c].i];
        uint32_t n = p->norder[p->comps[c].i], lo = 0, hi = n;
        if (!f->time || n == 0 || tick < f->time[0] || tick >= f->time[n] || f->time[0] < start)
            continue;
        while (hi - lo > 1) {
            uint32_t mid = lo + (hi - lo) / 2;
            if (f->time[mid] <= tick)
                lo = mid;
            else
                hi = mid;
        }
        start = f->time[0];
        r->at_comp = p->comps[c];
        r->at_position = lo;
        r->at = p->order[p->comps[c].i][lo];
    }
}

static void name_kinds(const struct liver *l, struct memory *r)
{
    const struct module *m = l->p->module;
    const struct computation *entry = comp_at(m, m->entry);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct map weights;
    map_init(&weights, &tmp);
    uint8_t *kinds = ARENA_ARRAY(&tmp, uint8_t, (int64_t)entry->nparams + 1);
    parameter_kinds(l->p, &tmp, kinds, &weights);
    for (int64_t k = 0; k < r->nlive; k++) {
        struct buffer *b = &r->live[k];
        const struct instr *in = instr_at(m, b->instr);
        if (b->leaf < 0)
            b->kind = kinds[instr_param_number(in)];
        else if (b->kind != MEMORY_OUTPUTS)
            b->kind = (uint8_t)buffer_kind(l->p, b, &weights);
        r->by_kind[b->kind] += b->bytes;
    }
    arena_close(&tmp);
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static void fill(struct memory *r, const struct cost_plan *p, const struct cost_options *o)
{
    const struct module *m = p->module;
    struct liver l = { .p = p, .o = o, .arena = &r->arena };
    arena_open(&l.tmp);
    l.lives = ARENA_ARRAY(&l.tmp, struct life, (int64_t)module_ncomps(m) + 2);
    l.start = ARENA_ARRAY(&l.tmp, int64_t, (int64_t)module_ninstrs(m) + 2);
    int64_t nresults = shape_get(m->ir, instr_at(m, comp_at(m, m->entry)->root)->shape)->nleaves;
    int32_t *alias = ARENA_ARRAY(&l.tmp, int32_t, nresults + 1);
    for (int64_t k = 0; k < nresults; k++)
        alias[k] = -1;
    struct life borders = { .comp = m->entry };
    const struct computation *entry = comp_at(m, m->entry);
    borders.arg_first = ARENA_ARRAY(&l.tmp, int64_t, (int64_t)entry->nparams + 1);
    int64_t args = 0;
    for (uint32_t k = 0; k < entry->nparams; k++) {
        borders.arg_first[k] = args;
        args += shape_get(m->ir, instr_at(m, entry->params[k])->shape)->nleaves;
    }
    read_aliases(&l, &borders, nresults, alias);
    read_donors(&l, &borders, nresults, alias);
    l.alias = alias;
    r->ncurve = p->norder[m->entry.i];
    r->curve = ARENA_ARRAY(&r->arena, int64_t, (int64_t)r->ncurve + 1);
    for (uint32_t k = 0; k < p->ncomps; k++)
        if (p->use[p->comps[k].i] == COMP_RUN) {
            life_of(&l, p->comps[k]);
            const struct life *f = &l.lives[p->comps[k].i];
            r->nbuffers += f->nvalues;
            for (int64_t v = 0; v < f->nvalues; v++)
                r->constants += f->values[v].place == PLACE_CONSTANT ? f->values[v].bytes : 0;
        }
    border(&l, r, alias, nresults);
    int64_t tick;
    place_values(&l);
    place_hosts(&l);
    r->temporaries = place_sweep(&l, false, true, &tick, NULL);
    (void)place_sweep(&l, true, false, &tick, r->curve);
    find_kernel(&l, r, tick);
    gather_live(&l, r, tick);
    name_kinds(&l, r);
    for (int k = 0; k < MEMORY_KINDS; k++)
        r->peak += r->by_kind[k];
    arena_close(&l.tmp);
}

static bool guarded(struct memory *r, const struct cost_plan *p, const struct cost_options *o,
                    struct fail_frame *f)
{
    if (!FAIL_ENTER(f))
        return false;
    fill(r, p, o);
    fail_leave(f);
    return true;
}

struct memory *memory_of(const struct cost_plan *p, const struct cost_options *o)
{
    static const struct cost_options plain = { 0 };
    struct memory *r = calloc(1, sizeof *r);
    if (!r)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for live ranges");
    struct fail_frame f;
    if (guarded(r, p, o ? o : &plain, &f))
        return r;
    memory_free(r);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void memory_free(struct memory *m)
{
    if (!m)
        return;
    arena_free(&m->arena);
    free(m);
}

int64_t memory_kept(const struct cost_plan *p, instr_id i)
{
    const struct instr *in = instr_at(p->module, i);
    double bytes = (double)value_bytes(p->module, in->shape, false) * p->runs[in->comp.i];
    return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

double memory_batch_room(const struct memory *m, int64_t capacity)
{
    double grows = (double)(m->by_kind[MEMORY_INPUTS] + m->by_kind[MEMORY_ACTIVATIONS] +
                            m->by_kind[MEMORY_TEMPORARIES] + m->by_kind[MEMORY_COLLECTIVES]);
    double rest = (double)m->peak - grows;
    if ((double)capacity < rest)
        return 0;
    return grows > 0 ? ((double)capacity - rest) / grows : 1e9;
}
