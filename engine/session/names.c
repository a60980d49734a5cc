/* Names and selections, language.md section 2. */
#include "session/internal.h"

#include <string.h>

void names_drop(struct document *doc)
{
    arena_free(&doc->names.arena);
    memset(&doc->names, 0, sizeof doc->names);
}

static void names_make(struct document *doc)
{
    struct name_index *x = &doc->names;
    if (x->made)
        return;
    const struct module *m = doc->module;
    uint32_t n = module_ninstrs(m);
    x->nnames = doc->ir->names.entries.n;
    x->first = ARENA_ARRAY(&x->arena, uint32_t, (int64_t)x->nnames + 1);
    x->next = ARENA_ARRAY(&x->arena, uint32_t, (int64_t)n + 1);
    for (uint32_t k = n; k > 0; k--) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        uint32_t head = x->first[i->name.i];
        bool behind = head && instr_at(m, (instr_id){ head })->comp.i == m->entry.i &&
                      i->comp.i != m->entry.i;
        if (behind) {
            x->next[k] = x->next[head];
            x->next[head] = k;
        } else {
            x->next[k] = head;
            x->first[i->name.i] = k;
        }
    }
    x->made = true;
}

void instr_label(const struct module *m, instr_id i, bool brief, struct str *out)
{
    const struct instr *in = instr_at(m, i);
    if (!brief || in->comp.i != m->entry.i) {
        name_id c = comp_at(m, in->comp)->name;
        str_add_safe(out, name_text(m->ir, c), name_len(m->ir, c));
        str_addc(out, '/');
    }
    if (brief && !in->name.i) /* the reader made it: nothing in the text names it */
        str_addf(out, "(%s)", op_name((enum op_kind)in->op));
    else
        str_add_safe(out, name_text(m->ir, in->name), name_len(m->ir, in->name));
}

/* ---- one selection being read ---------------------------------------------------------------------- */

struct selection {
    struct document *doc;
    const struct module *m;
    const struct source *src;
    uint32_t off; /* of the selection in src */
    const char *text;
    struct arena *arena;
    uint8_t *in; /* [ninstrs + 1] */
    int64_t count;
    struct users users;
    bool has_users;
    struct diag *d;
};

static void take(struct selection *s, instr_id i)
{
    s->count += !s->in[i.i];
    s->in[i.i] = 1;
}

static bool name_error(struct selection *s, const char *p, size_t n, const char *what)
{
    struct span at = { s->off + (uint32_t)(p - s->text), (uint32_t)n };
    return diag_error(s->d, s->src, at, "%s '%.*s'", what, (int)n, p);
}

static bool has_glob(const char *p, size_t n)
{
    return memchr(p, '*', n) || memchr(p, '?', n);
}

/* Best of the names and argument names within two edits. */
static void suggest(struct selection *s, const char *p, size_t n)
{
    const struct module *m = s->m;
    const char *best = NULL, *wanted = arena_strndup(s->arena, p, n);
    int least = n < 4 ? 2 : 3; /* short names are all alike */
    for (uint32_t k = 1; k <= module_ninstrs(m) && least > 1; k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        const char *names[2] = { name_text(m->ir, i->name), "" };
        if (i->op == OP_PARAMETER && i->comp.i == m->entry.i)
            names[1] = instr_arg_name(m, (instr_id){ k });
        for (int v = 0; v < 2; v++) {
            size_t len = strlen(names[v]);
            if (len == 0 || len + 2 < n || len > n + 2)
                continue;
            int far = edit_distance(wanted, names[v], 2);
            if (far < least && (size_t)far < n) {
                least = far;
                best = names[v];
            }
        }
    }
    if (best) {
        diag_hint(s->d, "did you mean '%s'?", best);
        return;
    }
    struct str list = STR_IN(s->arena);
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams && list.n < 70; k++) {
        const char *arg = instr_arg_name(m, entry->params[k]);
        str_addf(&list, "%s%s", k ? ", " : "",
                 arg[0] ? arg : name_text(m->ir, instr_at(m, entry->params[k])->name));
    }
    if (list.n)
        diag_hint(s->d, "parameters: %s ...; `list` shows more", str_text(&list));
}

static bool several(struct selection *s, const char *p, size_t n, int64_t count,
                    const instr_id *some, int nsome)
{
    struct str list = STR_IN(s->arena);
    for (int k = 0; k < nsome; k++) {
        str_adds(&list, k ? ", " : "");
        instr_label(s->m, some[k], false, &list);
    }
    name_error(s, p, n, "several instructions are named");
    diag_hint(s->d, "%s%s", str_text(&list), count > nsome ? ", ..." : "");
    return false;
}

/* Whether the op_name ends with the words, at a border of its scopes. */
static bool ends_with_scope(const char *op_name, const char *p, size_t n)
{
    size_t len = strlen(op_name);
    if (len < n || memcmp(op_name + len - n, p, n) != 0)
        return false;
    return len == n || op_name[len - n - 1] == '/' || p[0] == '/';
}

static comp_id find_comp(const struct module *m, const char *p, size_t n)
{
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        name_id name = comp_at(m, (comp_id){ c })->name;
        if (name_len(m->ir, name) == n && !memcmp(name_text(m->ir, name), p, n))
            return (comp_id){ c };
    }
    return (comp_id){ 0 };
}

/* By the name as the text has it, where reading made another of it (names_make_unique). */
static instr_id find_written(const struct selection *s, comp_id c, const char *p, size_t n)
{
    const struct computation *comp = comp_at(s->m, c);
    const struct source *src = s->m->source;
    for (uint32_t k = 0; src && n > 0 && k < comp->ninstrs; k++) {
        struct span at = instr_at(s->m, comp->instrs[k])->at;
        if (at.len == n && at.off + n <= src->len && !memcmp(src->text + at.off, p, n))
            return comp->instrs[k];
    }
    return (instr_id){ 0 };
}

static instr_id find_in(struct selection *s, comp_id c, const char *p, size_t n)
{
    uint32_t name = intern_find(&s->doc->ir->names, p, n);
    if (name && name < s->doc->names.nnames)
        for (uint32_t k = s->doc->names.first[name]; k; k = s->doc->names.next[k])
            if (instr_at(s->m, (instr_id){ k })->comp.i == c.i)
                return (instr_id){ k };
    return c.i == s->m->entry.i ? (instr_id){ 0 } : find_written(s, c, p, n);
}

/* NAME outside a computation's own words: entry, argument, elsewhere, suffix of an op_name. */
static bool find_name(struct selection *s, const char *p, size_t n, instr_id *out)
{
    const struct module *m = s->m;
    if ((*out = find_in(s, m->entry, p, n)).i)
        return true;
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const char *arg = instr_arg_name(m, entry->params[k]);
        if (strlen(arg) == n && n > 0 && !memcmp(arg, p, n)) {
            *out = entry->params[k];
            return true;
        }
    }
    instr_id some[8];
    int64_t count = 0;
    uint32_t name = intern_find(&s->doc->ir->names, p, n);
    if (name && name < s->doc->names.nnames)
        for (uint32_t k = s->doc->names.first[name]; k; k = s->doc->names.next[k], count++)
            if (count < 8)
                some[count] = (instr_id){ k };
    if (count == 0)
        for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
            const struct instr *i = instr_at(m, (instr_id){ k });
            if (!i->metadata || !ends_with_scope(instr_op_name(m, (instr_id){ k }), p, n))
                continue;
            if (count++ < 8)
                some[count - 1] = (instr_id){ k };
        }
    if (count > 1)
        return several(s, p, n, count, some, (int)min_i64(count, 8));
    if (count == 1) {
        *out = some[0];
        return true;
    }
    name_error(s, p, n, "no tensor is named");
    suggest(s, p, n);
    return false;
}

static bool read_name(struct selection *s, const char *p, size_t n, instr_id *out)
{
    if (n >= 2 && (p[0] == '\'' || p[0] == '"') && p[n - 1] == p[0]) {
        p++;
        n -= 2;
    }
    if (n > 0 && p[0] == '%') {
        p++;
        n--;
    }
    if (n == 0)
        return name_error(s, p, 1, "a tensor's name is missing at");
    const char *slash = memchr(p, '/', n);
    comp_id c = { 0 };
    if (slash && !find_in(s, s->m->entry, p, n).i)
        c = find_comp(s->m, p, (size_t)(slash - p));
    if (!c.i)
        return find_name(s, p, n, out);
    const char *rest = slash + 1;
    size_t left = n - (size_t)(rest - p);
    if (left > 0 && rest[0] == '%') {
        rest++;
        left--;
    }
    *out = find_in(s, c, rest, left);
    if (out->i)
        return true;
    name_error(s, rest, left ? left : 1, "this computation has no instruction");
    suggest(s, rest, left);
    return false;
}

static bool take_glob(struct selection *s, const char *p, size_t n)
{
    const struct module *m = s->m;
    const char *pattern = arena_strndup(s->arena, p, n);
    bool slash = memchr(p, '/', n) != NULL;
    int64_t before = s->count;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        const char *name = name_text(m->ir, i->name);
        bool match = glob_match(pattern, name);
        if (!match && i->op == OP_PARAMETER && i->comp.i == m->entry.i)
            match = glob_match(pattern, instr_arg_name(m, (instr_id){ k }));
        if (!match && slash) {
            struct str full = STR_IN(s->arena);
            str_addf(&full, "%s/%s", name_text(m->ir, comp_at(m, i->comp)->name), name);
            match = glob_match(pattern, str_text(&full));
        }
        if (match)
            take(s, (instr_id){ k });
    }
    return s->count > before || name_error(s, p, n, "nothing matches");
}

static bool take_op(struct selection *s, const char *p, size_t n)
{
    const char *pattern = arena_strndup(s->arena, p, n);
    int64_t before = s->count;
    bool known[OP_COUNT] = { false };
    bool any = false;
    for (int op = 1; op < OP_COUNT; op++)
        any |= known[op] = glob_match(pattern, op_name((enum op_kind)op));
    if (!any) {
        name_error(s, p, n, "no opcode is named");
        const char *near = op_nearest(p, n);
        if (near)
            diag_hint(s->d, "did you mean '%s'?", near);
        return false;
    }
    for (uint32_t k = 1; k <= module_ninstrs(s->m); k++)
        if (known[instr_at(s->m, (instr_id){ k })->op])
            take(s, (instr_id){ k });
    return s->count > before || name_error(s, p, n, "the module has no");
}

/* scope:layer0/\*: the pattern fits the op_name from some border of its scopes on. */
static bool take_scope(struct selection *s, const char *p, size_t n)
{
    const char *pattern = arena_strndup(s->arena, p, n);
    int64_t before = s->count;
    for (uint32_t k = 1; k <= module_ninstrs(s->m); k++) {
        if (!instr_at(s->m, (instr_id){ k })->metadata)
            continue;
        for (const char *at = instr_op_name(s->m, (instr_id){ k }); at && *at;) {
            if (glob_match(pattern, at)) {
                take(s, (instr_id){ k });
                break;
            }
            at = strchr(at, '/');
            at = at ? at + 1 : NULL;
        }
    }
    return s->count > before || name_error(s, p, n, "no op_name has the scope");
}

/* in(T,3), out(T,3): what T is made from, what is made from it, that many steps away. */
static bool take_cone(struct selection *s, bool forward, const char *p, size_t n)
{
    int64_t depth = INT32_MAX;
    const char *comma = NULL;
    for (size_t k = n; k > 0 && !comma; k--)
        if (p[k - 1] == ',')
            comma = p + k - 1;
    size_t len = n;
    if (comma) {
        size_t left = n - (size_t)(comma + 1 - p);
        if (left == 0 || parse_i64(comma + 1, left, &depth) != left || depth < 0)
            return name_error(s, comma + 1, left ? left : 1, "not a number of steps:");
        len = (size_t)(comma - p);
    }
    instr_id from;
    if (!read_name(s, p, len, &from))
        return false;
    if (forward && !s->has_users) {
        users_make(s->m, s->arena, &s->users);
        s->has_users = true;
    }
    uint8_t *seen = ARENA_ARRAY(s->arena, uint8_t, (int64_t)module_ninstrs(s->m) + 1);
    VEC(instr_id) queue = { 0 };
    vec_push(s->arena, &queue, from);
    seen[from.i] = 1;
    int64_t level_end = 1, level = 0;
    for (int64_t q = 0; q < queue.n; q++) {
        if (q == level_end) {
            level++;
            level_end = queue.n;
        }
        instr_id i = queue.v[q];
        take(s, i);
        if (level >= depth)
            continue;
        const struct instr *in = instr_at(s->m, i);
        uint32_t count = forward ? users_count(&s->users, i) : in->noperands;
        const instr_id *list = forward ? users_of(&s->users, i) : in->operands;
        for (uint32_t k = 0; k < count; k++)
            if (!seen[list[k].i]) {
                seen[list[k].i] = 1;
                vec_push(s->arena, &queue, list[k]);
            }
    }
    return true;
}

static bool starts(const char *p, size_t n, const char *word)
{
    size_t len = strlen(word);
    return n > len && !memcmp(p, word, len);
}

static bool take_item(struct selection *s, const char *p, size_t n)
{
    while (n > 0 && (p[0] == ' ' || p[0] == '\t')) {
        p++;
        n--;
    }
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    if (starts(p, n, "op:"))
        return take_op(s, p + 3, n - 3);
    if (starts(p, n, "scope:"))
        return take_scope(s, p + 6, n - 6);
    if (starts(p, n, "in(") && p[n - 1] == ')')
        return take_cone(s, false, p + 3, n - 4);
    if (starts(p, n, "out(") && p[n - 1] == ')')
        return take_cone(s, true, p + 4, n - 5);
    bool quoted = n >= 2 && (p[0] == '\'' || p[0] == '"');
    if (!quoted && has_glob(p, n))
        return take_glob(s, p, n);
    instr_id i;
    if (!read_name(s, p, n, &i))
        return false;
    take(s, i);
    return true;
}

/* End of the item that starts at p: a comma outside brackets and quotes, or the end. */
static size_t item_length(const char *p, size_t n)
{
    int depth = 0;
    char quote = 0;
    for (size_t k = 0; k < n; k++) {
        char c = p[k];
        if (quote) {
            quote = c == quote ? 0 : quote;
            continue;
        }
        if (c == '"' || c == '\'')
            quote = c;
        else if (c == '(' || c == '[' || c == '{')
            depth++;
        else if (c == ')' || c == ']' || c == '}')
            depth -= depth > 0;
        else if (c == ',' && depth == 0)
            return k;
    }
    return n;
}

static bool select_all(struct selection *s, size_t n)
{
    for (size_t at = 0; at <= n;) {
        size_t len = item_length(s->text + at, n - at);
        if (!take_item(s, s->text + at, len))
            return false;
        at += len + 1;
    }
    return true;
}

static bool begin(struct selection *s, struct document *doc, const char *text,
                  const struct source *src, uint32_t off, struct arena *a, struct diag *d)
{
    *s = (struct selection){
        .doc = doc, .m = doc->module, .src = src, .off = off, .text = text, .arena = a, .d = d
    };
    if (!doc->module) {
        const char *former = diag_stage(d, "usage");
        diag_error(d, NULL, (struct span){ 0, 0 }, "no module is loaded");
        diag_hint(d, "load FILE");
        diag_stage(d, former);
        return false;
    }
    names_make(doc);
    s->in = ARENA_ARRAY(a, uint8_t, (int64_t)module_ninstrs(doc->module) + 1);
    return true;
}

bool select_instrs(struct document *doc, const char *text, size_t n, const struct source *src,
                   uint32_t off, bool single, struct arena *a, instr_id **out, int64_t *count,
                   struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct selection s;
    const char *former = diag_stage(d, "name");
    bool ok = begin(&s, doc, text, src, off, a, d) && select_all(&s, n);
    if (ok && single && s.count != 1)
        ok = diag_error(d, src, (struct span){ off, (uint32_t)n },
                        "one tensor is wanted here, these are %" PRId64, s.count);
    diag_stage(d, former);
    if (ok) {
        instr_id *list = ARENA_ARRAY(a, instr_id, s.count + 1);
        int64_t k = 0;
        for (uint32_t c = 1; c <= module_ncomps(s.m); c++) {
            const struct computation *comp = comp_at(s.m, (comp_id){ c });
            for (uint32_t v = 0; v < comp->ninstrs; v++)
                if (s.in[comp->instrs[v].i])
                    list[k++] = comp->instrs[v];
        }
        *out = list;
        *count = k;
    }
    fail_leave(&f);
    return ok;
}

/* ---- NAME{0,1} ------------------------------------------------------------------------------------- */

static bool read_leaf(struct selection *s, instr_id i, const char *p, size_t n, int64_t *leaf)
{
    shape_id at = instr_at(s->m, i)->shape;
    int64_t number = 0;
    for (size_t k = 0; k < n;) {
        int64_t v;
        size_t used = parse_i64(p + k, n - k, &v);
        const struct shape *shape = shape_get(s->doc->ir, at);
        if (used == 0 || (k + used < n && p[k + used] != ','))
            return name_error(s, p + k, n - k, "not an index of a leaf:");
        if (shape->kind != SHAPE_TUPLE || v < 0 || v >= shape->nelems) {
            name_error(s, p + k, used, "there is no element");
            if (shape->kind == SHAPE_TUPLE)
                diag_hint(s->d, "the tuple has elements 0 to %" PRId64, shape->nelems - 1);
            else
                diag_hint(s->d, "it is no tuple");
            return false;
        }
        number += shape_leaf_offset(s->doc->ir, at, v);
        at = shape->elems[v];
        k += used + 1;
    }
    if (shape_get(s->doc->ir, at)->kind == SHAPE_TUPLE)
        return name_error(s, p, n, "a tuple, no leaf, is at");
    *leaf = number;
    return true;
}

bool select_tensor(struct document *doc, const char *text, size_t n, const struct source *src,
                   uint32_t off, instr_id *out, int64_t *leaf, struct diag *d)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct selection s;
    const char *former = diag_stage(d, "name");
    *leaf = -1;
    size_t len = n;
    const char *brace = NULL;
    if (n > 0 && text[n - 1] == '}')
        for (size_t k = n; k > 0 && !brace; k--)
            if (text[k - 1] == '{')
                brace = text + k - 1;
    if (brace)
        len = (size_t)(brace - text);
    bool ok = begin(&s, doc, text, src, off, &tmp, d) && read_name(&s, text, len, out);
    if (ok && brace)
        ok = read_leaf(&s, *out, brace + 1, n - len - 2, leaf);
    diag_stage(d, former);
    arena_close(&tmp);
    fail_leave(&f);
    return ok;
}
