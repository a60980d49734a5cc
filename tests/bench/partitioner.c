/* Figures of the partitioner: its time beside XLA's spmd-partitioning on the same module in the same run,
 * partition and comms after an edit, and what does not grow with the number of devices.
 *
 *     partitioner FILE XLA_US NAME
 *     partitioner --devices FILE FILE     the same module for few and for very many devices
 *     partitioner --shared FILE...        what edits take over from the programs before them
 *
 * XLA_US: XLA's own time for its pass on FILE in microseconds; 0: not asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "partition/partition.h"
#include "session/session.h"

enum { EDITS = 12 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of this thread's processor: an edit is too short to be measured beside others' work. */
static double busy(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int complain(const struct diag *d)
{
    struct arena a = { 0 };
    for (int64_t i = 0; i < d->msgs.n; i++) {
        struct str s = STR_IN(&a);
        diag_render(&d->msgs.v[i], &s);
        fputs(str_text(&s), stderr);
    }
    arena_free(&a);
    return 1;
}

struct figures {
    double partition, comms; /* seconds, best of the rounds */
    int64_t nodes, collectives, bytes, sent;
};

static bool time_partition(const struct propagation *p, int64_t devices, struct figures *f, struct diag *d)
{
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = devices;
    o.full = false; /* what XLA's pass makes: those after it are not timed */
    double until = now() + 0.7;
    f->partition = f->comms = 1e9;
    for (int round = 0; round < 3 || (now() < until && round < 100); round++) {
        double t0 = now();
        struct program *prog = partition(p, &o, NULL, d);
        if (!prog)
            return false;
        double t1 = now();
        struct arena a = { 0 };
        struct collective *list;
        f->collectives = collectives_list(prog->module, devices, 1, &a, &list, &f->sent);
        double t2 = now();
        f->partition = t1 - t0 < f->partition ? t1 - t0 : f->partition;
        f->comms = t2 - t1 < f->comms ? t2 - t1 : f->comms;
        f->nodes = module_ninstrs(prog->module);
        f->bytes = prog->arena.bytes + prog->module->arena.bytes;
        arena_free(&a);
        program_free(prog);
    }
    return true;
}

/* A parameter of the entry split otherwise, and split as before: partition and comms each time. */
static void time_edits(struct document *doc, double *mean, double *worst)
{
    const struct module *m = document_module(doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct shardings *t = document_ir(doc)->shardings;
    const struct collective *list;
    int64_t devices = document_devices(doc), n, total;
    double sum = 0;
    int count = 0;
    *worst = 0;
    for (uint32_t k = 0; k < entry->nparams && count < EDITS; k++) {
        const struct shape *s = instr_shape(m, entry->params[k]);
        if (s->kind != SHAPE_ARRAY || s->rank < 2 || s->rank > 6 || s->dims[0] % devices)
            continue;
        int64_t dims[8] = { devices, 1, 1, 1, 1, 1, 1, 1 };
        struct annotation a = { .kind = ANNOTATE_SHARD, .target = entry->params[k], .leaf = -1,
                                .sharding = sharding_plain(t, tiling_make(t, s->rank, dims, order_iota(t, devices))) };
        if (!edit_annotate(doc, 1, &a, "x", "edit", NULL) || !document_propagation(doc, NULL, NULL))
            continue;
        double t0 = busy();
        bool ok = document_collectives(doc, &list, &n, &total, NULL, NULL);
        double took = busy() - t0;
        if (!ok || !edit_undo(doc, NULL))
            continue;
        sum += took;
        count++;
        *worst = took > *worst ? took : *worst;
    }
    *mean = count ? sum / count : 0;
}

static int bench(const char *path, double xla_us, const char *name)
{
    struct diag *d = diag_new();
    struct document *doc = document_new();
    struct figures f = { 0 };
    double mean, worst;
    const struct propagation *p = document_load(doc, path, NULL, d) ? document_propagation(doc, NULL, d) : NULL;
    if (!p || !time_partition(p, document_devices(doc), &f, d))
        return complain(d);
    uint32_t instrs = module_ninstrs(p->graph->module);
    printf("  %s: %" PRIu32 " instructions, %.2f ms", name, instrs, 1e3 * f.partition);
    if (xla_us > 0)
        printf(", XLA %.2f ms: %.1f x (bar 10)", xla_us / 1e3, xla_us / 1e6 / f.partition);
    printf("; comms %.2f ms, %" PRId64 " collectives\n", 1e3 * f.comms, f.collectives);
    time_edits(doc, &mean, &worst);
    if (mean > 0)
        printf("    after an edit  partition and comms: mean %.2f ms, worst %.2f ms (bar %.2f: 20 ms at 5,000)\n", 1e3 * mean, 1e3 * worst,
               20.0 * instrs / 5000);
    document_free(doc);
    diag_free(d);
    return 0;
}

static int counters(const char *path, struct figures *f, int64_t *devices)
{
    struct diag *d = diag_new();
    struct document *doc = document_new();
    const struct propagation *p = document_load(doc, path, NULL, d) ? document_propagation(doc, NULL, d) : NULL;
    if (!p || !time_partition(p, document_devices(doc), f, d))
        return complain(d);
    *devices = document_devices(doc);
    document_free(doc);
    diag_free(d);
    return 0;
}

static int compare_devices(const char *few, const char *many)
{
    struct figures a = { 0 }, b = { 0 };
    int64_t na, nb;
    if (counters(few, &a, &na) || counters(many, &b, &nb))
        return 1;
    bool same = a.nodes == b.nodes && a.collectives == b.collectives;
    printf("  %" PRId64 " and %" PRId64 " devices: %" PRId64 " and %" PRId64 " nodes, %" PRId64 " and %" PRId64
           " collectives, %.2f and %.2f ms, %" PRId64 " and %" PRId64 " bytes: %s\n",
           na, nb, a.nodes, b.nodes, a.collectives, b.collectives, 1e3 * a.partition, 1e3 * b.partition, a.bytes, b.bytes,
           same ? "equal counters" : "DIFFERENT counters");
    return !same;
}

/* The program after an edit, from scratch and with what was partitioned before. */
struct sharing {
    double scratch, shared;
    int64_t edits, computations, nodes, made;
};

static bool both_ways(struct document *doc, struct sharing *s)
{
    const struct propagation *p = document_propagation(doc, NULL, NULL);
    if (!p)
        return false;
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = document_devices(doc);
    struct program *prog[2];
    double took[2];
    for (int k = 0; k < 2; k++) {
        o.scratch = !k;
        double t = busy();
        prog[k] = partition(p, &o, NULL, NULL);
        took[k] = busy() - t;
    }
    if (prog[0] && prog[1]) {
        s->scratch += took[0];
        s->shared += took[1];
        s->edits++;
        s->computations += prog[1]->reused;
        s->nodes += prog[1]->reused_nodes;
        s->made += prog[1]->made_nodes;
    }
    program_free(prog[0]);
    program_free(prog[1]);
    return true;
}

/* Each parameter of the entry in turn split along one of its dimensions over all devices. */
static int shared(const char *path)
{
    struct diag *d = diag_new();
    struct document *doc = document_new();
    if (!document_load(doc, path, NULL, d))
        return complain(d);
    struct shardings *t = document_ir(doc)->shardings;
    const struct module *m = document_module(doc);
    const struct computation *entry = comp_at(m, m->entry);
    int64_t devices = document_devices(doc);
    struct sharing sum = { 0 };
    for (uint32_t k = 0; k < entry->nparams && k < 200; k++) {
        const struct shape *s = instr_shape(m, entry->params[k]);
        if (s->kind != SHAPE_ARRAY || s->rank < 1 || s->rank > 6)
            continue;
        int64_t dims[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        dims[k % (uint32_t)s->rank] = devices;
        struct annotation a = { .kind = ANNOTATE_SHARD, .target = entry->params[k], .leaf = -1,
                                .sharding = sharding_plain(t, tiling_make(t, s->rank, dims, order_iota(t, devices))) };
        if (edit_annotate(doc, 1, &a, "x", "edit", NULL) && (!both_ways(doc, &sum) || !edit_undo(doc, NULL)))
            break;
    }
    const char *base = strrchr(path, '/');
    double n = sum.edits ? (double)sum.edits : 1;
    printf("  %s: %" PRId64 " edits, %.2f ms from scratch, %.2f ms shared; of an edit's program %.1f computations (%.0f nodes) "
           "are taken over, %.0f nodes made\n",
           base ? base + 1 : path, sum.edits, 1e3 * sum.scratch / n, 1e3 * sum.shared / n, (double)sum.computations / n,
           (double)sum.nodes / n, (double)sum.made / n);
    document_free(doc);
    diag_free(d);
    return 0;
}

int main(int argc, char **argv)
{
    arena_keep_memory(); /* as the shell does */
    if (argc == 4 && !strcmp(argv[1], "--devices"))
        return compare_devices(argv[2], argv[3]);
    for (int k = 2; k < argc && !strcmp(argv[1], "--shared"); k++)
        if (shared(argv[k]))
            return 1;
    if (argc > 1 && !strcmp(argv[1], "--shared"))
        return 0;
    if (argc < 2) {
        fprintf(stderr, "usage: partitioner FILE [XLA_US [NAME]] | --devices FILE FILE | --shared FILE...\n");
        return 2;
    }
    const char *base = strrchr(argv[1], '/');
    return bench(argv[1], argc > 2 ? strtod(argv[2], NULL) : 0, argc > 3 ? argv[3] : base ? base + 1 : argv[1]);
}
