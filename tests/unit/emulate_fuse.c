/* Elementwise chains as one step: which steps go together, and that no bit depends on it; kernels for
 * every width of vectors against each other; functions of f32 within their bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emulate/ew.h"
#include "emulate/math_f32.h"
#include "tests/unit/emulate_run.h"

static uint64_t state_of_rng = 1;

static uint64_t random_bits(void)
{
    state_of_rng += 0x9e3779b97f4a7c15ULL;
    return hash_u64(state_of_rng);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(random_bits() >> 32) % n;
}

/* ---- plans --------------------------------------------------------------------------------------
 */

struct planned {
    struct ir *ir;
    struct diag *d;
    struct module *m;
    struct plan *fused, *plain;
};

static struct planned plan_text(const char *text, enum emu_mode mode)
{
    struct planned p = { .ir = ir_new(), .d = diag_new() };
    p.m = module_load_text(p.ir, "test", text, strlen(text), NULL, p.d);
    if (!p.m)
        fail_msg("%s\n%s", text, p.d->msgs.v[0].text);
    struct plan_options o = { .mode = mode, .ndevices = 1 };
    p.fused = plan_make(p.m, &o, NULL, p.d);
    o.unfused = true;
    p.plain = plan_make(p.m, &o, NULL, p.d);
    assert_non_null(p.fused);
    assert_non_null(p.plain);
    return p;
}

static void planned_free(struct planned *p)
{
    plan_free(p->fused);
    plan_free(p->plain);
    module_free(p->m);
    diag_free(p->d);
    ir_free(p->ir);
}

#define MODULE(body) "HloModule m\nENTRY e {\n" body "\n}\n"

static uint32_t steps_of(const char *text)
{
    struct planned p = plan_text(text, EMU_FLOAT);
    uint32_t n = p.fused->entry->nsteps;
    assert_true(p.fused->entry->peak <= p.plain->entry->peak);
    planned_free(&p);
    return n;
}

static void chains_are_one_step(void **state)
{
    (void)state;
    assert_int_equal(steps_of(MODULE("x = f32[100] parameter(0)\n a = f32[100] add(x, x)\n"
                                     "b = f32[100] exponential(a)\n ROOT r = f32[100] tanh(b)")),
                     1);
    /* two results, one of them read inside too */
    assert_int_equal(steps_of(MODULE("x = f32[100] parameter(0)\n a = f32[100] add(x, x)\n"
                                     "b = f32[100] exponential(a)\n ROOT r = (f32[100], f32[100]) tuple(a, b)")),
                     1);
    /* broadcasts of scalars and along a dimension are no steps; a conversion and a select are members */
    assert_int_equal(
        steps_of(MODULE("x = f32[8,100] parameter(0)\n s = f32[] parameter(1)\n v = f32[100] parameter(2)\n"
                        "w = f32[8] parameter(3)\n bs = f32[8,100] broadcast(s), dimensions={}\n"
                        "bv = f32[8,100] broadcast(v), dimensions={1}\n bw = f32[8,100] broadcast(w), dimensions={0}\n"
                        "a = f32[8,100] add(x, bs)\n b = f32[8,100] multiply(a, bv)\n c = f32[8,100] divide(b, bw)\n"
                        "p = pred[8,100] compare(c, x), direction=LT\n d = f32[8,100] select(p, a, c)\n"
                        "ROOT r = bf16[8,100] convert(d)")),
        1);
    /* a step outside that reads a value parts the chain: what feeds it may not wait for what it feeds */
    assert_int_equal(steps_of(MODULE("x = f32[4,4] parameter(0)\n a = f32[4,4] add(x, x)\n"
                                     "b = f32[4,4] negate(a)\n t = f32[4,4] transpose(b), dimensions={1,0}\n"
                                     "c = f32[4,4] add(b, t)\n ROOT r = f32[4,4] multiply(c, c)")),
                     3);
    /* other numbers of elements are other loops */
    assert_int_equal(steps_of(MODULE("x = f32[8] parameter(0)\n a = f32[8] add(x, x)\n b = f32[8] negate(a)\n"
                                     "s = f32[4] slice(b), slice={[0:4]}\n c = f32[4] add(s, s)\n"
                                     "ROOT r = f32[4] negate(c)")),
                     3);
}

/* ---- the same bits ------------------------------------------------------------------------------
 */

static void run_both(struct planned *p, bool poison, const char *text)
{
    const struct computation *e = comp_at(p->m, p->m->entry);
    struct tensor in[8] = { { 0 } };
    struct run_result r[2];
    for (uint32_t k = 0; k < e->nparams; k++) {
        const struct shape *s = instr_shape(p->m, e->params[k]);
        assert_true(tensor_generate(s->dtype, s->rank, s->dims, k, 1, &in[k], p->d));
        if (poison && k % 2 == 0) {
            in[k].poison = calloc((size_t)s->count + 1, 1);
            for (int64_t i = 0; i < s->count; i += 3)
                in[k].poison[i] = 1;
        }
    }
    for (int k = 0; k < 2; k++) {
        struct run_options o = { .ndevices = 1, .threads = 1, .poison = poison };
        o.mode = p->fused->mode == EMU_RING ? RUN_RING : RUN_FLOAT;
        assert_true(run_plan(k ? p->plain : p->fused, in, e->nparams, &o, NULL, &r[k], NULL, p->d));
    }
    assert_int_equal(r[0].nleaves, r[1].nleaves);
    for (int64_t k = 0; k < r[0].nleaves; k++) {
        const struct tensor *a = &r[0].out[k], *b = &r[1].out[k];
        if (memcmp(a->data, b->data, (size_t)a->bytes) != 0)
            fail_msg("output %d differs:\n%s", (int)k, text);
        assert_int_equal(a->poison != NULL, b->poison != NULL);
        int size = elem_of(a->dtype, a->ring ? EMU_RING : EMU_FLOAT).size;
        if (a->poison)
            assert_memory_equal(a->poison, b->poison, (size_t)(a->bytes / size));
    }
    run_result_free(&r[0]);
    run_result_free(&r[1]);
    for (uint32_t k = 0; k < e->nparams; k++)
        tensor_free(&in[k]);
}

static const char *const types[] = { "f32", "bf16", "s32", "f16", "u8", "f64" };
enum { TYPES = COUNTOF(types), VALUES = 24 };

struct making {
    struct str *s;
    int type[VALUES]; /* index into types; -1: pred */
    int n;
    const char *dims;
};

static int pick(const struct making *g, int type)
{
    for (int k = g->n - 1 - (int)below(3); k >= 0; k--)
        if (g->type[k] == type)
            return k;
    for (int k = 0; k < g->n; k++)
        if (g->type[k] == type)
            return k;
    return -1;
}

static void make_value(struct making *g)
{
    static const char *const binary[] = { "add", "subtract", "multiply", "maximum", "minimum", "divide" };
    static const char *const unary[] = { "negate", "abs", "sign" };
    int t = (int)below(TYPES), x = pick(g, t), y = pick(g, t), p = pick(g, -1), id = g->n;
    uint32_t what = below(10);
    const char *ty = types[t];
    if (x < 0 || what == 0) { /* another type's value converted */
        int from = (int)below((uint32_t)g->n);
        str_addf(g->s, "v%d = %s%s convert(v%d)\n", id, ty, g->dims, from);
    } else if (what == 1) {
        str_addf(g->s, "v%d = pred%s compare(v%d, v%d), direction=LE\n", id, g->dims, x, y);
        t = -1;
    } else if (what == 2 && p >= 0) {
        str_addf(g->s, "v%d = %s%s select(v%d, v%d, v%d)\n", id, ty, g->dims, p, x, y);
    } else if (what == 3) {
        str_addf(g->s, "k%d = %s[] constant(%d)\n h%d = %s[] constant(9)\n v%d = %s%s clamp(k%d, v%d, h%d)\n", id, ty,
                 t == 4 ? 1 : -1, id, ty, id, ty, g->dims, id, x, id);
    } else if (what == 4) {
        str_addf(g->s, "v%d = %s%s %s(v%d)\n", id, ty, g->dims, unary[below(t == 4 ? 1 : 3)], x);
    } else if (what == 5 && (t == 0 || t == 5)) {
        str_addf(g->s, "v%d = %s%s tanh(v%d)\n", id, ty, g->dims, x);
    } else if (what == 6) {
        str_addf(g->s, "k%d = %s[] constant(3)\n v%d = %s%s broadcast(k%d), dimensions={}\n", id, ty, id, ty, g->dims,
                 id);
    } else {
        str_addf(g->s, "v%d = %s%s %s(v%d, v%d)\n", id, ty, g->dims, binary[below(6)], x, y);
    }
    g->type[g->n++] = t;
}

/* Parameters, rows and columns spread, a graph of elementwise operations, a sum in the middle that parts
 * groups; some values come out. */
static void make_text(struct str *s)
{
    static const int64_t rows[] = { 1, 3, 7, 40, 129 }, cols[] = { 1, 2, 5, 33, 257 };
    int64_t m = rows[below(5)], n = cols[below(5)];
    char dims[40];
    snprintf(dims, sizeof dims, "[%" PRId64 ",%" PRId64 "]", m, n);
    struct making g = { .s = s, .dims = dims };
    str_addf(s, "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\nENTRY e {\n");
    str_addf(s, "v0 = f32%s parameter(0)\n v1 = s32%s parameter(1)\n row = f32[%" PRId64 "] parameter(2)\n"
                "col = bf16[%" PRId64 "] parameter(3)\n one = f32[] parameter(4)\n",
             dims, dims, n, m);
    str_addf(s, "v2 = f32%s broadcast(row), dimensions={1}\n v3 = bf16%s broadcast(col), dimensions={0}\n"
                "v4 = f32%s broadcast(one), dimensions={}\n v5 = pred%s compare(v0, v2), direction=GT\n"
                "v6 = f32%s reverse(v0), dimensions={1}\n v7 = s32%s reverse(v1), dimensions={0}\n",
             dims, dims, dims, dims, dims, dims);
    g.type[0] = g.type[2] = g.type[4] = g.type[6] = 0;
    g.type[1] = g.type[7] = 2;
    g.type[3] = 1;
    g.type[5] = -1;
    g.n = 8; /* two of them die in a group, and nobody else has them */
    while (g.n < VALUES) {
        if (g.n == 14) {
            int x = pick(&g, 0);
            str_addf(s, "z = f32[] constant(0)\n sum = f32[%" PRId64 "] reduce(v%d, z), dimensions={1}, to_apply=add\n"
                        "v%d = f32%s broadcast(sum), dimensions={0}\n",
                     m, x, g.n, dims);
            g.type[g.n++] = 0;
        }
        make_value(&g);
    }
    enum { OUT = 7 };
    int out[OUT] = { VALUES - 1, VALUES - 2, VALUES - 3, VALUES - 4, VALUES - 5 };
    out[5] = (int)below(VALUES);
    out[6] = (int)below(VALUES);
    str_addf(s, "ROOT r = (");
    for (int k = 0; k < OUT; k++)
        str_addf(s, "%s%s%s", k ? ", " : "", g.type[out[k]] < 0 ? "pred" : types[g.type[out[k]]], dims);
    str_addf(s, ") tuple(");
    for (int k = 0; k < OUT; k++)
        str_addf(s, "%sv%d", k ? ", " : "", out[k]);
    str_addf(s, ")\n}\n");
}

static void no_bit_depends_on_fusion(void **state)
{
    (void)state;
    int64_t saved = 0;
    for (int round = 0; round < 300; round++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        make_text(&s);
        struct planned p = plan_text(str_text(&s), round % 3 == 2 ? EMU_RING : EMU_FLOAT);
        run_both(&p, round % 2 == 1, str_text(&s));
        saved += (int64_t)p.plain->entry->nsteps - (int64_t)p.fused->entry->nsteps;
        planned_free(&p);
        arena_free(&a);
    }
    assert_true(saved > 300 * 5); /* there was something to fuse */
}

/* Chains of 16-bit floats keep f32 between their operations: every pattern of bits, NaN and infinities
 * among them, comes out as if each operation had stored its result. */
static void chains_of_halves_round_each_time(void **state)
{
    (void)state;
    static const char *const halves[] = { "bf16", "f16" };
    for (int k = 0; k < 2; k++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        const char *t = halves[k], *u = halves[1 - k];
        str_addf(&s,
                 "HloModule m\nENTRY e {\n i = u16[65536] parameter(0)\n one = u16[] constant(40503)\n"
                 " o = u16[65536] broadcast(one), dimensions={}\n all = u16[65536] iota(), iota_dimension=0\n"
                 " turn = u16[65536] multiply(all, o)\n w = u16[65536] xor(turn, i)\n"
                 " x = %s[65536] bitcast-convert(all)\n y = %s[65536] bitcast-convert(w)\n"
                 " k = %s[] constant(0.7)\n h = %s[65536] broadcast(k), dimensions={}\n"
                 " a = %s[65536] multiply(x, h)\n b = %s[65536] add(a, y)\n c = %s[65536] maximum(b, x)\n"
                 " d = %s[65536] subtract(c, y)\n e1 = %s[65536] abs(d)\n f = %s[65536] sqrt(e1)\n"
                 " p = pred[65536] compare(f, x), direction=LT\n g = %s[65536] select(p, y, f)\n"
                 " j = %s[65536] divide(g, b)\n l = %s[65536] clamp(h, j, c)\n q = f32[65536] convert(l)\n"
                 " n = %s[65536] convert(q)\n r1 = %s[65536] convert(n)\n v = %s[65536] minimum(r1, l)\n"
                 " ex = %s[65536] tanh(v)\n ng = %s[65536] negate(ex)\n cr = %s[65536] convert(ng)\n"
                 " ROOT r = (%s[65536], %s[65536], %s[65536], f32[65536], %s[65536]) tuple(g, ng, v, q, cr)\n}\n",
                 t, t, t, t, t, t, t, t, t, t, t, t, t, u, t, t, t, t, u, t, t, t, u);
        struct planned p = plan_text(str_text(&s), EMU_FLOAT);
        assert_true(p.fused->entry->nsteps < p.plain->entry->nsteps);
        run_both(&p, false, str_text(&s));
        planned_free(&p);
        arena_free(&a);
    }
}

/* ---- vectors of every width ---------------------------------------------------------------------
 */

static void fill(struct elem e, unsigned char *to, int64_t n, bool wild)
{
    for (int64_t i = 0; i < n * e.size; i++)
        to[i] = (unsigned char)random_bits();
    for (int64_t i = 0; i < n; i++) {
        float f = (float)((double)(int64_t)below(2001) / 100 - 10);
        double d = (double)f;
        if (e.ct == CT_PRED)
            to[i] &= 1;
        else if (e.ct == CT_F32 && !(wild && i % 2))
            memcpy(to + i * 4, &f, 4);
        else if (e.ct == CT_F64 && !(wild && i % 2))
            memcpy(to + i * 8, &d, 8);
    }
}

enum { LANES = 203 };

static void same_kernel(enum op_kind op, struct elem in, struct elem out, ew_fn plain, ew_fn wide)
{
    static _Alignas(16) unsigned char x[3][LANES * 16], a[LANES * 16], b[LANES * 16];
    const void *args[3] = { x[0], x[1], x[2] };
    struct ew e = { .op = op, .nin = op_max_operands(op), .in = in, .out = out, .a = 2, .b = 5 };
    assert_int_equal(plain != NULL, wide != NULL);
    if (!plain)
        return;
    for (int k = 0; k < 3; k++)
        fill(op == OP_SELECT && k == 0 ? elem_of(DTYPE_PRED, EMU_FLOAT) : in, x[k], LANES, true);
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    plain(&e, a, args, LANES);
    wide(&e, b, args, LANES);
    for (int64_t i = 0; i < LANES * out.size; i += out.size) {
        float f[2];
        double d[2];
        memcpy(&f[0], a + i, 4);
        memcpy(&f[1], b + i, 4);
        memcpy(&d[0], a + i, 8);
        memcpy(&d[1], b + i, 8);
        bool nan = (out.ct == CT_F32 && isnan(f[0]) && isnan(f[1])) ||
                   (out.ct == CT_F64 && isnan(d[0]) && isnan(d[1])); /* which one of two NaNs is no matter */
        if (!nan && memcmp(a + i, b + i, (size_t)out.size) != 0)
            fail_msg("%s of %s: element %d", op_name(op), dtype_name(in.t), (int)(i / out.size));
    }
}

static void every_width_gives_the_same_bits(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = { DTYPE_PRED, DTYPE_S8,  DTYPE_S16, DTYPE_S32, DTYPE_S64, DTYPE_U8,
                                         DTYPE_U16,  DTYPE_U32, DTYPE_U64, DTYPE_F32, DTYPE_F64 };
    int compared = 0;
    for (int level = 1; level < EW_LEVELS; level++) {
        const struct ew_set *plain = ew_set_at(0), *wide = ew_set_at(level);
        if (!wide)
            continue; /* this machine has no such vectors */
        for (size_t t = 0; t < COUNTOF(dtypes); t++) {
            struct elem e = elem_of(dtypes[t], EMU_FLOAT), pred = elem_of(DTYPE_PRED, EMU_FLOAT);
            for (int op = 0; op < OP_COUNT; op++) {
                bool test = op == OP_COMPARE || op == OP_IS_FINITE;
                if (ew_arith((enum op_kind)op, e.ct))
                    same_kernel((enum op_kind)op, e, test ? pred : e, plain->kernel((enum op_kind)op, e.ct),
                                wide->kernel((enum op_kind)op, e.ct));
                compared++;
            }
            same_kernel(OP_SELECT, e, e, plain->select(e.size), wide->select(e.size));
            for (int u = 1; u < DTYPE_COUNT; u++)
                same_kernel(OP_CONVERT, e, elem_of((enum dtype)u, EMU_FLOAT),
                            plain->convert(e.t, (enum dtype)u), wide->convert(e.t, (enum dtype)u));
        }
    }
    if (!compared)
        skip();
}

/* Types of eight bits: halves between neighbours, what is beyond the ends, every exponent, as one number at
 * a time is encoded; so is reduce-precision. */
static void bytes_are_rounded_as_one_at_a_time(void **state)
{
    (void)state;
    enum { N = 4096 };
    static const enum dtype byte_types[] = { DTYPE_F4E2M1FN,   DTYPE_F8E3M4,     DTYPE_F8E4M3, DTYPE_F8E4M3FN,
                                             DTYPE_F8E4M3B11,  DTYPE_F8E4M3FNUZ, DTYPE_F8E5M2, DTYPE_F8E5M2FNUZ };
    static float x[N], y[N];
    static uint8_t got[N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t b = i < 2048 ? i << 21 : (uint32_t)random_bits();
        b = i % 3 == 0 ? b : i % 3 == 1 ? (b & 0xfff80000u) | 0x80000 >> (i % 5) : b + i % 7 - 3;
        x[i] = f32_of_bits(b);
    }
    for (size_t t = 0; t < COUNTOF(byte_types); t++) {
        f32_to_small(byte_types[t], x, got, N);
        for (int i = 0; i < N; i++) {
            uint8_t want;
            real_store(byte_types[t], (double)x[i], &want);
            if (got[i] != want)
                fail_msg("%s of %a: %02x, not %02x", dtype_name(byte_types[t]), (double)x[i], got[i], want);
        }
    }
    for (int level = 0; level < EW_LEVELS; level++)
        for (int e = 1; e <= 9; e++)
            for (int m = 0; m <= 24; m += 3) {
                const struct ew_set *s = ew_set_at(level);
                struct ew k = { .op = OP_REDUCE_PRECISION, .a = e, .b = m };
                const void *in = x;
                if (!s)
                    continue;
                s->kernel(OP_REDUCE_PRECISION, CT_F32)(&k, y, &in, N);
                for (int i = 0; i < N; i++)
                    if (f32_bits(y[i]) != (uint32_t)reduce_precision(f32_bits(x[i]), 8, 23, e, m))
                        fail_msg("%a to %d and %d bits: %a", (double)x[i], e, m, (double)y[i]);
            }
}

/* Every 16-bit pattern there and back, through every width; NaNs stay NaNs. */
static void sixteen_bits_there_and_back(void **state)
{
    (void)state;
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    for (int k = 0; k < 65536; k++)
        all[k] = (uint16_t)k;
    for (int level = 0; level < EW_LEVELS; level++) {
        const struct ew_set *s = ew_set_at(level);
        for (int kind = 0; s && kind < 2; kind++) {
            (kind ? s->widen_f16 : s->widen_bf16)(all, wide, 65536);
            (kind ? s->narrow_f16 : s->narrow_bf16)(wide, back, 65536);
            for (int k = 0; k < 65536; k++) {
                bool nan = isnan(wide[k]), had = kind ? (k & 0x7fff) > 0x7c00 : (k & 0x7fff) > 0x7f80;
                assert_int_equal(nan, had);
                assert_true(nan || back[k] == k);
                double v = ldexp((double)((k & 0x3ff) + ((k & 0x7c00) ? 1024 : 0)),
                                 ((k & 0x7c00) ? (k >> 10 & 31) : 1) - 25);
                if (kind && (k & 0x7c00) != 0x7c00)
                    assert_true((double)wide[k] == (k & 0x8000 ? -v : v));
            }
        }
    }
}

/* Halves between neighbours go to the even one; what is too large becomes infinite. */
static void f16_rounds_to_even(void **state)
{
    (void)state;
    for (int level = 0; level < EW_LEVELS; level++) {
        const struct ew_set *s = ew_set_at(level);
        for (uint32_t k = 0; s && k < 0x7bff; k++) {
            uint16_t pair[2] = { (uint16_t)k, (uint16_t)(k + 1) }, got[3];
            float f[2], between[3];
            s->widen_f16(pair, f, 2);
            between[0] = f[0] + (f[1] - f[0]) / 2;
            between[1] = nextafterf(between[0], 0);
            between[2] = nextafterf(between[0], HUGE_VALF);
            s->narrow_f16(between, got, 3);
            assert_int_equal(got[0], k % 2 ? k + 1 : k);
            assert_int_equal(got[1], k);
            assert_int_equal(got[2], k + 1);
        }
        float large[5] = { 65519.99f, 65520.0f, 70000.0f, 1e30f, HUGE_VALF };
        uint16_t got[5];
        if (s)
            s->narrow_f16(large, got, 5);
        for (int k = 0; s && k < 5; k++)
            assert_int_equal(got[k], k ? 0x7c00 : 0x7bff);
    }
}

/* bf16 and f16 in one loop: as widened, computed in f32 and rounded one after the other. */
static void half_operations_round_once(void **state)
{
    (void)state;
    enum { ALL = 65536 };
    static uint16_t x[ALL], y[ALL], got[ALL], want[ALL];
    static float fx[ALL], fy[ALL], fr[ALL];
    static const enum dtype types_of_half[] = { DTYPE_BF16, DTYPE_F16 };
    const struct ew_set *plain = ew_set_at(0);
    int compared = 0;
    for (int k = 0; k < ALL; k++) {
        x[k] = (uint16_t)k;
        y[k] = (uint16_t)random_bits();
    }
    for (int level = 0; level < EW_LEVELS; level++)
        for (int t = 0; t < 2; t++)
            for (int op = 0; op < OP_COUNT; op++) {
                const struct ew_set *s = ew_set_at(level);
                ew_fn half = s ? s->half((enum op_kind)op, types_of_half[t]) : NULL;
                if (!half)
                    continue;
                const void *in[] = { x, y }, *wide[] = { fx, fy };
                struct ew e = { .op = (enum op_kind)op };
                (t ? plain->widen_f16 : plain->widen_bf16)(x, fx, ALL);
                (t ? plain->widen_f16 : plain->widen_bf16)(y, fy, ALL);
                plain->kernel((enum op_kind)op, CT_F32)(&e, fr, wide, ALL);
                (t ? plain->narrow_f16 : plain->narrow_bf16)(fr, want, ALL);
                half(&e, got, in, ALL);
                (t ? plain->widen_f16 : plain->widen_bf16)(got, fx, ALL);
                for (int k = 0; k < ALL; k++)
                    if (isnan(fr[k]) ? !isnan(fx[k]) : got[k] != want[k])
                        fail_msg("%s %d: %04x, not %04x", op_name((enum op_kind)op), k, (unsigned)got[k], (unsigned)want[k]);
                compared++;
            }
    /* kept as f32, rounded where they lie: the same values, through every width */
    for (int level = 0; level < EW_LEVELS; level++)
        for (int t = 0; t < 2; t++)
            for (int op = 0; op < OP_COUNT; op++) {
                const struct ew_set *s = ew_set_at(level);
                ew_fn kept = s ? s->kept((enum op_kind)op, types_of_half[t]) : NULL;
                ew_fn half = plain->half((enum op_kind)op, types_of_half[t]);
                if (!kept || !half)
                    continue;
                const void *in[] = { x, y }, *wide[] = { fx, fy };
                struct ew e = { .op = (enum op_kind)op };
                (t ? plain->widen_f16 : plain->widen_bf16)(x, fx, ALL);
                (t ? plain->widen_f16 : plain->widen_bf16)(y, fy, ALL);
                half(&e, want, in, ALL);
                kept(&e, fr, wide, ALL);
                (t ? s->narrow_f16 : s->cut_bf16)(fr, got, ALL);
                for (int k = 0; k < ALL; k++)
                    if (isnan(fr[k]) ? (want[k] & 0x7fff) <= (t ? 0x7c00 : 0x7f80) : got[k] != want[k])
                        fail_msg("kept %s %d: %04x, not %04x", op_name((enum op_kind)op), k, (unsigned)got[k], (unsigned)want[k]);
                compared++;
            }
    assert_true(compared >= 38);
}

/* ---- functions of f32 ---------------------------------------------------------------------------
 */

static double off_by(double got, double want)
{
    int e;
    float f = (float)fabs(want);
    (void)frexp((double)(f < 0x1p-126f ? 0x1p-126f : f), &e);
    return fabs(got - want) / ldexp(1, e - 24);
}

#define FUNCTION(name)                                  \
    static float ours_##name(float x)                   \
    {                                                   \
        return plain_##name(x);                         \
    }                                                   \
    static double exact_##name(float x)                 \
    {                                                   \
        return name((double)x);                         \
    }
FUNCTION(exp)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(tanh)

static void functions_hold_their_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float (*ours)(float);
        double (*exact)(float);
        double bound;
    } all[] = { { "exp", ours_exp, exact_exp, 1 },
                { "log", ours_log, exact_log, 1 },
                { "log1p", ours_log1p, exact_log1p, 1 },
                { "tanh", ours_tanh, exact_tanh, 1.5 } };
    for (size_t k = 0; k < COUNTOF(all); k++) {
        for (uint64_t b = below(5000); b < 1ULL << 32; b += 5003) {
            float x = f32_of_bits((uint32_t)b);
            float got = all[k].ours(x);
            double want = all[k].exact(x);
            if (isnan(want))
                assert_true(isnan(got));
            else if (isinf((float)want))
                assert_true(got == (float)want);
            else if (off_by((double)got, want) > all[k].bound)
                fail_msg("%s(%a) = %a, off by %.3f", all[k].name, (double)x, (double)got, off_by((double)got, want));
        }
        static const float special[] = { 0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, 1.0f, -1.0f, 88.7228f, 88.73f, -104.5f };
        for (size_t j = 0; j < COUNTOF(special); j++) {
            float got = all[k].ours(special[j]);
            double want = all[k].exact(special[j]);
            assert_true(isnan(want) ? isnan(got) : (got == (float)want || off_by((double)got, want) <= all[k].bound));
            assert_true(isnan(want) || want != 0 || signbit(got) == signbit((float)want));
        }
    }
}

/* Strips of small numbers take a shorter way: to the same bits, wherever a large one, a NaN or an infinity
 * stands among them. */
static void short_ways_give_the_same_bits(void **state)
{
    (void)state;
    enum { N = 5000 };
    static float x[N], y[N];
    static const float odd[] = { 86.9f, -87.0f, 87.01f, -88.0f, 89.5f, -110.0f, 43.0f, 43.1f, 1e30f, HUGE_VALF, -HUGE_VALF, NAN, 1e-40f };
    for (int round = 0; round < 40; round++) {
        float range = round % 4 == 0 ? 0.5f : round % 4 == 1 ? 10.0f : round % 4 == 2 ? 43.0f : 87.0f;
        for (int i = 0; i < N; i++)
            x[i] = range * (float)((double)(int64_t)below(2000001) / 1e6 - 1);
        for (int k = 0; k < round / 8; k++)
            x[below(N)] = odd[below(COUNTOF(odd))];
        for (int level = 0; level < EW_LEVELS; level++)
            for (int f = 0; f < 3; f++) {
                static const enum op_kind ops[] = { OP_EXP, OP_TANH, OP_LOGISTIC };
                const struct ew_set *s = ew_set_at(level);
                struct ew e = { .op = ops[f] };
                const void *in = x;
                if (!s)
                    continue;
                s->kernel(ops[f], CT_F32)(&e, y, &in, N);
                for (int i = 0; i < N; i++) {
                    float want = f == 0 ? plain_exp(x[i]) : f == 1 ? plain_tanh(x[i]) : 1.0f / (1.0f + plain_exp(-x[i]));
                    if (isnan(want) ? !isnan(y[i]) : f32_bits(want) != f32_bits(y[i]))
                        fail_msg("%s(%a) = %a, not %a", op_name(ops[f]), (double)x[i], (double)y[i], (double)want);
                }
            }
    }
}

/* ---- rows and squares ---------------------------------------------------------------------------
 */

/* Several rows at a time, each in its own order: the same bits as one after the other. */
static void rows_are_summed_in_order(void **state)
{
    (void)state;
    for (int64_t m = 1; m < 30; m++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        int64_t n = 1 + (m * 37) % 71;
        str_addf(&s, "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
                     "max { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT s = f64[] maximum(a, b) }\n"
                     "ENTRY e {\n u = f32[%" PRId64 ",%" PRId64 "] parameter(0)\n v = f32[%" PRId64 ",%" PRId64 "] sine(u)\n"
                     "z = f32[] constant(0.1)\n d = f64[%" PRId64 ",%" PRId64 "] convert(v)\n y = f64[] constant(0.5)\n"
                     "x = f32[%" PRId64 "] reduce(v, z), dimensions={1}, to_apply=add\n"
                     "w = f64[%" PRId64 "] reduce(d, y), dimensions={1}, to_apply=max\n"
                     "ROOT r = (f32[%" PRId64 "], f64[%" PRId64 "], f32[%" PRId64 ",%" PRId64 "]) tuple(x, w, v)\n}\n",
                 m, n, m, n, m, n, m, m, m, m, m, n);
        struct ran x = run_text(str_text(&s), (struct run_options){ 0 });
        assert_true(x.ok);
        const float *sums = x.r.out[0].data, *v = x.r.out[2].data;
        const double *tops = x.r.out[1].data;
        for (int64_t i = 0; i < m; i++) {
            float sum = 0.1f;
            double top = 0.5;
            for (int64_t j = 0; j < n; j++) {
                sum += v[i * n + j];
                top = (double)v[i * n + j] > top ? (double)v[i * n + j] : top;
            }
            assert_memory_equal(&sum, &sums[i], 4);
            assert_true(top == tops[i]);
        }
        ran_free(&x);
        arena_free(&a);
    }
}

/* Squares as wide as a cache line, what is left over at the edges, and batches of planes. */
static void transposes_move_every_element(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 2, 4, 8, 16 };
    static const int64_t sides[][3] = { { 1, 64, 64 }, { 1, 70, 131 }, { 3, 33, 16 }, { 2, 8, 9 }, { 1, 200, 7 }, { 1, 150, 140 } };
    for (size_t z = 0; z < COUNTOF(sizes); z++)
        for (size_t k = 0; k < COUNTOF(sides); k++) {
            struct arena a = { 0 };
            int64_t b = sides[k][0], m = sides[k][1], n = sides[k][2], size = sizes[z];
            struct box box = box_new(&a, 3);
            char *from = arena_alloc(&a, b * m * n, (size_t)size), *to = arena_alloc(&a, b * m * n, (size_t)size);
            for (int64_t i = 0; i < b * m * n * size; i++)
                from[i] = (char)random_bits();
            const int64_t dims[] = { b, n, m }, dst[] = { m * n, m, 1 }, src[] = { m * n, 1, n };
            for (int i = 0; i < 3; i++) {
                box.dims[i] = dims[i];
                box.dst[i] = dst[i];
                box.src[i] = src[i];
            }
            box_compact(&box);
            box_copy(&box, to, from, (int)size);
            for (int64_t q = 0; q < b; q++)
                for (int64_t i = 0; i < m; i++)
                    for (int64_t j = 0; j < n; j++)
                        assert_memory_equal(to + (q * m * n + j * m + i) * size, from + (q * m * n + i * n + j) * size,
                                            (size_t)size);
            arena_free(&a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_one_step),
        cmocka_unit_test(no_bit_depends_on_fusion),
        cmocka_unit_test(chains_of_halves_round_each_time),
        cmocka_unit_test(every_width_gives_the_same_bits),
        cmocka_unit_test(bytes_are_rounded_as_one_at_a_time),
        cmocka_unit_test(sixteen_bits_there_and_back),
        cmocka_unit_test(f16_rounds_to_even),
        cmocka_unit_test(half_operations_round_once),
        cmocka_unit_test(functions_hold_their_bounds),
        cmocka_unit_test(short_ways_give_the_same_bits),
        cmocka_unit_test(rows_are_summed_in_order),
        cmocka_unit_test(transposes_move_every_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
