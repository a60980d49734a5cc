/* Colours by role. Two jobs that are never mixed: device colour (who holds it) and axis colour. */
#ifndef GSPMD_VIZ_PALETTE_H
#define GSPMD_VIZ_PALETTE_H

#include <stdint.h>

enum { DEVICE_COLORS = 8, AXIS_COLORS = 6 };

/* 0xRRGGBB. Eight hues that stay apart for colour-blind readers; the second round of eight devices
 * gets a lighter tint, and so on around. */
uint32_t palette_device(int64_t device);
uint32_t palette_axis(int axis);
int palette_ansi(uint32_t rgb); /* nearest of the 6x6x6 cube of 256-colour terminals */

#endif
