/* The SVG backend: text stays text, one group a role, every tile with a title that a pointer shows.
 * Same scene, same bytes. */
#include <string.h>

#include "base/map.h"
#include "viz/palette.h"
#include "viz/scene.h"

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

/* Stripes by the holders' colours: one pattern for each list of colours that a tile of the scene has. */
static void stripes_id(const struct scene_item *it, struct str *out)
{
    str_adds(out, "copies");
    for (int k = 0; k < (it->nowners > 0 ? it->nowners : 1); k++) {
        int64_t owner = it->nowners > 0 ? it->owners[k] : it->device;
        str_addf(out, "%s%d", k ? "-" : "", (int)(owner % (DEVICE_COLORS * DEVICE_TINTS)));
    }
}

static bool has_stripes(const struct scene_item *it)
{
    return it->kind == SCENE_BOX && it->state & STATE_REPLICATED && it->device >= 0 && it->role != ROLE_FRAME &&
           !(it->state & STATE_PADDING);
}

static void stripes(const struct scene_item *it, bool dark, struct str *out)
{
    int n = it->nowners > 1 ? it->nowners : 2;
    str_adds(out, "<pattern id=\"");
    stripes_id(it, out);
    str_addf(out,
             "\" width=\"%d\" height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
             "<rect width=\"%d\" height=\"8\" fill=\"#%06x\"/>",
             5 * n, 5 * n, palette_paint(PAINT_EMPTY, dark));
    for (int k = 0; k < (it->nowners > 0 ? it->nowners : 1); k++)
        str_addf(out, "<rect x=\"%d\" width=\"5\" height=\"8\" fill=\"#%06x\"/>", 5 * k,
                 palette_device(it->nowners > 0 ? it->owners[k] : it->device));
    str_adds(out, "</pattern>\n");
}

static void defs(const struct scene *s, bool dark, struct str *out)
{
    uint32_t hatch = palette_paint(PAINT_HATCH, dark);
    str_addf(out,
             "<defs>\n"
             "<pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
             "<rect width=\"6\" height=\"6\" fill=\"#%06x\"/>"
             "<path d=\"M0 0L6 6M6 0L0 6\" stroke=\"#%06x\" stroke-width=\"0.8\"/></pattern>\n"
             "<pattern id=\"sum\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
             "<path d=\"M0 3H6\" stroke=\"#111\" stroke-width=\"0.8\"/></pattern>\n",
             palette_paint(PAINT_PAD, dark), hatch);
    struct intern met;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    intern_init(&met, &tmp);
    uint32_t n = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (!has_stripes(it))
            continue;
        struct str id = STR_IN(&tmp);
        stripes_id(it, &id);
        uint32_t k = intern_put(&met, str_text(&id), id.n);
        if (k > n)
            stripes(it, dark, out);
        n = k > n ? k : n;
    }
    arena_close(&tmp);
    str_adds(out, "</defs>\n");
}

static uint32_t inside(const struct scene_item *it, bool dark)
{
    if (it->role == ROLE_CLUSTER)
        return palette_paint(PAINT_PANEL, dark);
    if (it->role == ROLE_AXIS)
        return palette_axis_on(it->axis, dark);
    if (it->role == ROLE_NODE && it->axis >= 0)
        return palette_mix(palette_axis(it->axis), palette_paint(PAINT_GROUND, dark), 70);
    if (it->role == ROLE_MOVE)
        return palette_mix(palette_paint(PAINT_MOVE, dark), palette_paint(PAINT_GROUND, dark), it->rounded ? 30 : 110);
    if (it->role == ROLE_FRAME || it->role == ROLE_NODE || it->device < 0)
        return palette_paint(PAINT_EMPTY, dark);
    return palette_device(scene_color(it));
}

static void paint(const struct scene_item *it, bool dark, struct str *out)
{
    if (it->state & STATE_PADDING) {
        str_adds(out, " fill=\"url(#pad)\"");
    } else if (has_stripes(it)) {
        str_adds(out, " fill=\"url(#");
        stripes_id(it, out);
        str_adds(out, ")\"");
    } else {
        str_addf(out, " fill=\"#%06x\"", inside(it, dark));
    }
    bool strong = it->state & (STATE_CHANGED | STATE_HELD | STATE_CHOSEN);
    if (it->role != ROLE_AXIS)
        str_addf(out, " stroke=\"#%06x\" stroke-width=\"%s\"",
                 palette_paint(it->role == ROLE_MOVE ? PAINT_MOVE : strong ? PAINT_STRONG : PAINT_LINE, dark),
                 strong ? "2.5" : "0.8");
    if (it->rounded)
        str_adds(out, " rx=\"4\"");
    if (it->state & STATE_MANUAL)
        str_adds(out, " stroke-dasharray=\"1 2\"");
    else if (it->role == ROLE_FRAME || it->state & STATE_OPEN)
        str_adds(out, " stroke-dasharray=\"4 3\"");
}

static void label(double x, double y, double size, const char *anchor, bool bold, uint32_t rgb,
                  const char *text, struct str *out)
{
    str_adds(out, "<text");
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "font-size", size * SCENE_FACE);
    if (strcmp(anchor, "start") != 0)
        str_addf(out, " text-anchor=\"%s\"", anchor);
    if (bold)
        str_adds(out, " font-weight=\"bold\"");
    str_addf(out, " fill=\"#%06x\"", rgb);
    str_adds(out, ">");
    escaped(out, text);
    str_adds(out, "</text>\n");
}

static void rectangle(const struct scene_item *it, struct str *out)
{
    str_adds(out, "<rect");
    attribute(out, "x", it->x);
    attribute(out, "y", it->y);
    attribute(out, "width", it->w);
    attribute(out, "height", it->h);
}

static void box(const struct scene_item *it, bool dark, struct str *out)
{
    const char *hint = scene_hint(it, out->arena);
    rectangle(it, out);
    paint(it, dark, out);
    if (hint[0]) {
        str_adds(out, "><title>");
        escaped(out, hint);
        str_adds(out, "</title></rect>\n");
    } else {
        str_adds(out, "/>\n");
    }
    if (it->state & STATE_PARTIAL) {
        rectangle(it, out);
        str_adds(out, " fill=\"url(#sum)\"/>\n");
    }
}

static void point(double x, double y, char before, struct str *out)
{
    str_addc(out, before);
    number(out, x);
    str_addc(out, ' ');
    number(out, y);
}

static uint32_t line_color(const struct scene_item *it, bool dark)
{
    if (it->role == ROLE_MOVE)
        return palette_paint(PAINT_MOVE, dark);
    if (it->device >= 0)
        return palette_device(it->device);
    if (it->axis >= 0)
        return palette_axis_on(it->axis, dark);
    return palette_paint(it->role == ROLE_HIGHLIGHT ? PAINT_STRONG : PAINT_LINE, dark);
}

static void arrow_head(double x, double y, double dx, double dy, double size, uint32_t rgb, struct str *out)
{
    double n = dx * dx + dy * dy, r = 1;
    if (n < 1e-12)
        return;
    for (int k = 0; k < 60; k++) /* Newton's square root: no libm, same bytes everywhere */
        r = (r + n / r) / 2;
    dx *= size / r;
    dy *= size / r;
    str_adds(out, "<path d=\"");
    point(x, y, 'M', out);
    point(x - dx - dy * 0.4, y - dy + dx * 0.4, 'L', out);
    point(x - dx + dy * 0.4, y - dy - dx * 0.4, 'L', out);
    str_addf(out, "Z\" fill=\"#%06x\"/>\n", rgb);
}

static void path(const struct scene_item *it, bool dark, struct str *out)
{
    double ends[4] = { it->x, it->y, it->x + it->w, it->y + it->h };
    const double *v = it->kind == SCENE_PATH ? it->points : ends;
    int n = it->kind == SCENE_PATH ? it->npoints : 2;
    uint32_t rgb = line_color(it, dark);
    double thick = it->thick > 0 ? it->thick : 1.5;
    if (n < 2)
        return;
    str_adds(out, "<path d=\"");
    point(v[0], v[1], 'M', out);
    for (int k = 1; k < n; k++)
        point(v[2 * k], v[2 * k + 1], !it->curve ? 'L' : k % 3 == 1 ? 'C' : ' ', out);
    str_addf(out, "\" stroke=\"#%06x\"", rgb);
    attribute(out, "stroke-width", thick);
    if (it->dashed)
        str_adds(out, " stroke-dasharray=\"3 2\"");
    if (it->hint) {
        str_adds(out, " fill=\"none\"><title>");
        escaped(out, it->hint);
        str_adds(out, "</title></path>\n");
    } else {
        str_adds(out, " fill=\"none\"/>\n");
    }
    if (it->arrow)
        arrow_head(v[2 * n - 2], v[2 * n - 1], v[2 * n - 2] - v[2 * n - 4], v[2 * n - 1] - v[2 * n - 3],
                   thick * 2.2 > 6 ? thick * 2.2 : 6, rgb, out);
}

static void text_item(const struct scene_item *it, bool dark, struct str *out)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    bool faint = it->role == ROLE_RULER || it->role == ROLE_LEGEND;
    uint32_t rgb = it->axis >= 0           ? palette_axis_on(it->axis, dark)
                   : it->role == ROLE_MOVE ? palette_paint(PAINT_MOVE, dark)
                   : it->role == ROLE_TILE ? palette_paint(PAINT_ON_TILE, dark)
                                           : palette_paint(faint ? PAINT_FAINT : PAINT_INK, dark);
    label(it->x, scene_text_rect(it).y + 0.92 * it->size, it->size, anchors[it->align], it->bold, rgb, it->text, out);
}

static void box_label(const struct scene_item *it, bool dark, struct str *out)
{
    struct scene_rect r;
    if (!scene_label_rect(it, &r))
        return;
    bool off = it->role == ROLE_TILE && it->state & (STATE_REPLICATED | STATE_PADDING | STATE_PARTIAL);
    bool on_tile = it->role == ROLE_TILE && (it->device >= 0 || it->state & STATE_PADDING);
    if (off) { /* legible on stripes and hatches */
        struct scene_item ground = { .x = r.x - 2, .y = r.y, .w = r.w + 4, .h = r.h };
        rectangle(&ground, out);
        str_adds(out, " fill=\"#ffffff\"/>\n");
    }
    label(r.x + r.w / 2, r.y + 0.92 * it->size, it->size, "middle",
          it->role == ROLE_TILE && it->state & (STATE_CHANGED | STATE_HELD),
          palette_paint(on_tile ? PAINT_ON_TILE : PAINT_INK, dark), it->text, out);
}

void scene_svg(const struct scene *s, struct str *out)
{
    scene_svg_theme(s, false, out);
}

void scene_svg_theme(const struct scene *s, bool dark, struct str *out)
{
    double w = s->width + 2 * SCENE_MARGIN, h = s->height + 2 * SCENE_MARGIN;
    str_adds(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    attribute(out, "width", w * 1.5);
    attribute(out, "height", h * 1.5);
    str_adds(out, " viewBox=\"");
    number(out, -SCENE_MARGIN);
    str_addc(out, ' ');
    number(out, -SCENE_MARGIN);
    str_addc(out, ' ');
    number(out, w);
    str_addc(out, ' ');
    number(out, h);
    /* textLength would keep the width in every face; a list of faces of one width does it, too */
    str_adds(out, "\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" xml:space=\"preserve\">\n<title>");
    escaped(out, s->title);
    str_adds(out, "</title>\n");
    defs(s, dark, out);
    str_adds(out, "<rect");
    attribute(out, "x", -SCENE_MARGIN);
    attribute(out, "y", -SCENE_MARGIN);
    attribute(out, "width", w);
    attribute(out, "height", h);
    str_addf(out, " fill=\"#%06x\"/>\n", palette_paint(PAINT_GROUND, dark));
    for (int64_t i = 0; i < s->items.n; i++)
        if (s->items.v[i].kind == SCENE_BOX)
            box(&s->items.v[i], dark, out);
    for (int64_t i = 0; i < s->items.n; i++)
        if (s->items.v[i].kind == SCENE_LINE || s->items.v[i].kind == SCENE_PATH)
            path(&s->items.v[i], dark, out);
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_TEXT)
            text_item(it, dark, out);
        else if (it->kind == SCENE_BOX)
            box_label(it, dark, out);
    }
    str_adds(out, "</svg>\n");
}
