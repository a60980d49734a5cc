/* Inside the session layer: the document's fields, and what its files share. */
#ifndef GSPMD_SESSION_INTERNAL_H
#define GSPMD_SESSION_INTERNAL_H

#include "base/fail.h"
#include "session/session.h"

/* Derived results of one propagation key, with the programs of the partition keys met under it. */
struct partitioned {
    struct partitioned *next;
    uint64_t key;
    struct program *program;
    bool listed;
    struct arena arena; /* of the list */
    struct collective *list;
    int64_t n, total;
    struct cost_plan *plan; /* costs.c */
    struct memory *memory;
};

struct derived {
    struct derived *next;
    uint64_t key;
    uint64_t used; /* document's clock when last asked for */
    struct annotated *annotated;
    struct propagation *prop;
    const struct strategy
        *strategy; /* that prop was made for: where increments start; NULL: none do */
    struct partitioned *parts;
    int *annotation_on; /* [loaded ninstrs + 1]: annotation whose target it is, or -1; malloc */
};

/* Names of the loaded module: instructions by name, chained; made when first asked for. */
struct name_index {
    bool made;
    struct arena arena;
    uint32_t nnames;
    uint32_t *first; /* [nnames] by name_id: entry's instruction before others; 0: none */
    uint32_t *next;  /* [ninstrs + 1] further instructions of the same name */
};

struct saved {
    const char *name;
    const struct strategy *strategy;
};

struct document {
    struct ir *ir;
    struct module *module;
    const char *path;
    bool partitioned, all_sharded, is_model;
    int64_t tiled_devices; /* TOTAL of the module's tiled shardings; 0: none; -1: they disagree */
    instr_id tiled_at;     /* one that has it */
    struct arena arena;    /* strategies, strings: lives as long as the module */
    const struct strategy *current;
    VEC(const struct strategy *) redo;
    VEC(struct saved) saved;
    VEC(const char *) saved_names;
    struct derived *derived;
    uint64_t clock;
    int64_t computations,
        increments;    /* of the computations, those that started from another result */
    bool from_scratch; /* tests: no increments */
    bool trying;       /* only shardings count, so calls may go by increments */
    struct trial_base {
        struct strategy strategy;
        const struct propagation *prop; /* NULL: none */
    } base; /* document_try_base */
    struct name_index names;
    /* document_reshard's */
    struct module *move_module;
    struct propagation *move_prop;
    struct program *move_program;
    struct arena move_arena;
};

/* Turns a failure caught at an API boundary into a message; returns false. */
bool boundary_failed(const struct fail_frame *f, struct diag *d);

/* A new first strategy; carries meshes and options over from `from` when there is one. */
void strategy_reset(struct document *doc, const struct strategy *from);
void strategy_hash(const struct document *doc, struct strategy *s);
int64_t strategy_devices(const struct document *doc, const struct strategy *s);
bool strategy_none(const struct document *doc, const struct strategy *s);

void derived_drop_all(struct document *doc);
/* Where a strategy's program and what is made of it is kept. */
struct partitioned *partitioned_for(struct document *doc, const struct strategy *s);
/* The propagation of s as an increment of one that is kept; NULL: none is near enough. increment.c
 */
struct propagation *increment_for(struct document *doc, const struct strategy *s,
                                  const struct propagation_options *o, struct tick *t);
/* s, a copy of the current strategy, with one more annotation: what edit_annotate would make. */
bool strategy_put(struct document *doc, struct strategy *s, const struct annotation *one,
                  struct diag *d);
void names_drop(struct document *doc);
void move_drop(struct document *doc);

#endif
