/* The scalar evaluator and trip counts of loops: shapes of loop that JAX and hand-written HLO have. */
#include <math.h>

#include "ir_build.h"

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    world_open(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

/* ---- single operations -------------------------------------------------------------------------- */

/* op over two constants a and b of a type. */
static bool two(struct world *w, const char *op, const char *type, const char *result, double a,
                double b, const char *attrs, struct scalar *out)
{
    comp_id c = comp(w, "c");
    (void)put_const(w, c, "a", type, a);
    (void)put_const(w, c, "b", type, b);
    enum op_kind k = op_find(op, strlen(op));
    instr_id i = put_named(w, c, "r", op, result, op_max_operands(k) == 1 ? "a" : "a b", attrs);
    comp_finish(w->m, c, (instr_id){ 0 });
    struct scalar_env env = { .steps = 1000 };
    return scalar_eval(w->m, c, i, &env, out);
}

static void test_operations(void **state)
{
    static const struct {
        const char *op, *type, *result;
        double a, b;
        const char *attrs;
        double value;
    } cases[] = {
        { "add", "s32[]", "s32[]", 2147483647, 1, "", -2147483648.0 },
        { "add", "u8[]", "u8[]", 250, 10, "", 4 },
        { "subtract", "s8[]", "s8[]", -128, 1, "", 127 },
        { "multiply", "s64[]", "s64[]", -3, 7, "", -21 },
        { "divide", "s32[]", "s32[]", -7, 2, "", -3 },
        { "divide", "s32[]", "s32[]", 7, 0, "", -1 },
        { "divide", "s32[]", "s32[]", -2147483648.0, -1, "", -2147483648.0 },
        { "remainder", "s32[]", "s32[]", -7, 2, "", -1 },
        { "remainder", "s32[]", "s32[]", 7, 0, "", 7 },
        { "remainder", "u8[]", "u8[]", 255, 2, "", 1 },
        { "divide", "f32[]", "f32[]", 1, 3, "", 0.3333333432674408 },
        { "add", "bf16[]", "bf16[]", 256, 1, "", 256 },
        { "maximum", "u8[]", "u8[]", 200, 100, "", 200 },
        { "minimum", "s8[]", "s8[]", -1, 1, "", -1 },
        { "power", "s32[]", "s32[]", 3, 4, "", 81 },
        { "and", "pred[]", "pred[]", 1, 0, "", 0 },
        { "xor", "s32[]", "s32[]", 12, 10, "", 6 },
        { "shift-left", "s32[]", "s32[]", 1, 33, "", 0 },
        { "shift-right-arithmetic", "s32[]", "s32[]", -8, 1, "", -4 },
        { "shift-right-logical", "s8[]", "s8[]", -1, 4, "", 15 },
        { "compare", "s32[]", "pred[]", -1, 1, "direction=LT", 1 },
        { "compare", "u32[]", "pred[]", 4294967295.0, 1, "direction=LT", 0 },
        { "compare", "f32[]", "pred[]", 1, 1, "direction=GE", 1 },
        { "compare", "f32[]", "pred[]", NAN, 1, "direction=NE", 1 },
        { "compare", "f32[]", "pred[]", NAN, 1, "direction=GE", 0 },
        { "negate", "s32[]", "s32[]", 5, 0, "", -5 },
        { "not", "u8[]", "u8[]", 5, 0, "", 250 },
        { "not", "pred[]", "pred[]", 1, 0, "", 0 },
        { "abs", "s8[]", "s8[]", -128, 0, "", -128 },
        { "sign", "f32[]", "f32[]", -2.5, 0, "", -1 },
        { "floor", "f32[]", "f32[]", -2.5, 0, "", -3 },
        { "round-nearest-even", "f32[]", "f32[]", 2.5, 0, "", 2 },
        { "round-nearest-afz", "f32[]", "f32[]", 2.5, 0, "", 3 },
        { "convert", "f32[]", "s32[]", -2.75, 0, "", -2 },
        { "convert", "f32[]", "u8[]", 300, 0, "", 255 },
        { "convert", "f32[]", "s8[]", NAN, 0, "", 0 },
        { "convert", "s32[]", "u8[]", 257, 0, "", 1 },
        { "convert", "s32[]", "pred[]", 2, 0, "", 1 },
        { "convert", "f64[]", "f32[]", 0.1, 0, "", 0.10000000149011612 },
    };
    struct world *w = *state;
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct scalar r;
        if (!two(w, cases[k].op, cases[k].type, cases[k].result, cases[k].a, cases[k].b,
                 cases[k].attrs, &r))
            fail_msg("%s %s cannot be told", cases[k].op, cases[k].type);
        assert_string_equal(dtype_name(r.dtype),
                            dtype_name(shape_get(w->c, shape(w, cases[k].result))->dtype));
        double v = dtype_kind(r.dtype) == DTYPE_KIND_FLOAT ? r.f : (double)r.i;
        if (v != cases[k].value)
            fail_msg("%s %s of %g and %g is %g", cases[k].op, cases[k].type, cases[k].a, cases[k].b, v);
    }
    struct scalar r;
    assert_false(two(w, "exponential", "f32[]", "f32[]", 1, 0, "", &r));
    assert_false(two(w, "atan2", "f32[]", "f32[]", 1, 0, "", &r));
}

/* Small arrays: iota, slices, reshape, broadcast, reduce. */
static void test_arrays(void **state)
{
    struct world *w = *state;
    (void)put_scalar_function(w, "sum", "add", "s32[]", "s32[]", "");
    comp_id c = comp(w, "c");
    (void)put_named(w, c, "i", "iota", "s32[3,4]", "", "iota_dimension=1");
    (void)put_const(w, c, "two", "s32[]", 2);
    (void)put_const(w, c, "far", "s32[]", 100);
    (void)put_named(w, c, "d", "dynamic-slice", "s32[1,1]", "i two two", "dynamic_slice_sizes={1,1}");
    (void)put_named(w, c, "d0", "reshape", "s32[]", "d", "");
    (void)put_named(w, c, "e", "dynamic-slice", "s32[1,2]", "i two far", "dynamic_slice_sizes={1,2}");
    (void)put_named(w, c, "e1", "slice", "s32[1,1]", "e", "slice={0,1,1,1,2,1}");
    (void)put_named(w, c, "e0", "reshape", "s32[]", "e1", "");
    (void)put_named(w, c, "b", "broadcast", "s32[3,4]", "two", "");
    (void)put_named(w, c, "s", "multiply", "s32[3,4]", "i b", "");
    (void)put_const(w, c, "zero", "s32[]", 0);
    (void)put_named(w, c, "r", "reduce", "s32[]", "s zero", "dimensions={0,1} to_apply=sum");
    (void)put_named(w, c, "big", "iota", "s32[65]", "", "iota_dimension=0");
    (void)put_named(w, c, "bs", "slice", "s32[1]", "big", "slice={0,1,1}");
    comp_finish(w->m, c, (instr_id){ 0 });
    static const struct {
        const char *name;
        int64_t value;
    } cases[] = { { "d0", 2 }, { "e0", 3 }, { "r", 36 } };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct scalar_env env = { .steps = 100 };
        struct scalar r;
        assert_true(scalar_eval(w->m, c, find(w, c, cases[k].name), &env, &r));
        assert_int_equal(r.i, cases[k].value);
        assert_true(env.steps < 100 && env.steps > 50);
    }
    struct scalar_env env = { .steps = 100 };
    struct scalar r;
    assert_false(scalar_eval(w->m, c, find(w, c, "bs"), &env, &r)); /* 65 elements: too many */
    env.steps = 2;
    assert_false(scalar_eval(w->m, c, find(w, c, "r"), &env, &r)); /* out of steps */
}

static void test_given_parameters(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "c");
    (void)put_param(w, c, "p", 0, "(s32[], f32[9])");
    (void)put_param(w, c, "q", 1, "s32[]");
    (void)put_named(w, c, "a", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "x", "get-tuple-element", "f32[9]", "p", "index=1");
    (void)put_named(w, c, "r", "add", "s32[]", "a q", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    struct scalar leaves[3] = { { DTYPE_S32, { .i = 4 } }, { DTYPE_NONE, { .i = 0 } },
                                { DTYPE_S32, { .i = 5 } } };
    struct scalar_env env = { 3, leaves, 100 };
    struct scalar r;
    assert_true(scalar_eval(w->m, c, find(w, c, "r"), &env, &r));
    assert_int_equal(r.i, 9);
    leaves[2].dtype = DTYPE_NONE;
    assert_false(scalar_eval(w->m, c, find(w, c, "r"), &env, &r));
}

/* ---- loops -------------------------------------------------------------------------------------- */

#define STATE "(s32[], f32[1000])"

/* condition i < limit; body i + step. */
static void counter(struct world *w, const char *cond, const char *body, double limit, double step,
                    const char *direction)
{
    comp_id c = comp(w, cond);
    (void)put_param(w, c, "p", 0, STATE);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_const(w, c, "n", "s32[]", limit);
    (void)put_named(w, c, "r", "compare", "pred[]", "i n", direction);
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, body);
    (void)put_param(w, c, "p", 0, STATE);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "x", "get-tuple-element", "f32[1000]", "p", "index=1");
    (void)put_const(w, c, "k", "s32[]", step);
    (void)put_named(w, c, "j", "add", "s32[]", "i k", "");
    (void)put_named(w, c, "y", "negate", "f32[1000]", "x", "");
    (void)put_named(w, c, "r", "tuple", STATE, "j y", "");
    comp_finish(w->m, c, (instr_id){ 0 });
}

static comp_id start(struct world *w, double from)
{
    comp_id c = comp(w, "main");
    set_entry(w, c);
    (void)put_param(w, c, "x", 0, "f32[1000]");
    (void)put_const(w, c, "i", "s32[]", from);
    (void)put_named(w, c, "t", "tuple", STATE, "i x", "");
    return c;
}

static int64_t trips(struct world *w, comp_id c, const char *loop, int64_t steps)
{
    if (!comp_at(w->m, c)->ninstrs)
        comp_finish(w->m, c, (instr_id){ 0 });
    if (!module_verify(w->m, w->d))
        fail_msg("%s", message(w, 0));
    return while_trip_count(w->m, find(w, c, loop), steps);
}

static void test_counters(void **state)
{
    static const struct {
        double from, limit, step;
        const char *direction;
        int64_t trips;
    } cases[] = {
        { 0, 10, 1, "direction=LT", 10 }, { 0, 10, 1, "direction=LE", 11 },
        { 0, 10, 3, "direction=LT", 4 },  { 10, 0, -1, "direction=GT", 10 },
        { 5, 5, 1, "direction=LT", 0 },   { 0, 7, 1, "direction=NE", 7 },
        { 0, 10, 0, "direction=LT", -1 }, { 2147483647, -2147483640, 1, "direction=NE", 9 },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct world w;
        world_open(&w);
        counter(&w, "cond", "body", cases[k].limit, cases[k].step, cases[k].direction);
        comp_id c = start(&w, cases[k].from);
        (void)put_named(&w, c, "w", "while", STATE, "t", "condition=cond body=body");
        assert_int_equal(trips(&w, c, "w", 20000), cases[k].trips);
        world_close(&w);
    }
    (void)state;
}

static void test_unknown_start(void **state)
{
    struct world *w = *state;
    counter(w, "cond", "body", 10, 1, "direction=LT");
    comp_id c = comp(w, "main");
    set_entry(w, c);
    (void)put_param(w, c, "p", 0, STATE);
    (void)put_named(w, c, "w", "while", STATE, "p", "condition=cond body=body");
    assert_int_equal(trips(w, c, "w", 20000), -1);
}

/* The bound is carried along, the comparison sits behind a call, the step behind a convert and a
 * select, and the condition is an `and` with something that cannot be told but never decides. */
static void test_jax_shapes(void **state)
{
    struct world *w = *state;
#define S3 "(s32[], s32[], f32[1000])"
    comp_id c = comp(w, "less");
    (void)put_param(w, c, "a", 0, "s32[]");
    (void)put_param(w, c, "b", 1, "s32[]");
    (void)put_named(w, c, "r", "compare", "pred[]", "a b", "direction=LT");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "cond");
    (void)put_param(w, c, "p", 0, S3);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s32[]", "p", "index=1");
    (void)put_named(w, c, "r", "call", "pred[]", "i n", "to_apply=less");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "next"); /* i + 2 in 64 bits, but 1 while i < 4 */
    (void)put_param(w, c, "i", 0, "s32[]");
    (void)put_named(w, c, "wide", "convert", "s64[]", "i", "");
    (void)put_const(w, c, "one", "s64[]", 1);
    (void)put_const(w, c, "two", "s64[]", 2);
    (void)put_const(w, c, "four", "s64[]", 4);
    (void)put_named(w, c, "small", "compare", "pred[]", "wide four", "direction=LT");
    (void)put_named(w, c, "k", "select", "s64[]", "small one two", "");
    (void)put_named(w, c, "sum", "add", "s64[]", "wide k", "");
    (void)put_named(w, c, "r", "convert", "s32[]", "sum", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "inner"); /* the whole body behind a call that returns a tuple */
    (void)put_param(w, c, "i", 0, "s32[]");
    (void)put_param(w, c, "x", 1, "f32[1000]");
    (void)put_named(w, c, "j", "fusion", "s32[]", "i", "kind=kLoop calls=next");
    (void)put_named(w, c, "r", "tuple", STATE, "j x", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "body");
    (void)put_param(w, c, "p", 0, S3);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s32[]", "p", "index=1");
    (void)put_named(w, c, "x", "get-tuple-element", "f32[1000]", "p", "index=2");
    (void)put_named(w, c, "t", "call", STATE, "i x", "to_apply=inner");
    (void)put_named(w, c, "u", "opt-barrier", STATE, "t", "");
    (void)put_named(w, c, "j", "get-tuple-element", "s32[]", "u", "index=0");
    (void)put_named(w, c, "y", "get-tuple-element", "f32[1000]", "u", "index=1");
    (void)put_named(w, c, "r", "tuple", S3, "j n y", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "main");
    set_entry(w, c);
    (void)put_param(w, c, "x", 0, "f32[1000]");
    (void)put_const(w, c, "i", "s32[]", 0);
    (void)put_const(w, c, "n", "s32[]", 20);
    (void)put_named(w, c, "t", "tuple", S3, "i n x", "");
    (void)put_named(w, c, "w", "while", S3, "t", "condition=cond body=body");
    assert_int_equal(trips(w, c, "w", 100000), 12); /* 0 1 2 3 4 6 .. 18 */
}

/* while (i < n and not done), where done is told by data: not known, unless i ends it at once. */
static void test_and(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct world w;
        world_open(&w);
        comp_id c = comp(&w, "cond");
        (void)put_param(&w, c, "p", 0, "(s32[], pred[])");
        (void)put_named(&w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
        (void)put_named(&w, c, "go", "get-tuple-element", "pred[]", "p", "index=1");
        (void)put_const(&w, c, "n", "s32[]", 5);
        (void)put_named(&w, c, "lt", "compare", "pred[]", "i n", "direction=LT");
        (void)put_named(&w, c, "r", "and", "pred[]", first ? "lt go" : "go lt", "");
        comp_finish(w.m, c, (instr_id){ 0 });
        c = comp(&w, "body");
        (void)put_param(&w, c, "p", 0, "(s32[], pred[])");
        comp_finish(w.m, c, (instr_id){ 0 });
        c = comp(&w, "main");
        set_entry(&w, c);
        (void)put_param(&w, c, "go", 0, "pred[]");
        (void)put_const(&w, c, "five", "s32[]", 5);
        (void)put_const(&w, c, "four", "s32[]", 4);
        (void)put_named(&w, c, "t", "tuple", "(s32[], pred[])", "five go", "");
        (void)put_named(&w, c, "u", "tuple", "(s32[], pred[])", "four go", "");
        (void)put_named(&w, c, "w", "while", "(s32[], pred[])", "t", "condition=cond body=body");
        (void)put_named(&w, c, "v", "while", "(s32[], pred[])", "u", "condition=cond body=body");
        assert_int_equal(trips(&w, c, "w", 1000), 0);
        assert_int_equal(trips(&w, c, "v", 1000), -1);
        world_close(&w);
    }
    (void)state;
}

/* An inner loop whose result is the outer one's counter; an inner loop whose bound the outer one
 * carries along unchanged; a loop in a computation that is called once with a constant. */
static void test_nested(void **state)
{
    struct world *w = *state;
    counter(w, "cond3", "body1", 3, 1, "direction=LT");
    comp_id c = comp(w, "body_outer"); /* i becomes max(i, 3) by the inner loop, + 1 */
    (void)put_param(w, c, "p", 0, STATE);
    (void)put_named(w, c, "q", "while", STATE, "p", "condition=cond3 body=body1");
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "q", "index=0");
    (void)put_named(w, c, "x", "get-tuple-element", "f32[1000]", "q", "index=1");
    (void)put_const(w, c, "one", "s32[]", 1);
    (void)put_named(w, c, "j", "add", "s32[]", "i one", "");
    (void)put_named(w, c, "r", "tuple", STATE, "j x", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    comp_id inner = c;
    counter(w, "cond10", "unused", 10, 1, "direction=LT");
    c = start(w, 0);
    (void)put_named(w, c, "w", "while", STATE, "t", "condition=cond10 body=body_outer");
    assert_int_equal(trips(w, c, "w", 100000), 7); /* 4 5 6 7 8 9 10 */
    /* The inner one runs 3 times, then never: no single number. */
    assert_int_equal(trips(w, inner, "q", 100000), -1);
}

static void test_carried_bound(void **state)
{
    struct world *w = *state;
#define S2 "(s32[], s32[])"
    comp_id c = comp(w, "cond");
    (void)put_param(w, c, "p", 0, S2);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s32[]", "p", "index=1");
    (void)put_named(w, c, "r", "compare", "pred[]", "i n", "direction=LT");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "turn");
    (void)put_param(w, c, "p", 0, S2);
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s32[]", "p", "index=1");
    (void)put_const(w, c, "one", "s32[]", 1);
    (void)put_named(w, c, "j", "add", "s32[]", "i one", "");
    (void)put_named(w, c, "r", "tuple", S2, "j n", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    comp_id called = comp(w, "called"); /* a loop from 0 to its parameter */
    (void)put_param(w, called, "n", 0, "s32[]");
    (void)put_const(w, called, "zero", "s32[]", 0);
    (void)put_named(w, called, "t", "tuple", S2, "zero n", "");
    (void)put_named(w, called, "w", "while", S2, "t", "condition=cond body=turn");
    (void)put_named(w, called, "r", "get-tuple-element", "s32[]", "w", "index=0");
    comp_finish(w->m, called, (instr_id){ 0 });
    comp_id outer = comp(w, "outer"); /* calls it with the outer loop's unchanging bound */
    (void)put_param(w, outer, "p", 0, S2);
    (void)put_named(w, outer, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, outer, "n", "get-tuple-element", "s32[]", "p", "index=1");
    (void)put_named(w, outer, "m", "call", "s32[]", "n", "to_apply=called");
    (void)put_named(w, outer, "j", "add", "s32[]", "i m", "");
    (void)put_named(w, outer, "r", "tuple", S2, "j n", "");
    comp_finish(w->m, outer, (instr_id){ 0 });
    c = comp(w, "main");
    set_entry(w, c);
    (void)put_const(w, c, "a", "s32[]", -20);
    (void)put_const(w, c, "b", "s32[]", 6);
    (void)put_named(w, c, "t", "tuple", S2, "a b", "");
    (void)put_named(w, c, "w", "while", S2, "t", "condition=cond body=outer");
    assert_int_equal(trips(w, c, "w", 100000), 5); /* -20, -14, .., 4, 10 */
    assert_int_equal(trips(w, called, "w", 100000), 6);
}

/* Branches choose the step; a float counter; a scalar that is no tuple. */
static void test_other_loops(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "half");
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_const(w, c, "k", "f32[]", 0.5);
    (void)put_named(w, c, "r", "multiply", "f32[]", "x k", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "less1");
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_const(w, c, "k", "f32[]", 1);
    (void)put_named(w, c, "r", "subtract", "f32[]", "x k", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "cond");
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_const(w, c, "k", "f32[]", 1);
    (void)put_named(w, c, "r", "compare", "pred[]", "x k", "direction=GT");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "body"); /* above 8: halve; else one less */
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_const(w, c, "k", "f32[]", 8);
    (void)put_named(w, c, "p", "compare", "pred[]", "x k", "direction=GT");
    (void)put_named(w, c, "r", "conditional", "f32[]", "p x x",
                    "true_computation=half false_computation=less1");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "main");
    set_entry(w, c);
    (void)put_const(w, c, "x", "f32[]", 100);
    (void)put_named(w, c, "w", "while", "f32[]", "x", "condition=cond body=body");
    assert_int_equal(trips(w, c, "w", 100000), 10); /* 100 50 25 12.5 6.25 5.25 .. 1.25 0.25 */
}

/* Loops that only count cost the same whatever their length; those that wrap are not guessed at. */
static void test_long_counters(void **state)
{
    static const struct {
        double from, limit, step;
        const char *direction;
        int64_t trips;
    } cases[] = {
        { 0, 2000000000, 1, "direction=LT", 2000000000 },
        { 0, 2000000000, 1, "direction=LE", 2000000001 },
        { -2000000000, 2000000000, 3, "direction=LT", 1333333334 },
        { 7, -2000000000, -2, "direction=GE", 1000000004 },
        { 7, -2000000000, -2, "direction=GT", 1000000004 },
        { 0, 1999999998, 3, "direction=NE", 666666666 },
        { 0, 2000000000, 3, "direction=NE", -1 },
        { 0, 2147483647, 1, "direction=LE", -1 },
        { 0, 2147483646, 2, "direction=LE", -1 },
        { 0, 2147483647, 1, "direction=LT", 2147483647 },
        { 0, -5, -1, "direction=NE", 5 },
        { 0, 500, 1, "direction=GE", 0 },
        { 500, 0, 1, "direction=GE", -1 }, /* counts away from its end */
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct world w;
        world_open(&w);
        counter(&w, "cond", "body", cases[k].limit, cases[k].step, cases[k].direction);
        comp_id c = start(&w, cases[k].from);
        (void)put_named(&w, c, "w", "while", STATE, "t", "condition=cond body=body");
        int64_t got = trips(&w, c, "w", 5000);
        if (got != cases[k].trips)
            fail_msg("from %g to %g by %g %s: %" PRId64, cases[k].from, cases[k].limit, cases[k].step,
                     cases[k].direction, got);
        world_close(&w);
    }
    (void)state;
}

/* n - i - 1 > 0 in wider numbers, with the bound carried along; and the counter's last value used. */
static void test_long_indirect(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "cond");
    (void)put_param(w, c, "p", 0, "(s32[], s64[])");
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s64[]", "p", "index=1");
    (void)put_named(w, c, "wide", "convert", "s64[]", "i", "");
    (void)put_const(w, c, "one", "s64[]", 1);
    (void)put_named(w, c, "next", "add", "s64[]", "one wide", "");
    (void)put_named(w, c, "r", "compare", "pred[]", "n next", "direction=GE");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "body");
    (void)put_param(w, c, "p", 0, "(s32[], s64[])");
    (void)put_named(w, c, "i", "get-tuple-element", "s32[]", "p", "index=0");
    (void)put_named(w, c, "n", "get-tuple-element", "s64[]", "p", "index=1");
    (void)put_const(w, c, "k", "s32[]", -5);
    (void)put_named(w, c, "j", "subtract", "s32[]", "i k", "");
    (void)put_named(w, c, "r", "tuple", "(s32[], s64[])", "j n", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "main");
    set_entry(w, c);
    (void)put_const(w, c, "i", "s32[]", 0);
    (void)put_const(w, c, "n", "s64[]", 1000000000);
    (void)put_named(w, c, "t", "tuple", "(s32[], s64[])", "i n", "");
    (void)put_named(w, c, "w", "while", "(s32[], s64[])", "t", "condition=cond body=body");
    (void)put_named(w, c, "last", "get-tuple-element", "s32[]", "w", "index=0");
    assert_int_equal(trips(w, c, "w", 10000), 200000000);
    struct scalar_env env = { .steps = 10000 };
    struct scalar r;
    assert_true(scalar_eval(w->m, c, find(w, c, "last"), &env, &r));
    assert_int_equal(r.i, 1000000000);
}

/* The counter's square is no straight line: counted turn by turn. */
static void test_not_affine(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "cond");
    (void)put_param(w, c, "i", 0, "s32[]");
    (void)put_const(w, c, "n", "s32[]", 1000000);
    (void)put_named(w, c, "sq", "multiply", "s32[]", "i i", "");
    (void)put_named(w, c, "r", "compare", "pred[]", "sq n", "direction=LT");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "body");
    (void)put_param(w, c, "i", 0, "s32[]");
    (void)put_const(w, c, "k", "s32[]", 1);
    (void)put_named(w, c, "r", "add", "s32[]", "i k", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "main");
    set_entry(w, c);
    (void)put_const(w, c, "i", "s32[]", 0);
    (void)put_named(w, c, "w", "while", "s32[]", "i", "condition=cond body=body");
    assert_int_equal(trips(w, c, "w", 100000), 1000);
}

static void test_step_limit(void **state)
{
    struct world *w = *state;
    counter(w, "cond", "body", 90, 1, "direction=LT");
    comp_id c = start(w, 0);
    (void)put_named(w, c, "w", "while", STATE, "t", "condition=cond body=body");
    assert_int_equal(trips(w, c, "w", 100), -1);
    assert_int_equal(trips(w, c, "w", 10000), 90);
    assert_int_equal(while_trip_count(w->m, find(w, c, "t"), 100), -1); /* no loop at all */
}

/* A chain of 100,000 calls, and loops inside loops deeper than the evaluator goes. */
static void test_deep(void **state)
{
    struct world *w = *state;
    enum { DEPTH = 100000 };
    comp_id below = { 0 };
    for (int k = 0; k < DEPTH; k++) {
        comp_id c = comp_new(w->m, (name_id){ 0 });
        instr_id x = instr_new(w->m, c, OP_PARAMETER, shape(w, "s32[]"), 0, NULL, 1,
                               &(struct attr){ .key = ATTR_INDEX, .type = ATTR_TYPE_INT });
        if (below.i) {
            struct attr to = attr_comp(ATTR_TO_APPLY, below);
            (void)instr_new(w->m, c, OP_CALL, shape(w, "s32[]"), 1, &x, 1, &to);
        }
        comp_finish(w->m, c, (instr_id){ 0 });
        below = c;
    }
    struct scalar seven = { DTYPE_S32, { .i = 7 } }, r;
    struct scalar_env env = { 1, &seven, 10000000 };
    /* More frames than the evaluator keeps: an answer either way, no crash. */
    (void)scalar_eval(w->m, below, comp_at(w->m, below)->root, &env, &r);
    below.i -= DEPTH / 2;
    assert_true(scalar_eval(w->m, below, comp_at(w->m, below)->root, &env, &r));
    assert_int_equal(r.i, 7);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_operations), T(test_arrays), T(test_given_parameters), T(test_counters),
        T(test_unknown_start), T(test_jax_shapes), T(test_and), T(test_nested), T(test_carried_bound),
        T(test_other_loops), T(test_long_counters), T(test_long_indirect), T(test_not_affine),
        T(test_step_limit), T(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
