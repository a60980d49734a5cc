/* spell: one sharding in the words of every system, or the reason why one has no word for it. */
#include <string.h>

#include "repl/commands.h"

/* What the spellings need to know of the array, leaf by leaf. */
const struct spell_shape *spell_shapes(struct call *c, shape_id shape)
{
    struct ir *ir = document_ir(c->sh->doc);
    if (!shape.i)
        return NULL;
    int64_t n = max_i64(shape_get(ir, shape)->nleaves, 1);
    struct spell_shape *list = ARENA_ARRAY(&c->arena, struct spell_shape, n);
    for (int64_t k = 0; k < n; k++) {
        const struct shape *s = shape_get(ir, n > 1 || shape_get(ir, shape)->kind == SHAPE_TUPLE
                                                  ? shape_leaf(ir, shape, k)
                                                  : shape);
        list[k] = s->kind == SHAPE_ARRAY ? (struct spell_shape){ dtype_name(s->dtype), s->rank, s->dims }
                                         : (struct spell_shape){ "token", -1, NULL };
    }
    return list;
}

struct spelled_thing {
    sharding_id s;
    shape_id shape;
    const char *name; /* of the tensor, or NULL */
    uint64_t open;
};

static bool is_shape(const struct word *w)
{
    const char *bracket = strchr(w->text, '[');
    return bracket && bracket > w->text && w->text[w->n - 1] == ']' && !strchr(w->text, '@') &&
           !strchr(w->text, '_');
}

/* spell T: its sharding after propagation. */
static bool spell_tensor(struct call *c, struct spelled_thing *x)
{
    struct document *doc = c->sh->doc;
    instr_id i;
    int64_t leaf;
    struct tensor_view v;
    if (!arg_tensor(c, 0, &i, &leaf) || !document_view(doc, i, 0, &v, call_tick(c), c->d))
        return false;
    x->shape = instr_at(document_module(doc), i)->shape;
    x->s = v.sharding;
    x->open = v.open;
    x->name = leaf >= 0 ? c->args[0].text : tensor_name(c, i);
    const struct sharding *s = sharding_get(document_ir(doc)->shardings, x->s);
    if (leaf >= 0) {
        x->shape = shape_leaf(document_ir(doc), x->shape, leaf);
        if (s->kind == SHARDING_TUPLE && leaf < s->nelems)
            x->s = s->elems[leaf];
    }
    if (!x->s.i)
        x->s = sharding_replicated(document_ir(doc)->shardings);
    return true;
}

/* spell SHARDING [SHAPE]. */
static bool spell_given(struct call *c, struct spelled_thing *x)
{
    const struct word *last = &c->args[c->n - 1];
    uint32_t off;
    size_t used;
    const char *text = call_rest(c, 0, &off);
    size_t n = strlen(text);
    if (c->n > 1 && is_shape(last)) {
        diag_stage(c->d, "usage");
        if (!shape_parse(document_ir(c->sh->doc), c->src, last->off, last->text, last->n, &used, &x->shape, c->d))
            return false;
        n = last->off - off;
    }
    while (n > 0 && text[n - 1] == ' ')
        n--;
    return read_spec(c, text, n, off, x->shape, &x->s, &x->open);
}

static bool looks_like_sharding(const struct word *w)
{
    static const char *const words[] = { "replicated", "manual", "maximal", "unknown" };
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (!strcmp(w->text, words[k]))
            return true;
    return w->n > 0 && (strchr("[{(<#", w->text[0]) || strchr(w->text, '(') ||
                        (strchr(w->text, '[') && w->text[w->n - 1] == ']' && !strchr(w->text, '\'')));
}

static bool read_thing(struct call *c, struct spelled_thing *x)
{
    instr_id i;
    int64_t leaf;
    const struct word *w = &c->args[0];
    bool tensor = document_module(c->sh->doc) && c->n == 1 &&
                  select_tensor(c->sh->doc, w->text, w->n, NULL, 0, &i, &leaf, NULL);
    if (!tensor && (!document_module(c->sh->doc) || c->n > 1 || looks_like_sharding(w)))
        return spell_given(c, x);
    return spell_tensor(c, x);
}

static void spell_json(struct call *c, const struct spelled_thing *x, const struct spell_shape *shapes)
{
    struct ir *ir = document_ir(c->sh->doc);
    if (x->name)
        json_put_string(&c->js, "name", x->name);
    if (x->shape.i)
        json_put_string(&c->js, "shape", shape_text(c, x->shape));
    json_put_open(&c->js, "spellings", '[');
    for (int how = 0; how < SPELL_COUNT; how++) {
        struct str s = STR_IN(&c->arena), why = STR_IN(&c->arena);
        bool ok = sharding_spell_as(ir->shardings, document_mesh(c->sh->doc), x->s, (enum spelling)how, shapes,
                                    &s, &why);
        json_open(&c->js, '{');
        json_put_string(&c->js, "spelling", spelling_name((enum spelling)how));
        json_put_string(&c->js, "text", ok ? str_text(&s) : NULL);
        if (!ok)
            json_put_string(&c->js, "reason", str_text(&why));
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
}

int cmd_spell(struct call *c)
{
    struct spelled_thing x = { .name = NULL };
    if (!read_thing(c, &x))
        return call_failed(c);
    const struct spell_shape *shapes = spell_shapes(c, x.shape);
    if (c->json) {
        spell_json(c, &x, shapes);
        return STATUS_OK;
    }
    struct ir *ir = document_ir(c->sh->doc);
    const struct mesh *mesh = document_mesh(c->sh->doc);
    if (x.name)
        out(c, "%s  %s%s\n", x.name, shape_text(c, x.shape),
            x.open ? "  (some dimensions are open: propagation may split them further)" : "");
    static const char *const heads[] = { "spelling", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int how = 0; how < SPELL_COUNT; how++) {
        struct str s = STR_IN(&c->arena), why = STR_IN(&c->arena);
        bool ok = sharding_spell_as(ir->shardings, mesh, x.s, (enum spelling)how, shapes, &s, &why);
        const char **row = table_row(&t);
        row[0] = spelling_name((enum spelling)how);
        row[1] = ok ? str_text(&s) : arena_printf(&c->arena, "cannot be said: %s", str_text(&why));
    }
    table_print(c, &t, false);
    return STATUS_OK;
}
