/* show: shardings as they are after propagation. */
#include <string.h>

#include "repl/commands.h"

static const char *removed_word(enum removed_reason r)
{
    switch (r) {
    case REMOVED_NOT: return NULL;
    case REMOVED_DEAD: return "dead";
    case REMOVED_ZERO_SIZED: return "zero-sized";
    case REMOVED_INLINED: return "inlined";
    case REMOVED_REPLACED: return "replaced";
    }
    return NULL;
}

/* "call.49": the innermost call through which this copy came. */
static const char *site_name(struct call *c, const struct propagation *p, uint32_t site)
{
    if (site == 0)
        return NULL;
    const struct module *m = document_module(c->sh->doc);
    return name_text(m->ir, instr_at(m, p->graph->sites[site].call)->name);
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

/* Origins leaf by leaf, where an annotation of single leaves makes them differ. */
static void json_leaf_origins(struct call *c, const struct tensor_view *v)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    const struct shape *shape =
        shape_get(document_ir(c->sh->doc), instr_at(document_module(c->sh->doc), v->instr)->shape);
    bool any = false;
    for (int k = 0; k < s->nannotations; k++)
        any |= s->annotations[k].target.i == v->instr.i && s->annotations[k].leaf >= 0;
    if (!any || shape->kind != SHAPE_TUPLE)
        return;
    json_put_open(&c->js, "leaf_origins", '[');
    for (int64_t leaf = 0; leaf < shape->nleaves; leaf++) {
        bool user = false;
        for (int k = 0; k < s->nannotations; k++)
            user |= s->annotations[k].target.i == v->instr.i && s->annotations[k].leaf == leaf;
        json_string(&c->js, user ? "user"
                                 : origin_name(v->origin == ORIGIN_USER ? ORIGIN_PROPAGATED
                                                                        : (int)v->origin));
    }
    json_close(&c->js, ']');
}

static void json_row(struct call *c, const struct propagation *p, const struct tensor_view *v)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, v->instr);
    json_open(&c->js, '{');
    json_put_string(&c->js, "computation", name_text(m->ir, comp_at(m, in->comp)->name));
    json_put_string(&c->js, "name", name_text(m->ir, in->name));
    json_put_string(&c->js, "opcode",
                    instr_opcode_text(m, in));
    json_put_string(&c->js, "shape", shape_text(c, in->shape));
    json_put_string(&c->js, "sharding", hlo_text(c, v->sharding));
    json_put_string(&c->js, "origin", origin_name((int)v->origin));
    if (v->nsites > 1)
        json_put_string(&c->js, "site", site_name(c, p, v->site));
    if (v->nsites == 0)
        json_put_string(&c->js, "removed",
                        removed_word(v->removed) ? removed_word(v->removed) : "dead");
    if (v->open) {
        json_put_open(&c->js, "open", '[');
        for (int d = 0; d < 64; d++)
            if (v->open >> d & 1)
                json_int(&c->js, d);
        json_close(&c->js, ']');
    }
    json_leaf_origins(c, v);
    json_close(&c->js, '}');
}

static int show_json(struct call *c, const instr_id *list, int64_t n)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    json_mesh(c);
    json_put_open(&c->js, "instructions", '[');
    for (int64_t k = 0; k < n; k++) {
        struct tensor_view v;
        uint32_t site = 0;
        do {
            if (!document_view(c->sh->doc, list[k], site, &v, call_tick(c), c->d))
                return call_failed(c);
            json_row(c, p, &v);
        } while (++site < v.nsites);
    }
    json_close(&c->js, ']');
    return STATUS_OK;
}

/* ---- text ------------------------------------------------------------------------------------------ */

static const char *origin_text(struct call *c, const struct propagation *p,
                               const struct tensor_view *v)
{
    if (v->nsites == 0)
        return arena_printf(&c->arena, "removed: %s",
                            removed_word(v->removed) ? removed_word(v->removed) : "dead");
    if (v->nsites > 1)
        return arena_printf(&c->arena, "%s, in %s", origin_name((int)v->origin),
                            site_name(c, p, v->site));
    return origin_name((int)v->origin);
}

static const char *open_text(struct call *c, const struct tensor_view *v)
{
    if (!v->open)
        return "";
    struct str s = STR_IN(&c->arena);
    for (int d = 0; d < 64; d++)
        if (v->open >> d & 1)
            str_addf(&s, "%s%d", s.n ? "," : " open:", d);
    return str_text(&s);
}

/* Names from where the sharding comes, in words. */
static const char *cause_text(struct call *c, const struct propagation *p,
                              const struct tensor_view *v)
{
    if (v->origin == ORIGIN_USER)
        return "annotated by you";
    if (v->origin == ORIGIN_MODULE)
        return "annotated in the module";
    if (v->origin == ORIGIN_NONE)
        return "nothing reached it: whole on every device";
    struct prop_writes list = prop_writes(p, v->working);
    if (!list.n)
        return "propagated";
    const struct prop_write *w = &list.v[list.n - 1];
    if (!w->cause.i)
        return "propagated";
    return arena_printf(&c->arena, "propagated from %s (why %s tells the way)",
                        working_label(c, p->graph, w->cause), tensor_name(c, v->instr));
}

static void show_card(struct call *c, const struct propagation *p, const struct tensor_view *v)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, v->instr);
    const char *name = tensor_name(c, v->instr), *label = label_of(c, v->instr);
    out(c, "%s%s%s%s = %s\n", name, strcmp(name, label) ? " (" : "",
        strcmp(name, label) ? label : "", strcmp(name, label) ? ")" : "",
        in->op == OP_CUSTOM_CALL ? arena_printf(&c->arena, "custom-call %s", instr_target(m, in))
                                 : op_name((enum op_kind)in->op));
    if (v->nsites == 0) {
        out(c, "  removed before propagation: %s\n",
            removed_word(v->removed) ? removed_word(v->removed) : "dead");
        return;
    }
    if (v->nsites > 1)
        out(c, "  in         %s\n",
            site_name(c, p, v->site) ? site_name(c, p, v->site) : "the entry");
    const char *spell = spelled_of(c, v->sharding, in->shape), *hlo = hlo_text(c, v->sharding);
    out(c, "  sharding   %s%s%s%s\n", v->sharding.i ? spell : "none",
        hlo && strcmp(hlo, spell) ? "   " : "", hlo && strcmp(hlo, spell) ? hlo : "",
        open_text(c, v));
    const struct shape *shape = shape_get(m->ir, in->shape);
    out(c, "  global     %s   %s\n", shape_text(c, in->shape), nice_bytes(&c->arena, shape->bytes));
    out(c, "  local      %s   %s bytes a device", shape_text(c, v->local),
        with_commas(&c->arena, v->bytes));
    if (shape->kind == SHAPE_ARRAY)
        out(c, ", %s tile%s, copies %s", with_commas(&c->arena, v->tiles), v->tiles == 1 ? "" : "s",
            with_commas(&c->arena, v->copies));
    out(c, "\n");
    if (v->padding > 0)
        out(c, "  padding    %s elements in all\n", with_commas(&c->arena, v->padding));
    out(c, "  origin     %s\n", cause_text(c, p, v));
    const char *place = place_of(c, v->instr);
    if (place[0])
        out(c, "  source     %s\n", place);
}

static void show_row(struct call *c, const struct propagation *p, struct table *t,
                     const struct tensor_view *v)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, v->instr);
    bool array = shape_get(m->ir, in->shape)->kind == SHAPE_ARRAY;
    const char **row = table_row(t);
    row[0] = tensor_name(c, v->instr);
    row[1] = op_name((enum op_kind)in->op);
    row[2] = shape_text(c, in->shape);
    row[3] =
        arena_printf(&c->arena, "%s%s", v->nsites ? spelled_of(c, v->sharding, in->shape) : "", open_text(c, v));
    row[4] = v->nsites ? shape_text(c, v->local) : "";
    row[5] = v->nsites && array ? with_commas(&c->arena, v->copies) : "";
    row[6] = v->nsites ? with_commas(&c->arena, v->bytes) : "";
    row[7] = v->padding > 0 ? with_commas(&c->arena, v->padding) : "";
    row[8] = origin_text(c, p, v);
}

/* What the last edit changed, in module order. */
static bool last_changes(struct call *c, instr_id **list, int64_t *n)
{
    const struct propagation *old = document_previous(c->sh->doc, call_tick(c));
    const struct propagation *new = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!new)
        return false;
    *n = 0;
    if (!old)
        return true;
    struct change *changes;
    *n = compare_shardings(c, old, new, &changes);
    *list = ARENA_ARRAY(&c->arena, instr_id, *n);
    for (int64_t k = 0; k < *n; k++)
        (*list)[k] = changes[k].instr;
    return true;
}

/* What reading StableHLO puts around the entry's results: a reshape that carries a result's sharding, the
 * tuple of several results. The text has no operation there, and no name. */
static bool is_frame_of_results(const struct module *m, instr_id i)
{
    const struct instr *in = instr_at(m, i);
    if (in->name.i || in->comp.i != m->entry.i)
        return false;
    return (in->op == OP_RESHAPE && shape_same(m->ir, in->shape, instr_at(m, in->operands[0])->shape)) ||
           (in->op == OP_TUPLE && comp_at(m, m->entry)->root.i == i.i);
}

static void all_instrs(struct call *c, instr_id **list, int64_t *n)
{
    const struct module *m = document_module(c->sh->doc);
    VEC(instr_id) v = { 0 };
    for (uint32_t k = 1; k <= module_ncomps(m); k++) {
        const struct computation *comp = comp_at(m, (comp_id){ k });
        for (uint32_t i = 0; i < comp->ninstrs; i++)
            if (!is_frame_of_results(m, comp->instrs[i]))
                vec_push(&c->arena, &v, comp->instrs[i]);
    }
    *list = v.v;
    *n = v.n;
}

int cmd_show(struct call *c)
{
    instr_id *list = NULL;
    int64_t n = 0;
    if (c->n > 0) {
        instr_id one;
        int64_t leaf;
        if (c->args[0].n && c->args[0].text[c->args[0].n - 1] == '}' &&
            strchr(c->args[0].text, '{')) {
            if (!arg_tensor(c, 0, &one, &leaf))
                return call_failed(c);
            list = arena_copy(&c->arena, &one, 1, sizeof one);
            n = 1;
        } else if (!arg_select(c, 0, &list, &n)) {
            return call_failed(c);
        }
    } else if (c->all || c->json) {
        all_instrs(c, &list, &n);
    } else if (!last_changes(c, &list, &n)) {
        return call_failed(c);
    }
    if (c->json)
        return show_json(c, list, n);
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    if (n == 0) {
        out(c, "the last edit changed no sharding; show T, or show --all\n");
        return STATUS_OK;
    }
    static const char *const heads[] = { "name",    "op",     "global",   "sharding", "local",
                                         ">copies", ">bytes", ">padding", "origin",   NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    int64_t shown = call_rows(c, n);
    bool card = c->n > 0 && n == 1;
    for (int64_t k = 0; k < shown; k++) {
        struct tensor_view v;
        uint32_t site = 0;
        do {
            if (!document_view(c->sh->doc, list[k], site, &v, call_tick(c), c->d))
                return call_failed(c);
            if (v.nsites)
                view_measure(c->sh->doc, &v);
            if (card)
                show_card(c, p, &v);
            else
                show_row(c, p, &t, &v);
        } while (++site < v.nsites);
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "instructions");
    return STATUS_OK;
}

/* ---- propagate ------------------------------------------------------------------------------------- */

/* For developers: which rules fired, and which of them decided something. */
static int show_rules(struct call *c, const struct propagation *p)
{
    enum { MOST = 5000 }; /* instructions of which candidates are found by visiting again */
    static const char *const heads[] = { "rule", ">fired", ">decisive", NULL };
    struct prop_rule_count *rows;
    struct table t;
    int64_t n = prop_rules(p, module_ninstrs(p->graph->module) <= MOST, &c->arena, &rows);
    table_init(&t, &c->arena, heads);
    if (c->json)
        json_put_open(&c->js, "rules", '[');
    for (int64_t k = 0; k < n; k++) {
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "rule", rows[k].name);
            json_put_int(&c->js, "fired", rows[k].fired);
            json_put_int(&c->js, "decisive", rows[k].decisive);
            json_close(&c->js, '}');
        } else if (rows[k].fired || c->all) {
            const char **row = table_row(&t);
            row[0] = rows[k].name;
            row[1] = with_commas(&c->arena, rows[k].fired);
            row[2] = with_commas(&c->arena, rows[k].decisive);
        }
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
    return STATUS_OK;
}

int cmd_propagate(struct call *c)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    if (call_option(c, "--rules"))
        return show_rules(c, p);
    const struct module *m = p->graph->module;
    int64_t sharded = 0, tiled = 0, all = 0;
    int sweeps = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        if (instr_at(m, (instr_id){ k })->flags & INSTR_REMOVED)
            continue;
        all++;
        sharded += p->final[k].i != 0;
        tiled += p->final[k].i && sharding_is_tiled(m->ir->shardings, p->final[k]);
    }
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        for (uint32_t k = 0; k < prop_writes(p, (instr_id){ i }).n; k++)
            if (prop_writes(p, (instr_id){ i }).v[k].time.iteration > sweeps)
                sweeps = prop_writes(p, (instr_id){ i }).v[k].time.iteration;
    if (c->json) {
        json_put_int(&c->js, "instructions", all);
        json_put_int(&c->js, "sharded", sharded);
        json_put_int(&c->js, "split", tiled);
        json_put_int(&c->js, "changes", p->nwrites);
        json_put_bool(&c->js, "changed", p->changed);
        return STATUS_OK;
    }
    if (document_propagation_none(c->sh->doc))
        out(c, "propagation=none: shardings as they stand; ");
    out(c, "%s of %s instructions have a sharding, %s are split; %s changes in %d sweep%s\n",
        with_commas(&c->arena, sharded), with_commas(&c->arena, all), with_commas(&c->arena, tiled),
        with_commas(&c->arena, p->nwrites), sweeps, sweeps == 1 ? "" : "s");
    return STATUS_OK;
}
