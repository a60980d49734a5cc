/* cases.jsonl: every expectation of a folder of cases. A case passes when all fields of its expect
 * hold. Each runs in a process of its own, so that one that crashes or hangs fails alone. */
#include "conformance.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "repl/shell.h"
#include "text/text.h"

enum { SECONDS = 30, TABLE = 32 };

/* ---- asking --------------------------------------------------------------------------------------------- */

struct heard {
    struct str text, messages;
};

static void hear(void *context, bool message, const char *bytes, size_t n)
{
    struct heard *h = context;
    str_add(message ? &h->messages : &h->text, bytes, n);
}

static void read_objects(struct one_case *c, struct answer *a)
{
    for (const char *p = a->text; *p;) {
        size_t n = strcspn(p, "\n");
        cJSON *o = cJSON_ParseWithLength(p, n);
        if (cJSON_IsObject(o))
            vec_push(&c->arena, &a->objects, o);
        else
            cJSON_Delete(o);
        p += n + (p[n] == '\n');
    }
}

/* What a program says when it goes wrong by itself must not be what a user reads. */
static const char *crash_word(const char *text)
{
    static const char *const words[] = { "ssert", "Check failed", "terminate called", "what():", "acktrace",
                                         "Traceback", "Sanitizer", ": runtime error: ", "stack smashing", "double free" };
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (strstr(text, words[k]))
            return words[k];
    return NULL;
}

const struct answer *ask(struct one_case *c, const char *model, enum ask how, const char *fmt, ...)
{
    struct answer *a = ARENA_NEW(&c->arena, struct answer);
    struct heard h = { STR_IN(&c->arena), STR_IN(&c->arena) };
    struct str script = STR_IN(&c->arena);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&script, fmt, ap);
    va_end(ap);
    a->next = c->answers;
    c->answers = a;
    (void)alarm(SECONDS);
    struct shell *sh = shell_new((struct sink){ hear, &h });
    if (!sh)
        abort();
    sh->quiet = true;
    sh->json = how == AS_JSON;
    a->status = model ? shell_load(sh, model) : STATUS_OK;
    static const char best[] = "set partitioner=best";
    if (!a->status && c->best)
        a->status = shell_run(sh, "<option>", best, sizeof best - 1);
    if (!a->status)
        a->status = shell_run(sh, "<command>", str_text(&script), script.n);
    shell_free(sh);
    (void)alarm(0);
    a->text = str_text(&h.text);
    a->messages = str_text(&h.messages);
    if (how == AS_JSON)
        read_objects(c, a);
    if (a->status == STATUS_INTERNAL)
        wrong(c, "%s: a bug of its own: %s", str_text(&script), failure(c, a));
    else if (crash_word(a->messages))
        wrong(c, "%s: says %s", str_text(&script), crash_word(a->messages));
    return a;
}

void wrong(struct one_case *c, const char *fmt, ...)
{
    struct str s = STR_IN(&c->arena);
    va_list ap;
    va_start(ap, fmt);
    str_addf(&s, "%s: ", c->field);
    str_addv(&s, fmt, ap);
    va_end(ap);
    const char *text = str_text(&s);
    for (int64_t k = 0; k < c->wrong.n; k++)
        if (strcmp(c->wrong.v[k], text) == 0)
            return;
    vec_push(&c->arena, &c->wrong, text);
}

const cJSON *answer_to(const struct answer *a, const char *command)
{
    for (int64_t k = 0; k < a->objects.n; k++)
        if (strcmp(field_text(a->objects.v[k], "command"), command) == 0 && !at(a->objects.v[k], "error"))
            return a->objects.v[k];
    return NULL;
}

const cJSON *need(struct one_case *c, const struct answer *a, const char *command)
{
    const cJSON *o = answer_to(a, command);
    if (!o)
        wrong(c, "no answer to %s: %s", command, failure(c, a));
    return o;
}

const char *failure(struct one_case *c, const struct answer *a)
{
    const char *said = a->messages + strspn(a->messages, " \n");
    size_t n = strcspn(said, "\n");
    for (int64_t k = 0; n == 0 && k < a->objects.n; k++) {
        said = field_text(at(a->objects.v[k], "error"), "message");
        n = strcspn(said, "\n");
    }
    return arena_printf(&c->arena, "exit status %d: %.*s", a->status, (int)n, n ? said : "");
}

const char *said_on_error(struct one_case *c, const struct answer *a)
{
    struct str s = STR_IN(&c->arena);
    const cJSON *e;
    str_adds(&s, a->messages);
    for (int64_t k = 0; k < a->objects.n; k++)
        cJSON_ArrayForEach(e, at(a->objects.v[k], "error"))
        {
            if (cJSON_IsString(e))
                str_addf(&s, "\n%s", e->valuestring);
            else if (cJSON_IsNumber(e))
                str_addf(&s, "\n%.0f", e->valuedouble);
        }
    return str_text(&s);
}

const char *warnings_of(struct one_case *c, const struct answer *a)
{
    struct str s = STR_IN(&c->arena);
    const cJSON *e;
    for (int64_t k = 0; k < a->objects.n; k++)
        cJSON_ArrayForEach(e, at(a->objects.v[k], "warnings"))
            if (cJSON_IsString(e))
                str_addf(&s, "%s\n", e->valuestring);
    str_adds(&s, a->messages);
    return str_text(&s);
}

const char *everything(struct one_case *c, const struct answer *a)
{
    return arena_printf(&c->arena, "%s\n%s", a->text, a->messages);
}

const char *in_folder(struct one_case *c, const char *name)
{
    return arena_printf(&c->arena, "%s/%s", c->folder, name);
}

/* ---- words ------------------------------------------------------------------------------------------------ */

const cJSON *at(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key);
}

const char *string_of(const cJSON *x)
{
    return cJSON_IsString(x) ? x->valuestring : NULL;
}

static bool in_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_' || (unsigned char)ch >= 0x80;
}

static const char *find(const char *text, const char *word, bool ignore_case)
{
    return ignore_case ? strcasestr(text, word) : strstr(text, word);
}

bool has_word(const char *text, const char *word, bool ignore_case)
{
    size_t n = strlen(word);
    for (const char *p = text; n && (p = find(p, word, ignore_case)) != NULL; p++) {
        if (n > 3)
            return true;
        bool before = in_word(word[0]) && p > text && in_word(p[-1]);
        bool after = in_word(word[n - 1]) && in_word(p[n]);
        if (!before && !after)
            return true;
    }
    return n == 0;
}

bool any_word(const char *text, const cJSON *list)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, list)
        if (cJSON_IsString(e) && strcasestr(text, e->valuestring))
            return true;
    return false;
}

bool list_has(const cJSON *list, const char *word)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, list)
        if (cJSON_IsString(e) && strcmp(e->valuestring, word) == 0)
            return true;
    return false;
}

bool words_are_there(const char *text, const cJSON *wanted)
{
    const cJSON *e, *any = at(wanted, "names_any");
    cJSON_ArrayForEach(e, at(wanted, "names"))
        if (!cJSON_IsString(e) || !has_word(text, e->valuestring, false))
            return false;
    return !cJSON_GetArraySize(any) || any_word(text, any);
}

void want_words(struct one_case *c, const char *text, const cJSON *wanted, const char *how)
{
    const cJSON *e, *any = at(wanted, "names_any");
    cJSON_ArrayForEach(e, at(wanted, "names"))
        if (!cJSON_IsString(e) || !has_word(text, e->valuestring, false))
            wrong(c, "%sdoes not say '%s'", how, cJSON_IsString(e) ? e->valuestring : "?");
    if (cJSON_GetArraySize(any) && !any_word(text, any)) {
        char *list = cJSON_PrintUnformatted(any);
        wrong(c, "%ssays none of %s", how, list);
        free(list);
    }
}

bool known_fields(struct one_case *c, const cJSON *wanted, const char *field, const char *known)
{
    const cJSON *e;
    bool ok = true;
    cJSON_ArrayForEach(e, wanted)
        if (!has_word(known, e->string, false) || !strstr(known, arena_printf(&c->arena, " %s ", e->string))) {
            wrong(c, "unknown field %s.%s", field, e->string);
            ok = false;
        }
    return ok;
}

/* ---- what several checks ask ------------------------------------------------------------------------------- */

const char *row_name(const cJSON *row)
{
    const char *name = field_text(row, "name");
    return name + (name[0] == '%');
}

/* The word behind ENTRY at the start of a line; "main" where the text has none. */
const char *entry_name(struct one_case *c)
{
    for (const char *p = c->raw; p && *p; p = strchr(p, '\n')) {
        p += strspn(p, " \t\r\n");
        if (strncmp(p, "ENTRY", 5) != 0 || !isspace((unsigned char)p[5]))
            continue;
        p += 5 + strspn(p + 5, " \t");
        p += *p == '%';
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || (p[n] && strchr("_.-", p[n])))
            n++;
        return arena_strndup(&c->arena, p, n);
    }
    return "main";
}

int64_t shown_rows(struct one_case *c, const char *name, const char *computation, const cJSON ***rows)
{
    VEC(const cJSON *) all = { 0 }, here = { 0 };
    const cJSON *show = need(c, ask(c, c->model, AS_JSON, "show --all"), "show"), *e;
    if (!show)
        return -1;
    const char *entry = entry_name(c);
    cJSON_ArrayForEach(e, at(show, "instructions"))
    {
        const char *home = field_text(e, "computation");
        if (strcmp(row_name(e), name) != 0 || (computation && strcmp(computation, home) != 0))
            continue;
        vec_push(&c->arena, &all, e);
        if (strcmp(home, entry) == 0)
            vec_push(&c->arena, &here, e);
    }
    *rows = here.n ? here.v : all.v;
    return here.n ? here.n : all.n;
}

const char *read_text(struct one_case *c, const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    struct str s = STR_IN(&c->arena);
    char buffer[16384];
    size_t got;
    while ((got = fread(buffer, 1, sizeof buffer, f)) > 0)
        str_add(&s, buffer, got);
    (void)fclose(f);
    if (n)
        *n = s.n;
    return str_text(&s);
}

const char *exported(struct one_case *c, const char *model, const char *what, const char *name)
{
    const char *path = in_folder(c, name);
    const struct answer *a = ask(c, model, AS_JSON, "export %s %s", what, path);
    if (access(path, R_OK) == 0)
        return path;
    wrong(c, "export %s: %s", what, failure(c, a));
    return NULL;
}

const char *all_warnings(struct one_case *c)
{
    const struct answer *show = ask(c, c->model, AS_JSON, "show"), *comms = ask(c, c->model, AS_JSON, "comms"),
                        *doctor = ask(c, c->model, AS_JSON, "doctor");
    return arena_printf(&c->arena, "%s\n%s\n%s", warnings_of(c, show), warnings_of(c, comms), everything(c, doctor));
}

/* ---- the fields ----------------------------------------------------------------------------------------------- */

static void no_assertion(struct one_case *c, const cJSON *wanted)
{
    (void)c;
    (void)wanted;
}

static const struct field {
    const char *name;
    void (*check)(struct one_case *c, const cJSON *wanted); /* NULL: it softens another one */
} fields[] = {
    { "numbers", check_numbers },         { "shardings", check_shardings }, { "collectives", check_collectives },
    { "why", check_why },                 { "blame", check_blame },         { "conflict", check_conflict },
    { "diagnosis", check_diagnosis },     { "error", check_error },         { "parse", check_parse },
    { "roundtrip", check_roundtrip },     { "facts", check_facts },         { "run_warns", check_run_warns },
    { "draw", check_draw },               { "seconds", no_assertion },      { "or_warning", NULL },
    { "or_error", NULL },                 { "or_diagnosis", NULL },
};

static const struct field *field_find(const char *name)
{
    for (size_t k = 0; k < COUNTOF(fields); k++)
        if (strcmp(fields[k].name, name) == 0)
            return &fields[k];
    return NULL;
}

/* One line a field, "+name" or "-name"; then one a thing that is wrong, "!..."; "." at the end. */
static void judge(struct one_case *c, FILE *report)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, c->expect)
    {
        const struct field *f = field_find(e->string);
        int64_t before = c->wrong.n;
        c->field = e->string;
        if (!f)
            wrong(c, "unknown field, which is not judged");
        else if (f->check)
            f->check(c, e);
        else
            continue;
        const cJSON *or_diagnosis = at(c->expect, "or_diagnosis");
        if (c->wrong.n > before && strcmp(e->string, "numbers") == 0 && or_diagnosis &&
            any_word(all_warnings(c), at(or_diagnosis, "names_any")))
            c->wrong.n = before;
        (void)fprintf(report, "%c%s\n", c->wrong.n > before ? '-' : '+', e->string);
    }
    for (int64_t k = 0; k < c->wrong.n; k++) {
        (void)fputc('!', report);
        for (const char *p = c->wrong.v[k]; *p; p++)
            (void)fputc(*p == '\n' ? ' ' : *p, report);
        (void)fputc('\n', report);
    }
    (void)fputs(".\n", report);
}

/* The case's input in its folder; false: it cannot be read. */
static bool copy_input(struct one_case *c, const char *cases)
{
    const char *name = field_text(c->json, "file");
    size_t n;
    c->is_mlir = strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".mlir") == 0;
    const char *text = read_text(c, arena_printf(&c->arena, "%s/%s", cases, name), &n);
    c->model = in_folder(c, name);
    FILE *f = text && !strchr(name, '/') ? fopen(c->model, "wb") : NULL;
    if (!f)
        return false;
    bool ok = fwrite(text, 1, n, f) == n;
    ok = fclose(f) == 0 && ok;
    struct diag *d = diag_new();
    struct source *src;
    c->raw = "";
    if (file_read(c->model, &src, d)) {
        c->raw = arena_strndup(&c->arena, src->text, src->len);
        c->nraw = src->len;
        source_free(src);
    }
    diag_free(d);
    return ok;
}

/* Less than XLA sends is wanted: by the bound, or since nothing is to be sent at all. */
static bool wants_best(const cJSON *expect)
{
    const cJSON *o = at(expect, "collectives"), *most = at(o, "max_bytes"), *xla = at(o, "xla_bytes");
    if (!cJSON_IsNumber(xla))
        return false;
    if (cJSON_IsNumber(most))
        return most->valuedouble < xla->valuedouble;
    return xla->valuedouble > 0 && cJSON_GetArraySize(at(o, "none")) > 2;
}

static void run_here(const cJSON *json, const char *cases, const char *folder, FILE *report)
{
    struct one_case c = { .json = json, .expect = at(json, "expect"), .folder = folder, .field = "file",
                          .best = wants_best(at(json, "expect")) };
    if (!cJSON_IsObject(c.expect) || !c.expect->child) {
        (void)fputs("!nothing is expected\n.\n", report);
    } else if (!copy_input(&c, cases)) {
        (void)fprintf(report, "!file: %s cannot be read\n.\n", field_text(json, "file"));
    } else {
        judge(&c, report);
    }
    for (struct answer *a = c.answers; a; a = a->next)
        for (int64_t k = 0; k < a->objects.n; k++)
            cJSON_Delete(a->objects.v[k]);
    arena_free(&c.arena);
}

/* ---- a process a case ------------------------------------------------------------------------------------------ */

struct tally {
    const char *name[TABLE];
    int good[TABLE], all[TABLE];
    int n;
};

struct cases {
    char folder[4096];
    struct tally kinds, fields;
    struct arena arena;
};

static void count(struct arena *a, struct tally *t, const char *name, bool ok)
{
    int k = 0;
    while (k < t->n && strcmp(t->name[k], name) != 0)
        k++;
    if (k == TABLE)
        return;
    if (k == t->n)
        t->name[t->n++] = arena_strdup(a, name);
    t->all[k]++;
    t->good[k] += ok;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    if (dir) {
        for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
            char inner[4096];
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                continue;
            (void)snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
            if (unlink(inner) != 0)
                remove_folder(inner);
        }
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

static char *read_all(int fd)
{
    char *text = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (cap - n < 4096) {
            char *more = realloc(text, cap = 2 * cap + 8192);
            if (!more)
                abort();
            text = more;
        }
        ssize_t got = read(fd, text + n, cap - n - 1);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    text[n] = '\0';
    return text;
}

static const char *how_it_ended(struct arena *a, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return arena_printf(a, "no answer in %d s", SECONDS);
    if (WIFSIGNALED(status))
        return arena_printf(a, "killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status) ? arena_printf(a, "exit status %d (leaks or a crash)", WEXITSTATUS(status)) : NULL;
}

static void take_report(struct cases *all, struct conformance *c, const cJSON *json, const char *text, int status)
{
    struct str why = STR_IN(&all->arena);
    const char *name = field_text(json, "name"), *end = how_it_ended(&all->arena, status);
    bool ended = false;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (*p == '+' || *p == '-')
            count(&all->arena, &all->fields, arena_strndup(&all->arena, p + 1, n - 1), *p == '+');
        else if (*p == '!')
            str_addf(&why, "%s%.*s", why.n ? "; " : "", (int)(n - 1), p + 1);
        ended = ended || (*p == '.' && n == 1);
        p += n + (p[n] == '\n');
    }
    if (end || !ended)
        str_addf(&why, "%s%s", why.n ? "; " : "", end ? end : "it ended early");
    bool ok = why.n == 0;
    count(&all->arena, &all->kinds, field_text(json, "kind"), ok);
    if (ok)
        conformance_pass(c, name);
    else
        conformance_fail(c, name, NULL, str_text(&why));
}

static void run_case(void *context, struct conformance *c, const cJSON *json)
{
    struct cases *all = context;
    const char *tmp = getenv("TMPDIR");
    char folder[4096];
    int pipe_ends[2];
    (void)snprintf(folder, sizeof folder, "%s/gspmd-case-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(folder) || pipe(pipe_ends) != 0) {
        conformance_fail(c, field_text(json, "name"), NULL, "no temporary folder");
        return;
    }
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)close(pipe_ends[0]);
        FILE *report = fdopen(pipe_ends[1], "w");
        if (!report)
            _exit(1);
        run_here(json, all->folder, folder, report);
        (void)fclose(report);
        exit(0); /* not _exit: what was lost is to be found */
    }
    (void)close(pipe_ends[1]);
    char *text = read_all(pipe_ends[0]);
    int status = 1 << 8;
    (void)close(pipe_ends[0]);
    if (child > 0)
        (void)waitpid(child, &status, 0);
    take_report(all, c, json, text, status);
    free(text);
    remove_folder(folder);
}

static int by_name(const void *x, const void *y, void *context)
{
    const struct tally *t = context;
    return strcmp(t->name[*(const int *)x], t->name[*(const int *)y]);
}

static void print_tables(struct cases *all)
{
    int order[TABLE];
    for (int k = 0; k < all->kinds.n; k++)
        order[k] = k;
    qsort_r(order, (size_t)all->kinds.n, sizeof *order, by_name, &all->kinds);
    printf("\nkind         passed  of\n");
    for (int k = 0; k < all->kinds.n; k++)
        printf("%-12s %6d  %3d\n", all->kinds.name[order[k]], all->kinds.good[order[k]], all->kinds.all[order[k]]);
    for (int k = 0; k < all->fields.n; k++)
        order[k] = k;
    qsort_r(order, (size_t)all->fields.n, sizeof *order, by_name, &all->fields);
    printf("by field: ");
    for (int k = 0; k < all->fields.n; k++)
        printf("%s%s %d/%d", k ? ", " : "", all->fields.name[order[k]], all->fields.good[order[k]], all->fields.all[order[k]]);
    printf("\n");
}

void conformance_cases(const char *path, struct conformance *c)
{
    char buffer[4096];
    struct cases all = { 0 };
    const char *file = conformance_file(path, "cases.jsonl", buffer);
    if (!file)
        return;
    const char *slash = strrchr(file, '/');
    (void)snprintf(all.folder, sizeof all.folder, "%.*s", slash ? (int)(slash - file) : 1, slash ? file : ".");
    conformance_lines(file, c, run_case, &all);
    if (all.kinds.n)
        print_tables(&all);
    arena_free(&all.arena);
}
