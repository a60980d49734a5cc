/* Memory of one device over its schedule, and what is alive at the peak. */
#ifndef GSPMD_VIZ_MEMORY_H
#define GSPMD_VIZ_MEMORY_H

#include "cost/cost.h"
#include "viz/scene.h"

struct memory_row {
    const char *name, *kind;
    int64_t bytes;
};

struct memory_picture {
    const struct memory *m;
    const char *at;  /* name of the kernel at the peak */
    int64_t capacity; /* of the device; 0: not known */
    int nrows;
    const struct memory_row *rows; /* largest first, of what is alive at the peak */
};
struct scene *view_memory(const struct memory_picture *p, double width, bool list, struct arena *a);

#endif
