/* Modules: making them, and reading instructions' attributes. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

struct module *module_new(struct ir *c, name_id name)
{
    struct module *m = fail_allocation_due() ? NULL : calloc(1, sizeof *m);
    if (!m)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "a module is not to be had");
    m->ir = c;
    m->name = name;
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        paged_init(&m->instrs, &m->arena, sizeof(struct instr));
        paged_init(&m->comps, &m->arena, sizeof(struct computation));
        fail_leave(&f);
        return m;
    }
    module_free(m);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void module_free(struct module *m)
{
    if (!m)
        return;
    if (m->source) {
        free((void *)(uintptr_t)m->source->name);
        free((void *)(uintptr_t)m->source->text);
        free(m->source);
    }
    arena_free(&m->arena);
    free(m);
}

int64_t module_bytes(const struct module *m)
{
    return (int64_t)sizeof *m + m->arena.bytes;
}

/* ---- building ---------------------------------------------------------------------------------- */

comp_id comp_new(struct module *m, name_id name)
{
    comp_id c = { paged_add(&m->comps) };
    comp_at(m, c)->name = name;
    return c;
}

struct instr *instr_add(struct module *m, comp_id c, instr_id *id)
{
    id->i = paged_add(&m->instrs);
    struct instr *in = instr_at(m, *id);
    in->comp = c;
    struct computation *k = comp_at(m, c);
    if (!k->first.i)
        k->first = *id;
    k->last = *id;
    return in;
}

instr_id instr_new(struct module *m, comp_id c, enum op_kind op, shape_id shape, int64_t noperands,
                   const instr_id *operands, int nattrs, const struct attr *attrs)
{
    INVARIANT(noperands >= 0 && noperands < UINT32_MAX && nattrs >= 0 && nattrs < 256,
              "%" PRId64 " operands, %d attributes", noperands, nattrs);
    instr_id id;
    struct instr *in = instr_add(m, c, &id);
    in->op = (uint16_t)op;
    in->shape = shape;
    in->noperands = (uint32_t)noperands;
    if (noperands)
        in->operands = arena_pack(&m->arena, operands, noperands, sizeof *operands);
    in->nattrs = (uint8_t)nattrs;
    if (nattrs)
        in->attrs = arena_copy(&m->arena, attrs, nattrs, sizeof *attrs);
    return id;
}

const char *instr_opcode_text(const struct module *m, const struct instr *i)
{
    const struct attr *a = instr_attr(i, ATTR_OPCODE_TEXT);
    return a ? name_text(m->ir, a->name) : op_name((enum op_kind)i->op);
}

int64_t instr_param_number(const struct instr *i)
{
    return i->op == OP_PARAMETER ? instr_int(i, ATTR_INDEX, -1) : -1;
}

/* Parameters by number. Where numbers are missing or repeated the verifier complains; until then
 * such a place holds "none", and the first of a number counts. */
static void find_params(struct module *m, struct computation *c)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->ninstrs; k++)
        n += instr_at(m, c->instrs[k])->op == OP_PARAMETER;
    c->nparams = n;
    c->params = NULL;
    if (!n)
        return;
    instr_id *params = ARENA_ARRAY(&m->arena, instr_id, n);
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        const struct instr *in = instr_at(m, c->instrs[k]);
        int64_t at = instr_param_number(in);
        if (at >= 0 && at < n && !params[at].i)
            params[at] = c->instrs[k];
    }
    c->params = params;
}

static void set_instrs(struct module *m, comp_id c, uint32_t n, const instr_id *instrs,
                       instr_id root)
{
    struct computation *k = comp_at(m, c);
    k->ninstrs = n;
    k->instrs = instrs;
    k->root = root.i || !n ? root : instrs[n - 1];
    find_params(m, k);
}

void comp_set_instrs(struct module *m, comp_id c, uint32_t n, const instr_id *instrs, instr_id root)
{
    set_instrs(m, c, n, arena_copy(&m->arena, instrs, n, sizeof *instrs), root);
}

void comp_finish(struct module *m, comp_id c, instr_id root)
{
    const struct computation *k = comp_at(m, c);
    uint32_t from = k->first.i, to = k->last.i, n = 0;
    for (uint32_t i = from; from && i <= to; i++)
        n += instr_at(m, (instr_id){ i })->comp.i == c.i;
    instr_id *instrs = ARENA_ARRAY(&m->arena, instr_id, n);
    n = 0;
    for (uint32_t i = from; from && i <= to; i++)
        if (instr_at(m, (instr_id){ i })->comp.i == c.i)
            instrs[n++] = (instr_id){ i };
    set_instrs(m, c, n, instrs, root);
}

/* ---- reading attributes ------------------------------------------------------------------------ */

const struct attr *instr_attr(const struct instr *i, enum attr_key k)
{
    for (int a = 0; a < i->nattrs; a++)
        if (i->attrs[a].key == k)
            return &i->attrs[a];
    return NULL;
}

int64_t instr_int(const struct instr *i, enum attr_key k, int64_t dflt)
{
    const struct attr *a = instr_attr(i, k);
    return a && (a->type == ATTR_TYPE_INT || a->type == ATTR_TYPE_BOOL) ? a->i : dflt;
}

bool instr_bool(const struct instr *i, enum attr_key k, bool dflt)
{
    return instr_int(i, k, dflt) != 0;
}

const int64_t *instr_ints(const struct instr *i, enum attr_key k, int *n)
{
    static const int64_t nothing[1];
    const struct attr *a = instr_attr(i, k);
    *n = 0;
    if (!a || a->n == 0 ||
        (a->type != ATTR_TYPE_INTS && a->type != ATTR_TYPE_SLICE && a->type != ATTR_TYPE_PADDING))
        return nothing;
    *n = (int)a->n;
    return a->ints;
}

bool instr_is(const struct module *m, const struct instr *i, enum attr_key k, const char *text)
{
    const struct attr *a = instr_attr(i, k);
    if (!a)
        return false;
    if (a->type == ATTR_TYPE_IDENT)
        return strcmp(name_text(m->ir, a->name), text) == 0;
    if (a->type == ATTR_TYPE_STRING || a->type == ATTR_TYPE_RAW)
        return strlen(text) == a->n && memcmp(a->text, text, a->n) == 0;
    return false;
}

const char *instr_target(const struct module *m, const struct instr *i)
{
    const struct attr *a = instr_attr(i, ATTR_CUSTOM_CALL_TARGET);
    if (!a)
        return "";
    if (a->type == ATTR_TYPE_IDENT)
        return name_text(m->ir, a->name);
    if (a->type != ATTR_TYPE_STRING)
        return "";
    return name_text(m->ir, name_put(m->ir, a->text, a->n));
}

int instr_called(const struct module *m, instr_id i, comp_id *out, int max)
{
    const struct instr *in = instr_at(m, i);
    int n = 0;
    for (int a = 0; a < in->nattrs; a++) {
        const struct attr *at = &in->attrs[a];
        bool one = at->type == ATTR_TYPE_COMP, many = at->type == ATTR_TYPE_COMPS;
        for (uint32_t k = 0; k < (one ? 1 : many ? at->n : 0); k++, n++)
            if (n < max)
                out[n] = one ? at->comp : at->comps[k];
    }
    return n;
}

/* ---- making attributes ------------------------------------------------------------------------- */

static struct attr attr_of(enum attr_key k)
{
    return (struct attr){ .key = (uint8_t)k, .type = (uint8_t)attr_type_of(k) };
}

struct attr attr_int(enum attr_key k, int64_t v)
{
    struct attr a = attr_of(k);
    a.i = v;
    return a;
}

struct attr attr_ints(struct module *m, enum attr_key k, int n, const int64_t *v)
{
    struct attr a = attr_of(k);
    a.n = (uint32_t)n;
    a.ints = arena_copy(&m->arena, v, n, sizeof *v);
    return a;
}

struct attr attr_ident(struct module *m, enum attr_key k, const char *word)
{
    struct attr a = attr_of(k);
    a.type = ATTR_TYPE_IDENT;
    a.name = name_put(m->ir, word, strlen(word));
    return a;
}

struct attr attr_string(struct module *m, enum attr_key k, const char *text)
{
    struct attr a = attr_of(k);
    a.n = (uint32_t)strlen(text);
    a.text = arena_strdup(&m->arena, text);
    return a;
}

struct attr attr_comp(enum attr_key k, comp_id c)
{
    struct attr a = attr_of(k);
    a.comp = c;
    return a;
}

struct attr attr_groups(struct module *m, struct tiling groups)
{
    struct attr a = attr_of(ATTR_REPLICA_GROUPS);
    struct replica_groups *g = ARENA_NEW(&m->arena, struct replica_groups);
    g->uniform = true;
    g->tiles = groups;
    a.groups = g;
    return a;
}

struct attr attr_pairs(struct module *m, const struct permute_pairs *p)
{
    struct attr a = attr_of(ATTR_SOURCE_TARGET_PAIRS);
    struct permute_pairs *q = arena_copy(&m->arena, p, 1, sizeof *p);
    if (p->list)
        q->list = arena_copy(&m->arena, p->list, p->n, 2 * sizeof *p->list);
    a.pairs = q;
    return a;
}

struct attr attr_window(struct module *m, int rank, const struct window_dim *dims)
{
    struct attr a = attr_of(ATTR_WINDOW);
    struct window *w = ARENA_NEW(&m->arena, struct window);
    w->rank = rank;
    w->dims = arena_copy(&m->arena, dims, rank, sizeof *dims);
    a.window = w;
    return a;
}
