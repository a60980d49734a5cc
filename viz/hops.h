/* Pictures of what ran: a collective hop by hop, and all devices over time. */
#ifndef GSPMD_VIZ_HOPS_H
#define GSPMD_VIZ_HOPS_H

#include "emulate/trace.h"
#include "viz/scene.h"

enum hops_combine { COMBINE_NONE, COMBINE_ADD, COMBINE_MULTIPLY, COMBINE_MAX, COMBINE_MIN };
enum { HOPS_NUMBERS = 3 }; /* of a chunk that are shown */

/* The first numbers of a chunk as rank `rank` has it before the first hop; returns how many, 0: not known. */
typedef int hops_value_fn(void *context, int64_t rank, int64_t chunk, double *out);

struct hops_options {
    int64_t meeting;
    int64_t round;       /* rounds that are over: 0 .. rounds of the meeting */
    bool list;           /* for text: no ring of devices, hops as lines */
    const char *name;    /* "all-reduce.1" */
    const char *over;    /* "model"; NULL */
    hops_value_fn *value; /* NULL: cells tell who has been added, or which chunk it is */
    void *context;
    enum hops_combine combine;
};

/* Devices around a ring with the hops of the next round, beside them a table of devices and chunks. */
struct scene *view_hops(const struct trace *t, const struct hops_options *o, struct arena *a);
/* Every round, one below the other (at most so many). */
struct scene *view_hops_strip(const struct trace *t, const struct hops_options *o, int64_t most, struct arena *a);

/* Devices as the stages of a pipeline: in a loop that shifts values from stage to stage, stage s of n has nothing
 * to work on in the first s and the last n - 1 - s turns (the other way round where it shifts downwards): what it
 * computes there is a bubble. */
struct timeline_stages {
    const char *axis;
    int64_t n;
    const int64_t *stage; /* [devices of the trace] */
};
/* Rows of devices, time to the right: computing, communicating, waiting. width: points for the time. stages may be
 * NULL. */
struct scene *view_timeline(const struct trace *t, const struct timeline_stages *stages, double width, bool list,
                            struct arena *a);

#endif
