/* verify: the proof that the partitioned program computes what the unpartitioned one does. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "repl/run.h"

static void json_verify(struct call *c, const struct verify_result *r, const struct propagation *p)
{
    json_put_string(&c->js, "mode", r->mode == RUN_RING ? "ring" : "float");
    if (r->mode_reason)
        json_put_string(&c->js, "mode_reason", r->mode_reason);
    json_put_bool(&c->js, "equal", r->equal);
    json_put_int(&c->js, "devices", r->devices);
    json_put_int(&c->js, "seed", (int64_t)r->seed);
    json_put_open(&c->js, "outputs", '[');
    for (int64_t k = 0; k < r->noutputs; k++) {
        json_open(&c->js, '{');
        json_put_int(&c->js, "index", r->outputs[k].index);
        json_put_int(&c->js, "differ", r->outputs[k].differ);
        json_put_string(&c->js, "max_error",
                        arena_printf(&c->arena, "%a", r->outputs[k].max_error));
        json_put_string(&c->js, "bound", arena_printf(&c->arena, "%a", r->outputs[k].bound));
        json_close(&c->js, '}');
    }
    json_close(&c->js, ']');
    if (r->poisoned)
        json_put_bool(&c->js, "poisoned", true);
    if (call_option(c, "--each")) {
        json_put_int(&c->js, "intermediates", r->comparable);
        json_put_int(&c->js, "compared", r->compared);
        json_put_int(&c->js, "differing", r->differing);
    }
    if (!r->first.i) {
        json_put_null(&c->js, "first_difference");
        return;
    }
    struct str label = STR_IN(&c->arena);
    instr_id source = p->graph->origin[r->first.i].source;
    const struct module *m = document_module(c->sh->doc);
    if (source.i && source.i <= module_ninstrs(m))
        instr_label(m, source, false, &label);
    else
        instr_label(p->graph->module, r->first, false, &label);
    json_put_open(&c->js, "first_difference", '{');
    json_put_string(&c->js, "instruction", str_text(&label));
    json_put_int(&c->js, "device", r->device);
    json_put_open(&c->js, "index", '[');
    for (int64_t d = 0; d < r->rank; d++)
        json_int(&c->js, r->index[d]);
    json_close(&c->js, ']');
    json_put_string(&c->js, "expected", r->expected);
    json_put_string(&c->js, "got", r->got);
    json_close(&c->js, '}');
}

static void say_each(struct call *c, const struct verify_result *r)
{
    if (call_option(c, "--each"))
        out(c, "%s of %s values compared on every device (%s arrays): %s differ%s\n",
            with_commas(&c->arena, r->compared), with_commas(&c->arena, r->comparable),
            with_commas(&c->arena, r->values), with_commas(&c->arena, r->differing),
            r->differing == 1 ? "s" : "");
}

static void say_verify(struct call *c, const struct verify_result *r, const struct propagation *p)
{
    const char *mode = r->mode == RUN_RING ? "ring" : "float";
    if (r->mode_reason)
        out(c, "mode float: %s\n", r->mode_reason);
    if (r->equal) {
        out(c, "%s device%s agree%s with the unpartitioned module (%s)\n",
            with_commas(&c->arena, r->devices), r->devices == 1 ? "" : "s",
            r->devices == 1 ? "s" : "", mode);
        say_each(c, r);
        return;
    }
    int64_t bad = 0, elements = 0;
    for (int64_t k = 0; k < r->noutputs; k++) {
        bad += r->outputs[k].differ > 0;
        elements += r->outputs[k].differ;
    }
    out(c,
        "%s devices do not agree with the unpartitioned module (%s): %s elements of %" PRId64
        " output%s differ%s\n",
        with_commas(&c->arena, r->devices), mode, with_commas(&c->arena, elements), bad,
        bad == 1 ? "" : "s", r->poisoned ? "; padding reached a result" : "");
    say_each(c, r);
    if (!r->first.i)
        return;
    struct str at = STR_IN(&c->arena);
    for (int64_t d = 0; d < r->rank; d++)
        str_addf(&at, "%s%" PRId64, d ? "," : "", r->index[d]);
    out(c, "first at %s, device %" PRId64 ", index [%s]: %s, not %s\n",
        working_label(c, p->graph, r->first), r->device, str_text(&at), r->got ? r->got : "?",
        r->expected ? r->expected : "?");
}

/* ---- random strategies --------------------------------------------------------------------------- */

/* verify --fuzz N works on a document of its own, made from the text of the loaded module, so that
 * neither undo nor redo nor a derived result of the user's changes. */
struct fuzz {
    struct document *doc;
    struct diag *d;
    struct mesh mesh;
    uint64_t random;
    bool manual; /* has manual regions: what is inside is one device's, only parameters are annotated */
    int64_t passed, failed, refused;
    const char *first_refused;
};

static uint64_t draw(struct fuzz *f)
{
    f->random += 0x9e3779b97f4a7c15ULL;
    return hash_u64(f->random);
}

static void fuzz_mesh(struct call *c, struct fuzz *f, int64_t n)
{
    const struct mesh *own = document_mesh(c->sh->doc);
    f->mesh = (struct mesh){ .name = "", .naxes = 1, .axes = { { "a", n } } };
    if (own && own->naxes > 0 && own->naxes <= 4) {
        f->mesh.naxes = own->naxes;
        for (int k = 0; k < own->naxes; k++)
            f->mesh.axes[k] = (struct mesh_axis){ arena_strdup(&c->arena, own->axes[k].name), own->axes[k].size };
    } else {
        for (int64_t p = 2; p * p <= n; p++)
            if (n % p == 0) {
                f->mesh.naxes = 2;
                f->mesh.axes[0].size = n / p;
                f->mesh.axes[1] = (struct mesh_axis){ "b", p };
            }
    }
    f->mesh.order = order_iota(document_ir(f->doc)->shardings, n);
}

/* Each axis with two chances in three on a dimension of more than one element; NULL: none got one. */
static const char *random_spec(struct call *c, struct fuzz *f, const struct shape *s)
{
    int at[8];
    bool any = false;
    for (int k = 0; k < f->mesh.naxes; k++) {
        at[k] = draw(f) % 3 ? (int)(draw(f) % (uint64_t)(s->rank ? s->rank : 1)) : -1;
        if (at[k] >= 0 && (at[k] >= s->rank || s->dims[at[k]] < 2))
            at[k] = -1;
        any |= at[k] >= 0;
    }
    struct str t = STR_IN(&c->arena);
    str_addc(&t, '[');
    for (int d = 0; d < s->rank; d++) {
        int n = 0;
        str_adds(&t, d ? "," : "");
        for (int k = 0; k < f->mesh.naxes; k++)
            n += at[k] == d;
        str_adds(&t, n > 1 ? "(" : n ? "" : "_");
        for (int k = 0, first = 1; k < f->mesh.naxes; k++)
            if (at[k] == d) {
                str_addf(&t, "%s%s", first ? "" : ",", f->mesh.axes[k].name);
                first = 0;
            }
        str_adds(&t, n > 1 ? ")" : "");
    }
    str_addc(&t, ']');
    return any ? str_text(&t) : NULL;
}

static void annotate_one(struct call *c, struct fuzz *f, instr_id i, struct str *typed)
{
    const struct module *m = document_module(f->doc);
    const struct shape *s = instr_shape(m, i);
    const char *spec = s->kind == SHAPE_ARRAY && s->rank > 0 ? random_spec(c, f, s) : NULL;
    if (!spec)
        return;
    struct source src = { "spec", spec, strlen(spec) };
    struct axes_spec axes;
    struct annotation a = { .kind = ANNOTATE_SHARD, .target = i, .leaf = -1 };
    struct str label = STR_IN(&c->arena);
    size_t used;
    if (!sharding_spec_parse(document_ir(f->doc)->shardings, &f->mesh, 1, s->rank, &src, 0, src.text,
                             src.len, &used, &a.sharding, &axes, f->d) ||
        !edit_annotate(f->doc, 1, &a, NULL, "shard", f->d))
        return;
    instr_label(m, i, false, &label);
    str_addf(typed, "  shard %s %s\n", str_text(&label), spec);
}

static void fuzz_once(struct call *c, struct fuzz *f, int64_t k, uint64_t seed, int threads)
{
    const struct module *m = document_module(f->doc);
    const struct computation *e = comp_at(m, m->entry);
    struct str typed = STR_IN(&c->arena);
    struct verify_result r = { 0 };
    diag_free(f->d);
    f->d = diag_new();
    f->random = hash_u64(seed * 1000003 + (uint64_t)k);
    for (uint32_t j = 0; j < e->nparams; j++)
        if (draw(f) % 3)
            annotate_one(c, f, e->params[j], &typed);
    for (int64_t n = f->manual ? 0 : (int64_t)(draw(f) % (uint64_t)(2 + e->ninstrs / 16)); n > 0; n--)
        annotate_one(c, f, e->instrs[draw(f) % e->ninstrs], &typed);
    const struct propagation *prop = document_propagation(f->doc, call_tick(c), f->d);
    const struct program *p = prop ? document_program(f->doc, call_tick(c), f->d) : NULL;
    if (!p || !verify_program(prop, p, RUN_RING, seed, threads, &r, call_tick(c), f->d)) {
        f->refused++;
        if (!f->first_refused && f->d->msgs.n)
            f->first_refused = arena_strdup(&c->arena, f->d->msgs.v[0].text);
        return;
    }
    if (r.equal)
        f->passed++;
    else if (f->failed++ < 3 && !c->json)
        out(c, "strategy %" PRId64 " (seed=%" PRIu64 ") does not agree:\n%s", k, seed, str_text(&typed));
    verify_result_free(&r);
}

static bool fuzz_open(struct call *c, struct fuzz *f)
{
    struct hlo_print_options po = { 0 };
    struct str text = STR_IN(&c->arena);
    int64_t n = document_devices(c->sh->doc);
    f->doc = document_new();
    f->d = diag_new();
    if (!hlo_print(document_module(c->sh->doc), &po, &text) ||
        !document_load_text(f->doc, "fuzz", str_text(&text), text.n, call_tick(c), c->d))
        return false;
    /* Manual regions need the annotations at their borders: there the dump's stay. */
    const struct strategy *loaded = document_strategy(f->doc);
    f->manual = !edit_unshard_module(f->doc, "unshard --module", f->d) || !document_annotated(f->doc, f->d);
    if (f->manual)
        while (document_strategy(f->doc) != loaded && edit_undo(f->doc, f->d))
            ;
    fuzz_mesh(c, f, n);
    return edit_mesh(f->doc, &f->mesh, "mesh", c->d);
}

static const char *strategies_text(struct call *c, int64_t n)
{
    return arena_printf(&c->arena, "%s random strateg%s", with_commas(&c->arena, n), n == 1 ? "y" : "ies");
}

static int verify_fuzz(struct call *c, int64_t n, uint64_t seed)
{
    struct fuzz f = { 0 };
    int threads = document_strategy(c->sh->doc)->options.threads;
    bool ok = fuzz_open(c, &f), stopped = false;
    for (int64_t k = 0; ok && k < n && !stopped; k++) {
        const struct strategy *start = document_strategy(f.doc);
        fuzz_once(c, &f, k, seed, threads);
        while (document_strategy(f.doc) != start && edit_undo(f.doc, f.d))
            ;
        stopped = !tick_now(call_tick(c), "verify", k, n);
    }
    if (ok && c->json) {
        json_put_int(&c->js, "strategies", f.passed + f.failed + f.refused);
        json_put_int(&c->js, "equal", f.passed);
        json_put_int(&c->js, "different", f.failed);
        json_put_int(&c->js, "refused", f.refused);
    } else if (ok) {
        out(c, "%s on %s devices: %s equal, %s different", strategies_text(c, f.passed + f.failed + f.refused),
            with_commas(&c->arena, document_devices(c->sh->doc)), with_commas(&c->arena, f.passed),
            with_commas(&c->arena, f.failed));
        if (f.refused)
            out(c, ", %s refused (%s)", with_commas(&c->arena, f.refused), f.first_refused ? f.first_refused : "?");
        out(c, "%s\n", stopped ? "; stopped" : "");
    }
    diag_free(f.d);
    document_free(f.doc);
    return !ok ? call_failed(c) : f.failed ? STATUS_DIFFERS : STATUS_OK;
}

/* ---- the command ---------------------------------------------------------------------------------- */

int cmd_verify(struct call *c)
{
    const char *mode_text = call_option(c, "mode"), *fuzz_text = call_option(c, "--fuzz");
    bool each = call_option(c, "--each") != NULL;
    int64_t seed, n = 0;
    enum run_mode mode = RUN_RING;
    if (mode_text && !strcmp(mode_text, "float"))
        mode = RUN_FLOAT;
    else if (mode_text && strcmp(mode_text, "ring"))
        return call_usage(c, -1, "mode=%s is neither ring nor float", mode_text);
    if (mode == RUN_FLOAT && (each || fuzz_text))
        return call_usage(c, -1, "%s is for mode=ring", each ? "--each" : "--fuzz");
    if (!run_seed(c, &seed))
        return STATUS_USAGE;
    if (fuzz_text && (parse_i64(fuzz_text, strlen(fuzz_text), &n) != strlen(fuzz_text) || n < 1))
        return call_usage(c, -1, "--fuzz %s: not a number of strategies", fuzz_text);
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    warn_elided(c);
    diag_stage(c->d, "run");
    if (fuzz_text)
        return verify_fuzz(c, n, (uint64_t)seed);
    const struct propagation *prop = document_propagation(c->sh->doc, call_tick(c), c->d);
    struct verify_result r = { 0 };
    int threads = document_strategy(c->sh->doc)->options.threads;
    bool ok = each ? verify_each(prop, p, (uint64_t)seed, threads, &r, call_tick(c), c->d)
                   : verify_program(prop, p, mode, (uint64_t)seed, threads, &r, call_tick(c), c->d);
    if (ok && c->json)
        json_verify(c, &r, prop);
    else if (ok)
        say_verify(c, &r, prop);
    bool equal = r.equal;
    verify_result_free(&r);
    return !ok ? call_failed(c) : equal ? STATUS_OK : STATUS_DIFFERS;
}
