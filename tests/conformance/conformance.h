/* gspmd-conformance: runs folders of files in the formats of the shared corpus and cases. Each
 * runner prints what it finds wrong, one line a failure (verbose: everything), and counts. */
#ifndef GSPMD_TESTS_CONFORMANCE_H
#define GSPMD_TESTS_CONFORMANCE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* A case that is known to fail, and why. */
struct known_fault {
    const char *file, *name, *reason; /* file: its last part, cases.jsonl; a folder's name for dumps */
};

struct conformance {
    int passed, failed, skipped;
    bool verbose;
    const char *only; /* names that contain this; NULL: all */
    const char *file; /* whose cases run now, its last part */
    int nknown;
    const struct known_fault *known;
};

/* path: a .jsonl file, or a folder that holds the file of the usual name (sharding_syntax.jsonl,
 * propagation.jsonl, ...; nothing happens when it holds none). */
void conformance_syntax(const char *path, struct conformance *c);
void conformance_propagation(const char *path, struct conformance *c);
void conformance_partitioner(const char *path, struct conformance *c);
void conformance_shardy(const char *path, struct conformance *c);
void conformance_cases(const char *path, struct conformance *c);
/* NAME.hlo[.gz] beside NAME.xla.json[.gz] in folder: every instruction's sharding, as a table. only:
 * names that contain it; NULL: all. */
void conformance_inputs(const char *folder, const char *only, struct conformance *c);

/* ---- for runners (lines.c) -------------------------------------------------------------------- */

/* The .jsonl file that path means; buffer of 4096 bytes. NULL: there is none. */
const char *conformance_file(const char *path, const char *usual, char *buffer);
/* Calls fn for each line's object that c->only lets through. A file that cannot be read is a
 * failure. */
typedef void conformance_fn(void *context, struct conformance *c, const cJSON *line);
void conformance_lines(const char *path, struct conformance *c, conformance_fn *fn, void *context);

/* Count, and say what is to be said. A known fault that fails is skipped, with its reason; one that
 * passes fails, so that the list shrinks. */
void conformance_pass(struct conformance *c, const char *name);
void conformance_fail(struct conformance *c, const char *name, const char *expected,
                      const char *got);
void conformance_skip(struct conformance *c, const char *name, const char *why);

/* Another thing that is wrong with a case, behind those already in why. */
void add_reason(struct str *why, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Fields of an object: "", -1 and false when they are not there. */
const char *field_text(const cJSON *o, const char *key);
int64_t field_int(const cJSON *o, const char *key);
bool field_true(const cJSON *o, const char *key);

#endif
