/* A module under edit: operands that can be rewritten and user lists that follow, in the order that
 * XLA's replacements give them (P-54, P-57). prepare and the annotations of the pass work on it;
 * edit_finish puts the result back into the module and its graph. */
#ifndef GSPMD_PROPAGATE_EDIT_H
#define GSPMD_PROPAGATE_EDIT_H

#include "propagate/propagate.h"

struct id_list {
    instr_id *v;
    uint32_t n, cap;
};

struct edit {
    struct module *m;
    struct arena *arena;      /* dies with the edit */
    uint32_t cap;             /* of the tables by instruction */
    instr_id **operands;      /* what instr.operands points to, writable */
    struct id_list *users;
    struct origin *origin;
    struct id_list *comps;    /* storage order by computation, removed ones still listed */
    instr_id *roots;          /* by computation */
    VEC(struct alias) aliases;
    VEC(struct heir) heirs;
    struct map names;         /* taken, once edit_name was called; and by base the last number */
    struct map numbers;
    uint32_t *mark;           /* of edit_order: 2 x walk + 0 open, 1 done; less: not reached */
    uint32_t walk;
};

/* origin: of m's present instructions (NULL: each stands for itself). users NULL: counted anew. */
void edit_open(struct edit *e, struct module *m, const struct origin *origin,
               const struct users *users, struct arena *arena);
/* Names an instruction that a pass made: base, or base.N with the smallest N >= 1 that is free in the
 * module; numbers are not given twice (P-58). */
void edit_name(struct edit *e, instr_id i, const char *base);
/* y stands for x, which made way for it: where x's name is asked for, y answers too. */
void edit_alias(struct edit *e, instr_id x, instr_id y);
/* Adds an instruction behind the last of computation c. Operands and attributes as in like (attrs
 * shared) when it is given. */
instr_id edit_add(struct edit *e, comp_id c, enum op_kind op, shape_id shape, uint32_t noperands,
                  const instr_id *operands, const struct instr *like, struct origin from);
bool edit_gone(const struct edit *e, instr_id i);
/* P-57, then removes x and (unused) what only x used. */
void edit_replace(struct edit *e, instr_id x, instr_id y, bool unused);
/* user uses y where it used x; x's own list stays as it is. */
void edit_use_instead(struct edit *e, instr_id user, instr_id x, instr_id y);
void edit_set_operand(struct edit *e, instr_id user, uint32_t k, instr_id y);
/* y has x's sharding from here on, unless it has one of its own. */
void edit_inherit(struct edit *e, instr_id x, instr_id y);
/* Instructions of c, operands first, from each one without users in storage order (P-55); root_last:
 * the root's walk comes last, as where a computation is copied into its caller. */
void edit_order(struct edit *e, comp_id c, bool root_last, struct arena *a, struct id_list *out);
/* Writes computations back and makes g's origin, users, start, list and removed. */
void edit_finish(struct edit *e, struct graph *g);

/* Reports that the tick said stop; false. */
bool pass_interrupted(struct diag *d);
void id_list_push(struct arena *a, struct id_list *l, instr_id i);
bool instr_is_root(const struct module *m, instr_id i);

#endif
