/* Graphs of instructions: nodes, edges, clusters as a client picked them; laid out by Graphviz's dot. */
#ifndef GSPMD_VIZ_GRAPH_H
#define GSPMD_VIZ_GRAPH_H

#include "base/diag.h"
#include "base/tick.h"
#include "sharding/sharding.h"
#include "viz/scene.h"

enum { GRAPH_MOST_NODES = 300 }; /* dot takes 8 s for a thousand */

struct graph_node {
    const char *name;
    const char *op;       /* "dot f32[64,512]"; NULL: no such line */
    const char *sharding; /* as spelled in axes; NULL */
    const char *note;     /* data that moves at the node: "all-reduce.1 48 KiB"; NULL */
    const char *word, *hint;
    int cluster;          /* -1: none */
    bool avoidable;       /* what moves there another annotation would save */
    bool collapsed;       /* stands for many instructions */
    bool chosen;          /* the one in question */
    int64_t more;         /* neighbours that are left out */
};

struct graph_edge {
    int from, to;
    const char *label; /* what moves on it: "all-gather 24 KiB"; NULL: nothing does */
    int64_t bytes;     /* a device sends */
    bool avoidable;
    bool dashed;       /* a call */
    int64_t count;     /* values, where clusters are collapsed; 0: 1 */
};

struct graph_cluster {
    const char *label;
};

struct graph_view {
    const char *title;       /* "h and 2 steps around it: 7 of 412 instructions" */
    const struct mesh *mesh; /* for the axes' colours; NULL */
    int nnodes, nedges, nclusters;
    const struct graph_node *nodes;
    const struct graph_edge *edges;
    const struct graph_cluster *clusters;
};

/* For Graphviz: complete with labels and colours. */
void graph_dot(const struct graph_view *g, struct str *out);
/* Starts dot. NULL: d says in one sentence why not. */
struct scene *view_graph(const struct graph_view *g, struct tick *tick, struct arena *a, struct diag *d);
/* As a list, operands named; needs no dot. */
struct scene *view_graph_list(const struct graph_view *g, struct arena *a);

/* dot.c: runs `dot -Tjson` on text, at most so many milliseconds. The answer is kept by content. */
bool dot_run(const char *text, size_t n, int milliseconds, struct tick *tick, struct str *json,
             struct diag *d) MUST_CHECK;
int64_t dot_runs(void); /* child processes so far: a counter for tests */

/* spelled.c: a sharding in axes with each axis's name in its colour; the pieces stand where one text would. Returns
 * where it ends. */
double scene_add_spelled(struct scene *s, enum scene_role role, const struct mesh *mesh, const char *text, double x,
                         double y, bool bold);
/* The axes named in it, each once; returns how many. */
int spelled_axes(const struct mesh *mesh, const char *text, int *axes, int most);
/* The axis that alone splits dimension dim, found in the sharding as it is spelled, [_,model]; -1. */
int spelled_axis_of_dim(const struct mesh *mesh, const char *text, int dim);

#endif
