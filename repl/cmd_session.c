/* Sessions: the module's path, the saved strategies and the current one, as a script that makes them
 * again (export session), and back (load session).
 *
 * Each strategy is written as the commands that make it from the module as loaded, whatever edits led to
 * it; "undo --all" goes back there for the next one. */
#include <string.h>

#include "base/fail.h"
#include "repl/commands.h"
#include "text/text.h"

#define FIRST_LINE "# gspmd session"

/* A word of the shell's: quoted where it would be read as several, or as something else. */
static const char *word_of(struct call *c, const char *name)
{
    return name[strcspn(name, " \t;#\"|>\\{}")] ? arena_printf(&c->arena, "\"%s\"", name) : name;
}

static void mesh_commands(struct call *c, const struct strategy *s, struct str *t)
{
    for (int k = 0; k < s->nmeshes; k++) {
        const struct mesh *m = &s->meshes[k];
        if (m->naxes > 0)
            str_addf(t, "mesh %s%s%s%s\n", m->name[0] ? "@" : "", m->name, m->name[0] ? " " : "", mesh_words(c, m));
    }
}

void strategy_commands(struct call *c, const struct strategy *s, struct str *t)
{
    static const char *const verbs[] = { "shard", "constrain", "unshard" };
    mesh_commands(c, s, t);
    if (s->unshard_module)
        str_adds(t, "unshard --module\n");
    for (int k = 0; k < s->nannotations; k++) {
        const struct annotation *a = &s->annotations[k];
        str_addf(t, "%s %s", verbs[a->kind], word_of(c, tensor_name(c, a->target)));
        if (a->leaf >= 0)
            str_addf(t, "{%" PRId64 "}", a->leaf);
        str_addf(t, "%s%s\n", s->specs[k] ? " " : "", s->specs[k] ? s->specs[k] : "");
    }
    option_script(c, &s->options, t);
}

bool session_text(struct call *c, struct str *t)
{
    struct document *doc = c->sh->doc;
    const char *path = document_path(doc);
    if (!path[0] || path[0] == '<')
        return call_error(c, STATUS_USAGE, "usage", "the module came from no file, a session could not find it again"),
               false;
    str_addf(t, FIRST_LINE "\nload \"%s\"\n", path);
    const char *const *names;
    int n = document_saved(doc, &names);
    for (int k = 0; k < n; k++) {
        strategy_commands(c, document_saved_strategy(doc, names[k]), t);
        str_addf(t, "save %s\nundo --all\n", word_of(c, names[k]));
    }
    strategy_commands(c, document_strategy(doc), t);
    return true;
}

/* The commands of a session in a document of its own, without their answers. */
static int run_session(struct call *c, const struct source *src)
{
    struct shell *sh = c->sh;
    bool quiet = sh->quiet, bail = sh->bail, interactive = sh->interactive, json = sh->json;
    struct journal *journal = sh->journal;
    sh->quiet = sh->bail = true;
    sh->interactive = sh->json = false;
    sh->journal = NULL; /* it has the line that loads the session */
    int status = call_run(c, src->name, src->text, src->len);
    sh->journal = journal;
    sh->json = json;
    sh->interactive = interactive;
    sh->bail = bail;
    sh->quiet = quiet;
    return status;
}

int load_session(struct call *c, const char *path)
{
    struct shell *sh = c->sh;
    struct source *src;
    if (sh->sealed)
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    diag_stage(c->d, "io");
    if (!file_read(path, &src, c->d))
        return call_failed(c);
    if (strncmp(src->text, FIRST_LINE, sizeof FIRST_LINE - 1) != 0) {
        source_free(src);
        call_error(c, STATUS_INPUT, "parse", "%s: a session begins with \"" FIRST_LINE "\"", path);
        diag_hint(c->d, "export session FILE writes one; source FILE runs any script");
        return STATUS_INPUT;
    }
    struct document *own = sh->doc;
    sh->doc = document_new();
    int status = run_session(c, src);
    source_free(src);
    if (status == STATUS_OK && !document_module(sh->doc))
        status = call_error(c, STATUS_INPUT, "parse", "%s: it loads no module", path);
    if (status != STATUS_OK) {
        document_free(sh->doc);
        sh->doc = own;
        return status;
    }
    debug_forget(sh); /* it looks at a program of the document that goes */
    document_free(own);
    sh->unsaved = false;
    const char *const *names;
    int n = document_saved(sh->doc, &names);
    int annotations = document_strategy(sh->doc)->nannotations;
    if (c->json) {
        json_put_string(&c->js, "file", document_path(sh->doc));
        json_put_int(&c->js, "strategies", n);
        json_put_int(&c->js, "annotations", annotations);
    } else if (!sh->quiet) {
        out(c, "%s: %s, %d saved %s, now %s\n", path, document_path(sh->doc), n, n == 1 ? "strategy" : "strategies",
            counted(&c->arena, annotations, "annotation"));
    }
    return STATUS_OK;
}
