/* The order in which the kernels of a computation run.
 *
 * A dump that is scheduled keeps its order. Else a depth-first order: of a kernel's operands the one
 * whose cone has more users outside, then the one whose cone makes more bytes, is made first, so that
 * what stays alive for long is made as late as its first use allows and large cones shrink to their
 * result before small ones begin. Linear but for the sorting of operands. Where another order
 * (schedule_list.c) has a lower peak, that one. */
#include "cost/internal.h"

#include <stdlib.h>

struct scheduler {
    struct cost_plan *p;
    struct arena tmp;
    double *extra; /* [ninstrs + 1] users beyond the first, of the kernel and all below it */
    double *size;  /* bytes made by the kernel and all below it */
    uint32_t *users;
    bool *done;
};

static bool before(const struct scheduler *s, instr_id a, instr_id b)
{
    if (s->extra[a.i] != s->extra[b.i])
        return s->extra[a.i] > s->extra[b.i];
    if (s->size[a.i] != s->size[b.i])
        return s->size[a.i] > s->size[b.i];
    return a.i < b.i;
}

/* Few operands: insertion; many (a tuple of thousands): a heap sort by hand would do no better than
 * merging, so runs are merged. */
static void sort_operands(struct scheduler *s, instr_id *v, int64_t *bytes, uint32_t n)
{
    if (n < 2)
        return;
    if (n <= 24) {
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t j = i; j > 0 && before(s, v[j], v[j - 1]); j--) {
                instr_id t = v[j];
                int64_t b = bytes[j];
                v[j] = v[j - 1];
                bytes[j] = bytes[j - 1];
                v[j - 1] = t;
                bytes[j - 1] = b;
            }
        return;
    }
    instr_id *w = ARENA_ARRAY(&s->tmp, instr_id, n);
    int64_t *c = ARENA_ARRAY(&s->tmp, int64_t, n);
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t lo = 0; lo < n; lo += 2 * width) {
            uint32_t mid = lo + width < n ? lo + width : n;
            uint32_t hi = lo + 2 * width < n ? lo + 2 * width : n, a = lo, b = mid;
            for (uint32_t k = lo; k < hi; k++) {
                uint32_t from = b >= hi || (a < mid && !before(s, v[b], v[a])) ? a++ : b++;
                w[k] = v[from];
                c[k] = bytes[from];
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            v[k] = w[k];
            bytes[k] = c[k];
        }
    }
}

/* Cones: storage order has operands before users. */
static void measure(struct scheduler *s, const instr_id *list, uint32_t n)
{
    struct cost_plan *p = s->p;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t e = p->ext_start[list[k].i]; e < p->ext_start[list[k].i + 1]; e++)
            s->users[p->ext[e].i]++;
    double all = 0;
    for (uint32_t k = 0; k < n; k++) {
        instr_id i = list[k];
        const struct instr *in = instr_at(p->module, i);
        double extra = s->users[i.i] > 1 ? s->users[i.i] - 1 : 0;
        double size = op_forwards(p->module, in) ? 0 : (double)value_bytes(p->module, in->shape, false);
        all += size;
        for (uint32_t e = p->ext_start[i.i]; e < p->ext_start[i.i + 1]; e++) {
            extra += s->extra[p->ext[e].i];
            size += s->size[p->ext[e].i];
        }
        s->extra[i.i] = extra < n ? extra : n;
        s->size[i.i] = size < all ? size : all;
    }
}

static void visit(struct scheduler *s, instr_id root, instr_id *out, uint32_t *n)
{
    struct cost_plan *p = s->p;
    struct frame {
        instr_id i;
        uint32_t next;
    };
    VEC(struct frame) stack = { 0 };
    if (s->done[root.i])
        return;
    struct frame first = { root, p->ext_start[root.i] };
    s->done[root.i] = true;
    vec_push(&s->tmp, &stack, first);
    while (stack.n > 0) {
        struct frame *f = &stack.v[stack.n - 1];
        if (f->next == p->ext_start[f->i.i + 1]) {
            out[(*n)++] = f->i;
            stack.n--;
            continue;
        }
        instr_id x = p->ext[f->next++];
        if (s->done[x.i])
            continue;
        s->done[x.i] = true;
        struct frame deeper = { x, p->ext_start[x.i] };
        vec_push(&s->tmp, &stack, deeper);
    }
}

static const instr_id *by_depth(struct scheduler *s, const struct computation *c, const instr_id *list,
                                uint32_t n)
{
    struct cost_plan *p = s->p;
    instr_id *out = ARENA_ARRAY(&p->arena, instr_id, (int64_t)n + 1);
    uint32_t at = 0;
    measure(s, list, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t e = p->ext_start[list[k].i];
        sort_operands(s, p->ext + e, p->ext_bytes + e, p->ext_start[list[k].i + 1] - e);
    }
    for (uint32_t k = 0; k < c->nparams; k++) /* arguments are there from the start */
        visit(s, c->params[k], out, &at);
    for (uint32_t k = 0; k < n; k++)
        if (s->users[list[k].i] == 0 && list[k].i != c->root.i)
            visit(s, list[k], out, &at);
    visit(s, c->root, out, &at);
    for (uint32_t k = 0; k < n; k++)
        visit(s, list[k], out, &at);
    return out;
}

void plan_schedule(struct cost_plan *p, const struct cost_plan *before, const struct cost_options *o)
{
    const struct module *m = p->module;
    int64_t size = (int64_t)module_ninstrs(m) + 2;
    bool text = o->schedule == SCHEDULE_TEXT || (o->schedule == SCHEDULE_AUTO && m->is_scheduled);
    struct scheduler s = { .p = p };
    arena_open(&s.tmp);
    uint32_t *at = NULL;
    if (!text) {
        at = ARENA_ARRAY(&s.tmp, uint32_t, size);
        s.extra = ARENA_ARRAY(&s.tmp, double, size);
        s.size = ARENA_ARRAY(&s.tmp, double, size);
        s.users = ARENA_ARRAY(&s.tmp, uint32_t, size);
        s.done = ARENA_ARRAY(&s.tmp, bool, size);
    }
    for (uint32_t k = 0; k < p->ncomps; k++) {
        comp_id id = p->comps[k];
        const struct computation *c = comp_at(m, id);
        if (p->use[id.i] != COMP_RUN)
            continue;
        if (p->alike[id.i].i) {
            p->order[id.i] = plan_take_order(p, before, id);
            p->inner[id.i] = before->inner[p->alike[id.i].i];
            p->other[id.i] = before->other[p->alike[id.i].i];
            p->greedy += p->other[id.i];
            for (uint32_t i = 0; i < p->norder[id.i]; i++)
                p->position[p->order[id.i][i].i] = i;
            continue;
        }
        instr_id *list = ARENA_ARRAY(&p->arena, instr_id, (int64_t)c->ninstrs + 1);
        uint32_t n = 0;
        if (text) {
            for (uint32_t i = 0; i < c->ninstrs; i++)
                if (!p->fused[c->instrs[i].i])
                    list[n++] = c->instrs[i];
        } else {
            uint32_t all;
            const instr_id *post = comp_post_order(m, id, &p->users, &s.tmp, &all);
            for (uint32_t i = 0; i < all; i++)
                if (!p->fused[post[i].i])
                    list[n++] = post[i];
        }
        if (text) {
            p->order[id.i] = list;
        } else {
            const instr_id *depth = by_depth(&s, c, list, n);
            p->order[id.i] = o->schedule == SCHEDULE_DEPTH
                                 ? depth
                                 : better_order(p, &s.tmp, c->root, depth, n, at, p->inner, &p->inner[id.i]);
            p->other[id.i] = p->order[id.i] != depth;
            p->greedy += p->other[id.i];
        }
        p->norder[id.i] = n;
        for (uint32_t i = 0; i < n; i++)
            p->position[p->order[id.i][i].i] = i;
    }
    arena_close(&s.tmp);
}
