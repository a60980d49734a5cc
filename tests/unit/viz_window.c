/* The window with SDL's dummy driver: events in, pixels and counters out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "viz/sdl.h"
#include "viz/views.h"
#include "viz/window.h"

#if HAVE_SDL

static struct ir *ir;
static struct arena arena;
static struct window *win;
static uint64_t version = 1;
static bool dark;
static double style_scale = 1;
static char ran[200];
static const char *answer = "done";
static int64_t tiles = 8;

static struct scene *make(void *context, const char *words, double width, struct arena *a, const char **why)
{
    (void)context;
    (void)width;
    if (!strncmp(words, "nothing", 7)) {
        *why = "there is nothing of that name";
        return NULL;
    }
    struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .max_tiles = 64 };
    int64_t n = tiles, dims[2] = { n * (int64_t)(version % 3 + 1), n }, devices = n * n;
    sharding_id s = sharding_plain(ir->shardings,
                                   tiling_make(ir->shardings, 2, (int64_t[]){ n, n }, order_iota(ir->shardings, devices)));
    return view_layout(ir, NULL, "x", shape_array(ir, DTYPE_F32, 2, dims), s, &o, a);
}

static const char *run(void *context, const char *words, struct arena *a)
{
    (void)context;
    snprintf(ran, sizeof ran, "%s", words);
    return arena_strdup(a, answer);
}

static uint64_t get_version(void *context)
{
    (void)context;
    return version;
}

static char *complete(void *context, const char *line, int start, const char *text, int k)
{
    static const char *const words[] = { "shard", "show" };
    (void)context;
    (void)line;
    (void)start;
    for (size_t i = 0; i < 2; i++)
        if (!strncmp(words[i], text, strlen(text)) && k-- == 0)
            return strdup(words[i]);
    return NULL;
}

static void style(void *context, bool *is_dark, double *scale)
{
    (void)context;
    *is_dark = dark;
    *scale = style_scale;
}

static void set_dark(void *context, bool on)
{
    (void)context;
    dark = on;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
}

static bool pump(void)
{
    sleep_ms(17); /* a frame is drawn at most every 16 ms */
    return window_pump(win, false);
}

static void type(const char *text)
{
    SDL_Event e = { .type = SDL_TEXTINPUT };
    snprintf(e.text.text, sizeof e.text.text, "%s", text);
    sdl.SDL_PushEvent(&e);
}

static void press(SDL_Keycode key)
{
    SDL_Event e = { .type = SDL_KEYDOWN };
    e.key.keysym.sym = key;
    sdl.SDL_PushEvent(&e);
}

static void mouse(int x, int y)
{
    SDL_Event e = { .type = SDL_MOUSEMOTION };
    e.motion.x = x;
    e.motion.y = y;
    sdl.SDL_PushEvent(&e);
}

static void button(int x, int y, bool down)
{
    SDL_Event e = { .type = down ? SDL_MOUSEBUTTONDOWN : SDL_MOUSEBUTTONUP };
    e.button.button = SDL_BUTTON_LEFT;
    e.button.state = down ? SDL_PRESSED : SDL_RELEASED;
    e.button.clicks = 1;
    e.button.x = x;
    e.button.y = y;
    sdl.SDL_PushEvent(&e);
}

static uint32_t checksum(void)
{
    int w, h, stride;
    const uint32_t *p = window_pixels(win, &w, &h, &stride);
    uint32_t sum = 0;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            sum = sum * 31 + (p[y * stride / 4 + x] & 0xffffff);
    return sum;
}

/* ---- tests --------------------------------------------------------------------------------------- */

static void a_view_is_shown_and_follows_edits(void **state)
{
    (void)state;
    assert_true(pump());
    uint32_t before = checksum();
    int64_t made = window_stats(win)->makes;
    version++;
    assert_true(pump());
    assert_int_equal(window_stats(win)->makes, made + 1);
    assert_true(checksum() != before);
}

static void an_edit_shows_within_50_ms(void **state)
{
    (void)state;
    struct timespec a, b;
    sleep_ms(17);
    clock_gettime(CLOCK_MONOTONIC, &a);
    int64_t frames = window_stats(win)->frames;
    version++;
    window_pump(win, false);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    assert_int_equal(window_stats(win)->frames, frames + 1);
    print_message("an edit shows in %.1f ms\n", ms);
    assert_true(ms < 50);
}

static void nothing_new_draws_nothing(void **state)
{
    (void)state;
    pump();
    int64_t frames = window_stats(win)->frames;
    for (int k = 0; k < 20; k++)
        pump();
    assert_int_equal(window_stats(win)->frames, frames);
}

static void the_bar_runs_words(void **state)
{
    (void)state;
    type(":");
    type("sh");
    press(SDLK_TAB);
    pump();
    assert_string_equal(window_text(win), "shard");
    press(SDLK_TAB);
    pump();
    assert_string_equal(window_text(win), "show");
    type(" h");
    press(SDLK_BACKSPACE);
    type("x");
    answer = "x = parameter\n  [data,_]\n";
    press(SDLK_RETURN);
    pump();
    assert_string_equal(ran, "show x");
    assert_non_null(strstr(window_panel(win), "[data,_]"));
    press(SDLK_ESCAPE);
    pump();
    assert_null(window_panel(win));
    /* up recalls */
    type(":");
    press(SDLK_UP);
    pump();
    assert_string_equal(window_text(win), "show x");
    press(SDLK_ESCAPE);
    pump();
}

static void words_typed_while_busy_come_later(void **state)
{
    (void)state;
    ran[0] = '\0';
    type(":");
    type("undo");
    press(SDLK_RETURN);
    sleep_ms(17);
    window_pump(win, true);
    assert_string_equal(ran, "");
    pump();
    assert_string_equal(ran, "undo");
}

static const struct scene_item *some_tile(const struct scene *s)
{
    for (int64_t k = 0; k < s->items.n; k++)
        if (s->items.v[k].role == ROLE_TILE && s->items.v[k].device == 9)
            return &s->items.v[k];
    return NULL;
}

static void the_pointer_tells_what_is_under_it(void **state)
{
    (void)state;
    window_look(win, 0, 0, 1);
    pump();
    const struct scene_item *t = some_tile(window_scene(win));
    int top = 0, w, h, stride;
    window_pixels(win, &w, &h, &stride);
    for (int y = 10; y < h && !top; y += 2) { /* the view begins below the tabs */
        mouse((int)(t->x + t->w / 2), y);
        pump();
        if (strstr(window_text(win), "devices 9"))
            top = y;
    }
    assert_true(top > 0);
    assert_non_null(strstr(window_text(win), "elements ["));
    button((int)(t->x + t->w / 2), top, true);
    button((int)(t->x + t->w / 2), top, false);
    answer = "one line";
    pump();
}

static void views_are_kept_apart(void **state)
{
    (void)state;
    window_show(win, "nothing at all");
    pump();
    assert_null(window_scene(win));
    type("1");
    pump();
    assert_non_null(window_scene(win));
    type("t");
    pump();
    type("t");
    type("2");
    type("x");
    pump();
    assert_non_null(window_scene(win));
}

static void every_key_is_harmless(void **state)
{
    (void)state;
    static const char keys[] = "?hjklv b o d u r [ ] , . + - = 0 f t ? 1 2 3 9 # \xc3\xa9";
    for (const char *p = keys; *p; p++) {
        char c[2] = { *p, 0 };
        type(c);
        if (pump() == false)
            fail_msg("the key %c closed the window", *p);
    }
    for (int k = SDLK_F1; k < SDLK_F12; k++)
        press((SDL_Keycode)k);
    assert_true(pump());
    dark = false;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double p95(int64_t from)
{
    const struct window_stats *s = window_stats(win);
    double v[1024];
    int64_t n = min_i64(s->frames - from, 1024);
    for (int64_t k = 0; k < n; k++)
        v[k] = s->cpu[(s->frames - 1 - k) % 1024];
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n * 95 / 100];
}

static void panning_4096_devices(void **state)
{
    (void)state;
    tiles = 64;
    version++;
    type("f");
    pump();
    window_look(win, 0, 0, 1.2);
    pump();
    int64_t from = window_stats(win)->frames;
    for (int k = 0; k < 100; k++) {
        press(k % 2 ? SDLK_RIGHT : k < 50 ? SDLK_DOWN : SDLK_UP);
        pump();
    }
    double p = 1000 * p95(from);
    print_message("panning 4,096 devices: p95 %.2f ms of processor time a frame\n", p);
    assert_true(window_stats(win)->frames - from >= 90);
    assert_true(p < 16);
}

static void zooming_1000_tiles(void **state)
{
    (void)state;
    tiles = 32;
    version++;
    type("f");
    pump();
    int64_t from = window_stats(win)->frames;
    for (int k = 0; k < 100; k++) {
        type(k % 20 < 10 ? "+" : "-");
        pump();
    }
    double p = 1000 * p95(from);
    print_message("zooming 1,024 tiles: p95 %.2f ms of processor time a frame\n", p);
    assert_true(p < 16);
}

static int64_t resident(void)
{
    long pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (int64_t)pages * 4096;
}

/* Scenes made and drawn anew, without the pause between frames. */
static void ten_thousand_redraws_take_no_memory(void **state)
{
    (void)state;
    struct window_client client = { NULL, make, run, get_version, complete, style, set_dark };
    window_free(win);
    win = window_open(&client, 320, 240, NULL);
    assert_non_null(win);
    window_show(win, "layout x");
    tiles = 8;
    int64_t settled = 0, from = window_stats(win)->frames;
    window_pace(win, 0);
    for (int k = 0; k < 10000; k++) {
        version++;
        window_look(win, k % 7, k % 5, 0.2);
        window_pump(win, false);
        if (k == 1000)
            settled = resident();
    }
    window_pace(win, 16);
    assert_int_equal(window_stats(win)->frames - from, 10000);
    int64_t grown = resident() - settled;
    print_message("memory after 10,000 redraws: %+" PRId64 " KiB\n", grown / 1024);
#if !defined(__SANITIZE_ADDRESS__) /* which keeps what was freed for a while */
    assert_true(grown < 2 << 20);
#endif
}

static void closing_is_told(void **state)
{
    (void)state;
    type("q");
    assert_false(window_pump(win, false));
}

static int set_up(void **state)
{
    (void)state;
    ir = ir_new();
    setenv("SDL_VIDEODRIVER", "dummy", 1);
    struct window_client client = { NULL, make, run, get_version, complete, style, set_dark };
    struct diag *d = diag_new();
    win = window_open(&client, 1280, 800, d);
    bool opened = win != NULL;
    if (!opened) {
        print_message("no window: %s\n", d->msgs.n ? d->msgs.v[0].text : "?");
        assert_int_equal(d->nerrors, 1);
    } else {
        window_show(win, "layout x");
    }
    diag_free(d);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    window_free(win);
    ir_free(ir);
    arena_free(&arena);
    return 0;
}

static void no_display_is_one_sentence(void **state)
{
    (void)state;
    struct window_client client = { NULL, make, run, get_version, complete, style, set_dark };
    struct diag *d = diag_new();
    const char *display = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    char *kept[2] = { display ? strdup(display) : NULL, wayland ? strdup(wayland) : NULL };
    unsetenv("SDL_VIDEODRIVER");
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    assert_null(window_open(&client, 100, 100, d));
    assert_int_equal(d->msgs.n, 1);
    assert_non_null(strstr(d->msgs.v[0].text, "display"));
    diag_free(d);
    setenv("SDL_VIDEODRIVER", "dummy", 1);
    if (kept[0])
        setenv("DISPLAY", kept[0], 1);
    if (kept[1])
        setenv("WAYLAND_DISPLAY", kept[1], 1);
    free(kept[0]);
    free(kept[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_display_is_one_sentence),
        cmocka_unit_test(a_view_is_shown_and_follows_edits),
        cmocka_unit_test(an_edit_shows_within_50_ms),
        cmocka_unit_test(nothing_new_draws_nothing),
        cmocka_unit_test(the_bar_runs_words),
        cmocka_unit_test(words_typed_while_busy_come_later),
        cmocka_unit_test(the_pointer_tells_what_is_under_it),
        cmocka_unit_test(views_are_kept_apart),
        cmocka_unit_test(every_key_is_harmless),
        cmocka_unit_test(panning_4096_devices),
        cmocka_unit_test(zooming_1000_tiles),
        cmocka_unit_test(ten_thousand_redraws_take_no_memory),
        cmocka_unit_test(closing_is_told),
    };
    set_up(NULL);
    if (!win) {
        printf("no SDL2 or Cairo here: skipped\n");
        return 0;
    }
    int failed = cmocka_run_group_tests_name("viz_window", tests, NULL, NULL);
    tear_down(NULL);
    return failed;
}

#else

int main(void)
{
    printf("built without SDL2: skipped\n");
    return 0;
}

#endif
