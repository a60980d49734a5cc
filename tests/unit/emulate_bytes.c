/* Where two ways of partitioning an operation are right, the one taken is that which sends less: the
 * bytes of one device, the right result over the integer ring with padding poisoned, and what keeps
 * other compilers from wrong foldings of a program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "emulate/emulate.h"
#include "text/text.h"

#define ADD_F32                                                                                  \
    "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"

struct row {
    const char *what;
    int64_t bytes;
    const char *text;
};

static const struct row rows[] = {
    /* S-201 forbids groups of the lhs as it is, not only as it would be: the kernel is cut instead */
    { "batch groups, lhs tiled on batch", 2304,
      "HloModule m, num_partitions=2\nENTRY e {\n"
      "  l = f32[1,6,12,8] parameter(0), sharding={devices=[1,1,1,2]<=[2]}\n"
      "  r = f32[1,8,4,4] parameter(1), sharding={replicated}\n"
      "  c = f32[11,4,2,8] convolution(l, r), window={size=4x4 stride=2x1 pad=0_1x1_1}, "
      "dim_labels=f01b_io10->1b0f, batch_group_count=2, sharding={devices=[2,1,1,1]<=[2]}\n"
      "  ROOT o = (f32[11,4,2,8]) tuple(c), sharding={{replicated}}\n}\n" },
    { "batch groups, lhs tiled on batch and feature", 352,
      "HloModule m, num_partitions=4\nENTRY e {\n"
      "  l = f32[2,2,8,8] parameter(0), sharding={devices=[2,2,1,1]<=[4]}\n"
      "  r = f32[2,3,2,4] parameter(1)\n"
      "  c = f32[3,1,2,4] convolution(l, r), window={size=3x4 stride=2x1 pad=0_2x1_1 rhs_dilate=2x2 "
      "rhs_reversal=1x0}, dim_labels=bf01_i0o1->0bf1, batch_group_count=2\n"
      "  ROOT o = (f32[3,1,2,4]) tuple(c)\n}\n" },
    /* S-171 infers operands with groups too, where no group is split */
    { "feature groups without spatial dims", 288,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  l = f32[4,4,16] parameter(0), sharding={devices=[1,4,2]<=[8]}\n"
      "  r = f32[4,16,4] parameter(1)\n"
      "  c = f32[1,4,16] convolution(l, r), window={size=4 stride=3 pad=0_0}, "
      "dim_labels=0bf_0oi->0bf, feature_group_count=4\n"
      "  s = f32[1,1,16] slice(c), slice={[0:1:2],[3:4:1],[0:16:1]}\n"
      "  ROOT o = (f32[1,1,16]) tuple(s)\n}\n" },
    { "batch groups, the output tiled on features", 64,
      "HloModule m, num_partitions=4\nENTRY e {\n"
      "  l = f32[2,4,4] parameter(0)\n"
      "  r = f32[4,4,1] parameter(1), sharding={devices=[4,1,1]<=[4]}\n"
      "  c = f32[1,4,4] convolution(l, r), window={size=1 stride=1 pad=0_0}, "
      "dim_labels=bf0_oi0->bf0, batch_group_count=2, sharding={devices=[1,2,2]<=[4]}\n"
      "  ROOT o = (f32[1,4,4]) tuple(c)\n}\n" },
    /* with spatial dims everything is whole, and so is the result wherever it is wanted whole */
    { "batch groups, whole operands and a whole result", 0,
      "HloModule m, num_partitions=4\nENTRY e {\n"
      "  l = f32[4,12,4] parameter(0)\n"
      "  r = f32[4,2,4] parameter(1)\n"
      "  c = f32[2,2,2] convolution(l, r), window={size=4 stride=3 pad=0_0 rhs_dilate=2}, "
      "dim_labels=b0f_io0->bf0, batch_group_count=2, sharding={devices=[2,2,1]<=[4]}\n"
      "  ROOT o = (f32[2,2,2]) tuple(c)\n}\n" },
    /* S-212: indices in copies stand in the order of the output's tiles */
    { "gather, output tiled against the copies of the indices", 16,
      "HloModule m, num_partitions=4\nENTRY e {\n"
      "  x = f32[5] parameter(0), sharding={replicated}\n"
      "  i = s32[4] parameter(1), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}\n"
      "  ROOT g = f32[4,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={3}, "
      "sharding={devices=[1,2,2]0,3,2,1 last_tile_dim_replicate}\n}\n" },
    /* S-178, 2: X is laid out as inference wishes; S-179, 4 and 5 count its tiles as they were before */
    { "dot of a maximal operand", 504 + 128 + 128 + 256,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  l = f32[2,12,3] parameter(0), sharding={maximal device=3}\n"
      "  r = f32[2,16,2,3] parameter(1), sharding={devices=[2,1,2,2]<=[8]}\n"
      "  ROOT d = f32[2,12,2,16] dot(l, r), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
      "rhs_batch_dims={2}, rhs_contracting_dims={3}, "
      "sharding={devices=[1,2,2,1,2]<=[8] last_tile_dim_replicate}\n}\n" },
    { "dot of a maximal operand, grouped on copies", 224 + 48,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  l = f32[2,5,8,1] parameter(0), sharding={devices=[1,2,2,1,2]<=[8] last_tile_dim_replicate}\n"
      "  r = f32[1,8,2,2] parameter(1), sharding={maximal device=2}\n"
      "  ROOT d = f32[1,2,5,2] dot(l, r), lhs_batch_dims={3,0}, lhs_contracting_dims={2}, "
      "rhs_batch_dims={0,2}, rhs_contracting_dims={1}, "
      "sharding={devices=[1,1,2,1,4]<=[8] last_tile_dim_replicate}\n}\n" },
    /* S-212: the indices go where the output's tiles are, not the output to them */
    { "gather, indices and output in other orders of devices", 96 + 192 + 384 + 8 + 8,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  x = bf16[16,4,6] parameter(0), sharding={devices=[2,2,2]5,1,3,2,4,0,6,7}\n"
      "  i = s32[8,2] parameter(1), sharding={devices=[4,2]<=[2,2,2]T(2,1,0)}\n"
      "  ROOT g = bf16[15,8,2,6] gather(x, i), offset_dims={0,2,3}, collapsed_slice_dims={}, "
      "start_index_map={1,0}, index_vector_dim=1, slice_sizes={15,2,6}, "
      "sharding={devices=[1,4,1,2]4,0,6,2,5,1,3,7}\n}\n" },
    /* what negative padding cuts off is not moved */
    { "pad that leaves nothing of its operand", 0,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  x = f32[2,2,1] parameter(0), sharding={devices=[2,1,4]<=[8]}\n"
      "  z = f32[] parameter(1)\n"
      "  ROOT p = f32[2,3,1] pad(x, z), padding=2_-4_2x0_0_1x0_0_0, "
      "sharding={devices=[2,2,2]<=[2,2,2]T(1,2,0)}\n}\n" },
    /* S-199 counts all windows though the sum over the groups is cut on them: no halo then, S-201 */
    { "convolution, the sum over its features cut on a spatial dim", 52,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  l = f32[4,2,6] parameter(0), sharding={devices=[1,2,4]<=[8]}\n"
      "  r = f32[2,1,4] parameter(1), sharding={devices=[2,1,2,2]<=[2,2,2]T(2,0,1) "
      "last_tile_dim_replicate}\n"
      "  ROOT c = f32[1,3,4] convolution(l, r), window={size=4 stride=2 pad=0_2}, "
      "dim_labels=bf0_io0->f0b, sharding={devices=[1,2,4]<=[8]}\n}\n" },
    /* S-53: equal elements need no moving */
    { "uneven reshape of a broadcast scalar", 0,
      "HloModule m, num_partitions=8\nENTRY e {\n"
      "  x = f32[] parameter(0), sharding={replicated}\n"
      "  b = f32[12] broadcast(x), dimensions={}, sharding={devices=[8]<=[8]}\n"
      "  ROOT r = f32[1,1,4,3] reshape(b), sharding={devices=[1,1,4,2]<=[8]}\n}\n" },
};

struct made {
    struct ir *ir;
    struct diag *d;
    struct module *m;
    struct propagation *p;
    struct program *program;
};

static struct made make(const char *text)
{
    struct made t = { .ir = ir_new(), .d = diag_new() };
    t.m = module_load_text(t.ir, "bytes", text, strlen(text), NULL, t.d);
    struct graph *g = t.m ? graph_prepare(t.m, false, NULL, t.d) : NULL;
    struct propagation_options po = { .spmd = true };
    t.p = g ? propagate(g, &po, NULL, t.d) : NULL;
    struct partition_options o;
    partition_options_default(&o);
    o.full = false;
    o.num_partitions = t.m ? t.m->num_partitions : 1;
    t.program = t.p ? partition(t.p, &o, NULL, t.d) : NULL;
    if (!t.program)
        fail_msg("%s", t.d->msgs.n ? t.d->msgs.v[0].text : "no program");
    return t;
}

static void made_free(struct made *t)
{
    program_free(t->program);
    propagation_free(t->p);
    module_free(t->m);
    diag_free(t->d);
    ir_free(t->ir);
}

static void right(struct made *t, const char *what)
{
    struct verify_result r;
    memset(&r, 0, sizeof r);
    if (!verify_program(t->p, t->program, RUN_RING, 1, 1, &r, NULL, t->d))
        fail_msg("%s: %s", what, t->d->msgs.n ? t->d->msgs.v[0].text : "not run");
    if (!r.equal || r.poisoned)
        fail_msg("%s: wrong numbers", what);
    verify_result_free(&r);
}

static void fewest_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct made t = make(rows[i].text);
        struct arena a = { 0 };
        arena_open(&a);
        struct collective *list;
        int64_t total;
        (void)collectives_list(t.program->module, t.program->num_partitions, 1, &a, &list, &total);
        if (total != rows[i].bytes)
            fail_msg("%s: %" PRId64 " bytes, not %" PRId64, rows[i].what, total, rows[i].bytes);
        right(&t, rows[i].what);
        arena_close(&a);
        made_free(&t);
    }
}

/* ---- one update on operands that were cut ------------------------------------------------------------- */

struct scatter_row {
    const char *what;
    int64_t starts; /* of the local scatter */
    const char *text;
};

#define SCATTER_TAIL ", to_apply=add, sharding={devices=[2,1]<=[2]}\n}\n"

static const struct scatter_row scatters[] = {
    { "one update, cut operand", 2,
      "HloModule m, num_partitions=2\n" ADD_F32 "ENTRY e {\n"
      "  y = f32[6,1] parameter(0), sharding={replicated}\n"
      "  x = f32[6,1] copy(y), sharding={devices=[2,1]<=[2]}\n"
      "  i = s32[1,1] parameter(1), sharding={replicated}\n"
      "  u = f32[1,1] parameter(2), sharding={replicated}\n"
      "  ROOT s = f32[6,1] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1" SCATTER_TAIL },
    { "one update without a dim of its own", 2,
      "HloModule m, num_partitions=2\n" ADD_F32 "ENTRY e {\n"
      "  y = f32[6,1] parameter(0), sharding={replicated}\n"
      "  x = f32[6,1] copy(y), sharding={devices=[2,1]<=[2]}\n"
      "  i = s32[] parameter(1), sharding={replicated}\n"
      "  u = f32[1,1] parameter(2), sharding={replicated}\n"
      "  ROOT s = f32[6,1] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=0" SCATTER_TAIL },
    { "one update, an operand cut before a reshape", 2,
      "HloModule m, num_partitions=2\n" ADD_F32 "ENTRY e {\n"
      "  y = f32[6] parameter(0), sharding={replicated}\n"
      "  z = f32[6] copy(y), sharding={devices=[2]<=[2]}\n"
      "  x = f32[6,1] reshape(z), sharding={devices=[2,1]<=[2]}\n"
      "  i = u32[1] parameter(1), sharding={replicated}\n"
      "  u = f32[1] parameter(2), sharding={replicated}\n"
      "  ROOT s = f32[6,1] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=0" SCATTER_TAIL },
    { "an operand that arrives cut", 1,
      "HloModule m, num_partitions=2\n" ADD_F32 "ENTRY e {\n"
      "  x = f32[6,1] parameter(0), sharding={devices=[2,1]<=[2]}\n"
      "  i = s32[1,1] parameter(1), sharding={replicated}\n"
      "  u = f32[1,1] parameter(2), sharding={replicated}\n"
      "  ROOT s = f32[6,1] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1" SCATTER_TAIL },
};

static int64_t local_starts(const struct program *p, const struct ir *ir)
{
    for (uint32_t n = 1; n <= module_ninstrs(p->module); n++) {
        const struct instr *in = instr_at(p->module, (instr_id){ n });
        if (in->op != OP_SCATTER)
            continue;
        const struct shape *i = shape_get(ir, instr_at(p->module, in->operands[1])->shape);
        return i->count; /* one component each */
    }
    return 0;
}

/* Compilers that make a dynamic-slice of a scatter's one update and fold it into the cut of the
 * operand go wrong when it falls outside of the shard; two updates stay a loop. */
static void one_update_has_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(scatters); i++) {
        struct made t = make(scatters[i].text);
        int64_t n = local_starts(t.program, t.ir);
        if (n != scatters[i].starts)
            fail_msg("%s: %" PRId64 " updates", scatters[i].what, n);
        right(&t, scatters[i].what);
        made_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fewest_bytes),
                                        cmocka_unit_test(one_update_has_company) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
