/* Strategies as files: between the commands that write and read them. */
#ifndef GSPMD_REPL_STRATEGY_FILE_H
#define GSPMD_REPL_STRATEGY_FILE_H

#include "repl/commands.h"

/* One annotation of a file, by the name of what it is for. */
struct file_entry {
    const char *name;     /* argument name, or a tensor's */
    const char *text;     /* its sharding, in any spelling; NULL: unshard */
    enum annotation_kind kind;
    int64_t leaf;         /* -1: the whole */
    const char *shape;    /* that it had when written, or NULL */
};

struct file_strategy {
    int nmeshes;
    struct mesh *meshes;  /* named in the file: the first is the default one */
    VEC(struct file_entry) entries;
};

/* The text of FILE, or behind <<END where FILE is -. Freed by source_free. */
bool strategy_source(struct call *c, const char *path, struct source **src) MUST_CHECK;
/* Puts the entries on the module at hand by name, as one edit, and says what did not match. */
int strategy_apply(struct call *c, const char *what, const struct file_strategy *f);

/* An entry parameter by its argument name: exact, else the only one whose name ends with it. none: no. */
instr_id argument_by_name(struct call *c, const char *name);

/* A sharding in axes where they can say it, else in HLO's words. */
const char *canonical(struct call *c, sharding_id s);

#endif
