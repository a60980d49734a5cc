/* verify: equal programs pass, broken ones do not, and the first wrong instruction is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/emulate_run.h"

struct whole {
    struct ir *ir;
    struct module *m;
    struct diag *d;
    struct propagation *pr;
    struct program *p;
};

static struct whole prepare(const char *text)
{
    struct whole w = { .ir = ir_new(), .d = diag_new() };
    w.m = module_load_text(w.ir, "test.hlo", text, strlen(text), NULL, w.d);
    struct graph *g = w.m ? graph_prepare(w.m, true, NULL, w.d) : NULL;
    struct propagation_options po = { .spmd = true,
                                      .nto_output = w.m ? w.m->nto_output : 0,
                                      .to_output = w.m ? w.m->to_output : NULL };
    w.pr = g ? propagate(g, &po, NULL, w.d) : NULL;
    struct partition_options pt;
    partition_options_default(&pt);
    pt.num_partitions = w.m ? w.m->num_partitions : 1;
    w.p = w.pr ? partition(w.pr, &pt, NULL, w.d) : NULL;
    if (!w.p)
        fail_msg("%s", first_error(w.d));
    return w;
}

static void whole_free(struct whole *w)
{
    program_free(w->p);
    propagation_free(w->pr);
    module_free(w->m);
    diag_free(w->d);
    ir_free(w->ir);
}

static struct verify_result verified(struct whole *w, enum run_mode mode)
{
    struct verify_result r;
    if (!verify_program(w->pr, w->p, mode, 1, 2, &r, NULL, w->d))
        fail_msg("%s", first_error(w->d));
    return r;
}

/* Contracting dimension split unevenly (7 over 4): partial sums, masks, one all-reduce. */
static const char mlp[] =
    "HloModule m, num_partitions=4\n"
    "ENTRY e {\n"
    "  x = f32[6,7] parameter(0), sharding={devices=[1,4]<=[4]}\n"
    "  w = f32[7,5] parameter(1), sharding={devices=[4,1]<=[4]}\n"
    "  h = f32[6,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  t = f32[6,5] tanh(h)\n"
    "  ROOT y = f32[6,5] add(t, h), sharding={replicated}\n"
    "}\n";

static void equal_in_both_modes(void **state)
{
    (void)state;
    struct whole w = prepare(mlp);
    struct verify_result r = verified(&w, RUN_RING);
    assert_true(r.equal);
    assert_false(r.poisoned);
    assert_int_equal(r.mode, RUN_RING);
    assert_int_equal(r.devices, 4);
    assert_int_equal(r.noutputs, 1);
    verify_result_free(&r);
    r = verified(&w, RUN_FLOAT);
    assert_true(r.equal);
    assert_int_equal(r.mode, RUN_FLOAT);
    assert_true(r.outputs[0].max_error <= r.outputs[0].bound);
    verify_result_free(&r);
    whole_free(&w);
}

static instr_id find_op(const struct module *m, enum op_kind op)
{
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (instr_at(m, (instr_id){ k })->op == op)
            return (instr_id){ k };
    return (instr_id){ 0 };
}

/* The sum over devices is left out: each keeps its own part. */
static void a_missing_sum_is_found(void **state)
{
    (void)state;
    struct whole w = prepare(mlp);
    instr_id sum = find_op(w.p->module, OP_ALL_REDUCE);
    assert_true(sum.i != 0);
    instr_at(w.p->module, sum)->op = OP_COPY;
    struct verify_result r = verified(&w, RUN_RING);
    assert_false(r.equal);
    assert_int_equal(r.outputs[0].differ, 30);
    assert_string_equal(name_text(w.ir, instr_at(w.pr->graph->module, r.first)->name), "h");
    assert_int_equal(r.rank, 2);
    assert_non_null(r.expected);
    assert_non_null(r.got);
    verify_result_free(&r);
    r = verified(&w, RUN_FLOAT);
    assert_false(r.equal);
    verify_result_free(&r);
    whole_free(&w);
}

/* Without its mask the sum reads padding: the shadow bits say so whatever the padding holds. */
static void a_missing_mask_is_found(void **state)
{
    (void)state;
    struct whole w = prepare(mlp);
    struct module *m = w.p->module;
    bool masked = false;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        struct instr *i = instr_at(m, (instr_id){ k });
        if (i->op != OP_SELECT)
            continue;
        instr_id *ops = arena_copy(&m->arena, i->operands, 3, sizeof *ops);
        ops[2] = ops[1];
        i->operands = ops;
        masked = true;
    }
    assert_true(masked);
    struct verify_result r = verified(&w, RUN_RING);
    assert_false(r.equal);
    assert_true(r.poisoned);
    verify_result_free(&r);
    whole_free(&w);
}

/* Another seed, other values, the same verdict. */
static void seeds_and_threads_agree(void **state)
{
    (void)state;
    struct whole w = prepare(mlp);
    for (uint64_t seed = 0; seed < 4; seed++)
        for (int threads = 1; threads < 4; threads++) {
            struct verify_result r;
            assert_true(verify_program(w.pr, w.p, RUN_RING, seed, threads, &r, NULL, w.d));
            assert_true(r.equal);
            verify_result_free(&r);
        }
    whole_free(&w);
}

/* x <- x / 2 until x < 1: over the ring that is no countdown. */
static void a_loop_that_ends_on_floats_takes_mode_float(void **state)
{
    (void)state;
    struct whole w = prepare(
        "HloModule m, num_partitions=2\n"
        "body { t = (f32[], f32[4]) parameter(0)\n x = f32[] get-tuple-element(t), index=0\n"
        " v = f32[4] get-tuple-element(t), index=1\n h = f32[] constant(0.5)\n y = f32[] "
        "multiply(x, h)\n"
        " u = f32[4] add(v, v)\n ROOT r = (f32[], f32[4]) tuple(y, u) }\n"
        "cond { t = (f32[], f32[4]) parameter(0)\n x = f32[] get-tuple-element(t), index=0\n"
        " one = f32[] constant(1)\n ROOT p = pred[] compare(x, one), direction=GT }\n"
        "ENTRY e {\n v = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n x = f32[] constant(0)\n"
        " s = f32[] constant(100)\n t = (f32[], f32[4]) tuple(s, v)\n"
        " w = (f32[], f32[4]) while(t), condition=cond, body=body\n"
        " ROOT r = f32[4] get-tuple-element(w), index=1, sharding={devices=[2]<=[2]}\n}\n");
    struct verify_result r;
    /* Whether the ring's loop ends is a matter of its mixing: both answers are right, hanging is
     * not. */
    assert_true(verify_program(w.pr, w.p, RUN_RING, 1, 1, &r, NULL, w.d));
    assert_true(r.equal);
    if (r.mode == RUN_FLOAT)
        assert_non_null(strstr(r.mode_reason, "comparison of floats"));
    verify_result_free(&r);
    whole_free(&w);
}

/* No element of the ring lies above its largest, which stands for infinity: this loop ends in
 * floats only (at overflow) and never there. */
static void an_endless_ring_loop_is_told(void **state)
{
    (void)state;
    struct whole w = prepare(
        "HloModule m, num_partitions=2\n"
        "body { t = (f32[], f32[4]) parameter(0)\n x = f32[] get-tuple-element(t), index=0\n"
        " v = f32[4] get-tuple-element(t), index=1\n h = f32[] constant(3)\n y = f32[] multiply(x, "
        "h)\n"
        " u = f32[4] add(v, v)\n ROOT r = (f32[], f32[4]) tuple(y, u) }\n"
        "cond { t = (f32[], f32[4]) parameter(0)\n x = f32[] get-tuple-element(t), index=0\n"
        " top = f32[] constant(inf)\n ROOT p = pred[] compare(x, top), direction=LT }\n"
        "ENTRY e {\n v = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n s = f32[] constant(1)\n"
        " t = (f32[], f32[4]) tuple(s, v)\n w = (f32[], f32[4]) while(t), condition=cond, "
        "body=body\n"
        " ROOT r = f32[4] get-tuple-element(w), index=1, sharding={devices=[2]<=[2]}\n}\n");
    struct verify_result r = verified(&w, RUN_RING);
    assert_int_equal(r.mode, RUN_FLOAT);
    assert_non_null(strstr(r.mode_reason, "comparison of floats"));
    assert_true(r.equal);
    verify_result_free(&r);
    whole_free(&w);
}

/* Each device runs its own part of a manual region; the reference does so too. */
static const char manual[] =
    "HloModule m, num_partitions=4\n"
    "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
    "ENTRY e {\n"
    "  x = f32[8,3] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  a = f32[8,3] custom-call(x), custom_call_target=\"Sharding\", "
    "sharding={devices=[4,1]<=[4]}\n"
    "  s = f32[2,3] custom-call(a), custom_call_target=\"SPMDFullToShardShape\", "
    "sharding={manual}\n"
    "  r = f32[2,3] all-reduce(s), channel_id=1, replica_groups={{0,1},{2,3}}, "
    "use_global_device_ids=true, to_apply=sum\n"
    "  q = f32[2,3] add(r, s)\n"
    "  b = f32[2,3] custom-call(q), custom_call_target=\"Sharding\", sharding={manual}\n"
    "  f = f32[8,3] custom-call(b), custom_call_target=\"SPMDShardToFullShape\", "
    "sharding={devices=[4,1]<=[4]}\n"
    "  ROOT y = f32[8,3] negate(f), sharding={replicated}\n"
    "}\n";

static void manual_regions_have_a_reference(void **state)
{
    (void)state;
    struct whole w = prepare(manual);
    struct verify_result r = verified(&w, RUN_RING);
    assert_true(r.equal);
    verify_result_free(&r);
    r = verified(&w, RUN_FLOAT);
    assert_true(r.equal);
    verify_result_free(&r);
    instr_id sum = find_op(w.p->module, OP_ALL_REDUCE);
    assert_true(sum.i != 0);
    instr_at(w.p->module, sum)->op = OP_COPY;
    r = verified(&w, RUN_RING);
    assert_false(r.equal);
    verify_result_free(&r);
    whole_free(&w);
}

static void programs_run_on_global_arrays(void **state)
{
    (void)state;
    struct whole w = prepare(mlp);
    const struct computation *e = comp_at(w.m, w.m->entry);
    struct tensor in[2], *out;
    for (int64_t k = 0; k < 2; k++) {
        const struct shape *s = instr_shape(w.m, e->params[k]);
        assert_true(tensor_generate(s->dtype, s->rank, s->dims, k, 0, &in[k], w.d));
    }
    int64_t nout;
    bool equal;
    struct run_options o = { 0 };
    struct run_result one;
    assert_true(run_program(w.p, in, 2, &o, &out, &nout, &equal, NULL, w.d));
    o.ndevices = 1;
    assert_true(run_module(w.m, in, 2, &o, &one, NULL, w.d));
    assert_true(equal);
    assert_int_equal(nout, 1);
    for (int64_t i = 0; i < 30; i++) /* small integers: sums are exact */
        assert_true(float_at(&out[0], i) == float_at(&one.out[0], i));
    run_result_free(&one);
    tensor_free(&out[0]);
    free(out);
    tensor_free(&in[0]);
    tensor_free(&in[1]);
    whole_free(&w);
}

/* ---- .npy
 * ------------------------------------------------------------------------------------------ */

static void npy_round_trip(void **state)
{
    (void)state;
    static const enum dtype types[] = {
        DTYPE_F32,  DTYPE_F64, DTYPE_BF16, DTYPE_F8E5M2, DTYPE_S4,
        DTYPE_PRED, DTYPE_U64, DTYPE_C64,  DTYPE_F16,    DTYPE_S32
    };
    char path[] = "npy-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t k = 0; k < COUNTOF(types); k++) {
        const int64_t dims[3] = { 2, 3, 2 };
        struct tensor a, b;
        assert_true(tensor_generate(types[k], k % 4, dims, 1, 9, &a, NULL));
        assert_true(npy_write(path, &a, NULL));
        assert_true(npy_read(path, types[k], a.rank, a.dims, &b, NULL));
        assert_memory_equal(a.data, b.data, (size_t)a.bytes);
        tensor_free(&b);
        struct diag *d = diag_new();
        const int64_t other[4] = { 9, 9, 9, 9 };
        assert_false(npy_read(path, types[k], 4, other, &b, d));
        assert_int_equal(d->nerrors, 1);
        diag_free(d);
        tensor_free(&a);
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs("\x93NUMPY\1", f);
    fclose(f);
    struct tensor t;
    assert_false(npy_read(path, DTYPE_F32, 0, NULL, &t, NULL));
    remove(path);
}

/* The conformance formula: v = (7 i + 13 k + 3) mod 17. */
static void generated_values(void **state)
{
    (void)state;
    const int64_t dims[1] = { 5 };
    struct tensor t;
    assert_true(tensor_generate(DTYPE_F32, 1, dims, 2, 0, &t, NULL));
    for (int64_t i = 0; i < 5; i++)
        assert_true(float_at(&t, i) == (double)((7 * i + 13 * 2 + 3) % 17 - 8));
    tensor_free(&t);
    assert_true(tensor_generate(DTYPE_PRED, 1, dims, 0, 0, &t, NULL));
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(int_at(&t, i), (7 * i + 3) % 17 % 3 == 0);
    tensor_free(&t);
    assert_true(tensor_generate(DTYPE_C64, 1, dims, 1, 0, &t, NULL));
    assert_true((double)((const float *)t.data)[3] == (double)((5 * 1 + 11 + 2) % 13 - 6));
    tensor_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_in_both_modes),
        cmocka_unit_test(a_missing_sum_is_found),
        cmocka_unit_test(a_missing_mask_is_found),
        cmocka_unit_test(seeds_and_threads_agree),
        cmocka_unit_test(a_loop_that_ends_on_floats_takes_mode_float),
        cmocka_unit_test(an_endless_ring_loop_is_told),
        cmocka_unit_test(manual_regions_have_a_reference),
        cmocka_unit_test(programs_run_on_global_arrays),
        cmocka_unit_test(npy_round_trip),
        cmocka_unit_test(generated_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
