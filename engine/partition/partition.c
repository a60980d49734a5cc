/* The driver (S-114..S-127): shardings of everything, one computation after the other, one handler
 * an operation.
 */
#include "partition/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "partition/best_ways.h"

void partition_options_default(struct partition_options *o)
{
    memset(o, 0, sizeof *o);
    o->all_gather = true;
    o->windowed_einsum_mib = 100000;
    o->halo_always_on_lhs = true;
    o->full = true;
    for (int k = 0; k < PASS_COUNT; k++)
        o->pass[k] = true;
}

/* ---- handlers ------------------------------------------------------------------------------------------ */

static const partition_fn handlers[OP_COUNT] = {
#define OP(id, hlo, shlo, lo, hi, v, p, part, e, c) [OP_##id] = partition_##part,
#include "ir/ops.def"
};

/* ---- messages ------------------------------------------------------------------------------------------ */

struct span source_span(const struct spmd *s, instr_id source)
{
    return source.i ? instr_at(s->src, source)->at : (struct span){ 0, 0 };
}

static instr_id working(const struct spmd *s, instr_id source)
{
    return s->origin && source.i ? s->origin[source.i] : source;
}

bool spmd_error(struct spmd *s, instr_id source, const char *fmt, ...)
{
    if (s->failed)
        return false;
    s->failed = true;
    va_list ap;
    va_start(ap, fmt);
    struct str text = STR_IN(&s->arena);
    str_addv(&text, fmt, ap);
    va_end(ap);
    const char *name = source.i ? name_text(s->ir, instr_at(s->src, source)->name) : "";
    const struct source *src = s->src->source ? s->src->source : s->prop->graph->loaded->source;
    return diag_error(s->diag, src, source_span(s, source), "%s%s%s", name, name[0] ? ": " : "",
                      str_text(&text));
}

void note_remat(struct spmd *s, sharding_id from, sharding_id to, bool fallback, const char *reason)
{
    vec_push(&s->arena, &s->remats,
             ((struct remat_note){ .source = s->serving,
                                   .from = from,
                                   .to = to,
                                   .fallback = fallback,
                                   .reason = reason }));
}

/* ---- values of the source ------------------------------------------------------------------------------- */

sharding_id source_sharding(const struct spmd *s, instr_id source)
{
    return s->shardings[source.i];
}

static struct pval *value_at(struct spmd *s, instr_id source)
{
    uint32_t at = s->values[source.i];
    INVARIANT(at, "%s is used before it is partitioned",
              name_text(s->ir, instr_at(s->src, source)->name));
    return &s->pvals.v[at - 1];
}

struct pval operand_value(struct spmd *s, instr_id source, uint32_t k)
{
    return *value_at(s, instr_operand(s->src, source, k));
}

/* A node of its own for what glue computed: caches are the source value's, not the glue's. */
static instr_id own_node(struct spmd *s, instr_id n)
{
    if ((int64_t)n.i >= s->info.n || !s->info.v[n.i].glue)
        return n;
    const struct instr *in = instr_at(s->out, n);
    instr_id m = instr_new(s->out, s->comp, (enum op_kind)in->op, in->shape, in->noperands,
                           in->operands, in->nattrs, in->attrs);
    in = instr_at(s->out, n);
    instr_at(s->out, m)->literal = in->literal;
    while (s->info.n <= (int64_t)m.i)
        vec_push(&s->arena, &s->info, (struct node_info){ 0 });
    s->info.v[m.i] = s->info.v[n.i];
    s->info.v[m.i].glue = false;
    uint64_t same;
    if (map_get(&s->known_equal, n.i, &same))
        map_put(&s->known_equal, m.i, same);
    return m;
}

void set_value(struct spmd *s, instr_id source, struct pval v)
{
    v.local = own_node(s, v.local);
    if ((int64_t)v.local.i < s->info.n)
        s->info.v[v.local.i].sharding = v.sharding;
    vec_push(&s->arena, &s->pvals, v);
    s->values[source.i] = (uint32_t)s->pvals.n;
}

/* ---- manual regions, S-125, S-126 ------------------------------------------------------------------------- */

/* What was replaced while one instruction was handled. */
struct replaced {
    uint32_t n;
    instr_id *of;
    sharding_id *sharding;
    sharding_id *value;  /* label of the operand's value */
    bool *has_value;
};

static sharding_id map_leaves(struct spmd *s, sharding_id sh,
                              sharding_id (*fn)(struct spmd *, sharding_id, void *), void *ctx)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return fn(s, sh, ctx);
    sharding_id *leaves = ARENA_ARRAY(&s->arena, sharding_id, x->nelems);
    for (int64_t i = 0; i < x->nelems; i++)
        leaves[i] = fn(s, x->elems[i], ctx);
    return sharding_tuple(s->sh, x->nelems, leaves);
}

static sharding_id manual_to_device0(struct spmd *s, sharding_id sh, void *ctx)
{
    (void)ctx;
    return sharding_is_manual(s->sh, sh) ? sharding_maximal(s->sh, 0) : sh;
}

static void remember(struct spmd *s, instr_id source, struct replaced *r)
{
    const struct instr *in = instr_at(s->src, source);
    uint32_t n = in->noperands + 1;
    r->n = n;
    r->of = ARENA_ARRAY(&s->arena, instr_id, n);
    r->sharding = ARENA_ARRAY(&s->arena, sharding_id, n);
    r->value = ARENA_ARRAY(&s->arena, sharding_id, n);
    r->has_value = ARENA_ARRAY(&s->arena, bool, n);
    for (uint32_t k = 0; k < n; k++) {
        r->of[k] = k ? in->operands[k - 1] : source;
        r->sharding[k] = s->shardings[r->of[k].i];
        r->has_value[k] = k > 0;
        if (k)
            r->value[k] = value_at(s, r->of[k])->sharding;
    }
}

static void restore(struct spmd *s, const struct replaced *r)
{
    for (uint32_t k = 0; k < r->n; k++)
        s->shardings[r->of[k].i] = r->sharding[k];
    for (uint32_t k = 0; k < r->n; k++)
        if (r->has_value[k])
            value_at(s, r->of[k])->sharding = r->value[k];
    uint32_t at = s->values[r->of[0].i];
    if (at)
        s->pvals.v[at - 1].sharding = r->sharding[0];
}

static bool has_manual_leaf(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return x->kind == SHARDING_MANUAL;
    for (int64_t i = 0; i < x->nelems; i++)
        if (sharding_get(s->sh, x->elems[i])->kind == SHARDING_MANUAL)
            return true;
    return false;
}

static bool has_subgroup_leaf(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return sharding_is_manual_subgroup(s->sh, sh);
    for (int64_t i = 0; i < x->nelems; i++)
        if (sharding_is_manual_subgroup(s->sh, x->elems[i]))
            return true;
    return false;
}

static bool handles_manual_itself(enum op_kind op)
{
    return op == OP_CONDITIONAL || op == OP_TUPLE || op == OP_PARAMETER || op == OP_WHILE ||
           op == OP_RNG || op == OP_OUTFEED || op == OP_ALL_REDUCE || op == OP_CALL;
}

static bool is_target(const struct spmd *s, instr_id i, const char *target)
{
    const struct instr *in = instr_at(s->src, i);
    return in->op == OP_CUSTOM_CALL && strcmp(instr_target(s->src, in), target) == 0;
}

static void run_handler(struct spmd *s, instr_id source)
{
    enum op_kind op = (enum op_kind)instr_at(s->src, source)->op;
    best_way way = best_wanted(s) ? best_way_of(op) : NULL;
    if (way)
        (void)best_handler(s, source, way, handlers[op]);
    else
        handlers[op](s, source);
}

/* S-125: no communication, the shape stays. */
static void handle_manual(struct spmd *s, instr_id source)
{
    struct replaced r;
    remember(s, source, &r);
    enum op_kind op = (enum op_kind)instr_at(s->src, source)->op;
    bool own = op == OP_CUSTOM_CALL || op == OP_PARTITION_ID;
    for (uint32_t k = 0; k < r.n; k++) {
        if (k || !own)
            s->shardings[r.of[k].i] = map_leaves(s, r.sharding[k], manual_to_device0, NULL);
        if (k) {
            struct pval *v = value_at(s, r.of[k]);
            v->sharding = map_leaves(s, r.value[k], manual_to_device0, NULL);
        }
    }
    run_handler(s, source);
    restore(s, &r);
}

struct inner_ctx {
    const struct sharding_group *ref;
    bool bad;
};

/* Leaves of manual subgroups as seen inside the groups of ref; others stay. */
static sharding_id inner_of(struct spmd *s, sharding_id sh, void *ctx)
{
    struct inner_ctx *c = ctx;
    if (!sharding_is_manual_subgroup(s->sh, sh))
        return sh;
    struct sharding_group g;
    sharding_group_on_manual(s->sh, sh, &g);
    c->bad = !sharding_group_align_strict(s->sh, &g, c->ref) || c->bad;
    return g.inner;
}

static sharding_id first_subgroup(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return sh;
    for (int64_t i = 0; i < x->nelems; i++)
        if (sharding_is_manual_subgroup(s->sh, x->elems[i]))
            return x->elems[i];
    return sh;
}

/* S-126 */
static void handle_subgroup(struct spmd *s, instr_id source)
{
    struct replaced r;
    remember(s, source, &r);
    struct sharding_group ref;
    sharding_group_on_manual(s->sh, first_subgroup(s, r.sharding[0]), &ref);
    struct inner_ctx c = { &ref, false };
    s->shardings[source.i] = map_leaves(s, r.sharding[0], inner_of, &c);
    if (c.bad)
        (void)spmd_error(s, source, "the elements of its tuple are manual over different groups of devices");
    for (uint32_t k = 1; k < r.n && !s->failed; k++) {
        const struct instr *op = instr_at(s->src, r.of[k]);
        const struct shape *sh = shape_get(s->ir, op->shape);
        bool exempt = op->op == OP_CONSTANT && sh->kind == SHAPE_ARRAY && sh->rank == 0;
        if (!has_subgroup_leaf(s, r.sharding[k])) {
            if (!exempt && !sharding_is_replicated(s->sh, r.sharding[k]) && sh->nleaves)
                (void)spmd_error(s, source, "operand '%s' is not manual over the groups of devices that this value is",
                                 name_text(s->ir, op->name));
            continue;
        }
        s->shardings[r.of[k].i] = map_leaves(s, r.sharding[k], inner_of, &c);
        struct pval *v = value_at(s, r.of[k]);
        v->sharding = map_leaves(s, r.value[k], inner_of, &c);
        if (c.bad)
            (void)spmd_error(s, source, "operand '%s' is manual over other groups of devices than this value",
                             name_text(s->ir, op->name));
    }
    if (!s->failed) {
        groups_enter(s, ref.groups);
        run_handler(s, source);
        groups_leave(s);
    }
    restore(s, &r);
}

void partition_instr(struct spmd *s, instr_id source)
{
    const struct instr *in = instr_at(s->src, source);
    enum op_kind op = (enum op_kind)in->op;
    sharding_id sh = s->shardings[source.i];
    s->serving = working(s, source);
    s->reason = NULL;
    bool conversion = is_target(s, source, "SPMDFullToShardShape");
    if (!handles_manual_itself(op) && has_manual_leaf(s, sh) && !conversion) {
        handle_manual(s, source);
    } else if (!handles_manual_itself(op) && has_subgroup_leaf(s, sh) && !conversion &&
               !is_target(s, source, "SPMDShardToFullShape") && op != OP_GET_TUPLE_ELEMENT) {
        handle_subgroup(s, source);
    } else {
        run_handler(s, source);
    }
    s->reason = NULL;
}

/* ---- the default action, S-127 ------------------------------------------------------------------------------ */

static bool unique_device_of(const struct spmd *s, instr_id source, int64_t *device)
{
    sharding_id sh = source_sharding(s, source);
    return sharding_unique_device(s->sh, sh, device);
}

static bool stays(const struct spmd *s, sharding_id from, sharding_id to)
{
    return from.i == to.i || sharding_is_replicated(s->sh, from);
}

static void default_action(struct spmd *s, instr_id source, const char *why, bool fallback)
{
    const struct instr *in = instr_at(s->src, source);
    sharding_id out = source_sharding(s, source);
    int64_t device = -1;
    bool unique = unique_device_of(s, source, &device);
    if (instr_has_side_effect(s->src, source) && !unique) {
        (void)spmd_error(s, source, "%s has a side effect and cannot run on every device: give it one, like {maximal device=0}",
                         op_name((enum op_kind)in->op));
        return;
    }
    sharding_id common = unique ? sharding_maximal(s->sh, device) : sharding_replicated(s->sh);
    instr_id *ops = ARENA_ARRAY(&s->arena, instr_id, in->noperands + 1);
    bool moved = false;
    const char *old = s->reason;
    if (why)
        s->reason = why;
    sharding_id from = common;
    for (uint32_t k = 0; k < in->noperands; k++) {
        struct pval v = operand_value(s, source, k);
        const struct shape *b = shape_get(s->ir, v.base);
        sharding_id to = b->kind == SHAPE_TUPLE ? sharding_tuple_of(s->sh, b->nleaves, common)
                                                : common;
        if (!stays(s, v.sharding, to)) {
            if (!moved)
                from = v.sharding;
            moved = true;
        }
        ops[k] = reshard(s, v, to).local;
    }
    instr_id local = emit_clone(s, source, in->shape, in->noperands, ops);
    const struct shape *sh = shape_get(s->ir, in->shape);
    sharding_id label = sh->kind == SHAPE_TUPLE ? sharding_tuple_of(s->sh, sh->nleaves, common)
                                                : common;
    if (why && (moved || !stays(s, out, label))) {
        note_remat(s, from, out, fallback, why);
        s->remats.v[s->remats.n - 1].operation = !fallback;
    }
    set_value(s, source, reshard(s, pval_make(s, local, in->shape, label), out));
    s->reason = old;
}

void partition_default(struct spmd *s, instr_id source, const char *why)
{
    default_action(s, source, why, true);
}

void partition_whole(struct spmd *s, instr_id source, const char *why)
{
    default_action(s, source, why, false);
}

void partition_safe(struct spmd *s, instr_id source)
{
    partition_whole(s, source, "XLA has no rule for this operation: every device computes all of it (S-127)");
}

/* ---- a computation, S-124 ------------------------------------------------------------------------------------- */

enum { DEPTH_LIMIT = 400 };

comp_id partition_computation(struct spmd *s, comp_id c, sharding_id root)
{
    const struct computation *comp = comp_at(s->src, c);
    if (s->depth >= DEPTH_LIMIT) {
        (void)spmd_error(s, comp->root, "loops and branches are nested more than %d deep",
                         DEPTH_LIMIT);
        return (comp_id){ 0 };
    }
    comp_id outer = s->comp, out;
    struct store_mark mark;
    if (store_find(s, c, root, &out, &mark))
        return out;
    s->depth++;
    const char *name = arena_printf(&s->arena, "%s_spmd", name_text(s->ir, comp->name));
    out = comp_new(s->out, name_put(s->ir, name, strlen(name)));
    struct group_set *groups = s->groups;
    instr_id serving = s->serving;
    const char *reason = s->reason;
    while (s->groups->outer)
        s->groups = s->groups->outer;
    s->comp = out;
    for (uint32_t i = 0; i < comp->ninstrs; i++) /* it may be called twice */
        s->values[comp->instrs[i].i] = 0;
    uint32_t n;
    const instr_id *order = store_post_order(s, c, &n);
    /* Parameters keep their places whether or not the root wants them. */
    for (uint32_t i = 0; i < comp->nparams && !s->failed; i++)
        partition_instr(s, comp->params[i]);
    for (uint32_t i = 0; i < n && !s->failed; i++) {
        if (instr_at(s->src, order[i])->op == OP_PARAMETER)
            continue;
        if (!tick_poll(s->tick, "partition", order[i].i, module_ninstrs(s->src))) {
            s->failed = true;
            const char *code = s->diag ? diag_stage(s->diag, "interrupted") : NULL;
            (void)diag_error(s->diag, NULL, (struct span){ 0, 0 }, "interrupted");
            if (s->diag)
                (void)diag_stage(s->diag, code);
            break;
        }
        partition_instr(s, order[i]);
    }
    instr_id result = { 0 };
    if (!s->failed) {
        s->serving = working(s, comp->root);
        result = reshard(s, *value_at(s, comp->root), root).local;
    }
    if (!s->failed)
        comp_finish(s->out, out, result);
    s->comp = outer;
    s->groups = groups;
    s->serving = serving;
    s->reason = reason;
    s->depth--;
    if (!s->failed)
        store_note(s, &mark, c, out);
    return out;
}

/* ---- shardings of everything, S-115 ---------------------------------------------------------------------------- */

static bool may_be_replicated(enum op_kind op)
{
    return op == OP_INFEED || op == OP_OUTFEED || op == OP_RNG_GET_AND_UPDATE_STATE;
}

static bool own_side_effect(const struct spmd *s, instr_id i)
{
    enum op_kind op = (enum op_kind)instr_at(s->src, i)->op;
    return instr_has_side_effect(s->src, i) && op != OP_RNG && op != OP_WHILE &&
           op != OP_CONDITIONAL && op != OP_CALL && op != OP_FUSION && op != OP_PARAMETER;
}

static bool has_replicated_leaf(const struct spmd *s, sharding_id sh)
{
    const struct sharding *x = sharding_get(s->sh, sh);
    if (x->kind != SHARDING_TUPLE)
        return x->kind == SHARDING_REPLICATED;
    for (int64_t i = 0; i < x->nelems; i++)
        if (has_replicated_leaf(s, x->elems[i]))
            return true;
    return false;
}

/* The program is one for all devices: what is unknown is whole on each, and so is what propagation
 * without spmd leaves with some of them, or split along a dimension that the array has not (P-125). */
static sharding_id for_all(const struct spmd *s, const struct shape *sh, sharding_id leaf)
{
    const struct sharding *x = sharding_get(s->sh, leaf);
    bool odd = x->kind == SHARDING_TILED && (sharding_total(s->sh, leaf) != s->prog->num_partitions ||
                                             (sh->kind == SHAPE_ARRAY && x->data_rank != sh->rank));
    return odd || x->kind == SHARDING_UNKNOWN || x->kind == SHARDING_NONE ? sharding_replicated(s->sh) : leaf;
}

/* One sharding a leaf for tuples, one alone otherwise. */
static sharding_id shaped(struct spmd *s, shape_id shape, sharding_id given)
{
    const struct sharding *x = sharding_get(s->sh, given);
    const struct shape *sh = shape_get(s->ir, shape);
    if (sh->kind != SHAPE_TUPLE) {
        if (x->kind == SHARDING_TUPLE)
            given = x->nelems ? x->elems[0] : sharding_replicated(s->sh);
        return for_all(s, sh, given);
    }
    if (x->kind != SHARDING_TUPLE)
        return sharding_tuple_of(s->sh, sh->nleaves, for_all(s, sh, given));
    sharding_id *leaves = NULL; /* most stay as they are */
    for (int64_t i = 0; i < x->nelems; i++) {
        const struct shape *leaf = i < sh->nleaves ? shape_get(s->ir, shape_leaf(s->ir, shape, i)) : sh;
        sharding_id y = for_all(s, leaf, x->elems[i]);
        if (y.i == x->elems[i].i)
            continue;
        if (!leaves)
            leaves = arena_copy(&s->arena, x->elems, x->nelems, sizeof *leaves);
        leaves[i] = y;
    }
    return leaves ? sharding_tuple(s->sh, x->nelems, leaves) : given;
}

static bool has_partitioner(const struct spmd *s, const struct instr *in)
{
    const char *t = instr_target(s->src, in);
    return in->op == OP_CUSTOM_CALL && (strcmp(t, "SPMDFullToShardShape") == 0 ||
                                        strcmp(t, "SPMDShardToFullShape") == 0 ||
                                        strcmp(t, "Sharding") == 0);
}

static bool preprocess(struct spmd *s)
{
    uint32_t n = module_ninstrs(s->src);
    s->shardings = ARENA_ARRAY(&s->arena, sharding_id, (int64_t)n + 1);
    uint32_t known = module_ninstrs(s->prop->graph->module);
    for (uint32_t i = 1; i <= n; i++) {
        const struct instr *in = instr_at(s->src, (instr_id){ i });
        sharding_id given = i <= known ? s->prop->final[i] : in->sharding;
        const struct shape *sh = shape_get(s->ir, in->shape);
        enum op_kind op = (enum op_kind)in->op;
        if (sh->kind == SHAPE_ARRAY && sh->rank > RANK_LIMIT)
            return spmd_error(s, (instr_id){ i }, "an array of rank %d; at most %d are partitioned",
                              sh->rank, RANK_LIMIT);
        if (own_side_effect(s, (instr_id){ i }) && !has_partitioner(s, in)) {
            if (!given.i)
                return spmd_error(s, (instr_id){ i }, "%s has a side effect and needs a sharding, like {maximal device=0}",
                                  op_name(op));
            if (!may_be_replicated(op) && has_replicated_leaf(s, given))
                return spmd_error(s, (instr_id){ i },
                                  "%s has a side effect and cannot be replicated over the devices",
                                  op_name(op));
        }
        if (!given.i && op == OP_RNG)
            given = sharding_maximal(s->sh, 0);
        /* An outfeed has one for each leaf that it sends, and one for its token. */
        s->shardings[i] = op == OP_OUTFEED && given.i ? given : shaped(s, in->shape, given);
    }
    return true;
}

static void first_channel(struct spmd *s)
{
    s->channel = 1;
    for (uint32_t i = 1; i <= module_ninstrs(s->src); i++)
        s->channel = max_i64(s->channel,
                             instr_int(instr_at(s->src, (instr_id){ i }), ATTR_CHANNEL_ID, 0) + 1);
    s->first_channel = s->channel;
}

/* ---- the module ---------------------------------------------------------------------------------------------------- */

static void copy_header(struct spmd *s)
{
    struct module *to = s->out;
    const struct module *from = s->src;
    to->num_partitions = s->prog->num_partitions;
    to->replica_count = s->opt->replica_count > 1 ? s->opt->replica_count : from->replica_count;
    to->tables = from->tables;
    to->tables_len = from->tables_len;
    to->print_style = from->print_style;
}

static void boundary(struct spmd *s)
{
    struct program *p = s->prog;
    const struct computation *c = comp_at(s->src, s->src->entry);
    p->nparams = c->nparams;
    p->param_sharding = ARENA_ARRAY(&p->arena, sharding_id, c->nparams + 1);
    p->param_shape = ARENA_ARRAY(&p->arena, shape_id, c->nparams + 1);
    for (uint32_t i = 0; i < c->nparams; i++) {
        p->param_sharding[i] = s->shardings[c->params[i].i];
        p->param_shape[i] = instr_at(s->src, c->params[i])->shape;
    }
    p->result_sharding = s->shardings[c->root.i];
    p->result_shape = instr_at(s->src, c->root)->shape;
}

static bool run(struct spmd *s)
{
    rewrite_patterns(s);
    s->users = store_users(s);
    boundary(s);
    first_channel(s);
    int64_t all[2] = { 1, s->prog->num_partitions };
    groups_enter(s, tiling_make(s->sh, 2, all, order_iota(s->sh, all[1])));
    s->values = ARENA_ARRAY(&s->arena, uint32_t, (int64_t)module_ninstrs(s->src) + 1);
    store_open(s);
    comp_id entry = partition_computation(s, s->src->entry, s->prog->result_sharding);
    if (s->failed)
        return false;
    s->out->entry = entry;
    comp_at(s->out, entry)->entry = true;
    s->prog->made_nodes = module_ninstrs(s->out) - s->prog->reused_nodes;
    cleanup_first(s);
    windowed_motion(s);
    if (s->opt->full)
        full_passes(s, entry);
    return program_finish(s, entry);
}

static void spmd_open(struct spmd *s)
{
    arena_open(&s->arena);
    map_init(&s->nodes, &s->arena);
    intern_init(&s->reshard_keys, &s->arena);
    map_init(&s->known_equal, &s->arena);
    map_init(&s->copied, &s->arena);
    map_init(&s->reducers, &s->arena);
}

/* A frame of our own, so that what is not in an arena goes too. */
static bool guarded(struct spmd *s, struct fail_frame *f)
{
    if (!FAIL_ENTER(f))
        return false;
    copy_header(s);
    bool ok = preprocess(s) && run(s);
    fail_leave(f);
    return ok;
}

static void best_open(struct spmd *s, const bool *plain)
{
    if (!s->opt->best)
        return;
    s->best = ARENA_NEW(&s->arena, struct best_run);
    s->best->plain = plain;
}

static void best_close(struct spmd *s)
{
    if (!s->best)
        return;
    s->prog->nbest = s->best->notes.n;
    s->prog->bests = arena_copy(&s->prog->arena, s->best->notes.v, s->best->notes.n,
                                sizeof *s->best->notes.v);
}

struct program *partition(const struct propagation *p, const struct partition_options *o,
                          struct tick *tick, struct diag *d)
{
    bool cheaper = o->best || o->no_rule == NO_RULE_BEST || (o->no_rule == NO_RULE_AUTO && o->full);
    return cheaper ? best_program(p, o, tick, d) : partition_as(p, o, NULL, tick, d);
}

struct program *partition_as(const struct propagation *p, const struct partition_options *o,
                             const bool *plain, struct tick *tick, struct diag *d)
{
    struct program *prog = calloc(1, sizeof *prog);
    if (!prog)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "a program is not to be had");
    const struct module *src = p->graph->module;
    int64_t n = o->num_partitions > 0 ? o->num_partitions
                : src->num_partitions > 0 ? src->num_partitions : 1;
    prog->num_partitions = n;
    struct spmd s = { .prop = p, .src = src, .prog = prog, .ir = src->ir, .sh = src->ir->shardings,
                      .opt = o, .tick = tick, .diag = d };
    const char *stage = d ? diag_stage(d, "partition") : NULL;
    spmd_open(&s);
    best_open(&s, plain);
    struct module *scratch = s.out = module_new(src->ir, src->name);
    prog->module = scratch;
    struct fail_frame f;
    bool ok = guarded(&s, &f);
    if (ok)
        best_close(&s);
    if (s.src != src)
        module_free((struct module *)(uintptr_t)s.src);
    arena_close(&s.arena);
    if (d)
        (void)diag_stage(d, stage);
    if (prog->module != scratch)
        module_free(scratch);
    if (ok)
        return prog;
    program_free(prog);
    if (f.text[0]) /* a bug of ours or no memory: the client's frame is told */
        fail_raise(f.kind, __FILE__, __LINE__, "%s", f.text);
    return NULL;
}

void program_free(struct program *p)
{
    if (!p)
        return;
    module_free(p->module);
    arena_free(&p->arena);
    free(p);
}
