#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { QUOTE_WIDTH = 100, DEFAULT_LIMIT = 20 };

struct diag *diag_new(void)
{
    struct diag *d = calloc(1, sizeof *d);
    if (!d)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for messages");
    d->code = "parse";
    return d;
}

void diag_free(struct diag *d)
{
    if (!d)
        return;
    arena_free(&d->arena);
    free(d);
}

void diag_clear(struct diag *d)
{
    const char *code = d->code;
    int limit = d->limit;
    arena_free(&d->arena);
    memset(d, 0, sizeof *d);
    d->code = code;
    d->limit = limit;
}

const char *diag_stage(struct diag *d, const char *code)
{
    if (!d)
        return code;
    const char *former = d->code;
    d->code = code;
    return former;
}

void source_place(const struct source *src, uint32_t off, int *line, int *column)
{
    size_t at = off < src->len ? off : src->len;
    int n = 1;
    const char *start = src->text, *nl;
    while ((nl = memchr(start, '\n', (size_t)(src->text + at - start)))) {
        n++;
        start = nl + 1;
    }
    *line = n;
    *column = (int)(src->text + at - start) + 1;
}

/* A display column of a safely printed line: bytes that continue a UTF-8 sequence take none. */
static int display_width(const char *s, size_t n)
{
    int w = 0;
    for (size_t i = 0; i < n; i++)
        w += ((unsigned char)s[i] & 0xc0) != 0x80;
    return w;
}

/* Quotes the line around the place, cut to some 100 columns, with "..." where something is left out. */
static void quote(struct diag *d, struct diag_msg *m, const struct source *src, struct span at)
{
    size_t off = at.off < src->len ? at.off : src->len;
    const char *line = src->text + off, *end = src->text + src->len;
    while (line > src->text && line[-1] != '\n')
        line--;
    const char *stop = memchr(src->text + off, '\n', (size_t)(end - (src->text + off)));
    if (!stop)
        stop = end;
    if (stop > line && stop[-1] == '\r')
        stop--;
    const char *place = src->text + off;
    if (place > stop)
        place = stop;
    const char *from = line, *to = stop;
    if (place - from > QUOTE_WIDTH / 2)
        from = place - QUOTE_WIDTH / 2;
    if (to - from > QUOTE_WIDTH)
        to = from + QUOTE_WIDTH;
    struct str s = STR_IN(&d->arena);
    if (from > line)
        str_adds(&s, "...");
    str_add_safe(&s, from, (size_t)(place - from));
    m->caret = display_width(str_text(&s), s.n);
    size_t before = s.n;
    const char *tail = place + at.len < to ? place + at.len : to;
    str_add_safe(&s, place, (size_t)(tail - place));
    m->caret_len = display_width(str_text(&s) + before, s.n - before);
    if (m->caret_len < 1)
        m->caret_len = 1;
    str_add_safe(&s, tail, (size_t)(to - tail));
    if (to < stop)
        str_adds(&s, "...");
    m->quote = str_text(&s);
}

static void add(struct diag *d, enum diag_severity severity, const struct source *src,
                struct span at, const char *fmt, va_list ap)
{
    if (!d)
        return;
    if (severity == DIAG_ERROR)
        d->nerrors++;
    int limit = d->limit ? d->limit : DEFAULT_LIMIT;
    if (d->msgs.n >= limit)
        return;
    struct diag_msg m = { .severity = severity, .code = d->code };
    struct str s = STR_IN(&d->arena);
    str_addv(&s, fmt, ap);
    /* Messages quote names from files: no byte of them may reach a terminal as a control sequence. */
    struct str safe = STR_IN(&d->arena);
    str_add_safe(&safe, str_text(&s), s.n);
    m.text = str_text(&safe);
    if (src) {
        struct str name = STR_IN(&d->arena);
        str_add_safe(&name, src->name, strlen(src->name));
        m.file = str_text(&name);
        source_place(src, at.off, &m.line, &m.column);
        quote(d, &m, src, at);
    }
    vec_push(&d->arena, &d->msgs, m);
}

bool diag_error(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(d, DIAG_ERROR, src, at, fmt, ap);
    va_end(ap);
    return false;
}

void diag_warn(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(d, DIAG_WARNING, src, at, fmt, ap);
    va_end(ap);
}

void diag_note(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(d, DIAG_NOTE, src, at, fmt, ap);
    va_end(ap);
}

void diag_hint(struct diag *d, const char *fmt, ...)
{
    if (!d || d->msgs.n == 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    struct str s = STR_IN(&d->arena);
    str_addv(&s, fmt, ap);
    va_end(ap);
    struct str safe = STR_IN(&d->arena);
    str_add_safe(&safe, str_text(&s), s.n);
    d->msgs.v[d->msgs.n - 1].hint = str_text(&safe);
}

void diag_render(const struct diag_msg *m, struct str *out)
{
    static const char *const words[] = { "error", "warning", "note" };
    if (m->file)
        str_addf(out, "%s:%d:%d: ", m->file, m->line, m->column);
    str_addf(out, "%s: %s\n", words[m->severity], m->text);
    if (m->quote) {
        str_addf(out, "  %s\n  ", m->quote);
        for (int i = 0; i < m->caret; i++)
            str_addc(out, ' ');
        str_addc(out, '^');
        for (int i = 1; i < m->caret_len; i++)
            str_addc(out, '~');
        str_addc(out, '\n');
    }
    if (m->hint)
        str_addf(out, "  hint: %s\n", m->hint);
}
