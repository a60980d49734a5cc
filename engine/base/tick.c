#include "base/tick.h"

bool tick_now(struct tick *t, const char *what, int64_t done, int64_t total)
{
    if (!t)
        return true;
    t->countdown = 0;
    return !t->fn || t->fn(t->context, what, done, total);
}
