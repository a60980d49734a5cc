/* The layout of one array: who holds which piece.
 *
 *   caption        w1  f32[8,16]  [_,model]
 *                  local f32[8,4] ...
 *   column ruler          0:4    4:8
 *   row ruler      0:8  [ 0,4  | 1,5  ]     one panel a page; pages for folded dimensions
 *   legend
 *
 * Two dimensions are shown, each to its own scale; other split dimensions become pages. Long rows of
 * tiles show the first few and the last, with a count in between, so the picture of a million
 * devices is as large as that of sixteen. All lengths are points; a text cell is 6 x 12 points
 * (text.c), so sizes are multiples of those.
 */
#include <string.h>

#include "viz/views.h"

enum { CELL_W = 6, CELL_H = 12, MAX_SHOWN = 8, MAX_PAGES = 4, MAX_NAMED = 4 };

/* The tiles of one dimension that are drawn: indices, -1 stands for "some left out". */
struct strip {
    int dim;            /* of the array; -1: a made-up dimension of size 1 */
    int64_t size, tile; /* elements in all, elements a tile (rounded up) */
    int64_t tiles;
    int n;
    int64_t at[MAX_SHOWN];
    double origin, step; /* points */
};

struct layout {
    struct ir *ir;
    struct shardings *sh;
    const struct shape *shape;
    const struct sharding *s;
    sharding_id id;
    int64_t ndevices;
    const struct layout_options *o;
    struct scene *scene;
    struct arena *a;
    struct strip rows, cols;
    int64_t index[32]; /* tile index of the page in hand */
    int64_t copies;
};

static void choose_strip(struct strip *s, int max_shown)
{
    if (s->tiles <= max_shown) {
        s->n = (int)s->tiles;
        for (int i = 0; i < s->n; i++)
            s->at[i] = i;
        return;
    }
    s->n = 5;
    memcpy(s->at, (int64_t[]){ 0, 1, 2, -1, s->tiles - 1 }, 5 * sizeof *s->at);
}

static struct strip strip_of(const struct layout *l, int dim)
{
    struct strip s = { .dim = dim, .size = 1, .tile = 1, .tiles = 1 };
    if (dim >= 0) {
        s.size = l->shape->dims[dim];
        s.tiles = sharding_tile(l->sh, l->id, dim);
        s.tile = ceil_div(s.size, s.tiles);
    }
    return s;
}

/* The two shown dimensions: split ones first (the last two), else the last ones. */
static void choose_dims(const struct layout *l, int *rows, int *cols)
{
    int rank = l->shape->rank, split[2], n = 0;
    for (int d = rank - 1; d >= 0 && n < 2; d--)
        if (sharding_tile(l->sh, l->id, d) > 1)
            split[n++] = d;
    *rows = rank >= 2 ? rank - 2 : -1;
    *cols = rank >= 1 ? rank - 1 : -1;
    if (n == 2) {
        *rows = split[1];
        *cols = split[0];
    } else if (n == 1 && split[0] < rank - 2) {
        *rows = split[0];
        *cols = rank - 1;
    }
    if (l->o->rows_dim >= 0 && l->o->rows_dim < rank)
        *rows = l->o->rows_dim;
    if (l->o->cols_dim >= 0 && l->o->cols_dim < rank)
        *cols = l->o->cols_dim;
    if (*rows == *cols)
        *rows = *cols > 0 ? *cols - 1 : rank > 1 ? 1 : -1;
}

/* Copies of each piece, and the devices that hold the piece at index: "0,4" or "0,8,16,... (64)". */
static int64_t device_of_copy(const struct layout *l, int64_t copy)
{
    int64_t at[32];
    int r = l->s->data_rank, n = l->s->tiles.naxes;
    for (int i = 0; i < r; i++)
        at[i] = l->index[i];
    for (int i = n - 1; i >= r; i--) {
        at[i] = copy % l->s->tiles.dims[i];
        copy /= l->s->tiles.dims[i];
    }
    return tiling_device(l->sh, l->s->tiles, at);
}

static bool holds(const struct layout *l, int64_t device)
{
    if (l->s->kind == SHARDING_MAXIMAL)
        return l->s->device == device;
    if (l->s->kind != SHARDING_TILED)
        return true;
    int64_t index[32];
    if (!sharding_tile_index(l->sh, l->id, device, index))
        return false;
    return memcmp(index, l->index, (size_t)l->s->data_rank * sizeof *index) == 0;
}

static const char *holders(const struct layout *l, int64_t *first)
{
    struct str s = STR_IN(l->a);
    *first = 0;
    if (l->s->kind == SHARDING_MAXIMAL) {
        *first = l->s->device;
        return arena_printf(l->a, "%" PRId64, l->s->device);
    }
    if (l->s->kind == SHARDING_MANUAL)
        return "manual";
    for (int64_t c = 0; c < l->copies && c < MAX_NAMED; c++) {
        int64_t device = l->s->kind == SHARDING_TILED ? device_of_copy(l, c) : c;
        if (c == 0)
            *first = device;
        str_addf(&s, "%s%" PRId64, c ? "," : "", device);
    }
    if (l->copies > MAX_NAMED)
        str_adds(&s, ",..");
    return l->copies == 0 ? "all" : str_text(&s);
}

/* Elements of tile i of a strip: [from, to), cut at the size of the array. */
static void range(const struct strip *s, int64_t i, int64_t *from, int64_t *to)
{
    *from = min_i64(i * s->tile, s->size);
    *to = min_i64((i + 1) * s->tile, s->size);
}

static void add_padding(const struct layout *l, const struct scene_item *tile, int64_t rows,
                        int64_t cols)
{
    double real_w = tile->w * (double)cols / (double)l->cols.tile;
    double real_h = tile->h * (double)rows / (double)l->rows.tile;
    struct scene_item pad = *tile;
    pad.text = NULL;
    pad.state = STATE_PADDING;
    if (cols == 0 || rows == 0) {
        *scene_add(l->scene, SCENE_BOX, ROLE_TILE) = pad;
        return;
    }
    if (real_w < tile->w) {
        pad.x = tile->x + real_w;
        pad.w = tile->w - real_w;
        *scene_add(l->scene, SCENE_BOX, ROLE_TILE) = pad;
    }
    if (real_h < tile->h) {
        pad.x = tile->x;
        pad.w = real_w;
        pad.y = tile->y + real_h;
        pad.h = tile->h - real_h;
        *scene_add(l->scene, SCENE_BOX, ROLE_TILE) = pad;
    }
}

static void add_tile(struct layout *l, int r, int c)
{
    if (l->rows.dim >= 0)
        l->index[l->rows.dim] = l->rows.at[r];
    if (l->cols.dim >= 0)
        l->index[l->cols.dim] = l->cols.at[c];
    struct scene_item tile = { .kind = SCENE_BOX, .role = ROLE_TILE, .axis = -1, .size = 10 };
    tile.x = l->cols.origin + c * l->cols.step;
    tile.y = l->rows.origin + r * l->rows.step;
    tile.w = l->cols.step;
    tile.h = l->rows.step;
    int rank = min_i64(l->shape->rank, 8) > 0 ? (int)min_i64(l->shape->rank, 8) : 0;
    tile.ntile = rank;
    for (int d = 0; d < rank; d++) {
        struct strip s = strip_of(l, d);
        tile.tile[d] = l->index[d];
        range(&s, l->index[d], &tile.from[d], &tile.to[d]);
    }
    const char *who = holders(l, &tile.device);
    tile.text = l->copies > 1 ? arena_printf(l->a, "%s x%" PRId64, who, l->copies) : who;
    if (l->copies > 1 || l->s->kind == SHARDING_REPLICATED)
        tile.state |= STATE_REPLICATED;
    if (l->o->device_view) {
        if (holds(l, l->o->device)) {
            tile.state |= STATE_CHANGED;
            tile.device = l->o->device;
        } else {
            tile.role = ROLE_FRAME;
            tile.state = 0;
        }
    }
    int64_t from, to, rows, cols;
    range(&l->rows, l->rows.at[r], &from, &to);
    rows = to - from;
    range(&l->cols, l->cols.at[c], &from, &to);
    cols = to - from;
    /* the label keeps off the padding where at least half of the tile is real */
    if (2 * cols >= l->cols.tile && 2 * rows >= l->rows.tile) {
        tile.label_w = tile.w * (double)cols / (double)l->cols.tile;
        tile.label_h = tile.h * (double)rows / (double)l->rows.tile;
    }
    *scene_add(l->scene, SCENE_BOX, tile.role) = tile;
    if (rows < l->rows.tile || cols < l->cols.tile)
        add_padding(l, &tile, rows, cols);
}

static struct scene_item *add_text(struct layout *l, enum scene_role role, double x, double y,
                                   enum scene_align align, const char *text)
{
    struct scene_item *t = scene_add(l->scene, SCENE_TEXT, role);
    t->x = x;
    t->y = y;
    t->align = align;
    t->text = text;
    return t;
}

static const char *range_text(const struct layout *l, const struct strip *s, int i)
{
    if (s->at[i] < 0)
        return arena_printf(l->a, "%" PRId64 " more", s->tiles - (s->n - 1));
    int64_t from, to;
    range(s, s->at[i], &from, &to);
    return from == to ? "(empty)" : arena_printf(l->a, "%" PRId64 ":%" PRId64, from, to);
}

static double widest(const struct layout *l, const struct strip *s)
{
    size_t most = 0;
    for (int i = 0; i < s->n; i++) {
        size_t n = strlen(range_text(l, s, i));
        most = n > most ? n : most;
    }
    return (double)most;
}

static void draw_panel(struct layout *l, double left, double top)
{
    l->cols.origin = left;
    l->rows.origin = top + CELL_H;
    for (int c = 0; c < l->cols.n && l->cols.dim >= 0; c++)
        add_text(l, ROLE_RULER, left + (c + 0.5) * l->cols.step, top, ALIGN_CENTER,
                 range_text(l, &l->cols, c));
    for (int r = 0; r < l->rows.n && l->rows.dim >= 0; r++)
        add_text(l, ROLE_RULER, left - CELL_W, l->rows.origin + r * l->rows.step + l->rows.step / 2,
                 ALIGN_RIGHT, range_text(l, &l->rows, r));
    for (int r = 0; r < l->rows.n; r++)
        for (int c = 0; c < l->cols.n; c++) {
            if (l->rows.at[r] >= 0 && l->cols.at[c] >= 0) {
                add_tile(l, r, c);
                continue;
            }
            struct scene_item *gap = scene_add(l->scene, SCENE_BOX, ROLE_FRAME);
            gap->x = left + c * l->cols.step;
            gap->y = l->rows.origin + r * l->rows.step;
            gap->w = l->cols.step;
            gap->h = l->rows.step;
            gap->text = "...";
        }
}

/* Pages: combinations of the tile indices of split dimensions that are not shown. */
static int64_t page_count(const struct layout *l)
{
    int64_t pages = 1;
    for (int d = 0; d < l->shape->rank; d++)
        if (d != l->rows.dim && d != l->cols.dim)
            pages *= sharding_tile(l->sh, l->id, d);
    return pages;
}

static const char *open_page(struct layout *l, int64_t page)
{
    struct str s = STR_IN(l->a);
    for (int d = l->shape->rank - 1; d >= 0; d--) {
        if (d == l->rows.dim || d == l->cols.dim)
            continue;
        struct strip t = strip_of(l, d);
        l->index[d] = page % t.tiles;
        page /= t.tiles;
    }
    for (int d = 0; d < l->shape->rank; d++) {
        struct strip t = strip_of(l, d);
        if (d == l->rows.dim || d == l->cols.dim || t.tiles == 1)
            continue;
        int64_t from, to;
        range(&t, l->index[d], &from, &to);
        str_addf(&s, "%sdim %d = %" PRId64 ":%" PRId64, s.n ? ", " : "", d, from, to);
    }
    return str_text(&s);
}

static int64_t padding_elements(const struct layout *l, const int64_t *local)
{
    int64_t padded = 1;
    for (int d = 0; d < l->shape->rank; d++)
        if (!mul_ok(padded, local[d] * sharding_tile(l->sh, l->id, d), &padded))
            return -1;
    return padded - l->shape->count;
}

static double add_caption(struct layout *l, const struct mesh *mesh, const char *name, double top)
{
    int64_t local[32];
    sharding_shard_dims(l->sh, l->id, l->shape->rank, l->shape->dims, local);
    struct str s = STR_IN(l->a);
    str_adds(&s, name);
    str_addf(&s, "   %s[", dtype_name(l->shape->dtype));
    for (int d = 0; d < l->shape->rank; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : "", l->shape->dims[d]);
    str_adds(&s, "]   ");
    sharding_spell(l->sh, mesh, l->id, mesh ? SPELL_AXES : SPELL_HLO, &s);
    add_text(l, ROLE_CAPTION, 0, top, ALIGN_LEFT, str_text(&s))->size = 12;
    l->scene->title = str_text(&s);

    struct str m = STR_IN(l->a);
    str_addf(&m, "local %s[", dtype_name(l->shape->dtype));
    int64_t bytes = dtype_bytes(l->shape->dtype);
    for (int d = 0; d < l->shape->rank; d++) {
        str_addf(&m, "%s%" PRId64, d ? "," : "", local[d]);
        if (!mul_ok(bytes, local[d], &bytes))
            bytes = -1;
    }
    int64_t tiles = sharding_num_tiles(l->sh, l->id), pad = padding_elements(l, local);
    str_addf(&m, "], %" PRId64 " tile%s", tiles, tiles == 1 ? "" : "s");
    if (l->copies > 1)
        str_addf(&m, ", %" PRId64 " copies of each", l->copies);
    str_addf(&m, ", %" PRId64 " bytes a device", bytes);
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    int unit = -1;
    double scaled = (double)bytes;
    while (scaled >= 1024 && unit < 3) {
        scaled /= 1024;
        unit++;
    }
    if (unit >= 1)
        str_addf(&m, " (%.4g %s)", scaled, units[unit]);
    if (pad > 0)
        str_addf(&m, ", padding %" PRId64 " elements", pad);
    add_text(l, ROLE_CAPTION, 0, top + CELL_H, ALIGN_LEFT, str_text(&m));
    return top + 3 * CELL_H;
}

static void add_legend(struct layout *l, double top)
{
    struct str s = STR_IN(l->a);
    str_adds(&s, "numbers in a tile: the devices that hold it");
    add_text(l, ROLE_LEGEND, 0, top, ALIGN_LEFT, str_text(&s));
    unsigned states = 0;
    for (int64_t i = 0; i < l->scene->items.n; i++)
        states |= l->scene->items.v[i].state;
    static const struct {
        unsigned state;
        const char *text;
    } rows[] = { { STATE_REPLICATED, "xN: N copies, one on each device named" },
                 { STATE_PADDING, "padding: no elements of the array" },
                 { STATE_CHANGED, "held by the device in question" } };
    double x = 0;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (!(states & rows[i].state))
            continue;
        struct scene_item *key = scene_add(l->scene, SCENE_BOX, ROLE_LEGEND);
        key->x = x;
        key->y = top + CELL_H;
        key->w = 2 * CELL_W;
        key->h = CELL_H;
        key->state = rows[i].state;
        key->device = 0;
        add_text(l, ROLE_LEGEND, x + 3 * CELL_W, top + CELL_H, ALIGN_LEFT, rows[i].text);
        x += CELL_W * (double)(strlen(rows[i].text) + 6);
    }
}

static void measure(struct layout *l)
{
    int64_t first;
    size_t label = 1;
    memset(l->index, 0, sizeof l->index);
    /* the widest label: that of the last tile, with the largest ids */
    for (int d = 0; d < l->shape->rank; d++)
        l->index[d] = sharding_tile(l->sh, l->id, d) - 1;
    label = strlen(holders(l, &first)) + (l->copies > 1 ? 6 : 0);
    memset(l->index, 0, sizeof l->index);
    double need = (double)label + 3, ruler = widest(l, &l->cols) + 2;
    double wanted = 60.0 / l->cols.n;
    double cells = wanted > need ? wanted : need;
    cells = cells > ruler ? cells : ruler;
    cells = cells > 24 ? (need > 24 ? need : 24) : cells;
    l->cols.step = CELL_W * (double)(int64_t)cells;
    int lines = l->rows.n <= 2 ? 4 : l->rows.n <= 4 ? 3 : 2;
    l->rows.step = CELL_H * (double)lines;
}

struct scene *view_layout(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                          sharding_id s, const struct layout_options *o, struct arena *a)
{
    static const struct layout_options plain = { .rows_dim = -1, .cols_dim = -1 };
    struct layout *l = ARENA_NEW(a, struct layout);
    *l = (struct layout){ .ir = c, .sh = c->shardings, .a = a, .o = o ? o : &plain };
    l->shape = shape_get(c, shape);
    l->id = s.i ? s : sharding_replicated(c->shardings);
    l->s = sharding_get(c->shardings, l->id);
    l->ndevices = l->o->ndevices > 0 ? l->o->ndevices : mesh ? mesh_devices(mesh) : 0;
    l->scene = scene_new(a);
    l->copies = l->s->kind == SHARDING_TILED
                    ? sharding_total(l->sh, l->id) / sharding_num_tiles(l->sh, l->id)
                : l->s->kind == SHARDING_REPLICATED ? l->ndevices
                                                    : 1;
    double top = add_caption(l, mesh, name, 0);
    int rows, cols;
    choose_dims(l, &rows, &cols);
    int most = l->o->max_tiles > 0 ? (int)min_i64(l->o->max_tiles, MAX_SHOWN) : MAX_SHOWN;
    l->rows = strip_of(l, rows);
    l->cols = strip_of(l, cols);
    choose_strip(&l->rows, most);
    choose_strip(&l->cols, most);
    measure(l);
    double left = CELL_W * (l->rows.dim >= 0 ? widest(l, &l->rows) + 2 : 1);
    int64_t pages = page_count(l);
    for (int64_t p = 0; p < pages && p < MAX_PAGES; p++) {
        const char *title = open_page(l, p);
        if (*title) {
            add_text(l, ROLE_LABEL, left, top, ALIGN_LEFT, title);
            top += CELL_H;
        }
        draw_panel(l, left, top);
        top += 2 * CELL_H + l->rows.n * l->rows.step + CELL_H;
    }
    if (pages > MAX_PAGES) {
        add_text(l, ROLE_LABEL, left, top, ALIGN_LEFT,
                 arena_printf(a, "and %" PRId64 " more pages like these", pages - MAX_PAGES));
        top += 2 * CELL_H;
    }
    add_legend(l, top);
    l->scene->height = top + 3 * CELL_H;
    for (int64_t i = 0; i < l->scene->items.n; i++) {
        const struct scene_item *it = &l->scene->items.v[i];
        double right = it->x + it->w;
        if (it->kind == SCENE_TEXT && it->align == ALIGN_LEFT)
            right += CELL_W * (double)strlen(it->text) * it->size / 10;
        l->scene->width = right > l->scene->width ? right : l->scene->width;
    }
    return l->scene;
}
