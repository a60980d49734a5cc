/* Reading what users type for a sharding: between the files that know one spelling each. */
#ifndef GSPMD_SHARDING_SPEC_H
#define GSPMD_SHARDING_SPEC_H

#include "sharding/axes.h"

struct spec_reader {
    struct lexer l;
    const struct mesh *meshes;
    int nmeshes, rank; /* rank < 0: not known */
    const struct mesh *mesh;
    struct layout a;
};

/* There is a mesh whose axes can be named; else reports. */
bool spec_use_mesh(struct spec_reader *r);
/* The rank of what was read against the array's; over the text from `at`. */
bool spec_rank_fits(struct spec_reader *r, size_t at) MUST_CHECK;
/* r->a becomes a sharding, its rank checked. */
bool spec_finish(struct spec_reader *r, size_t at, sharding_id *out) MUST_CHECK;
/* P('data', None) behind its parenthesis. */
bool spec_read_pspec(struct spec_reader *r, size_t at, sharding_id *out) MUST_CHECK;

/* spec_more.c: placements of DTensor and SBP, NamedSharding, GSPMDSharding, A[I_X, J_Y]. */

/* Whether the list behind an opening mark names placements, Shard(0) or R, rather than axes. */
bool spec_at_placements(struct spec_reader *r, char close);
bool spec_read_placements(struct spec_reader *r, char close, size_t at, sharding_id *out) MUST_CHECK;
/* Whether one of the other spellings stands here; and reads it. */
bool spec_at_other(struct spec_reader *r);
bool spec_read_other(struct spec_reader *r, struct arena *tmp, size_t at, sharding_id *out) MUST_CHECK;

#endif
