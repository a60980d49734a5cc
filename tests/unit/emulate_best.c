/* partitioner=best: what it makes of random pairs of shardings is right (the ring proof) and never
 * more bytes than XLA's way. GSPMD_CASES: how many; GSPMD_SEED: from where. */
#include "tests/unit/sharding_random.h"

#include <string.h>

#include "emulate/emulate.h"
#include "text/text.h"

struct made {
    struct ir *ir;
    struct diag *d;
    struct module *m;
    struct propagation *p;
    struct program *best, *xla;
    struct arena a;
};

static struct program *program_of(struct made *t, bool best, bool full)
{
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = t->m->num_partitions;
    o.full = full;
    o.best = best;
    o.no_rule = NO_RULE_XLA;
    return partition(t->p, &o, NULL, t->d);
}

static void build(struct made *t, const char *text, bool full)
{
    memset(t, 0, sizeof *t);
    t->ir = ir_new();
    t->d = diag_new();
    t->m = module_load_text(t->ir, "random", text, strlen(text), NULL, t->d);
    struct graph *g = t->m ? graph_prepare(t->m, false, NULL, t->d) : NULL;
    struct propagation_options po = { .spmd = true, .none = true };
    t->p = g ? propagate(g, &po, NULL, t->d) : NULL;
    t->best = t->p ? program_of(t, true, full) : NULL;
    t->xla = t->best ? program_of(t, false, full) : NULL;
    if (!t->xla) {
        (void)fputs(text, stderr);
        fail_msg("%s", t->d->msgs.n ? t->d->msgs.v[0].text : "not made");
    }
}

static void drop(struct made *t)
{
    program_free(t->best);
    program_free(t->xla);
    propagation_free(t->p);
    module_free(t->m);
    diag_free(t->d);
    arena_free(&t->a);
    ir_free(t->ir);
}

static int64_t bytes_of(struct made *t, const struct program *p)
{
    struct collective *list;
    int64_t total;
    (void)collectives_list(p->module, p->num_partitions, 1, &t->a, &list, &total);
    return total;
}

static void prove(struct made *t, const char *text)
{
    struct verify_result r;
    memset(&r, 0, sizeof r);
    if (!verify_program(t->p, t->best, RUN_RING, 1, 1, &r, NULL, t->d)) {
        (void)fputs(text, stderr);
        fail_msg("%s", t->d->msgs.n ? t->d->msgs.v[0].text : "not run");
    }
    if (!r.equal || r.poisoned) {
        (void)fputs(text, stderr);
        fail_msg("differs%s", r.poisoned ? " (padding was read)" : "");
    }
    verify_result_free(&r);
}

/* {devices=[2,1,3,2]<=[2,3,2]T(1,0,2) last_tile_dim_replicate}: mesh axes of a random order on
 * random dimensions. */
static void put_sharding(struct str *out, int64_t n, int rank)
{
    int64_t mesh[3], tiles[8];
    int axis[3], perm[3], k = 0;
    factors(n, 3, mesh);
    shuffle(3, axis);
    for (int d = 0; d <= rank; d++)
        tiles[d] = 1;
    int at[3];
    for (int i = 0; i < 3; i++)
        at[i] = below(rank + 1);
    for (int d = 0; d <= rank; d++)
        for (int i = 0; i < 3; i++)
            if (at[axis[i]] == d) {
                perm[k++] = axis[i];
                tiles[d] *= mesh[axis[i]];
            }
    if (tiles[rank] == n) {
        str_addf(out, "{replicated}");
        return;
    }
    str_addf(out, "{devices=[");
    for (int d = 0; d <= rank; d++)
        if (d < rank || tiles[d] > 1)
            str_addf(out, "%s%" PRId64, d ? "," : "", tiles[d]);
    str_addf(out, "]<=[%" PRId64 ",%" PRId64 ",%" PRId64 "]T(%d,%d,%d)%s}", mesh[0], mesh[1], mesh[2],
             perm[0], perm[1], perm[2], tiles[rank] > 1 ? " last_tile_dim_replicate" : "");
}

static const int64_t counts[] = { 2, 3, 4, 4, 6, 8, 8, 8, 12, 16 };

struct tally {
    int64_t cases, less, sum, sum_xla;
};

/* Proves the program and holds it against XLA's. */
static void judge(const char *text, struct tally *k)
{
    struct made t;
    build(&t, text, chance(50));
    prove(&t, text);
    int64_t b = bytes_of(&t, t.best), x = bytes_of(&t, t.xla);
    if (b > x) {
        (void)fputs(text, stderr);
        fail_msg("%" PRId64 " bytes, XLA %" PRId64, b, x);
    }
    assert_int_equal(t.best->xla_bytes, x);
    assert_int_equal(t.best->best_bytes, b);
    k->less += b < x;
    k->sum += b;
    k->sum_xla += x;
    drop(&t);
}

static void tell(const struct tally *k)
{
    print_message("%" PRId64 " cases: less than XLA in %" PRId64 ", %" PRId64 " bytes for %" PRId64 "\n",
                  k->cases, k->less, k->sum, k->sum_xla);
}

static int64_t random_size(bool even, int64_t n)
{
    static const int64_t odd[] = { 1, 2, 3, 5, 7, 9 };
    return even ? n * (1 + below(2)) : odd[below(COUNTOF(odd))] * (1 + below(2));
}

static void put_dims(struct str *out, int rank, const int64_t *dims)
{
    for (int d = 0; d < rank; d++)
        str_addf(out, "%s%" PRId64, d ? "," : "", dims[d]);
}

static void random_pairs(void **state)
{
    (void)state;
    struct tally k = { .cases = start_random(1200) };
    for (int64_t i = 0; i < k.cases; i++) {
        struct arena a = { 0 };
        struct str text = STR_IN(&a), dims = STR_IN(&a), from = STR_IN(&a), to = STR_IN(&a);
        int64_t n = counts[below(COUNTOF(counts))], size[4];
        int rank = 1 + below(4);
        bool even = chance(50);
        for (int d = 0; d < rank; d++)
            size[d] = random_size(even, n);
        put_dims(&dims, rank, size);
        put_sharding(&from, n, rank);
        put_sharding(&to, n, rank);
        static const char *const types[] = { "f32", "bf16", "s8", "f64" };
        const char *type = types[below(COUNTOF(types))];
        str_addf(&text, "HloModule m, num_partitions=%" PRId64 "\n\nENTRY e {\n"
                 "  x = %s[%s] parameter(0), sharding=%s\n"
                 "  ROOT y = %s[%s] copy(x), sharding=%s\n}\n",
                 n, type, str_text(&dims), str_text(&from), type, str_text(&dims), str_text(&to));
        judge(str_text(&text), &k);
        arena_free(&a);
    }
    tell(&k);
    assert_true(k.less * 10 > k.cases);
}

/* Products with a batch, free and contracting dimensions in any order of the operands. */
static void random_products(void **state)
{
    (void)state;
    struct tally k = { .cases = start_random(1000) };
    for (int64_t i = 0; i < k.cases; i++) {
        struct arena a = { 0 };
        struct str text = STR_IN(&a);
        int64_t n = counts[below(COUNTOF(counts))];
        bool even = chance(60), batch = chance(40);
        int64_t b = random_size(even, n), m = random_size(even, n), q = random_size(even, n),
                c = random_size(even, n);
        int64_t l[3] = { b, m, c }, r[3] = { b, c, q }, o[3] = { b, m, q };
        int skip = !batch, rank = 3 - skip;
        bool turn = chance(30);
        if (turn) {
            r[1] = q;
            r[2] = c;
        }
        struct str part[6];
        for (int j = 0; j < 6; j++)
            {
            struct str s = STR_IN(&a);
            part[j] = s;
        }
        put_dims(&part[0], rank, l + skip);
        put_dims(&part[1], rank, r + skip);
        put_dims(&part[2], rank, o + skip);
        for (int j = 3; j < 6; j++)
            put_sharding(&part[j], n, rank);
        str_addf(&text, "HloModule m, num_partitions=%" PRId64 "\n\nENTRY e {\n"
                 "  x = f32[%s] parameter(0), sharding=%s\n"
                 "  w = f32[%s] parameter(1), sharding=%s\n"
                 "  ROOT y = f32[%s] dot(x, w), %slhs_contracting_dims={%d}, "
                 "rhs_contracting_dims={%d}, sharding=%s\n}\n",
                 n, str_text(&part[0]), str_text(&part[3]), str_text(&part[1]), str_text(&part[4]),
                 str_text(&part[2]), batch ? "lhs_batch_dims={0}, rhs_batch_dims={0}, " : "", rank - 1,
                 turn ? rank - 1 : rank - 2, str_text(&part[5]));
        judge(str_text(&text), &k);
        arena_free(&a);
    }
    tell(&k);
    assert_true(k.less * 10 > k.cases);
}

/* Contiguous slices of split dimensions, rows that do not depend on each other. */
static void random_slices(void **state)
{
    (void)state;
    struct tally k = { .cases = start_random(500) };
    for (int64_t i = 0; i < k.cases; i++) {
        struct arena a = { 0 };
        struct str text = STR_IN(&a), sh = STR_IN(&a);
        int64_t n = counts[below(COUNTOF(counts))], x = 2 + below(40), y = 1 + below(12);
        int64_t from = below((int)x), to = from + 1 + below((int)(x - from));
        put_sharding(&sh, n, 2);
        str_addf(&text, "HloModule m, num_partitions=%" PRId64 "\n\nENTRY e {\n"
                 "  x = f32[%" PRId64 ",%" PRId64 "] parameter(0), sharding=%s\n"
                 "  ROOT y = f32[%" PRId64 ",%" PRId64 "] slice(x), slice={[%" PRId64 ":%" PRId64 "], [0:%" PRId64 "]}, sharding=%s\n}\n",
                 n, x, y, str_text(&sh), to - from, y, from, to, y, str_text(&sh));
        judge(str_text(&text), &k);
        arena_free(&a);
    }
    tell(&k);
}

/* XLA makes the whole array once, for two users; a cheaper plan for one of them alone would make the
 * program dearer. */
static void shared_whole_value(void **state)
{
    (void)state;
    struct tally k = { 0 };
    judge("HloModule m, num_partitions=8\n\nENTRY e {\n"
          "  x = f32[16,16,16] parameter(0), sharding={devices=[2,1,4]<=[8]}\n"
          "  y = f32[16,16,16] copy(x), sharding={devices=[1,8,1]<=[8]}\n"
          "  z = f32[16,16,16] negate(x), sharding={replicated}\n"
          "  ROOT t = (f32[16,16,16], f32[16,16,16]) tuple(y, z), sharding={{devices=[1,8,1]<=[8]}, "
          "{replicated}}\n}\n", &k);
    assert_int_equal(k.sum_xla, 14336);
    assert_int_equal(k.sum, 14336);
}

/* Two plans that are each cheaper than the whole array: what was made of it as a trial for the first
 * is no gift to the second. */
static void two_plans_for_one_value(void **state)
{
    (void)state;
    struct tally k = { 0 };
    judge("HloModule m, num_partitions=8\n\nENTRY e {\n"
          "  x = f32[16,16,16] parameter(0), sharding={devices=[2,1,4]<=[8]}\n"
          "  y = f32[16,16,16] copy(x), sharding={devices=[1,8,1]<=[8]}\n"
          "  z = f32[16,16,16] copy(x), sharding={devices=[1,8,1]<=[2,4]T(1,0)}\n"
          "  ROOT t = (f32[16,16,16], f32[16,16,16]) tuple(y, z), sharding={{devices=[1,8,1]<=[8]}, "
          "{devices=[1,8,1]<=[2,4]T(1,0)}}\n}\n", &k);
    assert_int_equal(k.sum_xla, 14336);
    assert_int_equal(k.sum, 2 * 1792);
}

/* A whole value for two in the same program keeps nothing else from being better. */
static void one_loss_one_gain(void **state)
{
    (void)state;
    struct tally k = { 0 };
    judge("HloModule m, num_partitions=8\n\nENTRY e {\n"
          "  x = f32[16,16,16] parameter(0), sharding={devices=[2,1,4]<=[8]}\n"
          "  y = f32[16,16,16] copy(x), sharding={devices=[1,8,1]<=[8]}\n"
          "  z = f32[16,16,16] negate(x), sharding={replicated}\n"
          "  a = f32[16,16,16] parameter(1), sharding={devices=[2,1,4]<=[8]}\n"
          "  b = f32[16,16,16] copy(a), sharding={devices=[1,8,1]<=[8]}\n"
          "  ROOT t = (f32[16,16,16], f32[16,16,16], f32[16,16,16]) tuple(y, z, b), "
          "sharding={{devices=[1,8,1]<=[8]}, {replicated}, {devices=[1,8,1]<=[8]}}\n}\n", &k);
    assert_int_equal(k.sum_xla, 2 * 14336);
    assert_int_equal(k.sum, 14336 + 1792);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(shared_whole_value),
                                        cmocka_unit_test(two_plans_for_one_value),
                                        cmocka_unit_test(one_loss_one_gain),
                                        cmocka_unit_test(random_pairs),
                                        cmocka_unit_test(random_products),
                                        cmocka_unit_test(random_slices) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
