/* Writes JSON onto a string, one object a command (language.md section 8). */
#ifndef GSPMD_REPL_JSON_H
#define GSPMD_REPL_JSON_H

#include "base/str.h"

struct json {
    struct str s;
    int depth;
    uint64_t comma; /* bit d: something was written at depth d */
};

void json_init(struct json *j, struct arena *a);
void json_open(struct json *j, char bracket);  /* '{' or '[' */
void json_close(struct json *j, char bracket); /* '}' or ']' */
void json_key(struct json *j, const char *key);
void json_text(struct json *j, const char *s, size_t n);
void json_string(struct json *j, const char *s); /* NULL: null */
void json_int(struct json *j, int64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
void json_raw(struct json *j, const char *text); /* a value, verbatim */

/* Fields of the running object. */
void json_put_string(struct json *j, const char *key, const char *s);
void json_put_int(struct json *j, const char *key, int64_t v);
void json_put_bool(struct json *j, const char *key, bool v);
void json_put_null(struct json *j, const char *key);
void json_put_open(struct json *j, const char *key, char bracket);

#endif
