/* Functions and regions to computations: what is alive, what regions capture, in which order.
 *
 * HLO's computations are closed: a loop carries what its regions use from outside at the end of its
 * tuple, a branch gets it as its operand, and constants are made again inside. */
#include "text/features.h"
#include "text/mlir.h"

#include <stdio.h>

/* ---- what is alive ----------------------------------------------------------------------------- */

typedef VEC(struct mop *) op_stack;

static void mark(struct arena *tmp, op_stack *stack, struct mop *op)
{
    if (!op || op->live)
        return;
    op->live = true;
    vec_push(tmp, stack, op);
}

/* Members of a shard group shard each other, whether or not anything uses the call that says so. */
static bool in_group(const struct mop *op)
{
    const struct mattr *a = mattr(op, "mhlo.sharding");
    return a && a->val && memmem(a->val, a->vlen, " shard_", 7);
}

bool mlir_has_effect(const struct mop *op)
{
    switch ((enum mkind)op->kind) {
    case M_CALL:
    case M_UNKNOWN:
    case M_COMPOSITE: return true;
    case M_CUSTOM: return mbool_of(op, "has_side_effect", false) || in_group(op);
    case M_RAW: return op->keep;
    case M_HLO:
        return op_is_collective((enum op_kind)op->hlo) || op->hlo == OP_INFEED || op->hlo == OP_OUTFEED ||
               op->hlo == OP_SEND || op->hlo == OP_RECV || op->hlo == OP_RNG;
    case M_NONE:
    case M_CONSTANT:
    case M_RETURN:
    case M_MODULE:
    case M_FUNC:
    case M_MESH:
    case M_CONSTRAINT:
    case M_MANUAL:
    case M_NAMED:
    case M_GROUP:
    case M_IDENTITY:
    case M_CHLO:
    case M_IF: break;
    }
    return false;
}

static void mark_region(struct arena *tmp, op_stack *stack, struct mregion *g)
{
    g->live = true;
    for (struct mop *op = g->first; op; op = op->next)
        if (op->kind == M_RETURN || mlir_has_effect(op))
            mark(tmp, stack, op);
}

static void find_live(struct mlir *r, struct mregion *body)
{
    op_stack stack = { 0 };
    struct arena tmp = { 0 };
    arena_open(&tmp);
    mark_region(&tmp, &stack, body);
    while (stack.n) {
        struct mop *op = stack.v[--stack.n];
        for (uint32_t k = 0; k < op->noperands; k++)
            mark(&tmp, &stack, mdef(r, mval(r, mresolve(r, op->operands[k]))));
        for (uint32_t k = 0; k < op->nregions; k++)
            if (!op->regions[k]->into)
                mark_region(&tmp, &stack, op->regions[k]);
    }
    arena_close(&tmp);
}

/* ---- captured values --------------------------------------------------------------------------- */

static struct mregion *home(struct mregion *g)
{
    while (g && g->into)
        g = g->into;
    return g;
}

static void capture(struct mlir *r, struct mregion *g, struct map *seen, uint32_t v)
{
    v = mresolve(r, v);
    const struct mval *x = mval(r, v);
    uint64_t there;
    if (x->is_cst || home(mregion(r, x)) == g || map_get(seen, v, &there))
        return;
    map_put(seen, v, 1);
    vec_push(&r->tmp, &g->captured, v);
}

/* Inner regions were done before: theirs are among what their operation uses. */
static void find_captured(struct mlir *r, struct mregion *g)
{
    struct map seen;
    map_init(&seen, &r->tmp);
    for (const struct mop *op = g->first; op; op = op->next) {
        if (!op->live)
            continue;
        for (uint32_t k = 0; k < op->noperands; k++)
            capture(r, g, &seen, op->operands[k]);
        for (uint32_t k = 0; k < op->nregions; k++) {
            const struct mregion *in = op->regions[k];
            for (int64_t i = 0; i < in->captured.n; i++)
                capture(r, g, &seen, in->captured.v[i]);
        }
    }
}

/* ---- the order of a computation ---------------------------------------------------------------- */

/* Operands first, as XLA prints what it imported (P-55 without channels, which stand in text order
 * anyway). */
static void finish_comp(struct mlir *r, comp_id c, instr_id root)
{
    struct module *m = r->m;
    uint32_t from = comp_at(m, c)->first.i, to = comp_at(m, c)->last.i, n = 0;
    if (!from) {
        comp_finish(m, c, root);
        return;
    }
    struct arena tmp = { 0 };
    arena_open(&tmp);
    int64_t count = (int64_t)(to - from) + 1;
    enum { NEW, OPEN, LISTED, USED = 4 };
    uint8_t *state = ARENA_ARRAY(&tmp, uint8_t, count);
    for (uint32_t i = from; i <= to; i++) {
        const struct instr *in = instr_at(m, (instr_id){ i });
        if (in->comp.i != c.i) { /* of a reducer that was made meanwhile */
            state[i - from] = USED;
            continue;
        }
        for (uint32_t k = 0; k < in->noperands; k++)
            state[in->operands[k].i - from] = USED;
    }
    instr_id *list = ARENA_ARRAY(&tmp, instr_id, count);
    VEC(uint32_t) stack = { 0 };
    for (uint32_t i = from; i <= to; i++) {
        if (state[i - from] & USED)
            continue;
        vec_push(&tmp, &stack, i);
        while (stack.n) {
            uint32_t top = stack.v[stack.n - 1];
            uint8_t *s = &state[top - from];
            if (*s & ~USED) {
                stack.n--;
                if ((*s & ~USED) == OPEN)
                    list[n++] = (instr_id){ top };
                *s = (*s & USED) | LISTED;
                continue;
            }
            *s |= OPEN;
            const struct instr *in = instr_at(m, (instr_id){ top });
            for (uint32_t k = in->noperands; k-- > 0;)
                if ((state[in->operands[k].i - from] & ~USED) != LISTED)
                    vec_push(&tmp, &stack, in->operands[k].i);
        }
    }
    comp_set_instrs(m, c, n, list, root);
    arena_close(&tmp);
}

/* ---- computations ------------------------------------------------------------------------------ */

static comp_id begin_comp(struct mlir *r, const char *name, size_t n, const char *at)
{
    char *clean = arena_strndup(&r->tmp, name, n);
    for (size_t i = 0; i < n; i++)
        if (!mis(clean[i], MC_WORD) && clean[i] != '-')
            clean[i] = '_';
    if (n == 0 || mis(clean[0], MC_DIGIT) || clean[0] == '.' || clean[0] == '-')
        clean = arena_printf(&r->tmp, "f%s", clean);
    comp_id c = comp_new(r->m, name_put(r->c, clean, strlen(clean)));
    comp_at(r->m, c)->at = mspan(r, at, n);
    r->comp = c;
    return c;
}

static instr_id parameter(struct mlir *r, int64_t number, shape_id shape)
{
    struct attr a = attr_int(ATTR_INDEX, number);
    return memit(r, OP_PARAMETER, shape, 0, NULL, 1, &a);
}

static bool emit_ops(struct mlir *r, struct mregion *g)
{
    bool ok = true;
    uint32_t number = 0;
    for (struct mop *op = g->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == M_RETURN)
            continue; /* still looked at */
        const char *at = op->at;
        number++;
        if (!(op->live ? mlir_emit(r, op) : mlir_check(r, op)))
            ok = false;
        mlir_op_done(r, op);
        mlir_pages_release(r, number); /* nothing before the entry */
        if (r->scratch.bytes > SCRATCH_MOST)
            arena_free(&r->scratch);
        if (r->nerrors >= 20)
            return false;
        if (!tick_poll(r->tick, "building", at - r->base, r->end - r->base)) {
            const char *former = diag_stage(r->d, "interrupted");
            diag_error(r->d, NULL, (struct span){ 0, 0 }, "interrupted");
            diag_stage(r->d, former);
            r->nerrors++;
            return false;
        }
    }
    return ok;
}

/* The values that a region gives back, `extra` more behind them, as one instruction. */
static bool returned(struct mlir *r, struct mregion *g, const uint32_t *extra, int64_t nextra,
                     const bool *skip, instr_id *root)
{
    const struct mop *ret = g->last;
    if (!ret || ret->kind != M_RETURN)
        return MFAIL(r, g->owner->at, g->owner->nat, "a region of this operation does not end with a return");
    VEC(instr_id) v = { 0 };
    for (uint32_t k = 0; k < ret->noperands; k++)
        if (!skip || !skip[k]) {
            instr_id i = mvalue(r, ret->operands[k]);
            if (!i.i)
                return false;
            vec_push(&r->tmp, &v, i);
        }
    for (int64_t k = 0; k < nextra; k++) {
        instr_id i = mvalue(r, extra[k]);
        if (!i.i)
            return false;
        vec_push(&r->tmp, &v, i);
    }
    if (v.n == 1) {
        *root = v.v[0];
        return true;
    }
    shape_id *shapes = ARENA_ARRAY(&r->tmp, shape_id, v.n + 1);
    for (int64_t k = 0; k < v.n; k++)
        shapes[k] = instr_at(r->m, v.v[k])->shape;
    *root = memit(r, OP_TUPLE, shape_tuple(r->c, v.n, shapes), v.n, v.v, 0, NULL);
    return true;
}

/* One parameter for all values: the value, or a tuple of them. */
static void unpack_parameter(struct mlir *r, int64_t n, const uint32_t *values)
{
    if (n == 1) {
        mset(r, values[0], parameter(r, 0, mval(r, values[0])->shape));
        return;
    }
    shape_id *shapes = ARENA_ARRAY(&r->tmp, shape_id, n + 1);
    for (int64_t k = 0; k < n; k++)
        shapes[k] = mval(r, values[k])->shape;
    instr_id p = parameter(r, 0, shape_tuple(r->c, n, shapes));
    for (int64_t k = 0; k < n; k++) {
        struct attr a = attr_int(ATTR_INDEX, k);
        mset(r, values[k], memit(r, OP_GET_TUPLE_ELEMENT, shapes[k], 1, &p, 1, &a));
    }
}

static bool begin_region(struct mlir *r, struct mregion *g, const char *what)
{
    if (!mlir_applied(r, g))
        return false;
    r->emitting = NULL;
    r->metadata = r->frontend = NULL;
    r->set_sharding.i = 0;
    char name[64];
    int n = snprintf(name, sizeof name, "%s_%u", what, module_ncomps(r->m));
    g->comp = begin_comp(r, name, (size_t)n, g->owner->at);
    comp_at(r->m, g->comp)->at = mspan(r, g->owner->at, g->owner->nat);
    return true;
}

/* What the loop carries: its own values first, then what its regions capture. */
static bool lower_loop(struct mlir *r, struct mop *op, struct mregion *g)
{
    bool body = g == op->regions[1];
    if (!begin_region(r, g, body ? "body" : "cond"))
        return false;
    VEC(uint32_t) v = { 0 };
    for (uint32_t k = 0; k < g->nargs; k++)
        if (!mval(r, g->arg0 + k)->is_alias)
            vec_push(&r->tmp, &v, g->arg0 + k);
    for (int64_t k = 0; k < op->regions[1]->captured.n; k++)
        vec_push(&r->tmp, &v, op->regions[1]->captured.v[k]);
    unpack_parameter(r, v.n, v.v);
    if (!emit_ops(r, g))
        return false;
    instr_id root;
    bool *skip = ARENA_ARRAY(&r->tmp, bool, g->nargs + 1);
    for (uint32_t k = 0; k < g->nargs; k++)
        skip[k] = body && mval(r, g->arg0 + k)->is_alias;
    const struct mregion *b = op->regions[1];
    if (!returned(r, g, b->captured.v, body ? b->captured.n : 0, body ? skip : NULL, &root))
        return false;
    mlir_op_done(r, g->last);
    finish_comp(r, g->comp, root);
    return true;
}

static bool lower_branch(struct mlir *r, struct mregion *g)
{
    if (!begin_region(r, g, "branch"))
        return false;
    unpack_parameter(r, g->captured.n, g->captured.v);
    instr_id root;
    if (!emit_ops(r, g) || !returned(r, g, NULL, 0, NULL, &root))
        return false;
    mlir_op_done(r, g->last);
    finish_comp(r, g->comp, root);
    return true;
}

static bool lower_reducer(struct mlir *r, struct mop *op, struct mregion *g)
{
    if (g->captured.n) {
        MFAIL(r, op->at, op->nat, "the computation of this operation uses a value from outside of it, which HLO "
              "cannot say");
        return false;
    }
    if (!begin_region(r, g, op->hlo == OP_SORT ? "comparator" : "reducer"))
        return false;
    for (uint32_t k = 0; k < g->nargs; k++)
        mset(r, g->arg0 + k, parameter(r, k, mval(r, g->arg0 + k)->shape));
    instr_id root;
    if (!emit_ops(r, g) || !returned(r, g, NULL, 0, NULL, &root))
        return false;
    mlir_op_done(r, g->last);
    finish_comp(r, g->comp, root);
    return true;
}

static bool lower_region(struct mlir *r, struct mregion *g)
{
    struct mop *op = g->owner;
    if (op->kind == M_HLO && op->hlo == OP_WHILE) {
        if (op->nregions != 2)
            return MFAIL(r, op->at, op->nat, "a loop has two regions");
        if (g == op->regions[0])
            return true; /* with the body, when the captured values of both are known */
        struct mregion *cond = op->regions[0];
        struct map seen;
        map_init(&seen, &r->tmp);
        VEC(uint32_t) both = { 0 };
        for (int64_t k = 0; k < cond->captured.n + g->captured.n; k++) {
            uint32_t v = k < cond->captured.n ? cond->captured.v[k] : g->captured.v[k - cond->captured.n];
            uint64_t there;
            if (map_get(&seen, v, &there))
                continue;
            map_put(&seen, v, 1);
            vec_push(&r->tmp, &both, v);
        }
        g->captured.n = 0;
        cond->captured.n = 0;
        for (int64_t k = 0; k < both.n; k++) {
            vec_push(&r->tmp, &g->captured, both.v[k]);
            vec_push(&r->tmp, &cond->captured, both.v[k]);
        }
        return lower_loop(r, op, g) && lower_loop(r, op, cond);
    }
    if (op->kind == M_IF || (op->kind == M_HLO && op->hlo == OP_CONDITIONAL))
        return lower_branch(r, g);
    return lower_reducer(r, op, g);
}

/* ---- functions --------------------------------------------------------------------------------- */

/* A sharding that the root's tuple gives, and no reshape in front of it: our printer's word. */
static bool of_the_tuple(const struct mattr *a)
{
    struct mattr says;
    return a->val && mdict_find(a->val, a->vlen, "gspmd.open", &says) && says.val &&
           mtext(says.val, says.vlen, "\"result\"");
}

static bool entry_root(struct mlir *r, struct mfunc *f, instr_id *root)
{
    const struct mop *ret = f->body->last;
    VEC(instr_id) v = { 0 };
    struct shardings *t = r->c->shardings;
    bool *to = ARENA_ARRAY(&r->m->arena, bool, f->nresults + 1);
    sharding_id *s = ARENA_ARRAY(&r->tmp, sharding_id, f->nresults + 1);
    bool any = false;
    for (uint32_t k = 0; k < f->nresults; k++) {
        const struct sharding_note *note;
        instr_id i = mvalue(r, ret->operands[k]);
        const struct mattr *a = &f->res_attrs[k];
        if (!i.i || !mlir_dict_sharding(r, a->val, a->vlen, f->results[k], &s[k], &note, &to[k]))
            return false;
        if (s[k].i && f->nresults > 1 && of_the_tuple(a)) {
            any = true;
        } else if (s[k].i) {
            any = true;
            i = memit(r, OP_RESHAPE, f->results[k], 1, &i, 0, NULL);
            instr_at(r->m, i)->sharding = s[k];
            instr_at(r->m, i)->note = note;
            mlir_dict_frontend(r, a->val, a->vlen, instr_at(r->m, i));
        } else {
            s[k] = sharding_unknown(t);
        }
        vec_push(&r->tmp, &v, i);
    }
    r->m->to_output = to;
    r->m->nto_output = f->nresults;
    if (v.n == 1) {
        *root = v.v[0];
        return true;
    }
    *root = memit(r, OP_TUPLE, shape_tuple(r->c, v.n, f->results), v.n, v.v, 0, NULL);
    if (any)
        instr_at(r->m, *root)->sharding = sharding_tuple(t, v.n, s);
    return true;
}

static bool parameters(struct mlir *r, struct mfunc *f, bool entry)
{
    bool *to = ARENA_ARRAY(&r->m->arena, bool, f->nargs + 1);
    for (uint32_t k = 0; k < f->nargs; k++) {
        uint32_t v = f->body->arg0 + k;
        const struct mattr *a = &f->arg_attrs[k];
        instr_id p = parameter(r, k, mval(r, v)->shape);
        struct instr *in = instr_at(r->m, p);
        const struct sharding_note *note;
        sharding_id s;
        if (!mlir_dict_sharding(r, a->val, a->vlen, mval(r, v)->shape, &s, &note, &to[k]))
            return false;
        in->sharding = s;
        in->note = note;
        mlir_dict_frontend(r, a->val, a->vlen, in);
        mlir_metadata(r, f->arg_locs[k], f->arg_nlocs[k], &in->metadata, &in->metadata_len);
        if (mval(r, v)->nname)
            in->at = mspan(r, mname(r, mval(r, v)), mval(r, v)->nname);
        mset(r, v, p);
    }
    if (entry) {
        r->m->to_parameters = to;
        r->m->nto_parameters = f->nargs;
    }
    return true;
}

/* A region that becomes no computation. */
static bool drop_region(struct mlir *r, struct mregion *g)
{
    bool ok = true;
    for (struct mop *op = g->first, *next; op; op = next) {
        next = op->next;
        ok = mlir_check(r, op) && ok;
        mlir_op_done(r, op);
    }
    return ok;
}

static bool lower_func(struct mlir *r, struct mfunc *f, bool entry)
{
    const struct mop *ret = f->body->last;
    if (!ret || ret->kind != M_RETURN)
        return MFAIL(r, f->name, f->nname, "this function does not end with a return");
    if (ret->noperands != f->nresults)
        return MFAIL(r, ret->at, ret->nat, "%u values returned, the function has %u results", ret->noperands,
                     f->nresults);
    for (uint32_t k = 0; k < f->nresults; k++)
        if (!shape_same(r->c, mval(r, ret->operands[k])->shape, f->results[k]))
            return MFAIL(r, ret->at, ret->nat, "returned value %u is a %s, but the function's result a %s",
                         k, mtype_text(r, mval(r, ret->operands[k])->shape), mtype_text(r, f->results[k]));
    find_live(r, f->body);
    for (int64_t i = 0; i < f->nclosed; i++) {
        struct mregion *g = f->closed[i];
        if (g == f->body || g->into)
            continue;
        if (!g->live || !g->owner->live) {
            if (!drop_region(r, g))
                return false;
            continue;
        }
        find_captured(r, g);
        if (!lower_region(r, g))
            return false;
    }
    if (!mlir_applied(r, f->body))
        return false;
    f->comp = begin_comp(r, f->name, f->nname, f->name);
    r->emitting = NULL;
    r->metadata = r->frontend = NULL;
    r->set_sharding.i = 0;
    f->body->comp = f->comp;
    if (!parameters(r, f, entry))
        return false;
    if (entry)
        mlir_pages_plan(r, f);
    if (!emit_ops(r, f->body))
        return false;
    /* A constant that the text itself does not use is shown all the same. */
    for (int64_t k = 0; k < f->nshown; k++)
        if (home(mregion(r, mval(r, f->shown[k]))) == f->body && !mvalue(r, f->shown[k]).i)
            return false;
    r->emitting = NULL;
    r->metadata = r->frontend = NULL;
    r->set_sharding.i = 0;
    instr_id root;
    if (!(entry ? entry_root(r, f, &root) : returned(r, f->body, NULL, 0, NULL, &root)))
        return false;
    mlir_op_done(r, f->body->last);
    if (entry) /* the last: nothing asks for values any more */
        arena_free(&r->val_arena);
    finish_comp(r, f->comp, root);
    return true;
}

/* ---- the module -------------------------------------------------------------------------------- */

static struct mfunc *find_entry(struct mlir *r)
{
    struct mfunc *f = mlir_find_func(r, "main", 4);
    if (f && f->body)
        return f;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < r->funcs.n; i++)
            if (r->funcs.v[i]->body && (pass || r->funcs.v[i]->is_public))
                return r->funcs.v[i];
    return NULL;
}

/* Functions that f calls which are not lowered yet, onto the stack. */
static bool push_callees(struct mlir *r, struct mfunc *f, struct mfunc ***stack, int64_t *n, int64_t *cap)
{
    for (int64_t i = 0; i < f->nclosed; i++)
        for (const struct mop *op = f->closed[i]->into ? NULL : f->closed[i]->first; op; op = op->next) {
            if (op->kind != M_CALL && op->kind != M_COMPOSITE)
                continue;
            const char *name = op->sym;
            uint32_t len = op->nsym;
            const struct mattr *a = mattr2(op, "callee", "decomposition");
            if (a && !mstring(a, &name, &len))
                name = NULL;
            struct mfunc *g = name ? mlir_find_func(r, name, len) : NULL;
            if (!g || !g->body)
                return MFAIL(r, op->at, op->nat, "there is no function '@%.*s' to call",
                             (int)(name ? len : 0), name ? name : "");
            if (g->mark == 1)
                return MFAIL(r, op->at, op->nat, "'@%.*s' calls itself: HLO has no recursion", (int)len, name);
            if (g->mark == 0) {
                if (*n == *cap) {
                    int64_t more = *cap ? *cap * 2 : 64;
                    struct mfunc **v = ARENA_ARRAY(&r->tmp, struct mfunc *, more);
                    if (*n)
                        memcpy(v, *stack, (size_t)*n * sizeof *v);
                    *stack = v;
                    *cap = more;
                }
                (*stack)[(*n)++] = g;
            }
        }
    return true;
}

static bool lower_from(struct mlir *r, struct mfunc *entry)
{
    struct mfunc **stack = ARENA_ARRAY(&r->tmp, struct mfunc *, 64);
    int64_t n = 0, cap = 64;
    stack[n++] = entry;
    while (n) {
        struct mfunc *f = stack[n - 1];
        if (f->mark == 0) {
            f->mark = 1;
            if (!push_callees(r, f, &stack, &n, &cap))
                return false;
            continue;
        }
        n--;
        if (f->mark == 2)
            continue;
        f->mark = 2;
        if (!lower_func(r, f, f == entry))
            return false;
    }
    return true;
}

static void header_text(struct mlir *r, const char *key, const char *text)
{
    struct module *m = r->m;
    struct header_attr *v = ARENA_ARRAY(&m->arena, struct header_attr, m->nheader + 1);
    if (m->nheader)
        memcpy(v, m->header, (size_t)m->nheader * sizeof *v);
    v[m->nheader] = (struct header_attr){ .key = name_put(r->c, key, strlen(key)), .text = text,
                                          .len = (uint32_t)strlen(text) };
    m->header = v;
    m->nheader++;
}

static const char *bools_text(struct mlir *r, const bool *v, int64_t n)
{
    struct str s = STR_IN(&r->m->arena);
    str_addc(&s, '{');
    for (int64_t i = 0; i < n; i++)
        str_adds(&s, i ? v[i] ? ",true" : ",false" : v[i] ? "true" : "false");
    str_addc(&s, '}');
    return str_text(&s);
}

/* Which outputs may live in an argument's memory: tf.aliasing_output = 0, jax.buffer_donor = true. */
static void donations(struct mlir *r, const struct mfunc *f)
{
    struct str alias = STR_IN(&r->m->arena), donor = STR_IN(&r->m->arena);
    for (uint32_t k = 0; k < f->nargs; k++) {
        struct mattr a;
        const struct mattr *args = &f->arg_attrs[k];
        if (args->val && mdict_find(args->val, args->vlen, "tf.aliasing_output", &a) && mints(r, &a, 1) && r->ints.n) {
            str_adds(&alias, alias.n ? ", " : "{ ");
            if (f->nresults == 1)
                str_addf(&alias, "{}: (%u, {}, may-alias)", k);
            else
                str_addf(&alias, "{%" PRId64 "}: (%u, {}, may-alias)", r->ints.v[0], k);
        }
        if (args->val && mdict_find(args->val, args->vlen, "jax.buffer_donor", &a))
            str_addf(&donor, "%s(%u, {})", donor.n ? ", " : "{ ", k);
    }
    if (alias.n) {
        str_adds(&alias, " }");
        header_text(r, "input_output_alias", str_text(&alias));
    }
    if (donor.n) {
        str_adds(&donor, " }");
        header_text(r, "buffer_donor", str_text(&donor));
    }
}

static bool header(struct mlir *r, const struct mfunc *f)
{
    struct module *m = r->m;
    struct mattr a;
    const char *name = r->module_name ? r->module_name : f->name;
    uint32_t n = r->module_name ? r->module_nname : f->nname;
    m->name = name_put(r->c, name, n);
    donations(r, f);
    if (r->module_attrs) {
        if (mdict_find(r->module_attrs, r->module_nattrs, "mhlo.num_partitions", &a)) {
            if (!mints(r, &a, 1))
                return false;
            m->num_partitions = r->ints.n ? r->ints.v[0] : 0;
        }
        if (mdict_find(r->module_attrs, r->module_nattrs, "mhlo.num_replicas", &a)) {
            if (!mints(r, &a, 1))
                return false;
            if (r->ints.n && r->ints.v[0] > 1)
                m->replica_count = r->ints.v[0];
        }
    }
    if (m->num_partitions < 0)
        return MFAIL(r, a.val, a.vlen, "the number of devices must be positive");
    int64_t devices = r->devices; /* meshes that nothing uses do not count, unless there are only such */
    for (int i = 0; i < r->nmeshes && r->devices == 0; i++)
        if (r->meshes[i].naxes > 0)
            devices = max_i64(devices, mesh_devices(&r->meshes[i]));
    if (m->num_partitions <= 1 && devices > 1)
        m->num_partitions = devices;
    header_text(r, "allow_spmd_sharding_propagation_to_parameters", bools_text(r, m->to_parameters, m->nto_parameters));
    header_text(r, "allow_spmd_sharding_propagation_to_output", bools_text(r, m->to_output, m->nto_output));
    if (m->replica_count)
        header_text(r, "replica_count", arena_printf(&m->arena, "%" PRId64, m->replica_count));
    if (m->num_partitions)
        header_text(r, "num_partitions", arena_printf(&m->arena, "%" PRId64, m->num_partitions));
    return true;
}

bool mlir_lower(struct mlir *r)
{
    struct mfunc *f = find_entry(r);
    if (!f)
        return MFAIL(r, r->base, 1, "there is no function with a body in this text");
    if (!lower_from(r, f))
        return false;
    r->m->entry = f->comp;
    comp_at(r->m, f->comp)->entry = true;
    if (!mtext(f->name, f->nname, "main"))
        r->m->text_features |= TEXT_ENTRY_NAME;
    if (!header(r, f))
        return false;
    module_unique_channels(r->m);
    if (r->saw_sdy)
        diag_note(r->d, NULL, (struct span){ 0, 0 }, "shardings are propagated here by GSPMD's rules; JAX since 0.7 "
                  "uses Shardy's");
    return r->nerrors == 0;
}
