/* report: a strategy as one file that others read. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/report.h"

enum { MOST_ROWS = 400, MOST_PICTURES = 12, MOST_BLAMED = 5 };

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n > k && !strcmp(s + n - k, tail);
}

/* ---- asking other commands ------------------------------------------------------------------------- */

/* Lets a command answer into the report. What fails says so there: a report is no place to hide it. */
static void ask(struct call *c, struct blocks *b, const char *command)
{
    struct shell *sh = c->sh;
    struct sink sink = sh->sink;
    struct blocks *outer = sh->blocks;
    bool color = sh->color, bail = sh->bail, quiet = sh->quiet, json = sh->json;
    int failure = sh->first_failure;
    int64_t cases = sh->cases.n;
    sh->sink = (struct sink){ sink_drop, NULL };
    sh->blocks = b;
    sh->color = sh->bail = sh->quiet = sh->json = false;
    call_run(c, "<report>", command, strlen(command));
    sh->sink = sink;
    sh->blocks = outer;
    sh->color = color;
    sh->bail = bail;
    sh->quiet = quiet;
    sh->json = json;
    sh->first_failure = failure;
    sh->cases.n = cases;
}

static void picture(struct call *c, struct blocks *b, const char *words, const char *caption)
{
    struct shell *sh = c->sh;
    struct capture to = { .arena = b->arena, .width = 900 };
    struct capture *outer = sh->capture;
    struct sink sink = sh->sink;
    int failure = sh->first_failure;
    sh->sink = (struct sink){ sink_drop, NULL };
    sh->capture = &to;
    call_run(c, "<report>", words, strlen(words));
    sh->capture = outer;
    sh->sink = sink;
    sh->first_failure = failure;
    if (to.scene)
        blocks_picture(b, to.scene, caption);
}

static bool has_command(const char *name)
{
    for (int k = 0; k < ncommands; k++)
        if (!strcmp(commands[k].name, name))
            return true;
    return false;
}

static void section(struct call *c, struct blocks *b, const char *id, const char *title,
                    const char *command)
{
    int64_t before = b->list.n;
    blocks_heading(b, id, title);
    ask(c, b, command);
    if (b->list.n == before + 1)
        b->list.n = before; /* nothing to say */
}

/* ---- sections -------------------------------------------------------------------------------------- */

/* The strategy as commands that make it again: also what the report ends with. */
static const char *script_of(struct call *c)
{
    struct document *doc = c->sh->doc;
    struct str t = STR_IN(&c->arena);
    const char *path = document_path(doc), *base = strrchr(path, '/');
    str_addf(&t, "load %s\n", path[0] && path[0] != '<' ? (base ? base + 1 : path) : "MODEL");
    strategy_commands(c, document_strategy(doc), &t);
    return str_text(&t);
}

/* The entry's parameters and its root, as a selection. */
static const char *boundary(struct call *c)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    struct str s = STR_IN(&c->arena);
    for (uint32_t k = 0; k < entry->nparams && k < MOST_ROWS; k++) {
        instr_label(m, entry->params[k], true, &s);
        str_addc(&s, ',');
    }
    instr_label(m, entry->root, true, &s);
    return str_text(&s);
}

static void pictures(struct call *c, struct blocks *b)
{
    const struct strategy *s = document_strategy(c->sh->doc);
    blocks_heading(b, "pictures", "Who holds what");
    if (document_mesh(c->sh->doc))
        picture(c, b, "plot mesh", "The mesh: device numbers, axes named.");
    int drawn = 0;
    for (int k = 0; k < s->nannotations && drawn < MOST_PICTURES; k++) {
        if (s->annotations[k].kind == ANNOTATE_UNSHARD || s->annotations[k].leaf >= 0)
            continue;
        const char *name = tensor_name(c, s->annotations[k].target);
        int64_t before = b->list.n;
        picture(c, b, arena_printf(&c->arena, "plot layout \"%s\"", name), name);
        drawn += b->list.n > before;
    }
    /* A dump that brings its shardings along: its parameters, the largest first. */
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams && drawn < 4 && s->nannotations == 0; k++) {
        const char *name = tensor_name(c, entry->params[k]);
        int64_t before = b->list.n;
        picture(c, b, arena_printf(&c->arena, "plot layout \"%s\"", name), name);
        drawn += b->list.n > before;
    }
    if (b->list.v[b->list.n - 1].kind == BLOCK_HEADING)
        b->list.n--;
}

static int by_bytes(const void *x, const void *y)
{
    const struct collective *a = *(const struct collective *const *)x,
                            *b = *(const struct collective *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->instr.i < b->instr.i ? -1 : a->instr.i > b->instr.i;
}

/* The costliest collectives with their reasons. */
static void blamed(struct call *c, struct blocks *b)
{
    const struct collective *list;
    int64_t n, total;
    const struct program *p = document_program(c->sh->doc, call_tick(c), NULL);
    if (!p || !document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), NULL) || n == 0)
        return;
    const struct collective **order = ARENA_ARRAY(&c->arena, const struct collective *, n);
    for (int64_t k = 0; k < n; k++)
        order[k] = &list[k];
    qsort(order, (size_t)n, sizeof(const struct collective *), by_bytes);
    VEC(const char *) names = { 0 };
    for (int64_t k = 0; k < n && k < MOST_BLAMED; k++)
        vec_push(&c->arena, &names, collective_label(c, p->module, order[k]));
    blocks_heading(b, "blame", "Why the costliest are there");
    for (int64_t k = 0; k < names.n; k++)
        ask(c, b, arena_printf(&c->arena, "blame %s", names.v[k]));
}

static void compose(struct call *c, struct blocks *b, const char *against)
{
    struct arena *a = &c->arena;
    section(c, b, "module", "The module", "info");
    blocks_heading(b, "strategy", "The strategy");
    const char *script = script_of(c);
    blocks_text(b, BLOCK_CODE, script, strlen(script));
    pictures(c, b);
    section(c, b, "arguments", "Arguments and results",
            arena_printf(a, "show %s --all", boundary(c)));
    if (document_strategy(c->sh->doc)->nannotations > 0)
        section(c, b, "coverage", "What reached what", "coverage --limit=60");
    section(c, b, "conflicts", "Conflicts", "conflicts --limit=60");
    section(c, b, "collectives", "Collectives", arena_printf(a, "comms --limit=%d", MOST_ROWS));
    blamed(c, b);
    if (has_command("memory"))
        section(c, b, "memory", "Memory", "memory --limit=40");
    if (has_command("cost"))
        section(c, b, "time", "Time", "cost --limit=40");
    section(c, b, "doctor", "Doctor", "doctor --limit=60");
    if (against)
        section(c, b, "diff", arena_printf(a, "Against %s", against),
                arena_printf(a, "diff \"%s\" current --limit=60", against));
    blocks_heading(b, "again", "Make it again");
    const char *again = arena_printf(a, "%sreport FILE\n", script);
    blocks_text(b, BLOCK_CODE, again, strlen(again));
}

static const char *title_of(struct call *c)
{
    const char *path = document_path(c->sh->doc), *base = strrchr(path, '/');
    struct str s = STR_IN(&c->arena);
    base = base ? base + 1 : path;
    str_add_safe(&s, base, strlen(base));
    int64_t n = document_devices(c->sh->doc);
    const struct mesh *m = document_mesh(c->sh->doc);
    if (m)
        str_addf(&s, " on %s", mesh_words(c, m));
    else if (n > 1)
        str_addf(&s, " on %" PRId64 " devices", n);
    return str_text(&s);
}

int cmd_report(struct call *c)
{
    const char *path = c->args[0].text, *against = call_option(c, "--against");
    bool is_html = ends_with(path, ".html") || ends_with(path, ".htm");
    bool is_md = ends_with(path, ".md"), is_pdf = ends_with(path, ".pdf");
    if (!is_html && !is_md && !is_pdf)
        return call_usage(c, 0, "%s: a report is written as .html, .md or .pdf", path);
    struct blocks b = { .arena = &c->arena };
    compose(c, &b, against && against[0] ? against : NULL);
    struct str text = STR_IN(&c->arena);
    const char *title = title_of(c);
    if (is_html)
        report_html(&b, title, &text);
    else if (is_md)
        report_markdown(&b, title, &text);
    else if (!report_pdf(&b, title, &text, c->d))
        return call_failed(c);
    if (!write_file(c, path, str_text(&text), text.n))
        return STATUS_RESOURCE;
    if (c->json)
        json_put_string(&c->js, "file", path);
    else if (!c->sh->quiet)
        out(c, "%s: %s\n", path, nice_bytes(&c->arena, (int64_t)text.n));
    return STATUS_OK;
}
