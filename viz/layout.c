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

#include "viz/graph.h"
#include "viz/views.h"

enum { MAX_PAGES = 4, MAX_NAMED = 4, MOST_VALUES = 4096, FEW_TILES = 16 /* all drawn unless told otherwise */ };

/* The tiles of one dimension that are drawn: indices, -1 stands for "some left out". */
struct strip {
    int dim;            /* of the array; -1: a made-up dimension of size 1 */
    int64_t size, tile; /* elements in all, elements a tile (rounded up) */
    int64_t tiles;
    int n;
    int64_t *at;
    double origin, step; /* points */
    int axis;            /* of the mesh that splits it, for its colour; -1: none or several */
};

struct layout {
    struct ir *ir;
    struct shardings *sh;
    const struct shape *shape;
    const struct sharding *s;
    sharding_id id;
    int64_t ndevices;
    const struct layout_options *o;
    const struct mesh *mesh;
    struct scene *scene;
    struct arena *a;
    struct strip rows, cols;
    int64_t index[32]; /* tile index of the page in hand */
    int64_t copies;    /* devices that hold each piece; 0: all, nobody knows how many */
    bool manual, values;
    int named;         /* holders of a piece that are named */
    double cell; /* of one number, points */
    const char *spelled;
    const char *word; /* what a click on a tile asks about */
};

/* ---- what is drawn ------------------------------------------------------------------------------- */

static struct strip strip_of(const struct layout *l, int dim)
{
    struct strip s = { .dim = dim, .size = 1, .tile = 1, .tiles = 1, .axis = -1 };
    if (dim >= 0) {
        s.size = l->shape->dims[dim];
        s.tiles = sharding_tile(l->sh, l->id, dim);
        s.tile = ceil_div(s.size, s.tiles);
        if (s.tiles > 1)
            s.axis = spelled_axis_of_dim(l->mesh, l->spelled, dim);
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

/* ---- who holds what ------------------------------------------------------------------------------ */

/* Copy number c of the piece at index: a device. */
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

static int64_t holder(const struct layout *l, int64_t copy)
{
    return l->s->kind == SHARDING_TILED     ? device_of_copy(l, copy)
           : l->s->kind == SHARDING_MAXIMAL ? l->s->device
                                            : copy;
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

/* "0,4", or "0,1,2,3,.." with more; "all". */
static const char *holders(const struct layout *l)
{
    if (l->s->kind == SHARDING_MANUAL)
        return "manual";
    if (l->copies == 0)
        return "all";
    struct str s = STR_IN(l->a);
    for (int64_t c = 0; c < l->copies && c < l->named; c++)
        str_addf(&s, "%s%" PRId64, c ? "," : "", holder(l, c));
    if (l->copies > l->named)
        str_adds(&s, ",..");
    return str_text(&s);
}

/* Elements of tile i of a strip: [from, to), cut at the size of the array. */
static void range(const struct strip *s, int64_t i, int64_t *from, int64_t *to)
{
    *from = min_i64(i * s->tile, s->size);
    *to = min_i64((i + 1) * s->tile, s->size);
}

/* Whether every holder (of the first few) held just these elements under the sharding before. */
static bool was_so(const struct layout *l)
{
    enum { ASKED = 64 };
    const struct sharding *b = sharding_get(l->sh, l->o->before);
    int64_t was[32], local[32];
    sharding_shard_dims(l->sh, l->o->before, l->shape->rank, l->shape->dims, local);
    for (int64_t c = 0; c < l->copies && c < ASKED; c++) {
        int64_t device = holder(l, c);
        memset(was, 0, sizeof was);
        if (b->kind == SHARDING_MAXIMAL && b->device != device)
            return false;
        if (b->kind == SHARDING_TILED && !sharding_tile_index(l->sh, l->o->before, device, was))
            return false;
        for (int d = 0; d < l->shape->rank; d++) {
            struct strip now = strip_of(l, d), then = now;
            int64_t from, to, from0, to0;
            then.tile = local[d];
            range(&now, l->index[d], &from, &to);
            range(&then, was[d], &from0, &to0);
            if (from != from0 || to != to0)
                return false;
        }
    }
    return true;
}

/* ---- tiles --------------------------------------------------------------------------------------- */

static void add_padding(const struct layout *l, const struct scene_item *tile, int64_t rows, int64_t cols)
{
    double real_w = tile->w * (double)cols / (double)l->cols.tile;
    double real_h = tile->h * (double)rows / (double)l->rows.tile;
    struct scene_item pad = *tile;
    pad.text = NULL;
    pad.state = STATE_PADDING;
    pad.nowners = 0;
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

/* The numbers of a tile, a cell each, below its label. */
static void add_values(struct layout *l, const struct scene_item *tile, int64_t rows, int64_t cols)
{
    int64_t index[32] = { 0 };
    for (int d = 0; d < l->shape->rank; d++) {
        struct strip s = strip_of(l, d);
        index[d] = min_i64(l->index[d] * s.tile, s.size - 1);
    }
    int64_t row0 = l->rows.dim >= 0 ? index[l->rows.dim] : 0, col0 = l->cols.dim >= 0 ? index[l->cols.dim] : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            if (l->rows.dim >= 0)
                index[l->rows.dim] = row0 + r;
            if (l->cols.dim >= 0)
                index[l->cols.dim] = col0 + c;
            const char *v = l->o->value(l->o->value_context, index);
            struct scene_item *t =
                scene_put_text(l->scene, ROLE_TILE, tile->x + (double)(c + 1) * l->cell - CELL_W,
                         tile->y + (double)(r + 2) * CELL_H, ALIGN_RIGHT, v ? v : "?");
            t->size = 9;
        }
}

static void mark_tile(struct layout *l, struct scene_item *tile)
{
    if (l->o->partial)
        tile->state |= STATE_PARTIAL;
    if (l->o->open)
        tile->state |= STATE_OPEN;
    if (l->manual)
        tile->state |= STATE_MANUAL;
    if (l->o->compare && !was_so(l))
        tile->state |= STATE_CHANGED;
    if (!l->o->device_view)
        return;
    if (holds(l, l->o->device)) {
        tile->state |= STATE_HELD;
        tile->device = l->o->device;
        for (int k = 1; k < tile->nowners; k++) /* the middle is of the first one's colour */
            if (tile->owners[k] == tile->device)
                tile->owners[k] = tile->owners[0];
        if (tile->nowners > 0)
            tile->owners[0] = tile->device;
    } else {
        tile->role = ROLE_FRAME;
        tile->state = 0;
    }
}

static void add_tile(struct layout *l, int r, int c)
{
    if (l->rows.dim >= 0)
        l->index[l->rows.dim] = l->rows.at[r];
    if (l->cols.dim >= 0)
        l->index[l->cols.dim] = l->cols.at[c];
    struct scene_item tile = { .kind = SCENE_BOX, .role = ROLE_TILE, .axis = -1, .size = 10 };
    tile.word = l->word;
    tile.x = l->cols.origin + c * l->cols.step;
    tile.y = l->rows.origin + r * l->rows.step;
    tile.w = l->cols.step;
    tile.h = l->rows.step;
    tile.ntile = (int)min_i64(l->shape->rank, 8);
    for (int d = 0; d < tile.ntile; d++) {
        struct strip s = strip_of(l, d);
        tile.tile[d] = l->index[d];
        range(&s, l->index[d], &tile.from[d], &tile.to[d]);
    }
    const char *who = holders(l), *sum = l->o->partial ? " \xce\xa3" : "";
    tile.device = l->copies > 0 && l->s->kind != SHARDING_MANUAL ? holder(l, 0) : 0;
    tile.copies = l->copies;
    tile.text = l->copies > 1 && !l->manual ? arena_printf(l->a, "%s x%" PRId64 "%s", who, l->copies, sum)
                : *sum                      ? arena_printf(l->a, "%s%s", who, sum)
                                            : who;
    if (!l->manual && !l->o->partial && (l->copies > 1 || l->s->kind == SHARDING_REPLICATED))
        tile.state |= STATE_REPLICATED;
    if (tile.state & STATE_REPLICATED && l->copies > 1) {
        tile.nowners = (int)min_i64(l->copies, 4);
        for (int k = 0; k < tile.nowners; k++)
            tile.owners[k] = holder(l, k);
    }
    mark_tile(l, &tile);
    int64_t from, to, rows, cols;
    range(&l->rows, l->rows.at[r], &from, &to);
    rows = to - from;
    range(&l->cols, l->cols.at[c], &from, &to);
    cols = to - from;
    /* the label keeps off the padding where at least half of the tile is real */
    double real_w = tile.w * (double)cols / (double)l->cols.tile;
    if (2 * cols >= l->cols.tile && 2 * rows >= l->rows.tile &&
        real_w >= CELL_W * (double)scene_text_columns(tile.text)) {
        tile.label_w = real_w;
        tile.label_h = tile.h * (double)rows / (double)l->rows.tile;
    }
    if (l->values) {
        tile.label_w = tile.w;
        tile.label_h = 2 * CELL_H;
    }
    bool full = rows < l->rows.tile || cols < l->cols.tile;
    struct scene_item under = tile;
    *scene_add(l->scene, SCENE_BOX, tile.role) = tile;
    if (full && !l->values)
        add_padding(l, &under, rows, cols);
    if (l->values)
        add_values(l, &under, rows, cols);
}

/* ---- panels -------------------------------------------------------------------------------------- */

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
        scene_put_text(l->scene, ROLE_RULER, left + (c + 0.5) * l->cols.step, top, ALIGN_CENTER,
                 range_text(l, &l->cols, c))
            ->axis = l->cols.axis;
    for (int r = 0; r < l->rows.n && l->rows.dim >= 0; r++) {
        struct scene_item *it =
            scene_put_text(l->scene, ROLE_RULER, left - CELL_W, l->rows.origin + r * l->rows.step + l->rows.step / 2,
                 ALIGN_RIGHT, range_text(l, &l->rows, r));
        it->axis = l->rows.axis;
        it->middle = true;
    }
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
        if (d != l->rows.dim && d != l->cols.dim && !(l->o->fixed && l->o->fixed[d] >= 0))
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
        if (l->o->fixed && l->o->fixed[d] >= 0) {
            l->index[d] = min_i64(l->o->fixed[d], t.tiles - 1);
            continue;
        }
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
        if (to - from < t.tile)
            str_addf(&s, " and %" PRId64 " of padding", t.tile - (to - from));
    }
    return str_text(&s);
}

/* Tiles of the last dimension that is paged: that of neighbouring pages. */
static int64_t last_paged(const struct layout *l)
{
    for (int d = l->shape->rank - 1; d >= 0; d--) {
        int64_t tiles = sharding_tile(l->sh, l->id, d);
        if (d != l->rows.dim && d != l->cols.dim && tiles > 1 && !(l->o->fixed && l->o->fixed[d] >= 0))
            return tiles;
    }
    return 1;
}

static double ruler_width(const struct layout *l)
{
    return CELL_W * (double)(l->rows.dim >= 0 ? widest(l, &l->rows) + 2 : 1);
}

/* Pages one below the other, or side by side as far as the width allows. Returns where they end. */
static double draw_pages(struct layout *l, double top)
{
    double ruler = ruler_width(l);
    double wide = l->cols.n * l->cols.step, high = 2 * CELL_H + l->rows.n * l->rows.step + CELL_H;
    int64_t pages = page_count(l), most = l->o->max_pages > 0 ? l->o->max_pages : MAX_PAGES;
    double title_h = 0, x = 0;
    int64_t fold = last_paged(l);
    for (int64_t p = 0; p < pages && p < most; p++) {
        const char *title = open_page(l, p);
        double titled = CELL_W * (double)strlen(title), room = titled > wide ? titled : wide;
        bool full = l->o->width <= 0 || x + ruler + room > l->o->width;
        /* folded: a line of pages has all tiles of the last dimension that is paged, where there is room */
        if (p > 0 && (full || (p % fold == 0 && (double)fold * (ruler + room + 2 * CELL_W) <= l->o->width))) {
            top += title_h + high;
            x = 0;
        }
        title_h = *title ? CELL_H : 0;
        if (*title)
            scene_put_text(l->scene, ROLE_LABEL, x + ruler, top, ALIGN_LEFT, title);
        draw_panel(l, x + ruler, top + title_h);
        x += ruler + room + 2 * CELL_W;
    }
    top += title_h + high;
    if (pages > most) {
        scene_put_text(l->scene, ROLE_LABEL, ruler, top, ALIGN_LEFT,
                 arena_printf(l->a, "and %" PRId64 " more pages like these", pages - most));
        top += 2 * CELL_H;
    }
    return top;
}

/* ---- caption ------------------------------------------------------------------------------------- */

static int64_t padding_elements(const struct layout *l, const int64_t *local)
{
    int64_t padded = 1, all;
    for (int d = 0; d < l->shape->rank; d++)
        if (!mul_ok(local[d], sharding_tile(l->sh, l->id, d), &all) || !mul_ok(padded, all, &padded))
            return -1;
    return padded - l->shape->count;
}

enum { CAPTION_ROOM = 80 }; /* columns; pages of a terminal have no more */

/* A line of the caption, cut at its last comma where it is too long. Returns where the next one begins. */
static double caption_line(struct layout *l, const char *text, double top)
{
    while (scene_text_columns(text) > CAPTION_ROOM) {
        const char *cut = NULL;
        int columns = 0;
        for (const char *p = text; *p && columns < CAPTION_ROOM; p++) {
            columns += ((unsigned char)*p & 0xc0) != 0x80;
            if (p[0] == ',' && p[1] == ' ')
                cut = p + 2;
        }
        if (!cut)
            break;
        scene_put_text(l->scene, ROLE_CAPTION, 0, top, ALIGN_LEFT, arena_strndup(l->a, text, (size_t)(cut - text)));
        top += CELL_H;
        text = cut;
    }
    scene_put_text(l->scene, ROLE_CAPTION, 0, top, ALIGN_LEFT, text);
    return top + CELL_H;
}

static double add_caption(struct layout *l, const char *name, double top)
{
    int64_t local[32];
    sharding_shard_dims(l->sh, l->id, l->shape->rank, l->shape->dims, local);
    if (l->o->title) {
        scene_put_text(l->scene, ROLE_LABEL, 0, top, ALIGN_LEFT, scene_short(l->a, l->o->title, CAPTION_ROOM));
        top += CELL_H;
    }
    struct str s = STR_IN(l->a), safe = STR_IN(l->a);
    str_add_safe(&safe, name, strlen(name));
    str_addf(&s, "%s   %s[", scene_short(l->a, str_text(&safe), CAPTION_ROOM / 2), dtype_name(l->shape->dtype));
    for (int d = 0; d < l->shape->rank; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : "", l->shape->dims[d]);
    str_adds(&s, "]   ");
    scene_put_text(l->scene, ROLE_CAPTION, 0, top, ALIGN_LEFT, str_text(&s))->bold = true;
    bool below = scene_text_columns(str_text(&s)) + scene_text_columns(l->spelled) > CAPTION_ROOM;
    top += below ? CELL_H : 0;
    scene_add_spelled(l->scene, ROLE_CAPTION, l->mesh, l->spelled,
                      below ? 0 : CELL_W * scene_text_columns(str_text(&s)), top, true);
    l->scene->title = arena_printf(l->a, "%s%s", str_text(&s), l->spelled);

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
    if (l->copies > 1 && !l->manual)
        str_addf(&m, ", %" PRId64 " copies of each", l->copies);
    str_addf(&m, ", %s a device", scene_bytes(l->a, bytes));
    if (pad > 0)
        str_addf(&m, ", padding %" PRId64 " elements", pad);
    return caption_line(l, str_text(&m), top + CELL_H) + CELL_H;
}

/* ---- sizes --------------------------------------------------------------------------------------- */

/* Numbers in the cells: only where all of the array is there to be read. */
static bool shows_values(struct layout *l)
{
    if (!l->o->value || l->shape->count <= 0 || l->shape->count > MOST_VALUES || l->o->device_view)
        return false;
    int64_t index[32] = { 0 }, widest_number = 1;
    for (int64_t k = 0; k < l->shape->count; k++) {
        const char *v = l->o->value(l->o->value_context, index);
        widest_number = max_i64(widest_number, v ? (int64_t)strlen(v) : 1);
        for (int d = l->shape->rank - 1; d >= 0 && ++index[d] == l->shape->dims[d]; d--)
            index[d] = 0;
    }
    l->cell = CELL_W * (double)(widest_number + 2);
    return widest_number <= 24 && l->rows.n == l->rows.tiles && l->cols.n == l->cols.tiles;
}

static void measure(struct layout *l)
{
    memset(l->index, 0, sizeof l->index);
    /* the widest label: that of the last tile, with the largest ids */
    for (int d = 0; d < l->shape->rank; d++)
        l->index[d] = sharding_tile(l->sh, l->id, d) - 1;
    size_t label = strlen(holders(l)) + (l->copies > 1 ? 6 : 0) + (l->o->partial ? 2 : 0);
    memset(l->index, 0, sizeof l->index);
    double need = (double)label + 3, ruler = widest(l, &l->cols) + 2;
    double wanted = 60.0 / l->cols.n;
    double cells = wanted > need ? wanted : need;
    cells = cells > ruler ? cells : ruler;
    cells = cells > 24 ? (need > 24 ? need : 24) : cells;
    l->cols.step = CELL_W * (double)(int64_t)cells;
    int lines = l->rows.n <= 2 ? 4 : l->rows.n <= 4 ? 3 : 2;
    l->rows.step = CELL_H * (double)lines;
    l->values = shows_values(l);
    if (!l->values)
        return;
    double labelled = CELL_W * (need > ruler ? need : ruler);
    if (l->cell * (double)l->cols.tile < labelled)
        l->cell = CELL_W * (double)ceil_div((int64_t)labelled / CELL_W, l->cols.tile);
    l->cols.step = l->cell * (double)l->cols.tile;
    l->rows.step = CELL_H * (double)(l->rows.tile + 2); /* a line for the label, one for the border of text */
}

static bool too_wide(const struct layout *l)
{
    return l->o->narrow && ruler_width(l) + l->cols.n * l->cols.step > CELL_W * (CAPTION_ROOM - 1);
}

/* One line of tiles that does not fit a page runs down instead. */
static bool turn_down(struct layout *l)
{
    if (!too_wide(l) || l->rows.tiles > 1 || l->cols.n < l->cols.tiles || l->values || l->shape->rank > 2 ||
        l->o->rows_dim >= 0 || l->o->cols_dim >= 0)
        return false;
    struct strip line = l->cols;
    l->cols = l->rows;
    l->rows = line;
    measure(l);
    return true;
}

static int64_t copies_of(const struct layout *l)
{
    if (l->s->kind == SHARDING_TILED)
        return sharding_total(l->sh, l->id) / sharding_num_tiles(l->sh, l->id);
    return l->s->kind == SHARDING_REPLICATED ? l->ndevices : 1;
}

static double draw(struct layout *l, struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                   sharding_id s, const struct layout_options *o, struct arena *a)
{
    static const struct layout_options plain = { .rows_dim = -1, .cols_dim = -1 };
    *l = (struct layout){ .ir = c, .sh = c->shardings, .mesh = mesh, .a = a, .o = o ? o : &plain };
    l->shape = shape_get(c, shape);
    l->id = s.i ? s : sharding_replicated(c->shardings);
    l->s = sharding_get(c->shardings, l->id);
    l->ndevices = l->o->ndevices > 0 ? l->o->ndevices : mesh ? mesh_devices(mesh) : 0;
    l->scene = scene_new(a);
    l->copies = copies_of(l);
    l->named = MAX_NAMED;
    l->manual = l->s->kind == SHARDING_MANUAL || sharding_is_manual_subgroup(l->sh, l->id);
    struct str spelled = STR_IN(a);
    sharding_spell(l->sh, mesh, l->id, mesh ? SPELL_AXES : SPELL_HLO, &spelled);
    l->spelled = str_text(&spelled);
    l->word = strchr(name, ' ') ? NULL : arena_strdup(a, name);
    double top = add_caption(l, name, 0);
    int rows, cols;
    choose_dims(l, &rows, &cols);
    int64_t most = scene_most_shown(l->o->max_tiles);
    if ((l->o->max_tiles <= 0 || l->o->narrow) && sharding_num_tiles(l->sh, l->id) <= FEW_TILES)
        most = max_i64(most, FEW_TILES);
    l->rows = strip_of(l, rows);
    l->cols = strip_of(l, cols);
    l->rows.n = scene_shown(a, l->rows.tiles, most, &l->rows.at);
    l->cols.n = scene_shown(a, l->cols.tiles, most, &l->cols.at);
    measure(l);
    bool turned = turn_down(l);
    while (too_wide(l)) {
        if (l->cols.n > 3)
            l->cols.n = scene_shown(a, l->cols.tiles, min_i64(most, l->cols.n - 1), &l->cols.at);
        else if (l->named > 1)
            l->named--;
        else
            break;
        measure(l);
    }
    if (l->shape->rank > 2 || (turned && l->shape->rank == 2)) {
        scene_put_text(l->scene, ROLE_RULER, 0, top - CELL_H, ALIGN_LEFT,
                 arena_printf(l->a, "dim %d runs down, dim %d to the right", l->rows.dim, l->cols.dim));
        top += CELL_H;
    }
    return draw_pages(l, top);
}

struct scene *view_layout_part(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                               sharding_id s, const struct layout_options *o, struct arena *a)
{
    struct layout *l = ARENA_NEW(a, struct layout);
    l->scene = NULL;
    double end = draw(l, c, mesh, name, shape, s, o, a);
    l->scene->height = end;
    scene_measure(l->scene);
    return l->scene;
}

struct scene *view_layout(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                          sharding_id s, const struct layout_options *o, struct arena *a)
{
    struct scene *scene = view_layout_part(c, mesh, name, shape, s, o, a);
    double top = scene->height;
    scene->height = 0;
    scene_measure(scene);
    scene_add_legend(scene, top, "numbers in a tile: the devices that hold it");
    return scene;
}
