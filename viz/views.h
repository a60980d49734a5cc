/* Views: what can be drawn. Each makes a scene from engine data. */
#ifndef GSPMD_VIZ_VIEWS_H
#define GSPMD_VIZ_VIEWS_H

#include "session/session.h"
#include "viz/scene.h"

/* The true number of an element; NULL: it is not known. index: one entry a dimension. */
typedef const char *layout_value_fn(void *context, const int64_t *index);

struct layout_options {
    int rows_dim, cols_dim;   /* shown dimensions; -1: choose */
    const int64_t *fixed;     /* tile of each folded dimension, -1: all of them; NULL: all pages */
    int64_t max_tiles;        /* of a dimension; longer ones are drawn with a count; 0: 8 */
    int64_t max_pages;        /* 0: 4 */
    double width;             /* points that pages side by side may take; 0: one below the other */
    bool narrow;              /* for a terminal: no more columns than 80 characters have room for */
    int64_t ndevices;         /* of the whole strategy: replicated arrays have as many copies; 0: unknown */
    bool device_view;         /* what does device `device` hold */
    int64_t device;
    bool compare;             /* tiles whose holders did not hold them under `before` are marked */
    sharding_id before;
    bool partial;             /* every piece is a partial sum */
    uint64_t open;            /* dimensions left to propagation */
    const char *title;        /* a line above the caption; NULL */
    layout_value_fn *value;   /* numbers in the cells, where the array is small; NULL */
    void *value_context;
};

/* Which device holds what of one array: to scale, with ids, ranges, copies, padding, caption with
 * global and local shape, legend. name: for the caption. mesh may be NULL. */
struct scene *view_layout(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                          sharding_id s, const struct layout_options *o, struct arena *a);
/* The same without its legend, to be put beside others. */
struct scene *view_layout_part(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                               sharding_id s, const struct layout_options *o, struct arena *a);
/* Before and after, side by side (width 0: one below the other): tiles that are new to their holders are
 * outlined. before_title, after_title: "before: ..". */
struct scene *view_layout_pair(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                               sharding_id before, sharding_id after, const char *before_title,
                               const char *after_title, const struct layout_options *o, struct arena *a);
/* What one device holds of several arrays; total: how many there are, those that are not among them too. */
struct device_row {
    const char *name;
    shape_id shape;
    sharding_id sharding;
};
struct scene *view_device(struct ir *c, const struct mesh *mesh, int64_t device, int64_t total,
                          const struct device_row *rows, int n, double width, struct arena *a);

/* Names the states, axes and roles that the scene has, below it. */
void scene_add_legend(struct scene *s, double top, const char *numbers);
void scene_measure(struct scene *s); /* width and height from the items */

struct mesh_options {
    int highlight;            /* an axis whose groups are joined; -1: none */
    bool torus;               /* links of neighbours, and those that wrap around */
    bool order;               /* cells also tell their position where that is not the device */
    const struct tiling *groups; /* [ngroups, size] of a collective: one colour a group; NULL */
    const char *groups_title;
    int64_t group;            /* the one group that is joined by arrows; -1: none */
    const int64_t *pairs;     /* who sends to whom: from, to of npairs arrows; NULL */
    int64_t npairs;
    const char *pairs_title;  /* "arrows: ..." */
    int pairs_axis;           /* of the logical mesh: the arrows have its colour; -1: that of what moves */
    int64_t max_shown;        /* of an axis; 0: 8 */
    int64_t max_pages;        /* 0: 4 */
    double width;             /* points that pages side by side may take; 0: one below the other */
    bool tall;                /* not for text: cells with room for their colour under the label */
    /* A machine instead of a mesh: its axes are those of the mesh in hand, its cells places. */
    const struct mesh *logical; /* cells also tell where the device is in this one; NULL: no machine */
    const char *title;        /* instead of "mesh ..." */
    const char *note;         /* a line of the legend; NULL */
    unsigned wraps;           /* bit k: axis k is a ring */
    unsigned switches;        /* bit k: axis k is behind a switch, each one link from each */
};
/* A mesh as a grid, axes named, device ids in the cells; highlight: an axis or -1. */
struct scene *view_mesh(struct ir *c, const struct mesh *mesh, int highlight, struct arena *a);
/* Where the devices of a mesh sit on a machine: its links, and along axis `highlight` (-1: none) who is next to whom,
 * and how far away. how: sizes only. */
struct scene *view_machine(struct ir *c, const struct mesh *mesh, const struct machine *m, int highlight,
                           const struct mesh_options *how, struct arena *a);
struct scene *view_mesh_full(struct ir *c, const struct mesh *mesh, const struct mesh_options *o, struct arena *a);

#endif
