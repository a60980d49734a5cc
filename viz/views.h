/* Views: what can be drawn. Each makes a scene from engine data. */
#ifndef GSPMD_VIZ_VIEWS_H
#define GSPMD_VIZ_VIEWS_H

#include "session/session.h"
#include "viz/scene.h"

struct layout_options {
    int rows_dim, cols_dim;   /* shown dimensions; -1: choose */
    const int64_t *fixed;     /* index (tile) of each folded dimension; NULL: all pages */
    int64_t max_tiles;        /* more than this: drawn with counts; 0: default */
    int64_t ndevices;         /* of the whole strategy: replicated arrays have as many copies; 0: unknown */
    bool device_view;         /* what does device `device` hold */
    int64_t device;
};

/* Which device holds what of one array: to scale, with ids, ranges, copies, padding, caption with
 * global and local shape, legend. name: for the caption. mesh may be NULL. */
struct scene *view_layout(struct ir *c, const struct mesh *mesh, const char *name, shape_id shape,
                          sharding_id s, const struct layout_options *o, struct arena *a);
/* A mesh as a grid, axes named, device ids in the cells; highlight: an axis or -1. */
struct scene *view_mesh(struct ir *c, const struct mesh *mesh, int highlight, struct arena *a);

#endif
