/* The collectives of a module, with what they move (language.md section 8). Works on our programs
 * and on dumps of others. */
#include "partition/list.h"

#include <string.h>

struct lister {
    const struct module *m;
    int64_t np, nr;
    struct arena *a;
    VEC(struct collective) out;
    int64_t *total;  /* [ncomps + 1] bytes of one run of a computation */
    int64_t *trips;  /* [ncomps + 1] loops around, as met first */
    bool *known;
    int *branch;
    bool *reached;
};

static enum op_kind plain(enum op_kind op)
{
    if (op == OP_ALL_GATHER_START)
        return OP_ALL_GATHER;
    if (op == OP_ALL_REDUCE_START)
        return OP_ALL_REDUCE;
    if (op == OP_COLLECTIVE_PERMUTE_START)
        return OP_COLLECTIVE_PERMUTE;
    return op;
}

static bool is_done(enum op_kind op)
{
    return op == OP_ALL_GATHER_DONE || op == OP_ALL_REDUCE_DONE || op == OP_COLLECTIVE_PERMUTE_DONE;
}

/* Bytes of an array; s4 and u4 one a byte unless the layout packs them with E(4). */
static int64_t array_bytes(const struct lister *l, shape_id id)
{
    const struct shape *sh = shape_get(l->m->ir, id);
    if (sh->kind == SHAPE_TUPLE) {
        int64_t sum = 0;
        for (int64_t i = 0; i < sh->nelems; i++)
            sum += array_bytes(l, sh->elems[i]);
        return sum;
    }
    if (sh->kind != SHAPE_ARRAY || sh->bytes < 0)
        return 0;
    if (sh->layout.i && sh->count >= 0 && dtype_bits(sh->dtype) < 8 &&
        strstr(name_text(l->m->ir, sh->layout), "E("))
        return ceil_div(sh->count * dtype_bits(sh->dtype), 8);
    return sh->bytes;
}

static int64_t operand_bytes(const struct lister *l, const struct instr *in)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < in->noperands; k++)
        sum += array_bytes(l, instr_at(l->m, in->operands[k])->shape);
    return sum;
}

/* ceil(x * a * times / b), once a collective. INT64_MAX where it does not fit. */
static int64_t part(int64_t x, int64_t a, int64_t b, int64_t times)
{
    int64_t whole, rest;
    if (b <= 0)
        return 0;
    if (!mul_ok(x % b, times, &rest) || !mul_ok(x / b, times, &whole) ||
        !add_ok(whole, rest / b, &whole) || !mul_ok(whole, a, &whole) ||
        !mul_ok(rest % b, a, &rest) || !add_ok(whole, ceil_div(rest, b), &whole))
        return INT64_MAX;
    return whole;
}

static int64_t bytes_of(const struct lister *l, const struct instr *in, enum op_kind op, int64_t n,
                        int64_t times)
{
    int64_t in_bytes = operand_bytes(l, in);
    switch ((int)op) {
    case OP_ALL_GATHER:
        return part(in_bytes, n - 1, 1, times); /* (n-1)/n of the output */
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL:
    case OP_RAGGED_ALL_TO_ALL:
        return part(in_bytes, n - 1, n, times);
    case OP_ALL_REDUCE:
        return part(in_bytes, 2 * (n - 1), n, times);
    case OP_COLLECTIVE_BROADCAST:
        return n > 1 ? part(in_bytes, 1, 1, times) : 0;
    case OP_COLLECTIVE_PERMUTE:
        return n > 0 ? part(in_bytes, 1, 1, times) : 0;
    default:
        return 0;
    }
}

/* ---- groups and pairs -------------------------------------------------------------------------------- */

static void read_groups(const struct lister *l, const struct instr *in, struct collective *c)
{
    const struct attr *a = instr_attr(in, ATTR_REPLICA_GROUPS);
    c->ngroups = 1;
    c->group_size = l->np; /* groups not given: all partitions */
    if (!a || a->type != ATTR_TYPE_GROUPS)
        return;
    c->raw = a->groups;
    if (a->groups->none)
        return;
    if (a->groups->uniform) {
        c->groups = a->groups->tiles;
        c->ngroups = c->groups.dims[0];
        c->group_size = c->groups.dims[1];
        return;
    }
    c->ngroups = a->groups->nlists;
    c->group_size = 0;
    for (int64_t i = 0; i < a->groups->nlists; i++)
        c->group_size = max_i64(c->group_size, a->groups->sizes[i]);
}

/* Senders along a shifted axis: a whole turn with wrap, else those that stay inside. */
static int64_t shifted(const struct permute_pairs *p)
{
    int64_t cells = 1, dim = p->from.dims[p->axis];
    for (int i = 0; i < p->from.naxes; i++)
        if (i != p->axis)
            cells *= p->from.dims[i];
    int64_t taking = p->limit ? min_i64(p->limit, dim) : dim;
    int64_t d = p->shift < 0 ? -p->shift : p->shift;
    if (p->wrap)
        return taking > 0 && d % taking == 0 ? 0 : cells * taking;
    return d == 0 ? 0 : cells * max_i64(0, taking - d);
}

static int64_t moving(const struct lister *l, const struct permute_pairs *p)
{
    struct shardings *t = l->m->ir->shardings;
    int64_t n = 0;
    switch (p->kind) {
    case PAIRS_LIST:
        for (int64_t i = 0; i < p->n; i++)
            n += p->list[2 * i] != p->list[2 * i + 1];
        return n;
    case PAIRS_SHIFT:
        return shifted(p);
    case PAIRS_TILINGS:
        return permute_moving(t, p->from, p->to);
    }
    return n;
}

static int dimension_of(const struct instr *in)
{
    int n;
    const int64_t *d = instr_ints(in, ATTR_DIMENSIONS, &n);
    return n ? (int)d[0] : (int)instr_int(in, ATTR_SPLIT_DIMENSION, -1);
}

static void read_members(const struct lister *l, const struct instr *in, struct collective *c)
{
    if (c->kind == OP_COLLECTIVE_PERMUTE) {
        const struct attr *a = instr_attr(in, ATTR_SOURCE_TARGET_PAIRS);
        if (a && a->type == ATTR_TYPE_PAIRS) {
            c->pairs = a->pairs;
            c->group_size = moving(l, a->pairs);
        }
    } else {
        read_groups(l, in, c);
        c->dimension = dimension_of(in);
    }
}

int64_t collective_bytes(const struct module *m, int64_t num_partitions, instr_id id)
{
    struct lister l = { .m = m, .np = max_i64(num_partitions, 1), .nr = 1 };
    const struct instr *in = instr_at(m, id);
    struct collective c = { .instr = id, .kind = plain((enum op_kind)in->op) };
    read_members(&l, in, &c);
    return bytes_of(&l, in, c.kind, c.group_size, 1);
}

static void one(struct lister *l, comp_id comp, instr_id id)
{
    const struct instr *in = instr_at(l->m, id);
    struct collective c = { .instr = id, .kind = plain((enum op_kind)in->op), .dimension = -1,
                            .trip_count = l->trips[comp.i], .trip_known = l->known[comp.i],
                            .branch = l->branch[comp.i] };
    read_members(l, in, &c);
    c.bytes = bytes_of(l, in, c.kind, c.group_size, c.trip_count);
    if (!add_ok(l->total[comp.i], c.bytes, &l->total[comp.i]))
        l->total[comp.i] = INT64_MAX;
    vec_push(l->a, &l->out, c);
}

/* ---- computations ---------------------------------------------------------------------------------------- */

enum { TRIP_STEPS = 2000000 };

/* Loops around what i calls. Callers come before callees here. */
static void into_called(struct lister *l, comp_id comp, instr_id i)
{
    const struct instr *in = instr_at(l->m, i);
    comp_id called[256];
    int n = instr_called(l->m, i, called, 256);
    if (!n)
        return;
    int64_t trips = l->trips[comp.i];
    bool known = l->known[comp.i];
    if (in->op == OP_WHILE) {
        int64_t t = while_trip_count(l->m, i, TRIP_STEPS);
        known = known && t >= 0;
        if (t < 0)
            t = 1;
        if (!mul_ok(trips, t, &trips))
            trips = INT64_MAX;
    }
    for (int k = 0; k < n && k < 256; k++) {
        uint32_t c = called[k].i;
        if (!add_ok(l->trips[c], trips, &l->trips[c]))
            l->trips[c] = INT64_MAX;
        l->known[c] = l->known[c] && known;
        if (l->reached[c])
            continue;
        l->reached[c] = true;
        l->branch[c] = in->op == OP_CONDITIONAL ? k : l->branch[comp.i];
    }
}

/* Bytes of a computation and of what it calls; the costliest branch of a conditional. A computation
 * that several call is counted with the first of them: its trips are those of all. Callees first. */
static void sum_up(struct lister *l, comp_id comp)
{
    const struct computation *c = comp_at(l->m, comp);
    int64_t *sum = &l->total[comp.i];
    for (uint32_t k = 0; k < c->ninstrs; k++) {
        const struct instr *in = instr_at(l->m, c->instrs[k]);
        comp_id called[256];
        int n = instr_called(l->m, c->instrs[k], called, 256);
        int64_t inside = 0;
        for (int j = 0; j < n && j < 256; j++) {
            uint32_t i = called[j].i;
            int64_t x = l->reached[i] ? l->total[i] : 0;
            l->reached[i] = false;
            if (in->op == OP_CONDITIONAL)
                inside = max_i64(inside, x);
            else if (!add_ok(inside, x, &inside))
                inside = INT64_MAX;
        }
        if (!add_ok(*sum, inside, sum))
            *sum = INT64_MAX;
    }
}

int64_t collectives_list(const struct module *m, int64_t num_partitions, int64_t replica_count,
                         struct arena *a, struct collective **out, int64_t *total)
{
    struct lister l = { .m = m, .np = max_i64(num_partitions, 1), .nr = max_i64(replica_count, 1),
                        .a = a };
    int64_t n = (int64_t)module_ncomps(m) + 1;
    l.total = ARENA_ARRAY(a, int64_t, n);
    l.trips = ARENA_ARRAY(a, int64_t, n);
    l.known = ARENA_ARRAY(a, bool, n);
    l.branch = ARENA_ARRAY(a, int, n);
    l.reached = ARENA_ARRAY(a, bool, n);
    for (int64_t i = 0; i < n; i++) {
        l.known[i] = true;
        l.branch[i] = -1;
    }
    l.trips[m->entry.i] = 1;
    uint32_t ncomps;
    const comp_id *order = module_call_order(m, false, a, &ncomps);
    l.reached[m->entry.i] = true;
    for (uint32_t k = ncomps; k-- > 0;) {
        const struct computation *c = comp_at(m, order[k]);
        for (uint32_t i = 0; i < c->ninstrs; i++)
            into_called(&l, order[k], c->instrs[i]);
    }
    for (uint32_t k = 0; k < ncomps; k++) {
        const struct computation *c = comp_at(m, order[k]);
        for (uint32_t i = 0; i < c->ninstrs; i++) {
            enum op_kind op = (enum op_kind)instr_at(m, c->instrs[i])->op;
            if (op_is_collective(op) && !is_done(op))
                one(&l, order[k], c->instrs[i]);
        }
    }
    for (uint32_t k = 0; k < ncomps; k++)
        sum_up(&l, order[k]);
    *out = l.out.v;
    if (total)
        *total = l.total[m->entry.i];
    return l.out.n;
}
