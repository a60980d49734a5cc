/* Orders that keep the peak low, what is computed through barriers, what matrix operations end in, residuals
 * kept or not: on small programs whose answers are worked out by hand, and orders on random ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cost_fixture.h"

/* ---- orders --------------------------------------------------------------------------------------------- */

/* A tied embedding: the logits l (4 MiB) have two users, one that the loop needs and one whose 4 KiB wait for
 * the end. Depth first runs the second after the loop, with l alive beside the 4 MiB that a turn of it makes. */
static const char tied[] =
    "HloModule m\n"
    "more { p = (s32[], f32[32,1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(4)\n"
    " ROOT c = pred[] compare(i, n), direction=LT\n}\n"
    "step { p = (s32[], f32[32,1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n v = f32[32,1024] get-tuple-element(p), index=1\n big = f32[1024,1024] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
    " u = f32[32,1024] dot(v, big), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " ROOT t = (s32[], f32[32,1024]) tuple(j, u)\n}\n"
    "ENTRY e { x = f32[32,1024] parameter(0)\n w = f32[1024,32768] parameter(1)\n zero = s32[] constant(0)\n%s"
    " l = f32[32,32768] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " back = f32[32,1024] dot(l, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    " late = f32[32,32] dot(l, l), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    " init = (s32[], f32[32,1024]) tuple(zero, back)\n loop = (s32[], f32[32,1024]) while(init), condition=more, body=step\n"
    " y = f32[32,1024] get-tuple-element(loop), index=1\n"
    " r = f32[32,1024] dot(late, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " ROOT t = (f32[32,1024], f32[]) tuple(r, last)\n}\n";

/* Beside it twelve chains that make 1 MiB, then 4 MiB of it, then a scalar: to run what makes least first makes all
 * twelve before one is gone. */
static const char *tied_and_chains(void)
{
    static char chains[8192], text[16384];
    size_t at = (size_t)snprintf(chains, sizeof chains, " q = f32[512,512] parameter(2)\n z = f32[512,2048] parameter(3)\n s = f32[] constant(0)\n");
    for (int k = 0; k < 12; k++)
        at += (size_t)snprintf(chains + at, sizeof chains - at,
                               " a%d = f32[512,512] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               " b%d = f32[512,2048] dot(a%d, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               " c%d = f32[] dot(b%d, b%d), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}\n"
                               " %s%.0d = f32[] add(%s%.0d, c%d)\n",
                               k, k, k, k, k, k, k == 11 ? "last" : "s", k == 11 ? 0 : k + 1, "s", k, k);
    snprintf(text, sizeof text, tied, chains);
    return text;
}

static void what_frees_more_than_it_makes_runs_at_once(void **state)
{
    (void)state;
    struct cost_options depth = { .schedule = SCHEDULE_DEPTH };
    struct fixture a = open_text(tied_and_chains(), &depth), b = open_text(tied_and_chains(), NULL);
    assert_true(a.plan->position[named(a.m, "late").i] > a.plan->position[named(a.m, "loop").i]);
    assert_int_equal(a.plan->greedy, 0);
    assert_true(b.plan->position[named(b.m, "late").i] < b.plan->position[named(b.m, "loop").i]);
    assert_int_equal(b.plan->greedy, 1);
    assert_true(a.memory->peak - b.memory->peak > 3 << 20);
    close_text(&a);
    close_text(&b);
}

static uint32_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* A program of n dots, sums and exponentials on squares of four sizes, each on earlier values. */
static void random_text(char *text, size_t size, int n)
{
    static const int side[4] = { 8, 16, 32, 64 };
    int of[256];
    size_t at = (size_t)snprintf(text, size, "HloModule m\nENTRY e {\n");
    for (int k = 0; k < 4; k++) {
        of[k] = k;
        at += (size_t)snprintf(text + at, size - at, " v%d = f32[%d,%d] parameter(%d)\n", k, side[k], side[k], k);
    }
    for (int k = 4; k < n; k++) {
        int a = (int)draw((uint32_t)k), b = (int)draw((uint32_t)k);
        for (int tries = 0; of[b] != of[a] && tries < 20; tries++)
            b = (int)draw((uint32_t)k);
        of[k] = of[a];
        if (of[a] != of[b])
            b = a;
        at += (size_t)snprintf(text + at, size - at, " v%d = f32[%d,%d] ", k, side[of[k]], side[of[k]]);
        if (draw(2))
            at += (size_t)snprintf(text + at, size - at, "add(v%d, v%d)\n", a, b);
        else
            at += (size_t)snprintf(text + at, size - at, "dot(v%d, v%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", a, b);
    }
    at += (size_t)snprintf(text + at, size - at, " ROOT r = (");
    for (int k = n - 4; k < n; k++)
        at += (size_t)snprintf(text + at, size - at, "%sf32[%d,%d]", k > n - 4 ? ", " : "", side[of[k]], side[of[k]]);
    snprintf(text + at, size - at, ") tuple(v%d, v%d, v%d, v%d)\n}\n", n - 4, n - 3, n - 2, n - 1);
}

static void check_order(const struct fixture *f)
{
    const struct cost_plan *p = f->plan;
    comp_id e = f->m->entry;
    for (uint32_t k = 0; k < p->norder[e.i]; k++) {
        instr_id i = p->order[e.i][k];
        assert_int_equal(p->position[i.i], k);
        for (uint32_t x = p->ext_start[i.i]; x < p->ext_start[i.i + 1]; x++)
            assert_true(p->position[p->ext[x].i] < k);
    }
}

/* Operands before users, every kernel once; and over all programs the best of three is no worse. */
static void orders_are_orders(void **state)
{
    (void)state;
    double depth = 0, best = 0;
    int other = 0;
    seed = 7;
    for (int round = 0; round < 300; round++) {
        static char text[40000];
        random_text(text, sizeof text, 12 + (int)draw(120));
        struct cost_options o = { .schedule = SCHEDULE_DEPTH };
        struct fixture a = open_text(text, &o), b = open_text(text, NULL);
        check_order(&a);
        check_order(&b);
        assert_int_equal(a.plan->norder[a.m->entry.i], b.plan->norder[b.m->entry.i]);
        depth += log((double)a.memory->peak);
        best += log((double)b.memory->peak);
        other += b.plan->greedy > 0;
        close_text(&a);
        close_text(&b);
    }
    printf("random programs: another order than depth first in %d of 300, peaks x %.3f\n", other, exp((best - depth) / 300));
    assert_true(other > 30);
    assert_true(best < depth);
}

/* ---- kernels ---------------------------------------------------------------------------------------------- */

/* A slice goes through a barrier, as rematerialised residuals do, and is read by the dot where it lies. */
static void barriers_hold_no_copies(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\nENTRY e { s = f32[8,64,64] parameter(0)\n k = s32[] parameter(1)\n x = bf16[32,64] parameter(2)\n"
        " z = s32[] constant(0)\n c = f32[1,64,64] dynamic-slice(s, k, z, z), dynamic_slice_sizes={1,64,64}\n"
        " w = f32[64,64] reshape(c)\n t = (f32[64,64], bf16[32,64]) tuple(w, x)\n b = (f32[64,64], bf16[32,64]) opt-barrier(t)\n"
        " g = f32[64,64] get-tuple-element(b), index=0\n h = bf16[32,64] get-tuple-element(b), index=1\n"
        " v = bf16[64,64] convert(g)\n ROOT d = bf16[32,64] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    struct fixture f = open_text(text, NULL);
    instr_id d = named(f.m, "d");
    assert_int_equal(f.plan->through[named(f.m, "g").i].i, named(f.m, "w").i);
    assert_true(f.plan->fused[named(f.m, "c").i]);
    assert_true(f.plan->fused[named(f.m, "w").i]);
    assert_true(f.plan->fused[named(f.m, "v").i]);
    /* reads one slice of s, x and the index; makes nothing but its result */
    assert_int_equal(f.plan->kernel[d.i].in_bytes, 64 * 64 * 4 + 32 * 64 * 2 + 4 + 4);
    assert_int_equal(f.memory->temporaries, 0);
    close_text(&f);
}

/* A gradient is turned, widened and written into the stack by the dot that makes it. */
static const char stacked[] =
    "HloModule m\nENTRY e { s = f32[8,64,32] parameter(0)\n k = s32[] parameter(1)\n x = bf16[16,32] parameter(2)\n"
    " y = bf16[16,64] parameter(3)\n z = s32[] constant(0)\n"
    " d = bf16[32,64] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n t = bf16[64,32] transpose(d), dimensions={1,0}\n"
    " c = f32[64,32] convert(t)\n r = f32[1,64,32] reshape(c)\n"
    " ROOT u = f32[8,64,32] dynamic-update-slice(s, r, k, z, z)\n}\n";

static void dots_end_in_what_writes_them(void **state)
{
    (void)state;
    struct cost_options plain = { .plain_matrix = true };
    struct fixture a = open_text(stacked, NULL), b = open_text(stacked, &plain);
    instr_id u = named(a.m, "u");
    assert_true(a.plan->fused[named(a.m, "d").i]);
    assert_int_equal(a.plan->kernel[u.i].matrix.i, named(a.m, "d").i);
    assert_true(a.plan->kernel[u.i].matrix_flops == 2.0 * 16 * 32 * 64);
    assert_int_equal(a.plan->kernel[u.i].out_bytes, 64 * 32 * 4);
    assert_false(b.plan->fused[named(b.m, "d").i]);
    close_text(&a);
    close_text(&b);
}

static void rounding_to_the_type_itself_is_nothing(void **state)
{
    (void)state;
    static const char text[] = "HloModule m\nENTRY e { x = bf16[64,64] parameter(0)\n"
                               " a = bf16[64,64] reduce-precision(x), exponent_bits=8, mantissa_bits=7\n"
                               " b = bf16[64,64] reduce-precision(x), exponent_bits=5, mantissa_bits=2\n"
                               " ROOT t = (bf16[64,64], bf16[64,64]) tuple(a, b)\n}\n";
    struct fixture f = open_text(text, NULL);
    assert_int_equal(f.plan->kernel[named(f.m, "a").i].in_bytes, 0);
    assert_int_equal(f.plan->kernel[named(f.m, "b").i].in_bytes, 64 * 64 * 2);
    close_text(&f);
}

/* argmax as compilers write it: the reducer's selection is a fusion of three operations. */
static void reducers_may_hold_fusions(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, is_scheduled=true\n"
        "pick { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = pred[] compare(a, b), direction=GT\n"
        " d = pred[] not(c)\n ROOT s = f32[] select(d, b, a)\n}\n"
        "most { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] fusion(x, y), kind=kLoop, calls=pick\n}\n"
        "ENTRY e { v = f32[4,8] parameter(0)\n z = f32[] constant(-inf)\n ROOT r = f32[4] reduce(v, z), dimensions={1}, to_apply=most\n}\n";
    struct fixture f = open_text(text, NULL);
    struct work w;
    cost_work(f.m, comp_at(f.m, f.m->entry)->root, &w);
    assert_true(w.flops == (32 - 4) * 3);
    close_text(&f);
}

/* ---- time ------------------------------------------------------------------------------------------------- */

static struct hardware *shipped(const char *name)
{
    struct source src = { .name = name };
    struct diag *d = diag_new();
    src.text = hardware_text(name, &src.len);
    assert_non_null(src.text);
    struct hardware *h = hardware_read(&src, d);
    if (!h)
        fail_msg("%s: %s", name, d->msgs.v[0].text);
    diag_free(d);
    return h;
}

static void vector_and_matrix_units_work_side_by_side(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\nENTRY e { x = bf16[4096,4096] parameter(0)\n"
        " d = bf16[4096,4096] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT t = bf16[4096,4096] tanh(d)\n}\n";
    struct hardware *h = shipped("tpu-v3");
    struct machine m;
    assert_true(machine_make(h, 1, 0, NULL, &m, NULL));
    m.calibration = (struct calibration){ 1, 1, 1, 1, 1, 0 };
    struct fixture f = open_text(text, NULL);
    struct cost *c = cost_of(f.plan, &m, OVERLAP_NONE, 1);
    double matrix = 2 * 4096.0 * 4096 * 4096 / h->bf16.value, vector = 4 * 4096.0 * 4096 / h->vector.value;
    assert_true(vector > 0.01 * matrix && matrix > vector);
    assert_true(fabs((double)c->of[named(f.m, "t").i].flops_time / matrix - 1) < 1e-5);
    cost_free(c);
    close_text(&f);
    hardware_free(h);
}

/* A running sum over 1024: blocks of 128 and once more over 8 sums, 136 operations an element. */
static void running_sums_go_by_blocks(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
        "ENTRY e { x = f32[8,1024] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[8,1024] reduce-window(x, z), window={size=1x1024 pad=0_0x1023_0}, to_apply=add\n}\n";
    struct hardware *h = shipped("tpu-v3");
    struct machine m;
    assert_true(machine_make(h, 1, 0, NULL, &m, NULL));
    m.calibration = (struct calibration){ 1, 1, 1, 1, 1, 0 };
    struct fixture f = open_text(text, NULL);
    struct cost *c = cost_of(f.plan, &m, OVERLAP_NONE, 1);
    instr_id r = named(f.m, "r");
    double counted = f.plan->kernel[r.i].flops; /* as XLA counts: a window's work for each element */
    assert_true(counted == 8.0 * 1024 * 1023);
    assert_true(fabs((double)c->of[r.i].flops_time * h->vector.value / (counted * 136 / 1024) - 1) < 1e-5);
    cost_free(c);
    close_text(&f);
    hardware_free(h);
}

/* 256 cores of TPU v3 are 128 chips, 8 rows of 16. */
static void rows_are_not_shorter_than_columns(void **state)
{
    (void)state;
    struct hardware *h = shipped("tpu-v3");
    struct machine m;
    assert_true(machine_make(h, 256, 0, NULL, &m, NULL));
    assert_int_equal(m.naxes, 3);
    assert_int_equal(m.axes[0].size, 8);
    assert_int_equal(m.axes[0].stride, 32);
    assert_int_equal(m.axes[1].size, 16);
    assert_int_equal(m.axes[1].stride, 2);
    hardware_free(h);
}

/* ---- residuals ---------------------------------------------------------------------------------------------- */

static void a_kept_value_takes_all_its_turns(void **state)
{
    (void)state;
    struct fixture f = open_text(tied_and_chains(), NULL);
    assert_int_equal(memory_kept(f.plan, named(f.m, "u")), 4 * 32 * 1024 * 4); /* four turns */
    assert_int_equal(memory_kept(f.plan, named(f.m, "late")), 32 * 32 * 4);
    close_text(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_frees_more_than_it_makes_runs_at_once),
        cmocka_unit_test(orders_are_orders),
        cmocka_unit_test(barriers_hold_no_copies),
        cmocka_unit_test(dots_end_in_what_writes_them),
        cmocka_unit_test(rounding_to_the_type_itself_is_nothing),
        cmocka_unit_test(reducers_may_hold_fusions),
        cmocka_unit_test(vector_and_matrix_units_work_side_by_side),
        cmocka_unit_test(running_sums_go_by_blocks),
        cmocka_unit_test(rows_are_not_shorter_than_columns),
        cmocka_unit_test(a_kept_value_takes_all_its_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
