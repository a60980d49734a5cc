/* The window as the shell has it: what its views show, what its bar runs, when it is pumped. */
#ifndef GSPMD_REPL_VIEWER_H
#define GSPMD_REPL_VIEWER_H

#include "repl/shell.h"

struct viewer;

/* Between commands, and whenever a key is awaited: events, and what edits changed. */
void viewer_pump(struct shell *sh);
/* In the middle of a command, from its tick: what is shown moves, nothing is run. Cheap when called often. */
void viewer_tick(struct shell *sh);
/* Pumps until fd can be read; at once without a window. */
void viewer_await(struct shell *sh, int fd);
int viewer_patience(const struct shell *sh); /* milliseconds until the next pump; -1: no window */
void viewer_free(struct shell *sh);

#endif
