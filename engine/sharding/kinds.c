/* Constructors, P-18..P-21, and measures and predicates, P-4, P-5. */
#include <string.h>

#include "sharding/internal.h"

/* ---- interning ------------------------------------------------------------------------------------- */

const struct sharding *sharding_get(const struct shardings *t, sharding_id s)
{
    return &entry_at(t, s)->s;
}

static const int64_t *dims_put(struct shardings *t, int n, const int64_t *dims)
{
    uint32_t id = intern_put(&t->dims, dims, (size_t)n * sizeof *dims);
    return intern_at(&t->dims, id)->bytes;
}

/* A new entry for a key that was not there, or the old one: *fresh says which. */
static struct sharding_entry *entry_put(struct shardings *t, const int64_t *key, size_t bytes,
                                        sharding_id *id, bool *fresh)
{
    id->i = intern_put(&t->keys, key, bytes);
    *fresh = id->i >= t->entries.n;
    if (*fresh) {
        uint32_t same = paged_add(&t->entries);
        INVARIANT(same == id->i, "shardings and their keys run apart");
    }
    return paged_at(&t->entries, id->i);
}

static sharding_id leaf_put(struct shardings *t, enum sharding_kind kind, int64_t device, int flags)
{
    int64_t key[2] = { kind, device };
    sharding_id id;
    bool fresh;
    struct sharding_entry *e = entry_put(t, key, sizeof key, &id, &fresh);
    if (fresh) {
        e->s.kind = kind;
        e->s.device = device;
        e->flags = flags;
        e->unique = kind == SHARDING_MAXIMAL;
        e->device = device;
        e->ntiles = 1;
    }
    return id;
}

sharding_id sharding_replicated(struct shardings *t)
{
    if (t->replicated.i)
        return t->replicated;
    return leaf_put(t, SHARDING_REPLICATED, 0, IS_REP | IS_MAX | IS_SPATIAL);
}

sharding_id sharding_maximal(struct shardings *t, int64_t device)
{
    return leaf_put(t, SHARDING_MAXIMAL, device, IS_MAX);
}

sharding_id sharding_manual(struct shardings *t)
{
    return leaf_put(t, SHARDING_MANUAL, 0, IS_MAN | IS_SPATIAL | HAS_MAN);
}

sharding_id sharding_unknown(struct shardings *t)
{
    return leaf_put(t, SHARDING_UNKNOWN, 0, IS_UNK | IS_SPATIAL);
}

static int tiled_flags(bool lastrep, int ntypes, const enum axis_type *types)
{
    int flags = IS_SPATIAL | (lastrep ? IS_PARTIAL : 0);
    for (int i = 0; i < ntypes; i++) {
        if (types[i] == AXIS_MANUAL)
            flags |= IS_MANSUB | HAS_MAN;
        if (types[i] == AXIS_REPLICATED)
            flags |= IS_PARTIAL;
    }
    return flags;
}

static sharding_id tiled_put(struct shardings *t, int naxes, const int64_t *dims, order_id o,
                             bool lastrep, int ntypes, const enum axis_type *types)
{
    INVARIANT(naxes <= AXES_MAX && ntypes <= 3, "a tile assignment of %d axes", naxes);
    int64_t key[AXES_MAX + 4], trailing = lastrep;
    for (int i = 0; i < ntypes; i++)
        trailing = trailing * 8 + 2 + (int64_t)types[i];
    key[0] = SHARDING_TILED;
    key[1] = trailing;
    key[2] = o.i;
    memcpy(key + 3, dims, (size_t)naxes * sizeof *dims);
    sharding_id id;
    bool fresh;
    struct sharding_entry *e = entry_put(t, key, (size_t)(naxes + 3) * sizeof *key, &id, &fresh);
    if (!fresh)
        return id;
    struct sharding *s = &e->s;
    s->kind = SHARDING_TILED;
    s->lastrep = lastrep;
    s->ntypes = ntypes;
    for (int i = 0; i < ntypes; i++)
        s->types[i] = types[i];
    s->data_rank = naxes - ntypes - lastrep;
    s->tiles = (struct tiling){ naxes, dims_put(t, naxes, dims), o };
    e->flags = tiled_flags(lastrep, ntypes, types);
    e->ntiles = product(s->data_rank, dims);
    return id;
}

/* ---- T, P-18..P-20 --------------------------------------------------------------------------------- */

sharding_id plain_make(struct shardings *t, int naxes, const int64_t *dims, order_id o)
{
    return tiled_put(t, naxes, dims, o, false, 0, NULL);
}

sharding_id partial_make(struct shardings *t, int naxes, const int64_t *dims, order_id o)
{
    INVARIANT(naxes >= 1, "a partial tiling without axes");
    int64_t rep = dims[naxes - 1];
    if (naxes == 1 || rep == order_get(t, o)->ndevices)
        return sharding_replicated(t);
    if (rep == 1)
        return plain_make(t, naxes - 1, dims, o);
    return tiled_put(t, naxes, dims, order_sort_runs(t, o, rep), true, 0, NULL);
}

/* P-20 step 3: axes of size 1 go, those of one type come together: maximal, manual, replicated. */
static int normalise_subgroups(struct shardings *t, int ndata, int naxes, int64_t *dims,
                               order_id *o, const enum axis_type *types, enum axis_type *out)
{
    int perm[AXES_MAX], k = 0, nout = 0;
    int64_t fused[3];
    for (; k < ndata; k++)
        perm[k] = k;
    static const enum axis_type rank[3] = { AXIS_MAXIMAL, AXIS_MANUAL, AXIS_REPLICATED };
    for (int r = 0; r < 3; r++) {
        int64_t size = 1;
        for (int i = ndata; i < naxes; i++) {
            if (types[i - ndata] != rank[r])
                continue;
            perm[k++] = i;
            size *= dims[i];
        }
        if (size > 1) {
            fused[nout] = size;
            out[nout++] = rank[r];
        }
    }
    *o = order_transpose(t, naxes, dims, *o, perm);
    for (int i = 0; i < nout; i++)
        dims[ndata + i] = fused[i];
    return nout;
}

sharding_id subgroup_make(struct shardings *t, int naxes, const int64_t *given, order_id o,
                          int ntypes, const enum axis_type *types)
{
    if (ntypes == 0)
        return plain_make(t, naxes, given, o);
    INVARIANT(naxes <= AXES_MAX && ntypes <= naxes, "a tile assignment of %d axes", naxes);
    int64_t dims[AXES_MAX];
    memcpy(dims, given, (size_t)naxes * sizeof *dims);
    int ndata = naxes - ntypes;
    bool same = true;
    for (int i = 1; i < ntypes; i++)
        same = same && types[i] == types[0];
    if (same && product(ndata, dims) == 1) {
        if (types[0] == AXIS_MANUAL)
            return sharding_manual(t);
        if (types[0] == AXIS_REPLICATED)
            return sharding_replicated(t);
    }
    enum axis_type kept[3];
    int n = normalise_subgroups(t, ndata, naxes, dims, &o, types, kept);
    if (n == 0)
        return plain_make(t, ndata, dims, o);
    if (n == 1 && kept[0] == AXIS_REPLICATED)
        return partial_make(t, ndata + 1, dims, o);
    if (n == 1 && kept[0] == AXIS_MANUAL && dims[ndata] == order_get(t, o)->ndevices)
        return sharding_manual(t);
    if (kept[n - 1] == AXIS_REPLICATED)
        o = order_sort_runs(t, o, dims[ndata + n - 1]);
    return tiled_put(t, ndata + n, dims, o, false, n, kept);
}

sharding_id rebuild_make(struct shardings *t, const struct sharding *s, int naxes,
                         const int64_t *dims, order_id o)
{
    if (s->lastrep)
        return partial_make(t, naxes, dims, o);
    return subgroup_make(t, naxes, dims, o, s->ntypes, s->types);
}

sharding_id sharding_plain(struct shardings *t, struct tiling a)
{
    return plain_make(t, a.naxes, a.dims, a.order);
}

sharding_id sharding_partial(struct shardings *t, struct tiling a)
{
    return partial_make(t, a.naxes, a.dims, a.order);
}

sharding_id sharding_subgroup(struct shardings *t, struct tiling a, int ntypes,
                              const enum axis_type *types)
{
    return subgroup_make(t, a.naxes, a.dims, a.order, ntypes, types);
}

sharding_id sharding_rebuild(struct shardings *t, sharding_id s, struct tiling a)
{
    const struct sharding *x = sharding_get(t, s);
    return is_tiled_leaf(x) ? rebuild_make(t, x, a.naxes, a.dims, a.order) : s;
}

/* ---- tuples ------------------------------------------------------------------------------------------ */

static void tuple_fill(struct shardings *t, struct sharding_entry *e)
{
    int flags = ALL_FLAGS;
    e->unique = e->s.nelems > 0;
    for (int64_t i = 0; i < e->s.nelems; i++) {
        const struct sharding_entry *x = entry_at(t, e->s.elems[i]);
        flags = (flags & x->flags) | (flags & ~ALL_FLAGS) | (x->flags & ~ALL_FLAGS);
        if (i == 0)
            e->device = x->device;
        e->unique = e->unique && x->unique && x->device == e->device;
    }
    e->flags = flags;
    e->ntiles = 1;
}

/* The key of a tuple is the kind and the elements' ids; the elements stay where the key is kept. */
sharding_id sharding_tuple(struct shardings *t, int64_t n, const sharding_id *elems)
{
    struct arena tmp = { 0 };
    int64_t small[64], *key = small;
    if (n / 2 + 2 > (int64_t)COUNTOF(small)) {
        arena_open(&tmp);
        key = ARENA_ARRAY(&tmp, int64_t, n / 2 + 2);
    }
    key[0] = SHARDING_TUPLE;
    if (n)
        memcpy(key + 1, elems, (size_t)n * sizeof *elems);
    sharding_id id;
    bool fresh;
    struct sharding_entry *e =
        entry_put(t, key, sizeof *key + (size_t)n * sizeof *elems, &id, &fresh);
    if (tmp.open)
        arena_close(&tmp);
    if (fresh) {
        e->s.kind = SHARDING_TUPLE;
        e->s.nelems = n;
        const int64_t *kept = intern_at(&t->keys, id.i)->bytes;
        e->s.elems = (const sharding_id *)(kept + 1);
        tuple_fill(t, e);
    }
    return id;
}

sharding_id sharding_tuple_of(struct shardings *t, int64_t n, sharding_id leaf)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    n = max_i64(n, 1);
    sharding_id *elems = ARENA_ARRAY(&tmp, sharding_id, n);
    for (int64_t i = 0; i < n; i++)
        elems[i] = leaf;
    sharding_id id = sharding_tuple(t, n, elems);
    arena_close(&tmp);
    return id;
}

/* ---- predicates, P-5 ----------------------------------------------------------------------------------- */

static bool has(const struct shardings *t, sharding_id s, int flag)
{
    return (entry_at(t, s)->flags & flag) != 0;
}

bool sharding_is_replicated(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_REP);
}

bool sharding_is_max(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_MAX);
}

bool sharding_is_manual(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_MAN);
}

bool sharding_is_unknown(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_UNK);
}

bool sharding_is_manual_subgroup(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_MANSUB);
}

bool sharding_is_tiled(const struct shardings *t, sharding_id s)
{
    return s.i && !has(t, s, IS_MAX | IS_MAN | IS_UNK);
}

bool sharding_is_spatial(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_SPATIAL);
}

bool sharding_is_partial(const struct shardings *t, sharding_id s)
{
    return has(t, s, IS_PARTIAL);
}

bool sharding_has_manual(const struct shardings *t, sharding_id s)
{
    return has(t, s, HAS_MAN);
}

bool sharding_unique_device(const struct shardings *t, sharding_id s, int64_t *device)
{
    const struct sharding_entry *e = entry_at(t, s);
    if (e->unique)
        *device = e->device;
    return e->unique;
}

/* ---- measures, P-4 -------------------------------------------------------------------------------------- */

int64_t sharding_tile(const struct shardings *t, sharding_id s, int axis)
{
    const struct sharding *x = sharding_get(t, s);
    return is_tiled_leaf(x) && axis >= 0 && axis < x->data_rank ? x->tiles.dims[axis] : 1;
}

int64_t sharding_num_tiles(const struct shardings *t, sharding_id s)
{
    return s.i ? entry_at(t, s)->ntiles : 1;
}

int64_t sharding_total(const struct shardings *t, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    return is_tiled_leaf(x) ? order_get(t, x->tiles.order)->ndevices : 1;
}

static int typed_axis(const struct sharding *x, enum axis_type type)
{
    for (int i = 0; i < x->ntypes; i++)
        if (x->types[i] == type)
            return x->data_rank + i;
    return -1;
}

int sharding_rep_axis(const struct shardings *t, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    if (!is_tiled_leaf(x))
        return -1;
    return x->lastrep ? x->data_rank : typed_axis(x, AXIS_REPLICATED);
}

int sharding_manual_axis(const struct shardings *t, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    return is_tiled_leaf(x) ? typed_axis(x, AXIS_MANUAL) : -1;
}

int64_t sharding_copies(const struct shardings *t, sharding_id s)
{
    int axis = sharding_rep_axis(t, s);
    return axis < 0 ? 1 : sharding_get(t, s)->tiles.dims[axis];
}

int sharding_data_rank(const struct shardings *t, sharding_id s)
{
    return sharding_get(t, s)->data_rank;
}

/* ---- fitting an array, P-23 ------------------------------------------------------------------------------ */

static bool devices_fit(const struct shardings *t, const struct order *o, int64_t ndevices,
                        const struct source *src, struct span at, struct diag *d)
{
    (void)t;
    if (!o->explicit_)
        return true;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct map seen;
    map_init(&seen, &tmp);
    bool ok = true;
    for (int64_t i = 0; ok && i < o->ndevices; i++) {
        int64_t v = o->explicit_[i];
        uint64_t old;
        if (map_get(&seen, (uint64_t)v, &old))
            ok = diag_error(d, src, at, "device %" PRId64 " occurs twice in the tile assignment", v);
        else if (v < 0 || (ndevices > 0 && v >= ndevices))
            ok = diag_error(d, src, at, "device %" PRId64 " is not one of the %" PRId64 " devices",
                            v, ndevices);
        map_put(&seen, (uint64_t)v, 1);
    }
    arena_close(&tmp);
    return ok;
}

bool sharding_fits(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                   int64_t ndevices, const struct source *src, struct span at, struct diag *d)
{
    (void)dims; /* any size can be cut into any number of tiles: S-13 */
    const struct sharding *x = sharding_get(t, s);
    if (x->kind == SHARDING_TUPLE)
        return diag_error(d, src, at,
                          "a tuple of %" PRId64 " shardings cannot describe one array", x->nelems);
    if (x->kind == SHARDING_MAXIMAL && ndevices > 1 && x->device >= ndevices)
        return diag_error(d, src, at, "device %" PRId64 " does not exist: the program runs on %" PRId64 " devices",
                          x->device, ndevices);
    if (!is_tiled_leaf(x))
        return true;
    if (x->data_rank != rank)
        return rank == 0
                   ? diag_error(d, src, at,
                                "a scalar (rank 0) cannot be cut: the sharding has %d dimension%s",
                                x->data_rank, x->data_rank == 1 ? "" : "s")
                   : diag_error(d, src, at,
                                "the sharding cuts %d dimension%s, the array has rank %d",
                                x->data_rank, x->data_rank == 1 ? "" : "s", rank);
    const struct order *o = order_get(t, x->tiles.order);
    if (o->ndevices == 1) {
        diag_error(d, src, at, "a tiled sharding needs more than one device");
        diag_hint(d, "{replicated}, or {maximal device=%" PRId64 "}", order_device(t, x->tiles.order, 0));
        return false;
    }
    if (ndevices > 0 && o->ndevices != ndevices)
        return diag_error(d, src, at,
                          "the sharding is over %" PRId64 " devices, the program runs on %" PRId64,
                          o->ndevices, ndevices);
    return devices_fit(t, o, ndevices, src, at, d);
}

/* ---- tiles of an array, P-46, S-12, S-13 -------------------------------------------------------------------- */

void sharding_shard_dims(const struct shardings *t, sharding_id s, int rank, const int64_t *dims,
                         int64_t *local)
{
    for (int i = 0; i < rank; i++)
        local[i] = ceil_div(dims[i], sharding_tile(t, s, i));
}

bool sharding_tile_index(const struct shardings *t, sharding_id s, int64_t device, int64_t *index)
{
    const struct sharding *x = sharding_get(t, s);
    if (x->kind == SHARDING_MAXIMAL)
        return x->device == device;
    if (!is_tiled_leaf(x))
        return true;
    int64_t cell = order_cell(t, x->tiles.order, device);
    for (int i = x->tiles.naxes - 1; i >= 0; i--) {
        int64_t k = x->tiles.dims[i];
        if (i < x->data_rank)
            index[i] = cell < 0 ? 0 : cell % k;
        cell = cell < 0 ? cell : cell / k;
    }
    return cell >= 0;
}

bool sharding_evenly(const struct shardings *t, sharding_id s, int rank, const int64_t *dims)
{
    if (sharding_get(t, s)->kind == SHARDING_MAXIMAL)
        return false;
    for (int i = 0; i < rank; i++)
        if (dims[i] % sharding_tile(t, s, i))
            return false;
    return true;
}
