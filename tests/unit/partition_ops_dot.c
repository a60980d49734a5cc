/* Dot: the complete one-axis table of S-175, and the groups of sections 10.4 to 10.6. */
#include "partition_core.h"

/* L is [b,m,k], R is [b,k,n], the output [b,m,n]; two devices; each array is tiled on the dimension
 * of the row, or replicated (-). Collectives as letters: A all-to-all, G all-gather, R all-reduce. */
struct table_row {
    char l, r;
    const char *out[4]; /* output tiled on b, m, n, not at all */
};

static const struct table_row table[] = {
    { 'b', 'b', { "", "A", "A", "G" } },    { 'b', 'n', { "A", "AG", "G", "GG" } },
    { 'b', 'k', { "A", "AG", "AG", "GG" } }, { 'b', '-', { "", "A", "G", "G" } },
    { 'm', 'b', { "A", "G", "AG", "GG" } },  { 'm', 'n', { "AA", "G", "G", "GG" } },
    { 'm', 'k', { "AA", "G", "AG", "GG" } }, { 'm', '-', { "A", "", "G", "G" } },
    { 'k', 'b', { "A", "AG", "AG", "GG" } }, { 'k', 'n', { "AA", "AG", "G", "GG" } },
    { 'k', 'k', { "R", "R", "R", "R" } },    { 'k', '-', { "A", "A", "G", "R" } },
    { '-', 'b', { "", "G", "A", "G" } },     { '-', 'n', { "A", "G", "", "G" } },
    { '-', 'k', { "A", "G", "A", "R" } },    { '-', '-', { "", "", "", "" } },
};

static const char *tiled_on(const char *dims, char on)
{
    const char *at = on == '-' ? NULL : strchr(dims, on);
    if (!at)
        return "replicated";
    static const char *const where[] = { "devices=[2,1,1]<=[2]", "devices=[1,2,1]<=[2]",
                                         "devices=[1,1,2]<=[2]" };
    return where[at - dims];
}

static void letters(struct setup *t, char *out)
{
    struct collective *list;
    int64_t total, n = collectives_list(t->program->module, t->program->num_partitions, 1,
                                        &t->arena, &list, &total);
    int k = 0;
    static const struct {
        enum op_kind op;
        char c;
    } kinds[] = { { OP_ALL_TO_ALL, 'A' }, { OP_ALL_GATHER, 'G' }, { OP_COLLECTIVE_PERMUTE, 'P' },
                  { OP_ALL_REDUCE, 'R' } };
    for (size_t j = 0; j < COUNTOF(kinds); j++)
        for (int64_t i = 0; i < n && k < 15; i++)
            if (list[i].kind == kinds[j].op)
                out[k++] = kinds[j].c;
    out[k] = '\0';
}

static void one_axis_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(table); i++)
        for (int o = 0; o < 4; o++) {
            char text[1200], got[16];
            (void)snprintf(text, sizeof text,
                           "HloModule m\nENTRY e {\n"
                           "  l = f32[2,4,8] parameter(0), sharding={%s}\n"
                           "  r = f32[2,8,4] parameter(1), sharding={%s}\n"
                           "  ROOT d = f32[2,4,4] dot(l, r), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                           "lhs_contracting_dims={2}, rhs_contracting_dims={1}, sharding={%s}\n}\n",
                           tiled_on("bmk", table[i].l), tiled_on("bkn", table[i].r),
                           tiled_on("bmn", "bmn-"[o]));
            struct setup t;
            setup_partition(&t, text, 2, NULL);
            if (!t.program)
                fail_msg("%c %c: %s", table[i].l, table[i].r, setup_said(&t));
            letters(&t, got);
            if (strcmp(got, table[i].out[o]) != 0)
                fail_msg("L on %c, R on %c, output on %c: %s, not %s", table[i].l, table[i].r,
                         "bmn-"[o], got, table[i].out[o]);
            setup_free(&t);
        }
}

struct row {
    int64_t devices;
    const char *l, *r, *attrs, *out, *collectives;
};

#define REP " last_tile_dim_replicate"
#define MATMUL "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define BY_ROWS "lhs_contracting_dims={1}, rhs_contracting_dims={1}"

static const struct row rows[] = {
    /* X-67..X-71, X-75..X-80 */
    { 2, "f32[128,64]|devices=[1,2]<=[2]", "f32[64,256]|devices=[2,1]<=[2]", MATMUL,
      "f32[128,256]|replicated", "all-reduce f32[128,256] 2" },
    { 4, "f32[16,64]|replicated", "f32[64,128]|devices=[1,4]<=[4]", MATMUL,
      "f32[16,128]|devices=[1,4]<=[4]", "" },
    { 4, "f32[16,128]|devices=[1,4]<=[4]", "f32[128,64]|devices=[4,1]<=[4]", MATMUL,
      "f32[16,64]|devices=[4,1]<=[4]", "all-reduce f32[16,64] 4" },
    { 4, "f32[32,64]|devices=[4,1]<=[4]", "f32[64,128]|devices=[4,1]<=[4]", MATMUL,
      "f32[32,128]|devices=[4,1]<=[4]", "all-gather f32[64,128] 4" },
    { 4, "f32[32,64]|devices=[2,1,2]<=[4]" REP, "f32[64,128]|devices=[1,2,2]<=[2,2]T(1,0)" REP,
      MATMUL, "f32[32,128]|devices=[2,2]<=[4]", "" },
    { 4, "f32[32,64]|devices=[1,4]<=[4]", "f32[64,128]|devices=[4,1]<=[4]", MATMUL,
      "f32[32,128]|devices=[2,1,2]0,2,1,3" REP,
      "all-reduce f32[32,128] 2; all-reduce f32[16,128] 2" },
    { 4, "f32[48,12]|devices=[2,2]<=[4]", "f32[32,12]|devices=[2,2]0,2,1,3", BY_ROWS,
      "f32[48,32]|devices=[2,2]<=[4]", "all-gather f32[24,12] 2; all-gather f32[16,12] 2" },
    { 4, "f32[48,100]|devices=[2,2]<=[4]", "f32[32,100]|devices=[2,2]<=[4]", BY_ROWS,
      "f32[48,32]|devices=[2,2]<=[4]", "all-gather f32[32,50] 2; all-reduce f32[24,32] 2" },
    { 8, "f32[24,100]|devices=[1,2,4]<=[8]" REP, "f32[32,100]|devices=[1,2,4]<=[8]" REP, BY_ROWS,
      "f32[24,32]|devices=[1,2,4]<=[8]" REP, "all-reduce f32[24,16] 2; collective-permute f32[24,16] 4" },
    /* three mesh axes: the sum is cut and its copies are summed (S-181, flag of S-182) */
    { 8, "f32[16,32]|devices=[1,4,2]<=[8]" REP, "f32[32,16]|devices=[4,1,2]<=[8]" REP, MATMUL,
      "f32[16,16]|devices=[2,2,2]<=[2,4]T(1,0)" REP,
      "all-reduce f32[16,8] 2; all-reduce f32[8,8] 2" },
};

static void split_word(const char *both, char *shape, size_t n, const char **sharding)
{
    const char *bar = strchr(both, '|');
    assert_non_null(bar);
    assert_true((size_t)(bar - both) < n);
    memcpy(shape, both, (size_t)(bar - both));
    shape[bar - both] = '\0';
    *sharding = bar + 1;
}

static void groups(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        char text[1500], ls[40], rs[40], os[40];
        const char *l, *r, *o;
        split_word(rows[i].l, ls, sizeof ls, &l);
        split_word(rows[i].r, rs, sizeof rs, &r);
        split_word(rows[i].out, os, sizeof os, &o);
        (void)snprintf(text, sizeof text,
                       "HloModule m\nENTRY e {\n  l = %s parameter(0), sharding={%s}\n"
                       "  r = %s parameter(1), sharding={%s}\n"
                       "  ROOT d = %s dot(l, r), %s, sharding={%s}\n}\n",
                       ls, l, rs, r, os, rows[i].attrs, o);
        struct setup t;
        setup_partition(&t, text, rows[i].devices, NULL);
        if (!t.program)
            fail_msg("%s . %s: %s", rows[i].l, rows[i].r, setup_said(&t));
        const char *got = setup_collectives(&t);
        if (strcmp(got, rows[i].collectives) != 0)
            fail_msg("%s . %s -> %s:\n  %s\nnot\n  %s", rows[i].l, rows[i].r, rows[i].out, got,
                     rows[i].collectives);
        setup_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_axis_table),
        cmocka_unit_test(groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
