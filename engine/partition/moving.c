/* How many cells of two tile assignments hold different devices.
 *
 * Cut both orders into common digits of the cell number and of the device number. Then a cell is
 * fixed when, for each digit of the device number, the digit of the cell that the one order puts
 * there equals the digit that the other puts there: equations c_i = c_j (or c_i = r-1-c_j when one is
 * reversed), whose solutions are counted component by component.
 */
#include "partition/list.h"

#include <string.h>

enum { MOST = 96 };

/* One digit: cell weight, device stride, radix. */
struct piece {
    int64_t weight, stride, radix;
    bool reversed;
};

struct pieces {
    int n;
    struct piece p[MOST];
};

static void read_order(const struct order *o, struct pieces *out)
{
    int64_t weight = o->ndevices;
    out->n = 0;
    for (int k = 0; k < o->ndigits && k < MOST; k++) {
        weight /= o->digits[k].radix;
        out->p[out->n++] = (struct piece){ weight, o->digits[k].stride, o->digits[k].radix,
                                           o->digits[k].reversed };
    }
}

/* Cuts the digit of x that has the border inside; by: weights or strides. 0: none has, 1: done,
 * -1: it does not fit. */
static int cut_at(struct pieces *x, int64_t border, bool weights)
{
    for (int i = 0; i < x->n; i++) {
        struct piece *p = &x->p[i];
        int64_t low = weights ? p->weight : p->stride;
        if (border <= low || border >= low * p->radix)
            continue;
        if (border % low != 0 || p->radix % (border / low) != 0 || x->n == MOST)
            return -1;
        int64_t f = border / low;
        struct piece *q = &x->p[x->n++];
        *q = *p;
        q->weight *= f;
        q->stride *= f;
        q->radix /= f;
        p->radix = f;
        return 1;
    }
    return 0;
}

static int cut_by(struct pieces *x, const struct pieces *y)
{
    int done = 0;
    for (int i = 0; i < y->n; i++) {
        int a = cut_at(x, y->p[i].weight, true), b = cut_at(x, y->p[i].stride, false);
        if (a < 0 || b < 0)
            return -1;
        done |= a | b;
    }
    return done;
}

static int find_weight(const struct pieces *x, int64_t weight)
{
    for (int i = 0; i < x->n; i++)
        if (x->p[i].weight == weight)
            return i;
    return -1;
}

static int find_stride(const struct pieces *x, int64_t stride)
{
    for (int i = 0; i < x->n; i++)
        if (x->p[i].stride == stride)
            return i;
    return -1;
}

/* Number of fixed cells over common digits; -1: they do not match after all. Follows the cycles of
 * cell digit -> device digit (by a) -> cell digit (by b). */
static int64_t fixed_cells(const struct pieces *a, const struct pieces *b)
{
    bool seen[MOST] = { false };
    int64_t fixed = 1;
    for (int i = 0; i < a->n; i++) {
        bool flip = false;
        if (seen[i])
            continue;
        for (int k = i; !seen[k];) {
            seen[k] = true;
            int j = find_stride(b, a->p[k].stride);
            if (j < 0 || b->p[j].radix != a->p[k].radix)
                return -1;
            flip ^= a->p[k].reversed ^ b->p[j].reversed;
            k = find_weight(a, b->p[j].weight);
            if (k < 0)
                return -1;
        }
        int64_t r = a->p[i].radix;
        fixed *= !flip ? r : r % 2;
    }
    return fixed;
}

static int64_t listed_moving(struct shardings *t, struct tiling a, struct tiling b, int64_t n)
{
    int64_t moving = 0;
    for (int64_t c = 0; c < n; c++)
        moving += order_device(t, a.order, c) != order_device(t, b.order, c);
    return moving;
}

int64_t permute_moving(struct shardings *t, struct tiling a, struct tiling b)
{
    const struct order *x = order_get(t, a.order), *y = order_get(t, b.order);
    int64_t n = x->ndevices;
    if (a.order.i == b.order.i)
        return 0;
    if (x->explicit_ || y->explicit_)
        return listed_moving(t, a, b, n);
    struct pieces p, q;
    read_order(x, &p);
    read_order(y, &q);
    int more = 1;
    while (more > 0) {
        int u = cut_by(&p, &q), v = cut_by(&q, &p);
        more = u < 0 || v < 0 ? -1 : u | v;
    }
    int64_t fixed = more < 0 ? -1 : fixed_cells(&p, &q);
    return fixed < 0 ? listed_moving(t, a, b, n) : n - fixed;
}
