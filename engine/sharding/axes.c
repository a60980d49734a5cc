/* Axes of a mesh: reading references to them, shardings out of them and back. */
#include "sharding/axes.h"

#include <string.h>

int64_t mesh_devices(const struct mesh *m)
{
    int64_t n = 1;
    for (int i = 0; i < m->naxes; i++)
        n *= m->axes[i].size;
    return n;
}

int mesh_find_axis(const struct mesh *m, const char *name, size_t n)
{
    for (int i = 0; i < m->naxes; i++)
        if (strlen(m->axes[i].name) == n && memcmp(m->axes[i].name, name, n) == 0)
            return i;
    return -1;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

bool no_such_axis(struct lexer *l, const struct mesh *m, size_t at, const char *name, size_t n)
{
    char text[64] = "";
    memcpy(text, name, n < sizeof text ? n : sizeof text - 1);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str axes = STR_IN(&tmp);
    const char *near = NULL;
    int best = 3;
    for (int i = 0; i < m->naxes; i++) {
        str_addf(&axes, " %s=%" PRId64, m->axes[i].name, m->axes[i].size);
        int k = edit_distance(m->axes[i].name, text, best);
        if (k < best) {
            best = k;
            near = m->axes[i].name;
        }
    }
    lex_error(l, at, l->i - at, "the mesh has no axis \"%s\"; its axes are%s", text,
              m->naxes ? str_text(&axes) : " none");
    if (near)
        diag_hint(l->d, "did you mean %s?", near);
    arena_close(&tmp);
    return false;
}

/* Behind a name: :(pre)size. */
static bool read_sub_axis(struct lexer *l, size_t at, const struct mesh *m, struct axis_ref *r)
{
    int64_t whole = m->axes[r->axis].size, all;
    if (!lex_expect(l, '(', "sub-axis") || !lex_int(l, &r->pre, "size before the sub-axis") ||
        !lex_expect(l, ')', "sub-axis") || !lex_int(l, &r->size, "size of the sub-axis"))
        return false;
    if (r->pre < 1 || r->size < 1 || !mul_ok(r->pre, r->size, &all) || whole % all)
        return lex_error(l, at, l->i - at,
                         "(%" PRId64 ")%" PRId64 " is no part of axis %s of size %" PRId64, r->pre,
                         r->size, m->axes[r->axis].name, whole);
    return true;
}

/* Parts of one axis must lie side by side. */
static bool fits_beside(const struct axis_ref *a, const struct axis_ref *b)
{
    return b->pre % (a->pre * a->size) == 0 || a->pre % (b->pre * b->size) == 0;
}

bool layout_add(struct lexer *l, size_t at, const struct mesh *m, struct axis_ref r, int dim,
                struct layout *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->refs[i].axis != r.axis || fits_beside(&a->refs[i], &r))
            continue;
        return lex_error(l, at, l->i - at, "axis %s is used twice", m->axes[r.axis].name);
    }
    if (r.size == 1)
        return true; /* splits nothing */
    if (a->n == REFS_MAX)
        return lex_error(l, at, l->i - at, "too many axes");
    a->refs[a->n] = r;
    a->dim[a->n++] = dim;
    return true;
}

bool read_axis(struct lexer *l, const struct mesh *m, int dim, struct layout *a)
{
    lex_blank(l);
    size_t at = l->i, n;
    const char *name;
    if (!lex_name(l, &name, &n))
        return lex_error(l, l->i, 1, "name of a mesh axis expected");
    struct axis_ref r = { .axis = mesh_find_axis(m, name, n), .pre = 1 };
    if (r.axis < 0)
        return no_such_axis(l, m, at, name, n);
    r.size = m->axes[r.axis].size;
    if (lex_take(l, ':') && !read_sub_axis(l, at, m, &r))
        return false;
    return layout_add(l, at, m, r, dim, a);
}

bool read_axis_braces(struct lexer *l, const struct mesh *m, int dim, struct layout *a)
{
    for (bool first = true; !lex_is(l, '}'); first = false) {
        if (!first && !lex_expect(l, ',', "list of axes"))
            return false;
        if (lex_take(l, '?')) {
            if (dim < 64)
                a->open |= (uint64_t)1 << dim;
            break;
        }
        if (!read_axis(l, m, dim, a))
            return false;
    }
    return lex_expect(l, '}', "list of axes");
}

/* ---- the mesh cut at every reference ---------------------------------------------------------------------- */

/* The mesh's axes in pieces, so that every reference is a run of them. */
struct pieces {
    int n;
    int64_t size[AXES_MAX];
    int axis[AXES_MAX];
    int64_t pre[AXES_MAX];
    bool used[AXES_MAX];
};

static void cut_axis(const struct mesh *m, int axis, const struct layout *a, struct pieces *p)
{
    int64_t whole = m->axes[axis].size;
    for (int64_t done = 1; done < whole;) {
        int64_t next = whole; /* smallest border beyond done; borders are a divisor chain */
        for (int i = 0; i < a->n; i++) {
            int64_t lo = a->refs[i].pre, hi = lo * a->refs[i].size;
            if (a->refs[i].axis != axis)
                continue;
            if (lo > done && lo < next)
                next = lo;
            if (hi > done && hi < next)
                next = hi;
        }
        INVARIANT(p->n < AXES_MAX - 4, "a mesh cut into %d pieces", p->n);
        p->size[p->n] = next / done;
        p->axis[p->n] = axis;
        p->used[p->n] = false;
        p->pre[p->n++] = done;
        done = next;
    }
}

static void cut_mesh(const struct mesh *m, const struct layout *a, struct pieces *p)
{
    p->n = 0;
    for (int i = 0; i < m->naxes; i++)
        cut_axis(m, i, a, p);
}

/* Appends the pieces of one reference to perm. */
static void take_ref(const struct axis_ref *r, struct pieces *p, int *perm, int *n)
{
    for (int k = 0; k < p->n; k++)
        if (p->axis[k] == r->axis && p->pre[k] >= r->pre && p->pre[k] < r->pre * r->size) {
            perm[(*n)++] = k;
            p->used[k] = true;
        }
}

sharding_id layout_sharding(struct shardings *t, const struct mesh *m, const struct layout *a)
{
    struct pieces p;
    cut_mesh(m, a, &p);
    int perm[AXES_MAX], n = 0;
    int64_t dims[AXES_MAX], all = mesh_devices(m), tiles = 1;
    for (int d = 0; d <= a->rank; d++) {
        dims[d] = 1;
        for (int i = 0; i < a->n; i++)
            if (a->dim[i] == d) {
                take_ref(&a->refs[i], &p, perm, &n);
                dims[d] *= a->refs[i].size;
            }
        tiles *= dims[d];
    }
    for (int k = 0; k < p.n; k++)
        if (!p.used[k])
            perm[n++] = k;
    order_id o = order_transpose(t, p.n, p.size, m->order, perm);
    dims[a->rank + 1] = all / tiles;
    return subgroup_make(t, a->rank + 2, dims, o, 2,
                         (const enum axis_type[]){ AXIS_MANUAL, AXIS_REPLICATED });
}

struct tiling layout_groups(struct shardings *t, const struct mesh *m, const struct layout *a)
{
    struct pieces p;
    cut_mesh(m, a, &p);
    int perm[AXES_MAX], members[AXES_MAX], n = 0, nm = 0;
    for (int i = 0; i < a->n; i++)
        take_ref(&a->refs[i], &p, members, &nm);
    int64_t size = 1;
    for (int k = 0; k < p.n; k++)
        if (!p.used[k])
            perm[n++] = k;
    for (int k = 0; k < nm; k++) {
        size *= p.size[members[k]];
        perm[n++] = members[k];
    }
    int64_t dims[2] = { mesh_devices(m) / size, size };
    return tiling_make(t, 2, dims, order_transpose(t, p.n, p.size, m->order, perm));
}

/* ---- back from digits to axes -------------------------------------------------------------------------------- */

/* The mesh over elementary digits: which axis each belongs to, and its place in it. */
struct mesh_digits {
    struct borders b;
    int axis[DIGITS_MAX];
    int place[DIGITS_MAX]; /* position in the axis, major first */
    int64_t pre[DIGITS_MAX];
    bool reversed[DIGITS_MAX];
};

static bool mesh_over(const struct shardings *t, const struct mesh *m, const struct runs *other,
                      int64_t n, struct mesh_digits *out)
{
    struct runs r;
    int64_t dims[MESH_MAX_AXES];
    if (mesh_devices(m) != n || order_get(t, m->order)->ndevices != n)
        return false;
    for (int i = 0; i < m->naxes; i++)
        dims[i] = m->axes[i].size;
    if (!runs_cut(t, m->naxes, dims, m->order, &r) ||
        !borders_unite(2, (const struct runs *const[]){ &r, other }, n, &out->b))
        return false;
    for (int i = 0; i < m->naxes; i++) {
        uint8_t e[DIGITS_MAX];
        int k = elementary(&out->b, &r, run_start(&r, i), r.end[i], e);
        int64_t pre = 1;
        for (int j = 0; j < k; j++) {
            int id = e[j] >> 1;
            out->axis[id] = i;
            out->place[id] = j;
            out->pre[id] = pre;
            out->reversed[id] = e[j] & 1;
            pre *= out->b.b[id + 1] / out->b.b[id];
        }
    }
    return true;
}

/* Appends elementary digit id; neighbours of one axis become one reference. */
static bool push_digit(const struct mesh_digits *md, int id, int prev, int dim, struct layout *a)
{
    int64_t radix = md->b.b[id + 1] / md->b.b[id];
    if (prev >= 0 && md->axis[prev] == md->axis[id] && md->place[id] == md->place[prev] + 1) {
        a->refs[a->n - 1].size *= radix;
        return true;
    }
    if (a->n == REFS_MAX)
        return false;
    a->refs[a->n] = (struct axis_ref){ md->axis[id], md->pre[id], radix };
    a->dim[a->n++] = dim;
    return true;
}

bool sharding_layout(const struct shardings *t, const struct mesh *m, sharding_id s,
                     struct layout *out)
{
    const struct sharding *x = sharding_get(t, s);
    struct runs r;
    struct mesh_digits md;
    if (!is_tiled_leaf(x) || (x->ntypes && x->types[0] == AXIS_MAXIMAL) ||
        !runs_cut(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, &r) ||
        !mesh_over(t, m, &r, order_get(t, x->tiles.order)->ndevices, &md))
        return false;
    *out = (struct layout){ .rank = x->data_rank };
    bool manual = x->ntypes && x->types[0] == AXIS_MANUAL;
    for (int i = 0; i < x->data_rank + manual; i++) {
        uint8_t e[DIGITS_MAX];
        int n = elementary(&md.b, &r, run_start(&r, i), r.end[i], e);
        for (int k = 0; k < n; k++)
            if ((e[k] & 1) != md.reversed[e[k] >> 1] ||
                !push_digit(&md, e[k] >> 1, k ? e[k - 1] >> 1 : -1, i, out))
                return false;
    }
    return true;
}

bool groups_layout(const struct shardings *t, const struct mesh *m, struct tiling groups,
                   struct layout *out)
{
    struct runs r;
    struct mesh_digits md;
    if (groups.naxes != 2 || !runs_cut(t, 2, groups.dims, groups.order, &r) ||
        !mesh_over(t, m, &r, order_get(t, groups.order)->ndevices, &md))
        return false;
    uint8_t e[DIGITS_MAX];
    int n = elementary(&md.b, &r, r.end[0], r.end[1], e);
    uint64_t in = 0;
    for (int k = 0; k < n; k++)
        in |= (uint64_t)1 << (e[k] >> 1);
    *out = (struct layout){ .rank = 1 };
    for (int axis = 0; axis < m->naxes; axis++)
        for (int place = 0, prev = -1; place < md.b.nb; place++)
            for (int id = 0; id < md.b.nb; id++) {
                if (md.axis[id] != axis || md.place[id] != place || !(in >> id & 1))
                    continue;
                if (!push_digit(&md, id, prev, 0, out))
                    return false;
                prev = id;
            }
    return true;
}

static void print_ref(const struct mesh *m, const struct axis_ref *r, struct str *out)
{
    str_adds(out, m->axes[r->axis].name);
    if (r->size != m->axes[r->axis].size)
        str_addf(out, ":(%" PRId64 ")%" PRId64, r->pre, r->size);
}

bool mesh_axes_of_groups(struct shardings *t, const struct mesh *mesh, struct tiling groups,
                         struct arena *a, int *n, const char **names)
{
    struct layout l;
    if (!groups_layout(t, mesh, groups, &l) || l.n > MESH_MAX_AXES)
        return false;
    for (int i = 0; i < l.n; i++) {
        struct str s = STR_IN(a);
        print_ref(mesh, &l.refs[i], &s);
        names[i] = str_text(&s);
    }
    *n = l.n;
    return true;
}
