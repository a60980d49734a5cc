/* Every long call takes a tick: called at least every 10 ms on the calling thread, it lets the shell
 * draw, show progress and notice Ctrl-C. false = stop: the callee returns false with the diag
 * message "interrupted". A NULL tick never stops. */
#ifndef GSPMD_BASE_TICK_H
#define GSPMD_BASE_TICK_H

#include "base/base.h"

struct tick {
    bool (*fn)(void *context, const char *what, int64_t done, int64_t total);
    void *context;
    int countdown; /* tick_poll's own */
};

bool tick_now(struct tick *t, const char *what, int64_t done, int64_t total);

/* Cheap: calls the function once in 256 calls. */
static inline bool tick_poll(struct tick *t, const char *what, int64_t done, int64_t total)
{
    if (!t || ++t->countdown < 256)
        return true;
    return tick_now(t, what, done, total);
}

#endif
