/* Completion of commands, tensors, axes, options. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/line.h"

/* Matches are counted, not collected: the k-th one is looked for anew each time. Names are few
 * thousand, a keystroke is long. */
struct want {
    const char *text;
    size_t n;
    int left; /* matches still to be skipped */
    char *found;
};

static bool offer(struct want *w, const char *word)
{
    if (w->found || strncmp(word, w->text, w->n) || !word[0])
        return w->found != NULL;
    if (w->left-- > 0)
        return false;
    w->found = strdup(word);
    return true;
}

static void offer_commands(struct shell *sh, struct want *w)
{
    for (int k = 0; k < ncommands; k++)
        offer(w, commands[k].name);
    for (int64_t k = 0; k < sh->aliases.n; k++)
        offer(w, sh->aliases.v[k].name);
}

static void offer_tensors(struct shell *sh, struct want *w)
{
    const struct module *m = document_module(sh->doc);
    if (!m)
        return;
    const struct computation *entry = comp_at(m, m->entry);
    for (uint32_t k = 0; k < entry->nparams; k++)
        offer(w, instr_arg_name(m, entry->params[k]));
    for (uint32_t k = 0; k < entry->ninstrs && !w->found; k++)
        offer(w, name_text(m->ir, instr_at(m, entry->instrs[k])->name));
    if (w->n < 2)
        return;
    for (uint32_t k = 1; k <= module_ninstrs(m) && !w->found; k++)
        if (instr_at(m, (instr_id){ k })->comp.i != m->entry.i)
            offer(w, name_text(m->ir, instr_at(m, (instr_id){ k })->name));
}

/* Inside a sharding: the part behind the last bracket, comma or star is an axis's beginning. */
static void offer_axes(struct shell *sh, struct want *w)
{
    const struct mesh *m = document_mesh(sh->doc);
    size_t from = 0;
    for (size_t k = 0; k < w->n; k++)
        if (strchr("[(,*", w->text[k]))
            from = k + 1;
    for (int k = 0; m && k < m->naxes; k++) {
        char word[256];
        if (from + strlen(m->axes[k].name) >= sizeof word)
            continue;
        memcpy(word, w->text, from);
        strcpy(word + from, m->axes[k].name);
        offer(w, word);
    }
}

static void offer_options(struct want *w)
{
    for (int k = 0; k < option_count(); k++) {
        char word[128];
        snprintf(word, sizeof word, "%s=", option_name(k));
        offer(w, word);
    }
}

static void offer_flags(const struct command *cmd, struct want *w)
{
    for (const char *p = cmd->options; p && *p;) {
        size_t n = strcspn(p, " ");
        char word[64];
        bool colon = p[n - 1] == ':';
        snprintf(word, sizeof word, "%.*s", (int)(n - colon), p);
        offer(w, word);
        p += n;
        p += strspn(p, " ");
    }
    offer(w, "--json");
}

static void offer_saved(struct shell *sh, struct want *w)
{
    const char *const *names;
    int n = document_saved(sh->doc, &names);
    for (int k = 0; k < n; k++)
        offer(w, names[k]);
    offer(w, "current");
    offer(w, "previous");
}

/* The words of the running command in front of the one that is completed. */
static int words_before(const char *line, int start, const char **first, size_t *nfirst)
{
    int from = start;
    while (from > 0 && line[from - 1] != ';' && line[from - 1] != '\n')
        from--;
    int n = 0;
    for (int k = from; k < start;) {
        while (k < start && (line[k] == ' ' || line[k] == '\t'))
            k++;
        int at = k;
        while (k < start && line[k] != ' ' && line[k] != '\t')
            k++;
        if (k > at && n++ == 0) {
            *first = line + at;
            *nfirst = (size_t)(k - at);
        }
    }
    return n;
}

char *line_complete(struct shell *sh, const char *line, int start, const char *text, int k)
{
    struct want w = { text, strlen(text), k, NULL };
    const char *first = "";
    size_t nfirst = 0;
    int before = words_before(line, start, &first, &nfirst);
    if (before == 0) {
        offer_commands(sh, &w);
        return w.found;
    }
    int matches;
    const struct command *cmd = command_find(first, nfirst, &matches, NULL, 0);
    if (!cmd)
        return NULL;
    if (text[0] == '-') {
        offer_flags(cmd, &w);
        return w.found;
    }
    switch (cmd->complete) {
    case COMPLETE_NONE:
    case COMPLETE_FILE: break;
    case COMPLETE_TENSOR: offer_tensors(sh, &w); break;
    case COMPLETE_COMMAND: offer_commands(sh, &w); break;
    case COMPLETE_OPTION: offer_options(&w); break;
    case COMPLETE_SAVED: offer_saved(sh, &w); break;
    case COMPLETE_AXIS: offer_axes(sh, &w); break;
    case COMPLETE_SPEC:
        if (before == 1)
            offer_tensors(sh, &w);
        else
            offer_axes(sh, &w);
        break;
    case COMPLETE_EXPORT:
        if (before == 1) {
            offer(&w, "hlo");
            offer(&w, "program");
        }
        break;
    case COMPLETE_PLOT:
        if (before == 1) {
            offer(&w, "layout");
            offer(&w, "mesh");
            offer(&w, "graph");
            offer(&w, "device");
            offer(&w, "hops");
            offer(&w, "timeline");
            offer(&w, "memory");
            offer(&w, "reshard");
        } else {
            offer_tensors(sh, &w);
        }
        break;
    }
    return w.found;
}
