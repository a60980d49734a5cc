/* Shared by the files of sharding/ only: the table, orders as runs of digits, the plain-array
 * fall-back. */
#ifndef GSPMD_SHARDING_INTERNAL_H
#define GSPMD_SHARDING_INTERNAL_H

#include "base/fail.h"
#include "base/map.h"
#include "sharding/sharding.h"

/* AXES_MAX bounds the axes of one tile assignment: texts with more are refused, and operations that
 * would need more answer R. A product of device counts fits 62 bits, so 62 digits are enough.
 * EXPLICIT_MAX bounds what a text may make us list device by device. */
enum { AXES_MAX = 128, DIGITS_MAX = 64, EXPLICIT_MAX = 1 << 24 };

struct order_entry {
    struct order o;
    /* explicit orders: cell of each device < ninverse, -1 where there is none; NULL: search */
    const int64_t *inverse;
    int64_t ninverse;
};

enum sharding_flag {
    IS_REP = 1,
    IS_MAX = 2,
    IS_MAN = 4,
    IS_UNK = 8,
    IS_MANSUB = 16,
    IS_PARTIAL = 32,
    ALL_FLAGS = 63, /* a tuple has these when all elements have them */
    IS_SPATIAL = 64,
    HAS_MAN = 128
};

struct sharding_entry {
    struct sharding s;
    int flags;
    bool unique;       /* has a unique device: .device */
    int64_t device;
    int64_t ntiles;    /* NT of P-4, 1 unless T */
};

struct memo;

struct shardings {
    struct arena arena;
    struct intern dims;       /* lists of int64 */
    struct intern order_keys; /* ids run along with orders */
    struct paged orders;      /* struct order_entry */
    struct intern keys;       /* ids run along with entries */
    struct paged entries;     /* struct sharding_entry */
    struct intern texts;      /* short texts read before; ids run along with text_notes */
    struct paged text_notes;  /* struct sharding_note */
    struct memo *memo;
    int64_t nexplicit;
    sharding_id replicated;
};

static inline const struct order_entry *order_at(const struct shardings *t, order_id o)
{
    return (const struct order_entry *)paged_at(&t->orders, o.i);
}

static inline const struct sharding_entry *entry_at(const struct shardings *t, sharding_id s)
{
    return (const struct sharding_entry *)paged_at(&t->entries, s.i);
}

static inline int64_t product(int n, const int64_t *v)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= v[i];
    return p;
}

/* ---- orders as digits (order.c) ---------------------------------------------------------------- */

/* An order cut along the axes of a tile assignment: axis i has the digits [i ? end[i-1] : 0, end[i]). */
struct runs {
    int naxes, ndigits;
    uint8_t end[AXES_MAX];
    struct digit d[DIGITS_MAX];
};

static inline int run_start(const struct runs *r, int axis)
{
    return axis ? r->end[axis - 1] : 0;
}

/* False when the order is explicit or a border falls inside a digit. */
bool runs_cut(const struct shardings *t, int naxes, const int64_t *dims, order_id o,
              struct runs *out);

/* Makes the list canonical (no radix 1, neighbours fused) and interns it. d is overwritten. */
order_id order_from_digits(struct shardings *t, int64_t n, int nd, struct digit *d);
/* Interns a list; digits when it is a digit order. */
order_id order_intern_list(struct shardings *t, int64_t n, const int64_t *devices);

/* Common refinement of several cut orders: borders b[0] = 1 | b[1] | ... | b[nb] = n, so that every
 * digit is a run of elementary digits (stride b[j], radix b[j+1] / b[j]). */
struct borders {
    int nb;
    int64_t b[DIGITS_MAX + 1];
};

bool borders_unite(int nlists, const struct runs *const *lists, int64_t n, struct borders *out);
int border_find(const struct borders *b, int64_t stride); /* index of stride in b */
/* The digits [from, to) of r as elementary digits, major to minor: 2 * index + reversed. */
int elementary(const struct borders *b, const struct runs *r, int from, int to, uint8_t *out);
/* Elementary digits back into digits; appended at d[nd]; the new count. */
int digits_from_elementary(const struct borders *b, int n, const uint8_t *e, struct digit *d,
                           int nd);

/* ---- operations on (dims, order), digits or arrays (order_ops.c) -------------------------------- */

/* Order of the array transposed: result axis i is source axis perm[i]. */
order_id order_transpose(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                         const int *perm);
/* Each run of `size` consecutive cells sorted ascending, P-19. */
order_id order_sort_runs(struct shardings *t, order_id o, int64_t size);
order_id order_reverse(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                       const bool *flip);
/* Cells as [n / m, m]: cell (y, x) of the result is cell (y, inner(x)); inner permutes 0..m-1. */
order_id order_compose(struct shardings *t, order_id o, order_id inner);
/* The order as a plain list in a. */
int64_t *order_list(const struct shardings *t, struct arena *a, order_id o);
/* Cell of each device 0..n-1 when the order is a permutation of them, else NULL. */
int64_t *order_inverse_list(const struct shardings *t, struct arena *a, order_id o);

/* ---- kinds (kinds.c) ----------------------------------------------------------------------------- */

static inline bool is_tiled_leaf(const struct sharding *s)
{
    return s->kind == SHARDING_TILED;
}

/* Axes of T behind the data axes. */
static inline int ntrailing(const struct sharding *s)
{
    return s->ntypes + (s->lastrep ? 1 : 0);
}

sharding_id plain_make(struct shardings *t, int naxes, const int64_t *dims, order_id o);
sharding_id partial_make(struct shardings *t, int naxes, const int64_t *dims, order_id o);
sharding_id subgroup_make(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                          int ntypes, const enum axis_type *types);
/* P-21 with dims given. */
sharding_id rebuild_make(struct shardings *t, const struct sharding *s, int naxes,
                         const int64_t *dims, order_id o);

/* ---- memo (memo.c): bounded, forgets at will ------------------------------------------------------ */

enum memo_op { MEMO_MERGE, MEMO_SUBTILING, MEMO_RESHAPE, MEMO_THROUGH };

struct memo_key {
    int n;
    bool fits;
    int64_t w[24];
};

void memo_start(struct memo_key *k, enum memo_op op);
void memo_add(struct memo_key *k, int64_t v);
void memo_add_list(struct memo_key *k, int n, const int64_t *v);
bool memo_get(const struct shardings *t, const struct memo_key *k, int64_t *value);
void memo_put(struct shardings *t, const struct memo_key *k, int64_t value);
void memo_free(struct shardings *t);

/* ---- reading (lex.c) ------------------------------------------------------------------------------ */

/* A place in a text. off is where p lies in src; i runs from 0 to n. */
struct lexer {
    struct shardings *t;
    const struct source *src;
    struct diag *d;
    uint32_t off;
    const char *p;
    size_t n, i;
};

void lex_blank(struct lexer *l); /* blanks and comments */
bool lex_is(struct lexer *l, char c);
bool lex_take(struct lexer *l, char c);
bool lex_take_text(struct lexer *l, const char *word); /* punctuation: no check of what follows */
bool lex_take_word(struct lexer *l, const char *word); /* a whole word */
bool lex_expect(struct lexer *l, char c, const char *where) MUST_CHECK;
size_t lex_word(struct lexer *l, const char **word); /* letters, digits, _ . - ; 0: none; not taken */
bool lex_int(struct lexer *l, int64_t *v, const char *what) MUST_CHECK;
/* 'name', "name" or a bare word; false: none here, no message. */
bool lex_name(struct lexer *l, const char **name, size_t *n);
void warn_unreduced(struct lexer *l, size_t at); /* mesh_text.c */
/* An error at the present place, over len bytes (at least 1). */
bool lex_error(struct lexer *l, size_t at, size_t len, const char *fmt, ...) PRINTF_LIKE(4, 5);

bool read_tile(struct lexer *l, int *naxes, int64_t *dims, order_id *order, bool *listed) MUST_CHECK;
/* [a,b]T(1,0) behind its opening bracket; total 0: any number of devices. */
bool read_iota(struct lexer *l, int64_t total, size_t start, order_id *order) MUST_CHECK;
void tile_print(const struct shardings *t, struct tiling a, bool listed, struct str *out);
/* {mesh['x'=2], [..]} behind its opening brace, with the closing one; maximal_mesh[..] too. */
bool read_mesh_sharding(struct lexer *l, sharding_id *out) MUST_CHECK;
bool at_mesh_sharding(struct lexer *l);

#endif
