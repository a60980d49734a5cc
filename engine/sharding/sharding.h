/* Shardings, symbolic: how one array (or tuple of arrays) is laid out over devices 0..n-1.
 *
 * A tile assignment is dims plus an *order*: the devices as mixed-radix digits, listed major to
 * minor in the order in which the cells run (internals.md section 1). Nothing here costs time or
 * memory in the number of devices, except orders that no digit list can say ("explicit"), which are
 * counted (shardings_explicit_count).
 *
 * Everything is interned in a table and immutable: equal shardings are one id, so == on ids is
 * P-22 without shard groups. What is not identity (how a text spelled it, metadata, shard groups)
 * lives with the occurrence (struct sharding_note).
 *
 * Rule numbers P-n: specification of propagation; S-n: of the partitioner.
 */
#ifndef GSPMD_SHARDING_SHARDING_H
#define GSPMD_SHARDING_SHARDING_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

DEFINE_ID(order_id);    /* interned device order */
DEFINE_ID(sharding_id); /* interned sharding; 0: none */

struct shardings; /* the table; one per document */

struct shardings *shardings_new(void);
void shardings_free(struct shardings *t);
/* Explicit orders made so far (the fall-back of internals.md section 1). */
int64_t shardings_explicit_count(const struct shardings *t);
int64_t shardings_bytes(const struct shardings *t); /* counter for tests */

/* ---- orders ---------------------------------------------------------------------------------- */

/* Devices 0..n-1 are the numbers sum_k c_k * stride_k, 0 <= c_k < radix_k; strides of all digits of
 * an order multiply up to n. Cells run through the digits major to minor; reversed: c counts down. */
struct digit {
    int64_t radix, stride;
    bool reversed;
};

struct order {
    int64_t ndevices;
    int ndigits;                /* canonical: no radix 1, neighbours fused (P-24); 0 for n = 1 */
    const struct digit *digits; /* NULL when explicit */
    const int64_t *explicit_;   /* [ndevices] cell -> device, NULL when digits */
};

const struct order *order_get(const struct shardings *t, order_id o);
order_id order_iota(struct shardings *t, int64_t n);
/* <=[reshape] T(perm), P-11; perm NULL: identity. Arguments already validated. */
order_id order_from_iota(struct shardings *t, int n, const int64_t *reshape, const int *perm);
/* Any list of device ids (any set, P-23 not required); becomes digits when it is a digit order. */
order_id order_from_list(struct shardings *t, int64_t n, const int64_t *devices);
/* Device of a cell (row-major index), cell of a device (-1: not there). O(digits). */
int64_t order_device(const struct shardings *t, order_id o, int64_t cell);
int64_t order_cell(const struct shardings *t, order_id o, int64_t device);
bool order_is_iota(const struct shardings *t, order_id o);

/* ---- tile assignments: dims over an order ---------------------------------------------------- */

/* An array of devices of shape dims. Also what replica groups and permutes are made of: a replica
 * group list [groups, size] is a tiling of two axes; a permute is two tilings of equal dims. */
struct tiling {
    int naxes;
    const int64_t *dims; /* product = order's ndevices; a loan from the table */
    order_id order;
};

/* Reads [4,2]<=[2,4]T(1,0), [2,2]0,1,2,3. p/n: the text; *used: bytes read. */
bool tiling_parse(struct shardings *t, const struct source *src, struct span at, const char *p,
                  size_t n, size_t *used, struct tiling *out, struct diag *d) MUST_CHECK;
void tiling_print(const struct shardings *t, struct tiling a, struct str *out);
/* Result axis i is source axis perm[i]. Always closed for aligned orders. */
struct tiling tiling_transpose(struct shardings *t, struct tiling a, const int *perm);
/* Same order, other dims of the same product. */
struct tiling tiling_reshape(struct shardings *t, struct tiling a, int naxes, const int64_t *dims);
struct tiling tiling_make(struct shardings *t, int naxes, const int64_t *dims, order_id o);
int64_t tiling_device(const struct shardings *t, struct tiling a, const int64_t *index);
void tiling_index(const struct shardings *t, struct tiling a, int64_t device, int64_t *index);
bool tiling_equal(struct tiling a, struct tiling b);

/* ---- shardings ------------------------------------------------------------------------------- */

enum sharding_kind {
    SHARDING_NONE,       /* entry 0 of the table */
    SHARDING_REPLICATED, /* R */
    SHARDING_MAXIMAL,    /* D(device) */
    SHARDING_MANUAL,     /* MAN */
    SHARDING_UNKNOWN,    /* UNK */
    SHARDING_TILED,      /* T */
    SHARDING_TUPLE       /* flat list of leaves, P-2 */
};

/* Trailing axes are at most one manual and one replicated, in that order, after P-19 / P-20 (and
 * rarely a maximal one in front). P-18 literal tilings have none. */
enum axis_type { AXIS_MAXIMAL, AXIS_MANUAL, AXIS_REPLICATED };

struct sharding {
    enum sharding_kind kind;
    int64_t device;      /* MAXIMAL */
    struct tiling tiles; /* TILED: data axes then trailing axes */
    int data_rank;       /* TILED: r of P-4 */
    bool lastrep;        /* TILED: last_tile_dim_replicate */
    int ntypes;          /* TILED: trailing typed axes; never with lastrep */
    enum axis_type types[3];
    int64_t nelems; /* TUPLE */
    const sharding_id *elems;
};

const struct sharding *sharding_get(const struct shardings *t, sharding_id s);

sharding_id sharding_replicated(struct shardings *t);
sharding_id sharding_maximal(struct shardings *t, int64_t device);
sharding_id sharding_manual(struct shardings *t);
sharding_id sharding_unknown(struct shardings *t);
sharding_id sharding_plain(struct shardings *t, struct tiling a);                   /* P-18 */
sharding_id sharding_partial(struct shardings *t, struct tiling a);                 /* P-19 */
sharding_id sharding_subgroup(struct shardings *t, struct tiling a, int ntypes,
                              const enum axis_type *types);                         /* P-20 */
sharding_id sharding_tuple(struct shardings *t, int64_t n, const sharding_id *elems);
/* n copies (at least 1) of a leaf as a tuple: P-8 for a tuple shape of n leaves. */
sharding_id sharding_tuple_of(struct shardings *t, int64_t n, sharding_id leaf);

/* ---- measures and predicates, P-4, P-5. A tuple answers for all its elements. ----------------- */

bool sharding_is_replicated(const struct shardings *t, sharding_id s);
bool sharding_is_max(const struct shardings *t, sharding_id s); /* tile-maximal: R or D */
bool sharding_is_manual(const struct shardings *t, sharding_id s);
bool sharding_is_unknown(const struct shardings *t, sharding_id s);
bool sharding_is_manual_subgroup(const struct shardings *t, sharding_id s);
bool sharding_is_tiled(const struct shardings *t, sharding_id s);
bool sharding_is_spatial(const struct shardings *t, sharding_id s);
bool sharding_is_partial(const struct shardings *t, sharding_id s);
bool sharding_has_manual(const struct shardings *t, sharding_id s); /* a leaf isMan or isManSub */
bool sharding_unique_device(const struct shardings *t, sharding_id s, int64_t *device);

int64_t sharding_tile(const struct shardings *t, sharding_id s, int axis); /* 1 unless T */
int64_t sharding_num_tiles(const struct shardings *t, sharding_id s);      /* NT */
int64_t sharding_total(const struct shardings *t, sharding_id s);          /* TOTAL */
int64_t sharding_copies(const struct shardings *t, sharding_id s);         /* of the rep axis, or 1 */
int sharding_rep_axis(const struct shardings *t, sharding_id s);           /* -1: none */
int sharding_manual_axis(const struct shardings *t, sharding_id s);        /* -1: none */
int sharding_data_rank(const struct shardings *t, sharding_id s);          /* T only */
/* P-23, with what is wrong in words. ndevices 0: not known. dims of the array. */
bool sharding_fits(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                   int64_t ndevices, const struct source *src, struct span at,
                   struct diag *d) MUST_CHECK;

/* S-12, S-13, P-46. Local (per device, padded) dims: ceil(size, tile). */
void sharding_shard_dims(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                         int64_t *local);
/* Tile index of a device on each data axis (zeros unless T). false: device not in s. */
bool sharding_tile_index(const struct shardings *t, sharding_id s, int64_t device, int64_t *index);
bool sharding_evenly(const struct shardings *t, sharding_id s, int rank, const int64_t *dims);

/* ---- comparing and merging, P-26..P-35. `may` = merging of partial shardings allowed ---------- */

bool sharding_more_specific(const struct shardings *t, sharding_id a, sharding_id b); /* P-26 */
bool sharding_strictly_better(const struct shardings *t, sharding_id a, sharding_id b); /* P-27 */
/* P-28. min < 0: default NT(dst) + 1. True: *dst is the merged sharding. */
bool sharding_merge_compat(struct shardings *t, sharding_id m, sharding_id *dst, int64_t min);
bool sharding_merge(struct shardings *t, sharding_id old, sharding_id *cand, bool may); /* P-29 */
/* P-30; dflt none: the first of the list. */
sharding_id sharding_find_common(struct shardings *t, int64_t n, const sharding_id *list,
                                 sharding_id dflt);
bool sharding_is_subtiling(const struct shardings *t, int rank, const int64_t *dims, sharding_id p,
                           sharding_id s); /* P-31 */
/* P-32: the new sharding, or none (.i == 0). is_array: the shape is array-shaped (rank, dims). */
sharding_id sharding_improved(struct shardings *t, sharding_id cand, sharding_id old, bool is_array,
                              int rank, const int64_t *dims, bool may, bool aggressive);

/* ---- structural operations, P-36..P-49, S-20..S-35. R, D (and MAN) come back unchanged -------- */

sharding_id sharding_transpose(struct shardings *t, sharding_id s, const int *perm);
sharding_id sharding_replicate_dims(struct shardings *t, sharding_id s, int n, const int *dims);
sharding_id sharding_replicate_except(struct shardings *t, sharding_id s, int n, const int *keep);
sharding_id sharding_replicate_all_data(struct shardings *t, sharding_id s, int rank /* -1 */);
sharding_id sharding_remove_dims(struct shardings *t, sharding_id s, int n, const int *dims);
/* P-41: to_target has data_rank entries, to_source target_rank; -1: no partner. none: no answer. */
sharding_id sharding_map_dims(struct shardings *t, sharding_id s, const int *to_target,
                              int target_rank, const int *to_source);
sharding_id sharding_along_dims(struct shardings *t, sharding_id s, int n, const int *src,
                                const int *tgt, int rank); /* P-42 */
sharding_id sharding_reverse(struct shardings *t, sharding_id s, int n, const int *dims); /* P-43 */
/* P-44: target axis or -1. */
int sharding_move_target(const struct shardings *t, int rank, const int64_t *dims, sharding_id s,
                         int axis);
sharding_id sharding_move_tiles(struct shardings *t, sharding_id s, int from, int to); /* P-45 */
/* P-47 at array level / S-34: none (.i == 0) when a local reshape cannot be right. */
sharding_id sharding_reshape(struct shardings *t, int srank, const int64_t *sdims, int trank,
                             const int64_t *tdims, sharding_id s);
/* P-48, P-49 / S-35: never none. */
sharding_id sharding_through_reshape(struct shardings *t, int srank, const int64_t *sdims,
                                     int trank, const int64_t *tdims, sharding_id s);
/* Broadcast, P-103: operand's tiles put at output dims map[i] of rank; the rest 1. */
sharding_id sharding_broadcast(struct shardings *t, sharding_id s, int nmap, const int *map,
                               int rank);
/* S-29: axis of size n into (k, n / k); merge axis and axis + 1. */
sharding_id sharding_split_axis(struct shardings *t, sharding_id s, int axis, int64_t k);
sharding_id sharding_merge_axis(struct shardings *t, sharding_id s, int axis);
/* P-52: T only; the tiles of the listed axes (d among them) all on axis d. The axes that are not
 * listed become the most major ones of the order. */
struct tiling sharding_retile(struct shardings *t, sharding_id s, int d, int n, const int *dims);
/* Same trailing information, other tiling (P-21 rebuild). */
sharding_id sharding_rebuild(struct shardings *t, sharding_id s, struct tiling a);
/* rank more data axes of tile 1 inserted at position at. */
sharding_id sharding_insert_dims(struct shardings *t, sharding_id s, int at, int n);

/* Dimensions of a dot by role, P-105: position i of the lists of both sides belong together. */
struct sharding_dot {
    int rank[2], nbatch, ncontract, nfree[2];
    const int *batch[2], *contract[2], *free[2];
};
/* P-126, S-36: sharding of operand k from the result's (none: not given) and, with use_other, from the
 * other operand's (none: not given). may: merging of partial shardings allowed. */
sharding_id sharding_infer_dot_operand(struct shardings *t, const struct sharding_dot *dot, int k,
                                       sharding_id result, sharding_id other, bool use_other,
                                       bool may);

/* ---- grouping, P-50, P-51, S-37..S-47 --------------------------------------------------------- */

/* Devices cut into groups: groups is [ngroups, size]; inner describes the data inside one group in
 * member ranks 0..size-1. */
struct sharding_group {
    struct tiling groups;
    int ndims;         /* grouped axes in the order in which they were listed */
    int dims[16];
    int64_t sizes[16]; /* group part of each */
    int data_rank;
    bool manual;       /* grouped on the manual axis */
    sharding_id inner;
};

/* keep NULL: all 1. Axes may include the replication (or manual) axis. */
void sharding_group_on(struct shardings *t, sharding_id s, int n, const int *dims,
                       const int64_t *keep, struct sharding_group *out);
sharding_id sharding_ungroup(struct shardings *t, const struct sharding_group *g); /* S-39, P-51 */
void sharding_group_on_manual(struct shardings *t, sharding_id s, struct sharding_group *out);
/* S-40. Makes g use the groups of ref. true when the sets matched (data need not move). */
bool sharding_group_align(struct shardings *t, struct sharding_group *g,
                          const struct sharding_group *ref, bool ignore_order);
bool sharding_group_align_strict(struct shardings *t, struct sharding_group *g,
                                 const struct sharding_group *ref); /* S-41 */
/* The same for members alone: ref's groups may come in another order. */
bool sharding_group_align_members(struct shardings *t, struct sharding_group *g,
                                  const struct sharding_group *ref);
sharding_id sharding_align_on_dims(struct shardings *t, sharding_id s, int n, const int *dims,
                                   sharding_id ref, const int *ref_dims); /* S-42 */
/* S-45 */
void sharding_group_on_replication(struct shardings *t, sharding_id s, int64_t ngroups,
                                   int64_t total, int rank, int nprio, const int *prio,
                                   struct sharding_group *out);
/* S-46: none when it cannot be read so. */
bool sharding_group_replicated_as(struct shardings *t, sharding_id s, struct tiling groups,
                                  int64_t shards, struct sharding_group *out);
/* S-47: number of axes written to dims, or -1. */
int sharding_dims_matching(struct shardings *t, sharding_id s, struct tiling groups, int *dims);
/* S-61: one group per combination of the axes not in dims, members over the axes in dims. */
struct tiling sharding_groups_along(struct shardings *t, sharding_id s, int n, const int *dims);
/* Same partition of the devices into sets, order ignored. */
bool tiling_same_groups(struct shardings *t, struct tiling a, struct tiling b);

/* ---- spellings -------------------------------------------------------------------------------- */

/* How one occurrence was written, and what is not identity (P-3, P-25). Allocated in an arena. */
struct sharding_note {
    const char *text; /* as read, braces included; prints back byte for byte while the id is the same */
    uint32_t len;
    sharding_id id; /* what the text means */
    int64_t nleaves;
    /* per leaf, arrays of nleaves (NULL: none has a group, metadata or a device list) */
    const struct sharding_leaf_note {
        int8_t group_kind; /* 0 none, 1 shard_as, 2 shard_like */
        int64_t group;
        int nmeta;
        const char *const *meta; /* each record's text, braces excluded */
        bool listed;             /* P-25: devices were written as a list */
    } *leaves;
};

/* Meshes named in the text (2026 spelling {mesh['x'=2,'y'=2], [{'y'}, {}]}) are read with their
 * sizes inline. src/at say where p lies for messages: at.off is p's offset in src.
 * Tuples of any length. Accepts every HLO spelling of language.md section 4 and P-9..P-14.
 * *note may be NULL. a: where the note is allocated (or it is the table's own: short texts that were
 * read before). */
bool sharding_parse(struct shardings *t, struct arena *a, const struct source *src, uint32_t off,
                    const char *p, size_t n, size_t *used, sharding_id *out,
                    struct sharding_note *note, struct diag *d) MUST_CHECK;
/* P-16. Iota form whenever the order is one, else the explicit list (note NULL or of another id),
 * else as read. with_meta: also metadata and shard groups of the note. */
void sharding_print(const struct shardings *t, sharding_id s, const struct sharding_note *note,
                    bool with_meta, struct str *out);

/* ---- meshes ----------------------------------------------------------------------------------- */

#define MESH_MAX_AXES 16

/* A named grid of devices. order: row-major cells of the grid to devices (iota unless order=). physical: devices
 * to their places on the machine (none: device d sits at place d); it moves pictures and costs, never shardings. */
struct mesh {
    const char *name; /* "" for the default mesh */
    int naxes;
    struct mesh_axis {
        const char *name;
        int64_t size;
    } axes[MESH_MAX_AXES];
    order_id order, physical;
};

int64_t mesh_devices(const struct mesh *m);
int mesh_find_axis(const struct mesh *m, const char *name, size_t n); /* -1 */
/* Reads the words behind `mesh`: data=2 model=4 [order=[4,2]T(1,0)|order=0,1,3,2] [physical=..]; names go to a. */
bool mesh_parse(struct shardings *t, struct arena *a, const struct source *src, uint32_t off,
                const char *p, size_t n, struct mesh *out, struct diag *d) MUST_CHECK;
/* Replica groups by mesh axes: mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x'}. out is a tiling
 * [number of groups, size]; off: where p lies in src. */
bool mesh_groups_parse(struct shardings *t, const struct source *src, uint32_t off, const char *p,
                       size_t n, size_t *used, struct tiling *out, struct diag *d) MUST_CHECK;
void mesh_print(const struct shardings *t, const struct mesh *m, struct str *out);

/* A dimension's entry in axes: `data`, `(data,model)`, `_`, `?`, `model:(2)2`. */
struct axes_spec {
    int rank;
    uint64_t open; /* bit d: dimension d may still be split by propagation (`?`) */
    bool closed_all_known;
};

/* Reads every spelling a user types (language.md section 4): [_,model], [@name x,_], HLO braces,
 * P('data', None), #sdy.sharding<@mesh, [...]>, f32[8@data,4], replicated, manual, maximal 3,
 * {[..],[..]} tuples. meshes[0] is the default one; nmeshes may be 0. rank < 0: not known.
 * Errors carry a caret and a did-you-mean. */
bool sharding_spec_parse(struct shardings *t, const struct mesh *meshes, int nmeshes, int rank,
                         const struct source *src, uint32_t off, const char *p, size_t n,
                         size_t *used, sharding_id *out, struct axes_spec *spec,
                         struct diag *d) MUST_CHECK;
/* The spellings that shardings are printed in; sharding_spec_parse reads them all.
 *   axes     [_,model]                        hlo     {devices=..}: iota where it can be, else the list
 *   mesh     {mesh['x'=2,'y'=2], [{'y'},{}]}  pspec   P(None, 'model')
 *   sdy      #sdy.sharding<@mesh, [..]>       list, iota  {devices=..}, strictly the one or the other
 *   named    NamedSharding(mesh, P(..))       dtensor [Shard(0), Replicate()]: one entry a mesh axis
 *   sbp      (S(0), B)                        book    A[I_X, J_Y]
 *   typed    f32[8@data,4] */
enum spelling {
    SPELL_AXES, SPELL_HLO, SPELL_MESH, SPELL_PSPEC, SPELL_SDY, SPELL_LIST, SPELL_IOTA,
    SPELL_NAMED, SPELL_DTENSOR, SPELL_SBP, SPELL_BOOK, SPELL_TYPED,
    SPELL_COUNT
};
const char *spelling_name(enum spelling how); /* "axes", "hlo", .. */
/* What some spellings say of the array besides its sharding. */
struct spell_shape {
    const char *type; /* "f32" */
    int rank;         /* -1: no array */
    const int64_t *dims;
};
/* Exactly in that spelling, so that it reads back as s (given the same mesh, and the array's rank).
 * shapes: of each leaf, or NULL where they are not known. false, with the reason in words: this
 * spelling cannot say it. mesh NULL: none is named. */
bool sharding_spell_as(struct shardings *t, const struct mesh *mesh, sharding_id s, enum spelling how,
                       const struct spell_shape *shapes, struct str *out, struct str *why) MUST_CHECK;
/* The same where something has to be printed: what the spelling cannot say comes in HLO's words (in
 * axes, where only the array's shape is missing). */
void sharding_spell(struct shardings *t, const struct mesh *mesh, sharding_id s,
                    enum spelling how, struct str *out);
/* Names of the mesh axes that vary inside the groups of a collective ("model", "data", "model:(2)2");
 * false when the groups are no product of axes. Names into out, each an arena string. */
bool mesh_axes_of_groups(struct shardings *t, const struct mesh *mesh, struct tiling groups,
                         struct arena *a, int *n, const char **names /* [MESH_MAX_AXES] */);

#endif
