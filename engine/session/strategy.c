/* Strategies: edits, undo and redo, saved names. A strategy is never changed; each edit copies. */
#include "session/internal.h"

#include <string.h>

void options_default(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->prepare = true;
    o->to_output = o->to_parameters = -1;
    o->is_spmd = true;
    o->seed = 1;
    partition_options_default(&o->partition);
}

/* ---- identity -------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    return hash_u64(h ^ (v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2)));
}

static uint64_t mix_flags(uint64_t h, int kind, int64_t n, const bool *list)
{
    h = mix(h, (uint64_t)(kind + 2));
    if (kind != 2)
        return h;
    h = mix(h, (uint64_t)n);
    for (int64_t k = 0; k < n; k++)
        h = mix(h, list[k]);
    return h;
}

void strategy_hash(const struct document *doc, struct strategy *s)
{
    const struct options *o = &s->options;
    uint64_t h = mix(1, o->prepare);
    h = mix(h, strategy_none(doc, s));
    h = mix_flags(h, o->to_output, o->nto_output, o->to_output_list);
    h = mix_flags(h, o->to_parameters, o->nto_parameters, o->to_parameters_list);
    h = mix(h, (uint64_t)(o->is_spmd * 4 + o->cse_only * 2 + o->propagate_metadata));
    h = mix(h, s->unshard_module);
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        h = mix(h, (uint64_t)a->kind);
        h = mix(h, a->target.i);
        h = mix(h, (uint64_t)a->leaf);
        h = mix(h, a->sharding.i);
        h = mix(h, a->open);
    }
    s->propagation_key = h;
    const struct partition_options *p = &o->partition;
    h = mix(h, (uint64_t)strategy_devices(doc, s));
    h = mix(h, (uint64_t)p->replica_count);
    h = mix(h, (uint64_t)p->windowed_einsum_mib);
    h = mix(h, (uint64_t)p->windowed_total_bytes);
    for (int k = 0; k < PASS_COUNT; k++)
        h = mix(h, p->pass[k]);
    h = mix(h, (uint64_t)(p->hoist + 2 * p->weight_update));
    h = mix(h, (uint64_t)p->combine_mib);
    h = mix(h, (uint64_t)(p->all_gather + 2 * p->bidirectional + 4 * p->unroll +
                          8 * p->halo_always_on_lhs + 16 * p->choose_faster_windowed_einsum +
                          32 * p->full + 64 * p->best + 128 * (int)p->no_rule));
    h = mix(h, (uint64_t)p->gather_method);
    h = mix(h, (uint64_t)p->scatter_method);
    s->key = h;
}

bool strategy_none(const struct document *doc, const struct strategy *s)
{
    if (s->options.propagation_set)
        return s->options.propagation_none;
    /* Whoever annotates, or says what propagation may change, wants it to run. */
    bool asked = s->nannotations > 0 || s->unshard_module || s->options.to_output != -1 ||
                 s->options.to_parameters != -1;
    return doc->all_sharded && !asked;
}

bool document_propagation_none(const struct document *doc)
{
    return strategy_none(doc, doc->current);
}

/* ---- making ---------------------------------------------------------------------------------------- */

static const bool *copy_flags(struct document *doc, const bool *list, int64_t n)
{
    return n > 0 ? arena_copy(&doc->arena, list, n, sizeof(bool)) : NULL;
}

static void own_options(struct document *doc, struct options *o)
{
    o->to_output_list = copy_flags(doc, o->to_output_list, o->nto_output);
    o->to_parameters_list = copy_flags(doc, o->to_parameters_list, o->nto_parameters);
}

void strategy_reset(struct document *doc, const struct strategy *from)
{
    struct strategy *s = ARENA_NEW(&doc->arena, struct strategy);
    s->command = "";
    if (from) {
        s->options = from->options;
        s->meshes = from->meshes;
        s->nmeshes = from->nmeshes;
        s->mesh_of_module = from->mesh_of_module;
        own_options(doc, &s->options);
    } else {
        options_default(&s->options);
    }
    strategy_hash(doc, s);
    doc->current = s;
    doc->redo.n = 0;
}

/* A copy of the current strategy to be changed and then committed. */
static struct strategy *strategy_begin(struct document *doc, const char *command)
{
    struct strategy *s = arena_copy(&doc->arena, doc->current, 1, sizeof *doc->current);
    s->parent = doc->current;
    s->command = arena_strdup(&doc->arena, command);
    return s;
}

static void strategy_commit(struct document *doc, struct strategy *s)
{
    strategy_hash(doc, s);
    doc->current = s;
    doc->redo.n = 0;
}

static const char *target_name(const struct document *doc, const struct annotation *a)
{
    return name_text(doc->ir, instr_at(doc->module, a->target)->name);
}

/* ---- meshes ---------------------------------------------------------------------------------------- */

static bool mesh_fits_module(struct document *doc, const struct strategy *s,
                             const struct mesh *mesh, struct diag *d)
{
    int64_t n = mesh_devices(mesh);
    if (doc->module && !s->unshard_module && doc->tiled_devices > 0 && doc->tiled_devices != n) {
        const struct instr *i = instr_at(doc->module, doc->tiled_at);
        diag_error(d, NULL, (struct span){ 0, 0 },
                   "the mesh has %" PRId64 " devices, but the module's shardings are for %" PRId64
                   " (%s, for one)",
                   n, doc->tiled_devices, name_text(doc->ir, i->name));
        diag_hint(d, "unshard --module removes what the dump brought");
        return false;
    }
    return true;
}

/* Reads every annotation that was typed again, by axis name, in the new meshes. */
static bool reread_annotations(struct document *doc, struct strategy *s, struct diag *d)
{
    struct annotation *list =
        arena_copy(&doc->arena, s->annotations, s->nannotations, sizeof *list);
    for (int k = 0; k < s->nannotations; k++) {
        struct annotation *a = &list[k];
        if (!s->specs[k])
            continue;
        const struct shape *shape = shape_get(doc->ir, instr_at(doc->module, a->target)->shape);
        if (shape->kind == SHAPE_TUPLE && a->leaf >= 0)
            shape = shape_get(
                doc->ir, shape_leaf(doc->ir, instr_at(doc->module, a->target)->shape, a->leaf));
        struct source src = { .name = "<strategy>",
                              .text = s->specs[k],
                              .len = strlen(s->specs[k]) };
        struct axes_spec spec = { 0 };
        size_t used = 0;
        bool array = shape->kind == SHAPE_ARRAY;
        if (!sharding_spec_parse(doc->ir->shardings, s->meshes, s->nmeshes,
                                 array ? shape->rank : -1, &src, 0, src.text, src.len, &used,
                                 &a->sharding, &spec, d) ||
            (array && !sharding_fits(doc->ir->shardings, a->sharding, shape->rank, shape->dims,
                                     strategy_devices(doc, s), &src,
                                     (struct span){ 0, (uint32_t)src.len }, d))) {
            diag_hint(d, "the annotation of %s is read again in the new mesh; unshard %s first",
                      target_name(doc, a), target_name(doc, a));
            return false;
        }
        a->open = spec.open;
    }
    s->annotations = list;
    return true;
}

static void own_mesh(struct document *doc, struct mesh *m)
{
    m->name = arena_strdup(&doc->arena, m->name ? m->name : "");
    for (int k = 0; k < m->naxes; k++)
        m->axes[k].name = arena_strdup(&doc->arena, m->axes[k].name);
}

bool edit_mesh(struct document *doc, const struct mesh *mesh, const char *command, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = strategy_begin(doc, command);
    struct mesh *list = ARENA_ARRAY(&doc->arena, struct mesh, s->nmeshes + 2);
    int n = s->nmeshes;
    if (n > 0)
        memcpy(list, s->meshes, (size_t)n * sizeof *list);
    if (n == 0)
        list[n++] = (struct mesh){ .name = "" };
    int at = 0;
    if (mesh->name && mesh->name[0])
        for (at = 1; at < n && strcmp(list[at].name, mesh->name);)
            at++;
    list[at] = *mesh;
    own_mesh(doc, &list[at]);
    s->meshes = list;
    s->nmeshes = at == n ? n + 1 : n;
    s->mesh_of_module &= at > 0;
    bool ok = mesh_fits_module(doc, s, mesh, d) && reread_annotations(doc, s, d);
    if (ok)
        strategy_commit(doc, s);
    fail_leave(&f);
    return ok;
}

/* ---- annotations ----------------------------------------------------------------------------------- */

static bool is_sharding_call(const struct document *doc, instr_id i)
{
    const struct instr *in = instr_at(doc->module, i);
    return in->op == OP_CUSTOM_CALL && !strcmp(instr_target(doc->module, in), "Sharding");
}

/* Whether the new annotation takes the place of an old one. `unshard` takes away both others, and
 * both others an `unshard`. */
static bool replaces(const struct annotation *new, const struct annotation *old)
{
    if (new->target.i != old->target.i || (new->leaf != old->leaf &&new->leaf >= 0))
        return false;
    return new->kind == old->kind || new->kind == ANNOTATE_UNSHARD || old->kind == ANNOTATE_UNSHARD;
}

/* A device that is not there; -1: all are. */
static int64_t missing_device(const struct document *doc, sharding_id s, int64_t n)
{
    const struct sharding *v = sharding_get(doc->ir->shardings, s);
    if (v->kind == SHARDING_MAXIMAL)
        return n > 0 && v->device >= n ? v->device : -1;
    for (int64_t k = 0; v->kind == SHARDING_TUPLE && k < v->nelems; k++) {
        const struct sharding *e = sharding_get(doc->ir->shardings, v->elems[k]);
        if (e->kind == SHARDING_MAXIMAL && n > 0 && e->device >= n)
            return e->device;
    }
    return -1;
}

static bool check_annotation(struct document *doc, const struct strategy *s,
                             const struct annotation *a, struct diag *d)
{
    const struct instr *i = instr_at(doc->module, a->target);
    if (a->kind == ANNOTATE_UNSHARD) {
        bool had = i->sharding.i != 0 || is_sharding_call(doc, a->target);
        for (int k = 0; !had && k < s->nannotations; k++)
            had = replaces(a, &s->annotations[k]);
        return had || diag_error(d, NULL, (struct span){ 0, 0 },
                                 "%s has no sharding of its own to take away",
                                 name_text(doc->ir, i->name));
    }
    shape_id shape = a->leaf >= 0 ? shape_leaf(doc->ir, i->shape, a->leaf) : i->shape;
    const struct shape *v = shape_get(doc->ir, shape);
    int64_t n = strategy_devices(doc, s), missing = missing_device(doc, a->sharding, n);
    if (missing >= 0)
        return diag_error(d, NULL, (struct span){ 0, 0 },
                          "there is no device %" PRId64 ": they are 0 to %" PRId64, missing, n - 1);
    if (v->kind == SHAPE_ARRAY)
        return sharding_fits(doc->ir->shardings, a->sharding, v->rank, v->dims, n, NULL,
                             (struct span){ 0, 0 }, d);
    const struct sharding *sh = sharding_get(doc->ir->shardings, a->sharding);
    if (v->kind == SHAPE_TUPLE && sh->kind == SHARDING_TUPLE &&
        sh->nelems != max_i64(v->nleaves, 1))
        return diag_error(d, NULL, (struct span){ 0, 0 },
                          "%s is a tuple of %" PRId64 " leaves, the sharding has %" PRId64
                          " elements",
                          name_text(doc->ir, i->name), v->nleaves, sh->nelems);
    if (v->kind == SHAPE_TUPLE && sh->kind == SHARDING_TILED) {
        diag_error(d, NULL, (struct span){ 0, 0 },
                   "%s is a tuple of %" PRId64 " leaves: one tiled sharding cannot be theirs",
                   name_text(doc->ir, i->name), v->nleaves);
        diag_hint(d, "shard one leaf: shard %s{0} ...", name_text(doc->ir, i->name));
        return false;
    }
    return true;
}

/* An `unshard` that only takes back what the user said leaves no annotation behind. */
static bool leaves_a_mark(const struct document *doc, const struct annotation *a)
{
    return a->kind != ANNOTATE_UNSHARD || instr_at(doc->module, a->target)->sharding.i != 0 ||
           is_sharding_call(doc, a->target);
}

/* Puts n annotations into s, each with its own typed text (NULL: none was). */
static bool put_annotations(struct document *doc, struct strategy *s, int n,
                            const struct annotation *list,
                            const char *const *typed, struct diag *d)
{
    struct annotation *all = ARENA_ARRAY(&doc->arena, struct annotation, s->nannotations + n);
    const char **specs = ARENA_ARRAY(&doc->arena, const char *, s->nannotations + n);
    bool ok = true;
    int count = 0;
    for (int k = 0; k < n && ok; k++)
        ok = check_annotation(doc, s, &list[k], d);
    /* What many annotations at once replace is told by their targets. */
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct map targets;
    map_init(&targets, &tmp);
    for (int k = 0; k < n; k++)
        map_put(&targets, list[k].target.i, (uint64_t)k);
    for (int k = 0; k < s->nannotations && ok; k++) {
        uint64_t by;
        if (map_get(&targets, s->annotations[k].target.i, &by) &&
            replaces(&list[by], &s->annotations[k]))
            continue;
        all[count] = s->annotations[k];
        specs[count++] = s->specs[k];
    }
    for (int k = 0; k < n && ok; k++) {
        if (!leaves_a_mark(doc, &list[k]))
            continue;
        all[count] = list[k];
        specs[count++] = typed[k];
    }
    arena_close(&tmp);
    for (int k = 0; k < count; k++)
        all[k].number = k;
    s->annotations = all;
    s->specs = specs;
    s->nannotations = count;
    return ok;
}

bool strategy_put(struct document *doc, struct strategy *s, const struct annotation *one,
                  struct diag *d)
{
    const char *typed = NULL;
    return put_annotations(doc, s, 1, one, &typed, d);
}

bool edit_annotate(struct document *doc, int n, const struct annotation *list, const char *spec,
                   const char *command, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = strategy_begin(doc, command);
    const char **typed = ARENA_ARRAY(&doc->arena, const char *, n);
    const char *text = spec ? arena_strdup(&doc->arena, spec) : NULL;
    for (int k = 0; k < n; k++)
        typed[k] = text;
    bool ok = put_annotations(doc, s, n, list, typed, d);
    if (ok)
        strategy_commit(doc, s);
    fail_leave(&f);
    return ok;
}

bool edit_batch(struct document *doc, const struct edit_batch *b, const char *command, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = strategy_begin(doc, command);
    const char **typed = ARENA_ARRAY(&doc->arena, const char *, b->n);
    bool ok = true;
    for (int k = 0; k < b->n; k++)
        typed[k] = b->specs[k] ? arena_strdup(&doc->arena, b->specs[k]) : NULL;
    if (b->nmeshes > 0) {
        struct mesh *list = arena_copy(&doc->arena, b->meshes, b->nmeshes, sizeof *list);
        for (int k = 0; k < b->nmeshes; k++)
            own_mesh(doc, &list[k]);
        s->meshes = list;
        s->nmeshes = b->nmeshes;
        s->mesh_of_module = false;
        ok = mesh_fits_module(doc, s, &list[0], d) && reread_annotations(doc, s, d);
    }
    ok = ok && put_annotations(doc, s, b->n, b->list, typed, d);
    if (ok)
        strategy_commit(doc, s);
    fail_leave(&f);
    return ok;
}

bool edit_unshard_module(struct document *doc, const char *command, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = strategy_begin(doc, command);
    s->unshard_module = true;
    strategy_commit(doc, s);
    fail_leave(&f);
    return true;
}

bool edit_options(struct document *doc, const struct options *o, const char *command,
                  struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = strategy_begin(doc, command);
    s->options = *o;
    own_options(doc, &s->options);
    strategy_commit(doc, s);
    fail_leave(&f);
    return true;
}

/* ---- moving between strategies --------------------------------------------------------------------- */

static bool usage_error(struct diag *d, const char *text)
{
    const char *former = diag_stage(d, "usage");
    diag_error(d, NULL, (struct span){ 0, 0 }, "%s", text);
    diag_stage(d, former);
    return false;
}

bool edit_undo(struct document *doc, struct diag *d)
{
    if (!doc->current->parent)
        return usage_error(d, "nothing to undo");
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    vec_push(&doc->arena, &doc->redo, doc->current);
    doc->current = doc->current->parent;
    fail_leave(&f);
    return true;
}

bool edit_redo(struct document *doc, struct diag *d)
{
    if (doc->redo.n == 0)
        return usage_error(d, "nothing to redo");
    doc->current = doc->redo.v[--doc->redo.n];
    return true;
}

bool edit_save(struct document *doc, const char *name, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    int64_t at = 0;
    while (at < doc->saved.n && strcmp(doc->saved.v[at].name, name))
        at++;
    if (at == doc->saved.n) {
        struct saved fresh = { .name = arena_strdup(&doc->arena, name) };
        vec_push(&doc->arena, &doc->saved_names, fresh.name);
        vec_push(&doc->arena, &doc->saved, fresh);
    }
    doc->saved.v[at].strategy = doc->current;
    fail_leave(&f);
    return true;
}

const struct strategy *document_saved_strategy(const struct document *doc, const char *name)
{
    for (int64_t k = 0; k < doc->saved.n; k++)
        if (!strcmp(doc->saved.v[k].name, name))
            return doc->saved.v[k].strategy;
    return NULL;
}

int document_saved(const struct document *doc, const char *const **names)
{
    *names = doc->saved_names.v;
    return (int)doc->saved_names.n;
}

/* Restoring is an edit like any other: undo goes back to where one was. */
bool edit_restore(struct document *doc, const char *name, struct diag *d)
{
    const struct strategy *to = document_saved_strategy(doc, name);
    if (!to) {
        const char *former = diag_stage(d, "name");
        const char *best = NULL;
        int least = 3;
        for (int64_t k = 0; k < doc->saved.n; k++) {
            int far = edit_distance(name, doc->saved.v[k].name, 2);
            if (far < least) {
                least = far;
                best = doc->saved.v[k].name;
            }
        }
        diag_error(d, NULL, (struct span){ 0, 0 }, "no strategy is saved as '%s'", name);
        if (best)
            diag_hint(d, "did you mean '%s'?", best);
        diag_stage(d, former);
        return false;
    }
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct strategy *s = arena_copy(&doc->arena, to, 1, sizeof *to);
    s->parent = doc->current;
    s->command = arena_printf(&doc->arena, "restore %s", name);
    strategy_commit(doc, s);
    fail_leave(&f);
    return true;
}
