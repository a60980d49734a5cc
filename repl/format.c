/* Words for values, and tables. */
#include <math.h>
#include <string.h>

#include "repl/commands.h"
#include "repl/report.h"

const char *with_commas(struct arena *a, int64_t v)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRId64, v);
    struct str s = STR_IN(a);
    for (int k = 0; k < n; k++) {
        if (k > 0 && (n - k) % 3 == 0 && digits[k - 1] != '-')
            str_addc(&s, ',');
        str_addc(&s, digits[k]);
    }
    return str_text(&s);
}

const char *counted(struct arena *a, int64_t n, const char *noun)
{
    return arena_printf(a, "%s %s%s", with_commas(a, n), noun, n == 1 ? "" : "s");
}

const char *nice_bytes(struct arena *a, int64_t v)
{
    if (v < 0)
        return "too many bytes to count";
    if (v < 1024 * 100)
        return arena_printf(a, "%s bytes", with_commas(a, v));
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double x = (double)v / 1024;
    int u = 0;
    while (x >= 1000 && u < 5) {
        x /= 1024;
        u++;
    }
    return arena_printf(a, "%.*f %s", x < 100 ? 1 : 0, x, units[u]);
}

const char *label_of(struct call *c, instr_id i)
{
    struct str s = STR_IN(&c->arena);
    instr_label(document_module(c->sh->doc), i, true, &s);
    return str_text(&s);
}

const char *tensor_name(struct call *c, instr_id i)
{
    const struct module *m = document_module(c->sh->doc);
    const struct instr *in = instr_at(m, i);
    if (in->op == OP_PARAMETER && in->comp.i == m->entry.i) {
        const char *arg = instr_arg_name(m, i);
        if (arg[0]) {
            struct str s = STR_IN(&c->arena);
            str_add_safe(&s, arg, strlen(arg));
            return str_text(&s);
        }
    }
    return label_of(c, i);
}

const char *shape_text(struct call *c, shape_id s)
{
    struct str t = STR_IN(&c->arena);
    shape_print(document_ir(c->sh->doc), s, false, &t);
    return str_text(&t);
}

const char *hlo_text(struct call *c, sharding_id s)
{
    if (!s.i)
        return NULL;
    struct str t = STR_IN(&c->arena);
    sharding_print(document_ir(c->sh->doc)->shardings, s, NULL, false, &t);
    return str_text(&t);
}

const char *spelled(struct call *c, sharding_id s)
{
    if (!s.i)
        return "-";
    struct str t = STR_IN(&c->arena);
    sharding_spell(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s,
                   document_strategy(c->sh->doc)->options.spelling, &t);
    return str_text(&t);
}

const char *spelled_of(struct call *c, sharding_id s, shape_id shape)
{
    struct str t = STR_IN(&c->arena);
    enum spelling how = document_strategy(c->sh->doc)->options.spelling;
    if (s.i && sharding_spell_as(document_ir(c->sh->doc)->shardings, document_mesh(c->sh->doc), s, how,
                                 spell_shapes(c, shape), &t, NULL))
        return str_text(&t);
    return spelled(c, s);
}

const char *working_label(struct call *c, const struct graph *g, instr_id w)
{
    instr_id source = g->origin[w.i].source;
    const struct module *m = document_module(c->sh->doc);
    if (source.i && source.i <= module_ninstrs(m))
        return tensor_name(c, source);
    int k = document_annotation_of(c->sh->doc, w, NULL);
    const struct strategy *now = document_strategy(c->sh->doc);
    if (k >= 0 && k < now->nannotations)
        return arena_printf(&c->arena, "the constraint on %s",
                            tensor_name(c, now->annotations[k].target));
    if (!instr_at(g->module, w)->name.i)
        return arena_printf(&c->arena, "a %s of the pass",
                            op_name((enum op_kind)instr_at(g->module, w)->op));
    struct str s = STR_IN(&c->arena);
    instr_label(g->module, w, true, &s);
    return str_text(&s);
}

const char *place_of(struct call *c, instr_id i)
{
    const char *file;
    int line;
    const struct module *m = document_module(c->sh->doc);
    if (!i.i || i.i > module_ninstrs(m) || !instr_source(m, i, &file, &line))
        return "";
    struct str s = STR_IN(&c->arena);
    str_add_safe(&s, file, strlen(file));
    str_addf(&s, ":%d", line);
    return str_text(&s);
}

const char *origin_name(int origin)
{
    static const char *const names[] = { "none", "module", "user", "propagated" };
    return origin >= 0 && origin < 4 ? names[origin] : "none";
}

/* ---- tables
 * ----------------------------------------------------------------------------------------- */

void table_init(struct table *t, struct arena *a, const char *const *heads)
{
    *t = (struct table){ .arena = a };
    for (; heads[t->n] && t->n < TABLE_COLUMNS; t->n++) {
        t->right[t->n] = heads[t->n][0] == '>';
        t->head[t->n] = heads[t->n] + t->right[t->n];
    }
}

const char **table_row(struct table *t)
{
    const char **row = ARENA_ARRAY(t->arena, const char *, TABLE_COLUMNS);
    vec_push(t->arena, &t->rows, row);
    return row;
}

static int width_of(const char *s)
{
    int w = 0;
    for (; s && *s; s++)
        w += ((unsigned char)*s & 0xc0) != 0x80;
    return w;
}

static void add_cell(struct str *s, const char *text, int width, bool right, bool last)
{
    int pad = width - width_of(text);
    for (int k = 0; right && k < pad; k++)
        str_addc(s, ' ');
    str_adds(s, text ? text : "");
    for (int k = 0; !right && !last && k < pad; k++)
        str_addc(s, ' ');
    if (!last)
        str_adds(s, "  ");
}

static void trim_end(struct str *s)
{
    while (s->n > 0 && s->s[s->n - 1] == ' ')
        s->s[--s->n] = '\0';
}

void table_print(struct call *c, struct table *t, bool with_head)
{
    if (c->sh->blocks && !c->json) {
        blocks_answer(c->sh->blocks, str_text(&c->out), c->out.n);
        c->out.n = 0;
        blocks_table(c->sh->blocks, t, with_head);
        return;
    }
    int width[TABLE_COLUMNS] = { 0 };
    bool used[TABLE_COLUMNS] = { false };
    for (int64_t r = 0; r < t->rows.n; r++)
        for (int k = 0; k < t->n; k++) {
            int w = width_of(t->rows.v[r][k]);
            used[k] |= w > 0;
            if (w > width[k])
                width[k] = w;
        }
    int last = -1;
    for (int k = 0; k < t->n; k++) {
        if (!used[k])
            continue;
        last = k;
        if (with_head && width_of(t->head[k]) > width[k])
            width[k] = width_of(t->head[k]);
        /* One odd row must not push every other row off the screen. */
        if (width[k] > 72)
            width[k] = 72;
    }
    if (with_head && t->rows.n) {
        if (c->sh->color)
            str_adds(&c->out, "\033[1m");
        for (int k = 0; k <= last; k++)
            if (used[k])
                add_cell(&c->out, t->head[k], width[k], t->right[k], k == last);
        trim_end(&c->out);
        str_adds(&c->out, c->sh->color ? "\033[0m\n" : "\n");
    }
    for (int64_t r = 0; r < t->rows.n; r++) {
        for (int k = 0; k <= last; k++)
            if (used[k])
                add_cell(&c->out, t->rows.v[r][k], width[k], t->right[k], k == last);
        trim_end(&c->out);
        str_addc(&c->out, '\n');
    }
}
