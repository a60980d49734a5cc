/* A text loaded, planned, and its memory: for the tests of costs. */
#ifndef GSPMD_TESTS_COST_FIXTURE_H
#define GSPMD_TESTS_COST_FIXTURE_H

#include <string.h>

#include "cost/cost.h"
#include "text/text.h"

struct fixture {
    struct ir *ir;
    struct diag *d;
    struct module *m;
    struct cost_plan *plan;
    struct memory *memory;
};

static struct fixture open_text(const char *text, const struct cost_options *o)
{
    struct fixture f = { .ir = ir_new(), .d = diag_new() };
    f.m = module_load_text(f.ir, "test.hlo", text, strlen(text), NULL, f.d);
    if (!f.m)
        fail_msg("%s", f.d->msgs.n ? f.d->msgs.v[0].text : "does not load");
    f.plan = cost_plan_new(f.m, NULL, o, NULL, f.d);
    f.memory = memory_of(f.plan, o);
    return f;
}

static void close_text(struct fixture *f)
{
    memory_free(f->memory);
    cost_plan_free(f->plan);
    module_free(f->m);
    diag_free(f->d);
    ir_free(f->ir);
}

static instr_id named(const struct module *m, const char *name)
{
    for (uint32_t k = 1; k <= module_ninstrs(m); k++)
        if (strcmp(name_text(m->ir, instr_at(m, (instr_id){ k })->name), name) == 0)
            return (instr_id){ k };
    fail_msg("no %s", name);
    return (instr_id){ 0 };
}

#endif
