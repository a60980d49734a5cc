/* Between the files of the HLO reader: the cursor, the caches, and who reads what.
 *
 * One pass over the bytes, no tokens: every function stands at r->p and leaves it behind what it
 * read. The text ends with a NUL that no character class contains, so loops over classes need no
 * bounds check. Text is borrowed: metadata, literals, groups and the like keep pointers into it.
 *
 *     hlo_read.c    header, tables, computations, recovery, what is resolved at the end
 *     hlo_instr.c   one instruction: name, shape, opcode, operands
 *     hlo_attrs.c   values of attributes
 *     hlo_groups.c  replica groups and pairs
 *     hlo_literal.c constants
 *     hlo_check.c   words of attributes, the header against the entry
 */
#ifndef GSPMD_TEXT_READER_H
#define GSPMD_TEXT_READER_H

#include <locale.h>
#include <string.h>

#include "text/share.h"
#include "text/text.h"

enum { SHAPE_CACHE = 2048, VALUE_CACHE = 512, RECENT = 4096, OP_SLOTS = 512, KEY_SLOTS = 512 };

/* A piece of the text that was read before, with what it meant. */
struct cached {
    const char *text;
    uint32_t len, hash;
    uint32_t id;       /* shape_id, sharding_id */
    const void *value; /* struct sharding_note, struct replica_groups */
};

/* The newest definitions by the hash of their names: most operands are among them, and looking
 * there touches memory that was touched just before, unlike the table of all names. */
struct recent {
    uint32_t hash, off, comp, instr;
};

/* A called computation that the text has not defined yet. element: of a list, -1 for ATTR COMP. */
struct pending {
    instr_id instr;
    uint32_t attr;
    int64_t element;
    const char *name;
    uint32_t len;
};

struct word {
    const char *text;
    uint32_t len, value;
};

struct hlo {
    struct ir *c;
    struct module *m;
    struct source *src;
    struct tick *tick;
    struct diag *d;
    const char *base, *p, *end;
    struct arena tmp;
    locale_t plain; /* numbers are read in the C locale, whatever the process has */
    int nerrors;
    bool stop; /* too many errors, or interrupted */

    comp_id comp;
    bool seen_entry;
    const char *entry_at; /* where the entry was defined, for "already" */
    instr_id root;        /* of the computation being read */
    const char *root_at;
    uint32_t *defs; /* by name_id: the newest instruction of that name, maybe of an older computation */
    uint32_t ndefs;
    struct recent recent[RECENT];
    struct map comps; /* name_id -> comp_id */
    VEC(struct pending) pending;
    int64_t first_pending; /* of the instruction being read */

    VEC(instr_id) operands; /* of the instruction being read */
    VEC(struct attr) attrs;
    VEC(int64_t) ints;
    VEC(comp_id) called;
    struct {
        const char *sharding, *metadata, *frontend;
        uint32_t sharding_len, metadata_len, frontend_len;
    } found;

    struct share share;
    struct word ops[OP_SLOTS], keys[KEY_SLOTS];
    struct cached shapes[SHAPE_CACHE], shardings[VALUE_CACHE], groups[VALUE_CACHE];
    struct cached windows[VALUE_CACHE], literals[VALUE_CACHE];
};

/* ---- characters ------------------------------------------------------------------------------ */

enum { CH_WORD = 1, CH_BLANK = 2, CH_DIGIT = 4, CH_NL = 8, CH_SPACE = CH_BLANK | CH_NL };
extern const uint8_t hlo_class[256];

static inline bool is_word(char c)
{
    return hlo_class[(unsigned char)c] & CH_WORD;
}
static inline bool is_digit(char c)
{
    return hlo_class[(unsigned char)c] & CH_DIGIT;
}

void hlo_skip_slow(struct hlo *r);

/* Blanks, line ends and comments. */
static inline void skip(struct hlo *r)
{
    while (hlo_class[(unsigned char)*r->p] & CH_SPACE)
        r->p++;
    if (*r->p == '/')
        hlo_skip_slow(r);
}

static inline bool take(struct hlo *r, char c)
{
    skip(r);
    if (*r->p != c)
        return false;
    r->p++;
    return true;
}

static inline size_t word_len(const char *p)
{
    const char *q = p;
    while (is_word(*q))
        q++;
    return (size_t)(q - p);
}

static inline bool same(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static inline struct span span_of(const struct hlo *r, const char *at, size_t len)
{
    return (struct span){ (uint32_t)(at - r->base), (uint32_t)(len ? len : 1) };
}

/* All failures of the reader: counts, stores, is false. */
#define FAIL(r, at, len, ...) \
    ((r)->nerrors++, diag_error((r)->d, (r)->src, span_of((r), (at), (len)), __VA_ARGS__))

/* "expected WHAT" at the cursor, or that the text ends, or has a NUL byte, or a quote is open. */
bool hlo_expected(struct hlo *r, const char *what);
bool hlo_want(struct hlo *r, char c, const char *what);

/* A new module that owns src; src is freed also when there is no memory for one. */
struct module *module_of_source(struct ir *c, struct source *src);

/* ---- pieces ---------------------------------------------------------------------------------- */

/* From an opening bracket or quote to behind the one that closes it; NULL: none does. */
const char *hlo_balanced(const char *p, const char *end);
bool hlo_runs_over(const char *from, const char *stop);
bool hlo_unclosed(struct hlo *r,
                  const char *at); /* reports it; a quote inside may be the culprit */
/* An attribute's value as raw text: up to a comma, blank or line end outside brackets and quotes.
 */
bool hlo_raw_value(struct hlo *r, const char **text, uint32_t *len);
bool hlo_int(struct hlo *r, int64_t *out, const char *what);
/* {1,2,3} or a single number into r->ints. */
bool hlo_int_list(struct hlo *r);
bool hlo_bool(struct hlo *r, bool *out);
/* {true,false} or a single one; into an arena. */
bool hlo_bools(struct hlo *r, int64_t *n, const bool **out);

/* Words are told apart by length and their first and last eight bytes. */
static inline uint32_t word_hash(const char *p, size_t n)
{
    uint64_t a = 0, b = 0;
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else {
        for (size_t i = 0; i < n; i++)
            a = a << 8 | (unsigned char)p[i];
    }
    return (uint32_t)(((a + b * 0x9e3779b97f4a7c15ULL + n) * 0xff51afd7ed558ccdULL) >> 36);
}

uint32_t hlo_word_value(const struct word *table, uint32_t slots, const char *p, size_t n);

/* hlo_check.c: the words of an attribute's value, between `from` and the cursor; the header's attributes. */
bool hlo_check_words(struct hlo *r, uint32_t key, const char *from);
bool hlo_check_header_key(struct hlo *r, const char *key, size_t n);
bool hlo_check_header(struct hlo *r);
bool hlo_check_signature(struct hlo *r, const struct computation *c);
bool hlo_shape(struct hlo *r, shape_id *out);
/* A name in the current computation; says what is wrong if there is none. */
bool hlo_operand_name(struct hlo *r, instr_id *out);
bool hlo_instr(struct hlo *r);
bool hlo_attr(struct hlo *r, enum op_kind op);
bool hlo_take_sharding(struct hlo *r, struct instr *i);
void hlo_spread_sharding(struct hlo *r, struct instr *i);
bool hlo_groups(struct hlo *r, struct attr *a);
bool hlo_pairs(struct hlo *r, struct attr *a);
bool hlo_literal(struct hlo *r, shape_id shape, const struct literal **out);
/* The entry of this text in a cache, to compare and to overwrite. */
struct cached *hlo_cached(struct cached *table, size_t slots, const char *p, size_t n, bool *hit);

#endif
