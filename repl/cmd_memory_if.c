/* memory keep= drop=: what the peak would be if a value of a loop's body were kept for the backward pass
 * instead of being computed again there, or a kept one computed again. */
#include <stdlib.h>
#include <string.h>

#include "repl/costs.h"

/* The node of the program that stands for a loaded instruction: the one whose value takes most over its turns. */
static instr_id node_of(struct call *c, const struct program *p, const struct cost_plan *plan, instr_id loaded)
{
    instr_id best = { 0 };
    if (!p)
        return loaded;
    for (uint32_t k = 1; k <= module_ninstrs(plan->module); k++) {
        const struct instr *in = instr_at(plan->module, (instr_id){ k });
        if (plan->use[in->comp.i] != COMP_RUN || op_is_collective((enum op_kind)in->op) ||
            served_by(c, p, (instr_id){ k }).i != loaded.i)
            continue;
        if (!best.i || memory_kept(plan, (instr_id){ k }) > memory_kept(plan, best))
            best = (instr_id){ k };
    }
    return best;
}

static bool keep_one(struct call *c, const struct program *p, const struct cost_plan *plan, const char *name, size_t n,
                     bool dry, int64_t *peak)
{
    instr_id loaded;
    int64_t leaf;
    const char *text = arena_strndup(&c->arena, name, n);
    if (!select_tensor(c->sh->doc, text, n, c->src, 0, &loaded, &leaf, c->d))
        return false;
    instr_id i = node_of(c, p, plan, loaded);
    if (!i.i) {
        (void)call_error(c, STATUS_USAGE, NULL, "nothing in the program stands for %s", text);
        return false;
    }
    int64_t bytes = memory_kept(plan, i);
    *peak += bytes;
    if (dry)
        return true;
    if (c->json) {
        json_open(&c->js, '{');
        json_put_string(&c->js, "keep", text);
        json_put_int(&c->js, "bytes", bytes);
        json_close(&c->js, '}');
        return true;
    }
    const struct instr *in = instr_at(plan->module, i);
    out(c, "if kept      %s: %s x %s turns, %s more: %s\n", text, shape_text(c, in->shape),
        nice_number(&c->arena, plan->runs[in->comp.i]), nice_bytes(&c->arena, bytes), nice_bytes(&c->arena, *peak));
    return true;
}

/* drop names a line of what is alive: `while.1{7}`. */
static bool drop_one(struct call *c, const struct module *m, const struct memory *r, const char *name, size_t n, bool dry,
                     int64_t *peak)
{
    const char *text = arena_strndup(&c->arena, name, n);
    for (int64_t k = 0; k < r->nlive; k++) {
        const struct buffer *b = &r->live[k];
        const char *plain = node_name(c, m, b->instr);
        const char *full = arena_printf(&c->arena, "%s{%" PRId64 "}", plain, max_i64(b->leaf, 0));
        if (strcmp(text, full) != 0 && (b->leaf > 0 || strcmp(text, plain) != 0))
            continue;
        *peak -= b->bytes;
        if (dry)
            return true;
        if (c->json) {
            json_open(&c->js, '{');
            json_put_string(&c->js, "drop", text);
            json_put_int(&c->js, "bytes", b->bytes);
            json_close(&c->js, '}');
        } else {
            out(c, "if dropped   %s, %s less: %s\n", text, nice_bytes(&c->arena, b->bytes), nice_bytes(&c->arena, *peak));
        }
        return true;
    }
    (void)call_error(c, STATUS_USAGE, NULL, "%s is not alive at the peak: see memory --all", text);
    return false;
}

bool memory_ifs(struct call *c, const struct program *p, const struct cost_plan *plan, const struct memory *r, bool dry)
{
    static const char *const words[2] = { "keep", "drop" };
    int64_t peak = r->peak;
    bool any = call_option(c, "keep") || call_option(c, "drop"), ok = true;
    if (!any)
        return true;
    if (c->json && !dry)
        json_put_open(&c->js, "if", '[');
    for (int w = 0; w < 2; w++)
        for (const char *at = call_option(c, words[w]); ok && at && *at;) {
            size_t n = strcspn(at, ",");
            ok = w == 0 ? keep_one(c, p, plan, at, n, dry, &peak) : drop_one(c, plan->module, r, at, n, dry, &peak);
            at += n + (at[n] == ',');
        }
    if (c->json && !dry) {
        json_close(&c->js, ']');
        json_put_int(&c->js, "if_peak", peak);
    }
    return ok;
}
