/* explain: a word of the field, or a message out of a job's log. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/embedded.h"
#include "repl/commands.h"

extern const struct embedded concepts[];
extern const int nconcepts;

/* ---- words ----------------------------------------------------------------------------------------- */

/* "All Gather", "all_gather", "allgather": what stands in a file's first line, its names. */
static bool same_word(const char *a, size_t n, const char *b)
{
    size_t i = 0;
    for (; *b; b++) {
        char x = *b >= 'A' && *b <= 'Z' ? (char)(*b - 'A' + 'a') : *b;
        if (x == '-' || x == '_' || x == ' ')
            continue;
        while (i < n && (a[i] == '-' || a[i] == '_'))
            i++;
        if (i >= n || a[i] != x)
            return false;
        i++;
    }
    return i == n;
}

static const struct embedded *find_concept(const char *word)
{
    for (int k = 0; k < nconcepts; k++)
        for (const char *p = concepts[k].text; *p != '\n';) {
            size_t n = strcspn(p, " \n");
            if (same_word(p, n, word))
                return &concepts[k];
            p += n;
            p += strspn(p, " ");
        }
    return NULL;
}

static int list_concepts(struct call *c)
{
    if (c->json)
        json_put_open(&c->js, "concepts", '[');
    size_t column = 0;
    for (int k = 0; k < nconcepts; k++) {
        size_t n = strlen(concepts[k].name);
        if (c->json) {
            json_string(&c->js, concepts[k].name);
            continue;
        }
        if (column && column + n + 2 > 78) {
            out(c, "\n");
            column = 0;
        }
        out(c, "%s%s", column ? "  " : "", concepts[k].name);
        column += n + 2;
    }
    if (c->json)
        json_close(&c->js, ']');
    else
        out(c, "\nexplain WORD; explain FILE reads a job's log\n");
    return STATUS_OK;
}

static int explain_concept(struct call *c, const struct embedded *e)
{
    const char *text = strchr(e->text, '\n') + 1;
    if (c->json) {
        json_put_string(&c->js, "concept", e->name);
        json_put_string(&c->js, "text", text);
    } else {
        out(c, "%s", prose(&c->arena, text, c->sh->columns));
    }
    return STATUS_OK;
}

/* ---- what a log says ------------------------------------------------------------------------------- */

struct report {
    enum { FULL_REMAT, ALLOCATION } kind;
    const char *from, *to;           /* FULL_REMAT: shardings in HLO's words */
    const char *size;                /* ALLOCATION: as printed, "32.00G" */
    const char *name, *shape, *op;   /* "" where the message has none */
    const char *op_name, *place;     /* place: "model.py:12" */
    int64_t times;                   /* how often the log says it */
    instr_id instr;                  /* of the loaded module; none: not found */
};

struct reports {
    VEC(struct report) list;
};

static const char *cut(struct arena *a, const char *from, const char *to)
{
    return from && to && to > from ? arena_strndup(a, from, (size_t)(to - from)) : "";
}

/* The value of key="..." in a line, unescaped no further than messages need. */
static const char *quoted_value(struct arena *a, const char *line, const char *key)
{
    const char *p = strstr(line, key);
    if (!p)
        return "";
    p += strlen(key);
    return cut(a, p, p + strcspn(p, "\""));
}

/* {...} at p, its braces nested. */
static const char *braced(struct arena *a, const char *p, const char **end)
{
    int depth = 0;
    const char *q = p;
    for (; *q; q++) {
        depth += (*q == '{') - (*q == '}');
        if (depth == 0)
            break;
    }
    *end = *q ? q + 1 : q;
    return cut(a, p, *end);
}

/* "%pad.3 = f64[96]{0} pad(...), ..., metadata={...}" into name, shape, opcode, metadata. */
static void read_operation(struct arena *a, const char *p, struct report *r)
{
    p += *p == '%';
    size_t n = strcspn(p, " =");
    r->name = cut(a, p, p + n);
    const char *equals = strstr(p, " = ");
    if (equals) {
        p = equals + 3;
        size_t shape = strcspn(p, " {");
        if (*p != '(') {
            r->shape = cut(a, p, p + shape);
            p += strcspn(p, " ");
            p += *p == ' ';
            r->op = cut(a, p, p + strcspn(p, "("));
        }
    }
    const char *line = quoted_value(a, p, "source_file=\"");
    r->op_name = quoted_value(a, p, "op_name=\"");
    const char *number = strstr(p, "source_line=");
    if (line[0] && number)
        r->place = arena_printf(a, "%s:%ld", line, strtol(number + 12, NULL, 10));
}

static bool read_remat(struct arena *a, const char *line, struct report *r)
{
    /* Both wordings, of 2022 to 2026: "[was] not able to go from sharding {..} to {..}",
     * "cannot go from sharding {..} to {..} efficiently". */
    const char *p = strstr(line, "go from sharding ");
    if (!p)
        return false;
    *r = (struct report){ .kind = FULL_REMAT, .name = "", .shape = "", .op = "", .op_name = "",
                          .place = "", .size = "" };
    p += strlen("go from sharding ");
    if (*p != '{')
        return false;
    r->from = braced(a, p, &p);
    if (strncmp(p, " to {", 5) != 0)
        return false;
    r->to = braced(a, p + 4, &p);
    const char *op = strstr(p, "HLO operation");
    if (op && (op = strpbrk(op, ":")))
        read_operation(a, op + 1 + strspn(op + 1, " "), r);
    return true;
}

/* An entry of "Largest program allocations": Size, Operator, Shape, XLA label on lines of their own. */
static bool read_allocation(struct arena *a, const char *line, struct report *open)
{
    const char *p;
    if ((p = strstr(line, "Operator: "))) {
        open->op_name = quoted_value(a, p, "op_name=\"");
        const char *file = quoted_value(a, p, "source_file=\""), *n = strstr(p, "source_line=");
        if (file[0] && n)
            open->place = arena_printf(a, "%s:%ld", file, strtol(n + 12, NULL, 10));
    } else if ((p = strstr(line, "Shape: "))) {
        p += 7;
        open->shape = cut(a, p, p + strcspn(p, "{ "));
    } else if ((p = strstr(line, "XLA label: "))) {
        struct report inner = { .name = "", .shape = "", .op = "", .op_name = "", .place = "" };
        read_operation(a, p + 11, &inner);
        open->name = inner.name;
        if (!open->op_name[0])
            open->op_name = inner.op_name;
        return true;
    }
    return false;
}

static bool same_report(const struct report *x, const struct report *y)
{
    return x->kind == y->kind && !strcmp(x->name, y->name) && !strcmp(x->shape, y->shape) &&
           !strcmp(x->op_name, y->op_name) && !strcmp(x->size, y->size) &&
           (x->kind != FULL_REMAT || (!strcmp(x->from, y->from) && !strcmp(x->to, y->to)));
}

static void add_report(struct call *c, struct reports *all, struct report r)
{
    for (int64_t k = 0; k < all->list.n; k++)
        if (same_report(&all->list.v[k], &r)) {
            all->list.v[k].times++;
            return;
        }
    r.times = 1;
    vec_push(&c->arena, &all->list, r);
}

static void read_log(struct call *c, const char *text, size_t len, struct reports *all)
{
    struct arena *a = &c->arena;
    struct report open = { 0 };
    bool is_open = false;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        const char *line = arena_strndup(a, p, n), *size;
        struct report r;
        p += n + (nl != NULL);
        if (read_remat(a, line, &r)) {
            add_report(c, all, r);
        } else if ((size = strstr(line, ". Size: "))) {
            size += 8;
            open = (struct report){ .kind = ALLOCATION,
                                    .size = cut(a, size, size + strcspn(size, " ,\r")),
                                    .name = "",
                                    .shape = "",
                                    .op = "",
                                    .op_name = "",
                                    .place = "" };
            is_open = true;
        } else if (is_open && read_allocation(a, line, &open)) {
            add_report(c, all, open);
            is_open = false;
        }
    }
}

/* ---- finding the instruction ----------------------------------------------------------------------- */

static size_t without_number(const char *s)
{
    size_t n = strlen(s);
    while (n > 1 && ((s[n - 1] >= '0' && s[n - 1] <= '9') || s[n - 1] == '.'))
        n--;
    return n;
}

/* How well an instruction fits a report: the log's numbering may be another. 0: not at all. */
static int fit(struct call *c, const struct module *m, instr_id i, const struct report *r)
{
    const struct instr *in = instr_at(m, i);
    const char *name = name_text(m->ir, in->name), *op_name_text = instr_op_name(m, i);
    bool named = !strcmp(name, r->name);
    bool scoped = r->op_name[0] && !strcmp(op_name_text, r->op_name);
    if (r->op[0] && strcmp(op_name(in->op), r->op) != 0)
        return 0;
    if (!named && !scoped && strncmp(name, r->name, without_number(r->name)) != 0)
        return 0;
    bool shaped = r->shape[0] && !strcmp(shape_text(c, in->shape), r->shape);
    if (scoped)
        return 4 + 2 * shaped + named;
    if (r->op_name[0] && op_name_text[0])
        return 0;
    return shaped && r->name[0] ? 2 + named : 0;
}

static instr_id find_instruction(struct call *c, const struct report *r)
{
    const struct module *m = document_module(c->sh->doc);
    instr_id best = { 0 };
    int most = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        int f = fit(c, m, (instr_id){ k }, r);
        if (f > most) {
            most = f;
            best = (instr_id){ k };
        }
    }
    return best;
}

/* ---- answers --------------------------------------------------------------------------------------- */

/* What follows is printed by other commands: all that was said comes before it. */
static void flush(struct call *c)
{
    struct shell *sh = c->sh;
    if (!c->json && c->out.n)
        sh->sink.write(sh->sink.context, false, str_text(&c->out), c->out.n);
    if (!c->json)
        c->out.n = 0;
}

static void run(struct call *c, const char *command)
{
    if (c->json)
        return;
    out(c, "> %s\n", command);
    flush(c);
    bool bail = c->sh->bail;
    c->sh->bail = false;
    call_run(c, "<explain>", command, strlen(command));
    c->sh->bail = bail;
}

/* The collective with most bytes that serves an instruction: what blame is asked about. */
static const char *worst_collective(struct call *c, instr_id i)
{
    const struct collective *list;
    int64_t n, total, most = 0;
    const char *label = NULL;
    const struct program *p = document_program(c->sh->doc, call_tick(c), NULL);
    if (!p || !document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), NULL))
        return NULL;
    const struct module *m = document_module(c->sh->doc);
    for (int64_t k = 0; k < n; k++) {
        instr_id served = served_by(c, p, list[k].instr);
        bool feeds = false;
        for (uint32_t o = 0; served.i && o < instr_at(m, served)->noperands; o++)
            feeds |= instr_at(m, served)->operands[o].i == i.i;
        if ((served.i == i.i || feeds) && list[k].bytes > most) {
            most = list[k].bytes;
            label = collective_label(c, p->module, &list[k]);
        }
    }
    return label;
}

static void say_where(struct call *c, const struct report *r)
{
    if (r->times > 1)
        out(c, "%" PRId64 " times: ", r->times);
    if (r->kind == ALLOCATION)
        out(c, "an allocation of %s: ", r->size);
    if (!r->instr.i) {
        out(c, "%s%s%s, not in the loaded module\n", r->name[0] ? r->name : r->op_name,
            r->shape[0] ? " " : "", r->shape);
        return;
    }
    const char *place = place_of(c, r->instr);
    place = place[0] ? place : r->place;
    out(c, "%s = %s %s%s%s\n", tensor_name(c, r->instr),
        op_name(instr_at(document_module(c->sh->doc), r->instr)->op),
        shape_text(c, instr_at(document_module(c->sh->doc), r->instr)->shape),
        place[0] ? "  at " : "", place);
}

static void explain_remat(struct call *c, const struct report *r)
{
    out(c, "  made whole on every device, since no cheaper way was known\n"
           "  from %s\n  to   %s\n",
        r->from, r->to);
    const char *shape =
        r->instr.i ? shape_text(c, instr_at(document_module(c->sh->doc), r->instr)->shape)
                   : r->shape;
    if (shape[0])
        run(c, arena_printf(&c->arena, "reshard %s -> %s %s", r->from, r->to, shape));
    if (!r->instr.i)
        return;
    const char *label = worst_collective(c, r->instr);
    if (label)
        run(c, arena_printf(&c->arena, "blame %s", label));
    else
        out(c, "  under the strategy at hand no collective serves it: `why %s` tells its sharding\n",
            tensor_name(c, r->instr));
}

/* The axes of the mesh that a tensor does not use, with a dimension that each would divide. */
static void say_free_axes(struct call *c, const struct tensor_view *v)
{
    const struct mesh *m = document_mesh(c->sh->doc);
    struct ir *ir = document_ir(c->sh->doc);
    const struct shape *s =
        shape_get(ir, instr_at(document_module(c->sh->doc), v->instr)->shape);
    if (!m || s->kind != SHAPE_ARRAY)
        return;
    const char *text = v->sharding.i ? spelled(c, v->sharding) : "";
    bool any = false;
    for (int a = 0; a < m->naxes; a++) {
        int64_t size = m->axes[a].size;
        if (strstr(text, m->axes[a].name) || size < 2)
            continue;
        for (int d = 0; d < s->rank; d++)
            if (s->dims[d] % size == 0 && s->dims[d] >= size) {
                out(c, "%s%s would divide dimension %d, %" PRId64, any ? "; " : "  ",
                    m->axes[a].name, d, s->dims[d]);
                any = true;
                break;
            }
    }
    out(c, any ? "\n" : "");
}

static void explain_allocation(struct call *c, const struct report *r)
{
    struct tensor_view v;
    if (!r->instr.i || !document_view(c->sh->doc, r->instr, 0, &v, call_tick(c), NULL))
        return;
    view_measure(c->sh->doc, &v);
    out(c, "  %s, %s on each device, %s bytes%s\n",
        v.sharding.i ? spelled(c, v.sharding) : "replicated", shape_text(c, v.local),
        with_commas(&c->arena, v.bytes),
        v.copies > 1 ? arena_printf(&c->arena, ", %" PRId64 " copies of each piece", v.copies)
                     : "");
    say_free_axes(c, &v);
    if (v.sharding.i && v.copies > 1)
        out(c, "  `why %s` tells where that comes from\n", tensor_name(c, r->instr));
}

static void json_report(struct call *c, const struct report *r)
{
    json_open(&c->js, '{');
    json_put_string(&c->js, "kind", r->kind == FULL_REMAT ? "full-rematerialization" : "allocation");
    json_put_string(&c->js, "name", r->instr.i ? label_of(c, r->instr) : r->name);
    json_put_bool(&c->js, "found", r->instr.i != 0);
    json_put_int(&c->js, "times", r->times);
    json_put_string(&c->js, "source", r->instr.i ? place_of(c, r->instr) : r->place);
    if (r->kind == FULL_REMAT) {
        json_put_string(&c->js, "from", r->from);
        json_put_string(&c->js, "to", r->to);
        json_put_string(&c->js, "blame", r->instr.i ? worst_collective(c, r->instr) : NULL);
    } else {
        json_put_string(&c->js, "size", r->size);
    }
    json_close(&c->js, '}');
}

static int explain_log(struct call *c, const char *text, size_t n)
{
    struct reports all = { 0 };
    read_log(c, text, n, &all);
    if (all.list.n == 0) {
        call_error(c, STATUS_INPUT, "parse", "nothing in it that gspmd knows");
        diag_hint(c->d, "lines with \"Involuntary full rematerialization\", and tables of the "
                        "largest allocations, are read");
        return STATUS_INPUT;
    }
    bool loaded = document_module(c->sh->doc) != NULL;
    int64_t shown = call_rows(c, all.list.n);
    if (c->json)
        json_put_open(&c->js, "reports", '[');
    for (int64_t k = 0; k < shown; k++) {
        struct report *r = &all.list.v[k];
        if (loaded)
            r->instr = find_instruction(c, r);
        if (c->json) {
            json_report(c, r);
            continue;
        }
        say_where(c, r);
        if (r->kind == FULL_REMAT)
            explain_remat(c, r);
        else
            explain_allocation(c, r);
    }
    if (c->json)
        json_close(&c->js, ']');
    call_more(c, shown, all.list.n, "reports");
    return STATUS_OK;
}

/* ---- the command ----------------------------------------------------------------------------------- */

static int explain_file(struct call *c, const char *path)
{
    struct source *src;
    if (c->sh->sealed)
        return call_error(c, STATUS_INPUT, "io", "no file is opened here");
    diag_stage(c->d, "io");
    if (!file_read(path, &src, c->d))
        return call_failed(c);
    const char *text = arena_strndup(&c->arena, src->text, src->len);
    size_t n = src->len;
    source_free(src);
    return explain_log(c, text, n);
}

int cmd_explain(struct call *c)
{
    if (c->n == 0)
        return list_concepts(c);
    if (!strcmp(c->args[0].text, "-") && c->heredoc)
        return explain_log(c, c->heredoc, c->heredoc_len);
    if (!strcmp(c->args[0].text, "-"))
        return explain_file(c, "-");
    char *words = arena_strdup(&c->arena, call_rest(c, 0, NULL));
    const struct embedded *e = find_concept(words);
    if (e)
        return explain_concept(c, e);
    if (strstr(words, "go from sharding"))
        return explain_log(c, words, strlen(words));
    if (c->n == 1 && (strpbrk(c->args[0].text, "/.") || access(c->args[0].text, R_OK) == 0))
        return explain_file(c, c->args[0].text);
    call_usage(c, 0, "'%s' is no word that gspmd explains, and no file", c->args[0].text);
    const char *best = NULL;
    int least = 4;
    for (int k = 0; k < nconcepts; k++) {
        int far = edit_distance(c->args[0].text, concepts[k].name, 3);
        if (far < least) {
            least = far;
            best = concepts[k].name;
        }
    }
    if (best)
        diag_hint(c->d, "did you mean '%s'?", best);
    else
        diag_hint(c->d, "explain lists the words");
    return STATUS_USAGE;
}
