/* Where the devices of a mesh sit on a machine: the machine as a grid of places, drawn like a mesh; its links; and,
 * along one axis of the mesh, who is next to whom and how many links apart. */
#include <string.h>

#include "viz/views.h"

enum { MOST_ARROWS = 64, ASKED = 4096 };

/* The machine's axes as those of a mesh; cells are places. */
static void machine_grid(const struct machine *m, struct mesh *g, struct mesh_options *o, struct arena *a)
{
    *g = (struct mesh){ .name = "" };
    for (int k = 0, torus = 0; k < m->naxes && g->naxes < MESH_MAX_AXES; k++) {
        const struct machine_axis *x = &m->axes[k];
        if (x->level < 0 && g->naxes > 0) { /* the cores of a chip stand side by side */
            struct mesh_axis *chips = &g->axes[g->naxes - 1];
            chips->name = arena_printf(a, "%s x core", chips->name);
            chips->size *= x->size;
            continue;
        }
        const char *name = x->level < 0 ? "core" : m->hardware->level[x->level].name;
        if (x->level >= 0 && m->hardware->level[x->level].kind == NETWORK_TORUS)
            name = arena_printf(a, "%s%d", name, torus++);
        o->wraps |= (unsigned)x->wrap << g->naxes;
        bool behind = x->level >= 0 && m->hardware->level[x->level].kind == NETWORK_SWITCH;
        o->switches |= (unsigned)behind << g->naxes;
        g->axes[g->naxes++] = (struct mesh_axis){ name, x->size };
    }
}

static int64_t place_of(const struct shardings *t, const struct mesh *mesh, int64_t device)
{
    return mesh->physical.i ? order_device(t, mesh->physical, device) : device;
}

/* Links between two devices; a switch is one, the cores of a chip are none apart. */
static int64_t links_between(const struct machine *m, int64_t from, int64_t to)
{
    int64_t sum = 0;
    for (int k = 0; k < m->naxes; k++) {
        const struct machine_axis *x = &m->axes[k];
        int64_t far = from / x->stride % x->size - to / x->stride % x->size;
        far = far < 0 ? -far : far;
        if (x->wrap && x->size - far < far)
            far = x->size - far;
        if (x->level >= 0)
            sum += m->hardware->level[x->level].kind == NETWORK_SWITCH ? far > 0 : far;
    }
    return sum;
}

/* The device after cell's along an axis; the last one's is the first. */
static int64_t next_along(const struct shardings *t, const struct mesh *mesh, int axis, int64_t cell, bool *last)
{
    int64_t inner = 1, size = mesh->axes[axis].size;
    for (int k = axis + 1; k < mesh->naxes; k++)
        inner *= mesh->axes[k].size;
    *last = cell / inner % size == size - 1;
    return order_device(t, mesh->order, *last ? cell - (size - 1) * inner : cell + inner);
}

static bool has_switch(const struct machine *m)
{
    for (int k = 0; k < m->naxes; k++)
        if (m->axes[k].size > 1 && m->axes[k].level >= 0 && m->hardware->level[m->axes[k].level].kind == NETWORK_SWITCH)
            return true;
    return false;
}

static const char *away(struct arena *a, int64_t links)
{
    return links == 0 ? "on the same chip" : arena_printf(a, "%" PRId64 " link%s away", links, links == 1 ? "" : "s");
}

/* "model: the next one is 1 link away, last to first 3 links away" */
static const char *distances(const struct shardings *t, const struct mesh *mesh, const struct machine *m, int axis,
                             struct arena *a)
{
    int64_t n = mesh_devices(mesh), by = n > ASKED ? n / ASKED | 1 : 1, most = 0, back = 0;
    for (int64_t cell = 0; cell < n; cell += by) {
        bool last;
        int64_t next = next_along(t, mesh, axis, cell, &last), here = order_device(t, mesh->order, cell);
        int64_t far = links_between(m, place_of(t, mesh, here), place_of(t, mesh, next));
        if (last)
            back = max_i64(back, far);
        else
            most = max_i64(most, far);
    }
    bool ring = most == 1 && !has_switch(m) && back <= 1 && mesh->axes[axis].size > 2;
    return arena_printf(a, "%s: the next one is %s%s, last to first %s%s", mesh->axes[axis].name,
                        most > 1 ? "up to " : "", away(a, most), away(a, back), ring ? ": a ring of links" : "");
}

/* Arrows from each device to the next along the axis. */
static void add_arrows(const struct shardings *t, const struct mesh *mesh, int axis, struct mesh_options *o,
                       struct arena *a)
{
    int64_t n = mesh_devices(mesh), at = 0;
    if (n > MOST_ARROWS || mesh->axes[axis].size < 2)
        return;
    int64_t *pairs = ARENA_ARRAY(a, int64_t, 2 * n);
    for (int64_t cell = 0; cell < n; cell++) {
        bool last;
        int64_t next = next_along(t, mesh, axis, cell, &last);
        if (last && mesh->axes[axis].size == 2)
            continue;
        pairs[2 * at] = order_device(t, mesh->order, cell);
        pairs[2 * at++ + 1] = next;
    }
    o->pairs = pairs;
    o->npairs = at;
    o->pairs_title = arena_printf(a, "the next along %s", mesh->axes[axis].name);
    o->pairs_axis = axis;
}

struct scene *view_machine(struct ir *c, const struct mesh *mesh, const struct machine *m, int highlight,
                           const struct mesh_options *how, struct arena *a)
{
    struct mesh_options o = { .highlight = -1, .torus = true, .group = -1, .pairs_axis = -1, .logical = mesh };
    struct str title = STR_IN(a);
    struct mesh grid;
    machine_grid(m, &grid, &o, a);
    o.max_shown = how->max_shown;
    o.max_pages = how->max_pages;
    o.width = how->width;
    o.tall = how->tall;
    for (int k = 0; k < mesh->naxes; k++)
        str_addf(&title, "%s%s=%" PRId64, k ? " " : "", mesh->axes[k].name, mesh->axes[k].size);
    str_adds(&title, " on ");
    machine_print(m, &title);
    o.title = str_text(&title);
    if (highlight >= 0) {
        o.note = distances(c->shardings, mesh, m, highlight, a);
        add_arrows(c->shardings, mesh, highlight, &o, a);
    }
    return view_mesh_full(c, &grid, &o, a);
}
