/* The text backend: a scene on a grid of cells, 6 x 12 points each.
 *
 * Boxes are lines between cells' centres, kept as four direction bits a cell so that neighbours'
 * borders join; states fill the inside (stripes, crosshatch); labels go on top.
 */
#include <string.h>

#include "viz/palette.h"
#include "viz/scene.h"

enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

struct cell {
    uint8_t lines;
    char fill;       /* 's' stripes, 'p' hatch, 'x' crosshatch, 'b' block, 0 */
    bool glyph;      /* a character of a label: text[] */
    char text[5];    /* one UTF-8 character */
    int64_t device;  /* for colour; -1 */
};

struct grid {
    int columns, rows;
    struct cell *cells;
};

static struct cell *at(struct grid *g, int x, int y)
{
    static struct cell outside;
    if (x < 0 || y < 0 || x >= g->columns || y >= g->rows)
        return &outside;
    return &g->cells[(int64_t)y * g->columns + x];
}

static int column(double x)
{
    return (int)(x / CELL_W + 0.5);
}

static int row(double y)
{
    return (int)(y / CELL_H + 0.5);
}

static void line(struct grid *g, int x0, int y0, int x1, int y1)
{
    for (int x = x0; y0 == y1 && x <= x1; x++)
        at(g, x, y0)->lines |= (uint8_t)((x > x0 ? LEFT : 0) | (x < x1 ? RIGHT : 0));
    for (int y = y0; x0 == x1 && y <= y1; y++)
        at(g, x0, y)->lines |= (uint8_t)((y > y0 ? UP : 0) | (y < y1 ? DOWN : 0));
}

static size_t utf8_step(const char *s)
{
    size_t n = 1;
    while (((unsigned char)s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

static int text_width(const char *s)
{
    int n = 0;
    for (; *s; s += utf8_step(s))
        n++;
    return n;
}

static void put_text(struct grid *g, int x, int y, int most, const char *s)
{
    for (int i = 0; *s && i < most; i++) {
        size_t n = utf8_step(s);
        struct cell *c = at(g, x + i, y);
        c->glyph = true;
        memset(c->text, 0, sizeof c->text);
        memcpy(c->text, s, n < 4 ? n : 4);
        s += n;
    }
}

static void fill(struct grid *g, int x0, int y0, int x1, int y1, char how, int64_t device)
{
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++) {
            at(g, x, y)->fill = how;
            at(g, x, y)->device = device;
        }
}

/* Padding has no border of its own: it fills what is inside the tile's border, one cell at least. */
static void draw_padding(struct grid *g, const struct scene_item *it)
{
    int x0 = column(it->x), x1 = column(it->x + it->w), y0 = row(it->y), y1 = row(it->y + it->h);
    if (x1 - x0 < 2)
        x0 = x1 - 2;
    if (y1 - y0 < 2)
        y0 = y1 - 2;
    fill(g, x0 + 1, y0 + 1, x1 - 1, y1 - 1, 'x', -1);
}

static char fill_of(const struct scene_item *it)
{
    return it->state & STATE_PADDING ? 'x' : it->state & STATE_PARTIAL ? 'p' : it->state & STATE_REPLICATED ? 's' : 0;
}

/* What a device holds of a bar: a block without a border, one cell at least. */
static void draw_block(struct grid *g, int x0, int y0, int x1, int y1, int64_t device)
{
    for (int y = y0; y < y1 || y == y0; y++)
        for (int x = x0; x < x1 || x == x0; x++) {
            at(g, x, y)->lines = 0;
            at(g, x, y)->fill = 'b';
            at(g, x, y)->device = device;
        }
}

static void draw_box(struct grid *g, const struct scene_item *it)
{
    int x0 = column(it->x), x1 = column(it->x + it->w), y0 = row(it->y), y1 = row(it->y + it->h);
    if (it->role == ROLE_LEGEND) {
        unsigned textures = STATE_PADDING | STATE_REPLICATED | STATE_PARTIAL;
        fill(g, x0, y0, x1 - 1, y0, it->state & textures ? fill_of(it) : 0, it->device);
        if (it->state & (STATE_CHANGED | STATE_HELD | STATE_CHOSEN))
            put_text(g, x0, y0, 1, "*");
        if (it->state & STATE_HELD)
            draw_block(g, x0 + 1, y0, x0 + 2, y0, it->device);
        else if (it->state & STATE_OPEN)
            put_text(g, x0, y0, 1, "?");
        else if (it->state & STATE_MANUAL)
            put_text(g, x0, y0, 1, ":");
        return;
    }
    if (it->state & STATE_PADDING) {
        draw_padding(g, it);
        return;
    }
    if (it->state & STATE_HELD && !it->text) {
        draw_block(g, x0, y0, x1, y1, it->device);
        return;
    }
    line(g, x0, y0, x1, y0);
    line(g, x0, y1, x1, y1);
    line(g, x0, y0, x0, y1);
    line(g, x1, y0, x1, y1);
    if (it->role == ROLE_TILE)
        fill(g, x0 + 1, y0 + 1, x1 - 1, y1 - 1, fill_of(it), scene_color(it));
}

static void draw_label(struct grid *g, const struct scene_item *it)
{
    double w = it->label_w > 0 ? it->label_w : it->w;
    double h = it->label_h >= 2 * CELL_H ? it->label_h : it->h; /* less than two lines: all of the box */
    int x0 = column(it->x), x1 = column(it->x + w), y0 = row(it->y), y1 = row(it->y + h);
    bool strong = it->state & (STATE_CHANGED | STATE_HELD | STATE_CHOSEN);
    int room = x1 - x0 - 1, want = text_width(it->text) + (strong ? 2 : 0);
    int x = x0 + 1 + (room > want ? (room - want) / 2 : 0), y = (y0 + y1) / 2;
    /* a blank on both sides keeps the label off the stripes */
    if (room > want + 1) {
        put_text(g, x - 1, y, 1, " ");
        put_text(g, x + want, y, 1, " ");
    }
    if (strong) {
        put_text(g, x, y, 2, "* ");
        x += 2;
        room -= 2;
    }
    put_text(g, x, y, room, it->text);
}

/* What runs straight is drawn; slopes and curves have no characters. */
static void draw_path(struct grid *g, const struct scene_item *it)
{
    for (int k = 0; k + 1 < it->npoints && !it->curve; k++) {
        const double *v = &it->points[2 * k];
        int x0 = column(v[0]), y0 = row(v[1]), x1 = column(v[2]), y1 = row(v[3]);
        if (x0 == x1 || y0 == y1)
            line(g, x0 < x1 ? x0 : x1, y0 < y1 ? y0 : y1, x0 < x1 ? x1 : x0, y0 < y1 ? y1 : y0);
    }
}

static void draw_text(struct grid *g, const struct scene_item *it)
{
    int n = text_width(it->text), x = column(it->x);
    if (it->align == ALIGN_CENTER)
        x -= n / 2;
    else if (it->align == ALIGN_RIGHT)
        x -= n - 1;
    /* the middle between two cells: the upper one, where a box has its label, too */
    put_text(g, x < 0 ? 0 : x, row(it->middle ? it->y - 0.1 : it->y), g->columns, it->text);
}

static const char *line_glyph(uint8_t lines, bool ascii)
{
    static const char *const unicode[16] = { " ", "│", "│", "│", "─", "┘", "┐", "┤",
                                             "─", "└", "┌", "├", "─", "┴", "┬", "┼" };
    static const char *const plain[16] = { " ", "|", "|", "|", "-", "+", "+", "+",
                                           "-", "+", "+", "+", "-", "+", "+", "+" };
    return ascii ? plain[lines] : unicode[lines];
}

/* What stands for a character in ASCII. */
static const char *plain_glyph(const char *utf8)
{
    static const char *const plain[][2] = { { "Σ", "+" }, { "×", "x" }, { "→", ">" }, { "←", "<" },
                                            { "▷", ">" }, { "◁", "<" }, { "⤨", "X" }, { "↷", "~" },
                                            { "│", "|" }, { "─", "-" }, { "…", "." } };
    if (!(utf8[0] & 0x80))
        return utf8;
    for (size_t k = 0; k < COUNTOF(plain); k++)
        if (!strcmp(plain[k][0], utf8))
            return plain[k][1];
    return "?";
}

static const char *cell_glyph(const struct cell *c, int x, int y, bool ascii)
{
    if (c->glyph)
        return ascii ? plain_glyph(c->text) : c->text;
    if (c->lines)
        return line_glyph(c->lines, ascii);
    if (c->fill == 'x')
        return ascii ? "#" : "▒";
    if (c->fill == 'b')
        return ascii ? "@" : "▓";
    if (c->fill == 'p')
        return x % 2 ? " " : ascii ? "=" : "═";
    if (c->fill == 's')
        return (x + y) % 2 ? " " : ascii ? "/" : "╱";
    return " ";
}

static bool is_colored(const struct cell *c)
{
    return c->device >= 0 && !c->lines;
}

static void write_row(struct grid *g, int y, const struct text_options *o, struct str *out)
{
    int last = g->columns - 1;
    while (last >= 0 && strcmp(cell_glyph(at(g, last, y), last, y, o->ascii), " ") == 0 &&
           !(o->color && is_colored(at(g, last, y))))
        last--;
    int64_t on = -1;
    for (int x = 0; x <= last; x++) {
        const struct cell *c = at(g, x, y);
        int64_t want = o->color && is_colored(c) ? c->device : -1;
        if (want != on) {
            if (want < 0)
                str_adds(out, "\x1b[0m");
            else
                str_addf(out, "\x1b[30;48;5;%dm", palette_ansi(palette_device(want)));
            on = want;
        }
        str_adds(out, cell_glyph(c, x, y, o->ascii));
    }
    if (on >= 0)
        str_adds(out, "\x1b[0m");
    str_addc(out, '\n');
}

static int widest_row(const struct scene *s)
{
    int most = 0;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        int right = column(it->x + it->w) + 1;
        if (it->kind == SCENE_TEXT)
            right = column(it->x) + (it->align == ALIGN_LEFT ? text_width(it->text)
                                     : it->align == ALIGN_CENTER ? text_width(it->text) / 2 + 1
                                                                 : 1);
        most = right > most ? right : most;
    }
    return most;
}

void scene_text(const struct scene *s, const struct text_options *o, struct str *out)
{
    enum { WIDEST = 400 };
    struct grid g = { .columns = widest_row(s), .rows = row(s->height) + 1 };
    if (g.columns > WIDEST)
        g.columns = WIDEST;
    if (o->columns > 0 && g.columns > o->columns)
        g.columns = o->columns;
    g.cells = ARENA_ARRAY(s->arena, struct cell, (int64_t)g.columns * g.rows);
    for (int64_t i = 0; i < (int64_t)g.columns * g.rows; i++)
        g.cells[i].device = -1;
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_BOX)
            draw_box(&g, it);
        else if (it->kind == SCENE_PATH)
            draw_path(&g, it);
        else if (it->kind == SCENE_LINE)
            line(&g, column(it->x), row(it->y), column(it->x + it->w), row(it->y + it->h));
    }
    for (int64_t i = 0; i < s->items.n; i++) {
        const struct scene_item *it = &s->items.v[i];
        if (it->kind == SCENE_BOX && it->text && it->role != ROLE_LEGEND)
            draw_label(&g, it);
        else if (it->kind == SCENE_TEXT)
            draw_text(&g, it);
    }
    int last = g.rows - 1;
    struct str tmp = STR_IN(s->arena);
    for (int y = 0; y <= last; y++) {
        size_t before = tmp.n;
        write_row(&g, y, o, &tmp);
        if (y == last && tmp.n == before + 1)
            tmp.n = before;
    }
    while (tmp.n >= 2 && tmp.s[tmp.n - 1] == '\n' && tmp.s[tmp.n - 2] == '\n')
        tmp.n--;
    str_add(out, str_text(&tmp), tmp.n);
}
