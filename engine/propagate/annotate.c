/* The module text that annotations stand for (language.md section 5). */
#include <string.h>

#include "base/fail.h"
#include "propagate/edit.h"

struct annotator {
    struct edit e;
    struct module *m;
    struct arena *tmp;
    struct diag *d;
    VEC(int) made; /* annotation of the instructions added, in order */
    uint32_t nloaded;
    int current;   /* index into the list */
};

static bool fail(struct annotator *a, instr_id i, const char *text)
{
    return diag_error(a->d, a->m->source, instr_at(a->m, i)->at, "%s: %s",
                      name_text(a->m->ir, instr_at(a->m, i)->name), text);
}

static bool is_call_to(const struct module *m, instr_id i, const char *target)
{
    const struct instr *ins = instr_at(m, i);
    return ins->op == OP_CUSTOM_CALL && strcmp(instr_target(m, ins), target) == 0;
}

static struct attr open_attr(struct module *m, uint64_t open)
{
    struct str s = STR_IN(&m->arena);
    str_adds(&s, "\"unspecified_dims=[");
    const char *comma = "";
    for (int d = 0; d < 64; d++)
        if (open >> d & 1) {
            str_addf(&s, "%s%d", comma, d);
            comma = ",";
        }
    str_adds(&s, "]\"");
    struct attr a = { .key = ATTR_BACKEND_CONFIG, .type = ATTR_TYPE_RAW };
    a.text = str_text(&s);
    a.n = (uint32_t)s.n;
    return a;
}

static void set_sharding(struct module *m, instr_id i, sharding_id s)
{
    struct instr *ins = instr_at(m, i);
    ins->sharding = s;
    ins->note = NULL;
}

/* A leaf sharding for a tuple-shaped instruction stands for all its leaves (P-14). */
static bool shape_to(struct annotator *a, instr_id i, sharding_id *s)
{
    struct shardings *t = a->m->ir->shardings;
    const struct shape *shape = instr_shape(a->m, i);
    const struct sharding *g = sharding_get(t, *s);
    if (shape->kind != SHAPE_TUPLE)
        return g->kind != SHARDING_TUPLE || fail(a, i, "a tuple of shardings for what is no tuple");
    if (g->kind != SHARDING_TUPLE)
        *s = sharding_tuple_of(t, shape->nleaves, *s);
    else if (g->nelems != max_i64(1, shape->nleaves))
        return fail(a, i, "the sharding has another number of elements than the tuple");
    return true;
}

/* ---- flags of the header ------------------------------------------------------------------------------- */

/* One entry each, so that one of them can be held. false without any stays as it is. */
static void hold(struct module *m, int64_t n, int64_t k, int64_t *count, const bool **list)
{
    bool any = false;
    for (int64_t j = 0; j < *count; j++)
        any = any || (*list)[j];
    if (!any || k >= n)
        return;
    bool *v = ARENA_ARRAY(&m->arena, bool, n);
    for (int64_t j = 0; j < n; j++)
        v[j] = *count == 1 ? (*list)[0] : j < *count && (*list)[j];
    v[k] = false;
    *list = v;
    *count = n;
}

static void hold_output(struct annotator *a, int64_t k)
{
    struct module *m = a->m;
    const struct shape *s = instr_shape(m, a->e.roots[m->entry.i]);
    hold(m, s->kind == SHAPE_TUPLE ? s->nelems : 1, k, &m->nto_output, &m->to_output);
}

static void hold_boundary(struct annotator *a, instr_id i)
{
    struct module *m = a->m;
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++)
        if (entry->params[k].i == i.i)
            hold(m, entry->nparams, k, &m->nto_parameters, &m->to_parameters);
    if (a->e.roots[m->entry.i].i != i.i)
        return;
    const struct shape *s = instr_shape(m, i);
    for (int64_t k = 0; k < (s->kind == SHAPE_TUPLE ? s->nelems : 1); k++)
        hold_output(a, k);
}

/* ---- Sharding calls between a value and its users -------------------------------------------------------- */

/* The new call stands right behind the value, as a reader of the text expects. */
static void place_after(struct edit *e, instr_id i, instr_id new)
{
    struct id_list *l = &e->comps[instr_at(e->m, i)->comp.i];
    uint32_t k = l->n - 1;
    for (; k > 0 && l->v[k - 1].i != i.i; k--)
        l->v[k] = l->v[k - 1];
    l->v[k] = new;
}

static instr_id constrain(struct annotator *a, instr_id i, sharding_id s, uint64_t open)
{
    struct edit *e = &a->e;
    struct module *m = a->m;
    comp_id c = instr_at(m, i)->comp;
    struct id_list users = e->users[i.i];
    users.v = arena_copy(a->tmp, users.v, users.n, sizeof *users.v);
    instr_id call = edit_add(e, c, OP_CUSTOM_CALL, instr_at(m, i)->shape, 1, &i, NULL,
                             (struct origin){ { 0 }, 0 });
    vec_push(a->tmp, &a->made, a->current);
    struct attr attrs[2] = { attr_string(m, ATTR_CUSTOM_CALL_TARGET, "Sharding") };
    if (open)
        attrs[1] = open_attr(m, open);
    struct instr *ins = instr_at(m, call);
    ins->nattrs = open ? 2 : 1;
    ins->attrs = arena_copy(&m->arena, attrs, ins->nattrs, sizeof *attrs);
    ins->metadata = instr_at(m, i)->metadata;
    ins->metadata_len = instr_at(m, i)->metadata_len;
    set_sharding(m, call, s);
    place_after(e, i, call);
    for (uint32_t k = 0; k < users.n; k++)
        edit_use_instead(e, users.v[k], i, call);
    e->users[i.i].n = 0;
    id_list_push(e->arena, &e->users[i.i], call);
    if (e->roots[c.i].i == i.i)
        e->roots[c.i] = call;
    return call;
}

/* Leaf k of i: the element that holds it, and the leaf inside that. */
static int64_t element_of(struct annotator *a, instr_id i, int64_t leaf, int64_t *inner)
{
    const struct shape *s = instr_shape(a->m, i);
    int64_t k = 0, from = 0;
    for (; k < s->nelems; k++) {
        int64_t n = shape_get(a->m->ir, s->elems[k])->nleaves;
        if (leaf < from + n)
            break;
        from += n;
    }
    *inner = leaf - from;
    return k;
}

static bool shard_root_leaf(struct annotator *a, instr_id root, int64_t leaf, sharding_id s)
{
    struct shardings *t = a->m->ir->shardings;
    const struct shape *shape = instr_shape(a->m, root);
    sharding_id *leaves = ARENA_ARRAY(a->tmp, sharding_id, shape->nleaves + 1);
    sharding_id old = instr_at(a->m, root)->sharding;
    const struct sharding *g = old.i ? sharding_get(t, old) : NULL;
    for (int64_t k = 0; k < shape->nleaves; k++)
        leaves[k] = g && g->kind == SHARDING_TUPLE && k < g->nelems ? g->elems[k] : sharding_unknown(t);
    leaves[leaf] = s;
    set_sharding(a->m, root, sharding_tuple(t, shape->nleaves, leaves));
    int64_t inner;
    hold_output(a, element_of(a, root, leaf, &inner));
    return true;
}

/* Behind the get-tuple-elements of that leaf; nested tuples are followed down. */
static bool constrain_elements(struct annotator *a, const struct annotation *x, instr_id from, int64_t first)
{
    VEC(instr_id) todo = { 0 };
    VEC(int64_t) leaf_of = { 0 };
    bool any = false;
    vec_push(a->tmp, &todo, from);
    vec_push(a->tmp, &leaf_of, first);
    for (int64_t at = 0; at < todo.n; at++) {
        instr_id i = todo.v[at];
        int64_t inner, k = element_of(a, i, leaf_of.v[at], &inner);
        struct id_list users = a->e.users[i.i];
        users.v = arena_copy(a->tmp, users.v, users.n, sizeof *users.v);
        for (uint32_t u = 0; u < users.n; u++) {
            instr_id g = users.v[u];
            if (instr_at(a->m, g)->op != OP_GET_TUPLE_ELEMENT ||
                instr_int(instr_at(a->m, g), ATTR_INDEX, 0) != k)
                continue;
            if (instr_shape(a->m, g)->kind == SHAPE_TUPLE) {
                vec_push(a->tmp, &todo, g);
                vec_push(a->tmp, &leaf_of, inner);
                continue;
            }
            constrain(a, g, x->sharding, x->open);
            any = true;
        }
    }
    return any || fail(a, from, "nothing takes this leaf out of the tuple");
}

static bool annotate_leaf(struct annotator *a, const struct annotation *x)
{
    instr_id i = x->target;
    int64_t leaf = x->leaf;
    const struct shape *shape = instr_shape(a->m, i);
    if (shape->kind != SHAPE_TUPLE || leaf >= shape->nleaves)
        return fail(a, i, "no such leaf");
    if (x->kind == ANNOTATE_SHARD && a->e.roots[a->m->entry.i].i == i.i)
        return shard_root_leaf(a, i, leaf, x->sharding);
    while (instr_at(a->m, i)->op == OP_TUPLE) {
        int64_t inner, k = element_of(a, i, leaf, &inner);
        i = instr_operand(a->m, i, (uint32_t)k);
        leaf = inner;
    }
    if (instr_shape(a->m, i)->kind == SHAPE_TUPLE)
        return constrain_elements(a, x, i, leaf);
    if (x->kind == ANNOTATE_CONSTRAIN) {
        constrain(a, i, x->sharding, x->open);
        return true;
    }
    set_sharding(a->m, i, x->sharding);
    return true;
}

/* ---- one annotation ---------------------------------------------------------------------------------------- */

static void make_copy(struct module *m, instr_id call)
{
    struct instr *ins = instr_at(m, call);
    ins->op = OP_COPY;
    ins->nattrs = 0;
    ins->attrs = NULL;
    set_sharding(m, call, (sharding_id){ 0 });
}

/* A Sharding call of the module that is given another sharding has the open dimensions of that. */
static void set_open(struct module *m, instr_id call, uint64_t open)
{
    struct instr *ins = instr_at(m, call);
    struct attr *attrs = ARENA_ARRAY(&m->arena, struct attr, ins->nattrs + 1);
    uint8_t n = 0;
    for (uint8_t k = 0; k < ins->nattrs; k++)
        if (ins->attrs[k].key != ATTR_BACKEND_CONFIG)
            attrs[n++] = ins->attrs[k];
    if (open)
        attrs[n++] = open_attr(m, open);
    ins->attrs = attrs;
    ins->nattrs = n;
}

static bool apply(struct annotator *a, const struct annotation *x)
{
    struct module *m = a->m;
    instr_id i = x->target;
    sharding_id s = x->sharding;
    if (x->kind == ANNOTATE_UNSHARD) {
        if (is_call_to(m, i, "Sharding"))
            make_copy(m, i);
        else
            set_sharding(m, i, (sharding_id){ 0 });
        return true;
    }
    if (x->leaf >= 0)
        return annotate_leaf(a, x);
    if (!shape_to(a, i, &s))
        return false;
    if (x->kind == ANNOTATE_CONSTRAIN) {
        constrain(a, i, s, x->open);
        return true;
    }
    set_sharding(m, i, s);
    if (is_call_to(m, i, "Sharding"))
        set_open(m, i, x->open);
    hold_boundary(a, i);
    return true;
}

/* All that the text brought; manual regions cannot be undone without changing what it computes. */
static bool remove_all(struct annotator *a)
{
    struct module *m = a->m;
    for (uint32_t k = 1; k <= a->nloaded; k++) {
        instr_id i = { k };
        if (is_call_to(m, i, "SPMDFullToShardShape") || is_call_to(m, i, "SPMDShardToFullShape"))
            return fail(a, i, "borders a manual region (shard_map), whose shapes are one device's: "
                              "its shardings cannot be removed");
        if (instr_at(m, i)->sharding.i && sharding_has_manual(m->ir->shardings, instr_at(m, i)->sharding))
            return fail(a, i, "is manual: its sharding cannot be removed");
    }
    for (uint32_t k = 1; k <= a->nloaded; k++) {
        if (is_call_to(m, (instr_id){ k }, "Sharding"))
            make_copy(m, (instr_id){ k });
        else
            set_sharding(m, (instr_id){ k }, (sharding_id){ 0 });
    }
    return true;
}

/* Puts the edited lists back; the result is no graph, so only computations are written. */
static void finish(struct annotator *a, struct annotated *out)
{
    for (uint32_t c = 1; c <= module_ncomps(a->m); c++) {
        const struct id_list *l = &a->e.comps[c];
        if (comp_at(a->m, (comp_id){ c })->ninstrs != l->n)
            comp_set_instrs(a->m, (comp_id){ c }, l->n, l->v, a->e.roots[c]);
    }
    uint32_t n = module_ninstrs(a->m);
    out->annotation_of = ARENA_ARRAY(&a->m->arena, int, n + 1);
    for (uint32_t k = 0; k <= n; k++)
        out->annotation_of[k] = k > a->nloaded ? a->made.v[k - a->nloaded - 1] : -1;
}

struct annotated *annotate(const struct module *loaded, int n, const struct annotation *list,
                           bool unshard_module, struct diag *d)
{
    struct module *m = module_clone(loaded);
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        module_free(m);
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct annotator a = { .m = m, .tmp = &tmp, .d = d, .nloaded = module_ninstrs(m) };
    edit_open(&a.e, m, NULL, NULL, &tmp);
    bool ok = !unshard_module || remove_all(&a);
    for (int k = 0; k < n && ok; k++) {
        a.current = k;
        ok = apply(&a, &list[k]);
    }
    struct annotated *out = ARENA_NEW(&m->arena, struct annotated);
    out->module = m;
    if (ok)
        finish(&a, out);
    arena_close(&tmp);
    fail_leave(&f);
    if (ok)
        return out;
    module_free(m);
    return NULL;
}

void annotated_free(struct annotated *a)
{
    if (a)
        module_free(a->module); /* a itself lies in the module's arena */
}
