/* trace: what ran when, and how every collective moved its chunks. inject: a run with a planted
 * fault, and what became of it. */
#include <stdlib.h>
#include <string.h>

#include "repl/run.h"

/* ---- shared ------------------------------------------------------------------------------------- */

const char *program_label(struct call *c, const struct module *m, instr_id i)
{
    return i.i ? arena_strdup(&c->arena, name_text(m->ir, instr_at(m, i)->name)) : "-";
}

/* By its name in the program, or by the loaded instruction that it is or serves (the first). */
bool program_instr(struct call *c, const struct program *p, const char *name, instr_id *out_i)
{
    const struct module *m = p->module;
    if (*name == '%')
        name++;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (!strcmp(name_text(m->ir, instr_at(m, (instr_id){ k })->name), name)) {
            *out_i = (instr_id){ k };
            return true;
        }
    /* Of the nodes that serve it, the one that does the same operation, else the first that does one. */
    instr_id first = { 0 };
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        instr_id s = served_by(c, p, (instr_id){ k });
        const struct instr *i = instr_at(m, (instr_id){ k });
        if (!s.i || (strcmp(label_of(c, s), name) != 0 && strcmp(tensor_name(c, s), name) != 0))
            continue;
        if (i->op == instr_at(document_module(c->sh->doc), s)->op) {
            *out_i = (instr_id){ k };
            return true;
        }
        if (!first.i && i->op != OP_PARAMETER && i->op != OP_CONSTANT)
            first = (instr_id){ k };
    }
    if (first.i) {
        *out_i = first;
        return true;
    }
    return false;
}

static bool run_traced(struct call *c, const struct program *p, int64_t seed, struct trace *t,
                       struct fault *faults, int nfaults, bool *copies_equal)
{
    struct leaves inputs = { 0 };
    if (!run_inputs(c, p->module, p->param_shape, p->nparams, p->num_partitions, NULL,
                    (uint64_t)seed, &inputs)) {
        leaves_free(&inputs);
        return false;
    }
    struct run_options o = run_options_of(c, p->num_partitions);
    struct tensor *list = NULL;
    int64_t n = 0;
    o.trace = t;
    o.faults = faults;
    o.nfaults = nfaults;
    diag_stage(c->d, "run");
    bool ok = run_program(p, inputs.v, inputs.n, &o, &list, &n, copies_equal, call_tick(c), c->d);
    for (int64_t k = 0; k < n; k++)
        tensor_free(&list[k]);
    free(list);
    leaves_free(&inputs);
    return ok;
}

/* ---- trace -------------------------------------------------------------------------------------- */

static const char *device_list(struct call *c, const int64_t *v, int64_t n)
{
    struct str s = STR_IN(&c->arena);
    for (int64_t k = 0; k < n && k < 16; k++)
        str_addf(&s, "%s%" PRId64, k ? "," : "", v[k]);
    if (n > 16)
        str_addf(&s, ",.. (%" PRId64 ")", n);
    return str_text(&s);
}

static const char *ticks_text(struct call *c, int64_t start, int64_t end)
{
    return arena_printf(&c->arena, "%" PRId64 "-%" PRId64, start, end);
}

static const char *percent(struct call *c, double share)
{
    return arena_printf(&c->arena, "%.1f %%", 100 * share);
}

static void json_meeting(struct call *c, const struct trace *t, const struct trace_meeting *m)
{
    struct json *j = &c->js;
    json_open(j, '{');
    json_put_string(j, "instruction", program_label(c, t->module, m->instr));
    json_put_string(j, "kind", op_name(m->kind));
    json_put_int(j, "turn", m->turn);
    json_put_open(j, "devices", '[');
    for (int64_t k = 0; k < m->ndevices; k++)
        json_int(j, m->devices[k]);
    json_close(j, ']');
    json_put_int(j, "chunks", m->nchunks);
    json_put_int(j, "rounds", m->rounds);
    json_put_int(j, "start", m->start);
    json_put_int(j, "end", m->end);
    json_put_int(j, "bytes", m->bytes);
    json_put_open(j, "hops", '[');
    for (int64_t k = m->first_hop; k < m->first_hop + m->nhops; k++) {
        const struct trace_hop *h = &t->hops[k];
        json_open(j, '{');
        json_put_int(j, "round", h->round);
        json_put_int(j, "from", h->from);
        json_put_int(j, "to", h->to);
        json_put_int(j, "chunk", h->chunk);
        if (h->nchunks != 1)
            json_put_int(j, "chunks", h->nchunks);
        json_put_int(j, "bytes", h->bytes);
        json_put_int(j, "start", h->start);
        json_put_int(j, "end", h->end);
        json_put_bool(j, "sums", h->sums);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void json_event(struct call *c, const struct trace *t, const struct trace_event *e)
{
    struct json *j = &c->js;
    json_open(j, '{');
    json_put_int(j, "device", e->device);
    json_put_string(j, "instruction", program_label(c, t->module, e->instr));
    json_put_string(j, "what", trace_kind_name(e->kind));
    json_put_int(j, "turn", e->turn);
    json_put_int(j, "start", e->start);
    json_put_int(j, "end", e->end);
    if (e->meeting >= 0)
        json_put_int(j, "collective", e->meeting);
    json_close(j, '}');
}

static void json_trace(struct call *c, const struct trace *t, instr_id only, int64_t device)
{
    struct json *j = &c->js;
    json_put_string(j, "collectives_by", collective_algorithm_name(t->algorithm));
    json_put_int(j, "devices", t->ndevices);
    json_put_int(j, "ticks", t->ticks);
    json_put_string(j, "idle", arena_printf(&c->arena, "%.6f", trace_idle_share(t)));
    json_put_bool(j, "truncated", t->truncated);
    json_put_open(j, "per_device", '[');
    for (int64_t d = 0; d < t->ndevices; d++) {
        json_open(j, '{');
        json_put_int(j, "device", d);
        json_put_int(j, "computing", t->computing[d]);
        json_put_int(j, "collectives", t->collective[d]);
        json_put_int(j, "waiting", t->waiting[d]);
        json_put_int(j, "overlapped", t->overlapped[d]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_put_open(j, "collectives", '[');
    for (int64_t k = 0; k < t->nmeetings; k++)
        if (!only.i || t->meetings[k].instr.i == only.i)
            json_meeting(c, t, &t->meetings[k]);
    json_close(j, ']');
    json_put_open(j, "events", '[');
    for (int64_t k = 0; k < t->nevents; k++)
        if ((device < 0 || t->events[k].device == device) &&
            (!only.i || t->events[k].instr.i == only.i))
            json_event(c, t, &t->events[k]);
    json_close(j, ']');
}

/* Whether any collective flew while its device went on: only then there is something to show. */
static bool any_overlapped(const struct trace *t)
{
    for (int64_t d = 0; d < t->ndevices; d++)
        if (t->overlapped[d])
            return true;
    return false;
}

static void say_devices(struct call *c, const struct trace *t)
{
    static const char *const heads[] = { ">device", ">computing", ">collectives", ">waiting",
                                         ">idle", NULL };
    static const char *const more[] = { ">device", ">computing", ">collectives", ">waiting",
                                        ">idle", ">overlapped", NULL };
    struct table tab;
    int64_t shown = call_rows(c, t->ndevices);
    bool flew = any_overlapped(t);
    table_init(&tab, &c->arena, flew ? more : heads);
    for (int64_t d = 0; d < shown; d++) {
        const char **row = table_row(&tab);
        row[0] = arena_printf(&c->arena, "%" PRId64, d);
        row[1] = with_commas(&c->arena, t->computing[d]);
        row[2] = with_commas(&c->arena, t->collective[d]);
        row[3] = with_commas(&c->arena, t->waiting[d]);
        row[4] = percent(c, t->ticks ? (double)t->waiting[d] / (double)t->ticks : 0);
        if (flew)
            row[5] = with_commas(&c->arena, t->overlapped[d]);
    }
    table_print(c, &tab, true);
    call_more(c, shown, t->ndevices, "devices");
}

static void say_meetings(struct call *c, const struct trace *t)
{
    static const char *const heads[] = { "collective", "name",   ">turn", ">ticks", "devices",
                                         ">rounds",    ">hops", ">bytes", NULL };
    struct table tab;
    int64_t shown = call_rows(c, t->nmeetings);
    table_init(&tab, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++) {
        const struct trace_meeting *m = &t->meetings[k];
        const char **row = table_row(&tab);
        row[0] = op_name(m->kind);
        row[1] = program_label(c, t->module, m->instr);
        row[2] = arena_printf(&c->arena, "%" PRId64, m->turn);
        row[3] = ticks_text(c, m->start, m->end);
        row[4] = device_list(c, m->devices, m->ndevices);
        row[5] = with_commas(&c->arena, m->rounds);
        row[6] = with_commas(&c->arena, m->nhops);
        row[7] = with_commas(&c->arena, m->bytes);
    }
    table_print(c, &tab, true);
    call_more(c, shown, t->nmeetings, "collectives");
}

static void say_hops(struct call *c, const struct trace *t, instr_id only)
{
    static const char *const heads[] = { ">round", ">ticks", ">from", "", ">to", ">chunk", ">bytes",
                                         "", NULL };
    int64_t total = 0, left;
    for (int64_t k = 0; k < t->nmeetings; k++)
        total += t->meetings[k].instr.i == only.i ? t->meetings[k].nhops : 0;
    left = call_rows(c, total);
    int64_t shown = left;
    for (int64_t k = 0; k < t->nmeetings && left > 0; k++) {
        const struct trace_meeting *m = &t->meetings[k];
        struct table tab;
        if (m->instr.i != only.i)
            continue;
        out(c, "%s, turn %" PRId64 ", devices %s: %s, %s, ticks %s\n",
            program_label(c, t->module, m->instr), m->turn, device_list(c, m->devices, m->ndevices),
            counted(&c->arena, m->nchunks, "chunk"), counted(&c->arena, m->rounds, "round"),
            ticks_text(c, m->start, m->end));
        table_init(&tab, &c->arena, heads);
        for (int64_t q = m->first_hop; q < m->first_hop + m->nhops && left > 0; q++, left--) {
            const struct trace_hop *h = &t->hops[q];
            const char **row = table_row(&tab);
            row[0] = arena_printf(&c->arena, "%" PRId64, h->round + 1);
            row[1] = ticks_text(c, h->start, h->end);
            row[2] = arena_printf(&c->arena, "%" PRId64, h->from);
            row[3] = "->";
            row[4] = arena_printf(&c->arena, "%" PRId64, h->to);
            row[5] = h->nchunks == 1 ? arena_printf(&c->arena, "%" PRId64, h->chunk)
                                     : ticks_text(c, h->chunk, h->chunk + h->nchunks - 1);
            row[6] = with_commas(&c->arena, h->bytes);
            row[7] = h->sums ? "added" : "";
        }
        table_print(c, &tab, true);
    }
    call_more(c, shown, total, "hops");
}

static void say_timeline(struct call *c, const struct trace *t, int64_t device)
{
    static const char *const heads[] = { ">ticks", "instruction", "", ">turn", NULL };
    int64_t from = t->first_event[device], n = t->first_event[device + 1] - from,
            shown = call_rows(c, n);
    struct table tab;
    table_init(&tab, &c->arena, heads);
    for (int64_t k = from; k < from + shown; k++) {
        const struct trace_event *e = &t->events[k];
        const char **row = table_row(&tab);
        row[0] = ticks_text(c, e->start, e->end);
        row[1] = program_label(c, t->module, e->instr);
        row[2] = trace_kind_name(e->kind);
        row[3] = arena_printf(&c->arena, "%" PRId64, e->turn);
    }
    table_print(c, &tab, true);
    call_more(c, shown, n, "events");
}

static int64_t all_bytes(const struct trace *t)
{
    int64_t n = 0;
    for (int64_t k = 0; k < t->nmeetings; k++)
        n += t->meetings[k].bytes;
    return n;
}

static int say_trace(struct call *c, const struct trace *t, instr_id only, int64_t device)
{
    if (c->json) {
        json_trace(c, t, only, device);
        return STATUS_OK;
    }
    out(c, "%s devices, %s ticks, %s idle; collectives by %s: %s in %s, %s bytes\n",
        with_commas(&c->arena, t->ndevices), with_commas(&c->arena, t->ticks),
        percent(c, trace_idle_share(t)), collective_algorithm_name(t->algorithm),
        counted(&c->arena, t->nhops, "hop"), counted(&c->arena, t->nmeetings, "meeting"),
        with_commas(&c->arena, all_bytes(t)));
    if (only.i)
        say_hops(c, t, only);
    else if (device >= 0)
        say_timeline(c, t, device);
    else {
        say_devices(c, t);
        if (t->nmeetings)
            say_meetings(c, t);
    }
    if (t->truncated)
        out(c, "the record was full: totals are right, lists are cut\n");
    return STATUS_OK;
}

/* device=N; -1: not given. */
static bool device_option(struct call *c, int64_t ndevices, int64_t *device)
{
    const char *text = call_option(c, "device");
    *device = -1;
    if (!text)
        return true;
    if (parse_i64(text, strlen(text), device) == strlen(text) && *device >= 0 && *device < ndevices)
        return true;
    (void)call_usage(c, -1, "device=%s is none of the %" PRId64 " devices", text, ndevices);
    return false;
}

int cmd_trace(struct call *c)
{
    struct trace t = { 0 };
    instr_id only = { 0 };
    int64_t seed, device;
    bool equal;
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    if (!run_seed(c, &seed) || !device_option(c, p->num_partitions, &device))
        return STATUS_USAGE;
    if (c->n && !program_instr(c, p, c->args[0].text, &only))
        return call_usage(c, 0, "the program has no instruction %s", c->args[0].text);
    warn_elided(c);
    bool ok = run_traced(c, p, seed, &t, NULL, 0, &equal);
    int status = ok ? say_trace(c, &t, only, device) : call_failed(c);
    trace_free(&t);
    return status;
}

/* ---- inject ------------------------------------------------------------------------------------- */

static bool fault_kind_of(const char *word, enum fault_kind *out_k)
{
    for (int k = FAULT_DELAY; k <= FAULT_KILL; k++)
        if (!strcmp(word, fault_kind_name((enum fault_kind)k))) {
            *out_k = (enum fault_kind)k;
            return true;
        }
    return false;
}

static bool number_option(struct call *c, const char *name, int64_t without, int64_t *out_n)
{
    const char *text = call_option(c, name);
    *out_n = without;
    if (!text || (parse_i64(text, strlen(text), out_n) == strlen(text) && *out_n >= 0))
        return true;
    (void)call_usage(c, -1, "%s=%s is no number", name, text);
    return false;
}

/* What the run said, as data of this command: it is the answer, not a failure of the command. */
static void say_report(struct call *c, const struct fault *f, const struct diag *d)
{
    if (c->json) {
        json_put_string(&c->js, "fault", fault_kind_name(f->kind));
        json_put_int(&c->js, "device", f->device);
        json_put_bool(&c->js, "reported", true);
        json_put_int(&c->js, "tick", f->when);
        json_put_open(&c->js, "report", '[');
        for (int64_t k = 0; k < d->msgs.n; k++)
            json_string(&c->js, d->msgs.v[k].text);
        json_close(&c->js, ']');
        return;
    }
    for (int64_t k = 0; k < d->msgs.n; k++)
        out(c, "%s%s\n", k ? "  " : "", d->msgs.v[k].text);
}

static void say_delay(struct call *c, const struct program *p, const struct fault *f,
                      const struct trace *t, const struct trace *clean)
{
    const char *text = arena_printf(
        &c->arena,
        "device %" PRId64 " was held up %" PRId64 " ticks at %s (tick %" PRId64
        "): the run ends at tick %" PRId64 ", not %" PRId64 "; %s idle, not %s; the results are right",
        f->device, f->ticks, program_label(c, p->module, f->instr), f->when, t->ticks, clean->ticks,
        percent(c, trace_idle_share(t)), percent(c, trace_idle_share(clean)));
    if (!c->json) {
        out(c, "%s\n", text);
        return;
    }
    json_put_string(&c->js, "fault", "delay");
    json_put_int(&c->js, "device", f->device);
    json_put_bool(&c->js, "reported", true);
    json_put_int(&c->js, "tick", f->when);
    json_put_int(&c->js, "ticks", t->ticks);
    json_put_int(&c->js, "ticks_without", clean->ticks);
    json_put_open(&c->js, "report", '[');
    json_string(&c->js, text);
    json_close(&c->js, ']');
}

/* Runs with the fault; its messages are kept apart from the command's own. */
static int inject(struct call *c, const struct program *p, struct fault *f, int64_t seed)
{
    struct trace t = { 0 }, clean = { 0 };
    struct diag *own = c->d, *d = diag_new();
    bool equal;
    c->d = d;
    bool ok = run_traced(c, p, seed, &t, f, 1, &equal);
    c->d = own;
    int status = STATUS_OK;
    if (!f->hit && ok)
        status = call_usage(c, -1, "nothing happened: device %" PRId64 " does not come to %s that often%s",
                            f->device, program_label(c, p->module, f->instr),
                            f->kind == FAULT_DROP || f->kind == FAULT_CORRUPT ? ", or sends nothing there" : "");
    else if (!f->hit)
        status = call_error(c, STATUS_RESOURCE, "run", "%s", d->msgs.n ? d->msgs.v[0].text : "the run failed");
    else if (!ok)
        say_report(c, f, d);
    else if (f->kind == FAULT_DELAY && run_traced(c, p, seed, &clean, NULL, 0, &equal))
        say_delay(c, p, f, &t, &clean);
    else
        status = call_error(c, STATUS_INTERNAL, "internal", "the fault happened and nobody noticed");
    trace_free(&t);
    trace_free(&clean);
    diag_free(d);
    return status;
}

int cmd_inject(struct call *c)
{
    struct fault f = { 0 };
    int64_t seed, device;
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    if (!fault_kind_of(c->args[0].text, &f.kind))
        return call_usage(c, 0, "delay, drop, corrupt or kill");
    if (!program_instr(c, p, c->args[1].text, &f.instr))
        return call_usage(c, 1, "the program has no instruction %s", c->args[1].text);
    if (!run_seed(c, &seed) || !device_option(c, p->num_partitions, &device) ||
        !number_option(c, "turn", 0, &f.turn) || !number_option(c, "hop", 0, &f.hop) ||
        !number_option(c, "ticks", 1000, &f.ticks))
        return STATUS_USAGE;
    f.device = max_i64(device, 0);
    return inject(c, p, &f, seed);
}
