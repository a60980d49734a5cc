/* HLO text: replica groups and permutes, of which the symbolic ones have no list in memory. */
#include "text/printer.h"

/* ---- groups ---------------------------------------------------------------------------------- */

/* [2,4]<=[8]T(..) says rising digits over devices 0..n-1 only. */
static bool has_iota_form(const struct shardings *t, struct tiling a)
{
    const struct order *o = order_get(t, a.order);
    if (o->explicit_)
        return false;
    for (int k = 0; k < o->ndigits; k++)
        if (o->digits[k].reversed)
            return false;
    return true;
}

static void open_group(struct printer *p, int64_t k)
{
    puts_(p, k ? ",{" : "{");
}

static void list_tiling(struct printer *p, struct tiling a)
{
    const struct shardings *t = p->m->ir->shardings;
    puts_(p, "{");
    for (int64_t g = 0; g < a.dims[0]; g++) {
        open_group(p, g);
        for (int64_t k = 0; k < a.dims[1]; k++) {
            puts_(p, k ? "," : "");
            put_int(p, order_device(t, a.order, g * a.dims[1] + k));
        }
        puts_(p, "}");
    }
    puts_(p, "}");
}

static void list_ragged(struct printer *p, const struct replica_groups *g)
{
    const int64_t *at = g->ids;
    puts_(p, "{");
    for (int64_t k = 0; k < g->nlists; k++) {
        open_group(p, k);
        put_ints(p, g->sizes[k], at, ",");
        at += g->sizes[k];
        puts_(p, "}");
    }
    puts_(p, "}");
}

void put_groups(struct printer *p, const struct replica_groups *g)
{
    bool expand = p->o && p->o->expand_groups;
    if (g->text && (!expand || g->none || !g->uniform)) {
        put(p, g->text, g->len);
    } else if (g->none) {
        puts_(p, "{}");
    } else if (!g->uniform) {
        list_ragged(p, g);
    } else if (expand || !has_iota_form(p->m->ir->shardings, g->tiles)) {
        list_tiling(p, g->tiles);
    } else {
        p->scratch.n = 0;
        tiling_print(p->m->ir->shardings, g->tiles, &p->scratch);
        put(p, str_text(&p->scratch), p->scratch.n);
    }
}

/* ---- permutes -------------------------------------------------------------------------------- */

static void put_pair(struct printer *p, bool *first, int64_t from, int64_t to)
{
    puts_(p, *first ? "{" : ",{");
    *first = false;
    put_int(p, from);
    puts_(p, ",");
    put_int(p, to);
    puts_(p, "}");
}

/* Cell by cell of two tilings. A device that keeps its own cell is listed too: whoever is no target
 * of a pair would get zeros. */
static void pairs_of_tilings(struct printer *p, const struct permute_pairs *a)
{
    const struct shardings *t = p->m->ir->shardings;
    int64_t n = order_get(t, a->from.order)->ndevices;
    bool first = true;
    for (int64_t cell = 0; cell < n; cell++) {
        int64_t from = order_device(t, a->from.order, cell);
        put_pair(p, &first, from, order_device(t, a->to.order, cell));
    }
}

/* Tile i sends to tile i + shift along one axis. */
static void pairs_of_shift(struct printer *p, const struct permute_pairs *a)
{
    const struct shardings *t = p->m->ir->shardings;
    int64_t inner = 1;
    for (int k = a->axis + 1; k < a->from.naxes; k++)
        inner *= a->from.dims[k];
    int64_t size = a->from.dims[a->axis], limit = a->limit ? a->limit : size;
    int64_t n = order_get(t, a->from.order)->ndevices;
    bool first = true;
    for (int64_t cell = 0; cell < n; cell++) {
        int64_t i = cell / inner % size, to = i + a->shift;
        if (a->wrap)
            to = (to % limit + limit) % limit;
        if (i >= limit || to < 0 || to >= limit)
            continue;
        put_pair(p, &first, order_device(t, a->from.order, cell),
                 order_device(t, a->from.order, cell + (to - i) * inner));
    }
}

void put_pairs(struct printer *p, const struct permute_pairs *a)
{
    if (a->text) {
        put(p, a->text, a->len);
        return;
    }
    puts_(p, "{");
    bool first = true;
    switch (a->kind) {
    case PAIRS_LIST:
        for (int64_t k = 0; k < a->n; k++)
            put_pair(p, &first, a->list[2 * k], a->list[2 * k + 1]);
        break;
    case PAIRS_TILINGS: pairs_of_tilings(p, a); break;
    case PAIRS_SHIFT: pairs_of_shift(p, a); break;
    }
    puts_(p, "}");
}
