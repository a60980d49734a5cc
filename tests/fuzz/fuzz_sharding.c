/* Shardings: HLO's spellings and the shell's; what was read prints, and the print reads back as the
 * same sharding. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "sharding/sharding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mesh test_mesh(struct shardings *t)
{
    struct mesh m = { .name = "", .naxes = 2, .axes = { { "data", 2 }, { "model", 4 } } };
    m.order = order_iota(t, 8);
    return m;
}

static void hlo_spelling(struct shardings *t, const struct source *src, struct arena *a)
{
    sharding_id s, again;
    size_t used;
    struct sharding_note note;
    struct diag *d = diag_new();
    bool ok = sharding_parse(t, a, src, 0, src->text, src->len, &used, &s, &note, d);
    if (!ok && d->nerrors == 0)
        abort();
    if (ok) {
        struct str out = STR_IN(a);
        sharding_print(t, s, NULL, false, &out);
        if (!sharding_parse(t, a, NULL, 0, str_text(&out), out.n, &used, &again, NULL, d) ||
            used != out.n || again.i != s.i)
            abort();
    }
    diag_free(d);
}

static void shell_spelling(struct shardings *t, const struct source *src, struct arena *a)
{
    struct mesh m = test_mesh(t);
    for (int rank = -1; rank < 4; rank++) {
        sharding_id s;
        struct axes_spec spec = { 0 };
        size_t used;
        struct diag *d = diag_new();
        bool ok =
            sharding_spec_parse(t, &m, 1, rank, src, 0, src->text, src->len, &used, &s, &spec, d);
        if (!ok && d->nerrors == 0)
            abort();
        if (ok && s.i)
            for (int how = SPELL_AXES; how <= SPELL_SDY; how++) {
                struct str out = STR_IN(a);
                sharding_spell(t, &m, s, (enum spelling)how, &out);
            }
        diag_free(d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fail_abort_on_invariant(true);
    struct arena a = { 0 };
    arena_open(&a);
    char *text = arena_strndup(&a, (const char *)data, size);
    struct source src = { .name = "fuzz", .text = text, .len = size };
    struct shardings *t = shardings_new();
    hlo_spelling(t, &src, &a);
    shell_spelling(t, &src, &a);
    shardings_free(t);
    arena_close(&a);
    return 0;
}
