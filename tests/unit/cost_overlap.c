/* Overlap and pipelines (the paper's section 6: C10, C12, C14): windowed products, whose loops agree with
 * the product of a gathered operand and never hold it; stages as a sharded dimension, one exchange a
 * step; weights and the state of their update sharded over the batch's axis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/cost.h"
#include "tests/unit/whole.h"

static int64_t peak(const struct whole *w)
{
    struct cost_options o = { 0 };
    struct cost_plan *plan = cost_plan_new(w->p->module, NULL, &o, NULL, w->d);
    if (!plan)
        fail_msg("%s", first_error(w->d));
    struct memory *m = memory_of(plan, &o);
    int64_t bytes = m->peak - m->constants;
    memory_free(m);
    cost_plan_free(plan);
    return bytes;
}

/* ---- windowed products -------------------------------------------------------------------------------- */

/* x's rows stay; the weight's rows or columns go round. n devices on one axis. */
static const char *product(char *text, size_t size, int64_t n, const char *x, const char *w, const char *y)
{
    snprintf(text, size,
             "HloModule m, num_partitions=%" PRId64 "\n"
             "ENTRY e {\n"
             "  x = f32[64,512] parameter(0), sharding={devices=[%s]<=[%" PRId64 "]}\n"
             "  w = f32[512,256] parameter(1), sharding={devices=[%s]<=[%" PRId64 "]}\n"
             "  ROOT y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
             "sharding={devices=[%s]<=[%" PRId64 "]}\n"
             "}\n",
             n, x, n, w, n, y, n);
    return text;
}

struct form {
    bool unroll, both_ways;
};

static struct whole with_loop(const char *text, struct form f, bool loop)
{
    struct partition_options o;
    partition_options_default(&o);
    o.windowed_einsum_mib = loop ? 0 : 100000;
    o.unroll = f.unroll;
    o.bidirectional = f.both_ways;
    return whole_of(text, &o);
}

static const struct form forms[] = { { false, false }, { true, false }, { false, true } };

/* C10: gathering a weight split on its free (8,1: contracting) dim, and the sum kept in pieces. */
static void c10_loops_agree(void **state)
{
    (void)state;
    static const char *const splits[][3] = {
        { "4,1", "1,4", "4,1" }, { "4,1", "4,1", "4,1" }, { "1,4", "4,1", "4,1" }, { "1,4", "4,1", "1,4" },
        { "4,1", "1,4", "1,4" },
    };
    for (size_t k = 0; k < COUNTOF(splits); k++)
        for (size_t f = 0; f < COUNTOF(forms); f++) {
            char text[1024];
            product(text, sizeof text, 4, splits[k][0], splits[k][1], splits[k][2]);
            struct whole one = with_loop(text, forms[f], true), all = with_loop(text, forms[f], false);
            const char *why = whole_differs(&one, RUN_RING);
            if (why)
                fail_msg("loop %d of split %d: %s", (int)f, (int)k, why);
            assert_null(whole_differs(&one, RUN_FLOAT));
            assert_null(whole_differs(&all, RUN_RING));
            assert_true(whole_count(&one, OP_COLLECTIVE_PERMUTE) > 0);
            assert_int_equal(whole_count(&one, OP_ALL_GATHER) + whole_count(&one, OP_ALL_REDUCE) +
                                 whole_count(&one, OP_REDUCE_SCATTER),
                             0);
            assert_int_equal(whole_count(&all, OP_COLLECTIVE_PERMUTE), 0);
            whole_free(&one);
            whole_free(&all);
        }
}

/* The whole weight is 512 * 256 floats; the loop never has it. */
static void c10_no_whole_operand(void **state)
{
    (void)state;
    char text[1024];
    product(text, sizeof text, 8, "8,1", "1,8", "8,1");
    struct whole one = with_loop(text, forms[0], true), all = with_loop(text, forms[0], false);
    assert_true(whole_has(&all, OP_NONE, "f32[512,256]"));
    assert_false(whole_has(&one, OP_NONE, "f32[512,256]"));
    int64_t weight = 512 * 256 * 4;
    assert_true(peak(&all) >= weight);
    assert_true(peak(&one) < weight);
    /* N - 1 shards of the weight pass through every device (S-190); our loop's last pass is in a branch */
    assert_true(one.bytes <= weight);
    whole_free(&one);
    whole_free(&all);
}

/* The gate: a weight of 512 KiB is below a threshold of 1 MiB. */
static void the_gate_decides(void **state)
{
    (void)state;
    char text[1024];
    product(text, sizeof text, 4, "4,1", "1,4", "4,1");
    struct partition_options o;
    partition_options_default(&o);
    o.windowed_einsum_mib = 1;
    struct whole w = whole_of(text, &o);
    assert_int_equal(whole_count(&w, OP_COLLECTIVE_PERMUTE), 0);
    whole_free(&w);
    o.windowed_total_bytes = 655360; /* both operands: 64 * 512 + 512 * 256 floats */
    w = whole_of(text, &o);
    assert_true(whole_count(&w, OP_COLLECTIVE_PERMUTE) > 0);
    whole_free(&w);
    o.windowed_total_bytes = 655361;
    w = whole_of(text, &o);
    assert_int_equal(whole_count(&w, OP_COLLECTIVE_PERMUTE), 0);
    whole_free(&w);
}

/* ---- pipelines ------------------------------------------------------------------------------------------- */

static char *file_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("no %s", path);
    char *text = calloc(1, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    assert_true(n > 0 && n < (1 << 16) - 1);
    return text;
}

/* The model with one parameter's line annotated, and a number of devices. */
static char *annotated(const char *path, const char *line, const char *sharding)
{
    char *text = file_text(path), *out = calloc(1, 1 << 17), *at = strstr(text, line);
    assert_non_null(at);
    char *end = strchr(at, '\n'), *name = strchr(text, '\n');
    snprintf(out, 1 << 17, "%.*s, num_partitions=4%.*s, sharding={devices=%s<=[4]}%s",
             (int)(name - text), text, (int)(end - name), name, sharding, end);
    free(text);
    return out;
}

/* C12: 8 microbatches, 4 stages: 11 steps of one exchange with the next stage. */
static void c12_one_exchange_a_step(void **state)
{
    (void)state;
    static const struct {
        const char *path, *line, *sharding;
        int64_t steps;
    } models[] = {
        { "models/pipeline.hlo", "  w = f32[4,16,16] parameter(1)", "[4,1,1]", 11 },
        { "models/pipeline_circular.hlo", "  w = f32[2,4,16,16] parameter(1)", "[1,4,1,1]", 19 },
    };
    for (size_t k = 0; k < COUNTOF(models); k++) {
        char *text = annotated(models[k].path, models[k].line, models[k].sharding);
        struct whole w = whole_of(text, NULL);
        assert_null(whole_differs(&w, RUN_RING));
        int inside = 0;
        for (int64_t c = 0; c < w.n; c++) {
            if (w.list[c].trip_count == 1)
                continue;
            inside++;
            assert_int_equal(w.list[c].kind, OP_COLLECTIVE_PERMUTE);
            assert_int_equal(w.list[c].trip_count, models[k].steps);
            /* one microbatch of 2 * 16 floats to the next stage */
            assert_int_equal(w.list[c].bytes, models[k].steps * 2 * 16 * 4);
        }
        assert_int_equal(inside, 1);
        whole_free(&w);
        free(text);
    }
}

/* The same layers one after the other. */
static const char sequential[] =
    "HloModule m\n"
    "ENTRY e {\n"
    "  x = f32[8,2,16] parameter(0)\n"
    "  w = f32[%d,16,16] parameter(1)\n"
    "  z = f32[] constant(0)\n"
    "  floor = f32[8,2,16] broadcast(z), dimensions={}\n";

static void pipelines_compute_the_layers(void **state)
{
    (void)state;
    static const char *const paths[] = { "models/pipeline.hlo", "models/pipeline_circular.hlo" };
    for (int k = 0; k < 2; k++) {
        int layers = k ? 8 : 4;
        char text[4096];
        int at = snprintf(text, sizeof text, sequential, layers);
        for (int l = 0; l < layers; l++) {
            at += snprintf(text + at, sizeof text - (size_t)at,
                           "  s%d = f32[1,16,16] slice(w), slice={[%d:%d], [0:16], [0:16]}\n"
                           "  w%d = f32[16,16] reshape(s%d)\n"
                           "  y%d = f32[8,2,16] dot(%s%d, w%d), lhs_contracting_dims={2}, "
                           "rhs_contracting_dims={0}\n"
                           "  %sh%d = f32[8,2,16] maximum(y%d, floor)\n",
                           l, l, l + 1, l, l, l, l ? "h" : "x", l ? l - 1 : 0, l,
                           l == layers - 1 ? "ROOT " : "", l, l);
            if (l == 0) { /* the first one reads x */
                char *first = strstr(text, "dot(x0,");
                memmove(first + 5, first + 6, strlen(first + 6) + 1);
                at--;
            }
        }
        snprintf(text + at, sizeof text - (size_t)at, "}\n");
        char *piped = file_text(paths[k]);
        struct ran a = run_text(text, (struct run_options){ .mode = RUN_RING });
        struct ran b = run_text(piped, (struct run_options){ .mode = RUN_RING });
        if (!a.ok || !b.ok)
            fail_msg("%s %s", first_error(a.d), first_error(b.d));
        const struct tensor *x = &a.r.out[0], *y = &b.r.out[0];
        for (int64_t i = 0; i < 8 * 2 * 16; i++) {
            struct arena tmp;
            memset(&tmp, 0, sizeof tmp);
            arena_open(&tmp);
            assert_string_equal(tensor_element_text(&tmp, x, i), tensor_element_text(&tmp, y, i));
            arena_close(&tmp);
        }
        ran_free(&a);
        ran_free(&b);
        free(piped);
    }
}

/* ---- weight-update sharding ------------------------------------------------------------------------------ */

/* A step of momentum on one weight; s: how weight and momentum are split over the 8 devices of the
 * batch's axis. */
static struct whole training_step(const char *s)
{
    char text[2048];
    snprintf(text, sizeof text,
             "HloModule m, num_partitions=8\n"
             "ENTRY e {\n"
             "  x = f32[64,128] parameter(0), sharding={devices=[8,1]<=[8]}\n"
             "  dy = f32[64,256] parameter(1), sharding={devices=[8,1]<=[8]}\n"
             "  w = f32[128,256] parameter(2), sharding={%s}\n"
             "  v = f32[128,256] parameter(3), sharding={%s}\n"
             "  y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
             "sharding={devices=[8,1]<=[8]}\n"
             "  g = f32[128,256] dot(x, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={%s}\n"
             "  n = f32[128,256] add(v, g), sharding={%s}\n"
             "  u = f32[128,256] subtract(w, n), sharding={%s}\n"
             "  ROOT out = (f32[64,256], f32[128,256], f32[128,256]) tuple(y, u, n), "
             "sharding={{devices=[8,1]<=[8]}, {%s}, {%s}}\n"
             "}\n",
             s, s, s, s, s, s, s);
    return whole_of(text, NULL);
}

/* C14: gathered for the product, the gradient reduce-scattered, the update on the shard. */
static void c14_weight_update(void **state)
{
    (void)state;
    struct whole whole = training_step("replicated"), split = training_step("devices=[8,1]<=[8]");
    assert_null(whole_differs(&whole, RUN_RING));
    assert_null(whole_differs(&split, RUN_RING));
    assert_int_equal(whole_count(&whole, OP_ALL_REDUCE), 1);
    assert_int_equal(whole.n, 1);
    assert_int_equal(whole_count(&split, OP_ALL_GATHER), 1);
    assert_int_equal(whole_count(&split, OP_REDUCE_SCATTER), 1);
    assert_int_equal(split.n, 2);
    assert_int_equal(whole.bytes, split.bytes); /* an all-reduce is both */
    assert_true(whole_has(&split, OP_SUBTRACT, "f32[16,256]"));
    assert_true(whole_has(&whole, OP_SUBTRACT, "f32[128,256]"));
    /* weight and momentum, an eighth of each */
    int64_t weight = 128 * 256 * 4;
    assert_true(peak(&whole) - peak(&split) >= 2 * weight * 7 / 8);
    whole_free(&whole);
    whole_free(&split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c10_loops_agree),
        cmocka_unit_test(c10_no_whole_operand),
        cmocka_unit_test(the_gate_decides),
        cmocka_unit_test(c12_one_exchange_a_step),
        cmocka_unit_test(pipelines_compute_the_layers),
        cmocka_unit_test(c14_weight_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
