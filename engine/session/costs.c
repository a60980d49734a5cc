/* Memory and time of a strategy's program. */
#include "session/internal.h"

/* The newest plan of another program: an edit changes few of its computations. */
static struct cost_plan *earlier_plan(const struct document *doc, const struct partitioned *p)
{
    for (struct derived *e = doc->from_scratch ? NULL : doc->derived; e; e = e->next)
        for (struct partitioned *q = e->parts; q; q = q->next)
            if (q != p && q->plan)
                return q->plan;
    return NULL;
}

static bool make_memory(struct document *doc, struct partitioned *p, struct tick *t, struct diag *d)
{
    const struct module *m = doc->partitioned ? doc->module : p->program->module;
    struct cost_options o = { 0 };
    if (!p->plan) {
        doc->computations++;
        p->plan = cost_plan_after(earlier_plan(doc, p), m, doc->partitioned ? NULL : p->program, &o, t, d);
    }
    if (p->plan && !p->memory)
        p->memory = memory_of(p->plan, &o);
    return p->memory != NULL;
}

bool strategy_memory(struct document *doc, const struct strategy *s, const struct cost_plan **plan,
                     const struct memory **memory, struct tick *t, struct diag *d)
{
    const struct collective *list;
    int64_t n, total;
    if (!strategy_collectives(doc, s, &list, &n, &total, t, d))
        return false;
    struct fail_frame f;
    if (!FAIL_ENTER(&f))
        return boundary_failed(&f, d);
    struct partitioned *p = partitioned_for(doc, s);
    bool ok = make_memory(doc, p, t, d);
    if (ok) {
        *plan = p->plan;
        *memory = p->memory;
    }
    fail_leave(&f);
    return ok;
}

bool document_memory(struct document *doc, const struct cost_plan **plan,
                     const struct memory **memory, struct tick *t, struct diag *d)
{
    return strategy_memory(doc, doc->current, plan, memory, t, d);
}

struct cost *strategy_cost(struct document *doc, const struct strategy *s, const struct hardware *h,
                           int nshape, const int64_t *shape, enum overlap overlap, struct tick *t,
                           struct diag *d)
{
    const struct cost_plan *plan;
    const struct memory *memory;
    if (!strategy_memory(doc, s, &plan, &memory, t, d))
        return NULL;
    struct fail_frame f;
    if (!FAIL_ENTER(&f)) {
        (void)boundary_failed(&f, d);
        return NULL;
    }
    struct machine m;
    struct cost *c = NULL;
    const char *former = diag_stage(d, "usage");
    if (machine_make(h, strategy_devices(doc, s), nshape, shape, &m, d)) {
        if (s->nmeshes > 0 && s->meshes[0].naxes > 0 && mesh_devices(&s->meshes[0]) == m.ndevices)
            m.places = s->meshes[0].physical;
        c = cost_of(plan, &m, overlap, max_i64(doc->module->replica_count, 1));
    }
    diag_stage(d, former);
    fail_leave(&f);
    return c;
}
