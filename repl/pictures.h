/* Between the commands that draw: cmd_plot.c, picture_*.c, viewer.c. */
#ifndef GSPMD_REPL_PICTURES_H
#define GSPMD_REPL_PICTURES_H

#include "repl/commands.h"
#include "viz/views.h"

/* A picture in the making. */
struct picture {
    struct call *c;
    struct arena *a; /* of the scene: the command's, or a window's */
    bool text;       /* for a terminal: narrow, 80 columns */
    double width;    /* points that pages side by side may take; 0: one below the other */
    int64_t most;    /* tiles of a dimension that are drawn one by one */
    int64_t pages;
    struct str *dot; /* graph: DOT goes here, nothing is drawn; NULL */
};

/* An array as it is laid out after propagation. */
struct picture_tensor {
    instr_id instr;
    shape_id shape;
    sharding_id sharding;
    const char *name; /* in the picture's arena */
    uint64_t open;
};
/* Argument k; reported when it is no array. */
bool picture_tensor(struct picture *p, int k, struct picture_tensor *out);
/* What propagation p gives to leaf `leaf` of a loaded instruction; replicated where it gives none. */
sharding_id picture_sharding(struct call *c, const struct propagation *prop, instr_id i, int64_t leaf);

/* Each reports and returns NULL when there is nothing to draw. */
struct scene *picture_graph(struct picture *p); /* arguments: [T [B]] */
/* The graph as p wants it: drawn, as text, or in dot's words. */
struct graph_view;
struct scene *picture_of_graph(struct picture *p, const struct graph_view *g);
/* A collective's devices as a graph: who sends to whom. NULL where the program has none of that name, and nothing is
 * reported. */
struct scene *picture_devices_graph(struct picture *p, const char *name, bool *found);
/* from, to of each: who sends to whom in group `group` of k as `set collectives=` says; 2 n places for each member.
 * what: in words. Returns how many. */
int64_t picture_pattern(struct picture *p, const struct collective *k, int64_t group, int64_t *pairs, const char **what);
/* Arguments: a collective; every round as a strip, or one with round=. */
struct scene *picture_hops(struct picture *p);
struct scene *picture_timeline(struct picture *p);
struct scene *picture_memory(struct picture *p);
/* A frame a round; -1: reported. */
int64_t picture_frames(struct picture *p, struct scene ***frames);
void picture_run_free(struct shell *sh);
/* Pixels a point, as `set scale=` says. */
double picture_scale(const struct shell *sh);
/* plot WHAT...: the scene of the words of a command. */
struct scene *picture_scene(struct picture *p);

/* Values of an array as one device computes them from made-up inputs, as `run devices=1` does. */
struct picture_values {
    struct tensor t;
    struct arena *a;
};
bool picture_values(struct picture *p, const struct picture_tensor *t, struct picture_values *out);
const char *picture_value(void *values, const int64_t *index); /* a layout_value_fn */
void picture_values_free(struct picture_values *v);

/* A collective of the program by its name (argument text); reported when there is none. */
bool picture_collective(struct call *c, const char *name, const struct program **program,
                        const struct collective **out);

#endif
