/* The Cairo backend: PNG and PDF files, and the pixels that the window shows. The library is opened
 * at first use, so that the binary starts without it and runs where it is not installed. */
#ifndef GSPMD_VIZ_CAIRO_H
#define GSPMD_VIZ_CAIRO_H

#include "base/diag.h"
#include "viz/scene.h"

/* Whether Cairo can be used; otherwise one sentence in d that says why not. */
bool cairo_ready(struct diag *d) MUST_CHECK;

struct paint_options {
    bool dark;
    double scale;   /* pixels a point; 0: 1.5 */
    bool no_labels; /* tests: boxes only, so that each pixel is its box's colour */
};
bool scene_png(const struct scene *s, const struct paint_options *o, struct str *out, struct diag *d) MUST_CHECK;
/* The pages of a PDF, one a scene. */
bool scene_pdf(const struct scene *const *pages, int n, const struct paint_options *o, struct str *out,
               struct diag *d) MUST_CHECK;

/* ---- pixels, for the window and for tests ------------------------------------------------------- */

struct canvas;
/* 32-bit pixels 0x00RRGGBB, w x h; NULL: no memory or no Cairo. */
struct canvas *canvas_new(int w, int h);
void canvas_free(struct canvas *c);
uint32_t *canvas_pixels(struct canvas *c, int *stride_bytes);

/* Where a scene lies on a canvas: the point (x, y) of the scene at pixel (left, top). */
struct camera {
    double x, y, scale;
    int left, top;
};
/* Paints the part of the scene that falls into a rectangle of pixels, ground included. */
void canvas_scene(struct canvas *c, const struct scene *s, const struct camera *cam, bool dark, int x, int y, int w,
                  int h);
/* Moves the pixels of a rectangle by (dx, dy); what comes from outside is left as it was. */
void canvas_scroll(struct canvas *c, int x, int y, int w, int h, int dx, int dy);
void canvas_fill(struct canvas *c, double x, double y, double w, double h, uint32_t rgb, double alpha);
void canvas_outline(struct canvas *c, double x, double y, double w, double h, double thick, uint32_t rgb);
/* size: pixels; y is the top of the line. */
void canvas_text(struct canvas *c, double x, double y, double size, bool bold, uint32_t rgb, const char *text);

#endif
