/* extract: the smallest piece of the module that still shows a collective, as HLO text of its own; or
 * the piece that a selection names. Every value carries the sharding that it has after propagation,
 * so the piece behaves like the whole. */
#include <string.h>

#include "repl/commands.h"

enum { WIDEST = 4 };

struct piece {
    struct call *c;
    const struct module *m;
    const sharding_id *shardings; /* of loaded instructions, after propagation */
    bool *keep;                   /* [ninstrs + 1] */
    bool *leaf;                   /* stands as a parameter */
    bool *comps;                  /* [ncomps + 1] computations that kept instructions call */
    int64_t kept;
};

/* ---- what belongs to it ---------------------------------------------------------------------------- */

static void mark_called(struct piece *p, comp_id root)
{
    VEC(comp_id) stack = { 0 };
    vec_push(&p->c->arena, &stack, root);
    while (stack.n > 0) {
        comp_id k = stack.v[--stack.n], called[64];
        if (p->comps[k.i])
            continue;
        p->comps[k.i] = true;
        const struct computation *comp = comp_at(p->m, k);
        for (uint32_t v = 0; v < comp->ninstrs; v++) {
            int n = instr_called(p->m, comp->instrs[v], called, 64);
            for (int x = 0; x < n && x < 64; x++)
                vec_push(&p->c->arena, &stack, called[x]);
        }
    }
}

static bool fill(struct piece *p, const instr_id *list, int64_t n)
{
    comp_id home = { 0 }, called[64];
    for (int64_t k = 0; k < n; k++) {
        const struct instr *in = instr_at(p->m, list[k]);
        if (!home.i)
            home = in->comp;
        if (in->comp.i != home.i || in->op == OP_PARAMETER)
            continue;
        p->keep[list[k].i] = true;
        p->kept++;
        int nc = instr_called(p->m, list[k], called, 64);
        for (int x = 0; x < nc && x < 64; x++)
            mark_called(p, called[x]);
    }
    for (uint32_t k = 1; k <= module_ninstrs(p->m); k++)
        for (uint32_t o = 0; p->keep[k] && o < instr_at(p->m, (instr_id){ k })->noperands; o++) {
            instr_id v = instr_at(p->m, (instr_id){ k })->operands[o];
            p->leaf[v.i] |= !p->keep[v.i];
        }
    return p->kept > 0;
}

/* Kept values that nobody kept uses. */
static bool *outputs(struct piece *p)
{
    uint32_t n = module_ninstrs(p->m);
    bool *out_of = ARENA_ARRAY(&p->c->arena, bool, n + 1);
    memcpy(out_of, p->keep, n + 1);
    for (uint32_t k = 1; k <= n; k++)
        for (uint32_t o = 0; p->keep[k] && o < instr_at(p->m, (instr_id){ k })->noperands; o++)
            out_of[instr_at(p->m, (instr_id){ k })->operands[o].i] = false;
    return out_of;
}

/* ---- its text -------------------------------------------------------------------------------------- */

static void add_shape(struct piece *p, shape_id s, struct str *t)
{
    shape_print(p->m->ir, s, true, t);
}

static void add_sharding(struct piece *p, instr_id i, struct str *t)
{
    if (!p->shardings[i.i].i)
        return;
    str_adds(t, ", sharding=");
    sharding_print(p->m->ir->shardings, p->shardings[i.i], NULL, true, t);
}

static void add_called(struct piece *p, const struct hlo_print_options *o, struct str *t)
{
    for (uint32_t k = 1; k <= module_ncomps(p->m); k++) {
        const struct computation *comp = comp_at(p->m, (comp_id){ k });
        if (!p->comps[k])
            continue;
        str_addf(t, "%s {\n", name_text(p->m->ir, comp->name));
        for (uint32_t v = 0; v < comp->ninstrs; v++) {
            struct str line = STR_IN(t->arena);
            hlo_print_instr(p->m, comp->instrs[v], o, &line);
            bool root = comp->instrs[v].i == comp->root.i;
            bool marked = !strncmp(str_text(&line), "ROOT ", 5);
            str_addf(t, "  %s%s\n", root && !marked ? "ROOT " : "", str_text(&line));
        }
        str_adds(t, "}\n\n");
    }
}

static void text_of(struct piece *p, struct str *t)
{
    struct hlo_print_options o = { .shardings = p->shardings };
    const struct module *m = p->m;
    const bool *out_of = outputs(p);
    struct str tuple = STR_IN(t->arena), shapes = STR_IN(t->arena), sharding = STR_IN(t->arena);
    int64_t number = 0;
    str_addf(t, "HloModule piece, num_partitions=%" PRId64 "\n\n",
             max_i64(document_devices(p->c->sh->doc), 1));
    add_called(p, &o, t);
    str_adds(t, "ENTRY extracted {\n");
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        instr_id i = { k };
        if (p->leaf[k]) {
            str_addf(t, "  %s = ", name_text(m->ir, instr_at(m, i)->name));
            add_shape(p, instr_at(m, i)->shape, t);
            str_addf(t, " parameter(%" PRId64 ")", number++);
            add_sharding(p, i, t);
            str_addc(t, '\n');
        }
    }
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        instr_id i = { k };
        if (!p->keep[k])
            continue;
        struct str line = STR_IN(t->arena);
        hlo_print_instr(m, i, &o, &line);
        const char *text = str_text(&line);
        str_addf(t, "  %s\n", !strncmp(text, "ROOT ", 5) ? text + 5 : text);
        if (!out_of[k])
            continue;
        str_addf(&tuple, "%s%s", tuple.n ? ", " : "", name_text(m->ir, instr_at(m, i)->name));
        str_adds(&shapes, shapes.n ? ", " : "");
        add_shape(p, instr_at(m, i)->shape, &shapes);
        str_adds(&sharding, sharding.n ? ", " : "");
        if (p->shardings[k].i)
            sharding_print(m->ir->shardings, p->shardings[k], NULL, true, &sharding);
        else
            str_adds(&sharding, "{replicated}");
    }
    str_addf(t, "  ROOT piece.results = (%s) tuple(%s), sharding={%s}\n}\n", str_text(&shapes),
             str_text(&tuple), str_text(&sharding));
}

/* ---- does it still show it ------------------------------------------------------------------------- */

static int64_t count_kind(const struct collective *list, int64_t n, enum op_kind kind, int64_t bytes)
{
    int64_t found = 0;
    for (int64_t k = 0; k < n; k++)
        found += list[k].kind == kind && list[k].trip_count > 0 &&
                 list[k].bytes / list[k].trip_count == bytes;
    return found;
}

static bool shows(struct call *c, const struct str *text, enum op_kind kind, int64_t bytes)
{
    struct document *doc = document_new();
    const struct collective *list;
    int64_t n, total;
    struct options o = document_strategy(c->sh->doc)->options;
    struct diag *d = diag_new();
    o.to_output = o.to_parameters = -1;
    o.propagation_set = o.propagation_none = true;
    bool found = document_load_text(doc, "<piece>", text->s, text->n, call_tick(c), d) &&
                 edit_options(doc, &o, "", d) &&
                 document_collectives(doc, &list, &n, &total, call_tick(c), d) &&
                 count_kind(list, n, kind, bytes) > 0;
    diag_free(d);
    document_free(doc);
    return found;
}

static bool piece_text(struct call *c, const sharding_id *shardings, const char *selection,
                       struct str *text, int64_t *kept)
{
    const struct module *m = document_module(c->sh->doc);
    struct source src = { .name = "<selection>", .text = selection, .len = strlen(selection) };
    struct piece p = { .c = c, .m = m, .shardings = shardings };
    instr_id *list;
    int64_t n;
    p.keep = ARENA_ARRAY(&c->arena, bool, module_ninstrs(m) + 1);
    p.leaf = ARENA_ARRAY(&c->arena, bool, module_ninstrs(m) + 1);
    p.comps = ARENA_ARRAY(&c->arena, bool, module_ncomps(m) + 1);
    if (!select_instrs(c->sh->doc, selection, src.len, &src, 0, false, &c->arena, &list, &n, c->d))
        return false;
    if (!fill(&p, list, n))
        return diag_error(c->d, NULL, (struct span){ 0 }, "only parameters are selected");
    text_of(&p, text);
    *kept = p.kept;
    return true;
}

/* ---- the command ----------------------------------------------------------------------------------- */

static const sharding_id *final_shardings(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    sharding_id *v = ARENA_ARRAY(&c->arena, sharding_id, module_ninstrs(m) + 1);
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        struct tensor_view view;
        if (!document_view(c->sh->doc, (instr_id){ k }, 0, &view, call_tick(c), c->d))
            return NULL;
        v[k] = view.sharding;
    }
    return v;
}

/* The collective of that name, and the loaded instruction that it serves. */
static const struct collective *named_collective(struct call *c, instr_id *served)
{
    const struct collective *list;
    int64_t n, total;
    const struct program *p = document_program(c->sh->doc, call_tick(c), NULL);
    if (!p || !document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), NULL))
        return NULL;
    for (int64_t k = 0; k < n; k++)
        if (!strcmp(collective_label(c, p->module, &list[k]), c->args[0].text) ||
            !strcmp(name_text(p->module->ir, instr_at(p->module, list[k].instr)->name),
                    c->args[0].text)) {
            *served = served_by(c, p, list[k].instr);
            return served->i ? &list[k] : NULL;
        }
    return NULL;
}

static int written(struct call *c, const struct str *text, int64_t kept, const char *what)
{
    const char *path = c->args[1].text;
    if (!strcmp(path, "-")) {
        c->verbatim = true;
        str_add(&c->out, text->s, text->n);
        return STATUS_OK;
    }
    if (!write_file(c, path, text->s, text->n))
        return STATUS_RESOURCE;
    if (c->json) {
        json_put_string(&c->js, "file", path);
        json_put_int(&c->js, "instructions", kept);
    } else if (!c->sh->quiet) {
        out(c, "%s: %s%s\n", path, counted(&c->arena, kept, "instruction"), what);
    }
    return STATUS_OK;
}

int cmd_extract(struct call *c)
{
    instr_id served = { 0 };
    const struct collective *k = named_collective(c, &served);
    const sharding_id *shardings = final_shardings(c);
    struct str text = STR_IN(&c->arena);
    int64_t kept;
    if (!shardings)
        return call_failed(c);
    if (!k)
        return piece_text(c, shardings, c->args[0].text, &text, &kept)
                   ? written(c, &text, kept, "")
                   : call_failed(c);
    enum op_kind kind = k->kind;
    int64_t bytes = k->trip_count > 0 ? k->bytes / k->trip_count : k->bytes;
    struct str label = STR_IN(&c->arena);
    instr_label(document_module(c->sh->doc), served, false, &label);
    for (int wide = 0; wide <= WIDEST; wide++) {
        const char *s = wide == 0 ? str_text(&label)
                                  : arena_printf(&c->arena, "in(%s,%d),out(%s,%d)", str_text(&label),
                                                 wide, str_text(&label), wide > 1);
        text.n = 0;
        if (!piece_text(c, shardings, s, &text, &kept))
            return call_failed(c);
        if (shows(c, &text, kind, bytes))
            return written(c, &text, kept, ", and the collective is still there");
    }
    return call_error(c, STATUS_DIFFERS, "differs",
                      "%s does not come back in any small piece of the module: it serves more than "
                      "its neighbours",
                      c->args[0].text);
}
