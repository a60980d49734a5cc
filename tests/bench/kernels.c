/* Kernels beside what the machine can do: elementwise operations and collectives beside memcpy, products
 * beside one sgemm of equal shape. All in one process, by processor time; each figure is the best of five.
 *
 *     bench_kernels
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulate/internal.h"
#include "text/text.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* of all threads: other load does not count */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one run of a text; inputs are made before. */
static double run_once(const char *text, int64_t ndevices, int threads)
{
    struct ir *ir = ir_new();
    struct diag *d = diag_new();
    struct module *m = module_load_text(ir, "bench", text, strlen(text), NULL, d);
    if (!m) {
        printf("%s\n%s\n", text, d->msgs.v[0].text);
        exit(1);
    }
    const struct computation *e = comp_at(m, m->entry);
    struct tensor *in = calloc((size_t)(e->nparams * ndevices) + 1, sizeof *in);
    bool ok = true;
    for (int64_t k = 0; k < e->nparams * ndevices; k++) {
        const struct shape *s = instr_shape(m, e->params[k % e->nparams]);
        ok &= tensor_generate(s->dtype, s->rank, s->dims, k % e->nparams, 0, &in[k], d);
    }
    struct run_options o = { .ndevices = ndevices, .threads = threads };
    struct run_result r;
    double start = now();
    ok = ok && run_module(m, in, e->nparams, &o, &r, NULL, d);
    double spent = now() - start;
    if (!ok) {
        printf("%s\n", d->msgs.v[0].text);
        exit(1);
    }
    run_result_free(&r);
    for (int64_t k = 0; k < e->nparams * ndevices; k++)
        tensor_free(&in[k]);
    free(in);
    module_free(m);
    diag_free(d);
    ir_free(ir);
    return spent;
}

/* Seconds of one turn of a loop whose body is `op` over x of shape `shape`, y and z beside it. */
static double per_turn(const char *comps, const char *shape, const char *op, int64_t ndevices, int threads)
{
    double best[2] = { 1e9, 1e9 };
    const int turns[2] = { 2, 12 };
    for (int round = 0; round < 5; round++)
        for (int k = 0; k < 2; k++) {
            struct arena a = { 0 };
            struct str s = STR_IN(&a);
            str_addf(&s,
                     "HloModule m, num_partitions=%" PRId64 "\n%s"
                     "b { t = (s32[], %s, %s) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = %s "
                     "get-tuple-element(t), index=1\n y = %s get-tuple-element(t), index=2\n one = s32[] constant(1)\n"
                     " j = s32[] add(i, one)\n %s\n ROOT o = (s32[], %s, %s) tuple(j, r, y) }\n"
                     "c { t = (s32[], %s, %s) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] "
                     "constant(%d)\n ROOT p = pred[] compare(i, n), direction=LT }\n"
                     "ENTRY e { x = %s parameter(0)\n y = %s parameter(1)\n z = s32[] constant(0)\n"
                     " t = (s32[], %s, %s) tuple(z, x, y)\n w = (s32[], %s, %s) while(t), condition=c, body=b\n"
                     " ROOT r = %s get-tuple-element(w), index=1 }\n",
                     ndevices, comps, shape, shape, shape, shape, op, shape, shape, shape, shape, turns[k], shape, shape,
                     shape, shape, shape, shape, shape);
            double t = run_once(str_text(&s), ndevices, threads);
            best[k] = t < best[k] ? t : best[k];
            arena_free(&a);
        }
    return (best[1] - best[0]) / (turns[1] - turns[0]);
}

static double copy_bandwidth(int64_t bytes)
{
    char *a = malloc((size_t)bytes), *b = malloc((size_t)bytes);
    double best = 1e9;
    memset(a, 1, (size_t)bytes);
    memset(b, 2, (size_t)bytes);
    for (int k = 0; k < 10; k++) {
        double start = now();
        memcpy(k % 2 ? a : b, k % 2 ? b : a, (size_t)bytes);
        double t = now() - start;
        best = t < best ? t : best;
    }
    free(a);
    free(b);
    return 2 * (double)bytes / best;
}

static void bandwidth(const char *name, double bytes, double seconds, double memory)
{
    printf("  %-34s %6.2f GB/s  %4.0f %% of memcpy\n", name, bytes / seconds * 1e-9, 100 * bytes / seconds / memory);
}

static double sgemm(int64_t m, int64_t n, int64_t k)
{
    float *a = calloc((size_t)(m * k), 4), *b = calloc((size_t)(k * n), 4), *c = calloc((size_t)(m * n), 4);
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        double start = now();
        matmul(CT_F32, a, false, b, false, c, m, n, k);
        double t = now() - start;
        best = t < best ? t : best;
    }
    free(a);
    free(b);
    free(c);
    return best;
}

static void product(const char *name, const char *shape, const char *op, double flops, double one)
{
    double t = per_turn("", shape, op, 1, 1);
    printf("  %-34s %6.2f Gflop/s  %4.0f %% of sgemm\n", name, flops / t * 1e-9, 100 * one / t);
}

int main(void)
{
    static const char add[] = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n";
    const double n = 1 << 22, bytes = 4 * n;
    double memory = copy_bandwidth(4 << 22);
    printf("memcpy of 16 MiB: %.2f GB/s read and written; one worker:\n", memory * 1e-9);
    bandwidth("add f32 (2 in, 1 out)", 3 * bytes, per_turn("", "f32[4194304]", "r = f32[4194304] add(x, y)", 1, 1), memory);
    bandwidth("negate f32", 2 * bytes, per_turn("", "f32[4194304]", "r = f32[4194304] negate(x)", 1, 1), memory);
    bandwidth("maximum s32", 3 * bytes, per_turn("", "s32[4194304]", "r = s32[4194304] maximum(x, y)", 1, 1), memory);
    bandwidth("multiply bf16", 1.5 * bytes, per_turn("", "bf16[4194304]", "r = bf16[4194304] multiply(x, y)", 1, 1), memory);
    bandwidth("exponential f32", 2 * bytes, per_turn("", "f32[4194304]", "r = f32[4194304] exponential(y)", 1, 1), memory);
    bandwidth("tanh f32", 2 * bytes, per_turn("", "f32[4194304]", "r = f32[4194304] tanh(x)", 1, 1), memory);
    bandwidth("transpose f32[2048,2048]", 2 * bytes,
              per_turn("", "f32[2048,2048]", "r = f32[2048,2048] transpose(x), dimensions={1,0}", 1, 1), memory);
    bandwidth("transpose f32[2000,2000]", 2 * 16e6,
              per_turn("", "f32[2000,2000]", "r = f32[2000,2000] transpose(x), dimensions={1,0}", 1, 1), memory);
    bandwidth("sums of rows f32[2048,2048], spread", 2 * bytes,
              per_turn(add, "f32[2048,2048]",
                       "k = f32[] constant(0)\n s = f32[2048] reduce(x, k), dimensions={1}, to_apply=add\n"
                       " r = f32[2048,2048] broadcast(s), dimensions={0}",
                       1, 1),
              memory);
    bandwidth("chain of 8 f32 (2 in, 1 out)", 3 * bytes,
              per_turn("", "f32[4194304]",
                       "k = f32[] constant(0.5)\n h = f32[4194304] broadcast(k), dimensions={}\n"
                       " a = f32[4194304] multiply(x, h)\n b = f32[4194304] add(a, y)\n c = f32[4194304] maximum(b, h)\n"
                       " e = f32[4194304] multiply(c, c)\n f = f32[4194304] subtract(e, x)\n g = f32[4194304] abs(f)\n"
                       " l = f32[4194304] minimum(g, y)\n r = f32[4194304] add(l, a)",
                       1, 1),
              memory);
    bandwidth("chain of 8 bf16 (2 in, 1 out)", 1.5 * bytes,
              per_turn("", "bf16[4194304]",
                       "k = bf16[] constant(0.5)\n h = bf16[4194304] broadcast(k), dimensions={}\n"
                       " a = bf16[4194304] multiply(x, h)\n b = bf16[4194304] add(a, y)\n c = bf16[4194304] maximum(b, h)\n"
                       " e = bf16[4194304] multiply(c, c)\n f = bf16[4194304] subtract(e, x)\n g = bf16[4194304] abs(f)\n"
                       " l = bf16[4194304] minimum(g, y)\n r = bf16[4194304] add(l, a)",
                       1, 1),
              memory);
    printf("collectives on 8 devices, 2 MiB each, bytes that must be read and written once, two workers:\n");
    bandwidth("all-reduce", 9 * bytes / 8,
              per_turn(add, "f32[524288]",
                       "r = f32[524288] all-reduce(x), channel_id=1, to_apply=add, replica_groups={{0,1,2,3,4,5,6,7}}, "
                       "use_global_device_ids=true",
                       8, 2),
              memory);
    bandwidth("all-to-all", 16 * bytes / 8,
              per_turn("", "f32[524288]",
                       "r = f32[524288] all-to-all(x), channel_id=1, dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}", 8, 2),
              memory);
    bandwidth("all-gather and slice", 4 * bytes,
              per_turn("", "f32[524288]",
                       "g = f32[4194304] all-gather(x), channel_id=1, dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}, "
                       "use_global_device_ids=true\n r = f32[524288] slice(g), slice={[5:524293]}",
                       8, 2),
              memory);
    double one = sgemm(512, 512, 512), flops = 2.0 * 512 * 512 * 512, small = 16 * sgemm(128, 128, 128);
    printf("products beside sgemm of the same shape: %.2f Gflop/s\n", flops / one * 1e-9);
    product("f32[512,512] f32[512,512]", "f32[512,512]",
            "r = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", flops, one);
    product("both transposed", "f32[512,512]",
            "r = f32[512,512] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}", flops, one);
    product("bf16", "bf16[512,512]",
            "r = bf16[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", flops, one);
    product("s8, and back to s8", "s8[512,512]",
            "d = s32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n r = s8[512,512] convert(d)",
            flops, one);
    product("16 of [128,128], batched", "f32[16,128,128]",
            "r = f32[16,128,128] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={1}",
            16 * 2.0 * 128 * 128 * 128, small);
    double conv = sgemm(64 * 32, 64, 9 * 64);
    product("convolution 3x3, 64 to 64 features", "f32[2,32,32,64]",
            "k1 = f32[3,3,64,64] iota(), iota_dimension=2\n"
            " r = f32[2,32,32,64] convolution(x, k1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
            2.0 * 64 * 32 * 64 * 9 * 64, conv);
    return 0;
}
