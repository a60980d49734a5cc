/* Computations shared between strategies (internals.md section 3): after any edit the program is that from
 * scratch, byte for byte and note for note, whatever was kept before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/internal.h"

static uint64_t state_of_random = 5;

static uint32_t below(uint32_t n)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state_of_random >> 33) % n) : 0;
}

struct counts {
    int64_t programs, reused, nodes, made;
};

/* ---- two programs that are one ---------------------------------------------------------------------------- */

static void same_text(const struct program *a, const struct program *b)
{
    struct arena tmp = { 0 };
    struct str x = STR_IN(&tmp), y = STR_IN(&tmp);
    struct hlo_print_options o = { .shardings = NULL };
    assert_true(hlo_print(a->module, &o, &x));
    assert_true(hlo_print(b->module, &o, &y));
    const char *p = str_text(&x), *q = str_text(&y), *line = p, *other = q;
    for (; *p && *p == *q; p++, q++)
        if (*p == '\n') {
            line = p + 1;
            other = q + 1;
        }
    if (*p != *q)
        print_message("kept:    %.*s\nscratch: %.*s\n", (int)strcspn(line, "\n"), line, (int)strcspn(other, "\n"), other);
    assert_int_equal(*p, *q);
    arena_free(&tmp);
}

static void same_string(const char *a, const char *b)
{
    assert_string_equal(a ? a : "", b ? b : "");
}

static void same_notes(const struct program *a, const struct program *b)
{
    assert_int_equal(a->nodes, b->nodes);
    for (uint32_t k = 1; k <= module_ninstrs(a->module); k++) {
        const struct node_note *x = &a->notes[k], *y = &b->notes[k];
        assert_int_equal(a->node_sharding[k].i, b->node_sharding[k].i);
        assert_int_equal(x->from.i, y->from.i);
        assert_int_equal(x->to.i, y->to.i);
        assert_int_equal(x->source.i, y->source.i);
        same_string(x->reason, y->reason);
    }
    assert_int_equal(a->nremats, b->nremats);
    for (int64_t k = 0; k < a->nremats; k++) {
        assert_int_equal(a->remats[k].source.i, b->remats[k].source.i);
        assert_int_equal(a->remats[k].from.i, b->remats[k].from.i);
        assert_int_equal(a->remats[k].to.i, b->remats[k].to.i);
        assert_int_equal(a->remats[k].fallback, b->remats[k].fallback);
        same_string(a->remats[k].reason, b->remats[k].reason);
    }
}

static void check(struct document *doc, const struct partition_options *set, struct counts *n)
{
    struct partition_options o = *set;
    const struct propagation *p = document_propagation(doc, NULL, NULL);
    if (!p)
        return;
    o.num_partitions = document_devices(doc);
    struct program *kept = partition(p, &o, NULL, NULL);
    o.scratch = true;
    struct program *plain = partition(p, &o, NULL, NULL);
    assert_int_equal(!kept, !plain); /* what is refused is refused both ways */
    if (plain) {
        assert_int_equal(plain->reused, 0);
        assert_int_equal(plain->made_nodes >= kept->made_nodes, 1);
        same_text(kept, plain);
        same_notes(kept, plain);
        n->programs++;
        n->reused += kept->reused;
        n->nodes += kept->reused_nodes;
        n->made += kept->made_nodes;
    }
    program_free(kept);
    program_free(plain);
}

/* ---- edits at random -------------------------------------------------------------------------------------- */

static sharding_id split_at_random(struct document *doc, const struct shape *shape)
{
    struct shardings *t = document_ir(doc)->shardings;
    const struct mesh *m = document_mesh(doc);
    struct axes_spec spec = { .rank = shape->rank };
    char text[256];
    size_t n = 0;
    unsigned used = 0;
    n += (size_t)snprintf(text, sizeof text, "[");
    for (int d = 0; d < shape->rank; d++) {
        uint32_t k = below(4);
        bool named = k < (uint32_t)m->naxes && !(used >> k & 1);
        used |= named ? 1u << k : 0;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", d ? "," : "", named ? m->axes[k].name : "_");
    }
    (void)snprintf(text + n, sizeof text - n, "]");
    struct source src = { .name = "spec", .text = text, .len = strlen(text) };
    sharding_id out = { 0 };
    size_t end;
    assert_true(sharding_spec_parse(t, m, 1, shape->rank, &src, 0, text, strlen(text), &end, &out, &spec, NULL));
    return out;
}

static void annotate_at_random(struct document *doc)
{
    const struct module *m = document_module(doc);
    const struct computation *entry = comp_at(m, m->entry);
    bool parameter = below(3) > 0 && entry->nparams;
    instr_id i = parameter ? entry->params[below(entry->nparams)] : (instr_id){ 1 + below(module_ninstrs(m)) };
    const struct shape *shape = instr_shape(m, i);
    if (shape->kind != SHAPE_ARRAY || shape->rank == 0 || shape->rank > 12)
        return;
    struct annotation a = { .kind = below(5) ? ANNOTATE_SHARD : ANNOTATE_UNSHARD, .target = i, .leaf = -1 };
    if (a.kind == ANNOTATE_SHARD)
        a.sharding = split_at_random(doc, shape);
    bool done = edit_annotate(doc, 1, &a, NULL, "edit", NULL);
    (void)done; /* nothing to take away: refused */
}

static void edit(struct document *doc, struct partition_options *o)
{
    bool done = true;
    switch (below(12)) {
    case 0:
    case 1:
        done = edit_undo(doc, NULL) && !document_mesh(doc) && edit_redo(doc, NULL); /* the mesh stays */
        break;
    case 2:
        done = edit_redo(doc, NULL);
        break;
    case 3:
        o->full = !o->full;
        break;
    case 4:
        o->all_gather = below(4) > 0;
        o->hoist = below(2);
        break;
    case 5:
        o->weight_update = below(2);
        o->combine_mib = below(2) ? 0 : 32;
        break;
    default:
        annotate_at_random(doc);
    }
    (void)done;
}

static bool open_dump(struct document *doc, const char *name)
{
    const char *shared = getenv("GSPMD_SHARED");
    char path[2048];
    (void)snprintf(path, sizeof path, "%s/inputs/%s", shared ? shared : "../shared", name);
    if (!document_load(doc, path, NULL, NULL)) {
        print_message("%s cannot be opened here: skipped\n", name);
        return false;
    }
    struct mesh m = { .name = "", .naxes = 2, .axes = { { "data", 2 }, { "model", 4 } } };
    m.order = order_iota(document_ir(doc)->shardings, 8);
    return edit_mesh(doc, &m, "mesh", NULL);
}

static void many_edits(struct document *doc, const char *name, int count, struct counts *all)
{
    struct partition_options o;
    struct counts n = { 0 };
    partition_options_default(&o);
    for (int e = 0; e < count; e++) {
        check(doc, &o, &n);
        edit(doc, &o);
    }
    print_message("%-32s %4lld programs: %5lld computations put in again, %7lld nodes; %7lld made\n", name, (long long)n.programs,
                  (long long)n.reused, (long long)n.nodes, (long long)n.made);
    all->programs += n.programs;
    all->reused += n.reused;
    all->nodes += n.nodes;
}

/* Dumps with loops in loops, branches, calls, gathers that look out of their loop; GSPMD_EDITS: edits a dump. */
static void test_random_edits(void **state)
{
    (void)state;
    static const char *const names[] = {
        "stencil_small.hlo", "cond_switch_small.hlo", "lstm_small.hlo", "pipe_closed_small.hlo.gz", "while_newton_small.hlo",
        "dropout_threefry_small.hlo.gz", "moe_sort_small.hlo.gz", "sampling_small.hlo.gz", "flash_small.hlo.gz",
        "gpt_fwd_scan_small.hlo.gz", "llama_decode_small.hlo.gz", "sm_collective_matmul_small.hlo", "pipe_circular_small.hlo.gz",
        "pipe_mlp_roll_small.hlo", "ring_attention_small.hlo",
    };
    const char *edits = getenv("GSPMD_EDITS");
    int count = edits ? atoi(edits) : 30;
    struct counts all = { 0 };
    for (size_t k = 0; k < COUNTOF(names); k++) {
        struct document *doc = document_new();
        if (open_dump(doc, names[k]))
            many_edits(doc, names[k], count, &all);
        document_free(doc);
    }
    if (all.programs && count >= 20)
        assert_true(all.reused * 2 >= all.programs);
}

static const char text[] =
    "HloModule m, num_partitions=8\n"
    "plus {\n  p = f32[16,8] parameter(0)\n  ROOT a = f32[16,8] add(p, p)\n}\n"
    "times {\n  q = f32[16,8] parameter(0)\n  ROOT b = f32[16,8] multiply(q, q)\n}\n"
    "inner_more {\n  s = (s32[], f32[16,8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(3)\n  ROOT l = pred[] compare(i, n), direction=LT\n}\n"
    "inner {\n  s = (s32[], f32[16,8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  x = f32[16,8] get-tuple-element(s), index=1\n"
    "  y = f32[16,8] negate(x)\n  z = f32[16,8] tanh(y)\n  ROOT t = (s32[], f32[16,8]) tuple(j, z)\n}\n"
    "outer_more {\n  s = (s32[], f32[16,8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(2)\n  ROOT l = pred[] compare(i, n), direction=LT\n}\n"
    "outer {\n  s = (s32[], f32[16,8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  x = f32[16,8] get-tuple-element(s), index=1\n"
    "  zero = s32[] constant(0)\n  u = (s32[], f32[16,8]) tuple(zero, x)\n"
    "  w = (s32[], f32[16,8]) while(u), condition=inner_more, body=inner\n"
    "  v = f32[16,8] get-tuple-element(w), index=1\n  ROOT t = (s32[], f32[16,8]) tuple(j, v)\n}\n"
    "ENTRY main {\n  c = pred[] parameter(0)\n  x = f32[16,8] parameter(1)\n  d = f32[16,8] cosine(x)\n"
    "  e = f32[16,8] conditional(c, x, d), true_computation=plus, false_computation=times\n"
    "  k = s32[] constant(0)\n  t = (s32[], f32[16,8]) tuple(k, e)\n"
    "  w = (s32[], f32[16,8]) while(t), condition=outer_more, body=outer\n"
    "  ROOT r = f32[16,8] get-tuple-element(w), index=1\n}\n";

/* The working graph of text with all shardings as they are, to be changed one by one. */
static struct propagation *open_text(struct document *doc)
{
    assert_true(document_load_text(doc, "m", text, sizeof text - 1, NULL, NULL));
    struct mesh m = { .name = "", .naxes = 2, .axes = { { "data", 2 }, { "model", 4 } } };
    m.order = order_iota(document_ir(doc)->shardings, 8);
    assert_true(edit_mesh(doc, &m, "mesh", NULL));
    struct options o = document_strategy(doc)->options;
    o.propagation_none = o.propagation_set = true;
    o.prepare = false; /* which would give the branches tuples */
    assert_true(edit_options(doc, &o, "set", NULL));
    struct propagation *p = (struct propagation *)(uintptr_t)document_propagation(doc, NULL, NULL);
    assert_non_null(p);
    return p;
}

static instr_id named(const struct document *doc, const struct module *m, const char *name)
{
    for (uint32_t i = 1; i <= module_ninstrs(m); i++)
        if (strcmp(name_text(document_ir(doc), instr_at(m, (instr_id){ i })->name), name) == 0)
            return (instr_id){ i };
    return (instr_id){ 0 };
}

static void expect(const struct propagation *p, int64_t reused, int64_t nodes, int64_t made)
{
    struct partition_options o;
    partition_options_default(&o);
    o.num_partitions = 8;
    struct program *q = partition(p, &o, NULL, NULL);
    assert_non_null(q);
    assert_int_equal(q->reused, reused);
    assert_int_equal(q->reused_nodes, nodes);
    assert_int_equal(q->made_nodes, made);
    program_free(q);
}

/* Six computations below the entry; kept when they come a second time. */
static void test_counters(void **state)
{
    (void)state;
    struct document *doc = document_new();
    struct propagation *p = open_text(doc);
    const struct module *m = p->graph->module;
    instr_id y = named(doc, m, "y"), v = named(doc, m, "v"), d = named(doc, m, "d");
    struct shardings *t = document_ir(doc)->shardings;
    int64_t dims[2] = { 8, 1 };
    sharding_id split = sharding_plain(t, tiling_make(t, 2, dims, order_iota(t, 8))), whole = sharding_replicated(t);
    p->final[y.i] = p->final[v.i] = p->final[d.i] = whole;
    expect(p, 0, 0, 38);
    expect(p, 0, 0, 38);                /* kept now */
    expect(p, 6, 30, 8);
    p->final[y.i] = split;              /* inside inner: it and what it is in are made anew */
    expect(p, 4, 12, 33);
    p->final[v.i] = split;              /* inside outer */
    expect(p, 4, 12, 39);
    p->final[v.i] = p->final[y.i] = whole;
    expect(p, 6, 30, 8);
    p->final[d.i] = split;              /* in the entry: what comes into a branch */
    expect(p, 5, 28, 17);
    document_free(doc);
}

/* One graph, any shardings: what is inside, what comes in and what goes out change each on its own. */
static void test_any_shardings(void **state)
{
    (void)state;
    struct document *doc = document_new();
    struct counts n = { 0 };
    struct propagation *p = open_text(doc);
    struct partition_options all;
    partition_options_default(&all);
    const struct module *g = p->graph->module;
    for (int k = 0; k < 600; k++) {
        instr_id i = { 1 + below(module_ninstrs(g)) };
        const struct shape *shape = instr_shape(g, i);
        if (shape->kind == SHAPE_ARRAY && shape->rank == 2)
            p->final[i.i] = split_at_random(doc, shape);
        check(doc, &all, &n);
    }
    print_message("%lld programs: %lld computations put in again\n", (long long)n.programs, (long long)n.reused);
    assert_true(n.reused > n.programs);
    document_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_edits),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_any_shardings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
