/* Meshes: the words behind `mesh`, the inline form mesh['x'=2], and their texts. */
#include <string.h>

#include "sharding/axes.h"

/* ---- axes and order ------------------------------------------------------------------------------------ */

bool add_mesh_axis(struct lexer *l, struct arena *a, struct mesh *m, size_t at, const char *name,
                   size_t n, int64_t size)
{
    int64_t all;
    if (mesh_find_axis(m, name, n) >= 0)
        return lex_error(l, at, l->i - at, "two axes are named %.*s: a name that is there twice", (int)n, name);
    if (size < 1)
        return lex_error(l, at, l->i - at, "axis %.*s has size %" PRId64 ": must be at least 1",
                         (int)n, name, size);
    if (m->naxes == MESH_MAX_AXES)
        return lex_error(l, at, l->i - at, "a mesh has at most %d axes", MESH_MAX_AXES);
    if (!mul_ok(mesh_devices(m), size, &all) || all > INT64_MAX / 4)
        return lex_error(l, at, l->i - at, "the number of devices does not fit");
    m->axes[m->naxes++] = (struct mesh_axis){ arena_strndup(a, name, n), size };
    return true;
}

static bool read_device_list(struct lexer *l, struct arena *tmp, int64_t ndevices, order_id *order)
{
    VEC(int64_t) v = { 0 };
    lex_blank(l);
    size_t at = l->i;
    do {
        int64_t x;
        lex_blank(l);
        size_t here = l->i;
        if (!lex_int(l, &x, "device number"))
            return false;
        if (x < 0 || x >= ndevices)
            return lex_error(l, here, l->i - here,
                             "device %" PRId64 " is not one of the mesh's %" PRId64, x, ndevices);
        if (v.n == ndevices)
            return lex_error(l, at, l->i - at, "more device numbers than the mesh's %" PRId64,
                             ndevices);
        vec_push(tmp, &v, x);
    } while (lex_take(l, ','));
    if (v.n != ndevices)
        return lex_error(l, at, l->i - at,
                         "%" PRId64 " device numbers for a mesh of %" PRId64 " devices", v.n,
                         ndevices);
    bool *seen = ARENA_ARRAY(tmp, bool, ndevices);
    for (int64_t i = 0; i < v.n; i++) {
        if (seen[v.v[i]])
            return lex_error(l, at, l->i - at, "device %" PRId64 " occurs twice", v.v[i]);
        seen[v.v[i]] = true;
    }
    *order = order_from_list(l->t, v.n, v.v);
    return true;
}

bool read_mesh_order(struct lexer *l, int64_t ndevices, char close, order_id *order)
{
    lex_blank(l);
    size_t at = l->i;
    bool ok;
    if (lex_take_text(l, "<=[") || lex_take(l, '[')) {
        ok = read_iota(l, ndevices, at, order);
    } else {
        struct arena tmp = { 0 };
        arena_open(&tmp);
        ok = read_device_list(l, &tmp, ndevices, order);
        arena_close(&tmp);
    }
    return ok && (!close || lex_expect(l, close, "device order"));
}

/* ---- mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) --------------------------------------------------------- */

/* Shardy's [3, 1, 2, 0] behind its bracket; a mesh without axes names one device, any. */
static bool read_device_ids(struct lexer *l, struct arena *tmp, int64_t ndevices, order_id *order)
{
    int64_t device;
    if (ndevices > 1)
        return read_device_list(l, tmp, ndevices, order) && lex_expect(l, ']', "device order");
    if (!lex_int(l, &device, "device number") || !lex_expect(l, ']', "device order"))
        return false;
    if (device < 0)
        return lex_error(l, l->i - 1, 1, "a device number is negative");
    *order = order_from_list(l->t, 1, &device);
    return true;
}

bool read_inline_mesh(struct lexer *l, struct arena *a, struct mesh *m)
{
    *m = (struct mesh){ .name = "" };
    if (!lex_expect(l, '[', "mesh"))
        return false;
    while (!lex_is(l, ']')) {
        if (m->naxes && !lex_expect(l, ',', "mesh"))
            return false;
        lex_blank(l);
        size_t at = l->i, n;
        const char *name;
        int64_t size;
        if (!lex_name(l, &name, &n))
            return lex_error(l, l->i, 1, "name of a mesh axis expected");
        if (!lex_expect(l, '=', "mesh") || !lex_int(l, &size, "size of the axis") ||
            !add_mesh_axis(l, a, m, at, name, n, size))
            return false;
    }
    l->i++;
    m->order = order_iota(l->t, mesh_devices(m));
    size_t back = l->i;
    if (lex_take(l, ',') && lex_take_text(l, "device_ids=") && lex_take(l, '['))
        return read_device_ids(l, a, mesh_devices(m), &m->order);
    l->i = back;
    if (lex_take(l, ',') && lex_take_text(l, "device_ids="))
        return lex_expect(l, '(', "device order") &&
               read_mesh_order(l, mesh_devices(m), ')', &m->order);
    l->i = back;
    return true;
}

/* ---- the command's words ----------------------------------------------------------------------------------- */

static bool axis_name_ok(const char *name, size_t n)
{
    if (n == 0 || (name[0] >= '0' && name[0] <= '9') || name[0] == '-' || name[0] == '.')
        return false;
    return !(n == 1 && name[0] == '_');
}

static bool is_word(const char *name, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(name, word, n) == 0;
}

static bool read_mesh_word(struct lexer *l, struct arena *a, struct mesh *m, bool *ordered)
{
    lex_blank(l);
    size_t at = l->i, n;
    const char *name;
    if (!lex_name(l, &name, &n) || !axis_name_ok(name, n)) {
        lex_error(l, at, l->i > at ? l->i - at : 1, "an axis and its size expected");
        diag_hint(l->d, "mesh data=2 model=4");
        return false;
    }
    if (!lex_expect(l, '=', "mesh"))
        return false;
    if (is_word(name, n, "order") || is_word(name, n, "physical")) {
        bool order = name[0] == 'o';
        if (m->naxes == 0)
            return lex_error(l, at, l->i - at, "%.*s= stands behind the axes", (int)n, name);
        *ordered = *ordered || order;
        return read_mesh_order(l, mesh_devices(m), 0, order ? &m->order : &m->physical);
    }
    if (*ordered || m->physical.i)
        return lex_error(l, at, l->i - at, "axes stand before order= and physical=");
    int64_t size;
    return lex_int(l, &size, "size of the axis") && add_mesh_axis(l, a, m, at, name, n, size);
}

bool mesh_parse(struct shardings *t, struct arena *a, const struct source *src, uint32_t off,
                const char *p, size_t n, struct mesh *out, struct diag *d)
{
    struct lexer l = { .t = t, .src = src, .d = d, .off = off, .p = p, .n = n };
    *out = (struct mesh){ .name = "" };
    if (lex_take(&l, '@')) {
        const char *name;
        size_t len = lex_word(&l, &name);
        if (!len)
            return lex_error(&l, l.i, 1, "name of the mesh expected");
        l.i += len;
        out->name = arena_strndup(a, name, len);
    }
    bool ordered = false;
    do {
        if (!read_mesh_word(&l, a, out, &ordered))
            return false;
        (void)lex_take(&l, ',');
        lex_blank(&l);
    } while (l.i < l.n);
    if (!ordered)
        out->order = order_iota(t, mesh_devices(out));
    return true;
}

/* ---- printing ------------------------------------------------------------------------------------------------- */

/* [4,2]T(1,0) or 0,1,3,2. */
void print_mesh_order(const struct shardings *t, order_id o, struct str *out)
{
    int64_t n = order_get(t, o)->ndevices;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct str s = STR_IN(&tmp);
    tiling_print(t, (struct tiling){ 1, &n, o }, &s);
    const char *text = strchr(str_text(&s), ']') + 1;
    str_adds(out, strncmp(text, "<=", 2) == 0 ? text + 2 : text);
    arena_close(&tmp);
}

void mesh_print(const struct shardings *t, const struct mesh *m, struct str *out)
{
    if (m->name && m->name[0])
        str_addf(out, "@%s ", m->name);
    for (int i = 0; i < m->naxes; i++)
        str_addf(out, "%s%s=%" PRId64, i ? " " : "", m->axes[i].name, m->axes[i].size);
    if (m->naxes && !order_is_iota(t, m->order)) {
        str_adds(out, " order=");
        print_mesh_order(t, m->order, out);
    }
    if (m->naxes && m->physical.i && !order_is_iota(t, m->physical)) {
        str_adds(out, " physical=");
        print_mesh_order(t, m->physical, out);
    }
}
