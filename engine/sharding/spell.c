/* Shardings in the words that users read: axes, PartitionSpec, Shardy, HLO's forms, placements, and the
 * rest of enum spelling. Each printer either says a sharding exactly or gives the reason why it cannot. */
#include <string.h>

#include "sharding/axes.h"

static const char *const names[SPELL_COUNT] = {
    [SPELL_AXES] = "axes",   [SPELL_HLO] = "hlo",         [SPELL_MESH] = "mesh",
    [SPELL_PSPEC] = "pspec", [SPELL_SDY] = "sdy",         [SPELL_LIST] = "list",
    [SPELL_IOTA] = "iota",   [SPELL_NAMED] = "named",     [SPELL_DTENSOR] = "dtensor",
    [SPELL_SBP] = "sbp",     [SPELL_BOOK] = "book",       [SPELL_TYPED] = "typed",
};

/* More devices than this are not listed one by one. */
enum { LIST_MAX = 65536 };

const char *spelling_name(enum spelling how)
{
    return names[how];
}

/* One leaf being spelled. */
struct speller {
    struct shardings *t;
    const struct mesh *m; /* NULL: none is named */
    sharding_id s;
    const struct sharding *x;
    enum spelling how;
    const struct spell_shape *shape; /* NULL: not known */
    struct layout a;                 /* of T, where it is a product of axes */
    struct str *out, *why;
};

static bool cannot(struct speller *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool cannot(struct speller *p, const char *fmt, ...)
{
    va_list ap;
    if (!p->why)
        return false;
    va_start(ap, fmt);
    str_addv(p->why, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

/* Whether a bare word of our own language can be this axis. */
static bool is_plain(const char *name)
{
    if (!name[0] || !strcmp(name, "None") || strstr(name, "UNCONSTRAINED") || !strcmp(name, "_"))
        return false;
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '_' || *c == '.' || *c == '-' || (unsigned char)*c >= 0x80))
            return false;
    return true;
}

/* quote "": bare, in apostrophes where it must be. */
static void print_axis(const struct mesh *m, const struct axis_ref *r, const char *quote,
                       struct str *out)
{
    const char *name = m->axes[r->axis].name, *q = quote;
    if (!*q && !is_plain(name))
        q = "'";
    str_addf(out, "%s%s%s", q, name, q);
    if (r->size != m->axes[r->axis].size)
        str_addf(out, ":(%" PRId64 ")%" PRId64, r->pre, r->size);
}

/* The axes of dimension d; the number of them. */
static int print_axes(const struct mesh *m, const struct layout *a, int d, const char *quote,
                      const char *between, struct str *out)
{
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        if (a->dim[i] != d)
            continue;
        str_adds(out, n++ ? between : "");
        print_axis(m, &a->refs[i], quote, out);
    }
    return n;
}

static int count_axes(const struct layout *a, int d)
{
    int n = 0;
    for (int i = 0; i < a->n; i++)
        n += a->dim[i] == d;
    return n;
}

/* An axis that is used in part only, or NULL. */
static const char *part_of_axis(const struct mesh *m, const struct layout *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->refs[i].size != m->axes[a->refs[i].axis].size)
            return m->axes[a->refs[i].axis].name;
    return NULL;
}

/* [_,(data,model)] or P(None, ('data', 'model')). */
static void print_entries(const struct mesh *m, const struct layout *a, bool python,
                          struct str *out)
{
    for (int d = 0; d < a->rank; d++) {
        int n = count_axes(a, d);
        str_adds(out, d == 0 ? "" : python ? ", " : ",");
        if (n == 0) {
            str_adds(out, python ? "None" : "_");
            continue;
        }
        str_adds(out, n > 1 ? "(" : "");
        print_axes(m, a, d, python ? "'" : "", python ? ", " : ",", out);
        str_adds(out, n > 1 ? ")" : "");
    }
}

static void print_braces(const struct mesh *m, const struct layout *a, const char *quote,
                         const char *between, struct str *out)
{
    str_addc(out, '[');
    for (int d = 0; d < a->rank; d++) {
        str_adds(out, d ? ", {" : "{");
        print_axes(m, a, d, quote, between, out);
        str_addc(out, '}');
    }
    str_addc(out, ']');
}

static void print_mesh_form(const struct shardings *t, const struct mesh *m, struct str *out)
{
    str_adds(out, "mesh[");
    for (int i = 0; i < m->naxes; i++)
        str_addf(out, "%s'%s'=%" PRId64, i ? "," : "", m->axes[i].name, m->axes[i].size);
    str_addc(out, ']');
    if (!order_is_iota(t, m->order)) {
        str_adds(out, ", device_ids=(");
        print_mesh_order(t, m->order, out);
        str_addc(out, ')');
    }
}

static const char *mesh_symbol(const struct mesh *m)
{
    return m->name && m->name[0] ? m->name : "mesh";
}

/* ---- HLO's own forms ------------------------------------------------------------------------------------ */

static bool spell_list(struct speller *p)
{
    int64_t n = order_get(p->t, p->x->tiles.order)->ndevices;
    if (n > LIST_MAX)
        return cannot(p, "a list of %" PRId64 " devices would be too long", n);
    const struct sharding_leaf_note leaf = { .listed = true };
    const struct sharding_note note = { .id = p->s, .nleaves = 1, .leaves = &leaf };
    sharding_print(p->t, p->s, &note, false, p->out);
    return true;
}

static bool spell_hlo(struct speller *p)
{
    size_t before = p->out->n;
    if (p->how == SPELL_LIST && p->x->kind == SHARDING_TILED)
        return spell_list(p);
    sharding_print(p->t, p->s, NULL, false, p->out);
    if (p->how != SPELL_IOTA || p->x->kind != SHARDING_TILED || strstr(p->out->s + before, "<="))
        return true;
    p->out->n = before;
    p->out->s[before] = '\0';
    return cannot(p, "the order of its devices is no reshape and transpose of 0, 1, 2, ...");
}

/* ---- what axes can say ------------------------------------------------------------------------------------ */

/* Fills p->a; R is no axis anywhere, at the rank that is known. */
static bool find_layout(struct speller *p)
{
    const struct mesh *m = p->m;
    if (p->x->kind == SHARDING_REPLICATED) {
        p->a = (struct layout){ .rank = p->shape && p->shape->rank >= 0 ? p->shape->rank : 0 };
        return true;
    }
    if (!m || !m->naxes)
        return cannot(p, "no mesh is named, so there are no axes to name");
    if (sharding_layout(p->t, m, p->s, &p->a))
        return true;
    int64_t n = order_get(p->t, p->x->tiles.order)->ndevices;
    if (n != mesh_devices(m))
        return cannot(p, "it is for %" PRId64 " devices, and the mesh has %" PRId64, n, mesh_devices(m));
    return cannot(p, "its tiles run across the mesh's axes: no product of axes is this sharding");
}

static bool whole_axes(struct speller *p, const char *who)
{
    const char *name = p->m ? part_of_axis(p->m, &p->a) : NULL;
    return !name || cannot(p, "a part of axis %s splits a dimension, and %s no parts of axes", name, who);
}

static bool no_manual(struct speller *p, const char *who)
{
    return count_axes(&p->a, p->a.rank) == 0 ||
           cannot(p, "some of its axes are manual, and %s no word for that", who);
}

/* Dimensions' axes in the order of the mesh, as SBP needs it. */
static bool mesh_order(struct speller *p)
{
    for (int i = 1; i < p->a.n; i++)
        if (p->a.dim[i] == p->a.dim[i - 1] && p->a.refs[i].axis < p->a.refs[i - 1].axis)
            return cannot(p,
                          "axis %s is split further by axis %s, against the order of the mesh, and SBP has no "
                          "word for that",
                          p->m->axes[p->a.refs[i - 1].axis].name, p->m->axes[p->a.refs[i].axis].name);
    return true;
}

/* The dimension that an axis splits, or -1. */
static int dim_of_axis(const struct layout *a, int axis, int *at)
{
    for (int i = 0; i < a->n; i++)
        if (a->refs[i].axis == axis) {
            *at = i;
            return a->dim[i];
        }
    return -1;
}

/* Sizes of later mesh axes that split the same dimension before this one does: the factor of a
 * strided shard. */
static int64_t split_factor(const struct mesh *m, const struct layout *a, int at)
{
    int64_t factor = 1;
    for (int i = 0; i < at; i++)
        if (a->dim[i] == a->dim[at] && a->refs[i].axis > a->refs[at].axis)
            factor *= m->axes[a->refs[i].axis].size;
    return factor;
}

static void print_placements(struct speller *p)
{
    bool sbp = p->how == SPELL_SBP;
    str_addc(p->out, sbp ? '(' : '[');
    for (int k = 0; k < p->m->naxes; k++) {
        int at = 0, d = dim_of_axis(&p->a, k, &at);
        str_adds(p->out, k ? ", " : "");
        int64_t factor = d < 0 ? 1 : split_factor(p->m, &p->a, at);
        if (d < 0)
            str_adds(p->out, sbp ? "B" : "Replicate()");
        else if (factor > 1)
            str_addf(p->out, "_StridedShard(dim=%d, split_factor=%" PRId64 ")", d, factor);
        else
            str_addf(p->out, sbp ? "S(%d)" : "Shard(%d)", d);
    }
    str_addc(p->out, sbp ? ')' : ']');
}

static bool spell_placements(struct speller *p)
{
    const char *who = p->how == SPELL_SBP ? "SBP has" : "DTensor has";
    if (!p->m || !p->m->naxes)
        return cannot(p, "no mesh is named, and there is one entry for each of its axes");
    if (!find_layout(p) || !no_manual(p, who) || !whole_axes(p, who) ||
        (p->how == SPELL_SBP && !mesh_order(p)))
        return false;
    print_placements(p);
    return true;
}

/* X, XY of one-letter axes, {data,model}: what reads back as exactly these. */
static void print_subscript(struct speller *p, int d, int n)
{
    const struct mesh *m = p->m;
    bool letters = true, plain = true;
    char word[MESH_MAX_AXES + 1] = "";
    int k = 0;
    for (int i = 0; i < p->a.n; i++) {
        const char *name = m->axes[p->a.refs[i].axis].name;
        if (p->a.dim[i] != d)
            continue;
        letters &= is_plain(name) && name[1] == '\0' && k < MESH_MAX_AXES;
        plain &= is_plain(name);
        if (letters)
            word[k++] = name[0];
    }
    bool braces = n > 1 ? !letters || mesh_find_axis(m, word, (size_t)k) >= 0 : !plain;
    str_adds(p->out, braces ? "_{" : "_");
    print_axes(m, &p->a, d, "", braces ? "," : "", p->out);
    str_adds(p->out, braces ? "}" : "");
}

static bool spell_book(struct speller *p)
{
    static const char letters[] = "IJKLMNOPQRSTUVWXYZABCDEFGH";
    if (p->x->kind == SHARDING_REPLICATED && (!p->shape || p->shape->rank < 0))
        return cannot(p, "the rank of the array is not known");
    if (!find_layout(p) || !no_manual(p, "A[I_X, J_Y] has") || !whole_axes(p, "A[I_X, J_Y] has"))
        return false;
    if (p->a.rank > (int)sizeof letters - 1)
        return cannot(p, "there are not enough letters for %d dimensions", p->a.rank);
    str_adds(p->out, "A[");
    for (int d = 0; d < p->a.rank; d++) {
        int n = count_axes(&p->a, d);
        str_addf(p->out, "%s%c", d ? ", " : "", letters[d]);
        if (n)
            print_subscript(p, d, n);
    }
    str_addc(p->out, ']');
    return true;
}

static bool spell_typed(struct speller *p)
{
    if (!p->shape || p->shape->rank < 0)
        return cannot(p, "the shape of the array is not known");
    if (!find_layout(p) || !no_manual(p, "types have") || !whole_axes(p, "types have"))
        return false;
    if (p->a.rank != p->shape->rank)
        return cannot(p, "the array has rank %d", p->shape->rank);
    str_addf(p->out, "%s[", p->shape->type);
    for (int d = 0; d < p->a.rank; d++) {
        int n = count_axes(&p->a, d);
        str_addf(p->out, "%s%" PRId64 "%s", d ? "," : "", p->shape->dims[d], n == 0 ? "" : n == 1 ? "@" : "@(");
        print_axes(p->m, &p->a, d, "", ",", p->out);
        str_adds(p->out, n > 1 ? ")" : "");
    }
    str_addc(p->out, ']');
    return true;
}

static bool spell_pspec(struct speller *p)
{
    if (!find_layout(p) || !no_manual(p, "PartitionSpec has") || !whole_axes(p, "PartitionSpec has"))
        return false;
    bool named = p->how == SPELL_NAMED;
    str_adds(p->out, named ? "NamedSharding(" : "");
    if (named)
        str_addf(p->out, "%s, ", p->m ? mesh_symbol(p->m) : "mesh");
    str_adds(p->out, "P(");
    if (p->x->kind == SHARDING_TILED)
        print_entries(p->m, &p->a, true, p->out);
    str_adds(p->out, named ? "))" : ")");
    return true;
}

static bool spell_axes(struct speller *p)
{
    if (p->x->kind == SHARDING_REPLICATED) {
        str_adds(p->out, "replicated");
        return true;
    }
    if (!find_layout(p) || !no_manual(p, "axes have"))
        return false;
    str_addc(p->out, '[');
    if (p->m->name && p->m->name[0])
        str_addf(p->out, "@%s ", p->m->name);
    print_entries(p->m, &p->a, false, p->out);
    str_addc(p->out, ']');
    return true;
}

static bool spell_sdy(struct speller *p)
{
    if (p->x->kind == SHARDING_REPLICATED && (!p->shape || p->shape->rank < 0))
        return cannot(p, "the rank of the array is not known");
    if (!p->m || !p->m->naxes)
        return cannot(p, "no mesh is named, so there are no axes to name");
    if (!find_layout(p) || !no_manual(p, "#sdy.sharding has"))
        return false;
    str_addf(p->out, "#sdy.sharding<@%s, ", mesh_symbol(p->m));
    print_braces(p->m, &p->a, "\"", ", ", p->out);
    str_addc(p->out, '>');
    return true;
}

static bool spell_mesh(struct speller *p)
{
    if (!p->m || !p->m->naxes)
        return cannot(p, "no mesh is named, so there are no axes to name");
    bool tiled = p->x->kind == SHARDING_TILED;
    if (tiled && !find_layout(p))
        return false;
    str_addc(p->out, '{');
    print_mesh_form(p->t, p->m, p->out);
    str_adds(p->out, ", ");
    if (tiled)
        print_braces(p->m, &p->a, "'", ", ", p->out);
    else
        str_adds(p->out, p->x->kind == SHARDING_MANUAL ? "manual" : "replicated");
    if (tiled && count_axes(&p->a, p->a.rank)) {
        str_adds(p->out, ", manual={");
        print_axes(p->m, &p->a, p->a.rank, "'", ", ", p->out);
        str_addc(p->out, '}');
    }
    str_addc(p->out, '}');
    return true;
}

/* ---- leaves and tuples --------------------------------------------------------------------------------------- */

static bool spell_maximal(struct speller *p)
{
    switch (p->how) {
    case SPELL_AXES: str_addf(p->out, "maximal %" PRId64, p->x->device); return true;
    case SPELL_MESH: str_addf(p->out, "{maximal_mesh[device_id=%" PRId64 "]}", p->x->device); return true;
    case SPELL_SDY:
        str_addf(p->out, "#sdy.sharding<mesh<[], device_ids=[%" PRId64 "]>, []>", p->x->device);
        return true;
    case SPELL_HLO:
    case SPELL_LIST:
    case SPELL_IOTA: return spell_hlo(p);
    case SPELL_PSPEC:
    case SPELL_NAMED:
    case SPELL_DTENSOR:
    case SPELL_SBP:
    case SPELL_BOOK:
    case SPELL_TYPED:
    case SPELL_COUNT: break;
    }
    return cannot(p, "it lies on device %" PRId64 " alone, which is no split over axes", p->x->device);
}

/* manual and unknown as a whole. */
static bool spell_word(struct speller *p)
{
    bool manual = p->x->kind == SHARDING_MANUAL;
    switch (p->how) {
    case SPELL_AXES: str_adds(p->out, manual ? "manual" : "unknown"); return true;
    case SPELL_HLO:
    case SPELL_LIST:
    case SPELL_IOTA: return spell_hlo(p);
    case SPELL_MESH:
        if (manual)
            return spell_mesh(p);
        break;
    case SPELL_SDY:
        if (manual)
            return cannot(p, "Shardy says manual by a manual_computation around the operations, not by an "
                             "attribute");
        break;
    case SPELL_PSPEC:
    case SPELL_NAMED:
    case SPELL_DTENSOR:
    case SPELL_SBP:
    case SPELL_BOOK:
    case SPELL_TYPED:
    case SPELL_COUNT: break;
    }
    return cannot(p, manual ? "it is manual: cut already, so that there is no split to say"
                            : "it is unknown, which is no split over axes");
}

static bool spell_tiled(struct speller *p)
{
    if (p->x->ntypes && p->x->types[0] == AXIS_MAXIMAL && p->how != SPELL_HLO && p->how != SPELL_LIST &&
        p->how != SPELL_IOTA)
        return cannot(p, "a trailing axis is maximal, which only HLO's words can say");
    switch (p->how) {
    case SPELL_AXES: return spell_axes(p);
    case SPELL_HLO:
    case SPELL_LIST:
    case SPELL_IOTA: return spell_hlo(p);
    case SPELL_MESH: return spell_mesh(p);
    case SPELL_PSPEC:
    case SPELL_NAMED: return spell_pspec(p);
    case SPELL_SDY: return spell_sdy(p);
    case SPELL_DTENSOR:
    case SPELL_SBP: return spell_placements(p);
    case SPELL_BOOK: return spell_book(p);
    case SPELL_TYPED: return spell_typed(p);
    case SPELL_COUNT: break;
    }
    return false;
}

static bool spell_leaf(struct speller *p)
{
    switch (p->x->kind) {
    case SHARDING_NONE: return cannot(p, "it has no sharding");
    case SHARDING_TILED:
    case SHARDING_REPLICATED: return spell_tiled(p);
    case SHARDING_MAXIMAL: return spell_maximal(p);
    case SHARDING_MANUAL:
    case SHARDING_UNKNOWN: return spell_word(p);
    case SHARDING_TUPLE: break;
    }
    return false;
}

/* How a spelling writes several leaves; NULL: it has no such form. */
static const char *const *tuple_marks(enum spelling how)
{
    static const char *const braces[] = { "{", "}" }, *const python[] = { "(", ")" },
                             *const shardy[] = { "#sdy.sharding_per_value<[", "]>" };
    switch (how) {
    case SPELL_AXES:
    case SPELL_HLO:
    case SPELL_LIST:
    case SPELL_IOTA:
    case SPELL_MESH: return braces;
    case SPELL_PSPEC:
    case SPELL_NAMED: return python;
    case SPELL_SDY: return shardy;
    case SPELL_DTENSOR:
    case SPELL_SBP:
    case SPELL_BOOK:
    case SPELL_TYPED:
    case SPELL_COUNT: break;
    }
    return NULL;
}

/* loose: a leaf that cannot be said comes in HLO's words. */
static bool spell_tuple(struct speller *p, bool loose)
{
    const struct sharding *x = p->x;
    const struct spell_shape *shapes = p->shape;
    const char *const *marks = tuple_marks(p->how);
    if (!marks)
        return cannot(p, "it is a tuple: its leaves have words, one by one");
    str_adds(p->out, marks[0]);
    for (int64_t i = 0; i < x->nelems; i++) {
        str_adds(p->out, i ? ", " : "");
        struct speller leaf = *p;
        leaf.s = x->elems[i];
        leaf.x = sharding_get(p->t, leaf.s);
        leaf.shape = shapes ? &shapes[i] : NULL;
        size_t before = p->out->n, why = p->why ? p->why->n : 0;
        if (spell_leaf(&leaf)) {
            /* inside the list Shardy leaves the attribute's name out */
            if (p->how == SPELL_SDY && !strncmp(p->out->s + before, "#sdy.sharding<", 14)) {
                memmove(p->out->s + before, p->out->s + before + 13, p->out->n - before - 13 + 1);
                p->out->n -= 13;
            }
            continue;
        }
        if (!loose) {
            if (p->why && p->why->n > why)
                str_addf(p->why, " (leaf %" PRId64 ")", i);
            return false;
        }
        if (leaf.x->kind == SHARDING_NONE)
            str_addc(p->out, '-');
        else
            sharding_print(p->t, leaf.s, NULL, false, p->out);
    }
    str_adds(p->out, marks[1][0] == ')' && x->nelems == 1 ? "," : "");
    str_adds(p->out, marks[1]);
    return true;
}

static bool spell(struct speller *p, bool loose)
{
    if (p->x->kind != SHARDING_TUPLE)
        return spell_leaf(p);
    if (p->how == SPELL_HLO) {
        sharding_print(p->t, p->s, NULL, false, p->out);
        return true;
    }
    return spell_tuple(p, loose);
}

bool sharding_spell_as(struct shardings *t, const struct mesh *mesh, sharding_id s, enum spelling how,
                       const struct spell_shape *shapes, struct str *out, struct str *why)
{
    struct speller p = { .t = t, .m = mesh, .s = s, .x = sharding_get(t, s), .how = how, .shape = shapes,
                         .out = out, .why = why };
    size_t before = out->n;
    if (spell(&p, false))
        return true;
    out->n = before; /* nothing of it stays */
    if (out->s)
        out->s[before] = '\0';
    return false;
}

void sharding_spell(struct shardings *t, const struct mesh *mesh, sharding_id s,
                    enum spelling how, struct str *out)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->kind == SHARDING_NONE) {
        str_addc(out, '-');
        return;
    }
    struct speller p = { .t = t, .m = mesh, .s = s, .x = x, .how = how, .out = out };
    if (x->kind == SHARDING_TUPLE && !tuple_marks(how))
        p.how = SPELL_AXES;
    if (x->kind == SHARDING_TUPLE) {
        (void)spell(&p, true);
        return;
    }
    if (sharding_spell_as(t, mesh, s, how, NULL, out, NULL))
        return;
    /* What a type or a letter would need the shape for can be said in axes. */
    if ((how == SPELL_TYPED || how == SPELL_BOOK) &&
        sharding_spell_as(t, mesh, s, SPELL_AXES, NULL, out, NULL))
        return;
    sharding_print(t, s, NULL, false, out);
}
