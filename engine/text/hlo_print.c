/* HLO text: printing modules, in the order and with the blanks that XLA's printer has. What was
 * borrowed from a text (metadata, literals, groups, windows, signatures) goes out as it came. */
#include "text/printer.h"

#include <stdlib.h>
#include <string.h>

#include "text/features.h"
#include "text/reader.h"

/* ---- output ---------------------------------------------------------------------------------- */

void put(struct printer *p, const char *s, size_t n)
{
    p->n += (int64_t)n;
    if (p->out)
        str_add(p->out, s, n);
}

void puts_(struct printer *p, const char *s)
{
    put(p, s, strlen(s));
}

void put_int(struct printer *p, int64_t v)
{
    char buf[24];
    char *at = buf + sizeof buf;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        *--at = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--at = '-';
    put(p, at, (size_t)(buf + sizeof buf - at));
}

/* What another layer's printer makes, by way of a string that is used again. */
static struct str *scratch(struct printer *p)
{
    p->scratch.n = 0;
    return &p->scratch;
}

static void put_scratch(struct printer *p)
{
    put(p, str_text(&p->scratch), p->scratch.n);
}

/* ---- shapes, names --------------------------------------------------------------------------- */

static bool layouts(const struct printer *p)
{
    return !(p->o && p->o->short_form);
}

void put_shape(struct printer *p, shape_id s, bool with_layout)
{
    struct text *kept = p->shapes && s.i < p->nshapes ? &p->shapes[s.i * 2 + with_layout] : NULL;
    if (kept && kept->s) {
        put(p, kept->s, kept->n);
        return;
    }
    shape_print(p->m->ir, s, with_layout, scratch(p));
    if (kept) {
        kept->n = p->scratch.n;
        kept->s = arena_strndup(&p->tmp, str_text(&p->scratch), kept->n);
    }
    put_scratch(p);
}

static void put_percent(struct printer *p)
{
    if (p->percent)
        put(p, "%", 1);
}

void put_name(struct printer *p, instr_id i)
{
    put_percent(p);
    name_id n = instr_at(p->m, i)->name;
    if (p->renamed && p->renamed[i.i])
        puts_(p, p->renamed[i.i]);
    else if (n.i)
        put(p, name_text(p->m->ir, n), name_len(p->m->ir, n));
    else
        puts_(p, unnamed(p, i));
}

static void put_comp(struct printer *p, comp_id c)
{
    put_percent(p);
    name_id n = comp_at(p->m, c)->name;
    put(p, name_text(p->m->ir, n), name_len(p->m->ir, n));
}

/* ---- attributes ------------------------------------------------------------------------------ */

void put_ints(struct printer *p, int64_t n, const int64_t *v, const char *between)
{
    for (int64_t i = 0; i < n; i++) {
        if (i)
            puts_(p, between);
        put_int(p, v[i]);
    }
}

/* A stride is printed in every dimension as soon as one has one. */
static void put_slice(struct printer *p, const struct attr *a)
{
    bool strides = false;
    for (uint32_t k = 0; k + 2 < a->n; k += 3)
        strides = strides || a->ints[k + 2] != 1;
    puts_(p, "{");
    for (uint32_t k = 0; k + 2 < a->n; k += 3) {
        puts_(p, k ? ", [" : "[");
        put_ints(p, strides ? 3 : 2, a->ints + k, ":");
        puts_(p, "]");
    }
    puts_(p, "}");
}

static void put_padding(struct printer *p, const struct attr *a)
{
    bool interior = false;
    for (uint32_t k = 0; k + 2 < a->n; k += 3)
        interior = interior || a->ints[k + 2] != 0;
    for (uint32_t k = 0; k + 2 < a->n; k += 3) {
        if (k)
            puts_(p, "x");
        put_ints(p, interior ? 3 : 2, a->ints + k, "_");
    }
}

/* One field of every dimension, `key=1x2`, if any differs from the default. */
static void window_row(struct printer *p, const struct window *w, const char *key, size_t offset,
                       int64_t dflt)
{
    bool any = false;
    for (int d = 0; d < w->rank; d++)
        any = any || *(const int64_t *)((const char *)&w->dims[d] + offset) != dflt;
    if (!any)
        return;
    puts_(p, key);
    for (int d = 0; d < w->rank; d++) {
        if (d)
            puts_(p, "x");
        put_int(p, *(const int64_t *)((const char *)&w->dims[d] + offset));
    }
}

static void window_pads(struct printer *p, const struct window *w)
{
    bool any = false;
    for (int d = 0; d < w->rank; d++)
        any = any || w->dims[d].pad_low || w->dims[d].pad_high;
    for (int d = 0; any && d < w->rank; d++) {
        puts_(p, d ? "x" : " pad=");
        put_int(p, w->dims[d].pad_low);
        puts_(p, "_");
        put_int(p, w->dims[d].pad_high);
    }
}

static void put_window(struct printer *p, const struct window *w)
{
    puts_(p, "{");
    if (w->text) {
        put(p, w->text, w->len);
    } else if (w->rank) {
        puts_(p, "size=");
        for (int d = 0; d < w->rank; d++) {
            puts_(p, d ? "x" : "");
            put_int(p, w->dims[d].size);
        }
        window_row(p, w, " stride=", offsetof(struct window_dim, stride), 1);
        window_pads(p, w);
        window_row(p, w, " lhs_dilate=", offsetof(struct window_dim, base_dilation), 1);
        window_row(p, w, " rhs_dilate=", offsetof(struct window_dim, window_dilation), 1);
        bool reversed = false;
        for (int d = 0; d < w->rank; d++)
            reversed = reversed || w->dims[d].reversal;
        for (int d = 0; reversed && d < w->rank; d++) {
            puts_(p, d ? "x" : " rhs_reversal=");
            put_int(p, w->dims[d].reversal);
        }
    }
    puts_(p, "}");
}

/* b01f: letters and digits at their positions; a position that nothing names is '?'. */
static void put_labels(struct printer *p, int n, int first, int second, const char *letters,
                       const int *spatial)
{
    for (int k = 0; k < n + 2; k++) {
        char c = k == first ? letters[0] : k == second ? letters[1] : '?';
        for (int d = 0; d < n; d++)
            if (spatial[d] == k)
                c = (char)('0' + d);
        put(p, &c, 1);
    }
}

static void put_conv(struct printer *p, const struct conv_dims *c)
{
    put_labels(p, c->nspatial, c->lhs_batch, c->lhs_feature, "bf", c->lhs_spatial);
    puts_(p, "_");
    put_labels(p, c->nspatial, c->rhs_in, c->rhs_out, "io", c->rhs_spatial);
    puts_(p, "->");
    put_labels(p, c->nspatial, c->out_batch, c->out_feature, "bf", c->out_spatial);
}

/* The shortest decimal that reads back the same. */
static void put_float(struct printer *p, double v)
{
    struct str *s = scratch(p);
    for (int digits = 6; digits <= 17; digits++) {
        s->n = 0;
        str_addf(s, "%.*g", digits, v);
        if (strtod(str_text(s), NULL) == v)
            break;
    }
    put_scratch(p);
}

static void put_value(struct printer *p, const struct attr *a)
{
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_INT: put_int(p, a->i); break;
    case ATTR_TYPE_BOOL: puts_(p, a->i ? "true" : "false"); break;
    case ATTR_TYPE_INTS:
        puts_(p, "{");
        put_ints(p, a->n, a->ints, ",");
        puts_(p, "}");
        break;
    case ATTR_TYPE_IDENT: puts_(p, name_text(p->m->ir, a->name)); break;
    case ATTR_TYPE_STRING:
        puts_(p, "\"");
        put(p, a->text, a->n);
        puts_(p, "\"");
        break;
    case ATTR_TYPE_RAW: put(p, a->text, a->n); break;
    case ATTR_TYPE_COMP: put_comp(p, a->comp); break;
    case ATTR_TYPE_COMPS:
    case ATTR_TYPE_INSTRS:
        puts_(p, "{");
        for (uint32_t k = 0; k < a->n; k++) {
            puts_(p, k ? ", " : "");
            if (a->type == ATTR_TYPE_COMPS)
                put_comp(p, a->comps[k]);
            else
                put_name(p, a->instrs[k]);
        }
        puts_(p, "}");
        break;
    case ATTR_TYPE_SLICE: put_slice(p, a); break;
    case ATTR_TYPE_PADDING: put_padding(p, a); break;
    case ATTR_TYPE_WINDOW: put_window(p, a->window); break;
    case ATTR_TYPE_CONV: put_conv(p, a->conv); break;
    case ATTR_TYPE_GROUPS: put_groups(p, a->groups); break;
    case ATTR_TYPE_PAIRS: put_pairs(p, a->pairs); break;
    case ATTR_TYPE_FLOAT: put_float(p, a->f); break;
    case ATTR_TYPE_NONE: break;
    }
}

static void put_attr(struct printer *p, const struct attr *a)
{
    puts_(p, ", ");
    if (a->key != ATTR_UNKNOWN_KEY) { /* an unknown key is in its text */
        puts_(p, attr_name((enum attr_key)a->key));
        puts_(p, "=");
    }
    put_value(p, a);
}

static void put_attrs_at(struct printer *p, const struct instr *i, enum place where)
{
    for (int k = 0; k < i->nattrs; k++)
        if (place_of((enum attr_key)i->attrs[k].key) == where &&
            !(i->op == OP_PARAMETER && i->attrs[k].key == ATTR_INDEX) && /* stands in the parentheses */
            i->attrs[k].key != ATTR_OPCODE_TEXT)
            put_attr(p, &i->attrs[k]);
}

static void put_sharding(struct printer *p, instr_id id, const struct instr *i)
{
    sharding_id s = p->o && p->o->shardings ? p->o->shardings[id.i] : i->sharding;
    if (!s.i)
        return;
    puts_(p, ", sharding=");
    const struct sharding_note *note = s.i == i->sharding.i ? i->note : NULL;
    if (note && note->text) {
        put(p, note->text, note->len);
        return;
    }
    sharding_print(p->m->ir->shardings, s, note, true, scratch(p));
    put_scratch(p);
}

static void put_attrs(struct printer *p, instr_id id, const struct instr *i)
{
    bool brief = p->o && p->o->short_form;
    put_attrs_at(p, i, WITH_OP);
    put_sharding(p, id, i);
    if (i->frontend && !brief) {
        puts_(p, ", frontend_attributes={");
        put(p, i->frontend, i->frontend_len);
        puts_(p, "}");
    }
    put_attrs_at(p, i, BEHIND_SHARDING);
    if (i->metadata && !brief && !(p->o && p->o->no_metadata)) {
        puts_(p, ", metadata={");
        put(p, i->metadata, i->metadata_len);
        puts_(p, "}");
    }
    if (!brief)
        put_attrs_at(p, i, LAST);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void put_operands(struct printer *p, const struct instr *i)
{
    const struct module *m = p->m;
    bool shapes = m->print_style & STYLE_OPERAND_SHAPES && layouts(p);
    bool shape_layouts = m->text_features & TEXT_OPERAND_LAYOUTS;
    bool index = !(m->text_features & TEXT_NO_OPERAND_INDEX);
    for (uint32_t k = 0; k < i->noperands; k++) {
        if (k)
            puts_(p, ", ");
        if (k && k % 5 == 0 && index) {
            puts_(p, "/*index=");
            put_int(p, k);
            puts_(p, "*/");
        }
        if (shapes) {
            put_shape(p, instr_at(m, i->operands[k])->shape, shape_layouts);
            puts_(p, " ");
        }
        put_name(p, i->operands[k]);
    }
}

static void put_arguments(struct printer *p, const struct instr *i)
{
    if (i->op == OP_PARAMETER) {
        put_int(p, instr_param_number(i));
    } else if (i->op == OP_CONSTANT && i->literal) {
        if (i->literal->text) {
            put(p, i->literal->text, i->literal->len);
        } else {
            literal_print(p->m, i->literal, scratch(p));
            put_scratch(p);
        }
    } else {
        put_operands(p, i);
    }
}

static void put_instr(struct printer *p, instr_id id)
{
    const struct instr *i = instr_at(p->m, id);
    if (i->comp.i && comp_at(p->m, i->comp)->root.i == id.i)
        puts_(p, "ROOT ");
    put_name(p, id);
    puts_(p, " = ");
    put_shape(p, i->shape, layouts(p));
    puts_(p, " ");
    puts_(p, instr_opcode_text(p->m, i));
    puts_(p, "(");
    put_arguments(p, i);
    puts_(p, ")");
    put_attrs(p, id, i);
}

/* ---- header ---------------------------------------------------------------------------------- */

static void put_bools(struct printer *p, int64_t n, const bool *v)
{
    puts_(p, "{");
    for (int64_t i = 0; i < n; i++) {
        puts_(p, i ? "," : "");
        puts_(p, v[i] ? "true" : "false");
    }
    puts_(p, "}");
}

/* Whether a list as it was read says what the module says now. */
static bool same_bools(const struct header_attr *a, int64_t n, const bool *v)
{
    int64_t k = 0;
    for (uint32_t i = 0; i < a->len; i++) {
        bool t = a->text[i] == 't' || a->text[i] == '1';
        if (t || a->text[i] == 'f' || a->text[i] == '0') {
            if (k >= n || v[k] != t)
                return false;
            k++;
            while (i + 1 < a->len && a->text[i + 1] >= 'a' && a->text[i + 1] <= 'z')
                i++;
        }
    }
    return k == n;
}

enum meaning {
    PLAIN,
    TO_OUTPUT,
    TO_PARAMETERS,
    PARTITIONS,
    REPLICAS,
    SCHEDULED,
    FRONTEND,
    MEANINGS
};

static const char *const meaning_keys[MEANINGS] = {
    [TO_OUTPUT] = "allow_spmd_sharding_propagation_to_output",
    [TO_PARAMETERS] = "allow_spmd_sharding_propagation_to_parameters",
    [PARTITIONS] = "num_partitions",
    [REPLICAS] = "replica_count",
    [SCHEDULED] = "is_scheduled",
    [FRONTEND] = "frontend_attributes",
};

static enum meaning meaning_of(const struct module *m, const struct header_attr *a)
{
    const char *key = name_text(m->ir, a->key);
    for (int k = 1; k < MEANINGS; k++)
        if (strcmp(key, meaning_keys[k]) == 0)
            return (enum meaning)k;
    return PLAIN;
}

static int64_t count_of(const struct module *m, enum meaning k)
{
    return k == PARTITIONS ? m->num_partitions : m->replica_count;
}

static void put_header_attr(struct printer *p, const struct header_attr *a, enum meaning k)
{
    const struct module *m = p->m;
    const char *extra = p->o ? p->o->header_frontend : NULL;
    bool out = k == TO_OUTPUT;
    int64_t n = out ? m->nto_output : m->nto_parameters;
    const bool *v = out ? m->to_output : m->to_parameters;
    puts_(p, ", ");
    puts_(p, name_text(m->ir, a->key));
    if (!a->text)
        return;
    puts_(p, "=");
    int64_t was;
    if ((out || k == TO_PARAMETERS) && !same_bools(a, n, v))
        put_bools(p, n, v);
    else if ((k == PARTITIONS || k == REPLICAS) &&
             (!parse_i64(a->text, a->len, &was) || was != count_of(m, k)))
        put_int(p, count_of(m, k));
    else if (k == FRONTEND && extra && a->len > 2) {
        put(p, a->text, a->len - 1);
        puts_(p, ",");
        puts_(p, extra);
        puts_(p, "}");
    } else if (k == FRONTEND && extra) {
        puts_(p, "{");
        puts_(p, extra);
        puts_(p, "}");
    } else
        put(p, a->text, a->len);
}

/* What the module says and its text did not. */
static void put_header_rest(struct printer *p, const bool *seen)
{
    const struct module *m = p->m;
    const char *extra = p->o ? p->o->header_frontend : NULL;
    if (m->is_scheduled && !seen[SCHEDULED])
        puts_(p, ", is_scheduled=true");
    if (m->nto_parameters && !seen[TO_PARAMETERS]) {
        puts_(p, ", allow_spmd_sharding_propagation_to_parameters=");
        put_bools(p, m->nto_parameters, m->to_parameters);
    }
    if (m->nto_output && !seen[TO_OUTPUT]) {
        puts_(p, ", allow_spmd_sharding_propagation_to_output=");
        put_bools(p, m->nto_output, m->to_output);
    }
    for (int k = REPLICAS; k >= PARTITIONS; k--)
        if (count_of(m, (enum meaning)k) > 0 && !seen[k]) {
            puts_(p, ", ");
            puts_(p, meaning_keys[k]);
            puts_(p, "=");
            put_int(p, count_of(m, (enum meaning)k));
        }
    if (extra && !seen[FRONTEND]) {
        puts_(p, ", frontend_attributes={");
        puts_(p, extra);
        puts_(p, "}");
    }
}

static bool says_anything(const struct printer *p)
{
    const struct module *m = p->m;
    return m->is_scheduled || m->nto_output || m->nto_parameters || m->num_partitions > 0 ||
           m->replica_count > 0 || (p->o && p->o->header_frontend);
}

/* A name of StableHLO may be any string; HLO's are words, as XLA makes them on import. */
static void put_module_name(struct printer *p, const char *name)
{
    size_t n = strlen(name);
    for (size_t k = 0; k < n; k++)
        put(p, is_word(name[k]) ? &name[k] : "_", 1);
    if (n == 0)
        put(p, "_", 1);
}

static void put_header(struct printer *p)
{
    const struct module *m = p->m;
    if (m->before)
        put(p, m->before, m->before_len);
    if (!m->name.i && m->nheader == 0 && !says_anything(p))
        return; /* snippets have no such line */
    puts_(p, "HloModule ");
    put_module_name(p, m->name.i ? name_text(m->ir, m->name) : "module");
    bool seen[MEANINGS] = { false };
    for (int k = 0; k < m->nheader; k++) {
        enum meaning w = meaning_of(m, &m->header[k]);
        seen[w] = true;
        put_header_attr(p, &m->header[k], w);
    }
    put_header_rest(p, seen);
    puts_(p, "\n\n");
    if (m->tables) {
        put(p, m->tables, m->tables_len);
        puts_(p, "\n\n");
    }
}

/* ---- the module ------------------------------------------------------------------------------ */

static bool enough(const struct printer *p)
{
    return p->o && p->o->max_bytes > 0 && p->n > p->o->max_bytes;
}

static bool put_computation(struct printer *p, comp_id id)
{
    const struct computation *c = comp_at(p->m, id);
    if (id.i == p->m->entry.i)
        puts_(p, "ENTRY ");
    put_comp(p, id);
    if (c->signature)
        put(p, c->signature, c->signature_len);
    puts_(p, " {\n");
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        puts_(p, "  ");
        put_instr(p, c->instrs[k]);
        puts_(p, "\n");
        if (enough(p))
            return false;
    }
    puts_(p, "}");
    if (c->closer)
        put(p, c->closer, c->closer_len);
    puts_(p, "\n\n");
    return true;
}

static bool print_module(struct printer *p)
{
    p->nshapes = p->m->ir->shapes.n;
    p->shapes = ARENA_ARRAY(&p->tmp, struct text, (int64_t)p->nshapes * 2);
    put_header(p);
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++)
        if (!put_computation(p, (comp_id){ c }))
            return false;
    return !enough(p);
}

static void open_printer(struct printer *p, const struct module *m,
                         const struct hlo_print_options *o, struct str *out)
{
    *p = (struct printer){
        .m = m, .o = o, .out = out, .percent = (m->print_style & STYLE_PERCENT) != 0
    };
    arena_open(&p->tmp);
    p->scratch = STR_IN(&p->tmp);
}

bool hlo_print(const struct module *m, const struct hlo_print_options *o, struct str *out)
{
    struct printer p;
    open_printer(&p, m, o, out);
    printer_rename(&p);
    bool ok = print_module(&p);
    arena_close(&p.tmp);
    return ok;
}

int64_t hlo_print_size(const struct module *m, const struct hlo_print_options *o)
{
    struct printer p;
    struct hlo_print_options all = o ? *o : (struct hlo_print_options){ 0 };
    all.max_bytes = 0;
    open_printer(&p, m, &all, NULL);
    printer_rename(&p);
    (void)print_module(&p);
    arena_close(&p.tmp);
    return p.n;
}

void hlo_print_instr(const struct module *m, instr_id i, const struct hlo_print_options *o,
                     struct str *out)
{
    struct printer p;
    open_printer(&p, m, o, out);
    put_instr(&p, i);
    arena_close(&p.tmp);
}
