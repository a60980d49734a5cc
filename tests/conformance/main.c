/* gspmd-conformance [-v] [--only TEXT] [--expect FILE] FOLDER|FILE...: runs every file of cases in a
 * folder and ends with `N passed, N failed`. What a file holds is told by its name, else by the fields
 * of its first line. --expect: known faults, `FILE NAME REASON` a line: skipped when they fail, failed
 * when they pass. Exit status: 0 all passed, 1 some failed, 2 nothing could be read. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conformance.h"

/* A runner that is not linked in leaves its files skipped, and counted. */
#pragma weak conformance_propagation
#pragma weak conformance_partitioner
#pragma weak conformance_shardy
#pragma weak conformance_cases
#pragma weak conformance_inputs

typedef void runner(const char *path, struct conformance *c);

struct kind {
    const char *file; /* name without .jsonl */
    runner *run;
};

static void kinds_fill(struct kind *k)
{
    k[0] = (struct kind){ "sharding_syntax", conformance_syntax };
    k[1] = (struct kind){ "propagation", conformance_propagation };
    k[2] = (struct kind){ "partitioner", conformance_partitioner };
    k[3] = (struct kind){ "shardy", conformance_shardy };
    k[4] = (struct kind){ "cases", conformance_cases };
}

enum { NKINDS = 5 };

struct first_line {
    const struct kind *kinds;
    const struct kind *found;
    bool seen;
};

static bool has(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key) != NULL;
}

static void look_at_first(void *context, struct conformance *c, const cJSON *o)
{
    struct first_line *f = context;
    (void)c;
    if (f->seen)
        return;
    f->seen = true;
    if (has(o, "mlir_in"))
        f->found = &f->kinds[3];
    else if (has(o, "hlo") && has(o, "num_devices"))
        f->found = &f->kinds[2];
    else if (has(o, "hlo") && has(o, "expect"))
        f->found = &f->kinds[1];
    else if (has(o, "file") && has(o, "expect"))
        f->found = &f->kinds[4];
    else if (has(o, "kind") && has(o, "input"))
        f->found = &f->kinds[0];
}

static const struct kind *kind_of(const struct kind *kinds, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (int i = 0; i < NKINDS; i++) {
        size_t n = strlen(kinds[i].file);
        if (strncmp(base, kinds[i].file, n) == 0 && strcmp(base + n, ".jsonl") == 0)
            return &kinds[i];
    }
    struct first_line f = { .kinds = kinds };
    struct conformance quiet = { 0 };
    conformance_lines(path, &quiet, look_at_first, &f);
    return f.found;
}

static void skip_line(void *context, struct conformance *c, const cJSON *o)
{
    conformance_skip(c, field_text(o, "name"), context);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void run_file(const struct kind *kinds, const char *path, struct conformance *total)
{
    const struct kind *k = kind_of(kinds, path);
    struct conformance c = *total;
    c.passed = c.failed = c.skipped = 0;
    c.file = last_part(path);
    static char missing[] = "no runner for such files";
    if (k && k->run)
        k->run(path, &c);
    else
        conformance_lines(path, &c, skip_line, missing);
    printf("%s: %d passed, %d failed", path, c.passed, c.failed);
    if (c.skipped)
        printf(", %d skipped", c.skipped);
    printf("\n");
    (void)fflush(stdout);
    total->passed += c.passed;
    total->failed += c.failed;
    total->skipped += c.skipped;
}

static int is_jsonl(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 6 && strcmp(e->d_name + n - 6, ".jsonl") == 0;
}

static int is_recorded(const struct dirent *e)
{
    return strstr(e->d_name, ".xla.json") != NULL;
}

/* Every .jsonl file, and the dumps that stand beside XLA's recorded answers. */
static int run_folder(const struct kind *kinds, const char *path, struct conformance *c)
{
    struct dirent **list;
    int n = scandir(path, &list, is_jsonl, alphasort), found = n > 0 ? n : 0;
    for (int i = 0; i < n; i++) {
        char file[4096];
        (void)snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        run_file(kinds, file, c);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    n = scandir(path, &list, is_recorded, NULL);
    found += n > 0 ? n : 0;
    for (int i = 0; i < n; i++)
        free(list[i]);
    if (n >= 0)
        free(list);
    c->file = last_part(path);
    if (n > 0 && conformance_inputs)
        conformance_inputs(path, c->only, c);
    if (!found)
        (void)fprintf(stderr, "%s: nothing to run here\n", path);
    return found ? 0 : 2;
}

/* Prints the sum; the exit status. */
static int finish(const struct conformance *c, int status)
{
    printf("%d passed, %d failed", c->passed, c->failed);
    if (c->skipped)
        printf(", %d skipped", c->skipped);
    printf("\n");
    return status ? status : c->failed > 0;
}

/* ---- known faults -------------------------------------------------------------------------------- */

struct known_list {
    char *text;
    struct known_fault *v;
    int n;
};

/* Cuts the next word off a line. */
static char *word(char **line)
{
    char *w = *line + strspn(*line, " \t");
    char *end = w + strcspn(w, " \t");
    *line = *end ? end + 1 : end;
    *end = '\0';
    return w;
}

/* `FILE NAME REASON` a line; # starts a comment. The reason must be there. */
static bool known_read(const char *path, struct known_list *list)
{
    FILE *f = fopen(path, "r");
    size_t cap = 0;
    if (!f || getdelim(&list->text, &cap, '\0', f) < 0) {
        perror(path);
        if (f)
            (void)fclose(f);
        return false;
    }
    (void)fclose(f);
    char *rest = list->text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (line[0] == '#' || !line[strspn(line, " \t")])
            continue;
        struct known_fault *more = realloc(list->v, (size_t)(list->n + 1) * sizeof *more);
        if (!more)
            return false;
        list->v = more;
        struct known_fault *k = &list->v[list->n++];
        k->file = word(&line);
        k->name = word(&line);
        k->reason = line + strspn(line, " \t");
        if (!k->reason[0]) {
            (void)fprintf(stderr, "%s: %s %s: a reason is missing\n", path, k->file, k->name);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct known_list known = { 0 };
    struct kind kinds[NKINDS];
    struct conformance c = { 0 };
    int status = 0, paths = 0;
    kinds_fill(kinds);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (strcmp(argv[i], "-v") == 0) {
            c.verbose = true;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            c.only = argv[++i];
        } else if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc) {
            if (!known_read(argv[++i], &known))
                status = 2;
            c.known = known.v;
            c.nknown = known.n;
        } else if (stat(argv[i], &st) != 0) {
            perror(argv[i]);
            status = 2;
            paths++;
        } else {
            paths++;
            if (!S_ISDIR(st.st_mode))
                run_file(kinds, argv[i], &c);
            else if (run_folder(kinds, argv[i], &c))
                status = 2;
        }
    }
    if (!paths) {
        (void)fprintf(stderr, "usage: gspmd-conformance [-v] [--only TEXT] [--expect FILE] FOLDER|FILE...\n");
        status = 2;
    } else {
        status = finish(&c, status);
    }
    free(known.v);
    free(known.text);
    return status;
}
