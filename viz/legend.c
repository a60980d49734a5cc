/* What every scene has at its foot: the states that are drawn in it, each with its sign. */
#include <string.h>

#include "viz/views.h"

void scene_measure(struct scene *s)
{
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        double right = it->x + it->w, bottom = it->y + it->h;
        if (it->kind == SCENE_TEXT) {
            struct scene_rect r = scene_text_rect(it);
            right = r.x + r.w;
            bottom = r.y + r.h;
        }
        for (int k = 0; k < it->npoints; k++) {
            right = it->points[2 * k] > right ? it->points[2 * k] : right;
            bottom = it->points[2 * k + 1] > bottom ? it->points[2 * k + 1] : bottom;
        }
        s->width = right > s->width ? right : s->width;
        s->height = bottom > s->height ? bottom : s->height;
    }
}

static const struct {
    unsigned state;
    const char *text;
} rows[] = { { STATE_REPLICATED, "xN: N copies, one on each device named" },
             { STATE_PARTIAL, "partial sums: \xce\xa3 over the devices is still owed" },
             { STATE_PADDING, "padding: no elements of the array" },
             { STATE_OPEN, "open: propagation may still split it" },
             { STATE_MANUAL, "manual: the program itself says who holds what" },
             { STATE_CHANGED, "not so before" },
             { STATE_HELD, "held by the device in question" } };

static void put_row(struct scene *s, double x, double y, unsigned state, const char *text)
{
    struct scene_item *key = scene_add(s, SCENE_BOX, ROLE_LEGEND);
    key->x = x;
    key->y = y;
    key->w = 2 * CELL_W;
    key->h = CELL_H - 2;
    key->state = state;
    key->device = 0;
    key->nowners = state == STATE_REPLICATED ? 2 : 0;
    key->owners[1] = 1;
    struct scene_item *t = scene_add(s, SCENE_TEXT, ROLE_LEGEND);
    t->x = x + 3 * CELL_W;
    t->y = y;
    t->text = text;
}

/* Rows run to the right as far as the picture, 80 columns at least, then down. */
void scene_add_legend(struct scene *s, double top, const char *numbers)
{
    unsigned states = 0;
    for (int64_t i = 0; i < s->items.n; i++)
        states |= s->items.v[i].state;
    if (numbers) {
        struct scene_item *t = scene_add(s, SCENE_TEXT, ROLE_LEGEND);
        t->y = top;
        t->text = numbers;
        top += CELL_H;
    }
    double x = 0, most = s->width > 80 * CELL_W ? s->width : 80 * CELL_W;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (!(states & rows[i].state))
            continue;
        double w = CELL_W * (double)(scene_text_columns(rows[i].text) + 6);
        if (x > 0 && x + w - 3 * CELL_W > most) {
            x = 0;
            top += CELL_H;
        }
        put_row(s, x, top, rows[i].state, rows[i].text);
        x += w;
    }
    scene_measure(s);
}
