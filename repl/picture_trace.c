/* What ran, drawn: collectives hop by hop, devices over time. A run is kept until the strategy changes: the
 * frames of an animation are all of one. */
#include <stdlib.h>
#include <string.h>

#include "emulate/debug.h"
#include "repl/pictures.h"
#include "repl/run.h"
#include "viz/hops.h"

struct picture_run {
    uint64_t key;
    const struct strategy *strategy;
    const struct program *program;
    struct trace trace;
    /* operands of one collective on every device, for the numbers in the cells */
    instr_id at;
    bool asked;
    int64_t ndevices;
    struct tensor *operands;
};

static void forget_operands(struct picture_run *r)
{
    for (int64_t d = 0; d < r->ndevices && r->operands; d++)
        tensor_free(&r->operands[d]);
    free(r->operands);
    r->operands = NULL;
    r->ndevices = 0;
    r->asked = false;
}

void picture_run_free(struct shell *sh)
{
    struct picture_run *r = sh->picture_run;
    if (!r)
        return;
    forget_operands(r);
    trace_free(&r->trace);
    free(r);
    sh->picture_run = NULL;
}

static bool run_inputs_of(struct picture *p, const struct program *prog, struct leaves *inputs)
{
    int64_t seed = (int64_t)document_strategy(p->c->sh->doc)->options.seed;
    return run_inputs(p->c, prog->module, prog->param_shape, prog->nparams, prog->num_partitions, NULL,
                      (uint64_t)seed, inputs);
}

/* The trace of the program as it is now. NULL: reported. */
static struct picture_run *traced(struct picture *p)
{
    struct call *c = p->c;
    struct shell *sh = c->sh;
    const struct program *prog = document_program(sh->doc, call_tick(c), c->d);
    if (!prog)
        return NULL;
    const struct strategy *s = document_strategy(sh->doc);
    struct picture_run *r = sh->picture_run;
    if (r && r->key == s->key && r->strategy == s && r->program == prog)
        return r;
    picture_run_free(sh);
    struct leaves inputs = { 0 };
    r = calloc(1, sizeof *r);
    if (!r || !run_inputs_of(p, prog, &inputs)) {
        leaves_free(&inputs);
        free(r);
        return NULL;
    }
    sh->picture_run = r;
    struct run_options o = run_options_of(c, prog->num_partitions);
    struct tensor *list = NULL;
    int64_t n = 0;
    bool equal;
    o.trace = &r->trace;
    diag_stage(c->d, "run");
    bool ok = run_program(prog, inputs.v, inputs.n, &o, &list, &n, &equal, call_tick(c), c->d);
    for (int64_t k = 0; k < n; k++)
        tensor_free(&list[k]);
    free(list);
    leaves_free(&inputs);
    *r = (struct picture_run){ .key = s->key, .strategy = s, .program = prog, .trace = r->trace };
    if (!ok) {
        picture_run_free(sh);
        return NULL;
    }
    return r;
}

/* ---- numbers ------------------------------------------------------------------------------------- */

/* Stops every device before the collective and takes its operand. Where that cannot be had (loops that do not
 * come there, large arrays) there are no numbers. */
static void find_operands(struct picture *p, struct picture_run *r, instr_id at)
{
    enum { MOST_DEVICES = 64, MOST_ELEMENTS = 4096 };
    const struct program *prog = r->program;
    if (r->asked && r->at.i == at.i)
        return;
    forget_operands(r);
    r->asked = true;
    r->at = at;
    const struct instr *in = instr_at(prog->module, at);
    const struct shape *v = in->noperands == 1 ? instr_shape(prog->module, in->operands[0]) : NULL;
    if (!v || v->kind != SHAPE_ARRAY || v->count > MOST_ELEMENTS || prog->num_partitions > MOST_DEVICES)
        return;
    struct leaves inputs = { 0 };
    if (!run_inputs_of(p, prog, &inputs)) {
        leaves_free(&inputs);
        return;
    }
    struct run_options o = run_options_of(p->c, prog->num_partitions);
    struct debugger *g = debug_open(prog, inputs.v, inputs.n, &o, call_tick(p->c), NULL);
    leaves_free(&inputs);
    if (!g)
        return;
    debug_break(g, at, true);
    if (debug_has_step(g, at) && debug_continue(g, call_tick(p->c), NULL) == DEBUG_STOPPED) {
        r->operands = calloc((size_t)prog->num_partitions, sizeof *r->operands);
        r->ndevices = r->operands ? prog->num_partitions : 0;
        for (int64_t d = 0; d < r->ndevices; d++)
            if (!debug_value(g, d, in->operands[0], 0, &r->operands[d])) {
                forget_operands(r);
                r->asked = true;
            }
    }
    debug_close(g);
}

struct chunk_reader {
    const struct picture_run *run;
    const struct trace_meeting *m;
    int64_t dim; /* that a reduce-scatter or an all-to-all cuts; -1 */
};

static double element(const struct tensor *t, int64_t at)
{
    const char *p = (const char *)t->data + at * dtype_bytes(t->dtype);
    enum dtype_kind kind = dtype_kind(t->dtype);
    if (kind == DTYPE_KIND_FLOAT)
        return float_load(t->dtype, p);
    int64_t n = 0;
    size_t size = (size_t)dtype_bytes(t->dtype);
    memcpy(&n, p, size);
    if (kind == DTYPE_KIND_SIGNED && size < 8 && (n >> (8 * size - 1)) & 1)
        n -= INT64_C(1) << (8 * size);
    return (double)n;
}

/* Row-major index of element k of part `part` of n along dim. */
static int64_t part_index(const struct tensor *t, int64_t dim, int64_t part, int64_t n, int64_t k)
{
    int64_t index[32], at = 0, size = t->dims[dim] / n;
    for (int d = t->rank - 1; d >= 0; d--) {
        int64_t extent = d == dim ? size : t->dims[d];
        index[d] = k % extent + (d == dim ? part * size : 0);
        k /= extent;
    }
    for (int d = 0; d < t->rank; d++)
        at = at * t->dims[d] + index[d];
    return at;
}

static int chunk_numbers(void *context, int64_t rank, int64_t chunk, double *out_v)
{
    const struct chunk_reader *r = context;
    const struct tensor *t = &r->run->operands[r->m->devices[rank]];
    int64_t count = 1, n = r->m->ndevices, parts = r->m->nchunks, part = chunk;
    for (int d = 0; d < t->rank; d++)
        count *= t->dims[d];
    bool cut = r->m->kind == OP_REDUCE_SCATTER || r->m->kind == OP_ALL_TO_ALL;
    if (r->m->kind == OP_ALL_TO_ALL) {
        part = chunk % n;
        parts = n;
    }
    if (r->m->kind == OP_ALL_GATHER || r->m->kind == OP_COLLECTIVE_PERMUTE)
        parts = 1;
    if (parts < 1 || (cut && (r->dim < 0 || r->dim >= t->rank || t->dims[r->dim] % n)))
        return 0;
    int64_t from = parts > 1 && !cut ? part * ceil_div(count, parts) : 0;
    int64_t size = cut ? count / n : parts > 1 ? min_i64(ceil_div(count, parts), count - from) : count;
    int shown = 0;
    for (int64_t k = 0; k < size && shown < HOPS_NUMBERS; k++)
        out_v[shown++] = element(t, cut ? part_index(t, r->dim, part, n, k) : from + k);
    return shown;
}

static enum hops_combine combine_of(const struct module *m, instr_id i)
{
    comp_id called[2];
    if (instr_called(m, i, called, 2) < 1)
        return COMBINE_NONE;
    switch ((int)instr_at(m, comp_at(m, called[0])->root)->op) {
    case OP_ADD: return COMBINE_ADD;
    case OP_MULTIPLY: return COMBINE_MULTIPLY;
    case OP_MAXIMUM: return COMBINE_MAX;
    case OP_MINIMUM: return COMBINE_MIN;
    default: return COMBINE_NONE;
    }
}

/* ---- views --------------------------------------------------------------------------------------- */

static bool read_index(struct call *c, const char *option, int64_t most, int64_t *v)
{
    const char *text = call_option(c, option);
    size_t n = text ? strlen(text) : 0;
    if (!text || (n > 0 && parse_i64(text, n, v) == n && *v >= 0 && *v <= most))
        return true;
    call_usage(c, -1, "%s=%s: a number from 0 to %" PRId64 " is wanted", option, text, most);
    return false;
}

static bool find_meeting(struct picture *p, const struct picture_run *r, const char *name, struct hops_options *o)
{
    struct call *c = p->c;
    const struct program *prog;
    const struct collective *k;
    int64_t group = 0;
    if (!picture_collective(c, name, &prog, &k))
        return false;
    int64_t groups = 0;
    for (int64_t m = 0; m < r->trace.nmeetings; m++)
        if (r->trace.meetings[m].instr.i == k->instr.i && r->trace.meetings[m].turn == 0)
            groups++;
    if (groups == 0) {
        call_usage(c, -1, "%s did not run, or the run is too long to be recorded", name);
        return false;
    }
    if (!read_index(c, "group", groups - 1, &group))
        return false;
    for (int64_t m = 0; m < r->trace.nmeetings; m++)
        if (r->trace.meetings[m].instr.i == k->instr.i && r->trace.meetings[m].turn == 0 && group-- == 0)
            o->meeting = m;
    int naxes;
    const char *names[MESH_MAX_AXES];
    o->name = arena_strdup(p->a, name);
    o->over = arena_strdup(p->a, collective_axes(c, k, &naxes, names));
    return true;
}

/* Where what `hops` shows comes from; false: reported. */
static bool hops_of(struct picture *p, struct picture_run **run, struct hops_options *o, struct chunk_reader *reader)
{
    struct call *c = p->c;
    *o = (struct hops_options){ .round = 0, .list = p->text };
    if (c->n != 1) {
        call_usage(c, c->n > 1 ? 1 : -1, "which collective? comms lists them");
        return false;
    }
    *run = traced(p);
    if (!*run || !find_meeting(p, *run, c->args[0].text, o))
        return false;
    const struct trace_meeting *m = &(*run)->trace.meetings[o->meeting];
    if (!read_index(c, "round", m->rounds, &o->round))
        return false;
    find_operands(p, *run, m->instr);
    *reader = (struct chunk_reader){ *run, m, -1 };
    const struct instr *in = instr_at((*run)->program->module, m->instr);
    int ndims;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &ndims);
    reader->dim = ndims > 0 ? dims[0] : -1;
    o->combine = combine_of((*run)->program->module, m->instr);
    bool sums = m->kind == OP_ALL_REDUCE || m->kind == OP_REDUCE_SCATTER;
    if ((*run)->operands && (!sums || o->combine != COMBINE_NONE)) {
        o->value = chunk_numbers;
        o->context = reader;
    }
    return true;
}

struct scene *picture_hops(struct picture *p)
{
    enum { MOST_FRAMES = 16 };
    struct picture_run *run;
    struct hops_options o;
    struct chunk_reader reader;
    if (!hops_of(p, &run, &o, &reader))
        return NULL;
    if (call_option(p->c, "round") || p->c->sh->capture)
        return view_hops(&run->trace, &o, p->a);
    return view_hops_strip(&run->trace, &o, MOST_FRAMES, p->a);
}

int64_t picture_frames(struct picture *p, struct scene ***frames)
{
    enum { MOST = 128 };
    struct picture_run *run;
    struct hops_options o;
    struct chunk_reader reader;
    if (!hops_of(p, &run, &o, &reader))
        return -1;
    int64_t n = min_i64(run->trace.meetings[o.meeting].rounds + 1, MOST);
    *frames = ARENA_ARRAY(p->a, struct scene *, n);
    for (int64_t k = 0; k < n; k++) {
        o.round = k;
        (*frames)[k] = view_hops(&run->trace, &o, p->a);
    }
    return n;
}

/* stages=AXIS: where each device is along it. */
static bool find_stages(struct picture *p, const char *axis, const struct trace *t, struct timeline_stages *out_s)
{
    struct call *c = p->c;
    const struct mesh *mesh = document_mesh(c->sh->doc);
    int k = mesh ? mesh_find_axis(mesh, axis, strlen(axis)) : -1;
    if (k < 0 || t->ndevices > mesh_devices(mesh)) {
        call_usage(c, -1, "stages=%s: the mesh has no such axis", axis);
        return false;
    }
    int64_t inner = 1, *stage = ARENA_ARRAY(p->a, int64_t, t->ndevices);
    for (int x = k + 1; x < mesh->naxes; x++)
        inner *= mesh->axes[x].size;
    for (int64_t d = 0; d < t->ndevices; d++)
        stage[d] = order_cell(document_ir(c->sh->doc)->shardings, mesh->order, d) / inner % mesh->axes[k].size;
    *out_s = (struct timeline_stages){ mesh->axes[k].name, mesh->axes[k].size, stage };
    return true;
}

struct scene *picture_timeline(struct picture *p)
{
    if (p->c->n > 0) {
        call_usage(p->c, 0, "timeline takes no argument");
        return NULL;
    }
    struct picture_run *run = traced(p);
    if (!run)
        return NULL;
    struct timeline_stages stages;
    const char *axis = call_option(p->c, "stages");
    if (axis && !find_stages(p, axis, &run->trace, &stages))
        return NULL;
    return view_timeline(&run->trace, axis ? &stages : NULL, p->width > 0 ? p->width - 150 : 330, p->text, p->a);
}
