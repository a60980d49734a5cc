/* Tables: rows of cells, in columns as wide as their widest cell. */
#include <string.h>

#include "repl/commands.h"
#include "repl/report.h"

void table_init(struct table *t, struct arena *a, const char *const *heads)
{
    *t = (struct table){ .arena = a };
    for (; heads[t->n] && t->n < TABLE_COLUMNS; t->n++) {
        t->right[t->n] = heads[t->n][0] == '>';
        t->head[t->n] = heads[t->n] + t->right[t->n];
    }
}

const char **table_row(struct table *t)
{
    const char **row = ARENA_ARRAY(t->arena, const char *, TABLE_COLUMNS);
    vec_push(t->arena, &t->rows, row);
    return row;
}

static int width_of(const char *s)
{
    int w = 0;
    for (; s && *s; s++)
        w += ((unsigned char)*s & 0xc0) != 0x80;
    return w;
}

static void add_cell(struct str *s, const char *text, int width, bool right, bool last, int gap)
{
    int pad = width - width_of(text);
    for (int k = 0; right && k < pad; k++)
        str_addc(s, ' ');
    str_adds(s, text ? text : "");
    for (int k = 0; !right && !last && k < pad; k++)
        str_addc(s, ' ');
    if (!last)
        str_addf(s, "%*s", gap, "");
}

static void trim_end(struct str *s)
{
    while (s->n > 0 && s->s[s->n - 1] == ' ')
        s->s[--s->n] = '\0';
}

/* How wide each column is, and whether its cells are folded to that. */
struct layout {
    int width[TABLE_COLUMNS], word[TABLE_COLUMNS]; /* word: the longest, which is not broken */
    bool used[TABLE_COLUMNS], folded[TABLE_COLUMNS], any_folded;
    int last, gap;
    int tail; /* columns from here on are words behind the others, or below them; last + 1: none are */
    bool below; /* of one row at least they do not fit behind, and the head's are below, too */
};

static int longest_word(const char *p)
{
    int most = 0;
    for (size_t n; p && *p; p += n + (p[n] == ' ')) {
        n = strcspn(p, " ");
        int w = 0;
        for (size_t k = 0; k < n; k++)
            w += ((unsigned char)p[k] & 0xc0) != 0x80;
        most = w > most ? w : most;
    }
    return most;
}

static void measure_cell(struct layout *l, int k, const char *text)
{
    int w = width_of(text), word = longest_word(text);
    l->width[k] = w > l->width[k] ? w : l->width[k];
    l->word[k] = word > l->word[k] ? word : l->word[k];
}

static void measure(struct layout *l, const struct table *t, bool with_head)
{
    for (int64_t r = 0; r < t->rows.n; r++)
        for (int k = 0; k < t->n; k++)
            measure_cell(l, k, t->rows.v[r][k]);
    for (int k = 0; k < t->n; k++) {
        l->used[k] = l->width[k] > 0;
        if (!l->used[k])
            continue;
        l->last = k;
        if (with_head)
            measure_cell(l, k, t->head[k]);
    }
}

/* Of columns 0 .. n - 1. */
static int width_to(const struct layout *l, int n)
{
    int width = 0;
    for (int k = 0; k < n; k++)
        width += l->used[k] ? l->width[k] + (k + 1 < n ? l->gap : 0) : 0;
    return width;
}

/* A cell is folded to half its width, not less, and between words. */
static int least_width(const struct layout *l, int k)
{
    enum { LEAST = 12 };
    int half = (l->width[k] + 1) / 2, least = half > LEAST ? half : LEAST;
    return l->word[k] > least ? l->word[k] : least;
}

/* Folds the widest texts, standing closer together; false: that is not enough, and l is as it was. */
static bool fold_columns(struct layout *l, const struct table *t, int columns)
{
    struct layout to = *l;
    int least[TABLE_COLUMNS];
    for (int k = 0; k <= l->last; k++)
        least[k] = t->right[k] || !l->used[k] ? l->width[k] : least_width(l, k);
    to.gap = 1;
    for (int over; (over = width_to(&to, to.last + 1) - columns) > 0;) {
        int best = -1, most = 0; /* the column that can give most */
        for (int k = 0; k <= to.last; k++)
            if (to.width[k] - least[k] > most) {
                most = to.width[k] - least[k];
                best = k;
            }
        if (best < 0)
            return false;
        to.width[best] -= over < most ? over : most;
        to.folded[best] = to.any_folded = true;
    }
    *l = to;
    return true;
}

/* A table wider than the terminal stands closer together and folds its widest texts; where that is not
 * enough its last columns leave the grid: at least two columns stay, or none. */
static void fit(struct layout *l, const struct table *t, int columns)
{
    enum { CELL_MOST = 72, LEAST_GRID = 2 };
    l->tail = l->last + 1;
    if (columns > 0 && width_to(l, l->tail) > columns && !fold_columns(l, t, columns)) {
        int in_grid = 0;
        while (l->tail > 0 && width_to(l, l->tail) > columns)
            l->tail--;
        for (int k = 0; k < l->tail; k++)
            in_grid += l->used[k];
        l->tail = in_grid < LEAST_GRID ? 0 : l->tail;
    }
    /* One odd row must not push every other row off the screen. */
    for (int k = 0; k <= l->last; k++)
        l->width[k] = l->width[k] > CELL_MOST ? CELL_MOST : l->width[k];
}

static int first_bytes(const char *s, int columns)
{
    const char *p = s;
    for (; *p && columns > 0; columns--)
        for (p++; ((unsigned char)*p & 0xc0) == 0x80;)
            p++;
    return (int)(p - s);
}

/* What takes more than half a line, a tuple's type say, is told by its beginning; files, and an
 * answer of one row, have it whole. */
static struct table shortened(const struct table *t, int most, struct arena *a)
{
    struct table to = *t;
    if (t->rows.n < 2 || most < 4)
        return to;
    to.rows.v = ARENA_ARRAY(a, const char **, t->rows.n);
    for (int64_t r = 0; r < t->rows.n; r++) {
        to.rows.v[r] = arena_copy(a, t->rows.v[r], TABLE_COLUMNS, sizeof *to.rows.v[r]);
        for (int k = 0; k + 1 < t->n; k++) {
            const char *cell = t->rows.v[r][k];
            if (width_of(cell) > most)
                to.rows.v[r][k] = arena_printf(a, "%.*s...", first_bytes(cell, most - 3), cell);
        }
    }
    return to;
}

static void add_line(struct str *s, const struct layout *l, const struct table *t, const char *const *cells)
{
    for (int k = 0; k < l->tail; k++)
        if (l->used[k])
            add_cell(s, cells[k], l->width[k], t->right[k], k + 1 == l->tail, l->gap);
    trim_end(s);
}

/* The first line of a folded cell; *rest: what is behind it. */
static const char *first_line(struct arena *a, const char **rest)
{
    size_t n = strcspn(*rest, "\n");
    const char *line = arena_strndup(a, *rest, n);
    *rest += n;
    *rest += strspn(*rest, "\n ");
    return line;
}

/* The cells that are not in the grid as one line of words, numbers with the head of their column. */
static const char *tail_words(struct arena *a, const struct layout *l, const struct table *t, const char *const *cells)
{
    struct str line = STR_IN(a);
    bool head = cells == t->head;
    for (int k = l->tail; k <= l->last; k++)
        if (l->used[k] && cells[k] && cells[k][strspn(cells[k], " ")])
            str_addf(&line, "%s%s%s%s", line.n ? "  " : "", t->right[k] && !head ? t->head[k] : "",
                     t->right[k] && !head && t->head[k][0] ? " " : "", cells[k]);
    return str_text(&line);
}

/* Whether a row's tail has no room behind its grid. */
static bool is_below(struct arena *a, const struct layout *l, const struct table *t, const char *const *cells, int columns)
{
    const char *words = tail_words(a, l, t, cells);
    return *words && width_to(l, l->tail) + l->gap + width_of(words) > columns;
}

/* The tail behind the grid's line where there is room, else below it, further in. */
static void add_tail(struct str *s, const struct layout *l, const struct table *t, const char *const *cells, int columns)
{
    enum { INDENT = 4 };
    const char *words = tail_words(s->arena, l, t, cells);
    if (!*words)
        return;
    if (l->tail == 0) {
        fold_hanging(s, words, strlen(words), columns, INDENT);
        return;
    }
    struct str line = STR_IN(s->arena);
    add_line(&line, l, t, cells);
    bool below = cells == t->head ? l->below : is_below(s->arena, l, t, cells, columns);
    if (!below) {
        str_addf(s, "%*s%s", width_to(l, l->tail) + l->gap - width_of(str_text(&line)), "", words);
        return;
    }
    struct str indented = STR_IN(s->arena);
    str_addf(&indented, "%*s%s", INDENT, "", words);
    str_addc(s, '\n');
    fold_hanging(s, str_text(&indented), indented.n, columns, INDENT + 2);
}

static void add_row(struct str *s, const struct layout *l, const struct table *t, const char *const *cells, int columns)
{
    if (!l->any_folded) {
        add_line(s, l, t, cells);
        add_tail(s, l, t, cells, columns);
        return;
    }
    const char *rest[TABLE_COLUMNS], *line[TABLE_COLUMNS];
    for (int k = 0; k <= l->last; k++) {
        struct str folded = STR_IN(s->arena);
        if (l->folded[k] && cells[k])
            fold_lines(&folded, cells[k], strlen(cells[k]), l->width[k]);
        rest[k] = folded.n ? str_text(&folded) : cells[k] ? cells[k] : "";
    }
    for (bool more = true, first = true; more; first = false) {
        more = false;
        str_adds(s, first ? "" : "\n");
        for (int k = 0; k <= l->last; k++) {
            line[k] = first_line(s->arena, &rest[k]);
            more = more || rest[k][0];
        }
        add_line(s, l, t, line);
    }
}

/* What of the table fits `columns`: *out_fitted has its long cells cut. */
static struct layout layout_of(struct table *t, int columns, bool with_head, struct table *out_fitted)
{
    enum { NAME = 32 }; /* so much of a cell is told on any terminal */
    struct layout l = { .gap = 2, .last = -1 };
    *out_fitted = columns > 0 ? shortened(t, columns / 2 > NAME ? columns / 2 : NAME, t->arena) : *t;
    measure(&l, out_fitted, with_head);
    fit(&l, out_fitted, columns);
    if (l.tail == 0 && l.last >= 0)
        *out_fitted = shortened(t, 2 * columns, t->arena);
    for (int64_t r = 0; r < t->rows.n && l.tail <= l.last && !l.below; r++)
        l.below = is_below(t->arena, &l, out_fitted, out_fitted->rows.v[r], columns);
    return l;
}

bool table_has_long_rows(const struct call *c, struct table *t)
{
    struct table fitted;
    struct layout l = layout_of(t, c->sh->columns, true, &fitted);
    return l.below || l.any_folded;
}

void table_print(struct call *c, struct table *t, bool with_head)
{
    if (c->sh->blocks && !c->json) {
        blocks_answer(c->sh->blocks, str_text(&c->out), c->out.n);
        c->out.n = 0;
        blocks_table(c->sh->blocks, t, with_head);
        return;
    }
    int columns = c->sh->columns;
    struct table fitted;
    struct layout l = layout_of(t, columns, with_head, &fitted);
    if (with_head && t->rows.n && (l.tail > 0 || l.last < 0)) {
        str_adds(&c->out, c->sh->color ? "\033[1m" : "");
        add_row(&c->out, &l, t, t->head, columns);
        str_adds(&c->out, c->sh->color ? "\033[0m\n" : "\n");
    }
    for (int64_t r = 0; r < t->rows.n; r++) {
        add_row(&c->out, &l, &fitted, fitted.rows.v[r], columns);
        str_addc(&c->out, '\n');
    }
}
