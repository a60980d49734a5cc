/* Wrong HLO text: a place, a reason, a suggestion, and more than one error a file. */
#include "text_help.h"

/* What stands in a body, with x and y of f32[8] defined before it; the error is on line 5. */
static void in_body(struct fixture *f, const char *line)
{
    struct str s = STR_IN(&f->a);
    str_addf(&s,
             "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  y = f32[8] negate(x)\n  %s\n}\n",
             line);
    assert_false(read_hlo(f, str_text(&s), s.n));
}

/* One error at line 5 and this column, with these words and this hint. */
static void refused(const char *line, int column, const char *words, const char *hint)
{
    struct fixture f;
    start(&f);
    in_body(&f, line);
    if (f.d->msgs.n < 1)
        fail_msg("'%s' is refused without a message", line);
    const struct diag_msg *m = &f.d->msgs.v[0];
    if (!strstr(m->text, words) || m->line != 5 || m->column != column ||
        (hint && (!m->hint || !strstr(m->hint, hint))))
        fail_msg("%s: expected '%s' at 5:%d, got\n%s", line, words, column, messages(&f));
    assert_string_equal(m->code, "parse");
    assert_non_null(m->quote);
    stop(&f);
}

static void names_and_opcodes(void **state)
{
    (void)state;
    refused("z = f32[8] add(x, xx)", 21, "'xx' is not defined", "did you mean 'x'");
    refused("z = f32[8] add(x, z)", 21, "'z' needs itself", NULL);
    refused("z = f32[8] add(x, w)\n  w = f32[8] negate(x)", 21, "used before it is defined", NULL);
    refused("x = f32[8] negate(y)", 3, "'x' is defined twice: already on line 3", NULL);
    refused("z = f32[8] subtrct(x, y)", 14, "no such opcode: 'subtrct'", "subtract");
    refused("z = f32[8] negate(x, y)", 14, "negate takes 1 operand, not 2", NULL);
    refused("z = f32[8] negate(x", 22, "expected ',' or ')'", NULL);
    refused("z = f32[8] negate(x), lhs_contracting_dims={0}", 25, "negate has no attribute 'lhs_contracting_dims'",
            NULL);
    refused("z = f32[8] negate(x), dimesions={0}", 25, "no such attribute: 'dimesions'", "did you mean dimensions=?");
    refused("z = f32[8] reverse(x), dimensions=", 26, "'dimensions=' has no value", NULL);
    refused("z = f32[8] select(x)", 14, "select takes 3 operands, not 1", NULL);
    refused("z = f32[8] call(x), to_apply=nowhere", 32, "no computation is called 'nowhere'", NULL);
    refused("z = f32[8] call(x), to_apply=e", 32, "'e' calls itself", NULL);
}

static void shapes_and_numbers(void **state)
{
    (void)state;
    refused("z = fp32[8] negate(x)", 7, "'fp32'", "f32");
    refused("z = f32[-8] negate(x)", 11, "-8", NULL);
    refused("z = f32[9223372036854775808] negate(x)", 11, "9223372036854775808", NULL);
    refused("z = f32[4294967296,4294967296] negate(x)", 7, "64 bits", NULL);
    refused("z = f32[8]{1} negate(x)", 14, "layout", NULL);
    refused("z = f32[2 negate(x)", 13, "expected", NULL);
    refused("z = (f32[2], negate(x)", 16, "'negate'", NULL);
    refused("z = f32[8] parameter(-1)", 24, "cannot be negative", NULL);
    refused("z = f32[8] parameter(x)", 24, "the parameter's number", NULL);
    refused("z = f32[8] all-gather(x), channel_id=99999999999999999999, dimensions={0}", 40,
            "does not fit in 64 bits", NULL);
    refused("parameter(1)", 12, "expected '='", NULL);
    refused("z = parameter(1)", 7, "expected a shape in front of 'parameter'", NULL);
}

static void constants(void **state)
{
    (void)state;
    refused("z = s8[] constant(128)", 21, "128 does not fit in s8", NULL);
    refused("z = u4[2] constant({3, 16})", 26, "16 does not fit in u4", NULL);
    refused("z = u8[] constant(-1)", 21, "-1 does not fit in u8", NULL);
    refused("z = s32[] constant(1.5)", 22, "a whole number", NULL);
    refused("z = f32[] constant(one)", 22, "a number", NULL);
    refused("z = pred[] constant(maybe)", 23, "true or false", NULL);
    refused("z = f32[2] constant({1, 2, 3})", 30, "dimension 0", NULL);
    refused("z = f32[2] constant({1})", 25, "has 1 element here, its shape says 2", NULL);
    refused("z = f32[2] constant(1)", 23, "fewer braces", NULL);
    refused("z = f32[2,2] constant({ {1, 2}, {3} })", 37, "dimension 1", NULL);
    refused("z = f32[1000000000000] constant({1})", 37, "dimension 0", NULL);
    refused("z = (f32[], s32[]) constant((1))", 33, "','", NULL);
    refused("z = token[] constant(1)", 24, "token", NULL);
    refused("z = c64[] constant((1 2))", 25, "','", NULL);
}

static void attributes(void **state)
{
    (void)state;
    refused("z = f32[8] negate(x), metadata={op_name=\"a}", 43, "quote (\") is never closed", NULL);
    refused("z = f32[8] negate(x), metadata=1", 34, "expected '{'", NULL);
    refused("z = f32[8] negate(x) dimensions={0}", 24, "',' before an attribute", NULL);
    refused("z = f32[8] negate(x),", 23, "expected an attribute", NULL);
    refused("z = f32[8] iota(), iota_dimension=a", 37, "expected a number", NULL);
    refused("z = f32[8] iota(), iota_dimension=0, iota_dimension=0", 40, "given twice", NULL);
    refused("z = f32[8] negate(x), sharding={replicated}, sharding={replicated}", 48, "given twice",
            NULL);
    refused("z = f32[8] negate(x), sharding={devices=[2]<=[4]}", 43, "2", NULL);
    refused("z = f32[8] negate(x), sharding=replicated", 34, "expected '{'", NULL);
    refused("z = f32[8] slice(x), slice={0:4}", 31, "'['", NULL);
    refused("z = f32[8] pad(x, y), padding=1", 34, "'_'", NULL);
    refused("z = f32[8] reduce-window(x, y), window={size=2x1 stride=1}", 52,
            "stride has 1 number, but size has 2", NULL);
    refused("z = f32[8] reduce-window(x, y), window={size=2 strides=1}", 50, "no such field", NULL);
    refused("z = f32[8] convolution(x, y), dim_labels=bf_io->b", 51, "'b' and 'f'", NULL);
    refused("z = f32[8] convolution(x, y), dim_labels=b0f_io0->b1f", 53, "each once", NULL);
    refused("z = f32[8] sort(x), is_stable=yes", 33, "true or false", NULL);
    refused("z = f32[8] custom-call(x), custom_call_target=a", 49, "in quotes", NULL);
}

static void groups(void **state)
{
    (void)state;
    refused("z = f32[8] all-gather(x), replica_groups={{0,1},{1,2}}", 44, "device 1 occurs twice",
            NULL);
    refused("z = f32[8] all-gather(x), replica_groups={{0,-1}}", 44, "device -1", NULL);
    refused("z = f32[8] all-gather(x), replica_groups={0,1}", 45, "'{'", NULL);
    refused("z = f32[8] all-gather(x), replica_groups=[8]<=[8]", 44, "two dimensions", NULL);
    refused("z = f32[8] all-gather(x), replica_groups=[2,4]<=[9]", 44, "9", NULL);
    refused("z = f32[8] all-gather(x), replica_groups=all", 44, "replica groups, like", NULL);
    refused("z = f32[8] all-gather(x), replica_groups=mesh['a'=2] {'c'}", 57, "c", NULL);
    refused("z = f32[8] collective-permute(x), source_target_pairs={{0,1,2}}", 57,
            "3 numbers, not 2", NULL);
}

static void structure(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *words;
    } cases[] = {
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8,", 4, "end of" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n", 3, "unexpected end of file" },
        { "HloModule m\nENTRY e {\n", 2, "unexpected end of file" },
        { "HloModule m\nENTRY e", 2, "unexpected end of file" },
        { "HloModule m\n", 1, "no computation" },
        { "HloModule\n", 1, "the module's name" },
        { "HloModule m, num_partitions=x\n", 1, "number of partitions" },
        { "HloModule m, num_partitions=-8\n", 1, "positive" },
        { "HloModule m, a={\n", 1, "never closed" },
        { "HloModule , x=1\n\n{\n}\n", 1, "fingerprint" },
        { "HloModule m\n\nENTRY {\n}\n", 3, "no name" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] call(x), "
          "to_apply=\n"
          "  {\n    p = f32[8] parameter(0)\n  }\n}\n",
          5, "canonical" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n}\nENTRY f {\n  x = f32[8] "
          "parameter(0)\n}\n",
          5, "a second ENTRY: the module already has one, on line 2" },
        { "HloModule m\nENTRY e {\n  ROOT x = f32[8] parameter(0)\n  ROOT y = f32[8] "
          "negate(x)\n}\n",
          4, "a second ROOT: this computation already has one, on line 3" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n}\ne {\n  x = f32[8] "
          "parameter(0)\n}\n",
          5, "defined twice: already on line 2" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(1)\n}\n", 2,
          "parameter 0 of 'e' is missing" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  y = f32[8] parameter(0)\n}\n", 4,
          "defined twice" },
        { "HloModule m\nENTRY e {\n}\n", 2, "is empty" },
        { "f {\n  p = f32[8] parameter(0)\n}\nENTRY e {\n  x = f32[8] parameter(0)\n"
          "  ROOT y = f32[8] negate(p)\n}\n",
          6, "'p' is not defined in this computation" },
        { "HloModule m\na {\n  x = f32[8] parameter(0)\n}\nb {\n  x = f32[8] parameter(0)\n}\n", 7,
          "which computation is the entry? 2" },
        { "HloModule m\nENTRY e {\n  x = f32[8] parameter(0) /* open\n}\n", 3,
          "comment is never closed" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct fixture f;
        start(&f);
        assert_false(read_hlo(&f, cases[i].text, strlen(cases[i].text)));
        assert_true(f.d->msgs.n > 0);
        if (!strstr(f.d->msgs.v[0].text, cases[i].words) || f.d->msgs.v[0].line != cases[i].line)
            fail_msg("%s: expected '%s' on line %d, got\n%s", cases[i].text, cases[i].words,
                     cases[i].line, messages(&f));
        stop(&f);
    }
}

static void a_nul_byte_is_named(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  y = f32[8] neg\0(x)\n}\n";
    struct fixture f;
    start(&f);
    assert_false(read_hlo(&f, text, sizeof text - 1));
    assert_non_null(strstr(messages(&f), "NUL byte"));
    assert_int_equal(f.d->msgs.v[0].line, 4);
    stop(&f);
}

static void reading_goes_on_after_an_error(void **state)
{
    (void)state;
    const char *text = "HloModule m\n"
                       "f {\n  p = f32[2] parameter(0)\n  q = f32[2] nega(p)\n}\n"
                       "ENTRY e {\n"
                       "  x = f32[8] parameter(0)\n"
                       "  a = f32[8] addd(x, x)\n"
                       "  b = f32[8] add(a, nobody)\n"
                       "  c = f32[8] add(b, a), sharding={devices=[2]<=[4]}\n"
                       "  d = fp32[8] add(c, c)\n"
                       "}\n";
    struct fixture f;
    start(&f);
    assert_false(read_hlo(&f, text, strlen(text)));
    /* nega, addd, nobody, the sharding, fp32: each once, and nothing that only follows from them */
    if (f.d->nerrors != 5)
        fail_msg("%s", messages(&f));
    static const int lines[] = { 4, 8, 9, 10, 11 };
    for (int i = 0; i < 5; i++)
        assert_int_equal(f.d->msgs.v[i].line, lines[i]);
    stop(&f);
}

static void errors_are_limited(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    struct str s = STR_IN(&f.a);
    str_adds(&s, "HloModule m\nENTRY e {\n");
    for (int i = 0; i < 1000; i++)
        str_addf(&s, "  a%d = f32[8] add(x, x)\n", i);
    str_adds(&s, "}\n");
    assert_false(read_hlo(&f, s.s, s.n));
    assert_int_equal(f.d->msgs.n, 20);
    stop(&f);
}

/* Every prefix of a text, and the text with every byte changed, is read to an end. */
static void cut_and_changed_text_ends(void **state)
{
    (void)state;
    static const char text[] =
        "HloModule m, num_partitions=4, frontend_attributes={a=\"b\"}\n\n"
        "FileNames\n1 \"a\"\n\n"
        "f (a: f32[]) -> f32[] {\n  ROOT a = f32[] parameter(0)\n}\n\n"
        "ENTRY %e {\n"
        "  %x = (f32[8]{0:T(8)}, s4[2]) parameter(0), sharding={{devices=[4]<=[2,2]T(1,0)}, "
        "{manual}}, metadata={op_name=\"q\\\"\"}\n"
        "  c = f32[2] constant({1, nan})\n"
        "  d = f32[2] all-reduce((f32[8], s4[2]) x), replica_groups={{0,1},{2}}, to_apply=f\n"
        "  w = f32[2] reduce-window(d, c), window={size=2 pad=0_1}, to_apply=f\n"
        "  ROOT y = f32[2] slice(d), slice={[0:1:2]} // end\n}\n";
    static const char bytes[] = "{}()[]\",=\\/*0-x%\n";
    fail_abort_on_invariant(true);
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct fixture f;
        start(&f);
        bool ok = read_hlo(&f, text, n);
        assert_true(ok || f.d->nerrors > 0);
        stop(&f);
    }
    char changed[sizeof text];
    for (size_t n = 0; n < sizeof text - 1; n++)
        for (size_t k = 0; k < sizeof bytes; k++) {
            memcpy(changed, text, sizeof text);
            changed[n] = bytes[k];
            struct fixture f;
            start(&f);
            bool ok = read_hlo(&f, changed, sizeof text - 1);
            assert_true(ok || f.d->nerrors > 0);
            stop(&f);
        }
}

static bool stop_at_once(void *context, const char *what, int64_t done, int64_t total)
{
    (void)what;
    ++*(int *)context;
    assert_true(done <= total);
    return false;
}

static void reading_can_be_interrupted(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    struct str s = STR_IN(&f.a);
    str_adds(&s, "HloModule m\nENTRY e {\n  a0 = f32[8] parameter(0)\n");
    for (int i = 1; i < 5000; i++)
        str_addf(&s, "  a%d = f32[8] negate(a%d)\n", i, i - 1);
    str_adds(&s, "}\n");
    int calls = 0;
    struct tick t = { .fn = stop_at_once, .context = &calls };
    f.m = hlo_read(f.c, source_of("t.hlo", s.s, s.n), &t, f.d);
    assert_null(f.m);
    assert_int_equal(calls, 1);
    assert_non_null(strstr(messages(&f), "interrupted"));
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_opcodes),
        cmocka_unit_test(shapes_and_numbers),
        cmocka_unit_test(constants),
        cmocka_unit_test(attributes),
        cmocka_unit_test(groups),
        cmocka_unit_test(structure),
        cmocka_unit_test(a_nul_byte_is_named),
        cmocka_unit_test(reading_goes_on_after_an_error),
        cmocka_unit_test(errors_are_limited),
        cmocka_unit_test(cut_and_changed_text_ends),
        cmocka_unit_test(reading_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
