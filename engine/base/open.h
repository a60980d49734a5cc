/* The thread's list of open pass arenas, between fail.c, which unwinds it, and arena.c; and how tables give
 * back memory when they have grown out of it. */
#ifndef GSPMD_BASE_OPEN_H
#define GSPMD_BASE_OPEN_H

#include "base/arena.h"

struct arena *arena_open_list(void);
/* Frees every arena that was opened after mark was the newest. */
void arena_close_down_to(const struct arena *mark);

/* Frees what arena_alloc returned for n elements of that size if it is large enough to have a block of its
 * own; smaller pieces stay in the arena. Nothing may use it any more. */
void arena_give_back(struct arena *a, const void *p, int64_t n, size_t size);

#endif
