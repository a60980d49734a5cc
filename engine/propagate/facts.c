/* What the rules ask of the working graph (P-53, P-59, P-60, P-92..P-94), computed once. */
#include <string.h>

#include "propagate/internal.h"

static const uint8_t families[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)               \
    [OP_##id] = FAMILY_##propagate,
#include "ir/ops.def"
};

bool same_dims(const struct pass *p, instr_id a, instr_id b)
{
    shape_id x = p->facts ? p->facts[a.i].shape : at(p, a)->shape, y = p->facts ? p->facts[b.i].shape : at(p, b)->shape;
    return x.i == y.i || shape_same_dims(p->ir, x, y);
}

int operand_position(const struct pass *p, instr_id user, instr_id i)
{
    const struct instr *u = at(p, user);
    for (uint32_t k = 0; k < u->noperands; k++)
        if (u->operands[k].i == i.i)
            return (int)k;
    return -1;
}

/* Tuples of thousands of leaves are asked for each of them: sums once a shape. */
int64_t leaf_offset(struct pass *p, instr_id tuple, int64_t k)
{
    shape_id id = at(p, tuple)->shape;
    const struct shape *s = shape_get(p->ir, id);
    uint64_t known;
    if (!p->leaf_sums.arena)
        map_init(&p->leaf_sums, p->arena);
    if (!map_get(&p->leaf_sums, id.i, &known)) {
        int64_t *sums = ARENA_ARRAY(p->arena, int64_t, s->nelems + 1);
        for (int64_t j = 0; j < s->nelems; j++)
            sums[j + 1] = sums[j] + shape_get(p->ir, s->elems[j])->nleaves;
        known = (uint64_t)(uintptr_t)sums;
        map_put(&p->leaf_sums, id.i, known);
    }
    return ((const int64_t *)(uintptr_t)known)[k];
}

/* P-94: calls that hand their operand's layout on. */
static bool passes_through(const struct pass *p, instr_id i, const char *target)
{
    static const char *const always[] = { "Sharding", "X64Combine", "LayoutConstraint" };
    static const char *const same_rank[] = { "ResizeNearest",     "ResizeBilinear",
                                             "ResizeNearestGrad", "ResizeBilinearGrad",
                                             "Cholesky",          "MoveToDevice",
                                             "MoveToHost" };
    const struct instr *ins = at(p, i);
    for (size_t k = 0; k < COUNTOF(always); k++)
        if (strcmp(target, always[k]) == 0)
            return ins->noperands > 0;
    for (size_t k = 0; k < COUNTOF(same_rank); k++) {
        if (strcmp(target, same_rank[k]) != 0 || ins->noperands != 1)
            continue;
        const struct shape *from = shape_of(p, ins->operands[0]), *to = shape_of(p, i);
        return from->kind == SHAPE_ARRAY && to->kind == SHAPE_ARRAY && from->rank == to->rank;
    }
    return false;
}

static enum target target_of(const struct pass *p, instr_id i)
{
    const char *t = instr_target(p->m, at(p, i));
    if (strcmp(t, "Sharding") == 0)
        return TARGET_SHARDING;
    if (strcmp(t, "SPMDFullToShardShape") == 0)
        return TARGET_FULL_TO_SHARD;
    if (strcmp(t, "SPMDShardToFullShape") == 0)
        return TARGET_SHARD_TO_FULL;
    if (strcmp(t, "ShardBarrierFrom") == 0)
        return TARGET_BARRIER_FROM;
    if (strcmp(t, "ShardBarrierTo") == 0)
        return TARGET_BARRIER_TO;
    return passes_through(p, i, t) ? TARGET_PASS_THROUGH : TARGET_OTHER;
}

static uint8_t family_of(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    uint8_t f = families[ins->op];
    if (f == FAMILY_bitcast_convert || f == FAMILY_map || f == FAMILY_fusion)
        return instr_is_elementwise(p->m, i) ? FAMILY_elementwise : FAMILY_none;
    return f;
}

static uint8_t level_of(const struct pass *p, instr_id i, const struct fact *f)
{
    switch ((enum family)f->family) {
    case FAMILY_elementwise:
    case FAMILY_rng:
    case FAMILY_call:
    case FAMILY_concatenate:
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
    case FAMILY_get_tuple_element:
    case FAMILY_reshape:
    case FAMILY_tuple:
    case FAMILY_transpose:
    case FAMILY_while:
        return 0;
    case FAMILY_custom_call:
        return f->target == TARGET_SHARDING ? 0 : 1;
    case FAMILY_operand0:
        return at(p, i)->op == OP_OPT_BARRIER ? 0 : 1;
    case FAMILY_broadcast:
        return 2;
    case FAMILY_source:
        return at(p, i)->op == OP_CONSTANT ? 0 : 1;
    case FAMILY_none:
    case FAMILY_parameter:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_rng_bit_generator:
    case FAMILY_reverse:
    case FAMILY_gather:
    case FAMILY_scatter:
    case FAMILY_dot:
    case FAMILY_convolution:
    case FAMILY_reduce:
    case FAMILY_reduce_window:
    case FAMILY_select_and_scatter:
    case FAMILY_sort:
    case FAMILY_conditional:
    case FAMILY_all_reduce:
    case FAMILY_async:
        return 1;
    }
    return 1;
}

/* P-93 steps 2 to 7; step 1 and parameters are the caller's. */
static bool supported_op(const struct pass *p, const struct fact *f)
{
    switch ((enum family)f->family) {
    case FAMILY_none:
    case FAMILY_call:
    case FAMILY_async:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_parameter:
        return false;
    case FAMILY_rng:
    case FAMILY_reverse:
        return p->o.spmd;
    case FAMILY_custom_call:
        return p->o.spmd && (f->target == TARGET_BARRIER_FROM || f->target == TARGET_BARRIER_TO ||
                             f->target == TARGET_SHARDING || f->target == TARGET_PASS_THROUGH);
    case FAMILY_source:
    case FAMILY_elementwise:
    case FAMILY_rng_bit_generator:
    case FAMILY_operand0:
    case FAMILY_broadcast:
    case FAMILY_reshape:
    case FAMILY_transpose:
    case FAMILY_concatenate:
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
    case FAMILY_gather:
    case FAMILY_scatter:
    case FAMILY_dot:
    case FAMILY_convolution:
    case FAMILY_reduce:
    case FAMILY_reduce_window:
    case FAMILY_select_and_scatter:
    case FAMILY_sort:
    case FAMILY_tuple:
    case FAMILY_get_tuple_element:
    case FAMILY_while:
    case FAMILY_conditional:
    case FAMILY_all_reduce:
        return true;
    }
    return false;
}

/* P-93. */
static bool supported(const struct pass *p, instr_id i, const struct fact *f, bool allow_root,
                      bool allow_parameter)
{
    comp_id c = at(p, i)->comp;
    bool mapped = p->caller[c.i].i != 0;
    if (f->root && !mapped && !(allow_root && c.i == p->m->entry.i))
        return false;
    if (f->family == FAMILY_parameter)
        return allow_parameter || mapped;
    return supported_op(p, f);
}

static bool thread_included(const struct pass *p, const char *name)
{
    if (p->o.nthreads == 0)
        return true;
    for (int k = 0; k < p->o.nthreads; k++)
        if (strcmp(p->o.threads[k], name) == 0)
            return true;
    return false;
}

bool comp_included(const struct pass *p, comp_id c)
{
    const char *thread = name_text(p->ir, comp_at(p->m, c)->thread);
    return p->g->comp_used[c.i] && thread_included(p, *thread ? thread : "main");
}

/* P-96: shapes and opcodes that take {manual} from an operand. */
static bool manual_ok(const struct pass *p, instr_id i, const struct fact *f)
{
    if (f->shape_kind == SHAPE_ARRAY)
        return true;
    if (f->family == FAMILY_reduce || f->family == FAMILY_sort || f->family == FAMILY_reduce_window)
        return true;
    if (f->family == FAMILY_custom_call)
        return f->shape_kind == SHAPE_TUPLE;
    if (f->family != FAMILY_async)
        return false;
    /* async-update and -done belong to the thread of their start. */
    for (int depth = 0; depth < 1000; depth++) {
        const struct instr *ins = at(p, i);
        const struct attr *a = instr_attr(ins, ATTR_ASYNC_EXECUTION_THREAD);
        if (a) {
            char name[256];
            size_t n = a->n < sizeof name ? a->n : sizeof name - 1;
            memcpy(name, a->text, n);
            name[n] = 0;
            return !thread_included(p, name);
        }
        if (ins->op == OP_ASYNC_START || !ins->noperands)
            break;
        i = ins->operands[0];
    }
    return !thread_included(p, "main");
}

/* Rules of a user that ask for its other operands, too: P-125, P-126, P-128..P-130. */
static bool asks_operands(enum family f)
{
    switch (f) {
    case FAMILY_dot:
    case FAMILY_convolution:
    case FAMILY_reduce:
    case FAMILY_gather:
    case FAMILY_scatter:
        return true;
    case FAMILY_none:
    case FAMILY_source:
    case FAMILY_parameter:
    case FAMILY_elementwise:
    case FAMILY_bitcast_convert:
    case FAMILY_map:
    case FAMILY_fusion:
    case FAMILY_rng:
    case FAMILY_rng_bit_generator:
    case FAMILY_operand0:
    case FAMILY_broadcast:
    case FAMILY_reshape:
    case FAMILY_transpose:
    case FAMILY_reverse:
    case FAMILY_concatenate:
    case FAMILY_dynamic_slice:
    case FAMILY_dynamic_update_slice:
    case FAMILY_reduce_window:
    case FAMILY_select_and_scatter:
    case FAMILY_sort:
    case FAMILY_tuple:
    case FAMILY_get_tuple_element:
    case FAMILY_while:
    case FAMILY_conditional:
    case FAMILY_call:
    case FAMILY_custom_call:
    case FAMILY_all_reduce:
    case FAMILY_async:
        return false;
    }
    return true;
}

static bool is_sole_user(const struct pass *p, instr_id i)
{
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i), others = 0;
    for (uint32_t k = 0; k < n && others < 2; k++)
        others += !instr_is_root(p->m, u[k]);
    return others == 1;
}

/* P-128: initial values are no arrays; what pads is not operand 0 (P-123). One constant is that of all layers, so
 * that its visits would cost as much as the model is large. */
static bool is_mute_for(const struct pass *p, instr_id user, instr_id i)
{
    const struct instr *u = at(p, user);
    return u->op == OP_REDUCE || (u->op == OP_PAD && u->operands[0].i != i.i);
}

static bool mute(const struct pass *p, instr_id i)
{
    const struct shape *s = shape_of(p, i);
    if (s->kind != SHAPE_ARRAY || s->rank != 0)
        return false;
    const instr_id *u = users_of(p->users, i);
    uint32_t n = users_count(p->users, i);
    for (uint32_t k = 0; k < n; k++)
        if (!is_mute_for(p, u[k], i))
            return false;
    return true;
}

bool facts_make(struct pass *p)
{
    p->facts = ARENA_ARRAY(p->arena, struct fact, p->n + 1);
    for (uint32_t k = 0; k <= p->n; k++)
        p->facts[k].gone = true;
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *comp = comp_at(p->m, (comp_id){ c });
        bool in = comp_included(p, (comp_id){ c });
        for (uint32_t k = 0; k < comp->ninstrs; k++) {
            instr_id i = comp->instrs[k];
            struct fact *f = &p->facts[i.i];
            f->gone = !in;
            f->op = at(p, i)->op;
            f->shape = at(p, i)->shape;
            f->family = family_of(p, i);
            f->shape_kind = (uint8_t)shape_of(p, i)->kind;
            if (f->family == FAMILY_custom_call)
                f->target = (uint8_t)target_of(p, i);
            f->root = comp->root.i == i.i;
            f->asks = asks_operands((enum family)f->family);
            f->level = level_of(p, i, f);
            f->sole_user = is_sole_user(p, i);
            f->forward_ok = supported(p, i, f, p->any_out, false);
            f->backward_ok = supported(p, i, f, false, p->any_parameter);
            f->manual_ok = manual_ok(p, i, f);
            f->mute = mute(p, i);
            f->fed = f->family != FAMILY_parameter || caller_operand(p, i).i != 0;
        }
    }
    return true;
}
