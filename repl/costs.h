/* What the commands on memory, time and hardware share. */
#ifndef GSPMD_REPL_COSTS_H
#define GSPMD_REPL_COSTS_H

#include "repl/commands.h"

/* The chosen device type; the default one when none was (NULL with an error in c->d: it cannot be
 * read). */
const struct hardware *costs_hardware(struct call *c);
const char *nice_seconds(struct arena *a, double s); /* 1.23 ms */
const char *nice_number(struct arena *a, double v);  /* 1.23e12 */
const char *nice_percent(struct arena *a, double part, double whole);
void json_put_real(struct json *j, const char *key, double v);
/* Under which name a node of the program is told: the parameter's argument name, or the node's own. */
const char *node_name(struct call *c, const struct module *m, instr_id node);
/* Loaded instruction that it serves, "" for glue. */
const char *node_for(struct call *c, const struct program *p, instr_id node);
/* memory keep=, drop=: tells what they would change; false with a message. dry: says nothing else. */
bool memory_ifs(struct call *c, const struct program *p, const struct cost_plan *plan, const struct memory *r, bool dry);
/* The program in force, NULL for a dump that is one; fails only with a message. */
bool costs_program(struct call *c, const struct program **p, const struct module **m);

#endif
