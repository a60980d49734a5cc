#include "viz/memory.h"

#include <string.h>

#include "viz/views.h"

enum { HIGH = 160, LEFT = 14 * CELL_W, LINES = 8, COLUMNS = 64, BAR = 20 * CELL_W };

static const char *bytes_text(struct arena *a, int64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double v = (double)bytes;
    int unit = 0;
    while (v >= 1024 && unit < 4) {
        v /= 1024;
        unit++;
    }
    return arena_printf(a, "%.4g %s", v, units[unit]);
}

/* The most of the kernels that fall into column k of n. */
static int64_t column(const struct memory *m, int64_t k, int64_t n)
{
    int64_t from = k * m->ncurve / n, to = (k + 1) * m->ncurve / n, most = 0;
    for (int64_t i = from; i < to || i == from; i++)
        most = max_i64(most, i < m->ncurve ? m->curve[i] : 0);
    return most;
}

/* What is there all the time, arguments above all: the curve counts what comes and goes. */
static int64_t always(const struct memory *m)
{
    int64_t most = 0;
    for (uint32_t k = 0; k < m->ncurve; k++)
        most = max_i64(most, m->curve[k]);
    return m->peak - most;
}

static double draw_curve(struct scene *s, const struct memory_picture *p, double width, double top)
{
    const struct memory *m = p->m;
    int64_t n = min_i64(m->ncurve, (int64_t)(width / 3)), base = always(m);
    double step = width / (double)max_i64(n, 1), peak = (double)max_i64(m->peak, 1);
    bool marked = false;
    for (int64_t k = 0; k < n; k++) {
        int64_t bytes = base + column(m, k, n);
        bool worst = !marked && bytes >= m->peak;
        marked |= worst;
        if (bytes == base && !worst)
            continue;
        struct scene_item *b = scene_add(s, SCENE_BOX, worst ? ROLE_MOVE : ROLE_CLUSTER);
        b->h = HIGH * (double)(bytes - base) / peak;
        b->x = LEFT + (double)k * step;
        b->w = step;
        b->y = top + HIGH - HIGH * (double)bytes / peak;
        b->hint = arena_printf(s->arena, "%s after kernel %" PRId64 " of %u%s", bytes_text(s->arena, bytes),
                               k * m->ncurve / n + 1, m->ncurve, worst ? ": the peak" : "");
    }
    if (base > 0) {
        struct scene_item *b = scene_add(s, SCENE_BOX, ROLE_NODE);
        b->x = LEFT;
        b->w = width;
        b->h = HIGH * (double)base / peak;
        b->y = top + HIGH - b->h;
        b->text = b->h > CELL_H + 2 ? "arguments and what else is there all the time" : NULL;
        b->hint = arena_printf(s->arena, "%s are there all the time: arguments", bytes_text(s->arena, base));
    }
    for (int k = 0; k <= 4; k++)
        scene_put_text(s, ROLE_RULER, LEFT - CELL_W, top + HIGH - HIGH * k / 4.0 - CELL_H / 2.0, ALIGN_RIGHT,
            bytes_text(s->arena, m->peak * k / 4));
    scene_put_text(s, ROLE_RULER, LEFT, top + HIGH + 4, ALIGN_LEFT, "first kernel");
    scene_put_text(s, ROLE_RULER, LEFT + width, top + HIGH + 4, ALIGN_RIGHT, arena_printf(s->arena, "last of %u", m->ncurve));
    return top + HIGH + 2 * CELL_H + 4;
}

/* The same as characters. */
static double list_curve(struct scene *s, const struct memory_picture *p, double top)
{
    const struct memory *m = p->m;
    int64_t n = min_i64(m->ncurve, COLUMNS), peak = max_i64(m->peak, 1), base = always(m);
    for (int line = LINES; line > 0; line--, top += CELL_H) {
        char row[COLUMNS + 1];
        for (int64_t k = 0; k < n; k++) {
            double part = (double)(base + column(m, k, n)) / (double)peak * LINES;
            row[k] = part > line - 0.5 ? '#' : ' ';
        }
        row[n] = '\0';
        scene_put_text(s, ROLE_LABEL, LEFT, top, ALIGN_LEFT, arena_strdup(s->arena, row));
        scene_put_text(s, ROLE_RULER, LEFT - CELL_W, top, ALIGN_RIGHT, bytes_text(s->arena, (int64_t)((double)peak * line / LINES)));
    }
    scene_put_text(s, ROLE_RULER, LEFT, top, ALIGN_LEFT, arena_printf(s->arena, "kernels 1 to %u", m->ncurve));
    return top + 2 * CELL_H;
}

static double draw_rows(struct scene *s, const struct memory_picture *p, bool list, double top)
{
    enum { MOST = 14 };
    int64_t left = 0;
    scene_put_text(s, ROLE_CAPTION, 0, top, ALIGN_LEFT, "alive at the peak")->bold = true;
    top += CELL_H + 2;
    size_t widest = 4, kinds = 4;
    for (int k = 0; k < p->nrows && k < MOST; k++) {
        const char *name = list ? scene_short(s->arena, p->rows[k].name, 38) : p->rows[k].name;
        size_t n = (size_t)scene_text_columns(name), q = strlen(p->rows[k].kind);
        widest = n > widest ? n : widest;
        kinds = q > kinds ? q : kinds;
    }
    double x1 = CELL_W * ((double)widest + 2), x2 = x1 + CELL_W * ((double)kinds + 2), x3 = x2 + 12 * CELL_W;
    for (int k = 0; k < p->nrows; k++) {
        const struct memory_row *r = &p->rows[k];
        if (k >= MOST) {
            left += r->bytes;
            continue;
        }
        scene_put_text(s, ROLE_LABEL, 0, top, ALIGN_LEFT, list ? scene_short(s->arena, r->name, 38) : r->name)->word = r->name;
        scene_put_text(s, ROLE_RULER, x1, top, ALIGN_LEFT, r->kind);
        scene_put_text(s, ROLE_LABEL, x3 - CELL_W, top, ALIGN_RIGHT, bytes_text(s->arena, r->bytes));
        double part = (double)r->bytes / (double)max_i64(p->m->peak, 1), most = (double)max_i64(p->rows[0].bytes, 1);
        double bar = list ? 0 : BAR * (double)r->bytes / most; /* the first row is the largest */
        scene_put_text(s, ROLE_RULER, x3 + CELL_W + (list ? 0 : bar + CELL_W), top, ALIGN_LEFT,
                       arena_printf(s->arena, "%.1f %%", 100 * part));
        if (!list) {
            struct scene_item *b = scene_add(s, SCENE_BOX, ROLE_CLUSTER);
            b->x = x3 + CELL_W;
            b->y = top + 1;
            b->w = bar > 1 ? bar : 1;
            b->h = CELL_H - 2;
        }
        top += CELL_H;
    }
    if (p->nrows > MOST) {
        scene_put_text(s, ROLE_LEGEND, 0, top, ALIGN_LEFT,
            arena_printf(s->arena, "and %d smaller ones, %s", p->nrows - MOST, bytes_text(s->arena, left)));
        top += CELL_H;
    }
    return top;
}

struct scene *view_memory(const struct memory_picture *p, double width, bool list, struct arena *a)
{
    struct scene *s = scene_new(a);
    struct str t = STR_IN(a);
    str_addf(&t, "memory of one device: peak %s", bytes_text(a, p->m->peak));
    if (p->capacity > 0)
        str_addf(&t, ", %.1f %% of %s", 100 * (double)p->m->peak / (double)p->capacity, bytes_text(a, p->capacity));
    scene_put_text(s, ROLE_CAPTION, 0, 0, ALIGN_LEFT, str_text(&t))->bold = true;
    s->title = str_text(&t);
    if (p->at && p->at[0])
        scene_put_text(s, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT, arena_printf(a, "at %s", list ? scene_short(a, p->at, 70) : p->at));
    double y = list ? list_curve(s, p, 3 * CELL_H) : draw_curve(s, p, width > 200 ? width : 200, 3.5 * CELL_H);
    y = draw_rows(s, p, list, y);
    scene_put_text(s, ROLE_LEGEND, 0, y + CELL_H, ALIGN_LEFT,
        list ? "each # column: bytes after a kernel, loops and calls at their own peak"
             : "bars: bytes after each kernel, loops and calls at their own peak; red: the peak");
    scene_measure(s);
    return s;
}
