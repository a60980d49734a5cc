/* What holds of every scene, whatever it shows. */
#ifndef TESTS_VIZ_CHECK_H
#define TESTS_VIZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viz/scene.h"

/* A label's place; overlaps are looked for from the top down. */
struct placed {
    struct scene_rect r;
    const char *text;
};

static int by_top(const void *a, const void *b)
{
    double x = ((const struct placed *)a)->r.y, y = ((const struct placed *)b)->r.y;
    return x < y ? -1 : x > y;
}

/* NULL: all is well; else what is wrong, in a. */
static inline const char *labels_wrong(const struct scene *s, struct arena *a)
{
    struct placed *v = ARENA_ARRAY(a, struct placed, s->items.n + 1);
    int64_t n = 0;
    const double slack = 0.6;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_TEXT && it->text[0]) {
            v[n].r = scene_text_rect(it);
            v[n++].text = it->text;
        } else if (scene_label_rect(it, &v[n].r)) {
            v[n++].text = it->text;
        } else if (it->kind == SCENE_BOX && it->text && it->text[0] && it->role != ROLE_LEGEND) {
            return arena_printf(a, "'%s' does not fit into its box", it->text);
        }
    }
    qsort(v, (size_t)n, sizeof *v, by_top);
    for (int64_t i = 0; i < n; i++) {
        const struct scene_rect *p = &v[i].r;
        if (p->x < -slack - SCENE_MARGIN || p->y < -slack - SCENE_MARGIN || p->x + p->w > s->width + SCENE_MARGIN + slack ||
            p->y + p->h > s->height + SCENE_MARGIN + slack)
            return arena_printf(a, "'%s' leaves the canvas", v[i].text);
        for (int64_t k = i + 1; k < n && v[k].r.y < p->y + p->h - slack; k++) {
            const struct scene_rect *q = &v[k].r;
            if (q->x < p->x + p->w - slack && p->x < q->x + q->w - slack && q->y < p->y + p->h - slack)
                return arena_printf(a, "'%s' and '%s' overlap", v[i].text, v[k].text);
        }
    }
    return NULL;
}

/* The legend's boxes stand for the states that are drawn, no more and no fewer. */
static inline const char *legend_wrong(const struct scene *s, struct arena *a)
{
    unsigned drawn = 0, told = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind != SCENE_BOX)
            continue;
        if (it->role == ROLE_LEGEND)
            told |= it->state;
        else
            drawn |= it->state;
    }
    drawn &= ~(unsigned)STATE_CHOSEN; /* told in words */
    return drawn == told ? NULL : arena_printf(a, "drawn %x, in the legend %x", drawn, told);
}

static inline const char *scene_wrong(const struct scene *s, struct arena *a)
{
    const char *wrong = labels_wrong(s, a);
    return wrong ? wrong : legend_wrong(s, a);
}

#endif
