#include "repl/line.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/journal.h"
#include "repl/viewer.h"

/* -DREADLINE_editline: libedit in readline's place; -DREADLINE_none: plain lines only. */
#if defined(READLINE_editline)
#include <editline/readline.h>
#define HAVE_EDITING 1
#elif defined(READLINE_none)
#define HAVE_EDITING 0
#else
#include <readline/history.h>
#include <readline/readline.h>
#define HAVE_EDITING 1
#endif

/* ---- what was typed so far of a command that goes on ----------------------------------------------- */

struct typed {
    char *s;
    size_t n;
};

static bool typed_add(struct typed *t, const char *line)
{
    size_t n = strlen(line);
    char *s = realloc(t->s, t->n + n + 2);
    if (!s)
        return false;
    memcpy(s + t->n, line, n);
    s[t->n + n] = '\n';
    s[t->n + n + 1] = '\0';
    t->s = s;
    t->n += n + 1;
    return true;
}

/* Runs the complete commands of what was typed. true: the last one goes on in the next line. */
static bool run_typed(struct shell *sh, struct typed *t, bool final)
{
    struct source src = { .name = "<command>", .text = t->s, .len = t->n };
    size_t pos = 0;
    while (!sh->quit) {
        enum lex_result r = shell_step(sh, &src, &pos, final);
        if (r == LEX_MORE)
            return true;
        if (r == LEX_END || (sh->status && sh->status != STATUS_DIFFERS))
            break;
    }
    t->n = 0;
    return false;
}

#if HAVE_EDITING

static struct shell *editing;
static int complete_start;

static char *match(const char *text, int state)
{
    return line_complete(editing, rl_line_buffer, complete_start, text, state);
}

static char **complete(const char *text, int start, int end)
{
    (void)end;
    complete_start = start;
    char **found = rl_completion_matches(text, match);
    /* No list of files where a tensor or an axis is wanted; readline's own list where a file is. */
    const char *word = rl_line_buffer + strspn(rl_line_buffer, " ");
    char list[8];
    int matches;
    const struct command *cmd = command_find(word, strcspn(word, " "), &matches, list, sizeof list);
    bool files = start > 0 && cmd &&
                 (cmd->complete == COMPLETE_FILE || cmd->complete == COMPLETE_EXPORT ||
                  cmd->complete == COMPLETE_PLOT);
    rl_attempted_completion_over = !files;
    if (found && found[0] && found[0][0]) {
        char last = found[0][strlen(found[0]) - 1];
        rl_completion_append_character = last == '=' || strpbrk(found[0], "[(") ? '\0' : ' ';
    }
    return found;
}

/* Ctrl-C: our handler has only set a flag; readline comes here when its read was interrupted. The
 * line is given up, and so is a command that was going on. */
static bool given_up;

static int on_event(void)
{
    if (!editing->interrupted)
        return 0;
    editing->interrupted = 0;
    given_up = true;
    struct arena a = { 0 };
    fputs("^C", rl_outstream);
    rl_crlf();
    rl_replace_line("", 0);
    rl_set_prompt(shell_prompt(editing, &a));
    rl_on_new_line();
    rl_redisplay();
    arena_free(&a);
    return 0;
}

/* While a key is awaited the window lives: its events, its frames, and what its bar asked for. */
static int on_idle(void)
{
    viewer_pump(editing);
    on_event();
    if (editing->quit) {
        rl_done = 1;
        return 0;
    }
    struct arena a = { 0 };
    const char *prompt = shell_prompt(editing, &a);
    if (rl_prompt && !strncmp(rl_prompt, "gspmd", 5) && strcmp(prompt, rl_prompt) != 0) {
        rl_set_prompt(prompt);
        rl_redisplay();
    }
    arena_free(&a);
#if !defined(READLINE_editline)
    if (viewer_patience(editing) > 0)
        rl_set_keyboard_input_timeout(1000 * viewer_patience(editing));
#endif
    return 0;
}

static void begin(struct shell *sh, char *history)
{
    editing = sh;
    rl_readline_name = "gspmd";
    rl_attempted_completion_function = complete;
    rl_basic_word_break_characters = " \t\n;";
    rl_completer_word_break_characters = " \t\n;";
    rl_completer_quote_characters = "";
    rl_catch_signals = 0;
    rl_catch_sigwinch = 1;
#if !defined(READLINE_editline)
    rl_signal_event_hook = on_event;
    /* Pasted text is one line a line, not a list of key strokes. */
    rl_variable_bind("enable-bracketed-paste", "on");
#else
    rl_event_hook = on_event;
#endif
    using_history();
    stifle_history(10000);
    if (history && !sh->safe)
        read_history(history);
}

static char *ask(struct shell *sh, const char *prompt)
{
    given_up = false;
    if (sh->viewer)
        rl_event_hook = on_idle;
    return readline(prompt);
}

static void remember(const char *line)
{
    if (!line[strspn(line, " \t")])
        return;
    HIST_ENTRY *last = history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
    if (!last || strcmp(last->line, line))
        add_history(line);
}

static void end(struct shell *sh, char *history)
{
    if (history && !sh->safe) {
        state_folders(history);
        write_history(history);
    }
    free(history);
}

#else

static const bool given_up = false;

static void begin(struct shell *sh, char *history)
{
    (void)sh;
    (void)history;
}

static char *ask(struct shell *sh, const char *prompt)
{
    (void)sh;
    fputs(prompt, stderr);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n > 0 && line[n - 1] == '\n')
        line[n - 1] = '\0';
    return line;
}

static void remember(const char *line)
{
    (void)line;
}

static void end(struct shell *sh, char *history)
{
    (void)sh;
    free(history);
}

#endif

static char *read_line(struct shell *sh, bool more)
{
    struct arena a = { 0 };
    char *line = ask(sh, more ? "...> " : shell_prompt(sh, &a));
    arena_free(&a);
    return line;
}

int line_loop(struct shell *sh)
{
    struct typed t = { 0 };
    char *history = state_path("history");
    bool more = false;
    begin(sh, history);
    sh->ask = ask;
    while (!sh->quit) {
        shell_find_terminal(sh);
        sh->interrupted = 0;
        char *line = read_line(sh, more);
        if (!line) { /* Ctrl-D; inside brackets it gives the command up */
            if (!more) {
                fputc('\n', stderr);
                break;
            }
            run_typed(sh, &t, true);
            more = false;
            clearerr(stdin);
            continue;
        }
        remember(line);
        if (given_up)
            t.n = 0;
        if (!typed_add(&t, line)) {
            free(line);
            break;
        }
        free(line);
        more = run_typed(sh, &t, false);
    }
    int status = sh->quit ? sh->status : STATUS_OK;
    sh->ask = NULL;
    end(sh, history);
    free(t.s);
    return status;
}
