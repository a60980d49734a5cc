/* The write history: by instruction, in pages that increments share with what they come from. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/open.h"
#include "propagate/internal.h"

static uint32_t page_count(uint32_t ninstrs)
{
    return ninstrs / HISTORY_PAGE + 1;
}

/* Room for the pages of counts by instruction, one behind the other. next: by instruction, where its first write
 * goes in its page. */
static void lay_pages(struct propagation *out, uint32_t n, uint32_t total, uint32_t *next)
{
    uint32_t npages = page_count(n);
    char *block = arena_alloc(&out->arena, (int64_t)npages * (int64_t)sizeof(struct history_page) + (int64_t)total * (int64_t)sizeof(struct prop_write), 1);
    out->pages = ARENA_ARRAY(&out->arena, struct history_page *, npages);
    for (uint32_t k = 0; k < npages; k++) {
        struct history_page *page = (struct history_page *)(void *)block;
        uint32_t from = 0;
        for (uint32_t j = 0; j < HISTORY_PAGE; j++) {
            uint32_t i = k * HISTORY_PAGE + j, count = i <= n ? next[i] : 0;
            page->first[j] = from;
            if (i <= n)
                next[i] = from;
            from += count;
        }
        page->first[HISTORY_PAGE] = from;
        out->pages[k] = page;
        block += sizeof *page + from * sizeof *page->writes;
    }
}

/* The log by time becomes a list an instruction, each still by time. */
void history_make(struct propagation *out, const struct pass *p)
{
    uint32_t total = (uint32_t)p->log.n;
    uint32_t *next = ARENA_ARRAY(p->tmp, uint32_t, (int64_t)p->n + 1);
    for (uint32_t k = 0; k < total; k++)
        next[p->log.v[k].instr.i]++;
    lay_pages(out, p->n, total, next);
    out->nwrites = total;
    out->last = ARENA_ARRAY(&out->arena, uint16_t, (int64_t)p->n + 1);
    for (uint32_t k = 0; k < total; k++) {
        const struct log_entry *e = &p->log.v[k];
        out->pages[e->instr.i / HISTORY_PAGE]->writes[next[e->instr.i]++] = e->write;
        uint16_t sweep = sweep_of(e->write.time);
        if (sweep > out->last[e->instr.i])
            out->last[e->instr.i] = sweep;
    }
}

/* ---- increments --------------------------------------------------------------------------------------- */

static void page_release(struct history_page *page)
{
    if (page->refs && --page->refs == 0)
        free(page);
}

void history_release(struct propagation *p)
{
    for (uint32_t k = 0; p->pages && k < p->npages; k++)
        page_release(p->pages[k]);
    p->pages = NULL;
}

void history_share(struct propagation *out, const struct propagation *old)
{
    out->npages = page_count(old->state->n);
    out->pages = arena_copy(&out->arena, old->pages, out->npages, sizeof(struct history_page *));
    out->nwrites = old->nwrites;
    for (uint32_t k = 0; k < out->npages; k++)
        out->pages[k]->refs += out->pages[k]->refs > 0;
}

void history_replace(struct propagation *out, uint32_t n, const struct history_list *lists)
{
    struct history_page **place = &out->pages[lists[0].i.i / HISTORY_PAGE], *old = *place, *page;
    uint32_t total = old->first[HISTORY_PAGE], k = 0, from = 0;
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t *first = &old->first[lists[j].i.i % HISTORY_PAGE];
        total = total - (first[1] - first[0]) + lists[j].n;
    }
    page = fail_allocation_due() ? NULL : malloc(sizeof *page + total * sizeof *page->writes);
    if (!page)
        fail_raise(FAIL_MEMORY, __FILE__, __LINE__, "no memory for %u changes", total);
    page->refs = 1;
    for (uint32_t j = 0; j < HISTORY_PAGE; j++) {
        const struct prop_write *v = old->writes + old->first[j];
        uint32_t count = old->first[j + 1] - old->first[j];
        if (k < n && lists[k].i.i % HISTORY_PAGE == j) {
            v = lists[k].v;
            count = lists[k++].n;
        }
        page->first[j] = from;
        if (count)
            memcpy(page->writes + from, v, count * sizeof *v);
        from += count;
    }
    page->first[HISTORY_PAGE] = from;
    out->nwrites = out->nwrites - old->first[HISTORY_PAGE] + total;
    *place = page;
    page_release(old);
}
