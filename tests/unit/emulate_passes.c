/* The passes of passes=full, one by one: what is sent before and after each, and that the program stays
 * equal (ring mode: bit for bit). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

static struct partition_options options(void)
{
    struct partition_options o;
    partition_options_default(&o);
    return o;
}

/* Behind `pass`, with the passes after it left off. */
static struct partition_options up_to(struct partition_options o, enum partition_pass pass)
{
    o.passes_left = PASS_COUNT - 1 - (int)pass;
    return o;
}

struct sent {
    int64_t collectives, bytes;
};

static struct sent equal(const char *text, struct partition_options o)
{
    struct whole w = whole_of(text, &o);
    const char *why = whole_differs(&w, RUN_RING);
    if (why)
        fail_msg("%s\n%s", why, text);
    struct sent s = { w.n, w.bytes };
    whole_free(&w);
    return s;
}

static void change(const char *text, struct partition_options o, enum partition_pass pass,
                   struct sent before, struct sent after)
{
    struct partition_options off = o;
    off.pass[pass] = false;
    struct sent a = equal(text, up_to(off, pass)), b = equal(text, up_to(o, pass));
    assert_int_equal(a.collectives, before.collectives);
    assert_int_equal(a.bytes, before.bytes);
    assert_int_equal(b.collectives, after.collectives);
    assert_int_equal(b.bytes, after.bytes);
    struct sent all = equal(text, o);
    assert_true(all.bytes <= b.bytes);
}

/* Two products, each with partial sums over four devices: 8x8 floats, 256 bytes, 2 * 3/4 of them each. */
static const char two_sums[] =
    "HloModule m, num_partitions=4\n"
    "ENTRY e {\n"
    "  a = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
    "  b = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    "  c = f32[16,8] parameter(2), sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
    "  f = f32[8,8] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
    "  ROOT y = f32[8,8] add(d, f), sharding={replicated}\n"
    "}\n";

static void sums_are_summed_first(void **state)
{
    (void)state;
    change(two_sums, options(), PASS_REASSOCIATE, (struct sent){ 2, 768 }, (struct sent){ 1, 384 });
    char other[2048]; /* a product of sums is no sum of products */
    snprintf(other, sizeof other, "%s", two_sums);
    memcpy(strstr(other, "add(d, f)"), "multiply(", 9);
    snprintf(strstr(other, "multiply("), 64, "multiply(d, f), sharding={replicated}\n}\n");
    change(other, options(), PASS_REASSOCIATE, (struct sent){ 2, 768 }, (struct sent){ 2, 768 });
}

static void sums_and_slices_are_reduce_scatters(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  a = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        "  b = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        "  ROOT d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[4,1]<=[4]}\n"
        "}\n";
    change(text, options(), PASS_REDUCE_SCATTER, (struct sent){ 1, 384 }, (struct sent){ 1, 192 });
}

/* Over two axes of two devices: 384 bytes where each of two took 256. */
static void sums_in_a_row_are_one(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=4\n"
        "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
        "ENTRY e {\n"
        "  a = f32[4,6,64] parameter(0), sharding={devices=[2,2,1]<=[4]}\n"
        "  z = f32[] constant(0)\n"
        "  ROOT d = f32[64] reduce(a, z), dimensions={0,1}, to_apply=add, sharding={replicated}\n"
        "}\n";
    change(text, options(), PASS_FOLD, (struct sent){ 2, 512 }, (struct sent){ 1, 384 });
}

static void gathers_of_less(void **state)
{
    (void)state;
    /* both operands are gathered for the replicated product: one gather of it will do */
    static const char binary[] =
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        "  b = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        "  ROOT y = f32[8,8] multiply(a, b), sharding={replicated}\n"
        "}\n";
    change(binary, options(), PASS_GATHERS, (struct sent){ 2, 384 }, (struct sent){ 1, 192 });
    /* eight numbers, broadcast to eight columns and then gathered */
    static const char spread[] =
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  a = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
        "  b = f32[8,8] broadcast(a), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"
        "  ROOT y = f32[8,8] copy(b), sharding={replicated}\n"
        "}\n";
    change(spread, options(), PASS_GATHERS, (struct sent){ 1, 192 }, (struct sent){ 1, 24 });
}

/* A shard of what was gathered is what the device had, if it is the same one. */
static void slices_of_gathers(void **state)
{
    (void)state;
    static const char form[] =
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
        "  b = f32[8,8] copy(a), sharding={replicated}\n"
        "  ROOT c = f32[8,8] copy(b), sharding={devices=[4,1]<=%s}\n"
        "}\n";
    char text[1024];
    snprintf(text, sizeof text, form, "[4]");
    change(text, options(), PASS_GATHERS, (struct sent){ 1, 192 }, (struct sent){ 0, 0 });
    snprintf(text, sizeof text, form, "[2,2]T(1,0)");
    change(text, options(), PASS_GATHERS, (struct sent){ 1, 192 }, (struct sent){ 1, 192 });
}

/* Six steps; the weight is gathered in each, and its gradient summed: 16x8 floats, 512 bytes. */
static const char loop[] =
    "HloModule m, num_partitions=4\n"
    "body {\n"
    "  c = (s32[], f32[16,8], f32[16,8], f32[6,8,16]) parameter(0), sharding={{replicated}, {replicated}, "
    "{devices=[4,1]<=[4]}, {devices=[1,4,1]<=[4]}}\n"
    "  i = s32[] get-tuple-element(c), index=0, sharding={replicated}\n"
    "  g = f32[16,8] get-tuple-element(c), index=1, sharding={replicated}\n"
    "  w = f32[16,8] get-tuple-element(c), index=2, sharding={devices=[4,1]<=[4]}\n"
    "  x = f32[6,8,16] get-tuple-element(c), index=3, sharding={devices=[1,4,1]<=[4]}\n"
    "  zero = s32[] constant(0)\n"
    "  one = s32[] constant(1)\n"
    "  b = f32[1,8,16] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,8,16}, "
    "sharding={devices=[1,4,1]<=[4]}\n"
    "  m = f32[8,16] reshape(b), sharding={devices=[4,1]<=[4]}\n"
    "  y = f32[8,8] dot(m, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[16,8] dot(m, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}\n"
    "  n = f32[16,8] add(g, d), sharding={replicated}\n"
    "  j = s32[] add(i, one), sharding={replicated}\n"
    "  ROOT t = (s32[], f32[16,8], f32[16,8], f32[6,8,16]) tuple(j, n, w, x), sharding={{replicated}, "
    "{replicated}, {devices=[4,1]<=[4]}, {devices=[1,4,1]<=[4]}}\n"
    "}\n"
    "more {\n"
    "  c = (s32[], f32[16,8], f32[16,8], f32[6,8,16]) parameter(0), sharding={{replicated}, {replicated}, "
    "{devices=[4,1]<=[4]}, {devices=[1,4,1]<=[4]}}\n"
    "  i = s32[] get-tuple-element(c), index=0, sharding={replicated}\n"
    "  six = s32[] constant(6)\n"
    "  ROOT p = pred[] compare(i, six), direction=LT\n"
    "}\n"
    "ENTRY e {\n"
    "  w = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  x = f32[6,8,16] parameter(1), sharding={devices=[1,4,1]<=[4]}\n"
    "  g = f32[16,8] parameter(2), sharding={replicated}\n"
    "  zero = s32[] constant(0)\n"
    "  init = (s32[], f32[16,8], f32[16,8], f32[6,8,16]) tuple(zero, g, w, x), sharding={{replicated}, "
    "{replicated}, {devices=[4,1]<=[4]}, {devices=[1,4,1]<=[4]}}\n"
    "  l = (s32[], f32[16,8], f32[16,8], f32[6,8,16]) while(init), condition=more, body=body, "
    "sharding={{replicated}, {replicated}, {devices=[4,1]<=[4]}, {devices=[1,4,1]<=[4]}}\n"
    "  ROOT out = f32[16,8] get-tuple-element(l), index=1, sharding={replicated}\n"
    "}\n";

static void loops_are_left(void **state)
{
    (void)state;
    struct partition_options o = options();
    change(loop, o, PASS_LOOPS, (struct sent){ 2, 6912 }, (struct sent){ 2, 6912 });
    o.hoist = true;
    change(loop, o, PASS_LOOPS, (struct sent){ 2, 6912 }, (struct sent){ 2, 1152 });
}

static void what_a_loop_repeats_is_named(void **state)
{
    (void)state;
    struct whole w = whole_of(loop, NULL);
    int named = 0;
    for (int64_t k = 0; k < w.n; k++) {
        const char *why = w.p->notes[w.list[k].instr.i].reason;
        bool gather = w.list[k].kind == OP_ALL_GATHER;
        bool says = why && strstr(why, "the same in every step of the loop");
        assert_int_equal(says, gather);
        named += says;
    }
    assert_int_equal(named, 1);
    whole_free(&w);
}

/* A value that the loop changes keeps its collective inside. */
static void what_changes_stays(void **state)
{
    (void)state;
    char text[sizeof loop + 64];
    snprintf(text, sizeof text, "%s", loop);
    char *at = strstr(text, "tuple(j, n, w, x)");
    memcpy(at, "tuple(j, n, v, x)", 17);
    static const char line[] = "  v = f32[16,8] negate(w), sharding={devices=[4,1]<=[4]}\n";
    at = strstr(text, "  j = s32[] add");
    char rest[sizeof loop];
    snprintf(rest, sizeof rest, "%s", at);
    snprintf(at, sizeof text - (size_t)(at - text), "%s%s", line, rest);
    struct partition_options o = options();
    o.hoist = true;
    change(text, o, PASS_LOOPS, (struct sent){ 2, 6912 }, (struct sent){ 2, 2304 + 768 });
}

static void independent_collectives_are_one(void **state)
{
    (void)state;
    struct partition_options o = options();
    o.pass[PASS_REASSOCIATE] = false;
    o.combine_mib = 1;
    change(two_sums, o, PASS_COMBINE, (struct sent){ 2, 768 }, (struct sent){ 1, 768 });
    o.combine_mib = 0;
    change(two_sums, o, PASS_COMBINE, (struct sent){ 2, 768 }, (struct sent){ 2, 768 });
    /* one needs the other's result */
    static const char chain[] =
        "HloModule m, num_partitions=4\n"
        "ENTRY e {\n"
        "  a = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        "  b = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        "  c = f32[8,8] parameter(2), sharding={devices=[1,4]<=[4]}\n"
        "  d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
        "  f = f32[8,8] multiply(d, d), sharding={devices=[4,1]<=[4]}\n"
        "  ROOT y = f32[8,8] dot(c, f), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={replicated}\n"
        "}\n";
    o.combine_mib = 1;
    o.pass[PASS_REDUCE_SCATTER] = false;
    struct sent one = equal(chain, o);
    o.combine_mib = 0;
    struct sent two = equal(chain, o);
    assert_int_equal(one.collectives, two.collectives);
}

/* Momentum, replicated over eight devices: 128x256 floats, 131,072 bytes. Its state is cut, the weight is
 * put together again: 2 * 7/8 of the bytes as before. */
static const char momentum[] =
    "HloModule m, num_partitions=8\n"
    "ENTRY e {\n"
    "  x = f32[64,128] parameter(0), sharding={devices=[8,1]<=[8]}\n"
    "  dy = f32[64,256] parameter(1), sharding={devices=[8,1]<=[8]}\n"
    "  w = f32[128,256] parameter(2), sharding={replicated}\n"
    "  v = f32[128,256] parameter(3), sharding={replicated}\n"
    "  y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[8,1]<=[8]}\n"
    "  g = f32[128,256] dot(x, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}\n"
    "  c = f32[] constant(0.5)\n"
    "  mu = f32[128,256] broadcast(c), dimensions={}\n"
    "  old = f32[128,256] multiply(v, mu)\n"
    "  n = f32[128,256] add(old, g), sharding={replicated}\n"
    "  u = f32[128,256] subtract(w, n), sharding={replicated}\n"
    "  ROOT out = (f32[64,256], f32[128,256], f32[128,256]) tuple(y, u, n), "
    "sharding={{devices=[8,1]<=[8]}, {replicated}, {replicated}}\n"
    "}\n";

static void weights_are_updated_in_parts(void **state)
{
    (void)state;
    struct partition_options o = options();
    change(momentum, o, PASS_WEIGHT_UPDATE, (struct sent){ 1, 229376 }, (struct sent){ 1, 229376 });
    o.weight_update = true;
    change(momentum, o, PASS_WEIGHT_UPDATE, (struct sent){ 1, 229376 }, (struct sent){ 2, 229376 });
    struct whole w = whole_of(momentum, &o);
    assert_int_equal(whole_count(&w, OP_REDUCE_SCATTER), 1);
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 1);
    assert_true(whole_has(&w, OP_SUBTRACT, "f32[16,256]"));
    assert_true(whole_has(&w, OP_PARAMETER, "f32[16,256]"));  /* v */
    assert_true(whole_has(&w, OP_PARAMETER, "f32[128,256]")); /* w, which the product needs */
    assert_int_equal(sharding_tile(w.ir->shardings, w.p->param_sharding[3], 0), 8);
    whole_free(&w);
}

/* The same over two of four axes, with the weight split on the third: the digits of the devices meet. */
static void parts_of_parts(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=8\n"
        "ENTRY e {\n"
        "  x = f32[16,12] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
        "  dy = f32[16,32] parameter(1), sharding={devices=[2,2,2]<=[8] last_tile_dim_replicate}\n"
        "  w = f32[12,32] parameter(2), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        "  v = f32[12,32] parameter(3), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        "  g = f32[12,32] dot(x, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        "  n = f32[12,32] add(v, g), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        "  u = f32[12,32] subtract(w, n), sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}\n"
        "  ROOT out = (f32[12,32], f32[12,32]) tuple(u, n), "
        "sharding={{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}, "
        "{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}}\n"
        "}\n";
    struct partition_options o = options();
    o.weight_update = true;
    struct whole w = whole_of(text, &o);
    const char *why = whole_differs(&w, RUN_RING);
    if (why)
        fail_msg("%s", why);
    assert_int_equal(whole_count(&w, OP_REDUCE_SCATTER), 1);
    /* w is read by the update alone, so that nothing is gathered: both stay in parts */
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    assert_true(whole_has(&w, OP_SUBTRACT, "f32[6,16]"));
    whole_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_summed_first),
        cmocka_unit_test(sums_and_slices_are_reduce_scatters),
        cmocka_unit_test(sums_in_a_row_are_one),
        cmocka_unit_test(gathers_of_less),
        cmocka_unit_test(slices_of_gathers),
        cmocka_unit_test(loops_are_left),
        cmocka_unit_test(what_a_loop_repeats_is_named),
        cmocka_unit_test(what_changes_stays),
        cmocka_unit_test(independent_collectives_are_one),
        cmocka_unit_test(weights_are_updated_in_parts),
        cmocka_unit_test(parts_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
