/* Two sides of a comparison: strategies, modules, partitioned dumps. */
#ifndef GSPMD_REPL_COMPARE_H
#define GSPMD_REPL_COMPARE_H

#include "repl/shell.h"

struct side {
    const char *name;
    struct document *doc;
    bool own_doc; /* opened for the comparison */
    const struct module *module;
    const struct propagation *prop; /* NULL: a program that was partitioned elsewhere */
    const struct program *program;  /* NULL: there, or where the partitioner failed */
    const struct collective *list;
    int64_t n, total;
    bool has_comms;
    int64_t peak; /* bytes of one device at the peak; -1: not known */
};

/* `current`, `previous`, a saved strategy, or a file (HLO, StableHLO; a partitioned dump, too).
 * Reports what is wrong and returns false. Close every side that was opened. */
bool side_open(struct call *c, int arg, struct side *s) MUST_CHECK;
void side_close(struct side *s);

/* Commands print names and shardings of c->sh->doc: this puts another document there, and returns
 * the one that was. */
struct document *side_enter(struct call *c, const struct side *s);
void side_leave(struct call *c, struct document *before);

/* Prints (or puts into the running object) what differs: shardings, collectives, layers, totals. */
void diff_sides(struct call *c, const struct side *a, const struct side *b);

/* to[i]: the instruction of b that instruction i of a is, 0: none. Found by what an instruction
 * computes, then by its op_name, then by its name without the number: a renumbered dump is still
 * the same. Arena of c; to has module_ninstrs(a) + 1 entries. */
const uint32_t *match_modules(struct call *c, const struct module *a, const struct module *b);

/* "layer_3" of jit(step)/jit(main)/transpose(jvp(layer_3))/mlp/dot_general; "" without a scope. */
const char *layer_of(struct arena *a, const char *op_name);

#endif
