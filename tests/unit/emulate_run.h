/* For unit tests of the emulator: run a module given as text, look at its first result. */
#ifndef GSPMD_TESTS_EMULATE_RUN_H
#define GSPMD_TESTS_EMULATE_RUN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/internal.h"
#include "text/text.h"

struct ran {
    struct ir *ir;
    struct module *m;
    struct diag *d;
    struct run_result r;
    bool ok;
};

static inline const char *first_error(const struct diag *d)
{
    return d->msgs.n ? d->msgs.v[0].text : "";
}

/* Inputs are generated: the conformance formula, the same on every device. */
static inline struct ran run_text(const char *text, struct run_options o)
{
    struct ran x = { .ir = ir_new(), .d = diag_new() };
    x.m = module_load_text(x.ir, "test.hlo", text, strlen(text), NULL, x.d);
    if (!x.m)
        return x;
    if (!o.ndevices)
        o.ndevices = 1;
    const struct computation *e = comp_at(x.m, x.m->entry);
    int64_t nin = e->nparams;
    struct tensor *in = calloc((size_t)(nin * o.ndevices) + 1, sizeof *in);
    bool made = true;
    for (int64_t k = 0; k < nin * o.ndevices; k++) {
        const struct shape *s = instr_shape(x.m, e->params[k % nin]);
        made &= tensor_generate(s->dtype, s->rank, s->dims, k % nin, 0, &in[k], x.d);
    }
    x.ok = made && run_module(x.m, in, nin, &o, &x.r, NULL, x.d);
    for (int64_t k = 0; k < nin * o.ndevices; k++)
        tensor_free(&in[k]);
    free(in);
    return x;
}

static inline void ran_free(struct ran *x)
{
    run_result_free(&x->r);
    module_free(x->m);
    diag_free(x->d);
    ir_free(x->ir);
}

/* Element i of an integer or pred result; of a float one. */
static inline int64_t int_at(const struct tensor *t, int64_t i)
{
    struct elem from = elem_of(t->dtype, EMU_FLOAT);
    struct arena a = { 0 };
    int64_t v = 0;
    const struct ew *e = ew_make(&a, OP_CONVERT, from, elem_of(DTYPE_S64, EMU_FLOAT), 0, 0);
    const void *in = (const char *)t->data + i * from.size;
    e->fn(e, &v, &in, 1);
    arena_free(&a);
    return v;
}

static inline double float_at(const struct tensor *t, int64_t i)
{
    return real_load(t->dtype, (const char *)t->data + i * dtype_bytes(t->dtype));
}

#define WITH(computations, body) "HloModule m\n" computations "ENTRY e {\n" body "\n}\n"
#define ONE(body)                WITH("", body)

#define EXPECT_INTS(text, ...)                                              \
    do {                                                                    \
        const int64_t want_[] = { __VA_ARGS__ };                            \
        struct ran x_ = run_text(text, (struct run_options){ 0 });          \
        if (!x_.ok)                                                         \
            fail_msg("%s", first_error(x_.d));                              \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)        \
            assert_int_equal(int_at(&x_.r.out[0], (int64_t)i_), want_[i_]); \
        ran_free(&x_);                                                      \
    } while (0)

/* NaN equals NaN; the sign of a zero counts. */
#define EXPECT_FLOATS(text, ...)                                                                  \
    do {                                                                                          \
        const double want_[] = { __VA_ARGS__ };                                                   \
        struct ran x_ = run_text(text, (struct run_options){ 0 });                                \
        if (!x_.ok)                                                                               \
            fail_msg("%s", first_error(x_.d));                                                    \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++) {                            \
            double got_ = float_at(&x_.r.out[0], (int64_t)i_);                                    \
            if (!(isnan(want_[i_]) ? isnan(got_)                                                  \
                                   : got_ == want_[i_] && !signbit(got_) == !signbit(want_[i_]))) \
                fail_msg("element %zu is %g, not %g", i_, got_, want_[i_]);                       \
        }                                                                                         \
        ran_free(&x_);                                                                            \
    } while (0)

#endif
