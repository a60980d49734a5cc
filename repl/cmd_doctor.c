/* doctor: sizes that do not divide, padding, idle devices, fall-backs. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

int64_t find_uneven(struct call *c, const struct propagation *p, struct uneven **list)
{
    VEC(struct uneven) v = { 0 };
    const struct module *m = p->graph->module;
    struct shardings *t = m->ir->shardings;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        sharding_id s = p->final[k];
        const struct instr *in = instr_at(m, (instr_id){ k });
        const struct shape *shape = shape_get(m->ir, in->shape);
        if (!s.i || shape->kind != SHAPE_ARRAY || (in->flags & INSTR_REMOVED) ||
            sharding_get(t, s)->kind != SHARDING_TILED ||
            sharding_evenly(t, s, shape->rank, shape->dims))
            continue;
        struct tensor_view view;
        measure_shape(m->ir, in->shape, s, sharding_total(t, s), &view);
        struct uneven u = {
            p->graph->origin[k].source, { k }, s, view.padding, shape->count + view.padding
        };
        vec_push(&c->arena, &v, u);
    }
    *list = v.v;
    return v.n;
}

static int by_padding(const void *a, const void *b)
{
    const struct uneven *x = a, *y = b;
    if (x->padding != y->padding)
        return x->padding < y->padding ? 1 : -1;
    return x->working.i < y->working.i ? -1 : x->working.i > y->working.i;
}

/* "dimension 0: 17 over 8: 3 each, the last 2 hold nothing; 24 divides" */
static const char *dims_text(struct call *c, const struct propagation *p, const struct uneven *u)
{
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    const struct shape *shape =
        shape_get(p->graph->module->ir, instr_at(p->graph->module, u->working)->shape);
    struct str s = STR_IN(&c->arena);
    for (int d = 0; d < shape->rank; d++) {
        int64_t tiles = sharding_tile(t, u->sharding, d), size = shape->dims[d];
        if (tiles <= 1 || size % tiles == 0)
            continue;
        int64_t each = ceil_div(size, tiles), empty = tiles - ceil_div(size, each);
        str_addf(&s, "%sdimension %d: %" PRId64 " over %" PRId64 " pads to %" PRId64 " each",
                 s.n ? "; " : "", d, size, tiles, each);
        if (empty > 0)
            str_addf(&s, ", %" PRId64 " of %" PRId64 " hold nothing", empty, tiles);
        str_addf(&s, ", %" PRId64 " would divide", each * tiles);
    }
    return str_text(&s);
}

static void say_uneven(struct call *c, const struct propagation *p)
{
    struct uneven *list;
    int64_t n = find_uneven(c, p, &list);
    if (n > 1)
        qsort(list, (size_t)n, sizeof *list, by_padding);
    int64_t shown = call_rows(c, n);
    if (c->json)
        json_put_open(&c->js, "uneven", '[');
    else if (n > 0)
        out(c, "%s not divide evenly:\n",
            n == 1 ? "1 value does"
                   : arena_printf(&c->arena, "%s values do", with_commas(&c->arena, n)));
    for (int64_t k = 0; k < shown; k++) {
        const struct uneven *u = &list[k];
        const char *name = working_label(c, p->graph, u->working), *dims = dims_text(c, p, u);
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "instruction", name);
            json_put_string(&c->js, "sharding", hlo_text(c, u->sharding));
            json_put_int(&c->js, "padding", u->padding);
            json_put_string(&c->js, "text", dims);
            json_close(&c->js, '}');
            continue;
        }
        out(c, "  %s  %s  %s padding elements (%d %%): %s\n", name, spelled(c, u->sharding),
            with_commas(&c->arena, u->padding),
            (int)(100.0 * (double)u->padding / (double)max_i64(u->stored, 1) + 0.5), dims);
    }
    if (c->json)
        json_close(&c->js, ']');
    call_more(c, shown, n, "");
}

enum remat_kind { REMAT_ARRAY, REMAT_OPERATION, REMAT_FALLBACK };

static enum remat_kind kind_of(const struct remat_note *r)
{
    return r->fallback ? REMAT_FALLBACK : r->operation ? REMAT_OPERATION : REMAT_ARRAY;
}

static void say_remat_list(struct call *c, const struct program *p, const struct propagation *prop,
                           enum remat_kind kind)
{
    static const char *const fields[] = { "whole_arrays", "computed_whole", "fallbacks" };
    static const char *const heads[] = { "made whole on every device to change the sharding",
                                         "computed whole on every device",
                                         "without a rule yet, replicated, computed, sliced" };
    const char *whose = p->nxla_remats           ? ", by XLA, not here (set no_rule=xla shows its program)"
                        : kind == REMAT_OPERATION ? ", as XLA does"
                                                  : "";
    int64_t n = 0, said = 0, all;
    const struct remat_note *remats = program_remats(p, &all);
    for (int64_t k = 0; k < all; k++)
        n += kind_of(&remats[k]) == kind;
    int64_t shown = call_rows(c, n);
    if (c->json)
        json_put_open(&c->js, fields[kind], '[');
    else if (n > 0)
        out(c, "%s %s%s:\n", counted(&c->arena, n, kind == REMAT_ARRAY ? "array" : "instruction"),
            heads[kind], whose);
    for (int64_t k = 0; k < all && said < shown; k++) {
        const struct remat_note *r = &remats[k];
        if (kind_of(r) != kind)
            continue;
        said++;
        const char *name = r->source.i ? working_label(c, prop->graph, r->source) : "?";
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "instruction", name);
            json_put_string(&c->js, "from", hlo_text(c, r->from));
            json_put_string(&c->js, "to", hlo_text(c, r->to));
            json_put_string(&c->js, "reason", r->reason);
            json_close(&c->js, '}');
            continue;
        }
        out(c, "  %s (%s)  %s -> %s%s%s\n", name,
            r->source.i ? op_name((enum op_kind)instr_at(prop->graph->module, r->source)->op) : "",
            spelled(c, r->from), spelled(c, r->to), r->reason ? ": " : "",
            r->reason ? r->reason : "");
    }
    if (c->json)
        json_close(&c->js, ']');
    call_more(c, shown, n, "");
}

/* ---- axes against what there is to split ----------------------------------------------------------- */

static bool in_a_name(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_';
}

/* Whether a sharding splits a dimension over that axis (or a part of it). */
static bool uses_axis(struct call *c, sharding_id s, const char *axis)
{
    struct str t = STR_IN(&c->arena);
    sharding_spell(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, SPELL_AXES, &t);
    size_t n = strlen(axis);
    for (const char *p = str_text(&t); (p = strstr(p, axis)); p += n) {
        bool begins = p == str_text(&t) || !in_a_name(p[-1]);
        bool ends = !in_a_name(p[n]);
        if (begins && ends)
            return true;
    }
    return false;
}

/* Shardings are interned: each is looked at once. */
static int64_t splits_over(struct call *c, const struct propagation *p, const char *axis)
{
    struct arena scratch = { 0 };
    const struct module *m = p->graph->module;
    VEC(signed char) known = { 0 };
    int64_t n = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        sharding_id s = p->final[k];
        while (known.n <= (int64_t)s.i)
            vec_push(&scratch, &known, (signed char)-1);
        if (s.i && known.v[s.i] < 0)
            known.v[s.i] = uses_axis(c, s, axis);
        n += s.i && known.v[s.i] > 0;
    }
    arena_free(&scratch);
    return n;
}

/* Sizes of parameters' dimensions that an axis does not divide, with who has them: heads and experts
 * are few, so they are where a mesh does not fit first. */
enum { FEW_SIZES = 6, FEW_NAMES = 4 };

struct misfits {
    int n;
    struct misfit {
        int64_t size, count;
        const char *who;
    } list[FEW_SIZES];
    int64_t whole, fits; /* parameters of which it divides no dimension, and the others */
    struct str names;    /* the first of `whole` */
};

static void add_misfit(struct call *c, struct misfits *f, int64_t size, instr_id param, int dim)
{
    int at = 0;
    while (at < f->n && f->list[at].size != size)
        at++;
    if (at == FEW_SIZES)
        return;
    if (at == f->n)
        f->list[f->n++] = (struct misfit){ size, 0, "" };
    struct misfit *m = &f->list[at];
    if (m->count++ < FEW_NAMES)
        m->who = arena_printf(&c->arena, "%s%s%s dimension %d", m->who, m->who[0] ? ", " : "", tensor_name(c, param), dim);
}

static void find_misfits(struct call *c, int64_t axis_size, struct misfits *f)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const struct shape *s = instr_shape(m, entry->params[k]);
        bool any = false;
        if (s->kind != SHAPE_ARRAY || s->rank < 2)
            continue;
        for (int d = 0; d < s->rank; d++) {
            bool divides = s->dims[d] % axis_size == 0;
            any |= divides;
            if (!divides && s->dims[d] > 1)
                add_misfit(c, f, s->dims[d], entry->params[k], d);
        }
        f->whole += !any;
        f->fits += any;
        if (!any && f->whole <= FEW_NAMES)
            str_addf(&f->names, "%s%s", f->names.n ? ", " : "", tensor_name(c, entry->params[k]));
    }
}

static const char *and_more(struct call *c, int64_t n)
{
    return n > FEW_NAMES ? arena_printf(&c->arena, " and %" PRId64 " more", n - FEW_NAMES) : "";
}

static void json_misfit(struct json *j, const struct mesh_axis *axis, const struct misfit *m)
{
    json_open(j, '{');
    json_put_string(j, "axis", axis->name);
    json_put_int(j, "axis_size", axis->size);
    json_put_int(j, "size", m->size);
    json_put_int(j, "dimensions", m->count);
    json_close(j, '}');
}

static void say_axis_fit(struct call *c, const struct mesh_axis *axis)
{
    struct misfits f = { .names = STR_IN(&c->arena) };
    find_misfits(c, axis->size, &f);
    for (int k = 0; k < f.n; k++) {
        const struct misfit *m = &f.list[k];
        if (c->json)
            json_misfit(&c->js, axis, m);
        else
            out(c, "  %s=%" PRId64 " does not divide %" PRId64 ": %s%s\n", axis->name, axis->size, m->size, m->who,
                and_more(c, m->count));
    }
    if (!c->json && f.whole > 0 && f.fits > 0)
        out(c, "  %s=%" PRId64 " divides no dimension of %s%s\n", axis->name, axis->size, str_text(&f.names),
            and_more(c, f.whole));
}

/* Several devices and not one array that is split. */
static void say_nothing_split(struct call *c, const struct propagation *p)
{
    const struct module *m = p->graph->module;
    struct shardings *t = m->ir->shardings;
    int64_t devices = document_devices(c->sh->doc), maximal = -1;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct sharding *s = p->final[k].i ? sharding_get(t, p->final[k]) : NULL;
        if (s && s->kind != SHARDING_REPLICATED && s->kind != SHARDING_MAXIMAL && s->kind != SHARDING_UNKNOWN)
            return;
        if (s && s->kind == SHARDING_MAXIMAL)
            maximal = s->device;
    }
    if (devices < 2)
        return;
    if (c->json)
        json_put_string(&c->js, "nothing_split",
                        maximal >= 0 ? arena_printf(&c->arena, "all is on device %" PRId64, maximal)
                                     : "all values are replicated");
    else if (maximal >= 0)
        out(c, "nothing is split: device %" PRId64 " works, the other %" PRId64 " wait\n", maximal, devices - 1);
    else
        out(c, "nothing is split: all values are replicated, and %" PRId64 " devices do the same work\n", devices);
}

static void say_axes(struct call *c, const struct propagation *p)
{
    const struct mesh *m = document_mesh(c->sh->doc);
    if (!m) {
        say_nothing_split(c, p);
        return;
    }
    if (c->json)
        json_put_open(&c->js, "idle_axes", '[');
    for (int k = 0; k < m->naxes; k++) {
        if (m->axes[k].size < 2 || splits_over(c, p, m->axes[k].name) > 0)
            continue;
        if (c->json)
            json_string(&c->js, m->axes[k].name);
        else
            out(c,
                "nothing is split over %s=%" PRId64 ": its %" PRId64
                " devices all compute the same\n",
                m->axes[k].name, m->axes[k].size, m->axes[k].size);
    }
    if (c->json) {
        json_close(&c->js, ']');
        json_put_open(&c->js, "misfits", '[');
    }
    size_t before = c->out.n;
    for (int k = 0; k < m->naxes; k++)
        if (m->axes[k].size > 1)
            say_axis_fit(c, &m->axes[k]);
    if (c->json) {
        json_close(&c->js, ']');
    } else if (c->out.n > before) {
        const char *said = arena_strndup(&c->arena, str_text(&c->out) + before, c->out.n - before);
        c->out.n = before;
        out(c, "sizes of parameters against the mesh:\n%s", said);
    }
}

int cmd_doctor(struct call *c)
{
    struct document *doc = c->sh->doc;
    const struct propagation *p = document_propagation(doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    if (document_is_partitioned(doc)) {
        out(c, "a partitioned program: nothing to examine\n");
        return STATUS_OK;
    }
    say_uneven(c, p);
    say_axes(c, p);
    const struct program *prog =
        document_devices(doc) > 0 ? document_program(doc, call_tick(c), c->d) : NULL;
    if (document_devices(doc) > 0 && !prog)
        return call_failed(c);
    if (prog) {
        for (int kind = REMAT_ARRAY; kind <= REMAT_FALLBACK; kind++)
            say_remat_list(c, prog, p, (enum remat_kind)kind);
        const char **missing;
        int n = run_missing(prog->module, &c->arena, &missing);
        if (c->json)
            json_put_open(&c->js, "cannot_run", '[');
        else if (n > 0)
            out(c, "run and verify have no kernel for:");
        for (int k = 0; k < n; k++) {
            if (c->json)
                json_string(&c->js, missing[k]);
            else
                out(c, " %s", missing[k]);
        }
        if (c->json)
            json_close(&c->js, ']');
        else if (n > 0)
            out(c, "\n");
    }
    if (!c->json && document_devices(doc) <= 0)
        out(c, "no devices to examine it for; try: mesh data=2 model=4\n");
    else if (!c->json && !c->out.n)
        out(c, "nothing found: every size divides, no array is made whole, every operation has its "
               "rule\n");
    return STATUS_OK;
}
