#include "repl/viewer.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "repl/line.h"
#include "repl/pictures.h"
#include "viz/window.h"

struct viewer {
    struct window *window;
    double ticked;
    bool running; /* a command of its own: no pump inside */
};

/* ---- the window's questions ---------------------------------------------------------------------- */

static void collect(void *context, bool message, const char *bytes, size_t n)
{
    (void)message;
    str_add(context, bytes, n);
}

/* Runs words on the side: what they print comes back, the session's own state stays. */
static const char *run_aside(struct shell *sh, const char *words, struct capture *capture, struct arena *a)
{
    struct str text = STR_IN(a);
    struct shell kept = *sh;
    sh->sink = (struct sink){ collect, &text };
    sh->json = sh->serve = sh->color = sh->pager = false;
    sh->rows = 40;
    sh->columns = 110;
    sh->capture = capture;
    sh->aside = true;
    sh->depth += capture != NULL;
    if (sh->viewer)
        sh->viewer->running = true;
    shell_run(sh, "<window>", words, strlen(words));
    if (sh->viewer)
        sh->viewer->running = false;
    sh->sink = kept.sink;
    sh->json = kept.json;
    sh->serve = kept.serve;
    sh->color = kept.color;
    sh->pager = kept.pager;
    sh->rows = kept.rows;
    sh->columns = kept.columns;
    sh->capture = kept.capture;
    sh->aside = kept.aside;
    sh->depth = kept.depth;
    sh->status = kept.status;
    sh->first_failure = kept.first_failure;
    return str_text(&text);
}

static struct scene *make(void *context, const char *words, double width, struct arena *a, const char **why)
{
    struct shell *sh = context;
    struct capture capture = { .arena = a, .width = width, .many = true };
    struct arena tmp = { 0 };
    const char *line = arena_printf(&tmp, "plot %s", words);
    const char *said = run_aside(sh, line, &capture, &tmp);
    if (!capture.scene) {
        /* the first line that says something in words, not the quoted command */
        const char *error = strstr(said, "error: ");
        error = error ? error + 7 : said;
        *why = arena_strndup(a, error, strcspn(error, "\n"));
    }
    arena_free(&tmp);
    return capture.scene;
}

static const char *run(void *context, const char *words, struct arena *a)
{
    struct shell *sh = context;
    sh->interrupted = 0;
    return run_aside(sh, words, NULL, a);
}

static uint64_t version(void *context)
{
    const struct shell *sh = context;
    uint64_t h = hash_u64((uint64_t)(uintptr_t)document_strategy(sh->doc));
    /* what a machine looks like is no part of the strategy */
    h = hash_u64(h ^ (uint64_t)(uintptr_t)sh->hardware);
    for (int k = 0; k < sh->nshape; k++)
        h = hash_u64(h ^ (uint64_t)sh->shape[k]);
    return hash_u64(h ^ document_strategy(sh->doc)->key) ^ hash_u64((uint64_t)(uintptr_t)document_module(sh->doc));
}

static char *complete(void *context, const char *line, int start, const char *text, int k)
{
    return line_complete(context, line, start, text, k);
}

static void style(void *context, bool *dark, double *scale)
{
    const struct shell *sh = context;
    *dark = sh->theme == 1;
    *scale = sh->scale > 0 && sh->scale <= 8 ? (double)sh->scale : 0;
}

static void set_dark(void *context, bool dark)
{
    ((struct shell *)context)->theme = dark;
}

/* ---- its life ------------------------------------------------------------------------------------ */

static void end(struct shell *sh)
{
    if (sh->viewer)
        window_free(sh->viewer->window);
    free(sh->viewer);
    sh->viewer = NULL;
}

void viewer_free(struct shell *sh)
{
    end(sh);
}

void viewer_pump(struct shell *sh)
{
    if (!sh->viewer || sh->viewer->running || sh->capture)
        return;
    if (!window_pump(sh->viewer->window, false))
        end(sh);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void viewer_tick(struct shell *sh)
{
    if (!sh->viewer || sh->viewer->running || sh->capture)
        return;
    double t = now();
    if (t - sh->viewer->ticked < 0.010)
        return;
    sh->viewer->ticked = t;
    if (!window_pump(sh->viewer->window, true))
        end(sh);
}

int viewer_patience(const struct shell *sh)
{
    return sh->viewer ? window_patience(sh->viewer->window) : -1;
}

void viewer_await(struct shell *sh, int fd)
{
    while (sh->viewer && !sh->quit && !sh->interrupted) {
        viewer_pump(sh);
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, viewer_patience(sh)) != 0)
            return;
    }
}

/* Until the window is closed. */
static void viewer_wait(struct shell *sh)
{
    while (sh->viewer && !sh->quit && !sh->interrupted) {
        viewer_pump(sh);
        if (sh->viewer)
            window_wait(sh->viewer->window, 100);
    }
}

/* ---- the command --------------------------------------------------------------------------------- */

/* The words of a view, without --wait. */
static char *view_words(struct call *c, bool *wait)
{
    struct str s = STR_IN(&c->arena);
    *wait = false;
    for (int k = 0; k < c->n; k++) {
        const struct word *w = &c->args[k];
        if (!w->quoted && !strcmp(w->text, "--wait")) {
            *wait = true;
            continue;
        }
        str_addf(&s, "%s%.*s", s.n ? " " : "", (int)w->len, c->src->text + w->off);
    }
    return arena_strdup(&c->arena, str_text(&s));
}

static bool open_window(struct call *c)
{
    struct shell *sh = c->sh;
    enum { WIDTH = 1280, HEIGHT = 800 };
    struct window_client client = { sh, make, run, version, complete, style, set_dark };
    if (sh->viewer)
        return true;
    struct window *w = window_open(&client, WIDTH, HEIGHT, c->d);
    if (!w)
        return false;
    sh->viewer = calloc(1, sizeof *sh->viewer);
    if (!sh->viewer) {
        window_free(w);
        return false;
    }
    sh->viewer->window = w;
    return true;
}

int cmd_window(struct call *c)
{
    struct shell *sh = c->sh;
    bool wait;
    char *words = view_words(c, &wait);
    if (!strcmp(words, "close")) {
        end(sh);
        return STATUS_OK;
    }
    if (!words[0])
        words = arena_strdup(&c->arena, "mesh");
    const char *why = NULL;
    struct arena tmp = { 0 };
    bool drawable = make(sh, words, 900, &tmp, &why) != NULL;
    if (!drawable)
        call_usage(c, -1, "%s", why && why[0] ? why : "there is nothing to draw");
    arena_free(&tmp);
    if (!drawable)
        return STATUS_USAGE;
    if (sh->transcript || sh->sealed) /* recorded sessions and fuzzers open nothing */
        return STATUS_OK;
    if (!open_window(c))
        return call_failed(c);
    window_show(sh->viewer->window, words);
    if (c->json)
        json_put_string(&c->js, "view", words);
    if (wait)
        viewer_wait(sh);
    return STATUS_OK;
}
