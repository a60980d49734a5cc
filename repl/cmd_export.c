/* program and export: the partitioned module, and the annotated one, as text. */
#include <string.h>

#include "repl/commands.h"

enum { LARGEST_EXPORT = 10 * 1000 * 1000 };

static const char *global_text(struct call *c, shape_id s)
{
    return shape_text(c, s);
}

static void json_boundary(struct call *c, shape_id shape, sharding_id s)
{
    struct tensor_view v;
    measure_shape(document_ir(c->sh->doc), shape, s, document_devices(c->sh->doc), &v);
    json_open(&c->js, '{');
    json_put_string(&c->js, "global", global_text(c, shape));
    json_put_string(&c->js, "local", shape_text(c, v.local));
    json_put_string(&c->js, "sharding", s.i ? hlo_text(c, s) : "{replicated}");
    json_close(&c->js, '}');
}

/* One output a leaf: nested tuples lie flat, as they do in the files of `run`. */
static void json_outputs(struct call *c, const struct program *p)
{
    struct ir *ir = document_ir(c->sh->doc);
    const struct shape *v = shape_get(ir, p->result_shape);
    const struct sharding *s = sharding_get(ir->shardings, p->result_sharding);
    json_put_open(&c->js, "outputs", '[');
    if (v->kind != SHAPE_TUPLE)
        json_boundary(c, p->result_shape, p->result_sharding);
    for (int64_t k = 0; v->kind == SHAPE_TUPLE && k < v->nleaves; k++)
        json_boundary(c, shape_leaf(ir, p->result_shape, k),
                      s->kind == SHARDING_TUPLE && k < s->nelems ? s->elems[k]
                                                                 : p->result_sharding);
    json_close(&c->js, ']');
}

/* The boundary shardings for the header's frontend_attributes, so that the file alone says how its
 * inputs are cut: gspmd.parameters="{..} {..}", gspmd.outputs="{..}". */
static const char *boundary_attributes(struct call *c, const struct program *p)
{
    struct str s = STR_IN(&c->arena);
    str_adds(&s, "gspmd.parameters=\"");
    for (int64_t k = 0; k < p->nparams; k++)
        str_addf(&s, "%s%s", k ? ";" : "",
                 p->param_sharding[k].i ? hlo_text(c, p->param_sharding[k]) : "{replicated}");
    str_addf(&s, "\",gspmd.outputs=\"%s\"",
             p->result_sharding.i ? hlo_text(c, p->result_sharding) : "{replicated}");
    /* Global shapes of the leaves: without them nobody can cut uneven outputs to size. */
    int64_t leaves = shape_get(document_ir(c->sh->doc), p->result_shape)->nleaves;
    str_adds(&s, ",gspmd.output_shapes=\"");
    for (int64_t k = 0; k < leaves; k++)
        str_addf(&s, "%s%s", k ? ";" : "",
                 shape_text(c, shape_leaf(document_ir(c->sh->doc), p->result_shape, k)));
    str_addc(&s, '"');
    return str_text(&s);
}

int cmd_program(struct call *c)
{
    struct document *doc = c->sh->doc;
    if (document_is_partitioned(doc)) {
        struct str s = STR_IN(&c->arena);
        struct hlo_print_options o = { .no_metadata = true };
        if (!hlo_print(document_module(doc), &o, &s))
            return call_error(c, STATUS_RESOURCE, "limit", "the text is too large");
        if (c->json)
            json_put_string(&c->js, "text", str_text(&s));
        else
            out(c, "%s", str_text(&s));
        return STATUS_OK;
    }
    const struct program *p = document_program(doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct str text = STR_IN(&c->arena);
    struct hlo_print_options o = { .no_metadata = !c->json && !c->all,
                                   .short_form = !c->json,
                                   .max_bytes = LARGEST_EXPORT };
    bool whole = hlo_print(p->module, &o, &text);
    if (c->json) {
        json_put_open(&c->js, "parameters", '[');
        for (int64_t k = 0; k < p->nparams; k++)
            json_boundary(c, p->param_shape[k], p->param_sharding[k]);
        json_close(&c->js, ']');
        json_outputs(c, p);
        if (whole)
            json_put_string(&c->js, "text", str_text(&text));
        else
            json_put_null(&c->js, "text");
        return STATUS_OK;
    }
    if (!whole)
        diag_warn(c->d, NULL, (struct span){ 0, 0 },
                  "cut at %d MB; export program FILE force writes all of it",
                  LARGEST_EXPORT / 1000000);
    int64_t lines = 0, limit = call_rows(c, INT64_MAX);
    const char *at = str_text(&text);
    for (; *at && lines < limit; lines++) {
        const char *nl = strchr(at, '\n');
        size_t n = nl ? (size_t)(nl - at) : strlen(at);
        str_add_safe(&c->out, at, n);
        str_addc(&c->out, '\n');
        at += n + (nl != NULL);
    }
    int64_t left = 0;
    for (; *at; at++)
        left += *at == '\n';
    call_more(c, lines, lines + left, "lines");
    say_best_line(c, p);
    return STATUS_OK;
}

/* ---- export ---------------------------------------------------------------------------------------- */

static int written(struct call *c, const char *path, const struct str *s)
{
    if (!strcmp(path, "-")) {
        if (c->json)
            json_put_string(&c->js, "text", s->s ? s->s : "");
        else
            str_add(&c->out, s->s ? s->s : "", s->n);
        c->verbatim = true;
        return STATUS_OK;
    }
    if (!write_file(c, path, s->s ? s->s : "", s->n))
        return STATUS_RESOURCE;
    if (c->json) {
        json_put_string(&c->js, "file", path);
        json_put_int(&c->js, "bytes", (int64_t)s->n);
    } else if (!c->sh->quiet) {
        out(c, "%s: %s\n", path, nice_bytes(&c->arena, (int64_t)s->n));
    }
    return STATUS_OK;
}

static int export_program(struct call *c, const char *path, bool force)
{
    if (document_is_partitioned(c->sh->doc)) {
        struct str s = STR_IN(&c->arena);
        struct hlo_print_options o = { .max_bytes = 0 };
        return hlo_print(document_module(c->sh->doc), &o, &s)
                   ? written(c, path, &s)
                   : call_error(c, STATUS_RESOURCE, "limit", "the text is too large");
    }
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct hlo_print_options o = { .header_frontend = boundary_attributes(c, p),
                                   .expand_groups = false };
    int64_t size = hlo_print_size(p->module, &o);
    if (size > LARGEST_EXPORT && !force) {
        call_error(c, STATUS_RESOURCE, "limit",
                   "the text would be %s: lists of devices make it so large",
                   nice_bytes(&c->arena, size));
        diag_hint(c->d, "export program %s force", path);
        return STATUS_RESOURCE;
    }
    struct str s = STR_IN(&c->arena);
    if (!hlo_print(p->module, &o, &s))
        return call_error(c, STATUS_RESOURCE, "limit", "the text is too large");
    return written(c, path, &s);
}

/* A module whose shardings after propagation are its own: ids of the loaded module get what stands
 * for them; an instruction inlined at several calls that differ keeps none. */
static const sharding_id *propagated_shardings(struct call *c, const struct module *m)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return NULL;
    sharding_id *list = ARENA_ARRAY(&c->arena, sharding_id, (int64_t)module_ninstrs(m) + 1);
    uint32_t n = module_ninstrs(document_module(c->sh->doc));
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        list[k] = instr_at(m, (instr_id){ k })->sharding;
        if (k > n)
            continue;
        uint32_t first = p->graph->start[k], sites = p->graph->start[k + 1] - first;
        bool same = sites > 0;
        for (uint32_t s = 1; s < sites; s++)
            same &= p->final[p->graph->list[first + s].i].i == p->final[p->graph->list[first].i].i;
        if (same)
            list[k] = p->final[p->graph->list[first].i];
    }
    return list;
}

/* The module that the strategy stands for (language.md section 5). NULL: it has failed. */
static const struct module *annotated_module(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct strategy *s = document_strategy(doc);
    if (s->nannotations == 0 && !s->unshard_module)
        return document_module(doc);
    const struct annotated *a = document_annotated(doc, c->d);
    if (!a)
        return NULL;
    /* Whoever reads it needs the devices that the annotations are for. */
    if (document_mesh(doc))
        a->module->num_partitions = document_devices(doc);
    return a->module;
}

static int export_module(struct call *c, const char *path, bool stablehlo)
{
    const struct module *m = annotated_module(c);
    const sharding_id *shardings = NULL;
    if (!m || (call_option(c, "--propagated") && !(shardings = propagated_shardings(c, m))))
        return call_failed(c);
    struct str text = STR_IN(&c->arena);
    if (stablehlo) {
        struct mlir_print_options o = { .shardings = shardings };
        return mlir_print(m, &o, &text, c->d) ? written(c, path, &text) : call_failed(c);
    }
    struct hlo_print_options o = { .shardings = shardings };
    if (!hlo_print(m, &o, &text))
        return call_error(c, STATUS_RESOURCE, "limit", "the text is too large");
    return written(c, path, &text);
}

static int export_as_strategy(struct call *c, const char *path)
{
    struct str text = STR_IN(&c->arena);
    bool module_form, stablehlo = false;
    int status = export_strategy(c, path, &text, &module_form, &stablehlo);
    if (status)
        return status;
    return module_form ? export_module(c, path, stablehlo) : written(c, path, &text);
}

int cmd_export(struct call *c)
{
    const char *form = c->args[0].text, *path = c->args[1].text;
    bool force = c->n > 2 && !strcmp(c->args[2].text, "force");
    if (c->n > 2 && !force)
        return call_usage(c, 2, "only 'force' can stand here");
    if (!strcmp(form, "program"))
        return export_program(c, path, force || call_option(c, "--force"));
    if (!strcmp(form, "hlo") || !strcmp(form, "stablehlo"))
        return export_module(c, path, form[0] == 's');
    if (!strcmp(form, "strategy"))
        return export_as_strategy(c, path);
    if (!strcmp(form, "session")) {
        struct str s = STR_IN(&c->arena);
        return session_text(c, &s) ? written(c, path, &s) : call_failed(c);
    }
    call_usage(c, 0, "'%s' is no form", form);
    diag_hint(c->d, "export hlo|stablehlo|strategy|program|session FILE");
    return STATUS_USAGE;
}
