/* break, continue, print, and step while the devices are stopped: a debugger over all devices in lock
 * step. It runs the program of the strategy that it was opened on; an edit ends it. */
#include <stdlib.h>
#include <string.h>

#include "emulate/debug.h"
#include "repl/run.h"

void debug_forget(struct shell *sh)
{
    debug_close(sh->debug);
    sh->debug = NULL;
    sh->debug_program = NULL;
}

/* The debugger of the current program; an older one is closed. */
static bool fresh(struct call *c, const struct program *p)
{
    struct shell *sh = c->sh;
    uint64_t key = document_strategy(sh->doc)->key;
    if (sh->debug && (sh->debug_program != p || sh->debug_key != key))
        debug_forget(sh);
    return sh->debug != NULL;
}

bool debug_is_open(struct call *c)
{
    if (!c->sh->debug)
        return false;
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    return p && fresh(c, p);
}

static const struct program *open_debugger(struct call *c)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p || fresh(c, p))
        return p;
    struct leaves inputs = { 0 };
    int64_t seed;
    if (run_seed(c, &seed) && run_inputs(c, p->module, p->param_shape, p->nparams, p->num_partitions,
                                         NULL, (uint64_t)seed, &inputs)) {
        struct run_options o = run_options_of(c, p->num_partitions);
        diag_stage(c->d, "run");
        c->sh->debug = debug_open(p, inputs.v, inputs.n, &o, call_tick(c), c->d);
    }
    leaves_free(&inputs);
    c->sh->debug_program = p;
    c->sh->debug_key = document_strategy(c->sh->doc)->key;
    return c->sh->debug ? p : NULL;
}

/* ---- where the devices are ---------------------------------------------------------------------- */

struct place {
    instr_id at;
    bool waits;
    int64_t n;
    struct str devices;
};

static void say_places(struct call *c, const struct program *p)
{
    VEC(struct place) list = { 0 };
    for (int64_t d = 0; d < p->num_partitions; d++) {
        bool waits, known = false;
        instr_id at = debug_at(c->sh->debug, d, &waits);
        for (int64_t k = 0; k < list.n && !known; k++) {
            struct place *x = &list.v[k];
            known = x->at.i == at.i && x->waits == waits;
            if (known && x->n++ < 12)
                str_addf(&x->devices, ",%" PRId64, d);
        }
        if (known)
            continue;
        struct place x = { at, waits, 1, STR_IN(&c->arena) };
        str_addf(&x.devices, "%" PRId64, d);
        vec_push(&c->arena, &list, x);
    }
    if (c->json) {
        json_put_int(&c->js, "steps", debug_steps(c->sh->debug));
        json_put_open(&c->js, "devices", '[');
        for (int64_t d = 0; d < p->num_partitions; d++) {
            bool waits;
            instr_id at = debug_at(c->sh->debug, d, &waits);
            json_open(&c->js, '{');
            json_put_int(&c->js, "device", d);
            json_put_string(&c->js, "at", at.i ? program_label(c, p->module, at) : NULL);
            json_put_bool(&c->js, "waits", waits);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    for (int64_t k = 0; k < list.n; k++) {
        struct place *x = &list.v[k];
        const struct instr *i = x->at.i ? instr_at(p->module, x->at) : NULL;
        out(c, "%s%s %s: device%s %s%s\n",
            !i ? "ended" : x->waits ? "waiting in " : "before ",
            i ? program_label(c, p->module, x->at) : "",
            i ? arena_printf(&c->arena, "(%s, step %" PRId64 ")", op_name((enum op_kind)i->op),
                             debug_steps(c->sh->debug))
              : arena_printf(&c->arena, "after step %" PRId64, debug_steps(c->sh->debug)),
            x->n == 1 ? "" : "s", str_text(&x->devices), x->n > 13 ? ",.." : "");
    }
}

static int after_steps(struct call *c, const struct program *p, enum debug_state s)
{
    if (s == DEBUG_FAILED)
        return call_failed(c);
    say_places(c, p);
    return STATUS_OK;
}

/* ---- commands ------------------------------------------------------------------------------------ */

static int list_breaks(struct call *c)
{
    if (!debug_is_open(c)) {
        if (c->json)
            json_put_bool(&c->js, "stopped", false);
        else
            out(c, "no devices are stopped: break INSTR\n");
        return STATUS_OK;
    }
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (c->json)
        json_put_open(&c->js, "breaks", '[');
    for (uint32_t k = 1; k <= module_ninstrs(p->module); k++) {
        instr_id i = { k };
        if (!debug_breaks(c->sh->debug, i))
            continue;
        if (c->json)
            json_string(&c->js, program_label(c, p->module, i));
        else
            out(c, "break before %s\n", program_label(c, p->module, i));
    }
    if (c->json)
        json_close(&c->js, ']');
    say_places(c, p);
    return STATUS_OK;
}

int cmd_break(struct call *c)
{
    instr_id i;
    if (c->n == 0)
        return list_breaks(c);
    if (!strcmp(c->args[0].text, "off") && !c->args[0].quoted) {
        debug_forget(c->sh);
        if (!c->json)
            out(c, "the devices are gone\n");
        return STATUS_OK;
    }
    const struct program *p = open_debugger(c);
    if (!p)
        return call_failed(c);
    if (!program_instr(c, p, c->args[0].text, &i))
        return call_usage(c, 0, "the program has no instruction %s", c->args[0].text);
    if (!debug_has_step(c->sh->debug, i))
        return call_usage(c, 0, "%s is no step: it is known before the program starts, or another value's name",
                          program_label(c, p->module, i));
    debug_break(c->sh->debug, i, true);
    if (c->json)
        json_put_string(&c->js, "break", program_label(c, p->module, i));
    else
        out(c, "break before %s of the program; continue runs to it\n", program_label(c, p->module, i));
    return STATUS_OK;
}

int cmd_continue(struct call *c)
{
    const struct program *p = open_debugger(c);
    if (!p)
        return call_failed(c);
    diag_stage(c->d, "run");
    return after_steps(c, p, debug_continue(c->sh->debug, call_tick(c), c->d));
}

/* step [N], while devices are stopped. */
int debug_step_command(struct call *c, int64_t n)
{
    const struct program *p = open_debugger(c);
    enum debug_state s = DEBUG_STOPPED;
    if (!p)
        return call_failed(c);
    diag_stage(c->d, "run");
    for (int64_t k = 0; k < n && s == DEBUG_STOPPED; k++) {
        s = debug_step(c->sh->debug, c->d);
        if (!tick_poll(call_tick(c), "step", k, n))
            break;
    }
    return after_steps(c, p, s);
}

/* ---- print --------------------------------------------------------------------------------------- */

/* Nested braces, at most `most` elements. */
static const char *values(struct call *c, const struct tensor *t, int64_t most)
{
    struct str s = STR_IN(&c->arena);
    int64_t count = 1;
    for (int d = 0; d < t->rank; d++)
        count *= t->dims[d];
    int64_t shown = min_i64(count, most);
    for (int64_t i = 0; i < shown; i++) {
        int64_t block = 1;
        if (i)
            str_adds(&s, ", ");
        for (int d = t->rank - 1; d >= 0; d--) {
            block *= t->dims[d];
            if (i % block == 0)
                str_addc(&s, '{');
        }
        str_adds(&s, tensor_element_text(&c->arena, t, i));
        block = 1;
        for (int d = t->rank - 1; d >= 0; d--) {
            block *= t->dims[d];
            if ((i + 1) % block == 0)
                str_addc(&s, '}');
        }
    }
    if (shown < count)
        str_addf(&s, ", .. %s more", with_commas(&c->arena, count - shown));
    return str_text(&s);
}

static void print_leaf(struct call *c, int64_t device, const struct tensor *t)
{
    int64_t most = c->all || c->json ? INT64_MAX : 64;
    if (c->json) {
        json_open(&c->js, '{');
        json_put_int(&c->js, "device", device);
        json_put_string(&c->js, "shape", tensor_shape_text(c, t));
        json_put_string(&c->js, "value", values(c, t, most));
        json_close(&c->js, '}');
        return;
    }
    out(c, "device %" PRId64 "  %s  %s\n", device, tensor_shape_text(c, t), values(c, t, most));
}

static int64_t print_on(struct call *c, const struct program *p, instr_id i, int64_t device)
{
    int64_t printed = 0, n = shape_get(p->module->ir, instr_at(p->module, i)->shape)->nleaves;
    for (int64_t leaf = 0; leaf < n; leaf++) {
        struct tensor t;
        if (!debug_value(c->sh->debug, device, i, leaf, &t))
            continue;
        print_leaf(c, device, &t);
        tensor_free(&t);
        printed++;
    }
    return printed;
}

/* A loaded name means its value as it is in the end, in the final sharding: the last node that serves
 * the instruction and has that; a name of the program means that node. */
static bool printed_instr(struct call *c, const struct program *p, const char *name, instr_id *out_i)
{
    const struct propagation *prop = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!program_instr(c, p, name, out_i))
        return false;
    if (!strcmp(program_label(c, p->module, *out_i), *name == '%' ? name + 1 : name) || !prop ||
        !p->notes || !p->node_sharding)
        return true;
    instr_id source = p->notes[out_i->i].source;
    sharding_id final = prop->final[source.i];
    for (uint32_t k = module_ninstrs(p->module); k > out_i->i; k--)
        if (p->notes[k].source.i == source.i && p->node_sharding[k].i == final.i && final.i &&
            instr_at(p->module, (instr_id){ k })->shape.i == instr_at(p->module, *out_i)->shape.i &&
            debug_has_step(c->sh->debug, (instr_id){ k })) {
            *out_i = (instr_id){ k };
            return true;
        }
    return true;
}

int cmd_print(struct call *c)
{
    instr_id i;
    int64_t device = -1, printed = 0;
    const char *text = call_option(c, "device");
    bool was_open = debug_is_open(c);
    const struct program *p = open_debugger(c);
    if (!p)
        return call_failed(c);
    if (!printed_instr(c, p, c->args[0].text, &i))
        return call_usage(c, 0, "the program has no instruction %s", c->args[0].text);
    if (text && (parse_i64(text, strlen(text), &device) != strlen(text) || device < 0 ||
                 device >= p->num_partitions))
        return call_usage(c, -1, "device=%s is none of the %" PRId64 " devices", text, p->num_partitions);
    diag_stage(c->d, "run");
    enum debug_state s = DEBUG_STOPPED;
    while (!was_open && s == DEBUG_STOPPED) /* nobody stopped anything: all values of a whole run */
        s = debug_continue(c->sh->debug, call_tick(c), c->d);
    if (s == DEBUG_FAILED)
        return call_failed(c);
    if (c->json)
        json_put_open(&c->js, "values", '[');
    int64_t from = device < 0 ? 0 : device,
            to = device < 0 ? call_rows(c, p->num_partitions) : device + 1;
    for (int64_t d = from; d < to; d++)
        printed += print_on(c, p, i, d);
    if (c->json)
        json_close(&c->js, ']');
    if (device < 0)
        call_more(c, to, p->num_partitions, "devices");
    if (!printed && !c->json)
        out(c, "%s has no value yet\n", program_label(c, p->module, i));
    if (!was_open)
        debug_forget(c->sh);
    return STATUS_OK;
}
