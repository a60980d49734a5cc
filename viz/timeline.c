/* Devices over time, from a trace: a row each, computing, communicating, waiting. Neighbours too short to be
 * seen become one. */
#include <string.h>

#include "viz/hops.h"
#include "viz/views.h"

enum { MOST_ROWS = 32, ROW_H = 2 * CELL_H, BAR_H = ROW_H - 6 };

/* A loop's body that shifts values between stages. */
struct shift {
    comp_id comp;
    bool down;
    int64_t turns;
};

struct timeline {
    const struct trace *t;
    struct scene *s;
    struct arena *a;
    double left, width;
    const struct timeline_stages *stages;
    VEC(struct shift) shifts;
};

static double x_of(const struct timeline *l, int64_t tick)
{
    return l->left + l->width * (double)tick / (double)max_i64(l->t->ticks, 1);
}

/* ---- stages -------------------------------------------------------------------------------------- */

static struct shift *shift_of(struct timeline *l, comp_id comp)
{
    for (int64_t k = 0; k < l->shifts.n; k++)
        if (l->shifts.v[k].comp.i == comp.i)
            return &l->shifts.v[k];
    return NULL;
}

static void find_shifts(struct timeline *l)
{
    const struct trace *t = l->t;
    for (int64_t k = 0; l->stages && k < t->nmeetings; k++) {
        const struct trace_meeting *m = &t->meetings[k];
        if (m->kind != OP_COLLECTIVE_PERMUTE || m->nhops == 0)
            continue;
        comp_id comp = instr_at(t->module, m->instr)->comp;
        struct shift *known = shift_of(l, comp);
        if (known) {
            known->turns = max_i64(known->turns, m->turn + 1);
            continue;
        }
        const struct trace_hop *hop = &t->hops[m->first_hop];
        int64_t step = l->stages->stage[hop->to] - l->stages->stage[hop->from], n = l->stages->n;
        if (step != 1 && step != -1 && step != n - 1 && step != 1 - n)
            continue;
        struct shift fresh = { comp, step == -1 || (n > 2 && step == n - 1), m->turn + 1 };
        vec_push(l->a, &l->shifts, fresh);
    }
}

static bool is_bubble(struct timeline *l, const struct trace_event *e)
{
    if (!l->stages || e->kind != TRACE_COMPUTE || !e->instr.i)
        return false;
    const struct shift *s = shift_of(l, instr_at(l->t->module, e->instr)->comp);
    int64_t n = l->stages->n, stage = l->stages->stage[e->device];
    if (!s || s->turns < n)
        return false;
    stage = s->down ? n - 1 - stage : stage;
    return e->turn < stage || e->turn > s->turns - n + stage;
}

static int64_t bubble_ticks(struct timeline *l)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < l->t->nevents; k++)
        if (is_bubble(l, &l->t->events[k]))
            sum += l->t->events[k].end - l->t->events[k].start;
    return sum;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

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
    b->h = BAR_H;
    b->device = first->device;
    const char *name = event_name(l, first);
    if (is_bubble(l, first)) {
        b->state = STATE_PADDING;
        b->hint = arena_printf(l->a, "device %" PRId64 " computes on nothing: no microbatch is on its stage, ticks %" PRId64
                               " to %" PRId64, first->device, first->start, end);
        return;
    }
    if (n == 1 && CELL_W * (double)(strlen(name) + 1) <= b->w && !waits)
        b->text = name;
    b->hint = n == 1 ? arena_printf(l->a, "device %" PRId64 ": %s %s, ticks %" PRId64 " to %" PRId64, first->device,
                                    trace_kind_name(first->kind), name, first->start, end)
                     : arena_printf(l->a, "device %" PRId64 ": %" PRId64 " times %s, from %s on, ticks %" PRId64 " to %" PRId64,
                                    first->device, n, trace_kind_name(first->kind), name, first->start, end);
}

/* Chunks that move beside what the device does: a strip under its row. */
static void add_flight(struct timeline *l, const struct trace_event *e, double y)
{
    struct scene_item *b = scene_add(l->s, SCENE_BOX, ROLE_MOVE);
    b->x = x_of(l, e->start);
    b->y = y + BAR_H;
    b->w = x_of(l, e->end) - b->x;
    b->h = 4;
    b->device = e->device;
    b->hint = arena_printf(l->a, "device %" PRId64 ": %s in flight, started at tick %" PRId64 ", there at %" PRId64,
                           e->device, event_name(l, e), e->start, e->end);
}

static void draw_row(struct timeline *l, int64_t device, double y)
{
    const struct trace *t = l->t;
    int64_t tick = max_i64((int64_t)((double)t->ticks / l->width), 1), from = t->first_event[device];
    while (from < t->first_event[device + 1]) {
        const struct trace_event *first = &t->events[from];
        int64_t n = 1, end = first->end;
        if (first->kind == TRACE_FLIGHT) {
            add_flight(l, first, y);
            from++;
            continue;
        }
        while (from + n < t->first_event[device + 1]) {
            const struct trace_event *next = &t->events[from + n];
            bool tiny = next->end - next->start < 3 * tick && end - first->start < 40 * tick;
            bool bubble = is_bubble(l, first);
            if (next->kind != first->kind || is_bubble(l, next) != bubble || next->start - end > tick ||
                (!tiny && !bubble))
                break;
            end = next->end;
            n++;
        }
        if (end > first->start)
            add_bar(l, first, n, end, y);
        from += n;
    }
}

static bool has_flights(const struct trace *t)
{
    for (int64_t k = 0; k < t->first_event[t->ndevices]; k++)
        if (t->events[k].kind == TRACE_FLIGHT)
            return true;
    return false;
}

enum { COMPUTING, COMMUNICATING, WAITING, BUBBLE, KINDS };

/* The same as characters: # computing, ~ communicating, . waiting, o computing on nothing, = computing
 * while chunks of an asynchronous collective are on their way. */
static const char *row_text(struct timeline *l, int64_t device)
{
    enum { COLUMNS = 56 };
    static const char glyphs[KINDS] = "#~.o";
    const struct trace *t = l->t;
    double spent[COLUMNS][KINDS], flying[COLUMNS] = { 0 };
    memset(spent, 0, sizeof spent);
    double wide = (double)max_i64(t->ticks, 1) / COLUMNS; /* ticks of a column */
    for (int64_t k = t->first_event[device]; k < t->first_event[device + 1]; k++) {
        const struct trace_event *e = &t->events[k];
        int kind = is_bubble(l, e) ? BUBBLE : e->kind == TRACE_COMPUTE ? COMPUTING : e->kind == TRACE_COLLECTIVE ? COMMUNICATING : WAITING;
        double from = (double)e->start, to = (double)e->end;
        for (int c = (int)(from / wide); c < COLUMNS && c * wide < to; c++) {
            double lo = from > c * wide ? from : c * wide, hi = to < (c + 1) * wide ? to : (c + 1) * wide;
            *(e->kind == TRACE_FLIGHT ? &flying[c] : &spent[c][kind]) += hi > lo ? hi - lo : 0;
        }
    }
    char line[COLUMNS + 1];
    for (int c = 0; c < COLUMNS; c++) {
        int most = WAITING;
        for (int k = 0; k < KINDS; k++)
            if (spent[c][k] > spent[c][most] || (spent[c][k] >= spent[c][most] && spent[c][k] > 0 && k < most))
                most = k;
        line[c] = most == COMPUTING && 2 * flying[c] > wide ? '=' : glyphs[most];
    }
    line[COLUMNS] = '\0';
    return arena_strdup(l->a, line);
}

static void add_ruler(struct timeline *l, double y)
{
    enum { MARKS = 4 };
    for (int k = 0; k <= MARKS; k++) {
        int64_t tick = l->t->ticks * k / MARKS;
        if (k > 0 && (k < MARKS ? tick == l->t->ticks * (k - 1) / MARKS || tick == l->t->ticks : l->t->ticks == 0))
            continue; /* a run of a few ticks */
        scene_put_text(l->s, ROLE_RULER, x_of(l, tick), y, k == 0 ? ALIGN_LEFT : k == MARKS ? ALIGN_RIGHT : ALIGN_CENTER,
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
    scene_put_text(l->s, ROLE_LEGEND, *x + 3 * CELL_W, y, ALIGN_LEFT, text);
    *x += CELL_W * (double)(strlen(text) + 6);
}

/* "pipeline of 4 stages along stage: 27.3% of the time without a microbatch" */
static const char *pipeline_text(struct timeline *l)
{
    if (l->shifts.n == 0)
        return arena_printf(l->a, "no loop shifts values along %s: no pipeline", l->stages->axis);
    double all = (double)max_i64(l->t->ticks * l->t->ndevices, 1);
    return arena_printf(l->a, "pipeline of %" PRId64 " stages along %s, %" PRId64
                        " turns: %.1f %% of the time on no microbatch", l->stages->n, l->stages->axis,
                        l->shifts.v[0].turns, 100 * (double)bubble_ticks(l) / all);
}

struct scene *view_timeline(const struct trace *t, const struct timeline_stages *stages, double width, bool list,
                            struct arena *a)
{
    struct timeline l = { .t = t, .s = scene_new(a), .a = a, .left = 22 * CELL_W, .width = width > 200 ? width : 200 };
    int64_t rows = min_i64(t->ndevices, MOST_ROWS);
    l.stages = stages;
    find_shifts(&l);
    struct str s = STR_IN(a);
    str_addf(&s, "%" PRId64 " devices over %" PRId64 " ticks: %.1f %% of their time they wait", t->ndevices, t->ticks,
             100 * trace_idle_share(t));
    scene_put_text(l.s, ROLE_CAPTION, 0, 0, ALIGN_LEFT, str_text(&s))->bold = true;
    l.s->title = str_text(&s);
    if (t->truncated)
        scene_put_text(l.s, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT, "more happened than is recorded: the totals are right, rows are cut");
    else if (stages)
        scene_put_text(l.s, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT, pipeline_text(&l));
    double y = (stages ? 4 : 3) * CELL_H;
    if (!list)
        add_ruler(&l, y - CELL_H);
    else
        scene_put_text(l.s, ROLE_RULER, l.left, y - CELL_H, ALIGN_LEFT, arena_printf(a, "ticks 0 to %" PRId64, t->ticks));
    for (int64_t d = 0; d < rows; d++) {
        int64_t all = max_i64(t->ticks, 1);
        struct scene_item *label =
            scene_put_text(l.s, ROLE_RULER, 0, list ? y : y + BAR_H / 2.0, ALIGN_LEFT,
                           arena_printf(a, "device %-3" PRId64 " busy %3" PRId64 " %%", d,
                                        100 * (t->computing[d] + t->collective[d]) / all));
        label->middle = !list;
        if (list) {
            scene_put_text(l.s, ROLE_LABEL, l.left, y, ALIGN_LEFT, row_text(&l, d));
            y += CELL_H;
        } else {
            draw_row(&l, d, y);
            y += ROW_H;
        }
    }
    if (rows < t->ndevices) {
        scene_put_text(l.s, ROLE_LEGEND, 0, y, ALIGN_LEFT, arena_printf(a, "and %" PRId64 " more devices", t->ndevices - rows));
        y += CELL_H;
    }
    y += CELL_H;
    if (list) {
        scene_put_text(l.s, ROLE_LEGEND, 0, y, ALIGN_LEFT,
            stages ? "in a row: # computing, ~ communicating, . waiting, o a pipeline bubble"
                   : "in a row: # computing, ~ communicating, . waiting");
        if (has_flights(t))
            scene_put_text(l.s, ROLE_LEGEND, 0, y + CELL_H, ALIGN_LEFT, "          = computing while an asynchronous collective is in flight");
    } else {
        double x = 0;
        add_key(&l, &x, y, ROLE_TILE, "computing, in the device's colour");
        add_key(&l, &x, y, ROLE_MOVE, "communicating");
        add_key(&l, &x, y, ROLE_FRAME, "waiting for others: a bubble");
        if (has_flights(t))
            scene_put_text(l.s, ROLE_LEGEND, 0, y + 2 * CELL_H, ALIGN_LEFT,
                "a thin strip under a row: an asynchronous collective in flight");
        if (l.shifts.n > 0 && bubble_ticks(&l) > 0) {
            struct scene_item *b = scene_add(l.s, SCENE_BOX, ROLE_LEGEND);
            b->y = y + CELL_H;
            b->w = 2 * CELL_W;
            b->h = CELL_H - 2;
            b->state = STATE_PADDING;
            scene_put_text(l.s, ROLE_LEGEND, 3 * CELL_W, y + CELL_H, ALIGN_LEFT,
                "computing on nothing: no microbatch is on the stage, a pipeline bubble");
        }
    }
    scene_measure(l.s);
    return l.s;
}
