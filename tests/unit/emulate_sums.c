/* Sums where they cost least: in groups (S-229) and behind loops (S-233). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

static struct whole equal(const char *text, struct partition_options o)
{
    struct whole w = whole_of(text, &o);
    const char *why = whole_differs(&w, RUN_RING);
    if (why)
        fail_msg("%s\n%s", why, text);
    return w;
}

static void sends(const char *text, struct partition_options o, int64_t n, int64_t bytes)
{
    struct whole w = equal(text, o);
    if (w.n != n || w.bytes != bytes)
        fail_msg("%d collectives of %d bytes, not %d of %d\n%s", (int)w.n, (int)w.bytes, (int)n,
                 (int)bytes, text);
    whole_free(&w);
}

static struct partition_options options(void)
{
    struct partition_options o;
    partition_options_default(&o);
    return o;
}

/* `from`, once in the text, by `to`. */
static const char *with(const char *text, const char *from, const char *to)
{
    static char out[8192];
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static const char over_all[] =
    "HloModule sp, num_partitions=8\n"
    "ENTRY main {\n"
    "  a = f32[16,32] parameter(0), sharding={devices=[1,8]<=[8]}\n"
    "  b = f32[32,8] parameter(1), sharding={devices=[8,1]<=[8]}\n"
    "  d0 = f32[16,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={replicated}\n"
    "  d = f32[16,8] negate(d0), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
    "last_tile_dim_replicate}\n"
    "  e = f32[16,32] parameter(2), sharding={devices=[1,4,2]<=[2,4]T(1,0) "
    "last_tile_dim_replicate}\n"
    "  g = f32[32,8] parameter(3), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
    "last_tile_dim_replicate}\n"
    "  h = f32[16,8] dot(e, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={replicated}\n"
    "  ROOT t = (f32[16,8], f32[16,8]) tuple(d, h), sharding={{devices=[4,1,2]<=[2,4]T(1,0) "
    "last_tile_dim_replicate}, {replicated}}\n"
    "}\n";

/* 512 bytes summed over eight, of which a device keeps a quarter: 896 sent, or 384 scattered over four
 * and 128 summed over two. h has the groups that d's sum may join. */
static void a_sum_is_split(void **state)
{
    (void)state;
    struct partition_options o = options();
    sends(over_all, o, 3, 384 + 128 + 768);
    o.pass[PASS_SPLIT] = false;
    sends(over_all, o, 2, 896 + 768);
    /* no other sum has such groups */
    const char *alone = with(over_all,
                             "h = f32[16,8] dot(e, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                             "sharding={replicated}",
                             "h = f32[16,8] iota(), iota_dimension=0, sharding={replicated}");
    sends(alone, options(), 1, 896);
}

static const char accumulates[] =
    "HloModule acc, num_partitions=4\n"
    "body {\n"
    "  c = (s32[], bf16[6,16,8], f32[16,8], f32[6,8,16], f32[3,8,16]) parameter(0)\n"
    "  i = s32[] get-tuple-element(c), index=0\n"
    "  g = bf16[6,16,8] get-tuple-element(c), index=1\n"
    "  h = f32[16,8] get-tuple-element(c), index=2\n"
    "  x = f32[6,8,16] get-tuple-element(c), index=3\n"
    "  u = f32[3,8,16] get-tuple-element(c), index=4\n"
    "  zero = s32[] constant(0)\n"
    "  one = s32[] constant(1)\n"
    "  b = f32[1,8,16] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,8,16}\n"
    "  m = f32[8,16] reshape(b), sharding={devices=[4,1]<=[4]}\n"
    "  m.1 = f32[8,8] slice(m), slice={[0:8], [0:8]}, sharding={devices=[4,1]<=[4]}\n"
    "  y = f32[8,8] multiply(m.1, m.1), sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[16,8] dot(m, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "sharding={replicated}\n"
    "  four = s32[] constant(4)\n"
    "  lt = pred[] compare(i, four), direction=LT\n"
    "  fz = f32[] constant(0)\n"
    "  z = f32[16,8] broadcast(fz), dimensions={}\n"
    "  ltb = pred[16,8] broadcast(lt), dimensions={}\n"
    "  sel = f32[16,8] select(ltb, d, z), sharding={replicated}\n"
    "  n = f32[16,8] add(h, sel), sharding={replicated}\n"
    "  e = f32[8,16] dot(y, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "sharding={replicated}\n"
    "  two = s32[] constant(2)\n"
    "  q = s32[] remainder(i, two)\n"
    "  us = f32[1,8,16] dynamic-slice(u, q, zero, zero), dynamic_slice_sizes={1,8,16}\n"
    "  er = f32[1,8,16] reshape(e), sharding={replicated}\n"
    "  ua = f32[1,8,16] add(us, er), sharding={replicated}\n"
    "  un = f32[3,8,16] dynamic-update-slice(u, ua, q, zero, zero), sharding={replicated}\n"
    "  j = s32[] add(i, one)\n"
    "  ROOT t = (s32[], bf16[6,16,8], f32[16,8], f32[6,8,16], f32[3,8,16]) tuple(j, g, n, x, "
    "un), sharding={{replicated}, {replicated}, {replicated}, {devices=[1,4,1]<=[4]}, "
    "{replicated}}\n"
    "}\n"
    "more {\n"
    "  c = (s32[], bf16[6,16,8], f32[16,8], f32[6,8,16], f32[3,8,16]) parameter(0)\n"
    "  i = s32[] get-tuple-element(c), index=0\n"
    "  six = s32[] constant(6)\n"
    "  ROOT p = pred[] compare(i, six), direction=LT\n"
    "}\n"
    "ENTRY main {\n"
    "  g = bf16[6,16,8] parameter(0), sharding={replicated}\n"
    "  x = f32[6,8,16] parameter(1), sharding={devices=[1,4,1]<=[4]}\n"
    "  h = f32[16,8] parameter(2), sharding={replicated}\n"
    "  u = f32[3,8,16] parameter(3), sharding={replicated}\n"
    "  zero = s32[] constant(0)\n"
    "  init = (s32[], bf16[6,16,8], f32[16,8], f32[6,8,16], f32[3,8,16]) tuple(zero, g, h, "
    "x, u), sharding={{replicated}, {replicated}, {replicated}, {devices=[1,4,1]<=[4]}, "
    "{replicated}}\n"
    "  loop = (s32[], bf16[6,16,8], f32[16,8], f32[6,8,16], f32[3,8,16]) while(init), "
    "condition=more, body=body, sharding={{replicated}, {replicated}, {replicated}, "
    "{devices=[1,4,1]<=[4]}, {replicated}}\n"
    "  o1 = f32[16,8] get-tuple-element(loop), index=2, sharding={replicated}\n"
    "  o2 = f32[3,8,16] get-tuple-element(loop), index=4, sharding={replicated}\n"
    "  ROOT out = (f32[16,8], f32[3,8,16]) tuple(o1, o2), sharding={{replicated}, "
    "{replicated}}\n"
    "}\n";

static const char scatters[] =
    "HloModule rs, num_partitions=4\n"
    "add { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] add(a, b) }\n"
    "body {\n"
    "  c = (s32[], f32[2,4], f32[5,8,4]) parameter(0), sharding={{manual},{manual},{manual}}\n"
    "  i = s32[] get-tuple-element(c), index=0, sharding={manual}\n"
    "  h = f32[2,4] get-tuple-element(c), index=1, sharding={manual}\n"
    "  x = f32[5,8,4] get-tuple-element(c), index=2, sharding={manual}\n"
    "  zero = s32[] constant(0), sharding={manual}\n"
    "  one = s32[] constant(1), sharding={manual}\n"
    "  b = f32[1,8,4] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,8,4}, "
    "sharding={manual}\n"
    "  m = f32[8,4] reshape(b), sharding={manual}\n"
    "  s = f32[2,4] reduce-scatter(m), channel_id=1, replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, dimensions={0}, to_apply=add, sharding={manual}\n"
    "  n = f32[2,4] add(h, s), sharding={manual}\n"
    "  j = s32[] add(i, one), sharding={manual}\n"
    "  ROOT t = (s32[], f32[2,4], f32[5,8,4]) tuple(j, n, x), "
    "sharding={{manual},{manual},{manual}}\n"
    "}\n"
    "more {\n"
    "  c = (s32[], f32[2,4], f32[5,8,4]) parameter(0), sharding={{manual},{manual},{manual}}\n"
    "  i = s32[] get-tuple-element(c), index=0, sharding={manual}\n"
    "  n = s32[] constant(5), sharding={manual}\n"
    "  ROOT p = pred[] compare(i, n), direction=LT, sharding={manual}\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[5,32,4] parameter(0), sharding={devices=[1,4,1]<=[4]}\n"
    "  h = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    "  xm = f32[5,8,4] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={manual}\n"
    "  hm = f32[2,4] custom-call(h), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={manual}\n"
    "  zero = s32[] constant(0), sharding={manual}\n"
    "  init = (s32[], f32[2,4], f32[5,8,4]) tuple(zero, hm, xm), "
    "sharding={{manual},{manual},{manual}}\n"
    "  loop = (s32[], f32[2,4], f32[5,8,4]) while(init), condition=more, body=body, "
    "sharding={{manual},{manual},{manual}}\n"
    "  o = f32[2,4] get-tuple-element(loop), index=1, sharding={manual}\n"
    "  ROOT out = f32[8,4] custom-call(o), custom_call_target=\"SPMDShardToFullShape\", "
    "sharding={devices=[4,1]<=[4]}\n"
    "}\n";

static struct partition_options hoisting(void)
{
    struct partition_options o = options();
    o.hoist = true;
    return o;
}

/* One gradient is added where a counter says so, the other to a piece that the counter names. */
static void sums_leave_loops(void **state)
{
    (void)state;
    sends(accumulates, options(), 2, 4608 + 4608);
    sends(accumulates, hoisting(), 2, 768 + 2304);
}

/* A sum that another value decides on, and a piece that it names: each device might do otherwise. */
static void sums_that_devices_might_differ_in_stay(void **state)
{
    (void)state;
    const char *text = with(accumulates, "lt = pred[] compare(i, four), direction=LT",
                            "w0 = f32[1,1,1] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,1,1}, "
                            "sharding={replicated}\n  w1 = f32[] reshape(w0)\n  w2 = f32[] constant(0)\n  "
                            "lt = pred[] compare(w1, w2), direction=LT");
    struct whole w = equal(text, hoisting());
    bool inside = false;
    for (int64_t k = 0; k < w.n; k++)
        inside = inside || (w.list[k].kind == OP_ALL_REDUCE && w.list[k].trip_count == 6 &&
                            w.list[k].bytes == 4608);
    assert_true(inside);
    whole_free(&w);
}

/* Few steps, many pieces: what the loop sums is less than all pieces. */
static void a_sum_of_all_pieces_must_be_less(void **state)
{
    (void)state;
    const char *text = with(accumulates, "six = s32[] constant(6)", "six = s32[] constant(2)");
    sends(text, hoisting(), 2, 768 + 1536);
}

/* 96 bytes of each step's 128, five times; behind the loop, once. */
static void scatters_leave_loops(void **state)
{
    (void)state;
    sends(scatters, options(), 1, 480);
    sends(scatters, hoisting(), 1, 96);
    struct whole w = equal(scatters, hoisting());
    assert_true(whole_has(&w, OP_ADD, "f32[8,4]"));
    whole_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_is_split),
        cmocka_unit_test(sums_leave_loops),
        cmocka_unit_test(sums_that_devices_might_differ_in_stay),
        cmocka_unit_test(a_sum_of_all_pieces_must_be_less),
        cmocka_unit_test(scatters_leave_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
