/* Traces: chunks that move hop by hop give the values that come out at once, for every kind of
 * collective, way of moving and size of group; bytes and rounds are the textbook's; the record is
 * the same for every number of workers and every schedule; planted faults are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/emulate_run.h"

#define ADDER "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"

static const char *const kinds[] = { "all-gather", "all-reduce",         "reduce-scatter",
                                     "all-to-all", "collective-permute", "collective-broadcast",
                                     "tuple-all-to-all" };

/* A module of n devices with one collective r over v = f32[n * per] that tells its device. */
static const char *collective_text(struct arena *a, int kind, int64_t n, int64_t per)
{
    struct str s = STR_IN(a), groups = STR_IN(a), pairs = STR_IN(a), many = STR_IN(a), shapes = STR_IN(a);
    for (int64_t d = 0; d < n; d++) {
        str_addf(&groups, "%s%" PRId64, d ? "," : "", n - 1 - d);
        str_addf(&pairs, "%s{%" PRId64 ",%" PRId64 "}", d ? "," : "", d, (d + 1) % n);
        str_addf(&many, "%sv", d ? ", " : "");
        str_addf(&shapes, "%sf32[%" PRId64 "]", d ? ", " : "", n * per);
    }
    str_addf(&s, "HloModule m, num_partitions=%" PRId64 "\n" ADDER "ENTRY e {\n", n);
    str_addf(&s,
             "u = u32[] partition-id()\n i = f32[] convert(u)\n t = f32[%" PRId64
             "] broadcast(i), dimensions={}\n k = f32[%" PRId64
             "] iota(), iota_dimension=0\n c = f32[%" PRId64 "] cosine(k)\n b = f32[%" PRId64
             "] add(t, c)\n v = f32[%" PRId64 "] sine(b)\n",
             n * per, n * per, n * per, n * per, n * per);
    switch (kind) {
    case 0:
        str_addf(&s, "ROOT r = f32[%" PRId64 "] all-gather(v), dimensions={0}, channel_id=1, ", n * n * per);
        break;
    case 1: str_addf(&s, "ROOT r = f32[%" PRId64 "] all-reduce(v), to_apply=add, channel_id=1, ", n * per); break;
    case 2:
        str_addf(&s, "ROOT r = f32[%" PRId64 "] reduce-scatter(v), dimensions={0}, to_apply=add, channel_id=1, ", per);
        break;
    case 3: str_addf(&s, "ROOT r = f32[%" PRId64 "] all-to-all(v), dimensions={0}, channel_id=1, ", n * per); break;
    case 4:
        str_addf(&s, "ROOT r = f32[%" PRId64 "] collective-permute(v), channel_id=1, source_target_pairs={%s}\n}\n",
                 n * per, str_text(&pairs));
        return str_text(&s);
    case 5: str_addf(&s, "ROOT r = f32[%" PRId64 "] collective-broadcast(v), channel_id=1, ", n * per); break;
    default: str_addf(&s, "ROOT r = (%s) all-to-all(%s), channel_id=1, ", str_text(&shapes), str_text(&many));
    }
    str_addf(&s, "replica_groups={{%s}}%s\n}\n", str_text(&groups), kind < 3 ? ", use_global_device_ids=true" : "");
    return str_text(&s);
}

static int64_t sent_by(const struct trace *t, int64_t device)
{
    int64_t n = 0;
    for (int64_t k = 0; k < t->nhops; k++)
        n += t->hops[k].from == device ? t->hops[k].bytes : 0;
    return n;
}

static const int64_t sizes[] = { 2, 3, 4, 5, 6, 7, 8, 12, 16 };

static void moving_chunks_changes_no_value(void **state)
{
    (void)state;
    for (int kind = 0; kind < (int)COUNTOF(kinds); kind++)
        for (size_t k = 0; k < COUNTOF(sizes); k++)
            for (int how = 0; how < 3; how++) {
                struct arena a = { 0 };
                int64_t n = sizes[k];
                const char *text = collective_text(&a, kind, n, 3);
                struct trace t = { 0 };
                struct ran plain = run_text(text, (struct run_options){ .ndevices = n });
                if (!plain.ok)
                    fail_msg("%s %d: %s", kinds[kind], (int)n, first_error(plain.d));
                struct ran x = run_text(text, (struct run_options){ .ndevices = n,
                                                                    .trace = &t,
                                                                    .collectives = (enum collective_algorithm)how });
                if (!x.ok)
                    fail_msg("%s %d: %s", kinds[kind], (int)n, first_error(x.d));
                assert_int_equal(x.r.hash, plain.r.hash);
                assert_int_equal(t.nmeetings, 1);
                assert_int_equal(t.meetings[0].nhops, t.nhops);
                assert_true(t.nhops > 0);
                for (int64_t h = 0; h < t.nhops; h++) {
                    assert_true(t.hops[h].end > t.hops[h].start);
                    assert_true(t.hops[h].from != t.hops[h].to);
                }
                trace_free(&t);
                ran_free(&x);
                ran_free(&plain);
                arena_free(&a);
            }
}

/* What each device sends around a ring, in all-to-alls, and how many rounds that takes. */
static void ring_sends_what_the_formula_says(void **state)
{
    (void)state;
    const int64_t per = 5;
    for (size_t k = 0; k < COUNTOF(sizes); k++) {
        int64_t n = sizes[k], operand = n * per * 4;
        const int64_t want[] = { (n - 1) * operand, 2 * (n - 1) * operand / n, (n - 1) * operand / n,
                                 (n - 1) * operand / n, operand };
        const int64_t rounds[] = { n - 1, 2 * (n - 1), n - 1, n - 1, 1 };
        for (int kind = 0; kind < 5; kind++) {
            struct arena a = { 0 };
            struct trace t = { 0 };
            struct ran x = run_text(collective_text(&a, kind, n, per),
                                    (struct run_options){ .ndevices = n, .trace = &t });
            assert_true(x.ok);
            for (int64_t d = 0; d < n; d++)
                assert_int_equal(sent_by(&t, d), want[kind]);
            assert_int_equal(t.meetings[0].rounds, rounds[kind]);
            trace_free(&t);
            ran_free(&x);
            arena_free(&a);
        }
    }
}

static void tree_takes_logarithmic_rounds(void **state)
{
    (void)state;
    static const int64_t rounds[] = { 6, 6, 6, 3, 1, 3, 3 };
    for (int kind = 0; kind < (int)COUNTOF(kinds); kind++) {
        struct arena a = { 0 };
        struct trace t = { 0 };
        struct ran x = run_text(collective_text(&a, kind, 8, 2),
                                (struct run_options){ .ndevices = 8, .trace = &t, .collectives = COLLECTIVES_TREE });
        assert_true(x.ok);
        assert_int_equal(t.meetings[0].rounds, rounds[kind]);
        trace_free(&t);
        ran_free(&x);
        arena_free(&a);
    }
}

/* Sums of floats whose order matters, in a loop, with permutes and gathers in between. */
static const char busy[] =
    "HloModule m, num_partitions=8\n" ADDER
    "body { t = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = f32[4] "
    "get-tuple-element(t), index=1\n"
    " one = s32[] constant(1)\n n = s32[] add(i, one)\n e = f32[4] cosine(x)\n"
    " r = f32[4] all-reduce(e), channel_id=1, to_apply=add, replica_groups={{0,1,2,3,4,5,6,7}}, "
    "use_global_device_ids=true\n"
    " p = f32[4] collective-permute(x), channel_id=2, "
    "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}\n"
    " q = f32[4] add(r, p)\n g = f32[8] all-gather(q), channel_id=3, dimensions={0}, "
    "replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true\n"
    " h = f32[4] slice(g), slice={[2:6]}\n ROOT o = (s32[], f32[4]) tuple(n, h) }\n"
    "cond { t = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n k = s32[] "
    "constant(10)\n"
    " ROOT p = pred[] compare(i, k), direction=LT }\n"
    "ENTRY e {\n u = u32[] partition-id()\n f = f32[] convert(u)\n b = f32[4] broadcast(f), "
    "dimensions={}\n a = f32[4] parameter(0)\n"
    " v = f32[4] add(a, b)\n z = s32[] constant(0)\n t = (s32[], f32[4]) tuple(z, v)\n"
    " w = (s32[], f32[4]) while(t), condition=cond, body=body\n ROOT r = f32[4] "
    "get-tuple-element(w), index=1\n}\n";

static bool same_trace(const struct trace *a, const struct trace *b)
{
    if (a->nevents != b->nevents || a->nmeetings != b->nmeetings || a->nhops != b->nhops || a->ticks != b->ticks)
        return false;
    for (int64_t k = 0; k < a->nevents; k++) {
        const struct trace_event *x = &a->events[k], *y = &b->events[k];
        if (x->device != y->device || x->instr.i != y->instr.i || x->kind != y->kind || x->turn != y->turn ||
            x->start != y->start || x->end != y->end || x->meeting != y->meeting)
            return false;
    }
    for (int64_t k = 0; k < a->nhops; k++) {
        const struct trace_hop *x = &a->hops[k], *y = &b->hops[k];
        if (x->meeting != y->meeting || x->round != y->round || x->from != y->from || x->to != y->to ||
            x->chunk != y->chunk || x->start != y->start || x->end != y->end || x->sums != y->sums)
            return false;
    }
    return true;
}

static void the_record_does_not_depend_on_workers(void **state)
{
    (void)state;
    struct trace first = { 0 };
    struct ran one = run_text(busy, (struct run_options){ .ndevices = 8, .threads = 1, .trace = &first });
    struct ran plain = run_text(busy, (struct run_options){ .ndevices = 8 });
    assert_true(one.ok && plain.ok);
    assert_int_equal(one.r.hash, plain.r.hash);
    assert_int_equal(first.nmeetings, 10 * (1 + 1 + 4));
    for (int threads = 1; threads <= 8; threads += 3)
        for (uint64_t seed = 1; seed < 8; seed++) {
            struct trace t = { 0 };
            struct ran x = run_text(busy, (struct run_options){ .ndevices = 8, .threads = threads,
                                                                .schedule_seed = seed, .trace = &t });
            assert_true(x.ok);
            assert_int_equal(x.r.hash, plain.r.hash);
            assert_true(same_trace(&first, &t));
            trace_free(&t);
            ran_free(&x);
        }
    for (int64_t d = 0; d < 8; d++) /* events of a device follow each other */
        for (int64_t k = first.first_event[d]; k + 1 < first.first_event[d + 1]; k++) {
            assert_int_equal(first.events[k].device, d);
            assert_int_equal(first.events[k].end, first.events[k + 1].start);
        }
    trace_free(&first);
    ran_free(&one);
    ran_free(&plain);
}

static void a_full_record_says_so(void **state)
{
    (void)state;
    struct trace t = { .max_records = 64 };
    struct ran x = run_text(busy, (struct run_options){ .ndevices = 8, .trace = &t });
    assert_true(x.ok);
    assert_true(t.truncated);
    assert_true(t.nevents <= 64);
    assert_true(t.nmeetings == 60);
    trace_free(&t);
    ran_free(&x);
}

/* L devices in a row, each for one stage: device d has work in turns d .. d + busy_turns - 1 of the loop,
 * then hands on what it has. busy_turns: M microbatches (GPipe), M times the stages of a device
 * (circular: the last one's results come round to the first). */
static const char *pipeline_text(struct arena *a, int64_t stages, int64_t busy_turns)
{
    struct str s = STR_IN(a), pairs = STR_IN(a);
    for (int64_t d = 0; d < stages; d++)
        str_addf(&pairs, "%s{%" PRId64 ",%" PRId64 "}", d ? "," : "", d, (d + 1) % stages);
    str_addf(&s,
             "HloModule pipe, num_partitions=%" PRId64 "\n"
             "work { x = f32[4,1024] parameter(0)\n w = f32[1024,1024] constant({...})\n"
             " ROOT y = f32[4,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
             "rest { ROOT x = f32[4,1024] parameter(0) }\n"
             "body { t = (s32[], f32[4,1024]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
             " x = f32[4,1024] get-tuple-element(t), index=1\n u = u32[] partition-id()\n d = s32[] convert(u)\n"
             " n = s32[] constant(%" PRId64 ")\n end = s32[] add(d, n)\n"
             " p = pred[] compare(i, d), direction=GE\n q = pred[] compare(i, end), direction=LT\n has = pred[] and(p, q)\n"
             " y = f32[4,1024] conditional(has, x, x), true_computation=work, false_computation=rest\n"
             " z = f32[4,1024] collective-permute(y), channel_id=1, source_target_pairs={%s}\n"
             " one = s32[] constant(1)\n j = s32[] add(i, one)\n ROOT o = (s32[], f32[4,1024]) tuple(j, z) }\n",
             stages, busy_turns, str_text(&pairs));
    str_addf(&s,
             "cond { t = (s32[], f32[4,1024]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
             " k = s32[] constant(%" PRId64 ")\n ROOT p = pred[] compare(i, k), direction=LT }\n"
             "ENTRY e {\n x = f32[4,1024] parameter(0)\n z = s32[] constant(0)\n t = (s32[], f32[4,1024]) tuple(z, x)\n"
             " w = (s32[], f32[4,1024]) while(t), condition=cond, body=body\n"
             " ROOT r = f32[4,1024] get-tuple-element(w), index=1\n}\n",
             busy_turns + stages - 1);
    return str_text(&s);
}

/* Ticks of the stages' products, per device, and of a whole turn, tell the share that is idle. */
static void pipelines_idle_as_the_formula_says(void **state)
{
    (void)state;
    static const int64_t cases[][3] = { { 2, 4, 1 }, { 4, 4, 1 }, { 4, 12, 1 }, { 8, 8, 1 }, { 4, 4, 3 }, { 8, 8, 2 } };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct arena a = { 0 };
        struct trace t = { 0 };
        int64_t stages = cases[k][0], turns = cases[k][1] * cases[k][2];
        struct ran x = run_text(pipeline_text(&a, stages, turns),
                                (struct run_options){ .ndevices = stages, .trace = &t });
        if (!x.ok)
            fail_msg("%s", first_error(x.d));
        /* All turns take as long as one with work in it: what is not computing or sending is idle. */
        double want = (double)(stages - 1) / (double)(turns + stages - 1), idle = 0, work = 0;
        for (int64_t d = 0; d < stages; d++) {
            idle += (double)t.waiting[d];
            work += (double)t.computing[d];
        }
        double share = idle / (idle + work);
        if (fabs(share - want) > 0.02)
            fail_msg("%d stages, %d turns: idle share %g, not %g", (int)stages, (int)turns, share, want);
        trace_free(&t);
        ran_free(&x);
        arena_free(&a);
    }
}

/* ---- asynchronous pairs -------------------------------------------------------------------------
 */

/* A gather, then `work` products, then what was gathered is used; as a pair or in one. */
static const char *pair_text(struct arena *a, int form, int work)
{
    static const char *const groups = "replica_groups={{0,1,2,3}}";
    struct str s = STR_IN(a);
    str_addf(&s, "HloModule m, num_partitions=4\n" ADDER
                 "wrapped { p = f32[64,64] parameter(0)\n ROOT g = f32[64,64] all-to-all(p), channel_id=1, "
                 "dimensions={0}, %s }\n"
                 "ENTRY e {\n u = u32[] partition-id()\n i = f32[] convert(u)\n"
                 "v = f32[64,64] broadcast(i), dimensions={}\n w0 = f32[64,64] parameter(0)\n",
             groups);
    switch (form) {
    case 0: str_addf(&s, "g = f32[256,64] all-gather(v), channel_id=1, dimensions={0}, use_global_device_ids=true, %s\n", groups); break;
    case 1:
        str_addf(&s, "h = (f32[64,64], f32[256,64]) all-gather-start(v), channel_id=1, dimensions={0}, "
                     "use_global_device_ids=true, %s\n",
                 groups);
        break;
    case 2: str_addf(&s, "g = f32[64,64] all-reduce(v), channel_id=1, to_apply=add, use_global_device_ids=true, %s\n", groups); break;
    case 3: str_addf(&s, "h = f32[64,64] all-reduce-start(v), channel_id=1, to_apply=add, use_global_device_ids=true, %s\n", groups); break;
    case 4: str_addf(&s, "g = f32[64,64] collective-permute(v), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n"); break;
    case 5:
        str_addf(&s, "h = (f32[64,64], f32[64,64], u32[], u32[]) collective-permute-start(v), channel_id=1, "
                     "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n");
        break;
    case 6: str_addf(&s, "g = f32[64,64] all-to-all(v), channel_id=1, dimensions={0}, %s\n", groups); break;
    default: str_addf(&s, "h = ((f32[64,64]), f32[64,64], u32[]) async-start(v), calls=wrapped\n");
    }
    for (int k = 1; k <= work; k++)
        str_addf(&s, "w%d = f32[64,64] dot(w%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", k, k - 1, k - 1);
    static const char *const done[] = { "all-gather-done", "all-reduce-done", "collective-permute-done", "async-done" };
    const char *shape = form < 2 ? "f32[256,64]" : "f32[64,64]";
    if (form % 2)
        str_addf(&s, "g = %s %s(h)%s\n", shape, done[form / 2], form == 7 ? ", calls=wrapped" : "");
    str_addf(&s, "ROOT r = (%s, f32[64,64]) tuple(g, w%d)\n}\n", shape, work);
    return str_text(&s);
}

static void pairs_overlap_with_what_stands_between(void **state)
{
    (void)state;
    for (int form = 1; form < 8; form += 2)
        for (int work = 0; work <= 24; work += 24) {
            struct arena a = { 0 };
            struct trace t = { 0 }, whole = { 0 };
            struct ran x = run_text(pair_text(&a, form, work), (struct run_options){ .ndevices = 4, .trace = &t });
            struct ran y = run_text(pair_text(&a, form - 1, work), (struct run_options){ .ndevices = 4, .trace = &whole });
            if (!x.ok || !y.ok)
                fail_msg("form %d: %s%s", form, first_error(x.d), first_error(y.d));
            assert_int_equal(x.r.hash, y.r.hash);
            int64_t flights = 0, waits = 0;
            for (int64_t k = 0; k < t.nevents; k++) {
                const struct trace_event *e = &t.events[k];
                assert_true(k == t.first_event[e->device] || e->start >= t.events[k - 1].start);
                assert_true(e->kind != TRACE_COLLECTIVE);
                if (e->kind == TRACE_WAIT && e->end > e->start) {
                    assert_non_null(strstr(op_name((enum op_kind)instr_at(t.module, e->instr)->op), "-done"));
                    assert_int_equal(e->meeting, 0);
                    waits++;
                }
                if (e->kind != TRACE_FLIGHT)
                    continue;
                flights++;
                assert_int_equal(e->meeting, 0);
                assert_true(e->end > e->start && e->end <= t.meetings[0].end);
            }
            assert_int_equal(flights, 4);
            assert_int_equal(whole.nhops, t.nhops);
            if (work) { /* hidden behind the products: nobody waits, and the run is shorter by that much */
                assert_int_equal(waits, 0);
                assert_true(t.ticks < whole.ticks);
                assert_int_equal(whole.ticks - t.ticks, whole.meetings[0].end - whole.meetings[0].start);
            } else {
                assert_int_equal(waits, 4);
                assert_int_equal(t.ticks, whole.ticks);
            }
            for (int64_t d = 0; d < 4; d++) {
                const struct trace_event *e = &t.events[t.first_event[d]];
                while (e->kind != TRACE_FLIGHT)
                    e++;
                assert_int_equal(t.overlapped[d], work ? e->end - e->start : 0);
                assert_int_equal(whole.overlapped[d], 0);
                assert_int_equal(t.computing[d] + t.collective[d] + t.waiting[d], t.ticks);
            }
            trace_free(&t);
            trace_free(&whole);
            ran_free(&x);
            ran_free(&y);
            arena_free(&a);
        }
}

/* Two flights share a device's links: the second one's hops come behind the first one's. */
static void flights_follow_each_other(void **state)
{
    (void)state;
    const char *text = "HloModule m, num_partitions=2\n" ADDER
                       "ENTRY e {\n v = f32[512] parameter(0)\n"
                       "a = f32[512] all-reduce-start(v), channel_id=1, to_apply=add, replica_groups={{0,1}}, use_global_device_ids=true\n"
                       "b = f32[512] all-reduce-start(v), channel_id=2, to_apply=add, replica_groups={{0,1}}, use_global_device_ids=true\n"
                       "c = f32[512] all-reduce-done(a)\n d = f32[512] all-reduce-done(b)\n ROOT r = f32[512] add(c, d)\n}\n";
    struct trace t = { 0 };
    struct ran x = run_text(text, (struct run_options){ .ndevices = 2, .trace = &t });
    assert_true(x.ok);
    assert_int_equal(t.nmeetings, 2);
    int64_t first_ends = 0;
    for (int64_t h = 0; h < t.nhops; h++)
        if (t.hops[h].meeting == 0)
            first_ends = max_i64(first_ends, t.hops[h].end);
    for (int64_t h = 0; h < t.nhops; h++)
        if (t.hops[h].meeting == 1)
            assert_true(t.hops[h].start >= first_ends);
    trace_free(&t);
    ran_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_chunks_changes_no_value),
        cmocka_unit_test(ring_sends_what_the_formula_says),
        cmocka_unit_test(tree_takes_logarithmic_rounds),
        cmocka_unit_test(the_record_does_not_depend_on_workers),
        cmocka_unit_test(a_full_record_says_so),
        cmocka_unit_test(pipelines_idle_as_the_formula_says),
        cmocka_unit_test(pairs_overlap_with_what_stands_between),
        cmocka_unit_test(flights_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
