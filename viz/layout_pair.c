/* Layouts beside each other: before and after an edit or a reshard, and all that one device holds. */
#include <string.h>

#include "viz/views.h"

struct scene *view_layout_pair(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                               sharding_id before, sharding_id after, const char *before_title,
                               const char *after_title, const struct layout_options *o, struct arena *a)
{
    struct layout_options old = *o, new = *o;
    old.title = before_title;
    old.compare = false;
    old.partial = o->partial;
    new.title = after_title;
    new.compare = true;
    new.before = before;
    new.partial = false;
    /* each of the two gets half of the width */
    old.width = new.width = o->width > 0 ? o->width / 2 : 0;
    struct scene *s = scene_new(a);
    struct scene *one = view_layout_part(c, mesh, name, shape, before, &old, a);
    struct scene *two = view_layout_part(c, mesh, name, shape, after, &new, a);
    s->title = arena_printf(a, "%s, then %s", one->title, two->title);
    scene_append(s, one, 0, 0);
    /* beside each other, unless a narrow window would make them small */
    bool beside = o->width > 0 && (o->width >= 850 || one->width + two->width + 4 * CELL_W <= o->width);
    double x = beside ? (double)(int64_t)(one->width / CELL_W + 4) * CELL_W : 0;
    double y = beside ? 0 : one->height + CELL_H;
    scene_append(s, two, x, y);
    if (beside) { /* an arrow between the two, at the height of the tiles */
        struct scene_item *l = scene_add(s, SCENE_LINE, ROLE_HIGHLIGHT);
        l->x = one->width + CELL_W;
        l->y = 6 * CELL_H;
        l->w = x - l->x - CELL_W;
        l->arrow = true;
    }
    scene_add_legend(s, s->height + CELL_H, "numbers in a tile: the devices that hold it");
    return s;
}

/* ---- one device ---------------------------------------------------------------------------------- */

struct held {
    int64_t from[32], to[32];
    bool any, whole;
};

static void find_held(struct ir *c, const struct shape *v, sharding_id s, int64_t device, struct held *h)
{
    const struct sharding *k = sharding_get(c->shardings, s);
    int64_t index[32] = { 0 }, local[32];
    sharding_shard_dims(c->shardings, s, v->rank, v->dims, local);
    h->any = k->kind != SHARDING_MAXIMAL || k->device == device;
    if (k->kind == SHARDING_TILED)
        h->any = sharding_tile_index(c->shardings, s, device, index);
    h->whole = h->any;
    for (int d = 0; d < v->rank; d++) {
        h->from[d] = min_i64(index[d] * local[d], v->dims[d]);
        h->to[d] = min_i64((index[d] + 1) * local[d], v->dims[d]);
        h->whole &= h->from[d] == 0 && h->to[d] == v->dims[d];
        h->any &= h->from[d] < h->to[d];
    }
}

static int64_t held_bytes(const struct shape *v, const struct held *h)
{
    int64_t bytes = h->any ? dtype_bytes(v->dtype) : 0;
    for (int d = 0; d < v->rank; d++)
        if (!mul_ok(bytes, h->to[d] - h->from[d], &bytes))
            return -1;
    return bytes;
}

/* The array as a bar of two dimensions, what is held of it to scale. */
static void add_bar(struct scene *s, double x, double y, double w, double h, const struct shape *v,
                    const struct held *held, int64_t device, const char *name)
{
    int rows = v->rank - 2, cols = v->rank - 1;
    struct scene_item *frame = scene_add(s, SCENE_BOX, ROLE_FRAME);
    frame->x = x;
    frame->y = y;
    frame->w = w;
    frame->h = h;
    if (!held->any)
        return;
    for (int d = 0; d < v->rank - 2; d++) /* the split of a folded dimension is shown where there is room */
        if ((held->from[d] > 0 || held->to[d] < v->dims[d]) && held->to[rows] - held->from[rows] == v->dims[rows])
            rows = d;
    struct scene_item *t = scene_add(s, SCENE_BOX, ROLE_TILE);
    t->x = x;
    t->y = y;
    t->w = w;
    t->h = h;
    if (cols >= 0 && v->dims[cols] > 0) {
        t->x = x + w * (double)held->from[cols] / (double)v->dims[cols];
        t->w = w * (double)(held->to[cols] - held->from[cols]) / (double)v->dims[cols];
    }
    if (rows >= 0 && v->dims[rows] > 0) {
        t->y = y + h * (double)held->from[rows] / (double)v->dims[rows];
        t->h = h * (double)(held->to[rows] - held->from[rows]) / (double)v->dims[rows];
    }
    if (t->w < 2) { /* a sliver is still seen */
        t->x = t->x + 2 > x + w ? x + w - 2 : t->x;
        t->w = 2;
    }
    if (t->h < 2) {
        t->y = t->y + 2 > y + h ? y + h - 2 : t->y;
        t->h = 2;
    }
    t->device = device;
    t->state = STATE_HELD;
    t->ntile = (int)min_i64(v->rank, 8);
    memcpy(t->from, held->from, sizeof t->from);
    memcpy(t->to, held->to, sizeof t->to);
    t->word = name;
    struct str hint = STR_IN(s->arena);
    str_addf(&hint, "device %" PRId64 " holds %s[", device, name);
    for (int d = 0; d < v->rank; d++)
        str_addf(&hint, "%s%" PRId64 ":%" PRId64, d ? ", " : "", held->from[d], held->to[d]);
    str_adds(&hint, "]");
    t->hint = str_text(&hint);
}

/* Two lines: what is held, and of what. */
static const char *row_text(struct arena *a, const struct device_row *r, const struct shape *v, const struct held *h,
                            int64_t bytes, const char **second)
{
    struct str m = STR_IN(a), safe = STR_IN(a), of = STR_IN(a);
    str_add_safe(&safe, r->name, strlen(r->name));
    str_addf(&of, "of %s[", dtype_name(v->dtype));
    for (int d = 0; d < v->rank; d++)
        str_addf(&of, "%s%" PRId64, d ? "," : "", v->dims[d]);
    str_addf(&of, "]%s, %s", h->whole && h->any ? ", all of it" : "", scene_bytes(a, bytes));
    *second = str_text(&of);
    if (!h->any) {
        str_addf(&m, "%s: nothing", str_text(&safe));
        return str_text(&m);
    }
    str_addf(&m, "%s[", str_text(&safe));
    for (int d = 0; d < v->rank; d++)
        str_addf(&m, "%s%" PRId64 ":%" PRId64, d ? ", " : "", h->from[d], h->to[d]);
    str_adds(&m, "]");
    return scene_short(a, str_text(&m), 80);
}

struct scene *view_device(struct ir *c, const struct mesh *mesh, int64_t device, int64_t total,
                          const struct device_row *rows, int n, double width, struct arena *a)
{
    enum { BAR_W = 24 * CELL_W, BAR_H = 4 * CELL_H };
    struct scene *s = scene_new(a);
    int64_t held = 0;
    double top = 3 * CELL_H, x = 0, step = 0;
    for (int k = 0; k < n; k++) {
        const struct shape *v = shape_get(c, rows[k].shape);
        struct held h;
        find_held(c, v, rows[k].sharding, device, &h);
        int64_t bytes = held_bytes(v, &h);
        if (bytes < 0 || !add_ok(held, bytes, &held))
            held = INT64_MAX;
        const char *of, *text = row_text(a, &rows[k], v, &h, bytes, &of);
        double wide = CELL_W * (double)max_i64(scene_text_columns(text), scene_text_columns(of));
        wide = (wide > BAR_W ? wide : BAR_W) + 3 * CELL_W;
        if (x > 0 && (width <= 0 || x + wide > width)) {
            x = 0;
            top += step;
        }
        scene_put_text(s, ROLE_LABEL, x, top, ALIGN_LEFT, text);
        scene_put_text(s, ROLE_RULER, x, top + CELL_H, ALIGN_LEFT, of);
        double high = v->rank < 2 ? 2 * CELL_H : BAR_H;
        add_bar(s, x, top + 2 * CELL_H, BAR_W, high, v, &h, device, rows[k].name);
        step = high + 4 * CELL_H > step || x == 0 ? high + 4 * CELL_H : step;
        x += wide;
    }
    struct str t = STR_IN(a);
    str_addf(&t, "device %" PRId64, device);
    int64_t cell = mesh ? order_cell(c->shardings, mesh->order, device) : -1;
    int64_t index[MESH_MAX_AXES];
    for (int k = mesh ? mesh->naxes - 1 : -1; k >= 0 && cell >= 0; k--) {
        index[k] = cell % mesh->axes[k].size;
        cell /= mesh->axes[k].size;
    }
    for (int k = 0; mesh && k < mesh->naxes && cell >= 0; k++)
        str_addf(&t, "%s%s=%" PRId64, k ? " " : "   ", mesh->axes[k].name, index[k]);
    scene_put_text(s, ROLE_CAPTION, 0, 0, ALIGN_LEFT, str_text(&t))->bold = true;
    s->title = str_text(&t);
    struct str h = STR_IN(a);
    str_addf(&h, "holds %s of %s%d arrays", scene_bytes(a, held), total > n ? "the first " : "", n);
    if (total > n)
        str_addf(&h, " of %" PRId64, total);
    scene_put_text(s, ROLE_CAPTION, 0, CELL_H, ALIGN_LEFT, str_text(&h));
    scene_measure(s);
    scene_add_legend(s, top + step, "a frame: the whole array");
    return s;
}
