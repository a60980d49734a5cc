/* What the pass does before its first sweep (P-65 steps 1 to 9): annotations become copies, shard
 * groups form, related instructions agree, and what must not change is marked. All of it is time
 * (stage 0, iteration 0). */
#include <stdlib.h>
#include <string.h>

#include "propagate/internal.h"

struct marks { /* shard groups still hanging on shardings, P-3 */
    int8_t *kind;
    int64_t *number;
};

static bool fail(const struct pass *p, instr_id i, const char *text)
{
    return diag_error(p->d, p->m->source, at(p, i)->at, "%s: %s", name_text(p->ir, at(p, i)->name),
                      text);
}

static bool is_sharding_call(const struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    return ins->op == OP_CUSTOM_CALL && ins->noperands > 0 &&
           strcmp(instr_target(p->m, ins), "Sharding") == 0;
}

static bool is_unknown(const struct pass *p, sharding_id s)
{
    return s.i && sharding_is_unknown(p->t, s);
}

/* ---- CSE markers, P-68 -------------------------------------------------------------------------- */

static bool is_cse_marked(const struct instr *ins)
{
    static const char marker[] = "_sharding_propagation_cse_prevention";
    const struct sharding_note *n = ins->note;
    if (!n || !n->leaves || n->nleaves != 1 || n->leaves[0].nmeta != 1)
        return false;
    const char *text = strstr(n->leaves[0].meta[0], "op_name=\"");
    return text && strncmp(text + 9, marker, sizeof marker - 1) == 0 &&
           text[9 + sizeof marker - 1] == '"';
}

static void drop_cse_markers(struct pass *p)
{
    for (uint32_t k = 1; k <= p->n; k++) {
        struct instr *ins = instr_at(p->m, (instr_id){ k });
        if (!ins->sharding.i || !is_cse_marked(ins))
            continue;
        ins->sharding = none();
        ins->note = NULL;
        p->now[k] = none();
        p->changed = true;
    }
}

/* ---- annotations, P-69 and P-70 ----------------------------------------------------------------- */

uint64_t open_dims_of(const struct pass *p, instr_id i, bool *bad)
{
    const struct attr *a = instr_attr(at(p, i), ATTR_BACKEND_CONFIG);
    *bad = false;
    if (!a)
        return 0;
    const char *s = a->text, *end = s + a->n;
    while (s < end && (*s == '"' || *s == '{' || *s == ' '))
        s++;
    while (end > s && (end[-1] == '"' || end[-1] == '}' || end[-1] == ' '))
        end--;
    if (s == end)
        return 0;
    static const char key[] = "unspecified_dims=[";
    *bad = true;
    if ((size_t)(end - s) < sizeof key || memcmp(s, key, sizeof key - 1) != 0 || end[-1] != ']')
        return 0;
    s += sizeof key - 1;
    end--;
    uint64_t bits = 0;
    while (s < end) {
        int64_t v;
        size_t used = parse_i64(s, (size_t)(end - s), &v);
        if (!used || v < 0 || v >= RANK_MAX)
            return 0;
        bits |= UINT64_C(1) << v;
        s += used;
        while (s < end && (*s == ',' || *s == ' '))
            s++;
    }
    *bad = false;
    return bits;
}

static uint64_t group_key(bool as, int64_t number)
{
    return (uint64_t)number << 1 | as;
}

/* Position + 1; 0: none. */
static uint64_t group_known(const struct pass *p, bool as, int64_t number)
{
    uint64_t k = 0;
    return p->group_index.arena && map_get(&p->group_index, group_key(as, number), &k) ? k : 0;
}

static struct group *group_find(struct pass *p, bool as, int64_t number)
{
    uint64_t k = group_known(p, as, number);
    if (k)
        return &p->groups.v[k - 1];
    if (!p->group_index.arena)
        map_init(&p->group_index, p->arena);
    vec_push(p->arena, &p->groups, ((struct group){ .as = as, .number = number }));
    map_put(&p->group_index, group_key(as, number), (uint64_t)p->groups.n);
    return &p->groups.v[p->groups.n - 1];
}

static bool join_group(struct pass *p, instr_id i, struct marks *marks)
{
    struct group *g = group_find(p, marks->kind[i.i] == 1, marks->number[i.i]);
    marks->kind[i.i] = 0;
    if (g->members.n && !same_dims(p, g->members.v[0], i))
        return fail(p, i, "members of a shard group have different dimensions");
    vec_push(p->arena, &g->members, i);
    return true;
}

/* P-70. *remove: the annotation hands its group to its operand and goes. */
static bool process_group(struct pass *p, instr_id i, struct marks *marks, bool annotation,
                          bool *remove)
{
    *remove = false;
    if (p->o.cse_only || !marks->kind[i.i] || !p->now[i.i].i)
        return true;
    if (!annotation)
        return join_group(p, i, marks);
    instr_id x = at(p, i)->operands[0];
    if (at(p, x)->op == OP_PARAMETER)
        return fail(p, i, "a shard group on a parameter that propagation may not change");
    if (!p->now[x.i].i)
        put_sharding(p, x, sharding_unknown(p->t), i);
    marks->kind[x.i] = marks->kind[i.i];
    marks->number[x.i] = marks->number[i.i];
    *remove = true;
    return true;
}

static bool one_annotation(struct pass *p, struct edit *e, instr_id i, struct marks *marks)
{
    sharding_id s = p->now[i.i];
    if (!s.i)
        return fail(p, i, "a Sharding call needs a sharding");
    bool bad, remove, still_call = true;
    uint64_t open = open_dims_of(p, i, &bad);
    if (bad)
        return fail(p, i, "backend_config of a Sharding call says other than unspecified_dims=[..]");
    instr_id operand = at(p, i)->operands[0];
    struct setup_step step = { .kind = STEP_CALL, .i = i, .operand = operand, .open = open != 0 };
    p->called[i.i] = true;
    if (!p->o.cse_only && (!is_unknown(p, s) || at(p, operand)->op == OP_PARAMETER)) {
        instr_id copy = edit_add(e, at(p, i)->comp, OP_COPY, at(p, i)->shape, 1, &operand, at(p, i),
                                 e->origin[i.i]);
        struct instr *c = instr_at(p->m, copy);
        c->nattrs = 0;
        c->attrs = NULL;
        edit_replace(e, i, copy, false);
        p->n = module_ninstrs(p->m);
        step.copy = copy;
        put_sharding(p, copy, s, none_instr());
        marks->kind[copy.i] = marks->kind[i.i];
        marks->number[copy.i] = marks->number[i.i];
        p->changed = true;
        still_call = false;
        i = copy;
    }
    if (!process_group(p, i, marks, still_call, &remove))
        return false;
    step.relays = remove;
    vec_push(p->arena, &p->steps, step);
    p->rule = RULE_ANNOTATION_OPERAND;
    if (open)
        p->open[i.i] = open;
    else if (!p->now[operand.i].i)
        put_sharding(p, operand, p->now[i.i], i);
    p->rule = RULE_ANNOTATION;
    if (remove) {
        edit_alias(e, i, operand);
        edit_replace(e, i, operand, false);
        instr_at(p->m, i)->flags |= INSTR_REMOVED;
    }
    return true;
}

/* Whether there is a Sharding call or a shard group at all. */
static bool has_annotations(const struct pass *p, uint32_t calls)
{
    if (calls)
        return true;
    for (uint32_t k = 1; k <= p->n; k++) {
        const struct instr *ins = at(p, (instr_id){ k });
        for (int64_t j = 0; ins->sharding.i && ins->note && ins->note->leaves && j < ins->note->nleaves; j++)
            if (ins->note->leaves[j].group_kind)
                return true;
    }
    return false;
}

static void marks_read(const struct pass *p, struct marks *marks)
{
    for (uint32_t k = 1; k <= p->n; k++) {
        const struct instr *ins = at(p, (instr_id){ k });
        const struct sharding_note *n = ins->note;
        if (!ins->sharding.i || !n || !n->leaves || n->nleaves < 1)
            continue;
        bool same = n->leaves[0].group_kind != 0;
        for (int64_t j = 1; j < n->nleaves; j++)
            same = same && n->leaves[j].group_kind == n->leaves[0].group_kind &&
                   n->leaves[j].group == n->leaves[0].group;
        marks->kind[k] = same ? n->leaves[0].group_kind : 0;
        marks->number[k] = n->leaves[0].group;
    }
}

/* P-69: users before operands, so that chains of annotations collapse onto the innermost. */
static bool annotations(struct pass *p, struct edit *e, uint32_t cap)
{
    struct marks marks = { ARENA_ARRAY(p->tmp, int8_t, cap), ARENA_ARRAY(p->tmp, int64_t, cap) };
    marks_read(p, &marks);
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        if (!comp_included(p, (comp_id){ c }))
            continue;
        struct id_list order = { 0 };
        edit_order(e, (comp_id){ c }, false, p->tmp, &order);
        for (uint32_t k = order.n; k > 0; k--) {
            instr_id i = order.v[k - 1];
            bool ignored;
            if (is_sharding_call(p, i)) {
                if (!one_annotation(p, e, i, &marks))
                    return false;
            } else if (!process_group(p, i, &marks, false, &ignored)) {
                return false;
            }
        }
    }
    return true;
}

/* The group of an instruction is the `as` group of its number, else the `like` group: where both are there, a
 * member of `like` asks the members of `as`, and is none of them. */
static void groups_index(struct pass *p)
{
    if (!p->groups.n)
        return;
    p->group_at = ARENA_ARRAY(p->arena, uint32_t, p->capacity);
    for (int64_t k = 0; k < p->groups.n; k++) {
        struct group *g = &p->groups.v[k];
        int64_t of = g->as ? k : (int64_t)group_known(p, true, g->number) - 1;
        if (of < 0)
            of = k;
        if (of != k)
            p->groups.v[of].also = (uint32_t)k + 1;
        for (int64_t j = 0; j < g->members.n; j++) {
            p->group_of[g->members.v[j].i] = (uint32_t)of + 1;
            p->group_at[g->members.v[j].i] = of == k ? (uint32_t)j + 1 : 0;
        }
    }
}

/* ---- placement and related instructions, P-72 to P-74 ------------------------------------------- */

static bool communicates(const struct instr *ins)
{
    if (ins->op == OP_SEND || ins->op == OP_RECV)
        return !instr_bool(ins, ATTR_IS_HOST_TRANSFER, false);
    return (ins->op == OP_ALL_REDUCE || ins->op == OP_REDUCE_SCATTER) &&
           instr_attr(ins, ATTR_CHANNEL_ID);
}

static bool unique_device(const struct pass *p, instr_id i, int64_t *device)
{
    return p->now[i.i].i && sharding_unique_device(p->t, p->now[i.i], device);
}

static bool misplaced(const struct pass *p, instr_id i, int64_t is, instr_id channel, int64_t device)
{
    return diag_error(p->d, p->m->source, at(p, i)->at,
                      "Instruction: %s is on device: %" PRId64 ", which conflicts with device: %" PRId64
                      " of channel instruction: %s",
                      name_text(p->ir, at(p, i)->name), is, device,
                      name_text(p->ir, at(p, channel)->name));
}

/* P-72: a body that communicates lives on the device that does. */
static bool place_body(struct pass *p, instr_id loop)
{
    const struct attr *body = instr_attr(at(p, loop), ATTR_BODY);
    if (!body)
        return true;
    const struct computation *c = comp_at(p->m, body->comp);
    int64_t device = -1, other;
    instr_id channel = none_instr();
    for (uint32_t k = 0; k < c->ninstrs && !channel.i; k++) {
        if (!communicates(at(p, c->instrs[k])))
            continue;
        p->channels = true;
        if (unique_device(p, c->instrs[k], &device))
            channel = c->instrs[k];
    }
    if (!channel.i)
        return true;
    p->placed = true;
    for (uint32_t k = 0; k < c->ninstrs; k++)
        if (unique_device(p, c->instrs[k], &other) && other != device)
            return misplaced(p, c->instrs[k], other, channel, device);
    if (unique_device(p, loop, &other) && other != device)
        return misplaced(p, loop, other, channel, device);
    if (!unique_device(p, c->root, &other))
        put_sharding(p, c->root, single_sharding(p, c->root, sharding_maximal(p->t, device)), loop);
    return true;
}

/* `call-start(..), to_apply=f` wraps a call that the text does not show: f is called all the same. */
static bool is_controlled(const struct instr *ins)
{
    if (ins->op == OP_ASYNC_START)
        return instr_attr(ins, ATTR_TO_APPLY) != NULL;
    return ins->op == OP_WHILE || ins->op == OP_CONDITIONAL || ins->op == OP_CALL;
}

static void map_called(struct pass *p, instr_id i)
{
    const struct instr *ins = at(p, i);
    if (ins->op == OP_WHILE) {
        const struct attr *body = instr_attr(ins, ATTR_BODY), *cond = instr_attr(ins, ATTR_CONDITION);
        if (body)
            p->caller[body->comp.i] = i;
        if (cond)
            p->caller[cond->comp.i] = i;
        return;
    }
    int n = instr_called(p->m, i, NULL, 0);
    comp_id *list = ARENA_ARRAY(p->tmp, comp_id, n);
    instr_called(p->m, i, list, n);
    for (int k = 0; k < n; k++)
        p->caller[list[k].i] = i;
}

/* P-74: the first of the related that has a sharding gives it to all of them. */
static void share_first(struct pass *p, instr_id i)
{
    struct id_list l = { 0 };
    related_instrs(p, i, &l);
    instr_id first = { 0 };
    for (uint32_t k = 0; k < l.n && !first.i; k++)
        if (p->now[l.v[k].i].i)
            first = l.v[k];
    for (uint32_t k = 0; first.i && k < l.n; k++)
        if (p->now[l.v[k].i].i != p->now[first.i].i)
            put_sharding(p, l.v[k], p->now[first.i], first);
}

static bool for_controlled(struct pass *p, bool place)
{
    for (uint32_t c = 1; c <= module_ncomps(p->m); c++) {
        const struct computation *comp = comp_at(p->m, (comp_id){ c });
        for (uint32_t k = 0; comp_included(p, (comp_id){ c }) && k < comp->ninstrs; k++) {
            instr_id i = comp->instrs[k];
            if (!is_controlled(at(p, i)))
                continue;
            if (!place) {
                vec_push(p->arena, &p->steps, ((struct setup_step){ .kind = STEP_SHARE, .i = i }));
                share_first(p, i);
                map_called(p, i);
            } else if (at(p, i)->op == OP_WHILE && !place_body(p, i)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- options, saved and provided shardings: P-64, P-71, P-75, P-76 ------------------------------- */

bool options_fit(const struct pass *p)
{
    const struct computation *entry = comp_at(p->m, p->m->entry);
    sharding_id root = p->now[entry->root.i];
    if (p->any_out && root.i && p->o.nto_output != 1) {
        const struct sharding *s = sharding_get(p->t, root);
        int64_t n = s->kind == SHARDING_TUPLE ? s->nelems : 1;
        if (n != p->o.nto_output)
            return diag_error(p->d, NULL, (struct span){ 0, 0 },
                              "allow_spmd_sharding_propagation_to_output has %" PRId64
                              " entries for %" PRId64 " outputs",
                              p->o.nto_output, n);
    }
    if (!p->any_parameter || p->o.nto_parameters == 1 || p->o.nto_parameters == entry->nparams)
        return true;
    if (entry->nparams == 1) {
        const struct shape *s = instr_shape(p->m, entry->params[0]);
        if (s->kind == SHAPE_TUPLE && s->nelems == p->o.nto_parameters)
            return true;
    }
    return diag_error(p->d, NULL, (struct span){ 0, 0 },
                      "allow_spmd_sharding_propagation_to_parameters has %" PRId64
                      " entries for %" PRIu32 " parameters",
                      p->o.nto_parameters, entry->nparams);
}

static void save_boundary(struct pass *p)
{
    const struct computation *entry = comp_at(p->m, p->m->entry);
    p->saved_root_of = entry->root;
    if (p->any_out && instr_shape(p->m, entry->root)->kind == SHAPE_TUPLE)
        p->saved_root = p->now[entry->root.i];
    if (!p->any_parameter)
        return;
    p->saved_parameter = ARENA_ARRAY(p->arena, sharding_id, entry->nparams);
    for (uint32_t k = 0; k < entry->nparams; k++)
        p->saved_parameter[k] = p->now[entry->params[k].i];
}

static bool known_sharding(const struct pass *p, instr_id i)
{
    return p->now[i.i].i && !is_unknown(p, p->now[i.i]);
}

/* P-75's last clause: a root while stays free behind a copy that does not. */
static bool needs_root_copy(const struct pass *p)
{
    instr_id root = comp_at(p->m, p->m->entry)->root;
    return !p->any_out && at(p, root)->op == OP_WHILE && !is_unknown(p, p->now[root.i]);
}

static void copy_root_while(struct pass *p, struct edit *e)
{
    instr_id root = comp_at(p->m, p->m->entry)->root;
    instr_id copy = edit_add(e, p->m->entry, OP_COPY, at(p, root)->shape, 1, &root, NULL,
                             (struct origin){ { 0 }, 0 });
    edit_name(e, copy, "copy");
    vec_push(p->arena, &p->steps, ((struct setup_step){ .kind = STEP_ROOT, .i = root, .copy = copy }));
    if (p->now[root.i].i)
        put_sharding(p, copy, p->now[root.i], root);
    e->roots[p->m->entry.i] = copy;
    p->n = module_ninstrs(p->m);
    p->changed = true;
}

static bool is_provided(const struct pass *p, instr_id i)
{
    bool entry = at(p, i)->comp.i == p->m->entry.i;
    if (p->facts[i.i].gone)
        return false;
    if (at(p, i)->op == OP_PARAMETER && entry && !p->any_parameter && known_sharding(p, i))
        return true;
    if (entry && fact_of(p, i)->root)
        return !p->any_out && !is_unknown(p, p->now[i.i]);
    if (i.i == p->saved_root_of.i)
        return false; /* a loop, free behind its copy even if sharded */
    return at(p, i)->op != OP_PARAMETER && known_sharding(p, i);
}

/* P-76. A tuple's unknown leaves one by one: its known ones stay. */
static void replace_unknown(struct pass *p, instr_id i)
{
    if (!p->now[i.i].i)
        return;
    const struct sharding *s = sharding_get(p->t, p->now[i.i]);
    p->rule = RULE_UNKNOWN;
    p->time = (struct prop_time){ 0, 0, SETUP_UNKNOWN, 0 };
    if (s->kind == SHARDING_UNKNOWN)
        put_sharding(p, i, sharding_replicated(p->t), none_instr());
    for (int64_t j = 0; s->kind == SHARDING_TUPLE && j < s->nelems; j++)
        if (sharding_is_unknown(p->t, s->elems[j]))
            put_leaf_sharding(p, i, j, sharding_replicated(p->t), none_instr());
    put_leaves(p);
}

/* ---- the same again, for increments --------------------------------------------------------------- */

/* A call that goes is a copy without a sharding. Its place among the users of its operand is another one then, so
 * it has to be the only one. */
static bool may_go(const struct pass *p, const struct setup_step *s)
{
    return s->copy.i && !s->open && !s->relays && users_count(p->users, s->operand) == 1 && users_count(p->users, s->copy) > 0;
}

static bool again_call(struct pass *p, const struct setup_step *s)
{
    sharding_id given = p->now[s->i.i];
    if (!given.i && may_go(p, s))
        return true;
    instr_id i = s->copy.i ? s->copy : s->i, x = s->operand;
    bool copies = !p->o.cse_only && !(is_unknown(p, given) && at(p, x)->op != OP_PARAMETER);
    if (!given.i || (s->copy.i != 0) != copies)
        return false;
    p->rule = RULE_ANNOTATION;
    if (s->copy.i)
        put_sharding(p, s->copy, given, none_instr());
    if (s->relays && !p->now[x.i].i)
        put_sharding(p, x, sharding_unknown(p->t), s->i);
    p->rule = RULE_ANNOTATION_OPERAND;
    if (!s->open && !p->now[x.i].i)
        put_sharding(p, x, p->now[i.i], i);
    return true;
}

static bool any_placed(const struct pass *p, const struct id_list *l)
{
    int64_t device;
    for (uint32_t k = 0; k < l->n; k++)
        if (unique_device(p, l->v[k], &device))
            return true;
    return p->placed;
}

static void save_again(struct pass *p, const struct id_list *l)
{
    const struct computation *entry = comp_at(p->m, p->m->entry);
    for (uint32_t k = 0; k < l->n; k++) {
        instr_id i = l->v[k];
        if (at(p, i)->comp.i != p->m->entry.i)
            continue;
        if (i.i == p->saved_root_of.i && p->any_out && shape_of(p, i)->kind == SHAPE_TUPLE)
            p->saved_root = p->now[i.i];
        for (uint32_t j = 0; p->saved_parameter && at(p, i)->op == OP_PARAMETER && j < entry->nparams; j++)
            if (entry->params[j].i == i.i)
                p->saved_parameter[j] = p->now[i.i];
    }
}

void setup_reads(struct pass *p, const struct setup_step *s, struct id_list *out)
{
    struct id_list related = { 0 };
    id_list_push(p->tmp, out, s->i);
    if (s->copy.i)
        id_list_push(p->tmp, out, s->copy);
    if (s->operand.i)
        id_list_push(p->tmp, out, s->operand);
    if (s->kind == STEP_SHARE)
        related_instrs(p, s->i, &related);
    for (uint32_t k = 0; k < related.n; k++)
        id_list_push(p->tmp, out, related.v[k]);
}

bool setup_again(struct pass *p, const struct id_list *l)
{
    p->rule = RULE_ANNOTATION;
    for (uint32_t k = 0; k < l->n; k++) {
        sharding_id s = p->now[l->v[k].i];
        p->now[l->v[k].i] = none();
        p->time = (struct prop_time){ 0, 0, l->v[k].i, 0 };
        if (s.i && sharding_has_manual(p->t, s))
            p->any_manual = true;
        if (s.i)
            put_sharding(p, l->v[k], s, none_instr());
    }
    p->time = (struct prop_time){ 0, 0, SETUP_STEPS, 0 };
    int64_t k = 0;
    for (; k < p->steps.n && p->steps.v[k].kind == STEP_CALL; k++)
        if (!again_call(p, &p->steps.v[k]))
            return false;
    save_again(p, l);
    if (!options_fit(p) || (p->channels && any_placed(p, l)))
        return false;
    p->rule = RULE_RELATED;
    for (; k < p->steps.n && p->steps.v[k].kind == STEP_SHARE; k++)
        share_first(p, p->steps.v[k].i);
    instr_id root = k < p->steps.n ? p->steps.v[k].i : comp_at(p->m, p->m->entry)->root;
    if (!p->any_out && at(p, root)->op == OP_WHILE && is_unknown(p, p->now[root.i]) == (k < p->steps.n))
        return false;
    if (k < p->steps.n && p->now[root.i].i)
        put_sharding(p, p->steps.v[k].copy, p->now[root.i], root);
    for (uint32_t j = 0; j < l->n; j++) {
        p->provided[l->v[j].i] = is_provided(p, l->v[j]);
        replace_unknown(p, l->v[j]);
    }
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static void tables_make(struct pass *p, uint32_t cap)
{
    p->now = ARENA_ARRAY(p->arena, sharding_id, cap);
    p->provided = ARENA_ARRAY(p->arena, bool, cap);
    p->open = ARENA_ARRAY(p->arena, uint64_t, cap);
    p->group_of = ARENA_ARRAY(p->arena, uint32_t, cap);
    p->called = ARENA_ARRAY(p->arena, bool, cap);
    p->index_facts = ARENA_ARRAY(p->arena, void *, cap);
    p->caller = ARENA_ARRAY(p->arena, instr_id, module_ncomps(p->m) + 1);
    for (uint32_t k = 1; k <= p->n; k++)
        p->now[k] = at(p, (instr_id){ k })->sharding;
}

/* controlled: whether anything is, that P-72 and P-74 would look for. */
static uint32_t count_annotations(const struct pass *p, bool *controlled)
{
    uint32_t n = 0;
    for (uint32_t k = 1; k <= p->n; k++) {
        n += is_sharding_call(p, (instr_id){ k });
        *controlled = *controlled || is_controlled(at(p, (instr_id){ k }));
    }
    return n;
}

/* The history begins with what the module says. */
static void log_given(struct pass *p)
{
    p->rule = RULE_ANNOTATION;
    for (uint32_t k = 1; k <= p->n; k++) {
        sharding_id s = p->now[k];
        const struct shape *shape = shape_of(p, (instr_id){ k });
        if (shape->kind == SHAPE_TUPLE && shape->nleaves == 0)
            p->any_manual = true; /* a zero-element tuple is, P-5 */
        if (!s.i || (at(p, (instr_id){ k })->flags & INSTR_REMOVED))
            continue;
        if (sharding_has_manual(p->t, s))
            p->any_manual = true;
        p->now[k] = none();
        p->time = (struct prop_time){ 0, 0, k, 0 };
        put_sharding(p, (instr_id){ k }, s, none_instr());
        p->metadata_changed = p->metadata_changed || metadata_changes(p, (instr_id){ k });
    }
    p->time = (struct prop_time){ 0, 0, SETUP_STEPS, 0 };
}

static bool is_special(const struct fact *f)
{
    switch ((enum target)f->target) {
    case TARGET_FULL_TO_SHARD:
    case TARGET_SHARD_TO_FULL:
    case TARGET_BARRIER_FROM:
    case TARGET_BARRIER_TO:
        return true;
    case TARGET_OTHER:
    case TARGET_SHARDING:
    case TARGET_PASS_THROUGH:
        break;
    }
    return false;
}

static bool is_barrier(const struct fact *f)
{
    return f->target == TARGET_BARRIER_FROM || f->target == TARGET_BARRIER_TO;
}

bool pass_setup(struct pass *p)
{
    struct edit e = { 0 };
    bool controlled = false;
    uint32_t calls = count_annotations(p, &controlled), cap = p->n + calls + 2;
    p->capacity = cap;
    tables_make(p, cap);
    if (p->o.cse_only)
        p->saved_cse = arena_copy(p->arena, p->now, cap, sizeof *p->now);
    else
        drop_cse_markers(p);
    log_given(p);
    if (has_annotations(p, calls)) {
        edit_open(&e, p->m, p->g->origin, &p->g->users, p->tmp);
        if (!annotations(p, &e, cap))
            return false;
        edit_finish(&e, p->g);
    }
    save_boundary(p);
    p->rule = RULE_RELATED;
    if (!options_fit(p) || (controlled && (!for_controlled(p, true) || !for_controlled(p, false))))
        return false;
    if (needs_root_copy(p)) {
        if (!e.m)
            edit_open(&e, p->m, p->g->origin, &p->g->users, p->tmp);
        copy_root_while(p, &e);
        edit_finish(&e, p->g);
    }
    p->users = &p->g->users;
    groups_index(p);
    facts_make(p);
    for (uint32_t k = 1; k <= p->n; k++) {
        p->provided[k] = is_provided(p, (instr_id){ k });
        replace_unknown(p, (instr_id){ k });
        p->special = p->special || p->open[k] || is_special(&p->facts[k]);
        p->barriers = p->barriers || is_barrier(&p->facts[k]);
    }
    p->setup_changed = p->changed;
    return true;
}
