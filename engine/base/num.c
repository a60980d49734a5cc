#include "base/base.h"

bool product_ok(const int64_t *v, int64_t n, int64_t *out)
{
    int64_t p = 1;
    for (int64_t i = 0; i < n; i++)
        if (!mul_ok(p, v[i], &p))
            return false;
    *out = p;
    return true;
}
