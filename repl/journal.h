/* The journal of a session at the prompt: every edit, written down as it is made, so that a session
 * that dies (kill -9, a lost connection) is there again with `recover`.
 *
 * One file a session, $XDG_STATE_HOME/gspmd/journal/HOST-PID, a script that makes the edits again.
 * Its session holds a lock on it; a journal without a lock is one that a dead session left. It is
 * removed when the session ends as the user wanted. */
#ifndef GSPMD_REPL_JOURNAL_H
#define GSPMD_REPL_JOURNAL_H

#include "repl/shell.h"

struct journal;

/* Opens nothing yet: the first edit does. NULL when there is no folder for it. */
struct journal *journal_new(void);
/* The session ended as it should: the file goes. */
void journal_free(struct journal *j);
/* Writes one finished command down if it changed anything that a next session wants back. */
void journal_note(struct shell *sh, const struct call *c, const char *raw, size_t nraw,
                  int status);
/* Tells on stderr what a dead session left, if any did. */
void journal_offer(struct shell *sh);

/* $XDG_STATE_HOME/gspmd/NAME, below the home directory without one; malloced, NULL: neither is
 * known. Folders are made by state_folders. */
char *state_path(const char *name);
void state_folders(const char *path);

#endif
