/* Names and selections, language.md section 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session/session.h"

static const char TEXT[] =
    "HloModule names\n"
    "half {\n"
    "  p = f32[4] parameter(0)\n"
    "  dot.1 = f32[4] negate(p)\n"
    "  ROOT only = f32[4] abs(dot.1)\n"
    "}\n"
    "other {\n"
    "  p = f32[4] parameter(0)\n"
    "  ROOT both = f32[4] abs(p)\n"
    "}\n"
    "ENTRY main {\n"
    "  Arg_0.1 = f32[4] parameter(0), metadata={op_name=\"params[\\'w1\\']\"}\n"
    "  Arg_1.2 = f32[4] parameter(1), metadata={op_name=\"x\"}\n"
    "  dot.1 = f32[4] add(Arg_0.1, Arg_1.2), metadata={op_name=\"jit(f)/jit(main)/layer0/mlp/add\" "
    "source_file=\"m.py\" source_line=7}\n"
    "  c.2 = f32[4] call(dot.1), to_apply=half, "
    "metadata={op_name=\"jit(f)/jit(main)/layer1/mlp/add\"}\n"
    "  c.3 = f32[4] call(c.2), to_apply=other\n"
    "  m.4 = f32[4] multiply(c.3, dot.1), metadata={op_name=\"jit(f)/jit(main)/layer1/mlp/mul\"}\n"
    "  ROOT t = (f32[4], (f32[4], f32[4])) custom-call(m.4), custom_call_target=\"t\"\n"
    "}\n";

static struct document *doc;

static int load(void **state)
{
    (void)state;
    doc = document_new();
    return document_load_text(doc, "names", TEXT, strlen(TEXT), NULL, NULL) ? 0 : 1;
}

static int unload(void **state)
{
    (void)state;
    document_free(doc);
    return 0;
}

/* Labels of the selection, blank-separated; "!" and the first message where it fails. */
static const char *selected(const char *text)
{
    static char buffer[1000];
    struct arena a = { 0 };
    struct diag *d = diag_new();
    struct source src = { "<command>", text, strlen(text) };
    instr_id *list;
    int64_t n;
    buffer[0] = '\0';
    if (!select_instrs(doc, text, strlen(text), &src, 0, false, &a, &list, &n, d)) {
        snprintf(buffer, sizeof buffer, "!%s%s%s", d->msgs.v[0].text,
                 d->msgs.v[0].hint ? " | " : "", d->msgs.v[0].hint ? d->msgs.v[0].hint : "");
    } else {
        struct str s = STR_IN(&a);
        for (int64_t k = 0; k < n; k++) {
            str_adds(&s, k ? " " : "");
            instr_label(document_module(doc), list[k], true, &s);
        }
        snprintf(buffer, sizeof buffer, "%s", str_text(&s));
    }
    diag_free(d);
    arena_free(&a);
    return buffer;
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(selected("dot.1"), "dot.1");
    assert_string_equal(selected("%dot.1"), "dot.1");
    assert_string_equal(selected("half/dot.1"), "half/dot.1");
    assert_string_equal(selected("main/dot.1"), "dot.1");
    assert_string_equal(selected("only"), "half/only");
    assert_string_equal(selected("params['w1']"), "Arg_0.1");
    assert_string_equal(selected("x"), "Arg_1.2");
    assert_string_equal(selected("layer0/mlp/add"), "dot.1");
    assert_string_equal(selected("\"dot.1\""), "dot.1");
    assert_string_equal(selected("mul"), "m.4");
    assert_string_equal(selected("other/p"),
                        selected("other/p.1")); /* as written, and as made unique */
}

static void wrong_names(void **state)
{
    (void)state;
    assert_string_equal(selected("dot.7"), "!no tensor is named 'dot.7' | did you mean 'dot.1'?");
    assert_non_null(strstr(selected("mlp/add"),
                           "several instructions are named 'mlp/add' | main/dot.1, main/c.2"));
    assert_non_null(strstr(selected("half/m.4"), "!this computation has no instruction 'm.4'"));
    assert_non_null(strstr(selected("zzzzz"), "parameters: params['w1'], x"));
    assert_non_null(strstr(selected("op:subtrct"), "did you mean 'subtract'"));
    assert_non_null(strstr(selected("op:sine"), "the module has no 'sine'"));
    assert_non_null(strstr(selected("q*"), "nothing matches 'q*'"));
    assert_non_null(strstr(selected("in(dot.1,x)"), "not a number"));
    assert_true(selected("")[0] == '!');
    assert_true(selected("dot.1,,x")[0] == '!');
}

static void selections(void **state)
{
    (void)state;
    assert_string_equal(selected("op:call"), "c.2 c.3");
    assert_string_equal(selected("c.*"), "c.2 c.3");
    assert_string_equal(selected("half/*"), "half/p half/dot.1 half/only");
    assert_string_equal(selected("scope:layer0/*"), "dot.1");
    assert_string_equal(selected("scope:*mlp*"), "dot.1 c.2 m.4");
    assert_string_equal(selected("in(c.2,1)"), "dot.1 c.2");
    assert_string_equal(selected("in(c.2)"), "Arg_0.1 Arg_1.2 dot.1 c.2");
    assert_string_equal(selected("out(dot.1,1)"), "dot.1 c.2 m.4");
    assert_string_equal(selected("x, c.2 ,x"), "Arg_1.2 c.2");
    assert_string_equal(selected("in(params['w1'],3),t"), "Arg_0.1 t");
}

static int64_t leaf_of(const char *text)
{
    instr_id i;
    int64_t leaf;
    return select_tensor(doc, text, strlen(text), NULL, 0, &i, &leaf, NULL) ? leaf : -2;
}

static void leaves(void **state)
{
    (void)state;
    assert_int_equal(leaf_of("t"), -1);
    assert_int_equal(leaf_of("t{0}"), 0);
    assert_int_equal(leaf_of("t{1,0}"), 1);
    assert_int_equal(leaf_of("t{1,1}"), 2);
    assert_int_equal(leaf_of("t{1}"), -2);
    assert_int_equal(leaf_of("t{2}"), -2);
    assert_int_equal(leaf_of("t{0,0}"), -2);
    assert_int_equal(leaf_of("dot.1{0}"), -2);
    assert_int_equal(leaf_of("t{a}"), -2);
}

static void one_is_wanted(void **state)
{
    (void)state;
    struct arena a = { 0 };
    instr_id *list;
    int64_t n;
    assert_false(select_instrs(doc, "c.*", 3, NULL, 0, true, &a, &list, &n, NULL));
    assert_true(select_instrs(doc, "c.2", 3, NULL, 0, true, &a, &list, &n, NULL));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),  cmocka_unit_test(wrong_names),   cmocka_unit_test(selections),
        cmocka_unit_test(leaves), cmocka_unit_test(one_is_wanted),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
