#include "viz/graph.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "viz/palette.h"
#include "viz/views.h"

enum { CHIP_W = 5, PAD = 6, DOT_MS = 8000, MOST_AXES = 6 };

/* ---- DOT ----------------------------------------------------------------------------------------- */

/* Between quotes; what a terminal must not see does not get into files either. */
static void quoted(struct str *out, const char *text)
{
    struct str safe = STR_IN(out->arena);
    str_add_safe(&safe, text, strlen(text));
    str_addc(out, '"');
    for (const char *p = str_text(&safe); *p; p++) {
        if (*p == '"' || *p == '\\')
            str_addc(out, '\\');
        str_addc(out, *p);
    }
    str_addc(out, '"');
}

/* The text for people; for our own drawing an empty table as large as we will draw it. */
static void label_or_room(struct str *out, const char *text, bool label)
{
    if (label) {
        quoted(out, text);
        return;
    }
    str_addf(out, "<<table border=\"0\" cellspacing=\"0\" fixedsize=\"true\" width=\"%d\" height=\"%d\"><tr><td></td></tr></table>>",
             CELL_W * scene_text_columns(text) + CELL_W, CELL_H + 2);
}

static int node_lines(const struct graph_node *n)
{
    return 1 + (n->op != NULL) + (n->sharding != NULL) + (n->note != NULL) + (n->more > 0);
}

static const char *more_text(const struct graph_node *n, struct arena *a)
{
    return arena_printf(a, "+ %" PRId64 " more around it", n->more);
}

static int node_columns(const struct graph_node *n, struct arena *a)
{
    int most = scene_text_columns(n->name);
    const char *const lines[] = { n->op, n->sharding, n->note, n->more > 0 ? more_text(n, a) : NULL };
    for (size_t k = 0; k < COUNTOF(lines); k++)
        if (lines[k] && scene_text_columns(lines[k]) > most)
            most = scene_text_columns(lines[k]);
    return most;
}

static double node_width(const struct graph_view *g, const struct graph_node *n, struct arena *a)
{
    int axes[MOST_AXES];
    return CELL_W * node_columns(n, a) + 2 * PAD + CHIP_W * spelled_axes(g->mesh, n->sharding, axes, MOST_AXES);
}

static double node_height(const struct graph_node *n)
{
    return CELL_H * node_lines(n) + PAD;
}

static const char *edge_text(const struct graph_edge *e, struct arena *a)
{
    if (e->label)
        return e->label;
    return e->count > 1 ? arena_printf(a, "%" PRId64 " values", e->count) : NULL;
}

/* Hundredths of an inch, without the locale's decimal sign. */
static void inches(struct str *out, const char *name, double points)
{
    int64_t h = (int64_t)(points * 100 / 72 + 0.999);
    str_addf(out, " %s=%" PRId64 ".%02d", name, h / 100, (int)(h % 100));
}

/* labels: for people; without them only sizes, for our own drawing. */
static void add_node(const struct graph_view *g, int k, bool labels, struct str *out)
{
    const struct graph_node *n = &g->nodes[k];
    str_addf(out, "n%d [", k);
    if (!labels) {
        str_adds(out, "label=\"\"");
        inches(out, "width", node_width(g, n, out->arena));
        inches(out, "height", node_height(n));
        str_adds(out, "]\n");
        return;
    }
    struct str label = STR_IN(out->arena);
    str_adds(&label, n->name);
    if (n->op)
        str_addf(&label, "\n%s", n->op);
    if (n->sharding)
        str_addf(&label, "\n%s", n->sharding);
    if (n->note)
        str_addf(&label, "\n%s", n->note);
    if (n->more > 0)
        str_addf(&label, "\n%s", more_text(n, out->arena));
    struct str q = STR_IN(out->arena);
    quoted(&q, str_text(&label));
    str_adds(out, "label=");
    /* add_safe has made \n of the line ends of our own: dot wants just that */
    for (const char *p = str_text(&q); *p; p++) {
        if (!strncmp(p, "\\\\x0a", 5)) {
            str_adds(out, "\\n");
            p += 4;
        } else {
            str_addc(out, *p);
        }
    }
    int axes[MOST_AXES], naxes = spelled_axes(g->mesh, n->sharding, axes, MOST_AXES);
    if (naxes > 0) {
        str_adds(out, " style=\"filled,rounded\" fillcolor=\"");
        str_addf(out, "#%06x\"", palette_mix(palette_axis(axes[0]), 0xffffff, 70));
    }
    if (n->chosen)
        str_adds(out, " penwidth=2.5");
    if (n->note)
        str_addf(out, " color=\"#%06x\"%s", palette_paint(PAINT_MOVE, false), n->avoidable ? " penwidth=3" : "");
    if (n->collapsed)
        str_adds(out, " peripheries=2");
    str_adds(out, "]\n");
}

static void add_edge(const struct graph_view *g, int k, struct str *out, bool labels)
{
    const struct graph_edge *e = &g->edges[k];
    const char *text = edge_text(e, out->arena);
    str_addf(out, "n%d -> n%d [id=\"e%d\"", e->from, e->to, k);
    if (text) {
        str_adds(out, " label=");
        label_or_room(out, text, labels);
    }
    if (labels && e->label)
        str_addf(out, " color=\"#%06x\" fontcolor=\"#%06x\" penwidth=%d", palette_paint(PAINT_MOVE, false),
                 palette_paint(PAINT_MOVE, false), e->avoidable ? 4 : 2);
    if (labels && e->dashed)
        str_adds(out, " style=dashed");
    str_adds(out, "]\n");
}

static void write_dot(const struct graph_view *g, bool labels, struct str *out)
{
    str_adds(out, "digraph gspmd {\n");
    if (labels) {
        str_adds(out, "label=");
        quoted(out, g->title);
        str_adds(out, "\nlabelloc=t\n");
    }
    str_addf(out,
             "nodesep=0.25\nranksep=0.4\nfontname=\"monospace\"\nfontsize=10\n"
             "node [shape=box%s fontname=\"monospace\" fontsize=10]\n"
             "edge [fontname=\"monospace\" fontsize=10 arrowsize=0.7]\n",
             labels ? " style=rounded" : " fixedsize=true");
    for (int c = 0; c < g->nclusters; c++) {
        bool any = false;
        for (int k = 0; k < g->nnodes; k++) {
            if (g->nodes[k].cluster != c)
                continue;
            if (!any) {
                str_addf(out, "subgraph cluster_%d {\nlabel=", c);
                label_or_room(out, g->clusters[c].label, labels);
                str_adds(out, "\n");
            }
            any = true;
            add_node(g, k, labels, out);
        }
        str_adds(out, any ? "}\n" : "");
    }
    for (int k = 0; k < g->nnodes; k++)
        if (g->nodes[k].cluster < 0)
            add_node(g, k, labels, out);
    for (int k = 0; k < g->nedges; k++)
        add_edge(g, k, out, labels);
    str_adds(out, "}\n");
}

void graph_dot(const struct graph_view *g, struct str *out)
{
    write_dot(g, true, out);
}

/* ---- what dot answers ---------------------------------------------------------------------------- */

struct drawing {
    const struct graph_view *g;
    struct scene *s;
    double high, top; /* of dot's drawing, whose y runs upwards; where it begins in the scene */
};

static const char *string_of(const cJSON *object, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

/* Numbers parted by commas and blanks; up to most of them. */
static int numbers(const char *text, double *out, int most)
{
    int n = 0;
    while (*text && n < most) {
        char *end;
        double v = strtod(text, &end);
        if (end == text)
            break;
        out[n++] = v;
        text = end + strspn(end, ", ");
    }
    return n;
}

static double flip(const struct drawing *d, double y)
{
    return d->top + d->high - y;
}

/* A red frame around words that tell of data which need not move. */
static void frame_words(struct drawing *d, double x, double y, const char *text)
{
    struct scene_item *box = scene_add(d->s, SCENE_BOX, ROLE_MOVE);
    box->x = x - 3;
    box->y = y - 1;
    box->w = CELL_W * scene_text_columns(text) + 6;
    box->h = CELL_H + 2;
    box->rounded = true;
    box->hint = "avoidable: blame tells which annotation saves it";
}

static void draw_node(struct drawing *d, int k, double x, double y)
{
    const struct graph_node *n = &d->g->nodes[k];
    struct arena *a = d->s->arena;
    int axes[MOST_AXES], naxes = spelled_axes(d->g->mesh, n->sharding, axes, MOST_AXES);
    double w = node_width(d->g, n, a), h = node_height(n);
    x -= w / 2;
    y -= h / 2;
    struct scene_item *box = scene_add(d->s, SCENE_BOX, ROLE_NODE);
    box->x = x;
    box->y = y;
    box->w = w;
    box->h = h;
    box->axis = naxes > 0 ? axes[0] : -1;
    box->rounded = !n->collapsed;
    box->state = n->chosen ? STATE_CHOSEN : 0;
    box->word = n->word;
    box->hint = n->hint;
    for (int i = 0; i < naxes; i++) { /* a bar an axis: the node's own colour is the first one's */
        struct scene_item *chip = scene_add(d->s, SCENE_BOX, ROLE_AXIS);
        chip->x = x + 1.5 + i * CHIP_W;
        chip->y = y + 3;
        chip->w = CHIP_W - 1;
        chip->h = h - 6;
        chip->axis = axes[i];
    }
    double left = x + PAD + naxes * CHIP_W, line = y + PAD / 2.0;
    scene_put_text(d->s, ROLE_NODE, left, line, ALIGN_LEFT, n->name)->bold = true;
    if (n->op)
        scene_put_text(d->s, ROLE_RULER, left, line += CELL_H, ALIGN_LEFT, n->op);
    if (n->sharding)
        scene_add_spelled(d->s, ROLE_NODE, d->g->mesh, n->sharding, left, line += CELL_H, false);
    if (n->note && n->avoidable)
        frame_words(d, left, line + CELL_H, n->note);
    if (n->note)
        scene_put_text(d->s, ROLE_MOVE, left, line += CELL_H, ALIGN_LEFT, n->note);
    if (n->more > 0)
        scene_put_text(d->s, ROLE_LEGEND, left, line + CELL_H, ALIGN_LEFT, more_text(n, a));
}

static void draw_cluster(struct drawing *d, const cJSON *object)
{
    double bb[4];
    int c = atoi(string_of(object, "name") + strlen("cluster_"));
    if (numbers(string_of(object, "bb"), bb, 4) != 4 || c < 0 || c >= d->g->nclusters)
        return;
    struct scene_item *box = scene_add(d->s, SCENE_BOX, ROLE_CLUSTER);
    box->x = bb[0];
    box->y = flip(d, bb[3]);
    box->w = bb[2] - bb[0];
    box->h = bb[3] - bb[1];
    box->rounded = true;
    double at[2];
    if (numbers(string_of(object, "lp"), at, 2) == 2)
        scene_put_text(d->s, ROLE_RULER, at[0], flip(d, at[1]) - CELL_H / 2.0, ALIGN_CENTER, d->g->clusters[c].label);
}

static double thickness(const struct graph_edge *e)
{
    double t = 1;
    for (int64_t b = e->bytes; b > 1024; b /= 16) /* by the logarithm of the bytes */
        t += 0.6;
    return e->label ? t + 0.6 : 1;
}

/* dot puts the labels of edges between the same clusters one on the other: the next free line then; a pointer
 * over the edge is told in any case. */
static void add_edge_label(struct drawing *d, const struct graph_edge *e, double x, double y, const char *text)
{
    struct scene_item t = { .kind = SCENE_TEXT, .role = e->label ? ROLE_MOVE : ROLE_RULER, .align = ALIGN_CENTER,
                            .device = -1, .axis = -1, .size = 10, .x = x, .text = text };
    for (int line = 0; line < 7; line++) {
        t.y = y + (line % 2 ? -1 : 1) * (line + 1) / 2 * (CELL_H + 1);
        if (scene_is_free(d->s, &t)) {
            if (e->avoidable)
                frame_words(d, scene_text_rect(&t).x, t.y, text);
            vec_push(d->s->arena, &d->s->items, t);
            return;
        }
    }
}

/* pos: "e,X,Y x,y x,y ...": the arrow's tip, then the pieces of the curve. */
static void draw_edge(struct drawing *d, const cJSON *object)
{
    enum { MOST = 400 };
    const char *pos = string_of(object, "pos"), *id = string_of(object, "id");
    int k = id[0] == 'e' ? atoi(id + 1) : -1;
    double tip[2], v[MOST], at[2];
    if (k < 0 || k >= d->g->nedges)
        return;
    const struct graph_edge *e = &d->g->edges[k];
    bool tipped = !strncmp(pos, "e,", 2);
    if (tipped) {
        if (numbers(pos + 2, tip, 2) != 2)
            return;
        pos += strcspn(pos, " ");
        pos += *pos == ' ';
    }
    int n = numbers(pos, v, MOST) / 2;
    if (n < 4)
        return;
    n -= (n - 1) % 3;
    double *points = ARENA_ARRAY(d->s->arena, double, 2 * n);
    for (int i = 0; i < n; i++) {
        points[2 * i] = v[2 * i];
        points[2 * i + 1] = flip(d, v[2 * i + 1]);
    }
    enum scene_role role = e->label ? ROLE_MOVE : ROLE_EDGE;
    struct scene_item *path = scene_add(d->s, SCENE_PATH, role);
    path->points = points;
    path->npoints = n;
    path->curve = true;
    path->thick = thickness(e);
    path->dashed = e->dashed;
    path->hint = e->label;
    if (tipped) {
        double *last = ARENA_ARRAY(d->s->arena, double, 4);
        last[0] = points[2 * n - 2];
        last[1] = points[2 * n - 1];
        last[2] = tip[0];
        last[3] = flip(d, tip[1]);
        struct scene_item *head = scene_add(d->s, SCENE_PATH, role);
        head->points = last;
        head->npoints = 2;
        head->thick = path->thick;
        head->arrow = true;
    }
    const char *text = edge_text(e, d->s->arena);
    if (text && numbers(string_of(object, "lp"), at, 2) == 2)
        add_edge_label(d, e, at[0], flip(d, at[1]) - CELL_H / 2.0, text);
}

static bool draw_answer(struct drawing *d, const cJSON *root)
{
    double bb[4], at[2];
    const cJSON *object;
    if (numbers(string_of(root, "bb"), bb, 4) != 4)
        return false;
    d->high = bb[3];
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(root, "objects"))
        if (!strncmp(string_of(object, "name"), "cluster_", 8))
            draw_cluster(d, object);
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(root, "objects")) {
        const char *name = string_of(object, "name");
        int k = name[0] == 'n' ? atoi(name + 1) : -1;
        if (k >= 0 && k < d->g->nnodes && numbers(string_of(object, "pos"), at, 2) == 2)
            draw_node(d, k, at[0], flip(d, at[1]));
    }
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(root, "edges"))
        draw_edge(d, object);
    return true;
}

/* ---- views --------------------------------------------------------------------------------------- */

static void add_title(struct scene *s, const char *title)
{
    struct scene_item *t = scene_add(s, SCENE_TEXT, ROLE_CAPTION);
    t->text = title;
    t->bold = true;
    s->title = title;
}

static void add_notes(struct scene *s, const struct graph_view *g)
{
    bool moves = false, dashed = false, collapsed = false, avoidable = false;
    bool used[MESH_MAX_AXES] = { false };
    int axes[MOST_AXES];
    for (int k = 0; k < g->nedges; k++) {
        moves |= g->edges[k].label != NULL;
        dashed |= g->edges[k].dashed;
        avoidable |= g->edges[k].avoidable;
    }
    for (int k = 0; k < g->nnodes; k++) {
        moves |= g->nodes[k].note != NULL;
        collapsed |= g->nodes[k].collapsed;
        avoidable |= g->nodes[k].avoidable;
        int n = spelled_axes(g->mesh, g->nodes[k].sharding, axes, MOST_AXES);
        for (int i = 0; i < n; i++)
            used[axes[i]] = true;
    }
    double y = s->height + CELL_H, x = 0;
    for (int k = 0; g->mesh && k < g->mesh->naxes; k++) {
        if (!used[k])
            continue;
        struct scene_item *chip = scene_add(s, SCENE_BOX, ROLE_AXIS);
        chip->x = x;
        chip->y = y;
        chip->w = 2 * CELL_W;
        chip->h = CELL_H - 2;
        chip->axis = k;
        struct scene_item *t = scene_add(s, SCENE_TEXT, ROLE_LEGEND);
        t->x = x + 3 * CELL_W;
        t->y = y;
        t->text = arena_printf(s->arena, "split by %s", g->mesh->axes[k].name);
        t->axis = k;
        x += CELL_W * (scene_text_columns(t->text) + 6);
    }
    if (x > 0)
        y += CELL_H;
    const char *const notes[] = { moves ? "red: data moves between devices there, bytes a device sends" : NULL,
                                  avoidable ? "red frame: avoidable, another annotation sends less (blame tells which)" : NULL,
                                  dashed ? "dashed: a call" : NULL,
                                  collapsed ? "square corners: many instructions in one box; xN: N computations alike" : NULL };
    for (size_t k = 0; k < COUNTOF(notes); k++) {
        if (!notes[k])
            continue;
        struct scene_item *t = scene_add(s, SCENE_TEXT, ROLE_LEGEND);
        t->y = y;
        t->text = notes[k];
        y += CELL_H;
    }
    scene_measure(s);
}

/* GSPMD_DOT_MS: for tests, and for slow machines. */
static int patience(void)
{
    const char *given = getenv("GSPMD_DOT_MS");
    int ms = given ? atoi(given) : 0;
    return ms > 0 ? ms : DOT_MS;
}

struct scene *view_graph(const struct graph_view *g, struct tick *tick, struct arena *a, struct diag *d)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str text = STR_IN(&tmp), json = STR_IN(&tmp);
    write_dot(g, false, &text);
    if (!dot_run(str_text(&text), text.n, patience(), tick, &json, d)) {
        arena_close(&tmp);
        return NULL;
    }
    struct drawing drawing = { .g = g, .s = scene_new(a), .top = 2 * CELL_H };
    cJSON *root = cJSON_ParseWithLength(json.s, json.n);
    bool ok = root && draw_answer(&drawing, root);
    cJSON_Delete(root);
    arena_close(&tmp);
    if (!ok) {
        const char *before = diag_stage(d, "limit");
        diag_error(d, NULL, (struct span){ 0 }, "dot gave an answer that is no graph");
        diag_stage(d, before);
        return NULL;
    }
    add_title(drawing.s, g->title);
    scene_measure(drawing.s);
    add_notes(drawing.s, g);
    return drawing.s;
}

/* ---- as a list ------------------------------------------------------------------------------------- */

enum { ROOM = 80 }; /* columns of a terminal */

struct list {
    struct scene *s;
    const struct graph_view *g;
    int widest[3];
    bool narrow, narrower; /* names, and then shardings, have lines of their own */
    double y;
};

static struct scene_item *list_text(struct list *l, enum scene_role role, double x, const char *text)
{
    struct scene_item *t = scene_add(l->s, SCENE_TEXT, role);
    t->x = x;
    t->y = l->y;
    t->text = scene_short(l->s->arena, text, ROOM - (int)(x / CELL_W));
    return t;
}

/* Cut behind commas where a terminal ends. */
static void list_wrapped(struct list *l, enum scene_role role, double x, const char *text)
{
    int room = ROOM - (int)(x / CELL_W);
    while (scene_text_columns(text) > room) {
        const char *cut = NULL;
        int columns = 0;
        for (const char *p = text; *p && columns < room; p++) {
            columns += ((unsigned char)*p & 0xc0) != 0x80;
            if (p[0] == ',' && p[1] == ' ')
                cut = p + 2;
        }
        if (!cut)
            break;
        list_text(l, role, x, arena_strndup(l->s->arena, text, (size_t)(cut - text)));
        l->y += CELL_H;
        text = cut;
    }
    list_text(l, role, x, text);
}

/* "<- a, b (all-gather 96 bytes)   + 2 more"; "": nothing. */
static const char *list_rest(const struct list *l, int k)
{
    const struct graph_node *n = &l->g->nodes[k];
    struct str line = STR_IN(l->s->arena);
    for (int e = 0; e < l->g->nedges; e++) {
        const struct graph_edge *x = &l->g->edges[e];
        if (x->to == k)
            str_addf(&line, "%s%s%s%s%s", line.n ? ", " : "<- ", l->g->nodes[x->from].name, x->label ? " (" : "",
                     x->label ? x->label : "", x->label ? ")" : "");
    }
    if (n->note)
        str_addf(&line, "%s%s", line.n ? "   " : "", n->note);
    if (n->more > 0)
        str_addf(&line, "%s+ %" PRId64 " more", line.n ? "   " : "", n->more);
    return str_text(&line);
}

static void list_node(struct list *l, int k)
{
    const struct graph_node *n = &l->g->nodes[k];
    struct arena *a = l->s->arena;
    double x = 2 * CELL_W;
    list_text(l, ROLE_NODE, n->chosen ? 0 : x, n->chosen ? arena_printf(a, "* %s", n->name) : n->name)->bold = n->chosen;
    x = l->narrow ? 4 * CELL_W : x + CELL_W * (l->widest[0] + 2);
    l->y += l->narrow && (n->op || n->sharding) ? CELL_H : 0;
    if (n->op)
        list_text(l, ROLE_RULER, x, n->op);
    l->y += l->narrower && n->op && n->sharding ? CELL_H : 0;
    x += l->widest[1] && !l->narrower ? CELL_W * (l->widest[1] + 2) : 0;
    if (n->sharding)
        scene_add_spelled(l->s, ROLE_NODE, l->g->mesh, n->sharding, x, l->y, false);
    x += l->widest[2] ? CELL_W * (l->widest[2] + 2) : 0;
    const char *rest = list_rest(l, k);
    if (rest[0]) {
        if (x + CELL_W * scene_text_columns(rest) > ROOM * CELL_W || (l->narrower && (n->op || n->sharding))) {
            x = 6 * CELL_W; /* on a line of its own, where a terminal shows it */
            l->y += CELL_H;
        }
        list_wrapped(l, n->note ? ROLE_MOVE : ROLE_LABEL, x, rest);
    }
    l->y += CELL_H;
}

/* A line a node: its name, what it is, how it is split, whence its operands come. */
struct scene *view_graph_list(const struct graph_view *g, struct arena *a)
{
    struct list l = { .s = scene_new(a), .g = g };
    add_title(l.s, scene_short(a, g->title, ROOM));
    for (int k = 0; k < g->nnodes; k++) {
        const char *const cells[3] = { g->nodes[k].name, g->nodes[k].op, g->nodes[k].sharding };
        for (int i = 0; i < 3; i++)
            if (cells[i] && scene_text_columns(cells[i]) > l.widest[i])
                l.widest[i] = scene_text_columns(cells[i]);
    }
    l.narrow = 2 + l.widest[0] + 2 + l.widest[1] + 2 + l.widest[2] > ROOM;
    l.narrower = l.narrow && 4 + l.widest[1] + 2 + l.widest[2] > ROOM;
    l.y = 2 * CELL_H;
    for (int k = 0; k < g->nnodes; k++)
        list_node(&l, k);
    scene_measure(l.s);
    l.s->height = l.y;
    return l.s;
}
