/* Users, post-order against a direct transcription, call order, elementwise, side effects, modules
 * compared and copied. */
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

/* ---- random graphs ------------------------------------------------------------------------------ */

enum { SIZE = 40 };

/* Operands may repeat; some instructions are collectives of few channels, some wait for others. */
static comp_id random_graph(struct world *w, uint64_t *seed)
{
    comp_id c = comp(w, "g");
    instr_id made[SIZE];
    int n = 2 + (int)(next_random(seed) % (SIZE - 2));
    for (int k = 0; k < n; k++) {
        instr_id ops[4];
        struct attr at[2];
        int nops = k ? (int)(next_random(seed) % 4) : 0, nat = 0;
        for (int o = 0; o < nops; o++)
            ops[o] = made[next_random(seed) % (uint64_t)k];
        enum op_kind op = OP_TUPLE;
        if (next_random(seed) % 4 == 0) {
            op = next_random(seed) % 2 ? OP_ALL_REDUCE : OP_ALL_TO_ALL;
            at[nat++] = attr_int(ATTR_CHANNEL_ID, (int64_t)(next_random(seed) % 3));
        }
        if (k && next_random(seed) % 5 == 0) {
            instr_id *ctl = ARENA_ARRAY(&w->m->arena, instr_id, 2);
            struct attr a = attr_int(ATTR_CONTROL_PREDECESSORS, 0);
            a.n = 1 + (uint32_t)(next_random(seed) % 2);
            for (uint32_t o = 0; o < a.n; o++)
                ctl[o] = made[next_random(seed) % (uint64_t)k];
            a.instrs = ctl;
            at[nat++] = a;
        }
        made[k] = instr_new(w->m, c, op, shape(w, "f32[]"), nops, ops, nat, at);
    }
    comp_finish(w->m, c, (instr_id){ 0 });
    return c;
}

static void test_users(void **state)
{
    struct world *w = *state;
    uint64_t seed = 1;
    for (int round = 0; round < 50; round++)
        (void)random_graph(w, &seed);
    struct users u;
    users_make(w->m, &w->a, &u);
    for (uint32_t i = 1; i <= module_ninstrs(w->m); i++) {
        uint32_t n = 0;
        for (uint32_t k = 1; k <= module_ninstrs(w->m); k++) { /* text order, each once */
            const struct instr *in = instr_at(w->m, (instr_id){ k });
            bool uses = false;
            for (uint32_t o = 0; o < in->noperands; o++)
                uses |= in->operands[o].i == i;
            if (!uses)
                continue;
            assert_true(n < users_count(&u, (instr_id){ i }));
            assert_int_equal(users_of(&u, (instr_id){ i })[n++].i, k);
        }
        assert_int_equal(n, users_count(&u, (instr_id){ i }));
    }
}

/* ---- post-order, P-55 and P-56 word by word ------------------------------------------------------ */

struct naive {
    const struct module *m;
    const struct computation *c;
    int mark[4096]; /* 0 new, 1 open, 2 done */
    instr_id stack[1 << 16];
    int depth;
    instr_id out[SIZE];
    uint32_t n;
};

static bool collective_channel(const struct instr *in, int64_t *channel)
{
    *channel = instr_int(in, ATTR_CHANNEL_ID, -1);
    return *channel >= 0;
}

static void naive_push(struct naive *s, instr_id i)
{
    if (s->mark[i.i] != 2)
        s->stack[s->depth++] = i;
}

static void naive_walk(struct naive *s, instr_id start)
{
    naive_push(s, start);
    while (s->depth) {
        instr_id top = s->stack[s->depth - 1];
        const struct instr *in = instr_at(s->m, top);
        if (s->mark[top.i]) {
            s->depth--;
            if (s->mark[top.i] == 1) {
                s->mark[top.i] = 2;
                s->out[s->n++] = top;
            }
            continue;
        }
        s->mark[top.i] = 1;
        int64_t mine, other;
        bool is_start = s->depth == 1;
        for (uint32_t k = 0; !is_start && collective_channel(in, &mine) && k < s->c->ninstrs; k++) {
            instr_id p = s->c->instrs[k];
            if (p.i != top.i && collective_channel(instr_at(s->m, p), &other) && other == mine)
                naive_push(s, p);
        }
        for (uint32_t o = in->noperands; o-- > 0;)
            naive_push(s, in->operands[o]);
        const struct attr *ctl = instr_attr(in, ATTR_CONTROL_PREDECESSORS);
        for (uint32_t o = 0; ctl && o < ctl->n; o++)
            naive_push(s, ctl->instrs[o]);
    }
}

/* Each operand before its user; XLA's own walk fails at that where a channel's members make one another. */
static bool operands_first(const struct module *m, const instr_id *order, uint32_t n)
{
    bool *met = calloc((size_t)module_ninstrs(m) + 1, sizeof *met), good = true;
    assert_non_null(met);
    for (uint32_t k = 0; k < n; k++) {
        const struct instr *in = instr_at(m, order[k]);
        for (uint32_t o = 0; o < in->noperands; o++)
            good &= met[in->operands[o].i];
        met[order[k].i] = true;
    }
    free(met);
    return good;
}

static void test_post_order(void **state)
{
    struct world *w = *state;
    uint64_t seed = 7;
    int full = 0, chains = 0;
    for (int round = 0; round < 3000; round++) {
        module_free(w->m);
        w->m = module_new(w->c, name_put(w->c, "m", 1));
        comp_id c = random_graph(w, &seed);
        struct arena a = { 0 };
        struct users u;
        users_make(w->m, &a, &u);
        uint32_t n;
        const instr_id *got = comp_post_order(w->m, c, &u, &a, &n);
        struct naive *s = calloc(1, sizeof *s);
        assert_non_null(s);
        s->m = w->m;
        s->c = comp_at(w->m, c);
        for (uint32_t k = 0; k < s->c->ninstrs; k++)
            if (users_count(&u, s->c->instrs[k]) == 0)
                naive_walk(s, s->c->instrs[k]);
        assert_int_equal(n, s->n);
        assert_true(operands_first(w->m, got, n));
        if (operands_first(w->m, s->out, n))
            assert_memory_equal(got, s->out, n * sizeof *got);
        else
            chains++;
        full += n == s->c->ninstrs;
        free(s);
        arena_free(&a);
    }
    assert_int_equal(full, 3000);
    assert_true(chains > 0 && chains < 1500);
}

/* a chain of 200,000; 100,000 collectives of one channel: neither stack nor time runs away. */
static void test_post_order_large(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "chain");
    instr_id x = put_param(w, c, "x", 0, "f32[2]"), last = x;
    for (int k = 0; k < 200000; k++)
        last = instr_new(w->m, c, OP_NEGATE, shape(w, "f32[2]"), 1, &last, 0, NULL);
    comp_finish(w->m, c, (instr_id){ 0 });
    comp_id d = comp(w, "channel");
    instr_id y = put_param(w, d, "y", 0, "f32[2]");
    struct attr channel = attr_int(ATTR_CHANNEL_ID, 1);
    instr_id *all = calloc(100000, sizeof *all);
    assert_non_null(all);
    for (int k = 0; k < 100000; k++)
        all[k] = instr_new(w->m, d, OP_ALL_REDUCE, shape(w, "f32[2]"), 1, &y, 1, &channel);
    (void)instr_new(w->m, d, OP_TUPLE, shape(w, "f32[2]"), 100000, all, 0, NULL);
    free(all);
    comp_finish(w->m, d, (instr_id){ 0 });
    struct users u;
    users_make(w->m, &w->a, &u);
    uint32_t n;
    const instr_id *order = comp_post_order(w->m, c, &u, &w->a, &n);
    assert_int_equal(n, 200001);
    assert_int_equal(order[0].i, x.i);
    assert_int_equal(order[n - 1].i, last.i);
    (void)comp_post_order(w->m, d, &u, &w->a, &n);
    assert_int_equal(n, 100002);
}

/* An operand chain in a circle has no end to start from, and must not hang the walk. */
static void test_post_order_of_cycle(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "c");
    instr_id x = put_param(w, c, "x", 0, "f32[2]");
    instr_id a = put_named(w, c, "a", "negate", "f32[2]", "x", "");
    instr_id b = put_named(w, c, "b", "negate", "f32[2]", "a", "");
    ((instr_id *)(uintptr_t)instr_at(w->m, a)->operands)[0] = b;
    comp_finish(w->m, c, (instr_id){ 0 });
    struct users u;
    users_make(w->m, &w->a, &u);
    uint32_t n;
    const instr_id *order = comp_post_order(w->m, c, &u, &w->a, &n);
    assert_int_equal(n, 1);
    assert_int_equal(order[0].i, x.i);
}

/* ---- calls -------------------------------------------------------------------------------------- */

static comp_id caller(struct world *w, const char *name, const char *attrs)
{
    comp_id c = comp(w, name);
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_named(w, c, "r", "custom-call", "f32[]", "x", attrs);
    comp_finish(w->m, c, (instr_id){ 0 });
    return c;
}

static void test_call_order(void **state)
{
    struct world *w = *state;
    comp_id leaf = caller(w, "leaf", "");
    comp_id unused = caller(w, "unused", "to_apply=leaf");
    comp_id top = comp(w, "top");
    comp_id mid = caller(w, "mid", "called_computations={leaf,leaf}");
    (void)put_param(w, top, "x", 0, "f32[]");
    (void)put_named(w, top, "r", "custom-call", "f32[]", "x", "to_apply=leaf calls=mid");
    comp_finish(w->m, top, (instr_id){ 0 });
    set_entry(w, top);
    uint32_t n;
    const comp_id *o = module_call_order(w->m, false, &w->a, &n);
    assert_int_equal(n, 3);
    assert_int_equal(o[0].i, leaf.i);
    assert_int_equal(o[1].i, mid.i);
    assert_int_equal(o[2].i, top.i);
    o = module_call_order(w->m, true, &w->a, &n);
    assert_int_equal(n, 4);
    assert_int_equal(o[0].i, leaf.i);
    assert_int_equal(o[1].i, unused.i);
    assert_int_equal(o[3].i, top.i);
    comp_id called[1];
    assert_int_equal(instr_called(w->m, find(w, mid, "r"), called, 1), 2);
    assert_int_equal(called[0].i, leaf.i);
}

/* ---- elementwise, side effects ------------------------------------------------------------------ */

static void test_elementwise(void **state)
{
    static const struct {
        const char *op, *operand, *result, *attrs;
        bool is;
    } cases[] = {
        { "exponential", "f32[2]", "f32[2]", "", true },
        { "copy", "f32[2]", "f32[2]", "", true },
        { "bitcast-convert", "f32[2]", "s32[2]", "", true },
        { "bitcast-convert", "f32[2]", "u8[2,4]", "", false },
        { "map", "f32[2]", "f32[2]", "dimensions={0}", true },
        { "map", "f32[2]", "f32[2]", "", true },
        { "map", "f32[2,2]", "f32[2,2]", "dimensions={1,0}", false },
        { "broadcast", "f32[]", "f32[2]", "", false },
        { "tuple", "f32[]", "(f32[])", "", false },
        { "fusion", "f32[2]", "f32[2]", "calls=inner", true },
        { "fusion", "f32[2]", "f32[2]", "calls=outer", true },
        { "fusion", "f32[2]", "f32[2]", "calls=not_all", false },
        { "reshape", "f32[2]", "f32[1,2]", "", false },
        { "reduce-precision", "f32[2]", "f32[2]", "", true },
    };
    struct world *w = *state;
    comp_id c = comp(w, "inner");
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_const(w, c, "k", "f32[]", 1);
    (void)put_named(w, c, "r", "negate", "f32[2]", "x", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "outer");
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_named(w, c, "r", "fusion", "f32[2]", "x", "calls=inner");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "not_all");
    (void)put_param(w, c, "x", 0, "f32[2]");
    (void)put_named(w, c, "y", "fusion", "f32[2]", "x", "calls=inner");
    (void)put_named(w, c, "r", "reverse", "f32[2]", "y", "dimensions={0}");
    comp_finish(w->m, c, (instr_id){ 0 });
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        c = comp(w, "c");
        (void)put_param(w, c, "x", 0, cases[k].operand);
        instr_id i = put_named(w, c, "y", cases[k].op, cases[k].result, "x", cases[k].attrs);
        comp_finish(w->m, c, (instr_id){ 0 });
        if (instr_is_elementwise(w->m, i) != cases[k].is)
            fail_msg("%s %s", cases[k].op, cases[k].attrs);
    }
    assert_true(op_is_elementwise_unary(OP_TANH));
    assert_false(op_is_elementwise_unary(OP_BITCAST_CONVERT));
    assert_true(op_is_elementwise_binary(OP_COMPARE));
    assert_false(op_is_elementwise_binary(OP_SELECT));
}

static void test_side_effects(void **state)
{
    static const struct {
        const char *op, *attrs;
        int partitions;
        bool acts;
    } cases[] = {
        { "rng", "", 8, true },
        { "send", "", 8, true },
        { "negate", "", 8, false },
        { "all-reduce", "channel_id=1", 8, false },
        { "all-reduce", "channel_id=1", 0, true }, /* not configured for SPMD */
        { "all-reduce", "", 0, false },
        { "all-gather", "constrain_layout=true", 8, true },
        { "collective-permute", "channel_id=1", 0, true },
        { "collective-broadcast", "", 8, true },
        { "all-gather-start", "", 8, true },
        { "custom-call", "custom_call_target=\"x\"", 8, false },
        { "custom-call", "custom_call_target=\"x\" custom_call_has_side_effect=true", 8, true },
        { "call", "to_apply=quiet", 8, false },
        { "call", "to_apply=loud", 8, true },
        { "while", "condition=quiet body=loud", 8, true },
    };
    struct world *w = *state;
    (void)caller(w, "quiet", "custom_call_target=\"x\"");
    (void)caller(w, "acts", "custom_call_has_side_effect=true");
    (void)caller(w, "loud", "to_apply=acts");
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        comp_id c = comp(w, "c");
        (void)put_param(w, c, "x", 0, "f32[]");
        instr_id i = put_named(w, c, "y", cases[k].op, "f32[]", "x", cases[k].attrs);
        comp_finish(w->m, c, (instr_id){ 0 });
        w->m->num_partitions = cases[k].partitions;
        if (instr_has_side_effect(w->m, i) != cases[k].acts)
            fail_msg("%s %s %d", cases[k].op, cases[k].attrs, cases[k].partitions);
    }
}

static void test_dot_dims(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "c");
    (void)put_param(w, c, "x", 0, "f32[7,2,5,3]");
    (void)put_param(w, c, "y", 1, "f32[3,6,2]");
    instr_id i = put_named(w, c, "z", "dot", "f32[2,7,5,6]", "x y",
                           "lhs_batch_dims={1} rhs_batch_dims={2} lhs_contracting_dims={3} "
                           "rhs_contracting_dims={0}");
    struct dot_dims d;
    instr_dot_dims(w->m, i, &d);
    assert_int_equal(d.nbatch, 1);
    assert_int_equal(d.lhs_batch[0], 1);
    assert_int_equal(d.rhs_batch[0], 2);
    assert_int_equal(d.ncontract, 1);
    assert_int_equal(d.nlhs_free, 2);
    assert_int_equal(d.lhs_free[0], 0);
    assert_int_equal(d.lhs_free[1], 2);
    assert_int_equal(d.nrhs_free, 1);
    assert_int_equal(d.rhs_free[0], 1);
}

/* ---- tables of names ---------------------------------------------------------------------------- */

static void test_tables(void **state)
{
    (void)state;
    for (int op = 1; op < OP_COUNT; op++) {
        const char *s = op_name((enum op_kind)op);
        assert_int_equal(op_find(s, strlen(s)), op);
        assert_int_equal(op_find(s, strlen(s) - 1) == (enum op_kind)op, false);
    }
    assert_int_equal(op_find("", 0), OP_NONE);
    assert_int_equal(op_find("subtrct", 7), OP_NONE);
    assert_string_equal(op_nearest("subtrct", 7), "subtract");
    assert_string_equal(op_nearest("all_reduce", 10), "all-reduce");
    assert_null(op_nearest("frobnicate", 10));
    for (int k = 1; k < ATTR_COUNT; k++) {
        const char *s = attr_name((enum attr_key)k);
        enum attr_key found = attr_find_key(s, strlen(s));
        if (k == ATTR_UNKNOWN_KEY)
            assert_int_equal(found, ATTR_NONE);
        else
            assert_string_equal(attr_name(found), s);
    }
    assert_int_equal(attr_find_key("algorithm", 9), ATTR_ALGORITHM);
}

/* ---- building, copying, comparing --------------------------------------------------------------- */

static void build(struct world *w, struct module *m, int variant)
{
    struct module *keep = w->m;
    w->m = m;
    m->num_partitions = variant == 1 ? 4 : 8;
    (void)put_scalar_function(w, "sum", variant == 2 ? "maximum" : "add", "f32[]", "f32[]", "");
    comp_id c = comp(w, "main");
    set_entry(w, c);
    (void)put_param(w, c, "x", 0, variant == 3 ? "f32[8]{0}" : "f32[8]");
    (void)put_const(w, c, "k", "f32[]", variant == 4 ? 1 : 0);
    (void)put_named(w, c, variant == 5 ? "s" : "r", "reduce", "f32[]", "x k",
                    "dimensions={0} to_apply=sum");
    instr_id g = put_named(w, c, "g", "all-reduce", "f32[]", variant == 6 ? "k" : variant == 5 ? "s" : "r",
                           variant == 7 ? "replica_groups=[4,2] to_apply=sum"
                                        : "replica_groups=[2,4] to_apply=sum");
    if (variant == 8)
        instr_at(m, g)->sharding = sharding_replicated(w->c->shardings);
    (void)put_named(w, c, "p", "collective-permute", "f32[]", "g",
                    variant == 9 ? "source_target_pairs={{0,2}}" : "source_target_pairs={{0,1}}");
    (void)put_named(w, c, "w", "reduce-window", "f32[7]", "x k",
                    variant == 10 ? "window=2,1,0,1,1,1 to_apply=sum"
                                  : "window=2,1,0,0,1,1 to_apply=sum");
    comp_finish(m, c, variant == 11 ? g : (instr_id){ 0 });
    w->m = keep;
}

static void test_equal(void **state)
{
    struct world *w = *state;
    build(w, w->m, 0);
    struct world far; /* of another context: compared by text */
    world_open(&far);
    build(&far, far.m, 0);
    assert_true(module_equal(w->m, far.m));
    for (int v = 0; v <= 11; v++) {
        struct module *m = module_new(w->c, w->m->name), *n = module_new(far.c, far.m->name);
        build(w, m, v);
        build(&far, n, v);
        if (module_equal(w->m, m) != (v == 0) || module_equal(m, w->m) != (v == 0) ||
            module_equal(w->m, n) != (v == 0) || !module_equal(m, n))
            fail_msg("variant %d", v);
        struct module *copy = module_clone(m);
        assert_true(module_equal(m, copy));
        module_free(m); /* the copy stands alone */
        assert_true(module_equal(copy, n));
        if (v == 0)
            assert_true(module_verify(copy, w->d));
        module_free(copy);
        module_free(n);
    }
    world_close(&far);
}

static void test_building(void **state)
{
    struct world *w = *state;
    comp_id a = comp(w, "a"), b = comp(w, "b"); /* under construction at the same time */
    (void)put_param(w, a, "a1", 1, "f32[]");
    (void)put_param(w, b, "b0", 0, "s32[]");
    (void)put_param(w, a, "a0", 0, "u8[]");
    instr_id *id = ARENA_NEW(&w->a, instr_id);
    struct instr *in = instr_add(w->m, b, id);
    in->op = OP_AFTER_ALL;
    in->shape = shape_token(w->c);
    comp_finish(w->m, a, (instr_id){ 0 });
    comp_finish(w->m, b, find(w, b, "b0"));
    assert_int_equal(comp_at(w->m, a)->ninstrs, 2);
    assert_int_equal(comp_at(w->m, a)->params[0].i, find(w, a, "a0").i);
    assert_int_equal(comp_at(w->m, a)->params[1].i, find(w, a, "a1").i);
    assert_int_equal(comp_at(w->m, a)->root.i, find(w, a, "a0").i);
    assert_int_equal(comp_at(w->m, b)->ninstrs, 2);
    assert_int_equal(comp_at(w->m, b)->root.i, find(w, b, "b0").i);
    assert_int_equal(comp_at(w->m, b)->instrs[1].i, id->i);
    assert_true(module_bytes(w->m) > 0);
    int n;
    assert_non_null(instr_ints(in, ATTR_DIMENSIONS, &n));
    assert_int_equal(n, 0);
    assert_int_equal(instr_int(in, ATTR_INDEX, 7), 7);
    assert_true(instr_bool(in, ATTR_LOWER, true));
}

/* 200,000 instructions fit in 150 MB, with operands, attributes and names. */
static void test_memory(void **state)
{
    struct world *w = *state;
    comp_id c = comp(w, "c");
    instr_id x = put_param(w, c, "x", 0, "f32[8,4]"), last = x;
    const int64_t dims[2] = { 1, 0 };
    for (int k = 0; k < 200000; k++) {
        instr_id ops[2] = { last, x };
        struct attr at = attr_ints(w->m, ATTR_DIMENSIONS, 2, dims);
        last = instr_new(w->m, c, OP_ADD, shape(w, "f32[8,4]"), 2, ops, 1, &at);
        char name[24];
        int n = snprintf(name, sizeof name, "add.%d", k);
        instr_at(w->m, last)->name = name_put(w->c, name, (size_t)n);
    }
    comp_finish(w->m, c, (instr_id){ 0 });
    int64_t bytes = module_bytes(w->m) + w->c->arena.bytes;
    if (bytes > 60 << 20)
        fail_msg("%" PRId64 " bytes", bytes);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_users), T(test_post_order), T(test_post_order_large), T(test_post_order_of_cycle),
        T(test_call_order), T(test_elementwise), T(test_side_effects), T(test_dot_dims),
        T(test_tables), T(test_equal), T(test_building), T(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
