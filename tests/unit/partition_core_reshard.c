/* Resharding (S-71..S-91): the collectives of each pair of the specification's tables, and the
 * values, of listed and of random pairs, even and uneven. */
#include "partition_core.h"

static void one_pair(struct setup *t, int64_t devices, const char *shape, const char *from,
                     const char *to)
{
    char text[2000];
    (void)snprintf(text, sizeof text,
                   "HloModule m\nENTRY e {\n  p = %s parameter(0), sharding={%s}\n"
                   "  ROOT c = %s copy(p), sharding={%s}\n}\n",
                   shape, from, shape, to);
    setup_partition(t, text, devices, NULL);
    if (!t->program)
        fail_msg("%s: %s -> %s: %s", shape, from, to, setup_said(t));
}

static void check_values(struct setup *t, const char *what)
{
    struct machine k;
    run_program(&k, t->program);
    if (!is_parameter0(&k, t->program)) {
        struct str s = STR_IN(&t->arena);
        if (!hlo_print(t->program->module, NULL, &s))
            fail_msg("%s: wrong values", what);
        fail_msg("%s: wrong values\n%s", what, str_text(&s));
    }
    arena_free(&k.arena);
}

/* ---- the tables ------------------------------------------------------------------------------------------- */

struct row {
    int64_t devices;
    const char *shape, *from, *to, *collectives;
};

#define REP " last_tile_dim_replicate"

static const struct row rows[] = {
    /* R -> anything, M -> R, M -> M, M -> tiled */
    { 4, "s32[8,4]", "replicated", "devices=[2,2]<=[4]", "" },
    { 4, "s32[8,4]", "replicated", "devices=[2,1,2]<=[4]" REP, "" },
    { 2, "s32[2,3]", "replicated", "maximal device=1", "" },
    { 2, "s32[2,3]", "maximal device=0", "replicated", "all-reduce s32[2,3] 2" },
    { 2, "s32[2,3]", "maximal device=0", "maximal device=1", "all-reduce s32[2,3] 2" },
    { 2, "s32[2,3]", "maximal device=1", "devices=[2,1]<=[2]", "all-reduce s32[2,3] 2" },
    /* gathering, uneven, size 1, few elements */
    { 2, "s32[2,3]", "devices=[2,1]<=[2]", "replicated", "all-gather s32[2,3] 2" },
    { 8, "s32[8,16]", "devices=[2,4]<=[8]", "replicated",
      "all-gather s32[4,16] 4; all-gather s32[8,16] 2" },
    { 4, "s32[5,3]", "devices=[4,1]<=[4]", "replicated", "all-gather s32[8,3] 4" },
    { 4, "s32[1,1]", "devices=[2,2]<=[4]", "replicated", "all-reduce s32[1,1] 4" },
    { 4, "s32[1,2]", "devices=[2,2]<=[4]", "replicated",
      "all-reduce s32[1,1] 2; all-gather s32[1,2] 2" },
    { 16, "s32[3,2]", "devices=[8,2]<=[16]", "replicated",
      "all-gather s32[1,2] 2; all-reduce s32[3,2] 8" },
    { 2, "s32[4,4]", "devices=[2,1]<=[2]", "maximal device=1", "all-gather s32[4,4] 2" },
    /* all-to-all: X-5..X-11 */
    { 2, "s32[8,2]", "devices=[2,1]<=[2]", "devices=[1,2]<=[2]", "all-to-all s32[4,2,1] 2" },
    { 8, "s32[16,16,16,16]", "devices=[1,4,2,1]<=[8]", "devices=[2,1,1,4]<=[4,2]T(1,0)",
      "all-to-all s32[8,8,4,8,4] 8" },
    { 64, "s32[8,8,8,8]", "devices=[2,4,8,1]<=[64]", "devices=[4,2,1,8]<=[2,2,2,8]T(0,2,1,3)",
      "all-to-all s32[16,2,2,1,1] 16" },
    { 2, "s32[7,31,4]", "devices=[1,2,1]<=[2]", "devices=[2,1,1]<=[2]",
      "all-to-all s32[2,4,16,4] 2" },
    { 8, "s32[8,8,8,8]", "devices=[2,2,1,2]<=[8]", "devices=[1,2,2,2]0,1,4,5,2,3,6,7",
      "all-to-all s32[4,4,2,4,4] 2" },
    { 8, "s32[8,8]", "devices=[2,4]<=[8]", "devices=[4,2]0,1,4,5,2,3,6,7",
      "all-to-all s32[2,2,2] 2; collective-permute s32[2,4] 6" },
    { 8, "s32[8,8,8]", "devices=[2,4,1]<=[8]", "devices=[1,2,4]0,1,4,5,2,3,6,7",
      "all-to-all s32[4,2,4,2] 4; all-to-all s32[4,2,4,2] 2; collective-permute s32[8,4,2] 4" },
    /* permute: S-76 */
    { 8, "s32[8,8]", "devices=[2,4]<=[8]", "devices=[2,4]<=[4,2]T(1,0)",
      "collective-permute s32[4,2] 6" },
    /* orders that count down, and an order that no digits say */
    { 4, "s32[8]", "replicated", "devices=[4]3,2,1,0", "" },
    { 8, "s32[8,4]", "replicated", "devices=[4,2]6,7,4,5,2,3,0,1", "" },
    { 4, "s32[8]", "replicated", "devices=[4]0,1,3,2", "" },
    { 4, "s32[8]", "devices=[4]3,2,1,0", "devices=[4]<=[4]", "collective-permute s32[2] 4" },
    { 6, "s32[12]", "devices=[3,2]5,4,3,2,1,0" REP, "devices=[6]5,4,3,2,1,0", "" },
    /* partial replication: X-12..X-19 */
    { 4, "s32[8,8]", "devices=[2,2]<=[4]", "devices=[2,1,2]<=[4]" REP, "all-gather s32[4,8] 2" },
    { 4, "s32[8,8]", "devices=[2,1,2]<=[4]" REP, "devices=[2,2]<=[4]", "" },
    { 8, "s32[8,8]", "devices=[2,2,2]<=[8]" REP, "devices=[1,2,4]<=[8]" REP,
      "collective-permute s32[4,4] 4; all-gather s32[8,4] 2" },
    { 8, "s32[8,8]", "devices=[1,2,4]<=[8]" REP, "devices=[2,2,2]<=[8]" REP,
      "collective-permute s32[4,4] 4" },
    { 6, "s32[8,8]", "devices=[2,3]<=[6]", "devices=[1,2,3]<=[6]" REP,
      "all-gather s32[4,9] 3; all-to-all s32[4,2,4] 2" },
    { 6, "s32[8,8]", "devices=[1,2,3]<=[6]" REP, "devices=[2,3]<=[6]", "all-to-all s32[2,4,4] 2" },
    { 8, "s32[6,3]", "devices=[2,1,4]<=[8]" REP, "devices=[4,1,2]<=[8]" REP,
      "collective-permute s32[1,3] 4" },
    { 8, "s32[6,3]", "devices=[4,1,2]<=[8]" REP, "devices=[2,1,4]<=[8]" REP,
      "collective-permute s32[1,3] 4; all-gather s32[4,3] 2" },
    { 8, "s32[8,8]", "devices=[2,1,4]<=[8]" REP, "devices=[1,2,4]<=[8]" REP,
      "all-to-all s32[4,2,4] 2" },
    /* complex pairs: X-23..X-25, X-130 */
    { 6, "s32[12,12]", "devices=[3,2]<=[6]", "devices=[2,3]<=[6]",
      "all-gather s32[4,12] 2; all-gather s32[12,12] 3" },
    { 8, "s32[4,15,4,16]", "devices=[1,4,1,2]<=[8]", "devices=[1,8,1,1]<=[8]",
      "all-to-all s32[4,1,2,2,4,8] 2" },
    { 8, "s32[6,32,4]", "devices=[4,2,1]<=[8]", "devices=[2,2,2]<=[8]",
      "all-gather s32[8,16,4] 4; collective-permute s32[3,16,2] 4" },
};

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct setup t;
        const struct row *r = &rows[i];
        one_pair(&t, r->devices, r->shape, r->from, r->to);
        const char *got = setup_collectives(&t);
        if (strcmp(got, r->collectives) != 0)
            fail_msg("%s: %s -> %s: %s, expected %s", r->shape, r->from, r->to, got, r->collectives);
        check_values(&t, r->to);
        setup_free(&t);
    }
}

/* ---- random pairs -------------------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return *seed >> 33;
}

/* A tiling of `devices` over rank dims, with copies, in some order. */
static void random_sharding(uint64_t *seed, int rank, int64_t devices, char *out, size_t size)
{
    int64_t counts[4] = { 1, 1, 1, 1 }, left = devices;
    uint64_t kind = next(seed) % 8;
    if (kind == 0) {
        (void)snprintf(out, size, "replicated");
        return;
    }
    if (kind == 1) {
        (void)snprintf(out, size, "maximal device=%d", (int)(next(seed) % (uint64_t)devices));
        return;
    }
    for (int64_t p = 2; left > 1;) {
        if (left % p) {
            p++;
            continue;
        }
        counts[next(seed) % (uint64_t)(rank + 1)] *= p;
        left /= p;
    }
    int n = snprintf(out, size, "devices=[");
    for (int d = 0; d < rank; d++)
        n += snprintf(out + n, size - (size_t)n, "%s%d", d ? "," : "", (int)counts[d]);
    bool copies = counts[rank] > 1;
    if (copies)
        n += snprintf(out + n, size - (size_t)n, ",%d", (int)counts[rank]);
    n += snprintf(out + n, size - (size_t)n, "]");
    if (kind < 5) {
        n += snprintf(out + n, size - (size_t)n, "<=[%d]", (int)devices);
    } else {
        int order[MAX_DEVICES];
        for (int i = 0; i < (int)devices; i++)
            order[i] = i;
        for (int i = (int)devices - 1; i > 0; i--) {
            int j = (int)(next(seed) % (uint64_t)(i + 1)), x = order[i];
            order[i] = order[j];
            order[j] = x;
        }
        for (int i = 0; i < (int)devices; i++)
            n += snprintf(out + n, size - (size_t)n, "%s%d", i ? "," : "", order[i]);
    }
    if (copies)
        (void)snprintf(out + n, size - (size_t)n, REP);
}

static void test_random(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 2, 3, 4, 6, 8, 12 };
    uint64_t seed = 20210501;
    for (int round = 0; round < 700; round++) {
        int64_t devices = sizes[next(&seed) % COUNTOF(sizes)];
        int rank = 1 + (int)(next(&seed) % 3), n = 0;
        char shape[64], from[400], to[400], what[1000];
        n = snprintf(shape, sizeof shape, "s32[");
        for (int d = 0; d < rank; d++)
            n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%d", d ? "," : "",
                          1 + (int)(next(&seed) % 13));
        (void)snprintf(shape + n, sizeof shape - (size_t)n, "]");
        random_sharding(&seed, rank, devices, from, sizeof from);
        random_sharding(&seed, rank, devices, to, sizeof to);
        struct setup t;
        (void)snprintf(what, sizeof what, "%s: %s -> %s", shape, from, to);
        one_pair(&t, devices, shape, from, to);
        check_values(&t, what);
        setup_free(&t);
    }
}

/* There and back again, with one value in between used twice: the cache gives both one collective. */
static void test_cache(void **state)
{
    (void)state;
    struct setup t;
    setup_partition(&t,
                    "HloModule m\nENTRY e {\n  p = s32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                    "  a = s32[8,4] negate(p), sharding={replicated}\n"
                    "  b = s32[8,4] abs(p), sharding={replicated}\n"
                    "  ROOT c = s32[8,4] add(a, b), sharding={devices=[4,1]<=[4]}\n}\n",
                    4, NULL);
    assert_non_null(t.program);
    assert_string_equal(setup_collectives(&t), "all-gather s32[8,4] 4");
    setup_free(&t);
}

/* Known-equal dimensions: X-26. */
static void test_known_equal(void **state)
{
    (void)state;
    static const char *const orders[] = { "devices=[2,1,2]<=[2,2]T(1,0)", "devices=[2,2,1]<=[2,2]T(1,0)" };
    for (int k = 0; k < 2; k++) {
        char text[1000];
        const char *own = k ? "devices=[2,2,1]<=[4]" : "devices=[2,1,2]<=[4]";
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n  p = s32[4] parameter(0), sharding={replicated}\n"
                       "  b = s32[4,4,4] broadcast(p), dimensions={%d}, sharding={%s}\n"
                       "  ROOT c = s32[4,4,4] copy(b), sharding={%s}\n}\n",
                       1, own, orders[k]);
        struct setup t;
        setup_partition(&t, text, 4, NULL);
        assert_non_null(t.program);
        assert_string_equal(setup_collectives(&t), k ? "collective-permute s32[2,2,4] 2" : "");
        setup_free(&t);
    }
}

/* Without an all-gather everything is summed (S-68). */
static void test_no_all_gather(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 100; round++) {
        char text[1200], shape[64], from[400];
        int64_t devices = round % 2 ? 4 : 6;
        (void)snprintf(shape, sizeof shape, "s32[%d,%d]", 1 + (int)(next(&seed) % 9),
                       1 + (int)(next(&seed) % 9));
        random_sharding(&seed, 2, devices, from, sizeof from);
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n  p = %s parameter(0), sharding={%s}\n"
                       "  ROOT c = %s copy(p), sharding={replicated}\n}\n", shape, from, shape);
        struct partition_options o;
        partition_options_default(&o);
        o.all_gather = false;
        o.full = false;
        struct setup t;
        setup_partition(&t, text, devices, &o);
        assert_non_null(t.program);
        assert_int_equal(count_op(t.program, OP_ALL_GATHER), 0);
        check_values(&t, from);
        setup_free(&t);
    }
}

int main(void)
{
    fail_abort_on_invariant(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),      cmocka_unit_test(test_random),
        cmocka_unit_test(test_cache),       cmocka_unit_test(test_known_equal),
        cmocka_unit_test(test_no_all_gather),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
