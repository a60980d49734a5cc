/* HLO text: replica_groups in its four spellings, and source_target_pairs.
 *
 *     {}   {{0,1},{2,3}}   [2,4]<=[8]T(..)   mesh['a'=2,'b'=4], device_ids=(..) {'a'}
 *
 * What the text repeats on many instructions is read once and shared. */
#include "text/reader.h"

#include <stdlib.h>

/* ---- listed ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A device takes part in a collective once. */
static bool each_once(struct hlo *r, const char *at, size_t len, const int64_t *ids, int64_t n)
{
    int64_t *sorted = arena_copy(&r->tmp, ids, n, sizeof *ids);
    if (n)
        qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    if (n && sorted[0] < 0)
        return FAIL(r, at, len, "device %" PRId64 " in replica groups: numbers begin at 0",
                    sorted[0]);
    for (int64_t i = 1; i < n; i++)
        if (sorted[i] == sorted[i - 1])
            return FAIL(r, at, len, "device %" PRId64 " occurs twice in these replica groups",
                        sorted[i]);
    return true;
}

/* {{0,1},{2,3}} into r->ints and the lengths of the lists. */
static bool read_lists(struct hlo *r, int64_t **sizes, int64_t *nlists)
{
    VEC(int64_t) lens = { 0 };
    r->ints.n = 0;
    if (!hlo_want(r, '{', "'{'"))
        return false;
    if (!take(r, '}')) {
        do {
            int64_t first = r->ints.n;
            if (!hlo_want(r, '{', "'{', as in {{0,1},{2,3}}"))
                return false;
            if (!take(r, '}')) {
                do {
                    int64_t v;
                    if (!hlo_int(r, &v, "a device number"))
                        return false;
                    vec_push(&r->tmp, &r->ints, v);
                } while (take(r, ','));
                if (!hlo_want(r, '}', "',' or '}'"))
                    return false;
            }
            vec_push(&r->tmp, &lens, r->ints.n - first);
        } while (take(r, ','));
        if (!hlo_want(r, '}', "',' or '}'"))
            return false;
    }
    *sizes = lens.v;
    *nlists = lens.n;
    return true;
}

static bool listed(struct hlo *r, struct replica_groups *g)
{
    const char *from = r->p;
    int64_t *sizes, n;
    if (!read_lists(r, &sizes, &n) ||
        !each_once(r, from, (size_t)(r->p - from), r->ints.v, r->ints.n))
        return false;
    if (r->ints.n == 0) {
        g->none = true;
        return true;
    }
    g->uniform = true;
    for (int64_t i = 0; i < n; i++)
        g->uniform = g->uniform && sizes[i] == sizes[0];
    if (g->uniform) {
        struct shardings *t = r->c->shardings;
        int64_t dims[2] = { n, sizes[0] };
        g->tiles = tiling_make(t, 2, dims, order_from_list(t, r->ints.n, r->ints.v));
        return true;
    }
    g->nlists = n;
    g->sizes = arena_copy(&r->m->arena, sizes, n, sizeof *sizes);
    g->ids = arena_copy(&r->m->arena, r->ints.v, r->ints.n, sizeof(int64_t));
    return true;
}

/* ---- symbolic -------------------------------------------------------------------------------- */

static bool counted(struct hlo *r, bool ok)
{
    r->nerrors += !ok;
    return ok;
}

static bool iota_form(struct hlo *r, struct replica_groups *g)
{
    const char *from = r->p;
    size_t used = 0;
    if (!counted(r, tiling_parse(r->c->shardings, r->src, span_of(r, from, 1), from,
                                 (size_t)(r->end - from), &used, &g->tiles, r->d)))
        return false;
    r->p += used;
    if (g->tiles.naxes != 2)
        return FAIL(r, from, used, "replica groups have two dimensions, [groups,size], not %d",
                    g->tiles.naxes);
    g->uniform = true;
    return true;
}

static bool mesh_form(struct hlo *r, struct replica_groups *g)
{
    size_t used = 0;
    if (!counted(r, mesh_groups_parse(r->c->shardings, r->src, (uint32_t)(r->p - r->base), r->p,
                                      (size_t)(r->end - r->p), &used, &g->tiles, r->d)))
        return false;
    r->p += used;
    g->uniform = true;
    return true;
}

/* The end of any of the four, to look it up by its text; NULL: read it to learn what is wrong. */
static const char *groups_end(const char *p, const char *end)
{
    if (*p == '{')
        return hlo_balanced(p, end);
    if (*p == 'm') {
        const char *brace = memchr(p, '{', (size_t)(end - p));
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        return brace && (!nl || brace < nl) ? hlo_balanced(brace, end) : NULL;
    }
    while (*p && *p != '\n' && (*p == '[' || *p == '<' || *p == 'T')) {
        while (*p && *p != ']' && *p != ')' && *p != '\n')
            p++;
        p += *p == ']' || *p == ')';
    }
    return p;
}

bool hlo_groups(struct hlo *r, struct attr *a)
{
    const char *from = r->p, *stop = groups_end(from, r->end);
    struct cached *e = NULL;
    if (stop && stop > from) {
        bool hit;
        e = hlo_cached(r->groups, VALUE_CACHE, from, (size_t)(stop - from), &hit);
        if (hit) {
            a->groups = e->value;
            r->p = stop;
            return true;
        }
        e->text = NULL;
    }
    struct replica_groups *g = ARENA_NEW(&r->m->arena, struct replica_groups);
    bool ok = *from == '{'   ? listed(r, g)
              : *from == '[' ? iota_form(r, g)
              : *from == 'm' ? mesh_form(r, g)
                             : hlo_expected(r, "replica groups, like {{0,1},{2,3}} or [2,4]<=[8]");
    if (!ok)
        return false;
    g->text = from;
    g->len = (uint32_t)(r->p - from);
    a->groups = g;
    if (e && r->p == stop) {
        e->text = from;
        e->value = g;
    }
    return true;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

bool hlo_pairs(struct hlo *r, struct attr *a)
{
    const char *from = r->p;
    int64_t *sizes, n;
    if (!read_lists(r, &sizes, &n))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (sizes[i] != 2)
            return FAIL(r, from, (size_t)(r->p - from),
                        "pair %" PRId64 " has %" PRId64 " numbers, not 2 (source, target)", i,
                        sizes[i]);
    for (int64_t i = 0; i < 2 * n; i++)
        if (r->ints.v[i] < 0)
            return FAIL(r, from, (size_t)(r->p - from),
                        "device %" PRId64 " in a pair: numbers begin at 0", r->ints.v[i]);
    struct permute_pairs *p = ARENA_NEW(&r->m->arena, struct permute_pairs);
    p->kind = PAIRS_LIST;
    p->n = n;
    p->list = arena_copy(&r->m->arena, r->ints.v, 2 * n, sizeof(int64_t));
    p->text = from;
    p->len = (uint32_t)(r->p - from);
    a->pairs = p;
    return true;
}
