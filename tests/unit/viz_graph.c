/* Graphs through Graphviz's dot: every node and edge is there, labels are apart, an answer is asked for once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "viz/graph.h"
#include "viz_check.h"

static struct arena arena;
static uint64_t state_of = 88172645463325252u;

static int pick(int n)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return (int)(state_of % (uint64_t)n);
}

static struct graph_view random_graph(int n)
{
    static const char *const specs[] = { "[data,_]", "[_,model]", "[(data,model),_,_]", "replicated", NULL };
    struct graph_node *nodes = ARENA_ARRAY(&arena, struct graph_node, n);
    struct graph_edge *edges = ARENA_ARRAY(&arena, struct graph_edge, 3 * n);
    struct graph_cluster *clusters = ARENA_ARRAY(&arena, struct graph_cluster, 3);
    struct mesh *mesh = ARENA_NEW(&arena, struct mesh);
    *mesh = (struct mesh){ .name = "", .naxes = 2, .axes = { { "data", 2 }, { "model", 4 } } };
    struct graph_view g = { .title = "a graph", .mesh = mesh, .nnodes = n, .nodes = nodes, .edges = edges,
                            .nclusters = 3, .clusters = clusters };
    for (int k = 0; k < 3; k++)
        clusters[k].label = arena_printf(&arena, "layer_%d", k);
    for (int k = 0; k < n; k++) {
        nodes[k] = (struct graph_node){ .name = arena_printf(&arena, "dot.%d", k), .cluster = pick(4) - 1 };
        nodes[k].op = pick(5) ? arena_printf(&arena, "dot f32[%d,128]", 1 << pick(12)) : NULL;
        nodes[k].sharding = specs[pick(5)];
        nodes[k].note = pick(4) ? NULL : "all-reduce 48.0 KiB";
        nodes[k].more = pick(3) ? 0 : pick(100);
        nodes[k].collapsed = pick(6) == 0;
        for (int e = 0; e < 3 && k > 0; e++) {
            struct graph_edge *x = &edges[g.nedges];
            *x = (struct graph_edge){ .from = pick(k), .to = k, .dashed = pick(5) == 0 };
            bool again = false;
            for (int q = 0; q < g.nedges; q++)
                again |= edges[q].from == x->from && edges[q].to == x->to;
            if (again)
                continue;
            if (pick(3) == 0) {
                x->bytes = 1000 * pick(1 << 20);
                x->label = arena_printf(&arena, "all-gather %d bytes", (int)x->bytes);
            }
            g.nedges++;
        }
    }
    return g;
}

static bool no_dot(void)
{
    struct graph_view g = random_graph(2);
    struct diag *d = diag_new();
    bool drawn = view_graph(&g, NULL, &arena, d) != NULL;
    if (!drawn)
        assert_int_equal(d->nerrors, 1);
    diag_free(d);
    return !drawn;
}

static void graphs_are_whole_and_legible(void **state)
{
    (void)state;
    if (no_dot())
        skip();
    for (int k = 0; k < 12; k++) {
        struct graph_view g = random_graph(3 + 4 * k);
        struct diag *d = diag_new();
        struct scene *s = view_graph(&g, NULL, &arena, d);
        assert_non_null(s);
        const char *bad = labels_wrong(s, &arena);
        if (bad)
            fail_msg("%d nodes: %s", g.nnodes, bad);
        int nodes = 0, heads = 0;
        for (int64_t i = 0; i < s->items.n; i++) {
            const struct scene_item *it = &s->items.v[i];
            nodes += it->kind == SCENE_BOX && it->role == ROLE_NODE;
            heads += it->kind == SCENE_PATH && it->arrow;
        }
        assert_int_equal(nodes, g.nnodes);
        assert_int_equal(heads, g.nedges);
        diag_free(d);
    }
}

static void a_list_needs_no_dot(void **state)
{
    (void)state;
    int64_t runs = dot_runs();
    for (int k = 0; k < 12; k++) {
        struct graph_view g = random_graph(3 + 4 * k);
        struct scene *s = view_graph_list(&g, &arena);
        const char *bad = labels_wrong(s, &arena);
        if (bad)
            fail_msg("%d nodes: %s", g.nnodes, bad);
    }
    assert_int_equal(dot_runs(), runs);
}

static void an_answer_is_kept(void **state)
{
    (void)state;
    if (no_dot())
        skip();
    struct graph_view g = random_graph(20);
    assert_non_null(view_graph(&g, NULL, &arena, NULL));
    int64_t runs = dot_runs();
    struct scene *a = view_graph(&g, NULL, &arena, NULL), *b = view_graph(&g, NULL, &arena, NULL);
    assert_int_equal(dot_runs(), runs);
    struct str x = STR_IN(&arena), y = STR_IN(&arena);
    scene_svg(a, &x);
    scene_svg(b, &y);
    assert_string_equal(str_text(&x), str_text(&y));
}

static bool stop(void *context, const char *what, int64_t done, int64_t total)
{
    (void)context;
    (void)what;
    (void)done;
    (void)total;
    return false;
}

static void ctrl_c_stops_it(void **state)
{
    (void)state;
    if (no_dot())
        skip();
    struct graph_view g = random_graph(21);
    struct tick t = { .fn = stop };
    struct diag *d = diag_new();
    assert_null(view_graph(&g, &t, &arena, d));
    assert_string_equal(d->msgs.v[0].code, "interrupted");
    diag_free(d);
}

/* Names of files and models go into DOT as text only. */
static void names_are_quoted(void **state)
{
    (void)state;
    struct graph_node node = { .name = "a\" -> b [x=\"\\", .cluster = -1 };
    struct graph_view g = { .title = "t", .nnodes = 1, .nodes = &node };
    struct str s = STR_IN(&arena);
    graph_dot(&g, &s);
    assert_non_null(strstr(str_text(&s), "label=\"a\\\" -> b [x=\\\"\\\\\""));
    node.name = "tab\there";
    s.n = 0;
    graph_dot(&g, &s);
    assert_null(strchr(str_text(&s), '\t'));
}

static int tear_down(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_whole_and_legible),
        cmocka_unit_test(a_list_needs_no_dot),
        cmocka_unit_test(an_answer_is_kept),
        cmocka_unit_test(ctrl_c_stops_it),
        cmocka_unit_test(names_are_quoted),
    };
    return cmocka_run_group_tests_name("viz_graph", tests, NULL, tear_down);
}
