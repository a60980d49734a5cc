/* Nodes of the program: making them, sharing the glue among them, copying computations, collectives
 * and device groups (S-37..S-70).
 *
 * Two nodes are never one just because they compute the same: the reshard cache (S-72) belongs to a
 * value, and XLA's counts of collectives follow from which values there are. Only *glue* - scalars
 * and masks computed from constants of ours and the partition id - is shared while building; what
 * else is equal is merged at the end (S-118).
 */
#include "partition/store.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"

const struct shape *node_shape(const struct spmd *s, instr_id n)
{
    return instr_shape(s->out, n);
}

/* ---- attributes as keys ------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t v)
{
    return hash_u64(h ^ (v + 0x9e3779b97f4a7c15ULL + (h << 6)));
}

static uint64_t mix_ints(uint64_t h, const int64_t *v, uint32_t n)
{
    return n ? mix(h, hash_bytes(v, n * sizeof *v, n)) : h;
}

uint64_t attr_hash(const struct attr *a)
{
    uint64_t h = mix((uint64_t)a->key << 8 | a->type, a->n);
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL:
        return mix(h, (uint64_t)a->i);
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING:
        return mix_ints(h, a->ints, a->n);
    case ATTR_TYPE_IDENT:
        return mix(h, a->name.i);
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW:
        return a->n ? mix(h, hash_bytes(a->text, a->n, 3)) : h;
    case ATTR_TYPE_COMP:
        return mix(h, a->comp.i);
    case ATTR_TYPE_NONE:
    case ATTR_TYPE_COMPS:
    case ATTR_TYPE_WINDOW:
    case ATTR_TYPE_CONV:
    case ATTR_TYPE_GROUPS:
    case ATTR_TYPE_PAIRS:
    case ATTR_TYPE_INSTRS:
    case ATTR_TYPE_FLOAT:
        return h;
    }
    return h;
}

static bool window_same(const struct window *a, const struct window *b)
{
    if (a == b)
        return true;
    if (a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++) {
        const struct window_dim *x = &a->dims[d], *y = &b->dims[d];
        if (x->size != y->size || x->stride != y->stride || x->pad_low != y->pad_low ||
            x->pad_high != y->pad_high || x->base_dilation != y->base_dilation ||
            x->window_dilation != y->window_dilation || x->reversal != y->reversal)
            return false;
    }
    return true;
}

static bool ints_same(const int *a, const int *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static bool conv_same(const struct conv_dims *a, const struct conv_dims *b)
{
    int n = a->nspatial;
    return a == b ||
           (n == b->nspatial && a->lhs_batch == b->lhs_batch && a->lhs_feature == b->lhs_feature &&
            a->rhs_in == b->rhs_in && a->rhs_out == b->rhs_out && a->out_batch == b->out_batch &&
            a->out_feature == b->out_feature && ints_same(a->lhs_spatial, b->lhs_spatial, n) &&
            ints_same(a->rhs_spatial, b->rhs_spatial, n) &&
            ints_same(a->out_spatial, b->out_spatial, n));
}

bool attr_same(const struct attr *a, const struct attr *b)
{
    if (a->key != b->key || a->type != b->type || a->n != b->n)
        return false;
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_NONE:
        return true;
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL:
        return a->i == b->i;
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING:
        return a->ints == b->ints || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case ATTR_TYPE_IDENT:
        return a->name.i == b->name.i;
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW:
        return a->text == b->text || memcmp(a->text, b->text, a->n) == 0;
    case ATTR_TYPE_COMP:
        return a->comp.i == b->comp.i;
    case ATTR_TYPE_COMPS:
        return memcmp(a->comps, b->comps, a->n * sizeof *a->comps) == 0;
    case ATTR_TYPE_WINDOW:
        return window_same(a->window, b->window);
    case ATTR_TYPE_CONV:
        return conv_same(a->conv, b->conv);
    case ATTR_TYPE_GROUPS:
        return a->groups == b->groups; /* collectives are never merged: one object each */
    case ATTR_TYPE_PAIRS:
        return a->pairs == b->pairs;
    case ATTR_TYPE_INSTRS:
        return memcmp(a->instrs, b->instrs, a->n * sizeof *a->instrs) == 0;
    case ATTR_TYPE_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    }
    return false;
}

/* ---- what is known of a node -------------------------------------------------------------------- */

static struct node_info *info_of(struct spmd *s, instr_id n)
{
    while (s->info.n <= (int64_t)n.i)
        vec_push(&s->arena, &s->info, (struct node_info){ 0 });
    return &s->info.v[n.i];
}

static void record(struct spmd *s, instr_id n, bool glue)
{
    struct node_info *x = info_of(s, n);
    x->note.source = s->serving;
    x->note.reason = s->reason;
    x->note.from = s->note_from;
    x->note.to = s->note_to;
    x->glue = glue;
}

static bool is_glue(const struct spmd *s, instr_id n)
{
    return (int64_t)n.i < s->info.n && s->info.v[n.i].glue;
}

static uint64_t equal_dims(const struct spmd *s, instr_id n)
{
    uint64_t b = 0;
    return map_get(&s->known_equal, n.i, &b) ? b : 0;
}

static uint64_t all_dims(int rank)
{
    return rank >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << rank) - 1;
}

static uint64_t equal_after_reshape(const struct shape *from, const struct shape *to, uint64_t b)
{
    uint64_t out = 0;
    int i = 0, j = 0;
    while (i < from->rank && j < to->rank) {
        int64_t x = from->dims[i], y = to->dims[j];
        int i0 = i, j0 = j;
        i++, j++;
        while (x != y) {
            /* An exact split or merge only: one side grows until the other is met. */
            if (x < y && i < from->rank && j - j0 == 1)
                x *= from->dims[i++];
            else if (y < x && j < to->rank && i - i0 == 1)
                y *= to->dims[j++];
            else
                return out;
            if (x <= 0 || y <= 0)
                return out;
        }
        bool all = true;
        for (int k = i0; k < i; k++)
            all = all && (b >> k & 1);
        for (int k = j0; all && k < j; k++)
            out |= (uint64_t)1 << k;
    }
    return i == from->rank && j == to->rank ? out : 0;
}

/* S-53 */
static void note_equal_dims(struct spmd *s, instr_id n)
{
    const struct instr *in = instr_at(s->out, n);
    const struct shape *sh = shape_get(s->ir, in->shape);
    if (sh->kind != SHAPE_ARRAY || sh->rank == 0 || in->noperands == 0)
        return;
    uint64_t b = 0;
    enum op_kind op = (enum op_kind)in->op;
    if (op == OP_BROADCAST) {
        int k;
        const int64_t *map = instr_ints(in, ATTR_DIMENSIONS, &k);
        b = all_dims(sh->rank);
        for (int i = 0; i < k; i++)
            b &= ~((uint64_t)1 << map[i]);
    } else if (instr_is_elementwise(s->out, n)) {
        b = all_dims(sh->rank);
        for (uint32_t i = 0; i < in->noperands; i++)
            b &= equal_dims(s, in->operands[i]);
    } else if (op == OP_TRANSPOSE) {
        uint64_t from = equal_dims(s, in->operands[0]);
        int k;
        const int64_t *perm = instr_ints(in, ATTR_DIMENSIONS, &k);
        for (int i = 0; i < k; i++)
            b |= (from >> perm[i] & 1) << i;
    } else if (op == OP_RESHAPE) {
        b = equal_after_reshape(node_shape(s, in->operands[0]), sh,
                                equal_dims(s, in->operands[0]));
    } else if (op == OP_SLICE || op == OP_DYNAMIC_SLICE) {
        b = equal_dims(s, in->operands[0]);
    } else if (op == OP_PAD) {
        int k;
        const int64_t *p = instr_ints(in, ATTR_PADDING, &k);
        b = equal_dims(s, in->operands[0]);
        for (int i = 0; i < k / 3; i++)
            if (p[3 * i] || p[3 * i + 1] || p[3 * i + 2])
                b &= ~((uint64_t)1 << i);
    }
    if (b)
        map_put(&s->known_equal, n.i, b);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static bool same_node(const struct spmd *s, instr_id n, enum op_kind op, shape_id shape,
                      int64_t nop, const instr_id *ops, int nattrs, const struct attr *attrs,
                      const struct literal *lit)
{
    const struct instr *in = instr_at(s->out, n);
    if (in->comp.i != s->comp.i || in->op != op || in->shape.i != shape.i ||
        in->noperands != (uint32_t)nop || in->nattrs != nattrs || !in->literal != !lit)
        return false;
    for (int64_t i = 0; i < nop; i++)
        if (in->operands[i].i != ops[i].i)
            return false;
    for (int i = 0; i < nattrs; i++)
        if (!attr_same(&in->attrs[i], &attrs[i]))
            return false;
    return !lit || memcmp(in->literal->data, lit->data,
                          (size_t)dtype_bytes(shape_get(s->ir, shape)->dtype)) == 0;
}

static bool glue_op(enum op_kind op)
{
    return op == OP_IOTA || op == OP_PARTITION_ID || op == OP_BROADCAST || op == OP_COMPARE ||
           op == OP_CONVERT || op == OP_SELECT || op == OP_RESHAPE || op == OP_DYNAMIC_SLICE ||
           op_is_elementwise_binary(op);
}

static instr_id make(struct spmd *s, enum op_kind op, shape_id shape, int64_t nop,
                     const instr_id *ops, int nattrs, const struct attr *attrs,
                     const struct literal *lit, bool share)
{
    shape = shape_strip(s->ir, shape);
    bool glue = share && (glue_op(op) || lit);
    for (int64_t i = 0; i < nop && glue; i++)
        glue = is_glue(s, ops[i]);
    uint64_t key = 0, found;
    if (glue) {
        key = mix(mix((uint64_t)op << 32 | s->comp.i, shape.i), (uint64_t)nop);
        for (int64_t i = 0; i < nop; i++)
            key = mix(key, ops[i].i);
        for (int i = 0; i < nattrs; i++)
            key = mix(key, attr_hash(&attrs[i]));
        if (lit)
            key = mix(key, hash_bytes(lit->data,
                                      (size_t)dtype_bytes(shape_get(s->ir, shape)->dtype), 5));
        for (; map_get(&s->nodes, key, &found); key++)
            if (same_node(s, (instr_id){ (uint32_t)found }, op, shape, nop, ops, nattrs, attrs, lit))
                return (instr_id){ (uint32_t)found };
    }
    instr_id n = instr_new(s->out, s->comp, op, shape, nop, ops, nattrs, attrs);
    instr_at(s->out, n)->literal = lit;
    record(s, n, glue);
    if (glue)
        map_put(&s->nodes, key, n.i);
    note_equal_dims(s, n);
    return n;
}

instr_id emit(struct spmd *s, enum op_kind op, shape_id shape, int64_t nop, const instr_id *ops,
              int nattrs, const struct attr *attrs)
{
    return make(s, op, shape, nop, ops, nattrs, attrs, NULL, true);
}

instr_id emit1(struct spmd *s, enum op_kind op, shape_id shape, instr_id a)
{
    return emit(s, op, shape, 1, &a, 0, NULL);
}

instr_id emit2(struct spmd *s, enum op_kind op, shape_id shape, instr_id a, instr_id b)
{
    instr_id ops[] = { a, b };
    return emit(s, op, shape, 2, ops, 0, NULL);
}

instr_id emit3(struct spmd *s, enum op_kind op, shape_id shape, instr_id a, instr_id b, instr_id c)
{
    instr_id ops[] = { a, b, c };
    return emit(s, op, shape, 3, ops, 0, NULL);
}

instr_id emit_copy(struct spmd *s, instr_id x)
{
    return make(s, OP_COPY, instr_at(s->out, x)->shape, 1, &x, 0, NULL, NULL, false);
}

instr_id emit_parameter(struct spmd *s, int64_t number, shape_id shape)
{
    struct attr a = attr_int(ATTR_INDEX, number);
    return make(s, OP_PARAMETER, shape, 0, NULL, 1, &a, NULL, false);
}

instr_id emit_tuple(struct spmd *s, int64_t n, const instr_id *xs)
{
    shape_id *shapes = ARENA_ARRAY(&s->arena, shape_id, n);
    for (int64_t i = 0; i < n; i++)
        shapes[i] = instr_at(s->out, xs[i])->shape;
    return make(s, OP_TUPLE, shape_tuple(s->ir, n, shapes), n, xs, 0, NULL, NULL, false);
}

instr_id emit_gte(struct spmd *s, instr_id tuple, int64_t index)
{
    const struct shape *t = node_shape(s, tuple);
    INVARIANT(t->kind == SHAPE_TUPLE && index < t->nelems, "element %" PRId64 " of a tuple", index);
    struct attr a = attr_int(ATTR_INDEX, index);
    return make(s, OP_GET_TUPLE_ELEMENT, t->elems[index], 1, &tuple, 1, &a, NULL, false);
}

instr_id emit_while(struct spmd *s, instr_id init, comp_id condition, comp_id body)
{
    struct attr a[] = { attr_comp(ATTR_CONDITION, condition), attr_comp(ATTR_BODY, body) };
    return make(s, OP_WHILE, instr_at(s->out, init)->shape, 1, &init, 2, a, NULL, false);
}

instr_id emit_conditional(struct spmd *s, instr_id index, int64_t n, const comp_id *branches,
                          const instr_id *args)
{
    shape_id shape = instr_at(s->out, comp_at(s->out, branches[0])->root)->shape;
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, n + 1);
    ops[0] = index;
    for (int64_t i = 0; i < n; i++)
        ops[i + 1] = args[i];
    if (node_shape(s, index)->dtype == DTYPE_PRED && n == 2) {
        struct attr a[] = { attr_comp(ATTR_TRUE_COMPUTATION, branches[0]),
                            attr_comp(ATTR_FALSE_COMPUTATION, branches[1]) };
        return make(s, OP_CONDITIONAL, shape, n + 1, ops, 2, a, NULL, false);
    }
    struct attr a = { .key = ATTR_BRANCH_COMPUTATIONS,
                      .type = ATTR_TYPE_COMPS,
                      .n = (uint32_t)n,
                      .comps = arena_copy(&s->out->arena, branches, n, sizeof *branches) };
    return make(s, OP_CONDITIONAL, shape, n + 1, ops, 1, &a, NULL, false);
}

/* ---- copies of the source ------------------------------------------------------------------------ */

/* Attributes of a source instruction with its computations replaced by copies in out. */
static int clone_attrs(struct spmd *s, const struct instr *in, struct attr *out)
{
    int n = 0;
    for (int i = 0; i < in->nattrs; i++) {
        struct attr a = in->attrs[i];
        if (a.type == ATTR_TYPE_INSTRS)
            continue; /* control edges: order is data flow here */
        if (a.type == ATTR_TYPE_COMP) {
            a.comp = copy_computation(s, a.comp);
        } else if (a.type == ATTR_TYPE_COMPS) {
            comp_id *list = ARENA_ARRAY(&s->out->arena, comp_id, a.n);
            for (uint32_t k = 0; k < a.n; k++)
                list[k] = copy_computation(s, a.comps[k]);
            a.comps = list;
        }
        out[n++] = a;
    }
    return n;
}

static void clone_extras(struct instr *to, const struct instr *from)
{
    to->literal = from->literal;
    to->metadata = from->metadata;
    to->metadata_len = from->metadata_len;
    to->frontend = from->frontend;
    to->frontend_len = from->frontend_len;
}

instr_id emit_clone(struct spmd *s, instr_id source, shape_id shape, int64_t nop,
                    const instr_id *ops)
{
    const struct instr *in = instr_at(s->src, source);
    struct attr attrs[256];
    int nattrs = clone_attrs(s, in, attrs);
    instr_id n = make(s, (enum op_kind)in->op, shape, nop, ops, nattrs, attrs, NULL, false);
    clone_extras(instr_at(s->out, n), in);
    return n;
}

/* Computations that all share serve nobody in particular: not whoever asked first. */
struct asker {
    comp_id comp;
    instr_id serving;
    const char *reason;
    sharding_id from, to;
};

static struct asker leave_asker(struct spmd *s, comp_id inside)
{
    struct asker a = { s->comp, s->serving, s->reason, s->note_from, s->note_to };
    s->comp = inside;
    s->serving = (instr_id){ 0 };
    s->reason = NULL;
    s->note_from = s->note_to = (sharding_id){ 0 };
    return a;
}

static void back_to_asker(struct spmd *s, const struct asker *a)
{
    s->comp = a->comp;
    s->serving = a->serving;
    s->reason = a->reason;
    s->note_from = a->from;
    s->note_to = a->to;
}

/* Copies one computation whose callees are copied already. */
static comp_id copy_one(struct spmd *s, comp_id source)
{
    const struct computation *c = comp_at(s->src, source);
    comp_id out = comp_new(s->out, c->name);
    map_put(&s->copied, source.i, out.i);
    store_shared(s, out, source, OP_NONE, DTYPE_NONE);
    struct asker asker = leave_asker(s, out);
    struct map ids;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    map_init(&ids, &tmp);
    uint32_t n;
    const instr_id *order = store_post_order(s, source, &n);
    for (uint32_t i = 0; i < c->nparams; i++) {
        const struct instr *in = instr_at(s->src, c->params[i]);
        instr_id p = emit_parameter(s, i, in->shape);
        instr_at(s->out, p)->name = in->name;
        map_put(&ids, c->params[i].i, p.i);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct instr *in = instr_at(s->src, order[i]);
        uint64_t id;
        if (in->op == OP_PARAMETER && map_get(&ids, order[i].i, &id))
            continue;
        instr_id *ops = ARENA_ARRAY(&tmp, instr_id, in->noperands);
        for (uint32_t k = 0; k < in->noperands; k++)
            ops[k].i = map_get(&ids, in->operands[k].i, &id) ? (uint32_t)id : 0;
        map_put(&ids, order[i].i, emit_clone(s, order[i], in->shape, in->noperands, ops).i);
    }
    uint64_t root = 0;
    (void)map_get(&ids, c->root.i, &root);
    comp_finish(s->out, out, (instr_id){ (uint32_t)root });
    arena_close(&tmp);
    back_to_asker(s, &asker);
    return out;
}

/* Callees first, with a stack of our own: the depth of calls is the input's. */
comp_id copy_computation(struct spmd *s, comp_id source)
{
    uint64_t done;
    if (map_get(&s->copied, source.i, &done))
        return (comp_id){ (uint32_t)done };
    VEC(comp_id) stack = { 0 };
    vec_push(&s->arena, &stack, source);
    while (stack.n) {
        comp_id c = stack.v[stack.n - 1];
        if (map_get(&s->copied, c.i, &done)) {
            stack.n--;
            continue;
        }
        int64_t before = stack.n;
        const struct computation *comp = comp_at(s->src, c);
        for (uint32_t i = 0; i < comp->ninstrs; i++) {
            comp_id called[64];
            int n = instr_called(s->src, comp->instrs[i], called, 64);
            for (int k = 0; k < n && k < 64; k++)
                if (!map_get(&s->copied, called[k].i, &done))
                    vec_push(&s->arena, &stack, called[k]);
        }
        if (stack.n == before) {
            stack.n--;
            copy_one(s, c);
        }
    }
    (void)map_get(&s->copied, source.i, &done);
    return (comp_id){ (uint32_t)done };
}

comp_id binary_computation(struct spmd *s, enum op_kind op, enum dtype t)
{
    uint64_t key = (uint64_t)op << 32 | (uint64_t)t, found;
    if (map_get(&s->reducers, key, &found))
        return (comp_id){ (uint32_t)found };
    char name[64];
    const char *word = op_name(op);
    size_t n = strlen(word);
    memcpy(name, word, n < 60 ? n : 60);
    comp_id c = comp_new(s->out, name_put(s->ir, name, n < 60 ? n : 60));
    struct asker asker = leave_asker(s, c);
    shape_id scalar = shape_array(s->ir, t, 0, NULL);
    instr_id x = emit_parameter(s, 0, scalar), y = emit_parameter(s, 1, scalar);
    comp_finish(s->out, c, emit2(s, op, scalar, x, y));
    back_to_asker(s, &asker);
    map_put(&s->reducers, key, c.i);
    store_shared(s, c, (comp_id){ 0 }, op, t);
    return c;
}

/* ---- constants ----------------------------------------------------------------------------------- */

static instr_id constant(struct spmd *s, const struct literal *l, bool share)
{
    return make(s, OP_CONSTANT, l->shape, 0, NULL, 0, NULL, l, share);
}

instr_id emit_const_i(struct spmd *s, enum dtype t, int64_t v)
{
    return constant(s, literal_scalar_i(s->out, t, v), true);
}

instr_id emit_const_f(struct spmd *s, enum dtype t, double v)
{
    return constant(s, literal_scalar_f(s->out, t, v), true);
}

instr_id emit_zero(struct spmd *s, enum dtype t)
{
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX)
        return emit_const_f(s, t, 0);
    return emit_const_i(s, t, 0);
}

/* Lowest or highest value of an integer type. */
static int64_t extreme(enum dtype t, bool highest)
{
    int bits = dtype_bits(t);
    enum dtype_kind k = dtype_kind(t);
    if (k == DTYPE_KIND_PRED)
        return highest;
    if (k == DTYPE_KIND_UNSIGNED)
        return !highest ? 0 : bits >= 64 ? -1 : ((int64_t)1 << bits) - 1;
    if (bits >= 64)
        return highest ? INT64_MAX : INT64_MIN;
    int64_t half = (int64_t)1 << (bits - 1);
    return highest ? half - 1 : -half;
}

bool emit_identity(struct spmd *s, enum op_kind op, enum dtype t, instr_id *out)
{
    enum dtype_kind k = dtype_kind(t);
    bool inexact = k == DTYPE_KIND_FLOAT || k == DTYPE_KIND_COMPLEX;
    if (op == OP_ADD || op == OP_OR || op == OP_XOR)
        *out = emit_zero(s, t);
    else if (op == OP_MULTIPLY)
        *out = inexact ? emit_const_f(s, t, 1) : emit_const_i(s, t, 1);
    else if (op == OP_AND && !inexact)
        *out = emit_const_i(s, t, k == DTYPE_KIND_SIGNED ? -1 : extreme(t, true));
    else if ((op == OP_MAXIMUM || op == OP_MINIMUM) && k == DTYPE_KIND_FLOAT)
        *out = emit_const_f(s, t, op == OP_MAXIMUM ? -HUGE_VAL : HUGE_VAL);
    else if ((op == OP_MAXIMUM || op == OP_MINIMUM) && !inexact)
        *out = emit_const_i(s, t, extreme(t, op == OP_MINIMUM));
    else
        return false;
    return true;
}

instr_id emit_literal(struct spmd *s, const struct literal *l)
{
    return constant(s, l, false);
}

instr_id emit_table(struct spmd *s, int64_t n, const int64_t *values, instr_id index)
{
    int32_t *v = ARENA_ARRAY(&s->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)values[i];
    const struct literal *l = literal_new(s->out, shape_array(s->ir, DTYPE_S32, 1, &n), v);
    int64_t one = 1;
    instr_id at = emit_convert(s, index, DTYPE_S32);
    instr_id x = emit_dynamic_slice(s, constant(s, l, false), &at, &one);
    return emit_reshape(s, x, 0, NULL);
}

/* ---- ordinary nodes ------------------------------------------------------------------------------- */

static shape_id array_like(struct spmd *s, instr_id x, int rank, const int64_t *dims)
{
    return shape_array(s->ir, node_shape(s, x)->dtype, rank, dims);
}

instr_id emit_broadcast_scalar(struct spmd *s, instr_id scalar, int rank, const int64_t *dims)
{
    return emit_broadcast(s, scalar, rank, dims, NULL);
}

instr_id emit_broadcast(struct spmd *s, instr_id x, int rank, const int64_t *dims, const int *map)
{
    int64_t where[RANK_ROOM] = { 0 };
    int n = node_shape(s, x)->rank;
    if (n == rank && rank == 0)
        return x;
    INVARIANT(n <= RANK_ROOM, "broadcast of rank %d", n);
    for (int i = 0; i < n; i++)
        where[i] = map[i];
    struct attr a = attr_ints(s->out, ATTR_DIMENSIONS, n, where);
    return emit(s, OP_BROADCAST, array_like(s, x, rank, dims), 1, &x, 1, &a);
}

static bool dims_equal(const struct shape *x, int rank, const int64_t *dims)
{
    if (x->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (x->dims[i] != dims[i])
            return false;
    return true;
}

instr_id emit_reshape(struct spmd *s, instr_id x, int rank, const int64_t *dims)
{
    if (dims_equal(node_shape(s, x), rank, dims))
        return x;
    return emit1(s, OP_RESHAPE, array_like(s, x, rank, dims), x);
}

instr_id emit_transpose(struct spmd *s, instr_id x, const int *perm)
{
    const struct shape *sh = node_shape(s, x);
    int64_t dims[RANK_ROOM], p[RANK_ROOM];
    bool moved = false;
    INVARIANT(sh->rank <= RANK_ROOM, "transpose of rank %d", sh->rank);
    for (int i = 0; i < sh->rank; i++) {
        dims[i] = sh->dims[perm[i]];
        p[i] = perm[i];
        moved = moved || perm[i] != i;
    }
    if (!moved)
        return x;
    struct attr a = attr_ints(s->out, ATTR_DIMENSIONS, sh->rank, p);
    return emit(s, OP_TRANSPOSE, array_like(s, x, sh->rank, dims), 1, &x, 1, &a);
}

instr_id emit_slice(struct spmd *s, instr_id x, const int64_t *start, const int64_t *limit,
                    const int64_t *stride)
{
    const struct shape *sh = node_shape(s, x);
    int64_t dims[RANK_ROOM], spec[3 * RANK_ROOM];
    bool cut = false;
    INVARIANT(sh->rank <= RANK_ROOM, "slice of rank %d", sh->rank);
    for (int i = 0; i < sh->rank; i++) {
        int64_t st = stride ? stride[i] : 1;
        INVARIANT(start[i] >= 0 && start[i] <= limit[i] && limit[i] <= sh->dims[i] && st > 0,
                  "slice [%" PRId64 ":%" PRId64 "] of %" PRId64, start[i], limit[i], sh->dims[i]);
        spec[3 * i] = start[i];
        spec[3 * i + 1] = limit[i];
        spec[3 * i + 2] = st;
        dims[i] = ceil_div(limit[i] - start[i], st);
        cut = cut || start[i] != 0 || dims[i] != sh->dims[i];
    }
    if (!cut)
        return x;
    struct attr a = { .key = ATTR_SLICE,
                      .type = ATTR_TYPE_SLICE,
                      .n = (uint32_t)(3 * sh->rank),
                      .ints = arena_copy(&s->out->arena, spec, 3 * sh->rank, sizeof *spec) };
    return emit(s, OP_SLICE, array_like(s, x, sh->rank, dims), 1, &x, 1, &a);
}

instr_id emit_pad(struct spmd *s, instr_id x, instr_id value, const int64_t *low,
                  const int64_t *high, const int64_t *interior)
{
    const struct shape *sh = node_shape(s, x);
    int64_t dims[RANK_ROOM], spec[3 * RANK_ROOM];
    bool any = false;
    INVARIANT(sh->rank <= RANK_ROOM, "pad of rank %d", sh->rank);
    for (int i = 0; i < sh->rank; i++) {
        int64_t in = interior ? interior[i] : 0;
        spec[3 * i] = low[i];
        spec[3 * i + 1] = high[i];
        spec[3 * i + 2] = in;
        dims[i] = sh->dims[i] + low[i] + high[i] + (sh->dims[i] > 0 ? (sh->dims[i] - 1) * in : 0);
        INVARIANT(dims[i] >= 0, "pad to %" PRId64 " elements", dims[i]);
        any = any || low[i] || high[i] || in;
    }
    if (!any)
        return x;
    struct attr a = { .key = ATTR_PADDING,
                      .type = ATTR_TYPE_PADDING,
                      .n = (uint32_t)(3 * sh->rank),
                      .ints = arena_copy(&s->out->arena, spec, 3 * sh->rank, sizeof *spec) };
    instr_id ops[] = { x, value };
    return emit(s, OP_PAD, array_like(s, x, sh->rank, dims), 2, ops, 1, &a);
}

instr_id emit_dynamic_slice(struct spmd *s, instr_id x, const instr_id *starts,
                            const int64_t *sizes)
{
    const struct shape *sh = node_shape(s, x);
    if (dims_equal(sh, sh->rank, sizes))
        return x; /* any start is clamped to 0 */
    instr_id ops[RANK_ROOM + 1];
    INVARIANT(sh->rank <= RANK_ROOM, "dynamic-slice of rank %d", sh->rank);
    ops[0] = bounded_piece(s, x);
    for (int i = 0; i < sh->rank; i++) {
        INVARIANT(sizes[i] <= sh->dims[i], "dynamic-slice of %" PRId64 " in %" PRId64, sizes[i],
                  sh->dims[i]);
        ops[i + 1] = starts[i].i ? starts[i] : emit_const_i(s, DTYPE_S32, 0);
    }
    struct attr a = attr_ints(s->out, ATTR_DYNAMIC_SLICE_SIZES, sh->rank, sizes);
    return emit(s, OP_DYNAMIC_SLICE, array_like(s, x, sh->rank, sizes), sh->rank + 1, ops, 1, &a);
}

instr_id emit_dus(struct spmd *s, instr_id x, instr_id update, const instr_id *starts)
{
    const struct shape *sh = node_shape(s, x);
    instr_id ops[RANK_ROOM + 2];
    INVARIANT(sh->rank <= RANK_ROOM, "dynamic-update-slice of rank %d", sh->rank);
    ops[0] = x;
    ops[1] = update;
    for (int i = 0; i < sh->rank; i++)
        ops[i + 2] = starts[i].i ? starts[i] : emit_const_i(s, DTYPE_S32, 0);
    return emit(s, OP_DYNAMIC_UPDATE_SLICE, instr_at(s->out, x)->shape, sh->rank + 2, ops, 0, NULL);
}

instr_id emit_concat(struct spmd *s, int64_t n, const instr_id *xs, int dim)
{
    if (n == 1)
        return xs[0];
    const struct shape *sh = node_shape(s, xs[0]);
    int64_t dims[RANK_ROOM], d = dim;
    memcpy(dims, sh->dims, (size_t)sh->rank * sizeof *dims);
    for (int64_t i = 1; i < n; i++)
        dims[dim] += node_shape(s, xs[i])->dims[dim];
    struct attr a = attr_ints(s->out, ATTR_DIMENSIONS, 1, &d);
    return emit(s, OP_CONCATENATE, array_like(s, xs[0], sh->rank, dims), n, xs, 1, &a);
}

instr_id emit_iota(struct spmd *s, enum dtype t, int rank, const int64_t *dims, int dim)
{
    struct attr a = attr_int(ATTR_IOTA_DIMENSION, dim);
    return emit(s, OP_IOTA, shape_array(s->ir, t, rank, dims), 0, NULL, 1, &a);
}

instr_id emit_select(struct spmd *s, instr_id pred, instr_id a, instr_id b)
{
    const struct shape *sh = node_shape(s, a);
    if (node_shape(s, pred)->rank == 0 && sh->rank > 0)
        pred = emit_broadcast_scalar(s, pred, sh->rank, sh->dims);
    return emit3(s, OP_SELECT, instr_at(s->out, a)->shape, pred, a, b);
}

instr_id emit_compare(struct spmd *s, const char *direction, instr_id a, instr_id b)
{
    shape_id shape = shape_with_dtype(s->ir, instr_at(s->out, a)->shape, DTYPE_PRED);
    struct attr at = attr_ident(s->out, ATTR_DIRECTION, direction);
    instr_id ops[] = { a, b };
    return emit(s, OP_COMPARE, shape, 2, ops, 1, &at);
}

instr_id emit_arith(struct spmd *s, enum op_kind op, instr_id a, instr_id b)
{
    return emit2(s, op, instr_at(s->out, a)->shape, a, b);
}

instr_id emit_convert(struct spmd *s, instr_id x, enum dtype t)
{
    if (node_shape(s, x)->dtype == t)
        return x;
    return emit1(s, OP_CONVERT, shape_with_dtype(s->ir, instr_at(s->out, x)->shape, t), x);
}
