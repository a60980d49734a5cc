#include "viz/palette.h"

static const uint32_t device_hues[DEVICE_COLORS] = { 0x56b4e9, 0xe69f00, 0x009e73, 0xf0e442,
                                                     0xcc79a7, 0xd55e00, 0x7b8fd9, 0x9a8c7a };
static const uint32_t axis_hues[AXIS_COLORS] = { 0x0072b2, 0xd55e00, 0x009e73,
                                                 0xcc79a7, 0x8a6d00, 0x555555 };

static uint32_t tint(uint32_t rgb, uint32_t parts_white, uint32_t of)
{
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        uint32_t c = (rgb >> shift) & 0xff;
        out |= ((c * (of - parts_white) + 0xff * parts_white) / of) << shift;
    }
    return out;
}

uint32_t palette_device(int64_t device)
{
    if (device < 0)
        return 0xdddddd;
    uint32_t round = (uint32_t)((device / DEVICE_COLORS) % DEVICE_TINTS);
    return tint(device_hues[device % DEVICE_COLORS], round, 4);
}

uint32_t palette_axis(int axis)
{
    return axis < 0 ? 0x444444 : axis_hues[axis % AXIS_COLORS];
}

int palette_ansi(uint32_t rgb)
{
    int r = (int)((rgb >> 16 & 0xff) * 5 + 127) / 255, g = (int)((rgb >> 8 & 0xff) * 5 + 127) / 255,
        b = (int)((rgb & 0xff) * 5 + 127) / 255;
    return 16 + 36 * r + 6 * g + b;
}

uint32_t palette_paint(enum palette_role role, bool dark)
{
    static const uint32_t paints[PAINT_ROLES][2] = {
        [PAINT_GROUND] = { 0xffffff, 0x16191d },  [PAINT_INK] = { 0x222222, 0xe8e8e8 },
        [PAINT_FAINT] = { 0x555555, 0xa8b0b8 },   [PAINT_LINE] = { 0x444444, 0x9aa2aa },
        [PAINT_STRONG] = { 0x000000, 0xffffff },  [PAINT_EMPTY] = { 0xffffff, 0x20252b },
        [PAINT_PAD] = { 0xf4f4f4, 0x2b3037 },     [PAINT_HATCH] = { 0x888888, 0x7d858d },
        [PAINT_MOVE] = { 0xc1121f, 0xff7b72 },    [PAINT_PANEL] = { 0xf0f2f5, 0x23282e },
        [PAINT_ON_TILE] = { 0x111111, 0x111111 },
    };
    return paints[role][dark];
}

uint32_t palette_mix(uint32_t rgb, uint32_t ground, uint32_t parts)
{
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        uint32_t a = (rgb >> shift) & 0xff, b = (ground >> shift) & 0xff;
        out |= ((a * parts + b * (256 - parts)) / 256) << shift;
    }
    return out;
}

uint32_t palette_axis_on(int axis, bool dark)
{
    if (axis < 0)
        return palette_paint(PAINT_INK, dark);
    return dark ? palette_mix(palette_axis(axis), 0xffffff, 150) : palette_axis(axis);
}
