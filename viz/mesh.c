/* A mesh as a grid: the last axis runs to the right, the one before it down, further axes are pages;
 * each cell has its device's number. A highlighted axis has its groups joined by lines; a torus has all
 * links of neighbours, those that wrap around too; the groups of a collective have a colour each. Long
 * axes show the first few and the last. */
#include <string.h>

#include "viz/views.h"

enum { MAX_PAGES = 4 };

struct grid_axis {
    int axis; /* of the mesh; -1: a made-up one of size 1 */
    int64_t size;
    int n;
    int64_t *at;
};

/* Where a device's cell is. */
struct spot {
    int64_t device;
    double x, y;
};

struct mesh_picture {
    struct scene *s;
    struct ir *ir;
    const struct mesh *m;
    const struct mesh_options *o;
    struct grid_axis rows, cols;
    int64_t index[MESH_MAX_AXES];
    double step_w, step_h, box_w, box_h;
    bool moved, wrapped; /* a cell's place was told; a link wraps around */
    VEC(struct spot) spots;
};

static struct grid_axis axis_of(struct arena *a, const struct mesh *m, int axis, int64_t most)
{
    struct grid_axis g = { .axis = axis, .size = axis >= 0 ? m->axes[axis].size : 1 };
    g.n = scene_shown(a, g.size, most, &g.at);
    return g;
}

static struct scene_item *put(struct scene *s, double x, double y, enum scene_align align, int axis,
                              enum scene_role role, const char *text)
{
    struct scene_item *t = scene_put_text(s, role, x, y, align, text);
    t->axis = axis;
    t->bold = role == ROLE_CAPTION;
    return t;
}

static int64_t cell_at(const struct mesh *m, const int64_t *index)
{
    int64_t cell = 0;
    for (int k = 0; k < m->naxes; k++)
        cell = cell * m->axes[k].size + index[k];
    return cell;
}

/* ---- links --------------------------------------------------------------------------------------- */

/* The colours of axes are those of the mesh: a machine's links have none. */
static int color_of(const struct mesh_picture *p, int axis)
{
    return p->o->logical ? -1 : axis;
}

static struct scene_item *link_line(struct mesh_picture *p, int axis, double x, double y, double w, double h)
{
    struct scene_item *l = scene_add(p->s, SCENE_LINE, ROLE_LINK);
    l->axis = color_of(p, axis);
    l->x = x;
    l->y = y;
    l->w = w;
    l->h = h;
    return l;
}

/* From the last cell of a line of cells around to the first: round the outside, on whole text cells. */
static void wrap_line(struct mesh_picture *p, int axis, const double *points, int n)
{
    struct scene_item *l = scene_add(p->s, SCENE_PATH, ROLE_LINK);
    l->axis = color_of(p, axis);
    l->points = arena_copy(p->s->arena, points, 2 * n, sizeof *points);
    l->npoints = n;
    l->dashed = true;
    p->wrapped = true;
}

static bool is_ring(const struct mesh_picture *p, const struct grid_axis *g)
{
    return g->size > 2 && (!p->o->logical || (g->axis >= 0 && p->o->wraps >> g->axis & 1));
}

static bool is_switched(const struct mesh_picture *p, const struct grid_axis *g)
{
    return p->o->logical && g->axis >= 0 && p->o->switches >> g->axis & 1;
}

static void wrap_row(struct mesh_picture *p, double left, double y)
{
    double right = left + (p->cols.n - 1) * p->step_w + p->box_w, mid = y + p->box_h / 2;
    double up = y - CELL_H;
    wrap_line(p, p->cols.axis,
              (double[]){ right, mid, right + CELL_W, mid, right + CELL_W, up, left - CELL_W, up, left - CELL_W, mid,
                          left, mid },
              6);
}

static void wrap_column(struct mesh_picture *p, double x, double top)
{
    double bottom = top + (p->rows.n - 1) * p->step_h + p->box_h, mid = x + p->box_w / 2;
    double side = x + p->box_w + 2 * CELL_W, up = top - 2 * CELL_H, down = bottom + CELL_H;
    wrap_line(p, p->rows.axis, (double[]){ mid, bottom, mid, down, side, down, side, up, mid, up, mid, top }, 6);
}

static void draw_links(struct mesh_picture *p, double left, double top)
{
    const struct grid_axis *rows = &p->rows, *cols = &p->cols;
    bool across = cols->axis >= 0 && !is_switched(p, cols) && (p->o->torus || p->o->highlight == cols->axis);
    bool down = rows->axis >= 0 && !is_switched(p, rows) && (p->o->torus || p->o->highlight == rows->axis);
    for (int r = 0; r < rows->n; r++)
        for (int k = 0; k < cols->n; k++) {
            double x = left + k * p->step_w, y = top + r * p->step_h;
            if (across && k + 1 < cols->n)
                link_line(p, cols->axis, x + p->box_w, y + p->box_h / 2, p->step_w - p->box_w, 0);
            if (down && r + 1 < rows->n)
                link_line(p, rows->axis, x + p->box_w / 2, y + p->box_h, 0, p->step_h - p->box_h);
        }
    if (!p->o->torus)
        return;
    for (int r = 0; r < rows->n && is_ring(p, cols); r++)
        wrap_row(p, left, top + r * p->step_h);
    for (int k = 0; k < cols->n && is_ring(p, rows); k++)
        wrap_column(p, left + k * p->step_w, top);
}

/* ---- cells --------------------------------------------------------------------------------------- */

/* Group of a device under the collective's groups: its row. */
static int64_t group_of(struct mesh_picture *p, int64_t device)
{
    int64_t index[2] = { 0 };
    tiling_index(p->ir->shardings, *p->o->groups, device, index);
    return index[0];
}

/* Who is in a cell: a place of a machine has the device whose place it is. */
static int64_t device_in(const struct mesh_picture *p, int64_t cell)
{
    const struct shardings *t = p->ir->shardings;
    const struct mesh *l = p->o->logical;
    if (!l)
        return order_device(t, p->m->order, cell);
    return l->physical.i ? order_cell(t, l->physical, cell) : cell;
}

/* " 1,3": where a device of a machine is in the mesh. */
static void tell_logical(struct mesh_picture *p, struct scene_item *b, struct str *hint)
{
    const struct mesh *l = p->o->logical;
    int64_t cell = order_cell(p->ir->shardings, l->order, b->device), index[MESH_MAX_AXES];
    for (int a = l->naxes - 1; a >= 0; a--) {
        index[a] = cell % l->axes[a].size;
        cell /= l->axes[a].size;
    }
    struct str s = STR_IN(p->s->arena);
    str_adds(&s, b->text);
    str_adds(hint, "; in the mesh");
    for (int a = 0; a < l->naxes; a++) {
        str_addf(&s, "%s%" PRId64, a ? "," : " (", index[a]);
        str_addf(hint, " %s=%" PRId64, l->axes[a].name, index[a]);
    }
    str_adds(&s, ")");
    b->text = str_text(&s);
}

static void add_cell(struct mesh_picture *p, int64_t r, int64_t k, double x, double y)
{
    const struct mesh *m = p->m;
    struct scene_item *b = scene_add(p->s, SCENE_BOX, r < 0 || k < 0 ? ROLE_FRAME : ROLE_TILE);
    b->x = x;
    b->y = y;
    b->w = p->box_w;
    b->h = p->box_h;
    b->text = "...";
    if (r < 0 || k < 0)
        return;
    int64_t cell = cell_at(m, p->index);
    struct spot spot = { device_in(p, cell), x + p->box_w / 2, y + p->box_h / 2 };
    vec_push(p->s->arena, &p->spots, spot);
    b->device = spot.device;
    b->text = arena_printf(p->s->arena, "%" PRId64, b->device);
    b->word = arena_printf(p->s->arena, "device %" PRId64, b->device);
    struct str hint = STR_IN(p->s->arena);
    str_addf(&hint, "device %" PRId64 ":", b->device);
    for (int a = 0; a < m->naxes; a++)
        str_addf(&hint, " %s=%" PRId64, m->axes[a].name, p->index[a]);
    if (p->o->logical)
        tell_logical(p, b, &hint);
    if (p->o->order && cell != b->device) {
        b->text = arena_printf(p->s->arena, "%" PRId64 " @%" PRId64, b->device, cell);
        str_addf(&hint, ", place %" PRId64, cell);
        p->moved = true;
    }
    if (p->o->groups) {
        int64_t g = group_of(p, b->device);
        b->nowners = 1;
        b->owners[0] = g;
        b->text = arena_printf(p->s->arena, "%s g%" PRId64, b->text, g);
        str_addf(&hint, ", group %" PRId64, g);
        if (g == p->o->group)
            b->state |= STATE_CHOSEN;
    }
    b->hint = str_text(&hint);
}

static void draw_page(struct mesh_picture *p, double left, double top)
{
    for (int r = 0; r < p->rows.n; r++)
        for (int k = 0; k < p->cols.n; k++) {
            if (p->rows.axis >= 0)
                p->index[p->rows.axis] = p->rows.at[r];
            if (p->cols.axis >= 0)
                p->index[p->cols.axis] = p->cols.at[k];
            add_cell(p, p->rows.at[r], p->cols.at[k], left + k * p->step_w, top + r * p->step_h);
        }
    draw_links(p, left, top);
}

/* ---- who sends to whom --------------------------------------------------------------------------- */

static const struct spot *spot_of(const struct mesh_picture *p, int64_t device)
{
    for (int64_t k = 0; k < p->spots.n; k++)
        if (p->spots.v[k].device == device)
            return &p->spots.v[k];
    return NULL;
}

static struct scene_item *add_arrow(struct mesh_picture *p, const struct spot *from, const struct spot *to, int npoints,
                                    const double *points)
{
    struct scene_item *l = scene_add(p->s, SCENE_PATH, p->o->pairs_axis >= 0 ? ROLE_LINK : ROLE_MOVE);
    l->axis = p->o->pairs_axis;
    l->points = arena_copy(p->s->arena, points, 2 * npoints, sizeof *points);
    l->npoints = npoints;
    l->curve = npoints == 4;
    l->arrow = true;
    l->hint = arena_printf(p->s->arena, "%" PRId64 " sends to %" PRId64, from->device, to->device);
    return l;
}

/* Along a row or a column to a cell that is no neighbour: through the gap beside it, on one side there and on
 * the other back. */
static void draw_around(struct mesh_picture *p, const struct spot *from, const struct spot *to)
{
    double dx = to->x - from->x, dy = to->y - from->y, side = dx + dy > 0 ? 1 : -1;
    double high = side * 1.1 * (p->step_h - p->box_h), wide = side * 1.1 * (p->step_w - p->box_w); /* peaks at 3/4 of it */
    double y = from->y + side * p->box_h / 2, x = from->x + side * p->box_w / 2;
    if (dy == 0)
        add_arrow(p, from, to, 4, (double[]){ from->x, y, from->x + dx / 12, y + high, to->x - dx / 12, y + high, to->x, y });
    else
        add_arrow(p, from, to, 4, (double[]){ x, from->y, x + wide, from->y + dy / 12, x + wide, to->y - dy / 12, x, to->y });
}

/* Straight to a neighbour; around what lies between to others. */
static void draw_arrow(struct mesh_picture *p, const struct spot *from, const struct spot *to)
{
    if ((to->y == from->y && (to->x - from->x > p->step_w + 1 || from->x - to->x > p->step_w + 1)) ||
        (to->x == from->x && (to->y - from->y > p->step_h + 1 || from->y - to->y > p->step_h + 1))) {
        draw_around(p, from, to);
        return;
    }
    double dx = to->x - from->x, dy = to->y - from->y, ax = dx < 0 ? -dx : dx, ay = dy < 0 ? -dy : dy;
    double cut_x = ax > 0 ? (p->box_w / 2 + 1) / ax : 2, cut_y = ay > 0 ? (p->box_h / 2 + 1) / ay : 2;
    double cut = cut_x < cut_y ? cut_x : cut_y;
    bool near = (ax <= p->step_w + 1 && ay < 1) || (ay <= p->step_h + 1 && ax < 1);
    double x0 = from->x + dx * cut, y0 = from->y + dy * cut, x1 = to->x - dx * cut, y1 = to->y - dy * cut;
    double side = near && p->o->tall ? 3 : 0; /* there and back do not share a line */
    x0 -= ay > ax ? (dy > 0 ? side : -side) : 0;
    x1 -= ay > ax ? (dy > 0 ? side : -side) : 0;
    y0 += ax >= ay ? (dx > 0 ? side : -side) : 0;
    y1 += ax >= ay ? (dx > 0 ? side : -side) : 0;
    double bow = near ? 0 : 0.22;
    double points[8] = { x0, y0, x0 + (x1 - x0) / 3 - dy * bow, y0 + (y1 - y0) / 3 + dx * bow,
                         x1 - (x1 - x0) / 3 - dy * bow, y1 - (y1 - y0) / 3 + dx * bow, x1, y1 };
    if (near)
        memcpy(points + 2, points + 6, 2 * sizeof *points);
    add_arrow(p, from, to, near ? 2 : 4, points);
}

static void draw_arrows(struct mesh_picture *p)
{
    for (int64_t k = 0; k < p->o->npairs; k++) {
        const struct spot *from = spot_of(p, p->o->pairs[2 * k]), *to = spot_of(p, p->o->pairs[2 * k + 1]);
        if (from && to && from != to)
            draw_arrow(p, from, to);
    }
}

static const char *open_page(struct mesh_picture *p, int64_t page)
{
    const struct mesh *m = p->m;
    struct str t = STR_IN(p->s->arena);
    for (int k = m->naxes - 3; k >= 0; k--) {
        p->index[k] = page % m->axes[k].size;
        page /= m->axes[k].size;
    }
    for (int k = 0; k < m->naxes - 2; k++)
        str_addf(&t, "%s%s=%" PRId64, k ? ", " : "", m->axes[k].name, p->index[k]);
    return str_text(&t);
}

/* ---- the picture --------------------------------------------------------------------------------- */

/* "mesh data=2 model=4: 8 devices", the axes in their colours. */
static void add_caption(struct mesh_picture *p)
{
    struct str t = STR_IN(p->s->arena);
    str_adds(&t, "mesh ");
    mesh_print(p->ir->shardings, p->m, &t);
    str_addf(&t, ": %" PRId64 " devices", mesh_devices(p->m));
    p->s->title = str_text(&t);
    if (p->o->title) {
        p->s->title = p->o->title;
        put(p->s, 0, 0, ALIGN_LEFT, -1, ROLE_CAPTION, p->o->title);
        return;
    }
    double x = 0;
    const char *text = p->s->title, *run = text;
    for (int k = 0; k < p->m->naxes; k++) {
        const char *name = p->m->axes[k].name, *at = strstr(run, name);
        size_t n = strlen(name);
        if (!at || at[n] != '=')
            continue;
        put(p->s, x, 0, ALIGN_LEFT, -1, ROLE_CAPTION, arena_strndup(p->s->arena, run, (size_t)(at - run)));
        x += CELL_W * (double)(at - run);
        n += strcspn(at + n, " :");
        put(p->s, x, 0, ALIGN_LEFT, k, ROLE_CAPTION, arena_strndup(p->s->arena, at, n));
        x += CELL_W * (double)n;
        run = at + n;
    }
    put(p->s, x, 0, ALIGN_LEFT, -1, ROLE_CAPTION, run);
}

static void add_notes(struct mesh_picture *p, double top)
{
    struct arena *a = p->s->arena;
    const struct mesh_options *o = p->o;
    const char *first =
        o->groups         ? arena_printf(a, "numbers: device ids; gN: its group%s%s", o->groups_title ? " in " : "",
                                         o->groups_title ? scene_short(a, o->groups_title, 40) : "")
        : o->logical      ? "numbers: device ids, and where each is in the mesh"
        : o->highlight >= 0 ? arena_printf(a, "numbers: device ids; joined: the groups of axis %s",
                                           p->m->axes[o->highlight].name)
                            : "numbers: device ids";
    put(p->s, 0, top, ALIGN_LEFT, o->highlight, ROLE_LEGEND, first);
    if (o->note)
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, o->pairs_axis, ROLE_LEGEND, o->note);
    if (p->moved)
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND, "@N: place N of the mesh, counted row by row");
    for (int k = 0; o->logical && k < p->m->naxes; k++)
        if (o->switches >> k & 1)
            put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND,
                arena_printf(a, "%s: a switch, each is one link from each", p->m->axes[k].name));
    bool lines = p->wrapped;
    for (int k = 0; o->logical && k < p->m->naxes; k++)
        lines |= !(o->switches >> k & 1) && p->m->axes[k].size > 1;
    if (lines)
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND,
            o->logical ? "lines: the machine's links" : "lines: links of neighbours, in their axis's colour");
    if (p->wrapped)
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND, "around the outside: the links that wrap around");
    if (o->npairs > 0) {
        struct str s = STR_IN(a);
        str_addf(&s, "arrows: %s:", o->pairs_title ? scene_short(a, o->pairs_title, 40) : "who sends to whom");
        int64_t k = 0;
        for (; k < o->npairs && k < 8 && s.n < 56; k++)
            str_addf(&s, " %" PRId64 ">%" PRId64, o->pairs[2 * k], o->pairs[2 * k + 1]);
        if (k < o->npairs)
            str_addf(&s, " .. (%" PRId64 ")", o->npairs);
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND, str_text(&s));
    }
    if (o->groups && o->group >= 0)
        put(p->s, 0, top += CELL_H, ALIGN_LEFT, -1, ROLE_LEGEND,
            arena_printf(a, "* outlined: group %" PRId64, o->group));
}

/* Columns that a terminal of 80 characters has room for, narrower where three would not fit. */
static int64_t fit_terminal(struct mesh_picture *p, double left, int64_t most)
{
    double room = 80 * CELL_W - left - CELL_W;
    if (3 * p->step_w > room) {
        p->box_w -= 2 * CELL_W;
        p->step_w = p->box_w + 2 * CELL_W;
    }
    return min_i64(most, max_i64((int64_t)(room / p->step_w), 3));
}

/* A page with its title and rulers; returns its height. */
static double draw_titled(struct mesh_picture *p, const char *title, double left, double shift, double top)
{
    const struct mesh *m = p->m;
    double y = top;
    if (*title) {
        put(p->s, shift, y, ALIGN_LEFT, -1, ROLE_LABEL, title);
        y += CELL_H;
    }
    if (p->cols.axis >= 0)
        put(p->s, left + shift, y, ALIGN_LEFT, color_of(p, p->cols.axis), ROLE_RULER,
            arena_printf(p->s->arena, "%s ->", m->axes[p->cols.axis].name));
    y += p->o->torus ? (p->o->tall ? 3.5 : 3) * CELL_H : p->o->npairs > 0 && p->o->tall ? 3 * CELL_H : CELL_H;
    if (p->rows.axis >= 0)
        put(p->s, shift, y + CELL_H / 2.0 * (p->o->tall ? 1.4 : 2), ALIGN_LEFT, color_of(p, p->rows.axis), ROLE_RULER,
            arena_printf(p->s->arena, "%s v", m->axes[p->rows.axis].name));
    draw_page(p, left + shift, y);
    return y - top + p->rows.n * p->step_h + (p->o->torus ? 0 : CELL_H);
}

static size_t label_width(struct mesh_picture *p)
{
    size_t n = strlen(arena_printf(p->s->arena, "%" PRId64, mesh_devices(p->m)));
    size_t all = n;
    if (p->o->order && !order_is_iota(p->ir->shardings, p->m->order))
        all += n + 2;
    if (p->o->groups)
        all += strlen(arena_printf(p->s->arena, "%" PRId64, p->o->groups->dims[0])) + 2;
    if (p->o->groups && p->o->group >= 0)
        all += 2;
    for (int k = 0; p->o->logical && k < p->o->logical->naxes; k++)
        all += strlen(arena_printf(p->s->arena, "%" PRId64, p->o->logical->axes[k].size - 1)) + (k ? 1 : 3);
    return all > 3 ? all : 3;
}

struct scene *view_mesh_full(struct ir *c, const struct mesh *m, const struct mesh_options *o, struct arena *a)
{
    static const struct mesh_options plain = { .highlight = -1, .group = -1, .pairs_axis = -1 };
    struct mesh_picture p = { .s = scene_new(a), .ir = c, .m = m, .o = o ? o : &plain };
    int64_t most = scene_most_shown(p.o->max_shown);
    int64_t most_pages = p.o->max_pages > 0 ? p.o->max_pages : MAX_PAGES;
    add_caption(&p);
    p.rows = axis_of(a, m, m->naxes >= 2 ? m->naxes - 2 : -1, most);
    const char *down = p.rows.axis >= 0 ? m->axes[p.rows.axis].name : "";
    double left = CELL_W * ((double)strlen(down) + 4), shift = 0, top = 2 * CELL_H, gap_h = p.o->torus ? 3 * CELL_H : p.o->npairs ? 2 * CELL_H : CELL_H;
    p.box_w = CELL_W * ((double)label_width(&p) + 4);
    p.box_h = (p.o->tall ? 2.5 : 2) * CELL_H;
    p.step_w = p.box_w + (p.o->torus || p.o->npairs ? 4 : 2) * CELL_W;
    p.cols = axis_of(a, m, m->naxes >= 1 ? m->naxes - 1 : -1, p.o->tall ? most : fit_terminal(&p, left, most));
    p.step_h = p.box_h + gap_h;
    int64_t pages = 1;
    for (int k = 0; k + 2 < m->naxes; k++)
        pages *= m->axes[k].size;
    double page_w = left + p.cols.n * p.step_w + 4 * CELL_W, below = top;
    for (int64_t page = 0; page < pages && page < most_pages; page++) {
        bool beside = page > 0 && shift + 2 * page_w <= p.o->width;
        shift = beside ? shift + page_w : 0;
        top = page > 0 && !beside ? below : top;
        below = top + draw_titled(&p, open_page(&p, page), left, shift, top);
    }
    top = below;
    if (pages > most_pages)
        put(p.s, 0, top, ALIGN_LEFT, -1, ROLE_LABEL,
            arena_printf(a, "and %" PRId64 " more pages like these", pages - most_pages));
    draw_arrows(&p);
    add_notes(&p, top + CELL_H);
    scene_measure(p.s);
    return p.s;
}

struct scene *view_mesh(struct ir *c, const struct mesh *m, int highlight, struct arena *a)
{
    struct mesh_options o = { .highlight = highlight, .group = -1, .pairs_axis = -1 };
    return view_mesh_full(c, m, &o, a);
}
