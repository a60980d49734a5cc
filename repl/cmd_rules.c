/* load rules: logical axis rules, as MaxText and Flax keep them, and globs over argument names.
 *
 * A rule names a logical axis and the mesh axes that split it; a glob names parameters and gives their
 * dimensions logical (or mesh) axes. As in Flax, rules are tried in their order: a rule takes its
 * dimension when that has nothing yet and none of the rule's mesh axes is used by the array already. So
 * a later rule of the same name is the fall-back where the first one's axis is taken. */
#include <string.h>

#include "repl/strategy_file.h"

enum { DIMS_MAX = 16, AXES_A_RULE = 8 };

/* Words of one dimension: "embed"; ("data","fsdp"); none. */
struct words {
    int n;
    const char *v[AXES_A_RULE];
};

struct rule {
    const char *key;
    struct words axes;
    int line;
    int64_t used, shadowed, clashed;
};

struct glob {
    const char *pattern;
    int ndims;
    struct words dims[DIMS_MAX];
    int line;
    int64_t used, shadowed;
};

struct rules {
    VEC(struct rule) rules;
    VEC(struct glob) globs;
};

/* ---- reading ---------------------------------------------------------------------------------------------- */

struct rule_reader {
    struct call *c;
    const struct source *src;
    size_t i;
    bool parameters; /* a heading said that globs follow */
};

static bool fail_rule(struct rule_reader *r, size_t at, const char *what)
{
    diag_stage(r->c->d, "parse");
    return diag_error(r->c->d, r->src, (struct span){ (uint32_t)at, 1 }, "%s", what);
}

static char peek(const struct rule_reader *r)
{
    return r->i < r->src->len ? r->src->text[r->i] : '\0';
}

/* Blanks and comments; lines too. */
static void skip(struct rule_reader *r, bool lines)
{
    for (;; r->i++) {
        char ch = peek(r);
        if (ch == '#')
            while (r->i < r->src->len && r->src->text[r->i] != '\n')
                r->i++;
        ch = peek(r);
        if (ch == ' ' || ch == '\t' || ch == '\r' || (lines && ch == '\n'))
            continue;
        return;
    }
}

static bool opens(char ch)
{
    return ch == '[' || ch == '(' || ch == '{';
}

static bool closes(char ch)
{
    return ch == ']' || ch == ')' || ch == '}';
}

/* "embed", 'embed', or a bare word up to a separator. NULL: none here. */
static const char *read_rule_word(struct rule_reader *r, bool key)
{
    skip(r, false);
    size_t start = r->i;
    char q = peek(r);
    if (q == '"' || q == '\'') {
        const char *close = memchr(r->src->text + start + 1, q, r->src->len - start - 1);
        if (!close)
            return NULL;
        r->i = (size_t)(close + 1 - r->src->text);
        return arena_strndup(&r->c->arena, r->src->text + start + 1, r->i - start - 2);
    }
    for (; r->i < r->src->len; r->i++) {
        char ch = peek(r);
        bool arrow = ch == '-' && r->i + 1 < r->src->len && r->src->text[r->i + 1] == '>';
        if (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n' || ch == ',' || ch == ':' || ch == '=' || arrow ||
            (!key && (opens(ch) || closes(ch))) || (key && ch == ')'))
            break;
    }
    return r->i > start ? arena_strndup(&r->c->arena, r->src->text + start, r->i - start) : NULL;
}

static bool is_nothing(const char *w)
{
    return !strcmp(w, "None") || !strcmp(w, "null") || !strcmp(w, "_") || !strcmp(w, "~") || !w[0];
}

/* One dimension: a word, nothing, or a list of words in brackets. */
static bool read_dimension(struct rule_reader *r, struct words *w)
{
    skip(r, true);
    w->n = 0;
    bool list = opens(peek(r));
    r->i += list;
    for (;;) {
        skip(r, list);
        if (list && closes(peek(r))) {
            r->i++;
            return true;
        }
        size_t at = r->i;
        const char *word = read_rule_word(r, false);
        if (!word)
            return fail_rule(r, at, "a name of an axis expected");
        if (w->n == AXES_A_RULE)
            return fail_rule(r, at, "too many axes for one dimension");
        if (!is_nothing(word))
            w->v[w->n++] = word;
        skip(r, list);
        if (list && peek(r) == ',')
            r->i++;
        if (!list)
            return true;
    }
}

/* P(..), PartitionSpec(..), [..], (..): dimensions; a bare word is one. */
static bool read_dimensions(struct rule_reader *r, struct glob *g)
{
    static const char *const calls[] = { "PartitionSpec", "PS", "P" };
    skip(r, false);
    for (size_t k = 0; k < COUNTOF(calls); k++) {
        size_t n = strlen(calls[k]);
        if (r->src->len - r->i > n && !memcmp(r->src->text + r->i, calls[k], n) && r->src->text[r->i + n] == '(') {
            r->i += n;
            break;
        }
    }
    bool list = opens(peek(r));
    r->i += list;
    for (;;) {
        skip(r, list);
        if (list && closes(peek(r))) {
            r->i++;
            return true;
        }
        if (g->ndims == DIMS_MAX)
            return fail_rule(r, r->i, "too many dimensions");
        if (!read_dimension(r, &g->dims[g->ndims++]))
            return false;
        skip(r, list);
        if (list && peek(r) == ',')
            r->i++;
        if (!list)
            return true;
    }
}

static int line_of(const struct rule_reader *r, size_t at)
{
    int line, column;
    source_place(r->src, (uint32_t)at, &line, &column);
    return line;
}

static bool is_glob(const struct rule_reader *r, const char *key)
{
    return r->parameters || strpbrk(key, "*?/[") || argument_by_name(r->c, key).i;
}

static bool add_pair(struct rule_reader *r, struct rules *out, const char *key, size_t at)
{
    if (is_glob(r, key)) {
        struct glob g = { .pattern = key, .line = line_of(r, at) };
        if (!read_dimensions(r, &g))
            return false;
        vec_push(&r->c->arena, &out->globs, g);
        return true;
    }
    struct rule x = { .key = key, .line = line_of(r, at) };
    skip(r, false);
    char next = peek(r);
    if (next != '\n' && next != '\0' && !closes(next) && !read_dimension(r, &x.axes))
        return false;
    vec_push(&r->c->arena, &out->rules, x);
    return true;
}

/* Behind "name =" or "name:": whether lists of pairs follow, or lines of them. */
static bool at_heading(const struct rule_reader *r)
{
    struct rule_reader look = *r;
    skip(&look, false);
    if (peek(&look) == '\n' || peek(&look) == '\0')
        return true;
    if (!opens(peek(&look)))
        return false;
    if (peek(&look) == '{')
        return true;
    look.i++;
    skip(&look, true);
    return opens(peek(&look));
}

/* One step: a heading, a bracket, or a pair. */
static bool read_item(struct rule_reader *r, struct rules *out)
{
    size_t at = r->i;
    char ch = peek(r);
    if (closes(ch) || ch == ',' || (ch == '-' && r->i + 1 < r->src->len && r->src->text[r->i + 1] == ' ')) {
        r->i++;
        return true;
    }
    if (opens(ch)) { /* of a list of pairs, or of one pair: ("embed", "fsdp") */
        struct rule_reader look = *r;
        look.i++;
        skip(&look, true);
        const char *key = opens(peek(&look)) ? NULL : read_rule_word(&look, false);
        skip(&look, false);
        if (ch == '{' || !key || peek(&look) != ',') {
            r->i++;
            return true;
        }
        r->i = look.i + 1;
        if (!add_pair(r, out, key, at))
            return false;
        skip(r, true);
        if (peek(r) == ',')
            r->i++;
        skip(r, true);
        if (!closes(peek(r)))
            return fail_rule(r, r->i, "the closing bracket of the pair expected");
        r->i++;
        return true;
    }
    const char *key = read_rule_word(r, true);
    if (!key)
        return fail_rule(r, at, "a rule expected: embed -> fsdp, or *wi*: [embed, mlp]");
    skip(r, false);
    ch = peek(r);
    bool arrow = ch == '-' && r->i + 1 < r->src->len && r->src->text[r->i + 1] == '>';
    if (ch != ':' && ch != '=' && !arrow)
        return fail_rule(r, r->i < r->src->len ? r->i : at, "'->' or ':' expected between a name and its axes");
    r->i += arrow ? 2 : 1;
    if (!arrow && at_heading(r)) {
        r->parameters = strstr(key, "param") || strstr(key, "glob");
        return true;
    }
    return add_pair(r, out, key, at);
}

static bool read_rules(struct call *c, const struct source *src, struct rules *out)
{
    struct rule_reader r = { .c = c, .src = src };
    for (skip(&r, true); r.i < src->len; skip(&r, true))
        if (!read_item(&r, out))
            return false;
    return true;
}

/* ---- matching --------------------------------------------------------------------------------------------- */

/* params['mlp']['wi'] and params.mlp.wi as params/mlp/wi. */
static const char *slashed(struct call *c, const char *name)
{
    struct str s = STR_IN(&c->arena);
    for (const char *p = name; *p; p++) {
        if (*p == '\'' || *p == '"' || *p == ']')
            continue;
        str_addc(&s, *p == '[' || *p == '.' ? '/' : *p);
    }
    return str_text(&s);
}

static bool glob_fits(const char *pattern, const char *name, const char *path)
{
    if (!strcmp(pattern, name) || glob_match(pattern, path) || glob_match(pattern, name))
        return true;
    size_t n = strlen(path), k = strlen(pattern);
    return !strpbrk(pattern, "*?[") && k > 0 && n > k && path[n - k - 1] == '/' && !strcmp(path + n - k, pattern);
}

/* What becomes of one parameter. */
struct fitting {
    struct call *c;
    const struct mesh *mesh;
    struct rules *r;
    const struct glob *g;
    int taken[DIMS_MAX];            /* rule that has the dimension + 1; -1: axes named directly; 0: nothing */
    struct words axes[DIMS_MAX];
    struct str notes;
};

static void note(struct fitting *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void note(struct fitting *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_adds(&f->notes, f->notes.n ? "; " : "");
    str_addv(&f->notes, fmt, ap);
    va_end(ap);
}

/* The dimension that uses a mesh axis already, or -1. */
static int dim_using(const struct fitting *f, const char *axis)
{
    for (int d = 0; d < f->g->ndims; d++)
        for (int k = 0; k < f->axes[d].n; k++)
            if (!strcmp(f->axes[d].v[k], axis))
                return d;
    return -1;
}

static bool in_mesh(const struct fitting *f, const char *axis)
{
    return mesh_find_axis(f->mesh, axis, strlen(axis)) >= 0;
}

/* Axes of the rule that the mesh has: the others are of other set-ups. */
static struct words present(const struct fitting *f, const struct words *all)
{
    struct words w = { 0 };
    for (int k = 0; k < all->n; k++)
        if (in_mesh(f, all->v[k]))
            w.v[w.n++] = all->v[k];
    return w;
}

static bool has_rule(const struct rules *r, const char *key)
{
    for (int64_t k = 0; k < r->rules.n; k++)
        if (!strcmp(r->rules.v[k].key, key))
            return true;
    return false;
}

/* Names that are mesh axes themselves, and names that are nothing. */
static void take_direct(struct fitting *f)
{
    for (int d = 0; d < f->g->ndims; d++)
        for (int k = 0; k < f->g->dims[d].n; k++) {
            const char *w = f->g->dims[d].v[k];
            if (has_rule(f->r, w))
                continue;
            int other = dim_using(f, w);
            if (!in_mesh(f, w))
                note(f, "%s is no rule and no mesh axis", w);
            else if (other >= 0)
                note(f, "%s clashes: it splits dimension %d already", w, other);
            else {
                f->axes[d].v[f->axes[d].n++] = w;
                f->taken[d] = -1;
            }
        }
}

static bool dimension_named(const struct words *w, const char *key)
{
    for (int k = 0; k < w->n; k++)
        if (!strcmp(w->v[k], key))
            return true;
    return false;
}

static void try_rule(struct fitting *f, int64_t index, int d)
{
    struct rule *x = &f->r->rules.v[index];
    if (f->taken[d] > 0 && !strcmp(f->r->rules.v[f->taken[d] - 1].key, x->key)) {
        x->shadowed++;
        return;
    }
    struct words axes = present(f, &x->axes);
    for (int k = 0; k < axes.n; k++) {
        int other = dim_using(f, axes.v[k]);
        if (other < 0)
            continue;
        x->clashed++;
        note(f, "%s -> %s clashes: it splits dimension %d already", x->key, axes.v[k], other);
        return;
    }
    for (int k = 0; k < axes.n && f->axes[d].n < AXES_A_RULE; k++)
        f->axes[d].v[f->axes[d].n++] = axes.v[k];
    f->taken[d] = (int)index + 1;
    x->used++;
}

static void fit(struct fitting *f)
{
    take_direct(f);
    for (int64_t k = 0; k < f->r->rules.n; k++)
        for (int d = 0; d < f->g->ndims; d++)
            if (dimension_named(&f->g->dims[d], f->r->rules.v[k].key))
                try_rule(f, k, d);
}

static const char *words_text(struct call *c, const struct words *w, const char *none)
{
    struct str s = STR_IN(&c->arena);
    for (int k = 0; k < w->n; k++)
        str_addf(&s, "%s%s", k ? "," : w->n > 1 ? "(" : "", w->v[k]);
    str_adds(&s, w->n > 1 ? ")" : w->n ? "" : none);
    return str_text(&s);
}

static const char *list_text(struct call *c, const struct words *list, int n)
{
    struct str s = STR_IN(&c->arena);
    str_addc(&s, '[');
    for (int d = 0; d < n; d++)
        str_addf(&s, "%s%s", d ? "," : "", words_text(c, &list[d], "_"));
    str_addc(&s, ']');
    return str_text(&s);
}

/* Axes quoted, so that any name of one can be read. */
static const char *spec_text(struct fitting *f)
{
    struct str s = STR_IN(&f->c->arena);
    str_addc(&s, '[');
    for (int d = 0; d < f->g->ndims; d++) {
        str_adds(&s, d ? "," : "");
        for (int k = 0; k < f->axes[d].n; k++)
            str_addf(&s, "%s%s", k ? "*" : "", f->axes[d].v[k]);
        str_adds(&s, f->axes[d].n ? "" : "_");
    }
    str_addc(&s, ']');
    return str_text(&s);
}

static void note_uneven(struct fitting *f, const struct shape *v)
{
    for (int d = 0; d < f->g->ndims && d < v->rank; d++) {
        int64_t n = 1;
        for (int k = 0; k < f->axes[d].n; k++)
            n *= f->mesh->axes[mesh_find_axis(f->mesh, f->axes[d].v[k], strlen(f->axes[d].v[k]))].size;
        if (n > 1 && v->dims[d] % n)
            note(f, "dimension %d: %" PRId64 " is not divisible by %" PRId64, d, v->dims[d], n);
    }
}

/* ---- the report ------------------------------------------------------------------------------------------- */

struct outcome {
    const char *name, *glob, *logical, *spec, *notes;
};

static void report_row(struct call *c, struct table *t, const struct outcome *x)
{
    if (c->json) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "name", x->name);
        json_put_string(&c->js, "glob", x->glob);
        json_put_string(&c->js, "axes", x->logical);
        json_put_string(&c->js, "sharding", x->spec);
        json_put_string(&c->js, "notes", x->notes);
        json_close(&c->js, '}');
        return;
    }
    const char **row = table_row(t);
    row[0] = x->name;
    row[1] = x->glob ? x->glob : "-";
    row[2] = x->logical ? x->logical : "";
    row[3] = x->spec ? x->spec : "";
    row[4] = x->notes ? x->notes : "";
}

/* A rule or a glob that decided nothing, and why. */
static const char *idle_words(struct call *c, int64_t shadowed, int64_t clashed, const char *else_words)
{
    if (shadowed)
        return arena_printf(&c->arena, "shadowed by an earlier one, %s", counted(&c->arena, shadowed, "time"));
    if (clashed)
        return arena_printf(&c->arena, "clashed, %s", counted(&c->arena, clashed, "time"));
    return else_words;
}

static void report_rules(struct call *c, const struct rules *r)
{
    static const char *const heads[] = { "rule", "axes", ">line", ">used", ">shadowed", ">clashed", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    if (c->json)
        json_put_open(&c->js, "rules", '[');
    for (int64_t k = 0; k < r->rules.n + r->globs.n; k++) {
        bool glob = k >= r->rules.n;
        const struct glob *g = glob ? &r->globs.v[k - r->rules.n] : NULL;
        struct rule x = glob ? (struct rule){ .key = g->pattern, .line = g->line, .used = g->used, .shadowed = g->shadowed }
                             : r->rules.v[k];
        const char *axes = glob ? list_text(c, g->dims, g->ndims) : words_text(c, &x.axes, "_");
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, glob ? "glob" : "rule", x.key);
            json_put_string(&c->js, "axes", axes);
            json_put_int(&c->js, "line", x.line);
            json_put_int(&c->js, "used", x.used);
            json_put_int(&c->js, "shadowed", x.shadowed);
            json_put_int(&c->js, "clashed", x.clashed);
            json_close(&c->js, '}');
            continue;
        }
        const char **row = table_row(&t);
        row[0] = x.key;
        row[1] = axes;
        row[2] = arena_printf(&c->arena, "%d", x.line);
        row[3] = with_commas(&c->arena, x.used);
        row[4] = x.shadowed ? with_commas(&c->arena, x.shadowed) : "";
        row[5] = x.clashed ? with_commas(&c->arena, x.clashed) : "";
        row[6] = x.used ? "" : idle_words(c, x.shadowed, x.clashed, glob ? "matches no argument" : "no argument has this axis");
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
}

/* The first glob that fits; the others that fit are shadowed. */
static struct glob *glob_of(struct call *c, struct rules *r, const char *name, const char **shadowed)
{
    const char *path = slashed(c, name);
    struct glob *first = NULL;
    for (int64_t k = 0; k < r->globs.n; k++) {
        struct glob *g = &r->globs.v[k];
        if (!glob_fits(g->pattern, name, path))
            continue;
        if (!first) {
            first = g;
            g->used++;
            continue;
        }
        g->shadowed++;
        if (!*shadowed)
            *shadowed = g->pattern;
    }
    return first;
}

/* One parameter by the rules; its entry, when it gets one, goes to f. */
static void rule_parameter(struct call *c, struct rules *r, instr_id i, struct file_strategy *file, struct table *t)
{
    const struct module *m = document_module(c->sh->doc);
    const char *arg = instr_arg_name(m, i), *name = arg[0] ? arg : name_text(m->ir, instr_at(m, i)->name);
    const char *shadowed = NULL;
    struct outcome x = { .name = tensor_name(c, i) };
    const struct glob *g = glob_of(c, r, name, &shadowed);
    if (!g) {
        x.notes = "no glob matches";
        report_row(c, t, &x);
        return;
    }
    struct fitting f = { .c = c, .mesh = document_mesh(c->sh->doc), .r = r, .g = g, .notes = STR_IN(&c->arena) };
    const struct shape *v = shape_get(m->ir, instr_at(m, i)->shape);
    x.glob = g->pattern;
    x.logical = list_text(c, g->dims, g->ndims);
    if (v->kind != SHAPE_ARRAY || v->rank != g->ndims) {
        note(&f, "%s named, the array is %s", counted(&c->arena, g->ndims, "dimension"), shape_text(c, instr_at(m, i)->shape));
    } else {
        fit(&f);
        note_uneven(&f, v);
        x.spec = spec_text(&f);
        struct file_entry e = { .name = name, .text = x.spec, .leaf = -1 };
        vec_push(&c->arena, &file->entries, e);
    }
    if (shadowed)
        note(&f, "shadows %s", shadowed);
    x.notes = str_text(&f.notes);
    report_row(c, t, &x);
}

int load_rules(struct call *c, const char *path)
{
    struct source *src;
    struct rules r = { .rules = { 0 } };
    struct file_strategy file = { .nmeshes = 0 };
    if (!document_mesh(c->sh->doc)) {
        call_usage(c, 1, "rules name mesh axes, and no mesh is named");
        diag_hint(c->d, "mesh data=2 model=4");
        return STATUS_USAGE;
    }
    diag_stage(c->d, "parse");
    if (!strategy_source(c, path, &src))
        return call_failed(c);
    if (!read_rules(c, src, &r)) {
        source_free(src);
        return call_failed(c);
    }
    source_free(src);
    if (r.globs.n == 0) {
        call_error(c, STATUS_INPUT, "parse", "%s: no glob says which axes the arguments have", path);
        diag_hint(c->d, "a line for each kind of parameter: *mlp/wi*: [embed, mlp]");
        return STATUS_INPUT;
    }
    static const char *const heads[] = { "argument", "glob", "axes", "sharding", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    if (c->json)
        json_put_open(&c->js, "arguments", '[');
    for (uint32_t k = 0; k < entry->nparams; k++)
        rule_parameter(c, &r, entry->params[k], &file, &t);
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
    report_rules(c, &r);
    return strategy_apply(c, path, &file);
}
