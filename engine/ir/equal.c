/* Copying a module, and comparing two of them. */
#include "ir/ir.h"

#include <string.h>

#include "base/fail.h"

/* ---- cloning ------------------------------------------------------------------------------------ */

static struct attr copy_attr(struct module *m, const struct attr *a)
{
    struct attr r = *a;
    struct arena *to = &m->arena;
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING: r.ints = arena_copy(to, a->ints, a->n, sizeof *a->ints); break;
    case ATTR_TYPE_COMPS: r.comps = arena_copy(to, a->comps, a->n, sizeof *a->comps); break;
    case ATTR_TYPE_INSTRS: r.instrs = arena_copy(to, a->instrs, a->n, sizeof *a->instrs); break;
    case ATTR_TYPE_WINDOW: {
        struct window *w = arena_copy(to, a->window, 1, sizeof *w);
        w->dims = arena_copy(to, w->dims, w->rank, sizeof *w->dims);
        r.window = w;
        break;
    }
    case ATTR_TYPE_CONV: r.conv = arena_copy(to, a->conv, 1, sizeof *a->conv); break;
    case ATTR_TYPE_GROUPS: {
        struct replica_groups *g = arena_copy(to, a->groups, 1, sizeof *g);
        int64_t n = 0;
        for (int64_t k = 0; k < g->nlists; k++)
            n += g->sizes[k];
        if (g->nlists) {
            g->sizes = arena_copy(to, g->sizes, g->nlists, sizeof *g->sizes);
            g->ids = arena_copy(to, g->ids, n, sizeof *g->ids);
        }
        r.groups = g;
        break;
    }
    case ATTR_TYPE_PAIRS: {
        struct permute_pairs *p = arena_copy(to, a->pairs, 1, sizeof *p);
        if (p->list)
            p->list = arena_copy(to, p->list, p->n, 2 * sizeof *p->list);
        r.pairs = p;
        break;
    }
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW:
        if (a->text)
            r.text = arena_strndup(to, a->text, a->n);
        break;
    case ATTR_TYPE_NONE:
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL:
    case ATTR_TYPE_IDENT:
    case ATTR_TYPE_COMP:
    case ATTR_TYPE_FLOAT: break;
    }
    return r;
}

static void copy_instr(struct module *to, const struct instr *from, struct instr *in)
{
    *in = *from;
    if (in->noperands)
        in->operands = arena_copy(&to->arena, in->operands, in->noperands, sizeof *in->operands);
    if (in->nattrs) {
        struct attr *attrs = ARENA_ARRAY(&to->arena, struct attr, in->nattrs);
        for (int a = 0; a < in->nattrs; a++)
            attrs[a] = copy_attr(to, &from->attrs[a]);
        in->attrs = attrs;
    }
    if (in->literal)
        in->literal = literal_copy(to, in->literal);
    if (in->note) {
        struct sharding_note *n = arena_copy(&to->arena, in->note, 1, sizeof *n);
        if (n->leaves)
            n->leaves = arena_copy(&to->arena, n->leaves, n->nleaves, sizeof *n->leaves);
        in->note = n;
    }
}

static void fill_clone(struct module *r, const struct module *m)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        uint32_t at = paged_add(&r->instrs);
        copy_instr(r, instr_at(m, (instr_id){ i }), instr_at(r, (instr_id){ at }));
    }
    for (uint32_t i = 1; i <= module_ncomps(m); i++) {
        struct computation *k = paged_at(&r->comps, paged_add(&r->comps));
        *k = *comp_at(m, (comp_id){ i });
        k->instrs = arena_copy(&r->arena, k->instrs, k->ninstrs, sizeof *k->instrs);
        k->params = arena_copy(&r->arena, k->params, k->nparams, sizeof *k->params);
    }
    r->header = arena_copy(&r->arena, m->header, m->nheader, sizeof *m->header);
    r->to_output = arena_copy(&r->arena, m->to_output, m->nto_output, sizeof *m->to_output);
    r->to_parameters =
        arena_copy(&r->arena, m->to_parameters, m->nto_parameters, sizeof *m->to_parameters);
}

struct module *module_clone(const struct module *m)
{
    struct module *r = module_new(m->ir, m->name);
    struct arena arena = r->arena;
    struct paged instrs = r->instrs, comps = r->comps;
    *r = *m;
    r->arena = arena;
    r->instrs = instrs;
    r->comps = comps;
    r->source = NULL; /* m's; positions in it are kept by whoever keeps m */
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        fill_clone(r, m);
        fail_leave(&f);
        return r;
    }
    module_free(r);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

/* ---- comparing ---------------------------------------------------------------------------------- */

/* Two modules of one context or of two: then shapes, names and shardings are compared by their text.
 * Ids of instructions and computations are compared by place, so that gaps do not matter. */
struct pair {
    const struct module *a, *b;
    bool one_context;
    struct arena tmp;
    uint32_t *place_a, *place_b; /* instruction id -> (computation, index), as a running number */
};

static bool same_name(const struct pair *p, name_id a, name_id b)
{
    if (p->one_context)
        return a.i == b.i;
    size_t n = name_len(p->a->ir, a);
    return n == name_len(p->b->ir, b) &&
           memcmp(name_text(p->a->ir, a), name_text(p->b->ir, b), n) == 0;
}

static bool same_str(struct str *x, struct str *y)
{
    return x->n == y->n && (x->n == 0 || memcmp(x->s, y->s, x->n) == 0);
}

static bool same_shape(struct pair *p, shape_id a, shape_id b)
{
    if (p->one_context)
        return a.i == b.i;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
    shape_print(p->a->ir, a, true, &x);
    shape_print(p->b->ir, b, true, &y);
    bool same = same_str(&x, &y);
    arena_close(&tmp);
    return same;
}

static bool same_sharding(struct pair *p, sharding_id a, sharding_id b)
{
    if (p->one_context || (!a.i && !b.i))
        return a.i == b.i;
    if (!a.i || !b.i)
        return false;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
    sharding_print(p->a->ir->shardings, a, NULL, false, &x);
    sharding_print(p->b->ir->shardings, b, NULL, false, &y);
    bool same = same_str(&x, &y);
    arena_close(&tmp);
    return same;
}

static bool same_instr(const struct pair *p, instr_id a, instr_id b)
{
    return p->place_a[a.i] == p->place_b[b.i];
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool same_tiling(const struct pair *p, struct tiling a, struct tiling b)
{
    if (p->one_context)
        return tiling_equal(a, b);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
    if (a.naxes)
        tiling_print(p->a->ir->shardings, a, &x);
    if (b.naxes)
        tiling_print(p->b->ir->shardings, b, &y);
    bool same = a.naxes == b.naxes && same_str(&x, &y);
    arena_close(&tmp);
    return same;
}

static bool same_groups(const struct pair *p, const struct replica_groups *a,
                        const struct replica_groups *b)
{
    if (a->none != b->none || a->uniform != b->uniform || a->nlists != b->nlists)
        return false;
    if (a->uniform)
        return same_tiling(p, a->tiles, b->tiles);
    if (!same_bytes(a->sizes, b->sizes, (size_t)a->nlists * sizeof *a->sizes))
        return false;
    size_t n = 0;
    for (int64_t k = 0; k < a->nlists; k++)
        n += (size_t)a->sizes[k];
    return same_bytes(a->ids, b->ids, n * sizeof *a->ids);
}

static bool same_pairs(const struct pair *p, const struct permute_pairs *a,
                       const struct permute_pairs *b)
{
    if (a->kind != b->kind || a->n != b->n || a->axis != b->axis || a->shift != b->shift ||
        a->wrap != b->wrap || a->limit != b->limit)
        return false;
    if (a->kind == PAIRS_LIST)
        return same_bytes(a->list, b->list, (size_t)a->n * 2 * sizeof *a->list);
    return same_tiling(p, a->from, b->from) &&
           (a->kind == PAIRS_SHIFT || same_tiling(p, a->to, b->to));
}

static bool same_window(const struct window *a, const struct window *b)
{
    if (a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++) {
        const struct window_dim *x = &a->dims[d], *y = &b->dims[d];
        if (x->size != y->size || x->stride != y->stride || x->pad_low != y->pad_low ||
            x->pad_high != y->pad_high || x->base_dilation != y->base_dilation ||
            x->window_dilation != y->window_dilation || x->reversal != y->reversal)
            return false;
    }
    return true;
}

static bool same_conv(const struct conv_dims *a, const struct conv_dims *b)
{
    size_t n = (size_t)a->nspatial * sizeof(int);
    return a->nspatial == b->nspatial && a->lhs_batch == b->lhs_batch &&
           a->lhs_feature == b->lhs_feature && a->rhs_in == b->rhs_in && a->rhs_out == b->rhs_out &&
           a->out_batch == b->out_batch && a->out_feature == b->out_feature &&
           same_bytes(a->lhs_spatial, b->lhs_spatial, n) &&
           same_bytes(a->rhs_spatial, b->rhs_spatial, n) &&
           same_bytes(a->out_spatial, b->out_spatial, n);
}

static bool same_attr(struct pair *p, const struct attr *a, const struct attr *b)
{
    if (a->key != b->key || a->type != b->type || a->n != b->n)
        return false;
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_NONE: return true;
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL: return a->i == b->i;
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING: return same_bytes(a->ints, b->ints, a->n * sizeof *a->ints);
    case ATTR_TYPE_IDENT: return same_name(p, a->name, b->name);
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW: return same_bytes(a->text, b->text, a->n);
    case ATTR_TYPE_COMP: return a->comp.i == b->comp.i;
    case ATTR_TYPE_COMPS: return same_bytes(a->comps, b->comps, a->n * sizeof *a->comps);
    case ATTR_TYPE_WINDOW: return same_window(a->window, b->window);
    case ATTR_TYPE_CONV: return same_conv(a->conv, b->conv);
    case ATTR_TYPE_GROUPS: return same_groups(p, a->groups, b->groups);
    case ATTR_TYPE_PAIRS: return same_pairs(p, a->pairs, b->pairs);
    case ATTR_TYPE_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_TYPE_INSTRS:
        for (uint32_t k = 0; k < a->n; k++)
            if (!same_instr(p, a->instrs[k], b->instrs[k]))
                return false;
        return true;
    }
    return false;
}

static bool same_literal(struct pair *p, const struct literal *a, const struct literal *b)
{
    VEC(const struct literal *) todo = { 0 };
    vec_push(&p->tmp, &todo, a);
    vec_push(&p->tmp, &todo, b);
    while (todo.n) {
        b = todo.v[--todo.n];
        a = todo.v[--todo.n];
        if (!a || !b) {
            if (a != b)
                return false;
            continue;
        }
        if (a->elided != b->elided || a->nelems != b->nelems || !a->data != !b->data ||
            !same_shape(p, a->shape, b->shape))
            return false;
        if (a->data &&
            !same_bytes(a->data, b->data, (size_t)shape_get(p->a->ir, a->shape)->bytes))
            return false;
        for (int64_t i = 0; i < a->nelems; i++) {
            vec_push(&p->tmp, &todo, a->elems[i]);
            vec_push(&p->tmp, &todo, b->elems[i]);
        }
    }
    return true;
}

static bool same_text(const char *a, size_t na, const char *b, size_t nb)
{
    return na == nb && !a == !b && (!a || memcmp(a, b, na) == 0);
}

static bool same_instrs(struct pair *p, instr_id ia, instr_id ib)
{
    const struct instr *a = instr_at(p->a, ia), *b = instr_at(p->b, ib);
    if (a->op != b->op || a->nattrs != b->nattrs || a->noperands != b->noperands ||
        a->comp.i != b->comp.i || !same_name(p, a->name, b->name) ||
        !same_shape(p, a->shape, b->shape) || !same_sharding(p, a->sharding, b->sharding))
        return false;
    for (uint32_t k = 0; k < a->noperands; k++)
        if (!same_instr(p, a->operands[k], b->operands[k]))
            return false;
    for (int k = 0; k < a->nattrs; k++)
        if (!same_attr(p, &a->attrs[k], &b->attrs[k]))
            return false;
    return same_literal(p, a->literal, b->literal) &&
           same_text(a->metadata, a->metadata_len, b->metadata, b->metadata_len) &&
           same_text(a->frontend, a->frontend_len, b->frontend, b->frontend_len);
}

static void number_places(const struct module *m, struct arena *a, uint32_t **out)
{
    uint32_t *place = ARENA_ARRAY(a, uint32_t, (int64_t)module_ninstrs(m) + 1), n = 0;
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++)
            place[k->instrs[j].i] = ++n;
    }
    *out = place;
}

static bool same_comps(struct pair *p, comp_id c)
{
    const struct computation *a = comp_at(p->a, c), *b = comp_at(p->b, c);
    if (!same_name(p, a->name, b->name) || a->entry != b->entry || a->ninstrs != b->ninstrs ||
        !same_instr(p, a->root, b->root) || !same_name(p, a->thread, b->thread))
        return false;
    for (uint32_t j = 0; j < a->ninstrs; j++)
        if (!same_instrs(p, a->instrs[j], b->instrs[j]))
            return false;
    return true;
}

static bool same_header(struct pair *p)
{
    const struct module *a = p->a, *b = p->b;
    return same_name(p, a->name, b->name) && module_ncomps(a) == module_ncomps(b) &&
           a->entry.i == b->entry.i && a->num_partitions == b->num_partitions &&
           a->replica_count == b->replica_count && a->is_scheduled == b->is_scheduled &&
           a->nto_output == b->nto_output && a->nto_parameters == b->nto_parameters &&
           same_bytes(a->to_output, b->to_output, (size_t)a->nto_output * sizeof(bool)) &&
           same_bytes(a->to_parameters, b->to_parameters,
                      (size_t)a->nto_parameters * sizeof(bool));
}

bool module_equal(const struct module *a, const struct module *b)
{
    struct pair p = { .a = a, .b = b, .one_context = a->ir == b->ir };
    arena_open(&p.tmp);
    number_places(a, &p.tmp, &p.place_a);
    number_places(b, &p.tmp, &p.place_b);
    bool same = same_header(&p);
    for (uint32_t c = 1; same && c <= module_ncomps(a); c++)
        same = same_comps(&p, (comp_id){ c });
    arena_close(&p.tmp);
    return same;
}
