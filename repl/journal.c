/* Every edit at the prompt, written down as it is made, for `recover` after a session that died. */
#include "repl/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "repl/commands.h"

struct journal {
    char *folder, *path;
    int fd; /* -1: nothing was written yet */
    bool failed;
    char *loads; /* commands that wait for the first edit: loads alone are nothing to bring back; malloc */
};

/* ---- places ---------------------------------------------------------------------------------------- */

char *state_path(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (state && state[0] == '/')
        n = asprintf(&path, "%s/gspmd/%s", state, name);
    else if (home && home[0])
        n = asprintf(&path, "%s/.local/state/gspmd/%s", home, name);
    return n < 0 ? NULL : path;
}

void state_folders(const char *path)
{
    char *copy = strdup(path);
    for (char *p = copy ? copy + 1 : NULL; p && *p; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(copy, 0700);
            *p = '/';
        }
    free(copy);
}

/* Homes are shared between hosts, and so are numbers of processes. */
static void host_name(char *out, size_t n)
{
    if (gethostname(out, n) != 0)
        out[0] = '\0';
    out[n - 1] = '\0';
    for (char *p = out; *p; p++)
        if (*p == '/')
            *p = '_';
}

/* ---- writing --------------------------------------------------------------------------------------- */

struct journal *journal_new(void)
{
    char host[128], *path = NULL, *folder = state_path("journal");
    host_name(host, sizeof host);
    struct journal *j = calloc(1, sizeof *j);
    if (!j || !folder || asprintf(&path, "%s/%s-%ld", folder, host, (long)getpid()) < 0) {
        free(j);
        free(folder);
        return NULL;
    }
    *j = (struct journal){ .folder = folder, .path = path, .fd = -1 };
    return j;
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0) {
        unlink(j->path);
        close(j->fd);
    }
    free(j->folder);
    free(j->path);
    free(j->loads);
    free(j);
}

static bool journal_open(struct journal *j)
{
    if (j->fd >= 0 || j->failed)
        return !j->failed;
    state_folders(j->path);
    /* A number of a process comes again: what a dead one left under ours is moved out of the way. */
    struct stat st;
    if (stat(j->path, &st) == 0) {
        char *aside = NULL;
        if (asprintf(&aside, "%s-%lld", j->path, (long long)st.st_mtime) >= 0)
            rename(j->path, aside);
        free(aside);
    }
    j->fd = open(j->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    j->failed = j->fd < 0 || flock(j->fd, LOCK_EX | LOCK_NB) != 0;
    return !j->failed;
}

static void journal_write(struct journal *j, const char *text, size_t n)
{
    /* One write: it is there as a whole or not at all. A full disk must not stop the session. */
    if (!journal_open(j) || write(j->fd, text, n) != (ssize_t)n)
        j->failed = true;
    else
        fdatasync(j->fd);
}

/* The module under its full path: the next session may start elsewhere. */
static void add_load(struct str *s, const char *path)
{
    char *full = realpath(path, NULL);
    str_adds(s, "load \"");
    for (const char *p = full ? full : path; *p; p++) {
        if (*p == '"' || *p == '\\')
            str_addc(s, '\\');
        str_addc(s, *p);
    }
    str_adds(s, "\"\n");
    free(full);
}

static bool is_named(const struct call *c, const char *name)
{
    return c->cmd && !strcmp(c->cmd->name, name);
}

void journal_note(struct shell *sh, const struct call *c, const char *raw, size_t nraw, int status)
{
    struct journal *j = sh->journal;
    bool load = is_named(c, "load");
    if (!j || status > STATUS_DIFFERS || !c->cmd)
        return;
    if (!(c->cmd->flags & CHANGES) && !load && !is_named(c, "save") && !is_named(c, "alias"))
        return;
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    if (load && c->n < 2 && !c->heredoc) { /* load strategy FILE is an edit */
        add_load(&s, document_path(sh->doc));
    } else if (c->heredoc) {
        str_add(&s, raw, nraw);
        str_addc(&s, '\n');
    } else {
        str_adds(&s, c->line);
        str_addc(&s, '\n');
    }
    if (load && c->n < 2 && j->fd < 0) {
        free(j->loads);
        j->loads = strdup(str_text(&s));
    } else {
        if (j->loads)
            journal_write(j, j->loads, strlen(j->loads));
        free(j->loads);
        j->loads = NULL;
        journal_write(j, str_text(&s), s.n);
    }
    arena_free(&a);
}

/* ---- what dead sessions left ----------------------------------------------------------------------- */

struct left {
    char path[PATH_MAX];
    time_t when;
    int64_t edits; /* loads are none */
    char model[80];
};

/* Behind the text that belongs to a command of a journal: <<WORD, lines, WORD. */
static const char *skip_heredoc(const char *line, const char *nl)
{
    const char *word = memmem(line, (size_t)(nl - line), "<<", 2);
    size_t n = word ? (size_t)(nl - word) - 2 : 0;
    for (const char *p = nl + 1, *end; n > 0 && (end = strchr(p, '\n')); p = end + 1)
        if ((size_t)(end - p) == n && !memcmp(p, word + 2, n))
            return end;
    return nl;
}

static void count_edits(const char *text, struct left *l)
{
    for (const char *p = text, *nl; (nl = strchr(p, '\n')); p = skip_heredoc(p, nl) + 1) {
        l->edits += strncmp(p, "load \"", 6) != 0 && strncmp(p, "load - <<", 9) != 0;
        if (strncmp(p, "load \"", 6) != 0)
            continue;
        const char *base = p + 6;
        for (const char *q = base; q < nl; q++)
            base = *q == '/' ? q + 1 : base;
        snprintf(l->model, sizeof l->model, "%.*s", (int)(nl - base > 1 ? nl - base - 1 : 0), base);
    }
}

/* The number of edits and the last module of a journal; false: a session is at work on it, or it has none. */
static bool read_left(const char *path, struct left *l, struct str *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return false;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0) {
        close(fd);
        return false;
    }
    char block[1 << 14];
    ssize_t n;
    text->n = 0;
    while ((n = read(fd, block, sizeof block)) > 0)
        str_add(text, block, (size_t)n);
    close(fd);
    *l = (struct left){ .when = st.st_mtime };
    snprintf(l->path, sizeof l->path, "%s", path);
    count_edits(str_text(text), l);
    return l->edits > 0;
}

/* The newest journal that no session holds; its text in `text`. */
static bool find_left(const struct journal *own, struct left *newest, int64_t *count,
                      struct str *text)
{
    char host[128];
    char *folder = state_path("journal");
    DIR *dir = folder ? opendir(folder) : NULL;
    host_name(host, sizeof host);
    *count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        struct left l;
        if (strncmp(e->d_name, host, strlen(host)) != 0 || e->d_name[strlen(host)] != '-')
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (n < 0 || (size_t)n >= sizeof path || (own && !strcmp(path, own->path)))
            continue;
        if (!read_left(path, &l, text))
            continue;
        /* Names decide between those of one second, so that the choice is always the same. */
        if (++*count == 1 || l.when > newest->when ||
            (l.when == newest->when && strcmp(l.path, newest->path) > 0))
            *newest = l;
    }
    if (dir)
        closedir(dir);
    free(folder);
    if (*count == 0)
        return false;
    struct left l = *newest;
    return read_left(l.path, newest, text);
}

void journal_offer(struct shell *sh)
{
    struct left l;
    int64_t count;
    struct arena a = { 0 };
    struct str text = STR_IN(&a);
    if (find_left(sh->journal, &l, &count, &text)) {
        struct str s = STR_IN(&a);
        str_adds(&s, "A session");
        if (l.model[0]) {
            str_adds(&s, " on ");
            str_add_safe(&s, l.model, strlen(l.model));
        }
        str_addf(&s, " ended without quit, with %s; recover brings it back, recover --drop "
                     "forgets it.\n",
                 counted(&a, l.edits, "edit"));
        const char *told = prose(&a, str_text(&s), sh->columns);
        sh->sink.write(sh->sink.context, true, told, strlen(told));
    }
    arena_free(&a);
}

int cmd_recover(struct call *c)
{
    struct shell *sh = c->sh;
    struct left l;
    int64_t count;
    struct str text = STR_IN(&c->arena);
    if (sh->sealed || !find_left(sh->journal, &l, &count, &text))
        return call_error(c, STATUS_INPUT, "io", "no session ended without quit");
    if (call_option(c, "--drop")) {
        unlink(l.path);
        if (!sh->quiet)
            out(c, "forgotten: %s\n", counted(&c->arena, l.edits, "edit"));
        return STATUS_OK;
    }
    /* What does not work any more (a dump that is gone) is told, and the rest goes on. */
    bool bail = sh->bail, quiet = sh->quiet;
    sh->bail = false;
    sh->quiet = true;
    int status = call_run(c, "<journal>", str_text(&text), text.n);
    sh->bail = bail;
    sh->quiet = quiet;
    if (status > STATUS_DIFFERS)
        return call_error(c, status, "io", "not all of it could be done again; it is still there");
    unlink(l.path);
    if (c->json)
        json_put_int(&c->js, "edits", l.edits);
    else if (!quiet)
        out(c, "recovered: %s%s%s\n", counted(&c->arena, l.edits, "edit"),
            l.model[0] ? " on " : "", l.model);
    return STATUS_OK;
}
