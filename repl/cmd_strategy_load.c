/* load strategy: a file's annotations onto the module at hand, by argument name, with a report of what
 * did not match: prefill and decode share weights, not their activations. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "repl/strategy_file.h"

/* ---- reading: JSON ------------------------------------------------------------------------------------- */

static void add_entry(struct call *c, struct file_strategy *f, struct file_entry e)
{
    vec_push(&c->arena, &f->entries, e);
}

static const char *json_word(struct call *c, const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) ? arena_strdup(&c->arena, v->valuestring) : NULL;
}

/* ["data", null, ["a","b"]], as PartitionSpecs are kept in JSON. */
static const char *json_spec(struct call *c, const cJSON *v)
{
    struct str s = STR_IN(&c->arena);
    if (cJSON_IsString(v))
        return arena_strdup(&c->arena, v->valuestring);
    if (!cJSON_IsArray(v))
        return NULL;
    const cJSON *e, *axis;
    int n = 0;
    str_adds(&s, "P(");
    cJSON_ArrayForEach(e, v)
    {
        str_adds(&s, n++ ? ", " : "");
        if (cJSON_IsString(e))
            str_addf(&s, "'%s'", e->valuestring);
        else if (!cJSON_IsArray(e))
            str_adds(&s, "None");
        else {
            str_addc(&s, '(');
            cJSON_ArrayForEach(axis, e) if (cJSON_IsString(axis)) str_addf(&s, "'%s', ", axis->valuestring);
            str_addc(&s, ')');
        }
    }
    str_addc(&s, ')');
    return str_text(&s);
}

static bool json_read_meshes(struct call *c, const cJSON *list, struct file_strategy *f)
{
    const cJSON *e;
    f->meshes = ARENA_ARRAY(&c->arena, struct mesh, cJSON_GetArraySize(list) + 1);
    cJSON_ArrayForEach(e, list)
    {
        const char *words = json_word(c, e, "mesh"), *name = json_word(c, e, "name");
        struct mesh *m = &f->meshes[f->nmeshes];
        if (!words)
            continue;
        struct source src = { "<strategy>", words, strlen(words) };
        if (!mesh_parse(document_ir(c->sh->doc)->shardings, &c->arena, &src, 0, words, src.len, m, c->d))
            return false;
        m->name = name ? name : "";
        f->nmeshes++;
    }
    return true;
}

static void json_read_entry(struct call *c, const cJSON *e, struct file_strategy *f)
{
    const char *kind = json_word(c, e, "kind"), *name = json_word(c, e, "name");
    const cJSON *leaf = cJSON_GetObjectItemCaseSensitive(e, "leaf");
    struct file_entry x = { .name = name, .text = json_word(c, e, "sharding"), .leaf = -1,
                            .shape = json_word(c, e, "shape") };
    if (kind && !strcmp(kind, "constrain"))
        x.kind = ANNOTATE_CONSTRAIN;
    if (kind && !strcmp(kind, "unshard"))
        x.kind = ANNOTATE_UNSHARD;
    if (cJSON_IsNumber(leaf) && leaf->valuedouble >= 0 && leaf->valuedouble < 1e9)
        x.leaf = (int64_t)leaf->valuedouble;
    if (name && (x.text || x.kind == ANNOTATE_UNSHARD))
        add_entry(c, f, x);
}

/* {"w1": "P(None, 'model')", "w2": ["model", null], "w3": {"partition_spec": [..]}} */
static void json_read_map(struct call *c, const cJSON *o, struct file_strategy *f)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, o)
    {
        const cJSON *v = e;
        if (cJSON_IsObject(e)) {
            v = cJSON_GetObjectItemCaseSensitive(e, "partition_spec");
            v = v ? v : cJSON_GetObjectItemCaseSensitive(e, "sharding");
        }
        const char *text = v ? json_spec(c, v) : NULL;
        if (text && e->string)
            add_entry(c, f, (struct file_entry){ .name = arena_strdup(&c->arena, e->string), .text = text, .leaf = -1 });
    }
}

static bool read_json(struct call *c, const struct source *src, struct file_strategy *f)
{
    const char *end = NULL;
    cJSON *o = cJSON_ParseWithOpts(src->text, &end, 0);
    if (!o) {
        uint32_t at = end ? (uint32_t)(end - src->text) : 0;
        diag_stage(c->d, "parse");
        return diag_error(c->d, src, (struct span){ at, 1 }, "this is no JSON from here on");
    }
    const char *kind = json_word(c, o, "gspmd");
    bool ok = true;
    if (kind && !strcmp(kind, "strategy")) {
        const cJSON *list, *e;
        list = cJSON_GetObjectItemCaseSensitive(o, "meshes");
        ok = !cJSON_IsArray(list) || json_read_meshes(c, list, f);
        list = cJSON_GetObjectItemCaseSensitive(o, "arguments");
        cJSON_ArrayForEach(e, list) json_read_entry(c, e, f);
        list = cJSON_GetObjectItemCaseSensitive(o, "annotations");
        cJSON_ArrayForEach(e, list) json_read_entry(c, e, f);
    } else {
        json_read_map(c, o, f);
    }
    cJSON_Delete(o);
    return ok;
}

/* ---- reading: Python ------------------------------------------------------------------------------------ */

/* (2, 4), ('data', 'model') -> the words of `mesh`. */
static bool python_read_mesh(struct call *c, const char *p, const char *end, struct file_strategy *f)
{
    struct str words = STR_IN(&c->arena);
    int64_t sizes[MESH_MAX_AXES];
    int n = 0;
    const char *at = memchr(p, '(', (size_t)(end - p));
    while (at && at < end && *at != ')' && n < MESH_MAX_AXES) {
        size_t used = parse_i64(at, (size_t)(end - at), &sizes[n]);
        n += used > 0;
        at += used ? used : 1;
    }
    for (int k = 0; k < n && at; k++) {
        while (at < end && *at != '\'' && *at != '"' && *at != '\n')
            at++;
        const char *name = at + 1, *close = name < end ? memchr(name, *at, (size_t)(end - name)) : NULL;
        if (at >= end || *at == '\n' || !close)
            return true; /* not the form that we write: shardings may still be read in a mesh that is named */
        str_addf(&words, "%s%.*s=%" PRId64, k ? " " : "", (int)(close - name), name, sizes[k]);
        at = close + 1;
    }
    if (n == 0 || !at)
        return true;
    f->meshes = ARENA_NEW(&c->arena, struct mesh);
    f->meshes[0].name = "";
    if (!mesh_parse(document_ir(c->sh->doc)->shardings, &c->arena, NULL, 0, str_text(&words), words.n, f->meshes,
                    c->d))
        return false;
    f->nmeshes = 1;
    return true;
}

/* "name": SPEC, at the beginning of a line; false: this line is none. */
static bool python_entry(struct call *c, const char *p, const char *end, struct file_strategy *f)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p >= end || (*p != '"' && *p != '\''))
        return false;
    char quote = *p++;
    struct str name = STR_IN(&c->arena);
    for (; p < end && *p != quote; p++) {
        p += *p == '\\' && p + 1 < end;
        str_addc(&name, *p);
    }
    const char *colon = p < end ? p + 1 : end;
    while (colon < end && *colon == ' ')
        colon++;
    if (colon >= end || *colon != ':')
        return false;
    const char *spec = colon + 1, *close = spec;
    int depth = 0;
    for (; close < end; close++) {
        depth += *close == '(' || *close == '[' || *close == '{';
        depth -= *close == ')' || *close == ']' || *close == '}';
        if (depth < 0 || (depth == 0 && (*close == ',' || *close == '#')))
            break;
    }
    while (spec < close && *spec == ' ')
        spec++;
    if (spec == close)
        return false;
    add_entry(c, f, (struct file_entry){ .name = str_text(&name), .leaf = -1,
                                         .text = arena_strndup(&c->arena, spec, (size_t)(close - spec)) });
    return true;
}

static bool read_python(struct call *c, const struct source *src, struct file_strategy *f)
{
    const char *end = src->text + src->len;
    enum annotation_kind kind = ANNOTATE_SHARD;
    for (const char *p = src->text; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end, *make = memmem(p, (size_t)(stop - p), "make_mesh", 9);
        if (make && *p != '#' && f->nmeshes == 0 && !python_read_mesh(c, make, stop, f))
            return false;
        if (stop - p > 11 && !memcmp(p, "CONSTRAINTS", 11))
            kind = ANNOTATE_CONSTRAIN;
        int64_t before = f->entries.n;
        if (python_entry(c, p, stop, f) && f->entries.n > before)
            f->entries.v[before].kind = kind;
        p = nl ? nl + 1 : end;
    }
    return true;
}

/* ---- reading: a module ------------------------------------------------------------------------------------ */

/* Its entry parameters that have a sharding, in HLO's words: axes have no name there. */
static bool read_module(struct call *c, const struct source *src, struct file_strategy *f)
{
    struct document *other = document_new();
    if (!document_load_text(other, src->name, src->text, src->len, call_tick(c), c->d)) {
        document_free(other);
        return false;
    }
    const struct module *m = document_module(other);
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const struct instr *i = instr_at(m, entry->params[k]);
        if (!i->sharding.i)
            continue;
        const char *arg = instr_arg_name(m, entry->params[k]);
        struct str text = STR_IN(&c->arena);
        sharding_print(document_ir(other)->shardings, i->sharding, NULL, false, &text);
        add_entry(c, f, (struct file_entry){ .name = arena_strdup(&c->arena, arg[0] ? arg : name_text(m->ir, i->name)),
                                             .text = str_text(&text), .leaf = -1 });
    }
    document_free(other);
    return true;
}

static bool is_json(const struct source *src)
{
    size_t k = 0;
    while (k < src->len && strchr(" \t\r\n", src->text[k]))
        k++;
    return k < src->len && src->text[k] == '{';
}

bool strategy_source(struct call *c, const char *path, struct source **src)
{
    if (!c->heredoc) {
        if (!c->sh->sealed)
            return file_read(path, src, c->d);
        call_error(c, STATUS_INPUT, "io", "no file is opened here");
        return false;
    }
    struct source *s = malloc(sizeof *s);
    char *name = strdup("<stdin>"), *text = malloc(c->heredoc_len + 1);
    if (!s || !name || !text) {
        free(s);
        free(name);
        free(text);
        call_error(c, STATUS_RESOURCE, "memory", "no memory for the text");
        return false;
    }
    memcpy(text, c->heredoc, c->heredoc_len);
    text[c->heredoc_len] = '\0';
    *s = (struct source){ name, text, c->heredoc_len };
    *src = s;
    return true;
}

/* Reads what export strategy writes, a map of names to shardings in JSON or Python, or the annotated
 * parameters of a module (HLO, StableHLO). Shardings stay texts. */
static bool strategy_read(struct call *c, const char *path, struct file_strategy *f)
{
    struct source *src;
    if (!strategy_source(c, path, &src))
        return false;
    bool python = memmem(src->text, src->len, "PartitionSpec", 13) || memmem(src->text, src->len, "SPECS", 5);
    bool json = is_json(src), model = json && memmem(src->text, src->len, "\"ops\"", 5) != NULL;
    bool ok;
    if (json && !model)
        ok = read_json(c, src, f);
    else if (python && !memmem(src->text, src->len, "HloModule", 9) && !memmem(src->text, src->len, "func.func", 9))
        ok = read_python(c, src, f);
    else
        ok = read_module(c, src, f);
    source_free(src);
    return ok;
}

/* ---- names ------------------------------------------------------------------------------------------------ */

instr_id argument_by_name(struct call *c, const char *name)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    instr_id found = { 0 };
    int several = 0;
    size_t n = strlen(name);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const char *arg = instr_arg_name(m, entry->params[k]);
        const char *own = name_text(m->ir, instr_at(m, entry->params[k])->name);
        if (!strcmp(arg, name) || (!arg[0] && !strcmp(own, name)))
            return entry->params[k];
        size_t len = strlen(arg);
        /* state.params['w'] for params['w'] */
        if (n > 0 && len > n && !strcmp(arg + len - n, name) && strchr(".[/ ", arg[len - n - 1] )) {
            found = entry->params[k];
            several++;
        }
    }
    return several == 1 ? found : (instr_id){ 0 };
}

static const char *nearest_argument(struct call *c, const char *name)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    const char *best = NULL;
    int least = 4;
    for (uint32_t k = 0; k < entry->nparams && k < 4096; k++) {
        const char *arg = instr_arg_name(m, entry->params[k]);
        size_t a = strlen(arg), b = strlen(name);
        if (!arg[0] || a > b + 3 || b > a + 3)
            continue;
        int far = edit_distance(arg, name, least - 1);
        if (far < least) {
            least = far;
            best = arg;
        }
    }
    return best;
}

/* ---- putting it on the module ------------------------------------------------------------------------------- */

struct applying {
    struct call *c;
    const struct mesh *meshes;
    int nmeshes;
    VEC(struct annotation) list;
    VEC(const char *) specs;
    VEC(const char *) lost, reasons;
};

static void lose(struct applying *a, const char *name, const char *why)
{
    struct str safe = STR_IN(&a->c->arena);
    str_add_safe(&safe, name, strlen(name));
    vec_push(&a->c->arena, &a->lost, str_text(&safe));
    vec_push(&a->c->arena, &a->reasons, why);
}

static const char *first_message(struct call *c, const struct diag *d)
{
    return d->msgs.n ? arena_strdup(&c->arena, d->msgs.v[0].text) : "it cannot be read";
}

static bool read_entry_spec(struct applying *a, const struct file_entry *e, const struct shape *v,
                            struct annotation *out, struct diag *d)
{
    struct shardings *t = document_ir(a->c->sh->doc)->shardings;
    struct source src = { "<strategy>", e->text, strlen(e->text) };
    struct axes_spec spec = { 0 };
    size_t used = 0;
    int rank = v->kind == SHAPE_ARRAY ? v->rank : -1;
    int64_t n = a->nmeshes ? mesh_devices(&a->meshes[0]) : document_devices(a->c->sh->doc);
    if (!sharding_spec_parse(t, a->meshes, a->nmeshes, rank, &src, 0, src.text, src.len, &used, &out->sharding, &spec,
                             d) ||
        (rank >= 0 && !sharding_fits(t, out->sharding, rank, v->dims, n, &src, (struct span){ 0, 1 }, d)))
        return false;
    out->open = spec.open;
    return true;
}

static void apply_entry(struct applying *a, const struct file_entry *e)
{
    struct call *c = a->c;
    struct document *doc = c->sh->doc;
    struct annotation x = { .kind = e->kind, .leaf = e->leaf, .target = argument_by_name(c, e->name) };
    int64_t leaf;
    if (!x.target.i && !select_tensor(doc, e->name, strlen(e->name), NULL, 0, &x.target, &leaf, NULL)) {
        const char *near = nearest_argument(c, e->name);
        lose(a, e->name, near ? arena_printf(&c->arena, "nothing here has that name; nearest: %s", near)
                              : "nothing here has that name");
        return;
    }
    const struct module *m = document_module(doc);
    shape_id shape = instr_at(m, x.target)->shape;
    int64_t leaves = max_i64(shape_get(m->ir, shape)->nleaves, 1);
    if (x.leaf >= leaves) {
        lose(a, e->name, arena_printf(&c->arena, "it has no leaf %" PRId64 " here", x.leaf));
        return;
    }
    if (x.leaf >= 0)
        shape = shape_leaf(m->ir, shape, x.leaf);
    struct diag *d = diag_new();
    bool ok = x.kind == ANNOTATE_UNSHARD || read_entry_spec(a, e, shape_get(m->ir, shape), &x, d);
    if (!ok) {
        const char *was = e->shape && strcmp(e->shape, shape_text(c, shape)) ? e->shape : NULL;
        lose(a, e->name, arena_printf(&c->arena, "%s (here it is %s%s%s)", first_message(c, d), shape_text(c, shape),
                                      was ? ", in the file " : "", was ? was : ""));
    } else {
        if (x.open && x.kind == ANNOTATE_SHARD)
            x.kind = ANNOTATE_CONSTRAIN;
        vec_push(&c->arena, &a->list, x);
        vec_push(&c->arena, &a->specs, e->text);
    }
    diag_free(d);
}

/* Arguments that the file says nothing of. */
static const char *not_in_file(struct call *c, const struct applying *a, int64_t *n)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct map in;
    struct str s = STR_IN(&c->arena);
    map_init(&in, &c->arena);
    for (int64_t k = 0; k < a->list.n; k++)
        map_put(&in, a->list.v[k].target.i, 1);
    *n = 0;
    for (uint32_t k = 0; k < entry->nparams; k++) {
        uint64_t v;
        if (map_get(&in, entry->params[k].i, &v))
            continue;
        if ((*n)++ < 8)
            str_addf(&s, "%s%s", *n > 1 ? ", " : "", tensor_name(c, entry->params[k]));
    }
    str_adds(&s, *n > 8 ? ", ..." : "");
    return str_text(&s);
}

static void report(struct call *c, const char *what, const struct applying *a, int64_t entries)
{
    int64_t left;
    const char *names = not_in_file(c, a, &left);
    if (c->json) {
        json_put_int(&c->js, "entries", entries);
        json_put_int(&c->js, "matched", a->list.n);
        json_put_open(&c->js, "unmatched", '[');
        for (int64_t k = 0; k < a->lost.n; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", a->lost.v[k]);
            json_put_string(&c->js, "reason", a->reasons.v[k]);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        json_put_int(&c->js, "arguments_not_in_file", left);
        return;
    }
    out(c, "%s: %" PRId64 " of %s matched\n", what, a->list.n,
        counted(&c->arena, entries, "annotation"));
    int64_t shown = call_rows(c, a->lost.n);
    for (int64_t k = 0; k < shown; k++)
        out(c, "  not matched: %s: %s\n", a->lost.v[k], a->reasons.v[k]);
    call_more(c, shown, a->lost.n, "not matched");
    if (left > 0)
        out(c, "  %s of this module not in the file: %s\n", counted(&c->arena, left, "argument"), names);
}

static bool same_axes(const struct mesh *a, const struct mesh *b)
{
    bool same = a->naxes == b->naxes && a->order.i == b->order.i;
    for (int k = 0; same && k < a->naxes; k++)
        same = a->axes[k].size == b->axes[k].size && !strcmp(a->axes[k].name, b->axes[k].name);
    return same;
}

int strategy_apply(struct call *c, const char *what, const struct file_strategy *f)
{
    struct document *doc = c->sh->doc;
    const struct strategy *s = document_strategy(doc);
    const struct mesh *named = document_mesh(doc);
    struct applying a = { .c = c, .meshes = s->meshes, .nmeshes = named || s->nmeshes > 1 ? s->nmeshes : 0 };
    bool use_file = !named && f->nmeshes > 0;
    if (use_file) {
        a.meshes = f->meshes;
        a.nmeshes = f->nmeshes;
    } else if (named && f->nmeshes > 0 && !same_axes(named, &f->meshes[0])) {
        diag_warn(c->d, NULL, (struct span){ 0, 0 }, "the file's mesh %s is not used: mesh %s is named here",
                  mesh_words(c, &f->meshes[0]), mesh_words(c, named));
    }
    for (int64_t k = 0; k < f->entries.n; k++)
        apply_entry(&a, &f->entries.v[k]);
    if (a.list.n == 0) {
        call_error(c, STATUS_INPUT, "name", "%s: %s", what,
                   f->entries.n ? "none of its annotations matches this module" : "there is no annotation in it");
        if (a.lost.n)
            diag_hint(c->d, "%s: %s", a.lost.v[0], a.reasons.v[0]);
        return STATUS_INPUT;
    }
    struct edit_batch b = { .nmeshes = use_file ? f->nmeshes : 0, .meshes = f->meshes, .n = (int)a.list.n,
                            .list = a.list.v, .specs = a.specs.v };
    const struct strategy *before = change_begin(c);
    diag_stage(c->d, "shard");
    if (!edit_batch(doc, &b, c->line, c->d))
        return call_failed(c);
    if (!c->sh->quiet || c->json)
        report(c, what, &a, f->entries.n);
    return change_finish(c, before);
}

int load_strategy(struct call *c, const char *path)
{
    struct file_strategy f = { .nmeshes = 0 };
    diag_stage(c->d, "parse");
    return strategy_read(c, path, &f) ? strategy_apply(c, path, &f) : call_failed(c);
}
