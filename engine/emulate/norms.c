/* batch-norm-training, -inference, -grad: in double, feature by feature, from the definitions.
 *
 * In ring mode, where there is no division and no root, a result is a mixture of all that it depends
 * on: its feature's elements of every operand, and its own place. */
#include <math.h>

#include "base/map.h"
#include "emulate/linalg.h"

struct norm {
    enum op_kind op;
    int64_t outer, features, inner; /* operand 0: outer x features x inner */
    double epsilon;
};

static int64_t at(const struct norm *p, int64_t o, int64_t f, int64_t i)
{
    return (o * p->features + f) * p->inner + i;
}

static double get(const struct step *s, const void *const *in, uint32_t k, int64_t i)
{
    return creal(load(s->lin[k].elem, in[k], i));
}

static void put(const struct step *s, void *const *out, uint32_t k, int64_t i, double v)
{
    store(s->lout[k].elem, out[k], i, v);
}

static void train(const struct step *s, const struct norm *p, int64_t f, void *const *out,
                  const void *const *in)
{
    double n = (double)(p->outer * p->inner), sum = 0, square = 0;
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++)
            sum += get(s, in, 0, at(p, o, f, i));
    double mean = sum / n;
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            double d = get(s, in, 0, at(p, o, f, i)) - mean;
            square += d * d;
        }
    double variance = square / n, scale = get(s, in, 1, f) / sqrt(variance + p->epsilon);
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            int64_t k = at(p, o, f, i);
            put(s, out, 0, k, (get(s, in, 0, k) - mean) * scale + get(s, in, 2, f));
        }
    put(s, out, 1, f, mean);
    put(s, out, 2, f, variance);
}

static void infer(const struct step *s, const struct norm *p, int64_t f, void *const *out,
                  const void *const *in)
{
    double mean = get(s, in, 3, f),
           scale = get(s, in, 1, f) / sqrt(get(s, in, 4, f) + p->epsilon);
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            int64_t k = at(p, o, f, i);
            put(s, out, 0, k, (get(s, in, 0, k) - mean) * scale + get(s, in, 2, f));
        }
}

/* Operands: activations, scale, mean, variance, gradient of the output. */
static void gradient(const struct step *s, const struct norm *p, int64_t f, void *const *out,
                     const void *const *in)
{
    double n = (double)(p->outer * p->inner), sum = 0, dot = 0, mean = get(s, in, 2, f);
    double inverse = 1 / sqrt(get(s, in, 3, f) + p->epsilon);
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            int64_t k = at(p, o, f, i);
            sum += get(s, in, 4, k);
            dot += get(s, in, 4, k) * (get(s, in, 0, k) - mean);
        }
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->inner; i++) {
            int64_t k = at(p, o, f, i);
            double d = get(s, in, 0, k) - mean;
            put(s, out, 0, k,
                get(s, in, 1, f) * inverse / n *
                    (n * get(s, in, 4, k) - sum - d * inverse * inverse * dot));
        }
    put(s, out, 1, f, dot * inverse);
    put(s, out, 2, f, sum);
}

static bool per_feature(const struct step *s, const struct norm *p, uint32_t leaf, bool result)
{
    const struct leaf *l = result ? &s->lout[leaf] : &s->lin[leaf];
    return leaf != 0 && !(p->op == OP_BATCH_NORM_GRAD && !result && leaf == 4) &&
           l->count == p->features;
}

static void mix(const struct step *s, const struct norm *p, int64_t f, void *const *out,
                const void *const *in)
{
    uint64_t h = (uint64_t)p->op;
    for (uint32_t k = 0; k < s->nin; k++) {
        int size = s->lin[k].elem.size;
        if (per_feature(s, p, k, false)) {
            h = hash_bytes((const char *)in[k] + f * size, (size_t)size, h);
            continue;
        }
        for (int64_t o = 0; o < p->outer; o++)
            h = hash_bytes((const char *)in[k] + at(p, o, f, 0) * size, (size_t)(p->inner * size), h);
    }
    for (uint32_t k = 0; k < s->nout; k++) {
        if (per_feature(s, p, k, true)) {
            store_mixed(s->lout[k].elem, out[k], f, h, k);
            continue;
        }
        for (int64_t o = 0; o < p->outer; o++)
            for (int64_t i = 0; i < p->inner; i++)
                store_mixed(s->lout[k].elem, out[k], at(p, o, f, i), h,
                            (uint64_t)(o * p->inner + i) + 8);
    }
}

static void run_norm(const struct step *s, void *const *out, const void *const *in)
{
    const struct norm *p = s->p;
    for (int64_t f = 0; f < p->features; f++)
        if (is_ring(s->lin[0].elem))
            mix(s, p, f, out, in);
        else if (p->op == OP_BATCH_NORM_TRAINING)
            train(s, p, f, out, in);
        else if (p->op == OP_BATCH_NORM_INFERENCE)
            infer(s, p, f, out, in);
        else
            gradient(s, p, f, out, in);
}

static bool lower_norm(struct lowering *l, uint32_t operands, uint32_t results)
{
    const struct shape *x = operand_shape(l, 0);
    int64_t dim = instr_int(l->i, ATTR_FEATURE_INDEX, 0);
    const struct attr *e = instr_attr(l->i, ATTR_EPSILON);
    if (l->step->nin != operands || l->step->nout != results || dim < 0 || dim >= x->rank ||
        dtype_kind(x->dtype) != DTYPE_KIND_FLOAT)
        return lower_missing(l, "this form");
    struct norm *p = ARENA_NEW(l->a, struct norm);
    p->op = (enum op_kind)l->i->op;
    p->epsilon = e ? e->f : 0;
    p->outer = p->inner = 1;
    p->features = x->dims[dim];
    for (int k = 0; k < x->rank; k++)
        *(k < dim ? &p->outer : k > dim ? &p->inner : &p->features) *= k == dim ? 1 : x->dims[k];
    l->step->fn = run_norm;
    l->step->p = p;
    return true;
}

bool lower_batch_norm_training(struct lowering *l)
{
    return lower_norm(l, 3, 3);
}

bool lower_batch_norm_inference(struct lowering *l)
{
    return lower_norm(l, 5, 1);
}

bool lower_batch_norm_grad(struct lowering *l)
{
    return lower_norm(l, 5, 3);
}
