/* Where in a JSON text a value stands. The text was read by cJSON before, so it is well formed; the
 * walk is only as careful as that allows. */
#include <string.h>

#include "text/json.h"
#include "text/reader.h"

static const char *blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

/* Behind the value at p. */
static const char *value_end(const char *p, const char *end)
{
    if (p < end && (*p == '{' || *p == '[' || *p == '"')) {
        const char *q = hlo_balanced(p, end);
        return q ? q : end;
    }
    while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n' &&
           *p != '\t' && *p != '\r')
        p++;
    return p;
}

const char *json_member(const char *p, const char *end, const char *key)
{
    size_t n = strlen(key);
    if (!p || p >= end || *p != '{')
        return NULL;
    p++;
    for (;;) {
        p = blanks(p, end);
        if (p >= end || *p != '"')
            return NULL;
        const char *k = p, *stop = value_end(p, end);
        p = blanks(stop, end);
        if (p >= end || *p != ':')
            return NULL;
        p = blanks(p + 1, end);
        if ((size_t)(stop - k) == n + 2 && memcmp(k + 1, key, n) == 0)
            return p;
        p = blanks(value_end(p, end), end);
        if (p >= end || *p != ',')
            return NULL;
        p++;
    }
}

const char *json_next(const char *p, const char *end)
{
    p = blanks(value_end(p, end), end);
    if (p >= end || *p != ',')
        return NULL;
    p = blanks(p + 1, end);
    return p < end && *p != ']' ? p : NULL;
}

const char *json_element(const char *p, const char *end, int k)
{
    if (!p || p >= end || *p != '[')
        return NULL;
    p = blanks(p + 1, end);
    if (p >= end || *p == ']')
        return NULL;
    for (; p && k > 0; k--)
        p = json_next(p, end);
    return p;
}

struct span json_span(const struct source *s, const char *p)
{
    const char *end = s->text + s->len;
    if (!p || p >= end)
        return (struct span){ 0, 1 };
    const char *stop = value_end(p, end);
    const char *nl = memchr(p, '\n', (size_t)(stop - p));
    return (struct span){ (uint32_t)(p - s->text), (uint32_t)((nl ? nl : stop) - p) };
}
