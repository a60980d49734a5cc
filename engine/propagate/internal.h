/* Inside the pass. One visit function serves the run itself and its explanation: rules read a
 * sharding only by seen() and write only by put_sharding(), in the order in which XLA does; they have no
 * other memory (internals.md section 2). Rule numbers: specification P-n. */
#ifndef GSPMD_PROPAGATE_INTERNAL_H
#define GSPMD_PROPAGATE_INTERNAL_H

#include "propagate/edit.h"

enum {
    RANK_MAX = 64,        /* open dimensions are bits of 64; arrays beyond have no rule */
    LEVEL_LAST = 3,
    LEVEL_ANY = 100,      /* of the look-ahead, P-107 */
    SWEEPS_MAX = 10000    /* P-81 overwrites unconditionally, so nothing else bounds a loop */
};

enum family {
    FAMILY_none,
    FAMILY_source,
    FAMILY_parameter,
    FAMILY_elementwise,
    FAMILY_bitcast_convert,
    FAMILY_map,
    FAMILY_fusion,
    FAMILY_rng,
    FAMILY_rng_bit_generator,
    FAMILY_operand0,
    FAMILY_broadcast,
    FAMILY_reshape,
    FAMILY_transpose,
    FAMILY_reverse,
    FAMILY_concatenate,
    FAMILY_dynamic_slice,
    FAMILY_dynamic_update_slice,
    FAMILY_gather,
    FAMILY_scatter,
    FAMILY_dot,
    FAMILY_convolution,
    FAMILY_reduce,
    FAMILY_reduce_window,
    FAMILY_select_and_scatter,
    FAMILY_sort,
    FAMILY_tuple,
    FAMILY_get_tuple_element,
    FAMILY_while,
    FAMILY_conditional,
    FAMILY_call,
    FAMILY_custom_call,
    FAMILY_all_reduce,
    FAMILY_async
};

enum target {
    TARGET_OTHER,
    TARGET_SHARDING,
    TARGET_FULL_TO_SHARD,
    TARGET_SHARD_TO_FULL,
    TARGET_BARRIER_FROM,
    TARGET_BARRIER_TO,
    TARGET_PASS_THROUGH /* P-94, with operand and result as it asks */
};

/* What the rules ask of an instruction over and over; fixed once the working graph stands. */
struct fact {
    uint32_t forward_slot, backward_slot; /* 0: none */
    uint32_t class;     /* rule_class; 0: not made yet */
    shape_id shape;
    uint16_t op;
    uint8_t family;     /* of the opcode, elementwise by P-60 */
    uint8_t target;     /* of a custom call */
    uint8_t level;      /* P-92: can pass from this level on */
    uint8_t shape_kind;
    bool root;
    bool sole_user;     /* P-59 */
    bool forward_ok;    /* P-93 as the forward rule asks it */
    bool backward_ok;
    bool manual_ok;     /* P-96: shape or opcode that manual spreads to */
    bool asks;          /* its backward rules ask for its other operands, too */
    bool mute;          /* no user asks anything of it by its rule: an initial value, padding */
    bool fed;           /* not a parameter that nothing is passed to by P-73: of a reducer, of the entry */
    bool gone;          /* not in any computation that the pass looks at */
};

struct group {
    bool as;
    int64_t number;
    VEC(instr_id) members; /* insertion order */
    uint32_t also;         /* of an `as` group: the `like` group of its number, whose members ask it, + 1 */
    bool alike;            /* all members have `value`, are replicated, or have none; false: or it is not known */
    sharding_id value;
    int64_t replicated;    /* how many are */
    uint32_t first, second; /* positions + 1 of the first two of them; 0: none */
};

/* Candidates of one visit, for why_candidates. */
struct sink {
    struct arena *arena;
    VEC(struct why_candidate) list;
};

/* The last look-ahead's chain and what it answered, for the dots further along (else n dots in a row
 * cost n^2); dot.c's own. */
struct look {
    struct id_list chain;
    sharding_id *answers;
    uint32_t valid_from;         /* positions before: something they read was written */
    uint32_t current, *stamp, *position; /* by instruction: read by which chain, last at what position */
};

struct log_entry {
    instr_id instr;
    struct prop_write write;
};

struct improved_slot {
    sharding_id cand, old, answer;
    uint32_t shape;
    uint8_t flags; /* 0: empty */
};

/* What a rule made of one or two shardings: layers repeat, so most questions were asked before. By class of
 * instructions and: */
enum rule_question {
    ASK_DOT_OPERAND,                   /* + operand */
    ASK_DOT_USER = ASK_DOT_OPERAND + 2, /* + operand; + 2: may merge */
    ASK_REDUCE = ASK_DOT_USER + 4,
    ASK_REDUCE_USER,
    ASK_BROADCAST,
    ASK_BROADCAST_USER,
    ASK_TRANSPOSE,
    ASK_TRANSPOSE_USER,
    ASK_SUBTILING /* of a shape, not of a class */
};
struct rule_slot {
    uint32_t class; /* of instructions that ask alike, rule_class; 0: empty */
    uint32_t what;  /* which question */
    sharding_id a, b, answer;
};

/* The class that such a short key was last found to be. */
struct short_class {
    uint8_t key[16];
    uint32_t class; /* 0: empty */
};
enum { SHORT_CLASSES = 64 };

enum { STAGES = 5, SWEEPS_KEPT = 64 };

/* Sweeps in the order of time; 0: before the first, and never. */
static inline uint16_t sweep_of(struct prop_time t)
{
    return t.iteration ? (uint16_t)(t.stage << 12 | (t.iteration < 4095 ? t.iteration : 4095)) : 0;
}

/* Writes before the first sweep have the times (0, 0, slot): the module's own, slot = instruction; then
 * what the steps do, one after the other; then P-76. */
#define SETUP_STEPS   (UINT32_MAX - 1)
#define SETUP_UNKNOWN UINT32_MAX

/* What the steps looked at, so that they can be made again. In this order. */
enum setup_kind { STEP_CALL /* P-69 */, STEP_SHARE /* P-74 */, STEP_ROOT /* P-75 */ };
struct setup_step {
    uint8_t kind;
    bool open, relays; /* open dimensions; hands its shard group to its operand and goes */
    instr_id i, copy, operand;
};

/* What differs in a pass between the propagations that share its graph and tables. */
struct mount {
    struct propagation_options o;
    sharding_id *saved_parameter, *saved_cse;
    sharding_id saved_root;
    uint32_t count[STAGES][SWEEPS_KEPT]; /* writes by stage and sweep */
    bool uncounted;     /* there are more sweeps than that */
    bool setup_changed, metadata_changed; /* P-66 before the first sweep */
};

struct pass {
    const struct propagation *mounted;
    struct graph *g;
    struct module *m;
    struct ir *ir;
    struct shardings *t;
    const struct users *users;
    struct propagation_options o;
    bool any_out, any_parameter; /* P-63 */
    bool any_manual;             /* some sharding of the module has a manual part */
    uint32_t n;                  /* instructions, ids 1..n */
    uint32_t capacity;           /* of the tables by instruction: what the pass adds fits in */
    struct arena *arena;         /* as long as the propagation */
    struct arena *tmp;           /* of the running visit or pass */
    struct tick *tick;
    struct diag *d;

    struct fact *facts;
    instr_id *caller;            /* by computation: P-74; none: not mapped */
    sharding_id *now;            /* last write by instruction */
    bool *provided;
    uint64_t *open;
    sharding_id *saved_parameter, *saved_cse; /* P-71, P-65 1; NULL */
    bool *was_sharded;           /* cse_only */
    sharding_id saved_root;
    VEC(struct group) groups;
    struct map group_index;      /* by kind and number */
    uint32_t *group_of;          /* by instruction: the group that P-77 uses, +1 */
    uint32_t *group_at;          /* and its position among the members, +1; NULL without groups */
    bool *called;                /* by instruction: a Sharding call, though removed by now */
    VEC(struct setup_step) steps;
    instr_id saved_root_of;      /* the entry's root when it was saved */
    bool channels, placed;       /* P-72: some body communicates; and lives on a device */
    bool barriers;
    bool special;                /* open dimensions, conversions or barriers in it */
    bool setup_changed;
    bool increment;              /* visits out of order: no memory between them */
    const uint32_t *told;        /* of increments, by instruction: the end tells it again; NULL: all */
    struct inc_tables *inc;      /* of increments, kept from one to the next; NULL */
    uint32_t *callers_first;     /* by computation: callers; made by the first increment */
    instr_id *callers;
    struct map heirs;            /* by instruction: what it inherits where it has no sharding */
    struct map leaf_sums;        /* by tuple shape: leaves before each element */
    struct map first_position;   /* (tuple, operand): backward.c's own */
    void **index_facts;          /* by instruction: of gather and scatter index.c's own, of tuples
                                    backward.c's */

    /* the visit that runs */
    int level;
    bool may;                    /* merging of partial shardings: spmd and level > 0 */
    struct prop_time time;
    enum prop_rule rule;
    bool replay;                 /* explaining: nothing is recorded */
    VEC(struct log_entry) undo;  /* what a replay over the live table changed: before */
    struct sink *sink;
    int trial;                   /* depth of look-ahead: writes are trials */

    /* a tuple whose leaves one visit changes one by one; see put_leaf */
    instr_id draft;
    sharding_id *leaves;
    int64_t nleaves, capleaves;
    bool draft_dirty;

    bool metadata_changed;       /* some given sharding's, P-67 */

    VEC(struct log_entry) log;
    struct improved_slot *improved; /* [memo_slots] */
    struct rule_slot *answers;      /* [memo_slots] */
    uint32_t memo_slots;            /* a power of two */
    struct short_class short_classes[SHORT_CLASSES];
    struct intern classes;          /* of what rules ask of an instruction besides shardings */
    struct look look;
    int64_t visits, sweeps, looks, asked;
    bool offered;                /* by the visit that runs: a candidate was there, or something was written */
    bool settled;                /* it would say no if it came again, as far as it goes; see is_settled() */
    bool changed;

    /* slots (driver.c) */
    uint64_t *due;
    uint64_t *live;              /* slots whose visits can do something; due.c's own */
    uint64_t *calm;              /* said no when last visited, and reads the same since; due.c's own */
    bool skips;                  /* calm is kept: what can do nothing is not visited at the next level */
    VEC(instr_id) broadcasts;    /* whose rules wait for a level */
    uint32_t nslots;
    uint32_t *group_slot; /* by instruction */
    instr_id *slot_instr;
    uint8_t *slot_kind;
    VEC(instr_id) touched;
};

/* ---- the graph --------------------------------------------------------------------------------- */

static inline const struct instr *at(const struct pass *p, instr_id i)
{
    return instr_at(p->m, i);
}
static inline const struct fact *fact_of(const struct pass *p, instr_id i)
{
    return &p->facts[i.i];
}
static inline const struct shape *shape_of(const struct pass *p, instr_id i)
{
    return shape_get(p->ir, p->facts && p->facts[i.i].shape.i ? p->facts[i.i].shape : at(p, i)->shape);
}
static inline bool is_array(const struct pass *p, instr_id i)
{
    return p->facts[i.i].shape_kind == SHAPE_ARRAY;
}
static inline bool is_tuple(const struct pass *p, instr_id i)
{
    return p->facts[i.i].shape_kind == SHAPE_TUPLE;
}
static inline bool is_conversion(const struct pass *p, instr_id i)
{
    uint8_t t = p->facts[i.i].target;
    return t == TARGET_FULL_TO_SHARD || t == TARGET_SHARD_TO_FULL;
}
bool same_dims(const struct pass *p, instr_id a, instr_id b); /* P-62 */
int operand_position(const struct pass *p, instr_id user, instr_id i); /* first; -1 */
/* Leaves before element k of i's tuple shape. */
int64_t leaf_offset(struct pass *p, instr_id tuple, int64_t k);

bool facts_make(struct pass *p);
bool comp_included(const struct pass *p, comp_id c); /* P-53 */
/* P-65 steps 1 to 9: annotations, related instructions, what is provided. */
bool pass_setup(struct pass *p);
/* Adds what a step looks at and writes. */
void setup_reads(struct pass *p, const struct setup_step *s, struct id_list *out);
/* The steps again, for the instructions of l (those of all steps among them; by instruction), of which now
 * has what the module gives them. Logs, and marks what is provided. false: not on this graph. */
bool setup_again(struct pass *p, const struct id_list *l);

/* ---- shardings ---------------------------------------------------------------------------------- */

static inline sharding_id seen(const struct pass *p, instr_id i)
{
    return p->now[i.i];
}
bool is_spatial(const struct pass *p, instr_id i); /* P-6 */
bool has_rank(const struct pass *p, sharding_id s, int rank);
/* Such a one of one dimension too many, as a reshape takes it: copies along that. */
sharding_id rest_as_copies(struct pass *p, sharding_id s, int rank);
/* Gives i the sharding s, as the rule that runs, because of cause. */
void put_sharding(struct pass *p, instr_id i, sharding_id s, instr_id cause);
/* The same for one leaf of a tuple that has a sharding; put_leaves ends a run of them. */
void put_leaf_sharding(struct pass *p, instr_id i, int64_t leaf, sharding_id s, instr_id cause);
void put_leaves(struct pass *p);
/* Leaf k as a draft has it. */
sharding_id leaf_seen(struct pass *p, instr_id i, int64_t leaf);

/* P-32, P-33: offers cand, which from brought. */
bool improve(struct pass *p, instr_id i, sharding_id cand, instr_id from, bool aggressive);
sharding_id improved(struct pass *p, instr_id i, sharding_id cand, sharding_id old, bool aggressive);
/* P-32 of one leaf of a tuple that has a sharding. */
sharding_id improved_leaf(struct pass *p, shape_id shape, sharding_id cand, sharding_id old);
/* P-35, k: top-level element. */
bool improve_sub(struct pass *p, instr_id i, sharding_id cand, int64_t k, instr_id from,
                 bool aggressive);
void offer_note(struct pass *p, instr_id from, sharding_id cand, bool taken, const char *why);
/* P-8; spread: one leaf candidate for every top-level element. */
sharding_id single_sharding(struct pass *p, instr_id i, sharding_id leaf);
/* Instructions of one class get the same answer to a question about the same shardings. */
uint32_t rule_class(struct pass *p, instr_id i);
/* The slot of a question: it was asked last, and has its answer (true); else rule_keep puts it in. */
bool rule_asked(struct pass *p, uint32_t class, uint32_t what, sharding_id a, sharding_id b, struct rule_slot **slot);
static inline sharding_id rule_keep(struct rule_slot *slot, uint32_t class, sharding_id answer)
{
    slot->class = class;
    return slot->answer = answer;
}
static inline sharding_id none(void)
{
    return (sharding_id){ 0 };
}
static inline instr_id none_instr(void)
{
    return (instr_id){ 0 };
}
/* P-7: of element k of a tuple-shaped instruction with sharding s. */
sharding_id sub_sharding(struct pass *p, instr_id tuple, sharding_id s, int64_t k);
sharding_id first_leaf(const struct pass *p, sharding_id s);

/* P-67. metadata.c */
bool metadata_changes(const struct pass *p, instr_id i);

/* ---- rules -------------------------------------------------------------------------------------- */

bool visit_forward(struct pass *p, instr_id i);                       /* P-95 */
bool visit_backward(struct pass *p, instr_id i);                      /* P-122 */
/* The only position at which a tuple holds an operand; -1: there are several, or none. */
int64_t tuple_position(struct pass *p, instr_id tuple, instr_id operand);
sharding_id from_user(struct pass *p, instr_id i, instr_id u);  /* P-123, at p->level */
instr_id representative_operand(const struct pass *p, instr_id i);      /* P-99 */
bool can_propagate(const struct pass *p, instr_id i);           /* P-92, at p->level */

bool forward_dot(struct pass *p, instr_id i);
bool forward_convolution(struct pass *p, instr_id i);
sharding_id user_dot(struct pass *p, instr_id i, instr_id u);
sharding_id user_convolution(struct pass *p, instr_id i, instr_id u);
bool forward_gather(struct pass *p, instr_id i);
bool forward_scatter(struct pass *p, instr_id i);
sharding_id user_gather(struct pass *p, instr_id i, instr_id u);
sharding_id user_scatter(struct pass *p, instr_id i, instr_id u);
void look_forget(struct pass *p, instr_id written);
bool dot_look_ahead(struct pass *p, instr_id i, sharding_id *out);  /* P-107 */

bool from_group(struct pass *p, instr_id i, struct group *g);           /* P-83 */
void group_written(struct pass *p, instr_id i, sharding_id before, sharding_id after);
bool open_from_group(struct pass *p, instr_id i, const struct group *g);
bool open_from_operand(struct pass *p, instr_id i, instr_id *partner);
bool open_from_users(struct pass *p, instr_id i, instr_id *partner);
uint64_t open_dims_of(const struct pass *p, instr_id i, bool *bad);     /* unspecified_dims */

/* Whether what i calls has parameters that P-78 makes due. */
bool calls_out(const struct pass *p, instr_id i);
void computation_propagation(struct pass *p, instr_id i);       /* P-81, into p->touched */
void related_instrs(const struct pass *p, instr_id i, struct id_list *out); /* P-73 */

bool slots_make(struct pass *p);
bool run_level(struct pass *p, int stage, int level);            /* P-77; false: stopped */
/* What has to be visited when a level starts. due.c */
void due_start(struct pass *p, int stage);
void due_make(struct pass *p);
/* Whether its rule begins at level 2 or 3. */
bool slot_waits(const struct pass *p, uint32_t slot);
/* h was written: what reads it without being due for it (P-79) has its turn at the next level. */
void due_disturb(struct pass *p, instr_id h);
static inline void set_due(struct pass *p, uint32_t slot)
{
    if (slot)
        p->due[slot >> 6] |= UINT64_C(1) << (slot & 63);
}
static inline void clear_due(struct pass *p, uint32_t slot)
{
    if (slot)
        p->due[slot >> 6] &= ~(UINT64_C(1) << (slot & 63));
}
static inline void set_calm(struct pass *p, uint32_t slot, bool calm)
{
    uint64_t bit = UINT64_C(1) << (slot & 63), *word = &p->calm[slot >> 6];
    *word = calm ? *word | bit : *word & ~bit;
}
enum slot_kind { SLOT_GROUP, SLOT_FORWARD, SLOT_BACKWARD };
/* A visit that says no whatever stands around it (manual users ask without a rule, P-122 3). */
static inline bool is_mute(const struct pass *p, uint32_t slot)
{
    const struct fact *f = &p->facts[p->slot_instr[slot].i];
    if (p->slot_kind[slot] == SLOT_FORWARD)
        return !f->fed;
    return p->slot_kind[slot] == SLOT_BACKWARD && f->mute && !p->any_manual && !p->special;
}
/* The pass with q's results in it: what asks q goes through this. */
struct pass *pass_mount(const struct propagation *q);
/* history.c: the pass's log becomes out's; an increment shares old's pages and replaces in out what it wrote, a
 * page's instructions at a time, by id. */
void history_make(struct propagation *out, const struct pass *p);
void history_share(struct propagation *out, const struct propagation *old);
struct history_list {
    instr_id i;
    const struct prop_write *v;
    uint32_t n;
};
void history_replace(struct propagation *out, uint32_t n, const struct history_list *lists);
void history_release(struct propagation *p);
void mount_save(const struct pass *p, struct propagation *q);
void inc_tables_free(struct pass *p);
void options_own(struct pass *p, struct arena *a, const struct propagation_options *o);
bool options_fit(const struct pass *p); /* P-64 */
extern uint32_t increment_poison;
/* The whole pass over another driver of one level: a test has a naive one. */
typedef bool level_fn(struct pass *p, int stage, int level);
struct propagation *propagate_by(struct graph *g, const struct propagation_options *o,
                                 struct tick *tick, struct diag *d, level_fn *level_of);
/* One visit outside the driver: what why_candidates repeats, and increments run. */
bool visit_once(struct pass *p, uint32_t slot);
/* Whether the visit that said yes just now would say no if it came again. */
bool is_settled(const struct pass *p, uint32_t slot);
/* Whether a visit of i refines open dimensions, and nothing else (P-77). */
static inline bool is_open(const struct pass *p, instr_id i)
{
    return p->provided[i.i] && p->open[i.i];
}
/* P-133; false: the rule answers no. */
bool partner_of(const struct pass *p, instr_id a, instr_id *partner);
instr_id caller_operand(const struct pass *p, instr_id parameter); /* P-73; none */

/* A value: an instruction, a leaf of it (-1: an array), a dimension of that (-1: any). */
struct spot {
    instr_id i;
    int64_t leaf;
    int dim;
};
#define PROP_TIME_END ((struct prop_time){ UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT16_MAX })
int time_compare(struct prop_time a, struct prop_time b, bool with_seq);
/* The write before *t that brought *s (its dimension is dropped where its way is lost), and where that
 * came from: *s and *t move there. NULL: nothing brought it. */
const struct prop_write *why_step_back(const struct propagation *q, struct spot *s, struct prop_time *t);

void align_groups(struct pass *p);                              /* P-82 */
void relay_barriers(struct pass *p);                            /* P-84 */
void remove_barriers(struct pass *p);                           /* P-85 */
/* P-86..P-89; only: P-86 for these, NULL: all. */
void restore_boundary(struct pass *p, const struct id_list *only);

#endif
