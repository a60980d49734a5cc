/* The verifier and the evaluator on real dumps: every model text of the shared inputs is accepted,
 * and the trip counts around its collectives are XLA's. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "text/text.h"

static const char *inputs(void)
{
    static char path[4096];
    const char *shared = getenv("GSPMD_SHARED");
    (void)snprintf(path, sizeof path, "%s/inputs", shared && *shared ? shared : "../shared");
    return path;
}

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), k = strlen(with);
    return n >= k && strcmp(s + n - k, with) == 0;
}

/* Larger ones are left to the benchmark. */
enum { LARGEST = 300 << 10 };

struct loaded {
    struct ir *c;
    struct diag *d;
    struct module *m;
};

static void open_text(struct loaded *l, const char *path)
{
    l->c = ir_new();
    l->d = diag_new();
    l->m = module_load(l->c, path, NULL, l->d);
}

static void close_text(struct loaded *l)
{
    module_free(l->m);
    diag_free(l->d);
    ir_free(l->c);
}

static bool small_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    (void)fseek(f, 0, SEEK_END);
    long n = ftell(f);
    (void)fclose(f);
    return n >= 0 && n <= LARGEST;
}

static void test_accepted(void **state)
{
    (void)state;
    DIR *dir = opendir(inputs());
    if (!dir) {
        print_message("no shared inputs: 0 files\n");
        skip();
    }
    int n = 0, copies = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[4600];
        (void)snprintf(path, sizeof path, "%s/%s", inputs(), e->d_name);
        if ((!ends(e->d_name, ".hlo") && !ends(e->d_name, ".hlo.gz")) || !small_file(path) ||
            strstr(e->d_name, ".canonical.") || strstr(e->d_name, ".fingerprint."))
            continue;
        struct loaded l;
        open_text(&l, path);
        if (!l.m)
            fail_msg("%s: %s", e->d_name, l.d->msgs.n ? l.d->msgs.v[0].text : "refused");
        assert_int_equal(l.d->msgs.n, 0);
        if (n++ % 16 == 0) { /* a copy is the same, and as sound */
            struct module *m = module_clone(l.m);
            assert_true(module_equal(l.m, m));
            assert_true(module_verify(m, l.d));
            module_free(m);
            copies++;
        }
        close_text(&l);
    }
    (void)closedir(dir);
    print_message("%d files accepted, %d of them copied\n", n, copies);
    assert_true(n > 400);
}

/* ---- trip counts -------------------------------------------------------------------------------- */

/* How often each computation runs, one entry run. A loop that cannot be told is counted as one turn, as
 * in the recorded answers; *unknown: how many there are. */
static int64_t *runs_of(const struct module *m, struct arena *a, int *unknown)
{
    uint32_t n;
    const comp_id *order = module_call_order(m, false, a, &n);
    int64_t *runs = ARENA_ARRAY(a, int64_t, (int64_t)module_ncomps(m) + 1);
    runs[m->entry.i] = 1;
    for (uint32_t k = n; k-- > 0;) {
        const struct computation *c = comp_at(m, order[k]);
        for (uint32_t j = 0; j < c->ninstrs; j++) {
            comp_id called[64];
            int nc = instr_called(m, c->instrs[j], called, 64);
            int64_t times = 1;
            if (instr_at(m, c->instrs[j])->op == OP_WHILE)
                times = while_trip_count(m, c->instrs[j], 1000000);
            if (times < 0) {
                (*unknown)++;
                times = 1;
            }
            for (int x = 0; x < nc && x < 64; x++)
                runs[called[x].i] += times * runs[order[k].i];
        }
    }
    return runs;
}

struct tally {
    char kind[40];
    int64_t trips;
    int64_t count; /* ours minus XLA's */
};

static void add_to(struct tally *t, int *n, const char *kind, int64_t trips, int by)
{
    int k = 0;
    while (k < *n && (strcmp(t[k].kind, kind) != 0 || t[k].trips != trips))
        k++;
    if (k == *n) {
        assert_true(*n < 200);
        (*n)++;
        (void)snprintf(t[k].kind, sizeof t[k].kind, "%s", kind);
        t[k].trips = trips;
    }
    t[k].count += by;
}

/* Number of collectives compared. */
static int compare(const char *name, const struct module *m, const cJSON *answers)
{
    struct arena a = { 0 };
    struct tally *t = ARENA_ARRAY(&a, struct tally, 200);
    int n = 0, seen = 0, unknown = 0, flagged = 0;
    const int64_t *runs = runs_of(m, &a, &unknown);
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (op_is_collective((enum op_kind)in->op))
            add_to(t, &n, op_name((enum op_kind)in->op), runs[in->comp.i], 1);
    }
    const cJSON *c;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(answers, "collectives")) {
        flagged += cJSON_IsFalse(cJSON_GetObjectItem(c, "trip_count_known"));
        add_to(t, &n, cJSON_GetObjectItem(c, "kind")->valuestring,
               (int64_t)cJSON_GetObjectItem(c, "trip_count")->valuedouble, -1);
        seen++;
    }
    for (int k = 0; k < n; k++)
        if (t[k].count)
            fail_msg("%s: %" PRId64 " more %s that run %" PRId64 " times than XLA has", name,
                     t[k].count, t[k].kind, t[k].trips);
    if (flagged && !unknown)
        fail_msg("%s: XLA cannot tell a loop's turns, and we can?", name);
    arena_free(&a);
    return seen;
}

static void test_trip_counts(void **state)
{
    (void)state;
    DIR *dir = opendir(inputs());
    if (!dir) {
        print_message("no shared inputs: 0 models\n");
        skip();
    }
    int models = 0, seen = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[4600], stem[300];
        if (!ends(e->d_name, ".xla.json"))
            continue;
        (void)snprintf(stem, sizeof stem, "%.*s", (int)strlen(e->d_name) - 9, e->d_name);
        (void)snprintf(path, sizeof path, "%s/%s", inputs(), e->d_name);
        struct diag *d = diag_new();
        struct source *src;
        assert_true(file_read(path, &src, d));
        cJSON *answers = cJSON_ParseWithLength(src->text, src->len);
        source_free(src);
        diag_free(d);
        assert_non_null(answers);
        (void)snprintf(path, sizeof path, "%s/%s.after_spmd.hlo", inputs(), stem);
        if (!small_file(path))
            (void)snprintf(path, sizeof path, "%s/%s.after_spmd.hlo.gz", inputs(), stem);
        struct loaded l;
        if (small_file(path) && cJSON_IsArray(cJSON_GetObjectItem(answers, "collectives"))) {
            open_text(&l, path);
            assert_non_null(l.m);
            seen += compare(stem, l.m, answers);
            models++;
            close_text(&l);
        }
        cJSON_Delete(answers);
    }
    (void)closedir(dir);
    print_message("%d models, %d collectives\n", models, seen);
    assert_true(models > 60 && seen > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_trip_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
