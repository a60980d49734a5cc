/* set: the options, language.md section 6. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

/* What an option's value may be, and where it lives. */
enum option_type { BOOL_ON, BOOL_TRUE, INTEGER, WORDS, FLAGS };

struct option_row {
    const char *name;
    enum option_type type;
    const char *words; /* WORDS: blank-separated, the default first */
    size_t at;         /* offset in struct options, or in struct shell */
    bool shell;
    const char *about;
};

#define OPT(field) offsetof(struct options, field)
#define PART(field) \
    (offsetof(struct options, partition) + offsetof(struct partition_options, field))
#define SHELL(field) offsetof(struct shell, field), true

/* clang-format off */
static const struct option_row rows[] = {
    { "prepare", BOOL_ON, NULL, OPT(prepare), false, "inline calls, drop zero-sized operations first, as XLA's compiler does" },
    { "propagation", WORDS, "gspmd none", 0, false, "none: shardings as they stand" },
    { "to_output", FLAGS, NULL, OPT(to_output), false, "outputs may get shardings: header, true, false, or a list" },
    { "to_parameters", FLAGS, NULL, OPT(to_parameters), false, "parameters may get shardings: header, true, false, or a list" },
    { "partitioner", WORDS, "xla best", PART(best), false, "best: plans of fewest bytes, never more than XLA's" },
    { "no_rule", WORDS, "auto xla best", PART(no_rule), false, "where XLA has no rule and makes arrays whole: as XLA, or best's plan; auto: best, XLA's with passes=spmd" },
    { "passes", WORDS, "full spmd", PART(full), false, "spmd: the program as it leaves spmd-partitioning" },
    { "windowed_einsum_mib", INTEGER, NULL, PART(windowed_einsum_mib), false, "operands of more MiB are multiplied in windowed loops" },
    { "windowed_einsum_bytes", INTEGER, NULL, PART(windowed_total_bytes), false, "or when both operands together have as many bytes; 0: not so" },
    { "bidirectional", BOOL_ON, NULL, PART(bidirectional), false, "windowed loops run both ways" },
    { "unroll", BOOL_ON, NULL, PART(unroll), false, "windowed loops are unrolled once" },
    { "all_gather", BOOL_ON, NULL, PART(all_gather), false, "off: gather by dynamic-update-slice and all-reduce" },
    { "gather_method", WORDS, "default ExplicitBatch IndexParallel OperandPassthrough TrivialSlicedOperand IndexPassthrough", PART(gather_method), false, "the plan that gathers try first" },
    { "scatter_method", WORDS, "default ExplicitBatch IndexParallel OperandPassthrough TrivialSlicedOperand IndexPassthrough", PART(scatter_method), false, "the plan that scatters try first" },
    { "choose_faster_windowed_einsum", BOOL_TRUE, NULL, PART(choose_faster_windowed_einsum), false, "XLA's option of that name" },
    { "conv_halo_exchange_always_on_lhs", BOOL_TRUE, NULL, PART(halo_always_on_lhs), false, "XLA's option of that name" },
    { "hoist", BOOL_ON, NULL, PART(hoist), false, "collectives that a loop need not repeat leave it" },
    { "weight_update", BOOL_ON, NULL, PART(weight_update), false, "each device updates its part of the weights" },
    { "combine_mib", INTEGER, NULL, PART(combine_mib), false, "independent collectives are one, up to so many MiB; 0: never" },
    { "reassociate", BOOL_ON, NULL, PART(pass[PASS_REASSOCIATE]), false, "a pass of passes=full (passes lists them)" },
    { "split", BOOL_ON, NULL, PART(pass[PASS_SPLIT]), false, "a pass of passes=full" },
    { "reduce_scatter", BOOL_ON, NULL, PART(pass[PASS_REDUCE_SCATTER]), false, "a pass of passes=full" },
    { "fold", BOOL_ON, NULL, PART(pass[PASS_FOLD]), false, "a pass of passes=full" },
    { "gathers", BOOL_ON, NULL, PART(pass[PASS_GATHERS]), false, "a pass of passes=full" },
    { "is_spmd", BOOL_TRUE, NULL, OPT(is_spmd), false, "XLA's option of that name" },
    { "cse_prevention_only", BOOL_TRUE, NULL, OPT(cse_only), false, "XLA's option of that name" },
    { "propagate_metadata", BOOL_TRUE, NULL, OPT(propagate_metadata), false, "XLA's option of that name" },
    { "collectives", WORDS, "ring tree direct", OPT(collectives), false, "hops of traces and faults; never values" },
    { "threads", INTEGER, NULL, OPT(threads), false, "workers of the emulator; 0: one a core" },
    { "seed", INTEGER, NULL, OPT(seed), false, "of generated inputs" },
    { "uneven", WORDS, "pad warn error", OPT(uneven), false, "what to do with sizes that do not divide" },
    { "spelling", WORDS, "axes hlo mesh pspec sdy list iota named dtensor sbp book typed", OPT(spelling), false, "how shardings are printed" },
    { "bail", BOOL_ON, NULL, SHELL(bail), "a script stops at its first error" },
    { "color", WORDS, "auto always never", SHELL(color_mode), "colour on the terminal" },
    { "pager", BOOL_ON, NULL, SHELL(pager), "long answers go through $PAGER" },
    { "limit", INTEGER, NULL, SHELL(limit), "rows of a list; 0: a screen" },
    { "theme", WORDS, "light dark", SHELL(theme), "colours of pictures and of the window" },
    { "glyphs", WORDS, "auto unicode ascii", SHELL(glyphs), "characters of pictures as text; auto: what the terminal's encoding has" },
    { "inline", WORDS, "off auto kitty iterm sixel", SHELL(inline_mode), "pictures in the terminal itself; auto: where it says that it can" },
    { "scale", INTEGER, NULL, SHELL(scale), "size of pictures and of the window: 2 for a projector; 0: 1" },
};
/* clang-format on */

/* XLA's long names, and words that people use. */
static const char *const aliases[][2] = {
    { "allow_spmd_sharding_propagation_to_output", "to_output" },
    { "allow_spmd_sharding_propagation_to_parameters", "to_parameters" },
    { "bidirectional_windowed_einsum", "bidirectional" },
    { "total_bytes_windowed_einsum_threshold", "windowed_einsum_bytes" },
    { "unroll_windowed_einsum", "unroll" },
    { "colour", "color" },
};

static const struct option_row *find_row(const char *name)
{
    for (size_t k = 0; k < COUNTOF(aliases); k++)
        if (!strcmp(aliases[k][0], name))
            name = aliases[k][1];
    for (size_t k = 0; k < COUNTOF(rows); k++)
        if (!strcmp(rows[k].name, name))
            return &rows[k];
    return NULL;
}

int option_count(void)
{
    return (int)COUNTOF(rows);
}
const char *option_name(int k)
{
    return rows[k].name;
}

static void *field(struct call *c, struct options *o, const struct option_row *r)
{
    return r->shell ? (char *)c->sh + r->at : (char *)o + r->at;
}

static bool is_method(const struct option_row *r)
{
    return !r->shell && (r->at == PART(gather_method) || r->at == PART(scatter_method));
}

/* Fields behind WORDS are enums and ints, two are bools. */
static int word_index(struct call *c, struct options *o, const struct option_row *r)
{
    if (!strcmp(r->name, "propagation"))
        return document_propagation_none(c->sh->doc);
    if (!strcmp(r->name, "partitioner"))
        return o->partition.best;
    if (!strcmp(r->name, "passes"))
        return !o->partition.full;
    int at = *(int *)field(c, o, r);
    return is_method(r) && at > 0 ? at + 1 : at;
}

static void set_word(struct call *c, struct options *o, const struct option_row *r, int index)
{
    if (!strcmp(r->name, "propagation")) {
        o->propagation_none = index;
        o->propagation_set = true;
    } else if (!strcmp(r->name, "partitioner")) {
        o->partition.best = index;
    } else if (!strcmp(r->name, "passes")) {
        o->partition.full = !index;
    } else {
        /* The partitioner counts the plans of S-205 from 0; the first is the default. */
        *(int *)field(c, o, r) = is_method(r) && index > 0 ? index - 1 : index;
    }
}

static const char *nth_word(struct call *c, const char *words, int n)
{
    while (n-- > 0 && *words) {
        words += strcspn(words, " ");
        words += strspn(words, " ");
    }
    return arena_strndup(&c->arena, words, strcspn(words, " "));
}

static int find_word(struct call *c, const char *words, const char *value)
{
    for (int k = 0;; k++) {
        const char *w = nth_word(c, words, k);
        if (!*w)
            return -1;
        if (!strcmp(w, value))
            return k;
    }
}

static const char *flags_text(struct call *c, int kind, int64_t n, const bool *list)
{
    static const char *const words[] = { "header", "false", "true" };
    if (kind < 2)
        return words[kind + 1];
    struct str s = STR_IN(&c->arena);
    str_addc(&s, '[');
    for (int64_t k = 0; k < n; k++)
        str_addf(&s, "%s%s", k ? "," : "", list[k] ? "true" : "false");
    str_addc(&s, ']');
    return str_text(&s);
}

static bool is_threads(const struct option_row *r)
{
    return !r->shell && r->at == OPT(threads);
}

static int64_t integer(struct call *c, struct options *o, const struct option_row *r)
{
    return is_threads(r) ? *(int *)field(c, o, r) : *(int64_t *)field(c, o, r);
}

static const char *value_text(struct call *c, struct options *o, const struct option_row *r)
{
    switch (r->type) {
    case BOOL_ON: return *(bool *)field(c, o, r) ? "on" : "off";
    case BOOL_TRUE: return *(bool *)field(c, o, r) ? "true" : "false";
    case INTEGER: return arena_printf(&c->arena, "%" PRId64, integer(c, o, r));
    case WORDS: return nth_word(c, r->words, word_index(c, o, r));
    case FLAGS:
        return r->at == OPT(to_output)
                   ? flags_text(c, o->to_output, o->nto_output, o->to_output_list)
                   : flags_text(c, o->to_parameters, o->nto_parameters, o->to_parameters_list);
    }
    return "";
}

static bool read_bool(const char *v, bool *out_v)
{
    bool yes = !strcmp(v, "on") || !strcmp(v, "true") || !strcmp(v, "yes") || !strcmp(v, "1");
    bool no = !strcmp(v, "off") || !strcmp(v, "false") || !strcmp(v, "no") || !strcmp(v, "0");
    *out_v = yes;
    return yes || no;
}

/* header, true, false, [true,false] */
static bool read_flags(struct call *c, const char *v, struct options *o, bool output)
{
    int kind;
    bool *list = NULL;
    int64_t n = 0;
    bool all;
    if (!strcmp(v, "header")) {
        kind = -1;
    } else if (read_bool(v, &all)) {
        kind = all;
    } else {
        if (v[0] != '[' && v[0] != '{')
            return false;
        kind = 2;
        list = ARENA_ARRAY(&c->arena, bool, (int64_t)strlen(v));
        for (const char *p = v + 1; *p && *p != ']' && *p != '}';) {
            size_t len = strcspn(p, ",]}");
            char *word = arena_strndup(&c->arena, p + strspn(p, " "), len - strspn(p, " "));
            if (!read_bool(word, &list[n++]))
                return false;
            p += len + (p[len] == ',');
        }
        if (n == 0)
            return false;
    }
    if (output) {
        o->to_output = kind;
        o->to_output_list = list;
        o->nto_output = n;
    } else {
        o->to_parameters = kind;
        o->to_parameters_list = list;
        o->nto_parameters = n;
    }
    return true;
}

static int wrong_value(struct call *c, const struct option_row *r, const char *value)
{
    call_usage(c, 0, "'%s' is no value of %s", value, r->name);
    if (r->type == WORDS)
        diag_hint(c->d, "%s is one of: %s", r->name, r->words);
    else if (r->type == FLAGS)
        diag_hint(c->d, "header, true, false, or a list like [true,false]");
    else
        diag_hint(c->d, r->type == INTEGER ? "a number" : "on or off");
    return STATUS_USAGE;
}

static bool read_integer(struct call *c, struct options *o, const struct option_row *r,
                         const char *value)
{
    int64_t n;
    if (parse_i64(value, strlen(value), &n) != strlen(value) || !value[0] || n < 0)
        return false;
    if (is_threads(r)) {
        if (n > 4096)
            return false;
        *(int *)field(c, o, r) = (int)n;
    } else {
        *(int64_t *)field(c, o, r) = n;
    }
    return true;
}

static int assign(struct call *c, const struct option_row *r, const char *value)
{
    struct options o = document_strategy(c->sh->doc)->options;
    bool flag, ok = true;
    int k;
    switch (r->type) {
    case BOOL_ON:
    case BOOL_TRUE:
        ok = read_bool(value, &flag);
        if (ok)
            *(bool *)field(c, &o, r) = flag;
        break;
    case INTEGER: ok = read_integer(c, &o, r, value); break;
    case WORDS:
        k = find_word(c, r->words, value);
        ok = k >= 0;
        if (ok)
            set_word(c, &o, r, k);
        break;
    case FLAGS: ok = read_flags(c, value, &o, r->at == OPT(to_output)); break;
    }
    if (!ok)
        return wrong_value(c, r, value);
    if (r->shell) {
        if (r->at == offsetof(struct shell, color_mode))
            shell_find_terminal(c->sh);
        return STATUS_OK;
    }
    const struct strategy *before = change_begin(c);
    if (!edit_options(c->sh->doc, &o, c->line, c->d))
        return call_failed(c);
    const struct strategy *now = document_strategy(c->sh->doc);
    return now->key == before->key ? STATUS_OK : change_finish(c, before);
}

static void print_all(struct call *c)
{
    struct options o = document_strategy(c->sh->doc)->options;
    if (c->json) {
        json_put_open(&c->js, "options", '{');
        for (size_t k = 0; k < COUNTOF(rows); k++)
            json_put_string(&c->js, rows[k].name, value_text(c, &o, &rows[k]));
        json_close(&c->js, '}');
        return;
    }
    static const char *const heads[] = { "option", "value", "", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (size_t k = 0; k < COUNTOF(rows); k++) {
        const char **row = table_row(&t);
        row[0] = rows[k].name;
        row[1] = value_text(c, &o, &rows[k]);
        row[2] = rows[k].about;
    }
    table_print(c, &t, true);
}

static int no_such_option(struct call *c, const char *name)
{
    call_usage(c, 0, "no option is named '%s'", name);
    const char *best = NULL;
    int least = 3;
    for (size_t k = 0; k < COUNTOF(rows); k++) {
        int far = edit_distance(name, rows[k].name, 2);
        if (far < least) {
            least = far;
            best = rows[k].name;
        }
    }
    if (best)
        diag_hint(c->d, "did you mean '%s'?", best);
    else
        diag_hint(c->d, "set prints them all");
    return STATUS_USAGE;
}

int cmd_set(struct call *c)
{
    if (c->n == 0) {
        print_all(c);
        return STATUS_OK;
    }
    const char *text = call_rest(c, 0, NULL);
    const char *eq = strchr(text, '=');
    size_t len = eq ? (size_t)(eq - text) : c->args[0].n;
    char *name = arena_strndup(&c->arena, text, len);
    while (len > 0 && name[len - 1] == ' ')
        name[--len] = '\0';
    const char *value = eq ? eq + 1 : c->n > 1 ? c->args[1].text : NULL;
    if (value)
        value += strspn(value, " ");
    const struct option_row *r = find_row(name);
    if (!r)
        return no_such_option(c, name);
    if (value) {
        int status = assign(c, r, value);
        if (status || !c->json)
            return status;
    }
    struct options o = document_strategy(c->sh->doc)->options;
    if (c->json) {
        json_put_string(&c->js, "option", r->name);
        json_put_string(&c->js, "value", value_text(c, &o, r));
    } else if (!value) {
        out(c, "%s=%s  %s\n", r->name, value_text(c, &o, r), r->about);
    }
    return STATUS_OK;
}

void option_script(struct call *c, const struct options *o, struct str *s)
{
    struct options now = *o, fresh;
    options_default(&fresh);
    for (size_t k = 0; k < COUNTOF(rows); k++) {
        if (rows[k].shell || is_threads(&rows[k]))
            continue;
        const char *value = value_text(c, &now, &rows[k]);
        if (strcmp(value, value_text(c, &fresh, &rows[k])) != 0)
            str_addf(s, "set %s=%s\n", rows[k].name, value);
    }
}
