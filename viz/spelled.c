/* Shardings as they are spelled in axes, [data,(model,x)]: which axis stands where. */
#include <string.h>

#include "viz/graph.h"

static const char stops[] = "[](),_?*: ";

static int axis_at(const struct mesh *mesh, const char *text, const char *p, size_t n)
{
    return n > 0 && mesh && text[0] == '[' ? mesh_find_axis(mesh, p, n) : -1;
}

static double add_piece(struct scene *s, enum scene_role role, double x, double y, const char *text, size_t n,
                        int axis, bool bold)
{
    if (n == 0)
        return x;
    struct scene_item *t = scene_add(s, SCENE_TEXT, role);
    t->x = x;
    t->y = y;
    t->text = arena_strndup(s->arena, text, n);
    t->axis = axis;
    t->bold = bold;
    return x + CELL_W * scene_text_columns(t->text);
}

double scene_add_spelled(struct scene *s, enum scene_role role, const struct mesh *mesh, const char *text, double x,
                         double y, bool bold)
{
    const char *run = text, *p = run;
    while (*p) {
        size_t n = strcspn(p, stops);
        int axis = axis_at(mesh, text, p, n);
        if (axis >= 0) {
            x = add_piece(s, role, x, y, run, (size_t)(p - run), -1, bold);
            x = add_piece(s, role, x, y, p, n, axis, bold);
            run = p + n;
        }
        p += n > 0 ? n : 1;
    }
    return add_piece(s, role, x, y, run, strlen(run), -1, bold);
}

int spelled_axes(const struct mesh *mesh, const char *text, int *axes, int most)
{
    int count = 0;
    for (const char *p = text; text && *p;) {
        size_t n = strcspn(p, stops);
        int axis = axis_at(mesh, text, p, n), k = 0;
        while (k < count && axes[k] != axis)
            k++;
        if (axis >= 0 && k == count && count < most)
            axes[count++] = axis;
        p += n > 0 ? n : 1;
    }
    return count;
}

int spelled_axis_of_dim(const struct mesh *mesh, const char *text, int dim)
{
    const char *p = text;
    if (!mesh || !p || p[0] != '[')
        return -1;
    p++;
    for (int d = 0, depth = 0; *p && d < dim; p++) {
        depth += (*p == '(') - (*p == ')');
        d += *p == ',' && depth == 0;
    }
    return mesh_find_axis(mesh, p, strcspn(p, ",]:("));
}
