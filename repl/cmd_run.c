/* run: numbers on emulated devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "repl/run.h"

void leaves_free(struct leaves *l)
{
    for (int64_t k = 0; k < l->n; k++)
        tensor_free(&l->v[k]);
    l->n = 0;
}

/* ---- inputs ---------------------------------------------------------------------------------------- */

static bool read_leaf(struct call *c, const char *folder, int64_t k, const struct shape *s,
                      struct tensor *out_t, bool *found)
{
    *found = false;
    if (!folder)
        return true;
    char *path = arena_printf(&c->arena, "%s/%" PRId64 ".npy", folder, k);
    if (access(path, F_OK) != 0)
        return true;
    *found = true;
    diag_stage(c->d, "io");
    return npy_read(path, s->dtype, s->rank, s->dims, out_t, c->d);
}

static void say_invented(struct call *c, const char *folder, int64_t invented, int64_t total)
{
    if (invented == 0 || (invented == total && !folder))
        return;
    diag_warn(c->d, NULL, (struct span){ 0, 0 },
              "%" PRId64 " of %" PRId64 " inputs are not in %s: small integers are made up (seed=)",
              invented, total, folder ? folder : "a folder");
}

/* Constants that the dump left out as {...}: whatever comes out depends on invented values. */
void warn_elided(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    int64_t n = 0;
    const char *first = NULL;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *i = instr_at(m, (instr_id){ k });
        if (i->op == OP_CONSTANT && i->literal && i->literal->elided && n++ == 0)
            first = name_text(m->ir, i->name);
    }
    if (n > 0)
        diag_warn(c->d, NULL, (struct span){ 0, 0 },
                  "%" PRId64 " constant%s no values in the text, constant({...}): %s%s. Values are "
                             "made up: the numbers mean nothing",
                  n, n == 1 ? " has" : "s have", first, n > 1 ? " and others" : "");
    instr_id outside = module_outside(m);
    if (outside.i)
        diag_warn(c->d, m->source, instr_at(m, outside)->at,
                  "%s: its values come from outside of the program and have no seed (%s): they are made up",
                  name_text(m->ir, instr_at(m, outside)->name),
                  op_name((enum op_kind)instr_at(m, outside)->op));
}

/* Inputs of a size that matters are asked about before they are made: the plan knows the peak. */
static bool inputs_fit(struct call *c, const struct module *m, const shape_id *params,
                       int64_t nparams, int64_t ndevices)
{
    enum { MATTERS = 16 << 20 };
    int64_t bytes = 0;
    bool counted = true;
    for (int64_t k = 0; k < nparams; k++) {
        int64_t own = shape_get(m->ir, params[k])->bytes;
        counted = counted && own >= 0 && add_ok(bytes, own, &bytes);
    }
    if (counted && bytes < MATTERS)
        return true;
    struct run_options o = run_options_of(c, ndevices);
    diag_stage(c->d, "run");
    return run_fits(m, &o, counted ? bytes : -1, call_tick(c), c->d);
}

bool run_inputs(struct call *c, const struct module *m, const shape_id *params, int64_t nparams,
                int64_t ndevices, const char *folder, uint64_t seed, struct leaves *out_l)
{
    int64_t total = 0, invented = 0;
    if (!inputs_fit(c, m, params, nparams, ndevices))
        return false;
    for (int64_t k = 0; k < nparams; k++)
        total += shape_get(m->ir, params[k])->nleaves;
    out_l->v = ARENA_ARRAY(&c->arena, struct tensor, total + 1);
    for (int64_t k = 0; k < nparams; k++) {
        int64_t n = shape_get(m->ir, params[k])->nleaves;
        for (int64_t leaf = 0; leaf < n; leaf++) {
            const struct shape *s = shape_get(m->ir, shape_leaf(m->ir, params[k], leaf));
            int64_t at = out_l->n;
            bool found = false;
            if (s->kind != SHAPE_ARRAY) { /* a token carries nothing */
                out_l->n++;
                continue;
            }
            if (!read_leaf(c, folder, at, s, &out_l->v[at], &found))
                return false;
            if (!found) {
                invented++;
                if (!tensor_generate(s->dtype, s->rank, s->dims, at, seed, &out_l->v[at], c->d))
                    return false;
            }
            out_l->n++;
        }
    }
    say_invented(c, folder, invented, total);
    return true;
}

/* ---- outputs --------------------------------------------------------------------------------------- */

/* Types that NumPy has no name for are raw bytes there; types.json says what they are. */
static bool is_foreign(enum dtype t)
{
    const char *name = dtype_name(t);
    return !strcmp(name, "bf16") || !strncmp(name, "f8", 2) || !strncmp(name, "f4", 2) ||
           !strcmp(name, "s4") || !strcmp(name, "u4") || !strcmp(name, "s2") || !strcmp(name, "u2");
}

static bool write_outputs(struct call *c, const char *folder, const struct tensor *list, int64_t n)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        call_error(c, STATUS_RESOURCE, "write", "%s: %s", folder, strerror(errno));
        return false;
    }
    struct str types = STR_IN(&c->arena);
    for (int64_t k = 0; k < n; k++) {
        if (!list[k].data && list[k].bytes == 0 && list[k].dtype == DTYPE_NONE)
            continue;
        const char *former = diag_stage(c->d, "write");
        if (!npy_write(arena_printf(&c->arena, "%s/%" PRId64 ".npy", folder, k), &list[k], c->d))
            return false;
        diag_stage(c->d, former);
        if (is_foreign(list[k].dtype))
            str_addf(&types, "%s\"%" PRId64 "\": \"%s\"", types.n ? ", " : "{", k,
                     dtype_name(list[k].dtype));
    }
    if (types.n) {
        str_adds(&types, "}\n");
        return write_file(c, arena_printf(&c->arena, "%s/types.json", folder), str_text(&types),
                          types.n);
    }
    return true;
}

/* ---- run ------------------------------------------------------------------------------------------- */

struct run_options run_options_of(struct call *c, int64_t n)
{
    const struct options *o = &document_strategy(c->sh->doc)->options;
    return (struct run_options){ .mode = RUN_FLOAT, .ndevices = n, .threads = o->threads, .collectives = o->collectives };
}

/* The unpartitioned module: the working graph on one device, shardings ignored. */
static bool run_one(struct call *c, const char *folder, uint64_t seed, struct leaves *inputs,
                    struct leaves *outputs)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return false;
    const struct module *m = p->graph->module;
    const struct computation *entry = comp_at(m, m->entry);
    shape_id *params = ARENA_ARRAY(&c->arena, shape_id, entry->nparams + 1);
    for (uint32_t k = 0; k < entry->nparams; k++)
        params[k] = instr_at(m, entry->params[k])->shape;
    if (!run_inputs(c, m, params, entry->nparams, 1, folder, seed, inputs))
        return false;
    struct run_options o = run_options_of(c, 1);
    struct run_result r = { 0 };
    diag_stage(c->d, "run");
    if (!run_module(m, inputs->v, inputs->n, &o, &r, call_tick(c), c->d))
        return false;
    outputs->v = arena_copy(&c->arena, r.out, r.nleaves, sizeof *r.out);
    outputs->n = r.nleaves;
    free(r.out); /* the tensors changed hands */
    return true;
}

static bool run_many(struct call *c, const char *folder, uint64_t seed, struct leaves *inputs,
                     struct leaves *outputs, bool *copies_equal, int64_t *devices)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p || !run_inputs(c, p->module, p->param_shape, p->nparams, p->num_partitions, folder,
                          seed, inputs))
        return false;
    struct run_options o = run_options_of(c, p->num_partitions);
    struct tensor *list = NULL;
    int64_t n = 0;
    diag_stage(c->d, "run");
    if (!run_program(p, inputs->v, inputs->n, &o, &list, &n, copies_equal, call_tick(c), c->d))
        return false;
    outputs->v = arena_copy(&c->arena, list, n, sizeof *list);
    outputs->n = n;
    free(list);
    *devices = p->num_partitions;
    return true;
}

static void say_results(struct call *c, const struct leaves *outputs, int64_t devices,
                        bool copies_equal, const char *folder)
{
    if (c->json) {
        json_put_int(&c->js, "devices", devices);
        json_put_bool(&c->js, "replicas_equal", copies_equal);
        json_put_open(&c->js, "outputs", '[');
        for (int64_t k = 0; k < outputs->n; k++) {
            json_open(&c->js, '{');
            json_put_int(&c->js, "index", k);
            json_put_string(&c->js, "shape", tensor_shape_text(c, &outputs->v[k]));
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    out(c, "ran on %s device%s: %" PRId64 " output%s%s%s\n", with_commas(&c->arena, devices),
        devices == 1 ? "" : "s", outputs->n, outputs->n == 1 ? "" : "s", folder ? " in " : "",
        folder ? folder : "");
    int64_t shown = min_i64(outputs->n, 8);
    for (int64_t k = 0; k < shown; k++)
        out(c, "  %" PRId64 "  %s\n", k, tensor_shape_text(c, &outputs->v[k]));
    if (shown < outputs->n)
        out(c, "  and %" PRId64 " more\n", outputs->n - shown);
}

bool run_seed(struct call *c, int64_t *seed)
{
    const char *text = call_option(c, "seed");
    *seed = (int64_t)document_strategy(c->sh->doc)->options.seed;
    if (!text || parse_i64(text, strlen(text), seed) == strlen(text))
        return true;
    (void)call_usage(c, -1, "seed=%s is no number", text);
    return false;
}

int cmd_run(struct call *c)
{
    const char *in = call_option(c, "inputs"), *to = call_option(c, "outputs"),
               *n = call_option(c, "devices");
    int64_t devices = 1, seed;
    if (n && strcmp(n, "1"))
        return call_usage(
            c, -1,
            "devices=1 runs the unpartitioned module; the mesh says how many there are otherwise");
    if (!run_seed(c, &seed))
        return STATUS_USAGE;
    if (to && (c->sh->safe || c->sh->sealed))
        return call_usage(c, -1, "--safe: run writes no file");
    if (in && c->sh->sealed)
        return call_usage(c, -1, "no file is opened here");
    struct stat st;
    if (in && (stat(in, &st) != 0 || !S_ISDIR(st.st_mode)))
        return call_error(c, STATUS_INPUT, "io", "%s: %s", in,
                          errno ? strerror(errno) : "not a folder");
    warn_elided(c);
    struct leaves inputs = { 0 }, outputs = { 0 };
    bool copies_equal = true;
    bool one = n || document_devices(c->sh->doc) <= 1;
    bool ok = one ? run_one(c, in, (uint64_t)seed, &inputs, &outputs)
                  : run_many(c, in, (uint64_t)seed, &inputs, &outputs, &copies_equal, &devices);
    if (ok && to)
        ok = write_outputs(c, to, outputs.v, outputs.n);
    if (ok)
        say_results(c, &outputs, devices, copies_equal, to);
    leaves_free(&inputs);
    leaves_free(&outputs);
    if (!ok)
        return call_failed(c);
    if (!copies_equal)
        diag_warn(c->d, NULL, (struct span){ 0, 0 },
                  "devices that hold copies of one piece do not agree");
    return STATUS_OK;
}
