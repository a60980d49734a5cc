/* The document: one module, strategies over it, and everything derived from the two.
 *
 * A strategy is a small immutable value: meshes, annotations, options. Every edit makes a new one;
 * undo, redo, save and restore move pointers. Derived results are pure functions of (module,
 * strategy): computed when asked for, kept while memory lasts, never part of the document.
 *
 * Every function here is an API boundary: an INVARIANT or a failed allocation inside comes back as
 * false with a diag message of code "internal" or "memory", and the document is as it was.
 */
#ifndef GSPMD_SESSION_SESSION_H
#define GSPMD_SESSION_SESSION_H

#include "cost/cost.h"
#include "emulate/emulate.h"
#include "partition/partition.h"
#include "propagate/propagate.h"
#include "text/text.h"

struct options {
    bool prepare;
    bool propagation_none;
    bool propagation_set;         /* the user said so; else the dump decides */
    int to_output, to_parameters; /* -1 header, 0 false, 1 true, 2 list */
    int64_t nto_output, nto_parameters;
    const bool *to_output_list, *to_parameters_list;
    bool is_spmd, cse_only, propagate_metadata;
    struct partition_options partition;
    enum collective_algorithm collectives; /* hops of traces; changes no result */
    int threads;
    uint64_t seed;
    enum { UNEVEN_PAD, UNEVEN_WARN, UNEVEN_ERROR } uneven;
    enum spelling spelling;
};

struct strategy {
    const struct strategy *parent; /* what undo goes back to */
    const char *command;           /* the command line that made it; "" for the first */
    int nmeshes;
    const struct mesh *meshes; /* [0]: the default one; naxes 0 when none was named */
    bool mesh_of_module;       /* [0] is what the module's text names, nobody's edit */
    int nannotations;
    const struct annotation *annotations;
    const char *const *specs; /* [nannotations] shardings as typed ("[_,model]"); a new mesh
                                 reads them again. NULL: nothing was typed (unshard) */
    bool unshard_module;
    struct options options;
    uint64_t key;             /* hash of all that results depend on */
    uint64_t propagation_key; /* the part of it that shardings depend on */
};

struct document;

struct document *document_new(void);
void document_free(struct document *doc);

/* Replaces the module; on failure the document keeps the one that it has. */
bool document_load(struct document *doc, const char *path, struct tick *t,
                   struct diag *d) MUST_CHECK;
bool document_load_text(struct document *doc, const char *name, const char *text, size_t n,
                        struct tick *t, struct diag *d) MUST_CHECK;

const struct module *document_module(const struct document *doc); /* NULL: none loaded */
const char *document_path(const struct document *doc);
struct ir *document_ir(const struct document *doc); /* always there, also without a module */
const struct strategy *document_strategy(const struct document *doc);

/* Number of devices, by language.md section 3; 0: not known. */
int64_t document_devices(const struct document *doc);
/* The module is a program that was partitioned already: collectives in it, nothing left to do. */
bool document_is_partitioned(const struct document *doc);
/* Whether shardings are taken as they stand: the option, or a dump whose every value has one. */
bool document_propagation_none(const struct document *doc);
/* The default mesh: the user's, else the one that the module's text names (Shardy's dumps do); NULL: none. */
const struct mesh *document_mesh(const struct document *doc);

void options_default(struct options *o);

/* ---- edits: each makes a new strategy or leaves the document as it was ----------------------------- */

bool edit_mesh(struct document *doc, const struct mesh *mesh, const char *command,
               struct diag *d) MUST_CHECK;
/* n annotations at once (a selection): one step of undo. spec: the sharding as typed, or NULL. An
 * annotation replaces the former ones of the same kind of target and leaf. */
bool edit_annotate(struct document *doc, int n, const struct annotation *list, const char *spec,
                   const char *command, struct diag *d) MUST_CHECK;
/* A whole strategy at once, one step of undo: meshes (nmeshes 0: as they are; [0] the default one), and
 * annotations with what was typed for each (NULL: nothing). */
struct edit_batch {
    int nmeshes, n;
    const struct mesh *meshes;
    const struct annotation *list;
    const char *const *specs;
};
bool edit_batch(struct document *doc, const struct edit_batch *b, const char *command,
                struct diag *d) MUST_CHECK;
bool edit_unshard_module(struct document *doc, const char *command, struct diag *d) MUST_CHECK;
bool edit_options(struct document *doc, const struct options *o, const char *command,
                  struct diag *d) MUST_CHECK;
/* One step back / forward; nothing to undo is an error of code "usage". */
bool edit_undo(struct document *doc, struct diag *d) MUST_CHECK;
bool edit_redo(struct document *doc, struct diag *d) MUST_CHECK;
bool edit_save(struct document *doc, const char *name, struct diag *d) MUST_CHECK;
bool edit_restore(struct document *doc, const char *name, struct diag *d) MUST_CHECK;
int document_saved(const struct document *doc, const char *const **names);
const struct strategy *document_saved_strategy(const struct document *doc, const char *name);

/* ---- derived results: loans, valid until the next edit or load ------------------------------------- */

/* The module that the strategy stands for: text with annotations (`export hlo` prints it). */
const struct annotated *document_annotated(struct document *doc, struct diag *d);
const struct propagation *document_propagation(struct document *doc, struct tick *t,
                                               struct diag *d);
const struct program *document_program(struct document *doc, struct tick *t, struct diag *d);
/* Collectives of the partitioned program (of the dump itself when it is a partitioned one). */
bool document_collectives(struct document *doc, const struct collective **list, int64_t *n,
                          int64_t *total, struct tick *t, struct diag *d) MUST_CHECK;
/* Propagation of the strategy before the last edit (NULL: none): for "what changed". */
const struct propagation *document_previous(struct document *doc, struct tick *t);
/* The same results for any strategy of this document (`diff`). */
const struct propagation *strategy_propagation(struct document *doc, const struct strategy *s,
                                               struct tick *t, struct diag *d);
bool strategy_collectives(struct document *doc, const struct strategy *s,
                          const struct collective **list, int64_t *n, int64_t *total,
                          struct tick *t, struct diag *d) MUST_CHECK;
const struct program *strategy_program(struct document *doc, const struct strategy *s,
                                       struct tick *t, struct diag *d);
/* Kernels, schedule and live memory of the strategy's program (of the dump itself when it is a
 * partitioned one): costs.c. */
bool strategy_memory(struct document *doc, const struct strategy *s, const struct cost_plan **plan,
                     const struct memory **memory, struct tick *t, struct diag *d) MUST_CHECK;
bool document_memory(struct document *doc, const struct cost_plan **plan,
                     const struct memory **memory, struct tick *t, struct diag *d) MUST_CHECK;
/* Its time on hardware; the caller's, for cost_free, before the next edit. shape: chips along the
 * torus axes, or NULL. */
struct cost *strategy_cost(struct document *doc, const struct strategy *s, const struct hardware *h,
                           int nshape, const int64_t *shape, enum overlap overlap, struct tick *t,
                           struct diag *d) MUST_CHECK;
/* The current strategy with another list of annotations, tried on the side: nothing of it is kept,
 * the document does not change. */
struct trial {
    struct annotated *annotated;
    struct propagation *prop;
    /* document_try_edit's: */
    struct program *program;
    struct arena arena; /* of the list */
    struct collective *list;
    int64_t n, total;
};
bool document_try(struct document *doc, int n, const struct annotation *list, struct trial *out,
                  struct tick *t, struct diag *d) MUST_CHECK;
/* The same with one annotation put in as edit_annotate would, and the program partitioned. */
bool document_try_edit(struct document *doc, const struct annotation *one, struct trial *out,
                       struct tick *t, struct diag *d) MUST_CHECK;
void trial_free(struct trial *t);
/* Trials to come are near that one, which stays as it is until this is called again. NULL: near what is known. */
void document_try_base(struct document *doc, int n, const struct annotation *list, const struct propagation *p);

/* ---- what would remove a collective (`blame`), remedy.c: found by trying --------------------------- */

struct remedy {
    struct annotation change;
    bool gone;                     /* one collective less of this kind for this instruction */
    int64_t bytes, ncollectives;   /* of the whole program with the change */
    int64_t elsewhere;             /* bytes added to all that is not this collective; negative: saved */
    int64_t changed;               /* instructions whose sharding changes */
    int64_t arguments;             /* bytes of one device's arguments with the change */
};

struct remedies {
    int64_t n;             /* tried, in the order of trial */
    struct remedy *list;
    int64_t best;          /* of those that remove it: least bytes, then arguments, then changes; -1: none */
    bool stopped;          /* the bound was met: there were more to try */
    int64_t arguments;     /* bytes of one device's arguments now */
};
/* collective: index in document_collectives' list. all: no bound on the work. */
bool document_remedies(struct document *doc, int64_t collective, bool all, struct arena *a,
                       struct remedies *out, struct tick *t, struct diag *d) MUST_CHECK;
/* Whether propagation may give a sharding to this entry parameter, or to this leaf of the entry's
 * root (-1: to all of it); true for every other instruction. */
bool document_may_change(struct document *doc, instr_id loaded, int64_t leaf);
/* Index of the annotation that made instruction i of the working graph what it is; -1: none did. */
int document_annotation_of(struct document *doc, instr_id working, struct diag *d);
/* Derived results computed so far (not found in the memory of earlier ones): a counter for tests.
 */
int64_t document_computations(const struct document *doc);

/* A small program of one parameter with sharding `from` and a copy with sharding `to`: what moving
 * an array costs (`reshard A -> B`). Owned by the document until the next such call. */
const struct program *document_reshard(struct document *doc, shape_id shape, sharding_id from,
                                       sharding_id to, const struct collective **list, int64_t *n,
                                       int64_t *total, struct diag *d);
/* The same as partitioner=best does it, or as XLA does, whatever is set. */
const struct program *document_reshard_as(struct document *doc, shape_id shape, sharding_id from,
                                          sharding_id to, bool best, const struct collective **list,
                                          int64_t *n, int64_t *total, struct diag *d);

/* ---- names and selections (language.md section 2) -------------------------------------------------- */

/* All instructions of the loaded module that a selection names, in module order, no duplicates.
 * Errors: no such name (with did-you-mean), several matches of one NAME (listed). src/at: the
 * command line and where the selection stands in it. single: exactly one is wanted. */
bool select_instrs(struct document *doc, const char *text, size_t n, const struct source *src,
                   uint32_t off, bool single, struct arena *a, instr_id **out, int64_t *count,
                   struct diag *d) MUST_CHECK;

/* One tensor: NAME, or a leaf of a tuple NAME{0,1} (*leaf: its number; -1: the whole). */
bool select_tensor(struct document *doc, const char *text, size_t n, const struct source *src,
                   uint32_t off, instr_id *out, int64_t *leaf, struct diag *d) MUST_CHECK;
/* "main/dot.4", quoted for reading. brief: without the entry's computation; "(broadcast)" for what the reader
 * made and no text names. */
void instr_label(const struct module *m, instr_id i, bool brief, struct str *out);

/* One instruction as seen after propagation: sharding, local shape, copies. */
struct tensor_view {
    instr_id instr; /* of the loaded module */
    uint32_t nsites;
    enum removed_reason removed;
    sharding_id sharding; /* of site k; none */
    instr_id working;     /* working graph's instruction */
    uint32_t site;
    enum { ORIGIN_NONE, ORIGIN_MODULE, ORIGIN_USER, ORIGIN_PROPAGATED } origin;
    uint64_t open;
    /* by view_measure: */
    shape_id local;        /* one device's shape (tuples: leaf by leaf) */
    int64_t bytes;         /* one device's; -1: does not fit */
    int64_t tiles, copies; /* pieces, devices that hold each (arrays) */
    int64_t padding;       /* elements of padding in all pieces (arrays) */
};
bool document_view(struct document *doc, instr_id i, uint32_t site, struct tensor_view *out,
                   struct tick *t, struct diag *d) MUST_CHECK;
/* Fills the measures; ndevices as document_devices. Takes time in the leaves of a tuple. */
void view_measure(struct document *doc, struct tensor_view *v);
/* The same for any shape and sharding. */
void measure_shape(struct ir *c, shape_id shape, sharding_id s, int64_t ndevices,
                   struct tensor_view *out);

#endif
