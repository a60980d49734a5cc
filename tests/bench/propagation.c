/* Figures of the propagation pass: its time beside XLA's on the same module in the same run, visits,
 * what the history of changes costs, `why`, and edits.
 *
 *     propagation FILE XLA_US NAME
 *
 * XLA_US: XLA's own time for its pass on FILE in microseconds; 0: not asked. Each figure is the best of a
 * few rounds, as machines are noisy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "propagate/propagate.h"
#include "session/session.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of this thread's processor: edits and questions are too short to be measured beside others' work. */
static double busy(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void complain(const struct diag *d)
{
    struct arena a = { 0 };
    for (int64_t i = 0; i < d->msgs.n; i++) {
        struct str s = STR_IN(&a);
        diag_render(&d->msgs.v[i], &s);
        fputs(str_text(&s), stdout);
    }
    arena_free(&a);
}

struct pass_figures {
    double best, busy; /* seconds, of the clock and of the processor */
    int64_t visits, sweeps;
    uint32_t writes, instrs;
    int64_t bytes; /* of the propagation: history and tables */
};

static bool time_pass(const struct module *m, bool unrecorded, struct pass_figures *out, struct diag *d)
{
    struct propagation_options o = { .spmd = true,
                                     .nto_output = m->nto_output,
                                     .to_output = m->to_output,
                                     .nto_parameters = m->nto_parameters,
                                     .to_parameters = m->to_parameters,
                                     .unrecorded = unrecorded };
    double until = now() + 0.7;
    out->best = out->busy = 1e9;
    for (int round = 0; round < 3 || (now() < until && round < 200); round++) {
        struct graph *g = graph_prepare(m, true, NULL, d);
        double t = now(), b = busy();
        struct propagation *p = g ? propagate(g, &o, NULL, d) : NULL;
        t = now() - t;
        b = busy() - b;
        if (!p)
            return false;
        out->best = t < out->best ? t : out->best;
        out->busy = b < out->busy ? b : out->busy;
        out->visits = p->visits;
        out->sweeps = p->iterations;
        out->writes = p->nwrites;
        out->instrs = module_ninstrs(p->graph->module);
        out->bytes = p->arena.bytes;
        propagation_free(p);
    }
    return true;
}

/* The slowest of some hundred questions; best of three, milliseconds. */
static double time_why(struct document *doc)
{
    const struct propagation *p = document_propagation(doc, NULL, NULL);
    uint32_t n = module_ninstrs(p->graph->module), step = n / 300 + 1;
    double slowest = 0;
    for (uint32_t i = 1; i <= n; i += step) {
        double best = 1e9;
        for (int round = 0; round < 3; round++) {
            struct arena a = { 0 };
            struct why_step *steps;
            struct why_candidate *list;
            double t = busy();
            int k = why_chain(p, (instr_id){ i }, -1, &a, &steps);
            if (k > 0)
                (void)why_candidates(p, (instr_id){ i }, &steps[0].write, &a, &list);
            t = busy() - t;
            best = t < best ? t : best;
            arena_free(&a);
        }
        slowest = best > slowest ? best : slowest;
    }
    return 1e3 * slowest;
}

static int64_t changed_between(const struct propagation *a, const struct propagation *b)
{
    int64_t n = 0;
    for (uint32_t i = 1; i <= module_ninstrs(a->graph->module); i++)
        n += a->final[i].i != b->final[i].i;
    return n;
}

struct edit_figures {
    int64_t edits, increments, visits, differing, reached, most_reached;
    double worst, most_ms, seconds;
    double over; /* most that an edit took beyond 2 us a visit, ms */
    int64_t wide; /* edits that reached 5,000 to 20,000 */
    double per_wide; /* the most that such a one took, were it 10,000: ms */
};

/* One annotation put on or taken away. */
static void time_edit(struct document *doc, const struct annotation *a, struct edit_figures *f)
{
    const struct propagation *before = document_propagation(doc, NULL, NULL);
    if (!edit_annotate(doc, 1, a, "x", "edit", NULL))
        return;
    double t = busy();
    const struct propagation *p = document_propagation(doc, NULL, NULL);
    t = busy() - t;
    if (!p)
        return;
    if (p->root == p)
        return; /* known from before, or from scratch */
    f->edits++;
    if (p->root != before->root)
        return;
    int64_t reached = changed_between(before, p);
    f->increments++;
    f->visits += p->visits;
    f->differing += p->differing;
    f->reached += reached;
    f->seconds += t;
    if (1e3 * t > f->worst)
        f->worst = 1e3 * t;
    if (1e3 * t - 2e-3 * (double)p->visits > f->over)
        f->over = 1e3 * t - 2e-3 * (double)p->visits;
    if (reached >= 5000 && reached <= 20000) {
        double scaled = 1e3 * t * 1e4 / (double)reached;
        f->wide++;
        f->per_wide = scaled > f->per_wide ? scaled : f->per_wide;
    }
    if (reached > f->most_reached) {
        f->most_reached = reached;
        f->most_ms = 1e3 * t;
    }
}

static uint64_t state_of_random = 1;
static uint32_t random_below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state_of_random >> 33) % n);
}

static sharding_id split_one(struct document *doc, const struct shape *s, int64_t devices)
{
    struct shardings *t = document_ir(doc)->shardings;
    int64_t dims[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    int d = (int)random_below((uint32_t)s->rank);
    if (s->rank > 6)
        return sharding_replicated(t);
    dims[d] = devices;
    return sharding_plain(t, tiling_make(t, s->rank, dims, order_iota(t, devices)));
}

enum where { ANYWHERE, AT_THE_ROOT /* its operands and it itself */, NEAR_THE_END };

static instr_id pick(const struct module *m, enum where where)
{
    uint32_t n = module_ninstrs(m), last = n < 30000 ? n : 30000;
    instr_id root = comp_at(m, m->entry)->root;
    const struct instr *r = instr_at(m, root);
    switch (where) {
    case ANYWHERE:
        break;
    case AT_THE_ROOT:
        return r->op == OP_TUPLE && r->noperands ? r->operands[random_below(r->noperands)] : root;
    case NEAR_THE_END:
        return (instr_id){ n - random_below(last) };
    }
    return (instr_id){ 1 + random_below(n) };
}

/* Each of `many` instructions gets a sharding and, once the next one has its own, is rid of it again: no strategy
 * comes twice. */
static void time_edits(struct document *doc, enum where where, int many, struct edit_figures *f)
{
    const struct module *m = document_module(doc);
    int64_t devices = document_devices(doc);
    struct annotation last = { .leaf = -1 };
    *f = (struct edit_figures){ 0 };
    for (int k = 0; k < many; k++) {
        instr_id i = pick(m, where);
        const struct shape *s = instr_shape(m, i);
        if (s->kind != SHAPE_ARRAY || s->rank == 0 || instr_at(m, i)->comp.i != m->entry.i)
            continue;
        struct annotation a = { .kind = ANNOTATE_SHARD, .target = i, .leaf = -1 };
        a.sharding = split_one(doc, s, devices);
        time_edit(doc, &a, f);
        if (last.target.i && last.target.i != i.i)
            time_edit(doc, &last, f);
        last = a;
        last.kind = ANNOTATE_UNSHARD;
    }
    if (last.target.i && !edit_annotate(doc, 1, &last, "x", "edit", NULL))
        return;
}

static void say_edits(const char *what, const struct edit_figures *f)
{
    if (!f->increments) {
        printf("    %-14s %" PRId64 " edits, none incremental\n", what, f->edits);
        return;
    }
    printf("    %-14s %" PRId64 " edits, %" PRId64 " incremental: mean %.2f ms, worst %.2f ms; %.0f visits an edit (%.2f x those that differ; bar 3), "
           "worst over 2 us a visit: %.2f ms (bar 1); widest reaches %" PRId64 " in %.2f ms\n",
           what, f->edits, f->increments, 1e3 * f->seconds / (double)f->increments, f->worst, (double)f->visits / (double)f->increments,
           f->differing ? (double)f->visits / (double)f->differing : 0.0, f->over, f->most_reached, f->most_ms);
    if (f->wide)
        printf("                   %" PRId64 " reach 5,000 to 20,000: at most %.2f ms each 10,000 (bar 16)\n", f->wide, f->per_wide);
}

static int bench(const char *path, double xla_us, const char *name)
{
    arena_keep_memory(); /* as the shell does */
    struct diag *d = diag_new();
    struct document *doc = document_new();
    struct pass_figures with, without;
    struct edit_figures any, root, end;
    if (!document_load(doc, path, NULL, d) || !time_pass(document_module(doc), false, &with, d) ||
        !time_pass(document_module(doc), true, &without, d) || !document_propagation(doc, NULL, d)) {
        complain(d);
        return 1;
    }
    printf("  %s: %" PRIu32 " instructions, %.2f ms", name, with.instrs, 1e3 * with.best);
    if (xla_us > 0)
        printf(", XLA %.2f ms: %.1f x (bar 20)", xla_us / 1e3, xla_us / 1e6 / with.best);
    printf("; %.0f ns a visit, %.2f visits an instruction, %" PRId64 " sweeps\n", 1e9 * with.busy / (double)with.visits,
           (double)with.visits / with.instrs, with.sweeps);
    printf("    history        %" PRIu32 " changes of %zu bytes (bar 32), %.0f %% of the time (bar 30)\n", with.writes,
           sizeof(struct prop_write), 100 * (with.busy - without.busy) / with.busy);
    printf("    why            slowest of 300: %.2f ms (bar 5)\n", time_why(doc));
    time_edits(doc, ANYWHERE, 40, &any);
    say_edits("edits", &any);
    time_edits(doc, AT_THE_ROOT, 10, &root);
    say_edits("at the root", &root);
    time_edits(doc, NEAR_THE_END, 20, &end);
    say_edits("near the end", &end);
    document_free(doc);
    diag_free(d);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: propagation FILE [XLA_US [NAME]]\n");
        return 2;
    }
    const char *base = strrchr(argv[1], '/');
    return bench(argv[1], argc > 2 ? strtod(argv[2], NULL) : 0, argc > 3 ? argv[3] : base ? base + 1 : argv[1]);
}
