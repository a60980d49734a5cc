/* HLO dumps of JAX since 0.7 carry Shardy's manual computations as custom calls with attributes in text:
 *
 *     t = (f32[4,4], ..) custom-call(x, ..), custom_call_target="xla.sdy.GlobalToLocalShape",
 *         frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [..]>, ..]>",
 *                              xla.sdy.manual_axes="#sdy<manual_axes{\"data\"}>"}
 *
 * Here they become what GSPMD knows, as the StableHLO reader has it: each value goes through a Sharding
 * call and SPMDFullToShardShape, and back through SPMDShardToFullShape. The instructions keep their names:
 * a get-tuple-element of such a call becomes the conversion of that value. */
#include <string.h>

#include "base/map.h"
#include "sharding/axes.h"
#include "text/text.h"

struct importer {
    struct module *m;
    struct arena tmp;
    struct mesh meshes[16];
    int nmeshes;
    VEC(instr_id) added; /* of the computation at hand, in front of .. */
    VEC(instr_id) before; /* .. these */
    const char **under; /* by computation: the manual axes it runs under, quoted; NULL: none */
    bool changed;
};

/* ---- texts ----------------------------------------------------------------------------------------- */

/* key="..." in a list of attributes, unescaped; NULL: not there. */
static const char *text_of(struct importer *p, const char *s, size_t n, const char *key)
{
    size_t k = strlen(key);
    for (const char *at = s; at && (at = memmem(at, n - (size_t)(at - s), key, k)); at++) {
        const char *v = at + k, *end = s + n;
        if (v + 1 >= end || *v != '=')
            continue;
        struct str out = STR_IN(&p->tmp);
        bool quoted = v[1] == '"';
        for (v += 1 + quoted; v < end && (!quoted || *v != '"'); v++) {
            if (*v == '\\' && v + 2 < end && v[1] == '2' && v[2] == '2') { /* MLIR's \22 */
                str_addc(&out, '"');
                v += 2;
                continue;
            }
            v += *v == '\\' && v + 1 < end;
            str_addc(&out, *v);
        }
        return str_text(&out);
    }
    return NULL;
}

/* {mesh = #sdy.mesh<["data"=2, "model"=4]>, ..} of the module's header. */
static void read_meshes(struct importer *p)
{
    const struct module *m = p->m;
    const char *text = NULL;
    for (int64_t k = 0; k < m->nheader && !text; k++)
        if (m->header[k].text && !strcmp(name_text(m->ir, m->header[k].key), "frontend_attributes"))
            text = text_of(p, m->header[k].text, m->header[k].len, "xla.sdy.meshes");
    for (const char *at = text; at && (at = strstr(at, "#sdy.mesh<")) && p->nmeshes < 16;) {
        const char *name = at;
        while (name > text && (name[-1] == ' ' || name[-1] == '='))
            name--;
        const char *end = name;
        while (name > text && !strchr(" ,{", name[-1]))
            name--;
        struct lexer l = { .t = m->ir->shardings, .p = at + 10, .n = strlen(at + 10) };
        struct mesh *x = &p->meshes[p->nmeshes];
        if (!read_inline_mesh(&l, &p->tmp, x))
            return;
        x->name = arena_strndup(&p->tmp, name, (size_t)(end - name));
        p->nmeshes++;
        at += 10 + l.i;
    }
}

struct value_sharding {
    const struct mesh *mesh;
    struct layout axes;
};

/* The k-th <@mesh, [{"a"}, {}], ..> of a list; false: it cannot be read. */
static bool read_value(struct importer *p, const char *list, int64_t k, struct value_sharding *out)
{
    const char *at = list ? strstr(list, "<@") : NULL;
    while (at && k-- > 0)
        at = strstr(at + 2, "<@");
    if (!at)
        return false;
    size_t n = strcspn(at + 2, ", >");
    *out = (struct value_sharding){ .axes = { .rank = 0 } };
    for (int i = 0; i < p->nmeshes; i++)
        if (strlen(p->meshes[i].name) == n && !memcmp(p->meshes[i].name, at + 2, n))
            out->mesh = &p->meshes[i];
    const char *open = strchr(at, '[');
    if (!out->mesh || !open)
        return false;
    struct lexer l = { .t = p->m->ir->shardings, .p = open + 1, .n = strlen(open + 1) };
    while (!lex_is(&l, ']')) {
        if (out->axes.rank && !lex_take(&l, ','))
            return false;
        if (!lex_take(&l, '{') || !read_axis_braces(&l, out->mesh, out->axes.rank, &out->axes))
            return false;
        if (lex_is(&l, 'p')) { /* a priority changes no layout */
            int64_t priority;
            l.i++;
            if (!lex_int(&l, &priority, "priority"))
                return false;
        }
        if (++out->axes.rank > 64)
            return false;
    }
    return true;
}

static bool is_manual_axis(const char *manual, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = manual; at && (at = strchr(at, '"')); at++) {
        if (!strncmp(at + 1, name, n) && at[1 + n] == '"')
            return true;
        at = strchr(at + 1, '"');
        if (!at)
            return false;
    }
    return false;
}

/* What the value is outside, and inside of the manual axes; false where no axis is manual. */
static bool both_sides(struct importer *p, const struct value_sharding *v, const char *manual, sharding_id *full,
                       sharding_id *local)
{
    struct shardings *t = p->m->ir->shardings;
    struct layout in = { .rank = v->axes.rank };
    int64_t taken = 1;
    *full = v->axes.n ? layout_sharding(t, v->mesh, &v->axes) : sharding_replicated(t);
    for (int i = 0; i < v->axes.n; i++)
        if (!is_manual_axis(manual, v->mesh->axes[v->axes.refs[i].axis].name) && v->axes.dim[i] != ALSO_NAMED) {
            in.refs[in.n] = v->axes.refs[i];
            in.dim[in.n++] = v->axes.dim[i];
        }
    for (int i = 0; i < v->mesh->naxes && in.n < REFS_MAX; i++) {
        if (!is_manual_axis(manual, v->mesh->axes[i].name) || v->mesh->axes[i].size == 1)
            continue;
        in.refs[in.n] = (struct axis_ref){ i, 1, v->mesh->axes[i].size };
        in.dim[in.n++] = in.rank;
        taken *= v->mesh->axes[i].size;
    }
    *local = taken == mesh_devices(v->mesh) ? sharding_manual(t) : layout_sharding(t, v->mesh, &in);
    return taken > 1;
}

/* ---- instructions ------------------------------------------------------------------------------------ */

/* Target, and the open dimensions where axes are left for them. */
static int call_attrs(struct importer *p, const char *target, uint64_t open, struct attr *out)
{
    out[0] = attr_string(p->m, ATTR_CUSTOM_CALL_TARGET, target);
    if (!open)
        return 1;
    struct str s = STR_IN(&p->m->arena);
    str_adds(&s, "\"unspecified_dims=[");
    for (int d = 0, n = 0; d < 64; d++)
        if (open >> d & 1)
            str_addf(&s, "%s%d", n++ ? "," : "", d);
    str_adds(&s, "]\"");
    out[1] = (struct attr){ .key = ATTR_BACKEND_CONFIG, .type = ATTR_TYPE_RAW };
    out[1].text = str_text(&s);
    out[1].n = (uint32_t)s.n;
    return 2;
}

static void become_call(struct importer *p, instr_id i, const char *target, instr_id operand, sharding_id s,
                        uint64_t open)
{
    struct instr *in = instr_at(p->m, i);
    struct attr a[2];
    int n = call_attrs(p, target, open, a);
    in->op = OP_CUSTOM_CALL;
    in->operands = arena_copy(&p->m->arena, &operand, 1, sizeof operand);
    in->noperands = 1;
    in->attrs = arena_copy(&p->m->arena, a, n, sizeof *a);
    in->nattrs = (uint8_t)n;
    in->sharding = s;
    in->note = NULL;
    in->frontend = NULL;
    in->frontend_len = 0;
}

/* A Sharding call on the operand, to stand in front of i. */
static instr_id add_sharding_call(struct importer *p, instr_id i, instr_id operand, sharding_id s, uint64_t open)
{
    const struct instr *of = instr_at(p->m, i);
    struct attr a[2];
    int n = call_attrs(p, "Sharding", open, a);
    instr_id made = instr_new(p->m, of->comp, OP_CUSTOM_CALL, instr_at(p->m, operand)->shape, 1, &operand, n, a);
    struct instr *in = instr_at(p->m, made);
    of = instr_at(p->m, i);
    in->sharding = s;
    in->metadata = of->metadata;
    in->metadata_len = of->metadata_len;
    in->at = of->at;
    vec_push(&p->tmp, &p->added, made);
    vec_push(&p->tmp, &p->before, i);
    return made;
}

/* Value k of the call: i takes its place. */
static bool convert(struct importer *p, const struct instr *call, int64_t k, instr_id i)
{
    bool enters = !strcmp(instr_target(p->m, call), "xla.sdy.GlobalToLocalShape");
    const char *s = call->frontend;
    const char *list = text_of(p, s, call->frontend_len, enters ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
    const char *manual = text_of(p, s, call->frontend_len, "xla.sdy.manual_axes");
    struct value_sharding v;
    sharding_id full, local;
    const char *outer = p->under[instr_at(p->m, i)->comp.i];
    if (!manual || k >= call->noperands || !read_value(p, list, k, &v))
        return false;
    sharding_id plain, outside;
    if (outer) /* a manual computation within one: its axes come to those of the other */
        manual = arena_printf(&p->tmp, "%s%s", outer, manual);
    if (!both_sides(p, &v, manual, &full, &local))
        return false;
    if (outer && both_sides(p, &v, outer, &plain, &outside))
        full = outside;
    instr_id operand = call->operands[k];
    bool left = false; /* axes for the open dimensions */
    for (int a = 0; a < v.mesh->naxes; a++)
        left |= v.mesh->axes[a].size > 1 && !is_manual_axis(manual, v.mesh->axes[a].name);
    uint64_t open = left ? v.axes.open : 0;
    instr_id held = add_sharding_call(p, i, operand, enters ? full : local, open);
    become_call(p, i, enters ? "SPMDFullToShardShape" : "SPMDShardToFullShape", held, enters ? local : full, open);
    p->changed = true;
    return true;
}

static bool is_border(const struct module *m, const struct instr *in)
{
    if (in->op != OP_CUSTOM_CALL || !in->frontend_len)
        return false;
    const char *target = instr_target(m, in);
    return !strcmp(target, "xla.sdy.GlobalToLocalShape") || !strcmp(target, "xla.sdy.LocalToGlobalShape");
}

/* xla.sdy.FuncResultSharding: what a result of the program is to be; a reshape that says so, as the
 * StableHLO reader has it. */
static void convert_result(struct importer *p, instr_id i)
{
    struct instr *in = instr_at(p->m, i);
    struct value_sharding v;
    const char *list = text_of(p, in->frontend, in->frontend_len, "xla.sdy.sharding");
    if (in->noperands != 1 || !read_value(p, list, 0, &v) || instr_shape(p->m, i)->kind != SHAPE_ARRAY)
        return;
    in->op = OP_RESHAPE;
    in->nattrs = 0;
    in->sharding = v.axes.n ? layout_sharding(p->m->ir->shardings, v.mesh, &v.axes)
                            : sharding_replicated(p->m->ir->shardings);
    in->note = NULL;
    in->frontend = NULL;
    in->frontend_len = 0;
    p->changed = true;
}

/* Adds the quoted axes of a list to those that a computation runs under; whether any is new. */
static bool add_axes(struct importer *p, comp_id c, const char *axes)
{
    bool any = false;
    for (const char *at = axes; (at = strchr(at, '"')); at++) {
        const char *end = strchr(at + 1, '"');
        if (!end)
            break;
        const char *name = arena_strndup(&p->tmp, at + 1, (size_t)(end - at - 1));
        if (!is_manual_axis(p->under[c.i], name)) {
            p->under[c.i] = arena_printf(&p->tmp, "%s\"%s\"", p->under[c.i] ? p->under[c.i] : "", name);
            any = true;
        }
        at = end;
    }
    return any;
}

/* What the leaving call takes comes from the call of the body: it and all that it calls see local arrays. */
static void find_bodies(struct importer *p)
{
    struct module *m = p->m;
    VEC(comp_id) todo = { 0 };
    p->under = ARENA_ARRAY(&p->tmp, const char *, (int64_t)module_ncomps(m) + 1);
    for (uint32_t k = 1; k <= module_ninstrs(m); k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        if (!is_border(m, in) || strcmp(instr_target(m, in), "xla.sdy.LocalToGlobalShape") != 0 || !in->noperands)
            continue;
        const char *axes = text_of(p, in->frontend, in->frontend_len, "xla.sdy.manual_axes");
        const struct instr *from = instr_at(m, in->operands[0]);
        if (from->op == OP_GET_TUPLE_ELEMENT)
            from = instr_at(m, from->operands[0]);
        const struct attr *a = from->op == OP_CALL ? instr_attr(from, ATTR_TO_APPLY) : NULL;
        if (axes && a && add_axes(p, a->comp, axes))
            vec_push(&p->tmp, &todo, a->comp);
    }
    while (todo.n) { /* ends: each time a computation gets an axis that it had not */
        comp_id c = todo.v[--todo.n];
        const struct computation *k = comp_at(m, c);
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            comp_id called[64];
            int n = instr_called(m, k->instrs[j], called, 64);
            for (int v = 0; v < n && v < 64; v++)
                if (add_axes(p, called[v], p->under[c.i]))
                    vec_push(&p->tmp, &todo, called[v]);
        }
    }
}

/* Open dimensions of a constraint, which the sharding itself cannot say. */
static void open_dims(struct importer *p, struct instr *in, uint64_t open)
{
    struct attr a[2];
    if (in->op != OP_CUSTOM_CALL || !open || strcmp(instr_target(p->m, in), "Sharding") != 0 ||
        instr_attr(in, ATTR_BACKEND_CONFIG))
        return;
    int n = call_attrs(p, "Sharding", open, a);
    in->attrs = arena_copy(&p->m->arena, a, n, sizeof *a);
    in->nattrs = (uint8_t)n;
    p->changed = true;
}

/* Shardings that are said inside of a body are of the axes that are left: what the manual ones take is
 * added, as the StableHLO reader does. */
static void import_shardings(struct importer *p)
{
    struct module *m = p->m;
    for (uint32_t c = 1; c <= module_ncomps(m); c++) {
        const struct computation *k = comp_at(m, (comp_id){ c });
        for (uint32_t j = 0; j < k->ninstrs; j++) {
            struct instr *in = instr_at(m, k->instrs[j]);
            struct value_sharding s;
            sharding_id full, local;
            if (!in->sharding.i || !in->frontend_len || instr_shape(m, k->instrs[j])->kind != SHAPE_ARRAY ||
                !read_value(p, text_of(p, in->frontend, in->frontend_len, "xla.sdy.sharding"), 0, &s))
                continue;
            if (p->under[c] && both_sides(p, &s, p->under[c], &full, &local)) {
                in->sharding = local;
                in->note = NULL;
            }
            open_dims(p, in, s.axes.open);
        }
    }
}

/* In no computation any more, and nothing that a pass over all instructions would trip over. */
static void drop(struct module *m, instr_id i)
{
    struct instr *in = instr_at(m, i);
    in->op = OP_AFTER_ALL;
    in->noperands = 0;
    in->nattrs = 0;
    in->frontend = NULL;
    in->frontend_len = 0;
}

/* What becomes of one computation; made before it, so that ids in k stay good. */
static void import_computation(struct importer *p, comp_id c)
{
    struct module *m = p->m;
    const struct computation *k = comp_at(m, c);
    uint32_t n = k->ninstrs;
    const instr_id *list = arena_copy(&p->tmp, k->instrs, n, sizeof *list);
    instr_id root = k->root;
    p->added.n = p->before.n = 0;
    for (uint32_t j = 0; j < n; j++) {
        const struct instr *in = instr_at(m, list[j]);
        if (in->op == OP_GET_TUPLE_ELEMENT && is_border(m, instr_at(m, in->operands[0])))
            (void)convert(p, instr_at(m, in->operands[0]), instr_int(in, ATTR_INDEX, 0), list[j]);
        else if (is_border(m, in) && instr_shape(m, list[j])->kind == SHAPE_ARRAY)
            (void)convert(p, in, 0, list[j]);
        else if (in->op == OP_CUSTOM_CALL && in->frontend_len &&
                 !strcmp(instr_target(m, in), "xla.sdy.FuncResultSharding"))
            convert_result(p, list[j]);
    }
    if (!p->changed)
        return;
    bool *used = ARENA_ARRAY(&p->tmp, bool, (int64_t)module_ninstrs(m) + 1);
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t o = 0; o < instr_at(m, list[j])->noperands; o++)
            used[instr_at(m, list[j])->operands[o].i] = true;
    instr_id *out = ARENA_ARRAY(&p->tmp, instr_id, (int64_t)n + p->added.n + 1);
    uint32_t count = 0;
    for (uint32_t j = 0; j < n; j++) {
        for (int64_t a = 0; a < p->added.n; a++)
            if (p->before.v[a].i == list[j].i)
                out[count++] = p->added.v[a];
        const struct instr *in = instr_at(m, list[j]);
        bool left_over = is_border(m, in) && !used[list[j].i] && list[j].i != root.i;
        if (left_over)
            drop(m, list[j]);
        else
            out[count++] = list[j];
    }
    comp_set_instrs(m, c, count, out, root);
}

/* ---- channels ----------------------------------------------------------------------------------------- */

static bool is_collective_of_channel(const struct instr *in)
{
    return (in->op == OP_ALL_REDUCE || in->op == OP_ALL_GATHER || in->op == OP_ALL_TO_ALL ||
            in->op == OP_COLLECTIVE_PERMUTE || in->op == OP_REDUCE_SCATTER || in->op == OP_COLLECTIVE_BROADCAST ||
            in->op == OP_RAGGED_ALL_TO_ALL) &&
           instr_attr(in, ATTR_CHANNEL_ID);
}

void module_unique_channels(struct module *m)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    struct map seen;
    map_init(&seen, &tmp);
    int64_t most = 0;
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        most = max_i64(most, instr_int(instr_at(m, (instr_id){ k }), ATTR_CHANNEL_ID, 0));
    for (uint32_t k = 1; k <= module_ninstrs(m) && most < INT32_MAX; k++) {
        struct instr *in = instr_at(m, (instr_id){ k });
        if (!is_collective_of_channel(in))
            continue;
        uint64_t id = (uint64_t)instr_int(in, ATTR_CHANNEL_ID, 0), there;
        if (!map_get(&seen, id, &there)) {
            map_put(&seen, id, 1);
            continue;
        }
        struct attr *attrs = arena_copy(&m->arena, in->attrs, in->nattrs, sizeof *attrs);
        for (int a = 0; a < in->nattrs; a++)
            if (attrs[a].key == ATTR_CHANNEL_ID)
                attrs[a] = attr_int(ATTR_CHANNEL_ID, ++most);
        in->attrs = attrs;
    }
    arena_close(&tmp);
}

bool hlo_import_shardy(struct module *m)
{
    struct importer p = { .m = m };
    bool any = false;
    for (uint32_t k = 1; k <= module_ninstrs(m) && !any; k++) {
        const struct instr *in = instr_at(m, (instr_id){ k });
        any = in->op == OP_CUSTOM_CALL && in->frontend_len &&
              (!strncmp(instr_target(m, in), "xla.sdy.", 8) ||
               memmem(in->frontend, in->frontend_len, "xla.sdy.sharding", 16));
    }
    if (!any)
        return false;
    arena_open(&p.tmp);
    read_meshes(&p);
    find_bodies(&p);
    bool changed = false;
    for (uint32_t c = 1; c <= module_ncomps(m) && p.nmeshes > 0; c++) {
        p.changed = false;
        import_computation(&p, (comp_id){ c });
        changed |= p.changed;
    }
    p.changed = false;
    import_shardings(&p);
    changed |= p.changed;
    if (changed)
        module_unique_channels(m);
    arena_close(&p.tmp);
    return changed;
}
