/* The shell's words, language.md section 1: separators, comments, brackets, quotes, heredocs. */
#ifndef GSPMD_REPL_LEX_H
#define GSPMD_REPL_LEX_H

#include "base/diag.h"

struct word {
    const char *text; /* quotes around the whole word taken off; NUL-terminated */
    size_t n;
    uint32_t off, len; /* as it stands in the source */
    bool quoted;
};

/* One command: its words, and the lines of its heredoc (`load - <<END`). */
struct parsed {
    int n;
    struct word *words;
    uint32_t off, end; /* the command in the source, comment and separator left out */
    const char *heredoc;
    size_t heredoc_len;
};

enum lex_result {
    LEX_END,     /* nothing left */
    LEX_COMMAND, /* *out holds a command; *pos is behind it */
    LEX_MORE,    /* the text ends inside brackets, quotes, a continued line or a heredoc */
    LEX_ERROR    /* reported; *pos is behind the bad command */
};

/* Reads the next command of src from *pos. final: no more text can come, what is not closed is an
 * error. */
enum lex_result lex_command(struct arena *a, const struct source *src, size_t *pos, bool final,
                            struct parsed *out, struct diag *d);

#endif
