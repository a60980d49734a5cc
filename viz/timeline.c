/* Devices over time, from a trace: a row each, computing, communicating, waiting. Neighbours too short to be
 * seen become one. */
#include <string.h>

#include "viz/hops.h"
#include "viz/views.h"

enum { CELL_W = 6, CELL_H = 12, MOST_ROWS = 32, ROW_H = 2 * CELL_H };

struct timeline {
    const struct trace *t;
    struct scene *s;
    struct arena *a;
    double left, width;
};

static double x_of(const struct timeline *l, int64_t tick)
{
    return l->left + l->width * (double)tick / (double)max_i64(l->t->ticks, 1);
}

static struct scene_item *put(struct timeline *l, enum scene_role role, double x, double y, enum scene_align align,
                              const char *text)
{
    struct scene_item *t = scene_add(l->s, SCENE_TEXT, role);
    t->x = x;
    t->y = y;
    t->align = align;
    t->text = text;
    return t;
}

static const char *event_name(const struct timeline *l, const struct trace_event *e)
{
    if (!e->instr.i)
        return "";
    const char *name = name_text(l->t->module->ir, instr_at(l->t->module, e->instr)->name);
    struct str safe = STR_IN(l->a);
    str_add_safe(&safe, name, strlen(name));
    return str_text(&safe);
}

/* One bar: events of one kind that follow each other closely. */
static void add_bar(struct timeline *l, const struct trace_event *first, int64_t n, int64_t end, double y)
{
    bool moves = first->kind == TRACE_COLLECTIVE, waits = first->kind == TRACE_WAIT || first->kind == TRACE_KILLED;
    struct scene_item *b = scene_add(l->s, SCENE_BOX, moves ? ROLE_MOVE : waits ? ROLE_FRAME : ROLE_TILE);
    b->x = x_of(l, first->start);
    b->y = y;
    b->w = x_of(l, end) - b->x;
    b->h = ROW_H - 6;
    b->device = first->device;
    const char *name = event_name(l, first);
    if (n == 1 && CELL_W * (double)(strlen(name) + 1) <= b->w && !waits)
        b->text = name;
    b->hint = n == 1 ? arena_printf(l->a, "device %" PRId64 ": %s %s, ticks %" PRId64 " to %" PRId64, first->device,
                                    trace_kind_name(first->kind), name, first->start, end)
                     : arena_printf(l->a, "device %" PRId64 ": %" PRId64 " times %s, from %s on, ticks %" PRId64 " to %" PRId64,
                                    first->device, n, trace_kind_name(first->kind), name, first->start, end);
}

static void draw_row(struct timeline *l, int64_t device, double y)
{
    const struct trace *t = l->t;
    int64_t tick = max_i64((int64_t)((double)t->ticks / l->width), 1), from = t->first_event[device];
    while (from < t->first_event[device + 1]) {
        const struct trace_event *first = &t->events[from];
        int64_t n = 1, end = first->end;
        while (from + n < t->first_event[device + 1]) {
            const struct trace_event *next = &t->events[from + n];
            bool tiny = next->end - next->start < 3 * tick && end - first->start < 40 * tick;
            if (next->kind != first->kind || next->start - end > tick || !tiny)
                break;
            end = next->end;
            n++;
        }
        if (end > first->start)
            add_bar(l, first, n, end, y);
        from += n;
    }
}

/* The same as characters: # computing, ~ communicating, . waiting. */
static const char *row_text(struct timeline *l, int64_t device)
{
    enum { COLUMNS = 64 };
    const struct trace *t = l->t;
    double spent[COLUMNS][3];
    memset(spent, 0, sizeof spent);
    double wide = (double)max_i64(t->ticks, 1) / COLUMNS; /* ticks of a column */
    for (int64_t k = t->first_event[device]; k < t->first_event[device + 1]; k++) {
        const struct trace_event *e = &t->events[k];
        int kind = e->kind == TRACE_COMPUTE ? 0 : e->kind == TRACE_COLLECTIVE ? 1 : 2;
        double from = (double)e->start, to = (double)e->end;
        for (int c = (int)(from / wide); c < COLUMNS && c * wide < to; c++) {
            double lo = from > c * wide ? from : c * wide, hi = to < (c + 1) * wide ? to : (c + 1) * wide;
            spent[c][kind] += hi > lo ? hi - lo : 0;
        }
    }
    char line[COLUMNS + 1];
    for (int c = 0; c < COLUMNS; c++) {
        const double *v = spent[c];
        line[c] = v[0] + v[1] + v[2] <= 0 ? '.' : v[0] >= v[1] && v[0] >= v[2] ? '#' : v[1] >= v[2] ? '~' : '.';
    }
    line[COLUMNS] = '\0';
    return arena_strdup(l->a, line);
}

static void add_ruler(struct timeline *l, double y)
{
    enum { MARKS = 4 };
    for (int k = 0; k <= MARKS; k++) {
        int64_t tick = l->t->ticks * k / MARKS;
        put(l, ROLE_RULER, x_of(l, tick), y, k == 0 ? ALIGN_LEFT : k == MARKS ? ALIGN_RIGHT : ALIGN_CENTER,
            arena_printf(l->a, "%" PRId64, tick));
    }
}

static void add_key(struct timeline *l, double *x, double y, enum scene_role role, const char *text)
{
    struct scene_item *b = scene_add(l->s, SCENE_BOX, role);
    b->x = *x;
    b->y = y;
    b->w = 2 * CELL_W;
    b->h = CELL_H - 2;
    b->device = role == ROLE_TILE ? 0 : -1;
    put(l, ROLE_LEGEND, *x + 3 * CELL_W, y, ALIGN_LEFT, text);
    *x += CELL_W * (double)(strlen(text) + 6);
}

struct scene *view_timeline(const struct trace *t, double width, bool list, struct arena *a)
{
    struct timeline l = { .t = t, .s = scene_new(a), .a = a, .left = 22 * CELL_W, .width = width > 200 ? width : 200 };
    int64_t rows = min_i64(t->ndevices, MOST_ROWS);
    struct str s = STR_IN(a);
    str_addf(&s, "%" PRId64 " devices over %" PRId64 " ticks: %.1f%% of their time they wait", t->ndevices, t->ticks,
             100 * trace_idle_share(t));
    put(&l, ROLE_CAPTION, 0, 0, ALIGN_LEFT, str_text(&s))->bold = true;
    l.s->title = str_text(&s);
    if (t->truncated)
        put(&l, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT, "more happened than is recorded: the totals are right, rows are cut");
    double y = 3 * CELL_H;
    if (!list)
        add_ruler(&l, y - CELL_H);
    else
        put(&l, ROLE_RULER, l.left, y - CELL_H, ALIGN_LEFT, arena_printf(a, "ticks 0 to %" PRId64, t->ticks));
    for (int64_t d = 0; d < rows; d++) {
        int64_t all = max_i64(t->ticks, 1);
        put(&l, ROLE_RULER, 0, y, ALIGN_LEFT,
            arena_printf(a, "device %-4" PRId64 " busy %3" PRId64 "%%", d, 100 * (t->computing[d] + t->collective[d]) / all));
        if (list) {
            put(&l, ROLE_LABEL, l.left, y, ALIGN_LEFT, row_text(&l, d));
            y += CELL_H;
        } else {
            draw_row(&l, d, y);
            y += ROW_H;
        }
    }
    if (rows < t->ndevices) {
        put(&l, ROLE_LEGEND, 0, y, ALIGN_LEFT, arena_printf(a, "and %" PRId64 " more devices", t->ndevices - rows));
        y += CELL_H;
    }
    y += CELL_H;
    if (list) {
        put(&l, ROLE_LEGEND, 0, y, ALIGN_LEFT, "in a row: # computing, ~ communicating, . waiting");
    } else {
        double x = 0;
        add_key(&l, &x, y, ROLE_TILE, "computing, in the device's colour");
        add_key(&l, &x, y, ROLE_MOVE, "communicating");
        add_key(&l, &x, y, ROLE_FRAME, "waiting for others: a bubble");
    }
    scene_measure(l.s);
    return l.s;
}
