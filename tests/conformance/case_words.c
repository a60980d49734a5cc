/* What the shell says of a case: shardings, collectives, why, blame, conflicts, notes and errors. */
#include "conformance.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "meaning.h"
#include "partition/partition.h"
#include "text/text.h"

/* ---- shardings --------------------------------------------------------------------------------------------- */

void check_shardings(struct one_case *c, const cJSON *wanted)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, wanted)
    {
        const cJSON **rows;
        const char *name = field_text(e, "instr"), *sharding = field_text(e, "sharding");
        if (!known_fields(c, e, "shardings", " instr sharding computation "))
            return;
        int64_t n = shown_rows(c, name, string_of(at(e, "computation")), &rows);
        if (n < 0)
            return;
        if (n == 0)
            wrong(c, "%s is not shown", name);
        for (int64_t k = 0; k < n; k++)
            if (!meaning_same_text(&c->arena, string_of(at(rows[k], "sharding")), sharding))
                wrong(c, "%s: %s, not %s", name, field_text(rows[k], "sharding"), sharding);
    }
}

/* ---- collectives ------------------------------------------------------------------------------------------- */

static const char *const ring[] = { "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute" };

static int64_t of_kind(const cJSON *comms, const char *kind)
{
    const cJSON *row;
    int64_t n = 0;
    cJSON_ArrayForEach(row, at(comms, "collectives"))
        n += strcmp(field_text(row, "kind"), kind) == 0;
    return n;
}

static const char *counts(struct one_case *c, const cJSON *comms)
{
    struct str s = STR_IN(&c->arena);
    for (size_t k = 0; k < COUNTOF(ring); k++)
        if (of_kind(comms, ring[k]))
            str_addf(&s, "%" PRId64 " %s, ", of_kind(comms, ring[k]), ring[k]);
    str_addf(&s, "%" PRId64 " bytes", field_int(comms, "bytes"));
    return str_text(&s);
}

/* What a file of a partitioned program does when it is read again. NULL: it cannot be. */
static const char *counts_in_file(struct one_case *c, const char *path)
{
    struct ir *ir = ir_new();
    struct diag *d = diag_new();
    struct module *m = module_load(ir, path, NULL, d);
    struct str s = STR_IN(&c->arena);
    struct collective *list = NULL;
    int64_t total = 0, n = m ? collectives_list(m, field_int(c->json, "devices"), 1, &c->arena, &list, &total) : 0;
    if (!m)
        wrong(c, "the exported program is not read: %s", d->msgs.n ? d->msgs.v[0].text : "nothing said");
    for (size_t k = 0; k < COUNTOF(ring); k++) {
        int64_t count = 0;
        for (int64_t j = 0; j < n; j++)
            count += strcmp(op_name(list[j].kind), ring[k]) == 0;
        if (count)
            str_addf(&s, "%" PRId64 " %s, ", count, ring[k]);
    }
    str_addf(&s, "%" PRId64 " bytes", total);
    module_free(m);
    diag_free(d);
    ir_free(ir);
    return m ? str_text(&s) : NULL;
}

/* comms must count what the exported program does. */
static void check_counted(struct one_case *c, const cJSON *comms)
{
    const char *path = in_folder(c, "counted.hlo");
    const struct answer *a = ask(c, c->model, AS_JSON, "export program %s", path);
    if (strstr(everything(c, a), "force"))
        return; /* too large to export */
    if (a->status) {
        wrong(c, "export program: %s", failure(c, a));
        return;
    }
    const char *ours = counts(c, comms), *theirs = counts_in_file(c, path);
    if (theirs && strcmp(ours, theirs) != 0)
        wrong(c, "comms counts %s; the exported program has %s", ours, theirs);
}

static void check_group_sizes(struct one_case *c, const cJSON *comms, int64_t size)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, at(comms, "collectives"))
        if (strcmp(field_text(row, "kind"), "collective-permute") != 0 && field_int(row, "group_size") != size)
            wrong(c, "%s has groups of %" PRId64 ", not %" PRId64, field_text(row, "name"), field_int(row, "group_size"), size);
}

void check_collectives(struct one_case *c, const cJSON *wanted)
{
    const cJSON *e;
    if (!known_fields(c, wanted, "collectives", " none count group_size min_bytes max_bytes xla_bytes "))
        return;
    const cJSON *comms = need(c, ask(c, c->model, AS_JSON, "comms"), "comms");
    if (!comms)
        return;
    cJSON_ArrayForEach(e, at(wanted, "none"))
        if (of_kind(comms, cJSON_IsString(e) ? e->valuestring : ""))
            wrong(c, "%" PRId64 " %s", of_kind(comms, e->valuestring), e->valuestring);
    cJSON_ArrayForEach(e, at(wanted, "count"))
        if (of_kind(comms, e->string) != (int64_t)e->valuedouble)
            wrong(c, "%" PRId64 " %s, not %.0f", of_kind(comms, e->string), e->string, e->valuedouble);
    if (at(wanted, "group_size"))
        check_group_sizes(c, comms, field_int(wanted, "group_size"));
    int64_t bytes = field_int(comms, "bytes");
    if (at(wanted, "min_bytes") && bytes < field_int(wanted, "min_bytes"))
        wrong(c, "%" PRId64 " bytes, not at least %" PRId64, bytes, field_int(wanted, "min_bytes"));
    if (at(wanted, "max_bytes") && bytes > field_int(wanted, "max_bytes"))
        wrong(c, "%" PRId64 " bytes, not at most %" PRId64 " (XLA %" PRId64 ")", bytes, field_int(wanted, "max_bytes"),
              field_int(wanted, "xla_bytes"));
    check_counted(c, comms);
}

/* ---- why ---------------------------------------------------------------------------------------------------- */

static void add_strings(struct one_case *c, const cJSON *value, struct str *out)
{
    VEC(const cJSON *) stack = { 0 };
    vec_push(&c->arena, &stack, value);
    while (stack.n) {
        const cJSON *x = stack.v[--stack.n], *e;
        if (cJSON_IsString(x))
            str_addf(out, "%s\n", x->valuestring);
        cJSON_ArrayForEach(e, x)
            vec_push(&c->arena, &stack, e);
    }
}

/* Lines of a plan; what it says of XLA is not its own. */
static void add_plan(struct str *plan, const char *text)
{
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, "\n");
        char line[2048];
        (void)snprintf(line, sizeof line, "%.*s", n, p);
        if (!strcasestr(line, "xla"))
            str_addf(plan, "%s\n", line);
        p += n + (p[n] == '\n');
    }
}

static bool suggests(struct one_case *c, const char *both, const char *text, const cJSON *list)
{
    const cJSON *e;
    if (any_word(both, list))
        return true;
    cJSON_ArrayForEach(e, list)
        if (cJSON_IsString(e) && e->valuestring[0] == '{' &&
            meaning_is_said(&c->arena, text, meaning_read(&c->arena, e->valuestring, strlen(e->valuestring)), NULL))
            return true;
    return false;
}

static void want_sharding(struct one_case *c, const char *both, const cJSON *wanted, const char *key)
{
    const char *text = field_text(wanted, key);
    const struct meaning *m = meaning_read(&c->arena, text, strlen(text));
    const cJSON *show = answer_to(ask(c, c->model, AS_JSON, "show --all"), "show"), *mesh = at(show, "mesh");
    if (!meaning_is_said(&c->arena, both, m, cJSON_IsObject(mesh) ? mesh : NULL))
        wrong(c, "does not say %s %s", key, text);
}

void check_why(struct one_case *c, const cJSON *wanted)
{
    static const char *const commands[] = { "why %s", "reshard %s", "comms" };
    struct str text = STR_IN(&c->arena), values = STR_IN(&c->arena), plan = STR_IN(&c->arena);
    const char *instr = field_text(wanted, "instr");
    const cJSON *e;
    if (!known_fields(c, wanted, "why", " instr from to names suggest_any xla_says must_not_need "))
        return;
    for (size_t k = 0; k < COUNTOF(commands); k++) {
        const char *command = k == 2 ? "comms" : arena_printf(&c->arena, k ? "reshard %s" : "why %s", instr);
        const struct answer *said = ask(c, c->model, AS_TEXT, "%s", command), *data = ask(c, c->model, AS_JSON, "%s", command);
        if (k == 0 && said->status)
            wrong(c, "%s: %s", command, failure(c, said));
        else if (k == 0 && !said->text[strspn(said->text, " \n")])
            wrong(c, "%s: says nothing", command);
        if (said->status)
            continue;
        str_addf(&text, "%s\n", everything(c, said));
        for (int64_t j = 0; j < data->objects.n; j++)
            add_strings(c, data->objects.v[j], &values);
        if (k > 0)
            add_plan(&plan, said->text);
    }
    const char *both = arena_printf(&c->arena, "%s\n%s", str_text(&text), str_text(&values));
    cJSON_ArrayForEach(e, at(wanted, "names"))
        if (!cJSON_IsString(e) || !has_word(str_text(&text), e->valuestring, false))
            wrong(c, "does not say '%s'", cJSON_IsString(e) ? e->valuestring : "?");
    if (at(wanted, "suggest_any") && !suggests(c, both, str_text(&text), at(wanted, "suggest_any"))) {
        char *list = cJSON_PrintUnformatted(at(wanted, "suggest_any"));
        wrong(c, "suggests none of %s", list);
        free(list);
    }
    if (at(wanted, "from"))
        want_sharding(c, both, wanted, "from");
    if (at(wanted, "to"))
        want_sharding(c, both, wanted, "to");
    if (at(wanted, "must_not_need") && strcasestr(str_text(&plan), field_text(wanted, "must_not_need")))
        wrong(c, "its own plan has '%s'", field_text(wanted, "must_not_need"));
}

/* ---- blame, conflicts, notes ---------------------------------------------------------------------------------- */

/* main/dot.4 -> dot.4 */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void blame_one(struct one_case *c, const cJSON *row, const cJSON *for_any)
{
    const char *name = field_text(row, "name");
    const struct answer *a = ask(c, c->model, AS_TEXT, "blame %s", name);
    const cJSON *e;
    bool found = false;
    cJSON_ArrayForEach(e, for_any)
        found = found || (cJSON_IsString(e) && has_word(everything(c, a), e->valuestring, false));
    if (a->status)
        wrong(c, "blame %s: %s", name, failure(c, a));
    else if (!found)
        wrong(c, "blame %s does not name what is wanted", name);
}

void check_blame(struct one_case *c, const cJSON *wanted)
{
    const cJSON *comms = need(c, ask(c, c->model, AS_JSON, "comms"), "comms"), *e, *row;
    if (!comms)
        return;
    cJSON_ArrayForEach(e, wanted)
    {
        const char *kind = field_text(e, "kind"), *last = "";
        int64_t n = 0;
        bool any = false;
        if (!known_fields(c, e, "blame", " kind for_any "))
            return;
        cJSON_ArrayForEach(row, at(comms, "collectives"))
        {
            if (strcmp(field_text(row, "kind"), kind) != 0)
                continue;
            n++;
            last = last_part(field_text(row, "for"));
            any = any || list_has(at(e, "for_any"), last);
            blame_one(c, row, at(e, "for_any"));
        }
        if (n == 0)
            wrong(c, "no %s", kind);
        else if (!any)
            wrong(c, "comms: no %s is for what is wanted (the last: '%s')", kind, last);
    }
}

static bool entry_has_all(const char *entry, const cJSON *wanted)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, at(wanted, "names"))
        if (!cJSON_IsString(e) || !has_word(entry, e->valuestring, false))
            return false;
    return has_word(entry, field_text(wanted, "instr"), false);
}

/* Entries of the text begin at the margin; what is set in belongs to the one above. */
static bool text_entry_has_all(struct one_case *c, const char *text, const cJSON *wanted)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        while (p[n] == '\n' && p[n + 1] && isspace((unsigned char)p[n + 1]))
            n += 1 + strcspn(p + n + 1, "\n");
        if (entry_has_all(arena_strndup(&c->arena, p, n), wanted))
            return true;
        p += n + (p[n] == '\n');
    }
    return false;
}

void check_conflict(struct one_case *c, const cJSON *wanted)
{
    const struct answer *data = ask(c, c->model, AS_JSON, "conflicts"), *said = ask(c, c->model, AS_TEXT, "conflicts");
    const cJSON *list, *item;
    if (!known_fields(c, wanted, "conflict", " instr names "))
        return;
    for (int64_t k = 0; k < data->objects.n; k++)
        cJSON_ArrayForEach(list, data->objects.v[k])
            for (item = cJSON_IsArray(list) ? list->child : NULL; item; item = item->next) {
                char *entry = cJSON_PrintUnformatted(item);
                bool found = entry_has_all(entry, wanted);
                free(entry);
                if (found)
                    return;
            }
    if (!text_entry_has_all(c, said->text, wanted))
        wrong(c, "no conflict at %s with all names%s", field_text(wanted, "instr"), said->status ? ": the command failed" : "");
}

void check_diagnosis(struct one_case *c, const cJSON *wanted)
{
    const char *text = all_warnings(c);
    const cJSON *e;
    if (!known_fields(c, wanted, "diagnosis", " names_any "))
        return;
    cJSON_ArrayForEach(e, at(wanted, "names_any"))
        if (cJSON_IsString(e) && has_word(text, e->valuestring, true))
            return;
    wrong(c, "no note or warning mentions what is wanted");
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* text has before + number, the number not continued. */
static bool names_number(struct one_case *c, const char *text, const char *before, int64_t number)
{
    const char *word = arena_printf(&c->arena, "%s%" PRId64, before, number);
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
        if (!isalnum((unsigned char)p[strlen(word)]) && p[strlen(word)] != '_')
            return true;
    return false;
}

static void want_place(struct one_case *c, const struct answer *a, const cJSON *wanted, const char *key, const char *how)
{
    const cJSON *x = at(wanted, key);
    int64_t number = field_int(wanted, key), stated = -1;
    if (!x)
        return;
    for (int64_t k = 0; k < a->objects.n; k++) {
        const cJSON *e = at(a->objects.v[k], "error"), *n = at(e, key);
        if (cJSON_IsNumber(n) && stated != number)
            stated = (int64_t)n->valuedouble;
    }
    if (stated >= 0) {
        if (stated != number)
            wrong(c, "%s%s %" PRId64 ", not %" PRId64, how, key, stated, number);
        return;
    }
    const char *text = arena_printf(&c->arena, "%s\n%s", said_on_error(c, a), warnings_of(c, a));
    if (!names_number(c, text, ":", number) && !names_number(c, text, arena_printf(&c->arena, "%s ", key), number))
        wrong(c, "%sdoes not name %s %" PRId64, how, key, number);
}

/* After the refusal the same session answers, and the module that was there before is still there. */
static void check_session_lives(struct one_case *c, const char *stage)
{
    const char *good = in_folder(c, "good-one.hlo");
    FILE *f = fopen(good, "w");
    if (!f || fputs("HloModule good\n\nENTRY main {\n  ROOT survivor = f32[4] parameter(0)\n}\n", f) < 0 || fclose(f) != 0) {
        wrong(c, "no second file");
        return;
    }
    const struct answer *a =
        ask(c, good, AS_JSON, "set bail=off; load %s; partition; show --all; echo still-alive", c->model);
    if (!strstr(a->text, "still-alive"))
        wrong(c, "the session ended at the error");
    if ((strcmp(stage, "parse") == 0 || strcmp(stage, "verify") == 0) && !strstr(a->text, "survivor"))
        wrong(c, "the module loaded before is gone");
}

static const char *commands_of(const char *stage)
{
    static const char *const table[][2] = { { "parse", "info" },
                                            { "verify", "info" },
                                            { "shard", "show" },
                                            { "partition", "show; partition; comms" } };
    for (size_t k = 0; k < COUNTOF(table); k++)
        if (strcmp(table[k][0], stage) == 0)
            return table[k][1];
    return NULL;
}

void check_error(struct one_case *c, const cJSON *wanted)
{
    const char *stage = field_text(wanted, "stage"), *commands = commands_of(stage);
    if (!known_fields(c, wanted, "error", " stage line column names names_any "))
        return;
    if (!commands) {
        wrong(c, "unknown stage %s", stage);
        return;
    }
    const struct answer *a = ask(c, c->model, AS_JSON, "%s", commands);
    if (a->status == 0) {
        if (!field_true(c->expect, "or_warning")) {
            wrong(c, "accepted at stage %s", stage);
            return;
        }
        want_words(c, warnings_of(c, a), wanted, "accepted, and the warning ");
        want_place(c, a, wanted, "line", "accepted, and the warning: ");
        return;
    }
    if (a->status != 3)
        wrong(c, "not exit status 3: %s", failure(c, a));
    const char *text = said_on_error(c, a);
    if (!text[strspn(text, " \n")]) {
        wrong(c, "refused without a message");
        return;
    }
    want_words(c, text, wanted, "");
    want_place(c, a, wanted, "line", "");
    want_place(c, a, wanted, "column", "");
    check_session_lives(c, stage);
}
