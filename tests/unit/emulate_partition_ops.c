/* Partitioned operations compute what the whole program computes: random windows, slices, updates,
 * gathers and products, over random tilings, most of them uneven, proved over the integer ring with
 * padding poisoned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "emulate/emulate.h"
#include "text/text.h"

static uint64_t seed_now;

static int64_t random_in(int64_t a, int64_t b)
{
    seed_now = hash_u64(seed_now + 0x9e3779b97f4a7c15ULL);
    return a + (int64_t)(seed_now % (uint64_t)(b - a + 1));
}

static const char *pick(int n, const char *const *words)
{
    return words[random_in(0, n - 1)];
}

/* A module under construction: outputs' names and shapes for the root. */
struct text {
    struct arena arena;
    struct str body, names, shapes, shardings;
    int64_t devices;
    int params, outputs;
};

#define EXPR(...) arena_printf(&t->arena, __VA_ARGS__)

/* Tiled on one dimension (of rank 2 or 3), or in copies, or whole. */
static const char *tiling(struct text *t, int rank, int on)
{
    if (on < 0 || on >= rank)
        return "{replicated}";
    struct str s = STR_IN(&t->arena);
    str_adds(&s, "{devices=[");
    int64_t n = t->devices;
    bool copies = n % 2 == 0 && random_in(0, 3) == 0;
    for (int d = 0; d < rank; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : "", d == on ? (copies ? n / 2 : n) : 1);
    if (copies)
        str_addf(&s, ",2]<=[%" PRId64 "] last_tile_dim_replicate}", n);
    else
        str_addf(&s, "]<=[%" PRId64 "]}", n);
    return str_text(&s);
}

/* Two dimensions at once. */
static const char *tiling_of_two(struct text *t, int rank)
{
    int a = (int)random_in(0, rank - 1), b = (int)random_in(0, rank - 1);
    struct str s = STR_IN(&t->arena);
    str_adds(&s, "{devices=[");
    int64_t n = t->devices / 2;
    for (int d = 0; d < rank; d++)
        str_addf(&s, "%s%" PRId64, d ? "," : "",
                 d == a && d == b ? 2 * n
                 : d == a         ? 2
                 : d == b         ? n
                                  : 1);
    if (random_in(0, 1) == 0)
        str_addf(&s, "]<=[%" PRId64 "]}", 2 * n);
    else
        str_addf(&s, "]<=[%" PRId64 ",2]T(1,0)}", n);
    return str_text(&s);
}

static const char *any_tiling(struct text *t, int rank)
{
    if (t->devices % 2 == 0 && t->devices > 2 && random_in(0, 1) == 0)
        return tiling_of_two(t, rank);
    return tiling(t, rank, (int)random_in(-1, rank - 1));
}

static const char *parameter(struct text *t, const char *shape, const char *sharding)
{
    const char *name = arena_printf(&t->arena, "p_%d", t->params);
    str_addf(&t->body, "  %s = %s parameter(%d), sharding=%s\n", name, shape, t->params++,
             sharding);
    return name;
}

static void output(struct text *t, const char *shape, const char *expression, const char *sharding)
{
    const char *comma = t->outputs ? ", " : "";
    str_addf(&t->body, "  v_%d = %s %s, sharding=%s\n", t->outputs, shape, expression, sharding);
    str_addf(&t->names, "%sv_%d", comma, t->outputs++);
    str_addf(&t->shapes, "%s%s", comma, shape);
    str_addf(&t->shardings, "%s%s", comma, sharding);
}

static const char *shape2(struct text *t, const char *type, int64_t a, int64_t b)
{
    return arena_printf(&t->arena, "%s[%" PRId64 ",%" PRId64 "]", type, a, b);
}

static void add_slice(struct text *t)
{
    int64_t D = random_in(1, 20), a = random_in(0, D - 1), b = random_in(a + 1, D),
            st = random_in(1, 3);
    const char *p = parameter(t, shape2(t, "f32", D, 2), any_tiling(t, 2));
    output(t, shape2(t, "f32", (b - a + st - 1) / st, 2),
           EXPR("slice(%s), slice={[%" PRId64 ":%" PRId64 ":%" PRId64 "],[0:2]}", p, a, b, st),
           tiling(t, 2, (int)random_in(0, 1)));
}

static void add_pad(struct text *t)
{
    int64_t D = random_in(1, 20), in = random_in(0, 2), lo = random_in(-6, 10),
            hi = random_in(-6, 10);
    int64_t m = D + (D - 1) * in + lo + hi;
    if (m < 1)
        return;
    const char *p = parameter(t, shape2(t, "f32", D, 2), any_tiling(t, 2));
    const char *z = parameter(t, "f32[]", "{replicated}");
    output(t, shape2(t, "f32", m, 2),
           EXPR("pad(%s, %s), padding=%" PRId64 "_%" PRId64 "_%" PRId64 "x0_0", p, z, lo, hi, in),
           tiling(t, 2, (int)random_in(0, 1)));
}

struct win {
    int64_t k, st, lo, hi, wd, bd, out;
};

static bool random_window(int64_t D, bool negative, struct win *w)
{
    *w = (struct win){ random_in(1, 5),
                       random_in(1, 3),
                       random_in(negative ? -2 : 0, 3),
                       random_in(negative ? -2 : 0, 3),
                       random_in(1, 2),
                       random_in(1, 3),
                       0 };
    int64_t full = 1 + (D - 1) * w->bd + w->lo + w->hi, dk = 1 + (w->k - 1) * w->wd;
    w->out = full < dk ? 0 : (full - dk) / w->st + 1;
    return w->out > 0;
}

static void add_reduce_window(struct text *t)
{
    int64_t D = random_in(1, 20);
    struct win w;
    if (!random_window(D, false, &w))
        return;
    const char *p = parameter(t, shape2(t, "f32", D, 2), any_tiling(t, 2));
    output(t, shape2(t, "f32", w.out, 2),
           EXPR("reduce-window(%s, zero), window={size=%" PRId64 "x1 stride=%" PRId64
                "x1 pad=%" PRId64 "_%" PRId64 "x0_0 lhs_dilate=%" PRId64 "x1 rhs_dilate=%" PRId64
                "x1}, to_apply=add",
                p, w.k, w.st, w.lo, w.hi, w.bd, w.wd),
           tiling(t, 2, (int)random_in(0, 1)));
}

static void add_convolution(struct text *t)
{
    int64_t D = random_in(1, 20), groups = random_in(0, 3) == 0 ? 2 : 1;
    struct win w;
    if (!random_window(D, true, &w))
        return;
    const char *p =
        parameter(t, EXPR("f32[2,%" PRId64 ",%" PRId64 "]", D, 4 * groups), any_tiling(t, 3));
    const char *q = parameter(t, EXPR("f32[%" PRId64 ",4,6]", w.k), any_tiling(t, 3));
    output(t, EXPR("f32[2,%" PRId64 ",6]", w.out),
           EXPR("convolution(%s, %s), window={size=%" PRId64 " stride=%" PRId64 " pad=%" PRId64
                "_%" PRId64 " lhs_dilate=%" PRId64 " rhs_dilate=%" PRId64 " rhs_reversal=%" PRId64
                "}, dim_labels=b0f_0io->b0f, feature_group_count=%" PRId64,
                p, q, w.k, w.st, w.lo, w.hi, w.bd, w.wd, random_in(0, 1), groups),
           any_tiling(t, 3));
}

static void add_select_and_scatter(struct text *t)
{
    int64_t D = random_in(1, 20), k = random_in(1, 4), st = random_in(1, 3);
    int64_t lo = random_in(0, k - 1), hi = random_in(0, k - 1);
    if (D + lo + hi < k)
        return;
    int64_t m = (D + lo + hi - k) / st + 1;
    const char *p = parameter(t, shape2(t, "f32", D, 2), any_tiling(t, 2));
    const char *q = parameter(t, shape2(t, "f32", m, 2), any_tiling(t, 2));
    const char *z = parameter(t, "f32[]", "{replicated}");
    static const char *const selects[] = { "ge", "lt" };
    output(t, shape2(t, "f32", D, 2),
           EXPR("select-and-scatter(%s, %s, %s), window={size=%" PRId64 "x1 stride=%" PRId64
                "x1 pad=%" PRId64 "_%" PRId64 "x0_0}, select=%s, scatter=add",
                p, q, z, k, st, lo, hi, pick(2, selects)),
           tiling(t, 2, (int)random_in(0, 1)));
}

static void add_reverse(struct text *t)
{
    const char *shape = shape2(t, "f32", random_in(1, 20), random_in(1, 4));
    const char *p = parameter(t, shape, any_tiling(t, 2));
    static const char *const dims[] = { "0", "1", "0,1" };
    output(t, shape, EXPR("reverse(%s), dimensions={%s}", p, pick(3, dims)), any_tiling(t, 2));
}

/* A reduce whose init is no identity, of a tiled dimension. */
static void add_reduce(struct text *t)
{
    const char *p = parameter(t, shape2(t, "f32", random_in(1, 20), 5), any_tiling(t, 2));
    const char *z = parameter(t, "f32[]", "{replicated}");
    static const char *const bodies[] = { "add", "max", "odd" };
    output(t, "f32[5]", EXPR("reduce(%s, %s), dimensions={0}, to_apply=%s", p, z, pick(3, bodies)),
           tiling(t, 1, (int)random_in(-1, 0)));
}

/* Starts beyond both ends: clamped as on the whole array. */
static void add_updates(struct text *t)
{
    int64_t D = random_in(2, 20), u = random_in(1, 2);
    const char *p = parameter(t, shape2(t, "f32", D, 4), any_tiling(t, 2));
    const char *q = parameter(t, shape2(t, "f32", u, 4), any_tiling(t, 2));
    const char *i = EXPR("i_%d", t->outputs);
    str_addf(&t->body, "  %s = s32[] constant(%" PRId64 ")\n", i, random_in(-4, D + 4));
    if (random_in(0, 1)) { /* no constant that the handler could see */
        str_addf(&t->body, "  j%s = s32[] add(%s, izero), sharding={replicated}\n", i, i);
        i = EXPR("j%s", i);
    }
    output(t, shape2(t, "f32", D, 4), EXPR("dynamic-update-slice(%s, %s, %s, izero)", p, q, i),
           any_tiling(t, 2));
    output(t, shape2(t, "f32", u, 4),
           EXPR("dynamic-slice(%s, %s, izero), dynamic_slice_sizes={%" PRId64 ",4}", p, i, u),
           any_tiling(t, 2));
}

/* Indices in and out of range; the table tiled any way. */
static void add_gather_scatter(struct text *t)
{
    int64_t D = random_in(2, 20), n = random_in(1, 9), w = random_in(1, 2);
    const char *p = parameter(t, shape2(t, "f32", D, 4), any_tiling(t, 2));
    const char *i = EXPR("k_%d", t->outputs);
    str_addf(&t->body,
             "  a%s = s32[%" PRId64 ",1] iota(), iota_dimension=0, sharding={replicated}\n"
             "  b%s = s32[] constant(%" PRId64 ")\n"
             "  c%s = s32[%" PRId64 ",1] broadcast(b%s), dimensions={}, sharding={replicated}\n"
             "  %s = s32[%" PRId64 ",1] subtract(c%s, a%s), sharding=%s\n",
             i, n, i, random_in(0, D + 3), i, n, i, i, n, i, i, any_tiling(t, 2));
    output(t, EXPR("f32[%" PRId64 ",%" PRId64 ",4]", n, w),
           EXPR("gather(%s, %s), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
                "index_vector_dim=1, slice_sizes={%" PRId64 ",4}",
                p, i, w),
           any_tiling(t, 3));
    const char *u = parameter(t, EXPR("f32[%" PRId64 ",%" PRId64 ",4]", n, w), any_tiling(t, 3));
    static const char *const bodies[] = { "add", "max" };
    output(t, shape2(t, "f32", D, 4),
           EXPR("scatter(%s, %s, %s), update_window_dims={1,2}, inserted_window_dims={}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%s",
                p, i, u, pick(2, bodies)),
           any_tiling(t, 2));
}

static void add_dot(struct text *t)
{
    int64_t b = random_in(1, 5), m = random_in(1, 7), k = random_in(1, 9), n = random_in(1, 7);
    const char *p =
        parameter(t, EXPR("f32[%" PRId64 ",%" PRId64 ",%" PRId64 "]", b, m, k), any_tiling(t, 3));
    const char *q =
        parameter(t, EXPR("f32[%" PRId64 ",%" PRId64 ",%" PRId64 "]", b, n, k), any_tiling(t, 3));
    output(t, EXPR("f32[%" PRId64 ",%" PRId64 ",%" PRId64 "]", b, m, n),
           EXPR("dot(%s, %s), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                "rhs_contracting_dims={2}",
                p, q),
           any_tiling(t, 3));
}

static void add_reshape(struct text *t)
{
    static const struct {
        const char *from, *to;
        int rank_from, rank_to;
    } pairs[] = { { "f32[12,5]", "f32[3,4,5]", 2, 3 }, { "f32[3,4,5]", "f32[12,5]", 3, 2 },
                  { "f32[6,10]", "f32[4,15]", 2, 2 },  { "f32[7,8]", "f32[56]", 2, 1 },
                  { "f32[14,4]", "f32[2,7,4]", 2, 3 }, { "f32[5,4,3]", "f32[20,3]", 3, 2 } };
    int64_t k = random_in(0, (int64_t)COUNTOF(pairs) - 1);
    const char *p = parameter(t, pairs[k].from, any_tiling(t, pairs[k].rank_from));
    output(t, pairs[k].to, EXPR("reshape(%s)", p), any_tiling(t, pairs[k].rank_to));
}

static void (*const kinds[])(struct text *) = {
    add_slice,   add_pad,    add_reduce_window, add_convolution,    add_select_and_scatter,
    add_reverse, add_reduce, add_updates,       add_gather_scatter, add_dot,
    add_reshape,
};

static const char *module_text(struct text *t)
{
    struct str s = STR_IN(&t->arena);
    str_addf(&s, "HloModule m, num_partitions=%" PRId64 "\n\n", t->devices);
    static const char *const bodies[][2] = { { "add", "add(a, b)" }, { "max", "maximum(a, b)" } };
    for (size_t k = 0; k < COUNTOF(bodies); k++)
        str_addf(
            &s,
            "%s {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] %s\n}\n\n",
            bodies[k][0], bodies[k][1]);
    str_adds(&s,
             "odd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  d = f32[] add(a, a)\n"
             "  ROOT c = f32[] add(d, b)\n}\n\n");
    static const char *const compares[][2] = { { "ge", "GE" }, { "lt", "LT" } };
    for (size_t k = 0; k < COUNTOF(compares); k++)
        str_addf(&s,
                 "%s {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                 "  ROOT c = pred[] compare(a, b), direction=%s\n}\n\n",
                 compares[k][0], compares[k][1]);
    str_addf(&s,
             "ENTRY e {\n  zero = f32[] constant(0)\n  izero = s32[] constant(0)\n%s"
             "  ROOT t = (%s) tuple(%s), sharding={%s}\n}\n",
             str_text(&t->body), str_text(&t->shapes), str_text(&t->names),
             str_text(&t->shardings));
    return str_text(&s);
}

/* cmocka cuts long messages. */
static void fail_with(const char *text, const char *why)
{
    (void)fputs(text, stderr);
    fail_msg("%s", why);
}

static void verify_with(const char *text, int64_t seed, const struct partition_options *given)
{
    struct ir *ir = ir_new();
    struct diag *d = diag_new();
    struct module *m = module_load_text(ir, "random", text, strlen(text), NULL, d);
    struct graph *g = m ? graph_prepare(m, false, NULL, d) : NULL;
    struct propagation_options po = { .spmd = true, .none = true };
    struct propagation *p = g ? propagate(g, &po, NULL, d) : NULL;
    struct partition_options o = *given;
    o.num_partitions = m ? m->num_partitions : 1;
    struct program *pr = p ? partition(p, &o, NULL, d) : NULL;
    struct verify_result r;
    memset(&r, 0, sizeof r);
    if (!pr || !verify_program(p, pr, RUN_RING, (uint64_t)seed, 1, &r, NULL, d))
        fail_with(text, d->msgs.n ? d->msgs.v[0].text : "not run");
    if (!r.equal || r.poisoned) {
        (void)fprintf(stderr, "seed %" PRId64 ": %s differs%s\n", seed,
                      r.first.i ? name_text(ir, instr_at(p->graph->module, r.first)->name)
                                : "an output",
                      r.poisoned ? " (padding was read)" : "");
        fail_with(text, "differs");
    }
    verify_result_free(&r);
    program_free(pr);
    propagation_free(p);
    module_free(m);
    diag_free(d);
    ir_free(ir);
}

static void verify_text(const char *text, int64_t seed)
{
    struct partition_options o;
    partition_options_default(&o);
    o.full = seed % 2 == 0;
    if (seed % 3 == 0) { /* products as loops, in each of their forms */
        o.windowed_einsum_mib = 0;
        o.unroll = seed % 4 == 1;
        o.bidirectional = seed % 4 == 2;
    }
    verify_with(text, seed, &o);
}

/* Cases that random ones meet once in ten thousand. */
static const char *const rare[] = {
    /* loops over four devices: gathered free, contracting and batch dims, scattered results */
    "HloModule m, num_partitions=4\n\nENTRY e {\n"
    "  a = f32[10,9] parameter(0), sharding={devices=[4,1]<=[4]}\n"
    "  b = f32[9,7] parameter(1), sharding={devices=[1,4]<=[4]}\n"
    "  c = f32[9,7] parameter(2), sharding={devices=[4,1]<=[4]}\n"
    "  d = f32[10,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  f = f32[10,7] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  g = f32[10,9] parameter(3), sharding={devices=[1,4]<=[4]}\n"
    "  h = f32[10,7] dot(g, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[4,1]<=[4]}\n"
    "  i = f32[10,7] dot(g, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[1,4]<=[4]}\n"
    "  k = f32[5,10,9] parameter(4), sharding={devices=[1,4,1]<=[4]}\n"
    "  l = f32[5,7,9] parameter(5), sharding={devices=[4,1,1]<=[4]}\n"
    "  n = f32[5,10,7] dot(k, l), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    "lhs_contracting_dims={2}, rhs_contracting_dims={2}, sharding={devices=[1,4,1]<=[4]}\n"
    "  ROOT t = (f32[10,7], f32[10,7], f32[10,7], f32[10,7], f32[5,10,7]) tuple(d, f, h, i, n), "
    "sharding={{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}, "
    "{devices=[1,4]<=[4]}, {devices=[1,4,1]<=[4]}}\n}\n",
    /* a sum that is to be cut on a dimension that is tiled inside the groups too */
    "HloModule m, num_partitions=6\n\nENTRY e {\n"
    "  p = f32[5,6,7] parameter(0), sharding={devices=[3,1,2]<=[6]}\n"
    "  q = f32[5,6,7] parameter(1), sharding={devices=[3,1,2]<=[6]}\n"
    "  ROOT v = f32[5,6,6] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    "lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
    "sharding={devices=[2,3,1]<=[3,2]T(1,0)}\n}\n",
    /* the sum is cut, and the cut is summed over the copies of the output */
    "HloModule m, num_partitions=8\n\nENTRY e {\n"
    "  p = f32[16,32] parameter(0), sharding={devices=[1,4,2]<=[8] last_tile_dim_replicate}\n"
    "  q = f32[32,16] parameter(1), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}\n"
    "  ROOT v = f32[16,16] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "sharding={devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n}\n",
    /* partial sums over a spatial dimension of operands in copies */
    "HloModule m, num_partitions=4\n\nENTRY e {\n"
    "  p = f32[2,2,5] parameter(0), sharding={devices=[1,1,2,2]<=[4] last_tile_dim_replicate}\n"
    "  q = f32[1,4,3] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0)}\n"
    "  ROOT v = f32[2,4,7] convolution(p, q), window={size=3 stride=1 pad=2_2 rhs_reversal=1}, "
    "dim_labels=bf0_io0->bf0, feature_group_count=2, "
    "sharding={devices=[1,2,1,2]3,1,0,2 last_tile_dim_replicate}\n}\n",
    /* compact halo with leading padding of different lengths */
    "HloModule m, num_partitions=5\n\nENTRY e {\n"
    "  p = f32[1,2] parameter(0), sharding={devices=[1,5]<=[5]}\n"
    "  z = f32[] parameter(1), sharding={replicated}\n"
    "  ROOT v = f32[9,2] pad(p, z), padding=7_1_0x0_0, sharding={devices=[5,1]<=[5]}\n}\n",
    /* all data cut off at the left, padding of the shards behind it */
    "HloModule m, num_partitions=3\n\nENTRY e {\n"
    "  p = f32[5,2] parameter(0), sharding={devices=[3,1]<=[3]}\n"
    "  z = f32[] parameter(1), sharding={replicated}\n"
    "  ROOT v = f32[2,2] pad(p, z), padding=-5_2_0x0_0, sharding={devices=[3,1]<=[3]}\n}\n",
};

static void rare_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rare); i++)
        for (int form = 0; form < 4; form++) {
            struct partition_options o;
            partition_options_default(&o);
            o.windowed_einsum_mib = form == 0 ? 100000 : 0;
            o.unroll = form == 2;
            o.bidirectional = form == 3;
            verify_with(rare[i], (int64_t)i, &o);
        }
}

static void random_operations(void **state)
{
    (void)state;
    for (int64_t seed = 1; seed <= 1500; seed++) {
        struct text t = { .devices = 2 + seed % 5 };
        seed_now = (uint64_t)seed * 7919;
        t.body = STR_IN(&t.arena);
        t.names = STR_IN(&t.arena);
        t.shapes = STR_IN(&t.arena);
        t.shardings = STR_IN(&t.arena);
        while (t.outputs < 5)
            kinds[random_in(0, (int64_t)COUNTOF(kinds) - 1)](&t);
        verify_text(module_text(&t), seed);
        arena_free(&t.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rare_cases),
                                        cmocka_unit_test(random_operations) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
