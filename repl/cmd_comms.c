/* comms: the collectives of the partitioned program. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

/* Permutes of more devices are told by their symbols, so that no answer grows with the mesh. */
enum { MOST_LISTED_PAIRS = 4096 };

/* ---- words for collectives ------------------------------------------------------------------------- */

/* Along which axes of the mesh the pairs of a permute move. */
struct moves {
    uint32_t axes;   /* bit a: some pair's ends differ along axis a; 0: none, or not known */
    bool even, ring; /* of one axis: all by the same number of places; counted round the axis */
    int64_t places;
};

static void add_move(struct moves *m, int64_t places, int64_t size, bool first)
{
    int64_t round = (places + size) % size;
    if (first) {
        *m = (struct moves){ .axes = m->axes, .even = true, .ring = true, .places = places };
        return;
    }
    m->even &= places == m->places;
    m->ring &= round == (m->places + size) % size;
}

static struct moves find_moves(struct call *c, const struct mesh *mesh, const struct permute_pairs *p)
{
    const struct shardings *t = document_ir(c->sh->doc)->shardings;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t *pairs = ARENA_ARRAY(&tmp, int64_t, 2 * MOST_LISTED_PAIRS + 2), n = list_pairs(c, p, MOST_LISTED_PAIRS, pairs);
    int64_t ndevices = mesh_devices(mesh);
    struct moves m = { 0 };
    for (int64_t k = 0; k < n; k++) {
        if (pairs[2 * k] >= ndevices || pairs[2 * k + 1] >= ndevices) {
            m.axes = 0;
            break;
        }
        int64_t from = order_cell(t, mesh->order, pairs[2 * k]), to = order_cell(t, mesh->order, pairs[2 * k + 1]);
        for (int a = mesh->naxes - 1; a >= 0; a--) {
            int64_t size = mesh->axes[a].size, places = to % size - from % size;
            if (places) {
                bool first = m.axes == 0;
                m.axes |= 1u << a;
                add_move(&m, places, size, first);
            }
            from /= size;
            to /= size;
        }
    }
    arena_close(&tmp);
    return m;
}

const char *collective_axes(struct call *c, const struct collective *k, int *naxes,
                            const char **names)
{
    *naxes = 0;
    const struct mesh *mesh = document_mesh(c->sh->doc);
    if (mesh && k->kind == OP_COLLECTIVE_PERMUTE && k->pairs) {
        uint32_t axes = find_moves(c, mesh, k->pairs).axes;
        for (int a = 0; a < mesh->naxes; a++)
            if (axes >> a & 1)
                names[(*naxes)++] = mesh->axes[a].name;
    } else if (!mesh || k->kind == OP_COLLECTIVE_PERMUTE || k->groups.naxes != 2 ||
               !mesh_axes_of_groups(document_ir(c->sh->doc)->shardings, mesh, k->groups, &c->arena, naxes, names)) {
        return "";
    }
    struct str s = STR_IN(&c->arena);
    for (int a = 0; a < *naxes; a++)
        str_addf(&s, "%s%s", a ? "," : "", names[a]);
    return str_text(&s);
}

static const char *tiling_text(struct call *c, struct tiling t)
{
    struct str s = STR_IN(&c->arena);
    tiling_print(document_ir(c->sh->doc)->shardings, t, &s);
    return str_text(&s);
}

/* [2,4]<=[8]T(..) says rising digits over devices 0..n-1 only; other orders are listed. */
static bool has_short_form(struct call *c, struct tiling groups)
{
    const struct order *o = order_get(document_ir(c->sh->doc)->shardings, groups.order);
    if (o->explicit_)
        return false;
    for (int k = 0; k < o->ndigits; k++)
        if (o->digits[k].reversed)
            return false;
    return true;
}

static const char *listed_groups(struct call *c, struct tiling groups)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    struct str s = STR_IN(&c->arena);
    for (int64_t g = 0; g < groups.dims[0]; g++)
        for (int64_t k = 0; k < groups.dims[1]; k++)
            str_addf(&s, "%s%" PRId64,
                     k   ? ","
                     : g ? "},{"
                         : "{{",
                     order_device(t, groups.order, g * groups.dims[1] + k));
    str_adds(&s, "}}");
    return str_text(&s);
}

const char *groups_text(struct call *c, const struct collective *k)
{
    if (k->kind == OP_COLLECTIVE_PERMUTE)
        return NULL;
    if (k->groups.naxes == 2)
        return has_short_form(c, k->groups) ? tiling_text(c, k->groups)
                                            : listed_groups(c, k->groups);
    if (!k->raw)
        return NULL;
    if (k->raw->text)
        return arena_strndup(&c->arena, k->raw->text, k->raw->len);
    struct str s = STR_IN(&c->arena);
    str_addc(&s, '{');
    int64_t at = 0;
    for (int64_t g = 0; g < k->raw->nlists; g++) {
        str_adds(&s, g ? ",{" : "{");
        for (int64_t v = 0; v < k->raw->sizes[g]; v++)
            str_addf(&s, "%s%" PRId64, v ? "," : "", k->raw->ids[at++]);
        str_addc(&s, '}');
    }
    str_addc(&s, '}');
    return str_text(&s);
}

const char *collective_label(struct call *c, const struct module *m, const struct collective *k)
{
    struct str s = STR_IN(&c->arena);
    instr_label(m, k->instr, true, &s);
    return str_text(&s);
}

instr_id served_by(struct call *c, const struct program *p, instr_id node)
{
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    if (!p || !prop || !p->notes || node.i > module_ninstrs(p->module) ||
        !p->notes[node.i].source.i)
        return (instr_id){ 0 };
    instr_id source = prop->graph->origin[p->notes[node.i].source.i].source;
    return source.i <= module_ninstrs(document_module(c->sh->doc)) ? source : (instr_id){ 0 };
}

const char *served_label(struct call *c, const struct program *p, instr_id node, bool full)
{
    if (!p || !p->notes || !p->notes[node.i].source.i)
        return NULL;
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    instr_id i = served_by(c, p, node);
    struct str s = STR_IN(&c->arena);
    if (i.i) {
        const struct module *m = document_module(c->sh->doc);
        if (!full)
            return label_of(c, i);
        /* JSON prints names exactly as loaded. */
        str_addf(&s, "%s/%s", name_text(m->ir, comp_at(m, instr_at(m, i)->comp)->name),
                 name_text(m->ir, instr_at(m, i)->name));
        return str_text(&s);
    }
    instr_label(prop->graph->module, p->notes[node.i].source, !full, &s);
    return str_text(&s);
}

/* Pairs of a permute, as the exported program lists them: a device that keeps its piece is a pair,
 * too. -1: more than there is room for. */
int64_t list_pairs(struct call *c, const struct permute_pairs *p, int64_t most, int64_t *out_pairs)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    if (p->kind == PAIRS_LIST) {
        if (p->n > most)
            return -1;
        memcpy(out_pairs, p->list, (size_t)p->n * 2 * sizeof *out_pairs);
        return p->n;
    }
    int64_t cells = order_get(t, p->from.order)->ndevices, n = 0, inner = 1;
    if (cells > most)
        return -1;
    for (int k = p->axis + 1; p->kind == PAIRS_SHIFT && k < p->from.naxes; k++)
        inner *= p->from.dims[k];
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t to = cell;
        if (p->kind == PAIRS_SHIFT) {
            int64_t size = p->from.dims[p->axis], limit = p->limit ? p->limit : size,
                    i = cell / inner % size, at = i + p->shift;
            if (p->wrap)
                at = (at % limit + limit) % limit;
            if (i >= limit || at < 0 || at >= limit)
                continue;
            to = cell + (at - i) * inner;
        }
        out_pairs[2 * n] = order_device(t, p->from.order, cell);
        out_pairs[2 * n++ + 1] =
            order_device(t, p->kind == PAIRS_TILINGS ? p->to.order : p->from.order, to);
    }
    return n;
}

static void json_pairs(struct call *c, const struct permute_pairs *p)
{
    if (!p) {
        json_put_null(&c->js, "pairs");
        return;
    }
    int64_t most = p->kind == PAIRS_LIST ? p->n : MOST_LISTED_PAIRS;
    int64_t *pairs = ARENA_ARRAY(&c->arena, int64_t, 2 * most + 2);
    int64_t n = list_pairs(c, p, most, pairs);
    if (n >= 0) {
        json_put_open(&c->js, "pairs", '[');
        for (int64_t k = 0; k < n; k++) {
            json_open(&c->js, '[');
            json_int(&c->js, pairs[2 * k]);
            json_int(&c->js, pairs[2 * k + 1]);
            json_close(&c->js, ']');
        }
        json_close(&c->js, ']');
        return;
    }
    json_put_open(&c->js, "pairs", '{');
    json_put_string(&c->js, "from", tiling_text(c, p->from));
    if (p->kind == PAIRS_TILINGS) {
        json_put_string(&c->js, "to", tiling_text(c, p->to));
    } else {
        json_put_int(&c->js, "axis", p->axis);
        json_put_int(&c->js, "shift", p->shift);
        json_put_bool(&c->js, "wrap", p->wrap);
        if (p->limit)
            json_put_int(&c->js, "limit", p->limit);
    }
    json_close(&c->js, '}');
}

static const char *pairs_words(struct call *c, const struct permute_pairs *p)
{
    int64_t pairs[64];
    int64_t n = p ? list_pairs(c, p, 32, pairs) : -1, shown = 0;
    if (n < 0)
        return p && p->kind == PAIRS_SHIFT ? arena_printf(&c->arena, "by %" PRId64 " along %s",
                                                          p->shift, tiling_text(c, p->from))
                                           : "";
    struct str s = STR_IN(&c->arena);
    for (int64_t k = 0; k < n; k++) {
        if (pairs[2 * k] == pairs[2 * k + 1])
            continue;
        if (shown == 6) {
            str_adds(&s, " ...");
            break;
        }
        str_addf(&s, "%s%" PRId64 "->%" PRId64, shown++ ? " " : "", pairs[2 * k], pairs[2 * k + 1]);
    }
    return str_text(&s);
}

/* Sum by kind: "2 all-gather, 1 all-reduce; 1,024 bytes sent by each device". */
static const char *comms_summary(struct call *c, const struct collective *list, int64_t n, int64_t total)
{
    int64_t counts[OP_COUNT] = { 0 };
    for (int64_t k = 0; k < n; k++)
        counts[list[k].kind]++;
    struct str s = STR_IN(&c->arena);
    for (int op = 0; op < OP_COUNT; op++)
        if (counts[op])
            str_addf(&s, "%s%" PRId64 " %s", s.n ? ", " : "", counts[op],
                     op_name((enum op_kind)op));
    if (!s.n)
        return "no collectives";
    return arena_printf(&c->arena, "%s; %s sent by each device", str_text(&s),
                        nice_bytes(&c->arena, total));
}

/* ---- comms ----------------------------------------------------------------------------------------- */

static const char *reducer_name(const struct module *m, instr_id i)
{
    comp_id comps[2];
    if (instr_called(m, i, comps, 2) < 1)
        return NULL;
    return op_name((enum op_kind)instr_at(m, comp_at(m, comps[0])->root)->op);
}

struct axis_bytes {
    const char *name;
    int64_t bytes;
};

static void json_collective(struct call *c, const struct module *m, const struct program *p,
                            const struct collective *k)
{
    const struct instr *in = instr_at(m, k->instr);
    const char *names[MESH_MAX_AXES];
    int naxes;
    json_open(&c->js, '{');
    json_put_string(&c->js, "computation", name_text(m->ir, comp_at(m, in->comp)->name));
    json_put_string(&c->js, "name", name_text(m->ir, in->name));
    json_put_string(&c->js, "kind", op_name(k->kind));
    json_put_string(&c->js, "shape", shape_text(c, in->shape));
    json_put_open(&c->js, "operand_shapes", '[');
    for (uint32_t o = 0; o < in->noperands; o++)
        json_string(&c->js, shape_text(c, instr_at(m, in->operands[o])->shape));
    json_close(&c->js, ']');
    bool reduces = k->kind == OP_ALL_REDUCE || k->kind == OP_REDUCE_SCATTER;
    json_put_string(&c->js, "op", reduces ? reducer_name(m, k->instr) : NULL);
    if (k->dimension >= 0)
        json_put_int(&c->js, "dimension", k->dimension);
    else
        json_put_null(&c->js, "dimension");
    json_put_string(&c->js, "groups", groups_text(c, k));
    json_put_int(&c->js, "group_size", k->group_size);
    collective_axes(c, k, &naxes, names);
    json_put_open(&c->js, "axes", '[');
    for (int a = 0; a < naxes; a++)
        json_string(&c->js, names[a]);
    json_close(&c->js, ']');
    json_pairs(c, k->pairs);
    int64_t channel = instr_int(in, ATTR_CHANNEL_ID, -1);
    if (channel >= 0)
        json_put_int(&c->js, "channel", channel);
    else
        json_put_null(&c->js, "channel");
    json_put_int(&c->js, "trip_count", k->trip_count);
    json_put_bool(&c->js, "trip_known", k->trip_known);
    if (k->branch >= 0)
        json_put_int(&c->js, "branch", k->branch);
    else
        json_put_null(&c->js, "branch");
    json_put_int(&c->js, "bytes", k->bytes);
    json_put_string(&c->js, "for", served_label(c, p, k->instr, true));
    json_put_string(&c->js, "reason", p && p->notes ? p->notes[k->instr.i].reason : NULL);
    instr_id loaded = served_by(c, p, k->instr);
    const char *place = place_of(c, loaded);
    if (place[0])
        json_put_string(&c->js, "source", place);
    json_close(&c->js, '}');
}

/* Bytes by axes: a collective over several axes counts under their names joined by a comma. */
static struct axis_bytes *bytes_by_axes(struct call *c, const struct collective *list, int64_t n,
                                        int *count)
{
    VEC(struct axis_bytes) v = { 0 };
    const char *names[MESH_MAX_AXES];
    for (int64_t k = 0; k < n; k++) {
        int naxes;
        const char *axes = collective_axes(c, &list[k], &naxes, names);
        if (!axes[0])
            continue;
        int64_t at = 0;
        while (at < v.n && strcmp(v.v[at].name, axes))
            at++;
        if (at == v.n) {
            struct axis_bytes fresh = { axes, 0 };
            vec_push(&c->arena, &v, fresh);
        }
        v.v[at].bytes += list[k].bytes;
    }
    *count = (int)v.n;
    return v.v;
}

/* "stage +1", "stage +1 (ring)" where the last one sends to the first; other permutes by their pairs. */
static const char *moves_words(struct call *c, const struct collective *k, const char *axes, int naxes)
{
    const struct mesh *mesh = document_mesh(c->sh->doc);
    if (naxes != 1)
        return pairs_words(c, k->pairs);
    struct moves m = find_moves(c, mesh, k->pairs);
    int axis = 0;
    while (!(m.axes >> axis & 1))
        axis++;
    int64_t size = mesh->axes[axis].size, places = m.places;
    if (!m.even && !m.ring)
        return pairs_words(c, k->pairs);
    if (!m.even) { /* the shorter way round */
        places = (places + size) % size;
        places = 2 * places > size ? places - size : places;
    }
    return arena_printf(&c->arena, "%s %+" PRId64 "%s", axes, places, m.even ? "" : " (ring)");
}

static struct table make_table(struct call *c, const struct module *m, const struct program *p,
                               const struct collective *list, int64_t n)
{
    static const char *const heads[] = { "collective", "name", "shape",   ">bytes", "over",
                                         "times",      "for",  "because", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    const char *names[MESH_MAX_AXES];
    for (int64_t k = 0; k < n; k++) {
        const struct collective *x = &list[k];
        int naxes;
        const char *axes = collective_axes(c, x, &naxes, names), *groups = groups_text(c, x);
        const char **row = table_row(&t);
        row[0] = op_name(x->kind);
        row[1] = collective_label(c, m, x);
        row[2] = shape_text(c, instr_at(m, x->instr)->shape);
        row[3] = with_commas(&c->arena, x->bytes);
        row[4] = x->kind == OP_COLLECTIVE_PERMUTE ? moves_words(c, x, axes, naxes)
                 : axes[0]                        ? axes
                 : groups                         ? groups
                                                  : "";
        row[5] = !x->trip_known       ? "x ?"
                 : x->trip_count != 1 ? arena_printf(&c->arena, "x %" PRId64, x->trip_count)
                                      : "";
        row[6] = served_label(c, p, x->instr, false);
        row[7] = p && p->notes ? p->notes[x->instr.i].reason : NULL;
    }
    return t;
}

void table_collectives(struct call *c, const struct module *m, const struct program *p,
                       const struct collective *list, int64_t n)
{
    struct table t = make_table(c, m, p, list, n);
    table_print(c, &t, true);
}

static int by_bytes(const void *x, const void *y)
{
    const struct collective *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes > b->bytes ? -1 : 1) : a->instr.i < b->instr.i ? -1 : a->instr.i > b->instr.i;
}

/* In the program's order; where a screen does not hold all, those that send most. */
static void print_list(struct call *c, const struct module *m, const struct program *p, const struct collective *list,
                       int64_t n)
{
    int64_t shown = call_rows(c, n);
    if (shown < n) {
        struct collective *most = arena_copy(&c->arena, list, n, sizeof *list);
        qsort(most, (size_t)n, sizeof *most, by_bytes);
        list = most;
    }
    struct table t = make_table(c, m, p, list, shown);
    if (shown < n && c->sh->interactive && table_has_long_rows(c, &t))
        t.rows.n = shown = max_i64((shown - 4) / 2, 1); /* two lines each, and the head, and the sums */
    table_print(c, &t, true);
    if (shown < n)
        out(c, "and %s more collective%s, none larger (--all shows all, in the program's order)\n",
            with_commas(&c->arena, n - shown), n - shown == 1 ? "" : "s");
}

/* Fall-backs are said wherever bytes are counted: those bytes are not what XLA would send. */
static void warn_fallbacks(struct call *c, const struct program *p)
{
    const struct propagation *prop = document_propagation(c->sh->doc, NULL, NULL);
    int64_t fallbacks = 0, whole = 0, computed = 0, n;
    const struct remat_note *first = NULL, *first_whole = NULL, *first_computed = NULL;
    const struct remat_note *remats = program_remats(p, &n);
    const char *ours = "";
    if (p->nxla_remats)
        ours = p->nremats ? arena_printf(&c->arena, ", by XLA (here %" PRId64 "; set no_rule=xla shows its program)",
                                         p->nremats)
                          : ", by XLA, not here (set no_rule=xla shows its program)";
    for (int64_t k = 0; k < n; k++) {
        if (remats[k].fallback) {
            fallbacks++;
            first = first ? first : &remats[k];
        } else if (remats[k].operation) {
            computed++;
            first_computed = first_computed ? first_computed : &remats[k];
        } else {
            whole++;
            first_whole = first_whole ? first_whole : &remats[k];
        }
    }
    if (fallbacks)
        diag_warn(
            c->d, NULL, (struct span){ 0, 0 },
            "%" PRId64
            " instruction%s replicated, computed, sliced (%s, for one%s%s)%s: doctor lists them",
            fallbacks, fallbacks == 1 ? "" : "s", working_label(c, prop->graph, first->source),
            first->reason ? ": " : "", first->reason ? first->reason : "", ours);
    if (computed)
        diag_warn(c->d, NULL, (struct span){ 0, 0 },
                  "%s computed whole on every device%s (%s, for one: %s): doctor lists them",
                  counted(&c->arena, computed, "instruction"), *ours ? ours : ", as XLA does",
                  working_label(c, prop->graph, first_computed->source), first_computed->reason);
    if (whole)
        diag_warn(c->d, NULL, (struct span){ 0, 0 },
                  "%" PRId64 " array%s made whole on every device to change the sharding, in XLA's words a full "
                             "rematerialization (%s, from %s to %s)%s: reshard %s tells more",
                  whole, whole == 1 ? "" : "s", working_label(c, prop->graph, first_whole->source),
                  spelled(c, first_whole->from), spelled(c, first_whole->to), ours,
                  working_label(c, prop->graph, first_whole->source));
}

int cmd_comms(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct collective *list;
    int64_t n, total;
    if (!document_collectives(doc, &list, &n, &total, call_tick(c), c->d))
        return call_failed(c);
    const struct program *p =
        document_is_partitioned(doc) ? NULL : document_program(doc, call_tick(c), c->d);
    const struct module *m = p ? p->module : document_module(doc);
    int naxes;
    struct axis_bytes *by = bytes_by_axes(c, list, n, &naxes);
    if (p)
        warn_fallbacks(c, p);
    if (c->json) {
        json_put_open(&c->js, "collectives", '[');
        for (int64_t k = 0; k < n; k++)
            json_collective(c, m, p, &list[k]);
        json_close(&c->js, ']');
        json_put_int(&c->js, "bytes", total);
        json_put_open(&c->js, "axes_bytes", '{');
        for (int k = 0; k < naxes; k++)
            json_put_int(&c->js, by[k].name, by[k].bytes);
        json_close(&c->js, '}');
        say_best(c, p);
        return STATUS_OK;
    }
    print_list(c, m, p, list, n);
    out(c, "%s\n", comms_summary(c, list, n, total));
    if (naxes > 0) {
        struct str s = STR_IN(&c->arena);
        for (int k = 0; k < naxes; k++)
            str_addf(&s, "%s%s %s", k ? ", " : "", by[k].name, nice_bytes(&c->arena, by[k].bytes));
        out(c, "by axis: %s\n", str_text(&s));
    }
    say_best(c, p);
    return STATUS_OK;
}

int cmd_partition(struct call *c)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    const struct collective *list;
    int64_t n, total, fallbacks = 0;
    if (!document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return call_failed(c);
    for (int64_t k = 0; k < p->nremats; k++)
        fallbacks += p->remats[k].fallback;
    if (c->json) {
        json_put_int(&c->js, "devices", p->num_partitions);
        json_put_int(&c->js, "nodes", module_ninstrs(p->module));
        json_put_int(&c->js, "collectives", n);
        json_put_int(&c->js, "bytes", total);
        json_put_int(&c->js, "fallbacks", fallbacks);
        json_put_int(&c->js, "whole_arrays", p->nremats - fallbacks);
        if (p->best)
            json_put_int(&c->js, "xla_bytes", p->xla_bytes);
        return STATUS_OK;
    }
    out(c, "%s devices, %s instructions each: %s\n", with_commas(&c->arena, p->num_partitions),
        with_commas(&c->arena, module_ninstrs(p->module)), comms_summary(c, list, n, total));
    if (p->nremats)
        out(c,
            "%" PRId64 " whole arrays made to reshard, %" PRId64 " fall-backs: doctor lists them\n",
            p->nremats - fallbacks, fallbacks);
    return STATUS_OK;
}
