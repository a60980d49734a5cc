/* Messages about input: a place, a reason, a suggestion. The engine stores, the client prints.
 *
 * Failing is one line:   return diag_error(d, src, at, "sharding covers %" PRId64 " devices", n);
 * diag_error returns false. A NULL diag is allowed everywhere and means "nobody listens".
 */
#ifndef GSPMD_BASE_DIAG_H
#define GSPMD_BASE_DIAG_H

#include "base/str.h"

/* A text that messages point into: a file, or a command line. Owned by whoever read it (usually a
 * module); must outlive the diags that name it, or be copied by diag_own. */
struct source {
    const char *name; /* file name as the user gave it, "<stdin>", "<command>" */
    const char *text;
    size_t len;
};

/* Bytes [off, off + len) of a source. {0,0} with src == NULL: no place. */
struct span {
    uint32_t off, len;
};

enum diag_severity { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE };

struct diag_msg {
    enum diag_severity severity;
    const char *text;
    const char *hint; /* what to try, or NULL */
    const char *code; /* "parse", "verify", "shard", "partition", "name", "usage", "io", "limit",
                         "interrupted", "internal": language.md section 8 */
    const char *file; /* copied; NULL: no place */
    int line, column; /* 1-based, columns in bytes; 0: no place */
    const char *quote; /* the source line (cut around the column when long), already safe to print */
    int caret, caret_len; /* in display columns of quote, 0-based */
};

struct diag {
    struct arena arena;
    VEC(struct diag_msg) msgs;
    int nerrors;
    const char *code; /* code that new messages get; set by each stage */
    int limit;        /* errors kept; further ones are counted only. 0 = 20 */
};

struct diag *diag_new(void);
void diag_free(struct diag *d);
void diag_clear(struct diag *d);

bool diag_error(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void diag_warn(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void diag_note(struct diag *d, const struct source *src, struct span at, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* Attaches a suggestion to the newest message. */
void diag_hint(struct diag *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Sets the code of messages from here on ("parse", "verify", ...); returns the former one. */
const char *diag_stage(struct diag *d, const char *code);

/* Renders one message: "mlp.hlo:3:48: error: ...", the quoted line, the caret, the hint. */
void diag_render(const struct diag_msg *m, struct str *out);

/* 1-based line and column of an offset. */
void source_place(const struct source *src, uint32_t off, int *line, int *column);

#endif
