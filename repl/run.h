/* Between the commands that run something on emulated devices: cmd_run.c, cmd_trace.c, cmd_debug.c. */
#ifndef GSPMD_REPL_RUN_H
#define GSPMD_REPL_RUN_H

#include "repl/commands.h"

/* Tensors that are freed on every way out of a command, but for a failure that jumps. */
struct leaves {
    struct tensor *v;
    int64_t n;
};
void leaves_free(struct leaves *l);

/* Global inputs of a module's parameters, from files in folder (NULL: none) or made up; before any is
 * made, whether the run fits into memory. Reported when not. */
bool run_inputs(struct call *c, const struct module *m, const shape_id *params, int64_t nparams,
                int64_t ndevices, const char *folder, uint64_t seed, struct leaves *out_l);
struct run_options run_options_of(struct call *c, int64_t ndevices);
/* seed= of the command, else the option's. */
bool run_seed(struct call *c, int64_t *seed);
void warn_elided(struct call *c);
/* An instruction of the partitioned program as the user wrote its name (argument k); reported when
 * there is none. */
bool program_instr(struct call *c, const struct program *p, const char *name, instr_id *out_i);
const char *program_label(struct call *c, const struct module *m, instr_id i);

/* cmd_debug.c */
bool debug_is_open(struct call *c); /* devices are stopped in the program of the current strategy */
int debug_step_command(struct call *c, int64_t n);

#endif
