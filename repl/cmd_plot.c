/* plot: pictures as text and SVG. */
#include <string.h>

#include "repl/commands.h"
#include "viz/views.h"

static struct scene *layout_scene(struct call *c)
{
    struct document *doc = c->sh->doc;
    if (c->n < 2) {
        call_usage(c, 0, "which tensor?");
        diag_hint(c->d, "plot layout T [-o FILE.svg]");
        return NULL;
    }
    if (!document_module(doc)) {
        call_usage(c, 1, "no module is loaded");
        return NULL;
    }
    instr_id i;
    int64_t leaf;
    struct tensor_view v;
    if (!arg_tensor(c, 1, &i, &leaf) || !document_view(doc, i, 0, &v, call_tick(c), c->d))
        return NULL;
    struct ir *ir = document_ir(doc);
    shape_id shape = instr_at(document_module(doc), i)->shape;
    sharding_id s = v.sharding;
    if (shape_get(ir, shape)->kind == SHAPE_TUPLE) {
        if (leaf < 0) {
            call_usage(c, 1, "%s is a tuple: plot one leaf, %s{0}", tensor_name(c, i),
                       c->args[1].text);
            return NULL;
        }
        const struct sharding *all = sharding_get(ir->shardings, s);
        shape = shape_leaf(ir, shape, leaf);
        if (all->kind == SHARDING_TUPLE && leaf < all->nelems)
            s = all->elems[leaf];
    }
    if (shape_get(ir, shape)->kind != SHAPE_ARRAY) {
        call_usage(c, 1, "%s is no array", tensor_name(c, i));
        return NULL;
    }
    if (!s.i || sharding_is_unknown(ir->shardings, s))
        s = sharding_replicated(ir->shardings);
    /* What is not tiled does not say how many devices there are: a line of them does. */
    const struct mesh *mesh = document_mesh(doc);
    struct mesh line = { .name = "", .naxes = 1 };
    if (!mesh && document_devices(doc) > 0 && !sharding_is_tiled(ir->shardings, s)) {
        line.axes[0].name = "devices";
        line.axes[0].size = document_devices(doc);
        line.order = order_iota(ir->shardings, document_devices(doc));
        mesh = &line;
    }
    struct layout_options o = { .rows_dim = -1, .cols_dim = -1 };
    return view_layout(ir, mesh, tensor_name(c, i), shape, s, &o, &c->arena);
}

static struct scene *mesh_scene(struct call *c)
{
    const struct mesh *mesh = document_mesh(c->sh->doc);
    int highlight = -1;
    if (!mesh) {
        call_usage(c, -1, "no mesh is named");
        diag_hint(c->d, "mesh data=2 model=4");
        return NULL;
    }
    if (c->n > 1) {
        highlight = mesh_find_axis(mesh, c->args[1].text, c->args[1].n);
        if (highlight < 0) {
            call_usage(c, 1, "the mesh has no axis '%s'", c->args[1].text);
            return NULL;
        }
    }
    return view_mesh(document_ir(c->sh->doc), mesh, highlight, &c->arena);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static bool render(struct call *c, const struct scene *s, const char *file, struct str *text)
{
    if (file && ends_with(file, ".svg")) {
        scene_svg(s, text);
        return true;
    }
    if (file && !ends_with(file, ".txt")) {
        call_usage(c, -1, "%s: pictures are written as .svg or .txt", file);
        return false;
    }
    struct text_options o = { .color = !file && !c->json && c->sh->color };
    if (!file && c->sh->columns > 0)
        o.columns = c->sh->columns;
    scene_text(s, &o, text);
    return true;
}

int cmd_plot(struct call *c)
{
    const char *what = c->args[0].text, *file = call_option(c, "-o");
    if (file && (c->sh->safe || c->sh->sealed))
        return call_usage(c, -1, "--safe: plot writes no file");
    struct scene *s = NULL;
    if (!strcmp(what, "layout")) {
        s = layout_scene(c);
    } else if (!strcmp(what, "mesh")) {
        s = mesh_scene(c);
    } else {
        call_usage(c, 0, "'%s' is no view", what);
        diag_hint(c->d, "plot layout T, plot mesh [AXIS]");
    }
    struct str text = STR_IN(&c->arena);
    if (!s || !render(c, s, file, &text))
        return call_failed(c);
    if (!file) {
        if (c->json)
            json_put_string(&c->js, "text", str_text(&text));
        else
            str_add(&c->out, text.s ? text.s : "", text.n);
        return STATUS_OK;
    }
    if (!write_file(c, file, text.s ? text.s : "", text.n))
        return STATUS_RESOURCE;
    if (c->json)
        json_put_string(&c->js, "file", file);
    else if (!c->sh->quiet)
        out(c, "%s: %s\n", file, nice_bytes(&c->arena, (int64_t)text.n));
    return STATUS_OK;
}
