/* A collective's pattern as a graph of devices: a node a device, a cluster a group, an edge a pair of which one sends
 * to the other. */
#include <string.h>

#include "repl/pictures.h"
#include "viz/graph.h"

enum { MOST_DEVICES = 48, MOST_EACH = 8 };

struct devices_graph {
    struct picture *p;
    const struct collective *k;
    const struct mesh *mesh;
    VEC(struct graph_node) nodes;
    VEC(struct graph_edge) edges;
    VEC(struct graph_cluster) clusters;
    VEC(int64_t) ids; /* devices of the nodes */
    const char *what;
};

static const struct collective *find(struct picture *p, const char *name)
{
    struct call *c = p->c;
    int64_t n, total;
    const struct collective *list;
    const struct program *program = NULL;
    if (document_devices(c->sh->doc) > 1)
        program = document_program(c->sh->doc, call_tick(c), NULL);
    if (!program || !document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), NULL))
        return NULL;
    for (int64_t k = 0; k < n; k++)
        if (!strcmp(collective_label(c, program->module, &list[k]), name))
            return &list[k];
    return NULL;
}

/* "data=1 model=3"; NULL without a mesh. */
static const char *coordinates(const struct devices_graph *g, int64_t device)
{
    const struct mesh *m = g->mesh;
    if (!m || device >= mesh_devices(m))
        return NULL;
    int64_t cell = order_cell(document_ir(g->p->c->sh->doc)->shardings, m->order, device), at[MESH_MAX_AXES];
    for (int a = m->naxes - 1; a >= 0; a--) {
        at[a] = cell % m->axes[a].size;
        cell /= m->axes[a].size;
    }
    struct str s = STR_IN(g->p->a);
    for (int a = 0; a < m->naxes; a++)
        str_addf(&s, "%s%s=%" PRId64, a ? " " : "", m->axes[a].name, at[a]);
    return str_text(&s);
}

static int node_of(struct devices_graph *g, int64_t device, int cluster)
{
    for (int64_t k = 0; k < g->ids.n; k++)
        if (g->ids.v[k] == device)
            return (int)k;
    struct graph_node n = { .cluster = cluster };
    n.name = arena_printf(g->p->a, "device %" PRId64, device);
    n.op = coordinates(g, device);
    n.word = n.name;
    vec_push(g->p->a, &g->nodes, n);
    vec_push(g->p->a, &g->ids, device);
    return (int)g->nodes.n - 1;
}

static void add_pairs(struct devices_graph *g, const int64_t *pairs, int64_t n, int cluster)
{
    for (int64_t k = 0; k < n; k++) {
        struct graph_edge e = { .from = node_of(g, pairs[2 * k], cluster) };
        e.to = node_of(g, pairs[2 * k + 1], cluster);
        if (e.from != e.to)
            vec_push(g->p->a, &g->edges, e);
    }
}

/* Groups, as many as a picture has room for; their number is told by the title. */
static int64_t add_groups(struct devices_graph *g)
{
    const struct collective *k = g->k;
    int64_t ngroups = k->groups.dims[0], n = k->groups.dims[1], shown = 0;
    int64_t *pairs = ARENA_ARRAY(g->p->a, int64_t, 2 * n * n);
    for (; shown < ngroups && (shown + 1) * n <= MOST_DEVICES; shown++) {
        struct graph_cluster c = { arena_printf(g->p->a, "group %" PRId64, shown) };
        vec_push(g->p->a, &g->clusters, c);
        for (int64_t j = 0; j < n; j++)
            node_of(g, tiling_device(document_ir(g->p->c->sh->doc)->shardings, k->groups, (int64_t[]){ shown, j }),
                    (int)shown);
        int64_t count = picture_pattern(g->p, k, shown, pairs, &g->what);
        add_pairs(g, pairs, count, (int)shown);
    }
    return shown;
}

static bool add_permute(struct devices_graph *g)
{
    int64_t *pairs = ARENA_ARRAY(g->p->a, int64_t, 2 * MOST_DEVICES + 2);
    int64_t n = list_pairs(g->p->c, g->k->pairs, MOST_DEVICES, pairs);
    if (n < 0)
        return false;
    add_pairs(g, pairs, n, -1);
    g->what = "pairs";
    return true;
}

static bool too_many(struct picture *p, const char *name)
{
    call_usage(p->c, 0, "%s has too many devices to draw as a graph", name);
    diag_hint(p->c->d, "plot mesh comm=%s group=0 draws one group on the mesh", name);
    return false;
}

static bool add_all(struct devices_graph *g, const char *name, struct str *title)
{
    const struct collective *k = g->k;
    str_addf(title, "%s: ", name);
    if (k->kind == OP_COLLECTIVE_PERMUTE && k->pairs) {
        if (!add_permute(g))
            return too_many(g->p, name);
        str_addf(title, "%" PRId64 " pairs", (int64_t)g->edges.n);
        return true;
    }
    if (k->groups.naxes != 2 || k->groups.dims[1] > MOST_DEVICES ||
        (k->groups.dims[1] > MOST_EACH && k->kind == OP_ALL_TO_ALL))
        return too_many(g->p, name);
    int64_t shown = add_groups(g);
    str_addf(title, "%s in each of %" PRId64 " groups", g->what, k->groups.dims[0]);
    if (shown < k->groups.dims[0])
        str_addf(title, ", the first %" PRId64, shown);
    return true;
}

struct scene *picture_devices_graph(struct picture *p, const char *name, bool *found)
{
    struct devices_graph g = { .p = p, .k = find(p, name), .mesh = document_mesh(p->c->sh->doc) };
    struct str title = STR_IN(p->a);
    *found = g.k != NULL;
    if (!g.k || !add_all(&g, name, &title))
        return NULL;
    struct graph_view view = { .title = str_text(&title), .mesh = g.mesh };
    view.nodes = g.nodes.v;
    view.nnodes = (int)g.nodes.n;
    view.edges = g.edges.v;
    view.nedges = (int)g.edges.n;
    view.clusters = g.clusters.v;
    view.nclusters = (int)g.clusters.n;
    return picture_of_graph(p, &view);
}
