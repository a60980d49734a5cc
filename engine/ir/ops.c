/* The tables of operations and attributes, and finding a row by its text. */
#include "ir/ir.h"

#include <pthread.h>
#include <string.h>

static const struct op_row {
    const char *name, *propagate;
    int lo, hi;
} ops[OP_COUNT] = {
    [OP_NONE] = { "", "", 0, 0 },
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)                \
    [OP_##id] = { hlo, #propagate, lo, hi },
#include "ir/ops.def"
};

static const struct attr_row {
    const char *name;
    enum attr_type type;
} attrs[ATTR_COUNT] = {
    [ATTR_NONE] = { "", ATTR_TYPE_NONE },
#define ATTR(id, text, type) [ATTR_##id] = { text, ATTR_TYPE_##type },
#include "ir/attrs.def"
};

/* ---- finding by text: two small hash tables, made once ----------------------------------------- */

enum { SLOTS = 512 };

static struct {
    uint8_t op[SLOTS], attr[SLOTS]; /* 0: free */
    bool unary[OP_COUNT], binary[OP_COUNT];
} found;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void enter(uint8_t *table, const char *name, int id)
{
    uint64_t i = hash_bytes(name, strlen(name), 7) % SLOTS;
    while (table[i])
        i = (i + 1) % SLOTS;
    table[i] = (uint8_t)id;
}

_Static_assert((int)OP_COUNT < 256 && (int)ATTR_COUNT < 256, "ids fit a byte");

static void make_tables(void)
{
    for (int k = 1; k < OP_COUNT; k++) {
        enter(found.op, ops[k].name, k);
        bool elementwise = strcmp(ops[k].propagate, "elementwise") == 0;
        found.unary[k] = elementwise && ops[k].hi == 1;
        found.binary[k] = elementwise && ops[k].hi == 2;
    }
    for (int k = 1; k < ATTR_COUNT; k++)
        if (attrs[k].name[0])
            enter(found.attr, attrs[k].name, k);
}

static void need_tables(void)
{
    (void)pthread_once(&once, make_tables);
}

enum op_kind op_find(const char *name, size_t n)
{
    need_tables();
    for (uint64_t i = hash_bytes(name, n, 7) % SLOTS; found.op[i]; i = (i + 1) % SLOTS) {
        const char *s = ops[found.op[i]].name;
        if (strncmp(s, name, n) == 0 && s[n] == '\0')
            return (enum op_kind)found.op[i];
    }
    return OP_NONE;
}

/* Rows of one spelling (algorithm): the first in the table was entered first, so it is met first. */
enum attr_key attr_find_key(const char *s, size_t n)
{
    need_tables();
    for (uint64_t i = hash_bytes(s, n, 7) % SLOTS; found.attr[i]; i = (i + 1) % SLOTS) {
        const char *t = attrs[found.attr[i]].name;
        if (strncmp(t, s, n) == 0 && t[n] == '\0')
            return (enum attr_key)found.attr[i];
    }
    return ATTR_NONE;
}

/* What other texts call the operations. */
static const char *other_name(const char *word)
{
    static const char *const same[][2] = {
        { "mul", "multiply" },        { "sub", "subtract" },      { "div", "divide" },        { "neg", "negate" },
        { "max", "maximum" },         { "min", "minimum" },       { "exp", "exponential" },   { "pow", "power" },
        { "rem", "remainder" },       { "mod", "remainder" },     { "ln", "log" },            { "log1p", "log-plus-one" },
        { "expm1", "exponential-minus-one" }, { "sigmoid", "logistic" }, { "cast", "convert" }, { "where", "select" },
        { "matmul", "dot" },          { "einsum", "dot" },        { "dot_general", "dot" },   { "conv", "convolution" },
        { "concat", "concatenate" },  { "cat", "concatenate" },   { "sum", "reduce" },        { "reduce_sum", "reduce" },
        { "permute", "transpose" },   { "view", "reshape" },      { "broadcast_in_dim", "broadcast" },
        { "psum", "all-reduce" },     { "ppermute", "collective-permute" }, { "case", "conditional" },
        { "if", "conditional" },      { "const", "constant" },    { "param", "parameter" },   { "argument", "parameter" },
        { "gte", "get-tuple-element" }, { "func.call", "call" },  { "flip", "reverse" },
    };
    for (size_t i = 0; i < COUNTOF(same); i++)
        if (strcmp(word, same[i][0]) == 0)
            return same[i][1];
    return NULL;
}

const char *op_nearest(const char *name, size_t n)
{
    char word[40];
    if (n >= sizeof word)
        return NULL;
    memcpy(word, name, n);
    word[n] = '\0';
    int limit = n < 4 ? 1 : 3, least = limit + 1;
    const char *best = other_name(word);
    if (best)
        return best;
    for (int k = 1; k < OP_COUNT; k++) {
        int e = edit_distance(word, ops[k].name, limit);
        if (e < least) {
            least = e;
            best = ops[k].name;
        }
    }
    return best;
}

/* ---- facts ------------------------------------------------------------------------------------- */

const char *op_name(enum op_kind op)
{
    return ops[op].name;
}

int op_min_operands(enum op_kind op)
{
    return ops[op].lo;
}

int op_max_operands(enum op_kind op)
{
    return ops[op].hi;
}

bool op_is_elementwise_unary(enum op_kind op)
{
    need_tables();
    return found.unary[op];
}

bool op_is_elementwise_binary(enum op_kind op)
{
    need_tables();
    return found.binary[op];
}

bool op_is_collective(enum op_kind op)
{
    static const bool is[OP_COUNT] = {
        [OP_ALL_GATHER] = true,          [OP_ALL_GATHER_START] = true,
        [OP_ALL_GATHER_DONE] = true,     [OP_ALL_REDUCE] = true,
        [OP_ALL_REDUCE_START] = true,    [OP_ALL_REDUCE_DONE] = true,
        [OP_REDUCE_SCATTER] = true,      [OP_ALL_TO_ALL] = true,
        [OP_RAGGED_ALL_TO_ALL] = true,   [OP_COLLECTIVE_PERMUTE] = true,
        [OP_COLLECTIVE_PERMUTE_START] = true, [OP_COLLECTIVE_PERMUTE_DONE] = true,
        [OP_COLLECTIVE_BROADCAST] = true,
    };
    return is[op];
}

const char *attr_name(enum attr_key k)
{
    return attrs[k].name;
}

enum attr_type attr_type_of(enum attr_key k)
{
    return attrs[k].type;
}
