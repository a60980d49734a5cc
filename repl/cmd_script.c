/* Scripts: source, echo, time, log, alias. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "repl/commands.h"

int cmd_source(struct call *c)
{
    if (c->sh->sealed)
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    struct source *src;
    diag_stage(c->d, "io");
    if (!file_read(c->args[0].text, &src, c->d))
        return call_failed(c);
    int status = call_run(c, src->name, src->text, src->len);
    source_free(src);
    return status;
}

int cmd_echo(struct call *c)
{
    struct str s = STR_IN(&c->arena);
    for (int k = 0; k < c->n; k++) {
        str_adds(&s, k ? " " : "");
        str_add_safe(&s, c->args[k].text, c->args[k].n);
    }
    if (c->json)
        json_put_string(&c->js, "text", str_text(&s));
    else
        out(c, "%s\n", str_text(&s));
    return STATUS_OK;
}

int cmd_time(struct call *c)
{
    uint32_t off;
    const char *text = call_rest(c, 0, &off);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    int status = call_run(c, "<command>", text, strlen(text));
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ms = 1e3 * (double)(b.tv_sec - a.tv_sec) + 1e-6 * (double)(b.tv_nsec - a.tv_nsec);
    /* Figures are messages: what a script prints stays the same from run to run. */
    if (c->json)
        json_put_int(&c->js, "microseconds", (int64_t)(ms * 1e3));
    else if (!c->sh->transcript)
        diag_note(c->d, NULL, (struct span){ 0, 0 }, ms < 1000 ? "%.1f ms" : "%.0f ms", ms);
    return status;
}

int cmd_log(struct call *c)
{
    struct shell *sh = c->sh;
    if (c->n == 0) {
        out(c, sh->log ? "a log is being written\n"
                       : "no log is being written; log FILE begins one\n");
        return STATUS_OK;
    }
    if (sh->log)
        fclose(sh->log);
    sh->log = NULL;
    if (!strcmp(c->args[0].text, "off"))
        return STATUS_OK;
    sh->log = fopen(c->args[0].text, "w");
    if (!sh->log)
        return call_error(c, STATUS_RESOURCE, "write", "%s: %s", c->args[0].text, strerror(errno));
    const char *path = document_path(sh->doc);
    if (path[0] && path[0] != '<')
        fprintf(sh->log, "load \"%s\"\n", path);
    struct str start = STR_IN(&c->arena); /* from which the log goes on */
    strategy_commands(c, document_strategy(sh->doc), &start);
    fputs(str_text(&start), sh->log);
    return STATUS_OK;
}

int cmd_alias(struct call *c)
{
    struct shell *sh = c->sh;
    if (c->n == 0) {
        for (int64_t k = 0; k < sh->aliases.n; k++)
            out(c, "alias %s %s\n", sh->aliases.v[k].name, sh->aliases.v[k].text);
        for (int k = 0; k < ncommands; k++)
            if (commands[k].aliases)
                out(c, "%s: %s\n", commands[k].name, commands[k].aliases);
        return STATUS_OK;
    }
    const char *name = c->args[0].text;
    if (c->n == 1) {
        for (int64_t k = 0; k < sh->aliases.n; k++)
            if (!strcmp(sh->aliases.v[k].name, name)) {
                sh->aliases.v[k] = sh->aliases.v[--sh->aliases.n];
                return STATUS_OK;
            }
        return call_usage(c, 0, "no alias is named '%s'", name);
    }
    for (int k = 0; k < ncommands; k++)
        if (!strcmp(commands[k].name, name))
            return call_usage(c, 0, "'%s' is a command", name);
    struct command_alias a = { arena_strdup(&sh->arena, name),
                               arena_strdup(&sh->arena, call_rest(c, 1, NULL)) };
    for (int64_t k = 0; k < sh->aliases.n; k++)
        if (!strcmp(sh->aliases.v[k].name, name)) {
            sh->aliases.v[k] = a;
            return STATUS_OK;
        }
    vec_push(&sh->arena, &sh->aliases, a);
    return STATUS_OK;
}
