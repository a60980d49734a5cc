/* A picture before anybody draws it: boxes, lines and text in points, with roles in place of
 * colours. Views make scenes, backends (text, SVG, Cairo, SDL2) draw them.
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
    ROLE_LABEL, ROLE_CAPTION, ROLE_LEGEND, ROLE_RULER, ROLE_LINK, ROLE_HIGHLIGHT,
    ROLE_NODE,       /* an instruction of a graph */
    ROLE_CLUSTER,    /* a computation or a layer, around its nodes or instead of them */
    ROLE_EDGE,       /* a value going from one instruction to another */
    ROLE_MOVE        /* an edge or a bar where data moves between devices */
};

/* States are never told by colour alone (stripes and xN, hatch and a sum sign, crosshatch, `?`). */
enum {
    STATE_REPLICATED = 1, /* stripes and xN */
    STATE_PARTIAL = 2,    /* hatch and a sum sign */
    STATE_PADDING = 4,    /* crosshatch */
    STATE_OPEN = 8,       /* dashed outline and `?` */
    STATE_CHANGED = 16,   /* thick outline: not so before the edit */
    STATE_HELD = 32,      /* thick outline: held by the device in question */
    STATE_MANUAL = 64,    /* dotted outline */
    STATE_CHOSEN = 128    /* thick outline: the one in question */
};

enum scene_kind { SCENE_BOX, SCENE_LINE, SCENE_TEXT, SCENE_PATH };
enum scene_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };

struct scene_item {
    enum scene_kind kind;
    enum scene_role role;
    double x, y, w, h;      /* BOX; LINE: from (x,y) to (x+w,y+h); TEXT: anchor */
    const char *text;       /* TEXT, or a BOX's label; NULL */
    enum scene_align align;
    bool middle;            /* TEXT: y is its middle (on a grid of cells: the cell that it is in), not its top */
    double size;            /* TEXT: points */
    double label_w, label_h; /* BOX: the part in which its text is centred; 0: all of it */
    int64_t device;         /* owner, -1: none */
    int axis;               /* -1: none */
    unsigned state;
    int64_t tile[8];        /* TILE: index */
    int ntile;
    int64_t from[8], to[8]; /* TILE: element ranges [from, to) of each dimension */
    int nowners;            /* TILE: of its holders, the first few: stripes have their colours */
    int64_t owners[4];
    int64_t copies;         /* TILE: devices that hold it */
    bool bold;              /* TEXT */
    bool rounded;           /* BOX: corners */
    bool dashed, arrow;     /* LINE, PATH */
    double thick;           /* LINE, PATH: points; 0: 1.5 */
    int npoints;            /* PATH: x, y of each */
    const double *points;
    bool curve;             /* PATH: 3 k + 1 points of k Bezier pieces; else a polyline */
    const char *hint;       /* what a pointer over it is told; NULL: made from the rest */
    const char *word;       /* a name that the shell knows: what a click asks about */
};

struct scene {
    struct arena *arena;
    double width, height;
    const char *title;      /* for accessibility: one sentence */
    VEC(struct scene_item) items;
    int64_t frame, frames;  /* which one of an animation's; frames 0: it does not move */
};

struct scene *scene_new(struct arena *a);
struct scene_item *scene_add(struct scene *s, enum scene_kind kind, enum scene_role role);
/* A text at a place. */
struct scene_item *scene_put_text(struct scene *s, enum scene_role role, double x, double y, enum scene_align align,
                                  const char *text);

/* Of a row of n cells those that are drawn, so that a picture of a million devices is as large as that of
 * sixteen: all up to `most`, else the first few, a gap (-1) and the last. Their number; *at: their indices, a's. */
int scene_shown(struct arena *a, int64_t n, int64_t most, int64_t **at);
/* That `most`, when the user asked for so many; 0: did not. */
int64_t scene_most_shown(int64_t asked);

/* Backends. The text backend draws on a grid of columns x rows cells (0: as needed, at least 80x24);
 * ascii: no character above 126; color: ANSI colours on top (never the only sign). */
struct text_options {
    int columns, rows;
    bool ascii, color;
};
void scene_text(const struct scene *s, const struct text_options *o, struct str *out);
/* dark: light on dark ground. */
void scene_svg(const struct scene *s, struct str *out);
void scene_svg_theme(const struct scene *s, bool dark, struct str *out);

/* Everything of from, moved by (dx, dy), into s. */
void scene_append(struct scene *s, const struct scene *from, double dx, double dy);
/* What a pointer over the item is told: "tile 0,1: elements [0:4, 8:16], devices 0,4". */
const char *scene_hint(const struct scene_item *it, struct arena *a);

/* Whose colour a box has: its device's, or, with one owner listed, that one's. */
static inline int64_t scene_color(const struct scene_item *it)
{
    return it->nowners == 1 ? it->owners[0] : it->device;
}

/* A cell of the text backend, in points: views place what text must show on multiples of it. */
enum { CELL_W = 6, CELL_H = 12 };

/* Text is drawn in a fixed-width face, so that every backend agrees with the views on its width. */
#define SCENE_GLYPH 0.6   /* width of a character, of its size */
#define SCENE_FACE 0.9966 /* the usual faces are a little wider: what backends multiply sizes with */
enum { SCENE_MARGIN = 12 }; /* around a scene in SVG, PNG and PDF; in points */
int scene_text_columns(const char *text); /* characters, not bytes */
/* Its end behind "..", where it has more than so many characters: that is where names differ. */
const char *scene_short(struct arena *a, const char *name, int most);
/* "65,536 bytes", "1,048,576 bytes (1 MiB)"; -1: more than can be said. */
const char *scene_bytes(struct arena *a, int64_t bytes);
/* Where a text item, or the label of a box, is drawn. */
struct scene_rect {
    double x, y, w, h;
};
struct scene_rect scene_text_rect(const struct scene_item *it);
/* No other text, and no box but a cluster's, where this text would stand. */
bool scene_is_free(const struct scene *s, const struct scene_item *text);
bool scene_label_rect(const struct scene_item *it, struct scene_rect *out); /* false: has no room */

#endif
