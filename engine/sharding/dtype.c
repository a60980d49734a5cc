#include "sharding/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    int bits;
    enum dtype_kind kind;
} dtypes[DTYPE_COUNT] = {
#define DTYPE(id, name, bits, kind) [DTYPE_##id] = { name, bits, DTYPE_KIND_##kind },
#include "sharding/dtypes.def"
};

const char *dtype_name(enum dtype t)
{
    return dtypes[t].name ? dtypes[t].name : "";
}

int dtype_bits(enum dtype t)
{
    return dtypes[t].bits;
}

int dtype_bytes(enum dtype t)
{
    return dtypes[t].bits < 8 ? 1 : dtypes[t].bits / 8;
}

enum dtype_kind dtype_kind(enum dtype t)
{
    return dtypes[t].kind;
}

enum dtype dtype_find(const char *name, size_t n)
{
    for (int i = 1; i < DTYPE_COUNT; i++)
        if (strlen(dtypes[i].name) == n && memcmp(dtypes[i].name, name, n) == 0)
            return (enum dtype)i;
    return DTYPE_NONE;
}
