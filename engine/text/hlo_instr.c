/* HLO text: one instruction, `ROOT name = shape opcode(operands), key=value, ...`. */
#include "text/reader.h"

#include "base/open.h"
#include "text/features.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

/* The end of the shape at p, by its brackets alone; NULL: not closed, or none. */
static const char *shape_end(const char *p, const char *end)
{
    if (*p == '(')
        return hlo_balanced(p, end);
    while (is_word(*p))
        p++;
    if (*p != '[')
        return NULL;
    while (*p != ']') {
        if (*p == '\0' || *p == '\n')
            return NULL;
        p++;
    }
    p++;
    if (*p == '{') {
        const char *q = p + 1;
        while (*q != '}') {
            if (*q == '\0' || *q == '\n')
                return NULL;
            q++;
        }
        p = q + 1;
    }
    return p;
}

bool hlo_shape(struct hlo *r, shape_id *out)
{
    const char *from = r->p;
    const char *stop = shape_end(from, r->end);
    struct cached *e = NULL;
    bool hit = false;
    if (stop) {
        e = hlo_cached(r->shapes, SHAPE_CACHE, from, (size_t)(stop - from), &hit);
        if (hit) {
            r->p = stop;
            out->i = e->id;
            return true;
        }
        e->text = NULL;
    }
    size_t n = (size_t)(stop ? stop - from : r->end - from), used = 0;
    if (!shape_parse(r->c, r->src, (uint32_t)(from - r->base), from, n, &used, out, r->d)) {
        r->nerrors++;
        return false;
    }
    r->p = from + used;
    if (e && used == n) {
        e->text = from;
        e->id = out->i;
    }
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *nearest_name(const struct hlo *r, const char *name, size_t n)
{
    char word[64];
    if (n >= sizeof word || !r->comp.i)
        return NULL;
    memcpy(word, name, n);
    word[n] = '\0';
    const struct computation *c = comp_at(r->m, r->comp);
    const char *best = NULL;
    int least = n < 4 ? 2 : 3, seen = 0;
    for (uint32_t i = c->last.i; i && i >= c->first.i && seen < 20000; i--, seen++) {
        const char *t = name_text(r->c, instr_at(r->m, (instr_id){ i })->name);
        int e = edit_distance(word, t, 3);
        if (e < least) {
            least = e;
            best = t;
        }
    }
    return best;
}

/* Whether the computation defines the name further down, for the message. */
static bool defined_later(const struct hlo *r, const char *name, size_t n)
{
    const char *stop = memmem(r->p, (size_t)(r->end - r->p), "\n}", 2);
    stop = stop ? stop : r->end;
    for (const char *q = r->p; (q = memmem(q, (size_t)(stop - q), name, n)); q += n) {
        const char *behind = q + n;
        if (is_word(q[-1]) || is_word(*behind))
            continue;
        while (*behind == ' ')
            behind++;
        if (*behind == '=' && q[-1] != ',')
            return true;
    }
    return false;
}

static bool unknown_name(struct hlo *r, const char *name, size_t n, const char *defining)
{
    size_t dn = defining ? word_len(defining) : 0;
    if (dn == n && memcmp(name, defining, n) == 0)
        return FAIL(r, name, n, "'%.*s' needs itself: it is not defined before this line", (int)n,
                    name);
    if (defined_later(r, name, n))
        return FAIL(r, name, n,
                    "'%.*s' is used before it is defined (an operand stands above its "
                    "users; a circle of operands has no order)",
                    (int)n, name);
    FAIL(r, name, n, "'%.*s' is not defined in this computation", (int)n, name);
    const char *near = nearest_name(r, name, n);
    if (near)
        diag_hint(r->d, "did you mean '%s'?", near);
    return false;
}

static bool find_name(struct hlo *r, const char *name, size_t n, instr_id *out)
{
    uint32_t hash = word_hash(name, n);
    const struct recent *e = &r->recent[hash & (RECENT - 1)];
    if (e->hash == hash && e->comp == r->comp.i) {
        const char *at = r->base + e->off;
        if (memcmp(at, name, n) == 0 && !is_word(at[n])) {
            out->i = e->instr;
            return true;
        }
    }
    uint32_t id = intern_find(&r->c->names, name, n);
    out->i = id && id < r->ndefs ? r->defs[id] : 0;
    return out->i && instr_at(r->m, *out)->comp.i == r->comp.i;
}

bool hlo_operand_name(struct hlo *r, instr_id *out)
{
    skip(r);
    if (*r->p == '%') {
        r->p++;
        r->m->print_style |= STYLE_PERCENT;
    }
    const char *name = r->p;
    size_t n = word_len(name);
    if (n == 0)
        return hlo_expected(r, "the name of an instruction");
    r->p += n;
    return find_name(r, name, n, out) || unknown_name(r, name, n, NULL);
}

static void define(struct hlo *r, name_id name, instr_id id)
{
    if (name.i >= r->ndefs) {
        uint32_t n = r->ndefs ? r->ndefs : 4096;
        while (n <= name.i)
            n += n / 2;
        uint32_t *v = ARENA_ARRAY(&r->tmp, uint32_t, n);
        if (r->ndefs)
            memcpy(v, r->defs, r->ndefs * sizeof *v);
        arena_give_back(&r->tmp, r->defs, r->ndefs, sizeof *v);
        r->defs = v;
        r->ndefs = n;
    }
    r->defs[name.i] = id.i;
    struct span at = instr_at(r->m, id)->at;
    uint32_t hash = word_hash(r->base + at.off, at.len);
    r->recent[hash & (RECENT - 1)] = (struct recent){ hash, at.off, r->comp.i, id.i };
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* `reduce-scatter-start`, `call-done`: an async instruction that names what it wraps. */
static enum op_kind async_sugar(const struct hlo *r, const char *p, size_t n)
{
    static const struct {
        const char *suffix;
        enum op_kind op;
    } forms[] = { { "-start", OP_ASYNC_START },
                  { "-update", OP_ASYNC_UPDATE },
                  { "-done", OP_ASYNC_DONE } };
    for (size_t i = 0; i < COUNTOF(forms); i++) {
        size_t k = strlen(forms[i].suffix);
        if (n > k && memcmp(p + n - k, forms[i].suffix, k) == 0 &&
            hlo_word_value(r->ops, OP_SLOTS, p, n - k))
            return forms[i].op;
    }
    return OP_NONE;
}

static bool unknown_opcode(struct hlo *r, const char *p, size_t n)
{
    if (p[n] == '\0') {
        r->p = p + n;
        return hlo_expected(r, "an opcode");
    }
    if (n == 1 && *p == 'b' && p[1] == '(')
        return FAIL(r, p, n, "buffers, like b(f32[8]), are not supported: they have no place before partitioning");
    FAIL(r, p, n, "no such opcode: '%.*s'", (int)min_i64((int64_t)n, 60), p);
    const char *near = op_nearest(p, n);
    if (near)
        diag_hint(r->d, "did you mean '%s'?", near);
    return false;
}

static bool read_opcode(struct hlo *r, struct instr *in)
{
    const char *p = r->p;
    size_t n = word_len(p);
    if (n == 0)
        return hlo_expected(r, "an opcode, like add");
    uint32_t op = hlo_word_value(r->ops, OP_SLOTS, p, n);
    if (!op) {
        op = async_sugar(r, p, n);
        if (!op)
            return unknown_opcode(r, p, n);
        struct attr a = { .key = ATTR_OPCODE_TEXT, .type = ATTR_TYPE_IDENT };
        a.name = name_put(r->c, p, n);
        vec_push(&r->tmp, &r->attrs, a);
    }
    in->op = (uint16_t)op;
    r->p += n;
    return hlo_want(r, '(', "'(' behind the opcode");
}

/* ---- operands -------------------------------------------------------------------------------- */

/* `x`, `%x`, `f32[8]{0} %x`, `(f32[2], s32[]) %t`. */
static bool read_operand(struct hlo *r, const char *defining, instr_id *out)
{
    const char *p = r->p, *typed = p;
    size_t n = word_len(p), ntyped = 0;
    shape_id shape = { 0 };
    if (*p == '(' || (n && p[n] == '[')) {
        if (!hlo_shape(r, &shape))
            return false;
        ntyped = (size_t)(r->p - typed);
        r->m->print_style |= STYLE_OPERAND_SHAPES;
        if (r->p[-1] == '}')
            r->m->text_features |= TEXT_OPERAND_LAYOUTS;
        skip(r);
        p = r->p;
        n = word_len(p);
    }
    if (*p == '%') {
        r->p = ++p;
        r->m->print_style |= STYLE_PERCENT;
        n = word_len(p);
    }
    if (n == 0)
        return hlo_expected(r, "the name of an operand");
    r->p += n;
    if (!find_name(r, p, n, out))
        return unknown_name(r, p, n, defining);
    shape_id is = instr_at(r->m, *out)->shape;
    if (!shape.i || !is.i || shape_same(r->c, shape, is))
        return true;
    struct str t = STR_IN(&r->tmp);
    shape_print(r->c, is, false, &t);
    return FAIL(r, typed, ntyped, "'%.*s' is a %s where it is defined, not a %.*s", (int)n, p, str_text(&t),
                (int)min_i64((int64_t)ntyped, 80), typed);
}

static bool read_operands(struct hlo *r, const char *defining)
{
    skip(r);
    if (*r->p == ')') {
        r->p++;
        return true;
    }
    bool plain_sixth = false;
    for (;;) {
        instr_id id = { 0 };
        if (!read_operand(r, defining, &id))
            return false;
        vec_push(&r->tmp, &r->operands, id);
        while (hlo_class[(unsigned char)*r->p] & CH_SPACE)
            r->p++;
        if (*r->p == ',') {
            r->p++;
            while (hlo_class[(unsigned char)*r->p] & CH_SPACE)
                r->p++;
            if (*r->p == '/')
                skip(r);
            else
                plain_sixth |= r->operands.n == 5;
            continue;
        }
        if (!hlo_want(r, ')', "',' or ')' behind an operand"))
            return false;
        if (plain_sixth)
            r->m->text_features |= TEXT_NO_OPERAND_INDEX;
        return true;
    }
}

static bool read_parameter(struct hlo *r)
{
    const char *at = r->p;
    int64_t k;
    if (!hlo_int(r, &k, "the parameter's number"))
        return false;
    if (k < 0)
        return FAIL(r, at, (size_t)(r->p - at), "a parameter's number cannot be negative");
    vec_push(&r->tmp, &r->attrs, attr_int(ATTR_INDEX, k));
    return hlo_want(r, ')', "')' behind the parameter's number");
}

static bool read_arguments(struct hlo *r, struct instr *in, const char *defining)
{
    if (in->op == OP_PARAMETER)
        return read_parameter(r);
    if (in->op == OP_CONSTANT)
        return hlo_literal(r, in->shape, &in->literal) &&
               hlo_want(r, ')', "')' behind the constant's value");
    return read_operands(r, defining);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool read_attrs(struct hlo *r, struct instr *in)
{
    for (;;) {
        skip(r);
        if (*r->p != ',')
            return true;
        const char *comma = r->p++;
        skip(r);
        if (*r->p == '}') {
            r->p = comma;
            return FAIL(r, comma, 1, "expected an attribute behind this ',', like dimensions={0}");
        }
        if (!hlo_attr(r, (enum op_kind)in->op))
            return false;
    }
}

/* The cursor is behind blanks and comments: whether a line end was among them, or nothing follows.
 */
static bool at_line_end(const struct hlo *r)
{
    if (r->p >= r->end || *r->p == '}')
        return true;
    const char *q = r->p;
    while (q > r->base && hlo_class[(unsigned char)q[-1]] & CH_SPACE)
        if (*--q == '\n')
            return true;
    return q > r->base && q[-1] == '/';
}

/* Attributes in the printer's order; hand-written text has them in any. pending refers to places.
 */
static void order_attrs(struct hlo *r, int64_t npending)
{
    struct attr *v = r->attrs.v;
    for (int64_t i = 1; i < r->attrs.n; i++) {
        int64_t k = i;
        for (; k > 0 && place_of((enum attr_key)v[k - 1].key) > place_of((enum attr_key)v[k].key);
             k--) {
            struct attr t = v[k];
            v[k] = v[k - 1];
            v[k - 1] = t;
        }
        for (int64_t p = npending; k < i && p < r->pending.n; p++) {
            uint32_t *at = &r->pending.v[p].attr;
            *at = *at == i ? (uint32_t)k : *at >= k && *at < i ? *at + 1 : *at;
        }
    }
}

/* On the same line: another definition, `b = f32[] ..` or `ROOT b = ..`. A known key with a `=` is
 * an attribute whose comma was forgotten. */
static bool at_definition(const struct hlo *r)
{
    const char *p = r->p;
    size_t n = word_len(p + (*p == '%'));
    if (same(p, n, "ROOT"))
        return true;
    const char *name = p + (*p == '%'), *q = name + n;
    while (hlo_class[(unsigned char)*q] & CH_SPACE)
        q++;
    return n && *q == '=' && !hlo_word_value(r->keys, KEY_SLOTS, name, n) &&
           !same(name, n, "sharding") && !same(name, n, "metadata") &&
           !same(name, n, "frontend_attributes");
}

static bool keep(struct hlo *r, struct instr *in)
{
    struct arena *a = &r->m->arena;
    in->noperands = (uint32_t)r->operands.n;
    if (r->operands.n)
        in->operands = arena_pack(a, r->operands.v, r->operands.n, sizeof *r->operands.v);
    if (r->attrs.n > UINT8_MAX)
        return FAIL(r, r->base + in->at.off, in->at.len, "more than %d attributes", UINT8_MAX);
    in->nattrs = (uint8_t)r->attrs.n;
    order_attrs(r, r->first_pending);
    if (r->pending.n > r->first_pending) /* will be written to */
        in->attrs = arena_copy(a, r->attrs.v, r->attrs.n, sizeof *r->attrs.v);
    else
        in->attrs = share_attrs(&r->share, r->attrs.v, r->attrs.n);
    in->metadata = r->found.metadata;
    in->metadata_len = r->found.metadata_len;
    in->frontend = r->found.frontend;
    in->frontend_len = r->found.frontend_len;
    return !r->found.sharding || hlo_take_sharding(r, in);
}

static bool check_operand_count(struct hlo *r, const struct instr *in, const char *op)
{
    int lo = op_min_operands((enum op_kind)in->op), hi = op_max_operands((enum op_kind)in->op);
    int64_t n = r->operands.n;
    if (n >= lo && (hi < 0 || n <= hi))
        return true;
    return FAIL(r, op, word_len(op), "%s takes %s%d operand%s, not %" PRId64,
                op_name((enum op_kind)in->op), hi < 0 ? "at least " : "", n < lo ? lo : hi,
                (n < lo ? lo : hi) == 1 ? "" : "s", n);
}

/* Text that leaves shapes out is taken where the operation tells the shape. */
static bool give_shape(struct hlo *r, struct instr *in, instr_id id, const char *op)
{
    shape_id shape = { 0 };
    int before = r->d ? r->d->nerrors : 0;
    if (!infer_shape(r->m, id, &shape, r->d)) {
        r->nerrors += r->d ? r->d->nerrors - before : 1;
        return false;
    }
    if (!shape.i)
        return FAIL(r, op, word_len(op), "expected a shape in front of '%.*s'", (int)word_len(op),
                    op);
    in->shape = shape;
    hlo_spread_sharding(r, in); /* it was read while the shape was not known yet */
    return true;
}

static bool read_right_side(struct hlo *r, struct instr *in, instr_id id, const char *name)
{
    skip(r);
    const char *p = r->p;
    bool shaped = *p == '(' || p[word_len(p)] != '(';
    if (shaped && !hlo_shape(r, &in->shape))
        return false;
    skip(r);
    const char *op = r->p;
    if (!read_opcode(r, in))
        return false;
    skip(r);
    if (!shaped && (in->op == OP_PARAMETER || in->op == OP_CONSTANT))
        return FAIL(r, op, word_len(op), "expected a shape in front of '%s'",
                    op_name((enum op_kind)in->op));
    if (!read_arguments(r, in, name) || !check_operand_count(r, in, op))
        return false;
    return read_attrs(r, in) && keep(r, in) && (shaped || give_shape(r, in, id, op));
}

static void one_root(struct hlo *r, const char *at, instr_id id)
{
    if (r->root_at) {
        int line, column;
        source_place(r->src, (uint32_t)(r->root_at - r->base), &line, &column);
        FAIL(r, at, 4, "a second ROOT: this computation already has one, on line %d", line);
        return;
    }
    r->root_at = at;
    r->root = id;
}

/* What stands in front of the `=`. */
struct left {
    const char *start, *name;
    size_t n;
    bool root;
};

static bool read_left_side(struct hlo *r, struct left *l)
{
    l->start = r->p;
    l->root = false;
    if (*r->p == 'R' && strncmp(r->p, "ROOT", 4) == 0 && !is_word(r->p[4])) {
        r->p += 4;
        skip(r);
        l->root = *r->p != '='; /* else it is a name */
        if (!l->root)
            r->p = l->start;
    }
    if (*r->p == '%') {
        r->p++;
        r->m->print_style |= STYLE_PERCENT;
    }
    l->name = r->p;
    l->n = word_len(l->name);
    if (l->n == 0)
        return hlo_expected(r, "an instruction, like `x = f32[8] add(a, b)`, or '}'");
    r->p += l->n;
    return hlo_want(r, '=', "'=' behind the instruction's name");
}

/* In a large text the table of names is larger than the processor's caches. The place for a new
 * name is fetched while the rest of its line is read; a guess that is wrong costs nothing but time.
 */
static void prefetch_name(const struct hlo *r, const char *name, size_t n)
{
    const struct intern *t = &r->c->names;
    if (t->cap)
        __builtin_prefetch(&t->slots[(int64_t)intern_hash(name, n) & (t->cap - 1)]);
}

/* Interns the name and defines it. */
static bool name_it(struct hlo *r, const struct left *l, struct instr *in, instr_id id)
{
    in->name = name_put(r->c, l->name, l->n);
    instr_id before = { in->name.i < r->ndefs ? r->defs[in->name.i] : 0 };
    define(r, in->name, id);
    if (!before.i || instr_at(r->m, before)->comp.i != r->comp.i)
        return true;
    int line, column;
    source_place(r->src, instr_at(r->m, before)->at.off, &line, &column);
    return FAIL(r, l->name, l->n, "'%.*s' is defined twice: already on line %d", (int)l->n, l->name,
                line);
}

bool hlo_instr(struct hlo *r)
{
    struct left l;
    if (!read_left_side(r, &l))
        return false;
    prefetch_name(r, l.name, l.n);
    instr_id id = { 0 };
    struct instr *in = instr_add(r->m, r->comp, &id);
    in->at = span_of(r, l.name, l.n);
    r->operands.n = r->attrs.n = 0;
    r->found.sharding = r->found.metadata = r->found.frontend = NULL;
    r->found.metadata_len = r->found.frontend_len = 0;
    r->first_pending = r->pending.n;
    bool ok = read_right_side(r, in, id, l.name);
    /* Named also when it is wrong, or every user would be reported too. */
    ok = name_it(r, &l, in, id) && ok;
    if (l.root) {
        in->flags |= INSTR_ROOT_MARK;
        one_root(r, l.start, id);
    }
    if (!ok) {
        r->pending.n = r->first_pending;
        return false;
    }
    for (int64_t k = r->first_pending; k < r->pending.n; k++)
        r->pending.v[k].instr = id;
    if (!at_line_end(r) && !at_definition(r))
        return hlo_expected(r, "',' before an attribute, or the end of the line");
    return true;
}
