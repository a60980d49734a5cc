/* Strategies: meshes, annotations, going back and forth. */
#include <string.h>

#include "repl/commands.h"

/* ---- mesh ------------------------------------------------------------------------------------------ */

static void show_mesh(struct call *c, const struct mesh *m)
{
    bool named = m->name && m->name[0];
    bool of_module = !named && document_strategy(c->sh->doc)->mesh_of_module;
    out(c, "mesh %s%s%s%s: %s%s\n", named ? "@" : "", named ? m->name : "", named ? " " : "", mesh_words(c, m),
        counted(&c->arena, mesh_devices(m), "device"), of_module ? ", as the module names it" : "");
}

void json_mesh(struct call *c)
{
    const struct mesh *m = document_mesh(c->sh->doc);
    if (!m) {
        json_put_null(&c->js, "mesh");
    } else {
        json_put_open(&c->js, "mesh", '{');
        for (int k = 0; k < m->naxes; k++)
            json_put_int(&c->js, m->axes[k].name, m->axes[k].size);
        json_close(&c->js, '}');
    }
    json_put_int(&c->js, "devices", max_i64(document_devices(c->sh->doc), 1));
}

static int mesh_status(struct call *c)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    if (c->json) {
        json_mesh(c);
        return STATUS_OK;
    }
    if (!document_mesh(c->sh->doc)) {
        int64_t n = document_devices(c->sh->doc);
        if (n > 0)
            out(c, "no mesh is named; the module is for %" PRId64 " devices\n", n);
        else
            out(c, "no mesh is named; try: mesh data=2 model=4\n");
    }
    for (int k = 0; k < s->nmeshes; k++)
        if (s->meshes[k].naxes > 0)
            show_mesh(c, &s->meshes[k]);
    return STATUS_OK;
}

int cmd_mesh(struct call *c)
{
    if (c->n == 0)
        return mesh_status(c);
    struct mesh m = { .name = "" };
    const char *name = "";
    int first = 0;
    if (c->args[0].text[0] == '@') {
        name = c->args[0].text + 1;
        first = 1;
        if (!name[0] || c->n == 1)
            return call_usage(c, 0, "a further mesh is named and described: mesh @%s x=2 y=4",
                              name[0] ? name : "name");
    }
    uint32_t off;
    const char *text = call_rest(c, first, &off);
    const struct source *src = c->src;
    diag_stage(c->d, "usage");
    if (!strncmp(text, "physical=", 9) && first == 0 && document_mesh(c->sh->doc)) { /* the axes stay */
        struct mesh axes = *document_mesh(c->sh->doc);
        axes.physical = (order_id){ 0 };
        text = arena_printf(&c->arena, "%s %s", mesh_words(c, &axes), text);
        src = NULL;
    }
    if (!mesh_parse(document_ir(c->sh->doc)->shardings, &c->arena, src, off, text, strlen(text), &m, c->d))
        return STATUS_USAGE;
    m.name = name;
    const struct strategy *before = change_begin(c);
    diag_stage(c->d, "shard");
    if (!edit_mesh(c->sh->doc, &m, c->line, c->d))
        return call_failed(c);
    if (c->json)
        json_mesh(c);
    else if (!c->sh->quiet)
        show_mesh(c, &m);
    return change_finish(c, before);
}

/* ---- annotations ----------------------------------------------------------------------------------- */

/* The targets of `shard T S`: a tensor, a leaf of one, or a selection of several. */
static bool read_targets(struct call *c, instr_id **list, int64_t *n, int64_t *leaf)
{
    *leaf = -1;
    const struct word *w = &c->args[0];
    bool leafy = w->n > 0 && w->text[w->n - 1] == '}' && strchr(w->text, '{');
    if (word_is_selection(w) && !leafy)
        return arg_select(c, 0, list, n);
    *list = ARENA_NEW(&c->arena, instr_id);
    *n = 1;
    return arg_tensor(c, 0, *list, leaf);
}

static shape_id target_shape(struct call *c, instr_id i, int64_t leaf)
{
    shape_id s = instr_at(document_module(c->sh->doc), i)->shape;
    return leaf >= 0 ? shape_leaf(document_ir(c->sh->doc), s, leaf) : s;
}

static bool warn_uneven(struct call *c, const struct annotation *a, shape_id shape)
{
    struct document *doc = c->sh->doc;
    const struct options *o = &document_strategy(doc)->options;
    const struct shape *v = shape_get(document_ir(doc), shape);
    if (o->uneven == UNEVEN_PAD || v->kind != SHAPE_ARRAY ||
        sharding_evenly(document_ir(doc)->shardings, a->sharding, v->rank, v->dims))
        return true;
    struct span at = call_span(c, 1);
    if (o->uneven == UNEVEN_ERROR)
        return diag_error(c->d, c->src, at, "%s does not divide evenly over %s (uneven=error)",
                          shape_text(c, shape), spelled(c, a->sharding));
    diag_warn(c->d, c->src, at, "%s does not divide evenly over %s", shape_text(c, shape),
              spelled(c, a->sharding));
    return true;
}

static int annotate_targets(struct call *c, enum annotation_kind kind)
{
    instr_id *list;
    int64_t n, leaf;
    if (!read_targets(c, &list, &n, &leaf))
        return call_failed(c);
    if (n > INT32_MAX)
        return call_usage(c, 0, "too many tensors at once");
    uint32_t off;
    const char *text = call_rest(c, 1, &off);
    struct annotation *all = ARENA_ARRAY(&c->arena, struct annotation, n);
    bool opened = false;
    for (int64_t k = 0; k < n; k++) {
        all[k] = (struct annotation){ .kind = kind, .target = list[k], .leaf = leaf };
        shape_id shape = target_shape(c, list[k], leaf);
        if (!read_spec(c, text, strlen(text), off, shape, &all[k].sharding, &all[k].open))
            return call_failed(c);
        if (all[k].open && kind == ANNOTATE_SHARD) {
            all[k].kind = ANNOTATE_CONSTRAIN;
            opened = true;
        }
        if (!warn_uneven(c, &all[k], shape))
            return call_failed(c);
    }
    const struct strategy *before = change_begin(c);
    diag_stage(c->d, "shard");
    if (!edit_annotate(c->sh->doc, (int)n, all, text, c->line, c->d))
        return call_failed(c);
    if (c->json) {
        json_put_int(&c->js, "annotated", n);
        json_put_string(&c->js, "sharding", hlo_text(c, all[0].sharding));
    } else if (!c->sh->quiet) {
        const char *name = leaf >= 0 ? c->args[0].text
                           : n == 1  ? tensor_name(c, list[0])
                                     : counted(&c->arena, n, "tensor");
        out(c, "%s: %s%s\n", name, spelled(c, all[0].sharding),
            opened                       ? ", as a constraint behind it (? leaves a dimension open)"
            : kind == ANNOTATE_CONSTRAIN ? ", as a constraint behind it"
                                         : "");
    }
    return change_finish(c, before);
}

int cmd_shard(struct call *c)
{
    return annotate_targets(c, ANNOTATE_SHARD);
}

int cmd_constrain(struct call *c)
{
    return annotate_targets(c, ANNOTATE_CONSTRAIN);
}

int cmd_unshard(struct call *c)
{
    const struct strategy *before = change_begin(c);
    if (call_option(c, "--module")) {
        if (c->n > 0)
            return call_usage(c, 0, "unshard --module takes no tensor");
        if (!edit_unshard_module(c->sh->doc, c->line, c->d))
            return call_failed(c);
        if (!c->json && !c->sh->quiet)
            out(c, "the module's own shardings are left out\n");
        return change_finish(c, before);
    }
    if (c->n == 0) {
        call_usage(c, -1, "which tensor?");
        diag_hint(c->d, "unshard T, or unshard --module for all that the dump brought");
        return STATUS_USAGE;
    }
    instr_id *list;
    int64_t n, leaf;
    if (!read_targets(c, &list, &n, &leaf))
        return call_failed(c);
    struct annotation *all = ARENA_ARRAY(&c->arena, struct annotation, n);
    for (int64_t k = 0; k < n; k++)
        all[k] = (struct annotation){ .kind = ANNOTATE_UNSHARD, .target = list[k], .leaf = leaf };
    diag_stage(c->d, "shard");
    if (!edit_annotate(c->sh->doc, (int)n, all, NULL, c->line, c->d))
        return call_failed(c);
    if (!c->json && !c->sh->quiet)
        out(c, "%s: no sharding of its own\n",
            n == 1 ? tensor_name(c, list[0]) : counted(&c->arena, n, "tensor"));
    return change_finish(c, before);
}

/* ---- back and forth -------------------------------------------------------------------------------- */

static int undo_all(struct call *c)
{
    const struct strategy *before = change_begin(c);
    int n = 0;
    for (; document_strategy(c->sh->doc)->parent; n++)
        if (!edit_undo(c->sh->doc, c->d))
            return call_failed(c);
    if (c->json)
        json_put_int(&c->js, "edits", n);
    else if (!c->sh->quiet)
        out(c, "undone: %s\n", counted(&c->arena, n, "edit"));
    return change_finish(c, before);
}

int cmd_undo(struct call *c)
{
    if (call_option(c, "--all"))
        return undo_all(c);
    const struct strategy *before = change_begin(c);
    if (!edit_undo(c->sh->doc, c->d))
        return call_failed(c);
    if (c->json)
        json_put_string(&c->js, "undone", before->command);
    else if (!c->sh->quiet)
        out(c, "undone: %s\n", before->command);
    return change_finish(c, before);
}

int cmd_redo(struct call *c)
{
    const struct strategy *before = change_begin(c);
    if (!edit_redo(c->sh->doc, c->d))
        return call_failed(c);
    const char *what = document_strategy(c->sh->doc)->command;
    if (c->json)
        json_put_string(&c->js, "redone", what);
    else if (!c->sh->quiet)
        out(c, "done again: %s\n", what);
    return change_finish(c, before);
}

int cmd_save(struct call *c)
{
    const char *name = c->args[0].text;
    if (!strcmp(name, "current") || !strcmp(name, "previous") || !name[0])
        return call_usage(c, 0, "'%s' always means something of its own", name);
    if (!edit_save(c->sh->doc, name, c->d))
        return call_failed(c);
    c->sh->unsaved = false;
    if (c->json)
        json_put_string(&c->js, "name", name);
    else if (!c->sh->quiet)
        out(c, "saved as %s: %s\n", name,
            counted(&c->arena, document_strategy(c->sh->doc)->nannotations, "annotation"));
    return STATUS_OK;
}

int cmd_restore(struct call *c)
{
    const struct strategy *before = change_begin(c);
    if (!edit_restore(c->sh->doc, c->args[0].text, c->d))
        return call_failed(c);
    if (!c->json && !c->sh->quiet)
        out(c, "restored: %s\n", c->args[0].text);
    int status = change_finish(c, before);
    c->sh->unsaved = false;
    return status;
}

static const char *strategy_mesh(struct call *c, const struct strategy *s)
{
    return s->nmeshes == 0 || s->meshes[0].naxes == 0 ? "-" : mesh_words(c, &s->meshes[0]);
}

static int depth_of(const struct strategy *s)
{
    int n = 0;
    for (; s->parent; s = s->parent)
        n++;
    return n;
}

/* The annotations in force as commands that make them again. */
static void list_annotations(struct call *c, const struct strategy *s)
{
    static const char *const verbs[] = { "shard", "constrain", "unshard" };
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        out(c, "  %s %s%s%s%s\n", verbs[a->kind], tensor_name(c, a->target),
            a->leaf >= 0 ? arena_printf(&c->arena, "{leaf %" PRId64 "}", a->leaf) : "",
            s->specs[k] ? " " : "", s->specs[k] ? s->specs[k] : "");
    }
}

int cmd_strategies(struct call *c)
{
    struct document *doc = c->sh->doc;
    const char *const *names;
    int n = document_saved(doc, &names);
    const struct strategy *now = document_strategy(doc);
    if (c->json) {
        json_put_open(&c->js, "strategies", '[');
        for (int k = 0; k < n; k++) {
            const struct strategy *s = document_saved_strategy(doc, names[k]);
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", names[k]);
            json_put_int(&c->js, "annotations", s->nannotations);
            json_put_string(&c->js, "mesh", strategy_mesh(c, s));
            json_put_bool(&c->js, "current", s->key == now->key);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        json_put_int(&c->js, "undo", depth_of(now));
        return STATUS_OK;
    }
    static const char *const heads[] = { "strategy", "mesh", ">annotations", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int k = 0; k < n; k++) {
        const struct strategy *s = document_saved_strategy(doc, names[k]);
        const char **row = table_row(&t);
        row[0] = names[k];
        row[1] = strategy_mesh(c, s);
        row[2] = arena_printf(&c->arena, "%d", s->nannotations);
        row[3] = s->key == now->key ? "current" : "";
    }
    const char **row = table_row(&t);
    row[0] = "(current)";
    row[1] = strategy_mesh(c, now);
    row[2] = arena_printf(&c->arena, "%d", now->nannotations);
    row[3] = arena_printf(&c->arena, "%s to undo", counted(&c->arena, depth_of(now), "edit"));
    table_print(c, &t, true);
    if (document_module(doc))
        list_annotations(c, now);
    return STATUS_OK;
}
