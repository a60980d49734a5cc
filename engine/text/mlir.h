/* Between the files of the StableHLO reader.
 *
 * The text is read in one pass into functions of operations with regions; each operation is
 * simplified as soon as it is read, as XLA's importer does (its canonicalizer folds constants,
 * identities and loop-invariant carries before it makes HLO), and what is left becomes computations:
 *
 *     mlir_read.c   the cursor, blocks, functions, recovery; the entry
 *     mlir_op.c     one operation: name, operands, generic form; mlir_pretty.c: pretty forms;
 *                   mlir_results.c: results and types
 *     mlir_func.c   modules, functions, meshes
 *     mlir_chunk.c  where operations lie; mlir_pages.c: values
 *     mlir_type.c   names of operations, types
 *     mlir_attr.c   values of attributes: lists of numbers, enums, groups
 *     mlir_dense.c  constants; mlir_sparse.c: those that list what is not zero
 *     mlir_fold.c   the importer's simplifications
 *     mlir_lower.c  regions to computations; captured values
 *     mlir_emit.c   operations to instructions; mlir_value.c: values, names, constants; mlir_words.c,
 *                   mlir_nums.c: attributes; mlir_flow.c: loops, branches, calls
 *     mlir_check.c  operations that nothing uses are checked, too
 *     mlir_chlo.c   chlo operations that HLO has no opcode for
 *     mlir_shard.c  shardings: mhlo.sharding; mlir_sdy.c: Shardy's attributes; mlir_shard_ops.c: its
 *                   operations
 *     mlir_loc.c    locations to metadata
 */
#ifndef GSPMD_TEXT_MLIR_H
#define GSPMD_TEXT_MLIR_H

#include <string.h>

#include "text/reader.h"
#include "text/share.h"
#include "text/text.h"

/* An attribute as it stands in the text. Words without a key (compare's LT) have key "". */
struct mattr {
    const char *key, *val;
    uint32_t klen, vlen;
};

/* What an operation is, where the HLO opcode alone does not say it. */
enum mkind {
    M_NONE,
    M_HLO, /* .hlo */
    M_CONSTANT,
    M_RETURN,
    M_CALL,
    M_CUSTOM,
    M_MODULE,
    M_FUNC,
    M_MESH,
    M_CONSTRAINT,  /* sdy.sharding_constraint, sdy.reshard, explicit sdy collectives */
    M_MANUAL,      /* sdy.manual_computation */
    M_NAMED,       /* sdy.named_computation */
    M_GROUP,       /* sdy.sharding_group */
    M_IDENTITY,    /* data_flow_edge, propagation_barrier: the operand */
    M_CHLO,        /* mlir_chlo.c */
    M_COMPOSITE,
    M_IF,
    M_RAW,         /* made by the reader: an HLO instruction with given attributes */
    M_UNKNOWN
};

struct mop;
struct mchunk_head;

struct mregion {
    uint32_t id; /* in mlir.regions */
    struct mop *first, *last, *owner;
    struct mregion *parent;
    struct mregion *into; /* inlined into this one */
    uint32_t arg0, nargs; /* values */
    bool open, live, begun; /* begun: has had an operation */
    VEC(uint32_t) captured;
    comp_id comp;
};

struct mconst {
    shape_id shape;
    bool splat, elided;
    const void *data; /* one element when splat */
    uint32_t value;
};

/* There is one for every result: kept small. The functions below read it. */
struct mval {
    shape_id shape;
    uint32_t link;   /* is_alias: replaced by this value; else the newest instruction, maybe of a computation
                        that was built before */
    uint32_t by;     /* is_cst: in mlir.consts; else the operation that makes it, 0: argument of a region */
    uint32_t region; /* in mlir.regions */
    uint32_t name;   /* where it stands in the text */
    uint32_t nname : 29; /* 0: none */
    uint32_t is_alias : 1;
    uint32_t is_cst : 1;
    uint32_t used : 1; /* by some operation of the text */
};

/* Their table: pages that stay where they are, each a block of its own. */
enum { MVALS_PAGE = 4096 };
struct mvals {
    VEC(struct mval *) pages;
    uint32_t n;
};

/* What an operation made by the reader is to become. */
struct mraw {
    const struct attr *attrs;
    int nattrs;
    sharding_id sharding;
    const struct sharding_note *note;
};

struct mop {
    uint8_t kind; /* enum mkind */
    bool live, generic;
    bool keep; /* M_RAW: has an effect although nothing uses it */
    uint16_t hlo; /* enum op_kind */
    uint16_t chunk; /* where it lies, in mlir.chunks */
    uint32_t noperands, nresults, nattrs, nregions;
    uint32_t result; /* the first; others follow */
    uint32_t nat, nname;
    union {
        uint32_t nsym;
        comp_id applied; /* OP_REDUCE: of `applies stablehlo.add` */
    };
    uint32_t loc, nloc; /* where the location stands in the text; 0: none */
    uint32_t *operands;
    struct mattr *attrs;
    union {
        struct mregion **regions;
        struct mraw *raw; /* M_RAW: it has no regions */
    };
    const char *name, *sym; /* sym: callee, target, without @ */
    const char *at; /* the result's or the operation's name in the text, of length nat */
    struct mop *next, *prev;
    struct mregion *block;
};

/* Operations, their operands and attributes lie in pieces of such sizes in the order of the text, and
 * are given back in that order as they have become instructions: the text's tree and the module are
 * never in memory as a whole together. */
enum { MCHUNK_FIRST = 1 << 15, MCHUNK_BITS = 19, MCHUNK_LARGEST = 1 << MCHUNK_BITS, SCRATCH_MOST = 1 << 16 };
struct mchunk {
    char *mem;
    size_t size;
    uint32_t left; /* operations that are still needed */
};

/* What lies in no arena: freed by mlir_read, also when reading fails. volatile: looked at after a jump. */
struct mheld {
    struct module *volatile probe; /* mlir_check.c: where operations that nothing uses are tried out */
    struct mchunk_head *volatile chunks; /* the oldest */
};
void mlir_let_go(struct mheld *h);

struct mfunc {
    const char *name;
    uint32_t nname;
    struct mregion *body; /* NULL: only declared */
    struct mattr *arg_attrs, *res_attrs; /* dictionaries as text, one each; val NULL: none */
    const char **arg_locs;
    uint32_t *arg_nlocs;
    uint32_t nargs, nresults;
    shape_id *results;
    struct mregion **closed; /* inner before outer, the body last */
    int64_t nclosed;
    uint32_t *shown; /* results of constants that its text does not use */
    int64_t nshown;
    bool is_public;
    uint8_t mark;
    comp_id comp;
};

struct mname {
    const char *text;
    uint32_t len, hash, func, value;
};

/* Names that differ in their number only. */
struct mseries {
    const char *text; /* what stands before the number */
    uint32_t len, cap;
    uint32_t *v; /* by number */
};
enum { NSERIES = 16 };

struct malias {
    const char *name, *text;
    uint32_t nname, ntext;
    const char *metadata; /* once resolved */
    uint32_t nmetadata;
    bool done, busy;
};

struct type_cache {
    const char *text;
    uint32_t len, hash;
    shape_id shape;
};

struct mframe {
    struct mop *op;
    struct mregion *region;
    enum { FRAME_TOP, FRAME_GENERIC, FRAME_WHILE_COND, FRAME_WHILE_BODY, FRAME_REDUCE, FRAME_SDY,
           FRAME_FUNC, FRAME_MODULE } form;
    const char *open_at;
    struct mregion **regions; /* read so far */
    uint32_t nregions, capregions;
    const char **result_names;
    uint32_t depth_names;
};

enum { MTYPES = 1024, OPNAMES = 1024, NTYPES_RECENT = 6, CHECKED = 1024, NCONSTANT_TEXTS = 256 };

/* A constant of the function being read, as its text stands there. */
struct constant_text {
    const char *text;
    uint32_t len, func, value;
    shape_id shape;
};

struct opname {
    const char *text;
    uint32_t len;
    uint8_t kind;
    uint16_t hlo;
};

struct mlir {
    struct ir *c;
    struct module *m;
    struct source *src;
    struct tick *tick;
    struct diag *d;
    const char *base, *p, *end;
    struct arena tmp;
    struct arena scratch; /* while one operation is lowered */
    int nerrors;
    bool stop;

    VEC(struct mchunk) chunks;
    struct mchunk_head *youngest;
    size_t chunk_used; /* of the last */
    uint32_t nops;     /* made so far */
    int64_t released;  /* chunks given back, from the first */
    bool lowering;

    struct arena val_arena;
    struct mvals vals; /* 0: none */
    uint32_t *page_last, *page_order; /* mlir_pages.c: of the entry's operations, the last that needs a page */
    uint32_t npage_order, page_next;
    VEC(struct mregion *) regions; /* 0: none */
    VEC(const struct mconst *) consts;
    struct mname *names;
    uint32_t nnames, capnames, func; /* func: number of the function being read */
    struct mseries series[NSERIES];  /* %12, %cst_3 -> value; below first_value: of a function that ended */
    int nseries;
    bool far_numbers; /* numbers stand in names, too */
    uint32_t first_value;            /* of the function being read */

    VEC(struct mframe) frames;
    VEC(struct mfunc *) funcs;
    struct map func_by_name; /* hash of the name -> index in funcs + 1 */
    VEC(struct mregion *) closed; /* of the function being read: inner before outer */
    struct mfunc *current;

    VEC(struct malias) aliases; /* #name = ..., !name = ... */
    struct map alias_by_name;

    struct mesh *meshes;
    int nmeshes, capmeshes;

    const char *module_attrs;
    uint32_t module_nattrs;
    bool saw_sdy, told_unknown;
    int64_t devices; /* of the largest mesh that a sharding uses */
    const char *module_name;
    uint32_t module_nname;

    struct map constants; /* of the current function: hash -> value */
    struct type_cache types[MTYPES];
    const struct type_cache *recent[NTYPES_RECENT]; /* the newest, of types */
    struct constant_text constant_texts[NCONSTANT_TEXTS];
    struct opname opnames[OPNAMES];

    VEC(uint32_t) list; /* operands of the operation being read */
    VEC(struct mattr) attrs;
    VEC(shape_id) shapes;
    VEC(int64_t) ints;
    struct {
        const char *text;
        uint32_t len, count;
    } results[64];
    int nresults;

    /* lowering */
    comp_id comp;
    struct mop *emitting;
    sharding_id set_sharding; /* for what is emitted now */
    const struct sharding_note *set_note;
    const char *metadata, *frontend;
    instr_id *operand_list; /* of the operation being emitted */
    uint32_t capoperands;
    const struct mattr *remark; /* Shardy's words for the sharding read last that GSPMD has none for; NULL */
    uint32_t nmetadata, nfrontend;
    VEC(struct attr) out;
    uint8_t *named; /* a bit a name_id: instructions of computation named_comp have these names */
    uint32_t nnamed; /* bytes */
    comp_id named_comp;
    struct share share;
    struct mheld *held;
    struct map probe_params;        /* shape -> a parameter of the probe */
    bool probing;
    uint64_t checked[CHECKED]; /* operations that mlir_check found right, by what it looks at */
    VEC(uint32_t) constants_read; /* of the function being read: results that nothing was seen to use */
    struct map emitted;    /* computation and constant -> value */
};

#define MFAIL(r, at, len, ...)                                                                     \
    ((r)->nerrors++, diag_error((r)->d, (r)->src, mspan((r), (at), (len)), __VA_ARGS__))

static inline struct span mspan(const struct mlir *r, const char *at, size_t len)
{
    return (struct span){ (uint32_t)(at - r->base), (uint32_t)(len ? len : 1) };
}

static inline struct mval *mval(const struct mlir *r, uint32_t v)
{
    return &r->vals.pages.v[v / MVALS_PAGE][v % MVALS_PAGE];
}

/* The value that stands for v after simplification. */
static inline uint32_t mresolve(const struct mlir *r, uint32_t v)
{
    while (mval(r, v)->is_alias)
        v = mval(r, v)->link;
    return v;
}

/* From here on `by` stands for v. */
static inline void mset_alias(const struct mlir *r, uint32_t v, uint32_t by)
{
    mval(r, v)->link = by;
    mval(r, v)->is_alias = true;
}

static inline instr_id minstr(const struct mval *x)
{
    return (instr_id){ x->is_alias ? 0 : x->link };
}

static inline const char *mname(const struct mlir *r, const struct mval *x)
{
    return x->nname ? r->base + x->name : NULL;
}

static inline void mset_name(const struct mlir *r, struct mval *x, const char *name, size_t n)
{
    x->name = (uint32_t)(name - r->base);
    x->nname = (uint32_t)n & 0x1fffffff;
}

static inline struct mregion *mregion(const struct mlir *r, const struct mval *x)
{
    return r->regions.v[x->region];
}

/* Eight bytes are the finest step at which operations lie in their chunk. */
static inline struct mop *mdef(const struct mlir *r, const struct mval *x)
{
    if (x->is_cst || !x->by)
        return NULL;
    char *mem = r->chunks.v[x->by >> (MCHUNK_BITS - 3)].mem;
    return (struct mop *)(void *)(mem + ((size_t)(x->by & ((1u << (MCHUNK_BITS - 3)) - 1)) << 3));
}

static inline void mset_def(const struct mlir *r, uint32_t v, const struct mop *op)
{
    uint32_t off = op ? (uint32_t)((const char *)op - r->chunks.v[op->chunk].mem) >> 3 : 0;
    mval(r, v)->by = op ? (uint32_t)op->chunk << (MCHUNK_BITS - 3) | off : 0;
}

static inline const struct mconst *mcst(const struct mlir *r, const struct mval *x)
{
    return x->is_cst ? r->consts.v[x->by] : NULL;
}

static inline const struct shape *mshape(const struct mlir *r, uint32_t v)
{
    return shape_get(r->c, mval(r, v)->shape);
}

/* ---- text ---- */
extern const uint8_t mlir_class[256];
enum { MC_WORD = 1, MC_SPACE = 2, MC_DIGIT = 4, MC_GROUP = 8 /* brackets and quotes */ };
static inline bool mis(char c, int what)
{
    return mlir_class[(unsigned char)c] & what;
}
void mskip_slow(struct mlir *r);
static inline void mskip(struct mlir *r)
{
    while (mis(*r->p, MC_SPACE))
        r->p++;
    if (*r->p == '/')
        mskip_slow(r);
}
static inline bool mtake(struct mlir *r, char c)
{
    mskip(r);
    if (*r->p != c)
        return false;
    r->p++;
    return true;
}
static inline size_t mword(const char *p)
{
    const char *q = p;
    while (mis(*q, MC_WORD))
        q++;
    return (size_t)(q - p);
}
/* The name of a value: `-` stands in it, too, but not the arrow. */
static inline size_t mvalue_word(const char *p)
{
    size_t n = mword(p);
    while (n && p[n] == '-' && mis(p[n + 1], MC_WORD))
        n += 1 + mword(p + n + 1);
    return n;
}
static inline bool mtext(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}
bool mexpected(struct mlir *r, const char *what);
bool mwant(struct mlir *r, char c, const char *what);
/* From an opening bracket ( [ { < or quote to behind its partner; NULL: none. `->` is no bracket. */
const char *mbalanced(const char *p, const char *end);
/* Skips a balanced group at the cursor; says what is wrong when it does not close. */
bool mskip_group(struct mlir *r, const char **text, uint32_t *len);

/* ---- reading ---- */
bool mlir_op(struct mlir *r);
bool mlir_op_tail(struct mlir *r, struct mop *op, const struct mframe *f);
/* A type as MLIR writes it, for messages. */
const char *mtype_text(struct mlir *r, shape_id id);
bool mlir_type(struct mlir *r, shape_id *out);
bool mlir_dict(struct mlir *r, char close); /* into r->attrs; behind the opening brace */
bool mlir_loc(struct mlir *r, const char **text, uint32_t *len); /* optional loc(...) */
bool mlir_op_loc(struct mlir *r, struct mop *op);
uint32_t mlir_define(struct mlir *r, const char *name, size_t n, shape_id shape);
bool mlir_use(struct mlir *r, uint32_t *out); /* %x, %x#1 */
/* %_12: what the printer writes for an instruction that has no name. */
bool mlir_nameless(const char *name, size_t n);
/* From here on the name of value `of` means v. */
void mlir_rename(struct mlir *r, uint32_t of, uint32_t v);
struct mregion *mlir_region_new(struct mlir *r);
struct mregion *mlir_open_region(struct mlir *r, struct mop *op);
void mlir_append(struct mlir *r, struct mop *op);
struct mop *mlir_op_new(struct mlir *r, enum mkind kind);
/* Memory that lives as long as the operation that was made last, or is being made. */
void *mlir_op_alloc(struct mlir *r, int64_t n, size_t size);
/* Nothing looks at the operation any more. */
void mlir_op_done(struct mlir *r, const struct mop *op);
/* The same for the operation that was made last, if nothing was made since: its place is free. */
void mlir_op_forget(struct mlir *r, const struct mop *op);
uint32_t mlir_page_add(struct mlir *r); /* a zeroed value */
/* Before the entry's operations become instructions; and behind each, numbered from 1. */
void mlir_pages_plan(struct mlir *r, const struct mfunc *f);
void mlir_pages_release(struct mlir *r, uint32_t by);
uint32_t mlir_value_new(struct mlir *r, struct mop *def, struct mregion *region, shape_id shape);
const struct malias *mlir_alias(const struct mlir *r, const char *name, size_t n);
void mlir_fill_opnames(struct mlir *r);
const struct opname *mlir_find_opname(const struct mlir *r, const char *p, size_t n); /* NULL: unknown */
struct mframe *mlir_push(struct mlir *r, struct mop *op, int form, const char *at);
bool mlir_block_args(struct mlir *r, struct mregion *g);
struct mfunc *mlir_find_func(const struct mlir *r, const char *name, size_t n);

/* ---- attributes ---- */
const struct mattr *mattr_n(const struct mop *op, const char *key, size_t n);
static inline const struct mattr *mattr(const struct mop *op, const char *key)
{
    return op->nattrs ? mattr_n(op, key, strlen(key)) : NULL;
}
static inline const struct mattr *mattr2(const struct mop *op, const char *key, const char *other)
{
    const struct mattr *a = mattr(op, key);
    return a || !other ? a : mattr(op, other);
}
/* Value of key in a dictionary's text (braces included or not). */
bool mdict_find(const char *text, uint32_t len, const char *key, struct mattr *out);
bool mdict_next(const char **p, const char *end, struct mattr *out);
/* Numbers in a list of any spelling into r->ints; a splat is repeated n times (n < 0: once). */
bool mints(struct mlir *r, const struct mattr *a, int64_t n);
bool mints_of(struct mlir *r, const struct mop *op, const char *key, const char *other, int64_t n);
bool mint_of(struct mlir *r, const struct mop *op, const char *key, const char *other, int64_t dflt,
             int64_t *out);
bool mbool_of(const struct mop *op, const char *key, bool dflt);
/* The last word of #stablehlo<comparison_direction LT> or LT itself. */
void menum(const struct mattr *a, const char **word, uint32_t *len);
/* Value without quotes; false: no string. */
bool mstring(const struct mattr *a, const char **text, uint32_t *len);

/* ---- constants ---- */
bool mlir_constant(struct mlir *r, struct mop *op);
/* One element at *pp, a number or a complex one in parentheses, into out. */
bool mconst_number(struct mlir *r, const char **pp, const char *end, enum dtype t, void *out);
bool mconst_complex(struct mlir *r, const char **pp, const char *end, enum dtype t, void *out);
/* Between the brackets of sparse<..>. */
bool mlir_sparse(struct mlir *r, const char *p, const char *end, shape_id shape, uint32_t *out);
uint32_t mconst_value(struct mlir *r, shape_id shape, bool splat, const void *data, bool elided);
uint32_t mconst_scalar(struct mlir *r, enum dtype t, double v);
uint32_t mconst_like(struct mlir *r, shape_id shape, double v); /* a splat of that value */
/* Element i as a number; complex: false. */
bool mconst_get(const struct mlir *r, const struct mconst *k, int64_t i, double *f, int64_t *n);
void mstore(enum dtype t, double f, int64_t n, void *out);

/* ---- simplification ---- */
void mlir_fold(struct mlir *r, struct mop *op);
void mreplace(struct mlir *r, struct mop *op, uint32_t k, uint32_t by);

/* ---- shardings ---- */
bool mlir_mesh(struct mlir *r, const struct mop *op);
/* The sharding of an operation's attributes, for a shape; none when it has none. */
bool mlir_op_sharding(struct mlir *r, const struct mop *op, shape_id shape, sharding_id *out,
                      const struct sharding_note **note);
/* Of an argument's or result's dictionary. open: dims that propagation may split further, or all. */
bool mlir_dict_sharding(struct mlir *r, const char *text, uint32_t len, shape_id shape,
                        sharding_id *out, const struct sharding_note **note, bool *open);
bool mlir_constraint(struct mlir *r, struct mop *op);
bool mlir_sdy_region(struct mlir *r, struct mop *op);
bool mlir_group(struct mlir *r, struct mop *op);

/* ---- lowering ---- */
bool mlir_lower(struct mlir *r);
bool mlir_emit(struct mlir *r, struct mop *op);
/* An operation that becomes no instruction (nothing uses it, or it was folded away) is checked as the
 * others are by the verifier. */
bool mlir_check(struct mlir *r, struct mop *op);
/* Whether mlir_check would say nothing. */
bool mlir_passes(struct mlir *r, struct mop *op);
bool mlir_has_effect(const struct mop *op);
/* A constant of the function being read; at its end r->constants_read holds those that nothing uses. */
void mlir_note_constant(struct mlir *r, uint32_t v);
/* mlir_check.c, while r->probing: something of this shape; the computation of a region. */
instr_id mprobe_value(struct mlir *r, shape_id shape);
comp_id mprobe_comp(struct mlir *r, const struct mop *op, uint32_t k);
/* mhlo.frontend_attributes of an argument's or result's dictionary, and r->remark. */
void mlir_dict_frontend(struct mlir *r, const char *text, uint32_t len, struct instr *in);
/* The computations of `applies stablehlo.add`: before the one that uses them is begun. */
bool mlir_applied(struct mlir *r, struct mregion *g);
bool mlir_chlo(struct mlir *r, struct mop *op, instr_id *out);
struct attr mattr_ints(struct mlir *r, enum attr_key k, int n, const int64_t *v); /* shared */
instr_id mvalue(struct mlir *r, uint32_t v); /* in the current computation */
void mset(struct mlir *r, uint32_t v, instr_id i);
instr_id memit(struct mlir *r, enum op_kind op, shape_id shape, int64_t n, const instr_id *operands,
               int nattrs, const struct attr *attrs);
/* The inside of an MLIR string as the inside of an HLO one; apostrophes escaped, as in op_name. */
void mlir_add_escaped(struct str *s, const char *p, uint32_t n, bool apostrophes);
void mlir_metadata(struct mlir *r, const char *loc, uint32_t nloc, const char **text, uint32_t *len);
void mspread(struct mlir *r, instr_id tuple, const struct mop *op);

#endif
