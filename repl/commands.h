/* What runs each row of the table, by file; and what command files share. */
#ifndef GSPMD_REPL_COMMANDS_H
#define GSPMD_REPL_COMMANDS_H

#include "repl/shell.h"

/* cmd_model.c */
int cmd_load(struct call *c);
int cmd_list(struct call *c);
int cmd_info(struct call *c);
int cmd_where(struct call *c);
/* cmd_export.c */
int cmd_export(struct call *c);
int cmd_program(struct call *c);
/* cmd_strategy.c */
int cmd_mesh(struct call *c);
int cmd_shard(struct call *c);
int cmd_constrain(struct call *c);
int cmd_unshard(struct call *c);
int cmd_undo(struct call *c);
int cmd_redo(struct call *c);
int cmd_save(struct call *c);
int cmd_restore(struct call *c);
int cmd_strategies(struct call *c);
/* cmd_load_dir.c: which file of a folder of dumps is meant; says what is there. NULL: reported. */
bool is_folder(const char *path);
const char *file_of_folder(struct call *c, const char *path);
/* cmd_strategy_export.c: text gets the file; module_form: the annotated module is meant. */
int export_strategy(struct call *c, const char *path, struct str *text, bool *module_form, bool *stablehlo);
/* cmd_strategy_load.c, cmd_rules.c: load strategy FILE, load rules FILE */
int load_strategy(struct call *c, const char *path);
int load_rules(struct call *c, const char *path);
/* cmd_spell.c */
int cmd_spell(struct call *c);
/* cmd_diff.c */
int cmd_diff(struct call *c);
/* cmd_set.c */
int cmd_set(struct call *c);
/* The options' names, k from 0, for completion. */
int option_count(void);
const char *option_name(int k);
/* cmd_show.c */
int cmd_show(struct call *c);
int cmd_propagate(struct call *c);
/* cmd_why.c */
int cmd_why(struct call *c);
/* cmd_why_not.c */
int cmd_why_not(struct call *c);
/* cmd_ask.c */
int cmd_step(struct call *c);
int cmd_back(struct call *c);
int cmd_run_to(struct call *c);
int cmd_conflicts(struct call *c);
int cmd_coverage(struct call *c);
/* cmd_comms.c */
int cmd_comms(struct call *c);
int cmd_partition(struct call *c);
/* cmd_passes.c */
int cmd_passes(struct call *c);
/* cmd_blame.c */
int cmd_blame(struct call *c);
/* cmd_reshard.c */
int cmd_reshard(struct call *c);
/* cmd_doctor.c */
int cmd_doctor(struct call *c);
/* cmd_run.c */
int cmd_run(struct call *c);
int cmd_verify(struct call *c);
/* cmd_trace.c */
int cmd_trace(struct call *c);
int cmd_inject(struct call *c);
/* cmd_debug.c */
int cmd_break(struct call *c);
int cmd_continue(struct call *c);
int cmd_print(struct call *c);
/* cmd_hardware.c, cmd_memory.c, cmd_cost.c */
int cmd_hardware(struct call *c);
int cmd_memory(struct call *c);
int cmd_cost(struct call *c);
int cmd_roofline(struct call *c);
int cmd_why_cost(struct call *c);
/* cmd_sweep.c */
int cmd_sweep(struct call *c);
/* cmd_plot.c */
int cmd_plot(struct call *c);
int cmd_graph(struct call *c);
int cmd_animate(struct call *c);
/* viewer.c */
int cmd_window(struct call *c);
/* cmd_script.c */
int cmd_source(struct call *c);
int cmd_echo(struct call *c);
int cmd_time(struct call *c);
int cmd_log(struct call *c);
int cmd_alias(struct call *c);
/* cmd_expect.c */
int cmd_expect(struct call *c);
/* cmd_watch.c */
int cmd_watch(struct call *c);
/* Options that are not the default ones, as commands. */
void option_script(struct call *c, const struct options *o, struct str *s);
/* cmd_session.c */
/* The commands that make a strategy of the current document from its module as loaded. */
void strategy_commands(struct call *c, const struct strategy *s, struct str *t);
/* The session as a script; false: said why not. */
bool session_text(struct call *c, struct str *t);
int load_session(struct call *c, const char *path);
/* cmd_report.c */
int cmd_report(struct call *c);
/* cmd_extract.c */
int cmd_extract(struct call *c);
/* cmd_suggest.c */
int cmd_suggest(struct call *c);
/* cmd_explain.c */
int cmd_explain(struct call *c);
/* cmd_lesson.c */
int cmd_lesson(struct call *c);
int cmd_tutorial(struct call *c);
/* journal.c */
int cmd_recover(struct call *c);
/* cmd_help.c */
int cmd_help(struct call *c);
int cmd_apropos(struct call *c);
int cmd_history(struct call *c);
int cmd_version(struct call *c);
int cmd_quit(struct call *c);

/* ---- shared --------------------------------------------------------------------------------------- */

/* Selections and single tensors as arguments: report and return false. */
bool arg_select(struct call *c, int k, instr_id **list, int64_t *n);
/* Whether a word names several tensors (a glob, op:, scope:, a cone, a list) and not one. */
bool word_is_selection(const struct word *w);
bool arg_tensor(struct call *c, int k, instr_id *out, int64_t *leaf);
/* Reads a sharding of any spelling that fills text[0..n); all of it must be read. */
bool read_spec(struct call *c, const char *text, size_t n, uint32_t off, shape_id shape, sharding_id *out,
               uint64_t *open);
/* Of each leaf, for sharding_spell_as; NULL: shape none. */
const struct spell_shape *spell_shapes(struct call *c, shape_id shape);
bool write_file(struct call *c, const char *path, const char *text, size_t n);

/* The strategy before an edit, to tell what the edit changed. */
const struct strategy *change_begin(struct call *c);
/* After an edit: derives the new results, says in three lines what changed. An edit that cannot be
 * propagated is taken back: the document is as it was, and the status says so. */
int change_finish(struct call *c, const struct strategy *before);

/* Which loaded instructions have another sharding in b than in a (none of both NULL): into list. */
struct change {
    instr_id instr;
    sharding_id before, after;
};
int64_t compare_shardings(struct call *c, const struct propagation *a, const struct propagation *b,
                          struct change **list);

/* Words for causes (cmd_why.c); w: an instruction of the working graph. */
/* The command or the line that annotated it; NULL: neither did. */
const char *annotated_by(struct call *c, const struct propagation *p, instr_id w);
instr_id loaded_of(struct call *c, const struct propagation *p, instr_id w); /* none: a pass made it */
const char *place_of_working(struct call *c, const struct propagation *p, instr_id w);
/* What brought a write: "from h: <rule>", "annotated by ..". */
const char *cause_words(struct call *c, const struct propagation *p, instr_id w, const struct prop_write *write,
                        const char *rule_text);
/* instruction, opcode, before, after, rule, text, from, stage, sweep, .. of the running object. */
void json_mesh(struct call *c); /* "mesh": {axis: size} or null, "devices" */
void json_write(struct call *c, const struct propagation *p, instr_id w, const struct prop_write *write,
                const char *rule_text);

/* Whether `final` splits an array at least as finely as `offered`, along the same lines. */
bool split_as(struct shardings *t, const struct shape *shape, sharding_id offered, sharding_id final);
/* Visits that trials may make before a command says so and stops (--all: no bound). */
enum { TRY_VISITS = 10 * 1000 * 1000 };

/* Mesh axes of a collective: "model", "data,model"; of a permute those along which it moves. "" when they are not
 * axes of the mesh, or not known. names: room for MESH_MAX_AXES. */
const char *collective_axes(struct call *c, const struct collective *k, int *naxes, const char **names);
const char *collective_label(struct call *c, const struct module *m, const struct collective *k);
/* From, to of every pair; -1: there are more than most. */
int64_t list_pairs(struct call *c, const struct permute_pairs *p, int64_t most, int64_t *out_pairs);
const char *groups_text(struct call *c, const struct collective *k);
/* Instruction of the loaded module that a node of the program serves, none for glue. */
instr_id served_by(struct call *c, const struct program *p, instr_id node);
/* Its name, or that of the working instruction; NULL: glue. full: computation/name, as JSON has it. */
const char *served_label(struct call *c, const struct program *p, instr_id node, bool full);
/* What partitioner=best did otherwise; nothing unless it is set (cmd_best.c). */
void say_best(struct call *c, const struct program *p);
void say_best_line(struct call *c, const struct program *p); /* one, a comment of HLO text */
void table_collectives(struct call *c, const struct module *m, const struct program *p,
                       const struct collective *list, int64_t n);

/* [SHAPE|T] A -> B [SHAPE], T -> B; arrow: which argument is the ->, find_arrow's answer (-1: none). A status. */
int find_arrow(const struct call *c);
int reshard_operands(struct call *c, int arrow, shape_id *shape, sharding_id *from, sharding_id *to);

/* Scalars, of all shardings of the module that are not even: for doctor and info. */
struct uneven {
    instr_id instr;
    instr_id working;
    sharding_id sharding;
    int64_t padding, stored;
};
int64_t find_uneven(struct call *c, const struct propagation *p, struct uneven **list);

/* Man page and shell completions, from the table. */
void print_man(struct str *s);
bool print_completion(const char *shell, struct str *s);

#endif
