/* passes: what each pass of passes=full does. The program behind a pass is made by leaving off those
 * that follow it. */
#include <string.h>

#include "repl/commands.h"

struct stage {
    struct program *p;
    struct collective *list;
    int64_t n, bytes;
};

static const struct partition_options *now(struct call *c)
{
    return &document_strategy(c->sh->doc)->options.partition;
}

static const char *switch_of(const struct partition_options *o, enum partition_pass k)
{
    bool on = o->pass[k] && (k != PASS_WEIGHT_UPDATE || o->weight_update) &&
              (k != PASS_COMBINE || o->combine_mib > 0) && o->full;
    return !on ? "off" : k != PASS_LOOPS ? "on" : o->hoist ? "hoist=on" : "names";
}

/* The program with the first `count` passes done. false: reported. */
static bool make_stage(struct call *c, int count, struct stage *s)
{
    const struct propagation *prop = document_propagation(c->sh->doc, call_tick(c), c->d);
    const struct program *whole = prop ? document_program(c->sh->doc, call_tick(c), c->d) : NULL;
    if (!whole)
        return false;
    struct partition_options o = *now(c);
    o.num_partitions = whole->num_partitions;
    o.passes_left = PASS_COUNT - count;
    o.best = false;
    s->p = partition(prop, &o, call_tick(c), c->d);
    if (!s->p)
        return false;
    s->n = collectives_list(s->p->module, s->p->num_partitions, o.replica_count, &c->arena, &s->list,
                            &s->bytes);
    return true;
}

static int all_passes(struct call *c)
{
    static const char *const heads[] = { "pass", "switch", ">collectives", ">bytes", "what it does", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    struct stage s;
    if (c->json)
        json_put_open(&c->js, "passes", '[');
    for (int k = 0; k <= PASS_COUNT; k++) {
        if (!make_stage(c, k, &s))
            return call_failed(c);
        program_free(s.p);
        enum partition_pass pass = (enum partition_pass)(k - 1);
        const char *name = k ? partition_pass_name(pass) : "spmd-partitioning";
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "pass", name);
            json_put_string(&c->js, "switch", k ? switch_of(now(c), pass) : "on");
            json_put_int(&c->js, "collectives", s.n);
            json_put_int(&c->js, "bytes", s.bytes);
            json_close(&c->js, '}');
            continue;
        }
        const char **row = table_row(&t);
        row[0] = name;
        row[1] = k ? switch_of(now(c), pass) : "";
        row[2] = with_commas(&c->arena, s.n);
        row[3] = with_commas(&c->arena, s.bytes);
        row[4] = k ? partition_pass_summary(pass) : "";
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        table_print(c, &t, true);
    return STATUS_OK;
}

static bool print_program(struct call *c, const struct stage *s)
{
    struct str text = STR_IN(&c->arena);
    struct hlo_print_options o = { .no_metadata = true, .short_form = true };
    if (!hlo_print(s->p->module, &o, &text))
        return false;
    out(c, "%s", str_text(&text));
    return true;
}

static int one_pass(struct call *c, int k, bool program)
{
    struct stage s[2] = { { 0 }, { 0 } };
    if (!make_stage(c, k, &s[0]) || !make_stage(c, k + 1, &s[1])) {
        program_free(s[0].p);
        return call_failed(c);
    }
    int status = STATUS_OK;
    for (int i = 0; i < 2; i++) {
        if (c->json) {
            json_put_int(&c->js, i ? "collectives_after" : "collectives_before", s[i].n);
            json_put_int(&c->js, i ? "bytes_after" : "bytes_before", s[i].bytes);
            continue;
        }
        out(c, "%s %s: %s, %s bytes sent by each device\n", i ? "after" : "before",
            partition_pass_name((enum partition_pass)k), counted(&c->arena, s[i].n, "collective"),
            with_commas(&c->arena, s[i].bytes));
        if (program && !print_program(c, &s[i]))
            status = call_error(c, STATUS_RESOURCE, "limit", "the text is too large");
        else if (!program && s[i].n)
            table_collectives(c, s[i].p->module, s[i].p, s[i].list, s[i].n);
    }
    program_free(s[0].p);
    program_free(s[1].p);
    return status;
}

int cmd_passes(struct call *c)
{
    if (document_is_partitioned(c->sh->doc))
        return call_error(c, STATUS_USAGE, "partitioned", "the module is partitioned already");
    if (c->n == 0)
        return all_passes(c);
    for (int k = 0; k < PASS_COUNT; k++)
        if (!strcmp(c->args[0].text, partition_pass_name((enum partition_pass)k)))
            return one_pass(c, k, call_option(c, "--program") != NULL);
    return call_usage(c, 0, "no pass is named '%s'; passes lists them", c->args[0].text);
}
