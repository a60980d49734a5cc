/* help, apropos, history, version, quit; the man page and the completions of other shells. All from
 * the one table. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

static const char *const groups[] = { "model",    "strategy", "propagation", "partition", "numbers", "cost",
                                      "pictures", "reviews",  "scripts",     "help" };

/* ---- help ------------------------------------------------------------------------------------------ */

static void help_command(struct call *c, const struct command *cmd)
{
    if (c->json) {
        json_put_string(&c->js, "name", cmd->name);
        json_put_string(&c->js, "aliases", cmd->aliases);
        json_put_string(&c->js, "group", cmd->group);
        json_put_string(&c->js, "args", cmd->args);
        json_put_string(&c->js, "summary", cmd->summary);
        json_put_string(&c->js, "details", cmd->details);
        json_put_string(&c->js, "example", cmd->example);
        return;
    }
    out(c, "%s%s%s\n    %s\n", cmd->name, cmd->args[0] ? " " : "", cmd->args, cmd->summary);
    if (cmd->aliases)
        out(c, "    also: %s\n", cmd->aliases);
    if (cmd->details)
        out(c, "\n%s", cmd->details);
    if (cmd->example)
        out(c, "\n%s", cmd->example);
}

static void help_all(struct call *c)
{
    if (c->json) {
        json_put_open(&c->js, "commands", '[');
        for (int k = 0; k < ncommands; k++) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "name", commands[k].name);
            json_put_string(&c->js, "group", commands[k].group);
            json_put_string(&c->js, "args", commands[k].args);
            json_put_string(&c->js, "summary", commands[k].summary);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    for (size_t g = 0; g < COUNTOF(groups); g++) {
        out(c, "%s\n", groups[g]);
        for (int k = 0; k < ncommands; k++)
            if (!strcmp(commands[k].group, groups[g]))
                out(c, "  %-11s %s\n", commands[k].name, commands[k].summary);
    }
    out(c, "help COMMAND tells more; any unambiguous beginning of a name will do\n");
}

int cmd_help(struct call *c)
{
    if (c->n == 0) {
        help_all(c);
        return STATUS_OK;
    }
    char list[200];
    int matches;
    const struct command *cmd =
        command_find(c->args[0].text, c->args[0].n, &matches, list, sizeof list);
    if (cmd) {
        help_command(c, cmd);
        return STATUS_OK;
    }
    for (size_t g = 0; g < COUNTOF(groups); g++) {
        if (strcmp(groups[g], c->args[0].text))
            continue;
        for (int k = 0; k < ncommands; k++)
            if (!strcmp(commands[k].group, groups[g]))
                out(c, "%-11s %-32s %s\n", commands[k].name, commands[k].args, commands[k].summary);
        return STATUS_OK;
    }
    if (matches > 1)
        return call_usage(c, 0, "'%s' can be %s", c->args[0].text, list);
    call_usage(c, 0, "no command is named '%s'", c->args[0].text);
    diag_hint(c->d, "apropos %s searches all of the help", c->args[0].text);
    return STATUS_USAGE;
}

static bool mentions(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; text && *text; text++)
        if (!strncasecmp(text, word, n))
            return true;
    return false;
}

int cmd_apropos(struct call *c)
{
    const char *word = c->args[0].text;
    int found = 0;
    if (c->json)
        json_put_open(&c->js, "commands", '[');
    for (int k = 0; k < ncommands; k++) {
        const struct command *cmd = &commands[k];
        if (!mentions(cmd->name, word) && !mentions(cmd->summary, word) &&
            !mentions(cmd->details, word) && !mentions(cmd->aliases, word))
            continue;
        found++;
        if (c->json)
            json_string(&c->js, cmd->name);
        else
            out(c, "%-11s %s\n", cmd->name, cmd->summary);
    }
    if (c->json)
        json_close(&c->js, ']');
    else if (!found)
        out(c, "nothing mentions '%s'\n", word);
    return STATUS_OK;
}

int cmd_history(struct call *c)
{
    int64_t n = c->sh->history.n, from = 0;
    if (!c->all && c->sh->interactive && n > call_rows(c, n))
        from = n - call_rows(c, n);
    if (c->json)
        json_put_open(&c->js, "history", '[');
    for (int64_t k = from; k < n; k++) {
        struct str s = STR_IN(&c->arena);
        str_add_safe(&s, c->sh->history.v[k], strlen(c->sh->history.v[k]));
        if (c->json)
            json_string(&c->js, c->sh->history.v[k]);
        else
            out(c, "%4" PRId64 "  %s\n", k + 1, str_text(&s));
    }
    if (c->json)
        json_close(&c->js, ']');
    return STATUS_OK;
}

int cmd_version(struct call *c)
{
    if (c->json)
        json_put_string(&c->js, "version", GSPMD_VERSION);
    else
        out(c, "gspmd %s\n", GSPMD_VERSION);
    return STATUS_OK;
}

int cmd_quit(struct call *c)
{
    int64_t status = STATUS_OK;
    if (c->n > 0 && (parse_i64(c->args[0].text, c->args[0].n, &status) != c->args[0].n ||
                     status < 0 || status > 255))
        return call_usage(c, 0, "an exit status is a number from 0 to 255");
    c->sh->quit = true;
    return (int)status;
}

/* ---- the man page ---------------------------------------------------------------------------------- */

/* roff: a backslash, a leading dot or quote, and hyphens that must stay hyphens. */
static void roff(struct str *s, const char *text)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\''))
            str_adds(s, "\\&");
        start = *text == '\n';
        if (*text == '\\')
            str_adds(s, "\\e");
        else if (*text == '-')
            str_adds(s, "\\-");
        else
            str_addc(s, *text);
    }
}

static void man_command(struct str *s, const struct command *cmd)
{
    str_adds(s, ".TP\n.B ");
    roff(s, cmd->name);
    str_addc(s, ' ');
    roff(s, cmd->args);
    str_addc(s, '\n');
    roff(s, cmd->summary);
    str_adds(s, ".\n");
    if (cmd->aliases) {
        str_adds(s, "Also: ");
        roff(s, cmd->aliases);
        str_adds(s, ".\n");
    }
    if (cmd->details) {
        str_adds(s, ".nf\n");
        roff(s, cmd->details);
        str_adds(s, ".fi\n");
    }
    if (cmd->example) {
        str_adds(s, ".IP\n.EX\n");
        roff(s, cmd->example);
        str_adds(s, ".EE\n");
    }
}

void print_man(struct str *s)
{
    str_addf(s, ".TH GSPMD 1 \"\" \"gspmd %s\" \"User commands\"\n", GSPMD_VERSION);
    str_adds(
        s,
        ".SH NAME\ngspmd \\- see how the tensors of a model are sharded, and what it costs\n"
        ".SH SYNOPSIS\n.B gspmd\n"
        "[\\-q] [\\-n] [\\-\\-json] [\\-\\-serve] [\\-\\-safe] [\\-\\-color=auto|always|never]\n"
        "[\\-c SCRIPT | \\-C SCRIPT | \\-f FILE]... [MODEL | \\-]\n"
        ".SH DESCRIPTION\nReads an HLO dump or a JSON model, spreads a few annotations over all of "
        "its values as GSPMD does in XLA,\n"
        "partitions the program, lists its collectives, and runs it on emulated devices to prove "
        "that it computes the same.\n"
        "The same commands work at the prompt, in \\-c, in a file and in a pipe.\n"
        ".SH OPTIONS\n"
        ".TP\n.B \\-c SCRIPT\nRun the commands and end. Commands are separated by ; or newline.\n"
        ".TP\n.B \\-C SCRIPT\nRun the commands and stay at the prompt.\n"
        ".TP\n.B \\-f FILE\nRun the commands of a file.\n"
        ".TP\n.B \\-n\nRead no init file.\n"
        ".TP\n.B \\-q\nNo greeting, and no answer to edits.\n"
        ".TP\n.B \\-\\-json\nOne JSON object a command, on one line.\n"
        ".TP\n.B \\-\\-serve\nRead requests {\"id\":..,\"command\":\"..\"}, one a line, and answer "
        "with that id.\n"
        ".TP\n.B \\-\\-safe\nWrite no file and start no program.\n"
        ".TP\n.B \\-\\-color=auto|always|never\nNO_COLOR and TERM=dumb are heeded.\n"
        ".SH COMMANDS\n");
    for (size_t g = 0; g < COUNTOF(groups); g++) {
        str_addf(s, ".SS %c%s\n", toupper((unsigned char)groups[g][0]), groups[g] + 1);
        for (int k = 0; k < ncommands; k++)
            if (!strcmp(commands[k].group, groups[g]))
                man_command(s, &commands[k]);
    }
    str_adds(
        s, ".SH EXIT STATUS\n"
           "0 fine; 1 an expect, a verify or a comparison failed; 2 usage, syntax, a wrong name or "
           "sharding in a command;\n"
           "3 an input could not be opened or read; 4 output or a resource failed; 70 a bug of "
           "gspmd; 130 stopped by Ctrl\\-C.\n"
           ".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/gspmd/init.gspmd\nread at the start, unless \\-n\n"
           ".TP\n.I $XDG_STATE_HOME/gspmd/history\nlines typed at the prompt\n"
           ".SH ENVIRONMENT\nNO_COLOR, TERM, PAGER, XDG_CONFIG_HOME, XDG_STATE_HOME.\n");
}

/* ---- completion of other shells -------------------------------------------------------------------- */

static const char *const cli_options[] = { "-c",
                                           "-C",
                                           "-f",
                                           "-n",
                                           "-q",
                                           "--json",
                                           "--serve",
                                           "--safe",
                                           "--color=auto",
                                           "--color=always",
                                           "--color=never",
                                           "--version",
                                           "--help" };

static void words(struct str *s)
{
    for (int k = 0; k < ncommands; k++)
        str_addf(s, "%s%s", k ? " " : "", commands[k].name);
}

static void options(struct str *s)
{
    for (size_t k = 0; k < COUNTOF(cli_options); k++)
        str_addf(s, "%s%s", k ? " " : "", cli_options[k]);
}

bool print_completion(const char *shell, struct str *s)
{
    if (!strcmp(shell, "bash")) {
        str_adds(s, "# bash completion for gspmd\n_gspmd()\n{\n    local "
                    "cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                    "    case $prev in\n    -c|-C) COMPREPLY=($(compgen -W \"");
        words(s);
        str_adds(s, "\" -- \"$cur\")); return ;;\n    -f) COMPREPLY=($(compgen -f -- \"$cur\")); "
                    "return ;;\n    esac\n"
                    "    case $cur in\n    -*) COMPREPLY=($(compgen -W \"");
        options(s);
        str_adds(
            s, "\" -- \"$cur\")) ;;\n    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\n"
               "complete -o filenames -F _gspmd gspmd\n");
        return true;
    }
    if (!strcmp(shell, "zsh")) {
        str_adds(s, "#compdef gspmd\n_arguments -s \\\n"
                    "  '*-c[run commands and end]:commands:(");
        words(s);
        str_adds(s, ")' \\\n  '*-C[run commands and stay]:commands:(");
        words(s);
        str_adds(s, ")' \\\n  '*-f[run the commands of a file]:script:_files' \\\n  '-n[read no "
                    "init file]' '-q[quiet]' "
                    "'--json[one JSON object a command]' \\\n  '--serve[answer requests]' "
                    "'--safe[write no file, start no program]' \\\n"
                    "  '--color=[colour]:when:(auto always never)' '--version' '--help' \\\n  "
                    "'*:model:_files'\n");
        return true;
    }
    if (!strcmp(shell, "fish")) {
        str_adds(s, "complete -c gspmd -s c -x -d 'run commands and end' -a '");
        words(s);
        str_adds(s, "'\ncomplete -c gspmd -s C -x -d 'run commands and stay' -a '");
        words(s);
        str_adds(s, "'\ncomplete -c gspmd -s f -r -d 'run the commands of a file'\ncomplete -c "
                    "gspmd -s n -d 'read no init file'\n"
                    "complete -c gspmd -s q -d quiet\ncomplete -c gspmd -l json -d 'one JSON "
                    "object a command'\n"
                    "complete -c gspmd -l serve -d 'answer requests'\ncomplete -c gspmd -l safe -d "
                    "'write no file, start no program'\n"
                    "complete -c gspmd -l color -x -a 'auto always never'\ncomplete -c gspmd -l "
                    "version\ncomplete -c gspmd -l help\n");
        return true;
    }
    return false;
}
