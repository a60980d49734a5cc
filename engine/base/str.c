#include "base/str.h"

#include <stdio.h>
#include <string.h>

static void reserve(struct str *s, size_t more)
{
    if (s->n + more + 1 <= s->cap)
        return;
    size_t cap = s->cap ? s->cap * 2 : 128;
    while (cap < s->n + more + 1)
        cap *= 2;
    char *p = arena_alloc(s->arena, (int64_t)cap, 1);
    if (s->n)
        memcpy(p, s->s, s->n);
    s->s = p;
    s->cap = cap;
}

void str_add(struct str *s, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    reserve(s, n);
    memcpy(s->s + s->n, bytes, n);
    s->n += n;
    s->s[s->n] = '\0';
}

void str_adds(struct str *s, const char *text)
{
    str_add(s, text, strlen(text));
}

void str_addc(struct str *s, char c)
{
    str_add(s, &c, 1);
}

void str_addi(struct str *s, int64_t v)
{
    char buf[24];
    char *p = buf + sizeof buf;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--p = '-';
    str_add(s, p, (size_t)(buf + sizeof buf - p));
}

void str_addv(struct str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        reserve(s, (size_t)n);
        (void)vsnprintf(s->s + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_addf(struct str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_addv(s, fmt, ap);
    va_end(ap);
}

const char *str_text(struct str *s)
{
    return s->s ? s->s : "";
}

/* Length of the valid UTF-8 sequence at p (2 to 4 bytes), 0 when there is none or it is a C1 control. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t want = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                  : p[0] >= 0xf0 && p[0] < 0xf5                             ? 4
                                                                            : 0;
    if (want == 0 || want > n)
        return 0;
    for (size_t i = 1; i < want; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if (p[0] == 0xc2 && p[1] < 0xa0)
        return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return want;
}

void str_add_safe(struct str *s, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        if (p[i] >= 0x20 && p[i] < 0x7f) {
            str_addc(s, text[i++]);
            continue;
        }
        size_t len = p[i] >= 0x80 ? utf8_length(p + i, n - i) : 0;
        if (len) {
            str_add(s, text + i, len);
            i += len;
        } else {
            str_addf(s, "\\x%02x", p[i++]);
        }
    }
}

int edit_distance(const char *a, const char *b, int cap)
{
    enum { LONGEST = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return strcmp(a, b) ? cap + 1 : 0;
    int row[LONGEST + 1], before[LONGEST + 1], earlier[LONGEST + 1];
    memset(earlier, 0, sizeof earlier);
    for (size_t j = 0; j <= nb; j++)
        before[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            /* two neighbouring letters exchanged count once */
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            row[j] = best;
        }
        memcpy(earlier, before, sizeof before);
        memcpy(before, row, (nb + 1) * sizeof *row);
    }
    return before[nb] > cap ? cap + 1 : before[nb];
}

/* One [set] of a pattern against c: position behind it, or NULL when the set never closes. */
static const char *match_set(const char *p, char c, bool *hit)
{
    bool negate = *p == '!' || *p == '^';
    if (negate)
        p++;
    bool found = false, first = true;
    for (; *p && (first || *p != ']'); first = false) {
        char lo = *p++, hi = lo;
        if (*p == '-' && p[1] && p[1] != ']') {
            hi = p[1];
            p += 2;
        }
        if (c >= lo && c <= hi)
            found = true;
    }
    *hit = found != negate;
    return *p ? p + 1 : NULL;
}

bool glob_match(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        bool hit = false;
        const char *next = pattern + 1;
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
            continue;
        }
        if (*pattern == '[') {
            const char *end = match_set(pattern + 1, *text, &hit);
            if (end)
                next = end;
            else
                hit = *text == '[';
        } else if (*pattern) {
            hit = *pattern == '?' || *pattern == *text;
        }
        if (hit) {
            pattern = next;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

size_t parse_i64(const char *s, size_t n, int64_t *out)
{
    size_t i = 0;
    bool negative = n > 0 && s[0] == '-';
    if (negative)
        i++;
    size_t start = i;
    int64_t v = 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            (negative ? __builtin_sub_overflow(v, s[i] - '0', &v)
                      : __builtin_add_overflow(v, s[i] - '0', &v)))
            return 0;
    }
    if (i == start)
        return 0;
    *out = v;
    return i;
}
