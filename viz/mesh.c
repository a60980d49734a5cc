/* A mesh as a grid: the last axis runs to the right, the one before it down, further axes are pages;
 * each cell has its device's number. A highlighted axis has its groups joined by lines. Long axes
 * show the first few and the last. */
#include <string.h>

#include "viz/views.h"

enum { CELL_W = 6, CELL_H = 12, MAX_SHOWN = 8, MAX_PAGES = 4 };

struct grid_axis {
    int axis; /* of the mesh; -1: a made-up one of size 1 */
    int64_t size;
    int n;
    int64_t at[MAX_SHOWN];
};

static struct grid_axis axis_of(const struct mesh *m, int axis)
{
    struct grid_axis g = { .axis = axis, .size = axis >= 0 ? m->axes[axis].size : 1 };
    if (g.size <= MAX_SHOWN) {
        g.n = (int)g.size;
        for (int i = 0; i < g.n; i++)
            g.at[i] = i;
    } else {
        g.n = 5;
        memcpy(g.at, (int64_t[]){ 0, 1, 2, -1, g.size - 1 }, 5 * sizeof *g.at);
    }
    return g;
}

static void put(struct scene *s, double x, double y, enum scene_align align, int axis,
                enum scene_role role, const char *text)
{
    struct scene_item *t = scene_add(s, SCENE_TEXT, role);
    t->x = x;
    t->y = y;
    t->align = align;
    t->axis = axis;
    t->text = text;
}

static int64_t device_at(struct ir *c, const struct mesh *m, const int64_t *index)
{
    int64_t cell = 0;
    for (int k = 0; k < m->naxes; k++)
        cell = cell * m->axes[k].size + index[k];
    return order_device(c->shardings, m->order, cell);
}

static void draw_page(struct scene *s, struct ir *c, const struct mesh *m, const struct grid_axis *rows,
                      const struct grid_axis *cols, int64_t *index, int highlight, double left,
                      double top, double step_w, double step_h)
{
    for (int r = 0; r < rows->n; r++)
        for (int k = 0; k < cols->n; k++) {
            bool gap = rows->at[r] < 0 || cols->at[k] < 0;
            if (rows->axis >= 0)
                index[rows->axis] = rows->at[r];
            if (cols->axis >= 0)
                index[cols->axis] = cols->at[k];
            struct scene_item *b = scene_add(s, SCENE_BOX, gap ? ROLE_FRAME : ROLE_TILE);
            b->x = left + k * step_w;
            b->y = top + r * step_h;
            b->w = step_w - 2 * CELL_W;
            b->h = step_h - CELL_H;
            b->text = "...";
            if (!gap) {
                b->device = device_at(c, m, index);
                b->text = arena_printf(s->arena, "%" PRId64, b->device);
            }
            double bx = b->x, by = b->y, bw = b->w, bh = b->h;
            if (highlight >= 0 && highlight == cols->axis && k + 1 < cols->n) {
                struct scene_item *l = scene_add(s, SCENE_LINE, ROLE_LINK);
                *l = (struct scene_item){ .kind = SCENE_LINE, .role = ROLE_LINK, .axis = highlight,
                                          .device = -1, .x = bx + bw, .y = by + CELL_H, .w = 2 * CELL_W };
            }
            if (highlight >= 0 && highlight == rows->axis && r + 1 < rows->n) {
                struct scene_item *l = scene_add(s, SCENE_LINE, ROLE_LINK);
                *l = (struct scene_item){ .kind = SCENE_LINE, .role = ROLE_LINK, .axis = highlight,
                                          .device = -1, .x = bx + bw / 2, .y = by + bh, .h = CELL_H };
            }
        }
}

static const char *open_page(const struct mesh *m, struct arena *a, int64_t page, int64_t *index)
{
    struct str t = STR_IN(a);
    for (int k = m->naxes - 3; k >= 0; k--) {
        index[k] = page % m->axes[k].size;
        page /= m->axes[k].size;
    }
    for (int k = 0; k < m->naxes - 2; k++)
        str_addf(&t, "%s%s=%" PRId64, k ? ", " : "", m->axes[k].name, index[k]);
    return str_text(&t);
}

struct scene *view_mesh(struct ir *c, const struct mesh *m, int highlight, struct arena *a)
{
    struct scene *s = scene_new(a);
    struct str t = STR_IN(a);
    str_addf(&t, "mesh ");
    mesh_print(c->shardings, m, &t);
    str_addf(&t, ": %" PRId64 " devices", mesh_devices(m));
    put(s, 0, 0, ALIGN_LEFT, -1, ROLE_CAPTION, str_text(&t));
    s->title = str_text(&t);
    struct grid_axis rows = axis_of(m, m->naxes >= 2 ? m->naxes - 2 : -1);
    struct grid_axis cols = axis_of(m, m->naxes >= 1 ? m->naxes - 1 : -1);
    const char *down = rows.axis >= 0 ? m->axes[rows.axis].name : "";
    double left = CELL_W * ((double)strlen(down) + 4), top = 2 * CELL_H;
    size_t digits = strlen(arena_printf(a, "%" PRId64, mesh_devices(m)));
    double step_w = CELL_W * ((double)(digits > 3 ? digits : 3) + 6), step_h = 3 * CELL_H;
    int64_t index[MESH_MAX_AXES] = { 0 }, pages = 1;
    for (int k = 0; k + 2 < m->naxes; k++)
        pages *= m->axes[k].size;
    for (int64_t p = 0; p < pages && p < MAX_PAGES; p++) {
        const char *page = open_page(m, a, p, index);
        if (*page) {
            put(s, 0, top, ALIGN_LEFT, -1, ROLE_LABEL, page);
            top += CELL_H;
        }
        if (cols.axis >= 0)
            put(s, left, top, ALIGN_LEFT, cols.axis, ROLE_RULER,
                arena_printf(a, "%s ->", m->axes[cols.axis].name));
        top += CELL_H;
        if (rows.axis >= 0)
            put(s, 0, top + CELL_H, ALIGN_LEFT, rows.axis, ROLE_RULER, arena_printf(a, "%s v", down));
        draw_page(s, c, m, &rows, &cols, index, highlight, left, top, step_w, step_h);
        top += rows.n * step_h + CELL_H;
    }
    if (pages > MAX_PAGES)
        put(s, 0, top, ALIGN_LEFT, -1, ROLE_LABEL,
            arena_printf(a, "and %" PRId64 " more pages like these", pages - MAX_PAGES));
    put(s, 0, top + CELL_H, ALIGN_LEFT, highlight, ROLE_LEGEND,
        highlight >= 0 ? arena_printf(a, "numbers: device ids; joined: the groups of axis %s",
                                      m->axes[highlight].name)
                       : "numbers: device ids");
    s->width = left + cols.n * step_w + 20 * CELL_W;
    if (s->width < CELL_W * (double)t.n)
        s->width = CELL_W * (double)t.n;
    s->height = top + 3 * CELL_H;
    return s;
}
