/* Between window.c (events), window_draw.c (frames) and window_keys.c (what keys do). */
#ifndef GSPMD_VIZ_WINDOW_VIEWS_H
#define GSPMD_VIZ_WINDOW_VIEWS_H

#include "viz/cairo.h"
#include "viz/sdl.h"
#include "viz/window.h"

#if HAVE_SDL

enum { MOST_VIEWS = 9, BAR_LENGTH = 1024, BAR_HISTORY = 64 };

struct view {
    char *words;         /* malloc'ed */
    struct arena arena;  /* of the scene */
    struct scene *scene; /* NULL: why says why */
    const char *why;
    uint64_t version;    /* of the client when the scene was made */
    int made_for;        /* width in pixels */
    bool made, fitted;   /* fitted: nobody has moved it, so it follows the window's size */
    double x, y, scale;  /* the scene's point in the upper left corner; pixels a point */
    /* what the canvas holds */
    struct canvas *canvas;
    int w, h;
    bool painted;
    double px, py, pscale;
    bool pdark;
    int left, top;       /* where it stood in the last frame */
};

struct bar {
    bool open;
    char text[BAR_LENGTH];
    int n, at;
    char *history[BAR_HISTORY];
    int nhistory, where;
    int completion; /* number of Tab presses in a row */
    int stem_start, stem_n;
    char stem[BAR_LENGTH];
};

struct window {
    struct window_client client;
    SDL_Window *window;
    uint32_t id;
    struct canvas *ui;
    int w, h; /* pixels */
    bool dark;
    double scale; /* of text and lines: pixels a point */
    double density; /* pixels of the surface a unit of mouse events: 2 on some displays */
    struct view views[MOST_VIEWS];
    int nviews, front;
    bool tiled, keys, dirty, closed, lively;
    struct bar bar;
    struct arena panel_arena;
    const char *panel; /* NULL: none */
    int panel_line;
    char message[512]; /* the line at the foot */
    int mouse_x, mouse_y;
    bool dragging, moved;
    int64_t hover;     /* item of the front view; -1 */
    uint64_t touched, drawn, version; /* milliseconds */
    uint64_t pace;
    bool playing;
    uint64_t stepped;
    char *pending[16]; /* words typed while the client was busy */
    int npending;
    struct window_stats stats;
};

/* window.c */
void window_say(struct window *w, const char *text);
void window_run(struct window *w, const char *words, bool busy);
void view_close(struct window *w, int k);
void view_forget(struct view *v); /* its scene is made anew before the next frame */

/* window_keys.c */
void window_key(struct window *w, const SDL_Keysym *key, bool busy);
void window_typed(struct window *w, const char *text);
void window_pan(struct window *w, double dx, double dy);
void window_zoom(struct window *w, double factor, double x, double y);
void window_click(struct window *w, bool twice, bool busy);
void window_hover(struct window *w);
bool window_step_round(struct window *w, int by);
extern const char *const window_keys_help[];

/* window_draw.c */
void window_frame(struct window *w, bool busy);
/* The pixels that view k has, below the tabs and above the foot. */
void window_place(const struct window *w, int k, int *x, int *y, int *width, int *height);
int window_line(const struct window *w); /* height of a line of text */

#endif
#endif
