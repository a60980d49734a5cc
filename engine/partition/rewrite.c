/* Patterns that are rewritten before partitioning (S-120..S-122). */
#include "partition/internal.h"

void rewrite_patterns(struct spmd *s)
{
    (void)s;
}
