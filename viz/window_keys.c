/* What keys and the mouse do. */
#include "viz/window_views.h"

#if HAVE_SDL

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const window_keys_help[] = {
    "  :            a command of the shell; Tab completes, up and down recall",
    "  1-9 Tab      another view               x   close the view",
    "  t            all views beside each other",
    "  arrows hjkl  move (drag with the mouse)",
    "  + -          nearer, farther (wheel)    0 f all of it",
    "  [ ]          what the device before, the next one holds (layout)",
    "  , .          other two dimensions of the array (layout)",
    "  v            numbers in the cells       b   beside it: before the last edit",
    "  o            links of a mesh, then where its devices sit",
    "  space > <    play a collective, step, step back (hops)",
    "  u r          undo, redo                 d   light or dark",
    "  click        show what is under the pointer; twice: open it as a view",
    "  Esc          put the panel away         q   close the window",
    NULL
};

static struct view *window_front(struct window *w)
{
    return w->nviews > 0 ? &w->views[w->front] : NULL;
}

/* ---- moving -------------------------------------------------------------------------------------- */

/* Whole pixels, so that frames can be made from the last one. */
void window_pan(struct window *w, double dx, double dy)
{
    struct view *v = window_front(w);
    if (!v || !v->scene || v->scale <= 0)
        return;
    v->x += floor(dx + 0.5) / v->scale;
    v->y += floor(dy + 0.5) / v->scale;
    v->fitted = false;
    w->dirty = true;
}

/* The point under pixel (x, y) of the window stays where it is. */
void window_zoom(struct window *w, double factor, double x, double y)
{
    struct view *v = window_front(w);
    if (!v || !v->scene || v->scale <= 0)
        return;
    double to = fmin(fmax(v->scale * factor, 0.01), 60);
    v->x += (x - v->left) * (1 / v->scale - 1 / to);
    v->y += (y - v->top) * (1 / v->scale - 1 / to);
    v->scale = to;
    v->fitted = false;
    w->dirty = true;
}

static void fit(struct window *w)
{
    struct view *v = window_front(w);
    if (v)
        v->fitted = true;
    w->dirty = true;
}

/* ---- what the pointer is on ---------------------------------------------------------------------- */

static bool is_inside(const struct scene_item *it, double x, double y)
{
    return it->kind == SCENE_BOX && it->role != ROLE_LEGEND && it->role != ROLE_FRAME && x >= it->x && y >= it->y &&
           x < it->x + it->w && y < it->y + it->h;
}

static int64_t item_at(const struct view *v, double px, double py)
{
    double x = v->x + (px - v->left) / v->scale, y = v->y + (py - v->top) / v->scale;
    if (!v->scene || px < v->left || py < v->top || px >= v->left + v->w || py >= v->top + v->h)
        return -1;
    int64_t cluster = -1;
    for (int64_t k = v->scene->items.n - 1; k >= 0; k--) {
        const struct scene_item *it = &v->scene->items.v[k];
        if (!is_inside(it, x, y))
            continue;
        if (it->role != ROLE_CLUSTER)
            return k;
        cluster = cluster < 0 ? k : cluster;
    }
    return cluster;
}

void window_hover(struct window *w)
{
    struct view *v = window_front(w);
    int64_t was = w->hover;
    w->hover = v && v->scale > 0 ? item_at(v, w->mouse_x, w->mouse_y) : -1;
    if (w->hover == was)
        return;
    w->dirty = true;
    if (w->hover < 0) {
        window_say(w, "");
        return;
    }
    struct arena a = { 0 };
    window_say(w, scene_hint(&v->scene->items.v[w->hover], &a));
    arena_free(&a);
}

/* A click asks the shell: `show NAME`, or what a device holds. Twice opens it as a view. */
void window_click(struct window *w, bool twice, bool busy)
{
    struct view *v = window_front(w);
    if (w->tiled) /* the view under the pointer comes to the front */
        for (int k = 0; k < w->nviews; k++) {
            int x, y, width, height;
            window_place(w, k, &x, &y, &width, &height);
            if (w->mouse_x >= x && w->mouse_y >= y && w->mouse_x < x + width && w->mouse_y < y + height &&
                k != w->front) {
                w->front = k;
                w->dirty = true;
                window_hover(w);
                return;
            }
        }
    int64_t at = v && v->scale > 0 ? item_at(v, w->mouse_x, w->mouse_y) : -1;
    if (at < 0 || !v->scene->items.v[at].word) {
        w->panel = NULL;
        w->dirty = true;
        return;
    }
    const char *word = v->scene->items.v[at].word;
    char line[600];
    bool device = !strncmp(word, "device ", 7), words = device || strchr(word, ' ');
    if (twice) {
        snprintf(line, sizeof line, "%s%s", words ? "" : "layout ", word);
        w->panel = NULL;
        window_show(w, line);
        return;
    }
    if (device)
        snprintf(line, sizeof line, "plot %s", word);
    else if (words)
        snprintf(line, sizeof line, "%s", word);
    else
        snprintf(line, sizeof line, "show %s", word);
    window_run(w, line, busy);
}

/* ---- words of a view ----------------------------------------------------------------------------- */

static void set_words(struct window *w, struct view *v, const char *words)
{
    char *copy = strdup(words);
    if (!copy)
        return;
    free(v->words);
    v->words = copy;
    view_forget(v);
    w->dirty = true;
}

static bool begins(const struct view *v, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(v->words, word, n) && (v->words[n] == ' ' || !v->words[n]);
}

/* The option's place in the words, or NULL. */
static char *find_option(const char *words, const char *option)
{
    for (const char *p = words; (p = strstr(p, option)); p++)
        if (p > words && p[-1] == ' ')
            return strstr((char *)(uintptr_t)words, p);
    return NULL;
}

static void without(const char *words, const char *option, char *out, size_t n)
{
    snprintf(out, n, "%s", words);
    char *at = find_option(out, option);
    if (!at)
        return;
    size_t len = strcspn(at, " ");
    memmove(at - 1, at + len, strlen(at + len) + 1);
}

static void toggle(struct window *w, const char *view, const char *option)
{
    struct view *v = window_front(w);
    char words[600];
    if (!v || !begins(v, view))
        return;
    if (find_option(v->words, option))
        without(v->words, option, words, sizeof words);
    else
        snprintf(words, sizeof words, "%s %s", v->words, option);
    set_words(w, v, words);
}

static void set_option(struct window *w, struct view *v, const char *option, const char *value)
{
    char rest[600], words[700];
    without(v->words, option, rest, sizeof rest);
    if (value)
        snprintf(words, sizeof words, "%s %s%s", rest, option, value);
    else
        snprintf(words, sizeof words, "%s", rest);
    set_words(w, v, words);
}

/* [ and ]: the device before, the next one; below 0 lies the view of all. */
static void step_device(struct window *w, int by)
{
    struct view *v = window_front(w);
    char value[32];
    if (!v)
        return;
    if (begins(v, "device")) {
        long at = strtol(v->words + 6, NULL, 10) + by;
        char words[64];
        snprintf(words, sizeof words, "device %ld", at < 0 ? 0 : at);
        set_words(w, v, words);
        return;
    }
    if (!begins(v, "layout"))
        return;
    const char *at = find_option(v->words, "device=");
    long device = (at ? strtol(at + 7, NULL, 10) : -1) + by;
    snprintf(value, sizeof value, "%ld", device);
    set_option(w, v, "device=", device < 0 ? NULL : value);
}

/* > and <: the next round of a collective, the one before. False: there is no other. */
bool window_step_round(struct window *w, int by)
{
    struct view *v = window_front(w);
    char value[32];
    if (!v || !begins(v, "hops"))
        return false;
    const char *at = find_option(v->words, "round=");
    long round = (at ? strtol(at + 6, NULL, 10) : 0) + by;
    if (round < 0 || !v->scene || round >= v->scene->frames)
        return false;
    snprintf(value, sizeof value, "%ld", round);
    set_option(w, v, "round=", value);
    return true;
}

static void play(struct window *w)
{
    struct view *v = window_front(w);
    if (!v || !begins(v, "hops"))
        return;
    w->playing = !w->playing;
    w->stepped = 0;
    if (w->playing && v->scene && v->scene->frame + 1 >= v->scene->frames)
        set_option(w, v, "round=", "0"); /* from the start again */
}

/* A mesh, with the links of a torus, as it sits on the hardware. */
static void next_mesh(struct window *w)
{
    struct view *v = window_front(w);
    bool torus = v && find_option(v->words, "--torus"), physical = v && find_option(v->words, "--physical");
    if (!physical) {
        toggle(w, "mesh", "--torus");
        toggle(w, "mesh", "--order");
    }
    if (torus || physical)
        toggle(w, "mesh", "--physical");
}

/* , and .: the next pair of dimensions of the array's rank. */
static void step_dims(struct window *w, int by)
{
    struct view *v = window_front(w);
    int rank = 0, r = 0, c = 0;
    if (!v || !begins(v, "layout") || !v->scene)
        return;
    for (int64_t k = 0; k < v->scene->items.n && !rank; k++)
        rank = v->scene->items.v[k].ntile;
    if (rank < 3)
        return;
    const char *at = find_option(v->words, "dims=");
    int pairs = rank * (rank - 1) / 2, now = -1, n = 0;
    if (at && sscanf(at, "dims=%d,%d", &r, &c) == 2)
        for (int i = 0; i < rank; i++)
            for (int j = i + 1; j < rank; j++, n++)
                if (i == r && j == c)
                    now = n;
    now = (now + by + pairs + (now < 0 && by < 0)) % pairs;
    n = 0;
    for (int i = 0; i < rank; i++)
        for (int j = i + 1; j < rank; j++, n++)
            if (n == now) {
                char value[32];
                snprintf(value, sizeof value, "%d,%d", i, j);
                set_option(w, v, "dims=", value);
                return;
            }
}

/* ---- the bar ------------------------------------------------------------------------------------- */

static void bar_set(struct bar *b, const char *text)
{
    snprintf(b->text, sizeof b->text, "%s", text);
    b->n = (int)strlen(b->text);
    b->at = b->n;
}

static void bar_insert(struct bar *b, const char *text)
{
    int n = (int)strlen(text);
    if (b->n + n >= BAR_LENGTH)
        return;
    memmove(b->text + b->at + n, b->text + b->at, (size_t)(b->n - b->at + 1));
    memcpy(b->text + b->at, text, (size_t)n);
    b->n += n;
    b->at += n;
}

static int step_left(const struct bar *b)
{
    int k = b->at;
    do
        k -= k > 0;
    while (k > 0 && ((unsigned char)b->text[k] & 0xc0) == 0x80);
    return k;
}

static int step_right(const struct bar *b)
{
    int k = b->at;
    do
        k += k < b->n;
    while (k < b->n && ((unsigned char)b->text[k] & 0xc0) == 0x80);
    return k;
}

static void bar_erase(struct bar *b, int from, int to)
{
    memmove(b->text + from, b->text + to, (size_t)(b->n - to + 1));
    b->n -= to - from;
    b->at = from;
}

static void bar_recall(struct bar *b, int by)
{
    int to = b->where + by;
    if (to < 0 || to > b->nhistory)
        return;
    b->where = to;
    bar_set(b, to == b->nhistory ? "" : b->history[to]);
}

static void bar_remember(struct bar *b)
{
    char *copy = strdup(b->text);
    if (!copy)
        return;
    if (b->nhistory == BAR_HISTORY) {
        free(b->history[0]);
        memmove(b->history, b->history + 1, sizeof *b->history * (BAR_HISTORY - 1));
        b->nhistory--;
    }
    b->history[b->nhistory++] = copy;
}

/* Tab: the first word that fits, then the next. */
static void bar_complete(struct window *w)
{
    struct bar *b = &w->bar;
    if (b->completion == 0) {
        b->stem_start = b->at;
        while (b->stem_start > 0 && !strchr(" ;", b->text[b->stem_start - 1]))
            b->stem_start--;
        b->stem_n = b->at - b->stem_start;
        snprintf(b->stem, sizeof b->stem, "%.*s", b->stem_n, b->text + b->stem_start);
    }
    for (int again = 0; again < 2; again++) {
        char *word = w->client.complete(w->client.context, b->text, b->stem_start, b->stem, b->completion);
        if (word) {
            bar_erase(b, b->stem_start, b->at);
            bar_insert(b, word);
            free(word);
            b->completion++;
            return;
        }
        if (b->completion == 0)
            return;
        b->completion = 0;
    }
}

static void bar_enter(struct window *w, bool busy)
{
    struct bar *b = &w->bar;
    b->open = false;
    w->dirty = true;
    if (!b->text[strspn(b->text, " ")])
        return;
    bar_remember(b);
    window_run(w, b->text, busy);
}

static void bar_key(struct window *w, const SDL_Keysym *key, bool busy)
{
    struct bar *b = &w->bar;
    bool tab = key->sym == SDLK_TAB;
    w->dirty = true;
    if (!tab)
        b->completion = 0;
    switch ((int)key->sym) {
    case SDLK_ESCAPE: b->open = false; return;
    case SDLK_RETURN:
    case SDLK_KP_ENTER: bar_enter(w, busy); return;
    case SDLK_BACKSPACE:
        if (b->n == 0)
            b->open = false;
        else
            bar_erase(b, step_left(b), b->at);
        return;
    case SDLK_DELETE: {
        int at = b->at;
        bar_erase(b, at, step_right(b));
        return;
    }
    case SDLK_LEFT: b->at = step_left(b); return;
    case SDLK_RIGHT: b->at = step_right(b); return;
    case SDLK_HOME: b->at = 0; return;
    case SDLK_END: b->at = b->n; return;
    case SDLK_UP: bar_recall(b, -1); return;
    case SDLK_DOWN: bar_recall(b, 1); return;
    case SDLK_u:
        if (key->mod & KMOD_CTRL)
            bar_erase(b, 0, b->at);
        return;
    default:
        if (tab && !busy)
            bar_complete(w);
    }
}

static void open_bar(struct window *w, const char *text)
{
    w->bar.open = true;
    w->bar.where = w->bar.nhistory;
    w->bar.completion = 0;
    bar_set(&w->bar, text);
    w->dirty = true;
}

/* ---- keys ---------------------------------------------------------------------------------------- */

static void next_view(struct window *w, int by)
{
    if (w->nviews > 0)
        w->front = (w->front + by + w->nviews) % w->nviews;
    w->hover = -1;
    w->dirty = true;
}

static void escape(struct window *w)
{
    w->dirty = true;
    if (w->keys)
        w->keys = false;
    else
        w->panel = NULL;
}

static void move_or_scroll(struct window *w, double dx, double dy)
{
    double step = 6 * window_line(w);
    if ((w->panel || w->keys) && dx == 0) {
        w->panel_line += dy > 0 ? 3 : -3;
        w->panel_line = w->panel_line < 0 ? 0 : w->panel_line;
        w->dirty = true;
        return;
    }
    window_pan(w, dx * step, dy * step);
}

void window_key(struct window *w, const SDL_Keysym *key, bool busy)
{
    if (w->bar.open) {
        bar_key(w, key, busy);
        return;
    }
    switch ((int)key->sym) {
    case SDLK_ESCAPE: escape(w); break;
    case SDLK_TAB: next_view(w, key->mod & KMOD_SHIFT ? -1 : 1); break;
    case SDLK_LEFT: move_or_scroll(w, -1, 0); break;
    case SDLK_RIGHT: move_or_scroll(w, 1, 0); break;
    case SDLK_UP: move_or_scroll(w, 0, -1); break;
    case SDLK_DOWN: move_or_scroll(w, 0, 1); break;
    case SDLK_PAGEUP: move_or_scroll(w, 0, -3); break;
    case SDLK_PAGEDOWN: move_or_scroll(w, 0, 3); break;
    case SDLK_HOME: fit(w); break;
    case SDLK_KP_PLUS: window_zoom(w, 1.25, w->w / 2.0, w->h / 2.0); break;
    case SDLK_KP_MINUS: window_zoom(w, 0.8, w->w / 2.0, w->h / 2.0); break;
    default: break;
    }
}

static void toggle_dark(struct window *w)
{
    w->client.set_dark(w->client.context, !w->dark);
    w->dirty = true;
}

/* Characters come as text, whatever the keyboard's layout is. */
static void command_key(struct window *w, char c)
{
    double mid_x = w->w / 2.0, mid_y = w->h / 2.0;
    switch (c) {
    case ':': open_bar(w, ""); break;
    case '?':
        w->keys = !w->keys;
        w->panel_line = 0;
        w->dirty = true;
        break;
    case 'q': w->closed = true; break;
    case 'x': view_close(w, w->front); break;
    case 't':
        w->tiled = !w->tiled;
        w->dirty = true;
        break;
    case 'h': move_or_scroll(w, -1, 0); break;
    case 'l': move_or_scroll(w, 1, 0); break;
    case 'k': move_or_scroll(w, 0, -1); break;
    case 'j': move_or_scroll(w, 0, 1); break;
    case '+':
    case '=': window_zoom(w, 1.25, mid_x, mid_y); break;
    case '-': window_zoom(w, 0.8, mid_x, mid_y); break;
    case '0':
    case 'f': fit(w); break;
    case '[': step_device(w, -1); break;
    case ']': step_device(w, 1); break;
    case ',': step_dims(w, -1); break;
    case '.': step_dims(w, 1); break;
    case 'v': toggle(w, "layout", "--values"); break;
    case 'b': toggle(w, "layout", "--before"); break;
    case 'o': next_mesh(w); break;
    case ' ': play(w); break;
    case '>':
    case 'n': window_step_round(w, 1); break;
    case '<':
    case 'p': window_step_round(w, -1); break;
    case 'd': toggle_dark(w); break;
    case 'u': window_run(w, "undo", false); break;
    case 'r': window_run(w, "redo", false); break;
    default:
        if (c >= '1' && c <= '9' && c - '1' < w->nviews) {
            w->front = c - '1';
            w->hover = -1;
            w->dirty = true;
        }
    }
}

void window_typed(struct window *w, const char *text)
{
    if (w->bar.open) {
        w->bar.completion = 0;
        bar_insert(&w->bar, text);
        w->dirty = true;
        return;
    }
    for (const char *p = text; *p; p++)
        command_key(w, *p);
}

#endif
