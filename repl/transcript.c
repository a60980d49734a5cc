#include "repl/transcript.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "repl/shell.h"

struct heard {
    struct arena arena;
    struct str text;
};

static void hear(void *context, bool message, const char *bytes, size_t n)
{
    (void)message;
    struct heard *h = context;
    str_add(&h->text, bytes, n);
}

/* One command of a transcript and what is expected of it. */
struct step {
    const char *command; /* prompts taken off, heredoc included */
    int line;
    const char *from, *to; /* expected lines in the file */
};

struct transcript {
    const char *name;
    char *text;
    size_t n;
    bool markdown;
    struct arena arena;
    VEC(struct step) steps;
    VEC(int) resets; /* steps before which a new session begins */
};

static const char PROMPT[] = "gspmd> ", MORE[] = "...> ";

static bool begins(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && !memcmp(p, word, n);
}

static const char *line_end(const char *p, const char *end)
{
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    return nl ? nl : end;
}

/* "<<END" at the end of a command: the tag. */
static const char *heredoc_tag(struct transcript *t, const char *p, const char *eol)
{
    for (const char *q = p; q + 2 < eol; q++)
        if (q[0] == '<' && q[1] == '<' && q > p && q[-1] == ' ' &&
            !memchr(q, ' ', (size_t)(eol - q)))
            return arena_strndup(&t->arena, q + 2, (size_t)(eol - q - 2));
    return NULL;
}

static const char *next_line(const char *eol, const char *end)
{
    return eol < end ? eol + 1 : end;
}

/* Reads a command that starts at *p with a prompt; *p goes behind it. */
static const char *read_command(struct transcript *t, const char **p, const char *end)
{
    struct str s = STR_IN(&t->arena);
    const char *eol = line_end(*p, end), *from = *p + strlen(PROMPT);
    str_add(&s, from < eol ? from : eol, from < eol ? (size_t)(eol - from) : 0);
    str_addc(&s, '\n');
    const char *tag = heredoc_tag(t, *p, eol);
    *p = next_line(eol, end);
    while (tag && *p < end) {
        eol = line_end(*p, end);
        size_t n = (size_t)(eol - *p);
        bool last = n == strlen(tag) && !memcmp(*p, tag, n);
        str_add(&s, *p, n);
        str_addc(&s, '\n');
        *p = next_line(eol, end);
        if (last)
            break;
    }
    while (*p < end && begins(*p, end, MORE)) {
        eol = line_end(*p, end);
        str_add(&s, *p + strlen(MORE), (size_t)(eol - *p) - strlen(MORE));
        str_addc(&s, '\n');
        *p = next_line(eol, end);
    }
    return str_text(&s);
}

static void split(struct transcript *t)
{
    const char *p = t->text, *end = t->text + t->n;
    bool inside = !t->markdown;
    int line = 1;
    while (p < end) {
        const char *eol = line_end(p, end);
        if (t->markdown && begins(p, end, "```")) {
            inside = begins(p, end, "```gspmd");
        } else if (inside && begins(p, end, "# new session")) {
            vec_push(&t->arena, &t->resets, (int)t->steps.n);
        } else if (inside && begins(p, end, PROMPT)) {
            struct step s = { .line = line };
            const char *at = p;
            s.command = read_command(t, &at, end);
            for (const char *q = p; q < at; q++)
                line += *q == '\n';
            s.from = p = at;
            while (p < end && !begins(p, end, PROMPT) && *p != '#' &&
                   !(t->markdown && begins(p, end, "```"))) {
                p = next_line(line_end(p, end), end);
                line++;
            }
            s.to = p;
            /* Blank lines behind the answer are the author's. */
            while (s.to > s.from && s.to[-1] == '\n' && (s.to - 1 == s.from || s.to[-2] == '\n'))
                s.to--;
            vec_push(&t->arena, &t->steps, s);
            continue;
        }
        line++;
        p = next_line(eol, end);
    }
}

/* Whether the lines of got fit those expected, "..." standing for any number of them. */
static bool fits(const char *want, const char *wend, const char *got, const char *gend)
{
    while (want < wend) {
        const char *weol = line_end(want, wend);
        if (weol - want == 3 && !memcmp(want, "...", 3)) {
            const char *rest = next_line(weol, wend);
            for (const char *g = got;; g = next_line(line_end(g, gend), gend)) {
                if (fits(rest, wend, g, gend))
                    return true;
                if (g >= gend)
                    return false;
            }
        }
        if (got >= gend)
            return false;
        const char *geol = line_end(got, gend);
        const char *ge = geol, *we = weol;
        while (ge > got && (ge[-1] == ' ' || ge[-1] == '\r'))
            ge--;
        while (we > want && (we[-1] == ' ' || we[-1] == '\r'))
            we--;
        if (ge - got != we - want || memcmp(got, want, (size_t)(we - want)))
            return false;
        want = next_line(weol, wend);
        got = next_line(geol, gend);
    }
    return got >= gend;
}

static struct shell *fresh_shell(struct heard *h)
{
    struct shell *sh = shell_new((struct sink){ hear, h });
    if (sh)
        sh->transcript = true;
    return sh;
}

static void print_block(const char *mark, const char *from, const char *to)
{
    for (const char *p = from; p < to; p = next_line(line_end(p, to), to))
        printf("  %s %.*s\n", mark, (int)(line_end(p, to) - p), p);
}

static bool run_steps(struct transcript *t, struct str *rewritten, int *passed, int *failed)
{
    struct heard h = { 0 };
    h.text = STR_IN(&h.arena);
    struct shell *sh = fresh_shell(&h);
    int64_t reset = 0;
    const char *copied = t->text;
    int bad = 0;
    for (int64_t k = 0; sh && k < t->steps.n; k++) {
        const struct step *s = &t->steps.v[k];
        while (reset < t->resets.n && t->resets.v[reset] <= k) {
            reset++;
            shell_free(sh);
            sh = fresh_shell(&h);
        }
        if (!sh)
            break;
        h.text.n = 0;
        sh->quit = false;
        int status = shell_run(sh, "<command>", s->command, strlen(s->command));
        if (status)
            str_addf(&h.text, "(exit %d)\n", status);
        const char *got = str_text(&h.text), *gend = got + h.text.n;
        while (gend > got && gend[-1] == '\n' && (gend - 1 == got || gend[-2] == '\n'))
            gend--;
        bool ok = fits(s->from, s->to, got, gend);
        *passed += ok;
        *failed += !ok;
        bad += !ok;
        if (rewritten) {
            str_add(rewritten, copied, (size_t)(s->from - copied));
            if (ok)
                str_add(rewritten, s->from, (size_t)(s->to - s->from));
            else
                str_add(rewritten, got, (size_t)(gend - got));
            copied = s->to;
        } else if (!ok) {
            printf("%s:%d: %.*s\n", t->name, s->line, (int)strcspn(s->command, "\n"), s->command);
            print_block("-", s->from, s->to);
            print_block("+", got, gend);
        }
    }
    if (rewritten)
        str_add(rewritten, copied, (size_t)(t->text + t->n - copied));
    shell_free(sh);
    arena_free(&h.arena);
    printf("%s  %s: %" PRId64 " commands\n", bad ? (rewritten ? "recorded" : "FAILED") : "ok",
           t->name, t->steps.n);
    return bad == 0;
}

static bool read_all(const char *path, char **text, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    size_t cap = 1 << 16;
    *text = malloc(cap);
    *n = 0;
    for (size_t got; *text && (got = fread(*text + *n, 1, cap - *n, f)) > 0;) {
        *n += got;
        if (*n == cap) {
            cap *= 2;
            char *more = realloc(*text, cap);
            if (!more)
                free(*text);
            *text = more;
        }
    }
    fclose(f);
    return *text != NULL;
}

static bool run_file(const char *path, bool record, int *passed, int *failed)
{
    struct transcript t = { .name = path };
    if (!read_all(path, &t.text, &t.n)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        ++*failed;
        return false;
    }
    size_t len = strlen(path);
    t.markdown = len > 3 && !strcmp(path + len - 3, ".md");
    split(&t);
    struct arena a = { 0 };
    struct str s = STR_IN(&a);
    bool ok = run_steps(&t, record ? &s : NULL, passed, failed);
    if (record && !ok) {
        FILE *f = fopen(path, "wb");
        ok = f && fwrite(str_text(&s), 1, s.n, f) == s.n;
        if (f && fclose(f))
            ok = false;
    }
    arena_free(&a);
    arena_free(&t.arena);
    free(t.text);
    return ok;
}

/* The examples of the table; record prints them as they are now, to be put into the table. */
static void run_examples(bool record, int *passed, int *failed)
{
    for (int k = 0; k < ncommands; k++) {
        if (!commands[k].example)
            continue;
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        char *name = arena_printf(&a, "help %s", commands[k].name);
        struct transcript t = { .name = name,
                                .text = arena_strdup(&a, commands[k].example),
                                .n = strlen(commands[k].example) };
        split(&t);
        run_steps(&t, record ? &s : NULL, passed, failed);
        if (record)
            printf("%s", str_text(&s));
        arena_free(&t.arena);
        arena_free(&a);
    }
}

int transcript_main(int nfiles, char **files, bool record)
{
    int passed = 0, failed = 0;
    bool ok = true;
    for (int k = 0; k < nfiles; k++) {
        if (!strcmp(files[k], ":examples"))
            run_examples(record, &passed, &failed);
        else
            ok &= run_file(files[k], record, &passed, &failed);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return (failed && !record) || !ok ? STATUS_DIFFERS : STATUS_OK;
}
