/* draw: plot and show agree with the layout that the shown sharding makes, by arithmetic of our own. */
#include "conformance.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "meaning.h"
#include "sharding/dtype.h"

enum { MOST_CHARACTERS = 20000 };

/* ---- the layout ------------------------------------------------------------------------------------------- */

struct layout {
    const struct meaning *m;
    enum dtype dtype;
    int rank;
    int64_t dims[MEANING_RANK], local[MEANING_RANK], stored; /* stored: elements of local */
};

static bool read_shape(const char *text, struct layout *l)
{
    size_t n = strcspn(text, "[");
    l->dtype = dtype_find(text, n);
    if (l->dtype == DTYPE_NONE || text[n] != '[')
        return false;
    const char *p = text + n + 1;
    while (*p && *p != ']' && l->rank < MEANING_RANK) {
        size_t used = parse_i64(p, strlen(p), &l->dims[l->rank]);
        if (used == 0)
            return false;
        l->rank++;
        p += used;
        p += *p == ',';
    }
    return *p == ']';
}

static bool find_layout(struct one_case *c, const cJSON *row, struct layout *l)
{
    const char *sharding = string_of(at(row, "sharding"));
    *l = (struct layout){ .m = sharding ? meaning_read(&c->arena, sharding, strlen(sharding)) : NULL, .stored = 1 };
    if (!l->m || l->m->kind != MEANS_TILED || !read_shape(field_text(row, "shape"), l) || l->rank != l->m->rank) {
        wrong(c, "%s is shown with %s", row_name(row), sharding ? sharding : "no sharding");
        return false;
    }
    for (int k = 0; k < l->rank; k++) {
        l->local[k] = ceil_div(l->dims[k], l->m->dims[k]);
        l->stored *= l->local[k];
    }
    return true;
}

static void want(struct one_case *c, const cJSON *wanted, const char *key, int64_t found)
{
    if (at(wanted, key) && field_int(wanted, key) != found)
        wrong(c, "%s: the shown sharding makes %" PRId64 ", not %" PRId64, key, found, field_int(wanted, key));
}

static bool same_ints(const cJSON *list, const int64_t *v, int64_t n)
{
    const cJSON *e;
    int64_t k = 0;
    cJSON_ArrayForEach(e, list)
    {
        if (k == n || (int64_t)e->valuedouble != v[k])
            return false;
        k++;
    }
    return k == n;
}

static void check_rows(struct one_case *c, const struct layout *l, const cJSON *wanted)
{
    int64_t *rows = ARENA_ARRAY(&c->arena, int64_t, l->m->nholders + 1), index[MEANING_RANK];
    for (int64_t device = 0; device < l->m->nholders; device++)
        if (meaning_tile_of(l->m, device, index))
            rows[device] = max_i64(0, min_i64(l->local[0], l->dims[0] - index[0] * l->local[0]));
    if (l->rank == 0 || !same_ints(wanted, rows, l->m->nholders))
        wrong(c, "real rows: the shown sharding makes others");
}

static void check_tile(struct one_case *c, const struct layout *l, const char *tile, const cJSON *devices)
{
    int64_t index = 0;
    const char *p = tile;
    for (int d = 0; d < l->rank; d++) {
        int64_t k;
        size_t used = parse_i64(p, strlen(p), &k);
        if (used == 0 || k < 0 || k >= l->m->dims[d]) {
            wrong(c, "tile %s: there is none", tile);
            return;
        }
        index = index * l->m->dims[d] + k;
        p += used;
        p += *p == ',';
    }
    for (int64_t k = 0; k < l->m->copies; k++) {
        const cJSON *e;
        bool found = false;
        cJSON_ArrayForEach(e, devices)
            found = found || (int64_t)e->valuedouble == l->m->holders[index * l->m->copies + k];
        if (!found || cJSON_GetArraySize(devices) != l->m->copies)
            wrong(c, "tile %s: not its devices", tile);
    }
}

static void check_layout(struct one_case *c, const struct layout *l, const cJSON *wanted)
{
    const cJSON *e;
    int64_t elements = 1;
    for (int k = 0; k < l->rank; k++)
        elements *= l->dims[k];
    if (!same_ints(at(wanted, "local"), l->local, l->rank))
        wrong(c, "local: the shown sharding makes another shape");
    want(c, wanted, "tiles", l->m->tiles);
    want(c, wanted, "copies", l->m->copies);
    want(c, wanted, "bytes_per_device", ceil_div(l->stored * dtype_bits(l->dtype), 8));
    want(c, wanted, "padding_elements", l->stored * l->m->tiles - elements);
    if (at(wanted, "real_rows_per_device"))
        check_rows(c, l, at(wanted, "real_rows_per_device"));
    cJSON_ArrayForEach(e, at(wanted, "devices_of_tile"))
        check_tile(c, l, e->string, e);
}

/* ---- what the picture says ----------------------------------------------------------------------------------- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t\n");
}

/* 3 x 16, 3×16 or 3,16 at p, not continued. */
static bool dims_at(struct one_case *c, const char *p, const cJSON *dims)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, dims)
    {
        const char *number = arena_printf(&c->arena, "%.0f", e->valuedouble);
        if (e != dims->child) {
            p = blanks(p);
            size_t n = *p == ',' || *p == 'x' ? 1 : strncmp(p, "×", strlen("×")) == 0 ? strlen("×") : 0;
            if (n == 0)
                return false;
            p = blanks(p + n);
        }
        if (strncmp(p, number, strlen(number)) != 0)
            return false;
        p += strlen(number);
    }
    return !isdigit((unsigned char)*p);
}

static bool says_dims(struct one_case *c, const char *text, const cJSON *dims)
{
    for (const char *p = text; *p; p++)
        if ((p == text || !isdigit((unsigned char)p[-1])) && dims_at(c, p, dims))
            return true;
    return false;
}

/* 26,214,400 or 25 MiB. */
static bool says_number(struct one_case *c, const char *text, const char *plain, int64_t v, bool bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "KB", "MB", "GB" };
    if (has_word(plain, arena_printf(&c->arena, "%" PRId64, v), false))
        return true;
    for (int k = 0; bytes && k < (int)COUNTOF(units); k++) {
        double size = (double)v / (double)((int64_t)1 << (10 * (k % 3 + 1)));
        if (size >= 1 && (strstr(text, arena_printf(&c->arena, "%.1f %s", size, units[k])) ||
                          strstr(text, arena_printf(&c->arena, "%g %s", size, units[k])) ||
                          strstr(text, arena_printf(&c->arena, "%g%s", size, units[k]))))
            return true;
    }
    return false;
}

static const char *without_separators(struct one_case *c, const char *text)
{
    struct str s = STR_IN(&c->arena);
    for (const char *p = text; *p; p++)
        if (*p != ',' && *p != '_')
            str_addc(&s, *p);
    return str_text(&s);
}

static void check_devices(struct one_case *c, const char *picture, const cJSON *devices)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, devices)
        if (!has_word(picture, arena_printf(&c->arena, "%.0f", e->valuedouble), false))
            wrong(c, "the picture does not name device %.0f", e->valuedouble);
}

static int64_t characters(const char *text)
{
    int64_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void check_said(struct one_case *c, const cJSON *wanted, const char *picture, const char *show)
{
    static const char *const numbers[] = { "tiles", "copies", "padding_elements", "bytes_per_device" };
    const char *text = arena_printf(&c->arena, "%s%s", picture, show), *plain = without_separators(c, text);
    bool collapsed = field_true(wanted, "collapsed");
    const cJSON *e;
    if (!says_dims(c, text, at(wanted, "local")))
        wrong(c, "picture and show do not say the local shape");
    for (size_t k = 0; k < COUNTOF(numbers); k++) {
        if (!at(wanted, numbers[k]) || (k == 0 && !collapsed)) /* a picture shows tiles by drawing them */
            continue;
        if (!says_number(c, text, plain, field_int(wanted, numbers[k]), k == 3))
            wrong(c, "picture and show do not say %s %" PRId64, numbers[k], field_int(wanted, numbers[k]));
    }
    if (field_int(wanted, "padding_elements") > 0 && !strcasestr(text, "pad"))
        wrong(c, "picture and show do not mention padding");
    check_devices(c, picture, at(wanted, "must_name_devices"));
    cJSON_ArrayForEach(e, at(wanted, "devices_of_tile"))
        check_devices(c, picture, e);
    if (collapsed && characters(picture) > MOST_CHARACTERS)
        wrong(c, "not collapsed: %" PRId64 " characters", characters(picture));
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static bool name_char(char ch)
{
    return isalnum((unsigned char)ch) || (ch && strchr("_:.-", ch)) || (unsigned char)ch >= 0x80;
}

/* &amp; &#38; */
static bool entity(const char **p)
{
    const char *q = *p + 1;
    q += *q == '#';
    size_t n = 0;
    while (isalnum((unsigned char)q[n]))
        n++;
    *p = q + n + 1;
    return n > 0 && q[n] == ';';
}

/* The inside of <...> from behind its name on; sets *empty for <a/>. NULL: not well-formed. */
static const char *attributes(const char *p, bool *empty)
{
    for (;;) {
        const char *q = blanks(p);
        *empty = *q == '/';
        if (q[*empty] == '>')
            return q + *empty + 1;
        if (q == p || !name_char(*q))
            return NULL;
        while (name_char(*q))
            q++;
        q = blanks(q);
        if (*q != '=')
            return NULL;
        q = blanks(q + 1);
        char quote = *q;
        if (quote != '"' && quote != '\'')
            return NULL;
        for (q++; *q && *q != quote;) {
            if (*q == '&' ? !entity(&q) : *q++ == '<')
                return NULL;
        }
        if (!*q)
            return NULL;
        p = q + 1;
    }
}

static const char *behind(const char *p, const char *end)
{
    const char *q = strstr(p, end);
    return q ? q + strlen(end) : NULL;
}

/* Well-formed XML: one root, tags in pairs, attributes quoted, entities closed. */
static bool well_formed(struct arena *a, const char *p)
{
    VEC(const char *) open = { 0 };
    int64_t roots = 0;
    while (p && *p) {
        if (*p != '<') {
            if (*p == '&' ? !entity(&p) : (p++, open.n == 0 && !isspace((unsigned char)p[-1])))
                return false;
            continue;
        }
        if (p[1] == '?' || p[1] == '!') {
            p = behind(p, strncmp(p, "<!--", 4) == 0 ? "-->" : strncmp(p, "<![CDATA[", 9) == 0 ? "]]>" : p[1] == '?' ? "?>" : ">");
            continue;
        }
        bool closing = p[1] == '/', empty = false;
        const char *name = p + 1 + closing;
        size_t n = 0;
        while (name_char(name[n]))
            n++;
        if (n == 0)
            return false;
        if (closing) {
            if (open.n == 0 || strncmp(open.v[open.n - 1], name, n) != 0 || name_char(open.v[open.n - 1][n]))
                return false;
            open.n--;
            p = blanks(name + n);
            if (*p++ != '>')
                return false;
            continue;
        }
        roots += open.n == 0;
        p = attributes(name + n, &empty);
        if (!empty)
            vec_push(a, &open, name);
    }
    return p && open.n == 0 && roots == 1;
}

static void check_svg(struct one_case *c, const char *instr)
{
    const char *path = in_folder(c, "picture.svg"), *text;
    const struct answer *a = ask(c, c->model, AS_TEXT, "plot layout %s -o %s", instr, path);
    text = read_text(c, path, NULL);
    if (!text)
        wrong(c, "plot -o SVG: %s", failure(c, a));
    else if (!strstr(text, "<svg") || !well_formed(&c->arena, text))
        wrong(c, "plot -o SVG: not well-formed XML");
}

static void check_mesh(struct one_case *c, const cJSON *as_mesh, const char *instr)
{
    struct str axes = STR_IN(&c->arena), plain = STR_IN(&c->arena);
    const cJSON *e;
    if (!known_fields(c, as_mesh, "as_mesh", " axes spec "))
        return;
    cJSON_ArrayForEach(e, at(as_mesh, "axes"))
        str_addf(&axes, " %s=%.0f", e->string, e->valuedouble);
    const struct answer *a = ask(c, c->model, AS_TEXT, "mesh%s; show %s", str_text(&axes), instr);
    for (const char *p = a->text; *p; p++)
        if (*p != ' ')
            str_addc(&plain, *p);
    if (!strstr(str_text(&plain), field_text(as_mesh, "spec")))
        wrong(c, "with mesh%s it does not say %s", str_text(&axes), field_text(as_mesh, "spec"));
}

void check_draw(struct one_case *c, const cJSON *wanted)
{
    const cJSON **rows;
    struct layout l;
    const char *instr = field_text(wanted, "instr");
    if (!known_fields(c, wanted, "draw",
                      " instr local tiles copies real_rows_per_device padding_elements devices_of_tile bytes_per_device "
                      "must_name_devices collapsed as_mesh "))
        return;
    int64_t n = shown_rows(c, instr, NULL, &rows);
    if (n == 0)
        wrong(c, "%s is not shown", instr);
    if (n <= 0)
        return;
    if (find_layout(c, rows[0], &l))
        check_layout(c, &l, wanted);
    const struct answer *plot = ask(c, c->model, AS_TEXT, "plot layout %s", instr),
                        *show = ask(c, c->model, AS_TEXT, "show %s", instr);
    if (plot->status || !plot->text[0]) {
        wrong(c, "plot layout: %s", failure(c, plot));
        return;
    }
    if (show->status)
        wrong(c, "show %s: %s", instr, failure(c, show));
    check_said(c, wanted, plot->text, show->text);
    check_svg(c, instr);
    if (at(wanted, "as_mesh"))
        check_mesh(c, at(wanted, "as_mesh"), instr);
}
