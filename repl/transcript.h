/* Transcripts: text that a reader can replay. `gspmd> command` lines, each with what it answers
 * below; lines that begin with # are comments, "# new session" begins one. In Markdown only fenced
 * blocks marked gspmd count. A line of "..." stands for any number of lines. */
#ifndef GSPMD_REPL_TRANSCRIPT_H
#define GSPMD_REPL_TRANSCRIPT_H

#include <stdbool.h>

/* Replays files; ":examples" stands for the examples of the table of commands. record: rewrites
 * what was expected. Prints a line a file and "N passed, N failed". Returns the exit status. */
int transcript_main(int nfiles, char **files, bool record);

#endif
