/* Records of reviews: the snapshot of a strategy, JUnit's file, GitHub's annotations. */
#include "repl/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

/* ---- the snapshot ---------------------------------------------------------------------------------- */

static void snapshot_mesh(struct call *c, struct str *s)
{
    const struct mesh *m = document_mesh(c->sh->doc);
    if (m)
        str_addf(s, "mesh %s\n", mesh_words(c, m));
    str_addf(s, "devices %" PRId64 "\n", max_i64(document_devices(c->sh->doc), 1));
}

static bool snapshot_tensor(struct call *c, const char *role, instr_id i, struct str *s)
{
    struct tensor_view v;
    if (!document_view(c->sh->doc, i, 0, &v, call_tick(c), c->d))
        return false;
    const char *text = hlo_text(c, v.sharding);
    str_addf(s, "%s %s %s %s\n", role, tensor_name(c, i),
             shape_text(c, instr_at(document_module(c->sh->doc), i)->shape), text ? text : "-");
    return true;
}

static void snapshot_collective(struct call *c, const struct module *m, const struct program *p,
                                const struct collective *k, struct str *s)
{
    const char *names[MESH_MAX_AXES];
    int naxes;
    const char *axes = collective_axes(c, k, &naxes, names);
    const char *groups = axes[0] ? axes : groups_text(c, k);
    instr_id loaded = served_by(c, p, k->instr);
    str_addf(s, "%s %s over %s: %" PRId64 " bytes", op_name(k->kind),
             shape_text(c, instr_at(m, k->instr)->shape),
             k->pairs ? "pairs" : groups ? groups : "all", k->bytes);
    if (k->trip_count != 1 || !k->trip_known)
        str_addf(s, ", x %s%" PRId64, k->trip_known ? "" : "at least ", k->trip_count);
    if (loaded.i)
        str_addf(s, ", for %s", label_of(c, loaded));
    str_addc(s, '\n');
}

static bool snapshot_collectives(struct call *c, struct str *s)
{
    const struct collective *list;
    int64_t n, total;
    if (!document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return false;
    bool dump = document_is_partitioned(c->sh->doc);
    const struct program *p = dump ? NULL : document_program(c->sh->doc, NULL, NULL);
    const struct module *m = p ? p->module : document_module(c->sh->doc);
    for (int64_t k = 0; k < n; k++)
        snapshot_collective(c, m, p, &list[k], s);
    str_addf(s, "total %" PRId64 " bytes in %s\n", total, counted(&c->arena, n, "collective"));
    return true;
}

bool review_snapshot(struct call *c, struct str *s)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    snapshot_mesh(c, s);
    for (uint32_t k = 0; k < entry->nparams; k++)
        if (!snapshot_tensor(c, "parameter", entry->params[k], s))
            return false;
    return snapshot_tensor(c, "result", entry->root, s) && snapshot_collectives(c, s);
}

/* ---- cases ----------------------------------------------------------------------------------------- */

static const char *first_error(const struct diag *d)
{
    for (int64_t k = 0; k < d->msgs.n; k++)
        if (d->msgs.v[k].severity == DIAG_ERROR)
            return d->msgs.v[k].text;
    return NULL;
}

/* GitHub reads messages off lines; what would end one early is escaped as its documentation says. */
static void add_escaped_for_github(struct str *s, const char *text, bool property)
{
    for (const char *p = text; *p; p++) {
        if (*p == '%' || *p == '\n' || *p == '\r' || (property && (*p == ',' || *p == ':')))
            str_addf(s, "%%%02X", (unsigned)(unsigned char)*p);
        else
            str_addc(s, *p);
    }
}

static void annotate_for_github(struct shell *sh, const struct review_case *k)
{
    const char *there = getenv("GITHUB_ACTIONS");
    if (!k->message || !there || strcmp(there, "true") != 0 || sh->interactive || sh->sealed)
        return;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    str_adds(&s, "::error ");
    if (k->file) {
        str_adds(&s, "file=");
        add_escaped_for_github(&s, k->file, true);
        str_addf(&s, ",line=%d,", k->line);
    }
    str_adds(&s, "title=gspmd::");
    add_escaped_for_github(&s, k->command, false);
    str_adds(&s, ": ");
    add_escaped_for_github(&s, k->message, false);
    str_addc(&s, '\n');
    sh->sink.write(sh->sink.context, true, str_text(&s), s.n);
    arena_free(&a);
}

void review_record(struct shell *sh, const struct call *c, int status)
{
    bool asked =
        c->cmd && (!strcmp(c->cmd->name, "expect") || !strcmp(c->cmd->name, "verify"));
    bool checked = asked && status <= STATUS_DIFFERS;
    /* Commands that run others: those were recorded one by one. */
    if (c->cmd && (!strcmp(c->cmd->name, "source") || !strcmp(c->cmd->name, "time")))
        return;
    if ((!checked && status == STATUS_OK) || status == STATUS_INTERRUPTED)
        return;
    struct review_case k = { .command = arena_strdup(&sh->arena, c->line),
                             .broken = status > STATUS_DIFFERS };
    int column;
    if (c->src->name && c->src->name[0] != '<') {
        k.file = arena_strdup(&sh->arena, c->src->name);
        source_place(c->src, c->off, &k.line, &column);
    }
    if (status != STATUS_OK) {
        const char *text = first_error(c->d);
        k.message = arena_strdup(&sh->arena, text ? text : "it does not hold");
    }
    vec_push(&sh->arena, &sh->cases, k);
    annotate_for_github(sh, &k);
}

/* XML has no place for most control characters, whatever the escape. */
static void add_xml(struct str *s, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        switch (*p) {
        case '&': str_adds(s, "&amp;"); break;
        case '<': str_adds(s, "&lt;"); break;
        case '>': str_adds(s, "&gt;"); break;
        case '"': str_adds(s, "&quot;"); break;
        case '\n': str_adds(s, "&#10;"); break;
        case '\t': str_adds(s, "&#9;"); break;
        default: str_addc(s, *p < 0x20 ? '?' : (char)*p); break;
        }
    }
}

static void add_safe_xml(struct str *s, const char *text)
{
    struct str safe = STR_IN(s->arena);
    str_add_safe(&safe, text, strlen(text));
    add_xml(s, str_text(&safe));
}

static void add_case(struct str *s, const struct review_case *k)
{
    str_adds(s, "  <testcase classname=\"");
    add_safe_xml(s, k->file ? k->file : "gspmd");
    str_adds(s, "\" name=\"");
    add_safe_xml(s, k->command);
    str_addc(s, '"');
    if (k->file) {
        str_adds(s, " file=\"");
        add_safe_xml(s, k->file);
        str_addf(s, "\" line=\"%d\"", k->line);
    }
    if (!k->message) {
        str_adds(s, "/>\n");
        return;
    }
    const char *what = k->broken ? "error" : "failure";
    str_addf(s, ">\n    <%s message=\"", what);
    add_safe_xml(s, k->message);
    str_adds(s, "\"/>\n  </testcase>\n");
}

bool review_junit(struct shell *sh, const char *path)
{
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    int64_t failures = 0, errors = 0;
    for (int64_t k = 0; k < sh->cases.n; k++) {
        const struct review_case *v = &sh->cases.v[k];
        failures += v->message && !v->broken;
        errors += v->message && v->broken;
    }
    str_addf(&s,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
             "<testsuite name=\"gspmd\" tests=\"%" PRId64 "\" failures=\"%" PRId64
             "\" errors=\"%" PRId64 "\">\n",
             sh->cases.n, failures, errors);
    for (int64_t k = 0; k < sh->cases.n; k++)
        add_case(&s, &sh->cases.v[k]);
    str_adds(&s, "</testsuite>\n</testsuites>\n");
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(str_text(&s), 1, s.n, f) == s.n;
    int why = errno;
    if (f && fclose(f) != 0) {
        why = errno;
        ok = false;
    }
    arena_free(&a);
    errno = why;
    return ok;
}
