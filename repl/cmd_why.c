/* why: from a sharding back to the annotations. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

static const char *rule_word(int rule)
{
    switch ((enum prop_rule)rule) {
    case RULE_NONE: return "none";
    case RULE_ANNOTATION: return "annotation";
    case RULE_FORWARD: return "forward";
    case RULE_BACKWARD: return "backward";
    case RULE_GROUP: return "group";
    case RULE_RELATED: return "related";
    case RULE_OPEN_FORWARD: return "open forward";
    case RULE_OPEN_BACKWARD: return "open backward";
    case RULE_MANUAL: return "manual";
    case RULE_UNKNOWN: return "unknown";
    case RULE_ALIGN: return "align";
    case RULE_RESTORE: return "restored";
    case RULE_EVEN: return "not even";
    case RULE_ANNOTATION_OPERAND: return "operand of an annotation";
    }
    return "?";
}

/* The command or the line that annotated an instruction of the working graph; NULL: neither did. */
const char *annotated_by(struct call *c, const struct propagation *p, instr_id w)
{
    struct document *doc = c->sh->doc;
    int k = document_annotation_of(doc, w, c->d);
    const struct strategy *s = document_strategy(doc);
    if (k >= 0 && k < s->nannotations)
        return arena_printf(&c->arena, "your %s %s %s", s->annotations[k].kind == ANNOTATE_CONSTRAIN ? "constrain" : "shard",
                            tensor_name(c, s->annotations[k].target), s->specs[k] ? s->specs[k] : "");
    if (!prop_given(p, w).i)
        return NULL;
    const struct module *m = document_module(doc);
    instr_id source = p->graph->origin[w.i].source;
    int line = 0;
    if (source.i && source.i <= module_ninstrs(m) && instr_at(m, source)->at.len)
        line = module_line(c, instr_at(m, source)->at.off);
    return line ? arena_printf(&c->arena, "the module, line %d", line) : "the module";
}

instr_id loaded_of(struct call *c, const struct propagation *p, instr_id w)
{
    instr_id source = p->graph->origin[w.i].source;
    return source.i && source.i <= module_ninstrs(document_module(c->sh->doc)) ? source : (instr_id){ 0 };
}

const char *place_of_working(struct call *c, const struct propagation *p, instr_id w)
{
    return place_of(c, loaded_of(c, p, w));
}

/* ---- the chain -------------------------------------------------------------------------------------- */

void json_write(struct call *c, const struct propagation *p, instr_id w, const struct prop_write *write,
                const char *rule_text)
{
    json_put_string(&c->js, "instruction", working_label(c, p->graph, w));
    json_put_string(&c->js, "opcode", op_name((enum op_kind)instr_at(p->graph->module, w)->op));
    json_put_string(&c->js, "before", hlo_text(c, write->before));
    json_put_string(&c->js, "after", hlo_text(c, write->after));
    json_put_string(&c->js, "rule", rule_word(write->rule));
    json_put_string(&c->js, "text", rule_text);
    json_put_string(&c->js, "from", write->cause.i ? working_label(c, p->graph, write->cause) : NULL);
    json_put_int(&c->js, "stage", write->time.stage);
    json_put_int(&c->js, "sweep", write->time.iteration);
    const char *place = place_of_working(c, p, w);
    if (place[0])
        json_put_string(&c->js, "source", place);
    if (write->rule == RULE_ANNOTATION)
        json_put_string(&c->js, "annotated_by", annotated_by(c, p, w));
}

static void json_step(struct call *c, const struct propagation *p, const struct why_step *s)
{
    json_open(&c->js, '{');
    json_write(c, p, s->instr, &s->write, s->rule_text);
    json_close(&c->js, '}');
}

const char *cause_words(struct call *c, const struct propagation *p, instr_id w, const struct prop_write *write,
                        const char *rule_text)
{
    const char *by = write->rule == RULE_ANNOTATION ? annotated_by(c, p, w) : NULL;
    struct str words = STR_IN(&c->arena);
    if (by)
        str_addf(&words, "annotated by %s", by);
    else if (write->cause.i)
        str_addf(&words, "from %s: ", working_label(c, p->graph, write->cause));
    if (!by && rule_text)
        str_adds(&words, rule_text);
    return str_text(&words);
}

static void say_step(struct call *c, const struct propagation *p, struct table *t, const struct why_step *s)
{
    const char **row = table_row(t);
    row[0] = working_label(c, p->graph, s->instr);
    row[1] = op_name((enum op_kind)instr_at(p->graph->module, s->instr)->op);
    row[2] = spelled(c, s->write.after.i ? s->write.after : p->final[s->instr.i]);
    row[3] = cause_words(c, p, s->instr, &s->write, s->rule_text);
    row[4] = place_of_working(c, p, s->instr);
}

/* Candidates that were offered at the instruction's last visit that wrote, and lost. */
static int64_t say_losers(struct call *c, const struct propagation *p, instr_id w, bool json)
{
    int64_t lost = 0;
    for (uint32_t k = 0; k < prop_writes(p, w).n; k++) {
        struct why_candidate *list;
        int n = why_candidates(p, w, &prop_writes(p, w).v[k], &c->arena, &list);
        for (int v = 0; v < n; v++) {
            if (list[v].taken || !list[v].offered.i || list[v].offered.i == p->final[w.i].i)
                continue;
            bool again = false;
            for (int u = 0; u < v; u++)
                again |= !list[u].taken && list[u].from.i == list[v].from.i && list[u].offered.i == list[v].offered.i;
            if (again)
                continue;
            if (json) {
                json_open(&c->js, '{');
                json_put_string(&c->js, "from", working_label(c, p->graph, list[v].from));
                json_put_string(&c->js, "offered", hlo_text(c, list[v].offered));
                json_put_string(&c->js, "reason", list[v].reason);
                json_close(&c->js, '}');
            } else {
                out(c, "%s%s offered %s%s%s\n", lost ? "            " : "lost:       ", working_label(c, p->graph, list[v].from),
                    spelled(c, list[v].offered), list[v].reason ? ": " : "", list[v].reason ? list[v].reason : "");
            }
            if (++lost >= 8)
                return lost;
        }
    }
    return lost;
}

/* ---- what could be tried ------------------------------------------------------------------------------ */

struct cone {
    instr_id *params;
    int n;
};

static int by_size(const struct module *m, instr_id a, instr_id b)
{
    int64_t x = shape_get(m->ir, instr_at(m, a)->shape)->bytes, y = shape_get(m->ir, instr_at(m, b)->shape)->bytes;
    return x < y ? 1 : x > y ? -1 : a.i < b.i ? -1 : a.i > b.i;
}

/* Whole entry parameters (and other whole sources) that w is made from, the largest first. */
static struct cone whole_sources(struct call *c, const struct propagation *p, instr_id w)
{
    const struct module *m = p->graph->module;
    uint8_t *seen = ARENA_ARRAY(&c->arena, uint8_t, (int64_t)module_ninstrs(m) + 1);
    VEC(instr_id) queue = { 0 };
    VEC(instr_id) found = { 0 };
    vec_push(&c->arena, &queue, w);
    seen[w.i] = 1;
    for (int64_t q = 0; q < queue.n; q++) {
        const struct instr *in = instr_at(m, queue.v[q]);
        const struct shape *v = shape_get(m->ir, in->shape);
        if (in->op == OP_PARAMETER && in->comp.i == m->entry.i && v->kind == SHAPE_ARRAY && v->rank > 0 &&
            !(p->final[queue.v[q].i].i && sharding_is_tiled(m->ir->shardings, p->final[queue.v[q].i]))) {
            int64_t k = found.n;
            vec_push(&c->arena, &found, queue.v[q]);
            for (; k > 0 && by_size(m, found.v[k - 1], queue.v[q]) > 0; k--)
                found.v[k] = found.v[k - 1];
            found.v[k] = queue.v[q];
        }
        for (uint32_t k = 0; k < in->noperands; k++)
            if (!seen[in->operands[k].i]) {
                seen[in->operands[k].i] = 1;
                vec_push(&c->arena, &queue, in->operands[k]);
            }
    }
    return (struct cone){ found.v, (int)found.n };
}

/* A sharding of the array that divides: the first dimension that an axis of the mesh fits, or all
 * devices where there is no mesh. */
static const char *propose(struct call *c, instr_id loaded)
{
    const struct module *m = document_module(c->sh->doc);
    const struct shape *v = shape_get(m->ir, instr_at(m, loaded)->shape);
    const struct mesh *mesh = document_mesh(c->sh->doc);
    int64_t n = document_devices(c->sh->doc);
    struct str s = STR_IN(&c->arena);
    for (int d = 0; d < v->rank; d++) {
        if (mesh) {
            for (int k = 0; k < mesh->naxes; k++) {
                if (mesh->axes[k].size < 2 || v->dims[d] % mesh->axes[k].size != 0)
                    continue;
                str_addc(&s, '[');
                for (int e = 0; e < v->rank; e++)
                    str_addf(&s, "%s%s", e ? "," : "", e == d ? mesh->axes[k].name : "_");
                str_addc(&s, ']');
                return str_text(&s);
            }
            continue;
        }
        if (n < 2 || v->dims[d] % n != 0)
            continue;
        str_adds(&s, "{devices=[");
        for (int e = 0; e < v->rank; e++)
            str_addf(&s, "%s%" PRId64, e ? "," : "", e == d ? n : 1);
        str_addf(&s, "]<=[%" PRId64 "]}", n);
        return str_text(&s);
    }
    return NULL;
}

/* An operation that the partitioner knows nothing of: what its users can do about it. */
static const char *opaque_advice(struct call *c, const struct propagation *p, instr_id w)
{
    const struct module *m = p->graph->module;
    const struct instr *in = instr_at(m, w);
    if (in->op != OP_CUSTOM_CALL)
        return NULL;
    const char *t = instr_target(m, in);
    if (!strcmp(t, "Sharding") || !strncmp(t, "SPMD", 4) || !strcmp(t, "TopK"))
        return NULL;
    struct str safe = STR_IN(&c->arena);
    str_add_safe(&safe, t, strlen(t));
    return arena_printf(&c->arena, "%s is opaque: no partition rule says how it splits. Call it per device in a manual region "
                        "(shard_map), or give it a custom partitioning", str_text(&safe));
}

static void say_advice(struct call *c, const struct propagation *p, instr_id w)
{
    VEC(const char *) lines = { 0 };
    const char *opaque = opaque_advice(c, p, w);
    if (opaque)
        vec_push(&c->arena, &lines, opaque);
    const struct module *m = p->graph->module;
    bool split = p->final[w.i].i && sharding_is_tiled(m->ir->shardings, p->final[w.i]);
    if (!split && document_devices(c->sh->doc) != 1) {
        struct cone from = whole_sources(c, p, w);
        for (int k = 0; k < from.n && k < 2; k++) {
            instr_id loaded = loaded_of(c, p, from.params[k]);
            const char *spec = loaded.i ? propose(c, loaded) : NULL;
            if (spec)
                vec_push(&c->arena, &lines, arena_printf(&c->arena, "shard %s %s", tensor_name(c, loaded), spec));
        }
    }
    if (c->json) {
        json_put_open(&c->js, "suggestions", '[');
        for (int64_t k = 0; k < lines.n; k++)
            json_string(&c->js, lines.v[k]);
        json_close(&c->js, ']');
        return;
    }
    for (int64_t k = 0; k < lines.n; k++)
        out(c, "%s%s\n", k ? "            " : "try:        ", lines.v[k]);
}

/* The boundary is closed unless the header or an option opens it: the usual reason for a whole output. */
static const char *closed_boundary(struct call *c, instr_id loaded, instr_id w, const struct propagation *p)
{
    const struct module *m = document_module(c->sh->doc);
    if (document_annotation_of(c->sh->doc, w, NULL) >= 0 || prop_given(p, w).i ||
        document_may_change(c->sh->doc, loaded, -1))
        return NULL;
    bool root = loaded.i == comp_at(m, m->entry)->root.i;
    return arena_printf(&c->arena, "%s get no sharding from propagation here (allow_spmd_sharding_propagation_to_%s); set to_%s=true lets it",
                        root ? "outputs" : "parameters", root ? "output" : "parameters", root ? "output" : "parameters");
}

static void say_operands(struct call *c, const struct propagation *p, instr_id w)
{
    const struct instr *in = instr_at(p->graph->module, w);
    for (uint32_t k = 0; k < in->noperands && k < 6; k++)
        out(c, "%s%s  %s\n", k ? "            " : "operands:   ", working_label(c, p->graph, in->operands[k]),
            p->final[in->operands[k].i].i ? spelled(c, p->final[in->operands[k].i]) : "no sharding");
}

/* Dimensions that are split: each may have come its own way. */
static int split_dims(struct call *c, const struct tensor_view *v, int *dims, int most)
{
    struct ir *ir = document_ir(c->sh->doc);
    const struct shape *shape = shape_get(ir, instr_at(document_module(c->sh->doc), v->instr)->shape);
    int n = 0;
    if (shape->kind != SHAPE_ARRAY || !v->sharding.i || sharding_get(ir->shardings, v->sharding)->kind != SHARDING_TILED)
        return 0;
    for (int d = 0; d < shape->rank && n < most; d++)
        if (sharding_tile(ir->shardings, v->sharding, d) > 1)
            dims[n++] = d;
    return n;
}

static void json_chain(struct call *c, const struct propagation *p, const struct tensor_view *v, int dim)
{
    struct why_step *steps;
    int n = why_chain(p, v->working, dim, &c->arena, &steps);
    json_put_open(&c->js, "chain", '[');
    for (int k = 0; k < n; k++)
        json_step(c, p, &steps[k]);
    json_close(&c->js, ']');
}

static void json_why(struct call *c, const struct propagation *p, const struct tensor_view *v, int dim)
{
    const struct module *m = document_module(c->sh->doc);
    json_open(&c->js, '{');
    json_put_string(&c->js, "name", name_text(m->ir, instr_at(m, v->instr)->name));
    json_put_string(&c->js, "sharding", hlo_text(c, v->sharding));
    json_put_string(&c->js, "origin", origin_name((int)v->origin));
    json_chain(c, p, v, dim);
    int dims[16];
    int n = dim < 0 ? split_dims(c, v, dims, 16) : 0;
    if (n > 1) {
        json_put_open(&c->js, "by_dimension", '[');
        for (int k = 0; k < n; k++) {
            json_open(&c->js, '{');
            json_put_int(&c->js, "dimension", dims[k]);
            json_chain(c, p, v, dims[k]);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
    }
    json_put_open(&c->js, "lost", '[');
    say_losers(c, p, v->working, true);
    json_close(&c->js, ']');
    say_advice(c, p, v->working);
    json_close(&c->js, '}');
}

static bool same_chain(const struct why_step *a, int na, const struct why_step *b, int nb)
{
    if (na != nb)
        return false;
    for (int k = 0; k < na; k++)
        if (a[k].instr.i != b[k].instr.i || a[k].write.cause.i != b[k].write.cause.i)
            return false;
    return true;
}

static void say_chain(struct call *c, const struct propagation *p, const struct why_step *steps, int n)
{
    static const char *const heads[] = { "", "", "", "", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int k = 0; k < n; k++)
        say_step(c, p, &t, &steps[k]);
    table_print(c, &t, false);
}

/* One chain, or one for each split dimension where their ways part. */
static int say_chains(struct call *c, const struct propagation *p, const struct tensor_view *v, int dim)
{
    int dims[16], len[16], n = dim < 0 ? split_dims(c, v, dims, 16) : 0;
    struct why_step *steps[16];
    bool part = false;
    for (int k = 0; k < n; k++) {
        len[k] = why_chain(p, v->working, dims[k], &c->arena, &steps[k]);
        part |= !same_chain(steps[0], len[0], steps[k], len[k]);
    }
    if (n < 2 || !part) {
        n = why_chain(p, v->working, dim, &c->arena, &steps[0]);
        say_chain(c, p, steps[0], n);
        return n;
    }
    for (int k = 0; k < n; k++) {
        out(c, "dimension %d\n", dims[k]);
        say_chain(c, p, steps[k], len[k]);
    }
    return 1;
}

static bool why_one(struct call *c, const struct propagation *p, const struct tensor_view *v, int dim)
{
    if (c->json) {
        json_why(c, p, v, dim);
        return true;
    }
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, v->instr);
    const char *hlo = hlo_text(c, v->sharding), *spell = v->sharding.i ? spelled(c, v->sharding) : "no sharding";
    out(c, "%s  %s  %s%s%s", tensor_name(c, v->instr), shape_text(c, in->shape), spell, hlo && strcmp(hlo, spell) ? "  " : "",
        hlo && strcmp(hlo, spell) ? hlo : "");
    if (dim >= 0)
        out(c, "  dimension %d", dim);
    out(c, "\n");
    if (say_chains(c, p, v, dim) == 0) {
        out(c, "  %s\n", v->sharding.i ? dim >= 0 ? "nothing splits this dimension" : "nothing is recorded: it came with the module"
                                       : "no annotation reached it: it is whole (replicated) on every device");
        const char *closed = v->sharding.i ? NULL : closed_boundary(c, v->instr, v->working, p);
        if (closed)
            out(c, "  %s\n", closed);
        say_operands(c, p, v->working);
    }
    say_losers(c, p, v->working, false);
    say_advice(c, p, v->working);
    return true;
}

/* The dimension that an axis of the mesh splits, by the sharding as it is spelled; -1: none. */
static int64_t dim_of_axis(struct call *c, sharding_id s, const char *axis)
{
    struct str t = STR_IN(&c->arena);
    if (!s.i)
        return -1;
    sharding_spell(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, SPELL_AXES, &t);
    size_t n = strlen(axis);
    int64_t dim = 0;
    int depth = 0;
    bool begins = false; /* an entry or an axis of one */
    for (const char *p = str_text(&t); *p; p++) {
        if (begins && !strncmp(p, axis, n) && p[n] && strchr(",)]:", p[n]))
            return dim;
        begins = *p == '[' || *p == '(' || *p == ',';
        depth += (*p == '(') - (*p == ')');
        dim += *p == ',' && depth == 0;
    }
    return -1;
}

/* `why T 1`, `why T model` */
static bool read_dim(struct call *c, instr_id i, int64_t *dim)
{
    const struct word *w = &c->args[1];
    const struct shape *shape = shape_get(document_ir(c->sh->doc), instr_at(document_module(c->sh->doc), i)->shape);
    if (parse_i64(w->text, w->n, dim) == w->n && *dim >= 0) {
        if (shape->kind != SHAPE_ARRAY || *dim < shape->rank)
            return true;
        call_usage(c, 1, "%s has dimensions 0 to %d", tensor_name(c, i), shape->rank - 1);
        return false;
    }
    const struct mesh *mesh = document_mesh(c->sh->doc);
    if (!mesh || mesh_find_axis(mesh, w->text, w->n) < 0) {
        call_usage(c, 1, "neither a dimension's number nor an axis of the mesh");
        return false;
    }
    struct tensor_view v;
    if (!document_view(c->sh->doc, i, 0, &v, call_tick(c), c->d))
        return false;
    *dim = dim_of_axis(c, v.sharding, w->text);
    if (*dim < 0)
        call_usage(c, 1, "%s is not split by %s: %s", tensor_name(c, i), w->text, spelled(c, v.sharding));
    return *dim >= 0;
}

int cmd_why(struct call *c)
{
    instr_id i;
    int64_t leaf, dim = -1;
    if (!arg_tensor(c, 0, &i, &leaf))
        return call_failed(c);
    if (c->n > 1 && !read_dim(c, i, &dim))
        return call_failed(c);
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct tensor_view v;
    if (!document_view(c->sh->doc, i, 0, &v, call_tick(c), c->d))
        return call_failed(c);
    if (v.nsites == 0) {
        static const char *const words[] = { "", "nothing uses it (dead code)", "it has no elements (zero-sized)",
                                             "the call was inlined; ask for the callee's root", "something stands for it" };
        const char *why = words[v.removed <= REMOVED_REPLACED ? v.removed : 0];
        if (c->json)
            json_put_string(&c->js, "removed", why);
        else
            out(c, "%s was removed before propagation: %s\n", tensor_name(c, i), why);
        return STATUS_OK;
    }
    if (c->json)
        json_put_open(&c->js, "instructions", '[');
    bool ok = true;
    for (uint32_t site = 0; site < v.nsites && site < 4 && ok; site++) {
        ok = document_view(c->sh->doc, i, site, &v, call_tick(c), c->d) && why_one(c, p, &v, (int)dim);
        /* Several call sites mostly tell the same story. */
        if (!c->all && !c->json && v.nsites > 1) {
            out(c, "(the first of %u call sites; --all tells of each)\n", v.nsites);
            break;
        }
    }
    if (c->json)
        json_close(&c->js, ']');
    return ok ? STATUS_OK : call_failed(c);
}
