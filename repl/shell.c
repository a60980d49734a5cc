/* A session: scripts, requests, prompt, terminal. */
#include "repl/shell.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "repl/dispatch.h"
#include "repl/pictures.h"
#include "repl/viewer.h"
#include "repl/journal.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Progress is shown on a terminal only, and only for what takes a while. */
static bool shell_tick(void *context, const char *what, int64_t done, int64_t total)
{
    struct shell *sh = context;
    viewer_tick(sh);
    if (sh->interrupted)
        return false;
    if (!sh->interactive || sh->transcript || !isatty(STDERR_FILENO))
        return true;
    double t = now();
    if (t - sh->tick_started < 0.5)
        return true;
    sh->tick_started = t - 0.4;
    sh->tick_shown = true;
    if (total > 0)
        fprintf(stderr, "\r\033[K%s %d%%", what, (int)(100.0 * (double)done / (double)total));
    else
        fprintf(stderr, "\r\033[K%s", what);
    fflush(stderr);
    return true;
}

void shell_tick_begin(struct shell *sh)
{
    sh->tick_started = now();
    sh->tick_shown = false;
}

void shell_tick_end(struct shell *sh)
{
    if (sh->tick_shown)
        fputs("\r\033[K", stderr);
    sh->tick_shown = false;
}

void sink_drop(void *context, bool message, const char *bytes, size_t n)
{
    (void)context;
    (void)message;
    (void)bytes;
    (void)n;
}

struct shell *shell_new(struct sink sink)
{
    struct shell *sh = calloc(1, sizeof *sh);
    if (!sh)
        return NULL;
    sh->sink = sink;
    sh->bail = true;
    sh->pager = true;
    sh->tick = (struct tick){ .fn = shell_tick, .context = sh };
    sh->doc = document_new();
    return sh;
}

void shell_free(struct shell *sh)
{
    if (!sh)
        return;
    viewer_free(sh);
    picture_run_free(sh);
    if (sh->log)
        fclose(sh->log);
    journal_free(sh->journal);
    debug_forget(sh);
    document_free(sh->doc);
    hardware_free(sh->hardware);
    arena_free(&sh->arena);
    free(sh);
}

void shell_find_terminal(struct shell *sh)
{
    struct winsize w;
    sh->rows = sh->columns = 0;
    bool tty = isatty(STDOUT_FILENO);
    if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0) {
        sh->rows = w.ws_row ? w.ws_row : 24;
        sh->columns = w.ws_col ? w.ws_col : 80;
    }
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool plain = !tty || (no && no[0]) || !term || !strcmp(term, "dumb");
    sh->color = sh->color_mode == ALWAYS || (sh->color_mode == AUTO && !plain);
}

/* ---- scripts --------------------------------------------------------------------------------------- */

enum lex_result shell_step(struct shell *sh, const struct source *src, size_t *pos, bool final)
{
    struct arena a = { 0 };
    struct diag *d = diag_new();
    struct parsed p;
    size_t from = *pos;
    enum lex_result r = lex_command(&a, src, pos, final, &p, d);
    if (r == LEX_ERROR) {
        sh->status = STATUS_USAGE;
        dispatch_messages(sh, d, STATUS_USAGE);
    } else if (r == LEX_COMMAND) {
        sh->status = dispatch(sh, src, &p, src->text + from, *pos - from);
    }
    if ((r == LEX_ERROR || r == LEX_COMMAND) && sh->status && !sh->first_failure)
        sh->first_failure = sh->status;
    diag_free(d);
    arena_free(&a);
    viewer_pump(sh); /* what the command changed is seen at once */
    return r;
}

int shell_run(struct shell *sh, const char *name, const char *text, size_t n)
{
    struct source src = { .name = name, .text = text, .len = n };
    int failure = STATUS_OK;
    for (size_t pos = 0; !sh->quit;) {
        enum lex_result r = shell_step(sh, &src, &pos, true);
        if (r == LEX_END)
            break;
        if (sh->status && !failure)
            failure = sh->status;
        if (sh->status && (sh->bail || sh->status == STATUS_INTERRUPTED) && !sh->serve &&
            !sh->transcript)
            break;
    }
    return sh->quit && !failure ? sh->status : failure;
}

int shell_load(struct shell *sh, const char *path)
{
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    /* As if typed, so that failures, warnings and history are those of the command. */
    str_adds(&s, "load ");
    bool quote = path[strcspn(path, " \t\n;#|>()[]{}'\"\\<")] != '\0' || !path[0];
    if (quote) {
        str_addc(&s, '"');
        for (const char *p = path; *p; p++) {
            if (*p == '"' || *p == '\\')
                str_addc(&s, '\\');
            str_addc(&s, *p);
        }
        str_addc(&s, '"');
    } else {
        str_adds(&s, path);
    }
    struct source src = { .name = "<command line>", .text = str_text(&s), .len = s.n };
    size_t pos = 0;
    sh->opening =
        !sh->interactive; /* loading the model of the command line is no command: no answer */
    shell_step(sh, &src, &pos, true);
    sh->opening = false;
    arena_free(&a);
    return sh->status;
}

/* ---- requests -------------------------------------------------------------------------------------- */

static void serve_error(struct shell *sh, const char *id, const char *message)
{
    struct arena a = { 0 };
    struct json j;
    json_init(&j, &a);
    json_open(&j, '{');
    json_key(&j, "id");
    json_raw(&j, id ? id : "null");
    json_put_null(&j, "command");
    json_put_int(&j, "schema", 1);
    json_put_open(&j, "error", '{');
    json_put_string(&j, "code", "usage");
    json_put_int(&j, "exit", STATUS_USAGE);
    json_put_string(&j, "message", message);
    json_close(&j, '}');
    json_close(&j, '}');
    str_addc(&j.s, '\n');
    sh->sink.write(sh->sink.context, false, str_text(&j.s), j.s.n);
    arena_free(&a);
}

void shell_serve_line(struct shell *sh, const char *line, size_t n)
{
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' '))
        n--;
    if (n == 0)
        return;
    cJSON *request = cJSON_ParseWithLength(line, n);
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(request, "id");
    const cJSON *command = cJSON_GetObjectItemCaseSensitive(request, "command");
    char *id_text = id ? cJSON_PrintUnformatted(id) : NULL;
    if (!cJSON_IsObject(request) || !cJSON_IsString(command)) {
        serve_error(sh, id_text,
                    request ? "a request is {\"id\":..,\"command\":\"..\"}" : "not JSON");
    } else {
        sh->request_id = id_text ? id_text : "null";
        sh->interrupted = 0;
        struct source src = { .name = "<command>",
                              .text = command->valuestring,
                              .len = strlen(command->valuestring) };
        int answers = 0;
        for (size_t pos = 0; !sh->quit;) {
            if (shell_step(sh, &src, &pos, true) == LEX_END)
                break;
            answers++;
            if (sh->status && sh->bail)
                break;
        }
        if (answers == 0)
            serve_error(sh, id_text, "no command");
        sh->request_id = NULL;
    }
    cJSON_free(id_text);
    cJSON_Delete(request);
}

/* ---- prompt ---------------------------------------------------------------------------------------- */

char *shell_prompt(struct shell *sh, struct arena *a)
{
    struct str s = STR_IN(a);
    str_adds(&s, "gspmd");
    if (document_module(sh->doc)) {
        const char *path = document_path(sh->doc), *base = strrchr(path, '/');
        base = base ? base + 1 : path;
        size_t n = strcspn(base, ".");
        struct str safe = STR_IN(a);
        str_add_safe(&safe, base, n < 24 ? n : 24);
        str_addf(&s, " %s", n ? str_text(&safe) : "-");
        const struct mesh *m = document_mesh(sh->doc);
        for (int k = 0; m && k < m->naxes; k++)
            str_addf(&s, "%s%" PRId64, k ? "x" : " ", m->axes[k].size);
        if (!m && document_devices(sh->doc) > 0)
            str_addf(&s, " %" PRId64, document_devices(sh->doc));
        if (sh->unsaved)
            str_addc(&s, '*');
    }
    str_adds(&s, "> ");
    return (char *)(uintptr_t)str_text(&s);
}
