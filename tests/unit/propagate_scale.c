/* Counters, not times: visits, sweeps and bytes for large modules and large meshes. */
#include "propagate/internal.h"
#include "propagate_support.h"

struct text {
    char *s;
    size_t n, cap;
};

static void add(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    if (t->cap - t->n < 4096) {
        t->cap = t->cap * 2 + 65536;
        t->s = realloc(t->s, t->cap);
        assert_non_null(t->s);
    }
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->s + t->n, t->cap - t->n, fmt, ap);
    va_end(ap);
}

static void tuple_shape(struct text *t, int n)
{
    add(t, "(");
    for (int k = 0; k < n; k++)
        add(t, "%sf32[8,8]", k ? "," : "");
    add(t, ")");
}

/* A loop that carries n arrays and turns them by one: a split needs n turns to reach all of them. */
static void make_loop(struct text *t, int n)
{
    add(t, "HloModule m\ncond {\n cp = ");
    tuple_shape(t, n);
    add(t, " parameter(0)\n ROOT cc = pred[] constant(true)\n}\nbody {\n bp = ");
    tuple_shape(t, n);
    add(t, " parameter(0)\n");
    for (int k = 0; k < n; k++)
        add(t, " bg%d = f32[8,8] get-tuple-element(bp), index=%d\n bn%d = f32[8,8] negate(bg%d)\n", k, k, k, k);
    add(t, " ROOT br = ");
    tuple_shape(t, n);
    add(t, " tuple(");
    for (int k = 0; k < n; k++)
        add(t, "%sbn%d", k ? ", " : "", (k + 1) % n);
    add(t, ")\n}\nENTRY e {\n");
    for (int k = 0; k < n; k++)
        add(t, " p%d = f32[8,8] parameter(%d)%s\n", k, k, k == 0 ? ", sharding={devices=[4,2]<=[8]}" : "");
    add(t, " it = ");
    tuple_shape(t, n);
    add(t, " tuple(");
    for (int k = 0; k < n; k++)
        add(t, "%sp%d", k ? ", " : "", k);
    add(t, ")\n ROOT w = ");
    tuple_shape(t, n);
    add(t, " while(it), condition=cond, body=body\n}\n");
}

static void test_wide_loop(void **state)
{
    (void)state;
    struct text t = { 0 };
    struct bed b;
    make_loop(&t, 400);
    bed_load(&b, t.s);
    bed_run(&b, "out=1");
    assert_non_null(b.result);
    const struct sharding *s = sharding_get(b.ir->shardings, b.result->final[bed_working(&b, "w", 1).i]);
    assert_int_equal(s->nelems, 400);
    for (int k = 1; k < 400; k++)
        assert_int_equal(s->elems[k].i, s->elems[0].i);
    /* 400 turns, and each sweep visits the 4 x 400 neighbours of the loop's tuples: no leaves^2 in a
     * sweep. */
    assert_true(b.result->iterations < 420);
    assert_true(b.result->visits < 420 * 8 * 400);
    bed_free(&b);
    free(t.s);
}

/* n products in a row, each in conflict: the look-ahead walks their chain once, not n times. */
static void test_look_ahead_is_remembered(void **state)
{
    (void)state;
    struct text t = { 0 };
    struct bed b;
    enum { N = 2000 };
    add(&t, "HloModule m\nENTRY e {\n x0 = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}\n");
    for (int k = 0; k < N; k++)
        add(&t, " w%d = f32[64,64] parameter(%d), sharding={devices=[1,8]<=[8]}\n", k, k + 1);
    for (int k = 0; k < N; k++)
        add(&t, " x%d = f32[64,64] dot(x%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", k + 1, k, k);
    add(&t, " ROOT r = f32[64,64] dot(x%d, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[8,1]<=[8]}\n}\n", N);
    bed_load(&b, t.s);
    bed_run(&b, "");
    assert_non_null(b.result);
    assert_int_equal(bed_check(&b, "dots", "x1 {devices=[8,1]<=[8]}; x1000 {devices=[8,1]<=[8]}; x2000 {devices=[8,1]<=[8]}"), 0);
    assert_true(b.result->state->looks > 0);
    assert_true(b.result->state->looks <= 2 * N);
    bed_free(&b);
    free(t.s);
}

static int64_t layers(int64_t data, int64_t model, int n, int64_t *visits)
{
    struct text t = { 0 };
    struct bed b;
    int64_t size = data * model * 64;
    add(&t, "HloModule m\nENTRY e {\n x0 = f32[%" PRId64 ",%" PRId64 "] parameter(0), sharding={devices=[%" PRId64 ",1,%" PRId64 "]<=[%" PRId64 "] last_tile_dim_replicate}\n",
        size, size, data, model, data * model);
    for (int k = 0; k < n; k++) {
        add(&t, " w%d = f32[%" PRId64 ",%" PRId64 "] parameter(%d), sharding={devices=[1,%" PRId64 ",%" PRId64 "]<=[%" PRId64 ",%" PRId64 "]T(1,0) last_tile_dim_replicate}\n",
            k, size, size, k + 1, model, data, data, model);
        add(&t, " d%d = f32[%" PRId64 ",%" PRId64 "] dot(x%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", k, size, size, k, k);
        add(&t, " x%d = f32[%" PRId64 ",%" PRId64 "] transpose(d%d), dimensions={1,0}\n", k + 1, size, size, k);
    }
    add(&t, " ROOT o = f32[%" PRId64 ",%" PRId64 "] tanh(x%d)\n}\n", size, size, n);
    bed_load(&b, t.s);
    bed_run(&b, "out=1");
    assert_non_null(b.result);
    *visits = b.result->visits;
    int64_t bytes = b.result->arena.bytes;
    assert_int_equal(shardings_explicit_count(b.ir->shardings), 0);
    bed_free(&b);
    free(t.s);
    return bytes;
}

/* 8 devices and a million cost the same. */
static void test_devices_cost_nothing(void **state)
{
    (void)state;
    int64_t small, large;
    int64_t a = layers(2, 4, 50, &small), b = layers(1024, 1024, 50, &large);
    assert_int_equal(small, large);
    assert_int_equal(a, b);
}

/* About ten visits an instruction: two directions at five fixed points. */
static void test_visits(void **state)
{
    (void)state;
    int64_t visits;
    (void)layers(2, 4, 1000, &visits);
    assert_true(visits < 12 * 3002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_loop),
        cmocka_unit_test(test_look_ahead_is_remembered),
        cmocka_unit_test(test_devices_cost_nothing),
        cmocka_unit_test(test_visits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
