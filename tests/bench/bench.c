/* Times of the engine on large dumps, as ratios in one run: machines are noisy, so each figure is the
 * best of a few rounds and stands beside its bar.
 *
 *     bench [--planner] FILE.hlo[.gz]...
 *
 * One child process a file, so that memory is that file's. XLA's parser needs 5 to 6 us an
 * instruction on a quiet machine of this class; the bar is a tenth of 5. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "partition/best.h"
#include "session/session.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long resident_kb(void)
{
    long pages = 0, total = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &total, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
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

/* Best of three, in seconds: read and build the IR from text in memory. */
static double time_read(const struct source *src, int64_t *ninstrs, long *kb)
{
    double best = 1e9;
    for (int round = 0; round < 3; round++) {
        struct diag *d = diag_new();
        struct ir *ir = ir_new();
        struct source *copy = malloc(sizeof *copy);
        char *text = malloc(src->len + 1);
        memcpy(text, src->text, src->len + 1);
        *copy = (struct source){ strdup(src->name), text, src->len };
        long before = resident_kb();
        double t = now();
        struct module *m = hlo_read(ir, copy, NULL, d);
        t = now() - t;
        if (!m) {
            complain(d);
            exit(1);
        }
        if (round == 0)
            *kb = resident_kb() - before;
        *ninstrs = module_ninstrs(m);
        best = t < best ? t : best;
        module_free(m);
        ir_free(ir);
        diag_free(d);
    }
    return best;
}

/* Takes the first sharding of a parameter away. Seconds of memory for the new program, and the share of its
 * operations that the plan took from the one before; -1: nothing to take away. */
static double after_an_edit(struct document *doc, double *share, struct diag *d)
{
    const struct module *m = document_module(doc);
    const struct computation *e = comp_at(m, m->entry);
    const struct collective *list;
    int64_t n, total, operations = 0;
    bool edited = false;
    for (uint32_t k = 0; k < e->nparams && !edited; k++) {
        struct annotation a = { .kind = ANNOTATE_UNSHARD, .target = e->params[k], .leaf = -1 };
        edited = instr_at(m, e->params[k])->sharding.i && edit_annotate(doc, 1, &a, NULL, "edit", d);
    }
    if (!edited || !document_collectives(doc, &list, &n, &total, NULL, d))
        return -1;
    const struct cost_plan *plan;
    const struct memory *memory;
    double t = now();
    if (!document_memory(doc, &plan, &memory, NULL, d))
        return -1;
    t = now() - t;
    for (uint32_t c = 0; c < plan->ncomps; c++)
        operations += plan->use[plan->comps[c].i] == COMP_RUN ? comp_at(plan->module, plan->comps[c])->ninstrs : 0;
    *share = operations ? (double)plan->taken / (double)operations : 0;
    return t;
}

static int bench_file(const char *path)
{
    struct diag *d = diag_new();
    struct source *src;
    if (!file_read(path, &src, d)) {
        complain(d);
        return 1;
    }
    int64_t n = 0, ncomms = 0, total = 0;
    long kb = 0;
    double read = time_read(src, &n, &kb);
    struct document *doc = document_new();
    double t0 = now();
    bool ok = document_load(doc, path, NULL, d);
    double t1 = now();
    ok = ok && document_propagation(doc, NULL, d);
    double t2 = now();
    const struct collective *list;
    ok = ok && document_collectives(doc, &list, &ncomms, &total, NULL, d);
    double t3 = now();
    const struct cost_plan *plan;
    const struct memory *memory;
    ok = ok && document_memory(doc, &plan, &memory, NULL, d);
    double t4 = now(), step = 0;
    struct source chip = { .name = "tpu-v3" };
    chip.text = hardware_text(chip.name, &chip.len);
    struct hardware *hw = hardware_read(&chip, d);
    struct cost *cost = ok && hw ? strategy_cost(doc, document_strategy(doc), hw, 0, NULL, OVERLAP_NONE, NULL, d) : NULL;
    double t5 = now();
    ok = ok && cost;
    if (cost)
        step = cost->step;
    cost_free(cost);
    hardware_free(hw);
    if (!ok) {
        complain(d);
        return 1;
    }
    const char *base = strrchr(path, '/');
    double peak = (double)memory->peak, share = 0, again = after_an_edit(doc, &share, d);
    double us = 1e6 * read / (double)n;
    printf("%-38s %7" PRId64 " instr  read %6.3f us each (%4.1f x XLA's 5 us; bar 10)  %6.1f MB over the text"
           "  load %6.0f ms  propagate %6.0f ms  partition+comms %6.0f ms  %" PRId64 " collectives"
           "  memory %5.0f ms + cost %5.0f ms (bar 500 at 221,000)  %.3g s a step, %.1f GB at the peak"
           "; after an edit memory %.0f ms, %.0f %% of the operations taken from the plan before\n",
           base ? base + 1 : path, n, us, 5.0 / us, (double)kb / 1024, 1e3 * (t1 - t0), 1e3 * (t2 - t1),
           1e3 * (t3 - t2), ncomms, 1e3 * (t4 - t3), 1e3 * (t5 - t4), step, peak / 1e9,
           1e3 * again, 100 * share);
    document_free(doc);
    diag_free(d);
    source_free(src);
    return 0;
}

/* ---- partitioner=best -------------------------------------------------------------------------------- */

enum { RANK = 6, AXES = 5, PLANS = 400 };

static uint64_t seed = 88172645463325252ULL;

static int below(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 11) % (uint64_t)n);
}

/* Five mesh axes in any order on six dimensions, or copies. */
static sharding_id random_layout(struct shardings *sh, const int64_t *mesh)
{
    int axis[AXES] = { 0, 1, 2, 3, 4 }, perm[AXES], at[AXES], k = 0;
    int64_t dims[RANK + 1];
    for (int i = AXES - 1; i > 0; i--) {
        int j = below(i + 1), x = axis[i];
        axis[i] = axis[j];
        axis[j] = x;
    }
    for (int i = 0; i < AXES; i++)
        at[i] = below(RANK + 1);
    for (int d = 0; d <= RANK; d++) {
        dims[d] = 1;
        for (int i = 0; i < AXES; i++)
            if (at[i] == d) {
                perm[k++] = axis[i];
                dims[d] *= mesh[axis[i]];
            }
    }
    bool copies = dims[RANK] > 1;
    struct tiling t = tiling_make(sh, RANK + copies, dims, order_from_iota(sh, AXES, mesh, perm));
    return copies ? sharding_partial(sh, t) : sharding_plain(sh, t);
}

/* A plan between two shardings of rank 6 over 5 mesh axes: processor time, best of three. */
static void bench_planner(void)
{
    static const int64_t meshes[][AXES] = { { 2, 2, 2, 2, 2 }, { 2, 4, 2, 8, 2 }, { 16, 16, 16, 16, 16 } };
    static const int64_t dims[RANK] = { 64, 128, 960, 31, 64, 240 };
    for (size_t m = 0; m < COUNTOF(meshes); m++) {
        struct shardings *sh = shardings_new();
        double sum = 0, worst = 0;
        int64_t n = 1;
        for (int a = 0; a < AXES; a++)
            n *= meshes[m][a];
        for (int i = 0; i < PLANS; i++) {
            struct best_problem p = { .t = sh, .rank = RANK, .dims = dims, .bytes = 4, .ndevices = n,
                                      .from = random_layout(sh, meshes[m]),
                                      .to = random_layout(sh, meshes[m]), .limit_bytes = -1 };
            struct best_plan plan;
            double least = 1e9;
            for (int round = 0; round < 3; round++) {
                clock_t t = clock();
                (void)best_plan(&p, &plan);
                double took = (double)(clock() - t) / CLOCKS_PER_SEC;
                least = took < least ? took : least;
            }
            sum += least;
            worst = least > worst ? least : worst;
        }
        printf("planner of partitioner=best, rank 6, 5 axes, %7" PRId64
               " devices: %.3f ms a plan, at most %.3f ms of %d (bar 1 ms)\n",
               n, 1e3 * sum / PLANS, 1e3 * worst, PLANS);
        shardings_free(sh);
    }
}

int main(int argc, char **argv)
{
    int worst = 0;
    arena_keep_memory(); /* as the shell does */
    if (argc > 1 && !strcmp(argv[1], "--planner")) {
        bench_planner();
        argc--;
        argv++;
    }
    for (int i = 1; i < argc; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int status = bench_file(argv[i]);
            fflush(stdout);
            _exit(status);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
            printf("%s: failed (status %d)\n", argv[i], status);
            worst = 1;
        }
    }
    return worst;
}
