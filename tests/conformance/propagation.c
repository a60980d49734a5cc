/* propagation.jsonl: one module a line, options, and the shardings that the pass must come to. */
#include "conformance.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "propagate/propagate.h"
#include "text/text.h"

struct one_case {
    const cJSON *json;
    const char *name;
    struct ir *ir;
    struct module *module;
    struct propagation *result;
    struct diag *diag;
    struct arena arena;
    struct str why; /* what is wrong; empty: nothing */
};

static const char *string_at(const cJSON *o, const char *key)
{
    const cJSON *s = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(s) ? s->valuestring : NULL;
}

static bool flag_at(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int64_t bools_at(struct arena *a, const cJSON *o, const char *key, const bool **out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, key);
    int n = cJSON_GetArraySize(list);
    bool *v = ARENA_ARRAY(a, bool, n + 1);
    for (int k = 0; k < n; k++)
        v[k] = cJSON_IsTrue(cJSON_GetArrayItem(list, k));
    *out = v;
    return n;
}

static struct propagation_options options_of(struct one_case *c)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(c->json, "options");
    struct propagation_options p = { .spmd = flag_at(o, "is_spmd"),
                                     .propagate_metadata = flag_at(o, "propagate_metadata"),
                                     .cse_only = flag_at(o, "cse_prevention_only") };
    p.nto_output = bools_at(&c->arena, o, "allow_spmd_sharding_propagation_to_output", &p.to_output);
    p.nto_parameters =
        bools_at(&c->arena, o, "allow_spmd_sharding_propagation_to_parameters", &p.to_parameters);
    const cJSON *threads = cJSON_GetObjectItemCaseSensitive(o, "execution_threads");
    p.nthreads = cJSON_GetArraySize(threads);
    const char **names = ARENA_ARRAY(&c->arena, const char *, p.nthreads + 1);
    for (int k = 0; k < p.nthreads; k++)
        names[k] = cJSON_GetArrayItem(threads, k)->valuestring;
    p.threads = names;
    return p;
}

/* ---- which instruction is meant ------------------------------------------------------------------- */

static bool named(const struct module *m, instr_id i, const char *name)
{
    if (*name == '%')
        name++;
    return strcmp(name_text(m->ir, instr_at(m, i)->name), name) == 0;
}

static bool in_computation(const struct module *m, instr_id i, const char *name)
{
    if (!name)
        return true;
    if (*name == '%')
        name++;
    return strcmp(name_text(m->ir, comp_at(m, instr_at(m, i)->comp)->name), name) == 0;
}

static instr_id find_loaded(const struct module *m, const char *name, const char *computation)
{
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (named(m, (instr_id){ k }, name) && in_computation(m, (instr_id){ k }, computation))
            return (instr_id){ k };
    return (instr_id){ 0 };
}

/* The working graph's instruction that an expectation names. */
static instr_id meant(struct one_case *c, const cJSON *e)
{
    const struct graph *g = c->result->graph;
    const char *name = string_at(e, "instr");
    const cJSON *root = cJSON_GetObjectItemCaseSensitive(e, "root");
    instr_id none = { 0 };
    instr_id i = name ? find_loaded(c->module, name, string_at(e, "computation")) : none;
    if (root && !cJSON_IsFalse(root)) {
        comp_id comp = i.i ? instr_at(c->module, i)->comp : g->module->entry;
        return comp_at(g->module, comp)->root;
    }
    if (!i.i) {
        for (uint32_t k = 1; k <= module_ninstrs(g->module) && name; k++)
            if (named(g->module, (instr_id){ k }, name))
                return (instr_id){ k };
        return none;
    }
    if (g->start[i.i] == g->start[i.i + 1])
        return none;
    instr_id w = g->list[g->start[i.i]];
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(e, "operand_path");
    for (int k = 0; k < cJSON_GetArraySize(path) && w.i; k++) {
        uint32_t at = (uint32_t)cJSON_GetArrayItem(path, k)->valueint;
        w = at < instr_at(g->module, w)->noperands ? instr_operand(g->module, w, at) : none;
    }
    return w;
}

static sharding_id parse(struct one_case *c, instr_id i, const char *text)
{
    struct source src = { "<expected>", text, strlen(text) };
    size_t used;
    sharding_id s;
    if (!sharding_parse(c->ir->shardings, &c->arena, &src, 0, text, strlen(text), &used, &s, NULL,
                        c->diag))
        return (sharding_id){ UINT32_MAX };
    const struct shape *shape = instr_shape(c->result->graph->module, i);
    if (shape->kind == SHAPE_TUPLE && sharding_get(c->ir->shardings, s)->kind != SHARDING_TUPLE)
        s = sharding_tuple_of(c->ir->shardings, shape->nleaves, s);
    return s;
}

static const char *spelled(struct one_case *c, sharding_id s)
{
    struct str out = STR_IN(&c->arena);
    if (s.i)
        sharding_print(c->ir->shardings, s, NULL, false, &out);
    return s.i ? str_text(&out) : "none";
}

/* ---- checks --------------------------------------------------------------------------------------- */

static void check_expectation(struct one_case *c, const cJSON *e)
{
    const char *name = string_at(e, "instr"), *want_text = string_at(e, "sharding");
    instr_id i = meant(c, e);
    if (!i.i) {
        add_reason(&c->why, "%s: no such instruction after the pass", name ? name : "root");
        return;
    }
    sharding_id got = c->result->final[i.i], want = { 0 };
    if (want_text)
        want = parse(c, i, want_text);
    if (got.i != want.i)
        add_reason(&c->why, "%s: got %s, expected %s", name ? name : "root", spelled(c, got),
              want_text ? want_text : "none");
}

static void check_metadata(struct one_case *c, instr_id i, const cJSON *want)
{
    struct sharding_note *const *notes = prop_notes(c->result, &c->arena);
    const struct sharding_note *note = notes ? notes[i.i] : NULL;
    int n = note && note->leaves ? note->leaves[0].nmeta : 0;
    if (n != cJSON_GetArraySize(want)) {
        add_reason(&c->why, "metadata: got %d records, expected %d", n, cJSON_GetArraySize(want));
        return;
    }
    for (int k = 0; k < n; k++) {
        const char *text = cJSON_GetArrayItem(want, k)->valuestring;
        const char *quoted = arena_printf(&c->arena, "op_name=\"%s\"", text);
        if (!strstr(note->leaves[0].meta[k], quoted))
            add_reason(&c->why, "metadata: got %s, expected %s", note->leaves[0].meta[k], text);
    }
}

static void check_other(struct one_case *c, const cJSON *e)
{
    instr_id i = meant(c, e);
    const char *not_this = string_at(e, "not_sharding"), *same = string_at(e, "same_sharding_as");
    const char *other = string_at(e, "other_sharding_than");
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(e, "metadata");
    if (!i.i) {
        add_reason(&c->why, "no such instruction after the pass");
        return;
    }
    sharding_id got = c->result->final[i.i];
    if (not_this && got.i == parse(c, i, not_this).i)
        add_reason(&c->why, "sharding must not be %s", not_this);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? other : same;
        if (!name)
            continue;
        cJSON *ask = cJSON_CreateObject();
        cJSON_AddStringToObject(ask, "instr", name);
        instr_id x = meant(c, ask);
        cJSON_Delete(ask);
        if (!x.i || (c->result->final[x.i].i == got.i) != (k == 0))
            add_reason(&c->why, "sharding %s that of %s: got %s and %s", k ? "must differ from" : "must be",
                  name, spelled(c, got), x.i ? spelled(c, c->result->final[x.i]) : "nothing");
    }
    if (metadata)
        check_metadata(c, i, metadata);
}

static void check(struct one_case *c)
{
    const cJSON *e, *changed = cJSON_GetObjectItemCaseSensitive(c->json, "changed");
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(c->json, "expect"))
        check_expectation(c, e);
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(c->json, "expect_other"))
        check_other(c, e);
    if (cJSON_IsBool(changed) && cJSON_IsTrue(changed) != c->result->changed)
        add_reason(&c->why, "changed: got %s", c->result->changed ? "true" : "false");
}

static void run_loaded(struct one_case *c)
{
    struct propagation_options o = options_of(c);
    const char *error = string_at(c->json, "expect_error");
    struct graph *g = graph_prepare(c->module, false, NULL, c->diag);
    c->result = g ? propagate(g, &o, NULL, c->diag) : NULL;
    const char *said = c->diag->msgs.n ? c->diag->msgs.v[0].text : "nothing said";
    if (!c->result) {
        if (!error || !strstr(said, error))
            add_reason(&c->why, "the pass failed: %s", said);
        return;
    }
    if (error)
        add_reason(&c->why, "the pass must fail: %s", error);
    else
        check(c);
}

/* One case's test runs another pass of XLA first, one that copies constants for each user. */
static bool needs_another_pass(const cJSON *json)
{
    return strstr(field_text(json, "notes"), "HloConstantSplitter[True] before the pass") != NULL;
}

static void run_case(void *context, struct conformance *out, const cJSON *json)
{
    (void)context;
    struct one_case c = { .json = json, .name = field_text(json, "name") };
    if (needs_another_pass(json)) {
        conformance_skip(out, c.name, "its test runs XLA's constant splitter first");
        return;
    }
    c.why = STR_IN(&c.arena);
    c.ir = ir_new();
    c.diag = diag_new();
    const char *hlo = string_at(json, "hlo");
    c.module = hlo ? module_load_text(c.ir, c.name, hlo, strlen(hlo), NULL, c.diag) : NULL;
    if (c.module)
        run_loaded(&c);
    else
        add_reason(&c.why, "cannot be read: %s", c.diag->msgs.n ? c.diag->msgs.v[0].text : "no text");
    if (c.why.n == 0)
        conformance_pass(out, c.name);
    else
        conformance_fail(out, c.name, NULL, str_text(&c.why));
    propagation_free(c.result);
    module_free(c.module);
    ir_free(c.ir);
    diag_free(c.diag);
    arena_free(&c.arena);
}

void conformance_propagation(const char *path, struct conformance *out)
{
    char buffer[4096];
    const char *file = conformance_file(path, "propagation.jsonl", buffer);
    if (file)
        conformance_lines(file, out, run_case, NULL);
}
