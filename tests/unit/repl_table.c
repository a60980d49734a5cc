/* Tables on terminals of any width: what fits stands in columns, nothing is wider than the terminal or lost,
 * and the numbers of lines that comms counts on are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repl/commands.h"

static struct shell sh;

static const char *const heads[] = { "collective", "name", "shape", ">bytes", "over", "for", "because", NULL };
static const char *const rows[][7] = {
    { "all-gather", "body_spmd/all-gather.1", "f32[16,1,4]", "256", "data", "closed_call/dot.41", "resharding (S-73)" },
    { "reduce-scatter", "body_spmd/reduce-scatter.12", "f32[2,8,16]", "1,003,072", "model", "dot.62",
      "partial sums of the contracting dimension (S-174)" },
    { "all-reduce", "all-reduce.3", "f32[]", "4", "data", "", NULL },
};

/* The table printed on a terminal of `columns` (0: none); the call's arena has the text. */
static const char *print(struct call *c, int columns, bool *long_rows)
{
    struct table t;
    sh.columns = columns;
    *c = (struct call){ .sh = &sh };
    c->out = STR_IN(&c->arena);
    table_init(&t, &c->arena, heads);
    for (size_t r = 0; r < COUNTOF(rows); r++) {
        const char **row = table_row(&t);
        for (int k = 0; k < 7; k++)
            row[k] = rows[r][k];
    }
    *long_rows = table_has_long_rows(c, &t);
    table_print(c, &t, true);
    return str_text(&c->out);
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* All words of the cells, in their order within a row. */
static void check_nothing_is_lost(const char *text)
{
    for (size_t r = 0; r < COUNTOF(rows); r++)
        for (int k = 0; k < 7; k++)
            for (const char *w = rows[r][k] ? rows[r][k] : ""; *w;) {
                char word[64];
                size_t n = strcspn(w, " ");
                snprintf(word, sizeof word, "%.*s", (int)n, w);
                assert_non_null(strstr(text, word));
                w += n + (w[n] == ' ');
            }
}

static void no_line_is_wider_and_nothing_is_lost(void **state)
{
    (void)state;
    for (int columns = 40; columns <= 170; columns++) {
        struct call c;
        bool long_rows;
        const char *text = print(&c, columns, &long_rows);
        for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
            assert_in_range(strcspn(p, "\n"), 0, columns);
        check_nothing_is_lost(text);
        assert_int_equal(long_rows, count_lines(text) > 1 + (int)COUNTOF(rows));
        arena_free(&c.arena);
    }
}

static void the_first_columns_stay_columns(void **state)
{
    (void)state;
    struct call c;
    bool long_rows;
    assert_string_equal(print(&c, 80, &long_rows),
                        "collective      name                         shape            bytes  over\n"
                        "    for  because\n"
                        "all-gather      body_spmd/all-gather.1       f32[16,1,4]        256  data\n"
                        "    closed_call/dot.41  resharding (S-73)\n"
                        "reduce-scatter  body_spmd/reduce-scatter.12  f32[2,8,16]  1,003,072  model\n"
                        "    dot.62  partial sums of the contracting dimension (S-174)\n"
                        "all-reduce      all-reduce.3                 f32[]                4  data\n");
    assert_true(long_rows);
    arena_free(&c.arena);
    assert_string_equal(print(&c, 0, &long_rows),
                        "collective      name                         shape            bytes  over   for                 because\n"
                        "all-gather      body_spmd/all-gather.1       f32[16,1,4]        256  data   closed_call/dot.41  "
                        "resharding (S-73)\n"
                        "reduce-scatter  body_spmd/reduce-scatter.12  f32[2,8,16]  1,003,072  model  dot.62              "
                        "partial sums of the contracting dimension (S-174)\n"
                        "all-reduce      all-reduce.3                 f32[]                4  data\n");
    assert_false(long_rows);
    arena_free(&c.arena);
}

static void numbers_below_keep_their_head(void **state)
{
    (void)state;
    struct call c;
    bool long_rows;
    const char *text = print(&c, 56, &long_rows);
    assert_non_null(strstr(text, "\n    bytes 1,003,072  model  dot.62"));
    assert_non_null(strstr(text, "\n    bytes  over  for  because\n"));
    arena_free(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_wider_and_nothing_is_lost),
        cmocka_unit_test(the_first_columns_stay_columns),
        cmocka_unit_test(numbers_below_keep_their_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
