/* base: arenas and their unwinding, maps, interning, strings, messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/str.h"
#include "base/tick.h"

static void checked_arithmetic_refuses_overflow(void **state)
{
    (void)state;
    int64_t r = 7;
    assert_false(mul_ok(INT64_MAX, 2, &r));
    assert_int_equal(r, 7);
    assert_true(mul_ok(1 << 20, 1 << 20, &r));
    assert_int_equal(r, (int64_t)1 << 40);
    assert_false(add_ok(INT64_MAX, 1, &r));
    assert_true(product_ok((int64_t[]){ 3, 4, 5 }, 3, &r));
    assert_int_equal(r, 60);
    assert_true(product_ok(NULL, 0, &r));
    assert_int_equal(r, 1);
    assert_false(product_ok((int64_t[]){ INT64_MAX, 2 }, 2, &r));
    assert_int_equal(ceil_div(10, 4), 3);
    assert_int_equal(ceil_div(8, 4), 2);
    assert_int_equal(ceil_div(0, 4), 0);
}

static void arena_memory_is_zeroed_and_counted(void **state)
{
    (void)state;
    struct arena a = { 0 };
    int64_t before = a.bytes;
    for (int i = 1; i < 2000; i++) {
        unsigned char *p = arena_alloc(&a, i, 3);
        for (int k = 0; k < 3 * i; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xab, (size_t)(3 * i));
        assert_int_equal((uintptr_t)p % 16, 0);
    }
    assert_true(a.bytes > before + 3 * 1999 * 1000);
    assert_string_equal(arena_printf(&a, "%d-%s", 5, "x"), "5-x");
    arena_free(&a);
    assert_int_equal(a.bytes, 0);
}

static void failure_frees_pass_arenas_and_returns(void **state)
{
    (void)state;
    static struct arena one, two; /* static: read after the jump */
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        arena_open(&one);
        arena_open(&two);
        (void)arena_alloc(&one, 100, 100);
        INVARIANT(1 + 1 == 3, "%s does not hold", "arithmetic");
        fail();
    }
    assert_int_equal(f.kind, FAIL_INVARIANT);
    assert_non_null(strstr(f.text, "arithmetic does not hold"));
    assert_non_null(strstr(f.text, "base_test.c"));
    assert_null(one.blocks);
    assert_null(two.blocks);
    assert_false(one.open);
}

static void impossible_sizes_are_memory_failures(void **state)
{
    (void)state;
    static struct arena a;
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        arena_open(&a);
        (void)arena_alloc(&a, INT64_MAX, 8);
        fail();
    }
    assert_int_equal(f.kind, FAIL_MEMORY);
    if (FAIL_ENTER(&f)) {
        arena_open(&a);
        fail_nth_allocation(1);
        (void)arena_alloc(&a, 1, 8);
        fail();
    }
    assert_int_equal(f.kind, FAIL_MEMORY);
    assert_false(fail_allocation_due());
}

static void nested_frames_unwind_to_the_inner_one(void **state)
{
    (void)state;
    struct fail_frame outer, inner;
    volatile int reached = 0;
    if (FAIL_ENTER(&outer)) {
        if (FAIL_ENTER(&inner))
            INVARIANT(false, "inner");
        reached = 1;
        INVARIANT(false, "outer");
    }
    assert_int_equal(reached, 1);
    assert_non_null(strstr(outer.text, "outer"));
}

static void paged_tables_never_move_an_entry(void **state)
{
    (void)state;
    struct arena a = { 0 };
    struct paged t;
    paged_init(&t, &a, sizeof(int));
    uint32_t first = paged_add(&t);
    assert_int_equal(first, 1);
    int *p = paged_at(&t, first);
    *p = 42;
    for (int i = 0; i < 5000; i++)
        *(int *)paged_at(&t, paged_add(&t)) = i;
    assert_ptr_equal(p, paged_at(&t, first));
    assert_int_equal(*p, 42);
    assert_int_equal(*(int *)paged_at(&t, 5001), 4999);
    arena_free(&a);
}

static void maps_and_interning_agree_with_themselves(void **state)
{
    (void)state;
    struct arena a = { 0 };
    struct map m;
    map_init(&m, &a);
    uint64_t v;
    assert_false(map_get(&m, 3, &v));
    for (uint64_t i = 0; i < 10000; i++)
        map_put(&m, i * 7919, i);
    map_put(&m, 7919, 77);
    assert_int_equal(m.n, 10000);
    for (uint64_t i = 2; i < 10000; i++) {
        assert_true(map_get(&m, i * 7919, &v));
        assert_int_equal(v, i);
    }
    assert_true(map_get(&m, 7919, &v));
    assert_int_equal(v, 77);
    assert_false(map_get(&m, 5, &v));

    struct intern t;
    intern_init(&t, &a);
    char buf[16];
    for (int i = 0; i < 3000; i++)
        assert_int_equal(intern_put(&t, buf, (size_t)snprintf(buf, sizeof buf, "n%d", i)), i + 1);
    assert_int_equal(intern_put(&t, "n17", 3), 18);
    assert_int_equal(intern_find(&t, "n2999", 5), 3000);
    assert_int_equal(intern_find(&t, "absent", 6), 0);
    assert_string_equal((const char *)intern_at(&t, 18)->bytes, "n17");
    uint32_t empty = intern_put(&t, "", 0);
    assert_int_equal(intern_put(&t, "", 0), empty);
    arena_free(&a);
}

static void control_bytes_never_come_through(void **state)
{
    (void)state;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    const char bad[] = "a\x1b[31m\x7f\xc2\x9b\xff\xed\xa0\x80\xc3\xa9";
    str_add_safe(&s, bad, sizeof bad - 1);
    assert_string_equal(str_text(&s), "a\\x1b[31m\\x7f\\xc2\\x9b\\xff\\xed\\xa0\\x80\xc3\xa9");
    arena_free(&a);
}

static void small_string_tools(void **state)
{
    (void)state;
    assert_int_equal(edit_distance("dta", "data", 2), 1);
    assert_int_equal(edit_distance("mdoel", "model", 2), 1);
    assert_int_equal(edit_distance("abcdef", "uvwxyz", 2), 3);
    assert_int_equal(edit_distance("", "ab", 2), 2);
    assert_true(glob_match("*w[12]*", "layer0/w1/x"));
    assert_false(glob_match("w[!12]", "w1"));
    assert_true(glob_match("a?c*", "abc"));
    assert_false(glob_match("a?c", "ac"));
    assert_true(glob_match("[", "["));
    assert_true(glob_match("**", ""));
    int64_t v = 0;
    assert_int_equal(parse_i64("-9223372036854775808]", 21, &v), 20);
    assert_true(v == INT64_MIN);
    assert_int_equal(parse_i64("9223372036854775808", 19, &v), 0);
    assert_int_equal(parse_i64("x", 1, &v), 0);
    assert_int_equal(parse_i64("-", 1, &v), 0);
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    str_addi(&s, INT64_MIN);
    str_addc(&s, ' ');
    str_addi(&s, 0);
    assert_string_equal(str_text(&s), "-9223372036854775808 0");
    arena_free(&a);
}

static void messages_have_place_caret_and_hint(void **state)
{
    (void)state;
    struct diag *d = diag_new();
    const char text[] = "first\nabc \xc3\xa9 wrong here\r\nlast";
    struct source src = { "f.hlo", text, sizeof text - 1 };
    assert_false(diag_error(d, &src, (struct span){ 13, 5 }, "%s is wrong", "this"));
    diag_hint(d, "try %d", 7);
    struct str s = STR_IN(&d->arena);
    diag_render(&d->msgs.v[0], &s);
    assert_string_equal(str_text(&s), "f.hlo:2:8: error: this is wrong\n"
                                      "  abc \xc3\xa9 wrong here\n"
                                      "        ^~~~~\n"
                                      "  hint: try 7\n");
    assert_int_equal(d->nerrors, 1);
    /* at the very end, and beyond it */
    (void)diag_error(d, &src, (struct span){ (uint32_t)sizeof text + 10, 3 }, "cut");
    assert_int_equal(d->msgs.v[1].line, 3);
    /* a line of a megabyte is cut around the place */
    char *big = arena_alloc(&d->arena, 1 << 20, 1);
    memset(big, 'x', (1 << 20) - 1);
    struct source long_line = { "big", big, (1 << 20) - 1 };
    (void)diag_error(d, &long_line, (struct span){ 500000, 4 }, "here");
    assert_true(strlen(d->msgs.v[2].quote) < 200);
    assert_int_equal(d->msgs.v[2].column, 500001);
    for (int i = 0; i < 100; i++)
        (void)diag_error(d, NULL, (struct span){ 0 }, "more");
    assert_int_equal(d->nerrors, 103);
    assert_int_equal(d->msgs.n, 20);
    diag_free(d);
    diag_free(NULL);
    (void)diag_error(NULL, NULL, (struct span){ 0 }, "nobody listens");
}

static bool stop_at_two(void *context, const char *what, int64_t done, int64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    return ++*(int *)context < 2;
}

static void ticks_come_now_and_then(void **state)
{
    (void)state;
    int calls = 0;
    struct tick t = { .fn = stop_at_two, .context = &calls };
    int polls = 0;
    while (tick_poll(&t, "x", 0, 0))
        polls++;
    assert_int_equal(calls, 2);
    assert_int_equal(polls, 511);
    assert_true(tick_poll(NULL, "x", 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic_refuses_overflow),
        cmocka_unit_test(arena_memory_is_zeroed_and_counted),
        cmocka_unit_test(failure_frees_pass_arenas_and_returns),
        cmocka_unit_test(impossible_sizes_are_memory_failures),
        cmocka_unit_test(nested_frames_unwind_to_the_inner_one),
        cmocka_unit_test(paged_tables_never_move_an_entry),
        cmocka_unit_test(maps_and_interning_agree_with_themselves),
        cmocka_unit_test(control_bytes_never_come_through),
        cmocka_unit_test(small_string_tools),
        cmocka_unit_test(messages_have_place_caret_and_hint),
        cmocka_unit_test(ticks_come_now_and_then),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
