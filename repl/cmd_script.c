/* Scripts: source, echo, time, log, alias, and the assertions of expect. */
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

/* ---- expect
 * -------------------------------------------------------------------------------------------- */

static int verdict(struct call *c, bool holds, const char *found)
{
    const char *what = call_rest(c, 0, NULL);
    if (c->json) {
        json_put_string(&c->js, "expectation", what);
        json_put_bool(&c->js, "holds", holds);
        json_put_string(&c->js, "found", found);
        return holds ? STATUS_OK : STATUS_DIFFERS;
    }
    if (holds) {
        if (!c->sh->quiet)
            out(c, "ok: %s\n", what);
        return STATUS_OK;
    }
    diag_stage(c->d, "differs");
    diag_error(c->d, c->src, (struct span){ c->off, c->end - c->off }, "expected %s, found %s",
               what, found);
    return STATUS_DIFFERS;
}

/* 64, 3k, 2.5MiB, 16GiB; false: no number. */
static bool read_amount(const char *s, double *out_v)
{
    char *end;
    *out_v = strtod(s, &end);
    if (end == s)
        return false;
    static const struct {
        const char *word;
        double factor;
    } units[] = { { "", 1 },
                  { "B", 1 },
                  { "k", 1e3 },
                  { "K", 1e3 },
                  { "M", 1e6 },
                  { "G", 1e9 },
                  { "KB", 1e3 },
                  { "kB", 1e3 },
                  { "MB", 1e6 },
                  { "GB", 1e9 },
                  { "KiB", 1024 },
                  { "MiB", 1024.0 * 1024 },
                  { "GiB", 1024.0 * 1024 * 1024 },
                  { "bytes", 1 } };
    for (size_t k = 0; k < COUNTOF(units); k++)
        if (!strcmp(end, units[k].word)) {
            *out_v *= units[k].factor;
            return true;
        }
    return false;
}

static bool compare(const char *op, double a, double b, bool *ok)
{
    *ok = true;
    if (!strcmp(op, "<"))
        return a < b;
    if (!strcmp(op, "<="))
        return a <= b;
    if (!strcmp(op, ">"))
        return a > b;
    if (!strcmp(op, ">="))
        return a >= b;
    if (!strcmp(op, "==") || !strcmp(op, "="))
        return !(a < b || a > b);
    if (!strcmp(op, "!="))
        return a < b || a > b;
    *ok = false;
    return false;
}

/* Collectives that a word in parentheses means: a kind, or an axis; "" all. */
static bool counts(struct call *c, const struct collective *k, const char *only)
{
    if (!only[0] || !strcmp(only, op_name(k->kind)))
        return true;
    const char *names[MESH_MAX_AXES];
    int n;
    collective_axes(c, k, &n, names);
    for (int a = 0; a < n; a++)
        if (!strncmp(names[a], only, strlen(only)) &&
            (names[a][strlen(only)] == '\0' || names[a][strlen(only)] == ':'))
            return true;
    return false;
}

static bool known_word(struct call *c, const char *only)
{
    enum op_kind op = op_find(only, strlen(only));
    const struct mesh *m = document_mesh(c->sh->doc);
    return !only[0] || (op != OP_NONE && op_is_collective(op)) ||
           (m && mesh_find_axis(m, only, strlen(only)) >= 0);
}

/* expect comms OP N, expect bytes(AXIS) OP N, expect all-reduce OP N */
static int expect_amount(struct call *c, const char *measure, const char *only)
{
    const struct collective *list;
    int64_t n, total, count = 0, bytes = 0;
    if (!document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return call_failed(c);
    if (!known_word(c, only))
        return call_usage(c, 0, "'%s' is neither a kind of collective nor an axis of the mesh",
                          only);
    for (int64_t k = 0; k < n; k++)
        if (counts(c, &list[k], only)) {
            count++;
            bytes += list[k].bytes;
        }
    if (!only[0])
        bytes = total;
    bool of_bytes = !strcmp(measure, "bytes"), ok;
    double limit;
    if (c->n != 3 || !read_amount(c->args[2].text, &limit))
        return call_usage(c, c->n > 2 ? 2 : -1, "a comparison is wanted: expect %s <= N",
                          c->args[0].text);
    int64_t value = of_bytes ? bytes : count;
    bool holds = compare(c->args[1].text, (double)value, limit, &ok);
    if (!ok)
        return call_usage(c, 1, "'%s' is no comparison: < <= == != >= >", c->args[1].text);
    return verdict(c, holds, arena_printf(&c->arena, "%" PRId64, value));
}

static int expect_none(struct call *c)
{
    const struct collective *list;
    int64_t n, total, count = 0;
    if (c->n != 2)
        return call_usage(c, -1, "expect no KIND, as in: expect no all-gather");
    const char *kind = c->args[1].text;
    if (!document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), c->d))
        return call_failed(c);
    if (strcmp(kind, "collectives") && !known_word(c, kind))
        return call_usage(c, 1, "'%s' is neither a kind of collective nor an axis of the mesh",
                          kind);
    const char *first = "";
    const struct program *p =
        document_is_partitioned(c->sh->doc) ? NULL : document_program(c->sh->doc, NULL, NULL);
    for (int64_t k = 0; k < n; k++)
        if ((!strcmp(kind, "collectives") || counts(c, &list[k], kind)) && count++ == 0)
            first = collective_label(c, p ? p->module : document_module(c->sh->doc), &list[k]);
    return verdict(
        c, count == 0,
        count ? arena_printf(&c->arena, "%" PRId64 " (%s, for one; blame %s)", count, first, first)
              : "none");
}

static int expect_sharding(struct call *c)
{
    instr_id i;
    int64_t leaf;
    if (c->n < 4 || (strcmp(c->args[2].text, "==") && strcmp(c->args[2].text, "!=")))
        return call_usage(c, -1, "expect sharding T == [data,_]");
    struct tensor_view v;
    if (!arg_tensor(c, 1, &i, &leaf) || !document_view(c->sh->doc, i, 0, &v, call_tick(c), c->d))
        return call_failed(c);
    struct ir *ir = document_ir(c->sh->doc);
    shape_id shape = instr_at(document_module(c->sh->doc), i)->shape;
    sharding_id have = v.sharding.i ? v.sharding : sharding_replicated(ir->shardings), want;
    if (leaf >= 0) {
        const struct sharding *all = sharding_get(ir->shardings, have);
        shape = shape_leaf(ir, shape, leaf);
        have = all->kind == SHARDING_TUPLE && leaf < all->nelems ? all->elems[leaf] : have;
    }
    uint32_t off;
    uint64_t open;
    const char *text = call_rest(c, 3, &off);
    if (!read_spec(c, text, strlen(text), off, shape, &want, &open))
        return STATUS_USAGE;
    bool same = have.i == want.i;
    return verdict(c, same == !strcmp(c->args[2].text, "=="), spelled(c, have));
}

static int expect_even(struct call *c)
{
    const struct propagation *p = document_propagation(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct uneven *list;
    int64_t n = find_uneven(c, p, &list);
    return verdict(c, n == 0,
                   n ? arena_printf(&c->arena, "%" PRId64 " uneven (%s, for one)", n,
                                    working_label(c, p->graph, list[0].working))
                     : "even");
}

static int expect_no_remat(struct call *c)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    return verdict(c, p->nremats == 0,
                   arena_printf(&c->arena, "%" PRId64 " arrays made whole", p->nremats));
}

static int expect_verify(struct call *c)
{
    const struct program *p = document_program(c->sh->doc, call_tick(c), c->d);
    if (!p)
        return call_failed(c);
    struct verify_result r = { 0 };
    diag_stage(c->d, "run");
    const struct options *o = &document_strategy(c->sh->doc)->options;
    if (!verify_program(document_propagation(c->sh->doc, NULL, NULL), p, RUN_RING, o->seed,
                        o->threads, &r, call_tick(c), c->d)) {
        verify_result_free(&r);
        return call_failed(c);
    }
    bool equal = r.equal;
    verify_result_free(&r);
    return verdict(c, equal, equal ? "equal" : "a difference; verify tells where");
}

int cmd_expect(struct call *c)
{
    char *what = arena_strdup(&c->arena, c->args[0].text);
    const char *only = "";
    char *paren = strchr(what, '(');
    if (paren && what[strlen(what) - 1] == ')') {
        what[strlen(what) - 1] = '\0';
        *paren = '\0';
        only = paren + 1;
    }
    if (!strcmp(what, "no"))
        return expect_none(c);
    if (!strcmp(what, "sharding"))
        return expect_sharding(c);
    if (!strcmp(what, "even"))
        return expect_even(c);
    if (!strcmp(what, "no-remat"))
        return expect_no_remat(c);
    if (!strcmp(what, "verify"))
        return expect_verify(c);
    if (!strcmp(what, "bytes") || !strcmp(what, "comms"))
        return expect_amount(c, what, only);
    enum op_kind op = op_find(what, strlen(what));
    if (op != OP_NONE && op_is_collective(op))
        return expect_amount(c, "comms", what);
    call_usage(c, 0, "'%s' is nothing that can be expected", what);
    diag_hint(c->d,
              "expect no KIND, comms, bytes, KIND OP N, sharding T == S, even, no-remat, verify");
    return STATUS_USAGE;
}
