/* Planted faults: each one is reported with the device and the instruction, none hangs, none passes
 * as right. A thousand of them, over every kind of collective and way of moving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"
#include "tests/unit/emulate_run.h"

#define ADDER "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"

/* All six kinds in a loop of three turns. */
static const char busy[] =
    "HloModule m, num_partitions=6\n" ADDER
    "body { t = (s32[], f32[6]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = f32[6] "
    "get-tuple-element(t), index=1\n"
    " one = s32[] constant(1)\n n = s32[] add(i, one)\n e = f32[6] cosine(x)\n"
    " r = f32[6] all-reduce(e), channel_id=1, to_apply=add, replica_groups={{0,1,2,3,4,5}}, "
    "use_global_device_ids=true\n"
    " p = f32[6] collective-permute(r), channel_id=2, "
    "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,0}}\n"
    " g = f32[18] all-gather(p), channel_id=3, dimensions={0}, "
    "replica_groups={{0,2,4},{1,3,5}}, use_global_device_ids=true\n"
    " h = f32[6] slice(g), slice={[5:11]}\n"
    " a = f32[6] all-to-all(h), channel_id=4, dimensions={0}, replica_groups={{0,1,2},{5,4,3}}\n"
    " w = f32[12] concatenate(a, h), dimensions={0}\n"
    " s = f32[2] reduce-scatter(w), channel_id=5, dimensions={0}, to_apply=add, "
    "replica_groups={{5,4,3,2,1,0}}, use_global_device_ids=true\n"
    " b = f32[2] collective-broadcast(s), channel_id=6, replica_groups={{0,1},{2,3},{4,5}}\n"
    " q = f32[6] concatenate(b, s, b), dimensions={0}\n"
    " ROOT o = (s32[], f32[6]) tuple(n, q) }\n"
    "cond { t = (s32[], f32[6]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n k = s32[] "
    "constant(3)\n"
    " ROOT p = pred[] compare(i, k), direction=LT }\n"
    "ENTRY e {\n u = u32[] partition-id()\n f = f32[] convert(u)\n b = f32[6] broadcast(f), "
    "dimensions={}\n a = f32[6] parameter(0)\n"
    " v = f32[6] add(a, b)\n z = s32[] constant(0)\n t = (s32[], f32[6]) tuple(z, v)\n"
    " w = (s32[], f32[6]) while(t), condition=cond, body=body\n ROOT r = f32[6] "
    "get-tuple-element(w), index=1\n}\n";

/* A random event or hop of a clean run. */
static struct fault draw(const struct trace *t, uint64_t *seed)
{
    struct fault f = { 0 };
    *seed = hash_u64(*seed + 1);
    f.kind = (enum fault_kind)(*seed % 4);
    if (f.kind == FAULT_DELAY || f.kind == FAULT_KILL) {
        const struct trace_event *e;
        do {
            *seed = hash_u64(*seed + 1);
            e = &t->events[*seed % (uint64_t)t->nevents];
        } while (e->kind == TRACE_WAIT); /* its collective stands behind it */
        f.device = e->device;
        f.instr = e->instr;
        f.turn = e->turn;
        f.ticks = 1 + (int64_t)(*seed >> 40) % 1000;
        return f;
    }
    *seed = hash_u64(*seed + 1);
    const struct trace_hop *h = &t->hops[*seed % (uint64_t)t->nhops];
    const struct trace_meeting *m = &t->meetings[h->meeting];
    f.device = h->from;
    f.instr = m->instr;
    f.turn = m->turn;
    for (int64_t k = m->first_hop; &t->hops[k] != h; k++)
        f.hop += t->hops[k].from == h->from;
    return f;
}

static bool any_says(const struct diag *d, const char *what)
{
    for (int64_t k = 0; k < d->msgs.n; k++)
        if (strstr(d->msgs.v[k].text, what))
            return true;
    return false;
}

static void expect_reported(const struct ran *x, const struct fault *f, uint64_t hash,
                            const struct trace *clean, const struct trace *t)
{
    static const char *const words[] = { "", "is lost", "damaged message", "was killed" };
    char device[32];
    snprintf(device, sizeof device, "device %d", (int)f->device);
    if (!f->hit)
        fail_msg("%s at %s of device %d, turn %d, hop %d did not happen", fault_kind_name(f->kind),
                 name_text(x->m->ir, instr_at(x->m, f->instr)->name), (int)f->device, (int)f->turn,
                 (int)f->hop);
    if (f->kind == FAULT_DELAY) {
        assert_true(x->ok);
        assert_int_equal(x->r.hash, hash);
        assert_true(t->ticks >= clean->ticks && t->ticks <= clean->ticks + f->ticks);
        return;
    }
    assert_false(x->ok);
    if (!any_says(x->d, words[f->kind]))
        fail_msg("%s: %s", fault_kind_name(f->kind), first_error(x->d));
    if (f->kind == FAULT_KILL) {
        assert_true(any_says(x->d, device) || any_says(x->d, "waits for device"));
    } else {
        assert_true(any_says(x->d, device));
        assert_true(any_says(x->d, name_text(x->m->ir, instr_at(x->m, f->instr)->name)));
    }
}

static void a_thousand_faults_are_reported(void **state)
{
    (void)state;
    uint64_t seed = 7;
    int kinds[4] = { 0 };
    for (int how = 0; how < 3; how++) {
        struct trace clean = { 0 };
        struct run_options o = { .ndevices = 6, .trace = &clean,
                                 .collectives = (enum collective_algorithm)how };
        struct ran first = run_text(busy, o);
        if (!first.ok)
            fail_msg("%s", first_error(first.d));
        for (int k = 0; k < 340; k++) {
            struct trace t = { 0 };
            struct fault f = draw(&clean, &seed);
            o.trace = &t;
            o.faults = &f;
            o.nfaults = 1;
            o.threads = 1 + k % 3;
            struct ran x = run_text(busy, o);
            expect_reported(&x, &f, first.r.hash, &clean, &t);
            kinds[f.kind]++;
            trace_free(&t);
            ran_free(&x);
        }
        trace_free(&clean);
        ran_free(&first);
    }
    for (int k = 0; k < 4; k++)
        assert_true(kinds[k] > 150);
}

/* Without a record faults are found all the same. */
static void no_trace_is_needed(void **state)
{
    (void)state;
    struct trace clean = { 0 };
    struct ran first = run_text(busy, (struct run_options){ .ndevices = 6, .trace = &clean });
    uint64_t seed = 1000;
    for (int k = 0; k < 20; k++) {
        struct fault f = draw(&clean, &seed);
        struct ran x = run_text(busy, (struct run_options){ .ndevices = 6, .faults = &f, .nfaults = 1 });
        assert_true(f.hit);
        assert_true(x.ok == (f.kind == FAULT_DELAY));
        ran_free(&x);
    }
    trace_free(&clean);
    ran_free(&first);
}

/* A loop that one device leaves early: the others wait for it, and the report says where. */
static void a_device_that_ends_early(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=3\n" ADDER
        "body { t = (s32[], s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " n = s32[] get-tuple-element(t), index=1\n x = f32[2] get-tuple-element(t), index=2\n"
        " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
        " r = f32[2] all-reduce(x), channel_id=1, to_apply=add, replica_groups={{0,1,2}}, "
        "use_global_device_ids=true\n ROOT o = (s32[], s32[], f32[2]) tuple(j, n, r) }\n"
        "cond { t = (s32[], s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " n = s32[] get-tuple-element(t), index=1\n ROOT p = pred[] compare(i, n), direction=LT }\n"
        "ENTRY e {\n u = u32[] partition-id()\n i = s32[] convert(u)\n two = s32[] constant(2)\n"
        " n = s32[] minimum(i, two)\n z = s32[] constant(0)\n x = f32[2] parameter(0)\n"
        " t = (s32[], s32[], f32[2]) tuple(z, n, x)\n"
        " ROOT w = (s32[], s32[], f32[2]) while(t), condition=cond, body=body\n}\n";
    struct ran x = run_text(text, (struct run_options){ .ndevices = 3 });
    assert_false(x.ok);
    assert_true(any_says(x.d, "deadlock: 2 of 3 devices wait for ever"));
    assert_true(any_says(x.d, "at r device 1, 2 waits for device 0 (has ended)"));
    ran_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_faults_are_reported),
        cmocka_unit_test(no_trace_is_needed),
        cmocka_unit_test(a_device_that_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
