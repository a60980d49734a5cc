/* Lowering of operations that only move elements: boxes with strides found once. */
#include "emulate/lower.h"

#include <string.h>

static void run_move(const struct step *s, void *const *out, const void *const *in)
{
    box_copy(&((const struct move *)s->p)->box, out[0], in[0], s->lout[0].elem.size);
}

static void poison_move(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                        const void *const *in)
{
    (void)in;
    box_copy(&((const struct move *)s->p)->box, pout[0], pin[0], 1);
}

static struct move *new_move(struct lowering *l, int rank)
{
    struct move *p = ARENA_NEW(l->a, struct move);
    p->box = box_new(l->a, rank);
    l->step->fn = run_move;
    l->step->poison = poison_move;
    l->step->bound = bound_moved;
    l->step->data = 1;
    l->step->p = p;
    return p;
}

/* Row-major strides of a shape, in the plan's arena. */
static int64_t *strides_of(struct lowering *l, const struct shape *s)
{
    int64_t *v = ARENA_ARRAY(l->a, int64_t, s->rank + 1);
    row_strides(s->rank, s->dims, v);
    return v;
}

bool lower_broadcast(struct lowering *l)
{
    const struct shape *in = operand_shape(l, 0);
    int n;
    const int64_t *map = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    if (l->step->lin[0].count == l->step->lout[0].count) {
        bool ordered = true;
        for (int k = 1; k < n; k++)
            ordered &= map[k] > map[k - 1];
        if (ordered) {
            l->alias = true;
            return true;
        }
    }
    struct move *p = new_move(l, l->shape->rank);
    int64_t *is = strides_of(l, in);
    dims_copy(p->box.dims, l->shape->dims, l->shape->rank);
    row_strides(l->shape->rank, l->shape->dims, p->box.dst);
    for (int k = 0; k < n && k < in->rank; k++)
        p->box.src[map[k]] = in->dims[k] == 1 ? 0 : is[k];
    box_compact(&p->box);
    return true;
}

bool lower_transpose(struct lowering *l)
{
    const struct shape *in = operand_shape(l, 0);
    int n;
    const int64_t *perm = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    bool same = true;
    for (int k = 0, last = -1; k < n; k++)
        if (in->dims[perm[k]] != 1) {
            same &= perm[k] > last;
            last = (int)perm[k];
        }
    if (same) {
        l->alias = true;
        return true;
    }
    struct move *p = new_move(l, n);
    int64_t *is = strides_of(l, in);
    row_strides(n, l->shape->dims, p->box.dst);
    for (int k = 0; k < n; k++) {
        p->box.dims[k] = l->shape->dims[k];
        p->box.src[k] = is[perm[k]];
    }
    box_compact(&p->box);
    return true;
}

bool lower_reverse(struct lowering *l)
{
    int n, rank = l->shape->rank;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    struct move *p = new_move(l, rank);
    row_strides(rank, l->shape->dims, p->box.dst);
    row_strides(rank, l->shape->dims, p->box.src);
    dims_copy(p->box.dims, l->shape->dims, rank);
    for (int k = 0; k < n; k++) {
        p->box.src0 += (l->shape->dims[dims[k]] - 1) * p->box.src[dims[k]];
        p->box.src[dims[k]] = -p->box.src[dims[k]];
    }
    box_compact(&p->box);
    return true;
}

bool lower_slice(struct lowering *l)
{
    const struct shape *in = operand_shape(l, 0);
    const struct attr *at = instr_attr(l->i, ATTR_SLICE);
    if (l->step->lin[0].count == l->step->lout[0].count) {
        l->alias = true;
        return true;
    }
    struct move *p = new_move(l, in->rank);
    int64_t *is = strides_of(l, in);
    row_strides(in->rank, l->shape->dims, p->box.dst);
    for (int k = 0; k < in->rank; k++) {
        p->box.dims[k] = l->shape->dims[k];
        p->box.src[k] = is[k] * (at ? at->ints[3 * k + 2] : 1);
        p->box.src0 += is[k] * (at ? at->ints[3 * k] : 0);
    }
    box_compact(&p->box);
    return true;
}

/* ---- concatenate -------------------------------------------------------------------------------
 */

static void run_concat(const struct step *s, void *const *out, const void *const *in)
{
    const struct move *p = s->p;
    for (uint32_t k = 0; k < s->nin; k++)
        box_copy(&p[k].box, out[0], in[k], s->lout[0].elem.size);
}

static void poison_concat(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                          const void *const *in)
{
    (void)in;
    const struct move *p = s->p;
    for (uint32_t k = 0; k < s->nin; k++)
        if (pin[k])
            box_copy(&p[k].box, pout[0], pin[k], 1);
}

bool lower_concatenate(struct lowering *l)
{
    int n, rank = l->shape->rank;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    if (l->step->nin == 1) {
        l->alias = true;
        return true;
    }
    struct move *p = ARENA_ARRAY(l->a, struct move, l->step->nin);
    int64_t at = 0;
    for (uint32_t k = 0; k < l->step->nin; k++) {
        const struct shape *in = operand_shape(l, k);
        p[k].box = box_new(l->a, rank);
        dims_copy(p[k].box.dims, in->dims, rank);
        row_strides(rank, l->shape->dims, p[k].box.dst);
        row_strides(rank, in->dims, p[k].box.src);
        p[k].box.dst0 = at * p[k].box.dst[dims[0]];
        at += in->dims[dims[0]];
        box_compact(&p[k].box);
    }
    l->step->fn = run_concat;
    l->step->poison = poison_concat;
    l->step->bound = bound_moved;
    l->step->data = UINT64_MAX;
    l->step->p = p;
    return true;
}

/* ---- pad ---------------------------------------------------------------------------------------
 */

static void run_pad(const struct step *s, void *const *out, const void *const *in)
{
    fill_elements(out[0], in[1], s->lout[0].elem.size, s->lout[0].count);
    box_copy(&((const struct move *)s->p)->box, out[0], in[0], s->lout[0].elem.size);
}

static void poison_pad(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                       const void *const *in)
{
    (void)in;
    static const uint8_t clean[1] = { 0 };
    fill_elements(pout[0], pin[1] ? pin[1] : clean, 1, s->lout[0].count);
    const struct move *p = s->p;
    if (pin[0]) {
        box_copy(&p->box, pout[0], pin[0], 1);
        return;
    }
    struct box zeros = p->box; /* clean data over a poisoned pad value */
    int64_t still[MAX_RANK] = { 0 };
    zeros.src = still;
    zeros.src0 = 0;
    box_copy(&zeros, pout[0], clean, 1);
}

/* Input index i lands at low + i * (interior + 1): those inside the output. */
bool lower_pad(struct lowering *l)
{
    const struct shape *in = operand_shape(l, 0);
    const struct attr *at = instr_attr(l->i, ATTR_PADDING);
    struct move *p = new_move(l, in->rank);
    int64_t *is = strides_of(l, in), *os = strides_of(l, l->shape);
    for (int k = 0; k < in->rank; k++) {
        int64_t low = at ? at->ints[3 * k] : 0, step = (at ? at->ints[3 * k + 2] : 0) + 1;
        int64_t first = low < 0 ? ceil_div(-low, step) : 0, room = l->shape->dims[k] - 1 - low;
        int64_t last = room < 0 ? -1 : min_i64(in->dims[k] - 1, room / step);
        p->box.dims[k] = max_i64(last - first + 1, 0);
        p->box.dst[k] = os[k] * step;
        p->box.src[k] = is[k];
        p->box.dst0 += (low + first * step) * os[k];
        p->box.src0 += first * is[k];
    }
    box_compact(&p->box);
    l->step->fn = run_pad;
    l->step->poison = poison_pad;
    l->step->data = 3;
    return true;
}

/* ---- dynamic slices ----------------------------------------------------------------------------
 */

/* Where a dynamic slice starts, as an offset into the big array: starts are clamped so that the
 * whole slice lies inside. */
struct dynamic {
    struct box box; /* dst, src without the start */
    int rank;
    const int64_t *room;    /* [rank] largest start */
    const int64_t *strides; /* [rank] of the big array */
    uint32_t first;         /* operand of the first start index */
    bool vector;            /* one rank-1 operand holds all */
};

static int64_t dynamic_offset(const struct step *s, const struct dynamic *p, const void *const *in)
{
    int64_t at = 0;
    for (int k = 0; k < p->rank; k++) {
        uint32_t o = p->vector ? p->first : p->first + (uint32_t)k;
        int64_t v = read_index(s->lin[o].elem, in[o], p->vector ? k : 0);
        at += max_i64(0, min_i64(v, p->room[k])) * p->strides[k];
    }
    return at;
}

static bool starts_poisoned(const struct step *s, const struct dynamic *p,
                            const uint8_t *const *pin)
{
    for (uint32_t k = p->first; k < s->nin; k++)
        if (pin[k] && memchr(pin[k], 1, (size_t)s->lin[k].count))
            return true;
    return false;
}

static void run_dynamic_slice(const struct step *s, void *const *out, const void *const *in)
{
    const struct dynamic *p = s->p;
    struct box b = p->box;
    b.src0 = dynamic_offset(s, p, in);
    box_copy(&b, out[0], in[0], s->lout[0].elem.size);
}

static void poison_dynamic_slice(const struct step *s, uint8_t *const *pout,
                                 const uint8_t *const *pin, const void *const *in)
{
    const struct dynamic *p = s->p;
    if (starts_poisoned(s, p, pin)) {
        memset(pout[0], 1, (size_t)s->lout[0].count);
        return;
    }
    struct box b = p->box;
    b.src0 = dynamic_offset(s, p, in);
    if (pin[0])
        box_copy(&b, pout[0], pin[0], 1);
}

static void run_dynamic_update(const struct step *s, void *const *out, const void *const *in)
{
    const struct dynamic *p = s->p;
    struct box b = p->box;
    b.dst0 = dynamic_offset(s, p, in);
    if (out[0] != in[0])
        memcpy(out[0], in[0], (size_t)s->lout[0].bytes);
    box_copy(&b, out[0], in[1], s->lout[0].elem.size);
}

static void poison_dynamic_update(const struct step *s, uint8_t *const *pout,
                                  const uint8_t *const *pin, const void *const *in)
{
    static const uint8_t clean[1] = { 0 };
    const struct dynamic *p = s->p;
    if (starts_poisoned(s, p, pin)) {
        memset(pout[0], 1, (size_t)s->lout[0].count);
        return;
    }
    if (pin[0])
        memcpy(pout[0], pin[0], (size_t)s->lout[0].count);
    struct box b = p->box;
    b.dst0 = dynamic_offset(s, p, in);
    int64_t still[MAX_RANK] = { 0 };
    if (!pin[1])
        b.src = still;
    box_copy(&b, pout[0], pin[1] ? pin[1] : clean, 1);
}

static struct dynamic *dynamic_new(struct lowering *l, const struct shape *big,
                                   const struct shape *small, uint32_t first)
{
    struct dynamic *p = ARENA_NEW(l->a, struct dynamic);
    p->box = box_new(l->a, big->rank);
    p->rank = big->rank;
    p->first = first;
    p->vector = l->step->nin == first + 1 && operand_shape(l, first)->rank == 1;
    int64_t *room = ARENA_ARRAY(l->a, int64_t, big->rank + 1);
    for (int k = 0; k < big->rank; k++) {
        p->box.dims[k] = small->dims[k];
        room[k] = big->dims[k] - small->dims[k];
    }
    p->room = room;
    p->strides = strides_of(l, big);
    return p;
}

bool lower_dynamic_slice(struct lowering *l)
{
    const struct shape *big = operand_shape(l, 0);
    struct dynamic *p = dynamic_new(l, big, l->shape, 1);
    memcpy(p->box.src, p->strides, (size_t)big->rank * sizeof(int64_t));
    row_strides(big->rank, l->shape->dims, p->box.dst);
    box_compact(&p->box);
    l->step->fn = run_dynamic_slice;
    l->step->poison = poison_dynamic_slice;
    l->step->bound = bound_moved;
    l->step->data = 1;
    l->step->p = p;
    return true;
}

bool lower_dynamic_update_slice(struct lowering *l)
{
    const struct shape *small = operand_shape(l, 1);
    struct dynamic *p = dynamic_new(l, l->shape, small, 2);
    memcpy(p->box.dst, p->strides, (size_t)small->rank * sizeof(int64_t));
    row_strides(small->rank, small->dims, p->box.src);
    box_compact(&p->box);
    l->step->fn = run_dynamic_update;
    l->step->poison = poison_dynamic_update;
    l->step->bound = bound_moved;
    l->step->data = 3;
    l->step->p = p;
    l->step->inplace = 1;
    return true;
}
