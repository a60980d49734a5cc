/* Memory over the schedule of one device, drawn. */
#include "viz/memory.h"

#include "repl/costs.h"
#include "repl/pictures.h"

struct scene *picture_memory(struct picture *p)
{
    struct call *c = p->c;
    const struct program *prog;
    const struct module *m;
    if (c->n > 0) {
        call_usage(c, 0, "memory takes no argument");
        return NULL;
    }
    if (!document_module(c->sh->doc)) {
        call_usage(c, -1, "no module is loaded");
        return NULL;
    }
    if (!costs_program(c, &prog, &m))
        return NULL;
    struct cost_options o = { .schedule = SCHEDULE_AUTO };
    struct cost_plan *plan = cost_plan_new(m, prog, &o, call_tick(c), c->d);
    if (!plan)
        return NULL;
    struct memory *r = memory_of(plan, &o);
    struct memory_row *rows = ARENA_ARRAY(p->a, struct memory_row, r->nlive);
    for (int64_t k = 0; k < r->nlive; k++) {
        rows[k].name = arena_strdup(p->a, node_name(c, m, r->live[k].instr));
        rows[k].kind = memory_kind_name((enum memory_kind)r->live[k].kind);
        rows[k].bytes = r->live[k].bytes;
    }
    const struct hardware *h = costs_hardware(c);
    struct memory_picture picture = { .m = r, .nrows = (int)min_i64(r->nlive, 1 << 20), .rows = rows };
    picture.at = r->at.i ? node_name(c, m, r->at) : "";
    picture.capacity = h ? (int64_t)h->memory.value : 0;
    struct scene *s = view_memory(&picture, p->width > 0 ? p->width - 120 : 500, p->text, p->a);
    memory_free(r);
    cost_plan_free(plan);
    return s;
}
