/* Kernels: which operations are computed inside their users, what each kernel reads and does, and how
 * often every computation runs in one step. */
#include "cost/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* ---- sizes -------------------------------------------------------------------------------------- */

int64_t leaf_bytes(const struct module *m, shape_id shape, int64_t leaf, bool widen)
{
    const struct shape *s = shape_get(m->ir, shape_leaf(m->ir, shape, leaf));
    if (s->kind != SHAPE_ARRAY || s->bytes < 0)
        return 0;
    if (widen && (s->dtype == DTYPE_BF16 || s->dtype == DTYPE_F16))
        return 2 * s->bytes;
    return s->bytes;
}

int64_t value_bytes(const struct module *m, shape_id shape, bool widen)
{
    const struct shape *s = shape_get(m->ir, shape);
    if (!widen && s->kind == SHAPE_ARRAY)
        return max_i64(s->bytes, 0);
    int64_t sum = 0;
    for (int64_t k = 0; k < s->nleaves; k++)
        if (!add_ok(sum, leaf_bytes(m, shape, k, widen), &sum))
            return INT64_MAX;
    return sum;
}

/* ---- what can be computed inside its users ---------------------------------------------------------- */

/* A transpose that only moves dimensions of size 1 moves no element. */
static bool moves_nothing(const struct module *m, const struct instr *in)
{
    int n;
    const int64_t *perm = instr_ints(in, ATTR_DIMENSIONS, &n);
    const struct shape *from = shape_get(m->ir, instr_at(m, in->operands[0])->shape);
    int64_t last = -1;
    for (int k = 0; k < n && k < from->rank; k++) {
        if (from->dims[perm[k]] == 1)
            continue;
        if (perm[k] < last)
            return false;
        last = perm[k];
    }
    return true;
}

/* To the precision that the type has anyway (JAX marks saved residuals so): no arithmetic is left of it. */
static bool rounds_nothing(const struct module *m, const struct instr *in)
{
    const struct shape *s = shape_get(m->ir, in->shape);
    int64_t e = instr_int(in, ATTR_EXPONENT_BITS, 0), b = instr_int(in, ATTR_MANTISSA_BITS, 0);
    return s->kind == SHAPE_ARRAY && ((s->dtype == DTYPE_BF16 && e >= 8 && b >= 7) || (s->dtype == DTYPE_F16 && e >= 5 && b >= 10) ||
                                      (s->dtype == DTYPE_F32 && e >= 8 && b >= 23));
}

bool op_forwards(const struct module *m, const struct instr *in)
{
    switch ((int)in->op) {
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_BITCAST:
    case OP_RESHAPE:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY:
        return true;
    case OP_REDUCE_PRECISION:
        return !m->is_scheduled && rounds_nothing(m, in);
    case OP_TRANSPOSE:
        return !m->is_scheduled && moves_nothing(m, in);
    case OP_COPY:
        return !m->is_scheduled; /* in a finished dump a copy is one; before, it only holds a sharding */
    default:
        return false;
    }
}

bool op_is_reshape(const struct module *m, const struct instr *in)
{
    return in->op == OP_RESHAPE || in->op == OP_BITCAST ||
           ((in->op == OP_COPY || in->op == OP_TRANSPOSE || in->op == OP_REDUCE_PRECISION) && op_forwards(m, in));
}

/* Maps or moves elements: can be computed at the place where its elements are used. */
bool op_is_loop(const struct module *m, const struct instr *in)
{
    enum op_kind op = (enum op_kind)in->op;
    if (op_is_elementwise_unary(op) || op_is_elementwise_binary(op))
        return op != OP_COPY || op_forwards(m, in);
    switch ((int)op) {
    case OP_SELECT:
    case OP_CLAMP:
    case OP_COMPARE:
    case OP_COMPLEX:
    case OP_CONVERT:
    case OP_BITCAST_CONVERT:
    case OP_BITCAST:
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_IOTA:
    case OP_CONCATENATE:
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_GATHER:
    case OP_PAD:
    case OP_REDUCE:
    case OP_REVERSE:
    case OP_SLICE:
    case OP_TRANSPOSE:
    case OP_MAP:
        return shape_get(m->ir, in->shape)->kind == SHAPE_ARRAY;
    default:
        return false;
    }
}

/* Too dear to compute twice. */
bool op_is_dear(const struct instr *in)
{
    switch ((int)in->op) {
    case OP_DIVIDE:
    case OP_REMAINDER:
    case OP_REDUCE:
    case OP_MAP:
    case OP_ACOS:
    case OP_ACOSH:
    case OP_ASIN:
    case OP_ASINH:
    case OP_ATANH:
    case OP_COSH:
    case OP_SINH:
    case OP_CBRT:
    case OP_COSINE:
    case OP_ERF:
    case OP_EXP:
    case OP_EXPM1:
    case OP_LOG:
    case OP_LOG1P:
    case OP_LOGISTIC:
    case OP_RSQRT:
    case OP_SINE:
    case OP_SQRT:
    case OP_TAN:
    case OP_TANH:
    case OP_ATAN2:
    case OP_POWER:
        return true;
    default:
        return false;
    }
}

/* A reduction whose dimensions do not hold the last one reads its operand with a stride: such loops are
 * kept apart. */
bool op_strided_reduce(const struct module *m, const struct instr *in)
{
    if (in->op != OP_REDUCE)
        return false;
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    int last = shape_get(m->ir, instr_at(m, in->operands[0])->shape)->rank - 1;
    for (int k = 0; k < n; k++)
        if (dims[k] == last)
            return false;
    return true;
}

/* Whether user reads elements of its operand more than once each. */
bool op_reuses(const struct module *m, const struct instr *user)
{
    if (user->op == OP_BROADCAST)
        return shape_get(m->ir, user->shape)->count > instr_shape(m, user->operands[0])->count;
    return user->op == OP_GATHER;
}

/* Operands that a matrix operation reads through: each element as cheap as where it lies. */
static bool read_through(const struct module *m, const struct instr *in)
{
    switch ((int)in->op) {
    case OP_CONVERT:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE:
    case OP_TRANSPOSE:
    case OP_REVERSE:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_SELECT:
    case OP_COMPARE:
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_NEGATE:
    case OP_PAD:
        return op_is_loop(m, in);
    default:
        return false;
    }
}

static bool is_matrix(const struct instr *in)
{
    return in->op == OP_DOT || in->op == OP_CONVOLUTION;
}

/* Element by element on a value of that many elements, or the update that is written into a larger array. A
 * transpose too: a matrix operation writes its result in any order of dimensions. */
static bool maps(const struct module *m, instr_id x, const struct instr *by, int64_t count)
{
    enum op_kind op = (enum op_kind)by->op;
    if (op == OP_DYNAMIC_UPDATE_SLICE)
        return by->operands[1].i == x.i && by->operands[0].i != x.i;
    return op_is_loop(m, by) && shape_get(m->ir, by->shape)->count == count &&
           (op_is_elementwise_unary(op) || op_is_elementwise_binary(op) || op == OP_SELECT || op == OP_CONVERT ||
            op == OP_TRANSPOSE || op_is_reshape(m, by));
}

/* The kernel that a matrix operation ends in: its only user, or what that is computed in, when all in
 * between map element by element. none: it ends nowhere. */
static instr_id ends_in(const struct cost_plan *p, instr_id i)
{
    const struct module *m = p->module;
    const struct instr *in = instr_at(m, i);
    int64_t count = shape_get(m->ir, in->shape)->count;
    instr_id x = i;
    if (p->plain_matrix || !is_matrix(in))
        return (instr_id){ 0 };
    do {
        if (users_count(&p->users, x) != 1 || comp_at(m, in->comp)->root.i == x.i)
            return (instr_id){ 0 };
        instr_id u = users_of(&p->users, x)[0];
        if (!maps(m, x, instr_at(m, u), count))
            return (instr_id){ 0 };
        x = u;
    } while (p->fused[x.i]);
    return p->kernel[x.i].matrix.i || op_is_reshape(m, instr_at(m, x)) ? (instr_id){ 0 } : x;
}

/* ---- through optimization barriers ------------------------------------------------------------------- */

/* A barrier keeps computations apart, it holds no copy: what comes out of it is what went in. */
static void find_barriers(struct cost_plan *p)
{
    const struct module *m = p->module;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        instr_id x = { 0 };
        if (in->op == OP_OPT_BARRIER && shape_get(m->ir, in->shape)->kind == SHAPE_ARRAY) {
            x = in->operands[0];
        } else if (in->op == OP_GET_TUPLE_ELEMENT && instr_at(m, in->operands[0])->op == OP_OPT_BARRIER) {
            const struct instr *t = instr_at(m, instr_at(m, in->operands[0])->operands[0]);
            int64_t n = instr_int(in, ATTR_INDEX, 0);
            if (t->op == OP_TUPLE && n >= 0 && n < t->noperands)
                x = t->operands[n];
        }
        p->through[k] = p->through[x.i].i ? p->through[x.i] : x;
    }
}

enum { MOST_READERS = 64 };

static bool add_reader(struct value_reader *list, int *n, int room, instr_id user, instr_id as)
{
    if (*n == room)
        return false;
    list[(*n)++] = (struct value_reader){ user, as };
    return true;
}

bool barrier_of(const struct cost_plan *p, instr_id tuple, instr_id *out)
{
    const struct module *m = p->module;
    if (instr_at(m, tuple)->op != OP_TUPLE || users_count(&p->users, tuple) != 1 ||
        comp_at(m, instr_at(m, tuple)->comp)->root.i == tuple.i)
        return false;
    *out = users_of(&p->users, tuple)[0];
    return instr_at(m, *out)->op == OP_OPT_BARRIER && comp_at(m, instr_at(m, *out)->comp)->root.i != out->i;
}

/* All that read i, also behind barriers; -1: too many, or not all are known. */
int readers_of(const struct cost_plan *p, instr_id i, struct value_reader *list, int room)
{
    const struct module *m = p->module;
    int n = 0;
    for (uint32_t k = 0; k < users_count(&p->users, i); k++)
        if (!add_reader(list, &n, room, users_of(&p->users, i)[k], i))
            return -1;
    for (int at = 0; at < n; at++) {
        instr_id barrier, as = list[at].as;
        if (!barrier_of(p, list[at].user, &barrier))
            continue;
        const struct instr *t = instr_at(m, list[at].user);
        list[at--] = list[--n];
        for (uint32_t k = 0; k < users_count(&p->users, barrier); k++) {
            instr_id g = users_of(&p->users, barrier)[k];
            const struct instr *in = instr_at(m, g);
            if (in->op != OP_GET_TUPLE_ELEMENT)
                return -1;
            int64_t x = instr_int(in, ATTR_INDEX, 0);
            if (x < 0 || x >= t->noperands || t->operands[x].i != as.i)
                continue;
            if (comp_at(m, in->comp)->root.i == g.i)
                return -1;
            for (uint32_t u = 0; u < users_count(&p->users, g); u++)
                if (!add_reader(list, &n, room, users_of(&p->users, g)[u], g))
                    return -1;
        }
    }
    return n;
}

enum { MOST_COPIES = 15 }; /* times that one operation is computed, over all kernels */

static bool taken_in(const struct cost_plan *p, instr_id i, uint32_t *copies)
{
    const struct module *m = p->module;
    const struct instr *in = instr_at(m, i);
    struct value_reader list[MOST_READERS];
    instr_id end = ends_in(p, i);
    if (end.i) {
        p->kernel[end.i].matrix = i;
        copies[i.i] = 1;
        return true;
    }
    if (!op_is_loop(m, in) || comp_at(m, in->comp)->root.i == i.i || op_strided_reduce(m, in))
        return false;
    int n = readers_of(p, i, list, MOST_READERS);
    if (n <= 0 || (n > 1 && op_is_dear(in)))
        return false;
    uint64_t sum = 0;
    for (int k = 0; k < n; k++) {
        const struct instr *u = instr_at(m, list[k].user);
        uint32_t times = p->fused[list[k].user.i] ? copies[list[k].user.i] : 1;
        if (is_matrix(u) && !p->plain_matrix && read_through(m, in)) {
            sum += times;
            continue;
        }
        if (!op_is_loop(m, u) || op_strided_reduce(m, u) || (op_is_reshape(m, u) && !p->fused[list[k].user.i]) ||
            (op_is_dear(in) && op_reuses(m, u)))
            return false;
        if (u->op == OP_DYNAMIC_UPDATE_SLICE && u->operands[0].i == list[k].as.i)
            return false; /* what is updated in place has to be there */
        sum += times;
    }
    if (sum > MOST_COPIES)
        return false;
    copies[i.i] = (uint32_t)sum;
    return true;
}

static void find_fused(struct cost_plan *p, const struct cost_plan *before)
{
    const struct module *m = p->module;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    uint32_t *copies = ARENA_ARRAY(&tmp, uint32_t, (int64_t)module_ninstrs(m) + 2);
    struct fuser *cpu = p->plain_matrix ? fuse_cpu_new(p, &tmp) : NULL;
    for (uint32_t c = 0; c < p->ncomps; c++) {
        if (p->use[p->comps[c].i] != COMP_RUN)
            continue;
        if (p->alike[p->comps[c].i].i) {
            plan_take_flags(p, before, p->comps[c]);
            continue;
        }
        uint32_t n;
        const instr_id *order = comp_post_order(m, p->comps[c], &p->users, &tmp, &n);
        if (cpu)
            fuse_cpu(cpu, order, n);
        for (uint32_t k = n; !cpu && k-- > 0;)
            p->fused[order[k].i] = taken_in(p, order[k], copies);
    }
    arena_close(&tmp);
}

/* ---- how often computations run --------------------------------------------------------------------- */

enum { TRIP_STEPS = 2000000, MOST_CALLED = 256 };

static bool runs_alone(enum op_kind op)
{
    return op == OP_WHILE || op == OP_CONDITIONAL || op == OP_CALL || op == OP_ASYNC_START;
}

static void into_called(struct cost_plan *p, comp_id comp, instr_id i)
{
    const struct instr *in = instr_at(p->module, i);
    comp_id called[MOST_CALLED];
    int n = instr_called(p->module, i, called, MOST_CALLED);
    if (n == 0)
        return;
    double runs = p->runs[comp.i];
    bool known = p->runs_known[comp.i];
    if (in->op == OP_WHILE) {
        int64_t t = while_trip_count(p->module, i, TRIP_STEPS);
        p->trips[i.i] = t;
        known = known && t >= 0;
        runs *= t < 0 ? 1 : (double)t;
    }
    for (int k = 0; k < n && k < MOST_CALLED; k++) {
        uint32_t c = called[k].i;
        p->runs[c] += runs;
        p->runs_known[c] = p->runs_known[c] && known;
        uint8_t use = p->use[comp.i] == COMP_RUN && runs_alone((enum op_kind)in->op) ? COMP_RUN
                                                                                    : COMP_APPLIED;
        p->use[c] = p->use[c] == COMP_RUN ? COMP_RUN : use;
    }
}

static void find_runs(struct cost_plan *p)
{
    const struct module *m = p->module;
    p->runs[m->entry.i] = 1;
    p->use[m->entry.i] = COMP_RUN;
    for (uint32_t k = 0; k <= module_ncomps(m); k++)
        p->runs_known[k] = true;
    for (uint32_t k = p->ncomps; k-- > 0;) { /* callers before callees */
        const struct computation *c = comp_at(m, p->comps[k]);
        for (uint32_t i = 0; i < c->ninstrs; i++)
            into_called(p, p->comps[k], c->instrs[i]);
    }
}

/* ---- kernels ---------------------------------------------------------------------------------------- */

struct maker {
    struct cost_plan *p;
    struct arena tmp;
    uint32_t *mark;     /* [ninstrs + 1] kernel that met it last */
    uint32_t *inside;   /* [ninstrs + 1] plain_matrix: kernel that computes it, of those at hand the last */
    struct cpu_counter *cpu; /* plain_matrix */
    int64_t *at;        /* where it stands among that kernel's external operands */
    VEC(instr_id) stack;
    VEC(instr_id) ext;
    VEC(int64_t) bytes;
    double *inner;      /* [ncomps + 1] FLOPs of fusions' computations; < 0: not counted yet */
};

static bool does_nothing(const struct module *m, const struct instr *in)
{
    return op_forwards(m, in) || in->op == OP_PARAMETER || in->op == OP_CONSTANT || in->op == OP_WHILE ||
           in->op == OP_CONDITIONAL || in->op == OP_CALL || in->op == OP_AFTER_ALL ||
           in->op == OP_PARTITION_ID || in->op == OP_REPLICA_ID || in->op == OP_ALL_GATHER_DONE ||
           in->op == OP_ALL_REDUCE_DONE || in->op == OP_COLLECTIVE_PERMUTE_DONE || in->op == OP_ASYNC_DONE ||
           in->op == OP_ASYNC_UPDATE || in->op == OP_COPY_DONE;
}

static instr_id through_bitcasts(const struct module *m, instr_id i)
{
    for (;;) {
        const struct instr *in = instr_at(m, i);
        if ((in->op != OP_BITCAST && in->op != OP_RESHAPE && in->op != OP_COPY) || in->noperands != 1)
            return i;
        i = in->operands[0];
    }
}

instr_id updated_by(const struct module *m, const struct instr *in, int64_t *into)
{
    *into = 0;
    if (in->op == OP_DYNAMIC_UPDATE_SLICE)
        return in->operands[1];
    const struct attr *calls = in->op == OP_FUSION ? instr_attr(in, ATTR_CALLS) : NULL;
    if (!calls || calls->type != ATTR_TYPE_COMP)
        return (instr_id){ 0 };
    const struct instr *root = instr_at(m, through_bitcasts(m, comp_at(m, calls->comp)->root));
    if (root->op != OP_DYNAMIC_UPDATE_SLICE)
        return (instr_id){ 0 };
    const struct instr *old = instr_at(m, through_bitcasts(m, root->operands[0]));
    *into = old->op == OP_PARAMETER ? instr_param_number(old) : -1;
    return *into >= 0 && *into < in->noperands ? root->operands[1] : (instr_id){ 0 };
}

/* Of a fusion's operand: when inside only slices are cut from it, their bytes; -1: it may be read whole. */
static int64_t sliced_inside(const struct cost_plan *p, const struct instr *by, uint32_t k)
{
    const struct module *m = p->module;
    const struct attr *calls = instr_attr(by, ATTR_CALLS);
    if (!calls || calls->type != ATTR_TYPE_COMP || k >= comp_at(m, calls->comp)->nparams)
        return -1;
    instr_id x = comp_at(m, calls->comp)->params[k];
    int64_t sum = 0;
    uint32_t n = users_count(&p->users, x);
    for (uint32_t u = 0; u < n; u++) {
        const struct instr *in = instr_at(m, users_of(&p->users, x)[u]);
        bool cuts = (in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE || in->op == OP_GATHER) && in->operands[0].i == x.i;
        if (!cuts)
            return -1;
        sum += value_bytes(m, in->shape, false);
    }
    return n > 0 ? sum : -1;
}

/* Bytes that `by` reads of its k-th operand. */
static int64_t bytes_read(const struct cost_plan *p, const struct instr *by, uint32_t k)
{
    const struct module *m = p->module;
    int64_t into;
    if (by->op == OP_FUSION) {
        if (updated_by(m, by, &into).i && into == k)
            return 0;
        int64_t part = sliced_inside(p, by, k), whole = max_i64(instr_shape(m, by->operands[k])->bytes, 0);
        return part >= 0 ? min_i64(part, whole) : whole;
    }
    if (k == 0 && (by->op == OP_SLICE || by->op == OP_DYNAMIC_SLICE || by->op == OP_GATHER))
        return min_i64(value_bytes(m, by->shape, false), instr_shape(m, by->operands[0])->bytes);
    if (k == 0 && by->op == OP_DYNAMIC_UPDATE_SLICE)
        return 0; /* in place */
    if (by->op == OP_SCATTER && k * 2 + 1 < by->noperands)
        return 0; /* in place */
    return max_i64(instr_shape(m, by->operands[k])->bytes, 0);
}

static int64_t bytes_written(const struct module *m, const struct instr *in)
{
    int64_t into;
    instr_id update = updated_by(m, in, &into);
    if (update.i)
        return max_i64(instr_shape(m, update)->bytes, 0);
    if (in->op == OP_SCATTER)
        return max_i64(instr_shape(m, in->operands[in->noperands - 1])->bytes, 0);
    return value_bytes(m, in->shape, false);
}

static void reads(struct maker *k, uint32_t root, const struct instr *by)
{
    const struct cost_plan *p = k->p;
    for (uint32_t o = 0; o < by->noperands; o++) {
        instr_id x = by->operands[o];
        if (by->op == OP_TUPLE && p->fused[x.i])
            continue; /* into a barrier: who comes after it computes x */
        instr_id from = p->through[x.i];
        if (from.i && (k->inside ? k->inside[from.i] == root : p->fused[from.i]))
            x = from;
        if (k->inside ? k->inside[x.i] == root : p->fused[x.i]) {
            if (k->mark[x.i] != root) {
                k->mark[x.i] = root;
                vec_push(&k->tmp, &k->stack, x);
            }
            continue;
        }
        int64_t b = bytes_read(p, by, o);
        if (k->mark[x.i] != root) {
            k->mark[x.i] = root;
            k->at[x.i] = k->ext.n;
            vec_push(&k->p->arena, &k->ext, x);
            vec_push(&k->p->arena, &k->bytes, b);
        } else if (b > k->bytes.v[k->at[x.i]]) {
            k->bytes.v[k->at[x.i]] = b;
        }
    }
}

static double inner_work(struct maker *k, instr_id fusion, struct work *out)
{
    comp_id c[2];
    if (instr_called(k->p->module, fusion, c, 2) < 1)
        return 0;
    const struct computation *comp = comp_at(k->p->module, c[0]);
    for (uint32_t i = 0; i < comp->ninstrs; i++) {
        struct work w;
        cost_work(k->p->module, comp->instrs[i], &w);
        out->flops += w.flops;
        out->transcendentals += w.transcendentals;
        out->matrix = out->matrix || w.matrix;
        k->inner[c[0].i] += w.matrix ? w.flops : 0;
    }
    double matrix = k->inner[c[0].i];
    k->inner[c[0].i] = 0;
    return matrix;
}

static void add_work(struct maker *k, struct kernel *to, instr_id i, instr_id root)
{
    const struct module *m = k->p->module;
    struct work w;
    cost_work(m, i, &w);
    double matrix = w.matrix ? w.flops : 0;
    if (instr_at(m, i)->op == OP_FUSION)
        matrix = inner_work(k, i, &w);
    if (k->cpu) {
        double before = w.flops;
        cpu_work(k->cpu, i, root, &w);
        matrix = w.matrix ? before : matrix;
    }
    to->flops += w.flops;
    to->transcendentals += w.transcendentals;
    to->matrix_flops += matrix;
    if (w.matrix && to->dtype == DTYPE_NONE) {
        to->dtype = instr_shape(m, instr_at(m, i)->operands[0])->dtype;
        to->matrix = i;
    }
    k->p->visits++;
}

static void make_kernel(struct maker *k, instr_id r)
{
    struct cost_plan *p = k->p;
    const struct module *m = p->module;
    const struct instr *in = instr_at(m, r);
    struct kernel *to = &p->kernel[r.i];
    p->ext_start[r.i] = (uint32_t)k->ext.n;
    k->stack.n = 0;
    for (uint32_t x = 0; k->inside && x < p->inside_n[r.i]; x++)
        k->inside[p->inside.v[p->inside_at[r.i] + x].i] = r.i;
    add_work(k, to, r, r);
    reads(k, r.i, in);
    while (k->stack.n > 0) {
        instr_id x = k->stack.v[--k->stack.n];
        add_work(k, to, x, r);
        reads(k, r.i, instr_at(m, x));
    }
    if (does_nothing(m, in))
        return;
    for (int64_t e = p->ext_start[r.i]; e < k->ext.n; e++)
        to->in_bytes += k->bytes.v[e];
    to->out_bytes = bytes_written(m, in);
}

/* What an alike kernel of the earlier plan reads; what it does was taken with its flags. */
static void take_reads(struct maker *k, const struct cost_plan *before, instr_id i)
{
    struct cost_plan *p = k->p;
    comp_id c = instr_at(p->module, i)->comp;
    instr_id old = comp_at(before->module, p->alike[c.i])->instrs[p->local[i.i]];
    for (uint32_t e = before->ext_start[old.i]; e < before->ext_start[old.i + 1]; e++) {
        instr_id x = plan_taken(p, before, c, before->ext[e]);
        vec_push(&p->arena, &k->ext, x);
        vec_push(&p->arena, &k->bytes, before->ext_bytes[e]);
    }
}

static void make_kernels(struct cost_plan *p, const struct cost_plan *before)
{
    const struct module *m = p->module;
    int64_t n = (int64_t)module_ninstrs(m) + 2;
    struct maker k = { .p = p };
    arena_open(&k.tmp);
    k.mark = ARENA_ARRAY(&k.tmp, uint32_t, n);
    k.at = ARENA_ARRAY(&k.tmp, int64_t, n);
    k.inner = ARENA_ARRAY(&k.tmp, double, (int64_t)module_ncomps(m) + 2);
    if (p->plain_matrix && !p->options.no_fusion)
        k.cpu = cpu_counter_new(p, &k.tmp);
    k.inside = p->inside_n ? ARENA_ARRAY(&k.tmp, uint32_t, n) : NULL;
    bool *run = ARENA_ARRAY(&k.tmp, bool, n);
    for (uint32_t c = 0; c < p->ncomps; c++) {
        const struct computation *comp = comp_at(m, p->comps[c]);
        for (uint32_t i = 0; p->use[p->comps[c].i] == COMP_RUN && i < comp->ninstrs; i++)
            run[comp->instrs[i].i] = true;
    }
    for (uint32_t i = 1; i <= module_ninstrs(m); i++) {
        p->ext_start[i] = (uint32_t)k.ext.n;
        if (!run[i] || p->fused[i])
            continue;
        if (p->alike[instr_at(m, (instr_id){ i })->comp.i].i)
            take_reads(&k, before, (instr_id){ i });
        else
            make_kernel(&k, (instr_id){ i });
    }
    p->ext_start[module_ninstrs(m) + 1] = (uint32_t)k.ext.n;
    INVARIANT(k.ext.n < UINT32_MAX, "too many operands");
    p->ext = k.ext.v;
    p->ext_bytes = k.bytes.v;
    arena_close(&k.tmp);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static void plan_fill(struct cost_plan *p, struct cost_plan *before, const struct cost_options *o)
{
    const struct module *m = p->module;
    int64_t n = (int64_t)module_ninstrs(m) + 2, nc = (int64_t)module_ncomps(m) + 2;
    p->fused = ARENA_ARRAY(&p->arena, bool, n);
    p->position = ARENA_ARRAY(&p->arena, uint32_t, n);
    p->trips = ARENA_ARRAY(&p->arena, int64_t, n);
    p->kernel = ARENA_ARRAY(&p->arena, struct kernel, n);
    p->ext_start = ARENA_ARRAY(&p->arena, uint32_t, n);
    p->use = ARENA_ARRAY(&p->arena, uint8_t, nc);
    p->runs = ARENA_ARRAY(&p->arena, double, nc);
    p->runs_known = ARENA_ARRAY(&p->arena, bool, nc);
    p->order = ARENA_ARRAY(&p->arena, const instr_id *, nc);
    p->norder = ARENA_ARRAY(&p->arena, uint32_t, nc);
    p->through = ARENA_ARRAY(&p->arena, instr_id, n);
    users_make(m, &p->arena, &p->users);
    p->comps = module_call_order(m, false, &p->arena, &p->ncomps);
    find_runs(p);
    p->plain_matrix = o->plain_matrix;
    p->options = *o;
    p->other = ARENA_ARRAY(&p->arena, bool, nc);
    p->inner = ARENA_ARRAY(&p->arena, int64_t, nc);
    plan_find_alike(p, before);
    if (!o->no_fusion && !m->is_scheduled) { /* a scheduled dump is fused as its compiler wanted it */
        find_barriers(p);
        find_fused(p, before);
    } else {
        for (uint32_t c = 0; c < p->ncomps; c++)
            if (p->alike[p->comps[c].i].i)
                plan_take_flags(p, before, p->comps[c]);
    }
    make_kernels(p, before);
    plan_schedule(p, before, o);
}

/* A frame of our own, so that a failure inside frees the plan. */
static bool guarded(struct cost_plan *p, struct cost_plan *before, const struct cost_options *o, struct fail_frame *f)
{
    if (!FAIL_ENTER(f))
        return false;
    plan_fill(p, before, o);
    fail_leave(f);
    return true;
}

struct cost_plan *cost_plan_new(const struct module *m, const struct program *prog,
                                const struct cost_options *o, struct tick *tick, struct diag *d)
{
    return cost_plan_after(NULL, m, prog, o, tick, d);
}

struct cost_plan *cost_plan_after(struct cost_plan *before, const struct module *m, const struct program *prog,
                                  const struct cost_options *o, struct tick *tick, struct diag *d)
{
    static const struct cost_options plain = { 0 };
    if (!tick_now(tick, "cost", 0, 1)) {
        const char *former = diag_stage(d, "interrupted");
        diag_error(d, NULL, (struct span){ 0, 0 }, "interrupted");
        diag_stage(d, former);
        return NULL;
    }
    struct cost_plan *p = calloc(1, sizeof *p);
    struct fail_frame f = { .kind = FAIL_MEMORY, .text = "no memory for a plan" };
    if (p) {
        p->module = m;
        p->program = prog;
        if (guarded(p, before, o ? o : &plain, &f))
            return p;
    }
    cost_plan_free(p);
    fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
}

void cost_plan_free(struct cost_plan *p)
{
    if (!p)
        return;
    arena_free(&p->arena);
    free(p);
}

/* What a kernel calls: all of it, of a conditional the branch with most. */
static double called_flops(const struct cost_plan *p, instr_id i, bool once, const double *of)
{
    const struct instr *in = instr_at(p->module, i);
    comp_id called[MOST_CALLED];
    double sum = 0, most = 0;
    if (!runs_alone((enum op_kind)in->op))
        return 0;
    int n = instr_called(p->module, i, called, MOST_CALLED);
    for (int c = 0; c < n && c < MOST_CALLED; c++) {
        sum += of[called[c].i];
        most = of[called[c].i] > most ? of[called[c].i] : most;
    }
    if (in->op == OP_CONDITIONAL)
        return most;
    return in->op == OP_WHILE && !once && p->trips[i.i] >= 0 ? sum * (double)p->trips[i.i] : sum;
}

static double sum_flops(const struct cost_plan *p, bool once, bool matrix)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    double *of = ARENA_ARRAY(&tmp, double, (int64_t)module_ncomps(p->module) + 2);
    for (uint32_t c = 0; c < p->ncomps; c++) { /* callees first */
        comp_id id = p->comps[c];
        for (uint32_t k = 0; k < p->norder[id.i]; k++) {
            instr_id i = p->order[id.i][k];
            of[id.i] += (matrix ? p->kernel[i.i].matrix_flops : p->kernel[i.i].flops) + called_flops(p, i, once, of);
        }
    }
    double all = of[p->module->entry.i];
    arena_close(&tmp);
    return all;
}

double cost_flops(const struct cost_plan *p, bool once)
{
    return sum_flops(p, once, false);
}

double cost_matrix_flops(const struct cost_plan *p, bool once)
{
    return sum_flops(p, once, true);
}
