/* Sharding completion: from a few annotations to a sharding for every instruction, as GSPMD does it
 * in XLA (specification P-1..P-152), with a record of every change and its cause.
 *
 *     module (as loaded) --prepare--> prepared --propagate--> working graph + write history
 *
 * prepare does what XLA's compiler does before completion: inlines calls, drops dead code and
 * zero-sized operations, makes conditionals canonical. The working graph is the prepared one plus
 * what the pass itself inserts (copies for Sharding calls, P-69; a copy behind a root while, P-75).
 */
#ifndef GSPMD_PROPAGATE_PROPAGATE_H
#define GSPMD_PROPAGATE_PROPAGATE_H

#include "base/tick.h"
#include "ir/ir.h"

/* ---- prepared and working graphs -------------------------------------------------------------- */

/* Where an instruction of the derived module comes from. A call path is a chain of call sites. */
struct origin {
    instr_id source;      /* instruction of the module as loaded; none: made by a pass */
    uint32_t site;        /* index into graph.sites; 0: not inlined */
};

struct call_site {
    uint32_t outer;       /* index of the enclosing site, 0: none */
    instr_id call;        /* the call, in the module as loaded */
};

enum removed_reason { REMOVED_NOT, REMOVED_DEAD, REMOVED_ZERO_SIZED, REMOVED_INLINED /* the call
    itself and its callee's parameters */, REMOVED_REPLACED /* something stands for it */ };

struct partition_store;

struct graph {
    struct module *module;        /* owned */
    const struct module *loaded;  /* a loan */
    struct origin *origin;        /* [module_ninstrs(module) + 1] */
    uint32_t nsites;
    struct call_site *sites;      /* from 1 */
    /* For each loaded instruction: what stands for it (several when inlined at several calls),
     * list[start[i] .. start[i+1]), ordered by module order; and why it is gone when empty. */
    uint32_t *start;
    instr_id *list;
    uint8_t *removed;             /* enum removed_reason */
    bool *comp_used;              /* [module_ncomps(module) + 1]; false: only calls that were inlined
                                     reached it, so no pass looks at it (its list is still there) */
    int64_t naliases;             /* loaded instructions that made way for an operand of theirs */
    struct alias {
        instr_id source, stands;
    } *aliases;
    int64_t nheirs; /* instructions that took another's place, with the sharding that it had */
    struct heir {
        instr_id instr;
        sharding_id had;
    } *heirs;
    struct users users;           /* of module, in XLA's order after replacements (P-57) */
    struct arena arena;           /* where all of this lives; module has its own */
    struct partition_store *store; /* the partitioner's: computations that it has done; NULL: none */
    void (*store_free)(struct partition_store *);
};

/* prepare on = false: a plain copy (what the propagation corpus expects). Shardings of the module
 * come along. The result owns its memory. */
struct graph *graph_prepare(const struct module *loaded, bool on, struct tick *tick,
                            struct diag *d) MUST_CHECK;
void graph_free(struct graph *g);

/* ---- annotations: what a strategy adds to the module (language.md section 5) ------------------ */

enum annotation_kind { ANNOTATE_SHARD, ANNOTATE_CONSTRAIN, ANNOTATE_UNSHARD };

struct annotation {
    enum annotation_kind kind;
    instr_id target;      /* instruction of the module as loaded */
    int64_t leaf;         /* leaf of a tuple, -1: the whole */
    sharding_id sharding;
    uint64_t open;        /* dimensions left to propagation (ANNOTATE_CONSTRAIN) */
    int number;           /* position in the strategy, for `why` */
};

/* The module text that the annotations stand for: a copy of loaded with them applied, in which
 * ids below ninstrs(loaded) keep their meaning. *made maps instructions that were added (ids above)
 * to their annotation's index. `export hlo` prints exactly this module. unshard_module: first remove
 * all shardings that the text brought (an error names manual regions). */
struct annotated {
    struct module *module;   /* owned */
    int *annotation_of;      /* [ninstrs + 1] index into the list, -1: none */
};
struct annotated *annotate(const struct module *loaded, int n, const struct annotation *list,
                           bool unshard_module, struct diag *d) MUST_CHECK;
void annotated_free(struct annotated *a);

/* ---- the pass --------------------------------------------------------------------------------- */

struct propagation_options {
    bool spmd;                 /* default true in the shell, P-63 */
    bool propagate_metadata;
    bool cse_only;
    int64_t nto_output, nto_parameters; /* 0: one entry, false */
    const bool *to_output, *to_parameters;
    bool none; /* `set propagation=none`: shardings as they stand, nothing inferred */
    bool unrecorded; /* no history: what it costs; nothing can be asked afterwards */
    int nthreads; /* execution threads; 0: all */
    const char *const *threads;
};

/* Time of a write: stage, iteration (sweep), slot in the sweep (internals.md section 2). */
struct prop_time {
    uint8_t stage;
    uint16_t iteration;
    uint32_t slot;
    uint16_t seq;
};

enum prop_rule {
    RULE_NONE,
    RULE_ANNOTATION,  /* the module's or the user's */
    RULE_FORWARD,     /* from operands: cause = the operand */
    RULE_BACKWARD,    /* from users: cause = the user */
    RULE_GROUP,       /* shard_as / shard_like member */
    RULE_RELATED,     /* P-81: while, conditional, call relatives */
    RULE_OPEN_FORWARD,/* refinement of open dimensions, P-134 */
    RULE_OPEN_BACKWARD,
    RULE_MANUAL,      /* P-96, P-122 3 */
    RULE_UNKNOWN,     /* P-76 */
    RULE_ALIGN,       /* P-82, P-84 */
    RULE_RESTORE,     /* P-86..P-88: given back at the end */
    RULE_EVEN,        /* P-89: not even, so replicated */
    RULE_ANNOTATION_OPERAND /* P-69 4: operand of a Sharding call without sharding */
};

struct prop_write {
    struct prop_time time;
    uint8_t rule;            /* enum prop_rule */
    bool merged;             /* with what was there: neither side's alone (P-28) */
    int32_t leaf;            /* -1: before and after are the whole sharding; else of this leaf */
    instr_id cause;          /* instruction of the working graph; none */
    sharding_id before, after;
};

/* The history in pages: those that an increment wrote nothing in belong to the old propagation, too. */
enum { HISTORY_PAGE = 64 };
struct history_page {
    uint32_t refs;                     /* propagations that hold it; 0: it lies in their root */
    uint32_t first[HISTORY_PAGE + 1];  /* writes of the instructions in front, by instruction */
    struct prop_write writes[];
};

struct propagation {
    struct graph *graph;       /* owned: the working graph; its instrs' shardings are the *initial* */
    sharding_id *final;        /* [ninstrs + 1] after completion; none: no sharding */
    struct history_page **pages; /* [ninstrs / HISTORY_PAGE + 1], see prop_writes */
    uint32_t npages;           /* of an increment; internal */
    uint32_t nwrites;
    uint16_t *last; /* internal: of each instruction, sweep of its last write (sweep_of) */
    bool *provided;            /* [ninstrs + 1] P-75 */
    uint64_t *open;            /* [ninstrs + 1] open dims bits, P-132 */
    bool changed;              /* P-66 */
    int64_t visits;            /* counter for tests */
    int64_t asked;             /* operands, users and members that visits went through: the same */
    int64_t iterations;        /* sweeps over all levels: counter for tests */
    int64_t differing;         /* increments: visits whose inputs differ, or that came new */
    struct propagation *root;  /* whose graph and tables this one uses: its own, or those of the
                                  propagation that increments began with */
    int refs;                  /* propagations that use this one's, itself included */
    struct mount *mount;       /* internal */
    struct pass *state;        /* what why_candidates needs to visit again; internal */
    struct arena arena;
};

/* The history of instruction i of the working graph: its writes, by time. */
struct prop_writes {
    const struct prop_write *v;
    uint32_t n;
};
static inline struct prop_writes prop_writes(const struct propagation *p, instr_id i)
{
    const struct history_page *page = p->pages[i.i / HISTORY_PAGE];
    const uint32_t *first = &page->first[i.i % HISTORY_PAGE];
    return (struct prop_writes){ page->writes + first[0], first[1] - first[0] };
}

/* Takes over g (also on failure). false with d filled: wrong annotations (P-69), P-72. */
struct propagation *propagate(struct graph *g, const struct propagation_options *o,
                              struct tick *tick, struct diag *d) MUST_CHECK;
void propagation_free(struct propagation *p);

/* An edit that changes the sharding that an instruction of the loaded module carries. */
struct prop_edit {
    instr_id loaded;
    sharding_id was, is; /* none: it carries none */
};
/* A Sharding call that has `is` none goes: a copy without a sharding stands for it. Shardings are then those of a module
 * with such a copy; instructions and times are still this graph's. */
/* The same as propagating the edited module from scratch: shardings, writes, times, causes, sweeps;
 * only visits whose inputs differ run again. NULL: not for this graph or these edits (barriers of shard
 * groups, a Sharding call that would turn from or to unknown, devices of loops; or stopped by
 * tick): propagate from scratch then. o: with the flags of the edited module. old may be freed before the result. The graph
 * is old's: the shardings that its instructions carry are those of the first propagation; see
 * prop_given. */
struct propagation *propagate_increment(const struct propagation *old, int n, const struct prop_edit *edits,
                                        const struct propagation_options *o, struct tick *tick) MUST_CHECK;
/* The sharding that the module or the user gave instruction i of the working graph; none. */
sharding_id prop_given(const struct propagation *p, instr_id i);

/* Sharding of an instruction of the loaded module under its k-th site: final of what stands for it;
 * none when removed. Number of sites: graph->start[i+1] - graph->start[i]. */

/* ---- asking ------------------------------------------------------------------------------------ */

/* One link of the chain from an annotation to here. */
struct why_step {
    instr_id instr;     /* working graph */
    struct prop_write write; /* the write that gave it its final (or next) sharding */
    const char *rule_text;   /* the rule in words, one sentence, with P-numbers; static or in arena */
};

/* The causes of instr's sharding back to annotations, nearest first. axis_dim -1: all dimensions;
 * else only what brought the split of that dimension. In arena a. */
int why_chain(const struct propagation *p, instr_id instr, int dim, struct arena *a,
              struct why_step **out);

/* Candidates offered to instr at a write's visit, also those that lost, with the reason. */
struct why_candidate {
    instr_id from;
    sharding_id offered;
    bool taken;
    const char *reason;
};
int why_candidates(const struct propagation *p, instr_id instr, const struct prop_write *at,
                   struct arena *a, struct why_candidate **out);

const char *prop_rule_text(const struct propagation *p, instr_id instr, const struct prop_write *w);

/* What user asks of its operand instr by the final shardings, whatever decides between users (P-123,
 * aggressiveness 3); none: it asks for nothing. */
sharding_id prop_wish(const struct propagation *p, instr_id instr, instr_id user);

/* How often each rule changed a sharding, and how often what it left is there at the end. One row a rule and
 * family of operations; also those that never fired. candidates: rows for what decided between candidates,
 * too, by visiting again (in time with the square of a module's size). In arena a. */
struct prop_rule_count {
    const char *name; /* "P-106 forward dot" */
    int64_t fired, decisive;
};
int64_t prop_rules(const struct propagation *p, bool candidates, struct arena *a, struct prop_rule_count **out);

/* A change by its place in time: the history from the first write to the last. */
struct prop_change {
    instr_id instr;
    const struct prop_write *write;
};
/* All p->nwrites changes, earliest first: the rank + 1 is the number of a step. In arena a. */
const struct prop_change *prop_changes(const struct propagation *p, struct arena *a);

/* The metadata that shardings carry in the end (P-67), by instruction of the working graph; NULL without
 * propagate_metadata. In arena a. */
struct sharding_note *const *prop_notes(const struct propagation *p, struct arena *a);

/* How far annotations reached: of the instructions of the working graph, those with a split (or, where
 * nothing is split, a sharding) whose chain of causes ends at the annotated one. */
struct prop_reach {
    instr_id seed;     /* annotated instruction of the working graph */
    int64_t reached;   /* others than itself */
    int64_t split_by;  /* dimensions (of all of these) that it alone split */
};
/* One entry an annotated instruction, in module order. In arena a. */
int64_t prop_coverage(const struct propagation *p, struct arena *a, struct prop_reach **out);

#endif
