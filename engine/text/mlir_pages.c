/* Values lie in pages. While the entry becomes instructions, which is last and largest, each page is given back
 * behind the last operation that looks into it: so the module finds its place. */
#include "text/mlir.h"

#include "base/fail.h"
#include "base/open.h"

enum { KEPT = UINT32_MAX };

uint32_t mlir_page_add(struct mlir *r)
{
    struct mvals *t = &r->vals;
    INVARIANT(t->n < UINT32_MAX - 1, "too many values");
    if (t->n % MVALS_PAGE == 0)
        vec_push(&r->tmp, &t->pages, ARENA_ARRAY(&r->val_arena, struct mval, MVALS_PAGE));
    return t->n++;
}

/* v, and what it stands for, is looked at by the operation numbered `by`. */
static void touch(const struct mlir *r, uint32_t *last, uint32_t v, uint32_t by)
{
    for (;; v = mval(r, v)->link) {
        uint32_t *at = &last[v / MVALS_PAGE];
        *at = *at < by ? by : *at;
        if (!mval(r, v)->is_alias)
            return;
    }
}

static void touch_all(const struct mlir *r, uint32_t *last, uint32_t n, const uint32_t *v, uint32_t by)
{
    for (uint32_t k = 0; k < n; k++)
        touch(r, last, v[k], by);
}

static void touch_range(const struct mlir *r, uint32_t *last, uint32_t n, uint32_t first, uint32_t by)
{
    for (uint32_t k = 0; k < n; k++)
        touch(r, last, first + k, by);
}

static void touch_op(const struct mlir *r, uint32_t *last, const struct mop *op, uint32_t by)
{
    touch_all(r, last, op->noperands, op->operands, by);
    touch_range(r, last, op->nresults, op->result, by);
    for (uint32_t k = 0; k < op->nregions; k++) {
        const struct mregion *g = op->regions[k];
        touch_range(r, last, g->nargs, g->arg0, by);
        touch_all(r, last, (uint32_t)g->captured.n, g->captured.v, by);
        if (g->last)
            touch_all(r, last, g->last->noperands, g->last->operands, by);
    }
}

/* Constants are compared with those that come; calls look at the arguments of functions. */
static void touch_shared(const struct mlir *r, const struct mfunc *f, uint32_t *last)
{
    for (uint32_t v = 1; v < r->vals.n; v++)
        if (mval(r, v)->is_cst)
            touch(r, last, v, KEPT);
    for (int64_t i = 0; i < r->funcs.n; i++)
        if (r->funcs.v[i]->body)
            touch_range(r, last, r->funcs.v[i]->body->nargs, r->funcs.v[i]->body->arg0, KEPT);
    touch_all(r, last, (uint32_t)f->nshown, f->shown, KEPT);
    last[(r->vals.n - 1) / MVALS_PAGE] = KEPT; /* new ones come here */
    last[0] = KEPT;
}

void mlir_pages_plan(struct mlir *r, const struct mfunc *f)
{
    uint32_t n = (uint32_t)r->vals.pages.n, by = 0;
    uint32_t *last = ARENA_ARRAY(&r->tmp, uint32_t, n), *order = ARENA_ARRAY(&r->tmp, uint32_t, n);
    touch_shared(r, f, last);
    for (const struct mop *op = f->body->first; op; op = op->next)
        touch_op(r, last, op, op->kind == M_RETURN ? KEPT : ++by);
    uint32_t listed = 0;
    for (uint32_t p = 0; p < n; p++) {
        if (last[p] == KEPT)
            continue;
        uint32_t at = listed++;
        for (; at && last[order[at - 1]] > last[p]; at--)
            order[at] = order[at - 1];
        order[at] = p;
    }
    r->page_last = last;
    r->page_order = order;
    r->npage_order = listed;
}

void mlir_pages_release(struct mlir *r, uint32_t by)
{
    while (r->page_next < r->npage_order && r->page_last[r->page_order[r->page_next]] <= by) {
        struct mval **page = &r->vals.pages.v[r->page_order[r->page_next++]];
        arena_give_back(&r->val_arena, *page, MVALS_PAGE, sizeof **page);
        *page = NULL;
    }
}
