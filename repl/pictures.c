/* Words to scenes: what `plot` and the window's views show. */
#include "repl/pictures.h"

#include <stdlib.h>
#include <string.h>

#include "repl/costs.h"

/* ---- arguments ----------------------------------------------------------------------------------- */

/* The mesh of the document; without one a line of its devices, in *line. NULL: nobody knows of any. */
static const struct mesh *picture_mesh(struct picture *p, struct mesh *line)
{
    struct document *doc = p->c->sh->doc;
    const struct mesh *mesh = document_mesh(doc);
    if (mesh || document_devices(doc) <= 0)
        return mesh;
    *line = (struct mesh){ .name = "", .naxes = 1 };
    line->axes[0].name = "devices";
    line->axes[0].size = document_devices(doc);
    line->order = order_iota(document_ir(doc)->shardings, document_devices(doc));
    return line;
}

static sharding_id leaf_of(struct ir *ir, sharding_id s, int64_t leaf)
{
    const struct sharding *all = sharding_get(ir->shardings, s);
    if (s.i && leaf >= 0 && all->kind == SHARDING_TUPLE)
        s = leaf < all->nelems ? all->elems[leaf] : (sharding_id){ 0 };
    return s.i && !sharding_is_unknown(ir->shardings, s) ? s : sharding_replicated(ir->shardings);
}

sharding_id picture_sharding(struct call *c, const struct propagation *prop, instr_id i, int64_t leaf)
{
    const struct graph *g = prop->graph;
    uint32_t n = g->start[i.i + 1] - g->start[i.i];
    sharding_id s = n > 0 ? prop->final[g->list[g->start[i.i]].i] : (sharding_id){ 0 };
    return leaf_of(document_ir(c->sh->doc), s, leaf);
}

static bool tensor_at(struct picture *p, int k, struct picture_tensor *t, int64_t *leaf)
{
    struct call *c = p->c;
    struct document *doc = c->sh->doc;
    struct tensor_view v;
    if (!document_module(doc)) {
        call_usage(c, k, "no module is loaded");
        return false;
    }
    if (!arg_tensor(c, k, &t->instr, leaf) || !document_view(doc, t->instr, 0, &v, call_tick(c), c->d))
        return false;
    struct ir *ir = document_ir(doc);
    t->shape = instr_at(document_module(doc), t->instr)->shape;
    t->name = arena_strdup(p->a, tensor_name(c, t->instr));
    t->open = v.open;
    if (shape_get(ir, t->shape)->kind == SHAPE_TUPLE) {
        if (*leaf < 0) {
            call_usage(c, k, "%s is a tuple: plot one leaf, %s{0}", tensor_name(c, t->instr), c->args[k].text);
            return false;
        }
        t->shape = shape_leaf(ir, t->shape, *leaf);
    }
    t->sharding = leaf_of(ir, v.sharding, *leaf);
    if (shape_get(ir, t->shape)->kind == SHAPE_ARRAY)
        return true;
    call_usage(c, k, "%s is no array", tensor_name(c, t->instr));
    return false;
}

bool picture_tensor(struct picture *p, int k, struct picture_tensor *out)
{
    int64_t leaf;
    return tensor_at(p, k, out, &leaf);
}

static bool read_number(struct call *c, const char *option, const char *text, int64_t least, int64_t most, int64_t *v)
{
    size_t n = strlen(text);
    if (n > 0 && parse_i64(text, n, v) == n && *v >= least && *v <= most)
        return true;
    call_usage(c, -1, "%s%s: a number from %" PRId64 " to %" PRId64 " is wanted", option, text, least, most);
    return false;
}

static bool read_option(struct call *c, const char *option, int64_t least, int64_t most, int64_t *v)
{
    const char *text = call_option(c, option);
    return !text || read_number(c, arena_printf(&c->arena, "%s=", option), text, least, most, v);
}

/* dims=ROWS,COLUMNS and page=DIM:TILE,... */
static bool read_dims(struct call *c, int rank, struct layout_options *o, struct arena *a)
{
    const char *dims = call_option(c, "dims"), *page = call_option(c, "page");
    int64_t r, k;
    if (dims) {
        const char *comma = strchr(dims, ',');
        if (!comma) {
            call_usage(c, -1, "dims=ROWS,COLUMNS: two dimensions are shown, as dims=0,2");
            return false;
        }
        if (!read_number(c, "dims=", arena_strndup(a, dims, (size_t)(comma - dims)), 0, rank - 1, &r) ||
            !read_number(c, "dims=", comma + 1, 0, rank - 1, &k))
            return false;
        o->rows_dim = (int)r;
        o->cols_dim = (int)k;
    }
    if (!page)
        return true;
    int64_t *fixed = ARENA_ARRAY(a, int64_t, rank);
    for (int d = 0; d < rank; d++)
        fixed[d] = -1;
    for (const char *at = page; *at;) {
        size_t n = strcspn(at, ",");
        const char *colon = memchr(at, ':', n);
        int64_t tile;
        if (!colon || !read_number(c, "page=", arena_strndup(a, at, (size_t)(colon - at)), 0, rank - 1, &r) ||
            !read_number(c, "page=", arena_strndup(a, colon + 1, (size_t)(at + n - colon - 1)), 0, INT64_MAX, &tile)) {
            if (!colon)
                call_usage(c, -1, "page=DIM:TILE,.. says which tile of a folded dimension is shown");
            return false;
        }
        fixed[r] = tile;
        at += n + (at[n] == ',');
    }
    o->fixed = fixed;
    return true;
}

/* ---- layouts ------------------------------------------------------------------------------------- */

static bool layout_options_of(struct picture *p, int rank, struct layout_options *o)
{
    struct call *c = p->c;
    *o = (struct layout_options){ .rows_dim = -1, .cols_dim = -1, .device = -1 };
    o->max_tiles = p->most;
    o->max_pages = p->pages;
    o->width = p->width;
    o->narrow = p->text && !call_option(c, "tiles");
    o->ndevices = document_devices(c->sh->doc);
    if (!read_dims(c, rank, o, p->a) || !read_option(c, "tiles", 1, 1024, &o->max_tiles))
        return false;
    if (!call_option(c, "device"))
        return true;
    o->device_view = true;
    int64_t last = max_i64(o->ndevices, 1) - 1;
    return read_option(c, "device", 0, last, &o->device);
}

static bool wants_pair(struct call *c)
{
    return call_option(c, "--before") != NULL;
}

static struct scene *edit_pair(struct picture *p, const struct picture_tensor *t, int64_t leaf,
                               const struct mesh *mesh, const struct layout_options *o)
{
    struct call *c = p->c;
    const struct propagation *old = document_previous(c->sh->doc, call_tick(c));
    if (!old) {
        call_usage(c, -1, "there is no edit to look back from");
        return NULL;
    }
    return view_layout_pair(document_ir(c->sh->doc), mesh, t->name, t->shape, picture_sharding(c, old, t->instr, leaf),
                            t->sharding, "before the last edit", "now", o, p->a);
}

static struct scene *picture_layout(struct picture *p)
{
    struct call *c = p->c;
    struct picture_tensor t;
    struct mesh line;
    struct layout_options o;
    int64_t leaf;
    if (c->n < 2) {
        call_usage(c, 0, "which tensor?");
        diag_hint(c->d, "plot layout T [-o FILE.svg]");
        return NULL;
    }
    if (c->n > 2) {
        call_usage(c, 2, "one tensor is plotted at a time");
        return NULL;
    }
    if (!tensor_at(p, 1, &t, &leaf))
        return NULL;
    struct ir *ir = document_ir(c->sh->doc);
    if (!layout_options_of(p, shape_get(ir, t.shape)->rank, &o))
        return NULL;
    o.open = t.open;
    /* What is not tiled does not say how many devices there are: a line of them does. */
    bool tiled = sharding_is_tiled(ir->shardings, t.sharding);
    const struct mesh *mesh = tiled ? document_mesh(c->sh->doc) : picture_mesh(p, &line);
    if (wants_pair(c))
        return edit_pair(p, &t, leaf, mesh, &o);
    struct picture_values values = { 0 };
    if (call_option(c, "--values")) {
        if (!picture_values(p, &t, &values))
            return NULL;
        o.value = picture_value;
        o.value_context = &values;
        o.max_tiles = 1024;
    }
    struct scene *s = view_layout(ir, mesh, t.name, t.shape, t.sharding, &o, p->a);
    picture_values_free(&values);
    int columns = p->text && o.value && !c->all ? c->sh->columns : 0;
    if (columns > 0 && s->width > 6 * columns) {
        call_usage(c, -1, "the numbers of %s take %d columns, more than the terminal has", t.name, (int)(s->width / 6));
        diag_hint(c->d, "plot layout %s --values -o FILE.svg, or the window", t.name);
        return NULL;
    }
    return s;
}

static struct scene *picture_device(struct picture *p)
{
    enum { MOST_ROWS = 60 };
    struct call *c = p->c;
    const struct module *m = document_module(c->sh->doc);
    int64_t device, n = 0, total = 0, last = max_i64(document_devices(c->sh->doc), 1) - 1;
    if (!m || c->n != 2) {
        call_usage(c, c->n > 2 ? 2 : -1, m ? "plot device N: which device?" : "no module is loaded");
        return NULL;
    }
    if (!read_number(c, "", c->args[1].text, 0, last, &device))
        return NULL;
    const struct propagation *prop = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!prop)
        return NULL;
    struct ir *ir = document_ir(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct device_row *rows = ARENA_ARRAY(&c->arena, struct device_row, MOST_ROWS);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        shape_id shape = instr_at(m, entry->params[k])->shape;
        int64_t leaves = shape_get(ir, shape)->nleaves;
        const char *name = tensor_name(c, entry->params[k]);
        for (int64_t leaf = 0; leaf < leaves; leaf++) {
            bool tuple = shape_get(ir, shape)->kind == SHAPE_TUPLE;
            shape_id one = tuple ? shape_leaf(ir, shape, leaf) : shape;
            if (shape_get(ir, one)->kind != SHAPE_ARRAY || total++ >= MOST_ROWS)
                continue;
            rows[n].name = tuple ? arena_printf(p->a, "%s{%" PRId64 "}", name, leaf) : arena_strdup(p->a, name);
            rows[n].shape = one;
            rows[n++].sharding = picture_sharding(c, prop, entry->params[k], tuple ? leaf : -1);
        }
    }
    struct mesh line;
    return view_device(ir, picture_mesh(p, &line), device, total, rows, (int)n, p->width, p->a);
}

/* ---- reshards ------------------------------------------------------------------------------------ */

/* The collectives that serve T's sum, or the first move of T that the program makes. */
static struct scene *program_pair(struct picture *p)
{
    struct call *c = p->c;
    struct document *doc = c->sh->doc;
    struct picture_tensor t;
    int64_t leaf, n, total;
    const struct collective *list;
    if (!tensor_at(p, 0, &t, &leaf))
        return NULL;
    const struct program *prog = document_program(doc, call_tick(c), c->d);
    if (!prog || !document_collectives(doc, &list, &n, &total, call_tick(c), c->d))
        return NULL;
    struct layout_options o;
    struct mesh line;
    if (!layout_options_of(p, shape_get(document_ir(doc), t.shape)->rank, &o))
        return NULL;
    for (int64_t k = 0; k < n; k++) {
        bool sum = list[k].kind == OP_ALL_REDUCE || list[k].kind == OP_REDUCE_SCATTER;
        if (!sum || served_by(c, prog, list[k].instr).i != t.instr.i)
            continue;
        const char *name = collective_label(c, prog->module, &list[k]);
        sharding_id made = prog->node_sharding[instr_at(prog->module, list[k].instr)->operands[0].i];
        bool fits = made.i && sharding_get(document_ir(doc)->shardings, made)->kind == SHARDING_TILED &&
                    sharding_data_rank(document_ir(doc)->shardings, made) == shape_get(document_ir(doc), t.shape)->rank;
        o.partial = true;
        return view_layout_pair(document_ir(doc), picture_mesh(p, &line), t.name, t.shape,
                                fits && list[k].kind == OP_REDUCE_SCATTER ? made : t.sharding, t.sharding,
                                "as each device computes it: partial sums",
                                arena_printf(p->a, "behind %s, %s a device sends", name,
                                             nice_bytes(&c->arena, list[k].bytes)),
                                &o, p->a);
    }
    for (uint32_t k = 1; k <= module_ninstrs(prog->module); k++) {
        const struct node_note *note = &prog->notes[k];
        if (note->from.i && note->to.i && served_by(c, prog, (instr_id){ k }).i == t.instr.i &&
            sharding_get(document_ir(doc)->shardings, note->from)->kind != SHARDING_TUPLE)
            return view_layout_pair(document_ir(doc), picture_mesh(p, &line), t.name, t.shape, note->from, note->to,
                                    "as it is made", "as it is wanted", &o, p->a);
    }
    call_usage(c, 0, "nothing is resharded for %s", t.name);
    diag_hint(c->d, "plot reshard %s -> SHARDING draws what another sharding would move", c->args[0].text);
    return NULL;
}

/* What stands in front of the arrow: a tensor's name, or only its shape or sharding. */
static const char *moved_name(struct call *c)
{
    const struct word *w = &c->args[0];
    instr_id i;
    int64_t leaf;
    if (document_module(c->sh->doc) &&
        select_tensor(c->sh->doc, w->text, (size_t)w->n, c->src, w->off, &i, &leaf, NULL))
        return tensor_name(c, i);
    return "an array";
}

static struct scene *picture_reshard(struct picture *p)
{
    struct call *c = p->c;
    shape_id shape;
    sharding_id from, to;
    if (c->n < 2) {
        call_usage(c, 0, "reshard what?");
        diag_hint(c->d, "plot reshard T, plot reshard T -> B, plot reshard A -> B f32[8,16]");
        return NULL;
    }
    c->args++; /* the words behind `reshard` are those of the command of that name */
    c->n--;
    int arrow = find_arrow(c);
    if (arrow < 0 && c->n == 1)
        return program_pair(p);
    if (arrow <= 0) {
        call_usage(c, 0, "from what? plot reshard A -> B");
        return NULL;
    }
    if (reshard_operands(c, arrow, &shape, &from, &to))
        return NULL;
    struct document *doc = c->sh->doc;
    const struct collective *list;
    int64_t n, total;
    const struct program *prog = document_reshard_as(doc, shape, from, to, document_strategy(doc)->options.partition.best, &list, &n, &total, c->d);
    if (!prog)
        return NULL;
    struct str kinds = STR_IN(&c->arena);
    for (int64_t k = 0; k < n; k++)
        str_addf(&kinds, "%s%s", k ? ", " : "", op_name(list[k].kind));
    struct layout_options o;
    struct mesh line;
    if (!layout_options_of(p, shape_get(document_ir(doc), shape)->rank, &o))
        return NULL;
    const char *after = n ? arena_printf(p->a, "after: %s, %s a device sends", str_text(&kinds),
                                         nice_bytes(&c->arena, total))
                          : "after: no device sends anything";
    return view_layout_pair(document_ir(doc), picture_mesh(p, &line), moved_name(c), shape, from, to, "before", after, &o,
                            p->a);
}

/* ---- meshes -------------------------------------------------------------------------------------- */

bool picture_collective(struct call *c, const char *name, const struct program **program,
                        const struct collective **out)
{
    int64_t n, total;
    const struct collective *list;
    *program = document_program(c->sh->doc, call_tick(c), c->d);
    if (!*program || !document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return false;
    for (int64_t k = 0; k < n; k++)
        if (!strcmp(collective_label(c, (*program)->module, &list[k]), name)) {
            *out = &list[k];
            return true;
        }
    diag_stage(c->d, "name");
    diag_error(c->d, NULL, (struct span){ 0 }, "no collective is named '%s'", name);
    if (n > 0)
        diag_hint(c->d, "comms lists them: %s, ...", collective_label(c, (*program)->module, &list[0]));
    return false;
}

/* Who sends to whom in the chosen group: each to each in an all-to-all, else as `set collectives=` says. */
int64_t picture_pattern(struct picture *p, const struct collective *k, int64_t group, int64_t *pairs, const char **what)
{
    struct shardings *t = document_ir(p->c->sh->doc)->shardings;
    enum collective_algorithm how = document_strategy(p->c->sh->doc)->options.collectives;
    int64_t n = k->groups.dims[1], at = 0;
    bool each = k->kind == OP_ALL_TO_ALL || how == COLLECTIVES_DIRECT;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            /* a binomial tree: j hands to i what lies one bit farther from the root */
            bool tree = i > 0 && j == (i & (i - 1)), ring = j == (i + n - 1) % n;
            if (i == j || !(each || (how == COLLECTIVES_TREE ? tree : ring)))
                continue;
            pairs[2 * at] = tiling_device(t, k->groups, (int64_t[]){ group, j });
            pairs[2 * at++ + 1] = tiling_device(t, k->groups, (int64_t[]){ group, i });
        }
    *what = each ? "each sends to each" : how == COLLECTIVES_TREE ? "a tree, down" : "a ring";
    return at;
}

static void add_pattern(struct picture *p, const struct collective *k, struct mesh_options *o)
{
    enum { MOST_MEMBERS = 64, MOST_EACH = 8 };
    bool each = k->kind == OP_ALL_TO_ALL || document_strategy(p->c->sh->doc)->options.collectives == COLLECTIVES_DIRECT;
    int64_t n = k->groups.dims[1];
    if (n > (each ? MOST_EACH : MOST_MEMBERS) || n < 2)
        return;
    int64_t *pairs = ARENA_ARRAY(p->a, int64_t, 2 * n * n);
    o->pairs = pairs;
    o->npairs = picture_pattern(p, k, o->group, pairs, &o->pairs_title);
}

/* Where the mesh's devices sit on the chosen hardware; o: the highlighted axis, and sizes. */
static struct scene *picture_machine(struct picture *p, const struct mesh *mesh, const struct mesh_options *o)
{
    struct call *c = p->c;
    const struct hardware *h = costs_hardware(c);
    struct machine m;
    const char *former = diag_stage(c->d, "usage");
    bool ok = h && machine_make(h, mesh_devices(mesh), c->sh->nshape, c->sh->nshape ? c->sh->shape : NULL, &m, c->d);
    diag_stage(c->d, former);
    if (!ok)
        return NULL;
    m.places = mesh->physical;
    return view_machine(document_ir(c->sh->doc), mesh, &m, o->highlight, o, p->a);
}

static struct scene *picture_mesh_view(struct picture *p)
{
    struct call *c = p->c;
    struct mesh line;
    const struct mesh *mesh = document_mesh(c->sh->doc);
    struct mesh_options o = { .highlight = -1, .group = -1, .pairs_axis = -1, .max_shown = p->most, .max_pages = p->pages };
    o.width = p->width;
    o.tall = !p->text;
    const char *comm = call_option(c, "comm");
    if (!mesh && comm)
        mesh = picture_mesh(p, &line);
    if (!mesh) {
        call_usage(c, -1, "no mesh is named");
        diag_hint(c->d, "mesh data=2 model=4");
        return NULL;
    }
    if (c->n > 2) {
        call_usage(c, 2, "one axis is highlighted at a time");
        return NULL;
    }
    if (c->n > 1) {
        o.highlight = mesh_find_axis(mesh, c->args[1].text, c->args[1].n);
        if (o.highlight < 0) {
            call_usage(c, 1, "the mesh has no axis '%s'", c->args[1].text);
            return NULL;
        }
    }
    if (call_option(c, "--physical"))
        return picture_machine(p, mesh, &o);
    o.torus = call_option(c, "--torus") != NULL;
    o.order = call_option(c, "--order") != NULL;
    if (!comm)
        return view_mesh_full(document_ir(c->sh->doc), mesh, &o, p->a);
    const struct program *prog;
    const struct collective *k;
    if (!picture_collective(c, comm, &prog, &k))
        return NULL;
    if (k->kind == OP_COLLECTIVE_PERMUTE && k->pairs) {
        enum { MOST_PAIRS = 4096 };
        int64_t *pairs = ARENA_ARRAY(p->a, int64_t, 2 * MOST_PAIRS + 2);
        o.npairs = list_pairs(c, k->pairs, MOST_PAIRS, pairs);
        if (o.npairs < 0) {
            call_usage(c, -1, "%s has too many pairs to draw", comm);
            return NULL;
        }
        o.pairs = pairs;
        o.pairs_title = arena_strdup(p->a, comm);
        return view_mesh_full(document_ir(c->sh->doc), mesh, &o, p->a);
    }
    if (k->groups.naxes != 2 || mesh_devices(mesh) != k->groups.dims[0] * k->groups.dims[1]) {
        call_usage(c, -1, "%s has no groups of equal size over the mesh", comm);
        return NULL;
    }
    o.groups = &k->groups;
    o.groups_title = arena_strdup(p->a, comm);
    if (!read_option(c, "group", 0, k->groups.dims[0] - 1, &o.group))
        return NULL;
    if (o.group >= 0)
        add_pattern(p, k, &o);
    return view_mesh_full(document_ir(c->sh->doc), mesh, &o, p->a);
}

/* The words behind the view's name, as behind a command of that name. */
static struct picture *rest(struct picture *p)
{
    p->c->args++;
    p->c->n--;
    return p;
}

static struct scene *graph_words(struct picture *p)
{
    return picture_graph(rest(p));
}

static struct scene *hops_words(struct picture *p)
{
    return picture_hops(rest(p));
}

static struct scene *memory_words(struct picture *p)
{
    return picture_memory(rest(p));
}

static struct scene *timeline_words(struct picture *p)
{
    return picture_timeline(rest(p));
}

struct scene *picture_scene(struct picture *p)
{
    static const struct {
        const char *word;
        struct scene *(*make)(struct picture *p);
    } views[] = { { "layout", picture_layout },
                  { "mesh", picture_mesh_view },
                  { "device", picture_device },
                  { "graph", graph_words },
                  { "hops", hops_words },
                  { "timeline", timeline_words },
                  { "memory", memory_words },
                  { "reshard", picture_reshard } };
    for (size_t k = 0; k < COUNTOF(views); k++)
        if (!strcmp(p->c->args[0].text, views[k].word))
            return views[k].make(p);
    call_usage(p->c, 0, "'%s' is no view", p->c->args[0].text);
    diag_hint(p->c->d, "layout T, mesh [AXIS], graph [T], device N, reshard T, hops COLLECTIVE, timeline, memory");
    return NULL;
}
