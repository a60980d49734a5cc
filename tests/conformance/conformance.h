/* gspmd-conformance: runs folders of files in the formats of the shared corpus and cases. Each
 * runner takes one folder, prints what it finds wrong (verbose: everything) and counts. */
#ifndef GSPMD_TESTS_CONFORMANCE_H
#define GSPMD_TESTS_CONFORMANCE_H

#include <stdbool.h>

struct conformance {
    int passed, failed, skipped;
    bool verbose;
};

/* propagation.jsonl of folder (skipped when there is none). */
void conformance_propagation(const char *folder, struct conformance *c);
/* NAME.hlo[.gz] beside NAME.xla.json[.gz] in folder: every instruction's sharding, as a table. only:
 * names that contain it; NULL: all. */
void conformance_inputs(const char *folder, const char *only, struct conformance *c);

#endif
