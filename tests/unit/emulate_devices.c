/* Many devices: collectives against values worked out by hand, deadlock reports, the same results
 * for every number of workers and every schedule, limits, padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/emulate_run.h"

#define HEAD(n) "HloModule m, num_partitions=" #n "\n"
#define ADDER   "add { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }\n"
/* A value that tells its device: [10 * id, 10 * id + 1, ...] of n. */
#define MINE(n)                                                                                \
    "u = u32[] partition-id()\n i = s32[] convert(u)\n ten = s32[] constant(10)\n t = s32[] "  \
    "multiply(i, ten)\n"                                                                       \
    "b = s32[" #n "] broadcast(t), dimensions={}\n k = s32[" #n "] iota(), iota_dimension=0\n" \
    "v = s32[" #n "] add(b, k)\n"

/* want[d * n + i]: element i on device d. */
static void expect_devices(const char *text, int64_t ndevices, int64_t n, const int64_t *want)
{
    struct ran x = run_text(text, (struct run_options){ .ndevices = ndevices });
    if (!x.ok)
        fail_msg("%s", first_error(x.d));
    for (int64_t d = 0; d < ndevices; d++)
        for (int64_t i = 0; i < n; i++)
            if (int_at(&x.r.out[d * x.r.nleaves], i) != want[d * n + i])
                fail_msg("device %d element %d is %d, not %d", (int)d, (int)i,
                         (int)int_at(&x.r.out[d * x.r.nleaves], i), (int)want[d * n + i]);
    ran_free(&x);
}

static void all_gather_in_group_order(void **state)
{
    (void)state;
    static const int64_t want[] = { 20, 21, 0, 1, 10, 11, 30, 31, 20, 21, 0, 1, 10, 11, 30, 31 };
    expect_devices(HEAD(4) "ENTRY e {\n" MINE(
                       2) "ROOT r = s32[4] all-gather(v), channel_id=1, dimensions={0},"
                          " replica_groups={{2,0},{1,3}}, use_global_device_ids=true\n}\n",
                   4, 4, want);
}

static void all_reduce_and_reduce_scatter(void **state)
{
    (void)state;
    static const int64_t sum[] = { 20, 22, 40, 42, 20, 22, 40, 42 };
    expect_devices(HEAD(4) ADDER "ENTRY e {\n" MINE(
                       2) "ROOT r = s32[2] all-reduce(v), channel_id=1, to_apply=add,"
                          " replica_groups={{0,2},{1,3}}, use_global_device_ids=true\n}\n",
                   4, 2, sum);
    static const int64_t parts[] = { 62, 60 };
    expect_devices(HEAD(4) ADDER "ENTRY e {\n" MINE(
                       2) "ROOT r = s32[1] reduce-scatter(v), channel_id=1, dimensions={0},"
                          " to_apply=add, replica_groups={{1,0},{3,2}},"
                          " use_global_device_ids=true\n}\n",
                   2 + 2, 1, (const int64_t[]){ 12, 10, 52, 50 });
    (void)parts;
}

static void all_to_all_both_forms(void **state)
{
    (void)state;
    static const int64_t array[] = { 0, 1, 10, 11, 2, 3, 12, 13 };
    expect_devices(
        HEAD(2) "ENTRY e {\n" MINE(4) "ROOT r = s32[4] all-to-all(v), channel_id=1, dimensions={0},"
                                      " replica_groups={{0,1}}\n}\n",
        2, 4, array);
    static const int64_t tuple[] = { 0, 1, 10, 11, 100, 101, 110, 111 };
    expect_devices(
        HEAD(2) "ENTRY e {\n" MINE(
            2) "h = s32[] constant(100)\n hb = s32[2] broadcast(h), dimensions={}\n w = s32[2] "
               "add(v, hb)\n"
               "q = (s32[2], s32[2]) all-to-all(v, w), channel_id=1, replica_groups={{0,1}}\n"
               "x = s32[2] get-tuple-element(q), index=0\n y = s32[2] get-tuple-element(q), "
               "index=1\n"
               "ROOT r = s32[4] concatenate(x, y), dimensions={0}\n}\n",
        2, 4, tuple);
}

static void permute_gives_zeros_where_nobody_sends(void **state)
{
    (void)state;
    static const int64_t want[] = { 10, 0, 0, 20 };
    expect_devices(
        HEAD(4) "ENTRY e {\n" MINE(1) "ROOT r = s32[1] collective-permute(v), channel_id=1,"
                                      " source_target_pairs={{1,0},{2,3}}\n}\n",
        4, 1, want);
    static const int64_t pair[] = { 10, 0 };
    expect_devices(HEAD(2) "ENTRY e {\n" MINE(
                       1) "s = (s32[1], s32[1]) collective-permute-start(v), channel_id=1,"
                          " source_target_pairs={{0,1},{1,0}}\n"
                          "ROOT r = s32[1] collective-permute-done(s)\n}\n",
                   2, 1, pair);
}

static void broadcast_comes_from_the_first(void **state)
{
    (void)state;
    static const int64_t want[] = { 10, 10, 20 };
    expect_devices(
        HEAD(3) "ENTRY e {\n" MINE(1) "ROOT r = s32[1] collective-broadcast(v), channel_id=1,"
                                      " replica_groups={{1,0},{2}}\n}\n",
        3, 1, want);
}

/* Without channel the groups are replicas, each partition for itself. */
static void replicas_and_partitions(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=2, replica_count=2\n" ADDER
        "ENTRY e {\n" MINE(1) "a = u32[] replica-id()\n c = s32[] convert(a)\n d = s32[1] "
                              "broadcast(c), dimensions={}\n"
                              "w = s32[1] add(v, d)\n ROOT r = s32[1] all-reduce(w), to_apply=add, "
                              "replica_groups={{0,1}}\n}\n";
    static const int64_t want[] = { 1, 21, 1, 21 };
    expect_devices(text, 4, 1, want);
}

/* ---- who waits for whom
 * -------------------------------------------------------------------------- */

/* Device 0 takes the branch without the collective. */
static const char stuck[] = HEAD(3) ADDER
    "with { p = s32[1] parameter(0)\n ROOT q = s32[1] all-reduce(p), channel_id=1, to_apply=add,"
    " replica_groups={{0,1,2}}, use_global_device_ids=true }\n"
    "without { p = s32[1] parameter(0)\n ROOT q = s32[1] negate(p) }\n"
    "ENTRY e {\n" MINE(1) "z = s32[] constant(0)\n first = pred[] compare(i, z), direction=EQ\n"
                          "ROOT r = s32[1] conditional(first, v, v), true_computation=without, "
                          "false_computation=with\n}\n";

static void deadlock_is_reported(void **state)
{
    (void)state;
    struct ran x = run_text(stuck, (struct run_options){ .ndevices = 3, .threads = 2 });
    assert_false(x.ok);
    assert_int_equal(x.d->msgs.n, 2);
    assert_string_equal(x.d->msgs.v[0].text, "deadlock: 2 of 3 devices wait for ever");
    assert_string_equal(x.d->msgs.v[1].text, "at q device 1, 2 waits for device 0 (has ended)");
    ran_free(&x);
}

/* Two collectives in the other order on device 0: each waits for the other. */
static void crossed_collectives_are_reported(void **state)
{
    (void)state;
    static const char text[] = HEAD(2) ADDER
        "one { p = s32[1] parameter(0)\n a = s32[1] all-reduce(p), channel_id=1, to_apply=add, "
        "replica_groups={{0,1}}, use_global_device_ids=true\n"
        " ROOT b = s32[1] collective-permute(a), channel_id=2, source_target_pairs={{0,1},{1,0}} "
        "}\n"
        "two { p = s32[1] parameter(0)\n c = s32[1] collective-permute(p), channel_id=2, "
        "source_target_pairs={{0,1},{1,0}}\n"
        " ROOT d = s32[1] all-reduce(c), channel_id=1, to_apply=add, replica_groups={{0,1}}, "
        "use_global_device_ids=true }\n"
        "ENTRY e {\n" MINE(1) "z = s32[] constant(0)\n first = pred[] compare(i, z), direction=EQ\n"
                              "ROOT r = s32[1] conditional(first, v, v), true_computation=one, "
                              "false_computation=two\n}\n";
    struct ran x = run_text(text, (struct run_options){ .ndevices = 2 });
    assert_false(x.ok);
    assert_int_equal(x.d->msgs.n, 3);
    assert_string_equal(x.d->msgs.v[1].text, "at a device 0 waits for device 1 (at c)");
    assert_string_equal(x.d->msgs.v[2].text, "at c device 1 waits for device 0 (at a)");
    ran_free(&x);
}

static void equal_channels_must_match(void **state)
{
    (void)state;
    static const char text[] = HEAD(2) ADDER
        "one { p = s32[2] parameter(0)\n ROOT a = s32[2] all-reduce(p), channel_id=1, "
        "to_apply=add, replica_groups={{0,1}}, use_global_device_ids=true }\n"
        "two { p = s32[2] parameter(0)\n s = s32[1] slice(p), slice={[0:1]}\n"
        " c = s32[1] all-reduce(s), channel_id=1, to_apply=add, replica_groups={{0,1}}, "
        "use_global_device_ids=true\n"
        " ROOT d = s32[2] concatenate(c, c), dimensions={0} }\n"
        "ENTRY e {\n" MINE(2) "z = s32[] constant(0)\n first = pred[] compare(i, z), direction=EQ\n"
                              "ROOT r = s32[2] conditional(first, v, v), true_computation=one, "
                              "false_computation=two\n}\n";
    struct ran x = run_text(text, (struct run_options){ .ndevices = 2 });
    assert_false(x.ok);
    assert_non_null(strstr(first_error(x.d), "mismatched collectives"));
    ran_free(&x);
}

static void limits_stop_a_run(void **state)
{
    (void)state;
    static const char endless[] =
        "HloModule m\nbody { ROOT t = s32[] parameter(0) }\n"
        "cond { t = s32[] parameter(0)\n ROOT p = pred[] compare(t, t), direction=EQ }\n"
        "ENTRY e {\n z = s32[] constant(0)\n ROOT w = s32[] while(z), condition=cond, "
        "body=body\n}\n";
    struct ran x = run_text(endless, (struct run_options){ .max_steps = 1000 });
    assert_false(x.ok);
    assert_non_null(strstr(first_error(x.d), "1000 turns"));
    ran_free(&x);
    static const char large[] = "HloModule m\nENTRY e {\n p = s32[1000000] parameter(0)\n ROOT w = "
                                "s32[1000000] add(p, p)\n}\n";
    x = run_text(large, (struct run_options){ .max_bytes = 1000000 });
    assert_false(x.ok);
    assert_non_null(strstr(first_error(x.d), "memory"));
    ran_free(&x);
}

/* ---- the same for every schedule
 * ------------------------------------------------------------------- */

/* Sums of floats whose order matters, in a loop, with permutes and gathers in between. */
static const char busy[] =
    HEAD(8) "fadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"
            "body { t = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x "
            "= f32[4] get-tuple-element(t), index=1\n"
            " one = s32[] constant(1)\n n = s32[] add(i, one)\n e = f32[4] cosine(x)\n"
            " r = f32[4] all-reduce(e), channel_id=1, to_apply=fadd, "
            "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true\n"
            " p = f32[4] collective-permute(x), channel_id=2, "
            "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}\n"
            " q = f32[4] add(r, p)\n g = f32[8] all-gather(q), channel_id=3, dimensions={0}, "
            "replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true\n"
            " h = f32[4] slice(g), slice={[2:6]}\n ROOT o = (s32[], f32[4]) tuple(n, h) }\n"
            "cond { t = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n k "
            "= s32[] constant(20)\n"
            " ROOT p = pred[] compare(i, k), direction=LT }\n"
            "ENTRY e {\n u = u32[] partition-id()\n f = f32[] convert(u)\n b = f32[4] "
            "broadcast(f), dimensions={}\n a = f32[4] parameter(0)\n"
            " v = f32[4] add(a, b)\n z = s32[] constant(0)\n t = (s32[], f32[4]) tuple(z, v)\n"
            " w = (s32[], f32[4]) while(t), condition=cond, body=body\n ROOT r = f32[4] "
            "get-tuple-element(w), index=1\n}\n";

static void schedules_change_nothing(void **state)
{
    (void)state;
    struct ran first = run_text(busy, (struct run_options){ .ndevices = 8, .threads = 1 });
    if (!first.ok)
        fail_msg("%s", first_error(first.d));
    static const int workers[] = { 1, 2, 7, 64 };
    for (size_t w = 0; w < COUNTOF(workers); w++)
        for (uint64_t seed = 0; seed < 250; seed++) {
            struct ran x = run_text(
                busy, (struct run_options){
                          .ndevices = 8, .threads = workers[w], .schedule_seed = seed });
            assert_true(x.ok);
            assert_int_equal(x.r.hash, first.r.hash);
            assert_int_equal(x.r.steps, first.r.steps);
            assert_int_equal(x.r.peak_bytes, first.r.peak_bytes);
            ran_free(&x);
        }
    ran_free(&first);
}

static void a_thousand_devices(void **state)
{
    (void)state;
    struct ran x = run_text(
        "HloModule m, num_partitions=1024\n" ADDER
        "ENTRY e {\n" MINE(1) "ROOT r = s32[1] all-reduce(v), channel_id=1, to_apply=add,"
                              " replica_groups=[1,1024]<=[1024], use_global_device_ids=true\n}\n",
        (struct run_options){ .ndevices = 1024 });
    if (!x.ok)
        fail_msg("%s", first_error(x.d));
    for (int64_t d = 0; d < 1024; d++)
        assert_int_equal(int_at(&x.r.out[d], 0), 10 * 1023 * 512);
    ran_free(&x);
}

/* ---- shards and padding
 * ---------------------------------------------------------------------------- */

static void cut_and_join_are_inverse(void **state)
{
    (void)state;
    struct ir *c = ir_new();
    struct shardings *t = c->shardings;
    struct tensor whole, shards[4], back;
    const int64_t dims[2] = { 5, 3 };
    bool equal;
    static const char *const spellings[] = { "{devices=[4,1]<=[4]}", "{devices=[2,2]<=[4]}",
                                             "{replicated}",
                                             "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                             "{maximal device=2}" };
    for (size_t k = 0; k < COUNTOF(spellings); k++) {
        struct arena a = { 0 };
        sharding_id s;
        size_t used;
        struct source src = { "t", spellings[k], strlen(spellings[k]) };
        assert_true(sharding_parse(t, &a, &src, 0, spellings[k], strlen(spellings[k]), &used, &s,
                                   NULL, NULL));
        assert_true(tensor_generate(DTYPE_F32, 2, dims, 0, 7, &whole, NULL));
        for (int64_t d = 0; d < 4; d++)
            assert_true(tensor_cut(t, s, &whole, d, &shards[d]));
        if (k == 0) { /* rows 2 + 2 + 1 + 0 of 5: the rest is padding */
            assert_null(shards[0].poison);
            assert_int_equal(shards[2].poison[0], 0);
            assert_int_equal(shards[2].poison[3], 1);
            assert_true(isnan(float_at(&shards[2], 3)));
            assert_int_equal(shards[3].poison[0], 1);
        }
        assert_true(tensor_join(t, s, 2, dims, shards, 1, 4, &back, &equal));
        assert_true(equal);
        assert_memory_equal(whole.data, back.data, (size_t)whole.bytes);
        if (k == 2) { /* a copy that differs */
            ((float *)shards[3].data)[4] += 1;
            tensor_free(&back);
            assert_true(tensor_join(t, s, 2, dims, shards, 1, 4, &back, &equal));
            assert_false(equal);
        }
        for (int64_t d = 0; d < 4; d++)
            tensor_free(&shards[d]);
        tensor_free(&whole);
        tensor_free(&back);
        arena_free(&a);
    }
    ir_free(c);
}

/* A sum over padding is poisoned; masked by a select first it is not. */
static void poison_spreads_until_it_is_masked(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\n" ADDER "ENTRY e {\n p = s32[4] parameter(0)\n z = s32[] constant(0)\n raw = "
                              "s32[] reduce(p, z), dimensions={0}, to_apply=add\n"
        " k = s32[4] iota(), iota_dimension=0\n three = s32[] constant(3)\n limit = s32[4] "
        "broadcast(three), dimensions={}\n"
        " in = pred[4] compare(k, limit), direction=LT\n zeros = s32[4] broadcast(z), "
        "dimensions={}\n"
        " masked = s32[4] select(in, p, zeros)\n sum = s32[] reduce(masked, z), dimensions={0}, "
        "to_apply=add\n"
        " ROOT t = (s32[], s32[], s32[4]) tuple(raw, sum, p)\n}\n";
    struct ir *c = ir_new();
    struct diag *d = diag_new();
    struct module *m = module_load_text(c, "t", text, strlen(text), NULL, d);
    const int64_t dims[1] = { 4 };
    struct tensor in;
    struct run_result r;
    assert_non_null(m);
    assert_true(tensor_generate(DTYPE_S32, 1, dims, 0, 0, &in, d));
    in.poison = calloc(4, 1);
    in.poison[3] = 1;
    struct run_options o = { .ndevices = 1, .poison = true };
    assert_true(run_module(m, &in, 1, &o, &r, NULL, d));
    assert_non_null(r.out[0].poison);
    assert_int_equal(r.out[0].poison[0], 1);
    assert_null(r.out[1].poison);
    assert_int_equal(r.out[2].poison[3], 1);
    assert_int_equal(r.out[2].poison[2], 0);
    run_result_free(&r);
    tensor_free(&in);
    module_free(m);
    diag_free(d);
    ir_free(c);
}

static bool stop_at_once(void *context, const char *what, int64_t done, int64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    ++*(int *)context;
    return false;
}

static void a_tick_interrupts(void **state)
{
    (void)state;
    static const char endless[] =
        "HloModule m\nbody { ROOT t = s32[] parameter(0) }\n"
        "cond { t = s32[] parameter(0)\n ROOT p = pred[] compare(t, t), direction=EQ }\n"
        "ENTRY e {\n z = s32[] constant(0)\n ROOT w = s32[] while(z), condition=cond, "
        "body=body\n}\n";
    struct ir *c = ir_new();
    struct diag *d = diag_new();
    struct module *m = module_load_text(c, "t", endless, strlen(endless), NULL, d);
    struct run_result r;
    int calls = 0;
    struct tick tick = { .fn = stop_at_once, .context = &calls };
    struct run_options o = { .ndevices = 1 };
    assert_false(run_module(m, NULL, 0, &o, &r, &tick, d));
    assert_string_equal(first_error(d), "interrupted");
    assert_true(calls > 0);
    module_free(m);
    diag_free(d);
    ir_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_in_group_order),
        cmocka_unit_test(all_reduce_and_reduce_scatter),
        cmocka_unit_test(all_to_all_both_forms),
        cmocka_unit_test(permute_gives_zeros_where_nobody_sends),
        cmocka_unit_test(broadcast_comes_from_the_first),
        cmocka_unit_test(replicas_and_partitions),
        cmocka_unit_test(deadlock_is_reported),
        cmocka_unit_test(crossed_collectives_are_reported),
        cmocka_unit_test(equal_channels_must_match),
        cmocka_unit_test(limits_stop_a_run),
        cmocka_unit_test(schedules_change_nothing),
        cmocka_unit_test(a_thousand_devices),
        cmocka_unit_test(cut_and_join_are_inverse),
        cmocka_unit_test(poison_spreads_until_it_is_masked),
        cmocka_unit_test(a_tick_interrupts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
