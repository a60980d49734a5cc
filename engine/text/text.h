/* Text forms of modules: HLO (read and print), JSON models (read). */
#ifndef GSPMD_TEXT_TEXT_H
#define GSPMD_TEXT_TEXT_H

#include "base/tick.h"
#include "ir/ir.h"

/* Reads HLO text. The text is borrowed by the module: src is owned by it from here on (malloc'ed
 * struct, name and text; freed with module_free, and on failure too). A NUL must follow the text:
 * src->text[src->len] == 0. Errors: code "parse" with line, column, caret and suggestion; up to 20
 * of them. Does not verify. */
struct module *hlo_read(struct ir *c, struct source *src, struct tick *tick,
                        struct diag *d) MUST_CHECK;

/* Turns Shardy's custom calls of an HLO dump (manual computations, shardings of results) into GSPMD's, in
 * place; names stay. true: there were some. For a module to work on, not for one to print back. */
bool hlo_import_shardy(struct module *m);
/* JAX since 0.7 gives all collectives of manual computations one channel id: each gets its own. */
void module_unique_channels(struct module *m);
/* The first mesh of ndevices devices that m's text names (sdy.mesh, xla.sdy.meshes), with axes that the shell
 * can say; false: there is none. Names go to a. */
bool module_mesh(const struct module *m, int64_t ndevices, struct arena *a, struct mesh *out) MUST_CHECK;

/* Prints m as XLA does. For a module that was read from XLA's text: that text, byte for byte. */
struct hlo_print_options {
    const sharding_id *shardings; /* [ninstrs+1] in place of the instructions' own; NULL */
    bool no_metadata;
    bool short_form;    /* one-line instructions as listed by `program` */
    bool expand_groups; /* replica groups and pairs as explicit lists (older parsers) */
    int64_t max_bytes;  /* stop with false beyond; 0: no limit */
    /* A string put into the module header's frontend_attributes; NULL */
    const char *header_frontend;
};
bool hlo_print(const struct module *m, const struct hlo_print_options *o,
               struct str *out) MUST_CHECK;
/* One instruction, as hlo_print would have it, without the indentation. */
void hlo_print_instr(const struct module *m, instr_id i, const struct hlo_print_options *o,
                     struct str *out);
/* Size in bytes that hlo_print will need (for export's limit), without making the text. */
int64_t hlo_print_size(const struct module *m, const struct hlo_print_options *o);

/* Gives every instruction that has no name the one that hlo_print would print it under: for modules
 * whose instructions are listed one by one. Call it when the module is complete. */
void hlo_name_all(struct module *m);

/* Reads a JSON model (models/README.md). */
struct module *json_model_read(struct ir *c, struct source *src, struct diag *d) MUST_CHECK;

/* Reads StableHLO text (MLIR), pretty or generic, with mhlo.sharding or Shardy's attributes, into the
 * instructions that XLA's importer makes of it. src: as for hlo_read. */
struct module *mlir_read(struct ir *c, struct source *src, struct tick *tick, struct diag *d) MUST_CHECK;

/* Prints m as StableHLO text with mhlo.sharding attributes and Sharding calls. false with an error for
 * what has no counterpart there (asynchronous operations, permutes without a list, ...). */
struct mlir_print_options {
    const sharding_id *shardings; /* [ninstrs+1] in place of the instructions' own; NULL */
};
bool mlir_print(const struct module *m, const struct mlir_print_options *o, struct str *out,
                struct diag *d) MUST_CHECK;

/* Opens a file ("-": stdin), unpacks .gz, tells the form by content (HLO, JSON model, StableHLO,
 * .hlo.pb, bytecode, directory, empty, binary), reads and verifies it. What is recognised but
 * cannot be read is answered with the command that makes text of it. */
struct module *module_load(struct ir *c, const char *path, struct tick *tick,
                           struct diag *d) MUST_CHECK;
/* The same from memory (a copy is made). */
struct module *module_load_text(struct ir *c, const char *name, const char *text, size_t n,
                                struct tick *tick, struct diag *d) MUST_CHECK;
/* Reads and unpacks a whole file; malloc'ed. */
bool file_read(const char *path, struct source **out, struct diag *d) MUST_CHECK;
void source_free(struct source *s);

#endif
