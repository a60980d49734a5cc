/* What a user types for a sharding: language.md section 4. */
#include <string.h>

#include "sharding/dtype.h"
#include "sharding/spec.h"

bool spec_use_mesh(struct spec_reader *r)
{
    if (r->mesh)
        return true;
    lex_error(&r->l, r->l.i, 1, "there is no mesh to name an axis of");
    diag_hint(r->l.d, "mesh data=2 model=4");
    return false;
}

/* Behind the @. */
static bool read_mesh_name(struct spec_reader *r)
{
    const char *name, *near = NULL;
    size_t n = lex_word(&r->l, &name), at = r->l.i;
    int best = 3;
    char text[64] = "";
    memcpy(text, name, n < sizeof text ? n : sizeof text - 1);
    r->l.i += n;
    for (int i = 0; i < r->nmeshes; i++) {
        if (strcmp(r->meshes[i].name, text) == 0) {
            r->mesh = &r->meshes[i];
            return true;
        }
        int k = edit_distance(r->meshes[i].name, text, best);
        if (k < best && r->meshes[i].name[0]) {
            best = k;
            near = r->meshes[i].name;
        }
    }
    /* dumps name their only mesh @mesh; the shell's default mesh has no name */
    if (strcmp(text, "mesh") == 0 && r->nmeshes > 0) {
        r->mesh = &r->meshes[0];
        return true;
    }
    lex_error(&r->l, at - 1, n + 1, "there is no mesh @%s", text);
    if (near)
        diag_hint(r->l.d, "did you mean @%s?", near);
    return false;
}

static void mark_open(struct spec_reader *r)
{
    if (r->a.rank < 64)
        r->a.open |= (uint64_t)1 << r->a.rank;
}

/* ---- entries ------------------------------------------------------------------------------------------- */

/* One axis, `?`, or nothing split. */
static bool read_atom(struct spec_reader *r)
{
    struct lexer *l = &r->l;
    if (lex_take(l, '?')) {
        mark_open(r);
        return true;
    }
    if (lex_take_word(l, "_") || lex_take_word(l, "None"))
        return true;
    if (lex_take_word(l, "P.UNCONSTRAINED") || lex_take_word(l, "PartitionSpec.UNCONSTRAINED") ||
        lex_take_word(l, "UNCONSTRAINED")) {
        mark_open(r);
        return true;
    }
    return spec_use_mesh(r) && read_axis(l, r->mesh, r->a.rank, &r->a);
}

/* data, (data,model), data*model, model:(2)2, _, ?, {"x", ?}. */
static bool read_entry(struct spec_reader *r)
{
    struct lexer *l = &r->l;
    if (lex_take(l, '{')) {
        if (lex_is(l, '}') || lex_is(l, '?'))
            return read_axis_braces(l, r->mesh, r->a.rank, &r->a);
        return spec_use_mesh(r) && read_axis_braces(l, r->mesh, r->a.rank, &r->a);
    }
    bool list = lex_take(l, '(');
    while (!list || !lex_is(l, ')')) {
        if (!read_atom(r))
            return false;
        if (lex_take(l, '*') || (list && lex_take(l, ',')))
            continue;
        break;
    }
    return !list || lex_expect(l, ')', "axes of one dimension");
}

/* Entries up to the closing mark. */
static bool read_entries(struct spec_reader *r, char close)
{
    struct lexer *l = &r->l;
    while (!lex_is(l, close)) {
        if (r->a.rank && !lex_expect(l, ',', "sharding"))
            return false;
        if (r->a.rank && lex_is(l, close))
            break; /* Python allows a comma at the end */
        if (r->a.rank == AXES_MAX - 4)
            return lex_error(l, l->i, 1, "more than %d dimensions", AXES_MAX - 4);
        if (!read_entry(r))
            return false;
        r->a.rank++;
        if (close == ']' && lex_is(l, 'p')) { /* Shardy's priorities change no layout */
            int64_t priority;
            l->i++;
            if (!lex_int(l, &priority, "priority"))
                return false;
        }
    }
    l->i++;
    return true;
}

bool spec_rank_fits(struct spec_reader *r, size_t at)
{
    if (r->rank < 0 || r->a.rank == r->rank)
        return true;
    return lex_error(&r->l, at, r->l.i - at,
                     "the sharding has %d dimension%s, the array has rank %d", r->a.rank,
                     r->a.rank == 1 ? "" : "s", r->rank);
}

bool spec_finish(struct spec_reader *r, size_t at, sharding_id *out)
{
    if (!spec_rank_fits(r, at))
        return false;
    *out = r->mesh ? layout_sharding(r->l.t, r->mesh, &r->a) : sharding_replicated(r->l.t);
    return true;
}

/* ---- one array's sharding in each spelling ---------------------------------------------------------------- */

/* [@name data,_], behind the bracket; or placements, [S(0), R]. */
static bool read_brackets(struct spec_reader *r, size_t at, sharding_id *out)
{
    if (spec_at_placements(r, ']'))
        return spec_read_placements(r, ']', at, out);
    if (lex_take(&r->l, '@') && !read_mesh_name(r))
        return false;
    (void)lex_take(&r->l, ',');
    return read_entries(r, ']') && spec_finish(r, at, out);
}

/* P('data', None): shorter than the rank means not split. */
bool spec_read_pspec(struct spec_reader *r, size_t at, sharding_id *out)
{
    if (!read_entries(r, ')'))
        return false;
    if (r->rank > r->a.rank && r->rank <= AXES_MAX - 4)
        r->a.rank = r->rank;
    return spec_finish(r, at, out);
}

/* mesh<[], device_ids=[3]>, []>: the array lies on one device. */
static bool read_one_device(struct spec_reader *r, const struct mesh *m, sharding_id *out)
{
    struct lexer *l = &r->l;
    if (!lex_expect(l, ',', "sharding") || !lex_expect(l, '[', "sharding") ||
        !lex_expect(l, ']', "sharding of one device") || !lex_expect(l, '>', "sharding"))
        return false;
    *out = sharding_maximal(l->t, order_device(l->t, m->order, 0));
    r->a.rank = r->rank < 0 ? 0 : r->rank;
    return true;
}

/* <@mesh, [{"data"}, {?}], replicated={"x"}> behind the opening <. */
static bool read_sdy(struct spec_reader *r, struct arena *tmp, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    struct mesh *inline_mesh = NULL;
    if (lex_take(l, '@')) {
        if (!read_mesh_name(r))
            return false;
    } else if (lex_take_text(l, "mesh<")) { /* mesh<["x"=2, "y"=4]> */
        size_t from = l->i;
        inline_mesh = ARENA_NEW(tmp, struct mesh);
        if (!read_inline_mesh(l, tmp, inline_mesh) || !lex_expect(l, '>', "mesh"))
            return false;
        r->mesh = inline_mesh;
        bool device = memmem(l->p + from, l->i - from, "device_ids", 10);
        if (inline_mesh->naxes == 0 && device)
            return read_one_device(r, inline_mesh, out);
    } else {
        return lex_error(l, l->i, 1, "@mesh expected");
    }
    if (!lex_expect(l, ',', "sharding") || !lex_expect(l, '[', "sharding") ||
        !read_entries(r, ']'))
        return false;
    while (lex_take(l, ',')) {
        lex_blank(l);
        size_t here = l->i;
        if (lex_take_text(l, "unreduced"))
            return lex_error(l, here, l->i - here,
                             "unreduced axes (a sum that is still owed) are not supported");
        if (!lex_take_text(l, "replicated={"))
            return lex_error(l, here, 1, "replicated={..} expected");
        if (!spec_use_mesh(r) || !read_axis_braces(l, r->mesh, ALSO_NAMED, &r->a))
            return false;
    }
    return lex_expect(l, '>', "sharding") && spec_finish(r, at, out);
}

/* f32[8@data,4], behind the bracket. */
static bool read_typed(struct spec_reader *r, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    while (!lex_is(l, ']')) {
        int64_t size;
        if (r->a.rank && !lex_expect(l, ',', "shape"))
            return false;
        if (r->a.rank == AXES_MAX - 4)
            return lex_error(l, l->i, 1, "more than %d dimensions", AXES_MAX - 4);
        if (!lex_int(l, &size, "size of a dimension"))
            return false;
        if (lex_take(l, '@') && !read_entry(r))
            return false;
        r->a.rank++;
    }
    l->i++;
    return spec_finish(r, at, out);
}

static bool read_maximal(struct lexer *l, sharding_id *out)
{
    int64_t device;
    lex_blank(l);
    size_t at = l->i;
    (void)lex_take_text(l, "device=");
    if (!lex_int(l, &device, "device number"))
        return false;
    if (device < 0)
        return lex_error(l, at, l->i - at, "device %" PRId64 " is negative", device);
    *out = sharding_maximal(l->t, device);
    return true;
}

static bool lead_in(struct lexer *l, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lex_take_text(l, words[i]))
            return true;
    return false;
}

/* f32, and what NumPy and MLIR call it: float32, bfloat16, int8, i32, bool. */
static bool is_type_word(const char *w, size_t n)
{
    static const char *const kinds[] = { "float", "bfloat", "int", "uint", "complex", "i", "ui" };
    if (dtype_find(w, n) != DTYPE_NONE || (n == 4 && !memcmp(w, "bool", 4)))
        return true;
    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        size_t len = strlen(kinds[k]);
        if (n > len && !memcmp(w, kinds[k], len) && w[len] >= '0' && w[len] <= '9')
            return true;
    }
    return false;
}

static bool take_type(struct lexer *l)
{
    const char *w;
    size_t n = lex_word(l, &w), back = l->i;
    if (!is_type_word(w, n))
        return false;
    l->i += n;
    if (lex_take(l, '['))
        return true;
    l->i = back;
    return false;
}

static bool not_a_sharding(struct lexer *l)
{
    static const char *const words[] = { "replicated", "manual", "maximal", "unknown" };
    const char *w, *near = NULL;
    size_t n = lex_word(l, &w);
    char text[64] = "";
    int best = 4;
    memcpy(text, w, n < sizeof text ? n : sizeof text - 1);
    for (size_t i = 0; n && i < COUNTOF(words); i++) {
        int k = edit_distance(words[i], text, best);
        if (k < best) {
            best = k;
            near = words[i];
        }
    }
    lex_error(l, l->i, n, l->i < l->n ? "a sharding expected" : "a sharding is missing");
    if (near)
        diag_hint(l->d, "did you mean %s?", near);
    else
        diag_hint(l->d, "one entry a dimension: [data,_], [_,(data,model)], [?,model]; or replicated");
    return false;
}

static bool read_hlo(struct spec_reader *r, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    size_t used;
    if (!sharding_parse(l->t, NULL, l->src, l->off + (uint32_t)at, l->p + at, l->n - at, &used, out,
                        NULL, l->d))
        return false;
    l->i = at + used;
    const struct sharding *x = sharding_get(l->t, *out);
    r->a.rank = is_tiled_leaf(x) ? x->data_rank : r->rank < 0 ? 0 : r->rank;
    return !is_tiled_leaf(x) || spec_rank_fits(r, at);
}

static bool read_one(struct spec_reader *r, struct arena *tmp, sharding_id *out)
{
    static const char *const pspec[] = { "P(", "PartitionSpec(", "jax.sharding.PartitionSpec(",
                                         "jax.P(" };
    static const char *const sdy[] = { "#sdy.sharding<", "sdy.sharding<", "<" };
    struct lexer *l = &r->l;
    lex_blank(l);
    size_t at = l->i;
    r->a = (struct layout){ .rank = 0 };
    r->mesh = r->nmeshes ? &r->meshes[0] : NULL;
    if (lex_is(l, '{'))
        return read_hlo(r, at, out);
    if (lex_take(l, '['))
        return read_brackets(r, at, out);
    if (lead_in(l, pspec, COUNTOF(pspec)))
        return spec_read_pspec(r, at, out);
    if (lead_in(l, sdy, COUNTOF(sdy)))
        return read_sdy(r, tmp, at, out);
    if (take_type(l))
        return read_typed(r, at, out);
    if (spec_at_other(r))
        return spec_read_other(r, tmp, at, out);
    r->a.rank = r->rank < 0 ? 0 : r->rank;
    if (lex_take_word(l, "replicated"))
        *out = sharding_replicated(l->t);
    else if (lex_take_word(l, "manual"))
        *out = sharding_manual(l->t);
    else if (lex_take_word(l, "unknown"))
        *out = sharding_unknown(l->t);
    else if (lex_take_word(l, "maximal"))
        return read_maximal(l, out);
    else
        return not_a_sharding(l);
    return true;
}

/* ---- tuples --------------------------------------------------------------------------------------------------- */

/* Whether the brace opens {[..],[..]} rather than HLO's {devices=..}. */
static bool at_spec_tuple(struct lexer *l)
{
    static const char *const whole[] = { "replicated", "manual", "unknown" };
    size_t back = l->i;
    bool is = false;
    if (lex_take(l, '{')) {
        is = lex_is(l, '[') || lex_is(l, '#') || lex_is(l, 'P') || lex_is(l, '<');
        for (size_t i = 0; !is && i < COUNTOF(whole); i++)
            is = lex_take_word(l, whole[i]) && lex_is(l, ',');
        int64_t device;
        if (!is && lex_take_word(l, "maximal")) {
            lex_blank(l);
            is = parse_i64(l->p + l->i, l->n - l->i, &device) > 0;
        }
    }
    l->i = back;
    return is;
}

/* (P('data'), P()), as Python writes a tuple. */
static bool at_python_tuple(struct lexer *l)
{
    size_t back = l->i;
    bool is = lex_take(l, '(') && (lex_take_text(l, "P(") || lex_take_text(l, "PartitionSpec(") ||
                                   lex_take_text(l, "NamedSharding("));
    l->i = back;
    return is;
}

static bool read_many(struct spec_reader *r, struct arena *tmp, char close, sharding_id *out,
                      uint64_t *open)
{
    VEC(sharding_id) elems = { 0 };
    *open = 0;
    r->rank = -1; /* each leaf has a rank of its own */
    while (!lex_is(&r->l, close)) {
        sharding_id s;
        if (elems.n && !lex_expect(&r->l, ',', "tuple of shardings"))
            return false;
        if (elems.n && close == ')' && lex_is(&r->l, close))
            break; /* Python: (P(),) */
        if (!read_one(r, tmp, &s))
            return false;
        *open |= r->a.open;
        vec_push(tmp, &elems, s);
    }
    r->l.i++;
    *out = sharding_tuple(r->l.t, elems.n, elems.v);
    return true;
}

static bool read_spec(struct spec_reader *r, struct arena *tmp, sharding_id *out, uint64_t *open)
{
    static const char *const per_value[] = { "#sdy.sharding_per_value<", "sdy.sharding_per_value<" };
    struct lexer *l = &r->l;
    if (at_python_tuple(l)) {
        (void)lex_take(l, '(');
        return read_many(r, tmp, ')', out, open);
    }
    if (at_spec_tuple(l)) {
        (void)lex_take(l, '{');
        return read_many(r, tmp, '}', out, open);
    }
    if (lead_in(l, per_value, COUNTOF(per_value)))
        return lex_expect(l, '[', "list of shardings") && read_many(r, tmp, ']', out, open) &&
               lex_expect(l, '>', "list of shardings");
    if (!read_one(r, tmp, out))
        return false;
    *open = r->a.open;
    return true;
}

bool sharding_spec_parse(struct shardings *t, const struct mesh *meshes, int nmeshes, int rank,
                         const struct source *src, uint32_t off, const char *p, size_t n,
                         size_t *used, sharding_id *out, struct axes_spec *spec, struct diag *d)
{
    struct spec_reader r = { .l = { .t = t, .src = src, .d = d, .off = off, .p = p, .n = n },
                             .meshes = meshes,
                             .nmeshes = nmeshes,
                             .rank = rank };
    struct arena tmp = { 0 };
    arena_open(&tmp);
    uint64_t open = 0;
    bool ok = read_spec(&r, &tmp, out, &open);
    arena_close(&tmp);
    if (!ok)
        return false;
    *used = r.l.i;
    if (spec)
        *spec = (struct axes_spec){ r.a.rank, open, open == 0 };
    return true;
}
