/* suggest: single annotations that bring a goal nearer, each found by trying it on a copy. */
#include <stdlib.h>
#include <string.h>

#include "repl/commands.h"

enum { MOST_TENSORS = 40, MOST_TRIALS = 400, LEAST_TRIALS = 8, SHOWN = 8, MOST_DIMS = 16 };
/* Instructions that the trials may go through before the command says so and stops (--all: no bound): a few seconds. */
enum { MOST_WORK = 3 * 1000 * 1000 };
enum goal { GOAL_BYTES, GOAL_MEMORY };

/* A sharding in axes, dimension by dimension: "(data,model)" as "data,model", "" not split. */
struct split {
    int rank;
    const char *axes[MOST_DIMS];
};

struct idea {
    instr_id target;
    const char *spec;
    int64_t bytes, peak;
    int64_t goal[2]; /* bytes and peak, what is wanted less first */
    int64_t changed; /* instructions whose sharding changes */
};

struct ideas {
    struct call *c;
    enum goal goal;
    int64_t bytes, peak; /* of the strategy as it is */
    int64_t tried;
    bool all_tried;
    VEC(struct idea) list;
};

/* ---- shardings to try ------------------------------------------------------------------------------ */

static bool read_split(struct call *c, sharding_id s, int rank, struct split *out_split)
{
    struct str text = STR_IN(&c->arena);
    struct shardings *t = document_ir(c->sh->doc)->shardings;
    *out_split = (struct split){ .rank = rank };
    for (int d = 0; d < rank; d++)
        out_split->axes[d] = "";
    if (!s.i || sharding_is_replicated(t, s))
        return true;
    if (!sharding_spell_as(t, document_mesh(c->sh->doc), s, SPELL_AXES, NULL, &text, NULL) ||
        str_text(&text)[0] != '[' || strchr(str_text(&text), '@') || strchr(str_text(&text), ':'))
        return false;
    const char *p = str_text(&text) + 1;
    for (int d = 0; d < rank; d++) {
        bool several = *p == '(';
        p += several;
        size_t n = strcspn(p, several ? ")" : ",]");
        out_split->axes[d] = n == 1 && *p == '_' ? "" : arena_strndup(&c->arena, p, n);
        p += n + several;
        p += *p == ',';
    }
    return true;
}

static const char *spec_of(struct call *c, const struct split *s)
{
    struct str t = STR_IN(&c->arena);
    str_addc(&t, '[');
    for (int d = 0; d < s->rank; d++) {
        const char *axes = s->axes[d];
        bool several = strchr(axes, ',') != NULL;
        str_addf(&t, "%s%s%s%s", d ? "," : "", several ? "(" : "", axes[0] ? axes : "_",
                 several ? ")" : "");
    }
    str_addc(&t, ']');
    return str_text(&t);
}

/* `axes` without one of them. */
static const char *without(struct call *c, const char *axes, const char *axis)
{
    struct str t = STR_IN(&c->arena);
    for (const char *p = axes; *p;) {
        size_t n = strcspn(p, ",");
        if (n != strlen(axis) || strncmp(p, axis, n) != 0)
            str_addf(&t, "%s%.*s", t.n ? "," : "", (int)n, p);
        p += n + (p[n] == ',');
    }
    return str_text(&t);
}

/* ---- trying ---------------------------------------------------------------------------------------- */

static int64_t peak_of(struct call *c, const struct program *p)
{
    struct cost_options o = { 0 };
    int64_t peak = -1;
    struct cost_plan *plan = cost_plan_new(p->module, p, &o, call_tick(c), NULL);
    struct memory *m = plan ? memory_of(plan, &o) : NULL;
    if (m)
        peak = m->peak;
    memory_free(m);
    cost_plan_free(plan);
    return peak;
}

static int64_t count_changed(struct call *c, const struct propagation *a, const struct propagation *b)
{
    struct change *list;
    return compare_shardings(c, a, b, &list);
}

static void try_spec(struct ideas *all, instr_id target, const struct split *s)
{
    struct call *c = all->c;
    const char *spec = spec_of(c, s);
    struct source src = { .name = "<suggestion>", .text = spec, .len = strlen(spec) };
    struct annotation a = { .kind = ANNOTATE_SHARD, .target = target, .leaf = -1 };
    shape_id shape = instr_at(document_module(c->sh->doc), target)->shape;
    const struct source *own = c->src;
    int64_t work = all->tried * module_ninstrs(document_module(c->sh->doc));
    bool enough = all->tried >= MOST_TRIALS || (work > MOST_WORK && all->tried >= LEAST_TRIALS);
    if ((enough && !c->all) || c->sh->interrupted) {
        all->all_tried = false;
        return;
    }
    c->src = &src;
    struct diag *d = c->d;
    c->d = NULL; /* a spec that does not fit is no error of the user's */
    bool read = read_spec(c, spec, src.len, 0, shape, &a.sharding, &a.open);
    c->d = d;
    c->src = own;
    if (!read)
        return;
    struct trial t;
    all->tried++;
    if (!document_try_edit(c->sh->doc, &a, &t, call_tick(c), NULL))
        return;
    struct idea i = { .target = target, .spec = spec, .bytes = t.total };
    i.peak = t.program ? peak_of(c, t.program) : -1;
    i.changed =
        count_changed(c, document_propagation(c->sh->doc, call_tick(c), NULL), t.prop);
    trial_free(&t);
    i.goal[0] = all->goal == GOAL_BYTES ? i.bytes : i.peak;
    i.goal[1] = all->goal == GOAL_BYTES ? i.peak : i.bytes;
    bool better = all->goal == GOAL_BYTES ? i.bytes < all->bytes && i.peak <= all->peak
                                          : i.peak < all->peak;
    if (better && i.peak >= 0)
        vec_push(&c->arena, &all->list, i);
}

/* Each axis put on each dimension that it divides, in place of where it is now; and taken away. */
static void try_tensor(struct ideas *all, instr_id target)
{
    struct call *c = all->c;
    const struct mesh *mesh = document_mesh(c->sh->doc);
    const struct shape *shape = shape_get(
        document_ir(c->sh->doc), instr_at(document_module(c->sh->doc), target)->shape);
    struct tensor_view v;
    struct split now;
    if (shape->kind != SHAPE_ARRAY || shape->rank < 1 || shape->rank > MOST_DIMS ||
        !document_view(c->sh->doc, target, 0, &v, call_tick(c), NULL) ||
        !read_split(c, v.sharding, shape->rank, &now))
        return;
    for (int k = 0; k < mesh->naxes; k++) {
        const char *axis = mesh->axes[k].name;
        struct split free = now;
        bool had = false;
        for (int d = 0; d < now.rank; d++) {
            free.axes[d] = without(c, now.axes[d], axis);
            had |= strcmp(free.axes[d], now.axes[d]) != 0;
        }
        if (mesh->axes[k].size < 2)
            continue;
        if (had)
            try_spec(all, target, &free);
        for (int d = 0; d < now.rank; d++) {
            struct split s = free;
            if (shape->dims[d] % mesh->axes[k].size != 0 || shape->dims[d] == 0)
                continue;
            s.axes[d] = s.axes[d][0] ? arena_printf(&c->arena, "%s,%s", s.axes[d], axis) : axis;
            if (strcmp(spec_of(c, &s), spec_of(c, &now)) != 0)
                try_spec(all, target, &s);
        }
    }
}

/* ---- what is worth trying -------------------------------------------------------------------------- */

struct sized {
    instr_id i;
    int64_t bytes;
};

static int by_size(const void *x, const void *y)
{
    const struct sized *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->i.i < b->i.i ? -1 : a->i.i > b->i.i;
}

/* Parameters, and what the collectives serve: the largest first. */
static int64_t candidates(struct call *c, struct sized **out_list)
{
    const struct module *m = document_module(c->sh->doc);
    const struct computation *entry = comp_at(m, m->entry);
    const struct collective *list;
    int64_t n, total;
    VEC(struct sized) v = { 0 };
    bool *seen = ARENA_ARRAY(&c->arena, bool, module_ninstrs(m) + 1);
    for (uint32_t k = 0; k < entry->nparams; k++) {
        struct sized s = { entry->params[k],
                           shape_get(m->ir, instr_at(m, entry->params[k])->shape)->bytes };
        seen[s.i.i] = true;
        vec_push(&c->arena, &v, s);
    }
    const struct program *p = document_program(c->sh->doc, call_tick(c), NULL);
    if (p && document_collectives(c->sh->doc, &list, &n, &total, call_tick(c), NULL))
        for (int64_t k = 0; k < n; k++) {
            instr_id i = served_by(c, p, list[k].instr);
            if (!i.i || seen[i.i])
                continue;
            seen[i.i] = true;
            struct sized s = { i, shape_get(m->ir, instr_at(m, i)->shape)->bytes };
            vec_push(&c->arena, &v, s);
        }
    if (v.n > 1)
        qsort(v.v, (size_t)v.n, sizeof *v.v, by_size);
    *out_list = v.v;
    return v.n;
}

static int by_goal(const void *x, const void *y)
{
    const struct idea *a = x, *b = y;
    for (int k = 0; k < 2; k++)
        if (a->goal[k] != b->goal[k])
            return a->goal[k] < b->goal[k] ? -1 : 1;
    if (a->target.i != b->target.i)
        return a->target.i < b->target.i ? -1 : 1;
    return strcmp(a->spec, b->spec);
}

/* ---- the command ----------------------------------------------------------------------------------- */

static void print_ideas(struct call *c, const struct ideas *all)
{
    int64_t n = all->list.n, shown = c->all || c->json || n < SHOWN ? n : SHOWN;
    if (c->json) {
        json_put_int(&c->js, "bytes", all->bytes);
        json_put_int(&c->js, "memory", all->peak);
        json_put_int(&c->js, "tried", all->tried);
        json_put_bool(&c->js, "all_tried", all->all_tried);
        json_put_open(&c->js, "suggestions", '[');
        for (int64_t k = 0; k < n; k++) {
            const struct idea *i = &all->list.v[k];
            json_open(&c->js, '{');
            json_put_string(&c->js, "command",
                            arena_printf(&c->arena, "shard %s %s", tensor_name(c, i->target), i->spec));
            json_put_int(&c->js, "bytes", i->bytes);
            json_put_int(&c->js, "memory", i->peak);
            json_put_int(&c->js, "changed", i->changed);
            json_close(&c->js, '}');
        }
        json_close(&c->js, ']');
        return;
    }
    out(c, "now: %s sent by each device, %s of memory at the peak\n",
        nice_bytes(&c->arena, all->bytes), nice_bytes(&c->arena, all->peak));
    static const char *const heads[] = { "try", ">sent", ">peak", ">shardings changed", NULL };
    struct table t;
    table_init(&t, &c->arena, heads);
    for (int64_t k = 0; k < shown; k++) {
        const struct idea *i = &all->list.v[k];
        const char **row = table_row(&t);
        row[0] = arena_printf(&c->arena, "shard %s %s", tensor_name(c, i->target), i->spec);
        row[1] = nice_bytes(&c->arena, i->bytes);
        row[2] = nice_bytes(&c->arena, i->peak);
        row[3] = with_commas(&c->arena, i->changed);
    }
    table_print(c, &t, true);
    call_more(c, shown, n, "");
    out(c, "%s tried%s%s\n", counted(&c->arena, all->tried, "annotation"),
        all->all_tried ? "" : c->all ? ", then stopped" : ", not all that there are (--all tries them)",
        n == 0 ? all->goal == GOAL_BYTES
                     ? ": none sends less without taking more memory"
                     : ": none takes less memory"
               : "");
}

int cmd_suggest(struct call *c)
{
    struct ideas all = { .c = c, .all_tried = true };
    const char *word = c->n ? c->args[0].text : "bytes";
    if (!strcmp(word, "memory"))
        all.goal = GOAL_MEMORY;
    else if (strcmp(word, "bytes") != 0)
        return call_usage(c, 0, "'%s' is no goal: bytes or memory", word);
    if (!document_mesh(c->sh->doc)) {
        call_usage(c, -1, "annotations are tried over the axes of a mesh, and none is named");
        diag_hint(c->d, "mesh data=2 model=4");
        return STATUS_USAGE;
    }
    const struct collective *list;
    const struct cost_plan *plan;
    const struct memory *memory;
    int64_t n;
    if (!document_collectives(c->sh->doc, &list, &n, &all.bytes, call_tick(c), c->d) ||
        !document_memory(c->sh->doc, &plan, &memory, call_tick(c), c->d))
        return call_failed(c);
    all.peak = memory->peak;
    struct sized *tensors;
    int64_t ntensors = candidates(c, &tensors);
    if (ntensors > MOST_TENSORS && !c->all) {
        all.all_tried = false;
        ntensors = MOST_TENSORS;
    }
    for (int64_t k = 0; k < ntensors && tick_now(call_tick(c), "suggest", k, ntensors); k++)
        try_tensor(&all, tensors[k].i);
    if (all.list.n > 1)
        qsort(all.list.v, (size_t)all.list.n, sizeof *all.list.v, by_goal);
    print_ideas(c, &all);
    return STATUS_OK;
}
