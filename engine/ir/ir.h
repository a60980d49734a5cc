/* The IR: tables and ids. Instructions, computations, shapes and names live in tables that only
 * grow and never move an entry, and name each other by index.
 *
 * struct ir is the context of one document: names, shapes and shardings, shared by the module as
 * loaded and by every module derived from it (prepared, working, partitioned), so that their ids
 * mean the same everywhere. A struct module owns its instructions; it is built once and then only
 * read: passes write a new module or a side table.
 */
#ifndef GSPMD_IR_IR_H
#define GSPMD_IR_IR_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/map.h"
#include "base/str.h"
#include "sharding/dtype.h"
#include "sharding/sharding.h"

DEFINE_ID(shape_id); /* ir->shapes; interned */
DEFINE_ID(name_id);  /* ir->names; interned text */
DEFINE_ID(instr_id); /* module->instrs */
DEFINE_ID(comp_id);  /* module->comps */

/* ---- context ---------------------------------------------------------------------------------- */

struct ir {
    struct arena arena;
    struct intern names;
    struct shardings *shardings;
    struct paged shapes; /* struct shape */
    struct intern shape_keys;
};

struct ir *ir_new(void);
void ir_free(struct ir *c);
name_id name_put(struct ir *c, const char *s, size_t n);
const char *name_text(const struct ir *c, name_id n); /* NUL-terminated; "" for none */
size_t name_len(const struct ir *c, name_id n);

/* ---- shapes ----------------------------------------------------------------------------------- */

enum shape_kind { SHAPE_NONE, SHAPE_ARRAY, SHAPE_TUPLE, SHAPE_TOKEN, SHAPE_OPAQUE };

/* Interned and immutable. The layout is part of identity (it prints back as read);
 * shape_strip gives the same shape without any. */
struct shape {
    enum shape_kind kind;
    enum dtype dtype;
    int rank;
    const int64_t *dims;
    uint64_t dynamic;   /* bit d: dimension d is a bound, `<=8` */
    name_id layout;     /* text of the braces behind the dims, `1,0:T(8,128)`; none: not given */
    int64_t nelems;     /* TUPLE */
    const shape_id *elems;
    int64_t nleaves;    /* non-tuple sub-shapes in pre-order; 1 for non-tuples */
    int64_t bytes;      /* dense, tuples add up; -1: does not fit */
    int64_t count;      /* elements of an array; -1: does not fit */
    const int64_t *leaf_start; /* TUPLE with nested tuples: leaves before each element; else NULL */
    shape_id strip;     /* without layouts */
    shape_id same;      /* without layouts and dynamic marks: equal ids are shape_same */
    shape_id skeleton;  /* nor element types: equal ids are shape_same_dims */
};

const struct shape *shape_get(const struct ir *c, shape_id s);
shape_id shape_array(struct ir *c, enum dtype t, int rank, const int64_t *dims);
shape_id shape_array_full(struct ir *c, enum dtype t, int rank, const int64_t *dims,
                          uint64_t dynamic, name_id layout);
shape_id shape_tuple(struct ir *c, int64_t n, const shape_id *elems);
shape_id shape_token(struct ir *c);
shape_id shape_opaque(struct ir *c, name_id layout_or_none);
shape_id shape_strip(struct ir *c, shape_id s);
/* s with the layouts of another shape where both are alike: tuples of as many elements, arrays of the rank. */
shape_id shape_with_layouts(struct ir *c, shape_id s, shape_id of);
shape_id shape_with_dtype(struct ir *c, shape_id s, enum dtype t);
bool shape_same_dims(const struct ir *c, shape_id a, shape_id b);  /* P-62 */
bool shape_same(const struct ir *c, shape_id a, shape_id b);       /* all but layout and dynamic */
/* k-th leaf in pre-order; number of leaves before element i of a tuple. */
shape_id shape_leaf(const struct ir *c, shape_id s, int64_t k);
int64_t shape_leaf_offset(const struct ir *c, shape_id tuple, int64_t i);
/* f32[8,16]{1,0}; layouts as read when with_layout and present. */
void shape_print(const struct ir *c, shape_id s, bool with_layout, struct str *out);
/* Reads a shape, `f32[8,<=16]{1,0:T(8,128)}`, `(f32[2], /\*index=1*\/s32[])`, `token[]`.
 * off: where p lies in src. */
bool shape_parse(struct ir *c, const struct source *src, uint32_t off, const char *p, size_t n,
                 size_t *used, shape_id *out, struct diag *d) MUST_CHECK;

/* ---- operations ------------------------------------------------------------------------------- */

enum op_kind {
    OP_NONE,
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost) OP_##id,
#include "ir/ops.def"
    OP_COUNT
};

const char *op_name(enum op_kind op); /* "dynamic-slice" */
enum op_kind op_find(const char *name, size_t n); /* OP_NONE: no such opcode */
const char *op_nearest(const char *name, size_t n); /* did you mean; NULL */
int op_min_operands(enum op_kind op);
int op_max_operands(enum op_kind op); /* -1: any number */
bool op_is_collective(enum op_kind op); /* all-gather, all-reduce, ..., their -start and -done */
bool op_is_elementwise_unary(enum op_kind op);
bool op_is_elementwise_binary(enum op_kind op);

/* ---- attributes ------------------------------------------------------------------------------- */

/* An instruction's attributes in the order of its text, each typed by its key (attrs.def). */
enum attr_key {
    ATTR_NONE,
#define ATTR(id, text, type) ATTR_##id,
#include "ir/attrs.def"
    ATTR_COUNT
};

enum attr_type {
    ATTR_TYPE_NONE,
    ATTR_TYPE_INT,     /* .i */
    ATTR_TYPE_BOOL,    /* .i */
    ATTR_TYPE_INTS,    /* .n, .ints: {0,1} */
    ATTR_TYPE_IDENT,   /* .name: a bare word, direction=LT */
    ATTR_TYPE_STRING,  /* .text/.n: between quotes, as read (escapes kept) */
    ATTR_TYPE_RAW,     /* .text/.n: verbatim, braces included when it had them */
    ATTR_TYPE_COMP,    /* .comp */
    ATTR_TYPE_COMPS,   /* .n, .comps */
    ATTR_TYPE_SLICE,   /* .n, .ints: start, limit, stride a dimension */
    ATTR_TYPE_PADDING, /* .n, .ints: low, high, interior a dimension */
    ATTR_TYPE_WINDOW,  /* .window */
    ATTR_TYPE_CONV,    /* .conv: dim_labels */
    ATTR_TYPE_GROUPS,  /* .groups */
    ATTR_TYPE_PAIRS,   /* .pairs */
    ATTR_TYPE_INSTRS,  /* .n, .instrs: control-predecessors */
    ATTR_TYPE_FLOAT    /* .f, with .n/.text2 as read: epsilon=0.001 */
};

struct window_dim {
    int64_t size, stride, pad_low, pad_high, base_dilation, window_dilation;
    bool reversal;
};

struct window {
    int rank;
    const struct window_dim *dims;
    const char *text; /* as read, braces excluded; NULL when built */
    uint32_t len;
};

/* dim_labels=b01f_01io->b01f */
struct conv_dims {
    int nspatial;
    int lhs_batch, lhs_feature, lhs_spatial[12];
    int rhs_in, rhs_out, rhs_spatial[12];
    int out_batch, out_feature, out_spatial[12];
};

/* replica_groups: symbolic where the text or the partitioner has it so; ragged lists explicitly. */
struct replica_groups {
    bool none;            /* replica_groups={}: all in one */
    bool uniform;         /* tiles is [ngroups, size] */
    struct tiling tiles;
    int64_t nlists;       /* ragged: lists one behind the other */
    const int64_t *sizes, *ids;
    const char *text;     /* as read; NULL when built */
    uint32_t len;
};

/* source_target_pairs: listed, or cell by cell of two tilings of equal dims (cells that stay where they
 * are included: a device that nobody sends to gets zeros), or tile i -> i + shift along one axis of a
 * tiling (wrap: modulo). */
struct permute_pairs {
    enum { PAIRS_LIST, PAIRS_TILINGS, PAIRS_SHIFT } kind;
    int64_t n;
    const int64_t *list; /* n pairs */
    struct tiling from, to;
    int axis;
    int64_t shift; /* receiver index = sender index + shift */
    bool wrap;
    int64_t limit; /* PAIRS_SHIFT: cells of index >= limit take no part (0: all do) */
    const char *text;
    uint32_t len;
};

struct attr {
    uint8_t key;  /* enum attr_key */
    uint8_t type; /* enum attr_type */
    uint32_t n;
    union {
        int64_t i;
        double f;
        const int64_t *ints;
        name_id name;
        const char *text;
        comp_id comp;
        const comp_id *comps;
        const instr_id *instrs;
        const struct window *window;
        const struct conv_dims *conv;
        const struct replica_groups *groups;
        const struct permute_pairs *pairs;
    };
};

const char *attr_name(enum attr_key k);
enum attr_key attr_find_key(const char *s, size_t n); /* ATTR_NONE: unknown */
enum attr_type attr_type_of(enum attr_key k);

/* ---- literals --------------------------------------------------------------------------------- */

/* A constant's value. data: row-major, dtype_bytes() an element (pred 0/1 bytes; s4/u4/s2/u2 one a
 * byte, sign-extended; complex re, im), host byte order; tuples: elems. */
struct literal {
    shape_id shape; /* array or tuple, layout stripped */
    const void *data;
    bool elided; /* `constant({...})`: no values */
    const char *text; /* between the parentheses, as read; NULL when built */
    uint32_t len;
    int64_t nelems;
    const struct literal *const *elems;
};

/* ---- instructions ----------------------------------------------------------------------------- */

/* A parameter's number is its attribute ATTR_INDEX, an int, like get-tuple-element's (the text form
 * writes it between the parentheses). */
struct instr {
    uint16_t op; /* enum op_kind */
    uint8_t nattrs;
    uint8_t flags; /* INSTR_* */
    shape_id shape; /* global; per partition in a partitioned module */
    sharding_id sharding; /* .i == 0: none. Tuple shapes have tuple shardings (P-14) */
    name_id name; /* without % */
    comp_id comp;
    uint32_t noperands;
    const instr_id *operands;
    const struct attr *attrs; /* sharding, metadata, frontend attributes are not among them */
    const struct literal *literal;           /* OP_CONSTANT */
    const struct sharding_note *note;        /* how the sharding was spelled; NULL */
    const char *metadata;                    /* text between the braces of metadata={..}; NULL */
    const char *frontend;                    /* text between the braces of frontend_attributes */
    uint32_t metadata_len, frontend_len;
    struct span at; /* the defining line's name, for messages */
};

enum { INSTR_ROOT_MARK = 1 /* text had ROOT */, INSTR_REMOVED = 2 /* left out by a pass */ };

struct computation {
    name_id name;
    instr_id root;
    bool entry;
    uint32_t ninstrs;
    const instr_id *instrs; /* storage (text) order, P-54 */
    uint32_t nparams;
    const instr_id *params; /* by parameter number */
    const char *signature;  /* text between name and `{`, as read; NULL when built */
    uint32_t signature_len;
    name_id thread; /* execution_thread="..." */
    const char *closer; /* text behind the closing brace on its line; NULL */
    uint32_t closer_len;
    struct span at;
    instr_id first, last; /* ids given out by instr_new; 0: none */
};

/* One attribute of the HloModule header, in order of the text. Those with a meaning are in struct
 * module too. */
struct header_attr {
    name_id key;
    const char *text; /* verbatim value; NULL for a bare word (is_scheduled is =true) */
    uint32_t len;
};

struct module {
    struct ir *ir; /* a loan */
    struct arena arena;
    name_id name;
    struct paged instrs; /* struct instr, from 1 */
    struct paged comps;  /* struct computation, from 1, in module order (P-53) */
    comp_id entry;
    int64_t num_partitions; /* 0: header silent */
    int64_t replica_count;  /* 0: header silent */
    int nheader;
    const struct header_attr *header;
    int64_t nto_output, nto_parameters; /* allow_spmd_sharding_propagation_*; 0: header silent */
    const bool *to_output, *to_parameters;
    bool is_scheduled;
    struct source *source; /* what spans point into; owned. NULL when built */
    const char *tables; /* FileNames .. StackFrames, verbatim; NULL */
    uint32_t tables_len;
    const char *before; /* text before HloModule (comments), verbatim; NULL */
    uint32_t before_len;
    enum { STYLE_PLAIN = 0, STYLE_PERCENT = 1, STYLE_OPERAND_SHAPES = 2 } print_style; /* bits: as read */
    int64_t text_features; /* text layer's own bits on how it was printed */
};

static inline struct instr *instr_at(const struct module *m, instr_id i)
{
    return (struct instr *)paged_at(&m->instrs, i.i);
}
static inline struct computation *comp_at(const struct module *m, comp_id c)
{
    return (struct computation *)paged_at(&m->comps, c.i);
}
static inline uint32_t module_ninstrs(const struct module *m) /* ids run 1 .. n */
{
    return m->instrs.n - 1;
}
static inline uint32_t module_ncomps(const struct module *m)
{
    return m->comps.n - 1;
}

const struct attr *instr_attr(const struct instr *i, enum attr_key k); /* NULL: not there */
/* The opcode as the text had it: an async form may name what it wraps, reduce-scatter-start. */
const char *instr_opcode_text(const struct module *m, const struct instr *i);
int64_t instr_param_number(const struct instr *i); /* OP_PARAMETER; -1: has none */
int64_t instr_int(const struct instr *i, enum attr_key k, int64_t dflt);
bool instr_bool(const struct instr *i, enum attr_key k, bool dflt);
/* The int list of an attribute; *n = 0 and a non-NULL pointer when absent. */
const int64_t *instr_ints(const struct instr *i, enum attr_key k, int *n);
/* Whether an IDENT or STRING attribute is this text: instr_is(i, ATTR_DIRECTION, "LT"). */
bool instr_is(const struct module *m, const struct instr *i, enum attr_key k, const char *text);
/* custom_call_target; "" when absent. NUL-terminated; interned, so not for worker threads (neither are
 * the functions that make shapes or read metadata). */
const char *instr_target(const struct module *m, const struct instr *i);

static inline const struct shape *instr_shape(const struct module *m, instr_id i)
{
    return shape_get(m->ir, instr_at(m, i)->shape);
}
static inline instr_id instr_operand(const struct module *m, instr_id i, uint32_t k)
{
    return instr_at(m, i)->operands[k];
}

/* Metadata, read on demand. Strings are interned or in the module's arena; "" when absent.
 * stack_frame_id is resolved through the module's tables. */
const char *instr_op_name(const struct module *m, instr_id i);
bool instr_source(const struct module *m, instr_id i, const char **file, int *line);
/* Argument name of an entry parameter from its op_name (w1, params['w1']); "" otherwise.
 * JAX writes op_name="xs[0][0][\'wi\']" or "params[\'w1\']": unescaped here. */
const char *instr_arg_name(const struct module *m, instr_id i);

/* Computations that an instruction calls (to_apply, calls, body, condition, branches, ...), in the
 * order of its attributes: fills out up to max, returns how many there are. */
int instr_called(const struct module *m, instr_id i, comp_id *out, int max);

/* ---- building --------------------------------------------------------------------------------- */

struct module *module_new(struct ir *c, name_id name);
void module_free(struct module *m);
/* A deep copy in its own arena; same ids. Text is still borrowed from m's source: m must outlive. */
struct module *module_clone(const struct module *m);

comp_id comp_new(struct module *m, name_id name);
/* For readers: an empty instruction of c, to be filled in place (comp and the computation's
 * bookkeeping are set). Operands and attributes are the caller's, in m's arena. */
struct instr *instr_add(struct module *m, comp_id c, instr_id *id);
/* Adds an instruction to a computation under construction; operands and attrs are copied into the
 * module's arena. name none: the opcode with a number, made unique when printed. */
instr_id instr_new(struct module *m, comp_id c, enum op_kind op, shape_id shape, int64_t noperands,
                   const instr_id *operands, int nattrs, const struct attr *attrs);
/* Ends construction: instrs, params, root. root none: the last instruction. */
void comp_finish(struct module *m, comp_id c, instr_id root);
/* Sets comp's instruction list anew (passes that drop or append). Params are found again. */
void comp_set_instrs(struct module *m, comp_id c, uint32_t n, const instr_id *instrs, instr_id root);

struct attr attr_int(enum attr_key k, int64_t v);
struct attr attr_ints(struct module *m, enum attr_key k, int n, const int64_t *v);
struct attr attr_ident(struct module *m, enum attr_key k, const char *word);
struct attr attr_string(struct module *m, enum attr_key k, const char *text);
struct attr attr_comp(enum attr_key k, comp_id c);
struct attr attr_groups(struct module *m, struct tiling groups);
struct attr attr_pairs(struct module *m, const struct permute_pairs *p);
struct attr attr_window(struct module *m, int rank, const struct window_dim *dims);

/* One element in memory (dtype_bytes of it) <-> double, for every float type (not complex). Rounds to
 * nearest even; what is too large becomes inf, or nan where the type has no inf. */
double float_load(enum dtype t, const void *p);
void float_store(enum dtype t, double v, void *p);

/* data is copied. shape: array. */
const struct literal *literal_new(struct module *m, shape_id shape, const void *data);
const struct literal *literal_scalar_i(struct module *m, enum dtype t, int64_t v);
const struct literal *literal_scalar_f(struct module *m, enum dtype t, double v);
const struct literal *literal_tuple(struct module *m, int64_t n, const struct literal *const *elems);
/* A copy in m's arena (of another module of the same context). */
const struct literal *literal_copy(struct module *m, const struct literal *l);
bool literal_is_all(const struct module *m, const struct literal *l, double v); /* every element */
/* One element (row-major index) as double / as int64 (integers and pred). */
double literal_get_f(const struct module *m, const struct literal *l, int64_t i);
int64_t literal_get_i(const struct module *m, const struct literal *l, int64_t i);
/* Text between the parentheses of constant(..), as XLA prints it. */
void literal_print(const struct module *m, const struct literal *l, struct str *out);

/* Same computations, instructions, operands, attributes, shardings, constants. Not compared: offsets
 * in the text, names' ids (their text is), print style. */
bool module_equal(const struct module *a, const struct module *b);
int64_t module_bytes(const struct module *m); /* memory of the module itself, its text aside */

/* ---- facts about the graph -------------------------------------------------------------------- */

/* Users of every instruction: ordered, without duplicates (P-57). */
struct users {
    uint32_t *start; /* [ninstrs + 2] */
    instr_id *list;
};
void users_make(const struct module *m, struct arena *a, struct users *out);
static inline uint32_t users_count(const struct users *u, instr_id i)
{
    return u->start[i.i + 1] - u->start[i.i];
}
static inline const instr_id *users_of(const struct users *u, instr_id i)
{
    return u->list + u->start[i.i];
}

/* P-55 with channel partners of P-56. Returns the instructions of c, operands first. */
const instr_id *comp_post_order(const struct module *m, comp_id c, const struct users *u,
                                struct arena *a, uint32_t *n);
/* Computations callees before callers (each once), the entry last; unreachable ones included when
 * all. A cycle of calls is an error of the verifier. */
const comp_id *module_call_order(const struct module *m, bool all, struct arena *a, uint32_t *n);

bool instr_is_elementwise(const struct module *m, instr_id i);    /* P-60 */
bool instr_has_side_effect(const struct module *m, instr_id i);   /* P-61 */

/* Dot, P-105. Arrays must have room for the ranks. */
struct dot_dims {
    int nbatch, ncontract, nlhs_free, nrhs_free;
    int lhs_batch[32], rhs_batch[32], lhs_contract[32], rhs_contract[32];
    int lhs_free[32], rhs_free[32];
};
void instr_dot_dims(const struct module *m, instr_id i, struct dot_dims *out);

/* ---- checking and evaluating ------------------------------------------------------------------ */

/* Operand counts, shapes against shape inference, called computations' signatures, one root, one
 * parameter of each number, no cycles of operands or calls, replica groups and shardings against
 * shapes and device counts. Reports every error (up to the diag's limit). Messages point at the
 * instruction in the module's source. */
bool module_verify(const struct module *m, struct diag *d) MUST_CHECK;

/* One instruction alone: its operands' types, its attributes, the shape that it is given. */
bool instr_verify(const struct module *m, instr_id i, struct diag *d) MUST_CHECK;

/* The shape an instruction must have, from operands and attributes; none when the text decides
 * (parameter, constant, custom-call, infeed, iota, rng, convert's element type, ...). */
bool infer_shape(const struct module *m, instr_id i, shape_id *out, struct diag *d) MUST_CHECK;

/* Evaluates a scalar (or small array: at most 64 elements) integer, pred or float instruction from
 * constants, given values of the computation's parameters' leaves. steps: evaluated operations left.
 * Follows calls, tuples, converts, fusions. false: cannot be told. */
struct scalar {
    enum dtype dtype;
    union {
        int64_t i;
        double f;
    };
};
struct scalar_env {
    int64_t nleaves;              /* of all parameters, in order */
    const struct scalar *leaves;  /* dtype NONE: not known */
    int64_t steps;
};
bool scalar_eval(const struct module *m, comp_id c, instr_id i, struct scalar_env *env,
                 struct scalar *out);
/* Number of times a while's body runs: condition and the cone of the carried scalars that it needs,
 * evaluated from the loop's operand. -1: not known (within steps). */
int64_t while_trip_count(const struct module *m, instr_id loop, int64_t steps);

#endif
