#include "viz/cairo.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viz/palette.h"

#if defined(__has_include) && !defined(GSPMD_NO_CAIRO)
#if __has_include(<cairo/cairo.h>) && __has_include(<cairo/cairo-pdf.h>)
#include <cairo/cairo-pdf.h>
#include <cairo/cairo.h>
#define HAVE_CAIRO 1
#endif
#endif
#ifndef HAVE_CAIRO
#define HAVE_CAIRO 0
#endif

#if HAVE_CAIRO

/* ---- the library, opened at first use ------------------------------------------------------------ */

#define CAIRO_FUNCTIONS(F)                                                                         \
    F(cairo_create) F(cairo_destroy) F(cairo_status) F(cairo_surface_status) F(cairo_save)         \
    F(cairo_restore) F(cairo_set_source_rgb) F(cairo_set_source_rgba) F(cairo_set_source)          \
    F(cairo_rectangle) F(cairo_fill) F(cairo_stroke) F(cairo_clip) F(cairo_paint) F(cairo_new_path)\
    F(cairo_move_to) F(cairo_line_to) F(cairo_curve_to) F(cairo_arc) F(cairo_close_path)           \
    F(cairo_set_line_width) F(cairo_set_dash) F(cairo_set_line_cap) F(cairo_set_antialias)         \
    F(cairo_select_font_face) F(cairo_set_font_size) F(cairo_show_text) F(cairo_text_extents)      \
    F(cairo_show_page) F(cairo_surface_destroy) F(cairo_surface_flush)                             \
    F(cairo_surface_mark_dirty) F(cairo_surface_finish) F(cairo_image_surface_create)              \
    F(cairo_image_surface_get_data) F(cairo_image_surface_get_stride)                              \
    F(cairo_surface_write_to_png_stream) F(cairo_pdf_surface_create_for_stream)                    \
    F(cairo_pdf_surface_set_size) F(cairo_pattern_create_for_surface) F(cairo_pattern_destroy)     \
    F(cairo_pattern_set_extend) F(cairo_pattern_set_filter) F(cairo_pattern_set_matrix)            \
    F(cairo_pdf_surface_set_metadata) F(cairo_font_options_create) F(cairo_font_options_destroy)       \
    F(cairo_font_options_set_hint_metrics) F(cairo_set_font_options)

static struct {
    bool tried, ready;
    const char *face;
#define F(name) __typeof__(&name) name;
    CAIRO_FUNCTIONS(F)
#undef F
} lib;

#if defined(__SANITIZE_ADDRESS__)
/* Fontconfig keeps what it read of its configuration to the end of the program. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfontconfig";
}
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}
#endif

static bool load_functions(void *handle)
{
    bool ok = true;
#define F(name)                                                                                    \
    {                                                                                              \
        void *p = dlsym(handle, #name);                                                            \
        ok = ok && p;                                                                              \
        memcpy(&lib.name, &p, sizeof p);                                                           \
    }
    CAIRO_FUNCTIONS(F)
#undef F
    return ok;
}

/* A face whose characters have one width. What fontconfig offers for a name that it does not know may
 * be any face. */
static void choose_face(void)
{
    static const char *const faces[] = { "DejaVu Sans Mono", "Liberation Mono", "monospace" };
    cairo_surface_t *surface = lib.cairo_image_surface_create(CAIRO_FORMAT_RGB24, 8, 8);
    cairo_t *cr = lib.cairo_create(surface);
    lib.face = faces[0];
    for (size_t k = 0; k < COUNTOF(faces); k++) {
        cairo_text_extents_t thin, wide;
        lib.cairo_select_font_face(cr, faces[k], CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
        lib.cairo_set_font_size(cr, 100);
        lib.cairo_text_extents(cr, "iiii", &thin);
        lib.cairo_text_extents(cr, "WWWW", &wide);
        if (fabs(thin.x_advance - wide.x_advance) < 1) {
            lib.face = faces[k];
            break;
        }
    }
    lib.cairo_destroy(cr);
    lib.cairo_surface_destroy(surface);
}

static bool load(void)
{
    if (lib.tried)
        return lib.ready;
    lib.tried = true;
    void *handle = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    lib.ready = handle && load_functions(handle);
    if (lib.ready)
        choose_face();
    return lib.ready;
}

bool cairo_ready(struct diag *d)
{
    if (load())
        return true;
    const char *before = diag_stage(d, "limit");
    diag_error(d, NULL, (struct span){ 0 }, "PNG, PDF and the window need Cairo (libcairo.so.2), which is not here");
    diag_hint(d, "SVG and text need nothing: -o FILE.svg, -o FILE.txt; Debian's package is libcairo2");
    diag_stage(d, before);
    return false;
}

/* ---- painting ------------------------------------------------------------------------------------ */

enum { MOST_STRIPES = 64 };

struct stripes {
    int n;
    int64_t owners[4];
    cairo_pattern_t *pattern;
};

struct painter {
    cairo_t *cr;
    struct camera cam;
    bool dark, raster, no_labels;
    double x0, y0, x1, y1; /* what is seen, in points of the scene */
    int nstripes, period;
    struct stripes stripes[MOST_STRIPES];
    cairo_pattern_t *pad, *sum;
    double font;
    bool bold;
};

static void source(struct painter *p, uint32_t rgb)
{
    lib.cairo_set_source_rgb(p->cr, (rgb >> 16 & 0xff) / 255.0, (rgb >> 8 & 0xff) / 255.0, (rgb & 0xff) / 255.0);
}

static uint32_t paint(const struct painter *p, enum palette_role role)
{
    return palette_paint(role, p->dark);
}

static double px(const struct painter *p, double x)
{
    return p->cam.left + (x - p->cam.x) * p->cam.scale;
}

static double py(const struct painter *p, double y)
{
    return p->cam.top + (y - p->cam.y) * p->cam.scale;
}

/* A box on whole pixels: fast, and neighbours share their edge. */
static struct scene_rect pixels(const struct painter *p, const struct scene_item *it)
{
    double x = px(p, it->x), y = py(p, it->y), x1 = px(p, it->x + it->w), y1 = py(p, it->y + it->h);
    if (!p->raster)
        return (struct scene_rect){ x, y, x1 - x, y1 - y };
    x = floor(x + 0.5);
    y = floor(y + 0.5);
    return (struct scene_rect){ x, y, fmax(floor(x1 + 0.5) - x, 1), fmax(floor(y1 + 0.5) - y, 1) };
}

static bool is_seen(const struct painter *p, double x, double y, double w, double h)
{
    double x1 = w < 0 ? x : x + w, y1 = h < 0 ? y : y + h;
    x = w < 0 ? x + w : x;
    y = h < 0 ? y + h : y;
    return x1 >= p->x0 - 4 && y1 >= p->y0 - 4 && x <= p->x1 + 4 && y <= p->y1 + 4;
}

typedef uint32_t texel_fn(const struct painter *p, int x, int y, const void *context);

static cairo_pattern_t *make_pattern(struct painter *p, int size, texel_fn *texel, const void *context)
{
    cairo_surface_t *s = lib.cairo_image_surface_create(CAIRO_FORMAT_RGB24, size, size);
    unsigned char *data = lib.cairo_image_surface_get_data(s);
    int stride = lib.cairo_image_surface_get_stride(s);
    for (int y = 0; data && y < size; y++)
        for (int x = 0; x < size; x++) {
            uint32_t v = texel(p, x, y, context);
            memcpy(data + y * stride + 4 * x, &v, 4);
        }
    lib.cairo_surface_mark_dirty(s);
    cairo_pattern_t *pattern = lib.cairo_pattern_create_for_surface(s);
    lib.cairo_surface_destroy(s);
    lib.cairo_pattern_set_extend(pattern, CAIRO_EXTEND_REPEAT);
    lib.cairo_pattern_set_filter(pattern, CAIRO_FILTER_NEAREST);
    return pattern;
}

static uint32_t pad_texel(const struct painter *p, int x, int y, const void *context)
{
    int n = *(const int *)context;
    bool line = (x + y) % n == 0 || (x - y + n) % n == 0;
    return paint(p, line ? PAINT_HATCH : PAINT_PAD);
}

/* One stripe a holder, in its colour, the first one in the middle of the tile (index 0 of the period is
 * put there); a lone known holder shares with the ground. */
static int stripe_width(const struct painter *p)
{
    int w = (int)(5 * p->cam.scale / 1.5 + 0.5);
    return w < 2 ? 2 : w > 24 ? 24 : w;
}

static uint32_t stripe_texel(const struct painter *p, int x, int y, const void *context)
{
    const struct stripes *s = context;
    int width = stripe_width(p), n = s->n > 1 ? s->n : 2, period = n * width;
    int at = (x + y + width / 2) % period / width;
    return at < s->n ? palette_device(s->owners[at]) : paint(p, PAINT_EMPTY);
}

/* Puts a pattern's texel (0, 0) at the middle of a rectangle. */
static void anchor(cairo_pattern_t *pattern, const struct scene_rect *r)
{
    cairo_matrix_t m = { .xx = 1, .yy = 1, .x0 = -floor(r->x + r->w / 2), .y0 = -floor(r->y + r->h / 2) };
    lib.cairo_pattern_set_matrix(pattern, &m);
}

static cairo_pattern_t *stripes_of(struct painter *p, const struct scene_item *it)
{
    struct stripes want = { .n = it->nowners > 0 ? it->nowners : 1, .owners = { it->device } };
    for (int k = 0; k < it->nowners; k++)
        want.owners[k] = it->owners[k] % (DEVICE_COLORS * DEVICE_TINTS);
    if (it->nowners == 0)
        want.owners[0] = it->device % (DEVICE_COLORS * DEVICE_TINTS);
    for (int k = 0; k < p->nstripes; k++)
        if (p->stripes[k].n == want.n && !memcmp(p->stripes[k].owners, want.owners, sizeof want.owners))
            return p->stripes[k].pattern;
    int n = want.n > 1 ? want.n : 2;
    want.pattern = make_pattern(p, n * stripe_width(p), stripe_texel, &want);
    if (p->nstripes == MOST_STRIPES)
        lib.cairo_pattern_destroy(p->stripes[--p->nstripes].pattern);
    p->stripes[p->nstripes++] = want;
    return want.pattern;
}

static void fill_rect(struct painter *p, const struct scene_rect *r)
{
    lib.cairo_rectangle(p->cr, r->x, r->y, r->w, r->h);
    lib.cairo_fill(p->cr);
}

static void fill_pattern(struct painter *p, cairo_pattern_t *pattern, const struct scene_rect *r)
{
    anchor(pattern, r);
    lib.cairo_set_source(p->cr, pattern);
    fill_rect(p, r);
}

/* Lines of one slope over a rectangle, for PDF, where patterns would be pictures. */
static void draw_slopes(struct painter *p, const struct scene_rect *r, double step, double phase, int slope,
                        double width, uint32_t rgb)
{
    lib.cairo_save(p->cr);
    lib.cairo_rectangle(p->cr, r->x, r->y, r->w, r->h);
    lib.cairo_clip(p->cr);
    double mid = slope > 0 ? r->x + r->w / 2 + r->y + r->h / 2 : r->x + r->w / 2 - r->y - r->h / 2;
    double reach = r->w + r->h;
    for (double at = phase - step * ceil((reach / 2 + phase) / step); at <= reach / 2 + step; at += step) {
        double c = mid + at; /* x + y = c, or x - y = c */
        lib.cairo_move_to(p->cr, slope > 0 ? c - r->y : c + r->y, r->y);
        lib.cairo_line_to(p->cr, slope > 0 ? c - r->y - r->h : c + r->y + r->h, r->y + r->h);
    }
    source(p, rgb);
    lib.cairo_set_line_width(p->cr, width);
    lib.cairo_stroke(p->cr);
    lib.cairo_restore(p->cr);
}

static void fill_padding(struct painter *p, const struct scene_rect *r)
{
    int n = (int)(6 * p->cam.scale / 1.5 + 0.5) + 2;
    if (p->raster) {
        if (!p->pad)
            p->pad = make_pattern(p, n, pad_texel, &n);
        fill_pattern(p, p->pad, r);
        return;
    }
    source(p, paint(p, PAINT_PAD));
    fill_rect(p, r);
    draw_slopes(p, r, 6 * p->cam.scale, 0, 1, 0.7, paint(p, PAINT_HATCH));
    draw_slopes(p, r, 6 * p->cam.scale, 0, -1, 0.7, paint(p, PAINT_HATCH));
}

static void fill_copies(struct painter *p, const struct scene_item *it, const struct scene_rect *r)
{
    if (p->raster) {
        fill_pattern(p, stripes_of(p, it), r);
        return;
    }
    int n = it->nowners > 1 ? it->nowners : 2;
    double width = 5 * p->cam.scale;
    source(p, paint(p, PAINT_EMPTY));
    fill_rect(p, r);
    for (int k = 0; k < (it->nowners > 0 ? it->nowners : 1); k++)
        draw_slopes(p, r, n * width, k * width, 1, width / sqrt(2.0) + 0.2,
                    palette_device(it->nowners > 0 ? it->owners[k] : it->device));
}

/* Level lines over the device's colour, none through the middle. */
static void hatch_sum(struct painter *p, const struct scene_rect *r)
{
    double step = fmax(6 * p->cam.scale / 1.5, 3), mid = r->y + r->h / 2;
    source(p, paint(p, PAINT_ON_TILE));
    lib.cairo_set_line_width(p->cr, fmax(p->cam.scale * 0.6, 0.6));
    for (double y = mid + step / 2; y < r->y + r->h - 1; y += step) {
        lib.cairo_move_to(p->cr, r->x + 1, y);
        lib.cairo_line_to(p->cr, r->x + r->w - 1, y);
    }
    for (double y = mid - step / 2; y > r->y + 1; y -= step) {
        lib.cairo_move_to(p->cr, r->x + 1, y);
        lib.cairo_line_to(p->cr, r->x + r->w - 1, y);
    }
    lib.cairo_stroke(p->cr);
}

static uint32_t box_color(const struct painter *p, const struct scene_item *it)
{
    switch (it->role) {
    case ROLE_FRAME: return paint(p, PAINT_EMPTY);
    case ROLE_CLUSTER: return paint(p, PAINT_PANEL);
    case ROLE_AXIS: return palette_axis_on(it->axis, p->dark);
    case ROLE_NODE:
        return it->axis < 0 ? paint(p, PAINT_EMPTY)
                            : palette_mix(palette_axis(it->axis), paint(p, PAINT_GROUND), 70);
    case ROLE_MOVE: return palette_mix(paint(p, PAINT_MOVE), paint(p, PAINT_GROUND), it->rounded ? 30 : 110);
    case ROLE_TILE:
    case ROLE_LABEL:
    case ROLE_CAPTION:
    case ROLE_LEGEND:
    case ROLE_RULER:
    case ROLE_LINK:
    case ROLE_HIGHLIGHT:
    case ROLE_EDGE: break;
    }
    return it->device < 0 ? paint(p, PAINT_EMPTY) : palette_device(scene_color(it));
}

static void round_path(struct painter *p, const struct scene_rect *r)
{
    const double turn = 3.14159265358979323846 / 2;
    double k = fmin(4 * p->cam.scale, fmin(r->w, r->h) / 2);
    lib.cairo_new_path(p->cr);
    lib.cairo_arc(p->cr, r->x + r->w - k, r->y + k, k, -turn, 0);
    lib.cairo_arc(p->cr, r->x + r->w - k, r->y + r->h - k, k, 0, turn);
    lib.cairo_arc(p->cr, r->x + k, r->y + r->h - k, k, turn, 2 * turn);
    lib.cairo_arc(p->cr, r->x + k, r->y + k, k, 2 * turn, 3 * turn);
    lib.cairo_close_path(p->cr);
}

static bool is_strong(const struct scene_item *it)
{
    return it->state & (STATE_CHANGED | STATE_HELD | STATE_CHOSEN);
}

static bool is_plain(const struct scene_item *it)
{
    return !is_strong(it) && !it->rounded && it->role == ROLE_TILE &&
           !(it->state & (STATE_OPEN | STATE_MANUAL));
}

static void paint_inside(struct painter *p, const struct scene_item *it)
{
    struct scene_rect r = pixels(p, it);
    if (it->state & STATE_PADDING) {
        fill_padding(p, &r);
    } else if (it->state & STATE_REPLICATED && it->device >= 0 && it->role != ROLE_FRAME) {
        fill_copies(p, it, &r);
    } else {
        source(p, box_color(p, it));
        if (it->rounded) {
            round_path(p, &r);
            lib.cairo_fill(p->cr);
        } else {
            fill_rect(p, &r);
        }
    }
    if (it->state & STATE_PARTIAL)
        hatch_sum(p, &r);
}

static void set_dash(struct painter *p, const struct scene_item *it)
{
    double k = p->cam.scale;
    if (it->state & STATE_MANUAL)
        lib.cairo_set_dash(p->cr, (double[]){ 1 * k, 2 * k }, 2, 0);
    else if (it->state & STATE_OPEN || it->role == ROLE_FRAME)
        lib.cairo_set_dash(p->cr, (double[]){ 4 * k, 3 * k }, 2, 0);
    else
        lib.cairo_set_dash(p->cr, NULL, 0, 0);
}

static void paint_outline(struct painter *p, const struct scene_item *it)
{
    struct scene_rect r = pixels(p, it);
    double thin_side = fmin(r.w, r.h);
    bool strong = is_strong(it) && thin_side > 8 * p->cam.scale; /* a sliver is all outline: its colour tells */
    double width = strong ? 2.5 * p->cam.scale : fmax(0.8 * p->cam.scale, 1);
    if (strong) { /* inside, so that no neighbour covers it */
        double k = fmin(width / 2, fmin(r.w, r.h) / 4);
        r = (struct scene_rect){ r.x + k, r.y + k, r.w - 2 * k, r.h - 2 * k };
    } else if (p->raster) {
        r.x += 0.5;
        r.y += 0.5;
    }
    set_dash(p, it);
    source(p, it->role == ROLE_MOVE ? paint(p, PAINT_MOVE)
              : strong && it->role == ROLE_TILE && p->dark ? 0x000000
                                                           : paint(p, strong ? PAINT_STRONG : PAINT_LINE));
    lib.cairo_set_line_width(p->cr, width);
    if (it->rounded)
        round_path(p, &r);
    else
        lib.cairo_rectangle(p->cr, r.x, r.y, r.w, r.h);
    lib.cairo_stroke(p->cr);
    if (strong && it->role == ROLE_TILE) { /* a light line inside the dark one: seen on every colour */
        set_dash(p, &(struct scene_item){ .role = ROLE_TILE });
        source(p, 0xffffff);
        lib.cairo_set_line_width(p->cr, width / 4);
        lib.cairo_rectangle(p->cr, r.x, r.y, r.w, r.h);
        lib.cairo_stroke(p->cr);
    }
}

static void paint_boxes(struct painter *p, const struct scene *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_BOX && is_seen(p, it->x, it->y, it->w, it->h))
            paint_inside(p, it);
    }
    /* plain outlines in one stroke: thousands of tiles cost little more than one */
    lib.cairo_set_dash(p->cr, NULL, 0, 0);
    double thin = p->raster ? fmax(floor(0.8 * p->cam.scale + 0.5), 1) : 0.8 * p->cam.scale;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind != SCENE_BOX || !is_plain(it) || !is_seen(p, it->x, it->y, it->w, it->h) ||
            it->w * p->cam.scale < 4 || it->h * p->cam.scale < 4)
            continue;
        struct scene_rect r = pixels(p, it);
        double half = p->raster && (int)thin % 2 ? 0.5 : 0;
        lib.cairo_rectangle(p->cr, r.x + half, r.y + half, r.w, r.h);
        any = true;
    }
    if (any) {
        source(p, paint(p, PAINT_LINE));
        lib.cairo_set_line_width(p->cr, thin);
        lib.cairo_stroke(p->cr);
    }
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_BOX && !is_plain(it) && it->role != ROLE_AXIS &&
            is_seen(p, it->x, it->y, it->w, it->h))
            paint_outline(p, it);
    }
}

static uint32_t line_color(const struct painter *p, const struct scene_item *it)
{
    if (it->role == ROLE_MOVE)
        return paint(p, PAINT_MOVE);
    if (it->device >= 0)
        return palette_device(it->device);
    if (it->axis >= 0)
        return palette_axis_on(it->axis, p->dark);
    return paint(p, it->role == ROLE_HIGHLIGHT ? PAINT_STRONG : PAINT_LINE);
}

static void arrow_head(struct painter *p, double x, double y, double dx, double dy, double size)
{
    double n = hypot(dx, dy);
    if (n < 1e-9)
        return;
    dx *= size / n;
    dy *= size / n;
    lib.cairo_set_dash(p->cr, NULL, 0, 0);
    lib.cairo_move_to(p->cr, x, y);
    lib.cairo_line_to(p->cr, x - dx - dy * 0.4, y - dy + dx * 0.4);
    lib.cairo_line_to(p->cr, x - dx + dy * 0.4, y - dy - dx * 0.4);
    lib.cairo_close_path(p->cr);
    lib.cairo_fill(p->cr);
}

static void paint_line(struct painter *p, const struct scene_item *it)
{
    double ends[4] = { it->x, it->y, it->x + it->w, it->y + it->h };
    const double *v = it->kind == SCENE_PATH ? it->points : ends;
    int n = it->kind == SCENE_PATH ? it->npoints : 2;
    double x0 = v[0], x1 = v[0], y0 = v[1], y1 = v[1];
    for (int k = 1; k < n; k++) {
        x0 = fmin(x0, v[2 * k]);
        x1 = fmax(x1, v[2 * k]);
        y0 = fmin(y0, v[2 * k + 1]);
        y1 = fmax(y1, v[2 * k + 1]);
    }
    if (n < 2 || !is_seen(p, x0, y0, x1 - x0, y1 - y0))
        return;
    double thick = (it->thick > 0 ? it->thick : 1.5) * p->cam.scale;
    source(p, line_color(p, it));
    lib.cairo_set_line_width(p->cr, fmax(thick, 1));
    lib.cairo_set_dash(p->cr, (double[]){ 3 * p->cam.scale, 2 * p->cam.scale }, it->dashed ? 2 : 0, 0);
    lib.cairo_move_to(p->cr, px(p, v[0]), py(p, v[1]));
    if (it->kind == SCENE_PATH && it->curve)
        for (int k = 1; k + 2 < n; k += 3)
            lib.cairo_curve_to(p->cr, px(p, v[2 * k]), py(p, v[2 * k + 1]), px(p, v[2 * k + 2]), py(p, v[2 * k + 3]),
                               px(p, v[2 * k + 4]), py(p, v[2 * k + 5]));
    else
        for (int k = 1; k < n; k++)
            lib.cairo_line_to(p->cr, px(p, v[2 * k]), py(p, v[2 * k + 1]));
    lib.cairo_stroke(p->cr);
    if (it->arrow)
        arrow_head(p, px(p, v[2 * n - 2]), py(p, v[2 * n - 1]), (v[2 * n - 2] - v[2 * n - 4]),
                   (v[2 * n - 1] - v[2 * n - 3]), fmax(6 * p->cam.scale, 2.2 * thick));
}

/* Characters as wide as they are, not whole pixels: small text stays in its box. */
static void keep_widths(cairo_t *cr)
{
    cairo_font_options_t *o = lib.cairo_font_options_create();
    lib.cairo_font_options_set_hint_metrics(o, CAIRO_HINT_METRICS_OFF);
    lib.cairo_set_font_options(cr, o);
    lib.cairo_font_options_destroy(o);
}

static void set_font(struct painter *p, double size, bool bold)
{
    size = p->raster ? floor(size * SCENE_FACE * 4) / 4 : size * SCENE_FACE; /* few sizes: few glyphs */
    if (p->font > 0 && fabs(p->font - size) < 1e-9 && p->bold == bold)
        return;
    if (p->font <= 0)
        keep_widths(p->cr);
    if (p->font <= 0 || p->bold != bold)
        lib.cairo_select_font_face(p->cr, lib.face, CAIRO_FONT_SLANT_NORMAL,
                                   bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    lib.cairo_set_font_size(p->cr, size);
    p->font = size;
    p->bold = bold;
}

enum { SMALLEST = 4 }; /* pixels: smaller text is grey noise */

static void put_text(struct painter *p, const struct scene_rect *r, double size, bool bold, uint32_t rgb,
                     const char *text)
{
    double pixel_size = size * p->cam.scale;
    if ((p->raster && pixel_size < SMALLEST) || !is_seen(p, r->x, r->y, r->w, r->h))
        return;
    set_font(p, pixel_size, bold);
    source(p, rgb);
    lib.cairo_move_to(p->cr, px(p, r->x), py(p, r->y + 0.92 * size));
    lib.cairo_show_text(p->cr, text);
}

static const char *safe(const char *text, char *room, size_t n)
{
    size_t k = 0;
    const unsigned char *s = (const unsigned char *)text;
    bool plain = true;
    for (; s[k]; k++)
        plain &= s[k] >= 0x20 && s[k] < 0x7f;
    if (plain)
        return text;
    struct arena a = { 0 };
    struct str out = STR_IN(&a);
    str_add_safe(&out, text, k);
    snprintf(room, n, "%s", str_text(&out));
    /* a character cut in two would put Cairo into its error state */
    size_t len = strlen(room);
    while (len > 0 && len + 8 > n && ((unsigned char)room[len - 1] & 0x80))
        room[--len] = '\0';
    arena_free(&a);
    return room;
}

static void paint_label(struct painter *p, const struct scene_item *it)
{
    struct scene_rect r;
    char room[512];
    if (!scene_label_rect(it, &r))
        return;
    bool copies = it->state & STATE_REPLICATED && it->role == ROLE_TILE;
    if ((copies || it->state & (STATE_PADDING | STATE_PARTIAL)) && it->size * p->cam.scale >= SMALLEST &&
        is_seen(p, r.x, r.y, r.w, r.h)) { /* off the stripes */
        double pad = 2 * p->cam.scale;
        source(p, 0xffffff);
        lib.cairo_rectangle(p->cr, px(p, r.x) - pad, py(p, r.y), r.w * p->cam.scale + 2 * pad,
                            r.h * p->cam.scale);
        lib.cairo_fill(p->cr);
    }
    bool on_tile = (it->role == ROLE_TILE && (it->device >= 0 || it->state & STATE_PADDING)) || copies;
    put_text(p, &r, it->size, is_strong(it) && it->role == ROLE_TILE, paint(p, on_tile ? PAINT_ON_TILE : PAINT_INK),
             safe(it->text, room, sizeof room));
}

static void paint_text(struct painter *p, const struct scene_item *it)
{
    char room[2048];
    struct scene_rect r = scene_text_rect(it);
    bool faint = it->role == ROLE_RULER || it->role == ROLE_LEGEND;
    uint32_t rgb = it->axis >= 0           ? palette_axis_on(it->axis, p->dark)
                   : it->role == ROLE_MOVE ? paint(p, PAINT_MOVE)
                   : it->role == ROLE_TILE ? paint(p, PAINT_ON_TILE)
                                           : paint(p, faint ? PAINT_FAINT : PAINT_INK);
    put_text(p, &r, it->size, it->bold, rgb, safe(it->text, room, sizeof room));
}

static void paint_scene(struct painter *p, const struct scene *s)
{
    lib.cairo_set_antialias(p->cr, CAIRO_ANTIALIAS_DEFAULT);
    paint_boxes(p, s);
    for (int64_t i = 0; i < s->items.n; i++)
        if (s->items.v[i].kind == SCENE_LINE || s->items.v[i].kind == SCENE_PATH)
            paint_line(p, &s->items.v[i]);
    for (int64_t i = 0; i < s->items.n && !p->no_labels; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_TEXT)
            paint_text(p, it);
        else if (it->kind == SCENE_BOX)
            paint_label(p, it);
    }
}

static void painter_end(struct painter *p)
{
    for (int k = 0; k < p->nstripes; k++)
        lib.cairo_pattern_destroy(p->stripes[k].pattern);
    if (p->pad)
        lib.cairo_pattern_destroy(p->pad);
}

/* ---- files --------------------------------------------------------------------------------------- */

static cairo_status_t add_bytes(void *context, const unsigned char *bytes, unsigned n)
{
    str_add(context, (const char *)bytes, n);
    return CAIRO_STATUS_SUCCESS;
}

static bool failed(struct diag *d, const char *what)
{
    const char *before = diag_stage(d, "limit");
    diag_error(d, NULL, (struct span){ 0 }, "%s", what);
    diag_stage(d, before);
    return false;
}

static struct painter painter_of(cairo_t *cr, const struct scene *s, const struct paint_options *o, bool raster)
{
    struct painter p = { .cr = cr, .dark = o->dark, .raster = raster, .no_labels = o->no_labels };
    p.cam = (struct camera){ .x = -SCENE_MARGIN, .y = -SCENE_MARGIN, .scale = o->scale > 0 ? o->scale : 1.5 };
    p.x0 = -SCENE_MARGIN;
    p.y0 = -SCENE_MARGIN;
    p.x1 = s->width + SCENE_MARGIN;
    p.y1 = s->height + SCENE_MARGIN;
    return p;
}

bool scene_png(const struct scene *s, const struct paint_options *o, struct str *out, struct diag *d)
{
    if (!cairo_ready(d))
        return false;
    double scale = o->scale > 0 ? o->scale : 1.5;
    double w = ceil((s->width + 2 * SCENE_MARGIN) * scale), h = ceil((s->height + 2 * SCENE_MARGIN) * scale);
    if (w > 30000 || h > 30000 || w * h > 2e8)
        return failed(d, "the picture is too large for a PNG file (SVG has no such limit)");
    cairo_surface_t *surface = lib.cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)w, (int)h);
    cairo_t *cr = lib.cairo_create(surface);
    struct painter p = painter_of(cr, s, o, true);
    source(&p, paint(&p, PAINT_GROUND));
    lib.cairo_paint(cr);
    paint_scene(&p, s);
    painter_end(&p);
    cairo_status_t status = lib.cairo_status(cr);
    lib.cairo_destroy(cr);
    if (status == CAIRO_STATUS_SUCCESS)
        status = lib.cairo_surface_write_to_png_stream(surface, add_bytes, out);
    lib.cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS || failed(d, "Cairo could not draw the picture (no memory?)");
}

bool scene_pdf(const struct scene *const *pages, int n, const struct paint_options *o, struct str *out,
               struct diag *d)
{
    if (!cairo_ready(d))
        return false;
    struct paint_options plain = *o;
    plain.scale = 1;
    cairo_surface_t *surface = lib.cairo_pdf_surface_create_for_stream(add_bytes, out, 100, 100);
    /* no clock in files: same input, same bytes */
    lib.cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
    if (n > 0)
        lib.cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, pages[0]->title);
    cairo_t *cr = NULL;
    cairo_status_t status = CAIRO_STATUS_SUCCESS;
    for (int k = 0; k < n; k++) {
        lib.cairo_pdf_surface_set_size(surface, pages[k]->width + 2 * SCENE_MARGIN,
                                       pages[k]->height + 2 * SCENE_MARGIN);
        cr = lib.cairo_create(surface);
        struct painter p = painter_of(cr, pages[k], &plain, false);
        source(&p, paint(&p, PAINT_GROUND));
        lib.cairo_paint(cr);
        paint_scene(&p, pages[k]);
        painter_end(&p);
        lib.cairo_show_page(cr);
        status = status == CAIRO_STATUS_SUCCESS ? lib.cairo_status(cr) : status;
        lib.cairo_destroy(cr);
    }
    lib.cairo_surface_finish(surface);
    lib.cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS || failed(d, "Cairo could not draw the picture (no memory?)");
}

/* ---- pixels -------------------------------------------------------------------------------------- */

struct canvas {
    cairo_surface_t *surface;
    cairo_t *cr;
    int w, h;
};

struct canvas *canvas_new(int w, int h)
{
    if (!load() || w <= 0 || h <= 0 || w > 16384 || h > 16384)
        return NULL;
    struct canvas *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->w = w;
    c->h = h;
    c->surface = lib.cairo_image_surface_create(CAIRO_FORMAT_RGB24, w, h);
    c->cr = lib.cairo_create(c->surface);
    if (lib.cairo_status(c->cr) == CAIRO_STATUS_SUCCESS)
        return c;
    canvas_free(c);
    return NULL;
}

void canvas_free(struct canvas *c)
{
    if (!c)
        return;
    lib.cairo_destroy(c->cr);
    lib.cairo_surface_destroy(c->surface);
    free(c);
}

uint32_t *canvas_pixels(struct canvas *c, int *stride_bytes)
{
    lib.cairo_surface_flush(c->surface);
    *stride_bytes = lib.cairo_image_surface_get_stride(c->surface);
    return (uint32_t *)(void *)lib.cairo_image_surface_get_data(c->surface);
}

void canvas_scene(struct canvas *c, const struct scene *s, const struct camera *cam, bool dark, int x, int y, int w,
                  int h)
{
    struct painter p = { .cr = c->cr, .cam = *cam, .dark = dark, .raster = true };
    p.x0 = cam->x + (x - cam->left) / cam->scale;
    p.y0 = cam->y + (y - cam->top) / cam->scale;
    p.x1 = p.x0 + w / cam->scale;
    p.y1 = p.y0 + h / cam->scale;
    lib.cairo_save(c->cr);
    lib.cairo_rectangle(c->cr, x, y, w, h);
    lib.cairo_clip(c->cr);
    source(&p, paint(&p, PAINT_GROUND));
    lib.cairo_paint(c->cr);
    paint_scene(&p, s);
    painter_end(&p);
    lib.cairo_restore(c->cr);
}

void canvas_scroll(struct canvas *c, int x, int y, int w, int h, int dx, int dy)
{
    int stride, cw = w - abs(dx), ch = h - abs(dy);
    if (cw <= 0 || ch <= 0)
        return;
    char *pixel = (char *)canvas_pixels(c, &stride);
    int fx = x + (dx < 0 ? -dx : 0), fy = y + (dy < 0 ? -dy : 0);
    for (int k = 0; k < ch; k++) {
        int row = dy > 0 ? ch - 1 - k : k;
        memmove(pixel + (ptrdiff_t)(fy + row + dy) * stride + 4 * (fx + dx),
                pixel + (ptrdiff_t)(fy + row) * stride + 4 * fx, 4 * (size_t)cw);
    }
    lib.cairo_surface_mark_dirty(c->surface);
}

void canvas_fill(struct canvas *c, double x, double y, double w, double h, uint32_t rgb, double alpha)
{
    lib.cairo_set_source_rgba(c->cr, (rgb >> 16 & 0xff) / 255.0, (rgb >> 8 & 0xff) / 255.0, (rgb & 0xff) / 255.0,
                              alpha);
    lib.cairo_rectangle(c->cr, x, y, w, h);
    lib.cairo_fill(c->cr);
}

void canvas_outline(struct canvas *c, double x, double y, double w, double h, double thick, uint32_t rgb)
{
    struct painter p = { .cr = c->cr };
    source(&p, rgb);
    lib.cairo_set_dash(c->cr, NULL, 0, 0);
    lib.cairo_set_line_width(c->cr, thick);
    lib.cairo_rectangle(c->cr, x + thick / 2, y + thick / 2, w - thick, h - thick);
    lib.cairo_stroke(c->cr);
}

void canvas_text(struct canvas *c, double x, double y, double size, bool bold, uint32_t rgb, const char *text)
{
    char room[2048];
    struct painter p = { .cr = c->cr, .raster = true };
    set_font(&p, size, bold);
    source(&p, rgb);
    lib.cairo_move_to(c->cr, x, y + 0.92 * size);
    lib.cairo_show_text(c->cr, safe(text, room, sizeof room));
}

#else /* built without Cairo's headers */

bool cairo_ready(struct diag *d)
{
    const char *before = diag_stage(d, "limit");
    diag_error(d, NULL, (struct span){ 0 }, "this gspmd was built without Cairo: no PNG, no PDF, no window");
    diag_hint(d, "SVG and text need nothing: -o FILE.svg, -o FILE.txt");
    diag_stage(d, before);
    return false;
}

bool scene_png(const struct scene *s, const struct paint_options *o, struct str *out, struct diag *d)
{
    (void)s, (void)o, (void)out;
    return cairo_ready(d);
}

bool scene_pdf(const struct scene *const *pages, int n, const struct paint_options *o, struct str *out,
               struct diag *d)
{
    (void)pages, (void)n, (void)o, (void)out;
    return cairo_ready(d);
}

struct canvas *canvas_new(int w, int h)
{
    (void)w, (void)h;
    return NULL;
}

void canvas_free(struct canvas *c)
{
    (void)c;
}

uint32_t *canvas_pixels(struct canvas *c, int *stride_bytes)
{
    (void)c;
    *stride_bytes = 0;
    return NULL;
}

void canvas_scene(struct canvas *c, const struct scene *s, const struct camera *cam, bool dark, int x, int y, int w,
                  int h)
{
    (void)c, (void)s, (void)cam, (void)dark, (void)x, (void)y, (void)w, (void)h;
}

void canvas_scroll(struct canvas *c, int x, int y, int w, int h, int dx, int dy)
{
    (void)c, (void)x, (void)y, (void)w, (void)h, (void)dx, (void)dy;
}

void canvas_fill(struct canvas *c, double x, double y, double w, double h, uint32_t rgb, double alpha)
{
    (void)c, (void)x, (void)y, (void)w, (void)h, (void)rgb, (void)alpha;
}

void canvas_outline(struct canvas *c, double x, double y, double w, double h, double thick, uint32_t rgb)
{
    (void)c, (void)x, (void)y, (void)w, (void)h, (void)thick, (void)rgb;
}

void canvas_text(struct canvas *c, double x, double y, double size, bool bold, uint32_t rgb, const char *text)
{
    (void)c, (void)x, (void)y, (void)size, (void)bold, (void)rgb, (void)text;
}

#endif
