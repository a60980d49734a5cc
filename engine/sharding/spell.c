/* Shardings in the words that users read: axes, PartitionSpec, Shardy, HLO's two spellings. */
#include <string.h>

#include "sharding/axes.h"

static void print_axis(const struct mesh *m, const struct axis_ref *r, const char *quote,
                       struct str *out)
{
    str_addf(out, "%s%s%s", quote, m->axes[r->axis].name, quote);
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

static bool some_sub_axis(const struct mesh *m, const struct layout *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->refs[i].size != m->axes[a->refs[i].axis].size)
            return true;
    return false;
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

static void spell_tiled(struct shardings *t, const struct mesh *m, sharding_id s,
                        enum spelling how, struct str *out)
{
    struct layout a;
    bool known = m && m->naxes && how != SPELL_HLO && sharding_layout(t, m, s, &a);
    bool manual = known && count_axes(&a, a.rank) > 0;
    if (known && manual && how != SPELL_MESH)
        known = false; /* only the mesh spelling can say manual axes */
    if (known && how == SPELL_PSPEC && some_sub_axis(m, &a))
        known = false;
    if (!known) {
        sharding_print(t, s, NULL, false, out);
        return;
    }
    switch (how) {
    case SPELL_AXES:
        str_addc(out, '[');
        if (m->name && m->name[0])
            str_addf(out, "@%s ", m->name);
        print_entries(m, &a, false, out);
        str_addc(out, ']');
        break;
    case SPELL_PSPEC:
        str_adds(out, "P(");
        print_entries(m, &a, true, out);
        str_addc(out, ')');
        break;
    case SPELL_SDY:
        str_addf(out, "#sdy.sharding<@%s, ", m->name && m->name[0] ? m->name : "mesh");
        print_braces(m, &a, "\"", ", ", out);
        str_addc(out, '>');
        break;
    case SPELL_MESH:
        str_addc(out, '{');
        print_mesh_form(t, m, out);
        str_adds(out, ", ");
        print_braces(m, &a, "'", ", ", out);
        if (manual) {
            str_adds(out, ", manual={");
            print_axes(m, &a, a.rank, "'", ", ", out);
            str_addc(out, '}');
        }
        str_addc(out, '}');
        break;
    case SPELL_HLO: break;
    }
}

static void spell_leaf(struct shardings *t, const struct mesh *m, sharding_id s,
                       enum spelling how, struct str *out)
{
    const struct sharding *x = sharding_get(t, s);
    bool axes = how == SPELL_AXES;
    switch (x->kind) {
    case SHARDING_NONE: str_adds(out, "-"); break;
    case SHARDING_TILED: spell_tiled(t, m, s, how, out); break;
    case SHARDING_REPLICATED:
        if (how == SPELL_MESH && m && m->naxes) {
            str_addc(out, '{');
            print_mesh_form(t, m, out);
            str_adds(out, ", replicated}");
        } else {
            str_adds(out, axes ? "replicated" : how == SPELL_PSPEC ? "P()" : "{replicated}");
        }
        break;
    case SHARDING_MAXIMAL:
        if (how == SPELL_MESH)
            str_addf(out, "{maximal_mesh[device_id=%" PRId64 "]}", x->device);
        else
            str_addf(out, axes ? "maximal %" PRId64 : "{maximal device=%" PRId64 "}", x->device);
        break;
    case SHARDING_MANUAL: str_adds(out, axes ? "manual" : "{manual}"); break;
    case SHARDING_UNKNOWN: str_adds(out, axes ? "unknown" : "{unknown}"); break;
    case SHARDING_TUPLE: break;
    }
}

static void spell_tuple(struct shardings *t, const struct mesh *m, const struct sharding *x,
                        enum spelling how, struct str *out)
{
    bool python = how == SPELL_PSPEC;
    str_addc(out, python ? '(' : '{');
    for (int64_t i = 0; i < x->nelems; i++) {
        str_adds(out, i ? ", " : "");
        spell_leaf(t, m, x->elems[i], how, out);
    }
    str_adds(out, python && x->nelems == 1 ? "," : "");
    str_addc(out, python ? ')' : '}');
}

void sharding_spell(struct shardings *t, const struct mesh *mesh, sharding_id s,
                    enum spelling how, struct str *out)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->kind != SHARDING_TUPLE)
        spell_leaf(t, mesh, s, how, out);
    else if (how == SPELL_HLO)
        sharding_print(t, s, NULL, false, out);
    else
        spell_tuple(t, mesh, x, how, out);
}
