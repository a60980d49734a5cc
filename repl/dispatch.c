#include "repl/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "repl/journal.h"
#include "repl/report.h"
#include "repl/review.h"

/* Aliases that name each other double with each level: few levels are enough. */
enum { MAX_DEPTH = 24, MAX_ALIAS_DEPTH = 4 };

/* ---- statuses and messages ------------------------------------------------------------------------- */

static bool is_typed(const struct diag_msg *m)
{
    return !m->file || m->file[0] == '<';
}

/* What is wrong in a command is 2, what is wrong in a file 3 (language.md section 7). */
static int status_of(const struct diag_msg *m, const struct command *cmd)
{
    const char *code = m->code ? m->code : "";
    if (!strcmp(code, "usage") || !strcmp(code, "name"))
        return STATUS_USAGE;
    if (!strcmp(code, "io") && !strcmp(m->text, "cannot write"))
        return STATUS_RESOURCE;
    if (!strcmp(code, "memory") || !strcmp(code, "limit") || !strcmp(code, "write"))
        return STATUS_RESOURCE;
    if (!strcmp(code, "differs"))
        return STATUS_DIFFERS;
    if (!strcmp(code, "internal"))
        return STATUS_INTERNAL;
    if (!strcmp(code, "interrupted"))
        return STATUS_INTERRUPTED;
    if (!strcmp(code, "shard") && is_typed(m) && cmd && (cmd->flags & CHANGES))
        return STATUS_USAGE;
    return STATUS_INPUT;
}

static int status_of_diag(const struct diag *d, const struct command *cmd)
{
    for (int64_t k = 0; k < d->msgs.n; k++) {
        const struct diag_msg *m = &d->msgs.v[k];
        if (m->severity != DIAG_ERROR)
            continue;
        if (m->text && !strncmp(m->text, "interrupted", 11))
            return STATUS_INTERRUPTED;
        return status_of(m, cmd);
    }
    return d->nerrors ? STATUS_INPUT : STATUS_OK;
}

/* Length of a colour sequence of ours, ESC [ digits m; 0: none is here. */
static size_t colour_length(const char *s, size_t n)
{
    size_t k = 2;
    if (n < 3 || s[0] != '\033' || s[1] != '[')
        return 0;
    while (k < n && ((s[k] >= '0' && s[k] <= '9') || s[k] == ';'))
        k++;
    return k < n && s[k] == 'm' ? k + 1 : 0;
}

/* The last door to the terminal: commands print names safely by themselves, and what one of them
 * forgot (an alias, a path, a line of a script) stops here. */
static void make_safe(struct shell *sh, const struct str *from, struct str *to)
{
    const char *s = from->s;
    for (size_t k = 0, n = from->n; k < n;) {
        size_t colour = sh->color ? colour_length(s + k, n - k) : 0, run = 0;
        if (colour || s[k] == '\n') {
            str_add(to, s + k, colour ? colour : 1);
            k += colour ? colour : 1;
            continue;
        }
        while (k + run < n && s[k + run] != '\n' &&
               (run == 0 || !(sh->color && colour_length(s + k + run, n - k - run))))
            run++;
        str_add_safe(to, s + k, run);
        k += run;
    }
}

static bool is_plain(const struct str *s)
{
    for (size_t k = 0; k < s->n; k++)
        if (((unsigned char)s->s[k] < 0x20 && s->s[k] != '\n') || (unsigned char)s->s[k] >= 0x7f)
            return false;
    return true;
}

static const struct str *safe_text(struct shell *sh, const struct str *s, struct str *room)
{
    if (s->n == 0 || is_plain(s))
        return s;
    *room = STR_IN(s->arena);
    make_safe(sh, s, room);
    return room;
}

static void say(struct shell *sh, bool message, const struct str *s)
{
    struct str room;
    s = safe_text(sh, s, &room);
    if (s->n)
        sh->sink.write(sh->sink.context, message, s->s, s->n);
}

/* JSON is safe by its own rules; a module that is printed for another program keeps every byte. */
static void say_bytes(struct shell *sh, struct str *s)
{
    if (s->n)
        sh->sink.write(sh->sink.context, false, s->s, s->n);
}

static bool is_sentence(const char *hint)
{
    return !strncmp(hint, "did you mean", 12) || !strncmp(hint, "usage:", 6) || strchr(hint, ':') ||
           strchr(hint, ';');
}

/* At the prompt the caret stands under what was typed:
 *     gspmd> shard w1 [model,dta]
 *                            ^^^ unknown mesh axis 'dta'; did you mean 'data'?            */
static bool render_under(struct shell *sh, const struct diag_msg *m, struct str *s)
{
    if (!(sh->interactive || sh->transcript) || sh->depth > 0 || !sh->one_line || !m->file ||
        strcmp(m->file, "<command>"))
        return false;
    int width = 7;
    if (!sh->transcript) {
        struct arena a = { 0 };
        width = (int)strlen(shell_prompt(sh, &a));
        arena_free(&a);
    }
    int at = width + m->column - 1;
    if (at > (sh->columns ? sh->columns : 100) - 12)
        return false;
    struct str line = STR_IN(s->arena);
    str_addf(&line, "%*s", at, "");
    for (int k = 0; k < (m->caret_len > 0 ? m->caret_len : 1); k++)
        str_addc(&line, '^');
    str_addf(&line, " %s%s\n", m->severity == DIAG_WARNING ? "warning: " : "", m->text);
    if (m->hint)
        str_addf(&line, "  %s%s\n", is_sentence(m->hint) ? "" : "try: ", m->hint);
    if (sh->columns > 0)
        fold_lines(s, line.s, line.n, sh->columns);
    else
        str_add(s, line.s, line.n);
    return true;
}

static void render(struct shell *sh, const struct diag_msg *m, struct str *s)
{
    if (render_under(sh, m, s))
        return;
    struct str text = STR_IN(s->arena);
    diag_render(m, &text);
    if (sh->columns > 0 && !m->file) /* a line of a file stays as it is, its caret below */
        fold_lines(s, text.s, text.n, sh->columns);
    else
        str_add(s, text.s, text.n);
    if (s->n && s->s[s->n - 1] != '\n')
        str_addc(s, '\n');
}

static void print_messages(struct shell *sh, const struct diag *d, struct arena *a)
{
    if (sh->serve)
        return;
    struct str s = STR_IN(a);
    for (int64_t k = 0; k < d->msgs.n; k++) {
        const struct diag_msg *m = &d->msgs.v[k];
        /* In JSON a warning is in its object. */
        if (m->severity != DIAG_ERROR && sh->json)
            continue;
        render(sh, m, &s);
    }
    if (d->nerrors > d->msgs.n)
        str_addf(&s, "and %" PRId64 " more\n", d->nerrors - d->msgs.n);
    say(sh, true, &s);
}

/* "warnings" and "error" of an object. */
static void json_messages(struct json *j, const struct diag *d, int status)
{
    bool any = false;
    const struct diag_msg *first = NULL;
    for (int64_t k = 0; k < d->msgs.n; k++) {
        const struct diag_msg *m = &d->msgs.v[k];
        if (m->severity == DIAG_ERROR) {
            first = first ? first : m;
            continue;
        }
        if (!any)
            json_put_open(j, "warnings", '[');
        any = true;
        struct str s = { .arena = j->s.arena };
        if (m->file && m->line)
            str_addf(&s, "%s:%d:%d: ", m->file, m->line, m->column);
        str_adds(&s, m->text);
        if (m->hint)
            str_addf(&s, " (%s)", m->hint);
        json_string(j, str_text(&s));
    }
    if (any)
        json_close(j, ']');
    if (!first && status <= STATUS_DIFFERS)
        return;
    json_put_open(j, "error", '{');
    json_put_string(j, "code", first && first->code ? first->code : "usage");
    json_put_int(j, "exit", status);
    json_put_string(j, "message", first ? first->text : "failed");
    if (first && first->hint)
        json_put_string(j, "hint", first->hint);
    if (first && first->file) {
        json_put_string(j, "file", first->file);
        json_put_int(j, "line", first->line);
        json_put_int(j, "column", first->column);
        if (first->quote)
            json_put_string(j, "quote", first->quote);
    }
    json_close(j, '}');
}

static void json_begin(struct shell *sh, struct json *j, const char *command)
{
    json_open(j, '{');
    if (sh->request_id) {
        json_key(j, "id");
        json_raw(j, sh->request_id);
    }
    json_put_string(j, "command", command);
    json_put_int(j, "schema", 1);
}

void dispatch_messages(struct shell *sh, struct diag *d, int status)
{
    struct arena a = { 0 };
    print_messages(sh, d, &a);
    if (sh->json) {
        struct json j;
        json_init(&j, &a);
        json_begin(sh, &j, "");
        json_messages(&j, d, status);
        json_close(&j, '}');
        str_addc(&j.s, '\n');
        say_bytes(sh, &j.s);
    }
    arena_free(&a);
}

/* ---- what commands use ----------------------------------------------------------------------------- */

int call_failed(struct call *c)
{
    int s = status_of_diag(c->d, c->cmd);
    return s ? s : STATUS_INPUT;
}

struct span call_span(const struct call *c, int k)
{
    if (k >= 0 && k < c->n)
        return (struct span){ c->args[k].off, c->args[k].len };
    return (struct span){ c->off, c->end - c->off };
}

int call_usage(struct call *c, int k, const char *fmt, ...)
{
    struct str s = STR_IN(&c->arena);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&s, fmt, ap);
    va_end(ap);
    diag_stage(c->d, "usage");
    diag_error(c->d, c->src, call_span(c, k), "%s", str_text(&s));
    return STATUS_USAGE;
}

int call_error(struct call *c, int status, const char *code, const char *fmt, ...)
{
    struct str s = STR_IN(&c->arena);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&s, fmt, ap);
    va_end(ap);
    diag_stage(c->d, code);
    diag_error(c->d, NULL, (struct span){ 0, 0 }, "%s", str_text(&s));
    return status;
}

const char *call_option(const struct call *c, const char *name)
{
    for (int k = 0; k < c->noptions; k++)
        if (!strcmp(c->options[k].name, name))
            return c->options[k].value ? c->options[k].value : "";
    return NULL;
}

const char *call_rest(struct call *c, int k, uint32_t *off)
{
    uint32_t from = c->args[k].off, to = c->args[c->n - 1].off + c->args[c->n - 1].len;
    if (off)
        *off = from;
    return arena_strndup(&c->arena, c->src->text + from, to - from);
}

void out(struct call *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_addv(&c->out, fmt, ap);
    va_end(ap);
}

struct tick *call_tick(struct call *c)
{
    return &c->sh->tick;
}

int64_t call_rows(const struct call *c, int64_t n)
{
    if (c->all || c->json)
        return n;
    int64_t limit = c->sh->limit;
    const char *given = call_option(c, "--limit");
    if (given && given[0])
        limit = strtoll(given, NULL, 10);
    if (limit <= 0)
        limit = c->sh->interactive && c->sh->rows > 8 ? c->sh->rows - 5 : 0;
    return limit > 0 && n > limit ? limit : n;
}

void call_more(struct call *c, int64_t shown, int64_t n, const char *what)
{
    if (shown < n)
        out(c, "and %s more%s%s (--all shows them)\n", with_commas(&c->arena, n - shown),
            what[0] ? " " : "", what);
}

int call_run(struct call *c, const char *name, const char *text, size_t n)
{
    if (c->sh->depth >= MAX_DEPTH)
        return call_error(c, STATUS_USAGE, "usage", "commands are nested more than %d deep",
                          MAX_DEPTH);
    c->sh->depth++;
    int status = shell_run(c->sh, name, text, n);
    c->sh->depth--;
    return status;
}

/* ---- finding the command --------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *name, size_t n)
{
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, " ");
        if (len == n && !memcmp(p, name, n))
            return true;
        p += len;
        p += strspn(p, " ");
    }
    return false;
}

const struct command *command_find(const char *name, size_t n, int *matches, char *list,
                                   size_t nlist)
{
    const struct command *found = NULL;
    *matches = 0;
    if (nlist)
        list[0] = '\0';
    for (int k = 0; k < ncommands; k++) {
        const struct command *cmd = &commands[k];
        if ((strlen(cmd->name) == n && !memcmp(cmd->name, name, n)) ||
            has_word(cmd->aliases, name, n)) {
            *matches = 1;
            return cmd;
        }
    }
    for (int k = 0; k < ncommands; k++) {
        const struct command *cmd = &commands[k];
        if (n == 0 || strncmp(cmd->name, name, n) != 0)
            continue;
        found = cmd;
        size_t used = strlen(list);
        if (nlist > used + strlen(cmd->name) + 3)
            snprintf(list + used, nlist - used, "%s%s", *matches ? ", " : "", cmd->name);
        ++*matches;
    }
    return *matches == 1 ? found : NULL;
}

static void no_such_command(struct call *c, const struct word *w, int matches, const char *list)
{
    struct span at = { w->off, w->len };
    diag_stage(c->d, "usage");
    if (matches > 1) {
        diag_error(c->d, c->src, at, "'%s' can be %s", w->text, list);
        return;
    }
    diag_error(c->d, c->src, at, "no command is named '%s'", w->text);
    const char *best = NULL;
    int least = 3;
    for (int k = 0; k < ncommands; k++) {
        int far = edit_distance(w->text, commands[k].name, 2);
        if (far < least && far < (int)strlen(commands[k].name)) {
            least = far;
            best = commands[k].name;
        }
    }
    if (best)
        diag_hint(c->d, "did you mean '%s'?", best);
    else
        diag_hint(c->d, "help lists the commands");
}

/* ---- words to arguments and options ---------------------------------------------------------------- */

/* The row's word for an option that begins like w; *sep: 0, '=' or ':' (takes a value). */
static const char *option_spec(struct call *c, const char *list, const char *w, char *sep,
                               size_t *used)
{
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, " ");
        size_t name = len;
        *sep = p[len - 1] == '=' || p[len - 1] == ':' ? p[len - 1] : '\0';
        name -= *sep != '\0';
        bool dashed = p[0] == '-';
        if (!strncmp(w, p, name) && (w[name] == '=' ? *sep == '=' : w[name] == '\0' && dashed)) {
            *used = name;
            return arena_strndup(&c->arena, p, name);
        }
        p += len;
        p += strspn(p, " ");
    }
    return NULL;
}

static char *unquote(struct call *c, const char *s)
{
    size_t n = strlen(s);
    if (n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n - 1] == s[0])
        return arena_strndup(&c->arena, s + 1, n - 2);
    return arena_strdup(&c->arena, s);
}

static bool unknown_option(struct call *c, const struct word *w)
{
    diag_stage(c->d, "usage");
    diag_error(c->d, c->src, (struct span){ w->off, w->len }, "%s has no option '%s'", c->cmd->name,
               w->text);
    const char *best = NULL;
    int least = 3;
    for (const char *p = c->cmd->options; p && *p;) {
        size_t len = strcspn(p, " ");
        char *name = arena_strndup(&c->arena, p, len - (p[len - 1] == '=' || p[len - 1] == ':'));
        int far = edit_distance(w->text, name, 2);
        if (far < least) {
            least = far;
            best = name;
        }
        p += len;
        p += strspn(p, " ");
    }
    if (best)
        diag_hint(c->d, "did you mean '%s'?", best);
    else
        diag_hint(c->d, "usage: %s%s%s", c->cmd->name, c->cmd->args[0] ? " " : "", c->cmd->args);
    return false;
}

static bool sort_words(struct call *c, int n, const struct word *words)
{
    c->args = ARENA_ARRAY(&c->arena, struct word, n);
    for (int k = 1; k < n; k++) {
        const struct word *w = &words[k];
        char sep = '\0';
        size_t used = 0;
        if ((c->cmd->flags & RAW_WORDS) || w->quoted) {
            c->args[c->n++] = *w;
            continue;
        }
        if (!strcmp(w->text, "--json")) {
            c->json = true;
            if (k ==
                n - 1) /* what undo and strategies repeat is the command, not how it answered */
                c->line = arena_strndup(&c->sh->arena, c->src->text + c->off,
                                        words[k - 1].off + words[k - 1].len - c->off);
            continue;
        }
        const char *name = option_spec(c, c->cmd->options, w->text, &sep, &used);
        if (!name) {
            if (w->n > 2 && w->text[0] == '-' && w->text[1] == '-')
                return unknown_option(c, w);
            c->args[c->n++] = *w;
            continue;
        }
        if (c->noptions == (int)COUNTOF(c->options))
            return unknown_option(c, w);
        struct option *o = &c->options[c->noptions++];
        *o = (struct option){ .name = name, .off = w->off, .len = w->len };
        if (w->text[used] == '=') {
            o->value = unquote(c, w->text + used + 1);
            o->off += (uint32_t)used + 1;
            o->len -= (uint32_t)used + 1;
        } else if (sep) {
            if (k + 1 >= n) {
                diag_stage(c->d, "usage");
                return diag_error(c->d, c->src, (struct span){ w->off, w->len }, "%s takes a value",
                                  w->text);
            }
            k++;
            o->value = words[k].text;
            o->off = words[k].off;
            o->len = words[k].len;
        }
    }
    c->all = call_option(c, "--all") != NULL;
    return true;
}

static bool check_call(struct call *c)
{
    const struct command *cmd = c->cmd;
    if ((cmd->max >= 0 && c->n > cmd->max) || c->n < cmd->min) {
        if (c->n < cmd->min)
            call_usage(c, -1, "%s: an argument is missing", cmd->name);
        else if (cmd->max == 0)
            call_usage(c, 0, "%s takes no argument", cmd->name);
        else
            call_usage(c, cmd->max, "%s takes %s%s", cmd->name, cmd->min < cmd->max ? "at most " : "",
                       counted(&c->arena, cmd->max, "argument"));
        diag_hint(c->d, "usage: %s%s%s", cmd->name, cmd->args[0] ? " " : "", cmd->args);
        return false;
    }
    if ((cmd->flags & NEEDS_MODULE) && !document_module(c->sh->doc)) {
        diag_stage(c->d, "usage");
        diag_error(c->d, NULL, (struct span){ 0, 0 }, "no module is loaded");
        diag_hint(c->d, "load FILE");
        return false;
    }
    if ((cmd->flags & WRITES_FILES) && (c->sh->safe || c->sh->sealed)) {
        diag_stage(c->d, "usage");
        return diag_error(c->d, NULL, (struct span){ 0, 0 }, "--safe: %s writes no file",
                          cmd->name);
    }
    return true;
}

/* ---- redirection ----------------------------------------------------------------------------------- */

struct redirect {
    enum { TO_SINK, TO_FILE, TO_APPEND, TO_PIPE } kind;
    const char *target;
};

/* Takes `> FILE`, `>> FILE`, `| CMD` off the words. */
static bool find_redirect(struct call *c, int *n, const struct word *words, struct redirect *r)
{
    *r = (struct redirect){ .kind = TO_SINK };
    if (!(c->cmd->flags & MAY_REDIRECT))
        return true;
    for (int k = 1; k < *n; k++) {
        const struct word *w = &words[k];
        if (w->quoted)
            continue;
        if (!strcmp(w->text, "|")) {
            uint32_t from = w->off + 1;
            r->kind = TO_PIPE;
            r->target = arena_strndup(&c->arena, c->src->text + from, c->end - from);
        } else if (k == *n - 2 && (!strcmp(w->text, ">") || !strcmp(w->text, ">>"))) {
            r->kind = w->text[1] ? TO_APPEND : TO_FILE;
            r->target = words[k + 1].text;
        } else if (k == *n - 1 && (!strcmp(w->text, ">") || !strcmp(w->text, ">>"))) {
            diag_stage(c->d, "usage");
            return diag_error(c->d, c->src, (struct span){ w->off, w->len },
                              "a file's name is missing behind %s", w->text);
        } else {
            continue;
        }
        if (c->sh->safe || c->sh->sealed) {
            diag_stage(c->d, "usage");
            return diag_error(c->d, c->src, (struct span){ w->off, w->len },
                              "--safe: no file is written, no program started");
        }
        c->end = words[k - 1].off + words[k - 1].len;
        *n = k;
        if (r->kind == TO_PIPE && r->target[strspn(r->target, " \t")] == '\0') {
            diag_stage(c->d, "usage");
            return diag_error(c->d, c->src, (struct span){ w->off, w->len },
                              "a command is missing behind |");
        }
        return true;
    }
    return true;
}

static int write_to(struct call *c, const struct redirect *r, const char *text, size_t n)
{
    fflush(stdout);
    FILE *f = r->kind == TO_PIPE ? popen(r->target, "w")
                                 : fopen(r->target, r->kind == TO_FILE ? "w" : "a");
    if (!f)
        return call_error(c, STATUS_RESOURCE, "write", "%s: %s", r->target, strerror(errno));
    errno = 0;
    bool ok = fwrite(text, 1, n, f) == n;
    int why = errno;
    if (r->kind == TO_PIPE) {
        int status = pclose(f);
        /* A reader that had enough (head) is no failure. */
        return status == 0 || why == EPIPE
                   ? STATUS_OK
                   : call_error(c, STATUS_RESOURCE, "write", "what stands behind | failed: %s", r->target + strspn(r->target, " "));
    }
    ok = fclose(f) == 0 && ok;
    return ok ? STATUS_OK
              : call_error(c, STATUS_RESOURCE, "write", "%s: %s", r->target,
                           strerror(why ? why : errno));
}

static int count_lines(const char *s, size_t n)
{
    int lines = 0;
    for (size_t k = 0; k < n; k++)
        lines += s[k] == '\n';
    return lines;
}

static bool page(struct shell *sh, const char *text, size_t n)
{
    if (!sh->interactive || !sh->pager || sh->safe || sh->rows == 0 ||
        count_lines(text, n) < sh->rows)
        return false;
    const char *pager = getenv("PAGER");
    if (!pager || !pager[0])
        pager = "less -FRX";
    if (!strcmp(pager, "cat"))
        return false;
    fflush(stdout);
    FILE *f = popen(pager, "w");
    if (!f)
        return false;
    bool all = fwrite(text, 1, n, f) == n;
    int status = pclose(f);
    return all || status == 0;
}

/* ---- running --------------------------------------------------------------------------------------- */

static int run_guarded(struct call *c)
{
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        /* The command's arena went with the failure. */
        c->out = STR_IN(&c->arena);
        json_init(&c->js, &c->arena);
        diag_stage(c->d, f.kind == FAIL_MEMORY ? "memory" : "internal");
        diag_error(c->d, NULL, (struct span){ 0, 0 }, "%s%s",
                   f.kind == FAIL_MEMORY ? "" : "a bug of gspmd: ", f.text);
        return f.kind == FAIL_MEMORY ? STATUS_RESOURCE : STATUS_INTERNAL;
    }
    int status = c->cmd->run(c);
    fail_leave(&f);
    return status;
}

static int finish_json(struct call *c, const struct redirect *r, int status)
{
    if (c->sh->opening && status == STATUS_OK && c->d->msgs.n == 0)
        return status;
    struct json j;
    json_init(&j, &c->arena);
    json_begin(c->sh, &j, c->cmd ? c->cmd->name : "");
    if (c->js.s.n) {
        str_addc(&j.s, ',');
        str_add(&j.s, c->js.s.s, c->js.s.n);
    }
    json_messages(&j, c->d, status);
    json_close(&j, '}');
    str_addc(&j.s, '\n');
    if (r->kind != TO_SINK && status == STATUS_OK)
        return write_to(c, r, j.s.s, j.s.n);
    say_bytes(c->sh, &j.s);
    return status;
}

static int finish(struct call *c, const struct redirect *r, int status)
{
    struct shell *sh = c->sh;
    if (sh->interrupted && (status != STATUS_OK || !(sh->interactive || sh->serve)))
        status = STATUS_INTERRUPTED;
    if (c->json) {
        print_messages(sh, c->d, &c->arena);
        return finish_json(c, r, status);
    }
    /* An answer that the user quieted (-q) is kept by redirection only. */
    if (r->kind != TO_SINK && status <= STATUS_DIFFERS) {
        int wrote = write_to(c, r, str_text(&c->out), c->out.n);
        status = wrote ? wrote : status;
    } else if (sh->opening) {
        /* only its messages */
    } else if (sh->blocks && r->kind == TO_SINK) {
        blocks_answer(sh->blocks, str_text(&c->out), c->out.n);
    } else if (c->verbatim && sh->rows == 0 && !sh->sealed) {
        say_bytes(sh, &c->out);
    } else {
        struct str room;
        const struct str *text = safe_text(sh, &c->out, &room);
        struct str folded = STR_IN(&c->arena);
        if (sh->columns > 0 && !c->laid_out && !c->verbatim && text->n) {
            fold_lines(&folded, text->s, text->n, sh->columns);
            text = &folded;
        }
        if (text->n && !page(sh, text->s, text->n))
            sh->sink.write(sh->sink.context, false, text->s, text->n);
    }
    print_messages(sh, c->d, &c->arena);
    return status;
}

static const struct command_alias *find_alias(const struct shell *sh, const char *name)
{
    for (int64_t k = 0; k < sh->aliases.n; k++)
        if (!strcmp(sh->aliases.v[k].name, name))
            return &sh->aliases.v[k];
    return NULL;
}

static int run_alias(struct shell *sh, struct call *c, const struct command_alias *alias, int n,
                     const struct word *words)
{
    struct str s = STR_IN(&c->arena);
    str_adds(&s, alias->text);
    if (n > 1) {
        str_addc(&s, ' ');
        str_add(&s, c->src->text + words[1].off, c->end - words[1].off);
    }
    if (sh->depth >= MAX_DEPTH || sh->alias_depth >= MAX_ALIAS_DEPTH) {
        call_error(c, STATUS_USAGE, "usage", "the alias '%s' leads to itself", alias->name);
        print_messages(sh, c->d, &c->arena);
        return STATUS_USAGE;
    }
    sh->depth++;
    sh->alias_depth++;
    int status = shell_run(sh, "<alias>", str_text(&s), s.n);
    sh->alias_depth--;
    sh->depth--;
    return status;
}

static int dispatch_call(struct call *c, int n, const struct word *words, struct redirect *r)
{
    char list[200];
    int matches;
    c->cmd = command_find(words[0].text, words[0].n, &matches, list, sizeof list);
    if (!c->cmd) {
        no_such_command(c, &words[0], matches, list);
        return STATUS_USAGE;
    }
    struct shell *sh = c->sh;
    bool prefix = strcmp(c->cmd->name, words[0].text) != 0 &&
                  !has_word(c->cmd->aliases, words[0].text, words[0].n);
    if (prefix && !sh->interactive && !sh->transcript && !sh->serve)
        diag_warn(c->d, c->src, (struct span){ words[0].off, words[0].len },
                  "'%s' is read as '%s': a script should spell it out", words[0].text,
                  c->cmd->name);
    if (!find_redirect(c, &n, words, r) || !sort_words(c, n, words) || !check_call(c))
        return STATUS_USAGE;
    diag_stage(c->d, "usage");
    /* Off the terminal: no colour, and all rows. */
    bool color = sh->color;
    if (r->kind != TO_SINK) {
        sh->color = sh->color_mode == ALWAYS;
        c->all = true;
    }
    shell_tick_begin(sh);
    int status = run_guarded(c);
    shell_tick_end(sh);
    sh->color = color;
    return status;
}

int dispatch(struct shell *sh, const struct source *src, const struct parsed *p, const char *raw,
             size_t nraw)
{
    struct call c = { .sh = sh,
                      .src = src,
                      .off = p->off,
                      .end = p->end,
                      .json = sh->json,
                      .heredoc = p->heredoc,
                      .heredoc_len = p->heredoc_len };
    arena_open(&c.arena);
    c.out = STR_IN(&c.arena);
    json_init(&c.js, &c.arena);
    c.d = diag_new();
    if (sh->depth == 0) {
        const char *nl = memchr(src->text, '\n', src->len);
        sh->one_line = !nl || nl + 1 == src->text + src->len;
    }
    /* A window that asks for its scene again leaves no trace in the session. */
    c.line = arena_strndup(sh->capture ? &c.arena : &sh->arena, src->text + p->off, p->end - p->off);
    if (!sh->capture && sh->depth == 0) /* what was typed, not what it ran */
        vec_push(&sh->arena, &sh->history, c.line);
    /* At the prompt Ctrl-C ends one command; a script it ends altogether. */
    if (sh->depth == 0 && (sh->interactive || sh->serve))
        sh->interrupted = 0;
    const struct command_alias *alias = find_alias(sh, p->words[0].text);
    int status;
    if (alias) {
        status = run_alias(sh, &c, alias, p->n, p->words);
    } else {
        struct redirect r = { .kind = TO_SINK };
        status = dispatch_call(&c, p->n, p->words, &r);
        bool was_json = sh->json;
        sh->json = c.json;
        status = finish(&c, &r, status);
        sh->json = was_json;
        if (!sh->capture) {
            review_record(sh, &c, status);
            journal_note(sh, &c, raw, nraw, status);
        }
    }
    if (sh->log && !sh->capture && status <= STATUS_DIFFERS && sh->depth == 0 &&
        !(c.cmd && !strcmp(c.cmd->name, "log"))) {
        while (nraw > 0 && (raw[nraw - 1] == '\n' || raw[nraw - 1] == ';' || raw[nraw - 1] == ' '))
            nraw--;
        for (; nraw > 0 && *raw == ' '; raw++)
            nraw--;
        fprintf(sh->log, "%.*s\n", (int)nraw, raw);
        fflush(sh->log);
    }
    diag_free(c.d);
    arena_close(&c.arena);
    return status;
}
