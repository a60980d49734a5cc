/* export strategy: what was decided, as JSON, as PartitionSpecs in Python, or as an annotated module. */
#include <string.h>

#include "repl/strategy_file.h"

enum { DEVICE_LIST_MAX = 4096 };

struct argument {
    instr_id instr;
    sharding_id sharding; /* none: nothing is said */
    const char *origin;   /* user, module, propagated */
};

const char *canonical(struct call *c, sharding_id s)
{
    struct str t = STR_IN(&c->arena);
    if (sharding_spell_as(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, SPELL_AXES, NULL, &t,
                          NULL))
        return str_text(&t);
    return hlo_text(c, s);
}

static const struct annotation *annotation_on(const struct strategy *s, instr_id i)
{
    for (int k = s->nannotations - 1; k >= 0; k--)
        if (s->annotations[k].target.i == i.i && s->annotations[k].leaf < 0 &&
            s->annotations[k].kind != ANNOTATE_CONSTRAIN)
            return &s->annotations[k];
    return NULL;
}

/* What is given for a parameter: by the user, else by the module; with --propagated what it ends with. */
static bool argument_sharding(struct call *c, struct argument *x, bool propagated)
{
    struct document *doc = c->sh->doc;
    const struct strategy *s = document_strategy(doc);
    const struct annotation *a = annotation_on(s, x->instr);
    struct tensor_view v;
    if (propagated) {
        if (!document_view(doc, x->instr, 0, &v, call_tick(c), c->d))
            return false;
        x->sharding = v.sharding;
        x->origin = origin_name((int)v.origin);
    } else if (a) {
        x->sharding = a->kind == ANNOTATE_SHARD ? a->sharding : (sharding_id){ 0 };
        x->origin = "user";
    } else if (!s->unshard_module) {
        x->sharding = instr_at(document_module(doc), x->instr)->sharding;
        x->origin = "module";
    }
    return true;
}

static struct argument *arguments(struct call *c, bool propagated, uint32_t *n)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct argument *list = ARENA_ARRAY(&c->arena, struct argument, (int64_t)entry->nparams + 1);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        list[k].instr = entry->params[k];
        if (!argument_sharding(c, &list[k], propagated))
            return NULL;
    }
    *n = entry->nparams;
    return list;
}

/* The name as it is, for files: argument name, else the instruction's. */
static const char *file_name(struct call *c, instr_id i)
{
    const struct module *m = document_module(c->sh->doc);
    const char *arg = instr_arg_name(m, i);
    return arg[0] ? arg : label_of(c, i);
}

static bool is_parameter(struct call *c, instr_id i)
{
    const struct module *m = document_module(c->sh->doc);
    return instr_at(m, i)->op == OP_PARAMETER && instr_at(m, i)->comp.i == m->entry.i;
}

/* Annotations that are on no whole parameter: constraints, inner values, leaves. */
static bool is_inner(struct call *c, const struct annotation *a)
{
    return !is_parameter(c, a->target) || a->leaf >= 0 || a->kind == ANNOTATE_CONSTRAIN;
}

/* ---- JSON -------------------------------------------------------------------------------------------- */

static void json_meshes(struct call *c, struct json *j)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    json_put_open(j, "meshes", '[');
    for (int k = 0; k < s->nmeshes; k++) {
        const struct mesh *m = &s->meshes[k];
        if (!m->naxes)
            continue;
        json_open(j, '{');
        json_put_string(j, "name", m->name);
        json_put_string(j, "mesh", mesh_words(c, m));
        json_close(j, '}');
    }
    json_close(j, ']');
}

/* With the open dimensions that a constraint has: as typed, where it was. */
static const char *annotation_text(struct call *c, const struct strategy *s, int k)
{
    if (!s->annotations[k].sharding.i)
        return NULL;
    return s->annotations[k].open && s->specs[k] ? s->specs[k] : canonical(c, s->annotations[k].sharding);
}

static void write_json(struct call *c, const struct argument *list, uint32_t n, struct str *text)
{
    static const char *const verbs[] = { "shard", "constrain", "unshard" };
    struct document *doc = c->sh->doc;
    const struct module *m = document_module(doc);
    const struct strategy *s = document_strategy(doc);
    struct json j;
    json_init(&j, &c->arena);
    json_open(&j, '{');
    json_put_string(&j, "gspmd", "strategy");
    json_put_int(&j, "schema", 1);
    json_put_string(&j, "module", name_text(m->ir, m->name));
    json_put_int(&j, "devices", max_i64(document_devices(doc), 1));
    json_meshes(c, &j);
    json_put_open(&j, "arguments", '[');
    for (uint32_t k = 0; k < n; k++) {
        if (!list[k].sharding.i)
            continue;
        json_open(&j, '{');
        json_put_string(&j, "name", file_name(c, list[k].instr));
        json_put_string(&j, "shape", shape_text(c, instr_at(m, list[k].instr)->shape));
        json_put_string(&j, "sharding", canonical(c, list[k].sharding));
        json_put_string(&j, "origin", list[k].origin);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_put_open(&j, "annotations", '[');
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        if (!is_inner(c, a))
            continue;
        json_open(&j, '{');
        json_put_string(&j, "kind", verbs[a->kind]);
        json_put_string(&j, "name", is_parameter(c, a->target) ? file_name(c, a->target) : label_of(c, a->target));
        if (a->leaf >= 0)
            json_put_int(&j, "leaf", a->leaf);
        json_put_string(&j, "sharding", annotation_text(c, s, k));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    str_adds(text, str_text(&j.s));
    str_addc(text, '\n');
}

/* ---- Python -------------------------------------------------------------------------------------------- */

static void python_string(struct str *out, const char *s)
{
    str_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            str_addc(out, '\\');
        if ((unsigned char)*s < 32)
            str_addf(out, "\\x%02x", (unsigned)*s);
        else
            str_addc(out, *s);
    }
    str_addc(out, '"');
}

static void python_tuple(struct str *out, const struct mesh *m, bool names)
{
    str_addc(out, '(');
    for (int k = 0; k < m->naxes; k++) {
        if (names)
            str_addf(out, "%s'%s'", k ? ", " : "", m->axes[k].name);
        else
            str_addf(out, "%s%" PRId64, k ? ", " : "", m->axes[k].size);
    }
    str_adds(out, m->naxes == 1 ? ",)" : ")");
}

static bool python_mesh(struct call *c, const struct mesh *m, struct str *out)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    int64_t n = mesh_devices(m);
    if (order_is_iota(t, m->order)) {
        str_adds(out, "mesh = jax.make_mesh(");
        python_tuple(out, m, false);
        str_adds(out, ", ");
        python_tuple(out, m, true);
        str_adds(out, ")\n");
        return true;
    }
    if (n > DEVICE_LIST_MAX) {
        call_error(c, STATUS_RESOURCE, "limit", "the mesh has an order of its own, and %" PRId64 " devices are too many to list", n);
        return false;
    }
    str_adds(out, "import numpy as np\n\n# The devices in the order that the mesh has here.\nmesh = jax.sharding.Mesh(np.array(jax.devices())[[");
    for (int64_t k = 0; k < n; k++)
        str_addf(out, "%s%" PRId64, k ? ", " : "", order_device(t, m->order, k));
    str_adds(out, "]].reshape");
    python_tuple(out, m, false);
    str_adds(out, ", ");
    python_tuple(out, m, true);
    str_adds(out, ")\n");
    return true;
}

/* The entries of P(..) with P.UNCONSTRAINED where a dimension is open and not split. */
static const char *open_spec(struct call *c, const char *spec, uint64_t open, int rank)
{
    struct str s = STR_IN(&c->arena);
    const char *p = spec + 2; /* behind P( */
    str_adds(&s, "P(");
    for (int d = 0; d < rank; d++) {
        size_t n = *p == '(' ? strcspn(p, ")") + 1 : strcspn(p, ",)");
        bool none = n == 0 || (n == 4 && !memcmp(p, "None", 4));
        str_adds(&s, d ? ", " : "");
        if (none && d < 64 && open >> d & 1)
            str_adds(&s, "P.UNCONSTRAINED");
        else
            str_add(&s, none ? "None" : p, none ? 4 : n);
        p += n;
        p += *p == ',' ? 2 : 0;
    }
    str_addc(&s, ')');
    return str_text(&s);
}

struct python_value {
    const char *name, *remark;
    sharding_id sharding;
    uint64_t open;
    int rank;
};

/* "w1": P(None, 'model'),  # f32[128,512]; what cannot be said so stays a comment. */
static void python_line(struct call *c, const struct python_value *v, struct str *out)
{
    struct str spec = STR_IN(&c->arena), why = STR_IN(&c->arena);
    sharding_id s = v->sharding;
    const char *name = v->name, *remark = v->remark;
    bool ok = sharding_spell_as(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, SPELL_PSPEC, NULL,
                                &spec, &why);
    str_adds(out, ok ? "    " : "    # ");
    python_string(out, name);
    if (ok)
        str_addf(out, ": %s,  # %s\n", v->open ? open_spec(c, str_text(&spec), v->open, v->rank) : str_text(&spec),
                 remark);
    else
        str_addf(out, ": no PartitionSpec: %s; %s  # %s\n", str_text(&why), hlo_text(c, s), remark);
}

static void python_constraints(struct call *c, struct str *out)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    bool any = false;
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        if (!is_inner(c, a) || a->kind == ANNOTATE_UNSHARD)
            continue;
        if (!any)
            str_adds(out, "\n# Values inside the function: jax.lax.with_sharding_constraint(value, "
                          "NamedSharding(mesh, ...)).\nCONSTRAINTS = {\n");
        any = true;
        const char *place = place_of(c, a->target);
        shape_id shape = instr_at(document_module(c->sh->doc), a->target)->shape;
        struct python_value v = { .name = label_of(c, a->target), .sharding = a->sharding, .open = a->open,
                                  .rank = shape_get(document_ir(c->sh->doc), shape)->rank };
        v.remark = arena_printf(&c->arena, "%s%s%s", shape_text(c, shape), place[0] ? ", " : "", place);
        python_line(c, &v, out);
    }
    if (any)
        str_adds(out, "}\n");
}

static bool write_python(struct call *c, const struct argument *list, uint32_t n, struct str *out)
{
    const struct module *m = document_module(c->sh->doc);
    const struct mesh *mesh = document_mesh(c->sh->doc);
    if (!mesh) {
        call_error(c, STATUS_USAGE, "usage", "PartitionSpecs name axes, and no mesh is named");
        diag_hint(c->d, "mesh data=2 model=4; or export strategy FILE.json, which has HLO's words");
        return false;
    }
    str_addf(out, "# Shardings of %s by argument name. In jax.jit: in_shardings=shardings('params', params), ...\n"
                  "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n\n",
             name_text(m->ir, m->name));
    if (!python_mesh(c, mesh, out))
        return false;
    str_adds(out, "\nSPECS = {\n");
    for (uint32_t k = 0; k < n; k++)
        if (list[k].sharding.i)
            python_line(c,
                        &(struct python_value){ .name = file_name(c, list[k].instr), .sharding = list[k].sharding,
                                                .remark = shape_text(c, instr_at(m, list[k].instr)->shape) },
                        out);
    str_adds(out, "}\n");
    python_constraints(c, out);
    str_adds(out, "\n\ndef shardings(name, tree):\n"
                  "    \"\"\"A NamedSharding for each leaf of the argument `name`; what has none is replicated.\"\"\"\n"
                  "    def leaf(path, _):\n"
                  "        return NamedSharding(mesh, SPECS.get(name + jax.tree_util.keystr(path), P()))\n"
                  "    return jax.tree_util.tree_map_with_path(leaf, tree)\n");
    return true;
}

/* ---- the command -------------------------------------------------------------------------------------------- */

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

/* as=FORM, else by the file's name; NULL: neither says it. */
static const char *form_of_file(struct call *c, const char *path)
{
    static const char *const by_name[][2] = { { ".json", "json" }, { ".py", "python" }, { ".hlo", "hlo" },
                                              { ".txt", "hlo" },   { ".mlir", "stablehlo" } };
    const char *as = call_option(c, "as");
    if (as)
        return as;
    for (size_t k = 0; k < COUNTOF(by_name); k++)
        if (ends(path, by_name[k][0]))
            return by_name[k][1];
    return strcmp(path, "-") ? NULL : "json";
}

int export_strategy(struct call *c, const char *path, struct str *text, bool *module_form, bool *stablehlo)
{
    const char *form = form_of_file(c, path);
    *module_form = false;
    if (form && (!strcmp(form, "hlo") || !strcmp(form, "stablehlo"))) {
        *module_form = true;
        *stablehlo = form[0] == 's';
        return STATUS_OK;
    }
    if (!form || (strcmp(form, "json") && strcmp(form, "python"))) {
        call_usage(c, 1, form ? "'%s' is no form of a strategy" : "%s: neither the name nor as= says the form",
                   form ? form : path);
        diag_hint(c->d, "FILE.json, FILE.py, FILE.hlo, FILE.mlir; or as=json|python|hlo|stablehlo");
        return STATUS_USAGE;
    }
    uint32_t n = 0;
    const struct argument *list = arguments(c, call_option(c, "--propagated"), &n);
    if (!list)
        return call_failed(c);
    if (form[0] == 'j')
        write_json(c, list, n, text);
    else if (!write_python(c, list, n, text))
        return call_failed(c);
    return STATUS_OK;
}
