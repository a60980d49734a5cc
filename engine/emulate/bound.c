/* Running error bounds: every float is a pair (value, bound), both double. See verify.c. */
#include <math.h>
#include <string.h>

#include "emulate/lower.h"

void bound_multiply_add(double *acc, const double *x, const double *y)
{
    acc[0] += x[0] * y[0];
    acc[1] += fabs(x[0]) * y[1] + x[1] * fabs(y[0]) + x[1] * y[1];
}

void matmul_bound(const void *a, bool ta, const void *b, bool tb, void *c, int64_t m, int64_t n, int64_t k)
{
    const double *x = a, *y = b;
    double *r = c;
    memset(r, 0, (size_t)(m * n) * 2 * sizeof *r);
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < k; q++)
            for (int64_t j = 0; j < n; j++)
                bound_multiply_add(r + 2 * (i * n + j), x + 2 * (ta ? q * m + i : i * k + q),
                                   y + 2 * (tb ? j * k + q : q * n + j));
}

ew_fn ew_bound(enum op_kind op, enum ctype ct)
{
    (void)op;
    (void)ct;
    return NULL;
}
