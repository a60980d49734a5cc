#include "repl/json.h"

#include <string.h>

void json_init(struct json *j, struct arena *a)
{
    *j = (struct json){ .s = STR_IN(a) };
}

static void value_begins(struct json *j)
{
    if (j->comma >> j->depth & 1)
        str_addc(&j->s, ',');
    j->comma |= (uint64_t)1 << j->depth;
}

void json_open(struct json *j, char bracket)
{
    value_begins(j);
    str_addc(&j->s, bracket);
    j->depth++;
    j->comma &= ~((uint64_t)1 << j->depth);
}

void json_close(struct json *j, char bracket)
{
    str_addc(&j->s, bracket);
    j->depth--;
}

/* Length of the valid UTF-8 sequence at p; 0: none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : (p[0] & 0xf0) == 0xe0       ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t k = 1; k < len; k++)
        if ((p[k] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return len;
}

static void add_string(struct str *out, const char *s, size_t n)
{
    str_addc(out, '"');
    const unsigned char *p = (const unsigned char *)s;
    for (size_t k = 0; k < n;) {
        unsigned char c = p[k];
        size_t run = k;
        while (run < n && p[run] >= 0x20 && p[run] < 0x7f && p[run] != '"' && p[run] != '\\')
            run++;
        if (run > k) {
            str_add(out, s + k, run - k);
            k = run;
            continue;
        }
        size_t len = utf8_length(p + k, n - k);
        if (len > 1) {
            str_add(out, s + k, len);
            k += len;
            continue;
        }
        if (c == '"' || c == '\\')
            str_addf(out, "\\%c", c);
        else if (c == '\n')
            str_adds(out, "\\n");
        else if (c == '\t')
            str_adds(out, "\\t");
        else if (len == 1)
            str_addf(out, "\\u%04x", c);
        else
            str_adds(out, "\\ufffd");
        k++;
    }
    str_addc(out, '"');
}

void json_key(struct json *j, const char *key)
{
    value_begins(j);
    add_string(&j->s, key, strlen(key));
    str_addc(&j->s, ':');
    j->comma &= ~((uint64_t)1 << j->depth); /* the value that follows takes no comma */
}

void json_text(struct json *j, const char *s, size_t n)
{
    value_begins(j);
    add_string(&j->s, s, n);
}

void json_string(struct json *j, const char *s)
{
    if (s)
        json_text(j, s, strlen(s));
    else
        json_null(j);
}

void json_int(struct json *j, int64_t v)
{
    value_begins(j);
    str_addi(&j->s, v);
}

void json_bool(struct json *j, bool v)
{
    value_begins(j);
    str_adds(&j->s, v ? "true" : "false");
}

void json_null(struct json *j)
{
    value_begins(j);
    str_adds(&j->s, "null");
}

void json_raw(struct json *j, const char *text)
{
    value_begins(j);
    str_adds(&j->s, text);
}

void json_put_string(struct json *j, const char *key, const char *s)
{
    json_key(j, key);
    json_string(j, s);
}

void json_put_int(struct json *j, const char *key, int64_t v)
{
    json_key(j, key);
    json_int(j, v);
}

void json_put_bool(struct json *j, const char *key, bool v)
{
    json_key(j, key);
    json_bool(j, v);
}

void json_put_null(struct json *j, const char *key)
{
    json_key(j, key);
    json_null(j);
}

void json_put_open(struct json *j, const char *key, char bracket)
{
    json_key(j, key);
    json_open(j, bracket);
}
