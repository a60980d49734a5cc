/* The sharding of a reshaped array, P-47..P-49, S-34, S-35. */
#include <string.h>

#include "sharding/internal.h"

/* ---- P-47 over numbers -------------------------------------------------------------------------------- */

struct walk {
    int nsrc, ntgt, nout, ndrop;
    int64_t size[AXES_MAX], parts[AXES_MAX]; /* stacks: the front is the last entry */
    int64_t tgt[AXES_MAX];
    int64_t out[AXES_MAX];
    int drop[AXES_MAX];
    int position; /* index of the source axis last removed */
    bool glue;
};

static void emit(struct walk *w, int64_t q)
{
    if (w->glue && w->nout)
        w->out[w->nout - 1] *= q;
    else
        w->out[w->nout++] = q;
    w->glue = false;
}

static void push_source(struct walk *w, int64_t size, int64_t parts)
{
    w->size[w->nsrc] = size;
    w->parts[w->nsrc++] = parts;
    w->position--;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Source axes that are not cut are matched with whole target axes at once. */
static void skip_uncut(struct walk *w)
{
    int64_t whole = 1;
    while (w->nsrc && w->parts[w->nsrc - 1] == 1) {
        whole *= w->size[--w->nsrc];
        w->position++;
    }
    while (w->ntgt && w->tgt[w->ntgt - 1] > 1 && whole % w->tgt[w->ntgt - 1] == 0) {
        whole /= w->tgt[--w->ntgt];
        emit(w, 1);
    }
    if (whole != 1)
        push_source(w, whole, 1);
}

enum step { STEP_ON, STEP_STOP, STEP_NONE };

static enum step split_step(struct walk *w, int64_t z, int64_t q, int64_t t)
{
    if (z % q)
        return STEP_NONE;
    if (z % t == 0 && t % q == 0) {
        emit(w, q);
        push_source(w, z / t, 1);
        return STEP_ON;
    }
    if (z % t == 0 && q % t == 0) {
        emit(w, t);
        push_source(w, z / t, q / t);
        return STEP_ON;
    }
    emit(w, gcd(t, q));
    return STEP_STOP;
}

static enum step merge_step(struct walk *w, int64_t z, int64_t q, int64_t t)
{
    if (z % q)
        return STEP_NONE;
    if (w->nsrc == 0 || t % z) {
        emit(w, gcd(t, q));
        return STEP_STOP;
    }
    if (w->parts[w->nsrc - 1] != 1 && z != q)
        return STEP_STOP;
    if (!mul_ok(w->size[w->nsrc - 1], z, &w->size[w->nsrc - 1]))
        return STEP_NONE;
    w->parts[w->nsrc - 1] *= q;
    w->tgt[w->ntgt++] = t;
    return STEP_ON;
}

static enum step reshape_step(struct walk *w)
{
    int64_t t = w->tgt[--w->ntgt], z = 1, q = 1;
    if (w->nsrc) {
        z = w->size[--w->nsrc];
        q = w->parts[w->nsrc];
        w->position++;
    }
    if (z == t) {
        emit(w, q);
    } else if (q > 1 && z % q == 0 && t % q == 0) {
        push_source(w, z / q, 1);
        w->tgt[w->ntgt++] = t / q;
        emit(w, q);
        w->glue = true;
    } else if (t == 1) {
        emit(w, 1);
        push_source(w, z, q);
    } else if (z == 1) {
        w->tgt[w->ntgt++] = t;
        if (q > 1)
            w->drop[w->ndrop++] = w->position;
    } else {
        return z > t ? split_step(w, z, q, t) : merge_step(w, z, q, t);
    }
    return STEP_ON;
}

static bool some_cut(const struct walk *w)
{
    for (int i = 0; i < w->nsrc; i++)
        if (w->parts[i] > 1)
            return true;
    return false;
}

/* False: no answer. w->out has target_rank entries, w->drop the source axes to replicate first. */
static bool reshape_tiles(int srank, const int64_t *sdims, int trank, const int64_t *tdims,
                          const int64_t *tiles, struct walk *w)
{
    w->nsrc = w->ntgt = w->nout = w->ndrop = 0;
    w->position = -1;
    w->glue = false;
    for (int i = srank - 1; i >= 0; i--) {
        if (sdims[i] == 0)
            return false; /* nothing to divide by: P-151 */
        w->size[w->nsrc] = sdims[i];
        w->parts[w->nsrc++] = tiles[i];
    }
    for (int i = trank - 1; i >= 0; i--) {
        if (tdims[i] == 0)
            return false;
        w->tgt[w->ntgt++] = tdims[i];
    }
    while ((w->nsrc || w->ntgt) && some_cut(w)) {
        skip_uncut(w);
        if (w->ntgt == 0)
            break;
        enum step s = reshape_step(w);
        if (s == STEP_NONE)
            return false;
        if (s == STEP_STOP)
            break;
    }
    if (product(w->nout, w->out) == 1)
        return false;
    while (w->nout < trank)
        w->out[w->nout++] = 1;
    return w->nout == trank;
}

/* ---- S-34: of an array's sharding --------------------------------------------------------------------------- */

static sharding_id reshape_tiled(struct shardings *t, sharding_id s, int srank,
                                 const int64_t *sdims, int trank, const int64_t *tdims)
{
    const sharding_id none = { 0 };
    struct walk w;
    const struct sharding *x = sharding_get(t, s);
    if (!reshape_tiles(srank, sdims, trank, tdims, x->tiles.dims, &w))
        return none;
    if (w.ndrop) {
        s = sharding_replicate_dims(t, s, w.ndrop, w.drop);
        x = sharding_get(t, s);
        if (!is_tiled_leaf(x))
            return s;
    }
    int n = trank, nt = 0, rep = -1;
    enum axis_type types[4];
    int64_t *dims = w.out;
    for (int i = x->data_rank; i < x->tiles.naxes; i++) {
        types[nt] = x->lastrep ? AXIS_REPLICATED : x->types[i - x->data_rank];
        if (types[nt] == AXIS_REPLICATED)
            rep = n;
        dims[n++] = types[nt++] == AXIS_REPLICATED ? 1 : x->tiles.dims[i];
    }
    int64_t total = sharding_total(t, s), have = product(n, dims);
    if (total % have)
        return none;
    if (rep < 0 && total != have) {
        rep = n;
        types[nt++] = AXIS_REPLICATED;
        dims[n++] = 1;
    }
    if (rep >= 0)
        dims[rep] = total / have;
    return subgroup_make(t, n, dims, x->tiles.order, nt, types);
}

static bool ranks_fit(int srank, int trank)
{
    return srank <= AXES_MAX - 6 && trank <= AXES_MAX - 6;
}

sharding_id sharding_reshape(struct shardings *t, int srank, const int64_t *sdims, int trank,
                             const int64_t *tdims, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    if (!is_tiled_leaf(x))
        return s;
    if (!ranks_fit(srank, trank) || x->data_rank != srank)
        return (sharding_id){ 0 };
    struct memo_key key;
    memo_start(&key, MEMO_RESHAPE);
    memo_add(&key, s.i);
    memo_add_list(&key, srank, sdims);
    memo_add_list(&key, trank, tdims);
    int64_t r;
    if (!memo_get(t, &key, &r)) {
        r = reshape_tiled(t, s, srank, sdims, trank, tdims).i;
        memo_put(t, &key, r);
    }
    return (sharding_id){ (uint32_t)r };
}

/* ---- P-48 -------------------------------------------------------------------------------------------------------- */

/* The tiles of axes [start, end) alone, carried through the reshape as a partial tiling: these axes
 * are moved to the front of the array, everything else becomes replication. */
static bool interval(struct shardings *t, const struct sharding *x, int srank, const int64_t *sdims,
                     int trank, const int64_t *tdims, int start, int end, sharding_id *out)
{
    int64_t tiles[AXES_MAX], parts = 1;
    for (int i = 0; i < srank; i++) {
        tiles[i] = i >= start && i < end ? x->tiles.dims[i] : 1;
        parts *= tiles[i];
    }
    if (parts == 1)
        return false;
    struct walk w;
    if (!reshape_tiles(srank, sdims, trank, tdims, tiles, &w))
        return false;
    int64_t total = order_get(t, x->tiles.order)->ndevices, have = product(trank, w.out);
    if (parts % have || total % have)
        return false;
    int perm[AXES_MAX], n = 0;
    for (int i = start; i < end; i++)
        perm[n++] = i;
    for (int i = 0; i < x->tiles.naxes; i++)
        if (i < start || i >= end)
            perm[n++] = i;
    order_id o = order_transpose(t, n, x->tiles.dims, x->tiles.order, perm);
    w.out[trank] = total / have;
    *out = partial_make(t, trank + 1, w.out, o);
    return true;
}

/* Step 3. x is T without manual axes, or a slice of one (P-49) with more axes than srank. */
static sharding_id through(struct shardings *t, const struct sharding *x, int srank,
                           const int64_t *sdims, int trank, const int64_t *tdims)
{
    sharding_id result = sharding_replicated(t);
    for (int start = 0; start < srank;) {
        int end = srank;
        for (; end > start; end--) {
            sharding_id v;
            if (interval(t, x, srank, sdims, trank, tdims, start, end, &v) &&
                sharding_merge_compat(t, v, &result, -1))
                break;
        }
        start = end > start ? end : start + 1;
    }
    return result;
}

/* P-49: what happens to the positions inside one manual slice happens in all of them. */
static sharding_id through_manual(struct shardings *t, const struct sharding *x, int srank,
                                  const int64_t *sdims, int trank, const int64_t *tdims, int manual)
{
    int64_t dims[AXES_MAX], g = x->tiles.dims[manual];
    int64_t size = order_get(t, x->tiles.order)->ndevices / g;
    int perm[AXES_MAX], n = 0;
    perm[0] = manual;
    for (int i = 0; i < x->tiles.naxes; i++)
        if (i != manual) {
            dims[n++] = x->tiles.dims[i];
            perm[n] = i;
        }
    order_id slices =
        order_transpose(t, x->tiles.naxes, x->tiles.dims, x->tiles.order, perm);
    struct sharding slice = { .kind = SHARDING_TILED,
                              .tiles = { n, dims, order_iota(t, size) },
                              .data_rank = n };
    const struct sharding *r =
        sharding_get(t, through(t, &slice, srank, sdims, trank, tdims));
    int64_t out[AXES_MAX];
    out[0] = g;
    for (int i = 0; i < trank; i++)
        out[i + 1] = is_tiled_leaf(r) ? r->tiles.dims[i] : 1;
    out[trank + 1] = size / product(trank, out + 1);
    order_id o = is_tiled_leaf(r) ? order_compose(t, slices, r->tiles.order) : slices;
    for (int i = 0; i < trank; i++)
        perm[i] = i + 1;
    perm[trank] = 0;
    perm[trank + 1] = trank + 1;
    o = order_transpose(t, trank + 2, out, o, perm);
    memmove(out, out + 1, (size_t)trank * sizeof *out);
    out[trank] = g;
    return subgroup_make(t, trank + 2, out, o, 2,
                         (const enum axis_type[]){ AXIS_MANUAL, AXIS_REPLICATED });
}

static sharding_id through_any(struct shardings *t, sharding_id s, int srank, const int64_t *sdims,
                               int trank, const int64_t *tdims)
{
    const struct sharding *x = sharding_get(t, s);
    int manual = sharding_manual_axis(t, s);
    if (manual >= 0)
        return through_manual(t, x, srank, sdims, trank, tdims, manual);
    return through(t, x, srank, sdims, trank, tdims);
}

sharding_id sharding_through_reshape(struct shardings *t, int srank, const int64_t *sdims,
                                     int trank, const int64_t *tdims, sharding_id s)
{
    const struct sharding *x = sharding_get(t, s);
    if (!is_tiled_leaf(x))
        return s;
    if (!ranks_fit(srank, trank) || x->data_rank != srank)
        return sharding_replicated(t);
    struct memo_key key;
    memo_start(&key, MEMO_THROUGH);
    memo_add(&key, s.i);
    memo_add_list(&key, srank, sdims);
    memo_add_list(&key, trank, tdims);
    int64_t r;
    if (!memo_get(t, &key, &r)) {
        r = through_any(t, s, srank, sdims, trank, tdims).i;
        memo_put(t, &key, r);
    }
    return (sharding_id){ (uint32_t)r };
}
