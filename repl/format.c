/* Words for values. */
#include <string.h>

#include "repl/commands.h"
#include "viz/scene.h"

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

void fold_hanging(struct str *to, const char *p, size_t n, int columns, int hang)
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

const char *tensor_shape_text(struct call *c, const struct tensor *t)
{
    struct str s = STR_IN(&c->arena);
    str_addf(&s, "%s[", dtype_name(t->dtype));
    for (int d = 0; d < t->rank; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : "", t->dims[d]);
    str_addc(&s, ']');
    return str_text(&s);
}

const char *mesh_words(struct call *c, const struct mesh *m)
{
    struct str s = STR_IN(&c->arena);
    struct mesh plain = *m;
    plain.name = "";
    mesh_print(document_ir(c->sh->doc)->shardings, &plain, &s);
    return str_text(&s);
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

static int count_newlines(const char *p, const char *end)
{
    int n = 0;
    for (; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        n++;
    return n;
}

int module_line(struct call *c, uint32_t off)
{
    const struct source *src = document_module(c->sh->doc)->source;
    if (!src)
        return 0;
    size_t at = off < src->len ? off : src->len;
    if (c->place.src != src || at < c->place.off / 2) {
        c->place.src = src;
        c->place.off = 0;
        c->place.line = 1;
    }
    if (at >= c->place.off)
        c->place.line += count_newlines(src->text + c->place.off, src->text + at);
    else
        c->place.line -= count_newlines(src->text + at, src->text + c->place.off);
    c->place.off = at;
    return c->place.line;
}

const char *origin_name(int origin)
{
    static const char *const names[] = { "none", "module", "user", "propagated" };
    return origin >= 0 && origin < 4 ? names[origin] : "none";
}
