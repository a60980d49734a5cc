/* Lowering of elementwise operations, iota, bitcasts and what is only a name for its operand. */
#include "emulate/lower.h"

#include <string.h>

#include "emulate/ew.h"

int64_t read_index(struct elem e, const void *p, int64_t i)
{
    switch ((int)e.ct) {
    case CT_S8:
    case CT_S4:
    case CT_S2: return ((const int8_t *)p)[i];
    case CT_S16: return ((const int16_t *)p)[i];
    case CT_S32: return ((const int32_t *)p)[i];
    case CT_U16: return ((const uint16_t *)p)[i];
    case CT_U32: return ((const uint32_t *)p)[i];
    case CT_S64: return ((const int64_t *)p)[i];
    case CT_U64: {
        uint64_t v = ((const uint64_t *)p)[i];
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    default: return ((const uint8_t *)p)[i];
    }
}

void convert_elements(const struct ew *e, const void *in, void *out, int64_t n)
{
    e->fn(e, out, &in, n);
}

void run_ew(const struct step *s, void *const *out, const void *const *in)
{
    const struct ew *e = s->p;
    e->fn(e, out[0], in, s->lout[0].count);
}

static bool elementwise(struct lowering *l)
{
    const struct ew *e = ew_of_instr(l->a, l->m, l->id, l->plan->mode);
    if (!e || l->step->nin != (uint32_t)e->nin)
        return lower_missing(l, "this element type");
    l->step->fn = run_ew;
    l->step->poison = poison_or;
    l->step->bound = bound_ew;
    l->step->p = e;
    for (uint32_t k = 0; k < l->step->nin && k < 8; k++)
        if (l->step->lin[k].bytes == l->step->lout[0].bytes &&
            l->step->lin[k].elem.size == l->step->lout[0].elem.size)
            l->step->inplace |= (uint8_t)(1u << k);
    return true;
}

bool lower_unary(struct lowering *l)
{
    return elementwise(l);
}

bool lower_binary(struct lowering *l)
{
    if (!elementwise(l))
        return false;
    enum op_kind op = (enum op_kind)l->i->op;
    if (op == OP_AND || op == OP_OR)
        l->step->poison = poison_logic;
    return true;
}

bool lower_compare(struct lowering *l)
{
    return elementwise(l);
}

bool lower_convert(struct lowering *l)
{
    return elementwise(l);
}

bool lower_reduce_precision(struct lowering *l)
{
    return elementwise(l);
}

/* ---- select and clamp, whose control operands may be scalars ----------------------------------
 */

static void run_select_whole(const struct step *s, void *const *out, const void *const *in)
{
    const void *from = *(const uint8_t *)in[0] ? in[1] : in[2];
    if (out[0] != from)
        memcpy(out[0], from, (size_t)s->lout[0].bytes);
}

bool lower_select(struct lowering *l)
{
    if (l->step->nout != 1)
        return lower_missing(l, "a select of tuples");
    if (!elementwise(l))
        return false;
    l->step->inplace &= 6;
    l->step->poison = poison_select;
    l->step->bound = bound_select;
    if (l->step->lin[0].count == 1)
        l->step->fn = run_select_whole;
    else if (l->step->lin[0].count != l->step->lout[0].count)
        return lower_missing(l, "this shape of predicate");
    return true;
}

static void run_clamp_scalars(const struct step *s, void *const *out, const void *const *in)
{
    const struct ew *e = s->p;
    char lo[STRIP * 32], hi[STRIP * 32];
    int size = e->in.size;
    int64_t n = s->lout[0].count;
    bool lo1 = s->lin[0].count == 1, hi1 = s->lin[2].count == 1;
    if (lo1)
        fill_elements(lo, in[0], size, min_i64(n, STRIP));
    if (hi1)
        fill_elements(hi, in[2], size, min_i64(n, STRIP));
    for (int64_t at = 0; at < n; at += STRIP) {
        const void *ops[3] = { lo1 ? lo : (const char *)in[0] + at * size,
                               (const char *)in[1] + at * size,
                               hi1 ? hi : (const char *)in[2] + at * size };
        e->fn(e, (char *)out[0] + at * size, ops, min_i64(STRIP, n - at));
    }
}

bool lower_clamp(struct lowering *l)
{
    if (!elementwise(l))
        return false;
    l->step->inplace &= 2;
    l->step->poison = poison_clamp;
    l->step->bound = bound_clamp;
    if (l->step->lin[0].count != l->step->lout[0].count ||
        l->step->lin[2].count != l->step->lout[0].count)
        l->step->fn = run_clamp_scalars;
    return true;
}

bool lower_is_ew(const struct step *s)
{
    return s->fn == run_ew || s->fn == run_clamp_scalars || s->fn == run_select_whole;
}

/* ---- iota --------------------------------------------------------------------------------------
 */

struct iota {
    int64_t outer, n, inner;
    const struct ew *convert;
};

static void run_iota(const struct step *s, void *const *out, const void *const *in)
{
    (void)in;
    const struct iota *p = s->p;
    int size = s->lout[0].elem.size;
    char *at = out[0];
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->n; i++) {
            char value[32];
            convert_elements(p->convert, &i, value, 1);
            fill_elements(at, value, size, p->inner);
            at += p->inner * size;
        }
}

bool lower_iota(struct lowering *l)
{
    struct iota *p = ARENA_NEW(l->a, struct iota);
    int dim = (int)instr_int(l->i, ATTR_IOTA_DIMENSION, 0);
    p->outer = p->inner = p->n = 1;
    for (int k = 0; k < l->shape->rank; k++)
        *(k < dim ? &p->outer : k > dim ? &p->inner : &p->n) *= l->shape->dims[k];
    p->convert =
        ew_make(l->a, OP_CONVERT, elem_of(DTYPE_S64, l->plan->mode), l->step->lout[0].elem, 0, 0);
    if (!p->convert)
        return lower_missing(l, "this element type");
    l->step->fn = run_iota;
    l->step->p = p;
    return true;
}

/* ---- names for the operand ---------------------------------------------------------------------
 */

bool lower_copy(struct lowering *l)
{
    l->alias = true;
    return true;
}

bool lower_reshape(struct lowering *l)
{
    l->alias = true;
    return true;
}

static void run_dimension_size(const struct step *s, void *const *out, const void *const *in)
{
    (void)in;
    memcpy(out[0], s->p, 4);
}

static void poison_nothing(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                           const void *const *in)
{
    (void)s;
    (void)pout;
    (void)pin;
    (void)in;
}

/* Arrays are as large as their bounds here. */
bool lower_get_dimension_size(struct lowering *l)
{
    int n;
    const int64_t *dims = instr_ints(l->i, ATTR_DIMENSIONS, &n);
    const struct shape *in = operand_shape(l, 0);
    int32_t *size = ARENA_NEW(l->a, int32_t);
    if (n != 1 || dims[0] < 0 || dims[0] >= in->rank || in->dynamic)
        return lower_missing(l, "a dynamic dimension");
    *size = (int32_t)in->dims[dims[0]];
    l->step->fn = run_dimension_size;
    l->step->poison = poison_nothing;
    l->step->p = size;
    return true;
}

bool lower_token(struct lowering *l)
{
    l->step->kind = STEP_TOKEN;
    return true;
}

/* ---- bitcasts ----------------------------------------------------------------------------------
 */

static void run_bytes(const struct step *s, void *const *out, const void *const *in)
{
    memcpy(out[0], in[0], (size_t)s->lout[0].bytes);
}

/* One element that becomes several, or the other way round. */
static void poison_regroup(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                           const void *const *in)
{
    (void)in;
    int64_t a = s->lin[0].count, b = s->lout[0].count;
    for (int64_t i = 0; i < max_i64(a, b); i++)
        pout[0][b >= a ? i : i / (a / b)] |= pin[0][a >= b ? i : i / (b / a)];
}

/* Ring mode, where a float has no bits of its own: the low bits of its number, or the number that
 * the integers' bits make; parts of another width by mixing. */
static void run_ring_bits(const struct step *s, void *const *out, const void *const *in)
{
    int64_t a = s->lin[0].count, b = s->lout[0].count;
    struct elem from = s->lin[0].elem, to = s->lout[0].elem;
    const struct ew *const *conv = s->p;
    if (a == b) {
        convert_elements(conv[0], in[0], out[0], a);
        return;
    }
    for (int64_t i = 0; i < b; i++) {
        int64_t v = 0, part;
        if (b > a) {
            convert_elements(conv[1], (const char *)in[0] + i / (b / a) * from.size, &part, 1);
            v = ring_mix(OP_BITCAST_CONVERT, (uint64_t)part, (uint64_t)(i % (b / a)));
        } else {
            for (int64_t k = 0; k < a / b; k++) {
                convert_elements(conv[1], (const char *)in[0] + (i * (a / b) + k) * from.size,
                                 &part, 1);
                v = ring_mix(OP_BITCAST_CONVERT, (uint64_t)v, (uint64_t)part);
            }
        }
        convert_elements(conv[2], &v, (char *)out[0] + i * to.size, 1);
    }
}

static bool is_ring(struct elem e)
{
    return e.ct == CT_RING || e.ct == CT_RINGC;
}

bool lower_bitcast_convert(struct lowering *l)
{
    struct step *s = l->step;
    struct elem from = s->lin[0].elem, to = s->lout[0].elem;
    s->poison = poison_regroup;
    if (!is_ring(from) && !is_ring(to)) {
        if (from.size == to.size && dtype_bits(from.t) == dtype_bits(to.t)) {
            l->alias = true;
            return true;
        }
        if (s->lin[0].bytes != s->lout[0].bytes)
            return lower_missing(l, "bitcast between these element types");
        s->fn = run_bytes;
        return true;
    }
    const struct ew **conv = ARENA_ARRAY(l->a, const struct ew *, 3);
    struct elem wide = elem_of(DTYPE_S64, EMU_RING);
    conv[0] = ew_make(l->a, OP_CONVERT, from, to, 0, 0);
    conv[1] = ew_make(l->a, OP_CONVERT, from, wide, 0, 0);
    conv[2] = ew_make(l->a, OP_CONVERT, wide, to, 0, 0);
    s->fn = run_ring_bits;
    s->p = conv;
    return true;
}

/* Optimised dumps: the same bytes under another shape. An element keeps its place in memory, so
 * where a layout is not row-major the logical order changes: first into the operand's order in
 * memory, then out of the result's. */
struct relayout {
    struct box pack, unpack;
};

/* Order of dimensions in memory, major first, as the layout's text gives it (minor first). False:
 * row-major, or none given. */
static bool layout_order(const struct lowering *l, const struct shape *s, int *order)
{
    const char *text = s->layout.i ? name_text(l->m->ir, s->layout) : "";
    bool plain = true;
    int n = 0;
    while (n < s->rank) {
        int64_t d;
        size_t used = parse_i64(text, strlen(text), &d);
        if (!used || d < 0 || d >= s->rank)
            return false;
        order[s->rank - 1 - n++] = (int)d;
        plain &= d == s->rank - n;
        text += used;
        text += *text == ',';
    }
    return !plain;
}

/* Between an array in logical order and the same elements as memory has them. */
static struct box memory_box(struct lowering *l, const struct shape *s, const int *order,
                             bool unpack)
{
    struct box b = box_new(l->a, s->rank);
    int64_t *strides = ARENA_ARRAY(l->a, int64_t, s->rank + 1);
    row_strides(s->rank, s->dims, strides);
    for (int k = 0; k < s->rank; k++) {
        b.dims[k] = s->dims[order[k]];
        (unpack ? b.dst : b.src)[k] = strides[order[k]];
    }
    row_strides(s->rank, b.dims, unpack ? b.src : b.dst);
    box_compact(&b);
    return b;
}

static void relayout(const struct relayout *p, void *out, const void *in, int size, int64_t n)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    void *memory = arena_alloc(&tmp, n + 1, (size_t)size);
    box_copy(&p->pack, memory, in, size);
    box_copy(&p->unpack, out, memory, size);
    arena_close(&tmp);
}

static void run_relayout(const struct step *s, void *const *out, const void *const *in)
{
    relayout(s->p, out[0], in[0], s->lout[0].elem.size, s->lout[0].count);
}

static void poison_relayout(const struct step *s, uint8_t *const *pout, const uint8_t *const *pin,
                            const void *const *in)
{
    (void)in;
    relayout(s->p, pout[0], pin[0], 1, s->lout[0].count);
}

bool lower_bitcast(struct lowering *l)
{
    const struct shape *from = operand_shape(l, 0);
    int a[MAX_RANK], b[MAX_RANK];
    if (from->dtype != l->shape->dtype)
        return lower_bitcast_convert(l);
    if (from->rank > MAX_RANK || l->shape->rank > MAX_RANK)
        return lower_missing(l, "this rank");
    bool in = layout_order(l, from, a), out = layout_order(l, l->shape, b);
    if (!in && !out) {
        l->alias = true;
        return true;
    }
    for (int k = 0; !in && k < from->rank; k++)
        a[k] = k;
    for (int k = 0; !out && k < l->shape->rank; k++)
        b[k] = k;
    struct relayout *p = ARENA_NEW(l->a, struct relayout);
    p->pack = memory_box(l, from, a, false);
    p->unpack = memory_box(l, l->shape, b, true);
    l->step->fn = run_relayout;
    l->step->poison = poison_relayout;
    l->step->bound = bound_moved;
    l->step->data = 1;
    l->step->p = p;
    return true;
}
