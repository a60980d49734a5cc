/* For unit tests: a module given as text, propagated and partitioned, ready to be verified. */
#ifndef GSPMD_TESTS_WHOLE_H
#define GSPMD_TESTS_WHOLE_H

#include "tests/unit/emulate_run.h"

struct whole {
    struct ir *ir;
    struct module *m;
    struct diag *d;
    struct graph *g;
    struct propagation *pr;
    struct program *p;
    struct arena *arena;
    struct collective *list;
    int64_t n, bytes; /* collectives of the program */
};

static inline void whole_free(struct whole *w)
{
    program_free(w->p);
    propagation_free(w->pr);
    module_free(w->m);
    diag_free(w->d);
    ir_free(w->ir);
    arena_close(w->arena);
    free(w->arena);
}

/* o: options beside the number of devices; NULL: the usual ones. p is NULL when it cannot be had. */
static inline struct whole whole_of(const char *text, const struct partition_options *o)
{
    struct whole w = { .ir = ir_new(), .d = diag_new() };
    struct partition_options pt;
    partition_options_default(&pt);
    if (o)
        pt = *o;
    w.m = module_load_text(w.ir, "test.hlo", text, strlen(text), NULL, w.d);
    w.g = w.m ? graph_prepare(w.m, true, NULL, w.d) : NULL;
    struct propagation_options po = { .spmd = true,
                                      .nto_output = w.m ? w.m->nto_output : 0,
                                      .to_output = w.m ? w.m->to_output : NULL };
    w.pr = w.g ? propagate(w.g, &po, NULL, w.d) : NULL;
    pt.num_partitions = w.m ? w.m->num_partitions : 1;
    w.p = w.pr ? partition(w.pr, &pt, NULL, w.d) : NULL;
    w.arena = calloc(1, sizeof *w.arena);
    arena_open(w.arena);
    if (w.p)
        w.n = collectives_list(w.p->module, pt.num_partitions, 1, w.arena, &w.list, &w.bytes);
    return w;
}

/* NULL: equal in ring mode; else what is not. */
static inline const char *whole_differs(struct whole *w, enum run_mode mode)
{
    static char text[400];
    struct verify_result r;
    if (!w->p || !verify_program(w->pr, w->p, mode, 1, 2, &r, NULL, w->d))
        return first_error(w->d);
    bool equal = r.equal && !r.poisoned;
    snprintf(text, sizeof text, "%s %s, expected %s", r.poisoned ? "poisoned:" : "got",
             r.got ? r.got : "?", r.expected ? r.expected : "?");
    verify_result_free(&r);
    return equal ? NULL : text;
}

static inline int64_t whole_count(const struct whole *w, enum op_kind kind)
{
    int64_t n = 0;
    for (int64_t k = 0; k < w->n; k++)
        n += w->list[k].kind == kind;
    return n;
}

/* Whether the program has an array of this op and shape text. */
static inline bool whole_has(const struct whole *w, enum op_kind op, const char *shape)
{
    const struct module *m = w->p->module;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        if (op != OP_NONE && in->op != op)
            continue;
        struct arena a;
        memset(&a, 0, sizeof a);
        arena_open(&a);
        struct str s = STR_IN(&a);
        shape_print(m->ir, in->shape, false, &s);
        bool same = strcmp(str_text(&s), shape) == 0;
        arena_close(&a);
        if (same)
            return true;
    }
    return false;
}

#endif
