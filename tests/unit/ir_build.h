/* Building modules in tests of ir/, which link without the text layer. One line an instruction:
 *
 *     put(&w, c, "dot", "f32[4,3]", "a b", "lhs_contracting_dims={1} rhs_contracting_dims={0}");
 *
 * Values by the attribute's type: 3, true, {0,1} (also for slice and padding, flat), LT, "text",
 * computation or {computations}, window 2,1,0,0,1,1;... (size, stride, low, high, base dilation,
 * window dilation a dimension), dim_labels b01f_01io->b01f, replica_groups [2,4] or {{0,1},{2}},
 * source_target_pairs {{0,1},{1,0}}, control-predecessors {a,b}. */
#ifndef GSPMD_TESTS_IR_BUILD_H
#define GSPMD_TESTS_IR_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

struct world {
    struct ir *c;
    struct module *m;
    struct diag *d;
    struct arena a; /* for texts */
};

static inline void world_open(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->c = ir_new();
    w->m = module_new(w->c, name_put(w->c, "test", 4));
    w->d = diag_new();
}

static inline void world_close(struct world *w)
{
    module_free(w->m);
    ir_free(w->c);
    diag_free(w->d);
    arena_free(&w->a);
}

static inline shape_id shape(struct world *w, const char *text)
{
    size_t used;
    shape_id s;
    if (!shape_parse(w->c, NULL, 0, text, strlen(text), &used, &s, w->d) || used != strlen(text))
        fail_msg("bad shape in a test: %s", text);
    return s;
}

static inline const char *shape_text(struct world *w, shape_id s)
{
    struct str out = STR_IN(&w->a);
    shape_print(w->c, s, true, &out);
    return str_text(&out);
}

static inline comp_id comp_named_in(struct world *w, const char *name, size_t n)
{
    for (uint32_t c = 1; c <= module_ncomps(w->m); c++) {
        name_id k = comp_at(w->m, (comp_id){ c })->name;
        if (name_len(w->c, k) == n && memcmp(name_text(w->c, k), name, n) == 0)
            return (comp_id){ c };
    }
    return (comp_id){ 0 };
}

static inline comp_id comp(struct world *w, const char *name)
{
    return comp_new(w->m, name_put(w->c, name, strlen(name)));
}

/* By name, in computation c. */
static inline instr_id find_n(struct world *w, comp_id c, const char *name, size_t n)
{
    for (uint32_t i = module_ninstrs(w->m); i >= 1; i--) {
        const struct instr *in = instr_at(w->m, (instr_id){ i });
        if (in->comp.i == c.i && name_len(w->c, in->name) == n &&
            memcmp(name_text(w->c, in->name), name, n) == 0)
            return (instr_id){ i };
    }
    fail_msg("no instruction %.*s", (int)n, name);
    return (instr_id){ 0 };
}

static inline instr_id find(struct world *w, comp_id c, const char *name)
{
    return find_n(w, c, name, strlen(name));
}

/* All integers of a text, whatever stands between them. */
static inline int ints_of(const char *s, size_t n, int64_t *out, int max)
{
    int k = 0;
    for (size_t i = 0; i < n;) {
        int64_t v;
        size_t used = parse_i64(s + i, n - i, &v);
        if (used && k < max)
            out[k++] = v;
        i += used ? used : 1;
    }
    return k;
}

static inline struct attr conv_value(struct world *w, const char *s, size_t n)
{
    struct conv_dims *c = ARENA_NEW(&w->m->arena, struct conv_dims);
    const char *under = memchr(s, '_', n), *arrow = strstr(s, "->") + 2;
    for (const char *p = s; p < under; p++) {
        int at = (int)(p - s);
        if (*p == 'b') c->lhs_batch = at;
        else if (*p == 'f') c->lhs_feature = at;
        else c->lhs_spatial[*p - '0'] = at;
    }
    c->nspatial = (int)(under - s) - 2;
    for (const char *p = under + 1; p < arrow - 2; p++) {
        int at = (int)(p - under - 1);
        if (*p == 'i') c->rhs_in = at;
        else if (*p == 'o') c->rhs_out = at;
        else c->rhs_spatial[*p - '0'] = at;
    }
    for (const char *p = arrow; p < s + n; p++) {
        int at = (int)(p - arrow);
        if (*p == 'b') c->out_batch = at;
        else if (*p == 'f') c->out_feature = at;
        else c->out_spatial[*p - '0'] = at;
    }
    struct attr a = attr_int(ATTR_DIM_LABELS, 0);
    a.conv = c;
    return a;
}

static inline struct attr groups_value(struct world *w, const char *s, size_t n)
{
    int64_t v[64];
    int k = ints_of(s, n, v, 64);
    if (s[0] == '[')
        return attr_groups(w->m, tiling_make(w->c->shardings, k, v,
                                             order_iota(w->c->shardings, v[0] * v[1])));
    struct replica_groups *g = ARENA_NEW(&w->m->arena, struct replica_groups);
    int64_t *sizes = ARENA_ARRAY(&w->m->arena, int64_t, 64);
    for (size_t i = 1; i < n; i++) {
        if (s[i] == '{')
            g->nlists++;
        if (s[i] >= '0' && s[i] <= '9' && (s[i - 1] < '0' || s[i - 1] > '9'))
            sizes[g->nlists - 1]++;
    }
    g->none = g->nlists == 0;
    g->sizes = sizes;
    g->ids = arena_copy(&w->m->arena, v, k, sizeof *v);
    struct attr a = attr_int(ATTR_REPLICA_GROUPS, 0);
    a.groups = g;
    return a;
}

static inline struct attr names_value(struct world *w, enum attr_key key, comp_id c, const char *s,
                                      size_t n)
{
    struct attr a = attr_int(key, 0);
    comp_id *comps = ARENA_ARRAY(&w->m->arena, comp_id, 8);
    instr_id *instrs = ARENA_ARRAY(&w->m->arena, instr_id, 8);
    size_t from = 1;
    for (size_t i = 1; i < n; i++) {
        if (s[i] != ',' && s[i] != '}')
            continue;
        if (a.type == ATTR_TYPE_COMPS)
            comps[a.n++] = comp_named_in(w, s + from, i - from);
        else
            instrs[a.n++] = find_n(w, c, s + from, i - from);
        from = i + 1;
    }
    if (a.type == ATTR_TYPE_COMPS)
        a.comps = comps;
    else
        a.instrs = instrs;
    return a;
}

static inline struct attr window_value(struct world *w, const char *s, size_t n)
{
    int64_t v[64];
    int k = ints_of(s, n, v, 64) / 6;
    struct window_dim d[10];
    for (int i = 0; i < k; i++)
        d[i] = (struct window_dim){ v[6 * i], v[6 * i + 1], v[6 * i + 2], v[6 * i + 3],
                                    v[6 * i + 4], v[6 * i + 5], false };
    return attr_window(w->m, k, d);
}

static inline struct attr attr_value(struct world *w, comp_id c, enum attr_key key, const char *s,
                                     size_t n)
{
    int64_t v[64];
    char *text = arena_strndup(&w->a, s, n);
    struct attr a;
    switch (attr_type_of(key)) {
    case ATTR_TYPE_INT: (void)ints_of(s, n, v, 64); return attr_int(key, v[0]);
    case ATTR_TYPE_BOOL: return attr_int(key, s[0] == 't');
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING: return attr_ints(w->m, key, ints_of(s, n, v, 64), v);
    case ATTR_TYPE_IDENT: return attr_ident(w->m, key, text);
    case ATTR_TYPE_STRING: return attr_string(w->m, key, arena_strndup(&w->a, s + 1, n - 2));
    case ATTR_TYPE_RAW: return attr_string(w->m, key, text);
    case ATTR_TYPE_COMP: return attr_comp(key, comp_named_in(w, s, n));
    case ATTR_TYPE_COMPS:
    case ATTR_TYPE_INSTRS: return names_value(w, key, c, s, n);
    case ATTR_TYPE_WINDOW: return window_value(w, s, n);
    case ATTR_TYPE_CONV: return conv_value(w, text, n);
    case ATTR_TYPE_GROUPS: return groups_value(w, s, n);
    case ATTR_TYPE_PAIRS: {
        struct permute_pairs p = { .kind = PAIRS_LIST, .list = v };
        p.n = ints_of(s, n, v, 64) / 2;
        return attr_pairs(w->m, &p);
    }
    case ATTR_TYPE_FLOAT:
        a = attr_int(key, 0);
        a.f = strtod(text, NULL);
        return a;
    case ATTR_TYPE_NONE: break;
    }
    fail_msg("attribute %s", text);
    return attr_int(key, 0);
}

/* name "": none is given. */
static inline instr_id put_named(struct world *w, comp_id c, const char *name, const char *op,
                                 const char *sh, const char *operands, const char *attrs)
{
    instr_id ops[32];
    struct attr at[16];
    int nops = 0, nattrs = 0;
    for (const char *p = operands; *p;) {
        size_t n = strcspn(p, " ");
        ops[nops++] = find_n(w, c, p, n);
        p += n + (p[n] == ' ');
    }
    for (const char *p = attrs; *p;) {
        size_t n = strcspn(p, " "), k = strcspn(p, "=");
        enum attr_key key = attr_find_key(p, k);
        if (key == ATTR_NONE || k >= n)
            fail_msg("no attribute %s", p);
        at[nattrs++] = attr_value(w, c, key, p + k + 1, n - k - 1);
        p += n + (p[n] == ' ');
    }
    enum op_kind kind = op_find(op, strlen(op));
    if (kind == OP_NONE)
        fail_msg("no operation %s", op);
    instr_id i = instr_new(w->m, c, kind, shape(w, sh), nops, ops, nattrs, at);
    if (name[0])
        instr_at(w->m, i)->name = name_put(w->c, name, strlen(name));
    return i;
}

static inline instr_id put_param(struct world *w, comp_id c, const char *name, int number,
                                 const char *sh)
{
    char attrs[40];
    (void)snprintf(attrs, sizeof attrs, "index=%d", number);
    return put_named(w, c, name, "parameter", sh, "", attrs);
}

static inline instr_id put_const(struct world *w, comp_id c, const char *name, const char *sh,
                                 double v)
{
    instr_id i = put_named(w, c, name, "constant", sh, "", "");
    instr_at(w->m, i)->literal =
        literal_scalar_f(w->m, shape_get(w->c, shape(w, sh))->dtype, v);
    return i;
}

/* `op` over two scalars of a type: a reducer, a comparator. */
static inline comp_id put_scalar_function(struct world *w, const char *name, const char *op,
                                          const char *type, const char *result, const char *attrs)
{
    comp_id c = comp(w, name);
    (void)put_param(w, c, "x", 0, type);
    (void)put_param(w, c, "y", 1, type);
    (void)put_named(w, c, "r", op, result, "x y", attrs);
    comp_finish(w->m, c, (instr_id){ 0 });
    return c;
}

static inline void set_entry(struct world *w, comp_id c)
{
    w->m->entry = c;
    comp_at(w->m, c)->entry = true;
}

/* Text of message k; "" when there is none. */
static inline const char *message(const struct world *w, int64_t k)
{
    return k < w->d->msgs.n ? w->d->msgs.v[k].text : "";
}

static inline void assert_says(const struct world *w, const char *part)
{
    for (int64_t k = 0; k < w->d->msgs.n; k++)
        if (strstr(w->d->msgs.v[k].text, part))
            return;
    fail_msg("no message says \"%s\"; the first is \"%s\"", part, message(w, 0));
}

/* A small generator of our own: the same numbers everywhere. */
static inline uint64_t next_random(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15ULL;
    return hash_u64(*s);
}

#endif
