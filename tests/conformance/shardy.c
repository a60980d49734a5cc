/* shardy.jsonl: functions of Shardy's propagation tests, in StableHLO with its annotations. Shardy's answers
 * are not GSPMD's, so that what is judged here is reading and printing: each module loads, and comes back
 * from its StableHLO text and from its HLO text as the same module. A program of two meshes of different
 * sizes has no number of devices: it is to be refused, with that reason. */
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "ir/ir.h"
#include "text/text.h"
#include "text/unique.h"

struct loaded {
    struct ir *c;
    struct diag *d;
    struct module *m;
};

static void load(struct loaded *l, const char *name, const char *text, size_t n)
{
    l->c = ir_new();
    l->d = diag_new();
    l->m = module_load_text(l->c, name, text, n, NULL, l->d);
}

static void unload(struct loaded *l)
{
    if (l->m)
        module_free(l->m);
    diag_free(l->d);
    ir_free(l->c);
}

static const char *first_error(const struct loaded *l)
{
    for (int64_t k = 0; k < l->d->msgs.n; k++)
        if (l->d->msgs.v[k].severity == DIAG_ERROR)
            return l->d->msgs.v[k].text;
    return "no message";
}

/* The first line of b that is not a's, for the report. */
static const char *difference(const char *a, const char *b)
{
    const char *line = b;
    for (; *a && *a == *b; a++, b++)
        line = *b == '\n' ? b + 1 : line;
    return line;
}

/* m printed as `form` and read again: the same module, that prints the same text. */
static bool comes_back(struct conformance *c, const char *name, const struct loaded *l, bool stablehlo)
{
    struct str text = STR_IN(&l->d->arena);
    const char *form = stablehlo ? "the same module from its StableHLO" : "the same module from its HLO";
    const struct hlo_print_options o = { .max_bytes = 0 };
    if (!stablehlo) { /* HLO text has a name for each instruction, and none twice */
        hlo_name_all(l->m);
        names_make_unique(l->m);
    }
    if (stablehlo ? !mlir_print(l->m, NULL, &text, l->d) : !hlo_print(l->m, &o, &text)) {
        conformance_fail(c, name, form, first_error(l));
        return false;
    }
    struct loaded again;
    load(&again, stablehlo ? "again.mlir" : "again.hlo", str_text(&text), text.n);
    bool ok = again.m != NULL;
    if (!ok) {
        conformance_fail(c, name, form, first_error(&again));
    } else {
        struct str x = STR_IN(&l->d->arena), y = STR_IN(&l->d->arena);
        ok = hlo_print(l->m, &o, &x) && hlo_print(again.m, &o, &y) && strcmp(str_text(&x), str_text(&y)) == 0;
        if (!ok) {
            const char *at = difference(str_text(&x), str_text(&y));
            conformance_fail(c, name, form, arena_strndup(&l->d->arena, at, strcspn(at, "\n")));
        } else if (!module_equal(l->m, again.m)) {
            conformance_fail(c, name, form, "another module that prints the same HLO");
            ok = false;
        }
    }
    unload(&again);
    return ok;
}

/* Devices of the mesh whose sizes begin at text; 0: it names its one device. */
static int64_t mesh_size(const char *text)
{
    int64_t devices = 1;
    const char *end = text + strcspn(text, "]");
    for (const char *p = text; (p = strchr(p, '=')) && p < end; p++) {
        int64_t size;
        if (parse_i64(p + 1, (size_t)(end - p - 1), &size))
            devices *= size;
    }
    return devices;
}

/* Two meshes of more than one device, and not the same number. */
static bool of_two_sizes(const char *text)
{
    int64_t first = 1;
    for (const char *p = text; (p = strstr(p, "sdy.mesh @")); p++) {
        const char *axes = strchr(p, '[');
        int64_t n = axes ? mesh_size(axes) : 1;
        if (n > 1 && first > 1 && n != first)
            return true;
        first = n > 1 ? n : first;
    }
    return false;
}

static void run(void *context, struct conformance *c, const cJSON *line)
{
    const char *name = field_text(line, "name"), *text = field_text(line, "mlir_in");
    int *refused = context;
    struct loaded l;
    load(&l, "case.mlir", text, strlen(text));
    if (l.m) {
        if (comes_back(c, name, &l, true) && comes_back(c, name, &l, false))
            conformance_pass(c, name);
    } else if (of_two_sizes(text) && strstr(first_error(&l), "the program runs on")) {
        ++*refused;
        conformance_pass(c, name);
    } else {
        conformance_fail(c, name, "a module", first_error(&l));
    }
    unload(&l);
}

void conformance_shardy(const char *path, struct conformance *c)
{
    char buffer[4096];
    int refused = 0;
    const char *file = conformance_file(path, "shardy.jsonl", buffer);
    if (!file)
        return;
    conformance_lines(file, c, run, &refused);
    if (refused)
        printf("%d of two meshes of different sizes: refused with that reason\n", refused);
}
