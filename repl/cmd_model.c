/* The module itself: load, list, info, where. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

/* ---- load ------------------------------------------------------------------------------------------ */

static void loaded(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    if (c->json) {
        json_put_string(&c->js, "file", document_path(c->sh->doc));
        json_put_string(&c->js, "module", name_text(m->ir, m->name));
        json_put_int(&c->js, "instructions", module_ninstrs(m));
        json_put_int(&c->js, "parameters", entry->nparams);
        json_mesh(c);
        return;
    }
    if (c->sh->quiet)
        return;
    struct str path = STR_IN(&c->arena);
    str_add_safe(&path, document_path(c->sh->doc), strlen(document_path(c->sh->doc)));
    out(c, "%s: %s, %s", str_text(&path), counted(&c->arena, module_ninstrs(m), "instruction"),
        counted(&c->arena, entry->nparams, "parameter"));
    int64_t n = document_devices(c->sh->doc);
    if (n > 0)
        out(c, ", %s", counted(&c->arena, n, "device"));
    if (document_mesh(c->sh->doc))
        out(c, ", mesh %s", mesh_words(c, document_mesh(c->sh->doc)));
    if (document_is_partitioned(c->sh->doc))
        out(c, "; a partitioned program");
    else if (document_propagation_none(c->sh->doc))
        out(c, "; every value has a sharding: they are taken as they stand (propagation=none)");
    out(c, "\n");
}

/* load strategy FILE, load rules FILE: onto the module at hand; load session FILE. */
static int load_onto(struct call *c)
{
    if (!strcmp(c->args[0].text, "session"))
        return load_session(c, c->args[1].text);
    bool rules = !strcmp(c->args[0].text, "rules");
    if (!rules && strcmp(c->args[0].text, "strategy")) {
        call_usage(c, 0, "one file is loaded; 'session', 'strategy' or 'rules' can stand before it");
        return STATUS_USAGE;
    }
    if (!document_module(c->sh->doc)) {
        call_usage(c, 0, "no module is loaded that it could be for");
        diag_hint(c->d, "load FILE");
        return STATUS_USAGE;
    }
    if (c->heredoc && strcmp(c->args[1].text, "-"))
        return call_usage(c, 1, "text behind << is loaded as -: load %s - <<END", c->args[0].text);
    return rules ? load_rules(c, c->args[1].text) : load_strategy(c, c->args[1].text);
}

int cmd_load(struct call *c)
{
    bool ok;
    const char *path = c->args[0].text;
    if (c->n == 2)
        return load_onto(c);
    if (c->heredoc) {
        if (strcmp(path, "-"))
            return call_usage(c, 0, "text behind << is loaded as -: load - <<END");
        ok = document_load_text(c->sh->doc, "<stdin>", c->heredoc, c->heredoc_len, call_tick(c),
                                c->d);
    } else if (c->sh->sealed) {
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    } else {
        if (is_folder(path) && !(path = file_of_folder(c, path)))
            return call_failed(c);
        ok = document_load(c->sh->doc, path, call_tick(c), c->d);
    }
    if (!ok)
        return call_failed(c);
    c->sh->unsaved = false;
    loaded(c);
    return STATUS_OK;
}

/* ---- list ------------------------------------------------------------------------------------------ */

static void list_instr(struct call *c, struct table *t, instr_id i)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, i);
    const char **row = table_row(t);
    row[0] = label_of(c, i);
    row[1] = in->op == OP_CUSTOM_CALL
                 ? arena_printf(&c->arena, "custom-call %s", instr_target(m, in))
                 : op_name((enum op_kind)in->op);
    row[2] = shape_text(c, in->shape);
    struct str s = STR_IN(&c->arena);
    for (uint32_t k = 0; k < in->noperands && s.n < 60; k++)
        str_addf(&s, "%s%s", k ? ", " : "", label_of(c, in->operands[k]));
    if (in->op == OP_PARAMETER && in->comp.i == m->entry.i &&
        strcmp(instr_arg_name(m, i), name_text(m->ir, in->name)))
        str_adds(&s, instr_arg_name(m, i));
    struct str safe = STR_IN(&c->arena);
    str_add_safe(&safe, str_text(&s), s.n);
    row[3] = str_text(&safe);
}

static int list_computations(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    static const char *const heads[] = { "computation", ">instructions", ">parameters", "root",
                                         NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t n = module_ncomps(m), shown = call_rows(c, n);
    if (c->json)
        json_put_open(&c->js, "computations", '[');
    for (uint32_t k = 1; k <= shown; k++) {
        const struct computation *comp = comp_at(m, (comp_id){ k });
        const char *name = name_text(m->ir, comp->name);
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", name);
            json_put_int(&c->js, "instructions", comp->ninstrs);
            json_put_bool(&c->js, "entry", comp->entry);
            json_close(&c->js, '}');
            continue;
        }
        const char **row = table_row(&t);
        struct str s = STR_IN(&c->arena);
        str_add_safe(&s, name, strlen(name));
        row[0] = comp->entry ? arena_printf(&c->arena, "%s (entry)", str_text(&s)) : str_text(&s);
        row[1] = with_commas(&c->arena, comp->ninstrs);
        row[2] = arena_printf(&c->arena, "%u", comp->nparams);
        row[3] = shape_text(c, instr_at(m, comp->root)->shape);
    }
    if (c->json)
        json_close(&c->js, ']');
    table_print(c, &t, true);
    call_more(c, shown, n, "computations");
    return STATUS_OK;
}

int cmd_list(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    if (c->n > 0 && !strcmp(c->args[0].text, "computations"))
        return list_computations(c);
    instr_id *list;
    int64_t n;
    const struct computation *entry = comp_at(m, m->entry);
    if (c->n > 0 && !strcmp(c->args[0].text, "parameters")) {
        n = entry->nparams;
        list = arena_copy(&c->arena, entry->params, n, sizeof *list);
    } else if (c->n > 0) {
        if (!arg_select(c, 0, &list, &n))
            return call_failed(c);
    } else {
        n = entry->ninstrs;
        list = arena_copy(&c->arena, entry->instrs, n, sizeof *list);
    }
    int64_t shown = call_rows(c, n);
    if (c->json) {
        json_put_open(&c->js, "instructions", '[');
        for (int64_t k = 0; k < n; k++) {
            const struct instr *in = instr_at(m, list[k]);
            json_open(&c->js, '{');
            json_put_string(&c->js, "computation", name_text(m->ir, comp_at(m, in->comp)->name));
            json_put_string(&c->js, "name", name_text(m->ir, in->name));
            json_put_string(&c->js, "opcode", op_name((enum op_kind)in->op));
            json_put_string(&c->js, "shape", shape_text(c, in->shape));
            json_put_open(&c->js, "operands", '[');
            for (uint32_t o = 0; o < in->noperands; o++)
                json_string(&c->js, name_text(m->ir, instr_at(m, in->operands[o])->name));
            json_close(&c->js, ']');
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return STATUS_OK;
    }
    static const char *const heads[] = { "name", "op", "shape", "operands", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++)
        list_instr(c, &t, list[k]);
    table_print(c, &t, true);
    call_more(c, shown, n, "instructions");
    return STATUS_OK;
}

/* ---- where ----------------------------------------------------------------------------------------- */

int cmd_where(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    instr_id *list;
    int64_t n;
    if (!arg_select(c, 0, &list, &n))
        return call_failed(c);
    int64_t shown = call_rows(c, n);
    if (c->json)
        json_put_open(&c->js, "places", '[');
    for (int64_t k = 0; k < shown; k++) {
        const struct instr *in = instr_at(m, list[k]);
        const char *file, *op = instr_op_name(m, list[k]);
        int line = 0, source_line = 0;
        bool known = instr_source(m, list[k], &file, &source_line);
        if (in->at.len)
            line = module_line(c, in->at.off);
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "computation", name_text(m->ir, comp_at(m, in->comp)->name));
            json_put_string(&c->js, "name", name_text(m->ir, in->name));
            json_put_string(&c->js, "source_file", known ? file : NULL);
            if (known)
                json_put_int(&c->js, "source_line", source_line);
            json_put_string(&c->js, "op_name", op);
            json_put_int(&c->js, "line", line);
            json_close(&c->js, '}');
            continue;
        }
        struct str safe = STR_IN(&c->arena);
        str_add_safe(&safe, op, strlen(op));
        out(c, "%s  %s%s%s", label_of(c, list[k]),
            known ? place_of(c, list[k]) : "no source line in its metadata", op[0] ? "  " : "",
            str_text(&safe));
        if (line)
            out(c, "  (line %d of the module)", line);
        out(c, "\n");
    }
    if (c->json)
        json_close(&c->js, ']');
    call_more(c, shown, n, "");
    return STATUS_OK;
}

/* ---- info ------------------------------------------------------------------------------------------ */

struct facts {
    int64_t ops[OP_COUNT];
    int64_t elided, unknown, sharding_calls, manual, dynamic, annotated;
    const char *first_elided, *first_unknown;
    const char *targets[4]; /* custom-call targets with no meaning here */
    int ntargets;
    int64_t foreign;
};

static bool known_target(const char *t)
{
    return !strcmp(t, "Sharding") || !strncmp(t, "SPMD", 4) || !strcmp(t, "TopK");
}

static void look(struct call *c, struct facts *f)
{
    const struct module *m = document_module(c->sh->doc);
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        f->ops[i->op]++;
        f->annotated += i->sharding.i != 0;
        f->dynamic += shape_get(m->ir, i->shape)->dynamic != 0;
        if (i->op == OP_CONSTANT && i->literal && i->literal->elided && f->elided++ == 0)
            f->first_elided = name_text(m->ir, i->name);
        const struct attr *odd = instr_attr(i, ATTR_UNKNOWN_KEY);
        if (odd && f->unknown++ == 0)
            f->first_unknown = arena_strndup(&c->arena, odd->text, odd->n < 30 ? odd->n : 30);
        if (i->op != OP_CUSTOM_CALL)
            continue;
        const char *t = instr_target(m, i);
        f->sharding_calls += !strcmp(t, "Sharding");
        f->manual += !strcmp(t, "SPMDFullToShardShape");
        if (known_target(t))
            continue;
        f->foreign++;
        bool seen = false;
        for (int v = 0; v < f->ntargets; v++)
            seen |= !strcmp(f->targets[v], t);
        if (!seen && f->ntargets < 4)
            f->targets[f->ntargets++] = t;
    }
}

struct param_row {
    instr_id id;
    int64_t bytes;
    uint32_t number;
};

static int by_bytes(const void *a, const void *b)
{
    const struct param_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static struct param_row *params_by_bytes(struct call *c, int64_t *n, int64_t *total,
                                         int64_t *annotated)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct param_row *rows = ARENA_ARRAY(&c->arena, struct param_row, entry->nparams);
    *n = 0;
    *total = 0;
    *annotated = 0;
    for (uint32_t k = 0; k < entry->nparams; k++) {
        if (!entry->params[k].i)
            continue;
        const struct instr *i = instr_at(m, entry->params[k]);
        int64_t bytes = shape_get(m->ir, i->shape)->bytes;
        rows[(*n)++] = (struct param_row){ entry->params[k], bytes, k };
        if (bytes < 0 || *total < 0 || !add_ok(*total, bytes, total))
            *total = -1;
        *annotated += i->sharding.i != 0;
    }
    if (*n > 1)
        qsort(rows, (size_t)*n, sizeof *rows, by_bytes);
    return rows;
}

/* What a user should know before trusting the rest: one phrase each. */
static int unusual(struct call *c, const struct facts *f, const char **lines)
{
    struct arena *a = &c->arena;
    struct document *doc = c->sh->doc;
    int n = 0;
    int64_t explicit_orders = shardings_explicit_count(document_ir(doc)->shardings);
    if (document_is_partitioned(doc))
        lines[n++] =
            "a partitioned program: its shapes are one device's, comms lists its collectives";
    if (document_propagation_none(doc))
        lines[n++] = "every value has a sharding: they are taken as they stand (set "
                     "propagation=gspmd infers them anew)";
    if (explicit_orders > 0)
        lines[n++] = arena_printf(
            a, "%" PRId64 " device order%s that no digits describe: slower on large meshes",
            explicit_orders, explicit_orders == 1 ? "" : "s");
    if (f->elided > 0)
        lines[n++] = arena_printf(
            a,
            "%" PRId64
            " constant%s without values, constant({...}) (%s, for one): run and verify invent them",
            f->elided, f->elided == 1 ? "" : "s", f->first_elided);
    if (f->unknown > 0)
        lines[n++] = arena_printf(
            a, "%" PRId64 " instruction%s with attributes that are not known here (%s, for one)",
            f->unknown, f->unknown == 1 ? "" : "s", f->first_unknown);
    if (f->foreign > 0) {
        struct str s = STR_IN(a);
        for (int k = 0; k < f->ntargets; k++) {
            str_adds(&s, k ? ", " : "");
            str_add_safe(&s, f->targets[k], strlen(f->targets[k]));
        }
        lines[n++] = arena_printf(a, "%" PRId64 " custom-call%s without a rule: %s", f->foreign,
                                  f->foreign == 1 ? "" : "s", str_text(&s));
    }
    if (f->manual > 0)
        lines[n++] = arena_printf(a, "%" PRId64 " value%s enter a manual region (shard_map)",
                                  f->manual, f->manual == 1 ? "" : "s");
    if (f->dynamic > 0)
        lines[n++] = arena_printf(a, "%" PRId64 " shape%s with dynamic dimensions", f->dynamic,
                                  f->dynamic == 1 ? "" : "s");
    return n;
}

static int *ops_by_count(struct call *c, const struct facts *f, int *n)
{
    int *order = ARENA_ARRAY(&c->arena, int, OP_COUNT);
    *n = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (!f->ops[op])
            continue;
        int k = (*n)++;
        for (; k > 0 && f->ops[order[k - 1]] < f->ops[op]; k--)
            order[k] = order[k - 1];
        order[k] = op;
    }
    return order;
}

static void info_json(struct call *c, const struct facts *f, const struct param_row *rows,
                      int64_t n, int64_t total, const char *const *lines, int nlines)
{
    struct document *doc = c->sh->doc;
    const struct module *m = document_module(doc);
    loaded(c);
    json_put_int(&c->js, "computations", module_ncomps(m));
    json_put_int(&c->js, "parameter_bytes", total);
    json_put_bool(&c->js, "partitioned", document_is_partitioned(doc));
    json_put_int(&c->js, "annotated", f->annotated);
    json_put_int(&c->js, "sharding_calls", f->sharding_calls);
    json_put_open(&c->js, "parameters_by_bytes", '[');
    for (int64_t k = 0; k < n; k++) {
        const struct instr *i = instr_at(m, rows[k].id);
        json_open(&c->js, '{');
        json_put_string(&c->js, "name", name_text(m->ir, i->name));
        json_put_string(&c->js, "argument", instr_arg_name(m, rows[k].id));
        json_put_string(&c->js, "shape", shape_text(c, i->shape));
        json_put_int(&c->js, "bytes", rows[k].bytes);
        json_put_string(&c->js, "sharding", hlo_text(c, i->sharding));
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
    json_put_open(&c->js, "opcodes", '{');
    int nops, *ops = ops_by_count(c, f, &nops);
    for (int k = 0; k < nops; k++)
        json_put_int(&c->js, op_name((enum op_kind)ops[k]), f->ops[ops[k]]);
    json_close(&c->js, '}');
    json_put_open(&c->js, "unusual", '[');
    for (int k = 0; k < nlines; k++)
        json_string(&c->js, lines[k]);
    json_close(&c->js, ']');
}

static void info_devices(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct module *m = document_module(doc);
    const struct mesh *mesh = document_mesh(doc);
    int64_t n = document_devices(doc);
    if (n <= 0) {
        out(c, "devices      not known; try: mesh data=2 model=4\n");
        return;
    }
    out(c, "devices      %s", with_commas(&c->arena, n));
    if (mesh) {
        out(c, ", mesh %s%s", mesh_words(c, mesh), document_strategy(doc)->mesh_of_module ? ", as the module names it" : "");
    } else {
        out(c, m->num_partitions > 1 ? " (the header's num_partitions)"
                                     : " (by the module's shardings)");
    }
    if (m->replica_count > 1)
        out(c, ", %s replicas of each", with_commas(&c->arena, m->replica_count));
    out(c, "\n");
}

int cmd_info(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct module *m = document_module(doc);
    struct facts *f = ARENA_NEW(&c->arena, struct facts);
    look(c, f);
    int64_t n, total, annotated;
    struct param_row *rows = params_by_bytes(c, &n, &total, &annotated);
    const char *lines[12];
    int nlines = unusual(c, f, lines);
    if (c->json) {
        info_json(c, f, rows, n, total, lines, nlines);
        return STATUS_OK;
    }
    struct str path = STR_IN(&c->arena);
    const char *file = document_path(doc), *base = strrchr(file, '/');
    if (c->sh->blocks && base) /* a report is the same wherever its module lies */
        file = base + 1;
    str_add_safe(&path, file, strlen(file));
    struct str name = STR_IN(&c->arena);
    str_add_safe(&name, name_text(m->ir, m->name), name_len(m->ir, m->name));
    out(c, "module       %s (%s)\n", str_text(&name), str_text(&path));
    out(c, "size         %s in %s\n", counted(&c->arena, module_ninstrs(m), "instruction"),
        counted(&c->arena, module_ncomps(m), "computation"));
    info_devices(c);
    out(c, "annotated    %" PRId64 " of %s, %s; %d by you\n", annotated,
        counted(&c->arena, n, "parameter"), counted(&c->arena, f->sharding_calls, "Sharding call"),
        document_strategy(doc)->nannotations);
    out(c, "parameters   %" PRId64 ", %s in all\n", n, nice_bytes(&c->arena, total));
    static const char *const heads[] = { "", "", "", ">", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = c->all ? n : min_i64(n, 8);
    for (int64_t k = 0; k < shown; k++) {
        const struct instr *i = instr_at(m, rows[k].id);
        const char **row = table_row(&t);
        row[0] = "           ";
        row[1] = tensor_name(c, rows[k].id);
        row[2] = shape_text(c, i->shape);
        row[3] = nice_bytes(&c->arena, rows[k].bytes);
        row[4] = i->sharding.i ? spelled(c, i->sharding) : "";
    }
    table_print(c, &t, false);
    if (shown < n)
        out(c, "             and %s\n", counted(&c->arena, n - shown, "smaller one"));
    for (int k = 0; k < nlines; k++)
        out(c, "%s%s\n", k ? "             " : "unusual      ", lines[k]);
    struct str s = STR_IN(&c->arena);
    int nops, *ops = ops_by_count(c, f, &nops);
    size_t line = 0;
    for (int k = 0; k < nops; k++) {
        const char *item = arena_printf(&c->arena, "%s%s %" PRId64, k ? ", " : "",
                                        op_name((enum op_kind)ops[k]), f->ops[ops[k]]);
        if (c->sh->columns == 0 && s.n - line + strlen(item) > 84) { /* a terminal folds it */
            str_adds(&s, ",\n             ");
            line = s.n;
            item += 2;
        }
        str_adds(&s, item);
    }
    out(c, "opcodes      %s\n", str_text(&s));
    return STATUS_OK;
}
