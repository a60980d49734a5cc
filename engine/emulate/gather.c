/* gather and scatter, batching dimensions included. */
#include <string.h>

#include "emulate/lower.h"

/* Positions of start indices: every index of the indices array without its vector dimension. */
struct indexing {
    int nvec;                      /* entries of one start vector */
    const int64_t *to_operand;     /* [nvec] operand dimension of each */
    int64_t vec_stride;            /* between entries of a vector, in the indices array */
    int nbatch;                    /* batch dimensions of the indices */
    int64_t *batch, *batch_stride; /* sizes, strides in the indices array */
    int64_t *batch_other;          /* strides in the output (gather) or the updates (scatter) */
    int *batch_operand;            /* operand batching dimension tied to it, or -1 */
    int rank;                      /* of the operand */
    int64_t *room;                 /* [rank] largest start */
    int64_t *strides;              /* [rank] of the operand */
    struct box window;             /* one slice: dst = output/updates side, src = operand side */
    int64_t window_count;
};

/* Offset of the start that vector `at` names; false: not wholly inside (and clamp is off). */
static bool start_offset(const struct indexing *x, const struct leaf *l, const void *indices,
                         int64_t at, const int64_t *batch_index, bool clamp, int64_t *out)
{
    int64_t off = 0;
    for (int k = 0; k < x->nvec; k++) {
        int64_t v = read_index(l->elem, indices, at + k * x->vec_stride), d = x->to_operand[k];
        if (!clamp && (v < 0 || v > x->room[d]))
            return false;
        off += max_i64(0, min_i64(v, x->room[d])) * x->strides[d];
    }
    for (int k = 0; k < x->nbatch; k++)
        if (x->batch_operand[k] >= 0)
            off += batch_index[k] * x->strides[x->batch_operand[k]];
    *out = off;
    return true;
}

static bool vector_poisoned(const struct indexing *x, const uint8_t *pin, int64_t at)
{
    for (int k = 0; pin && k < x->nvec; k++)
        if (pin[at + k * x->vec_stride])
            return true;
    return false;
}

/* Moves to the next batch position; at: in the indices, other: in the output or updates. */
static bool next_batch(const struct indexing *x, int64_t *index, int64_t *at, int64_t *other)
{
    for (int k = x->nbatch - 1; k >= 0; k--) {
        *at += x->batch_stride[k];
        *other += x->batch_other[k];
        if (++index[k] < x->batch[k])
            return true;
        *at -= x->batch_stride[k] * x->batch[k];
        *other -= x->batch_other[k] * x->batch[k];
        index[k] = 0;
    }
    return false;
}

static bool no_batch(const struct indexing *x)
{
    for (int k = 0; k < x->nbatch; k++)
        if (x->batch[k] == 0)
            return true;
    return false;
}

static bool listed(const int64_t *v, int n, int64_t x)
{
    for (int k = 0; k < n; k++)
        if (v[k] == x)
            return true;
    return false;
}

/* names of the attributes differ between gather and scatter */
struct index_attrs {
    enum attr_key window_dims, gone_dims, map, operand_batching, indices_batching;
};

/* other: the output of a gather, the updates of a scatter. sizes: of the slice, by operand
 * dimension. */
static bool make_indexing(struct lowering *l, struct indexing *x, const struct shape *operand,
                          const struct shape *indices, const struct shape *other,
                          const int64_t *sizes, const struct index_attrs *names)
{
    int nw, ngone, nmap, nob, nib;
    const int64_t *window = instr_ints(l->i, names->window_dims, &nw);
    const int64_t *gone = instr_ints(l->i, names->gone_dims, &ngone);
    const int64_t *map = instr_ints(l->i, names->map, &nmap);
    const int64_t *ob = instr_ints(l->i, names->operand_batching, &nob);
    const int64_t *ib = instr_ints(l->i, names->indices_batching, &nib);
    int ivd = (int)instr_int(l->i, ATTR_INDEX_VECTOR_DIM, indices->rank), r = indices->rank;
    int64_t *istr = ARENA_ARRAY(l->a, int64_t, r + 1),
            *ostr = ARENA_ARRAY(l->a, int64_t, other->rank + 1);
    if (other->rank > MAX_RANK || operand->rank > MAX_RANK)
        return lower_missing(l, "this rank");
    row_strides(r, indices->dims, istr);
    row_strides(other->rank, other->dims, ostr);
    x->nvec = nmap;
    x->to_operand = map;
    x->vec_stride = ivd < r ? istr[ivd] : 0;
    x->rank = operand->rank;
    x->strides = ARENA_ARRAY(l->a, int64_t, operand->rank + 1);
    x->room = ARENA_ARRAY(l->a, int64_t, operand->rank + 1);
    row_strides(operand->rank, operand->dims, x->strides);
    for (int k = 0; k < operand->rank; k++)
        x->room[k] = operand->dims[k] - sizes[k];
    x->batch = ARENA_ARRAY(l->a, int64_t, r + 1);
    x->batch_stride = ARENA_ARRAY(l->a, int64_t, r + 1);
    x->batch_other = ARENA_ARRAY(l->a, int64_t, r + 1);
    x->batch_operand = ARENA_ARRAY(l->a, int, r + 1);
    int at = 0; /* batch dimensions of `other` stand in order among its window dimensions */
    for (int k = 0; k < r; k++) {
        if (k == ivd)
            continue;
        while (at < other->rank && listed(window, nw, at))
            at++;
        int n = x->nbatch++;
        x->batch[n] = indices->dims[k];
        x->batch_stride[n] = istr[k];
        x->batch_other[n] = at < other->rank ? ostr[at++] : 0;
        x->batch_operand[n] = -1;
        for (int q = 0; q < nib && q < nob; q++)
            if (ib[q] == k)
                x->batch_operand[n] = (int)ob[q];
    }
    x->window = box_new(l->a, nw);
    x->window_count = 1;
    int n = 0;
    for (int k = 0; k < operand->rank && n < nw; k++) {
        if (listed(gone, ngone, k) || listed(ob, nob, k))
            continue;
        x->window.dims[n] = sizes[k];
        x->window.src[n] = x->strides[k];
        x->window.dst[n] = ostr[window[n]];
        x->window_count *= sizes[k];
        n++;
    }
    box_compact(&x->window);
    return true;
}

/* ---- gather -------------------------------------------------------------------------------------
 */

static void run_gather(const struct step *s, void *const *out, const void *const *in)
{
    const struct indexing *x = s->p;
    int64_t index[MAX_RANK] = { 0 }, at = 0, other = 0;
    if (no_batch(x))
        return;
    do {
        struct box b = x->window;
        start_offset(x, &s->lin[1], in[1], at, index, true, &b.src0);
        b.dst0 = other;
        box_copy(&b, out[0], in[0], s->lout[0].elem.size);
    } while (next_batch(x, index, &at, &other));
}

static void poison_gather(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    const struct indexing *x = s->p;
    int64_t index[MAX_RANK] = { 0 }, at = 0, other = 0, still[MAX_RANK] = { 0 };
    static const uint8_t one[1] = { 1 };
    if (no_batch(x))
        return;
    do {
        struct box b = x->window;
        b.dst0 = other;
        if (vector_poisoned(x, pin[1], at)) {
            b.src = still;
            b.src0 = 0;
            box_copy(&b, pout[0], one, 1);
        } else if (pin[0]) {
            start_offset(x, &s->lin[1], in[1], at, index, true, &b.src0);
            box_copy(&b, pout[0], pin[0], 1);
        }
    } while (next_batch(x, index, &at, &other));
}

bool lower_gather(struct lowering *l)
{
    static const struct index_attrs names = { ATTR_OFFSET_DIMS, ATTR_COLLAPSED_SLICE_DIMS,
                                              ATTR_START_INDEX_MAP, ATTR_OPERAND_BATCHING_DIMS,
                                              ATTR_START_INDICES_BATCHING_DIMS };
    int n;
    struct indexing *x = ARENA_NEW(l->a, struct indexing);
    const int64_t *sizes = instr_ints(l->i, ATTR_SLICE_SIZES, &n);
    if (!make_indexing(l, x, operand_shape(l, 0), operand_shape(l, 1), l->shape, sizes, &names))
        return false;
    l->step->fn = run_gather;
    l->step->poison = poison_gather;
    l->step->bound = bound_moved;
    l->step->data = 1;
    l->step->p = x;
    return true;
}

/* ---- scatter ------------------------------------------------------------------------------------
 */

struct scatter {
    struct indexing x;
    uint32_t n; /* operands; then indices; then as many updates */
    const struct region *region;
    fold_fn fold;
    bool replace; /* the computation returns the update */
};

static void row_replace(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct folding *f = context; /* d: updates, s: operand */
    int size = f->size[0];
    for (int64_t i = 0; i < n; i++)
        memcpy(f->acc[0] + (s + i * ss) * size, f->x[0] + (d + i * ds) * size, (size_t)size);
}

/* The window's box has the updates as dst and the operand as src: turned round for folding. */
static void row_fold(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    fold_row(context, s, ss, d, ds, n);
}

static void run_scatter(const struct step *s, void *const *out, const void *const *in)
{
    const struct scatter *p = s->p;
    const struct indexing *x = &p->x;
    struct arena tmp = { 0 };
    struct folding f = { .fold = p->fold, .n = (int)p->n };
    arena_open(&tmp);
    for (uint32_t k = 0; k < p->n; k++) {
        if (out[k] != in[k])
            memcpy(out[k], in[k], (size_t)s->lout[k].bytes);
        f.acc[k] = out[k];
        f.x[k] = in[p->n + 1 + k];
        f.size[k] = s->lout[k].elem.size;
    }
    if (!p->fold && !p->replace) {
        f.region = p->region;
        region_scratch(p->region, &tmp, &f.scratch);
        char **more = ARENA_ARRAY(&tmp, char *, p->region->nslots + MAX_VARIADIC + 1);
        memcpy(more, f.scratch.slots, p->region->nslots * sizeof(char *));
        for (uint32_t k = 0; k < p->n; k++)
            more[p->region->nslots + k] = arena_alloc(&tmp, STRIP, 32);
        f.scratch.slots = more;
    }
    int64_t index[MAX_RANK] = { 0 }, at = 0, other = 0;
    if (!no_batch(x))
        do {
            struct box b = x->window;
            if (!start_offset(x, &s->lin[p->n], in[p->n], at, index, false, &b.src0))
                continue;
            b.dst0 = other;
            box_rows(&b, p->replace ? row_replace : row_fold, &f);
        } while (next_batch(x, index, &at, &other));
    arena_close(&tmp);
}

static void row_or(void *context, int64_t d, int64_t ds, int64_t s, int64_t ss, int64_t n)
{
    struct folding *f = context;
    for (int64_t i = 0; i < n; i++) {
        uint8_t *to = (uint8_t *)f->acc[0] + s + i * ss;
        uint8_t v = f->x[0] ? (uint8_t)f->x[0][d + i * ds] : 0;
        *to = f->fold ? (uint8_t)(*to | v) : v;
    }
}

static void poison_scatter(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                           const void *const *in)
{
    const struct scatter *p = s->p;
    const struct indexing *x = &p->x;
    for (uint32_t k = 0; k < p->n; k++) {
        int64_t index[MAX_RANK] = { 0 }, at = 0, other = 0;
        struct folding f = { .n = 1 };
        f.acc[0] = (char *)pout[k];
        f.x[0] = (const char *)pin[p->n + 1 + k];
        f.fold = p->replace ? NULL : fold_kernel(OP_OR, CT_U8); /* marks "joins what was there" */
        if (pin[k])
            memcpy(pout[k], pin[k], (size_t)s->lout[k].count);
        if (!no_batch(x))
            do {
                struct box b = x->window;
                if (vector_poisoned(x, pin[p->n], at)) { /* may land anywhere */
                    memset(pout[k], 1, (size_t)s->lout[k].count);
                    break;
                }
                if (!start_offset(x, &s->lin[p->n], in[p->n], at, index, false, &b.src0))
                    continue;
                b.dst0 = other;
                box_rows(&b, row_or, &f);
            } while (next_batch(x, index, &at, &other));
    }
}

/* An update window's sizes by operand dimension: 1 where inserted or batching. */
static int64_t *window_sizes(struct lowering *l, const struct shape *operand,
                             const struct shape *updates)
{
    int nw, ni, nb, at = 0;
    const int64_t *window = instr_ints(l->i, ATTR_UPDATE_WINDOW_DIMS, &nw);
    const int64_t *inserted = instr_ints(l->i, ATTR_INSERTED_WINDOW_DIMS, &ni);
    const int64_t *batching = instr_ints(l->i, ATTR_INPUT_BATCHING_DIMS, &nb);
    int64_t *sizes = ARENA_ARRAY(l->a, int64_t, operand->rank + 1);
    for (int k = 0; k < operand->rank; k++) {
        bool gone = listed(inserted, ni, k) || listed(batching, nb, k);
        sizes[k] = gone || at >= nw ? 1 : updates->dims[window[at++]];
    }
    return sizes;
}

bool lower_scatter(struct lowering *l)
{
    static const struct index_attrs names = { ATTR_UPDATE_WINDOW_DIMS, ATTR_INSERTED_WINDOW_DIMS,
                                              ATTR_SCATTER_DIMS_TO_OPERAND_DIMS,
                                              ATTR_INPUT_BATCHING_DIMS,
                                              ATTR_SCATTER_INDICES_BATCHING_DIMS };
    struct step *s = l->step;
    struct scatter *p = ARENA_NEW(l->a, struct scatter);
    comp_id c;
    p->n = s->nin / 2;
    if (s->nin % 2 == 0 || p->n > MAX_VARIADIC || s->nout != p->n ||
        instr_called(l->m, l->id, &c, 1) != 1)
        return lower_missing(l, "this form");
    const struct shape *operand = operand_shape(l, 0), *updates = operand_shape(l, p->n + 1);
    if (!make_indexing(l, &p->x, operand, operand_shape(l, p->n), updates,
                       window_sizes(l, operand, updates), &names))
        return false;
    const struct region *r = p->region = region_make(l->a, l->m, c, l->plan->mode, l->d);
    if (!r)
        return false;
    p->replace = p->n == 1 && r->nsteps == 0 && r->nroots == 1 && r->roots[0] == r->params[1];
    if (p->n == 1 && r->simple && r->slots[r->roots[0]].t == s->lout[0].elem.t &&
        s->lout[0].elem.ct != CT_SMALL)
        p->fold = fold_kernel(r->simple, s->lout[0].elem.ct);
    s->fn = run_scatter;
    s->poison = poison_scatter;
    s->data = 5; /* operand and updates */
    if (p->replace)
        s->bound = bound_moved;
    else if (p->n == 1 && r->simple == OP_ADD)
        set_bound_sum(l, 5, false, updates->count + 1);
    else
        s->bound_raises = region_sums(r);
    s->p = p;
    s->inplace = p->n == 1;
    return true;
}
