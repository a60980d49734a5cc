/* Mesh axes and what is said in terms of them: between the mesh spellings of sharding/. */
#ifndef GSPMD_SHARDING_AXES_H
#define GSPMD_SHARDING_AXES_H

#include "sharding/internal.h"

enum { REFS_MAX = 64 };

/* An axis, or the part of it that is left after `pre` and before the rest: x:(pre)size. */
struct axis_ref {
    int axis;
    int64_t pre, size;
};

/* Which axes split which dimension, major to minor; the dimension number `rank` stands for the manual
 * axes, ALSO_NAMED for axes that are only named (replicated={..}). */
enum { ALSO_NAMED = 1 << 20 };

struct layout {
    int rank, n;
    struct axis_ref refs[REFS_MAX];
    int dim[REFS_MAX];
    uint64_t open; /* dimensions with a `?`, the first 64 */
};

/* Adds a reference; refused (over the text from `at`) when a part of it is taken already. */
bool layout_add(struct lexer *l, size_t at, const struct mesh *m, struct axis_ref r, int dim,
                struct layout *a) MUST_CHECK;
/* Reports that a name is none of the mesh's; always false. */
bool no_such_axis(struct lexer *l, const struct mesh *m, size_t at, const char *name, size_t n);
/* Reads an axis, quoted or bare, with its :(pre)size, and adds it. */
bool read_axis(struct lexer *l, const struct mesh *m, int dim, struct layout *a) MUST_CHECK;
/* { [axis {, axis} [, ?]] } behind its opening brace, as the 2026 spelling and Shardy have it. */
bool read_axis_braces(struct lexer *l, const struct mesh *m, int dim, struct layout *a) MUST_CHECK;
/* The sharding: data axes, [manual], what is left of the mesh as copies. */
sharding_id layout_sharding(struct shardings *t, const struct mesh *m, const struct layout *a);
/* Groups that vary the axes of a, in the order in which they stand there. */
struct tiling layout_groups(struct shardings *t, const struct mesh *m, const struct layout *a);
/* The way back; false: this sharding is no product of axes. */
bool sharding_layout(const struct shardings *t, const struct mesh *m, sharding_id s,
                     struct layout *out);
bool groups_layout(const struct shardings *t, const struct mesh *m, struct tiling groups,
                   struct layout *out);

/* mesh['x'=2,'y'=2][, device_ids=(..)] behind the word `mesh`; names go to a. */
bool read_inline_mesh(struct lexer *l, struct arena *a, struct mesh *m) MUST_CHECK;
/* Behind the word device_ids / order and its '='. */
bool read_mesh_order(struct lexer *l, int64_t ndevices, char close, order_id *order) MUST_CHECK;
bool add_mesh_axis(struct lexer *l, struct arena *a, struct mesh *m, size_t at, const char *name,
                   size_t n, int64_t size) MUST_CHECK;
void print_mesh_order(const struct shardings *t, order_id o, struct str *out);

#endif
