#include "meaning.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { MOST_DEVICES = 1 << 20 };

/* ---- small readers ------------------------------------------------------------------------------------ */

struct cursor {
    const char *p, *end;
};

static void skip(struct cursor *c)
{
    while (c->p < c->end && isspace((unsigned char)*c->p))
        c->p++;
}

static bool take(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

static bool take_int(struct cursor *c, int64_t *v)
{
    skip(c);
    size_t n = parse_i64(c->p, (size_t)(c->end - c->p), v);
    c->p += n;
    return n > 0;
}

/* 1,2,3 up to what is no number any more; the count. */
static int take_ints(struct cursor *c, int64_t *v, int most)
{
    int n = 0;
    while (n < most && take_int(c, &v[n])) {
        n++;
        if (!take(c, ","))
            break;
    }
    return n;
}

/* Length of a bracketed text from its opening bracket to its closing one, quotes respected; 0: open. */
static size_t bracketed(const char *p, const char *end)
{
    int depth = 0;
    bool quoted = false;
    for (const char *q = p; q < end; q++) {
        if (quoted) {
            if (*q == '\\')
                q++;
            else
                quoted = *q != '"';
        } else if (*q == '"') {
            quoted = true;
        } else if (strchr("{([", *q)) {
            depth++;
        } else if (strchr("})]", *q) && --depth == 0) {
            return (size_t)(q - p) + 1;
        }
    }
    return 0;
}

/* Without comments and metadata={..}. */
static const char *plain(struct arena *a, const char *text, size_t n)
{
    struct str s = STR_IN(a);
    for (const char *p = text, *end = text + n; p < end;) {
        if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
            const char *close = memmem(p, (size_t)(end - p), "*/", 2);
            p = close ? close + 2 : end;
        } else if (end - p > 10 && strncmp(p, "metadata={", 10) == 0) {
            size_t len = bracketed(p + 9, end);
            p = len ? p + 9 + len : end;
        } else {
            str_addc(&s, *p++);
        }
    }
    return str_text(&s);
}

/* ---- tiles ---------------------------------------------------------------------------------------------- */

struct kinds {
    int n;
    char word[MEANING_RANK][16];
};

static int by_number(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

/* list: devices over dims[n]. out: the same with its axes in another order. */
static int64_t *reordered(struct arena *a, const int64_t *list, int n, const int64_t *dims, const int *order)
{
    int64_t stride[MEANING_RANK], index[MEANING_RANK] = { 0 }, total = 1;
    for (int k = n - 1; k >= 0; k--) {
        stride[k] = total;
        total *= dims[k];
    }
    int64_t *out = ARENA_ARRAY(a, int64_t, total);
    for (int64_t i = 0; i < total; i++) {
        int64_t from = 0;
        for (int k = 0; k < n; k++)
            from += index[k] * stride[order[k]];
        out[i] = list[from];
        for (int k = n - 1; k >= 0 && ++index[k] == dims[order[k]]; k--)
            index[k] = 0;
    }
    return out;
}

/* The words of last_tile_dims in order, with their sizes; copies come last. */
static void name_subgroups(struct meaning *m, int n, const char words[][16], const int64_t *sizes)
{
    size_t used = 0;
    for (int k = 0; k < n; k++) {
        int64_t size = sizes[k];
        for (; k + 1 < n && strcmp(words[k], words[k + 1]) == 0; k++)
            size *= sizes[k + 1];
        if (size > 1)
            used += (size_t)snprintf(m->subgroups + used, sizeof m->subgroups - used, "%s=%" PRId64 " ", words[k], size);
        if (used >= sizeof m->subgroups)
            used = sizeof m->subgroups - 1;
    }
}

static bool only_manual(const struct meaning *m)
{
    int64_t size;
    return sscanf(m->subgroups, "manual=%" SCNd64, &size) == 1 && strchr(m->subgroups, ' ')[1] == '\0' &&
           size == m->nholders;
}

static struct meaning *tiled(struct arena *a, struct meaning *m, const int64_t *list, int n, const int64_t *dims,
                             const struct kinds *kinds)
{
    int order[MEANING_RANK], at = 0, named = 0;
    int64_t sizes[MEANING_RANK], replicas = 1;
    char words[MEANING_RANK][16];
    m->kind = MEANS_TILED;
    m->rank = n - kinds->n;
    m->tiles = m->nholders = 1;
    for (int k = 0; k < m->rank; k++)
        order[at++] = k;
    /* Subgroups by name, stable; then the copies. */
    for (int pass = 0; pass < kinds->n; pass++) {
        int best = -1;
        for (int k = 0; k < kinds->n; k++) {
            bool used = strcmp(kinds->word[k], "replicated") == 0;
            for (int j = m->rank; j < at; j++)
                used = used || order[j] == m->rank + k;
            if (!used && (best < 0 || strcmp(kinds->word[k], kinds->word[best]) < 0))
                best = k;
        }
        if (best < 0)
            break;
        memcpy(words[named], kinds->word[best], sizeof words[named]);
        sizes[named++] = dims[m->rank + best];
        order[at++] = m->rank + best;
    }
    for (int k = 0; k < kinds->n; k++)
        if (strcmp(kinds->word[k], "replicated") == 0) {
            order[at++] = m->rank + k;
            replicas *= dims[m->rank + k];
        }
    for (int k = 0; k < n; k++) {
        m->nholders *= dims[k];
        if (k < m->rank) {
            m->dims[k] = dims[k];
            m->tiles *= dims[k];
        }
    }
    m->copies = m->nholders / m->tiles;
    m->holders = reordered(a, list, n, dims, order);
    name_subgroups(m, named, (const char(*)[16])words, sizes);
    for (int64_t k = 0; k < m->nholders; k += replicas)
        qsort(m->holders + k, (size_t)replicas, sizeof *m->holders, by_number);
    if (m->tiles == 1 && m->nholders > 1 && !m->subgroups[0])
        m->kind = MEANS_REPLICATED;
    else if (m->tiles == 1 && m->nholders > 1 && only_manual(m))
        m->kind = MEANS_MANUAL;
    return m;
}

static bool take_kinds(struct cursor *c, struct kinds *k)
{
    *k = (struct kinds){ 0 };
    if (take(c, "last_tile_dim_replicate")) {
        k->n = 1;
        (void)snprintf(k->word[0], sizeof k->word[0], "replicated");
        return true;
    }
    if (!take(c, "last_tile_dims={"))
        return true;
    while (k->n < MEANING_RANK && !take(c, "}")) {
        skip(c);
        size_t n = 0;
        while (c->p < c->end && (isalnum((unsigned char)*c->p) || *c->p == '_') && n + 1 < sizeof k->word[0])
            k->word[k->n][n++] = *c->p++;
        if (n == 0)
            return false;
        k->n++;
        (void)take(c, ",");
    }
    return true;
}

static bool product_fits(const int64_t *v, int n, int64_t *total)
{
    for (int k = 0; k < n; k++)
        if (v[k] < 1)
            return false;
    return product_ok(v, n, total) && *total <= MOST_DEVICES;
}

/* <=[2,4]T(1,0) or the list itself. */
static int64_t *take_devices(struct arena *a, struct cursor *c, int64_t total)
{
    int64_t *list = ARENA_ARRAY(a, int64_t, total + 1), count;
    if (!take(c, "<=[")) {
        int64_t n = 0;
        while (n < total && take_int(c, &list[n])) {
            n++;
            if (n < total && !take(c, ","))
                break;
        }
        return n == total ? list : NULL;
    }
    int64_t dims[MEANING_RANK], perm[MEANING_RANK];
    int order[MEANING_RANK];
    bool seen[MEANING_RANK] = { false };
    int n = take_ints(c, dims, MEANING_RANK);
    if (n < 1 || !take(c, "]") || !product_fits(dims, n, &count) || count != total)
        return NULL;
    for (int64_t k = 0; k < total; k++)
        list[k] = k;
    if (!take(c, "T("))
        return list;
    if (take_ints(c, perm, MEANING_RANK) != n || !take(c, ")"))
        return NULL;
    for (int k = 0; k < n; k++) {
        if (perm[k] < 0 || perm[k] >= n || seen[perm[k]])
            return NULL;
        seen[perm[k]] = true;
        order[k] = (int)perm[k];
    }
    return reordered(a, list, n, dims, order);
}

static bool take_group(struct cursor *c, struct meaning *m)
{
    int64_t n;
    (void)take(c, ",");
    bool as = take(c, "shard_as"), like = !as && take(c, "shard_like");
    if (!as && !like)
        return true;
    if (!take_int(c, &n))
        return false;
    (void)snprintf(m->group, sizeof m->group, "%s %" PRId64, as ? "as" : "like", n);
    return true;
}

static struct meaning *leaf(struct arena *a, struct cursor *c)
{
    struct meaning *m = ARENA_NEW(a, struct meaning);
    int64_t dims[MEANING_RANK], total;
    struct kinds kinds;
    if (take(c, "replicated")) {
        m->kind = MEANS_REPLICATED;
    } else if (take(c, "manual")) {
        m->kind = MEANS_MANUAL;
    } else if (take(c, "unknown")) {
        m->kind = MEANS_UNKNOWN;
    } else if (take(c, "maximal") || (skip(c), c->end - c->p > 7 && strncmp(c->p, "device=", 7) == 0)) {
        m->kind = MEANS_MAXIMAL;
        if (!take(c, "device=") || !take_int(c, &m->device))
            return NULL;
    } else if (take(c, "devices=[")) {
        int n = take_ints(c, dims, MEANING_RANK);
        if (n < 1 || !take(c, "]") || !product_fits(dims, n, &total))
            return NULL;
        const int64_t *list = take_devices(a, c, total);
        if (!list || !take_kinds(c, &kinds) || kinds.n >= n || !take_group(c, m))
            return NULL;
        skip(c);
        return c->p == c->end ? tiled(a, m, list, n, dims, &kinds) : NULL;
    } else {
        return NULL;
    }
    if (!take_group(c, m))
        return NULL;
    skip(c);
    return c->p == c->end ? m : NULL;
}

struct meaning *meaning_read(struct arena *a, const char *text, size_t n)
{
    const char *s = plain(a, text, n);
    struct cursor c = { s, s + strlen(s) };
    if (!take(&c, "{"))
        return NULL;
    while (c.end > c.p && isspace((unsigned char)c.end[-1]))
        c.end--;
    if (c.end == c.p || *--c.end != '}')
        return NULL;
    skip(&c);
    if (c.p < c.end && *c.p != '{')
        return leaf(a, &c);
    struct meaning *m = ARENA_NEW(a, struct meaning);
    VEC(struct meaning *) list = { 0 };
    m->kind = MEANS_TUPLE;
    while (skip(&c), c.p < c.end) {
        size_t len = *c.p == '{' ? bracketed(c.p, c.end) : 0;
        if (len < 2)
            return NULL;
        struct cursor inner = { c.p + 1, c.p + len - 1 };
        struct meaning *one = leaf(a, &inner);
        if (!one)
            return NULL;
        vec_push(a, &list, one);
        c.p += len;
        (void)take(&c, ",");
    }
    m->nelems = list.n;
    m->elems = list.v;
    return m;
}

/* ---- axes --------------------------------------------------------------------------------------------- */

struct axis {
    char name[48];
    int64_t before, size; /* of a sub-axis; size 0: the whole axis */
    int dim;              /* of the array; -1: not used */
};

struct axes {
    int n;
    struct axis v[MEANING_RANK];
};

static bool take_axis(struct cursor *c, struct axis *x)
{
    size_t n = 0;
    *x = (struct axis){ .before = 1 };
    skip(c);
    while (c->p < c->end && (isalnum((unsigned char)*c->p) || strchr("_.-", *c->p)) && n + 1 < sizeof x->name)
        x->name[n++] = *c->p++;
    if (n == 0)
        return false;
    if (!take(c, ":"))
        return true;
    return take(c, "(") && take_int(c, &x->before) && take(c, ")") && take_int(c, &x->size) && x->before > 0 && x->size > 0;
}

static bool take_entry(struct cursor *c, int dim, struct axes *used)
{
    if (take(c, "?"))
        return true;
    bool many = take(c, "(");
    do {
        struct axis x;
        if (used->n == MEANING_RANK || !take_axis(c, &x))
            return false;
        x.dim = dim;
        if (strcmp(x.name, "_") != 0)
            used->v[used->n++] = x;
    } while (take(c, "*") || (many && take(c, ",")));
    return !many || take(c, ")");
}

/* Axes of the mesh, a used part of one split off. */
static bool flat_axes(const cJSON *mesh, const struct axes *used, struct axes *flat)
{
    const cJSON *e;
    flat->n = 0;
    cJSON_ArrayForEach(e, mesh)
    {
        int64_t size = cJSON_IsNumber(e) ? (int64_t)e->valuedouble : 0, parts[3] = { size, 0, 0 };
        int n = 1;
        for (int k = 0; k < used->n; k++) {
            const struct axis *u = &used->v[k];
            if (u->size == 0 || strcmp(u->name, e->string) != 0)
                continue;
            if (size % (u->before * u->size) != 0)
                return false;
            parts[0] = u->before;
            parts[1] = u->size;
            parts[2] = size / (u->before * u->size);
            n = 3;
        }
        for (int k = 0; k < n; k++) {
            if (flat->n == MEANING_RANK || parts[k] < 1)
                return false;
            struct axis *x = &flat->v[flat->n++];
            *x = (struct axis){ .size = parts[k], .before = k, .dim = -1 };
            (void)snprintf(x->name, sizeof x->name, "%s", e->string);
        }
    }
    return true;
}

struct meaning *meaning_of_axes(struct arena *a, const char *text, size_t n, const cJSON *mesh)
{
    struct cursor c = { text, text + n };
    struct axes used = { 0 }, flat;
    int rank = 0, order[MEANING_RANK], at = 0;
    int64_t dims[MEANING_RANK + 1], sizes[MEANING_RANK], total;
    if (!take(&c, "["))
        return NULL;
    while (!take(&c, "]")) {
        if (rank == MEANING_RANK - 1 || !take_entry(&c, rank++, &used))
            return NULL;
        (void)take(&c, ",");
    }
    if (!flat_axes(mesh, &used, &flat) || rank == 0 || flat.n == 0)
        return NULL;
    for (int k = 0; k < rank; k++)
        dims[k] = 1;
    for (int k = 0; k < used.n; k++) {
        const struct axis *u = &used.v[k];
        int found = -1;
        for (int j = 0; j < flat.n; j++)
            if (strcmp(flat.v[j].name, u->name) == 0 && flat.v[j].before == (u->size ? 1 : 0) && flat.v[j].dim < 0)
                found = j;
        if (found < 0)
            return NULL;
        flat.v[found].dim = u->dim;
        dims[u->dim] *= flat.v[found].size;
        order[at++] = found;
    }
    for (int j = 0; j < flat.n; j++) {
        sizes[j] = flat.v[j].size;
        if (flat.v[j].dim < 0)
            order[at++] = j;
    }
    if (at != flat.n || !product_fits(sizes, flat.n, &total))
        return NULL;
    int64_t *list = ARENA_ARRAY(a, int64_t, total), tiles = 1;
    for (int64_t k = 0; k < total; k++)
        list[k] = k;
    for (int k = 0; k < rank; k++)
        tiles *= dims[k];
    struct kinds kinds = { .n = 1 };
    (void)snprintf(kinds.word[0], sizeof kinds.word[0], "replicated");
    dims[rank] = total / tiles;
    return tiled(a, ARENA_NEW(a, struct meaning), reordered(a, list, flat.n, sizes, order), rank + 1, dims, &kinds);
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

static bool same_leaf(const struct meaning *a, const struct meaning *b)
{
    if (a->kind != b->kind || strcmp(a->group, b->group) != 0)
        return false;
    if (a->kind == MEANS_MAXIMAL)
        return a->device == b->device;
    if (a->kind != MEANS_TILED)
        return true;
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0 &&
           strcmp(a->subgroups, b->subgroups) == 0 && a->nholders == b->nholders &&
           memcmp(a->holders, b->holders, (size_t)a->nholders * sizeof *a->holders) == 0;
}

bool meaning_same(const struct meaning *a, const struct meaning *b)
{
    if (!a || !b)
        return a == b;
    if (a->kind != MEANS_TUPLE && b->kind != MEANS_TUPLE)
        return same_leaf(a, b);
    int64_t n = a->kind == MEANS_TUPLE ? a->nelems : b->nelems;
    if (a->kind == b->kind && a->nelems != b->nelems)
        return false;
    for (int64_t k = 0; k < n; k++)
        if (!same_leaf(a->kind == MEANS_TUPLE ? a->elems[k] : a, b->kind == MEANS_TUPLE ? b->elems[k] : b))
            return false;
    return true;
}

bool meaning_same_text(struct arena *a, const char *x, const char *y)
{
    if (!x || !y)
        return x == y;
    if (strcmp(x, y) == 0)
        return true;
    struct meaning *m = meaning_read(a, x, strlen(x)), *n = meaning_read(a, y, strlen(y));
    return m && n && meaning_same(m, n);
}

static bool word_edge(const char *text, const char *p)
{
    return p == text || (!isalnum((unsigned char)p[-1]) && p[-1] != '_');
}

bool meaning_is_said(struct arena *a, const char *text, const struct meaning *m, const cJSON *mesh)
{
    const char *end = text + strlen(text);
    if (!m)
        return false;
    for (const char *p = text; p < end; p++) {
        const struct meaning *found = NULL;
        struct cursor c = { p, end };
        int64_t device;
        if (*p == '{') {
            size_t n = bracketed(p, end);
            found = n > 2 && p[1] != '{' ? meaning_read(a, p, n) : NULL;
        } else if (*p == '[' && mesh) {
            const char *close = memchr(p, ']', (size_t)(end - p));
            found = close ? meaning_of_axes(a, p, (size_t)(close - p) + 1, mesh) : NULL;
        } else if (*p == 'r' && word_edge(text, p) && take(&c, "replicated")) {
            if (m->kind == MEANS_REPLICATED)
                return true;
        } else if (*p == 'm' && word_edge(text, p) && take(&c, "maximal")) {
            (void)take(&c, "=");
            (void)take(&c, "device=");
            if (take_int(&c, &device) && m->kind == MEANS_MAXIMAL && m->device == device)
                return true;
        }
        if (found && meaning_same(found, m))
            return true;
    }
    return false;
}

bool meaning_tile_of(const struct meaning *m, int64_t device, int64_t *index)
{
    for (int64_t k = 0; k < m->nholders; k++) {
        if (m->holders[k] != device)
            continue;
        int64_t tile = k / m->copies;
        for (int d = m->rank - 1; d >= 0; d--) {
            index[d] = tile % m->dims[d];
            tile /= m->dims[d];
        }
        return true;
    }
    return false;
}
