/* The document: loading, what a module says about devices, and the frame of every API boundary. */
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

bool boundary_failed(const struct fail_frame *f, struct diag *d)
{
    const char *former = diag_stage(d, f->kind == FAIL_MEMORY ? "memory" : "internal");
    diag_error(d, NULL, (struct span){ 0, 0 }, "%s%s",
               f->kind == FAIL_MEMORY ? "" : "a bug of gspmd: ", f->text);
    diag_hint(d, f->kind == FAIL_MEMORY ? "the session is as it was before this command"
                                        : "please report it with the input; the session goes on");
    diag_stage(d, former);
    return false;
}

struct document *document_new(void)
{
    struct document *doc = calloc(1, sizeof *doc);
    if (!doc)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for a document");
    doc->ir = ir_new();
    strategy_reset(doc, NULL);
    return doc;
}

static void drop_module(struct document *doc)
{
    move_drop(doc);
    derived_drop_all(doc);
    names_drop(doc);
    module_free(doc->module);
    doc->module = NULL;
    ir_free(doc->ir);
    doc->ir = NULL;
    arena_free(&doc->arena);
    memset(&doc->redo, 0, sizeof doc->redo);
    memset(&doc->saved, 0, sizeof doc->saved);
    memset(&doc->saved_names, 0, sizeof doc->saved_names);
}

void document_free(struct document *doc)
{
    if (!doc)
        return;
    drop_module(doc);
    free(doc);
}

const struct module *document_module(const struct document *doc)
{
    return doc->module;
}

const char *document_path(const struct document *doc)
{
    return doc->path ? doc->path : "";
}

struct ir *document_ir(const struct document *doc)
{
    return doc->ir;
}

const struct strategy *document_strategy(const struct document *doc)
{
    return doc->current;
}

bool document_is_partitioned(const struct document *doc)
{
    return doc->partitioned;
}

const struct mesh *document_mesh(const struct document *doc)
{
    const struct mesh *m = doc->current->meshes;
    return m && m->naxes > 0 ? m : NULL;
}

int64_t document_computations(const struct document *doc)
{
    return doc->computations;
}

/* ---- what a module says by itself ------------------------------------------------------------------ */

static bool is_marker(const struct module *m, const struct instr *i)
{
    if (i->op != OP_CUSTOM_CALL)
        return false;
    const char *target = instr_target(m, i);
    return !strcmp(target, "Sharding") || !strcmp(target, "SPMDFullToShardShape") ||
           !strcmp(target, "SPMDShardToFullShape");
}

/* Its sharding is not the last word, though it has one: it is unknown, of a shard group, of a call with open
 * dimensions. */
static bool is_asking(const struct module *m, const struct instr *i)
{
    const struct shardings *t = m->ir->shardings;
    if (i->op == OP_CUSTOM_CALL && instr_attr(i, ATTR_BACKEND_CONFIG) && !strcmp(instr_target(m, i), "Sharding"))
        return true;
    for (int64_t k = 0; i->note && i->note->leaves && k < i->note->nleaves; k++)
        if (i->note->leaves[k].group_kind)
            return true;
    if (!i->sharding.i)
        return false;
    const struct sharding *s = sharding_get(t, i->sharding);
    for (int64_t k = 0; s->kind == SHARDING_TUPLE && k < s->nelems; k++)
        if (sharding_is_unknown(t, s->elems[k]))
            return true;
    return sharding_is_unknown(t, i->sharding);
}

/* Largest TOTAL of the tiled leaves; 0: none is tiled. */
static int64_t tiled_total(const struct shardings *t, sharding_id s)
{
    const struct sharding *v = sharding_get(t, s);
    if (v->kind == SHARDING_TILED)
        return sharding_total(t, s);
    int64_t most = 0;
    for (int64_t k = 0; v->kind == SHARDING_TUPLE && k < v->nelems; k++)
        most = max_i64(most, tiled_total(t, v->elems[k]));
    return most;
}

/* Computations that hold values of the program itself: the entry, and what loops, branches and
 * calls run; reducers and comparators are none. */
static bool *value_computations(const struct module *m, struct arena *a)
{
    bool *in = ARENA_ARRAY(a, bool, (int64_t)module_ncomps(m) + 1);
    VEC(comp_id) queue = { 0 };
    vec_push(a, &queue, m->entry);
    in[m->entry.i] = true;
    for (int64_t q = 0; q < queue.n; q++) {
        const struct computation *c = comp_at(m, queue.v[q]);
        for (uint32_t k = 0; k < c->ninstrs; k++) {
            enum op_kind op = (enum op_kind)instr_at(m, c->instrs[k])->op;
            if (op != OP_WHILE && op != OP_CONDITIONAL && op != OP_CALL && op != OP_ASYNC_START)
                continue;
            comp_id called[64];
            int n = instr_called(m, c->instrs[k], called, 64);
            for (int v = 0; v < n && v < 64; v++)
                if (!in[called[v].i]) {
                    in[called[v].i] = true;
                    vec_push(a, &queue, called[v]);
                }
        }
    }
    return in;
}

/* XLA names what its partitioner made X_spmd; passes behind it add .N or .clone. */
static bool is_spmd_name(const char *name)
{
    const char *at = NULL;
    for (const char *p = name; (p = strstr(p, "_spmd")); p += 5)
        at = p;
    return at && (at[5] == '\0' || at[5] == '.');
}

/* A dump from after the partitioner has collectives, shardings on nothing but the entry's
 * parameters (XLA leaves those there), and no annotation left that the partitioner would consume. Also
 * without collectives its entry's name says so, or that it has been scheduled: later passes (layouts,
 * fusions) hand shardings of parameters on to copies.
 */
static void look_at_module(struct document *doc)
{
    const struct module *m = doc->module;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct map seen;
    map_init(&seen, &tmp);
    const bool *values = value_computations(m, &tmp);
    const struct computation *entry = comp_at(m, m->entry);
    bool inner = false, collectives = false, marks = false, all = true;
    doc->tiled_devices = 0;
    doc->tiled_at.i = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        collectives |= op_is_collective((enum op_kind)i->op);
        if (is_marker(m, i))
            inner = marks = true;
        all &= !is_asking(m, i);
        if (i->sharding.i == 0) {
            all &= !values[i->comp.i];
            continue;
        }
        if (i->comp.i != m->entry.i || i->op != OP_PARAMETER)
            inner = true;
        uint64_t met;
        if (map_get(&seen, i->sharding.i, &met))
            continue;
        map_put(&seen, i->sharding.i, 1);
        int64_t total = tiled_total(m->ir->shardings, i->sharding);
        if (total == 0 || total == doc->tiled_devices)
            continue;
        doc->tiled_devices = doc->tiled_devices ? -1 : total;
        if (doc->tiled_at.i == 0)
            doc->tiled_at.i = k;
    }
    arena_close(&tmp);
    bool after = !marks && (is_spmd_name(name_text(m->ir, entry->name)) || m->is_scheduled);
    doc->partitioned = (after || (collectives && !inner)) && (m->num_partitions > 1 || m->replica_count > 1);
    doc->all_sharded = all && entry->ninstrs > 0 && !doc->partitioned;
    doc->is_model = false;
    for (size_t k = 0; m->source && k < m->source->len; k++) {
        if (m->source->text[k] == ' ' || m->source->text[k] == '\n' || m->source->text[k] == '\t' ||
            m->source->text[k] == '\r')
            continue;
        doc->is_model = m->source->text[k] == '{';
        break;
    }
}

int64_t strategy_devices(const struct document *doc, const struct strategy *s)
{
    if (s->nmeshes > 0 && s->meshes[0].naxes > 0)
        return mesh_devices(&s->meshes[0]);
    const struct module *m = doc->module;
    if (m && m->num_partitions > 1)
        return m->num_partitions;
    if (m && !s->unshard_module && doc->tiled_devices > 0)
        return doc->tiled_devices;
    for (int k = 0; k < s->nannotations; k++) {
        int64_t total = s->annotations[k].sharding.i
                            ? tiled_total(doc->ir->shardings, s->annotations[k].sharding)
                            : 0;
        if (total > 0)
            return total;
    }
    if (m && m->num_partitions == 1)
        return 1;
    return m && doc->partitioned ? max_i64(m->replica_count, 1) : 0;
}

int64_t document_devices(const struct document *doc)
{
    return strategy_devices(doc, doc->current);
}

/* ---- loading --------------------------------------------------------------------------------------- */

/* Carries mesh k of the old document over into the new one's tables. false: it does not fit there.
 */
static bool carry_mesh(struct document *fresh, const struct document *old, int k, struct mesh *out,
                       struct diag *d)
{
    const struct mesh *from = &old->current->meshes[k];
    *out = (struct mesh){ .name = arena_strdup(&fresh->arena, from->name ? from->name : "") };
    if (from->naxes == 0)
        return true;
    struct str s = STR_IN(&fresh->arena);
    struct mesh plain = *from;
    plain.name = "";
    mesh_print(old->ir->shardings, &plain, &s);
    const char *name = out->name;
    if (!mesh_parse(fresh->ir->shardings, &fresh->arena, NULL, 0, str_text(&s), s.n, out, NULL))
        return false;
    out->name = name;
    if (k == 0 && fresh->tiled_devices > 0 && mesh_devices(out) != fresh->tiled_devices) {
        diag_warn(d, NULL, (struct span){ 0, 0 },
                  "the mesh of %" PRId64
                  " devices is dropped: the module's shardings are for %" PRId64,
                  mesh_devices(out), fresh->tiled_devices);
        *out = (struct mesh){ .name = name };
    }
    return true;
}

/* A list of flags is for a module of so many entries; for any other the header says it again. */
static void carry_flags(const char *name, const char *what, int64_t want, int64_t also, int *kind, int64_t *n,
                        const bool **list, struct diag *d)
{
    if (*kind != 2 || *n == 1 || *n == want || *n == also)
        return;
    diag_warn(d, NULL, (struct span){ 0, 0 },
              "%s is header again: the list that was set has %" PRId64 " entries, the module %" PRId64 " %s", name, *n,
              want, what);
    diag_hint(d, "set %s=header, true, false, or a list for this module", name);
    *kind = -1;
    *n = 0;
    *list = NULL;
}

static void carry_lists(const struct document *fresh, struct options *o, struct diag *d)
{
    const struct module *m = fresh->module;
    const struct computation *entry = comp_at(m, m->entry);
    const struct shape *root = instr_shape(m, entry->root);
    const struct shape *only = entry->nparams == 1 ? instr_shape(m, entry->params[0]) : NULL;
    int64_t elements = only && only->kind == SHAPE_TUPLE ? only->nelems : -1;
    carry_flags("to_output", "outputs", root->nleaves, -1, &o->to_output, &o->nto_output, &o->to_output_list, d);
    carry_flags("to_parameters", "parameters", entry->nparams, elements, &o->to_parameters, &o->nto_parameters,
                &o->to_parameters_list, d);
}

/* Whose default mesh nobody named takes the one that the module's text does. */
static void adopt_mesh(struct document *doc, struct strategy *s, struct mesh *meshes)
{
    if (s->nmeshes > 0 && meshes[0].naxes > 0)
        return;
    int64_t n = strategy_devices(doc, s);
    if (n <= 1 || !module_mesh(doc->module, n, &doc->arena, &meshes[0]))
        return;
    meshes[0].name = "";
    s->nmeshes = s->nmeshes > 0 ? s->nmeshes : 1;
    s->mesh_of_module = true;
}

/* The mesh and the options stay: people name a mesh first and look at several models on it. */
static void carry_over(struct document *fresh, const struct document *old, struct diag *d)
{
    struct strategy carried = *old->current;
    struct mesh *meshes = ARENA_ARRAY(&fresh->arena, struct mesh, carried.nmeshes + 1);
    int n = 0;
    for (int k = 0; k < carried.nmeshes; k++)
        if (k == 0 && carried.mesh_of_module)
            meshes[n++] = (struct mesh){ .name = "" }; /* it was the former module's */
        else
            n += carry_mesh(fresh, old, k, &meshes[n], d);
    carried.meshes = meshes;
    carried.nmeshes = n;
    carried.mesh_of_module = false;
    carried.nannotations = 0;
    carried.unshard_module = false;
    adopt_mesh(fresh, &carried, meshes);
    carry_lists(fresh, &carried.options, d);
    strategy_reset(fresh, &carried);
}

struct load_request {
    const char *path, *name, *text;
    size_t n;
};

/* The new document is made beside the old one, and their contents change places at the end:
 * whatever fails before that leaves the old one as it was. */
static bool load(struct document *doc, const struct load_request *r, struct tick *t, struct diag *d)
{
    struct document *fresh = calloc(1, sizeof *fresh);
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        document_free(fresh);
        return boundary_failed(&f, d);
    }
    INVARIANT(fresh, "no memory for a document");
    const char *former = diag_stage(d, "parse");
    fresh->ir = ir_new();
    fresh->module = r->path ? module_load(fresh->ir, r->path, t, d)
                            : module_load_text(fresh->ir, r->name, r->text, r->n, t, d);
    diag_stage(d, former);
    bool ok = fresh->module != NULL;
    if (ok && hlo_import_shardy(fresh->module)) {
        hlo_name_all(fresh->module); /* what it put in can be asked about, too */
        diag_note(d, NULL, (struct span){ 0, 0 },
                  "shardings are propagated here by GSPMD's rules; this dump is from before Shardy's");
    }
    if (ok) {
        fresh->path = arena_strdup(&fresh->arena, r->path ? r->path : r->name);
        look_at_module(fresh);
        carry_over(fresh, doc, d);
        struct document old = *doc;
        *doc = *fresh;
        *fresh = old;
    }
    fail_leave(&f);
    document_free(fresh);
    return ok;
}

bool document_load(struct document *doc, const char *path, struct tick *t, struct diag *d)
{
    struct load_request r = { .path = path };
    return load(doc, &r, t, d);
}

bool document_load_text(struct document *doc, const char *name, const char *text, size_t n,
                        struct tick *t, struct diag *d)
{
    struct load_request r = { .name = name, .text = text, .n = n };
    return load(doc, &r, t, d);
}
