/* A collective hop by hop, from the emulator's own trace: who has which chunk, and what moves next. */
#include "viz/hops.h"

#include <math.h>
#include <string.h>

#include "ir/ir.h"
#include "viz/views.h"

enum { MOST_DEVICES = 16, MOST_CHUNKS = 36, BOX_W = 36, BOX_H = 30 };

/* What a device has of a chunk. */
struct holding {
    bool has, fresh;   /* fresh: came in the last round */
    uint64_t added;    /* ranks whose contribution is in it, the first 64 */
    int n;             /* numbers known */
    double v[HOPS_NUMBERS];
};

struct hops {
    const struct trace *t;
    const struct trace_meeting *m;
    const struct hops_options *o;
    struct scene *s;
    struct arena *a;
    int64_t n, chunks;
    int shown_devices, shown_chunks;
    int numbers;    /* of a chunk that are shown */
    double row;     /* height of the table's */
    bool sums;
    struct holding *cells, *before; /* [n * chunks] */
};

static struct holding *cell(const struct hops *h, int64_t rank, int64_t chunk)
{
    return &h->cells[rank * h->chunks + chunk];
}

static int64_t rank_of(const struct hops *h, int64_t device)
{
    for (int64_t r = 0; r < h->n; r++)
        if (h->m->devices[r] == device)
            return r;
    return -1;
}

/* Whether rank has the chunk before the first hop (trace.h says what chunks are). */
static bool has_at_first(const struct hops *h, int64_t rank, int64_t chunk)
{
    switch ((int)h->m->kind) {
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER: return true;
    case OP_ALL_TO_ALL: return chunk / h->n == rank;
    case OP_COLLECTIVE_BROADCAST: return rank == 0;
    default: return chunk == rank;
    }
}

static void start(struct hops *h)
{
    for (int64_t r = 0; r < h->n; r++)
        for (int64_t c = 0; c < h->chunks; c++) {
            struct holding *x = cell(h, r, c);
            x->has = has_at_first(h, r, c);
            if (!x->has)
                continue;
            x->added = r < 64 ? UINT64_C(1) << r : 0;
            x->n = h->o->value ? h->o->value(h->o->context, r, c, x->v) : 0;
        }
}

static double combined(enum hops_combine how, double a, double b)
{
    switch (how) {
    case COMBINE_MULTIPLY: return a * b;
    case COMBINE_MAX: return a > b ? a : b;
    case COMBINE_MIN: return a < b ? a : b;
    case COMBINE_NONE:
    case COMBINE_ADD: break;
    }
    return a + b;
}

static void receive(const struct hops *h, const struct holding *from, struct holding *to, bool sums)
{
    if (!sums || !to->has) {
        *to = *from;
        to->fresh = true;
        return;
    }
    to->added |= from->added;
    to->n = h->o->combine == COMBINE_NONE || from->n < to->n ? (h->o->combine == COMBINE_NONE ? 0 : from->n) : to->n;
    for (int k = 0; k < to->n; k++)
        to->v[k] = combined(h->o->combine, to->v[k], from->v[k]);
    to->fresh = true;
}

/* Hops of one round do not depend on each other: they read what was there before it. */
static void run_round(struct hops *h, int64_t round)
{
    memcpy(h->before, h->cells, sizeof *h->cells * (size_t)(h->n * h->chunks));
    for (int64_t k = 0; k < h->n * h->chunks; k++)
        h->cells[k].fresh = false;
    for (int64_t k = h->m->first_hop; k < h->m->first_hop + h->m->nhops; k++) {
        const struct trace_hop *hop = &h->t->hops[k];
        int64_t from = rank_of(h, hop->from), to = rank_of(h, hop->to);
        if (hop->round != round || from < 0 || to < 0)
            continue;
        for (int64_t c = hop->chunk; c < hop->chunk + hop->nchunks && c < h->chunks; c++) {
            receive(h, &h->before[from * h->chunks + c], cell(h, to, c), hop->sums);
            /* a part that was handed on to be added has no use any more */
            if (hop->sums && !cell(h, from, c)->fresh)
                *cell(h, from, c) = (struct holding){ 0 };
            bool on_its_way = h->m->kind == OP_ALL_TO_ALL || (h->m->kind == OP_REDUCE_SCATTER && c != from);
            if (on_its_way && !cell(h, from, c)->fresh && from != to)
                *cell(h, from, c) = (struct holding){ 0 };
        }
    }
}

static bool is_whole(const struct hops *h, const struct holding *x)
{
    uint64_t all = h->n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << h->n) - 1;
    return !h->sums || x->added == all;
}

/* ---- the table ----------------------------------------------------------------------------------- */

static const char *added_text(const struct hops *h, const struct holding *x)
{
    struct str s = STR_IN(h->a);
    int n = 0;
    for (int64_t r = 0; r < h->n && r < 64; r++)
        if (x->added >> r & 1 && ++n <= 4)
            str_addf(&s, "%s%" PRId64, n > 1 ? "+" : "", h->m->devices[r]);
    if (n > 4) {
        s.n = 0;
        str_addf(&s, "%d parts", n);
    }
    return str_text(&s);
}

static const char *cell_text(const struct hops *h, const struct holding *x, int64_t chunk)
{
    if (!x->has)
        return "";
    struct str s = STR_IN(h->a);
    for (int k = 0; k < x->n && k < h->numbers; k++)
        str_addf(&s, "%s%.6g", k ? " " : "", x->v[k]);
    if (x->n == 0 && h->m->kind == OP_ALL_TO_ALL)
        str_addf(&s, "%" PRId64 ">%" PRId64, h->m->devices[chunk / h->n], h->m->devices[chunk % h->n]);
    else if (x->n == 0 && h->sums)
        str_adds(&s, is_whole(h, x) ? "\xce\xa3 all" : added_text(h, x));
    else if (x->n == 0)
        str_addf(&s, "%" PRId64, chunk);
    return str_text(&s);
}

/* Whose chunk it is: where it starts, or where its sum ends. */
static int64_t owner_of(const struct hops *h, int64_t chunk)
{
    int64_t r = h->m->kind == OP_ALL_TO_ALL ? chunk / h->n : chunk % h->n;
    return h->m->devices[r];
}

/* The chunk of a column. An all-to-all has a column a device: what goes there, and once it is here, what
 * came from there. */
static int64_t chunk_of(const struct hops *h, int64_t rank, int64_t column)
{
    if (h->m->kind != OP_ALL_TO_ALL)
        return column;
    int64_t came = column * h->n + rank;
    return cell(h, rank, came)->has ? came : rank * h->n + column;
}

/* Chunks of others that a device hands on. */
static int64_t in_passing(const struct hops *h, int64_t rank)
{
    int64_t n = 0;
    for (int64_t c = 0; c < h->chunks && h->m->kind == OP_ALL_TO_ALL; c++)
        n += cell(h, rank, c)->has && c / h->n != rank && c % h->n != rank;
    return n;
}

static void draw_cell(struct hops *h, int64_t rank, int64_t column, double x, double y, double w)
{
    int64_t chunk = chunk_of(h, rank, column);
    const struct holding *c = cell(h, rank, chunk);
    struct scene_item *b = scene_add(h->s, SCENE_BOX, c->has ? ROLE_TILE : ROLE_FRAME);
    b->x = x;
    b->y = y;
    b->w = w;
    b->h = h->row;
    b->text = cell_text(h, c, chunk);
    if (!c->has)
        return;
    b->device = h->m->devices[rank];
    b->nowners = 1; /* its colour: whose chunk it is */
    b->owners[0] = owner_of(h, chunk);
    b->state = (is_whole(h, c) ? 0u : STATE_PARTIAL) | (c->fresh ? STATE_CHANGED : 0u);
    struct str hint = STR_IN(h->a);
    str_addf(&hint, "device %" PRId64 ", chunk %" PRId64, b->device, chunk);
    if (h->sums)
        str_addf(&hint, ": %s", is_whole(h, c) ? "the whole sum" : arena_printf(h->a, "parts of %s", added_text(h, c)));
    b->hint = str_text(&hint);
}

static size_t widest_cell(const struct hops *h)
{
    size_t widest = 3;
    for (int64_t r = 0; r < h->shown_devices; r++)
        for (int64_t c = 0; c < h->shown_chunks; c++) {
            int64_t chunk = chunk_of(h, r, c);
            size_t n = (size_t)scene_text_columns(cell_text(h, cell(h, r, chunk), chunk));
            widest = n > widest ? n : widest;
        }
    return widest;
}

/* A terminal has 80 columns: fewer numbers, then fewer chunks. */
static void fit_terminal(struct hops *h)
{
    enum { ROOM = 80 - 11 };
    while (h->numbers > 1 && h->shown_chunks * ((int)widest_cell(h) + 4) >= ROOM)
        h->numbers--;
    while (h->shown_chunks > 1 && h->shown_chunks * ((int)widest_cell(h) + 4) >= ROOM)
        h->shown_chunks--;
}

static double draw_table(struct hops *h, double left, double top)
{
    bool swaps = h->m->kind == OP_ALL_TO_ALL;
    size_t widest = widest_cell(h);
    double w = CELL_W * ((double)widest + 4), x0 = left + CELL_W * 11.0;
    scene_put_text(h->s, ROLE_RULER, x0, top, ALIGN_LEFT, swaps ? "for, then from device" : "chunk");
    for (int64_t c = 0; c < h->shown_chunks; c++)
        scene_put_text(h->s, ROLE_RULER, x0 + (double)c * w + w / 2, top + CELL_H, ALIGN_CENTER,
            arena_printf(h->a, "%" PRId64, swaps ? h->m->devices[c] : c));
    double y = top + 2 * CELL_H;
    for (int64_t r = 0; r < h->shown_devices; r++, y += h->row) {
        double mid = h->o->list ? y + CELL_H : y + (h->row - CELL_H) / 2;
        scene_put_text(h->s, ROLE_RULER, x0 - CELL_W, mid, ALIGN_RIGHT,
            arena_printf(h->a, "device %" PRId64, h->m->devices[r]));
        for (int64_t c = 0; c < h->shown_chunks; c++)
            draw_cell(h, r, c, x0 + (double)c * w, y, w);
        if (in_passing(h, r) > 0)
            scene_put_text(h->s, ROLE_LEGEND, x0 + h->shown_chunks * w + CELL_W, mid, ALIGN_LEFT,
                arena_printf(h->a, "+ %" PRId64 " in passing", in_passing(h, r)));
    }
    y += CELL_H;
    int64_t columns = swaps ? h->n : h->chunks;
    if (h->shown_devices < h->n || h->shown_chunks < columns) {
        scene_put_text(h->s, ROLE_LEGEND, x0, y, ALIGN_LEFT,
            arena_printf(h->a, "and %" PRId64 " more devices, %" PRId64 " more chunks", h->n - h->shown_devices,
                         columns - h->shown_chunks));
        y += CELL_H;
    }
    return y;
}

/* ---- the ring ------------------------------------------------------------------------------------ */

static const char *hop_chunks(const struct hops *h, const struct trace_hop *hop)
{
    return hop->nchunks == 1 ? arena_printf(h->a, "%" PRId64, hop->chunk)
                             : arena_printf(h->a, "%" PRId64 "-%" PRId64, hop->chunk, hop->chunk + hop->nchunks - 1);
}

static int64_t hops_of_round(const struct hops *h)
{
    int64_t n = 0;
    for (int64_t k = h->m->first_hop; k < h->m->first_hop + h->m->nhops; k++)
        n += h->t->hops[k].round == h->o->round;
    return n;
}

struct ring {
    double x, y, r; /* middle, radius */
    int64_t n;
};

static void on_ring(const struct ring *g, int64_t rank, double *x, double *y)
{
    const double turn = 2 * 3.14159265358979323846;
    double at = turn * (double)rank / (double)g->n - turn / 4;
    *x = g->x + g->r * cos(at);
    *y = g->y + g->r * sin(at);
}

static void draw_hop(struct hops *h, const struct ring *g, const struct trace_hop *hop, bool label)
{
    int64_t from = rank_of(h, hop->from), to = rank_of(h, hop->to);
    double x0, y0, x1, y1;
    if (from < 0 || to < 0 || from == to)
        return;
    on_ring(g, from, &x0, &y0);
    on_ring(g, to, &x1, &y1);
    double dx = x1 - x0, dy = y1 - y0, len = hypot(dx, dy), cut = 23;
    if (len < 2 * cut + 4)
        cut = len / 2 - 2;
    dx /= len;
    dy /= len;
    double side = 4; /* two that send to each other do not share a line */
    struct scene_item *l = scene_add(h->s, SCENE_LINE, ROLE_MOVE);
    l->x = x0 + dx * cut - dy * side;
    l->y = y0 + dy * cut + dx * side;
    l->w = (len - 2 * cut) * dx;
    l->h = (len - 2 * cut) * dy;
    l->arrow = true;
    l->hint = arena_printf(h->a, "%" PRId64 " to %" PRId64 ": chunk %s, %" PRId64 " bytes", hop->from, hop->to,
                           hop_chunks(h, hop), hop->bytes);
    if (!label)
        return;
    const double places[] = { 0.5, 0.35, 0.65 };
    for (size_t k = 0; k < COUNTOF(places); k++) { /* outwards of the arrow; where no other stands */
        double mx = x0 + (x1 - x0) * places[k] - dy * side, my = y0 + (y1 - y0) * places[k] + dx * side;
        double ox = mx - g->x, oy = my - g->y, on = hypot(ox, oy);
        if (on < 12) {
            ox = -dy;
            oy = dx;
            on = 1;
        }
        struct scene_item t = { .kind = SCENE_TEXT, .role = ROLE_MOVE, .align = ALIGN_CENTER, .device = -1, .axis = -1 };
        t.x = mx + 13 * ox / on;
        t.y = my + 11 * oy / on - CELL_H / 2.0;
        t.size = 9;
        t.text = hop_chunks(h, hop);
        if (scene_is_free(h->s, &t)) {
            vec_push(h->a, &h->s->items, t);
            return;
        }
    }
}

static double draw_ring(struct hops *h, double top, double *bottom)
{
    int64_t n = h->shown_devices, moving = hops_of_round(h);
    struct ring g = { .n = n, .r = 70 };
    if (48.0 * (double)n / 6.28 > g.r)
        g.r = 48.0 * (double)n / 6.28;
    g.x = g.r + BOX_W;
    g.y = top + g.r + BOX_H;
    for (int64_t r = 0; r < n; r++) {
        double x, y;
        on_ring(&g, r, &x, &y);
        struct scene_item *b = scene_add(h->s, SCENE_BOX, ROLE_TILE);
        b->x = x - BOX_W / 2.0;
        b->y = y - BOX_H / 2.0;
        b->w = BOX_W;
        b->h = BOX_H;
        b->rounded = true;
        b->device = h->m->devices[r];
        b->text = arena_printf(h->a, "%" PRId64, b->device);
        b->word = arena_printf(h->a, "device %" PRId64, b->device);
    }
    if (n == h->n)
        for (int64_t k = h->m->first_hop; k < h->m->first_hop + h->m->nhops; k++)
            if (h->t->hops[k].round == h->o->round)
                draw_hop(h, &g, &h->t->hops[k], moving <= n);
    *bottom = g.y + g.r + BOX_H;
    return 2 * (g.r + BOX_W);
}

/* ---- the picture --------------------------------------------------------------------------------- */

static double list_hops(struct hops *h, double y)
{
    enum { MOST = 24 };
    int64_t n = hops_of_round(h), shown = 0;
    for (int64_t k = h->m->first_hop; k < h->m->first_hop + h->m->nhops && shown < MOST; k++) {
        const struct trace_hop *hop = &h->t->hops[k];
        if (hop->round != h->o->round)
            continue;
        scene_put_text(h->s, ROLE_MOVE, 0, y, ALIGN_LEFT,
            arena_printf(h->a, "%" PRId64 " -> %" PRId64 "  chunk %s, %" PRId64 " bytes%s", hop->from, hop->to,
                         hop_chunks(h, hop), hop->bytes, hop->sums ? ", added" : ""));
        y += CELL_H;
        shown++;
    }
    if (shown < n)
        scene_put_text(h->s, ROLE_LEGEND, 0, y, ALIGN_LEFT, arena_printf(h->a, "and %" PRId64 " more hops", n - shown));
    return y + (shown < n ? CELL_H : 0);
}

static void add_caption(struct hops *h)
{
    struct str s = STR_IN(h->a), safe = STR_IN(h->a);
    const char *name = h->o->name ? h->o->name : "";
    str_add_safe(&safe, name, strlen(name));
    str_adds(&s, scene_short(h->a, str_text(&safe), 36));
    if (h->o->over && h->o->over[0])
        str_addf(&s, " over %s", h->o->over);
    str_addf(&s, ", %s, group ", collective_algorithm_name(h->t->algorithm));
    int64_t r = 0;
    for (; r < h->n && r < 8 && s.n < 66; r++)
        str_addf(&s, "%s%" PRId64, r ? "," : "", h->m->devices[r]);
    if (h->n > r)
        str_addf(&s, ",.. (%" PRId64 ")", h->n);
    struct scene_item *t = scene_put_text(h->s, ROLE_CAPTION, 0, 0, ALIGN_LEFT, str_text(&s));
    t->bold = true;
    bool over = h->o->round >= h->m->rounds;
    scene_put_text(h->s, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT,
        over ? arena_printf(h->a, "after %" PRId64 " rounds, %s in all", h->m->rounds, scene_bytes(h->a, h->m->bytes))
             : arena_printf(h->a, "round %" PRId64 " of %" PRId64 ": what moves next", h->o->round + 1, h->m->rounds));
    h->s->title = str_text(&s);
}

static const char *cells_note(const struct hops *h)
{
    const char *colour = h->sums ? "colour: whose chunk it is in the end" : "colour: whose chunk it was";
    if (h->o->value)
        return arena_printf(h->a, "cells: first numbers of a chunk; %s", colour);
    if (h->sums)
        return arena_printf(h->a, "cells: devices whose parts are in it; %s", colour);
    return arena_printf(h->a, "cells: chunks; %s", colour);
}

static double draw(struct hops *h, const struct trace *t, const struct hops_options *o, struct arena *a)
{
    *h = (struct hops){ .t = t, .m = &t->meetings[o->meeting], .o = o, .s = scene_new(a), .a = a };
    h->n = h->m->ndevices;
    h->chunks = h->m->nchunks > 0 ? h->m->nchunks : 1;
    h->shown_devices = (int)min_i64(h->n, MOST_DEVICES);
    h->shown_chunks = (int)min_i64(h->m->kind == OP_ALL_TO_ALL ? h->n : h->chunks, MOST_CHUNKS);
    h->sums = h->m->kind == OP_ALL_REDUCE || h->m->kind == OP_REDUCE_SCATTER;
    h->numbers = HOPS_NUMBERS;
    h->row = o->list ? 2 * CELL_H : 34;
    h->cells = ARENA_ARRAY(a, struct holding, h->n * h->chunks);
    h->before = ARENA_ARRAY(a, struct holding, h->n * h->chunks);
    start(h);
    for (int64_t r = 0; r < o->round && r < h->m->rounds; r++)
        run_round(h, r);
    add_caption(h);
    if (o->list)
        fit_terminal(h);
    double bottom = 0, left = o->list ? 0 : draw_ring(h, 3 * CELL_H, &bottom);
    double y = draw_table(h, left, 3 * CELL_H);
    if (o->list)
        y = list_hops(h, y) + CELL_H;
    return y > bottom ? y : bottom;
}

struct scene *view_hops(const struct trace *t, const struct hops_options *o, struct arena *a)
{
    struct hops h;
    double y = draw(&h, t, o, a);
    scene_measure(h.s);
    scene_add_legend(h.s, y + CELL_H, cells_note(&h));
    h.s->frame = o->round;
    h.s->frames = h.m->rounds + 1;
    return h.s;
}

struct scene *view_hops_strip(const struct trace *t, const struct hops_options *o, int64_t most, struct arena *a)
{
    struct scene *s = scene_new(a);
    struct hops h = { 0 };
    int64_t rounds = t->meetings[o->meeting].rounds;
    struct hops_options one = *o; /* h points at it, to the end */
    double y = 0;
    for (int64_t r = 0; r <= rounds && r < most; r++) {
        one.round = r;
        double high = draw(&h, t, &one, a);
        scene_measure(h.s);
        scene_append(s, h.s, 0, y);
        y += high + 2 * CELL_H;
        s->title = h.s->title;
    }
    scene_add_legend(s, y, h.s ? cells_note(&h) : NULL);
    return s;
}
