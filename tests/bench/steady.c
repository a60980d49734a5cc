/* Processor time of one steady run: the program is partitioned and planned once, its inputs are cut once;
 * then it runs until the clock says enough. One line a file: name, milliseconds of all threads together.
 *
 *     bench_steady FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulate/run.h"
#include "partition/partition.h"
#include "propagate/propagate.h"
#include "text/text.h"

enum { MOST_RUNS = 40, LEAST_RUNS = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const struct diag *d)
{
    printf("failed: %s\n", d->msgs.n ? d->msgs.v[0].text : "no reason given");
    return 1;
}

static struct program *program_of(struct module *m, struct diag *d)
{
    struct graph *g = graph_prepare(m, true, NULL, d);
    struct propagation_options po = { .spmd = true,
                                      .nto_output = m->nto_output,
                                      .to_output = m->to_output,
                                      .nto_parameters = m->nto_parameters,
                                      .to_parameters = m->to_parameters };
    struct propagation *pr = g ? propagate(g, &po, NULL, d) : NULL;
    struct partition_options pt;
    partition_options_default(&pt);
    pt.num_partitions = m->num_partitions;
    pt.full = true;
    return pr ? partition(pr, &pt, NULL, d) : NULL;
}

/* Inputs of the program, one a leaf of its parameters. */
static struct tensor *inputs_of(const struct program *p, int64_t *n, struct diag *d)
{
    struct ir *ir = p->module->ir;
    struct tensor *in = NULL;
    *n = 0;
    for (int64_t k = 0; k < p->nparams; k++)
        *n += shape_get(ir, p->param_shape[k])->nleaves;
    in = calloc((size_t)*n + 1, sizeof *in);
    int64_t at = 0;
    for (int64_t k = 0; in && k < p->nparams; k++) {
        const struct shape *s = shape_get(ir, p->param_shape[k]);
        for (int64_t leaf = 0; leaf < s->nleaves; leaf++, at++) {
            shape_id id = s->kind == SHAPE_TUPLE ? shape_leaf(ir, p->param_shape[k], leaf) : p->param_shape[k];
            const struct shape *one = shape_get(ir, id);
            if (one->kind == SHAPE_ARRAY &&
                !tensor_generate(one->dtype, one->rank, one->dims, at, 1, &in[at], d))
                return NULL;
        }
    }
    return in;
}

static bool run_once(const struct plan *plan, const struct cuts *c, const struct run_options *o, double *spent,
                     struct diag *d)
{
    struct run_result r;
    double start = now();
    if (!run_plan(plan, c->in, c->nin, o, NULL, &r, NULL, d))
        return false;
    *spent = now() - start;
    run_result_free(&r);
    return true;
}

static int bench(const char *path)
{
    struct diag *d = diag_new();
    struct ir *ir = ir_new();
    struct module *m = module_load(ir, path, NULL, d);
    struct program *p = m ? program_of(m, d) : NULL;
    int64_t n;
    struct tensor *in = p ? inputs_of(p, &n, d) : NULL;
    struct cuts c = { 0 };
    if (!in || !cuts_make(p, in, n, &c, d))
        return fail(d);
    struct plan_options po = { .ndevices = p->num_partitions };
    struct plan *plan = plan_make(p->module, &po, NULL, d);
    struct run_options o = { .ndevices = p->num_partitions, .threads = 2 };
    double first, one, all = 0;
    int runs = 0;
    if (!plan || !run_once(plan, &c, &o, &first, d))
        return fail(d);
    for (; runs < MOST_RUNS && (runs < LEAST_RUNS || all < 0.4); runs++) {
        if (!run_once(plan, &c, &o, &one, d))
            return fail(d);
        all += one;
    }
    printf("%.4f\n", 1e3 * all / runs);
    return 0;
}

int main(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        const char *slash = strrchr(argv[k], '/');
        printf("%s ", slash ? slash + 1 : argv[k]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int status = bench(argv[k]);
            fflush(stdout);
            _exit(status);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return 1;
        if (!WIFEXITED(status))
            printf("died\n");
    }
    return 0;
}
