#include "repl/lex.h"

#include <string.h>

struct lexer {
    struct arena *a;
    const struct source *src;
    const char *p, *end;
    VEC(struct word) words;
    struct diag *d;
    const char *open; /* innermost bracket or quote that is not closed */
    const char *word; /* where the running word began; NULL: between words */
    const char *last; /* end of the last word */
};

static struct span span_at(const struct lexer *l, const char *p, size_t n)
{
    return (struct span){ (uint32_t)(p - l->src->text), (uint32_t)n };
}

static bool is_comment(const struct lexer *l, const char *p)
{
    if (*p != '#')
        return false;
    bool line_start = p == l->src->text || p[-1] == '\n';
    return line_start || p + 1 == l->end || p[1] == ' ' || p[1] == '\t' || p[1] == '\n' ||
           p[1] == '\r';
}

static bool is_continuation(const struct lexer *l, const char *p)
{
    return *p == '\\' && p + 1 < l->end &&
           (p[1] == '\n' || (p[1] == '\r' && p + 2 < l->end && p[2] == '\n'));
}

/* Behind the quoted text that starts at p; NULL: it does not end. */
static const char *skip_quoted(const struct lexer *l, const char *p)
{
    char q = *p;
    for (const char *at = p + 1; at < l->end; at++) {
        if (*at == '\\' && q == '"' && at + 1 < l->end)
            at++;
        else if (*at == q)
            return at + 1;
    }
    return NULL;
}

/* Behind the bracket that opens at p, everything inside being opaque; NULL: it does not close. */
static const char *skip_bracket(struct lexer *l, const char *p)
{
    char stack[64];
    const char *opened[64];
    int depth = 0;
    for (const char *at = p; at < l->end;) {
        char c = *at;
        if (c == '"' || c == '\'') {
            const char *next = skip_quoted(l, at);
            if (!next) {
                l->open = at;
                return NULL;
            }
            at = next;
            continue;
        }
        char closes = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0;
        if (closes && depth < 64) {
            opened[depth] = at;
            stack[depth++] = closes;
        } else if (depth > 0 && c == stack[depth - 1]) {
            if (--depth == 0)
                return at + 1;
        }
        at++;
    }
    l->open = depth > 0 ? opened[depth - 1] : p;
    return NULL;
}

static void end_word(struct lexer *l, const char *end)
{
    if (!l->word)
        return;
    struct word w = { .off = (uint32_t)(l->word - l->src->text), .len = (uint32_t)(end - l->word) };
    const char *from = l->word, *to = end;
    if (to - from >= 2 && (*from == '"' || *from == '\'') && skip_quoted(l, from) == to) {
        w.quoted = true;
        from++;
        to--;
    }
    struct str s = STR_IN(l->a);
    for (const char *p = from; p < to; p++) {
        if (w.quoted && from[-1] == '"' && *p == '\\' && p + 1 < to &&
            (p[1] == '"' || p[1] == '\\'))
            p++;
        str_addc(&s, *p);
    }
    w.text = arena_strdup(l->a, str_text(&s));
    w.n = strlen(w.text);
    vec_push(l->a, &l->words, w);
    l->last = end;
    l->word = NULL;
}

/* Goes to the end of the command. false: it is not closed (l->open says what). */
static bool read_words(struct lexer *l)
{
    while (l->p < l->end) {
        char c = *l->p;
        if (is_continuation(l, l->p)) {
            end_word(l, l->p);
            l->p += l->p[1] == '\r' ? 3 : 2;
            continue;
        }
        if (c == '\n' || c == ';') {
            end_word(l, l->p);
            return true;
        }
        if (is_comment(l, l->p)) {
            end_word(l, l->p);
            while (l->p < l->end && *l->p != '\n')
                l->p++;
            return true;
        }
        if (c == ' ' || c == '\t' || c == '\r') {
            end_word(l, l->p++);
            continue;
        }
        bool opens_quote = (c == '"' || c == '\'') && (!l->word || l->p[-1] == '=');
        if (!l->word)
            l->word = l->p;
        if (opens_quote || c == '(' || c == '[' || c == '{') {
            const char *next = opens_quote ? skip_quoted(l, l->p) : skip_bracket(l, l->p);
            if (!next) {
                if (opens_quote)
                    l->open = l->p;
                return false;
            }
            l->p = next;
            continue;
        }
        l->p++;
    }
    end_word(l, l->p);
    return true;
}

/* Lines up to one that is the word behind `<<`. Takes that word off the command. */
static bool read_heredoc(struct lexer *l, struct parsed *out, const char *tag)
{
    const char *nl = memchr(l->p, '\n', (size_t)(l->end - l->p));
    if (!nl)
        return false;
    size_t len = strlen(tag);
    for (const char *line = nl + 1; line < l->end;) {
        const char *stop = memchr(line, '\n', (size_t)(l->end - line));
        const char *eol = stop ? stop : l->end;
        size_t n = (size_t)(eol - line);
        if (n > 0 && line[n - 1] == '\r')
            n--;
        if (n == len && !memcmp(line, tag, len)) {
            out->heredoc = nl + 1;
            out->heredoc_len = (size_t)(line - (nl + 1));
            l->p = stop ? stop + 1 : l->end;
            out->n--;
            return true;
        }
        line = stop ? stop + 1 : l->end;
    }
    return false;
}

static enum lex_result unclosed(struct lexer *l, size_t *pos, bool final)
{
    if (!final)
        return LEX_MORE;
    const char *former = diag_stage(l->d, "usage");
    diag_error(l->d, l->src, span_at(l, l->open, 1), "this %s is never closed",
               *l->open == '"' || *l->open == '\'' ? "quote" : "bracket");
    diag_stage(l->d, former);
    const char *nl = memchr(l->open, '\n', (size_t)(l->end - l->open));
    *pos = nl ? (size_t)(nl + 1 - l->src->text) : l->src->len;
    return LEX_ERROR;
}

enum lex_result lex_command(struct arena *a, const struct source *src, size_t *pos, bool final,
                            struct parsed *out, struct diag *d)
{
    struct lexer l = {
        .a = a, .src = src, .p = src->text + *pos, .end = src->text + src->len, .d = d
    };
    memset(out, 0, sizeof *out);
    while (l.words.n == 0) {
        if (l.p >= l.end)
            return LEX_END;
        if (!read_words(&l))
            return unclosed(&l, pos, final);
        if (l.words.n == 0 && l.p < l.end)
            l.p++; /* an empty command, a comment, a separator */
    }
    if (!final && l.p >= l.end && l.p > src->text && l.p[-1] == '\\')
        return LEX_MORE;
    out->n = (int)l.words.n;
    out->words = l.words.v;
    out->off = l.words.v[0].off;
    out->end = (uint32_t)(l.last - src->text);
    const struct word *tail = &l.words.v[l.words.n - 1];
    if (l.words.n > 1 && !tail->quoted && tail->n > 2 && !memcmp(tail->text, "<<", 2)) {
        if (!read_heredoc(&l, out, tail->text + 2)) {
            l.open = src->text + tail->off;
            if (!final)
                return LEX_MORE;
            const char *former = diag_stage(d, "usage");
            diag_error(d, src, span_at(&l, l.open, tail->len), "no line is '%s' to end this",
                       tail->text + 2);
            diag_stage(d, former);
            *pos = src->len;
            return LEX_ERROR;
        }
        const struct word *before = &l.words.v[l.words.n - 2];
        out->end = before->off + before->len;
    } else if (l.p < l.end && (*l.p == '\n' || *l.p == ';')) {
        l.p++;
    }
    *pos = (size_t)(l.p - src->text);
    return LEX_COMMAND;
}
