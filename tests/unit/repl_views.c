/* Every view that the shell draws, of every model in models/ and of the real inputs, in every backend. Of each
 * scene: labels apart and on the canvas, the legend the states drawn; text of 80 columns, ASCII without another
 * character; SVG that xmllint takes; PNG and PDF whole. Views that a model has not (no collective, no mesh that
 * fits) are counted, and must say so in words.
 *
 * By default the smaller inputs, every third of them with all of its views; GSPMD_ALL=1: all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "repl/pictures.h"
#include "viz/cairo.h"
#include "viz/palette.h"
#include "viz_check.h"

static struct arena arena;
static int64_t faults, pixels, files, scenes, refused, unreadable, late;
static char folder[] = "/tmp/gspmd-views-XXXXXX";
static int64_t svgs;
static bool with_cairo, with_dot, all_inputs;
static const char *now_file, *now_words;

/* All of them are told; the test fails at its end. */
static void wrong(const char *what)
{
    if (faults++ < 20)
        print_error("%s, plot %s: %s\n", now_file, now_words, what);
}

static void collect(void *context, bool message, const char *bytes, size_t n)
{
    (void)message;
    str_add(context, bytes, n);
}

/* ---- backends ------------------------------------------------------------------------------------ */

static void check_text(const struct scene *s, struct arena *a)
{
    for (int ascii = 0; ascii < 2; ascii++) {
        struct str out_text = STR_IN(a);
        struct text_options o = { .ascii = ascii };
        scene_text(s, &o, &out_text);
        int column = 0;
        const char *line = str_text(&out_text);
        for (const char *p = str_text(&out_text); *p; p++) {
            unsigned char c = (unsigned char)*p;
            if (c == '\n') {
                column = 0;
                line = p + 1;
                continue;
            }
            if (c < 32 || c == 127 || (ascii && c > 126))
                wrong("a character that does not belong there");
            column += (c & 0xc0) != 0x80;
            if (column == 81 && !strstr(now_words, "--values"))
                wrong(arena_printf(a, "text of more than 80 columns: %.*s", (int)strcspn(line, "\n"), line));
        }
    }
}

static void check_svg(const struct scene *s, struct arena *a)
{
    for (int dark = 0; dark < 2; dark++) {
        struct str svg = STR_IN(a);
        scene_svg_theme(s, dark, &svg);
        FILE *f = fopen(arena_printf(a, "%s/%06d.svg", folder, (int)svgs++), "w");
        assert_non_null(f);
        fwrite(svg.s, 1, svg.n, f);
        fclose(f);
    }
}

/* Something drawn later lies on the point, or near it: a label, another box, an arrow. */
static bool is_covered(const struct scene *s, int64_t i, double x, double y)
{
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        struct scene_rect r = { it->x, it->y, it->w, it->h };
        if (it->kind == SCENE_TEXT) {
            r = scene_text_rect(it);
        } else if (it->kind == SCENE_PATH) {
            double x1 = -1e9, y1 = -1e9;
            r = (struct scene_rect){ 1e9, 1e9, 0, 0 };
            for (int p = 0; p < it->npoints; p++) {
                r.x = fmin(r.x, it->points[2 * p]);
                r.y = fmin(r.y, it->points[2 * p + 1]);
                x1 = fmax(x1, it->points[2 * p]);
                y1 = fmax(y1, it->points[2 * p + 1]);
            }
            r.w = x1 - r.x;
            r.h = y1 - r.y;
        } else if (it->kind == SCENE_LINE || (k <= i && !scene_label_rect(it, &r))) {
            continue;
        }
        if (x > r.x - 3 && y > r.y - 1 && x < r.x + r.w + 3 && y < r.y + r.h + 1)
            return true;
    }
    return false;
}

/* The pixel in the middle of each rectangle that somebody owns has its owner's colour. */
static void check_pixels(const struct scene *s, bool dark)
{
    enum { MOST = 400, LARGE = 4000 };
    const double scale = 1.5;
    int stride, w = (int)ceil((s->width + 2 * SCENE_MARGIN) * scale), h = (int)ceil((s->height + 2 * SCENE_MARGIN) * scale);
    struct canvas *c = w < LARGE && h < LARGE && s->items.n < 20 * MOST ? canvas_new(w, h) : NULL;
    if (!c)
        return;
    struct camera cam = { .x = -SCENE_MARGIN, .y = -SCENE_MARGIN, .scale = scale };
    canvas_scene(c, s, &cam, dark, 0, 0, w, h);
    const uint32_t *all = canvas_pixels(c, &stride);
    int checked = 0;
    for (int64_t i = 0; i < s->items.n && checked < MOST; i++) {
        const struct scene_item *it = &s->items.v[i];
        double x = it->x + it->w / 2, y = it->y + it->h / 2;
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->device < 0 || it->state & STATE_PADDING || it->w < 6 ||
            it->h < 6 || is_covered(s, i, x, y))
            continue;
        int px = (int)floor((x + SCENE_MARGIN) * scale), py = (int)floor((y + SCENE_MARGIN) * scale);
        uint32_t want = palette_device(scene_color(it)), got = all[(ptrdiff_t)py * (stride / 4) + px] & 0xffffff;
        if (got != want)
            wrong(arena_printf(&arena, "device %" PRId64 ": pixel %d,%d is %06x, not %06x", it->device, px, py, got, want));
        checked++;
    }
    pixels += checked;
    canvas_free(c);
}

static void check_files(const struct scene *s, struct arena *a)
{
    if (!with_cairo)
        return;
    check_pixels(s, scenes % 2);
    struct paint_options o = { .dark = scenes % 2, .scale = 1 };
    struct str png = STR_IN(a), pdf = STR_IN(a);
    if (s->width < 8000 && s->height < 8000 && !scene_png(s, &o, &png, NULL))
        wrong("no PNG");
    if (png.n && (png.n < 60 || memcmp(png.s, "\x89PNG\r\n\x1a\n", 8) != 0 || !memmem(png.s + png.n - 12, 12, "IEND", 4)))
        wrong("PNG of other bytes");
    if (!scene_pdf(&s, 1, &o, &pdf, NULL) || pdf.n < 60 || memcmp(pdf.s, "%PDF-", 5) != 0 ||
        !memmem(pdf.s + pdf.n - 8, 8, "%%EOF", 5))
        wrong("no PDF");
}

/* ---- views --------------------------------------------------------------------------------------- */

struct subject {
    struct shell *sh;
    struct str *said;
    bool full;
};

/* may_refuse: the model may have nothing to show; then one sentence says so. */
static void view(struct subject *x, const char *words, bool may_refuse)
{
    now_words = words;
    /* dot takes its time: what it draws is drawn of a few */
    bool drawn = x->full || strncmp(words, "graph", 5) != 0;
    for (int text = drawn ? 0 : 1; text < 2; text++) {
        struct arena a = { 0 };
        struct capture to = { .arena = &a, .width = text ? 0 : 900, .text = text };
        const char *line = arena_printf(&a, "plot %s", words);
        x->said->n = 0;
        x->sh->capture = &to;
        x->sh->depth++;
        shell_run(x->sh, "test", line, strlen(line));
        x->sh->depth--;
        x->sh->capture = NULL;
        if (!to.scene) {
            if (!may_refuse || !strstr(str_text(x->said), "error: ") || strstr(str_text(x->said), "bug"))
                wrong(str_text(x->said));
            refused++;
            arena_free(&a);
            return;
        }
        const char *bad = scene_wrong(to.scene, &a);
        if (bad)
            wrong(bad);
        if (text) {
            check_text(to.scene, &a);
        } else {
            check_svg(to.scene, &a);
            check_files(to.scene, &a);
        }
        scenes++;
        arena_free(&a);
    }
}

static void run(struct subject *x, const char *line)
{
    x->said->n = 0;
    shell_run(x->sh, "test", line, strlen(line));
}

/* Two axes of all devices, as square as may be. */
static const char *mesh_of(int64_t n)
{
    int64_t a = 1;
    for (int64_t k = 2; k * k <= n; k++)
        if (n % k == 0)
            a = k;
    return arena_printf(&arena, "mesh data=%" PRId64 " model=%" PRId64, a, n / a);
}

/* Arrays of the entry: that of highest rank, the first product, the last but the root. */
static int some_arrays(const struct module *m, instr_id *list)
{
    const struct computation *e = comp_at(m, m->entry);
    int most = -1, n = 0;
    instr_id high = { 0 }, dot = { 0 }, last = { 0 };
    for (uint32_t k = 0; k < e->ninstrs; k++) {
        const struct instr *in = instr_at(m, e->instrs[k]);
        const struct shape *s = shape_get(m->ir, in->shape);
        if (s->kind != SHAPE_ARRAY)
            continue;
        if (s->rank > most) {
            most = s->rank;
            high = e->instrs[k];
        }
        if (in->op == OP_DOT && !dot.i)
            dot = e->instrs[k];
        last = e->instrs[k];
    }
    const instr_id candidates[3] = { high, dot, last };
    for (int k = 0; k < 3; k++) {
        bool again = !candidates[k].i;
        for (int q = 0; q < n; q++)
            again |= list[q].i == candidates[k].i;
        if (!again)
            list[n++] = candidates[k];
    }
    return n;
}

static const char *quoted_name(const struct module *m, instr_id i)
{
    struct str s = STR_IN(&arena);
    str_addf(&s, "\"%s\"", name_text(m->ir, instr_at(m, i)->name));
    return str_text(&s);
}

static void arrays_of(struct subject *x, const struct module *m)
{
    instr_id list[3];
    int n = some_arrays(m, list);
    for (int k = 0; k < (x->full ? n : 1); k++) {
        const char *t = quoted_name(m, list[k]);
        view(x, arena_printf(&arena, "layout %s", t), true); /* calls and the like may be gone */
        view(x, arena_printf(&arena, "layout %s device=0", t), true);
        view(x, arena_printf(&arena, "layout %s --values", t), true);
        view(x, arena_printf(&arena, "reshard %s -> replicated", t), true);
        if (!x->full)
            continue;
        view(x, arena_printf(&arena, "layout %s --before", t), true);
        view(x, arena_printf(&arena, "reshard %s", t), true);
        if (with_dot)
            view(x, arena_printf(&arena, "graph %s", t), false);
    }
}

static void collectives_of(struct subject *x, bool runs)
{
    int64_t n = 0, total;
    const struct collective *list = NULL;
    struct document *doc = x->sh->doc;
    bool seen[OP_COUNT] = { false };
    if (!document_program(doc, NULL, NULL) || !document_collectives(doc, &list, &n, &total, NULL, NULL))
        return;
    int64_t taken = 0;
    const char *names[8];
    for (int64_t k = 0; k < n && taken < 8; k++) { /* names first: a view may make the list anew */
        if (seen[list[k].kind])
            continue;
        seen[list[k].kind] = true;
        struct diag *d = diag_new();
        struct call c = { .sh = x->sh, .d = d };
        names[taken++] = arena_strdup(&arena, collective_label(&c, document_program(doc, NULL, NULL)->module, &list[k]));
        arena_free(&c.arena);
        diag_free(d);
    }
    for (int64_t k = 0; k < taken; k++) {
        view(x, arena_printf(&arena, "mesh comm=\"%s\" group=0", names[k]), true);
        if (runs && k < (x->full ? 8 : 1))
            view(x, arena_printf(&arena, "hops \"%s\"", names[k]), true);
        if (with_dot && x->full)
            view(x, arena_printf(&arena, "graph \"%s\"", names[k]), true);
    }
}

static void check_file(const char *path, bool small, bool full)
{
    struct str said = STR_IN(&arena);
    struct sink sink = { collect, &said };
    struct subject x = { shell_new(sink), &said, full };
    now_file = path;
    now_words = "";
    x.sh->bail = false;
    if (shell_load(x.sh, path) != 0) {
        print_message("%s: %s\n", path, str_text(&said));
        unreadable++;
        shell_free(x.sh);
        return;
    }
    int64_t devices = document_devices(x.sh->doc);
    run(&x, mesh_of(devices > 1 ? devices : 8));
    run(&x, "set limit=20");
    const struct module *m = document_module(x.sh->doc);
    bool meshed = document_mesh(x.sh->doc) != NULL;
    if (meshed) {
        view(&x, "mesh", false);
        view(&x, "mesh model --torus --order", false);
        view(&x, "mesh data --physical", false);
    }
    view(&x, "device 0", false);
    if (with_dot || !full)
        view(&x, "graph", false);
    arrays_of(&x, m);
    collectives_of(&x, small);
    view(&x, "memory", true);
    if (small && full)
        view(&x, "timeline", true);
    files++;
    shell_free(x.sh);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static bool is_model(const char *name)
{
    bool dump = (ends_with(name, ".hlo") || ends_with(name, ".hlo.gz")) && !strstr(name, "after_spmd") &&
                !strstr(name, ".optimized") && !strstr(name, ".sdy.") && !strstr(name, ".verbose") &&
                !strstr(name, ".short") && !strstr(name, ".canonical") && !strstr(name, ".tuple_args") &&
                !strstr(name, ".fingerprint");
    return dump || (ends_with(name, ".json") && !strstr(name, ".xla.") && strcmp(name, "index.json") != 0);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How many files there were. */
static int64_t check_folder(const char *path, bool ours)
{
    enum { LARGE = 40 << 10, PATIENCE = 8 };
    struct dirent **list;
    int n = scandir(path, &list, NULL, by_name);
    int64_t before = files, at = 0;
    double from = seconds();
    for (int k = 0; k < n; k++) {
        const char *name = list[k]->d_name;
        struct stat st;
        const char *file = arena_printf(&arena, "%s/%s", path, name);
        if (is_model(name) && stat(file, &st) == 0) {
            bool small = ours || strstr(name, "_small");
            bool due = ours || all_inputs || (st.st_size < LARGE && at % 3 == 0);
            if (due && !ours && !all_inputs && seconds() - from > PATIENCE)
                late++;
            else if (due)
                check_file(file, small, ours || all_inputs || at % 9 == 0);
            at++;
        }
        free(list[k]);
    }
    if (n >= 0)
        free(list);
    return files - before;
}

static const char *root(void)
{
    return access("models", R_OK) == 0 ? "." : "..";
}

static void every_model(void **state)
{
    (void)state;
    faults = 0;
    assert_true(check_folder(arena_printf(&arena, "%s/models", root()), true) >= 5);
    check_folder(arena_printf(&arena, "%s/models/paper", root()), false);
    assert_int_equal(faults, 0);
}

static void every_real_input(void **state)
{
    (void)state;
    faults = 0;
    const char *shared = getenv("GSPMD_SHARED");
    const char *path = shared ? arena_printf(&arena, "%s/inputs", shared) : arena_printf(&arena, "%s/../shared/inputs", root());
    if (access(path, R_OK) != 0) {
        print_message("no %s: skipped\n", path);
        skip();
    }
    assert_true(check_folder(path, false) >= (all_inputs ? 100 : 3));
    assert_int_equal(faults, 0);
}

/* Two axes that do not divide each other, three axes, an order and places of their own, a million devices. */
static void odd_meshes(void **state)
{
    (void)state;
    faults = 0;
    static const char *const meshes[] = {
        "mesh a=3 b=5", "mesh a=1 b=1", "mesh a=2 b=3 c=4", "mesh a=2 b=4 order=[4,2]T(1,0)", "mesh a=2 b=2 order=3,1,0,2",
        "mesh a=4 b=4 physical=[4,4]T(1,0)", "mesh a=2 b=3 c=4 physical=[6,4]T(1,0)", "mesh a=64 b=64",
        "mesh a=1024 b=1024", "mesh a=2 b=2 c=2 d=2 e=2", "mesh a=16 b=16 c=16 physical=[16,256]T(1,0)" };
    for (size_t k = 0; k < COUNTOF(meshes); k++) {
        struct str said = STR_IN(&arena);
        struct sink sink = { collect, &said };
        struct subject x = { shell_new(sink), &said, true };
        now_file = meshes[k];
        now_words = "";
        run(&x, meshes[k]);
        assert_non_null(document_mesh(x.sh->doc));
        static const char *const views[] = { "mesh", "mesh a", "mesh b --torus", "mesh --torus --order",
                                             "mesh --physical", "mesh a --physical", "mesh b --physical" };
        for (size_t v = 0; v < COUNTOF(views); v++)
            view(&x, views[v], false);
        shell_free(x.sh);
    }
    assert_int_equal(faults, 0);
}

/* A scene that the test looks at; NULL: none. */
static struct scene *scene_of(struct subject *x, const char *words, double width)
{
    struct capture to = { .arena = &arena, .width = width };
    const char *line = arena_printf(&arena, "plot %s", words);
    x->said->n = 0;
    x->sh->capture = &to;
    x->sh->depth++;
    shell_run(x->sh, "test", line, strlen(line));
    x->sh->depth--;
    x->sh->capture = NULL;
    return to.scene;
}

/* Eight microbatches on four stages: each stage has none in 3 of the 11 turns, the later ones at the start. */
static void pipeline_bubbles(void **state)
{
    (void)state;
    faults = 0;
    struct str said = STR_IN(&arena);
    struct sink sink = { collect, &said };
    struct subject x = { shell_new(sink), &said, true };
    assert_int_equal(shell_load(x.sh, arena_printf(&arena, "%s/models/pipeline.hlo", root())), 0);
    run(&x, "mesh stage=4");
    run(&x, "shard w [stage,_,_]");
    struct scene *s = scene_of(&x, "timeline stages=stage", 2000);
    assert_non_null(s);
    double idle[4] = { 0 }, busy[4] = { 0 }, middle = 0, first[4] = { 1e9, 1e9, 1e9, 1e9 };
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->device < 0 || it->device > 3 || it->y > s->height - 24)
            continue;
        bool bubble = it->state & STATE_PADDING;
        *(bubble ? &idle[it->device] : &busy[it->device]) += it->w;
        middle = it->x + it->w > middle ? it->x + it->w : middle;
        if (bubble && it->x < first[it->device])
            first[it->device] = it->x;
    }
    for (int d = 0; d < 4; d++) {
        double share = idle[d] / (idle[d] + busy[d]); /* what is computed outside of the loop is busy, too */
        assert_true(share > 0.8 * 3 / 11 && share <= 1.0 * 3 / 11);
        assert_true(fabs(idle[d] / idle[0] - 1) < 0.05);
    }
    assert_true(first[0] > middle / 2); /* the first stage has none at the end, the last one at the start */
    assert_true(first[3] < middle / 4);
    view(&x, "timeline stages=stage", false);
    view(&x, "timeline stages=data", true);
    assert_int_equal(faults, 0);
    shell_free(x.sh);
}

/* Where the devices sit: the cells of the machine hold them in the order of their places, links join neighbours,
 * and time follows: groups that are far apart share links. */
static void places_of_devices(void **state)
{
    (void)state;
    struct str said = STR_IN(&arena);
    struct sink sink = { collect, &said };
    struct subject x = { shell_new(sink), &said, true };
    run(&x, "hardware tpu-v4 shape=2x4");
    run(&x, "mesh data=2 model=4 physical=[4,2]T(1,0)"); /* device d sits at place d * 2 % 8 + d / 4 */
    struct scene *s = scene_of(&x, "mesh model --physical", 900);
    assert_non_null(s);
    int64_t cells = 0;
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE)
            continue;
        int64_t d = it->device, place = cells++;
        assert_int_equal(place, d * 2 % 8 + d / 4);
        assert_non_null(strstr(it->text, arena_printf(&arena, "%d (%d,%d)", (int)d, (int)d / 4, (int)d % 4)));
    }
    assert_int_equal(cells, 8);
    bool told = false;
    for (int64_t k = 0; k < s->items.n; k++)
        told |= s->items.v[k].kind == SCENE_TEXT && strstr(s->items.v[k].text, "model: the next one is up to 3 links away");
    assert_true(told);
    /* 0 to 1 lies two links off, 1 to 2 one down and two across */
    double seconds_near = 0, seconds_far = 0;
    assert_int_equal(shell_load(x.sh, arena_printf(&arena, "%s/models/mlp.json", root())), 0);
    for (int far = 0; far < 2; far++) {
        run(&x, far ? "mesh data=2 model=4 physical=[4,2]T(1,0)" : "mesh data=2 model=4");
        run(&x, "shard w1 [_,model]");
        struct cost *c = strategy_cost(x.sh->doc, document_strategy(x.sh->doc), x.sh->hardware, x.sh->nshape, x.sh->shape,
                                       OVERLAP_NONE, NULL, NULL);
        assert_non_null(c);
        *(far ? &seconds_far : &seconds_near) = c->comm;
        cost_free(c);
    }
    assert_true(seconds_far > 1.2 * seconds_near);
    /* shardings are as they were, and the places go with the strategy's text */
    run(&x, "mesh");
    assert_non_null(strstr(str_text(x.said), "physical=[4,2]T(1,0)"));
    shell_free(x.sh);
}

static void xmllint_takes_them(void **state)
{
    (void)state;
    if (system("command -v xmllint >/dev/null 2>&1") != 0) {
        print_message("no xmllint: skipped\n");
        skip();
    }
    assert_true(svgs > 100);
    const char *line = arena_printf(&arena, "find %s -name '*.svg' -print0 | xargs -0 -n 400 xmllint --noout", folder);
    assert_int_equal(system(line), 0);
}

static void totals(void **state)
{
    (void)state;
    print_message("%" PRId64 " files, %" PRId64 " scenes, %" PRId64 " SVG texts, %" PRId64 " rectangles' pixels; %" PRId64 " views that a model has not; %" PRId64
                  " files unreadable, %" PRId64 " left out for time\n",
                  files, scenes, svgs, pixels, refused, unreadable, late);
    assert_true(refused < scenes);
    assert_true(!with_cairo || pixels > 1000);
}

static int begin(void **state)
{
    (void)state;
    with_cairo = cairo_ready(NULL);
    with_dot = system("command -v dot >/dev/null 2>&1") == 0;
    all_inputs = getenv("GSPMD_ALL") != NULL;
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return system(arena_printf(&arena, "rm -rf %s", folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_meshes),       cmocka_unit_test(every_model), cmocka_unit_test(every_real_input),
        cmocka_unit_test(pipeline_bubbles), cmocka_unit_test(places_of_devices),
        cmocka_unit_test(xmllint_takes_them), cmocka_unit_test(totals),
    };
    int failed = cmocka_run_group_tests_name("repl_views", tests, begin, end);
    arena_free(&arena);
    return failed;
}
