/* Tile assignments: dims over an order. */
#include <string.h>

#include "sharding/internal.h"

struct tiling tiling_make(struct shardings *t, int naxes, const int64_t *dims, order_id o)
{
    INVARIANT(naxes <= AXES_MAX, "a tile assignment of %d axes", naxes);
    uint32_t id = intern_put(&t->dims, dims, (size_t)naxes * sizeof *dims);
    return (struct tiling){ naxes, intern_at(&t->dims, id)->bytes, o };
}

struct tiling tiling_reshape(struct shardings *t, struct tiling a, int naxes, const int64_t *dims)
{
    INVARIANT(product(naxes, dims) == order_get(t, a.order)->ndevices, "reshape changes the size");
    return tiling_make(t, naxes, dims, a.order);
}

struct tiling tiling_transpose(struct shardings *t, struct tiling a, const int *perm)
{
    int64_t dims[AXES_MAX];
    for (int i = 0; i < a.naxes; i++)
        dims[i] = a.dims[perm[i]];
    return tiling_make(t, a.naxes, dims, order_transpose(t, a.naxes, a.dims, a.order, perm));
}

int64_t tiling_device(const struct shardings *t, struct tiling a, const int64_t *index)
{
    int64_t cell = 0;
    for (int i = 0; i < a.naxes; i++)
        cell = cell * a.dims[i] + index[i];
    return order_device(t, a.order, cell);
}

void tiling_index(const struct shardings *t, struct tiling a, int64_t device, int64_t *index)
{
    int64_t cell = order_cell(t, a.order, device);
    for (int i = a.naxes - 1; i >= 0; i--) {
        index[i] = cell < 0 ? -1 : cell % a.dims[i];
        cell = cell < 0 ? cell : cell / a.dims[i];
    }
}

bool tiling_equal(struct tiling a, struct tiling b)
{
    return a.order.i == b.order.i && a.naxes == b.naxes &&
           (a.dims == b.dims || memcmp(a.dims, b.dims, (size_t)a.naxes * sizeof *a.dims) == 0);
}

/* ---- printing ------------------------------------------------------------------------------------- */

static void print_list(struct str *out, int64_t n, const int64_t *v)
{
    for (int64_t i = 0; i < n; i++) {
        if (i)
            str_addc(out, ',');
        str_addi(out, v[i]);
    }
}

static bool has_iota_form(const struct order *o)
{
    for (int i = 0; i < o->ndigits; i++)
        if (o->digits[i].reversed)
            return false;
    return !o->explicit_;
}

/* <=[reshape]T(perm): reshape dims are the digits by falling stride, P-24. */
static void print_iota(const struct order *o, struct str *out)
{
    int64_t dims[DIGITS_MAX], perm[DIGITS_MAX];
    for (int i = 0; i < o->ndigits; i++) {
        int at = 0;
        for (int k = 0; k < o->ndigits; k++)
            at += o->digits[k].stride > o->digits[i].stride;
        perm[i] = at;
        dims[at] = o->digits[i].radix;
    }
    int64_t one = 1;
    str_adds(out, "<=[");
    print_list(out, o->ndigits ? o->ndigits : 1, o->ndigits ? dims : &one);
    str_addc(out, ']');
    if (o->ndigits < 2)
        return;
    str_adds(out, "T(");
    print_list(out, o->ndigits, perm);
    str_addc(out, ')');
}

void tile_print(const struct shardings *t, struct tiling a, bool listed, struct str *out)
{
    const struct order *o = order_get(t, a.order);
    str_addc(out, '[');
    print_list(out, a.naxes, a.dims);
    str_addc(out, ']');
    if (!listed && has_iota_form(o)) {
        print_iota(o, out);
        return;
    }
    for (int64_t i = 0; i < o->ndevices; i++) {
        if (i)
            str_addc(out, ',');
        str_addi(out, order_device(t, a.order, i));
    }
}

void tiling_print(const struct shardings *t, struct tiling a, struct str *out)
{
    tile_print(t, a, false, out);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static bool read_dims(struct lexer *l, int *n, int64_t *dims, const char *what)
{
    *n = 0;
    do {
        lex_blank(l);
        size_t at = l->i;
        int64_t v;
        if (!lex_int(l, &v, what))
            return false;
        if (v < 1)
            return lex_error(l, at, l->i - at, "%s of %" PRId64 ": must be at least 1", what, v);
        if (*n == AXES_MAX - 4)
            return lex_error(l, at, l->i - at, "more than %d %ss", AXES_MAX - 4, what);
        dims[(*n)++] = v;
    } while (lex_take(l, ','));
    return lex_expect(l, ']', what);
}

static bool read_perm(struct lexer *l, int n, int *perm)
{
    bool seen[AXES_MAX] = { false };
    size_t at = l->i;
    int k = 0;
    do {
        int64_t v;
        lex_blank(l);
        size_t here = l->i;
        if (!lex_int(l, &v, "axis of the transposition"))
            return false;
        if (v < 0 || v >= n || k == n || seen[v])
            return lex_error(l, here, l->i - here,
                             "T(..) must be a permutation of the %d reshape dimensions", n);
        seen[v] = true;
        perm[k++] = (int)v;
    } while (lex_take(l, ','));
    if (k != n)
        return lex_error(l, at, l->i - at,
                         "T(..) must be a permutation of the %d reshape dimensions", n);
    return lex_expect(l, ')', "transposition");
}

bool read_iota(struct lexer *l, int64_t total, size_t start, order_id *order)
{
    int64_t dims[AXES_MAX], have;
    int perm[AXES_MAX], n;
    if (!read_dims(l, &n, dims, "reshape dimension"))
        return false;
    if (!product_ok(dims, n, &have) || have > INT64_MAX / 4)
        return lex_error(l, start, l->i - start, "the device count does not fit");
    if (total > 0 && have != total)
        return lex_error(l, start, l->i - start,
                         "%" PRId64 " tiles, but the list is made of %" PRId64 " devices", total,
                         have);
    bool transposed = lex_take_text(l, "T(");
    if (transposed && !read_perm(l, n, perm))
        return false;
    if (!transposed && n > 1)
        return lex_error(l, start, l->i - start,
                         "several reshape dimensions need a transposition T(..)");
    if (transposed && n == 1)
        return lex_error(l, start, l->i - start, "one reshape dimension takes no T(..)");
    *order = order_from_iota(l->t, n, dims, transposed ? perm : NULL);
    return true;
}

static bool read_list(struct lexer *l, int64_t total, size_t start, order_id *order)
{
    struct arena tmp = { 0 };
    arena_open(&tmp);
    VEC(int64_t) v = { 0 };
    bool ok = true;
    do {
        int64_t x;
        lex_blank(l);
        size_t at = l->i;
        ok = lex_int(l, &x, "device number");
        if (ok && x < 0)
            ok = lex_error(l, at, l->i - at, "device number %" PRId64 " is negative", x);
        if (ok)
            vec_push(&tmp, &v, x);
    } while (ok && lex_take(l, ','));
    if (ok && v.n != total)
        ok = lex_error(l, start, l->i - start,
                       "%" PRId64 " tiles, but %" PRId64 " device numbers", total, v.n);
    if (ok)
        *order = order_from_list(l->t, v.n, v.v);
    arena_close(&tmp);
    return ok;
}

bool read_tile(struct lexer *l, int *naxes, int64_t *dims, order_id *order, bool *listed)
{
    lex_blank(l);
    size_t start = l->i;
    int64_t total;
    if (!lex_expect(l, '[', "tile assignment") || !read_dims(l, naxes, dims, "tile dimension"))
        return false;
    if (!product_ok(dims, *naxes, &total) || total > INT64_MAX / 4)
        return lex_error(l, start, l->i - start, "the number of tiles does not fit");
    *listed = !lex_take_text(l, "<=[");
    return *listed ? read_list(l, total, start, order) : read_iota(l, total, start, order);
}

bool tiling_parse(struct shardings *t, const struct source *src, struct span at, const char *p,
                  size_t n, size_t *used, struct tiling *out, struct diag *d)
{
    struct lexer l = { .t = t, .src = src, .d = d, .off = at.off, .p = p, .n = n };
    int64_t dims[AXES_MAX];
    int naxes;
    order_id order;
    bool listed;
    if (!read_tile(&l, &naxes, dims, &order, &listed))
        return false;
    *out = tiling_make(t, naxes, dims, order);
    *used = l.i;
    return true;
}
