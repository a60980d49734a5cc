/* Tokens of sharding texts. */
#include <stdio.h>
#include <string.h>

#include "sharding/internal.h"

void lex_blank(struct lexer *l)
{
    while (l->i < l->n) {
        char c = l->p[l->i];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            l->i++;
            continue;
        }
        if (c != '/' || l->i + 1 >= l->n || l->p[l->i + 1] != '*')
            return;
        size_t k = l->i + 2;
        while (k + 1 < l->n && !(l->p[k] == '*' && l->p[k + 1] == '/'))
            k++;
        l->i = k + 1 < l->n ? k + 2 : l->n;
    }
}

bool lex_is(struct lexer *l, char c)
{
    lex_blank(l);
    return l->i < l->n && l->p[l->i] == c;
}

bool lex_take(struct lexer *l, char c)
{
    if (!lex_is(l, c))
        return false;
    l->i++;
    return true;
}

bool lex_take_text(struct lexer *l, const char *word)
{
    size_t k = strlen(word);
    lex_blank(l);
    if (l->n - l->i < k || memcmp(l->p + l->i, word, k) != 0)
        return false;
    l->i += k;
    return true;
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || (unsigned char)c >= 0x80;
}

size_t lex_word(struct lexer *l, const char **word)
{
    lex_blank(l);
    size_t k = l->i;
    while (k < l->n && word_char(l->p[k]))
        k++;
    *word = l->p + l->i;
    return k - l->i;
}

bool lex_take_word(struct lexer *l, const char *word)
{
    const char *w;
    size_t n = lex_word(l, &w);
    if (n != strlen(word) || memcmp(w, word, n) != 0)
        return false;
    l->i += n;
    return true;
}

bool lex_error(struct lexer *l, size_t at, size_t len, const char *fmt, ...)
{
    struct span span = { l->off + (uint32_t)at, (uint32_t)(len ? len : 1) };
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    return diag_error(l->d, l->src, span, "%s", text);
}

bool lex_expect(struct lexer *l, char c, const char *where)
{
    if (lex_take(l, c))
        return true;
    if (l->i >= l->n)
        return lex_error(l, l->i, 1, "'%c' expected in the %s, but the text ends", c, where);
    return lex_error(l, l->i, 1, "'%c' expected in the %s", c, where);
}

bool lex_int(struct lexer *l, int64_t *v, const char *what)
{
    lex_blank(l);
    size_t used = parse_i64(l->p + l->i, l->n - l->i, v);
    if (used) {
        l->i += used;
        return true;
    }
    size_t k = l->i + (l->i < l->n && l->p[l->i] == '-');
    size_t start = k;
    while (k < l->n && l->p[k] >= '0' && l->p[k] <= '9')
        k++;
    if (k > start)
        return lex_error(l, l->i, k - l->i, "%s %.*s does not fit 64 bits", what,
                         (int)(k - l->i < 60 ? k - l->i : 60), l->p + l->i);
    return lex_error(l, l->i, 1, "%s expected", what);
}

bool lex_name(struct lexer *l, const char **name, size_t *n)
{
    lex_blank(l);
    if (l->i >= l->n)
        return false;
    char q = l->p[l->i];
    if (q != '\'' && q != '"') {
        *n = lex_word(l, name);
        l->i += *n;
        return *n > 0;
    }
    size_t k = l->i + 1;
    while (k < l->n && l->p[k] != q)
        k++;
    if (k >= l->n)
        return false;
    *name = l->p + l->i + 1;
    *n = k - l->i - 1;
    l->i = k + 1;
    return true;
}
