/* What a sharding means, by a reading of HLO's text that shares nothing with the engine's: which
 * devices hold which tile. Cases are judged by it, so that a fault in engine/sharding does not hide
 * itself. */
#ifndef GSPMD_TESTS_MEANING_H
#define GSPMD_TESTS_MEANING_H

#include <cjson/cJSON.h>

#include "base/arena.h"

enum { MEANING_RANK = 32 };

struct meaning {
    enum { MEANS_REPLICATED, MEANS_MAXIMAL, MEANS_MANUAL, MEANS_UNKNOWN, MEANS_TILED, MEANS_TUPLE } kind;
    int64_t device; /* MAXIMAL */
    char group[24]; /* "as 3", "like 7", or "" */
    /* TILED: tiles along each dimension; holders[tile][subgroup][copy], copies in rising order. */
    int rank;
    int64_t dims[MEANING_RANK];
    int64_t tiles, copies; /* copies: devices that hold a tile, subgroups included */
    char subgroups[64];    /* "manual=2 unreduced=4 " */
    int64_t nholders;
    int64_t *holders;
    /* TUPLE */
    int64_t nelems;
    struct meaning **elems;
};

/* text of n bytes; NULL: it is no sharding that is understood. */
struct meaning *meaning_read(struct arena *a, const char *text, size_t n);
/* [data,_], [(data,model),_], [data*model], [model:(2)2]; mesh: an object of sizes. NULL: it is none. */
struct meaning *meaning_of_axes(struct arena *a, const char *text, size_t n, const cJSON *mesh);
/* One sharding stands for a tuple of equal ones. */
bool meaning_same(const struct meaning *a, const struct meaning *b);
/* The same of two texts; NULL: no sharding. */
bool meaning_same_text(struct arena *a, const char *x, const char *y);
/* Whether the text spells this sharding anywhere, in HLO's words or in axes of the mesh. */
bool meaning_is_said(struct arena *a, const char *text, const struct meaning *m, const cJSON *mesh);
/* Index of the tile that a device holds; false: none. */
bool meaning_tile_of(const struct meaning *m, int64_t device, int64_t *index);

#endif
