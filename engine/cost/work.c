/* FLOPs of single operations, by the conventions of XLA's cost analysis. */
#include "cost/internal.h"

enum work_class {
    WORK_none,
    WORK_per_element,
    WORK_transcendental,
    WORK_dot,
    WORK_convolution,
    WORK_window,
    WORK_sort,
    WORK_ring
};

static const uint8_t work_classes[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)               \
    [OP_##id] = WORK_##cost,
#include "ir/ops.def"
};

static double elements(const struct module *m, instr_id i)
{
    const struct shape *s = instr_shape(m, i);
    return s->kind == SHAPE_ARRAY && s->count > 0 ? (double)s->count : 0;
}

/* Elements of all arrays of a shape. */
static double all_elements(const struct module *m, shape_id id)
{
    const struct shape *s = shape_get(m->ir, id);
    double sum = 0;
    for (int64_t k = 0; k < s->nleaves; k++) {
        const struct shape *leaf = shape_get(m->ir, shape_leaf(m->ir, id, k));
        sum += leaf->kind == SHAPE_ARRAY && leaf->count > 0 ? (double)leaf->count : 0;
    }
    return sum;
}

/* Operations that only place or copy elements do no arithmetic. */
static bool only_moves(enum op_kind op)
{
    return op == OP_IOTA || op == OP_BROADCAST || op == OP_TRANSPOSE || op == OP_REVERSE ||
           op == OP_CONCATENATE || op == OP_PAD || op == OP_SLICE || op == OP_DYNAMIC_SLICE ||
           op == OP_DYNAMIC_UPDATE_SLICE || op == OP_GATHER || op == OP_COPY || op == OP_RNG ||
           op == OP_RNG_BIT_GENERATOR;
}

/* One application of a reducer or of map's function. Bodies are small: a bound keeps odd ones cheap. */
enum { MOST_BODY = 4096 };

static void plain_work(const struct module *m, instr_id i, struct work *out)
{
    const struct instr *in = instr_at(m, i);
    uint8_t class = work_classes[in->op];
    if (class == WORK_per_element && !only_moves((enum op_kind)in->op) && in->op != OP_REDUCE && in->op != OP_MAP &&
        in->op != OP_SCATTER)
        out->flops += elements(m, i);
    else if (class == WORK_transcendental)
        out->transcendentals += elements(m, i);
}

static void body_work(const struct module *m, instr_id i, int which, struct work *out)
{
    comp_id called[4], inner[2];
    *out = (struct work){ 0 };
    if (instr_called(m, i, called, 4) <= which)
        return;
    const struct computation *c = comp_at(m, called[which]);
    for (uint32_t k = 0; k < c->ninstrs && k < MOST_BODY; k++) {
        instr_id x = c->instrs[k];
        if (instr_at(m, x)->op != OP_FUSION || instr_called(m, x, inner, 2) < 1) {
            plain_work(m, x, out);
            continue;
        }
        const struct computation *f = comp_at(m, inner[0]); /* compilers fuse in reducers too */
        for (uint32_t j = 0; j < f->ninstrs && j < MOST_BODY; j++)
            plain_work(m, f->instrs[j], out);
    }
}

static void times_body(const struct module *m, instr_id i, int which, double n, struct work *out)
{
    struct work one;
    body_work(m, i, which, &one);
    out->flops += n * one.flops;
    out->transcendentals += n * one.transcendentals;
}

static void dot_work(const struct module *m, instr_id i, struct work *out)
{
    struct dot_dims d;
    instr_dot_dims(m, i, &d);
    const struct shape *lhs = instr_shape(m, instr_operand(m, i, 0));
    double k = 1;
    for (int c = 0; c < d.ncontract; c++)
        k *= (double)lhs->dims[d.lhs_contract[c]];
    out->flops = 2 * elements(m, i) * k;
    out->matrix = true;
}

/* Pairs of a window position and an output position that meet an element, not padding or a hole. */
static double valid_positions(const struct window_dim *w, int64_t base, int64_t window, int64_t out)
{
    if (base <= 0)
        return 0;
    int64_t full = (base - 1) * w->base_dilation + 1;
    double valid = 0;
    if (w->base_dilation == 1 && out <= 1 << 20) {
        /* For each window position the outputs whose input lies in [0, base): an interval. */
        for (int64_t k = 0; k < window; k++) {
            int64_t shift = k * w->window_dilation - w->pad_low, s = w->stride;
            int64_t first = shift >= 0 ? 0 : ceil_div(-shift, s);
            int64_t room = base - 1 - shift;
            int64_t last = room < 0 ? -1 : min_i64(out - 1, room / s);
            valid += last >= first ? (double)(last - first + 1) : 0;
        }
        return valid;
    }
    if ((double)window * (double)out > 4e6)
        return (double)window * (double)out / (double)w->base_dilation;
    for (int64_t k = 0; k < window; k++)
        for (int64_t o = 0; o < out; o++) {
            int64_t at = k * w->window_dilation + o * w->stride - w->pad_low;
            valid += at >= 0 && at < full && at % w->base_dilation == 0;
        }
    return valid;
}

static void convolution_work(const struct module *m, instr_id i, struct work *out)
{
    const struct instr *in = instr_at(m, i);
    const struct attr *labels = instr_attr(in, ATTR_DIM_LABELS), *wa = instr_attr(in, ATTR_WINDOW);
    out->matrix = true;
    if (!labels || labels->type != ATTR_TYPE_CONV)
        return;
    const struct conv_dims *c = labels->conv;
    const struct shape *lhs = instr_shape(m, in->operands[0]), *rhs = instr_shape(m, in->operands[1]),
                       *res = instr_shape(m, i);
    double n = (double)lhs->dims[c->lhs_batch] * (double)lhs->dims[c->lhs_feature] *
               (double)rhs->dims[c->rhs_out] /
               (double)max_i64(instr_int(in, ATTR_FEATURE_GROUP_COUNT, 1), 1) /
               (double)max_i64(instr_int(in, ATTR_BATCH_GROUP_COUNT, 1), 1);
    for (int s = 0; s < c->nspatial; s++) {
        static const struct window_dim plain = { 1, 1, 0, 0, 1, 1, false };
        const struct window_dim *w = wa && wa->type == ATTR_TYPE_WINDOW && s < wa->window->rank
                                         ? &wa->window->dims[s]
                                         : &plain;
        n *= valid_positions(w, lhs->dims[c->lhs_spatial[s]], rhs->dims[c->rhs_spatial[s]],
                             res->dims[c->out_spatial[s]]);
    }
    out->flops = 2 * n;
}

static double window_elements(const struct instr *in)
{
    const struct attr *a = instr_attr(in, ATTR_WINDOW);
    double n = 1;
    for (int d = 0; a && a->type == ATTR_TYPE_WINDOW && d < a->window->rank; d++)
        n *= (double)a->window->dims[d].size;
    return n;
}

static double log2_up(double n)
{
    double k = 0;
    while (n > 1) {
        n /= 2;
        k++;
    }
    return k;
}

static void per_element_work(const struct module *m, instr_id i, struct work *out)
{
    const struct instr *in = instr_at(m, i);
    enum op_kind op = (enum op_kind)in->op;
    if (only_moves(op))
        return;
    if (op == OP_REDUCE) {
        const struct shape *first = instr_shape(m, in->operands[0]);
        const struct shape *to = shape_get(m->ir, shape_leaf(m->ir, in->shape, 0));
        times_body(m, i, 0, (double)(max_i64(first->count, 0) - max_i64(to->count, 0)), out);
    } else if (op == OP_MAP) {
        times_body(m, i, 0, elements(m, i), out);
    } else if (op == OP_SCATTER) {
        times_body(m, i, 0, elements(m, in->operands[in->noperands - 1]), out);
    } else if (op == OP_FFT) {
        const struct attr *a = instr_attr(in, ATTR_FFT_LENGTH);
        double logs = 1; /* XLA multiplies the dimensions' logarithms, on the elements that come in */
        for (uint32_t k = 0; a && k < a->n; k++)
            logs *= log2_up((double)a->ints[k] + 0.5) - 1;
        out->flops = 8 * logs * elements(m, in->operands[0]);
    } else if (op == OP_CHOLESKY || op == OP_TRIANGULAR_SOLVE) {
        const struct shape *a = instr_shape(m, in->operands[op == OP_CHOLESKY ? 0 : 1]);
        double n = a->rank ? (double)a->dims[a->rank - 1] : 1;
        out->flops = op == OP_CHOLESKY ? n * elements(m, in->operands[0]) / 3
                                       : 2 * n * elements(m, in->operands[0]);
    } else {
        out->flops = all_elements(m, in->shape);
    }
}

void cost_work(const struct module *m, instr_id i, struct work *out)
{
    const struct instr *in = instr_at(m, i);
    *out = (struct work){ 0 };
    switch ((enum work_class)work_classes[in->op]) {
    case WORK_none:
        return;
    case WORK_per_element:
        per_element_work(m, i, out);
        return;
    case WORK_transcendental:
        out->transcendentals = elements(m, i);
        return;
    case WORK_dot:
        if (in->op == OP_DOT)
            dot_work(m, i, out);
        return;
    case WORK_convolution:
        convolution_work(m, i, out);
        return;
    case WORK_window:
        if (in->op == OP_REDUCE_WINDOW) {
            const struct shape *first = shape_get(m->ir, shape_leaf(m->ir, in->shape, 0)); /* several operands have one window */
            times_body(m, i, 0, (double)max_i64(first->count, 0) * (window_elements(in) - 1), out);
        } else {
            double n = elements(m, in->operands[1]);
            times_body(m, i, 0, n * (window_elements(in) - 1), out);
            times_body(m, i, 1, n, out);
        }
        return;
    case WORK_sort: {
        double n = elements(m, in->operands[0]);
        out->flops = n * log2_up(n);
        return;
    }
    case WORK_ring:
        if (in->op == OP_ALL_REDUCE || in->op == OP_ALL_REDUCE_START)
            out->flops = all_elements(m, in->shape);
        return;
    }
}
