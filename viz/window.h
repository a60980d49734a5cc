/* The window: several views of a document, drawn by Cairo, shown by SDL2; both are opened at first use.
 * It lives in one thread with its client, who pumps it: whenever a key is awaited, and from the tick of
 * long calls. It knows nothing of the shell: what is shown and what words do is the client's. */
#ifndef GSPMD_VIZ_WINDOW_H
#define GSPMD_VIZ_WINDOW_H

#include "base/diag.h"
#include "viz/scene.h"

struct window;

struct window_client {
    void *context;
    /* The scene that words name ("layout w1"), in a; NULL: none, and one line in *why says so. */
    struct scene *(*make)(void *context, const char *words, double width, struct arena *a, const char **why);
    /* Runs words of the shell's language as typed in the bar; the answer, in a. */
    const char *(*run)(void *context, const char *words, struct arena *a);
    /* Another number whenever scenes may have changed. */
    uint64_t (*version)(void *context);
    /* The k-th word that completes text, which starts at `start` of line; malloc'ed, NULL: no more. */
    char *(*complete)(void *context, const char *line, int start, const char *text, int k);
    /* Colours and size (1: a pixel and a half a point; 0: as the display is), asked before each frame. */
    void (*style)(void *context, bool *dark, double *scale);
    void (*set_dark)(void *context, bool dark); /* the key for it was pressed */
};

/* NULL, with one sentence in d: no library, no display. */
struct window *window_open(const struct window_client *client, int width, int height, struct diag *d);
void window_free(struct window *w);
/* Shows words as a view; a view of the same words is brought to the front. */
void window_show(struct window *w, const char *words);
/* Handles the events that wait and draws what changed, at most 60 times a second. busy: the client is in
 * the middle of a call: nothing is run or made anew, but what is there moves, and keys are kept.
 * False: the window was closed. */
bool window_pump(struct window *w, bool busy);
/* Sleeps until something happens, ms at most. */
void window_wait(struct window *w, int ms);
/* Milliseconds until the next pump is worth while: few while a hand is on it. */
int window_patience(const struct window *w);

/* For tests and benchmarks. */
struct window_stats {
    int64_t frames, makes;   /* frames drawn, scenes made */
    double last_frame_cpu;   /* seconds of processor time of the last frame */
    double cpu[1024];        /* of the last frames, round and round */
    int64_t bytes;           /* memory of the views' scenes */
};
const struct window_stats *window_stats(const struct window *w);
const struct scene *window_scene(const struct window *w); /* of the view in front; NULL */
const char *window_text(const struct window *w);          /* the line at the foot; what the panel says */
const char *window_panel(const struct window *w);
/* Milliseconds between frames, 16 at first. */
void window_pace(struct window *w, int ms);
/* The view in front from here on at this scale, its point (x, y) in the upper left corner. */
void window_look(struct window *w, double x, double y, double scale);
/* The pixels as they are shown, 0x00RRGGBB; NULL before the first frame. */
const uint32_t *window_pixels(struct window *w, int *width, int *height, int *stride_bytes);

#endif
