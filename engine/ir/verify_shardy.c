/* The verifier's part on annotations in Shardy's words: xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"
 * among an instruction's frontend attributes. What is wrong there is a warning: nobody has to use them. */
#include "ir/verify.h"

#include <string.h>

#include "sharding/axes.h"

/* The text of xla.sdy.meshes in the module's header, or NULL. */
static const struct header_attr *header_meshes(const struct module *m)
{
    for (int k = 0; k < m->nheader; k++) {
        const struct header_attr *h = &m->header[k];
        if (h->text && strcmp(name_text(m->ir, h->key), "frontend_attributes") == 0 &&
            memmem(h->text, h->len, "xla.sdy.meshes", 14))
            return h;
    }
    return NULL;
}

/* The text as it was before it was put between quotes: \" and MLIR's \22 are quotes. */
static const char *unquoted(struct check *v, const char *p, size_t n)
{
    struct str s = STR_IN(&v->tmp);
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\\' && i + 2 < n && p[i + 1] == '2' && p[i + 2] == '2') {
            str_addc(&s, '"');
            i += 2;
        } else if (p[i] != '\\') {
            str_addc(&s, p[i]);
        }
    }
    return str_text(&s);
}

/* Behind `name =` or `name=` in the list of meshes; NULL: no mesh of that name. */
static const char *mesh_text(struct check *v, const char *name)
{
    const struct header_attr *h = header_meshes(v->m);
    size_t n = strlen(name);
    const char *text = h ? unquoted(v, h->text, h->len) : NULL;
    for (const char *p = text; p && (p = strstr(p, name)); p++) {
        const char *q = p + n;
        while (*q == ' ' || *q == '"')
            q++;
        if (p > text && strchr("{ ,\"", p[-1]) && *q == '=')
            return q + 1;
    }
    return NULL;
}

/* [{"x"}, {}]: the layout over the mesh's axes; the lexer says what is wrong. */
static bool read_dims(struct lexer *l, const struct mesh *m, struct layout *out)
{
    if (!lex_expect(l, '[', "the sharding"))
        return false;
    while (!lex_take(l, ']')) {
        int64_t priority;
        if (out->rank && !lex_expect(l, ',', "the sharding"))
            return false;
        if (!lex_expect(l, '{', "the sharding") || !read_axis_braces(l, m, out->rank, out))
            return false;
        if (lex_is(l, 'p')) {
            l->i++;
            if (!lex_int(l, &priority, "priority"))
                return false;
        }
        if (++out->rank > MAX_DIMS)
            return lex_error(l, 0, 1, "more than %d dimensions", MAX_DIMS);
    }
    return true;
}

static void warn(struct check *v, instr_id i, const char *text)
{
    const struct instr *in = instr_at(v->m, i);
    diag_warn(v->d, v->m->source, in->at, "%s %s: its xla.sdy.sharding %s", op_name((enum op_kind)in->op),
              named(v->m, &v->tmp, i), text);
}

/* What stands behind the mesh's name, against the mesh and the instruction's shape. */
static void check_dims(struct check *v, instr_id i, const char *text, const char *mesh)
{
    const struct shape *shape = shape_get(v->m->ir, instr_at(v->m, i)->shape);
    const char *body = strchr(text, '['), *axes = strstr(mesh, "#sdy.mesh<");
    struct diag why = { .limit = 1 };
    struct mesh m = { 0 };
    struct layout layout = { 0 };
    if (!body || !axes)
        return;
    arena_open(&why.arena);
    axes += sizeof "#sdy.mesh<" - 1;
    struct lexer l = { .t = v->m->ir->shardings, .p = axes, .n = strlen(axes) };
    if (!read_inline_mesh(&l, &v->tmp, &m)) {
        arena_close(&why.arena);
        return;
    }
    l = (struct lexer){ .t = v->m->ir->shardings, .d = &why, .p = body, .n = strlen(body) };
    if (!read_dims(&l, &m, &layout))
        warn(v, i, arena_printf(&v->tmp, "cannot be read: %s", why.msgs.n ? why.msgs.v[0].text : text));
    else if (shape->kind == SHAPE_ARRAY && shape->rank != layout.rank)
        warn(v, i, arena_printf(&v->tmp, "has %d dimensions, but the value has rank %d", layout.rank, shape->rank));
    arena_close(&why.arena);
}

void verify_shardy(struct check *v, instr_id i)
{
    const struct instr *in = instr_at(v->m, i);
    static const char key[] = "#sdy.sharding<@";
    const char *p = memmem(in->frontend, in->frontend_len, key, sizeof key - 1);
    if (!p)
        return;
    /* One text and shape is looked at once. */
    uint64_t hash = hash_bytes(in->frontend, in->frontend_len, in->shape.i), known;
    if (map_get(&v->meshes, hash, &known))
        return;
    map_put(&v->meshes, hash, 1);
    p += sizeof key - 1;
    const char *text = unquoted(v, p, (size_t)(in->frontend + in->frontend_len - p));
    text += *text == '"';
    size_t n = strcspn(text, ",> \"");
    const char *name = arena_strndup(&v->tmp, text, n), *mesh = mesh_text(v, name);
    if (n == 0)
        return;
    if (mesh) {
        check_dims(v, i, text, mesh);
        return;
    }
    uint64_t id = hash_bytes(name, n, 0);
    if (map_get(&v->meshes, id, &known)) /* said once a mesh */
        return;
    map_put(&v->meshes, id, 1);
    warn(v, i, arena_printf(&v->tmp, "names the mesh '%s', which the header's xla.sdy.meshes has not", name));
}
