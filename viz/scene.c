#include "viz/scene.h"

#include <stdio.h>
#include <string.h>

struct scene *scene_new(struct arena *a)
{
    struct scene *s = ARENA_NEW(a, struct scene);
    s->arena = a;
    s->title = "";
    return s;
}

struct scene_item *scene_add(struct scene *s, enum scene_kind kind, enum scene_role role)
{
    struct scene_item item = { .kind = kind, .role = role, .device = -1, .axis = -1, .size = 10 };
    vec_push(s->arena, &s->items, item);
    return &s->items.v[s->items.n - 1];
}

struct scene_item *scene_put_text(struct scene *s, enum scene_role role, double x, double y, enum scene_align align,
                                  const char *text)
{
    struct scene_item *t = scene_add(s, SCENE_TEXT, role);
    t->x = x;
    t->y = y;
    t->align = align;
    t->text = text;
    return t;
}

enum { SHOWN_USUALLY = 8, SHOWN_AT_LEAST = 3, SHOWN_BEFORE_GAP = 3, MOST_ASKED = 1024 };

int64_t scene_most_shown(int64_t asked)
{
    return asked > 0 ? min_i64(max_i64(asked, SHOWN_BEFORE_GAP + 2), MOST_ASKED) : SHOWN_USUALLY;
}

int scene_shown(struct arena *a, int64_t n, int64_t most, int64_t **at)
{
    int shown = (int)(n <= most ? n : max_i64(min_i64(most, SHOWN_BEFORE_GAP + 2), SHOWN_AT_LEAST));
    *at = ARENA_ARRAY(a, int64_t, shown);
    for (int k = 0; k < shown; k++)
        (*at)[k] = k;
    if (shown < n) {
        (*at)[shown - 2] = -1;
        (*at)[shown - 1] = n - 1;
    }
    return shown;
}

void scene_append(struct scene *s, const struct scene *from, double dx, double dy)
{
    for (int64_t i = 0; i < from->items.n; i++) {
        struct scene_item it = from->items.v[i];
        it.x += dx;
        it.y += dy;
        if (it.npoints > 0) {
            double *p = ARENA_ARRAY(s->arena, double, 2 * (int64_t)it.npoints);
            for (int k = 0; k < it.npoints; k++) {
                p[2 * k] = it.points[2 * k] + dx;
                p[2 * k + 1] = it.points[2 * k + 1] + dy;
            }
            it.points = p;
        }
        vec_push(s->arena, &s->items, it);
    }
    if (s->width < dx + from->width)
        s->width = dx + from->width;
    if (s->height < dy + from->height)
        s->height = dy + from->height;
}

int scene_text_columns(const char *text)
{
    int n = 0;
    for (const char *p = text; *p; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

const char *scene_short(struct arena *a, const char *name, int most)
{
    int n = scene_text_columns(name);
    if (n <= most)
        return name;
    const char *p = name;
    for (int skip = n - most + 2; skip > 0; skip--)
        do
            p++;
        while (((unsigned char)*p & 0xc0) == 0x80);
    return arena_printf(a, "..%s", p);
}

const char *scene_bytes(struct arena *a, int64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    int unit = -1;
    double scaled = (double)bytes;
    char plain[32];
    struct str s = STR_IN(a);
    if (bytes < 0)
        return "too many bytes";
    while (scaled >= 1024 && unit < 3) {
        scaled /= 1024;
        unit++;
    }
    snprintf(plain, sizeof plain, "%" PRId64, bytes);
    for (size_t n = strlen(plain), k = 0; k < n; k++)
        str_addf(&s, "%s%c", k > 0 && (n - k) % 3 == 0 ? "," : "", plain[k]);
    str_adds(&s, bytes == 1 ? " byte" : " bytes");
    if (unit >= 1)
        str_addf(&s, " (%.4g %s)", scaled, units[unit]);
    return str_text(&s);
}

struct scene_rect scene_text_rect(const struct scene_item *it)
{
    double w = SCENE_GLYPH * it->size * scene_text_columns(it->text);
    double x = it->x - (it->align == ALIGN_CENTER ? w / 2 : it->align == ALIGN_RIGHT ? w : 0);
    double h = it->size * 1.17;
    return (struct scene_rect){ x, it->middle ? it->y - h / 2 : it->y, w, h };
}

bool scene_is_free(const struct scene *s, const struct scene_item *text)
{
    struct scene_rect p = scene_text_rect(text), q;
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        if (it->kind == SCENE_TEXT)
            q = scene_text_rect(it);
        else if (it->kind == SCENE_BOX && it->role != ROLE_CLUSTER)
            q = (struct scene_rect){ it->x, it->y, it->w, it->h };
        else
            continue;
        if (q.x < p.x + p.w && p.x < q.x + q.w && q.y < p.y + p.h && p.y < q.y + q.h)
            return false;
    }
    return true;
}

bool scene_label_rect(const struct scene_item *it, struct scene_rect *out)
{
    if (it->kind != SCENE_BOX || !it->text || !it->text[0] || it->role == ROLE_LEGEND)
        return false;
    double w = it->label_w > 0 ? it->label_w : it->w, h = it->label_h > 0 ? it->label_h : it->h;
    double line = it->size * 1.17, wide = SCENE_GLYPH * it->size * scene_text_columns(it->text);
    *out = (struct scene_rect){ it->x + (w - wide) / 2, it->y + (h - line) / 2, wide, line };
    return wide <= w + 0.5 && line <= h + 0.5;
}

const char *scene_hint(const struct scene_item *it, struct arena *a)
{
    if (it->hint)
        return it->hint;
    if (it->role != ROLE_TILE || it->kind != SCENE_BOX)
        return "";
    struct str s = STR_IN(a);
    if (it->ntile == 0 && it->device >= 0) {
        str_addf(&s, "device %" PRId64, it->device);
        return str_text(&s);
    }
    str_adds(&s, it->state & STATE_PADDING ? "padding of tile" : "tile");
    for (int d = 0; d < it->ntile; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : " ", it->tile[d]);
    str_adds(&s, ": elements [");
    for (int d = 0; d < it->ntile; d++)
        str_addf(&s, "%s%" PRId64 ":%" PRId64, d ? ", " : "", it->from[d], it->to[d]);
    str_adds(&s, "]");
    if (it->text && it->text[0])
        str_addf(&s, ", devices %s", it->text);
    return str_text(&s);
}
