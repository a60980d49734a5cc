/* Collectives hop by hop and devices over time, from traces of real programs: the last frame has what the
 * collective promises, bars lie where the trace says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "session/session.h"
#include "viz/hops.h"
#include "viz_check.h"

static struct arena arena;
static int kinds[OP_COUNT];
static int64_t frames;

/* Tiles of the table: those with one owner listed. */
static int64_t cells_of(const struct scene *s, bool *partial)
{
    int64_t n = 0;
    *partial = false;
    for (int64_t k = 0; k < s->items.n; k++) {
        const struct scene_item *it = &s->items.v[k];
        if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->nowners != 1)
            continue;
        *partial |= (it->state & STATE_PARTIAL) != 0;
        n++;
    }
    return n;
}

static int64_t wanted_cells(const struct trace_meeting *m)
{
    switch ((int)m->kind) {
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_COLLECTIVE_BROADCAST: return m->ndevices * m->nchunks;
    case OP_REDUCE_SCATTER: return m->ndevices;
    case OP_ALL_TO_ALL: return m->ndevices * m->ndevices;
    default: return -1;
    }
}

static void check_meeting(const char *file, const struct trace *t, int64_t meeting)
{
    const struct trace_meeting *m = &t->meetings[meeting];
    if (m->ndevices > 16 || (m->nchunks > 36 && m->kind != OP_ALL_TO_ALL) || m->nhops == 0)
        return;
    kinds[m->kind]++;
    for (int64_t r = 0; r <= m->rounds; r++)
        for (int list = 0; list < 2; list++) {
            struct arena a = { 0 };
            struct hops_options o = { .meeting = meeting, .round = r, .list = list, .name = "it" };
            struct scene *s = view_hops(t, &o, &a);
            const char *bad = scene_wrong(s, &a);
            if (bad)
                fail_msg("%s, %s round %d: %s", file, op_name(m->kind), (int)r, bad);
            int64_t arrows = 0, hops = 0;
            for (int64_t k = 0; k < s->items.n; k++)
                arrows += s->items.v[k].kind == SCENE_LINE && s->items.v[k].arrow;
            for (int64_t k = m->first_hop; k < m->first_hop + m->nhops; k++)
                hops += t->hops[k].round == r && t->hops[k].from != t->hops[k].to;
            if (!list)
                assert_int_equal(arrows, hops);
            bool partial;
            int64_t cells = cells_of(s, &partial), wanted = wanted_cells(m);
            /* a terminal may have no room for all chunks */
            bool right = cells == wanted || (list && cells > 0 && cells < wanted);
            if (r == m->rounds && wanted >= 0 && (!right || partial))
                fail_msg("%s, %s (%s): %d cells in the end%s, not %d", file, op_name(m->kind),
                         collective_algorithm_name(t->algorithm), (int)cells, partial ? ", partial ones" : "",
                         (int)wanted);
            frames++;
            arena_free(&a);
        }
}

static void check_timeline(const char *file, const struct trace *t)
{
    struct arena a = { 0 };
    for (int list = 0; list < 2; list++) {
        struct scene *s = view_timeline(t, NULL, 700, list, &a);
        const char *bad = labels_wrong(s, &a);
        if (bad)
            fail_msg("%s, timeline: %s", file, bad);
    }
    struct scene *s = view_timeline(t, NULL, 700, false, &a);
    for (int64_t d = 0; d < t->ndevices && d < 32; d++) {
        double computing = 0, last = 0;
        for (int64_t k = 0; k < s->items.n; k++) {
            const struct scene_item *it = &s->items.v[k];
            if (it->kind != SCENE_BOX || it->device != d || !it->hint)
                continue;
            assert_true(it->x >= last - 1e-6); /* bars of a device follow each other */
            last = it->x + it->w;
            computing += it->role == ROLE_TILE ? it->w : 0;
        }
        /* what is joined may hold gaps of less than a pixel */
        double want = 700.0 * (double)t->computing[d] / (double)max_i64(t->ticks, 1);
        assert_true(fabs(computing - want) < 0.1 * 700);
    }
    arena_free(&a);
}

static bool traced(struct document *doc, enum collective_algorithm how, struct trace *t)
{
    const struct program *p = document_program(doc, NULL, NULL);
    if (!p)
        return false;
    int64_t n = 0, nout = 0;
    for (int64_t k = 0; k < p->nparams; k++)
        n += shape_get(p->module->ir, p->param_shape[k])->nleaves;
    struct tensor *in = calloc((size_t)n + 1, sizeof *in), *out = NULL;
    bool ok = true, equal;
    for (int64_t k = 0, at = 0; k < p->nparams; k++)
        for (int64_t leaf = 0; leaf < shape_get(p->module->ir, p->param_shape[k])->nleaves; leaf++, at++) {
            const struct shape *s = shape_get(p->module->ir, shape_leaf(p->module->ir, p->param_shape[k], leaf));
            if (s->kind == SHAPE_ARRAY)
                ok = ok && tensor_generate(s->dtype, s->rank, s->dims, at, 1, &in[at], NULL);
        }
    struct run_options o = { .ndevices = p->num_partitions, .trace = t, .collectives = how };
    ok = ok && run_program(p, in, n, &o, &out, &nout, &equal, NULL, NULL);
    for (int64_t k = 0; k < n; k++)
        tensor_free(&in[k]);
    for (int64_t k = 0; k < nout; k++)
        tensor_free(&out[k]);
    free(in);
    free(out);
    return ok;
}

static void check_file(const char *path, int most)
{
    struct document *doc = document_new();
    if (document_load(doc, path, NULL, NULL))
        for (int how = 0; how < 3; how++) {
            struct trace t = { 0 };
            if (traced(doc, (enum collective_algorithm)how, &t)) {
                for (int64_t m = 0; m < t.nmeetings && m < most; m++)
                    check_meeting(path, &t, m);
                check_timeline(path, &t);
            }
            trace_free(&t);
        }
    document_free(doc);
}

static void real_programs(void **state)
{
    (void)state;
    static const char *const names[] = { "mlp_dptp_train_small.hlo", "moe_1d_small.hlo", "moe_2d_small.hlo",
                                         "einsum_zoo_small.hlo", "fft_small.hlo", "zero1_small.hlo",
                                         "four_axis_small.hlo", "device_order2_small.hlo", "ring_attention_small.hlo",
                                         "conflict_small.hlo" };
    const char *shared = getenv("GSPMD_SHARED");
    const char *root = access("models", R_OK) == 0 ? "." : "..";
    const char *folder = shared ? arena_printf(&arena, "%s/inputs", shared)
                                : arena_printf(&arena, "%s/../shared/inputs", root);
    if (access(folder, R_OK) != 0) {
        print_message("no %s: skipped\n", folder);
        skip();
    }
    for (size_t k = 0; k < COUNTOF(names); k++) {
        const char *path = arena_printf(&arena, "%s/%s", folder, names[k]);
        if (access(path, R_OK) != 0)
            path = arena_printf(&arena, "%s.gz", path);
        if (access(path, R_OK) == 0)
            check_file(path, 12);
    }
    print_message("%" PRId64 " frames; all-reduce %d, all-gather %d, reduce-scatter %d, all-to-all %d, permute %d\n",
                  frames, kinds[OP_ALL_REDUCE], kinds[OP_ALL_GATHER], kinds[OP_REDUCE_SCATTER], kinds[OP_ALL_TO_ALL],
                  kinds[OP_COLLECTIVE_PERMUTE]);
    assert_true(kinds[OP_ALL_REDUCE] > 0 && kinds[OP_ALL_GATHER] > 0);
}

/* A program of one collective, known numbers: after a ring all-reduce all devices have the sums. */
static int numbers(void *context, int64_t rank, int64_t chunk, double *out)
{
    (void)context;
    out[0] = (double)(10 * rank + chunk);
    return 1;
}

static void sums_are_true(void **state)
{
    (void)state;
    static const char text[] = "HloModule m, num_partitions=4\n"
                               "ENTRY e {\n"
                               "  a = f32[8,8] parameter(0), sharding={devices=[1,4]<=[4]}\n"
                               "  b = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
                               "  ROOT c = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "}\n";
    struct document *doc = document_new();
    assert_true(document_load_text(doc, "m", text, strlen(text), NULL, NULL));
    for (int how = 0; how < 3; how++) {
        struct trace t = { 0 };
        assert_true(traced(doc, (enum collective_algorithm)how, &t));
        assert_int_equal(t.nmeetings, 1);
        const struct trace_meeting *m = &t.meetings[0];
        assert_int_equal(m->kind, OP_ALL_REDUCE);
        struct hops_options o = { .round = m->rounds, .name = "c", .value = numbers, .combine = COMBINE_ADD };
        struct arena a = { 0 };
        struct scene *s = view_hops(&t, &o, &a);
        int64_t n = 0;
        for (int64_t k = 0; k < s->items.n; k++) {
            const struct scene_item *it = &s->items.v[k];
            if (it->kind != SCENE_BOX || it->role != ROLE_TILE || it->nowners != 1)
                continue;
            int64_t chunk = n++ % m->nchunks; /* 0 + 10 + 20 + 30, and the chunk from each */
            char want[32];
            snprintf(want, sizeof want, "%d", (int)(60 + 4 * chunk));
            assert_string_equal(it->text, want);
        }
        assert_int_equal(n, 4 * m->nchunks);
        arena_free(&a);
        trace_free(&t);
    }
    document_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_true),
        cmocka_unit_test(real_programs),
    };
    int failed = cmocka_run_group_tests_name("viz_hops", tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
