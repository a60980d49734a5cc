/* Orders as runs of digits: cutting along axes, common refinement. */
#include <string.h>

#include "sharding/internal.h"

bool runs_cut(const struct shardings *t, int naxes, const int64_t *dims, order_id o,
              struct runs *out)
{
    const struct order *e = order_get(t, o);
    if (e->explicit_)
        return false;
    INVARIANT(naxes <= AXES_MAX, "a tile assignment of %d axes", naxes);
    out->naxes = naxes;
    int nd = 0, from = 0;
    struct digit cur = { 1, 1, false };
    for (int i = 0; i < naxes; i++) {
        int64_t left = dims[i];
        while (left > 1) {
            if (cur.radix == 1) {
                INVARIANT(from < e->ndigits, "more tiles than devices");
                cur = e->digits[from++];
            }
            if (left % cur.radix == 0) {
                left /= cur.radix;
                out->d[nd++] = cur;
                cur.radix = 1;
            } else if (cur.radix % left == 0) {
                int64_t minor = cur.radix / left;
                out->d[nd++] = (struct digit){ left, cur.stride * minor, cur.reversed };
                cur.radix = minor;
                left = 1;
            } else {
                return false;
            }
        }
        out->end[i] = (uint8_t)nd;
    }
    out->ndigits = nd;
    return true;
}

static void border_add(struct borders *b, int64_t v)
{
    int i = b->nb + 1; /* entries 0..nb are there, ascending */
    while (i > 0 && b->b[i - 1] > v)
        i--;
    if (i > 0 && b->b[i - 1] == v)
        return;
    if (b->nb + 1 > DIGITS_MAX)
        return; /* cannot be a divisor chain any more; found out below */
    memmove(b->b + i + 1, b->b + i, (size_t)(b->nb + 1 - i) * sizeof *b->b);
    b->b[i] = v;
    b->nb++;
}

bool borders_unite(int nlists, const struct runs *const *lists, int64_t n, struct borders *out)
{
    out->nb = 0;
    out->b[0] = 1;
    if (n > 1)
        border_add(out, n);
    for (int k = 0; k < nlists; k++)
        for (int i = 0; i < lists[k]->ndigits; i++) {
            if (out->nb >= DIGITS_MAX - 1)
                return false;
            border_add(out, lists[k]->d[i].stride);
        }
    for (int j = 0; j < out->nb; j++)
        if (out->b[j + 1] % out->b[j])
            return false;
    return true;
}

int border_find(const struct borders *b, int64_t stride)
{
    for (int j = 0; j <= b->nb; j++)
        if (b->b[j] == stride)
            return j;
    INVARIANT(false, "stride %" PRId64 " is no border", stride);
}

int elementary(const struct borders *b, const struct runs *r, int from, int to, uint8_t *out)
{
    int n = 0;
    for (int i = from; i < to; i++) {
        int lo = border_find(b, r->d[i].stride);
        int hi = border_find(b, r->d[i].stride * r->d[i].radix);
        for (int j = hi - 1; j >= lo; j--)
            out[n++] = (uint8_t)(2 * j + (r->d[i].reversed ? 1 : 0));
    }
    return n;
}

int digits_from_elementary(const struct borders *b, int n, const uint8_t *e, struct digit *d, int nd)
{
    for (int i = 0; i < n; i++) {
        int j = e[i] >> 1;
        d[nd++] = (struct digit){ b->b[j + 1] / b->b[j], b->b[j], e[i] & 1 };
    }
    return nd;
}
