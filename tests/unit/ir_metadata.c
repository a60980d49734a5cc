/* Metadata: op_name, source places, stack frames through both spellings of the tables. */
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

static instr_id with_metadata(struct world *w, const char *text)
{
    comp_id c = comp(w, "main");
    set_entry(w, c);
    instr_id i = put_param(w, c, "x", 0, "f32[2]");
    instr_at(w->m, i)->metadata = text;
    instr_at(w->m, i)->metadata_len = text ? (uint32_t)strlen(text) : 0;
    comp_finish(w->m, c, (instr_id){ 0 });
    return i;
}

static void test_op_name(void **state)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        { "op_name=\"jit(f)/add\" source_file=\"a.py\" source_line=3", "jit(f)/add" },
        { "op_type=\"add\" op_name=\"x y, z=1\"", "x y, z=1" },
        { "op_name=\"xs[0][\\'wi\\']\"", "xs[0]['wi']" },
        { "op_name=\"a\\\"b\\\\c\\n\\101\"", "a\"b\\c\nA" },
        { "source_file=\"op_name=\\\"no\\\"\" op_name=\"yes\"", "yes" },
        { "profile={op_name=\"inner\"} op_name=\"outer\"", "outer" },
        { "source_line=3", "" },
        { "op_name=\"unclosed", "unclosed" },
        { "", "" },
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        struct world *w = *state;
        instr_id i = with_metadata(w, cases[k].text);
        assert_string_equal(instr_op_name(w->m, i), cases[k].name);
        assert_string_equal(instr_arg_name(w->m, i), cases[k].name);
    }
    struct world *w = *state;
    instr_id i = with_metadata(w, NULL);
    assert_string_equal(instr_op_name(w->m, i), "");
    comp_at(w->m, w->m->entry)->entry = false;
    i = find(w, w->m->entry, "x");
    instr_at(w->m, i)->metadata = "op_name=\"w1\"";
    instr_at(w->m, i)->metadata_len = 12;
    assert_string_equal(instr_arg_name(w->m, i), ""); /* not the entry's */
}

static void place(struct world *w, const char *text, const char *file, int line)
{
    const char *f;
    int n;
    instr_id i = with_metadata(w, text);
    assert_int_equal(instr_source(w->m, i, &f, &n), file[0] != '\0');
    assert_string_equal(f, file);
    assert_int_equal(n, line);
}

static void test_source(void **state)
{
    struct world *w = *state;
    place(w, "op_name=\"f\" source_file=\"dir/a.py\" source_line=42", "dir/a.py", 42);
    place(w, "source_file=\"a \\\"b\\\".py\" source_line=1 source_end_line=2", "a \"b\".py", 1);
    place(w, "op_name=\"f\"", "", 0);
    place(w, "stack_frame_id=1", "", 0); /* no tables */
}

static void test_frames(void **state)
{
    static const char *const tables[] = {
        "FileNames\n1 \"gen.py\"\n2 \"StackFrames 9\"\n\nFunctionNames\n1 \"<module>\"\n2 \"FileNames\"\n\n"
        "FileLocations\n1 {file_name_id=1 function_name_id=1 line=390 end_line=391 column=8}\n"
        "2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=1}\n\n"
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n\n",
        "FileNames {1 \"gen.py\" 2 \"StackFrames 9\"} FunctionNames {1 \"<module>\"} "
        "FileLocations {1 {file_name_id=1 function_name_id=1 line=390} "
        "2 {file_name_id=2 function_name_id=2 line=7}} "
        "StackFrames {1 {file_location_id=1 parent_frame_id=1} 2 {file_location_id=2}}",
    };
    struct world *w = *state;
    for (size_t k = 0; k < COUNTOF(tables); k++) {
        w->m->tables = tables[k];
        w->m->tables_len = (uint32_t)strlen(tables[k]);
        place(w, "op_name=\"x\" stack_frame_id=1", "gen.py", 390);
        place(w, "stack_frame_id=2", "StackFrames 9", 7);
        place(w, "stack_frame_id=3", "", 0);
        place(w, "stack_frame_id=0", "", 0);
        for (uint32_t n = 0; n < w->m->tables_len; n += 7) { /* cut anywhere: no answer, no harm */
            const char *f;
            int line;
            char *cut = malloc(n ? n : 1);
            assert_non_null(cut);
            memcpy(cut, tables[k], n);
            w->m->tables = cut;
            w->m->tables_len = n;
            (void)instr_source(w->m, find(w, w->m->entry, "x"), &f, &line);
            free(cut);
            w->m->tables_len = (uint32_t)strlen(tables[k]);
        }
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = { T(test_op_name), T(test_source), T(test_frames) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
