#include "viz/window.h"

#include "viz/window_views.h"

#if HAVE_SDL

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_MS = 16, LIVELY_MS = 1500, STEP_MS = 700 };

/* Pixels a pixel of usual displays: what the display's dots an inch say, or its desktop. */
static double by_dots(int display)
{
    float dpi = 0;
    const char *desktop = getenv("GDK_SCALE"); /* desktops under X say it so */
    if (display >= 0 && sdl.SDL_GetDisplayDPI(display, &dpi, NULL, NULL) == 0 && dpi >= 140)
        return fmin(floor((double)dpi / 48) / 2, 3);
    return desktop && desktop[0] >= '1' && desktop[0] <= '3' && !desktop[1] ? desktop[0] - '0' : 1;
}

/* What a display of many small pixels wants: by its density where mouse and pixels differ, else by its dots
 * an inch. */
static double natural_scale(const struct window *w)
{
    return fmax(w->density, by_dots(sdl.SDL_GetWindowDisplayIndex(w->window)));
}

/* No larger than the display; as large to the eye on one of small pixels. */
static void fit_display(int *width, int *height)
{
    SDL_Rect r;
    double scale = by_dots(0);
    *width = (int)(*width * scale);
    *height = (int)(*height * scale);
    if (sdl.SDL_GetDisplayUsableBounds(0, &r) != 0 || r.w < 240 || r.h < 160)
        return;
    *width = *width > r.w ? r.w : *width;
    *height = *height > r.h ? r.h : *height;
}

static void find_style(struct window *w)
{
    bool dark = w->dark;
    double scale = 0;
    w->client.style(w->client.context, &dark, &scale);
    scale = 1.5 * (scale > 0 ? scale * w->density : natural_scale(w));
    if (dark != w->dark || fabs(scale - w->scale) > 1e-9)
        w->dirty = true;
    w->dark = dark;
    w->scale = scale;
}

struct window *window_open(const struct window_client *client, int width, int height, struct diag *d)
{
    if (!cairo_ready(d) || !sdl_ready(d))
        return NULL;
    /* Ctrl-C is the shell's. */
    sdl.SDL_SetHint(SDL_HINT_NO_SIGNAL_HANDLERS, "1");
    sdl.SDL_SetHint(SDL_HINT_VIDEO_ALLOW_SCREENSAVER, "1");
    sdl.SDL_SetHint(SDL_HINT_APP_NAME, "gspmd");
    sdl.SDL_SetMainReady();
    struct window *w = sdl.SDL_InitSubSystem(SDL_INIT_VIDEO) == 0 ? calloc(1, sizeof *w) : NULL;
    if (w) {
        fit_display(&width, &height);
        w->window = sdl.SDL_CreateWindow("gspmd", SDL_WINDOWPOS_UNDEFINED, SDL_WINDOWPOS_UNDEFINED, width, height,
                                         SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI);
        if (!w->window)
            sdl.SDL_QuitSubSystem(SDL_INIT_VIDEO);
    }
    if (!w || !w->window) {
        const char *before = diag_stage(d, "limit");
        diag_error(d, NULL, (struct span){ 0 }, "no window can be opened: %s", sdl.SDL_GetError());
        diag_hint(d, "pictures in files and text work: plot VIEW -o FILE.svg");
        diag_stage(d, before);
        free(w);
        return NULL;
    }
    w->client = *client;
    w->id = sdl.SDL_GetWindowID(w->window);
    w->hover = -1;
    w->dirty = true;
    w->scale = 1.5;
    w->pace = FRAME_MS;
    w->density = 1;
    find_style(w);
    sdl.SDL_SetWindowMinimumSize(w->window, 240, 160);
    sdl.SDL_StartTextInput();
    return w;
}

void view_forget(struct view *v)
{
    v->made = false;
}

static void view_end(struct view *v)
{
    free(v->words);
    arena_free(&v->arena);
    canvas_free(v->canvas);
    *v = (struct view){ 0 };
}

void view_close(struct window *w, int k)
{
    if (k < 0 || k >= w->nviews)
        return;
    view_end(&w->views[k]);
    memmove(&w->views[k], &w->views[k + 1], sizeof w->views[0] * (size_t)(w->nviews - k - 1));
    w->nviews--;
    w->views[w->nviews] = (struct view){ 0 };
    if (w->front >= w->nviews && w->front > 0)
        w->front--;
    w->hover = -1;
    w->dirty = true;
    if (w->nviews == 0)
        w->closed = true;
}

void window_free(struct window *w)
{
    if (!w)
        return;
    while (w->nviews > 0)
        view_end(&w->views[--w->nviews]);
    for (int k = 0; k < w->bar.nhistory; k++)
        free(w->bar.history[k]);
    for (int k = 0; k < w->npending; k++)
        free(w->pending[k]);
    arena_free(&w->panel_arena);
    canvas_free(w->ui);
    sdl.SDL_DestroyWindow(w->window);
    sdl.SDL_QuitSubSystem(SDL_INIT_VIDEO);
    free(w);
}

void window_show(struct window *w, const char *words)
{
    w->dirty = true;
    w->hover = -1;
    for (int k = 0; k < w->nviews; k++)
        if (!strcmp(w->views[k].words, words)) {
            w->front = k;
            return;
        }
    if (w->nviews == MOST_VIEWS)
        view_close(w, 0);
    char *copy = strdup(words);
    if (!copy)
        return;
    w->front = w->nviews++;
    w->views[w->front] = (struct view){ .words = copy, .fitted = true };
    char title[200];
    snprintf(title, sizeof title, "gspmd: %.150s", words);
    sdl.SDL_SetWindowTitle(w->window, title);
}

void window_say(struct window *w, const char *text)
{
    snprintf(w->message, sizeof w->message, "%s", text);
    w->message[strcspn(w->message, "\n")] = '\0';
    w->dirty = true;
}

static void show_answer(struct window *w, const char *answer)
{
    size_t lines = 0;
    for (const char *p = answer; *p; p++)
        lines += *p == '\n' && p[1];
    if (lines == 0) {
        window_say(w, answer);
        w->panel = NULL;
        return;
    }
    w->panel = answer;
    w->panel_line = 0;
    w->dirty = true;
}

void window_run(struct window *w, const char *words, bool busy)
{
    if (busy) {
        char *copy = w->npending < (int)COUNTOF(w->pending) ? strdup(words) : NULL;
        if (copy)
            w->pending[w->npending++] = copy;
        window_say(w, "the shell is at work; this comes next");
        return;
    }
    arena_free(&w->panel_arena);
    w->panel = NULL;
    show_answer(w, w->client.run(w->client.context, words, &w->panel_arena));
}

static void run_pending(struct window *w)
{
    while (w->npending > 0) {
        char *words = w->pending[0];
        memmove(w->pending, w->pending + 1, sizeof w->pending[0] * (size_t)--w->npending);
        window_run(w, words, false);
        free(words);
    }
}

/* ---- events -------------------------------------------------------------------------------------- */

static void on_button(struct window *w, const SDL_MouseButtonEvent *e, bool busy)
{
    w->mouse_x = (int)(e->x * w->density);
    w->mouse_y = (int)(e->y * w->density);
    if (e->button != SDL_BUTTON_LEFT && e->button != SDL_BUTTON_MIDDLE)
        return;
    if (e->state == SDL_PRESSED) {
        w->dragging = true;
        w->moved = false;
        return;
    }
    if (w->dragging && !w->moved && e->button == SDL_BUTTON_LEFT)
        window_click(w, e->clicks >= 2, busy);
    w->dragging = false;
    window_hover(w);
}

static void on_motion(struct window *w, const SDL_MouseMotionEvent *e)
{
    w->mouse_x = (int)(e->x * w->density);
    w->mouse_y = (int)(e->y * w->density);
    if (!w->dragging) {
        window_hover(w);
        return;
    }
    w->moved = w->moved || abs(e->xrel) + abs(e->yrel) > 0;
    window_pan(w, -e->xrel * w->density, -e->yrel * w->density);
}

static void on_wheel(struct window *w, const SDL_MouseWheelEvent *e)
{
    if ((w->panel || w->keys) && e->y != 0) {
        w->panel_line -= 3 * e->y;
        w->panel_line = w->panel_line < 0 ? 0 : w->panel_line;
        w->dirty = true;
        return;
    }
    if (e->y != 0)
        window_zoom(w, pow(1.15, e->y), w->mouse_x, w->mouse_y);
    if (e->x != 0)
        window_pan(w, 40.0 * e->x, 0);
}

static void on_window(struct window *w, const SDL_WindowEvent *e)
{
    if (e->event == SDL_WINDOWEVENT_CLOSE)
        w->closed = true;
    if (e->event == SDL_WINDOWEVENT_EXPOSED || e->event == SDL_WINDOWEVENT_SIZE_CHANGED ||
        e->event == SDL_WINDOWEVENT_RESTORED || e->event == SDL_WINDOWEVENT_SHOWN)
        w->dirty = true;
    if (e->event == SDL_WINDOWEVENT_LEAVE) {
        w->mouse_x = w->mouse_y = -1;
        window_hover(w);
    }
}

static void on_event(struct window *w, const SDL_Event *e, bool busy)
{
    switch (e->type) {
    case SDL_QUIT: w->closed = true; break;
    case SDL_WINDOWEVENT: on_window(w, &e->window); break;
    case SDL_KEYDOWN: window_key(w, &e->key.keysym, busy); break;
    case SDL_TEXTINPUT: window_typed(w, e->text.text); break;
    case SDL_MOUSEBUTTONDOWN:
    case SDL_MOUSEBUTTONUP: on_button(w, &e->button, busy); break;
    case SDL_MOUSEMOTION: on_motion(w, &e->motion); break;
    case SDL_MOUSEWHEEL: on_wheel(w, &e->wheel); break;
    default: return;
    }
    w->touched = sdl.SDL_GetTicks64();
}

static void play_on(struct window *w, uint64_t now)
{
    if (now - w->stepped < STEP_MS)
        return;
    w->stepped = now;
    w->playing = window_step_round(w, 1);
}

bool window_pump(struct window *w, bool busy)
{
    SDL_Event e;
    while (!w->closed && sdl.SDL_PollEvent(&e))
        on_event(w, &e, busy);
    if (w->closed)
        return false;
    if (!busy)
        run_pending(w);
    if (w->closed)
        return false;
    find_style(w);
    if (!busy && w->client.version(w->client.context) != w->version)
        w->dirty = true;
    uint64_t now = sdl.SDL_GetTicks64();
    if (!busy && w->playing)
        play_on(w, now);
    if (w->dirty && (now - w->drawn >= w->pace || !w->stats.frames)) {
        w->dirty = false;
        w->drawn = now;
        window_frame(w, busy);
    }
    return true;
}

void window_wait(struct window *w, int ms)
{
    int most = w->dirty ? FRAME_MS : ms;
    sdl.SDL_WaitEventTimeout(NULL, most);
}

int window_patience(const struct window *w)
{
    bool lively = w->dirty || w->playing || sdl.SDL_GetTicks64() - w->touched < LIVELY_MS;
    return lively ? 5 : 40;
}

const struct window_stats *window_stats(const struct window *w)
{
    return &w->stats;
}

const struct scene *window_scene(const struct window *w)
{
    return w->nviews > 0 ? w->views[w->front].scene : NULL;
}

const char *window_text(const struct window *w)
{
    return w->bar.open ? w->bar.text : w->message;
}

const char *window_panel(const struct window *w)
{
    return w->panel;
}

void window_look(struct window *w, double x, double y, double scale)
{
    if (w->nviews == 0)
        return;
    struct view *v = &w->views[w->front];
    v->x = x;
    v->y = y;
    v->scale = scale;
    v->fitted = false;
    w->dirty = true;
}

void window_pace(struct window *w, int ms)
{
    w->pace = (uint64_t)ms;
}

const uint32_t *window_pixels(struct window *w, int *width, int *height, int *stride_bytes)
{
    SDL_Surface *s = sdl.SDL_GetWindowSurface(w->window);
    if (!s || s->format->BytesPerPixel != 4)
        return NULL;
    *width = s->w;
    *height = s->h;
    *stride_bytes = s->pitch;
    return s->pixels;
}

#else /* built without SDL2's headers */

struct window {
    struct window_stats stats;
};

struct window *window_open(const struct window_client *client, int width, int height, struct diag *d)
{
    (void)client, (void)width, (void)height;
    return sdl_ready(d) ? NULL : NULL;
}

void window_free(struct window *w)
{
    (void)w;
}

void window_show(struct window *w, const char *words)
{
    (void)w, (void)words;
}

bool window_pump(struct window *w, bool busy)
{
    (void)w, (void)busy;
    return false;
}

void window_wait(struct window *w, int ms)
{
    (void)w, (void)ms;
}

int window_patience(const struct window *w)
{
    (void)w;
    return 1000;
}

const struct window_stats *window_stats(const struct window *w)
{
    return &w->stats;
}

const struct scene *window_scene(const struct window *w)
{
    (void)w;
    return NULL;
}

const char *window_text(const struct window *w)
{
    (void)w;
    return "";
}

const char *window_panel(const struct window *w)
{
    (void)w;
    return NULL;
}

void window_look(struct window *w, double x, double y, double scale)
{
    (void)w, (void)x, (void)y, (void)scale;
}

void window_pace(struct window *w, int ms)
{
    (void)w, (void)ms;
}

const uint32_t *window_pixels(struct window *w, int *width, int *height, int *stride_bytes)
{
    (void)w, (void)width, (void)height, (void)stride_bytes;
    return NULL;
}

#endif
