/* Loops of windowed products, and what moves into them: S-184, S-191, S-192. What is sent and that the
 * numbers are right is one thing, that the loop does not carry what it should make the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/whole.h"

enum { PLAIN, UNROLLED, TWO_WAY, FORMS };

static struct partition_options loops(int form)
{
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    o.windowed_einsum_mib = 0;
    o.unroll = form == UNROLLED;
    o.bidirectional = form == TWO_WAY;
    return o;
}

static struct whole equal(const char *text, struct partition_options o)
{
    struct whole w = whole_of(text, &o);
    const char *why = whole_differs(&w, RUN_RING);
    if (why)
        fail_msg("%s\n%s", why, text);
    return w;
}

/* Whether an array of this shape is among what the program's loop carries. */
static bool carried(const struct whole *w, const char *shape)
{
    const struct module *m = w->p->module;
    bool found = false;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        for (int64_t leaf = 0; in->op == OP_WHILE && leaf < shape_get(m->ir, in->shape)->nleaves; leaf++) {
            struct arena a = { 0 };
            arena_open(&a);
            struct str s = STR_IN(&a);
            shape_print(m->ir, shape_leaf(m->ir, in->shape, leaf), false, &s);
            found = found || strcmp(str_text(&s), shape) == 0;
            arena_close(&a);
        }
    }
    return found;
}

static int64_t whiles(const struct whole *w)
{
    const struct module *m = w->p->module;
    int64_t n = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        n += instr_at(m, (instr_id){ k })->op == OP_WHILE;
    return n;
}

static const char shared[] =
    "HloModule users_1, num_partitions=4\n"
    "ENTRY e {\n"
    "  x = f32[64,256] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  y = f32[64,256] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    "  w = f32[256,512] parameter(2), sharding={devices=[1,4]<=[4]}\n"
    "  a = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  b = f32[64,512] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  ROOT t = (f32[64,512], f32[64,512]) tuple(a, b), sharding={{devices=[4,1]<=[4]}, "
    "{devices=[4,1]<=[4]}}\n"
    "}\n";

static const char not_shared[] =
    "HloModule users_1, num_partitions=4\n"
    "ENTRY e {\n"
    "  x = f32[64,256] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  y = f32[64,256] parameter(1), sharding={replicated}\n"
    "  w = f32[256,512] parameter(2), sharding={devices=[1,4]<=[4]}\n"
    "  a = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  b = f32[64,512] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[1,4]<=[4]}\n"
    "  ROOT t = (f32[64,512], f32[64,512]) tuple(a, b), sharding={{devices=[4,1]<=[4]}, "
    "{devices=[1,4]<=[4]}}\n"
    "}\n";

/* XLA of January 2025 sends the same: one gather for both, and a loop where the other user wants the
 * operand as it is. */
static void what_two_want_is_gathered_once(void **state)
{
    (void)state;
    struct whole w = equal(shared, loops(PLAIN));
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 1);
    assert_int_equal(w.bytes, 393216);
    assert_int_equal(whiles(&w), 0);
    whole_free(&w);
    w = equal(not_shared, loops(PLAIN));
    assert_int_equal(whole_count(&w, OP_ALL_GATHER), 0);
    assert_int_equal(whiles(&w), 1);
    whole_free(&w);
}

static const char from_little[] =
    "HloModule bro, num_partitions=4\n"
    "ENTRY e {\n"
    "  k = f32[32] parameter(0), sharding={replicated}\n"
    "  w = f32[32,16] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    "  kb = f32[64,32] broadcast(k), dimensions={1}, sharding={devices=[4,1]<=[4]}\n"
    "  i = f32[64,32] iota(), iota_dimension=0, sharding={devices=[4,1]<=[4]}\n"
    "  x = f32[64,32] add(kb, i), sharding={devices=[4,1]<=[4]}\n"
    "  ROOT a = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "}\n";

static void operands_are_made_inside(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        struct whole w = equal(from_little, loops(form));
        assert_int_equal(whiles(&w), 1);
        assert_false(carried(&w, "f32[16,32]"));
        assert_true(carried(&w, "f32[32]"));
        whole_free(&w);
    }
}

static const char reduced[] =
    "HloModule red, num_partitions=4\n"
    "add { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] add(a, b) }\n"
    "max { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] maximum(a, b) }\n"
    "ENTRY e {\n"
    "  x = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  w = f32[8,22] parameter(1), sharding={devices=[1,4]<=[4]}\n"
    "  bias = f32[22] parameter(2), sharding={replicated}\n"
    "  a = f32[16,22] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  bb = f32[16,22] broadcast(bias), dimensions={1}, sharding={devices=[4,1]<=[4]}\n"
    "  c = f32[16,22] add(a, bb), sharding={devices=[4,1]<=[4]}\n"
    "  i = f32[16,22] iota(), iota_dimension=1, sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[16,22] multiply(c, i), sharding={devices=[4,1]<=[4]}\n"
    "  zero = f32[] constant(2), sharding={replicated}\n"
    "  low = f32[] constant(5), sharding={replicated}\n"
    "  s = f32[16] reduce(d, zero), dimensions={1}, to_apply=add, sharding={devices=[4]<=[4]}\n"
    "  m = f32[22] reduce(c, low), dimensions={0}, to_apply=max, sharding={replicated}\n"
    "  ROOT t = (f32[16], f32[22]) tuple(s, m), sharding={{devices=[4]<=[4]}, {replicated}}\n"
    "}\n";

static const char dependent[] =
    "HloModule red, num_partitions=4\n"
    "add { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] add(a, b) }\n"
    "max { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] maximum(a, b) }\n"
    "ENTRY e {\n"
    "  x = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  w = f32[8,22] parameter(1), sharding={devices=[1,4]<=[4]}\n"
    "  bias = f32[22] parameter(2), sharding={replicated}\n"
    "  a = f32[16,22] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  bb = f32[16,22] broadcast(bias), dimensions={1}, sharding={devices=[4,1]<=[4]}\n"
    "  c = f32[16,22] add(a, bb), sharding={devices=[4,1]<=[4]}\n"
    "  i = f32[16,22] iota(), iota_dimension=1, sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[16,22] multiply(c, i), sharding={devices=[4,1]<=[4]}\n"
    "  zero = f32[] constant(0), sharding={replicated}\n"
    "  low = f32[] constant(5), sharding={replicated}\n"
    "  s = f32[16] reduce(d, zero), dimensions={1}, to_apply=add, sharding={devices=[4]<=[4]}\n"
    "  sb = f32[16,22] broadcast(s), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"
    "  g = f32[16,22] subtract(c, sb), sharding={devices=[4,1]<=[4]}\n"
    "  m = f32[22] reduce(g, low), dimensions={0}, to_apply=max, sharding={replicated}\n"
    "  ROOT t = (f32[16], f32[22]) tuple(s, m), sharding={{devices=[4]<=[4]}, {replicated}}\n"
    "}\n";

static const char batches[] =
    "HloModule batch, num_partitions=2\n"
    "add { a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT r = f32[] add(a, b) }\n"
    "ENTRY e {\n"
    "  p0 = f32[6] parameter(0), sharding={replicated}\n"
    "  b0 = f32[4,7,6] broadcast(p0), dimensions={2}, sharding={devices=[1,2,1]<=[2]}\n"
    "  b4 = f32[4,6] parameter(1), sharding={devices=[2,1]<=[2]}\n"
    "  d = f32[4,7] dot(b0, b4), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    "lhs_contracting_dims={2}, rhs_contracting_dims={1}, sharding={devices=[1,2]<=[2]}\n"
    "  q = f32[4] parameter(2), sharding={replicated}\n"
    "  b7 = f32[4,7] broadcast(q), dimensions={0}, sharding={devices=[1,2]<=[2]}\n"
    "  n = f32[4,7] multiply(d, b7), sharding={devices=[1,2]<=[2]}\n"
    "  z0 = f32[] constant(3), sharding={replicated}\n"
    "  r0 = f32[] reduce(n, z0), dimensions={0,1}, to_apply=add, sharding={replicated}\n"
    "  r1 = f32[4] reduce(d, z0), dimensions={1}, to_apply=add, sharding={replicated}\n"
    "  ROOT t = (f32[], f32[4]) tuple(r0, r1), sharding={{replicated}, {replicated}}\n"
    "}\n";

/* f32[16,22] over four: a shard of 4 x 22, put together of pieces of 4 x 6. A maximum of all rows from 5
 * on, a sum of weighted columns that begins at 2: the loop carries these. */
static void results_are_reduced_inside(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        struct whole w = equal(reduced, loops(form));
        assert_int_equal(whiles(&w), 1);
        assert_false(carried(&w, "f32[4,24]"));
        assert_true(carried(&w, "f32[24]"));
        assert_true(carried(&w, "f32[4]"));
        whole_free(&w);
    }
}

static void pieces_of_batches(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        struct whole w = equal(batches, loops(form));
        assert_int_equal(whiles(&w), 1);
        assert_false(carried(&w, "f32[4,4]"));
        assert_false(carried(&w, "f32[4,4,6]"));
        whole_free(&w);
    }
}

/* One reduction wants the other's result: the product is wanted twice, so it must be there. */
static void dependent_reductions_stay(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        struct whole w = equal(dependent, loops(form));
        assert_true(carried(&w, "f32[4,24]"));
        whole_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_two_want_is_gathered_once), cmocka_unit_test(operands_are_made_inside),
        cmocka_unit_test(results_are_reduced_inside),     cmocka_unit_test(pieces_of_batches),
        cmocka_unit_test(dependent_reductions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
