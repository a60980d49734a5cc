/* A picture before anybody draws it: boxes, lines and text in points, with roles in place of
 * colours. Views make scenes, backends (text, SVG; later Cairo and SDL2) draw them.
 *
 * Every box that stands for a piece of a tensor carries its owner, so that a test can read the
 * picture back against the sharding.
 */
#ifndef GSPMD_VIZ_SCENE_H
#define GSPMD_VIZ_SCENE_H

#include "base/arena.h"
#include "base/str.h"

enum scene_role {
    ROLE_FRAME,      /* outline of a tensor or a mesh */
    ROLE_TILE,       /* a piece; colour by .device, texture by .state bits */
    ROLE_AXIS,       /* an axis of the mesh; colour by .axis */
    ROLE_LABEL, ROLE_CAPTION, ROLE_LEGEND, ROLE_RULER, ROLE_LINK, ROLE_HIGHLIGHT
};

/* States are never told by colour alone (stripes and xN, hatch and a sum sign, crosshatch, `?`). */
enum { STATE_REPLICATED = 1, STATE_PARTIAL = 2, STATE_PADDING = 4, STATE_OPEN = 8, STATE_CHANGED = 16 };

enum scene_kind { SCENE_BOX, SCENE_LINE, SCENE_TEXT };
enum scene_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };

struct scene_item {
    enum scene_kind kind;
    enum scene_role role;
    double x, y, w, h;      /* BOX; LINE: from (x,y) to (x+w,y+h); TEXT: anchor */
    const char *text;       /* TEXT, or a BOX's label; NULL */
    enum scene_align align;
    double size;            /* TEXT: points */
    double label_w, label_h; /* BOX: the part in which its text is centred; 0: all of it */
    int64_t device;         /* owner, -1: none */
    int axis;               /* -1: none */
    unsigned state;
    int64_t tile[8];        /* TILE: index */
    int ntile;
    int64_t from[8], to[8]; /* TILE: element ranges [from, to) of each dimension */
};

struct scene {
    struct arena *arena;
    double width, height;
    const char *title;      /* for accessibility: one sentence */
    VEC(struct scene_item) items;
};

struct scene *scene_new(struct arena *a);
struct scene_item *scene_add(struct scene *s, enum scene_kind kind, enum scene_role role);

/* Backends. The text backend draws on a grid of columns x rows cells (0: as needed, at least 80x24);
 * ascii: no character above 126; color: ANSI colours on top (never the only sign). */
struct text_options {
    int columns, rows;
    bool ascii, color;
};
void scene_text(const struct scene *s, const struct text_options *o, struct str *out);
void scene_svg(const struct scene *s, struct str *out);

#endif
