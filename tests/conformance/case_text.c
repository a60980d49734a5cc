/* Reading and printing: parse, facts, roundtrip. */
#include "conformance.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "meaning.h"

/* A clear refusal instead of success, where the case allows it. */
static bool refusal_is_as_good(struct one_case *c, const struct answer *a)
{
    const cJSON *wanted = at(c->expect, "or_error");
    return wanted && a->status == 3 && words_are_there(said_on_error(c, a), wanted);
}

static bool is_refused(struct one_case *c)
{
    return at(c->expect, "or_error") && refusal_is_as_good(c, ask(c, c->model, AS_JSON, "info"));
}

void check_parse(struct one_case *c, const cJSON *wanted)
{
    if (!cJSON_IsString(wanted) || strcmp(wanted->valuestring, "ok") != 0) {
        wrong(c, "unknown value");
        return;
    }
    const struct answer *a = ask(c, c->model, AS_JSON, "info");
    if (a->status && !refusal_is_as_good(c, a))
        wrong(c, "not read: %s", failure(c, a));
}

/* ---- roundtrip ---------------------------------------------------------------------------------------------- */

static int64_t line_of(const char *a, const char *b)
{
    int64_t line = 1;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    return line;
}

static const char *row_text(struct one_case *c, const cJSON *row)
{
    const char *s = string_of(at(row, "sharding"));
    return arena_printf(&c->arena, "%s/%s %s %s %s", field_text(row, "computation"), field_text(row, "name"),
                        field_text(row, "opcode"), field_text(row, "shape"), s ? s : "-");
}

static void same_module(struct one_case *c, const char *form, const char *second)
{
    const cJSON *a = need(c, ask(c, c->model, AS_JSON, "show --all"), "show");
    const cJSON *b = need(c, ask(c, second, AS_JSON, "show --all"), "show");
    if (!a || !b)
        return;
    const cJSON *x = at(a, "instructions"), *y = at(b, "instructions");
    if (cJSON_GetArraySize(x) != cJSON_GetArraySize(y)) {
        wrong(c, "export %s: another number of instructions", form);
        return;
    }
    for (x = x ? x->child : NULL, y = y ? y->child : NULL; x && y; x = x->next, y = y->next) {
        const char *p = row_text(c, x), *q = row_text(c, y);
        if (strcmp(p, q) != 0) {
            wrong(c, "export %s: another module: %s, then %s", form, p, q);
            return;
        }
    }
}

static void roundtrip(struct one_case *c, const char *form, const char *ending, bool same_rows)
{
    size_t n, m;
    const char *first = exported(c, c->model, form, arena_printf(&c->arena, "first.%s", ending));
    if (!first)
        return;
    const char *second = exported(c, first, form, arena_printf(&c->arena, "second.%s", ending));
    if (!second)
        return;
    const char *a = read_text(c, first, &n), *b = read_text(c, second, &m);
    if (!a || !b || n != m || memcmp(a, b, n) != 0)
        wrong(c, "export %s: another text the second time, from line %" PRId64, form, a && b ? line_of(a, b) : 0);
    if (same_rows)
        same_module(c, form, first);
}

void check_roundtrip(struct one_case *c, const cJSON *wanted)
{
    if (!cJSON_IsTrue(wanted)) {
        wrong(c, "unknown value");
        return;
    }
    if (is_refused(c))
        return;
    roundtrip(c, "hlo", "hlo", !c->is_mlir);
    if (c->is_mlir)
        roundtrip(c, "stablehlo", "mlir", true);
}

/* ---- facts --------------------------------------------------------------------------------------------------- */

static size_t name_length(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || (p[n] && strchr("_.-", p[n])))
        n++;
    return n;
}

/* The name that stands behind a word at the start of a line, from *from on; moves *from there. */
static const char *name_behind(struct one_case *c, const char **from, const char *word, bool indented)
{
    for (const char *p = *from; p && *p;) {
        const char *q = p + (indented ? strspn(p, " \t") : 0);
        if (strncmp(q, word, strlen(word)) == 0 && isspace((unsigned char)q[strlen(word)])) {
            q += strlen(word);
            q += strspn(q, " \t");
            q += *q == '%';
            *from = q;
            return arena_strndup(&c->arena, q, name_length(q));
        }
        p = strchr(p, '\n');
        p += p != NULL;
    }
    return NULL;
}

/* The rest of the line that defines an instruction, from its opcode's text on; NULL. */
static const char *definition(struct one_case *c, const char *text, const char *name)
{
    for (const char *p = text; p && *p;) {
        const char *q = p + strspn(p, " \t");
        if (strncmp(q, "ROOT ", 5) == 0)
            q += 5;
        q += *q == '%';
        size_t n = name_length(q);
        if (n == strlen(name) && memcmp(q, name, n) == 0 && strncmp(q + n, " = ", 3) == 0)
            return arena_strndup(&c->arena, q + n + 3, strcspn(q + n + 3, "\n"));
        p = strchr(p, '\n');
        p += p != NULL;
    }
    return NULL;
}

/* Names of the functions of StableHLO's text, blank-separated with one in front. */
static const char *functions_of(struct one_case *c)
{
    struct str s = STR_IN(&c->arena);
    str_addc(&s, ' ');
    for (const char *p = c->raw; (p = strstr(p, "func.func ")) != NULL;) {
        p += strlen("func.func ");
        p += strncmp(p, "public ", 7) == 0 ? 7 : strncmp(p, "private ", 8) == 0 ? 8 : 0;
        p += *p == '@';
        p += *p == '"';
        str_addf(&s, "%.*s ", (int)name_length(p), p);
    }
    return str_text(&s);
}

struct facts {
    const cJSON *rows;
    const char *text, *entry, *root, *homes; /* homes: computations whose instructions count */
    int64_t mine, all;
};

static bool is_mine(struct one_case *c, const struct facts *f, const cJSON *row)
{
    return strstr(f->homes, arena_printf(&c->arena, " %s ", field_text(row, "computation"))) != NULL;
}

static void want_number(struct one_case *c, const cJSON *wanted, const char *key, int64_t found)
{
    if (at(wanted, key) && field_int(wanted, key) != found)
        wrong(c, "%s: %" PRId64 ", not %" PRId64, key, found, field_int(wanted, key));
}

static void want_string(struct one_case *c, const cJSON *wanted, const char *key, const char *found)
{
    if (at(wanted, key) && strcmp(field_text(wanted, key), found ? found : "") != 0)
        wrong(c, "%s: %s, not %s", key, found ? found : "none", field_text(wanted, key));
}

/* f32[2,3]{1,0} -> f32[2,3] */
static const char *without_layout(struct one_case *c, const char *shape)
{
    struct str s = STR_IN(&c->arena);
    for (const char *p = shape; *p; p++) {
        size_t n = *p == '{' ? strspn(p + 1, "0123456789,") : 0;
        if (*p == '{' && p[n + 1] == '}')
            p += n + 1;
        else
            str_addc(&s, *p);
    }
    return str_text(&s);
}

static const char *root_shape(struct one_case *c, const struct facts *f)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, f->rows)
        if ((is_mine(c, f, row) || f->mine == 0) && f->root && strcmp(field_text(row, "name"), f->root) == 0)
            return without_layout(c, field_text(row, "shape"));
    return NULL;
}

static void check_count(struct one_case *c, const struct facts *f, int64_t wanted)
{
    static const char *const ring[] = { "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute" };
    const cJSON *comms = answer_to(ask(c, c->model, AS_JSON, "comms"), "comms"), *row;
    int64_t listed = cJSON_GetArraySize(at(comms, "collectives")), in_text = 0;
    cJSON_ArrayForEach(row, f->rows)
    {
        const char *op = field_text(row, "opcode");
        size_t n = strlen(op);
        n -= n > 6 && strcmp(op + n - 6, "-start") == 0 ? 6 : 0;
        for (size_t k = 0; k < COUNTOF(ring); k++)
            in_text += strlen(ring[k]) == n && memcmp(ring[k], op, n) == 0;
    }
    if (wanted != listed && wanted != in_text)
        wrong(c, "collectives: %" PRId64 ", in comms %" PRId64 ", not %" PRId64, in_text, listed, wanted);
}

/* ---- groups ----------------------------------------------------------------------------------------------- */

/* Groups of any spelling, listed: {{0,1},{2,3}}. By what the devices are, read with the cases' own
 * reader of tilings where the text has one. NULL: not understood. */
static const char *listed_groups(struct one_case *c, const char *spelled)
{
    struct str s = STR_IN(&c->arena);
    const struct meaning *m = NULL;
    int64_t dims[2];
    int used = 0;
    if (spelled[0] == '{' || strncmp(spelled, "[[", 2) == 0) {
        for (const char *p = spelled; *p; p++)
            if (!isspace((unsigned char)*p))
                str_addc(&s, *p == '[' ? '{' : *p == ']' ? '}' : *p);
        return str_text(&s);
    }
    /* [2,4]<=[8]: cell by cell as a tile assignment, a device a tile. */
    if (sscanf(spelled, "[%" SCNd64 ",%" SCNd64 "]%n", &dims[0], &dims[1], &used) != 2 || !used)
        return NULL;
    const char *devices = arena_printf(&c->arena, "{devices=[%" PRId64 ",%" PRId64 "]%s}", dims[0], dims[1], spelled + used);
    m = meaning_read(&c->arena, devices, strlen(devices));
    if (!m || m->kind != MEANS_TILED || m->nholders != dims[0] * dims[1])
        return NULL;
    str_addc(&s, '{');
    for (int64_t k = 0; k < m->nholders; k++)
        str_addf(&s, "%s%" PRId64 "%s", k % dims[1] ? "," : k ? ",{" : "{", m->holders[k], k % dims[1] == dims[1] - 1 ? "}" : "");
    str_addc(&s, '}');
    return str_text(&s);
}

/* By the exported text with its groups listed, else by comms. */
static void check_groups(struct one_case *c, const struct facts *f, const char *name, const char *wanted)
{
    const char *line = definition(c, f->text, name), *spelled = line ? strstr(line, "replica_groups=") : NULL;
    struct str seen = STR_IN(&c->arena);
    const cJSON *comms = answer_to(ask(c, c->model, AS_JSON, "comms"), "comms"), *row;
    const char *right = listed_groups(c, wanted);
    if (!right) {
        wrong(c, "groups of %s: %s are none", name, wanted);
        return;
    }
    if (spelled) {
        spelled += strlen("replica_groups=");
        const char *end = strstr(spelled, ", ");
        spelled = arena_strndup(&c->arena, spelled, end ? (size_t)(end - spelled) : strlen(spelled));
        const char *groups = listed_groups(c, spelled);
        if (groups && strcmp(groups, right) == 0)
            return;
        str_addf(&seen, " %s", spelled);
    }
    cJSON_ArrayForEach(row, at(comms, "collectives"))
    {
        const char *served = strrchr(field_text(row, "for"), '/');
        served = served ? served + 1 : field_text(row, "for");
        if (strcmp(field_text(row, "name"), name) != 0 && strcmp(served, name) != 0)
            continue;
        const cJSON *groups = at(row, "groups");
        char *text = cJSON_IsString(groups) ? NULL : cJSON_PrintUnformatted(groups);
        const char *list = listed_groups(c, text ? text : field_text(row, "groups"));
        str_addf(&seen, " %s", text ? text : field_text(row, "groups"));
        free(text);
        if (list && strcmp(list, right) == 0)
            return;
    }
    wrong(c, "groups of %s:%s, not %s", name, str_text(&seen), wanted);
}

/* ---- constants ---------------------------------------------------------------------------------------------- */

static const char *constant_text(struct one_case *c, const char *line)
{
    const char *open = strstr(line, " constant(");
    if (!open)
        return NULL;
    open += strlen(" constant(");
    return arena_strndup(&c->arena, open, strcspn(open, ")"));
}

static bool take_value(const char **p, double *v)
{
    static const struct {
        const char *word;
        double value;
    } words[] = { { "true", 1 }, { "false", 0 } };
    while (**p && !isalnum((unsigned char)**p) && **p != '-' && **p != '.')
        (*p)++;
    if (!**p)
        return false;
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (strncmp(*p, words[k].word, strlen(words[k].word)) == 0) {
            *p += strlen(words[k].word);
            *v = words[k].value;
            return true;
        }
    char *end;
    *v = strtod(*p, &end);
    if (end == *p)
        return false;
    *p = end;
    return true;
}

static bool constant_is(const char *text, const cJSON *values)
{
    const cJSON *e;
    double v;
    cJSON_ArrayForEach(e, values)
    {
        const char *s = string_of(e);
        double w = s ? strtod(s, NULL) : e->valuedouble;
        if (!take_value(&text, &v) || !(v == w || (isnan(v) && isnan(w))))
            return false;
    }
    return !take_value(&text, &v);
}

/* By name, else any constant of the text (StableHLO's names need not be those of HLO). */
static void check_constant(struct one_case *c, const struct facts *f, const char *name, const cJSON *values)
{
    const char *line = definition(c, f->text, name), *text = line ? constant_text(c, line) : NULL;
    if (text && constant_is(text, values))
        return;
    for (const char *p = text ? NULL : f->text; p && (p = strstr(p, " constant(")) != NULL; p++)
        if (constant_is(constant_text(c, p), values))
            return;
    wrong(c, "constant %s: %s", name, text ? text : "no such one");
}

static void check_sharding_of(struct one_case *c, const struct facts *f, const char *name, const char *sharding)
{
    const cJSON *row;
    const char *last = "not shown";
    cJSON_ArrayForEach(row, f->rows)
    {
        const char *s = string_of(at(row, "sharding"));
        if (strcmp(row_name(row), name) != 0)
            continue;
        if (meaning_same_text(&c->arena, s, sharding))
            return;
        last = s ? s : "none";
    }
    wrong(c, "sharding of %s: %s, not %s", name, last, sharding);
}

static bool find_facts(struct one_case *c, struct facts *f)
{
    const cJSON *show = need(c, ask(c, c->model, AS_JSON, "show --all"), "show"), *row;
    const char *path = exported(c, c->model, "hlo", "facts.hlo");
    f->text = path ? read_text(c, path, NULL) : NULL;
    if (!show || !f->text)
        return false;
    const char *from = f->text;
    f->rows = at(show, "instructions");
    f->entry = name_behind(c, &from, "ENTRY", false);
    if (!f->entry) {
        wrong(c, "export hlo: no ENTRY in it");
        return false;
    }
    f->root = name_behind(c, &from, "ROOT", true);
    f->homes = c->is_mlir ? functions_of(c) : arena_printf(&c->arena, " %s ", f->entry);
    cJSON_ArrayForEach(row, f->rows)
    {
        f->all++;
        f->mine += is_mine(c, f, row);
    }
    return true;
}

void check_facts(struct one_case *c, const cJSON *wanted)
{
    struct facts f = { 0 };
    const cJSON *e;
    if (!known_fields(c, wanted, "facts", " instructions root entry shape collectives groups source_of constants sharding_of "))
        return;
    if (is_refused(c) || !find_facts(c, &f))
        return;
    want_number(c, wanted, "instructions", f.mine ? f.mine : f.all);
    want_string(c, wanted, "root", f.root);
    want_string(c, wanted, "entry", f.entry);
    want_string(c, wanted, "shape", root_shape(c, &f));
    if (at(wanted, "collectives"))
        check_count(c, &f, field_int(wanted, "collectives"));
    cJSON_ArrayForEach(e, at(wanted, "groups"))
        check_groups(c, &f, e->string, cJSON_IsString(e) ? e->valuestring : "");
    cJSON_ArrayForEach(e, at(wanted, "source_of"))
    {
        const struct answer *a = ask(c, c->model, AS_TEXT, "where %s", e->string);
        if (!cJSON_IsString(e) || !strstr(everything(c, a), e->valuestring))
            wrong(c, "where %s does not say %s", e->string, cJSON_IsString(e) ? e->valuestring : "?");
    }
    cJSON_ArrayForEach(e, at(wanted, "constants"))
        check_constant(c, &f, e->string, e);
    cJSON_ArrayForEach(e, at(wanted, "sharding_of"))
        check_sharding_of(c, &f, e->string, cJSON_IsString(e) ? e->valuestring : "");
}
