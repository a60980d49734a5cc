/* Functions of the shard ordinal (S-92..S-95): values and maxima against plain loops. */
#include "partition_core.h"

#include "partition/halo.h"

static uint64_t state_of = 12345;

static int64_t random_to(int64_t n)
{
    state_of = hash_u64(state_of + 1);
    return (int64_t)(state_of % (uint64_t)n);
}

static int64_t random_in(int64_t a, int64_t b)
{
    return a + random_to(b - a + 1);
}

static void mad_is_multiply_add_divide(void **state)
{
    (void)state;
    for (int k = 0; k < 20000; k++) {
        int64_t m = random_in(-12, 12), o = random_in(-30, 30), d = random_in(1, 6);
        struct ofs f = ofs_mad(m, o, d);
        for (int64_t i = 0; i < 9; i++)
            assert_int_equal(ofs_at(&f, i), (i * m + o) / d);
        assert_true(m != 0 || ofs_is_const(&f));
    }
}

static struct ofs random_function(void)
{
    struct ofs f = ofs_mad(random_in(-9, 9), random_in(-40, 40), random_in(1, 5));
    f = ofs_sub(f, ofs_mad(random_in(-9, 9), random_in(-40, 40), random_in(1, 5)));
    return ofs_add(ofs_scale(f, random_in(-3, 3)), ofs_mad(random_in(-9, 9), random_in(-40, 40), 1));
}

static void maximum_is_the_loops(void **state)
{
    (void)state;
    for (int k = 0; k < 5000; k++) {
        struct ofs f = random_function();
        int64_t from = random_to(4), to = from + random_in(1, 300), best = ofs_at(&f, from);
        for (int64_t i = from; i < to; i++)
            best = max_i64(best, ofs_at(&f, i));
        assert_int_equal(ofs_max(&f, from, to), best);
    }
}

/* Over 2^40 shards it must answer at once; the ends and the neighbourhood of 0 bound the answer. */
static void maximum_over_many(void **state)
{
    (void)state;
    const int64_t n = (int64_t)1 << 40;
    for (int k = 0; k < 1000; k++) {
        struct ofs f = random_function();
        int64_t best = ofs_max(&f, 0, n);
        for (int64_t i = 0; i < 100; i++) {
            assert_true(best >= ofs_at(&f, i));
            assert_true(best >= ofs_at(&f, n - 1 - i));
            assert_true(best >= ofs_at(&f, random_to(n)));
        }
    }
}

static void equal_functions_cancel(void **state)
{
    (void)state;
    for (int k = 0; k < 1000; k++) {
        struct ofs f = random_function(), zero = ofs_sub(f, f);
        assert_true(ofs_is_const(&zero));
        assert_int_equal(ofs_at(&zero, 7), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mad_is_multiply_add_divide),
        cmocka_unit_test(maximum_is_the_loops),
        cmocka_unit_test(maximum_over_many),
        cmocka_unit_test(equal_functions_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
