#include "repl/compare.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/commands.h"

/* ---- sides ----------------------------------------------------------------------------------------- */

struct document *side_enter(struct call *c, const struct side *s)
{
    struct document *before = c->sh->doc;
    c->sh->doc = s->doc;
    return before;
}

void side_leave(struct call *c, struct document *before)
{
    c->sh->doc = before;
}

static bool derive(struct call *c, const struct strategy *st, struct side *s)
{
    s->module = document_module(s->doc);
    bool dump = document_is_partitioned(s->doc);
    if (!dump) {
        s->prop = strategy_propagation(s->doc, st, call_tick(c), c->d);
        if (!s->prop)
            return false;
        s->program = strategy_program(s->doc, st, call_tick(c), NULL);
    }
    /* Shardings can be compared where collectives cannot be had (no devices, say). */
    s->has_comms = strategy_collectives(s->doc, st, &s->list, &s->n, &s->total, call_tick(c), NULL);
    const struct cost_plan *plan;
    const struct memory *memory;
    s->peak = s->has_comms && strategy_memory(s->doc, st, &plan, &memory, call_tick(c), NULL)
                  ? memory->peak
                  : -1;
    return true;
}

/* A file's devices get the names of the mesh at hand, where they are as many. */
static void lend_mesh(struct call *c, struct side *s)
{
    const struct mesh *m = document_mesh(c->sh->doc);
    struct shardings *t = document_ir(s->doc)->shardings;
    if (!m || document_mesh(s->doc) || document_devices(s->doc) != mesh_devices(m))
        return;
    const char *text = mesh_words(c, m);
    struct mesh copy = { .name = "" };
    struct diag *d = diag_new();
    struct source src = { .name = "<mesh>", .text = text, .len = strlen(text) };
    if (mesh_parse(t, &c->arena, &src, 0, src.text, src.len, &copy, d)) {
        copy.name = "";
        if (!edit_mesh(s->doc, &copy, "", d))
            diag_clear(d); /* numbers do, then */
    }
    diag_free(d);
}

static bool open_file(struct call *c, int arg, struct side *s)
{
    if (c->sh->sealed) {
        call_error(c, STATUS_INPUT, "io", "no file is opened here");
        return false;
    }
    s->doc = document_new();
    s->own_doc = true;
    diag_stage(c->d, "io");
    if (!document_load(s->doc, c->args[arg].text, call_tick(c), c->d))
        return false;
    lend_mesh(c, s);
    return derive(c, document_strategy(s->doc), s);
}

static bool names_a_file(const char *name)
{
    return strchr(name, '/') || access(name, R_OK) == 0;
}

static bool unknown(struct call *c, int arg)
{
    call_usage(c, arg, "'%s' is neither a strategy nor a file", c->args[arg].text);
    const char *const *names;
    int n = document_saved(c->sh->doc, &names);
    struct str list = STR_IN(&c->arena);
    for (int v = 0; v < n && v < 8; v++)
        str_addf(&list, ", %s", names[v]);
    diag_hint(c->d, "current, previous%s", str_text(&list));
    return false;
}

bool side_open(struct call *c, int arg, struct side *s)
{
    struct document *doc = c->sh->doc;
    const char *name = arg < c->n ? c->args[arg].text : "current";
    *s = (struct side){ .name = name, .doc = doc };
    const struct strategy *now = document_strategy(doc), *st = document_saved_strategy(doc, name);
    if (!strcmp(name, "current"))
        st = now;
    else if (!strcmp(name, "previous") && !(st = now->parent))
        return call_usage(c, arg, "no edit was made: there is no strategy before this one") == STATUS_OK;
    if (!st && names_a_file(name))
        return open_file(c, arg, s);
    return st ? derive(c, st, s) : unknown(c, arg);
}

void side_close(struct side *s)
{
    if (s->own_doc)
        document_free(s->doc);
    s->doc = NULL;
}

/* ---- which instruction is which -------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
}

static uint64_t mix_text(uint64_t h, const char *s, size_t n)
{
    for (size_t k = 0; k < n; k++)
        h = (h ^ (unsigned char)s[k]) * 0x100000001b3u;
    return mix(h, n);
}

struct keyed {
    uint64_t key;
    uint32_t id;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Shapes by their text: two modules intern on their own. */
static uint64_t *shape_hashes(struct arena *a, const struct module *m)
{
    uint32_t n = module_ninstrs(m);
    uint64_t *h = ARENA_ARRAY(a, uint64_t, n + 1);
    shape_id last = { 0 };
    uint64_t last_hash = 0;
    struct arena scratch = { 0 };
    for (uint32_t k = 1; k <= n; k++) {
        shape_id s = instr_at(m, (instr_id){ k })->shape;
        if (s.i != last.i || !last.i) {
            struct str text = STR_IN(&scratch);
            shape_print(m->ir, s, false, &text);
            last_hash = mix_text(1, str_text(&text), text.n);
            last = s;
            if (k % 1024 == 0) {
                arena_free(&scratch);
                scratch = (struct arena){ 0 };
            }
        }
        h[k] = last_hash;
    }
    arena_free(&scratch);
    return h;
}

/* What an instruction computes: opcode, shape, and the same of its operands. Operands stand before
 * their users in any order that a module is printed in; where they do not, 0 stands for them. */
static uint64_t *value_hashes(struct arena *a, const struct module *m, const uint64_t *shapes)
{
    uint32_t n = module_ninstrs(m);
    uint64_t *h = ARENA_ARRAY(a, uint64_t, n + 1);
    for (uint32_t k = 1; k <= n; k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        uint64_t v = mix(shapes[k], (uint64_t)in->op);
        if (in->op == OP_PARAMETER)
            v = mix(mix(v, (uint64_t)instr_param_number(in)),
                    in->comp.i == m->entry.i);
        for (uint32_t o = 0; o < in->noperands; o++)
            v = mix(v, h[in->operands[o].i]);
        h[k] = v;
    }
    return h;
}

typedef uint64_t key_fn(const struct module *m, uint32_t k, const uint64_t *hashes);

static uint64_t key_of_value(const struct module *m, uint32_t k, const uint64_t *hashes)
{
    (void)m;
    return hashes[k];
}

static uint64_t key_of_op_name(const struct module *m, uint32_t k, const uint64_t *shapes)
{
    const char *s = instr_op_name(m, (instr_id){ k });
    if (!s[0])
        return 0;
    return mix(mix_text(shapes[k], s, strlen(s)), (uint64_t)instr_at(m, (instr_id){ k })->op);
}

static uint64_t key_of_name(const struct module *m, uint32_t k, const uint64_t *shapes)
{
    const struct instr *in = instr_at(m, (instr_id){ k });
    const char *s = name_text(m->ir, in->name);
    size_t n = strlen(s);
    while (n > 1 && ((s[n - 1] >= '0' && s[n - 1] <= '9') || s[n - 1] == '.'))
        n--;
    return mix(mix_text(shapes[k], s, n), (uint64_t)in->op);
}

static struct keyed *keys(struct arena *a, const struct module *m, const bool *taken, key_fn *fn,
                          const uint64_t *hashes, size_t *count)
{
    uint32_t n = module_ninstrs(m);
    struct keyed *v = ARENA_ARRAY(a, struct keyed, n + 1);
    *count = 0;
    for (uint32_t k = 1; k <= n; k++) {
        uint64_t key = taken[k] ? 0 : fn(m, k, hashes);
        if (key)
            v[(*count)++] = (struct keyed){ key, k };
    }
    qsort(v, *count, sizeof *v, by_key);
    return v;
}

/* Pairs what is left on both sides under equal keys, in order. */
static void pair(struct arena *a, const struct module *const m[2], bool *const taken[2],
                 key_fn *fn, const uint64_t *const hashes[2], uint32_t *to)
{
    size_t n[2];
    struct keyed *x = keys(a, m[0], taken[0], fn, hashes[0], &n[0]);
    struct keyed *y = keys(a, m[1], taken[1], fn, hashes[1], &n[1]);
    for (size_t i = 0, j = 0; i < n[0] && j < n[1];) {
        if (x[i].key < y[j].key) {
            i++;
        } else if (x[i].key > y[j].key) {
            j++;
        } else {
            to[x[i].id] = y[j].id;
            taken[0][x[i].id] = taken[1][y[j].id] = true;
            i++;
            j++;
        }
    }
}

const uint32_t *match_modules(struct call *c, const struct module *a, const struct module *b)
{
    const struct module *const m[2] = { a, b };
    uint32_t *to = ARENA_ARRAY(&c->arena, uint32_t, module_ninstrs(a) + 1);
    if (a == b) {
        for (uint32_t k = 0; k <= module_ninstrs(a); k++)
            to[k] = k;
        return to;
    }
    struct arena scratch = { 0 };
    const uint64_t *shapes[2], *values[2];
    bool *taken[2];
    for (int s = 0; s < 2; s++) {
        shapes[s] = shape_hashes(&scratch, m[s]);
        values[s] = value_hashes(&scratch, m[s], shapes[s]);
        taken[s] = ARENA_ARRAY(&scratch, bool, module_ninstrs(m[s]) + 1);
    }
    pair(&scratch, m, taken, key_of_value, values, to);
    pair(&scratch, m, taken, key_of_op_name, shapes, to);
    pair(&scratch, m, taken, key_of_name, shapes, to);
    arena_free(&scratch);
    return to;
}

/* ---- layers ---------------------------------------------------------------------------------------- */

/* What is inside jvp(..), transpose(jvp(..)): in place. */
static char *unwrapped(char *s)
{
    static const char *const wrappers[] = { "jvp(",  "transpose(", "vmap(", "remat(",
                                            "checkpoint(", "rematted_computation(" };
    for (size_t k = 0; k < COUNTOF(wrappers); k++) {
        size_t n = strlen(wrappers[k]), len = strlen(s);
        if (strncmp(s, wrappers[k], n) != 0 || s[len - 1] != ')')
            continue;
        s[len - 1] = '\0';
        s += n;
        k = (size_t)-1; /* there may be another inside */
    }
    return s;
}

static bool is_machinery(const char *s)
{
    static const char *const words[] = { "",     "while",       "body",       "cond",
                                         "scan", "closed_call", "checkpoint", "remat" };
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (!strcmp(s, words[k]))
            return true;
    if (strstr(s, "->")) /* an einsum's own name */
        return true;
    return !strncmp(s, "jit(", 4) || !strncmp(s, "pjit(", 5);
}

const char *layer_of(struct arena *a, const char *op_name)
{
    for (const char *p = op_name; *p;) {
        size_t n = 0;
        for (int depth = 0; p[n] && (p[n] != '/' || depth > 0); n++)
            depth += (p[n] == '(') - (p[n] == ')');
        if (!p[n])
            return ""; /* the last part is the operation itself */
        char *part = unwrapped(arena_strndup(a, p, n));
        if (!is_machinery(part))
            return part;
        p += n + 1;
    }
    return "";
}
