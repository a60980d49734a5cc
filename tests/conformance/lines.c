/* What the runners share: reading JSON lines, counting, saying what failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conformance.h"

const char *conformance_file(const char *path, const char *usual, char *buffer)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!folder)
        return path;
    (void)snprintf(buffer, 4096, "%s/%s", path, usual);
    return stat(buffer, &st) == 0 ? buffer : NULL;
}

static void one_line(char *line, int number, struct conformance *c, conformance_fn *fn, void *context)
{
    if (!line[strspn(line, " \t\r")])
        return;
    cJSON *o = cJSON_Parse(line);
    if (!o) {
        char name[64];
        (void)snprintf(name, sizeof name, "line %d", number);
        conformance_fail(c, name, "a JSON object", "something else");
        return;
    }
    if (!c->only || strstr(field_text(o, "name"), c->only))
        fn(context, c, o);
    cJSON_Delete(o);
}

/* All of the file first: a runner may fork, and a child that ends moves the place of an open file. */
void conformance_lines(const char *path, struct conformance *c, conformance_fn *fn, void *context)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0;
    ssize_t n = f ? getdelim(&text, &cap, '\0', f) : -1;
    if (n < 0 && (!f || ferror(f)))
        conformance_fail(c, path, "a file", strerror(errno));
    if (f)
        (void)fclose(f);
    char *rest = n > 0 ? text : NULL;
    for (int number = 1; rest; number++)
        one_line(strsep(&rest, "\n"), number, c, fn, context);
    free(text);
}

static const struct known_fault *known(const struct conformance *c, const char *name)
{
    for (int k = 0; c->file && k < c->nknown; k++)
        if (strcmp(c->known[k].file, c->file) == 0 && strcmp(c->known[k].name, name) == 0)
            return &c->known[k];
    return NULL;
}

void conformance_pass(struct conformance *c, const char *name)
{
    if (known(c, name)) {
        c->failed++;
        printf("FAIL %s: passes: take it off the list of known faults\n", name);
        return;
    }
    c->passed++;
    if (c->verbose)
        printf("pass %s\n", name);
}

void conformance_fail(struct conformance *c, const char *name, const char *expected,
                      const char *got)
{
    const struct known_fault *fault = known(c, name);
    if (fault) {
        c->skipped++;
        printf("known %s: %s\n", name, fault->reason);
        if (!c->verbose)
            return;
    } else {
        c->failed++;
    }
    printf("%s %s:", fault ? "    " : "FAIL", name);
    if (expected)
        printf(" expected %s", expected);
    printf("%s %s\n", expected ? " got" : "", got ? got : "nothing");
}

void conformance_skip(struct conformance *c, const char *name, const char *why)
{
    c->skipped++;
    if (c->verbose)
        printf("skip %s: %s\n", name, why);
}

void add_reason(struct str *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_adds(why, why->n ? "; " : "");
    str_addv(why, fmt, ap);
    va_end(ap);
}

const char *field_text(const cJSON *o, const char *key)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(x) ? x->valuestring : "";
}

int64_t field_int(const cJSON *o, const char *key)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(x) ? (int64_t)x->valuedouble : -1;
}

bool field_true(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}
