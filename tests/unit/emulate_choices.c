/* Where the partitioner has a choice: what it sends is what XLA's does for the same module, and the program
 * is right. Each text is the smallest that told two choices apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

#define MAXIMUM "max { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] maximum(p, q) }\n"
#define MODULE(n, computations, lines) "HloModule m, num_partitions=" #n "\n" computations "ENTRY e {\n" lines "}\n"

static struct whole made(const char *text)
{
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    struct whole w = whole_of(text, &o);
    if (!w.p)
        fail_msg("%s", first_error(w.d));
    return w;
}

static void sends(const char *text, int64_t bytes)
{
    struct whole w = made(text);
    assert_int_equal(w.bytes, bytes);
    const char *differs = whole_differs(&w, RUN_RING);
    if (differs)
        fail_msg("%s", differs);
    whole_free(&w);
}

/* S-181: the sum is cut where an operand is tiled as well: the operand is gathered inside first. */
static void test_sum_cut_where_an_operand_is_tiled(void **state)
{
    (void)state;
    sends(MODULE(4, "", "  l = bf16[4,16] parameter(0), sharding={devices=[2,2]<=[4]}\n"
                        "  r = bf16[7,4] parameter(1), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n"
                        "  ROOT o = bf16[16,7] dot(l, r), lhs_contracting_dims={0}, rhs_contracting_dims={1}, sharding={devices=[2,2]<=[4]}\n"),
          160);
}

static uint64_t state_of_random;

static int below(int n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (int)((state_of_random >> 33) % (uint64_t)n);
}

static void any_square(char *out, size_t size)
{
    static const char *const orders[] = { "<=[8]", "<=[2,4]T(1,0)", "<=[4,2]T(1,0)", "<=[2,2,2]T(2,1,0)", "<=[2,2,2]T(0,2,1)", "<=[2,2,2]T(1,0,2)" };
    int dims[3] = { 1, 1, 8 };
    while (dims[2] > 1 && below(7)) {
        dims[below(2)] *= 2;
        dims[2] /= 2;
    }
    const char *copies = dims[2] > 1 ? " last_tile_dim_replicate" : "", *order = orders[below(6)];
    if (dims[2] == 8)
        (void)snprintf(out, size, "{replicated}");
    else if (dims[2] > 1)
        (void)snprintf(out, size, "{devices=[%d,%d,%d]%s%s}", dims[0], dims[1], dims[2], order, copies);
    else
        (void)snprintf(out, size, "{devices=[%d,%d]%s}", dims[0], dims[1], order);
}

/* Trying is right only because it is found out where it is not. */
static void test_products_in_any_order(void **state)
{
    (void)state;
    state_of_random = 4;
    for (int k = 0; k < 600; k++) {
        char l[100], r[100], o[100], text[1000];
        any_square(l, sizeof l);
        any_square(r, sizeof r);
        any_square(o, sizeof o);
        (void)snprintf(text, sizeof text, MODULE(8, "", "  l = f32[8,8] parameter(0), sharding=%s\n  r = f32[8,8] parameter(1), sharding=%s\n"
                       "  ROOT o = f32[8,8] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=%s\n"), l, r, o);
        struct whole w = made(text);
        const char *differs = whole_differs(&w, RUN_RING);
        if (differs)
            fail_msg("%s\n%s", differs, text);
        whole_free(&w);
    }
}

/* S-178: what is whole after the gather has no order to be brought into. */
static void test_gather_without_a_permute(void **state)
{
    (void)state;
    sends(MODULE(8, "", "  l = f32[1,4,1] parameter(0), sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n"
                        "  r = f32[12,1,4] parameter(1), sharding={devices=[4,1,2]<=[2,2,2]T(0,2,1)}\n"
                        "  ROOT o = f32[1,1,12] dot(l, r), lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={1}, "
                        "rhs_contracting_dims={2}, sharding={devices=[1,1,4,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}\n"),
          24);
}

/* S-206: a strategy's cost does not count what an earlier trial happened to make. */
static void test_costs_of_strategies_are_their_own(void **state)
{
    (void)state;
    sends(MODULE(8, MAXIMUM, "  x = f32[8,6] parameter(0), sharding={devices=[4,2]<=[2,2,2]T(2,1,0)}\n"
                             "  i = s32[8,2] parameter(1), sharding={devices=[4,2]<=[2,2,2]T(2,1,0)}\n"
                             "  u = f32[6,6,8] parameter(2), sharding={maximal device=6}\n"
                             "  ROOT o = f32[8,6] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
                             "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=max, "
                             "sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"),
          2344);
}

/* S-213: indices of one device are cut like the updates. */
static void test_indices_of_one_device(void **state)
{
    (void)state;
    sends(MODULE(2, MAXIMUM, "  x = f32[3] parameter(0), sharding={devices=[2]<=[2]}\n"
                             "  i = s32[1,3] parameter(1), sharding={maximal device=1}\n"
                             "  u = f32[3,3] parameter(2), sharding={devices=[1,2]<=[2]}\n"
                             "  ROOT o = f32[3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, "
                             "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=max, sharding={replicated}\n"),
          32);
}

/* S-213: the indices, of which all devices of a group hold a copy, take the order of the updates. */
static void test_updates_keep_their_order(void **state)
{
    (void)state;
    sends(MODULE(4, MAXIMUM, "  x = f32[4,3] parameter(0), sharding={replicated}\n  i = s32[4,2] parameter(1), sharding={replicated}\n"
                             "  u = f32[3,4,2] parameter(2), sharding={devices=[2,2,1]0,3,2,1}\n"
                             "  ROOT o = f32[4,3] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={}, "
                             "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=max, sharding={replicated}\n"),
          80);
}

static void any_order(char *out, size_t size, const char *axes, const char *end)
{
    int d[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    for (int i = 7; i > 0; i--) {
        int j = below(i + 1), t = d[i];
        d[i] = d[j];
        d[j] = t;
    }
    (void)snprintf(out, size, "{devices=%s%d,%d,%d,%d,%d,%d,%d,%d%s}", axes, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], end);
}

/* Which devices then hold parts of one sum follows from that order too. */
static void test_scatters_in_any_order(void **state)
{
    (void)state;
    static const char *const updates[] = { "[2,4,1]", "[2,2,2]", "[1,2,4]", "[4,2,1]", "[2,1,4]" };
    state_of_random = 9;
    for (int k = 0; k < 300; k++) {
        char x[100] = "{replicated}", i[100] = "{replicated}", u[100], text[1200];
        any_order(u, sizeof u, updates[below(5)], "");
        if (below(2))
            any_order(i, sizeof i, below(2) ? "[2,1,4]" : "[4,1,2]", " last_tile_dim_replicate");
        if (below(2))
            any_order(x, sizeof x, below(2) ? "[2,1,4]" : "[1,2,4]", " last_tile_dim_replicate");
        (void)snprintf(text, sizeof text, MODULE(8, MAXIMUM, "  x = f32[4,8] parameter(0), sharding=%s\n  i = s32[8,1] parameter(1), sharding=%s\n"
                       "  u = f32[4,8,4] parameter(2), sharding=%s\n"
                       "  ROOT o = f32[4,8] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={}, "
                       "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=max, sharding={replicated}\n"), x, i, u);
        struct whole w = made(text);
        const char *differs = whole_differs(&w, RUN_RING);
        if (differs)
            fail_msg("%s\n%s", differs, text);
        whole_free(&w);
    }
}

/* S-89: the first step of the reshard is undone where the value was cut out of one that is still there. */
static void test_step_that_is_known(void **state)
{
    (void)state;
    sends(MODULE(8, "", "  x = f32[4,8,7] parameter(0), sharding={replicated}\n"
                        "  y = f32[2,8,7] parameter(1), sharding={devices=[2,4,1]<=[2,2,2]T(1,2,0)}\n"
                        "  c = f32[10,8,7] concatenate(x, x, y), dimensions={0}, sharding={devices=[2,1,4]<=[2,2,2]T(0,2,1)}\n"
                        "  ROOT o = f32[10,8,7] copy(c), sharding={devices=[1,4,1,2]<=[8] last_tile_dim_replicate}\n"),
          1320);
}

/* S-144: base and update are whole on the cut dims, as the base is tiled on the others. */
static void test_update_of_cut_dimensions(void **state)
{
    (void)state;
    sends(MODULE(8, "", "  x = f32[7,8,6] parameter(0), sharding={devices=[2,2,1,2]2,4,7,3,6,1,0,5 last_tile_dim_replicate}\n"
                        "  u = f32[2,8,6] parameter(1), sharding={devices=[2,4,1]1,0,3,6,4,5,2,7}\n"
                        "  i = s32[] parameter(2), sharding={replicated}\n"
                        "  ROOT o = f32[7,8,6] dynamic-update-slice(x, u, i, i, i), sharding={devices=[4,1,2]<=[2,2,2]T(0,2,1)}\n"),
          1488);
}

/* S-205: the option's plan is tried first. */
static void test_method_of_the_option(void **state)
{
    (void)state;
    static const char text[] = MODULE(32, "", "  x = f32[8,16] parameter(0), sharding={devices=[8,4]<=[4,8]T(1,0)}\n"
                                              "  i = s32[4,16,1] parameter(1), sharding={devices=[4,1,1,8]<=[32] last_tile_dim_replicate}\n"
                                              "  ROOT o = f32[4,16,16] gather(x, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, "
                                              "index_vector_dim=2, slice_sizes={1,16}, sharding={devices=[4,1,1,8]<=[32] last_tile_dim_replicate}\n");
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    o.gather_method = 3; /* trivially sliced operand */
    struct whole w = whole_of(text, &o);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.list[0].group_size, 4);
    assert_int_equal(w.list[1].group_size, 8);
    assert_null(whole_differs(&w, RUN_RING));
    whole_free(&w);
}

/* ---- top-k, S-151 ---------------------------------------------------------------------------------- */

/* Values in their total order, larger first; of equal ones the lower index. */
#define KEY(n, p)                                                                                                            \
    "  b" n " = s32[] bitcast-convert(" p ")\n  l" n " = pred[] compare(b" n ", zero), direction=LT\n"                        \
    "  u" n " = u32[] bitcast-convert(" p ")\n  d" n " = u32[] subtract(top, u" n ")\n  e" n " = s32[] bitcast-convert(d" n ")\n" \
    "  k" n " = s32[] select(l" n ", e" n ", b" n ")\n"
#define LARGER_FIRST                                                                                                     \
    "larger {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n" \
    "  zero = s32[] constant(0)\n  top = u32[] constant(2147483647)\n" KEY("0", "p") KEY("1", "q")                       \
    "  gt = pred[] compare(k0, k1), direction=GT\n  lt = pred[] compare(k1, k0), direction=GT\n"                         \
    "  same = pred[] compare(gt, lt), direction=EQ\n  less = pred[] compare(i, j), direction=LT\n"                       \
    "  ROOT r = pred[] select(same, less, gt)\n}\n"

static void topk(const char *size, const char *k, const char *gathered, bool pattern)
{
    char text[4000];
    (void)snprintf(text, sizeof text,
                   MODULE(4, LARGER_FIRST,
                          "  x = f32[2,%s] parameter(0), sharding={devices=[1,4]<=[4]}\n"
                          "  n = s32[2,%s] iota(), iota_dimension=1\n"
                          "  s = (f32[2,%s], s32[2,%s]) sort(x, n), dimensions={1}, is_stable=true, to_apply=larger\n"
                          "  v = f32[2,%s] get-tuple-element(s), index=0\n  w = s32[2,%s] get-tuple-element(s), index=1\n"
                          "  a = f32[2,%s] slice(v), slice={[0:2],[0:%s]}\n  c = s32[2,%s] slice(w), slice={[0:2],[0:%s]}\n"
                          "  ROOT o = (f32[2,%s], s32[2,%s]) tuple(a, c), sharding={{replicated}, {replicated}}\n"),
                   size, size, size, size, size, size, k, k, k, k, k, k);
    struct whole w = made(text);
    int64_t sorts = 0;
    for (uint32_t i = 1; i <= module_ninstrs(w.p->module); i++)
        sorts += instr_at(w.p->module, (instr_id){ i })->op == OP_SORT;
    assert_int_equal(sorts, pattern ? 2 : 1);
    assert_true(whole_has(&w, OP_ALL_GATHER, gathered));
    const char *differs = whole_differs(&w, RUN_FLOAT);
    if (differs)
        fail_msg("%s", differs);
    whole_free(&w);
}

static void test_sort_as_topk(void **state)
{
    (void)state;
    topk("16", "3", "f32[2,12]", true);  /* 3 from each of 4 */
    topk("14", "3", "f32[2,12]", true);  /* the last shard is short: its padding sorts last */
    topk("16", "4", "f32[2,16]", false); /* as many as a shard has: sorted as a whole */
}

/* ---- starts that the program computes, before a shard is cut ------------------------------------------ */

static int64_t starts_clamped(const char *text)
{
    struct whole w = made(text);
    assert_null(whole_differs(&w, RUN_RING));
    int64_t n = 0;
    const struct module *m = w.p->module;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        n += instr_at(m, (instr_id){ k })->op == OP_MINIMUM;
    whole_free(&w);
    return n;
}

static void test_starts_are_clamped_before_a_cut(void **state)
{
    (void)state;
    assert_int_equal(starts_clamped(MODULE(2, "", "  x = s32[9] parameter(0), sharding={replicated}\n  i = s32[] parameter(1), sharding={replicated}\n"
                                                  "  ROOT o = s32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}, sharding={devices=[2]<=[2]}\n")), 1);
    assert_int_equal(starts_clamped(MODULE(2, "", "  x = s32[9,4] parameter(0), sharding={replicated}\n  i = s32[1] parameter(1), sharding={replicated}\n"
                                                  "  ROOT o = s32[4,4] gather(x, i), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0}, "
                                                  "index_vector_dim=0, slice_sizes={4,4}, sharding={devices=[2,1]<=[2]}\n")), 1);
    /* A device takes one slice of the gather only. Both starts are clamped, and the gather's two components are one. */
    assert_int_equal(starts_clamped(MODULE(8, "", "  x = s32[1,16] parameter(0), sharding={replicated}\n  i = s32[] parameter(1), sharding={replicated}\n"
                                                  "  j = s32[2,8] parameter(2), sharding={devices=[1,8]6,4,7,5,2,1,3,0}\n"
                                                  "  d = s32[1,2] dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}\n"
                                                  "  ROOT o = s32[8] gather(d, j), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, "
                                                  "index_vector_dim=0, slice_sizes={1,1}, sharding={replicated}\n")), 3);
    /* Nothing is cut of it: as it was written. */
    assert_int_equal(starts_clamped(MODULE(2, "", "  x = s32[9] parameter(0), sharding={replicated}\n  i = s32[] parameter(1), sharding={replicated}\n"
                                                  "  ROOT o = s32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}, sharding={replicated}\n")), 0);
}

/* ---- what XLA replicates too is no fall-back ------------------------------------------------------------- */

static void test_whole_as_xla_does(void **state)
{
    (void)state;
    struct whole w = made(MODULE(2, "", "  x = f32[4,8] parameter(0), sharding={devices=[1,2]<=[2]}\n"
                                        "  ROOT o = f32[4,8] custom-call(x), custom_call_target=\"unheard_of\", sharding={devices=[1,2]<=[2]}\n"));
    assert_int_equal(w.p->nremats, 1);
    assert_true(w.p->remats[0].operation);
    assert_false(w.p->remats[0].fallback);
    assert_non_null(strstr(w.p->remats[0].reason, "S-166"));
    whole_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_cut_where_an_operand_is_tiled),
        cmocka_unit_test(test_products_in_any_order),
        cmocka_unit_test(test_gather_without_a_permute),
        cmocka_unit_test(test_costs_of_strategies_are_their_own),
        cmocka_unit_test(test_indices_of_one_device),
        cmocka_unit_test(test_updates_keep_their_order),
        cmocka_unit_test(test_scatters_in_any_order),
        cmocka_unit_test(test_step_that_is_known),
        cmocka_unit_test(test_update_of_cut_dimensions),
        cmocka_unit_test(test_method_of_the_option),
        cmocka_unit_test(test_sort_as_topk),
        cmocka_unit_test(test_starts_are_clamped_before_a_cut),
        cmocka_unit_test(test_whole_as_xla_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
