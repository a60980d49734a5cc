/* What XLA's compiler does before completion, and the text that annotations stand for. */
#include "propagate_support.h"

static struct graph *prepared(struct bed *b, const char *text)
{
    bed_load(b, text);
    struct graph *g = graph_prepare(b->module, true, NULL, b->diag);
    assert_non_null(g);
    return g;
}

static uint32_t stands(const struct bed *b, const struct graph *g, const char *name)
{
    instr_id i = bed_named(b->module, name, strlen(name));
    assert_true(i.i != 0);
    return g->start[i.i + 1] - g->start[i.i];
}

static instr_id first(const struct bed *b, const struct graph *g, const char *name, uint32_t k)
{
    instr_id i = bed_named(b->module, name, strlen(name));
    assert_true(g->start[i.i] + k < g->start[i.i + 1]);
    return g->list[g->start[i.i] + k];
}

static int removed(const struct bed *b, const struct graph *g, const char *name)
{
    return g->removed[bed_named(b->module, name, strlen(name)).i];
}

static const char nested[] =
    "HloModule m\n"
    "inner {\n a = f32[8] parameter(0)\n unused = f32[8] parameter(1)\n ROOT n = f32[8] negate(a)\n}\n"
    "outer {\n b = f32[8] parameter(0)\n k1 = f32[8] call(b, b), to_apply=inner\n"
    " k2 = f32[8] call(k1, b), to_apply=inner\n ROOT s = f32[8] add(k1, k2)\n}\n"
    "ENTRY e {\n p = f32[8] parameter(0)\n dead = f32[8] cosine(p)\n x = f32[8] call(p), to_apply=outer\n"
    " y = f32[8] call(x), to_apply=outer\n z = f32[8] call(p, dead), to_apply=inner\n"
    " ROOT o = (f32[8], f32[8]) tuple(y, z)\n}\n";

static void test_inlining(void **state)
{
    (void)state;
    struct bed b;
    struct graph *g = prepared(&b, nested);
    const struct computation *entry = comp_at(g->module, g->module->entry);
    for (uint32_t k = 0; k < entry->ninstrs; k++)
        assert_int_not_equal(instr_at(g->module, entry->instrs[k])->op, OP_CALL);
    assert_int_equal(stands(&b, g, "n"), 5); /* twice in each of two calls, and once alone */
    assert_int_equal(stands(&b, g, "s"), 2);
    assert_int_equal(stands(&b, g, "x"), 0);
    assert_int_equal(removed(&b, g, "x"), REMOVED_INLINED);
    assert_int_equal(removed(&b, g, "a"), REMOVED_INLINED);
    assert_int_equal(removed(&b, g, "dead"), REMOVED_DEAD); /* only an unused parameter took it */
    for (uint32_t c = 1; c <= module_ncomps(g->module); c++)
        assert_int_equal(g->comp_used[c], c == g->module->entry.i);
    graph_free(g);
    bed_free(&b);
}

/* The chain of calls that a copy came through, innermost first. */
static void test_sites(void **state)
{
    (void)state;
    struct bed b;
    struct graph *g = prepared(&b, nested);
    static const char *const chains[5][2] = { { "k1", "x" }, { "k2", "x" }, { "k1", "y" }, { "k2", "y" }, { "z", NULL } };
    bool seen[5] = { false };
    for (uint32_t k = 0; k < 5; k++) {
        const struct origin *o = &g->origin[first(&b, g, "n", k).i];
        const struct call_site *site = &g->sites[o->site];
        for (int c = 0; c < 5; c++) {
            instr_id inner = bed_named(b.module, chains[c][0], strlen(chains[c][0]));
            instr_id outer = chains[c][1] ? bed_named(b.module, chains[c][1], strlen(chains[c][1])) : (instr_id){ 0 };
            instr_id around = site->outer ? g->sites[site->outer].call : (instr_id){ 0 };
            if (site->call.i == inner.i && around.i == outer.i)
                seen[c] = true;
        }
    }
    for (int c = 0; c < 5; c++)
        assert_true(seen[c]);
    graph_free(g);
    bed_free(&b);
}

static void test_call_sharding_goes_to_root(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, "HloModule m\nf {\n a = f32[8] parameter(0)\n ROOT n = f32[8] reverse(a), dimensions={0}\n}\n"
                 "ENTRY e {\n p = f32[8] parameter(0)\n c = f32[8] call(p), to_apply=f, sharding={devices=[4]<=[4]}\n"
                 " ROOT o = f32[8] abs(c)\n}\n");
    bed_run(&b, "prepare");
    assert_int_equal(bed_check(&b, "call", "n {devices=[4]<=[4]}"), 0);
    bed_free(&b);
}

static void test_zero_sized(void **state)
{
    (void)state;
    struct bed b;
    struct graph *g = prepared(&b, "HloModule m\nENTRY e {\n p = f32[0,4] parameter(0)\n q = f32[8] parameter(1)\n"
                                   " s = f32[0] slice(q), slice={[0:0]}\n t = f32[0] negate(s)\n n = f32[0,4] negate(p)\n"
                                   " ROOT o = (f32[0,4], f32[0]) tuple(n, t)\n}\n");
    assert_int_equal(instr_at(g->module, first(&b, g, "n", 0))->op, OP_CONSTANT);
    assert_int_equal(instr_at(g->module, first(&b, g, "t", 0))->op, OP_CONSTANT);
    assert_int_equal(instr_at(g->module, first(&b, g, "p", 0))->op, OP_PARAMETER);
    assert_int_equal(removed(&b, g, "s"), REMOVED_ZERO_SIZED);
    graph_free(g);
    bed_free(&b);
}

static void test_conditional(void **state)
{
    (void)state;
    struct bed b;
    struct graph *g = prepared(&b, "HloModule m\nyes {\n a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a)\n}\n"
                                   "no {\n ROOT x = f32[8] parameter(0)\n}\n"
                                   "ENTRY e {\n s = pred[] parameter(0)\n p = f32[8] parameter(1)\n"
                                   " c = f32[8] conditional(s, p, p), true_computation=yes, false_computation=no\n"
                                   " ROOT o = f32[8] abs(c)\n}\n");
    const struct module *m = g->module;
    instr_id c = first(&b, g, "c", 0), o = first(&b, g, "o", 0);
    assert_int_equal(instr_at(m, c)->op, OP_CONDITIONAL);
    assert_int_equal(instr_shape(m, c)->kind, SHAPE_TUPLE);
    assert_int_equal(instr_shape(m, instr_operand(m, c, 1))->kind, SHAPE_TUPLE);
    assert_int_equal(instr_at(m, instr_operand(m, o, 0))->op, OP_GET_TUPLE_ELEMENT);
    assert_true(instr_operand(m, instr_operand(m, o, 0), 0).i == c.i);
    struct diag *d = diag_new();
    assert_true(module_verify(m, d));
    diag_free(d);
    graph_free(g);
    bed_free(&b);
}

static void test_off_is_a_copy(void **state)
{
    (void)state;
    struct bed b;
    bed_load(&b, nested);
    struct graph *g = graph_prepare(b.module, false, NULL, b.diag);
    assert_non_null(g);
    assert_int_equal(module_ninstrs(g->module), module_ninstrs(b.module));
    for (uint32_t k = 1; k <= module_ninstrs(b.module); k++)
        assert_int_equal(g->start[k + 1] - g->start[k], 1);
    graph_free(g);
    bed_free(&b);
}

/* Twenty levels of two calls each would be a million copies of the innermost. */
static void test_too_many_copies(void **state)
{
    (void)state;
    struct bed b;
    char *text = malloc(1 << 16);
    int n = sprintf(text, "HloModule m\nf0 {\n a0 = f32[] parameter(0)\n ROOT r0 = f32[] negate(a0)\n}\n");
    for (int k = 1; k < 40; k++)
        n += sprintf(text + n, "f%d {\n a%d = f32[] parameter(0)\n b%d = f32[] call(a%d), to_apply=f%d\n ROOT r%d = f32[] call(b%d), to_apply=f%d\n}\n",
                     k, k, k, k, k - 1, k, k, k - 1);
    sprintf(text + n, "ENTRY e {\n p = f32[] parameter(0)\n ROOT o = f32[] call(p), to_apply=f39\n}\n");
    bed_load(&b, text);
    assert_null(graph_prepare(b.module, true, NULL, b.diag));
    assert_int_equal(b.diag->nerrors, 1);
    free(text);
    bed_free(&b);
}

/* ---- annotations ---------------------------------------------------------------------------------------- */

static const char model[] =
    "HloModule m, allow_spmd_sharding_propagation_to_parameters={true}, allow_spmd_sharding_propagation_to_output={true}, num_partitions=4\n"
    "ENTRY e {\n p = f32[8,8] parameter(0)\n q = f32[8,8] parameter(1)\n h = f32[8,8] add(p, q)\n"
    " s = f32[8,8] custom-call(h), custom_call_target=\"Sharding\", sharding={devices=[4,1]<=[4]}, backend_config=\"unspecified_dims=[1]\"\n"
    " k = f32[8,8] exponential(s)\n t = (f32[8,8], f32[8,8]) tuple(k, h)\n"
    " b = (f32[8,8], f32[8,8]) opt-barrier(t)\n g = f32[8,8] get-tuple-element(b), index=1\n"
    " ROOT o = (f32[8,8], f32[8,8]) tuple(g, k)\n}\n";

struct annotated_bed {
    struct bed b;
    struct annotated *a;
    struct str text;
};

static void annotate_one(struct annotated_bed *t, enum annotation_kind kind, const char *target, int64_t leaf,
                         const char *sharding, uint64_t open, bool unshard_module)
{
    bed_load(&t->b, model);
    struct annotation x = { .kind = kind, .leaf = leaf, .open = open };
    if (target)
        x.target = bed_named(t->b.module, target, strlen(target));
    if (sharding)
        x.sharding = bed_sharding(&t->b, sharding, strlen(sharding));
    t->a = annotate(t->b.module, target ? 1 : 0, &x, unshard_module, t->b.diag);
    t->text = STR_IN(&t->b.arena);
    if (!t->a)
        return;
    struct hlo_print_options o = { 0 };
    assert_true(hlo_print(t->a->module, &o, &t->text));
    assert_true(module_verify(t->a->module, t->b.diag));
}

static void annotated_done(struct annotated_bed *t)
{
    annotated_free(t->a);
    bed_free(&t->b);
}

static void has(const struct annotated_bed *t, const char *what)
{
    if (!strstr(t->text.s, what))
        print_message("`%s` is not in\n%s\n", what, t->text.s);
    assert_non_null(strstr(t->text.s, what));
}

static void has_not(const struct annotated_bed *t, const char *what)
{
    assert_null(strstr(t->text.s, what));
}

static void test_shard_parameter(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_SHARD, "q", -1, "{devices=[1,4]<=[4]}", 0, false);
    has(&t, "q = f32[8,8] parameter(1), sharding={devices=[1,4]<=[4]}");
    has(&t, "propagation_to_parameters={true,false}");
    has(&t, "propagation_to_output={true}");
    annotated_done(&t);
}

static void test_shard_output_leaf(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_SHARD, "o", 1, "{devices=[1,4]<=[4]}", 0, false);
    has(&t, "tuple(g, k), sharding={{unknown}, {devices=[1,4]<=[4]}}");
    has(&t, "propagation_to_output={true,false}");
    annotated_done(&t);
}

static void test_constrain(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_CONSTRAIN, "h", -1, "{devices=[1,4]<=[4]}", 1, false);
    const char *call = strstr(t.text.s, "custom-call(h), custom_call_target=\"Sharding\", sharding={devices=[1,4]<=[4]}");
    assert_non_null(call);
    has(&t, "backend_config=\"unspecified_dims=[0]\"");
    assert_true(call < strstr(t.text.s, " k = "));         /* behind h, in front of its users */
    assert_null(strstr(t.text.s, "tuple(k, h)"));          /* every user was turned */
    uint32_t n = module_ninstrs(t.a->module);
    assert_int_equal(n, module_ninstrs(t.b.module) + 1);
    assert_int_equal(t.a->annotation_of[n], 0);
    assert_int_equal(t.a->annotation_of[1], -1);
    annotated_done(&t);
}

static void test_constrain_root(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_CONSTRAIN, "o", -1, "{replicated}", 0, false);
    has(&t, "ROOT ");
    assert_non_null(strstr(strstr(t.text.s, "ROOT "), "custom-call(o)"));
    annotated_done(&t);
}

static void test_leaves(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_SHARD, "t", 0, "{devices=[1,4]<=[4]}", 0, false); /* a tuple: its operand */
    has(&t, "k = f32[8,8] exponential(s), sharding={devices=[1,4]<=[4]}");
    annotated_done(&t);
    annotate_one(&t, ANNOTATE_SHARD, "b", 1, "{devices=[1,4]<=[4]}", 0, false); /* else behind the element */
    has(&t, "custom-call(g), custom_call_target=\"Sharding\", sharding={devices=[1,4]<=[4]}");
    has(&t, "tuple(custom-call");
    annotated_done(&t);
    annotate_one(&t, ANNOTATE_SHARD, "b", 0, "{devices=[1,4]<=[4]}", 0, false); /* nobody takes it out */
    assert_null(t.a);
    assert_int_equal(t.b.diag->nerrors, 1);
    annotated_done(&t);
}

static void test_sharding_call(void **state)
{
    (void)state;
    struct annotated_bed t;
    annotate_one(&t, ANNOTATE_SHARD, "s", -1, "{devices=[1,4]<=[4]}", 0, false);
    has(&t, "sharding={devices=[1,4]<=[4]}");
    has_not(&t, "unspecified_dims");
    annotated_done(&t);
    annotate_one(&t, ANNOTATE_UNSHARD, "s", -1, NULL, 0, false);
    has(&t, "s = f32[8,8] copy(h)");
    annotated_done(&t);
    annotate_one(&t, ANNOTATE_SHARD, NULL, -1, NULL, 0, true);
    has_not(&t, "sharding={");
    has_not(&t, "\"Sharding\"");
    annotated_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inlining),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_call_sharding_goes_to_root),
        cmocka_unit_test(test_zero_sized),
        cmocka_unit_test(test_conditional),
        cmocka_unit_test(test_off_is_a_copy),
        cmocka_unit_test(test_too_many_copies),
        cmocka_unit_test(test_shard_parameter),
        cmocka_unit_test(test_shard_output_leaf),
        cmocka_unit_test(test_constrain),
        cmocka_unit_test(test_constrain_root),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_sharding_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
