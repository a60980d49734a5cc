/* Words for values, and tables. */
#include <math.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/report.h"

const char *with_commas(struct arena *a, int64_t v)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRId64, v);
    struct str s = STR_IN(a);
    for (int k = 0; k < n; k++) {
        if (k > 0 && (n - k) % 3 == 0 && digits[k - 1] != '-')
            str_addc(&s, ',');
        str_addc(&s, digits[k]);
    }
    return str_text(&s);
}

const char *counted(struct arena *a, int64_t n, const char *noun)
{
    return arena_printf(a, "%s %s%s", with_commas(a, n), noun, n == 1 ? "" : "s");
}

static bool is_paragraph(const char *line)
{
    return *line && !strchr(" \t\n", *line);
}

/* Points of a list, and "See also". */
static bool begins_anew(const char *line)
{
    return !strncmp(line, "- ", 2) || !strncmp(line, "See also:", 9) ||
           (*line >= '0' && *line <= '9' && line[1] == '.');
}

/* The words of one paragraph, `columns` wide; what is behind it. */
static const char *fill(struct str *s, struct arena *a, const char *p, int columns)
{
    int at = 0;
    while (is_paragraph(p)) {
        size_t n = strcspn(p, " \n");
        int wide = scene_text_columns(arena_strndup(a, p, n));
        if (at > 0 && at + 1 + wide > columns) {
            str_addc(s, '\n');
            at = 0;
        }
        str_addf(s, "%s%.*s", at > 0 ? " " : "", (int)n, p);
        at += wide + (at > 0);
        p += n;
        p += strspn(p, " ");
        if (*p != '\n')
            continue;
        p++;
        if (begins_anew(p))
            break;
    }
    str_addc(s, '\n');
    return p;
}

const char *prose(struct arena *a, const char *text, int columns)
{
    if (columns <= 0)
        return text;
    struct str s = STR_IN(a);
    for (const char *p = text; *p;) {
        const char *end = p;
        bool wide = false;
        for (; is_paragraph(end); end += strcspn(end, "\n"), end += *end == '\n')
            wide = wide ||
                   scene_text_columns(arena_strndup(a, end, strcspn(end, "\n"))) > columns;
        if (wide) {
            p = fill(&s, a, p, columns);
            continue;
        }
        if (end == p) { /* an empty line, or an example */
            end += strcspn(end, "\n");
            end += *end == '\n';
        }
        str_addf(&s, "%.*s", (int)(end - p), p);
        p = end;
    }
    return str_text(&s);
}

/* The character at p: its bytes, and whether it takes room. */
static size_t character(const char *p, const char *end, int *wide)
{
    *wide = *p != '\033';
    const char *q = p + 1;
    if (*p == '\033') {
        while (q < end && !(*q >= '@' && *q <= '~' && *q != '['))
            q++;
        return (size_t)(q - p) + (q < end);
    }
    while (q < end && ((unsigned char)*q & 0xc0) == 0x80)
        q++;
    return (size_t)(q - p);
}

/* Where to break a line at the latest: behind its last blank within `columns`; its end when it fits, or
 * when it has no blank there. */
static const char *line_part(const char *p, const char *end, int columns)
{
    const char *cut = NULL;
    int at = 0, wide;
    for (const char *q = p; q < end; at += wide) {
        if (*q == ' ' && q > p && q[-1] != ' ')
            cut = at <= columns ? q : cut;
        q += character(q, end, &wide);
        if (at + wide > columns)
            return cut ? cut : end;
    }
    return end;
}

/* How far in the rest of a line goes: under its text where it is "label   text", else a little further
 * than it began. */
static int hanging(const char *p, const char *end, int columns)
{
    int in = 0, at, wide;
    while (p + in < end && p[in] == ' ')
        in++;
    at = in;
    for (const char *q = p + in; q < end && at < columns / 3; at += wide) {
        if (at > in && *q == ' ' && q + 1 < end && q[1] == ' ') {
            while (q < end && *q == ' ')
                q++, at++;
            return at < columns / 2 ? at : in + 2;
        }
        q += character(q, end, &wide);
    }
    return in + 2 < columns / 2 ? in + 2 : columns / 2;
}

/* One line, its rest `hang` in. */
static void fold_hanging(struct str *to, const char *p, size_t n, int columns, int hang)
{
    const char *end = p + n, *from = p;
    while (p < end && *p == ' ') /* the line's own blanks are no place to break it */
        p++;
    const char *cut = line_part(p, end, columns - (int)(p - from));
    str_add(to, from, (size_t)(cut - from));
    for (p = cut; p < end; p = cut) {
        while (p < end && *p == ' ')
            p++;
        if (p == end)
            break;
        cut = line_part(p, end, columns - hang);
        str_addf(to, "\n%*s%.*s", hang, "", (int)(cut - p), p);
    }
}

void fold_lines(struct str *to, const char *text, size_t n, int columns)
{
    const char *stop = text + n;
    for (const char *p = text; p < stop;) {
        const char *end = memchr(p, '\n', (size_t)(stop - p));
        end = end ? end : stop;
        fold_hanging(to, p, (size_t)(end - p), columns, hanging(p, end, columns));
        if (end < stop)
            str_addc(to, '\n');
        p = end + (end < stop);
    }
}

const char *nice_bytes(struct arena *a, int64_t v)
{
    if (v < 0)
        return "too many bytes to count";
    if (v < 1024 * 100)
        return arena_printf(a, "%s bytes", with_commas(a, v));
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double x = (double)v / 1024;
    int u = 0;
    while (x >= 1000 && u < 5) {
        x /= 1024;
        u++;
    }
    return arena_printf(a, "%.*f %s", x < 100 ? 1 : 0, x, units[u]);
}

const char *label_of(struct call *c, instr_id i)
{
    struct str s = STR_IN(&c->arena);
    instr_label(document_module(c->sh->doc), i, true, &s);
    return str_text(&s);
}

const char *tensor_name(struct call *c, instr_id i)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, i);
    if (in->op == OP_PARAMETER && in->comp.i == m->entry.i) {
        const char *arg = instr_arg_name(m, i);
        if (arg[0]) {
            struct str s = STR_IN(&c->arena);
            str_add_safe(&s, arg, strlen(arg));
            return str_text(&s);
        }
    }
    return label_of(c, i);
}

const char *shape_text(struct call *c, shape_id s)
{
    struct str t = STR_IN(&c->arena);
    shape_print(document_ir(c->sh->doc), s, false, &t);
    return str_text(&t);
}

const char *hlo_text(struct call *c, sharding_id s)
{
    if (!s.i)
        return NULL;
    struct str t = STR_IN(&c->arena);
    sharding_print(document_ir(c->sh->doc)->shardings, s, NULL, false, &t);
    return str_text(&t);
}

const char *spelled(struct call *c, sharding_id s)
{
    if (!s.i)
        return "-";
    struct str t = STR_IN(&c->arena);
    sharding_spell(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s,
                   document_strategy(c->sh->doc)->options.spelling, &t);
    return str_text(&t);
}

const char *spelled_of(struct call *c, sharding_id s, shape_id shape)
{
    struct str t = STR_IN(&c->arena);
    enum spelling how = document_strategy(c->sh->doc)->options.spelling;
    if (s.i && sharding_spell_as(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, how,
                                 spell_shapes(c, shape), &t, NULL))
        return str_text(&t);
    return spelled(c, s);
}

const char *working_label(struct call *c, const struct graph *g, instr_id w)
{
    instr_id source = g->origin[w.i].source;
    const struct module *m = document_module(c->sh->doc);
    if (source.i && source.i <= module_ninstrs(m))
        return tensor_name(c, source);
    int k = document_annotation_of(c->sh->doc, w, NULL);
    const struct strategy *now = document_strategy(c->sh->doc);
    if (k >= 0 && k < now->nannotations)
        return arena_printf(&c->arena, "the constraint on %s",
                            tensor_name(c, now->annotations[k].target));
    if (!instr_at(g->module, w)->name.i)
        return arena_printf(&c->arena, "a %s of the pass",
                            op_name((enum op_kind)instr_at(g->module, w)->op));
    struct str s = STR_IN(&c->arena);
    instr_label(g->module, w, true, &s);
    return str_text(&s);
}

const char *place_of(struct call *c, instr_id i)
{
    const char *file;
    int line;
    const struct module *m = document_module(c->sh->doc);
    if (!i.i || i.i > module_ninstrs(m) || !instr_source(m, i, &file, &line))
        return "";
    struct str s = STR_IN(&c->arena);
    str_add_safe(&s, file, strlen(file));
    str_addf(&s, ":%d", line);
    return str_text(&s);
}

const char *origin_name(int origin)
{
    static const char *const names[] = { "none", "module", "user", "propagated" };
    return origin >= 0 && origin < 4 ? names[origin] : "none";
}

/* ---- tables
 * ----------------------------------------------------------------------------------------- */

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
    bool flows; /* a row is a line of words, numbers with the head of their column */
    int last, gap;
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

static int whole_width(const struct layout *l)
{
    int n = 0;
    for (int k = 0; k <= l->last; k++)
        n += l->used[k] ? l->width[k] + (k < l->last ? l->gap : 0) : 0;
    return n;
}

/* The column that can give most; -1: none. */
static int widest(const struct layout *l, const struct table *t, int least)
{
    int best = -1, most = 0;
    for (int k = 0; k <= l->last; k++) {
        int floor = l->word[k] > least ? l->word[k] : least;
        if (l->used[k] && !t->right[k] && l->width[k] - floor > most) {
            most = l->width[k] - floor;
            best = k;
        }
    }
    return best;
}

/* A table wider than the terminal stands closer together, then folds its widest texts; where that is not
 * enough it has no columns. */
static void fit(struct layout *l, const struct table *t, int columns)
{
    enum { LEAST = 12, CELL_MOST = 72 };
    if (columns > 0 && whole_width(l) > columns) {
        l->gap = 1;
        for (int over; (over = whole_width(l) - columns) > 0;) {
            int k = widest(l, t, LEAST);
            if (k < 0) {
                l->flows = true;
                return;
            }
            int floor = l->word[k] > LEAST ? l->word[k] : LEAST;
            l->width[k] = l->width[k] - over > floor ? l->width[k] - over : floor;
            l->folded[k] = l->any_folded = true;
        }
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
    for (int k = 0; k <= l->last; k++)
        if (l->used[k])
            add_cell(s, cells[k], l->width[k], t->right[k], k == l->last, l->gap);
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

/* A row without columns, what does not fit further in. */
static void add_flowing(struct str *s, const struct layout *l, const struct table *t,
                        const char *const *cells, int columns)
{
    enum { INDENT = 4 };
    struct str line = STR_IN(s->arena);
    for (int k = 0; k <= l->last; k++)
        if (cells[k] && cells[k][strspn(cells[k], " ")])
            str_addf(&line, "%s%s%s%s", line.n ? "  " : "", t->right[k] ? t->head[k] : "",
                     t->right[k] && t->head[k][0] ? " " : "", cells[k]);
    fold_hanging(s, str_text(&line), line.n, columns, INDENT);
    str_addc(s, '\n');
}

static void add_row(struct str *s, const struct layout *l, const struct table *t, const char *const *cells)
{
    if (!l->any_folded) {
        add_line(s, l, t, cells);
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

void table_print(struct call *c, struct table *t, bool with_head)
{
    if (c->sh->blocks && !c->json) {
        blocks_answer(c->sh->blocks, str_text(&c->out), c->out.n);
        c->out.n = 0;
        blocks_table(c->sh->blocks, t, with_head);
        return;
    }
    int columns = c->sh->columns;
    struct layout l = { .gap = 2, .last = -1 };
    struct table fitted = columns > 0 ? shortened(t, columns / 2, &c->arena) : *t;
    measure(&l, &fitted, with_head);
    fit(&l, &fitted, columns);
    if (l.flows) {
        fitted = shortened(t, 2 * columns, &c->arena);
        for (int64_t r = 0; r < t->rows.n; r++)
            add_flowing(&c->out, &l, &fitted, fitted.rows.v[r], columns);
        return;
    }
    if (with_head && t->rows.n) {
        str_adds(&c->out, c->sh->color ? "\033[1m" : "");
        add_row(&c->out, &l, t, t->head);
        str_adds(&c->out, c->sh->color ? "\033[0m\n" : "\n");
    }
    for (int64_t r = 0; r < t->rows.n; r++) {
        add_row(&c->out, &l, &fitted, fitted.rows.v[r]);
        str_addc(&c->out, '\n');
    }
}
