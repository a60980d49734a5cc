/* The proof over many strategies: each model under random shardings that split every parameter
 * somewhere, on 2, 3, 4, 8 and 64 devices, two of each, a good third of them uneven.
 *
 *     verify_sweep [-s SEED] FILE...
 *
 * The module's own annotations are taken away first (their device count is another), so every
 * sharding comes from here. Ends with a table and "N passed, N failed". Models whose operations have
 * no kernel yet, or that hold manual regions, are skipped and say so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"

static const int64_t device_counts[] = { 2, 3, 4, 8, 64 };
enum { ROUNDS = 2 };

struct tally {
    int passed, failed, skipped, uneven, strategies;
    int kinds[OP_COUNT];
};

static uint64_t rng_state;

static uint64_t rng(void)
{
    rng_state += 0x9e3779b97f4a7c15ULL;
    return hash_u64(rng_state);
}

static void complain(const struct diag *d)
{
    struct arena a = { 0 };
    for (int64_t i = 0; i < d->msgs.n && i < 3; i++) {
        struct str s = STR_IN(&a);
        diag_render(&d->msgs.v[i], &s);
        fputs(str_text(&s), stdout);
    }
    arena_free(&a);
}

/* One or two axes whose sizes multiply to n. */
static struct mesh make_mesh(struct document *doc, int64_t n)
{
    struct mesh m = { .name = "", .naxes = 1, .axes = { { "a", n } } };
    int64_t minor = n == 4 ? 2 : n == 8 ? 4 : n == 64 ? 8 : 1;
    if (minor > 1 && rng() % 3) {
        m.naxes = 2;
        m.axes[0].size = n / minor;
        m.axes[1] = (struct mesh_axis){ "b", minor };
    }
    m.order = order_iota(document_ir(doc)->shardings, n);
    return m;
}

/* A dimension of more than one element that is not in `taken`; of a size that the axis does not
 * divide when uneven is wanted and there is one, else one that it divides when there is one. */
static int pick_dim(const struct shape *s, uint64_t taken, int64_t size, bool uneven)
{
    int fits[64], any[64], nfits = 0, nany = 0;
    for (int d = 0; d < s->rank; d++) {
        if (taken >> d & 1 || s->dims[d] < 2)
            continue;
        any[nany++] = d;
        if ((s->dims[d] % size != 0) == uneven)
            fits[nfits++] = d;
    }
    if (nfits)
        return fits[rng() % (unsigned)nfits];
    return nany ? any[rng() % (unsigned)nany] : -1;
}

/* Splits one array over the mesh; false when it has no dimension to split. */
static bool random_sharding(struct document *doc, const struct mesh *m, const struct shape *s,
                            bool uneven, sharding_id *out, bool *is_uneven)
{
    struct arena a = { 0 };
    struct str spec = STR_IN(&a);
    int dim_of[2] = { -1, -1 };
    uint64_t taken = 0;
    for (int k = 0; k < m->naxes; k++) {
        if (k > 0 && dim_of[0] >= 0 && rng() % 3 == 0)
            continue; /* partially replicated */
        dim_of[k] = pick_dim(s, taken, m->axes[k].size, uneven);
        if (dim_of[k] >= 0)
            taken |= UINT64_C(1) << dim_of[k];
    }
    if (!taken)
        return false;
    str_addc(&spec, '[');
    for (int d = 0; d < s->rank; d++) {
        const char *axis = d == dim_of[0] ? "a" : d == dim_of[1] ? "b" : "_";
        int64_t size = d == dim_of[0] ? m->axes[0].size : d == dim_of[1] ? m->axes[1].size : 1;
        if (s->dims[d] % size)
            *is_uneven = true;
        str_addf(&spec, "%s%s", d ? "," : "", axis);
    }
    str_addc(&spec, ']');
    struct source src = { "spec", str_text(&spec), spec.n };
    struct axes_spec shape_of_spec;
    size_t used;
    struct diag *d = diag_new();
    bool ok = sharding_spec_parse(document_ir(doc)->shardings, m, 1, s->rank, &src, 0, src.text, src.len,
                                  &used, out, &shape_of_spec, d);
    if (!ok)
        complain(d);
    diag_free(d);
    arena_free(&a);
    return ok;
}

static bool annotate_parameters(struct document *doc, const struct mesh *m, bool uneven, bool *is_uneven,
                                struct diag *d)
{
    const struct module *mod = document_module(doc);
    const struct computation *entry = comp_at(mod, mod->entry);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        const struct shape *s = instr_shape(mod, entry->params[k]);
        struct annotation a = { .kind = ANNOTATE_SHARD, .target = entry->params[k], .leaf = -1 };
        if (s->kind != SHAPE_ARRAY || !random_sharding(doc, m, s, uneven, &a.sharding, is_uneven))
            continue;
        if (!edit_annotate(doc, 1, &a, NULL, "shard", d))
            return false;
    }
    return true;
}

static void count_kinds(struct document *doc, struct tally *t, struct diag *d)
{
    const struct collective *list;
    int64_t n, total;
    if (!document_collectives(doc, &list, &n, &total, NULL, d))
        return;
    for (int64_t i = 0; i < n; i++)
        t->kinds[list[i].kind]++;
}

static void try_strategy(struct document *doc, const char *name, int64_t devices, int round, struct tally *t)
{
    struct diag *d = diag_new();
    struct mesh m = make_mesh(doc, devices);
    bool uneven = false;
    struct verify_result r = { 0 };
    const struct propagation *p = NULL;
    const struct program *g = NULL;
    bool ok = edit_unshard_module(doc, "unshard --module", d) && edit_mesh(doc, &m, "mesh", d) &&
              annotate_parameters(doc, &m, round % 2 == 1, &uneven, d) &&
              (p = document_propagation(doc, NULL, d)) && (g = document_program(doc, NULL, d)) &&
              verify_program(p, g, RUN_RING, 1 + (uint64_t)round, 0, &r, NULL, d);
    t->strategies++;
    t->uneven += uneven;
    if (ok)
        count_kinds(doc, t, d);
    if (ok && r.equal && !r.poisoned) {
        t->passed++;
    } else {
        t->failed++;
        printf("FAIL %s on %" PRId64 " devices, round %d%s\n", name, devices, round, ok ? ": not equal" : "");
        complain(d);
    }
    if (ok)
        verify_result_free(&r);
    while (edit_undo(doc, d)) {
    }
    diag_free(d);
}

static void sweep_file(const char *path, uint64_t seed, struct tally *t)
{
    const char *base = strrchr(path, '/');
    const char *name = base ? base + 1 : path;
    struct document *doc = document_new();
    struct diag *d = diag_new();
    struct arena a = { 0 };
    const char **missing;
    int before = t->passed + t->failed;
    if (!document_load(doc, path, NULL, d)) {
        complain(d);
        t->failed++;
    } else if (run_missing(document_module(doc), &a, &missing) > 0) {
        printf("%-36s skipped: no kernel for %s yet\n", name, missing[0]);
        t->skipped++;
    } else if (!edit_unshard_module(doc, "unshard --module", d) || !document_annotated(doc, d)) {
        printf("%-36s skipped: %s\n", name, d->msgs.n ? d->msgs.v[0].text : "");
        t->skipped++;
    } else {
        while (edit_undo(doc, d)) {
        }
        int failed = t->failed;
        rng_state = seed ^ hash_bytes(name, strlen(name), 7);
        for (size_t k = 0; k < COUNTOF(device_counts); k++)
            for (int round = 0; round < ROUNDS; round++)
                try_strategy(doc, name, device_counts[k], round, t);
        printf("%-36s %d strategies, %d failed\n", name, t->passed + t->failed - before, t->failed - failed);
    }
    fflush(stdout);
    arena_free(&a);
    diag_free(d);
    document_free(doc);
}

int main(int argc, char **argv)
{
    struct tally t = { 0 };
    uint64_t seed = 1;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "-s") == 0) {
        seed = strtoull(argv[2], NULL, 10);
        at = 3;
    }
    for (; at < argc; at++)
        sweep_file(argv[at], seed, &t);
    printf("%d strategies, %d of them uneven; collectives:", t.strategies, t.uneven);
    int kinds = 0;
    for (int op = 0; op < OP_COUNT; op++)
        if (t.kinds[op]) {
            printf(" %d %s", t.kinds[op], op_name((enum op_kind)op));
            kinds++;
        }
    printf(" (%d kinds)\n%d passed, %d failed", kinds, t.passed, t.failed);
    if (t.skipped)
        printf(", %d skipped", t.skipped);
    printf("\n");
    return t.failed ? 1 : 0;
}
