/* Pixels as sixels: what a terminal that shows pictures the way DEC's did reads. */
#ifndef GSPMD_VIZ_SIXEL_H
#define GSPMD_VIZ_SIXEL_H

#include "base/arena.h"
#include "base/str.h"

enum { SIXEL_COLORS = 255 };

/* pixels: w x h of 0x00RRGGBB, lines stride_bytes apart. At most SIXEL_COLORS colours: where there are more, the
 * rarer ones become the nearest of the others. */
void sixel_write(const uint32_t *pixels, int w, int h, int stride_bytes, struct arena *a, struct str *out);

#endif
