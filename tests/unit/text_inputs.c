/* The reference material, where it is there: every dump prints back byte for byte, every module of
 * the corpora and cases reads, prints and reads back equal. What leaves information out by design
 * is refused with that reason. */
#include "text_help.h"

#include <cjson/cJSON.h>
#include <dirent.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

struct counts {
    int same, refused, skipped;
};

/* A dump: print(read(text)) == text. */
static void dump_prints_back(const char *path, struct counts *n)
{
    struct fixture f;
    start(&f);
    struct source *src;
    if (!file_read(path, &src, f.d))
        fail_msg("%s", messages(&f));
    size_t len = src->len;
    char *copy = malloc(len + 1);
    memcpy(copy, src->text, len + 1);
    f.m = hlo_read(f.c, src, NULL, f.d);
    if (!f.m) {
        /* canonical and fingerprint forms have no names */
        if (!strstr(messages(&f), "leaves names out"))
            fail_msg("%s", messages(&f));
        n->refused++;
    } else {
        struct str out = STR_IN(&f.a);
        assert_true(hlo_print(f.m, NULL, &out));
        if (out.n != len || memcmp(out.s, copy, len) != 0) {
            size_t k = 0;
            while (k < len && k < out.n && copy[k] == out.s[k])
                k++;
            fail_msg("%s: prints back differently from byte %zu on", path, k);
        }
        n->same++;
    }
    free(copy);
    stop(&f);
}

static void dumps_of(const char *folder, struct counts *n)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (ends_with(e->d_name, ".hlo") || ends_with(e->d_name, ".hlo.gz"))
            dump_prints_back(path, n);
    }
    if (d)
        closedir(d);
}

static void every_dump_prints_back(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: 636 dumps skipped\n");
        skip();
    }
    struct counts n = { 0 };
    char path[4200];
    snprintf(path, sizeof path, "%s/inputs", shared);
    dumps_of(path, &n);
    snprintf(path, sizeof path, "%s/inputs/paper", shared);
    dumps_of(path, &n);
    print_message("%d dumps print back byte for byte, %d refused by design\n", n.same, n.refused);
    assert_true(n.same >= 600 && n.refused <= 15);
}

/* Hand-written text: reads, prints, reads back equal, prints the same. */
static void text_round_trips(const char *name, const char *text)
{
    struct fixture f, g;
    start(&f);
    start(&g);
    if (!read_hlo(&f, text, strlen(text)))
        fail_msg("%s:\n%s", name, messages(&f));
    const char *one = printed(&f, f.m, NULL);
    if (!read_hlo(&g, one, strlen(one)))
        fail_msg("%s:\n%s", name, messages(&g));
    assert_true(module_equal(f.m, g.m));
    assert_string_equal(printed(&g, g.m, NULL), one);
    stop(&g);
    stop(&f);
}

static const char *hlo_of(const cJSON *c)
{
    const cJSON *h = cJSON_GetObjectItem(c, "hlo");
    if (cJSON_IsString(h))
        return h->valuestring;
    const cJSON *input = cJSON_GetObjectItem(c, "input");
    h = cJSON_IsObject(input) ? cJSON_GetObjectItem(input, "hlo") : input;
    return cJSON_IsString(h) && strstr(h->valuestring, "ENTRY") ? h->valuestring : NULL;
}

static int each_case(const char *path)
{
    FILE *f = fopen(path, "r");
    int n = 0;
    char *line = NULL;
    size_t cap = 0;
    while (f && getline(&line, &cap, f) > 0) {
        cJSON *c = cJSON_Parse(line);
        const char *hlo = hlo_of(c);
        if (hlo) {
            text_round_trips(cJSON_GetObjectItem(c, "name")->valuestring, hlo);
            n++;
        }
        cJSON_Delete(c);
    }
    free(line);
    if (f)
        fclose(f);
    return n;
}

static void every_corpus_module_reads(void **state)
{
    (void)state;
    static const char *const files[] = { "propagation", "partitioner", "sharding_syntax" };
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: 551 corpus modules skipped\n");
        skip();
    }
    int n = 0;
    for (size_t i = 0; i < COUNTOF(files); i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/corpus/%s.jsonl", shared, files[i]);
        n += each_case(path);
    }
    print_message("%d corpus modules read, print and read back\n", n);
    assert_true(n > 500);
}

/* What cases.jsonl says of an input's error: its line and words, in one message of the diag. */
static bool meets(const struct diag_msg *m, const cJSON *error)
{
    const cJSON *line = cJSON_GetObjectItem(error, "line"), *w;
    if (line && m->file && m->line != line->valueint)
        return false;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    diag_render(m, &s);
    bool ok = true, any = !cJSON_GetObjectItem(error, "names_any");
    cJSON_ArrayForEach(w, cJSON_GetObjectItem(error, "names")) ok =
        ok && strstr(str_text(&s), w->valuestring);
    cJSON_ArrayForEach(w, cJSON_GetObjectItem(error, "names_any")) any =
        any || strcasestr(str_text(&s), w->valuestring);
    arena_free(&a);
    return ok && any;
}

static void judge(const char *path, const char *name, const cJSON *expect, struct counts *n)
{
    const cJSON *error = cJSON_GetObjectItem(expect, "error");
    const cJSON *parse = cJSON_GetObjectItem(expect, "parse");
    const cJSON *stage = cJSON_GetObjectItem(error, "stage");
    struct fixture f;
    start(&f);
    f.m = module_load(f.c, path, NULL, f.d);
    if (error &&
        (strcmp(stage->valuestring, "parse") == 0 || strcmp(stage->valuestring, "verify") == 0)) {
        bool met = false;
        for (int64_t i = 0; i < f.d->msgs.n; i++)
            met = met || meets(&f.d->msgs.v[i], error);
        if (f.m || !met)
            fail_msg("%s: expected another error:\n%s", name, messages(&f));
        n->refused++;
    } else if (parse) {
        const cJSON *or_error = cJSON_GetObjectItem(expect, "or_error");
        if (!f.m && !or_error)
            fail_msg("%s:\n%s", name, messages(&f));
        const cJSON *count =
            cJSON_GetObjectItem(cJSON_GetObjectItem(expect, "facts"), "instructions");
        const cJSON *root = cJSON_GetObjectItem(cJSON_GetObjectItem(expect, "facts"), "root");
        const struct computation *e = comp_at(f.m, f.m->entry);
        if (count)
            assert_int_equal(e->ninstrs, count->valueint);
        if (root)
            assert_string_equal(name_text(f.c, instr_at(f.m, e->root)->name), root->valuestring);
        text_round_trips(name, printed(&f, f.m, NULL));
        n->same++;
    } else {
        n->skipped++;
    }
    stop(&f);
}

static void every_case_is_read_or_refused(void **state)
{
    (void)state;
    const char *shared = shared_folder();
    if (!shared) {
        print_message("reference material not found: parse and error cases skipped\n");
        skip();
    }
    char path[4400];
    snprintf(path, sizeof path, "%s/cases/cases.jsonl", shared);
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    struct counts n = { 0 };
    while (f && getline(&line, &cap, f) > 0) {
        cJSON *c = cJSON_Parse(line);
        const char *file = cJSON_GetObjectItem(c, "file")->valuestring;
        snprintf(path, sizeof path, "%s/cases/%s", shared, file);
        if (!ends_with(file, ".mlir"))
            judge(path, file, cJSON_GetObjectItem(c, "expect"), &n);
        cJSON_Delete(c);
    }
    free(line);
    if (f)
        fclose(f);
    print_message("%d read, %d refused as expected, %d of other kinds\n", n.same, n.refused,
                  n.skipped);
    assert_true(n.same > 20 && n.refused > 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dump_prints_back),
        cmocka_unit_test(every_corpus_module_reads),
        cmocka_unit_test(every_case_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
