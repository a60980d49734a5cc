/* Op handlers: the collectives of the specification's tables and examples (section 17), and what
 * must not grow with the number of devices. */
#include "partition_core.h"

struct row {
    const char *name;
    int64_t devices;
    const char *text; /* of the entry, the computations `add`, `ge`, `lt` and `pick` are there */
    const char *collectives;
};

#define REP " last_tile_dim_replicate"

static const char computations[] =
    "HloModule m\n"
    "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
    "max {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] maximum(a, b)\n}\n"
    "odd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  d = f32[] multiply(a, b)\n"
    "  ROOT c = f32[] add(a, d)\n}\n"
    "lt {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
    "  ROOT c = pred[] compare(a, b), direction=LT\n}\n"
    "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
    "  ROOT c = pred[] compare(a, b), direction=GE\n}\n"
    "arg {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] parameter(2)\n"
    "  d = s32[] parameter(3)\n  g = pred[] compare(a, c), direction=GE\n"
    "  x = f32[] select(g, a, c)\n  y = s32[] select(g, b, d)\n"
    "  ROOT t = (f32[], s32[]) tuple(x, y)\n}\n"
    "ENTRY e {\n";

static const struct row rows[] = {
    { "X-116", 4,
      "p = f32[64,32] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "q = f32[64,32] parameter(1), sharding={devices=[1,4]<=[4]}\n"
      "ROOT r = f32[64,32] add(p, q), sharding={devices=[4,1]<=[4]}\n",
      "all-to-all f32[4,16,8] 4" },
    { "X-129", 4,
      "p = f32[64,32] parameter(0), sharding={devices=[2,2]<=[4]}\n"
      "a = f32[] parameter(1), sharding={replicated}\n"
      "ROOT r = f32[64,32] clamp(a, p, a), sharding={devices=[2,2]<=[4]}\n",
      "" },
    { "X-118", 4,
      "p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
      "ROOT r = f32[8,16] broadcast(p), dimensions={0}, sharding={devices=[4,1]<=[4]}\n",
      "" },
    { "X-118 other dim", 4,
      "p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
      "ROOT r = f32[8,16] broadcast(p), dimensions={0}, sharding={devices=[1,4]<=[4]}\n",
      "all-gather f32[8] 4" },
    { "X-66", 2, "ROOT r = s32[16,80,91] iota(), iota_dimension=2, sharding={devices=[1,1,2]<=[2]}\n",
      "" },
    { "X-117", 4,
      "p = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "ROOT r = f32[8,16] transpose(p), dimensions={1,0}, sharding={devices=[1,4]<=[4]}\n",
      "" },
    { "X-45", 2,
      "p = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
      "ROOT r = f32[4] reverse(p), dimensions={0}, sharding={devices=[2]<=[2]}\n",
      "collective-permute f32[2] 2" },
    { "X-45 mirrored", 2,
      "p = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
      "ROOT r = f32[4] reverse(p), dimensions={0}, sharding={devices=[2]1,0}\n",
      "" },
    { "X-48", 2,
      "p = f32[14,257] parameter(0), sharding={devices=[1,2]<=[2]}\n"
      "q = f32[14,116] parameter(1), sharding={devices=[1,2]<=[2]}\n"
      "ROOT r = f32[14,373] concatenate(p, q), dimensions={1}, sharding={devices=[1,2]<=[2]}\n",
      "all-gather f32[14,258] 2; all-gather f32[14,116] 2" },
    { "X-49", 2,
      "p = f32[38,38,324] parameter(0), sharding={devices=[2,1,1]<=[2]}\n"
      "ROOT r = f32[38,38,4,81] reshape(p), sharding={devices=[1,2,1,1]<=[2]}\n",
      "all-to-all f32[19,2,19,324] 2" },
    { "X-51", 2,
      "p = s32[2,3,7,10] parameter(0), sharding={devices=[1,1,2,1]<=[2]}\n"
      "ROOT r = s32[3,2,1,14,5] reshape(p), sharding={devices=[1,1,1,2,1]<=[2]}\n",
      "collective-permute s32[3,2,1,1,5] 1" },
    { "X-32", 2,
      "p = f32[14,257] parameter(0), sharding={devices=[1,2]<=[2]}\n"
      "z = f32[] constant(0)\n"
      "ROOT r = f32[14,259] pad(p, z), padding=0_0x0_2, sharding={devices=[1,2]<=[2]}\n",
      "collective-permute f32[14,1] 1" },
    { "X-35", 4,
      "p = f32[4] parameter(0), sharding={devices=[4]<=[4]}\n"
      "ROOT r = f32[1] slice(p), slice={[3:4]}, sharding={devices=[4]<=[4]}\n",
      "collective-permute f32[1] 1" },
    { "X-36", 4,
      "p = f32[512] parameter(0), sharding={devices=[4]<=[4]}\n"
      "ROOT r = f32[1] slice(p), slice={[0:1]}, sharding={devices=[4]<=[4]}\n",
      "" },
    { "X-39", 2,
      "p = f32[100,2] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "ROOT r = f32[6,2] slice(p), slice={[0:6],[0:2]}, sharding={devices=[2,1]<=[2]}\n",
      "collective-permute f32[3,2] 1" },
    { "X-63", 2,
      "p = s32[128,64] parameter(0), sharding={devices=[1,2]<=[2]}\n"
      "u = s32[128,2] parameter(1), sharding={devices=[1,2]<=[2]}\n"
      "i = s32[] parameter(2), sharding={replicated}\nk = s32[] constant(60)\n"
      "ROOT r = s32[128,64] dynamic-update-slice(p, u, i, k), sharding={devices=[1,2]<=[2]}\n",
      "all-gather s32[128,2] 2" },
    { "X-65", 8,
      "p = f32[8,1024,64] parameter(0), sharding={devices=[8,1,1]<=[8]}\n"
      "u = f32[8,1,64] parameter(1), sharding={devices=[8,1,1]<=[8]}\n"
      "i = s32[] parameter(2), sharding={replicated}\nz = s32[] constant(0)\n"
      "ROOT r = f32[8,1024,64] dynamic-update-slice(p, u, z, i, z), "
      "sharding={devices=[8,1,1]<=[8]}\n",
      "" },
    { "X-120", 2,
      "p = s32[128,64] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "i = s32[] parameter(1), sharding={replicated}\n"
      "ROOT r = s32[128,2] dynamic-slice(p, i, i), dynamic_slice_sizes={128,2}, "
      "sharding={devices=[2,1]<=[2]}\n",
      "" },
    { "X-54", 2,
      "p = f32[4,32,32,128] parameter(0), sharding={devices=[1,2,1,1]<=[2]}\n"
      "z = f32[] constant(0)\n"
      "ROOT r = f32[128] reduce(p, z), dimensions={0,1,2}, to_apply=add, "
      "sharding={devices=[2]<=[2]}\n",
      "all-reduce f32[128] 2" },
    { "X-55", 4,
      "p = f32[16,1023] parameter(0), sharding={devices=[1,4]<=[4]}\n"
      "z = f32[] constant(-inf)\n"
      "ROOT r = f32[16] reduce(p, z), dimensions={1}, to_apply=max, sharding={replicated}\n",
      "all-reduce f32[16] 4" },
    { "X-57", 8,
      "p = f32[28,12] parameter(0), sharding={devices=[2,4]<=[8]}\n"
      "q = s32[28,12] parameter(1), sharding={devices=[2,4]<=[8]}\n"
      "z = f32[] constant(-inf)\nk = s32[] constant(0)\n"
      "ROOT r = (f32[28], s32[28]) reduce(p, q, z, k), dimensions={1}, to_apply=arg, "
      "sharding={{devices=[2,4]<=[8]" REP "}, {devices=[2,4]<=[8]" REP "}}\n",
      "all-gather f32[14,4] 4; all-gather s32[14,4] 4" },
    { "reducer without identity: gathered", 2,
      "p = f32[8,4] parameter(0), sharding={devices=[1,2]<=[2]}\n"
      "z = f32[] constant(1)\n"
      "ROOT r = f32[8] reduce(p, z), dimensions={1}, to_apply=odd, sharding={replicated}\n",
      "all-gather f32[8,4] 2" },
    { "X-58", 8,
      "p = f32[1024,1024] parameter(0), sharding={devices=[1,8]<=[8]}\n"
      "ROOT r = f32[1024,1024] sort(p), dimensions={1}, to_apply=lt, "
      "sharding={devices=[1,8]<=[8]}\n",
      "all-to-all f32[8,128,128] 8; all-to-all f32[128,8,128] 8" },
    { "X-62", 8,
      "p = f32[32,32,32] parameter(0), sharding={devices=[2,2,2]<=[8]}\n"
      "ROOT r = f32[32,32,32] cholesky(p), lower=true, sharding={devices=[2,2,2]<=[8]}\n",
      "all-gather f32[16,16,32] 2; all-gather f32[16,32,32] 2" },
    { "X-87", 2,
      "p = f32[128,224,224,3] parameter(0), sharding={devices=[1,2,1,1]<=[2]}\n"
      "w = f32[7,7,3,64] parameter(1), sharding={replicated}\n"
      "ROOT r = f32[128,112,112,64] convolution(p, w), window={size=7x7 stride=2x2 pad=3_3x3_3}, "
      "dim_labels=b01f_01io->b01f, sharding={devices=[1,2,1,1]<=[2]}\n",
      "collective-permute f32[128,3,224,3] 1; collective-permute f32[128,2,224,3] 1" },
    { "X-90", 2,
      "p = f32[128,56,56,64] parameter(0), sharding={devices=[1,2,1,1]<=[2]}\n"
      "q = f32[128,56,56,256] parameter(1), sharding={devices=[1,2,1,1]<=[2]}\n"
      "ROOT r = f32[1,1,64,256] convolution(p, q), window={size=56x56}, "
      "dim_labels=f01b_i01o->01bf, sharding={replicated}\n",
      "all-reduce f32[1,1,64,256] 2" },
    { "X-47", 4,
      "p = f32[11,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "q = f32[4,2] parameter(1), sharding={devices=[4,1]<=[4]}\nz = f32[] constant(0)\n"
      "ROOT r = f32[11,4] select-and-scatter(p, q, z), window={size=3x2 stride=3x2 pad=0_1x0_0}, "
      "select=ge, scatter=add, sharding={devices=[4,1]<=[4]}\n",
      "" },
    { "X-95", 2,
      "p = f32[2,9] parameter(0), sharding={devices=[1,2]<=[2]}\n"
      "i = s32[3] parameter(1), sharding={replicated}\n"
      "ROOT r = f32[3,9] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,9}, sharding={devices=[1,2]<=[2]}\n",
      "" },
    { "X-96", 2,
      "p = f32[17,9] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "i = s32[2,3] parameter(1), sharding={replicated}\n"
      "ROOT r = f32[2,3,9] gather(p, i), offset_dims={2}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=2, slice_sizes={1,9}, sharding={replicated}\n",
      "all-reduce f32[2,3,9] 2" },
    { "X-97", 4,
      "p = f32[1000,64] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "i = s32[32] parameter(1), sharding={devices=[4]<=[4]}\n"
      "ROOT r = f32[32,64] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}, "
      "sharding={devices=[4,1]<=[4]}\n",
      "all-gather s32[32] 4; all-reduce f32[32,64] 4" },
    { "X-100", 2,
      "p = f32[17,9] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "i = s32[2,3] parameter(1), sharding={replicated}\n"
      "u = f32[2,3,9] parameter(2), sharding={replicated}\n"
      "ROOT r = f32[17,9] scatter(p, i, u), update_window_dims={2}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add, "
      "sharding={devices=[2,1]<=[2]}\n",
      "" },
    { "X-103", 2,
      "a = s32[] constant(0)\nb = s32[] constant(9)\n"
      "ROOT r = s32[4] rng(a, b), distribution=rng_uniform, sharding={replicated}\n",
      "all-reduce s32[4] 2" },
};

static void examples(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct arena a = { 0 };
        const char *text = arena_printf(&a, "%s%s}\n", computations, rows[i].text);
        struct setup t;
        setup_partition(&t, text, rows[i].devices, NULL);
        if (!t.program)
            fail_msg("%s: %s", rows[i].name, setup_said(&t));
        const char *got = setup_collectives(&t);
        if (strcmp(got, rows[i].collectives) != 0) {
            print_error("%s:\n  %s\nnot\n  %s\n", rows[i].name, got, rows[i].collectives);
            wrong++;
        }
        setup_free(&t);
        arena_free(&a);
    }
    assert_int_equal(wrong, 0);
}

/* Nodes and collectives of windows, slices, gathers, updates: the same for any number of devices. */
static void any_number_of_devices(void **state)
{
    (void)state;
    static const int64_t devices[] = { 8, 64, 1000000, 1048576 };
    int64_t nodes[COUNTOF(devices)];
    for (size_t i = 0; i < COUNTOF(devices); i++) {
        int64_t n = devices[i];
        struct arena a = { 0 };
        const char *text = arena_printf(
            &a,
            "HloModule m\nENTRY e {\n"
            "  p = f32[8,%" PRId64 ",64] parameter(0), sharding={devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}\n"
            "  a = f32[8,%" PRId64 ",64] slice(p), slice={[0:8],[1:%" PRId64 "],[0:64]}, "
            "sharding={devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}\n"
            "  r = f32[8,%" PRId64 ",64] reverse(p), dimensions={1}, "
            "sharding={devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}\n"
            "  w = f32[64,64,3] parameter(1), sharding={replicated}\n"
            "  c = f32[8,%" PRId64 ",64] convolution(p, w), window={size=3 pad=1_1}, "
            "dim_labels=b0f_oi0->b0f, sharding={devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}\n"
            "  i = s32[32] parameter(2), sharding={replicated}\n"
            "  g = f32[8,32,64] gather(p, i), offset_dims={0,2}, collapsed_slice_dims={1}, "
            "start_index_map={1}, index_vector_dim=1, slice_sizes={8,1,64}, sharding={replicated}\n"
            "  u = f32[8,1,64] parameter(3), sharding={replicated}\n"
            "  k = s32[] parameter(4), sharding={replicated}\n  z = s32[] constant(0)\n"
            "  d = f32[8,%" PRId64 ",64] dynamic-update-slice(p, u, z, k, z), "
            "sharding={devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}\n"
            "  ROOT t = (f32[8,%" PRId64 ",64], f32[8,%" PRId64 ",64], f32[8,%" PRId64 ",64], "
            "f32[8,32,64], f32[8,%" PRId64 ",64]) tuple(a, r, c, g, d), "
            "sharding={{devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}, {devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}, "
            "{devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}, {replicated}, {devices=[1,%" PRId64 ",1]<=[%" PRId64 "]}}\n}\n",
            2 * n, n, n, 2 * n - 1, 2 * n, n, n, 2 * n, n, n, 2 * n, n, n, 2 * n, n, n, 2 * n - 1, 2 * n,
            2 * n, 2 * n, n, n, n, n, n, n, n, n);
        struct setup t;
        setup_partition(&t, text, n, NULL);
        if (!t.program)
            fail_msg("%" PRId64 " devices: %s", n, setup_said(&t));
        nodes[i] = module_ninstrs(t.program->module);
        setup_free(&t);
        arena_free(&a);
        assert_int_equal(nodes[i], nodes[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(any_number_of_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
