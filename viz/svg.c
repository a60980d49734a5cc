/* The SVG backend: text stays text, one group a role, every tile with a title that a pointer shows.
 * Same scene, same bytes. */
#include <string.h>

#include "viz/palette.h"
#include "viz/scene.h"

enum { MARGIN = 12 };

static void number(struct str *out, double v)
{
    /* hundredths of a point, without the locale's decimal sign */
    int64_t h = (int64_t)(v * 100 + (v < 0 ? -0.5 : 0.5));
    str_addf(out, "%s%" PRId64, h < 0 ? "-" : "", (h < 0 ? -h : h) / 100);
    int64_t part = (h < 0 ? -h : h) % 100;
    if (part)
        str_addf(out, ".%02d", (int)part);
}

static void attribute(struct str *out, const char *name, double v)
{
    str_addf(out, " %s=\"", name);
    number(out, v);
    str_addc(out, '"');
}

static void escaped(struct str *out, const char *s)
{
    struct str safe = STR_IN(out->arena);
    str_add_safe(&safe, s, strlen(s));
    for (const char *p = str_text(&safe); *p; p++) {
        if (*p == '&')
            str_adds(out, "&amp;");
        else if (*p == '<')
            str_adds(out, "&lt;");
        else if (*p == '>')
            str_adds(out, "&gt;");
        else if (*p == '"')
            str_adds(out, "&quot;");
        else
            str_addc(out, *p);
    }
}

static void defs(const struct scene *s, struct str *out)
{
    str_adds(out, "<defs>\n"
                  "<pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                  "<rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/>"
                  "<path d=\"M0 0L6 6M6 0L0 6\" stroke=\"#888\" stroke-width=\"0.8\"/></pattern>\n"
                  "<pattern id=\"sum\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                  "<rect width=\"6\" height=\"6\" fill=\"#fff\"/>"
                  "<path d=\"M0 3H6\" stroke=\"#555\" stroke-width=\"0.8\"/></pattern>\n");
    /* one stripe pattern a colour that is used by a replicated tile */
    bool done[3 * DEVICE_COLORS] = { false };
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (!(it->state & STATE_REPLICATED) || it->device < 0)
            continue;
        int k = (int)(it->device % (3 * DEVICE_COLORS));
        if (done[k])
            continue;
        done[k] = true;
        str_addf(out,
                 "<pattern id=\"copies%d\" width=\"8\" height=\"8\" "
                 "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
                 "<rect width=\"8\" height=\"8\" fill=\"#fff\"/>"
                 "<rect width=\"5\" height=\"8\" fill=\"#%06x\"/></pattern>\n",
                 k, palette_device(k));
    }
    str_adds(out, "</defs>\n");
}

static void paint(const struct scene_item *it, struct str *out)
{
    if (it->state & STATE_PADDING)
        str_adds(out, " fill=\"url(#pad)\"");
    else if (it->state & STATE_PARTIAL)
        str_adds(out, " fill=\"url(#sum)\"");
    else if (it->role == ROLE_FRAME || it->device < 0)
        str_adds(out, " fill=\"#fff\"");
    else if (it->state & STATE_REPLICATED)
        str_addf(out, " fill=\"url(#copies%d)\"", (int)(it->device % (3 * DEVICE_COLORS)));
    else
        str_addf(out, " fill=\"#%06x\"", palette_device(it->device));
    bool strong = it->state & STATE_CHANGED;
    str_addf(out, " stroke=\"%s\" stroke-width=\"%s\"", strong ? "#000" : "#444",
             strong ? "2.5" : "0.8");
    if (it->role == ROLE_FRAME)
        str_adds(out, " stroke-dasharray=\"2 2\"");
}

static void tile_title(const struct scene_item *it, struct str *out)
{
    struct str s = STR_IN(out->arena);
    str_addf(&s, it->state & STATE_PADDING ? "padding of tile" : "tile");
    for (int d = 0; d < it->ntile; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : " ", it->tile[d]);
    str_adds(&s, ": elements [");
    for (int d = 0; d < it->ntile; d++)
        str_addf(&s, "%s%" PRId64 ":%" PRId64, d ? ", " : "", it->from[d], it->to[d]);
    str_adds(&s, "]");
    if (it->text)
        str_addf(&s, ", devices %s", it->text);
    str_adds(out, "<title>");
    escaped(out, str_text(&s));
    str_adds(out, "</title>");
}

static void label(double x, double y, double size, const char *anchor, bool halo, uint32_t rgb,
                  const char *text, struct str *out)
{
    str_adds(out, "<text");
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "font-size", size);
    if (strcmp(anchor, "start") != 0)
        str_addf(out, " text-anchor=\"%s\"", anchor);
    if (rgb != 0x222222)
        str_addf(out, " fill=\"#%06x\"", rgb);
    if (halo) /* legible on stripes */
        str_adds(out, " paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\"");
    str_adds(out, ">");
    escaped(out, text);
    str_adds(out, "</text>\n");
}

static void box(const struct scene_item *it, struct str *out)
{
    bool tile = it->role == ROLE_TILE;
    str_adds(out, tile ? "<g><rect" : "<rect");
    attribute(out, "x", it->x);
    attribute(out, "y", it->y);
    attribute(out, "width", it->w);
    attribute(out, "height", it->h);
    paint(it, out);
    if (tile) {
        str_addc(out, '>');
        tile_title(it, out);
        str_adds(out, "</rect></g>\n");
    } else {
        str_adds(out, "/>\n");
    }
}

static void text_item(const struct scene_item *it, struct str *out)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    uint32_t rgb = it->axis >= 0 ? palette_axis(it->axis)
                   : it->role == ROLE_RULER || it->role == ROLE_LEGEND ? 0x555555
                                                                       : 0x222222;
    label(it->x, it->y + 0.85 * it->size, it->size, anchors[it->align], false, rgb, it->text, out);
}

void scene_svg(const struct scene *s, struct str *out)
{
    double w = s->width + 2 * MARGIN, h = s->height + 2 * MARGIN;
    str_adds(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    attribute(out, "width", w * 1.5);
    attribute(out, "height", h * 1.5);
    str_adds(out, " viewBox=\"");
    number(out, -MARGIN);
    str_addc(out, ' ');
    number(out, -MARGIN);
    str_addc(out, ' ');
    number(out, w);
    str_addc(out, ' ');
    number(out, h);
    str_adds(out, "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
                  "<title>");
    escaped(out, s->title);
    str_adds(out, "</title>\n");
    defs(s, out);
    str_adds(out, "<rect");
    attribute(out, "x", -MARGIN);
    attribute(out, "y", -MARGIN);
    attribute(out, "width", w);
    attribute(out, "height", h);
    str_adds(out, " fill=\"#fff\"/>\n");
    for (int64_t i = 0; i < s->items.n; i++)
        if (s->items.v[i].kind == SCENE_BOX)
            box(&s->items.v[i], out);
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_LINE) {
            str_adds(out, "<path d=\"M");
            number(out, it->x);
            str_addc(out, ' ');
            number(out, it->y);
            str_addc(out, 'l');
            number(out, it->w);
            str_addc(out, ' ');
            number(out, it->h);
            str_addf(out, "\" stroke=\"#%06x\" stroke-width=\"1.5\" fill=\"none\"/>\n",
                     palette_axis(it->axis));
        }
    }
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_TEXT)
            text_item(it, out);
        else if (it->kind == SCENE_BOX && it->text && it->role != ROLE_LEGEND)
            label(it->x + (it->label_w > 0 ? it->label_w : it->w) / 2,
                  it->y + (it->label_h > 0 ? it->label_h : it->h) / 2 + 0.35 * it->size, it->size, "middle",
                  it->state & STATE_REPLICATED, 0x222222, it->text, out);
    }
    str_adds(out, "</svg>\n");
}
