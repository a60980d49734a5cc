/* Line editing: the one file that knows of readline (or libedit, or neither). */
#ifndef GSPMD_REPL_LINE_H
#define GSPMD_REPL_LINE_H

#include "repl/shell.h"

/* The prompt, until the session ends. Returns its exit status. */
int line_loop(struct shell *sh);

/* What can complete the word text, which starts at `start` of the line: the k-th match, malloc'ed;
 * NULL: no more. Without a terminal, so that tests can ask. */
char *line_complete(struct shell *sh, const char *line, int start, const char *text, int k);

#endif
