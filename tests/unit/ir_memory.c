/* Out of memory at every allocation in turn: nothing crashes, nothing is left behind (the leak checker
 * of a sanitizer build sees to the latter), and with all of it the work is done. */
#include "base/fail.h"
#include "ir_build.h"

/* Comparing may fail too: the copy goes all the same. */
static void check_copy(struct world *w)
{
    struct module *copy = module_clone(w->m);
    struct fail_frame f;
    if (FAIL_ENTER(&f)) {
        if (!module_equal(copy, w->m))
            fail_msg("differs");
        fail_leave(&f);
        module_free(copy);
        return;
    }
    module_free(copy);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

/* Everything the layer does, on a small module. What was made so far is in *w. */
static void work(struct world *w)
{
    w->c = ir_new();
    w->m = module_new(w->c, name_put(w->c, "m", 1));
    w->m->num_partitions = 8;
    (void)put_scalar_function(w, "sum", "add", "f32[]", "f32[]", "");
    comp_id c = comp(w, "main");
    set_entry(w, c);
    (void)put_param(w, c, "x", 0, "((f32[8,<=4]{1,0}, (token[], ())), s32[])");
    (void)put_named(w, c, "a", "get-tuple-element", "(f32[8,4], (token[], ()))", "x", "index=0");
    (void)put_named(w, c, "b", "get-tuple-element", "f32[8,4]", "a", "index=0");
    (void)put_const(w, c, "k", "f32[]", 1);
    (void)put_named(w, c, "r", "reduce", "f32[8]", "b k", "dimensions={1} to_apply=sum");
    (void)put_named(w, c, "g", "all-gather", "f32[32]", "r",
                    "dimensions={0} replica_groups={{0,1,2,3},{4,5,6,7}}");
    comp_finish(w->m, c, (instr_id){ 0 });
    instr_id g = find(w, c, "g");
    int64_t dims[1] = { 8 };
    instr_at(w->m, g)->sharding = sharding_plain(
        w->c->shardings,
        tiling_make(w->c->shardings, 1, dims, order_iota(w->c->shardings, 8)));
    if (!module_verify(w->m, NULL))
        fail_msg("refused");
    check_copy(w);
    struct users u;
    users_make(w->m, &w->a, &u);
    uint32_t n;
    (void)comp_post_order(w->m, c, &u, &w->a, &n);
    (void)module_call_order(w->m, true, &w->a, &n);
    struct scalar_env env = { .steps = 100 };
    struct scalar s;
    (void)scalar_eval(w->m, c, find(w, c, "k"), &env, &s);
    (void)instr_has_side_effect(w->m, g);
    (void)instr_is_elementwise(w->m, g);
}

/* Whether it got through although the n-th allocation failed. */
static bool try_with(int64_t n)
{
    struct world w = { 0 };
    struct fail_frame f;
    volatile bool through = false;
    fail_nth_allocation(n);
    if (FAIL_ENTER(&f)) {
        work(&w);
        fail_leave(&f);
        through = true;
    } else {
        assert_int_equal(f.kind, FAIL_MEMORY);
    }
    fail_nth_allocation(0);
    module_free(w.m);
    ir_free(w.c);
    arena_free(&w.a);
    return through;
}

static void test_every_allocation(void **state)
{
    (void)state;
    int64_t n = 1;
    while (!try_with(n) && n < 100000)
        n++;
    print_message("%d allocations failed in turn\n", (int)n - 1);
    assert_true(n > 10 && n < 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_allocation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
