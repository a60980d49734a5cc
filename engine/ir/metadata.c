/* Metadata, read when somebody asks: op_name="..." source_file="..." source_line=8 stack_frame_id=3.
 * Newer dumps keep files and lines in tables in front of the first computation. */
#include "ir/ir.h"

#include <string.h>

struct text {
    const char *p;
    size_t n;
};

/* ---- key=value ---------------------------------------------------------------------------------- */

static size_t end_of_string(struct text t, size_t i) /* i: behind the opening quote */
{
    while (i < t.n && t.p[i] != '"')
        i += t.p[i] == '\\' ? 2 : 1;
    return i < t.n ? i : t.n;
}

/* The value of `key=` at the top level of a list of pairs, quotes stripped, braces kept. */
static bool find_value(struct text t, const char *key, struct text *out)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < t.n;) {
        size_t word = i;
        while (i < t.n && t.p[i] != '=' && t.p[i] != ' ' && t.p[i] != ',')
            i++;
        bool hit = i < t.n && t.p[i] == '=' && i - word == len && memcmp(t.p + word, key, len) == 0;
        if (i >= t.n || t.p[i] != '=') {
            i++;
            continue;
        }
        size_t from = ++i;
        if (i < t.n && t.p[i] == '"') {
            from = i + 1;
            i = end_of_string(t, from);
            *out = (struct text){ t.p + from, i - from };
            i++;
        } else {
            int depth = 0;
            for (; i < t.n && (depth > 0 || (t.p[i] != ' ' && t.p[i] != ',')); i++) {
                depth += t.p[i] == '{' ? 1 : t.p[i] == '}' ? -1 : 0;
                if (t.p[i] == '"')
                    i = end_of_string(t, i + 1);
            }
            i = i < t.n ? i : t.n;
            *out = (struct text){ t.p + from, i - from };
        }
        if (hit)
            return true;
    }
    return false;
}

static bool find_int(struct text t, const char *key, int64_t *out)
{
    struct text v;
    return find_value(t, key, &v) && parse_i64(v.p, v.n, out) > 0;
}

/* Undoes \' \" \\ \n \t and \nnn (octal), interned. */
static const char *unescaped(const struct module *m, struct text t)
{
    if (!memchr(t.p, '\\', t.n))
        return name_text(m->ir, name_put(m->ir, t.p, t.n));
    struct arena tmp = { 0 };
    arena_open(&tmp);
    char *s = ARENA_ARRAY(&tmp, char, (int64_t)t.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if (c != '\\' || i + 1 >= t.n) {
            s[n++] = c;
            continue;
        }
        c = t.p[++i];
        if (c >= '0' && c <= '7') {
            int v = 0;
            size_t end = i + 3;
            for (; i < t.n && i < end && t.p[i] >= '0' && t.p[i] <= '7'; i++)
                v = v * 8 + (t.p[i] - '0');
            i--;
            s[n++] = (char)(unsigned char)v;
        } else {
            s[n++] = c;
            if (c == 'n' || c == 't' || c == 'r')
                s[n - 1] = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
        }
    }
    const char *r = name_text(m->ir, name_put(m->ir, s, n));
    arena_close(&tmp);
    return r;
}

static struct text metadata_of(const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    return (struct text){ in->metadata, in->metadata ? in->metadata_len : 0 };
}

/* ---- the tables --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Where a table's rows begin: behind its name, which stands as a word of its own outside of quotes. */
static bool find_table(struct text t, const char *name, struct text *rows)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] == '"') {
            i = end_of_string(t, i + 1);
            continue;
        }
        bool start = i == 0 || is_blank(t.p[i - 1]);
        if (start && t.n - i >= len && memcmp(t.p + i, name, len) == 0 &&
            (i + len == t.n || is_blank(t.p[i + len]) || t.p[i + len] == '{')) {
            *rows = (struct text){ t.p + i + len, t.n - i - len };
            return true;
        }
    }
    return false;
}

/* Row `id` of a table: what stands behind the number, a quoted string or {key=value ..}. Rows follow
 * each other on lines of their own or on one line; anything else ends the table. */
static bool find_row(struct text rows, int64_t id, struct text *out)
{
    size_t i = 0;
    for (;;) {
        while (i < rows.n && (is_blank(rows.p[i]) || rows.p[i] == ',' || rows.p[i] == '{'))
            i++;
        int64_t number;
        size_t used = i < rows.n ? parse_i64(rows.p + i, rows.n - i, &number) : 0;
        if (!used)
            return false;
        i += used;
        while (i < rows.n && (is_blank(rows.p[i]) || rows.p[i] == '=' || rows.p[i] == ':'))
            i++;
        if (i >= rows.n || (rows.p[i] != '"' && rows.p[i] != '{'))
            return false;
        size_t from = i + 1;
        if (rows.p[i] == '"') {
            i = end_of_string(rows, from);
        } else {
            while (i < rows.n && rows.p[i] != '}')
                i++;
        }
        if (number == id) {
            *out = (struct text){ rows.p + from, i - from };
            return true;
        }
        i++;
    }
}

static bool table_row(const struct module *m, const char *table, int64_t id, struct text *out)
{
    struct text all = { m->tables, m->tables ? m->tables_len : 0 }, rows;
    return all.n && find_table(all, table, &rows) && find_row(rows, id, out);
}

/* ---- answers ------------------------------------------------------------------------------------ */

const char *instr_op_name(const struct module *m, instr_id i)
{
    struct text v;
    return find_value(metadata_of(m, i), "op_name", &v) ? unescaped(m, v) : "";
}

static bool source_of_frame(const struct module *m, int64_t frame, const char **file, int *line)
{
    struct text row, place, name;
    int64_t location, file_id, at;
    if (!table_row(m, "StackFrames", frame, &row) ||
        !find_int(row, "file_location_id", &location) ||
        !table_row(m, "FileLocations", location, &place) ||
        !find_int(place, "file_name_id", &file_id) || !find_int(place, "line", &at) ||
        !table_row(m, "FileNames", file_id, &name))
        return false;
    *file = unescaped(m, name);
    *line = (int)at;
    return true;
}

bool instr_source(const struct module *m, instr_id i, const char **file, int *line)
{
    struct text t = metadata_of(m, i), v;
    int64_t n;
    *file = "";
    *line = 0;
    if (find_value(t, "source_file", &v)) {
        *file = unescaped(m, v);
        *line = find_int(t, "source_line", &n) ? (int)n : 0;
        return true;
    }
    return find_int(t, "stack_frame_id", &n) && source_of_frame(m, n, file, line);
}

const char *instr_arg_name(const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    if (in->op != OP_PARAMETER || !comp_at(m, in->comp)->entry)
        return "";
    return instr_op_name(m, i);
}
