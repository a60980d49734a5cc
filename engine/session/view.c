/* One instruction as seen after propagation. */
#include "session/internal.h"

#include <string.h>

static sharding_id leaf_sharding(struct ir *c, sharding_id s, int64_t leaf)
{
    const struct sharding *v = sharding_get(c->shardings, s);
    if (v->kind != SHARDING_TUPLE)
        return s;
    return leaf < v->nelems ? v->elems[leaf] : (sharding_id){ 0 };
}

static void measure_array(struct ir *c, const struct shape *shape, sharding_id s, int64_t n,
                          struct tensor_view *out)
{
    struct shardings *t = c->shardings;
    const struct sharding *v = sharding_get(t, s);
    int64_t local[64];
    if (shape->rank > 64 || v->kind == SHARDING_TUPLE)
        return;
    memcpy(local, shape->dims, (size_t)shape->rank * sizeof local[0]);
    out->tiles = 1;
    out->copies = v->kind == SHARDING_MAXIMAL ? 1 : max_i64(n, 1);
    if (v->kind == SHARDING_TILED && sharding_data_rank(t, s) == shape->rank) {
        sharding_shard_dims(t, s, shape->rank, shape->dims, local);
        for (int k = 0; k < shape->rank; k++)
            out->tiles *= sharding_tile(t, s, k);
        out->copies = sharding_total(t, s) / max_i64(out->tiles, 1);
    }
    out->local = shape_array(c, shape->dtype, shape->rank, local);
    const struct shape *l = shape_get(c, out->local);
    out->bytes = l->bytes;
    int64_t stored;
    if (l->count >= 0 && shape->count >= 0 && mul_ok(l->count, out->tiles, &stored))
        out->padding = stored - shape->count;
}

static shape_id local_tuple(struct ir *c, shape_id shape, sharding_id s, int64_t *leaf,
                            int64_t *bytes);

/* Tuples nest as deep as the module's reader allowed; the reader bounds it. */
static shape_id local_of(struct ir *c, shape_id shape, sharding_id s, int64_t *leaf, int64_t *bytes)
{
    const struct shape *v = shape_get(c, shape);
    if (v->kind == SHAPE_TUPLE)
        return local_tuple(c, shape, s, leaf, bytes);
    sharding_id mine = leaf_sharding(c, s, (*leaf)++);
    if (v->kind != SHAPE_ARRAY)
        return shape;
    struct tensor_view one = { .bytes = 0 };
    measure_array(c, v, mine, 1, &one);
    if (*bytes < 0 || one.bytes < 0 || !add_ok(*bytes, one.bytes, bytes))
        *bytes = -1;
    return one.local.i ? one.local : shape;
}

static shape_id local_tuple(struct ir *c, shape_id shape, sharding_id s, int64_t *leaf,
                            int64_t *bytes)
{
    const struct shape *v = shape_get(c, shape);
    struct arena tmp = { 0 };
    arena_open(&tmp);
    shape_id *elems = ARENA_ARRAY(&tmp, shape_id, v->nelems + 1);
    for (int64_t k = 0; k < v->nelems; k++)
        elems[k] = local_of(c, v->elems[k], s, leaf, bytes);
    shape_id out = shape_tuple(c, v->nelems, elems);
    arena_close(&tmp);
    return out;
}

void measure_shape(struct ir *c, shape_id shape, sharding_id s, int64_t ndevices,
                   struct tensor_view *out)
{
    const struct shape *v = shape_get(c, shape);
    out->local = shape;
    out->tiles = 1;
    out->copies = max_i64(ndevices, 1);
    out->padding = 0;
    out->bytes = 0;
    if (v->kind == SHAPE_ARRAY) {
        measure_array(c, v, s, ndevices, out);
    } else if (v->kind == SHAPE_TUPLE) {
        int64_t leaf = 0;
        out->local = local_tuple(c, shape, s, &leaf, &out->bytes);
    }
}

void view_measure(struct document *doc, struct tensor_view *v)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return;
    measure_shape(doc->ir, instr_at(doc->module, v->instr)->shape, v->sharding,
                  document_devices(doc), v);
    fail_leave(&f);
}

bool document_view(struct document *doc, instr_id i, uint32_t site, struct tensor_view *out,
                   struct tick *t, struct diag *d)
{
    memset(out, 0, sizeof *out);
    out->instr = i;
    const struct propagation *p = document_propagation(doc, t, d);
    if (!p)
        return false;
    const struct graph *g = p->graph;
    uint32_t first = g->start[i.i];
    out->nsites = g->start[i.i + 1] - first;
    out->removed = (enum removed_reason)g->removed[i.i];
    if (site >= out->nsites)
        return true;
    out->working = g->list[first + site];
    out->site = g->origin[out->working.i].site;
    out->sharding = p->final[out->working.i];
    out->open = p->open ? p->open[out->working.i] : 0;
    sharding_id initial = prop_given(p, out->working);
    if (document_annotation_of(doc, out->working, d) >= 0)
        out->origin = ORIGIN_USER;
    else if (initial.i)
        out->origin = ORIGIN_MODULE;
    else
        out->origin = out->sharding.i ? ORIGIN_PROPAGATED : ORIGIN_NONE;
    return true;
}
