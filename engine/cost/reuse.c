/* After an edit: computations that an earlier plan has alike are taken from it, so that kernels are found, counted
 * and ordered anew only where something changed. A computation is alike when its instructions are, one by one:
 * operation, shape, operands by their place in it, attributes, what it calls. Names, metadata, shardings and groups
 * of devices say nothing about kernels. */
#include <string.h>

#include "cost/internal.h"

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t v;
        memcpy(&v, b, 8);
        h = mix(h, v);
    }
    for (; n > 0; n--, b++)
        h = mix(h, *b);
    return h;
}

/* ---- attributes ------------------------------------------------------------------------------------------- */

static uint64_t mix_window(uint64_t h, const struct window *w)
{
    for (int d = 0; d < w->rank; d++) {
        const struct window_dim *x = &w->dims[d];
        h = mix(mix(mix(h, (uint64_t)x->size), (uint64_t)x->stride), (uint64_t)x->pad_low);
        h = mix(mix(mix(h, (uint64_t)x->pad_high), (uint64_t)x->base_dilation), (uint64_t)x->window_dilation);
        h = mix(h, x->reversal);
    }
    return h;
}

static uint64_t mix_conv(uint64_t h, const struct conv_dims *c)
{
    size_t n = (size_t)c->nspatial * sizeof(int);
    h = mix(mix(mix(h, (uint64_t)c->lhs_batch), (uint64_t)c->lhs_feature), (uint64_t)c->rhs_in);
    h = mix(mix(mix(h, (uint64_t)c->rhs_out), (uint64_t)c->out_batch), (uint64_t)c->out_feature);
    return mix_bytes(mix_bytes(mix_bytes(h, c->lhs_spatial, n), c->rhs_spatial, n), c->out_spatial, n);
}

static uint64_t mix_attr(const struct cost_plan *p, uint64_t h, const struct attr *a)
{
    h = mix(h, (uint64_t)a->key << 8 | a->type);
    switch ((enum attr_type)a->type) {
    case ATTR_TYPE_NONE:
    case ATTR_TYPE_GROUPS:
    case ATTR_TYPE_PAIRS:
    case ATTR_TYPE_INSTRS:
        return h;
    case ATTR_TYPE_INT:
    case ATTR_TYPE_BOOL:
        /* a channel is a number of the program's */
        return a->key == ATTR_CHANNEL_ID ? h : mix(h, (uint64_t)a->i);
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_SLICE:
    case ATTR_TYPE_PADDING:
        return mix_bytes(mix(h, a->n), a->ints, a->n * sizeof *a->ints);
    case ATTR_TYPE_IDENT:
        return mix(h, a->name.i);
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_RAW:
        return mix_bytes(mix(h, a->n), a->text, a->n);
    case ATTR_TYPE_COMP:
        return mix(h, p->print[a->comp.i]);
    case ATTR_TYPE_COMPS:
        for (uint32_t k = 0; k < a->n; k++)
            h = mix(h, p->print[a->comps[k].i]);
        return mix(h, a->n);
    case ATTR_TYPE_WINDOW:
        return mix_window(h, a->window);
    case ATTR_TYPE_CONV:
        return mix_conv(h, a->conv);
    case ATTR_TYPE_FLOAT:
        return mix_bytes(h, &a->f, sizeof a->f);
    }
    return h;
}

/* ---- computations ------------------------------------------------------------------------------------------- */

/* Everything of an instruction that its kernel depends on. */
static uint64_t print_instr(const struct cost_plan *p, const struct instr *in)
{
    uint64_t h = mix(mix(mix(11, in->op), in->shape.i), in->noperands);
    for (uint32_t k = 0; k < in->noperands; k++)
        h = mix(h, p->local[in->operands[k].i]);
    for (uint8_t k = 0; k < in->nattrs; k++)
        h = mix_attr(p, h, &in->attrs[k]);
    return h;
}

static void plan_prints(struct cost_plan *p)
{
    const struct module *m = p->module;
    p->local = ARENA_ARRAY(&p->arena, uint32_t, (int64_t)module_ninstrs(m) + 2);
    p->print = ARENA_ARRAY(&p->arena, uint64_t, (int64_t)module_ncomps(m) + 2);
    for (uint32_t c = 0; c < p->ncomps; c++) { /* callees first */
        const struct computation *comp = comp_at(m, p->comps[c]);
        uint64_t h = mix(7, comp->ninstrs);
        for (uint32_t k = 0; k < comp->ninstrs; k++)
            p->local[comp->instrs[k].i] = k;
        for (uint32_t k = 0; k < comp->ninstrs; k++)
            h = mix(h, print_instr(p, instr_at(m, comp->instrs[k])));
        h = mix(h, p->local[comp->root.i]);
        p->print[p->comps[c].i] = mix(h, p->use[p->comps[c].i]);
    }
}

/* The prints agree (64 bits, attributes and all); now instruction by instruction what is quickly seen. */
static bool alike(const struct cost_plan *p, comp_id a, const struct cost_plan *q, comp_id b)
{
    const struct computation *x = comp_at(p->module, a), *y = comp_at(q->module, b);
    if (p->use[a.i] != q->use[b.i] || x->ninstrs != y->ninstrs || p->local[x->root.i] != q->local[y->root.i])
        return false;
    for (uint32_t k = 0; k < x->ninstrs; k++) {
        const struct instr *i = instr_at(p->module, x->instrs[k]), *j = instr_at(q->module, y->instrs[k]);
        if (i->op != j->op || i->shape.i != j->shape.i || i->noperands != j->noperands || i->nattrs != j->nattrs)
            return false;
        for (uint32_t o = 0; o < i->noperands; o++)
            if (p->local[i->operands[o].i] != q->local[j->operands[o].i])
                return false;
    }
    return true;
}

static bool same_options(const struct cost_options *a, const struct cost_options *b)
{
    return a->schedule == b->schedule && a->no_fusion == b->no_fusion && a->plain_matrix == b->plain_matrix &&
           a->widen == b->widen;
}

/* Whether any computation could be alike: some pair has as many instructions. Else (an unrolled model) there is
 * no need to look closer. */
static bool any_as_long(const struct cost_plan *p, const struct cost_plan *before, struct arena *tmp)
{
    struct map lengths;
    uint64_t v;
    map_init(&lengths, tmp);
    for (uint32_t c = 0; c < before->ncomps; c++)
        if (before->use[before->comps[c].i] == COMP_RUN)
            map_put(&lengths, comp_at(before->module, before->comps[c])->ninstrs, 1);
    for (uint32_t c = 0; c < p->ncomps; c++)
        if (p->use[p->comps[c].i] == COMP_RUN && map_get(&lengths, comp_at(p->module, p->comps[c])->ninstrs, &v))
            return true;
    return false;
}

void plan_find_alike(struct cost_plan *p, struct cost_plan *before)
{
    const struct module *m = p->module;
    p->alike = ARENA_ARRAY(&p->arena, comp_id, (int64_t)module_ncomps(m) + 2);
    if (!before || p->plain_matrix || before->module->ir != m->ir || before->module->is_scheduled != m->is_scheduled ||
        !same_options(&before->options, &p->options))
        return;
    struct arena tmp = { 0 };
    arena_open(&tmp);
    if (!any_as_long(p, before, &tmp)) {
        arena_close(&tmp);
        return;
    }
    plan_prints(p);
    if (!before->print)
        plan_prints(before);
    struct map old;
    map_init(&old, &tmp);
    for (uint32_t c = 0; c < before->ncomps; c++)
        if (before->use[before->comps[c].i] == COMP_RUN)
            map_put(&old, before->print[before->comps[c].i], before->comps[c].i);
    for (uint32_t c = 0; c < p->ncomps; c++) {
        comp_id id = p->comps[c];
        uint64_t found;
        if (p->use[id.i] != COMP_RUN || !map_get(&old, p->print[id.i], &found))
            continue;
        comp_id was = { (uint32_t)found };
        if (alike(p, id, before, was)) {
            p->alike[id.i] = was;
            p->taken += comp_at(m, id)->ninstrs;
        }
    }
    arena_close(&tmp);
}

/* ---- what is taken --------------------------------------------------------------------------------------------- */

instr_id plan_taken(const struct cost_plan *p, const struct cost_plan *before, comp_id c, instr_id old)
{
    return old.i ? comp_at(p->module, c)->instrs[before->local[old.i]] : old;
}

void plan_take_flags(struct cost_plan *p, const struct cost_plan *before, comp_id c)
{
    const struct computation *x = comp_at(p->module, c), *y = comp_at(before->module, p->alike[c.i]);
    for (uint32_t k = 0; k < x->ninstrs; k++) {
        uint32_t i = x->instrs[k].i, j = y->instrs[k].i;
        p->fused[i] = before->fused[j];
        p->kernel[i] = before->kernel[j];
        p->kernel[i].matrix = plan_taken(p, before, c, before->kernel[j].matrix);
    }
}

const instr_id *plan_take_order(struct cost_plan *p, const struct cost_plan *before, comp_id c)
{
    uint32_t n = before->norder[p->alike[c.i].i];
    const instr_id *old = before->order[p->alike[c.i].i];
    instr_id *out = ARENA_ARRAY(&p->arena, instr_id, (int64_t)n + 1);
    for (uint32_t k = 0; k < n; k++)
        out[k] = plan_taken(p, before, c, old[k]);
    p->norder[c.i] = n;
    return out;
}
