/* For the partitioner's unit tests: HLO text to program, and a small evaluator that runs a program of
 * integer operations on all devices in step, independent of the emulator. */
#ifndef GSPMD_TESTS_PARTITION_CORE_H
#define GSPMD_TESTS_PARTITION_CORE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "partition/partition.h"
#include "text/text.h"

enum { MAX_DEVICES = 64, MAX_DIMS = 16 };

/* ---- from text to program ------------------------------------------------------------------------------ */

struct setup {
    struct ir *ir;
    struct diag *diag;
    struct module *module;
    struct propagation *shardings;
    struct program *program; /* NULL: refused, diag says why */
    struct arena arena;
};

static inline void setup_free(struct setup *t)
{
    program_free(t->program);
    propagation_free(t->shardings);
    module_free(t->module);
    diag_free(t->diag);
    arena_free(&t->arena);
    ir_free(t->ir);
}

static inline const char *setup_said(const struct setup *t)
{
    return t->diag->msgs.n ? t->diag->msgs.v[0].text : "";
}

/* Every value's sharding is in the text; what has none is replicated. */
static inline void setup_partition(struct setup *t, const char *text, int64_t devices,
                                   const struct partition_options *given)
{
    memset(t, 0, sizeof *t);
    t->ir = ir_new();
    t->diag = diag_new();
    t->module = module_load_text(t->ir, "test", text, strlen(text), NULL, t->diag);
    if (!t->module)
        fail_msg("%s", setup_said(t));
    struct graph *g = graph_prepare(t->module, false, NULL, t->diag);
    struct propagation_options po = { .spmd = true, .none = true };
    t->shardings = g ? propagate(g, &po, NULL, t->diag) : NULL;
    if (!t->shardings)
        fail_msg("%s", setup_said(t));
    struct partition_options o;
    if (given)
        o = *given;
    else
        partition_options_default(&o);
    if (!given)
        o.full = false;
    o.num_partitions = devices;
    t->program = partition(t->shardings, &o, NULL, t->diag);
}

/* "all-gather f32[8,16] groups of 4; ..." of the whole program, in order. */
static inline const char *setup_collectives(struct setup *t)
{
    struct collective *list;
    int64_t total, n = collectives_list(t->program->module, t->program->num_partitions, 1,
                                        &t->arena, &list, &total);
    struct str out = STR_IN(&t->arena);
    for (int64_t i = 0; i < n; i++) {
        str_addf(&out, "%s%s ", i ? "; " : "", op_name(list[i].kind));
        shape_print(t->ir, instr_at(t->program->module, list[i].instr)->shape, false, &out);
        str_addf(&out, " %" PRId64, list[i].group_size);
    }
    return str_text(&out);
}

static inline int64_t count_op(const struct program *p, enum op_kind op)
{
    int64_t n = 0;
    for (uint32_t i = 1; i <= module_ninstrs(p->module); i++)
        n += instr_at(p->module, (instr_id){ i })->op == op;
    return n;
}

/* ---- running on all devices ------------------------------------------------------------------------------ */

struct tensor {
    int rank;
    int64_t dims[MAX_DIMS], n;
    int64_t *v;
};

struct machine {
    const struct module *m;
    int64_t devices;
    struct arena arena;
    struct tensor *values; /* [ninstrs + 1][devices] */
};

static inline struct tensor *value_of(struct machine *k, instr_id i, int64_t device)
{
    return &k->values[(int64_t)i.i * k->devices + device];
}

static inline struct tensor tensor_new(struct arena *a, int rank, const int64_t *dims)
{
    struct tensor t = { .rank = rank, .n = 1 };
    for (int d = 0; d < rank; d++) {
        t.dims[d] = dims[d];
        t.n *= dims[d];
    }
    t.v = ARENA_ARRAY(a, int64_t, t.n + 1);
    return t;
}

static inline void unravel(const struct tensor *t, int64_t i, int64_t *index)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = t->dims[d] ? i % t->dims[d] : 0;
        i = t->dims[d] ? i / t->dims[d] : 0;
    }
}

static inline int64_t ravel(const struct tensor *t, const int64_t *index)
{
    int64_t i = 0;
    for (int d = 0; d < t->rank; d++)
        i = i * t->dims[d] + index[d];
    return i;
}

static inline int64_t arith(enum op_kind op, int64_t a, int64_t b)
{
    switch ((int)op) {
    case OP_ADD: return a + b;
    case OP_SUBTRACT: return a - b;
    case OP_MULTIPLY: return a * b;
    case OP_DIVIDE: return b ? a / b : 0;
    case OP_REMAINDER: return b ? a % b : a;
    case OP_MAXIMUM: return a > b ? a : b;
    case OP_MINIMUM: return a < b ? a : b;
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    default: fail_msg("the test's evaluator has no %s", op_name(op));
    }
    return 0;
}

static inline int64_t compare(const struct module *m, const struct instr *in, int64_t a, int64_t b)
{
    static const char *const words[] = { "EQ", "NE", "LT", "LE", "GT", "GE" };
    const bool is[] = { a == b, a != b, a < b, a <= b, a > b, a >= b };
    for (size_t k = 0; k < COUNTOF(words); k++)
        if (instr_is(m, in, ATTR_DIRECTION, words[k]))
            return is[k];
    return 0;
}

static inline int64_t clamped(int64_t start, int64_t size, int64_t of)
{
    return start < 0 ? 0 : start > of - size ? of - size : start;
}

static inline void eval_slice(const struct instr *in, const struct tensor *x, struct tensor *r)
{
    int n;
    const int64_t *s = instr_ints(in, ATTR_SLICE, &n);
    int64_t at[MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < r->n; i++) {
        unravel(r, i, at);
        for (int d = 0; d < r->rank; d++)
            at[d] = s[3 * d] + at[d] * s[3 * d + 2];
        r->v[i] = x->v[ravel(x, at)];
    }
}

static inline void eval_pad(const struct instr *in, const struct tensor *x, int64_t fill,
                            struct tensor *r)
{
    int n;
    const int64_t *p = instr_ints(in, ATTR_PADDING, &n);
    int64_t at[MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < r->n; i++)
        r->v[i] = fill;
    for (int64_t i = 0; i < x->n; i++) {
        unravel(x, i, at);
        bool inside = true;
        for (int d = 0; d < x->rank; d++) {
            at[d] = p[3 * d] + at[d] * (p[3 * d + 2] + 1);
            inside = inside && at[d] >= 0 && at[d] < r->dims[d];
        }
        if (inside)
            r->v[ravel(r, at)] = x->v[i];
    }
}

/* x[m, a..] times w[a.., n], all but the first dimension of x contracted, in order. */
static inline void eval_dot(const struct tensor *x, const struct tensor *w, struct tensor *r)
{
    int64_t depth = x->dims[0] ? x->n / x->dims[0] : 0, cols = w->dims[w->rank - 1];
    for (int64_t i = 0; i < x->dims[0]; i++)
        for (int64_t j = 0; j < cols; j++) {
            int64_t sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += x->v[i * depth + k] * w->v[k * cols + j];
            r->v[i * cols + j] = sum;
        }
}

static inline void eval_local(struct machine *k, instr_id id, int64_t device)
{
    const struct instr *in = instr_at(k->m, id);
    const struct shape *sh = shape_get(k->m->ir, in->shape);
    struct tensor *r = value_of(k, id, device), *x[3] = { NULL, NULL, NULL };
    *r = tensor_new(&k->arena, sh->rank, sh->dims);
    for (uint32_t o = 0; o < in->noperands && o < 3; o++)
        x[o] = value_of(k, in->operands[o], device);
    int n;
    const int64_t *list = instr_ints(in, ATTR_DIMENSIONS, &n);
    int64_t at[MAX_DIMS] = { 0 }, to[MAX_DIMS] = { 0 };
    switch ((int)in->op) {
    case OP_CONSTANT:
        for (int64_t i = 0; i < r->n; i++)
            r->v[i] = literal_get_i(k->m, in->literal, i);
        return;
    case OP_PARTITION_ID:
        r->v[0] = device;
        return;
    case OP_IOTA:
        for (int64_t i = 0; i < r->n; i++) {
            unravel(r, i, at);
            r->v[i] = at[instr_int(in, ATTR_IOTA_DIMENSION, 0)];
        }
        return;
    case OP_CONVERT:
    case OP_COPY:
    case OP_RESHAPE:
        memcpy(r->v, x[0]->v, (size_t)r->n * sizeof *r->v);
        return;
    case OP_BROADCAST:
        for (int64_t i = 0; i < r->n; i++) {
            unravel(r, i, to);
            for (int d = 0; d < n; d++)
                at[d] = to[list[d]];
            r->v[i] = x[0]->v[ravel(x[0], at)];
        }
        return;
    case OP_TRANSPOSE:
        for (int64_t i = 0; i < r->n; i++) {
            unravel(r, i, to);
            for (int d = 0; d < n; d++)
                at[list[d]] = to[d];
            r->v[i] = x[0]->v[ravel(x[0], at)];
        }
        return;
    case OP_DOT:
        eval_dot(x[0], x[1], r);
        return;
    case OP_SLICE:
        eval_slice(in, x[0], r);
        return;
    case OP_PAD:
        eval_pad(in, x[0], x[1]->v[0], r);
        return;
    case OP_DYNAMIC_SLICE:
        for (int64_t i = 0; i < r->n; i++) {
            unravel(r, i, at);
            for (int d = 0; d < r->rank; d++)
                at[d] += clamped(value_of(k, in->operands[d + 1], device)->v[0], r->dims[d],
                                 x[0]->dims[d]);
            r->v[i] = x[0]->v[ravel(x[0], at)];
        }
        return;
    case OP_DYNAMIC_UPDATE_SLICE:
        memcpy(r->v, x[0]->v, (size_t)r->n * sizeof *r->v);
        for (int64_t i = 0; i < x[1]->n; i++) {
            unravel(x[1], i, at);
            for (int d = 0; d < r->rank; d++)
                at[d] += clamped(value_of(k, in->operands[d + 2], device)->v[0], x[1]->dims[d],
                                 r->dims[d]);
            r->v[ravel(r, at)] = x[1]->v[i];
        }
        return;
    case OP_CONCATENATE: {
        int64_t from = 0;
        for (uint32_t o = 0; o < in->noperands; o++) {
            const struct tensor *p = value_of(k, in->operands[o], device);
            for (int64_t i = 0; i < p->n; i++) {
                unravel(p, i, at);
                at[list[0]] += from;
                r->v[ravel(r, at)] = p->v[i];
            }
            from += p->dims[list[0]];
        }
        return;
    }
    case OP_SELECT:
        for (int64_t i = 0; i < r->n; i++)
            r->v[i] = x[0]->v[x[0]->rank ? i : 0] ? x[1]->v[i] : x[2]->v[i];
        return;
    case OP_COMPARE:
        for (int64_t i = 0; i < r->n; i++)
            r->v[i] = compare(k->m, in, x[0]->v[i], x[1]->v[i]);
        return;
    default:
        for (int64_t i = 0; i < r->n; i++)
            r->v[i] = arith((enum op_kind)in->op, x[0]->v[i], x[1]->v[i]);
    }
}

/* Members of a device's group, in order; its own place. */
static inline int64_t group_of(struct machine *k, const struct instr *in, int64_t device,
                               int64_t *members, int64_t *place)
{
    const struct replica_groups *g = instr_attr(in, ATTR_REPLICA_GROUPS)->groups;
    assert_true(g->uniform);
    int64_t size = g->tiles.dims[1], cell = order_cell(k->m->ir->shardings, g->tiles.order, device);
    assert_true(cell >= 0);
    for (int64_t i = 0; i < size; i++)
        members[i] = order_device(k->m->ir->shardings, g->tiles.order, cell / size * size + i);
    *place = cell % size;
    return size;
}

static inline enum op_kind reducer_of(struct machine *k, const struct instr *in)
{
    comp_id c = instr_attr(in, ATTR_TO_APPLY)->comp;
    return (enum op_kind)instr_at(k->m, comp_at(k->m, c)->root)->op;
}

static inline void copy_part(struct tensor *to, const struct tensor *from, int dim, int64_t at_to,
                             int64_t at_from, int64_t size)
{
    int64_t at[MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < from->n; i++) {
        unravel(from, i, at);
        if (at[dim] < at_from || at[dim] >= at_from + size)
            continue;
        at[dim] += at_to - at_from;
        to->v[ravel(to, at)] = from->v[i];
    }
}

static inline int64_t pair_source(struct machine *k, const struct permute_pairs *p, int64_t device)
{
    struct shardings *t = k->m->ir->shardings;
    int64_t index[MAX_DIMS] = { 0 };
    if (p->kind == PAIRS_LIST) {
        for (int64_t i = 0; i < p->n; i++)
            if (p->list[2 * i + 1] == device)
                return p->list[2 * i];
        return -1;
    }
    if (p->kind == PAIRS_TILINGS)
        return order_device(t, p->from.order, order_cell(t, p->to.order, device));
    tiling_index(t, p->from, device, index);
    int64_t limit = p->limit ? p->limit : p->from.dims[p->axis], x = index[p->axis];
    if (x >= limit)
        return -1;
    x -= p->shift;
    if (p->wrap)
        x = (x % limit + limit) % limit;
    if (x < 0 || x >= limit)
        return -1;
    index[p->axis] = x;
    return tiling_device(t, p->from, index);
}

static inline void eval_collective(struct machine *k, instr_id id)
{
    const struct instr *in = instr_at(k->m, id);
    const struct shape *sh = shape_get(k->m->ir, in->shape);
    int n;
    const int64_t *dims = instr_ints(in, ATTR_DIMENSIONS, &n);
    int dim = n ? (int)dims[0] : 0;
    for (int64_t d = 0; d < k->devices; d++) {
        struct tensor *r = value_of(k, id, d);
        *r = tensor_new(&k->arena, sh->rank, sh->dims);
        int64_t members[MAX_DEVICES], place = 0, size = 0;
        if (in->op == OP_COLLECTIVE_PERMUTE) {
            int64_t from = pair_source(k, instr_attr(in, ATTR_SOURCE_TARGET_PAIRS)->pairs, d);
            if (from >= 0)
                memcpy(r->v, value_of(k, in->operands[0], from)->v, (size_t)r->n * sizeof *r->v);
            continue;
        }
        size = group_of(k, in, d, members, &place);
        for (int64_t i = 0; i < size; i++) {
            const struct tensor *x = value_of(k, in->operands[0], members[i]);
            if (in->op == OP_ALL_GATHER) {
                copy_part(r, x, dim, i * x->dims[dim], 0, x->dims[dim]);
            } else if (in->op == OP_ALL_TO_ALL) {
                int64_t chunk = x->dims[dim] / size;
                copy_part(r, x, dim, i * chunk, place * chunk, chunk);
            } else if (in->op == OP_ALL_REDUCE) {
                for (int64_t e = 0; e < r->n; e++)
                    r->v[e] = i ? arith(reducer_of(k, in), r->v[e], x->v[e]) : x->v[e];
            } else {
                assert_int_equal(in->op, OP_REDUCE_SCATTER);
                struct tensor part = tensor_new(&k->arena, sh->rank, sh->dims);
                copy_part(&part, x, dim, 0, place * r->dims[dim], r->dims[dim]);
                for (int64_t e = 0; e < r->n; e++)
                    r->v[e] = i ? arith(reducer_of(k, in), r->v[e], part.v[e]) : part.v[e];
            }
        }
    }
}

/* ---- global arrays --------------------------------------------------------------------------------------- */

/* The element of a device's shard at a local index: its global index, or false for padding. */
static inline bool global_index(const struct shardings *t, sharding_id sh, const struct shape *base,
                                int64_t device, const int64_t *local, int64_t *global)
{
    int64_t tile[MAX_DIMS] = { 0 };
    (void)sharding_tile_index(t, sh, device, tile);
    for (int d = 0; d < base->rank; d++) {
        global[d] = tile[d] * ceil_div(base->dims[d], sharding_tile(t, sh, d)) + local[d];
        if (global[d] >= base->dims[d])
            return false;
    }
    return true;
}

static inline int64_t element(const struct shape *base, const int64_t *global, int64_t seed)
{
    int64_t i = seed;
    for (int d = 0; d < base->rank; d++)
        i = i * (base->dims[d] + 1) + global[d];
    return i * 7 + 1;
}

/* A device has no data of a maximal sharding of another device. */
static inline bool holds(const struct shardings *t, sharding_id sh, int64_t device)
{
    const struct sharding *x = sharding_get(t, sh);
    return x->kind != SHARDING_MAXIMAL || x->device == device;
}

static inline void load_parameter(struct machine *k, const struct program *p, uint32_t number,
                                  instr_id id)
{
    const struct shape *sh = instr_shape(k->m, id), *base = shape_get(k->m->ir, p->param_shape[number]);
    for (int64_t d = 0; d < k->devices; d++) {
        struct tensor *r = value_of(k, id, d);
        *r = tensor_new(&k->arena, sh->rank, sh->dims);
        for (int64_t i = 0; i < r->n; i++) {
            int64_t local[MAX_DIMS] = { 0 }, global[MAX_DIMS] = { 0 };
            unravel(r, i, local);
            bool valid = holds(k->m->ir->shardings, p->param_sharding[number], d) &&
                         global_index(k->m->ir->shardings, p->param_sharding[number], base, d, local,
                                      global);
            /* Padding is anything: different garbage on every device. */
            r->v[i] = valid ? element(base, global, number) : -1000003 * (d + 1) - i;
        }
    }
}

static inline void run_program(struct machine *k, const struct program *p)
{
    memset(k, 0, sizeof *k);
    k->m = p->module;
    k->devices = p->num_partitions;
    k->values = ARENA_ARRAY(&k->arena, struct tensor,
                            ((int64_t)module_ninstrs(k->m) + 1) * k->devices);
    const struct computation *c = comp_at(k->m, k->m->entry);
    for (uint32_t i = 0; i < c->nparams; i++)
        load_parameter(k, p, i, c->params[i]);
    for (uint32_t i = 0; i < c->ninstrs; i++) {
        enum op_kind op = (enum op_kind)instr_at(k->m, c->instrs[i])->op;
        if (op == OP_PARAMETER)
            continue;
        if (op_is_collective(op))
            eval_collective(k, c->instrs[i]);
        else
            for (int64_t d = 0; d < k->devices; d++)
                eval_local(k, c->instrs[i], d);
    }
}

/* The result, when the program is to hand parameter 0 through: every valid element in its place. */
static inline bool is_parameter0(struct machine *k, const struct program *p)
{
    const struct shape *base = shape_get(k->m->ir, p->result_shape);
    instr_id root = comp_at(k->m, k->m->entry)->root;
    for (int64_t d = 0; d < k->devices; d++) {
        const struct tensor *r = value_of(k, root, d);
        if (!holds(k->m->ir->shardings, p->result_sharding, d))
            continue;
        for (int64_t i = 0; i < r->n; i++) {
            int64_t local[MAX_DIMS] = { 0 }, global[MAX_DIMS] = { 0 };
            unravel(r, i, local);
            if (global_index(k->m->ir->shardings, p->result_sharding, base, d, local, global) &&
                r->v[i] != element(base, global, 0))
                return false;
        }
    }
    return true;
}

#endif
