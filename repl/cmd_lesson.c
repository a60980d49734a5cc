/* lesson, tutorial: texts with live commands and questions that the engine checks.
 *
 * A lesson is a text file (scripts/lessons/NAME.lesson):
 *     # Title                    first line
 *     summary: one line          for the list of lessons
 *     gspmd> COMMAND             run, its answer shown; a heredoc's lines follow it
 *     --                         a page ends
 *     ? question                 what is asked; then, in this order,
 *     check: expect bytes == $   what must hold; $ stands for the answer typed. Without a $ the
 *                                student types commands until it holds
 *     check: = 8 | eight         or: words of which the answer is one
 *     answer: 49152              what solves it: for $, or
 *     do: shard x [data,_]       commands
 *     hint: text                 shown on `hint`
 * Everything else is text. A lesson runs in a document of its own. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/embedded.h"
#include "base/fail.h"
#include "repl/commands.h"

extern const struct embedded lessons[];
extern const int nlessons;

struct question {
    struct str text, solution; /* solution: an answer, or commands, a line each */
    const char *check, *hint;
    bool commands;
};

struct lesson {
    struct call *c;
    const char *at; /* the rest of the text */
    bool present, checking, ended;
    int questions, solved;
    int problems; /* checking: what does not hold */
};

/* ---- showing --------------------------------------------------------------------------------------- */

static void show(struct lesson *l, const char *fmt, ...)
{
    struct shell *sh = l->c->sh;
    struct str s = STR_IN(&l->c->arena);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&s, fmt, ap);
    va_end(ap);
    if (!l->checking && !sh->json)
        sh->sink.write(sh->sink.context, false, str_text(&s), s.n);
}

static void show_styled(struct lesson *l, const char *style, const char *text)
{
    if (l->c->sh->color)
        show(l, "\033[%sm%s\033[0m\n", style, text);
    else
        show(l, "%s\n", text);
}

/* Runs commands without a word; the status. Nothing of it counts as a failure of the script. */
static int run_silently(struct lesson *l, const char *text)
{
    struct shell *sh = l->c->sh;
    struct sink sink = sh->sink;
    int failure = sh->first_failure;
    int64_t cases = sh->cases.n;
    sh->sink = (struct sink){ sink_drop, NULL };
    int status = call_run(l->c, "<lesson>", text, strlen(text));
    sh->sink = sink;
    sh->first_failure = failure;
    sh->cases.n = cases;
    return status;
}

static void run_shown(struct lesson *l, const char *text)
{
    if (l->checking) {
        int status = run_silently(l, text);
        if (status > STATUS_DIFFERS) {
            out(l->c, "  does not run: %s\n", text);
            l->problems++;
        }
        return;
    }
    call_run(l->c, "<lesson>", text, strlen(text));
}

/* ---- asking ---------------------------------------------------------------------------------------- */

static bool can_ask(const struct lesson *l)
{
    return l->c->sh->ask && l->c->sh->interactive && !l->checking;
}

/* A line from the student, or NULL: the lesson is over. */
static char *ask(struct lesson *l, const char *prompt)
{
    char *line = l->c->sh->ask(l->c->sh, prompt);
    if (!line || l->c->sh->interrupted) {
        free(line);
        l->ended = true;
        return NULL;
    }
    char *copy = arena_strdup(&l->c->arena, line);
    free(line);
    while (isspace((unsigned char)*copy))
        copy++;
    for (size_t n = strlen(copy); n > 0 && isspace((unsigned char)copy[n - 1]);)
        copy[--n] = '\0';
    if (!strcmp(copy, "quit") || !strcmp(copy, "exit") || !strcmp(copy, "q")) {
        l->ended = true;
        return NULL;
    }
    return copy;
}

static void end_page(struct lesson *l)
{
    if (!can_ask(l)) {
        show(l, "\n");
        return;
    }
    ask(l, "  (Enter goes on, quit ends) ");
    if (!l->ended && l->present)
        show(l, "\033[2J\033[H");
}

static bool is_one_of(const char *words, const char *answer)
{
    size_t n = strlen(answer);
    for (const char *p = words; *p;) {
        p += strspn(p, " |");
        size_t len = strcspn(p, " |");
        if (len == n && n > 0 && !strncasecmp(p, answer, n))
            return true;
        p += len;
    }
    return false;
}

static bool holds(struct lesson *l, const struct question *q, const char *answer)
{
    if (q->check[0] == '=')
        return is_one_of(q->check + 1, answer);
    struct str s = STR_IN(&l->c->arena);
    for (const char *p = q->check; *p; p++) {
        if (*p == '$')
            str_adds(&s, answer);
        else
            str_addc(&s, *p);
    }
    return run_silently(l, str_text(&s)) == STATUS_OK;
}

/* An answer that is part of a command must not be a command. */
static bool is_answer(const char *s)
{
    return s[0] && !s[strcspn(s, ";\n|>\"'\\#")];
}

static bool answer_is_right(struct lesson *l, const struct question *q, const char *line)
{
    if (q->commands) {
        call_run(l->c, "<command>", line, strlen(line));
        return holds(l, q, "");
    }
    return is_answer(line) && holds(l, q, line);
}

static void ask_until_right(struct lesson *l, const struct question *q)
{
    show(l, "%s\n", q->commands ? "  (commands; hint, skip and quit work, too)"
                                : "  (an answer; hint, skip and quit work, too)");
    for (;;) {
        char *line = ask(l, q->commands ? "lesson> " : "answer> ");
        if (!line)
            return;
        if (!line[0])
            continue;
        if (!strcmp(line, "hint")) {
            show(l, "  %s\n", q->hint ? q->hint : "no hint here");
        } else if (!strcmp(line, "skip")) {
            break;
        } else if (answer_is_right(l, q, line)) {
            show(l, "  Right.\n");
            l->solved++;
            return;
        } else if (!q->commands) {
            show(l, "  Not that. (hint helps, skip shows it)\n");
        }
    }
    struct str copy = q->solution;
    show(l, "  %s\n", str_text(&copy));
    if (q->commands)
        run_shown(l, str_text(&copy));
}

/* A question that any answer passes teaches nothing: the check must fail before, and hold after. */
static void check_question(struct lesson *l, struct question *q)
{
    const char *solution = str_text(&q->solution);
    const char *text = str_text(&q->text);
    if (q->commands) {
        if (holds(l, q, "")) {
            out(l->c, "  holds before anything is done: %s\n", text);
            l->problems++;
        }
        run_shown(l, solution);
        if (!holds(l, q, "")) {
            out(l->c, "  is not solved by its solution: %s\n", text);
            l->problems++;
        }
        return;
    }
    if (!holds(l, q, solution)) {
        out(l->c, "  is not answered by '%s': %s\n", solution, text);
        l->problems++;
    }
    if (holds(l, q, "123456789") || holds(l, q, "[nothing]")) {
        out(l->c, "  takes any answer: %s\n", text);
        l->problems++;
    }
}

static void pose(struct lesson *l, struct question *q)
{
    l->questions++;
    if (l->checking) {
        check_question(l, q);
        return;
    }
    show_styled(l, "1", prose(&l->c->arena, str_text(&q->text), l->c->sh->columns));
    if (can_ask(l)) {
        ask_until_right(l, q);
        return;
    }
    /* A script is shown the way. */
    const char *solution = str_text(&q->solution);
    if (!q->commands) {
        show(l, "answer> %s\n", solution);
    } else {
        for (const char *p = solution; *p;) {
            size_t n = strcspn(p, "\n");
            show(l, "lesson> %.*s\n", (int)n, p);
            call_run(l->c, "<lesson>", p, n);
            p += n + (p[n] == '\n');
        }
    }
    if (holds(l, q, solution)) {
        show(l, "  Right.\n");
        l->solved++;
    }
}

/* ---- reading --------------------------------------------------------------------------------------- */

static char *next_line(struct lesson *l)
{
    if (!*l->at)
        return NULL;
    size_t n = strcspn(l->at, "\n");
    char *line = arena_strndup(&l->c->arena, l->at, n);
    l->at += n + (l->at[n] == '\n');
    return line;
}

static const char *after(const char *line, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(line, prefix, n) != 0)
        return NULL;
    return line[n] == ' ' ? line + n + 1 : line + n;
}

/* A command with the lines of its heredoc. */
static void live_command(struct lesson *l, const char *first)
{
    struct str s = STR_IN(&l->c->arena);
    str_adds(&s, first);
    show_styled(l, "36", arena_printf(&l->c->arena, "gspmd> %s", first));
    const char *doc = strstr(first, "<<");
    if (doc) {
        doc += 2;
        for (char *line; (line = next_line(l));) {
            str_addc(&s, '\n');
            str_adds(&s, line);
            show(l, "%s\n", line);
            if (!strcmp(line, doc))
                break;
        }
        str_addc(&s, '\n');
    }
    run_shown(l, str_text(&s));
}

static void read_question(struct lesson *l, const char *first)
{
    struct question q = { .text = STR_IN(&l->c->arena), .solution = STR_IN(&l->c->arena) };
    str_adds(&q.text, first);
    for (const char *before = l->at; *before; before = l->at) {
        char *line = next_line(l);
        const char *v;
        if ((v = after(line, "check:"))) {
            q.check = v;
        } else if ((v = after(line, "answer:")) || (v = after(line, "do:"))) {
            q.commands = line[0] == 'd';
            str_adds(&q.solution, q.solution.n ? "\n" : "");
            str_adds(&q.solution, v);
        } else if ((v = after(line, "hint:"))) {
            q.hint = v;
        } else if (!q.check && line[0]) {
            v = after(line, "?");
            str_addf(&q.text, "\n%s", v ? v : line);
        } else {
            l->at = before;
            break;
        }
    }
    if (q.check) {
        pose(l, &q);
    } else if (l->checking) {
        out(l->c, "  has no check: %s\n", str_text(&q.text));
        l->problems++;
    }
}

static bool is_text(const char *line)
{
    return line[0] != '#' && !after(line, "summary:") && !after(line, "gspmd>") &&
           !after(line, "?") && strcmp(line, "--") != 0;
}

/* Lines of text up to the next thing that is none. */
static void show_text(struct lesson *l, const char *first)
{
    struct str s = STR_IN(&l->c->arena);
    str_addf(&s, "%s\n", first);
    for (const char *before = l->at; *before; before = l->at) {
        const char *line = next_line(l);
        if (!is_text(line)) {
            l->at = before;
            break;
        }
        str_addf(&s, "%s\n", line);
    }
    show(l, "%s", prose(&l->c->arena, str_text(&s), l->c->sh->columns));
}

static void run_lesson(struct lesson *l)
{
    for (char *line; !l->ended && !l->c->sh->interrupted && (line = next_line(l));) {
        const char *v;
        if (line[0] == '#')
            show_styled(l, "1;4", line + strspn(line, "# "));
        else if (after(line, "summary:"))
            continue;
        else if ((v = after(line, "gspmd>")))
            live_command(l, v);
        else if ((v = after(line, "?")))
            read_question(l, v);
        else if (!strcmp(line, "--"))
            end_page(l);
        else
            show_text(l, line);
    }
}

/* ---- the commands ---------------------------------------------------------------------------------- */

static const struct embedded *find_lesson(const char *name)
{
    for (int k = 0; k < nlessons; k++)
        if (!strcmp(lessons[k].name, name))
            return &lessons[k];
    return NULL;
}

static const char *line_after(struct call *c, const struct embedded *e, const char *prefix)
{
    const char *p = strstr(e->text, prefix);
    if (!p)
        return "";
    p += strlen(prefix);
    return arena_strndup(&c->arena, p, strcspn(p, "\n"));
}

static int list_lessons(struct call *c)
{
    if (c->json) {
        json_put_open(&c->js, "lessons", '[');
        for (int k = 0; k < nlessons; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", lessons[k].name);
            json_put_string(&c->js, "summary", line_after(c, &lessons[k], "summary: "));
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return STATUS_OK;
    }
    static const char *const heads[] = { "lesson", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int k = 0; k < nlessons; k++) {
        const char **row = table_row(&t);
        row[0] = lessons[k].name;
        row[1] = line_after(c, &lessons[k], "summary: ");
    }
    table_print(c, &t, false);
    return STATUS_OK;
}

static int give_lesson(struct call *c, const struct embedded *e)
{
    struct shell *sh = c->sh;
    struct lesson l = { .c = c,
                        .at = e->text,
                        .present = call_option(c, "--present") != NULL,
                        .checking = call_option(c, "--check") != NULL };
    /* The student's own document waits outside. */
    struct document *own = sh->doc;
    struct journal *journal = sh->journal;
    bool bail = sh->bail, unsaved = sh->unsaved, quit = sh->quit;
    sh->doc = document_new();
    sh->journal = NULL;
    sh->bail = false;
    if (l.present && can_ask(&l))
        show(&l, "\033[2J\033[H");
    run_lesson(&l);
    document_free(sh->doc);
    sh->doc = own;
    sh->journal = journal;
    sh->bail = bail;
    sh->unsaved = unsaved;
    sh->quit = quit;
    if (l.checking) {
        out(c, "%s %s: %s, %s\n", l.problems ? "FAILED " : "ok ", e->name,
            counted(&c->arena, l.questions, "question"),
            counted(&c->arena, l.problems, "problem"));
        return l.problems ? STATUS_DIFFERS : STATUS_OK;
    }
    if (l.questions && !l.ended)
        out(c, "%d of %s answered\n", l.solved, counted(&c->arena, l.questions, "question"));
    return STATUS_OK;
}

int cmd_lesson(struct call *c)
{
    if (c->n == 0 && !call_option(c, "--check"))
        return list_lessons(c);
    if (c->n == 0) {
        int worst = STATUS_OK;
        for (int k = 0; k < nlessons; k++) {
            int status = give_lesson(c, &lessons[k]);
            worst = status > worst ? status : worst;
        }
        return worst;
    }
    const struct embedded *e = find_lesson(c->args[0].text);
    if (e)
        return give_lesson(c, e);
    call_usage(c, 0, "no lesson is named '%s'", c->args[0].text);
    diag_hint(c->d, "lesson lists them");
    return STATUS_USAGE;
}

int cmd_tutorial(struct call *c)
{
    const struct embedded *e = find_lesson("tutorial");
    INVARIANT(e, "the tutorial is part of the program");
    return give_lesson(c, e);
}
