/* Colours by role. Two jobs that are never mixed: device colour (who holds it) and axis colour. */
#ifndef GSPMD_VIZ_PALETTE_H
#define GSPMD_VIZ_PALETTE_H

#include <stdbool.h>
#include <stdint.h>

enum { DEVICE_COLORS = 8, DEVICE_TINTS = 3, AXIS_COLORS = 6 };

/* 0xRRGGBB. Eight hues that stay apart for colour-blind readers; the second round of eight devices
 * gets a lighter tint, and so on around. The same on light and dark ground: text on them is dark. */
uint32_t palette_device(int64_t device);
uint32_t palette_axis(int axis);
int palette_ansi(uint32_t rgb); /* nearest of the 6x6x6 cube of 256-colour terminals */

/* What is neither: indexed by theme. */
enum palette_role {
    PAINT_GROUND,  /* behind everything */
    PAINT_INK,     /* text */
    PAINT_FAINT,   /* rulers, legends */
    PAINT_LINE,    /* outlines */
    PAINT_STRONG,  /* outlines of what is changed, held or chosen */
    PAINT_EMPTY,   /* inside of what nobody holds */
    PAINT_PAD,     /* padding's ground */
    PAINT_HATCH,   /* lines of padding and of partial sums */
    PAINT_MOVE,    /* where data moves between devices */
    PAINT_PANEL,   /* ground of clusters, bars and the window's command line */
    PAINT_ON_TILE, /* text on a device's colour */
    PAINT_ROLES
};
uint32_t palette_paint(enum palette_role role, bool dark);
/* An axis's colour as it is legible on the theme's ground; axis < 0: ink. */
uint32_t palette_axis_on(int axis, bool dark);
/* rgb mixed with the ground: parts of 256 of rgb. */
uint32_t palette_mix(uint32_t rgb, uint32_t ground, uint32_t parts);

#endif
