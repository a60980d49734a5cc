/* The verifier: each fault by itself, its message and place; long chains without recursion. */
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

static comp_id entry(struct world *w)
{
    comp_id c = comp(w, "main");
    set_entry(w, c);
    return c;
}

/* Refused, with exactly one message, which says all of the parts. */
static void refused(struct world *w, const char *const *parts, const char *code)
{
    diag_clear(w->d);
    assert_false(module_verify(w->m, w->d));
    for (; *parts; parts++)
        assert_says(w, *parts);
    assert_string_equal(w->d->msgs.v[0].code, code);
    if (w->d->msgs.n != 1)
        fail_msg("%d messages; the second is %s", (int)w->d->msgs.n, message(w, 1));
}

#define REFUSED(w, code, ...) refused((w), (const char *const[]){ __VA_ARGS__, NULL }, code)

static void accepted(struct world *w)
{
    diag_clear(w->d);
    if (!module_verify(w->m, w->d))
        fail_msg("refused: %s", message(w, 0));
    assert_int_equal(w->d->msgs.n, 0);
}

static comp_id small(struct world *w)
{
    comp_id c = entry(w);
    (void)put_param(w, c, "x", 0, "f32[8,4]");
    (void)put_param(w, c, "y", 1, "f32[8,4]");
    (void)put_named(w, c, "z", "add", "f32[8,4]", "x y", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    return c;
}

static void test_good(void **state)
{
    struct world *w = *state;
    (void)small(w);
    accepted(w);
    assert_true(module_verify(w->m, NULL));
}

static void test_no_entry(void **state)
{
    struct world *w = *state;
    (void)small(w);
    w->m->entry = (comp_id){ 0 };
    REFUSED(w, "verify", "no entry computation");
}

static void test_declared_shape(void **state)
{
    struct world *w = *state;
    comp_id c = small(w);
    instr_at(w->m, find(w, c, "z"))->shape = shape(w, "f32[8,5]");
    REFUSED(w, "verify", "add 'z'", "given as f32[8,5]", "makes f32[8,4] from f32[8,4] and f32[8,4]");
    instr_at(w->m, find(w, c, "z"))->shape = shape(w, "f16[8,4]");
    REFUSED(w, "verify", "f16[8,4]");
    instr_at(w->m, find(w, c, "z"))->shape = shape(w, "f32[<=8,4]{0,1}");
    accepted(w); /* neither layouts nor bounds are compared */
    instr_at(w->m, find(w, c, "z"))->shape = (shape_id){ 0 };
    REFUSED(w, "verify", "has no shape");
}

/* The message points at the name in the text. */
static void test_place(void **state)
{
    struct world *w = *state;
    static const char text[] = "main {\n  ROOT z = f32[8,5] add(x, y)\n}\n";
    struct source src = { "a.hlo", text, sizeof text - 1 };
    comp_id c = small(w);
    struct instr *z = instr_at(w->m, find(w, c, "z"));
    z->shape = shape(w, "f32[8,5]");
    z->at = (struct span){ (uint32_t)(strstr(text, "z =") - text), 1 };
    w->m->source = &src;
    diag_clear(w->d);
    assert_false(module_verify(w->m, w->d));
    w->m->source = NULL;
    const struct diag_msg *m = &w->d->msgs.v[0];
    assert_string_equal(m->file, "a.hlo");
    assert_int_equal(m->line, 2);
    assert_int_equal(m->column, 8);
    assert_non_null(strstr(m->quote, "ROOT z = f32[8,5]"));
}

static void test_parameters(void **state)
{
    struct world *w = *state;
    comp_id c = small(w);
    struct attr k = attr_int(ATTR_INDEX, 0);
    struct instr *y = instr_at(w->m, find(w, c, "y"));
    y->attrs = &k;
    diag_clear(w->d);
    assert_false(module_verify(w->m, w->d));
    assert_says(w, "parameter 'y': number 0 is already that of 'x'");
    assert_says(w, "'main' has no parameter 1");
    k.i = 2;
    diag_clear(w->d);
    assert_false(module_verify(w->m, w->d));
    assert_says(w, "parameter 'y': has number 2, but computation 'main' has 2 parameters");
    assert_says(w, "'main' has no parameter 1");
    k.i = 1;
    accepted(w);
}

static void test_references(void **state)
{
    struct world *w = *state;
    comp_id other = comp(w, "other");
    instr_id far = put_param(w, other, "far", 0, "f32[8,4]");
    comp_finish(w->m, other, (instr_id){ 0 });
    comp_id c = small(w);
    instr_id *ops = (instr_id *)(uintptr_t)instr_at(w->m, find(w, c, "z"))->operands;
    instr_id y = ops[1];
    ops[1] = far;
    REFUSED(w, "verify", "add 'z': operand 1, 'far', belongs to another computation, 'other'");
    ops[1] = (instr_id){ 999 };
    REFUSED(w, "verify", "operand 1 is not defined");
    ops[1] = (instr_id){ 0 };
    REFUSED(w, "verify", "operand 1 is not defined");
    ops[1] = y;
    accepted(w);
    comp_at(w->m, c)->root = far;
    REFUSED(w, "verify", "'main' has no root");
}

static void test_listed_twice(void **state)
{
    struct world *w = *state;
    comp_id c = small(w);
    const struct computation *k = comp_at(w->m, c);
    instr_id list[4] = { k->instrs[0], k->instrs[1], k->instrs[2], k->instrs[1] };
    comp_set_instrs(w->m, c, 4, list, k->root);
    REFUSED(w, "verify", "listed twice");
    comp_set_instrs(w->m, c, 0, NULL, (instr_id){ 0 });
    REFUSED(w, "verify", "computation 'main' is empty");
}

/* ---- cycles ------------------------------------------------------------------------------------- */

/* y = negate(z), z = negate(y), and longer ones. */
static void cycle(struct world *w, int n)
{
    comp_id c = entry(w);
    instr_id x = put_param(w, c, "x", 0, "f32[2]"), last = x;
    instr_id first = { 0 };
    for (int k = 0; k < n; k++) {
        last = instr_new(w->m, c, OP_NEGATE, shape(w, "f32[2]"), 1, &last, 0, NULL);
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", k);
        instr_at(w->m, last)->name = name_put(w->c, name, strlen(name));
        if (k == 0)
            first = last;
    }
    ((instr_id *)(uintptr_t)instr_at(w->m, first)->operands)[0] = last;
    comp_finish(w->m, c, (instr_id){ 0 });
}

static void test_needs_itself(void **state)
{
    struct world *w = *state;
    cycle(w, 1);
    REFUSED(w, "verify", "negate 'n0' needs itself: it is its own operand");
}

static void test_circle(void **state)
{
    struct world *w = *state;
    cycle(w, 3);
    REFUSED(w, "verify", "needs itself: n0 -> n2 -> n1 -> n0");
}

static void test_long_circle(void **state)
{
    struct world *w = *state;
    cycle(w, 300000);
    REFUSED(w, "verify", "needs itself", "...");
}

static void test_control_circle(void **state)
{
    struct world *w = *state;
    comp_id c = entry(w);
    (void)put_param(w, c, "x", 0, "f32[2]");
    instr_id a = put_named(w, c, "a", "negate", "f32[2]", "x", "");
    instr_id b = put_named(w, c, "b", "negate", "f32[2]", "x", "control-predecessors={a}");
    comp_finish(w->m, c, (instr_id){ 0 });
    accepted(w);
    struct attr back = attr_int(ATTR_CONTROL_PREDECESSORS, 0);
    back.n = 1;
    back.instrs = &b;
    instr_at(w->m, a)->attrs = &back;
    instr_at(w->m, a)->nattrs = 1;
    REFUSED(w, "verify", "needs itself: a -> b -> a");
}

/* Definitions in any order are fine as long as nothing needs itself. */
static void test_forward_reference(void **state)
{
    struct world *w = *state;
    comp_id c = small(w);
    const struct computation *k = comp_at(w->m, c);
    instr_id list[3] = { k->instrs[2], k->instrs[1], k->instrs[0] };
    comp_set_instrs(w->m, c, 3, list, k->root);
    accepted(w);
}

static void calls(struct world *w, int n)
{
    comp_id first = { 0 }, c = { 0 };
    for (int k = 0; k < n; k++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", k);
        c = comp(w, name);
        if (k == 0)
            first = c;
        instr_id x = put_param(w, c, "x", 0, "f32[2]");
        struct attr to = attr_comp(ATTR_TO_APPLY, (comp_id){ c.i + 1 });
        if (k == n - 1)
            to.comp = first;
        (void)instr_new(w->m, c, OP_CALL, shape(w, "f32[2]"), 1, &x, 1, &to);
        comp_finish(w->m, c, (instr_id){ 0 });
    }
    set_entry(w, first);
}

static void test_calls_itself(void **state)
{
    struct world *w = *state;
    calls(w, 1);
    REFUSED(w, "verify", "computation 'f0' calls itself: f0 -> f0");
}

static void test_calls_in_circle(void **state)
{
    struct world *w = *state;
    calls(w, 50000);
    REFUSED(w, "verify", "calls itself: f0 -> f1", "...");
}

static void test_call_of_nothing(void **state)
{
    struct world *w = *state;
    comp_id c = entry(w);
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_named(w, c, "y", "call", "f32[2]", "x", "to_apply=nowhere");
    comp_finish(w->m, c, (instr_id){ 0 });
    REFUSED(w, "verify", "call 'y': the computation of to_apply= is not defined");
}

/* ---- constants, devices ------------------------------------------------------------------------- */

static void test_constants(void **state)
{
    struct world *w = *state;
    comp_id c = entry(w);
    instr_id k = put_const(w, c, "k", "f32[]", 2);
    comp_finish(w->m, c, (instr_id){ 0 });
    accepted(w);
    instr_at(w->m, k)->shape = shape(w, "f32[1]");
    REFUSED(w, "verify", "constant 'k'", "f32[1]", "its value is f32[]");
    instr_at(w->m, k)->literal = NULL;
    REFUSED(w, "verify", "constant 'k' has no value");
}

static void collective(struct world *w, const char *op, const char *attrs)
{
    module_free(w->m);
    w->m = module_new(w->c, name_put(w->c, "m", 1));
    w->m->num_partitions = 4;
    (void)put_scalar_function(w, "sum", "add", "f32[]", "f32[]", "");
    comp_id c = entry(w);
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_named(w, c, "y", op, "f32[2]", "x", attrs);
    comp_finish(w->m, c, (instr_id){ 0 });
}

static void test_groups(void **state)
{
    struct world *w = *state;
    collective(w, "all-reduce", "replica_groups={{0,1},{2,3}} to_apply=sum");
    accepted(w);
    collective(w, "all-reduce", "replica_groups=[2,2] to_apply=sum");
    accepted(w);
    collective(w, "all-reduce", "replica_groups={} to_apply=sum");
    accepted(w);
    collective(w, "all-reduce", "replica_groups={{0,1},{2,4}} to_apply=sum");
    REFUSED(w, "verify", "all-reduce 'y'", "device 4 does not exist", "4 devices");
    collective(w, "all-reduce", "replica_groups={{0,1},{2,-1}} to_apply=sum");
    REFUSED(w, "verify", "device -1 does not exist");
    collective(w, "all-reduce", "replica_groups={{0,1},{2,1}} to_apply=sum");
    REFUSED(w, "verify", "device 1 occurs twice");
    collective(w, "all-reduce", "replica_groups=[2,4] to_apply=sum");
    REFUSED(w, "verify", "device 7 does not exist");
    w->m->num_partitions = 0; /* the header is silent */
    accepted(w);
}

static void test_pairs(void **state)
{
    struct world *w = *state;
    collective(w, "collective-permute", "source_target_pairs={{0,1},{1,0},{3,3}}");
    accepted(w);
    collective(w, "collective-permute", "source_target_pairs={{0,1},{0,2}}");
    REFUSED(w, "verify", "source device 0 occurs twice");
    collective(w, "collective-permute", "source_target_pairs={{0,1},{2,1}}");
    REFUSED(w, "verify", "target device 1 occurs twice");
    collective(w, "collective-permute", "source_target_pairs={{0,4}}");
    REFUSED(w, "verify", "target device 4 does not exist");
}

static sharding_id tiled(struct world *w, int n, const int64_t *dims)
{
    int64_t total = 1;
    for (int d = 0; d < n; d++)
        total *= dims[d];
    struct shardings *t = w->c->shardings;
    return sharding_plain(t, tiling_make(t, n, dims, order_iota(t, total)));
}

#define TILED(w, ...)                                                                              \
    tiled((w), (int)(sizeof(int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

static void test_shardings(void **state)
{
    struct world *w = *state;
    w->m->num_partitions = 8;
    comp_id c = small(w);
    struct instr *x = instr_at(w->m, find(w, c, "x"));
    struct shardings *t = w->c->shardings;
    x->sharding = TILED(w, 4, 2);
    accepted(w);
    x->sharding = TILED(w, 8);
    REFUSED(w, "shard", "parameter 'x': sharding of f32[8,4]", "1", "2");
    x->sharding = TILED(w, 4, 4);
    REFUSED(w, "shard", "parameter 'x'", "16", "8");
    x->sharding = sharding_maximal(t, 7);
    accepted(w);
    x->sharding = sharding_maximal(t, 9); /* P-23 lets it pass, XLA does not */
    REFUSED(w, "shard", "device 9 does not exist");
    x->sharding = sharding_tuple_of(t, 2, sharding_replicated(t));
    REFUSED(w, "shard", "2 shardings for a value that is no tuple");
    x->sharding = sharding_manual(t);
    accepted(w);
    x->shape = shape(w, "f32[]");
    x->sharding = TILED(w, 8);
    diag_clear(w->d);
    assert_false(module_verify(w->m, w->d));
    assert_says(w, "sharding of f32[]");
}

static void test_tuple_shardings(void **state)
{
    struct world *w = *state;
    w->m->num_partitions = 8;
    comp_id c = entry(w);
    struct shardings *t = w->c->shardings;
    instr_id x = put_param(w, c, "x", 0, "(f32[8,4], (f32[8], token[]))");
    comp_finish(w->m, c, (instr_id){ 0 });
    sharding_id leaves[3] = { TILED(w, 8, 1), TILED(w, 8), sharding_replicated(t) };
    struct instr *in = instr_at(w->m, x);
    in->sharding = sharding_tuple(t, 3, leaves);
    accepted(w);
    in->sharding = sharding_tuple(t, 2, leaves);
    REFUSED(w, "shard", "2 shardings for the 3 leaves");
    leaves[1] = leaves[0];
    in->sharding = sharding_tuple(t, 3, leaves);
    REFUSED(w, "shard", "leaf 1 of its tuple, f32[8]");
    leaves[1] = sharding_replicated(t);
    leaves[2] = leaves[0];
    in->sharding = sharding_tuple(t, 3, leaves);
    REFUSED(w, "shard", "leaf 2 of its tuple, token[]");
    in->shape = shape(w, "((), ())");
    in->sharding = sharding_tuple_of(t, 1, sharding_replicated(t)); /* P-2 */
    accepted(w);
}

static void test_outfeed_sharding(void **state)
{
    struct world *w = *state;
    w->m->num_partitions = 2;
    comp_id c = entry(w);
    struct shardings *t = w->c->shardings;
    (void)put_param(w, c, "x", 0, "(f32[8], f32[2])");
    (void)put_named(w, c, "t", "after-all", "token[]", "", "");
    instr_id o = put_named(w, c, "o", "outfeed", "token[]", "x t", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    sharding_id leaves[3] = { TILED(w, 2), TILED(w, 2), sharding_maximal(t, 0) };
    instr_at(w->m, o)->sharding = sharding_tuple(t, 3, leaves);
    accepted(w);
    leaves[1] = TILED(w, 2, 1);
    instr_at(w->m, o)->sharding = sharding_tuple(t, 3, leaves);
    REFUSED(w, "shard", "leaf 1 of its tuple, f32[2]");
}

static void test_annotation_without_sharding(void **state)
{
    struct world *w = *state;
    comp_id c = entry(w);
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_named(w, c, "y", "custom-call", "f32[2]", "x", "custom_call_target=\"Sharding\"");
    comp_finish(w->m, c, (instr_id){ 0 });
    REFUSED(w, "shard", "custom-call 'y'", "needs sharding=");
}

static void test_shardy_mesh(void **state)
{
    struct world *w = *state;
    static const char text[] = "xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"x\\\"}, {}]>\"";
    static const char one[] = "{xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=4]>}}";
    static const char two[] = "{xla.sdy.meshes={mesh_2 = #sdy.mesh<[\"x\"=4]>}}";
    comp_id c = small(w);
    struct instr *x = instr_at(w->m, find(w, c, "x"));
    x->frontend = text;
    x->frontend_len = sizeof text - 1;
    struct header_attr h = { name_put(w->c, "frontend_attributes", 19), one, sizeof one - 1 };
    w->m->header = &h;
    w->m->nheader = 1;
    accepted(w);
    h.text = two;
    h.len = sizeof two - 1;
    diag_clear(w->d);
    assert_true(module_verify(w->m, w->d)); /* a warning */
    assert_int_equal(w->d->msgs.n, 1);
    assert_int_equal(w->d->msgs.v[0].severity, DIAG_WARNING);
    assert_says(w, "parameter 'x'");
    assert_says(w, "'mesh'");
}

/* Many faults: all are counted, the first ones kept. */
static void test_many_errors(void **state)
{
    struct world *w = *state;
    comp_id c = entry(w);
    instr_id x = put_param(w, c, "x", 0, "f32[2]");
    for (int k = 0; k < 100; k++)
        (void)instr_new(w->m, c, OP_NEGATE, shape(w, "f32[3]"), 1, &x, 0, NULL);
    comp_finish(w->m, c, (instr_id){ 0 });
    assert_false(module_verify(w->m, w->d));
    assert_int_equal(w->d->nerrors, 100);
    assert_true(w->d->msgs.n <= 21);
    assert_says(w, "negate (instruction 2)"); /* no name: told by number */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_good), T(test_no_entry), T(test_declared_shape), T(test_place), T(test_parameters),
        T(test_references), T(test_listed_twice), T(test_needs_itself), T(test_circle),
        T(test_long_circle), T(test_control_circle), T(test_forward_reference), T(test_calls_itself),
        T(test_calls_in_circle), T(test_call_of_nothing), T(test_constants), T(test_groups),
        T(test_pairs), T(test_shardings), T(test_tuple_shardings), T(test_outfeed_sharding),
        T(test_annotation_without_sharding), T(test_shardy_mesh), T(test_many_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
