/* What reviews, builds and reports share: the snapshot that `expect unchanged` compares, and the
 * record of expectations that --junit and GitHub get. */
#ifndef GSPMD_REPL_REVIEW_H
#define GSPMD_REPL_REVIEW_H

#include "repl/shell.h"

/* The strategy's results as lines that are the same wherever they are made: devices and mesh, the
 * shardings of parameters and outputs, every collective with its bytes, the total. */
bool review_snapshot(struct call *c, struct str *s) MUST_CHECK;

/* One finished command for the records: an expectation, a verify, or a command that failed.
 * message: what was wrong, NULL when it held. Writes GitHub's annotation at once where
 * GITHUB_ACTIONS=true says that this runs there; keeps the case for review_junit. */
void review_record(struct shell *sh, const struct call *c, int status);
/* The cases as JUnit's XML (--junit FILE): no times in it, so the same run gives the same bytes.
 * false: it could not be written (errno). */
bool review_junit(struct shell *sh, const char *path) MUST_CHECK;

#endif
