/* Operations whose values come from outside of the program: infeed, outfeed, send, recv, rng.
 *
 * There is no host here. What an infeed or a recv would bring is made up, small integers as for
 * parameters; outfeeds and sends end nowhere; rng draws from its own name and the element's place.
 * Commands that run such a program say so (module_outside), and verify refuses: nothing can be
 * compared. */
#include <math.h>

#include "base/map.h"
#include "emulate/linalg.h"

bool op_is_outside(enum op_kind op)
{
    return op == OP_INFEED || op == OP_RECV || op == OP_RNG;
}

instr_id module_outside(const struct module *m)
{
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (op_is_outside((enum op_kind)instr_at(m, (instr_id){ k })->op))
            return (instr_id){ k };
    return (instr_id){ 0 };
}

/* ---- values that are made up --------------------------------------------------------------------
 */

struct invented {
    uint32_t first; /* results before it are copies of operands */
    const struct shape *const *shapes;
};

static void run_invented(const struct step *s, void *const *out, const void *const *in)
{
    const struct invented *p = s->p;
    (void)in;
    for (uint32_t k = p->first; k < s->nout; k++) {
        const struct leaf *l = &s->lout[k];
        struct tensor t = { 0 };
        if (l->elem.ct == CT_TOKEN || l->count == 0)
            continue;
        if (!tensor_generate(p->shapes[k]->dtype, p->shapes[k]->rank, p->shapes[k]->dims, k, 0, &t,
                             NULL))
            fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for made-up values");
        if (is_ring(l->elem))
            ring_from_floats(l->elem.t, t.data, out[k], l->count);
        else
            memcpy(out[k], t.data, (size_t)l->bytes);
        tensor_free(&t);
    }
}

static bool invent(struct lowering *l)
{
    struct invented *p = ARENA_NEW(l->a, struct invented);
    const struct shape **shapes = ARENA_ARRAY(l->a, const struct shape *, l->step->nout + 1);
    for (uint32_t k = 0; k < l->step->nout; k++)
        shapes[k] = l->shape->kind == SHAPE_TUPLE
                        ? shape_get(l->m->ir, shape_leaf(l->m->ir, l->i->shape, k))
                        : l->shape;
    p->shapes = shapes;
    l->step->fn = run_invented;
    l->step->p = p;
    return true;
}

bool lower_infeed(struct lowering *l)
{
    return invent(l);
}

/* (data, u32 context, token) */
bool lower_recv(struct lowering *l)
{
    return invent(l);
}

static void run_send(const struct step *s, void *const *out, const void *const *in)
{
    for (uint32_t k = 0; k < s->nout; k++) {
        if (k < s->nin && s->lin[k].bytes == s->lout[k].bytes && s->lin[k].elem.t == s->lout[k].elem.t)
            memcpy(out[k], in[k], (size_t)s->lout[k].bytes);
        else
            memset(out[k], 0, (size_t)s->lout[k].bytes);
    }
}

bool lower_send(struct lowering *l)
{
    l->step->fn = run_send;
    return true;
}

/* The first leaves of the operand, and the token. */
static void run_recv_done(const struct step *s, void *const *out, const void *const *in)
{
    for (uint32_t k = 0; k < s->nout; k++)
        if (s->lout[k].bytes)
            memcpy(out[k], in[k], (size_t)s->lout[k].bytes);
}

bool lower_recv_done(struct lowering *l)
{
    for (uint32_t k = 0; k + 1 < l->step->nout; k++)
        if (k >= l->step->nin || l->step->lin[k].bytes != l->step->lout[k].bytes)
            return lower_missing(l, "this form");
    l->step->fn = run_recv_done;
    return true;
}

/* ---- rng ----------------------------------------------------------------------------------------
 */

struct draw {
    bool normal;
    uint64_t tag;
};

static double unit(uint64_t h)
{
    return (double)(h >> 11) * 0x1p-53;
}

static void run_draw(const struct step *s, void *const *out, const void *const *in)
{
    const struct draw *p = s->p;
    const struct leaf *l = &s->lout[0];
    for (int64_t i = 0; i < l->count; i++) {
        uint64_t h = hash_u64(p->tag + (uint64_t)i * 0x9e3779b97f4a7c15ULL);
        if (is_ring(l->elem)) {
            int64_t a, b;
            memcpy(&a, in[0], sizeof a);
            memcpy(&b, in[1], sizeof b);
            store_mixed(l->elem, out[0], i, h, (uint64_t)(a + 3 * b));
        } else if (dtype_kind(l->elem.t) == DTYPE_KIND_FLOAT) {
            double a = creal(load(l->elem, in[0], 0)), b = creal(load(l->elem, in[1], 0)), u = unit(h);
            double z = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * unit(hash_u64(h)));
            store(l->elem, out[0], i, p->normal ? a + b * z : a + (b - a) * u);
        } else {
            int64_t a = read_index(s->lin[0].elem, in[0], 0), b = read_index(s->lin[1].elem, in[1], 0),
                    v = b > a ? a + (int64_t)(h % (uint64_t)(b - a)) : a;
            memcpy((char *)out[0] + i * l->elem.size, &v, (size_t)l->elem.size);
        }
    }
}

bool lower_rng(struct lowering *l)
{
    struct draw *p = ARENA_NEW(l->a, struct draw);
    enum dtype_kind kind = dtype_kind(l->shape->dtype);
    p->normal = instr_is(l->m, l->i, ATTR_DISTRIBUTION, "rng_normal");
    p->tag = hash_bytes(name_text(l->m->ir, l->i->name), strlen(name_text(l->m->ir, l->i->name)), 11);
    if (l->step->nin != 2 || kind == DTYPE_KIND_COMPLEX || (p->normal && kind != DTYPE_KIND_FLOAT))
        return lower_missing(l, "this form");
    l->step->fn = run_draw;
    l->step->p = p;
    return true;
}

/* A 128-bit counter of the device, as XLA's CPU keeps one: the value before `delta` is added. */
bool lower_rng_get_and_update_state(struct lowering *l)
{
    int64_t *delta = ARENA_NEW(l->a, int64_t);
    *delta = instr_int(l->i, ATTR_DELTA, 1);
    if (l->step->nout != 1 || l->step->lout[0].bytes != 16)
        return lower_missing(l, "this form");
    l->step->kind = STEP_RNG_STATE;
    l->step->p = delta;
    return true;
}
