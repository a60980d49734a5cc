/* A debugger: a program's devices in lock step, every value kept until it is made again.
 *
 * One step: every device that can go on makes one step of its own; who comes to a collective waits
 * there until its group has come. */
#ifndef GSPMD_EMULATE_DEBUG_H
#define GSPMD_EMULATE_DEBUG_H

#include "emulate/emulate.h"

struct debugger;

enum debug_state {
    DEBUG_STOPPED, /* devices stand before the steps that debug_at names */
    DEBUG_ENDED,   /* all have ended */
    DEBUG_FAILED   /* reported: deadlock, limits, interruption, ... */
};

/* The program must outlive the debugger's use (not its end). Inputs as for run_program, copied.
 * NULL: reported. */
struct debugger *debug_open(const struct program *p, const struct tensor *global_in, int64_t nin,
                            const struct run_options *o, struct tick *tick, struct diag *d);
void debug_close(struct debugger *g); /* NULL is fine */

/* Whether the program has a step for i: names of other values, constants and what is computed before
 * the start have none. */
bool debug_has_step(const struct debugger *g, instr_id i);
void debug_break(struct debugger *g, instr_id i, bool on);
bool debug_breaks(const struct debugger *g, instr_id i);

enum debug_state debug_step(struct debugger *g, struct diag *d);
/* Until a device stands before a step with a break, or the end; at least one step. */
enum debug_state debug_continue(struct debugger *g, struct tick *tick, struct diag *d);
int64_t debug_steps(const struct debugger *g);

/* Where a device stands: the instruction of its next step, none when it has ended; waits: it has
 * come to a collective and waits. */
instr_id debug_at(const struct debugger *g, int64_t device, bool *waits);

/* Leaf of the value that an instruction last had on a device, copied. false: it has none (yet). */
bool debug_value(const struct debugger *g, int64_t device, instr_id i, int64_t leaf,
                 struct tensor *out) MUST_CHECK;

#endif
