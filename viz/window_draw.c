/* Frames: each view has a canvas of its own, which is moved when the view is panned and painted anew only
 * where that uncovers something; tabs, foot, panel and keys are painted over it. */
#include "viz/window_views.h"

#if HAVE_SDL

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "viz/palette.h"

int window_line(const struct window *w)
{
    return (int)(10 * w->scale * 1.3 + 0.5);
}

static double font(const struct window *w)
{
    return 10 * w->scale;
}

/* The height of a strip of tabs or of the foot. */
static int strip(const struct window *w)
{
    return window_line(w) + (int)(6 * w->scale / 1.5);
}

void window_place(const struct window *w, int k, int *x, int *y, int *width, int *height)
{
    int top = strip(w), bottom = w->h - strip(w), n = w->tiled ? w->nviews : 1;
    int columns = n > 1 ? (n > 4 ? 3 : 2) : 1, rows = (n + columns - 1) / columns;
    int at = w->tiled ? k : 0, row = at / columns, column = at % columns;
    if (bottom <= top)
        bottom = top + 1;
    *x = w->w * column / columns;
    *y = top + (bottom - top) * row / rows;
    *width = w->w * (column + 1) / columns - *x - (column + 1 < columns);
    *height = top + (bottom - top) * (row + 1) / rows - *y - (row + 1 < rows);
}

static void view_fit(const struct window *w, struct view *v, int width, int height)
{
    if (!v->scene)
        return;
    double full_w = v->scene->width + 2 * SCENE_MARGIN, full_h = v->scene->height + 2 * SCENE_MARGIN;
    double scale = fmin(width / full_w, height / full_h);
    /* few tiles need not fill the window; what is very large is shown from its corner on, legibly */
    scale = fmin(scale, 1.6 * w->scale);
    v->scale = fmax(scale, 0.12 * w->scale);
    v->x = -SCENE_MARGIN - fmax(0, (width / v->scale - full_w) / 2);
    v->y = -SCENE_MARGIN - fmax(0, (height / v->scale - full_h) / 2);
}

static struct camera camera_of(const struct view *v)
{
    return (struct camera){ .x = v->x, .y = v->y, .scale = v->scale };
}

static void paint_all(struct window *w, struct view *v)
{
    struct camera cam = camera_of(v);
    if (v->scene) {
        canvas_scene(v->canvas, v->scene, &cam, w->dark, 0, 0, v->w, v->h);
        return;
    }
    canvas_fill(v->canvas, 0, 0, v->w, v->h, palette_paint(PAINT_GROUND, w->dark), 1);
    canvas_text(v->canvas, font(w), font(w), font(w), false, palette_paint(PAINT_MOVE, w->dark), v->why ? v->why : "");
}

/* Brings the canvas up to date with the camera. */
static void paint_view(struct window *w, struct view *v)
{
    bool same = v->painted && v->pdark == w->dark && fabs(v->pscale - v->scale) < 1e-12;
    /* whole pixels, so that what was painted can be moved */
    double dx = (v->px - v->x) * v->scale, dy = (v->py - v->y) * v->scale;
    int ix = (int)lround(dx), iy = (int)lround(dy);
    bool near = fabs(dx - ix) < 1e-3 && fabs(dy - iy) < 1e-3 && ix > -v->w && ix < v->w && iy > -v->h && iy < v->h;
    if (same && ix == 0 && iy == 0 && near)
        return;
    if (same && near && v->scene) {
        struct camera cam = camera_of(v);
        canvas_scroll(v->canvas, 0, 0, v->w, v->h, ix, iy);
        if (ix != 0)
            canvas_scene(v->canvas, v->scene, &cam, w->dark, ix > 0 ? 0 : v->w + ix, 0, ix > 0 ? ix : -ix, v->h);
        if (iy != 0)
            canvas_scene(v->canvas, v->scene, &cam, w->dark, 0, iy > 0 ? 0 : v->h + iy, v->w, iy > 0 ? iy : -iy);
    } else {
        paint_all(w, v);
    }
    v->painted = true;
    v->px = v->x;
    v->py = v->y;
    v->pscale = v->scale;
    v->pdark = w->dark;
}

static bool size_view(struct view *v, int width, int height)
{
    if (v->canvas && v->w == width && v->h == height)
        return true;
    canvas_free(v->canvas);
    v->canvas = canvas_new(width, height);
    v->w = width;
    v->h = height;
    v->painted = false;
    return v->canvas != NULL;
}

static void show(struct canvas *from, int fw, int fh, SDL_Rect part, SDL_Surface *to, int x, int y)
{
    int stride;
    uint32_t *pixels = canvas_pixels(from, &stride);
    SDL_Surface *s = sdl.SDL_CreateRGBSurfaceWithFormatFrom(pixels, fw, fh, 32, stride, SDL_PIXELFORMAT_RGB888);
    if (!s)
        return;
    SDL_Rect at = { x, y, 0, 0 };
    sdl.SDL_UpperBlit(s, &part, to, &at);
    sdl.SDL_FreeSurface(s);
}

static void show_ui(struct window *w, SDL_Surface *to, int x, int y, int width, int height)
{
    show(w->ui, w->w, w->h, (SDL_Rect){ x, y, width, height }, to, x, y);
}

/* ---- around the views ---------------------------------------------------------------------------- */

static void tabs(struct window *w, SDL_Surface *to)
{
    int high = strip(w), x = (int)(4 * w->scale);
    double pad = 3 * w->scale / 1.5;
    canvas_fill(w->ui, 0, 0, w->w, high, palette_paint(PAINT_PANEL, w->dark), 1);
    for (int k = 0; k < w->nviews; k++) {
        char label[160];
        snprintf(label, sizeof label, "%d %.60s", k + 1, w->views[k].words);
        int width = (int)(SCENE_GLYPH * font(w) * (scene_text_columns(label) + 2));
        bool front = k == w->front;
        if (front)
            canvas_fill(w->ui, x, 2, width, high - 2, palette_paint(PAINT_GROUND, w->dark), 1);
        canvas_text(w->ui, x + SCENE_GLYPH * font(w), pad, font(w), front,
                    palette_paint(front ? PAINT_INK : PAINT_FAINT, w->dark), label);
        x += width;
    }
    static const char help[] = "? keys  : command";
    double wide = SCENE_GLYPH * font(w) * (double)(sizeof help);
    if (x + wide < w->w)
        canvas_text(w->ui, w->w - wide, pad, font(w), false, palette_paint(PAINT_FAINT, w->dark), help);
    show_ui(w, to, 0, 0, w->w, high);
}

static void foot(struct window *w, SDL_Surface *to)
{
    int high = strip(w), y = w->h - high;
    double pad = 3 * w->scale / 1.5, glyph = SCENE_GLYPH * font(w);
    canvas_fill(w->ui, 0, y, w->w, high, palette_paint(PAINT_PANEL, w->dark), 1);
    if (w->bar.open) {
        char line[BAR_LENGTH + 2];
        int room = (int)(w->w / glyph) - 2, from = w->bar.at > room - 2 ? w->bar.at - room + 2 : 0;
        snprintf(line, sizeof line, ":%s", w->bar.text + from);
        canvas_text(w->ui, glyph / 2, y + pad, font(w), false, palette_paint(PAINT_INK, w->dark), line);
        canvas_fill(w->ui, glyph / 2 + glyph * (1 + w->bar.at - from), y + pad, fmax(1, w->scale), font(w) * 1.2,
                    palette_paint(PAINT_STRONG, w->dark), 1);
    } else {
        canvas_text(w->ui, glyph / 2, y + pad, font(w), false, palette_paint(PAINT_INK, w->dark), w->message);
    }
    show_ui(w, to, 0, y, w->w, high);
}

enum { MOST_LINES = 200 };

struct box_line {
    const char *text;
    size_t n;
    int indent;
};

/* Where the second column of a line begins ("  sharding   [_,model]"); 4 where there is none. */
static int second_column(const char *p, size_t n, int room)
{
    for (size_t k = strspn(p, " "); k + 2 < n; k++)
        if (p[k] == ' ' && p[k + 1] == ' ') {
            size_t at = k + strspn(p + k, " ");
            return (int)at < room / 2 ? (int)at : 4;
        }
    return 4;
}

/* Lines of at most `room` columns, cut at blanks where there are any; what is left of a line stands under its
 * second column. */
static int break_lines(const char *text, int room, struct box_line *out, int *widest)
{
    int n = 0;
    for (const char *p = text; *p && n < MOST_LINES;) {
        size_t len = strcspn(p, "\n"), at = 0;
        int hang = second_column(p, len, room);
        for (int part = 0; n < MOST_LINES && (part == 0 || at < len); part++) {
            int indent = part ? hang : 0, columns = 0, most = room - indent > 8 ? room - indent : 8;
            size_t k = at, blank = 0;
            for (; k < len && columns < most; k++) {
                columns += ((unsigned char)p[k] & 0xc0) != 0x80;
                if (p[k] == ' ' && columns > most / 2)
                    blank = k;
            }
            while (k < len && ((unsigned char)p[k] & 0xc0) == 0x80)
                k++;
            k = k < len && blank ? blank : k;
            out[n++] = (struct box_line){ p + at, k - at, indent };
            *widest = columns + indent > *widest ? columns + indent : *widest;
            at = k;
            while (at < len && p[at] == ' ')
                at++;
        }
        p += len + (p[len] == '\n');
    }
    return n;
}

enum corner { LOWER_RIGHT, CENTRE, UPPER_LEFT };

/* Lines of text in a box over the views; left, top, for the upper left corner: where that is, in a view so wide. */
static void box(struct window *w, SDL_Surface *to, const char *text, int from, enum corner where, int left, int top, int wide)
{
    struct box_line lines[MOST_LINES];
    int widest = 0, high = window_line(w), most = (w->h - 2 * strip(w)) / high - 2;
    int right = where == UPPER_LEFT && wide > 0 ? wide : w->w;
    int room = (int)(right / (SCENE_GLYPH * font(w))) - 4;
    int n = break_lines(text, room, lines, &widest);
    most = most < 1 ? 1 : most;
    from = from > n - most ? n - most : from;
    from = from < 0 ? 0 : from;
    int shown = n - from < most ? n - from : most;
    int width = (int)(SCENE_GLYPH * font(w) * (widest + 2)), height = high * shown + high;
    int x = where == CENTRE       ? (w->w - width) / 2
            : where == UPPER_LEFT ? left
                                  : w->w - width - (int)(6 * w->scale);
    int y = where == CENTRE       ? (w->h - height) / 2
            : where == UPPER_LEFT ? top
                                  : w->h - strip(w) - height - (int)(6 * w->scale);
    x = x < 0 ? 0 : x;
    y = y < 0 ? 0 : y;
    canvas_fill(w->ui, x, y, width, height, palette_paint(PAINT_PANEL, w->dark), 1);
    canvas_outline(w->ui, x, y, width, height, fmax(1, w->scale / 1.5), palette_paint(PAINT_LINE, w->dark));
    for (int k = 0; k < shown; k++) {
        char line[1024];
        const struct box_line *l = &lines[from + k];
        snprintf(line, sizeof line, "%*s%.*s", l->indent, "", (int)(l->n < sizeof line / 2 ? l->n : sizeof line / 2),
                 l->text);
        canvas_text(w->ui, x + SCENE_GLYPH * font(w), y + high / 2.0 + k * high, font(w), false,
                    palette_paint(PAINT_INK, w->dark), line);
    }
    show_ui(w, to, x, y, width, height);
}

static void keys_box(struct window *w, SDL_Surface *to)
{
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    for (int k = 0; window_keys_help[k]; k++)
        str_addf(&s, "%s\n", window_keys_help[k]);
    box(w, to, str_text(&s), w->panel_line, CENTRE, 0, 0, 0);
    arena_free(&a);
}

/* A frame of four rectangles around what the pointer is on. */
static void mark(SDL_Surface *to, int x, int y, int width, int height, int thick, uint32_t rgb, const SDL_Rect *clip)
{
    SDL_Rect sides[4] = { { x, y, width, thick },
                          { x, y + height - thick, width, thick },
                          { x, y, thick, height },
                          { x + width - thick, y, thick, height } };
    for (int k = 0; k < 4; k++) {
        SDL_Rect r = sides[k];
        if (r.x < clip->x) {
            r.w -= clip->x - r.x;
            r.x = clip->x;
        }
        if (r.y < clip->y) {
            r.h -= clip->y - r.y;
            r.y = clip->y;
        }
        if (r.x + r.w > clip->x + clip->w)
            r.w = clip->x + clip->w - r.x;
        if (r.y + r.h > clip->y + clip->h)
            r.h = clip->y + clip->h - r.y;
        if (r.w > 0 && r.h > 0)
            sdl.SDL_FillRect(to, &r, 0xff000000u | rgb);
    }
}

static void mark_hover(struct window *w, SDL_Surface *to)
{
    const struct view *v = &w->views[w->front];
    if (w->hover < 0 || !v->scene || w->hover >= v->scene->items.n)
        return;
    const struct scene_item *it = &v->scene->items.v[w->hover];
    SDL_Rect clip = { v->left, v->top, v->w, v->h };
    int x = v->left + (int)lround((it->x - v->x) * v->scale), y = v->top + (int)lround((it->y - v->y) * v->scale);
    mark(to, x - 1, y - 1, (int)lround(it->w * v->scale) + 3, (int)lround(it->h * v->scale) + 3,
         (int)fmax(2, w->scale), palette_paint(PAINT_STRONG, w->dark), &clip);
}

/* Far away the picture's own words are too small to read: its caption and legend stand over it then. */
static void far_words(struct window *w, const struct view *v, SDL_Surface *to)
{
    if (!v->scene || 10 * v->scale >= 6)
        return;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    double y = -1;
    for (int64_t k = 0; k < v->scene->items.n; k++) {
        const struct scene_item *it = &v->scene->items.v[k];
        bool beside = w->tiled && w->nviews > 1; /* little room: the caption alone */
        if (it->kind != SCENE_TEXT || (it->role != ROLE_CAPTION && (it->role != ROLE_LEGEND || beside)))
            continue;
        if (s.n && fabs(it->y - y) > 1)
            str_addc(&s, '\n');
        else if (s.n && it->role == ROLE_LEGEND)
            str_adds(&s, "   ");
        y = it->y;
        str_adds(&s, it->text);
    }
    if (s.n)
        box(w, to, str_text(&s), 0, UPPER_LEFT, v->left + (int)(4 * w->scale), v->top + (int)(4 * w->scale),
            v->w);
    arena_free(&a);
}

/* ---- a frame ------------------------------------------------------------------------------------- */

static void make_scene(struct window *w, struct view *v, int width, uint64_t version)
{
    char *words = v->words;
    arena_free(&v->arena);
    v->why = NULL;
    v->scene = w->client.make(w->client.context, words, fmax(width / w->scale, 480), &v->arena, &v->why);
    v->version = version;
    v->made_for = width;
    v->made = true;
    v->painted = false;
    w->stats.makes++;
}

static void draw_view(struct window *w, int k, SDL_Surface *to, bool busy, uint64_t version)
{
    struct view *v = &w->views[k];
    int x, y, width, height;
    window_place(w, k, &x, &y, &width, &height);
    if (width <= 0 || height <= 0)
        return;
    /* much more room, or much less: another picture, where nobody has moved this one */
    bool other = v->fitted && abs(width - v->made_for) > width / 5;
    if (!busy && (!v->made || v->version != version || other))
        make_scene(w, v, width, version);
    bool resized = v->w != width || v->h != height;
    if (!size_view(v, width, height))
        return;
    if (v->fitted || (resized && v->scale <= 0)) {
        view_fit(w, v, width, height);
    }
    v->left = x;
    v->top = y;
    paint_view(w, v);
    show(v->canvas, width, height, (SDL_Rect){ 0, 0, width, height }, to, x, y);
    if (w->tiled && w->nviews > 1 && k == w->front)
        mark(to, x, y, width, height, (int)fmax(2, w->scale), palette_paint(PAINT_LINE, w->dark),
             &(SDL_Rect){ x, y, width, height });
}

/* Places beside the last view that no view takes. */
static void fill_empty(struct window *w, SDL_Surface *to)
{
    int columns = w->nviews > 4 ? 3 : 2;
    for (int k = w->nviews; k % columns != 0; k++) {
        SDL_Rect r;
        window_place(w, k, &r.x, &r.y, &r.w, &r.h);
        sdl.SDL_FillRect(to, &r, 0xff000000u | palette_paint(PAINT_PANEL, w->dark));
    }
}

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void window_frame(struct window *w, bool busy)
{
    double from = cpu_now();
    SDL_Surface *to = sdl.SDL_GetWindowSurface(w->window);
    if (!to || to->w <= 0 || to->h <= 0)
        return;
    if (!w->ui || w->w != to->w || w->h != to->h) {
        canvas_free(w->ui);
        w->w = to->w;
        w->h = to->h;
        w->ui = canvas_new(w->w, w->h);
        int points = 0;
        sdl.SDL_GetWindowSize(w->window, &points, NULL);
        w->density = points > 0 ? (double)to->w / points : 1;
        if (!w->ui)
            return;
    }
    uint64_t version = busy ? 0 : w->client.version(w->client.context);
    if (!busy)
        w->version = version;
    if (w->nviews == 0)
        sdl.SDL_FillRect(to, NULL, 0xff000000u | palette_paint(PAINT_GROUND, w->dark));
    if (w->tiled && w->nviews > 1)
        sdl.SDL_FillRect(to, NULL, 0xff000000u | palette_paint(PAINT_LINE, w->dark));
    if (w->tiled && w->nviews > 1)
        fill_empty(w, to);
    for (int k = 0; k < w->nviews; k++)
        if (w->tiled || k == w->front)
            draw_view(w, k, to, busy, version);
    for (int k = 0; k < w->nviews; k++)
        if (w->tiled || k == w->front)
            far_words(w, &w->views[k], to);
    if (w->nviews > 0)
        mark_hover(w, to);
    tabs(w, to);
    foot(w, to);
    if (w->panel)
        box(w, to, w->panel, w->panel_line, LOWER_RIGHT, 0, 0, 0);
    if (w->keys)
        keys_box(w, to);
    sdl.SDL_UpdateWindowSurface(w->window);
    w->stats.bytes = 0;
    for (int k = 0; k < w->nviews; k++)
        w->stats.bytes += w->views[k].arena.bytes;
    w->stats.last_frame_cpu = cpu_now() - from;
    w->stats.cpu[w->stats.frames++ % (int64_t)COUNTOF(w->stats.cpu)] = w->stats.last_frame_cpu;
}

#endif
