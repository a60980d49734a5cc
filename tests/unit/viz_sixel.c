/* Sixels, read back by a decoder of our own: the pixels are those of the picture, as near as the palette allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viz/sixel.h"

static struct arena arena;

struct decoded {
    int w, h;
    uint32_t *pixels;
};

static uint32_t percent(int r, int g, int b)
{
    return (uint32_t)(r * 255 / 100) << 16 | (uint32_t)(g * 255 / 100) << 8 | (uint32_t)(b * 255 / 100);
}

static void set_column(struct decoded *d, int x, int y, int bits, uint32_t rgb)
{
    for (int k = 0; k < 6; k++) {
        if (!(bits >> k & 1))
            continue;
        assert_in_range(x, 0, d->w - 1);
        assert_in_range(y + k, 0, d->h - 1);
        d->pixels[(y + k) * d->w + x] = rgb;
    }
}

/* Fails the test where the text is no picture of sixels. */
static struct decoded decode(const char *text)
{
    struct decoded d = { 0 };
    uint32_t palette[256] = { 0 }, color = 0;
    int x = 0, y = 0, used = 0, v[5];
    assert_int_equal(sscanf(text, "\033P0;1;0q\"1;1;%d;%d%n", &d.w, &d.h, &used), 2);
    d.pixels = ARENA_ARRAY(&arena, uint32_t, (int64_t)d.w * d.h);
    for (int i = 0; i < d.w * d.h; i++)
        d.pixels[i] = 0xff000000u; /* nobody has painted it */
    const char *p = text + used;
    while (*p && *p != '\033') {
        if (*p == '#') {
            if (sscanf(p, "#%d;%d;%d;%d;%d%n", &v[0], &v[1], &v[2], &v[3], &v[4], &used) == 5) {
                assert_int_equal(v[1], 2);
                assert_in_range(v[0], 0, 255);
                palette[v[0]] = percent(v[2], v[3], v[4]);
            } else {
                assert_int_equal(sscanf(p, "#%d%n", &v[0], &used), 1);
                color = palette[v[0]];
            }
            p += used;
        } else if (*p == '!') {
            char c;
            assert_int_equal(sscanf(p, "!%d%c%n", &v[0], &c, &used), 2);
            for (int k = 0; k < v[0]; k++)
                set_column(&d, x++, y, c - 63, color);
            p += used;
        } else if (*p == '$') {
            x = 0;
            p++;
        } else if (*p == '-') {
            x = 0;
            y += 6;
            p++;
        } else {
            assert_in_range(*p, 63, 126);
            set_column(&d, x++, y, *p++ - 63, color);
        }
    }
    assert_string_equal(p, "\033\\");
    return d;
}

static int channel_distance(uint32_t a, uint32_t b)
{
    int most = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        int d = abs((int)(a >> shift & 255) - (int)(b >> shift & 255));
        most = d > most ? d : most;
    }
    return most;
}

/* The largest distance of a channel, over all pixels. */
static int worst(const uint32_t *pixels, int w, int h, int stride_pixels)
{
    struct str s = STR_IN(&arena);
    sixel_write(pixels, w, h, stride_pixels * 4, &arena, &s);
    struct decoded d = decode(str_text(&s));
    int most = 0;
    assert_int_equal(d.w, w);
    assert_int_equal(d.h, h);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            assert_true(d.pixels[y * w + x] != 0xff000000u);
            int far = channel_distance(d.pixels[y * w + x], pixels[y * stride_pixels + x]);
            most = far > most ? far : most;
        }
    return most;
}

static void few_colours_are_kept(void **state)
{
    (void)state;
    static const uint32_t colors[7] = { 0xffffff, 0, 0x56b4e9, 0xe69f00, 0x009e73, 0xd55e00, 0x16191d };
    uint32_t pixels[32 * 45];
    uint64_t seed = 7;
    /* every width and height around the bands' borders; lines longer than the picture; runs and noise */
    for (int w = 1; w <= 32; w += 7)
        for (int h = 1; h <= 14; h++) {
            for (int k = 0; k < 32 * h; k++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                pixels[k] = seed >> 61 ? pixels[k > 0 ? k - 1 : 0] % 0x1000000 : colors[(seed >> 33) % 7];
            }
            pixels[0] = colors[h % 7];
            assert_in_range(worst(pixels, w, h, 32), 0, 8);
        }
}

static void many_colours_become_near_ones(void **state)
{
    (void)state;
    enum { W = 64, H = 64 };
    static uint32_t pixels[W * H];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            pixels[y * W + x] = (uint32_t)(x * 4) << 16 | (uint32_t)(y * 4) << 8 | (uint32_t)((x + y) * 2);
    assert_in_range(worst(pixels, W, H, W), 9, 64); /* more than a thousand colours on 255 */
}

static void the_same_bytes_each_time(void **state)
{
    (void)state;
    uint32_t pixels[256];
    struct str a = STR_IN(&arena), b = STR_IN(&arena);
    for (uint32_t k = 0; k < 256; k++)
        pixels[k] = k * 0x010305;
    sixel_write(pixels, 16, 16, 64, &arena, &a);
    sixel_write(pixels, 16, 16, 64, &arena, &b);
    assert_string_equal(str_text(&a), str_text(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_colours_are_kept),
        cmocka_unit_test(many_colours_become_near_ones),
        cmocka_unit_test(the_same_bytes_each_time),
    };
    int failed = cmocka_run_group_tests_name("viz_sixel", tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
