/* The thread's list of open pass arenas: between fail.c, which unwinds it, and arena.c. */
#ifndef GSPMD_BASE_OPEN_H
#define GSPMD_BASE_OPEN_H

#include "base/arena.h"

struct arena *arena_open_list(void);
/* Frees every arena that was opened after mark was the newest. */
void arena_close_down_to(const struct arena *mark);

#endif
