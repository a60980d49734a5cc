/* Shared by the tests of propagate/: modules as short texts, expectations as `name sharding; ...`. */
#ifndef GSPMD_TESTS_PROPAGATE_SUPPORT_H
#define GSPMD_TESTS_PROPAGATE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "propagate/propagate.h"
#include "text/text.h"

/* Computations that any case may call. */
#define COMMON_COMPUTATIONS                                                                                    \
    "sum {\n a_s = f32[] parameter(0)\n b_s = f32[] parameter(1)\n"                                \
    " ROOT r_s = f32[] add(a_s, b_s)\n}\n"                                                         \
    "smaller {\n a_l = f32[] parameter(0)\n b_l = f32[] parameter(1)\n"                            \
    " ROOT r_l = pred[] compare(a_l, b_l), direction=LT\n}\n"                                      \
    "larger {\n a_g = f32[] parameter(0)\n b_g = f32[] parameter(1)\n"                             \
    " ROOT r_g = pred[] compare(a_g, b_g), direction=GE\n}\n"

struct bed {
    struct ir *ir;
    struct diag *diag;
    struct module *module;
    struct propagation *result;
    struct arena arena;
    bool prepare;
};

static inline const bool *bed_bools(struct arena *a, const char *s, int64_t *n)
{
    bool *v = ARENA_ARRAY(a, bool, (int64_t)strlen(s) + 1);
    *n = 0;
    for (; *s == '0' || *s == '1' || *s == ','; s++)
        if (*s != ',')
            v[(*n)++] = *s == '1';
    return v;
}

/* Words: nospmd, out=1,0  par=1  cse  prepare. */
static inline struct propagation_options bed_options(struct bed *b, const char *words)
{
    struct propagation_options o = { .spmd = !strstr(words, "nospmd"),
                                     .cse_only = strstr(words, "cse") != NULL };
    const char *out = strstr(words, "out="), *par = strstr(words, "par=");
    if (out)
        o.to_output = bed_bools(&b->arena, out + 4, &o.nto_output);
    if (par)
        o.to_parameters = bed_bools(&b->arena, par + 4, &o.nto_parameters);
    b->prepare = strstr(words, "prepare") != NULL;
    return o;
}

static inline void bed_load(struct bed *b, const char *text)
{
    *b = (struct bed){ .ir = ir_new(), .diag = diag_new() };
    b->module = module_load_text(b->ir, "case", text, strlen(text), NULL, b->diag);
    if (!b->module)
        print_message("not read: %s\n%s\n", b->diag->msgs.n ? b->diag->msgs.v[0].text : "?", text);
    assert_non_null(b->module);
}

static inline void bed_run(struct bed *b, const char *words)
{
    struct propagation_options o = bed_options(b, words);
    struct graph *g = graph_prepare(b->module, b->prepare, NULL, b->diag);
    assert_non_null(g);
    b->result = propagate(g, &o, NULL, b->diag);
}

static inline void bed_free(struct bed *b)
{
    propagation_free(b->result);
    module_free(b->module);
    ir_free(b->ir);
    diag_free(b->diag);
    arena_free(&b->arena);
}

/* The last one of that name: names of a case are unique where it matters. */
static inline instr_id bed_named(const struct module *m, const char *name, size_t n)
{
    instr_id found = { 0 };
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        name_id id = instr_at(m, (instr_id){ k })->name;
        if (name_len(m->ir, id) == n && memcmp(name_text(m->ir, id), name, n) == 0)
            found = (instr_id){ k };
    }
    return found;
}

/* Working instruction that stands for a name of the case; `ROOT`: of the entry. */
static inline instr_id bed_working(const struct bed *b, const char *name, size_t n)
{
    const struct graph *g = b->result->graph;
    if (n == 4 && memcmp(name, "ROOT", 4) == 0)
        return comp_at(g->module, g->module->entry)->root;
    instr_id i = bed_named(b->module, name, n);
    if (!i.i || g->start[i.i] == g->start[i.i + 1])
        return (instr_id){ 0 };
    return g->list[g->start[i.i]];
}

static inline const char *bed_spelled(struct bed *b, sharding_id s)
{
    struct str out = STR_IN(&b->arena);
    if (s.i)
        sharding_print(b->ir->shardings, s, NULL, false, &out);
    return s.i ? str_text(&out) : "none";
}

static inline sharding_id bed_sharding(struct bed *b, const char *text, size_t n)
{
    struct source src = { "<expected>", text, strlen(text) };
    sharding_id s = { 0 };
    size_t used;
    if (n >= 4 && memcmp(text, "none", 4) == 0)
        return s;
    assert_true(sharding_parse(b->ir->shardings, &b->arena, &src, 0, text, n, &used, &s, NULL, b->diag));
    return s;
}

/* `x {replicated}; y none`: prints what differs; the number of differences. */
static inline int bed_check(struct bed *b, const char *name, const char *expect)
{
    int bad = 0;
    for (const char *at = expect; *at;) {
        size_t word = strcspn(at, " "), all = strcspn(at, ";");
        instr_id i = bed_working(b, at, word);
        sharding_id want = bed_sharding(b, at + word + 1, all - word - 1);
        sharding_id got = i.i ? b->result->final[i.i] : (sharding_id){ 0 };
        if (!i.i || got.i != want.i) {
            print_message("%s: %.*s: got %s, expected %s\n", name, (int)word, at,
                          i.i ? bed_spelled(b, got) : "no such instruction", bed_spelled(b, want));
            bad++;
        }
        at += all;
        at += strspn(at, "; ");
    }
    return bad;
}

#endif
