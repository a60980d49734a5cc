/* What a faithful reproduction of the GSPMD paper must show of the partitioner (paper.md, section 6): checks
 * C1-C3, C6, C7, C9, C11, C13 and G1-G3, each a test of its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

static struct partition_options spmd_only(void)
{
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    return o;
}

static struct whole made(const char *text, bool full)
{
    struct partition_options o = spmd_only();
    o.full = full;
    struct whole w = whole_of(text, &o);
    if (!w.p)
        fail_msg("%s", first_error(w.d));
    return w;
}

/* "all-gather 2; all-reduce 4": kinds with the sizes of their groups, in the program's order. */
static const char *said(struct whole *w)
{
    struct str s = STR_IN(w->arena);
    for (int64_t k = 0; k < w->n; k++)
        str_addf(&s, "%s%s %" PRId64, k ? "; " : "", op_name(w->list[k].kind), w->list[k].group_size);
    return str_text(&s);
}

static void expect(const char *text, bool full, const char *collectives)
{
    struct whole w = made(text, full);
    assert_string_equal(said(&w), collectives);
    const char *differs = whole_differs(&w, RUN_RING);
    if (differs)
        fail_msg("%s", differs);
    whole_free(&w);
}

static int count_groups(struct whole *w, int64_t k, const char *groups)
{
    struct str s = STR_IN(w->arena);
    const struct tiling *t = &w->list[k].groups;
    for (int64_t g = 0; g < t->dims[0]; g++)
        for (int64_t i = 0; i < t->dims[1]; i++)
            str_addf(&s, "%s%" PRId64, i ? "," : g ? "},{" : "{{", order_device(w->ir->shardings, t->order, g * t->dims[1] + i));
    str_adds(&s, "}}");
    return strcmp(str_text(&s), groups) == 0;
}

/* ---- C1: the program of n devices equals that of one, whatever the annotations ----------------------- */

static uint64_t state_of_random;

static int64_t below(int64_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(state_of_random >> 33) % n;
}

/* Any split of an array of this rank over 8 devices, in one of a few device orders. */
static const char *any_sharding(char *out, size_t size, int rank)
{
    static const char *const orders[] = { "<=[8]", "<=[2,4]T(1,0)", "<=[2,2,2]T(2,0,1)", "3,1,7,5,0,2,6,4" };
    int64_t dims[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, left = 8;
    if (below(8) == 0)
        return "{replicated}";
    for (int k = 0; k < 3 && rank; k++) {
        if (left > 1 && below(4)) {
            dims[below(rank)] *= 2;
            left /= 2;
        }
    }
    if (left == 8)
        return "{replicated}";
    int n = snprintf(out, size, "{devices=[");
    for (int d = 0; d < rank; d++)
        n += snprintf(out + n, size - (size_t)n, "%s%" PRId64, d ? "," : "", dims[d]);
    if (left > 1)
        n += snprintf(out + n, size - (size_t)n, ",%" PRId64, left);
    (void)snprintf(out + n, size - (size_t)n, "]%s%s}", orders[below(4)], left > 1 ? " last_tile_dim_replicate" : "");
    return out;
}

/* Bodies over a f32[6,8,5] and b f32[6,5,7]; %s: a sharding for each instruction with a rank before it. */
struct family {
    const char *name, *line;
    int rank;
};

static const struct family families[] = {
    { "add", "f32[6,8,5] add(a, a)", 3 },
    { "transpose", "f32[5,6,8] transpose(a), dimensions={2,0,1}", 3 },
    { "reshape", "f32[48,5] reshape(a)", 2 },
    { "reshape apart", "f32[2,3,8,5] reshape(a)", 4 },
    { "reverse", "f32[6,8,5] reverse(a), dimensions={0,1}", 3 },
    { "slice", "f32[3,5,2] slice(a), slice={[1:6:2],[2:7:1],[0:5:3]}", 3 },
    { "pad", "f32[9,9,6] pad(a, zero), padding=1_2x0_1x-1_2", 3 },
    { "pad inside", "f32[11,8,5] pad(a, zero), padding=0_0_1x0_0x0_0", 3 },
    { "concatenate", "f32[6,16,5] concatenate(a, a), dimensions={1}", 3 },
    { "broadcast", "f32[6,8,5,4] broadcast(a), dimensions={0,1,2}", 4 },
    { "reduce", "f32[6,5] reduce(a, zero), dimensions={1}, to_apply=add", 2 },
    { "reduce all", "f32[] reduce(a, zero), dimensions={0,1,2}, to_apply=add", 0 },
    { "dot", "f32[6,8,7] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}", 3 },
    { "dot free", "f32[8,5,5,7] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", 4 },
    { "dynamic-slice", "f32[6,3,5] dynamic-slice(a, i, i, i), dynamic_slice_sizes={6,3,5}", 3 },
    { "update", "f32[6,8,5] dynamic-update-slice(a, u, i, i, i)", 3 },
    { "gather", "f32[4,8,5] gather(a, at), offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                "slice_sizes={1,8,5}", 3 },
    { "scatter", "f32[6,8,5] scatter(a, at, v), update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                 "index_vector_dim=1, to_apply=add", 3 },
    { "select", "f32[6,8,5] select(p, a, a)", 3 },
    { "window", "f32[6,4,5] reduce-window(a, zero), window={size=1x3x1 stride=1x2x1 pad=0_0x1_0x0_0}, to_apply=add", 3 },
};

static void test_C1_equal_whatever_the_annotations(void **state)
{
    (void)state;
    int64_t proved = 0;
    state_of_random = 17;
    for (size_t k = 0; k < COUNTOF(families); k++)
        for (int round = 0; round < 12; round++) {
            char text[4000], s[8][200];
            (void)snprintf(text, sizeof text,
                           "HloModule m, num_partitions=8\n"
                           "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
                           "ENTRY e {\n"
                           "  a = f32[6,8,5] parameter(0), sharding=%s\n"
                           "  b = f32[6,5,7] parameter(1), sharding=%s\n"
                           "  i = s32[] parameter(2), sharding={replicated}\n"
                           "  at = s32[4,1] parameter(3), sharding=%s\n"
                           "  u = f32[2,3,5] parameter(4), sharding=%s\n"
                           "  v = f32[4,8,5] parameter(5), sharding=%s\n"
                           "  p = pred[6,8,5] parameter(6), sharding=%s\n"
                           "  zero = f32[] constant(0)\n"
                           "  r = %s, sharding=%s\n"
                           "  ROOT t = (f32[6,8,5], f32[6,5,7], s32[], s32[4,1], f32[2,3,5], f32[4,8,5], pred[6,8,5], %.*s) tuple(a, b, i, at, u, v, p, r)\n}\n",
                           any_sharding(s[0], sizeof s[0], 3), any_sharding(s[1], sizeof s[1], 3), any_sharding(s[2], sizeof s[2], 2),
                           any_sharding(s[3], sizeof s[3], 3), any_sharding(s[4], sizeof s[4], 3), any_sharding(s[5], sizeof s[5], 3),
                           families[k].line, any_sharding(s[6], sizeof s[6], families[k].rank),
                           (int)strcspn(families[k].line, " "), families[k].line);
            struct whole w = made(text, false);
            const char *differs = whole_differs(&w, RUN_RING);
            if (differs)
                fail_msg("%s: %s\n%s", families[k].name, differs, text);
            proved++;
            whole_free(&w);
        }
    assert_int_equal(proved, 12 * (int64_t)COUNTOF(families));
}

/* ---- C2: one text for all partitions, which does not grow with their number ---------------------------- */

static void feed_forward(char *out, size_t size, int64_t x, int64_t y)
{
    int64_t n = x * y;
    (void)snprintf(out, size,
                   "HloModule m, num_partitions=%" PRId64 "\nENTRY e {\n"
                   "  x = f32[65536,65536] parameter(0), sharding={devices=[%" PRId64 ",%" PRId64 "]<=[%" PRId64 "]}\n"
                   "  w = f32[65536,65536] parameter(1), sharding={devices=[%" PRId64 ",%" PRId64 "]<=[%" PRId64 "]}\n"
                   "  ROOT h = f32[65536,65536] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                   "sharding={devices=[%" PRId64 ",%" PRId64 "]<=[%" PRId64 "]}\n}\n",
                   n, x, y, n, x, y, n, x, y, n);
}

static void test_C2_one_program_of_one_size(void **state)
{
    (void)state;
    char few[2000], many[2000];
    feed_forward(few, sizeof few, 2, 4);
    feed_forward(many, sizeof many, 32, 64);
    struct whole a = made(few, false), b = made(many, false);
    assert_true(a.n > 0);
    assert_int_equal(a.n, b.n);
    assert_int_equal(module_ninstrs(a.p->module), module_ninstrs(b.p->module));
    assert_int_equal(module_bytes(a.p->module), module_bytes(b.p->module));
    assert_true(whole_has(&a, OP_PARTITION_ID, "u32[]") || whole_count(&a, OP_ALL_GATHER) == a.n);
    whole_free(&a);
    whole_free(&b);
}

/* ---- C3: what fills the padding reaches no result -------------------------------------------------------- */

static void test_C3_padding_reaches_nothing(void **state)
{
    (void)state;
    expect("HloModule m, num_partitions=2\n"
           "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
           "ENTRY e {\n  x = f32[15] parameter(0), sharding={devices=[2]<=[2]}\n  c = f32[] constant(0)\n"
           "  ROOT r = f32[] reduce(x, c), dimensions={0}, to_apply=add, sharding={replicated}\n}\n",
           false, "all-reduce 2");
    expect("HloModule m, num_partitions=4\nENTRY e {\n"
           "  x = f32[6,7] parameter(0), sharding={devices=[1,4]<=[4]}\n  w = f32[7,5] parameter(1), sharding={devices=[4,1]<=[4]}\n"
           "  ROOT h = f32[6,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n}\n",
           false, "all-reduce 4");
}

/* ---- C6: neighbours exchange, nothing is gathered ---------------------------------------------------------- */

static void neighbours_only(const char *text)
{
    struct whole w = made(text, false);
    assert_true(w.n > 0);
    assert_int_equal(whole_count(&w, OP_COLLECTIVE_PERMUTE), w.n);
    const char *differs = whole_differs(&w, RUN_RING);
    if (differs)
        fail_msg("%s", differs);
    whole_free(&w);
}

static void test_C6_reshape_reverse_pad_slice(void **state)
{
    (void)state;
#define TWO(lines) "HloModule m, num_partitions=2\nENTRY e {\n" lines "}\n"
    neighbours_only(TWO("  x = f32[3,2] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                        "  ROOT y = f32[6] reshape(x), sharding={devices=[2]<=[2]}\n"));
    neighbours_only(TWO("  x = f32[5] parameter(0), sharding={devices=[2]<=[2]}\n"
                        "  ROOT y = f32[5] reverse(x), dimensions={0}, sharding={devices=[2]<=[2]}\n"));
    neighbours_only(TWO("  x = f32[6] parameter(0), sharding={devices=[2]<=[2]}\n  c = f32[] constant(1)\n"
                        "  ROOT y = f32[9] pad(x, c), padding=1_2, sharding={devices=[2]<=[2]}\n"));
    neighbours_only(TWO("  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                        "  ROOT y = f32[6] slice(x), slice={[2:8]}, sharding={devices=[2]<=[2]}\n"));
#undef TWO
}

/* ---- C7: the recursion of the paper's Fig. 6 ------------------------------------------------------------------ */

static void test_C7_one_gather_in_the_groups(void **state)
{
    (void)state;
    /* mesh [[0,1],[2,3]]: x is the minor axis; A_x B, B_x C_y -> A_x C_y. */
    struct whole w = made("HloModule m, num_partitions=4\nENTRY e {\n"
                          "  l = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n"
                          "  r = f32[6,10] parameter(1), sharding={devices=[2,2]<=[2,2]T(1,0)}\n"
                          "  ROOT o = f32[8,10] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,2]<=[2,2]T(1,0)}\n}\n",
                          false);
    assert_string_equal(said(&w), "all-gather 2");
    assert_true(count_groups(&w, 0, "{{0,1},{2,3}}"));
    assert_true(whole_has(&w, OP_DOT, "f32[4,5]")); /* a b, b c -> a c */
    assert_null(whole_differs(&w, RUN_RING));
    whole_free(&w);
}

/* ---- C9: how a sharding is changed ------------------------------------------------------------------------------ */

static void moved(const char *from, const char *to, const char *collectives)
{
    char text[1000];
    (void)snprintf(text, sizeof text,
                   "HloModule m, num_partitions=8\nENTRY e {\n  x = f32[16,16] parameter(0), sharding=%s\n"
                   "  ROOT y = f32[16,16] copy(x), sharding=%s\n}\n", from, to);
    expect(text, false, collectives);
}

static void test_C9_resharding(void **state)
{
    (void)state;
    moved("{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", "all-to-all 8");                        /* dims switch */
    moved("{devices=[4,2]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}", "collective-permute 6");       /* devices change places */
    moved("{replicated}", "{devices=[8,1]<=[8]}", "");                                           /* cut */
    moved("{devices=[8,1]<=[8]}", "{replicated}", "all-gather 8");                               /* made whole */
    moved("{devices=[4,2]<=[8]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "all-gather 2");
    moved("{devices=[2,4]<=[8]}", "{devices=[4,2]<=[8]}", "all-to-all 2; collective-permute 4"); /* in steps */
}

/* ---- C11: an all-reduce whose own part is cut is a reduce-scatter, at half the cost ------------------------------ */

static void test_C11_reduce_scatter(void **state)
{
    (void)state;
    static const char text[] = "HloModule m, num_partitions=4\nENTRY e {\n"
                               "  x = f32[16,8] parameter(0), sharding={devices=[1,4]<=[4]}\n"
                               "  w = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}\n"
                               "  ROOT y = f32[16,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                               "sharding={devices=[4,1]<=[4]}\n}\n";
    struct whole plain = made(text, false), full = made(text, true);
    assert_string_equal(said(&plain), "all-reduce 4");
    assert_string_equal(said(&full), "reduce-scatter 4");
    assert_int_equal(plain.bytes, 2 * full.bytes);
    assert_null(whole_differs(&full, RUN_RING));
    whole_free(&plain);
    whole_free(&full);
}

/* ---- C13: the user's collectives inside, ours outside --------------------------------------------------------------- */

#define ADD "add { p = s32[] parameter(0)\n q = s32[] parameter(1)\n ROOT s = s32[] add(p, q) }\n"
static const char manual[] =
    "HloModule m, num_partitions=4\n" ADD
    "ENTRY e {\n"
    "  x = s32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  k = s32[8,6] copy(x), sharding={devices=[4,1]<=[4]}\n"
    "  in = s32[2,6] custom-call(k), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
    "  sum = s32[2,6] all-reduce(in), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add, sharding={manual}\n"
    "  twice = s32[2,6] add(sum, in), sharding={manual}\n"
    "  full = s32[8,6] custom-call(twice), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4,1]<=[4]}\n"
    "  c = s32[] constant(0), sharding={replicated}\n"
    "  ROOT r = s32[6] reduce(full, c), dimensions={0}, to_apply=add, sharding={replicated}\n}\n";
/* What that computes, without the region. */
static const char automatic[] =
    "HloModule m, num_partitions=4\n" ADD
    "ENTRY e {\n"
    "  x = s32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  c = s32[] constant(0), sharding={replicated}\n"
    "  parts = s32[4,2,6] reshape(x), sharding={devices=[4,1,1]<=[4]}\n"
    "  sum = s32[2,6] reduce(parts, c), dimensions={0}, to_apply=add, sharding={replicated}\n"
    "  all = s32[4,2,6] broadcast(sum), dimensions={1,2}, sharding={devices=[4,1,1]<=[4]}\n"
    "  twice = s32[4,2,6] add(all, parts), sharding={devices=[4,1,1]<=[4]}\n"
    "  ROOT r = s32[6] reduce(twice, c), dimensions={0,1}, to_apply=add, sharding={replicated}\n}\n";

static void run_whole(struct whole *w, struct tensor **out)
{
    struct tensor in;
    int64_t dims[2] = { 8, 6 }, n;
    bool equal;
    struct run_options o = { .ndevices = 4 };
    assert_true(tensor_generate(DTYPE_S32, 2, dims, 0, 5, &in, w->d));
    if (!run_program(w->p, &in, 1, &o, out, &n, &equal, NULL, w->d))
        fail_msg("%s", first_error(w->d));
    assert_int_equal(n, 1);
    assert_true(equal);
    tensor_free(&in);
}

static void test_C13_manual_region(void **state)
{
    (void)state;
    struct whole a = made(manual, false), b = made(automatic, false);
    struct tensor *x, *y;
    assert_string_equal(said(&a), "all-reduce 4; all-reduce 4"); /* theirs, then ours */
    run_whole(&a, &x);
    run_whole(&b, &y);
    for (int64_t k = 0; k < 6; k++)
        assert_int_equal(int_at(x, k), int_at(y, k));
    tensor_free(x);
    tensor_free(y);
    free(x);
    free(y);
    whole_free(&a);
    whole_free(&b);
}

/* Manual along one axis: what is left to us stays within its devices. */
static void test_C13_manual_subgroup(void **state)
{
    (void)state;
    struct whole w = made("HloModule m, num_partitions=4\n" ADD "ENTRY e {\n"
                          "  x = s32[8,6] parameter(0), sharding={devices=[2,1,2]0,2,1,3 last_tile_dims={manual}}\n"
                          "  c = s32[] constant(0), sharding={devices=[2,2]0,2,1,3 last_tile_dims={replicated,manual}}\n"
                          "  ROOT r = s32[6] reduce(x, c), dimensions={0}, to_apply=add, sharding={devices=[1,2,2]0,2,1,3 "
                          "last_tile_dims={replicated,manual}}\n}\n",
                          false);
    assert_string_equal(said(&w), "all-reduce 2");
    assert_true(count_groups(&w, 0, "{{0,1},{2,3}}"));
    whole_free(&w);
}

/* ---- G1: the three attempts of Fig. 7, forward feed-forward; X = 2, Y = 4 ---------------------------------------------- */

#define BSM_x   "{devices=[1,1,2,4]<=[8] last_tile_dim_replicate}"
#define BSH_y   "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
#define B_xSM   "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"
#define B_xSH_y "{devices=[2,1,4]<=[8]}"

static void attempt(const char *bsm, const char *bsh, const char *collectives)
{
    char text[2000];
    (void)snprintf(text, sizeof text,
                   "HloModule m, num_partitions=8\nENTRY e {\n"
                   "  x = f32[4,8,16] parameter(0), sharding=%s\n"
                   "  win = f32[16,32] parameter(1), sharding={devices=[2,4]<=[8]}\n"
                   "  wout = f32[32,16] parameter(2), sharding={devices=[4,2]<=[2,4]T(1,0)}\n"
                   "  h = f32[4,8,32] dot(x, win), lhs_contracting_dims={2}, rhs_contracting_dims={0}, sharding=%s\n"
                   "  c = f32[] constant(0)\n"
                   "  z = f32[4,8,32] broadcast(c), dimensions={}, sharding=%s\n"
                   "  a = f32[4,8,32] maximum(h, z), sharding=%s\n"
                   "  ROOT y = f32[4,8,16] dot(a, wout), lhs_contracting_dims={2}, rhs_contracting_dims={0}, sharding=%s\n}\n",
                   bsm, bsh, bsh, bsh, bsm);
    expect(text, true, collectives);
}

static void test_G1_dense_attempts(void **state)
{
    (void)state;
    attempt(BSM_x, BSH_y, "all-reduce 2; all-reduce 4");                                     /* AR-x, AR-y */
    attempt(B_xSM, B_xSH_y, "all-gather 2; all-gather 2; all-reduce 4");                     /* AG-x, AG-x, AR-y */
    attempt(B_xSH_y, B_xSH_y, "all-gather 4; all-gather 2; all-gather 2; reduce-scatter 4"); /* AG-y, AG-x, AG-x, RS-y */
}

/* ---- G2: experts, Fig. 8 ---------------------------------------------------------------------------------------------------- */

static void test_G2_experts(void **state)
{
    (void)state;
    expect("HloModule m, num_partitions=8\nENTRY e {\n" /* 8a: one axis */
           "  x = f32[8,8,4,6] parameter(0), sharding={devices=[1,8,1,1]<=[8]}\n"
           "  w1 = f32[8,6,10] parameter(1), sharding={devices=[8,1,1]<=[8]}\n"
           "  w2 = f32[8,10,6] parameter(2), sharding={devices=[8,1,1]<=[8]}\n"
           "  g = f32[8,8,4,6] copy(x), sharding={devices=[8,1,1,1]<=[8]}\n"
           "  h = f32[8,8,4,10] dot(g, w1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}\n"
           "  y = f32[8,8,4,6] dot(h, w2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}\n"
           "  ROOT o = f32[8,8,4,6] copy(y), sharding={devices=[1,8,1,1]<=[8]}\n}\n",
           true, "all-to-all 8; all-to-all 8");
    expect("HloModule m, num_partitions=8\nENTRY e {\n" /* 8b: experts over X = 2, M and H over Y = 4 */
           "  x = f32[4,8,4,8] parameter(0), sharding={devices=[1,2,1,4]<=[8]}\n"
           "  w1 = f32[4,8,12] parameter(1), sharding={devices=[2,1,4]<=[8]}\n"
           "  w2 = f32[4,12,8] parameter(2), sharding={devices=[2,4,1]<=[8]}\n"
           "  g = f32[4,8,4,8] copy(x), sharding={devices=[2,1,1,4]<=[8]}\n"
           "  h = f32[4,8,4,12] dot(g, w1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}, "
           "sharding={devices=[2,1,1,4]<=[8]}\n"
           "  y = f32[4,8,4,8] dot(h, w2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}, "
           "sharding={devices=[2,1,1,4]<=[8]}\n"
           "  ROOT o = f32[4,8,4,8] copy(y), sharding={devices=[1,2,1,4]<=[8]}\n}\n",
           true, "all-to-all 2; all-gather 4; reduce-scatter 4; all-to-all 2");
}

/* ---- G3: gradients of the experts' weights need no sum over devices ---------------------------------------------------------- */

static void test_G3_expert_gradients(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=8\nENTRY e {\n"
        "  x = f32[8,8,4,6] parameter(0), sharding={devices=[8,1,1,1]<=[8]}\n"
        "  dh = f32[8,8,4,10] parameter(1), sharding={devices=[8,1,1,1]<=[8]}\n"
        "  bsm = f32[8,4,6] parameter(2), sharding={devices=[8,1,1]<=[8]}\n"
        "  dq = f32[8,4,6] parameter(3), sharding={devices=[8,1,1]<=[8]}\n"
        "  dw = f32[8,6,10] dot(x, dh), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}, "
        "sharding={devices=[8,1,1]<=[8]}\n"
        "  dd = f32[6,6] dot(bsm, dq), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}, sharding={replicated}\n"
        "  ROOT o = (f32[8,6,10], f32[6,6]) tuple(dw, dd), sharding={{devices=[8,1,1]<=[8]}, {replicated}}\n}\n";
    struct whole w = made(text, true);
    assert_string_equal(said(&w), "all-reduce 8"); /* of the dense weight alone */
    const struct node_note *note = &w.p->notes[w.list[0].instr.i];
    assert_string_equal(name_text(w.ir, instr_at(w.pr->graph->module, note->source)->name), "dd");
    assert_null(whole_differs(&w, RUN_RING));
    whole_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C1_equal_whatever_the_annotations),
        cmocka_unit_test(test_C2_one_program_of_one_size),
        cmocka_unit_test(test_C3_padding_reaches_nothing),
        cmocka_unit_test(test_C6_reshape_reverse_pad_slice),
        cmocka_unit_test(test_C7_one_gather_in_the_groups),
        cmocka_unit_test(test_C9_resharding),
        cmocka_unit_test(test_C11_reduce_scatter),
        cmocka_unit_test(test_C13_manual_region),
        cmocka_unit_test(test_C13_manual_subgroup),
        cmocka_unit_test(test_G1_dense_attempts),
        cmocka_unit_test(test_G2_experts),
        cmocka_unit_test(test_G3_expert_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
