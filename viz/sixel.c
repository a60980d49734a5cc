/* Sixels: bands of six lines; in each band every colour that occurs there has a line of characters, one a
 * column, whose low six bits say which of the six pixels it has. */
#include "viz/sixel.h"

#include <string.h>

enum { LEVELS = 32, CUBE = LEVELS * LEVELS * LEVELS, BAND = 6 };

struct palette {
    int n;
    int red[SIXEL_COLORS], green[SIXEL_COLORS], blue[SIXEL_COLORS]; /* of LEVELS */
    int16_t *of;                                                    /* [CUBE]; -1: does not occur */
};

/* A colour with LEVELS steps a channel. */
static int bucket(uint32_t rgb)
{
    return (int)((rgb >> 19 & 31) << 10 | (rgb >> 11 & 31) << 5 | (rgb >> 3 & 31));
}

static const uint32_t *line_of(const uint32_t *pixels, int stride_bytes, int y)
{
    return (const uint32_t *)(const void *)((const char *)pixels + (ptrdiff_t)y * stride_bytes);
}

static int nearest(const struct palette *p, int color)
{
    int r = color >> 10, g = color >> 5 & 31, b = color & 31, best = 0, least = 1 << 20;
    for (int k = 0; k < p->n; k++) {
        int dr = p->red[k] - r, dg = p->green[k] - g, db = p->blue[k] - b;
        int far = 3 * dr * dr + 6 * dg * dg + db * db;
        if (far < least) {
            least = far;
            best = k;
        }
    }
    return best;
}

static void take(struct palette *p, int color)
{
    p->red[p->n] = color >> 10;
    p->green[p->n] = color >> 5 & 31;
    p->blue[p->n] = color & 31;
    p->of[color] = (int16_t)p->n++;
}

/* All colours, where they are few; else those that occur most (of equally frequent ones the darker first, so that
 * the choice is always the same), and a coarse cube of 5 x 5 x 5 in which no colour is far from the nearest. */
static void choose_colors(struct palette *p, const int32_t *count, struct arena *a)
{
    bool *taken = ARENA_ARRAY(a, bool, CUBE);
    int distinct = 0;
    for (int c = 0; c < CUBE; c++)
        distinct += count[c] > 0;
    int most = distinct <= SIXEL_COLORS ? distinct : SIXEL_COLORS - 125;
    for (int k = 0; k < most; k++) {
        int best = -1;
        for (int c = 0; c < CUBE; c++)
            if (count[c] > 0 && !taken[c] && (best < 0 || count[c] > count[best]))
                best = c;
        taken[best] = true;
        take(p, best);
    }
    for (int k = 0; k < 125 && distinct > SIXEL_COLORS; k++) {
        static const int steps[5] = { 0, 8, 16, 23, 31 };
        int color = steps[k / 25] << 10 | steps[k / 5 % 5] << 5 | steps[k % 5];
        if (!taken[color])
            take(p, color);
        taken[color] = true;
    }
    for (int c = 0; c < CUBE; c++)
        if (count[c] > 0 && !taken[c])
            p->of[c] = (int16_t)nearest(p, c);
}

static void add_run(struct str *out, int n, int bits)
{
    char c = (char)(63 + bits);
    if (n > 3) {
        str_addf(out, "!%d%c", n, c);
        return;
    }
    while (n-- > 0)
        str_addc(out, c);
}

static void add_band(const uint8_t *index, int w, int lines, const struct palette *p, struct str *out)
{
    bool seen[SIXEL_COLORS] = { false };
    for (int i = 0; i < w * lines; i++)
        seen[index[i]] = true;
    for (int k = 0, first = 1; k < p->n; k++) {
        if (!seen[k])
            continue;
        str_addf(out, "%s#%d", first ? "" : "$", k);
        first = 0;
        int run = 0, was = 0;
        for (int x = 0; x < w; x++) {
            int bits = 0;
            for (int y = 0; y < lines; y++)
                bits |= (index[y * w + x] == k) << y;
            if (run > 0 && bits != was) {
                add_run(out, run, was);
                run = 0;
            }
            was = bits;
            run++;
        }
        if (was) /* nothing to the right of the last pixel */
            add_run(out, run, was);
    }
    str_addc(out, '-');
}

void sixel_write(const uint32_t *pixels, int w, int h, int stride_bytes, struct arena *a, struct str *out)
{
    struct palette p = { .of = ARENA_ARRAY(a, int16_t, CUBE) };
    int32_t *count = ARENA_ARRAY(a, int32_t, CUBE);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            count[bucket(line_of(pixels, stride_bytes, y)[x])]++;
    choose_colors(&p, count, a);
    str_addf(out, "\033P0;1;0q\"1;1;%d;%d", w, h);
    for (int k = 0; k < p.n; k++)
        str_addf(out, "#%d;2;%d;%d;%d", k, p.red[k] * 100 / (LEVELS - 1), p.green[k] * 100 / (LEVELS - 1),
                 p.blue[k] * 100 / (LEVELS - 1));
    uint8_t *band = ARENA_ARRAY(a, uint8_t, (int64_t)w * BAND + 1);
    for (int top = 0; top < h; top += BAND) {
        int lines = h - top < BAND ? h - top : BAND;
        for (int y = 0; y < lines; y++)
            for (int x = 0; x < w; x++)
                band[y * w + x] = (uint8_t)p.of[bucket(line_of(pixels, stride_bytes, top + y)[x])];
        add_band(band, w, lines, &p, out);
    }
    str_adds(out, "\033\\");
}
