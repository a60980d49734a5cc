/* PNG and PDF: a pixel of each rectangle, off its label, has its device's colour. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "viz/cairo.h"
#include "viz/palette.h"
#include "viz/views.h"

static struct ir *ir;
static struct arena arena;

static bool no_cairo(void)
{
    struct diag *d = diag_new();
    bool ready = cairo_ready(d);
    if (!ready)
        assert_int_equal(d->nerrors, 1); /* one sentence */
    diag_free(d);
    return !ready;
}

/* ---- PNG, read back with zlib alone --------------------------------------------------------------- */

struct picture {
    uint32_t w, h;
    uint8_t *rgb;
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int paeth(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

static struct picture read_png(const struct str *s)
{
    const uint8_t *p = (const uint8_t *)s->s + 8, *end = (const uint8_t *)s->s + s->n;
    struct picture out = { 0 };
    struct str data = STR_IN(&arena);
    assert_memory_equal(s->s, "\x89PNG\r\n\x1a\n", 8);
    while (p + 8 <= end) {
        uint32_t n = be32(p);
        if (!memcmp(p + 4, "IHDR", 4)) {
            out.w = be32(p + 8);
            out.h = be32(p + 12);
            assert_int_equal(p[16], 8); /* bits a channel */
            assert_int_equal(p[17], 2); /* RGB */
        } else if (!memcmp(p + 4, "IDAT", 4)) {
            str_add(&data, (const char *)p + 8, n);
        }
        p += 12 + n;
    }
    uLongf size = (uLongf)out.h * (3 * (uLongf)out.w + 1);
    uint8_t *raw = ARENA_ARRAY(&arena, uint8_t, (int64_t)size);
    assert_int_equal(uncompress(raw, &size, (const Bytef *)data.s, (uLong)data.n), Z_OK);
    out.rgb = ARENA_ARRAY(&arena, uint8_t, 3 * (int64_t)out.w * out.h);
    size_t row = 3 * (size_t)out.w;
    for (uint32_t y = 0; y < out.h; y++) {
        const uint8_t *in = raw + y * (row + 1);
        uint8_t *to = out.rgb + y * row;
        for (size_t x = 0; x < row; x++) {
            int a = x >= 3 ? to[x - 3] : 0, b = y ? to[x - row] : 0, c = x >= 3 && y ? to[x - row - 3] : 0;
            int add = in[0] == 1 ? a : in[0] == 2 ? b : in[0] == 3 ? (a + b) / 2 : in[0] == 4 ? paeth(a, b, c) : 0;
            to[x] = (uint8_t)(in[x + 1] + add);
        }
    }
    return out;
}

static uint32_t pixel(const struct picture *p, int x, int y)
{
    assert_in_range(x, 0, p->w - 1);
    assert_in_range(y, 0, p->h - 1);
    const uint8_t *at = p->rgb + 3 * ((size_t)y * p->w + (size_t)x);
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* A label or another box drawn later may lie on a place: then it says nothing of this box. */
static bool is_covered(const struct scene *s, int64_t i, double x, double y)
{
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        struct scene_rect r = { it->x, it->y, it->w, it->h };
        if (it->kind == SCENE_TEXT)
            r = scene_text_rect(it);
        else if (it->kind != SCENE_BOX || (k <= i && !scene_label_rect(it, &r)))
            continue;
        if (x > r.x - 3 && y > r.y && x < r.x + r.w + 3 && y < r.y + r.h)
            return true;
    }
    return false;
}

/* A place of box i with its first owner's colour, off the labels: the first owner's stripe runs through the
 * middle, from the lower left to the upper right, and level lines leave the middle's height free. */
static bool find_place(const struct scene *s, int64_t i, double *x, double *y)
{
    const struct scene_item *it = &s->items.v[i];
    double mid_x = it->x + it->w / 2, mid_y = it->y + it->h / 2;
    bool level = it->state & STATE_PARTIAL;
    for (int k = 44; k >= -44; k -= 4) {
        double d = (level ? it->w : it->h < it->w ? it->h : it->w) * k / 100;
        *x = mid_x + d;
        *y = mid_y - (level ? 0 : d);
        if (!is_covered(s, i, *x, *y))
            return true;
    }
    return false;
}

static int check_pixels(const struct scene *s, double scale, bool dark)
{
    struct str png = STR_IN(&arena);
    struct paint_options o = { .scale = scale, .dark = dark };
    assert_true(scene_png(s, &o, &png, NULL));
    struct picture p = read_png(&png);
    assert_int_equal(p.w, ceil((s->width + 2 * SCENE_MARGIN) * scale));
    assert_int_equal(pixel(&p, 0, 0), palette_paint(PAINT_GROUND, dark));
    int checked = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        double x, y;
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->state & STATE_PADDING || !find_place(s, i, &x, &y))
            continue;
        int px = (int)floor((x + SCENE_MARGIN) * scale), py = (int)floor((y + SCENE_MARGIN) * scale);
        uint32_t want = palette_device(scene_color(it)), got = pixel(&p, px, py);
        if (got != want)
            fail_msg("device %" PRId64 ": pixel %d,%d is %06x, not %06x", it->device, px, py, got, want);
        checked++;
    }
    return checked;
}

static sharding_id parse(const char *text)
{
    struct source src = { "test", text, strlen(text) };
    sharding_id s;
    size_t used;
    assert_true(sharding_parse(ir->shardings, &arena, &src, 0, text, src.len, &used, &s, NULL, NULL));
    return s;
}

static const struct {
    const char *sharding;
    int rank;
    int64_t dims[4];
} cases[] = {
    { "{devices=[2,4]<=[8]}", 2, { 8, 16 } },
    { "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, { 8, 16 } },
    { "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", 2, { 8, 17 } },
    { "{devices=[8]<=[8]}", 1, { 17 } },
    { "{devices=[2,2,2]<=[8]}", 3, { 7, 4, 6 } },
    { "{devices=[2,2,2,2]<=[16]}", 4, { 4, 4, 6, 8 } },
    { "{devices=[1024,1024]<=[1048576]}", 2, { 1 << 20, 1 << 20 } },
    { "{replicated}", 2, { 8, 8 } },
};

static void each_rectangle_has_its_devices_colour(void **state)
{
    (void)state;
    if (no_cairo())
        skip();
    int n = 0;
    for (size_t k = 0; k < COUNTOF(cases); k++)
        for (int how = 0; how < 6; how++) {
            struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .ndevices = 8, .width = 900 };
            o.partial = how == 3;
            o.device_view = how == 4;
            o.device = 3;
            struct scene *s = view_layout(ir, NULL, "x", shape_array(ir, DTYPE_F32, cases[k].rank, cases[k].dims),
                                          parse(cases[k].sharding), &o, &arena);
            n += check_pixels(s, how == 1 ? 1 : how == 2 ? 3 : 1.5, how == 5);
        }
    print_message("%d pixels\n", n);
    assert_true(n > 200);
}

static void mesh_cells_have_theirs(void **state)
{
    (void)state;
    if (no_cairo())
        skip();
    const char *text = "data=4 model=4 order=[4,4]T(1,0)";
    struct source src = { "test", text, strlen(text) };
    struct mesh m;
    assert_true(mesh_parse(ir->shardings, &arena, &src, 0, text, src.len, &m, NULL));
    struct mesh_options o = { .highlight = -1, .torus = true, .order = true, .group = -1, .pairs_axis = -1 };
    assert_int_equal(check_pixels(view_mesh_full(ir, &m, &o, &arena), 1.5, false), 16);
    int64_t dims[2] = { 4, 4 };
    struct tiling groups = tiling_make(ir->shardings, 2, dims, order_iota(ir->shardings, 16));
    o.groups = &groups;
    assert_int_equal(check_pixels(view_mesh_full(ir, &m, &o, &arena), 1.5, false), 16);
}

static void pdf_is_written_and_the_same_each_time(void **state)
{
    (void)state;
    if (no_cairo())
        skip();
    struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .ndevices = 8 };
    const struct scene *pages[2];
    for (int k = 0; k < 2; k++)
        pages[k] = view_layout(ir, NULL, "x", shape_array(ir, DTYPE_F32, cases[k].rank, cases[k].dims),
                               parse(cases[k].sharding), &o, &arena);
    struct str a = STR_IN(&arena), b = STR_IN(&arena);
    struct paint_options paint = { .dark = false };
    assert_true(scene_pdf(pages, 2, &paint, &a, NULL));
    assert_true(scene_pdf(pages, 2, &paint, &b, NULL));
    assert_memory_equal(a.s, "%PDF-", 5);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.s, b.s, a.n);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    if (no_cairo())
        skip();
    struct scene *s = scene_new(&arena);
    s->width = 1e6;
    s->height = 1e6;
    struct str out = STR_IN(&arena);
    struct diag *d = diag_new();
    struct paint_options o = { .dark = false };
    assert_false(scene_png(s, &o, &out, d));
    assert_int_equal(d->nerrors, 1);
    diag_free(d);
}

/* What was scrolled and painted at the edge is what would have been painted there at once. */
static void a_panned_canvas_is_one_painted_anew(void **state)
{
    (void)state;
    if (no_cairo())
        skip();
    struct layout_options o = { .rows_dim = -1, .cols_dim = -1, .ndevices = 64, .max_tiles = 64 };
    struct scene *s = view_layout(ir, NULL, "x", shape_array(ir, DTYPE_F32, 2, (int64_t[]){ 64, 64 }),
                                  parse("{devices=[8,8]<=[64]}"), &o, &arena);
    enum { W = 300, H = 200 };
    struct canvas *one = canvas_new(W, H), *two = canvas_new(W, H);
    struct camera cam = { .x = 20, .y = 20, .scale = 2 };
    canvas_scene(one, s, &cam, false, 0, 0, W, H);
    int dx = -40, dy = 30;
    cam.x -= dx / cam.scale;
    cam.y -= dy / cam.scale;
    canvas_scroll(one, 0, 0, W, H, dx, dy);
    canvas_scene(one, s, &cam, false, W + dx, 0, -dx, H);
    canvas_scene(one, s, &cam, false, 0, 0, W, dy);
    canvas_scene(two, s, &cam, false, 0, 0, W, H);
    int sa, sb, differ = 0;
    const uint32_t *a = canvas_pixels(one, &sa), *b = canvas_pixels(two, &sb);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            differ += (a[y * sa / 4 + x] ^ b[y * sb / 4 + x]) & 0xffffff ? 1 : 0;
    canvas_free(one);
    canvas_free(two);
    /* where a letter is cut in two its halves may be smoothed otherwise */
    assert_in_range(differ, 0, W * H / 200);
}

static int set_up(void **state)
{
    (void)state;
    ir = ir_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ir_free(ir);
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rectangle_has_its_devices_colour),
        cmocka_unit_test(mesh_cells_have_theirs),
        cmocka_unit_test(pdf_is_written_and_the_same_each_time),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(a_panned_canvas_is_one_painted_anew),
    };
    return cmocka_run_group_tests_name("viz_cairo", tests, set_up, tear_down);
}
