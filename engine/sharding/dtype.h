/* Element types of arrays. In memory every element of fewer than 8 bits takes one byte. */
#ifndef GSPMD_SHARDING_DTYPE_H
#define GSPMD_SHARDING_DTYPE_H

#include "base/base.h"

enum dtype {
    DTYPE_NONE,
#define DTYPE(id, name, bits, kind) DTYPE_##id,
#include "sharding/dtypes.def"
    DTYPE_COUNT
};

enum dtype_kind {
    DTYPE_KIND_NONE,
    DTYPE_KIND_PRED,
    DTYPE_KIND_SIGNED,
    DTYPE_KIND_UNSIGNED,
    DTYPE_KIND_FLOAT,
    DTYPE_KIND_COMPLEX
};

const char *dtype_name(enum dtype t); /* "f32" */
int dtype_bits(enum dtype t);
int dtype_bytes(enum dtype t); /* bits / 8, at least 1 */
enum dtype_kind dtype_kind(enum dtype t);
enum dtype dtype_find(const char *name, size_t n); /* DTYPE_NONE: no such type */

#endif
