/* The program as it is handed over: what is alive of the module under construction, renumbered,
 * named and copied into a module of its own, with its notes.
 */
#include "partition/store.h"

#include <string.h>

struct finish {
    struct spmd *s;
    const struct module *from;
    struct module *to;
    struct arena tmp;
    instr_id *id;        /* old -> new */
    comp_id *comp;
    struct map loans;    /* literals of the source: not copied */
    uint64_t *taken;     /* a bit for each name */
    int64_t ntaken;      /* words */
    struct map reasons;  /* text as it is -> copy in the program */
    int64_t counter[OP_COUNT];
    int64_t channel;     /* next one: ours are numbered in the order of the text */
};

/* ---- copies that the new module owns ------------------------------------------------------------------- */

static const struct literal *own_literal(struct finish *f, const struct literal *l)
{
    uint64_t x;
    if (!l || map_get(&f->loans, (uint64_t)(uintptr_t)l, &x))
        return l;
    return literal_new(f->to, l->shape, l->data);
}

struct attr attr_own(struct arena *m, struct attr a)
{
    switch ((enum attr_type)a.type) {
    case ATTR_TYPE_NONE:
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL:
    case ATTR_TYPE_IDENT:
    case ATTR_TYPE_FLOAT:
    case ATTR_TYPE_COMP:
        break;
    case ATTR_TYPE_COMPS:
        a.comps = arena_copy(m, a.comps, a.n, sizeof *a.comps);
        break;
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING:
        a.ints = arena_copy(m, a.ints, a.n, sizeof *a.ints);
        break;
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW:
        a.text = arena_strndup(m, a.text, a.n);
        break;
    case ATTR_TYPE_WINDOW: {
        struct window *w = arena_copy(m, a.window, 1, sizeof *w);
        w->dims = arena_copy(m, w->dims, w->rank, sizeof *w->dims);
        w->text = NULL;
        a.window = w;
        break;
    }
    case ATTR_TYPE_CONV:
        a.conv = arena_copy(m, a.conv, 1, sizeof *a.conv);
        break;
    case ATTR_TYPE_GROUPS: {
        struct replica_groups *g = arena_copy(m, a.groups, 1, sizeof *g);
        g->text = NULL;
        if (!g->none && !g->uniform) {
            int64_t n = 0;
            for (int64_t i = 0; i < g->nlists; i++)
                n += g->sizes[i];
            g->ids = arena_copy(m, g->ids, n, sizeof *g->ids);
            g->sizes = arena_copy(m, g->sizes, g->nlists, sizeof *g->sizes);
        }
        a.groups = g;
        break;
    }
    case ATTR_TYPE_PAIRS: {
        struct permute_pairs *p = arena_copy(m, a.pairs, 1, sizeof *p);
        p->text = NULL;
        if (p->kind == PAIRS_LIST)
            p->list = arena_copy(m, p->list, 2 * p->n, sizeof *p->list);
        a.pairs = p;
        break;
    }
    case ATTR_TYPE_INSTRS:
        a.n = 0;
        a.instrs = NULL;
        break;
    }
    return a;
}

static struct attr own_attr(struct finish *f, struct attr a)
{
    a = attr_own(&f->to->arena, a);
    if (a.type == ATTR_TYPE_COMP)
        a.comp = f->comp[a.comp.i];
    comp_id *list = a.type == ATTR_TYPE_COMPS ? (comp_id *)(uintptr_t)a.comps : NULL;
    for (uint32_t k = 0; list && k < a.n; k++)
        list[k] = f->comp[list[k].i];
    return a;
}

static const char *own_reason(struct finish *f, const char *reason)
{
    uint64_t at;
    if (!reason)
        return NULL;
    if (map_get(&f->reasons, (uint64_t)(uintptr_t)reason, &at))
        return (const char *)(uintptr_t)at;
    const char *copy = arena_strdup(&f->s->prog->arena, reason);
    map_put(&f->reasons, (uint64_t)(uintptr_t)reason, (uint64_t)(uintptr_t)copy);
    return copy;
}

/* ---- names ------------------------------------------------------------------------------------------------ */

/* false: somebody has it already. */
static bool take(struct finish *f, name_id n)
{
    int64_t word = n.i / 64;
    if (word >= f->ntaken) {
        uint64_t *more = ARENA_ARRAY(&f->tmp, uint64_t, 2 * word + 64);
        if (f->ntaken)
            memcpy(more, f->taken, (size_t)f->ntaken * sizeof *more);
        f->taken = more;
        f->ntaken = 2 * word + 64;
    }
    uint64_t bit = (uint64_t)1 << n.i % 64;
    if (f->taken[word] & bit)
        return false;
    f->taken[word] |= bit;
    return true;
}

/* word.number */
static name_id word_number(struct finish *f, const char *word, int64_t number)
{
    size_t len = strlen(word), at = 24;
    char digits[24], *text = arena_alloc(&f->tmp, (int64_t)len + 25, 1);
    memcpy(text, word, len);
    text[len++] = '.';
    for (; number > 0; number /= 10)
        digits[--at] = (char)('0' + number % 10);
    memcpy(text + len, digits + at, sizeof digits - at);
    return name_put(f->s->ir, text, len + sizeof digits - at);
}

/* word, or word.1, word.2, ..: the first that is free. */
static name_id unique(struct finish *f, name_id want)
{
    name_id n = want;
    for (int64_t k = 1; !take(f, n); k++)
        n = word_number(f, name_text(f->s->ir, want), k);
    return n;
}

static name_id instr_name(struct finish *f, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    if (op == OP_PARAMETER && in->name.i)
        return unique(f, in->name);
    for (;;) {
        int64_t k = ++f->counter[op];
        name_id *known = store_name(f->s, op, k);
        if (!known->i)
            *known = word_number(f, op_name(op), k);
        if (take(f, *known))
            return *known;
    }
}

/* ---- computations -------------------------------------------------------------------------------------------- */

/* What a custom call returns lies in memory as the text says: its layout is part of its contract. Other
 * instructions have none in a program that is yet to be compiled. */
static shape_id laid_out(const struct finish *f, const struct instr *in, instr_id old)
{
    if (in->op != OP_CUSTOM_CALL || (int64_t)old.i >= f->s->info.n)
        return in->shape;
    instr_id source = f->s->info.v[old.i].note.source;
    if (!source.i)
        return in->shape;
    const struct instr *was = instr_at(f->s->src, source);
    if (was->op != OP_CUSTOM_CALL || strcmp(instr_target(f->s->src, was), instr_target(f->from, in)) != 0)
        return in->shape;
    return shape_with_layouts(f->s->ir, in->shape, was->shape);
}

static void copy_instr(struct finish *f, comp_id to, instr_id old)
{
    const struct instr *in = instr_at(f->from, old);
    struct attr attrs[256];
    instr_id few[16], *ops = in->noperands <= 16 ? few : ARENA_ARRAY(&f->tmp, instr_id, in->noperands);
    int n = 0;
    for (uint32_t k = 0; k < in->noperands; k++)
        ops[k] = f->id[in->operands[k].i];
    for (int k = 0; k < in->nattrs; k++)
        if (in->attrs[k].type != ATTR_TYPE_INSTRS)
            attrs[n++] = own_attr(f, in->attrs[k]);
    for (int k = 0; k < n; k++)
        if (attrs[k].key == ATTR_CHANNEL_ID && attrs[k].i >= f->s->first_channel)
            attrs[k].i = f->channel++;
    instr_id id = instr_new(f->to, to, (enum op_kind)in->op, laid_out(f, in, old), in->noperands, ops, n,
                            attrs);
    struct instr *out = instr_at(f->to, id);
    out->literal = own_literal(f, in->literal);
    out->metadata = in->metadata;
    out->metadata_len = in->metadata_len;
    out->frontend = in->frontend;
    out->frontend_len = in->frontend_len;
    out->name = instr_name(f, in);
    f->id[old.i] = id;
}

static void copy_computation_out(struct finish *f, comp_id old, const struct users *users)
{
    const struct computation *c = comp_at(f->from, old);
    comp_id to = comp_new(f->to, unique(f, c->name));
    f->comp[old.i] = to;
    uint32_t n;
    const instr_id *order = comp_post_order(f->from, old, users, &f->tmp, &n);
    for (uint32_t k = 0; k < c->nparams; k++)
        copy_instr(f, to, c->params[k]);
    for (uint32_t k = 0; k < n; k++)
        if (instr_at(f->from, order[k])->op != OP_PARAMETER)
            copy_instr(f, to, order[k]);
    comp_finish(f->to, to, f->id[c->root.i]);
    comp_at(f->to, to)->entry = c->entry;
}

static bool is_part_of_fft(const struct finish *f, instr_id i)
{
    const struct instr *in = instr_at(f->to, i);
    instr_id source = f->s->prog->notes[i.i].source;
    if (in->op != OP_FFT || !source.i)
        return false;
    int n, m;
    const int64_t *a = instr_ints(in, ATTR_FFT_LENGTH, &n);
    const int64_t *b = instr_ints(instr_at(f->s->prop->graph->module, source), ATTR_FFT_LENGTH, &m);
    return n > 0 && n == m && a[n - 1] != b[n - 1];
}

static void copy_notes(struct finish *f)
{
    struct program *p = f->s->prog;
    uint32_t n = module_ninstrs(f->to);
    p->nodes = n;
    p->notes = ARENA_ARRAY(&p->arena, struct node_note, (int64_t)n + 1);
    p->node_sharding = ARENA_ARRAY(&p->arena, sharding_id, (int64_t)n + 1);
    for (uint32_t old = 1; old <= module_ninstrs(f->from); old++) {
        instr_id id = f->id[old];
        if (!id.i || (int64_t)old >= f->s->info.n)
            continue;
        const struct node_info *x = &f->s->info.v[old];
        p->notes[id.i] = x->note;
        p->notes[id.i].reason = own_reason(f, x->note.reason);
        p->node_sharding[id.i] = x->sharding;
        p->split_fft = p->split_fft || is_part_of_fft(f, id);
    }
    p->nremats = f->s->remats.n;
    p->remats = arena_copy(&p->arena, f->s->remats.v, p->nremats, sizeof *p->remats);
    for (int64_t i = 0; i < p->nremats; i++)
        p->remats[i].reason = own_reason(f, p->remats[i].reason);
}

/* Aliases and donations keep their meaning: parameters and outputs are the same ones. */
static void copy_header_attrs(struct finish *f)
{
    const struct module *src = f->s->src;
    struct header_attr *h = ARENA_ARRAY(&f->to->arena, struct header_attr, src->nheader + 1);
    int n = 0;
    for (int i = 0; i < src->nheader; i++) {
        const char *key = name_text(f->s->ir, src->header[i].key);
        if (strcmp(key, "input_output_alias") == 0 || strcmp(key, "buffer_donor") == 0)
            h[n++] = src->header[i];
    }
    f->to->header = h;
    f->to->nheader = n;
}

static void entry_params(struct finish *f)
{
    const struct computation *c = comp_at(f->to, f->to->entry);
    for (uint32_t k = 0; k < c->nparams; k++)
        instr_at(f->to, c->params[k])->sharding = f->s->prog->param_sharding[k];
}

bool program_finish(struct spmd *s, comp_id entry)
{
    struct finish f = { .s = s, .from = s->out, .channel = s->first_channel };
    arena_open(&f.tmp);
    map_init(&f.loans, &f.tmp);
    map_init(&f.reasons, &f.tmp);
    /* The propagation outlives the program; a rewritten copy of its module does not. */
    for (uint32_t i = 1; s->src == s->prop->graph->module && i <= module_ninstrs(s->src); i++) {
        const struct literal *l = instr_at(s->src, (instr_id){ i })->literal;
        if (l)
            map_put(&f.loans, (uint64_t)(uintptr_t)l, 1);
    }
    f.to = module_new(s->ir, s->out->name);
    f.to->num_partitions = s->out->num_partitions;
    f.to->replica_count = s->out->replica_count;
    f.to->tables = s->out->tables;
    f.to->tables_len = s->out->tables_len;
    f.to->print_style = s->out->print_style;
    f.id = ARENA_ARRAY(&f.tmp, instr_id, (int64_t)module_ninstrs(f.from) + 1);
    f.comp = ARENA_ARRAY(&f.tmp, comp_id, (int64_t)module_ncomps(f.from) + 1);
    struct users users;
    users_make(f.from, &f.tmp, &users);
    uint32_t n;
    const comp_id *order = module_call_order(f.from, false, &f.tmp, &n);
    for (uint32_t k = 0; k < n; k++)
        copy_computation_out(&f, order[k], &users);
    f.to->entry = f.comp[entry.i];
    copy_header_attrs(&f);
    entry_params(&f);
    copy_notes(&f);
    arena_close(&f.tmp);
    s->prog->module = f.to;
    return true;
}
