/* The proof as a table: each operation under random strategies on 2, 3, 4, 6, 8 and 12 devices, with
 * sizes that divide and sizes that do not, and which collectives its partitioned programs had.
 *
 *     verify_table [-s SEED] [-t TRIES]
 *
 * A cell counts programs that agree with the unpartitioned one in ring mode. Every operation must
 * have some with collectives for every number of devices, even and uneven, and every kind of
 * collective that the partitioner makes must have been met. Ends with "N passed, N failed".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "session/session.h"

static const int64_t device_counts[] = { 2, 3, 4, 6, 8, 12 };
enum { COUNTS = COUNTOF(device_counts), KINDS = 5 };
static const enum op_kind kinds[KINDS] = { OP_ALL_GATHER, OP_ALL_REDUCE,         OP_REDUCE_SCATTER,
                                           OP_ALL_TO_ALL, OP_COLLECTIVE_PERMUTE };
static const char *const heads[KINDS] = { "gather", "reduce", "scatter", "all2all", "permute" };

/* $A and $B: 24 and 48, or 13 and 31; $C: $A + 3, $D: $A - 2, $E: 2 $A, $P: $A times $B. */
static const struct {
    const char *name, *comps, *body;
} ops[] = {
    { "add", "", "x = f32[$A,$B] parameter(0)\n y = f32[$A,$B] parameter(1)\n ROOT r = f32[$A,$B] add(x, y)" },
    { "divide", "", "x = f32[$A,$B] parameter(0)\n y = f32[$A,$B] parameter(1)\n ROOT r = f32[$A,$B] divide(x, y)" },
    { "exponential", "", "x = bf16[$A,$B] parameter(0)\n ROOT r = bf16[$A,$B] exponential(x)" },
    { "compare", "", "x = s32[$A,$B] parameter(0)\n y = s32[$A,$B] parameter(1)\n ROOT r = pred[$A,$B] compare(x, y), direction=LT" },
    { "convert", "", "x = s16[$A,$B] parameter(0)\n ROOT r = f32[$A,$B] convert(x)" },
    { "select", "", "p = pred[$A,$B] parameter(0)\n x = f32[$A,$B] parameter(1)\n y = f32[$A,$B] parameter(2)\n ROOT r = f32[$A,$B] select(p, x, y)" },
    { "clamp", "", "l = f32[$A,$B] parameter(0)\n x = f32[$A,$B] parameter(1)\n h = f32[$A,$B] parameter(2)\n ROOT r = f32[$A,$B] clamp(l, x, h)" },
    { "complex", "", "x = f32[$A,$B] parameter(0)\n y = f32[$A,$B] parameter(1)\n c = c64[$A,$B] complex(x, y)\n ROOT r = c64[$A,$B] multiply(c, c)" },
    { "map", "m { a = f32[] parameter(0)\n ROOT b = f32[] add(a, a) }\n", "x = f32[$A,$B] parameter(0)\n ROOT r = f32[$A,$B] map(x), dimensions={0,1}, to_apply=m" },
    { "broadcast", "", "x = f32[$B] parameter(0)\n y = f32[$A,$B] broadcast(x), dimensions={1}\n z = f32[$A,$B] parameter(1)\n ROOT r = f32[$A,$B] subtract(y, z)" },
    { "iota", "", "x = s32[$A,$B] parameter(0)\n i = s32[$A,$B] iota(), iota_dimension=1\n ROOT r = s32[$A,$B] add(x, i)" },
    { "reshape", "", "x = f32[$A,$B] parameter(0)\n ROOT r = f32[$P] reshape(x)" },
    { "reshape-split", "", "x = f32[$E,$B] parameter(0)\n ROOT r = f32[$A,2,$B] reshape(x)" },
    { "transpose", "", "x = f32[$A,$B] parameter(0)\n ROOT r = f32[$B,$A] transpose(x), dimensions={1,0}" },
    { "reverse", "", "x = f32[$A,$B] parameter(0)\n ROOT r = f32[$A,$B] reverse(x), dimensions={0}" },
    { "concatenate", "", "x = f32[$A,$B] parameter(0)\n y = f32[$A,$B] parameter(1)\n ROOT r = f32[$E,$B] concatenate(x, y), dimensions={0}" },
    { "pad", "", "x = f32[$A,$B] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[$C,$B] pad(x, z), padding=1_2x0_0" },
    { "slice", "", "x = f32[$A,$B] parameter(0)\n ROOT r = f32[$D,$B] slice(x), slice={[1:$Z],[0:$B]}" },
    { "dynamic-slice", "", "x = f32[$A,$B] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n ROOT r = f32[$D,$B] dynamic-slice(x, i, z), dynamic_slice_sizes={$D,$B}" },
    { "dynamic-update-slice", "", "x = f32[$A,$B] parameter(0)\n u = f32[$D,$B] parameter(1)\n i = s32[] parameter(2)\n z = s32[] constant(0)\n ROOT r = f32[$A,$B] dynamic-update-slice(x, u, i, z)" },
    { "gather", "", "x = f32[$A,$B] parameter(0)\n i = s32[$A] parameter(1)\n ROOT r = f32[$A,$B] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,$B}" },
    { "scatter", "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n",
      "x = f32[$A,$B] parameter(0)\n i = s32[$A] parameter(1)\n u = f32[$A,$B] parameter(2)\n ROOT r = f32[$A,$B] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=s" },
    { "dot", "", "x = f32[$A,$B] parameter(0)\n y = f32[$B,$A] parameter(1)\n ROOT r = f32[$A,$A] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}" },
    { "dot-batch", "", "x = f32[$A,4,$B] parameter(0)\n y = f32[$A,$B,5] parameter(1)\n ROOT r = f32[$A,4,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}" },
    { "dot-s8", "", "x = s8[$A,$B] parameter(0)\n y = s8[$B,$A] parameter(1)\n ROOT r = s32[$A,$A] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}" },
    { "convolution", "", "x = f32[4,$A,3] parameter(0)\n k = f32[3,3,$B] parameter(1)\n ROOT r = f32[4,$A,$B] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f" },
    { "reduce", "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n", "x = f32[$A,$B] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[$A] reduce(x, z), dimensions={1}, to_apply=s" },
    { "reduce-max", "s { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] maximum(a, b) }\n", "x = s32[$A,$B] parameter(0)\n z = s32[] constant(-2147483648)\n ROOT r = s32[$B] reduce(x, z), dimensions={0}, to_apply=s" },
    { "reduce-two", "s { a = s32[] parameter(0)\n i = s32[] parameter(1)\n b = s32[] parameter(2)\n j = s32[] parameter(3)\n p = pred[] compare(a, b), direction=GE\n c = s32[] select(p, a, b)\n e = pred[] compare(a, b), direction=EQ\n m = s32[] minimum(i, j)\n g = s32[] select(p, i, j)\n k = s32[] select(e, m, g)\n ROOT t = (s32[], s32[]) tuple(c, k) }\n",
      "x = s32[$A,$B] parameter(0)\n i = s32[$A,$B] iota(), iota_dimension=1\n z = s32[] constant(-2147483648)\n n = s32[] constant(0)\n t = (s32[$A], s32[$A]) reduce(x, i, z, n), dimensions={1}, to_apply=s\n ROOT r = s32[$A] get-tuple-element(t), index=1" },
    { "reduce-window", "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n", "x = f32[$A,$B] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[$A,$B] reduce-window(x, z), window={size=3x1 pad=1_1x0_0}, to_apply=s" },
    { "select-and-scatter", "g { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE }\ns { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n",
      "x = s32[$E,$B] parameter(0)\n y = s32[$A,$B] parameter(1)\n z = s32[] constant(0)\n ROOT r = s32[$E,$B] select-and-scatter(x, y, z), window={size=2x1 stride=2x1}, select=g, scatter=s" },
    { "sort", "l { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT }\n", "x = s32[$A,$B] parameter(0)\n ROOT r = s32[$A,$B] sort(x), dimensions={1}, to_apply=l, is_stable=true" },
    { "topk", "", "x = f32[$A,$B] parameter(0)\n t = (f32[$A,3], s32[$A,3]) topk(x), k=3, largest=true\n ROOT r = f32[$A,3] get-tuple-element(t), index=0" },
    { "cholesky", "", "x = f32[$A,4,4] parameter(0)\n ROOT r = f32[$A,4,4] cholesky(x), lower=true" },
    { "triangular-solve", "", "x = f32[$A,4,4] parameter(0)\n b = f32[$A,4,$B] parameter(1)\n ROOT r = f32[$A,4,$B] triangular-solve(x, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE" },
    { "fft", "", "x = c64[$A,$B] parameter(0)\n ROOT r = c64[$A,$B] fft(x), fft_type=FFT, fft_length={$B}" },
    { "batch-norm-training", "", "x = f32[$A,$B] parameter(0)\n s = f32[$B] parameter(1)\n o = f32[$B] parameter(2)\n t = (f32[$A,$B], f32[$B], f32[$B]) batch-norm-training(x, s, o), epsilon=0.1, feature_index=1\n ROOT r = f32[$A,$B] get-tuple-element(t), index=0" },
    { "lapack potrf", "", "x = f32[$A,4,4] parameter(0)\n t = (f32[$A,4,4], s32[$A]) custom-call(x), custom_call_target=\"lapack_spotrf_ffi\", backend_config={uplo = 76 : ui8}\n ROOT r = f32[$A,4,4] get-tuple-element(t), index=0" },
    { "rng-bit-generator", "", "k = u64[2] parameter(0)\n x = u32[$A,$B] parameter(1)\n t = (u64[2], u32[$A,$B]) rng-bit-generator(k), algorithm=rng_default\n b = u32[$A,$B] get-tuple-element(t), index=1\n ROOT r = u32[$A,$B] add(b, x)" },
    { "while", "b { t = (s32[], f32[$A,$B]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = f32[$A,$B] get-tuple-element(t), index=1\n o = s32[] constant(1)\n j = s32[] add(i, o)\n y = f32[$A,$B] reverse(x), dimensions={1}\n z = f32[$A,$B] add(x, y)\n ROOT u = (s32[], f32[$A,$B]) tuple(j, z) }\nc { t = (s32[], f32[$A,$B]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(3)\n ROOT p = pred[] compare(i, n), direction=LT }\n",
      "x = f32[$A,$B] parameter(0)\n z = s32[] constant(0)\n t = (s32[], f32[$A,$B]) tuple(z, x)\n w = (s32[], f32[$A,$B]) while(t), condition=c, body=b\n ROOT r = f32[$A,$B] get-tuple-element(w), index=1" },
    { "conditional", "f { x = f32[$A,$B] parameter(0)\n ROOT y = f32[$A,$B] negate(x) }\ng { x = f32[$A,$B] parameter(0)\n ROOT y = f32[$A,$B] reverse(x), dimensions={0} }\n",
      "p = pred[] parameter(0)\n x = f32[$A,$B] parameter(1)\n ROOT r = f32[$A,$B] conditional(p, x, x), true_computation=f, false_computation=g" },
    { "call", "f { x = f32[$A,$B] parameter(0)\n ROOT y = f32[$A,$B] sine(x) }\n", "x = f32[$A,$B] parameter(0)\n y = f32[$A,$B] call(x), to_apply=f\n ROOT r = f32[$A,$B] add(y, x)" },
};

static uint64_t rng_state;

static uint64_t draw(void)
{
    rng_state += 0x9e3779b97f4a7c15ULL;
    return hash_u64(rng_state);
}

static void fill(struct str *s, const char *text, bool uneven)
{
    const long a = uneven ? 13 : 24, b = uneven ? 31 : 48;
    for (; *text; text++) {
        if (*text != '$') {
            str_addc(s, *text);
            continue;
        }
        text++;
        long v = *text == 'A'   ? a
                 : *text == 'B' ? b
                 : *text == 'C' ? a + 3
                 : *text == 'D' ? a - 2
                 : *text == 'Z' ? a - 1
                 : *text == 'E' ? 2 * a
                                : a * b;
        str_addf(s, "%ld", v);
    }
}

struct tally {
    int64_t kind[KINDS][2], with[COUNTS][2], plain, tried;
};

static int failed_cells, passed_cells;

static bool random_sharding(struct document *doc, const struct mesh *m, const struct shape *s, sharding_id *out)
{
    struct arena a = { 0 };
    struct str spec = STR_IN(&a);
    int at[2] = { -1, -1 };
    for (int k = 0; k < m->naxes; k++)
        if (draw() % 4 && s->rank)
            at[k] = (int)(draw() % (unsigned)s->rank);
    if (at[0] < 0 && at[1] < 0)
        return false;
    str_addc(&spec, '[');
    for (int d = 0; d < s->rank; d++)
        str_addf(&spec, "%s%s", d ? "," : "",
                 at[0] == d && at[1] == d ? "(a,b)" : at[0] == d ? "a" : at[1] == d ? "b" : "_");
    str_addc(&spec, ']');
    struct source src = { "spec", str_text(&spec), spec.n };
    struct axes_spec axes;
    size_t used;
    struct diag *d = diag_new();
    bool ok = sharding_spec_parse(document_ir(doc)->shardings, m, 1, s->rank, &src, 0, src.text, src.len, &used,
                                  out, &axes, d);
    diag_free(d);
    arena_free(&a);
    return ok;
}

static void annotate_one(struct document *doc, const struct mesh *m, instr_id i, struct diag *d)
{
    struct annotation a = { .kind = ANNOTATE_SHARD, .target = i, .leaf = -1 };
    const struct shape *s = instr_shape(document_module(doc), i);
    if (s->kind == SHAPE_ARRAY && random_sharding(doc, m, s, &a.sharding))
        (void)!edit_annotate(doc, 1, &a, NULL, "shard", d);
}

/* One random strategy: random shardings of the parameters and of the root. */
static void once(struct document *doc, const char *name, int count, int uneven, struct tally *t)
{
    struct diag *d = diag_new();
    int64_t n = device_counts[count], minor = n % 2 == 0 && n > 2 && draw() % 2 ? 2 : 1;
    struct mesh m = { .name = "", .naxes = minor > 1 ? 2 : 1, .axes = { { "a", n / minor }, { "b", minor } } };
    const struct module *mod = document_module(doc);
    const struct computation *e = comp_at(mod, mod->entry);
    const struct strategy *start = document_strategy(doc);
    struct verify_result r = { 0 };
    m.order = order_iota(document_ir(doc)->shardings, n);
    bool ok = edit_mesh(doc, &m, "mesh", d);
    for (uint32_t k = 0; ok && k < e->nparams; k++)
        annotate_one(doc, &m, e->params[k], d);
    if (ok && draw() % 4)
        annotate_one(doc, &m, e->root, d);
    const struct propagation *p = ok ? document_propagation(doc, NULL, d) : NULL;
    const struct program *g = p ? document_program(doc, NULL, d) : NULL;
    const struct collective *list;
    int64_t ncoll = 0, total;
    ok = g && verify_program(p, g, RUN_RING, draw() | 1, 0, &r, NULL, d);
    t->tried++;
    if (!ok || !r.equal) {
        failed_cells++;
        printf("FAIL %s on %d devices, %s: %s\n", name, (int)n, uneven ? "uneven" : "even",
               ok ? "not equal" : d->msgs.n ? d->msgs.v[0].text : "?");
    } else if (document_collectives(doc, &list, &ncoll, &total, NULL, d)) {
        for (int64_t k = 0; k < ncoll; k++)
            for (int q = 0; q < KINDS; q++)
                t->kind[q][uneven] += list[k].kind == kinds[q];
        t->with[count][uneven] += ncoll > 0;
        t->plain += ncoll == 0;
    }
    if (ok)
        verify_result_free(&r);
    while (document_strategy(doc) != start && edit_undo(doc, d))
        ;
    diag_free(d);
}

static void row(size_t k, int tries, struct tally *all)
{
    struct tally t = { 0 };
    for (int uneven = 0; uneven < 2; uneven++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        struct document *doc = document_new();
        struct diag *d = diag_new();
        fill(&s, "HloModule m\n", false);
        fill(&s, ops[k].comps, uneven);
        str_adds(&s, "ENTRY e {\n");
        fill(&s, ops[k].body, uneven);
        str_adds(&s, "\n}\n");
        if (!document_load_text(doc, ops[k].name, str_text(&s), s.n, NULL, d)) {
            printf("FAIL %s: %s\n", ops[k].name, d->msgs.n ? d->msgs.v[0].text : "cannot be read");
            failed_cells++;
        } else {
            for (int c = 0; c < COUNTS; c++)
                for (int j = 0; j < tries || (!t.with[c][uneven] && j < 40 * tries); j++)
                    once(doc, ops[k].name, c, uneven, &t);
        }
        diag_free(d);
        document_free(doc);
        arena_free(&a);
    }
    printf("%-22s", ops[k].name);
    for (int q = 0; q < KINDS; q++) {
        printf(" %5" PRId64 "/%-5" PRId64, t.kind[q][0], t.kind[q][1]);
        for (int u = 0; u < 2; u++)
            all->kind[q][u] += t.kind[q][u];
    }
    for (int c = 0; c < COUNTS; c++) {
        printf(" %3" PRId64 "/%-3" PRId64, t.with[c][0], t.with[c][1]);
        for (int u = 0; u < 2; u++) {
            passed_cells += t.with[c][u] > 0;
            if (!t.with[c][u]) {
                failed_cells++;
                printf("  EMPTY");
            }
        }
    }
    printf("\n");
    fflush(stdout);
    all->tried += t.tried;
    all->plain += t.plain;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int tries = 6;
    for (int k = 1; k + 1 < argc; k += 2) {
        if (strcmp(argv[k], "-s") == 0)
            seed = strtoull(argv[k + 1], NULL, 10);
        else if (strcmp(argv[k], "-t") == 0)
            tries = atoi(argv[k + 1]);
    }
    printf("programs that agree (ring mode), even/uneven sizes: collectives by kind, then programs with any\n"
           "by number of devices\n%-22s", "operation");
    for (int q = 0; q < KINDS; q++)
        printf(" %11s", heads[q]);
    for (int c = 0; c < COUNTS; c++)
        printf(" %7" PRId64, device_counts[c]);
    printf("\n");
    struct tally all = { 0 };
    for (size_t k = 0; k < COUNTOF(ops); k++) {
        rng_state = seed ^ hash_bytes(ops[k].name, strlen(ops[k].name), 3);
        row(k, tries, &all);
    }
    for (int q = 0; q < KINDS; q++)
        for (int u = 0; u < 2; u++) {
            if (kinds[q] == OP_REDUCE_SCATTER && u) /* only made where the size divides */
                continue;
            passed_cells += all.kind[q][u] > 0;
            if (!all.kind[q][u]) {
                failed_cells++;
                printf("FAIL no %s with %s sizes\n", heads[q], u ? "uneven" : "even");
            }
        }
    printf("%" PRId64 " strategies of %d operations, %" PRId64 " of them without collectives\n", all.tried,
           (int)COUNTOF(ops), all.plain);
    printf("%d passed, %d failed\n", passed_cells, failed_cells);
    return failed_cells ? 1 : 0;
}
