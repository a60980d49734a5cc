/* Spellings of other systems: DTensor's placements and OneFlow's SBP (one entry a mesh axis, not one
 * a dimension), JAX's NamedSharding and GSPMDSharding, and the notation A[I_X, J_Y]. */
#include <string.h>

#include "sharding/spec.h"

/* ---- placements: [Shard(0), Replicate()], (S(0), B) -------------------------------------------------- */

enum placement { PLACE_NONE, PLACE_COPY, PLACE_SHARD, PLACE_STRIDED, PLACE_SUM };

static const struct {
    const char *word;
    enum placement is;
} placement_words[] = {
    { "Shard", PLACE_SHARD },      { "S", PLACE_SHARD },        { "split", PLACE_SHARD },
    { "Replicate", PLACE_COPY },   { "R", PLACE_COPY },         { "B", PLACE_COPY },
    { "broadcast", PLACE_COPY },   { "Partial", PLACE_SUM },    { "P", PLACE_SUM },
    { "partial_sum", PLACE_SUM },  { "_StridedShard", PLACE_STRIDED },
    { "StridedShard", PLACE_STRIDED },
};

/* The word without its package: oneflow.sbp.split is split. */
static enum placement placement_of(const char *w, size_t n)
{
    for (size_t k = n; k > 0; k--)
        if (w[k - 1] == '.') {
            w += k;
            n -= k;
            break;
        }
    for (size_t k = 0; k < COUNTOF(placement_words); k++)
        if (strlen(placement_words[k].word) == n && !memcmp(placement_words[k].word, w, n))
            return placement_words[k].is;
    return PLACE_NONE;
}

static bool is_axis(const struct spec_reader *r, const char *w, size_t n)
{
    for (int k = 0; k < r->nmeshes; k++)
        if (mesh_find_axis(&r->meshes[k], w, n) >= 0)
            return true;
    return false;
}

bool spec_at_placements(struct spec_reader *r, char close)
{
    struct lexer l = r->l; /* looks ahead only */
    const char *w;
    size_t n = lex_word(&l, &w);
    enum placement p = placement_of(w, n);
    if (p == PLACE_NONE)
        return false;
    l.i += n;
    if (lex_is(&l, '('))
        return true;
    /* R alone may be an axis */
    return p != PLACE_SHARD && p != PLACE_STRIDED && !is_axis(r, w, n) &&
           (lex_is(&l, ',') || lex_is(&l, close));
}

struct place {
    enum placement is;
    int64_t dim, factor; /* factor: of a strided shard */
};

/* dim=0, axis=0, split_factor=2 or the bare numbers. */
static bool read_place_numbers(struct lexer *l, struct place *p)
{
    int64_t v;
    for (int k = 0; !lex_is(l, ')'); k++) {
        if (k && !lex_expect(l, ',', "placement"))
            return false;
        bool factor = lex_take_text(l, "split_factor=") || lex_take_text(l, "sf=");
        if (!factor && !lex_take_text(l, "dim="))
            (void)lex_take_text(l, "axis=");
        if (!lex_int(l, &v, factor ? "split factor" : "dimension"))
            return false;
        if (factor || k == 1)
            p->factor = v;
        else
            p->dim = v;
    }
    l->i++;
    return true;
}

static bool read_place(struct spec_reader *r, struct place *p)
{
    struct lexer *l = &r->l;
    const char *w;
    size_t n = lex_word(l, &w), at = l->i;
    *p = (struct place){ placement_of(w, n), INT64_MIN, 1 };
    if (p->is == PLACE_NONE)
        return lex_error(l, l->i, n, "a placement expected: Shard(0), Replicate(), S(0), R, B");
    l->i += n;
    if (p->is == PLACE_SUM)
        return lex_error(l, at, n, "partial sums (a sum that is still owed) are not supported");
    if (p->is == PLACE_COPY)
        return !lex_take(l, '(') || lex_expect(l, ')', "placement");
    if (!lex_expect(l, '(', "placement") || !read_place_numbers(l, p))
        return false;
    int64_t first = p->dim;
    if (p->dim < 0 && p->dim > INT64_MIN && r->rank >= 0)
        p->dim += r->rank;
    int most = r->rank < 0 ? AXES_MAX - 4 : r->rank;
    if (first == INT64_MIN || p->dim < 0 || p->dim >= most)
        return lex_error(l, at, l->i - at, "the array has no such dimension%s",
                         r->rank < 0 ? " (its rank is not known here)" : "");
    return true;
}

/* The axes that split one dimension, major to minor, so far: those of later mesh axes. */
struct split_list {
    int n, axis[MESH_MAX_AXES];
};

/* A strided shard stands behind the axes that the dimension was split by before it, whose sizes
 * multiply up to its factor; a plain one before all. */
static bool insert_axis(const struct mesh *m, struct split_list *s, int axis, int64_t factor)
{
    int at = 0;
    int64_t before = 1;
    while (before < factor && at < s->n)
        before *= m->axes[s->axis[at++]].size;
    if (before != factor)
        return false;
    memmove(s->axis + at + 1, s->axis + at, (size_t)(s->n - at) * sizeof *s->axis);
    s->axis[at] = axis;
    s->n++;
    return true;
}

static bool place_dimension(struct spec_reader *r, const struct place *places, int dim, size_t at)
{
    struct split_list s = { .n = 0 };
    const struct mesh *m = r->mesh;
    for (int k = m->naxes - 1; k >= 0; k--) {
        if (places[k].is < PLACE_SHARD || places[k].dim != dim)
            continue;
        if (!insert_axis(m, &s, k, places[k].factor))
            return lex_error(&r->l, at, r->l.i - at,
                             "split_factor=%" PRId64 " of axis %s is no product of the axes that split "
                             "dimension %d before it",
                             places[k].factor, m->axes[k].name, dim);
    }
    for (int k = 0; k < s.n; k++) {
        struct axis_ref ref = { s.axis[k], 1, m->axes[s.axis[k]].size };
        if (!layout_add(&r->l, at, m, ref, dim, &r->a))
            return false;
    }
    return true;
}

bool spec_read_placements(struct spec_reader *r, char close, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    struct place places[MESH_MAX_AXES];
    int n = 0;
    int64_t most = -1;
    if (!spec_use_mesh(r))
        return false;
    do {
        if (n && lex_is(l, close))
            break; /* Python allows a comma at the end */
        if (n == r->mesh->naxes)
            return lex_error(l, l->i, 1, "more placements than the mesh's %d axes", n);
        if (!read_place(r, &places[n]))
            return false;
        if (places[n].is >= PLACE_SHARD)
            most = max_i64(most, places[n].dim);
        n++;
    } while (close && lex_take(l, ','));
    if (close && !lex_expect(l, close, "list of placements"))
        return false;
    if (n != r->mesh->naxes)
        return lex_error(l, at, l->i - at, "%d placement%s for a mesh of %d axes", n,
                         n == 1 ? "" : "s", r->mesh->naxes);
    r->a.rank = r->rank < 0 ? (int)most + 1 : r->rank;
    for (int d = 0; d <= (int)most; d++)
        if (!place_dimension(r, places, d, at))
            return false;
    return spec_finish(r, at, out);
}

/* ---- A[I_X, J_Y] --------------------------------------------------------------------------------------- */

/* A word of mesh axes: one axis, or axes of one letter each, XY. */
static bool add_axes_word(struct spec_reader *r, size_t at, const char *w, size_t n)
{
    const struct mesh *m = r->mesh;
    int axis = mesh_find_axis(m, w, n);
    if (axis >= 0)
        return layout_add(&r->l, at, m, (struct axis_ref){ axis, 1, m->axes[axis].size }, r->a.rank,
                          &r->a);
    for (size_t k = 0; k < n; k++) {
        axis = mesh_find_axis(m, w + k, 1);
        if (axis < 0)
            return no_such_axis(&r->l, m, at, w, n);
        if (!layout_add(&r->l, at, m, (struct axis_ref){ axis, 1, m->axes[axis].size }, r->a.rank, &r->a))
            return false;
    }
    return true;
}

/* I, I_X, I_XY, I_{X,Y}, I_{XY}. */
static bool read_subscripts(struct spec_reader *r)
{
    struct lexer *l = &r->l;
    const char *w;
    size_t n = lex_word(l, &w), at = l->i;
    if (n == 0)
        return lex_error(l, l->i, 1, "name of a dimension expected");
    l->i += n;
    const char *bar = memchr(w, '_', n);
    if (!bar)
        return true;
    size_t left = n - (size_t)(bar + 1 - w);
    if (left)
        return spec_use_mesh(r) && add_axes_word(r, at + (n - left), bar + 1, left);
    if (!lex_expect(l, '{', "subscript"))
        return false;
    while (!lex_is(l, '}')) {
        (void)lex_take(l, ',');
        lex_blank(l);
        at = l->i;
        if (!lex_name(l, &w, &n))
            return lex_error(l, l->i, 1, "name of a mesh axis expected");
        if (!spec_use_mesh(r) || !add_axes_word(r, at, w, n))
            return false;
    }
    l->i++;
    return true;
}

/* Behind the bracket. */
static bool read_book(struct spec_reader *r, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    while (!lex_is(l, ']')) {
        if (r->a.rank && !lex_expect(l, ',', "list of dimensions"))
            return false;
        if (r->a.rank == AXES_MAX - 4)
            return lex_error(l, l->i, 1, "more than %d dimensions", AXES_MAX - 4);
        if (!read_subscripts(r))
            return false;
        r->a.rank++;
    }
    l->i++;
    size_t here = l->i;
    if (lex_take(l, '{') && (lex_is(l, 'U') || lex_is(l, 'u')))
        return lex_error(l, here, l->i - here + 1,
                         "unreduced axes (a sum that is still owed) are not supported");
    l->i = here;
    return spec_finish(r, at, out);
}

/* ---- NamedSharding(mesh, P(..)), GSPMDSharding({..}) ------------------------------------------------------ */

/* A mesh of the same axes that is named here, so that its device order holds. */
static const struct mesh *same_mesh(const struct spec_reader *r, const struct mesh *m)
{
    for (int k = 0; k < r->nmeshes; k++) {
        const struct mesh *v = &r->meshes[k];
        bool same = v->naxes == m->naxes;
        for (int i = 0; same && i < m->naxes; i++)
            same = v->axes[i].size == m->axes[i].size && !strcmp(v->axes[i].name, m->axes[i].name);
        if (same)
            return v;
    }
    return m;
}

/* Up to the closing mark of the parenthesis that is open. */
static bool skip_to_close(struct lexer *l)
{
    int64_t depth = 1;
    for (; l->i < l->n; l->i++) {
        char c = l->p[l->i];
        depth += c == '(' || c == '[' || c == '{';
        depth -= c == ')' || c == ']' || c == '}';
        if (depth == 0) {
            l->i++;
            return true;
        }
    }
    return lex_error(l, l->n ? l->n - 1 : 0, 1, "')' expected, but the text ends");
}

/* 'data': 2, 'model': 4 */
static bool read_mesh_pairs(struct lexer *l, struct arena *a, struct mesh *m)
{
    while (lex_is(l, '\'') || lex_is(l, '"')) {
        size_t at = l->i, n;
        const char *name;
        int64_t size;
        if (!lex_name(l, &name, &n) || !lex_expect(l, ':', "mesh") || !lex_int(l, &size, "size of the axis") ||
            !add_mesh_axis(l, a, m, at, name, n, size))
            return false;
        (void)lex_take(l, ',');
    }
    return true;
}

/* axis_sizes=(2, 4), axis_names=('data', 'model') */
static bool read_mesh_lists(struct lexer *l, struct arena *a, struct mesh *m)
{
    int64_t sizes[MESH_MAX_AXES];
    int n = 0;
    if (!lex_expect(l, '(', "mesh"))
        return false;
    while (!lex_is(l, ')')) {
        if (n == MESH_MAX_AXES)
            return lex_error(l, l->i, 1, "a mesh has at most %d axes", MESH_MAX_AXES);
        if (!lex_int(l, &sizes[n++], "size of the axis"))
            return false;
        (void)lex_take(l, ',');
    }
    l->i++;
    (void)lex_take(l, ',');
    if (!lex_take_text(l, "axis_names=") || !lex_take(l, '('))
        return lex_error(l, l->i, 1, "axis_names=(..) expected");
    for (int k = 0; k < n; k++) {
        lex_blank(l);
        size_t at = l->i, len;
        const char *name;
        if (!lex_name(l, &name, &len))
            return lex_error(l, l->i, 1, "name of a mesh axis expected");
        if (!add_mesh_axis(l, a, m, at, name, len, sizes[k]))
            return false;
        (void)lex_take(l, ',');
    }
    return lex_expect(l, ')', "names of the mesh's axes");
}

/* The first argument: the name of a mesh, or Mesh('data': 2, 'model': 4). */
static bool read_mesh_argument(struct spec_reader *r, struct arena *tmp)
{
    struct lexer *l = &r->l;
    (void)lex_take_text(l, "mesh=");
    if (lex_take_text(l, "Mesh(") || lex_take_text(l, "AbstractMesh(")) {
        struct mesh *m = ARENA_NEW(tmp, struct mesh);
        m->name = "";
        bool ok = lex_take_text(l, "axis_sizes=") ? read_mesh_lists(l, tmp, m) : read_mesh_pairs(l, tmp, m);
        if (!ok || !skip_to_close(l))
            return false;
        m->order = order_iota(l->t, mesh_devices(m));
        r->mesh = same_mesh(r, m);
        return true;
    }
    const char *w;
    size_t n = lex_word(l, &w);
    if (n == 0)
        return lex_error(l, l->i, 1, "a mesh expected");
    l->i += n;
    for (int k = 0; k < r->nmeshes; k++)
        if (strlen(r->meshes[k].name) == n && !memcmp(r->meshes[k].name, w, n))
            r->mesh = &r->meshes[k];
    return true;
}

static bool read_named(struct spec_reader *r, struct arena *tmp, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    if (!read_mesh_argument(r, tmp) || !lex_expect(l, ',', "NamedSharding"))
        return false;
    (void)lex_take_text(l, "spec=");
    if (!lex_take_text(l, "P(") && !lex_take_text(l, "PartitionSpec("))
        return lex_error(l, l->i, 1, "a PartitionSpec expected: P('data', None)");
    return spec_read_pspec(r, at, out) && skip_to_close(l);
}

static bool read_gspmd(struct spec_reader *r, size_t at, sharding_id *out)
{
    struct lexer *l = &r->l;
    size_t used;
    lex_blank(l);
    if (!sharding_parse(l->t, NULL, l->src, l->off + (uint32_t)l->i, l->p + l->i, l->n - l->i, &used,
                        out, NULL, l->d))
        return false;
    l->i += used;
    if (!skip_to_close(l))
        return false;
    const struct sharding *x = sharding_get(l->t, *out);
    r->a.rank = is_tiled_leaf(x) ? x->data_rank : r->rank < 0 ? 0 : r->rank;
    return !is_tiled_leaf(x) || spec_rank_fits(r, at);
}

/* ---- which of them ------------------------------------------------------------------------------------------ */

enum other { OTHER_NONE, OTHER_LIST, OTHER_PLACE, OTHER_NAMED, OTHER_GSPMD, OTHER_BOOK };

static enum other other_at(struct spec_reader *r, size_t *len)
{
    struct lexer *l = &r->l;
    const char *w;
    if (lex_is(l, '('))
        return *len = 1, OTHER_LIST;
    size_t n = lex_word(l, &w);
    char next = l->i + n < l->n ? l->p[l->i + n] : '\0';
    if (n == 0 || (next != '(' && next != '['))
        return OTHER_NONE;
    *len = n + 1;
    if (next == '[')
        return w[0] >= '0' && w[0] <= '9' ? OTHER_NONE : OTHER_BOOK;
    const char *tail = n >= 13 ? w + n - 13 : "";
    if (n >= 13 && (!memcmp(tail, "NamedSharding", 13) || !memcmp(tail, "GSPMDSharding", 13)))
        return tail[0] == 'N' ? OTHER_NAMED : OTHER_GSPMD;
    *len = 0;
    return placement_of(w, n) != PLACE_NONE ? OTHER_PLACE : OTHER_NONE;
}

bool spec_at_other(struct spec_reader *r)
{
    size_t len;
    return other_at(r, &len) != OTHER_NONE;
}

bool spec_read_other(struct spec_reader *r, struct arena *tmp, size_t at, sharding_id *out)
{
    size_t len = 0;
    enum other is = other_at(r, &len);
    r->l.i += len;
    switch (is) {
    case OTHER_LIST: return spec_read_placements(r, ')', at, out);
    case OTHER_PLACE: return spec_read_placements(r, 0, at, out);
    case OTHER_NAMED: return read_named(r, tmp, at, out);
    case OTHER_GSPMD: return read_gspmd(r, at, out);
    case OTHER_BOOK: return read_book(r, at, out);
    case OTHER_NONE: break;
    }
    return false;
}
