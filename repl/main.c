/* gspmd: the command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "repl/commands.h"
#include "repl/journal.h"
#include "repl/line.h"
#include "repl/review.h"
#include "repl/transcript.h"
#include "repl/viewer.h"

static struct shell *session;
static int write_failed; /* errno of the first failed write to stdout */

static void on_interrupt(int sig)
{
    (void)sig;
    if (session)
        session->interrupted = 1;
}

static void write_out(void *context, bool message, const char *bytes, size_t n)
{
    struct shell **sh = context;
    FILE *f = message ? stderr : stdout;
    if (message)
        fflush(stdout);
    errno = 0;
    bool ok = fwrite(bytes, 1, n, f) == n;
    ok = fflush(f) == 0 && ok;
    if (ok || message || write_failed)
        return;
    write_failed = errno ? errno : EIO;
    if (*sh)
        (*sh)->quit = true;
}

/* ---- the command line ------------------------------------------------------------------------------ */

struct job {
    char kind; /* c, C, f */
    const char *text;
};

struct arguments {
    struct job *jobs;
    int njobs;
    const char *model;
    const char *junit; /* file for the verdicts of expect and verify; NULL: none */
    bool quiet, no_init, json, serve, safe, stay;
    enum switch3 color;
};

static const char USAGE[] =
    "gspmd [-q] [-n] [--json] [--serve] [--safe] [--color=auto|always|never]\n"
    "      [--junit FILE] [-c SCRIPT | -C SCRIPT | -f FILE]... [MODEL | -]\n"
    "\n"
    "  MODEL      HLO or StableHLO text, .gz too, or a JSON model; - reads it from stdin\n"
    "  -c SCRIPT  run the commands and end        -C SCRIPT  run them and stay\n"
    "  -f FILE    run the commands of a file      -n         read no init file\n"
    "  -q         no greeting, no answer to edits --json     one JSON object a command\n"
    "  --serve    answer requests {\"id\":..,\"command\":\"..\"}, one a line\n"
    "  --safe     write no file, start no program\n"
    "  --junit FILE  the verdicts of expect and verify, as build servers read them\n"
    "\n"
    "A stdin that is no terminal is a script. At the prompt, help lists the commands:\n"
    "\n"
    "  gspmd models/mlp.json\n"
    "  gspmd> mesh data=2 model=4\n"
    "  gspmd> shard w1 [_,model]\n"
    "  gspmd> comms\n";

static int usage_error(const char *what, const char *which)
{
    fprintf(stderr, "gspmd: %s %s\nTry: gspmd --help\n", what, which);
    return STATUS_USAGE;
}

static int print_generated(const char *what, const char *which)
{
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    bool ok = true;
    if (!strcmp(what, "--man"))
        print_man(&s);
    else
        ok = print_completion(which, &s);
    if (ok)
        fwrite(str_text(&s), 1, s.n, stdout);
    arena_free(&a);
    return ok ? STATUS_OK : usage_error("no completion for", which);
}

/* Options that answer and end. -1: none is there. */
static int answer_and_end(int argc, char **argv)
{
    if (argc < 2)
        return -1;
    if (!strcmp(argv[1], "--transcript")) {
        bool record = argc > 2 && !strcmp(argv[2], "--record");
        return transcript_main(argc - 2 - record, argv + 2 + record, record);
    }
    if (!strcmp(argv[1], "--man"))
        return print_generated(argv[1], NULL);
    if (!strcmp(argv[1], "--completion"))
        return print_generated(argv[1], argc > 2 ? argv[2] : "bash");
    for (int k = 1; k < argc; k++) {
        if (!strcmp(argv[k], "--"))
            break;
        if (!strcmp(argv[k], "--version")) {
            printf("gspmd %s\n", GSPMD_VERSION);
            return STATUS_OK;
        }
        if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
            fputs(USAGE, stdout);
            return STATUS_OK;
        }
        if (!strcmp(argv[k], "-c") || !strcmp(argv[k], "-C") || !strcmp(argv[k], "-f") ||
            !strcmp(argv[k], "--junit"))
            k++;
    }
    return -1;
}

static int read_arguments(int argc, char **argv, struct arguments *a)
{
    a->jobs = calloc((size_t)argc, sizeof *a->jobs);
    if (!a->jobs)
        return STATUS_RESOURCE;
    bool words_only = false;
    for (int k = 1; k < argc; k++) {
        const char *w = argv[k];
        if (words_only || w[0] != '-' || !w[1]) {
            if (a->model)
                return usage_error("one model is enough:", w);
            a->model = w;
        } else if (!strcmp(w, "--")) {
            words_only = true;
        } else if (!strcmp(w, "-c") || !strcmp(w, "-C") || !strcmp(w, "-f")) {
            if (++k == argc)
                return usage_error("something is missing behind", w);
            a->jobs[a->njobs++] = (struct job){ w[1], argv[k] };
            a->stay |= w[1] == 'C';
        } else if (!strcmp(w, "--junit") || !strncmp(w, "--junit=", 8)) {
            if (w[7] != '=' && ++k == argc)
                return usage_error("a file is missing behind", w);
            a->junit = w[7] == '=' ? w + 8 : argv[k];
        } else if (!strcmp(w, "-q")) {
            a->quiet = true;
        } else if (!strcmp(w, "-n")) {
            a->no_init = true;
        } else if (!strcmp(w, "--json")) {
            a->json = true;
        } else if (!strcmp(w, "--serve")) {
            a->serve = a->json = true;
        } else if (!strcmp(w, "--safe")) {
            a->safe = true;
        } else if (!strcmp(w, "--color=auto") || !strcmp(w, "--color=always") ||
                   !strcmp(w, "--color=never")) {
            a->color = w[9] == 'l' ? ALWAYS : w[9] == 'n' ? NEVER : w[10] == 'l' ? ALWAYS : AUTO;
        } else if (!strcmp(w, "--no-color")) {
            a->color = NEVER;
        } else {
            return usage_error("no option is named", w);
        }
    }
    return STATUS_OK;
}

/* ---- running --------------------------------------------------------------------------------------- */

static char *init_path(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (config && config[0] == '/')
        n = asprintf(&path, "%s/gspmd/init.gspmd", config);
    else if (home)
        n = asprintf(&path, "%s/.config/gspmd/init.gspmd", home);
    return n < 0 ? NULL : path;
}

static int run_file(struct shell *sh, const char *path)
{
    struct diag *d = diag_new();
    struct source *src;
    diag_stage(d, "io");
    int status = STATUS_INPUT;
    if (file_read(path, &src, d)) {
        status = shell_run(sh, src->name, src->text, src->len);
        source_free(src);
    } else {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        for (int64_t k = 0; k < d->msgs.n; k++)
            diag_render(&d->msgs.v[k], &s);
        fputs(str_text(&s), stderr);
        arena_free(&a);
    }
    diag_free(d);
    return status;
}

static void run_init(struct shell *sh)
{
    char *path = init_path();
    if (path && access(path, R_OK) == 0)
        run_file(sh, path);
    free(path);
}

/* Commands from a pipe run as they come: another program may wait for each answer. */
static int run_stdin(struct shell *sh)
{
    char *text = NULL;
    size_t n = 0, cap = 0, pos = 0;
    int failure = STATUS_OK;
    for (bool end = false, wait = true; !sh->quit;) {
        if (wait && !end) {
            if (cap - n < 1 << 16) {
                cap = cap ? 2 * cap : 1 << 17;
                char *more = realloc(text, cap);
                if (!more)
                    break;
                text = more;
            }
            viewer_await(sh, STDIN_FILENO);
            ssize_t got = read(STDIN_FILENO, text + n, cap - n);
            if (got < 0 && errno == EINTR && !sh->interrupted)
                continue;
            end = got <= 0;
            n += got > 0 ? (size_t)got : 0;
        }
        /* A line that is not all there yet is left alone. */
        const char *nl = end ? text + n : n ? memrchr(text, '\n', n) : NULL;
        size_t whole = end ? n : nl ? (size_t)(nl + 1 - text) : 0;
        struct source src = { .name = "<stdin>", .text = text ? text : "", .len = whole };
        enum lex_result r = pos < whole ? shell_step(sh, &src, &pos, end) : LEX_END;
        wait = r == LEX_END || r == LEX_MORE;
        if (wait && end)
            break;
        if (!wait && sh->status && !failure)
            failure = sh->status;
        if (!wait && sh->status && (sh->bail || sh->status == STATUS_INTERRUPTED))
            break;
    }
    free(text);
    return sh->quit && !failure ? sh->status : failure;
}

static int serve(struct shell *sh)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    sh->serve = true;
    while (!sh->quit) {
        errno = 0;
        n = getline(&line, &cap, stdin);
        if (n < 0 && errno == EINTR) {
            clearerr(stdin);
            continue;
        }
        if (n < 0)
            break;
        shell_serve_line(sh, line, (size_t)n);
    }
    free(line);
    return sh->quit ? sh->status : STATUS_OK;
}

static int run_jobs(struct shell *sh, const struct arguments *a)
{
    int failure = STATUS_OK;
    for (int k = 0; k < a->njobs && !sh->quit; k++) {
        const struct job *j = &a->jobs[k];
        int status = j->kind == 'f' ? run_file(sh, j->text)
                                    : shell_run(sh, "<command>", j->text, strlen(j->text));
        if (status && !failure)
            failure = status;
        if (status && sh->bail)
            break;
    }
    return failure;
}

static int run_session(struct shell *sh, const struct arguments *a)
{
    bool batch = a->njobs > 0 && !a->stay;
    bool terminal = isatty(STDIN_FILENO) && !a->serve;
    bool model_is_stdin = a->model && !strcmp(a->model, "-");
    sh->interactive = !batch && terminal && !model_is_stdin;
    if (!a->no_init)
        run_init(sh);
    if (sh->interactive && !a->quiet && !a->model && !a->json)
        fprintf(stderr, "gspmd %s; help lists the commands\n", GSPMD_VERSION);
    if (sh->interactive && !sh->safe) {
        sh->journal = journal_new();
        journal_offer(sh);
    }
    int status = STATUS_OK;
    if (a->model && !sh->quit)
        status = shell_load(sh, a->model);
    if (status && !sh->interactive && !a->serve)
        return status;
    status = run_jobs(sh, a);
    if (sh->quit)
        return status ? status : sh->status;
    if (a->serve)
        return serve(sh);
    if (batch || model_is_stdin || (status && !sh->interactive))
        return status;
    return sh->interactive ? line_loop(sh) : run_stdin(sh);
}

int main(int argc, char **argv)
{
    int early = answer_and_end(argc, argv);
    if (early >= 0)
        return early;
    arena_keep_memory();
    struct arguments a = { .color = AUTO };
    int status = read_arguments(argc, argv, &a);
    if (status) {
        free(a.jobs);
        return status;
    }
    struct sigaction sa = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &sa, NULL);
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigaction(SIGPIPE, &ignore, NULL);
    session = shell_new((struct sink){ write_out, &session });
    if (!session) {
        fprintf(stderr, "gspmd: no memory\n");
        free(a.jobs);
        return STATUS_RESOURCE;
    }
    session->json = a.json;
    session->serve = a.serve;
    session->quiet = a.quiet;
    session->safe = a.safe;
    session->color_mode = a.color;
    shell_find_terminal(session);
    status = run_session(session, &a);
    if (a.junit && !session->safe && !review_junit(session, a.junit)) {
        fprintf(stderr, "gspmd: %s: %s\n", a.junit, strerror(errno));
        status = STATUS_RESOURCE;
    }
    shell_free(session);
    session = NULL;
    free(a.jobs);
    if (write_failed && write_failed != EPIPE) {
        fprintf(stderr, "gspmd: stdout: %s\n", strerror(write_failed));
        return STATUS_RESOURCE;
    }
    return write_failed ? STATUS_OK : status;
}
