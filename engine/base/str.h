/* A growing string in an arena. s.s is always NUL-terminated once something was added. */
#ifndef GSPMD_BASE_STR_H
#define GSPMD_BASE_STR_H

#include <stdarg.h>

#include "base/arena.h"

struct str {
    struct arena *arena;
    char *s;
    size_t n, cap;
};

#define STR_IN(a) ((struct str){ .arena = (a) })

void str_add(struct str *s, const char *bytes, size_t n);
void str_adds(struct str *s, const char *text);
void str_addc(struct str *s, char c);
void str_addi(struct str *s, int64_t v);
void str_addf(struct str *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
void str_addv(struct str *s, const char *fmt, va_list ap);
const char *str_text(struct str *s); /* "" when empty */

/* Adds text from a file or a user so that no byte of it reaches a terminal as a control sequence:
 * C0, DEL, C1 and invalid UTF-8 come out as \xNN, other UTF-8 as it is. */
void str_add_safe(struct str *s, const char *text, size_t n);

/* Edit distance, capped at cap + 1: for "did you mean". */
int edit_distance(const char *a, const char *b, int cap);

/* Shell-style match: * ? and [set]; the whole of text must match. */
bool glob_match(const char *pattern, const char *text);

/* Reads a decimal int64 with optional '-'; returns the number of bytes read, 0 when there is none
 * or it does not fit. */
size_t parse_i64(const char *s, size_t n, int64_t *out);

#endif
