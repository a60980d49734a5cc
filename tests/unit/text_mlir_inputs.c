/* The reference material as StableHLO, where it is there: every module loads (what has no static
 * shapes, or meshes of different sizes, is refused with that reason), and NAME.mhlo.mlir is the
 * program of NAME.hlo: the operations that sharding is about are the same ones, equally often. */
#include "text_help.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <unistd.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static void loads_or_says(const char *path, const char *reason, int *loaded, int *refused)
{
    struct fixture f;
    start(&f);
    f.m = module_load(f.c, path, NULL, f.d);
    if (f.m) {
        ++*loaded;
    } else {
        if (!strstr(messages(&f), reason))
            fail_msg("%s", messages(&f));
        ++*refused;
    }
    stop(&f);
}

static void folder_loads(const char *folder, int *loaded, int *refused)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (ends_with(e->d_name, ".mlir") || ends_with(e->d_name, ".mlir.gz"))
            loads_or_says(path, "shapes must be static", loaded, refused);
    }
    if (d)
        closedir(d);
}

static void every_module_loads(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: skipped\n");
        skip();
    }
    int loaded = 0, refused = 0;
    char path[4200];
    snprintf(path, sizeof path, "%s/inputs", shared);
    folder_loads(path, &loaded, &refused);
    snprintf(path, sizeof path, "%s/inputs/paper", shared);
    folder_loads(path, &loaded, &refused);
    print_message("%d modules loaded, %d refused by design\n", loaded, refused);
    assert_true(loaded >= 371 && refused <= 1);
}

static void every_corpus_module_loads(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared)
        skip();
    char path[4200];
    snprintf(path, sizeof path, "%s/corpus/shardy.jsonl", shared);
    FILE *in = fopen(path, "r");
    if (!in)
        skip();
    char *line = NULL;
    size_t cap = 0;
    int loaded = 0, refused = 0;
    while (getline(&line, &cap, in) > 0) {
        cJSON *j = cJSON_Parse(line);
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(j, "mlir_in"));
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(j, "name"));
        assert_non_null(text);
        struct fixture f;
        start(&f);
        f.m = module_load_text(f.c, name, text, strlen(text), NULL, f.d);
        if (!f.m && !strstr(messages(&f), "the program runs on"))
            fail_msg("%s: %s", name, messages(&f));
        loaded += f.m != NULL;
        refused += f.m == NULL;
        stop(&f);
        cJSON_Delete(j);
    }
    free(line);
    fclose(in);
    print_message("%d modules loaded, %d refused: meshes of different sizes\n", loaded, refused);
    assert_true(loaded >= 337 && refused <= 2);
}

/* How often each opcode runs once per call, of those that sharding is about. */
static void count_ops(const struct module *m, int64_t *count)
{
    struct arena a = { 0 };
    uint32_t n;
    const comp_id *order = module_call_order(m, true, &a, &n);
    int64_t *weight = ARENA_ARRAY(&a, int64_t, (int64_t)module_ncomps(m) + 1);
    weight[m->entry.i] = 1;
    while (n-- > 0) {
        const struct computation *c = comp_at(m, order[n]);
        for (uint32_t k = 0; k < c->ninstrs; k++) {
            comp_id called[64];
            count[instr_at(m, c->instrs[k])->op] += weight[order[n].i];
            int nc = instr_called(m, c->instrs[k], called, 64);
            for (int i = 0; i < nc && i < 64; i++)
                weight[called[i].i] += weight[order[n].i];
        }
    }
    arena_free(&a);
}

static void pair_is_equal(const char *hlo, const char *mlir)
{
    static const enum op_kind heavy[] = { OP_DOT,     OP_CONVOLUTION, OP_CUSTOM_CALL, OP_WHILE,  OP_CONDITIONAL,
                                          OP_GATHER,  OP_SCATTER,     OP_REDUCE,      OP_SORT,   OP_REDUCE_WINDOW,
                                          OP_ALL_REDUCE, OP_TOPK,     OP_DYNAMIC_SLICE, OP_TRANSPOSE };
    struct fixture f;
    start(&f);
    int64_t a[OP_COUNT] = { 0 }, b[OP_COUNT] = { 0 };
    f.m = module_load(f.c, hlo, NULL, f.d);
    if (!f.m)
        fail_msg("%s", messages(&f));
    count_ops(f.m, a);
    int64_t devices = f.m->num_partitions, params = f.m->nto_parameters;
    module_free(f.m);
    f.m = module_load(f.c, mlir, NULL, f.d);
    if (!f.m)
        fail_msg("%s", messages(&f));
    count_ops(f.m, b);
    assert_int_equal(devices, f.m->num_partitions);
    assert_int_equal(params, f.m->nto_parameters);
    for (size_t i = 0; i < COUNTOF(heavy); i++)
        if (a[heavy[i]] != b[heavy[i]])
            fail_msg("%s: %" PRId64 " %s as HLO, %" PRId64 " as StableHLO", mlir, a[heavy[i]], op_name(heavy[i]),
                     b[heavy[i]]);
    stop(&f);
}

static void pairs_are_equal(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared)
        skip();
    char folder[4200];
    snprintf(folder, sizeof folder, "%s/inputs", shared);
    DIR *d = opendir(folder);
    int pairs = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *end = strstr(e->d_name, ".mhlo.mlir");
        char hlo[4700], mlir[4700];
        if (!end || memchr(e->d_name, '.', (size_t)(end - e->d_name)))
            continue;
        snprintf(mlir, sizeof mlir, "%s/%s", folder, e->d_name);
        snprintf(hlo, sizeof hlo, "%s/%.*s.hlo", folder, (int)(end - e->d_name), e->d_name);
        FILE *f = fopen(hlo, "r");
        if (f)
            fclose(f);
        else
            strcat(hlo, ".gz");
        pair_is_equal(hlo, mlir);
        pairs++;
    }
    if (d)
        closedir(d);
    print_message("%d pairs\n", pairs);
    assert_true(pairs >= 100);
}

/* The same module, and the same HLO text: names too. */
static void same_modules(const char *path, struct fixture *f, struct fixture *g)
{
    struct hlo_print_options o = { .max_bytes = 0 };
    struct str x = STR_IN(&f->d->arena), y = STR_IN(&g->d->arena);
    assert_true(hlo_print(f->m, &o, &x) && hlo_print(g->m, &o, &y));
    const char *a = str_text(&x), *b = str_text(&y);
    size_t k = 0, line = 0;
    for (; a[k] && a[k] == b[k]; k++)
        line = a[k] == '\n' ? k + 1 : line;
    if (a[k] || b[k])
        fail_msg("%s: another module:\n%.*s\n%.*s", path, (int)strcspn(a + line, "\n"), a + line,
                 (int)strcspn(b + line, "\n"), b + line);
    assert_true(module_equal(f->m, g->m));
}

/* What comes back as the same values in another shape of text: an all-to-all's reshapes are folded into
 * their neighbours when they are read as operations of their own; two constants that reading merges. */
static bool comes_back_otherwise(const char *path)
{
    static const char *const names[] = { "ulysses_small", "llama_gqa2_small.sdy", "flash_small", "llama_generate_small.after_spmd",
                                         "llama_train_small.after_spmd", "llama_train_small.sdy.after_spmd" };
    for (size_t k = 0; k < COUNTOF(names); k++)
        if (strstr(path, names[k]))
            return true;
    return false;
}

/* Printed as StableHLO and read again. What came from StableHLO is the same module, names and all, and
 * prints the same text. What came from HLO is a valid module with the same parameters and results, whose
 * text does not change any more (the first reading makes the importer's simplifications). What has no
 * counterpart there (asynchronous operations and the like) is refused with a message. */
static void prints_and_reads(const char *path, int *done, int *refused)
{
    bool stablehlo = strstr(path, ".mlir") != NULL, otherwise = comes_back_otherwise(path);
    struct fixture f, g, h;
    start(&f);
    f.m = module_load(f.c, path, NULL, f.d);
    if (!f.m) {
        stop(&f);
        return;
    }
    struct str text = STR_IN(&f.d->arena);
    if (!mlir_print(f.m, NULL, &text, f.d)) {
        assert_true(f.d->nerrors > 0);
        ++*refused;
        stop(&f);
        return;
    }
    start(&g);
    g.m = module_load_text(g.c, "again.mlir", str_text(&text), text.n, NULL, g.d);
    if (!g.m)
        fail_msg("%s: %s", path, messages(&g));
    const struct computation *a = comp_at(f.m, f.m->entry), *b = comp_at(g.m, g.m->entry);
    bool tuples = strstr(path, "tuple_args") != NULL; /* StableHLO has none: one argument a leaf */
    assert_true(tuples || a->nparams == b->nparams);
    for (uint32_t k = 0; k < a->nparams && !tuples; k++) {
        const struct instr *x = instr_at(f.m, a->params[k]), *y = instr_at(g.m, b->params[k]);
        assert_int_equal(instr_shape(f.m, a->params[k])->bytes, instr_shape(g.m, b->params[k])->bytes);
        assert_string_equal(instr_arg_name(f.m, a->params[k]), instr_arg_name(g.m, b->params[k]));
        if (shape_get(f.c, x->shape)->kind == SHAPE_ARRAY)
            assert_string_equal(name_text(f.c, x->name), name_text(g.c, y->name));
    }
    assert_int_equal(instr_shape(f.m, a->root)->bytes, instr_shape(g.m, b->root)->bytes);
    struct str again = STR_IN(&g.d->arena);
    if (!mlir_print(g.m, NULL, &again, g.d))
        fail_msg("%s: %s", path, messages(&g));
    if (stablehlo && !otherwise) {
        same_modules(path, &f, &g);
        if (strcmp(str_text(&text), str_text(&again)) != 0)
            fail_msg("%s: another text the second time", path);
    }
    start(&h);
    h.m = module_load_text(h.c, "third.mlir", str_text(&again), again.n, NULL, h.d);
    if (!h.m)
        fail_msg("%s: %s", path, messages(&h));
    if (!otherwise)
        same_modules(path, &g, &h);
    ++*done;
    stop(&h);
    stop(&g);
    stop(&f);
}

static void dumps_print_as_stablehlo(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: skipped\n");
        skip();
    }
    int done = 0, refused = 0;
    char path[4400];
    snprintf(path, sizeof path, "%s/inputs", shared);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        bool small = strstr(e->d_name, "_small.") && strstr(e->d_name, ".xla.json") == NULL;
        snprintf(path, sizeof path, "%s/inputs/%s", shared, e->d_name);
        if (small)
            prints_and_reads(path, &done, &refused);
    }
    if (d)
        closedir(d);
    print_message("%d modules printed as StableHLO and read again, %d refused\n", done, refused);
    assert_true(done >= 500);
}

/* Cut short, or with one character changed, a text is read or refused with a message: nothing else. */
static void damaged(const char *text, size_t n, int *read, int *refused)
{
    struct fixture f;
    start(&f);
    f.m = module_load_text(f.c, "damaged.mlir", text, n, NULL, f.d);
    if (!f.m)
        assert_true(f.d->nerrors > 0 && f.d->msgs.n > 0 && f.d->msgs.v[0].text[0]);
    ++*(f.m ? read : refused);
    stop(&f);
}

static void damage(const char *path, int *read, int *refused)
{
    static const char other[] = "?%\"<{(-#0";
    struct diag *d = diag_new();
    struct source *src;
    if (!file_read(path, &src, d))
        fail_msg("%s", path);
    size_t step = src->len / 160 + 1;
    char *copy = malloc(src->len + 1);
    memcpy(copy, src->text, src->len + 1);
    for (size_t at = 0; at < src->len; at += step) {
        damaged(src->text, at, read, refused);
        char was = copy[at];
        for (size_t k = at % 3; k < sizeof other - 1; k += 3) {
            copy[at] = other[k];
            damaged(copy, src->len, read, refused);
        }
        copy[at] = was;
    }
    free(copy);
    source_free(src);
    diag_free(d);
}

static void damaged_texts_are_read_or_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "shape_ops_small.mhlo.mlir", "gather_scatter_small.mhlo.mlir",
                                         "convs_small.sdy.mlir",      "partial_mlp_small.sdy.mlir",
                                         "while_newton_small.mhlo.mlir", "cond_switch_small.mhlo.mlir",
                                         "reduce_ops_small.mhlo.mlir", "sm_collectives_small.sdy.mlir",
                                         "elementwise_small.mhlo.mlir", "fft_small.sdy.mlir",
                                         "conv_grads_small.mhlo.mlir", "dropout_rbg_small.export.now.mlir",
                                         "shape_ops_small.generic.mhlo.mlir", "shape_ops_small.loc.sdy.mlir" };
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: skipped\n");
        skip();
    }
    int read = 0, refused = 0;
    for (size_t k = 0; k < COUNTOF(names); k++) {
        char path[4400];
        snprintf(path, sizeof path, "%s/inputs/%s", shared, names[k]);
        if (access(path, R_OK) == 0)
            damage(path, &read, &refused);
    }
    print_message("%d damaged texts read, %d refused\n", read, refused);
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(damaged_texts_are_read_or_refused),
                                        cmocka_unit_test(dumps_print_as_stablehlo),
                                        cmocka_unit_test(every_module_loads),
                                        cmocka_unit_test(every_corpus_module_loads),
                                        cmocka_unit_test(pairs_are_equal) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
