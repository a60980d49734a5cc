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

/* ---- twice the size, about twice the work ------------------------------------------------------------- */

struct work {
    int64_t visits, asked, bytes, sweeps, explicit;
};

static struct work work_of(const char *text, const char *words)
{
    struct bed b;
    bed_load(&b, text);
    bed_run(&b, words);
    assert_non_null(b.result);
    struct work w = { b.result->visits, b.result->asked, b.result->arena.bytes, b.result->iterations, shardings_explicit_count(b.ir->shardings) };
    bed_free(&b);
    return w;
}

typedef void maker(struct text *t, int n, int devices);

/* From n to 4 n the counters grow by no more than a logarithm beyond that. */
static void grows_linearly(const char *what, maker *make, int n, const char *words)
{
    struct work w[2];
    for (int k = 0; k < 2; k++) {
        struct text t = { 0 };
        make(&t, k ? 4 * n : n, 8);
        w[k] = work_of(t.s, words);
        free(t.s);
    }
    print_message("%s, %d and %d: visits %lld, %lld; asked %lld, %lld; sweeps %lld, %lld\n", what, n, 4 * n, (long long)w[0].visits,
                  (long long)w[1].visits, (long long)w[0].asked, (long long)w[1].asked, (long long)w[0].sweeps, (long long)w[1].sweeps);
    assert_true(w[1].visits <= 5 * w[0].visits);
    assert_true(w[1].asked <= 5 * w[0].asked);
    assert_true(w[1].bytes <= 6 * w[0].bytes);
}

static void same_for_devices(maker *make, int n, const char *words)
{
    struct work w[2];
    for (int k = 0; k < 2; k++) {
        struct text t = { 0 };
        make(&t, n, k ? 1 << 20 : 8);
        w[k] = work_of(t.s, words);
        free(t.s);
    }
    assert_memory_equal(&w[0], &w[1], sizeof w[0]);
    assert_int_equal(w[0].explicit, 0);
}

static void rows(struct text *t, int devices)
{
    add(t, "sharding={devices=[%d,2]<=[%d]}", devices / 2, devices);
}

static void make_chain(struct text *t, int n, int devices)
{
    add(t, "HloModule m\nENTRY e {\n x0 = f32[2097152,64] parameter(0), ");
    rows(t, devices);
    for (int k = 0; k < n; k++)
        add(t, k % 3 ? "\n x%d = f32[2097152,64] negate(x%d)" : "\n x%d = f32[2097152,64] add(x%d, x0)", k + 1, k);
    add(t, "\n ROOT r = f32[2097152,64] tanh(x%d)\n}\n", n);
}

/* Against the order of instructions: the annotation stands at the end. */
static void make_chain_back(struct text *t, int n, int devices)
{
    add(t, "HloModule m\nENTRY e {\n x0 = f32[2097152,64] parameter(0)");
    for (int k = 0; k < n; k++)
        add(t, "\n x%d = f32[2097152,64] negate(x%d)", k + 1, k);
    add(t, "\n ROOT r = f32[2097152,64] tanh(x%d), ", n);
    rows(t, devices);
    add(t, "\n}\n");
}

static void make_fan(struct text *t, int n, int devices)
{
    add(t, "HloModule m\nENTRY e {\n x0 = f32[2097152,64] parameter(0)\n y0 = f32[2097152,64] copy(x0)\n");
    for (int k = 0; k < n; k++) {
        add(t, " u%d = f32[2097152,64] negate(y0)", k);
        if (k == n / 2) {
            add(t, ", ");
            rows(t, devices);
        }
        add(t, "\n");
    }
    add(t, " ROOT r = (");
    for (int k = 0; k < n; k++)
        add(t, "%sf32[2097152,64]", k ? "," : "");
    add(t, ") tuple(");
    for (int k = 0; k < n; k++)
        add(t, "%su%d", k ? "," : "", k);
    add(t, ")\n}\n");
}

/* Loops in loops; the innermost body has the annotation. */
static void make_nest(struct text *t, int n, int devices)
{
    add(t, "HloModule m\n");
    for (int k = 0; k < n; k++) {
        add(t, "c%d {\n p = (f32[2097152,64]) parameter(0)\n ROOT r = pred[] constant(true)\n}\n", k);
        add(t, "b%d {\n p = (f32[2097152,64]) parameter(0)\n", k);
        if (k == 0) {
            add(t, " g = f32[2097152,64] get-tuple-element(p), index=0\n s = f32[2097152,64] negate(g), ");
            rows(t, devices);
            add(t, "\n ROOT r = (f32[2097152,64]) tuple(s)\n}\n");
        } else {
            add(t, " g = f32[2097152,64] get-tuple-element(p), index=0\n t = (f32[2097152,64]) tuple(g)\n ROOT w = (f32[2097152,64]) while(t), condition=c%d, body=b%d\n}\n",
                k - 1, k - 1);
        }
    }
    add(t, "ENTRY e {\n x = f32[2097152,64] parameter(0)\n t = (f32[2097152,64]) tuple(x)\n ROOT w = (f32[2097152,64]) while(t), condition=c%d, body=b%d\n}\n",
        n - 1, n - 1);
}

/* A loop that carries n arrays, each annotated outside. */
static void make_carried(struct text *t, int n, int devices)
{
    add(t, "HloModule m\ncond {\n cp = ");
    tuple_shape(t, n);
    add(t, " parameter(0)\n ROOT cc = pred[] constant(true)\n}\nbody {\n bp = ");
    tuple_shape(t, n);
    add(t, " parameter(0)\n");
    for (int k = 0; k < n; k++)
        add(t, " g%d = f32[8,8] get-tuple-element(bp), index=%d\n n%d = f32[8,8] negate(g%d)\n", k, k, k, k);
    add(t, " ROOT br = ");
    tuple_shape(t, n);
    add(t, " tuple(");
    for (int k = 0; k < n; k++)
        add(t, "%sn%d", k ? "," : "", k);
    add(t, ")\n}\nENTRY e {\n");
    for (int k = 0; k < n; k++)
        add(t, " p%d = f32[8,8] parameter(%d), sharding={devices=[1,1,%d]<=[%d] last_tile_dim_replicate}\n", k, k, devices, devices);
    for (int k = 0; k < n; k++)
        add(t, " a%d = f32[8,8] negate(p%d)%s%d]<=[%d] last_tile_dim_replicate}\n", k, k, k % 2 ? ", sharding={devices=[2,2," : ", sharding={devices=[4,1,", devices / 4, devices);
    add(t, " it = ");
    tuple_shape(t, n);
    add(t, " tuple(");
    for (int k = 0; k < n; k++)
        add(t, "%sa%d", k ? "," : "", k);
    add(t, ")\n ROOT w = ");
    tuple_shape(t, n);
    add(t, " while(it), condition=cond, body=body\n}\n");
}

static void make_dots(struct text *t, int n, int devices)
{
    add(t, "HloModule m\nENTRY e {\n x0 = f32[2097152,64] parameter(0), sharding={devices=[%d,1]<=[%d]}\n w = f32[64,64] parameter(1), sharding={devices=[1,2,%d]<=[%d] last_tile_dim_replicate}\n",
        devices, devices, devices / 2, devices);
    for (int k = 0; k < n; k++)
        add(t, " x%d = f32[2097152,64] dot(x%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", k + 1, k);
    add(t, " ROOT r = f32[2097152,64] dot(x%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[%d,1]<=[%d]}\n}\n", n, devices,
        devices);
}

static void make_group(struct text *t, int n, int devices)
{
    add(t, "HloModule m\nENTRY e {\n p = f32[2097152,64] parameter(0)\n q = f32[2097152,64] parameter(1)\n");
    for (int k = 0; k < n; k++)
        add(t, " x%d = f32[2097152,64] negate(%s)%s\n y%d = f32[2097152,64] custom-call(x%d), custom_call_target=\"Sharding\", sharding={unknown shard_like 0}\n", k,
            k % 2 ? "p" : "q", "", k, k);
    add(t, " z = f32[2097152,64] copy(y%d), ", n / 2);
    rows(t, devices);
    add(t, "\n ROOT r = (f32[2097152,64], f32[2097152,64]) tuple(z, y0)\n}\n");
}

static void test_growth(void **state)
{
    (void)state;
    grows_linearly("a chain", make_chain, 5000, "out=1");
    grows_linearly("a chain from its end", make_chain_back, 5000, "par=1");
    grows_linearly("one value, many users", make_fan, 2500, "out=1");
    grows_linearly("loops in loops", make_nest, 25, "out=1 par=1");
    grows_linearly("a loop with many leaves", make_carried, 2500, "out=1 par=1");
    grows_linearly("a row of dots", make_dots, 2500, "out=1");
    grows_linearly("a shard group", make_group, 250, "out=1");
}

static void test_devices_for_all(void **state)
{
    (void)state;
    same_for_devices(make_chain, 100, "out=1");
    same_for_devices(make_chain_back, 100, "par=1");
    same_for_devices(make_fan, 100, "out=1");
    same_for_devices(make_nest, 10, "out=1 par=1");
    same_for_devices(make_carried, 100, "out=1 par=1");
    same_for_devices(make_dots, 100, "out=1");
    same_for_devices(make_group, 50, "out=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_loop),
        cmocka_unit_test(test_look_ahead_is_remembered),
        cmocka_unit_test(test_devices_cost_nothing),
        cmocka_unit_test(test_visits),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_devices_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
