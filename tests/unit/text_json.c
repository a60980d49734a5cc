/* JSON models: what they build, and how mistakes in them are reported. */
#include "text_help.h"

static bool read_json(struct fixture *f, const char *text)
{
    f->m = json_model_read(f->c, source_of("t.json", text, strlen(text)), f->d);
    return f->m != NULL;
}

/* A model of the given params and ops prints as this entry. */
static void builds(const char *params, const char *ops, const char *entry)
{
    struct fixture f;
    start(&f);
    struct str s = STR_IN(&f.a);
    str_addf(&s,
             "{\"model\": \"t\", \"sizes\": {\"A\": 4, \"B\": 6}, \"params\": {%s}, \"ops\": [%s]}",
             params, ops);
    if (!read_json(&f, str_text(&s)))
        fail_msg("%s", messages(&f));
    if (!module_verify(f.m, f.d))
        fail_msg("%s", messages(&f));
    const char *text = printed(&f, f.m, NULL);
    const char *body = strstr(text, "ENTRY main {\n");
    assert_non_null(body);
    struct str want = STR_IN(&f.a);
    str_addf(&want, "ENTRY main {\n%s}\n\n", entry);
    assert_string_equal(body, str_text(&want));
    /* XLA's form of it reads back as the same module */
    struct fixture g;
    start(&g);
    if (!read_hlo(&g, text, strlen(text)))
        fail_msg("%s", messages(&g));
    assert_true(module_equal(f.m, g.m));
    stop(&g);
    stop(&f);
}

static void einsums(void **state)
{
    (void)state;
    builds("\"x\": \"f32[4,6]\", \"w\": \"f32[6,8]\"",
           "{\"name\": \"y\", \"einsum\": \"bd,df->bf\", \"args\": [\"x\", \"w\"], \"shape\": "
           "\"f32[4,8]\"}",
           "  x = f32[4,6] parameter(0)\n  w = f32[6,8] parameter(1)\n"
           "  ROOT y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
    builds(
        "\"q\": \"f32[2,4,3,5]\", \"k\": \"f32[2,6,3,5]\"",
        "{\"name\": \"s\", \"einsum\": \"bqhk,bthk->bqht\", \"args\": [\"q\", \"k\"], \"shape\": "
        "\"f32[2,4,3,6]\"}",
        "  q = f32[2,4,3,5] parameter(0)\n  k = f32[2,6,3,5] parameter(1)\n"
        "  s.dot = f32[2,3,4,6] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={3}\n"
        "  ROOT s = f32[2,4,3,6] transpose(s.dot), dimensions={0,2,1,3}\n");
    builds(
        "\"x\": \"f32[4,6]\", \"w\": \"f32[8,5]\"", /* letters of one side only are summed first */
        "{\"name\": \"y\", \"einsum\": \"ab,cd->ca\", \"args\": [\"x\", \"w\"], \"shape\": "
        "\"f32[8,4]\"}",
        "  x = f32[4,6] parameter(0)\n  w = f32[8,5] parameter(1)\n"
        "  y.sum0.start = f32[] constant(0)\n"
        "  y.sum0 = f32[4] reduce(x, y.sum0.start), dimensions={1}, to_apply=sum_f32\n"
        "  y.sum1.start = f32[] constant(0)\n"
        "  y.sum1 = f32[8] reduce(w, y.sum1.start), dimensions={1}, to_apply=sum_f32\n"
        "  y.dot = f32[4,8] dot(y.sum0, y.sum1), lhs_contracting_dims={}, rhs_contracting_dims={}\n"
        "  ROOT y = f32[8,4] transpose(y.dot), dimensions={1,0}\n");
    builds("\"x\": \"f32[A,B,2]\"",
           "{\"name\": \"y\", \"einsum\": \"abc->ca\", \"args\": [\"x\"], \"shape\": \"f32[2,A]\"},"
           "{\"name\": \"z\", \"einsum\": \"ca->c\", \"args\": [\"y\"], \"shape\": \"f32[2]\"},"
           "{\"name\": \"u\", \"einsum\": \"c->c\", \"args\": [\"z\"], \"shape\": \"f32[2]\"}",
           "  x = f32[4,6,2] parameter(0)\n"
           "  y.sum0.start = f32[] constant(0)\n"
           "  y.sum0 = f32[4,2] reduce(x, y.sum0.start), dimensions={1}, to_apply=sum_f32\n"
           "  y = f32[2,4] transpose(y.sum0), dimensions={1,0}\n"
           "  z.start = f32[] constant(0)\n"
           "  z = f32[2] reduce(y, z.start), dimensions={1}, to_apply=sum_f32\n"
           "  ROOT u = f32[2] copy(z)\n");
}

static void elementwise_and_numbers(void **state)
{
    (void)state;
    builds(
        "\"x\": \"f32[A,B]\", \"b\": \"f32[B]\"",
        "{\"name\": \"y\", \"op\": \"add\", \"args\": [\"x\", \"b\"], \"shape\": \"f32[A,B]\"},"
        "{\"name\": \"z\", \"op\": \"multiply\", \"args\": [\"y\", 0.5], \"shape\": \"f32[A,B]\"},"
        "{\"name\": \"r\", \"op\": \"relu\", \"args\": [\"z\"], \"shape\": \"f32[A,B]\"},"
        "{\"name\": \"e\", \"op\": \"exponential\", \"args\": [\"r\"], \"shape\": \"f32[A,B]\"},"
        "{\"name\": \"p\", \"op\": \"compare\", \"direction\": \"LT\", \"args\": [\"e\", \"x\"], "
        "\"shape\": "
        "\"pred[A,B]\"},"
        "{\"name\": \"s\", \"op\": \"select\", \"args\": [\"p\", \"e\", \"x\"], \"shape\": "
        "\"f32[A,B]\"},"
        "{\"name\": \"h\", \"op\": \"convert\", \"args\": [\"s\"], \"shape\": \"bf16[A,B]\"}",
        "  x = f32[4,6] parameter(0)\n  b = f32[6] parameter(1)\n"
        "  y.wide1 = f32[4,6] broadcast(b), dimensions={1}\n"
        "  y = f32[4,6] add(x, y.wide1)\n"
        "  z.const1 = f32[] constant(0.5)\n"
        "  z.fill1 = f32[4,6] broadcast(z.const1), dimensions={}\n"
        "  z = f32[4,6] multiply(y, z.fill1)\n"
        "  r.zero = f32[] constant(0)\n"
        "  r.zeros = f32[4,6] broadcast(r.zero), dimensions={}\n"
        "  r = f32[4,6] maximum(z, r.zeros)\n"
        "  e = f32[4,6] exponential(r)\n"
        "  p = pred[4,6] compare(e, x), direction=LT\n"
        "  s = f32[4,6] select(p, e, x)\n"
        "  ROOT h = bf16[4,6] convert(s)\n");
}

static void shape_operations(void **state)
{
    (void)state;
    builds(
        "\"x\": \"s32[A,B]\"",
        "{\"name\": \"i\", \"op\": \"iota\", \"dim\": -1, \"shape\": \"s32[A,B]\"},"
        "{\"name\": \"c\", \"op\": \"constant\", \"value\": 7, \"shape\": \"s32[2]\"},"
        "{\"name\": \"r\", \"op\": \"reshape\", \"args\": [\"x\"], \"shape\": \"s32[24]\"},"
        "{\"name\": \"t\", \"op\": \"transpose\", \"dims\": [1, 0], \"args\": [\"x\"], \"shape\": "
        "\"s32[B,A]\"},"
        "{\"name\": \"w\", \"op\": \"broadcast\", \"dims\": [0, 2], \"args\": [\"x\"], \"shape\": "
        "\"s32[A,3,B]\"},"
        "{\"name\": \"m\", \"op\": \"reduce\", \"with\": \"max\", \"dims\": [0], \"args\": "
        "[\"x\"], \"shape\": "
        "\"s32[B]\"},"
        "{\"name\": \"l\", \"op\": \"slice\", \"start\": [0, 1], \"limit\": [4, 6], \"stride\": "
        "[2, 1], "
        "\"args\": [\"x\"], \"shape\": \"s32[2,5]\"},"
        "{\"name\": \"k\", \"op\": \"concatenate\", \"dim\": 0, \"args\": [\"x\", \"i\"], "
        "\"shape\": "
        "\"s32[8,B]\"}",
        "  x = s32[4,6] parameter(0)\n"
        "  i = s32[4,6] iota(), iota_dimension=1\n"
        "  c.value = s32[] constant(7)\n"
        "  c = s32[2] broadcast(c.value), dimensions={}\n"
        "  r = s32[24] reshape(x)\n"
        "  t = s32[6,4] transpose(x), dimensions={1,0}\n"
        "  w = s32[4,3,6] broadcast(x), dimensions={0,2}\n"
        "  m.start = s32[] constant(-2147483648)\n"
        "  m = s32[6] reduce(x, m.start), dimensions={0}, to_apply=max_s32\n"
        "  l = s32[2,5] slice(x), slice={[0:4:2], [1:6:1]}\n"
        "  ROOT k = s32[8,6] concatenate(x, i), dimensions={0}\n");
}

static void softmax_and_mean_come_in_pieces(void **state)
{
    (void)state;
    builds("\"x\": \"f32[A,B]\"",
           "{\"name\": \"p\", \"op\": \"softmax\", \"dim\": 1, \"args\": [\"x\"], \"shape\": "
           "\"f32[A,B]\"},"
           "{\"name\": \"m\", \"op\": \"mean\", \"dims\": [0, 1], \"args\": [\"p\"], \"shape\": "
           "\"f32[]\"}",
           "  x = f32[4,6] parameter(0)\n"
           "  p.max.start = f32[] constant(-inf)\n"
           "  p.max = f32[4] reduce(x, p.max.start), dimensions={1}, to_apply=max_f32\n"
           "  p.max.wide = f32[4,6] broadcast(p.max), dimensions={0}\n"
           "  p.shifted = f32[4,6] subtract(x, p.max.wide)\n"
           "  p.exp = f32[4,6] exponential(p.shifted)\n"
           "  p.sum.start = f32[] constant(0)\n"
           "  p.sum = f32[4] reduce(p.exp, p.sum.start), dimensions={1}, to_apply=sum_f32\n"
           "  p.sum.wide = f32[4,6] broadcast(p.sum), dimensions={0}\n"
           "  p = f32[4,6] divide(p.exp, p.sum.wide)\n"
           "  m.sum.start = f32[] constant(0)\n"
           "  m.sum = f32[] reduce(p, m.sum.start), dimensions={0,1}, to_apply=sum_f32\n"
           "  m.count = f32[] constant(24)\n"
           "  ROOT m = f32[] divide(m.sum, m.count)\n");
}

static void outputs_and_flags(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    assert_true(read_json(
        &f, "{\"model\": \"two\", \"about\": \"x\", \"num_partitions\": 2,\n"
            " \"params\": {\"x\": {\"shape\": \"f32[4]\", \"sharding\": \"{devices=[2]<=[2]}\"}},\n"
            " \"ops\": [{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"x\"], \"shape\": "
            "\"f32[4]\",\n"
            "   \"sharding\": \"{replicated}\"}],\n"
            " \"outputs\": [\"y\", \"x\"]}"));
    assert_true(module_verify(f.m, f.d));
    assert_string_equal(printed(&f, f.m, NULL),
                        "HloModule two, allow_spmd_sharding_propagation_to_parameters={true}, "
                        "allow_spmd_sharding_propagation_to_output={true}, num_partitions=2\n\n"
                        "ENTRY main {\n"
                        "  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
                        "  y = f32[4] negate(x), sharding={replicated}\n"
                        "  ROOT outputs = (f32[4], f32[4]) tuple(y, x)\n"
                        "}\n\n");
    int line, column; /* where `where y` points */
    source_place(f.m->source, named(f.m, "y")->at.off, &line, &column);
    assert_int_equal(line, 3);
    stop(&f);
}

/* The two models of the repository. */
static void the_models_load(void **state)
{
    (void)state;
    static const char *const paths[] = { "models/mlp.json", "models/attention.json" };
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        start(&f);
        f.m = module_load(f.c, paths[k], NULL, f.d);
        if (!f.m && f.d->msgs.n && strcmp(f.d->msgs.v[0].code, "io") == 0) {
            stop(&f);
            skip(); /* run from another folder */
        }
        if (!f.m)
            fail_msg("%s", messages(&f));
        (void)named(f.m, "x");
        (void)named(f.m, "y");
        if (k == 0) {
            assert_int_equal(named(f.m, "w1")->op, OP_PARAMETER);
            assert_int_equal(named(f.m, "h")->op, OP_DOT);
            assert_int_equal(named(f.m, "w2")->op, OP_PARAMETER);
        }
        stop(&f);
    }
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void refused_text(const char *text, int line, int column, const char *words,
                         const char *hint)
{
    struct fixture f;
    start(&f);
    assert_false(read_json(&f, text));
    assert_true(f.d->msgs.n > 0);
    const struct diag_msg *m = &f.d->msgs.v[0];
    if (!strstr(m->text, words) || m->line != line || m->column != column ||
        (hint && (!m->hint || !strstr(m->hint, hint))))
        fail_msg("%s: expected '%s' at %d:%d, got\n%s", text, words, line, column, messages(&f));
    stop(&f);
}

/* An operation on line 4, with x of f32[4,6] and v of s32[6] defined. */
static void refused(const char *op, int column, const char *words, const char *hint)
{
    struct arena a = { 0 };
    refused_text(arena_printf(&a,
                              "{\"model\": \"t\", \"sizes\": {\"A\": 4, \"BIG\": 6},\n"
                              "\"params\": {\"x\": \"f32[A,BIG]\", \"v\": \"s32[6]\"},\n"
                              "\"ops\": [\n%s\n]}",
                              op),
                 4, column, words, hint);
    arena_free(&a);
}

static void mistakes_in_the_text(void **state)
{
    (void)state;
    refused_text("{\"model\": \"t\",\n \"params\": {\"x\": \"f32[4]\"}\n \"ops\": []}", 3, 2,
                 "no JSON", NULL);
    refused_text("{\"model\": \"t\",\n", 1, 15, "unexpected end of file", NULL);
    refused_text("{\"model\": \"t\"} x", 1, 16, "behind the model", NULL);
    refused_text("[1]", 1, 1, "an object", NULL);
    refused_text("{\"params\": {}}", 1, 1, "needs \"model\"", NULL);
    refused_text("{\"model\": \"a b\"}", 1, 11, "needs \"model\"", NULL);
    refused_text("{\"model\": \"t\", \"parms\": {}}", 1, 25, "no \"parms\"", "params");
    refused_text("{\"model\": \"t\",\n\"ops\": []}", 1, 1, "needs \"params\"", NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {\"x\": \"f32[2]\"}}", 1, 1, "needs \"ops\"",
                 NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {\"x\": \"f33[2]\"}, \"ops\": []}", 2, 17,
                 "'f33'", "f32");
    refused_text("{\"model\": \"t\",\n\"params\": {\"x\": 3}, \"ops\": []}", 2, 17,
                 "a shape in quotes", NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {\"1x\": \"f32[2]\"}, \"ops\": []}", 2, 18,
                 "is no name", NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {\"s8\": \"f32[2]\"}, \"ops\": []}", 2, 18,
                 "a type", "s8_");
    refused_text("{\"model\": \"t\", \"sizes\": {\"A\": 1.5},\n\"params\": {}, \"ops\": []}", 1, 31,
                 "whole number", NULL);
    refused_text(
        "{\"model\": \"t\",\n\"params\": {\"x\": \"f32[2]\"}, \"ops\": [], \"outputs\": [\"y\"]}",
        2, 51, "no tensor is called 'y'", "x");
    refused_text("{\"model\": \"t\", \"num_partitions\": 0,\n\"params\": {}, \"ops\": []}", 1, 34,
                 "from 1 up", NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {\"x\": {\"shape\": \"f32[2]\", \"sharding\": "
                 "\"{oops}\"}},"
                 " \"ops\": []}",
                 2, 49, "oops", NULL);
    refused_text("{\"model\": \"t\",\n\"params\": {}, \"ops\": []}", 1, 1, "empty", NULL);
}

static void mistakes_in_operations(void **state)
{
    (void)state;
    refused("3", 1, "an operation is an object", NULL);
    refused("{\"op\": \"add\"}", 1, "needs \"name\"", NULL);
    refused("{\"name\": \"y\"}", 1, "needs \"op\"", NULL);
    refused("{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"x\"]}", 1, "needs \"shape\"", NULL);
    refused("{\"name\": \"y\", \"op\": \"negte\", \"args\": [\"x\"], \"shape\": \"f32[4,6]\"}", 21,
            "no such operation: 'negte'", "negate");
    refused("{\"name\": \"y\", \"op\": \"soft\", \"args\": [\"x\"], \"shape\": \"f32[4,6]\"}", 21,
            "no such operation", NULL);
    refused("{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"xx\"], \"shape\": \"f32[4,6]\"}",
            40, "no tensor is called 'xx'", "x");
    refused(
        "{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"x\", \"x\"], \"shape\": \"f32[4,6]\"}",
        39, "takes 1 argument, not 2", NULL);
    refused("{\"name\": \"x\", \"op\": \"negate\", \"args\": [\"x\"], \"shape\": \"f32[4,6]\"}", 10,
            "'x' is defined twice", NULL);
    refused("{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"x\"], \"shape\": \"f32[4,BGI]\"}",
            55, "'BGI' is not among \"sizes\"", NULL);
    refused("{\"name\": \"y\", \"op\": \"negate\", \"args\": [\"x\"], \"shape\": \"f32[4,5]\"}", 39,
            "argument 0 is f32[4,6]", NULL);
    refused("{\"name\": \"y\", \"op\": \"add\", \"args\": [\"x\", \"v\"], \"shape\": \"f32[4,6]\"}",
            36, "argument 1 is of type s32, not f32", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"bd->d\", \"args\": [\"x\"], \"shape\": \"f32[4]\"}",
            58, "this einsum gives f32[6]", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"bb->b\", \"args\": [\"x\"], \"shape\": \"f32[4]\"}",
            25, "stands twice", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"bd->e\", \"args\": [\"x\"], \"shape\": \"f32[4]\"}",
            25, "in no operand", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"b->b\", \"args\": [\"x\"], \"shape\": \"f32[4]\"}", 25,
            "has 2 dimensions, but 1 letters", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"ab,bc->ac\", \"args\": [\"x\", \"x\"], \"shape\": "
            "\"f32[4,6]\"}",
            25, "the letter 'b' is 6 in the first operand and 4 in the second", NULL);
    refused("{\"name\": \"y\", \"einsum\": \"ab,bc,cd->ad\", \"args\": [\"x\"], \"shape\": "
            "\"f32[4,6]\"}",
            25, "one or two operands", NULL);
    refused("{\"name\": \"y\", \"op\": \"reduce\", \"with\": \"avg\", \"dims\": [0], \"args\": "
            "[\"x\"], \"shape\": "
            "\"f32[6]\"}",
            39, "\"with\" is sum", NULL);
    refused("{\"name\": \"y\", \"op\": \"softmax\", \"dim\": 2, \"args\": [\"x\"], \"shape\": "
            "\"f32[4,6]\"}",
            39, "no such dimension", NULL);
    refused("{\"name\": \"y\", \"op\": \"transpose\", \"dims\": [0, 0], \"args\": [\"x\"], "
            "\"shape\": \"f32[4,6]\"}",
            42, "stands twice", NULL);
    refused("{\"name\": \"y\", \"op\": \"compare\", \"direction\": \"GTE\", \"args\": [\"x\", "
            "\"x\"], \"shape\": "
            "\"pred[4,6]\"}",
            45, "EQ, NE", NULL);
    refused("{\"name\": \"y\", \"op\": \"constant\", \"value\": \"x\", \"shape\": \"f32[4,6]\"}",
            42, "needs \"value\"", NULL);
    refused("{\"name\": \"y\", \"op\": \"reshape\", \"args\": [\"x\"], \"shape\": \"f32[5,5]\"}",
            56, "24 elements to 25", NULL);
}

static void an_error_does_not_cause_others(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    assert_false(read_json(
        &f, "{\"model\": \"t\", \"params\": {\"x\": \"f32[4]\"}, \"ops\": [\n"
            "{\"name\": \"a\", \"op\": \"nope\", \"args\": [\"x\"], \"shape\": \"f32[4]\"},\n"
            "{\"name\": \"b\", \"op\": \"negate\", \"args\": [\"a\"], \"shape\": \"f32[4]\"},\n"
            "{\"name\": \"c\", \"op\": \"negate\", \"args\": [\"q\"], \"shape\": \"f32[4]\"}]}"));
    if (f.d->nerrors != 2)
        fail_msg("%s", messages(&f));
    assert_int_equal(f.d->msgs.v[1].line, 4);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(einsums),
        cmocka_unit_test(elementwise_and_numbers),
        cmocka_unit_test(shape_operations),
        cmocka_unit_test(softmax_and_mean_come_in_pieces),
        cmocka_unit_test(outputs_and_flags),
        cmocka_unit_test(the_models_load),
        cmocka_unit_test(mistakes_in_the_text),
        cmocka_unit_test(mistakes_in_operations),
        cmocka_unit_test(an_error_does_not_cause_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
