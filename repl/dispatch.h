/* From words to a command that ran: prefixes, options, common checks, redirection, rendering. */
#ifndef GSPMD_REPL_DISPATCH_H
#define GSPMD_REPL_DISPATCH_H

#include "repl/shell.h"

/* raw: the command as it stood, heredoc included (for the log). Returns its status. */
int dispatch(struct shell *sh, const struct source *src, const struct parsed *p, const char *raw,
             size_t nraw);
/* Prints messages that belong to no command (the lexer's). */
void dispatch_messages(struct shell *sh, struct diag *d, int status);

void shell_tick_begin(struct shell *sh);
void shell_tick_end(struct shell *sh);

#endif
